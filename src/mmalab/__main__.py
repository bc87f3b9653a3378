"""``python -m mmalab`` is the ``mmalab`` command."""

from mmalab.cli.main import main

main()

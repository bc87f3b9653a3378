"""The reader's side of the docstrings: griffe calls this for each object of the source."""

from __future__ import annotations

from typing import Any

import griffe
from generators.docstrings import markdown

__all__ = ["Docstrings"]


class Docstrings(griffe.Extension):
    """Turns every docstring that is shown into Markdown."""

    def on_instance(self, *, obj: griffe.Object | griffe.Alias, **_: Any) -> None:
        """Called for each object of the source when it has been read."""
        if not obj.is_alias and obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)

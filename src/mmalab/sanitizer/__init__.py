"""The sanitizer: a happens-before model over the events of a run.

:class:`HappensBefore` listens to the machine and says which accesses are not ordered and which
protocols are broken, with a witness for each: the two accesses, the strongest order that does hold
between them, the missing edge, and the cheapest repair. It never waits for a bad interleaving.
"""

from mmalab.sanitizer.model import HappensBefore
from mmalab.sanitizer.run import emulate

__all__ = ["HappensBefore", "emulate"]

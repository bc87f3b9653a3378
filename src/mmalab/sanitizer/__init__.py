"""The sanitizer: a happens-before model over the events of a run.

:class:`HappensBefore` listens to the machine and says which accesses are not ordered and which
protocols are broken, with a witness for each: the two accesses, the strongest order that does hold
between them, the missing edge, and the cheapest repair. It never waits for a bad interleaving.

==================  ==============================================================================
clocks, lanes       vector clocks; what the lanes of a warp know
shadow, touch       who touched which bytes last
races, witness      the check on an access; from an unordered pair to words
guesses             loads that a compare-and-swap checks
publications        release and acquire on flags, counters and locks; fences
barriers, warps     CTA barriers; lane masks, collectives, colliding lanes
copies, cpasync     groups of cp.async; their agent
mbarrier            phases and protocol; `unchecked` is its static rule
uninitialised       bytes read before they were written
world, model, run   what the rules share; the listener; a run under the exact model
quick               `emulate`: the race filter first, the exact model where it has doubts
==================  ==============================================================================
"""

from mmalab.sanitizer.model import HappensBefore
from mmalab.sanitizer.quick import emulate

__all__ = ["HappensBefore", "emulate"]

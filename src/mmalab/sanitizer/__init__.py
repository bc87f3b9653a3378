"""The sanitizer: a happens-before model over the events of a run.

:class:`HappensBefore` listens to the machine and says which accesses are not ordered and which
protocols are broken, with a witness for each: the two accesses, the strongest order that does hold
between them, the missing edge, and the cheapest repair. It never waits for a bad interleaving.

==================  ==============================================================================
clocks, lanes       vector clocks; what the lanes of a warp know; `gathering` joins them
agents, groups      who carries out asynchronous operations; bulk and wgmma groups
shadow, touch       who touched which bytes last; one access, or a tile of an agent
races, sweep        the check on an access, and on a tile
witness, accesses   from an unordered pair to words; `async_words` where a side is asynchronous
guesses             loads that a compare-and-swap checks
publications        release and acquire on flags, counters and locks; fences
proxies             fence.proxy.async, tensor maps, fence.mbarrier_init
barriers, warps     CTA barriers; lane masks, collectives, colliding lanes
copies, cpasync     groups of cp.async; their agent
mbarrier, phases    mbarriers; one object. `protocol` is the rules of use, `unchecked` static
bulk, wgmma         bulk and tensor copies; products, their registers
tiles, tile_steps   operands of wgmma against the boxes that their bytes came in: `boxes`
warpgroups          what the four warps of a warpgroup must execute alike
cluster_barrier     barrier.cluster; `lifetime` is shared memory of CTAs that start and exit
uninitialised       bytes read before they were written
world, model, run   what the rules share; the listener; a run under the exact model
families            pairs that lack the same edge, told once
quick               `emulate`: the race filter or a comparison of the clusters first, then the exact
                    model where these have doubts
schedules, saved    outputs that differ between schedules; arrays put back between runs
==================  ==============================================================================
"""

from mmalab.sanitizer.model import HappensBefore
from mmalab.sanitizer.quick import emulate

__all__ = ["HappensBefore", "emulate"]

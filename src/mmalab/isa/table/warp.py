"""Instructions of a warp together: shuffles, votes, matches, reductions, elections.

``shfl.sync.bfly.b32 d|p, a, b, c, mask``: d is a of lane (lane xor b); p says whether that lane
lies in the segment that c describes.
"""

from __future__ import annotations

from mmalab.isa.chapter import chapter
from mmalab.isa.syntax import row

__all__ = ["ROWS"]

#: The forms without .sync left with PTX 6.4 (for sm_70 and later).
_GONE = (6, 3)

ROWS = chapter(
    "Parallel Synchronization and Communication Instructions",
    row("shfl.sync.mode=up|down|bfly|idx.b32 d|p?, a, b:u32, c:u32, mask:b32",
        "a of another lane", ptx=(6, 0),
        section="Data Movement and Conversion Instructions: shfl.sync"),
    row("shfl.mode=up|down|bfly|idx.b32 d|p?, a, b:u32, c:u32", "a of another lane", ptx=(3, 0),
        section="Data Movement and Conversion Instructions: shfl (deprecated)", until=_GONE),
    row("vote.sync.op=all|any|uni.pred d, a, mask:b32", "a of all lanes, combined", ptx=(6, 0)),
    row("vote.sync.op=ballot.b32 d, a:pred, mask:b32", "a of all lanes, as bits", ptx=(6, 0)),
    row("vote.op=all|any|uni.pred d, a", "a of all lanes, combined", ptx=(1, 2), until=_GONE),
    row("vote.op=ballot.b32 d, a:pred", "a of all lanes, as bits", ptx=(2, 0), until=_GONE),
    row("match.op=any.sync.type d:b32, a, mask:b32", "lanes that hold the same value",
        type="b32 b64", ptx=(6, 0), family="match.sync"),
    row("match.op=all.sync.type d:b32|p?, a, mask:b32", "the mask if all hold the same value",
        type="b32 b64", ptx=(6, 0), family="match.sync"),
    row("activemask.b32 d", "lanes that execute this together", ptx=(6, 2)),
    row("redux.sync.op=add|min|max.type d, a, mask:b32", "reduction over lanes", type="u32 s32",
        targets="sm_80+", ptx=(7, 0)),
    row("redux.sync.op=and|or|xor.b32 d, a, mask:b32", "reduction over lanes", targets="sm_80+",
        ptx=(7, 0)),
    row("redux.sync.op=min|max{.abs}{.NaN}.f32 d, a, mask:b32", "reduction over lanes",
        targets="sm_100f", ptx=(8, 6)),
    row("elect.sync d:b32|p, mask:b32", "one lane of the mask", targets="sm_90+", ptx=(8, 0)),
)

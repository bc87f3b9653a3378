"""Control flow, miscellaneous instructions, and the video family.

``brx.idx %r1, targets`` jumps to entry %r1 of a ``.branchtargets`` list.
"""

from __future__ import annotations

from mmalab.isa.chapter import chapter
from mmalab.isa.syntax import row

__all__ = ["ROWS"]

_FLOW = chapter(
    "Control Flow Instructions",
    row("bra{.uni} @target", "jump"),
    row("brx.idx{.uni} index:u32, @targets", "jump through a table", ptx=(6, 0)),
    row("call{.uni} !callee", "call a function"),
    row("ret{.uni}", "return; the end of an entry's thread"),
    row("exit", "end the thread"),
)

_MISCELLANEOUS = chapter(
    "Miscellaneous Instructions",
    row("trap", "stop the kernel with an error"),
    row("brkpt", "stop for the debugger"),
    row("pmevent #n", "trigger a performance event", values={"n": range(16)}, ptx=(1, 4)),
    row("pmevent.mask #n", "trigger performance events", values={"n": range(1 << 16)}, ptx=(3, 0)),
    row("nanosleep.u32 a", "do nothing for about a nanoseconds", ptx=(6, 3)),
    row("setmaxnreg.op=inc|dec.sync.aligned.u32 #n", "change the warpgroup's registers",
        targets="sm_90a sm_100f sm_110f sm_120f", ptx=(8, 0), values={"n": range(24, 257, 8)}),
)

_VIDEO = chapter(
    "Video Instructions",
    *(
        line
        for op in ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
        for line in (
            row(f"{op}.dtype.atype.btype{{.sat}} d, a, b{{, c:dtype}}", "scalar video operation",
                dtype="u32 s32", atype="u32 s32", btype="u32 s32", ptx=(2, 0)),
            row(f"{op}.dtype.atype.btype{{.sat}}.op=add|min|max d, a, b, c:dtype",
                "scalar video operation, then a second", dtype="u32 s32", atype="u32 s32",
                btype="u32 s32", ptx=(2, 0)),
        )
    ),
    *(
        row(f"{op}.dtype.atype.btype=u32{{.sat}}.wrapping=clamp|wrap{second}", "scalar video shift",
            dtype="u32 s32", atype="u32 s32", op="add min max", ptx=(2, 0))
        for op in ("vshl", "vshr")
        for second in (" d, a, b{, c:dtype}", ".op d, a, b, c:dtype")
    ),
    row("vmad.dtype.atype.btype{.po}{.sat}{.scale=shr7|shr15} d, a, b, c:dtype",
        "scalar video multiply-add", dtype="u32 s32", atype="u32 s32", btype="u32 s32",
        ptx=(2, 0)),
    *(
        row(f"vset.atype.btype.cmp{second}", "scalar video compare", atype="u32 s32",
            btype="u32 s32", cmp="eq ne lt le gt ge", op="add min max", ptx=(2, 0))
        for second in (" d:u32, a, b{, c:u32}", ".op d:u32, a, b, c:u32")
    ),
    *(
        row(f"{op}{lanes}.dtype.atype.btype{end} d, a, b, c:dtype",
            "SIMD video operation", dtype="u32 s32", atype="u32 s32", btype="u32 s32", ptx=(3, 0))
        for op in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")
        for lanes in (2, 4)
        for end in ("{.sat}", ".op=add")
    ),
    *(
        row(f"vset{lanes}.atype.btype.cmp{{.op=add}} d:u32, a, b, c:u32", "SIMD video compare",
            atype="u32 s32", btype="u32 s32", cmp="eq ne lt le gt ge", ptx=(3, 0))
        for lanes in (2, 4)
    ),
)

ROWS = (*_FLOW, *_MISCELLANEOUS, *_VIDEO)

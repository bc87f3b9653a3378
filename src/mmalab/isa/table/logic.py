"""Comparison, selection, logic and shifts.

``setp.lt.and.f32 p|q, a, b, c`` compares, combines the result with predicate c, and may write the
negated comparison's combination to q.
"""

from __future__ import annotations

from mmalab.isa.chapter import chapter
from mmalab.isa.form import Evidence
from mmalab.isa.syntax import Row, row

__all__ = ["ROWS"]

_BITS = "b16 b32 b64"
_INTEGERS = "u16 u32 u64 s16 s32 s64"
_SCALARS = f"{_BITS} {_INTEGERS} f32 f64"
_SIGNED, _UNSIGNED = "s16 s32 s64", "u16 u32 u64"
_EQUALITY = "eq ne"
_ORDER = "eq ne lt le gt ge"

_COMPARISON = chapter(
    "Comparison and Selection Instructions",
    *(
        line
        for boolean, c in (("", ""), (".bool", ", c:pred"))
        for line in (
            row(f"setp.cmp{boolean}.type d:pred|q?, a, b{c}", "compare", type=_BITS,
                cmp=_EQUALITY),
            row(f"setp.cmp{boolean}.type d:pred|q?, a, b{c}", "compare", type=_SIGNED,
                cmp=_ORDER),
            row(f"setp.cmp{boolean}.type d:pred|q?, a, b{c}", "compare", type=_UNSIGNED,
                cmp=f"{_ORDER} lo ls hi hs"),
            row(f"setp.fcmp{boolean}{{.ftz}}.f32 d:pred|q?, a, b{c}", "compare"),
            row(f"setp.fcmp{boolean}.f64 d:pred|q?, a, b{c}", "compare"),
            row(f"set.cmp{boolean}.dtype.atype d, a, b:atype{c}", "compare, all ones or 1.0",
                dtype="u32 s32 f32", atype=_BITS, cmp=_EQUALITY),
            row(f"set.cmp{boolean}.dtype.atype d, a, b:atype{c}", "compare, all ones or 1.0",
                dtype="u32 s32 f32", atype=_SIGNED, cmp=_ORDER),
            row(f"set.cmp{boolean}.dtype.atype d, a, b:atype{c}", "compare, all ones or 1.0",
                dtype="u32 s32 f32", atype=_UNSIGNED, cmp=f"{_ORDER} lo ls hi hs"),
            row(f"set.fcmp{boolean}{{.ftz}}.dtype.atype=f32 d, a, b:atype{c}",
                "compare, all ones or 1.0", dtype="u32 s32 f32"),
            row(f"set.fcmp{boolean}.dtype.atype=f64 d, a, b:atype{c}",
                "compare, all ones or 1.0", dtype="u32 s32 f32"),
        )
    ),
    row("selp.type d, a, b, c:pred", "c ? a : b", type=_SCALARS),
    row("slct.dtype.ctype=s32 d, a:dtype, b:dtype, c", "c >= 0 ? a : b", dtype=_SCALARS),
    row("slct{.ftz}.dtype.ctype=f32 d, a:dtype, b:dtype, c", "c >= 0 ? a : b", dtype=_SCALARS),
)


def _half_results(
    dtype: str, boolean: str, c: str, targets: str, ptx: tuple[int, int]
) -> tuple[Row, ...]:
    """set with a half-precision 1.0 or 0.0 as its result."""
    head, tail = f"set.cmp{boolean}.dtype={dtype}.atype", f" d, a, b:atype{c}"
    more = "|f16" if dtype == "bf16" else ""
    what = "compare, 1.0 or 0.0"
    return (
        row(head + tail, what, atype=_BITS, cmp=_EQUALITY, targets=targets, ptx=ptx),
        row(head + tail, what, atype=_INTEGERS, cmp=_ORDER, targets=targets, ptx=ptx),
        row(f"set.fcmp{boolean}.dtype={dtype}.atype=f32|f64{more}{tail}", what, targets=targets,
            ptx=ptx),
    )


#: Integer results of half-precision comparisons came after the half-precision ones.
_INTEGER_RESULT = dict.fromkeys(("u16", "s16", "u32", "s32"), ("any", (6, 5)))

_HALF = chapter(
    "Half Precision Comparison Instructions",
    *(
        line
        for boolean, c in (("", ""), (".bool", ", c:pred"))
        for line in (
            row(f"setp.fcmp{boolean}{{.ftz}}.f16 d:pred, a, b{c}", "compare", ptx=(4, 2)),
            row(f"setp.fcmp{boolean}{{.ftz}}.f16x2 d:pred|q, a, b{c}", "compare both halves",
                ptx=(4, 2)),
            row(f"setp.fcmp{boolean}.bf16 d:pred, a, b{c}", "compare", targets="sm_90+",
                ptx=(7, 8)),
            row(f"setp.fcmp{boolean}.bf16x2 d:pred|q, a, b{c}", "compare both halves",
                targets="sm_90+", ptx=(7, 8)),
            row(f"set.fcmp{boolean}{{.ftz}}.dtype.atype=f16 d, a, b:atype{c}",
                "compare, all ones or 1.0", dtype="f16 u16 s16 u32 s32", ptx=(4, 2),
                needs=_INTEGER_RESULT, evidence=Evidence.ASSEMBLED),
            row(f"set.fcmp{boolean}.dtype.atype=bf16 d, a, b:atype{c}",
                "compare, all ones or 1.0", dtype="bf16 u16 s16 u32 s32", targets="sm_90+",
                ptx=(7, 8)),
            row(f"set.fcmp{boolean}{{.ftz}}.dtype.atype=f16x2 d, a, b:atype{c}",
                "compare both halves", dtype="f16x2 u32 s32", ptx=(4, 2),
                needs=_INTEGER_RESULT, evidence=Evidence.ASSEMBLED),
            row(f"set.fcmp{boolean}.dtype.atype=bf16x2 d, a, b:atype{c}",
                "compare both halves", dtype="bf16x2 u32 s32", targets="sm_90+", ptx=(7, 8)),
            *_half_results("f16", boolean, c, "any", (4, 2)),
            *_half_results("bf16", boolean, c, "sm_90+", (7, 8)),
            row(f"set.fcmp{boolean}.ftz.dtype=f16.atype=f32 d, a, b:atype{c}",
                "compare, 1.0 or 0.0", ptx=(4, 2)),
        )
    ),
)

_LOGIC = chapter(
    "Logic and Shift Instructions",
    *(
        row(f"{op}.type d, a, b", f"bitwise {op}", type=f"pred {_BITS}")
        for op in ("and", "or", "xor")
    ),
    row("not.type d, a", "bitwise complement", type=f"pred {_BITS}"),
    row("cnot.type d, a", "a == 0 ? 1 : 0", type=_BITS),
    row("lop3.b32 d, a, b, c, #lut", "any function of three bits, from its truth table",
        values={"lut": range(256)}, ptx=(4, 3)),
    row("lop3.bool=or|and.b32 d|p, a, b, c, #lut, q:pred", "lop3, and d != 0 combined with q",
        values={"lut": range(256)}, ptx=(8, 2)),
    row("shf.l.wrapping=clamp|wrap.b32 d, a, b, c:u32", "high word of (b:a) << c", ptx=(3, 1)),
    row("shf.r.wrapping=clamp|wrap.b32 d, a, b, c:u32", "low word of (b:a) >> c", ptx=(3, 1)),
    row("shl.type d, a, b:u32", "a << b, zero from the width on", type=_BITS),
    row("shr.type d, a, b:u32", "a >> b, arithmetic for signed types",
        type=f"{_BITS} {_INTEGERS}"),
)

ROWS = (*_COMPARISON, *_HALF, *_LOGIC)

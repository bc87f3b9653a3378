"""Floating-point arithmetic: f32, f64, f32x2, the half formats, and the mixed-precision forms.

``fma.rn.ftz.f32 d, a, b, c`` rounds a * b + c once. Where `rounding` is missing, add, sub and mul
round to nearest even, and may be contracted into an fma (with ``.rn`` they may not).
"""

from __future__ import annotations

from mmalab.isa.chapter import chapter
from mmalab.isa.form import Evidence
from mmalab.isa.syntax import row

__all__ = ["ROWS"]

_SM80 = ("sm_80+", (7, 0))
_SM86 = ("sm_86+", (7, 2))
_SM90 = ("sm_90+", (7, 8))
#: A third input of min and max.
_THREE = ("sm_100+", (8, 8))

_SINGLE = chapter(
    "Floating-Point Instructions",
    row("testp.op=finite|infinite|number|notanumber|normal|subnormal.type d:pred, a",
        "class of a number", type="f32 f64", ptx=(2, 0)),
    row("copysign.type d, a, b", "b with the sign of a", type="f32 f64", ptx=(2, 0)),
    *(
        line
        for op, sign in (("add", "+"), ("sub", "-"), ("mul", "*"))
        for line in (
            row(f"{op}{{.rounding}}{{.ftz}}{{.sat}}.f32 d, a, b", f"a {sign} b"),
            row(f"{op}{{.rounding}}{{.ftz}}.f32x2 d, a, b", f"a {sign} b in two lanes",
                targets="sm_100+", ptx=(8, 6)),
            row(f"{op}{{.rounding}}.f64 d, a, b", f"a {sign} b"),
        )
    ),
    row("fma.rounding{.ftz}{.sat}.f32 d, a, b, c", "a * b + c, rounded once", ptx=(2, 0)),
    row("fma.rounding{.ftz}.f32x2 d, a, b, c", "a * b + c in two lanes", targets="sm_100+",
        ptx=(8, 6)),
    row("fma.rounding.f64 d, a, b, c", "a * b + c, rounded once", ptx=(1, 4)),
    row("mad.rounding{.ftz}{.sat}.f32 d, a, b, c", "the same as fma", ptx=(2, 0)),
    row("mad.rounding.f64 d, a, b, c", "the same as fma", ptx=(1, 4)),
    row("div.approx{.ftz}.f32 d, a, b", "a / b to 2 ulp, for |b| in [2^-126, 2^126]", ptx=(1, 4)),
    row("div.full{.ftz}.f32 d, a, b", "a / b to 2 ulp over the full range", ptx=(1, 4)),
    row("div.rounding{.ftz}.f32 d, a, b", "a / b, IEEE 754", ptx=(1, 4)),
    row("div.rounding.f64 d, a, b", "a / b, IEEE 754", ptx=(1, 4)),
    row("abs{.ftz}.f32 d, a", "|a|"),
    row("abs.f64 d, a", "|a|"),
    row("neg{.ftz}.f32 d, a", "-a"),
    row("neg.f64 d, a", "-a"),
    *(
        line
        for op, word in (("min", "smaller"), ("max", "larger"))
        for line in (
            row(f"{op}{{.ftz}}{{.NaN}}.f32 d, a, b{{, c}}",
                f"the {word} of two or three; a NaN loses without .NaN",
                needs={"NaN": _SM80}, operand_needs={"c": _THREE}, evidence=Evidence.ASSEMBLED),
            row(f"{op}{{.ftz}}{{.NaN}}.xorsign.abs.f32 d, a, b",
                f"the {word} magnitude, with the product's sign", targets="sm_86+", ptx=(7, 2)),
            row(f"{op}{{.ftz}}{{.NaN}}.abs.f32 d, a, b, c", f"the {word} of three magnitudes",
                targets=_THREE[0], ptx=_THREE[1], evidence=Evidence.ASSEMBLED),
            row(f"{op}.f64 d, a, b", f"the {word}; a NaN loses"),
        )
    ),
    *(
        line
        for op, what in (("rcp", "1 / a"), ("sqrt", "square root"))
        for line in (
            row(f"{op}.approx{{.ftz}}.f32 d, a", f"{what}, to 1 ulp", ptx=(1, 4)),
            row(f"{op}.rounding{{.ftz}}.f32 d, a", f"{what}, IEEE 754", ptx=(2, 0)),
            row(f"{op}.rounding.f64 d, a", f"{what}, IEEE 754", ptx=(1, 4)),
        )
    ),
    row("rcp.approx.ftz.f64 d, a", "1 / a, gross: 20 bits", ptx=(2, 1)),
    row("rsqrt.approx{.ftz}.f32 d, a", "1 / sqrt(a), relative error 2^-22.9", ptx=(1, 4)),
    row("rsqrt.approx.f64 d, a", "1 / sqrt(a)", ptx=(1, 4)),
    row("rsqrt.approx.ftz.f64 d, a", "1 / sqrt(a), gross: 20 bits", ptx=(4, 0)),
    row("sin.approx{.ftz}.f32 d, a", "sine, absolute error 2^-20.5 within [-2 pi, 2 pi]",
        ptx=(1, 4)),
    row("cos.approx{.ftz}.f32 d, a", "cosine, absolute error 2^-20.5 within [-2 pi, 2 pi]",
        ptx=(1, 4)),
    row("lg2.approx{.ftz}.f32 d, a", "logarithm to base 2", ptx=(1, 4)),
    row("ex2.approx{.ftz}.f32 d, a", "2 to the a, 2 ulp", ptx=(1, 4)),
    row("tanh.approx.f32 d, a", "hyperbolic tangent, relative error 2^-11", ptx=(7, 0)),
)

_HALF = chapter(
    "Half-Precision Floating-Point Instructions",
    *(
        line
        for op, sign in (("add", "+"), ("sub", "-"), ("mul", "*"))
        for line in (
            row(f"{op}{{.rn}}{{.ftz}}{{.sat}}.type d, a, b", f"a {sign} b", type="f16 f16x2",
                ptx=(4, 2)),
            row(f"{op}{{.rn}}.type d, a, b", f"a {sign} b", type="bf16 bf16x2",
                targets="sm_90+", ptx=(7, 8)),
        )
    ),
    row("fma.rn{.ftz}{.sat}.type d, a, b, c", "a * b + c, rounded once", type="f16 f16x2",
        ptx=(4, 2)),
    row("fma.rn{.ftz}.relu.type d, a, b, c", "a * b + c, not below zero", type="f16 f16x2",
        targets="sm_80+", ptx=(7, 0)),
    row("fma.rn{.relu}.type d, a, b, c", "a * b + c, rounded once", type="bf16 bf16x2",
        targets="sm_80+", ptx=(7, 0)),
    row("fma.rn.oob{.relu}.type d, a, b, c", "a * b + c, zero when an input is OOB-NaN",
        type="f16 f16x2 bf16 bf16x2", targets="sm_90+", ptx=(8, 1)),
    *(
        line
        for op, what, first in (("neg", "-a", (6, 0)), ("abs", "|a|", (6, 5)))
        for line in (
            row(f"{op}{{.ftz}}.type d, a", what, type="f16 f16x2", ptx=first),
            row(f"{op}.type d, a", what, type="bf16 bf16x2", targets="sm_80+", ptx=(7, 0)),
        )
    ),
    *(
        line
        for op, word in (("min", "smaller"), ("max", "larger"))
        for line in (
            row(f"{op}{{.ftz}}{{.NaN}}{{.xorsign.abs}}.type d, a, b", f"the {word}",
                type="f16 f16x2", targets="sm_80+", ptx=(7, 0), needs={"xorsign": _SM86}),
            row(f"{op}{{.NaN}}{{.xorsign.abs}}.type d, a, b", f"the {word}",
                type="bf16 bf16x2", targets="sm_80+", ptx=(7, 0), needs={"xorsign": _SM86}),
        )
    ),
    row("tanh.approx.type d, a", "hyperbolic tangent", type="f16 f16x2 bf16 bf16x2", ptx=(7, 0),
        needs={"bf16": _SM90, "bf16x2": _SM90}),
    row("ex2.approx.type d, a", "2 to the a", type="f16 f16x2", ptx=(7, 0)),
    row("ex2.approx.ftz.type d, a", "2 to the a", type="bf16 bf16x2", targets="sm_90+",
        ptx=(7, 8)),
)

_MIXED = chapter(
    "Mixed-Precision Floating-Point Instructions",
    row("add{.rounding}{.sat}.dtype=f32.atype=f16|bf16 d, a, c:f32", "widen(a) + c",
        targets="sm_100+", ptx=(8, 6)),
    row("sub{.rounding}{.sat}.dtype=f32.atype=f16|bf16 d, a, c:f32", "widen(a) - c",
        targets="sm_100+", ptx=(8, 6)),
    row("fma.rounding{.sat}.dtype=f32.atype=f16|bf16 d, a, b:atype, c:f32",
        "widen(a) * widen(b) + c, rounded once", targets="sm_100+", ptx=(8, 6)),
)

ROWS = (*_SINGLE, *_HALF, *_MIXED)

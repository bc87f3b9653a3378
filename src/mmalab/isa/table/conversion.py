"""mov, prmt, and every cvt.

``cvt.rn.satfinite.e4m3x2.f32 d, a, b`` converts two numbers and packs them, a in the high byte;
dtype is e4m3x2, atype f32. An integer result takes an integer rounding (``.rni``), a
floating-point one that loses bits a floating-point rounding (``.rn``).
"""

from __future__ import annotations

from mmalab.isa.chapter import chapter
from mmalab.isa.form import Evidence
from mmalab.isa.syntax import row

__all__ = ["ROWS"]

_INTEGERS = "u8 u16 u32 u64 s8 s16 s32 s64"
_FP8 = "e4m3x2 e5m2x2"
#: sm_89 took its FP8 conversions later than sm_90.
_ADA = {"sm_89": (8, 1)}
_FP6 = "e2m3x2 e3m2x2"
_BLACKWELL = "sm_100f sm_110f sm_120f"
_STOCHASTIC = "sm_100a sm_103a sm_107a"
_S2F6 = "sm_100a sm_103a sm_107a sm_110a sm_120a sm_121a"
_SM90 = ("sm_90+", (7, 8))
_SATFINITE = {"satfinite": ("any", (8, 1))}

_MOVES = chapter(
    "Data Movement and Conversion Instructions",
    row("mov.type d, a", "copy, or the address of a symbol",
        type="pred u16 u32 u64 s16 s32 s64 f32 f64"),
    row("mov.type d^, a^", "copy, pack or unpack", type="b16 b32 b64 b128"),
    row("mov.vec.type d<vec>, a<vec>", "copy a vector register or a vector of registers",
        type="b16 b32 u16 u32 s16 s32 f32", family="mov.vec"),
    row("mov.vec=v2.type d<vec>, a<vec>", "copy a vector register or a vector of registers",
        type="b64 u64 s64 f64", family="mov.vec"),
    row("prmt.b32{.mode} d, a, b, c", "pick four of eight bytes", ptx=(2, 0),
        mode="f4e b4e rc8 ecl ecr rc16"),
)


def _saturating(dtype: str) -> str:
    """The integer types whose range is not inside the range of `dtype`: .sat may act on them."""
    def limits(name: str) -> tuple[int, int]:
        bits = int(name[1:])
        return (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    low, high = limits(dtype)
    outside = (t for t in _INTEGERS.split() if limits(t)[0] < low or limits(t)[1] > high)
    return " ".join(outside)


_GENERAL = chapter(
    "Data Movement and Conversion Instructions",
    row("cvt.dtype.atype d~, a~", "integer to integer", dtype=_INTEGERS, atype=_INTEGERS),
    *(
        row(f"cvt.sat.dtype={dtype}.atype d~, a~", "integer to integer, clamped",
            atype=_saturating(dtype))
        for dtype in _INTEGERS.split()
    ),
    row("cvt.irnd{.ftz}{.sat}.dtype.atype=f32 d~, a~", "f32 to integer", dtype=_INTEGERS),
    row("cvt.irnd{.sat}.dtype.atype=f16|f64 d~, a~", "floating point to integer",
        dtype=_INTEGERS),
    row("cvt.irnd.dtype.atype=bf16 d~, a~", "bf16 to integer", dtype=_INTEGERS,
        targets="sm_90+", ptx=(7, 8)),
    row("cvt.frnd{.ftz}{.sat}.dtype=f32.atype d~, a~", "integer to f32", atype=_INTEGERS),
    row("cvt.frnd{.sat}.dtype=f16|f64.atype d~, a~", "integer to floating point",
        atype=_INTEGERS),
    row("cvt.frnd.dtype=bf16.atype d~, a~", "to bf16", atype=f"{_INTEGERS} f64",
        targets="sm_90+", ptx=(7, 8)),
    row("cvt{.irnd}{.ftz}{.sat}.dtype=f32.atype=f32 d~, a~", "to an integral value, or a copy"),
    row("cvt{.irnd}{.sat}.dtype=f16.atype=f16 d~, a~", "to an integral value, or a copy"),
    row("cvt{.irnd}{.sat}.dtype=f64.atype=f64 d~, a~", "to an integral value, or a copy"),
    row("cvt{.irnd}.dtype=bf16.atype=bf16 d~, a~", "to an integral value, or a copy",
        targets="sm_90+", ptx=(7, 8)),
    row("cvt.frnd{.ftz}{.sat}.dtype=f32.atype=f64 d~, a~", "f64 to f32"),
    row("cvt.frnd{.ftz}{.sat}.dtype=f16.atype=f32 d~, a~", "f32 to f16"),
    row("cvt.frnd{.sat}.dtype=f16.atype=f64 d~, a~", "f64 to f16"),
    row("cvt{.ftz}{.sat}.dtype=f32.atype=f16 d~, a~", "f16 to f32, exact"),
    row("cvt{.ftz}{.sat}.dtype=f64.atype=f32 d~, a~", "f32 to f64, exact"),
    row("cvt{.sat}.dtype=f64.atype=f16 d~, a~", "f16 to f64, exact"),
    row("cvt{.frnd}{.ftz}.dtype=f32.atype=bf16 d~, a~", "bf16 to f32, exact", targets="sm_80+",
        ptx=(7, 1), needs={"ftz": _SM90}),
    row("cvt{.frnd}.dtype=f16|f64.atype=bf16 d~, a~", "bf16 to another format", targets="sm_90+",
        ptx=(7, 8)),
    row("cvt{.frnd}.dtype=bf16.atype=f16 d~, a~", "f16 to bf16", targets="sm_90+", ptx=(7, 8)),
    row("cvt.frnd{.ftz}.dtype=bf16.atype=f32 d~, a~", "f32 to bf16", targets="sm_80+",
        ptx=(7, 0)),
)

_PACKED = chapter(
    "Data Movement and Conversion Instructions",
    row("cvt.frnd.relu{.satfinite}.dtype=f16|bf16.atype=f32 d~, a~",
        "f32 to f16 or bf16, not below zero", frnd="rn rz", targets="sm_80+", ptx=(7, 0),
        needs=_SATFINITE),
    row("cvt.frnd.satfinite.dtype=f16|bf16.atype=f32 d~, a~",
        "f32 to f16 or bf16, not above the largest finite", frnd="rn rz", ptx=(8, 1),
        needs={"bf16": ("sm_80+", (8, 1))}),
    row("cvt.frnd{.relu}{.satfinite}.dtype=f16x2|bf16x2.atype=f32 d, a, b:atype",
        "two f32, a in the high half", frnd="rn rz", targets="sm_80+", ptx=(7, 0),
        needs=_SATFINITE),
    row("cvt.rs{.relu}{.satfinite}.dtype=f16x2|bf16x2.atype=f32 d, a, b:atype, rbits:b32",
        "two f32, rounded stochastically", targets=_STOCHASTIC, ptx=(8, 7)),
    row("cvt.rna{.satfinite}.dtype=tf32.atype=f32 d, a", "f32 to tf32, ties away",
        targets="sm_80+", ptx=(7, 0), needs=_SATFINITE),
    row("cvt.frnd{.satfinite}{.relu}.dtype=tf32.atype=f32 d, a", "f32 to tf32", frnd="rn rz",
        targets="sm_90+", ptx=(7, 8), needs={"satfinite": ("sm_100+", (8, 6))}),
    row("cvt.rn.satfinite{.relu}.dtype.atype=f32 d, a, b:atype", "two f32 to FP8, a high",
        dtype=_FP8, targets="sm_89+", ptx=(7, 8), ptx_on=_ADA, evidence=Evidence.ASSEMBLED),
    row("cvt.rn.satfinite{.relu}.dtype.atype=f16x2 d, a", "two f16 to FP8", dtype=_FP8,
        targets="sm_89+", ptx=(7, 8), ptx_on=_ADA, evidence=Evidence.ASSEMBLED),
    row("cvt.rn{.relu}.dtype=f16x2.atype d, a", "two FP8 to f16, exact", atype=_FP8,
        targets="sm_89+", ptx=(7, 8), ptx_on=_ADA, evidence=Evidence.ASSEMBLED),
    row("cvt.rn.satfinite{.relu}.dtype.atype=f32 d, a, b:atype", "two f32 to FP6 or FP4, a high",
        dtype=f"{_FP6} e2m1x2", targets=_BLACKWELL, ptx=(8, 6)),
    row("cvt.rn{.relu}.dtype=f16x2.atype d, a", "two FP6 or FP4 to f16, exact",
        atype=f"{_FP6} e2m1x2", targets=_BLACKWELL, ptx=(8, 6)),
    row("cvt.rn.satfinite{.relu}.dtype.atype=bf16x2 d, a", "two bf16 to FP8, FP6 or FP4",
        dtype=f"{_FP8} {_FP6} e2m1x2", targets=_BLACKWELL, ptx=(9, 1)),
    row("cvt.rn.satfinite{.relu}.dtype.atype=f16x2 d, a", "two f16 to FP6 or FP4",
        dtype=f"{_FP6} e2m1x2", targets=_BLACKWELL, ptx=(9, 1)),
    row("cvt.rs{.relu}.satfinite.dtype.atype=f32 d, a<4>, rbits:b32",
        "four f32, rounded stochastically",
        dtype="e4m3x4 e5m2x4 e2m3x4 e3m2x4 e2m1x4", targets=_STOCHASTIC, ptx=(8, 7)),
    row("cvt.frnd{.satfinite}.dtype=ue8m0x2.atype=f32 d, a, b:atype", "two f32 to scale factors",
        frnd="rz rp", targets=_BLACKWELL, ptx=(8, 6)),
    row("cvt.frnd{.satfinite}.dtype=ue8m0x2.atype=bf16x2 d, a", "two bf16 to scale factors",
        frnd="rz rp", targets=_BLACKWELL, ptx=(8, 6)),
    row("cvt.rn.dtype=bf16x2.atype=ue8m0x2 d, a", "two scale factors to bf16, exact",
        targets=_BLACKWELL, ptx=(8, 6)),
    row("cvt.rn.satfinite{.relu}{.scaled::n2::ue8m0}.dtype=s2f6x2.atype=f32 d, a, b:atype"
        "{, scale:b16}", "two f32 to s2f6", targets=_S2F6,
        ptx=(9, 1)),
    row("cvt.rn.satfinite{.relu}{.scaled::n2::ue8m0}.dtype=s2f6x2.atype=bf16x2 d, a{, scale:b16}",
        "two bf16 to s2f6", targets=_S2F6, ptx=(9, 1)),
    row("cvt.rn{.satfinite}{.relu}{.scaled::n2::ue8m0}.dtype=bf16x2.atype=s2f6x2 d, a"
        "{, scale:b16}", "two s2f6 to bf16", targets=_S2F6,
        ptx=(9, 1)),
    row("cvt.pack.sat.dtype=u16|s16.atype=s32 d:b32, a, b:atype", "two s32 to halves",
        ptx=(6, 5)),
    row("cvt.pack.sat.dtype.atype=s32.ctype=b32 d:b32, a, b:atype, c", "two s32 behind c",
        dtype="u2 s2 u4 s4 u8 s8", ptx=(6, 5)),
)

ROWS = (*_MOVES, *_GENERAL, *_PACKED)

"""Integer arithmetic, extended-precision arithmetic, and the bit-field instructions.

``mad.wide.s16 d, a, b, c`` multiplies two 16-bit numbers and adds a 32-bit one: type is s16, d
and c are s32.
"""

from __future__ import annotations

from mmalab.isa.chapter import chapter
from mmalab.isa.syntax import row

__all__ = ["ROWS"]

_SIGNED = "s16 s32 s64"
_WORDS = "b32 b64"
_LONG = "u32 u64 s32 s64"

_ARITHMETIC = chapter(
    "Integer Arithmetic Instructions",
    row("add.integer d, a, b", "d = a + b, wrapping"),
    row("add.sat.s32 d, a, b", "d = a + b, clamped to the s32 range"),
    row("add.type d, a, b", "two 16-bit sums", type="u16x2 s16x2", targets="sm_90+", ptx=(8, 0)),
    row("sub.integer d, a, b", "d = a - b, wrapping"),
    row("sub.sat.s32 d, a, b", "d = a - b, clamped to the s32 range"),
    row("mul.part=lo|hi.integer d, a, b", "low or high half of a * b"),
    row("mul.wide.type d:wide, a, b", "the whole product", type="u16 u32 s16 s32"),
    row("mad.part=lo|hi.integer d, a, b, c", "low or high half of a * b, plus c"),
    row("mad.hi.sat.s32 d, a, b, c", "high half of a * b, plus c, clamped"),
    row("mad.wide.type d:wide, a, b, c:wide", "a * b + c at twice the width",
        type="u16 u32 s16 s32"),
    row("mul24.part=lo|hi.type d, a, b", "product of the low 24 bits", type="u32 s32"),
    row("mad24.part=lo|hi.type d, a, b, c", "24-bit multiply-add", type="u32 s32"),
    row("mad24.hi.sat.s32 d, a, b, c", "24-bit multiply-add, clamped"),
    row("sad.integer d, a, b, c", "c + |a - b|"),
    row("div.integer d, a, b", "quotient, rounded towards zero"),
    row("rem.integer d, a, b", "remainder with the sign of a"),
    row("abs.type d, a", "|a|", type=_SIGNED),
    row("neg.type d, a", "-a", type=_SIGNED),
    *(
        line
        for op, word in (("min", "smaller"), ("max", "larger"))
        for line in (
            row(f"{op}.integer d, a, b", f"the {word} of a and b"),
            row(f"{op}.type d, a, b", f"the {word}, per half", type="u16x2 s16x2",
                targets="sm_90+", ptx=(8, 0)),
            row(f"{op}.relu.type d, a, b", f"the {word}, not below zero", type="s16x2 s32",
                targets="sm_90+", ptx=(8, 0)),
        )
    ),
    row("popc.type d:u32, a", "number of one bits", type=_WORDS, ptx=(2, 0)),
    row("clz.type d:u32, a", "number of leading zeros", type=_WORDS, ptx=(2, 0)),
    row("bfind{.shiftamt}.type d:u32, a", "position of the most significant non-sign bit",
        type=_LONG, ptx=(2, 0)),
    row("fns.b32 d, mask:b32, base:b32, offset:s32", "position of the n-th set bit", ptx=(6, 0)),
    row("brev.type d, a", "bits in reverse order", type=_WORDS, ptx=(2, 0)),
    row("bfe.type d, a, b:u32, c:u32", "bit field of length c at b", type=_LONG, ptx=(2, 0)),
    row("bfi.type d, a, b, c:u32, e:u32", "b with a's low e bits inserted at c", type=_WORDS,
        ptx=(2, 0)),
    row("bmsk.wrapping=clamp|wrap.b32 d, a:u32, b:u32", "mask of b ones from bit a", ptx=(7, 6)),
    row("szext.wrapping=clamp|wrap.type d, a, b:u32", "sign- or zero-extend from bit b - 1",
        type="u32 s32", ptx=(7, 6)),
    row("dp4a.atype=u32|s32.btype=u32|s32 d:s32, a:b32, b:b32, c:s32",
        "dot product of four bytes, plus c", ptx=(5, 0)),
    row("dp2a.part=lo|hi.atype=u32|s32.btype=u32|s32 d:s32, a:b32, b:b32, c:s32",
        "dot product of two halves and two bytes, plus c", ptx=(5, 0)),
)

_EXTENDED = chapter(
    "Extended-Precision Arithmetic Instructions",
    row("add.cc.type d, a, b", "a + b, carry out to CC", type=_LONG, ptx=(1, 2)),
    row("addc{.cc}.type d, a, b", "a + b + CC", type=_LONG, ptx=(1, 2)),
    row("sub.cc.type d, a, b", "a - b, borrow out to CC", type=_LONG, ptx=(1, 2)),
    row("subc{.cc}.type d, a, b", "a - b - CC", type=_LONG, ptx=(1, 2)),
    row("mad.part=lo|hi.cc.type d, a, b, c", "half of a * b, plus c, carry out to CC",
        type=_LONG, ptx=(3, 0)),
    row("madc.part=lo|hi{.cc}.type d, a, b, c", "half of a * b, plus c + CC", type=_LONG,
        ptx=(3, 0)),
)

ROWS = (*_ARITHMETIC, *_EXTENDED)

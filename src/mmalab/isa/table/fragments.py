"""Where the elements of warp-level matrix operands live: each spread declared once, by its formula.

A spread is a CuTe layout from (lane, slot) to ``row + rows * column``. Lanes are written as
(t, g) = (lane mod 4, lane div 4), slots with the element in the low bits first. The accumulator of
every m16n8 shape is ``((4,8),(2,2)):((32,1),(16,8))``: t steps two columns, g one row, slot bit 0
one column, slot bit 1 eight rows. So lane 6 = (2, 1), slot 3 = (1, 1) holds
2*32 + 1 + 16 + 8 = 89 = row 9 + 16 * column 5.

A (M x K) and B (K x N, so row is k) of one shape and element width are the same spread for every
type of that width. Source: PTX ISA, "Matrix Fragments for mma"; checked element by element against
the closed formulas in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from mmalab.isa.form import Fragment
from mmalab.isa.vocabulary import type_bits
from mmalab.layouts import Layout

__all__ = ["MEASURED_ON", "QUAD_PAIR", "SPREADS", "Spread", "fragment", "spread"]


#: Where the fragments of MEASURED rows were seen at work.
MEASURED_ON = (
    "fragments reproduced element by element on one H200 (driver 580.159): "
    "tests/isa/measured_h200.json"
)


@dataclass(frozen=True, slots=True)
class Spread:
    """A layout and the matrix that it covers; see :class:`~mmalab.isa.form.Fragment`."""

    layout: str
    rows: int
    cols: int
    copies: int = 1
    batch: int = 1


def _wide(role: str, shape: str, one: Spread) -> dict[tuple[str, str, int], Spread]:
    """TF32 and f64 spread alike."""
    return {(role, shape, bits): one for bits in (32, 64)}


#: By (role, shape, bits of an element in its register).
SPREADS: dict[tuple[str, str, int], Spread] = {
    # --- A, M x K -----------------------------------------------------------------------------
    ("A", "m8n8k4", 64): Spread("((4,8),1):((8,1),0)", 8, 4),
    **_wide("A", "m16n8k4", Spread("((4,8),2):((16,1),8)", 16, 4)),
    **_wide("A", "m16n8k8", Spread("((4,8),(2,2)):((16,1),(8,64))", 16, 8)),
    ("A", "m16n8k16", 64): Spread("((4,8),(2,4)):((16,1),(8,64))", 16, 16),
    ("A", "m16n8k8", 16): Spread("((4,8),(2,2)):((32,1),(16,8))", 16, 8),
    ("A", "m16n8k16", 16): Spread("((4,8),(2,2,2)):((32,1),(16,8,128))", 16, 16),
    ("A", "m8n8k16", 8): Spread("((4,8),4):((32,1),8)", 8, 16),
    ("A", "m16n8k16", 8): Spread("((4,8),(4,2)):((64,1),(16,8))", 16, 16),
    ("A", "m16n8k32", 8): Spread("((4,8),(4,2,2)):((64,1),(16,8,256))", 16, 32),
    ("A", "m8n8k32", 4): Spread("((4,8),8):((64,1),8)", 8, 32),
    ("A", "m16n8k32", 4): Spread("((4,8),(8,2)):((128,1),(16,8))", 16, 32),
    ("A", "m16n8k64", 4): Spread("((4,8),(8,2,2)):((128,1),(16,8,512))", 16, 64),
    ("A", "m8n8k128", 1): Spread("((4,8),32):((256,1),8)", 8, 128),
    ("A", "m16n8k128", 1): Spread("((4,8),(32,2)):((512,1),(16,8))", 16, 128),
    ("A", "m16n8k256", 1): Spread("((4,8),(32,2,2)):((512,1),(16,8,2048))", 16, 256),
    # --- B, K x N -----------------------------------------------------------------------------
    ("B", "m8n8k4", 64): Spread("((4,8),1):((1,4),0)", 4, 8),
    **_wide("B", "m16n8k4", Spread("((4,8),1):((1,4),0)", 4, 8)),
    **_wide("B", "m16n8k8", Spread("((4,8),2):((1,8),4)", 8, 8)),
    **_wide("B", "m16n8k16", Spread("((4,8),4):((1,16),4)", 16, 8)),
    ("B", "m16n8k8", 16): Spread("((4,8),2):((2,8),1)", 8, 8),
    ("B", "m16n8k16", 16): Spread("((4,8),(2,2)):((2,16),(1,8))", 16, 8),
    ("B", "m16n8k32", 16): Spread("((4,8),(2,4)):((2,32),(1,8))", 32, 8),
    ("B", "m8n8k16", 8): Spread("((4,8),4):((4,16),1)", 16, 8),
    ("B", "m16n8k16", 8): Spread("((4,8),4):((4,16),1)", 16, 8),
    ("B", "m16n8k32", 8): Spread("((4,8),(4,2)):((4,32),(1,16))", 32, 8),
    ("B", "m16n8k64", 8): Spread("((4,8),(4,4)):((4,64),(1,16))", 64, 8),
    ("B", "m8n8k32", 4): Spread("((4,8),8):((8,32),1)", 32, 8),
    ("B", "m16n8k32", 4): Spread("((4,8),8):((8,32),1)", 32, 8),
    ("B", "m16n8k64", 4): Spread("((4,8),(8,2)):((8,64),(1,32))", 64, 8),
    ("B", "m16n8k128", 4): Spread("((4,8),(8,4)):((8,128),(1,32))", 128, 8),
    ("B", "m8n8k128", 1): Spread("((4,8),32):((32,128),1)", 128, 8),
    ("B", "m16n8k128", 1): Spread("((4,8),32):((32,128),1)", 128, 8),
    ("B", "m16n8k256", 1): Spread("((4,8),(32,2)):((32,256),(1,128))", 256, 8),
}

#: Accumulators, by M: every type, every K.
_ACCUMULATORS = {
    8: Spread("((4,8),2):((16,1),8)", 8, 8),
    16: Spread("((4,8),(2,2)):((32,1),(16,8))", 16, 8),
}

#: m8n8k4 of f16 runs a product in each quad pair: lanes are (t, quad, upper half).
QUAD_PAIR: dict[tuple[str, str], Spread] = {
    ("A", "row"): Spread("((4,4,2),4):((1,32,4),8)", 8, 4, batch=4),
    ("A", "col"): Spread("((4,4,2),4):((8,32,4),1)", 8, 4, batch=4),
    ("B", "row"): Spread("((4,4,2),4):((1,32,16),4)", 4, 8, batch=4),
    ("B", "col"): Spread("((4,4,2),4):((4,32,16),1)", 4, 8, batch=4),
    ("D", "f16"): Spread("((4,4,2),8):((1,64,4),8)", 8, 8, batch=4),
    ("D", "f32"): Spread("((2,2,4,2),(2,2,2)):((1,16,64,4),(8,2,32))", 8, 8, batch=4),
}


@lru_cache(maxsize=256)
def spread(source: Spread, type_name: str, bits: int = 0, element_lsb: int = 0) -> Fragment:
    """The fragment of one element type over a spread; `bits` is the container's width."""
    width = bits or type_bits(type_name)
    layout = Layout.parse(source.layout)
    register = 64 if width == 64 else 32
    return Fragment(
        layout=layout,
        rows=source.rows,
        cols=source.cols,
        type=type_name,
        bits=width,
        registers=layout[1].size * width // register,
        register_bits=register,
        element_lsb=element_lsb,
        copies=source.copies,
        batch=source.batch,
    )


def fragment(role: str, shape: str, type_name: str, bits: int = 0) -> Fragment:
    """The fragment of operand `role` (A, B, C, D) of a warp-level ``mma`` shape.

    `bits` is the width of an element in its register where the type alone does not say (4 for
    packed e2m1). FP4 in byte containers sits in bits 2 to 5 of its byte.
    """
    width = bits or type_bits(type_name)
    if role in "CD":
        return spread(_ACCUMULATORS[int(shape[1 : shape.index("n")])], type_name)
    lsb = 2 if type_name == "e2m1" and width == 8 else 0
    return spread(SPREADS[role, shape, width], type_name, width, lsb)

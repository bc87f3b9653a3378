"""Why a spelling that people look for does not exist: the rule behind a whole family of absences.

A lookup says which parts of an opcode differ from its neighbours. For some absences that is not
the answer, because no neighbour does the job::

    >>> why_absent("mma.sync.aligned.m16n8k32.row.row.s32.s8.s8.s32")[:44]
    'only 16-bit products of m8n8k4 take A or B '
    >>> why_absent("add.f33")
    ''
"""

from __future__ import annotations

import re

__all__ = ["why_absent", "why_no_operand"]

#: (what the spelling looks like, why there is none and what to do); the first that fits.
_ABSENT: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"mma\.(?:sync|sp)\b.*\.(?:row\.row|col\.row|col\.col)\b"), (
        "only 16-bit products of m8n8k4 take A or B in another order: all others, and every 8-bit "
        "one, are .row.col (A and B with K contiguous); ldmatrix.trans turns 16-bit tiles on the "
        "way, 8-bit tiles have to be transposed where they are staged")),
    (re.compile(r"(?:wgmma\.mma_async|mma\.(?:sync|sp))\b.*\.bf16\.bf16\.bf16\b"), (
        "no tensor core instruction accumulates in bf16: bf16 products have f32 sums (f16 sums "
        "exist for f16 and FP8 operands), so a bf16 rounding happens in the epilogue or between "
        "splits of K")),
    (re.compile(r"tcgen05\.commit\b.*\.shared::cta\b"), (
        "the mbarrier of tcgen05.commit has a .shared::cluster (or a generic) address; an address "
        "of the own CTA is one")),
)
#: A product of the warpgroup whose operands in shared memory may be MN-major.
_TRANSPOSES = re.compile(r"wgmma\.mma_async\b.*\.(?:f16|bf16)\.(?:f16|bf16)$")


def why_absent(opcode: str) -> str:
    """The rule that leaves no instruction of this spelling; "" where none is known."""
    return next((why for like, why in _ABSENT if like.search(opcode)), "")


#: The one product that takes a scale of D, and masked lanes of D, but not both.
_ONE_OF_TWO = re.compile(r"tcgen05\.mma\.sp\b.*\.kind::i8\b")


def why_no_operand(opcode: str) -> str:
    """What a product lacks that others have; "" for instructions of which nothing is known."""
    if _ONE_OF_TWO.match(opcode):
        return ("sparse products of kind::i8 take the scale of D or masked lanes of D, not both; "
                "dense ones take both")
    if not opcode.startswith("wgmma.mma_async") or _TRANSPOSES.search(opcode):
        return ""
    return ("only f16 and bf16 products have the two transpose immediates: FP8, integer and TF32 "
            "operands in shared memory are K-major")

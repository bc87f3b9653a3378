"""Why a spelling that people look for does not exist: the rule behind a whole family of absences.

A lookup says which parts of an opcode differ from its neighbours. For some absences that is not
the answer, because no neighbour does the job::

    >>> why_absent("mma.sync.aligned.m16n8k32.row.row.s32.s8.s8.s32")[:43]
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
    return next((why for like, why in _ABSENT if like.search(opcode)), "") or _no_shape(opcode)


_WGMMA = re.compile(r"wgmma\.mma_async(\.sp)?\b.*?\.m(\d+)n(\d+)k(\d+)\.\w+\.(\w+)")
#: Bits of the elements of A.
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
#: Types whose N goes in steps of 16 from 32 on.
_COARSE = ("s8", "u8", "b1")


def _no_shape(opcode: str) -> str:
    """Which of the three sizes of a wgmma product is none, and its nearest.

        >>> _no_shape("wgmma.mma_async.sync.aligned.m64n264k16.f32.bf16.bf16")
        'N = 264: N is 8 to 256 in steps of 8 (256)'
    """
    found = _WGMMA.match(opcode)
    if not found or found[5] not in _BITS:
        return ""
    m, n, k = (int(size) for size in found.group(2, 3, 4))
    coarse = found[5] in _COARSE
    legal = [n for n in range(8, 257, 8) if not coarse or n <= 32 or n % 16 == 0]
    depth = 256 // _BITS[found[5]] * (2 if found[1] else 1)
    steps = "steps of 8" + (" up to 32, then of 16" if coarse else "")
    below, above = [x for x in legal if x < n][-1:], [x for x in legal if x > n][:1]
    near = ", ".join(str(x) for x in below + above)
    rules = [
        *([f"M = {m}: M is always 64"] if m != 64 else []),
        *([f"N = {n}: N is 8 to 256 in {steps} ({near})"] if n not in legal else []),
        *([f"K = {k}: K of {found[5]} is {depth}"] if k != depth else []),
    ]
    return "; ".join(rules)


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

"""The layout of an operand in shared memory that a descriptor stands for.

An operand is MN x K (MN is M for A, N for B). Its *canonical layout* maps (mn, k) to an element
offset; T elements are 16 bytes:

==========  ==============  ====================================================================
major       swizzle         layout, sizes : strides
==========  ==============  ====================================================================
K           none            ((8,m),(T,k)) : ((T,SBO),(1,LBO))
K           32, 64, 128 B   ((8,m),(T,2|4|8,k)) : ((2T|4T|8T,SBO),(1,T,LBO))
MN          none            ((T,m),(8,k)) : ((1,SBO),(T,LBO))
MN          32, 64, 128 B   ((T*2|4|8,m),(8,k)) : ((1,LBO),(2T|4T|8T,SBO))
==========  ==============  ====================================================================

A dense K is 32 bytes, so that a swizzled row holds all of it and LBO goes unread; a sparse B of 64
bytes in rows of 32 finds its other half LBO away. The first four probes of
records/h200/wgmma_equality.json show it: they were compared with chunks of 16 bytes in a row
instead, and the outputs that differ on the chip are exactly those in which the two rules differ.

The swizzle then permutes the 16-byte chunks of *absolute* addresses: with 128B, bits 6:4 are XORed
with bits 9:7. A pattern that does not begin at a multiple of 1024 (512, 256) names its phase, bits
9:7 of where it begins, in the base offset, which is taken off before the XOR.

    >>> from mmalab.descriptors import WGMMA
    >>> tile = WGMMA.decode(WGMMA.encode(start=0x400, sbo=1024, swizzle="128B"))
    >>> print(canonical_layout(tile, 64, 16, 16, "K"))
    Swizzle<3,3,3> o 512 o ((8,8),(8,2)):((64,512),(1,8))
    >>> hex(byte_addresses(tile, 64, 16, 16, "K")[1, 8])       # row 1, chunk 1 -> chunk 0
    '0x480'

Source: PTX ISA, "Canonical Layouts"; CUTLASS, cute/arch/mma_sm90_desc.hpp.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mmalab.descriptors.smem import SmemDescriptor
from mmalab.errors import UsageError
from mmalab.isa.tensor_memory import KINDS
from mmalab.layouts import TMA_SWIZZLES, ComposedLayout, Layout, Swizzle

__all__ = ["MAJORS", "byte_addresses", "canonical_layout", "check_dtype", "check_major",
           "chunk_addresses", "fitting_swizzles", "k_steps", "packed"]

#: Which dimension of the operand is contiguous.
Major = Literal["K", "MN"]
MAJORS: tuple[Major, ...] = get_args(Major)

#: Bytes of a row of the swizzle.
_ROW = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
_WHERE = "PTX ISA, Canonical Layouts"
#: Operand types by unit.
_TYPES = {
    "wgmma": ["f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "b1"],
    "tcgen05": list(dict.fromkeys(name for kind in KINDS.values() for name in kind.operands)),
}


def _plain(one: SmemDescriptor, mn: int, k: int, bits: int, major: str) -> Layout:
    """The layout before the swizzle, in elements."""
    if one.swizzle not in _ROW:
        raise UsageError(f"swizzle {one.swizzle}", "has no canonical layout here",
                         legal=list(_ROW), where=_WHERE)
    unit = 128 // bits  # elements of 16 bytes: T
    row, lbo, sbo = (8 * n // bits for n in (_ROW[one.swizzle], one.lbo, one.sbo))
    plain = one.swizzle == "none"
    if major == "K":
        chunks: tuple[tuple[int, ...], tuple[int, ...]] = (
            (unit, -(-k // unit)), (1, lbo if plain else unit))
        if k > row and not plain:
            chunks = (unit, row // unit, -(-k // row)), (1, unit, lbo)
        groups = (8, -(-mn // 8)), (row, sbo)
        return Layout((groups[0], chunks[0]), (groups[1], chunks[1]))
    if major != "MN":
        raise UsageError(f"major {major}", "which dimension is contiguous", legal=MAJORS,
                         where=_WHERE)
    across, along = (sbo, lbo) if plain else (lbo, sbo)
    return Layout(((row, -(-mn // row)), (8, -(-k // 8))), ((1, across), (row, along)))


def canonical_layout(one: SmemDescriptor, mn: int, k: int, bits: int,
                     major: str) -> ComposedLayout:
    """(mn, k) to the element's number, counted from address 0 (elements of `bits` bits).

    `mn` and `k` are rounded up to whole cores. A base offset is not in it (it is no layout of this
    kind); :func:`byte_addresses` has it.

    Raises:
        UsageError: no such major, a swizzle without such a layout, elements that tear a chunk.
    """
    _check_bits(bits)
    swizzle = TMA_SWIZZLES[one.swizzle].recast(8, bits)
    return ComposedLayout(swizzle, one.start * 8 // bits, _plain(one, mn, k, bits, major))


def _check_bits(bits: int) -> None:
    if bits not in (1, 4, 8, 16, 32):
        raise UsageError(f"elements of {bits} bits", "do not fill 16 bytes evenly",
                         legal=["1", "4", "8", "16", "32"], where=_WHERE)


def chunk_addresses(one: SmemDescriptor, mn: int, k: int, bits: int,
                    major: str) -> NDArray[np.int64]:
    """Byte address of each 16-byte chunk of an operand of `mn` x `k` elements.

    [mn, k / T] where K is contiguous, [mn / T, k] where MN is; T = 128 / `bits`. The swizzle moves
    whole chunks, so this is all that a reader of the operand needs.
    """
    _check_bits(bits)
    layout = _plain(one, mn, k, bits, major)
    unit = 128 // bits
    rows, columns = np.arange(mn), np.arange(k)
    if major == "K":
        columns = columns[::unit]
    else:
        rows = rows[::unit]
    offsets = _at(layout[0], rows)[:, None] + _at(layout[1], columns)
    return swizzled(one, one.start + offsets * bits // 8)


def _at(layout: Layout, index: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(layout.indices()[index])


def swizzled(one: SmemDescriptor, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
    """Addresses after the descriptor's XOR."""
    swizzle: Swizzle = TMA_SWIZZLES[one.swizzle]
    phased = addresses - (one.base_offset << 7)
    moved = phased & swizzle.source_mask
    return np.asarray(addresses ^ moved >> swizzle.shift)


def byte_addresses(one: SmemDescriptor, mn: int, k: int, bits: int,
                   major: str) -> NDArray[np.int64]:
    """[mn, k]: the address of the byte that holds (the low bit of) each element."""
    unit = 128 // bits
    chunks = chunk_addresses(one, mn, k, bits, major)
    axis, size = (1, k) if major == "K" else (0, mn)
    inside = np.arange(size) % unit * bits // 8
    spread = np.repeat(chunks, unit, axis=axis)[:mn, :k]
    return np.asarray(spread + (inside if major == "K" else inside[:, None]))


def packed(major: str, swizzle: str, mn: int, k: int, bits: int, *, start: int = 0,
           base_offset: int = 0) -> SmemDescriptor:
    """The descriptor of an `mn` x `k` tile without gaps: atoms along MN first, then along K (but K
    first where K is contiguous and nothing swizzled).

        >>> packed("K", "128B", 64, 64, 16).sbo, packed("MN", "64B", 64, 16, 16).lbo
        (1024, 512)

    A K-major row that the swizzle's row does not hold goes on LBO away, behind the last row of the
    tile; where it is held, LBO is not read, and 16 by convention::

        >>> packed("K", "32B", 64, 32, 16).lbo, packed("K", "32B", 64, 16, 16).lbo
        (2048, 16)

    Raises:
        UsageError: no such major or swizzle.
    """
    if swizzle == "128B_ATOM_32B":
        raise UsageError(f"a tile with swizzle {swizzle}", "its offsets are not worked out here",
                         legal=["lbo= and sbo= of one's own, without a tile", *_ROW], where=_WHERE)
    if swizzle not in _ROW or major not in MAJORS:
        raise UsageError(f"{major}-major tile, swizzle {swizzle}", "not a canonical layout",
                         legal=[*MAJORS, *_ROW], where=_WHERE)
    row = _ROW[swizzle]
    atom = 8 * row
    if major == "MN":
        layer = atom * -(-mn * bits // (8 * row))  # 8 of K
        lbo, sbo = (layer, atom) if swizzle == "none" else (atom, layer)
    elif swizzle == "none":
        lbo, sbo = atom, atom * -(-k * bits // (8 * row))
    else:
        lbo, sbo = atom * -(-mn // 8) if k * bits > 8 * row else 16, atom
    return SmemDescriptor(start, lbo, sbo, swizzle, base_offset)


def check_dtype(unit: str, dtype: str) -> None:
    """Whether an instruction of `unit` (wgmma, tcgen05) multiplies a type as it lies packed.

        >>> check_dtype("wgmma", "e2m1")
        Traceback (most recent call last):
          ...
        mmalab.errors.UsageError: operands of e2m1: wgmma multiplies no such type
          legal: f16, bf16, tf32, e4m3, e5m2, s8, u8, b1
          see:   PTX ISA, wgmma.mma_async

    Raises:
        UsageError: it does not.
    """
    legal = _TYPES[unit]
    if dtype in ("e3m2", "e2m3") and unit == "tcgen05":
        raise UsageError(f"operands of {dtype}", "each lies in a byte of shared memory",
                         legal="e4m3, which lies so too", where="PTX ISA, tcgen05.mma")
    if dtype not in legal:
        instruction = "wgmma.mma_async" if unit == "wgmma" else "tcgen05.mma"
        raise UsageError(f"operands of {dtype}", f"{unit} multiplies no such type", legal=legal,
                         where=f"PTX ISA, {instruction}")


def check_major(unit: str, dtype: str, bits: int, major: str, swizzle: str) -> None:
    """Whether an instruction of `unit` (wgmma, tcgen05) reads such an operand at all.

        >>> check_major("wgmma", "e4m3", 8, "MN", "128B")
        Traceback (most recent call last):
          ...
        mmalab.errors.UsageError: an MN-major operand of e4m3: wgmma reads 16-bit types so, no other
          legal: --major K (transposed where it is staged), or a 16-bit type
          see:   PTX ISA, Strides of Matrices

    Raises:
        UsageError: it does not.
    """
    if major != "MN" or bits == 16:
        return
    where = "PTX ISA, Strides of Matrices"
    given = f"an MN-major operand of {dtype}"
    transposed = "--major K (transposed where it is staged)"
    if unit == "wgmma":
        raise UsageError(given, "wgmma reads 16-bit types so, no other",
                         legal=[transposed, "or a 16-bit type"], where=where)
    if bits < 8:
        raise UsageError(given, f"{unit} reads types of 4 and 6 bits K-major only",
                         legal=transposed, where=where)
    if bits == 32 and swizzle != "128B_ATOM_32B":
        raise UsageError(f"{given} with swizzle {swizzle}", f"{unit} reads 32-bit types MN-major "
                         "with one swizzle only", legal=["swizzle=128B_ATOM_32B", transposed],
                         where=where)


def fitting_swizzles(mn: int, bits: int, major: str) -> list[str]:
    """The swizzles whose atoms a tile of `mn` rows (or columns) fills.

    K-major atoms are 8 rows high; MN-major ones 16, 32, 64 bf16 elements wide: N = 24 fits none of
    them, and a producer that writes whole atoms scrambles such a tile.

        >>> fitting_swizzles(40, 16, "MN"), fitting_swizzles(96, 16, "MN")
        (['none'], ['none', '32B', '64B'])
    """
    _check_bits(bits)
    return [name for name, row in _ROW.items()
            if mn % (8 if major == "K" else row * 8 // bits) == 0]


def k_steps(one: SmemDescriptor, mn: int, k: int, bits: int, major: str) -> list[int]:
    """Bytes to add to the start address for each instruction's part of a tile `k` elements deep.

    An instruction takes 32 bytes of K. A K-major tile wider than its swizzle's row lies in columns
    of atoms, one behind the other.

        >>> k_steps(packed("K", "128B", 64, 128, 16), 64, 128, 16, "K")
        [0, 32, 64, 96, 8192, 8224, 8256, 8288]
    """
    starts = range(0, k, 256 // bits)
    row = _ROW[one.swizzle] * 8 // bits
    if major == "K" and one.swizzle != "none":
        column = -(-mn // 8) * one.sbo
        return [at // row * column + at % row * bits // 8 for at in starts]
    layout = _plain(one, mn, k, bits, major)[1]
    return [int(layout(at)) * bits // 8 for at in starts]

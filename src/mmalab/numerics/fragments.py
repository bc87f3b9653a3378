"""Matrix instructions on registers: the specification that every compiled one is tested against.

`fragment_mma` takes the registers of all lanes as arrays [warps, registers, 32], puts the elements
where the form's fragments say, multiplies with the unit's arithmetic and puts the results back. It
holds no lane arithmetic of its own, but for two things that no fragment describes: where the
metadata of a sparse A lies and which lanes hold the block scales.

A sparse A keeps 2 of 4 elements of a row (1 of 2 for tf32; 2 of 4 pairs for 4-bit types) and two
bits say where each belongs. The hardware multiplies the stored elements with the elements of B
that they meet and fuses the products as if there were no gaps::

    row of A = [0, x, 0, y]   stored [x, y]   indices [1, 3]   metadata 0b1101
    products x * B[1, n], y * B[3, n]
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.errors import UnsupportedInstruction, UsageError
from mmalab.isa.form import Form, Fragment
from mmalab.numerics.operands import Words
from mmalab.numerics.reference import multiply, multiply_rows
from mmalab.numerics.unit import Unit

__all__ = ["fragment_mma", "from_registers", "metadata_indices", "to_registers"]

Registers = NDArray[np.unsignedinteger]


def fragment_mma(unit: Unit, form: Form, a: Registers, b: Registers, c: Registers, *,
                 metadata: Registers | None = None, selector: int = 0,
                 scale_a: Registers | None = None, byte_a: int = 0, thread_a: int = 0,
                 scale_b: Registers | None = None, byte_b: int = 0, thread_b: int = 0,
                 ) -> Registers:
    """One warp-wide matrix instruction for a stack of warps.

    Args:
        unit: whose arithmetic (:func:`mmalab.numerics.unit_for`).
        form: the instruction; its fragments A, B, C and D place the elements.
        a, b, c: registers, shape [warps, registers, 32], uint32 (uint64 for FP64).
        metadata, selector: the metadata register [warps, 32] and the sparsity selector of mma.sp.
        scale_a, scale_b: scale registers [warps, 32] of block-scaled forms, with their byte-id and
            thread-id immediates.

    Returns:
        The registers of D, shape [warps, registers, 32].
    """
    frag = {name.upper(): fragment for name, fragment in form.fragments.items()}
    quads = _quad_pairs(form)
    left, right, start = (from_registers(frag[name], regs, quads)
                          for name, regs in (("A", a), ("B", b), ("C", c)))
    scales = {} if not unit.scale else {
        "scale_a": _row_scales(unit, right.shape[-2], scale_a, byte_a, thread_a),
        "scale_b": _column_scales(unit, right.shape[-2], scale_b, byte_b, thread_b),
    }
    k = left.shape[-1]
    c_type = frag["C"].type
    if left.shape[-1] == right.shape[-2]:
        result = multiply(unit, left, right, start, k=k, c_type=c_type, **scales)
    else:
        if metadata is None:
            raise UsageError(form.key, "a sparse A needs its metadata register")
        where = metadata_indices(frag["A"], right.shape[-2], metadata, selector)
        result = _sparse(unit, left, right, start, where, c_type, scales)
    return to_registers(frag["D"], result, quads)


def _sparse(unit: Unit, a: Words, b: Words, c: Words, where: NDArray[np.int64], c_type: str,
            scales: dict[str, Words]) -> Words:
    """Stored elements of A (.., M, K/2) with the elements of B that they meet."""
    if unit.scale:
        raise UnsupportedInstruction(f"{unit.name}: sparse", "the sum of block-scaled sparse "
                                     "products is not known")
    columns = np.swapaxes(b, -1, -2)[..., None, :, :]
    met = np.take_along_axis(columns, where[..., None, :], axis=-1)
    # All stored products of one instruction are fused, as a dense instruction of that K does.
    return multiply_rows(unit, a, met, c, k=a.shape[-1], c_type=c_type)


def _quad_pairs(form: Form) -> bool:
    """Whether the warp holds four independent 8 x 8 x 4 products (mma.m8n8k4 of f16)."""
    return form.shape == (8, 8, 4) and {f.type for f in form.fragments.values()} <= {"f16", "f32"}


@lru_cache(maxsize=512)
def _places(fragment: Fragment, quads: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(lane * slots + slot) of each element, and the element of each (lane, slot)."""
    index = fragment.indices().astype(np.intp)
    index = index % fragment.rows * fragment.cols + index // fragment.rows
    if quads:
        pair = (np.arange(fragment.lanes) % 16 // 4)[:, None]
        index = index + pair * fragment.rows * fragment.cols
    source = np.zeros(int(index.max()) + 1, np.intp)
    source[index.reshape(-1)] = np.arange(index.size)
    return source, index.reshape(-1)


def from_registers(fragment: Fragment, registers: Registers, quads: bool = False) -> Words:
    """Elements of a fragment as a matrix of words, [warps, rows, cols] ([warps, 4, ...] quads)."""
    warps = registers.shape[0]
    lanes = np.moveaxis(registers, 1, 2)  # [warps, lane, register]
    per = fragment.register_bits // fragment.bits
    wide = np.dtype(f"u{fragment.register_bits // 8}").type
    shifts = np.arange(per, dtype=wide) * wide(fragment.bits) + wide(fragment.element_lsb)
    fmt = formats.get(fragment.type)
    mask = wide((1 << min(fmt.bits, fragment.register_bits)) - 1)
    slots = (lanes[..., None].astype(wide) >> shifts & mask).reshape(warps, -1)
    source, _ = _places(fragment, quads)
    shape = (warps, 4, fragment.rows, fragment.cols) if quads else (
        warps, fragment.rows, fragment.cols)
    return slots[:, source].reshape(shape).astype(fmt.dtype)


def to_registers(fragment: Fragment, words: Words, quads: bool = False) -> Registers:
    """The inverse of :func:`from_registers`: [warps, registers, lanes]."""
    warps = words.shape[0]
    _, index = _places(fragment, quads)
    wide = np.dtype(f"u{fragment.register_bits // 8}").type
    per = fragment.register_bits // fragment.bits
    slots = words.reshape(warps, -1)[:, index].astype(wide)
    slots = slots.reshape(warps, fragment.lanes, fragment.registers, per)
    shifts = np.arange(per, dtype=wide) * wide(fragment.bits)
    packed = np.bitwise_or.reduce(slots << shifts, axis=-1)
    return np.ascontiguousarray(np.moveaxis(packed, 1, 2))


def metadata_indices(a: Fragment, k: int, metadata: Registers, selector: int,
                     ) -> NDArray[np.int64]:
    """For each stored element of A the logical k that it stands for: [warps, rows, stored].

    `metadata` is the register, [warps, 32]; `k` the logical K. Two bits per stored element (per
    stored pair for 4-bit types, four bits per element for tf32, of which only 0100 and 1110 mean
    anything), laid along K within a row. A row's bits come from one, two or four lanes of its quad,
    which the selector chooses.
    """
    bits = _row_bits(a, k, metadata, selector)  # [warps, 16, bits of the row]
    stored = np.arange(a.cols)
    if a.type == "tf32":
        nibble = bits.reshape(*bits.shape[:2], a.cols, 4) @ np.array([1, 2, 4, 8])
        return 2 * stored + (nibble >> 2 == 3)
    field = bits.reshape(*bits.shape[:2], -1, 2) @ np.array([1, 2])
    if a.bits == 4:  # pairs: 2 of 4 pairs of each 8 elements
        return stored // 4 * 8 + np.repeat(field, 2, axis=-1) * 2 + stored % 2
    return stored // 2 * 4 + field


def _row_bits(a: Fragment, k: int, metadata: Registers, selector: int) -> NDArray[np.int64]:
    """The metadata bits of each row, lowest k first: [warps, 16, bits]."""
    per_row = k * 2 if a.type == "tf32" else k // 2 if a.bits == 4 else k
    words = metadata.astype(np.int64).reshape(-1, 8, 4)  # [warps, quad, lane of quad]
    bits = words[..., None] >> np.arange(32) & 1
    if per_row == 16:  # one lane: low half row g, high half row g + 8
        half = bits[:, :, selector].reshape(-1, 8, 2, 16)
        return half.swapaxes(1, 2).reshape(-1, 16, 16)
    if per_row == 32:  # two lanes: 16 bits each of row g and of row g + 8
        pair = bits[:, :, 2 * selector : 2 * selector + 2].reshape(-1, 8, 2, 2, 16)
        return pair.transpose(0, 3, 1, 2, 4).reshape(-1, 16, 32)
    # Four lanes: odd lanes hold row g + 8, the upper two lanes the upper half of K.
    quad = bits.reshape(-1, 8, 2, 2, 32)
    return quad.transpose(0, 3, 1, 2, 4).reshape(-1, 16, 64)


def _bytes(registers: Registers, first: int, count: int) -> Words:
    shifts = 8 * np.arange(first, first + count)
    return (registers.astype(np.int64)[..., None] >> shifts & 0xFF).astype(np.uint8)


def _row_scales(unit: Unit, k: int, registers: Registers | None, byte: int, thread: int) -> Words:
    """Scales of the rows of A, [warps, 16, K / block]: the even lane of the pair has row g, the
    odd one row g + 8."""
    if registers is None:
        raise UsageError(unit.name, "needs the register of A's scales")
    chosen = _bytes(registers, byte, k // unit.scale_block).reshape(-1, 8, 4, k // unit.scale_block)
    return chosen[:, :, 2 * thread : 2 * thread + 2].swapaxes(1, 2).reshape(
        -1, 16, k // unit.scale_block)


def _column_scales(unit: Unit, k: int, registers: Registers | None, byte: int,
                   thread: int) -> Words:
    """Scales of the columns of B, [warps, K / block, 8]: one lane of each quad."""
    if registers is None:
        raise UsageError(unit.name, "needs the register of B's scales")
    chosen = _bytes(registers, byte, k // unit.scale_block).reshape(-1, 8, 4, k // unit.scale_block)
    return chosen[:, :, thread].swapaxes(1, 2)

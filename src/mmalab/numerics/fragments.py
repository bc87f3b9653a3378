"""Matrix instructions on registers: the specification that every compiled one is tested against.

`fragment_mma` takes the registers of all lanes as arrays [warps, registers, 32], puts the elements
where the form's fragments say, multiplies with the unit's arithmetic and puts the results back. It
holds no lane arithmetic of its own, but for which lanes hold the block scales.

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
from mmalab.errors import UsageError
from mmalab.isa.form import Form, Fragment, Sparsity
from mmalab.numerics.operands import Words
from mmalab.numerics.reference import multiply, multiply_rows
from mmalab.numerics.unit import Unit

__all__ = [
    "fragment_mma", "from_registers", "metadata_indices", "multiply_sparse", "to_registers",
]

_WHERE = "mmalab.numerics"

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
    frag = form.fragments
    left, right, start = (from_registers(frag[name], regs)
                          for name, regs in (("A", a), ("B", b), ("C", c)))
    scales = {} if not unit.scale else {
        "scale_a": _row_scales(unit, left.shape[-1], scale_a, byte_a, thread_a),
        "scale_b": _column_scales(unit, left.shape[-1], scale_b, byte_b, thread_b),
    }
    k = left.shape[-1]  # of a sparse A: what is stored
    c_type = frag["C"].type
    if form.sparsity is None:
        result = multiply(unit, left, right, start, k=k, c_type=c_type, **scales)
    else:
        if metadata is None:
            raise UsageError(form.key, "a sparse A needs its metadata register",
                             legal="metadata=", where=_WHERE)
        where = metadata_indices(form.sparsity, k, metadata, selector)
        result = multiply_sparse(unit, left, right, start, where, c_type, **scales)
    return to_registers(frag["D"], result)


def multiply_sparse(unit: Unit, a: Words, b: Words, c: Words, where: NDArray[np.int64],
                    c_type: str, **scales: Words) -> Words:
    """Stored elements of A (.., M, K/2) with the elements of B (.., K, N) that they meet.

    `where` (.., M, K/2) is the k of each (:func:`metadata_indices`).
    """
    columns = np.swapaxes(b, -1, -2)[..., None, :, :]
    met = np.take_along_axis(columns, where[..., None, :], axis=-1)
    # All stored products of one instruction are fused, as a dense instruction of that K does
    # (seen on an H200; for block-scaled kinds inferred, a scale then spans twice the logical k).
    return multiply_rows(unit, a, met, c, k=a.shape[-1], c_type=c_type, **scales)


@lru_cache(maxsize=512)
def _places(fragment: Fragment) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(lane * slots + slot) of each element in row-major order, and the inverse.

    Of an element that several lanes hold (`copies`), the last lane's is read and all are written.
    """
    index = fragment.indices().astype(np.intp)
    size = fragment.rows * fragment.cols
    matrix, inside = np.divmod(index, size)
    index = matrix * size + inside % fragment.rows * fragment.cols + inside // fragment.rows
    source = np.zeros(size * fragment.batch, np.intp)
    source[index.reshape(-1)] = np.arange(index.size)
    return source, index.reshape(-1)


def from_registers(fragment: Fragment, registers: Registers) -> Words:
    """Elements of a fragment as matrices of words: [warps, rows, cols], or [warps, batch, rows,
    cols] where a warp holds several."""
    warps = registers.shape[0]
    lanes = np.moveaxis(registers, 1, 2)  # [warps, lane, register]
    per = fragment.register_bits // fragment.bits
    wide = np.dtype(f"u{fragment.register_bits // 8}").type
    shifts = np.arange(per, dtype=wide) * wide(fragment.bits) + wide(fragment.element_lsb)
    fmt = formats.get(fragment.type)
    mask = wide((1 << min(fmt.bits, fragment.register_bits)) - 1)
    slots = (lanes[..., None].astype(wide) >> shifts & mask).reshape(warps, -1)
    source, _ = _places(fragment)
    batch = (fragment.batch,) if fragment.batch > 1 else ()
    shape = (warps, *batch, fragment.rows, fragment.cols)
    return np.asarray(slots[:, source].reshape(shape).astype(fmt.dtype))


def to_registers(fragment: Fragment, words: Words) -> Registers:
    """The inverse of :func:`from_registers`: [warps, registers, lanes]."""
    warps = words.shape[0]
    _, index = _places(fragment)
    wide = np.dtype(f"u{fragment.register_bits // 8}").type
    per = fragment.register_bits // fragment.bits
    slots = words.reshape(warps, -1)[:, index].astype(wide)
    slots = slots.reshape(warps, fragment.lanes, fragment.registers, per)
    shifts = np.arange(per, dtype=wide) * wide(fragment.bits)
    packed = np.bitwise_or.reduce(slots << shifts, axis=-1)
    return np.ascontiguousarray(np.moveaxis(packed, 1, 2))


def metadata_indices(sparsity: Sparsity, stored: int, metadata: Registers, selector: int,
                     ) -> NDArray[np.int64]:
    """For each stored element of A the logical k that it stands for: [warps, 16, stored].

    `metadata` is the register, [warps, 32]; `stored` the number of columns of the stored A.
    Patterns that the hardware does not define are read as the bits say.
    """
    place = sparsity.metadata.indices().reshape(sparsity.metadata[0].size, -1, order="F")
    contributors, group = sparsity.contributors, np.arange(8)[:, None]
    lanes = 4 * group + contributors * selector + np.arange(contributors)
    bits = sparsity.index_bits
    words = metadata.astype(np.int64)[:, lanes.reshape(-1)]
    entries = words[..., None] >> bits * np.arange(place.shape[1]) & (1 << bits) - 1
    flat = np.zeros((len(words), place.size), np.int64)
    # The layout numbers contributing lanes (q, g) with q first, as `lanes` does.
    flat[:, place.reshape(-1)] = entries.reshape(len(words), -1)
    field = flat.reshape(len(words), -1, 16).swapaxes(1, 2)  # [warps, row, stored unit]
    if sparsity.index_bits == 4:
        field = (field >> 2 == 3).astype(np.int64)  # 1110 is the second of two, 0100 the first
    column = np.arange(stored)
    unit = column // sparsity.unit
    per_group = sparsity.kept // sparsity.unit
    inside = field[..., unit] * sparsity.unit + column % sparsity.unit
    return unit // per_group * sparsity.group + inside


def _bytes(registers: Registers, first: int, count: int) -> Words:
    shifts = 8 * np.arange(first, first + count)
    return (registers.astype(np.int64)[..., None] >> shifts & 0xFF).astype(np.uint8)


def _row_scales(unit: Unit, k: int, registers: Registers | None, byte: int, thread: int) -> Words:
    """Scales of the rows of A, [warps, 16, K / block]: the even lane of the pair has row g, the
    odd one row g + 8."""
    if registers is None:
        raise UsageError(unit.name, "needs the register of A's scales", legal="scale_a=",
                         where=_WHERE)
    chosen = _bytes(registers, byte, k // unit.scale_block).reshape(-1, 8, 4, k // unit.scale_block)
    return chosen[:, :, 2 * thread : 2 * thread + 2].swapaxes(1, 2).reshape(
        -1, 16, k // unit.scale_block)


def _column_scales(unit: Unit, k: int, registers: Registers | None, byte: int,
                   thread: int) -> Words:
    """Scales of the columns of B, [warps, K / block, 8]: one lane of each quad."""
    if registers is None:
        raise UsageError(unit.name, "needs the register of B's scales", legal="scale_b=",
                         where=_WHERE)
    chosen = _bytes(registers, byte, k // unit.scale_block).reshape(-1, 8, 4, k // unit.scale_block)
    return chosen[:, :, thread].swapaxes(1, 2)

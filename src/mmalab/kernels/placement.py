"""Layouts as code: the layout that places bytes in a picture places them in a kernel too.

A layout with power-of-two extents is a function of the thread number, so it can be written as
shifts, masks and multiplications. The shared-memory offset that each lane of ``ldmatrix.x4`` reads
of a tile with 64-byte rows is a composition of two layouts::

    >>> from mmalab.layouts import compose
    >>> form = isa.find("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
    >>> lanes = ldmatrix_lanes(register_origins(form, "A"), lines=128)
    >>> print(lanes)                       # lane -> line + 128 * byte
    (8,2,2):(1,8,2048)
    >>> print(compose(Layout((128, 64), (64, 1)), lanes))
    (8,2,2):(64,512,16)

and ``emit_layout(b, composed, tid)`` writes the instructions that evaluate it. Which lane supplies
which row is read from the fragment of the instruction's form and from ldmatrix's own; neither is
repeated here.

A *line* is what shared memory holds contiguously: a row of A, a column of B (B is stored N x K).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.isa import Form
from mmalab.layouts import ComposedLayout, Layout, coalesce
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["LDMATRIX", "emit_layout", "ldmatrix_lanes", "register_origins"]

LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"

#: (line, byte) of an 8 x 16-byte matrix in the tile of one instruction's operand.
Origin = tuple[int, int]


def emit_layout(b: KernelBuilder, layout: Layout | ComposedLayout,
                coordinate: Register) -> Register:
    """Write the evaluation of `layout` at a 32-bit register; the result is a new u32 register.

    The last mode takes what is left of the coordinate, as everywhere in CuTe's algebra.

    Raises:
        UsageError: an extent that is no power of two (but the last), which has no bit of its own.
    """
    if isinstance(layout, Layout):
        return _emit_linear(b, layout, coordinate, 0)
    value = _emit_linear(b, layout.layout, coordinate, layout.offset)
    swizzle = layout.swizzle
    if not swizzle.bits:
        return value
    moved = b.and_("b32", value, swizzle.source_mask)
    shift = "shr" if swizzle.shift >= 0 else "shl"
    moved = getattr(b, shift)("b32" if shift == "shl" else "u32", moved, abs(swizzle.shift))
    return b.xor("b32", value, moved)


def _emit_linear(b: KernelBuilder, layout: Layout, coordinate: Register, offset: int) -> Register:
    leaves = coalesce(layout).leaves
    total = b.mov("u32", offset)
    passed = 0
    for at, (extent, stride) in enumerate(leaves):
        if extent & (extent - 1):
            raise UsageError(f"mode {extent}:{stride} of {layout}", "cannot be written as bits",
                             legal="extents that are powers of two", where="emit_layout")
        if stride:
            digit = b.shr("u32", coordinate, passed) if passed else coordinate
            if at < len(leaves) - 1:
                digit = b.and_("b32", digit, extent - 1)
            total = b.mad_lo("u32", digit, stride, total)
        passed += extent.bit_length() - 1
    return total


def register_origins(form: Form, operand: str) -> tuple[Origin, ...]:
    """Where the 8 x 16-byte matrix of each register of A or B begins, as (line, byte).

    Raises:
        UsageError: the fragment is not made of matrices in the order in which ldmatrix gives them.
    """
    fragment = form.fragments[operand]
    where = fragment.coordinates()
    lines, depth = (where[..., 0], where[..., 1]) if operand == "A" else (
        where[..., 1], where[..., 0])
    size = fragment.bits // 8
    shape = (fragment.lanes, fragment.registers, 4 // size)
    lines, bytes_ = lines.reshape(shape), depth.reshape(shape) * size
    row, column = _ldmatrix_place()
    inside = np.arange(4 // size) * size
    if not ((lines == lines[0, :, :1] + row[:, None, None]).all()
            and (bytes_ == bytes_[0, :, :1] + column[:, None, None] + inside).all()):
        raise UsageError(f"operand {operand} of {form.key}", "is no row of ldmatrix's matrices",
                         legal="8-, 16- and 32-bit operands of mma.sync m16n8", where=LDMATRIX)
    return tuple((int(lines[0, r, 0]), int(bytes_[0, r, 0])) for r in range(fragment.registers))


def _ldmatrix_place() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and first byte that each lane receives of one matrix of ldmatrix."""
    first = isa.find(LDMATRIX).fragments["D"].coordinates()[:, 0]
    return first[:, 0], first[:, 1] * 2


def ldmatrix_lanes(origins: Sequence[Origin], lines: int) -> Layout:
    """Which row each lane of ldmatrix.x4 gives: lane -> line + `lines` * byte.

    `origins` are the four matrices in register order; lane 8 j + r gives row r of matrix j.

    Raises:
        UsageError: the four origins are no parallelogram, so no layout describes them.
    """
    (l0, b0), (l1, b1), (l2, b2), (l3, b3) = origins
    if (l0, b0) != (0, 0) or (l3, b3) != (l1 + l2, b1 + b2):
        raise UsageError(f"matrices at {list(origins)}", "are not a 2 x 2 arrangement from (0, 0)",
                         legal=f"{(l1 + l2, b1 + b2)} for the last one", where=LDMATRIX)
    return Layout((8, 2, 2), (1, l1 + lines * b1, l2 + lines * b2))

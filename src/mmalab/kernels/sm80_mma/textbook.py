"""The textbook kernel: a 16 x 16 tile of C for each warp, fragments straight from global memory.

Every warp fetches every fragment that it needs, so each value of A is read N / 16 times and each of
B M / 16 times: the tensor cores wait. Everything after this rung is about that.

    >>> kernel = textbook(64, 32, 48)
    >>> kernel.grid, kernel.block
    ((1, 2, 1), (128, 1, 1))
"""

from __future__ import annotations

from functools import partial

from mmalab import isa
from mmalab.kernels.arguments import check_arrays
from mmalab.kernels.placement import emit_layout
from mmalab.kernels.reference import matrix_product
from mmalab.kernels.sm80_mma.problem import check_sizes, matrix_params
from mmalab.kernels.sm80_mma.recipe import recipe
from mmalab.layouts import Layout
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Register

__all__ = ["textbook"]

_SHAPE = "m16n16k16"
_TILE, _WARPS = 16, (2, 2)
_KEY = f"wmma.mma.sync.aligned.row.col.{_SHAPE}.f32.bf16.bf16.f32"


def textbook(m: int, n: int, k: int) -> Kernel:
    """C = A x B^T in bf16 with f32 accumulation: A is M x K, B is stored N x K.

    Raises:
        UsageError: sizes that are no multiples of 16.
    """
    check_sizes(_TILE, m=m, n=n, k=k)
    name = f"textbook_{m}x{n}x{k}"
    row = recipe("bf16")
    params = matrix_params(m, n, k, row)
    high, wide = (_TILE * count for count in _WARPS)
    return Kernel(
        name=name,
        ptx=_text(name, m, n, k),
        entry=name,
        grid=(-(-n // wide), -(-m // high), 1),
        block=(32 * _WARPS[0] * _WARPS[1], 1, 1),
        params=params,
        target=row.target,
        reference=partial(matrix_product, family=row.unit, k=row.k),
        validate=partial(check_arrays, name, params),
        facts={"tile": (high, wide, _TILE), "warp_tile": (_TILE, _TILE), "stages": 0,
               "layout": None, "swizzle": None, "shared_bytes": 0, "instruction": _KEY,
               "unit": row.unit, "instruction_k": row.k, "promote_every": None,
               "slices": k // _TILE, "slices_per_iteration": 1, "flops": 2 * m * n * k},
    )


def _text(name: str, m: int, n: int, k: int) -> str:
    b = KernelBuilder(name, arity=isa.find)
    parameters = [b.param(letter, "u64") for letter in "abc"]
    b.reqntid(32 * _WARPS[0] * _WARPS[1])
    a, b_, c = (b.cvta("to.global.u64", b.load_param(p)) for p in parameters)
    row, column = _first(b, 0, b.ctaid.y), _first(b, 1, b.ctaid.x)
    _leave_outside(b, row, m, column, n)
    a = b.add("u64", a, b.mul_wide("u32", row, k * 2))
    b_ = b.add("u64", b_, b.mul_wide("u32", column, k * 2))
    form = isa.find(_KEY)
    sums = [b.mov("f32", 0.0) for _ in range(form.fragments["D"].registers)]
    with b.loop(k // _TILE, unroll=False):
        left, right = (b.regs("b32", form.fragments[x].registers) for x in "AB")
        b.emit(f"wmma.load.a.sync.aligned.row.{_SHAPE}.global.bf16", left, b.at(a), k)
        b.emit(f"wmma.load.b.sync.aligned.col.{_SHAPE}.global.bf16", right, b.at(b_), k)
        b.emit(_KEY, sums, left, right, sums)
        for pointer in (a, b_):
            b.add("s64", pointer, _TILE * 2, out=pointer)
    place = b.mad_wide("u32", row, n * 4, c)
    place = b.mad_wide("u32", column, 4, place)
    b.emit(f"wmma.store.d.sync.aligned.row.{_SHAPE}.global.f32", b.at(place), sums, n)
    b.emit("ret")
    return b.text()


def _first(b: KernelBuilder, axis: int, block: Register) -> Register:
    """First row (axis 0) or column (axis 1) of the warp's tile of C."""
    strides = (_TILE, 0) if axis == 0 else (0, _TILE)
    threads = Layout((32, _WARPS), (0, strides))
    inside = emit_layout(b, threads, b.mov("u32", b.tid.x))
    return b.mad_lo("u32", b.mov("u32", block), _TILE * _WARPS[axis], inside)


def _leave_outside(b: KernelBuilder, row: Register, m: int, column: Register, n: int) -> None:
    """End the warps whose tile lies past an edge; a warp leaves whole."""
    for place, size, count in ((row, m, _WARPS[0]), (column, n, _WARPS[1])):
        if size % (_TILE * count):
            with b.guard(b.setp("ge", "u32", place, size)):
                b.emit("exit")

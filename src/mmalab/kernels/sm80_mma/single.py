"""One tensor-core instruction and nothing else: the article's first kernels.

``one_mma`` loads every fragment by the documented mapping, element pair by element pair, and
``one_wmma`` lets the instructions do it. Both take B as K x N, rows contiguous; a register of the B
fragment of ``mma.sync`` holds two neighbouring k, so its halves come from two rows.

    >>> kernel = one_mma()
    >>> [(p.name, p.shape) for p in kernel.params]
    [('a', (16, 16)), ('b', (16, 8)), ('c', (16, 8))]
"""

from __future__ import annotations

from functools import partial

from mmalab import isa
from mmalab.isa import Fragment
from mmalab.kernels.arguments import check_arrays
from mmalab.kernels.placement import emit_layout
from mmalab.kernels.reference import matrix_product
from mmalab.kernels.sm80_mma.recipe import recipe
from mmalab.layouts import Layout, compose
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.kernel import Kernel, Param
from mmalab.ptx.nodes import Register

__all__ = ["one_mma", "one_wmma"]

_UNIT = "mma.bf16.f32"


def one_mma() -> Kernel:
    """C = A x B for one warp: ``mma.sync.m16n8k16``, bf16 with f32 accumulation."""
    form = recipe("bf16").form
    b = KernelBuilder("one_mma", arity=isa.find)
    pointers = _pointers(b)
    lane = b.mov("u32", b.tid.x)
    operands = [_load(b, form.fragments[name], pointers[name], lane) for name in "AB"]
    sums = [b.mov("f32", 0.0) for _ in range(form.fragments["D"].registers)]
    b.emit(form.key, sums, *operands, sums)
    _store(b, form.fragments["D"], pointers["C"], lane, sums)
    b.emit("ret")
    return _kernel(b, (16, 8, 16), form.key)


def one_wmma() -> Kernel:
    """C = A x B for one warp through WMMA's 16 x 16 x 16 tiles, bf16 with f32 accumulation."""
    b = KernelBuilder("one_wmma", arity=isa.find)
    pointers = _pointers(b)
    key = "wmma.mma.sync.aligned.row.row.m16n16k16.f32.bf16.bf16.f32"
    operands = []
    for name in "AB":
        registers = b.regs("b32", isa.find(key).fragments[name].registers)
        b.emit(f"wmma.load.{name.lower()}.sync.aligned.row.m16n16k16.global.bf16", registers,
               b.at(pointers[name]), 16)
        operands.append(registers)
    sums = [b.mov("f32", 0.0) for _ in range(isa.find(key).fragments["D"].registers)]
    b.emit(key, sums, *operands, sums)
    b.emit("wmma.store.d.sync.aligned.row.m16n16k16.global.f32", b.at(pointers["C"]), sums, 16)
    b.emit("ret")
    return _kernel(b, (16, 16, 16), key)


def _pointers(b: KernelBuilder) -> dict[str, Register]:
    """Declare the parameters, then load them: name -> global address."""
    names = [b.param(name, "u64") for name in "abc"]
    b.reqntid(32)
    return {name.name.upper(): b.cvta("to.global.u64", b.load_param(name)) for name in names}


def _kernel(b: KernelBuilder, shape: tuple[int, int, int], key: str) -> Kernel:
    m, n, k = shape
    params = (Param("a", "in", "bf16", (m, k), "A, M x K, rows contiguous"),
              Param("b", "in", "bf16", (k, n), "B, K x N, rows contiguous"),
              Param("c", "out", "f32", (m, n), "C = A x B, M x N, rows contiguous"))
    return Kernel(
        name=b.name, ptx=b.text(), entry=b.name, grid=(1, 1, 1), block=(32, 1, 1), params=params,
        target=b.target,
        reference=partial(matrix_product, family=_UNIT, k=16, stored="kn"),
        validate=partial(check_arrays, b.name, params),
        facts={"tile": shape, "instruction": key, "unit": _UNIT, "instruction_k": 16,
               "shared_bytes": 0, "flops": 2 * m * n * k})


def _elements(b: KernelBuilder, fragment: Fragment, pointer: Register, lane: Register,
              ) -> tuple[Register, list[int]]:
    """Address of the lane's slot 0 in a row-major matrix, and each slot's distance from it."""
    size = fragment.bits // 8
    matrix = Layout((fragment.rows, fragment.cols), (fragment.cols * size, size))
    places = compose(matrix, fragment.layout)
    first = b.add("u64", pointer, b.cvt("u64.u32", emit_layout(b, places[0], lane)))
    return first, [int(x) for x in places[1].indices()]


def _load(b: KernelBuilder, fragment: Fragment, pointer: Register, lane: Register,
          ) -> list[Register]:
    """The registers of a fragment of 16-bit elements, loaded by its layout."""
    first, distances = _elements(b, fragment, pointer, lane)
    registers = []
    for low, high in zip(distances[::2], distances[1::2], strict=True):
        if high == low + 2:  # neighbours in memory are loaded together
            registers.append(b.ld("global.b32", b.at(first, low)))
            continue
        halves = [b.ld("global.b16", b.at(first, at)) for at in (low, high)]
        whole = b.reg("b32")
        b.emit("mov.b32", whole, halves)
        registers.append(whole)
    return registers


def _store(b: KernelBuilder, fragment: Fragment, pointer: Register, lane: Register,
           registers: list[Register]) -> None:
    first, distances = _elements(b, fragment, pointer, lane)
    for register, at in zip(registers, distances, strict=True):
        b.st("global.f32", b.at(first, at), register)

"""Operands on the device: several sets of A, B and C, so that no launch finds its data in L2.

Launches go round the sets; together they are at least three times the L2, and at least two::

    >>> rotation(Problem(4096, 4096, 4096), l2=60 << 20)
    2
    >>> rotation(Problem(1152, 592, 592), l2=60 << 20)
    58
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.bench.problem import Problem, poison, pool, width
from mmalab.bench.scales import Scales, draw
from mmalab.device.driver import call
from mmalab.device.gpu import Gpu

__all__ = ["Arena", "OperandSet", "arena", "rotation"]

_L2_TIMES = 3
_CHUNK = 1 << 20


def rotation(problem: Problem, l2: int) -> int:
    """How many sets of operands launches go round."""
    return max(2, -(-_L2_TIMES * l2 // problem.bytes))


@dataclass(frozen=True, slots=True)
class OperandSet:
    """Device addresses of one A, B and C, and of the scales of blocks where there are any."""

    a: int
    b: int
    c: int
    a_scales: int = 0
    b_scales: int = 0


class Arena:
    """The sets of operands of one problem, filled with random values.

    Args:
        gpu: whose memory.
        problem: sizes and types.
        seed: of the operands.
        sets: how many; None is :func:`rotation`.
    """

    def __init__(self, gpu: Gpu, problem: Problem, seed: int, sets: int | None = None) -> None:
        self.gpu, self.problem, self.seed = gpu, problem, seed
        self.l2 = gpu.attribute("L2_CACHE_SIZE")
        self._held: list[int] = []
        count = rotation(problem, self.l2) if sets is None else sets
        sizes = problem.operand_bytes
        rng = np.random.default_rng(seed)
        #: The scales of each set, on the host too.
        self.scales: list[Scales] = [draw(problem.m, problem.n, problem.k, rng)
                                     for _ in range(count)] if problem.scaled else []
        self.sets = [OperandSet(*(self.allocate(size) for size in sizes)) for _ in range(count)]
        if self.scales:
            self.sets = [replace(each, a_scales=self.upload(of_a), b_scales=self.upload(of_b))
                         for each, (of_a, of_b) in zip(self.sets, self.scales, strict=True)]
        self._fill(rng)

    def allocate(self, size: int) -> int:
        """Device memory that is freed with the arena.

        Raises:
            DriverError: there is none left.
        """
        address = int(call(self.gpu.driver.cuMemAlloc, max(size, 1)))
        self._held.append(address)
        return address

    def upload(self, array: NDArray[Any]) -> int:
        """A copy of an array in memory of the arena."""
        whole = np.ascontiguousarray(array)
        address = self.allocate(whole.nbytes)
        call(self.gpu.driver.cuMemcpyHtoD, address, whole.ctypes.data, whole.nbytes)
        return address

    def _fill(self, rng: np.random.Generator) -> None:
        pools: dict[str, tuple[int, int]] = {}
        a_bytes, b_bytes, _ = self.problem.operand_bytes
        for dtype in {self.problem.dtype, self.problem.dtype_b}:
            words = pool(dtype, rng)
            pools[dtype] = self.upload(words), words.nbytes
        for each in self.sets:
            self._draw(each.a, a_bytes, self.problem.dtype, pools, rng)
            self._draw(each.b, b_bytes, self.problem.dtype_b, pools, rng)
        call(self.gpu.driver.cuCtxSynchronize)

    def _draw(self, address: int, size: int, dtype: str, pools: dict[str, tuple[int, int]],
              rng: np.random.Generator) -> None:
        """Copies of the pool, each from a random place in it."""
        source, room = pools[dtype]
        for at in range(0, size, _CHUNK):
            length = min(_CHUNK, size - at)
            start = int(rng.integers(0, (room - length) // width(dtype) + 1)) * width(dtype)
            call(self.gpu.driver.cuMemcpyDtoDAsync, address + at, source + start, length,
                 self.gpu.stream.handle)

    def poison(self) -> None:
        """Fill every C with what no result is."""
        word = poison(self.problem.out)
        size = self.problem.operand_bytes[2]
        fill = {1: self.gpu.driver.cuMemsetD8, 2: self.gpu.driver.cuMemsetD16,
                4: self.gpu.driver.cuMemsetD32}[word.itemsize]
        for each in self.sets:
            call(fill, each.c, int(word[0]), size // word.itemsize)
        call(self.gpu.driver.cuCtxSynchronize)

    def rows(self, operand: str, at: int, indices: Sequence[int]) -> NDArray[Any]:
        """Rows of A, B or C of set `at`, read back: ``len(indices)`` x K (or N), typed."""
        p = self.problem
        dtype, pitch, length = {"a": (p.dtype, p.lda, p.k), "b": (p.dtype_b, p.ldb, p.k),
                                "c": (p.out, p.ldc, p.n)}[operand]
        kind = formats.dtype_of(dtype)
        found = np.empty((len(indices), length), kind)
        base = getattr(self.sets[at], operand)
        for row, index in zip(found, indices, strict=True):
            call(self.gpu.driver.cuMemcpyDtoH, row.ctypes.data,
                 base + int(index) * pitch * kind.itemsize, row.nbytes)
        return found

    def result(self, at: int) -> NDArray[Any]:
        """All of C of set `at`, M x N, typed."""
        p = self.problem
        kind = formats.dtype_of(p.out)
        whole = np.empty((p.m, p.ldc), kind)
        call(self.gpu.driver.cuMemcpyDtoH, whole.ctypes.data, self.sets[at].c, whole.nbytes)
        return whole[:, : p.n]

    def free(self) -> None:
        """Give the memory back; after a fault the driver has taken it already, and after a hang it
        would wait for the kernel."""
        for address in self._held if not self.gpu.lost else ():
            self.gpu.driver.cuMemFree(address)
        self._held.clear()


@contextmanager
def arena(gpu: Gpu, problem: Problem, seed: int, sets: int | None = None) -> Iterator[Arena]:
    """An arena that is freed at the end."""
    made = Arena(gpu, problem, seed, sets)
    try:
        yield made
    finally:
        made.free()

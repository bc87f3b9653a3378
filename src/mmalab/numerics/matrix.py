"""Whole matrices at compiled speed: D = A x B + C for every floating unit without block scales.

Rows are cut into tasks of 64 and K into stretches that stay in cache; threads take tasks until none
is left, each a call into compiled code that runs without the interpreter lock. The result equals
:func:`mmalab.numerics.reference.multiply` bit for bit (tests compare them on every kind of input);
small products, and units that have no generator, go there.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.numerics import native, reference
from mmalab.numerics.decode_ir import exponent_kind
from mmalab.numerics.matrix_ir import ROWS, matrix_ir
from mmalab.numerics.operands import Words
from mmalab.numerics.unit import Unit

__all__ = ["has_kernel", "multiply", "usable_cores"]

#: Below so many products the compiled code is not worth looking up.
_SMALL = 1 << 15

#: Rows of a task, and about how many k it goes through before the next panel.
_TASK_ROWS, _STRETCH = 64, 256

_P, _N = ctypes.c_void_p, ctypes.c_int64
_FUNCTIONS = {
    "pack_a": (None, _P, _P, _P, _N),
    "pack_b": (None, _P, _P, _P, _N, _N),
    "rows": (None, _P, _P, _P, _P, _P, _N, _N, _N, _N, _N, _N),
}


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def has_kernel(unit: Unit) -> bool:
    """Whether the unit's matrices have compiled code."""
    return unit.algorithm in ("tfs", "rewrite") and not unit.scale


def multiply(unit: Unit, a: Words, b: Words, c: Words, *, k: int = 0,
             threads: int | None = None, cpu: str = "") -> Words:
    """D = A x B + C for words of shapes (M, K), (K, N), (M, N); see reference.multiply."""
    size = a.shape[0] * a.shape[1] * b.shape[1]
    if not has_kernel(unit) or (size < _SMALL and not cpu):
        return reference.multiply(unit, a, b, c, k=k)
    target = native.processor(cpu)
    if not target.has("f16c"):
        return reference.multiply(unit, a, b, c, k=k)
    return _Product(unit, k or unit.k, a, b, c, cpu).run(threads or usable_cores())


@dataclass(frozen=True, slots=True)
class _Task:
    """A function of the module and its arguments."""

    function: str
    arguments: tuple[int, ...]


class _Product:
    """Padded operands, their decoded forms, and the calls that make the product."""

    def __init__(self, unit: Unit, k: int, a: Words, b: Words, c: Words, cpu: str) -> None:
        self.width = native.processor(cpu).vector_bits // 32
        self.k, self.kind = k, exponent_kind(unit.a)
        self.shape = c.shape
        m, n = -(-c.shape[0] // ROWS) * ROWS, -(-c.shape[1] // self.width) * self.width
        # A is decoded in pieces of 16 words, so a row of it holds whole pieces.
        depth = -(-a.shape[1] // k) * k
        self.m, self.n, self.depth = m, n, depth
        self.a, self.b = _padded(a, m, -(-depth // 16) * 16), _padded(b, depth, n)
        self.single = formats.get(unit.acc).name == "f32"
        start = c.view(np.float32) if self.single else c.view(np.float16).astype(np.float32)
        self.d: NDArray[np.float32] = _padded(start, m, n, copy=True)
        exponent = np.dtype(f"i{self.kind.bytes}")
        self.av, self.ae = (np.empty(self.a.shape, t) for t in (np.dtype("f4"), exponent))
        self.bv, self.be = (np.empty((n, depth), t) for t in (np.dtype("f4"), exponent))
        self.code = native.load(matrix_ir(unit, k, self.width), _FUNCTIONS, cpu=cpu)

    def run(self, threads: int) -> Words:
        """The product, on so many threads."""
        self._all([*self._pack_a(), *self._pack_b()], threads)
        self._all(self._products(), threads)
        d = np.ascontiguousarray(self.d[: self.shape[0], : self.shape[1]])
        return d.view(np.uint32) if self.single else d.astype(np.float16).view(np.uint16)

    def _all(self, tasks: list[list[_Task]], threads: int) -> None:
        def work(sequence: list[_Task]) -> None:
            for task in sequence:
                self.code[task.function](*task.arguments)

        if threads == 1 or len(tasks) == 1:
            for sequence in tasks:
                work(sequence)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, tasks))

    def _pack_a(self) -> list[list[_Task]]:
        row = self.a.shape[1]
        return [
            [_Task("pack_a", (_at(self.a, top * row), _at(self.av, top * row),
                              _at(self.ae, top * row), min(_TASK_ROWS, self.m - top) * row // 16))]
            for top in range(0, self.m, _TASK_ROWS)
        ]

    def _pack_b(self) -> list[list[_Task]]:
        tasks = [
            _Task("pack_b", (_at(self.b, left), _at(self.bv, left * self.depth),
                             _at(self.be, left * self.depth), self.n, self.depth // self.kind.per))
            for left in range(0, self.n, self.width)
        ]
        return [tasks[i : i + 8] for i in range(0, len(tasks), 8)]

    def _products(self) -> list[list[_Task]]:
        stretch = max(1, _STRETCH // self.k) * self.k
        row = self.a.shape[1]
        return [
            [
                _Task("rows", (
                    _at(self.av, top * row + low), _at(self.ae, top * row + low),
                    _at(self.bv, low * self.width), _at(self.be, low * self.width),
                    _at(self.d, top * self.n), min(_TASK_ROWS, self.m - top) // ROWS,
                    self.n // self.width, min(stretch, self.depth - low) // self.k,
                    row, self.depth * self.width, self.n,
                ))
                for low in range(0, self.depth, stretch)
            ]
            for top in range(0, self.m, _TASK_ROWS)
        ]


def _at(array: NDArray[np.generic], element: int) -> int:
    return int(array.ctypes.data) + element * array.itemsize


def _padded(array: Words, rows: int, columns: int, *, copy: bool = False) -> Words:
    """`array` with zeros below and to the right, C-contiguous."""
    if array.shape == (rows, columns):
        return np.array(array, order="C") if copy else np.ascontiguousarray(array)
    result = np.zeros((rows, columns), array.dtype)
    result[: array.shape[0], : array.shape[1]] = array
    return result

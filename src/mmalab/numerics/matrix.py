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
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.numerics import native, reference
from mmalab.numerics.decode_ir import exponent_kind
from mmalab.numerics.matrix_ir import PIECE, ROWS, matrix_ir
from mmalab.numerics.operands import Words
from mmalab.numerics.unit import Unit

__all__ = ["has_kernel", "multiply", "usable_cores"]

#: Below so many products the compiled code is not worth looking up.
_SMALL = 1 << 15

#: Rows and panels of a task, and about how many k it goes through before the next panel.
_TASK_ROWS, _TASK_PANELS, _STRETCH = 64, 16, 256

_P, _N = ctypes.c_void_p, ctypes.c_int64
_FUNCTIONS = {
    "pack_a": (None, _P, _P, _P, _N),
    "pack_b": (None, _P, _P, _P, _N, _N, _N, _N),
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
    if not target.converts_halves:
        return reference.multiply(unit, a, b, c, k=k)
    return _Product(unit, k or unit.k, a, b, c, cpu).run(threads or usable_cores())


@lru_cache(maxsize=256)
def _code(unit: Unit, k: int, target: native.Processor, cpu: str) -> native.Handle:
    return native.load(matrix_ir(unit, k, target.vector_bits // 32), _FUNCTIONS, cpu=cpu)


#: A function of the module and its arguments.
_Call = tuple[str, tuple[int, ...]]


class _Array:
    """An array and its address, which NumPy takes microseconds to tell."""

    def __init__(self, data: NDArray[Any]) -> None:
        self.data, self.base, self.size = data, int(data.ctypes.data), data.itemsize

    def at(self, element: int) -> int:
        """Address of an element of the flat array."""
        return self.base + element * self.size


class _Product:
    """Padded operands, their decoded forms, and the calls that make the product."""

    def __init__(self, unit: Unit, k: int, a: Words, b: Words, c: Words, cpu: str) -> None:
        target = native.processor(cpu)
        self.code = _code(unit, k, target, cpu)
        self.width = width = target.vector_bits // 32
        self.k, self.kind, self.shape = k, exponent_kind(unit.a), c.shape
        self.m, self.n = -(-c.shape[0] // ROWS) * ROWS, -(-c.shape[1] // width) * width
        self.depth = -(-a.shape[1] // k) * k
        # A is decoded in pieces, so that a row of it holds whole pieces.
        self.row = -(-self.depth // PIECE) * PIECE
        self.single = unit.acc == "f32"
        start = c.view(np.float32) if self.single else c.view(np.float16).astype(np.float32)
        exponent = np.dtype(f"i{self.kind.bytes}")
        self.a, self.b = _padded(a, self.m, self.row), _padded(b, self.depth, self.n)
        self.d = _padded(start, self.m, self.n, copy=True)
        self.av, self.ae = (_Array(np.empty((self.m, self.row), t)) for t in ("f4", exponent))
        self.bv, self.be = (_Array(np.empty((self.n, self.depth), t)) for t in ("f4", exponent))

    def run(self, threads: int) -> Words:
        """The product, on so many threads."""
        self.all([*self.pack_a(), *self.pack_b()], threads)
        self.all(self.products(), threads)
        d = np.ascontiguousarray(self.d.data[: self.shape[0], : self.shape[1]])
        return d.view(np.uint32) if self.single else d.astype(np.float16).view(np.uint16)

    def all(self, tasks: list[list[_Call]], threads: int) -> None:
        """Every task, a list of calls in order, on some thread."""
        def work(calls: list[_Call]) -> None:
            for name, arguments in calls:
                self.code[name](*arguments)

        if threads == 1 or len(tasks) == 1:
            for calls in tasks:
                work(calls)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, tasks))

    def pack_a(self) -> list[list[_Call]]:
        """Decoding A, some rows a task."""
        return [
            [("pack_a", (self.a.at(at), self.av.at(at), self.ae.at(at),
                         min(_TASK_ROWS, self.m - top) * self.row // PIECE))]
            for top in range(0, self.m, _TASK_ROWS) for at in [top * self.row]
        ]

    def pack_b(self) -> list[list[_Call]]:
        """Decoding B, some panels a task."""
        step = _TASK_PANELS * self.width
        return [
            [("pack_b", (self.b.at(left), self.bv.at(left * self.depth),
                         self.be.at(left * self.depth), self.n, self.depth // self.kind.per,
                         min(step, self.n - left) // self.width, self.depth))]
            for left in range(0, self.n, step)
        ]

    def products(self) -> list[list[_Call]]:
        """The products, some rows a task: stretch by stretch of K, so that B stays in cache."""
        stretch = max(1, _STRETCH // self.k) * self.k
        return [
            [
                ("rows", (
                    self.av.at(top * self.row + low), self.ae.at(top * self.row + low),
                    self.bv.at(low * self.width), self.be.at(low * self.width),
                    self.d.at(top * self.n), min(_TASK_ROWS, self.m - top) // ROWS,
                    self.n // self.width, min(stretch, self.depth - low) // self.k,
                    self.row, self.depth * self.width, self.n,
                ))
                for low in range(0, self.depth, stretch)
            ]
            for top in range(0, self.m, _TASK_ROWS)
        ]


def _padded(array: Words, rows: int, columns: int, *, copy: bool = False) -> _Array:
    """`array` with zeros below and to the right, C-contiguous."""
    if array.shape == (rows, columns):
        return _Array(np.array(array, order="C") if copy else np.ascontiguousarray(array))
    result = np.zeros((rows, columns), array.dtype)
    result[: array.shape[0], : array.shape[1]] = array
    return _Array(result)

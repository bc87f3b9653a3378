"""The video instructions: sums and differences of bytes, halves and words, then a second step.

``vadd.s32.u32.s32.sat.min d, a, b, c`` adds the numbers a and b exactly, clamps to s32, and takes
the smaller of that and c. The SIMD forms (``vadd4``) do it for each byte. Operands have no byte
selectors here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.execute.registry import executes
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.types import is_signed

__all__: list[str] = []

Numbers = NDArray[np.int64]
_FIRST: dict[str, Callable[[Numbers, Numbers], Any]] = {
    "vadd": operator.add, "vsub": operator.sub, "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum, "vmax": np.maximum, "vavrg": lambda a, b: (a + b + 1) >> 1,
}
_RELATIONS: dict[str, Callable[[Numbers, Numbers], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}


def _numbers(lanes: Lanes, index: int, kind: str) -> Numbers:
    """Operand `index` as exact integers of type u32 or s32."""
    words = lanes.read(index)
    return (words.view(np.int32) if is_signed(kind) else words).astype(np.int64)


def _clamp(exact: Numbers, bits: int, *, signed: bool) -> Numbers:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return np.clip(exact, low, high)


def _finish(lanes: Lanes, exact: Numbers, dtype: str) -> None:
    """.sat, the second operation with c, and the low 32 bits."""
    signed = is_signed(dtype)
    if lanes.has("sat"):
        exact = _clamp(exact, 32, signed=signed)
    op = lanes.modifier("op")
    if op:
        kept = exact.astype(np.uint32)
        first = (kept.view(np.int32) if signed else kept).astype(np.int64)
        c = _numbers(lanes, 3, dtype)
        second: dict[str, Callable[[Numbers, Numbers], Any]] = {
            "add": operator.add, "min": np.minimum, "max": np.maximum}
        exact = second[op](first, c)
    lanes.write(0, exact.astype(np.uint32))


@executes("vadd", "vsub", "vabsdiff", "vmin", "vmax")
def _scalar(lanes: Lanes) -> None:
    a, b = (_numbers(lanes, i, lanes.modifier(t)) for i, t in ((1, "atype"), (2, "btype")))
    _finish(lanes, _FIRST[lanes.site.form.family](a, b), lanes.modifier("dtype"))


@executes("vshl", "vshr")
def _shift(lanes: Lanes) -> None:
    a, count = _numbers(lanes, 1, lanes.modifier("atype")), _numbers(lanes, 2, "u32")
    count = (np.minimum(count, 32) if lanes.modifier("wrapping") == "clamp" else count & 31)
    moved = a << count if lanes.site.form.family == "vshl" else a >> count
    _finish(lanes, moved, lanes.modifier("dtype"))


@executes("vmad")
def _multiply_add(lanes: Lanes) -> None:
    a, b = (_numbers(lanes, i, lanes.modifier(t)) for i, t in ((1, "atype"), (2, "btype")))
    dtype = lanes.modifier("dtype")
    total = a * b + _numbers(lanes, 3, dtype) + lanes.has("po")
    total = total >> {"": 0, "shr7": 7, "shr15": 15}[lanes.modifier("scale")]
    if lanes.has("sat"):
        total = _clamp(total, 32, signed=is_signed(dtype))
    lanes.write(0, total.astype(np.uint32))


@executes("vset")
def _set(lanes: Lanes) -> None:
    a, b = (_numbers(lanes, i, lanes.modifier(t)) for i, t in ((1, "atype"), (2, "btype")))
    _finish(lanes, _RELATIONS[lanes.modifier("cmp")](a, b).astype(np.int64), "u32")


# --- SIMD -----------------------------------------------------------------------------------------

def _pieces(lanes: Lanes, index: int, kind: str, count: int) -> Numbers:
    """[warps, 32, count] of the halves or bytes of an operand."""
    words = np.ascontiguousarray(lanes.read(index))
    dtype = f"{'i' if is_signed(kind) else 'u'}{4 // count}"
    return words.view(dtype).reshape(*words.shape, count).astype(np.int64)


@executes(*(f"{name}{count}" for name in (*_FIRST, "vset") for count in (2, 4)))
def _simd(lanes: Lanes) -> None:
    family = lanes.site.form.family
    count, bits = int(family[-1]), 32 // int(family[-1])
    a, b = (_pieces(lanes, i, lanes.modifier(t), count) for i, t in ((1, "atype"), (2, "btype")))
    if family[:-1] == "vset":
        result = _RELATIONS[lanes.modifier("cmp")](a, b).astype(np.int64)
    else:
        result = np.asarray(_FIRST[family[:-1]](a, b))
    if lanes.has("sat"):
        result = _clamp(result, bits, signed=is_signed(lanes.modifier("dtype")))
    if lanes.modifier("op") == "add":
        total = result.sum(axis=-1) + lanes.read(3).astype(np.int64)
        lanes.write(0, total.astype(np.uint32))
    else:
        packed = np.ascontiguousarray(result.astype(f"u{bits // 8}")).view(np.uint32)
        lanes.write(0, packed[..., 0])

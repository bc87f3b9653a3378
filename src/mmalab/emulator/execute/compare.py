"""setp, set, selp, slct: comparisons of any type, combined with a predicate."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator import ieee
from mmalab.emulator.execute.half import from_half
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Vec
from mmalab.emulator.types import is_float, is_signed

__all__ = ["compare"]

Words = NDArray[Any]
Bools = NDArray[np.bool_]
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "lo": operator.lt, "ls": operator.le,
    "hi": operator.gt, "hs": operator.ge,
}


def _numbers(words: Words, kind: str, *, ftz: bool) -> Words:
    """Words as numbers that compare as the type does; pairs become twice as many columns."""
    words = np.ascontiguousarray(words)
    if is_float(kind):
        if "16" in kind:
            numbers = from_half(words.view(np.uint16), "bf16" if kind[0] == "b" else "f16")
            tiny = 2.0**-126 if kind[0] == "b" else 2.0**-14
            return np.where(np.abs(numbers) < tiny, 0.0, numbers) if ftz else numbers
        numbers = words.view(f"f{words.dtype.itemsize}")
        return ieee.flush(numbers) if ftz else numbers
    return words.view(f"i{words.dtype.itemsize}") if is_signed(kind) else words


def compare(relation: str, a: Words, b: Words, kind: str, *, ftz: bool = False) -> Bools:
    """``a relation b`` of raw words of PTX type `kind`."""
    x, y = _numbers(a, kind, ftz=ftz), _numbers(b, kind, ftz=ftz)
    if not is_float(kind):
        return np.asarray(_RELATIONS[relation](x, y))
    unordered = np.isnan(x) | np.isnan(y)
    if relation == "num":
        return ~unordered
    if relation == "nan":
        return unordered
    base = relation.removesuffix("u") if len(relation) == 3 else relation
    with np.errstate(all="ignore"):
        ordered = _RELATIONS[base](x, y) & ~unordered
    return np.asarray(ordered | unordered if len(relation) == 3 else ordered)


def _combine(lanes: Lanes, result: Bools) -> Bools:
    boolean = lanes.modifier("bool")
    if not boolean:
        return result
    c = lanes.predicate(3)
    if result.shape != c.shape:
        c = np.repeat(c, 2, axis=1)
    return {"and": result & c, "or": result | c, "xor": result ^ c}[boolean]


def _outcome(lanes: Lanes) -> tuple[Bools, str]:
    kind = lanes.modifier("atype") or lanes.modifier("type")
    return compare(lanes.modifier("cmp"), lanes.read(1), lanes.read(2), kind,
                   ftz=lanes.has("ftz")), kind


@executes("setp")
def _set_predicate(lanes: Lanes) -> None:
    result, kind = _outcome(lanes)
    target = lanes.operands[0]
    if kind.endswith("x2"):
        both = _combine(lanes, result).reshape(*lanes.mask.shape, 2)
        pair = (both[..., 0], both[..., 1])
    else:
        pair = (_combine(lanes, result), _combine(lanes, ~result))
    if isinstance(target, Vec):
        lanes.assign(target.items[0], pair[0], "pred")
        lanes.assign(target.items[1], pair[1], "pred")
    else:
        lanes.assign(target, pair[0], "pred")


@executes("set")
def _set(lanes: Lanes) -> None:
    outcome, kind = _outcome(lanes)
    result = _combine(lanes, outcome)
    dtype = lanes.modifier("dtype")
    if kind.endswith("x2"):
        # One 16-bit result per half, whatever the destination is called.
        one = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(dtype, 0xFFFF)
        halves = np.where(result, np.uint16(one), np.uint16(0))
        lanes.write(0, np.ascontiguousarray(halves).view(np.uint32))
        return
    ones: dict[str, tuple[Any, int]] = {"f32": (np.uint32, 0x3F800000), "f16": (np.uint16, 0x3C00),
            "bf16": (np.uint16, 0x3F80), "u16": (np.uint16, 0xFFFF), "s16": (np.uint16, 0xFFFF)}
    word, one = ones.get(dtype, (np.uint32, 0xFFFFFFFF))
    lanes.write(0, np.where(result, word(one), word(0)))


@executes("selp")
def _select(lanes: Lanes) -> None:
    lanes.write(0, np.where(lanes.predicate(3), lanes.read(1), lanes.read(2)))


@executes("slct")
def _select_by_sign(lanes: Lanes) -> None:
    c = lanes.read(3)
    if lanes.modifier("ctype") == "s32":
        choose = c.view(np.int32) >= 0
    else:
        numbers = c.view(np.float32)
        choose = (ieee.flush(numbers) if lanes.has("ftz") else numbers) >= 0
    lanes.write(0, np.where(choose, lanes.read(1), lanes.read(2)))

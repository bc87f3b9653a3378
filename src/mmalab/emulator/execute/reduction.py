"""What a reduction makes of the word in memory and the new one: atom, red, bulk reductions.

    >>> old, new = np.array([3, 9], np.uint32), np.array([5, 2], np.uint32)
    >>> combine("inc", "u32", old, new, False).tolist()            # 9 is beyond 2: wraps to 0
    [4, 0]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator import ieee
from mmalab.emulator.execute.floating import canonical, extreme
from mmalab.emulator.execute.half import from_half, to_half
from mmalab.emulator.types import is_float, is_signed

__all__ = ["combine"]

Words = NDArray[Any]

_BITWISE: dict[str, Callable[[Words, Words], Words]] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "exch": lambda _old, new: new,
    "inc": lambda old, new: np.where(old >= new, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - old.dtype.type(1)),
}


def combine(op: str, kind: str, old: Words, value: Words, flushes: Any) -> Words:
    """The new words.

    Args:
        op: ``add``, ``min``, ``and``, ``inc`` ... as the opcode says.
        kind: the PTX type; of packed halves both are combined.
        old: unsigned words in memory.
        value: unsigned words of the same shape.
        flushes: where additions of f32 flush subnormals to zero (bool, or an array of them).
    """
    if op in _BITWISE:
        return _BITWISE[op](old, value)
    if "16" in kind and is_float(kind):
        return _halves(op, kind, old, value)
    if is_float(kind):
        return _floats(op, kind, old, value, flushes)
    if op == "add":
        return np.asarray(old + value)
    signed = is_signed(kind)
    x, y = ((w.view(f"i{w.dtype.itemsize}") if signed else w) for w in (old, value))
    return np.asarray((np.minimum(x, y) if op == "min" else np.maximum(x, y)).view(old.dtype))


def _floats(op: str, kind: str, old: Words, value: Words, flushes: Any) -> Words:
    x, y = (np.ascontiguousarray(w).view(f"f{w.dtype.itemsize}") for w in (old, value))
    if op != "add":
        return canonical(extreme(x, y, least=op == "min", nan=False))
    if kind == "f32":
        x, y = (np.where(flushes, ieee.flush(w), w) for w in (x, y))
        total = ieee.add(x, y)
        return canonical(np.where(flushes, ieee.flush(total), total))
    return canonical(ieee.add(x, y))


def _halves(op: str, kind: str, old: Words, value: Words) -> Words:
    base = "bf16" if kind[0] == "b" else "f16"
    x, y = (from_half(np.ascontiguousarray(w).view(np.uint16), base) for w in (old, value))
    result = ieee.odd_sum(x, y) if op == "add" else extreme(x, y, least=op == "min", nan=False)
    return np.ascontiguousarray(to_half(result, base)).view(old.dtype)

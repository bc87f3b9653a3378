"""f16, bf16 and their pairs: each half rounded once, to nearest even.

The arithmetic is done in double precision, rounded to odd where it is not exact, and then rounded
to the format, so the result is the correctly rounded one. A NaN result is 0x7FFF.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator import ieee
from mmalab.emulator.execute.floating import extreme, saturate
from mmalab.emulator.lanes import Lanes

__all__ = ["HALF", "from_half", "to_half"]

_NAN = np.uint16(0x7FFF)
_SMALLEST_NORMAL = {"f16": 2.0**-14, "bf16": 2.0**-126}


def _kind(lanes: Lanes) -> str:
    return "bf16" if lanes.modifier("type").startswith("bf16") else "f16"


def _words(lanes: Lanes, index: int) -> NDArray[np.uint16]:
    """[warps, 32] for one half, [warps, 64] for a pair."""
    return np.ascontiguousarray(lanes.read(index)).view(np.uint16)


def from_half(words: NDArray[np.uint16], kind: str) -> NDArray[np.float64]:
    """The numbers that f16 or bf16 words stand for."""
    with np.errstate(all="ignore"):
        if kind == "f16":
            return words.view(np.float16).astype(np.float64)
        return (words.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def to_half(exact: NDArray[np.float64], kind: str, rounding: str = "rn") -> NDArray[np.uint16]:
    """Doubles (exact or rounded to odd) as words, with the one NaN."""
    words = (ieee.to_f16 if kind == "f16" else ieee.to_bf16)(exact, rounding)
    return np.where(np.isnan(exact), _NAN, words)


def _flush(numbers: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    return np.where(np.abs(numbers) < _SMALLEST_NORMAL[kind], np.copysign(0.0, numbers), numbers)


def _numbers(lanes: Lanes, index: int) -> NDArray[np.float64]:
    numbers = from_half(_words(lanes, index), _kind(lanes))
    return _flush(numbers, _kind(lanes)) if lanes.has("ftz") else numbers


def _store(lanes: Lanes, words: NDArray[np.uint16]) -> None:
    words = np.ascontiguousarray(words)
    lanes.write(0, words.view(np.uint32) if lanes.modifier("type").endswith("x2") else words)


def _finish(lanes: Lanes, exact: NDArray[np.float64]) -> None:
    """Round, then .ftz, .sat, .relu, and store."""
    kind = _kind(lanes)
    words = to_half(exact, kind)
    if lanes.has("ftz") or lanes.has("sat") or lanes.has("relu"):
        numbers = from_half(words, kind)
        if lanes.has("ftz"):
            numbers = _flush(numbers, kind)
        if lanes.has("sat"):
            numbers = saturate(numbers)
        if lanes.has("relu"):
            numbers = np.where(numbers < 0, 0.0, numbers)
            numbers = np.where(numbers == 0, 0.0, numbers)
        words = to_half(numbers, kind)
    _store(lanes, words)


def _add(lanes: Lanes) -> None:
    _finish(lanes, _sum(_numbers(lanes, 1), _numbers(lanes, 2)))


def _subtract(lanes: Lanes) -> None:
    _finish(lanes, _sum(_numbers(lanes, 1), -_numbers(lanes, 2)))


def _sum(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    return ieee.odd_sum(a, b)


def _multiply(lanes: Lanes) -> None:
    with np.errstate(all="ignore"):
        _finish(lanes, _numbers(lanes, 1) * _numbers(lanes, 2))


def _fma(lanes: Lanes) -> None:
    a, b, c = (_numbers(lanes, i) for i in (1, 2, 3))
    with np.errstate(all="ignore"):
        exact = _sum(a * b, c)
    if lanes.has("oob"):
        # The out-of-bounds NaN of tensor copies makes the result zero.
        mark = [(_words(lanes, i) == 0xFFFF) for i in (1, 2, 3)]
        exact = np.where(mark[0] | mark[1] | mark[2], 0.0, exact)
    _finish(lanes, exact)


def _negate(lanes: Lanes) -> None:
    _sign(lanes, lambda words: words ^ np.uint16(0x8000))


def _absolute(lanes: Lanes) -> None:
    _sign(lanes, lambda words: words & np.uint16(0x7FFF))


def _sign(lanes: Lanes, change: Callable[[NDArray[np.uint16]], NDArray[np.uint16]]) -> None:
    words = change(_words(lanes, 1))
    if lanes.has("ftz"):
        kind = _kind(lanes)
        small = np.abs(from_half(words, kind)) < _SMALLEST_NORMAL[kind]
        words = np.where(small, words & np.uint16(0x8000), words)
    _store(lanes, words)


def _extreme(lanes: Lanes) -> None:
    a, b = _numbers(lanes, 1), _numbers(lanes, 2)
    sign = np.signbit(a) ^ np.signbit(b)
    if lanes.has("abs"):
        a, b = np.abs(a), np.abs(b)
    result = extreme(a, b, least=lanes.site.form.family == "min", nan=lanes.has("NaN"))
    if lanes.has("xorsign"):
        result = np.where(sign, -np.abs(result), np.abs(result))
    _finish(lanes, result)


def _approximate(function: Callable[[Any], Any]) -> Callable[[Lanes], None]:
    def execute(lanes: Lanes) -> None:
        with np.errstate(all="ignore"):
            _finish(lanes, function(_numbers(lanes, 1)))

    return execute


HALF: dict[str, Callable[[Lanes], None]] = {
    "add": _add, "sub": _subtract, "mul": _multiply, "fma": _fma, "neg": _negate,
    "abs": _absolute, "min": _extreme, "max": _extreme, "ex2": _approximate(np.exp2),
    "tanh": _approximate(np.tanh),
}

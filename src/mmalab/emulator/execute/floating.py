"""f32 and f64 arithmetic: every rounding, .ftz, .sat, NaN rules, and the approximate functions.

A NaN result of f32 arithmetic is 0x7FFFFFFF. The approximate functions (sin, ex2, rcp.approx ...)
come from tables inside the chips that nobody has published; here they are the correctly rounded
values, and the run says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator import ieee
from mmalab.emulator.execute.registry import approximates
from mmalab.emulator.lanes import Lanes
from mmalab.isa.form import Form

__all__ = ["FLOATING", "canonical", "extreme", "saturate"]

Floats = NDArray[Any]
_NAN32 = np.uint32(0x7FFFFFFF)


def _operand_type(lanes: Lanes) -> str:
    return lanes.modifier("type") or lanes.modifier("dtype")


def _read(lanes: Lanes, index: int) -> NDArray[Any]:
    """Operand as numbers: [warps, 32], or [warps, 64] for f32x2; subnormals gone under .ftz."""
    kind = lanes.type(index)
    words = np.ascontiguousarray(lanes.read(index))
    if kind == "f16":
        return np.asarray(words.view(np.float16).astype(np.float32))
    if kind == "bf16":
        return np.asarray((words.astype(np.uint32) << np.uint32(16)).view(np.float32))
    numbers = words.view(np.float32 if kind.startswith("f32") else np.float64)
    return np.asarray(ieee.flush(numbers) if lanes.has("ftz") else numbers)


def saturate(numbers: Floats) -> Floats:
    """Clamp to [0, 1]; NaN becomes +0."""
    zero, one = numbers.dtype.type(0), numbers.dtype.type(1)
    return np.asarray(np.where(numbers > 0, np.minimum(numbers, one), zero))


def canonical(numbers: Floats) -> NDArray[Any]:
    """Words of f32 or f64 numbers, with the chip's one f32 NaN."""
    numbers = np.ascontiguousarray(numbers)
    if numbers.dtype == np.float32:
        return np.where(np.isnan(numbers), _NAN32, numbers.view(np.uint32))
    return numbers.view(np.uint64)


def _write(lanes: Lanes, numbers: Floats) -> None:
    if lanes.has("ftz"):
        numbers = ieee.flush(numbers)
    if lanes.has("sat"):
        numbers = saturate(numbers)
    words = np.ascontiguousarray(canonical(numbers))
    lanes.write(0, words.view(np.uint64) if _operand_type(lanes) == "f32x2" else words)


def _rounding(lanes: Lanes) -> str:
    return lanes.modifier("rounding", "rn")


# --- the four operations --------------------------------------------------------------------------

def _add(lanes: Lanes) -> None:
    _write(lanes, ieee.add(_read(lanes, 1), _read(lanes, 2), _rounding(lanes)))


def _subtract(lanes: Lanes) -> None:
    _write(lanes, ieee.add(_read(lanes, 1), -_read(lanes, 2), _rounding(lanes)))


def _multiply(lanes: Lanes) -> None:
    _write(lanes, ieee.multiply(_read(lanes, 1), _read(lanes, 2), _rounding(lanes)))


def _fma(lanes: Lanes) -> None:
    a, b, c = (_read(lanes, i) for i in (1, 2, 3))
    _write(lanes, ieee.fma(a, b, c, _rounding(lanes)))


def _divide(lanes: Lanes) -> None:
    _write(lanes, ieee.divide(_read(lanes, 1), _read(lanes, 2), _rounding(lanes)))


def _square_root(lanes: Lanes) -> None:
    _write(lanes, ieee.sqrt(_read(lanes, 1), _rounding(lanes)))


def _reciprocal(lanes: Lanes) -> None:
    a = _read(lanes, 1)
    if lanes.has("approx") and a.dtype == np.float64:
        _gross(lanes, lambda x: 1.0 / x)
    else:
        _write(lanes, ieee.divide(np.ones_like(a), a, _rounding(lanes)))


# --- sign, minimum, maximum -----------------------------------------------------------------------

def _absolute(lanes: Lanes) -> None:
    _sign_only(lanes, np.abs)


def _negate(lanes: Lanes) -> None:
    _sign_only(lanes, np.negative)


def _sign_only(lanes: Lanes, change: Callable[[Floats], Floats]) -> None:
    numbers = np.ascontiguousarray(change(_read(lanes, 1)))
    lanes.write(0, numbers.view(f"u{numbers.dtype.itemsize}"))


def extreme(a: Floats, b: Floats, *, least: bool, nan: bool) -> Floats:
    """min or max with -0 < +0; a single NaN loses, or (`nan`) wins."""
    with np.errstate(all="ignore"):
        equal_pick = np.signbit(a) if least else ~np.signbit(a)
        first = np.where(a == b, equal_pick, (a < b) if least else (a > b))
        result = np.where(first | np.isnan(b), a, b)
        result = np.where(np.isnan(a) & ~np.isnan(b), b, result)
        return np.where(np.isnan(a) | np.isnan(b), a + b, result) if nan else result


def _extreme(lanes: Lanes) -> None:
    numbers = [_read(lanes, i) for i in range(1, len(lanes.operands))]
    least, nan = lanes.site.form.family == "min", lanes.has("NaN")
    sign = None
    if lanes.has("xorsign"):
        sign = np.signbit(numbers[0]) ^ np.signbit(numbers[1])
    if lanes.has("abs"):
        numbers = [np.abs(n) for n in numbers]
    result = numbers[0]
    for other in numbers[1:]:
        result = extreme(result, other, least=least, nan=nan)
    if sign is not None:
        result = np.where(sign, -np.abs(result), np.abs(result))
    _write(lanes, result)


def _copy_sign(lanes: Lanes) -> None:
    a, b = _read(lanes, 1), _read(lanes, 2)
    result = np.ascontiguousarray(np.copysign(b, a))
    lanes.write(0, result.view(f"u{result.dtype.itemsize}"))


def _test(lanes: Lanes) -> None:
    a = _read(lanes, 1)
    nan, subnormal = np.isnan(a), ieee.is_subnormal(a)
    lanes.write(0, {
        "finite": np.isfinite(a), "infinite": np.isinf(a), "number": ~nan, "notanumber": nan,
        # Zeros count as normal (PTX ISA, testp).
        "normal": np.isfinite(a) & ~subnormal, "subnormal": subnormal,
    }[lanes.modifier("op")])


# --- approximate functions ------------------------------------------------------------------------

def _by_double(function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
               ) -> Callable[[Lanes], None]:
    def execute(lanes: Lanes) -> None:
        a = _read(lanes, 1)
        with np.errstate(all="ignore"):
            wide = function(a.astype(np.float64))
        _write(lanes, wide if a.dtype == np.float64 else ieee.to_f32(wide))

    return execute


def _gross(lanes: Lanes, function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> None:
    """The .ftz.f64 approximations: only the upper words of operand and result count."""
    high = np.uint64(0xFFFFFFFF00000000)
    a = ieee.flush((lanes.read(1) & high).view(np.float64))
    with np.errstate(all="ignore"):
        result = ieee.flush(function(a))
    lanes.write(0, _round_high(result, high))


def _round_high(result: Floats, high: np.uint64) -> NDArray[np.uint64]:
    words = np.ascontiguousarray(result).view(np.uint64)
    rounded = (words + np.uint64(1 << 31)) & high
    return np.where(np.isfinite(result), rounded, words & high)


def _reciprocal_root(lanes: Lanes) -> None:
    if lanes.has("ftz") and lanes.modifier("type") == "f64":
        _gross(lanes, lambda a: 1.0 / np.sqrt(a))
    else:
        _by_double(lambda a: 1.0 / np.sqrt(a))(lanes)


FLOATING: dict[str, Callable[[Lanes], None]] = {
    "add": _add, "sub": _subtract, "mul": _multiply, "fma": _fma, "mad": _fma, "div": _divide,
    "sqrt": _square_root, "rcp": _reciprocal, "abs": _absolute, "neg": _negate, "min": _extreme,
    "max": _extreme, "copysign": _copy_sign, "testp": _test, "rsqrt": _reciprocal_root,
    "sin": _by_double(np.sin), "cos": _by_double(np.cos), "lg2": _by_double(np.log2),
    "ex2": _by_double(np.exp2), "tanh": _by_double(np.tanh),
}


@approximates("div", "sqrt", "rcp", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh")
def _why(form: Form) -> str:
    if "approx" in form.modifiers or "full" in form.modifiers:
        return "correctly rounded; the chip's own table is not published"
    return ""


"""Between raw words and arrays that other libraries understand (NumPy, ml_dtypes).

    >>> import numpy as np
    >>> words, fmt = from_array(np.array([1.5, -2.0], np.float16))
    >>> [hex(w) for w in words], fmt.name
    (['0x3e00', '0xc000'], 'f16')
    >>> to_array(np.array([0x38], np.uint8), "e4m3").dtype
    dtype(float8_e4m3fn)

`tf32` has no type of its own: it becomes float32 with its 13 ignored bits cleared. `ue4m3` becomes
float8_e4m3fn with its ignored top bit cleared, `s2f6` float32.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmalab.errors import UsageError
from mmalab.formats.parts import as_words, decode
from mmalab.formats.table import FORMATS, Format, get

__all__ = ["dtype_of", "format_of", "from_array", "to_array"]

_DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "f64": np.float64, "f32": np.float32, "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
        "e3m2": ml_dtypes.float6_e3m2fn, "e2m3": ml_dtypes.float6_e2m3fn,
        "e2m1": ml_dtypes.float4_e2m1fn, "ue8m0": ml_dtypes.float8_e8m0fnu,
        "s4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "b1": np.bool_,
        "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64,
        "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    }.items()
}
_FORMATS = {dtype: FORMATS[name] for name, dtype in _DTYPES.items()}


def dtype_of(fmt: str | Format) -> np.dtype[Any]:
    """The NumPy or ml_dtypes type whose values are those of `fmt` (tf32, s2f6: float32)."""
    name = get(fmt).name
    return _DTYPES.get(name, _DTYPES["e4m3" if name == "ue4m3" else "f32"])


def format_of(dtype: Any) -> Format:
    """The format of the values of a NumPy or ml_dtypes type."""
    known = _FORMATS.get(np.dtype(dtype))
    if known is None:
        raise UsageError(
            f"array type {np.dtype(dtype)}", "not a number format of the PTX ISA",
            legal=[str(d) for d in _FORMATS],
            where="mmalab.formats",
        )
    return known


def to_array(words: ArrayLike, fmt: str | Format) -> NDArray[Any]:
    """The values of raw words as an array of `dtype_of(fmt)`, same shape, exact."""
    fmt = get(fmt)
    raw = as_words(words, fmt)
    dtype = dtype_of(fmt)
    if fmt.name in {"s2f6", "s4", "u4"}:
        return decode(raw, fmt).astype(dtype)
    if fmt.name == "ue4m3":
        raw = raw & np.uint8(0x7F)
    if fmt.low_padding:
        raw = raw & np.uint32(0xFFFF_FFFF << fmt.low_padding & 0xFFFF_FFFF)
    return raw.view(dtype)


def from_array(array: NDArray[Any]) -> tuple[NDArray[Any], Format]:
    """Raw words of `array`, and the format that they are in."""
    array = np.asarray(array)
    fmt = format_of(array.dtype)
    if fmt.bits < 8:  # ml_dtypes may keep a sign extension in the byte above a 4-bit integer
        return array.view(np.uint8) & np.uint8((1 << fmt.bits) - 1), fmt
    return array.view(fmt.dtype), fmt

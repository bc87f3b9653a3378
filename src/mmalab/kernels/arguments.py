"""Checks of the arrays that a matrix kernel is given: number, type, shape, strides, aliasing.

    >>> check_arrays(kernel.name, kernel.params, [a, b.T, c])     # doctest: +SKIP
    mmalab.errors.UsageError: argument 1 (b): strides (2, 2048) of shape (512, 1024)
      ...

Types that NumPy lacks may come as ml_dtypes arrays or as raw words of the same width: uint16 for
bf16 and f16, uint8 for FP8, uint32 for tf32 and f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.ptx.kernel import Param

__all__ = ["check_arrays", "words_of"]

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def words_of(array: Any) -> NDArray[Any]:
    """The raw words of an array: unsigned integers of its element's width."""
    words: NDArray[Any] = np.asarray(array)
    return words.view(_UNSIGNED[words.dtype.itemsize])


def check_arrays(name: str, params: Sequence[Param], args: Sequence[Any]) -> None:
    """Refuse arguments that kernel `name` cannot take.

    Raises:
        UsageError: naming the argument, what is wrong and what would be right.
    """
    if len(args) != len(params):
        raise UsageError(f"{len(args)} arguments", f"{name} takes {len(params)}",
                         legal=[_described(p) for p in params], where=name)
    for at, (param, value) in enumerate(zip(params, args, strict=True)):
        if param.shape:
            _check(name, f"argument {at} ({param.name})", param, value)
    _check_apart(name, params, args)


def _described(param: Param) -> str:
    return f"{param.name}: {param.dtype}{list(param.shape)}"


def _check(name: str, who: str, param: Param, value: Any) -> None:
    array = _seen(value)
    if array is None:
        raise UsageError(f"{who}: {type(value).__name__}", "is no array",
                         legal=_described(param), where=name)
    dtype = formats.dtype_of(param.dtype)
    raw = np.dtype(_UNSIGNED[dtype.itemsize])
    if array.dtype not in (dtype, raw):
        raise UsageError(f"{who}: {array.dtype}", f"the kernel reads it as {param.dtype}",
                         legal=[str(dtype), *([] if raw == dtype else [f"{raw} (raw words)"])],
                         where=name)
    if array.shape != param.shape:
        raise UsageError(f"{who}: shape {array.shape}", "is not what the kernel was made for",
                         legal=str(param.shape), where=name)
    if not array.flags.c_contiguous:
        raise UsageError(f"{who}: strides {array.strides} of shape {array.shape}",
                         "rows must lie one behind the other, elements too",
                         legal="np.ascontiguousarray(...)", where=name)
    if param.role in ("out", "inout") and not array.flags.writeable:
        raise UsageError(f"{who}: a read-only array", "the kernel writes it",
                         legal="array.copy()", where=name)


def _seen(value: Any) -> NDArray[Any] | None:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.generic):
        return None
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else None


def _check_apart(name: str, params: Sequence[Param], args: Sequence[Any]) -> None:
    """What is written shares no byte with anything else."""
    arrays = [(p, _seen(v)) for p, v in zip(params, args, strict=True) if p.shape]
    for at, (param, array) in enumerate(arrays):
        if param.role == "in":
            continue
        for other, (second, another) in enumerate(arrays):
            if other != at and np.shares_memory(array, another):
                raise UsageError(f"{param.name} and {second.name}", "share memory, and "
                                 f"{param.name} is written", legal=f"a separate array for "
                                 f"{param.name}", where=name)

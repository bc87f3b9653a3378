"""From the caller's arguments to the kernel's parameter block.

Arrays become virtual addresses, numbers and bytes become what the parameter's declared type says::

    .param .u64 x, .param .f32 scale, .param .align 8 .b8 shape[16], .param .align 64 .b8 map[128]
    args = [np.zeros((4, 4), np.float32), 0.5, bytes(16), TensorMap.tiled(a, box=(64, 64))]

A tensor map (or a list of them) given for a pointer lies in a buffer of its own in global memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.memory import AddressSpace
from mmalab.emulator.program import Program
from mmalab.emulator.symbols import encode_number
from mmalab.emulator.types import is_float, kind, width
from mmalab.errors import UsageError
from mmalab.tensormap import MAP_BYTES, TensorMap

__all__ = ["as_array", "bind", "memory_of"]

_WHERE = "mmalab.emulate, args"
#: Integers up to here are floats of some size.
_FLOAT_INT = 2**1023


def as_array(value: Any) -> NDArray[Any] | None:
    """The array behind an argument: NumPy, ``__dlpack__`` or ``__array_interface__``; else None.

    Raises:
        UsageError: the object offers an array and does not give it (memory of a GPU, say).
    """
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (np.generic, type)):
        return None
    try:
        if hasattr(value, "__array_interface__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
    except (BufferError, TypeError, ValueError, RuntimeError) as failed:
        raise UsageError(f"argument of type {type(value).__name__}",
                         f"its memory cannot be used as an array: {failed}",
                         legal="arrays in the memory of the CPU", where=_WHERE) from None
    return None


def memory_of(value: Any) -> tuple[NDArray[Any], ...]:
    """All memory behind an argument that a kernel may write: an array's, or that of tensor maps.

    Raises:
        UsageError: as :func:`as_array`.
    """
    found = [made.buffer for made in maps] if (maps := _maps(value)) else [as_array(value)]
    return tuple(array for array in found if array is not None and array.flags.writeable)


def bind(program: Program, args: Sequence[Any], space: AddressSpace) -> bytes:
    """Fill the parameter block; arrays are added to `space`.

    Raises:
        UsageError: wrong number of arguments, or one that its parameter cannot take.
    """
    if len(args) != len(program.params):
        raise UsageError(f"{len(args)} arguments", f"{program.entry} has {len(program.params)}"
                         " parameters", legal=[_declared(p) for p in program.params], where=_WHERE)
    block = bytearray(program.param_bytes)
    for index, (value, parameter) in enumerate(zip(args, program.params, strict=True)):
        offset, size, _, _ = parameter
        block[offset : offset + size] = _bytes_of(index, value, parameter, space)
    return bytes(block)


def _declared(parameter: tuple[int, int, str, bool]) -> str:
    _, size, type_, is_array = parameter
    return f".{type_}[{size * 8 // width(type_)}]" if is_array else f".{type_}"


def _bytes_of(index: int, value: Any, parameter: tuple[int, int, str, bool],
              space: AddressSpace) -> bytes:
    _, size, type_, is_array = parameter
    maps = _maps(value)
    if maps:
        return _tensor_maps(index, maps, parameter, space)
    array = as_array(value)
    if array is not None:
        return _pointer(index, array, parameter, space)
    if isinstance(value, (bytes, bytearray, memoryview, np.void)):
        raw = bytes(value) if not isinstance(value, np.void) else value.tobytes()
        if len(raw) != size:
            raise UsageError(f"argument {index}: {len(raw)} bytes",
                             f"the parameter {_declared(parameter)} has {size}",
                             legal=f"{size} bytes", where=_WHERE)
        return raw
    if is_array or not isinstance(value, (int, float, np.generic)):
        raise UsageError(f"argument {index}: {type(value).__name__}",
                         f"does not fit the parameter {_declared(parameter)}",
                         legal="bytes" if is_array else "an array, a number or bytes", where=_WHERE)
    return _number(index, value, type_, size)


def _maps(value: Any) -> tuple[TensorMap, ...]:
    """The tensor maps of an argument: one, or a list of nothing else."""
    if isinstance(value, TensorMap):
        return (value,)
    if isinstance(value, (list, tuple)) and all(isinstance(item, TensorMap) for item in value):
        return tuple(value)
    return ()


def _tensor_maps(index: int, maps: tuple[TensorMap, ...], parameter: tuple[int, int, str, bool],
                 space: AddressSpace) -> bytes:
    """Maps by value in a struct parameter, or the address of a buffer that holds them."""
    _, size, type_, is_array = parameter
    name = f"argument {index}"
    if is_array and size == len(maps) * MAP_BYTES:
        return b"".join(space.add_map(made, name) for made in maps)
    if size == 8 and not is_array and not is_float(type_):
        return space.add_maps(maps, name).to_bytes(8, "little")
    raise UsageError(f"{name}: {len(maps)} tensor map(s)",
                     f"the parameter {_declared(parameter)} takes none",
                     legal=f".b8[{len(maps) * MAP_BYTES}], or .u64 for their address",
                     where=_WHERE)


def _pointer(index: int, array: NDArray[Any], parameter: tuple[int, int, str, bool],
             space: AddressSpace) -> bytes:
    _, size, type_, is_array = parameter
    if size != 8 or is_array or is_float(type_):
        raise UsageError(f"argument {index}: array of {array.dtype}, shape {array.shape}",
                         f"the parameter {_declared(parameter)} is no pointer",
                         legal="a number or bytes", where=_WHERE)
    if array.dtype.hasobject:
        raise UsageError(f"argument {index}: array of {array.dtype}", "has no bytes of its own",
                         legal="numeric dtypes", where=_WHERE)
    if array.flags.writeable and _overlaps_itself(array):
        raise UsageError(f"argument {index}: strides {array.strides}",
                         "elements overlap, so results cannot be written back",
                         legal="np.ascontiguousarray(array)", where=_WHERE)
    return space.add(array, f"argument {index}").to_bytes(8, "little")


def _overlaps_itself(array: NDArray[Any]) -> bool:
    """Whether elements share bytes (or lie interleaved in a way that only a search could tell)."""
    if not array.size:
        return False
    reach = array.itemsize
    for stride, extent in sorted((abs(stride), extent) for stride, extent in
                                 zip(array.strides, array.shape, strict=True) if extent > 1):
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False


def _number(index: int, value: Any, type_: str, size: int) -> bytes:
    if isinstance(value, np.generic):
        return _typed_number(index, value, type_, size)
    bits = 8 * size
    if kind(type_) == "p":
        raise UsageError(f"argument {index}: {value!r}", "a parameter cannot be a predicate",
                         legal=".param .u32 and a comparison", where=_WHERE)
    if is_float(type_) and isinstance(value, int) and abs(value) > _FLOAT_INT:
        raise UsageError(f"argument {index}: an integer of {value.bit_length()} bits",
                         f"does not fit .{type_}", legal="a float", where=_WHERE)
    if isinstance(value, float) and not is_float(type_) and kind(type_) != "b":
        raise UsageError(f"argument {index}: {value!r}", f"the parameter .{type_} is an integer",
                         legal="an int", where=_WHERE)
    if not is_float(type_) and isinstance(value, int):
        _check_range(index, value, type_, bits)
    return (encode_number(value, type_) & ((1 << bits) - 1)).to_bytes(size, "little")


def _check_range(index: int, value: int, type_: str, bits: int) -> None:
    low, high = -(1 << bits - 1), (1 << bits) - 1
    if not low <= value <= high:
        raise UsageError(f"argument {index}: {value}", f"does not fit .{type_}",
                         legal=f"{low} to {high}", where=_WHERE)


def _typed_number(index: int, value: np.generic, type_: str, size: int) -> bytes:
    """A NumPy or ml_dtypes scalar: its own bits where the widths agree."""
    if isinstance(value, np.integer) and not is_float(type_):
        return _number(index, int(value), type_, size)
    if value.dtype.itemsize == size and (kind(type_) == "b" or is_float(type_)):
        return value.tobytes()
    if is_float(type_):
        return _number(index, float(value), type_, size)
    raise UsageError(f"argument {index}: {value.dtype} scalar", f"does not fit .{type_}",
                     legal=f"a value of {size} bytes", where=_WHERE)

"""Kernel parameters as the command line spells them.

    in:A.npy              a buffer from a file
    out:128,256:f32:D.npy a buffer of that shape and type, written to the file after the run
    inout:C.npy:D.npy     a buffer from one file, written to another after the run
    s32:5  u64:7  f32:1.5 a number of that type
    bytes:00ff10          the bytes of a struct parameter
    tma:0:box=64,128      a tensor map over the buffer of parameter 0; tma:in:F.npy:box=... and
                          tma:out:SHAPE:DTYPE:F.npy:box=... are over buffers of their own

Types are PTX's. Those that ``.npy`` cannot hold travel as raw words of the same width: ``u16`` for
bf16, ``u8`` for FP8 and the narrower formats. A buffer that is only written starts as all ones (NaN
in floating types), so what the kernel leaves out is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.cli.tensor_maps import over, split
from mmalab.errors import UsageError

__all__ = ["Argument", "read_argument", "word_type"]

_WHERE = "mmalab run --arg"
_MAP_SPECS = ("tma:N:box=64,128", "tma:in:F.npy:box=64,128",
              "tma:out:SHAPE:DTYPE:F.npy:box=64,128")
_SPECS = ("in:F.npy", "out:SHAPE:DTYPE:F.npy", "inout:F.npy:G.npy", "TYPE:NUMBER", "bytes:HEX",
          *_MAP_SPECS)

#: NumPy's own types by PTX name.
_NUMPY = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "tf32": np.float32,
    "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "b8": np.uint8, "b16": np.uint16, "b32": np.uint32, "b64": np.uint64,
    "f16x2": np.uint32, "bf16x2": np.uint32,
}
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter: its value, and the file that gets it after the run (None: none)."""

    value: Any
    output: Path | None = None
    #: What is written, where that is not the value itself: the array of a tensor map.
    array: NDArray[Any] | None = None
    #: The PTX type of a buffer that starts as all ones.
    type: str = ""

    def save(self) -> None:
        """Write the buffer to its file.

        Raises:
            UsageError: the file cannot be written.
        """
        if self.output is None:
            return
        try:
            # Through a handle: np.save would add .npy to a name without it.
            with self.output.open("wb") as file:
                np.save(file, self.value if self.array is None else self.array)
        except OSError as failed:
            raise UsageError(str(self.output), f"cannot be written: {failed.strerror}",
                             legal="a file in a folder that is there", where=_WHERE) from None


def word_type(name: str) -> np.dtype[Any]:
    """The NumPy type that holds elements of a PTX type in a ``.npy`` file.

    Raises:
        UsageError: no such type.
    """
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    found = formats.get(name)
    return np.dtype(_WORDS[1 << max(0, (found.bits - 1) // 8).bit_length()])


def read_argument(spec: str, folder: Path) -> Argument:
    """One ``--arg``. Input files are looked for here, then in `folder` (the kernel's).

    Raises:
        UsageError: not one of the spellings, or a file that cannot be read.
    """
    word, colon, rest = spec.partition(":")
    if not colon:
        raise UsageError(f"--arg {spec}", "has no colon", legal=_SPECS, where=_WHERE)
    if word == "in":
        return Argument(_load(rest, folder))
    if word == "inout":
        source, _, target = rest.partition(":")
        if not target:
            raise UsageError(f"--arg {spec}", "names no file to write", legal="inout:F.npy:G.npy",
                             where=_WHERE)
        return Argument(_load(source, folder), Path(target))
    if word == "out":
        return _out(spec, rest)
    if word == "bytes":
        return Argument(_hex(spec, rest))
    if word == "tma":
        return _own_map(spec, rest, folder)
    return Argument(_number(spec, word, rest))


def _load(name: str, folder: Path) -> NDArray[Any]:
    path = Path(name)
    if not path.exists() and not path.is_absolute() and (folder / path).exists():
        path = folder / path
    try:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as failed:
        why = failed.strerror if isinstance(failed, OSError) and failed.strerror else str(failed)
        raise UsageError(name, f"cannot be read as .npy: {why}",
                         legal="a file of numbers that numpy.save wrote", where=_WHERE) from None
    if array.dtype.kind == "V" and array.dtype.itemsize in _WORDS:
        # ml_dtypes arrays are saved as bytes without a type: their words are what counts.
        array = array.view(_WORDS[array.dtype.itemsize])
    return np.array(array, order="C")


def _out(spec: str, rest: str) -> Argument:
    parts = rest.split(":", 2)
    if len(parts) != 3 or not parts[2]:
        raise UsageError(f"--arg {spec}", "is not out:SHAPE:DTYPE:F.npy",
                         legal="out:128,256:f32:D.npy", where=_WHERE)
    shape, dtype, name = parts
    sizes = shape.split(",")
    if not all(size.strip().isascii() and size.strip().isdecimal() for size in sizes):
        raise UsageError(f"shape {shape}", "is not whole numbers separated by commas",
                         legal="128,256", where=_WHERE)
    try:
        array = np.empty(tuple(map(int, sizes)), word_type(dtype))
    except ValueError as failed:
        raise UsageError(f"shape {shape}", f"is no array: {failed}",
                         legal="128,256", where=_WHERE) from None
    array.reshape(-1).view(np.uint8)[:] = 0xFF
    return Argument(array, Path(name), type=dtype)


def _hex(spec: str, text: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        raise UsageError(f"--arg {spec}", "is not pairs of hexadecimal digits",
                         legal="bytes:00ff10", where=_WHERE) from None


def _number(spec: str, dtype: str, text: str) -> Any:
    if dtype not in _NUMPY and dtype not in formats.FORMATS and dtype not in formats.ALIASES:
        raise UsageError(f"--arg {spec}", f"{dtype!r} is neither a role nor a type",
                         legal=(*_SPECS, *_NUMPY), where=_WHERE)
    kind = word_type(dtype)
    try:
        if dtype not in _NUMPY:
            return kind.type(formats.encode(np.asarray(float(text)), dtype))
        if kind.kind == "f":
            return kind.type(float(text))
        value = int(text, 0)
    except ValueError:
        raise UsageError(f"--arg {spec}", f"{text!r} is not a number of type {dtype}",
                         legal=[f"{dtype}:5", f"{dtype}:{'0x10' if kind.kind in 'iu' else '1.5'}"],
                         where=_WHERE) from None
    limits = np.iinfo(kind)
    if not int(limits.min) <= value <= int(limits.max):
        raise UsageError(f"--arg {spec}", f"{value} does not fit {dtype}",
                         legal=f"{limits.min} to {limits.max}", where=_WHERE)
    return kind.type(value)


def read_arguments(specs: Sequence[str], folder: Path) -> list[Argument]:
    """All parameters in order; nothing is written before the run.

    Raises:
        UsageError: as :func:`read_argument`, and for ``tma:N`` without a buffer in parameter N.
    """
    found: list[Argument | None] = [
        None if _refers(spec) else read_argument(spec, folder) for spec in specs]
    return [_map_over(spec, found) if argument is None else argument
            for spec, argument in zip(specs, found, strict=True)]


# --- tensor maps ----------------------------------------------------------------------------------

def _refers(spec: str) -> bool:
    """Whether the argument is a map over the buffer of another one."""
    word, _, rest = spec.partition(":")
    return word == "tma" and rest.partition(":")[0] not in ("in", "out")


def _map_over(spec: str, arguments: Sequence[Argument | None]) -> Argument:
    (number,), options = split(spec.partition(":")[2])
    known = [str(i) for i, one in enumerate(arguments)
             if one is not None and isinstance(one.value, np.ndarray)]
    if number not in known:
        raise UsageError(f"--arg {spec}", f"parameter {number} is no buffer",
                         legal=[*(f"tma:{n}:box=..." for n in known), *_MAP_SPECS[1:]],
                         where=_WHERE)
    buffer = arguments[int(number)]
    return Argument(over(buffer.value if buffer else None, options))


def _own_map(spec: str, rest: str, folder: Path) -> Argument:
    parts, options = split(rest)
    if parts[0] == "in" and len(parts) == 2:
        return Argument(over(_load(parts[1], folder), options))
    if parts[0] == "out" and len(parts) == 4:
        held = _out(spec, ":".join(parts[1:]))
        return Argument(over(held.value, options, dtype=parts[2]), held.output, held.value,
                        held.type)
    raise UsageError(f"--arg {spec}", "is no tensor map", legal=_MAP_SPECS, where=_WHERE)

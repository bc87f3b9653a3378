"""From a manifest row to arrays, and from arrays to a verdict. Shared by emulator and GPU runs.

    row = rows()["histogram-sm_80-nvcc13.0"]
    arguments = build(row, seed=7)                # what the kernel gets, parameter by parameter
    want = references.expected(row, arguments)    # computed from the arguments before the launch
    ... launch, which writes arguments[i].value in place ...
    faults = compare(row, arguments, want)        # sentences, none when all outputs are right

Types that NumPy lacks (bf16, FP8) are ml_dtypes arrays here; a launcher takes `words`, the same
memory as unsigned integers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

__all__ = ["CORPUS", "DTYPES", "Argument", "build", "compare", "rows"]

CORPUS = Path(__file__).resolve().parent
Array = NDArray[Any]
Json = dict[str, Any]

DTYPES: dict[str, np.dtype[Any]] = {
    **{f"{kind}{bits}": np.dtype(f"{word}{bits}") for bits in (8, 16, 32, 64)
       for kind, word in (("u", "uint"), ("s", "int"))},
    "f16": np.dtype("float16"), "f32": np.dtype("float32"), "f64": np.dtype("float64"),
    "bf16": np.dtype(ml_dtypes.bfloat16), "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
POISON = 0xCB


@dataclass(frozen=True)
class Argument:
    """One kernel parameter with its value: an array, a NumPy scalar or the bytes of a struct.

    `tensor_map` is set when the kernel takes a tensor map over the array: its box and swizzle.
    """

    name: str
    role: str
    value: Any
    tensor_map: Json | None = None

    @property
    def words(self) -> Any:
        """The value with types that only ml_dtypes knows seen as unsigned integers."""
        if isinstance(self.value, np.ndarray) and self.value.dtype.kind == "V":
            return self.value.view(f"uint{8 * self.value.dtype.itemsize}")
        return self.value


def rows() -> dict[str, Json]:
    """The manifest, by id."""
    return {row["id"]: row for row in json.loads((CORPUS / "manifest.json").read_text())}


def build(row: Json, seed: int) -> list[Argument]:
    """The arguments of one launch: a function of the row and the seed."""
    rng = np.random.default_rng(seed)
    return [_argument(spec, rng) for spec in row["args"]]


def _argument(spec: Json, rng: np.random.Generator) -> Argument:
    if spec["role"] == "tensormap":
        of = spec["array"]
        return Argument(of["name"], of["role"], _value(of, rng), spec)
    return Argument(spec["name"], spec["role"], _value(spec, rng))


def _value(spec: Json, rng: np.random.Generator) -> Any:
    if spec["role"] == "struct":
        return bytes.fromhex(spec["hex"])
    dtype = DTYPES[spec["dtype"]]
    if spec["role"] == "scalar":
        return dtype.type(spec["value"])
    how, *numbers = spec["fill"]
    shape = tuple(spec["shape"])
    filled = _FILLS[how](rng, shape, dtype, *numbers)
    return np.ascontiguousarray(np.asarray(filled).astype(dtype, copy=False)).reshape(shape)


# --- fills ----------------------------------------------------------------------------------------

Shape = tuple[int, ...]


def _bits(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Every bit at random: all codes, infinities and NaNs included."""
    raw = np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), np.uint8)
    return raw.copy().view(dtype)


def _normal(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any], scale: float) -> Array:
    return rng.normal(0.0, scale, shape)


def _uniform(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any], low: float,
             high: float) -> Array:
    return rng.uniform(low, high, shape)


def _wide(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any], low: float,
          high: float) -> Array:
    """Normals times powers of two with exponents between `low` and `high`."""
    return rng.normal(0.0, 1.0, shape) * np.exp2(rng.uniform(low, high, shape))


def _integers(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any], low: int,
              high: int) -> Array:
    return rng.integers(low, high, shape)


def _magnitudes(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Odd words of all lengths, so that small divisors and shifts occur; never zero."""
    words = np.dtype(f"uint{8 * dtype.itemsize}")
    shifts = rng.integers(0, 8 * dtype.itemsize, shape).astype(words)
    return ((_bits(rng, shape, words).reshape(shape) >> shifts) | words.type(1)).view(dtype)


def _special(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Normals, a third of them replaced by zeros, infinities, NaN, subnormals and limits."""
    limits = np.finfo(dtype)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, limits.smallest_subnormal * 5,
                    -limits.tiny * 0.75, limits.max, -limits.max, limits.tiny, 1.0, 0.5], dtype)
    chosen = odd[rng.integers(0, len(odd), shape)]
    usual = (rng.normal(0.0, 1.0, shape) * np.exp2(rng.integers(-4, 5, shape))).astype(dtype)
    return np.where(rng.random(shape) < 1 / 3, chosen, usual)


def _choice(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any],
            values: list[Any]) -> Array:
    return rng.choice(np.array(values), shape)


def _list(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any], values: list[Any]) -> Array:
    return np.array(values, dtype)


def _constant(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any], value: float) -> Array:
    return np.full(shape, value)


def _zeros(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
    return np.zeros(shape, dtype)


def _poison(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
    return np.full(int(np.prod(shape)) * dtype.itemsize, POISON, np.uint8).view(dtype)


_FILLS = {
    "bits": _bits, "normal": _normal, "uniform": _uniform, "wide": _wide, "integers": _integers,
    "magnitudes": _magnitudes, "special": _special, "choice": _choice, "list": _list,
    "value": _constant, "zeros": _zeros, "poison": _poison,
}


# --- comparison -----------------------------------------------------------------------------------

def compare(row: Json, arguments: list[Argument], want: Mapping[str, Array]) -> list[str]:
    """What is wrong with the outputs, one sentence each."""
    outputs = {a.name: a.value for a in arguments if a.role in ("out", "inout")}
    missing = sorted(set(outputs) - set(want))
    faults = [f"{name}: the reference does not give it" for name in missing]
    for name, expected in want.items():
        got = outputs[name]
        if got.shape != expected.shape or got.dtype != expected.dtype:
            faults.append(f"{name}: {got.dtype}{got.shape}, the reference gives "
                          f"{expected.dtype}{expected.shape}")
            continue
        with np.errstate(all="ignore"):
            fault = _difference(got, expected, row["compare"].get(name, "bits"))
        faults.extend([f"{name}: {fault}"] if fault else [])
    return faults


def _difference(got: Array, want: Array, how: Any) -> str:
    if how == "sorted":
        got, want = np.sort(got, axis=None), np.sort(want, axis=None)
    wrong = _bits_differ(got, want)
    if how == "values":
        wrong &= ~(np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64)))
    elif isinstance(how, dict):
        wrong = _outside(got, want, how)
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (f"{int(wrong.sum())} of {wrong.size} differ, the first at {list(at)}: "
            f"{_shown(got[at])}, expected {_shown(want[at])}")


def _bits_differ(got: Array, want: Array) -> NDArray[np.bool_]:
    word = f"uint{8 * got.dtype.itemsize}"
    differ: NDArray[np.bool_] = (np.ascontiguousarray(got).view(word)
                                 != np.ascontiguousarray(want).view(word))
    return differ


def _outside(got: Array, want: Array, bound: Json) -> NDArray[np.bool_]:
    g, w = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        far = ~(np.abs(g - w) <= bound["absolute"] + bound["relative"] * np.abs(w))
    same = (g == w) | (np.isnan(g) & np.isnan(w))
    outside: NDArray[np.bool_] = far & ~same
    return outside


def _shown(value: Any) -> str:
    raw = np.asarray(value).reshape(1).view(f"uint{8 * np.asarray(value).dtype.itemsize}")[0]
    return f"{value} (0x{int(raw):0{2 * np.asarray(value).dtype.itemsize}x})"

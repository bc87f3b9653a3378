"""How a corpus case is written down: which source, which entry, which launch, which arguments.

A case is a plain dictionary (it goes to `manifest.json` as it is), made by the constructors below:

    case("atomics.cu", "histogram", grid=(3,), block=(128,),
         args=[array("x", "u8", (1000,), "bits"), array("bins", "u32", (256,), "zeros",
               role="inout"), scalar("n", "s32", 1000)])

runs `histogram<<<3, 128>>>(x, bins, 1000)` of the PTX that was made from `atomics.cu` for each
target, and compares `bins` with `references.histogram(...)`, bit for bit because no other
comparison is named. Fills are words with numbers behind them; `inputs.py` knows what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["array", "case", "close", "out", "scalar", "struct", "tensor_map"]

Json = dict[str, Any]


def array(name: str, dtype: str, shape: Sequence[int], *fill: Any, role: str = "in") -> Json:
    """A pointer parameter: PTX dtype, shape in elements, and how its elements are made."""
    return {"name": name, "role": role, "dtype": dtype, "shape": list(shape), "fill": list(fill)}


def out(name: str, dtype: str, shape: Sequence[int]) -> Json:
    """A pointer parameter that the kernel only writes: it starts as poison."""
    return array(name, dtype, shape, "poison", role="out")


def scalar(name: str, dtype: str, value: float) -> Json:
    """A parameter by value."""
    return {"name": name, "role": "scalar", "dtype": dtype, "value": value}


def struct(name: str, words: str) -> Json:
    """A parameter that is a struct by value: its bytes in hexadecimal."""
    return {"name": name, "role": "struct", "hex": words}


def tensor_map(of: Json, box: Sequence[int], swizzle: str = "none") -> Json:
    """A 128-byte tensor map parameter over an array of its own; the box is innermost first."""
    return {"name": of["name"], "role": "tensormap", "array": of, "box": list(box),
            "swizzle": swizzle}


def close(relative: float, absolute: float, reason: str) -> Json:
    """A float comparison: |got - want| <= absolute + relative * |want|, and why not the bits."""
    return {"how": "close", "relative": relative, "absolute": absolute, "reason": reason}


def case(source: str, entry: str, *, grid: Sequence[int], block: Sequence[int],
         args: Sequence[Json], targets: Sequence[str] = ("sm_80",),
         compilers: Sequence[str] = ("nvcc13.0",), reference: str | None = None,
         compare: dict[str, Any] | None = None, dynamic_shared: int = 0,
         cluster: Sequence[int] = (1, 1, 1), note: str = "", variant: str = "",
         recipe: Json | None = None) -> Json:
    """One kernel, one launch. `compare` names the outputs that are not compared by their bits:
    `close(...)`, ``"values"`` (bits, but any NaN equals any NaN) or ``"sorted"`` (as multisets).
    `recipe` says how a compiler other than CUDA's gets at the kernel."""
    return {
        "source": source, "entry": entry, "targets": list(targets), "compilers": list(compilers),
        "grid": _three(grid), "block": _three(block), "cluster": _three(cluster),
        "dynamic_shared": dynamic_shared, "args": list(args), "reference": reference or entry,
        "compare": compare or {}, "note": note, "variant": variant, "recipe": recipe,
    }


def _three(extent: Sequence[int]) -> list[int]:
    return [*extent, 1, 1, 1][:3]

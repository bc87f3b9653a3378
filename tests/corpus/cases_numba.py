"""The cases of the Numba sources. Numba passes an array as its parts: two object pointers (null),
the number of elements, their size, the data, then shape and strides in 64-bit words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corpus.cases import array, case, close, out, scalar
from corpus.inputs import DTYPES

__all__ = ["CASES"]

Json = dict[str, Any]
LIBRARY = "libdevice's functions err by a few ulps"


def parts(whole: Json, complex_pairs: bool) -> list[Json]:
    """The parameters that stand for one array."""
    shape = whole["shape"][:-1] if complex_pairs else whole["shape"]
    size = DTYPES[whole["dtype"]].itemsize * (2 if complex_pairs else 1)
    strides = [size * _product(shape[i + 1:]) for i in range(len(shape))]
    name = whole["name"]

    def word(part: str, value: int) -> Json:
        return scalar(f"{name}_{part}", "u64", value)

    return [word("meminfo", 0), word("parent", 0), word("nitems", _product(shape)),
            word("itemsize", size), whole,
            *(word(f"shape{i}", extent) for i, extent in enumerate(shape)),
            *(word(f"stride{i}", stride) for i, stride in enumerate(strides))]


def _product(extents: Sequence[int]) -> int:
    result = 1
    for extent in extents:
        result *= extent
    return result


def kernel(entry: str, grid: Sequence[int], block: Sequence[int], args: list[Json],
           types: list[str], **more: Any) -> Json:
    """A case; `types` are the words of Numba's types, argument by argument."""
    flat = [p for a, t in zip(args, types, strict=True)
            for p in (parts(a, complex_pairs=t.startswith("c")) if "shape" in a else [a])]
    return case("kernels.py", entry, grid=grid, block=block, args=flat,
                compilers=("numba_cuda0.30.4",), recipe={"kind": "numba", "types": types}, **more)


CASES = [
    kernel("axpy_floor", (2,), (64,),
           [scalar("a", "f32", 1.5), array("x", "f32", (300,), "integers", -99, 99),
            array("y", "f32", (300,), "integers", -99, 99), out("out", "f32", (300,))],
           ["f32", "f32[]", "f32[]", "f32[]"], targets=("sm_80", "sm_90")),
    kernel("tiled_product", (4, 3), (8, 8),
           [array("a", "f32", (30, 21), "normal", 1.0), array("b", "f32", (21, 19), "normal", 1.0),
            out("d", "f32", (30, 19))], ["f32[,]", "f32[,]", "f32[,]"], reference="matmul",
           compare={"d": close(1e-5, 1e-5, "the order of the additions differs")}),
    kernel("byte_histogram", (3,), (96,),
           [array("x", "u8", (700,), "bits"), array("bins", "s32", (64,), "zeros", role="inout")],
           ["u8[]", "s32[]"]),
    kernel("complex_escape", (2,), (64,),
           [array("z", "f64", (100, 2), "normal", 1.0), out("counts", "s32", (100,)),
            scalar("limit", "s32", 50)], ["c128[]", "s32[]", "s32"]),
    kernel("warp_maximum", (2,), (64,),
           [array("x", "f32", (128,), "integers", -999, 999), out("tops", "f32", (4,)),
            out("sums", "f32", (4,))], ["f32[]", "f32[]", "f32[]"]),
    kernel("local_medians", (2,), (64,),
           [array("x", "s32", (100, 9), "bits"), out("out", "s32", (100,))], ["s32[,]", "s32[]"]),
    kernel("special_functions", (2,), (32,),
           [array("x", "f64", (50,), "normal", 2.0), out("out", "f64", (50, 8))],
           ["f64[]", "f64[,]"], compare={"out": close(1e-13, 1e-14, LIBRARY)}),
]

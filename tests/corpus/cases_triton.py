"""The cases of the Triton sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corpus.cases import array, case, close, out, scalar

__all__ = ["CASES"]

Json = dict[str, Any]

TYPES = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", "s8": "i8", "u8": "u8",
         "s32": "i32", "u32": "u32", "s64": "i64", "e4m3": "fp8e4nv", "e5m2": "fp8e5"}
TENSOR = "products are exact, sums are truncated to some 24 bits in the chip's order"
APPROXIMATE = "approximate exponentials and divisions, and another order of the additions"
ROUNDED = "the result is rounded to a narrow type, once more or less"


def kernel(source: str, entry: str, grid: Sequence[int], args: list[Json],
           constants: dict[str, Any], *, warps: int = 4, stages: int = 3, **more: Any) -> Json:
    """A case whose signature follows from its arguments; compile-time values come last. Integers
    that are multiples of 16 are declared so, as Triton's own launcher would."""
    signature = {a["name"]: ("*" if "shape" in a else "") + TYPES[a["dtype"]] for a in args}
    signature |= dict.fromkeys(constants, "constexpr")
    multiples = [a["name"] for a in args
                 if a["role"] == "scalar" and a["dtype"] == "s32" and a["value"] % 16 == 0]
    facts = {"kind": "triton", "signature": signature, "constants": constants,
             "multiples": multiples, "warps": warps, "stages": stages}
    return case(source, entry, grid=grid, block=(32 * warps,), args=args, recipe=facts,
                compilers=("triton3.9.0",), **more)


def n(name: str, value: int) -> Json:
    """An int parameter."""
    return scalar(name, "s32", value)


NORMAL, SMALL = ["normal", 1.0], ["integers", -4, 5]


def product(variant: str, a: str, d: str, sizes: tuple[int, int, int], tile: tuple[int, int, int],
            fill: list[Any], *, entry: str = "matmul_whole", compare: Any = None,
            **more: Any) -> Json:
    """A product of whole tiles; B is K x N, or N x K for `matmul_transposed`."""
    m, columns, k = sizes
    b = (columns, k) if entry == "matmul_transposed" else (k, columns)
    constants = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    constants["ACC"] = "int32" if d == "s32" else "fp32"
    return kernel("products.py", entry, (m // tile[0], columns // tile[1]),
                  [array("a", a, (m, k), *fill), array("b", a, b, *fill), out("d", d, (m, columns)),
                   n("n", columns), n("k", k)], constants, variant=variant,
                  reference="matmul_transposed" if entry == "matmul_transposed" else "matmul",
                  compare={"d": compare} if compare else {}, **more)


TILES = close(1e-5, 2e-4, TENSOR)

PRODUCTS = [
    kernel("products.py", "matmul", (3, 2),
           [array("a", "f16", (70, 40), *NORMAL), array("b", "f16", (40, 50), *NORMAL),
            out("d", "f32", (70, 50)), n("m", 70), n("n", 50), n("k", 40)],
           {"BM": 32, "BN": 32, "BK": 32, "ACC": "fp32"}, variant="tails", stages=2,
           compare={"d": TILES}, targets=("sm_80", "sm_89")),
    product("f16_stages3", "f16", "f32", (128, 64, 160), (64, 64, 32), NORMAL, compare=TILES,
            targets=("sm_80", "sm_89", "sm_120a")),
    product("f16_stages4_warps8", "f16", "f16", (128, 128, 128), (128, 64, 32), SMALL, warps=8,
            stages=4),
    product("f16_warps2", "f16", "f32", (64, 64, 96), (32, 64, 32), NORMAL, warps=2, stages=2,
            compare=TILES, targets=("sm_90a",)),
    product("f16_wgmma", "f16", "f32", (128, 64, 128), (64, 64, 64), NORMAL, compare=TILES,
            targets=("sm_90a",), note="wgmma with operands in shared memory, copies by cp.async"),
    product("f16_tcgen05", "f16", "f32", (128, 64, 128), (128, 64, 64), NORMAL, compare=TILES,
            targets=("sm_100a",), note="tcgen05.mma, Tensor Memory, mbarriers"),
    product("bf16_stages2", "bf16", "f32", (64, 128, 64), (64, 64, 32), NORMAL, stages=2,
            compare=TILES, targets=("sm_80", "sm_89")),
    product("tf32", "f32", "f32", (64, 64, 64), (64, 32, 32), ["integers", -16, 17], stages=2,
            targets=("sm_80", "sm_89"), note="integers that TF32 holds, so sums are exact"),
    product("s8", "s8", "s32", (64, 64, 128), (64, 32, 64), ["bits"], entry="matmul_transposed",
            targets=("sm_80", "sm_89")),
    product("e4m3", "e4m3", "f32", (64, 64, 128), (64, 32, 64), SMALL, entry="matmul_transposed",
            targets=("sm_89", "sm_120a")),
    product("e5m2", "e5m2", "f32", (64, 64, 128), (32, 32, 64), SMALL, entry="matmul_transposed",
            targets=("sm_80", "sm_89"), note="before sm_89 the operands become float16"),
    kernel("products.py", "matmul_descriptors", (2, 2),
           [array("a", "f16", (128, 128), *SMALL), array("b", "f16", (128, 128), *SMALL),
            out("d", "f16", (128, 128)), n("m", 128), n("n", 128), n("k", 128)],
           {"BM": 64, "BN": 64, "BK": 64}, reference="matmul_transposed",
           targets=("sm_90a", "sm_100a"),
           note="tensor maps built by tensormap.replace, TMA loads and stores, wgmma or tcgen05"),
    kernel("products.py", "split_k", (1, 2, 3),
           [array("a", "f16", (32, 192), *SMALL), array("b", "f16", (192, 64), *SMALL),
            array("d", "f32", (32, 64), "zeros", role="inout"), n("n", 64), n("k", 192),
            n("part", 64)], {"BM": 32, "BN": 32, "BK": 32}, reference="matmul",
           targets=("sm_80", "sm_89", "sm_90a")),
    kernel("products.py", "linear_gelu", (8,),
           [array("a", "bf16", (128, 64), *NORMAL), array("b", "bf16", (64, 64), "normal", 0.1),
            array("bias", "f32", (64,), *NORMAL), out("d", "bf16", (128, 64)), n("n", 64),
            n("k", 64)], {"BM": 32, "BN": 32, "BK": 32, "GROUP": 2},
           compare={"d": close(8e-3, 1e-3, ROUNDED)}),
    kernel("products.py", "batched_f64", (3,),
           [array("a", "f64", (3, 16, 16), *NORMAL), array("b", "f64", (3, 16, 16), *NORMAL),
            out("d", "f64", (3, 16, 16))], {"N": 16}, reference="matmul",
           compare={"d": close(1e-13, 1e-13, "the order of the additions differs")}),
]


def row_pair(entry: str, columns: int, block: int, **more: Any) -> Json:
    """x to y, row by row."""
    return kernel("rows.py", entry, (5,), [array("x", "f32", (5, columns), "normal", 3.0),
                                           out("y", "f32", (5, columns)), n("columns", columns)],
                  {"BLOCK": block}, compare={"y": close(1e-5, 1e-7, APPROXIMATE)},
                  reference="softmax", **more)


ROWS = [
    row_pair("softmax", 300, 512, targets=("sm_80", "sm_89", "sm_90a")),
    row_pair("online_softmax", 300, 128, targets=("sm_80", "sm_120a")),
    kernel("rows.py", "layer_norm", (4,),
           [array("x", "f16", (4, 200), *NORMAL), array("gain", "f16", (200,), *NORMAL),
            array("bias", "f16", (200,), *NORMAL), out("y", "f16", (4, 200)),
            out("mean_out", "f32", (4,)), out("scale_out", "f32", (4,)), n("columns", 200),
            scalar("epsilon", "f32", 1e-5)], {"BLOCK": 256}, reference="layer_norm_full",
           compare={"y": close(2e-3, 1e-3, ROUNDED), "mean_out": close(1e-5, 1e-6, APPROXIMATE),
                    "scale_out": close(1e-5, 1e-6, APPROXIMATE)}, targets=("sm_80", "sm_89")),
    kernel("rows.py", "rms_norm", (4,),
           [array("x", "bf16", (4, 500), *NORMAL), array("gain", "bf16", (500,), *NORMAL),
            out("y", "bf16", (4, 500)), n("columns", 500), scalar("epsilon", "f32", 1e-6)],
           {"BLOCK": 512}, compare={"y": close(8e-3, 1e-6, ROUNDED)}, targets=("sm_80", "sm_90a")),
    kernel("rows.py", "welford", (3,),
           [array("x", "f32", (3, 150), "normal", 2.0), out("means", "f32", (3,)),
            out("variances", "f32", (3,)), n("columns", 150)], {"BLOCK": 256},
           compare={"means": close(1e-5, 1e-5, APPROXIMATE),
                    "variances": close(1e-5, 1e-5, APPROXIMATE)}),
    kernel("rows.py", "reductions", (1,),
           [array("x", "s32", (32, 64), "integers", -1000, 1000), out("row_sums", "s32", (32,)),
            out("column_sums", "s32", (64,)), out("row_tops", "s32", (32,)),
            out("column_least", "s32", (64,))], {"M": 32, "N": 64}, targets=("sm_80", "sm_89")),
    kernel("rows.py", "arg_extremes", (4,),
           [array("x", "f32", (4, 256), "integers", -90, 90), out("largest", "s32", (4,)),
            out("least", "s32", (4,))], {"N": 256}, note="ties go to the lowest index",
           targets=("sm_80", "sm_89")),
    kernel("rows.py", "scans", (2,),
           [array("x", "s32", (2, 128), "integers", -99, 99),
            array("gates", "f32", (2, 128), "uniform", 0.5, 1.0), out("sums", "s32", (2, 128)),
            out("states", "f32", (2, 128))], {"N": 128},
           compare={"states": close(1e-5, 1e-3, APPROXIMATE)}),
    kernel("rows.py", "sorting", (2,),
           [array("x", "s32", (2, 128), "bits"), out("ordered", "s32", (2, 128)),
            out("flipped", "s32", (2, 128))], {"N": 128}),
    kernel("rows.py", "cross_entropy", (4,),
           [array("logits", "f16", (4, 200), "normal", 3.0),
            array("labels", "s32", (4,), "integers", 0, 200), out("losses", "f32", (4,)),
            n("columns", 200)], {"BLOCK": 256},
           compare={"losses": close(1e-5, 1e-5, APPROXIMATE)}),
]

ELEMENTS = [
    kernel("elements.py", "gelu", (3,),
           [array("x", "f32", (600,), "normal", 2.0), out("exact", "f32", (600,)),
            out("quick", "f32", (600,)), n("n", 600)], {"BLOCK": 256}, reference="gelu_quick",
           compare={"exact": close(1e-5, 1e-6, APPROXIMATE),
                    "quick": close(1e-5, 1e-6, APPROXIMATE)}, targets=("sm_80", "sm_90a")),
    kernel("elements.py", "dropout", (2,),
           [array("x", "f32", (500,), *NORMAL), out("y", "f32", (500,)), n("n", 500),
            scalar("keep", "f32", 0.7), n("seed", 12345)], {"BLOCK": 256},
           compare={"y": close(1e-6, 0.0, "approximate division")}, targets=("sm_80", "sm_89")),
    kernel("elements.py", "random_words", (2,), [out("out", "s32", (512, 4)), n("seed", 77)],
           {"BLOCK": 256}),
    kernel("elements.py", "transpose", (3, 3),
           [array("x", "f16", (70, 90), "bits"), out("y", "f16", (90, 70)), n("m", 70), n("n", 90)],
           {"BM": 32, "BN": 32}, targets=("sm_80", "sm_89")),
    kernel("elements.py", "embedding", (3,),
           [array("table", "f32", (50, 64), *NORMAL),
            array("tokens", "s32", (24,), "integers", 0, 50),
            out("y", "f32", (24, 64))], {"WIDTH": 64, "COUNT": 8}),
    kernel("elements.py", "gather", (1,),
           [array("x", "f32", (16, 64), *NORMAL),
            array("index", "s32", (16, 64), "integers", 0, 64),
            out("y", "f32", (16, 64))], {"M": 16, "N": 64}),
    kernel("elements.py", "histogram", (3,),
           [array("x", "s32", (3, 256), "integers", 0, 64),
            array("bins", "s32", (64,), "zeros", role="inout")], {"BLOCK": 256, "BINS": 64},
           reference="histogram_int", targets=("sm_80", "sm_89")),
    kernel("elements.py", "atomics", (2,),
           [array("x", "s32", (400,), "integers", 0, 8),
            array("slots", "s32", (8,), "zeros", role="inout"),
            array("top", "s32", (1,), "value", -5, role="inout"),
            array("least", "s32", (1,), "value", 99, role="inout"),
            array("floats", "f16", (4,), "zeros", role="inout"), n("n", 400)], {"BLOCK": 256},
           targets=("sm_80", "sm_90a")),
    kernel("elements.py", "lock_update", (5,),
           [array("lock", "s32", (1,), "zeros", role="inout"),
            array("total", "s32", (1,), "zeros", role="inout"),
            array("count", "s32", (1,), "zeros", role="inout"),
            array("x", "s32", (5, 128), "integers", -99, 99)], {"BLOCK": 128}),
    kernel("elements.py", "rotary", (4,),
           [array("x", "bf16", (32, 64), *NORMAL), array("cosines", "f32", (32, 32), *NORMAL),
            array("sines", "f32", (32, 32), *NORMAL), out("y", "bf16", (32, 64))],
           {"HALF": 32, "ROWS": 8}, compare={"y": close(8e-3, 1e-2, ROUNDED)}),
    kernel("elements.py", "quantise", (3,),
           [array("x", "bf16", (3, 256), *NORMAL), out("y", "e4m3", (3, 256)),
            out("scales", "f32", (3,))], {"COLUMNS": 256}, targets=("sm_89", "sm_90a"),
           compare={"y": close(0.07, 0.01, "the quotient may fall on either side of a tie"),
                    "scales": close(1e-6, 0.0, "approximate division")}),
    kernel("elements.py", "integer_mix", (2,),
           [array("a", "s32", (500,), "magnitudes"), array("b", "s32", (500,), "magnitudes"),
            out("out", "s32", (500,)), n("n", 500)], {"BLOCK": 256}),
    kernel("elements.py", "adam", (2,),
           [array("w", "bf16", (500,), "normal", 1.0, role="inout"),
            array("g", "bf16", (500,), *NORMAL),
            array("m", "f32", (500,), "normal", 0.1, role="inout"),
            array("v", "f32", (500,), "uniform", 0.0, 1.0, role="inout"), n("n", 500),
            scalar("rate", "f32", 0.01), scalar("beta1", "f32", 0.9), scalar("beta2", "f32", 0.99),
            scalar("epsilon", "f32", 1e-8), scalar("decay", "f32", 0.1)], {"BLOCK": 256},
           compare={"w": close(8e-3, 1e-3, ROUNDED), "m": close(1e-5, 1e-6, APPROXIMATE),
                    "v": close(1e-5, 1e-6, APPROXIMATE)}),
]


def attention(variant: str, dtype: str, causal: bool, **more: Any) -> Json:
    """Two heads of 128 rows and width 32."""
    shape = (2, 128, 32)
    return kernel("attention.py", "attention", (2, 2),
                  [*(array(name, dtype, shape, *NORMAL) for name in "qkv"), out("o", dtype, shape),
                   n("length", 128), scalar("scale", "f32", 0.17677669)],
                  {"BM": 64, "BN": 32, "WIDTH": 32, "CAUSAL": causal}, variant=variant,
                  compare={"o": close(1e-2, 4e-3 if dtype == "f16" else 2e-2, ROUNDED)},
                  reference="attention_causal" if causal else "attention", **more)


ATTENTION = [
    attention("f16_causal", "f16", True, stages=2, targets=("sm_80", "sm_89")),
    attention("bf16_full", "bf16", False, stages=3, targets=("sm_80", "sm_120a")),
    attention("f16_full_warps8", "f16", False, warps=8, stages=2, targets=("sm_90a",),
              note="wgmma inside a loop with a softmax between two products"),
]

CASES = [*PRODUCTS, *ROWS, *ELEMENTS, *ATTENTION]

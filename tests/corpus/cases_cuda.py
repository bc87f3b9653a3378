"""The cases of the CUDA sources, source by source."""

from __future__ import annotations

from typing import Any

from corpus.cases import array, case, close, out, scalar, struct

__all__ = ["CASES"]

TENSOR = "products are exact, sums are truncated to some 24 bits in the chip's order"
ORDER = "the order of the float additions differs"
LIBRARY = "the CUDA library's functions and the approximate instructions err by a few ulps"


def n(value: int, name: str = "n") -> dict[str, Any]:
    """The usual last parameter: an int."""
    return scalar(name, "s32", value)


def wmma(entry: str, a: str, d: str, k: int, fill: list[Any], **more: Any) -> dict[str, Any]:
    """A 32 x 48 product by four warps in two blocks (six tiles)."""
    return case(
        "wmma_matmul.cu", entry, grid=(3,), block=(64,),
        args=[array("a", a, (32, k), *fill), array("b", a, (k, 48), *fill), out("d", d, (32, 48)),
              n(48), n(k, "k")], **more)


def wmma_transposed(entry: str, a: str, low: int, high: int) -> dict[str, Any]:
    """The integer products: B is column-major."""
    return case(
        "wmma_matmul.cu", entry, grid=(2,), block=(96,), reference="matmul_transposed",
        args=[array("a", a, (32, 64), "integers", low, high),
              array("b", a, (48, 64), "integers", low, high), out("d", "s32", (32, 48)),
              n(48), n(64, "k")])


TENSOR_CORES = [
    wmma("wmma_f16", "f16", "f32", 48, ["normal", 1.0], reference="matmul",
         compare={"d": close(1e-5, 1e-4, TENSOR)}, targets=("sm_80", "sm_90"),
         compilers=("nvcc13.0", "nvrtc13.5")),
    wmma("wmma_bf16", "bf16", "f32", 64, ["normal", 1.0], reference="matmul",
         compare={"d": close(1e-5, 1e-4, TENSOR)}),
    wmma("wmma_tf32", "f32", "f32", 24, ["normal", 1.0], reference="matmul_tf32",
         compare={"d": close(1e-5, 1e-4, TENSOR)}),
    wmma_transposed("wmma_s8", "s8", -128, 128),
    wmma_transposed("wmma_u8", "u8", 0, 256),
    case("wmma_tails.cu", "wmma_tails", grid=(2, 3), block=(128,),
         args=[array("a", "f16", (37, 50), "normal", 1.0),
               array("b", "f16", (50, 75), "normal", 1.0),
               array("c", "f32", (37, 75), "normal", 1.0), out("d", "f32", (37, 75)),
               n(37, "m"), n(75), n(50, "k"), scalar("alpha", "f32", 0.5),
               scalar("beta", "f32", -2.0)],
         compare={"d": close(1e-5, 1e-4, TENSOR)}),
    case("wmma_tails.cu", "wmma_m32n8k16", grid=(1,), block=(32,),
         args=[array("a", "f16", (48, 32), "integers", -4, 5),
               array("b", "f16", (8, 48), "integers", -4, 5), out("d", "f16", (8, 32)), n(48, "k")],
         note="integers small enough that float16 sums are exact"),
    case("inline_gemm.cu", "gemm_f16", grid=(2, 2), block=(128,), reference="matmul_transposed",
         args=[array("a", "f16", (128, 96), "normal", 1.0),
               array("b", "f16", (128, 96), "normal", 1.0), out("d", "f32", (128, 128)), n(128),
               n(96, "k")],
         compare={"d": close(1e-5, 2e-4, TENSOR)}, compilers=("nvcc13.0", "nvrtc13.5"),
         targets=("sm_80", "sm_120")),
    case("inline_gemm.cu", "gemm_bf16", grid=(1, 2), block=(128,), reference="matmul_transposed",
         args=[array("a", "bf16", (128, 64), "integers", -8, 9),
               array("b", "bf16", (64, 64), "integers", -8, 9), out("d", "f32", (128, 64)), n(64),
               n(64, "k")],
         note="small integers: every partial sum is exact, so the bits are defined"),
    case("tiled_matmul.cu", "tiled_matmul", grid=(2, 2), block=(256,), reference="matmul",
         args=[array("a", "f32", (70, 37), "normal", 1.0),
               array("b", "f32", (37, 90), "normal", 1.0),
               out("d", "f32", (70, 90)), n(70, "m"), n(90), n(37, "k")],
         compare={"d": close(1e-5, 1e-5, ORDER)}),
]

GROUPS_AND_WARPS = [
    case("cooperative.cu", "tile_reduce", grid=(3,), block=(64,),
         args=[array("x", "s32", (181,), "integers", -1000, 1000), out("sums", "s32", (24,)),
               out("largest", "s32", (24,)), n(181)], targets=("sm_80", "sm_90")),
    case("cooperative.cu", "compact_positive", grid=(2,), block=(96,),
         args=[array("x", "s32", (500,), "integers", -50, 50),
               array("out", "s32", (500,), "zeros", role="inout"),
               array("count", "u32", (1,), "zeros", role="inout"), n(500)],
         compare={"out": "sorted"}),
    case("cooperative.cu", "block_sum", grid=(2,), block=(128,),
         args=[array("x", "f32", (1000,), "normal", 1.0), out("sums", "f32", (2,)), n(1000)],
         compare={"sums": close(1e-5, 1e-4, ORDER)}),
    case("cooperative.cu", "tile_scan", grid=(2,), block=(64,),
         args=[array("x", "u32", (128,), "integers", 0, 1000), out("scan", "u32", (128,)),
               out("ranks", "u32", (128,))]),
    case("warp_shuffles.cu", "block_scan", grid=(2,), block=(128,),
         args=[array("x", "s32", (230,), "integers", -1000, 1000), out("scan", "s32", (230,)),
               n(230)], compilers=("nvcc13.0", "nvrtc12.9")),
    case("warp_shuffles.cu", "butterflies", grid=(2,), block=(64,),
         args=[array("x", "f32", (128,), "integers", -99, 99), out("sums", "f32", (4,)),
               array("y", "f64", (128,), "normal", 1.0), out("tops", "f64", (4,)),
               array("z", "u32", (128,), "bits"), out("words", "u32", (128, 4))]),
    case("warp_votes.cu", "votes", grid=(2,), block=(64,),
         args=[array("x", "s32", (128,), "integers", -60, 60), out("out", "u32", (128, 8))],
         targets=("sm_80", "sm_90")),
]

ATOMICS = [
    case("atomics.cu", "histogram", grid=(3,), block=(128,),
         args=[array("x", "u8", (1000,), "bits"),
               array("bins", "u32", (256,), "zeros", role="inout"),
               n(1000)]),
    case("atomics.cu", "atomic_product", grid=(2,), block=(64,),
         args=[array("x", "u32", (100,), "bits"), array("group", "s32", (100,), "integers", 0, 5),
               array("products", "u32", (5,), "value", 1, role="inout"), n(100)]),
    case("atomics.cu", "atomic_kinds", grid=(3,), block=(128,),
         args=[array("x", "s32", (300,), "integers", -1000000, 1000000),
               array("words", "s32", (11,), "list",
                     [2147483647, -2147483648, -1, 0, 0, 0, 0, 0, -1, 0, 0], role="inout"),
               array("floats", "f32", (2,), "list", [0.0, -3e38], role="inout"),
               array("doubles", "f64", (1,), "zeros", role="inout"),
               array("longs", "u64", (4,), "zeros", role="inout"), n(300)],
         note="every float sum is exact, so the order of the atomics cannot show"),
    case("atomics.cu", "atomic_halves", grid=(2,), block=(64,), targets=("sm_80", "sm_90"),
         args=[array("x", "f16", (120, 2), "integers", -8, 9),
               array("sums", "f16", (4, 2), "zeros", role="inout"),
               array("y", "bf16", (120, 2), "integers", -2, 3),
               array("bf_sums", "bf16", (8, 2), "zeros", role="inout"),
               array("single", "f16", (2,), "zeros", role="inout"), n(120)]),
]

COPIES_AND_BARRIERS = [
    *[case("async_copies.cu", entry, grid=(1,), block=(256,), reference="tile_pipeline",
           args=[array("x", "f32", (5, 256), "integers", -999, 999), out("out", "f32", (5, 256)),
                 n(5, "tiles")], targets=targets)
      for entry, targets in (("pipeline_primitives", ("sm_80",)),
                             ("pipeline_block", ("sm_80", "sm_90")))],
    case("async_copies.cu", "barrier_copy", grid=(2,), block=(256,), targets=("sm_80", "sm_90"),
         args=[array("x", "s32", (2, 256), "bits"), out("out", "s32", (2, 256))]),
    case("async_copies.cu", "group_copy", grid=(2,), block=(256,),
         args=[array("x", "s32", (513,), "bits"), out("out", "s32", (2, 256))]),
    case("block_barriers.cu", "barrier_reductions", grid=(4,), block=(96,),
         args=[array("x", "s32", (4, 96), "integers", -91, 90), out("out", "s32", (4, 96))]),
    case("block_barriers.cu", "named_barriers", grid=(1,), block=(128,),
         args=[array("x", "s32", (6, 64), "integers", -999, 999), out("y", "s32", (6, 64)),
               n(6, "rounds")]),
    case("block_barriers.cu", "ticket_lock", grid=(6,), block=(32,),
         args=[array("lock", "u32", (2,), "zeros", role="inout"),
               array("state", "u32", (2,), "zeros", role="inout"), n(3, "rounds")]),
    case("block_barriers.cu", "lane_chain", grid=(1,), block=(32,),
         args=[array("x", "s32", (32,), "bits"), out("y", "s32", (32,))],
         note="lanes of one warp wait for each other: needs forward progress of diverged lanes"),
    case("single_pass.cu", "last_block_sum", grid=(5,), block=(128,),
         args=[array("x", "f32", (2000,), "normal", 1.0), out("partial", "f32", (5,)),
               out("total", "f32", (1,)), n(2000)],
         compare={"partial": close(1e-5, 1e-4, ORDER), "total": close(1e-5, 1e-3, ORDER)}),
    case("single_pass.cu", "look_back_scan", grid=(6,), block=(128,), targets=("sm_80", "sm_90"),
         args=[array("x", "u32", (768,), "bits"), out("y", "u32", (768,)),
               array("state", "u64", (6,), "zeros", role="inout"),
               array("counter", "u32", (1,), "zeros", role="inout")]),
]

MATHEMATICS = [
    case("normalise.cu", "softmax", grid=(3,), block=(64,),
         args=[array("x", "f32", (3, 150), "normal", 3.0), out("y", "f32", (3, 150)),
               n(150, "columns")], compare={"y": close(1e-5, 1e-7, LIBRARY)},
         compilers=("nvcc13.0", "nvrtc12.9")),
    case("normalise.cu", "layer_norm", grid=(3,), block=(96,),
         args=[array("x", "f32", (3, 200), "normal", 2.0),
               array("gain", "f32", (200,), "normal", 1.0),
               array("bias", "f32", (200,), "normal", 1.0), out("y", "f32", (3, 200)),
               n(200, "columns"), scalar("epsilon", "f32", 1e-5)],
         compare={"y": close(1e-5, 1e-5, LIBRARY)}),
    case("activations.cu", "gelu", grid=(2,), block=(128,),
         args=[array("x", "f32", (200,), "normal", 2.0), out("exact", "f32", (200,)),
               out("approximate", "f32", (200,)), n(200)],
         compare={"exact": close(1e-5, 1e-6, LIBRARY), "approximate": close(1e-5, 1e-6, LIBRARY)}),
    case("activations.cu", "float_functions", grid=(2,), block=(96,),
         args=[array("x", "f32", (170,), "normal", 2.0), out("out", "f32", (170, 16)), n(170)],
         compare={"out": close(1e-5, 3e-6, LIBRARY)}),
    case("activations.cu", "double_functions", grid=(2,), block=(32,),
         args=[array("x", "f64", (60,), "normal", 3.0), out("out", "f64", (60, 6)), n(60)],
         compare={"out": close(1e-14, 1e-15, LIBRARY)}),
    case("dot_f64.cu", "dot_f64", grid=(3,), block=(64,),
         args=[array("x", "f64", (700,), "normal", 1.0), array("y", "f64", (700,), "normal", 1.0),
               out("partial", "f64", (3,)), n(700)],
         compare={"partial": close(1e-13, 1e-12, ORDER)}),
    *[case("packed_halves.cu", entry, grid=(2,), block=(64,),
           args=[*(array(name, dtype, (100, 2), "bits") for name in "xyz"),
                 out("out", dtype, (100, results, 2)), n(100)],
           compare={"out": "values"}, targets=targets)
      for entry, dtype, results, targets in (
          ("half2_arithmetic", "f16", 12, ("sm_80",)),
          ("bf162_arithmetic", "bf16", 8, ("sm_80", "sm_90")))],
    case("packed_halves.cu", "half_conversions", grid=(2,), block=(64,),
         args=[array("x", "f32", (120,), "wide", -12, 20), out("words", "u16", (120, 6)),
               out("integers", "s32", (120, 6)), n(120)]),
    case("fp8_conversions.cu", "fp8_encode", grid=(2,), block=(64,),
         args=[array("x", "f32", (128, 2), "wide", -18, 18), out("e4m3", "e4m3", (128, 2)),
               out("e5m2", "e5m2", (128, 2)), n(128)], targets=("sm_80", "sm_89")),
    case("fp8_conversions.cu", "fp8_decode", grid=(2,), block=(64,),
         args=[array("e4m3", "e4m3", (128, 2), "bits"), array("e5m2", "e5m2", (128, 2), "bits"),
               out("a", "f16", (128, 2)), out("b", "f16", (128, 2)), n(128)],
         targets=("sm_80", "sm_89"), compare={"a": "values", "b": "values"}),
]

CONTROL_AND_MEMORY = [
    case("device_calls.cu", "complex_powers", grid=(2,), block=(32,),
         args=[array("x", "f32", (50, 2), "integers", -3, 4), out("y", "f32", (50, 2)), n(50)],
         compare={"y": close(0.0, 0.0, "the sign of a zero depends on contraction to fma")}),
    case("device_calls.cu", "struct_calls", grid=(2,), block=(32,),
         args=[array("x", "u32", (50, 8), "integers", 0x3FF00000, 0x40F00000),
               out("y", "u32", (50, 8)),
               struct("constant", "010000000200000003000000040000000500000006000000"
                                  "000000000000e83f"), n(50)]),
    case("device_calls.cu", "recursion", grid=(2,), block=(32,),
         args=[array("x", "u32", (40,), "integers", 0, 300), out("y", "u32", (40,)), n(40)]),
    case("device_calls.cu", "function_table", grid=(2,), block=(32,),
         args=[array("a", "s32", (50,), "integers", -9999, 9999),
               array("b", "s32", (50,), "integers", -9999, 9999),
               array("which", "s32", (50,), "integers", 0, 4), out("out", "s32", (50,)), n(50)]),
    case("control_flow.cu", "interpreter", grid=(2,), block=(64,),
         args=[array("program", "u8", (24,), "bits"), n(24, "length"),
               array("x", "s32", (100,), "bits"), out("y", "s32", (100,)), n(100)],
         compilers=("nvcc13.0", "nvrtc12.9", "nvrtc13.5")),
    case("control_flow.cu", "collatz", grid=(2,), block=(64,),
         args=[array("x", "u32", (100,), "integers", 0, 200), out("steps", "s32", (100,)),
               n(60, "limit"), n(100)]),
    case("control_flow.cu", "local_sort", grid=(2,), block=(32,),
         args=[array("x", "s32", (64, 16), "bits"), out("y", "s32", (64, 16))]),
    case("memory_spaces.cu", "polynomial", grid=(2,), block=(64,),
         args=[array("x", "f32", (100,), "normal", 1.0), out("y", "f32", (100,)), n(100)]),
    case("memory_spaces.cu", "tables", grid=(2,), block=(64,),
         args=[array("x", "s32", (100,), "bits"), out("y", "s64", (100,)), n(100)]),
    case("memory_spaces.cu", "dynamic_shared", grid=(2,), block=(96,), dynamic_shared=96 * 5,
         args=[array("x", "f32", (192,), "normal", 1.0), array("shift", "u8", (192,), "bits"),
               out("y", "f32", (192,))]),
    case("memory_spaces.cu", "cache_operators", grid=(1,), block=(64,),
         args=[array("x", "f32", (60, 4), "normal", 1.0), array("s", "s16", (60, 2), "bits"),
               array("d", "f64", (60, 2), "normal", 1.0), out("y", "f32", (60, 4)),
               out("t", "s16", (60,)), out("e", "f64", (60, 2)), n(60)]),
    case("memory_spaces.cu", "transpose_bytes", grid=(2, 2), block=(32, 8),
         args=[array("x", "s8", (40, 50), "bits"), out("y", "s32", (50, 40)), n(40, "rows"),
               n(50, "columns")]),
    case("integers.cu", "divide64", grid=(2,), block=(32,),
         args=[array("a", "s64", (60,), "magnitudes"), array("b", "s64", (60,), "magnitudes"),
               out("out", "s64", (60, 6)), n(60)]),
    case("integers.cu", "bit_operations", grid=(2,), block=(32,),
         args=[array("a", "u32", (60,), "magnitudes"), array("b", "u32", (60,), "magnitudes"),
               out("out", "u32", (60, 24)), n(60)], targets=("sm_80", "sm_90")),
    case("integers.cu", "wide_integers", grid=(2,), block=(32,),
         args=[array("a", "u64", (60,), "magnitudes"), array("b", "u64", (60,), "magnitudes"),
               out("out", "u64", (60, 8)), n(60)]),
]

CASES = [*TENSOR_CORES, *GROUPS_AND_WARPS, *ATOMICS, *COPIES_AND_BARRIERS, *MATHEMATICS,
         *CONTROL_AND_MEMORY]

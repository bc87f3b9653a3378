"""The cases of the CUDA sources about one chip's instructions, and about rare instructions."""

from __future__ import annotations

from typing import Any

from corpus.cases import array, case, close, out, scalar, tensor_map

__all__ = ["CASES"]

Json = dict[str, Any]

TENSOR = "products are exact, sums are truncated to some 24 bits in the chip's order"
FP8_SUMS = "the chips before Blackwell keep 13 fraction bits of the sums of FP8 products"
APPROXIMATE = "the hardware's approximation, then half precision"


def mma(entry: str, a: str, b: str, d: str, elements: int, fill: list[Any], *, d_columns: int = 8,
        fill_b: list[Any] | None = None, targets: tuple[str, ...] = ("sm_80",),
        **more: Any) -> Json:
    """One warp, 16 x 8, three steps of 32 bytes along K; `elements` per row."""
    return case("mma_kinds.cu", entry, grid=(1,), block=(32,), targets=targets,
                args=[array("a", a, (16, elements), *fill),
                      array("b", b, (8, elements), *(fill_b or fill)), out("d", d, (16, d_columns)),
                      scalar("steps", "s32", 3)], **more)


SMALL = ["integers", -4, 5]
#: The packed types are raw words for the reference to unpack.
WORDS = ["bits"]

TENSOR_CORES = [
    mma("mma_tf32", "f32", "f32", "f32", 24, ["integers", -16, 17], reference="matmul_transposed"),
    mma("mma_s8", "s8", "s8", "s32", 96, WORDS, reference="matmul_transposed"),
    mma("mma_u8s8", "u8", "s8", "s32", 96, WORDS, reference="matmul_transposed"),
    mma("mma_s4", "u8", "u8", "s32", 96, WORDS, reference="mma_s4"),
    mma("mma_u4s4", "u8", "u8", "s32", 96, WORDS, reference="mma_u4s4"),
    mma("mma_b1_xor", "u8", "u8", "s32", 96, WORDS, reference="mma_b1_xor"),
    mma("mma_b1_and", "u8", "u8", "s32", 96, WORDS, reference="mma_b1_and"),
    mma("mma_f16_f16", "f16", "f16", "f16", 48, SMALL, reference="matmul_transposed"),
    mma("mma_e4m3", "e4m3", "e4m3", "f32", 96, SMALL, reference="matmul_transposed",
        targets=("sm_89", "sm_120"), note="small integers: every partial sum is exact"),
    mma("mma_e4m3", "e4m3", "e4m3", "f32", 96, ["normal", 1.0], reference="matmul_transposed",
        targets=("sm_89", "sm_90"), variant="normal", compare={"d": close(1e-2, 0.1, FP8_SUMS)}),
    mma("mma_e5m2_e4m3", "e5m2", "e4m3", "f32", 96, SMALL, reference="matmul_transposed",
        targets=("sm_89",)),
    case("mma_kinds.cu", "mma_f64", grid=(1,), block=(32,), reference="matmul_transposed",
         args=[array("a", "f64", (8, 20), "normal", 1.0), array("b", "f64", (8, 20), "normal", 1.0),
               out("d", "f64", (8, 8)), scalar("steps", "s32", 5)],
         compare={"d": close(1e-13, 1e-13, "the order of the additions differs")}),
    case("mma_kinds.cu", "matrix_moves", grid=(1,), block=(32,),
         args=[array("x", "u16", (16, 8), "bits"), out("out", "u32", (6, 32))]),
    case("wmma_exotic.cu", "wmma_f64", grid=(2, 3), block=(32,),
         args=[array("a", "f64", (24, 20), "normal", 1.0),
               array("b", "f64", (20, 16), "normal", 1.0),
               array("c", "f64", (24, 16), "normal", 1.0), out("d", "f64", (24, 16)),
               scalar("n", "s32", 16), scalar("k", "s32", 20)],
         compare={"d": close(1e-13, 1e-13, "the order of the additions differs")}),
    case("wmma_exotic.cu", "wmma_b1", grid=(1,), block=(32,),
         args=[array("a", "u8", (8, 16), "bits"), array("b", "u8", (8, 16), "bits"),
               out("different", "s32", (8, 8)), out("shared", "s32", (8, 8))]),
    case("wmma_exotic.cu", "wmma_s4", grid=(1,), block=(32,), reference="mma_s4",
         args=[array("a", "u8", (8, 16), "bits"), array("b", "u8", (8, 16), "bits"),
               out("d", "s32", (8, 8))]),
]

HOPPER = [
    case("hopper.cu", "cluster_histogram", grid=(4,), block=(96,), cluster=(2,), targets=("sm_90",),
         args=[array("x", "u8", (1000,), "bits"),
               array("bins", "u32", (128,), "zeros", role="inout"),
               scalar("n", "s32", 1000)]),
    case("hopper.cu", "cluster_rotate", grid=(8,), block=(64,), cluster=(4,), targets=("sm_90",),
         args=[array("x", "s32", (8, 64), "integers", -9999, 9999), out("y", "s32", (8, 64))]),
    case("hopper.cu", "bulk_copies", grid=(3,), block=(64,), targets=("sm_90",),
         args=[array("x", "s32", (3, 256), "bits"), out("y", "s32", (3, 256))]),
    case("hopper.cu", "bulk_ring", grid=(1,), block=(96,), targets=("sm_90",),
         args=[array("x", "f32", (11, 128), "integers", -99, 99), out("sums", "f32", (64,)),
               scalar("tiles", "s32", 11)]),
    case("hopper.cu", "store_matrices", grid=(1,), block=(32,), targets=("sm_90",),
         args=[array("x", "u32", (2, 32), "bits"), out("y", "u16", (16, 8))]),
]


def scaled(entry: str, element: str, scales: list[Any]) -> Json:
    """A block-scaled product; the accumulator starts as 1, 2, 3, 4 by slot."""
    fill = ["bits"] if element == "u8" else ["integers", -4, 5]
    b = "e5m2" if element == "e4m3" else element
    return case("blackwell_mma.cu", entry, grid=(1,), block=(32,), targets=("sm_120a",),
                args=[array("a", element, (16, 32), *fill), array("b", b, (8, 32), *fill),
                      array("sa", "u8", (16, 4), *scales), array("sb", "u8", (8, 4), *scales),
                      out("d", "f32", (16, 8))],
                compare={"d": close(1e-5, 1e-4, TENSOR)})


def wgmma(entry: str, dtype: str, k: int, fill: list[Any], **more: Any) -> Json:
    """A warpgroup's 64 x 64 product; both operands are rows along K."""
    result = "s32" if dtype == "s8" else "f32"
    compare = {} if dtype in ("s8", "e4m3") else {"out": close(1e-5, 2e-4, TENSOR)}
    return case("hopper_wgmma.cu", entry, grid=(1,), block=(128,), targets=("sm_90a",),
                args=[array("a", dtype, (64, k), *fill), array("b", dtype, (64, k), *fill),
                      out("out", result, (64, 64))], compare=compare, **more)


WGMMA = [
    wgmma("wgmma_f16", "f16", 64, ["normal", 1.0], reference="wgmma"),
    wgmma("wgmma_bf16", "bf16", 64, ["normal", 1.0], reference="wgmma_negated",
          note="imm-scale-b is -1"),
    wgmma("wgmma_e4m3", "e4m3", 128, SMALL, reference="wgmma"),
    wgmma("wgmma_s8", "s8", 128, ["bits"], reference="wgmma"),
    wgmma("wgmma_registers", "f16", 64, ["normal", 1.0], reference="wgmma"),
]

TMA = [
    case("hopper_tma.cu", "tma_tiles", grid=(3, 4), block=(32,), targets=("sm_90a",),
         args=[tensor_map(array("x", "f32", (50, 72), "integers", -99, 99), (32, 16)),
               tensor_map(out("y", "f32", (50, 72)), (32, 16)), out("sums", "f32", (4, 3, 32))],
         note="edges: loads fill with zeros, stores clip"),
    case("hopper_tma.cu", "tma_gemm", grid=(2, 2), block=(256,), targets=("sm_90a",),
         args=[tensor_map(array("a", "bf16", (128, 320), "normal", 1.0), (64, 64), "128B"),
               tensor_map(array("b", "bf16", (64, 320), "normal", 1.0), (64, 32), "128B"),
               out("out", "f32", (128, 64)), scalar("n", "s32", 64), scalar("k", "s32", 320)],
         reference="wgmma", compare={"out": close(1e-5, 4e-4, TENSOR)}),
    case("hopper_tma.cu", "tma_multicast", grid=(4,), block=(64,), cluster=(2,),
         targets=("sm_90a",),
         args=[tensor_map(array("x", "s32", (32, 64), "bits"), (64, 8)),
               out("y", "s32", (4, 16, 64))]),
    case("hopper_tma.cu", "bulk_reduce", grid=(5,), block=(64,), targets=("sm_90a",),
         args=[array("x", "s32", (5, 64), "integers", -999, 999),
               array("sums", "s32", (64,), "integers", -9, 9, role="inout"),
               array("y", "f32", (5, 64), "integers", -999, 999),
               array("totals", "f32", (64,), "integers", -9, 9, role="inout"),
               array("least", "s32", (64,), "value", 500, role="inout")]),
]

BLACKWELL = [
    case("blackwell_vector.cu", "float_pairs", grid=(2,), block=(64,), targets=("sm_100a",),
         args=[*(array(name, "f32", (100, 2), "wide", -20, 20) for name in "xyz"),
               out("out", "f32", (100, 4, 2)), scalar("n", "s32", 100)]),
    case("blackwell_vector.cu", "wide_accesses", grid=(2,), block=(64,), targets=("sm_100a",),
         args=[array("x", "f32", (128, 8), "normal", 1.0), out("y", "f32", (128, 8)),
               out("extremes", "f32", (128, 2))]),
    scaled("mxf8", "e4m3", ["integers", 124, 131]),
    scaled("mxf4", "u8", ["integers", 124, 131]),
    scaled("nvf4", "u8", ["integers", 40, 72]),
    case("blackwell_mma.cu", "f6f4", grid=(1,), block=(32,), targets=("sm_120a",),
         args=[array("a", "u8", (16, 32), "integers", 0, 64),
               array("b", "u8", (8, 32), "choice", [4 * code for code in range(16)]),
               out("d", "f32", (16, 8))], compare={"d": close(1e-5, 1e-4, TENSOR)}),
    case("blackwell_mma.cu", "fp4_conversions", grid=(2,), block=(64,), targets=("sm_120a",),
         args=[array("x", "f32", (100, 2), "wide", -5, 4), out("packed", "u8", (100,)),
               array("codes", "u8", (100,), "bits"), out("halves", "f16", (100, 2)),
               scalar("n", "s32", 100)]),
]

RARE = [
    case("odd_instructions.cu", "odd_integers", grid=(2,), block=(64,), targets=("sm_86",),
         args=[array("a", "u32", (100,), "magnitudes"), array("b", "u32", (100,), "magnitudes"),
               array("c", "u32", (100,), "magnitudes"), out("out", "u32", (100, 24)),
               scalar("n", "s32", 100)]),
    case("odd_instructions.cu", "odd_floats", grid=(2,), block=(64,), targets=("sm_86",),
         args=[array("a", "f32", (120,), "special"), array("b", "f32", (120,), "special"),
               out("out", "f32", (120, 12)), out("words", "u32", (120, 2)),
               scalar("n", "s32", 120)],
         compare={"out": "values"}),
    case("odd_instructions.cu", "odd_memory", grid=(1,), block=(64,), targets=("sm_86",),
         args=[array("x", "f32", (203,), "normal", 1.0), out("y", "f32", (256,)),
               scalar("n", "s32", 203)]),
    case("approximate_halves.cu", "half_functions", grid=(2,), block=(64,),
         args=[array("x", "f16", (100, 2), "normal", 1.5), out("out", "f16", (100, 6, 2)),
               out("tangents", "f32", (100,)), scalar("n", "s32", 100)],
         compare={"out": close(2e-3, 1.5e-3, APPROXIMATE),
                  "tangents": close(1e-3, 1e-5, "tanh.approx errs by up to 2^-11")}),
]

CASES = [*TENSOR_CORES, *HOPPER, *WGMMA, *TMA, *BLACKWELL, *RARE]

"""The cases of the CUDA sources that are small whole programs."""

from __future__ import annotations

from corpus.cases import array, case, close, out, scalar

__all__ = ["CASES"]

ORDER = "the order of the float additions differs"

CASES = [
    case("switch_table.cu", "jump_table", grid=(2,), block=(64,),
         args=[array("operations", "s32", (30,), "integers", 0, 9),
               array("x", "s32", (100,), "integers", -999, 999),
               array("y", "s32", (100,), "integers", -99, 99, role="inout"),
               scalar("length", "s32", 30), scalar("n", "s32", 100)]),
    case("generic_pointers.cu", "generic_pointers", grid=(2,), block=(64,),
         args=[array("x", "s32", (128, 4), "integers", -999, 999, role="inout"),
               out("y", "s32", (128, 5))]),
    case("generic_pointers.cu", "unaligned_bytes", grid=(2,), block=(64,),
         args=[array("x", "u8", (2, 64, 7), "bits"), out("y", "u8", (2, 64, 7)),
               out("sums", "u32", (2, 64))]),
    case("applications.cu", "bitonic_sort", grid=(2,), block=(256,),
         args=[array("x", "s32", (2, 256), "bits"), out("y", "s32", (2, 256))]),
    case("applications.cu", "sparse_product", grid=(3,), block=(128,),
         args=[array("starts", "s32", (11,), "list",
                     [0, 0, 5, 77, 78, 120, 121, 155, 200, 290, 300]),
               array("columns", "s32", (300,), "integers", 0, 64),
               array("values", "f32", (300,), "normal", 1.0),
               array("x", "f32", (64,), "normal", 1.0),
               out("y", "f32", (10,)), scalar("rows", "s32", 10)],
         compare={"y": close(1e-5, 1e-4, ORDER)}),
    case("applications.cu", "mandelbrot", grid=(3, 3), block=(16, 8),
         args=[out("counts", "s32", (20, 40)), scalar("width", "s32", 40),
               scalar("height", "s32", 20), scalar("limit", "s32", 60)]),
    case("applications.cu", "n_body", grid=(2,), block=(64,),
         args=[array("bodies", "f32", (100, 4), "normal", 1.0), out("forces", "f32", (100, 3)),
               scalar("n", "s32", 100)],
         compare={"forces": close(1e-4, 2e-3, "sums of 100 terms that cancel, rsqrt.approx")}),
    case("applications.cu", "life", grid=(1,), block=(16, 16),
         args=[array("x", "u8", (16, 16), "bits"), out("y", "u8", (16, 16)),
               scalar("steps", "s32", 7)]),
    case("applications.cu", "sha256_block", grid=(2,), block=(32,),
         args=[array("messages", "u8", (40, 64), "bits"), out("digests", "u32", (40, 8)),
               scalar("n", "s32", 40)]),
    case("applications.cu", "fft256", grid=(2,), block=(128,),
         args=[array("x", "f32", (2, 256, 2), "normal", 1.0), out("y", "f32", (2, 256, 2))],
         compare={"y": close(1e-5, 1e-4, ORDER)}),
]

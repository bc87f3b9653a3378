// sm_120a: block-scaled mma.sync (MXFP8, MXFP4, NVFP4), narrow types, and FP4 conversions.
// A is 16 rows, B is 8 columns, 32 bytes of K each. Scale factors: one byte per row and block,
// `sa` holds 16 words (row r's scales from the low byte up), `sb` 8 words.
#include <cuda_fp16.h>
#include <cuda_fp4.h>

#define SCALED_KERNEL(name, opcode)                                                                \
    extern "C" __global__ void name(const unsigned *a, const unsigned *b, const unsigned *sa,      \
                                    const unsigned *sb, float *d)                                  \
    {                                                                                              \
        const int lane = threadIdx.x, group = lane / 4, t = lane % 4;                              \
        const unsigned *row = a + group * 8 + t, *column = b + group * 8 + t;                      \
        const unsigned scale_a = sa[group + (t % 2) * 8], scale_b = sb[group];                     \
        float c0 = 1.0f, c1 = 2.0f, c2 = 3.0f, c3 = 4.0f;                                          \
        asm volatile(opcode " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, "    \
                     "%10, {0, 0}, %11, {0, 0};"                                                   \
                     : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)                                      \
                     : "r"(row[0]), "r"(row[64]), "r"(row[4]), "r"(row[68]), "r"(column[0]),       \
                       "r"(column[4]), "r"(scale_a), "r"(scale_b));                                \
        d[group * 8 + t * 2] = c0, d[group * 8 + t * 2 + 1] = c1;                                  \
        d[group * 8 + t * 2 + 64] = c2, d[group * 8 + t * 2 + 65] = c3;                            \
    }

SCALED_KERNEL(mxf8, "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X"
                    ".f32.e4m3.e5m2.f32.ue8m0")
SCALED_KERNEL(mxf4, "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X"
                    ".f32.e2m1.e2m1.f32.ue8m0")
SCALED_KERNEL(nvf4, "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
                    ".f32.e2m1.e2m1.f32.ue4m3")

// e3m2 by e2m1, one element per byte: e2m1 in bits 5..2, e3m2 in bits 5..0.
extern "C" __global__ void f6f4(const unsigned *a, const unsigned *b, float *d)
{
    const int lane = threadIdx.x, group = lane / 4, t = lane % 4;
    const unsigned *row = a + group * 8 + t, *column = b + group * 8 + t;
    float c0 = 0.0f, c1 = 0.0f, c2 = 0.0f, c3 = 0.0f;
    asm volatile("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                 : "r"(row[0]), "r"(row[64]), "r"(row[4]), "r"(row[68]), "r"(column[0]),
                   "r"(column[4]));
    d[group * 8 + t * 2] = c0, d[group * 8 + t * 2 + 1] = c1;
    d[group * 8 + t * 2 + 64] = c2, d[group * 8 + t * 2 + 65] = c3;
}

extern "C" __global__ void fp4_conversions(const float2 *x, unsigned char *packed,
                                           const unsigned char *codes, __half2 *halves, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    packed[i] = __nv_cvt_float2_to_fp4x2(x[i], __NV_E2M1, cudaRoundNearest);
    halves[i] = __nv_cvt_fp4x2_to_halfraw2(codes[i], __NV_E2M1);
}

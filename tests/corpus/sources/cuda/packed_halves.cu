// fp16x2 and bf16x2 intrinsics; every result is one rounding, so the bits are defined.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void half2_arithmetic(const __half2 *x, const __half2 *y, const __half2 *z,
                                            __half2 *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const __half2 a = x[i], b = y[i], c = z[i];
    __half2 *mine = out + i * 12;
    mine[0] = __hadd2_rn(a, b);
    mine[1] = __hsub2_rn(a, b);
    mine[2] = __hmul2_rn(a, b);
    mine[3] = __hfma2(a, b, c);
    mine[4] = __hmin2(a, b);
    mine[5] = __hmax2(a, b);
    mine[6] = __habs2(__hneg2(a));
    mine[7] = __hadd2_sat(a, b);
    mine[8] = __hfma2_relu(a, b, c);
    mine[9] = __hlt2(a, b);
    mine[10] = __lows2half2(a, b);
    mine[11] = __hbeq2(a, a) ? __float2half2_rn(1.0f) : __float2half2_rn(0.0f);
}

extern "C" __global__ void bf162_arithmetic(const __nv_bfloat162 *x, const __nv_bfloat162 *y,
                                            const __nv_bfloat162 *z, __nv_bfloat162 *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const __nv_bfloat162 a = x[i], b = y[i], c = z[i];
    __nv_bfloat162 *mine = out + i * 8;
    mine[0] = __hadd2_rn(a, b);
    mine[1] = __hmul2_rn(a, b);
    mine[2] = __hfma2(a, b, c);
    mine[3] = __hmin2(a, b);
    mine[4] = __hmax2(a, b);
    mine[5] = __hneg2(__habs2(a));
    mine[6] = __hgt2(a, b);
    mine[7] = __hsub2_rn(a, b);
}

// Conversions among half, bfloat16, float and integers in the rounding modes of the intrinsics.
extern "C" __global__ void half_conversions(const float *x, unsigned short *words, int *integers,
                                            int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    unsigned short *w = words + i * 6;
    w[0] = __half_as_ushort(__float2half_rn(v));
    w[1] = __half_as_ushort(__float2half_rz(v));
    w[2] = __half_as_ushort(__float2half_rd(v));
    w[3] = __half_as_ushort(__float2half_ru(v));
    w[4] = __bfloat16_as_ushort(__float2bfloat16_rn(v));
    w[5] = __bfloat16_as_ushort(__float2bfloat16_rz(v));
    int *r = integers + i * 6;
    r[0] = __float2int_rn(v);
    r[1] = __float2int_rz(v);
    r[2] = __float2int_rd(v);
    r[3] = __float2int_ru(v);
    r[4] = __half2int_rn(__float2half_rn(v));
    const unsigned product = static_cast<unsigned>(__float2int_rz(v)) * 16777259u;
    r[5] = __float_as_int(__int2float_rn(static_cast<int>(product)));
}

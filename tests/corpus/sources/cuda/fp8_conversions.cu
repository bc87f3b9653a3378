// cuda_fp8.h: with hardware conversions from sm_89, in software before it.
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void fp8_encode(const float2 *x, unsigned short *e4m3, unsigned short *e5m2,
                                      int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    e4m3[i] = __nv_cvt_float2_to_fp8x2(x[i], __NV_SATFINITE, __NV_E4M3);
    e5m2[i] = __nv_cvt_float2_to_fp8x2(x[i], __NV_SATFINITE, __NV_E5M2);
}

extern "C" __global__ void fp8_decode(const unsigned short *e4m3, const unsigned short *e5m2,
                                      __half2 *a, __half2 *b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    a[i] = __nv_cvt_fp8x2_to_halfraw2(e4m3[i], __NV_E4M3);
    b[i] = __nv_cvt_fp8x2_to_halfraw2(e5m2[i], __NV_E5M2);
}

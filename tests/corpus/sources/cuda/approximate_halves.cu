// Approximate functions on halves and the packed exponentials and tangents of the hardware.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void half_functions(const __half2 *x, __half2 *out, float *tangents, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const __half2 v = x[i];
    __half2 *mine = out + i * 6;
    mine[0] = h2exp(v);
    mine[1] = h2log(__hadd2(__habs2(v), __float2half2_rn(0.25f)));
    mine[2] = h2rsqrt(__hadd2(__habs2(v), __float2half2_rn(0.25f)));
    mine[3] = h2sin(v);
    unsigned word = *reinterpret_cast<const unsigned *>(&v), result;
    asm("tanh.approx.f16x2 %0, %1;" : "=r"(result) : "r"(word));
    mine[4] = *reinterpret_cast<__half2 *>(&result);
    asm("ex2.approx.f16x2 %0, %1;" : "=r"(result) : "r"(word));
    mine[5] = *reinterpret_cast<__half2 *>(&result);
    float tangent;
    asm("tanh.approx.f32 %0, %1;" : "=f"(tangent) : "f"(__low2float(v)));
    tangents[i] = tangent;
}

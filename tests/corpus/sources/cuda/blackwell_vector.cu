// sm_100 outside the tensor cores: pairs of floats, three-way extremes, 256-bit accesses, redux.
extern "C" __global__ void float_pairs(const float2 *x, const float2 *y, const float2 *z,
                                       float2 *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 *mine = out + i * 4;
    mine[0] = __ffma2_rn(x[i], y[i], z[i]);
    mine[1] = __fadd2_rn(x[i], y[i]);
    mine[2] = __fmul2_rn(x[i], y[i]);
    mine[3] = __ffma2_rz(x[i], y[i], z[i]);
}

extern "C" __global__ void wide_accesses(const float *x, float *y, float *extremes)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v[8];
    asm volatile("ld.global.v8.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]), "=f"(v[4]), "=f"(v[5]),
                   "=f"(v[6]), "=f"(v[7]) : "l"(x + i * 8));
    float top, least;
    asm("max.f32 %0, %1, %2, %3;" : "=f"(top) : "f"(v[0]), "f"(v[1]), "f"(v[2]));
    asm("min.f32 %0, %1, %2, %3;" : "=f"(least) : "f"(v[3]), "f"(v[4]), "f"(v[5]));
    asm volatile("redux.sync.max.abs.f32 %0, %0, 0xffffffff;" : "+f"(top));
    asm volatile("redux.sync.min.f32 %0, %0, 0xffffffff;" : "+f"(least));
    extremes[i * 2] = top;
    extremes[i * 2 + 1] = least;
    asm volatile("st.global.v8.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};"
                 ::"l"(y + i * 8), "f"(v[7]), "f"(v[6]), "f"(v[5]), "f"(v[4]), "f"(v[3]), "f"(v[2]),
                   "f"(v[1]), "f"(v[0]) : "memory");
}

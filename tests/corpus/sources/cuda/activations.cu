// Elementwise mathematics of the CUDA library, single precision.
extern "C" __global__ void gelu(const float *x, float *exact, float *approximate, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    exact[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
    approximate[i] = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
}

extern "C" __global__ void float_functions(const float *x, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i], p = fabsf(v) + 0.125f;
    float *mine = out + i * 16;
    mine[0] = sinf(v);
    mine[1] = cosf(v);
    mine[2] = logf(p);
    mine[3] = log2f(p);
    mine[4] = exp2f(v);
    mine[5] = powf(p, v);
    mine[6] = sqrtf(p);
    mine[7] = 1.0f / p;
    mine[8] = cbrtf(v);
    mine[9] = atan2f(v, p);
    mine[10] = __fdividef(v, p);
    mine[11] = __expf(v);
    mine[12] = __sinf(v);
    mine[13] = fmodf(v, 0.75f);
    mine[14] = rintf(v) + floorf(v) * 16.0f + ceilf(v) * 256.0f + truncf(v) * 4096.0f;
    mine[15] = v / p;
}

extern "C" __global__ void double_functions(const double *x, double *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double v = x[i], p = fabs(v) + 0.125;
    double *mine = out + i * 6;
    mine[0] = exp(v);
    mine[1] = log(p);
    mine[2] = sqrt(p);
    mine[3] = v / p;
    mine[4] = sin(v);
    mine[5] = rsqrt(p);
}

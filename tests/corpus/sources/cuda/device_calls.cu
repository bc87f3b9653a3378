// Real calls: structs by value in and out, recursion, and calls through a table of functions.
struct Complex { float re, im; };
struct Big { int words[6]; double scale; };

__device__ __noinline__ Complex multiply(Complex a, Complex b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

__device__ __noinline__ Big shuffle_words(Big in, int by)
{
    Big out;
    for (int i = 0; i < 6; i++) out.words[i] = in.words[(i + by) % 6] + i;
    out.scale = in.scale * 2.0;
    return out;
}

__device__ __noinline__ unsigned ackermann_like(unsigned n, unsigned depth)
{
    if (n < 2 || depth > 12) return n + depth;
    return ackermann_like(n / 2, depth + 1) + 3u * ackermann_like(n / 3, depth + 1);
}

// Powers by repeated calls; small integers keep the float arithmetic exact.
extern "C" __global__ void complex_powers(const Complex *x, Complex *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Complex product = {1.0f, 0.0f};
    for (int k = 0; k < i % 4; k++) product = multiply(product, x[i]);
    y[i] = product;
}

extern "C" __global__ void struct_calls(const Big *x, Big *y, Big constant, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Big value = shuffle_words(x[i], i % 6);
    for (int k = 0; k < 6; k++) value.words[k] ^= constant.words[k];
    value.scale += constant.scale;
    y[i] = value;
}

extern "C" __global__ void recursion(const unsigned *x, unsigned *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = ackermann_like(x[i], 0);
}

using Operation = int (*)(int, int);
__device__ __noinline__ int op_add(int a, int b) { return a + b; }
__device__ __noinline__ int op_subtract(int a, int b) { return a - b; }
__device__ __noinline__ int op_multiply(int a, int b) { return a * b; }
__device__ __noinline__ int op_either(int a, int b) { return a | b; }
__device__ Operation operations[4] = {op_add, op_subtract, op_multiply, op_either};

extern "C" __global__ void function_table(const int *a, const int *b, const int *which, int *out,
                                          int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = operations[which[i] & 3](a[i], b[i]);
}

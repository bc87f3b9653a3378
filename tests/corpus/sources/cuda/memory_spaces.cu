// Constant memory, device variables with initialisers, dynamic shared memory, cache operators.
__constant__ float coefficients[8] = {1.0f, -0.5f, 0.25f, 2.0f, -4.0f, 0.125f, 3.0f, -1.0f};
__constant__ int table[4][4] = {{0, 1, 2, 3}, {7, 6, 5, 4}, {8, 11, 10, 9}, {12, 15, 13, 14}};
__device__ unsigned long long seeds[3] = {0x9e3779b97f4a7c15ull, 0xbf58476d1ce4e5b9ull, 42ull};
__device__ short offsets[5] = {-3, 1, 4, -1, 5};

extern "C" __global__ void polynomial(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 7; k >= 0; k--) sum = fmaf(sum, x[i], coefficients[k]);
    y[i] = sum;
}

extern "C" __global__ void tables(const int *x, long long *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned v = x[i];
    unsigned long long word = seeds[v % 3] ^ (static_cast<unsigned long long>(v) << 17);
    word += table[v % 4][(v >> 2) % 4];
    y[i] = static_cast<long long>(word) + offsets[v % 5];
}

// Two arrays in one block of dynamic shared memory, behind a static one.
extern "C" __global__ void dynamic_shared(const float *x, const unsigned char *shift, float *y)
{
    extern __shared__ __align__(16) unsigned char storage[];
    __shared__ float bias[32];
    float *values = reinterpret_cast<float *>(storage);
    unsigned char *bytes = storage + blockDim.x * sizeof(float);
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < 32) bias[t] = t * 0.5f;
    values[t] = x[i];
    bytes[t] = shift[i];
    __syncthreads();
    const int at = (t + bytes[blockDim.x - 1 - t]) % blockDim.x;
    y[i] = values[at] + bias[at % 32];
}

// Streaming loads and stores of several widths, through the cache operators.
extern "C" __global__ void cache_operators(const float4 *x, const short2 *s, const double2 *d,
                                           float4 *y, short *t, double2 *e, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = __ldcs(x + i);
    v.x += v.w;
    v.y = -v.z;
    __stcg(y + i, v);
    const short2 p = __ldg(s + i);
    __stwt(t + i, static_cast<short>(p.x - p.y));
    double2 q = __ldcg(d + i);
    q.x *= q.y;
    __stcs(e + i, q);
}

// A transposition through padded shared memory, bytes on the way.
extern "C" __global__ void transpose_bytes(const signed char *x, int *y, int rows, int columns)
{
    __shared__ signed char tile[32][33];
    const int c = blockIdx.x * 32 + threadIdx.x, r0 = blockIdx.y * 32;
    for (int r = threadIdx.y; r < 32; r += blockDim.y)
        if (r0 + r < rows && c < columns) tile[r][threadIdx.x] = x[(r0 + r) * columns + c];
    __syncthreads();
    const int r = r0 + threadIdx.x;
    for (int k = threadIdx.y; k < 32; k += blockDim.y) {
        const int column = blockIdx.x * 32 + k;
        if (r < rows && column < columns) y[column * rows + r] = tile[threadIdx.x][k] * 3;
    }
}

// Small whole programs: sorting, sparse products, fractals, bodies, stencils, hashing, FFT.
extern "C" __global__ void bitonic_sort(const int *x, int *y)
{
    __shared__ int values[256];
    const int t = threadIdx.x;
    values[t] = x[blockIdx.x * 256 + t];
    for (int size = 2; size <= 256; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            const int other = t ^ stride;
            const int a = values[t], b = values[other];
            __syncthreads();
            const bool rising = (t & size) == 0, low = t < other;
            values[t] = (a > b) == (rising == low) ? b : a;
        }
    y[blockIdx.x * 256 + t] = values[t];
}

// Compressed sparse rows times a vector, one warp per row.
extern "C" __global__ void sparse_product(const int *starts, const int *columns, const float *values,
                                          const float *x, float *y, int rows)
{
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = starts[row] + lane; i < starts[row + 1]; i += 32)
        sum = fmaf(values[i], __ldg(x + columns[i]), sum);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0) y[row] = sum;
}

// Fixed-point Mandelbrot counts: integers, so the counts are defined.
extern "C" __global__ void mandelbrot(int *counts, int width, int height, int limit)
{
    const int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    const long long cx = (px * 3ll << 24) / width - (2ll << 24);
    const long long cy = (py * 2ll << 24) / height - (1ll << 24);
    long long zx = 0, zy = 0;
    int count = 0;
    while (count < limit) {
        const long long xx = zx * zx >> 24, yy = zy * zy >> 24;
        if (xx + yy > 4ll << 24) break;
        zy = (zx * zy >> 23) + cy;
        zx = xx - yy + cx;
        count++;
    }
    counts[py * width + px] = count;
}

extern "C" __global__ void n_body(const float4 *bodies, float3 *forces, int n)
{
    __shared__ float4 tile[64];
    const int i = blockIdx.x * 64 + threadIdx.x;
    const float4 mine = bodies[min(i, n - 1)];
    float fx = 0.0f, fy = 0.0f, fz = 0.0f;
    for (int first = 0; first < n; first += 64) {
        if (first + threadIdx.x < n) tile[threadIdx.x] = bodies[first + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < min(64, n - first); j++) {
            const float dx = tile[j].x - mine.x, dy = tile[j].y - mine.y, dz = tile[j].z - mine.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            const float scale = tile[j].w * inverse * inverse * inverse;
            fx += dx * scale;
            fy += dy * scale;
            fz += dz * scale;
        }
        __syncthreads();
    }
    if (i < n) forces[i] = make_float3(fx, fy, fz);
}

// Game of life on a torus, several steps in one block through two shared planes.
extern "C" __global__ void life(const unsigned char *x, unsigned char *y, int steps)
{
    __shared__ unsigned char planes[2][16][16];
    const int c = threadIdx.x, r = threadIdx.y;
    planes[0][r][c] = x[r * 16 + c] & 1;
    for (int step = 0; step < steps; step++) {
        __syncthreads();
        const auto &now = planes[step % 2];
        int around = -now[r][c];
        for (int dr = -1; dr <= 1; dr++)
            for (int dc = -1; dc <= 1; dc++) around += now[(r + dr) & 15][(c + dc) & 15];
        planes[(step + 1) % 2][r][c] = around == 3 || (around == 2 && now[r][c]);
    }
    __syncthreads();
    y[r * 16 + c] = planes[steps % 2][r][c];
}

// SHA-256's compression of one 64-byte block per thread, from the standard's initial state.
__constant__ unsigned round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ unsigned rotated(unsigned x, int by) { return __funnelshift_r(x, x, by); }

extern "C" __global__ void sha256_block(const unsigned char *messages, unsigned *digests, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned w[16];
    for (int k = 0; k < 16; k++) {
        const unsigned char *at = messages + i * 64 + k * 4;
        w[k] = at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
    }
    const unsigned initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned s[8];
    for (int k = 0; k < 8; k++) s[k] = initial[k];
#pragma unroll 1
    for (int k = 0; k < 64; k++) {
        const unsigned choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        const unsigned majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        const unsigned sum1 = rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25);
        const unsigned sum0 = rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22);
        const unsigned t1 = s[7] + sum1 + choice + round_constants[k] + w[k & 15];
        const unsigned x = w[(k + 1) & 15], y = w[(k + 14) & 15];
        w[k & 15] += (rotated(x, 7) ^ rotated(x, 18) ^ x >> 3) + w[(k + 9) & 15]
                     + (rotated(y, 17) ^ rotated(y, 19) ^ y >> 10);
        for (int j = 7; j > 0; j--) s[j] = s[j - 1];
        s[4] += t1;
        s[0] = t1 + sum0 + majority;
    }
    for (int k = 0; k < 8; k++) digests[i * 8 + k] = s[k] + initial[k];
}

// A 256-point FFT per block in shared memory, twiddles from sincospif.
extern "C" __global__ void fft256(const float2 *x, float2 *y)
{
    __shared__ float2 data[256];
    const int t = threadIdx.x;
    for (int i = t; i < 256; i += 128) data[__brev(i) >> 24] = x[blockIdx.x * 256 + i];
    for (int half = 1; half < 256; half *= 2) {
        __syncthreads();
        const int k = t % half, at = (t / half) * half * 2 + k;
        float s, c;
        sincospif(-static_cast<float>(k) / half, &s, &c);
        const float2 a = data[at], b = data[at + half];
        const float2 turned = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
        data[at] = make_float2(a.x + turned.x, a.y + turned.y);
        data[at + half] = make_float2(a.x - turned.x, a.y - turned.y);
    }
    __syncthreads();
    for (int i = t; i < 256; i += 128) y[blockIdx.x * 256 + i] = data[i];
}

// One routine, pointers into all state spaces: generic addressing, isspacep, byte copies.
__device__ __noinline__ int weigh(const int *values, int count)
{
    int sum = 0;
    for (int i = 0; i < count; i++) sum = sum * 5 + values[i];
    return sum;
}

__device__ __noinline__ int *choose(int *a, int *b, bool first) { return first ? a : b; }

__constant__ int constants[4] = {3, -1, 4, 1};

extern "C" __global__ void generic_pointers(int *x, int *y)
{
    __shared__ int tile[64 * 4];
    int local[4];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    for (int k = 0; k < 4; k++) {
        local[k] = x[i * 4 + k] ^ k;
        tile[t * 4 + k] = x[i * 4 + k] + k;
    }
    __syncthreads();
    const int mixed = weigh(choose(local, tile + (t ^ 1) * 4, t % 3 == 0), 4);
    *choose(x + i * 4, tile + t * 4, t % 2 == 0) = 1000 + t;
    __syncthreads();
    const int spaces = __isShared(tile + t) + 2 * __isLocal(local) + 4 * __isGlobal(x)
                       + 8 * __isConstant(constants) + 16 * __isGlobal(tile);
    y[i * 5 + 0] = mixed;
    y[i * 5 + 1] = weigh(x + i * 4, 4);
    y[i * 5 + 2] = weigh(tile + t * 4, 4);
    y[i * 5 + 3] = weigh(constants, 4);
    y[i * 5 + 4] = spaces;
}

// memcpy of structs at odd addresses, and a byte loop over shared memory.
extern "C" __global__ void unaligned_bytes(const unsigned char *x, unsigned char *y, unsigned *sums)
{
    __shared__ unsigned char tile[64 * 7];
    const int t = threadIdx.x;
    unsigned char record[7];
    for (int k = 0; k < 7; k++) record[k] = x[(blockIdx.x * 64 + t) * 7 + k];
    for (int k = 0; k < 7; k++) tile[t * 7 + (k + t) % 7] = record[k];
    __syncthreads();
    unsigned sum = 0;
    for (int k = 0; k < 7; k++) {
        y[(blockIdx.x * 64 + t) * 7 + k] = tile[(63 - t) * 7 + k];
        sum = sum * 257 + tile[t * 7 + k];
    }
    sums[blockIdx.x * 64 + t] = sum;
}

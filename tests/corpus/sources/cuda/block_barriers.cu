// Block barriers that reduce, named barriers, and a spin lock between blocks.
extern "C" __global__ void barrier_reductions(const int *x, int *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int positive = __syncthreads_count(x[i] > 0);
    const int every = __syncthreads_and(x[i] > -90);
    const int some = __syncthreads_or(x[i] == 77);
    out[i] = positive * 4 + (every != 0) * 2 + (some != 0);
}

// Warps 0-1 produce, warps 2-3 consume; two named barriers hand one buffer back and forth.
extern "C" __global__ void named_barriers(const int *x, int *y, int rounds)
{
    __shared__ int buffer[64];
    const int t = threadIdx.x;
    if (t < 64) {
        for (int r = 0; r < rounds; r++) {
            if (r > 0) asm volatile("bar.sync 2, 128;" ::: "memory");
            buffer[t] = x[r * 64 + t] * (r + 1);
            asm volatile("bar.arrive 1, 128;" ::: "memory");
        }
    } else {
        for (int r = 0; r < rounds; r++) {
            asm volatile("bar.sync 1, 128;" ::: "memory");
            y[r * 64 + t - 64] = buffer[127 - t];
            if (r + 1 < rounds) asm volatile("bar.arrive 2, 128;" ::: "memory");
        }
    }
}

// A ticket lock held by one thread of each block; the update itself is not atomic.
extern "C" __global__ void ticket_lock(unsigned *lock, unsigned *state, int rounds)
{
    if (threadIdx.x == 0) {
        for (int r = 0; r < rounds; r++) {
            const unsigned ticket = atomicAdd(&lock[0], 1u);
            while (*reinterpret_cast<volatile unsigned *>(&lock[1]) != ticket) __nanosleep(20);
            __threadfence();
            volatile unsigned *words = state;
            words[0] = words[0] + 1;
            words[1] = words[1] + blockIdx.x;
            __threadfence();
            atomicExch(&lock[1], ticket + 1);
        }
    }
    __syncthreads();
}

// Lanes of one warp wait for each other through shared memory: independent thread scheduling.
extern "C" __global__ void lane_chain(const int *x, int *y)
{
    __shared__ volatile int turn;
    __shared__ volatile int sum;
    const int lane = threadIdx.x;
    if (lane == 0) { turn = 0; sum = 0; }
    __syncthreads();
    while (turn != lane) { }
    sum = sum * 3 + x[lane];
    y[lane] = sum;
    __threadfence_block();
    turn = lane + 1;
}

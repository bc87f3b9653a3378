// Switches, divergent loops with early exits, a small virtual machine, dynamic local arrays.
extern "C" __global__ void interpreter(const unsigned char *program, int length, const int *x,
                                       int *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a = x[i], b = i;
    for (int at = 0; at < length; at++) {
        switch ((program[at] + i) % 12) {
        case 0: a += b; break;
        case 1: a ^= b << 3; break;
        case 2: b = a - b; break;
        case 3: a = a * 17 + 1; break;
        case 4: b = (b >> 2) | (a << 30); break;
        case 5: a = min(a, b); break;
        case 6: b = max(a, b); break;
        case 7: a = __popc(a); break;
        case 8: b = ~b; break;
        case 9: a = a & 0xffff; break;
        case 10: { const int t = a; a = b; b = t; break; }
        case 11: b += a >> 1; break;
        }
    }
    y[i] = a * 31 + b;
}

extern "C" __global__ void collatz(const unsigned *x, int *steps, int limit, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned v = x[i];
    if (v == 0) { steps[i] = -1; return; }
    int count = 0;
    while (v != 1) {
        if (count == limit) { steps[i] = -2; return; }
        if (v % 2) {
            v = 3 * v + 1;
            if (v % 16 == 0) { v /= 16; count += 5; continue; }
        } else {
            v /= 2;
        }
        count++;
    }
    steps[i] = count;
}

// Insertion sort of 16 values in a local array: dynamic indices force .local memory.
extern "C" __global__ void local_sort(const int *x, int *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int values[16];
    for (int k = 0; k < 16; k++) values[k] = x[i * 16 + k];
#pragma unroll 1
    for (int k = 1; k < 16; k++) {
        const int value = values[k];
        int at = k - 1;
        while (at >= 0 && values[at] > value) {
            values[at + 1] = values[at];
            at--;
        }
        values[at + 1] = value;
    }
    for (int k = 0; k < 16; k++) y[i * 16 + k] = values[(k + i) & 15];
}

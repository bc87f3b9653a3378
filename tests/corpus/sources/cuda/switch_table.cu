// nvcc: --jump-table-density 10
// A dense switch that the compiler turns into a jump table (brx.idx), with loops and atomics inside.
extern "C" __global__ void jump_table(const int *operations, const int *x, int *y, int length,
                                      int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a = x[i], b = 1;
#pragma unroll 1
    for (int at = 0; at < length; at++) {
        switch (operations[at] + i % 3) {
        case 0: for (int k = 0; k < i % 5; k++) a = a * 5 + b; break;
        case 1: y[i] = a; b = a + 1; break;
        case 2: if (a > 3) { b = y[i]; a -= 2; } break;
        case 3: a = (a >> 1) + b; y[i] += 1; break;
        case 4: while (a > 100) a /= 4; break;
        case 5: y[i] = a % (b | 1); break;
        case 6: atomicAdd(y + i, 7); break;
        case 7: b = max(b, y[i]); break;
        case 8: a = -a; break;
        case 9: y[i] = a ^ b; return;
        default: b = 3;
        }
    }
    y[i] = a + b * 3;
}

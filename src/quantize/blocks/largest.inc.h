// The greatest magnitude of n values as the bits of a float (infinity 0x7f800000, NaN above). Included once per
// instruction set, with FM_LARGEST the name.
#include "quantize/blocks/half.h"
#include "quantize/blocks/kernels.h"

uint32_t FM_LARGEST(size_t n, const float *x)
{
    int32_t most[64] = {0}; // whole numbers in the order of the floats; several chains of the widest vectors
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (int k = 0; k < 64; k++) {
            int32_t a = (int32_t)(bits_of(x[i + (size_t)k]) & 0x7fffffff);
            most[k] = a > most[k] ? a : most[k];
        }
    for (; i < n; i++) {
        int32_t a = (int32_t)(bits_of(x[i]) & 0x7fffffff);
        most[0] = a > most[0] ? a : most[0];
    }
    for (int k = 1; k < 64; k++)
        most[0] = most[k] > most[0] ? most[k] : most[0];
    return (uint32_t)most[0];
}

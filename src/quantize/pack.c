#include "floodmark/quantize.h"
#include <string.h>

// Bits gather in a word and leave it a byte at a time.
void fm_pack_bits(unsigned bits, uint64_t n, const uint8_t *codes, unsigned offset, uint8_t *out)
{
    uint32_t mask = (1u << bits) - 1, held = 0;
    unsigned n_held = 0;
    if (bits == 8) {
        for (uint64_t i = 0; i < n; i++)
            out[i] = (uint8_t)(codes[i] + offset);
        return;
    }
    if (bits == 4) { // the common case, two at a time
        for (uint64_t i = 0; i + 2 <= n; i += 2)
            out[i / 2] = (uint8_t)(((codes[i] + offset) & 15) | ((codes[i + 1] + offset) & 15) << 4);
        if (n % 2)
            out[n / 2] = (codes[n - 1] + offset) & 15;
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        held |= ((codes[i] + offset) & mask) << n_held;
        for (n_held += bits; n_held >= 8; n_held -= 8, held >>= 8)
            *out++ = (uint8_t)held;
    }
    if (n_held)
        *out = (uint8_t)held;
}

void fm_unpack_bits(unsigned bits, uint64_t n, const uint8_t *packed, unsigned offset, uint8_t *codes)
{
    uint32_t mask = (1u << bits) - 1, held = 0;
    unsigned n_held = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (n_held < bits) {
            held |= (uint32_t)*packed++ << n_held;
            n_held += 8;
        }
        codes[i] = (uint8_t)((held & mask) + offset);
        held >>= bits;
        n_held -= bits;
    }
}

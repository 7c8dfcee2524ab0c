// One block of Philox4x32-10, inline so that every row of the kernel table can build on it. Private to this room.
#ifndef FM_NUMBER_PHILOX_H
#define FM_NUMBER_PHILOX_H
#include <stdint.h>

#define FM_PHILOX_M0 UINT32_C(0xD2511F53)
#define FM_PHILOX_M1 UINT32_C(0xCD9E8D57)
#define FM_PHILOX_W0 UINT32_C(0x9E3779B9)
#define FM_PHILOX_W1 UINT32_C(0xBB67AE85)

static inline void fm_philox_block(uint64_t seed, uint64_t block, uint32_t word[4])
{
    uint32_t a = (uint32_t)block, b = (uint32_t)(block >> 32), c = 0, d = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)FM_PHILOX_M0 * a, q = (uint64_t)FM_PHILOX_M1 * c;
        uint32_t next_a = (uint32_t)(q >> 32) ^ b ^ k0, next_c = (uint32_t)(p >> 32) ^ d ^ k1;
        b = (uint32_t)q;
        d = (uint32_t)p;
        a = next_a;
        c = next_c;
        k0 += FM_PHILOX_W0;
        k1 += FM_PHILOX_W1;
    }
    word[0] = a;
    word[1] = b;
    word[2] = c;
    word[3] = d;
}
#endif

// Little-endian integers at any address, as files hold them.
#ifndef FM_FILES_ENDIAN_H
#define FM_FILES_ENDIAN_H
#include <stdint.h>

static inline uint64_t fm_load_le(const uint8_t *p, unsigned n_bytes)
{
    uint64_t v = 0;
    while (n_bytes--)
        v = v << 8 | p[n_bytes];
    return v;
}

static inline uint32_t fm_load_u32(const uint8_t *p)
{
    return (uint32_t)fm_load_le(p, 4);
}

static inline uint64_t fm_load_u64(const uint8_t *p)
{
    return fm_load_le(p, 8);
}
#endif

// Scales: binary16 and its neighbours, in integers, so that every machine makes the same bits. Private to the blocks.
#ifndef FM_QUANTIZE_BLOCKS_HALF_H
#define FM_QUANTIZE_BLOCKS_HALF_H
#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

// To nearest even; overflow to infinity; every NaN becomes sign | 0x7e00, as in ggml.
static inline uint16_t half_from_float(float x)
{
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (a >= 0x477ff000) // 65520: half an ulp past the largest finite
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x38800000) { // below 2^-14: adding 1/2 leaves the subnormal's 10 bits at the bottom, rounded by the FPU
        return (uint16_t)(sign | (bits_of(float_of(a) + 0.5f) - 0x3f000000));
    }
    return (uint16_t)(sign | ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13));
}

// Exact; a signalling NaN becomes quiet.
static inline float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, a = h & 0x7fff;
    if (a >= 0x7c00)
        return float_of(sign | 0x7f800000 | (a & 0x3ff) << 13 | (uint32_t)(a > 0x7c00) << 22);
    if (a < 0x400) // subnormal: the integer a times 2^-24
        return float_of(sign | bits_of((float)a * 0x1p-24f));
    return float_of(sign | ((a << 13) + 0x38000000));
}

static inline uint16_t read_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)read_u16(p) | (uint32_t)read_u16(p + 2) << 16;
}

static inline uint64_t read_u64(const uint8_t *p)
{
    return read_u32(p) | (uint64_t)read_u32(p + 4) << 32;
}

static inline void write_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void write_u32(uint8_t *p, uint32_t v)
{
    write_u16(p, (uint16_t)v);
    write_u16(p + 2, (uint16_t)(v >> 16));
}

static inline float read_half(const uint8_t *p)
{
    return half_to_float(read_u16(p));
}

// 2^(e - 128), half of E8M0's value, because the E2M1 table below holds doubled values. 255 (NaN in OCP's text) is
// read as 2^127 by ggml.
static inline float e8m0_half(uint8_t e)
{
    return float_of(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

// Half the value of an unsigned E4M3 code. Bit 7 is ignored; 0x7f, E4M3's NaN, is 0; but 0xff is 240. As ggml does.
static inline float ue4m3_half(uint8_t c)
{
    uint32_t exponent = c >> 3 & 15, fraction = c & 7;
    if (c == 0x7f)
        return 0;
    if (exponent == 0)
        return (float)fraction * 0x1p-10f;
    return float_of((exponent - 8 + 127) << 23 | fraction << 20);
}

static const int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
#endif

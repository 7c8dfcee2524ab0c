// Single values, inline, nearest even: for kernels of other rooms that meet one scale or one weight at a time.
// Equal to fm_number_encode(type, x, {0}) and fm_number_decode (tests/number/exhaustive.c compares all 2^32 inputs).
#ifndef FM_NUMBER_INLINE_H
#define FM_NUMBER_INLINE_H
#include <stdint.h>
#include <string.h>

static inline uint32_t fm_bits_of_f32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float fm_f32_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint16_t fm_bf16_of_f32(float x)
{
    uint32_t u = fm_bits_of_f32(x);
    if ((u & 0x7fffffff) > 0x7f800000) // NaN: rounding could carry it into infinity
        return (uint16_t)(u >> 16 | 0x0040);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float fm_f32_of_bf16(uint16_t code)
{
    return fm_f32_of_bits((uint32_t)code << 16);
}

static inline uint16_t fm_f16_of_f32(float x)
{
    uint32_t u = fm_bits_of_f32(x), magnitude = u & 0x7fffffff, sign = u >> 16 & 0x8000;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) // 65520: the tie between 65504 and what would be 65536
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x33000001) // 2^-25, the tie between 0 and 2^-24, goes to the even 0
        return (uint16_t)sign;
    int shift = magnitude < 0x38800000 ? 126 - (int)(magnitude >> 23) : 13;
    uint32_t significand = magnitude < 0x38800000 ? (magnitude & 0x7fffff) | 0x800000 : magnitude - 0x38000000;
    uint32_t odd = significand >> shift & 1;
    return (uint16_t)(sign | (significand + (UINT32_C(1) << (shift - 1)) - 1 + odd) >> shift);
}

static inline float fm_f32_of_f16(uint16_t code)
{
    uint32_t sign = (uint32_t)(code & 0x8000) << 16, magnitude = code & 0x7fff;
    if (magnitude > 0x7c00)
        return fm_f32_of_bits(sign | 0x7fc00000 | magnitude << 13);
    if (magnitude == 0x7c00)
        return fm_f32_of_bits(sign | 0x7f800000);
    if (magnitude >= 0x0400)
        return fm_f32_of_bits(sign | ((magnitude << 13) + 0x38000000));
    float x = (float)(int32_t)magnitude * 0x1p-24f; // exact: ten bits and a power of two
    return fm_f32_of_bits(sign | fm_bits_of_f32(x));
}

// 2^(code - 127); code 0 is the subnormal 2^-127, 255 is NaN.
static inline float fm_f32_of_e8m0(uint8_t code)
{
    return fm_f32_of_bits(code == 0xff ? 0x7fc00000 : code ? (uint32_t)code << 23 : 0x00400000);
}
#endif

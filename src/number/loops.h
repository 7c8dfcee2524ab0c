// The loops of the kernel table in plain C. They are the scalar row, they finish the odd elements of the vector rows,
// and those that compilers vectorise well are the vector rows' too: each kernels_*.c includes this file and is compiled
// with its own flags. Only integer arithmetic and exact floating operations, so every row gives the same bits.
#ifndef FM_NUMBER_LOOPS_H
#define FM_NUMBER_LOOPS_H
#include "number/inline.h"
#include "number/kernels.h"
#include "number/philox.h"

#define FM_LOOP static inline __attribute__((unused))

enum { FM_MAGNITUDE = 0x7fffffff, FM_INF_BITS = 0x7f800000 };

FM_LOOP uint16_t loop_f16_one(float x, bool saturate)
{
    uint16_t code = fm_f16_of_f32(x);
    return saturate && (code & 0x7fff) == 0x7c00 ? (uint16_t)(code - 1) : code;
}

FM_LOOP void loop_f16_from_f32(size_t n, const float *x, uint16_t *out, bool saturate)
{
    for (size_t i = 0; i < n; i++)
        out[i] = loop_f16_one(x[i], saturate);
}

FM_LOOP void loop_bf16_from_f32(size_t n, const float *x, uint16_t *out, bool saturate)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t code = fm_bf16_of_f32(x[i]);
        out[i] = saturate && (code & 0x7fff) == 0x7f80 ? (uint16_t)(code - 1) : code;
    }
}

FM_LOOP uint8_t loop_small_one(const fm_small *s, float x)
{
    uint32_t u = fm_bits_of_f32(x), magnitude = u & FM_MAGNITUDE, sign = u >> s->sign_shift & s->sign_code;
    if (magnitude > FM_INF_BITS)
        return (uint8_t)(s->no_neg_zero ? s->nan_code : s->nan_code ^ sign);
    if (magnitude > s->clamp)
        magnitude = s->clamp;
    uint32_t e = magnitude >> 23, code = 0;
    uint32_t significand = e ? (magnitude & 0x7fffff) | 0x800000 : 0; // fp32 subnormals are far below every grid
    uint32_t grid = e > s->min_exponent ? e : s->min_exponent;
    uint32_t shift = 23 - s->fraction_bits + grid - e;
    if (shift < 25) {
        uint32_t odd = significand >> shift & 1;
        code = (significand + (UINT32_C(1) << (shift - 1)) - 1 + odd) >> shift;
    }
    code += (grid - s->min_exponent) << s->fraction_bits;
    if (s->no_neg_zero && !(code & 0x7f))
        sign = 0;
    return (uint8_t)(code | sign);
}

FM_LOOP void loop_small_from_f32(const fm_small *s, size_t n, const float *x, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = loop_small_one(s, x[i]);
}

FM_LOOP void loop_tf32_from_f32(size_t n, const float *x, uint32_t *out, fm_rounding rounding, bool saturate)
{
    // Every rounding adds to the pattern and clears the low 13 bits; the carry walks into the exponent as it should.
    uint32_t add = rounding == FM_ROUND_NEAREST_EVEN   ? 0x0fff
                   : rounding == FM_ROUND_NEAREST_AWAY ? 0x1000
                   : rounding == FM_ROUND_AWAY         ? 0x1fff
                                                       : 0;
    uint32_t add_odd = rounding == FM_ROUND_NEAREST_EVEN;
    uint32_t limit = saturate ? 0x7f7fe000 : FM_INF_BITS;
    for (size_t i = 0; i < n; i++) {
        uint32_t u = fm_bits_of_f32(x[i]), magnitude = u & FM_MAGNITUDE;
        uint32_t rounded = (magnitude + add + (magnitude >> 13 & add_odd)) & ~UINT32_C(0x1fff);
        rounded = rounded > limit ? limit : rounded;
        uint32_t nan = (magnitude & ~UINT32_C(0x1fff)) | 0x7fc00000;
        out[i] = (u & ~(uint32_t)FM_MAGNITUDE) | (magnitude > FM_INF_BITS ? nan : rounded);
    }
}

// Nearest even by adding 1.5 * 2^23, whose last bit is worth 1: the integer stands, in two's complement, in the low bits.
FM_LOOP void loop_int_from_f32(size_t n, const float *x, uint8_t *out, float lowest, float largest, uint32_t mask)
{
    for (size_t i = 0; i < n; i++) {
        float v = x[i] == x[i] ? x[i] : 0;
        v = v > lowest ? v : lowest;
        v = v < largest ? v : largest;
        out[i] = (uint8_t)(fm_bits_of_f32(v + 0x1.8p23f) & mask);
    }
}

FM_LOOP void loop_f32_from_f16(size_t n, const uint16_t *codes, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = fm_f32_of_f16(codes[i]);
}

FM_LOOP void loop_f32_from_bf16(size_t n, const uint16_t *codes, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = fm_f32_of_bf16(codes[i]);
}

FM_LOOP float loop_small_decode(const fm_small *s, uint32_t code)
{
    uint32_t sign = (code & s->sign_code) << s->sign_shift, magnitude = code & (s->sign_code - 1);
    uint32_t value = magnitude >> s->fraction_bits
                         ? (magnitude << (23 - s->fraction_bits)) + ((s->min_exponent - 1) << 23)
                         : fm_bits_of_f32((float)(int32_t)magnitude * s->subnormal_step);
    if (magnitude >= s->special)
        value |= FM_INF_BITS;
    if (magnitude > s->nan_above || code == s->lone_nan)
        value |= 0x7fc00000;
    return fm_f32_of_bits(value | sign);
}

FM_LOOP void loop_f32_from_small(const fm_small *s, size_t n, const uint8_t *codes, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = loop_small_decode(s, codes[i] & (2 * s->sign_code - 1));
}

// Stochastic rounding: the significand in 32.32 fixed point at the grid's step, plus the random word, floored.
FM_LOOP uint32_t loop_dither_one(const fm_dither *d, float x, uint32_t random)
{
    uint32_t u = fm_bits_of_f32(x), magnitude = u & FM_MAGNITUDE, sign = u >> d->sign_shift & d->sign_code;
    uint32_t e = magnitude >> 23, significand = magnitude & 0x7fffff;
    significand |= e ? 0x800000 : 0;
    e = e ? e : 1;
    uint32_t grid = e > d->min_exponent ? e : d->min_exponent;
    uint32_t shift = 23 - d->fraction_bits + grid - e;
    shift = shift < 63 ? shift : 63; // 24 bits above 32 places: nothing is left from 56 on
    uint32_t code = (uint32_t)((((uint64_t)significand << 32 >> shift) + random) >> 32);
    code += (grid - d->min_exponent) << d->fraction_bits;
    code = code < d->overflow_code ? code : d->overflow_code;
    uint32_t payload = (uint32_t)((uint64_t)(magnitude & 0x7fffff) >> d->quiet_payload_shift);
    bool is_nan = magnitude > FM_INF_BITS;
    code = is_nan ? d->nan_code | payload : code;
    uint32_t unsigned_zero = d->no_neg_zero & (0u - !(code & 0x7f));
    uint32_t dropped = unsigned_zero | (0u - (uint32_t)(is_nan && d->no_neg_zero));
    return code ^ (sign & ~dropped);
}

FM_LOOP void loop_dither16(const fm_dither *d, size_t n, const float *x, const uint32_t *random, uint16_t *out)
{
    fm_dither local = *d;
    for (size_t i = 0; i < n; i++)
        out[i] = (uint16_t)loop_dither_one(&local, x[i], random[i]);
}

FM_LOOP void loop_dither8(const fm_dither *d, size_t n, const float *x, const uint32_t *random, uint8_t *out)
{
    fm_dither local = *d;
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)loop_dither_one(&local, x[i], random[i]);
}

FM_LOOP void loop_random_blocks(uint64_t seed, uint64_t block, size_t n, uint32_t *out)
{
    for (size_t i = 0; i < n; i += 4)
        fm_philox_block(seed, block + i / 4, out + i);
}

FM_LOOP void loop_extent(size_t n, const float *x, uint32_t *max_bits, uint32_t *min_less_1)
{
    uint32_t most = *max_bits, least = *min_less_1;
    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = fm_bits_of_f32(x[i]) & FM_MAGNITUDE;
        most = magnitude > most ? magnitude : most;
        least = magnitude - 1 < least ? magnitude - 1 : least;
    }
    *max_bits = most;
    *min_less_1 = least;
}

FM_LOOP void loop_tally(size_t n, const float *x, uint32_t over, uint32_t zero_max, fm_tally *t)
{
    // Magnitudes and bounds are below 2^31: compared as signed, for which there are instructions.
    uint32_t nan = 0, not_finite = 0, at_least_over = 0, at_most_zero = 0, zero = 0;
    int32_t low = (int32_t)over, high = (int32_t)zero_max;
    for (size_t i = 0; i < n; i++) {
        int32_t magnitude = (int32_t)(fm_bits_of_f32(x[i]) & FM_MAGNITUDE);
        nan += magnitude > FM_INF_BITS;
        not_finite += magnitude >= FM_INF_BITS;
        at_least_over += magnitude >= low;
        at_most_zero += magnitude <= high;
        zero += magnitude == 0;
    }
    t->nan += nan;
    t->infinite_or_nan += not_finite;
    t->at_least_over += at_least_over;
    t->at_most_zero += at_most_zero;
    t->zero += zero;
}

FM_LOOP uint32_t loop_count_tiny(size_t n, const float *x, uint32_t zero_max)
{
    uint32_t tiny = 0;
    int32_t high = (int32_t)zero_max;
    for (size_t i = 0; i < n; i++) {
        int32_t magnitude = (int32_t)(fm_bits_of_f32(x[i]) & FM_MAGNITUDE);
        tiny += (magnitude <= high) & (magnitude > 0);
    }
    return tiny;
}

FM_LOOP void loop_f32_from_f64(size_t n, const double *x, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)x[i];
}

// Rounds to odd: towards zero, then the last bit is set when anything was lost. What is rounded again afterwards to
// 22 bits or fewer comes out as if it had been rounded once.
FM_LOOP float loop_odd_one(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    uint32_t sign = (uint32_t)(u >> 32) & 0x80000000;
    uint64_t magnitude = u & INT64_MAX;
    if (magnitude >= UINT64_C(0x7ff) << 52) // the payload's top bits, quiet
        return fm_f32_of_bits(sign | FM_INF_BITS | (uint32_t)(magnitude >> 29 & 0x7fffff) |
                              (magnitude > UINT64_C(0x7ff) << 52 ? 0x400000 : 0));
    if (magnitude >= UINT64_C(1151) << 52) // 2^128
        return fm_f32_of_bits(sign | (FM_INF_BITS - 1));
    if (magnitude >= UINT64_C(897) << 52) { // 2^-126: normal in fp32
        uint32_t lost = (magnitude & 0x1fffffff) != 0;
        return fm_f32_of_bits(sign | ((uint32_t)((magnitude - (UINT64_C(896) << 52)) >> 29) | lost));
    }
    uint64_t significand = (magnitude & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    int shift = 29 + 897 - (int)(magnitude >> 52);
    if (shift > 63)
        return fm_f32_of_bits(sign | (magnitude != 0));
    uint32_t lost = (significand & ((UINT64_C(1) << shift) - 1)) != 0;
    return fm_f32_of_bits(sign | ((uint32_t)(significand >> shift) | lost));
}

FM_LOOP void loop_f32_from_f64_odd(size_t n, const double *x, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = loop_odd_one(x[i]);
}
#endif

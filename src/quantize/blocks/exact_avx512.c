// The exact formats sixteen blocks at a time: one vector of maxima, one division for all sixteen scales, then the codes
// block by block. A block that the short cuts would get wrong (NaN, infinity, scales whose inverse overflows, zeros
// whose sign matters) is done again by its definition.
#include <immintrin.h>
#include "quantize/blocks/exact_ref.h"
#include "quantize/blocks/half.h"

// Which block's vector goes where so that fold16 leaves block p's result in lane p.
static const uint8_t fold_place[16] = {0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15};

// Folds each of sixteen vectors to one value by `op`, all at once: halves, quarters, pairs, singles.
#define FOLD_STEP(op, count, low, high) \
    for (int i = 0; i < (count); i++)   \
        v[i] = op(low(v[i], v[i + (count)]), high(v[i], v[i + (count)]));
#define HALVES_LOW(a, b) _mm512_shuffle_i32x4(a, b, 0x44)
#define HALVES_HIGH(a, b) _mm512_shuffle_i32x4(a, b, 0xee)
#define QUARTERS_LOW(a, b) _mm512_shuffle_i32x4(a, b, 0x88)
#define QUARTERS_HIGH(a, b) _mm512_shuffle_i32x4(a, b, 0xdd)
#define SHUFFLE_PS(a, b, k) _mm512_castps_si512(_mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), k))
#define SINGLES_LOW(a, b) SHUFFLE_PS(a, b, 0x88)
#define SINGLES_HIGH(a, b) SHUFFLE_PS(a, b, 0xdd)
#define FOLD16(name, op)                                               \
    static inline __m512i name(__m512i v[16])                          \
    {                                                                  \
        FOLD_STEP(op, 8, HALVES_LOW, HALVES_HIGH)                      \
        FOLD_STEP(op, 4, QUARTERS_LOW, QUARTERS_HIGH)                  \
        FOLD_STEP(op, 2, _mm512_unpacklo_epi64, _mm512_unpackhi_epi64) \
        FOLD_STEP(op, 1, SINGLES_LOW, SINGLES_HIGH)                    \
        return v[0];                                                   \
    }
FOLD16(fold_max, _mm512_max_epi32)
FOLD16(fold_max_unsigned, _mm512_max_epu32)
FOLD16(fold_min, _mm512_min_epi32)

static inline __m512i load_bits(const float *x)
{
    return _mm512_loadu_si512(x);
}
static inline __m512i absolute(__m512i bits)
{
    return _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
}

// Asks for the block that the loop will want some rounds from now: the hardware stops at page ends. It may lie past the
// array, so it is an address and not a pointer.
static inline void prefetch(const float *block)
{
    uintptr_t at = (uintptr_t)block + 4096;
    _mm_prefetch((const char *)at, _MM_HINT_T0);
    _mm_prefetch((const char *)(at + 64), _MM_HINT_T0);
}

// Magnitudes, as bits, in whose range a scale and its inverse are ordinary numbers; with 0 allowed.
static inline __mmask16 odd_magnitudes(__m512i bits)
{
    __m512i least = _mm512_set1_epi32(0x0b800000), most = _mm512_set1_epi32(0x7f7fffff); // 2^-104, greatest finite
    __mmask16 out = _mm512_cmplt_epi32_mask(bits, least) | _mm512_cmpgt_epi32_mask(bits, most);
    return out & _mm512_test_epi32_mask(bits, bits);
}

typedef void reference(const float *x, uint8_t *bytes);

static inline void redo(unsigned odd, reference *ref, const float *x, size_t elems, uint8_t *out, size_t bytes)
{
    for (; odd; odd &= odd - 1) {
        size_t b = (size_t)__builtin_ctz(odd);
        ref(x + elems * b, out + bytes * b);
    }
}

static inline __m512 inverse_of(__m512 d)
{
    return _mm512_maskz_div_ps(_mm512_cmp_ps_mask(d, _mm512_setzero_ps(), _CMP_NEQ_OQ), _mm512_set1_ps(1), d);
}

static inline void store_halves(uint16_t out[16], __m512 d)
{
    _mm256_storeu_si256((__m256i *)out, _mm512_cvtps_ph(d, _MM_FROUND_TO_NEAREST_INT));
}

static void encode_q8_0(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 16; n -= 16, x += 512, out += 16 * 34) {
        __m512i v[16];
        for (int b = 0; b < 16; b++)
            v[fold_place[b]] = _mm512_max_epi32(absolute(load_bits(x + 32 * b)), absolute(load_bits(x + 32 * b + 16)));
        __m512i most = fold_max(v);
        __m512 d = _mm512_div_ps(_mm512_castsi512_ps(most), _mm512_set1_ps(127));
        float inverse[16];
        uint16_t half[16];
        _mm512_storeu_ps(inverse, inverse_of(d));
        store_halves(half, d);
        const __m512i sign = _mm512_set1_epi32((int)0x80000000);
        const __m512i just_under_half = _mm512_castps_si512(_mm512_set1_ps(0x1.fffffep-2f));
        for (int b = 0; b < 16; b++) {
            prefetch(x + 32 * b);
            uint8_t *block = out + 34 * b;
            memcpy(block, &half[b], 2);
            for (int h = 0; h < 2; h++) { // half away from zero: add a little under half towards the outside, cut
                __m512 y = _mm512_mul_ps(_mm512_loadu_ps(x + 32 * b + 16 * h), _mm512_set1_ps(inverse[b]));
                __m512i nudge = _mm512_ternarylogic_epi32(sign, _mm512_castps_si512(y), just_under_half, 0xea);
                __m512i q = _mm512_cvttps_epi32(_mm512_add_ps(y, _mm512_castsi512_ps(nudge)));
                _mm_storeu_si128((__m128i *)(block + 2 + 16 * h), _mm512_cvtepi32_epi8(q));
            }
        }
        redo(odd_magnitudes(most), fm_block_ref_q8_0, x, 32, out, 34);
    }
    fm_block_exact_scalar[FM_BLOCK_Q8_0](n, x, NULL, out);
}

// The value of greatest magnitude of each of sixteen blocks, with its sign. *odd: blocks with NaN or infinity, or with
// too small a scale; *tied: those where +value and -value both occur, so that their order decides.
static inline __m512 extremes(const float *x, __mmask16 *odd, __mmask16 *tied)
{
    __m512i v[16], u[16];
    for (int b = 0; b < 16; b++) {
        __m512i lo = load_bits(x + 32 * b), hi = load_bits(x + 32 * b + 16);
        v[fold_place[b]] = _mm512_max_epi32(lo, hi); // positive floats are ordered as signed integers
        u[fold_place[b]] = _mm512_max_epu32(lo, hi); // negative ones, by magnitude, as unsigned
    }
    __m512i zero = _mm512_setzero_si512(), positive = _mm512_max_epi32(fold_max(v), zero);
    __m512i top = fold_max_unsigned(u), negative = _mm512_maskz_mov_epi32(_mm512_movepi32_mask(top), absolute(top));
    __m512i most = _mm512_max_epi32(positive, negative);
    *odd = odd_magnitudes(most);
    *tied = _mm512_cmpeq_epi32_mask(positive, negative) & _mm512_test_epi32_mask(most, most) & (__mmask16) ~*odd;
    __mmask16 minus = _mm512_cmpgt_epi32_mask(negative, positive);
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(most, minus, most, _mm512_set1_epi32((int)0x80000000)));
}

// +-value, with the sign of whichever comes first in the block.
static float first_of_tied(const float *x, float value)
{
    __m512i most = _mm512_set1_epi32((int)(bits_of(value) & 0x7fffffff));
    uint32_t at = _mm512_cmpeq_epi32_mask(absolute(load_bits(x)), most);
    at |= (uint32_t)_mm512_cmpeq_epi32_mask(absolute(load_bits(x + 16)), most) << 16;
    return x[__builtin_ctz(at)];
}

static inline __m512 settled_extremes(const float *x, __mmask16 *odd)
{
    __mmask16 tied;
    __m512 value = extremes(x, odd, &tied);
    if (tied) {
        float f[16];
        _mm512_storeu_ps(f, value);
        for (unsigned t = tied; t; t &= t - 1) {
            int b = __builtin_ctz(t);
            f[b] = first_of_tied(x + 32 * b, f[b]);
        }
        value = _mm512_loadu_ps(f);
    }
    return value;
}

// trunc(x * inverse + bias), at most `top`; never negative for blocks that are not odd.
static inline __m512i codes_of(const float *x, float inverse, float bias, int top)
{
    __m512 y = _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(x), _mm512_set1_ps(inverse)), _mm512_set1_ps(bias));
    return _mm512_min_epi32(_mm512_cvttps_epi32(y), _mm512_set1_epi32(top));
}

static inline __m128i nibbles(__m512i low, __m512i high)
{
    return _mm512_cvtepi32_epi8(_mm512_or_si512(low, _mm512_slli_epi32(high, 4)));
}

static void encode_q4_0(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 16; n -= 16, x += 512, out += 16 * 18) {
        __mmask16 odd;
        float inverse[16];
        uint16_t half[16];
        __m512 d = _mm512_div_ps(settled_extremes(x, &odd), _mm512_set1_ps(-8));
        _mm512_storeu_ps(inverse, inverse_of(d));
        store_halves(half, d);
        for (int b = 0; b < 16; b++) {
            prefetch(x + 32 * b);
            __m512i low = codes_of(x + 32 * b, inverse[b], 8.5f, 15);
            __m512i high = codes_of(x + 32 * b + 16, inverse[b], 8.5f, 15);
            memcpy(out + 18 * b, &half[b], 2);
            _mm_storeu_si128((__m128i *)(out + 18 * b + 2), nibbles(low, high));
        }
        redo(odd, fm_block_ref_q4_0, x, 32, out, 18);
    }
    fm_block_exact_scalar[FM_BLOCK_Q4_0](n, x, NULL, out);
}

static inline void store_five_bits(uint8_t *qh, __m512i low, __m512i high)
{
    __m512i sixteen = _mm512_set1_epi32(16), fifteen = _mm512_set1_epi32(15);
    uint32_t top = _mm512_test_epi32_mask(low, sixteen);
    top |= (uint32_t)_mm512_test_epi32_mask(high, sixteen) << 16;
    memcpy(qh, &top, 4);
    __m128i q = nibbles(_mm512_and_si512(low, fifteen), _mm512_and_si512(high, fifteen));
    _mm_storeu_si128((__m128i *)(qh + 4), q);
}

static void encode_q5_0(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 16; n -= 16, x += 512, out += 16 * 22) {
        __mmask16 odd;
        float inverse[16];
        uint16_t half[16];
        __m512 d = _mm512_div_ps(settled_extremes(x, &odd), _mm512_set1_ps(-16));
        _mm512_storeu_ps(inverse, inverse_of(d));
        store_halves(half, d);
        for (int b = 0; b < 16; b++) {
            prefetch(x + 32 * b);
            memcpy(out + 22 * b, &half[b], 2);
            store_five_bits(out + 22 * b + 2, codes_of(x + 32 * b, inverse[b], 16.5f, 31),
                            codes_of(x + 32 * b + 16, inverse[b], 16.5f, 31));
        }
        redo(odd, fm_block_ref_q5_0, x, 32, out, 22);
    }
    fm_block_exact_scalar[FM_BLOCK_Q5_0](n, x, NULL, out);
}

// Floats as integers of the same order, -0 just under +0; its own inverse.
static inline __m512i ordered(__m512i bits)
{
    return _mm512_xor_si512(bits, _mm512_srli_epi32(_mm512_srai_epi32(bits, 31), 1));
}

// Scales of sixteen blocks of (max - min) / levels, and the minimums.
static inline __mmask16 ranges(const float *x, float levels, float inverse[16], float min[16], uint16_t d_half[16],
                               uint16_t m_half[16])
{
    __m512i v[16], u[16];
    for (int b = 0; b < 16; b++) {
        __m512i lo = ordered(load_bits(x + 32 * b)), hi = ordered(load_bits(x + 32 * b + 16));
        v[fold_place[b]] = _mm512_max_epi32(lo, hi);
        u[fold_place[b]] = _mm512_min_epi32(lo, hi);
    }
    __m512i most = ordered(fold_max(v)), least = ordered(fold_min(u)), infinity = _mm512_set1_epi32(0x7f800000);
    __mmask16 odd = _mm512_cmpge_epi32_mask(absolute(most), infinity) |
                    _mm512_cmpge_epi32_mask(absolute(least), infinity) |
                    _mm512_testn_epi32_mask(absolute(least), absolute(least)); // a zero: whose sign?
    __m512 floor = _mm512_castsi512_ps(least);
    __m512 d = _mm512_div_ps(_mm512_sub_ps(_mm512_castsi512_ps(most), floor), _mm512_set1_ps(levels));
    odd |= odd_magnitudes(_mm512_castps_si512(d));
    _mm512_storeu_ps(inverse, inverse_of(d));
    _mm512_storeu_ps(min, floor);
    store_halves(d_half, d);
    store_halves(m_half, floor);
    return odd;
}

static inline __m512i codes_above(const float *x, float min, float inverse, int top)
{
    __m512 y = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(x), _mm512_set1_ps(min)), _mm512_set1_ps(inverse));
    __m512i q = _mm512_cvttps_epi32(_mm512_add_ps(y, _mm512_set1_ps(0.5f)));
    return _mm512_min_epi32(q, _mm512_set1_epi32(top));
}

static void encode_q4_1(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 16; n -= 16, x += 512, out += 16 * 20) {
        float inverse[16], min[16];
        uint16_t d[16], m[16];
        __mmask16 odd = ranges(x, 15, inverse, min, d, m);
        for (int b = 0; b < 16; b++) {
            const float *xb = x + 32 * b;
            prefetch(xb);
            memcpy(out + 20 * b, &d[b], 2);
            memcpy(out + 20 * b + 2, &m[b], 2);
            __m128i q = nibbles(codes_above(xb, min[b], inverse[b], 15), codes_above(xb + 16, min[b], inverse[b], 15));
            _mm_storeu_si128((__m128i *)(out + 20 * b + 4), q);
        }
        redo(odd, fm_block_ref_q4_1, x, 32, out, 20);
    }
    fm_block_exact_scalar[FM_BLOCK_Q4_1](n, x, NULL, out);
}

static void encode_q5_1(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 16; n -= 16, x += 512, out += 16 * 24) {
        float inverse[16], min[16];
        uint16_t d[16], m[16];
        __mmask16 odd = ranges(x, 31, inverse, min, d, m);
        for (int b = 0; b < 16; b++) {
            const float *xb = x + 32 * b;
            prefetch(xb);
            memcpy(out + 24 * b, &d[b], 2);
            memcpy(out + 24 * b + 2, &m[b], 2);
            store_five_bits(out + 24 * b + 4, codes_above(xb, min[b], inverse[b], 255),
                            codes_above(xb + 16, min[b], inverse[b], 255));
        }
        redo(odd, fm_block_ref_q5_1, x, 32, out, 24);
    }
    fm_block_exact_scalar[FM_BLOCK_Q5_1](n, x, NULL, out);
}

// E2M1 codes of sixteen values over d: how many midpoints the magnitude is past, and the sign unless that is none.
static inline __m512i e2m1_codes(const float *x, float d)
{
    static const float midpoints[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};
    __m512i bits = load_bits(x), q = _mm512_setzero_si512();
    __m512 a = _mm512_castsi512_ps(absolute(bits));
    for (int i = 0; i < 7; i++)
        q = _mm512_mask_sub_epi32(q, _mm512_cmp_ps_mask(a, _mm512_set1_ps(midpoints[i] * d), _CMP_GT_OQ), q,
                                  _mm512_set1_epi32(-1));
    if (d == 0)
        return _mm512_setzero_si512(); // all codes are equally far: the first
    return _mm512_mask_or_epi32(q, _mm512_movepi32_mask(bits) & _mm512_test_epi32_mask(q, q), q, _mm512_set1_epi32(8));
}

static void encode_mxfp4(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 16; n -= 16, x += 512, out += 16 * 17) {
        __m512i v[16];
        for (int b = 0; b < 16; b++)
            v[fold_place[b]] = _mm512_max_epi32(absolute(load_bits(x + 32 * b)), absolute(load_bits(x + 32 * b + 16)));
        __m512i most = fold_max(v);
        // Just under a power of two the logarithm of the definition rounds up: left to it.
        __mmask16 odd =
            odd_magnitudes(most) |
            _mm512_cmpge_epi32_mask(_mm512_and_si512(most, _mm512_set1_epi32(0x7fffff)), _mm512_set1_epi32(0x7ffc00));
        __m512i e = _mm512_max_epi32(_mm512_sub_epi32(_mm512_srli_epi32(most, 23), _mm512_set1_epi32(2)),
                                     _mm512_setzero_si512());
        int32_t exponent[16];
        _mm512_storeu_si512(exponent, e);
        for (int b = 0; b < 16; b++) {
            float d = e8m0_half((uint8_t)exponent[b]);
            prefetch(x + 32 * b);
            out[17 * b] = (uint8_t)exponent[b];
            __m128i q = nibbles(e2m1_codes(x + 32 * b, d), e2m1_codes(x + 32 * b + 16, d));
            _mm_storeu_si128((__m128i *)(out + 17 * b + 1), q);
        }
        redo(odd, fm_block_ref_mxfp4, x, 32, out, 17);
    }
    fm_block_exact_scalar[FM_BLOCK_MXFP4](n, x, NULL, out);
}

// Four blocks, sixteen groups of sixteen.
static void encode_nvfp4(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 4; n -= 4, x += 256, out += 4 * 36) {
        __m512i v[16];
        for (int g = 0; g < 16; g++)
            v[fold_place[g]] = absolute(load_bits(x + 16 * g));
        __m512i most = fold_max(v);
        __m512 scale = _mm512_div_ps(_mm512_castsi512_ps(most), _mm512_set1_ps(6));
        // From 256 on ggml holds the scale at its greatest, and so does the definition.
        __mmask16 odd = _mm512_cmpgt_epi32_mask(most, _mm512_castps_si512(_mm512_set1_ps(1400.0f)));
        __m512i bits = _mm512_castps_si512(scale); // exponent and three bits of fraction, half up
        __m512i c = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x80000)), 20);
        c = _mm512_sub_epi32(c, _mm512_set1_epi32((127 - 7) << 3));
        __mmask16 small = _mm512_cmp_ps_mask(scale, _mm512_set1_ps(0x1p-6f), _CMP_LT_OQ); // subnormal, half up
        __m512 steps = _mm512_add_ps(_mm512_mul_ps(scale, _mm512_set1_ps(512)), _mm512_set1_ps(0.5f));
        c = _mm512_mask_min_epi32(c, small, _mm512_cvttps_epi32(steps), _mm512_set1_epi32(7));
        uint8_t code[16];
        _mm_storeu_si128((__m128i *)code, _mm512_cvtepi32_epi8(c));
        for (int g = 0; g < 16; g++) {
            float d = ue4m3_half(code[g]);
            __m512i q = e2m1_codes(x + 16 * g, d); // low eight with high eight: lanes 8 to 15 move down
            __m128i bytes = nibbles(q, _mm512_shuffle_i32x4(q, q, 0xee));
            out[36 * (g / 4) + g % 4] = code[g];
            _mm_storel_epi64((__m128i *)(out + 36 * (g / 4) + 4 + 8 * (g % 4)), bytes);
        }
        unsigned blocks = 0;
        for (int b = 0; b < 4; b++)
            blocks |= (unsigned)((odd >> 4 * b & 15) != 0) << b;
        redo(blocks, fm_block_ref_nvfp4, x, 64, out, 36);
    }
    fm_block_exact_scalar[FM_BLOCK_NVFP4](n, x, NULL, out);
}

static void encode_f16(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 16; n -= 16, x += 16, out += 32) {
        __m512 v = _mm512_loadu_ps(x);
        __m256i h = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
        __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
        if (nan) // one NaN for all payloads, sign kept
            h = _mm256_mask_mov_epi16(
                h, nan,
                _mm256_or_si256(_mm256_and_si256(h, _mm256_set1_epi16((short)0x8000)), _mm256_set1_epi16(0x7e00)));
        _mm256_storeu_si256((__m256i *)out, h);
    }
    fm_block_exact_scalar[FM_BLOCK_F16](n, x, NULL, out);
}

// bf16 is at memory speed with AVX2 already.
fm_block_encoder *const fm_block_exact_avx512[FM_BLOCK_N] = {
    [FM_BLOCK_F16] = encode_f16,     [FM_BLOCK_Q8_0] = encode_q8_0,   [FM_BLOCK_Q4_0] = encode_q4_0,
    [FM_BLOCK_Q4_1] = encode_q4_1,   [FM_BLOCK_Q5_0] = encode_q5_0,   [FM_BLOCK_Q5_1] = encode_q5_1,
    [FM_BLOCK_MXFP4] = encode_mxfp4, [FM_BLOCK_NVFP4] = encode_nvfp4,
};

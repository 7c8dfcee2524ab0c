// The exact formats eight blocks at a time: one vector of maxima, one division for all eight scales, then the codes
// block by block. A block that the short cuts would get wrong (NaN, infinity, scales whose inverse overflows, zeros
// whose sign matters, a largest magnitude of both signs) is done again by its definition.
#include <immintrin.h>
#include "quantize/blocks/exact_ref.h"
#include "quantize/blocks/half.h"

// Which block's vector goes where so that the fold leaves block p's result in lane p.
static const uint8_t fold_place[8] = {0, 2, 1, 3, 4, 6, 5, 7};

// Folds each of eight vectors to one value by `op`, all at once: halves, pairs, singles.
#define FOLD_STEP(op, count, low, high) \
    for (int i = 0; i < (count); i++)   \
        v[i] = op(low(v[i], v[i + (count)]), high(v[i], v[i + (count)]));
#define HALVES_LOW(a, b) _mm256_permute2x128_si256(a, b, 0x20)
#define HALVES_HIGH(a, b) _mm256_permute2x128_si256(a, b, 0x31)
#define SHUFFLE_PS(a, b, k) _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), k))
#define SINGLES_LOW(a, b) SHUFFLE_PS(a, b, 0x88)
#define SINGLES_HIGH(a, b) SHUFFLE_PS(a, b, 0xdd)
#define FOLD8(name, op)                                                \
    static inline __m256i name(__m256i v[8])                           \
    {                                                                  \
        FOLD_STEP(op, 4, HALVES_LOW, HALVES_HIGH)                      \
        FOLD_STEP(op, 2, _mm256_unpacklo_epi64, _mm256_unpackhi_epi64) \
        FOLD_STEP(op, 1, SINGLES_LOW, SINGLES_HIGH)                    \
        return v[0];                                                   \
    }
FOLD8(fold_max, _mm256_max_epi32)
FOLD8(fold_max_unsigned, _mm256_max_epu32)
FOLD8(fold_min, _mm256_min_epi32)

static inline __m256i load_bits(const float *x)
{
    return _mm256_loadu_si256((const __m256i *)x);
}
static inline __m256i absolute(__m256i bits)
{
    return _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
}
static inline unsigned mask_of(__m256i m)
{
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(m));
}

// Asks for the block that the loop will want some rounds from now: the hardware stops at page ends. It may lie past the
// array, so it is an address and not a pointer.
static inline void prefetch(const float *block)
{
    uintptr_t at = (uintptr_t)block + 4096;
    _mm_prefetch((const char *)at, _MM_HINT_T0);
    _mm_prefetch((const char *)(at + 64), _MM_HINT_T0);
}

// Magnitudes, as bits, outside the range in which a scale and its inverse are ordinary numbers; 0 is inside.
static inline unsigned odd_magnitudes(__m256i bits)
{
    __m256i low = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x0b800000), bits); // 2^-104
    __m256i zero = _mm256_cmpeq_epi32(bits, _mm256_setzero_si256());
    __m256i high = _mm256_cmpgt_epi32(bits, _mm256_set1_epi32(0x7f7fffff));
    return mask_of(_mm256_or_si256(_mm256_andnot_si256(zero, low), high));
}

typedef void reference(const float *x, uint8_t *bytes);

static inline void redo(unsigned odd, reference *ref, const float *x, size_t elems, uint8_t *out, size_t bytes)
{
    for (; odd; odd &= odd - 1) {
        size_t b = (size_t)__builtin_ctz(odd);
        ref(x + elems * b, out + bytes * b);
    }
}

static inline __m256 inverse_of(__m256 d)
{
    __m256 some = _mm256_cmp_ps(d, _mm256_setzero_ps(), _CMP_NEQ_OQ);
    return _mm256_and_ps(some, _mm256_div_ps(_mm256_set1_ps(1), d));
}

static inline void store_halves(uint16_t out[8], __m256 d)
{
    _mm_storeu_si128((__m128i *)out, _mm256_cvtps_ph(d, _MM_FROUND_TO_NEAREST_INT));
}

#define OVER_FOUR(op, of, x) /* one vector for a block of 32 */ \
    op(op(of(load_bits(x)), of(load_bits((x) + 8))), op(of(load_bits((x) + 16)), of(load_bits((x) + 24))))
#define AS_IS(v) (v)

static inline __m256i magnitudes(const float *x)
{
    __m256i v[8];
    for (int b = 0; b < 8; b++)
        v[fold_place[b]] = OVER_FOUR(_mm256_max_epi32, absolute, x + 32 * b);
    return fold_max(v);
}

// Four vectors of eight whole numbers to thirty-two bytes, in order.
static inline __m256i bytes32(__m256i a, __m256i b, __m256i c, __m256i d)
{
    __m256i q = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    return _mm256_permutevar8x32_epi32(q, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// x * inverse, half away from zero: add a little under half towards the outside, cut.
static inline __m256i rounded(const float *x, __m256 inverse)
{
    __m256 y = _mm256_mul_ps(_mm256_loadu_ps(x), inverse), sign = _mm256_set1_ps(-0.0f);
    __m256 nudge = _mm256_or_ps(_mm256_and_ps(y, sign), _mm256_set1_ps(0x1.fffffep-2f));
    return _mm256_cvttps_epi32(_mm256_add_ps(y, nudge));
}

static void encode_q8_0(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 8; n -= 8, x += 256, out += 8 * 34) {
        __m256i most = magnitudes(x);
        __m256 d = _mm256_div_ps(_mm256_castsi256_ps(most), _mm256_set1_ps(127));
        float inverse[8];
        uint16_t half[8];
        _mm256_storeu_ps(inverse, inverse_of(d));
        store_halves(half, d);
        for (int b = 0; b < 8; b++) {
            const float *xb = x + 32 * b;
            __m256 k = _mm256_set1_ps(inverse[b]);
            prefetch(xb);
            memcpy(out + 34 * b, &half[b], 2);
            __m256i q = bytes32(rounded(xb, k), rounded(xb + 8, k), rounded(xb + 16, k), rounded(xb + 24, k));
            _mm256_storeu_si256((__m256i *)(out + 34 * b + 2), q);
        }
        redo(odd_magnitudes(most), fm_block_ref_q8_0, x, 32, out, 34);
    }
    fm_block_exact_scalar[FM_BLOCK_Q8_0](n, x, NULL, out);
}

// The value of greatest magnitude of each of eight blocks, with its sign. *odd: blocks left to the definition: NaN,
// infinity, too small a scale.
static inline __m256 extremes(const float *x, unsigned *odd)
{
    __m256i v[8], u[8], zero = _mm256_setzero_si256();
    for (int b = 0; b < 8; b++) {
        v[fold_place[b]] = OVER_FOUR(_mm256_max_epi32, AS_IS, x + 32 * b); // positive floats as signed integers
        u[fold_place[b]] = OVER_FOUR(_mm256_max_epu32, AS_IS, x + 32 * b); // negative ones, by magnitude, as unsigned
    }
    __m256i positive = _mm256_max_epi32(fold_max(v), zero), top = fold_max_unsigned(u);
    __m256i negative = _mm256_and_si256(_mm256_srai_epi32(top, 31), absolute(top));
    __m256i most = _mm256_max_epi32(positive, negative);
    __m256i minus = _mm256_and_si256(_mm256_cmpgt_epi32(negative, positive), _mm256_set1_epi32((int)0x80000000));
    *odd = odd_magnitudes(most);
    __m256i tied = _mm256_andnot_si256(_mm256_cmpeq_epi32(most, zero), _mm256_cmpeq_epi32(positive, negative));
    unsigned both = mask_of(tied) & ~*odd;
    __m256i value = _mm256_or_si256(most, minus);
    if (both) { // +value and -value: the first to come
        float f[8];
        _mm256_storeu_ps(f, _mm256_castsi256_ps(value));
        for (; both; both &= both - 1) {
            int b = __builtin_ctz(both), j = 0;
            while ((bits_of(x[32 * b + j]) & 0x7fffffff) != bits_of(f[b]))
                j++;
            f[b] = x[32 * b + j];
        }
        return _mm256_loadu_ps(f);
    }
    return _mm256_castsi256_ps(value);
}

// trunc((x - min) * inverse + bias): never negative for blocks that are not odd. `subtract`: the format has a minimum.
static inline __attribute__((always_inline)) __m256i codes_of(const float *x, bool subtract, __m256 min, __m256 inverse,
                                                              __m256 bias)
{
    __m256 v = _mm256_loadu_ps(x);
    v = _mm256_mul_ps(subtract ? _mm256_sub_ps(v, min) : v, inverse);
    return _mm256_cvttps_epi32(_mm256_add_ps(v, bias));
}

static inline __attribute__((always_inline)) __m256i codes32(const float *x, bool subtract, float min, float inverse,
                                                             float bias, char top)
{
    __m256 m = _mm256_set1_ps(min), k = _mm256_set1_ps(inverse), b = _mm256_set1_ps(bias);
    __m256i q = bytes32(codes_of(x, subtract, m, k, b), codes_of(x + 8, subtract, m, k, b),
                        codes_of(x + 16, subtract, m, k, b), codes_of(x + 24, subtract, m, k, b));
    return _mm256_min_epu8(q, _mm256_set1_epi8(top));
}

// Thirty-two codes: value j in the low nibble of byte j, value j + 16 in the high one.
static inline void store_nibbles(uint8_t *out, __m256i q)
{
    q = _mm256_and_si256(q, _mm256_set1_epi8(15));
    __m128i high = _mm_slli_epi16(_mm256_extracti128_si256(q, 1), 4); // codes of four bits: nothing crosses bytes
    _mm_storeu_si128((__m128i *)out, _mm_or_si128(_mm256_castsi256_si128(q), high));
}

static inline void store_fives(uint8_t *qh, __m256i q)
{
    uint32_t top = (uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(q, 3)); // bit 4 becomes bit 7
    memcpy(qh, &top, 4);
    store_nibbles(qh + 4, q);
}

static void encode_q4_0(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 8; n -= 8, x += 256, out += 8 * 18) {
        unsigned odd;
        float inverse[8];
        uint16_t half[8];
        __m256 d = _mm256_div_ps(extremes(x, &odd), _mm256_set1_ps(-8));
        _mm256_storeu_ps(inverse, inverse_of(d));
        store_halves(half, d);
        for (int b = 0; b < 8; b++) {
            prefetch(x + 32 * b);
            memcpy(out + 18 * b, &half[b], 2);
            store_nibbles(out + 18 * b + 2, codes32(x + 32 * b, false, 0, inverse[b], 8.5f, 15));
        }
        redo(odd, fm_block_ref_q4_0, x, 32, out, 18);
    }
    fm_block_exact_scalar[FM_BLOCK_Q4_0](n, x, NULL, out);
}

static void encode_q5_0(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 8; n -= 8, x += 256, out += 8 * 22) {
        unsigned odd;
        float inverse[8];
        uint16_t half[8];
        __m256 d = _mm256_div_ps(extremes(x, &odd), _mm256_set1_ps(-16));
        _mm256_storeu_ps(inverse, inverse_of(d));
        store_halves(half, d);
        for (int b = 0; b < 8; b++) {
            prefetch(x + 32 * b);
            memcpy(out + 22 * b, &half[b], 2);
            store_fives(out + 22 * b + 2, codes32(x + 32 * b, false, 0, inverse[b], 16.5f, 31));
        }
        redo(odd, fm_block_ref_q5_0, x, 32, out, 22);
    }
    fm_block_exact_scalar[FM_BLOCK_Q5_0](n, x, NULL, out);
}

// Floats as integers of the same order, -0 just under +0; its own inverse.
static inline __m256i ordered(__m256i bits)
{
    return _mm256_xor_si256(bits, _mm256_srli_epi32(_mm256_srai_epi32(bits, 31), 1));
}

// Scales of eight blocks of (max - min) / levels, and the minimums.
static inline unsigned ranges(const float *x, float levels, float inverse[8], float min[8], uint16_t d_half[8],
                              uint16_t m_half[8])
{
    __m256i v[8], u[8];
    for (int b = 0; b < 8; b++) {
        v[fold_place[b]] = OVER_FOUR(_mm256_max_epi32, ordered, x + 32 * b);
        u[fold_place[b]] = OVER_FOUR(_mm256_min_epi32, ordered, x + 32 * b);
    }
    __m256i most = ordered(fold_max(v)), least = ordered(fold_min(u)), finite = _mm256_set1_epi32(0x7f7fffff);
    __m256i zero = _mm256_cmpeq_epi32(absolute(least), _mm256_setzero_si256()); // whose sign?
    __m256i high =
        _mm256_or_si256(_mm256_cmpgt_epi32(absolute(most), finite), _mm256_cmpgt_epi32(absolute(least), finite));
    __m256 floor = _mm256_castsi256_ps(least);
    __m256 d = _mm256_div_ps(_mm256_sub_ps(_mm256_castsi256_ps(most), floor), _mm256_set1_ps(levels));
    _mm256_storeu_ps(inverse, inverse_of(d));
    _mm256_storeu_ps(min, floor);
    store_halves(d_half, d);
    store_halves(m_half, floor);
    return mask_of(_mm256_or_si256(zero, high)) | odd_magnitudes(_mm256_castps_si256(d));
}

static void encode_q4_1(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 8; n -= 8, x += 256, out += 8 * 20) {
        float inverse[8], min[8];
        uint16_t d[8], m[8];
        unsigned odd = ranges(x, 15, inverse, min, d, m);
        for (int b = 0; b < 8; b++) {
            prefetch(x + 32 * b);
            memcpy(out + 20 * b, &d[b], 2);
            memcpy(out + 20 * b + 2, &m[b], 2);
            store_nibbles(out + 20 * b + 4, codes32(x + 32 * b, true, min[b], inverse[b], 0.5f, 15));
        }
        redo(odd, fm_block_ref_q4_1, x, 32, out, 20);
    }
    fm_block_exact_scalar[FM_BLOCK_Q4_1](n, x, NULL, out);
}

static void encode_q5_1(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 8; n -= 8, x += 256, out += 8 * 24) {
        float inverse[8], min[8];
        uint16_t d[8], m[8];
        unsigned odd = ranges(x, 31, inverse, min, d, m);
        for (int b = 0; b < 8; b++) {
            prefetch(x + 32 * b);
            memcpy(out + 24 * b, &d[b], 2);
            memcpy(out + 24 * b + 2, &m[b], 2);
            store_fives(out + 24 * b + 4, codes32(x + 32 * b, true, min[b], inverse[b], 0.5f, 31));
        }
        redo(odd, fm_block_ref_q5_1, x, 32, out, 24);
    }
    fm_block_exact_scalar[FM_BLOCK_Q5_1](n, x, NULL, out);
}

// E2M1 codes of eight values over d: how many midpoints the magnitude is past, and the sign unless that is none.
static inline __m256i e2m1_codes(const float *x, float d)
{
    static const float midpoints[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};
    __m256i bits = load_bits(x), q = _mm256_setzero_si256();
    __m256 a = _mm256_castsi256_ps(absolute(bits));
    for (int i = 0; i < 7; i++) {
        __m256 past = _mm256_cmp_ps(a, _mm256_set1_ps(midpoints[i] * d), _CMP_GT_OQ);
        q = _mm256_sub_epi32(q, _mm256_castps_si256(past));
    }
    __m256i none = _mm256_cmpeq_epi32(q, _mm256_setzero_si256());
    __m256i sign = _mm256_and_si256(_mm256_srai_epi32(bits, 31), _mm256_set1_epi32(8));
    return _mm256_or_si256(q, _mm256_andnot_si256(none, sign));
}

static void encode_mxfp4(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 8; n -= 8, x += 256, out += 8 * 17) {
        __m256i most = magnitudes(x);
        // Just under a power of two the logarithm of the definition rounds up: left to it.
        unsigned odd =
            odd_magnitudes(most) | mask_of(_mm256_cmpgt_epi32(_mm256_and_si256(most, _mm256_set1_epi32(0x7fffff)),
                                                              _mm256_set1_epi32(0x7ffbff)));
        __m256i e = _mm256_max_epi32(_mm256_sub_epi32(_mm256_srli_epi32(most, 23), _mm256_set1_epi32(2)),
                                     _mm256_setzero_si256());
        int32_t exponent[8];
        _mm256_storeu_si256((__m256i *)exponent, e);
        for (int b = 0; b < 8; b++) {
            const float *xb = x + 32 * b;
            float d = e8m0_half((uint8_t)exponent[b]);
            prefetch(xb);
            out[17 * b] = (uint8_t)exponent[b];
            store_nibbles(out + 17 * b + 1, bytes32(e2m1_codes(xb, d), e2m1_codes(xb + 8, d), e2m1_codes(xb + 16, d),
                                                    e2m1_codes(xb + 24, d)));
        }
        redo(odd, fm_block_ref_mxfp4, x, 32, out, 17);
    }
    fm_block_exact_scalar[FM_BLOCK_MXFP4](n, x, NULL, out);
}

// Two blocks, eight groups of sixteen.
static void encode_nvfp4(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 2; n -= 2, x += 128, out += 2 * 36) {
        __m256i v[8];
        for (int g = 0; g < 8; g++)
            v[fold_place[g]] = _mm256_max_epi32(absolute(load_bits(x + 16 * g)), absolute(load_bits(x + 16 * g + 8)));
        __m256i most = fold_max(v);
        __m256 scale = _mm256_div_ps(_mm256_castsi256_ps(most), _mm256_set1_ps(6));
        // From 256 on ggml holds the scale at its greatest, and so does the definition.
        unsigned odd = mask_of(_mm256_cmpgt_epi32(most, _mm256_castps_si256(_mm256_set1_ps(1400.0f))));
        __m256i c = _mm256_add_epi32(_mm256_castps_si256(scale), _mm256_set1_epi32(0x80000)); // half up
        c = _mm256_sub_epi32(_mm256_srli_epi32(c, 20), _mm256_set1_epi32((127 - 7) << 3));
        __m256 steps = _mm256_add_ps(_mm256_mul_ps(scale, _mm256_set1_ps(512)), _mm256_set1_ps(0.5f));
        __m256i subnormal = _mm256_min_epi32(_mm256_cvttps_epi32(steps), _mm256_set1_epi32(7));
        __m256 small = _mm256_cmp_ps(scale, _mm256_set1_ps(0x1p-6f), _CMP_LT_OQ);
        c = _mm256_blendv_epi8(c, subnormal, _mm256_castps_si256(small));
        int32_t code[8];
        _mm256_storeu_si256((__m256i *)code, c);
        for (int g = 0; g < 8; g++) {
            float d = ue4m3_half((uint8_t)code[g]);
            uint8_t *block = out + 36 * (g / 4);
            __m256i zero = _mm256_setzero_si256();
            __m256i low = d != 0 ? e2m1_codes(x + 16 * g, d) : zero,
                    high = d != 0 ? e2m1_codes(x + 16 * g + 8, d) : zero;
            __m256i q = _mm256_packs_epi32(_mm256_or_si256(low, _mm256_slli_epi32(high, 4)), zero);
            q = _mm256_packus_epi16(q, zero); // four bytes at the bottom of each half
            uint32_t first = (uint32_t)_mm256_extract_epi32(q, 0), second = (uint32_t)_mm256_extract_epi32(q, 4);
            block[g % 4] = (uint8_t)code[g];
            write_u32(block + 4 + 8 * (g % 4), first);
            write_u32(block + 8 + 8 * (g % 4), second);
        }
        redo((odd & 15 ? 1 : 0) | (odd >> 4 ? 2 : 0), fm_block_ref_nvfp4, x, 64, out, 36);
    }
    fm_block_exact_scalar[FM_BLOCK_NVFP4](n, x, NULL, out);
}

static void encode_f16(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 8; n -= 8, x += 8, out += 16) {
        __m256 v = _mm256_loadu_ps(x);
        if (_mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q))) // one NaN for all payloads
            fm_block_exact_scalar[FM_BLOCK_F16](8, x, NULL, out);
        else
            _mm_storeu_si128((__m128i *)out, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    }
    fm_block_exact_scalar[FM_BLOCK_F16](n, x, NULL, out);
}

static inline __m256i bf16_of(const float *x)
{
    __m256i u = load_bits(x), last = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_cmpgt_epi32(absolute(u), _mm256_set1_epi32(0x7f800000));
    r = _mm256_blendv_epi8(r, _mm256_or_si256(u, _mm256_set1_epi32(0x400000)), nan);
    return _mm256_srli_epi32(r, 16);
}

static void encode_bf16(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (; n >= 16; n -= 16, x += 16, out += 32) {
        __m256i r = _mm256_packus_epi32(bf16_of(x), bf16_of(x + 8)); // quarters come out 0 2 1 3
        _mm256_storeu_si256((__m256i *)out, _mm256_permute4x64_epi64(r, 0xd8));
    }
    fm_block_exact_scalar[FM_BLOCK_BF16](n, x, NULL, out);
}

fm_block_encoder *const fm_block_exact_avx2[FM_BLOCK_N] = {
    [FM_BLOCK_F16] = encode_f16,   [FM_BLOCK_BF16] = encode_bf16,   [FM_BLOCK_Q8_0] = encode_q8_0,
    [FM_BLOCK_Q4_0] = encode_q4_0, [FM_BLOCK_Q4_1] = encode_q4_1,   [FM_BLOCK_Q5_0] = encode_q5_0,
    [FM_BLOCK_Q5_1] = encode_q5_1, [FM_BLOCK_MXFP4] = encode_mxfp4, [FM_BLOCK_NVFP4] = encode_nvfp4,
};

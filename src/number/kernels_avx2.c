// Built with -mavx2 -mf16c, alone: nothing here may run before the table has asked the CPU.
#include <immintrin.h>

#include "number/loops.h"

// Elements to do singly until `out` is a multiple of `bytes`: non-temporal stores need aligned addresses.
static size_t head(const void *out, size_t element_bytes, size_t bytes, size_t n, bool past_cache)
{
    size_t past = (uintptr_t)out % bytes;
    size_t elements = past_cache && past ? (bytes - past) / element_bytes : 0;
    return elements < n ? elements : n;
}

static inline void put(void *out, __m256i v, bool past_cache)
{
    if (past_cache)
        _mm256_stream_si256((__m256i *)out, v);
    else
        _mm256_storeu_si256((__m256i *)out, v);
}

static void finish_stores(void)
{
    _mm_sfence();
}

static inline __m256i load8(const float *x)
{
    return _mm256_loadu_si256((const __m256i *)x);
}

static inline __m128i f16_of8(__m256i u, bool saturate)
{
    if (saturate) {
        const __m256i all = _mm256_set1_epi32(FM_MAGNITUDE);
        __m256i magnitude = _mm256_and_si256(u, all);
        __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(FM_INF_BITS));
        __m256i cut = _mm256_min_epu32(magnitude, _mm256_set1_epi32(0x477fe000)); // 65504
        u = _mm256_blendv_epi8(_mm256_or_si256(cut, _mm256_andnot_si256(all, u)), u, is_nan);
    }
    return _mm256_cvtps_ph(_mm256_castsi256_ps(u), _MM_FROUND_TO_NEAREST_INT);
}

static inline __attribute__((always_inline)) size_t f16_body(size_t n, const float *x, uint16_t *out, bool saturate,
                                                             bool past_cache)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i low = f16_of8(load8(x + i), saturate), high = f16_of8(load8(x + i + 8), saturate);
        put(out + i, _mm256_set_m128i(high, low), past_cache);
    }
    return i;
}

static void f16_from_f32(size_t n, const float *x, uint16_t *out, bool saturate, bool past_cache)
{
    size_t i = head(out, sizeof *out, 32, n, past_cache);
    loop_f16_from_f32(i, x, out, saturate);
    if (saturate)
        i += past_cache ? f16_body(n - i, x + i, out + i, true, true) : f16_body(n - i, x + i, out + i, true, false);
    else
        i += past_cache ? f16_body(n - i, x + i, out + i, false, true) : f16_body(n - i, x + i, out + i, false, false);
    loop_f16_from_f32(n - i, x + i, out + i, saturate);
}

static inline __m256i bf16_of8(__m256i u, bool saturate) // codes in the low halves
{
    __m256i magnitude = _mm256_and_si256(u, _mm256_set1_epi32(FM_MAGNITUDE));
    __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(FM_INF_BITS));
    __m256i upper = _mm256_srli_epi32(u, 16), odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x0040));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    if (saturate) {
        __m256i infinite = _mm256_cmpeq_epi32(_mm256_and_si256(rounded, _mm256_set1_epi32(FM_MAGNITUDE >> 16)),
                                              _mm256_set1_epi32(FM_INF_BITS >> 16));
        rounded = _mm256_add_epi32(rounded, infinite);
    }
    return _mm256_blendv_epi8(rounded, quiet, is_nan);
}

static inline __attribute__((always_inline)) size_t bf16_body(size_t n, const float *x, uint16_t *out, bool saturate,
                                                              bool past_cache)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i low = bf16_of8(load8(x + i), saturate), high = bf16_of8(load8(x + i + 8), saturate);
        __m256i packed = _mm256_packus_epi32(low, high); // lanes come out 0 2 1 3
        put(out + i, _mm256_permute4x64_epi64(packed, 0xd8), past_cache);
    }
    return i;
}

static void bf16_from_f32(size_t n, const float *x, uint16_t *out, bool saturate, bool past_cache)
{
    size_t i = head(out, sizeof *out, 32, n, past_cache);
    loop_bf16_from_f32(i, x, out, saturate);
    if (saturate)
        i += past_cache ? bf16_body(n - i, x + i, out + i, true, true) : bf16_body(n - i, x + i, out + i, true, false);
    else
        i +=
            past_cache ? bf16_body(n - i, x + i, out + i, false, true) : bf16_body(n - i, x + i, out + i, false, false);
    loop_bf16_from_f32(n - i, x + i, out + i, saturate);
}

// fm_small spread over registers.
typedef struct {
    __m256i clamp, min_exponent, above_fraction, nan_code, sign_code;
    __m128i exponent_shift, sign_shift;
} small8;

static inline small8 small8_of(const fm_small *s)
{
    return (small8){
        .clamp = _mm256_set1_epi32((int)s->clamp),
        .min_exponent = _mm256_set1_epi32((int)(s->min_exponent << 23)),
        .above_fraction = _mm256_set1_epi32((int)((23 - s->fraction_bits) << 23)),
        .nan_code = _mm256_set1_epi32((int)s->nan_code),
        .sign_code = _mm256_set1_epi32((int)s->sign_code),
        .exponent_shift = _mm_cvtsi32_si128((int)(23 - s->fraction_bits)),
        .sign_shift = _mm_cvtsi32_si128((int)s->sign_shift),
    };
}

// Rounding by addition: with M = 2^(e + 23 - fraction_bits), e the exponent of the grid at x, the sum |x| + M has its
// last bit at the grid's step, so the adder rounds to nearest even and (bits of the sum) - (bits of M) is the rounded
// significand. Below the smallest normal value e stays there, which is what makes the grid of subnormals.
static inline __attribute__((always_inline)) __m256i small_of8(const small8 *s, __m256i u, bool no_neg_zero)
{
    __m256i magnitude = _mm256_and_si256(u, _mm256_set1_epi32(FM_MAGNITUDE));
    __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(FM_INF_BITS));
    __m256i sign = _mm256_and_si256(_mm256_srl_epi32(u, s->sign_shift), s->sign_code);
    magnitude = _mm256_min_epu32(magnitude, s->clamp);
    __m256i grid = _mm256_max_epi32(_mm256_and_si256(magnitude, _mm256_set1_epi32(FM_INF_BITS)), s->min_exponent);
    __m256i m = _mm256_add_epi32(grid, s->above_fraction);
    __m256i sum = _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(magnitude), _mm256_castsi256_ps(m)));
    __m256i exponent = _mm256_srl_epi32(_mm256_sub_epi32(grid, s->min_exponent), s->exponent_shift);
    __m256i code = _mm256_add_epi32(_mm256_sub_epi32(sum, m), exponent);
    code = _mm256_blendv_epi8(code, s->nan_code, is_nan);
    if (no_neg_zero) {
        __m256i no_digits = _mm256_cmpeq_epi32(_mm256_and_si256(code, _mm256_set1_epi32(0x7f)), _mm256_setzero_si256());
        sign = _mm256_andnot_si256(no_digits, sign);
    }
    return _mm256_xor_si256(code, sign);
}

static inline __attribute__((always_inline)) size_t small_body(const fm_small *from, size_t n, const float *x,
                                                               uint8_t *out, bool no_neg_zero, bool past_cache)
{
    const small8 s = small8_of(from);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); // undoes the lanes of the two packs
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i a = small_of8(&s, load8(x + i), no_neg_zero), b = small_of8(&s, load8(x + i + 8), no_neg_zero);
        __m256i c = small_of8(&s, load8(x + i + 16), no_neg_zero), d = small_of8(&s, load8(x + i + 24), no_neg_zero);
        __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
        put(out + i, _mm256_permutevar8x32_epi32(bytes, order), past_cache);
    }
    return i;
}

static void small_from_f32(const fm_small *s, size_t n, const float *x, uint8_t *out, bool past_cache)
{
    size_t i = head(out, sizeof *out, 32, n, past_cache);
    loop_small_from_f32(s, i, x, out);
    if (s->no_neg_zero)
        i += past_cache ? small_body(s, n - i, x + i, out + i, true, true)
                        : small_body(s, n - i, x + i, out + i, true, false);
    else
        i += past_cache ? small_body(s, n - i, x + i, out + i, false, true)
                        : small_body(s, n - i, x + i, out + i, false, false);
    loop_small_from_f32(s, n - i, x + i, out + i);
}

static void f32_from_f16(size_t n, const uint16_t *codes, float *x, bool past_cache)
{
    size_t i = head(x, sizeof *x, 32, n, past_cache);
    loop_f32_from_f16(i, codes, x);
    for (; i + 16 <= n; i += 16) {
        __m256 low = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(codes + i)));
        __m256 high = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(codes + i + 8)));
        put(x + i, _mm256_castps_si256(low), past_cache);
        put(x + i + 8, _mm256_castps_si256(high), past_cache);
    }
    loop_f32_from_f16(n - i, codes + i, x + i);
}

static void f32_from_bf16(size_t n, const uint16_t *codes, float *x, bool past_cache)
{
    size_t i = head(x, sizeof *x, 32, n, past_cache);
    loop_f32_from_bf16(i, codes, x);
    for (; i + 16 <= n; i += 16) {
        __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(codes + i)));
        __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(codes + i + 8)));
        put(x + i, _mm256_slli_epi32(low, 16), past_cache);
        put(x + i + 8, _mm256_slli_epi32(high, 16), past_cache);
    }
    loop_f32_from_bf16(n - i, codes + i, x + i);
}

static inline __m256i decode_small8(const fm_small *s, __m256i code)
{
    __m256i sign_code = _mm256_set1_epi32((int)s->sign_code);
    __m256i magnitude = _mm256_and_si256(code, _mm256_set1_epi32((int)s->sign_code - 1));
    __m256i sign = _mm256_sll_epi32(_mm256_and_si256(code, sign_code), _mm_cvtsi32_si128((int)s->sign_shift));
    __m256i normal = _mm256_add_epi32(_mm256_sll_epi32(magnitude, _mm_cvtsi32_si128(23 - (int)s->fraction_bits)),
                                      _mm256_set1_epi32((int)((s->min_exponent - 1) << 23)));
    __m256i subnormal =
        _mm256_castps_si256(_mm256_mul_ps(_mm256_cvtepi32_ps(magnitude), _mm256_set1_ps(s->subnormal_step)));
    __m256i is_normal = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32((1 << s->fraction_bits) - 1));
    __m256i value = _mm256_blendv_epi8(subnormal, normal, is_normal);
    __m256i special = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32((int)s->special - 1));
    __m256i nan = _mm256_or_si256(_mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32((int)s->nan_above)),
                                  _mm256_cmpeq_epi32(code, _mm256_set1_epi32((int)s->lone_nan)));
    value = _mm256_or_si256(value, _mm256_and_si256(special, _mm256_set1_epi32(FM_INF_BITS)));
    value = _mm256_or_si256(value, _mm256_and_si256(nan, _mm256_set1_epi32(0x7fc00000)));
    return _mm256_or_si256(value, sign);
}

// By way of fp16, for the formats whose magnitudes, moved to fp16's fraction, are finite there (or, E5M2, mean the same):
// the exponent's bias is then a factor of two to some power, and subnormals stay subnormals. 16 codes at a time.
static size_t small_by_f16(const fm_small *s, size_t n, const uint8_t *codes, float *x, bool past_cache)
{
    const int up = 10 - (int)s->fraction_bits;
    const __m128i shift = _mm_cvtsi32_si128(up), sign_shift = _mm_cvtsi32_si128((int)s->sign_shift - 16);
    const __m256 scale = _mm256_set1_ps(fm_f32_of_bits((s->min_exponent + 14) << 23)); // 2^(15 - bias)
    const __m256i mask = _mm256_set1_epi16((short)(2 * s->sign_code - 1)),
                  sign_code = _mm256_set1_epi16((short)s->sign_code);
    const __m256i nan_above = _mm256_set1_epi16((short)s->nan_above), lone_nan = _mm256_set1_epi16((short)s->lone_nan);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i code = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(codes + i)));
        code = _mm256_and_si256(code, mask);
        __m256i sign = _mm256_and_si256(code, sign_code), magnitude = _mm256_xor_si256(code, sign);
        __m256i nan = _mm256_or_si256(_mm256_cmpgt_epi16(magnitude, nan_above), _mm256_cmpeq_epi16(code, lone_nan));
        __m256i half = _mm256_or_si256(_mm256_sll_epi16(magnitude, shift), _mm256_sll_epi16(sign, sign_shift));
        half = _mm256_or_si256(half, _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
        __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(half));
        __m256 high = _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
        put(x + i, _mm256_castps_si256(_mm256_mul_ps(low, scale)), past_cache);
        put(x + i + 8, _mm256_castps_si256(_mm256_mul_ps(high, scale)), past_cache);
    }
    return i;
}

static size_t small_directly(const fm_small *s, size_t n, const uint8_t *codes, float *x, bool past_cache)
{
    const fm_small local = *s; // the stores could not change it: lets the constants stay in registers
    const __m256i mask = _mm256_set1_epi32(2 * (int)s->sign_code - 1);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(codes + i));
        __m256i low = _mm256_and_si256(_mm256_cvtepu8_epi32(bytes), mask);
        __m256i high = _mm256_and_si256(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)), mask);
        put(x + i, decode_small8(&local, low), past_cache);
        put(x + i + 8, decode_small8(&local, high), past_cache);
    }
    return i;
}

static void f32_from_small(const fm_small *s, size_t n, const uint8_t *codes, float *x, bool past_cache)
{
    bool fits_f16 = s->special != 0x100 || (s->sign_code - 1) << (10 - s->fraction_bits) < 0x7c00;
    size_t i = head(x, sizeof *x, 32, n, past_cache);
    loop_f32_from_small(s, i, codes, x);
    i += fits_f16 ? small_by_f16(s, n - i, codes + i, x + i, past_cache)
                  : small_directly(s, n - i, codes + i, x + i, past_cache);
    loop_f32_from_small(s, n - i, codes + i, x + i);
}

// Both halves of the products of eight 32-bit words with one constant.
static inline void multiply8(__m256i a, uint32_t constant, __m256i *high, __m256i *low)
{
    __m256i k = _mm256_set1_epi32((int)constant);
    __m256i even = _mm256_mul_epu32(a, k), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), k);
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

// Eight blocks side by side, lane j block first + j, to 32 words in order.
static inline void random_32(uint64_t seed, __m256i low_ids, uint32_t high_id, uint32_t *out)
{
    __m256i a = low_ids, b = _mm256_set1_epi32((int)high_id), c = _mm256_setzero_si256(), d = c;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        __m256i p_high, p_low, q_high, q_low;
        multiply8(a, FM_PHILOX_M0, &p_high, &p_low);
        multiply8(c, FM_PHILOX_M1, &q_high, &q_low);
        a = _mm256_xor_si256(_mm256_xor_si256(q_high, b), _mm256_set1_epi32((int)k0));
        c = _mm256_xor_si256(_mm256_xor_si256(p_high, d), _mm256_set1_epi32((int)k1));
        b = q_low;
        d = p_low;
        k0 += FM_PHILOX_W0;
        k1 += FM_PHILOX_W1;
    }
    // The four words of a block lie in four registers: transpose 4 x 8.
    __m256i ab_low = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
    __m256i cd_low = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
    __m256i r04 = _mm256_unpacklo_epi64(ab_low, cd_low), r15 = _mm256_unpackhi_epi64(ab_low, cd_low);
    __m256i r26 = _mm256_unpacklo_epi64(ab_high, cd_high), r37 = _mm256_unpackhi_epi64(ab_high, cd_high);
    put(out, _mm256_permute2x128_si256(r04, r15, 0x20), false);
    put(out + 8, _mm256_permute2x128_si256(r26, r37, 0x20), false);
    put(out + 16, _mm256_permute2x128_si256(r04, r15, 0x31), false);
    put(out + 24, _mm256_permute2x128_si256(r26, r37, 0x31), false);
}

static void random_blocks(uint64_t seed, uint64_t block, size_t n, uint32_t *out)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    size_t i = 0;
    for (; i + 32 <= n && (uint32_t)block <= UINT32_MAX - 7; i += 32, block += 8)
        random_32(seed, _mm256_add_epi32(_mm256_set1_epi32((int)(uint32_t)block), lane), (uint32_t)(block >> 32),
                  out + i);
    if (n - i >= 32) { // the low word of the block's number wraps inside a group
        loop_random_blocks(seed, block, 32, out + i);
        random_blocks(seed, block + 8, n - i - 32, out + i + 32);
        return;
    }
    loop_random_blocks(seed, block, n - i, out + i);
}

// fm_small's stochastic cousin: the 32 binary places below the grid, by two shifts of which one is always too far (and
// then gives zero), plus the random word; a carry out of them rounds up.
static inline __m256i dither_of8(const fm_dither *d, __m256i u, __m256i random)
{
    const __m256i one = _mm256_set1_epi32(1), thirty_two = _mm256_set1_epi32(32);
    __m256i magnitude = _mm256_and_si256(u, _mm256_set1_epi32(FM_MAGNITUDE)), e = _mm256_srli_epi32(magnitude, 23);
    __m256i payload = _mm256_and_si256(magnitude, _mm256_set1_epi32(0x7fffff));
    __m256i subnormal = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
    __m256i significand = _mm256_or_si256(payload, _mm256_andnot_si256(subnormal, _mm256_set1_epi32(0x800000)));
    __m256i min_exponent = _mm256_set1_epi32((int)d->min_exponent);
    e = _mm256_max_epi32(e, one);
    __m256i grid = _mm256_max_epi32(e, min_exponent);
    __m256i shift = _mm256_add_epi32(_mm256_set1_epi32(23 - (int)d->fraction_bits), _mm256_sub_epi32(grid, e));
    __m256i places = _mm256_or_si256(_mm256_sllv_epi32(significand, _mm256_sub_epi32(thirty_two, shift)),
                                     _mm256_srlv_epi32(significand, _mm256_sub_epi32(shift, thirty_two)));
    __m256i sum = _mm256_add_epi32(places, random);
    __m256i no_carry = _mm256_cmpeq_epi32(_mm256_max_epu32(sum, random), sum);
    __m256i code = _mm256_add_epi32(_mm256_add_epi32(_mm256_srlv_epi32(significand, shift), one), no_carry);
    code = _mm256_add_epi32(
        code, _mm256_sll_epi32(_mm256_sub_epi32(grid, min_exponent), _mm_cvtsi32_si128((int)d->fraction_bits)));
    code = _mm256_min_epu32(code, _mm256_set1_epi32((int)d->overflow_code));
    __m256i quiet = _mm256_or_si256(_mm256_set1_epi32((int)d->nan_code),
                                    _mm256_srl_epi32(payload, _mm_cvtsi32_si128((int)d->quiet_payload_shift)));
    __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(FM_INF_BITS));
    code = _mm256_blendv_epi8(code, quiet, is_nan);
    __m256i sign = _mm256_and_si256(_mm256_srl_epi32(u, _mm_cvtsi32_si128((int)d->sign_shift)),
                                    _mm256_set1_epi32((int)d->sign_code));
    __m256i no_digits = _mm256_cmpeq_epi32(_mm256_and_si256(code, _mm256_set1_epi32(0x7f)), _mm256_setzero_si256());
    __m256i no_sign = _mm256_and_si256(_mm256_or_si256(no_digits, is_nan), _mm256_set1_epi32((int)d->no_neg_zero));
    return _mm256_xor_si256(code, _mm256_andnot_si256(no_sign, sign));
}

static void dither16(const fm_dither *d, size_t n, const float *x, const uint32_t *random, uint16_t *out)
{
    const fm_dither local = *d; // the stores could not change it: lets the constants stay in registers
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i low = dither_of8(&local, load8(x + i), _mm256_loadu_si256((const __m256i *)(random + i)));
        __m256i high = dither_of8(&local, load8(x + i + 8), _mm256_loadu_si256((const __m256i *)(random + i + 8)));
        put(out + i, _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8), false);
    }
    loop_dither16(d, n - i, x + i, random + i, out + i);
}

static void dither8(const fm_dither *d, size_t n, const float *x, const uint32_t *random, uint8_t *out)
{
    const fm_dither local = *d;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i low = dither_of8(&local, load8(x + i), _mm256_loadu_si256((const __m256i *)(random + i)));
        __m256i high = dither_of8(&local, load8(x + i + 8), _mm256_loadu_si256((const __m256i *)(random + i + 8)));
        __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
        __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
        _mm_storeu_si128((__m128i *)(out + i), bytes);
    }
    loop_dither8(d, n - i, x + i, random + i, out + i);
}

static void extent(size_t n, const float *x, uint32_t *max_bits, uint32_t *min_less_1)
{
    const __m256i all = _mm256_set1_epi32(FM_MAGNITUDE), minus_one = _mm256_set1_epi32(-1);
    __m256i most = _mm256_set1_epi32((int)*max_bits), least = _mm256_set1_epi32((int)*min_less_1);
    __m256i most_2 = most, least_2 = least;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i a = _mm256_and_si256(load8(x + i), all), b = _mm256_and_si256(load8(x + i + 8), all);
        most = _mm256_max_epu32(most, a);
        most_2 = _mm256_max_epu32(most_2, b);
        least = _mm256_min_epu32(least, _mm256_add_epi32(a, minus_one));
        least_2 = _mm256_min_epu32(least_2, _mm256_add_epi32(b, minus_one));
    }
    uint32_t lanes[16];
    _mm256_storeu_si256((__m256i *)lanes, _mm256_max_epu32(most, most_2));
    _mm256_storeu_si256((__m256i *)(lanes + 8), _mm256_min_epu32(least, least_2));
    for (int j = 0; j < 8; j++) {
        *max_bits = lanes[j] > *max_bits ? lanes[j] : *max_bits;
        *min_less_1 = lanes[8 + j] < *min_less_1 ? lanes[8 + j] : *min_less_1;
    }
    loop_extent(n - i, x + i, max_bits, min_less_1);
}

const fm_number_kernels fm_number_kernels_avx2 = {
    .name = "avx2",
    .finish_stores = finish_stores,
    .f16_from_f32 = f16_from_f32,
    .bf16_from_f32 = bf16_from_f32,
    .small_from_f32 = small_from_f32,
    .tf32_from_f32 = loop_tf32_from_f32,
    .int_from_f32 = loop_int_from_f32,
    .f32_from_f16 = f32_from_f16,
    .f32_from_bf16 = f32_from_bf16,
    .f32_from_small = f32_from_small,
    .dither16 = dither16,
    .dither8 = dither8,
    .random_blocks = random_blocks,
    .extent = extent,
    .tally = loop_tally,
    .count_tiny = loop_count_tiny,
    .f32_from_f64 = loop_f32_from_f64,
    .f32_from_f64_odd = loop_f32_from_f64_odd,
};

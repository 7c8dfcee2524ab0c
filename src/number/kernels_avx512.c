// Built with -mavx512f -mavx512bw -mavx512dq -mavx512vl (and AVX2, F16C), alone. The same ideas as kernels_avx2.c in
// 16 lanes, with masks where that has blends. The bfloat16 instructions of newer processors are of no use here: they
// flush subnormals.
#include <immintrin.h>

#include "number/loops.h"

static size_t head(const void *out, size_t element_bytes, size_t n, bool past_cache)
{
    size_t past = (uintptr_t)out % 64;
    size_t elements = past_cache && past ? (64 - past) / element_bytes : 0;
    return elements < n ? elements : n;
}

static inline void put(void *out, __m512i v, bool past_cache)
{
    if (past_cache)
        _mm512_stream_si512((__m512i *)out, v);
    else
        _mm512_storeu_si512(out, v);
}

static void finish_stores(void)
{
    _mm_sfence();
}

static inline __m512i load16(const float *x)
{
    return _mm512_loadu_si512(x);
}

static inline __m512i join(__m256i low, __m256i high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

static inline __m512i magnitude_of(__m512i u)
{
    return _mm512_and_si512(u, _mm512_set1_epi32(FM_MAGNITUDE));
}

static inline __mmask16 is_nan(__m512i magnitude)
{
    return _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(FM_INF_BITS));
}

static inline __m256i f16_of16(__m512i u, bool saturate)
{
    if (saturate) {
        __m512i magnitude = magnitude_of(u);
        __mmask16 past =
            _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x477fe000)) & (__mmask16)~is_nan(magnitude);
        __m512i sign = _mm512_andnot_si512(_mm512_set1_epi32(FM_MAGNITUDE), u);
        u = _mm512_mask_or_epi32(u, past, sign, _mm512_set1_epi32(0x477fe000)); // 65504
    }
    return _mm512_cvtps_ph(_mm512_castsi512_ps(u), _MM_FROUND_TO_NEAREST_INT);
}

static void f16_from_f32(size_t n, const float *x, uint16_t *out, bool saturate, bool past_cache)
{
    size_t i = head(out, sizeof *out, n, past_cache);
    loop_f16_from_f32(i, x, out, saturate);
    for (; i + 32 <= n; i += 32)
        put(out + i, join(f16_of16(load16(x + i), saturate), f16_of16(load16(x + i + 16), saturate)), past_cache);
    loop_f16_from_f32(n - i, x + i, out + i, saturate);
}

static inline __m256i bf16_of16(__m512i u, bool saturate)
{
    __m512i upper = _mm512_srli_epi32(u, 16), odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    if (saturate) {
        __m512i magnitude = _mm512_and_si512(rounded, _mm512_set1_epi32(FM_MAGNITUDE >> 16));
        __mmask16 infinite = _mm512_cmpeq_epi32_mask(magnitude, _mm512_set1_epi32(FM_INF_BITS >> 16));
        rounded = _mm512_mask_sub_epi32(rounded, infinite, rounded, _mm512_set1_epi32(1));
    }
    rounded = _mm512_mask_or_epi32(rounded, is_nan(magnitude_of(u)), upper, _mm512_set1_epi32(0x0040));
    return _mm512_cvtepi32_epi16(rounded);
}

static void bf16_from_f32(size_t n, const float *x, uint16_t *out, bool saturate, bool past_cache)
{
    size_t i = head(out, sizeof *out, n, past_cache);
    loop_bf16_from_f32(i, x, out, saturate);
    for (; i + 32 <= n; i += 32)
        put(out + i, join(bf16_of16(load16(x + i), saturate), bf16_of16(load16(x + i + 16), saturate)), past_cache);
    loop_bf16_from_f32(n - i, x + i, out + i, saturate);
}

typedef struct {
    __m512i clamp, min_exponent, above_fraction, nan_code, sign_code;
    __m128i exponent_shift, sign_shift;
} small16;

static inline small16 small16_of(const fm_small *s)
{
    return (small16){
        .clamp = _mm512_set1_epi32((int)s->clamp),
        .min_exponent = _mm512_set1_epi32((int)(s->min_exponent << 23)),
        .above_fraction = _mm512_set1_epi32((int)((23 - s->fraction_bits) << 23)),
        .nan_code = _mm512_set1_epi32((int)s->nan_code),
        .sign_code = _mm512_set1_epi32((int)s->sign_code),
        .exponent_shift = _mm_cvtsi32_si128((int)(23 - s->fraction_bits)),
        .sign_shift = _mm_cvtsi32_si128((int)s->sign_shift),
    };
}

// Rounding by addition, as kernels_avx2.c explains.
static inline __attribute__((always_inline)) __m128i small_of16(const small16 *s, __m512i u, bool no_neg_zero)
{
    __m512i magnitude = magnitude_of(u);
    __mmask16 nan = is_nan(magnitude);
    __m512i sign = _mm512_and_si512(_mm512_srl_epi32(u, s->sign_shift), s->sign_code);
    magnitude = _mm512_min_epu32(magnitude, s->clamp);
    __m512i grid = _mm512_max_epi32(_mm512_and_si512(magnitude, _mm512_set1_epi32(FM_INF_BITS)), s->min_exponent);
    __m512i m = _mm512_add_epi32(grid, s->above_fraction);
    __m512i sum = _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(magnitude), _mm512_castsi512_ps(m)));
    __m512i exponent = _mm512_srl_epi32(_mm512_sub_epi32(grid, s->min_exponent), s->exponent_shift);
    __m512i code = _mm512_add_epi32(_mm512_sub_epi32(sum, m), exponent);
    code = _mm512_mask_mov_epi32(code, nan, s->nan_code);
    if (no_neg_zero)
        sign = _mm512_maskz_mov_epi32(_mm512_test_epi32_mask(code, _mm512_set1_epi32(0x7f)), sign);
    return _mm512_cvtepi32_epi8(_mm512_xor_si512(code, sign));
}

static inline __attribute__((always_inline)) size_t small_body(const fm_small *from, size_t n, const float *x,
                                                               uint8_t *out, bool no_neg_zero, bool past_cache)
{
    const small16 s = small16_of(from);
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m128i a = small_of16(&s, load16(x + i), no_neg_zero), b = small_of16(&s, load16(x + i + 16), no_neg_zero);
        __m128i c = small_of16(&s, load16(x + i + 32), no_neg_zero),
                d = small_of16(&s, load16(x + i + 48), no_neg_zero);
        put(out + i, join(_mm256_set_m128i(b, a), _mm256_set_m128i(d, c)), past_cache);
    }
    return i;
}

static void small_from_f32(const fm_small *s, size_t n, const float *x, uint8_t *out, bool past_cache)
{
    size_t i = head(out, sizeof *out, n, past_cache);
    loop_small_from_f32(s, i, x, out);
    i += s->no_neg_zero ? small_body(s, n - i, x + i, out + i, true, past_cache)
                        : small_body(s, n - i, x + i, out + i, false, past_cache);
    loop_small_from_f32(s, n - i, x + i, out + i);
}

static void f32_from_f16(size_t n, const uint16_t *codes, float *x, bool past_cache)
{
    size_t i = head(x, sizeof *x, n, past_cache);
    loop_f32_from_f16(i, codes, x);
    for (; i + 16 <= n; i += 16) {
        __m512 value = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(codes + i)));
        put(x + i, _mm512_castps_si512(value), past_cache);
    }
    loop_f32_from_f16(n - i, codes + i, x + i);
}

static void f32_from_bf16(size_t n, const uint16_t *codes, float *x, bool past_cache)
{
    size_t i = head(x, sizeof *x, n, past_cache);
    loop_f32_from_bf16(i, codes, x);
    for (; i + 16 <= n; i += 16) {
        __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(codes + i)));
        put(x + i, _mm512_slli_epi32(wide, 16), past_cache);
    }
    loop_f32_from_bf16(n - i, codes + i, x + i);
}

static inline __m512i decode_small16(const fm_small *s, __m512i code)
{
    __m512i magnitude = _mm512_and_si512(code, _mm512_set1_epi32((int)s->sign_code - 1));
    __m512i sign = _mm512_sll_epi32(_mm512_and_si512(code, _mm512_set1_epi32((int)s->sign_code)),
                                    _mm_cvtsi32_si128((int)s->sign_shift));
    __m512i normal = _mm512_add_epi32(_mm512_sll_epi32(magnitude, _mm_cvtsi32_si128(23 - (int)s->fraction_bits)),
                                      _mm512_set1_epi32((int)((s->min_exponent - 1) << 23)));
    __m512i subnormal =
        _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(magnitude), _mm512_set1_ps(s->subnormal_step)));
    __mmask16 is_normal = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32((1 << s->fraction_bits) - 1));
    __m512i value = _mm512_mask_mov_epi32(subnormal, is_normal, normal);
    __mmask16 special = _mm512_cmpge_epi32_mask(magnitude, _mm512_set1_epi32((int)s->special));
    __mmask16 nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32((int)s->nan_above)) |
                    _mm512_cmpeq_epi32_mask(code, _mm512_set1_epi32((int)s->lone_nan));
    value = _mm512_mask_or_epi32(value, special, value, _mm512_set1_epi32(FM_INF_BITS));
    value = _mm512_mask_or_epi32(value, nan, value, _mm512_set1_epi32(0x7fc00000));
    return _mm512_or_si512(value, sign);
}

static void f32_from_small(const fm_small *s, size_t n, const uint8_t *codes, float *x, bool past_cache)
{
    const fm_small local = *s;
    const __m512i mask = _mm512_set1_epi32(2 * (int)s->sign_code - 1);
    size_t i = head(x, sizeof *x, n, past_cache);
    loop_f32_from_small(s, i, codes, x);
    for (; i + 16 <= n; i += 16) {
        __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(codes + i)));
        put(x + i, decode_small16(&local, _mm512_and_si512(code, mask)), past_cache);
    }
    loop_f32_from_small(s, n - i, codes + i, x + i);
}

// fm_small's stochastic cousin: the 32 binary places below the grid, by two shifts of which one is always too far (and
// then gives zero), plus the random word; a carry out of them rounds up.
static inline __m512i dither_of16(const fm_dither *d, __m512i u, __m512i random)
{
    const __m512i zero = _mm512_setzero_si512(), one = _mm512_set1_epi32(1);
    __m512i magnitude = magnitude_of(u), e = _mm512_srli_epi32(magnitude, 23);
    __m512i payload = _mm512_and_si512(magnitude, _mm512_set1_epi32(0x7fffff));
    __mmask16 normal = _mm512_test_epi32_mask(e, e);
    __m512i significand = _mm512_mask_or_epi32(payload, normal, payload, _mm512_set1_epi32(0x800000));
    __m512i min_exponent = _mm512_set1_epi32((int)d->min_exponent);
    e = _mm512_max_epi32(e, one);
    __m512i grid = _mm512_max_epi32(e, min_exponent);
    __m512i shift = _mm512_add_epi32(_mm512_set1_epi32(23 - (int)d->fraction_bits), _mm512_sub_epi32(grid, e));
    __m512i thirty_two = _mm512_set1_epi32(32);
    __m512i places = _mm512_or_si512(_mm512_sllv_epi32(significand, _mm512_sub_epi32(thirty_two, shift)),
                                     _mm512_srlv_epi32(significand, _mm512_sub_epi32(shift, thirty_two)));
    __mmask16 carry = _mm512_cmplt_epu32_mask(_mm512_add_epi32(places, random), random);
    __m512i code = _mm512_srlv_epi32(significand, shift);
    code = _mm512_mask_add_epi32(code, carry, code, one);
    code = _mm512_add_epi32(
        code, _mm512_sll_epi32(_mm512_sub_epi32(grid, min_exponent), _mm_cvtsi32_si128((int)d->fraction_bits)));
    code = _mm512_min_epu32(code, _mm512_set1_epi32((int)d->overflow_code));
    __m512i quiet = _mm512_or_si512(_mm512_set1_epi32((int)d->nan_code),
                                    _mm512_srl_epi32(payload, _mm_cvtsi32_si128((int)d->quiet_payload_shift)));
    __mmask16 nan = is_nan(magnitude);
    code = _mm512_mask_mov_epi32(code, nan, quiet);
    __m512i sign = _mm512_and_si512(_mm512_srl_epi32(u, _mm_cvtsi32_si128((int)d->sign_shift)),
                                    _mm512_set1_epi32((int)d->sign_code));
    if (d->no_neg_zero) {
        __mmask16 unsigned_code = nan | _mm512_testn_epi32_mask(code, _mm512_set1_epi32(0x7f));
        sign = _mm512_mask_mov_epi32(sign, unsigned_code, zero);
    }
    return _mm512_xor_si512(code, sign);
}

static void dither16(const fm_dither *d, size_t n, const float *x, const uint32_t *random, uint16_t *out)
{
    const fm_dither local = *d;
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(out + i),
                            _mm512_cvtepi32_epi16(dither_of16(&local, load16(x + i), _mm512_loadu_si512(random + i))));
    loop_dither16(d, n - i, x + i, random + i, out + i);
}

static void dither8(const fm_dither *d, size_t n, const float *x, const uint32_t *random, uint8_t *out)
{
    const fm_dither local = *d;
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm_storeu_si128((__m128i *)(out + i),
                         _mm512_cvtepi32_epi8(dither_of16(&local, load16(x + i), _mm512_loadu_si512(random + i))));
    loop_dither8(d, n - i, x + i, random + i, out + i);
}

static void extent(size_t n, const float *x, uint32_t *max_bits, uint32_t *min_less_1)
{
    const __m512i minus_one = _mm512_set1_epi32(-1);
    __m512i most = _mm512_set1_epi32((int)*max_bits), least = _mm512_set1_epi32((int)*min_less_1);
    __m512i most_2 = most, least_2 = least;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m512i a = magnitude_of(load16(x + i)), b = magnitude_of(load16(x + i + 16));
        most = _mm512_max_epu32(most, a);
        most_2 = _mm512_max_epu32(most_2, b);
        least = _mm512_min_epu32(least, _mm512_add_epi32(a, minus_one));
        least_2 = _mm512_min_epu32(least_2, _mm512_add_epi32(b, minus_one));
    }
    *max_bits = _mm512_reduce_max_epu32(_mm512_max_epu32(most, most_2));
    *min_less_1 = _mm512_reduce_min_epu32(_mm512_min_epu32(least, least_2));
    loop_extent(n - i, x + i, max_bits, min_less_1);
}

// Both halves of the products of sixteen 32-bit words with one constant.
static inline void multiply16(__m512i a, uint32_t constant, __m512i *high, __m512i *low)
{
    __m512i k = _mm512_set1_epi32((int)constant);
    __m512i even = _mm512_mul_epu32(a, k), odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), k);
    *low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}

// Sixteen blocks side by side, lane j block first + j, to 64 words in order.
static inline void random_64(uint64_t seed, __m512i low_ids, uint32_t high_id, uint32_t *out)
{
    __m512i a = low_ids, b = _mm512_set1_epi32((int)high_id), c = _mm512_setzero_si512(), d = c;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        __m512i p_high, p_low, q_high, q_low;
        multiply16(a, FM_PHILOX_M0, &p_high, &p_low);
        multiply16(c, FM_PHILOX_M1, &q_high, &q_low);
        a = _mm512_xor_si512(_mm512_xor_si512(q_high, b), _mm512_set1_epi32((int)k0));
        c = _mm512_xor_si512(_mm512_xor_si512(p_high, d), _mm512_set1_epi32((int)k1));
        b = q_low;
        d = p_low;
        k0 += FM_PHILOX_W0;
        k1 += FM_PHILOX_W1;
    }
    __m512i ab_low = _mm512_unpacklo_epi32(a, b), ab_high = _mm512_unpackhi_epi32(a, b);
    __m512i cd_low = _mm512_unpacklo_epi32(c, d), cd_high = _mm512_unpackhi_epi32(c, d);
    // Register k now holds blocks k, 4 + k, 8 + k, 12 + k: transpose the quarters, too.
    __m512i r0 = _mm512_unpacklo_epi64(ab_low, cd_low), r1 = _mm512_unpackhi_epi64(ab_low, cd_low);
    __m512i r2 = _mm512_unpacklo_epi64(ab_high, cd_high), r3 = _mm512_unpackhi_epi64(ab_high, cd_high);
    __m512i low_01 = _mm512_shuffle_i32x4(r0, r1, 0x44), low_23 = _mm512_shuffle_i32x4(r2, r3, 0x44);
    __m512i high_01 = _mm512_shuffle_i32x4(r0, r1, 0xee), high_23 = _mm512_shuffle_i32x4(r2, r3, 0xee);
    put(out, _mm512_shuffle_i32x4(low_01, low_23, 0x88), false);
    put(out + 16, _mm512_shuffle_i32x4(low_01, low_23, 0xdd), false);
    put(out + 32, _mm512_shuffle_i32x4(high_01, high_23, 0x88), false);
    put(out + 48, _mm512_shuffle_i32x4(high_01, high_23, 0xdd), false);
}

static void random_blocks(uint64_t seed, uint64_t block, size_t n, uint32_t *out)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    size_t i = 0;
    for (; i + 64 <= n && (uint32_t)block <= UINT32_MAX - 15; i += 64, block += 16)
        random_64(seed, _mm512_add_epi32(_mm512_set1_epi32((int)(uint32_t)block), lane), (uint32_t)(block >> 32),
                  out + i);
    if (n - i >= 64) { // the low word of the block's number wraps inside a group
        loop_random_blocks(seed, block, 64, out + i);
        random_blocks(seed, block + 16, n - i - 64, out + i + 64);
        return;
    }
    loop_random_blocks(seed, block, n - i, out + i);
}

const fm_number_kernels fm_number_kernels_avx512 = {
    .name = "avx512",
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

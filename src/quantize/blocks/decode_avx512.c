// Decoding with AVX-512. Codes of four and five bits index a table of all the block's values, made by one or two vector
// operations in the definition's order; the rest is plain loops for the compiler (decode.inc.h).
// Results too large for the caches are written past them.
#include <immintrin.h>
#define FM_LARGEST fm_block_largest_avx512
#include "quantize/blocks/largest.inc.h"
#include "quantize/blocks/decode.inc.h"

enum { STREAM_BYTES = 8 << 20 };

static inline bool streams(size_t n_elems, const float *y)
{
    return n_elems * 4 >= STREAM_BYTES && ((uintptr_t)y & 63) == 0;
}

static inline __attribute__((always_inline)) void put(float *y, __m512 v, bool stream)
{
    if (stream)
        _mm512_stream_ps(y, v);
    else
        _mm512_storeu_ps(y, v);
}

static inline __m512i bytes16(const void *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
static inline __m512 table_of(const int8_t *values)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)values)));
}

// Low nibbles, then high nibbles, of sixteen bytes. The permutation looks at the low four bits alone.
static inline __attribute__((always_inline)) void put_nibbles(float *y, size_t apart, const uint8_t *q, __m512 table,
                                                              bool stream)
{
    __m512i i = bytes16(q);
    put(y, _mm512_permutexvar_ps(i, table), stream);
    put(y + apart, _mm512_permutexvar_ps(_mm512_srli_epi32(i, 4), table), stream);
}

// The same with a fifth bit from sixteen bits each.
static inline __attribute__((always_inline)) void put_fives(float *y, size_t apart, const uint8_t *q, __mmask16 low,
                                                            __mmask16 high, __m512 table, __m512 upper, bool stream)
{
    const __m512i sixteen = _mm512_set1_epi32(16), fifteen = _mm512_set1_epi32(15);
    __m512i i = bytes16(q), a = _mm512_and_si512(i, fifteen), b = _mm512_srli_epi32(i, 4);
    put(y, _mm512_permutex2var_ps(table, _mm512_mask_or_epi32(a, low, a, sixteen), upper), stream);
    put(y + apart, _mm512_permutex2var_ps(table, _mm512_mask_or_epi32(b, high, b, sixteen), upper), stream);
}

static const int8_t counting[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static inline __m512 count_from(int first)
{
    return _mm512_add_ps(table_of(counting), _mm512_set1_ps((float)first)); // whole numbers: exact
}
static inline __m512 times(__m512 table, float d)
{
    return _mm512_mul_ps(table, _mm512_set1_ps(d));
}
static inline __m512 plus(__m512 table, float m)
{
    return _mm512_add_ps(table, _mm512_set1_ps(m));
}
static inline __m512 minus(__m512 table, float m)
{
    return _mm512_sub_ps(table, _mm512_set1_ps(m));
}

// NAME_loop(n, blocks, y, stream) becomes a decoder that streams when that pays.
#define FM_STREAMED(name, elems)                                                        \
    static void fast_##name(size_t n, const uint8_t *restrict bytes, float *restrict y) \
    {                                                                                   \
        if (streams(n * (elems), y)) {                                                  \
            name##_loop(n, bytes, y, true);                                             \
            _mm_sfence();                                                               \
        } else                                                                          \
            name##_loop(n, bytes, y, false);                                            \
    }
#define LOOP static inline __attribute__((always_inline)) void

LOOP f16_loop(size_t n, const uint8_t *b, float *y, bool stream)
{
    for (; n >= 16; n -= 16, b += 32, y += 16)
        put(y, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)b)), stream);
    decode_f16(n, b, y);
}
FM_STREAMED(f16, 1)

LOOP bf16_loop(size_t n, const uint8_t *b, float *y, bool stream)
{
    for (; n >= 16; n -= 16, b += 32, y += 16) {
        __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)b));
        put(y, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)), stream);
    }
    decode_bf16(n, b, y);
}
FM_STREAMED(bf16, 1)

LOOP q8_0_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    for (; n; n--, bytes += 34, y += 32) {
        __m512 d = _mm512_set1_ps(_cvtsh_ss(read_u16(bytes)));
        for (int h = 0; h < 2; h++) {
            __m512i q = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(bytes + 2 + 16 * h)));
            put(y + 16 * h, _mm512_mul_ps(_mm512_cvtepi32_ps(q), d), stream);
        }
    }
}
FM_STREAMED(q8_0, 32)

LOOP q4_0_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m512 table = count_from(-8);
    for (; n; n--, bytes += 18, y += 32)
        put_nibbles(y, 16, bytes + 2, times(table, _cvtsh_ss(read_u16(bytes))), stream);
}
FM_STREAMED(q4_0, 32)

LOOP q4_1_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m512 table = count_from(0);
    for (; n; n--, bytes += 20, y += 32)
        put_nibbles(y, 16, bytes + 4, plus(times(table, _cvtsh_ss(read_u16(bytes))), _cvtsh_ss(read_u16(bytes + 2))),
                    stream);
}
FM_STREAMED(q4_1, 32)

LOOP iq4_nl_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m512 table = table_of(iq4_values);
    for (; n; n--, bytes += 18, y += 32)
        put_nibbles(y, 16, bytes + 2, times(table, _cvtsh_ss(read_u16(bytes))), stream);
}
FM_STREAMED(iq4_nl, 32)

LOOP mxfp4_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m512 table = table_of(e2m1_doubled);
    for (; n; n--, bytes += 17, y += 32)
        put_nibbles(y, 16, bytes + 1, times(table, e8m0_half(bytes[0])), stream);
}
FM_STREAMED(mxfp4, 32)

LOOP nvfp4_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m512 table = table_of(e2m1_doubled);
    for (; n; n--, bytes += 36, y += 64)
        for (int g = 0; g < 4; g++) { // eight bytes twice, the second time shifted down to their high nibbles
            __m512i i = _mm512_cvtepu8_epi32(_mm_set1_epi64x((long long)read_u64(bytes + 4 + 8 * g)));
            i = _mm512_mask_srli_epi32(i, 0xff00, i, 4);
            put(y + 16 * g, _mm512_permutexvar_ps(i, times(table, ue4m3_half(bytes[g]))), stream);
        }
}
FM_STREAMED(nvfp4, 64)

LOOP q5_0_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m512 low = count_from(-16), high = count_from(0);
    for (; n; n--, bytes += 22, y += 32) {
        float d = _cvtsh_ss(read_u16(bytes));
        put_fives(y, 16, bytes + 6, read_u16(bytes + 2), read_u16(bytes + 4), times(low, d), times(high, d), stream);
    }
}
FM_STREAMED(q5_0, 32)

LOOP q5_1_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m512 low = count_from(0), high = count_from(16);
    for (; n; n--, bytes += 24, y += 32) {
        float d = _cvtsh_ss(read_u16(bytes)), m = _cvtsh_ss(read_u16(bytes + 2));
        put_fives(y, 16, bytes + 8, read_u16(bytes + 4), read_u16(bytes + 6), plus(times(low, d), m),
                  plus(times(high, d), m), stream);
    }
}
FM_STREAMED(q5_1, 32)

LOOP iq4_xs_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m512 table = table_of(iq4_values);
    for (; n; n--, bytes += sizeof(fm_block_iq4_xs), y += 256) {
        const fm_block_iq4_xs *b = (const fm_block_iq4_xs *)bytes;
        float d = _cvtsh_ss(read_u16(b->d));
        for (int g = 0; g < 8; g++) {
            int sc = (b->scales_l[g / 2] >> (g % 2 * 4) & 15) | (read_u16(b->scales_h) >> (2 * g) & 3) << 4;
            put_nibbles(y + 32 * g, 16, b->qs + 16 * g, times(table, d * (float)(sc - 32)), stream);
        }
    }
}
FM_STREAMED(iq4_xs, 256)

LOOP q4_k_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m512 table = count_from(0);
    for (; n; n--, bytes += sizeof(fm_block_q4_k), y += 256) {
        const fm_block_q4_k *b = (const fm_block_q4_k *)bytes;
        int sc[8], mn[8];
        float d = _cvtsh_ss(read_u16(b->d)), dmin = _cvtsh_ss(read_u16(b->dmin));
        unpack_scales_6(b->scales, sc, mn);
        for (int p = 0; p < 4; p++) {
            __m512 low = minus(times(table, d * (float)sc[2 * p]), dmin * (float)mn[2 * p]);
            __m512 high = minus(times(table, d * (float)sc[2 * p + 1]), dmin * (float)mn[2 * p + 1]);
            __m512i i = bytes16(b->qs + 32 * p), j = bytes16(b->qs + 32 * p + 16);
            put(y + 64 * p, _mm512_permutexvar_ps(i, low), stream);
            put(y + 64 * p + 16, _mm512_permutexvar_ps(j, low), stream);
            put(y + 64 * p + 32, _mm512_permutexvar_ps(_mm512_srli_epi32(i, 4), high), stream);
            put(y + 64 * p + 48, _mm512_permutexvar_ps(_mm512_srli_epi32(j, 4), high), stream);
        }
    }
}
FM_STREAMED(q4_k, 256)

fm_block_decoder *const fm_block_decoders_avx512[FM_BLOCK_N] = {
    [FM_BLOCK_F16] = fast_f16,       [FM_BLOCK_BF16] = fast_bf16,     [FM_BLOCK_Q8_0] = fast_q8_0,
    [FM_BLOCK_Q4_0] = fast_q4_0,     [FM_BLOCK_Q4_1] = fast_q4_1,     [FM_BLOCK_Q5_0] = fast_q5_0,
    [FM_BLOCK_Q5_1] = fast_q5_1,     [FM_BLOCK_Q2_K] = decode_q2_k,   [FM_BLOCK_Q3_K] = decode_q3_k,
    [FM_BLOCK_Q4_K] = fast_q4_k,     [FM_BLOCK_Q5_K] = decode_q5_k,   [FM_BLOCK_Q6_K] = decode_q6_k,
    [FM_BLOCK_IQ4_NL] = fast_iq4_nl, [FM_BLOCK_IQ4_XS] = fast_iq4_xs, [FM_BLOCK_MXFP4] = fast_mxfp4,
    [FM_BLOCK_NVFP4] = fast_nvfp4,
};

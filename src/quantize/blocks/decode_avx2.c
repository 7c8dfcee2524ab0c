// Decoding with AVX2. Codes of four bits pick their value from a table of bytes; the rest is plain loops for the
// compiler (decode.inc.h). Results too large for the caches are written past them.
#include <immintrin.h>
#define FM_LARGEST fm_block_largest_avx2
#include "quantize/blocks/largest.inc.h"
#include "quantize/blocks/decode.inc.h"

enum { STREAM_BYTES = 8 << 20 };
#define LOOP static inline __attribute__((always_inline)) void

static inline bool streams(size_t n_elems, const float *y)
{
    return n_elems * 4 >= STREAM_BYTES && ((uintptr_t)y & 31) == 0;
}

LOOP put(float *y, __m256 v, bool stream)
{
    if (stream)
        _mm256_stream_ps(y, v);
    else
        _mm256_storeu_ps(y, v);
}

// Sixteen signed bytes times d, plus m when the format has one (adding nothing could turn -0 into 0).
LOOP put_bytes(float *y, __m128i v, __m256 d, bool has_m, __m256 m, bool stream)
{
    for (int h = 0; h < 2; h++, v = _mm_srli_si128(v, 8)) {
        __m256 f = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)), d);
        put(y + 8 * h, has_m ? _mm256_add_ps(f, m) : f, stream);
    }
}

// Low nibbles of sixteen bytes to y, high ones to y + apart.
LOOP put_nibbles(float *y, size_t apart, const uint8_t *q, __m128i table, float d, bool has_m, float m, bool stream)
{
    __m128i b = _mm_loadu_si128((const __m128i *)q), fifteen = _mm_set1_epi8(15);
    __m128i low = _mm_shuffle_epi8(table, _mm_and_si128(b, fifteen));
    __m128i high = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(b, 4), fifteen));
    put_bytes(y, low, _mm256_set1_ps(d), has_m, _mm256_set1_ps(m), stream);
    put_bytes(y + apart, high, _mm256_set1_ps(d), has_m, _mm256_set1_ps(m), stream);
}

static inline __m128i count_from(int first)
{
    return _mm_add_epi8(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                        _mm_set1_epi8((char)first));
}

#define FM_STREAMED(name, elems)                                                        \
    static void fast_##name(size_t n, const uint8_t *restrict bytes, float *restrict y) \
    {                                                                                   \
        if (streams(n * (elems), y)) {                                                  \
            name##_loop(n, bytes, y, true);                                             \
            _mm_sfence();                                                               \
        } else                                                                          \
            name##_loop(n, bytes, y, false);                                            \
    }

LOOP f16_loop(size_t n, const uint8_t *b, float *y, bool stream)
{
    for (; n >= 8; n -= 8, b += 16, y += 8)
        put(y, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)b)), stream);
    decode_f16(n, b, y);
}
FM_STREAMED(f16, 1)

LOOP bf16_loop(size_t n, const uint8_t *b, float *y, bool stream)
{
    for (; n >= 8; n -= 8, b += 16, y += 8) {
        __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)b));
        put(y, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)), stream);
    }
    decode_bf16(n, b, y);
}
FM_STREAMED(bf16, 1)

LOOP q8_0_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    for (; n; n--, bytes += 34, y += 32) {
        __m256 d = _mm256_set1_ps(_cvtsh_ss(read_u16(bytes)));
        for (int h = 0; h < 2; h++)
            put_bytes(y + 16 * h, _mm_loadu_si128((const __m128i *)(bytes + 2 + 16 * h)), d, false, d, stream);
    }
}
FM_STREAMED(q8_0, 32)

LOOP q4_0_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m128i table = count_from(-8);
    for (; n; n--, bytes += 18, y += 32)
        put_nibbles(y, 16, bytes + 2, table, _cvtsh_ss(read_u16(bytes)), false, 0, stream);
}
FM_STREAMED(q4_0, 32)

LOOP q4_1_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m128i table = count_from(0);
    for (; n; n--, bytes += 20, y += 32)
        put_nibbles(y, 16, bytes + 4, table, _cvtsh_ss(read_u16(bytes)), true, _cvtsh_ss(read_u16(bytes + 2)), stream);
}
FM_STREAMED(q4_1, 32)

LOOP iq4_nl_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m128i table = _mm_loadu_si128((const __m128i *)iq4_values);
    for (; n; n--, bytes += 18, y += 32)
        put_nibbles(y, 16, bytes + 2, table, _cvtsh_ss(read_u16(bytes)), false, 0, stream);
}
FM_STREAMED(iq4_nl, 32)

LOOP iq4_xs_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m128i table = _mm_loadu_si128((const __m128i *)iq4_values);
    for (; n; n--, bytes += sizeof(fm_block_iq4_xs), y += 256) {
        const fm_block_iq4_xs *b = (const fm_block_iq4_xs *)bytes;
        float d = _cvtsh_ss(read_u16(b->d));
        for (int g = 0; g < 8; g++) {
            int sc = (b->scales_l[g / 2] >> (g % 2 * 4) & 15) | (read_u16(b->scales_h) >> (2 * g) & 3) << 4;
            put_nibbles(y + 32 * g, 16, b->qs + 16 * g, table, d * (float)(sc - 32), false, 0, stream);
        }
    }
}
FM_STREAMED(iq4_xs, 256)

LOOP mxfp4_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m128i table = _mm_loadu_si128((const __m128i *)e2m1_doubled);
    for (; n; n--, bytes += 17, y += 32)
        put_nibbles(y, 16, bytes + 1, table, e8m0_half(bytes[0]), false, 0, stream);
}
FM_STREAMED(mxfp4, 32)

LOOP q4_k_loop(size_t n, const uint8_t *bytes, float *y, bool stream)
{
    const __m128i fifteen = _mm_set1_epi8(15);
    for (; n; n--, bytes += sizeof(fm_block_q4_k), y += 256) {
        const fm_block_q4_k *b = (const fm_block_q4_k *)bytes;
        int sc[8], mn[8];
        float d = _cvtsh_ss(read_u16(b->d)), dmin = _cvtsh_ss(read_u16(b->dmin));
        unpack_scales_6(b->scales, sc, mn);
        for (int g = 0; g < 8; g++) {
            __m256 scale = _mm256_set1_ps(d * (float)sc[g]), min = _mm256_set1_ps(-(dmin * (float)mn[g]));
            for (int h = 0; h < 2; h++) { // y - min and y + -min are the same operation
                __m128i q = _mm_loadu_si128((const __m128i *)(b->qs + g / 2 * 32 + 16 * h));
                q = _mm_and_si128(g % 2 ? _mm_srli_epi16(q, 4) : q, fifteen);
                put_bytes(y + 32 * g + 16 * h, q, scale, true, min, stream);
            }
        }
    }
}
FM_STREAMED(q4_k, 256)

fm_block_decoder *const fm_block_decoders_avx2[FM_BLOCK_N] = {
    [FM_BLOCK_F16] = fast_f16,       [FM_BLOCK_BF16] = fast_bf16,     [FM_BLOCK_Q8_0] = fast_q8_0,
    [FM_BLOCK_Q4_0] = fast_q4_0,     [FM_BLOCK_Q4_1] = fast_q4_1,     [FM_BLOCK_Q5_0] = decode_q5_0,
    [FM_BLOCK_Q5_1] = decode_q5_1,   [FM_BLOCK_Q2_K] = decode_q2_k,   [FM_BLOCK_Q3_K] = decode_q3_k,
    [FM_BLOCK_Q4_K] = fast_q4_k,     [FM_BLOCK_Q5_K] = decode_q5_k,   [FM_BLOCK_Q6_K] = decode_q6_k,
    [FM_BLOCK_IQ4_NL] = fast_iq4_nl, [FM_BLOCK_IQ4_XS] = fast_iq4_xs, [FM_BLOCK_MXFP4] = fast_mxfp4,
    [FM_BLOCK_NVFP4] = decode_nvfp4,
};

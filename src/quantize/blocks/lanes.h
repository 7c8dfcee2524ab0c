// Sixteen floats that move together: what the searches are written in. Private.
//
// Each operation is one IEEE operation a lane, so the plain loops at the end are the definition and the two instruction
// sets cannot differ from them; multiplies and adds are fused only where nothing is rounded. A search puts sixteen
// candidates in the lanes and walks the values in order; where the lanes hold sixteen values, their sum folds halves:
// lane l takes lane l + 8, then l + 4, l + 2, l + 1. Pick one of FM_LANES_AVX512, FM_LANES_AVX2 or neither before
// including.
//
// lanes_min, lanes_max give the second operand when either is NaN or both are equal. lanes_least, lanes_most and
// lanes_first_least must not be given NaN; of a plus and a minus zero they may give either, so callers let no sign of a
// zero reach a result. lanes_rint goes to nearest even, for magnitudes below 2^22.
// lanes_add_whole: sum + a * b of whole numbers, both below 2^24, so exact whether fused or not.
// lanes_store_i8 wants whole numbers that fit. lanes_iq4: the nearest value of iq4's table, midpoints to the lower.
#ifndef FM_QUANTIZE_BLOCKS_LANES_H
#define FM_QUANTIZE_BLOCKS_LANES_H
#include "quantize/blocks/half.h"

// Between each table value and the next.
static const float iq4_midpoints[16] = {-115.5f, -93.5f, -74,   -57,   -42, -28.5f, -16, -4.5f,
                                        7,       19,     31.5f, 45.5f, 61,  79,     101, 1e30f};

#if defined(FM_LANES_AVX512)
#include <immintrin.h>
typedef __m512 lanes;
static inline lanes lanes_all(float a)
{
    return _mm512_set1_ps(a);
}
static inline lanes lanes_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline void lanes_store(float *p, lanes a)
{
    _mm512_storeu_ps(p, a);
}
static inline lanes lanes_add(lanes a, lanes b)
{
    return _mm512_add_ps(a, b);
}
static inline lanes lanes_sub(lanes a, lanes b)
{
    return _mm512_sub_ps(a, b);
}
static inline lanes lanes_mul(lanes a, lanes b)
{
    return _mm512_mul_ps(a, b);
}
static inline lanes lanes_add_whole(lanes sum, lanes a, lanes b)
{
    return _mm512_fmadd_ps(a, b, sum);
}
static inline lanes lanes_div(lanes a, lanes b)
{
    return _mm512_div_ps(a, b);
}
static inline lanes lanes_min(lanes a, lanes b)
{
    return _mm512_min_ps(a, b);
}
static inline lanes lanes_max(lanes a, lanes b)
{
    return _mm512_max_ps(a, b);
}
static inline lanes lanes_rint(lanes a)
{
    return _mm512_roundscale_ps(a, 8);
}
static inline lanes lanes_if_greater(lanes a, lanes b, lanes yes, lanes no)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes);
}
static inline float lanes_least(lanes a)
{
    return _mm512_reduce_min_ps(a);
}
static inline float lanes_most(lanes a)
{
    return _mm512_reduce_max_ps(a);
}
static inline float lanes_sum(lanes a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
static inline int lanes_first_least(lanes a, float *value)
{
    *value = _mm512_reduce_min_ps(a);
    return __builtin_ctz(_mm512_cmp_ps_mask(a, _mm512_set1_ps(*value), _CMP_EQ_OQ));
}
static inline float lanes_at(lanes a, int lane)
{
    return _mm512_cvtss_f32(_mm512_permutexvar_ps(_mm512_set1_epi32(lane), a));
}
static inline void lanes_store_i8(int8_t *p, lanes a)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a)));
}
static inline lanes lanes_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
static inline lanes lanes_iq4(lanes t)
{
    const __m512 middle = _mm512_loadu_ps(iq4_midpoints);
    const __m512i values = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)iq4_values));
    __m512i i = _mm512_maskz_mov_epi32(_mm512_cmp_ps_mask(t, _mm512_set1_ps(iq4_midpoints[7]), _CMP_GT_OQ),
                                       _mm512_set1_epi32(8));
    for (int half = 4; half; half /= 2) {
        __m512 m = _mm512_permutexvar_ps(_mm512_add_epi32(i, _mm512_set1_epi32(half - 1)), middle);
        i = _mm512_mask_add_epi32(i, _mm512_cmp_ps_mask(t, m, _CMP_GT_OQ), i, _mm512_set1_epi32(half));
    }
    return _mm512_cvtepi32_ps(_mm512_permutexvar_epi32(i, values));
}

#elif defined(FM_LANES_AVX2)
#include <immintrin.h>
typedef struct {
    __m256 a, b;
} lanes;
static inline lanes lanes_all(float a)
{
    return (lanes){_mm256_set1_ps(a), _mm256_set1_ps(a)};
}
static inline lanes lanes_load(const float *p)
{
    return (lanes){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
static inline void lanes_store(float *p, lanes x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
static inline lanes lanes_add(lanes x, lanes y)
{
    return (lanes){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
static inline lanes lanes_sub(lanes x, lanes y)
{
    return (lanes){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
static inline lanes lanes_mul(lanes x, lanes y)
{
    return (lanes){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
static inline lanes lanes_add_whole(lanes sum, lanes x, lanes y)
{
    return (lanes){_mm256_fmadd_ps(x.a, y.a, sum.a), _mm256_fmadd_ps(x.b, y.b, sum.b)};
}
static inline lanes lanes_div(lanes x, lanes y)
{
    return (lanes){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
static inline lanes lanes_min(lanes x, lanes y)
{
    return (lanes){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
static inline lanes lanes_max(lanes x, lanes y)
{
    return (lanes){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
static inline lanes lanes_rint(lanes x)
{
    return (lanes){_mm256_round_ps(x.a, 8), _mm256_round_ps(x.b, 8)};
}
static inline lanes lanes_if_greater(lanes x, lanes y, lanes yes, lanes no)
{
    return (lanes){_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ)),
                   _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ))};
}
static inline float lanes_least(lanes x)
{
    __m256 b = _mm256_min_ps(x.a, x.b);
    __m128 c = _mm_min_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_min_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_min_ss(c, _mm_movehdup_ps(c)));
}
static inline float lanes_most(lanes x)
{
    __m256 b = _mm256_max_ps(x.a, x.b);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
static inline float lanes_sum(lanes x)
{
    __m256 b = _mm256_add_ps(x.a, x.b);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
static inline int lanes_first_least(lanes x, float *value)
{
    *value = lanes_least(x);
    __m256 v = _mm256_set1_ps(*value);
    unsigned low = (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x.a, v, _CMP_EQ_OQ));
    unsigned high = (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x.b, v, _CMP_EQ_OQ));
    return __builtin_ctz(low | high << 8);
}
static inline float lanes_at(lanes x, int lane)
{
    float all[16]; // no branch on the lane, which nothing predicts
    lanes_store(all, x);
    return all[lane];
}
static inline void lanes_store_i8(int8_t *p, lanes x)
{
    __m256i w = _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)); // a0-3 b0-3 a4-7 b4-7
    w = _mm256_permute4x64_epi64(w, 0xd8);
    _mm_storeu_si128((__m128i *)p, _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}
static inline lanes lanes_load_i8(const int8_t *p)
{
    __m128i v = _mm_loadu_si128((const __m128i *)p);
    return (lanes){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)),
                   _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)))};
}
static inline lanes lanes_iq4(lanes t)
{
    lanes v = lanes_all(iq4_values[0]);
    for (int i = 0; i < 15; i++)
        v = lanes_if_greater(t, lanes_all(iq4_midpoints[i]), lanes_all(iq4_values[i + 1]), v);
    return v;
}

#else
#include <string.h>
typedef struct {
    float f[16];
} lanes;
#define FM_LANES_EACH(expression) \
    lanes r;                      \
    for (int l = 0; l < 16; l++)  \
        r.f[l] = (expression);    \
    return r
static inline lanes lanes_all(float a)
{
    FM_LANES_EACH(a);
}
static inline lanes lanes_load(const float *p)
{
    FM_LANES_EACH(p[l]);
}
static inline void lanes_store(float *p, lanes a)
{
    memcpy(p, a.f, sizeof a.f);
}
static inline lanes lanes_add(lanes a, lanes b)
{
    FM_LANES_EACH(a.f[l] + b.f[l]);
}
static inline lanes lanes_sub(lanes a, lanes b)
{
    FM_LANES_EACH(a.f[l] - b.f[l]);
}
static inline lanes lanes_mul(lanes a, lanes b)
{
    FM_LANES_EACH(a.f[l] * b.f[l]);
}
static inline lanes lanes_add_whole(lanes sum, lanes a, lanes b)
{
    FM_LANES_EACH(sum.f[l] + a.f[l] * b.f[l]);
}
static inline lanes lanes_div(lanes a, lanes b)
{
    FM_LANES_EACH(a.f[l] / b.f[l]);
}
static inline lanes lanes_min(lanes a, lanes b)
{
    FM_LANES_EACH(a.f[l] < b.f[l] ? a.f[l] : b.f[l]);
}
static inline lanes lanes_max(lanes a, lanes b)
{
    FM_LANES_EACH(a.f[l] > b.f[l] ? a.f[l] : b.f[l]);
}
static inline lanes lanes_rint(lanes a)
{
    FM_LANES_EACH((a.f[l] + 0x1.8p23f) - 0x1.8p23f);
}
static inline lanes lanes_if_greater(lanes a, lanes b, lanes yes, lanes no)
{
    FM_LANES_EACH(a.f[l] > b.f[l] ? yes.f[l] : no.f[l]);
}
#undef FM_LANES_EACH
static inline int lanes_first_least(lanes a, float *value)
{
    int best = 0;
    for (int l = 1; l < 16; l++)
        if (a.f[l] < a.f[best])
            best = l;
    *value = a.f[best];
    return best;
}
static inline float lanes_least(lanes a)
{
    float value;
    (void)lanes_first_least(a, &value);
    return value;
}
static inline float lanes_most(lanes a)
{
    float most = a.f[0];
    for (int l = 1; l < 16; l++)
        most = a.f[l] > most ? a.f[l] : most;
    return most;
}
static inline float lanes_sum(lanes a)
{
    for (int half = 8; half; half /= 2)
        for (int l = 0; l < half; l++)
            a.f[l] += a.f[l + half];
    return a.f[0];
}
static inline float lanes_at(lanes a, int lane)
{
    return a.f[lane];
}
static inline void lanes_store_i8(int8_t *p, lanes a)
{
    for (int l = 0; l < 16; l++)
        p[l] = (int8_t)a.f[l];
}
static inline lanes lanes_load_i8(const int8_t *p)
{
    lanes r;
    for (int l = 0; l < 16; l++)
        r.f[l] = p[l];
    return r;
}
static inline lanes lanes_iq4(lanes t)
{
    for (int l = 0; l < 16; l++) {
        int i = 0;
        for (int half = 8; half; half /= 2)
            i += t.f[l] > iq4_midpoints[i + half - 1] ? half : 0;
        t.f[l] = iq4_values[i];
    }
    return t;
}
#endif
#endif

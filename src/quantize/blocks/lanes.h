// Sixteen floats that move together: what the searches are written in. Private.
//
// Each operation is one IEEE operation a lane, so the plain loops below are the definition and the two instruction
// sets cannot differ from them. There is no sum across lanes and no fused multiply-add: a search puts sixteen
// candidates in the lanes and walks the values in order. Pick one of FM_LANES_AVX512, FM_LANES_AVX2 or neither before
// including.
#ifndef FM_QUANTIZE_BLOCKS_LANES_H
#define FM_QUANTIZE_BLOCKS_LANES_H

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
static inline lanes lanes_div(lanes a, lanes b)
{
    FM_LANES_EACH(a.f[l] / b.f[l]);
}
// The second operand when either is NaN or both are equal, as the instructions have it.
static inline lanes lanes_min(lanes a, lanes b)
{
    FM_LANES_EACH(a.f[l] < b.f[l] ? a.f[l] : b.f[l]);
}
static inline lanes lanes_max(lanes a, lanes b)
{
    FM_LANES_EACH(a.f[l] > b.f[l] ? a.f[l] : b.f[l]);
}
// To the nearest whole number, ties to even; for magnitudes below 2^22 (callers clamp first).
static inline lanes lanes_rint(lanes a)
{
    FM_LANES_EACH((a.f[l] + 0x1.8p23f) - 0x1.8p23f);
}
static inline lanes lanes_if_greater(lanes a, lanes b, lanes yes, lanes no)
{
    FM_LANES_EACH(a.f[l] > b.f[l] ? yes.f[l] : no.f[l]);
}
#undef FM_LANES_EACH
#endif
#endif

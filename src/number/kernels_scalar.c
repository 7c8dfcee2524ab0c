#include "number/loops.h"

static void finish_stores(void) {} // there are only ordinary ones

static void f16_from_f32(size_t n, const float *x, uint16_t *out, bool saturate, bool past_cache)
{
    (void)past_cache;
    loop_f16_from_f32(n, x, out, saturate);
}

static void bf16_from_f32(size_t n, const float *x, uint16_t *out, bool saturate, bool past_cache)
{
    (void)past_cache;
    loop_bf16_from_f32(n, x, out, saturate);
}

static void small_from_f32(const fm_small *s, size_t n, const float *x, uint8_t *out, bool past_cache)
{
    (void)past_cache;
    loop_small_from_f32(s, n, x, out);
}

static void f32_from_f16(size_t n, const uint16_t *codes, float *x, bool past_cache)
{
    (void)past_cache;
    loop_f32_from_f16(n, codes, x);
}

static void f32_from_bf16(size_t n, const uint16_t *codes, float *x, bool past_cache)
{
    (void)past_cache;
    loop_f32_from_bf16(n, codes, x);
}

static void f32_from_small(const fm_small *s, size_t n, const uint8_t *codes, float *x, bool past_cache)
{
    (void)past_cache;
    loop_f32_from_small(s, n, codes, x);
}

const fm_number_kernels fm_number_kernels_scalar = {
    .name = "scalar",
    .finish_stores = finish_stores,
    .f16_from_f32 = f16_from_f32,
    .bf16_from_f32 = bf16_from_f32,
    .small_from_f32 = small_from_f32,
    .tf32_from_f32 = loop_tf32_from_f32,
    .int_from_f32 = loop_int_from_f32,
    .f32_from_f16 = f32_from_f16,
    .f32_from_bf16 = f32_from_bf16,
    .f32_from_small = f32_from_small,
    .dither16 = loop_dither16,
    .dither8 = loop_dither8,
    .random_blocks = loop_random_blocks,
    .extent = loop_extent,
    .tally = loop_tally,
    .count_tiny = loop_count_tiny,
    .f32_from_f64 = loop_f32_from_f64,
    .f32_from_f64_odd = loop_f32_from_f64_odd,
};

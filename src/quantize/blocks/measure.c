#include "quantize/blocks/measure.h"
#include <math.h>
#include "quantize/blocks/half.h"
#include "quantize/kernels.h"

// Where a format keeps what its faults and its limits are read from.
typedef struct {
    int d, m;           // offsets of the fp16 scales, -1 when there is none
    int codes, n_codes; // the bytes that hold codes: all fill_least, all fill_most decode to the block's limits
    uint8_t fill_least, fill_most;
    int n_levels;
} shape;

#define AT(name, field) (int)offsetof(fm_block_##name, field)
static const shape shapes[FM_BLOCK_N] = {
    [FM_BLOCK_F16] = {0, -1, 0, 0, 0, 0, 0},
    [FM_BLOCK_BF16] = {-1, -1, 0, 0, 0, 0, 0},
    [FM_BLOCK_Q8_0] = {AT(q8_0, d), -1, AT(q8_0, qs), 32, 0x81, 0x7f, 255},
    [FM_BLOCK_Q4_0] = {AT(q4_0, d), -1, AT(q4_0, qs), 16, 0x00, 0xff, 16},
    [FM_BLOCK_Q4_1] = {AT(q4_1, d), AT(q4_1, m), AT(q4_1, qs), 16, 0x00, 0xff, 16},
    [FM_BLOCK_Q5_0] = {AT(q5_0, d), -1, AT(q5_0, qh), 20, 0x00, 0xff, 32},
    [FM_BLOCK_Q5_1] = {AT(q5_1, d), AT(q5_1, m), AT(q5_1, qh), 20, 0x00, 0xff, 32},
    [FM_BLOCK_Q2_K] = {AT(q2_k, d), AT(q2_k, dmin), AT(q2_k, qs), 64, 0x00, 0xff, 4},
    [FM_BLOCK_Q3_K] = {AT(q3_k, d), -1, AT(q3_k, hmask), 96, 0x00, 0xff, 8},
    [FM_BLOCK_Q4_K] = {AT(q4_k, d), AT(q4_k, dmin), AT(q4_k, qs), 128, 0x00, 0xff, 16},
    [FM_BLOCK_Q5_K] = {AT(q5_k, d), AT(q5_k, dmin), AT(q5_k, qh), 160, 0x00, 0xff, 32},
    [FM_BLOCK_Q6_K] = {AT(q6_k, d), -1, AT(q6_k, ql), 192, 0x00, 0xff, 64},
    [FM_BLOCK_IQ4_NL] = {AT(iq4_nl, d), -1, AT(iq4_nl, qs), 16, 0x00, 0xff, 16},
    [FM_BLOCK_IQ4_XS] = {AT(iq4_xs, d), -1, AT(iq4_xs, qs), 128, 0x00, 0xff, 16},
    [FM_BLOCK_MXFP4] = {-1, -1, AT(mxfp4, qs), 16, 0xff, 0x77, 16},
    [FM_BLOCK_NVFP4] = {-1, -1, AT(nvfp4, qs), 32, 0xff, 0x77, 16},
};

// Does the stored scale fail to hold what the block's values need? Infinite or NaN in the exact formats; held at the
// greatest finite value in the searched ones and in nvfp4.
static bool scale_overflows(const fm_block_format *f, const float *x, const uint8_t *block)
{
    const shape *s = &shapes[f->type];
    uint16_t limit = f->exact ? 0x7c00 : 0x7bff;
    if (s->d >= 0 && (read_u16(block + s->d) & 0x7fff) >= limit)
        return true;
    if (s->m >= 0 && (read_u16(block + s->m) & 0x7fff) >= limit)
        return true;
    if (f->type == FM_BLOCK_BF16)
        return (read_u16(block) & 0x7fff) >= 0x7f80;
    if (f->type == FM_BLOCK_NVFP4)
        for (int g = 0; g < 4; g++) // 464 * 6: half a step past the largest scale times the largest code
            if (block[g] >= 0x7e && fm_block_largest_scalar(16, x + 16 * g) > bits_of(2784.0f))
                return true;
    return false;
}

static void count_non_finite(size_t n, const float *x, fm_block_faults *faults)
{
    for (size_t i = 0; i < n; i++)
        if ((bits_of(x[i]) & 0x7fffffff) >= 0x7f800000) {
            if (!faults->n_non_finite++)
                faults->first_non_finite = faults->n_elems + i;
        }
}

void fm_block_find_faults(const fm_block_format *f, fm_block_magnitude *largest, size_t n_blocks, const float *x,
                          const uint8_t *blocks, fm_block_faults *faults)
{
    size_t n = n_blocks * f->block_elems;
    // A scale of fp16 times the codes passes 2^15 only when a value does; no other block needs a look.
    uint32_t most = largest(n, x);
    if (most >= bits_of(2048.0f)) {
        if (most >= 0x7f800000)
            count_non_finite(n, x, faults);
        for (size_t b = 0; b < n_blocks; b++) {
            const float *xb = x + b * f->block_elems;
            if (fm_block_largest_scalar(f->block_elems, xb) < 0x7f800000 &&
                scale_overflows(f, xb, blocks + b * f->block_bytes)) {
                if (!faults->n_overflow++)
                    faults->first_overflow = faults->n_elems + b * f->block_elems;
            }
        }
    }
    faults->n_elems += n;
}

enum { MEASURE_ELEMS = 256, MEASURE_RUNS = MEASURE_ELEMS / FM_QUANTIZE_RUN };

// Half a step beyond the least and the most that a value's block can say.
static void limits_of(double least, double most, int n_levels, double *low, double *high)
{
    double lo = least < most ? least : most, hi = least < most ? most : least;
    double half_step = (hi - lo) / (2 * (n_levels - 1));
    *low = lo - half_step;
    *high = hi + half_step;
}

// The least float not below v, so that a float is below the one exactly when it is below the other.
static float float_up(double v)
{
    float f = (float)v;
    while ((double)f < v)
        f = fm_float_of_key(fm_key_of_bits((int32_t)bits_of(f)) + 1);
    return f;
}

// Value by value: for pieces that hold something infinite or NaN.
static void measure_slowly(size_t n, const float *x, const float *y, const float *low, const float *high,
                           fm_block_error *error)
{
    for (size_t i = 0; i < n; i++) {
        double v = x[i], e = (double)y[i] - v;
        error->n_zeroed += v != 0 && y[i] == 0;
        error->n_clipped += x[i] < low[i / FM_QUANTIZE_RUN] || x[i] > high[i / FM_QUANTIZE_RUN];
        if (!(e - e == 0)) { // on either side
            error->n_unmeasured++;
            continue;
        }
        double a = v < 0 ? -v : v, ae = e < 0 ? -e : e;
        error->sum_sq += v * v;
        error->sum_sq_err += e * e;
        error->max_abs = a > error->max_abs ? a : error->max_abs;
        error->max_abs_err = ae > error->max_abs_err ? ae : error->max_abs_err;
    }
}

// low, high [n / FM_QUANTIZE_RUN] of m blocks: what they decode to with all codes at either end.
static void find_limits(const fm_block_format *f, fm_block_decoder *decode, size_t m, const uint8_t *blocks, float *low,
                        float *high)
{
    const shape *s = &shapes[f->type];
    size_t n = m * f->block_elems;
    float least[MEASURE_ELEMS], most[MEASURE_ELEMS];
    uint8_t limit[MEASURE_ELEMS * 2];
    memcpy(limit, blocks, m * f->block_bytes);
    for (size_t i = 0; i < m; i++)
        memset(limit + i * f->block_bytes + s->codes, s->fill_least, (size_t)s->n_codes);
    decode(m, limit, least);
    for (size_t i = 0; i < m; i++)
        memset(limit + i * f->block_bytes + s->codes, s->fill_most, (size_t)s->n_codes);
    decode(m, limit, most);
    for (size_t i = 0; i < n; i += FM_QUANTIZE_RUN) {
        double lo, hi;
        limits_of(least[i], most[i], s->n_levels, &lo, &hi);
        low[i / FM_QUANTIZE_RUN] = float_up(lo);
        high[i / FM_QUANTIZE_RUN] = -float_up(-hi);
    }
}

void fm_block_measure(const fm_block_format *f, fm_block_decoder *decode, size_t n_blocks, const float *x,
                      const uint8_t *blocks, fm_block_error *error)
{
    const fm_quantize_kernels *k = fm_quantize_kernels_chosen();
    size_t step = MEASURE_ELEMS / f->block_elems;
    for (size_t b = 0; b < n_blocks; b += step, x += MEASURE_ELEMS, blocks += step * f->block_bytes) {
        size_t m = n_blocks - b < step ? n_blocks - b : step, n = m * f->block_elems;
        float y[MEASURE_ELEMS], low[MEASURE_RUNS], high[MEASURE_RUNS];
        decode(m, blocks, y);
        for (size_t i = 0; i < MEASURE_RUNS; i++) {
            low[i] = -HUGE_VALF;
            high[i] = HUGE_VALF;
        }
        if (shapes[f->type].n_levels)
            find_limits(f, decode, m, blocks, low, high);
        fm_quantize_run_sums sums = {.max_abs = error->max_abs, .max_abs_err = error->max_abs_err};
        error->n_elems += n;
        if (n % FM_QUANTIZE_RUN || !k->measure_runs(n / FM_QUANTIZE_RUN, x, y, low, high, &sums)) {
            measure_slowly(n, x, y, low, high, error);
            continue;
        }
        error->n_zeroed += sums.n_zeroed;
        error->n_clipped += sums.n_clipped;
        error->sum_sq += sums.sum_sq;
        error->sum_sq_err += sums.sum_sq_err;
        error->max_abs = sums.max_abs;
        error->max_abs_err = sums.max_abs_err;
    }
}

void fm_block_faults_merge(fm_block_faults *sum, const fm_block_faults *more)
{
    if (!sum->n_non_finite && more->n_non_finite)
        sum->first_non_finite = sum->n_elems + more->first_non_finite;
    if (!sum->n_overflow && more->n_overflow)
        sum->first_overflow = sum->n_elems + more->first_overflow;
    sum->n_non_finite += more->n_non_finite;
    sum->n_overflow += more->n_overflow;
    sum->n_elems += more->n_elems;
}

void fm_block_error_merge(fm_block_error *sum, const fm_block_error *more)
{
    sum->n_elems += more->n_elems;
    sum->n_unmeasured += more->n_unmeasured;
    sum->sum_sq += more->sum_sq;
    sum->sum_sq_err += more->sum_sq_err;
    sum->max_abs_err = more->max_abs_err > sum->max_abs_err ? more->max_abs_err : sum->max_abs_err;
    sum->max_abs = more->max_abs > sum->max_abs ? more->max_abs : sum->max_abs;
    sum->n_zeroed += more->n_zeroed;
    sum->n_clipped += more->n_clipped;
}

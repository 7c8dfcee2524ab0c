#include "floodmark/quant_report.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "quantize/grid.h"

static bool is_finite(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return (u & 0x7f800000) != 0x7f800000;
}

static bool finite_row(uint64_t n, const float *x, const float *decoded)
{
    return fm_first_non_finite(n, x) == n && fm_first_non_finite(n, decoded) == n;
}

// all_finite: known of a whole row, so that short runs need not look.
static void add_run(fm_quant_error *e, bool all_finite, size_t n, const float *x, const float *decoded, float low,
                    float high)
{
    fm_quantize_sums sums = {.max_abs = (float)e->max_abs, .max_abs_err = (float)e->max_abs_err};
    const fm_quantize_kernels *k = fm_quantize_kernels_chosen();
    if (all_finite)
        k->measure(n, x, decoded, low, high, &sums);
    else
        for (size_t i = 0; i < n; i++)
            if (is_finite(x[i]) && is_finite(decoded[i]))
                k->measure(1, x + i, decoded + i, low, high, &sums);
            else
                e->n_unmeasured++;
    e->n_elems += n;
    e->n_zeroed += sums.n_zeroed;
    e->n_clipped += sums.n_clipped;
    e->sum_sq += sums.sum_sq;
    e->sum_sq_err += sums.sum_sq_err;
    e->max_abs = sums.max_abs;
    e->max_abs_err = sums.max_abs_err;
}

// How far beyond its largest code a grid still rounds to it, in units of the scale.
static float half_step(const fm_grid_desc *g)
{
    if (g->kind == FM_GRID_KIND_INTEGER)
        return 0.5f;
    if (g->kind == FM_GRID_KIND_TABLE)
        return 0x1p-20f;
    float step = 1;
    for (int i = g->fraction_bits - g->max_exponent; i > 0; i--)
        step /= 2;
    for (int i = g->max_exponent - g->fraction_bits; i > 0; i--)
        step *= 2;
    return step / 2;
}

static void limits(const fm_grid_desc *g, const fm_group_scale *s, float *low, float *high)
{
    float margin = half_step(g);
    *low = g->kind == FM_GRID_KIND_INTEGER ? (float)(g->low - s->zero) : -g->max;
    *high = g->kind == FM_GRID_KIND_INTEGER ? (float)(g->high - s->zero) : g->max;
    float scale = g->kind == FM_GRID_KIND_TABLE ? s->raw_scale : s->scale;
    float below = (*low - margin) * scale, above = (*high + margin) * scale;
    *low = below < above ? below : above; // a negative scale turns the range around
    *high = below < above ? above : below;
    if (scale == 0) {
        *low = -INFINITY;
        *high = INFINITY;
    }
}

void fm_quant_error_add(fm_quant_error *e, const fm_scheme *s, uint64_t rows, uint64_t cols, uint64_t stride,
                        const float *x, const float *decoded, const fm_group_scale *scales)
{
    if (!s || s->scale == FM_SCALE_NONE || s->granularity == FM_GRANULARITY_COLUMN) {
        for (uint64_t r = 0; r < rows; r++)
            add_run(e, finite_row(cols, x + r * stride, decoded + r * cols), cols, x + r * stride, decoded + r * cols,
                    -INFINITY, INFINITY);
        if (!s || s->scale == FM_SCALE_NONE)
            return;
        fm_grid_desc g = fm_grid_describe(s);
        enum { STRIP = 512 };
        for (uint64_t c = 0; c < cols; c += STRIP) {
            float low[STRIP], high[STRIP];
            size_t n = cols - c < STRIP ? cols - c : STRIP;
            for (size_t i = 0; i < n; i++)
                limits(&g, scales + c + i, low + i, high + i);
            for (uint64_t r = 0; r < rows; r++)
                e->n_clipped += fm_quantize_kernels_chosen()->count_outside(n, x + r * stride + c, low, high);
        }
        return;
    }
    fm_grid_desc g = fm_grid_describe(s);
    uint64_t group_rows = s->granularity == FM_GRANULARITY_TENSOR ? rows
                          : s->granularity == FM_GRANULARITY_TILE ? s->block_rows
                                                                  : 1;
    uint64_t group_cols = s->block_cols ? s->block_cols : cols, per_row = cols ? (cols - 1) / group_cols + 1 : 0;
    for (uint64_t r = 0; r < rows; r++) {
        bool finite = finite_row(cols, x + r * stride, decoded + r * cols);
        for (uint64_t c = 0, i = 0; c < cols; c += group_cols, i++) {
            float low, high;
            limits(&g, scales + r / group_rows * per_row + i, &low, &high);
            add_run(e, finite, cols - c < group_cols ? cols - c : group_cols, x + r * stride + c,
                    decoded + r * cols + c, low, high);
        }
    }
}

void fm_quant_error_merge(fm_quant_error *sum, const fm_quant_error *more)
{
    sum->n_elems += more->n_elems;
    sum->n_unmeasured += more->n_unmeasured;
    sum->n_zeroed += more->n_zeroed;
    sum->n_clipped += more->n_clipped;
    sum->n_saturated_scales += more->n_saturated_scales;
    sum->sum_sq += more->sum_sq;
    sum->sum_sq_err += more->sum_sq_err;
    if (more->max_abs_err > sum->max_abs_err)
        sum->max_abs_err = more->max_abs_err;
    if (more->max_abs > sum->max_abs)
        sum->max_abs = more->max_abs;
}

double fm_quant_rmse(const fm_quant_error *e)
{
    uint64_t n = e->n_elems - e->n_unmeasured;
    return n ? sqrt(e->sum_sq_err / (double)n) : 0;
}

double fm_quant_sqnr_db(const fm_quant_error *e)
{
    return e->sum_sq_err == 0 ? (double)INFINITY : fm_decibel(e->sum_sq, e->sum_sq_err);
}

enum { PROFILE_BLOCK = 32 };

void fm_quant_profile_add(fm_quant_profile *p, uint64_t rows, uint64_t cols, uint64_t stride, const float *x)
{
    for (uint64_t r = 0; r < rows; r++) {
        const float *row = x + r * stride;
        float row_max = 0;
        for (uint64_t c = 0; c < cols; c += PROFILE_BLOCK) {
            uint64_t n = cols - c < PROFILE_BLOCK ? cols - c : PROFILE_BLOCK;
            uint32_t bits = 0;
            for (uint64_t i = 0; i < n; i++) {
                uint32_t u;
                memcpy(&u, row + c + i, 4);
                u &= 0x7fffffff;
                u = u < 0x7f800000 ? u : 0;
                bits = u > bits ? u : bits;
            }
            float max;
            memcpy(&max, &bits, 4);
            p->block_sum += (double)n * ((double)max * max);
            row_max = max > row_max ? max : row_max;
        }
        if (p->column_max)
            for (uint64_t c = 0; c < cols; c++) {
                float a = fabsf(row[c]);
                p->column_max[c] = a > p->column_max[c] && a < INFINITY ? a : p->column_max[c];
            }
        p->row_sum += (double)cols * ((double)row_max * row_max);
        p->max = row_max > p->max ? row_max : p->max;
    }
    p->n_elems += rows * cols;
}

void fm_quant_profile_merge(fm_quant_profile *sum, const fm_quant_profile *more, uint64_t cols)
{
    sum->n_elems += more->n_elems;
    sum->row_sum += more->row_sum;
    sum->block_sum += more->block_sum;
    sum->max = more->max > sum->max ? more->max : sum->max;
    if (sum->column_max && more->column_max)
        for (uint64_t c = 0; c < cols; c++)
            if (more->column_max[c] > sum->column_max[c])
                sum->column_max[c] = more->column_max[c];
}

static int compare_floats(const void *a, const void *b)
{
    float x, y;
    memcpy(&x, a, 4);
    memcpy(&y, b, 4);
    return (x > y) - (x < y);
}

fm_status fm_quant_advise(const fm_quant_profile *p, uint64_t rows, uint64_t cols, fm_quant_advice *out, fm_err *err)
{
    *out = (fm_quant_advice){.largest_ratio = 1};
    double whole = (double)p->n_elems * ((double)p->max * p->max);
    if (whole == 0) {
        for (int i = 0; i < FM_N_GRANULARITIES; i++)
            out->noise[i] = 1;
        return FM_OK;
    }
    enum { ENOUGH = 16 }; // a scale of its own for fewer values costs as much as it gains
    double columns = whole;
    if (p->column_max && cols) {
        float *sorted = fm_alloc_array(cols, sizeof *sorted);
        if (!sorted)
            return fm_fail_memory(err, "columns of a tensor");
        memcpy(sorted, p->column_max, cols * sizeof *sorted);
        qsort(sorted, cols, sizeof *sorted, compare_floats);
        float median = sorted[(cols - 1) / 2];
        columns = 0;
        for (uint64_t c = 0; c < cols; c++) {
            columns += (double)rows * ((double)sorted[c] * sorted[c]);
            out->n_outlier_columns += median > 0 && sorted[c] >= FM_OUTLIER_RATIO * median;
        }
        out->largest_ratio = median > 0 ? sorted[cols - 1] / median : 1;
        fm_free(sorted);
    }
    if (rows < ENOUGH)
        columns = whole;
    for (int i = 0; i < FM_N_GRANULARITIES; i++)
        out->noise[i] = 1;
    out->noise[FM_GRANULARITY_ROW] = cols < ENOUGH ? 1 : p->row_sum / whole;
    out->noise[FM_GRANULARITY_COLUMN] = columns / whole;
    out->noise[FM_GRANULARITY_BLOCK] = out->noise[FM_GRANULARITY_FLAT] = p->block_sum / whole;
    out->noise[FM_GRANULARITY_TILE] = p->row_sum / whole;
    return FM_OK;
}

fm_granularity fm_quant_better(const fm_quant_advice *a, fm_granularity now)
{
    static const fm_granularity order[] = {FM_GRANULARITY_ROW, FM_GRANULARITY_COLUMN, FM_GRANULARITY_BLOCK};
    for (int i = 0; i < 3; i++)
        if (order[i] != now && a->noise[order[i]] * 4 <= a->noise[now])
            return order[i];
    return now;
}

#include "floodmark/calibrate.h"
#include <string.h>
#include "base/alloc.h"
#include "base/checked.h"
#include "quantize/grid.h"
#include "quantize/range.h"
#include "quantize/scale.h"

static const int32_t no_low = INT32_MAX, no_high = INT32_MIN;

fm_status fm_check_weights(const fm_scheme *s, const float *weights, fm_err *err)
{
    if (s->calibration == FM_CALIBRATION_WEIGHTED && !weights)
        return fm_fail(err, FM_ERR_VALUE, "weighted calibration needs the importance of each column");
    return FM_OK;
}

// ---- groups in memory ----

typedef struct {
    const fm_scheme *s;
    const fm_grid_desc *g;
    const float *x, *weights;
    uint64_t rows, cols, stride;
    float global;
} group;

static void extremes(const group *v, float *lo, float *hi)
{
    const fm_quantize_kernels *k = fm_quantize_kernels_chosen();
    int32_t low = no_low, high = no_high;
    for (uint64_t r = 0; r < v->rows; r++)
        k->extremes(v->cols, v->x + r * v->stride, &low, &high);
    *lo = fm_float_of_key(low);
    *hi = fm_float_of_key(high);
}

static fm_group_scale search(const group *v, float lo, float hi)
{
    int n = fm_scale_candidates(v->s);
    fm_group_scale best = fm_scale_candidate(v->s, v->g, lo, hi, v->global, 0);
    if (n == 1)
        return best;
    const float *weights = v->s->calibration == FM_CALIBRATION_WEIGHTED ? v->weights : NULL;
    double least = 0;
    for (int i = 0; i < n; i++) {
        fm_group_scale one = fm_scale_candidate(v->s, v->g, lo, hi, v->global, i);
        double sum = 0;
        for (uint64_t r = 0; r < v->rows; r++)
            sum += fm_grid_error(v->g, v->cols, v->x + r * v->stride, weights, one.scale, one.zero);
        if (i == 0 || sum < least) {
            least = sum;
            best = one;
        }
    }
    return best;
}

static void percentile_range(const group *v, float *lo, float *hi)
{
    fm_select selects[FM_SELECTS_ASYMMETRIC];
    uint64_t n = v->rows * v->cols;
    fm_selects_init(v->s, n, selects);
    for (int pass = 0; pass < FM_SELECT_PASSES; pass++) {
        for (uint64_t r = 0; r < v->rows; r++)
            fm_selects_feed(v->s, selects, pass, v->cols, v->x + r * v->stride);
        fm_selects_next(v->s, selects, pass);
    }
    fm_selects_range(v->s, n, selects, lo, hi);
}

static float larger_magnitude(float lo, float hi)
{
    return -lo > hi ? -lo : hi;
}

static fm_status kl_range(const group *v, float *lo, float *hi, fm_err *err)
{
    uint64_t *bins = fm_calloc(FM_KL_BINS, sizeof *bins);
    if (!bins)
        return fm_fail_memory(err, "entropy calibration");
    float a = larger_magnitude(*lo, *hi);
    for (uint64_t r = 0; r < v->rows; r++)
        fm_kl_feed(bins, a, v->cols, v->x + r * v->stride);
    *hi = fm_kl_threshold(v->s, v->g, bins, a);
    *lo = -*hi;
    fm_free(bins);
    return FM_OK;
}

fm_status fm_calibrate_described(const fm_scheme *s, const fm_grid_desc *g, const float *x, uint64_t rows,
                                 uint64_t cols, uint64_t stride, const float *weights, float global,
                                 fm_group_scale *out, fm_err *err)
{
    group v = {s, g, x, weights, rows, cols, stride, global};
    float lo, hi;
    if (s->calibration == FM_CALIBRATION_PERCENTILE)
        percentile_range(&v, &lo, &hi);
    else
        extremes(&v, &lo, &hi);
    fm_status status;
    if (s->calibration == FM_CALIBRATION_KL && (status = kl_range(&v, &lo, &hi, err)))
        return status;
    *out = search(&v, lo, hi);
    return FM_OK;
}

fm_status fm_calibrate_group(const fm_scheme *s, const float *x, uint64_t rows, uint64_t cols, uint64_t stride,
                             const float *weights, float global, fm_group_scale *out, fm_err *err)
{
    fm_grid_desc g = fm_grid_describe(s);
    fm_status status = fm_check_weights(s, weights, err);
    return status ? status : fm_calibrate_described(s, &g, x, rows, cols, stride, weights, global, out, err);
}

// ---- groups that come in pieces ----

// What a pass does with the values.
typedef enum { EXTREMES, SELECT, ERRORS, HISTOGRAM, DONE } stage;

struct fm_calibrator {
    fm_scheme s;
    fm_grid_desc g;
    uint64_t n_rows, n_cols, n_groups;
    const float *weights;
    float global;
    stage stage;
    int pass, n_candidates;
    int32_t *low, *high; // [n_groups]
    fm_select *selects;  // [n_groups * selects a group]
    uint64_t *bins;      // [n_groups * FM_KL_BINS]
    double *sum;         // [n_candidates * n_groups]
    double *lanes;       // [n_candidates * FM_QUANTIZE_LANES]: of the row at hand (tensor)
    uint64_t fed;        // values of the row at hand (tensor)
    float *scale;        // [n_candidates * n_groups], with zero: what is tried
    int32_t *zero;
};

static int selects_per_group(const fm_calibrator *c)
{
    return c->s.asymmetric ? FM_SELECTS_ASYMMETRIC : FM_SELECTS_SYMMETRIC;
}

static bool reserve(fm_calibrator *c)
{
    uint64_t n = c->n_groups, tried = n * (uint64_t)c->n_candidates;
    c->low = fm_alloc_array(n, sizeof *c->low);
    c->high = fm_alloc_array(n, sizeof *c->high);
    if (!c->low || !c->high)
        return false;
    if (c->s.calibration == FM_CALIBRATION_PERCENTILE &&
        !(c->selects = fm_alloc_array(n * (uint64_t)selects_per_group(c), sizeof *c->selects)))
        return false;
    if (c->s.calibration == FM_CALIBRATION_KL && !(c->bins = fm_calloc(n * FM_KL_BINS, sizeof *c->bins)))
        return false;
    if (c->n_candidates == 1)
        return true;
    c->sum = fm_calloc(tried, sizeof *c->sum);
    c->scale = fm_alloc_array(tried, sizeof *c->scale);
    c->zero = fm_alloc_array(tried, sizeof *c->zero);
    c->lanes = fm_calloc((uint64_t)c->n_candidates * FM_QUANTIZE_LANES, sizeof *c->lanes);
    return c->sum && c->scale && c->zero && c->lanes;
}

fm_status fm_calibrator_create(const fm_scheme *s, uint64_t n_rows, uint64_t n_cols, const float *weights, float global,
                               fm_calibrator **out, fm_err *err)
{
    fm_status status = fm_check_weights(s, weights, err);
    if (status)
        return status;
    if (s->granularity != FM_GRANULARITY_TENSOR && s->granularity != FM_GRANULARITY_COLUMN)
        return fm_fail(err, FM_ERR_VALUE, "calibration in pieces is for granularity tensor and column, not %s",
                       fm_granularity_name(s->granularity));
    fm_calibrator *c = fm_calloc(1, sizeof *c);
    if (!c)
        return fm_fail_memory(err, "calibration");
    *c = (fm_calibrator){.s = *s, .g = fm_grid_describe(s), .n_rows = n_rows, .n_cols = n_cols, .global = global};
    c->n_groups = s->granularity == FM_GRANULARITY_TENSOR ? 1 : n_cols;
    c->n_candidates = fm_scale_candidates(s);
    c->weights = s->calibration == FM_CALIBRATION_WEIGHTED ? weights : NULL;
    c->stage = s->calibration == FM_CALIBRATION_PERCENTILE ? SELECT : EXTREMES;
    if (!reserve(c)) {
        fm_calibrator_destroy(c);
        return fm_fail_memory(err, "calibration");
    }
    for (uint64_t i = 0; i < c->n_groups; i++) {
        c->low[i] = no_low;
        c->high[i] = no_high;
        if (c->selects)
            fm_selects_init(s, n_rows * n_cols / c->n_groups, c->selects + i * (uint64_t)selects_per_group(c));
    }
    *out = c;
    return FM_OK;
}

void fm_calibrator_destroy(fm_calibrator *c)
{
    if (!c)
        return;
    fm_free(c->low);
    fm_free(c->high);
    fm_free(c->selects);
    fm_free(c->bins);
    fm_free(c->sum);
    fm_free(c->lanes);
    fm_free(c->scale);
    fm_free(c->zero);
    fm_free(c);
}

static float group_magnitude(const fm_calibrator *c, uint64_t i)
{
    return larger_magnitude(fm_float_of_key(c->low[i]), fm_float_of_key(c->high[i]));
}

void fm_calibrator_feed_part(fm_calibrator *c, const float *x, uint64_t n)
{
    const float *weights = c->weights ? c->weights + c->fed : NULL;
    c->fed += n;
    bool whole = c->fed == c->n_cols;
    if (whole)
        c->fed = 0;
    switch (c->stage) {
    case EXTREMES:
        fm_quantize_kernels_chosen()->extremes(n, x, c->low, c->high);
        break;
    case SELECT:
        fm_selects_feed(&c->s, c->selects, c->pass, n, x);
        break;
    case HISTOGRAM:
        fm_kl_feed(c->bins, group_magnitude(c, 0), n, x);
        break;
    case ERRORS:
        for (int i = 0; i < c->n_candidates; i++) {
            double *lanes = c->lanes + i * FM_QUANTIZE_LANES;
            fm_grid_error_add(&c->g, n, x, weights, c->scale[i], c->zero[i], lanes);
            if (whole) {
                c->sum[i] += fm_grid_error_total(lanes);
                memset(lanes, 0, FM_QUANTIZE_LANES * sizeof *lanes);
            }
        }
        break;
    case DONE:
        break;
    }
}

// One value of each column. A sum over a column takes one value a row: lane 0 alone, so plain addition in row order.
static void feed_columns_row(fm_calibrator *c, const float *x)
{
    const fm_quantize_kernels *k = fm_quantize_kernels_chosen();
    uint64_t n = c->n_cols;
    switch (c->stage) {
    case EXTREMES:
        k->extremes_columns(n, x, c->low, c->high);
        break;
    case SELECT:
        for (uint64_t i = 0; i < n; i++)
            fm_selects_feed(&c->s, c->selects + i * (uint64_t)selects_per_group(c), c->pass, 1, x + i);
        break;
    case HISTOGRAM:
        for (uint64_t i = 0; i < n; i++)
            fm_kl_feed(c->bins + i * FM_KL_BINS, group_magnitude(c, i), 1, x + i);
        break;
    case ERRORS:
        for (int t = 0; t < c->n_candidates; t++) {
            const float *scale = c->scale + (uint64_t)t * n;
            if (c->g.kind == FM_GRID_KIND_INTEGER)
                k->error_int_columns(&c->g, n, x, scale, c->zero + (uint64_t)t * n, c->sum + (uint64_t)t * n);
            else
                k->error_float_columns(&c->g, n, x, scale, c->sum + (uint64_t)t * n);
        }
        break;
    case DONE:
        break;
    }
}

void fm_calibrator_feed(fm_calibrator *c, const float *x, uint64_t n_rows, uint64_t stride)
{
    for (uint64_t r = 0; r < n_rows; r++)
        if (c->s.granularity == FM_GRANULARITY_TENSOR)
            fm_calibrator_feed_part(c, x + r * stride, c->n_cols);
        else
            feed_columns_row(c, x + r * stride);
}

static void group_range(const fm_calibrator *c, uint64_t i, float *lo, float *hi)
{
    if (c->selects) {
        fm_selects_range(&c->s, c->n_rows * c->n_cols / c->n_groups, c->selects + i * (uint64_t)selects_per_group(c),
                         lo, hi);
        return;
    }
    *lo = fm_float_of_key(c->low[i]);
    *hi = fm_float_of_key(c->high[i]);
}

static void prepare_candidates(fm_calibrator *c)
{
    for (uint64_t i = 0; i < c->n_groups; i++) {
        float lo, hi;
        group_range(c, i, &lo, &hi);
        for (int t = 0; t < c->n_candidates; t++) {
            fm_group_scale one = fm_scale_candidate(&c->s, &c->g, lo, hi, c->global, t);
            c->scale[(uint64_t)t * c->n_groups + i] = one.scale;
            c->zero[(uint64_t)t * c->n_groups + i] = one.zero;
        }
    }
}

bool fm_calibrator_next(fm_calibrator *c)
{
    if (c->stage == SELECT) {
        for (uint64_t i = 0; i < c->n_groups; i++)
            fm_selects_next(&c->s, c->selects + i * (uint64_t)selects_per_group(c), c->pass);
        if (++c->pass < FM_SELECT_PASSES)
            return true;
        c->stage = DONE;
    } else if (c->stage == EXTREMES && c->bins) {
        c->stage = HISTOGRAM;
        return true;
    } else if (c->stage == EXTREMES && c->n_candidates > 1) {
        prepare_candidates(c);
        c->stage = ERRORS;
        return true;
    }
    c->stage = DONE;
    return false;
}

void fm_calibrator_finish(fm_calibrator *c, fm_group_scale *scales)
{
    for (uint64_t i = 0; i < c->n_groups; i++) {
        float lo, hi;
        group_range(c, i, &lo, &hi);
        if (c->bins) {
            hi = fm_kl_threshold(&c->s, &c->g, c->bins + i * FM_KL_BINS, group_magnitude(c, i));
            lo = -hi;
        }
        int best = 0;
        for (int t = 1; t < c->n_candidates; t++)
            if (c->sum[(uint64_t)t * c->n_groups + i] < c->sum[(uint64_t)best * c->n_groups + i])
                best = t;
        scales[i] = fm_scale_candidate(&c->s, &c->g, lo, hi, c->global, best);
    }
}

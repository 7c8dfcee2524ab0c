// What quantizing cost: error measures of a tensor, what shape its outliers have, and a picture of the error by layer.
#ifndef FLOODMARK_QUANT_REPORT_H
#define FLOODMARK_QUANT_REPORT_H
#include "floodmark/quantize.h"

#ifdef __cplusplus
extern "C" {
#endif

// Sums over values. Starts zeroed; measured piece by piece and merged in the tensor's order, so that they are the same
// for any number of threads. Values that are not finite, before or after, are counted and left out of the rest.
typedef struct {
    uint64_t n_elems;
    uint64_t n_unmeasured;
    uint64_t n_zeroed;           // other than zero before, zero after
    uint64_t n_clipped;          // beyond the group's largest code by more than half a step
    uint64_t n_saturated_scales; // scales clamped to what their type holds
    double sum_sq;               // of the values
    double sum_sq_err;           // of decoded - value
    double max_abs_err;
    double max_abs;
} fm_quant_error;

// Adds a piece: x and its decoded values, [rows, cols] (x with `stride`). With a scheme, scales as for
// fm_quantize_decode; without (NULL, NULL) nothing counts as clipped.
void fm_quant_error_add(fm_quant_error *e, const fm_scheme *s, uint64_t rows, uint64_t cols, uint64_t stride,
                        const float *x, const float *decoded, const fm_group_scale *scales);
void fm_quant_error_merge(fm_quant_error *sum, const fm_quant_error *more);

double fm_quant_rmse(const fm_quant_error *e);    // 0 for no values
double fm_quant_sqnr_db(const fm_quant_error *e); // 10 log10(sum_sq / sum_sq_err); +infinity when exact

// The shape of a tensor's magnitudes: which granularity would suit it. Pieces may be profiled in any order by any number
// of profiles and merged: maxima do not mind, and sums are kept as pieces that the caller merges in order.
typedef struct {
    uint64_t n_elems;
    float max;         // of all
    double row_sum;    // sum over rows of n * max^2
    double block_sum;  // sum over blocks of 32 in a row of n * max^2
    float *column_max; // [cols], of the caller
} fm_quant_profile;

// Adds rows [rows, cols] to *p; column_max [cols] must have been zeroed (NULL: not wanted).
void fm_quant_profile_add(fm_quant_profile *p, uint64_t rows, uint64_t cols, uint64_t stride, const float *x);
void fm_quant_profile_merge(fm_quant_profile *sum, const fm_quant_profile *more, uint64_t cols);

// A column is an outlier when its largest magnitude is at least 6 times the median of the columns'.
enum { FM_OUTLIER_RATIO = 6 };

typedef struct {
    uint64_t n_outlier_columns;
    float largest_ratio;              // of a column's largest magnitude to the median
    double noise[FM_N_GRANULARITIES]; // expected squared error of an even grid, relative to one scale a tensor:
                                      // sum of n * max^2 over groups; tensor, row, column, block (of 32);
                                      // 1 for rows or columns of fewer than 16 values
} fm_quant_advice;

// FM_ERR_NO_MEMORY.
fm_status fm_quant_advise(const fm_quant_profile *p, uint64_t rows, uint64_t cols, fm_quant_advice *out,
                          fm_err *err) FM_MUST_USE;

// The coarsest granularity (tensor, row, column, block) that an even grid would gain at least 6 dB from over `now`;
// `now` itself when none does.
fm_granularity fm_quant_better(const fm_quant_advice *a, fm_granularity now);

// One bar of the picture.
typedef struct {
    const char *name; // of the tensor; its layer is the first number between dots
    double sqnr_db;   // +infinity: exact, drawn at the top
    const char *format;
} fm_quant_bar;

// An SVG of the error by layer: SQNR in dB, one line for each kind of tensor. *svg is a zero-ended text for fm_free (of
// base/alloc.h; free does too). FM_ERR_NO_MEMORY.
fm_status fm_quant_svg(size_t n, const fm_quant_bar *bars, const char *title, char **svg, fm_err *err) FM_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif

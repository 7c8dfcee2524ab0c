// Calibration: from the values of a group to its range, hence its scale and zero point.
//
// Arithmetic is fp32 unless said; sums are fp64 in a stated order, so that scales are the same bytes everywhere. The
// logarithm of kl is our own; nothing here calls the mathematics library.
//
//   absmax      lo, hi: the smallest and largest value.
//   percentile  symmetric: hi = percentile p of |x|, lo = -hi; asymmetric: percentiles 100-p and p. Linear between the
//               two nearest order statistics, in fp64, then rounded to fp32: numpy's default.
//   mse         for i = 0 .. 79: lo and hi times fp32(1 - i/100), scale and zero point from those, as stored; the first i
//               with the smallest sum of (x - decoded)^2 (difference fp32, square and sum fp64).
//   weighted    the same with each column's square multiplied by its importance (>= 0).
//   kl          2048 bins of |x| over [0, A]; for each threshold T at bins 128, 144, .. 2048: P the bins below T with all
//               beyond added to the last; Q spreads P's mass evenly over the occupied bins whose middle decodes to the
//               same value; the first T with the smallest sum P log(P/Q). Symmetric schemes only. (Migacz, 8-bit
//               Inference with TensorRT, 2017, for any grid.)
//
// From range to scale: symmetric A = max(|lo|,|hi|), scale = A / (largest code); asymmetric lo = min(lo,0),
// hi = max(hi,0), scale = (hi-lo) / (2^b-1), zero = clamp(rint(-lo/scale)). A scale of zero becomes 1 (tables: stays 0).
// Order of a sum over a group: within a row 8 lanes (value j of the row's part in lane j mod 8) added pairwise, then rows
// in order.
#ifndef FLOODMARK_CALIBRATE_H
#define FLOODMARK_CALIBRATE_H
#include "floodmark/scheme.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FM_CALIBRATION_CANDIDATES = 80 };

// What calibration found for one group.
typedef struct {
    float scale;        // as stored: what decoding multiplies by. nvfp4: the product with the tensor's scale
    float raw_scale;    // before it was rounded to its storage type
    int32_t zero;       // asymmetric; else 0
    uint8_t grid_index; // mse, weighted: i; else 0
    uint8_t code;       // scale e8m0, e4m3: the byte that is stored; else 0
    bool saturated;     // the scale did not fit its storage type and was clamped
} fm_group_scale;

// One group that is in memory: `rows` parts of `cols` values, `stride` values apart. weights [cols] or NULL (needed by
// weighted). global: nvfp4's tensor scale, else ignored. Values must be finite. n = rows * cols > 0.
// FM_ERR_NO_MEMORY (kl, and percentile of large groups), FM_ERR_VALUE (weighted without weights).
fm_status fm_calibrate_group(const fm_scheme *s, const float *x, uint64_t rows, uint64_t cols, uint64_t stride,
                             const float *weights, float global, fm_group_scale *out, fm_err *err) FM_MUST_USE;

// Groups that do not fit in memory: the whole tensor (tensor) or a range of its columns (column). The caller feeds all
// rows in order, any number at a time, once a pass, until no pass is left:
//     do { for each piece: fm_calibrator_feed } while (fm_calibrator_next(c));  fm_calibrator_finish(c, scales)
// Gives what fm_calibrate_group gives, to the bit, whatever the pieces and threads.
typedef struct fm_calibrator fm_calibrator;

// granularity must be tensor or column. n_cols: those the caller will feed (column: at most 4096 keep memory under
// 40 MB). weights [n_cols] borrowed until destroyed, or NULL. FM_ERR_NO_MEMORY, FM_ERR_VALUE.
fm_status fm_calibrator_create(const fm_scheme *s, uint64_t n_rows, uint64_t n_cols, const float *weights, float global,
                               fm_calibrator **out, fm_err *err) FM_MUST_USE;
void fm_calibrator_destroy(fm_calibrator *c);

// x: n_rows parts of n_cols values, `stride` apart.
void fm_calibrator_feed(fm_calibrator *c, const float *x, uint64_t n_rows, uint64_t stride);
// tensor: the next n values of a row that is fed in parts, from its first to its last; every part but a row's last one a
// multiple of 8 values.
void fm_calibrator_feed_part(fm_calibrator *c, const float *x, uint64_t n);
bool fm_calibrator_next(fm_calibrator *c);

// scales [1] (tensor) or [n_cols] (column).
void fm_calibrator_finish(fm_calibrator *c, fm_group_scale *scales);

// Natural logarithm of a positive, finite, normal x: error below 1e-15 relative to max(1, |log x|); same bits everywhere.
double fm_log(double x);
// 10 log10 of a ratio of two non-negative numbers, for reports: 0/0 is 0, x/0 is +infinity, 0/x is -infinity.
double fm_decibel(double numerator, double denominator);

#ifdef __cplusplus
}
#endif
#endif

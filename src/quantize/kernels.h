// The loops of the quantizer, one row of the table an instruction set. Private.
//
// The same C (kernels_body.h) is compiled for each set with floating contraction off, so that the rows agree to the bit
// by construction; a test compares them all the same. Rounding uses the 1.5 * 2^23 trick: no call, nearest even.
#ifndef FM_QUANTIZE_KERNELS_H
#define FM_QUANTIZE_KERNELS_H
#include <stddef.h>
#include <stdint.h>

enum { FM_QUANTIZE_LANES = 8 };

// A grid with what encoding needs. `values` [2^bits] by code (float, table); `cut` [n_cuts] ascending and `rank_code`
// [n_cuts + 1] (table): v takes the code of the number of cuts below it.
typedef struct {
    int kind; // fm_grid_kind
    unsigned bits;
    int low, high;                   // integer codes; asymmetric ones from 0
    int is_signed;                   // integer codes are int8_t
    int fraction_bits, exponent_min; // float: of the smallest normal
    float max;                       // largest magnitude: high, largest finite, 1
    float range;      // what the scale divides the largest magnitude by (full range: half the code range)
    int max_exponent; // floor(log2 max)
    unsigned n_cuts;
    const float *values, *cut;
    const uint8_t *rank_code;
} fm_grid_desc;

// What `measure` adds to: fm_quant_error's figures.
typedef struct {
    double sum_sq, sum_sq_err;
    float max_abs, max_abs_err;
    uint64_t n_zeroed, n_clipped;
} fm_quantize_sums;

// What `measure_runs` adds to: fm_block_error's figures.
typedef struct {
    double sum_sq, sum_sq_err, max_abs, max_abs_err;
    uint64_t n_zeroed, n_clipped;
} fm_quantize_run_sums;

enum { FM_QUANTIZE_RUN = 16 }; // values that surely share a block format's limits

typedef struct {
    const char *name;
    // Smallest and largest value as ordered keys (fm_key_of): NaN and infinities sort past the finite ones.
    void (*extremes)(size_t n, const float *x, int32_t *low, int32_t *high);
    // The same of each column: low [n], high [n].
    void (*extremes_columns)(size_t n, const float *x, int32_t *low, int32_t *high);
    void (*encode_int)(const fm_grid_desc *g, size_t n, const float *x, float scale, int32_t zero, uint8_t *codes);
    void (*encode_float)(const fm_grid_desc *g, size_t n, const float *x, float scale, uint8_t *codes);
    void (*encode_table)(const fm_grid_desc *g, size_t n, const float *x, float scale, uint8_t *codes);
    void (*encode_int_columns)(const fm_grid_desc *g, size_t n, const float *x, const float *scale, const int32_t *zero,
                               uint8_t *codes);
    void (*encode_float_columns)(const fm_grid_desc *g, size_t n, const float *x, const float *scale, uint8_t *codes);
    // decoded - x, squared, times weights[] unless NULL: value i is added to lane i mod FM_QUANTIZE_LANES of sums.
    void (*error_int)(const fm_grid_desc *g, size_t n, const float *x, const float *weights, float scale, int32_t zero,
                      double *sums);
    void (*error_float)(const fm_grid_desc *g, size_t n, const float *x, const float *weights, float scale,
                        double *sums);
    // The same for each column by itself: sum[i] += (decoded - x[i])^2.
    void (*error_int_columns)(const fm_grid_desc *g, size_t n, const float *x, const float *scale, const int32_t *zero,
                              double *sum);
    void (*error_float_columns)(const fm_grid_desc *g, size_t n, const float *x, const float *scale, double *sum);
    void (*decode_int)(const fm_grid_desc *g, size_t n, const uint8_t *codes, float scale, int32_t zero, float *out);
    void (*decode_int_columns)(const fm_grid_desc *g, size_t n, const uint8_t *codes, const float *scale,
                               const int32_t *zero, float *out);
    // Values below their low or above their high; n below 2^32.
    uint64_t (*count_outside)(size_t n, const float *x, const float *low, const float *high);
    // Adds finite values and what they decode to. A value below low or above high is clipped.
    void (*measure)(size_t n, const float *x, const float *decoded, float low, float high, fm_quantize_sums *sums);
    // The same for runs of FM_QUANTIZE_RUN values, each with its low and high. 0, and nothing added, when a value is not
    // finite.
    int (*measure_runs)(size_t n_runs, const float *x, const float *decoded, const float *low, const float *high,
                        fm_quantize_run_sums *sums);
} fm_quantize_kernels;

extern const fm_quantize_kernels fm_quantize_kernels_scalar;
#if defined(__x86_64__)
extern const fm_quantize_kernels fm_quantize_kernels_avx2;
extern const fm_quantize_kernels fm_quantize_kernels_avx512;
#endif

// The row in use, chosen once by base/cpu.h.
const fm_quantize_kernels *fm_quantize_kernels_chosen(void);

// Keys whose order as int32 is the order of floats (-0 just below +0), and back.
static inline int32_t fm_key_of_bits(int32_t b)
{
    return b ^ ((b >> 31) & 0x7fffffff);
}
static inline float fm_float_of_key(int32_t key)
{
    union {
        int32_t i;
        float f;
    } u = {.i = fm_key_of_bits(key)};
    return u.f;
}
#endif

#include "floodmark/quantize.h"
#include <string.h>
#include "base/alloc.h"
#include "quantize/grid.h"
#include "quantize/scale.h"

// The shape of a group of one scheme in a matrix of `cols` columns (and `rows` rows, for tensor and column).
typedef struct {
    uint64_t rows, cols;
} shape;

static shape group_shape(const fm_scheme *s, uint64_t rows, uint64_t cols)
{
    switch (s->granularity) {
    case FM_GRANULARITY_TENSOR:
        return (shape){rows, cols};
    case FM_GRANULARITY_ROW:
        return (shape){1, cols};
    case FM_GRANULARITY_COLUMN:
        return (shape){rows, 1};
    case FM_GRANULARITY_TILE:
        return (shape){s->block_rows, s->block_cols};
    default:
        return (shape){1, s->block_cols};
    }
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}
static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void fm_scheme_groups(const fm_scheme *s, uint64_t rows, uint64_t cols, uint64_t *group_rows, uint64_t *group_cols)
{
    if (s->granularity == FM_GRANULARITY_FLAT) {
        cols *= rows;
        rows = rows > 0;
    }
    shape g = group_shape(s, rows, cols);
    *group_rows = g.rows ? divide_up(rows, g.rows) : 0;
    *group_cols = g.cols ? divide_up(cols, g.cols) : 0;
}

// The whole tensor and columns go through the calibrator even when they are in memory: one definition, and columns at a
// pace of rows.
enum { COLUMNS_AT_ONCE = 4096 };

static fm_status calibrate_long(const fm_scheme *s, uint64_t rows, uint64_t cols, uint64_t stride, const float *x,
                                const float *weights, float global, fm_group_scale *scales, fm_err *err)
{
    uint64_t step = s->granularity == FM_GRANULARITY_COLUMN ? COLUMNS_AT_ONCE : cols;
    for (uint64_t c0 = 0; c0 < cols; c0 += step) {
        fm_calibrator *c;
        fm_status status =
            fm_calibrator_create(s, rows, smaller(step, cols - c0), weights ? weights + c0 : NULL, global, &c, err);
        if (status)
            return status;
        do
            fm_calibrator_feed(c, x + c0, rows, stride);
        while (fm_calibrator_next(c));
        fm_calibrator_finish(c, scales + (s->granularity == FM_GRANULARITY_COLUMN ? c0 : 0));
        fm_calibrator_destroy(c);
    }
    return FM_OK;
}

fm_status fm_quantize_calibrate(const fm_scheme *s, uint64_t rows, uint64_t cols, uint64_t stride, const float *x,
                                const float *weights, float global, fm_group_scale *scales, fm_err *err)
{
    if (rows == 0 || cols == 0)
        return FM_OK;
    if (s->granularity == FM_GRANULARITY_TENSOR || s->granularity == FM_GRANULARITY_COLUMN)
        return calibrate_long(s, rows, cols, stride, x, weights, global, scales, err);
    shape g = group_shape(s, rows, cols);
    fm_grid_desc grid = fm_grid_describe(s);
    fm_status status = fm_check_weights(s, weights, err);
    for (uint64_t r = 0; r < rows; r += g.rows)
        for (uint64_t c = 0; c < cols && !status; c += g.cols)
            status = fm_calibrate_described(s, &grid, x + r * stride + c, smaller(g.rows, rows - r),
                                            smaller(g.cols, cols - c), stride, weights ? weights + c : NULL, global,
                                            scales++, err);
    return status;
}

// Index of the dynamic8 value nearest to v.
static uint8_t dynamic8_code(float v)
{
    fm_scheme s = {.grid = FM_GRID_DYNAMIC8};
    fm_grid_desc g = fm_grid_describe(&s);
    uint8_t code;
    fm_grid_encode(&g, 1, &v, 1, 0, &code);
    return code;
}

enum { SCALES_A_BLOCK = 256 };

void fm_scales_sum(uint64_t n, const fm_group_scale *scales, double *sum)
{
    for (uint64_t b = 0; b < n; b += SCALES_A_BLOCK) {
        double part = 0;
        for (uint64_t i = b; i < smaller(n, b + SCALES_A_BLOCK); i++)
            part += (double)scales[i].raw_scale;
        *sum += part;
    }
}

float fm_scales_mean(double sum, uint64_t n)
{
    return n ? (float)(sum / (double)n) : 0;
}

void fm_scales_double(uint64_t n, fm_group_scale *scales, float offset, float *scale2)
{
    const float *table = fm_dynamic8_values();
    for (uint64_t b = 0; b < n; b += SCALES_A_BLOCK) {
        float largest = 0;
        uint64_t end = smaller(n, b + SCALES_A_BLOCK);
        for (uint64_t i = b; i < end; i++) {
            float d = scales[i].raw_scale - offset, a = d < 0 ? -d : d;
            largest = a > largest ? a : largest;
        }
        scale2[b / SCALES_A_BLOCK] = largest;
        for (uint64_t i = b; i < end; i++) {
            scales[i].code = largest > 0 ? dynamic8_code((scales[i].raw_scale - offset) / largest) : 0;
            scales[i].scale = table[scales[i].code] * largest + offset;
        }
    }
}

static float divisor(const fm_grid_desc *g, const fm_group_scale *s)
{
    return g->kind == FM_GRID_KIND_TABLE ? s->raw_scale : s->scale;
}

// A strip of columns at a time has its scales laid out as the kernels want them.
enum { STRIP = 512 };

static void encode_columns(const fm_grid_desc *g, uint64_t rows, uint64_t cols, uint64_t stride, const float *x,
                           const fm_group_scale *scales, uint8_t *codes)
{
    const fm_quantize_kernels *k = fm_quantize_kernels_chosen();
    float scale[STRIP];
    int32_t zero[STRIP];
    for (uint64_t c0 = 0; c0 < cols; c0 += STRIP) {
        size_t n = smaller(STRIP, cols - c0);
        for (size_t i = 0; i < n; i++) {
            scale[i] = scales[c0 + i].scale;
            zero[i] = scales[c0 + i].zero;
        }
        for (uint64_t r = 0; r < rows; r++)
            if (g->kind == FM_GRID_KIND_INTEGER)
                k->encode_int_columns(g, n, x + r * stride + c0, scale, zero, codes + r * cols + c0);
            else
                k->encode_float_columns(g, n, x + r * stride + c0, scale, codes + r * cols + c0);
    }
}

static void decode_columns(const fm_grid_desc *g, uint64_t rows, uint64_t cols, const uint8_t *codes,
                           const fm_group_scale *scales, float *out)
{
    const fm_quantize_kernels *k = fm_quantize_kernels_chosen();
    float scale[STRIP];
    int32_t zero[STRIP];
    for (uint64_t c0 = 0; c0 < cols; c0 += STRIP) {
        size_t n = smaller(STRIP, cols - c0);
        for (size_t i = 0; i < n; i++) {
            scale[i] = scales[c0 + i].scale;
            zero[i] = scales[c0 + i].zero;
        }
        for (uint64_t r = 0; r < rows; r++) {
            const uint8_t *in = codes + r * cols + c0;
            if (g->kind == FM_GRID_KIND_INTEGER)
                k->decode_int_columns(g, n, in, scale, zero, out + r * cols + c0);
            else
                for (size_t i = 0; i < n; i++)
                    out[r * cols + c0 + i] = g->values[in[i]] * scale[i];
        }
    }
}

void fm_quantize_encode(const fm_scheme *s, uint64_t rows, uint64_t cols, uint64_t stride, const float *x,
                        const fm_group_scale *scales, uint8_t *codes)
{
    if (rows == 0 || cols == 0)
        return;
    fm_grid_desc g = fm_grid_describe(s);
    if (s->granularity == FM_GRANULARITY_COLUMN) {
        encode_columns(&g, rows, cols, stride, x, scales, codes);
        return;
    }
    shape p = group_shape(s, rows, cols);
    uint64_t per_row = divide_up(cols, p.cols);
    for (uint64_t r = 0; r < rows; r++) {
        const fm_group_scale *row = scales + r / p.rows * per_row;
        for (uint64_t c = 0; c < cols; c += p.cols, row++)
            fm_grid_encode(&g, smaller(p.cols, cols - c), x + r * stride + c, divisor(&g, row), row->zero,
                           codes + r * cols + c);
    }
}

void fm_quantize_decode(const fm_scheme *s, uint64_t rows, uint64_t cols, const uint8_t *codes,
                        const fm_group_scale *scales, float *out)
{
    if (rows == 0 || cols == 0)
        return;
    fm_grid_desc g = fm_grid_describe(s);
    if (s->granularity == FM_GRANULARITY_COLUMN) {
        decode_columns(&g, rows, cols, codes, scales, out);
        return;
    }
    shape p = group_shape(s, rows, cols);
    uint64_t per_row = divide_up(cols, p.cols);
    for (uint64_t r = 0; r < rows; r++) {
        const fm_group_scale *row = scales + r / p.rows * per_row;
        for (uint64_t c = 0; c < cols; c += p.cols, row++)
            fm_grid_decode(&g, smaller(p.cols, cols - c), codes + r * cols + c, row->scale, row->zero,
                           out + r * cols + c);
    }
}

uint64_t fm_first_non_finite(uint64_t n, const float *x)
{
    enum { PIECE = 4096 };
    const fm_quantize_kernels *k = fm_quantize_kernels_chosen();
    for (uint64_t at = 0; at < n; at += PIECE) {
        int32_t low = 0, high = 0;
        size_t m = smaller(PIECE, n - at);
        k->extremes(m, x + at, &low, &high);
        if (high < 0x7f800000 && low > fm_key_of_bits((int32_t)0xff800000u))
            continue;
        for (size_t i = 0; i < m; i++) {
            uint32_t u;
            memcpy(&u, x + at + i, 4);
            if ((u & 0x7f800000) == 0x7f800000)
                return at + i;
        }
    }
    return n;
}

static float absmax_of(uint64_t n, const float *x)
{
    int32_t low = 0, high = 0;
    fm_quantize_kernels_chosen()->extremes(n, x, &low, &high);
    float lo = fm_float_of_key(low), hi = fm_float_of_key(high);
    return -lo > hi ? -lo : hi;
}

fm_status fm_quantize_matrix(const fm_scheme *s, uint64_t rows, uint64_t cols, const float *x, const float *weights,
                             uint8_t *codes, fm_group_scale *scales, fm_tensor_scale *t, fm_err *err)
{
    fm_status status = fm_scheme_check(s, err);
    if (status)
        return status;
    uint64_t n = rows * cols, bad = fm_first_non_finite(n, x);
    if (bad < n)
        return fm_fail_at(err, FM_ERR_VALUE, bad, 0, "value %llu is not finite", (unsigned long long)bad);
    t->global = s->scale == FM_SCALE_E4M3 ? fm_nvfp4_global(s, absmax_of(n, x)) : 1;
    t->offset = 0;
    if (s->granularity == FM_GRANULARITY_FLAT) {
        cols = n;
        rows = 1;
    }
    if ((status = fm_quantize_calibrate(s, rows, cols, cols, x, weights, t->global, scales, err)))
        return status;
    if (s->scale == FM_SCALE_DOUBLE) {
        uint64_t group_rows, group_cols;
        fm_scheme_groups(s, rows, cols, &group_rows, &group_cols);
        double sum = 0;
        fm_scales_sum(group_rows * group_cols, scales, &sum);
        t->offset = fm_scales_mean(sum, group_rows * group_cols);
        fm_scales_double(group_rows * group_cols, scales, t->offset, t->scale2);
    }
    fm_quantize_encode(s, rows, cols, cols, x, scales, codes);
    return FM_OK;
}

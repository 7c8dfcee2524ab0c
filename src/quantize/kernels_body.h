// Included once by each kernels_SET.c, which defines ROW (the table's name) and NAME, and is compiled for its set alone.
#include <string.h>
#include "quantize/kernels.h"

static const float magic = 12582912.0f; // 1.5 * 2^23: adding it leaves no room for a fraction

static inline uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

// rint(x/scale) kept within the codes, zero point taken off. NaN goes to the lowest code.
static inline float steps(float x, float scale, float low, float high)
{
    float v = x / scale;
    v = v > low ? v : low;
    v = v < high ? v : high;
    return (v + magic) - magic;
}

// The value of the float grid nearest to v, ties to the even code, saturating. The spacing near v is 2^(e - fraction):
// adding 2^(e - fraction + 23) rounds to it.
static inline float on_grid(const fm_grid_desc *g, float v)
{
    uint32_t sign = bits_of(v) & 0x80000000u;
    float a = float_of(bits_of(v) & 0x7fffffffu);
    a = a < g->max ? a : g->max;
    uint32_t e = bits_of(a) & 0x7f800000u, least = (uint32_t)(g->exponent_min + 127) << 23;
    e = e > least ? e : least;
    float c = float_of(e + ((uint32_t)(23 - g->fraction_bits) << 23));
    a = (a + c) - c;
    return float_of(bits_of(a) | sign);
}

static inline uint32_t code_on_grid(const fm_grid_desc *g, float v)
{
    float r = on_grid(g, v);
    uint32_t sign = bits_of(r) >> 31, u = bits_of(r) & 0x7fffffffu;
    float subnormal_unit = float_of((uint32_t)(127 + g->fraction_bits - g->exponent_min) << 23);
    uint32_t subnormal = (uint32_t)(int32_t)(float_of(u) * subnormal_unit);
    uint32_t normal = (u >> (23 - g->fraction_bits)) - ((uint32_t)(126 + g->exponent_min) << g->fraction_bits);
    uint32_t least = (uint32_t)(g->exponent_min + 127) << 23;
    return (u < least ? subnormal : normal) | sign << (g->bits - 1);
}

static void extremes(size_t n, const float *x, int32_t *low, int32_t *high)
{
    int32_t lo = *low, hi = *high;
    for (size_t i = 0; i < n; i++) {
        int32_t b;
        memcpy(&b, x + i, 4);
        int32_t k = fm_key_of_bits(b);
        lo = k < lo ? k : lo;
        hi = k > hi ? k : hi;
    }
    *low = lo;
    *high = hi;
}

static void extremes_columns(size_t n, const float *x, int32_t *low, int32_t *high)
{
    for (size_t i = 0; i < n; i++) {
        int32_t b;
        memcpy(&b, x + i, 4);
        int32_t k = fm_key_of_bits(b);
        low[i] = k < low[i] ? k : low[i];
        high[i] = k > high[i] ? k : high[i];
    }
}

// Runs are often one block of 16 or 32 values: pieces of that size are vectors too, not leftovers of wider ones.
enum { STEP = 16 };

static void encode_int(const fm_grid_desc *g, size_t n, const float *x, float scale, int32_t zero, uint8_t *codes)
{
    float low = (float)(g->low - zero), high = (float)(g->high - zero);
    size_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        int32_t wide[STEP];
        for (int l = 0; l < STEP; l++)
            wide[l] = (int32_t)steps(x[i + (size_t)l], scale, low, high) + zero;
        for (int l = 0; l < STEP; l++)
            codes[i + (size_t)l] = (uint8_t)wide[l];
    }
    for (; i < n; i++)
        codes[i] = (uint8_t)((int32_t)steps(x[i], scale, low, high) + zero);
}

static void encode_float(const fm_grid_desc *g, size_t n, const float *x, float scale, uint8_t *codes)
{
    const fm_grid_desc local = *g; // codes might alias *g
    size_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        uint32_t wide[STEP];
        for (int l = 0; l < STEP; l++)
            wide[l] = code_on_grid(&local, x[i + (size_t)l] / scale);
        for (int l = 0; l < STEP; l++)
            codes[i + (size_t)l] = (uint8_t)wide[l];
    }
    for (; i < n; i++)
        codes[i] = (uint8_t)code_on_grid(&local, x[i] / scale);
}

static void encode_table(const fm_grid_desc *g, size_t n, const float *x, float scale, uint8_t *codes)
{
    if (g->n_cuts == 15) {
        float cut[15];
        memcpy(cut, g->cut, sizeof cut);
        for (size_t i = 0; i < n; i++) {
            float v = x[i] / scale;
            int rank = 0;
            for (int k = 0; k < 15; k++)
                rank += v > cut[k];
            codes[i] = (uint8_t)rank;
        }
        for (size_t i = 0; i < n; i++)
            codes[i] = g->rank_code[codes[i]];
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float v = x[i] / scale;
        unsigned below = 0, above = g->n_cuts; // cuts[0..below) < v, cuts[above..) >= v
        while (below < above) {
            unsigned middle = (below + above) / 2;
            if (v > g->cut[middle])
                below = middle + 1;
            else
                above = middle;
        }
        codes[i] = g->rank_code[below];
    }
}

static void encode_int_columns(const fm_grid_desc *g, size_t n, const float *x, const float *scale, const int32_t *zero,
                               uint8_t *codes)
{
    int32_t low = g->low, high = g->high;
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint8_t)((int32_t)steps(x[i], scale[i], (float)(low - zero[i]), (float)(high - zero[i])) + zero[i]);
}

static void encode_float_columns(const fm_grid_desc *g, size_t n, const float *x, const float *scale, uint8_t *codes)
{
    const fm_grid_desc local = *g;
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint8_t)code_on_grid(&local, x[i] / scale[i]);
}

static double lanes_total(const double *a)
{
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

static void error_int(const fm_grid_desc *g, size_t n, const float *x, const float *weights, float scale, int32_t zero,
                      double *sums)
{
    double lane[FM_QUANTIZE_LANES];
    memcpy(lane, sums, sizeof lane);
    float low = (float)(g->low - zero), high = (float)(g->high - zero);
    size_t i = 0;
    if (weights) {
        for (; i < n; i++) {
            double e = x[i] - steps(x[i], scale, low, high) * scale;
            lane[i % 8] += e * e * weights[i];
        }
        memcpy(sums, lane, sizeof lane);
        return;
    }
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) {
            double e = x[i + l] - steps(x[i + l], scale, low, high) * scale;
            lane[l] += e * e;
        }
    for (; i < n; i++) {
        double e = x[i] - steps(x[i], scale, low, high) * scale;
        lane[i % 8] += e * e;
    }
    memcpy(sums, lane, sizeof lane);
}

static void error_float(const fm_grid_desc *g, size_t n, const float *x, const float *weights, float scale,
                        double *sums)
{
    const fm_grid_desc local = *g;
    double lane[FM_QUANTIZE_LANES];
    memcpy(lane, sums, sizeof lane);
    size_t i = 0;
    if (weights) {
        for (; i < n; i++) {
            double e = x[i] - on_grid(&local, x[i] / scale) * scale;
            lane[i % 8] += e * e * weights[i];
        }
        memcpy(sums, lane, sizeof lane);
        return;
    }
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) {
            double e = x[i + l] - on_grid(&local, x[i + l] / scale) * scale;
            lane[l] += e * e;
        }
    for (; i < n; i++) {
        double e = x[i] - on_grid(&local, x[i] / scale) * scale;
        lane[i % 8] += e * e;
    }
    memcpy(sums, lane, sizeof lane);
}

static void error_int_columns(const fm_grid_desc *g, size_t n, const float *x, const float *scale, const int32_t *zero,
                              double *sum)
{
    int32_t low = g->low, high = g->high;
    for (size_t i = 0; i < n; i++) {
        double e = x[i] - steps(x[i], scale[i], (float)(low - zero[i]), (float)(high - zero[i])) * scale[i];
        sum[i] += e * e;
    }
}

static void error_float_columns(const fm_grid_desc *g, size_t n, const float *x, const float *scale, double *sum)
{
    const fm_grid_desc local = *g;
    for (size_t i = 0; i < n; i++) {
        double e = x[i] - on_grid(&local, x[i] / scale[i]) * scale[i];
        sum[i] += e * e;
    }
}

static void decode_int(const fm_grid_desc *g, size_t n, const uint8_t *codes, float scale, int32_t zero, float *out)
{
    if (g->is_signed)
        for (size_t i = 0; i < n; i++)
            out[i] = (float)(int8_t)codes[i] * scale;
    else
        for (size_t i = 0; i < n; i++)
            out[i] = (float)((int32_t)codes[i] - zero) * scale;
}

static void decode_int_columns(const fm_grid_desc *g, size_t n, const uint8_t *codes, const float *scale,
                               const int32_t *zero, float *out)
{
    if (g->is_signed)
        for (size_t i = 0; i < n; i++)
            out[i] = (float)(int8_t)codes[i] * scale[i];
    else
        for (size_t i = 0; i < n; i++)
            out[i] = (float)((int32_t)codes[i] - zero[i]) * scale[i];
}

static uint64_t count_outside(size_t n, const float *x, const float *low, const float *high)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += (x[i] < low[i]) | (x[i] > high[i]);
    return count;
}

static void measure(size_t n, const float *x, const float *decoded, float low, float high, fm_quantize_sums *sums)
{
    double square[FM_QUANTIZE_LANES] = {0}, error[FM_QUANTIZE_LANES] = {0};
    uint32_t max_bits = 0, max_error_bits = 0, zeroed = 0, clipped = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) {
            double v = x[i + l], e = (double)decoded[i + l] - v;
            square[l] += v * v;
            error[l] += e * e;
        }
    for (; i < n; i++) {
        double v = x[i], e = (double)decoded[i] - v;
        square[i % 8] += v * v;
        error[i % 8] += e * e;
    }
    for (i = 0; i < n; i++) {
        uint32_t a = bits_of(x[i]) & 0x7fffffffu, e = bits_of(decoded[i] - x[i]) & 0x7fffffffu;
        max_bits = a > max_bits ? a : max_bits;
        max_error_bits = e > max_error_bits ? e : max_error_bits;
        zeroed += (x[i] != 0) & (decoded[i] == 0);
        clipped += (x[i] < low) | (x[i] > high);
    }
    sums->sum_sq += lanes_total(square);
    sums->sum_sq_err += lanes_total(error);
    float m = float_of(max_bits), me = float_of(max_error_bits);
    sums->max_abs = m > sums->max_abs ? m : sums->max_abs;
    sums->max_abs_err = me > sums->max_abs_err ? me : sums->max_abs_err;
    sums->n_zeroed += zeroed;
    sums->n_clipped += clipped;
}

static int measure_runs(size_t n_runs, const float *x, const float *decoded, const float *low, const float *high,
                        fm_quantize_run_sums *sums)
{
    double square[FM_QUANTIZE_LANES] = {0}, error[FM_QUANTIZE_LANES] = {0};
    uint32_t zeroed = 0, clipped = 0, max_bits = 0, max_decoded = 0, max_error = 0;
    size_t n = n_runs * FM_QUANTIZE_RUN;
    for (size_t i = 0; i < n; i++) {
        uint32_t a = bits_of(x[i]) & 0x7fffffffu, b = bits_of(decoded[i]) & 0x7fffffffu;
        uint32_t e = bits_of(decoded[i] - x[i]) & 0x7fffffffu;
        max_bits = a > max_bits ? a : max_bits;
        max_decoded = b > max_decoded ? b : max_decoded;
        max_error = e > max_error ? e : max_error;
        zeroed += (x[i] != 0) & (decoded[i] == 0);
    }
    if (max_bits >= 0x7f800000u || max_decoded >= 0x7f800000u)
        return 0;
    for (size_t i = 0; i < n; i += FM_QUANTIZE_LANES)
        for (int l = 0; l < FM_QUANTIZE_LANES; l++) {
            double v = x[i + l], e = (double)decoded[i + l] - v;
            square[l] += v * v;
            error[l] += e * e;
        }
    for (size_t r = 0; r < n_runs; r++)
        for (int i = 0; i < FM_QUANTIZE_RUN; i++) {
            float v = x[r * FM_QUANTIZE_RUN + i];
            clipped += (v < low[r]) | (v > high[r]);
        }
    // The largest error is wanted in fp64. Rounded to fp32 it orders the same, so few pieces need a second look.
    if (float_of(max_error) >= (float)sums->max_abs_err)
        for (size_t i = 0; i < n; i++) {
            double e = (double)decoded[i] - (double)x[i], a = e < 0 ? -e : e;
            sums->max_abs_err = a > sums->max_abs_err ? a : sums->max_abs_err;
        }
    double most = float_of(max_bits);
    sums->max_abs = most > sums->max_abs ? most : sums->max_abs;
    sums->sum_sq += lanes_total(square);
    sums->sum_sq_err += lanes_total(error);
    sums->n_zeroed += zeroed;
    sums->n_clipped += clipped;
    return 1;
}

const fm_quantize_kernels ROW = {.name = NAME,
                                 .extremes = extremes,
                                 .extremes_columns = extremes_columns,
                                 .encode_int = encode_int,
                                 .encode_float = encode_float,
                                 .encode_table = encode_table,
                                 .encode_int_columns = encode_int_columns,
                                 .encode_float_columns = encode_float_columns,
                                 .error_int = error_int,
                                 .error_float = error_float,
                                 .error_int_columns = error_int_columns,
                                 .error_float_columns = error_float_columns,
                                 .decode_int = decode_int,
                                 .decode_int_columns = decode_int_columns,
                                 .measure = measure,
                                 .measure_runs = measure_runs,
                                 .count_outside = count_outside};

// Walks every combination of grid, granularity, symmetry, scale and calibration: what the table allows must work and keep
// its promises, what it refuses must be refused by name. All bytes that come out are folded into one number that is
// written down here: it must be the same with every compiler, optimisation and instruction set.
#include <math.h>
#include "testing.h"
#include "floodmark/fake_quantize.h"
#include "floodmark/number.h"
#include "floodmark/quant_report.h"

enum { ROWS = 7, COLS = 70, N = ROWS * COLS };

static uint64_t digest = 0xcbf29ce484222325;

static void fold(const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        digest = (digest ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
}

// Roughly normal, one column ten times larger, one row of zeros, one row tiny, all from the counter-based generator.
static void fill(float *x)
{
    for (size_t i = 0; i < N; i++) {
        double sum = 0;
        for (size_t k = 0; k < 4; k++)
            sum += (double)fm_random_u32(7, i * 4 + k) * 0x1p-32 - 0.5;
        x[i] = (float)sum;
        if (i % COLS == 13)
            x[i] *= 10;
        if (i / COLS == 3)
            x[i] = 0;
        if (i / COLS == 5)
            x[i] *= 1e-6f;
    }
}

static uint64_t n_allowed, n_refused;
static float x[N], weights[COLS];

static uint64_t group_of(const fm_scheme *s, uint64_t i)
{
    uint64_t r = i / COLS, c = i % COLS;
    switch (s->granularity) {
    case FM_GRANULARITY_TENSOR:
        return 0;
    case FM_GRANULARITY_ROW:
        return r;
    case FM_GRANULARITY_COLUMN:
        return c;
    case FM_GRANULARITY_BLOCK:
        return r * ((COLS + s->block_cols - 1) / s->block_cols) + c / s->block_cols;
    case FM_GRANULARITY_TILE:
        return r / s->block_rows * ((COLS + s->block_cols - 1) / s->block_cols) + c / s->block_cols;
    default:
        return i / s->block_cols;
    }
}

// Each code is the nearest there is to x / scale, found by looking at all of them in fp64.
static void check_nearest(const fm_scheme *s, const uint8_t *codes, const fm_group_scale *scales)
{
    float values[256];
    bool integer = fm_grid_kind_of(s->grid) == FM_GRID_KIND_INTEGER,
         table = fm_grid_kind_of(s->grid) == FM_GRID_KIND_TABLE;
    int bits = (int)fm_grid_bits(s->grid), low = s->asymmetric   ? 0
                                                 : s->full_range ? -(1 << (bits - 1))
                                                                 : 1 - (1 << (bits - 1));
    int high = s->asymmetric ? (1 << bits) - 1 : (1 << (bits - 1)) - 1, n = integer ? high - low + 1 : 1 << bits;
    if (!integer)
        assert_int_equal(fm_grid_values(s->grid, values, NULL), FM_OK);
    for (uint64_t i = 0; i < N; i++) {
        const fm_group_scale *g = scales + group_of(s, i);
        double scale = (double)(table ? g->raw_scale : g->scale);
        if (scale == 0)
            continue;
        double v = (double)x[i] / scale, best = INFINITY;
        for (int k = 0; k < n; k++) {
            double value = integer ? low + k - g->zero : (double)values[k];
            if (isfinite(value) && fabs(v - value) < best)
                best = fabs(v - value);
        }
        int code = integer ? (s->asymmetric ? codes[i] : (int8_t)codes[i]) : codes[i];
        double mine = integer ? code - g->zero : (double)values[code];
        if (!(fabs(v - mine) <= best * (1 + 1e-6) + 1e-6 * fabs(mine)))
            fail_msg("value %g: code %d is %g away, the nearest is %g", (double)x[i], code, fabs(v - mine), best);
    }
}

static void check_pieces(const fm_scheme *s, const uint8_t *codes, const fm_group_scale *scales, float global)
{
    if (s->granularity == FM_GRANULARITY_TENSOR || s->granularity == FM_GRANULARITY_COLUMN) {
        fm_err err;
        fm_calibrator *c;
        fm_group_scale got[COLS] = {{0}};
        FM_ASSERT_OK(fm_calibrator_create(s, ROWS, COLS, weights, global, &c, &err));
        do {
            fm_calibrator_feed(c, x, 3, COLS);
            fm_calibrator_feed(c, x + 3 * COLS, ROWS - 3, COLS);
        } while (fm_calibrator_next(c));
        fm_calibrator_finish(c, got);
        fm_calibrator_destroy(c);
        if (s->scale != FM_SCALE_DOUBLE)
            for (uint64_t i = 0; i < (s->granularity == FM_GRANULARITY_TENSOR ? 1 : COLS); i++)
                assert_true(got[i].scale == scales[i].scale && got[i].zero == scales[i].zero &&
                            got[i].grid_index == scales[i].grid_index);
        // a column by itself, as one group in memory
        if (s->granularity == FM_GRANULARITY_COLUMN) {
            FM_ASSERT_OK(fm_calibrate_group(s, x + 13, ROWS, 1, COLS, weights + 13, global, got, &err));
            assert_true(got->raw_scale == scales[13].raw_scale && got->zero == scales[13].zero);
        }
    }
    if (s->granularity == FM_GRANULARITY_ROW || s->granularity == FM_GRANULARITY_BLOCK) {
        uint8_t part[COLS];
        uint64_t gr, gc;
        fm_scheme_groups(s, 1, COLS, &gr, &gc);
        for (uint64_t r = 0; r < ROWS; r++) {
            fm_quantize_encode(s, 1, COLS, COLS, x + r * COLS, scales + r * gc, part);
            assert_memory_equal(part, codes + r * COLS, COLS);
        }
    }
}

static void one(const fm_scheme *s)
{
    uint8_t codes[N];
    fm_group_scale scales[N] = {{0}};
    float scale2[N / 256 + 1] = {0}, decoded[N], faked[N];
    fm_tensor_scale t = {.scale2 = scale2};
    fm_err err = {0};
    char text[FM_SCHEME_TEXT_BYTES];
    fm_status status = fm_scheme_check(s, &err);
    if (status) {
        assert_int_equal(status, FM_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.message, fm_grid_name(s->grid)));
        assert_int_equal(fm_quantize_matrix(s, ROWS, COLS, x, weights, codes, scales, &t, &err), FM_ERR_UNSUPPORTED);
        n_refused++;
        return;
    }
    n_allowed++;
    FM_ASSERT_OK(fm_quantize_matrix(s, ROWS, COLS, x, weights, codes, scales, &t, &err));
    uint64_t gr, gc;
    fm_scheme_groups(s, ROWS, COLS, &gr, &gc);
    if (gr * gc > N)
        fail_msg("%s: too many groups", fm_scheme_text(s, text));
    check_nearest(s, codes, scales);
    check_pieces(s, codes, scales, t.global);
    bool flat = s->granularity == FM_GRANULARITY_FLAT;
    fm_quantize_decode(s, flat ? 1 : ROWS, flat ? N : COLS, codes, scales, decoded);
    fm_fake_quantize(s, ROWS, COLS, x, scales, faked);
    assert_memory_equal(decoded, faked, sizeof decoded);
    fm_quant_error e = {0};
    fm_quant_error_add(&e, s, flat ? 1 : ROWS, flat ? N : COLS, flat ? N : COLS, x, decoded, scales);
    assert_int_equal(e.n_elems, N);
    // Zero is a code, so rounding to it is the worst that can happen (one scale for a tensor with an outlier column does it
    // to nearly all else at four bits); eight bits keep much more.
    if (!(e.sum_sq_err < (fm_grid_bits(s->grid) == 8 && s->calibration == FM_CALIBRATION_ABSMAX ? 0.05 : 1) * e.sum_sq))
        fail_msg("%s: squared error %g of %g", fm_scheme_text(s, text), e.sum_sq_err, e.sum_sq);
    if (s->calibration == FM_CALIBRATION_ABSMAX && s->scale == FM_SCALE_FP32 && !s->asymmetric && !s->full_range)
        assert_true(e.n_clipped == 0);
    double bits = fm_scheme_bits_per_weight(s, ROWS, COLS);
    assert_true(bits >= fm_grid_bits(s->grid) && bits < fm_grid_bits(s->grid) + 33);
    assert_true(fm_scheme_layout(s, ROWS, COLS) < FM_N_LAYOUTS);
    fold(codes, sizeof codes);
    for (uint64_t i = 0; i < gr * gc; i++) {
        fold(&scales[i].scale, 4);
        fold(&scales[i].raw_scale, 4);
        fold(&scales[i].zero, 4);
        fold(&scales[i].code, 1);
    }
    fold(decoded, sizeof decoded);
    fold(&e.sum_sq_err, sizeof e.sum_sq_err);
}

static void every_combination(void **state)
{
    (void)state;
    fill(x);
    for (int c = 0; c < COLS; c++)
        weights[c] = (float)(1 + c % 5);
    static const struct {
        uint32_t rows, cols;
    } sizes[FM_N_GRANULARITIES][3] = {[FM_GRANULARITY_BLOCK] = {{1, 16}, {1, 32}, {1, 33}},
                                      [FM_GRANULARITY_TILE] = {{2, 32}, {3, 16}, {7, 70}},
                                      [FM_GRANULARITY_FLAT] = {{1, 64}, {1, 32}, {1, 256}}};
    for (int grid = 0; grid < FM_N_GRIDS; grid++)
        for (int granularity = 0; granularity < FM_N_GRANULARITIES; granularity++)
            for (int size = 0; size < 3; size++)
                for (int symmetry = 0; symmetry < 4; symmetry++)
                    for (int scale = 0; scale < FM_N_SCALES; scale++)
                        for (int mode = 0; mode < FM_N_E8M0_MODES; mode++)
                            for (int calibration = 0; calibration < FM_N_CALIBRATIONS; calibration++) {
                                if (size && !sizes[granularity][size].cols)
                                    continue;
                                if (mode && scale != FM_SCALE_E8M0 && !(mode == 1 && scale == FM_SCALE_E4M3))
                                    continue;
                                fm_scheme s = {.grid = (fm_grid)grid,
                                               .asymmetric = symmetry & 1,
                                               .full_range = symmetry >> 1,
                                               .granularity = (fm_granularity)granularity,
                                               .block_rows = sizes[granularity][size].rows,
                                               .block_cols = sizes[granularity][size].cols,
                                               .scale = (fm_scale)scale,
                                               .e8m0_mode = (fm_e8m0_mode)mode,
                                               .nvfp4 = mode ? FM_NVFP4_MULTIPLY : FM_NVFP4_DIVIDE,
                                               .calibration = (fm_calibration)calibration,
                                               .percentile = calibration == FM_CALIBRATION_PERCENTILE ? 99 : 0};
                                one(&s);
                            }
    printf("%llu combinations work, %llu are refused, digest %016llx\n", (unsigned long long)n_allowed,
           (unsigned long long)n_refused, (unsigned long long)digest);
    assert_int_equal(digest, 0xa3be4c3cab319fa7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_combination)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

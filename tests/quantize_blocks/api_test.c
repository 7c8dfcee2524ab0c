// The public calls: names, sizes, refusals, faults counted with their places, errors measured, cutting into calls.
#include <math.h>
#include "testing.h"
#include "floodmark/block_format.h"
#include "inputs.h"

static void formats_are_found(void **state)
{
    (void)state;
    for (int t = 0; t < FM_BLOCK_N; t++) {
        const fm_block_format *f = fm_block_format_of((fm_block_type)t);
        assert_ptr_equal(fm_block_format_by_name(f->name), f);
        assert_ptr_equal(fm_block_format_by_ggml_type(f->ggml_type), f);
        assert_int_equal(f->type, t);
        assert_non_null(fm_block_kernel(f));
    }
    assert_ptr_equal(fm_block_format_by_name("fp16"), fm_block_format_of(FM_BLOCK_F16));
    assert_null(fm_block_format_by_name("q4_K_M"));
    assert_null(fm_block_format_by_ggml_type(0));
    assert_null(fm_block_format_of(FM_BLOCK_N));
    assert_true(fm_block_bits_per_weight(fm_block_format_of(FM_BLOCK_Q4_K)) == 4.5);
}

static void broken_rows_are_refused(void **state)
{
    (void)state;
    fm_err err;
    float x[100] = {0};
    uint64_t bytes = 7;
    uint8_t out[100];
    const fm_block_format *q8 = fm_block_format_of(FM_BLOCK_Q8_0);
    FM_ASSERT_FAILS(fm_block_encode(q8, 1, 100, x, NULL, out, NULL, NULL, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_block_decode(q8, 100, out, x, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_block_bytes(q8, 33, &bytes, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_block_bytes(q8, UINT64_MAX - 31, &bytes, &err), FM_ERR_OVERFLOW);
    FM_ASSERT_FAILS(fm_block_encode(q8, UINT64_MAX / 2, 64, x, NULL, out, NULL, NULL, &err), FM_ERR_OVERFLOW);
    assert_int_equal(bytes, 7);
    FM_ASSERT_OK(fm_block_bytes(q8, 64, &bytes, &err));
    assert_int_equal(bytes, 68);
}

enum { ROWS = 5, COLS = 512, N = ROWS * COLS };
static float x[N], y[N], w[COLS];
static uint8_t a[2 * N], b[2 * N];

static void fill(void)
{
    uint64_t seed = 11;
    for (size_t i = 0; i < N; i++)
        x[i] = random_normal(&seed) * 0.03f;
    for (size_t i = 0; i < COLS; i++)
        w[i] = (float)(i % 7 + 1);
}

// Rows one by one, or all at once: the same bytes, faults and (in the order of the rows) errors.
static void cuts_do_not_show(void **state)
{
    (void)state;
    fm_err err;
    fill();
    x[3 * COLS + 40] = INFINITY;
    for (int t = 0; t < FM_BLOCK_N; t++)
        for (int weighted = 0; weighted < 2; weighted++) {
            const fm_block_format *f = fm_block_format_of((fm_block_type)t);
            size_t row = COLS / f->block_elems * f->block_bytes;
            fm_block_faults whole = {0}, cut = {0};
            fm_block_error e = {0}, sum = {0};
            FM_ASSERT_OK(fm_block_encode(f, ROWS, COLS, x, weighted ? w : NULL, a, &whole, &e, &err));
            for (size_t r = 0; r < ROWS; r++) {
                fm_block_faults one = {0};
                fm_block_error part = {0};
                FM_ASSERT_OK(
                    fm_block_encode(f, 1, COLS, x + r * COLS, weighted ? w : NULL, b + r * row, &one, &part, &err));
                fm_block_faults_merge(&cut, &one);
                fm_block_error_merge(&sum, &part);
            }
            assert_memory_equal(a, b, ROWS * row);
            assert_memory_equal(&whole, &cut, sizeof cut);
            assert_int_equal(whole.n_non_finite, 1);
            assert_int_equal(whole.first_non_finite, 3 * COLS + 40);
            assert_int_equal(whole.n_elems, N);
            assert_true(fabs(e.sum_sq_err - sum.sum_sq_err) <= 1e-12 * e.sum_sq_err);
            assert_int_equal(e.n_zeroed, sum.n_zeroed);
            assert_int_equal(e.n_clipped, sum.n_clipped);
        }
}

static void errors_are_those_of_the_values(void **state)
{
    (void)state;
    fm_err err;
    fill();
    for (int t = 0; t < FM_BLOCK_N; t++) {
        const fm_block_format *f = fm_block_format_of((fm_block_type)t);
        fm_block_error e = {0};
        double sum = 0, most = 0;
        uint64_t n_zeroed = 0;
        FM_ASSERT_OK(fm_block_encode(f, ROWS, COLS, x, NULL, a, NULL, &e, &err));
        FM_ASSERT_OK(fm_block_decode(f, N, a, y, &err));
        for (size_t i = 0; i < N; i++) {
            double d = (double)y[i] - (double)x[i];
            sum += d * d;
            most = fabs(d) > most ? fabs(d) : most;
            n_zeroed += y[i] == 0 && x[i] != 0;
        }
        assert_true(fabs(sum - e.sum_sq_err) <= 1e-12 * sum);
        assert_true(most == e.max_abs_err);
        assert_int_equal(n_zeroed, e.n_zeroed);
        assert_int_equal(e.n_elems, N);
        assert_int_equal(e.n_unmeasured, 0);
        assert_true(sqrt(e.sum_sq_err / e.sum_sq) < 0.35); // even two bits keep two thirds
    }
}

// A value that no scale of the format can hold is counted with the place of its block; ordinary ones are not.
static void overflow_is_found(void **state)
{
    (void)state;
    static const struct {
        fm_block_type type;
        float too_large;
    } cases[] = {{FM_BLOCK_F16, 65520},   {FM_BLOCK_BF16, 3.4e38f}, {FM_BLOCK_Q8_0, 9e6f},   {FM_BLOCK_Q4_0, 6e5f},
                 {FM_BLOCK_Q4_1, -66000}, {FM_BLOCK_Q5_0, 1.2e6f},  {FM_BLOCK_Q5_1, -66000}, {FM_BLOCK_Q2_K, 4e6f},
                 {FM_BLOCK_Q3_K, 2e7f},   {FM_BLOCK_Q4_K, 7e7f},    {FM_BLOCK_Q5_K, 2e8f},   {FM_BLOCK_Q6_K, 4e8f},
                 {FM_BLOCK_IQ4_NL, 9e6f}, {FM_BLOCK_IQ4_XS, 4e8f},  {FM_BLOCK_NVFP4, 2800}};
    fm_err err;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const fm_block_format *f = fm_block_format_of(cases[c].type);
        fm_block_faults faults = {0};
        fill();
        FM_ASSERT_OK(fm_block_encode(f, ROWS, COLS, x, NULL, a, &faults, NULL, &err));
        assert_int_equal(faults.n_overflow, 0);
        x[2 * COLS + 300] = cases[c].too_large;
        memset(&faults, 0, sizeof faults);
        FM_ASSERT_OK(fm_block_encode(f, ROWS, COLS, x, NULL, a, &faults, NULL, &err));
        if (faults.n_overflow != 1)
            fail_msg("%s: %llu blocks overflow", f->name, (unsigned long long)faults.n_overflow);
        assert_int_equal(faults.first_overflow, (2 * COLS + 300) / f->block_elems * f->block_elems);
        assert_int_equal(faults.n_non_finite, 0);
    }
}

// A value outside what its block can express is counted as clipped; the search may choose to clip, rounding may not.
static void clipping_is_counted(void **state)
{
    (void)state;
    fm_err err;
    fm_block_error e = {0};
    fill();
    FM_ASSERT_OK(fm_block_encode(fm_block_format_of(FM_BLOCK_Q8_0), ROWS, COLS, x, NULL, a, NULL, &e, &err));
    assert_int_equal(e.n_clipped, 0);
    memset(&e, 0, sizeof e);
    x[0] = 1e5f; // nvfp4 holds 2688 at most
    FM_ASSERT_OK(fm_block_encode(fm_block_format_of(FM_BLOCK_NVFP4), ROWS, COLS, x, NULL, a, NULL, &e, &err));
    assert_true(e.n_clipped >= 1 && e.max_abs_err > 9e4);
}

// Weights shift the error to where it costs least: the weighted error falls, against encoding without them.
static void weights_are_heeded(void **state)
{
    (void)state;
    static const fm_block_type types[] = {FM_BLOCK_Q4_0, FM_BLOCK_Q4_1,   FM_BLOCK_Q5_0,  FM_BLOCK_Q5_1,
                                          FM_BLOCK_Q2_K, FM_BLOCK_Q3_K,   FM_BLOCK_Q4_K,  FM_BLOCK_Q5_K,
                                          FM_BLOCK_Q6_K, FM_BLOCK_IQ4_NL, FM_BLOCK_IQ4_XS};
    fm_err err;
    fill();
    for (size_t i = 0; i < COLS; i++)
        w[i] = i % 8 ? 0.01f : 10.0f;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const fm_block_format *f = fm_block_format_of(types[t]);
        double cost[2] = {0, 0};
        for (int weighted = 0; weighted < 2; weighted++) {
            FM_ASSERT_OK(fm_block_encode(f, ROWS, COLS, x, weighted ? w : NULL, a, NULL, NULL, &err));
            FM_ASSERT_OK(fm_block_decode(f, N, a, y, &err));
            for (size_t i = 0; i < N; i++)
                cost[weighted] += (double)w[i % COLS] * ((double)y[i] - x[i]) * ((double)y[i] - x[i]);
        }
        if (!(cost[1] < 0.9 * cost[0]))
            fail_msg("%s: weighted error %g with weights, %g without", f->name, cost[1], cost[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_found),  cmocka_unit_test(broken_rows_are_refused),
        cmocka_unit_test(cuts_do_not_show),   cmocka_unit_test(errors_are_those_of_the_values),
        cmocka_unit_test(overflow_is_found),  cmocka_unit_test(clipping_is_counted),
        cmocka_unit_test(weights_are_heeded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

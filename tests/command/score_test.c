// The statistics of validate, and the judgement and drawing of a plan whose figures are made up.
#include "testing.h"
#include "command/plan_view.h"
#include "command/score.h"

static bool near(double a, double b)
{
    return a - b < 1e-12 && b - a < 1e-12;
}

static void test_score(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_score s;
    FM_ASSERT_OK(fm_score_rows(NULL, NULL, 0, &s, &err));
    assert_true(s.n == 0 && s.median_ape == 0 && s.p95_ape == 0 && s.max_ape == 0 && s.bias == 0);
    // Below 512 bytes the difference is a share of 512; no figure is ever infinite.
    assert_true(near(fm_score_ape(512, 0), 1));
    assert_true(near(fm_score_ape(0, 0), 0));
    assert_true(near(fm_score_signed(900, 1000), -0.1));
    assert_true(near(fm_score_ape(UINT64_MAX, 1), (double)(UINT64_MAX - 1) / 512));
    fm_score_row rows[100];
    for (int i = 0; i < 100; i++) // errors of 1 % to 100 %, every second one downward
        rows[i] = (fm_score_row){(uint64_t)(i % 2 ? 10000 - 100 * (i + 1) : 10000 + 100 * (i + 1)), 10000};
    FM_ASSERT_OK(fm_score_rows(rows, NULL, 100, &s, &err));
    assert_true(near(s.median_ape, 0.505));
    assert_true(near(s.p95_ape, 0.95)); // nearest rank: the 95th of 100
    assert_true(near(s.max_ape, 1));
    assert_true(near(s.bias, -0.005));
    const size_t pick[] = {0, 2, 4};
    FM_ASSERT_OK(fm_score_rows(rows, pick, 3, &s, &err));
    assert_true(near(s.median_ape, 0.03) && near(s.p95_ape, 0.05) && near(s.bias, 0.03));
    FM_ASSERT_OK(fm_score_rows(rows, pick, 1, &s, &err));
    assert_true(near(s.p95_ape, 0.01) && s.n == 1);
}

static const uint64_t series[] = {10, 20, 900, 40, 50, 60, 700, 80, 90, 100};

static fm_plan_view view_of(const fm_recipe *recipe, const fm_machine *machine, uint64_t peak)
{
    fm_plan_view v = {.model = "a <model>", .n_params = 1000, .recipe = recipe, .machine = machine, .peak_bytes = peak};
    v.phases[0] = (fm_view_phase){"init", 10, 10, 0};
    v.phases[1] = (fm_view_phase){"forward", peak, 50, 1};
    v.n_phases = 2;
    v.peak_phase = 1;
    v.steady = (fm_view_phase){"steady", 100, 90, 0};
    v.at_peak[0] = (fm_view_part){"parameters", "of the model", peak / 3};
    v.at_peak[1] = (fm_view_part){"weight_casts", "copies", peak - peak / 3};
    v.n_at_peak = 2;
    v.states.parameters = 4000;
    v.states.optimizer = 8000;
    v.series = series;
    v.n_series = sizeof series / sizeof series[0];
    return v;
}

static void test_verdict(void **state)
{
    (void)state;
    fm_machine m;
    fm_recipe r;
    fm_err err = {0};
    fm_recipe_init(&r);
    FM_ASSERT_OK(fm_machine_parse("8xA100-80GB", &m, &err));
    uint64_t memory = m.gpu.memory_bytes, reserve = (uint64_t)512 << 20, usable = memory - reserve;
    const struct {
        uint64_t peak;
        fm_verdict verdict;
        int64_t spare;
    } cases[] = {
        {0, FM_VERDICT_FITS, (int64_t)usable},
        {usable - usable / 10, FM_VERDICT_FITS, (int64_t)(usable / 10)},
        {usable - usable / 10 + 1, FM_VERDICT_TIGHT, (int64_t)(usable / 10 - 1)},
        {usable, FM_VERDICT_TIGHT, 0},
        {usable + 1, FM_VERDICT_DOES_NOT_FIT, -1},
        {UINT64_MAX, FM_VERDICT_DOES_NOT_FIT, -INT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fm_plan_view v = view_of(&r, &m, cases[i].peak);
        fm_view_verdict got = fm_view_judge(&v);
        assert_int_equal(got.verdict, cases[i].verdict);
        assert_true(got.spare_bytes == cases[i].spare);
        assert_false(got.host);
    }
    fm_plan_view v = view_of(&r, &m, 1000);
    v.host_peak_bytes = m.host_bytes / 8;
    assert_int_equal(fm_view_judge(&v).verdict, FM_VERDICT_FITS);
    v.host_peak_bytes++;
    assert_int_equal(fm_view_judge(&v).verdict, FM_VERDICT_DOES_NOT_FIT);
    assert_true(fm_view_judge(&v).host);
    v.host_peak_bytes = UINT64_MAX;
    assert_true(fm_view_judge(&v).host);
}

static void test_columns(void **state)
{
    (void)state;
    fm_machine m = {.gpu.memory_bytes = 1000};
    fm_recipe r;
    fm_recipe_init(&r);
    fm_plan_view v = view_of(&r, &m, 900);
    assert_int_equal(fm_view_column(&v, 0, 1), 900);
    assert_int_equal(fm_view_column(&v, 0, 2), 900);
    assert_int_equal(fm_view_column(&v, 1, 2), 700);
    // However the series is cut, the columns together show its highest and its last level.
    for (size_t columns = 1; columns < 37; columns++) {
        uint64_t top = 0;
        for (size_t c = 0; c < columns; c++) {
            uint64_t level = fm_view_column(&v, c, columns);
            top = level > top ? level : top;
        }
        assert_int_equal(top, 900);
        assert_true(fm_view_column(&v, columns - 1, columns) >= 100);
    }
}

// The outputs are well formed for odd widths and made-up figures: no line ends in a space, none is wider than asked.
static void test_outputs(void **state)
{
    (void)state;
    fm_machine m;
    fm_recipe r;
    fm_err err = {0};
    fm_recipe_init(&r);
    FM_ASSERT_OK(fm_machine_parse("8xA100-80GB", &m, &err));
    fm_recipe_site site = {.machine = m.text, .gpu = m.gpu.name, .world = m.world, .capability = m.gpu.capability};
    FM_ASSERT_OK(fm_recipe_resolve(&r, &site, &r, &err));
    static const uint64_t peaks[] = {0, 900, (uint64_t)70 << 30, (uint64_t)1 << 50};
    for (size_t p = 0; p < sizeof peaks / sizeof peaks[0]; p++) {
        fm_plan_view v = view_of(&r, &m, peaks[p]);
        fm_buf json = {0}, svg = {0}, emitted = {0};
        for (unsigned width = 1; width < 260; width += 37) {
            fm_buf text = {0}, timeline = {0};
            FM_ASSERT_OK(fm_view_text(&v, FM_UNITS_GB, width, &text, &err));
            assert_null(strstr(fm_buf_text(&text), " \n"));
            fm_view_timeline(&v, FM_UNITS_GIB, width, 8, &timeline);
            assert_null(strstr(fm_buf_text(&timeline), " \n"));
            fm_buf_reset(&text);
            fm_buf_reset(&timeline);
        }
        FM_ASSERT_OK(fm_view_json(&v, &json, &err));
        assert_non_null(strstr(fm_buf_text(&json), "\"total\": 12000"));
        FM_ASSERT_OK(fm_view_svg(&v, FM_UNITS_GB, &svg, &err));
        assert_non_null(strstr(fm_buf_text(&svg), "a &lt;model&gt;"));
        FM_ASSERT_OK(fm_view_emit_timeline(&v, &emitted, &err));
        assert_non_null(strstr(fm_buf_text(&emitted), "2\tforward\t900\n"));
        fm_buf_reset(&json);
        fm_buf_reset(&svg);
        fm_buf_reset(&emitted);
    }
    fm_plan_view none = view_of(&r, &m, 5);
    fm_buf svg = {0};
    none.series = NULL;
    none.n_series = 0;
    FM_ASSERT_FAILS(fm_view_svg(&none, FM_UNITS_GB, &svg, &err), FM_ERR_UNSUPPORTED);
    fm_buf_reset(&svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_score),
        cmocka_unit_test(test_verdict),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The public header's plan: what it says of itself adds up, and is what the private one says.
#include "testing.h"
#include "floodmark/plan.h"
#include "simulate/request.h"

static fm_recipe recipe_of(const char *model, const char *on, const char *checkpoint)
{
    fm_recipe r;
    fm_err err;
    fm_recipe_init(&r);
    assert_int_equal(fm_recipe_set_named(&r, "model", model, FM_ORIGIN_USER, &err), FM_OK);
    assert_int_equal(fm_recipe_set_named(&r, "on", on, FM_ORIGIN_USER, &err), FM_OK);
    assert_int_equal(fm_recipe_set_named(&r, "checkpoint", checkpoint, FM_ORIGIN_USER, &err), FM_OK);
    return r;
}

static void adds_up(void **state)
{
    (void)state;
    static const struct {
        const char *model, *on, *checkpoint;
    } runs[] = {{"gpt2", "A100-80GB", "none"},
                {"llama-3.1-8b", "2x8xH100-80GB", "full"},
                {"pythia-70m", "3xV100-16GB", "none"}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        fm_recipe recipe = recipe_of(runs[i].model, runs[i].on, runs[i].checkpoint);
        static fm_plan_outcome outcome;
        fm_err err;
        assert_int_equal(fm_plan_recipe(&recipe, &outcome, &err), FM_OK);
        uint64_t peak = outcome.figures[FM_AT_RUN], sum = 0;
        for (size_t role = 0; role < fm_plan_n_roles(); role++)
            sum += outcome.at_peak[role];
        assert_true(peak > 0 && sum == peak);
        assert_true(outcome.figures[outcome.peak_phase] == peak);
        for (int at = FM_AT_INIT; at <= FM_AT_STEADY; at++)
            assert_true(outcome.figures[at] <= peak);
        assert_true(outcome.figures[FM_AT_CLIP] == 0); // no clipping was asked for
        fm_plan_states s = outcome.states;
        assert_true(s.total == s.parameters + s.gradients + s.optimizer + s.master);
        for (int f = 0; f < FM_N_FIELDS; f++)
            assert_true(outcome.recipe.origin[f] != FM_ORIGIN_EMPTY);

        fm_request request;
        fm_plan plan;
        assert_int_equal(fm_request_make(&recipe, &request, NULL, &err), FM_OK);
        assert_int_equal(fm_request_plan(&request, false, true, &plan, &err), FM_OK); // every block recorded
        assert_true(plan.peak_bytes == peak);
        fm_plan_reset(&plan);
        fm_request_reset(&request);
    }
}

static void refuses(void **state)
{
    (void)state;
    fm_recipe recipe = recipe_of("llama-3.1-9b", "A100-80GB", "none");
    static fm_plan_outcome outcome, untouched;
    fm_err err;
    assert_int_equal(fm_plan_recipe(&recipe, &outcome, &err), FM_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "Llama-3.1-8B"));
    fm_recipe_init(&recipe);
    assert_int_equal(fm_plan_recipe(&recipe, &outcome, &err), FM_ERR_USAGE);
    assert_memory_equal(&outcome, &untouched, sizeof outcome);
}

static void names_roles(void **state)
{
    (void)state;
    for (size_t role = 0; role < fm_plan_n_roles(); role++)
        assert_true(*fm_plan_role_name(role) && *fm_plan_role_words(role));
    assert_null(fm_plan_role_name(fm_plan_n_roles()));
    assert_null(fm_plan_role_words(fm_plan_n_roles()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(adds_up), cmocka_unit_test(refuses),
                                       cmocka_unit_test(names_roles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

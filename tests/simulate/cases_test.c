// Truth: rows that real PyTorch code made on fake tensors, one figure a phase. A recording must give each of them to the byte.
#include "same_ledger.h"
#include "walk_cases.h"

typedef struct {
    unsigned n_cases, n_rows, n_wrong, n_folded;
} tally;

static void exact(const test_case *c, void *context)
{
    tally *t = context;
    fm_err err = {0};
    fm_plan plan;
    FM_ASSERT_OK(fm_plan_make(c->model, &c->recipe, &(fm_plan_options){.exact = true, .full = true}, &plan, &err));
    t->n_cases++;
    for (unsigned i = 0; i < c->n_rows; i++) {
        uint64_t planned = fm_plan_figure(&plan, c->rows[i].phase);
        t->n_rows++;
        if (planned == c->rows[i].bytes)
            continue;
        t->n_wrong++;
        print_error("%s phase %d: planned %llu, truth %llu, %+lld\n", c->name, c->rows[i].phase,
                    (unsigned long long)planned, (unsigned long long)c->rows[i].bytes,
                    (long long)(planned - c->rows[i].bytes));
    }
    fm_plan_reset(&plan);
}

static void check_exact(const char *path)
{
    tally t = {0};
    walk_cases(path, exact, &t);
    print_message("%s: %u cases, %u rows, %u not exact\n", path, t.n_cases, t.n_rows, t.n_wrong);
    assert_true(t.n_rows > 100);
    assert_int_equal(t.n_wrong, 0);
}

static void fold_one(const test_case *c, void *context)
{
    tally *t = context;
    fm_err err = {0};
    fm_plan folded, full;
    for (unsigned exact_rows = 0; exact_rows < 2; exact_rows++) {
        FM_ASSERT_OK(fm_plan_make(c->model, &c->recipe, &(fm_plan_options){.exact = exact_rows}, &folded, &err));
        FM_ASSERT_OK(
            fm_plan_make(c->model, &c->recipe, &(fm_plan_options){.exact = exact_rows, .full = true}, &full, &err));
        t->n_cases++;
        t->n_folded += folded.program.n_layers < folded.program.n_layers_model;
        t->n_wrong += !same_ledger(c->name, &folded.ledger, &full.ledger);
        assert_int_equal(full.program.n_layers, full.program.n_layers_model);
        fm_plan_reset(&folded);
        fm_plan_reset(&full);
    }
}

static unsigned check_folded(const char *path)
{
    tally t = {0};
    walk_cases(path, fold_one, &t);
    print_message("%s: %u plans, %u of them folded, %u differ from a full recording\n", path, t.n_cases, t.n_folded,
                  t.n_wrong);
    assert_int_equal(t.n_wrong, 0);
    return t.n_folded;
}

static const char *shared_steps(char *path, size_t n_path)
{
    const char *shared = fm_test_shared();
    if (!shared)
        return NULL;
    snprintf(path, n_path, "%s/cases/steps.csv", shared);
    return path;
}

static void test_subset_is_exact(void **state)
{
    char path[2048];
    (void)state;
    check_exact(golden_cases("steps-subset.csv", path, sizeof path));
}

static void test_own_rows_are_exact(void **state)
{
    char path[2048];
    (void)state;
    check_exact(golden_cases("extra-subset.csv", path, sizeof path));
}

static void test_shared_rows_are_exact(void **state)
{
    char path[4200];
    (void)state;
    if (!shared_steps(path, sizeof path))
        skip();
    check_exact(path);
}

static void test_subset_folds(void **state)
{
    char path[2048];
    (void)state;
    assert_true(check_folded(golden_cases("steps-subset.csv", path, sizeof path)) > 0);
}

static void test_own_rows_fold(void **state)
{
    char path[2048];
    (void)state;
    check_folded(golden_cases("extra-subset.csv", path, sizeof path));
}

static void test_shared_rows_fold(void **state)
{
    char path[4200];
    (void)state;
    if (!shared_steps(path, sizeof path))
        skip();
    assert_true(check_folded(path) > 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) { // any other case file: exact, and folded as in full
        check_exact(argv[1]);
        check_folded(argv[1]);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subset_is_exact),       cmocka_unit_test(test_own_rows_are_exact),
        cmocka_unit_test(test_shared_rows_are_exact), cmocka_unit_test(test_subset_folds),
        cmocka_unit_test(test_own_rows_fold),         cmocka_unit_test(test_shared_rows_fold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

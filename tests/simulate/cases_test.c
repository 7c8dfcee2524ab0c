// Truth: rows that real PyTorch code made on fake tensors, one figure a phase. A recording must give each of them to the byte.
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

// Everything of a ledger but the numbers of events, which differ because a folded program has fewer.
static bool same_ledger(const char *name, const fm_ledger *folded, const fm_ledger *full)
{
    for (unsigned step = 0; step < FM_LEDGER_STEPS; step++)
        for (unsigned phase = 0; phase < FM_N_PHASES; phase++) {
            const fm_phase_level *a = &folded->phase[step][phase], *b = &full->phase[step][phase];
            if (a->seen == b->seen && a->peak == b->peak && a->end == b->end &&
                !memcmp(a->role_at_peak, b->role_at_peak, sizeof a->role_at_peak))
                continue;
            print_error("%s: %s of step %u: folded %llu, ends at %llu; full %llu, ends at %llu\n", name,
                        fm_phase_name(phase), step, (unsigned long long)a->peak, (unsigned long long)a->end,
                        (unsigned long long)b->peak, (unsigned long long)b->end);
            for (unsigned r = 0; r < FM_N_ROLES; r++)
                if (a->role_at_peak[r] != b->role_at_peak[r])
                    print_error("    %s: folded %llu, full %llu\n", fm_role_name(r),
                                (unsigned long long)a->role_at_peak[r], (unsigned long long)b->role_at_peak[r]);
            return false;
        }
    bool host = folded->host_peak == full->host_peak && folded->final_device == full->final_device &&
                folded->final_host == full->final_host &&
                !memcmp(folded->host_at_peak, full->host_at_peak, sizeof full->host_at_peak);
    if (!host)
        print_error("%s: host peak folded %llu, full %llu; at the end %llu, %llu\n", name,
                    (unsigned long long)folded->host_peak, (unsigned long long)full->host_peak,
                    (unsigned long long)folded->final_host, (unsigned long long)full->final_host);
    return host;
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

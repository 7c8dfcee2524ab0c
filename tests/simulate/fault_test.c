// The Nth allocation of a plan fails, for every N there is: each run ends with FM_ERR_NO_MEMORY and leaves nothing behind (ASan looks),
// until one needs no more of them.
#include "walk_cases.h"
#include "base/fault.h"

typedef struct {
    unsigned n_cases, n_failures;
} tally;

static void sweep(const test_case *c, void *context)
{
    tally *t = context;
    for (unsigned full = 0; full < 2; full++) {
        fm_status status = FM_ERR_NO_MEMORY;
        for (uint64_t nth = 1; status != FM_OK; nth++) {
            fm_err err = {0};
            fm_plan plan, before;
            memset(&plan, 0x5a, sizeof plan);
            before = plan;
            fm_fault_arm(FM_FAULT_ALLOC, nth, false);
            status = fm_plan_make(c->model, &c->recipe, &(fm_plan_options){.exact = true, .full = full}, &plan, &err);
            bool struck = fm_fault_calls(FM_FAULT_ALLOC) >= nth;
            fm_fault_disarm();
            if (status == FM_OK) {
                assert_false(struck); // a failure that was met must not pass for success
                fm_plan_reset(&plan);
                break;
            }
            assert_true(struck);
            assert_int_equal(status, FM_ERR_NO_MEMORY);
            assert_int_equal(err.code, FM_ERR_NO_MEMORY);
            assert_true(strlen(err.message) > 0);
            assert_memory_equal(&plan, &before, sizeof plan);
            t->n_failures++;
        }
    }
    t->n_cases++;
}

static void test_every_allocation_may_fail(void **state)
{
    char path[2048];
    tally t = {0};
    (void)state;
    walk_cases(golden_cases("steps-subset.csv", path, sizeof path), sweep, &t);
    print_message("%u cases, %u failures met\n", t.n_cases, t.n_failures);
    assert_true(t.n_failures > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

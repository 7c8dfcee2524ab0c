// Truth: what an allocator saw while torch trained on real tensors (tests/golden/real). Unlike fake ones, real gradients are added in
// place where nothing else can see them, which is what a recording does when it is not asked to be exact.
//
// The rows come from a CPU: no cuBLAS workspace, and the scalars that a GPU run holds on the host (a Python number in a product, saved
// for backward: one to four a layer) lie beside the tensors. So: truth + workspaces - planned is those scalars, and nothing else.
#include "../simulate/walk_cases.h"
#include "program/cuda_scratch.h"

enum { SCALAR = 512, SCALARS_A_LAYER = 4, SCALARS_BESIDE = 3 };

typedef struct {
    unsigned n_rows, n_cases;
} tally;

// Workspaces alive: none before the first product; forward's own; autograd's too from the first backward on.
static uint64_t workspaces(const test_case *c, fm_at_kind phase)
{
    if (phase == FM_AT_INIT)
        return 0;
    bool before = (phase == FM_AT_FORWARD || phase == FM_AT_LOSS) && c->recipe.accumulate == 1;
    return before ? 1 : 2;
}

static void compare(const test_case *c, void *context)
{
    tally *t = context;
    fm_err err = {0};
    fm_plan plan;
    FM_ASSERT_OK(fm_plan_make(c->model, &c->recipe, &(fm_plan_options){.full = true, .capability = 80}, &plan, &err));
    uint64_t scalars = SCALAR * (SCALARS_A_LAYER * (uint64_t)plan.program.n_layers + SCALARS_BESIDE);
    for (unsigned i = 0; i < c->n_rows; i++) {
        uint64_t truth = c->rows[i].bytes + workspaces(c, c->rows[i].phase) * fm_cublas_workspace_bytes(80);
        uint64_t planned = fm_plan_figure(&plan, c->rows[i].phase), beside = truth - planned;
        bool init = c->rows[i].phase == FM_AT_INIT;
        if (truth < planned || beside > (init ? 0 : scalars) || beside % SCALAR)
            fail_msg("%s phase %d: planned %llu, truth %llu", c->name, c->rows[i].phase, (unsigned long long)planned,
                     (unsigned long long)truth);
        t->n_rows++;
    }
    t->n_cases++;
    fm_plan_reset(&plan);
}

static void test_real_tensors(void **state)
{
    (void)state;
    tally t = {0};
    char path[2048];
    walk_cases(golden_cases("../real/real-tensors.csv", path, sizeof path), compare, &t);
    print_message("%u cases, %u rows\n", t.n_cases, t.n_rows);
    assert_int_equal(t.n_cases, 59);
    assert_int_equal(t.n_rows, 420);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_real_tensors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

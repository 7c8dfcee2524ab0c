// Walks a case file, case by case: the rows of one case differ in their phase only and follow one another; their ids are
// CASE/phase.
#ifndef FM_TESTS_WALK_CASES_H
#define FM_TESTS_WALK_CASES_H
#include "testing.h"
#include "floodmark/cases.h"
#include "floodmark/machine.h"
#include "floodmark/model.h"
#include "simulate/plan.h"

enum { MAX_CASE_ROWS = 16 };

typedef struct {
    char name[512]; // the ids' common part
    fm_model *model;
    fm_recipe recipe; // resolved
    unsigned n_rows;
    struct {
        fm_at_kind phase;
        uint64_t bytes;
    } rows[MAX_CASE_ROWS];
} test_case;

// Called for each case; what it owns is freed afterwards.
typedef void on_case(const test_case *c, void *context);

// Models are names of the catalogue, or paths relative to the source tree. Fails the test when a row cannot be read or planned at all.
static inline void open_case(const fm_case *row, test_case *c)
{
    fm_err err = {0};
    fm_machine machine;
    fm_model_options options = {.layers = row->recipe.layers > 0 ? (uint32_t)row->recipe.layers : 0};
    char path[2048];
    const char *source = getenv("FLOODMARK_SOURCE");
    snprintf(path, sizeof path, "%s/%s", source ? source : ".", row->model);
    FM_ASSERT_OK(fm_model_open(strchr(row->model, '/') ? path : row->model, &options, &c->model, &err));
    FM_ASSERT_OK(fm_machine_parse(row->on, &machine, &err));
    fm_recipe_site site;
    memset(&site, 0, sizeof site);
    site.machine = machine.text;
    site.gpu = machine.gpu.name;
    site.world = machine.world;
    site.capability = machine.gpu.capability;
    FM_ASSERT_OK(fm_recipe_resolve(&row->recipe, &site, &c->recipe, &err));
}

static inline void close_case(test_case *c, on_case *tell, void *context)
{
    if (c->n_rows)
        tell(c, context);
    fm_model_destroy(c->model);
    memset(c, 0, sizeof *c);
}

static inline void walk_cases(const char *path, on_case *tell, void *context)
{
    fm_err err = {0};
    fm_cases *cases = NULL;
    fm_case row;
    test_case now;
    bool more = true;
    memset(&now, 0, sizeof now);
    FM_ASSERT_OK(fm_cases_open(path, &cases, &err));
    for (;;) {
        FM_ASSERT_OK(fm_cases_next(cases, &row, &more, &err));
        if (!more)
            break;
        if (row.status != FM_OK)
            fail_msg("%s: %s", row.id, row.reason);
        const char *slash = strrchr(row.id, '/');
        assert_non_null(slash);
        size_t n = (size_t)(slash - row.id);
        assert_true(n < sizeof now.name);
        if (!now.n_rows || strlen(now.name) != n || memcmp(now.name, row.id, n)) {
            close_case(&now, tell, context);
            memcpy(now.name, row.id, n);
            open_case(&row, &now);
        }
        assert_true(now.n_rows < MAX_CASE_ROWS);
        now.rows[now.n_rows].phase = row.phase;
        now.rows[now.n_rows++].bytes = row.bytes;
    }
    close_case(&now, tell, context);
    fm_cases_close(cases);
}

// The paths of what is walked: rows of our own in the tree, and the whole of the shared ones where they are.
static inline const char *golden_cases(const char *name, char *path, size_t n_path)
{
    const char *source = getenv("FLOODMARK_SOURCE");
    snprintf(path, n_path, "%s/tests/golden/cases/%s", source ? source : ".", name);
    return path;
}
#endif

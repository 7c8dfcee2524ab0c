// Traces of real PyTorch steps, allocation by allocation (tests/golden/traces).
//   - replayed through the ledger they give their rows;
//   - a recording of the same recipe makes the same allocations, in the same order, at the same levels, phase by phase.
#include "walk_cases.h"
#include "base/alloc.h"

enum { N_TRACES = 5 };

static const struct {
    const char *name;
    uint8_t step, phase;
} phases[] = {
    {"init", 0, FM_PHASE_INIT},        {"s1_fwd", 1, FM_PHASE_FORWARD},   {"s1_loss", 1, FM_PHASE_LOSS},
    {"s1_bwd", 1, FM_PHASE_BACKWARD},  {"s1_post", 1, FM_PHASE_POST},     {"s1_clip", 1, FM_PHASE_CLIP},
    {"s1_opt", 1, FM_PHASE_OPTIMIZER}, {"s1_zero", 1, FM_PHASE_ZERO},     {"s2_fwd", 2, FM_PHASE_FORWARD},
    {"s2_loss", 2, FM_PHASE_LOSS},     {"s2_bwd", 2, FM_PHASE_BACKWARD},  {"s2_post", 2, FM_PHASE_POST},
    {"s2_clip", 2, FM_PHASE_CLIP},     {"s2_opt", 2, FM_PHASE_OPTIMIZER}, {"s2_zero", 2, FM_PHASE_ZERO},
    {"end", 3, FM_PHASE_POST},
};

// --- a trace as a program

static void add(fm_program *p, fm_event_kind kind, uint32_t subject, uint8_t step)
{
    fm_event *events = fm_grow(p->events, &p->cap_events, p->n_events, sizeof *p->events);
    assert_non_null(events);
    p->events = events;
    p->events[p->n_events++] = (fm_event){.subject = subject, .kind = (uint8_t)kind, .step = step};
}

static void add_phase(fm_program *p, const char *name)
{
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
        if (!strcmp(phases[i].name, name)) {
            add(p, FM_EVENT_PHASE, phases[i].phase, phases[i].step);
            return;
        }
    fail_msg("unknown phase %s", name);
}

static void add_life(fm_program *p, uint64_t number, uint64_t bytes, const char *device)
{
    fm_life *lives = fm_grow(p->lives, &p->cap_lives, p->n_lives, sizeof *p->lives);
    assert_non_null(lives);
    assert_int_equal(number, p->n_lives + 1);
    p->lives = lives;
    p->lives[p->n_lives] = (fm_life){.bytes = bytes,
                                     .op = "trace",
                                     .role = FM_ROLE_OTHER,
                                     .tier = !strcmp(device, "cpu") ? FM_TIER_HOST : FM_TIER_DEVICE};
    add(p, FM_EVENT_ALLOC, (uint32_t)p->n_lives++, 0);
}

// Reads one of the files; `name` gets the case's.
static void read_trace(unsigned index, fm_program *p, char *name, size_t n_name)
{
    char path[2048], line[600];
    const char *source = getenv("FLOODMARK_SOURCE");
    snprintf(path, sizeof path, "%s/tests/golden/traces/%u.tsv", source ? source : ".", index);
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("cannot read %s", path);
    memset(p, 0, sizeof *p);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *save = NULL, *word = strtok_r(line, "\t", &save), *second = strtok_r(NULL, "\t", &save);
        if (word[0] == '#') {
            snprintf(name, n_name, "%s", word + 2);
        } else if (word[0] == '@') {
            add_phase(p, second);
        } else {
            uint64_t number = strtoull(second, NULL, 10), bytes = strtoull(strtok_r(NULL, "\t", &save), NULL, 10);
            if (word[0] == '+')
                add_life(p, number, bytes, strtok_r(NULL, "\t", &save));
            else
                add(p, FM_EVENT_FREE, (uint32_t)(number - 1), 0);
        }
    }
    fclose(f);
    assert_true(p->n_events > 1000);
}

// --- replay

typedef struct {
    char name[512];
    fm_plan plan; // of the trace: only what fm_plan_figure reads
    unsigned n_found, n_rows;
} replay;

static void compare_rows(const test_case *c, void *context)
{
    replay *r = context;
    if (strcmp(c->name, r->name))
        return;
    r->n_found++;
    for (unsigned i = 0; i < c->n_rows; i++) {
        r->n_rows++;
        if (fm_plan_figure(&r->plan, c->rows[i].phase) != c->rows[i].bytes)
            fail_msg("%s phase %d: replayed %llu, row %llu", c->name, c->rows[i].phase,
                     (unsigned long long)fm_plan_figure(&r->plan, c->rows[i].phase),
                     (unsigned long long)c->rows[i].bytes);
    }
}

static void rows_path(char *path, size_t n)
{
    const char *source = getenv("FLOODMARK_SOURCE");
    snprintf(path, n, "%s/tests/golden/traces/rows.csv", source ? source : ".");
}

static void test_replay_gives_the_rows(void **state)
{
    char path[2048];
    (void)state;
    rows_path(path, sizeof path);
    for (unsigned i = 1; i <= N_TRACES; i++) {
        replay r;
        fm_err err = {0};
        memset(&r, 0, sizeof r);
        read_trace(i, &r.plan.program, r.name, sizeof r.name);
        FM_ASSERT_OK(fm_ledger_walk(&r.plan.program, NULL, &r.plan.ledger, &err));
        walk_cases(path, compare_rows, &r);
        assert_int_equal(r.n_found, 1);
        assert_true(r.n_rows >= 11);
        fm_plan_reset(&r.plan);
    }
}

// --- recording

// The next event that matters: an allocation or a phase, with the levels then.
typedef struct {
    const fm_program *program;
    size_t at;
    uint64_t level[FM_N_TIERS], bytes;
    bool is_phase, over, in_init;
    uint32_t phase;
    uint8_t step;
} cursor;

static bool advance(cursor *c)
{
    while (c->at < c->program->n_events) {
        const fm_event *e = &c->program->events[c->at++];
        c->is_phase = e->kind == FM_EVENT_PHASE;
        if (c->is_phase) {
            c->phase = e->subject;
            c->step = e->step;
            c->in_init = e->step == 0;
            return true;
        }
        if (e->kind != FM_EVENT_ALLOC && e->kind != FM_EVENT_FREE)
            continue;
        const fm_life *life = &c->program->lives[e->subject];
        uint64_t bytes = (life->bytes + 511) / 512 * 512;
        c->level[life->tier] += e->kind == FM_EVENT_ALLOC ? bytes : -bytes;
        c->bytes = life->bytes;
        if (e->kind == FM_EVENT_ALLOC && !c->in_init)
            return true;
    }
    return false;
}

static void compare_events(const test_case *c, void *context)
{
    replay *r = context;
    fm_plan ours;
    fm_err err = {0};
    if (strcmp(c->name, r->name))
        return;
    FM_ASSERT_OK(fm_plan_make(c->model, &c->recipe, &(fm_plan_options){.exact = true, .full = true}, &ours, &err));
    cursor a = {.program = &ours.program}, b = {.program = &r->plan.program};
    for (unsigned n = 0;; n++) {
        bool more_a = advance(&a), more_b = advance(&b);
        if (!more_a && !more_b)
            break;
        bool same = more_a == more_b && a.is_phase == b.is_phase && a.level[0] == b.level[0] &&
                    a.level[1] == b.level[1] &&
                    (a.is_phase ? a.phase == b.phase && a.step == b.step : a.bytes == b.bytes);
        if (!same)
            fail_msg("%s, %s of step %u, point %u: %llu bytes at %llu, the trace has %llu at %llu", c->name,
                     fm_phase_name((fm_phase)a.phase), a.step, n, (unsigned long long)a.bytes,
                     (unsigned long long)a.level[0], (unsigned long long)b.bytes, (unsigned long long)b.level[0]);
        r->n_rows++;
    }
    r->n_found++;
    fm_plan_reset(&ours);
}

static void test_recording_is_the_trace(void **state)
{
    char path[2048];
    (void)state;
    rows_path(path, sizeof path);
    for (unsigned i = 1; i <= N_TRACES; i++) {
        replay r;
        memset(&r, 0, sizeof r);
        read_trace(i, &r.plan.program, r.name, sizeof r.name);
        walk_cases(path, compare_events, &r);
        assert_int_equal(r.n_found, 1);
        print_message("%s: %u allocations and phases alike\n", r.name, r.n_rows);
        assert_true(r.n_rows > 500);
        fm_plan_reset(&r.plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_replay_gives_the_rows),
                                       cmocka_unit_test(test_recording_is_the_trace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// What real transformer blocks keep for backward, and the peaks around it: rows measured with PyTorch's own autograd on fake tensors
// (saved_bytes.csv; columns in its README). A recording as on a GPU (gradients added in place, no scratch counted) of two and of three
// blocks must give each figure to the byte. No rounding here: storages are counted as they are, parameters, buffers and inputs apart.
#include "testing.h"
#include "floodmark/machine.h"
#include "floodmark/model.h"
#include "simulate/plan.h"

enum { MAX_COLUMNS = 64, MAX_LAYERS = 3 };

// --- one recording, as a level after each event of the first step

typedef struct {
    size_t n; // events kept
    int64_t *level, *rounded, *nograds;
    uint32_t *life; // of an allocation, else UINT32_MAX
    const fm_program *program;
    bool *alive; // lives alive at the end of forward
    size_t start, first_head, end_forward, end_backward;
    size_t block_in[MAX_LAYERS], block_back[MAX_LAYERS]; // where the block begins in forward; where its backward begins
    uint64_t gradients;
} timeline;

static void *zeroed(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    assert_non_null(p);
    return p;
}

static bool counts(const fm_life *life)
{
    return life->tier == FM_TIER_DEVICE && life->phase != FM_PHASE_INIT && life->role != FM_ROLE_INPUT &&
           life->role != FM_ROLE_SCRATCH;
}

static bool under(const char *module, const char *prefix)
{
    size_t n = strlen(prefix);
    return !strncmp(module, prefix, n) && (!module[n] || module[n] == '.');
}

static void draw(const fm_program *p, const char *head, timeline *t)
{
    int64_t level = 0, rounded = 0, nograds = 0;
    unsigned phase = FM_PHASE_INIT;
    bool *alive = zeroed(p->n_lives, sizeof *alive);
    memset(t, 0, sizeof *t);
    t->program = p;
    t->level = zeroed(p->n_events, sizeof *t->level);
    t->rounded = zeroed(p->n_events, sizeof *t->rounded);
    t->nograds = zeroed(p->n_events, sizeof *t->nograds);
    t->life = zeroed(p->n_events, sizeof *t->life);
    t->alive = zeroed(p->n_lives, sizeof *t->alive);
    for (size_t i = 0; i < p->n_events; i++) {
        const fm_event *e = &p->events[i];
        t->life[i] = UINT32_MAX;
        if (e->kind == FM_EVENT_PHASE) {
            phase = e->subject;
            if (e->step == 1 && phase == FM_PHASE_FORWARD)
                t->start = i;
            if (e->step == 1 && phase == FM_PHASE_BACKWARD) {
                t->end_forward = i;
                memcpy(t->alive, alive, p->n_lives * sizeof *alive);
            }
            if (e->step == 1 && phase == FM_PHASE_POST) {
                t->end_backward = t->n = i;
                break;
            }
        } else if (e->kind == FM_EVENT_ROUND && e->subject < MAX_LAYERS) {
            size_t *mark = phase == FM_PHASE_FORWARD ? t->block_in : phase == FM_PHASE_BACKWARD ? t->block_back : NULL;
            if (mark && !mark[e->subject])
                mark[e->subject] = i;
        } else if ((e->kind == FM_EVENT_ALLOC || e->kind == FM_EVENT_FREE) && counts(&p->lives[e->subject])) {
            const fm_life *life = &p->lives[e->subject];
            int64_t sign = e->kind == FM_EVENT_ALLOC ? 1 : -1, bytes = sign * (int64_t)life->bytes;
            level += bytes;
            rounded += sign * (((int64_t)life->bytes + 511) / 512 * 512);
            nograds += life->role == FM_ROLE_GRADIENT ? 0 : bytes;
            t->gradients += life->role == FM_ROLE_GRADIENT ? (uint64_t)bytes : 0;
            alive[e->subject] = sign > 0;
            t->life[i] = sign > 0 ? e->subject : UINT32_MAX;
            if (sign > 0 && !t->first_head && under(p->modules[life->module], head))
                t->first_head = i;
        }
        t->level[i] = level;
        t->rounded[i] = rounded;
        t->nograds[i] = nograds;
    }
    assert_true(t->end_backward && t->end_forward && t->block_in[0] && t->first_head);
    free(alive);
}

static void forget(timeline *t)
{
    free(t->level);
    free(t->rounded);
    free(t->nograds);
    free(t->life);
    free(t->alive);
}

static int64_t highest(const int64_t *level, size_t from, size_t to)
{
    int64_t most = level[from];
    for (size_t i = from; i <= to; i++)
        most = level[i] > most ? level[i] : most;
    return most;
}

// Bytes alive at the end of forward that were allocated in events [from, to), in modules under `prefix` (NULL: any) or not (`outside`).
static int64_t kept(const timeline *t, size_t from, size_t to, const char *outside, int role)
{
    int64_t sum = 0;
    for (size_t i = from; i < to; i++) {
        if (t->life[i] == UINT32_MAX || !t->alive[t->life[i]])
            continue;
        const fm_life *life = &t->program->lives[t->life[i]];
        if (outside && under(t->program->modules[life->module], outside))
            continue;
        if (role < 0 || life->role == role)
            sum += (int64_t)life->bytes;
    }
    return sum;
}

// --- figures of a case: 2 and 3 blocks

typedef struct {
    const char *column;
    bool needs_loss; // only where the row's loss is a model's own
    int64_t value;
} figure;

enum { MAX_FIGURES = 32 };

typedef struct {
    figure figures[MAX_FIGURES];
    unsigned n;
} figures;

static void say(figures *f, const char *column, bool needs_loss, int64_t value)
{
    assert_true(f->n < MAX_FIGURES);
    f->figures[f->n++] = (figure){column, needs_loss, value};
}

static void figures_of(const timeline *a, const timeline *b, const char *last_block, figures *f)
{
    size_t head =
        b->first_head - 1; // the level when the head is entered: nothing dies between that and its first tensor
    int64_t block = b->level[b->end_forward] - a->level[a->end_forward],
            block_r = b->rounded[b->end_forward] - a->rounded[a->end_forward];
    f->n = 0;
    say(f, "block_saved_bytes", false, block);
    say(f, "block_saved_r512", false, block_r);
    say(f, "block_saved_weight_cast_bytes", false, kept(b, b->block_in[1], b->block_in[2], NULL, FM_ROLE_WEIGHT_CAST));
    say(f, "pre_saved_bytes", false, kept(b, b->start, b->block_in[0], NULL, -1));
    say(f, "norm_saved_bytes", true, kept(b, b->block_in[2], b->first_head, last_block, -1));
    say(f, "nonblock_saved_bytes", true, b->level[b->end_forward] - 3 * block);
    say(f, "nonblock_saved_r512", true, b->rounded[b->end_forward] - 3 * block_r);
    say(f, "head_loss_saved_bytes", true, kept(b, b->first_head, b->end_forward, NULL, -1));
    say(f, "fwd_pre_peak_bytes", false, highest(b->level, b->start, b->block_in[0]) - b->level[b->start]);
    say(f, "fwd_pre_exit_bytes", false, b->level[b->block_in[0]] - b->level[b->start]);
    say(f, "fwd_block_transient_bytes", false,
        highest(b->level, b->block_in[1], b->block_in[2]) - b->level[b->block_in[1]]);
    say(f, "fwd_block_transient_r512", false,
        highest(b->rounded, b->block_in[1], b->block_in[2]) - b->rounded[b->block_in[1]]);
    say(f, "fwd_block_retained_bytes", false, b->level[b->block_in[2]] - b->level[b->block_in[1]]);
    say(f, "loss_peak_bytes", true, highest(b->level, head, b->end_forward) - b->level[head]);
    say(f, "loss_peak_r512", true, highest(b->rounded, head, b->end_forward) - b->rounded[head]);
    say(f, "fwd_peak_La", true, highest(a->level, a->start, a->end_forward));
    say(f, "fwd_peak_Lb", true, highest(b->level, b->start, b->end_forward));
    say(f, "bwd_head_peak_bytes", true, highest(b->level, b->end_forward, b->block_back[2]) - b->level[b->end_forward]);
    say(f, "bwd_head_peak_nograds_bytes", true,
        highest(b->nograds, b->end_forward, b->block_back[2]) - b->nograds[b->end_forward]);
    say(f, "bwd_head_exit_bytes", true, b->level[b->block_back[2]] - b->level[b->end_forward]);
    say(f, "bwd_block_transient_bytes", false,
        highest(b->level, b->block_back[1], b->block_back[0]) - b->level[b->block_back[1]]);
    say(f, "bwd_block_transient_r512", false,
        highest(b->rounded, b->block_back[1], b->block_back[0]) - b->rounded[b->block_back[1]]);
    say(f, "bwd_block_transient_nograds_bytes", false,
        highest(b->nograds, b->block_back[1], b->block_back[0]) - b->nograds[b->block_back[1]]);
    say(f, "bwd_block_exit_bytes", false, b->level[b->block_back[0]] - b->level[b->block_back[1]]);
    say(f, "bwd_peak_La", true, highest(a->level, a->end_forward, a->end_backward));
    say(f, "bwd_peak_Lb", true, highest(b->level, b->end_forward, b->end_backward));
    say(f, "bwd_peak_Lb_r512", true, highest(b->rounded, b->end_forward, b->end_backward));
    say(f, "grads_block_bytes", false, (int64_t)(b->gradients - a->gradients));
    say(f, "grads_nonblock_bytes", true, (int64_t)b->gradients - 3 * (int64_t)(b->gradients - a->gradients));
}

// --- rows

typedef struct {
    char *cells[MAX_COLUMNS];
    unsigned n;
} row;

static void split_row(char *line, row *r)
{
    r->n = 0;
    for (char *at = line; at && r->n < MAX_COLUMNS;) {
        r->cells[r->n++] = at;
        at = strchr(at, ',');
        if (at)
            *at++ = 0;
    }
}

static const char *cell(const row *names, const row *r, const char *column)
{
    for (unsigned i = 0; i < names->n && i < r->n; i++)
        if (!strcmp(names->cells[i], column))
            return r->cells[i];
    fail_msg("no column %s", column);
    return "";
}

static void resolve_row(const row *names, const row *r, fm_recipe *out)
{
    fm_err err = {0};
    fm_recipe recipe;
    bool amp = !strcmp(cell(names, r, "precision"), "amp"), half = !strcmp(cell(names, r, "precision"), "bf16");
    const char *const settings[][2] = {
        {"engine", "single"},
        {"batch", cell(names, r, "batch")},
        {"seq", cell(names, r, "seq")},
        {"param", half ? "bf16" : "fp32"},
        {"compute", half || amp ? "bf16" : "fp32"},
        {"how", amp ? "autocast" : "none"},
        {"attention", cell(names, r, "attention")},
        {"checkpoint", cell(names, r, "checkpointing")},
        {"keep_logits", "no"},
    };
    fm_recipe_init(&recipe);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        FM_ASSERT_OK(fm_recipe_set_named(&recipe, settings[i][0], settings[i][1], FM_ORIGIN_USER, &err));
    fm_recipe_site site;
    memset(&site, 0, sizeof site);
    site.machine = "1x1xA100-80GB";
    site.gpu = "A100-80GB";
    site.world = 1;
    site.capability = 80;
    FM_ASSERT_OK(fm_recipe_resolve(&recipe, &site, out, &err));
}

static const char *unit_name(const fm_model *model, fm_unit_kind kind, uint32_t block)
{
    for (size_t i = 0; i < fm_model_n_units(model); i++) {
        const fm_model_unit *u = fm_model_unit_at(model, i);
        if (u->kind == kind && (kind != FM_UNIT_BLOCK || u->block == block))
            return u->name;
    }
    fail_msg("%s has no such unit", fm_model_name(model));
    return "";
}

typedef struct {
    unsigned n_rows, n_refused, n_figures, n_wrong, n_wrong_rows;
    char wrong_columns[MAX_FIGURES][40];
    unsigned wrong_by_column[MAX_FIGURES];
} tally;

static void compare(const row *names, const row *r, const figures *f, tally *t)
{
    bool mean = !strcmp(cell(names, r, "loss"), "mean"), wrong = false;
    for (unsigned i = 0; i < f->n; i++) {
        const char *wanted = cell(names, r, f->figures[i].column);
        if (!*wanted || (mean && f->figures[i].needs_loss))
            continue;
        t->n_figures++;
        if (strtoll(wanted, NULL, 10) == f->figures[i].value)
            continue;
        t->n_wrong++;
        t->wrong_by_column[i]++;
        snprintf(t->wrong_columns[i], sizeof t->wrong_columns[i], "%s", f->figures[i].column);
        wrong = true;
        print_error("%s %sx%s %s %s %s checkpoint %s loss %s: %s is %lld, measured %s, %+lld\n",
                    cell(names, r, "model"), cell(names, r, "batch"), cell(names, r, "seq"),
                    cell(names, r, "precision"), cell(names, r, "attention"), cell(names, r, "attention_kernel"),
                    cell(names, r, "checkpointing"), cell(names, r, "loss"), f->figures[i].column,
                    (long long)f->figures[i].value, wanted,
                    (long long)(f->figures[i].value - strtoll(wanted, NULL, 10)));
    }
    t->n_wrong_rows += wrong;
}

static void check_row(const row *names, const row *r, tally *t)
{
    fm_err err = {0};
    fm_recipe recipe;
    fm_plan plans[2];
    timeline lines[2];
    figures f;
    char last_block[200];
    t->n_rows++;
    if (!*cell(names, r, "block_saved_bytes")) {
        t->n_refused++; // no figures: the class could not be built there either
        return;
    }
    resolve_row(names, r, &recipe);
    for (unsigned i = 0; i < 2; i++) {
        fm_model *model = NULL;
        FM_ASSERT_OK(fm_model_open(cell(names, r, "model"), &(fm_model_options){.layers = 2 + i}, &model, &err));
        FM_ASSERT_OK(fm_plan_make(model, &recipe, &(fm_plan_options){.full = true, .capability = 80}, &plans[i], &err));
        draw(&plans[i].program, unit_name(model, FM_UNIT_HEAD, 0), &lines[i]);
        if (i == 1)
            snprintf(last_block, sizeof last_block, "%s", unit_name(model, FM_UNIT_BLOCK, 2));
        fm_model_destroy(model);
    }
    figures_of(&lines[0], &lines[1], last_block, &f);
    compare(names, r, &f, t);
    for (unsigned i = 0; i < 2; i++) {
        forget(&lines[i]);
        fm_plan_reset(&plans[i]);
    }
}

static void check_file(const char *path, tally *t)
{
    static char head[8192], line[8192];
    row names, r;
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("cannot read %s", path);
    memset(t, 0, sizeof *t);
    assert_non_null(fgets(head, sizeof head, f));
    head[strcspn(head, "\r\n")] = 0;
    split_row(head, &names);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        split_row(line, &r);
        check_row(&names, &r, t);
    }
    fclose(f);
    print_message("%s: %u rows, %u of them without figures; %u figures compared, %u differ (in %u rows)\n", path,
                  t->n_rows, t->n_refused, t->n_figures, t->n_wrong, t->n_wrong_rows);
    for (unsigned i = 0; i < MAX_FIGURES; i++)
        if (t->wrong_by_column[i])
            print_message("    %s differs in %u rows\n", t->wrong_columns[i], t->wrong_by_column[i]);
}

// Whole models at their depth: the peaks of forward and of backward, and what is kept between.
static void check_depth(const row *names, const row *r, tally *t)
{
    fm_err err = {0};
    fm_recipe recipe;
    fm_plan plan;
    fm_model *model = NULL;
    timeline l;
    resolve_row(names, r, &recipe);
    FM_ASSERT_OK(fm_model_open(cell(names, r, "model"), &(fm_model_options){0}, &model, &err));
    FM_ASSERT_OK(fm_plan_make(model, &recipe, &(fm_plan_options){.full = true, .capability = 80}, &plan, &err));
    draw(&plan.program, unit_name(model, FM_UNIT_HEAD, 0), &l);
    const struct {
        const char *column;
        int64_t value;
    } wanted[] = {
        {"end_fwd_bytes", l.level[l.end_forward]},
        {"end_fwd_r512", l.rounded[l.end_forward]},
        {"fwd_peak_bytes", highest(l.level, l.start, l.end_forward)},
        {"fwd_peak_r512", highest(l.rounded, l.start, l.end_forward)},
        {"bwd_peak_bytes", highest(l.level, l.end_forward, l.end_backward)},
        {"bwd_peak_r512", highest(l.rounded, l.end_forward, l.end_backward)},
    };
    t->n_rows++;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        long long truth = strtoll(cell(names, r, wanted[i].column), NULL, 10);
        t->n_figures++;
        if (truth == wanted[i].value)
            continue;
        t->n_wrong++;
        print_error("%s %sx%s %s %s checkpoint %s: %s is %lld, measured %lld\n", cell(names, r, "model"),
                    cell(names, r, "batch"), cell(names, r, "seq"), cell(names, r, "precision"),
                    cell(names, r, "attention"), cell(names, r, "checkpointing"), wanted[i].column,
                    (long long)wanted[i].value, truth);
    }
    forget(&l);
    fm_plan_reset(&plan);
    fm_model_destroy(model);
}

static void test_whole_models(void **state)
{
    static char path[4200], head[8192], line[8192];
    const char *shared = fm_test_shared();
    row names, r;
    tally t = {0};
    (void)state;
    if (!shared)
        skip();
    snprintf(path, sizeof path, "%s/oracle/activations/full_depth_peaks.csv", shared);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(head, sizeof head, f));
    head[strcspn(head, "\r\n")] = 0;
    split_row(head, &names);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        split_row(line, &r);
        check_depth(&names, &r, &t);
    }
    fclose(f);
    print_message("%s: %u whole models, %u figures compared, %u differ\n", path, t.n_rows, t.n_figures, t.n_wrong);
    assert_true(t.n_rows >= 30);
    assert_int_equal(t.n_wrong, 0);
}

static void test_subset(void **state)
{
    char path[2048];
    const char *source = getenv("FLOODMARK_SOURCE");
    tally t;
    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/cases/saved-bytes-subset.csv", source ? source : ".");
    check_file(path, &t);
    assert_true(t.n_figures > 500);
    assert_int_equal(t.n_wrong, 0);
}

static void test_all_rows(void **state)
{
    char path[4200];
    const char *shared = fm_test_shared();
    tally t;
    (void)state;
    if (!shared)
        skip();
    snprintf(path, sizeof path, "%s/oracle/activations/saved_bytes.csv", shared);
    check_file(path, &t);
    assert_true(t.n_figures > 10000);
    assert_int_equal(t.n_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_subset), cmocka_unit_test(test_all_rows),
                                       cmocka_unit_test(test_whole_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

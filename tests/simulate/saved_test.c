// What a block, the head and the loss keep for backward, and the peaks around them, as measured on real transformers classes
// (oracle/activations/saved_bytes.csv: 50 models, eager and fused attention, bf16, fp32 and autocast, with and without checkpointing).
// Each row was made with two depths; so is the recording. full_depth_peaks.csv beside it has whole models.
#include "testing.h"
#include "floodmark/machine.h"
#include "floodmark/model.h"
#include "floodmark/recipe.h"
#include "program/step.h"

enum { MAX_COLUMNS = 64, MAX_LINE = 4096 };

typedef struct {
    char *cells[MAX_COLUMNS];
    unsigned n;
} row_cells;

static void split(char *line, row_cells *row)
{
    row->n = 0;
    line[strcspn(line, "\r\n")] = 0;
    for (char *at = line; at; row->n++) {
        assert_true(row->n < MAX_COLUMNS);
        row->cells[row->n] = at;
        at = strchr(at, ',');
        if (at)
            *at++ = 0;
    }
}

static const char *cell(const row_cells *header, const row_cells *row, const char *name)
{
    for (unsigned i = 0; i < header->n && i < row->n; i++)
        if (!strcmp(header->cells[i], name))
            return row->cells[i];
    fail_msg("no column %s", name);
    return "";
}

// Bytes above parameters, buffers, inputs and library workspaces; `_r512`: each storage as the caching allocator rounds it.
typedef struct {
    int64_t end_forward, end_forward_r512, head_and_loss, forward_peak, backward_peak, backward_peak_r512;
} measured;

static bool counts(const fm_life *life)
{
    return life->tier == FM_TIER_DEVICE && life->phase != FM_PHASE_INIT && life->role != FM_ROLE_PARAMETER &&
           life->role != FM_ROLE_INPUT && life->role != FM_ROLE_SCRATCH;
}

static void raise_to(int64_t *peak, int64_t level)
{
    *peak = level > *peak ? level : *peak;
}

static measured measure(const fm_program *p)
{
    measured m = {0};
    int64_t level = 0, level_r512 = 0;
    size_t head = SIZE_MAX; // the first life of the head: it, and all that comes after it
    fm_phase phase = FM_PHASE_INIT;
    uint8_t step = 0;
    for (size_t i = 0; i < p->n_events; i++) {
        const fm_event *e = &p->events[i];
        const fm_life *life = e->kind <= FM_EVENT_FREE ? &p->lives[e->subject] : NULL;
        if (e->kind == FM_EVENT_PHASE) {
            phase = (fm_phase)e->subject;
            step = e->step;
            if (step == 1 && phase == FM_PHASE_BACKWARD) {
                m.end_forward = m.backward_peak = level;
                m.end_forward_r512 = m.backward_peak_r512 = level_r512;
            }
        } else if (life && counts(life)) {
            const char *module = p->modules[life->module];
            int64_t bytes = (int64_t)life->bytes, rounded = (bytes + 511) / 512 * 512,
                    sign = e->kind == FM_EVENT_ALLOC ? 1 : -1;
            if (head == SIZE_MAX && (!strcmp(module, "lm_head") || !strcmp(module, "embed_out")))
                head = e->subject;
            level += sign * bytes;
            level_r512 += sign * rounded;
            if (step == 1 && phase < FM_PHASE_BACKWARD && head != SIZE_MAX && e->subject >= head)
                m.head_and_loss += sign * bytes;
        }
        if (step == 1 && (phase == FM_PHASE_FORWARD || phase == FM_PHASE_LOSS))
            raise_to(&m.forward_peak, level);
        if (step == 1 && phase == FM_PHASE_BACKWARD) {
            raise_to(&m.backward_peak, level);
            raise_to(&m.backward_peak_r512, level_r512);
        }
    }
    return m;
}

static measured record(const char *shared, const row_cells *header, const row_cells *row, uint32_t layers)
{
    const char *precision = cell(header, row, "precision"), *model = cell(header, row, "model");
    const char *const settings[][2] = {
        {"engine", "single"},
        {"param", strcmp(precision, "bf16") ? "fp32" : "bf16"},
        {"compute", strcmp(precision, "fp32") ? "bf16" : "fp32"},
        {"how", strcmp(precision, "amp") ? "none" : "autocast"},
        {"batch", cell(header, row, "batch")},
        {"seq", cell(header, row, "seq")},
        {"attention", cell(header, row, "attention")},
        {"checkpoint", cell(header, row, "checkpointing")},
    };
    char path[2048];
    fm_err err = {0};
    fm_model *opened = NULL;
    fm_machine machine;
    fm_recipe recipe, resolved;
    snprintf(path, sizeof path, "%s/models/%s.json", shared, model);
    FM_ASSERT_OK(fm_model_open(path, &(fm_model_options){.layers = layers}, &opened, &err));
    FM_ASSERT_OK(fm_machine_parse("1x1xA100-80GB", &machine, &err));
    fm_recipe_init(&recipe);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        FM_ASSERT_OK(fm_recipe_set_named(&recipe, settings[i][0], settings[i][1], FM_ORIGIN_USER, &err));
    const fm_recipe_site site = {
        .machine = machine.text, .gpu = machine.gpu.name, .world = machine.world, .capability = machine.gpu.capability};
    FM_ASSERT_OK(fm_recipe_resolve(&recipe, &site, &resolved, &err));
    // These rows add gradients in place where a GPU does, so they are not `exact` in the sense of the other cases.
    fm_program program = {0};
    FM_ASSERT_OK(fm_record(opened, &resolved, &(fm_record_options){.steps = 2, .capability = 80}, &program, &err));
    measured m = measure(&program);
    fm_program_destroy(&program);
    fm_model_destroy(opened);
    return m;
}

static void same(const row_cells *header, const row_cells *row, const char *column, int64_t got)
{
    int64_t wanted = strtoll(cell(header, row, column), NULL, 10);
    if (got == wanted)
        return;
    char what[512] = "";
    for (unsigned i = 0; i < 9; i++)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s ", row->cells[i]);
    fail_msg("%s: %s is %lld, should be %lld", what, column, (long long)got, (long long)wanted);
}

static FILE *open_rows(const char *shared, const char *name, row_cells *header, char *line)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/oracle/activations/%s", shared, name);
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, MAX_LINE, f))
        fail_msg("cannot read %s", path);
    split(line, header);
    return f;
}

static void test_saved_bytes(void **state)
{
    const char *shared = *state;
    char first[MAX_LINE], line[MAX_LINE];
    row_cells header, row;
    FILE *f = open_rows(shared, "saved_bytes.csv", &header, first);
    unsigned n_rows = 0;
    while (fgets(line, sizeof line, f)) {
        split(line, &row);
        if (!*cell(&header, &row, "layers_measured")) // no class to measure; the note says why
            continue;
        char *slash = NULL;
        uint32_t fewer = (uint32_t)strtoul(cell(&header, &row, "layers_measured"), &slash, 10),
                 more = (uint32_t)strtoul(slash + 1, NULL, 10);
        measured a = record(shared, &header, &row, fewer), b = record(shared, &header, &row, more);
        int64_t block = (b.end_forward - a.end_forward) / (more - fewer);
        same(&header, &row, "block_saved_bytes", block);
        same(&header, &row, "block_saved_r512", (b.end_forward_r512 - a.end_forward_r512) / (more - fewer));
        n_rows++;
        if (strcmp(cell(&header, &row, "loss"), "hf")) // the mean of what comes before the head: no loss of ours
            continue;
        same(&header, &row, "nonblock_saved_bytes", b.end_forward - block * more);
        same(&header, &row, "head_loss_saved_bytes", b.head_and_loss);
        same(&header, &row, "fwd_peak_La", a.forward_peak);
        same(&header, &row, "fwd_peak_Lb", b.forward_peak);
        same(&header, &row, "bwd_peak_La", a.backward_peak);
        same(&header, &row, "bwd_peak_Lb", b.backward_peak);
        same(&header, &row, "bwd_peak_Lb_r512", b.backward_peak_r512);
    }
    fclose(f);
    printf("%u rows to the byte\n", n_rows);
    assert_true(n_rows > 1000);
}

static void test_full_depth(void **state)
{
    const char *shared = *state;
    char first[MAX_LINE], line[MAX_LINE];
    row_cells header, row;
    FILE *f = open_rows(shared, "full_depth_peaks.csv", &header, first);
    unsigned n_rows = 0;
    for (; fgets(line, sizeof line, f); n_rows++) {
        split(line, &row);
        measured m = record(shared, &header, &row, 0);
        same(&header, &row, "end_fwd_bytes", m.end_forward);
        same(&header, &row, "end_fwd_r512", m.end_forward_r512);
        same(&header, &row, "fwd_peak_bytes", m.forward_peak);
        same(&header, &row, "bwd_peak_bytes", m.backward_peak);
        same(&header, &row, "bwd_peak_r512", m.backward_peak_r512);
    }
    fclose(f);
    printf("%u whole models to the byte\n", n_rows);
    assert_int_equal(n_rows, 30);
}

int main(void)
{
    const char *shared = fm_test_shared();
    if (!shared)
        return FM_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_saved_bytes, (void *)(uintptr_t)shared),
        cmocka_unit_test_prestate(test_full_depth, (void *)(uintptr_t)shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

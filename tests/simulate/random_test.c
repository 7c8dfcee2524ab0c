// Random small models of every family under random recipes: what must hold of any program and its ledger.
//   - a life begins once, ends at most once and never before it began; so no level is ever negative;
//   - the roles add up to the level, at each phase's peak and of the host's, and the ledger's peaks are those of a plain walk;
//   - at the end nothing is left but what training keeps, and both steps end at the same level;
//   - memory inside kernels is a sane size and leaves no trace;
//   - a GPU, which adds gradients in place, never needs more than the exact form with the same kernels, scratch apart;
//   - folded and full recordings give the same ledger.
// The generator counts: draw k of case n is a hash of (n, k), so a failing case is named by its number. An argument runs that case alone.
#include "walk_cases.h"
#include <glob.h>
#include <jansson.h>
#include <unistd.h>
#include "program/program.h"
#include "same_ledger.h"

enum { N_CASES = 600 };

typedef struct {
    uint64_t number, draws;
} chance;

static uint64_t draw(chance *c, uint64_t below)
{
    uint64_t z = (c->number << 20) + ++c->draws; // splitmix64's finisher
    z *= 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

static const char *one_of(chance *c, const char *const *words)
{
    unsigned n = 0;
    while (words[n])
        n++;
    return words[draw(c, n)];
}

// --- models

static char folder[] = "/tmp/floodmark-random-XXXXXX";

// A small configuration with other sizes; what the reader refuses is left as it was.
static fm_model *random_model(chance *c, const glob_t *found, char *name, size_t n_name, fm_err *err)
{
    static const char *const sizes[] = {"vocab_size", "intermediate_size", "ffn_dim", "moe_intermediate_size",
                                        "n_inner"};
    json_t *root = json_load_file(found->gl_pathv[draw(c, found->gl_pathc)], 0, NULL);
    char path[128], text[400];
    fm_model_options options = {.layers = (uint32_t)(1 + draw(c, 16))};
    fm_model *model = NULL;
    assert_non_null(root);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (json_is_integer(json_object_get(root, sizes[i])))
            json_object_set_new(root, sizes[i], json_integer((json_int_t)(8 * (1 + draw(c, 1000)))));
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(json_dump_file(root, path, 0), 0);
    snprintf(text, sizeof text, "%s", json_string_value(json_object_get(root, "model_type")));
    json_decref(root);
    fm_status status = fm_model_open(path, &options, &model, err);
    unlink(path);
    snprintf(name, n_name, "%s, %u blocks", text, options.layers);
    return status == FM_OK ? model : NULL;
}

// --- recipes

static bool set(fm_recipe *r, const char *field, const char *text, fm_err *err)
{
    return fm_recipe_set_named(r, field, text, FM_ORIGIN_USER, err) == FM_OK;
}

static const char *number(chance *c, uint64_t below, char *text)
{
    snprintf(text, 24, "%llu", (unsigned long long)(1 + draw(c, below)));
    return text;
}

// Draws every knob; false when resolve says that the combination is a contradiction.
static bool random_recipe(chance *c, fm_recipe *out, uint32_t *capability, fm_err *err)
{
#define WORDS(...) one_of(c, (const char *const[]){__VA_ARGS__, NULL})
    char text[24], on[40];
    fm_recipe r;
    fm_machine machine;
    fm_recipe_init(&r);
    const char *engine = WORDS("single", "ddp", "fsdp1", "fsdp2", "fsdp2");
    bool fsdp = engine[0] == 'f', single = engine[0] == 's', fsdp2 = fsdp && engine[4] == '2';
    unsigned long long gpus = single ? 1 : 1 + draw(c, 8), nodes = single ? 1 : 1 + draw(c, 2);
    snprintf(on, sizeof on, "%llux%llux%s", nodes, gpus, WORDS("A100-80GB", "H100-80GB", "V100-32GB"));
    bool ok = set(&r, "engine", engine, err) && set(&r, "seq", number(c, 200, text), err) &&
              set(&r, "batch", number(c, 3, text), err) && set(&r, "accumulate", number(c, 6, text), err) &&
              set(&r, "sync", WORDS("each", "last", "last", "last-keep"), err) &&
              set(&r, "clip", WORDS("no", "yes"), err) && set(&r, "checkpoint", WORDS("none", "full"), err) &&
              set(&r, "attention", WORDS("eager", "sdpa"), err) &&
              set(&r, "optimizer", WORDS("adamw", "adamw", "sgd", "sgd-momentum"), err) &&
              set(&r, "loss", WORDS("full", "full", "chunked:3", "none"), err) &&
              set(&r, "keep_logits", WORDS("yes", "no"), err);
    if (ok && draw(c, 2))
        ok = set(&r, "step", WORDS("foreach", "fused", "loop"), err);
    if (ok && fsdp)
        ok = set(&r, "wrap", WORDS("block", "accelerate", "separate", "root"), err) &&
             set(&r, "reshard", WORDS("yes", "no", "default"), err);
    if (ok && fsdp2 && nodes == 2 && draw(c, 2))
        ok = set(&r, "replicate", "2", err);
    if (ok && fsdp2 && draw(c, 4) == 0)
        ok = set(&r, "prefetch", number(c, 3, text), err);
    if (ok && fsdp2 && draw(c, 4) == 0)
        ok = set(&r, "offload", "params+optimizer", err);
    const char *how = fsdp ? WORDS("none", "policy", "policy") : WORDS("none", "autocast");
    const char *param = how[0] == 'n' ? WORDS("bf16", "fp32", "fp16") : "fp32";
    ok = ok && set(&r, "how", how, err) && set(&r, "param", param, err) &&
         set(&r, "compute", how[0] == 'n' ? param : WORDS("bf16", "fp16"), err);
    if (ok && how[0] == 'p')
        ok = set(&r, "reduce", WORDS("fp32", "bf16"), err);
    if (!ok || fm_machine_parse(on, &machine, err) != FM_OK)
        return false;
    fm_recipe_site site;
    memset(&site, 0, sizeof site);
    site.machine = machine.text;
    site.gpu = machine.gpu.name;
    site.world = machine.world;
    site.capability = *capability = machine.gpu.capability;
    return fm_recipe_resolve(&r, &site, out, err) == FM_OK;
#undef WORDS
}

static uint64_t only; // this case alone, and say what it is

// --- a plain walk

typedef struct {
    uint64_t peak[FM_LEDGER_STEPS][FM_N_PHASES]; // without what kernels and libraries take
    uint64_t with_scratch[FM_LEDGER_STEPS][FM_N_PHASES];
    uint64_t end[FM_LEDGER_STEPS];
    uint64_t init, final_device, final_host;
} walked;

static void raise_to(uint64_t *peak, uint64_t level)
{
    *peak = level > *peak ? level : *peak;
}
static uint64_t in_blocks(uint64_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

static void walk_plainly(const fm_program *p, walked *w)
{
    uint8_t *state = calloc(p->n_lives + 1, 1);    // 0 unborn, 1 alive, 2 dead
    uint64_t level[FM_N_TIERS] = {0}, scratch = 0; // scratch: of the device's level, what kernels and libraries hold
    unsigned step = 0, phase = FM_PHASE_INIT;
    memset(w, 0, sizeof *w);
    assert_non_null(state);
    for (size_t i = 0; i < p->n_events; i++) {
        const fm_event *e = &p->events[i];
        if (e->kind == FM_EVENT_PHASE) {
            w->end[step < FM_LEDGER_STEPS ? step : 0] = level[FM_TIER_DEVICE];
            step = e->step;
            phase = e->subject;
            if (step >= FM_LEDGER_STEPS)
                break;
            raise_to(&w->peak[step][phase], level[FM_TIER_DEVICE] - scratch);
            raise_to(&w->with_scratch[step][phase], level[FM_TIER_DEVICE]);
        }
        if (e->kind == FM_EVENT_PHASE || e->kind == FM_EVENT_ROUND)
            continue;
        assert_true(e->subject < p->n_lives);
        const fm_life *life = &p->lives[e->subject];
        assert_true(life->bytes > 0 && life->bytes < (uint64_t)1 << 40); // a difference gone wrong would be enormous
        assert_true(life->role < FM_N_ROLES && life->tier < FM_N_TIERS && life->module < p->n_modules && life->op);
        uint64_t bytes = in_blocks(life->bytes);
        if (e->kind == FM_EVENT_FREE) {
            assert_int_equal(state[e->subject], 1);
            state[e->subject] = 2;
            assert_true(level[life->tier] >= bytes);
            level[life->tier] -= bytes;
            scratch -= life->role == FM_ROLE_SCRATCH ? bytes : 0;
            continue;
        }
        assert_int_equal(state[e->subject], 0);
        state[e->subject] = e->kind == FM_EVENT_ALLOC ? 1 : 2;
        if (life->tier == FM_TIER_DEVICE) {
            if (life->role != FM_ROLE_SCRATCH)
                raise_to(&w->peak[step][phase], level[FM_TIER_DEVICE] + bytes - scratch);
            raise_to(&w->with_scratch[step][phase], level[FM_TIER_DEVICE] + bytes);
        }
        bytes = e->kind == FM_EVENT_ALLOC ? bytes : 0;
        level[life->tier] += bytes;
        scratch += life->role == FM_ROLE_SCRATCH ? bytes : 0;
    }
    w->final_device = level[FM_TIER_DEVICE];
    w->final_host = level[FM_TIER_HOST];
    for (size_t i = 0; i < p->n_lives; i++)
        if (state[i] == 1) {
            fm_role role = (fm_role)p->lives[i].role;
            bool at_rest = role == FM_ROLE_PARAMETER || role == FM_ROLE_OPTIMIZER || role == FM_ROLE_BUFFER ||
                           role == FM_ROLE_BUCKET || role == FM_ROLE_MASTER ||
                           role == FM_ROLE_GRADIENT; // FSDP1's flat parameter keeps its gradient to the next forward
            at_rest |= role == FM_ROLE_CLIP && p->lives[i].bytes == 4; // and its clip a zero, made once
            at_rest |=
                role == FM_ROLE_SCRATCH && !strcmp(p->lives[i].op, "cublas_workspace"); // a library keeps it for good
            if (!at_rest)
                fail_msg("still alive at the end: %llu bytes of %s, made by %s in %s",
                         (unsigned long long)p->lives[i].bytes, fm_role_name(role), p->lives[i].op,
                         p->modules[p->lives[i].module]);
        }
    free(state);
}

static void check_ledger(const fm_plan *plan, const walked *w)
{
    const fm_ledger *l = &plan->ledger;
    for (unsigned step = 0; step < FM_LEDGER_STEPS; step++)
        for (unsigned phase = 0; phase < FM_N_PHASES; phase++) {
            uint64_t sum = 0;
            for (unsigned r = 0; r < FM_N_ROLES; r++)
                sum += l->phase[step][phase].role_at_peak[r];
            assert_int_equal(sum, l->phase[step][phase].peak);
            assert_int_equal(l->phase[step][phase].peak, w->with_scratch[step][phase]);
        }
    uint64_t host = 0;
    for (unsigned r = 0; r < FM_N_ROLES; r++)
        host += l->host_at_peak[r];
    assert_int_equal(host, l->host_peak);
    assert_int_equal(l->final_device, w->final_device);
    assert_int_equal(l->final_host, w->final_host);
    assert_int_equal(w->end[1], w->end[2]); // a second step leaves what the first one left
    assert_int_equal(l->final_device, w->end[2]);
}

static void tell_recipe(const char *name, const fm_recipe *r)
{
    char text[FM_RECIPE_NAME_BYTES];
    print_message("%s:", name);
    for (int f = 0; f < FM_N_FIELDS; f++)
        if (r->origin[f] == FM_ORIGIN_USER)
            print_message(" %s=%s", fm_field_name((fm_field)f), fm_recipe_text(r, (fm_field)f, text, sizeof text));
    print_message("\n");
}

static bool check_case(uint64_t n, const glob_t *found, unsigned *n_folded)
{
    chance c = {.number = n};
    fm_err err = {0};
    char name[400];
    fm_recipe recipe;
    uint32_t capability = 0;
    fm_plan plan[2][2]; // [exact][full]
    walked w[2];
    fm_model *model = random_model(&c, found, name, sizeof name, &err);
    if (!model || !random_recipe(&c, &recipe, &capability, &err)) {
        fm_model_destroy(model);
        return false;
    }
    if (only)
        tell_recipe(name, &recipe);
    for (unsigned exact = 0; exact < 2; exact++)
        for (unsigned full = 0; full < 2; full++) {
            fm_status status =
                fm_plan_make(model, &recipe, &(fm_plan_options){.exact = exact, .full = full, .capability = capability},
                             &plan[exact][full], &err);
            if (status != FM_OK)
                fail_msg("case %llu (%s): %s", (unsigned long long)n, name, err.message);
        }
    for (unsigned exact = 0; exact < 2; exact++) {
        walk_plainly(&plan[exact][1].program, &w[exact]);
        check_ledger(&plan[exact][1], &w[exact]);
        *n_folded += plan[exact][0].program.n_layers < plan[exact][0].program.n_layers_model;
        if (!same_ledger(name, &plan[exact][0].ledger, &plan[exact][1].ledger))
            fail_msg("case %llu (%s, %s): folded differs from full", (unsigned long long)n, name,
                     exact ? "exact" : "as on a GPU");
    }
    // The exact form says compute capability 9.0 and picks attention kernels as its rows did: compared where neither matters.
    bool same_kernels = recipe.attention == FM_ATTENTION_EAGER && capability >= 80;
    for (unsigned step = 1; same_kernels && step < FM_LEDGER_STEPS; step++)
        for (unsigned phase = 0; phase < FM_N_PHASES; phase++)
            if (w[0].peak[step][phase] > w[1].peak[step][phase])
                fail_msg("case %llu (%s): %s of step %u takes %llu in place, %llu out of place", (unsigned long long)n,
                         name, fm_phase_name((fm_phase)phase), step, (unsigned long long)w[0].peak[step][phase],
                         (unsigned long long)w[1].peak[step][phase]);
    for (unsigned i = 0; i < 4; i++)
        fm_plan_reset(&plan[i / 2][i % 2]);
    fm_model_destroy(model);
    return true;
}

static void test_random_programs(void **state)
{
    char pattern[2048];
    const char *source = getenv("FLOODMARK_SOURCE");
    glob_t found;
    unsigned n_checked = 0, n_folded = 0;
    (void)state;
    snprintf(pattern, sizeof pattern, "%s/tests/golden/models/[a-z]*[a-z0-9].json", source ? source : ".");
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (uint64_t n = only ? only : 1; n <= (only ? only : N_CASES); n++)
        n_checked += check_case(n, &found, &n_folded);
    globfree(&found);
    print_message("%u programs of %u drawn, %u plans folded\n", n_checked, only ? 1 : N_CASES, n_folded);
    assert_true(only || (n_checked > N_CASES / 2 && n_folded > 20));
}

int main(int argc, char **argv)
{
    only = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}

#include "command/request.h"
#include <inttypes.h>
#include <string.h>
#include "base/alloc.h"
#include "model/arch.h"

// Learned positions have a row a token: more tokens than rows is an index out of range, not a choice.
static fm_status check_positions(const fm_model *model, const fm_arch *arch, const fm_recipe *recipe, fm_err *err)
{
    for (size_t i = 0; i < fm_model_n_units(model); i++)
        if (fm_model_unit_at(model, i)->kind == FM_UNIT_POSITIONS && (uint64_t)recipe->seq > arch->max_positions)
            return fm_fail(err, FM_ERR_CONFLICT, "seq %" PRId64 ": %s has learned positions for %" PRIu64 " tokens",
                           recipe->seq, fm_model_name(model), arch->max_positions);
    return FM_OK;
}

// A step's largest tensors times how many of them there can be must stay far inside 64 bits: recording adds up without
// looking. A coarse bound in floating point; what it refuses could never run.
static fm_status check_sizes(const fm_model *model, const fm_arch *arch, const fm_recipe *recipe, fm_err *err)
{
    enum { TENSORS_A_BLOCK = 64, BYTES = 8 };
    double tokens = (double)recipe->batch * (double)recipe->seq, width = (double)arch->vocab;
    bool scores = recipe->attention == FM_ATTENTION_EAGER || recipe->compute == FM_PRECISION_FP32;
    double others[] = {(double)arch->hidden * 4, (double)arch->intermediate * 4, (double)recipe->seq,
                       scores ? (double)arch->n_heads * (double)recipe->seq : 0};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        width = others[i] > width ? others[i] : width;
    if (tokens * width * BYTES * TENSORS_A_BLOCK * ((double)arch->n_layers + 1) > (double)INT64_MAX)
        return fm_fail(err, FM_ERR_OVERFLOW,
                       "batch %" PRId64 " x seq %" PRId64 ": the activations of %s would not fit 64 bits",
                       recipe->batch, recipe->seq, fm_model_name(model));
    return FM_OK;
}

fm_status fm_request_make(const fm_recipe *recipe, fm_request *out, bool *typed, fm_err *err)
{
    fm_request r = {0};
    bool ignored;
    typed = typed ? typed : &ignored;
    *typed = true;
    if (!recipe->model[0] || !recipe->origin[FM_FIELD_MODEL])
        return fm_fail(err, FM_ERR_USAGE, "no model: name one of the catalogue, a config.json, or a size such as 70B");
    if (!recipe->on[0] || !recipe->origin[FM_FIELD_ON])
        return fm_fail(err, FM_ERR_USAGE, "no machine: say --on 8xH100-80GB, or --ranks N");
    fm_status status = fm_machine_parse(recipe->on, &r.machine, err);
    if (status) {
        *typed = !strchr(recipe->on, '/') && !strstr(recipe->on, ".json"); // else it is a file that is wrong
        return status;
    }
    fm_model_options options = {.layers = recipe->layers > 0 ? (uint32_t)recipe->layers : 0};
    *typed = false;
    if ((status = fm_model_open(recipe->model, &options, &r.model, err)))
        return status;
    const fm_arch *arch = fm_model_arch(r.model);
    fm_recipe_site site = {.machine = r.machine.text,
                           .gpu = r.machine.gpu.name,
                           .world = r.machine.world,
                           .capability = r.machine.gpu.capability};
    if (!arch) {
        status =
            fm_fail(err, FM_ERR_UNSUPPORTED, "%s names no architecture: a step cannot be planned from parameters alone",
                    fm_model_name(r.model));
        goto fail;
    }
    site.max_positions = arch->max_positions < INT64_MAX ? (int64_t)arch->max_positions : 0;
    site.n_heads = arch->n_heads;
    site.n_kv_heads = arch->n_kv_heads;
    site.n_layers = arch->n_layers;
    *typed = true;
    if ((status = fm_recipe_resolve(recipe, &site, &r.recipe, err)) ||
        (status = check_positions(r.model, arch, &r.recipe, err)) ||
        (status = check_sizes(r.model, arch, &r.recipe, err)))
        goto fail;
    *out = r;
    return FM_OK;
fail:
    fm_model_destroy(r.model);
    return status;
}

void fm_request_reset(fm_request *request)
{
    fm_model_destroy(request->model);
    request->model = NULL;
}

// Recording one by one takes memory and time by the block; folding does not.
enum { MAX_RECORDED_BLOCKS = 8192 };

static bool too_many_blocks(const fm_request *request)
{
    return (int64_t)fm_model_arch(request->model)->n_layers > MAX_RECORDED_BLOCKS / request->recipe.accumulate;
}

static int64_t drawn_microbatches(const fm_request *request)
{
    // The first microbatch makes the gradients, the others add to them, the last may reduce them: three show it all.
    return request->recipe.accumulate < 3 ? request->recipe.accumulate : 3;
}

bool fm_request_draws(const fm_request *request)
{
    fm_request shorter = *request;
    shorter.recipe.accumulate = drawn_microbatches(request);
    return !too_many_blocks(&shorter);
}

fm_status fm_request_plan(const fm_request *request, bool exact, bool full, fm_plan *plan, fm_err *err)
{
    if (full && too_many_blocks(request))
        return fm_fail(err, FM_ERR_OVERFLOW,
                       "layers %" PRIu32 " x accumulate %" PRId64
                       ": at most %d blocks are recorded one by one; without --full, --why, --emit and --svg equal "
                       "blocks are folded",
                       fm_model_arch(request->model)->n_layers, request->recipe.accumulate, MAX_RECORDED_BLOCKS);
    fm_plan_options options = {.exact = exact, .full = full, .capability = exact ? 0 : request->machine.gpu.capability};
    return fm_plan_make(request->model, &request->recipe, &options, plan, err);
}

fm_status fm_request_plan_blocks(const fm_request *request, fm_plan *plan, fm_err *err)
{
    fm_request shorter = *request;
    shorter.recipe.accumulate = drawn_microbatches(request);
    return fm_request_plan(&shorter, false, true, plan, err);
}

// ---- figures ----

// The names of cases for the phases of a step; NULL for those that no case asks for.
static const char *phase_name(unsigned step, unsigned phase)
{
    static const char *const names[FM_LEDGER_STEPS][FM_N_PHASES] = {
        {[FM_PHASE_INIT] = "init"},
        {[FM_PHASE_FORWARD] = "forward",
         [FM_PHASE_LOSS] = "loss",
         [FM_PHASE_BACKWARD] = "backward",
         [FM_PHASE_CLIP] = "clip",
         [FM_PHASE_OPTIMIZER] = "optimizer"},
        {[FM_PHASE_FORWARD] = "forward2",
         [FM_PHASE_LOSS] = "loss2",
         [FM_PHASE_BACKWARD] = "backward2",
         [FM_PHASE_CLIP] = "clip2",
         [FM_PHASE_OPTIMIZER] = "optimizer2"},
    };
    return names[step][phase];
}

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + 511) & ~(uint64_t)511;
}

// `init` is a level, not a peak: what is alive where the first phase after it begins.
static void roles_at_init(const fm_plan *plan, uint64_t *roles)
{
    const fm_program *p = &plan->program;
    for (size_t i = 0; i < p->n_events; i++) {
        const fm_event *e = &p->events[i];
        if (e->kind == FM_EVENT_PHASE && e->subject != FM_PHASE_INIT)
            return;
        if ((e->kind != FM_EVENT_ALLOC && e->kind != FM_EVENT_FREE) || p->lives[e->subject].tier != FM_TIER_DEVICE)
            continue;
        const fm_life *life = &p->lives[e->subject];
        roles[life->role] += e->kind == FM_EVENT_ALLOC ? rounded(life->bytes) : (uint64_t)0 - rounded(life->bytes);
    }
}

static const fm_phase_level *highest_of(const fm_plan *plan, unsigned first_step, unsigned end_step)
{
    const fm_phase_level *best = NULL;
    for (unsigned s = first_step; s < end_step; s++)
        for (unsigned p = 0; p < FM_N_PHASES; p++) {
            const fm_phase_level *level = &plan->ledger.phase[s][p];
            if (level->seen && (!best || level->peak > best->peak))
                best = level;
        }
    return best;
}

bool fm_request_roles(const fm_plan *plan, fm_at_kind at, uint64_t *bytes, uint64_t *roles)
{
    const fm_phase_level *level = NULL;
    const char *name = fm_word_text(FM_FIELD_PHASE, (int)at);
    memset(roles, 0, FM_N_ROLES * sizeof *roles);
    *bytes = fm_plan_figure(plan, at);
    if (at == FM_AT_INIT) {
        roles_at_init(plan, roles);
        return true;
    }
    if (at == FM_AT_HOST) {
        memcpy(roles, plan->ledger.host_at_peak, FM_N_ROLES * sizeof *roles);
        return true;
    }
    if (at == FM_AT_STEADY || at == FM_AT_RUN)
        level = highest_of(plan, at == FM_AT_STEADY ? 2 : 0, FM_LEDGER_STEPS);
    for (unsigned s = 0; s < FM_LEDGER_STEPS && !level; s++)
        for (unsigned p = 0; p < FM_N_PHASES && !level; p++)
            if (phase_name(s, p) && !strcmp(phase_name(s, p), name))
                level = &plan->ledger.phase[s][p];
    if (!level || !level->seen)
        return false;
    memcpy(roles, level->role_at_peak, FM_N_ROLES * sizeof *roles);
    return true;
}

// ---- what is shown ----

fm_status fm_request_series(const fm_plan *plan, uint64_t **series, size_t *n_series, fm_err *err)
{
    const fm_program *p = &plan->program;
    uint64_t *levels = fm_alloc_array(p->n_events ? p->n_events : 1, sizeof *levels), level = 0;
    if (!levels)
        return fm_fail_memory(err, "the timeline");
    for (size_t i = 0; i < p->n_events; i++) {
        const fm_event *e = &p->events[i];
        const fm_life *life = e->kind <= FM_EVENT_SCRATCH ? &p->lives[e->subject] : NULL;
        bool device = life && life->tier == FM_TIER_DEVICE;
        if (device && e->kind == FM_EVENT_FREE)
            level -= rounded(life->bytes);
        if (device && e->kind == FM_EVENT_ALLOC)
            level += rounded(life->bytes);
        levels[i] = level + (device && e->kind == FM_EVENT_SCRATCH ? rounded(life->bytes) : 0);
    }
    *series = levels;
    *n_series = p->n_events;
    return FM_OK;
}

// The event at which a phase of a step begins.
static size_t begin_of(const fm_program *p, unsigned step, unsigned phase)
{
    for (size_t i = 0; i < p->n_events; i++)
        if (p->events[i].kind == FM_EVENT_PHASE && p->events[i].step == step && p->events[i].subject == phase)
            return i;
    return 0;
}

static void view_phases(const fm_plan *plan, bool timeline, fm_plan_view *view)
{
    static const unsigned order[] = {FM_PHASE_INIT,     FM_PHASE_FORWARD, FM_PHASE_LOSS,
                                     FM_PHASE_BACKWARD, FM_PHASE_CLIP,    FM_PHASE_OPTIMIZER};
    for (unsigned s = 0; s < FM_LEDGER_STEPS; s++)
        for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
            const fm_phase_level *level = &plan->ledger.phase[s][order[i]];
            const char *name = phase_name(s, order[i]);
            if (!name || !level->seen)
                continue;
            fm_view_phase *phase = &view->phases[view->n_phases];
            *phase = (fm_view_phase){.name = name, .peak_bytes = level->peak, .end_bytes = level->end};
            phase->first = timeline ? begin_of(&plan->program, s, order[i]) : 0;
            if (level->peak > view->phases[view->peak_phase].peak_bytes)
                view->peak_phase = view->n_phases;
            view->n_phases++;
        }
}

void fm_request_view(const fm_request *request, const fm_plan *plan, const uint64_t *series, size_t n_series,
                     fm_plan_view *view)
{
    *view = (fm_plan_view){.model = fm_model_name(request->model),
                           .n_params = fm_model_n_params(request->model),
                           .recipe = &request->recipe,
                           .machine = &request->machine,
                           .peak_bytes = plan->peak_bytes,
                           .host_peak_bytes = plan->ledger.host_peak,
                           .series = series,
                           .n_series = n_series};
    view->states.parameters = plan->states.parameters;
    view->states.gradients = plan->states.gradients;
    view->states.optimizer = plan->states.optimizer;
    view->states.master = plan->states.master;
    view_phases(plan, series != NULL, view);
    view->steady = (fm_view_phase){.name = "steady", .peak_bytes = fm_plan_figure(plan, FM_AT_STEADY)};
    view->steady.end_bytes = plan->ledger.phase[2][FM_PHASE_ZERO].seen ? plan->ledger.phase[2][FM_PHASE_ZERO].end
                                                                       : plan->ledger.phase[2][FM_PHASE_OPTIMIZER].end;
    const fm_phase_level *top = highest_of(plan, 0, FM_LEDGER_STEPS);
    for (unsigned r = 0; top && r < FM_N_ROLES; r++)
        if (top->role_at_peak[r])
            view->at_peak[view->n_at_peak++] =
                (fm_view_part){fm_role_name((fm_role)r), fm_role_words((fm_role)r), top->role_at_peak[r]};
    for (size_t i = 0;
         i < fm_model_n_notes(request->model) && view->n_notes < sizeof view->notes / sizeof view->notes[0]; i++)
        view->notes[view->n_notes++] = fm_model_note(request->model, i);
}

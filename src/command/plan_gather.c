#include "command/plan_gather.h"
#include "base/alloc.h"

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + 511) & ~(uint64_t)511;
}

fm_status fm_view_series(const fm_plan *plan, uint64_t **series, size_t *n_series, fm_err *err)
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
            const char *name = fm_plan_phase_name(s, order[i]);
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

void fm_view_gather(const fm_request *request, const fm_plan *plan, const uint64_t *series, size_t n_series,
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
    const fm_phase_level *top = fm_plan_highest(plan, 0, FM_LEDGER_STEPS);
    for (unsigned r = 0; top && r < FM_N_ROLES; r++)
        if (top->role_at_peak[r])
            view->at_peak[view->n_at_peak++] =
                (fm_view_part){fm_role_name((fm_role)r), fm_role_words((fm_role)r), top->role_at_peak[r]};
    for (size_t i = 0;
         i < fm_model_n_notes(request->model) && view->n_notes < sizeof view->notes / sizeof view->notes[0]; i++)
        view->notes[view->n_notes++] = fm_model_note(request->model, i);
}

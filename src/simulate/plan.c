#include "simulate/plan.h"
#include "base/checked.h"
#include "model/arch.h"
#include "program/step.h"
#include <string.h>

// --- states

static uint64_t sharded(uint64_t rows, uint64_t per_row, uint64_t ranks)
{
    return rows ? (rows + ranks - 1) / ranks * per_row : 0;
}

fm_status fm_plan_state_bytes(const fm_model *model, const fm_recipe *r, fm_plan_states *out, fm_err *err)
{
    fm_plan_states s = {0};
    bool fsdp = fm_engine_is_fsdp(r->engine);
    uint64_t ranks = fsdp ? (uint64_t)r->shard : 1;
    uint64_t param = fm_precision_bytes(r->param), grad = fm_precision_bytes(r->grad), state = fm_state_bytes(r->state);
    uint64_t moments = r->optimizer == FM_OPTIMIZER_ADAMW ? 2 : r->optimizer == FM_OPTIMIZER_SGD_MOMENTUM ? 1 : 0;
    for (size_t i = 0; i < fm_model_n_tensors(model); i++) {
        const fm_model_param *p = fm_model_param_at(model, i);
        if (p->tied_to >= 0)
            continue;
        uint64_t rows = p->n_dims ? p->dims[0] : 1, n = rows ? sharded(rows, p->n_elems / rows, ranks) : 0, bytes;
        uint64_t own = p->fp32_always ? 4 : param;
        if (!fm_mul_u64(n, own + grad + moments * state + 4, &bytes) || !fm_add_u64(s.total, bytes, &s.total))
            return fm_fail(err, FM_ERR_OVERFLOW, "%s: its states do not fit 64 bits", fm_model_name(model));
        s.parameters += n * own;
        s.gradients += n * (p->fp32_always ? 4 : grad);
        s.optimizer += n * moments * state;
        s.master += r->master == FM_MASTER_FP32 ? 4 * n : 0;
    }
    s.total = s.parameters + s.gradients + s.optimizer + s.master;
    *out = s;
    return FM_OK;
}

// --- folding

// Blocks are of one kind or another (windowed, sparse). The smallest period with which their kinds repeat from block `first` on.
static uint32_t period_of(const fm_arch *arch, uint32_t first)
{
    for (uint32_t period = 1; first + 2 * period <= arch->n_layers; period++) {
        bool repeats = true;
        for (uint32_t i = first; repeats && i + period < arch->n_layers; i++)
            repeats = fm_arch_windowed(arch, i) == fm_arch_windowed(arch, i + period) &&
                      fm_arch_sparse(arch, i) == fm_arch_sparse(arch, i + period);
        if (repeats)
            return period;
    }
    return 0;
}

static fm_status record_and_walk(const fm_model *model, const fm_recipe *recipe, const fm_record_options *options,
                                 const fm_fold *fold, fm_plan *out, bool *folds, fm_err *err)
{
    fm_status status = fm_record(model, recipe, options, &out->program, err);
    if (status != FM_OK)
        return status;
    if (fold && !fm_ledger_folds(&out->program, fold)) {
        *folds = false;
        fm_program_destroy(&out->program);
        return FM_OK;
    }
    *folds = true;
    status = fm_ledger_walk(&out->program, fold, &out->ledger, err);
    if (status != FM_OK)
        fm_program_destroy(&out->program);
    return status;
}

static fm_status folded(const fm_model *model, const fm_recipe *recipe, const fm_plan_options *options,
                        fm_record_options record, fm_plan *out, bool *folds, fm_err *err)
{
    (void)options;
    const fm_arch *arch = fm_model_arch(model);
    uint32_t first = arch->first_k_dense < arch->n_layers ? arch->first_k_dense : 0, period = period_of(arch, first);
    *folds = false;
    if (recipe->prefetch >= (int64_t)arch->n_layers)
        return FM_OK; // every block fetches to the end: no two are alike
    uint32_t margin = recipe->prefetch > 0 ? (uint32_t)recipe->prefetch : 0;
    // FSDP1 with one unit: where rank 0's part of the flat parameter ends depends on all blocks at once.
    if (recipe->engine == FM_ENGINE_FSDP1 && recipe->wrap == FM_WRAP_ROOT)
        return FM_OK;
    for (uint32_t more = 0; period && more < 2 && !*folds; more++) {
        // One round before, the round itself, one round after, and blocks at both ends that know that they are ends.
        uint32_t before = first + 1 + margin + more + period, after = period + 1 + margin + more;
        uint32_t layers = before + period + after;
        layers += (arch->n_layers - layers) % period;
        if (layers + 2 * period > arch->n_layers)
            return FM_OK;
        record.layers = layers;
        fm_fold fold = {.first = before, .period = period, .copies = (arch->n_layers - layers) / period};
        fm_status status = record_and_walk(model, recipe, &record, &fold, out, folds, err);
        if (status != FM_OK)
            return status;
    }
    return FM_OK;
}

fm_status fm_plan_make(const fm_model *model, const fm_recipe *resolved, const fm_plan_options *options, fm_plan *out,
                       fm_err *err)
{
    fm_plan plan;
    memset(&plan, 0, sizeof plan);
    fm_status status = fm_plan_state_bytes(model, resolved, &plan.states, err);
    if (status != FM_OK)
        return status;
    fm_record_options record = {
        .exact = options->exact, .steps = 2, .capability = options->capability ? options->capability : 90};
    bool folds = false;
    if (!options->full && fm_model_arch(model)) {
        record.microbatches = resolved->accumulate > 3 ? 3 : 0;
        status = folded(model, resolved, options, record, &plan, &folds, err);
        if (status != FM_OK)
            return status;
        // Where blocks do not fold, microbatches still do.
    }
    if (!folds) {
        status = record_and_walk(model, resolved, &record, NULL, &plan, &folds, err);
        if (status != FM_OK)
            return status;
    }
    for (unsigned step = 0; step < FM_LEDGER_STEPS; step++)
        for (unsigned phase = 0; phase < FM_N_PHASES; phase++) {
            const fm_phase_level *p = &plan.ledger.phase[step][phase];
            if (p->seen && p->peak > plan.peak_bytes) {
                plan.peak_bytes = p->peak;
                plan.peak_step = (uint8_t)step;
                plan.peak_phase = (fm_phase)phase;
            }
        }
    *out = plan;
    return FM_OK;
}

void fm_plan_reset(fm_plan *plan)
{
    if (!plan)
        return;
    fm_program_destroy(&plan->program);
    memset(plan, 0, sizeof *plan);
}

static uint64_t highest(const fm_plan *plan, unsigned step)
{
    uint64_t peak = 0;
    for (unsigned phase = 0; phase < FM_N_PHASES; phase++)
        if (plan->ledger.phase[step][phase].peak > peak)
            peak = plan->ledger.phase[step][phase].peak;
    return peak;
}

uint64_t fm_plan_figure(const fm_plan *plan, fm_at_kind phase)
{
    static const struct {
        fm_at_kind at;
        uint8_t step;
        fm_phase phase;
    } peaks[] = {
        {FM_AT_FORWARD, 1, FM_PHASE_FORWARD},     {FM_AT_LOSS, 1, FM_PHASE_LOSS},
        {FM_AT_BACKWARD, 1, FM_PHASE_BACKWARD},   {FM_AT_CLIP, 1, FM_PHASE_CLIP},
        {FM_AT_OPTIMIZER, 1, FM_PHASE_OPTIMIZER}, {FM_AT_FORWARD2, 2, FM_PHASE_FORWARD},
        {FM_AT_LOSS2, 2, FM_PHASE_LOSS},          {FM_AT_BACKWARD2, 2, FM_PHASE_BACKWARD},
        {FM_AT_CLIP2, 2, FM_PHASE_CLIP},          {FM_AT_OPTIMIZER2, 2, FM_PHASE_OPTIMIZER},
    };
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++)
        if (peaks[i].at == phase)
            return plan->ledger.phase[peaks[i].step][peaks[i].phase].peak;
    if (phase == FM_AT_INIT)
        return plan->ledger.phase[0][FM_PHASE_INIT].end;
    if (phase == FM_AT_STEADY)
        return highest(plan, 2);
    if (phase == FM_AT_HOST)
        return plan->ledger.host_peak;
    return plan->peak_bytes;
}

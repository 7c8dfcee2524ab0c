// The optimizer's step as torch.optim runs it: foreach, fused, one by one; AdamW, SGD, SGD with momentum.
// Source: torch/optim/adam.py, adamw.py, sgd.py (2.13), lr a Python number, not capturable.
#include "program/step.h"
#include "program/ops_private.h"

// A tensor like p for the optimizer's state or a temporary of its step.
static fm_tensor *like(fm_run *run, const fm_tensor *p, fm_role role, const char *op)
{
    fm_tensor *x =
        fm_tensor_on(&run->tape, (fm_tier)p->storage->tier, role, (uint64_t)fm_tensor_numel(p), (fm_elem)p->elem, op);
    return x;
}

// Moments have the parameter's own type unless the recipe says otherwise (state arithmetic: no stock optimizer does).
static fm_tensor *moment(fm_run *run, const fm_tensor *p, const char *op)
{
    fm_elem elem = run->recipe->state == FM_STATE_FP32   ? FM_ELEM_F32
                   : run->recipe->state == FM_STATE_BF16 ? FM_ELEM_BF16
                   : run->recipe->state == FM_STATE_FP16 ? FM_ELEM_F16
                                                         : (fm_elem)p->elem;
    if (!run->recipe->state_arithmetic)
        elem = (fm_elem)p->elem;
    return fm_tensor_on(&run->tape, (fm_tier)p->storage->tier, FM_ROLE_OPTIMIZER, (uint64_t)fm_tensor_numel(p), elem,
                        op);
}

// fp32 copies that the step updates in the parameters' place.
void fm_make_master_weights(fm_run *run)
{
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 0; run->recipe->master == FM_MASTER_FP32 && i < run->n_parameters; i++) {
        const fm_tensor *p = run->parameters[i].original;
        fm_run_round(run, &at, run->parameters[i].layer);
        if (p)
            fm_tensor_on(&run->tape, (fm_tier)p->storage->tier, FM_ROLE_MASTER, (uint64_t)fm_tensor_numel(p),
                         FM_ELEM_F32, "master");
    }
    fm_run_round(run, &at, FM_NO_LAYER);
}

static bool steps(const fm_parameter *p)
{
    return p->original && p->original->grad;
}

static void adam_state(fm_run *run, uint32_t i)
{
    fm_moments *m = &run->moments[i];
    const fm_tensor *p = run->parameters[i].original;
    if (m->first)
        return;
    // The fused kernel reads its counter on the device; the others keep it on the host.
    fm_tier tier = run->recipe->step == FM_STEP_FUSED ? (fm_tier)p->storage->tier : FM_TIER_HOST;
    m->step = fm_tensor_on(&run->tape, tier, FM_ROLE_OPTIMIZER, 1, FM_ELEM_F32, "step");
    m->first = moment(run, p, "zeros_like");
    m->second = moment(run, p, "zeros_like");
}

// exp_avg_sq.sqrt() of all parameters at once; the rest is in place.
static void adam_foreach(fm_run *run)
{
    fm_tensor *one = fm_tensor_on(&run->tape, FM_TIER_HOST, FM_ROLE_STEP, 1, FM_ELEM_F32, "tensor");
    fm_tensor_release(&run->tape, one);
    fm_tensor **roots = fm_tape_alloc(&run->tape, (run->n_parameters + 1) * sizeof *roots);
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_run_round(run, &at, run->parameters[i].layer);
        if (steps(&run->parameters[i]))
            roots[i] = like(run, run->moments[i].second, FM_ROLE_STEP, "_foreach_sqrt");
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_run_round(run, &at, run->parameters[i].layer);
        fm_tensor_release(&run->tape, roots[i]);
    }
    fm_run_round(run, &at, FM_NO_LAYER);
}

// denom = (exp_avg_sq.sqrt() / correction).add_(eps), a name that lives on into the next parameter's turn
static void adam_loop(fm_run *run)
{
    fm_tensor *denominator = NULL;
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_run_round(run, &at, run->parameters[i].layer);
        if (!steps(&run->parameters[i]))
            continue;
        fm_tensor *root = like(run, run->moments[i].second, FM_ROLE_STEP, "sqrt");
        fm_tensor *ratio = like(run, run->moments[i].second, FM_ROLE_STEP, "div");
        fm_tensor_release(&run->tape, root);
        fm_tensor_release(&run->tape, denominator);
        denominator = ratio;
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    fm_tensor_release(&run->tape, denominator);
}

static void adam(fm_run *run)
{
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_run_round(run, &at, run->parameters[i].layer);
        if (steps(&run->parameters[i]))
            adam_state(run, i);
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    if (run->recipe->step == FM_STEP_FOREACH)
        adam_foreach(run);
    else if (run->recipe->step == FM_STEP_LOOP)
        adam_loop(run);
}

// The first momentum is a copy of the first gradient; later ones are updated in place.
static void sgd_momentum(fm_run *run)
{
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_run_round(run, &at, run->parameters[i].layer);
        if (steps(&run->parameters[i]) && !run->moments[i].first)
            run->moments[i].first = moment(run, run->parameters[i].original, "clone");
    }
    fm_run_round(run, &at, FM_NO_LAYER);
}

void fm_optimizer_step(fm_run *run)
{
    if (run->recipe->optimizer == FM_OPTIMIZER_ADAMW)
        adam(run);
    else if (run->recipe->optimizer == FM_OPTIMIZER_SGD_MOMENTUM)
        sgd_momentum(run);
}

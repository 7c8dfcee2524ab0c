// Where each figure of a plan is taken, and what it is made of.
#include <string.h>
#include "simulate/plan.h"

const char *fm_plan_phase_name(unsigned step, unsigned phase)
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

const fm_phase_level *fm_plan_highest(const fm_plan *plan, unsigned first_step, unsigned end_step)
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

bool fm_plan_roles(const fm_plan *plan, fm_at_kind at, uint64_t *bytes, uint64_t *roles)
{
    const fm_phase_level *level = NULL;
    const char *name = fm_word_text(FM_FIELD_PHASE, (int)at);
    memset(roles, 0, FM_N_ROLES * sizeof *roles);
    *bytes = fm_plan_figure(plan, at);
    if (at == FM_AT_INIT) {
        memcpy(roles, plan->ledger.role_after_init, FM_N_ROLES * sizeof *roles);
        return true;
    }
    if (at == FM_AT_HOST) {
        memcpy(roles, plan->ledger.host_at_peak, FM_N_ROLES * sizeof *roles);
        return true;
    }
    if (at == FM_AT_STEADY || at == FM_AT_RUN)
        level = fm_plan_highest(plan, at == FM_AT_STEADY ? 2 : 0, FM_LEDGER_STEPS);
    for (unsigned s = 0; s < FM_LEDGER_STEPS && !level; s++)
        for (unsigned p = 0; p < FM_N_PHASES && !level; p++)
            if (fm_plan_phase_name(s, p) && !strcmp(fm_plan_phase_name(s, p), name))
                level = &plan->ledger.phase[s][p];
    if (!level || !level->seen)
        return false;
    memcpy(roles, level->role_at_peak, FM_N_ROLES * sizeof *roles);
    return true;
}

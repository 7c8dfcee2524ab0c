// A plan: how high memory rises when this model is trained by this recipe, phase by phase, on one rank.
//
// fm_plan_make records the step (program/step.h), walks it (ledger.h) and adds up the states. A deep model is *folded*: a few blocks are
// recorded, the round that repeats is found and stands for the missing ones; when no steady round is found, or when asked, everything
// is recorded. Folded and full give the same figures (tests/simulate).
#ifndef FM_SIMULATE_PLAN_H
#define FM_SIMULATE_PLAN_H
#include "floodmark/model.h"
#include "floodmark/plan.h"
#include "floodmark/recipe.h"
#include "program/program.h"
#include "simulate/ledger.h"

typedef struct {
    bool exact; // as the exact cases were made (no kernel scratch, gradient sums out of place); else as a GPU does it
    bool full;  // record every block and microbatch
    uint32_t capability; // of the GPU, 80 = 8.0; 0: 90
} fm_plan_options;

typedef struct {
    fm_ledger ledger;
    fm_plan_states states;
    fm_program program;  // what was recorded: the whole step, or its folded form (program.n_layers < n_layers_model)
    uint64_t peak_bytes; // highest level of the device, init to the end of the second step
    uint8_t peak_step;   // 0: init, 1, 2
    fm_phase peak_phase;
} fm_plan;

// `resolved` must be resolved. On success *out is to be given to fm_plan_reset. Errors: of the model's description, FM_ERR_NO_MEMORY.
fm_status fm_plan_make(const fm_model *model, const fm_recipe *resolved, const fm_plan_options *options, fm_plan *out,
                       fm_err *err) FM_MUST_USE;
void fm_plan_reset(fm_plan *plan); // NULL allowed

// The figure of a case's phase column ("forward", "optimizer2", "steady", "run", "host", ...). 0 when the plan has no such phase.
uint64_t fm_plan_figure(const fm_plan *plan, fm_at_kind phase);

// The name of a case's phase ("backward2") for a phase of a step; NULL for those that no case asks for.
const char *fm_plan_phase_name(unsigned step, unsigned phase);

// The phase with the highest peak of the steps [first_step, end_step), 0 being init; NULL when there is none. Borrowed.
const fm_phase_level *fm_plan_highest(const fm_plan *plan, unsigned first_step, unsigned end_step);

// Where a figure of a plan is taken: its bytes, and the bytes by role that make it. `roles` [FM_N_ROLES]. False when the plan has
// no such phase (a clip without clipping).
bool fm_plan_roles(const fm_plan *plan, fm_at_kind at, uint64_t *bytes, uint64_t *roles);

// States alone, without recording.
fm_status fm_plan_state_bytes(const fm_model *model, const fm_recipe *resolved, fm_plan_states *out,
                              fm_err *err) FM_MUST_USE;
#endif

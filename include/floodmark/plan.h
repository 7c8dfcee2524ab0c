// A plan: how high memory rises when a model is trained by a recipe on a machine, phase by phase, on the rank that
// holds most.
//
// Figures are bytes as torch's caching allocator counts them (memory_allocated): each tensor rounded up to 512. Two
// training steps are planned; the first makes the optimizer's states. What each phase means: docs/recipes.md.
//
// Ownership: an outcome holds no pointers; copy it by value. Threads: any.
#ifndef FLOODMARK_PLAN_H
#define FLOODMARK_PLAN_H
#include "floodmark/machine.h"
#include "floodmark/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

// Arithmetic after backward, bytes on one rank: no step counters, no temporaries; gradients as the engine shards them.
typedef struct {
    uint64_t parameters, gradients, optimizer, master, total;
} fm_plan_states;

enum { FM_PLAN_FIGURES = FM_AT_HOST + 1, FM_PLAN_MAX_ROLES = 32 };

typedef struct {
    fm_recipe recipe;                    // resolved: no empty field, each with its origin
    fm_machine machine;                  // machine.gpu.memory_bytes is what there is
    uint64_t n_params;                   // tied tensors once
    uint64_t figures[FM_PLAN_FIGURES];   // by fm_at_kind (FM_AT_RUN: the peak); 0 where there is no such phase
    fm_at_kind peak_phase;               // of init to optimizer2, the one whose figure is the peak
    uint64_t at_peak[FM_PLAN_MAX_ROLES]; // bytes by role at the peak; they add up to it
    fm_plan_states states;
} fm_plan_outcome;

// Plans `recipe`, which names model and machine (fields model and on) and whatever else it says; it need not be
// resolved. Opens and closes the model. Whether it fits is the caller's to judge: what the driver takes is in no figure.
// Errors: those of fm_model_open, fm_machine_parse and fm_recipe_resolve; FM_ERR_USAGE when model or machine is not named,
// FM_ERR_OVERFLOW, FM_ERR_NO_MEMORY. *out is untouched on failure.
fm_status fm_plan_recipe(const fm_recipe *recipe, fm_plan_outcome *out, fm_err *err) FM_MUST_USE;

// Roles are numbered from 0. The name as JSON has it ("gathered_parameters"), and what it is in words. Static storage.
size_t fm_plan_n_roles(void);
const char *fm_plan_role_name(size_t role);  // NULL past the last
const char *fm_plan_role_words(size_t role); // NULL past the last

#ifdef __cplusplus
}
#endif
#endif

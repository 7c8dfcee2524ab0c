// From what a person or a case says to a model, a machine and a resolved recipe: the beginning of plan and validate.
#ifndef FM_SIMULATE_REQUEST_H
#define FM_SIMULATE_REQUEST_H
#include "floodmark/machine.h"
#include "floodmark/model.h"
#include "simulate/plan.h"

typedef struct {
    fm_model *model; // owned
    fm_machine machine;
    fm_recipe recipe; // resolved
} fm_request;

// Opens recipe->model with recipe->layers blocks, parses recipe->on, resolves. *typed (may be NULL) on failure: what was
// typed is wrong (a value, a contradiction), not a file. On failure nothing is owned.
fm_status fm_request_make(const fm_recipe *recipe, fm_request *out, bool *typed, fm_err *err) FM_MUST_USE;
void fm_request_reset(fm_request *request);

// Plans it. `exact`: as the exact cases were made. `full`: every block is recorded; FM_ERR_OVERFLOW: they are too many.
fm_status fm_request_plan(const fm_request *request, bool exact, bool full, fm_plan *plan, fm_err *err) FM_MUST_USE;

// Whether there are few enough blocks to record each.
bool fm_request_draws(const fm_request *request);

// Plans it with every block recorded, as lists and pictures need it, and of many microbatches the first, one in the
// middle and the last.
fm_status fm_request_plan_blocks(const fm_request *request, fm_plan *plan, fm_err *err) FM_MUST_USE;
#endif

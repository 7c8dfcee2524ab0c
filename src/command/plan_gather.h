// From a plan to what `plan` shows of it.
#ifndef FM_COMMAND_PLAN_GATHER_H
#define FM_COMMAND_PLAN_GATHER_H
#include "command/plan_view.h"
#include "simulate/request.h"

// The series (may be NULL) is owned by the caller. Everything in *view is borrowed.
void fm_view_gather(const fm_request *request, const fm_plan *plan, const uint64_t *series, size_t n_series,
                    fm_plan_view *view);

// Device levels after each event of a program recorded in full. *series: fm_free.
fm_status fm_view_series(const fm_plan *plan, uint64_t **series, size_t *n_series, fm_err *err) FM_MUST_USE;
#endif

// What is behind a number: the buffers of one role that are alive at the peak.
#ifndef FM_COMMAND_PLAN_WHY_H
#define FM_COMMAND_PLAN_WHY_H
#include "base/buf.h"
#include "base/units.h"
#include "simulate/request.h"

// Finds a role by its name ('-' for '_' too). FM_ERR_USAGE with the nearest.
fm_status fm_why_role(const char *name, fm_role *role, fm_err *err) FM_MUST_USE;

// Lists them, equal ones of all layers in one line, from largest to smallest, with the module and operation that made
// each, and the source of the role's rule. `plan` must be recorded in full. As text, or one JSON object.
fm_status fm_why_print(const fm_request *request, const fm_plan *plan, fm_role role, fm_units units, bool json,
                       fm_buf *out, fm_err *err) FM_MUST_USE;
#endif

#include "floodmark/plan.h"
#include <string.h>
#include "simulate/request.h"

_Static_assert((int)FM_N_ROLES <= (int)FM_PLAN_MAX_ROLES, "an outcome has room for every role");

static void gather(const fm_request *request, const fm_plan *plan, fm_plan_outcome *out)
{
    uint64_t bytes, roles[FM_N_ROLES];
    memset(out, 0, sizeof *out);
    out->recipe = request->recipe;
    out->machine = request->machine;
    out->n_params = fm_model_n_params(request->model);
    out->states = plan->states;
    for (int at = FM_AT_INIT; at < FM_PLAN_FIGURES; at++)
        if (fm_plan_roles(plan, (fm_at_kind)at, &bytes, roles))
            out->figures[at] = bytes;
    for (int at = FM_AT_OPTIMIZER2; at >= FM_AT_INIT; at--) // the first of equals
        if (out->figures[at] == plan->peak_bytes)
            out->peak_phase = (fm_at_kind)at;
    if (fm_plan_roles(plan, FM_AT_RUN, &bytes, roles))
        memcpy(out->at_peak, roles, sizeof roles);
}

fm_status fm_plan_recipe(const fm_recipe *recipe, fm_plan_outcome *out, fm_err *err)
{
    fm_request request;
    fm_status status = fm_request_make(recipe, &request, NULL, err);
    if (status)
        return status;
    fm_plan plan;
    status = fm_request_plan(&request, false, false, &plan, err);
    if (!status) {
        gather(&request, &plan, out);
        fm_plan_reset(&plan);
    }
    fm_request_reset(&request);
    return status;
}

size_t fm_plan_n_roles(void)
{
    return FM_N_ROLES;
}

const char *fm_plan_role_name(size_t role)
{
    return role < FM_N_ROLES ? fm_role_name((fm_role)role) : NULL;
}

const char *fm_plan_role_words(size_t role)
{
    return role < FM_N_ROLES ? fm_role_words((fm_role)role) : NULL;
}

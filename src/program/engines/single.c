// Engine `single`: one process, nothing sharded. Parameters are what modules read and what the optimizer updates.
#include "program/step.h"

void fm_make_whole_parameters(fm_run *run)
{
    fm_tape *t = &run->tape;
    t->role_forced = true;
    t->role = FM_ROLE_PARAMETER;
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_parameter *p = &run->parameters[i];
        fm_run_round(run, &at, p->layer);
        if (p->tied_to != UINT32_MAX) {
            p->used = run->parameters[p->tied_to].used;
            continue;
        }
        t->module = p->module;
        p->original = fm_tensor_new(t, p->n_dims, p->shape, (fm_elem)p->elem, "parameter");
        p->original->requires_grad = p->original->is_parameter = true;
        p->used = p->original;
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    t->module = 0;
    t->role_forced = false;
}

const fm_engine fm_engine_single = {.name = "single", .init = fm_make_whole_parameters};

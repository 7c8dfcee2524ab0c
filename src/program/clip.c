// torch.nn.utils.clip_grad_norm_(foreach=True): one norm a gradient, stacked, their norm, a coefficient; the scaling is in place.
// Source: torch/nn/utils/clip_grad.py (2.13).
#include "program/step.h"

static fm_tensor *scalar(fm_run *run, uint64_t n, fm_elem elem, const char *op)
{
    return fm_tensor_on(&run->tape, FM_TIER_DEVICE, FM_ROLE_CLIP, n, elem, op);
}

void fm_clip_gradients(fm_run *run)
{
    fm_tape *t = &run->tape;
    fm_tensor **norms = fm_tape_alloc(t, (run->n_parameters + 1) * sizeof *norms);
    uint32_t n = 0;
    fm_elem elem = FM_ELEM_F32;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_tensor *p = run->parameters[i].original;
        if (!p || !p->grad)
            continue;
        elem = (fm_elem)p->grad->elem;
        norms[n++] = scalar(run, 1, elem, "_foreach_norm");
    }
    fm_tensor *stacked = scalar(run, n, elem, "stack"), *total = scalar(run, 1, elem, "linalg_vector_norm");
    fm_tensor_release(t, stacked);
    for (uint32_t i = 0; i < n; i++)
        fm_tensor_release(t, norms[i]);
    fm_tensor *sum = scalar(run, 1, elem, "add"), *inverse = scalar(run, 1, elem, "reciprocal");
    fm_tensor_release(t, sum);
    fm_tensor *coefficient = scalar(run, 1, elem, "mul");
    fm_tensor_release(t, inverse);
    fm_tensor *clamped = scalar(run, 1, elem, "clamp");
    fm_tensor_release(t, coefficient);
    fm_tensor_release(t, clamped);
    fm_tensor_release(t, total);
}

// torch.nn.utils.clip_grad_norm_(foreach=True): one norm a gradient, stacked, their norm, a coefficient; the scaling is in place.
// Sharded gradients (DTensor) add up the squares over the ranks first. Source: torch/nn/utils/clip_grad.py (2.13).
#include "program/step.h"

static fm_tensor *norm_like(fm_run *run, const fm_tensor *grad, uint64_t n, const char *op)
{
    return fm_tensor_on(&run->tape, (fm_tier)grad->storage->tier, FM_ROLE_CLIP, n, (fm_elem)grad->elem, op);
}

// The partial norms of a sharded model: squares, all-reduce, its waited copy, square root.
static void reduce_norms(fm_run *run, const fm_tensor *grad, uint64_t n)
{
    fm_tape *t = &run->tape;
    fm_tensor *squares = norm_like(run, grad, n, "pow"), *sent = norm_like(run, grad, n, "all_reduce"), *sum = norm_like(run, grad, n, "wait_tensor");
    fm_tensor_release(t, sent);
    fm_tensor *roots = norm_like(run, grad, n, "pow");
    fm_tensor_release(t, squares);
    fm_tensor_release(t, sum);
    fm_tensor *total = norm_like(run, grad, 1, "linalg_vector_norm");
    fm_tensor_release(t, roots);
    fm_tensor_release(t, total);
}

void fm_clip_gradients(fm_run *run)
{
    fm_tape *t = &run->tape;
    fm_tensor **norms = fm_tape_alloc(t, (run->n_parameters + 1) * sizeof *norms);
    const fm_tensor *grad = NULL;
    uint32_t n = 0, at = FM_NO_LAYER;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_run_round(run, &at, run->parameters[i].layer);
        const fm_tensor *p = run->parameters[i].original;
        if (!p || !p->grad)
            continue;
        grad = p->grad;
        norms[i] = norm_like(run, grad, 1, "_foreach_norm");
        n++;
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    if (!grad)
        return;
    fm_run_missing(run, NULL, &n);
    fm_tensor *stacked = norm_like(run, grad, n, "stack"), *total;
    if (run->recipe->engine == FM_ENGINE_FSDP2)
        reduce_norms(run, grad, n);
    total = norm_like(run, grad, 1, "linalg_vector_norm");
    fm_tensor_release(t, stacked);
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_run_round(run, &at, run->parameters[i].layer);
        fm_tensor_release(t, norms[i]);
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    fm_tensor *sum = norm_like(run, grad, 1, "add"), *inverse = norm_like(run, grad, 1, "reciprocal"), *coefficient = norm_like(run, grad, 1, "mul");
    fm_tensor_release(t, inverse);
    fm_tensor_release(t, sum);
    fm_tensor *clamped = norm_like(run, grad, 1, "clamp");
    fm_tensor_release(t, coefficient);
    fm_tensor_release(t, clamped);
    fm_tensor_release(t, total);
}

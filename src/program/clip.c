// torch.nn.utils.clip_grad_norm_(foreach=True): one norm a gradient, stacked, their norm, a coefficient; the scaling is in place.
// Sharded gradients (DTensor) add up the squares over the ranks first. Source: torch/nn/utils/clip_grad.py (2.13).
#include "program/cuda_scratch.h"
#include "program/step.h"

static fm_tensor *norm_like(fm_run *run, const fm_tensor *grad, uint64_t n, const char *op)
{
    return fm_tensor_on(&run->tape, (fm_tier)grad->storage->tier, FM_ROLE_CLIP, n, (fm_elem)grad->elem, op);
}

// Gradients that a folded recording leaves out: as many in each missing block as in the recorded ones.
static uint64_t missing_norms(const fm_run *run, uint32_t n)
{
    uint32_t outside = 0, missing = run->arch->n_layers - run->n_layers;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        const fm_parameter *p = &run->parameters[i];
        outside += p->layer == FM_NO_LAYER && p->original && p->original->grad;
    }
    return missing ? (uint64_t)(n - outside) / run->n_layers * missing : 0;
}

// FSDP1's own: norms one by one in fp32; stacked; squared, reduced, rooted. Low-precision gradients are scaled by a cast of the coefficient.
// Source: torch/distributed/fsdp/fully_sharded_data_parallel.py, clip_grad_norm_.
void fm_clip_norms_one_by_one(fm_run *run)
{
    fm_tape *t = &run->tape;
    fm_tensor **norms = fm_tape_alloc(t, (run->n_parameters + 1) * sizeof *norms);
    const fm_tensor *low = NULL;
    uint32_t n = 0, at = FM_NO_LAYER;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_run_round(run, &at, run->parameters[i].layer);
        const fm_tensor *p = run->parameters[i].original;
        if (!p || !p->grad)
            continue;
        low = p->grad->elem != FM_ELEM_F32 ? p->grad : low;
        norms[i] = fm_tensor_on(t, FM_TIER_DEVICE, FM_ROLE_CLIP, 1, FM_ELEM_F32, "linalg_vector_norm");
        n++;
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    uint64_t total = n + missing_norms(run, n);
    fm_tensor *scalars[6] = {fm_tensor_on(t, FM_TIER_DEVICE, FM_ROLE_CLIP, total, FM_ELEM_F32, "stack")};
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_run_round(run, &at, run->parameters[i].layer);
        fm_tensor_release(t, norms[i]);
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    static const char *const ops[] = {"", "linalg_vector_norm", "pow", "pow", "mul", "clamp"};
    for (unsigned i = 1; i < 6; i++) {
        fm_tensor *sum = NULL, *inverse = NULL; // the coefficient is a number divided by (norm + 1e-6)
        if (i == 4) {
            sum = fm_tensor_on(t, FM_TIER_DEVICE, FM_ROLE_CLIP, 1, FM_ELEM_F32, "add");
            inverse = fm_tensor_on(t, FM_TIER_DEVICE, FM_ROLE_CLIP, 1, FM_ELEM_F32, "reciprocal");
        }
        scalars[i] = fm_tensor_on(t, FM_TIER_DEVICE, FM_ROLE_CLIP, 1, FM_ELEM_F32, ops[i]);
        fm_tensor_release(t, inverse);
        fm_tensor_release(t, sum);
        if (i == 1 || i == 3) {
            fm_tensor_release(t, scalars[i - 1]);
            scalars[i - 1] = NULL;
        }
    }
    if (low)
        fm_tensor_release(t, norm_like(run, low, 1, "_to_copy"));
    for (unsigned i = 0; i < 6; i++)
        fm_tensor_release(t, scalars[i]);
}

// The partial norms of a sharded model: squares, all-reduce, its waited copy, square root.
static fm_tensor *reduce_norms(fm_run *run, const fm_tensor *grad, uint64_t n)
{
    fm_tape *t = &run->tape;
    fm_tensor *squares = norm_like(run, grad, n, "pow"), *sent = norm_like(run, grad, n, "all_reduce"),
              *sum = norm_like(run, grad, n, "wait_tensor");
    fm_tensor_release(t, sent);
    fm_tensor *roots = norm_like(run, grad, n, "pow");
    fm_tensor_release(t, squares);
    fm_tensor_release(t, sum);
    fm_tensor *total = norm_like(run, grad, 1, "linalg_vector_norm");
    fm_tensor_release(t, roots);
    return total;
}

void fm_clip_gradients(fm_run *run)
{
    fm_tape *t = &run->tape;
    fm_tensor **norms = fm_tape_alloc(t, (run->n_parameters + 1) * sizeof *norms);
    const fm_tensor *grad = NULL;
    uint32_t n = 0, at = FM_NO_LAYER;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_run_round(run, &at, run->parameters[i].layer);
        const fm_tensor *p = run->parameters[i].original;
        if (!p || !p->grad)
            continue;
        grad = p->grad;
        norms[i] = norm_like(run, grad, 1, "_foreach_norm");
        uint64_t elems = (uint64_t)fm_tensor_numel(grad);
        largest = elems > largest ? elems : largest;
        n++;
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    if (!grad)
        return;
    fm_run_missing(run, NULL, &n);
    fm_tape_scratch(t, fm_foreach_norm_scratch(n, largest),
                    "_foreach_norm"); // of all gradients together, one type and device
    fm_tensor *stacked = norm_like(run, grad, n, "stack"), *total;
    if (run->recipe->engine == FM_ENGINE_FSDP2 && run->recipe->shard > 1)
        total = reduce_norms(run, grad, n);
    else
        total = norm_like(run, grad, 1, "linalg_vector_norm");
    fm_tensor_release(t, stacked);
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_run_round(run, &at, run->parameters[i].layer);
        fm_tensor_release(t, norms[i]);
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    fm_tensor *sum = norm_like(run, grad, 1, "add"), *inverse = norm_like(run, grad, 1, "reciprocal"),
              *coefficient = norm_like(run, grad, 1, "mul");
    fm_tensor_release(t, inverse);
    fm_tensor_release(t, sum);
    fm_tensor *clamped = norm_like(run, grad, 1, "clamp");
    fm_tensor_release(t, coefficient);
    fm_tensor_release(t, clamped);
    fm_tensor_release(t, total);
}

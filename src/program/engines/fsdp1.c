// Engine `fsdp1`: torch.distributed.fsdp.FullyShardedDataParallel, use_orig_params=True, BACKWARD_PRE prefetch.
// Source: torch 2.13, torch/distributed/fsdp/{_runtime_utils,_flat_param,fully_sharded_data_parallel}.py; the order of allocations and
// frees is theirs. On a GPU its record_stream calls let memory die later than here: its figures are lower bounds.
//
// A unit's parameters are one flat tensor, each aligned to 16 bytes, the whole padded to the ranks. Rank 0 owns its first part, so it holds
// the first parameters whole, one in part, the others not at all. A gather fills the flat tensor itself. The modules read views of it that
// autograd knows (a split), so the unit's gradients are joined to one flat gradient when the last is there.
#include "program/step.h"
#include "program/ops.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    uint32_t *params, n_params;
    uint64_t *offset;         // [n_params] of each parameter in the flat one
    uint64_t *gap;            // [n_params] elements of padding behind it
    uint64_t n_flat, n_shard; // elements: padded to the ranks; of rank 0
    uint32_t layer, module;
    fm_tensor *flat;          // the leaf; its storage is empty while sharded
    fm_tensor *shard;         // this rank's part at rest
    fm_tensor *low_shard;     // its low-precision copy (mixed precision); its storage is empty unless in use
    fm_tensor *gradient;      // sharded, from the reduction to the next step's forward
    bool has_unsharded_views; // of gradients, between microbatches that do not reduce
    bool root, prefetched, needs_unshard, ran_pre_backward;
    int64_t forward_index;
} unit;

typedef struct {
    unit *units; // [1..n_units], the root first
    uint32_t n_units, *order, n_order;
    fm_elem compute, reduce, stored;
    bool mixed, sharded, started, sync;
    bool callback_queued;
    fm_tensor *zero; // clip_grad_norm_'s scalar, kept
} fsdp;

static fsdp *state_of(fm_run *run)
{
    return run->engine_state;
}

static void resize(fm_run *run, fm_tensor *x, uint64_t elems, fm_elem elem, const char *op)
{
    uint8_t before = run->tape.stream;
    run->tape.stream = x->storage->stream = FM_STREAM_SIDE;
    fm_storage_resize(&run->tape, x->storage, elems * fm_elem_bytes(elem), op);
    run->tape.stream = before;
}

// --- gathering

static bool is_whole(const unit *u)
{
    return u->flat->storage->bytes > 0;
}

static void unshard(fm_run *run, unit *u)
{
    fsdp *f = state_of(run);
    if (!f->sharded) { // NO_SHARD: the low-precision copy of the whole takes the place of a gather
        if (f->mixed && !is_whole(u))
            resize(run, u->flat, u->n_flat, f->compute, "resize_");
        return;
    }
    if (is_whole(u))
        return;
    if (f->mixed)
        resize(run, u->low_shard, u->n_shard, f->compute, "resize_");
    resize(run, u->flat, u->n_flat, f->compute, "resize_");
    if (f->mixed)
        resize(run, u->low_shard, 0, f->compute, "");
}

// Frees the gathered tensor when asked; the low-precision copy of NO_SHARD always goes.
static void reshard(fm_run *run, unit *u, bool free_it)
{
    fsdp *f = state_of(run);
    u->prefetched = false;
    if (f->sharded ? free_it : f->mixed)
        resize(run, u->flat, 0, f->compute, "");
}

static bool reshards_after_forward(const fm_run *run)
{
    return run->recipe->reshard != FM_RESHARD_NO;
}

// --- views that modules read

static void set_used(fm_run *run, uint32_t index, fm_tensor *x)
{
    fm_parameter *p = &run->parameters[index];
    fm_tensor_release(&run->tape, p->used);
    p->used = x;
    for (uint32_t i = index + 1; i < run->n_parameters; i++)
        if (run->parameters[i].tied_to == index)
            run->parameters[i].used = x;
}

static void contiguous(fm_tensor *x, const fm_parameter *p)
{
    x->n_dims = p->n_dims;
    int64_t step = 1;
    for (unsigned d = p->n_dims; d-- > 0; step *= p->shape[d]) {
        x->shape[d] = p->shape[d];
        x->stride[d] = step;
    }
}

// The gradients of the parts, joined: the unit's flat gradient. A part without one counts as zeros.
static void split_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    const unit *u = n->context;
    fm_tensor **zeros = fm_tape_alloc(t, (u->n_params + 1) * sizeof *zeros);
    (void)grads;
    for (uint32_t i = 0; i < u->n_params; i++) // padding is a part that nothing came from
        if (u->gap[i])
            zeros[i] = fm_tensor_new(t, 1, (const int64_t[]){(int64_t)u->gap[i]}, (fm_elem)u->flat->elem, "zeros");
    results[0] = fm_tensor_new(t, 1, u->flat->shape, (fm_elem)u->flat->elem, "cat");
    for (uint32_t i = 0; i < u->n_params; i++)
        fm_tensor_release(t, zeros[i]);
}
static const fm_row split_row = {"SplitWithSizesBackward", split_backward};

static void view_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (grads[0])
        results[0] = fm_sink(fm_op_reshape(t, grads[0], n->in_dims[0], n->in_shape[0]));
    (void)t;
}
static const fm_row view_row = {"ViewBackward", view_backward};

static void use_views(fm_run *run, unit *u)
{
    fm_tape *t = &run->tape;
    fm_grad_node *n = fm_grad_node_new(t, &split_row, 1, &u->flat);
    if (!n)
        return;
    n->context = u;
    fm_grad_node_outputs(t, n, u->n_params);
    for (uint32_t i = 0; i < u->n_params; i++) {
        const fm_parameter *p = &run->parameters[u->params[i]];
        fm_tensor *part = fm_tensor_alias(t, u->flat);
        part->n_dims = 1;
        part->shape[0] = (int64_t)p->n_elems;
        part->stride[0] = 1;
        fm_grad_node_output(t, n, part, i);
        fm_grad_node *view = fm_grad_node_new(t, &view_row, 1, &part);
        fm_tensor *x = fm_tensor_alias(t, part);
        contiguous(x, p);
        fm_grad_node_output(t, view, x, 0);
        fm_grad_node_release(t, view);
        fm_tensor_release(t, part);
        set_used(run, u->params[i], x);
    }
    fm_grad_node_release(t, n);
}

// Outside of forward modules hold the parameters themselves: leaves over the same memory (a recomputation reads them).
static void use_leaves(fm_run *run, unit *u)
{
    for (uint32_t i = 0; i < u->n_params; i++) {
        fm_tensor *x = fm_tensor_alias(&run->tape, u->flat);
        contiguous(x, &run->parameters[u->params[i]]);
        x->requires_grad = x->is_parameter = true;
        set_used(run, u->params[i], x);
    }
}

// --- reducing

// The orig_params' gradients: views of rank 0's part of the flat one.
static void use_gradient_views(fm_run *run, unit *u)
{
    fm_tape *t = &run->tape;
    for (uint32_t i = 0; i < u->n_params; i++) {
        fm_tensor *original = run->parameters[u->params[i]].original;
        if (original->grad || !fm_tensor_numel(original))
            continue;
        original->grad = fm_tensor_alias(t, u->gradient);
        original->grad->n_dims = 1;
        original->grad->shape[0] = original->shape[0];
        original->grad->stride[0] = 1;
    }
}

// no_sync: each parameter's .grad becomes a view of the unsharded flat gradient. Its shape is not the parameter's, so torch makes a tensor like
// the parameter first and then lets it point elsewhere: it lives for a moment, the first time.
static void use_unsharded_gradient_views(fm_run *run, unit *u)
{
    for (uint32_t i = 0; state_of(run)->sharded && !u->has_unsharded_views && i < u->n_params; i++) {
        const fm_tensor *original = run->parameters[u->params[i]].original;
        if (fm_tensor_numel(original))
            fm_tensor_release(&run->tape,
                              fm_tensor_on(&run->tape, FM_TIER_DEVICE, FM_ROLE_BACKWARD,
                                           (uint64_t)fm_tensor_numel(original), (fm_elem)original->elem, "empty_like"));
    }
    u->has_unsharded_views = true;
}

static fm_tensor *flat_like(fm_run *run, fm_role role, uint64_t n, fm_elem elem, const char *op)
{
    uint8_t before = run->tape.stream;
    run->tape.stream = FM_STREAM_SIDE;
    fm_tensor *x = fm_tensor_on(&run->tape, FM_TIER_DEVICE, role, n, elem, op);
    run->tape.stream = before;
    return x;
}

static void post_backward(fm_tape *t, void *context, fm_tensor *unused)
{
    struct {
        fm_run *run;
        uint32_t id;
    } *c = context;
    fm_run *run = c->run;
    fsdp *f = state_of(run);
    unit *u = &f->units[c->id];
    (void)unused;
    fm_tensor *grad = u->flat->grad;
    if (!grad)
        return;
    uint32_t module = t->module;
    t->module = u->module;
    fm_storage_role(t, grad->storage, FM_ROLE_UNSHARDED_GRADIENT);
    reshard(run, u, f->sync || reshards_after_forward(run));
    if (!f->sync)
        use_unsharded_gradient_views(run, u);
    t->module = module;
    if (!f->sync)
        return;
    u->has_unsharded_views = false;
    u->flat->grad = NULL;
    fm_tensor *computed = grad; // kept by a local name to the end
    fm_tensor *input =
        grad->elem != f->reduce ? flat_like(run, FM_ROLE_REDUCE_INPUT, u->n_flat, f->reduce, "_to_copy") : NULL;
    fm_tensor *shard;
    if (f->sharded) {
        shard = flat_like(run, FM_ROLE_REDUCE_OUTPUT, u->n_shard, f->reduce, "empty_like");
    } else { // reduced in place, whole
        shard = input ? input : computed;
        fm_tensor_retain(shard);
    }
    if (f->sharded) {
        fm_tensor_release(t, input);
        input = NULL;
    }
    if (f->reduce != f->stored) {
        fm_tensor *cast = flat_like(run, FM_ROLE_GRADIENT, f->sharded ? u->n_shard : u->n_flat, f->stored, "_to_copy");
        fm_tensor_release(t, shard);
        shard = cast;
    }
    fm_storage_role(t, shard->storage, FM_ROLE_GRADIENT);
    if (u->gradient)
        fm_tensor_release(t, shard); // added in place
    else
        u->gradient = shard;
    fm_tensor_release(t, input);
    fm_tensor_release(t, computed);
    use_gradient_views(run, u);
}

// --- hooks

typedef struct {
    fm_run *run;
    uint32_t id;
} hook_context;

static hook_context *context_of(fm_run *run, uint32_t id)
{
    hook_context *c = fm_tape_alloc(&run->tape, sizeof *c);
    *c = (hook_context){run, id};
    return c;
}

static void pre_backward(fm_tape *t, void *context, fm_tensor *grad)
{
    hook_context *c = context;
    fsdp *f = state_of(c->run);
    unit *u = &f->units[c->id];
    (void)grad;
    f->callback_queued = true;
    if (u->ran_pre_backward)
        return;
    uint32_t module = t->module;
    t->module = u->module;
    if (u->needs_unshard && !u->prefetched)
        unshard(c->run, u);
    u->needs_unshard = false;
    if (u->forward_index > 0) { // the unit whose forward ended before this one's
        unit *next = &f->units[f->order[u->forward_index - 1]];
        if (next->needs_unshard && !next->prefetched) {
            unshard(c->run, next);
            next->prefetched = true;
        }
    }
    u->ran_pre_backward = true;
    t->module = module;
}

// Lazy initialization, at the first forward: the tensors that gathers will fill are allocated once and freed at once.
static void start(fm_run *run)
{
    fsdp *f = state_of(run);
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 1; i <= f->n_units; i++) {
        unit *u = &f->units[i];
        fm_run_round(run, &at, u->layer);
        if (f->mixed)
            fm_tensor_release(&run->tape, flat_like(run, FM_ROLE_GATHER_INPUT, u->n_shard, f->compute, "empty_like"));
        if (f->sharded)
            fm_tensor_release(&run->tape, flat_like(run, FM_ROLE_GATHERED, u->n_flat, f->compute, "empty"));
        if (f->sharded && f->mixed)
            fm_tensor_release(&run->tape, flat_like(run, FM_ROLE_GATHERED, u->n_flat, FM_ELEM_F32, "empty"));
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    f->started = true;
}

// Gradients that zero_grad has taken from the parameters die when the next step's forward begins.
static void drop_old_gradients(fm_run *run)
{
    fsdp *f = state_of(run);
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 1; i <= f->n_units; i++) {
        unit *u = &f->units[i];
        fm_run_round(run, &at, u->layer);
        bool any = false;
        for (uint32_t k = 0; k < u->n_params; k++)
            any |= run->parameters[u->params[k]].original->grad != NULL;
        if (any)
            continue;
        fm_tensor *old = u->gradient;
        u->gradient = NULL;
        fm_tensor_release(&run->tape, old);
    }
    fm_run_round(run, &at, FM_NO_LAYER);
}

static fm_tensor *cast_input(fm_run *run, fm_tensor *x)
{
    fsdp *f = state_of(run);
    if (run->recipe->how != FM_HOW_POLICY || !x || !fm_elem_is_float((fm_elem)x->elem) || x->elem == f->compute)
        return x;
    return fm_op_to(&run->tape, x, f->compute);
}

static fm_tensor *pre_forward(fm_run *run, uint32_t id, fm_tensor *input, fm_tensor **kwargs, unsigned n_kwargs)
{
    fsdp *f = state_of(run);
    unit *u = &f->units[id];
    fm_tape *t = &run->tape;
    if (u->root) {
        if (!f->started)
            start(run);
        drop_old_gradients(run);
    }
    uint32_t module = t->module;
    t->module = u->module;
    unshard(run, u);
    use_views(run, u);
    t->module = module;
    fm_tensor *x = cast_input(run, input);
    for (unsigned i = 0; i < n_kwargs; i++) {
        fm_tensor *cast = cast_input(run, kwargs[i]);
        if (cast != kwargs[i]) {
            fm_sink(cast);
            fm_tensor_release(t, kwargs[i]);
            kwargs[i] = cast;
        }
    }
    return x;
}

static fm_tensor *post_forward(fm_run *run, uint32_t id, fm_tensor *output)
{
    fsdp *f = state_of(run);
    unit *u = &f->units[id];
    u->forward_index = f->n_order;
    f->order[f->n_order++] = id;
    reshard(run, u, !u->root && reshards_after_forward(run));
    use_leaves(run, u);
    if (output && output->requires_grad) {
        fm_tensor_hook(output, pre_backward, context_of(run, id));
        u->needs_unshard = true;
    }
    return output;
}

static void after_backward(fm_run *run)
{
    fsdp *f = state_of(run);
    if (!f->callback_queued)
        return;
    for (uint32_t i = 1; i <= f->n_units; i++) {
        unit *u = &f->units[i];
        u->ran_pre_backward = u->needs_unshard = u->prefetched = false;
    }
    f->n_order = 0;
    f->callback_queued = false;
}

static void before_microbatch(fm_run *run)
{
    state_of(run)->sync = run->n_microbatches == 1 || run->recipe->sync == FM_SYNC_EACH || run->last_microbatch;
}

// clip_grad_norm_ of FSDP: norms one by one in fp32, stacked, squared, reduced, rooted. Without sharding it is torch's own.
static void clip(fm_run *run)
{
    fsdp *f = state_of(run);
    fm_tape *t = &run->tape;
    if (!f->zero) {
        fm_tensor *host = fm_tensor_on(t, FM_TIER_HOST, FM_ROLE_CLIP, 1, FM_ELEM_F32, "tensor");
        f->zero = fm_tensor_on(t, FM_TIER_DEVICE, FM_ROLE_CLIP, 1, FM_ELEM_F32, "_to_copy");
        fm_tensor_release(t, host);
    }
    if (!f->sharded) {
        fm_clip_gradients(run);
        return;
    }
    fm_clip_norms_one_by_one(run);
}

// --- wrapping

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static void new_unit(fm_run *run, const char *path, uint32_t layer, bool *taken, const char *prefix)
{
    fsdp *f = state_of(run);
    fm_tape *t = &run->tape;
    unit *u = &f->units[++f->n_units];
    u->layer = layer;
    u->module = fm_tape_path(t, path);
    u->params = fm_tape_alloc(t, (run->n_parameters + 1) * sizeof *u->params);
    u->offset = fm_tape_alloc(t, (run->n_parameters + 1) * sizeof *u->offset);
    fm_run_unit(run, path, f->n_units);
    size_t n_prefix = strlen(prefix);
    uint64_t aligned = 16 / fm_elem_bytes(f->compute), total = 0;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        const fm_parameter *p = &run->parameters[i];
        if (taken[i] || p->tied_to != UINT32_MAX || strncmp(p->name, prefix, n_prefix) != 0 ||
            (n_prefix && p->name[n_prefix] != '.'))
            continue;
        taken[i] = true;
        total = round_up(total, aligned);
        u->offset[u->n_params] = total;
        u->params[u->n_params++] = i;
        total += p->n_elems;
    }
    uint64_t ranks = (uint64_t)run->recipe->shard;
    u->n_flat = round_up(total, ranks);
    u->n_shard = u->n_flat / ranks;
    u->gap = fm_tape_alloc(t, (u->n_params + 1) * sizeof *u->gap);
    for (uint32_t i = 0; i < u->n_params; i++) {
        uint64_t next = i + 1 < u->n_params ? u->offset[i + 1] : u->n_flat;
        u->gap[i] = next - u->offset[i] - run->parameters[u->params[i]].n_elems;
    }
}

static void make_tensors(fm_run *run, unit *u)
{
    fsdp *f = state_of(run);
    fm_tape *t = &run->tape;
    t->module = u->module;
    u->shard = fm_tensor_on(t, FM_TIER_DEVICE, FM_ROLE_PARAMETER, u->n_shard, f->stored, "clone");
    bool own = f->sharded || f->mixed; // else the flat parameter is itself what modules read
    u->low_shard = fm_tensor_on(t, FM_TIER_DEVICE, FM_ROLE_GATHER_INPUT, 0, f->compute, "empty_like");
    u->flat =
        own ? fm_tensor_on(t, FM_TIER_DEVICE, FM_ROLE_GATHERED, 0, f->compute, "empty") : fm_tensor_alias(t, u->shard);
    u->flat->shape[0] = (int64_t)u->n_flat;
    u->flat->requires_grad = u->flat->is_parameter = true;
    for (uint32_t i = 0; i < u->n_params; i++) {
        fm_parameter *p = &run->parameters[u->params[i]];
        uint64_t begin = u->offset[i], end = begin + p->n_elems;
        p->original = fm_tensor_alias(t, u->shard);
        p->original->shape[0] = (int64_t)(begin >= u->n_shard ? 0 : (end < u->n_shard ? end : u->n_shard) - begin);
    }
    use_leaves(run, u);
    fm_grad_node *accumulate = fm_tensor_accumulator(t, u->flat);
    accumulate->post_hook = post_backward;
    accumulate->post_context = context_of(run, (uint32_t)(u - f->units));
}

static void init(fm_run *run)
{
    fm_tape *t = &run->tape;
    fsdp *f = fm_tape_alloc(t, sizeof *f);
    run->engine_state = f;
    f->units = fm_tape_alloc(t, (run->n_layers + 3) * sizeof *f->units);
    f->order = fm_tape_alloc(t, (run->n_layers + 3) * sizeof *f->order);
    f->stored = fm_elem_of(run->recipe->param);
    f->compute = run->recipe->how == FM_HOW_POLICY ? fm_elem_of(run->recipe->compute) : f->stored;
    f->reduce = run->recipe->how == FM_HOW_POLICY ? fm_elem_of(run->recipe->reduce) : f->stored;
    f->mixed = f->compute != f->stored;
    f->sharded = run->recipe->shard > 1;
    f->sync = true;
    bool *taken = fm_tape_alloc(t, run->n_parameters + 1);
    f->n_units = 1; // the root's place is the first, its parameters are what the blocks leave
    for (uint32_t layer = 0; run->recipe->wrap != FM_WRAP_ROOT && layer < run->n_layers; layer++)
        for (uint32_t i = 0; i < run->n_parameters; i++)
            if (run->parameters[i].layer == layer) {
                const char *path =
                    fm_model_unit_at(run->model, fm_model_param_at(run->model, run->parameters[i].index)->unit)->name;
                new_unit(run, path, layer, taken, path);
                break;
            }
    uint32_t n = f->n_units;
    f->n_units = 0;
    new_unit(run, "", FM_NO_LAYER, taken, "");
    f->units[1].root = true;
    f->n_units = n;
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 1; i <= n; i++) {
        fm_run_round(run, &at, f->units[i].layer);
        make_tensors(run, &f->units[i]);
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    for (uint32_t i = 0; i < run->n_parameters; i++)
        if (run->parameters[i].tied_to != UINT32_MAX)
            run->parameters[i].used = run->parameters[run->parameters[i].tied_to].used;
    t->module = 0;
}

const fm_engine fm_engine_fsdp1 = {
    .name = "fsdp1",
    .init = init,
    .before_microbatch = before_microbatch,
    .pre_forward = pre_forward,
    .post_forward = post_forward,
    .after_backward = after_backward,
    .clip = clip,
};

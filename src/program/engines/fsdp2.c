// Engine `fsdp2`: torch.distributed.fsdp.fully_shard, with its defaults, HSDP, explicit prefetch and CPU offload.
// Source: torch 2.13, torch/distributed/fsdp/_fully_shard/{_fsdp_state,_fsdp_param_group,_fsdp_param,_fsdp_collectives}.py; the order of every
// allocation and free below is theirs. Checked against tests/golden/traces.
#include "program/engines/fsdp2.h"
#include "program/ops.h"
#include <stdio.h>
#include <string.h>

// Short here, where nothing else is meant.
typedef fm_fsdp2_unit unit;
typedef fm_fsdp2 fsdp;

static fsdp *state_of(fm_run *run)
{
    return run->engine_state;
}
static uint64_t shards(const fm_run *run)
{
    return (uint64_t)run->recipe->shard;
}
static bool offloads(const fm_run *run)
{
    return run->recipe->offload & FM_OFFLOAD_PARAMS;
}

static fm_tensor *flat(fm_run *run, fm_role role, fm_stream stream, uint64_t n, fm_elem elem, const char *op)
{
    uint8_t before = run->tape.stream;
    run->tape.stream = (uint8_t)stream;
    fm_tensor *x = fm_tensor_on(&run->tape, FM_TIER_DEVICE, role, n, elem, op);
    run->tape.stream = before;
    return x;
}

// A unit that holds every block: its loops over parameters are loops over layers.
static void turn(fm_run *run, const unit *u, uint32_t *at, uint32_t i)
{
    if (u->spans_blocks)
        fm_run_round(run, at, i < u->n_params ? run->parameters[u->params[i]].layer : FM_NO_LAYER);
}

// --- gathering

static uint64_t unit_shard_elems(fm_run *run, const unit *u)
{
    uint64_t n = u->missing_elems;
    for (uint32_t i = 0; i < u->n_params; i++)
        n += fm_fsdp2_shard_elems(run, &run->parameters[u->params[i]]);
    return n;
}

static fm_elem gathered_elem(fm_run *run, const unit *u)
{
    return state_of(run)->casts ? state_of(run)->param_elem : (fm_elem)run->parameters[u->params[0]].elem;
}

// A parameter's all-gather input when it must be brought to the device, or cast, on its own: a copy, then a cast, the copy dying. NULL: the shard itself.
static fm_tensor *own_input(fm_run *run, uint32_t index, fm_stream stream)
{
    const fm_parameter *p = &run->parameters[index];
    uint64_t n = fm_fsdp2_shard_elems(run, p);
    fm_tensor *x = offloads(run) ? flat(run, FM_ROLE_GATHER_INPUT, stream, n, (fm_elem)p->elem, "_to_copy") : NULL;
    if (state_of(run)->casts && p->elem != state_of(run)->param_elem) {
        fm_tensor *cast = flat(run, FM_ROLE_GATHER_INPUT, stream, n, state_of(run)->param_elem, "_to_copy");
        fm_tensor_release(&run->tape, x);
        x = cast;
    }
    return x;
}

// unshard(): the all-gather, on its own stream. With a cast and no offload all shards are cast into one flat tensor first.
static void unshard(fm_run *run, unit *u)
{
    fm_tape *t = &run->tape;
    if (u->gathering || u->unsharded || !u->n_params)
        return;
    u->gathering = true;
    if (shards(run) == 1)
        return;
    uint32_t module = t->module, at = FM_NO_LAYER;
    t->module = u->module;
    uint64_t n = unit_shard_elems(run, u);
    fm_elem elem = gathered_elem(run, u);
    fm_tensor *cast = NULL, **own = NULL;
    if (offloads(run)) {
        own = fm_tape_alloc(t, u->n_params * sizeof *own);
        for (uint32_t i = 0; i < u->n_params; i++) {
            turn(run, u, &at, i);
            own[i] = own_input(run, u->params[i], FM_STREAM_GATHER);
        }
        turn(run, u, &at, u->n_params);
    } else if (state_of(run)->casts) {
        cast = flat(run, FM_ROLE_GATHER_INPUT, FM_STREAM_GATHER, n, elem, "empty");
    }
    u->gathered = flat(run, FM_ROLE_GATHER_BUFFER, FM_STREAM_GATHER, n * shards(run), elem, "empty");
    fm_tensor_release(t, cast);
    for (uint32_t i = 0; own && i < u->n_params; i++) {
        turn(run, u, &at, i);
        fm_tensor_release(t, own[i]);
    }
    turn(run, u, &at, u->n_params);
    t->module = module;
}

static void grow_unsharded(fm_run *run, const unit *u, uint32_t i)
{
    fm_parameter *p = &run->parameters[u->params[i]];
    uint64_t n = fm_fsdp2_shard_elems(run, p) * shards(run);
    run->tape.module = p->module;
    fm_storage_resize(&run->tape, p->used->storage, n * fm_elem_bytes((fm_elem)p->used->elem), "empty");
}

// wait_for_unshard(): each parameter's whole storage is allocated and filled. In forward the buffer is kept for the next unit to free after
// its own copy-out (the code's local name keeps the previous one through this one); in backward it dies here.
static void wait_for_unshard(fm_run *run, unit *u)
{
    fsdp *f = state_of(run);
    fm_tape *t = &run->tape;
    if (!u->gathering)
        return;
    fm_tensor *previous = NULL;
    if (u->group == FM_FSDP2_IN_FORWARD) {
        previous = f->gather_state;
        f->gather_state = NULL;
    }
    uint32_t module = t->module, at = FM_NO_LAYER;
    if (shards(run) == 1) { // no gather: each shard is copied, through a cast that lives until the next one's is made
        fm_tensor *input = NULL;
        for (uint32_t i = 0; i < u->n_params; i++) {
            turn(run, u, &at, i);
            fm_tensor *next = own_input(run, u->params[i], FM_STREAM_MAIN);
            fm_tensor_release(t, input);
            input = next;
            grow_unsharded(run, u, i);
        }
        fm_tensor_release(t, input);
    } else {
        for (uint32_t i = 0; i < u->n_params; i++) {
            turn(run, u, &at, i);
            grow_unsharded(run, u, i);
        }
    }
    turn(run, u, &at, u->n_params);
    t->module = module;
    u->unsharded = true;
    if (u->group == FM_FSDP2_IN_FORWARD && shards(run) > 1)
        f->gather_state = u->gathered;
    else
        fm_tensor_release(t, u->gathered);
    u->gathered = NULL;
    u->gathering = false;
    fm_tensor_release(t, previous);
}

static void to_sharded(fm_run *run, unit *u)
{
    if (!u->unsharded)
        return;
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 0; i < u->n_params; i++) {
        turn(run, u, &at, i);
        fm_storage_resize(&run->tape, run->parameters[u->params[i]].used->storage, 0, "");
    }
    turn(run, u, &at, u->n_params);
    u->unsharded = false;
}

// --- reducing

static void add_or_set_gradient(fm_run *run, fm_parameter *p, fm_tensor *reduced)
{
    fm_tape *t = &run->tape;
    if (!offloads(run)) {
        if (!p->original->grad)
            p->original->grad =
                fm_tensor_alias(t, reduced); // a view of the unit's one flat gradient; a second one is added in place
        return;
    }
    fm_tensor *host =
        fm_tensor_on(t, FM_TIER_HOST, FM_ROLE_GRADIENT, fm_fsdp2_shard_elems(run, p), (fm_elem)p->elem, "_to_copy");
    if (p->original->grad)
        fm_tensor_release(t, host); // added in place
    else
        p->original->grad = host;
}

static fm_tensor *take_gradient(fm_run *run, unit *u, uint32_t i)
{
    fm_tensor *grad = u->accumulated[i];
    u->accumulated[i] = NULL;
    if (!grad) {
        fm_tensor *used = run->parameters[u->params[i]].used;
        grad = used->grad;
        used->grad = NULL;
    }
    if (grad)
        fm_storage_role(&run->tape, grad->storage, FM_ROLE_UNSHARDED_GRADIENT);
    return grad;
}

// foreach_reduce(): padded gradients side by side in the reduce type; the gradients die, all but the last, which a loop variable
// keeps to the end (when there is more than one shard); the shard of the sum; its cast to the stored type where they differ.
static void reduce_gradients(fm_run *run, unit *u, fm_tensor **grads, uint32_t n)
{
    fsdp *f = state_of(run);
    fm_tape *t = &run->tape;
    uint64_t elems = u->missing_elems, last = 0;
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 0; i < u->n_params; i++)
        if (grads[i]) {
            elems += fm_fsdp2_shard_elems(run, &run->parameters[u->params[i]]);
            last = i;
        }
    if (!n)
        return;
    fm_elem grad_elem = (fm_elem)grads[last]->elem, stored = (fm_elem)run->parameters[u->params[last]].elem;
    fm_elem reduce = run->recipe->how == FM_HOW_POLICY ? f->reduce_elem : grad_elem;
    fm_tensor *input = flat(run, FM_ROLE_REDUCE_INPUT, FM_STREAM_MAIN, elems * shards(run), reduce, "empty");
    bool *had = fm_tape_alloc(t, u->n_params * sizeof *had);
    for (uint32_t i = 0; i < u->n_params; i++) {
        turn(run, u, &at, i);
        had[i] = grads[i] != NULL;
        if (grads[i] && (i != last || shards(run) == 1)) {
            fm_tensor_release(t, grads[i]);
            grads[i] = NULL;
        }
    }
    turn(run, u, &at, u->n_params);
    bool same = reduce == stored;
    fm_tensor *output = flat(run, same && !offloads(run) ? FM_ROLE_GRADIENT : FM_ROLE_REDUCE_OUTPUT, FM_STREAM_REDUCE,
                             elems, reduce, "empty");
    if (run->recipe->replicate > 1) {
        u->all_reduce_input = output;
        fm_tensor_retain(output);
    }
    if (!same) {
        fm_tensor *cast = flat(run, offloads(run) ? FM_ROLE_REDUCE_OUTPUT : FM_ROLE_GRADIENT, FM_STREAM_REDUCE, elems,
                               stored, "_to_copy");
        fm_tensor_release(t, output);
        output = cast;
    }
    for (uint32_t i = 0; i < u->n_params; i++) {
        turn(run, u, &at, i);
        if (had[i])
            add_or_set_gradient(run, &run->parameters[u->params[i]], output);
    }
    turn(run, u, &at, u->n_params);
    fm_tensor_release(t, output);
    fm_tensor_release(t, grads[last]);
    f->reduce_state = input;
}

// Without reduction: whole gradients stay, in the reduce type; later ones are added in place.
static void keep_unsharded(fm_run *run, unit *u)
{
    fsdp *f = state_of(run);
    fm_tape *t = &run->tape;
    if (f->reshard_after_backward)
        to_sharded(run, u);
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 0; i < u->n_params; i++) {
        turn(run, u, &at, i);
        fm_tensor *used = run->parameters[u->params[i]].used, *grad = used->grad;
        if (!grad)
            continue;
        fm_storage_role(t, grad->storage, FM_ROLE_UNSHARDED_GRADIENT);
        if (run->recipe->how != FM_HOW_POLICY || grad->elem == f->reduce_elem)
            continue;
        used->grad = NULL;
        u->accumulated[i] = flat(run, FM_ROLE_UNSHARDED_GRADIENT, FM_STREAM_MAIN, (uint64_t)fm_tensor_numel(grad),
                                 f->reduce_elem, "_to_copy");
        fm_tensor_release(t, grad);
    }
    turn(run, u, &at, u->n_params);
}

static void post_backward(fm_run *run, unit *u)
{
    fsdp *f = state_of(run);
    fm_tape *t = &run->tape;
    uint32_t module = t->module;
    t->module = u->module;
    u->group = FM_FSDP2_POST_BACKWARD;
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 0; i < u->n_params; i++) {
        turn(run, u, &at, i);
        fm_tensor *used = run->parameters[u->params[i]].used;
        if (u->accumulated[i] && used->grad) { // accumulate_unsharded_grad_if_needed: in place
            fm_tensor *grad = used->grad;
            used->grad = NULL;
            fm_tensor_release(t, grad);
        }
    }
    turn(run, u, &at, u->n_params);
    if (!f->reduce) {
        keep_unsharded(run, u);
        t->module = module;
        return;
    }
    fm_tensor **grads = fm_tape_alloc(t, (u->n_params + 1) * sizeof *grads);
    uint32_t n = 0;
    for (uint32_t i = 0; i < u->n_params; i++)
        n += (grads[i] = take_gradient(run, u, i)) != NULL;
    if (f->reshard_after_backward)
        to_sharded(run, u);
    fm_tensor *oldest = f->reduce_state;
    f->reduce_state = NULL;
    fm_tensor_release(t, oldest);
    fm_tensor *kept = n ? u->all_reduce_input : NULL;
    if (kept)
        u->all_reduce_input = NULL;
    fm_tensor_release(t, kept);
    reduce_gradients(run, u, grads, n);
    t->module = module;
}

// --- hooks

static void record_post_forward(fm_run *run, unit *u, uint32_t id)
{
    fsdp *f = state_of(run);
    if (f->n_order == f->cap_order) {
        uint32_t bigger = f->cap_order ? 2 * f->cap_order : 64,
                 *order = fm_tape_alloc(&run->tape, bigger * sizeof *order);
        if (f->n_order)
            memcpy(order, f->order, f->n_order * sizeof *order);
        f->order = order;
        f->cap_order = bigger;
    }
    if (u->n_forward_index < 16)
        u->forward_index[u->n_forward_index++] = f->n_order;
    f->order[f->n_order++] = id;
}

static void prefetch_forward(fm_run *run, const unit *u)
{
    fsdp *f = state_of(run);
    if (run->recipe->prefetch <= 0 || u->layer == FM_NO_LAYER)
        return;
    for (int64_t k = 1; k <= run->recipe->prefetch && u->layer + k < run->n_layers; k++)
        for (uint32_t i = 1; i <= f->n_units; i++)
            if (f->units[i].layer != FM_NO_LAYER && f->units[i].layer == u->layer + k) {
                unshard(run, &f->units[i]);
            }
}

static void prefetch_backward(fm_run *run, const unit *u)
{
    fsdp *f = state_of(run);
    for (int64_t k = 1; k <= run->recipe->prefetch && k <= (int64_t)u->layer; k++)
        for (uint32_t i = 1; i <= f->n_units; i++)
            if (f->units[i].layer != FM_NO_LAYER && f->units[i].layer + k == u->layer)
                unshard(run, &f->units[i]);
}

typedef struct {
    fm_run *run;
    uint32_t id;
} hook_context;

static void pre_backward(fm_tape *t, void *context, fm_tensor *grad)
{
    hook_context *c = context;
    fm_run *run = c->run;
    fsdp *f = state_of(run);
    unit *u = &f->units[c->id];
    (void)grad;
    f->callback_queued = true;
    bool explicit_list = run->recipe->prefetch > 0 && u->layer != FM_NO_LAYER && u->layer > 0;
    uint32_t module = t->module;
    u->state = FM_FSDP2_PRE_BACKWARD;
    if (u->n_params && u->group != FM_FSDP2_PRE_BACKWARD) {
        u->group = FM_FSDP2_PRE_BACKWARD;
        unshard(run, u);
        wait_for_unshard(run, u);
        if (!explicit_list && u->n_forward_index) {
            uint32_t at = u->forward_index[--u->n_forward_index];
            if (at > 0)
                unshard(run, &f->units[f->order[at - 1]]);
        }
    }
    if (explicit_list)
        prefetch_backward(run, u);
    t->module = module;
}

static void register_post_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    hook_context *c = n->context;
    (void)t;
    post_backward(c->run, &state_of(c->run)->units[c->id]);
    if (grads[0]) {
        fm_tensor_retain(grads[0]);
        results[0] = grads[0];
    }
}
static const fm_row post_backward_row = {"RegisterPostBackwardFunctionBackward", register_post_backward};

static hook_context *context_of(fm_run *run, uint32_t id)
{
    hook_context *c = fm_tape_alloc(&run->tape, sizeof *c);
    *c = (hook_context){run, id};
    return c;
}

static fm_tensor *cast_input(fm_run *run, fm_tensor *x)
{
    fsdp *f = state_of(run);
    if (run->recipe->how != FM_HOW_POLICY || !x || !fm_elem_is_float((fm_elem)x->elem) || x->elem == f->param_elem)
        return x;
    return fm_op_to(&run->tape, x, f->param_elem);
}

static fm_tensor *pre_forward(fm_run *run, uint32_t id, fm_tensor *input, fm_tensor **kwargs, unsigned n_kwargs)
{
    fsdp *f = state_of(run);
    unit *u = &f->units[id];
    fm_tape *t = &run->tape;
    if (u->n_modules > 1 && !u->to_run)
        u->to_run = (1u << u->n_modules) - 1;
    if (u->state == FM_FSDP2_PRE_BACKWARD) { // run again by a checkpoint around the module: backward gathers it
        unshard(run, u);
        wait_for_unshard(run, u);
        return input;
    }
    bool first = u->state != FM_FSDP2_IN_FORWARD, entering = u->group != FM_FSDP2_IN_FORWARD;
    fm_tensor *x = cast_input(run, input);
    for (unsigned i = 0; i < n_kwargs; i++) {
        fm_tensor *cast = cast_input(run, kwargs[i]);
        if (cast != kwargs[i]) {
            fm_sink(cast);
            fm_tensor_release(t, kwargs[i]);
            kwargs[i] = cast;
        }
    }
    u->state = u->group = FM_FSDP2_IN_FORWARD;
    unshard(run, u);
    wait_for_unshard(run, u);
    if (entering && x && x->requires_grad && t->grad_enabled && fm_elem_is_float((fm_elem)x->elem)) {
        fm_grad_node *n = fm_grad_node_new(t, &post_backward_row, 1, &x);
        fm_tensor *out = fm_tensor_alias(t, x);
        if (n) {
            n->context = context_of(run, id);
            fm_grad_node_output(t, n, out, 0);
            fm_grad_node_release(t, n);
        }
        fm_tensor_take(t, x);
        x = fm_float(out);
    }
    if (first)
        prefetch_forward(run, u);
    return x;
}

static void root_forward_done(fm_run *run)
{
    fsdp *f = state_of(run);
    fm_tensor *last = f->gather_state;
    f->gather_state = NULL;
    fm_tensor_release(&run->tape, last);
}

static void finish_forward(fm_run *run, uint32_t id, fm_tensor *output)
{
    unit *u = &state_of(run)->units[id];
    if (!run->tape
             .recomputing) { // inside a backward (a checkpoint runs the module again) the order of forwards is not touched
        if (u->reshard_after_forward)
            to_sharded(run, u);
        record_post_forward(run, u, id);
    } else { // and the module is the outermost of that forward
        root_forward_done(run);
    }
    u->state = u->group = FM_FSDP2_IDLE;
    if (output && output->requires_grad)
        fm_tensor_hook(output, pre_backward, context_of(run, id));
}

// A group's forward is over when each of its modules has run once.
static bool completes_group(fm_run *run, unit *u)
{
    if (u->n_modules <= 1)
        return true;
    uint32_t before = u->to_run;
    for (uint32_t i = 0; i < u->n_modules; i++)
        if (u->modules[i] == run->tape.module)
            u->to_run &= ~(1u << i);
    return before && !u->to_run;
}

static fm_tensor *post_forward(fm_run *run, uint32_t id, fm_tensor *output)
{
    fsdp *f = state_of(run);
    unit *u = &f->units[id];
    if (!completes_group(run, u) || u->state == FM_FSDP2_PRE_BACKWARD)
        return output;
    finish_forward(run, id, output);
    if (id == f->root) // groups that ran in part (a chunked loss runs the head alone) end with the root, the last first
        for (uint32_t i = f->n_units; i > 0; i--)
            if (i != id && f->units[i].to_run) {
                finish_forward(run, i, output);
                f->units[i].to_run = 0;
            }
    return output;
}

// _root_post_backward_final_callback: units whose inputs wanted no gradient are reduced here, the root first.
static void after_backward(fm_run *run)
{
    fsdp *f = state_of(run);
    fm_tape *t = &run->tape;
    if (!f->callback_queued)
        return;
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 1; i <= f->n_units; i++) {
        unit *u = &f->units[i];
        fm_run_round(run, &at, u->n_params ? run->parameters[u->params[0]].layer : FM_NO_LAYER);
        u->to_run = 0;
        if (u->n_params && u->group != FM_FSDP2_POST_BACKWARD)
            post_backward(run, u);
        u->state = u->group = FM_FSDP2_IDLE;
        fm_tensor *kept = u->all_reduce_input;
        u->all_reduce_input = NULL;
        fm_tensor_release(t, kept);
        if (u->gathering) { // a gather nobody waited for
            fm_tensor_release(t, u->gathered);
            u->gathered = NULL;
            u->gathering = false;
        }
        u->n_forward_index = 0;
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    f->n_order = 0;
    fm_tensor *last = f->reduce_state;
    f->reduce_state = NULL;
    fm_tensor_release(t, last);
    f->callback_queued = false;
}

static void before_microbatch(fm_run *run)
{
    fsdp *f = state_of(run);
    bool only_last = run->n_microbatches > 1 && run->recipe->sync != FM_SYNC_EACH;
    f->reduce = !only_last || run->last_microbatch;
    f->reshard_after_backward = run->recipe->sync != FM_SYNC_LAST_KEEP || !only_last || run->last_microbatch;
}

// --- the engine

static void init(fm_run *run)
{
    fm_tape *t = &run->tape;
    fsdp *f = fm_tape_alloc(t, sizeof *f);
    run->engine_state = f;
    f->units = fm_tape_alloc(t, (run->n_layers + 6) * sizeof *f->units);
    f->param_elem = fm_elem_of(run->recipe->compute);
    f->reduce_elem = fm_elem_of(run->recipe->reduce);
    f->casts = run->recipe->how == FM_HOW_POLICY && run->recipe->compute != run->recipe->param;
    f->reduce = f->reshard_after_backward = true;
    fm_tier tier = offloads(run) ? FM_TIER_HOST : FM_TIER_DEVICE;
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_parameter *p = &run->parameters[i];
        fm_run_round(run, &at, p->layer);
        if (p->tied_to != UINT32_MAX) {
            p->used = run->parameters[p->tied_to].used;
            continue;
        }
        t->module = p->module;
        p->original =
            fm_tensor_on(t, tier, FM_ROLE_PARAMETER, fm_fsdp2_shard_elems(run, p), (fm_elem)p->elem, "new_zeros");
        p->used =
            fm_tensor_on(t, FM_TIER_DEVICE, FM_ROLE_GATHERED, 0, f->casts ? f->param_elem : (fm_elem)p->elem, "empty");
        p->used->n_dims = p->n_dims;
        memcpy(p->used->shape, p->shape, sizeof p->shape);
        int64_t step = 1;
        for (unsigned d = p->n_dims; d-- > 0; step *= p->shape[d])
            p->used->stride[d] = step;
        p->used->requires_grad = p->used->is_parameter = true;
    }
    fm_run_round(run, &at, FM_NO_LAYER);
    t->module = 0;
    fm_fsdp2_wrap(run);
    for (uint32_t i = 1; i <= f->n_units; i++)
        f->units[i].accumulated = fm_tape_alloc(t, (f->units[i].n_params + 1) * sizeof(fm_tensor *));
}

const fm_engine fm_engine_fsdp2 = {
    .name = "fsdp2",
    .init = init,
    .before_microbatch = before_microbatch,
    .pre_forward = pre_forward,
    .post_forward = post_forward,
    .root_forward_done = root_forward_done,
    .after_backward = after_backward,
};

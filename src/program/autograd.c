// The backward engine: nodes, their order, the sums where gradients meet, activation checkpointing.
#include "program/tape.h"
#include "program/ops.h"
#include "program/tape_private.h"
#include <string.h>

// A checkpointed region. In forward its nodes' slots are numbered, not filled. The first use of a slot runs the region again, which
// fills `kept` in the same order; each is handed over to its node at its use. The frame dies with its last slot, and its input with it.
struct fm_frame {
    fm_region_fn *fn;
    void *context;
    void (*destroy)(fm_tape *t, void *context);
    fm_tensor *input; // owned
    fm_tensor **kept; // [n_saves], owned references, NULL once handed over
    uint32_t n_saves, n_again, refs, module;
    bool done, in_forward;
    fm_autocast autocast;
};

void fm_grad_node_retain(fm_grad_node *n)
{
    n->refs++;
}

static void frame_release(fm_tape *t, fm_frame *f)
{
    if (!f || --f->refs)
        return;
    for (uint32_t i = 0; f->kept && i < f->n_saves; i++)
        fm_tensor_release(t, f->kept[i]);
    fm_tensor_release(t, f->input);
    if (f->destroy)
        f->destroy(t, f->context);
}

// Drops what the node saved, as release_variables() after its backward or its destructor does.
static void node_drop_saved(fm_tape *t, fm_grad_node *n)
{
    for (unsigned i = 0; i < n->n_saved; i++) {
        fm_tensor_release(t, n->saved[i]);
        n->saved[i] = NULL;
        if (n->saved_index[i]) {
            fm_frame *f = n->frame;
            uint32_t k = n->saved_index[i] - 1;
            if (f->kept && f->done) {
                fm_tensor_release(t, f->kept[k]);
                f->kept[k] = NULL;
            }
            n->saved_index[i] = 0;
            frame_release(t, f);
        }
    }
}

void fm_grad_node_release(fm_tape *t, fm_grad_node *n)
{
    // A chain of nodes can be as long as the model is deep: unlink iteratively along the first edge.
    while (n && --n->refs == 0) {
        node_drop_saved(t, n);
        for (unsigned i = 0; i < n->n_outputs; i++)
            fm_tensor_release(t, n->buffer[i]);
        fm_grad_node *follow = NULL;
        for (unsigned i = 0; i < n->n_next; i++) {
            fm_grad_node *next = n->next[i].node;
            if (!next)
                continue;
            if (!follow)
                follow = next;
            else
                fm_grad_node_release(t, next);
        }
        if (n->leaf)
            n->leaf->accumulate = NULL;
        fm_tape_free_node_object(t, n);
        n = follow;
    }
}

static void accumulate_grad(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results);
static const fm_row accumulate_row = {"AccumulateGrad", accumulate_grad};

fm_grad_node *fm_tensor_accumulator(fm_tape *t, fm_tensor *leaf)
{
    if (!leaf->accumulate) {
        fm_grad_node *n = fm_tape_new_node_object(t);
        n->refs = 1;
        n->row = &accumulate_row;
        n->sequence = UINT64_MAX;
        n->leaf = leaf;
        n->buffer = n->few;
        n->n_outputs = 1;
        n->module = t->module;
        leaf->accumulate = n;
    }
    return leaf->accumulate;
}

fm_grad_node *fm_grad_node_new(fm_tape *t, const fm_row *row, unsigned n_inputs, fm_tensor *const *inputs)
{
    if (!t->grad_enabled || t->mute)
        return NULL;
    bool any = false;
    for (unsigned i = 0; i < n_inputs; i++)
        any |= inputs[i] && inputs[i]->requires_grad;
    if (!any)
        return NULL;
    fm_grad_node *n = fm_tape_new_node_object(t);
    n->refs = 1;
    n->row = row;
    n->sequence = t->next_sequence++;
    n->n_next = (uint8_t)n_inputs;
    n->buffer = n->few;
    n->next = n->few_next;
    n->in_shape = n->few_shape;
    n->in_dims = n->few_dims;
    n->in_elem = n->few_elem;
    if (n_inputs > FM_MAX_EDGES) {
        n->next = fm_tape_alloc(t, n_inputs * sizeof *n->next);
        n->in_shape = fm_tape_alloc(t, n_inputs * sizeof *n->in_shape);
        n->in_dims = fm_tape_alloc(t, n_inputs);
        n->in_elem = fm_tape_alloc(t, n_inputs);
    }
    n->module = t->module;
    for (unsigned i = 0; i < n_inputs; i++) {
        fm_tensor *x = inputs[i];
        if (!x)
            continue;
        n->in_dims[i] = x->n_dims;
        n->in_elem[i] = x->elem;
        memcpy(n->in_shape[i], x->shape, sizeof x->shape);
        if (!x->requires_grad)
            continue;
        fm_grad_node *next = x->grad_fn ? x->grad_fn : fm_tensor_accumulator(t, x);
        fm_grad_node_retain(next);
        n->next[i] = (fm_edge){next, x->out_nr};
    }
    return n;
}

void fm_grad_node_save(fm_tape *t, fm_grad_node *n, unsigned slot, fm_tensor *x)
{
    if (!n || !x || t->mute)
        return;
    if (slot >= n->n_saved)
        n->n_saved = (uint8_t)(slot + 1);
    fm_frame *f = t->packing;
    if (!f) {
        n->saved[slot] = fm_tensor_alias(t, x);
        return;
    }
    if (f->in_forward) {
        n->frame = f;
        n->saved_index[slot] = ++f->n_saves;
        f->refs++;
        return;
    }
    // Recomputing: the frame keeps it, whatever node it belongs to now; after the last one nothing more is needed.
    if (f->n_again < f->n_saves) {
        f->kept[f->n_again] = fm_tensor_alias(t, x);
        if (++f->n_again == f->n_saves)
            t->mute = true;
    }
}

void fm_grad_node_output(fm_tape *t, fm_grad_node *n, fm_tensor *out, unsigned out_nr)
{
    (void)t;
    if (!n || !out)
        return;
    if (out_nr >= n->n_outputs)
        n->n_outputs = (uint16_t)(out_nr + 1);
    fm_grad_node_retain(n);
    out->grad_fn = n;
    out->out_nr = (uint16_t)out_nr;
    out->requires_grad = true;
    out->is_leaf = false;
}

void fm_grad_node_outputs(fm_tape *t, fm_grad_node *n, unsigned n_outputs)
{
    if (n_outputs > FM_MAX_EDGES)
        n->buffer = fm_tape_alloc(t, n_outputs * sizeof *n->buffer);
    n->n_outputs = (uint16_t)n_outputs;
}

static void recompute(fm_tape *t, fm_frame *f)
{
    f->kept = fm_tape_alloc(t, (f->n_saves + 1) * sizeof *f->kept);
    f->n_again = 0;
    f->refs++;
    fm_frame *packing = t->packing;
    uint32_t module = t->module;
    fm_autocast autocast = t->autocast;
    bool grad_enabled = t->grad_enabled, recomputing = t->recomputing;
    t->packing = f;
    t->module = f->module;
    t->grad_enabled = true;
    t->recomputing = true;
    fm_tensor *input = fm_tensor_alias(t, f->input);
    input->requires_grad = true;
    input->is_leaf = false; // it came from the graph: autocast shares casts of leaves only
    if (f->autocast.enabled)
        fm_autocast_enter(t, f->autocast.low);
    fm_tensor *out = f->fn(t, f->context, input);
    fm_tensor_release(t, input);
    fm_tensor_release(t, out);
    if (f->autocast.enabled)
        fm_autocast_exit(t);
    t->mute = false;
    t->packing = packing;
    t->module = module;
    t->grad_enabled = grad_enabled;
    t->recomputing = recomputing;
    t->autocast = autocast;
    f->done = true;
    frame_release(t, f);
}

fm_tensor *fm_grad_node_saved(fm_tape *t, fm_grad_node *n, unsigned slot)
{
    if (n->saved[slot] || !n->saved_index[slot])
        return n->saved[slot];
    fm_frame *f = n->frame;
    if (!f->done)
        recompute(t, f);
    uint32_t k = n->saved_index[slot] - 1;
    n->saved[slot] = f->kept[k];
    f->kept[k] = NULL;
    return n->saved[slot];
}

fm_tensor *fm_checkpoint(fm_tape *t, fm_region_fn *fn, void *context, void (*destroy)(fm_tape *t, void *context),
                         fm_tensor *input)
{
    fm_frame *f = fm_tape_alloc(t, sizeof *f);
    f->fn = fn;
    f->context = context;
    f->destroy = destroy;
    f->refs = 1;
    f->module = t->module;
    f->autocast = t->autocast;
    f->input = fm_tensor_alias(t, input);
    f->in_forward = true;
    fm_frame *packing = t->packing;
    t->packing = f;
    fm_tensor *out = fn(t, context, input);
    t->packing = packing;
    f->in_forward = false;
    frame_release(t, f);
    return out;
}

void fm_tensor_hook(fm_tensor *x, fm_hook_fn *hook, void *context)
{
    fm_grad_node *n = x->grad_fn;
    if (!n)
        return;
    unsigned i = n->pre_hook[0] != NULL;
    n->pre_hook[i] = hook;
    n->pre_context[i] = context;
}

// --- running

typedef struct {
    fm_grad_node **heap;
    size_t n, capacity;
} ready_queue;

static void queue_push(fm_tape *t, ready_queue *q, fm_grad_node *n)
{
    if (q->n == q->capacity) {
        size_t bigger = q->capacity ? 2 * q->capacity : 64;
        fm_grad_node **heap = fm_tape_alloc(t, bigger * sizeof *heap);
        if (q->n)
            memcpy(heap, q->heap, q->n * sizeof *heap);
        q->heap = heap;
        q->capacity = bigger;
    }
    size_t i = q->n++;
    while (i > 0 && q->heap[(i - 1) / 2]->sequence < n->sequence) {
        q->heap[i] = q->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->heap[i] = n;
}

static fm_grad_node *queue_pop(ready_queue *q)
{
    fm_grad_node *top = q->heap[0], *last = q->heap[--q->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < q->n; i = child) {
        if (child + 1 < q->n && q->heap[child + 1]->sequence > q->heap[child]->sequence)
            child++;
        if (q->heap[child]->sequence <= last->sequence)
            break;
        q->heap[i] = q->heap[child];
    }
    if (q->n)
        q->heap[i] = last;
    return top;
}

static void count_dependencies(fm_tape *t, fm_grad_node *root)
{
    size_t capacity = 256, n = 0;
    fm_grad_node **stack = fm_tape_alloc(t, capacity * sizeof *stack);
    stack[n++] = root;
    root->visit = ++t->visit;
    root->dependencies = 0;
    while (n) {
        fm_grad_node *node = stack[--n];
        for (unsigned i = 0; i < node->n_next; i++) {
            fm_grad_node *next = node->next[i].node;
            if (!next)
                continue;
            if (next->visit != t->visit) {
                next->visit = t->visit;
                next->dependencies = 0;
                if (n == capacity) {
                    fm_grad_node **bigger = fm_tape_alloc(t, 2 * capacity * sizeof *bigger);
                    memcpy(bigger, stack, n * sizeof *stack);
                    stack = bigger;
                    capacity *= 2;
                }
                stack[n++] = next;
            }
            next->dependencies++;
        }
    }
}

// A gradient arrives where another may wait. torch adds into the waiting one when nothing else can see it; fake tensors never do.
static void buffer_add(fm_tape *t, fm_grad_node *n, unsigned slot, fm_tensor *grad)
{
    fm_tensor *old = n->buffer[slot];
    if (!old) {
        n->buffer[slot] = grad;
        return;
    }
    if (t->inplace_sums && !old->is_view && old->refs == 1 && old->storage->refs == 1 && fm_tensor_is_dense(old)) {
        fm_tensor_release(t, grad);
        return;
    }
    fm_tensor *sum = fm_sink(fm_op_add(t, old, grad));
    fm_tensor_release(t, old);
    fm_tensor_release(t, grad);
    n->buffer[slot] = sum;
}

// What the engine does to a row's results before handing them on: reduce a gradient to the input's shape, cast it to its type.
// Source: validate_outputs() in torch/csrc/autograd/engine.cpp.
static void validate(fm_tape *t, fm_grad_node *n, fm_tensor **results)
{
    for (unsigned i = 0; i < n->n_next; i++) {
        if (!results[i] || !n->next[i].node)
            continue;
        if (!fm_same_shape(results[i], n->in_dims[i], n->in_shape[i])) {
            fm_tensor *reduced = fm_sink(fm_op_sum_to(t, results[i], n->in_dims[i], n->in_shape[i]));
            fm_tensor_release(t, results[i]);
            results[i] = reduced;
        }
        if (results[i]->elem != n->in_elem[i]) {
            fm_tensor *cast = fm_sink(fm_op_to(t, results[i], n->in_elem[i]));
            fm_tensor_release(t, results[i]);
            results[i] = cast;
        }
    }
}

// What a checkpointed region kept for the node is held by names of its backward function: they die with it, before its results are looked at.
static void drop_unpacked(fm_tape *t, fm_grad_node *n)
{
    for (unsigned i = 0; n->frame && i < n->n_saved; i++)
        if (n->saved_index[i]) {
            fm_tensor_release(t, n->saved[i]);
            n->saved[i] = NULL;
        }
}

static void run_node(fm_tape *t, fm_grad_node *n, ready_queue *q)
{
    fm_tensor *few_grads[FM_MAX_EDGES] = {0}, **grads = few_grads, *few_results[FM_MAX_EDGES] = {0},
              **results = few_results;
    if (n->n_outputs > FM_MAX_EDGES)
        grads = fm_tape_alloc(t, n->n_outputs * sizeof *grads);
    if (n->n_next > FM_MAX_EDGES)
        results = fm_tape_alloc(t, n->n_next * sizeof *results);
    for (unsigned i = 0; i < n->n_outputs; i++) {
        grads[i] = n->buffer[i];
        n->buffer[i] = NULL;
    }
    t->module = n->module;
    if (n->round)
        fm_tape_round(t, n->round - 1);
    for (unsigned i = 0; i < 2; i++)
        if (n->pre_hook[i])
            n->pre_hook[i](t, n->pre_context[i], grads[0]);
    n->row->backward(t, n, grads, results);
    drop_unpacked(t, n);
    validate(t, n, results);
    if (n->post_hook) // the incoming gradients are still there
        n->post_hook(t, n->post_context, NULL);
    for (unsigned i = 0; i < n->n_outputs; i++)
        fm_tensor_release(t, grads[i]);
    node_drop_saved(t, n);
    for (unsigned i = 0; i < n->n_next; i++) {
        fm_grad_node *next = n->next[i].node;
        if (!next) {
            fm_tensor_release(t, results[i]);
            continue;
        }
        if (results[i])
            buffer_add(t, next, n->next[i].input_nr, results[i]);
        if (--next->dependencies == 0) {
            fm_grad_node_retain(next);
            queue_push(t, q, next);
        }
    }
}

void fm_backward(fm_tape *t, fm_tensor *loss)
{
    fm_grad_node *root = loss->grad_fn;
    if (!root)
        return;
    bool grad_enabled = t->grad_enabled;
    fm_autocast autocast = t->autocast;
    uint32_t module = t->module;
    t->grad_enabled = false;
    t->autocast.enabled = false;
    fm_tensor *one = fm_tensor_new(t, loss->n_dims, loss->shape, loss->elem, "ones_like");
    count_dependencies(t, root);
    ready_queue q = {0};
    fm_tensor_retain(one);
    root->buffer[loss->out_nr] = one;
    fm_grad_node_retain(root);
    queue_push(t, &q, root);
    while (q.n) {
        fm_grad_node *n = queue_pop(&q);
        run_node(t, n, &q);
        fm_grad_node_release(t, n);
    }
    t->module = module;
    if (t->after_backward)
        t->after_backward(t, t->after_context);
    fm_tensor_release(t, one);
    t->grad_enabled = grad_enabled;
    t->autocast = autocast;
}

// A leaf's gradient is complete. torch keeps the incoming tensor itself when nobody else holds it and its layout is the leaf's; otherwise it
// copies. A second one is added in place. Source: torch/csrc/autograd/functions/accumulate_grad.h.
static void accumulate_grad(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    (void)results;
    fm_tensor *leaf = n->leaf, *grad = grads[0];
    if (!grad || !leaf)
        return;
    if (leaf->grad)
        return; // added in place
    bool same_layout =
        memcmp(grad->stride, leaf->stride, sizeof *grad->stride * leaf->n_dims) == 0 && grad->n_dims == leaf->n_dims;
    if (grad->refs == 1 && (same_layout || fm_tensor_numel(grad) <= 1)) {
        leaf->grad = fm_tensor_alias(t, grad);
    } else {
        leaf->grad = fm_tensor_new_strided(t, leaf->n_dims, leaf->shape, leaf->stride, leaf->elem, "clone");
    }
    if (leaf->is_parameter && leaf->grad->storage->role == FM_ROLE_BACKWARD)
        fm_storage_role(t, leaf->grad->storage, FM_ROLE_GRADIENT);
}

// --- autocast

void fm_autocast_enter(fm_tape *t, fm_elem low)
{
    t->autocast = (fm_autocast){.enabled = true, .low = low, .cache = true};
}

void fm_autocast_exit(fm_tape *t)
{
    struct fm_cast_entry *e = t->cast_cache->first;
    t->cast_cache->first = NULL;
    t->cast_cache->last = NULL;
    // A loop over layers as far as folding is concerned; inside a recomputation it is part of one layer's round.
    uint32_t at = FM_NO_ROUND;
    for (; e; e = e->next) {
        if (!t->recomputing && e->layer != at)
            fm_tape_round(t, at = e->layer);
        fm_tensor_release(t, e->copy);
    }
    if (at != FM_NO_ROUND)
        fm_tape_round(t, FM_NO_ROUND);
    t->autocast.enabled = false;
}

fm_tensor *fm_autocast_cached(fm_tape *t, fm_tensor *leaf)
{
    for (struct fm_cast_entry *e = t->cast_cache->first; e; e = e->next)
        if (e->leaf == leaf)
            return e->copy;
    return NULL;
}

void fm_autocast_remember(fm_tape *t, fm_tensor *leaf, fm_tensor *copy)
{
    struct fm_cast_entry *e = fm_tape_alloc(t, sizeof *e);
    e->leaf = leaf;
    e->copy = copy;
    e->layer = t->round;
    fm_tensor_retain(copy);
    if (t->cast_cache->last)
        *t->cast_cache->last = e;
    else
        t->cast_cache->first = e;
    t->cast_cache->last = &e->next;
}

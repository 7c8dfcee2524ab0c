// Writes into existing tensors, list indexing, and functions with a backward written by hand: what a few families do.
#include "program/ops_private.h"

// A copy into a part of base. Backward makes a new gradient of base's size, takes the part out as a copy, and zeroes it there when base
// itself wants a gradient. Source: torch/csrc/autograd/functions/tensor.cpp, CopySlices.
static void copy_slices_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    fm_tensor *base = fm_empty_like(t, grads[0], (fm_elem)grads[0]->elem, "new_empty_strided");
    fm_tensor *part = fm_tensor_new(t, n->in_dims[1], n->in_shape[1], (fm_elem)grads[0]->elem, "clone"), *zeros = NULL;
    if (n->next[0].node)
        zeros = fm_tensor_new(t, n->in_dims[1], n->in_shape[1], (fm_elem)grads[0]->elem, "zeros_like");
    results[1] = part;
    if (part->elem != n->in_elem[1]) { // the copy's own backward casts to its source's type
        results[1] = fm_tensor_new(t, n->in_dims[1], n->in_shape[1], (fm_elem)n->in_elem[1], "_to_copy");
        fm_tensor_release(t, part);
    }
    fm_tensor_release(t, zeros);
    if (n->next[0].node)
        results[0] = base;
    else
        fm_tensor_release(t, base);
}
static const fm_row copy_slices_row = {"CopySlices", copy_slices_backward};

fm_tensor *fm_op_copy_into(fm_tape *t, fm_tensor *base, fm_tensor *part)
{
    fm_tensor *operands[2] = {base, part};
    fm_grad_node *n = fm_grad_node_new(t, &copy_slices_row, 2, operands);
    return fm_done(t, n, fm_tensor_alias(t, base), part, NULL, NULL);
}

static void add_into_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    (void)t;
    for (unsigned i = 0; grads[0] && i < 2; i++)
        if (n->next[i].node) {
            fm_tensor_retain(grads[0]);
            results[i] = grads[0];
        }
}
static const fm_row add_into_row = {"AddBackward", add_into_backward};

fm_tensor *fm_op_add_into(fm_tape *t, fm_tensor *a, fm_tensor *b)
{
    fm_tensor *operands[2] = {a, b};
    fm_grad_node *n = fm_grad_node_new(t, &add_into_row, 2, operands);
    return fm_done(t, n, fm_tensor_alias(t, a), b, NULL, NULL);
}

static void scale_into_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (grads[0] && n->next[0].node)
        results[0] = fm_empty_like(t, grads[0], (fm_elem)grads[0]->elem, "mul");
}
static const fm_row scale_into_row = {"MulBackward", scale_into_backward};

fm_tensor *fm_op_mul_scalar_into(fm_tape *t, fm_tensor *x)
{
    fm_grad_node *n = fm_grad_node_new(t, &scale_into_row, 1, &x);
    return fm_done(t, n, fm_tensor_alias(t, x), x, NULL, NULL);
}

fm_tensor *fm_op_div_scalar_into(fm_tape *t, fm_tensor *x)
{
    fm_grad_node *n = fm_grad_node_new(t, fm_div_row(), 1, &x);
    return fm_done(t, n, fm_tensor_alias(t, x), x, NULL, NULL);
}

// saved: 0 the index on the device
static void index_list_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    fm_grad_node_saved(t, n, 0);
    if (!grads[0])
        return;
    fm_tensor *zeros = fm_tensor_new(t, n->in_dims[0], n->in_shape[0], (fm_elem)grads[0]->elem, "new_zeros");
    results[0] = zeros;
    if (!t->inplace_sums) { // fake tensors are put into a copy, real ones in place
        results[0] = fm_tensor_new(t, n->in_dims[0], n->in_shape[0], (fm_elem)grads[0]->elem, "index_put");
        fm_tensor_release(t, zeros);
    }
}
static const fm_row index_list_row = {"IndexBackward", index_list_backward};

fm_tensor *fm_op_index_list(fm_tape *t, fm_tensor *x, int dim)
{
    int64_t shape[FM_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[fm_dim(x, dim)] = 1;
    fm_tensor *host = fm_tensor_on(t, FM_TIER_HOST, FM_ROLE_ACTIVATION, 1, FM_ELEM_I64, "lift_fresh");
    fm_tensor *index = fm_tensor_new(t, 1, (const int64_t[]){1}, FM_ELEM_I64, "_to_copy");
    fm_tensor_release(t, host);
    fm_grad_node *n = fm_grad_node_new(t, &index_list_row, 1, &x);
    fm_grad_node_save(t, n, 0, index);
    fm_tensor *out = fm_tensor_new(t, x->n_dims, shape, (fm_elem)x->elem, "index");
    fm_tensor_release(t, index);
    return fm_done(t, n, out, x, NULL, NULL);
}

static fm_tensor *step(fm_tape *t, fm_tensor *a, fm_tensor *b, const char *op)
{
    return fm_op_plain(t, a, b, (fm_elem)a->elem, op);
}

// tanh(0.79788456 * x * (1 + 0.044715 * x * x))
static fm_tensor *bloom_tanh(fm_tape *t, fm_tensor *x)
{
    fm_tensor *outer = fm_sink(step(t, x, NULL, "mul"));
    fm_tensor *inner = step(t, step(t, step(t, x, NULL, "mul"), x, "mul"), NULL, "add");
    return step(t, step(t, fm_float(outer), inner, "mul"), NULL, "tanh");
}

// ff = 0.5 x ((1 - tanh tanh) (0.79788456 + 0.1070322243 x x)) + 0.5 (1 + tanh); ff * g
static void bloom_gelu_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    fm_tensor *x = fm_grad_node_saved(t, n, 0);
    if (!grads[0])
        return;
    fm_tensor *tanh = fm_sink(bloom_tanh(t, x));
    fm_tensor *half = fm_sink(step(t, x, NULL, "mul"));
    fm_tensor *one_less = fm_sink(step(t, step(t, tanh, tanh, "mul"), NULL, "rsub"));
    fm_tensor *slope = step(t, step(t, step(t, x, NULL, "mul"), x, "mul"), NULL, "add");
    fm_tensor *first = fm_sink(step(t, fm_float(half), step(t, fm_float(one_less), slope, "mul"), "mul"));
    fm_tensor *second = step(t, step(t, tanh, NULL, "add"), NULL, "mul");
    fm_tensor *ff = step(t, fm_float(first), second, "add");
    results[0] = fm_sink(step(t, ff, grads[0], "mul"));
    fm_tensor_release(t, tanh);
}
static const fm_row bloom_gelu_row = {"GeLUFunctionBackward", bloom_gelu_backward};

fm_tensor *fm_op_bloom_gelu(fm_tape *t, fm_tensor *x)
{
    fm_grad_node *n = fm_grad_node_new(t, &bloom_gelu_row, 1, &x);
    bool floats = x->floating;
    x->floating = false;
    fm_grad_node_save(t, n, 0, x);
    fm_tensor *half = fm_sink(step(t, x, NULL, "mul"));
    fm_tensor *out = step(t, fm_float(half), step(t, bloom_tanh(t, x), NULL, "add"), "mul");
    x->floating = floats;
    return fm_done(t, n, fm_sink(out), x, NULL, NULL);
}

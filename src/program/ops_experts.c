// Operations of mixtures of experts: choosing, gathering rows, products by group.
#include "program/ops_private.h"

// saved: 0 indices. The gradient of the values is scattered into zeros of the source's shape: both exist for a moment.
static void topk_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    fm_grad_node_saved(t, n, 0);
    if (!grads[0])
        return;
    fm_tensor *zeros = fm_tensor_new(t, n->in_dims[0], n->in_shape[0], (fm_elem)grads[0]->elem, "new_zeros");
    results[0] = fm_tensor_new(t, n->in_dims[0], n->in_shape[0], (fm_elem)grads[0]->elem, "scatter");
    fm_tensor_release(t, zeros);
}
static const fm_row topk_row = {"TopkBackward", topk_backward};
static const fm_row gather_row = {"GatherBackward", topk_backward};

fm_tensor *fm_op_topk(fm_tape *t, fm_tensor *x, int64_t k, fm_tensor **indices)
{
    int64_t shape[FM_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->n_dims - 1] = k;
    fm_grad_node *n = fm_grad_node_new(t, &topk_row, 1, &x);
    fm_tensor *values = fm_tensor_new(t, x->n_dims, shape, (fm_elem)x->elem, "topk");
    *indices = fm_tensor_new(t, x->n_dims, shape, FM_ELEM_I64, "topk");
    fm_grad_node_save(t, n, 0, *indices);
    fm_float(*indices);
    return fm_done(t, n, values, x, NULL, NULL);
}

fm_tensor *fm_op_gather(fm_tape *t, fm_tensor *x, fm_tensor *indices)
{
    fm_grad_node *n = fm_grad_node_new(t, &gather_row, 1, &x);
    fm_grad_node_save(t, n, 0, indices);
    return fm_done(t, n, fm_tensor_new(t, indices->n_dims, indices->shape, (fm_elem)x->elem, "gather"), x, indices,
                   NULL);
}

// x / divisor written over x: the result is a new name for the same memory. What backward needs of the old x is a copy.
fm_tensor *fm_op_div_into(fm_tape *t, fm_tensor *x, fm_tensor *divisor)
{
    fm_tensor *operands[2] = {x, divisor};
    fm_grad_node *n = fm_grad_node_new(t, fm_div_row(), 2, operands);
    fm_tensor *out = fm_tensor_alias(t, x);
    if (n) {
        fm_tensor *before = fm_tensor_new(t, x->n_dims, x->shape, (fm_elem)x->elem, "clone");
        fm_grad_node_save(t, n, 0, before);
        fm_grad_node_save(t, n, 1, divisor);
        fm_tensor_release(t, before);
    }
    return fm_done(t, n, out, x, divisor, NULL);
}

// saved: 0 indices. index_put into zeros of the source's shape. Source: index_backward in torch/csrc/autograd/FunctionsManual.cpp.
static void index_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
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
static const fm_row index_row = {"IndexBackward", index_backward};

fm_tensor *fm_op_index_rows(fm_tape *t, fm_tensor *x, fm_tensor *indices)
{
    int64_t shape[FM_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[0] = indices->shape[0];
    fm_grad_node *n = fm_grad_node_new(t, &index_row, 1, &x);
    fm_grad_node_save(t, n, 0, indices);
    return fm_done(t, n, fm_tensor_new(t, x->n_dims, shape, (fm_elem)x->elem, "index"), x, indices, NULL);
}

// saved: 0 rows, 1 weights, 2 offsets. The weights' gradient is dense over all experts, laid out as the stored weights, and made first.
static void grouped_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    fm_tensor *rows = n->next[1].node ? fm_grad_node_saved(t, n, 0) : NULL,
              *weights = n->next[0].node ? fm_grad_node_saved(t, n, 1) : NULL;
    fm_grad_node_saved(t, n, 2);
    fm_elem elem = (fm_elem)grads[0]->elem;
    if (rows) {
        const int64_t *s = n->in_shape[1];
        const int64_t stored[3] = {s[0], s[2], s[1]};
        fm_tensor *g = fm_tensor_new(t, 3, stored, elem, "_grouped_mm");
        results[1] = fm_view_of(t, g, 3, s, (const int64_t[]){s[1] * s[2], 1, s[1]});
        fm_tensor_release(t, g);
    }
    if (weights)
        results[0] = fm_tensor_new(t, 2, n->in_shape[0], elem, "_grouped_mm");
}
static const fm_row grouped_row = {"GroupedMmBackward", grouped_backward};

fm_tensor *fm_op_grouped_mm(fm_tape *t, fm_tensor *rows, fm_tensor *weights, fm_tensor *offsets)
{
    fm_tensor *operands[2] = {rows, weights};
    fm_grad_node *n = fm_grad_node_new(t, &grouped_row, 2, operands);
    if (n) {
        if (n->next[1].node)
            fm_grad_node_save(t, n, 0, rows);
        if (n->next[0].node)
            fm_grad_node_save(t, n, 1, weights);
        fm_grad_node_save(t, n, 2, offsets);
    }
    fm_tensor *out =
        fm_tensor_new(t, 2, (const int64_t[]){rows->shape[0], weights->shape[2]}, (fm_elem)rows->elem, "_grouped_mm");
    return fm_done(t, n, out, rows, weights, offsets);
}

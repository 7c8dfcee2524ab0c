// Operations that are a whole module's work: embedding, normalisation, softmax, loss, reductions, attention cores.
#include "program/cuda_scratch.h"
#include "program/ops_private.h"

static void embedding_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    const fm_tensor *ids = fm_grad_node_saved(t, n, 0);
    if (!grads[0])
        return;
    results[0] = fm_tensor_new(t, 2, n->in_shape[0], (fm_elem)grads[0]->elem, "embedding_dense_backward");
    uint64_t scratch = fm_embedding_backward_scratch((uint64_t)fm_tensor_numel(ids), (uint64_t)n->in_shape[0][0],
                                                     (uint64_t)n->in_shape[0][1]);
    fm_tape_scratch(t, scratch, "embedding_dense_backward");
}
static const fm_row embedding_row = {"EmbeddingBackward", embedding_backward};

fm_tensor *fm_op_embedding(fm_tape *t, fm_tensor *weight, fm_tensor *ids)
{
    fm_grad_node *n = fm_grad_node_new(t, &embedding_row, 1, &weight);
    fm_grad_node_save(t, n, 0, ids);
    int64_t shape[FM_MAX_DIMS];
    memcpy(shape, ids->shape, sizeof shape);
    shape[ids->n_dims] = weight->shape[1];
    return fm_done(t, n, fm_tensor_new(t, ids->n_dims + 1u, shape, (fm_elem)weight->elem, "embedding"), ids, NULL,
                   NULL);
}

// saved: 0 input, 1 mean, 2 rstd, 3 weight, 4 bias
static void layer_norm_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    fm_tensor *x = fm_grad_node_saved(t, n, 0);
    for (unsigned i = 1; i < n->n_saved; i++)
        fm_grad_node_saved(t, n, i);
    if (n->next[0].node)
        results[0] = fm_tensor_new(t, x->n_dims, x->shape, (fm_elem)x->elem, "native_layer_norm_backward");
    for (unsigned i = 1; i < n->n_next; i++)
        if (n->next[i].node)
            results[i] = fm_tensor_new(t, 1, n->in_shape[i], (fm_elem)n->in_elem[i], "native_layer_norm_backward");
}
static const fm_row layer_norm_row = {"NativeLayerNormBackward", layer_norm_backward};

fm_tensor *fm_op_layer_norm(fm_tape *t, fm_tensor *x, fm_tensor *weight, fm_tensor *bias)
{
    fm_tensor *cx = fm_autocast_operand(t, x, FM_CAST_FP32);
    fm_tensor *cw = fm_autocast_operand(t, weight, FM_CAST_FP32), *cb = fm_autocast_operand(t, bias, FM_CAST_FP32);
    if (!fm_tensor_is_contiguous(cx))
        fm_tape_scratch(t, fm_tensor_bytes(cx), "native_layer_norm"); // the kernel reads a contiguous copy
    fm_tensor *operands[3] = {cx, cw, cb};
    fm_grad_node *n = fm_grad_node_new(t, &layer_norm_row, 3, operands);
    fm_grad_node_save(t, n, 0, cx);
    if (n) {
        fm_grad_node_save(t, n, 3, cw);
        fm_grad_node_save(t, n, 4, cb);
    }
    fm_tensor *out = fm_tensor_new(t, cx->n_dims, cx->shape, (fm_elem)cx->elem, "native_layer_norm");
    int64_t shape[FM_MAX_DIMS];
    memcpy(shape, cx->shape, sizeof shape);
    shape[cx->n_dims - 1] = 1;
    fm_tensor *mean = fm_tensor_new(t, cx->n_dims, shape, FM_ELEM_F32, "native_layer_norm");
    fm_tensor *rstd = fm_tensor_new(t, cx->n_dims, shape, FM_ELEM_F32, "native_layer_norm");
    fm_grad_node_save(t, n, 1, mean);
    fm_grad_node_save(t, n, 2, rstd);
    fm_tensor_release(t, mean);
    fm_tensor_release(t, rstd);
    fm_done(t, n, out, cx, cw, cb);
    if (cx != x)
        fm_tensor_take(t, x);
    return out;
}

// saved: 0 result
static void softmax_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    fm_tensor *result = fm_grad_node_saved(t, n, 0);
    if (grads[0])
        results[0] = fm_tensor_new(t, result->n_dims, result->shape, (fm_elem)n->in_elem[0],
                                   n->attr[0] ? "_log_softmax_backward_data" : "_softmax_backward_data");
}
static const fm_row softmax_row = {"SoftmaxBackward", softmax_backward};
static const fm_row safe_softmax_row = {"SafeSoftmaxBackward", softmax_backward};
static const fm_row log_softmax_row = {"LogSoftmaxBackward", softmax_backward};

static fm_tensor *softmax_like(fm_tape *t, fm_tensor *x, fm_elem elem, const fm_row *row, const char *op)
{
    fm_grad_node *n = fm_grad_node_new(t, row, 1, &x);
    if (n)
        n->attr[0] = row == &log_softmax_row;
    fm_tensor *out = fm_tensor_new(t, x->n_dims, x->shape, elem, op);
    fm_grad_node_save(t, n, 0, out);
    return fm_done(t, n, out, x, NULL, NULL);
}

fm_tensor *fm_op_softmax(fm_tape *t, fm_tensor *x, int elem)
{
    // softmax(x, dtype=float32) on half input is one kernel on the device that reads half and writes fp32; with another type it casts first.
    if (elem >= 0 && elem != x->elem) {
        if (elem == FM_ELEM_F32 && !t->autocast.enabled && x->elem == FM_ELEM_F16)
            return softmax_like(t, x, FM_ELEM_F32, &softmax_row, "_softmax");
        bool floats = x->floating;
        x->floating = false;
        fm_tensor *out = softmax_like(t, fm_op_to(t, x, (fm_elem)elem), (fm_elem)elem, &softmax_row, "_softmax");
        x->floating = floats;
        fm_tensor_take(t, x);
        return out;
    }
    fm_tensor *cx = elem < 0 ? fm_autocast_operand(t, x, FM_CAST_FP32) : x;
    fm_tensor *out = softmax_like(t, cx, (fm_elem)cx->elem, &softmax_row, "_softmax");
    if (cx != x)
        fm_tensor_take(t, x);
    return out;
}

fm_tensor *fm_op_safe_softmax(fm_tape *t, fm_tensor *x)
{
    return softmax_like(t, x, (fm_elem)x->elem, &safe_softmax_row, "_safe_softmax");
}

fm_tensor *fm_op_log_softmax(fm_tape *t, fm_tensor *x)
{
    fm_tensor *cx = fm_autocast_operand(t, x, FM_CAST_FP32);
    fm_tensor *out = softmax_like(t, cx, (fm_elem)cx->elem, &log_softmax_row, "_log_softmax");
    if (cx != x)
        fm_tensor_take(t, x);
    return out;
}

// saved: 0 log-probabilities, 1 target, 2 total weight
static void nll_loss_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    fm_tensor *x = fm_grad_node_saved(t, n, 0);
    fm_grad_node_saved(t, n, 1);
    fm_grad_node_saved(t, n, 2);
    if (grads[0])
        results[0] = fm_empty_like(t, x, (fm_elem)x->elem, "nll_loss_backward");
}
static const fm_row nll_loss_row = {"NllLossBackward", nll_loss_backward};

fm_tensor *fm_op_nll_loss(fm_tape *t, fm_tensor *x, fm_tensor *target)
{
    fm_grad_node *n = fm_grad_node_new(t, &nll_loss_row, 1, &x);
    fm_grad_node_save(t, n, 0, x);
    fm_grad_node_save(t, n, 1, target);
    fm_tensor *out = fm_tensor_new(t, 0, NULL, (fm_elem)x->elem, "nll_loss_forward");
    fm_tensor *weight = fm_tensor_new(t, 0, NULL, (fm_elem)x->elem, "nll_loss_forward");
    fm_grad_node_save(t, n, 2, weight);
    fm_tensor_release(t, weight);
    return fm_done(t, n, out, x, target, NULL);
}

fm_tensor *fm_op_pad_right(fm_tape *t, fm_tensor *x)
{
    int64_t shape[FM_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->n_dims - 1]++;
    return fm_done(t, NULL, fm_tensor_new(t, x->n_dims, shape, (fm_elem)x->elem, "constant_pad_nd"), x, NULL, NULL);
}

// --- reductions

// grad expanded over the reduced dimension, divided by its length: one new tensor
static void mean_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (grads[0])
        results[0] = fm_tensor_new(t, n->in_dims[0], n->in_shape[0], (fm_elem)grads[0]->elem, "div");
}
static const fm_row mean_row = {"MeanBackward", mean_backward};

fm_tensor *fm_op_mean_last(fm_tape *t, fm_tensor *x)
{
    int64_t shape[FM_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->n_dims - 1] = 1;
    fm_grad_node *n = fm_grad_node_new(t, &mean_row, 1, &x);
    return fm_done(t, n, fm_tensor_new(t, x->n_dims, shape, (fm_elem)x->elem, "mean"), x, NULL, NULL);
}

fm_tensor *fm_op_mean_all(fm_tape *t, fm_tensor *x)
{
    fm_grad_node *n = fm_grad_node_new(t, &mean_row, 1, &x);
    return fm_done(t, n, fm_tensor_new(t, 0, NULL, (fm_elem)x->elem, "mean"), x, NULL, NULL);
}

// An expanded view of the gradient: nothing is allocated.
static void sum_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    int64_t stride[FM_MAX_DIMS] = {0};
    unsigned j = 0;
    for (unsigned i = 0; i < n->in_dims[0]; i++) {
        bool reduced = i == n->attr[0];
        stride[i] = reduced ? 0 : grads[0]->stride[j];
        j += !reduced || n->attr[1];
    }
    results[0] = fm_view_of(t, grads[0], n->in_dims[0], n->in_shape[0], stride);
}
static const fm_row sum_row = {"SumBackward", sum_backward};

fm_tensor *fm_op_sum_dim(fm_tape *t, fm_tensor *x, int dim, bool keep)
{
    unsigned d = (unsigned)fm_dim(x, dim), k = 0;
    int64_t shape[FM_MAX_DIMS];
    for (unsigned i = 0; i < x->n_dims; i++)
        if (i != d || keep)
            shape[k++] = i == d ? 1 : x->shape[i];
    fm_grad_node *n = fm_grad_node_new(t, &sum_row, 1, &x);
    if (n) {
        n->attr[0] = d;
        n->attr[1] = keep;
    }
    bool low = x->elem == FM_ELEM_BF16 || x->elem == FM_ELEM_F16; // autocast asks sums for fp32 results
    fm_elem elem = t->autocast.enabled && low ? FM_ELEM_F32 : (fm_elem)x->elem;
    return fm_done(t, n, fm_tensor_new(t, k, shape, elem, "sum"), x, NULL, NULL);
}

fm_tensor *fm_op_sum_to(fm_tape *t, fm_tensor *x, unsigned n_dims, const int64_t *shape)
{
    if (fm_same_shape(x, n_dims, shape)) {
        fm_tensor_retain(x);
        return x;
    }
    bool reduces = false;
    unsigned lead = x->n_dims - n_dims;
    for (unsigned i = 0; i < x->n_dims; i++)
        reduces |= i < lead ? x->shape[i] != 1 : x->shape[i] != shape[i - lead];
    if (reduces || lead)
        return fm_done(t, NULL, fm_tensor_new(t, n_dims, shape, (fm_elem)x->elem, "sum"), x, NULL, NULL);
    return fm_done(t, NULL, fm_tensor_alias(t, x), x, NULL, NULL);
}

// --- attention cores

// saved: 0 q, 1 k, 2 v, 3 out, 4 logsumexp, 5 seed, 6 offset, 7 mask. The gradients take the layouts of q, k, v.
// Scratch of the flash kernel: softmax_d and an fp32 accumulator of dq, rows rounded to 128, head size to 32 (64 above 128); with
// grouped heads dk and dv for all heads. Source: flash_attn's mha_bwd in aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp.
static void flash_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    fm_tensor *saved[7];
    for (unsigned i = 0; i < 7; i++)
        saved[i] = fm_grad_node_saved(t, n, i);
    for (unsigned i = 0; i < 3; i++)
        results[i] =
            fm_empty_like(t, saved[i], (fm_elem)saved[i]->elem, "_scaled_dot_product_flash_attention_backward");
    const fm_tensor *q = saved[0], *k = saved[1];
    uint64_t b = (uint64_t)q->shape[0], h = (uint64_t)q->shape[1], d = (uint64_t)q->shape[3];
    uint64_t rows = ((uint64_t)q->shape[2] + 127) / 128 * 128,
             width = d <= 128 ? (d + 31) / 32 * 32 : (d + 63) / 64 * 64;
    uint64_t scratch = ((b * h * rows * 4 + 511) & ~511ull) + ((b * rows * h * width * 4 + 511) & ~511ull);
    if (k->shape[1] != q->shape[1])
        scratch += 2 * ((b * (uint64_t)k->shape[2] * h * d * fm_elem_bytes((fm_elem)q->elem) + 511) & ~511ull);
    fm_tape_scratch(t, scratch, "_scaled_dot_product_flash_attention_backward");
}
static const fm_row flash_row = {"ScaledDotProductFlashAttentionBackward", flash_backward};

static void save_and_release(fm_tape *t, fm_grad_node *n, unsigned slot, fm_tensor *x)
{
    fm_grad_node_save(t, n, slot, x);
    fm_tensor_release(t, x);
}

fm_tensor *fm_op_sdpa_flash(fm_tape *t, fm_tensor *q, fm_tensor *k, fm_tensor *v)
{
    static const char op[] = "_scaled_dot_product_flash_attention";
    fm_tensor *given[3] = {q, k, v};
    q = fm_autocast_operand(t, q, FM_CAST_LOW);
    k = fm_autocast_operand(t, k, FM_CAST_LOW);
    v = fm_autocast_operand(t, v, FM_CAST_LOW);
    fm_tensor *operands[3] = {q, k, v};
    fm_grad_node *n = fm_grad_node_new(t, &flash_row, 3, operands);
    for (unsigned i = 0; i < 3; i++)
        fm_grad_node_save(t, n, i, operands[i]);
    fm_tensor *out = fm_empty_like(t, q, (fm_elem)q->elem, op);
    fm_tensor *lse = fm_tensor_new(t, 3, q->shape, FM_ELEM_F32, op);
    fm_tensor *seed = fm_tensor_new(t, 1, (const int64_t[]){2}, FM_ELEM_I64, op),
              *offset = fm_tensor_new(t, 0, NULL, FM_ELEM_I64, op);
    fm_grad_node_save(t, n, 3, out);
    save_and_release(t, n, 4, lse);
    save_and_release(t, n, 5, seed);
    save_and_release(t, n, 6, offset);
    fm_done(t, n, out, q, k, v);
    for (unsigned i = 0; i < 3; i++)
        fm_tensor_take(t, given[i]);
    return out;
}

static fm_tensor *heads_inside(fm_tape *t, int64_t b, int64_t h, int64_t s, int64_t d, fm_elem elem, const char *op)
{
    return fm_tensor_new_strided(t, 4, (const int64_t[]){b, h, s, d}, (const int64_t[]){s * h * d, d, h * d, 1}, elem,
                                 op);
}

static void efficient_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    static const char op[] = "_scaled_dot_product_efficient_attention_backward";
    if (!grads[0])
        return;
    fm_tensor *saved[8];
    for (unsigned i = 0; i < 8; i++)
        saved[i] = fm_grad_node_saved(t, n, i);
    // Gradients of keys and values are made for all heads of q, also where one head was broadcast; the engine reduces them.
    for (unsigned i = 0; i < 3; i++) {
        const int64_t *s = saved[i]->shape;
        results[i] = heads_inside(t, s[0], saved[0]->shape[1], s[2], s[3], (fm_elem)saved[i]->elem, op);
    }
    const int64_t *q = saved[0]->shape;
    fm_attention_shape shape = {.batch = (uint64_t)q[0],
                                .heads = (uint64_t)q[1],
                                .queries = (uint64_t)q[2],
                                .width = (uint64_t)q[3],
                                .keys = (uint64_t)saved[1]->shape[2],
                                .value_width = (uint64_t)saved[2]->shape[3]};
    fm_tape_scratch(t, fm_efficient_backward_scratch(&shape, (fm_elem)saved[0]->elem, t->capability), op);
}
static const fm_row efficient_row = {"ScaledDotProductEfficientAttentionBackward", efficient_backward};

fm_tensor *fm_op_sdpa_efficient(fm_tape *t, fm_tensor *q, fm_tensor *k, fm_tensor *v, fm_tensor *mask)
{
    static const char op[] = "_scaled_dot_product_efficient_attention";
    fm_tensor *given[3] = {q, k, v};
    q = fm_autocast_operand(t, q, FM_CAST_LOW);
    k = fm_autocast_operand(t, k, FM_CAST_LOW);
    v = fm_autocast_operand(t, v, FM_CAST_LOW);
    fm_tensor *operands[4] = {q, k, v, mask};
    fm_grad_node *n = fm_grad_node_new(t, &efficient_row, 4, operands);
    for (unsigned i = 0; i < 3; i++)
        fm_grad_node_save(t, n, i, operands[i]);
    fm_grad_node_save(t, n, 7, mask);
    int64_t b = q->shape[0], h = q->shape[1], s = q->shape[2];
    fm_tensor *out = heads_inside(t, b, h, s, v->shape[3], (fm_elem)q->elem, op);
    int64_t rows = q->requires_grad && t->grad_enabled ? (s + 31) / 32 * 32 : 0;
    fm_tensor *lse = fm_tensor_new(t, 3, (const int64_t[]){b, h, rows}, FM_ELEM_F32, op);
    fm_tensor *seed = fm_tensor_new(t, 0, NULL, FM_ELEM_I64, op), *offset = fm_tensor_new(t, 0, NULL, FM_ELEM_I64, op);
    fm_grad_node_save(t, n, 3, out);
    save_and_release(t, n, 4, lse);
    save_and_release(t, n, 5, seed);
    save_and_release(t, n, 6, offset);
    fm_done(t, n, out, q, k, v);
    for (unsigned i = 0; i < 3; i++)
        fm_tensor_take(t, given[i]);
    fm_tensor_take(t, mask);
    return out;
}

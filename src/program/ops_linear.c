// Matrix products and what is built of them.
#include "program/cuda_scratch.h"
#include "program/ops_private.h"

static fm_tensor *empty2(fm_tape *t, int64_t rows, int64_t columns, fm_elem elem, const char *op)
{
    return fm_tensor_new(t, 2, (const int64_t[]){rows, columns}, elem, op);
}

// The gradient of a product's operand of shape [rows, columns]: laid out like the operand. A transposed operand (a Linear's weight, seen
// as its t()) gets its gradient computed transposed. Source: mm_mat1_backward, mm_mat2_backward in FunctionsManual.cpp.
static fm_tensor *operand_grad(fm_tape *t, const fm_grad_node *n, unsigned i, bool column_major, fm_elem elem)
{
    int64_t rows = n->in_shape[i][0], columns = n->in_shape[i][1];
    if (!column_major)
        return empty2(t, rows, columns, elem, "mm");
    fm_tensor *g = empty2(t, columns, rows, elem, "mm");
    fm_tensor *view = fm_view_of(t, g, 2, (const int64_t[]){rows, columns}, (const int64_t[]){1, rows});
    fm_tensor_release(t, g);
    return view;
}

static bool is_column_major(const fm_tensor *x)
{
    return x->stride[0] == 1 && x->stride[1] == x->shape[0];
}

// saved: 0 a, 1 b. Edges: mm (a, b); addmm (bias, a, b). attr: 0 first edge of (a, b), 1 and 2 whether a, b are column major
static void mm_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    fm_cuda_product(t);
    unsigned a = (unsigned)n->attr[0], b = a + 1;
    // Both saves are unpacked before anything is computed.
    fm_tensor *saved_a = n->next[b].node ? fm_grad_node_saved(t, n, 0) : NULL;
    fm_tensor *saved_b = n->next[a].node ? fm_grad_node_saved(t, n, 1) : NULL;
    fm_elem elem = (fm_elem)grads[0]->elem;
    if (a == 1) { // addmm's names in order: mat1, mat2, self
        if (saved_b)
            results[a] = operand_grad(t, n, a, n->attr[1], elem);
        if (saved_a)
            results[b] = operand_grad(t, n, b, n->attr[2], elem);
        if (n->next[0].node) {
            fm_tensor_retain(grads[0]);
            results[0] = grads[0];
        }
        return;
    }
    if (saved_a)
        results[b] = operand_grad(t, n, b, n->attr[2], elem);
    if (saved_b)
        results[a] = operand_grad(t, n, a, n->attr[1], elem);
}
static const fm_row mm_row = {"MmBackward", mm_backward};
static const fm_row addmm_row = {"AddmmBackward", mm_backward};

static fm_grad_node *product_node(fm_tape *t, const fm_row *row, fm_tensor *bias, fm_tensor *a, fm_tensor *b)
{
    fm_tensor *operands[3] = {bias, a, b};
    unsigned first = bias ? 0 : 1;
    fm_grad_node *n = fm_grad_node_new(t, row, 3 - first, operands + first);
    if (!n)
        return NULL;
    unsigned ia = bias ? 1 : 0;
    n->attr[0] = ia;
    n->attr[1] = is_column_major(a);
    n->attr[2] = is_column_major(b);
    if (n->next[ia + 1].node)
        fm_grad_node_save(t, n, 0, a);
    if (n->next[ia].node)
        fm_grad_node_save(t, n, 1, b);
    return n;
}

fm_tensor *fm_op_mm(fm_tape *t, fm_tensor *a, fm_tensor *b)
{
    fm_tensor *cb = fm_autocast_operand(t, b, FM_CAST_LOW), *ca = fm_autocast_operand(t, a, FM_CAST_LOW);
    fm_grad_node *n = product_node(t, &mm_row, NULL, ca, cb);
    fm_cuda_product(t);
    fm_tensor *out = empty2(t, ca->shape[0], cb->shape[1], (fm_elem)ca->elem, "mm");
    fm_done(t, n, out, ca, cb, NULL);
    if (ca != a)
        fm_tensor_take(t, a);
    if (cb != b)
        fm_tensor_take(t, b);
    return out;
}

fm_tensor *fm_op_addmm(fm_tape *t, fm_tensor *bias, fm_tensor *a, fm_tensor *b)
{
    fm_tensor *cb = fm_autocast_operand(t, b, FM_CAST_LOW), *ca = fm_autocast_operand(t, a, FM_CAST_LOW);
    fm_tensor *cbias = fm_autocast_operand(t, bias, FM_CAST_LOW);
    fm_grad_node *n = product_node(t, &addmm_row, cbias, ca, cb);
    fm_cuda_product(t);
    fm_tensor *out = empty2(t, ca->shape[0], cb->shape[1], (fm_elem)ca->elem, "addmm");
    fm_done(t, n, out, cbias, ca, cb);
    if (cbias != bias)
        fm_tensor_take(t, bias);
    if (ca != a)
        fm_tensor_take(t, a);
    if (cb != b)
        fm_tensor_take(t, b);
    return out;
}

// saved: 0 a, 1 b (baddbmm: edges input, a, b)
static void bmm_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    fm_cuda_product(t);
    unsigned a = (unsigned)n->attr[0], b = a + 1;
    fm_tensor *saved_a = n->next[b].node ? fm_grad_node_saved(t, n, 0) : NULL;
    fm_tensor *saved_b = n->next[a].node ? fm_grad_node_saved(t, n, 1) : NULL;
    fm_elem elem = (fm_elem)grads[0]->elem;
    for (unsigned k = 0; k < 2; k++) {
        // bmm's names in order: mat2, self; baddbmm's: batch1, batch2, self
        unsigned i = (a == 0) == (k == 0) ? b : a;
        if (i == b ? saved_a != NULL : saved_b != NULL) {
            results[i] = fm_tensor_new(t, 3, n->in_shape[i], elem, "bmm");
            if (a == 1) { // baddbmm's alpha
                fm_tensor *scaled = fm_tensor_new(t, 3, n->in_shape[i], elem, "mul");
                fm_tensor_release(t, results[i]);
                results[i] = scaled;
            }
        }
    }
    if (a == 1 && n->next[0].node) {
        fm_tensor_retain(grads[0]);
        results[0] = grads[0];
    }
}
static const fm_row bmm_row = {"BmmBackward", bmm_backward};
static const fm_row baddbmm_row = {"BaddbmmBackward", bmm_backward};

static fm_tensor *batched(fm_tape *t, const fm_row *row, fm_tensor *input, fm_tensor *a, fm_tensor *b, const char *op)
{
    fm_tensor *cb = fm_autocast_operand(t, b, FM_CAST_LOW), *ca = fm_autocast_operand(t, a, FM_CAST_LOW);
    fm_tensor *ci = fm_autocast_operand(t, input, FM_CAST_LOW);
    fm_tensor *operands[3] = {ci, ca, cb};
    unsigned first = input ? 0 : 1, ia = 1 - first;
    fm_grad_node *n = fm_grad_node_new(t, row, 3 - first, operands + first);
    if (n) {
        n->attr[0] = ia;
        if (n->next[ia + 1].node)
            fm_grad_node_save(t, n, 0, ca);
        if (n->next[ia].node)
            fm_grad_node_save(t, n, 1, cb);
    }
    fm_cuda_product(t);
    fm_tensor *out =
        fm_tensor_new(t, 3, (const int64_t[]){ca->shape[0], ca->shape[1], cb->shape[2]}, (fm_elem)ca->elem, op);
    fm_done(t, n, out, ci, ca, cb);
    if (ci != input)
        fm_tensor_take(t, input);
    if (ca != a)
        fm_tensor_take(t, a);
    if (cb != b)
        fm_tensor_take(t, b);
    return out;
}

fm_tensor *fm_op_bmm(fm_tape *t, fm_tensor *a, fm_tensor *b)
{
    return batched(t, &bmm_row, NULL, a, b, "bmm");
}
fm_tensor *fm_op_baddbmm(fm_tape *t, fm_tensor *input, fm_tensor *a, fm_tensor *b)
{
    return batched(t, &baddbmm_row, input, a, b, "baddbmm");
}

// 3-D x 2-D folds the leading dimensions; otherwise both are expanded to one batch and multiplied by bmm.
// Source: aten/src/ATen/native/LinearAlgebra.cpp, _matmul_impl.
static fm_tensor *matmul_plain(fm_tape *t, fm_tensor *ca, fm_tensor *cb)
{
    if (ca->n_dims == 2 && cb->n_dims == 2)
        return fm_op_mm(t, ca, cb);
    if (cb->n_dims == 2) {
        int64_t shape[FM_MAX_DIMS], rows = 1;
        unsigned n_dims = ca->n_dims;
        for (unsigned i = 0; i + 1 < n_dims; i++) {
            shape[i] = ca->shape[i];
            rows *= shape[i];
        }
        shape[n_dims - 1] = cb->shape[1];
        fm_tensor *flat = fm_op_reshape(t, ca, 2, (const int64_t[]){rows, ca->shape[n_dims - 1]});
        return fm_op_view(t, fm_op_mm(t, flat, cb), n_dims, shape);
    }
    unsigned n_dims = ca->n_dims > cb->n_dims ? ca->n_dims : cb->n_dims;
    int64_t shape[FM_MAX_DIMS], batch = 1, expand_a[FM_MAX_DIMS], expand_b[FM_MAX_DIMS];
    for (unsigned i = 0; i + 2 < n_dims; i++) {
        unsigned la = n_dims - ca->n_dims, lb = n_dims - cb->n_dims;
        int64_t sa = i >= la ? ca->shape[i - la] : 1, sb = i >= lb ? cb->shape[i - lb] : 1;
        shape[i] = expand_a[i] = expand_b[i] = sa > sb ? sa : sb;
        batch *= shape[i];
    }
    int64_t rows = ca->shape[ca->n_dims - 2], inner = ca->shape[ca->n_dims - 1], columns = cb->shape[cb->n_dims - 1];
    expand_a[n_dims - 2] = shape[n_dims - 2] = rows;
    expand_a[n_dims - 1] = expand_b[n_dims - 2] = inner;
    expand_b[n_dims - 1] = shape[n_dims - 1] = columns;
    fm_tensor *fa = fm_op_reshape(t, fm_op_expand(t, ca, n_dims, expand_a), 3, (const int64_t[]){batch, rows, inner});
    fm_tensor *fb =
        fm_op_reshape(t, fm_op_expand(t, cb, n_dims, expand_b), 3, (const int64_t[]){batch, inner, columns});
    return fm_op_view(t, fm_op_bmm(t, fa, fb), n_dims, shape);
}

// Under autocast matmul itself is on the low-precision list: operands are cast whole, before any folding or copying.
fm_tensor *fm_op_matmul(fm_tape *t, fm_tensor *a, fm_tensor *b)
{
    // An argument that had to be cast is the caller's temporary: it lives until the call returns.
    fm_tensor *cb = fm_autocast_operand(t, b, FM_CAST_LOW), *ca = fm_autocast_operand(t, a, FM_CAST_LOW);
    bool own_a = ca != a && ca->floating, own_b = cb != b && cb->floating; // so does the copy
    ca->floating &= !own_a;
    cb->floating &= !own_b;
    fm_tensor *out = matmul_plain(t, ca, cb);
    if (own_a)
        fm_tensor_release(t, ca);
    if (own_b)
        fm_tensor_release(t, cb);
    if (ca != a)
        fm_tensor_take(t, a);
    if (cb != b)
        fm_tensor_take(t, b);
    return out;
}

// Without a bias: matmul(x, weight.t()). With one, and x contiguous: one addmm over the flattened tokens. Otherwise matmul and add.
// Source: aten/src/ATen/native/Linear.cpp.
fm_tensor *fm_op_linear(fm_tape *t, fm_tensor *x, fm_tensor *weight, fm_tensor *bias)
{
    // linear is on autocast's list as a whole: its arguments are cast before it runs, the last first (as the compiler evaluates them).
    fm_tensor *cb = fm_autocast_operand(t, bias, FM_CAST_LOW), *cw = fm_autocast_operand(t, weight, FM_CAST_LOW);
    fm_tensor *cx = fm_autocast_operand(t, x, FM_CAST_LOW);
    fm_tensor *out;
    if (!cb) {
        fm_tensor *wt = fm_op_t(t, cw);
        out = fm_op_matmul(t, cx, wt);
    } else if (cx->n_dims == 2) {
        out = fm_op_addmm(t, cb, cx, fm_op_t(t, cw));
    } else if (fm_tensor_is_contiguous(cx)) {
        int64_t shape[FM_MAX_DIMS], rows = 1;
        unsigned n_dims = cx->n_dims;
        for (unsigned i = 0; i + 1 < n_dims; i++) {
            shape[i] = cx->shape[i];
            rows *= shape[i];
        }
        shape[n_dims - 1] = weight->shape[0];
        fm_tensor *flat = fm_op_reshape(t, cx, 2, (const int64_t[]){rows, cx->shape[n_dims - 1]});
        out = fm_op_view(t, fm_op_addmm(t, cb, flat, fm_op_t(t, cw)), n_dims, shape);
    } else {
        out =
            fm_op_add(t, fm_op_matmul(t, cx, fm_op_t(t, cw)), cb); // added in place on the device: see the note in docs
    }
    if (cx != x)
        fm_tensor_take(t, x);
    return out;
}

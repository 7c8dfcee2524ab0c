// Views: no memory of their own. Their nodes matter all the same: they hold the order of backward, and a gradient whose layout does not
// allow the view back is copied there.
#include "program/ops_private.h"

fm_tensor *fm_view_of(fm_tape *t, const fm_tensor *x, unsigned n_dims, const int64_t *shape, const int64_t *stride)
{
    fm_tensor *v = fm_tensor_alias(t, x);
    v->is_view = true;
    v->n_dims = (uint8_t)n_dims;
    memcpy(v->shape, shape, n_dims * sizeof *shape);
    memcpy(v->stride, stride, n_dims * sizeof *stride);
    return v;
}

fm_tensor *fm_done(fm_tape *t, fm_grad_node *n, fm_tensor *out, fm_tensor *a, fm_tensor *b, fm_tensor *c)
{
    if (n) {
        fm_grad_node_output(t, n, out, 0);
        fm_grad_node_release(t, n);
    }
    fm_tensor_take(t, a);
    if (b != a)
        fm_tensor_take(t, b);
    if (c != a && c != b)
        fm_tensor_take(t, c);
    return fm_float(out);
}

bool fm_same_shape(const fm_tensor *x, unsigned n_dims, const int64_t *shape)
{
    return x->n_dims == n_dims && memcmp(x->shape, shape, n_dims * sizeof *shape) == 0;
}

bool fm_tensor_is_dense(const fm_tensor *x)
{
    unsigned order[FM_MAX_DIMS], n = 0;
    for (unsigned i = 0; i < x->n_dims; i++)
        if (x->shape[i] != 1)
            order[n++] = i;
    for (unsigned i = 1; i < n; i++)
        for (unsigned j = i; j > 0 && x->stride[order[j]] < x->stride[order[j - 1]]; j--) {
            unsigned swap = order[j];
            order[j] = order[j - 1];
            order[j - 1] = swap;
        }
    int64_t step = 1;
    for (unsigned i = 0; i < n; i++) {
        if (x->stride[order[i]] != step)
            return false;
        step *= x->shape[order[i]];
    }
    return true;
}

// Strides of `shape` over x's memory when such a view exists. Source: the rule of at::detail::computeStride: chunks of dimensions
// that lie contiguously in memory may be regrouped, others may not.
static bool view_strides(const fm_tensor *x, unsigned n_dims, const int64_t *shape, int64_t *stride)
{
    int64_t numel = fm_tensor_numel(x);
    if (numel == 0 || x->n_dims == 0) {
        int64_t step = 1;
        for (unsigned i = n_dims; i-- > 0; step *= shape[i] > 0 ? shape[i] : 1)
            stride[i] = step;
        return true;
    }
    int view = (int)n_dims - 1;
    int64_t base = x->stride[x->n_dims - 1], chunk = 1, view_numel = 1;
    for (int d = (int)x->n_dims - 1; d >= 0; d--) {
        chunk *= x->shape[d];
        if (d == 0 || (x->shape[d - 1] != 1 && x->stride[d - 1] != chunk * base)) {
            while (view >= 0 && (view_numel < chunk || shape[view] == 1)) {
                stride[view] = view_numel * base;
                view_numel *= shape[view];
                view--;
            }
            if (view_numel != chunk)
                return false;
            if (d > 0) {
                base = x->stride[d - 1];
                chunk = 1;
                view_numel = 1;
            }
        }
    }
    return view == -1;
}

static fm_tensor *reshape_plain(fm_tape *t, fm_tensor *x, unsigned n_dims, const int64_t *shape)
{
    int64_t stride[FM_MAX_DIMS];
    if (view_strides(x, n_dims, shape, stride))
        return fm_view_of(t, x, n_dims, shape, stride);
    return fm_tensor_new(t, n_dims, shape, x->elem, "clone");
}

static void view_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (grads[0])
        results[0] = reshape_plain(t, grads[0], n->in_dims[0], n->in_shape[0]);
}
static const fm_row view_row = {"ViewBackward", view_backward};

static fm_tensor *view_result(fm_tape *t, fm_tensor *x, fm_tensor *out, const fm_row *row)
{
    fm_grad_node *n = fm_grad_node_new(t, row, 1, &x);
    return fm_done(t, n, out, x, NULL, NULL);
}

fm_tensor *fm_op_reshape(fm_tape *t, fm_tensor *x, unsigned n_dims, const int64_t *shape)
{
    int64_t stride[FM_MAX_DIMS];
    if (!view_strides(x, n_dims, shape, stride))
        x = fm_op_clone(t, x);
    if (!view_strides(x, n_dims, shape, stride))
        memset(stride, 0, sizeof stride);
    return view_result(t, x, fm_view_of(t, x, n_dims, shape, stride), &view_row);
}

fm_tensor *fm_op_view(fm_tape *t, fm_tensor *x, unsigned n_dims, const int64_t *shape)
{
    return fm_op_reshape(t, x, n_dims, shape);
}

fm_tensor *fm_op_detach(fm_tape *t, fm_tensor *x)
{
    fm_tensor *out = fm_tensor_alias(t, x);
    fm_tensor_take(t, x);
    return fm_float(out);
}

static fm_tensor *transposed(fm_tape *t, const fm_tensor *x, unsigned d0, unsigned d1)
{
    fm_tensor *out = fm_tensor_alias(t, x);
    out->is_view = true;
    out->shape[d0] = x->shape[d1];
    out->shape[d1] = x->shape[d0];
    out->stride[d0] = x->stride[d1];
    out->stride[d1] = x->stride[d0];
    return out;
}

static void transpose_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (grads[0])
        results[0] = transposed(t, grads[0], (unsigned)n->attr[0], (unsigned)n->attr[1]);
}
static const fm_row transpose_row = {"TransposeBackward", transpose_backward};
static const fm_row t_row = {"TBackward", transpose_backward};

static fm_tensor *transpose_with(fm_tape *t, fm_tensor *x, int d0, int d1, const fm_row *row)
{
    d0 = fm_dim(x, d0);
    d1 = fm_dim(x, d1);
    fm_grad_node *n = fm_grad_node_new(t, row, 1, &x);
    if (n) {
        n->attr[0] = (uint64_t)d0;
        n->attr[1] = (uint64_t)d1;
    }
    return fm_done(t, n, transposed(t, x, (unsigned)d0, (unsigned)d1), x, NULL, NULL);
}

fm_tensor *fm_op_transpose(fm_tape *t, fm_tensor *x, int d0, int d1)
{
    return transpose_with(t, x, d0, d1, &transpose_row);
}
fm_tensor *fm_op_t(fm_tape *t, fm_tensor *x)
{
    return transpose_with(t, x, 0, 1, &t_row);
}

static void permute_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    int64_t shape[FM_MAX_DIMS], stride[FM_MAX_DIMS];
    for (unsigned i = 0; i < grads[0]->n_dims; i++) {
        shape[n->shape[i]] = grads[0]->shape[i];
        stride[n->shape[i]] = grads[0]->stride[i];
    }
    results[0] = fm_view_of(t, grads[0], grads[0]->n_dims, shape, stride);
}
static const fm_row permute_row = {"PermuteBackward", permute_backward};

fm_tensor *fm_op_permute(fm_tape *t, fm_tensor *x, const int *order)
{
    int64_t shape[FM_MAX_DIMS], stride[FM_MAX_DIMS];
    fm_grad_node *n = fm_grad_node_new(t, &permute_row, 1, &x);
    for (unsigned i = 0; i < x->n_dims; i++) {
        int from = fm_dim(x, order[i]);
        shape[i] = x->shape[from];
        stride[i] = x->stride[from];
        if (n)
            n->shape[i] = from;
    }
    return fm_done(t, n, fm_view_of(t, x, x->n_dims, shape, stride), x, NULL, NULL);
}

static const fm_row unsqueeze_row = {"UnsqueezeBackward", view_backward};
static const fm_row squeeze_row = {"SqueezeBackward", view_backward};

fm_tensor *fm_op_unsqueeze(fm_tape *t, fm_tensor *x, int dim)
{
    unsigned d = (unsigned)(dim < 0 ? dim + (int)x->n_dims + 1 : dim);
    int64_t shape[FM_MAX_DIMS], stride[FM_MAX_DIMS];
    for (unsigned i = 0, j = 0; i <= x->n_dims; i++) {
        shape[i] = i == d ? 1 : x->shape[j];
        stride[i] = i == d ? (d < x->n_dims ? x->shape[d] * x->stride[d] : 1) : x->stride[j];
        j += i != d;
    }
    return view_result(t, x, fm_view_of(t, x, x->n_dims + 1u, shape, stride), &unsqueeze_row);
}

fm_tensor *fm_op_squeeze(fm_tape *t, fm_tensor *x, int dim)
{
    unsigned d = (unsigned)fm_dim(x, dim), k = 0;
    int64_t shape[FM_MAX_DIMS], stride[FM_MAX_DIMS];
    for (unsigned i = 0; i < x->n_dims; i++)
        if (i != d || x->shape[i] != 1) {
            shape[k] = x->shape[i];
            stride[k++] = x->stride[i];
        }
    return view_result(t, x, fm_view_of(t, x, k, shape, stride), &squeeze_row);
}

static void expand_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (grads[0])
        results[0] = fm_sink(fm_op_sum_to(t, grads[0], n->in_dims[0], n->in_shape[0]));
}
static const fm_row expand_row = {"ExpandBackward", expand_backward};

fm_tensor *fm_op_expand(fm_tape *t, fm_tensor *x, unsigned n_dims, const int64_t *shape)
{
    int64_t stride[FM_MAX_DIMS], full[FM_MAX_DIMS];
    unsigned lead = n_dims - x->n_dims;
    for (unsigned i = 0; i < n_dims; i++) {
        bool own = i >= lead;
        full[i] = shape[i] < 0 ? x->shape[i - lead] : shape[i];
        stride[i] = own && x->shape[i - lead] == full[i] ? x->stride[i - lead] : 0;
    }
    return view_result(t, x, fm_view_of(t, x, n_dims, full, stride), &expand_row);
}

// slice, select: the gradient is a zero tensor of the source's shape with the part filled in: whole, and new.
static void slice_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (grads[0])
        results[0] = fm_tensor_new(t, n->in_dims[0], n->in_shape[0], grads[0]->elem, "slice_backward");
}
static void select_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (grads[0])
        results[0] = fm_tensor_new(t, n->in_dims[0], n->in_shape[0], grads[0]->elem, "select_backward");
}
static const fm_row slice_row = {"SliceBackward", slice_backward};
static const fm_row select_row = {"SelectBackward", select_backward};

fm_tensor *fm_op_slice(fm_tape *t, fm_tensor *x, int dim, int64_t start, int64_t end, int64_t step)
{
    unsigned d = (unsigned)fm_dim(x, dim);
    int64_t size = x->shape[d];
    start = start < 0 ? start + size : start;
    end = end < 0 ? end + size : end;
    end = end > size ? size : end;
    start = start < 0 ? 0 : start > end ? end : start;
    fm_tensor *out = fm_tensor_alias(t, x);
    out->is_view = true;
    out->shape[d] = (end - start + step - 1) / step;
    out->stride[d] = x->stride[d] * step;
    return view_result(t, x, out, &slice_row);
}

fm_tensor *fm_op_select(fm_tape *t, fm_tensor *x, int dim, int64_t index)
{
    (void)index;
    unsigned d = (unsigned)fm_dim(x, dim), k = 0;
    int64_t shape[FM_MAX_DIMS], stride[FM_MAX_DIMS];
    for (unsigned i = 0; i < x->n_dims; i++)
        if (i != d) {
            shape[k] = x->shape[i];
            stride[k++] = x->stride[i];
        }
    return view_result(t, x, fm_view_of(t, x, k, shape, stride), &select_row);
}

// The parts' gradients are joined by one cat; a part without one counts as zeros of its size.
static void split_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    const int64_t *sizes = n->context;
    bool any = false;
    for (unsigned i = 0; i < n->n_outputs; i++)
        any |= grads[i] != NULL;
    if (!any)
        return;
    fm_tensor **parts = fm_tape_alloc(t, n->n_outputs * sizeof *parts),
              **made = fm_tape_alloc(t, n->n_outputs * sizeof *made);
    for (unsigned i = 0; i < n->n_outputs; i++) {
        int64_t shape[FM_MAX_DIMS];
        memcpy(shape, n->in_shape[0], sizeof shape);
        shape[n->attr[0]] = sizes[i];
        if (!grads[i])
            made[i] = fm_tensor_new(t, n->in_dims[0], shape, (fm_elem)n->in_elem[0], "zeros");
        parts[i] = grads[i] ? grads[i] : made[i];
    }
    results[0] = fm_sink(fm_op_cat(t, n->n_outputs, parts, (int)n->attr[0]));
    for (unsigned i = 0; i < n->n_outputs; i++)
        fm_tensor_release(t, made[i]);
}
static const fm_row split_row = {"SplitWithSizesBackward", split_backward};

void fm_op_split(fm_tape *t, fm_tensor *x, unsigned n_parts, const int64_t *sizes, int dim, fm_tensor **parts)
{
    unsigned d = (unsigned)fm_dim(x, dim);
    fm_grad_node *n = fm_grad_node_new(t, &split_row, 1, &x);
    if (n) {
        n->attr[0] = d;
        n->context = fm_tape_alloc(t, n_parts * sizeof *sizes);
        memcpy(n->context, sizes, n_parts * sizeof *sizes);
        fm_grad_node_outputs(t, n, n_parts);
    }
    for (unsigned i = 0; i < n_parts; i++) {
        parts[i] = fm_tensor_alias(t, x);
        parts[i]->is_view = true;
        parts[i]->shape[d] = sizes[i];
        fm_grad_node_output(t, n, parts[i], i);
        fm_float(parts[i]);
    }
    if (n)
        fm_grad_node_release(t, n);
    fm_tensor_take(t, x);
}

void fm_op_chunk(fm_tape *t, fm_tensor *x, unsigned n_parts, int dim, fm_tensor **parts)
{
    int64_t size = x->shape[fm_dim(x, dim)], each = (size + n_parts - 1) / n_parts,
            *sizes = fm_tape_alloc(t, n_parts * sizeof *sizes);
    for (unsigned i = 0; i < n_parts; i++) {
        sizes[i] = size < each ? size : each;
        size -= sizes[i];
    }
    fm_op_split(t, x, n_parts, sizes, dim, parts);
}

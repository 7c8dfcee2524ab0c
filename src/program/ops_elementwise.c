// Elementwise operations, copies and casts.
#include "program/ops_private.h"

// --- results' geometry

fm_elem fm_promote(const fm_tensor *a, const fm_tensor *b)
{
    if (!b || a->elem == b->elem)
        return (fm_elem)a->elem;
    bool fa = fm_elem_is_float((fm_elem)a->elem), fb = fm_elem_is_float((fm_elem)b->elem);
    // A tensor without dimensions does not widen one of the same kind.
    if (fa == fb && a->n_dims == 0 && b->n_dims > 0)
        return (fm_elem)b->elem;
    if (fa == fb && b->n_dims == 0 && a->n_dims > 0)
        return (fm_elem)a->elem;
    if (fa != fb)
        return (fm_elem)(fa ? a->elem : b->elem);
    if (!fa)
        return fm_elem_bytes((fm_elem)a->elem) >= fm_elem_bytes((fm_elem)b->elem) ? (fm_elem)a->elem : (fm_elem)b->elem;
    if (fm_elem_bytes((fm_elem)a->elem) == fm_elem_bytes((fm_elem)b->elem))
        return FM_ELEM_F32; // fp16 with bf16
    return fm_elem_bytes((fm_elem)a->elem) > fm_elem_bytes((fm_elem)b->elem) ? (fm_elem)a->elem : (fm_elem)b->elem;
}

// Which of two dimensions is the inner one, asked of every operand in turn. Source: TensorIteratorBase::reorder_dimensions.
static int should_swap(unsigned n, fm_tensor *const *operands, const int64_t (*stride)[FM_MAX_DIMS],
                       const int64_t *shape, unsigned d0, unsigned d1)
{
    for (unsigned k = 0; k < n; k++) {
        if (!operands[k])
            continue;
        int64_t s0 = stride[k][d0], s1 = stride[k][d1];
        if (s0 == 0 || s1 == 0)
            continue;
        if (s0 < s1)
            return -1;
        if (s0 > s1)
            return 1;
        if (shape[d0] > shape[d1])
            return 1;
    }
    return 0;
}

fm_tensor *fm_elementwise_out(fm_tape *t, unsigned n, fm_tensor *const *operands, fm_elem elem, const char *op)
{
    unsigned n_dims = 0;
    for (unsigned k = 0; k < n; k++)
        if (operands[k] && operands[k]->n_dims > n_dims)
            n_dims = operands[k]->n_dims;
    int64_t shape[FM_MAX_DIMS], stride[4][FM_MAX_DIMS] = {{0}};
    bool plain = true;
    for (unsigned i = 0; i < n_dims; i++)
        shape[i] = 1;
    for (unsigned k = 0; k < n; k++) {
        if (!operands[k])
            continue;
        unsigned lead = n_dims - operands[k]->n_dims;
        for (unsigned i = lead; i < n_dims; i++)
            if (operands[k]->shape[i - lead] != 1)
                shape[i] = operands[k]->shape[i - lead];
    }
    for (unsigned k = 0; k < n; k++) {
        if (!operands[k])
            continue;
        plain &= fm_tensor_is_contiguous(operands[k]);
        unsigned lead = n_dims - operands[k]->n_dims;
        for (unsigned i = lead; i < n_dims; i++) {
            bool broadcast = operands[k]->shape[i - lead] == 1 && shape[i] != 1;
            stride[k][i] = broadcast ? 0 : operands[k]->stride[i - lead];
        }
    }
    if (plain)
        return fm_tensor_new(t, n_dims, shape, elem, op);
    unsigned order[FM_MAX_DIMS]; // innermost first
    for (unsigned i = 0; i < n_dims; i++)
        order[i] = n_dims - 1 - i;
    for (unsigned i = 1; i < n_dims; i++) {
        unsigned at = i;
        for (unsigned j = i; j-- > 0;) {
            int c = should_swap(n, operands, stride, shape, order[j], order[at]);
            if (c > 0) {
                unsigned swap = order[j];
                order[j] = order[at];
                order[at] = swap;
                at = j;
            } else if (c < 0) {
                break;
            }
        }
    }
    int64_t out[FM_MAX_DIMS], step = 1;
    for (unsigned i = 0; i < n_dims; i++) {
        out[order[i]] = step;
        step *= shape[order[i]];
    }
    return fm_tensor_new_strided(t, n_dims, shape, out, elem, op);
}

fm_tensor *fm_empty_like(fm_tape *t, const fm_tensor *x, fm_elem elem, const char *op)
{
    if (fm_tensor_is_dense(x))
        return fm_tensor_new_strided(t, x->n_dims, x->shape, x->stride, elem, op);
    fm_tensor *self = fm_tensor_alias(t, x);
    fm_tensor *out = fm_elementwise_out(t, 1, &self, elem, op);
    fm_tensor_release(t, self);
    return out;
}

fm_tensor *fm_op_plain(fm_tape *t, fm_tensor *a, fm_tensor *b, fm_elem elem, const char *op)
{
    fm_tensor *operands[2] = {a, b};
    return fm_done(t, NULL, fm_elementwise_out(t, 2, operands, elem, op), a, b, NULL);
}

// A product of temporaries inside a backward: the gradient times something.
static fm_tensor *times(fm_tape *t, fm_tensor *a, fm_tensor *b, const char *op)
{
    fm_tensor *operands[2] = {a, b};
    return fm_elementwise_out(t, 2, operands, fm_promote(a, b), op);
}
static fm_tensor *unary(fm_tape *t, fm_tensor *a, const char *op)
{
    return fm_elementwise_out(t, 1, &a, (fm_elem)a->elem, op);
}

// --- sums and products

static void add_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    (void)t;
    for (unsigned i = n->n_next; grads[0] && i-- > 0;)
        if (n->next[i].node) {
            fm_tensor_retain(grads[0]);
            results[i] = grads[0];
        }
}
static void sub_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    if (n->n_next > 1 && n->next[1].node)
        results[1] = unary(t, grads[0], "neg");
    if (n->next[0].node) {
        fm_tensor_retain(grads[0]);
        results[0] = grads[0];
    }
}
static const fm_row add_row = {"AddBackward", add_backward};
static const fm_row sub_row = {"SubBackward", sub_backward};

static fm_tensor *binary(fm_tape *t, fm_tensor *a, fm_tensor *b, const fm_row *row, const char *op)
{
    fm_tensor *operands[2] = {a, b};
    fm_grad_node *n = fm_grad_node_new(t, row, 2, operands);
    return fm_done(t, n, fm_elementwise_out(t, 2, operands, fm_promote(a, b), op), a, b, NULL);
}

fm_tensor *fm_op_add(fm_tape *t, fm_tensor *a, fm_tensor *b)
{
    return binary(t, a, b, &add_row, "add");
}
fm_tensor *fm_op_sub(fm_tape *t, fm_tensor *a, fm_tensor *b)
{
    return binary(t, a, b, &sub_row, "sub");
}

// saved: 0 the first factor (for the second's gradient), 1 the second
static void mul_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    if (n->n_next > 1 && n->next[1].node)
        results[1] = times(t, grads[0], fm_grad_node_saved(t, n, 0), "mul");
    if (n->next[0].node) {
        fm_tensor *other = fm_grad_node_saved(t, n, 1);
        results[0] = other ? times(t, grads[0], other, "mul") : unary(t, grads[0], "mul");
    }
}
static const fm_row mul_row = {"MulBackward", mul_backward};

fm_tensor *fm_op_mul(fm_tape *t, fm_tensor *a, fm_tensor *b)
{
    fm_tensor *operands[2] = {a, b};
    fm_grad_node *n = fm_grad_node_new(t, &mul_row, 2, operands);
    if (n && n->next[0].node)
        fm_grad_node_save(t, n, 1, b);
    if (n && n->next[1].node)
        fm_grad_node_save(t, n, 0, a);
    return fm_done(t, n, fm_elementwise_out(t, 2, operands, fm_promote(a, b), "mul"), a, b, NULL);
}

// saved: 0 self, 1 other. grad_other = -grad * ((self / other) / other), grad_self = grad / other
static void div_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    fm_tensor *other = fm_grad_node_saved(t, n, 1);
    if (n->n_next > 1 && n->next[1].node) {
        fm_tensor *self = fm_grad_node_saved(t, n, 0);
        fm_tensor *ratio = times(t, self, other, "div"), *again = times(t, ratio, other, "div");
        fm_tensor *negative = unary(t, grads[0], "neg"); // the right operand of a C++ product is made first
        results[1] = times(t, negative, again, "mul");
        fm_tensor_release(t, negative);
        fm_tensor_release(t, again);
        fm_tensor_release(t, ratio);
    }
    if (n->next[0].node)
        results[0] = other ? times(t, grads[0], other, "div") : unary(t, grads[0], "div");
}
static const fm_row div_row = {"DivBackward", div_backward};
const fm_row *fm_div_row(void)
{
    return &div_row;
}

static void touch_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    if (n->next[1].node)
        results[1] = fm_tensor_new(t, n->in_dims[1], n->in_shape[1], (fm_elem)n->in_elem[1], "zeros");
    if (n->next[0].node) {
        fm_tensor_retain(grads[0]);
        results[0] = grads[0];
    }
}
static const fm_row touch_row = {"TouchBackward", touch_backward};

fm_tensor *fm_op_touch(fm_tape *t, fm_tensor *x, fm_tensor *weight)
{
    fm_tensor *operands[2] = {x, weight};
    fm_grad_node *n = fm_grad_node_new(t, &touch_row, 2, operands);
    return fm_done(t, n, fm_tensor_alias(t, x), x, NULL, NULL);
}

fm_tensor *fm_op_div(fm_tape *t, fm_tensor *a, fm_tensor *b)
{
    fm_tensor *operands[2] = {a, b};
    fm_grad_node *n = fm_grad_node_new(t, &div_row, 2, operands);
    if (n) {
        if (n->next[1].node)
            fm_grad_node_save(t, n, 0, a);
        fm_grad_node_save(t, n, 1, b);
    }
    return fm_done(t, n, fm_elementwise_out(t, 2, operands, fm_promote(a, b), "div"), a, b, NULL);
}

static fm_tensor *unary_op(fm_tape *t, fm_tensor *x, const fm_row *row, const char *op)
{
    fm_grad_node *n = fm_grad_node_new(t, row, 1, &x);
    return fm_done(t, n, unary(t, x, op), x, NULL, NULL);
}

fm_tensor *fm_op_add_scalar(fm_tape *t, fm_tensor *x)
{
    return unary_op(t, x, &add_row, "add");
}
fm_tensor *fm_op_mul_scalar(fm_tape *t, fm_tensor *x)
{
    return unary_op(t, x, &mul_row, "mul");
}
fm_tensor *fm_op_div_scalar(fm_tape *t, fm_tensor *x)
{
    return unary_op(t, x, &div_row, "div");
}

static void neg_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    (void)n;
    if (grads[0])
        results[0] = unary(t, grads[0], "neg");
}
static const fm_row neg_row = {"NegBackward", neg_backward};
fm_tensor *fm_op_neg(fm_tape *t, fm_tensor *x)
{
    return unary_op(t, x, &neg_row, "neg");
}

// --- functions of one operand

// saved: 0 self. grad * (exponent * self ** (exponent - 1))
static void pow_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    fm_tensor *power = unary(t, fm_grad_node_saved(t, n, 0), "pow");
    fm_tensor *factor = unary(t, power, "mul");
    results[0] = times(t, grads[0], factor, "mul");
    fm_tensor_release(t, factor);
    fm_tensor_release(t, power);
}
static const fm_row pow_row = {"PowBackward", pow_backward};

fm_tensor *fm_op_pow(fm_tape *t, fm_tensor *x)
{
    fm_tensor *operand = fm_autocast_operand(t, x, FM_CAST_FP32);
    fm_grad_node *n = fm_grad_node_new(t, &pow_row, 1, &operand);
    fm_grad_node_save(t, n, 0, operand);
    return fm_done(t, n, unary(t, operand, "pow"), operand, x, NULL);
}

// saved: 0 result. -0.5 * grad * result ** 3
static void rsqrt_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    fm_tensor *power = unary(t, fm_grad_node_saved(t, n, 0), "pow");
    fm_tensor *half = unary(t, grads[0], "mul");
    results[0] = times(t, half, power, "mul");
    fm_tensor_release(t, half);
    fm_tensor_release(t, power);
}
static const fm_row rsqrt_row = {"RsqrtBackward", rsqrt_backward};

// One kernel for the whole backward: grad and one saved tensor in, one out.
#define FUSED_BACKWARD(function, kernel)                                                            \
    static void function(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results) \
    {                                                                                               \
        if (grads[0])                                                                               \
            results[0] = times(t, grads[0], fm_grad_node_saved(t, n, 0), kernel);                   \
    }
FUSED_BACKWARD(tanh_backward, "tanh_backward")
FUSED_BACKWARD(sigmoid_backward, "sigmoid_backward")
FUSED_BACKWARD(silu_backward, "silu_backward")
FUSED_BACKWARD(gelu_backward, "gelu_backward")
FUSED_BACKWARD(relu_backward, "threshold_backward")
FUSED_BACKWARD(dropout_backward, "native_dropout_backward")
#undef FUSED_BACKWARD
static const fm_row tanh_row = {"TanhBackward", tanh_backward};
static const fm_row sigmoid_row = {"SigmoidBackward", sigmoid_backward};
static const fm_row silu_row = {"SiluBackward", silu_backward};
static const fm_row gelu_row = {"GeluBackward", gelu_backward};
static const fm_row relu_row = {"ReluBackward", relu_backward};
static const fm_row dropout_row = {"NativeDropoutBackward", dropout_backward};

static fm_tensor *saves_result(fm_tape *t, fm_tensor *x, const fm_row *row, const char *op)
{
    fm_grad_node *n = fm_grad_node_new(t, row, 1, &x);
    fm_tensor *out = unary(t, x, op);
    fm_grad_node_save(t, n, 0, out);
    return fm_done(t, n, out, x, NULL, NULL);
}
static fm_tensor *saves_self(fm_tape *t, fm_tensor *x, const fm_row *row, const char *op)
{
    fm_grad_node *n = fm_grad_node_new(t, row, 1, &x);
    fm_grad_node_save(t, n, 0, x);
    return fm_done(t, n, unary(t, x, op), x, NULL, NULL);
}

fm_tensor *fm_op_rsqrt(fm_tape *t, fm_tensor *x)
{
    fm_tensor *operand = fm_autocast_operand(t, x, FM_CAST_FP32);
    fm_tensor *out = saves_result(t, operand, &rsqrt_row, "rsqrt");
    if (operand != x)
        fm_tensor_take(t, x);
    return out;
}
fm_tensor *fm_op_tanh(fm_tape *t, fm_tensor *x)
{
    return saves_result(t, x, &tanh_row, "tanh");
}
fm_tensor *fm_op_sigmoid(fm_tape *t, fm_tensor *x)
{
    return saves_result(t, x, &sigmoid_row, "sigmoid");
}
fm_tensor *fm_op_relu(fm_tape *t, fm_tensor *x)
{
    return saves_result(t, x, &relu_row, "relu");
}
fm_tensor *fm_op_silu(fm_tape *t, fm_tensor *x)
{
    return saves_self(t, x, &silu_row, "silu");
}
fm_tensor *fm_op_gelu(fm_tape *t, fm_tensor *x)
{
    return saves_self(t, x, &gelu_row, "gelu");
}

fm_tensor *fm_op_dropout(fm_tape *t, fm_tensor *x, double p)
{
    if (p <= 0)
        return x;
    fm_grad_node *n = fm_grad_node_new(t, &dropout_row, 1, &x);
    fm_tensor *out = unary(t, x, "native_dropout");
    fm_tensor *mask = fm_elementwise_out(t, 1, &x, FM_ELEM_BOOL, "native_dropout");
    fm_grad_node_save(t, n, 0, mask);
    fm_tensor_release(t, mask);
    return fm_done(t, n, out, x, NULL, NULL);
}

// --- copies and casts

static void to_copy_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (grads[0])
        results[0] = fm_sink(fm_op_to(t, grads[0], (fm_elem)n->in_elem[0]));
    if (results[0] == grads[0] && grads[0])
        fm_tensor_retain(grads[0]);
}
static const fm_row to_copy_row = {"ToCopyBackward", to_copy_backward};

fm_tensor *fm_op_to_copy(fm_tape *t, fm_tensor *x, fm_elem elem, const char *op)
{
    fm_grad_node *n = fm_elem_is_float(elem) ? fm_grad_node_new(t, &to_copy_row, 1, &x) : NULL;
    return fm_done(t, n, fm_empty_like(t, x, elem, op), x, NULL, NULL);
}

fm_tensor *fm_op_to(fm_tape *t, fm_tensor *x, fm_elem elem)
{
    return x->elem == elem ? x : fm_op_to_copy(t, x, elem, "_to_copy");
}

static void clone_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    add_backward(t, n, grads, results);
}
static const fm_row clone_row = {"CloneBackward", clone_backward};

fm_tensor *fm_op_clone(fm_tape *t, fm_tensor *x)
{
    fm_grad_node *n = fm_grad_node_new(t, &clone_row, 1, &x);
    return fm_done(t, n, fm_tensor_new(t, x->n_dims, x->shape, (fm_elem)x->elem, "clone"), x, NULL, NULL);
}

fm_tensor *fm_op_contiguous(fm_tape *t, fm_tensor *x)
{
    return fm_tensor_is_contiguous(x) ? x : fm_op_clone(t, x);
}

// The parts' gradients are views of the whole's.
static void cat_backward(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results)
{
    if (!grads[0])
        return;
    for (unsigned i = 0; i < n->n_next; i++)
        if (n->next[i].node) {
            results[i] = fm_tensor_alias(t, grads[0]);
            results[i]->shape[n->attr[0]] = n->in_shape[i][n->attr[0]];
        }
}
static const fm_row cat_row = {"CatBackward", cat_backward};

fm_tensor *fm_op_cat(fm_tape *t, unsigned n_parts, fm_tensor *const *parts, int dim)
{
    unsigned d = (unsigned)fm_dim(parts[0], dim);
    fm_grad_node *n = fm_grad_node_new(t, &cat_row, n_parts, parts);
    if (n)
        n->attr[0] = d;
    int64_t shape[FM_MAX_DIMS];
    memcpy(shape, parts[0]->shape, sizeof shape);
    fm_elem elem = (fm_elem)parts[0]->elem;
    for (unsigned i = 1; i < n_parts; i++) {
        shape[d] += parts[i]->shape[d];
        elem = fm_promote(parts[0], parts[i]);
    }
    fm_tensor *out = fm_tensor_new(t, parts[0]->n_dims, shape, elem, "cat");
    fm_done(t, n, out, NULL, NULL, NULL);
    for (unsigned i = 0; i < n_parts; i++)
        fm_tensor_take(t, parts[i]);
    return out;
}

// --- autocast

// Weights (fp32 leaves that want a gradient) are cast once a region and shared; anything else anew at every use.
// Source: cached_cast() in aten/src/ATen/autocast_mode.cpp.
fm_tensor *fm_autocast_operand(fm_tape *t, fm_tensor *x, fm_cast_class how)
{
    if (!t->autocast.enabled || !x || !fm_elem_is_float((fm_elem)x->elem) || x->elem == FM_ELEM_F64)
        return x;
    fm_elem wanted = how == FM_CAST_LOW ? t->autocast.low : FM_ELEM_F32;
    if (x->elem == wanted)
        return x;
    bool cacheable = t->autocast.cache && how == FM_CAST_LOW && x->elem == FM_ELEM_F32 && x->is_leaf &&
                     x->requires_grad && t->grad_enabled;
    fm_tensor *copy = cacheable ? fm_autocast_cached(t, x) : NULL;
    if (copy)
        return copy;
    uint8_t role = t->role;
    bool forced = t->role_forced, floats = x->floating;
    if (x->storage->role == FM_ROLE_PARAMETER) { // the weight, or a view of it (Falcon multiplies by one: not shared)
        t->role = FM_ROLE_WEIGHT_CAST;
        t->role_forced = true;
    }
    x->floating = false; // the caller releases x itself
    copy = fm_op_to(t, x, wanted);
    x->floating = floats;
    t->role = role;
    t->role_forced = forced;
    if (!cacheable)
        return copy;
    fm_sink(copy);
    fm_autocast_remember(t, x, copy);
    fm_tensor_release(t, copy);
    return copy;
}

// Heads, rotation and attention cores.
#include "program/stacks/hf.h"
#include "program/ops_private.h"
#include "model/family.h"

static fm_value *heads(fm_words *w, fm_value *given, uint32_t n, uint32_t d)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tensor *x = fm_hf_tensor(given);
    fm_tensor *split = fm_op_view(hf->t, x, 4, (const int64_t[]){x->shape[0], x->shape[1], n, d});
    return fm_hf_value(fm_op_transpose(hf->t, split, 1, 2));
}

static fm_tensor *as_heads(fm_tape *t, fm_tensor *x, int64_t n, int64_t d)
{
    return fm_op_transpose(t, fm_op_view(t, x, 4, (const int64_t[]){x->shape[0], x->shape[1], n, d}), 1, 2);
}

// Falcon's new decoder: [B, S, k, a / k + 2, d]; keys and values are taken by a list of one index (copies) and spread over the group.
static void split_groups(fm_tape *t, fm_tensor *x, int64_t heads, int64_t n_kv, int64_t d, fm_tensor **parts)
{
    int64_t b = x->shape[0], s = x->shape[1], group = heads / n_kv;
    fm_tensor *view = fm_sink(fm_op_view(t, x, 5, (const int64_t[]){b, s, n_kv, group + 2, d}));
    parts[0] = fm_sink(fm_op_slice(t, view, -2, 0, group, 1));
    for (unsigned i = 1; i < 3; i++) {
        fm_tensor *one = fm_op_index_list(t, view, -2);
        parts[i] = one;
    }
    for (unsigned i = 1; i < 3; i++)
        parts[i] = fm_sink(fm_op_expand(t, parts[i], 5, (const int64_t[]){b, s, n_kv, group, d}));
    fm_tensor_release(t, view);
    fm_tensor *joined[3]; // a list of all three, made before the names are given away
    for (unsigned i = 0; i < 3; i++)
        joined[i] = fm_op_reshape(t, parts[i], 4, (const int64_t[]){b, s, heads, d});
    for (unsigned i = 0; i < 3; i++)
        fm_tensor_release(t, parts[i]);
    for (unsigned i = 0; i < 3; i++)
        parts[i] = fm_op_reshape(t, fm_op_transpose(t, joined[i], 1, 2), 4, (const int64_t[]){b, heads, s, d});
}

// How one product is taken apart; each layout is described beside fm_qkv_layout (model/words.h). The parts float.
static void take_apart(fm_tape *t, fm_tensor *x, fm_qkv_layout layout, int64_t a, int64_t k, int64_t d,
                       fm_tensor **parts)
{
    int64_t b = x->shape[0], s = x->shape[1];
    const int64_t widths[3] = {a * d, k * d, k * d}, counts[3] = {a, k, k};
    fm_tensor *view;
    switch (layout) {
    case FM_QKV_PER_HEAD:
        view = fm_op_transpose(t, fm_op_view(t, x, 4, (const int64_t[]){b, s, a, 3 * d}), 1, 2);
        fm_op_chunk(t, view, 3, -1, parts);
        return;
    case FM_QKV_PER_GROUP:
        split_groups(t, x, a, k, d, parts);
        return;
    case FM_QKV_MULTIQUERY:
        view = fm_sink(fm_op_view(t, x, 4, (const int64_t[]){b, s, a + 2, d}));
        parts[0] = fm_op_slice(t, view, -2, 0, a, 1);
        parts[1] = fm_op_index_list(t, view, -2);
        parts[2] = fm_op_index_list(t, view, -2);
        fm_tensor_release(t, view);
        for (unsigned i = 0; i < 3; i++)
            parts[i] = fm_op_transpose(t, parts[i], 1, 2);
        return;
    case FM_QKV_SLICES: // all three are cut before any is seen as heads: backward goes the other way
        for (unsigned i = 0; i < 3; i++) {
            int64_t begin = i == 0 ? 0 : i == 1 ? a * d : (a + k) * d;
            parts[i] = fm_op_slice(t, x, -1, begin, begin + widths[i], 1);
        }
        for (unsigned i = 0; i < 3; i++)
            parts[i] = as_heads(t, parts[i], counts[i], d);
        return;
    case FM_QKV_SELECT:
        view = fm_sink(fm_op_view(t, x, 5, (const int64_t[]){b, s, a, 3, d}));
        for (unsigned i = 0; i < 3; i++)
            parts[i] = fm_op_transpose(t, fm_op_select(t, view, -2, i), 1, 2);
        fm_tensor_release(t, view);
        return;
    case FM_QKV_MQA_SPLIT:
        fm_op_split(t, fm_op_unsqueeze(t, x, 1), 3, widths, 3, parts);
        parts[0] = fm_op_transpose(t, fm_op_view(t, parts[0], 4, (const int64_t[]){b, s, a, d}), 1, 2);
        return;
    default:
        fm_op_split(t, x, 3, widths, 2, parts);
        for (unsigned i = 0; i < 3; i++)
            parts[i] = layout == FM_QKV_FLAT_SPLIT ? fm_op_view(t, parts[i], 4, (const int64_t[]){b, s, counts[i], d})
                                                   : as_heads(t, parts[i], counts[i], d);
    }
}

static void split_qkv(fm_words *w, fm_value *given, fm_qkv_layout layout, uint32_t n_heads, uint32_t n_kv, uint32_t d,
                      fm_value **q, fm_value **k, fm_value **v)
{
    fm_tape *t = fm_hf_of(w)->t;
    fm_tensor *x = fm_hf_tensor(given), *parts[3] = {NULL};
    bool floats = x->floating;
    x->floating = false;
    take_apart(t, x, layout, n_heads, n_kv, d, parts);
    x->floating = floats;
    fm_tensor_take(t, x);
    *q = fm_hf_value(parts[0]);
    *k = fm_hf_value(parts[1]);
    *v = fm_hf_value(parts[2]);
}

// cat((-x2, x1), -1) of the two halves
static fm_tensor *rotate_half(fm_tape *t, fm_tensor *x)
{
    int64_t d = x->shape[x->n_dims - 1];
    fm_tensor *x1 = fm_local(fm_op_slice(t, x, -1, 0, d / 2, 1)), *x2 = fm_local(fm_op_slice(t, x, -1, d / 2, d, 1));
    fm_tensor *parts[2] = {fm_op_neg(t, x2), x1};
    fm_tensor *out = fm_sink(fm_op_cat(t, 2, parts, -1));
    fm_tensor_release(t, x1);
    fm_tensor_release(t, x2);
    return fm_float(out);
}

// (x * cos) + (rotate_half(x) * sin)
static fm_tensor *rotated(fm_tape *t, fm_tensor *x, fm_tensor *cos, fm_tensor *sin)
{
    fm_tensor *straight = fm_op_mul(t, x, cos);
    fm_sink(straight);
    fm_tensor *turned = fm_op_mul(t, rotate_half(t, x), sin);
    return fm_op_add(t, fm_float(straight), turned);
}

static void rebind(fm_words *w, fm_value **variable, fm_tensor *x)
{
    w->set(w, variable, fm_hf_value(x));
}

static void rotate(fm_words *w, fm_value **q, fm_value **k, fm_value *cos_given, fm_value *sin_given, uint32_t d,
                   uint32_t dims)
{
    fm_tape *t = fm_hf_of(w)->t;
    fm_tensor *cos = fm_local(fm_op_unsqueeze(t, fm_hf_tensor(cos_given), 1)),
              *sin = fm_local(fm_op_unsqueeze(t, fm_hf_tensor(sin_given), 1));
    fm_value **variables[2] = {q, k};
    fm_tensor *made[2];
    if (dims >= d) {
        for (unsigned i = 0; i < 2; i++)
            made[i] = fm_sink(rotated(t, fm_hf_tensor(*variables[i]), cos, sin));
    } else {
        fm_tensor *rot[2], *pass[2];
        for (unsigned i = 0; i < 2; i++) {
            fm_tensor *x = fm_hf_tensor(*variables[i]);
            rot[i] = fm_local(fm_op_slice(t, x, -1, 0, dims, 1));
            pass[i] = fm_local(fm_op_slice(t, x, -1, dims, d, 1));
        }
        fm_tensor *embed[2];
        for (unsigned i = 0; i < 2; i++)
            embed[i] = fm_local(rotated(t, rot[i], cos, sin));
        for (unsigned i = 0; i < 2; i++) {
            fm_tensor *parts[2] = {embed[i], pass[i]};
            made[i] = fm_sink(fm_op_cat(t, 2, parts, -1));
            fm_tensor_release(t, embed[i]);
        }
        for (unsigned i = 0; i < 2; i++) {
            fm_tensor_release(t, rot[i]);
            fm_tensor_release(t, pass[i]);
        }
    }
    fm_tensor_release(t, cos);
    fm_tensor_release(t, sin);
    for (unsigned i = 0; i < 2; i++)
        rebind(w, variables[i], fm_float(made[i]));
}

// x1 cos - x2 sin, x2 cos + x1 sin of even and odd elements, joined
static fm_tensor *rotated_pairs(fm_tape *t, fm_tensor *even, fm_tensor *odd, fm_tensor *cos, fm_tensor *sin)
{
    fm_tensor *a = fm_sink(fm_op_mul(t, even, cos)), *parts[2];
    parts[0] = fm_sink(fm_op_sub(t, fm_float(a), fm_op_mul(t, odd, sin)));
    a = fm_sink(fm_op_mul(t, odd, cos));
    parts[1] = fm_op_add(t, fm_float(a), fm_op_mul(t, even, sin));
    fm_float(parts[0]);
    return fm_op_cat(t, 2, parts, -1);
}

// cat([(rot * cos) + (rotate_half(rot) * sin), pass]): slices of x; a slice of everything is x itself
static fm_tensor *rotated_part(fm_tape *t, fm_tensor *x, fm_tensor *rot, fm_tensor *pass, fm_tensor *cos,
                               fm_tensor *sin)
{
    (void)x;
    fm_tensor *parts[2] = {rotated(t, rot, cos, sin), pass};
    return fm_op_cat(t, 2, parts, -1);
}

static fm_tensor *rotated_in_fp32(fm_tape *t, fm_tensor *x, fm_tensor *cos, fm_tensor *sin, bool cast_first)
{
    fm_elem given = (fm_elem)x->elem;
    fm_tensor *wide = fm_local(cast_first ? fm_op_to(t, x, FM_ELEM_F32) : x),
              *out = fm_sink(rotated(t, wide, cos, sin));
    fm_tensor_release(t, wide);
    (void)given;
    return out;
}

static void rotate_as(fm_words *w, fm_rotation kind, fm_value **q, fm_value **k, fm_value *cos_given,
                      fm_value *sin_given, uint32_t d, uint32_t dims)
{
    fm_tape *t = fm_hf_of(w)->t;
    fm_tensor *cos = fm_hf_tensor(cos_given), *sin = fm_hf_tensor(sin_given), *made[2], *rot[2] = {NULL},
              *pass[2] = {NULL};
    fm_value **variables[2] = {q, k};
    int64_t width = cos->shape[2];
    int dim = kind == FM_ROTATE_QWEN ? 2 : 1;
    if (kind == FM_ROTATE_INTERLEAVE) {
        cos = fm_local(fm_op_unsqueeze(t, fm_op_slice(t, cos, -1, 0, width / 2, 1), dim));
        sin = fm_local(fm_op_unsqueeze(t, fm_op_slice(t, sin, -1, 0, width / 2, 1), dim));
    } else {
        cos = fm_local(fm_op_unsqueeze(t, cos, dim));
        sin = fm_local(fm_op_unsqueeze(t, sin, dim));
    }
    for (unsigned i = 0; kind == FM_ROTATE_PHI3 && i < 2; i++) {
        fm_tensor *x = fm_hf_tensor(*variables[i]);
        rot[i] = fm_local(dims < d ? fm_op_slice(t, x, -1, 0, dims, 1) : x);
        pass[i] = fm_local(fm_op_slice(t, x, -1, dims, d, 1));
    }
    for (unsigned i = 0; kind == FM_ROTATE_INTERLEAVE && i < 2; i++) { // even and odd, of both before either is turned
        fm_tensor *x = fm_hf_tensor(*variables[i]);
        rot[i] = fm_local(fm_op_slice(t, x, -1, 0, x->shape[x->n_dims - 1], 2));
        pass[i] = fm_local(fm_op_slice(t, x, -1, 1, x->shape[x->n_dims - 1], 2));
    }
    for (unsigned i = 0; i < 2; i++) {
        fm_tensor *x = fm_hf_tensor(*variables[i]);
        made[i] = kind == FM_ROTATE_INTERLEAVE ? fm_sink(rotated_pairs(t, rot[i], pass[i], cos, sin))
                  : kind == FM_ROTATE_PHI3     ? fm_sink(rotated_part(t, x, rot[i], pass[i], cos, sin))
                                               : rotated_in_fp32(t, x, cos, sin, kind == FM_ROTATE_QWEN);
    }
    if (kind == FM_ROTATE_OLMO2 || kind == FM_ROTATE_QWEN) { // cast back at the end, both
        fm_tensor *wide[2] = {made[0], made[1]};
        for (unsigned i = 0; i < 2; i++) {
            made[i] = fm_op_to(t, wide[i], (fm_elem)fm_hf_tensor(*variables[i])->elem);
            if (made[i] == wide[i])
                fm_tensor_retain(made[i]);
            else
                fm_sink(made[i]);
        }
        fm_tensor_release(t, wide[0]);
        fm_tensor_release(t, wide[1]);
    }
    for (unsigned i = 0; i < 2; i++) {
        fm_tensor_release(t, rot[i]);
        fm_tensor_release(t, pass[i]);
    }
    fm_tensor_release(t, cos);
    fm_tensor_release(t, sin);
    for (unsigned i = 0; i < 2; i++)
        rebind(w, variables[i], fm_float(made[i]));
}

// --- attention cores

// k and v repeated to all heads: x[:, :, None].expand(B, k, a / k, S, d).reshape(B, a, S, d)
static fm_tensor *repeat_kv(fm_tape *t, fm_tensor *x, uint32_t n_heads)
{
    int64_t b = x->shape[0], n = x->shape[1], s = x->shape[2], d = x->shape[3], times = (int64_t)n_heads / n;
    if (times <= 1)
        return x;
    fm_tensor *expanded = fm_op_expand(t, fm_op_unsqueeze(t, x, 2), 5, (const int64_t[]){b, n, times, s, d});
    return fm_op_reshape(t, expanded, 4, (const int64_t[]){b, n * times, s, d});
}

// out.transpose(1, 2).contiguous().reshape(B, S, -1)
static fm_tensor *merge_heads(fm_tape *t, fm_tensor *out)
{
    int64_t b = out->shape[0], s = out->shape[2], width = out->shape[1] * out->shape[3];
    fm_tensor *merged = fm_op_contiguous(t, fm_op_transpose(t, out, 1, 2));
    return fm_op_reshape(t, merged, 3, (const int64_t[]){b, s, width});
}

// out.transpose(1, 2).reshape(B, S, -1)
static fm_tensor *merge_heads_copying(fm_tape *t, fm_tensor *out)
{
    int64_t b = out->shape[0], s = out->shape[2], width = out->shape[1] * out->shape[3];
    return fm_op_reshape(t, fm_op_transpose(t, out, 1, 2), 3, (const int64_t[]){b, s, width});
}

// *name = x, as an assignment: the old value dies after the new one exists.
static void assign(fm_tape *t, fm_tensor **name, fm_tensor *x)
{
    if (x == *name)
        return;
    fm_sink(x);
    fm_tensor_release(t, *name);
    *name = x;
}

// Products, mask and softmax one by one. The order of the cores is described beside fm_attention (model/words.h).
static fm_tensor *eager(fm_hf *hf, fm_tensor *q, fm_tensor *k, fm_tensor *v, fm_tensor *mask, const fm_attention *how,
                        fm_value **weights)
{
    fm_tape *t = hf->t;
    fm_tensor *keys = fm_local(repeat_kv(t, k, how->n_heads)), *values = fm_local(repeat_kv(t, v, how->n_heads));
    fm_tensor *scores = fm_sink(fm_op_mul_scalar(t, fm_op_matmul(t, q, fm_op_transpose(t, keys, 2, 3))));
    if (how->softcap > 0) {
        assign(t, &scores, fm_op_div_scalar(t, scores));
        assign(t, &scores, fm_op_tanh(t, scores));
        assign(t, &scores, fm_op_mul_scalar(t, scores));
    }
    if (mask)
        assign(t, &scores, fm_op_add(t, scores, mask));
    if (how->softmax_fp32) {
        assign(t, &scores, fm_op_to(t, fm_op_softmax(t, scores, FM_ELEM_F32), (fm_elem)q->elem));
    } else {
        assign(t, &scores, fm_op_softmax(t, scores, -1));
        assign(t, &scores, fm_op_to(t, scores, (fm_elem)v->elem));
    }
    assign(t, &scores, fm_op_dropout(t, scores, how->dropout));
    fm_tensor *out = fm_sink(merge_heads(t, fm_op_matmul(t, scores, values)));
    fm_tensor_release(t, keys);
    fm_tensor_release(t, values);
    *weights = fm_hf_value(fm_float(scores));
    return fm_float(out);
}

// repeat_interleave(x, a / k, dim=1): a copy always, unlike repeat_kv's reshape.
static fm_tensor *repeat_kv_interleaved(fm_tape *t, fm_tensor *x, uint32_t n_heads)
{
    int64_t b = x->shape[0], n = x->shape[1], s = x->shape[2], d = x->shape[3], times = (int64_t)n_heads / n;
    if (times <= 1)
        return x;
    fm_tensor *expanded = fm_op_expand(t, fm_op_unsqueeze(t, x, 2), 5, (const int64_t[]){b, n, times, s, d});
    return fm_op_view(t, fm_op_clone(t, expanded), 4, (const int64_t[]){b, n * times, s, d});
}

// torch's own fall-back, made of single operations: q and k scaled in fp32, a causal mask of [S, S], softmax, product.
// Source: aten/src/ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math.
// Heads of keys and values that are not as many as q's are repeated (enable_gqa), or broadcast by the products when there is one.
// Autocast casts what goes in and is off inside.
static fm_tensor *sdpa_math(fm_tape *t, fm_tensor *q, fm_tensor *k, fm_tensor *v, fm_tensor *mask, double dropout,
                            bool repeat)
{
    fm_tensor *uncast[3] = {q, k, v};
    q = fm_local(fm_autocast_operand(t, q, FM_CAST_LOW));
    k = fm_local(fm_autocast_operand(t, k, FM_CAST_LOW));
    v = fm_local(fm_autocast_operand(t, v, FM_CAST_LOW));
    fm_tensor *cast[3] = {q, k, v};
    bool autocast = t->autocast.enabled;
    t->autocast.enabled = false;
    uint32_t n_heads = repeat ? (uint32_t)q->shape[1] : 1;
    fm_elem given = (fm_elem)q->elem;
    int64_t s = q->shape[2], len = k->shape[2];
    bool half = given == FM_ELEM_BF16 || given == FM_ELEM_F16;
    fm_tensor *q32 = fm_local(half ? fm_op_to(t, q, FM_ELEM_F32) : q),
              *k32 = fm_local(half ? fm_op_to(t, k, FM_ELEM_F32) : k);
    fm_tensor *v32 = fm_local(half ? fm_op_to(t, v, FM_ELEM_F32) : v);
    fm_tensor *query = fm_local(fm_op_mul_scalar(t, q32)), *bias = mask;
    if (!mask) {
        const int64_t shape[2] = {s, len};
        fm_tensor *ones = fm_tensor_new(t, 2, shape, FM_ELEM_BOOL, "ones"),
                  *lower = fm_tensor_new(t, 2, shape, FM_ELEM_BOOL, "tril");
        fm_tensor_release(t, ones);
        fm_tensor *zero = fm_tensor_new(t, 0, NULL, FM_ELEM_F32, "scalar_tensor"),
                  *low = fm_tensor_new(t, 0, NULL, FM_ELEM_F32, "scalar_tensor");
        bias = fm_tensor_new(t, 2, shape, FM_ELEM_F32, "where");
        fm_tensor_release(t, low);
        fm_tensor_release(t, zero);
        fm_tensor_release(t, lower);
    } else {
        fm_local(bias);
    }
    fm_tensor *keys = fm_local(repeat_kv_interleaved(t, k32, n_heads)),
              *values = fm_local(repeat_kv_interleaved(t, v32, n_heads));
    fm_tensor *attn = fm_sink(fm_op_matmul(t, query, fm_op_mul_scalar(t, fm_op_transpose(t, keys, 2, 3))));
    if (!t->inplace_sums) // a real tensor is added to in place
        assign(t, &attn, fm_op_add(t, attn, bias));
    assign(t, &attn, fm_op_safe_softmax(t, attn));
    assign(t, &attn, fm_op_dropout(t, attn, dropout));
    fm_tensor *returned = half ? fm_sink(fm_op_to(t, attn, given)) : NULL; // the second result, which nobody takes
    fm_tensor *out = fm_sink(fm_op_to(t, fm_op_matmul(t, attn, values), given));
    fm_tensor *locals[] = {attn, keys, values, query, bias, q32, k32, v32, returned};
    for (unsigned i = 0; i < sizeof locals / sizeof *locals; i++)
        fm_tensor_release(t, locals[i]);
    for (unsigned i = 0; i < 3; i++) {
        fm_tensor_release(t, cast[i]);
        if (uncast[i] != cast[i])
            fm_tensor_take(t, uncast[i]);
    }
    t->autocast.enabled = autocast;
    return fm_float(out);
}

typedef enum { KERNEL_FLASH, KERNEL_EFFICIENT, KERNEL_MATH } sdpa_kernel;

// The type that q has inside the kernel.
static fm_elem element_inside(const fm_hf *hf, const fm_tensor *q)
{
    return hf->t->autocast.enabled ? hf->t->autocast.low : (fm_elem)q->elem;
}

// On a GPU flash wants compute capability 8.0 and one head size for keys and values; 8.6 to 8.9 and 12.x do not run its backward for head sizes
// above 192, but for those above 224 without dropout.
static bool flash_takes(const fm_record_options *o, const fm_tensor *q, const fm_tensor *v, bool half, double dropout)
{
    int64_t width = q->shape[3];
    if (!half || width > 256 || width != v->shape[3])
        return false;
    bool small = (o->capability >= 86 && o->capability <= 89) || o->capability / 10 == 12;
    return o->exact || (o->capability >= 80 && (!small || width <= 192 || (dropout <= 0 && width > 224)));
}

// The memory-efficient kernel wants bf16 where the GPU has it (8.0), and head sizes of whole vectors.
static bool efficient_takes(const fm_record_options *o, const fm_tensor *q, const fm_tensor *v, fm_elem elem)
{
    bool half = elem == FM_ELEM_BF16 || elem == FM_ELEM_F16;
    int64_t vector = half ? 8 : o->capability >= 80 ? 4 : 1;
    return o->exact || (o->capability >= 50 && (elem != FM_ELEM_BF16 || o->capability >= 80) &&
                        q->shape[3] % vector == 0 && v->shape[3] % vector == 0);
}

// What torch's chooser picks. Exact cases were made with a chooser of their own (cases/README.md), which knows no GPU; flash alone takes grouped
// heads, and neither kernel broadcasts them. cuDNN's kernel, which torch prefers on 9.x and 10.x since cuDNN 9.15.1, is taken as flash: what is
// kept for backward is the same, but the scratch of its backward is known to cuDNN alone.
// Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (2.13).
static sdpa_kernel choose(const fm_hf *hf, const fm_tensor *q, const fm_tensor *v, const fm_tensor *mask, bool grouped,
                          double dropout)
{
    fm_elem elem = element_inside(hf, q);
    const fm_record_options *o = &hf->run->options;
    if (!mask && flash_takes(o, q, v, elem == FM_ELEM_BF16 || elem == FM_ELEM_F16, dropout))
        return KERNEL_FLASH;
    return !grouped && efficient_takes(o, q, v, elem) ? KERNEL_EFFICIENT : KERNEL_MATH;
}

// The bias that torch makes of a boolean mask on a GPU, in q's type and kept for backward; the memory-efficient kernel wants rows of whole
// groups of 8 elements.
static fm_tensor *mask_as_bias(fm_hf *hf, fm_tensor *mask, const fm_tensor *q, sdpa_kernel kernel)
{
    int64_t shape[FM_MAX_DIMS];
    if (!mask || hf->run->options.exact || mask->elem != FM_ELEM_BOOL)
        return mask;
    memcpy(shape, mask->shape, sizeof shape);
    shape[0] = q->shape[0]; // the mask itself is expanded over the batch
    if (kernel == KERNEL_EFFICIENT)
        shape[mask->n_dims - 1] = (shape[mask->n_dims - 1] + 7) / 8 * 8;
    return fm_float(fm_tensor_new(hf->t, mask->n_dims, shape, element_inside(hf, q), "where"));
}

static fm_tensor *run_kernel(fm_hf *hf, sdpa_kernel kernel, fm_tensor *q, fm_tensor *k, fm_tensor *v, fm_tensor *mask,
                             const fm_attention *how, bool repeat)
{
    switch (kernel) {
    case KERNEL_FLASH:
        return fm_op_sdpa_flash(hf->t, q, k, v);
    case KERNEL_EFFICIENT:
        return fm_op_sdpa_efficient(hf->t, q, k, v, mask_as_bias(hf, mask, q, kernel));
    default:
        return sdpa_math(hf->t, q, k, v, mask_as_bias(hf, mask, q, kernel), how->dropout, repeat);
    }
}

static fm_tensor *sdpa(fm_hf *hf, fm_tensor *q, fm_tensor *k, fm_tensor *v, fm_tensor *mask, const fm_attention *how)
{
    fm_tape *t = hf->t;
    bool grouped = how->n_kv_heads != how->n_heads,
         repeat = grouped && (mask || k->shape[3] != v->shape[3] || k->shape[3] > 256);
    fm_tensor *keys = fm_local(repeat ? repeat_kv(t, k, how->n_heads) : k),
              *values = fm_local(repeat ? repeat_kv(t, v, how->n_heads) : v);
    sdpa_kernel kernel = choose(hf, q, values, mask, grouped && !repeat, how->dropout);
    fm_tensor *out = fm_sink(run_kernel(hf, kernel, q, keys, values, mask, how, true));
    fm_tensor *merged = fm_sink(merge_heads(t, fm_float(out)));
    fm_tensor_release(t, keys);
    fm_tensor_release(t, values);
    return fm_float(merged);
}

bool fm_hf_is_eager(const fm_hf *hf)
{
    return hf->run->recipe->attention == FM_ATTENTION_EAGER ||
           (hf->run->arch->family->no_sdpa && hf->run->recipe->attention == FM_ATTENTION_SDPA);
}

// context.view(B, a, S, d).permute(0, 2, 1, 3).reshape(B, S, -1): x is [B a, S, d] or [B, a, S, d]
static fm_tensor *merge_inline(fm_tape *t, fm_tensor *x, int64_t b, int64_t heads)
{
    int64_t s = x->shape[x->n_dims - 2], d = x->shape[x->n_dims - 1];
    fm_tensor *four = x->n_dims == 4 ? x : fm_op_view(t, x, 4, (const int64_t[]){b, heads, s, d});
    static const int order[4] = {0, 2, 1, 3};
    return fm_op_reshape(t, fm_op_permute(t, four, order), 3, (const int64_t[]){b, s, heads * d});
}

// BLOOM's core, written inside its module: the scores stay to the module's end.
static fm_tensor *bloom_core(fm_hf *hf, fm_tensor *q, fm_tensor *k, fm_tensor *v, fm_tensor *mask,
                             const fm_attention *how, fm_value **weights)
{
    fm_words *w = &hf->words;
    fm_tape *t = hf->t;
    int64_t b = q->shape[0], a = q->shape[1], s = q->shape[2], d = q->shape[3];
    const int64_t flat[3] = {b * a, s, d};
    fm_tensor *query = fm_hf_tensor(w->let(w, fm_hf_value(fm_op_reshape(t, q, 3, flat))));
    fm_tensor *key = fm_hf_tensor(w->let(w, fm_hf_value(fm_op_transpose(t, fm_op_reshape(t, k, 3, flat), 1, 2))));
    fm_tensor *value = fm_hf_tensor(w->let(w, fm_hf_value(fm_op_reshape(t, v, 3, flat))));
    fm_tensor *scores =
        fm_hf_tensor(w->let(w, fm_hf_value(fm_op_baddbmm(t, fm_hf_tensor(how->alibi_values), query, key))));
    fm_tensor *view = fm_op_view(t, scores, 4, (const int64_t[]){b, a, s, s});
    fm_tensor *weighted = fm_hf_tensor(w->let(w, fm_hf_value(mask ? fm_op_add(t, view, mask) : view)));
    fm_tensor *p = fm_sink(fm_op_to(t, fm_op_softmax(t, weighted, FM_ELEM_F32), (fm_elem)query->elem));
    assign(t, &p, fm_op_dropout(t, p, how->dropout));
    fm_tensor *out = fm_op_bmm(t, fm_op_view(t, p, 3, (const int64_t[]){b * a, s, s}), value);
    *weights = fm_hf_value(fm_float(p));
    return merge_inline(t, out, b, a);
}

// Falcon's core, inside its module too. The fused way gets the mask; with ALiBi the mask carries the biases.
static fm_tensor *falcon_core(fm_hf *hf, fm_tensor *q, fm_tensor *k, fm_tensor *v, fm_tensor *mask,
                              const fm_attention *how, fm_value **weights)
{
    fm_words *w = &hf->words;
    fm_tape *t = hf->t;
    int64_t b = q->shape[0], a = q->shape[1];
    if (!fm_hf_is_eager(hf)) {
        // enable_gqa is not passed; the exact cases' chooser does not mind.
        bool broadcast = k->shape[1] != a && !hf->run->options.exact;
        sdpa_kernel kernel = broadcast ? KERNEL_MATH : choose(hf, q, v, mask, false, how->dropout);
        fm_tensor *out = run_kernel(hf, kernel, q, k, v, mask, how, false);
        if (how->alibi)
            return merge_heads_copying(t, out);
        return merge_inline(t, out, b, a);
    }
    fm_tensor *scores = fm_op_matmul(t, q, fm_op_transpose(t, k, 2, 3)), *p;
    if (how->alibi) {
        scores = fm_hf_tensor(w->let(w, fm_hf_value(scores)));
        scores = fm_hf_tensor(w->let(w, fm_hf_value(fm_op_to(t, scores, FM_ELEM_F32)))); // beside the product itself
        fm_tensor *bias = fm_op_view(t, fm_hf_tensor(how->alibi_values), 4, (const int64_t[]){b, a, 1, q->shape[2]});
        fm_tensor *sum = fm_op_mul_scalar_into(t, fm_op_add(t, scores, bias)); // logits *= inv_norm_factor
        fm_tensor *biased = fm_hf_tensor(w->let(w, fm_hf_value(sum)));
        p = fm_sink(fm_op_softmax(t, fm_op_add(t, biased, mask), (int)q->elem));
        assign(t, &p, fm_op_dropout(t, p, how->dropout));
    } else {
        scores = fm_sink(fm_op_div_scalar_into(t, scores)); // the name goes to the probabilities
        p = fm_sink(fm_op_softmax(t, mask ? fm_op_add(t, scores, mask) : scores, (int)q->elem));
        fm_tensor_release(t, scores);
    }
    fm_tensor *out = merge_inline(t, fm_op_matmul(t, p, v), b, a);
    *weights = fm_hf_value(fm_float(p));
    return out;
}

static fm_value *attention(fm_words *w, fm_value *qv, fm_value *kv, fm_value *vv, fm_value *mv, const fm_attention *how,
                           fm_value **weights)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tensor *q = fm_hf_tensor(qv), *k = fm_hf_tensor(kv), *v = fm_hf_tensor(vv), *mask = fm_hf_tensor(mv);
    *weights = NULL;
    if (!strcmp(how->core, "bloom"))
        return fm_hf_value(bloom_core(hf, q, k, v, mask, how, weights));
    if (!strncmp(how->core, "falcon", 6))
        return fm_hf_value(falcon_core(hf, q, k, v, mask, how, weights));
    if (fm_hf_is_eager(hf))
        return fm_hf_value(eager(hf, q, k, v, mask, how, weights));
    if (hf->run->recipe->attention == FM_ATTENTION_FLASH)
        return fm_hf_value(merge_heads(hf->t, fm_op_sdpa_flash(hf->t, q, k, v)));
    return fm_hf_value(sdpa(hf, q, k, v, mask, how));
}

void fm_hf_words_attention(fm_words *w)
{
    w->heads = heads;
    w->split_qkv = split_qkv;
    w->rotate = rotate;
    w->rotate_as = rotate_as;
    w->attention = attention;
}

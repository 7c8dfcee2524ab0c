// Heads, rotation and attention cores.
#include "program/stacks/hf.h"
#include "program/ops_private.h"

static fm_tensor *local(fm_tensor *x)
{
    if (x->floating)
        x->floating = false;
    else
        fm_tensor_retain(x);
    return x;
}

static fm_value *heads(fm_words *w, fm_value *given, uint32_t n, uint32_t d)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tensor *x = fm_hf_tensor(given);
    fm_tensor *split = fm_op_view(hf->t, x, 4, (const int64_t[]){x->shape[0], x->shape[1], n, d});
    return fm_hf_value(fm_op_transpose(hf->t, split, 1, 2));
}

static void split_qkv(fm_words *w, fm_value *given, fm_qkv_layout layout, uint32_t n_heads, uint32_t n_kv, uint32_t d, fm_value **q,
                      fm_value **k, fm_value **v)
{
    fm_tape *t = fm_hf_of(w)->t;
    fm_tensor *x = fm_hf_tensor(given), *parts[3];
    int64_t b = x->shape[0], s = x->shape[1];
    const int64_t widths[3] = {(int64_t)n_heads * d, (int64_t)n_kv * d, (int64_t)n_kv * d};
    const uint32_t counts[3] = {n_heads, n_kv, n_kv};
    if (layout == FM_QKV_PER_HEAD) {
        fm_tensor *view = fm_op_transpose(t, fm_op_view(t, x, 4, (const int64_t[]){b, s, n_heads, 3 * (int64_t)d}), 1, 2);
        fm_op_chunk(t, view, 3, -1, parts);
    } else {
        fm_op_split(t, x, 3, widths, 2, parts);
        for (unsigned i = 0; i < 3; i++)
            parts[i] = fm_op_transpose(t, fm_op_view(t, parts[i], 4, (const int64_t[]){b, s, counts[i], d}), 1, 2);
    }
    *q = fm_hf_value(parts[0]);
    *k = fm_hf_value(parts[1]);
    *v = fm_hf_value(parts[2]);
}

// cat((-x2, x1), -1) of the two halves
static fm_tensor *rotate_half(fm_tape *t, fm_tensor *x)
{
    int64_t d = x->shape[x->n_dims - 1];
    fm_tensor *x1 = local(fm_op_slice(t, x, -1, 0, d / 2, 1)), *x2 = local(fm_op_slice(t, x, -1, d / 2, d, 1));
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

static void rebind(fm_words *w, fm_value **variable, fm_tensor *x) { w->set(w, variable, fm_hf_value(x)); }

static void rotate(fm_words *w, fm_value **q, fm_value **k, fm_value *cos_given, fm_value *sin_given, uint32_t d, uint32_t dims)
{
    fm_tape *t = fm_hf_of(w)->t;
    fm_tensor *cos = local(fm_op_unsqueeze(t, fm_hf_tensor(cos_given), 1)), *sin = local(fm_op_unsqueeze(t, fm_hf_tensor(sin_given), 1));
    fm_value **variables[2] = {q, k};
    fm_tensor *made[2];
    if (dims >= d) {
        for (unsigned i = 0; i < 2; i++)
            made[i] = fm_sink(rotated(t, fm_hf_tensor(*variables[i]), cos, sin));
    } else {
        fm_tensor *rot[2], *pass[2];
        for (unsigned i = 0; i < 2; i++) {
            fm_tensor *x = fm_hf_tensor(*variables[i]);
            rot[i] = local(fm_op_slice(t, x, -1, 0, dims, 1));
            pass[i] = local(fm_op_slice(t, x, -1, dims, d, 1));
        }
        fm_tensor *embed[2];
        for (unsigned i = 0; i < 2; i++)
            embed[i] = local(rotated(t, rot[i], cos, sin));
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

// out.transpose(1, 2).contiguous().reshape(B, S, -1)
static fm_tensor *merge_heads(fm_tape *t, fm_tensor *out)
{
    int64_t b = out->shape[0], s = out->shape[2], width = out->shape[1] * out->shape[3];
    fm_tensor *merged = fm_op_contiguous(t, fm_op_transpose(t, out, 1, 2));
    return fm_op_reshape(t, merged, 3, (const int64_t[]){b, s, width});
}

static fm_value *attention(fm_words *w, fm_value *q, fm_value *k, fm_value *v, fm_value *mask, const fm_attention *how, fm_value **weights)
{
    fm_tape *t = fm_hf_of(w)->t;
    (void)how;
    (void)mask;
    *weights = NULL;
    return fm_hf_value(merge_heads(t, fm_op_sdpa_flash(t, fm_hf_tensor(q), fm_hf_tensor(k), fm_hf_tensor(v))));
}

void fm_hf_words_attention(fm_words *w)
{
    w->heads = heads;
    w->split_qkv = split_qkv;
    w->rotate = rotate;
    w->attention = attention;
}

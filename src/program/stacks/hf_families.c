// Words that only some families say.
#include "program/stacks/hf.h"
#include "program/ops_private.h"
#include <stdio.h>

// embedding(ids) * embed_scale.to(weight.dtype); the scale is a buffer of the module
static fm_value *scaled_embedding(fm_words *w, const char *name, uint64_t rows, uint64_t width, fm_value *ids, double factor)
{
    (void)factor;
    fm_hf *hf = fm_hf_of(w);
    fm_value *out = w->embedding(w, name, rows, width, ids);
    return fm_hf_value(fm_op_mul_scalar(hf->t, fm_hf_tensor(out)));
}

static void slices(fm_words *w, fm_value *given, uint64_t n, fm_value **first, fm_value **second)
{
    fm_tape *t = fm_hf_of(w)->t;
    fm_tensor *x = fm_hf_tensor(given);
    bool floats = x->floating;
    x->floating = false;
    int64_t d = x->shape[x->n_dims - 1];
    *first = fm_hf_value(fm_op_slice(t, x, -1, 0, (int64_t)n, 1));
    *second = fm_hf_value(fm_op_slice(t, x, -1, (int64_t)n, d, 1));
    x->floating = floats;
    fm_tensor_take(t, x);
}

static void split2(fm_words *w, fm_value *given, uint64_t n, fm_value **first, fm_value **second)
{
    fm_tensor *x = fm_hf_tensor(given), *parts[2];
    const int64_t sizes[2] = {(int64_t)n, x->shape[x->n_dims - 1] - (int64_t)n};
    fm_op_split(fm_hf_of(w)->t, x, 2, sizes, -1, parts);
    *first = fm_hf_value(parts[0]);
    *second = fm_hf_value(parts[1]);
}

static fm_value *cat(fm_words *w, fm_value *a, fm_value *b)
{
    fm_tensor *parts[2] = {fm_hf_tensor(a), fm_hf_tensor(b)};
    return fm_hf_value(fm_op_cat(fm_hf_of(w)->t, 2, parts, -1));
}

static fm_value *view_heads(fm_words *w, fm_value *given, uint32_t n, uint32_t d)
{
    fm_tensor *x = fm_hf_tensor(given);
    return fm_hf_value(fm_op_view(fm_hf_of(w)->t, x, 4, (const int64_t[]){x->shape[0], x->shape[1], n, d}));
}

static fm_value *transpose_heads(fm_words *w, fm_value *x) { return fm_hf_value(fm_op_transpose(fm_hf_of(w)->t, fm_hf_tensor(x), 1, 2)); }

static fm_value *one_head(fm_words *w, fm_value *given, uint32_t d)
{
    fm_tensor *x = fm_hf_tensor(given);
    return fm_hf_value(fm_op_view(fm_hf_of(w)->t, x, 4, (const int64_t[]){x->shape[0], 1, x->shape[1], d}));
}

// A vector with state and gradient and no other cost: its gradient is made with the loss's, as a parameter nobody computes with would be
// by a zero-weighted term.
static fm_value *remainder_of_size(fm_words *w, fm_value *x, const char *name, uint64_t n)
{
    (void)n;
    fm_hf *hf = fm_hf_of(w);
    uint32_t previous = fm_tape_enter(hf->t, name);
    fm_tensor *weight = fm_hf_parameter(hf, "weight"), *out = weight ? fm_op_touch(hf->t, fm_hf_tensor(x), weight) : fm_hf_tensor(x);
    fm_tape_leave(hf->t, previous);
    return fm_hf_value(out);
}

void fm_hf_words_families(fm_words *w)
{
    w->scaled_embedding = scaled_embedding;
    w->slices = slices;
    w->split2 = split2;
    w->cat = cat;
    w->view_heads = view_heads;
    w->transpose_heads = transpose_heads;
    w->one_head = one_head;
    w->remainder = remainder_of_size;
}

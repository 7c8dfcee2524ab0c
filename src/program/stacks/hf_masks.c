// Positions, rotary tables and masks: small tensors at the start of forward.
#include "program/stacks/hf.h"
#include "program/ops_private.h"
#include "model/family.h"

static fm_value *position_ids(fm_words *w)
{
    fm_hf *hf = fm_hf_of(w);
    int64_t s = hf->run->ids->shape[1];
    fm_tensor *range = fm_float(fm_tensor_new(hf->t, 1, &s, FM_ELEM_I64, "arange"));
    return fm_hf_value(fm_op_unsqueeze(hf->t, fm_op_plain(hf->t, range, NULL, FM_ELEM_I64, "add"), 0));
}

// freqs = positions[..., None].float() * inv_freq; emb = cat(freqs, freqs); cos = emb.cos() * scaling; sin likewise; both cast to like's type
static void rotary_tables(fm_words *w, const fm_arch *arch, fm_value *like, fm_value *positions, fm_value **cos_out,
                          fm_value **sin_out)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tape *t = hf->t;
    int64_t s = fm_hf_tensor(positions)->shape[1], half = arch->rope.dims / 2;
    fm_elem elem = arch->rope.fp32_tables ? FM_ELEM_F32 : (fm_elem)fm_hf_tensor(like)->elem;
    fm_tensor *column = fm_tensor_new(t, 3, (const int64_t[]){1, s, 1}, FM_ELEM_F32, "_to_copy");
    fm_tensor *freqs = fm_tensor_new(t, 3, (const int64_t[]){1, s, half}, FM_ELEM_F32, "mul");
    fm_tensor_release(t, column);
    fm_tensor *parts[2] = {freqs, freqs};
    fm_tensor *emb = fm_sink(fm_op_cat(t, 2, parts, -1));
    fm_tensor *cos = fm_sink(fm_op_plain(t, fm_op_plain(t, emb, NULL, FM_ELEM_F32, "cos"), NULL, FM_ELEM_F32, "mul"));
    fm_tensor *sin = fm_sink(fm_op_plain(t, fm_op_plain(t, emb, NULL, FM_ELEM_F32, "sin"), NULL, FM_ELEM_F32, "mul"));
    fm_tensor *tables[2] = {cos, sin};
    for (unsigned i = 0; i < 2; i++) {
        fm_tensor *cast = fm_op_to(t, tables[i], elem);
        if (cast == tables[i])
            fm_tensor_retain(cast);
        else
            fm_sink(cast);
        *(i ? sin_out : cos_out) = fm_hf_value(cast);
    }
    fm_tensor_release(t, freqs);
    fm_tensor_release(t, emb);
    fm_tensor_release(t, cos);
    fm_tensor_release(t, sin);
    fm_float(fm_hf_tensor(*cos_out));
    fm_float(fm_hf_tensor(*sin_out));
}

// The test for packed sequences: positions' differences, their running count. All of it dies, and the answer is no.
static void look_for_packed_sequences(fm_tape *t, int64_t b, int64_t s)
{
    fm_tensor *first = fm_tensor_new(t, 2, (const int64_t[]){b, 1}, FM_ELEM_I64, "sub");
    fm_tensor *joined = fm_tensor_new(t, 2, (const int64_t[]){b, s + 1}, FM_ELEM_I64, "cat");
    fm_tensor *difference = fm_tensor_new(t, 2, (const int64_t[]){b, s}, FM_ELEM_I64, "sub");
    fm_tensor_release(t, joined);
    fm_tensor *unequal = fm_tensor_new(t, 2, (const int64_t[]){b, s}, FM_ELEM_BOOL, "ne");
    fm_tensor *count = fm_tensor_new(t, 2, (const int64_t[]){b, s}, FM_ELEM_I64, "cumsum");
    fm_tensor_release(t, unequal);
    fm_tensor_release(t, first);
    fm_tensor_release(t, difference);
    fm_tensor_release(t, count);
}

static fm_tensor *range(fm_tape *t, int64_t n, bool shifted)
{
    fm_tensor *x = fm_tensor_new(t, 1, &n, FM_ELEM_I64, "arange");
    if (!shifted)
        return x;
    fm_tensor *moved = fm_tensor_new(t, 1, &n, FM_ELEM_I64, "add");
    fm_tensor_release(t, x);
    return moved;
}

static fm_tensor *truth(fm_tape *t, int64_t s, const char *op)
{
    return fm_tensor_new(t, 4, (const int64_t[]){1, 1, s, s}, FM_ELEM_BOOL, op);
}

// kv_idx <= q_idx, and with a window kv_idx > q_idx - window: [1, 1, S, S]
static fm_tensor *boolean_mask(fm_tape *t, int64_t b, int64_t s, bool windowed)
{
    fm_tensor *batch = range(t, b, false), *head = range(t, 1, false), *rows = range(t, s, true),
              *columns = range(t, s, true), *mask;
    if (windowed) {
        fm_tensor *all = fm_tensor_new(t, 0, NULL, FM_ELEM_BOOL, "new_ones");
        fm_tensor *edge = fm_tensor_new(t, 4, (const int64_t[]){1, 1, s, 1}, FM_ELEM_I64, "sub"),
                  *inside = truth(t, s, "gt");
        fm_tensor_release(t, edge);
        fm_tensor *so_far = truth(t, s, "bitwise_and");
        fm_tensor_release(t, inside);
        fm_tensor_release(t, all);
        fm_tensor *causal = truth(t, s, "le");
        mask = truth(t, s, "bitwise_and");
        fm_tensor_release(t, causal);
        fm_tensor_release(t, so_far);
    } else {
        mask = truth(t, s, "le");
    }
    fm_tensor_release(t, batch);
    fm_tensor_release(t, head);
    fm_tensor_release(t, rows);
    fm_tensor_release(t, columns);
    return mask;
}

// Eager attention adds a mask of 0 and the smallest number, in the embeddings' type, one for each sample of the batch.
static fm_tensor *additive_mask(fm_tape *t, fm_tensor *boolean, int64_t b, int64_t s, fm_elem elem)
{
    fm_tensor *zero = fm_tensor_new(t, 0, NULL, elem, "zeros"),
              *lowest = fm_tensor_new(t, 0, NULL, elem, "scalar_tensor");
    fm_tensor *mask = fm_tensor_new(t, 4, (const int64_t[]){b, 1, s, s}, elem, "where");
    fm_tensor_release(t, lowest);
    fm_tensor_release(t, zero);
    fm_tensor_release(t, boolean);
    return mask;
}

// create_causal_mask of transformers (masking_utils.py): fused kernels need none unless a window is narrower than the sequence.
static fm_value *causal_mask(fm_words *w, const fm_arch *arch, uint32_t window, fm_value *positions, fm_value *hidden)
{
    fm_hf *hf = fm_hf_of(w);
    const fm_tensor *x = fm_hf_tensor(hidden);
    int64_t b = x->shape[0], s = x->shape[1];
    if (positions)
        look_for_packed_sequences(hf->t, b, s);
    bool eager = fm_hf_is_eager(hf), windowed = window && s >= (int64_t)window;
    if (hf->run->recipe->attention == FM_ATTENTION_FLASH || (!eager && !windowed && !arch->family->always_mask))
        return NULL;
    fm_tensor *mask = boolean_mask(hf->t, b, s, window > 0);
    if (eager)
        mask = additive_mask(hf->t, mask, b, s, (fm_elem)x->elem);
    return fm_hf_value(fm_float(mask));
}

void fm_hf_words_masks(fm_words *w)
{
    w->position_ids = position_ids;
    w->rotary_tables = rotary_tables;
    w->causal_mask = causal_mask;
}

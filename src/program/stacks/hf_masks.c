// Positions, rotary tables and masks: small tensors at the start of forward.
#include "program/stacks/hf.h"
#include "program/ops_private.h"

static fm_value *position_ids(fm_words *w)
{
    fm_hf *hf = fm_hf_of(w);
    int64_t s = hf->run->ids->shape[1];
    fm_tensor *range = fm_float(fm_tensor_new(hf->t, 1, &s, FM_ELEM_I64, "arange"));
    return fm_hf_value(fm_op_unsqueeze(hf->t, fm_op_plain(hf->t, range, NULL, FM_ELEM_I64, "add"), 0));
}

// freqs = positions[..., None].float() * inv_freq; emb = cat(freqs, freqs); cos = emb.cos() * scaling; sin likewise; both cast to like's type
static void rotary_tables(fm_words *w, const fm_arch *arch, fm_value *like, fm_value *positions, fm_value **cos_out, fm_value **sin_out)
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

static fm_value *causal_mask(fm_words *w, const fm_arch *arch, uint32_t window, fm_value *positions, fm_value *hidden)
{
    fm_hf *hf = fm_hf_of(w);
    (void)arch;
    (void)window;
    (void)positions;
    look_for_packed_sequences(hf->t, fm_hf_tensor(hidden)->shape[0], fm_hf_tensor(hidden)->shape[1]);
    return NULL;
}

void fm_hf_words_masks(fm_words *w)
{
    w->position_ids = position_ids;
    w->rotary_tables = rotary_tables;
    w->causal_mask = causal_mask;
}

// The head and the loss.
#include "program/stacks/hf.h"
#include "program/ops_private.h"

static fm_tensor *head_weight(fm_hf *hf, const char *tied_to)
{
    (void)tied_to; // the tied weight is found under the head's own name too
    return fm_hf_parameter(hf, "weight");
}

static fm_value *head(fm_words *w, fm_value *given, const char *name, uint64_t n_in, uint64_t n_out, bool bias, const char *tied_to)
{
    fm_hf *hf = fm_hf_of(w);
    (void)n_in;
    (void)n_out;
    fm_tensor *x = fm_hf_tensor(given);
    if (hf->run->recipe->loss == FM_LOSS_CHUNKED) { // the loss runs the head itself, part by part
        hf->head_input = x;
        hf->head_name = name;
        hf->no_logits = true;
        return given;
    }
    uint32_t previous = fm_hf_begin(hf, name, &x);
    fm_tensor *out = fm_op_linear(hf->t, x, head_weight(hf, tied_to), bias ? fm_hf_parameter(hf, "bias") : NULL);
    return fm_hf_value(fm_hf_end(hf, previous, out));
}

// logits.float(); labels padded by one and shifted; both flattened; log_softmax and nll_loss, mean over tokens.
static fm_tensor *full_loss(fm_hf *hf, fm_tensor *given)
{
    fm_tape *t = hf->t;
    int64_t b = given->shape[0], s = given->shape[1], vocab = given->shape[2];
    fm_tensor *logits = fm_op_to(t, given, FM_ELEM_F32);
    if (logits == given)
        fm_tensor_retain(logits);
    else
        fm_sink(logits);
    fm_tensor *padded = fm_sink(fm_op_pad_right(t, hf->run->labels));
    fm_tensor *shifted = fm_op_slice(t, padded, 1, 1, s + 1, 1);
    fm_tensor *target = fm_sink(fm_op_contiguous(t, shifted));
    fm_tensor *flat = fm_sink(fm_op_view(t, logits, 2, (const int64_t[]){b * s, vocab}));
    fm_tensor_release(t, logits);
    fm_tensor *flat_target = fm_sink(fm_op_view(t, target, 1, (const int64_t[]){b * s}));
    fm_tensor_release(t, target);
    fm_tensor *loss = fm_sink(fm_op_nll_loss(t, fm_op_log_softmax(t, flat), flat_target));
    fm_tensor_release(t, flat);
    fm_tensor_release(t, padded);
    fm_tensor_release(t, flat_target);
    return loss;
}

static void loss(fm_words *w, const fm_arch *arch, fm_value *logits)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tape *t = hf->t;
    (void)arch;
    fm_tape_phase(t, FM_PHASE_LOSS, t->step);
    if (hf->run->recipe->loss == FM_LOSS_NONE)
        hf->run->loss = fm_sink(fm_op_mean_all(t, fm_hf_tensor(logits)));
    else
        hf->run->loss = full_loss(hf, fm_hf_tensor(logits));
}

void fm_hf_words_loss(fm_words *w)
{
    w->head = head;
    w->loss = loss;
}

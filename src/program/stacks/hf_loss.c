// The head and the loss.
#include "program/stacks/hf.h"
#include "program/ops_private.h"

static fm_tensor *head_weight(fm_hf *hf, const char *tied_to)
{
    (void)tied_to; // the tied weight is found under the head's own name too
    return fm_hf_parameter(hf, "weight");
}

static fm_value *head(fm_words *w, fm_value *given, const char *name, uint64_t n_in, uint64_t n_out, bool bias,
                      const char *tied_to)
{
    fm_hf *hf = fm_hf_of(w);
    (void)n_in;
    (void)n_out;
    fm_tensor *x = fm_hf_tensor(given), *carried = hf->carried;
    hf->carried = NULL; // the base model's forward has returned
    fm_tensor_release(hf->t, carried);
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

// One part of the tokens: head, fp32, cross-entropy summed; run again in backward.
typedef struct {
    fm_hf *hf;
    fm_tensor *target; // owned
} part;

static fm_tensor *part_loss(fm_tape *t, void *context, fm_tensor *hidden)
{
    part *p = context;
    fm_tensor *x = hidden;
    uint32_t before = t->module;
    t->module = 0;
    uint32_t previous = fm_hf_begin(p->hf, p->hf->head_name, &x);
    fm_tensor *logits = fm_op_linear(t, x, fm_hf_parameter(p->hf, "weight"), fm_hf_parameter(p->hf, "bias"));
    logits = fm_sink(fm_op_to(t, fm_hf_end(p->hf, previous, logits),
                              FM_ELEM_F32)); // the argument of cross_entropy: it lives until the call returns
    fm_tensor *out = fm_sink(fm_op_nll_loss(t, fm_op_log_softmax(t, logits), p->target));
    fm_tensor_release(t, logits);
    t->module = before;
    return out;
}

static void part_drop(fm_tape *t, void *context)
{
    fm_tensor_release(t, ((part *)context)->target);
}

// Head and loss over n parts of the tokens, each under activation checkpointing; the parts' losses are added and divided by the tokens.
static fm_tensor *chunked_loss(fm_hf *hf, unsigned n_parts)
{
    fm_tape *t = hf->t;
    fm_tensor *h = hf->head_input;
    int64_t b = h->shape[0], s = h->shape[1], tokens = b * s, each = (tokens + n_parts - 1) / n_parts;
    n_parts = (unsigned)((tokens + each - 1) / each);
    fm_tensor *rows = fm_sink(fm_op_reshape(t, h, 2, (const int64_t[]){tokens, h->shape[2]}));
    fm_tensor *padded = fm_op_pad_right(t, hf->run->labels);
    fm_tensor *target = fm_sink(fm_op_reshape(t, fm_op_slice(t, padded, 1, 1, s + 1, 1), 1, &tokens));
    fm_tensor_take(t, padded);
    fm_tape_phase(t, FM_PHASE_LOSS, t->step);
    fm_tensor **parts = fm_tape_alloc(t, n_parts * sizeof *parts),
              **targets = fm_tape_alloc(t, n_parts * sizeof *targets), *total = NULL;
    fm_op_chunk(t, rows, n_parts, 0, parts);
    fm_op_chunk(t, target, n_parts, 0, targets);
    for (unsigned i = 0; i < n_parts; i++) {
        fm_sink(parts[i]);
        fm_sink(targets[i]);
    }
    fm_tensor *last = NULL;
    for (unsigned i = 0; i < n_parts; i++) {
        part *p = fm_tape_alloc(t, sizeof *p);
        *p = (part){hf, targets[i]};
        targets[i]->refs++;
        fm_tensor *l = fm_checkpoint(t, part_loss, p, part_drop, parts[i]);
        fm_tensor_release(t, last);
        last = l;
        fm_tensor *sum = total ? fm_sink(fm_op_add(t, total, l)) : l;
        if (!total)
            fm_tensor_retain(l);
        fm_tensor_release(t, total);
        total = sum;
    }
    fm_tensor *mean = fm_sink(fm_op_div_scalar(t, total));
    fm_tensor_release(t, total);
    fm_tensor_release(t, last);
    for (unsigned i = 0; i < n_parts; i++) {
        fm_tensor_release(t, parts[i]);
        fm_tensor_release(t, targets[i]);
    }
    fm_tensor_release(t, rows);
    fm_tensor_release(t, target);
    return mean;
}

static void loss(fm_words *w, const fm_arch *arch, fm_value *logits)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tape *t = hf->t;
    (void)arch;
    if (hf->run->recipe->loss == FM_LOSS_CHUNKED) {
        hf->run->loss = chunked_loss(hf, (unsigned)hf->run->recipe->loss_n);
        hf->no_logits = false;
        return;
    }
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

// Stack `hf`: what each word of model/words.h is made of in Hugging Face transformers, operation by operation.
// Source of every word: transformers 5.24, the modeling_*.py files that the families name, read for facts.
#ifndef FM_PROGRAM_STACKS_HF_H
#define FM_PROGRAM_STACKS_HF_H
#include "model/words.h"
#include "program/ops.h"
#include "program/step.h"

enum { FM_HF_MAX_SCOPES = 24, FM_HF_MAX_LOCALS = 512 };

typedef struct fm_hf {
    fm_words words; // first: a fm_words * is a fm_hf *
    fm_run *run;
    fm_tape *t;
    struct {
        uint32_t path, first_local;
    } scopes[FM_HF_MAX_SCOPES];
    unsigned n_scopes;
    fm_tensor *locals[FM_HF_MAX_LOCALS]; // one entry a name; NULL: rebound away or deleted
    unsigned n_locals;
    fm_tensor *carried; // what the previous block returned beside its output
    fm_tensor *carry_next;
    fm_tensor *head_input; // chunked loss: the base model's output, waiting for the loss (borrowed: a local holds it)
    const char *head_name;
    bool no_logits;            // chunked: between head and loss there are no logits to work on
    struct fm_hf_block *block; // region under way, for its function
} fm_hf;

void fm_hf_init(fm_hf *hf, fm_run *run);

// The model's forward on run->ids; sets run->loss. Returns the logits the output object holds, owned by the caller (NULL when there are none).
fm_tensor *fm_hf_forward(fm_hf *hf);

static inline fm_hf *fm_hf_of(fm_words *w)
{
    return (fm_hf *)w;
}
static inline fm_tensor *fm_hf_tensor(fm_value *v)
{
    return (fm_tensor *)v;
}
static inline fm_value *fm_hf_value(fm_tensor *x)
{
    return (fm_value *)x;
}

// A module that is one call: enters its path, gives the engine its pre-forward, returns the previous path.
uint32_t fm_hf_begin(fm_hf *hf, const char *module, fm_tensor **input);
// Gives the engine its post-forward and leaves.
fm_tensor *fm_hf_end(fm_hf *hf, uint32_t previous, fm_tensor *output);
fm_tensor *fm_hf_parameter(fm_hf *hf, const char *leaf); // of the module now open

// Does attention run operation by operation (asked for, or because the class refuses the fused kernels)?
bool fm_hf_is_eager(const fm_hf *hf);

// DeepSeek's router: sigmoid scores, groups of experts, a bias that only chooses (hf_deepseek.c). The three results are owned.
void fm_hf_deepseek_router(fm_hf *hf, fm_tensor *rows, const fm_router *how, fm_tensor **logits, fm_tensor **weights,
                           fm_tensor **indices);

// Words by file: each fills its part of the vtable.
void fm_hf_words_modules(fm_words *w);
void fm_hf_words_attention(fm_words *w);
void fm_hf_words_masks(fm_words *w);
void fm_hf_words_loss(fm_words *w);
void fm_hf_words_experts(fm_words *w);
void fm_hf_words_deepseek(fm_words *w);
void fm_hf_words_families(fm_words *w); // words that one or two families say
#endif

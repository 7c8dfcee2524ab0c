// The table of families: which architectures Floodmark can describe, one row each.
//
// A family is a forward pass in words (words.h) and the order in which its reference modules register their parameters,
// which is the order of `named_parameters()` and so the order in which sharding engines lay parameters out. The forward
// calls modules in another order than they were registered.
#ifndef FM_MODEL_FAMILY_H
#define FM_MODEL_FAMILY_H
#include "model/arch.h"

// C names, one a family: families/NAME.c defines fm_family_NAME.
#define FM_FAMILY_LIST(X) \
    X(gpt2)               \
    X(gpt_neox)           \
    X(opt)                \
    X(bloom)              \
    X(falcon)             \
    X(gpt_bigcode)        \
    X(starcoder2)         \
    X(phi)                \
    X(phi3)               \
    X(llama)              \
    X(mistral)            \
    X(granite)            \
    X(qwen)               \
    X(qwen2)              \
    X(qwen3)              \
    X(gemma)              \
    X(gemma2)             \
    X(olmo2)              \
    X(stablelm)           \
    X(mixtral)            \
    X(qwen3_moe)          \
    X(deepseek_v3)

// The whole forward, from token ids to logits [B, S, vocab], floating. Calls w->loss while its locals are alive.
typedef fm_value *fm_forward_fn(fm_words *w, const fm_arch *arch);

// Fills the architecture from a configuration: its class's spellings and its class's defaults (read.h). What a family does
// not mention is left 0; sizes that all families have are checked afterwards by the caller.
typedef struct fm_reader fm_reader;
typedef void fm_read_fn(fm_reader *r, fm_arch *arch);

struct fm_family {
    const char *id;          // "llama": the C name
    const char *model_types; // "llama", or several joined by '|'
    const char *title;       // "Llama"
    fm_read_fn *read;
    fm_forward_fn *forward;
    // Registration order of modules, and of parameters without a module of their own, ended by NULL. "*" stands for a
    // block's number. A parameter belongs to the entry that is its longest prefix of whole components; within an entry,
    // weight comes before bias. Blocks are together and in order.
    const char *const *order;
    bool no_sdpa;     // the class refuses torch's fused attention ("sdpa" asked for means eager)
    bool always_mask; // asks for a causal mask even where the kernel's own causal flag would do
};

// What a family's file defines.
#define FM_FAMILY_DECLARE(c) extern const fm_family fm_family_##c;
FM_FAMILY_LIST(FM_FAMILY_DECLARE)
#undef FM_FAMILY_DECLARE

// All of them in the order of the list, ended by NULL.
extern const fm_family *const fm_families[];

// The family of a model_type word, or NULL.
const fm_family *fm_family_find(const char *model_type);

// The whole Hugging Face forward from ids to logits (floating), through w->block for blocks.
static inline fm_value *fm_family_forward(fm_words *w, const fm_arch *arch)
{
    return arch->family->forward(w, arch);
}
#endif

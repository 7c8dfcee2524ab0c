// One decoder-only language model's configuration, normalised: whatever spelling the file used and whatever its class
// fills in where the file is silent (the Hugging Face class defaults of transformers 5.24), here every field has its
// value. Families (families/*.c) read this and nothing else.
//
// Sizes are counts of elements unless the name ends in _bytes. All sizes were checked by the reader (arch_read.h):
// positive where a model needs them, and no product of two of them that a parameter's shape uses overflows 63 bits.
#ifndef FM_MODEL_ARCH_H
#define FM_MODEL_ARCH_H
#include <stdbool.h>
#include <stdint.h>
#include "model/words.h"

typedef enum {
    FM_ROPE_NONE,
    FM_ROPE_DEFAULT,
    FM_ROPE_LINEAR,
    FM_ROPE_DYNAMIC,
    FM_ROPE_LLAMA3,
    FM_ROPE_YARN,
    FM_ROPE_LONGROPE,
    FM_ROPE_PROPORTIONAL
} fm_rope_kind;

typedef struct {
    fm_rope_kind kind;
    double theta;
    uint32_t dims; // how many of a head's dimensions rotate (head_dim * partial_rotary_factor, truncated)
    double factor; // linear, dynamic, llama3, yarn, longrope; 1 otherwise
    double low_freq_factor, high_freq_factor; // llama3
    uint64_t original_positions;              // llama3, yarn, longrope; 0 when not given
    double attention_factor;                  // multiplies cos and sin (yarn, longrope); 1 otherwise
    double mscale_all_dim;                    // yarn as DeepSeek uses it: also scales the scores; 0 when not given
    bool fp32_tables;                         // cos and sin stay fp32 (olmo2): what they multiply is promoted
} fm_rope;

// One of FM_FAMILY_LIST (family.h), by its index.
typedef struct fm_family fm_family;

enum { FM_ARCH_NAME = 128, FM_ARCH_WORD = 24 };

struct fm_arch {
    const fm_family *family;  // never NULL in an arch that a reader returned
    char name[FM_ARCH_NAME];  // "meta-llama/Llama-3.1-8B", or the file's name when the configuration gives none
    char dtype[FM_ARCH_WORD]; // the declared type of its weights as torch spells it ("bfloat16"), "float32" when silent

    // --- sizes
    uint64_t hidden, intermediate, vocab;
    uint64_t max_positions; // of learned positions (gpt2, opt, gpt_bigcode) also the number of rows (opt: + 2)
    uint32_t n_layers, n_heads, n_kv_heads;
    uint32_t head_dim; // of queries and keys (MLA: qk_nope + qk_rope)
    uint32_t v_head_dim;
    uint64_t embed_width; // opt word_embed_proj_dim; hidden otherwise
    uint64_t
        remainder; // a bare size: elements that no Llama shape of that size holds, in one vector that is a unit of its own; else 0

    // --- what the modules are made of
    fm_rope rope;
    double norm_eps;
    fm_activation act;
    bool tie_embeddings;
    bool attention_bias; // bias on q, k, v (and on the output product, unless out_bias says otherwise)
    bool out_bias;       // bias on the attention's output product
    bool mlp_bias, head_bias, norm_bias;
    double softcap_attention, softcap_logits;                                               // gemma2; 0: none
    double embedding_multiplier, residual_multiplier, attention_multiplier, logits_scaling; // granite; 1 otherwise
    double query_scalar;     // gemma2 query_pre_attn_scalar: scores are scaled by its -1/2; 0: head_dim
    bool scale_attention;    // gpt2, gpt_bigcode scale_attn_weights (true)
    bool scale_by_layer;     // gpt2 scale_attn_by_inverse_layer_idx (false)
    bool scale_fp32;         // gpt2 reorder_and_upcast_attn; gpt_bigcode attention_softmax_in_fp32
    bool parallel_residual;  // gpt_neox, stablelm, falcon parallel_attn: attention and MLP read the same input
    bool qk_norm;            // phi, stablelm qk_layernorm
    bool norm_before;        // opt do_layer_norm_before (true)
    bool final_norm;         // opt: false with do_layer_norm_before false or _remove_final_layer_norm
    bool norm_affine;        // opt layer_norm_elementwise_affine (true)
    bool residual_post_norm; // bloom apply_residual_connection_post_layernorm (false)
    bool multi_query, new_decoder, alibi; // falcon, gpt_bigcode (multi_query), bloom (alibi)
    uint32_t n_block_norms;               // falcon: norms in front of a parallel block (1 or 2); else 0

    // --- probabilities in training, with the class's default where the configuration is silent
    double dropout_embed, dropout_residual, dropout_attention, dropout_activation;

    // --- windows. A block with a window sees `window` positions, itself included.
    uint64_t window; // 0: none anywhere
    // What kind block i is: windowed when window > 0 and bit i says so. Two words of the configuration make it:
    // layer_types (a list), or the class's own rule (gemma2: every other block, the first windowed).
    bool mask_by_layer;   // the model makes one mask for each kind of block (qwen2, qwen3, gemma2), not one for all
    const bool *windowed; // n_layers entries, owned by the arch's holder; NULL: every block (when window > 0)

    // --- mixture of experts; n_experts 0: none
    uint32_t n_experts, top_k, n_shared_experts;
    uint64_t moe_intermediate;
    uint32_t first_k_dense;          // deepseek: blocks before this one have a plain MLP
    uint32_t sparse_step;            // qwen3_moe decoder_sparse_step (1): block i is sparse when (i + 1) % step == 0
    const bool *dense;               // n_layers entries: qwen3_moe mlp_only_layers; NULL: none
    bool norm_topk;                  // the chosen weights are divided by their sum
    uint32_t n_groups, top_k_groups; // deepseek n_group, topk_group
    double routed_scaling;           // deepseek routed_scaling_factor

    // --- multi-head latent attention; kv_lora_rank 0: none
    uint64_t q_lora_rank, kv_lora_rank; // q_lora_rank 0: one full q_proj
    uint32_t qk_nope_dim, qk_rope_dim;
    bool rope_interleave;
};

// Does block `layer` see only a window / hold experts?
static inline bool fm_arch_windowed(const fm_arch *a, uint32_t layer)
{
    return a->window > 0 && (!a->windowed || a->windowed[layer]);
}
static inline bool fm_arch_sparse(const fm_arch *a, uint32_t layer)
{
    if (!a->n_experts || layer < a->first_k_dense || (a->dense && a->dense[layer]))
        return false;
    return a->sparse_step <= 1 || (layer + 1) % a->sparse_step == 0;
}
#endif

// GGUF keys in Hugging Face's words. Source of the keys: docs/gguf.md of ggml and the names in llama.cpp's gguf-py
// (constants.py, 2026-08); what each architecture's file stands for: that repository's converters.
#include <stdio.h>
#include <string.h>
#include "base/json_out.h"
#include "floodmark/gguf.h"
#include "model/opened.h"

// general.architecture -> model_type.
static const struct {
    const char *gguf, *model_type;
} architectures[] = {
    {"llama", "llama"},
    {"mistral3", "mistral"},
    {"qwen", "qwen"},
    {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},
    {"qwen3moe", "qwen3_moe"},
    {"gemma", "gemma"},
    {"gemma2", "gemma2"},
    {"gpt2", "gpt2"},
    {"gptneox", "gpt_neox"},
    {"falcon", "falcon"},
    {"bloom", "bloom"},
    {"starcoder", "gpt_bigcode"},
    {"starcoder2", "starcoder2"},
    {"phi2", "phi"},
    {"phi3", "phi3"},
    {"granite", "granite"},
    {"olmo2", "olmo2"},
    {"stablelm", "stablelm"},
    {"deepseek2", "deepseek_v3"},
};

// Whole numbers: key after "ARCH." -> keys of config.json. The readers of families take what their class knows.
static const struct {
    const char *gguf, *config;
    bool needed;
} sizes[] = {
    {"embedding_length", "hidden_size", true},
    {"block_count", "num_hidden_layers", true},
    {"attention.head_count", "num_attention_heads", true},
    {"attention.head_count_kv", "num_key_value_heads", false},
    {"context_length", "max_position_embeddings", false},
    {"attention.sliding_window", "sliding_window", false},
    {"expert_feed_forward_length", "moe_intermediate_size", false},
    {"expert_used_count", "num_experts_per_tok", false},
    {"expert_shared_count", "n_shared_experts", false},
    {"expert_group_count", "n_group", false},
    {"expert_group_used_count", "topk_group", false},
    {"leading_dense_block_count", "first_k_dense_replace", false},
    {"attention.kv_lora_rank", "kv_lora_rank", false},
};

static const struct {
    const char *gguf, *config;
} numbers[] = {
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_eps"},
    {"rope.freq_base", "rope_theta"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"embedding_scale", "embedding_multiplier"},
    {"residual_scale", "residual_multiplier"},
    {"attention.scale", "attention_multiplier"},
    {"logit_scale", "logits_scaling"},
    {"expert_weights_scale", "routed_scaling_factor"},
};

typedef struct {
    const fm_gguf *gguf;
    const char *arch; // GGUF's word
    fm_json json;
} converter;

static bool whole(const converter *c, const char *key, uint64_t *out)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", c->arch, key);
    return fm_gguf_u64(c->gguf, full, out, NULL) == FM_OK;
}

static bool has(const converter *c, const char *tensor)
{
    return fm_gguf_find_tensor(c->gguf, tensor) != NULL;
}

static fm_status put_sizes(converter *c, const char *path, fm_err *err)
{
    uint64_t v;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (whole(c, sizes[i].gguf, &v))
            fm_json_put_u64(&c->json, sizes[i].config, v);
        else if (sizes[i].needed)
            return fm_fail(err, FM_ERR_NOT_FOUND,
                           "%s: general.architecture is \"%s\", but the key %s.%s is missing or no whole number", path,
                           c->arch, c->arch, sizes[i].gguf);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char full[128];
        double x;
        snprintf(full, sizeof full, "%s.%s", c->arch, numbers[i].gguf);
        if (fm_gguf_double(c->gguf, full, &x, NULL) == FM_OK && x - x == 0)
            fm_json_put_f64(&c->json, numbers[i].config, x);
    }
    return FM_OK;
}

// Widths that go by other names in other classes.
static void put_widths(converter *c, const char *type)
{
    uint64_t ff, kv, experts, head, rope;
    bool has_head = whole(c, "attention.key_length", &head), has_rope = whole(c, "rope.dimension_count", &rope);
    if (whole(c, "feed_forward_length", &ff)) {
        fm_json_put_u64(&c->json, "intermediate_size", !strcmp(type, "qwen") ? 2 * ff : ff);
        fm_json_put_u64(&c->json, "n_inner", ff);
        fm_json_put_u64(&c->json, "ffn_hidden_size", ff);
    }
    if (!strcmp(type, "falcon") && whole(c, "attention.head_count_kv", &kv)) {
        fm_json_put_u64(&c->json, "num_kv_heads", kv);
        fm_json_put_bool(&c->json, "multi_query", kv == 1);
        fm_json_put_bool(&c->json, "new_decoder_architecture", kv > 1);
    }
    if (!strcmp(type, "gpt_bigcode") && whole(c, "attention.head_count_kv", &kv))
        fm_json_put_bool(&c->json, "multi_query", kv == 1);
    if (whole(c, "expert_count", &experts) && experts) {
        fm_json_put_u64(&c->json, "num_local_experts", experts);
        fm_json_put_u64(&c->json, "num_experts", experts);
        fm_json_put_u64(&c->json, "n_routed_experts", experts);
    }
    if (strcmp(type, "deepseek_v3") != 0) {
        uint64_t width, heads;
        if (has_head)
            fm_json_put_u64(&c->json, "head_dim", head);
        else if (whole(c, "embedding_length", &width) && whole(c, "attention.head_count", &heads) && heads &&
                 width % heads == 0)
            head = width / heads, has_head = true;
        if (has_rope && has_head && rope <= head && rope)
            fm_json_put_f64(&c->json, "partial_rotary_factor", (double)rope / (double)head);
        return;
    }
    uint64_t v, q;
    bool latent = whole(c, "attention.key_length_mla", &head) || has_head;
    if (latent && has_rope && head > rope) {
        fm_json_put_u64(&c->json, "qk_rope_head_dim", rope);
        fm_json_put_u64(&c->json, "qk_nope_head_dim", head - rope);
    }
    if (whole(c, "attention.value_length_mla", &v) || whole(c, "attention.value_length", &v))
        fm_json_put_u64(&c->json, "v_head_dim", v);
    fm_json_key(&c->json, "q_lora_rank");
    if (whole(c, "attention.q_lora_rank", &q) && q)
        fm_json_u64(&c->json, q);
    else
        fm_json_null(&c->json);
}

// What only the tensors tell: the vocabulary, ties, biases, extra norms, the type.
static fm_status put_from_tensors(converter *c, const char *path, fm_err *err)
{
    const fm_tensor_info *embed = fm_gguf_find_tensor(c->gguf, "token_embd.weight");
    if (!embed || embed->n_dims != 2)
        return fm_fail(err, FM_ERR_NOT_FOUND,
                       "%s: there is no tensor \"token_embd.weight\" of two dimensions, so the vocabulary is unknown",
                       path);
    fm_json_put_u64(&c->json, "vocab_size", embed->dims[0]);
    fm_json_put_bool(&c->json, "tie_word_embeddings", !has(c, "output.weight"));
    fm_json_put_bool(&c->json, "attention_bias", has(c, "blk.0.attn_q.bias") || has(c, "blk.0.attn_qkv.bias"));
    fm_json_put_bool(&c->json, "use_qkv_bias", has(c, "blk.0.attn_q.bias"));
    fm_json_put_bool(&c->json, "use_bias", has(c, "blk.0.ffn_up.bias"));
    fm_json_put_bool(&c->json, "bias", has(c, "blk.0.attn_qkv.bias"));
    fm_json_put_bool(&c->json, "mlp_bias", has(c, "blk.0.ffn_up.bias"));
    fm_json_put_bool(&c->json, "qk_layernorm", has(c, "blk.0.attn_q_norm.weight"));
    bool parallel = !has(c, "blk.0.ffn_norm.weight"), said;
    if (!strcmp(c->arch, "gptneox") && fm_gguf_bool(c->gguf, "gptneox.use_parallel_residual", &said, NULL) == FM_OK)
        parallel = said;
    fm_json_put_bool(&c->json, "use_parallel_residual", parallel);
    fm_json_put_text(&c->json, "dtype",
                     embed->type == FM_TENSOR_F32   ? "float32"
                     : embed->type == FM_TENSOR_F16 ? "float16"
                                                    : "bfloat16");
    return FM_OK;
}

fm_status fm_gguf_config(const fm_gguf *gguf, fm_buf *out, fm_err *err)
{
    const char *path = fm_gguf_path(gguf), *type = NULL;
    converter c = {.gguf = gguf};
    uint64_t experts;
    if (!fm_gguf_find(gguf, "general.architecture"))
        return fm_fail(err, FM_ERR_NOT_FOUND,
                       "%s: the key general.architecture is missing, so the operations are unknown", path);
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (fm_gguf_string_is(gguf, "general.architecture", architectures[i].gguf)) {
            c.arch = architectures[i].gguf;
            type = architectures[i].model_type;
        }
    if (!type)
        return fm_fail(err, FM_ERR_UNSUPPORTED,
                       "%s: its general.architecture has no description, so the operations are unknown", path);
    if (!strcmp(type, "llama") && whole(&c, "expert_count", &experts) && experts)
        type = "mixtral";
    fm_json_init(&c.json, out, false);
    fm_json_begin_object(&c.json);
    fm_json_put_text(&c.json, "model_type", type);
    fm_status status = put_sizes(&c, path, err);
    if (status == FM_OK)
        status = put_from_tensors(&c, path, err);
    if (status != FM_OK)
        return status;
    put_widths(&c, type);
    fm_json_end_object(&c.json);
    return fm_json_finish(&c.json, err);
}

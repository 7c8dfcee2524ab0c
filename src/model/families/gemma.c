// Gemma: embeddings times sqrt(hidden), norms whose weight is an offset from one.
// Source: transformers 5.24, models/gemma/modeling_gemma.py.
#include <math.h>
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    return fm_llama_like_block(w, arch, hidden, args, FM_NORM_GEMMA, &how, fm_self_attention, fm_mlp);
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    w_enter(w, "");
    w_enter(w, "model");
    fm_value *embeds = w_let(
        w, w->scaled_embedding(w, "embed_tokens", arch->vocab, arch->hidden, w->ids(w), sqrt((double)arch->hidden)));
    fm_value *last = fm_llama_like_model(w, arch, FM_NORM_GEMMA, embeds, block);
    return fm_finish(w, arch, fm_head(w, arch, last, arch->hidden, "model.embed_tokens.weight"));
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_common(r, a, 8192, true);
    fm_read_heads(r, a, 16, 256);
    fm_read_rope(r, a, 10000, 1, 0);
    a->intermediate = fm_read_size(r, "intermediate_size", FM_NEEDED);
    a->norm_eps = fm_read_positive(r, "rms_norm_eps", 1e-6);
    // "gelu" in old files means the tanh form: the class replaces it
    a->act = fm_read_activation(r, "hidden_act", "gelu_pytorch_tanh");
    a->act = a->act == FM_ACT_GELU ? FM_ACT_GELU_TANH : a->act;
    a->attention_bias = a->out_bias = fm_read_flag(r, "attention_bias", false);
    a->dropout_attention = fm_read_probability(r, "attention_dropout", 0);
}

static const char *const order[] = {
    "model.embed_tokens",
    "model.layers.*.self_attn.q_proj",
    "model.layers.*.self_attn.k_proj",
    "model.layers.*.self_attn.v_proj",
    "model.layers.*.self_attn.o_proj",
    "model.layers.*.mlp.gate_proj",
    "model.layers.*.mlp.up_proj",
    "model.layers.*.mlp.down_proj",
    "model.layers.*.input_layernorm",
    "model.layers.*.post_attention_layernorm",
    "model.norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_gemma = {
    .id = "gemma", .model_types = "gemma", .title = "Gemma", .read = read, .forward = forward, .order = order};

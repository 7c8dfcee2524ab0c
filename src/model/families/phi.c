// Phi-1, Phi-1.5, Phi-2: one LayerNorm feeds attention and MLP side by side; part of a head rotates.
// Source: transformers 5.24, models/phi/modeling_phi.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *attention(fm_words *w, const fm_arch *arch, fm_value *x, const fm_block_args *args,
                           const fm_attention *how, fm_value **weights)
{
    w_enter(w, "self_attn");
    fm_value *q = w_let(w, fm_project_heads(w, arch, x, "q_proj", arch->n_heads, arch->attention_bias));
    fm_value *k = w_let(w, fm_project_heads(w, arch, x, "k_proj", arch->n_kv_heads, arch->attention_bias));
    fm_value *v = w_let(w, fm_project_heads(w, arch, x, "v_proj", arch->n_kv_heads, arch->attention_bias));
    if (arch->qk_norm) {
        w_set(w, &q, w->layer_norm(w, q, "q_layernorm", arch->head_dim, true));
        w_set(w, &k, w->layer_norm(w, k, "k_layernorm", arch->head_dim, true));
    }
    fm_rotate_first_part(w, arch, &q, &k, args);
    fm_value *out = fm_attend(w, arch, q, k, v, args, how, "dense", weights);
    return w_leave_pair(w, out, weights);
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    fm_value *h = w_let(w, w->layer_norm(w, hidden, "input_layernorm", arch->hidden, true)), *weights;
    fm_value *attended = w_let(w, attention(w, arch, h, args, &how, &weights));
    w_let(w, weights);
    w_set(w, &attended, w->dropout(w, attended, arch->dropout_residual));
    fm_value *fed = w_let(w, w->dropout(w, fm_plain_mlp(w, arch, h, "fc1", "fc2", -1), arch->dropout_residual));
    w_set(w, &h, w->add(w, w->add(w, attended, fed), hidden));
    return h;
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    fm_block_args args = {0};
    fm_masks_made masks;
    w_enter(w, "");
    w_enter(w, "model");
    fm_value *embeds = fm_embed_tokens(w, arch);
    args.positions = w_let(w, w->position_ids(w));
    fm_masks(w, arch, embeds, &args, &masks);
    w_set(w, &embeds, w->dropout(w, embeds, arch->dropout_embed));
    fm_value *h = w_let(w, embeds);
    fm_rotary(w, arch, h, &args);
    fm_blocks(w, arch, "layers", block, &h, &args, &masks);
    w_set(w, &h, w->layer_norm(w, h, "final_layernorm", arch->hidden, true));
    fm_value *last = w_let(w, w_leave(w, h));
    return fm_finish(w, arch, fm_head(w, arch, last, arch->hidden, "model.embed_tokens.weight"));
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_common(r, a, 2048, false);
    fm_read_heads(r, a, 0, 0);
    fm_read_rope(r, a, 10000, 0.5, 0);
    a->intermediate = fm_read_size(r, "intermediate_size|n_inner", 4 * a->hidden);
    a->norm_eps = fm_read_positive(r, "layer_norm_eps|layer_norm_epsilon", 1e-5);
    a->act = fm_read_activation(r, "hidden_act|activation_function", "gelu_new");
    a->attention_bias = a->out_bias = a->mlp_bias = a->head_bias = true;
    a->qk_norm = fm_read_flag(r, "qk_layernorm", false);
    a->dropout_embed = fm_read_probability(r, "embd_pdrop", 0);
    a->dropout_residual = fm_read_probability(r, "resid_pdrop", 0);
    a->dropout_attention = fm_read_probability(r, "attention_dropout|attn_pdrop", 0);
}

static const char *const order[] = {
    "model.embed_tokens",
    "model.layers.*.self_attn.q_proj",
    "model.layers.*.self_attn.k_proj",
    "model.layers.*.self_attn.v_proj",
    "model.layers.*.self_attn.dense",
    "model.layers.*.self_attn.q_layernorm",
    "model.layers.*.self_attn.k_layernorm",
    "model.layers.*.mlp.fc1",
    "model.layers.*.mlp.fc2",
    "model.layers.*.input_layernorm",
    "model.final_layernorm",
    "lm_head",
    NULL,
};
const fm_family fm_family_phi = {
    .id = "phi", .model_types = "phi", .title = "Phi", .read = read, .forward = forward, .order = order};

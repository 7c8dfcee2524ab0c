// OPT: learned positions from row 2 on, queries scaled before they meet the keys, embeddings of another width where asked for.
// Source: transformers 5.24, models/opt/modeling_opt.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *norm(fm_words *w, const fm_arch *arch, fm_value *x, const char *name)
{
    return arch->norm_affine ? w->layer_norm(w, x, name, arch->hidden, true)
                             : w->layer_norm_plain(w, x, name, arch->hidden);
}

static fm_value *attention(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *x, const fm_block_args *args,
                           fm_value **weights)
{
    fm_attention how = fm_attention_plain(arch, layer);
    uint64_t h = arch->hidden;
    double scale = how.scale;
    how.core = "gpt_neox";
    how.scale = 1.0;
    w_enter(w, "self_attn");
    fm_value *q = w_let(w, w->scale(w, w->linear(w, x, "q_proj", h, h, arch->attention_bias), scale));
    w_set(w, &q, w->heads(w, q, arch->n_heads, arch->head_dim));
    fm_value *k = w_let(w, w->linear(w, x, "k_proj", h, h, arch->attention_bias));
    fm_value *v = w_let(w, w->linear(w, x, "v_proj", h, h, arch->attention_bias));
    w_set(w, &k, w->heads(w, k, arch->n_heads, arch->head_dim));
    w_set(w, &v, w->heads(w, v, arch->n_heads, arch->head_dim));
    fm_value *out = fm_attend(w, arch, q, k, v, args, &how, "out_proj", weights);
    return w_leave_pair(w, out, weights);
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    bool before = arch->norm_before;
    fm_value *weights;
    fm_value *h = w_let(w, before ? norm(w, arch, hidden, "self_attn_layer_norm") : hidden);
    w_set(w, &h, attention(w, arch, layer, h, args, &weights));
    w_let(w, weights);
    w_set(w, &h, w->dropout(w, h, arch->dropout_residual));
    w_set(w, &h, w->add(w, hidden, h));
    if (!before)
        w_set(w, &h, norm(w, arch, h, "self_attn_layer_norm"));
    fm_value *residual = w_let(w, h);
    if (before)
        w_set(w, &h, norm(w, arch, h, "final_layer_norm"));
    w_set(w, &h, w->linear(w, h, "fc1", arch->hidden, arch->intermediate, arch->mlp_bias));
    w_set(w, &h, w->act(w, h, arch->act));
    w_set(w, &h, w->linear(w, h, "fc2", arch->intermediate, arch->hidden, arch->mlp_bias));
    w_set(w, &h, w->dropout(w, h, arch->dropout_residual));
    w_set(w, &h, w->add(w, residual, h));
    if (!before)
        w_set(w, &h, norm(w, arch, h, "final_layer_norm"));
    return h;
}

static fm_value *decoder(fm_words *w, const fm_arch *arch)
{
    fm_block_args args = {0};
    fm_masks_made masks;
    bool projects = arch->embed_width != arch->hidden;
    fm_value *ones, *ids;
    w_enter(w, "decoder");
    fm_value *embeds = w_let(w, w->embedding(w, "embed_tokens", arch->vocab, arch->embed_width, w->ids(w)));
    w->opt_positions(w, &ones, &ids);
    w_let(w, ones);
    fm_masks(w, arch, embeds, &args, &masks); // told of no positions
    args.positions = w_let(w, ids);
    fm_value *placed = w_let(w, w->embedding(w, "embed_positions", arch->max_positions + 2, arch->hidden,
                                             w->offset_ids(w, args.positions, 2)));
    if (projects)
        w_set(w, &embeds, w->linear(w, embeds, "project_in", arch->embed_width, arch->hidden, false));
    fm_value *h = w_let(w, w->add(w, embeds, placed));
    fm_blocks(w, arch, "layers", block, &h, &args, &masks);
    if (arch->final_norm)
        w_set(w, &h, norm(w, arch, h, "final_layer_norm"));
    if (projects)
        w_set(w, &h, w->linear(w, h, "project_out", arch->hidden, arch->embed_width, false));
    return w_leave(w, h);
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    w_enter(w, "");
    w_enter(w, "model"); // the causal model calls model.decoder itself: this scope is a name, no frame of its own
    fm_value *last = w_let(w, w_leave(w, decoder(w, arch)));
    return fm_finish(w, arch, fm_head(w, arch, last, arch->embed_width, "model.decoder.embed_tokens.weight"));
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_common(r, a, 2048, true);
    fm_read_heads(r, a, 0, 0);
    a->intermediate = fm_read_size(r, "ffn_dim", FM_NEEDED);
    a->embed_width = fm_read_size(r, "word_embed_proj_dim", a->hidden);
    a->norm_eps = 1e-5;
    a->act = fm_read_activation(r, "activation_function", "relu");
    a->attention_bias = a->out_bias = a->mlp_bias = fm_read_flag(r, "enable_bias", true);
    a->norm_before = fm_read_flag(r, "do_layer_norm_before", true);
    a->norm_affine = fm_read_flag(r, "layer_norm_elementwise_affine", true);
    a->final_norm = a->norm_before && !fm_read_flag(r, "_remove_final_layer_norm", false);
    a->dropout_residual = fm_read_probability(r, "dropout", 0.1);
    a->dropout_attention = fm_read_probability(r, "attention_dropout", 0);
}

static const char *const order[] = {
    "model.decoder.embed_tokens",
    "model.decoder.embed_positions",
    "model.decoder.project_out",
    "model.decoder.project_in",
    "model.decoder.final_layer_norm",
    "model.decoder.layers.*.self_attn.k_proj",
    "model.decoder.layers.*.self_attn.v_proj",
    "model.decoder.layers.*.self_attn.q_proj",
    "model.decoder.layers.*.self_attn.out_proj",
    "model.decoder.layers.*.self_attn_layer_norm",
    "model.decoder.layers.*.fc1",
    "model.decoder.layers.*.fc2",
    "model.decoder.layers.*.final_layer_norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_opt = {
    .id = "opt", .model_types = "opt", .title = "OPT", .read = read, .forward = forward, .order = order};

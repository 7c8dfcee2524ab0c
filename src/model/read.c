#include "model/read.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"

enum { KEY_BYTES = 64 };
static const uint64_t max_size = (uint64_t)1 << 40;
static const uint64_t max_count = 1 << 20;

// Copies the next spelling of a list to `key` and returns what follows it; NULL at the end.
static const char *next_key(const char *keys, char key[KEY_BYTES])
{
    if (!keys || !*keys)
        return NULL;
    size_t n = strcspn(keys, "|");
    snprintf(key, KEY_BYTES, "%.*s", (int)n, keys);
    return keys[n] ? keys + n + 1 : keys + n;
}

static const fm_node *find(const fm_reader *r, const char *keys, bool null_counts)
{
    char key[KEY_BYTES];
    for (const char *p = keys; (p = next_key(p, key));) {
        const fm_node *node = null_counts ? fm_node_get(r->config, key) : fm_node_get_set(r->config, key);
        if (node)
            return node;
    }
    return NULL;
}

const fm_node *fm_read_node(fm_reader *r, const char *keys)
{
    return find(r, keys, false);
}

void fm_read_fail(fm_reader *r, const char *keys, fm_status code, const char *format, ...)
{
    char text[320], key[KEY_BYTES];
    va_list args;
    if (r->status != FM_OK)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const fm_node *node = find(r, keys, true);
    if (node)
        fm_node_path(node, key, sizeof key);
    else
        next_key(keys, key);
    r->status = fm_node_fail(node ? node : r->config, &r->err, code, "\"%s\": %s", key, text);
}

// The first spelling that is set, after checking that no other one says something else.
static const fm_node *agreed(fm_reader *r, const char *keys)
{
    char key[KEY_BYTES];
    const fm_node *found = NULL;
    for (const char *p = keys; (p = next_key(p, key));) {
        const fm_node *node = fm_node_get_set(r->config, key);
        const char *a = node ? fm_node_text(node) : NULL, *b = found ? fm_node_text(found) : NULL;
        if (a && b && strcmp(a, b) != 0) {
            char other[KEY_BYTES];
            fm_read_fail(r, key, FM_ERR_CONFLICT,
                         "%s here, but \"%s\" says %s: two spellings of one thing; keep the right one", a,
                         fm_node_path(found, other, sizeof other), b);
            return NULL;
        }
        if (node && !found)
            found = node;
    }
    return found;
}

static uint64_t whole(fm_reader *r, const char *keys, uint64_t fallback, uint64_t low, uint64_t high, bool needed)
{
    uint64_t v;
    if (r->status != FM_OK)
        return fallback ? fallback : 1;
    const fm_node *node = agreed(r, keys);
    if (!node) {
        if (needed && !fallback)
            fm_read_fail(r, keys, FM_ERR_NOT_FOUND, "missing; this kind of model cannot be described without it");
        return fallback ? fallback : low;
    }
    if (fm_node_u64(node, &v, &r->err) != FM_OK) {
        r->status = r->err.code;
        return low;
    }
    if (v < low || v > high) {
        fm_read_fail(r, keys, v < low ? FM_ERR_VALUE : FM_ERR_OVERFLOW, "%llu; it must be from %llu to %llu",
                     (unsigned long long)v, (unsigned long long)low, (unsigned long long)high);
        return low;
    }
    return v;
}

uint64_t fm_read_size(fm_reader *r, const char *keys, uint64_t fallback)
{
    return whole(r, keys, fallback, 1, max_size, true);
}
uint64_t fm_read_natural(fm_reader *r, const char *keys, uint64_t fallback)
{
    return whole(r, keys, fallback, 0, max_size, false);
}
uint64_t fm_read_optional_size(fm_reader *r, const char *keys)
{
    bool given = r->status == FM_OK && agreed(r, keys);
    return given ? fm_read_size(r, keys, FM_NEEDED) : 0;
}
uint32_t fm_read_size32(fm_reader *r, const char *keys, uint64_t fallback)
{
    return (uint32_t)whole(r, keys, fallback, 1, max_count, true);
}

static bool is_null(const fm_reader *r, const char *keys)
{
    const fm_node *node = find(r, keys, true);
    return node && fm_node_type_of(node) == FM_NODE_NULL && !find(r, keys, false);
}

uint64_t fm_read_nullable_size(fm_reader *r, const char *keys, uint64_t fallback)
{
    return is_null(r, keys) ? 0
                            : whole(r, keys, fallback, 1, max_size, false) * (find(r, keys, false) || fallback ? 1 : 0);
}

double fm_read_number(fm_reader *r, const char *keys, double fallback)
{
    double v;
    const fm_node *node = r->status == FM_OK ? agreed(r, keys) : NULL;
    if (!node)
        return fallback;
    if (fm_node_double(node, &v, &r->err) != FM_OK) {
        r->status = r->err.code;
        return fallback;
    }
    return v;
}

double fm_read_positive(fm_reader *r, const char *keys, double fallback)
{
    double v = fm_read_number(r, keys, fallback);
    if (!(v > 0)) {
        fm_read_fail(r, keys, FM_ERR_VALUE, "%g; it must be above 0", v);
        return fallback;
    }
    return v;
}

double fm_read_nullable_number(fm_reader *r, const char *keys, double fallback)
{
    double v = is_null(r, keys) ? 0 : fm_read_number(r, keys, fallback);
    if (v < 0) {
        fm_read_fail(r, keys, FM_ERR_VALUE, "%g; it must not be negative (null: none)", v);
        return 0;
    }
    return v;
}

double fm_read_probability(fm_reader *r, const char *keys, double fallback)
{
    double v = fm_read_number(r, keys, fallback);
    if (!(v >= 0 && v < 1)) {
        fm_read_fail(r, keys, FM_ERR_VALUE, "%g; a probability is at least 0 and below 1", v);
        return fallback;
    }
    return v;
}

bool fm_read_flag(fm_reader *r, const char *keys, bool fallback)
{
    bool v;
    const fm_node *node = r->status == FM_OK ? agreed(r, keys) : NULL;
    if (!node)
        return fallback;
    if (fm_node_bool(node, &v, &r->err) != FM_OK) {
        r->status = r->err.code;
        return fallback;
    }
    return v;
}

static const char *word(fm_reader *r, const char *keys, const char *fallback)
{
    const char *v;
    const fm_node *node = r->status == FM_OK ? agreed(r, keys) : NULL;
    if (!node)
        return fallback;
    if (fm_node_string(node, &v, &r->err) != FM_OK) {
        r->status = r->err.code;
        return fallback;
    }
    return v;
}

fm_activation fm_read_activation(fm_reader *r, const char *keys, const char *fallback)
{
    static const char *const names[] = {"silu",      "swish", "gelu",  "gelu_pytorch_tanh", "gelu_new",
                                        "gelu_fast", "relu",  "relu2", "quick_gelu",        "gelu_python"};
    static const fm_activation kinds[] = {FM_ACT_SILU,       FM_ACT_SILU,      FM_ACT_GELU, FM_ACT_GELU_TANH,
                                          FM_ACT_GELU_NEW,   FM_ACT_GELU_FAST, FM_ACT_RELU, FM_ACT_RELU2,
                                          FM_ACT_QUICK_GELU, FM_ACT_GELU};
    enum { N = sizeof names / sizeof *names };
    const char *v = word(r, keys, fallback);
    for (size_t i = 0; i < N; i++)
        if (!strcmp(v, names[i]))
            return kinds[i];
    const char *near = fm_nearest(v, names, N);
    fm_read_fail(r, keys, FM_ERR_UNSUPPORTED, "the activation \"%s\" is not known%s%s%s", v,
                 near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    return FM_ACT_SILU;
}

// ---- groups of keys ----

static void read_dtype(fm_reader *r, fm_arch *arch)
{
    static const char *const known[] = {"float32",       "bfloat16",    "float16", "float64",
                                        "float8_e4m3fn", "float8_e5m2", "auto"};
    const char *v = word(r, "dtype|torch_dtype", "float32");
    if (!strncmp(v, "torch.", 6))
        v += 6;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(v, known[i])) {
            snprintf(arch->dtype, sizeof arch->dtype, "%s", strcmp(v, "auto") ? v : "float32");
            return;
        }
    const char *near = fm_nearest(v, known, sizeof known / sizeof *known);
    fm_read_fail(r, "dtype|torch_dtype", FM_ERR_VALUE, "\"%s\" is no type of weights%s%s%s", v,
                 near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : " (float32, bfloat16, float16)");
}

void fm_read_common(fm_reader *r, fm_arch *a, uint64_t max_positions, bool tied)
{
    a->hidden = fm_read_size(r, "hidden_size|n_embd|n_embed|d_model", FM_NEEDED);
    a->n_layers = fm_read_size32(r, "num_hidden_layers|n_layer|n_layers|num_layers", FM_NEEDED);
    a->n_layers = r->layers ? r->layers : a->n_layers;
    a->n_heads = fm_read_size32(r, "num_attention_heads|n_head|n_heads", FM_NEEDED);
    a->vocab = fm_read_size(r, "vocab_size", FM_NEEDED);
    a->max_positions = fm_read_size(r, "max_position_embeddings|n_positions", max_positions);
    a->tie_embeddings = fm_read_flag(r, "tie_word_embeddings", tied);
    a->embed_width = a->hidden;
    a->embedding_multiplier = a->residual_multiplier = a->attention_multiplier = a->logits_scaling = 1;
    a->norm_before = a->norm_affine = a->final_norm = a->norm_bias = true;
    a->rope.factor = a->rope.attention_factor = 1;
    read_dtype(r, a);
}

void fm_read_heads(fm_reader *r, fm_arch *a, uint64_t kv_fallback, uint64_t head_dim_fallback)
{
    uint64_t given = fm_read_optional_size(r, "head_dim"), d = given ? given : head_dim_fallback;
    a->n_kv_heads = fm_read_size32(r, "num_key_value_heads", kv_fallback ? kv_fallback : a->n_heads);
    if (r->status != FM_OK)
        return;
    if (!d && a->hidden % a->n_heads) {
        fm_read_fail(r, "num_attention_heads|n_head|n_heads", FM_ERR_CONFLICT,
                     "a width of %llu does not split into %u heads; give \"head_dim\" or correct one of them",
                     (unsigned long long)a->hidden, a->n_heads);
        return;
    }
    d = d ? d : a->hidden / a->n_heads;
    if (d > max_count) {
        fm_read_fail(r, "head_dim", FM_ERR_OVERFLOW, "a head of %llu dimensions is past the %llu that are allowed",
                     (unsigned long long)d, (unsigned long long)max_count);
        return;
    }
    if (a->n_heads % a->n_kv_heads) {
        fm_read_fail(r, "num_key_value_heads", FM_ERR_CONFLICT,
                     "%u query heads do not split over %u key and value heads", a->n_heads, a->n_kv_heads);
        return;
    }
    a->head_dim = a->v_head_dim = (uint32_t)d;
}

static fm_rope_kind rope_kind(fm_reader *r, fm_reader *inner)
{
    static const char *const names[] = {"default", "linear",   "dynamic", "llama3",
                                        "yarn",    "longrope", "su",      "proportional"};
    static const fm_rope_kind kinds[] = {FM_ROPE_DEFAULT, FM_ROPE_LINEAR,   FM_ROPE_DYNAMIC,  FM_ROPE_LLAMA3,
                                         FM_ROPE_YARN,    FM_ROPE_LONGROPE, FM_ROPE_LONGROPE, FM_ROPE_PROPORTIONAL};
    enum { N = sizeof names / sizeof *names };
    const char *v = word(inner, "rope_type|type", "default");
    for (size_t i = 0; i < N; i++)
        if (!strcmp(v, names[i]))
            return kinds[i];
    const char *near = fm_nearest(v, names, N);
    fm_read_fail(r, "rope_parameters|rope_scaling", FM_ERR_UNSUPPORTED, "the rotary scaling \"%s\" is not known%s%s%s",
                 v, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    return FM_ROPE_DEFAULT;
}

// What multiplies cos and sin: given, or as yarn and longrope define it. Source: transformers 5.24, modeling_rope_utils.py.
static double attention_factor(fm_reader *inner, const fm_arch *a)
{
    const fm_rope *rope = &a->rope;
    double m = fm_read_number(inner, "mscale", 0), all = fm_read_number(inner, "mscale_all_dim", 0), f = rope->factor;
    double given = fm_read_number(inner, "attention_factor", 0);
    if (given > 0 || (rope->kind != FM_ROPE_YARN && rope->kind != FM_ROPE_LONGROPE) || f <= 1)
        return given > 0 ? given : 1;
    if (rope->kind == FM_ROPE_LONGROPE)
        return rope->original_positions > 1 ? sqrt(1 + log(f) / log((double)rope->original_positions)) : 1;
    return m > 0 && all > 0 ? (0.1 * m * log(f) + 1) / (0.1 * all * log(f) + 1) : 0.1 * log(f) + 1;
}

void fm_read_rope(fm_reader *r, fm_arch *a, double theta, double partial, uint32_t head_dim)
{
    fm_rope *rope = &a->rope;
    const fm_node *node = fm_read_node(r, "rope_parameters|rope_scaling");
    theta = fm_read_positive(r, "rope_theta|rotary_emb_base", theta);
    partial = fm_read_positive(r, "partial_rotary_factor|rotary_pct|rope_pct", partial);
    rope->kind = FM_ROPE_DEFAULT;
    rope->factor = rope->attention_factor = 1;
    if (node && r->status == FM_OK) {
        fm_reader inner = {.config = node};
        if (fm_node_type_of(node) != FM_NODE_OBJECT)
            fm_read_fail(r, "rope_parameters|rope_scaling", FM_ERR_VALUE, "must be an object, not %s",
                         fm_node_type_words(node));
        rope->kind = rope_kind(r, &inner);
        theta = fm_read_positive(&inner, "rope_theta", theta);
        partial = fm_read_positive(&inner, "partial_rotary_factor", partial);
        rope->factor = fm_read_positive(&inner, "factor", 1);
        rope->low_freq_factor = fm_read_number(&inner, "low_freq_factor", 1);
        rope->high_freq_factor = fm_read_number(&inner, "high_freq_factor", 4);
        rope->original_positions = fm_read_natural(r, "original_max_position_embeddings", 0);
        rope->original_positions = fm_read_size(&inner, "original_max_position_embeddings",
                                                rope->original_positions ? rope->original_positions : a->max_positions);
        rope->mscale_all_dim = fm_read_number(&inner, "mscale_all_dim", 0);
        rope->attention_factor = attention_factor(&inner, a);
        if (inner.status != FM_OK && r->status == FM_OK) {
            r->status = inner.status;
            r->err = inner.err;
        }
    }
    rope->theta = theta;
    if (partial > 1)
        fm_read_fail(r, "partial_rotary_factor|rotary_pct", FM_ERR_VALUE,
                     "%g of a head cannot rotate; it must be at most 1", partial);
    else
        rope->dims = (uint32_t)((head_dim ? head_dim : a->head_dim) * partial);
    if (r->status == FM_OK && (rope->dims == 0 || rope->dims % 2))
        fm_read_fail(r, "partial_rotary_factor|rotary_pct|head_dim", FM_ERR_CONFLICT,
                     "%u dimensions of a head would rotate; rotation needs an even number of at least 2", rope->dims);
}

void fm_read_llama_like(fm_reader *r, fm_arch *a, uint64_t max_positions, double eps, bool tied)
{
    fm_read_common(r, a, max_positions, tied);
    fm_read_heads(r, a, 0, 0);
    fm_read_rope(r, a, 10000, 1, 0);
    a->intermediate = fm_read_size(r, "intermediate_size", FM_NEEDED);
    a->norm_eps = fm_read_positive(r, "rms_norm_eps", eps);
    a->act = fm_read_activation(r, "hidden_act", "silu");
    a->attention_bias = a->out_bias = fm_read_flag(r, "attention_bias", false);
    a->mlp_bias = fm_read_flag(r, "mlp_bias", false);
    a->dropout_attention = fm_read_probability(r, "attention_dropout", 0);
}

static bool *flags(fm_reader *r, const fm_arch *a)
{
    bool *out = fm_calloc(a->n_layers, sizeof *out);
    if (!out && r->status == FM_OK)
        r->status = fm_fail_memory(&r->err, "kinds of blocks");
    return out;
}

void fm_read_layer_types(fm_reader *r, fm_arch *a, bool (*rule)(const fm_arch *arch, uint32_t layer, uint64_t extra),
                         uint64_t extra)
{
    const fm_node *list = fm_read_node(r, "layer_types");
    if (r->status != FM_OK || (!a->window && !list))
        return;
    bool *out = flags(r, a);
    if (!out)
        return;
    a->windowed = out;
    for (uint32_t i = 0; i < a->n_layers; i++)
        out[i] = !list && a->window && rule && rule(a, i, extra);
    if (!list)
        return;
    size_t n = fm_node_type_of(list) == FM_NODE_ARRAY ? fm_node_count(list) : 0;
    if (!n || (!r->layers && n != a->n_layers)) {
        fm_read_fail(r, "layer_types", FM_ERR_CONFLICT, "must be a list of %u words, one a block, not %s of %zu",
                     a->n_layers, fm_node_type_words(list), fm_node_count(list));
        return;
    }
    for (uint32_t i = 0; i < a->n_layers && r->status == FM_OK; i++) {
        const char *kind;
        if (fm_node_string(fm_node_at(list, i % n), &kind, &r->err) != FM_OK)
            r->status = r->err.code;
        else if (!strcmp(kind, "sliding_attention"))
            out[i] = a->window > 0;
        else if (strcmp(kind, "full_attention") != 0)
            r->status =
                fm_node_fail(fm_node_at(list, i % n), &r->err, FM_ERR_UNSUPPORTED,
                             "blocks of kind \"%s\" are not described; full_attention and sliding_attention are", kind);
    }
}

void fm_read_dense_layers(fm_reader *r, fm_arch *a, const char *keys)
{
    const fm_node *list = fm_read_node(r, keys);
    if (r->status != FM_OK || !list)
        return;
    if (fm_node_type_of(list) != FM_NODE_ARRAY) {
        fm_read_fail(r, keys, FM_ERR_VALUE, "must be a list of block numbers, not %s", fm_node_type_words(list));
        return;
    }
    if (!fm_node_count(list))
        return;
    bool *out = flags(r, a);
    if (!out)
        return;
    a->dense = out;
    for (size_t i = 0; i < fm_node_count(list) && r->status == FM_OK; i++) {
        uint64_t layer;
        if (fm_node_u64(fm_node_at(list, i), &layer, &r->err) != FM_OK)
            r->status = r->err.code;
        else if (layer < a->n_layers)
            out[layer] = true;
    }
}

#include "model/declare.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/checked.h"
#include "model/family.h"
#include "model/parts.h"
#include "model/registration.h"

enum { PATH_BYTES = 512, MAX_SCOPES = 16, VALUES_PER_CHUNK = 512, MAX_TENSORS = 1 << 20 };

// A value is only a shape: its last dimension, and how many heads lie beside it (1: none).
struct fm_value {
    uint64_t width;
    uint32_t n;
};

typedef struct chunk {
    struct chunk *next;
    size_t used;
    fm_value values[VALUES_PER_CHUNK];
} chunk;

typedef struct {
    fm_words words; // first: the words' argument is this
    const fm_arch *arch;
    char path[PATH_BYTES];
    size_t lengths[MAX_SCOPES], depth; // path's length before each open scope
    uint32_t block;
    bool in_block, blocks_done;
    chunk *chunks;
    fm_value ids, positions, spare;
    fm_noted *notes;
    size_t n_notes, notes_capacity;
    fm_parts parts; // buffers go straight here
    fm_status status;
    fm_err err;
} declarer;

static declarer *of(fm_words *w)
{
    return (declarer *)(void *)w;
}

static void fail(declarer *d, fm_status code, const char *format, ...) FM_PRINTF(3, 4);
static void fail(declarer *d, fm_status code, const char *format, ...)
{
    char text[256];
    va_list args;
    if (d->status != FM_OK)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    d->status = code == FM_ERR_INTERNAL ? fm_fail(&d->err, code, "family %s contradicts itself at \"%s\": %s",
                                                  d->arch->family->id, d->path, text)
                                        : fm_fail(&d->err, code, "%s", text);
}

static fm_value *value(declarer *d, uint64_t width, uint32_t n)
{
    if (!d->chunks || d->chunks->used == VALUES_PER_CHUNK) {
        chunk *c = fm_alloc(sizeof *c);
        if (!c) {
            fail(d, FM_ERR_NO_MEMORY, "out of memory (declaring a model)");
            return &d->spare;
        }
        c->next = d->chunks;
        c->used = 0;
        d->chunks = c;
    }
    fm_value *v = &d->chunks->values[d->chunks->used++];
    *v = (fm_value){width, n};
    return v;
}

static void expect(declarer *d, const fm_value *x, uint64_t width, const char *what)
{
    if (x->width * x->n != width && x->width != width)
        fail(d, FM_ERR_INTERNAL, "%s wants width %llu, gets %llu x %u", what, (unsigned long long)width,
             (unsigned long long)x->width, x->n);
}

// ---- parameters ----

static void note(declarer *d, const char *leaf, uint32_t n_dims, const uint64_t *dims, fm_unit_kind kind, bool fp32,
                 const char *tied_to)
{
    char name[PATH_BYTES + 192];
    fm_noted n = {.kind = d->in_block ? FM_UNIT_BLOCK : kind,
                  .block = d->in_block ? d->block : 0,
                  .said = (uint32_t)d->n_notes,
                  .tied_to = tied_to};
    uint64_t elems = 1;
    if (d->status != FM_OK)
        return;
    snprintf(name, sizeof name, "%s%s%s", d->path, *d->path ? "." : "", leaf);
    for (uint32_t i = 0; i < n_dims; i++) {
        if (!fm_mul_u64(elems, dims[i], &elems) || elems > FM_MAX_ELEMS) {
            fail(d, FM_ERR_OVERFLOW,
                 "the parameter \"%s\" would have more elements than can be counted; check the sizes", name);
            return;
        }
        n.param.dims[i] = dims[i];
    }
    if (d->n_notes == MAX_TENSORS) {
        fail(d, FM_ERR_OVERFLOW, "the model would have more than %d tensors; check its number of layers", MAX_TENSORS);
        return;
    }
    fm_noted *grown = fm_grow(d->notes, &d->notes_capacity, d->n_notes, sizeof *grown);
    if (grown)
        d->notes = grown;
    n.param.name = grown ? fm_strdup(name) : NULL;
    if (!n.param.name) {
        fail(d, FM_ERR_NO_MEMORY, "out of memory (declaring a model)");
        return;
    }
    n.param.n_dims = n_dims;
    n.param.n_elems = elems;
    n.param.tied_to = -1;
    n.param.trainable = true;
    n.param.fp32_always = fp32;
    d->notes[d->n_notes++] = n;
    if (!fm_noted_place(&d->notes[d->n_notes - 1], d->arch->family->order))
        fail(d, FM_ERR_INTERNAL, "%s is not in its order of registration", name);
}

static void weight(declarer *d, const char *module, uint32_t n_dims, const uint64_t *dims, fm_unit_kind kind)
{
    char leaf[160];
    snprintf(leaf, sizeof leaf, "%s.weight", module);
    note(d, leaf, n_dims, dims, kind, false, NULL);
}

static void bias(declarer *d, const char *module, uint64_t n, fm_unit_kind kind)
{
    char leaf[160];
    snprintf(leaf, sizeof leaf, "%s.bias", module);
    note(d, leaf, 1, (uint64_t[]){n}, kind, false, NULL);
}

static fm_unit_kind norm_kind(const declarer *d)
{
    return d->blocks_done ? FM_UNIT_NORM : FM_UNIT_OTHER;
}

// ---- scopes and variables: only the path is kept ----

static void enter(fm_words *w, const char *module)
{
    declarer *d = of(w);
    size_t n = strlen(d->path);
    if (d->depth == MAX_SCOPES || n + strlen(module) + 2 > PATH_BYTES) {
        fail(d, FM_ERR_INTERNAL, "modules nest too deep");
        return;
    }
    d->lengths[d->depth++] = n;
    if (*module)
        snprintf(d->path + n, PATH_BYTES - n, "%s%s", n ? "." : "", module);
}

static fm_value *leave(fm_words *w, fm_value *result)
{
    declarer *d = of(w);
    if (!d->depth)
        fail(d, FM_ERR_INTERNAL, "leaves a module it did not enter");
    else
        d->path[d->lengths[--d->depth]] = '\0';
    return result;
}

static fm_value *leave_pair(fm_words *w, fm_value *result, fm_value **second)
{
    return (void)second, leave(w, result);
}
static fm_value *let(fm_words *w, fm_value *v)
{
    return (void)w, v;
}
static void set(fm_words *w, fm_value **variable, fm_value *v)
{
    (void)w, *variable = v;
}
static void del(fm_words *w, fm_value **variable)
{
    (void)w, *variable = NULL;
}
static fm_value *hold(fm_words *w, fm_value *v)
{
    return (void)w, v;
}
static void unhold(fm_words *w, fm_value *v)
{
    (void)w, (void)v;
}
static void loss(fm_words *w, const fm_arch *arch, fm_value *logits)
{
    expect(of(w), logits, arch->vocab, "the loss");
}
static void carry(fm_words *w, fm_value *v)
{
    (void)w, (void)v;
}

static uint32_t n_blocks(fm_words *w, const fm_arch *arch)
{
    return of(w)->status == FM_OK ? arch->n_layers : 0;
}

static fm_value *run_block(fm_words *w, const fm_arch *arch, const char *list, uint32_t layer, fm_block_fn *fn,
                           fm_value *hidden, const fm_block_args *args)
{
    declarer *d = of(w);
    char module[64];
    snprintf(module, sizeof module, "%s.%u", list, layer);
    enter(w, module);
    d->in_block = true;
    d->block = layer;
    fm_value *result = fn(w, arch, layer, hidden, args);
    d->in_block = false;
    d->blocks_done = true;
    return leave(w, result);
}

// ---- inputs ----

static fm_value *ids(fm_words *w)
{
    return &of(w)->ids;
}
static fm_value *position_ids(fm_words *w)
{
    return &of(w)->positions;
}

static fm_value *causal_mask(fm_words *w, const fm_arch *arch, uint32_t window, fm_value *positions, fm_value *hidden)
{
    return (void)w, (void)arch, (void)window, (void)positions, (void)hidden, NULL;
}

static void rotary_tables(fm_words *w, const fm_arch *arch, fm_value *like, fm_value *positions, fm_value **cos,
                          fm_value **sin)
{
    (void)like, (void)positions;
    *cos = value(of(w), arch->rope.dims, 1);
    *sin = value(of(w), arch->rope.dims, 1);
}

static void opt_positions(fm_words *w, fm_value **ones, fm_value **positions)
{
    *ones = *positions = &of(w)->positions;
}
static fm_value *offset_ids(fm_words *w, fm_value *x, int64_t by)
{
    return (void)w, (void)by, x;
}

static void alibi(fm_words *w, const fm_arch *arch, fm_alibi_kind kind, fm_value *hidden, fm_value **slopes,
                  fm_value **out)
{
    (void)kind, (void)hidden;
    *slopes = value(of(w), arch->n_heads, 1);
    *out = value(of(w), 1, arch->n_heads);
}

static fm_value *alibi_mask(fm_words *w, const fm_arch *arch, fm_value *x, fm_value *mask)
{
    return (void)w, (void)arch, (void)x, mask;
}

// ---- modules with parameters ----

static fm_value *embedding(fm_words *w, const char *name, uint64_t rows, uint64_t width, fm_value *x)
{
    declarer *d = of(w);
    weight(d, name, 2, (uint64_t[]){rows, width}, x == &d->ids ? FM_UNIT_EMBEDDING : FM_UNIT_POSITIONS);
    return value(d, width, 1);
}

static void add_buffer(declarer *d, const char *name, const char *dtype, uint64_t n_elems, bool counted)
{
    char full[PATH_BYTES + 192];
    fm_parts *p = &d->parts;
    snprintf(full, sizeof full, "%s%s%s", d->path, *d->path ? "." : "", name);
    fm_model_buffer *grown = fm_grow(p->buffers, &p->buffers_capacity, p->n_buffers, sizeof *grown);
    if (grown)
        p->buffers = grown;
    char *copy = grown ? fm_strdup(full) : NULL;
    if (!copy) {
        fail(d, FM_ERR_NO_MEMORY, "out of memory (declaring a model)");
        return;
    }
    p->buffers[p->n_buffers++] =
        (fm_model_buffer){copy, fm_dtype_word(dtype), n_elems, n_elems * fm_dtype_bytes(dtype), counted};
    p->n_counted += counted ? n_elems : 0;
}

static void buffer(fm_words *w, const char *name, const char *dtype, uint64_t n_elems)
{
    add_buffer(of(w), name, dtype, n_elems, false);
}

static fm_value *scaled_embedding(fm_words *w, const char *name, uint64_t rows, uint64_t width, fm_value *x,
                                  double factor)
{
    char leaf[160];
    (void)factor;
    fm_value *out = embedding(w, name, rows, width, x);
    snprintf(leaf, sizeof leaf, "%s.embed_scale", name);
    buffer(w, leaf, "float32", 1);
    return out;
}

static fm_value *linear(fm_words *w, fm_value *x, const char *name, uint64_t n_in, uint64_t n_out, bool has_bias)
{
    declarer *d = of(w);
    expect(d, x, n_in, name);
    weight(d, name, 2, (uint64_t[]){n_out, n_in}, FM_UNIT_OTHER);
    if (has_bias)
        bias(d, name, n_out, FM_UNIT_OTHER);
    return value(d, n_out, 1);
}

static fm_value *conv1d(fm_words *w, fm_value *x, const char *name, uint64_t n_in, uint64_t n_out)
{
    declarer *d = of(w);
    expect(d, x, n_in, name);
    weight(d, name, 2, (uint64_t[]){n_in, n_out}, FM_UNIT_OTHER);
    bias(d, name, n_out, FM_UNIT_OTHER);
    return value(d, n_out, 1);
}

static fm_value *rms_norm(fm_words *w, fm_value *x, const char *name, uint64_t width, fm_norm_kind kind)
{
    declarer *d = of(w);
    (void)kind;
    expect(d, x, width, name);
    weight(d, name, 1, (uint64_t[]){width}, norm_kind(d));
    return value(d, x->width, x->n);
}

static fm_value *layer_norm(fm_words *w, fm_value *x, const char *name, uint64_t width, bool has_bias)
{
    declarer *d = of(w);
    expect(d, x, width, name);
    weight(d, name, 1, (uint64_t[]){width}, norm_kind(d));
    if (has_bias)
        bias(d, name, width, norm_kind(d));
    return value(d, x->width, x->n);
}

static fm_value *layer_norm_plain(fm_words *w, fm_value *x, const char *name, uint64_t width)
{
    expect(of(w), x, width, name);
    return value(of(w), x->width, x->n);
}

static fm_value *layer_norm_per_head(fm_words *w, fm_value *x, const char *name, uint32_t n, uint32_t width)
{
    for (uint32_t i = 0; i < n; i++) {
        char module[96];
        snprintf(module, sizeof module, "%s.norms.%u", name, i);
        weight(of(w), module, 1, (uint64_t[]){width}, FM_UNIT_OTHER);
    }
    return value(of(w), x->width, x->n);
}

static fm_value *head(fm_words *w, fm_value *x, const char *name, uint64_t n_in, uint64_t n_out, bool has_bias,
                      const char *tied_to)
{
    declarer *d = of(w);
    char leaf[160];
    expect(d, x, n_in, name);
    snprintf(leaf, sizeof leaf, "%s.weight", name);
    note(d, leaf, 2, (uint64_t[]){n_out, n_in}, FM_UNIT_HEAD, false, tied_to);
    if (has_bias)
        bias(d, name, n_out, FM_UNIT_HEAD);
    return value(d, n_out, 1);
}

static fm_value *remainder_of(fm_words *w, fm_value *x, const char *name, uint64_t n)
{
    weight(of(w), name, 1, (uint64_t[]){n}, FM_UNIT_OTHER);
    return x;
}

static void router(fm_words *w, fm_value *x, const char *name, const fm_router *how, fm_value **logits,
                   fm_value **weights, fm_value **indices)
{
    declarer *d = of(w);
    char leaf[160];
    expect(d, x, how->n_in, name);
    snprintf(leaf, sizeof leaf, "%s.weight", name);
    note(d, leaf, 2, (uint64_t[]){how->n_experts, how->n_in}, FM_UNIT_OTHER, how->kind == FM_ROUTER_DEEPSEEK, NULL);
    if (how->kind == FM_ROUTER_DEEPSEEK) {
        snprintf(leaf, sizeof leaf, "%s.e_score_correction_bias", name);
        add_buffer(d, leaf, "float32", how->n_experts, true);
    }
    *logits = value(d, how->n_experts, 1);
    *weights = value(d, how->top_k, 1);
    *indices = value(d, how->top_k, 1);
}

static fm_value *experts(fm_words *w, fm_value *x, const char *name, uint32_t n_experts, uint64_t n_in,
                         uint64_t intermediate, fm_activation act, fm_value *indices, fm_value *weights)
{
    declarer *d = of(w);
    char leaf[160];
    (void)act, (void)indices, (void)weights;
    expect(d, x, n_in, name);
    snprintf(leaf, sizeof leaf, "%s.gate_up_proj", name);
    note(d, leaf, 3, (uint64_t[]){n_experts, 2 * intermediate, n_in}, FM_UNIT_OTHER, false, NULL);
    snprintf(leaf, sizeof leaf, "%s.down_proj", name);
    note(d, leaf, 3, (uint64_t[]){n_experts, n_in, intermediate}, FM_UNIT_OTHER, false, NULL);
    return value(d, n_in, 1);
}

static void mla_keys(fm_words *w, const fm_arch *arch, fm_value *compressed, fm_value *k_rot, const char *name,
                     fm_value **k, fm_value **v)
{
    declarer *d = of(w);
    uint64_t each = (uint64_t)arch->qk_nope_dim + arch->v_head_dim;
    expect(d, k_rot, arch->qk_rope_dim, name);
    linear(w, compressed, name, arch->kv_lora_rank, each * arch->n_heads, false);
    *k = value(d, arch->head_dim, arch->n_heads);
    *v = value(d, arch->v_head_dim, arch->n_heads);
}

// ---- modules without parameters, and arithmetic ----

static fm_value *same(fm_words *w, const fm_value *x)
{
    return value(of(w), x->width, x->n);
}
static fm_value *act(fm_words *w, fm_value *x, fm_activation kind)
{
    return (void)kind, same(w, x);
}
static fm_value *scale(fm_words *w, fm_value *x, double factor)
{
    return (void)factor, same(w, x);
}
static void softcap(fm_words *w, fm_value **x, double cap)
{
    (void)w, (void)x, (void)cap;
}
static fm_value *dropout(fm_words *w, fm_value *x, double p)
{
    return (void)w, (void)p, x;
}

static fm_value *add(fm_words *w, fm_value *a, fm_value *b)
{
    expect(of(w), b, a->width * a->n, "a sum");
    return same(w, a);
}

static fm_value *mul(fm_words *w, fm_value *a, fm_value *b)
{
    expect(of(w), b, a->width * a->n, "a product");
    return same(w, a);
}

static void add_into(fm_words *w, fm_value **a, fm_value *b)
{
    expect(of(w), b, (*a)->width * (*a)->n, "a sum");
}

static void split2(fm_words *w, fm_value *x, uint64_t n, fm_value **first, fm_value **second)
{
    uint64_t rest = x->width - n;
    if (n > x->width)
        fail(of(w), FM_ERR_INTERNAL, "splits %llu of %llu", (unsigned long long)n, (unsigned long long)x->width);
    *first = value(of(w), n, x->n);
    *second = value(of(w), rest, x->n);
}

static void halves(fm_words *w, fm_value *x, fm_value **first, fm_value **second)
{
    split2(w, x, x->width / 2, first, second);
}

static fm_value *cat(fm_words *w, fm_value *a, fm_value *b)
{
    return value(of(w), a->width + b->width, a->n);
}

// ---- attention ----

static fm_value *heads(fm_words *w, fm_value *x, uint32_t n, uint32_t d)
{
    expect(of(w), x, (uint64_t)n * d, "heads");
    return value(of(w), d, n);
}

static fm_value *transpose_heads(fm_words *w, fm_value *x)
{
    return same(w, x);
}
static fm_value *one_head(fm_words *w, fm_value *x, uint32_t d)
{
    return heads(w, x, 1, d);
}

static void split_qkv(fm_words *w, fm_value *qkv, fm_qkv_layout layout, uint32_t n_heads, uint32_t n_kv_heads,
                      uint32_t d, fm_value **q, fm_value **k, fm_value **v)
{
    expect(of(w), qkv, ((uint64_t)n_heads + 2 * (uint64_t)n_kv_heads) * d, "q, k, v");
    uint32_t n_out = layout == FM_QKV_PER_GROUP ? n_heads : n_kv_heads;
    *q = value(of(w), d, n_heads);
    *k = value(of(w), d, n_out);
    *v = value(of(w), d, n_out);
}

static void rotate(fm_words *w, fm_value **q, fm_value **k, fm_value *cos, fm_value *sin, uint32_t d,
                   uint32_t rotary_dim)
{
    declarer *r = of(w);
    (void)sin;
    expect(r, cos, rotary_dim, "a rotation");
    if (rotary_dim > d || (*q)->width != d || (*k)->width != d)
        fail(r, FM_ERR_INTERNAL, "rotates %u of %u dimensions", rotary_dim, d);
}

static void rotate_as(fm_words *w, fm_rotation kind, fm_value **q, fm_value **k, fm_value *cos, fm_value *sin,
                      uint32_t d, uint32_t rotary_dim)
{
    (void)kind;
    rotate(w, q, k, cos, sin, d, rotary_dim);
}

static fm_value *attention(fm_words *w, fm_value *q, fm_value *k, fm_value *v, fm_value *mask, const fm_attention *how,
                           fm_value **weights)
{
    declarer *d = of(w);
    (void)mask;
    expect(d, q, (uint64_t)how->n_heads * how->qk_head_dim, "attention's q");
    expect(d, k, (uint64_t)how->n_kv_heads * how->qk_head_dim, "attention's k");
    expect(d, v, (uint64_t)how->n_kv_heads * how->v_head_dim, "attention's v");
    *weights = NULL;
    return value(d, (uint64_t)how->n_heads * how->v_head_dim, 1);
}

static const fm_words listener = {
    .enter = enter,
    .leave = leave,
    .let = let,
    .set = set,
    .del = del,
    .n_blocks = n_blocks,
    .block = run_block,
    .ids = ids,
    .position_ids = position_ids,
    .causal_mask = causal_mask,
    .rotary_tables = rotary_tables,
    .embedding = embedding,
    .linear = linear,
    .conv1d = conv1d,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .head = head,
    .act = act,
    .add = add,
    .mul = mul,
    .scale = scale,
    .softcap = softcap,
    .dropout = dropout,
    .halves = halves,
    .heads = heads,
    .split_qkv = split_qkv,
    .rotate = rotate,
    .attention = attention,
    .leave_pair = leave_pair,
    .loss = loss,
    .buffer = buffer,
    .split2 = split2,
    .slices = split2,
    .cat = cat,
    .add_into = add_into,
    .view_heads = heads,
    .transpose_heads = transpose_heads,
    .rotate_as = rotate_as,
    .linear_at = linear,
    .layer_norm_plain = layer_norm_plain,
    .layer_norm_per_head = layer_norm_per_head,
    .opt_positions = opt_positions,
    .offset_ids = offset_ids,
    .alibi = alibi,
    .alibi_mask = alibi_mask,
    .carry = carry,
    .router = router,
    .experts = experts,
    .mla_keys = mla_keys,
    .one_head = one_head,
    .remainder = remainder_of,
    .hold = hold,
    .unhold = unhold,
    .scaled_embedding = scaled_embedding,
};

fm_status fm_declare(const fm_arch *arch, fm_parts *out, fm_err *err)
{
    declarer d = {.words = listener, .arch = arch, .ids = {0, 1}, .positions = {0, 1}, .spare = {0, 1}};
    arch->family->forward(&d.words, arch);
    if (d.status == FM_OK && d.depth)
        fail(&d, FM_ERR_INTERNAL, "does not leave every module");
    fm_status status = d.status;
    if (status != FM_OK) {
        if (err)
            *err = d.err;
    } else {
        status = fm_noted_gather(d.notes, d.n_notes, arch, &d.parts, err);
    }
    if (status == FM_OK)
        *out = d.parts;
    else
        fm_parts_reset(&d.parts);
    for (size_t i = 0; i < d.n_notes; i++)
        fm_free((char *)d.notes[i].param.name); // NULL where the parts took it
    fm_free(d.notes);
    while (d.chunks) {
        chunk *next = d.chunks->next;
        fm_free(d.chunks);
        d.chunks = next;
    }
    return status;
}

// The words in which a model family describes its forward pass: modules and a little arithmetic between them.
//
// A family file (families/llama.c, ...) is a function that says these words in the order of the published model. It never
// knows who listens. A listener ("interpreter of words") is a vtable:
//   - declare (model/declare.c)   notes units, parameters, shapes and ties: what `inspect` prints and what engines shard;
//   - hf      (program/stacks/)   turns each word into the operations that the Hugging Face module of that name runs;
//   - native  (later)             turns each word into one fused kernel of the native engine.
// So a new family needs no stack to change, and a new stack no family.
//
// Lifetimes follow the language the reference models are written in, because memory follows them:
//   - A word returns a *floating* value: nobody holds it yet. Passing a floating value to a word consumes it: it is released when
//     that word has run, like a temporary inside an expression. `w_mul(w, w_act(w, g, FM_ACT_SILU), u)` therefore holds nothing but its result.
//   - w_let binds a value to a local variable of the current scope: it lives until the scope is left, w_set rebinds the variable, or
//     w_del deletes it. Letting a value that is bound already gives it a second name (`residual = hidden_states`): it lives until
//     the last of its names is gone. w_let of NULL is NULL. Words only borrow bound values. A value passed in as a function's argument is the caller's: borrow it.
//   - w_set evaluates first and releases the old value afterwards, as `h = norm(h)` does.
//   - w_enter opens a module's forward (its name joins the module path, which also prefixes parameter names), w_leave
//     ends it: locals die in the order they were bound, the result floats to the caller.
// One unit (block) is run through w_block, so that the engine's hooks, activation checkpointing and folding have their place.
// block opens the scope "layers.N" before it calls the function and leaves it with the function's result: the function lets
// its locals and returns (bound or floating), it says neither enter nor leave for itself.
// dropout with probability 0 returns its argument (another name of the same value, not a copy).
//
// Shapes: B batch, S sequence, H hidden, a heads, k key/value heads, d head size. Values are [B, S, width] unless said.
#ifndef FM_MODEL_WORDS_H
#define FM_MODEL_WORDS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct fm_value fm_value; // opaque: a tensor on a tape, or a shape when declaring
typedef struct fm_words fm_words;
typedef struct fm_arch fm_arch; // model/arch.h: the configuration, normalised

typedef enum {
    FM_ACT_SILU,
    FM_ACT_GELU,
    FM_ACT_GELU_TANH,
    FM_ACT_GELU_NEW,
    FM_ACT_GELU_FAST,
    FM_ACT_RELU,
    FM_ACT_RELU2,
    FM_ACT_QUICK_GELU,
    FM_ACT_BLOOM_GELU, // bloom's own function of autograd: saves its input, forward and backward written out in torch
} fm_activation;

typedef enum {
    FM_NORM_LLAMA, // weight * (x / rms) with the product in the input's type
    FM_NORM_GEMMA, // (1 + weight) * x / rms, all in fp32, cast at the end
    FM_NORM_OLMO2, // (weight * x / rms) in fp32, cast at the end
} fm_norm_kind;

// How one product holds queries, keys and values (last dimension of the fused output).
typedef enum {
    FM_QKV_SPLIT,      // [q | k | v], split at a*d and (a+k)*d            gpt2, phi3, qwen1
    FM_QKV_PER_HEAD,   // a times [q d | k d | v d]                         gpt_neox, bloom
    FM_QKV_PER_GROUP,  // k times [q (a/k)*d | k d | v d]                   falcon (new decoder)
    FM_QKV_MULTIQUERY, // [q a*d | k d | v d] through a (heads + 2) view      falcon-7b
    // --- added later; what each does exactly (transformers 5.24):
    //   SPLIT      x.split(width, dim=2), each .view(B, S, n, d).transpose(1, 2): views.
    //   PER_HEAD   x.view(B, S, a, 3d).transpose(1, 2).chunk(3, -1): views (gpt_bigcode without multi_query: .split).
    //   PER_GROUP  x.view(B, S, k, a/k + 2, d); q = [..., :-2, :] a view, k = [..., [-2], :] and v = [..., [-1], :] copies by index;
    //              broadcast_to q's shape, flatten(2, 3): q a view where it can be, k and v copied to a heads; then
    //              .transpose(1, 2).reshape(B, a, S, d): views. k and v leave with a heads.
    //   MULTIQUERY x.view(B, S, a + 2, d); q = [..., :-2, :] a view, k = [..., [-2], :], v = [..., [-1], :] copies by index [B, S, 1, d];
    //              .transpose(1, 2).reshape(...): views.
    FM_QKV_SLICES, // [q | k | v]: x[..., :n], x[..., n:m], x[..., m:], each .view(..., d).transpose(1, 2): views     phi3
    FM_QKV_SELECT, // x.view(B, S, a, 3, d)[..., i, :].transpose(1, 2): views (falcon: then a reshape, a view)      bloom, falcon-rw
    FM_QKV_MQA_SPLIT, // x.unsqueeze(1).split((a*d, k*d, k*d), dim=3); q.view(B, S, a, d).transpose(1, 2); k, v stay [B, 1, S, d]: views     gpt_bigcode
    FM_QKV_FLAT_SPLIT, // x.split(width, dim=2), each .view(B, S, n, d), not transposed: views                          qwen1
} fm_qkv_layout;

// What the attention core is told.
typedef struct {
    uint32_t n_heads, n_kv_heads;
    uint32_t qk_head_dim, v_head_dim;
    double scale;      // multiplies the scores
    double dropout;    // probability, training mode
    double softcap;    // 0: none. tanh(scores / cap) * cap (gemma2)
    uint32_t window;   // 0: full causal; else a position sees this many positions, itself included
    bool softmax_fp32; // eager: softmax runs in fp32 and is cast back (llama); else in the scores' type (gpt2, falcon)
    bool alibi;        // bloom, falcon-rw
    const char *
        core; // name of the core when a family's eager code has its own order ("llama", "gpt2", "gemma2", "bloom", ...)
    // --- added later
    fm_value *alibi_values; // borrowed; NULL unless alibi
    bool
        inline_core; // the core is written out inside the module's forward: its intermediates (scores, weights) are locals
                     // that stay until the module is left, after the output product (bloom, falcon)
} fm_attention;
// The cores, eager (fused kernels take q, k, v, mask, scale, dropout alike unless said):
//   llama        k, v repeated to a heads (expand + reshape, nothing when a == k); s = q @ k^T * scale; s = s + mask (if any);
//                p = softmax(s, fp32).to(q.dtype); p = dropout(p); o = p @ v; o.transpose(1, 2).contiguous(). Each step rebinds its name.
//   gpt_neox     as llama without repetition. (gpt_neox, opt; opt has scaled q itself and multiplies by 1.0 again)
//   gpt2         as gpt_neox, softmax in the scores' own type then .type(v.dtype), and no .contiguous() (the reshape copies)
//   gpt2_upcast  eager only: s = empty fp32 [B a, S, S]; baddbmm(s, q.float(), k.float(), beta 0, alpha scale); then as gpt2
//   gemma2       as llama; between scale and mask: s / cap, tanh, * cap when softcap > 0. Never sdpa (the class forbids it)
//   bloom        inline. q, k, v reshaped to [B a, S, d] copies (rebinding q, k, v; k then transposed); s = alibi.baddbmm(q, k, beta 1, alpha scale);
//                w = s.view(B, a, S, S) (+ mask); p = softmax(w, fp32).to(q.dtype); dropout; o = bmm(p, v) [B a, S, d];
//                o.view(B, a, S, d).permute(0, 2, 1, 3).reshape: a copy. There is no sdpa.
//   falcon       inline. sdpa: torch's function with dropout 0 and scale its default, mask given. Else s = q @ k^T; s /= sqrt(d) in place;
//                p = softmax(s + mask, dtype=hidden's); o = p @ v. k and v of one head broadcast. o.view.permute(0, 2, 1, 3).reshape.
//   falcon_alibi inline. sdpa: with dropout, the mask carries the biases. Else s = (q @ k^T).to(fp32); l = s + alibi; l *= scale in
//                place; p = softmax(l + mask, dtype=hidden's); dropout; o = p @ v; merged as bloom.
//   qwen         q, k, v arrive [B, S, n, d] and are permuted to [B, n, S, d]; then as gpt2 (s = q @ k^T / sqrt(d); where(mask, s, min))

typedef enum { FM_ROTATE_PHI3, FM_ROTATE_OLMO2, FM_ROTATE_INTERLEAVE, FM_ROTATE_QWEN } fm_rotation;
typedef enum { FM_ALIBI_BLOOM, FM_ALIBI_FALCON } fm_alibi_kind;
typedef enum { FM_ROUTER_MIXTRAL, FM_ROUTER_QWEN3, FM_ROUTER_DEEPSEEK } fm_router_kind;
typedef struct {
    fm_router_kind kind;
    uint64_t n_in;
    uint32_t n_experts, top_k;
    bool norm_topk;
    uint32_t n_groups, top_k_groups; // deepseek
    double scaling;                  // deepseek
} fm_router;

// Ends a block. `extra` are what the block gets beside the hidden state (mask, rotary tables, position ids): borrowed,
// NULL entries allowed. The same list is handed to the function; checkpointing holds it.
typedef struct {
    fm_value *mask;      // attention mask of this block, or NULL when the kernel's own causal flag does
    fm_value *cos, *sin; // rotary tables [B or 1, S, rotary_dim], or NULL
    fm_value *positions; // position ids [1, S], or NULL
    fm_value *alibi;
} fm_block_args;
typedef fm_value *fm_block_fn(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden,
                              const fm_block_args *args);

struct fm_words {
    // --- scopes and variables
    void (*enter)(fm_words *w, const char *module);
    fm_value *(*leave)(fm_words *w, fm_value *result);
    fm_value *(*let)(fm_words *w, fm_value *v);
    void (*set)(fm_words *w, fm_value **variable, fm_value *v);
    void (*del)(fm_words *w, fm_value **variable);
    // --- units
    uint32_t (*n_blocks)(fm_words *w,
                         const fm_arch *arch); // how many blocks to run (folding runs fewer than the model has)
    // Runs block `layer` ("layers.N" joins the path: `list` is "layers", "h", ...). hidden is borrowed; the result floats.
    fm_value *(*block)(fm_words *w, const fm_arch *arch, const char *list, uint32_t layer, fm_block_fn *fn,
                       fm_value *hidden, const fm_block_args *args);
    // --- inputs
    fm_value *(*ids)(fm_words *w);          // token ids [B, S], borrowed
    fm_value *(*position_ids)(fm_words *w); // [1, S] made on the device: arange + 0, unsqueezed
    fm_value *(*causal_mask)(fm_words *w, const fm_arch *arch, uint32_t window, fm_value *positions,
                             fm_value *hidden); // NULL when the kernel needs none
    void (*rotary_tables)(fm_words *w, const fm_arch *arch, fm_value *like, fm_value *positions, fm_value **cos,
                          fm_value **sin); // both floating
    // --- modules with parameters. `name` is the module's, the parameter is NAME.weight / NAME.bias
    fm_value *(*embedding)(fm_words *w, const char *name, uint64_t rows, uint64_t width, fm_value *ids);
    fm_value *(*linear)(fm_words *w, fm_value *x, const char *name, uint64_t n_in, uint64_t n_out,
                        bool bias); // weight [out, in]
    fm_value *(*conv1d)(fm_words *w, fm_value *x, const char *name, uint64_t n_in,
                        uint64_t n_out); // gpt2: weight [in, out], bias
    fm_value *(*rms_norm)(fm_words *w, fm_value *x, const char *name, uint64_t width, fm_norm_kind kind);
    fm_value *(*layer_norm)(fm_words *w, fm_value *x, const char *name, uint64_t width, bool bias);
    // The head: a linear whose weight may be the embedding's. `tied_to` is the embedding's full parameter name or NULL.
    fm_value *(*head)(fm_words *w, fm_value *x, const char *name, uint64_t n_in, uint64_t n_out, bool bias,
                      const char *tied_to);
    // --- modules without parameters, and arithmetic
    fm_value *(*act)(fm_words *w, fm_value *x, fm_activation kind);
    fm_value *(*add)(fm_words *w, fm_value *a, fm_value *b);
    fm_value *(*mul)(fm_words *w, fm_value *a, fm_value *b);
    fm_value *(*scale)(fm_words *w, fm_value *x, double factor); // x * a Python number
    void (*softcap)(fm_words *w, fm_value **x,
                    double cap); // x = x / cap; x = tanh(x); x = x * cap: rebinds the variable thrice
    fm_value *(*dropout)(fm_words *w, fm_value *x, double p);
    void (*halves)(fm_words *w, fm_value *x, fm_value **first,
                   fm_value **second); // x.chunk(2, -1): two views, floating
    // --- attention. q, k, v are [B, n, S, d] (a transposed view of [B, S, n, d])
    fm_value *(*heads)(fm_words *w, fm_value *x, uint32_t n, uint32_t d);
    void (*split_qkv)(fm_words *w, fm_value *qkv, fm_qkv_layout layout, uint32_t n_heads, uint32_t n_kv_heads,
                      uint32_t d, fm_value **q, fm_value **k, fm_value **v);
    // Rotates *q and *k (bound variables) in place of themselves; rotary_dim < d rotates the first part only and joins by cat.
    void (*rotate)(fm_words *w, fm_value **q, fm_value **k, fm_value *cos, fm_value *sin, uint32_t d,
                   uint32_t rotary_dim);
    // The core and the reshape that follows it. Result [B, S, a * v_head_dim], floating. *weights gets the attention weights
    // [B, a, S, S] after dropout (floating) when the core makes them (eager), else NULL.
    fm_value *(*attention)(fm_words *w, fm_value *q, fm_value *k, fm_value *v, fm_value *mask, const fm_attention *how,
                           fm_value **weights);

    // ---- Words added after the first set.
    // Leaves a module whose forward returns a pair: both float to the caller (who unpacks them into two variables: w_set or
    // w_let the first, then the second). *second may be NULL.
    fm_value *(*leave_pair)(fm_words *w, fm_value *result, fm_value **second);
    // The place of `loss = self.loss_function(logits, labels, ...)`: within the causal model's forward, while the model's
    // output and the head's input are alive. logits is borrowed. The listener keeps the loss itself (or does nothing).
    void (*loss)(fm_words *w, const fm_arch *arch, fm_value *logits);
    // A tensor that is registered and not trained, of the module now open; said once a run, before its module's first use.
    // Resident on the device from init on, unless it is the engine's to move it.
    void (*buffer)(fm_words *w, const char *name, const char *dtype, uint64_t n_elems);
    // Pieces of a tensor's last dimension, [..., :n] and [..., n:], both floating views. split2 is one torch.split (one node in
    // backward that joins both gradients), slices are two slices (each backward makes a full-size gradient).
    void (*split2)(fm_words *w, fm_value *x, uint64_t n, fm_value **first, fm_value **second);
    void (*slices)(fm_words *w, fm_value *x, uint64_t n, fm_value **first, fm_value **second);
    fm_value *(*cat)(fm_words *w, fm_value *a, fm_value *b);                   // torch.cat((a, b), dim=-1)
    void (*add_into)(fm_words *w, fm_value **a, fm_value *b);                  // a += b, in place: *a keeps its storage
    fm_value *(*view_heads)(fm_words *w, fm_value *x, uint32_t n, uint32_t d); // [B, S, n*d] -> [B, S, n, d], a view
    fm_value *(*transpose_heads)(fm_words *w, fm_value *x);                    // .transpose(1, 2), a view
    // rotate with another formula than Llama's. PHI3: cat([q_rot * cos + rotate_half(q_rot) * sin, q_pass]) in one expression, q whole
    // before k. OLMO2: tables are fp32, so products are; each result is cast back to its input's type at the end.
    // INTERLEAVE (deepseek): cos, sin halved by slices; x1 = x[..., 0::2], x2 = x[..., 1::2]; cat([x1 cos - x2 sin, x2 cos + x1 sin]).
    // QWEN: x.float() first, on [B, S, n, d], cast back at the end.
    void (*rotate_as)(fm_words *w, fm_rotation kind, fm_value **q, fm_value **k, fm_value *cos, fm_value *sin,
                      uint32_t d, uint32_t rotary_dim);
    // Falcon's linear: x @ weight.T, then, with a bias, a second tensor x + bias. Parameters as linear's.
    fm_value *(*linear_at)(fm_words *w, fm_value *x, const char *name, uint64_t n_in, uint64_t n_out, bool bias);
    fm_value *(*layer_norm_plain)(fm_words *w, fm_value *x, const char *name,
                                  uint64_t width); // no parameters at all (opt)
    // stablelm's qk norm, on [B, n, S, d]: split(1, dim=1), a LayerNorm of its own each (NAME.norms.I.weight, no bias), cat(dim=1).
    fm_value *(*layer_norm_per_head)(fm_words *w, fm_value *x, const char *name, uint32_t n, uint32_t d);
    // opt: ones = torch.ones(B, S) fp32; ids = (cumsum(ones, 1) * ones - 1).long()[:, 0:]. Both floating; ids is int64 [B, S].
    void (*opt_positions)(fm_words *w, fm_value **ones, fm_value **ids);
    fm_value *(*offset_ids)(fm_words *w, fm_value *ids, int64_t by); // ids + by, int64
    // ALiBi. BLOOM: slopes [a] fp32 (made on the device: base, powers, pow[, a second set, cat]); alibi = (slopes[:, None, None] *
    // arange(S)).repeat(B, 1, 1).to(hidden.dtype) [B a, 1, S]. FALCON: mask = ones(B, S) int64 (returned as *slopes: the local that stays);
    // alibi = slopes.bfloat16() * arange of it, reshaped [B a, 1, S], in the embeddings' type. Both floating.
    void (*alibi)(fm_words *w, const fm_arch *arch, fm_alibi_kind kind, fm_value *hidden, fm_value **slopes,
                  fm_value **alibi);
    // falcon: alibi.reshape(B, a, 1, S) / sqrt(d), masked_fill(mask < -1 (or ~mask), min): the mask [B, a, S, S] that carries the biases.
    fm_value *(*alibi_mask)(fm_words *w, const fm_arch *arch, fm_value *alibi, fm_value *mask);
    // A block that returns a tuple (output, value): value is held with it by the model's loop (`outputs = block(...)`) until the
    // next block has returned, and after the last until the model's forward returns. NULL: nothing. (falcon, bloom: attention weights)
    void (*carry)(fm_words *w, fm_value *value);
    // --- mixture of experts
    // The gate, a module `name` with weight [n_experts, n_in]. x [B, S, H] is viewed as [T, H], T = B S. Three floating results:
    // logits [T, E], weights [T, top_k], indices [T, top_k] int64.
    //   MIXTRAL   logits = linear(x); p = softmax(logits.float()); weights, indices = topk(p); weights /= sum (in place); weights stay fp32
    //   QWEN3     logits = linear(x); p = softmax(logits, dtype=fp32); topk; if norm_topk weights /= sum (in place); weights = weights.to(logits.dtype)
    //   DEEPSEEK  logits = linear(x.fp32, weight.fp32); s = sigmoid(logits); c = s + e_score_correction_bias (buffer [E] fp32, persistent);
    //             g = c.view(T, groups, E/groups).topk(2)[0].sum(-1); i = topk(g, top_k_groups)[1]; m = zeros_like(g).scatter_(1, i, 1);
    //             m expanded to [T, E]; c = c.masked_fill(~m.bool(), -inf); indices = topk(c, top_k)[1]; weights = s.gather(1, indices);
    //             if norm_topk: weights /= (sum + 1e-20), in place; weights = weights * scaling. The weight parameter is fp32 whatever the model's type.
    void (*router)(fm_words *w, fm_value *x, const char *name, const fm_router *how, fm_value **logits,
                   fm_value **weights, fm_value **indices);
    // All experts, a module `name` with gate_up_proj [E, 2 I, H] and down_proj [E, H, I]. x [B, S, H] viewed [T, H];
    // result [B, S, H]. Default implementation "grouped_mm" (transformers integrations/moe.py, grouped_mm_experts_forward), all names
    // locals of one function until it returns: sample_weights = weights.reshape(-1); ids = indices.reshape(-1); ids_g, perm = sort(ids);
    // x_g = x[perm // top_k] [T k, H]; w_g = sample_weights[perm]; counts = histc(ids_g.int(), E); offsets = cumsum(counts, int32);
    // p = grouped_mm(x_g, gate_up^T, offsets) [T k, 2I]; gate, up = p.chunk(2, -1); p = act(gate) * up; p = grouped_mm(p, down^T, offsets)
    // [T k, H]; y = p * w_g[:, None] (promoted: fp32 when the weights
    // are, as mixtral's); inv = empty_like(perm); inv[perm] = arange(T k); y = y[inv]; out = y.view(T, k, H).sum(1);
    // returns out.to(x.dtype).
    fm_value *(*experts)(fm_words *w, fm_value *x, const char *name, uint32_t n_experts, uint64_t n_in,
                         uint64_t intermediate, fm_activation act, fm_value *indices, fm_value *weights);
    // --- multi-head latent attention: a method of the open module (no scope of its own), child linear `name` (no bias)
    // [rank] -> a (nope + v). compressed [B, S, rank] (viewed [B, 1, S, rank]), k_rot [B, 1, S, rope], both borrowed.
    //   kv = linear(compressed).view(B, S, a, nope + v).transpose(1, 2); k_nope, v = split(kv, [nope, v], -1); k_rot expanded to a heads;
    //   k = kv.new_empty(B, a, S, nope + rope); k[..., :nope].copy_(k_nope); k[..., nope:].copy_(k_rot).
    // Two floating results: k, and v (a view of kv).
    void (*mla_keys)(fm_words *w, const fm_arch *arch, fm_value *compressed, fm_value *k_rot, const char *name,
                     fm_value **k, fm_value **v);
    // [B, S, d] -> [B, 1, S, d], a view.
    fm_value *(*one_head)(fm_words *w, fm_value *x, uint32_t d);
    // A bare size's remainder (arch.h): module `name` with a trained vector weight [n] that has the state of any parameter and
    // a gradient, and no cost worth counting besides. Returns x itself.
    fm_value *(*remainder)(fm_words *w, fm_value *x, const char *name, uint64_t n);
    // A floating value that a call holds as its argument while the called module runs: f(g(x)). hold takes a reference (the value
    // counts as bound, in no scope); unhold drops it after the call. Between them the value is borrowed as usual.
    fm_value *(*hold)(fm_words *w, fm_value *v);
    void (*unhold)(fm_words *w, fm_value *v);
    // Embedding rows times a number held as a buffer on the device, NAME.embed_scale (fp32 scalar, not persistent):
    // embedding(ids) * embed_scale.to(weight.dtype). (gemma, gemma2)
    fm_value *(*scaled_embedding)(fm_words *w, const char *name, uint64_t rows, uint64_t width, fm_value *ids,
                                  double factor);
};

static inline void w_enter(fm_words *w, const char *module)
{
    w->enter(w, module);
}
static inline fm_value *w_leave(fm_words *w, fm_value *result)
{
    return w->leave(w, result);
}
static inline fm_value *w_let(fm_words *w, fm_value *v)
{
    return w->let(w, v);
}
static inline void w_set(fm_words *w, fm_value **variable, fm_value *v)
{
    w->set(w, variable, v);
}
static inline void w_del(fm_words *w, fm_value **variable)
{
    w->del(w, variable);
}
static inline fm_value *w_leave_pair(fm_words *w, fm_value *result, fm_value **second)
{
    return w->leave_pair(w, result, second);
}
#endif

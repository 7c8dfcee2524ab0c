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
//     w_del deletes it. Words only borrow bound values. A value passed in as a function's argument is the caller's: borrow it.
//   - w_set evaluates first and releases the old value afterwards, as `h = norm(h)` does.
//   - w_enter opens a module's forward (its name joins the module path, which also prefixes parameter names), w_leave
//     ends it: locals die in the order they were bound, the result floats to the caller.
// One unit (block) is run through w_block, so that the engine's hooks, activation checkpointing and folding have their place.
//
// Shapes: B batch, S sequence, H hidden, a heads, k key/value heads, d head size. Values are [B, S, width] unless said.
#ifndef FM_MODEL_WORDS_H
#define FM_MODEL_WORDS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct fm_value fm_value; // opaque: a tensor on a tape, or a shape when declaring
typedef struct fm_words fm_words;
typedef struct fm_arch fm_arch; // model/arch.h: the configuration, normalised

typedef enum { FM_ACT_SILU, FM_ACT_GELU, FM_ACT_GELU_TANH, FM_ACT_GELU_NEW, FM_ACT_GELU_FAST, FM_ACT_RELU, FM_ACT_RELU2, FM_ACT_QUICK_GELU } fm_activation;

typedef enum {
    FM_NORM_LLAMA,  // weight * (x / rms) with the product in the input's type
    FM_NORM_GEMMA,  // (1 + weight) * x / rms, all in fp32, cast at the end
    FM_NORM_OLMO2,  // (weight * x / rms) in fp32, cast at the end
} fm_norm_kind;

// How one product holds queries, keys and values (last dimension of the fused output).
typedef enum {
    FM_QKV_SPLIT,      // [q | k | v], split at a*d and (a+k)*d            gpt2, phi3, qwen1
    FM_QKV_PER_HEAD,   // a times [q d | k d | v d]                         gpt_neox, bloom
    FM_QKV_PER_GROUP,  // k times [q (a/k)*d | k d | v d]                   falcon (new decoder)
    FM_QKV_MULTIQUERY, // [q a*d | k d | v d] through a (heads + 2) view      falcon-7b, gpt_bigcode
} fm_qkv_layout;

// What the attention core is told.
typedef struct {
    uint32_t n_heads, n_kv_heads;
    uint32_t qk_head_dim, v_head_dim;
    double scale;          // multiplies the scores
    double dropout;        // probability, training mode
    double softcap;        // 0: none. tanh(scores / cap) * cap (gemma2)
    uint32_t window;       // 0: full causal; else a position sees this many positions, itself included
    bool softmax_fp32;     // eager: softmax runs in fp32 and is cast back (llama); else in the scores' type (gpt2, falcon)
    bool alibi;            // bloom, falcon-rw
    const char *core;      // name of the core when a family's eager code has its own order ("llama", "gpt2", "gemma2", "bloom", ...)
} fm_attention;

// Ends a block. `extra` are what the block gets beside the hidden state (mask, rotary tables, position ids): borrowed,
// NULL entries allowed. The same list is handed to the function; checkpointing holds it.
typedef struct {
    fm_value *mask;         // attention mask of this block, or NULL when the kernel's own causal flag does
    fm_value *cos, *sin;    // rotary tables [B or 1, S, rotary_dim], or NULL
    fm_value *positions;    // position ids [1, S], or NULL
    fm_value *alibi;
} fm_block_args;
typedef fm_value *fm_block_fn(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args);

struct fm_words {
    // --- scopes and variables
    void (*enter)(fm_words *w, const char *module);
    fm_value *(*leave)(fm_words *w, fm_value *result);
    fm_value *(*let)(fm_words *w, fm_value *v);
    void (*set)(fm_words *w, fm_value **variable, fm_value *v);
    void (*del)(fm_words *w, fm_value **variable);
    // --- units
    uint32_t (*n_blocks)(fm_words *w, const fm_arch *arch); // how many blocks to run (folding runs fewer than the model has)
    // Runs block `layer` ("layers.N" joins the path: `list` is "layers", "h", ...). hidden is borrowed; the result floats.
    fm_value *(*block)(fm_words *w, const fm_arch *arch, const char *list, uint32_t layer, fm_block_fn *fn, fm_value *hidden, const fm_block_args *args);
    // --- inputs
    fm_value *(*ids)(fm_words *w);                                                       // token ids [B, S], borrowed
    fm_value *(*position_ids)(fm_words *w);                                              // [1, S] made on the device: arange + 0, unsqueezed
    fm_value *(*causal_mask)(fm_words *w, const fm_arch *arch, uint32_t window, fm_value *positions, fm_value *hidden); // NULL when the kernel needs none
    void (*rotary_tables)(fm_words *w, const fm_arch *arch, fm_value *like, fm_value *positions, fm_value **cos, fm_value **sin); // both floating
    // --- modules with parameters. `name` is the module's, the parameter is NAME.weight / NAME.bias
    fm_value *(*embedding)(fm_words *w, const char *name, uint64_t rows, uint64_t width, fm_value *ids);
    fm_value *(*linear)(fm_words *w, fm_value *x, const char *name, uint64_t n_in, uint64_t n_out, bool bias);  // weight [out, in]
    fm_value *(*conv1d)(fm_words *w, fm_value *x, const char *name, uint64_t n_in, uint64_t n_out);             // gpt2: weight [in, out], bias
    fm_value *(*rms_norm)(fm_words *w, fm_value *x, const char *name, uint64_t width, fm_norm_kind kind);
    fm_value *(*layer_norm)(fm_words *w, fm_value *x, const char *name, uint64_t width, bool bias);
    // The head: a linear whose weight may be the embedding's. `tied_to` is the embedding's full parameter name or NULL.
    fm_value *(*head)(fm_words *w, fm_value *x, const char *name, uint64_t n_in, uint64_t n_out, bool bias, const char *tied_to);
    // --- modules without parameters, and arithmetic
    fm_value *(*act)(fm_words *w, fm_value *x, fm_activation kind);
    fm_value *(*add)(fm_words *w, fm_value *a, fm_value *b);
    fm_value *(*mul)(fm_words *w, fm_value *a, fm_value *b);
    fm_value *(*scale)(fm_words *w, fm_value *x, double factor); // x * a Python number
    fm_value *(*softcap)(fm_words *w, fm_value *x, double cap);  // tanh(x / cap) * cap
    fm_value *(*dropout)(fm_words *w, fm_value *x, double p);
    void (*halves)(fm_words *w, fm_value *x, fm_value **first, fm_value **second); // x.chunk(2, -1): two views, floating
    // --- attention. q, k, v are [B, n, S, d] (a transposed view of [B, S, n, d])
    fm_value *(*heads)(fm_words *w, fm_value *x, uint32_t n, uint32_t d);
    void (*split_qkv)(fm_words *w, fm_value *qkv, fm_qkv_layout layout, uint32_t n_heads, uint32_t n_kv_heads, uint32_t d, fm_value **q, fm_value **k, fm_value **v);
    // Rotates *q and *k (bound variables) in place of themselves; rotary_dim < d rotates the first part only and joins by cat.
    void (*rotate)(fm_words *w, fm_value **q, fm_value **k, fm_value *cos, fm_value *sin, uint32_t d, uint32_t rotary_dim);
    fm_value *(*attention)(fm_words *w, fm_value *q, fm_value *k, fm_value *v, fm_value *mask, const fm_attention *how); // [B, S, a * v_head_dim]
};

static inline void w_enter(fm_words *w, const char *module) { w->enter(w, module); }
static inline fm_value *w_leave(fm_words *w, fm_value *result) { return w->leave(w, result); }
static inline fm_value *w_let(fm_words *w, fm_value *v) { return w->let(w, v); }
static inline void w_set(fm_words *w, fm_value **variable, fm_value *v) { w->set(w, variable, v); }
static inline void w_del(fm_words *w, fm_value **variable) { w->del(w, variable); }
#endif

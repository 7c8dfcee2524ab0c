// The tape: runs a model on tensors without data, the way PyTorch runs it on fake ones, and writes down what memory does.
//
// A *storage* {bytes, tier, role, stream} lives by reference count. A *tensor* is a view of a storage {shape, stride, type}. Who holds
// a reference is explicit: a local variable, a saved slot of a backward node, the engine. A *node* is one operation's backward: what it saved,
// and where the gradients it makes go. Running backward visits nodes in the order PyTorch's engine does: highest sequence number
// first, gradient accumulation before everything, and sums gradients where they meet as it does.
// Source of the rules: torch 2.13 torch/csrc/autograd/{engine,input_buffer,functions/accumulate_grad}.cpp, read for facts.
//
// Ownership: functions that make a tensor return one reference. `floating` tensors are temporaries: whoever takes one as an operand releases
// it (fm_tensor_take). Out of memory leaves the recording through t->escape, which the recorder has set; everything made so far is in slabs and is
// freed by fm_tape_finish.
#ifndef FM_PROGRAM_TAPE_H
#define FM_PROGRAM_TAPE_H
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/program.h"

enum { FM_MAX_DIMS = 5, FM_MAX_EDGES = 6, FM_MAX_SAVED = 9 };

// Element types a tensor of a training step can have.
typedef enum {
    FM_ELEM_F32,
    FM_ELEM_BF16,
    FM_ELEM_F16,
    FM_ELEM_F64,
    FM_ELEM_I64,
    FM_ELEM_I32,
    FM_ELEM_BOOL,
    FM_ELEM_U8
} fm_elem;
uint64_t fm_elem_bytes(fm_elem e);
static inline bool fm_elem_is_float(fm_elem e)
{
    return e <= FM_ELEM_F64;
}

typedef struct fm_tape fm_tape;
typedef struct fm_storage fm_storage;
typedef struct fm_tensor fm_tensor;
typedef struct fm_grad_node fm_grad_node;
typedef struct fm_frame fm_frame; // one checkpointed region

struct fm_storage {
    uint64_t bytes; // 0: resized to nothing (a freed gather), still referenced
    uint32_t refs;
    uint32_t life; // entry in the program's lives while bytes > 0
    uint8_t role, tier, stream;
    bool counted; // false when made while the tape was mute: no events
};

struct fm_tensor {
    fm_storage *storage;
    fm_grad_node *grad_fn;    // owned reference; NULL for leaves and constants
    fm_tensor *grad;          // leaves
    fm_grad_node *accumulate; // leaves: the AccumulateGrad node, made at first use, owned
    int64_t shape[FM_MAX_DIMS], stride[FM_MAX_DIMS];
    uint32_t refs;
    uint8_t n_dims, elem;
    uint16_t out_nr;
    bool requires_grad, floating, is_leaf, is_parameter;
    bool is_view; // torch keeps a view's base alive as long as the view
};

typedef struct {
    fm_grad_node *node; // owned; NULL: nothing to do
    uint8_t input_nr;   // which output of that operation the gradient belongs to
} fm_edge;

// A row of the operation table: the backward of one operation. grads: n_outputs gradients (borrowed; NULL undefined). results: one per edge,
// owned by the caller after return; NULL undefined. Rows only create, save, drop and call.
typedef void fm_backward_fn(fm_tape *t, fm_grad_node *n, fm_tensor *const *grads, fm_tensor **results);
typedef struct {
    const char *name; // of the autograd node, as PyTorch calls it without the trailing number
    fm_backward_fn *backward;
} fm_row;

typedef void fm_hook_fn(fm_tape *t, void *context, fm_tensor *grad);

struct fm_grad_node {
    const fm_row *row;
    uint64_t sequence; // UINT64_MAX for AccumulateGrad
    fm_tensor *saved[FM_MAX_SAVED];
    uint32_t saved_index[FM_MAX_SAVED]; // checkpointing: which of the frame's saves this slot is
    fm_frame *frame;                    // checkpointing: where the slots come from; NULL: held here
    fm_edge *next; // [n_next], as are the three below; they point to the `few_...` unless there are many
    // What the engine knows of the operation's inputs (to reduce a broadcast gradient, to cast it).
    int64_t (*in_shape)[FM_MAX_DIMS];
    uint8_t *in_dims, *in_elem;
    fm_edge few_next[FM_MAX_EDGES];
    int64_t few_shape[FM_MAX_EDGES][FM_MAX_DIMS];
    uint8_t few_dims[FM_MAX_EDGES], few_elem[FM_MAX_EDGES];
    uint64_t attr[6];           // small attributes (dims, flags)
    int64_t shape[FM_MAX_DIMS]; // one shape attribute (a view's source, ...)
    int64_t stride[FM_MAX_DIMS];
    fm_tensor *leaf;         // AccumulateGrad: its variable (borrowed: the variable outlives its node's use)
    fm_hook_fn *pre_hook[2]; // tensor hooks on the gradient of output 0, before the row runs
    void *pre_context[2];
    fm_hook_fn *post_hook; // after the row ran (DDP's and FSDP1's hooks on AccumulateGrad)
    void *post_context;
    void *context; // of custom rows (engine hooks)
    // The engine's own, during a backward:
    fm_tensor **buffer; // [n_outputs] gradients gathered so far; points to `few` unless there are many
    fm_tensor *few[FM_MAX_EDGES];
    uint32_t dependencies;
    uint32_t visit; // number of the backward that counted it
    uint32_t refs;
    uint32_t module;
    uint32_t round; // a block's last node: its layer + 1; backward of that block begins here
    uint16_t n_outputs;
    uint8_t n_next, n_saved;
};

// Autocast: the class of an operation decides what it does with fp32 inputs.
typedef struct {
    bool enabled;
    fm_elem low;
    bool cache;
} fm_autocast;

struct fm_tape {
    fm_program *program;
    uint64_t next_sequence;
    uint32_t module; // current module path
    uint32_t round;  // layer whose round of a loop this is, FM_NO_ROUND outside
    uint8_t phase, step;
    uint8_t role; // role of what is born now (from the phase, unless an engine says otherwise)
    bool role_forced;
    uint8_t stream;
    bool grad_enabled;
    bool mute; // after a recomputation has all it needs: nothing is allocated any more
    bool recomputing;
    fm_frame *packing; // frame that takes saved tensors now (checkpointed forward, or its recomputation)
    fm_autocast autocast;
    struct fm_cast_cache *cast_cache;
    struct fm_pool *pool;
    fm_status status;
    fm_err err;
    jmp_buf escape; // set by whoever records (setjmp): out of memory ends the recording there
    uint32_t visit;
    bool inplace_sums; // the engine adds where it may (real tensors); false: out of place (fake tensors, exact rows)
    void (*after_backward)(fm_tape *t, void *context); // engine callbacks queued for the end of backward (FSDP's root)
    void *after_context;
    bool record_scratch;      // kernel scratch and library workspaces too (cuda_scratch.h), as on a GPU
    bool cublas_workspace[2]; // made: of the thread that runs forward, of autograd's
    uint32_t capability;      // compute capability of the GPU, 80 = 8.0
};

// --- the tape itself
fm_status fm_tape_init(fm_tape *t, fm_program *program, fm_err *err);
void fm_tape_finish(fm_tape *t); // frees every object still alive; the program stays
fm_status fm_tape_status(const fm_tape *t, fm_err *err);
void fm_tape_phase(fm_tape *t, fm_phase phase, uint8_t step);
void fm_tape_round(fm_tape *t, uint32_t index); // a layer's round of a loop begins; FM_NO_ROUND: the loop is over
uint32_t fm_tape_enter(fm_tape *t,
                       const char *module); // joins a module to the path, returns the previous for fm_tape_leave
void fm_tape_leave(fm_tape *t, uint32_t previous);
uint32_t fm_tape_path(fm_tape *t, const char *full);              // index of a full path (made when new)
void *fm_tape_alloc(fm_tape *t, size_t bytes);                    // zeroed, until fm_tape_finish
void fm_tape_scratch(fm_tape *t, uint64_t bytes, const char *op); // memory inside one kernel

// --- storages and tensors
fm_tensor *fm_tensor_new(fm_tape *t, unsigned n_dims, const int64_t *shape, fm_elem elem, const char *op); // contiguous
fm_tensor *fm_tensor_new_strided(fm_tape *t, unsigned n_dims, const int64_t *shape, const int64_t *stride, fm_elem elem,
                                 const char *op);
fm_tensor *fm_tensor_on(fm_tape *t, fm_tier tier, fm_role role, uint64_t n_elems, fm_elem elem,
                        const char *op);                    // one dimension, given place
fm_tensor *fm_tensor_alias(fm_tape *t, const fm_tensor *x); // same storage, no graph
void fm_tensor_retain(fm_tensor *x);
void fm_tensor_release(fm_tape *t, fm_tensor *x); // NULL allowed
void fm_tensor_take(fm_tape *t,
                    fm_tensor *x); // releases x when it floats: every operation does this to its operands at its end
static inline fm_tensor *fm_float(fm_tensor *x)
{
    if (x)
        x->floating = true;
    return x;
}
static inline fm_tensor *fm_sink(fm_tensor *x)
{
    if (x)
        x->floating = false;
    return x;
}
// x as a local of the function: one reference, dropped by the matching release.
static inline fm_tensor *fm_local(fm_tensor *x)
{
    if (x->floating)
        x->floating = false;
    else
        fm_tensor_retain(x);
    return x;
}
int64_t fm_tensor_numel(const fm_tensor *x);
uint64_t fm_tensor_bytes(const fm_tensor *x);
bool fm_tensor_is_contiguous(const fm_tensor *x);
void fm_storage_resize(fm_tape *t, fm_storage *s, uint64_t bytes, const char *op); // to 0 frees, back is a new life
void fm_storage_role(fm_tape *t, fm_storage *s, fm_role role);                     // relabels the current life

// --- the graph
// Makes a node when gradients are on and any input requires them; NULL otherwise. Inputs (NULL allowed) become the edges in order.
fm_grad_node *fm_grad_node_new(fm_tape *t, const fm_row *row, unsigned n_inputs, fm_tensor *const *inputs);
void fm_grad_node_save(fm_tape *t, fm_grad_node *n, unsigned slot, fm_tensor *x);       // NULL x or n allowed
void fm_grad_node_output(fm_tape *t, fm_grad_node *n, fm_tensor *out, unsigned out_nr); // out becomes a result of n
void fm_grad_node_outputs(fm_tape *t, fm_grad_node *n, unsigned n_outputs); // room for more than FM_MAX_EDGES results
fm_tensor *fm_grad_node_saved(fm_tape *t, fm_grad_node *n,
                              unsigned slot); // borrowed; recomputes a checkpointed region at its first use
void fm_grad_node_retain(fm_grad_node *n);
void fm_grad_node_release(fm_tape *t, fm_grad_node *n);
void fm_tensor_hook(fm_tensor *x, fm_hook_fn *hook, void *context); // on x's gradient, when it is complete
fm_grad_node *fm_tensor_accumulator(fm_tape *t, fm_tensor *leaf);   // borrowed

// Backward from a scalar, as loss.backward(): makes its gradient of one, runs the graph, frees what it holds.
void fm_backward(fm_tape *t, fm_tensor *loss);

// --- activation checkpointing (non-reentrant): a region whose saves are counted, not kept, and made again at first use.
typedef fm_tensor *fm_region_fn(fm_tape *t, void *context, fm_tensor *input);
// Runs fn(input) holding only the input and what `context` owns until the region's backward. destroy(context) when that is over (NULL allowed).
// Source: torch/utils/checkpoint.py, use_reentrant=False, early stop on.
fm_tensor *fm_checkpoint(fm_tape *t, fm_region_fn *fn, void *context, void (*destroy)(fm_tape *t, void *context),
                         fm_tensor *input);

// --- autocast
void fm_autocast_enter(fm_tape *t, fm_elem low);
void fm_autocast_exit(fm_tape *t); // drops the cache of weight casts
#endif

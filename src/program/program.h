// A recorded step program: what one rank allocates and frees, in order, and what each piece of memory is.
//
// Two tables. `lives` has one entry for each life of a storage (from its allocation, or its growth from nothing, to its
// end): how large, where, what for, made by which operation in which module. `events` is the order in which lives begin and
// end, with markers between them: the start of a phase, and the bounds of a round (one layer of a loop over layers, one
// microbatch), which is what folding repeats. Everything the planner reports is a walk over these two tables.
#ifndef FM_PROGRAM_PROGRAM_H
#define FM_PROGRAM_PROGRAM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

// What memory is for: name in JSON and tables, words for a reader.
#define FM_ROLE_LIST(X)                                                                         \
    X(PARAMETER, "parameters", "parameters at rest (this rank's shard)")                        \
    X(MASTER, "master", "fp32 master weights")                                                  \
    X(GRADIENT, "gradients", "gradients at rest (this rank's shard)")                           \
    X(OPTIMIZER, "optimizer", "optimizer moments and step counters")                            \
    X(GATHERED, "gathered_parameters", "unsharded parameters of the units in use")              \
    X(UNSHARDED_GRADIENT, "unsharded_gradients", "whole gradients before they are reduced")     \
    X(ACTIVATION, "activations", "born in forward: saved for backward, or in use")              \
    X(LOSS, "loss", "born in the loss: logits in fp32, log-probabilities")                      \
    X(RECOMPUTED, "recomputed_activations", "born again by activation checkpointing")           \
    X(BACKWARD, "backward_temporaries", "gradients of activations and temporaries of backward") \
    X(WEIGHT_CAST, "weight_casts", "autocast's low-precision copies of weights")                \
    X(GATHER_INPUT, "gather_inputs", "shards cast for the all-gather")                          \
    X(GATHER_BUFFER, "gather_buffers", "all-gather outputs before they are copied out")         \
    X(REDUCE_INPUT, "reduce_inputs", "gradients laid out for the reduce-scatter")               \
    X(REDUCE_OUTPUT, "reduce_outputs", "reduce-scatter outputs before the cast")                \
    X(BUCKET, "buckets", "DDP's gradient buckets")                                              \
    X(CLIP, "clipping", "temporaries of gradient clipping")                                     \
    X(STEP, "optimizer_temporaries", "temporaries of the optimizer's step")                     \
    X(BUFFER, "buffers", "the model's buffers (rotary frequencies)")                            \
    X(INPUT, "inputs", "token ids and labels")                                                  \
    X(SCRATCH, "kernel_scratch", "scratch inside kernels and libraries")                        \
    X(OTHER, "other", "anything else")

#define FM_ROLE_ENUM(code, name, words) FM_ROLE_##code,
typedef enum { FM_ROLE_LIST(FM_ROLE_ENUM) FM_N_ROLES } fm_role;
#undef FM_ROLE_ENUM

typedef enum { FM_TIER_DEVICE, FM_TIER_HOST, FM_N_TIERS } fm_tier;

// The caching allocator reuses a block only on the stream that made it, so the stream belongs to the life.
#define FM_STREAM_LIST(X) X(MAIN, "main") X(GATHER, "gather") X(REDUCE, "reduce") X(SIDE, "side")
#define FM_STREAM_ENUM(code, name) FM_STREAM_##code,
typedef enum { FM_STREAM_LIST(FM_STREAM_ENUM) FM_N_STREAMS } fm_stream;
#undef FM_STREAM_ENUM

// Phases of a step, in order. Their numbers with `step` (1, 2) make the names of cases: forward, forward2, ...
#define FM_PHASE_LIST(X)  \
    X(INIT, "init")       \
    X(FORWARD, "forward") \
    X(LOSS, "loss")       \
    X(BACKWARD, "backward") X(POST, "post") X(CLIP, "clip") X(OPTIMIZER, "optimizer") X(ZERO, "zero_grad")
#define FM_PHASE_ENUM(code, name) FM_PHASE_##code,
typedef enum { FM_PHASE_LIST(FM_PHASE_ENUM) FM_N_PHASES } fm_phase;
#undef FM_PHASE_ENUM

const char *fm_role_name(fm_role role);
const char *fm_role_words(fm_role role);
const char *fm_stream_name(fm_stream stream);
const char *fm_phase_name(fm_phase phase);

typedef struct {
    uint64_t bytes;  // exact; the ledger rounds to the allocator's 512
    const char *op;  // static name of the operation that made it
    uint32_t module; // index into the module paths; 0 is the root
    uint8_t role, tier, stream;
    uint8_t phase, step; // when it was born
} fm_life;

typedef enum {
    FM_EVENT_ALLOC,   // subject: life
    FM_EVENT_FREE,    // subject: life
    FM_EVENT_SCRATCH, // subject: life that begins and ends inside one kernel
    FM_EVENT_PHASE,   // subject: fm_phase, step in `step`
    FM_EVENT_ROUND,   // a layer's round of a loop over layers begins; subject: the layer, FM_NO_ROUND: the loop is over
} fm_event_kind;

#define FM_NO_ROUND UINT32_MAX

typedef struct {
    uint32_t subject;
    uint8_t kind, step;
} fm_event;

typedef struct {
    fm_event *events;
    size_t n_events, cap_events;
    fm_life *lives;
    size_t n_lives, cap_lives;
    char **modules; // paths, owned; [0] is ""
    size_t n_modules, cap_modules;
    uint32_t n_layers; // layers recorded; fewer than the model's when the program is to be folded
    uint32_t n_layers_model;
} fm_program;

void fm_program_destroy(fm_program *p); // frees what it owns and zeroes it; NULL allowed

// One instruction a line: "+ life bytes tier role phase module op stream", "- life", "@ phase", "! scratch". Appends to a string
// that the caller frees. The golden files of tests are this text.
fm_status fm_program_print(const fm_program *p, char **text, size_t *n_text, fm_err *err);
#endif

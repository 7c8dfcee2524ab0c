// What engine fsdp2 knows of its units (fsdp2.c runs them), and how a recipe's wrapping makes them (fsdp2_wrap.c).
#ifndef FM_PROGRAM_ENGINES_FSDP2_H
#define FM_PROGRAM_ENGINES_FSDP2_H
#include "program/step.h"

typedef enum { FM_FSDP2_IDLE, FM_FSDP2_IN_FORWARD, FM_FSDP2_PRE_BACKWARD, FM_FSDP2_POST_BACKWARD } fm_fsdp2_state;

// One call of fully_shard: parameters that are gathered and reduced together. A group of modules (accelerate's [norm, head]) is one unit.
typedef struct {
    uint32_t *params, n_params;     // indices, in module order
    uint32_t modules[3], n_modules; // paths; a group of modules has several
    uint32_t to_run;                // a group's: one bit for each module that has still to run in this forward
    fm_fsdp2_state state, group;    // of the hooks' owner and of the parameters (torch keeps two)
    bool unsharded, reshard_after_forward, gathering;
    fm_tensor *gathered;                      // all-gather output before the copy-out
    fm_tensor *all_reduce_input;              // HSDP: kept until the group's next reduce or the end of backward
    fm_tensor **accumulated;                  // [n_params] unsharded gradients in the reduce type, between microbatches
    uint32_t *forward_index, n_forward_index; // where it stands in the order of forwards (a stack)
    uint32_t layer;                           // of a block, else FM_NO_LAYER
    uint64_t missing_elems; // shards of parameters that are not recorded (folding), when all blocks are this one unit
    bool spans_blocks;
    uint32_t module; // its path
} fm_fsdp2_unit;

typedef struct {
    fm_fsdp2_unit *units; // [1..n_units]; in the order of all_states: the root first
    uint32_t n_units, root;
    fm_tensor *gather_state; // the previous unit's buffer, kept until the next copy-out has run
    fm_tensor *reduce_state; // reduce-scatter input of the unit before
    uint32_t *order;         // units in the order their forwards ended
    uint32_t n_order, cap_order;
    fm_elem param_elem, reduce_elem; // of the policy
    bool casts;                      // the policy's param_dtype differs from the stored one
    bool callback_queued, reduce, reshard_after_backward;
} fm_fsdp2;

// Elements of a parameter's shard on rank 0: rows are dealt in equal chunks, the first ranks' full ones. Source: _chunk_with_empty.
uint64_t fm_fsdp2_shard_elems(const fm_run *run, const fm_parameter *p);

// Makes the units of the recipe's `wrap`, the root first, and gives each its parameters.
void fm_fsdp2_wrap(fm_run *run);
#endif

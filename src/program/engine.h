// Engines: who owns parameters, gradients and the step. An engine is a set of hooks that the stack calls around the modules that are
// its units, and that the step calls around backward and the optimizer. Each engine is one file in engines/.
//
// Parameters are what the model declares (floodmark/model.h), in registration order. Each has an *original* tensor (what the optimizer sees:
// whole, or this rank's shard) and a *used* one (what the modules read: the same, or the gathered copy).
#ifndef FM_PROGRAM_ENGINE_H
#define FM_PROGRAM_ENGINE_H
#include "floodmark/recipe.h"
#include "program/tape.h"

typedef struct fm_run fm_run; // one recording: model, recipe, tape, engine (step.h)
typedef struct fm_engine fm_engine;

typedef struct {
    uint32_t index;   // among the model's (floodmark/model.h)
    const char *name; // full name
    const char *leaf; // its last component ("weight")
    uint32_t module;  // path of the module that owns it
    uint32_t layer;   // block it belongs to, FM_NO_LAYER outside blocks
    int64_t shape[FM_MAX_DIMS];
    uint8_t n_dims, elem; // as stored
    uint64_t n_elems;
    fm_tensor *original;     // owned: what the optimizer updates (NULL for a tied duplicate)
    fm_tensor *used;         // owned: the leaf that modules read
    uint32_t tied_to;        // index of the parameter whose tensors it shares, or UINT32_MAX
    uint32_t next_in_module; // chain of parameters of one module; 0 ends (index + 1)
} fm_parameter;

#define FM_NO_LAYER UINT32_MAX

// What an engine's file defines. Hooks may be NULL. `unit` is the engine's number for a module it wrapped (0 = not a unit).
struct fm_engine {
    const char *name;
    // Makes originals and used tensors, buffers, buckets; assigns units to module paths with fm_run_unit.
    void (*init)(fm_run *run);
    void (*before_microbatch)(fm_run *run); // run->microbatch, run->last_microbatch; ids and labels are there
    // Around a unit's module. `input` is the first floating input (NULL for the root); the result replaces it (floating or the same).
    // `kwargs` are other tensors handed over by name, possibly replaced.
    fm_tensor *(*pre_forward)(fm_run *run, uint32_t unit, fm_tensor *input, fm_tensor **kwargs, unsigned n_kwargs);
    fm_tensor *(*post_forward)(fm_run *run, uint32_t unit, fm_tensor *output);
    void (*root_forward_done)(fm_run *run); // after the outermost module's forward, loss included
    void (*after_backward)(fm_run *run);    // the engine's queued callbacks, inside the backward phase
    void (*clip)(fm_run *run);              // NULL: torch.nn.utils.clip_grad_norm_, foreach
};

void fm_make_whole_parameters(fm_run *run); // originals = used, on the device (single.c)

// The table of engines: the recipe's value, C name. engines/NAME.c defines fm_engine_NAME.
#define FM_ENGINE_TABLE(X)      \
    X(FM_ENGINE_SINGLE, single) \
    X(FM_ENGINE_DDP, ddp)       \
    X(FM_ENGINE_FSDP1, fsdp1)   \
    X(FM_ENGINE_FSDP2, fsdp2)

#define FM_ENGINE_DECLARE(kind, name) extern const fm_engine fm_engine_##name;
FM_ENGINE_TABLE(FM_ENGINE_DECLARE)
#undef FM_ENGINE_DECLARE
#endif

// One recording of two training steps on one rank: init, then twice forward, loss, backward, clip, optimizer, zero_grad, as
// a plain training loop runs them.
#ifndef FM_PROGRAM_STEP_H
#define FM_PROGRAM_STEP_H
#include "floodmark/model.h"
#include "floodmark/recipe.h"
#include "model/arch.h"
#include "program/engine.h"
#include "program/tape.h"

typedef struct {
    fm_tensor *step, *first, *second; // counter, exp_avg or momentum, exp_avg_sq; owned
} fm_moments;

// What the recording is asked for beside the recipe.
typedef struct {
    bool exact;      // as the exact cases were made: no in-place sums in the engine, no kernel scratch, capability 9.0
    uint32_t layers; // blocks to record; 0: all
    uint32_t microbatches; // microbatches to record; 0: all
    uint32_t steps;        // 2
    uint32_t capability;   // compute capability of the GPU, 80 = 8.0
} fm_record_options;

struct fm_run {
    fm_tape tape;
    const fm_recipe *recipe; // resolved
    const fm_model *model;
    const fm_arch *arch;
    fm_record_options options;
    const fm_engine *engine;
    void *engine_state;
    fm_parameter *parameters; // registration order
    uint32_t n_parameters;
    fm_moments *moments;      // [n_parameters]
    uint32_t n_layers;        // recorded
    uint32_t *unit_of_module; // by module path; 0: none
    size_t n_unit_of_module;
    uint32_t *first_parameter_of_module; // by module path; index + 1
    size_t n_first_parameter;
    fm_tensor *ids, *labels; // owned while a microbatch runs
    fm_tensor *loss;         // owned: set by the stack's loss word
    uint32_t microbatch, n_microbatches;
    bool last_microbatch;
    struct fm_hf *stack;
};

// Records into *program. Everything else is freed before return. Fails with FM_ERR_NO_MEMORY or what the model's description says.
fm_status fm_record(const fm_model *model, const fm_recipe *resolved, const fm_record_options *options,
                    fm_program *program, fm_err *err);

// For engines: module `path` is unit `unit` (> 0).
void fm_run_unit(fm_run *run, const char *path, uint32_t unit);
uint32_t fm_run_unit_of(const fm_run *run, uint32_t module);
fm_tensor *fm_run_parameter(fm_run *run, uint32_t module, const char *leaf); // borrowed; NULL when there is none
// For loops over parameters: says that the turn of `layer` comes (markers for folding); *at starts as FM_NO_LAYER. End the loop with FM_NO_LAYER.
void fm_run_round(fm_run *run, uint32_t *at, uint32_t layer);
uint64_t fm_run_missing(const fm_run *run, uint64_t (*elems)(const fm_run *run, const fm_parameter *p), uint32_t *n);
fm_elem fm_elem_of(fm_precision_kind precision);

// optimizer.c, clip.c
void fm_optimizer_step(fm_run *run);
void fm_make_master_weights(fm_run *run); // in init, where the recipe has them
void fm_clip_gradients(fm_run *run);
void fm_clip_norms_one_by_one(fm_run *run);
#endif

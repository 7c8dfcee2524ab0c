#include "program/step.h"
#include "base/alloc.h"
#include "program/ops.h"
#include "program/stacks/hf.h"
#include "model/family.h"
#include <stdlib.h>
#include <string.h>

fm_elem fm_elem_of(fm_precision_kind precision)
{
    switch (precision) {
    case FM_PRECISION_BF16:
        return FM_ELEM_BF16;
    case FM_PRECISION_FP16:
        return FM_ELEM_F16;
    default:
        return FM_ELEM_F32;
    }
}

// --- tables by module path: paths get their numbers while the run goes, so the tables grow

static void reserve(fm_run *run, uint32_t **table, size_t *n, uint32_t module)
{
    if (module < *n)
        return;
    size_t bigger = *n ? *n : 256;
    while (bigger <= module)
        bigger *= 2;
    uint32_t *copy = fm_tape_alloc(&run->tape, bigger * sizeof *copy);
    if (*n)
        memcpy(copy, *table, *n * sizeof *copy);
    *table = copy;
    *n = bigger;
}

void fm_run_unit(fm_run *run, const char *path, uint32_t unit)
{
    uint32_t module = fm_tape_path(&run->tape, path);
    reserve(run, &run->unit_of_module, &run->n_unit_of_module, module);
    run->unit_of_module[module] = unit;
}

uint32_t fm_run_unit_of(const fm_run *run, uint32_t module)
{
    return module < run->n_unit_of_module ? run->unit_of_module[module] : 0;
}

fm_tensor *fm_run_parameter(fm_run *run, uint32_t module, const char *leaf)
{
    if (module >= run->n_first_parameter)
        return NULL;
    for (uint32_t i = run->first_parameter_of_module[module]; i; i = run->parameters[i - 1].next_in_module)
        if (!strcmp(run->parameters[i - 1].leaf, leaf))
            return run->parameters[i - 1].used;
    return NULL;
}

void fm_run_round(fm_run *run, uint32_t *at, uint32_t layer)
{
    if (layer == *at)
        return;
    fm_tape_round(&run->tape, layer == FM_NO_LAYER ? FM_NO_ROUND : layer);
    *at = layer;
}

static uint32_t module_of_parameter(fm_run *run, const char *name, const char *leaf)
{
    size_t n = (size_t)(leaf - name);
    char *path = fm_tape_alloc(&run->tape, n + 1);
    memcpy(path, name, n ? n - 1 : 0); // without the dot
    return fm_tape_path(&run->tape, path);
}

// The parameters of the blocks that are recorded and of everything outside blocks.
static void load_parameters(fm_run *run, const fm_model *model)
{
    size_t n = fm_model_n_tensors(model);
    run->parameters = fm_tape_alloc(&run->tape, (n + 1) * sizeof *run->parameters);
    uint32_t *index = fm_tape_alloc(&run->tape, (n + 1) * sizeof *index);
    for (size_t i = 0; i < n; i++) {
        const fm_model_param *p = fm_model_param_at(model, i);
        const fm_model_unit *unit = fm_model_unit_at(model, p->unit);
        index[i] = UINT32_MAX;
        if (unit->kind == FM_UNIT_BLOCK && unit->block >= run->n_layers)
            continue;
        index[i] = run->n_parameters;
        fm_parameter *q = &run->parameters[run->n_parameters++];
        const char *dot = strrchr(p->name, '.');
        q->index = (uint32_t)i;
        q->name = p->name;
        q->leaf = dot ? dot + 1 : p->name;
        q->module = module_of_parameter(run, p->name, q->leaf);
        q->layer = unit->kind == FM_UNIT_BLOCK ? unit->block : FM_NO_LAYER;
        q->elem = p->fp32_always ? FM_ELEM_F32 : fm_elem_of(run->recipe->param);
        q->n_dims = (uint8_t)p->n_dims;
        for (uint32_t d = 0; d < p->n_dims && d < FM_MAX_DIMS; d++)
            q->shape[d] = (int64_t)p->dims[d];
        q->n_elems = p->n_elems;
        q->tied_to = p->tied_to >= 0 ? index[p->tied_to] : UINT32_MAX;
        reserve(run, &run->first_parameter_of_module, &run->n_first_parameter, q->module);
        q->next_in_module = run->first_parameter_of_module[q->module];
        run->first_parameter_of_module[q->module] = run->n_parameters;
    }
    run->moments = fm_tape_alloc(&run->tape, (run->n_parameters + 1) * sizeof *run->moments);
}

// Elements of the parameters that are not recorded (folding), counted by `elems`: for tensors as big as all of them together.
uint64_t fm_run_missing(const fm_run *run, uint64_t (*elems)(const fm_run *run, const fm_parameter *p), uint32_t *n)
{
    uint64_t sum = 0;
    for (size_t i = 0; run->n_layers < run->arch->n_layers && i < fm_model_n_tensors(run->model); i++) {
        const fm_model_param *p = fm_model_param_at(run->model, i);
        const fm_model_unit *unit = fm_model_unit_at(run->model, p->unit);
        if (unit->kind != FM_UNIT_BLOCK || unit->block < run->n_layers || p->tied_to >= 0)
            continue;
        fm_parameter q = {.n_dims = (uint8_t)p->n_dims, .n_elems = p->n_elems, .shape = {(int64_t)p->dims[0]}};
        q.elem = (uint8_t)(p->fp32_always ? FM_ELEM_F32 : fm_elem_of(run->recipe->param));
        sum += elems ? elems(run, &q) : p->n_elems;
        if (n)
            ++*n;
    }
    return sum;
}

static void make_buffers(fm_run *run, const fm_model *model)
{
    uint32_t at = FM_NO_LAYER;
    for (size_t i = 0; i < fm_model_n_buffers(model); i++) {
        const fm_model_buffer *b = fm_model_buffer_at(model, i);
        const char *block = strstr(b->name, "layers.");
        uint32_t layer = block ? (uint32_t)strtoul(block + 7, NULL, 10) : FM_NO_LAYER;
        if (block && layer >= run->n_layers)
            continue;
        fm_run_round(run, &at, layer);
        run->tape.module = fm_tape_path(&run->tape, b->name); // the model's text need not outlive the program
        if (b->n_elems == 1)                                  // made from a Python number: it passes through the host
            fm_tensor_release(&run->tape,
                              fm_tensor_on(&run->tape, FM_TIER_HOST, FM_ROLE_BUFFER, b->bytes, FM_ELEM_U8, "tensor"));
        fm_tensor_on(&run->tape, FM_TIER_DEVICE, FM_ROLE_BUFFER, b->bytes, FM_ELEM_U8, "register_buffer");
    }
    run->tape.module = 0;
    fm_run_round(run, &at, FM_NO_LAYER);
}

// --- one microbatch

static fm_tensor *input(fm_run *run, const char *op)
{
    const int64_t shape[2] = {run->recipe->batch, run->recipe->seq};
    run->tape.role = FM_ROLE_INPUT;
    run->tape.role_forced = true;
    fm_tensor *x = fm_tensor_new(&run->tape, 2, shape, FM_ELEM_I64, op);
    run->tape.role_forced = false;
    return x;
}

static void run_after_backward(fm_tape *t, void *context)
{
    fm_run *run = context;
    (void)t;
    if (run->engine->after_backward)
        run->engine->after_backward(run);
}

static void microbatch(fm_run *run, uint8_t step)
{
    fm_tape *t = &run->tape;
    fm_tape_phase(t, FM_PHASE_FORWARD, step);
    run->ids = input(run, "input_ids");
    run->labels = input(run, "labels");
    if (run->engine->before_microbatch)
        run->engine->before_microbatch(run);
    bool autocast = run->recipe->how == FM_HOW_AUTOCAST;
    if (autocast)
        fm_autocast_enter(t, fm_elem_of(run->recipe->compute));
    fm_tensor *logits = fm_hf_forward(run->stack);
    if (autocast)
        fm_autocast_exit(t);
    // The model's output object holds the logits and the loss; it lives through backward when asked to.
    fm_tensor *held_loss = NULL;
    if (run->recipe->keep_logits == FM_YESNO_YES) {
        held_loss = run->loss;
        fm_tensor_retain(held_loss);
    } else {
        fm_tensor_release(t, logits);
        logits = NULL;
    }
    if (run->n_microbatches > 1) { // loss = loss / accumulate
        fm_tensor *scaled = fm_sink(fm_op_div_scalar(t, run->loss));
        fm_tensor_release(t, run->loss);
        run->loss = scaled;
    }
    fm_tape_phase(t, FM_PHASE_BACKWARD, step);
    fm_backward(t, run->loss);
    fm_tape_phase(t, FM_PHASE_POST, step);
    fm_tensor_release(t, run->loss);
    fm_tensor_release(t, run->ids);
    fm_tensor_release(t, run->labels);
    fm_tensor_release(t, logits);
    fm_tensor_release(t, held_loss);
    run->loss = run->ids = run->labels = NULL;
}

static void zero_gradients(fm_run *run)
{
    uint32_t at = FM_NO_LAYER;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        fm_run_round(run, &at, run->parameters[i].layer);
        fm_tensor *p = run->parameters[i].original;
        if (p && p->grad) {
            fm_tensor *grad = p->grad;
            p->grad = NULL;
            fm_tensor_release(&run->tape, grad);
        }
    }
    fm_run_round(run, &at, FM_NO_LAYER);
}

static void training_step(fm_run *run, uint8_t step)
{
    fm_tape *t = &run->tape;
    for (uint32_t m = 0; m < run->n_microbatches; m++) {
        run->microbatch = m;
        run->last_microbatch = m + 1 == run->n_microbatches;
        microbatch(run, step);
    }
    if (run->recipe->clip >= 0) {
        fm_tape_phase(t, FM_PHASE_CLIP, step);
        if (run->engine->clip)
            run->engine->clip(run);
        else
            fm_clip_gradients(run);
    }
    fm_tape_phase(t, FM_PHASE_OPTIMIZER, step);
    fm_optimizer_step(run);
    fm_tape_phase(t, FM_PHASE_ZERO, step);
    zero_gradients(run);
}

// NULL for an engine that has no file yet; fm_recipe_resolve refuses those by name.
static const fm_engine *engine_of(const fm_recipe *recipe)
{
#define ROW(kind, name)           \
    if (recipe->engine == (kind)) \
        return &fm_engine_##name;
    FM_ENGINE_TABLE(ROW)
#undef ROW
    return NULL;
}

fm_status fm_record(const fm_model *model, const fm_recipe *resolved, const fm_record_options *options,
                    fm_program *program, fm_err *err)
{
    const fm_arch *arch = fm_model_arch(model);
    if (!arch)
        return fm_fail(
            err, FM_ERR_UNSUPPORTED,
            "%s: names no architecture, so its operations are unknown; give a config.json, or a size such as 7B",
            fm_model_name(model));
    const fm_engine *engine = engine_of(resolved);
    if (!engine)
        return fm_fail(err, FM_ERR_LATER, "engine %s comes later",
                       fm_word_text(FM_FIELD_ENGINE, (int)resolved->engine));
    fm_run *run = fm_calloc(1, sizeof *run);
    fm_hf *stack = fm_calloc(1, sizeof *stack);
    memset(program, 0, sizeof *program);
    fm_status status =
        run && stack ? fm_tape_init(&run->tape, program, err) : fm_fail(err, FM_ERR_NO_MEMORY, "plan: out of memory");
    if (status != FM_OK) {
        fm_program_destroy(program);
        goto done;
    }
    if (setjmp(run->tape.escape)) {
        status = fm_tape_status(&run->tape, err);
        fm_program_destroy(program);
        goto done;
    }
    run->recipe = resolved;
    run->model = model;
    run->arch = arch;
    run->options = *options;
    run->engine = engine;
    run->n_layers = options->layers && options->layers < arch->n_layers ? options->layers : arch->n_layers;
    run->n_microbatches = options->microbatches ? options->microbatches : (uint32_t)resolved->accumulate;
    run->tape.inplace_sums = !options->exact;
    run->tape.record_scratch = !options->exact;
    run->tape.capability = options->capability;
    run->tape.after_backward = run_after_backward;
    run->tape.after_context = run;
    run->stack = stack;
    program->n_layers = run->n_layers;
    program->n_layers_model = arch->n_layers;
    fm_hf_init(stack, run);
    load_parameters(run, model);
    fm_tape_phase(&run->tape, FM_PHASE_INIT, 0);
    make_buffers(run, model);
    run->engine->init(run);
    fm_make_master_weights(run);
    for (uint32_t step = 1; step <= (options->steps ? options->steps : 2); step++)
        training_step(run, (uint8_t)step);
    fm_tape_phase(&run->tape, FM_PHASE_POST, 3);
done:
    if (run)
        fm_tape_finish(&run->tape);
    fm_free(stack);
    fm_free(run);
    return status;
}

// How `wrap` cuts a model into fully_shard's units: block, accelerate, separate, root (what each means: cases' column `wrap`).
// Source: torch 2.13, torch/distributed/fsdp/_fully_shard/_fully_shard.py; accelerate 1.15, utils/fsdp_utils.py.
#include "program/engines/fsdp2.h"
#include <string.h>

uint64_t fm_fsdp2_shard_elems(const fm_run *run, const fm_parameter *p)
{
    uint64_t rows = p->n_dims ? (uint64_t)p->shape[0] : 1, w = (uint64_t)run->recipe->shard;
    return rows ? (rows + w - 1) / w * (p->n_elems / rows) : 0;
}

static fm_fsdp2_unit *new_unit(fm_run *run, const char *path)
{
    fm_fsdp2 *f = run->engine_state;
    fm_fsdp2_unit *u = &f->units[++f->n_units];
    u->layer = FM_NO_LAYER;
    u->n_modules = 1;
    u->params = fm_tape_alloc(&run->tape, (run->n_parameters + 1) * sizeof *u->params);
    u->forward_index = fm_tape_alloc(&run->tape, 16 * sizeof *u->forward_index);
    u->module = fm_tape_path(&run->tape, path);
    fm_run_unit(run, path, f->n_units);
    return u;
}

static bool in_module(const fm_parameter *p, const char *path)
{
    size_t n = strlen(path);
    return !strncmp(p->name, path, n) && (p->name[n] == '.' || n == 0);
}

// Moves the parameters under `path` that no unit has yet to u.
static void claim(fm_run *run, fm_fsdp2_unit *u, bool *taken, const char *path)
{
    for (uint32_t i = 0; i < run->n_parameters; i++)
        if (!taken[i] && run->parameters[i].tied_to == UINT32_MAX && in_module(&run->parameters[i], path)) {
            u->params[u->n_params++] = i;
            taken[i] = true;
        }
}

static const char *module_path(fm_run *run, const fm_parameter *p)
{
    return run->tape.program->modules[p->module];
}

// The modules that wrappings name: the token embedding, the final norm, the head.
static void find_ends(fm_run *run, const char **embedding, const char **norm, const char **head, bool *tied)
{
    *embedding = *norm = *head = NULL;
    *tied = false;
    for (uint32_t i = 0; i < run->n_parameters; i++) {
        const fm_parameter *p = &run->parameters[i];
        const fm_model_unit *of = fm_model_unit_at(run->model, fm_model_param_at(run->model, p->index)->unit);
        if (of->kind == FM_UNIT_EMBEDDING && !*embedding)
            *embedding = module_path(run, p);
        if (of->kind == FM_UNIT_NORM && !*norm)
            *norm = module_path(run, p);
        if (of->kind == FM_UNIT_HEAD) {
            *head = module_path(run, p);
            *tied |= p->tied_to != UINT32_MAX;
        }
    }
}

// Another module of the newest unit.
static uint32_t join_group(fm_run *run, const char *path)
{
    fm_run_unit(run, path, ((fm_fsdp2 *)run->engine_state)->n_units);
    return fm_tape_path(&run->tape, path);
}

void fm_fsdp2_wrap(fm_run *run)
{
    fm_fsdp2 *f = run->engine_state;
    bool *taken = fm_tape_alloc(&run->tape, run->n_parameters + 1);
    bool reshard = run->recipe->reshard != FM_RESHARD_NO;
    fm_fsdp2_unit *root = new_unit(run, "");
    f->root = f->n_units;
    fm_wrap_kind wrap = run->recipe->wrap;
    const char *embedding, *norm, *head;
    bool tied;
    find_ends(run, &embedding, &norm, &head, &tied);
    if (embedding && (wrap == FM_WRAP_SEPARATE || (wrap == FM_WRAP_ACCELERATE && !tied))) {
        fm_fsdp2_unit *u = new_unit(run, embedding);
        claim(run, u, taken, embedding);
        u->reshard_after_forward = reshard || wrap == FM_WRAP_SEPARATE; // separate: both ends are always resharded
    }
    if (wrap != FM_WRAP_ROOT)
        for (uint32_t layer = 0; layer < run->n_layers; layer++) {
            const char *path = NULL;
            for (uint32_t i = 0; i < run->n_parameters && !path; i++)
                if (run->parameters[i].layer == layer)
                    path = fm_model_unit_at(run->model, fm_model_param_at(run->model, run->parameters[i].index)->unit)
                               ->name;
            if (!path)
                continue;
            fm_fsdp2_unit *u = new_unit(run, path);
            claim(run, u, taken, path);
            u->layer = layer;
            u->reshard_after_forward = reshard;
        }
    if (head && wrap == FM_WRAP_SEPARATE && !tied) {
        fm_fsdp2_unit *u = new_unit(run, head);
        claim(run, u, taken, head);
        u->reshard_after_forward = true;
    }
    if (wrap == FM_WRAP_ACCELERATE) { // [norm, head], or tied [norm, embedding, head]: never resharded after forward
        const char *const together[] = {norm, tied ? embedding : NULL,
                                        head}; // OPT with norms after its blocks has no final one
        fm_fsdp2_unit *u = NULL;
        for (unsigned i = 0; i < sizeof together / sizeof *together; i++) {
            if (!together[i])
                continue;
            if (!u) {
                u = new_unit(run, together[i]);
                u->modules[0] = u->module;
            } else {
                u->modules[u->n_modules++] = join_group(run, together[i]);
            }
            claim(run, u, taken, together[i]);
        }
    }
    claim(run, root, taken, "");
    root->spans_blocks = wrap == FM_WRAP_ROOT;
    if (root->spans_blocks)
        root->missing_elems = fm_run_missing(run, fm_fsdp2_shard_elems, NULL);
    root->reshard_after_forward = wrap == FM_WRAP_ROOT && reshard;
}

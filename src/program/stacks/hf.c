// Scopes, variables and blocks: how Python's names hold tensors, and where the engine and checkpointing come in.
#include "program/stacks/hf.h"
#include "model/family.h"
#include <stdio.h>
#include <string.h>

static void bind_local(fm_hf *hf, fm_tensor *x)
{
    if (hf->n_locals < FM_HF_MAX_LOCALS)
        hf->locals[hf->n_locals++] = x;
}

static void enter(fm_words *w, const char *module)
{
    fm_hf *hf = fm_hf_of(w);
    uint32_t previous = *module ? fm_tape_enter(hf->t, module) : hf->t->module;
    if (hf->n_scopes < FM_HF_MAX_SCOPES) {
        hf->scopes[hf->n_scopes].path = previous;
        hf->scopes[hf->n_scopes++].first_local = hf->n_locals;
    }
}

// Locals die in the order in which they were bound. What is returned is kept alive across that.
static void close_scope(fm_hf *hf)
{
    if (!hf->n_scopes)
        return;
    hf->n_scopes--;
    unsigned first = hf->scopes[hf->n_scopes].first_local, n = hf->n_locals;
    hf->n_locals = first;
    for (unsigned i = first; i < n; i++) {
        fm_tensor *x = hf->locals[i];
        hf->locals[i] = NULL;
        fm_tensor_release(hf->t, x);
    }
    fm_tape_leave(hf->t, hf->scopes[hf->n_scopes].path);
}

static fm_value *leave(fm_words *w, fm_value *result)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tensor *x = fm_hf_tensor(result);
    if (x && !x->floating)
        fm_tensor_retain(x);
    else if (x)
        x->floating = false;
    close_scope(hf);
    return fm_hf_value(fm_float(x));
}

static fm_value *leave_pair(fm_words *w, fm_value *result, fm_value **second)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tensor *pair[2] = {fm_hf_tensor(result), fm_hf_tensor(*second)};
    for (unsigned i = 0; i < 2; i++) {
        if (pair[i] && !pair[i]->floating)
            fm_tensor_retain(pair[i]);
        else if (pair[i])
            pair[i]->floating = false;
    }
    close_scope(hf);
    *second = fm_hf_value(fm_float(pair[1]));
    return fm_hf_value(fm_float(pair[0]));
}

static fm_value *let(fm_words *w, fm_value *v)
{
    fm_tensor *x = fm_hf_tensor(v);
    if (!x)
        return NULL;
    if (x->floating)
        x->floating = false;
    else
        fm_tensor_retain(x);
    bind_local(fm_hf_of(w), x);
    return v;
}

// The newest name for x in the current scope.
static fm_tensor **find_local(fm_hf *hf, const fm_tensor *x)
{
    unsigned first = hf->n_scopes ? hf->scopes[hf->n_scopes - 1].first_local : 0;
    for (unsigned i = hf->n_locals; i-- > first;)
        if (hf->locals[i] == x)
            return &hf->locals[i];
    return NULL;
}

static void set(fm_words *w, fm_value **variable, fm_value *v)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tensor *old = fm_hf_tensor(*variable), *x = fm_hf_tensor(v);
    if (x && x->floating)
        x->floating = false;
    else if (x)
        fm_tensor_retain(x);
    fm_tensor **name = old ? find_local(hf, old) : NULL;
    *variable = v;
    if (!name) {
        bind_local(hf, x);
        return;
    }
    *name = x;
    fm_tensor_release(hf->t, old);
}

static void del(fm_words *w, fm_value **variable)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tensor *old = fm_hf_tensor(*variable), **name = old ? find_local(hf, old) : NULL;
    *variable = NULL;
    if (name) {
        *name = NULL;
        fm_tensor_release(hf->t, old);
    }
}

static fm_value *hold(fm_words *w, fm_value *v)
{
    (void)w;
    fm_tensor *x = fm_hf_tensor(v);
    if (x && x->floating)
        x->floating = false;
    else if (x)
        fm_tensor_retain(x);
    return v;
}

static void unhold(fm_words *w, fm_value *v)
{
    fm_tensor_release(fm_hf_of(w)->t, fm_hf_tensor(v));
}

// --- blocks

// What a block needs to run once more: a checkpointed region owns its arguments.
struct fm_hf_block {
    fm_hf *hf;
    const fm_arch *arch;
    fm_block_fn *fn;
    fm_block_args args;
    uint32_t layer;
};

enum { N_BLOCK_ARGS = 5 };

static fm_value **block_arg(fm_block_args *args, unsigned i)
{
    fm_value **all[N_BLOCK_ARGS] = {&args->mask, &args->cos, &args->sin, &args->positions, &args->alibi};
    return all[i];
}

static void block_args_hold(fm_block_args *args)
{
    for (unsigned i = 0; i < N_BLOCK_ARGS; i++)
        if (*block_arg(args, i))
            fm_hf_tensor(*block_arg(args, i))->refs++;
}

static void block_args_drop(fm_tape *t, void *context)
{
    struct fm_hf_block *b = context;
    for (unsigned i = 0; i < N_BLOCK_ARGS; i++)
        fm_tensor_release(t, fm_hf_tensor(*block_arg(&b->args, i)));
}

// Runs the block's function in a scope of its own, at the path that is open.
static fm_tensor *run_block(fm_tape *t, void *context, fm_tensor *input)
{
    struct fm_hf_block *b = context;
    fm_hf *hf = b->hf;
    (void)t;
    enter(&hf->words, "");
    fm_value *out = b->fn(&hf->words, b->arch, b->layer, fm_hf_value(input), &b->args);
    return fm_sink(fm_hf_tensor(leave(&hf->words, out)));
}

static fm_value *block(fm_words *w, const fm_arch *arch, const char *list, uint32_t layer, fm_block_fn *fn,
                       fm_value *hidden, const fm_block_args *args)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tape *t = hf->t;
    char name[48];
    snprintf(name, sizeof name, "%s.%u", list, layer);
    fm_tape_round(t, layer);
    uint32_t previous = fm_tape_enter(t, name), unit = fm_run_unit_of(hf->run, t->module);
    fm_tensor *x = fm_hf_tensor(hidden);
    // The block's own copy of its arguments: the engine may replace them (casts, hooks) for this call.
    struct fm_hf_block *b = fm_tape_alloc(t, sizeof *b);
    *b = (struct fm_hf_block){.hf = hf, .arch = arch, .fn = fn, .args = *args, .layer = layer};
    block_args_hold(&b->args);
    fm_tensor_retain(x);
    if (unit && hf->run->engine->pre_forward) {
        fm_tensor *kwargs[N_BLOCK_ARGS];
        for (unsigned i = 0; i < N_BLOCK_ARGS; i++)
            kwargs[i] = fm_hf_tensor(*block_arg(&b->args, i));
        fm_tensor *replaced = hf->run->engine->pre_forward(hf->run, unit, x, kwargs, N_BLOCK_ARGS);
        if (replaced != x) {
            fm_sink(replaced);
            fm_tensor_release(t, x);
            x = replaced;
        }
        for (unsigned i = 0; i < N_BLOCK_ARGS; i++)
            *block_arg(&b->args, i) = fm_hf_value(kwargs[i]);
    }
    fm_tensor *out;
    if (hf->run->recipe->checkpoint == FM_CHECKPOINT_FULL && t->grad_enabled) {
        out = fm_checkpoint(t, run_block, b, block_args_drop, x);
    } else {
        out = run_block(t, b, x);
        block_args_drop(t, b);
    }
    fm_tensor_release(t, x);
    if (unit && hf->run->engine->post_forward)
        out = fm_sink(hf->run->engine->post_forward(hf->run, unit, out));
    fm_tape_leave(t, previous);
    // The loop's own name for what a block returned beside its output is rebound when the next has returned.
    fm_tensor *carried = hf->carried;
    hf->carried = hf->carry_next;
    hf->carry_next = NULL;
    fm_tensor_release(t, carried);
    if (out->grad_fn && layer < hf->run->n_layers)
        out->grad_fn->round = layer + 1;
    return fm_hf_value(fm_float(out));
}

static void carry(fm_words *w, fm_value *value)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tensor *x = fm_hf_tensor(value);
    if (!x || hf->t->recomputing)
        return;
    x->refs++;
    hf->carry_next = x;
}

static uint32_t n_blocks(fm_words *w, const fm_arch *arch)
{
    (void)arch;
    return fm_hf_of(w)->run->n_layers;
}

// --- modules

uint32_t fm_hf_begin(fm_hf *hf, const char *module, fm_tensor **input)
{
    uint32_t previous = fm_tape_enter(hf->t, module), unit = fm_run_unit_of(hf->run, hf->t->module);
    if (unit && hf->run->engine->pre_forward) {
        fm_tensor *replaced = hf->run->engine->pre_forward(hf->run, unit, *input, NULL, 0);
        *input = replaced;
    }
    return previous;
}

fm_tensor *fm_hf_end(fm_hf *hf, uint32_t previous, fm_tensor *output)
{
    uint32_t unit = fm_run_unit_of(hf->run, hf->t->module);
    if (unit && hf->run->engine->post_forward)
        output = hf->run->engine->post_forward(hf->run, unit, output);
    fm_tape_leave(hf->t, previous);
    return output;
}

fm_tensor *fm_hf_parameter(fm_hf *hf, const char *leaf)
{
    return fm_run_parameter(hf->run, hf->t->module, leaf);
}

void fm_hf_init(fm_hf *hf, fm_run *run)
{
    memset(hf, 0, sizeof *hf);
    hf->run = run;
    hf->t = &run->tape;
    fm_words *w = &hf->words;
    w->enter = enter;
    w->leave = leave;
    w->leave_pair = leave_pair;
    w->let = let;
    w->set = set;
    w->del = del;
    w->hold = hold;
    w->unhold = unhold;
    w->n_blocks = n_blocks;
    w->block = block;
    w->carry = carry;
    fm_hf_words_modules(w);
    fm_hf_words_attention(w);
    fm_hf_words_masks(w);
    fm_hf_words_loss(w);
    fm_hf_words_experts(w);
    fm_hf_words_deepseek(w);
    fm_hf_words_families(w);
}

fm_tensor *fm_hf_forward(fm_hf *hf)
{
    fm_run *run = hf->run;
    uint32_t unit = fm_run_unit_of(run, 0);
    if (unit && run->engine->pre_forward)
        run->engine->pre_forward(run, unit, NULL, NULL, 0);
    fm_tensor *logits = fm_sink(fm_hf_tensor(fm_family_forward(&hf->words, run->arch)));
    fm_tensor *carried = hf->carried;
    hf->carried = NULL;
    fm_tensor_release(hf->t, carried);
    if (run->recipe->loss ==
        FM_LOSS_CHUNKED) { // what floats is the head's input under another name: the output holds no logits
        fm_tensor_release(hf->t, logits);
        logits = NULL;
    }
    if (unit && run->engine->post_forward)
        run->engine->post_forward(run, unit, run->loss);
    if (run->engine->root_forward_done)
        run->engine->root_forward_done(run);
    return logits;
}

#include "command/plan_why.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/json_out.h"
#include "base/table.h"
#include "floodmark/tree.h"

// Where each role's rule was read. torch 2.13.0, transformers 5.24.0.
static const char *rule_of(fm_role role, fm_engine_kind engine)
{
    switch (role) {
    case FM_ROLE_PARAMETER:
        return engine == FM_ENGINE_FSDP2
                   ? "torch FSDPParam._init_sharded_param: each parameter cut along dim 0, padded to equal parts"
               : engine == FM_ENGINE_FSDP1
                   ? "torch FlatParamHandle: a unit's parameters in one flat tensor, padded to the ranks"
                   : "torch nn.Module: whole parameters on every rank";
    case FM_ROLE_MASTER:
        return "arithmetic: four bytes a parameter";
    case FM_ROLE_GRADIENT:
        return "torch AccumulateGrad and the engine's reduction: one gradient a parameter, of its shape and type";
    case FM_ROLE_OPTIMIZER:
        return "torch.optim: moments by zeros_like(parameter) at the first step; a step counter each (on the host "
               "unless fused)";
    case FM_ROLE_GATHERED:
        return engine == FM_ENGINE_FSDP1 ? "torch FlatParamHandle._alloc_padded_unsharded_flat_param"
                                         : "torch FSDPParam.init_all_gather_outputs, freed by reshard";
    case FM_ROLE_UNSHARDED_GRADIENT:
        return "torch FSDPParamGroup.post_backward: whole gradients until they are copied for the reduce-scatter";
    case FM_ROLE_ACTIVATION:
        return "torch derivatives.yaml says what each operation saves; transformers' modules say which operations run";
    case FM_ROLE_LOSS:
        return "transformers ForCausalLMLoss: logits copied to fp32, log_softmax saves its output";
    case FM_ROLE_RECOMPUTED:
        return "torch.utils.checkpoint (use_reentrant=False): the block's forward again when its first saved tensor is "
               "asked for";
    case FM_ROLE_BACKWARD:
        return "torch autograd engine: gradients of activations between two nodes, and temporaries of the nodes";
    case FM_ROLE_WEIGHT_CAST:
        return "torch autocast: a weight's cast is cached until the region ends";
    case FM_ROLE_GATHER_INPUT:
    case FM_ROLE_GATHER_BUFFER:
        return "torch foreach_all_gather: shards copied (and cast) into one buffer, gathered into another";
    case FM_ROLE_REDUCE_INPUT:
    case FM_ROLE_REDUCE_OUTPUT:
        return "torch foreach_reduce: gradients laid out in the reduce type, reduced into a shard-sized buffer";
    case FM_ROLE_BUCKET:
        return "torch Reducer: buckets of 1 MiB, then 25 MiB, made when DDP is constructed";
    case FM_ROLE_CLIP:
        return "torch clip_grad_norm_: norms of all gradients, their norm, and the factor";
    case FM_ROLE_STEP:
        return "torch.optim foreach, fused and for-loop implementations: their lists of temporaries";
    case FM_ROLE_BUFFER:
        return "transformers: registered buffers of the model (rotary frequencies)";
    case FM_ROLE_INPUT:
        return "the data loader: input ids and labels, int64";
    case FM_ROLE_SCRATCH:
        return "the kernels' own allocations (FlashAttention backward: softmax_d, dq accumulators)";
    case FM_ROLE_OTHER:
    case FM_N_ROLES:
        break;
    }
    return "";
}

fm_status fm_why_role(const char *name, fm_role *role, fm_err *err)
{
    const char *names[FM_N_ROLES];
    for (int r = 0; r < FM_N_ROLES; r++) {
        names[r] = fm_role_name((fm_role)r);
        size_t i = 0;
        while (name[i] && (name[i] == names[r][i] || (name[i] == '-' && names[r][i] == '_')))
            i++;
        if (!name[i] && !names[r][i]) {
            *role = (fm_role)r;
            return FM_OK;
        }
    }
    const char *near = fm_nearest(name, names, FM_N_ROLES);
    return fm_fail(err, FM_ERR_USAGE, "--why: unknown role \"%.60s\"%s%s%s", name, near ? ": did you mean " : "",
                   near ? near : "; see plan --help", near ? "?" : "");
}

// Buffers that differ only in the layer's number.
typedef struct {
    char *module; // digits of a path's parts replaced by '*'; owned
    const char *op;
    uint8_t phase, step;
    uint64_t bytes, count, total;
} group;

typedef struct {
    group *items;
    size_t n, capacity;
} groups;

// "model.layers.3.mlp" -> "model.layers.*.mlp"
static char *starred(const char *path)
{
    char *out = fm_strdup(path), *to = out;
    for (const char *s = path; out && *s; s++) {
        bool starts = s == path || s[-1] == '.';
        if (starts && isdigit((unsigned char)*s)) {
            const char *end = s;
            while (isdigit((unsigned char)*end))
                end++;
            if (!*end || *end == '.') {
                *to++ = '*';
                s = end - 1;
                continue;
            }
        }
        *to++ = *s;
    }
    if (out)
        *to = 0;
    return out;
}

static fm_status add(groups *g, const fm_program *p, const fm_life *life, fm_err *err)
{
    char *module = starred(p->modules[life->module]);
    if (!module)
        return fm_fail_memory(err, "--why");
    size_t i = 0;
    while (i < g->n &&
           (g->items[i].bytes != life->bytes || g->items[i].op != life->op || g->items[i].phase != life->phase ||
            g->items[i].step != life->step || strcmp(g->items[i].module, module) != 0))
        i++;
    if (i == g->n) {
        group *grown = fm_grow(g->items, &g->capacity, g->n, sizeof *g->items);
        if (!grown) {
            fm_free(module);
            return fm_fail_memory(err, "--why");
        }
        g->items = grown;
        g->items[g->n++] = (group){module, life->op, life->phase, life->step, life->bytes, 0, 0};
    } else {
        fm_free(module);
    }
    g->items[i].count++;
    g->items[i].total += (life->bytes + 511) & ~(uint64_t)511;
    return FM_OK;
}

static int descending(const void *a, const void *b)
{
    const group *x = a, *y = b;
    if (x->total != y->total)
        return x->total < y->total ? 1 : -1;
    int order = strcmp(x->module, y->module);
    return order ? order : strcmp(x->op, y->op);
}

// The lives of the role that are alive just after event `at`.
static fm_status collect(const fm_program *p, size_t at, fm_role role, groups *g, fm_err *err)
{
    bool *alive = fm_calloc(p->n_lives ? p->n_lives : 1, sizeof *alive);
    fm_status status = alive ? FM_OK : fm_fail_memory(err, "--why");
    for (size_t i = 0; !status && i <= at && i < p->n_events; i++) {
        const fm_event *e = &p->events[i];
        if (e->kind == FM_EVENT_ALLOC || e->kind == FM_EVENT_FREE)
            alive[e->subject] = e->kind == FM_EVENT_ALLOC;
        else if (e->kind == FM_EVENT_SCRATCH && i == at)
            alive[e->subject] = true;
    }
    for (size_t l = 0; !status && l < p->n_lives; l++)
        if (alive[l] && p->lives[l].role == role && p->lives[l].tier == FM_TIER_DEVICE)
            status = add(g, p, &p->lives[l], err);
    fm_free(alive);
    if (g->n)
        qsort(g->items, g->n, sizeof *g->items, descending);
    return status;
}

static fm_status print_text(const fm_request *request, const fm_plan *plan, fm_role role, const groups *g,
                            fm_units units, fm_buf *out, fm_err *err)
{
    fm_table t = {0};
    char one[FM_UNITS_TEXT_BYTES], all[FM_UNITS_TEXT_BYTES];
    uint64_t total = 0;
    for (size_t i = 0; i < g->n; i++)
        total += g->items[i].total;
    fm_buf_printf(out, "%s at the peak: %s (%s)\n", fm_role_name(role), fm_format_bytes(all, total, units, 2),
                  fm_role_words(role));
    const char *rule = rule_of(role, request->recipe.engine);
    if (*rule)
        fm_buf_printf(out, "Rule: %s\n", rule);
    if (!g->n)
        return fm_buf_check(out, err);
    fm_buf_add_char(out, '\n');
    fm_table_column(&t, "in all", FM_ALIGN_RIGHT);
    fm_table_column(&t, "times", FM_ALIGN_RIGHT);
    fm_table_column(&t, "each", FM_ALIGN_RIGHT);
    fm_table_column(&t, "made by", FM_ALIGN_LEFT);
    fm_table_column(&t, "in", FM_ALIGN_LEFT);
    fm_table_column(&t, "module", FM_ALIGN_LEFT);
    for (size_t i = 0; i < g->n; i++) {
        const group *x = &g->items[i];
        fm_table_cell(&t, "%s", fm_format_bytes(all, x->total, units, 2));
        fm_table_cell(&t, "%" PRIu64, x->count);
        fm_table_cell(&t, "%s", fm_format_bytes(one, x->bytes, units, 2));
        fm_table_cell(&t, "%s", x->op ? x->op : "");
        fm_table_cell(&t, "%s%s", fm_phase_name((fm_phase)x->phase), x->step == 2 ? "2" : "");
        fm_table_cell(&t, "%s", *x->module ? x->module : "(root)");
    }
    (void)plan;
    fm_status status = fm_table_print(&t, FM_TABLE_PLAIN, 0, out, err);
    fm_table_reset(&t);
    return status ? status : fm_buf_check(out, err);
}

static fm_status print_json(const fm_request *request, fm_role role, const groups *g, fm_buf *out, fm_err *err)
{
    fm_json j;
    fm_json_init(&j, out, true);
    fm_json_begin_object(&j);
    fm_json_put_text(&j, "role", fm_role_name(role));
    fm_json_put_text(&j, "rule", rule_of(role, request->recipe.engine));
    fm_json_key(&j, "buffers");
    fm_json_begin_array(&j);
    for (size_t i = 0; i < g->n; i++) {
        const group *x = &g->items[i];
        fm_json_begin_object(&j);
        fm_json_put_u64(&j, "total_bytes", x->total);
        fm_json_put_u64(&j, "count", x->count);
        fm_json_put_u64(&j, "bytes", x->bytes);
        fm_json_put_text(&j, "op", x->op);
        fm_json_put_text(&j, "module", x->module);
        fm_json_put_text(&j, "phase", fm_phase_name((fm_phase)x->phase));
        fm_json_put_u64(&j, "step", x->step);
        fm_json_end_object(&j);
    }
    fm_json_end_array(&j);
    fm_json_end_object(&j);
    return fm_json_finish(&j, err);
}

fm_status fm_why_print(const fm_request *request, const fm_plan *plan, fm_role role, fm_units units, bool json,
                       fm_buf *out, fm_err *err)
{
    groups g = {0};
    const fm_phase_level *top = &plan->ledger.phase[plan->peak_step][plan->peak_phase];
    fm_status status = collect(&plan->program, top->at, role, &g, err);
    if (!status)
        status = json ? print_json(request, role, &g, out, err) : print_text(request, plan, role, &g, units, out, err);
    for (size_t i = 0; i < g.n; i++)
        fm_free(g.items[i].module);
    fm_free(g.items);
    return status;
}

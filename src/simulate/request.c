#include "simulate/request.h"
#include <inttypes.h>
#include <string.h>
#include "model/arch.h"
#include "model/family.h"
#include "recipe/fields.h"

// Learned positions have a row a token: more tokens than rows is an index out of range, not a choice.
static fm_status check_positions(const fm_model *model, const fm_arch *arch, const fm_recipe *recipe, fm_err *err)
{
    for (size_t i = 0; i < fm_model_n_units(model); i++)
        if (fm_model_unit_at(model, i)->kind == FM_UNIT_POSITIONS && (uint64_t)recipe->seq > arch->max_positions)
            return fm_fail(err, FM_ERR_CONFLICT, "seq %" PRId64 ": %s has learned positions for %" PRIu64 " tokens",
                           recipe->seq, fm_model_name(model), arch->max_positions);
    return FM_OK;
}

// A step's largest tensors times how many of them there can be must stay far inside 64 bits: recording adds up without
// looking. A coarse bound in floating point; what it refuses could never run.
static fm_status check_sizes(const fm_model *model, const fm_arch *arch, const fm_recipe *recipe, fm_err *err)
{
    enum { TENSORS_A_BLOCK = 64, BYTES = 8 };
    double tokens = (double)recipe->batch * (double)recipe->seq, width = (double)arch->vocab;
    bool scores = recipe->attention == FM_ATTENTION_EAGER || recipe->compute == FM_PRECISION_FP32;
    double others[] = {(double)arch->hidden * 4, (double)arch->intermediate * 4, (double)recipe->seq,
                       scores ? (double)arch->n_heads * (double)recipe->seq : 0};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        width = others[i] > width ? others[i] : width;
    if (tokens * width * BYTES * TENSORS_A_BLOCK * ((double)arch->n_layers + 1) > (double)INT64_MAX)
        return fm_fail(err, FM_ERR_OVERFLOW,
                       "batch %" PRId64 " x seq %" PRId64 ": the activations of %s would not fit 64 bits",
                       recipe->batch, recipe->seq, fm_model_name(model));
    return FM_OK;
}

// fully_shard on a head and on the embedding it is tied to: torch ends the first forward with an error.
// Source: torch 2.13, _fsdp_param_group.py, "shared with a parameter already managed by another FSDP group".
static fm_status check_ties(const fm_model *model, const fm_recipe *recipe, fm_err *err)
{
    if (recipe->engine != FM_ENGINE_FSDP2 || recipe->wrap != FM_WRAP_SEPARATE)
        return FM_OK;
    for (size_t i = 0; i < fm_model_n_tensors(model); i++)
        if (fm_model_param_at(model, i)->tied_to >= 0)
            return fm_fail(
                err, FM_ERR_CONFLICT,
                "wrap separate: the head of %s is tied to its embedding, and torch refuses to shard them apart: "
                "use wrap block or accelerate",
                fm_model_name(model));
    return FM_OK;
}

// Classes without torch's fused attention: transformers takes eager by itself, and refuses sdpa by name (modeling_utils.py).
static void settle_attention(const fm_arch *arch, fm_recipe *recipe)
{
    if (!arch->family->no_sdpa || recipe->attention != FM_ATTENTION_SDPA)
        return;
    fm_origin origin = (fm_origin)recipe->origin[FM_FIELD_ATTENTION];
    if (origin == FM_ORIGIN_USER || origin == FM_ORIGIN_FILE) {
        fm_recipe_warn(recipe, "attention sdpa: transformers has none for this model (%s); eager is planned",
                       arch->family->title);
        return;
    }
    recipe->attention = FM_ATTENTION_EAGER;
    recipe->origin[FM_FIELD_ATTENTION] = FM_ORIGIN_MODEL;
}

fm_status fm_request_make(const fm_recipe *recipe, fm_request *out, bool *typed, fm_err *err)
{
    fm_request r = {0};
    bool ignored;
    typed = typed ? typed : &ignored;
    *typed = true;
    if (!recipe->model[0] || !recipe->origin[FM_FIELD_MODEL])
        return fm_fail(err, FM_ERR_USAGE, "no model: name one of the catalogue, a config.json, or a size such as 70B");
    if (!recipe->on[0] || !recipe->origin[FM_FIELD_ON])
        return fm_fail(err, FM_ERR_USAGE, "no machine: say --on 8xH100-80GB, or --ranks N");
    fm_status status = fm_machine_parse(recipe->on, &r.machine, err);
    if (status) {
        *typed = !strchr(recipe->on, '/') && !strstr(recipe->on, ".json"); // else it is a file that is wrong
        return status;
    }
    fm_model_options options = {.layers = recipe->layers > 0 ? (uint32_t)recipe->layers : 0};
    *typed = false;
    if ((status = fm_model_open(recipe->model, &options, &r.model, err)))
        return status;
    const fm_arch *arch = fm_model_arch(r.model);
    fm_recipe_site site = {.machine = r.machine.text,
                           .gpu = r.machine.gpu.name,
                           .world = r.machine.world,
                           .capability = r.machine.gpu.capability};
    if (!arch) {
        status = fm_fail(err, FM_ERR_UNSUPPORTED,
                         "%s names no architecture: a step cannot be planned from parameters alone; give its "
                         "config.json, or a size such as 7B",
                         fm_model_name(r.model));
        goto fail;
    }
    site.max_positions = arch->max_positions < INT64_MAX ? (int64_t)arch->max_positions : 0;
    site.n_heads = arch->n_heads;
    site.n_kv_heads = arch->n_kv_heads;
    site.n_layers = arch->n_layers;
    *typed = true;
    if ((status = fm_recipe_resolve(recipe, &site, &r.recipe, err)) ||
        (status = check_positions(r.model, arch, &r.recipe, err)) || (status = check_ties(r.model, &r.recipe, err)) ||
        (status = check_sizes(r.model, arch, &r.recipe, err)))
        goto fail;
    settle_attention(arch, &r.recipe);
    *out = r;
    return FM_OK;
fail:
    fm_model_destroy(r.model);
    return status;
}

void fm_request_reset(fm_request *request)
{
    fm_model_destroy(request->model);
    request->model = NULL;
}

// Recording one by one takes memory and time by the block; folding does not.
enum { MAX_RECORDED_BLOCKS = 8192 };

static bool too_many_blocks(const fm_request *request)
{
    return (int64_t)fm_model_arch(request->model)->n_layers > MAX_RECORDED_BLOCKS / request->recipe.accumulate;
}

static int64_t drawn_microbatches(const fm_request *request)
{
    // The first microbatch makes the gradients, the others add to them, the last may reduce them: three show it all.
    return request->recipe.accumulate < 3 ? request->recipe.accumulate : 3;
}

bool fm_request_draws(const fm_request *request)
{
    fm_request shorter = *request;
    shorter.recipe.accumulate = drawn_microbatches(request);
    return !too_many_blocks(&shorter);
}

fm_status fm_request_plan(const fm_request *request, bool exact, bool full, fm_plan *plan, fm_err *err)
{
    if (full && too_many_blocks(request))
        return fm_fail(err, FM_ERR_OVERFLOW,
                       "layers %" PRIu32 " x accumulate %" PRId64
                       ": at most %d blocks are recorded one by one; without --full, --why, --emit and --svg equal "
                       "blocks are folded",
                       fm_model_arch(request->model)->n_layers, request->recipe.accumulate, MAX_RECORDED_BLOCKS);
    fm_plan_options options = {.exact = exact, .full = full, .capability = exact ? 0 : request->machine.gpu.capability};
    return fm_plan_make(request->model, &request->recipe, &options, plan, err);
}

fm_status fm_request_plan_blocks(const fm_request *request, fm_plan *plan, fm_err *err)
{
    fm_request shorter = *request;
    shorter.recipe.accumulate = drawn_microbatches(request);
    return fm_request_plan(&shorter, false, true, plan, err);
}

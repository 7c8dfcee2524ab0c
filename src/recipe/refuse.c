// What a recipe may not say: words whose engine or rule is not built yet ("comes later"), and contradictions.
#include <stdio.h>
#include <string.h>
#include "recipe/fields.h"

static fm_status later(fm_err *err, fm_field field, const char *value, const char *instead)
{
    return fm_fail(err, FM_ERR_LATER, "%s %s comes later%s%s", fm_field_name(field), value, *instead ? "; " : "",
                   instead);
}

// A word that its list marks as LATER; the message says what is planned now.
static fm_status refuse_words(const fm_recipe *r, fm_err *err)
{
    char text[FM_RECIPE_TEXT_BYTES], now[200], instead[240];
    for (int f = 0; f < FM_N_FIELDS; f++) {
        const fm_field_row *row = fm_field_row_of((fm_field)f);
        if (row->kind != FM_KIND_WORD && row->kind != FM_KIND_WORDN)
            continue;
        const fm_word *word = fm_word_of((fm_field)f, fm_recipe_word(r, (fm_field)f));
        if (!word || word->status != FM_WORD_LATER)
            continue;
        fm_field_values((fm_field)f, now, sizeof now);
        char *rest = strstr(now, "; later");
        if (rest)
            *rest = 0;
        snprintf(instead, sizeof instead, "planned now: %s", now);
        return later(err, (fm_field)f, fm_recipe_text(r, (fm_field)f, text, sizeof text), instead);
    }
    return FM_OK;
}

static fm_status refuse_degrees(const fm_recipe *r, fm_err *err)
{
    const struct {
        fm_field field;
        int64_t degree;
    } degrees[] = {{FM_FIELD_TP, r->tp}, {FM_FIELD_PP, r->pp}, {FM_FIELD_CP, r->cp}, {FM_FIELD_EP, r->ep}};
    char text[32];
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++)
        if (degrees[i].degree > 1) {
            snprintf(text, sizeof text, "%lld", (long long)degrees[i].degree);
            return later(err, degrees[i].field, text, "data parallelism only for now");
        }
    if (r->sp == FM_YESNO_YES)
        return fm_fail(err, FM_ERR_CONFLICT,
                       "sp yes shards activations in the tensor-parallel group: it needs tp above 1");
    return FM_OK;
}

static fm_status refuse_precision(const fm_recipe *r, fm_err *err)
{
    const char *param = fm_word_text(FM_FIELD_PARAM, r->param);
    fm_state_kind like_param = r->param == FM_PRECISION_FP32   ? FM_STATE_FP32
                               : r->param == FM_PRECISION_BF16 ? FM_STATE_BF16
                                                               : FM_STATE_FP16;
    bool fp32_moments = r->state == FM_STATE_FP32;
    if (r->state != FM_STATE_NONE && r->state != like_param && !fp32_moments)
        return fm_fail(err, FM_ERR_LATER, "state %s for %s parameters comes later; now: the parameters' type, or fp32",
                       fm_word_text(FM_FIELD_STATE, r->state), param);
    if (r->grad != r->param)
        return fm_fail(err, FM_ERR_LATER, "grad %s for %s parameters comes later; now: the parameters' type",
                       fm_word_text(FM_FIELD_GRAD, r->grad), param);
    if (r->how != FM_HOW_POLICY && r->reduce != r->grad)
        return fm_fail(err, FM_ERR_LATER, "reduce %s for %s gradients comes later without how=policy",
                       fm_word_text(FM_FIELD_REDUCE, r->reduce), fm_word_text(FM_FIELD_GRAD, r->grad));
    return FM_OK;
}

fm_status fm_recipe_refuse_later(const fm_recipe *r, fm_err *err)
{
    fm_status status = refuse_words(r, err);
    if (!status)
        status = refuse_degrees(r, err);
    if (!status)
        status = refuse_precision(r, err);
    if (status)
        return status;
    if (r->lora_rank > 0)
        return later(err, FM_FIELD_LORA_RANK, "above 0", "full training only for now");
    if (r->offload & FM_OFFLOAD_ACTIVATIONS)
        return later(err, FM_FIELD_OFFLOAD, "activations", "planned now: params+optimizer under fsdp2");
    if (r->offload && r->engine == FM_ENGINE_FSDP1)
        return later(err, FM_FIELD_OFFLOAD, "under fsdp1", "planned now: params+optimizer under fsdp2");
    if (r->engine == FM_ENGINE_FSDP1 && (r->wrap == FM_WRAP_ACCELERATE || r->wrap == FM_WRAP_SEPARATE))
        return later(err, FM_FIELD_WRAP, "accelerate or separate under fsdp1", "planned now: block, root");
    if (r->engine == FM_ENGINE_FSDP1 && r->replicate > 1)
        return later(err, FM_FIELD_REPLICATE, "above 1 under fsdp1 (HYBRID_SHARD)", "use fsdp2");
    if (r->engine == FM_ENGINE_FSDP1 && r->prefetch != FM_OWN)
        return later(err, FM_FIELD_PREFETCH, "under fsdp1", "use fsdp2, or own");
    if (r->engine_options[0])
        return later(err, FM_FIELD_ENGINE_OPTIONS, r->engine_options, "none for now");
    return FM_OK;
}

// ---- contradictions ----

static fm_status conflict_engine(const fm_recipe *r, const fm_recipe_site *site, fm_err *err)
{
    const char *engine = fm_word_text(FM_FIELD_ENGINE, r->engine);
    bool shards = r->engine != FM_ENGINE_SINGLE && r->engine != FM_ENGINE_DDP;
    if (r->engine == FM_ENGINE_SINGLE && site->world > 1)
        return fm_fail(err, FM_ERR_CONFLICT,
                       "engine single runs on one GPU, and %s has %lld: use ddp, fsdp2, or --on %s", site->machine,
                       (long long)site->world, site->gpu);
    if (!shards && r->wrap != FM_WRAP_NONE)
        return fm_fail(err, FM_ERR_CONFLICT, "wrap %s: engine %s gathers no units; use fsdp2, or drop wrap",
                       fm_word_text(FM_FIELD_WRAP, r->wrap), engine);
    if (shards && r->wrap == FM_WRAP_NONE)
        return fm_fail(err, FM_ERR_CONFLICT, "wrap none: engine %s needs a unit; use block or root", engine);
    if (!shards && r->reshard == FM_RESHARD_YES)
        return fm_fail(err, FM_ERR_CONFLICT, "reshard yes: engine %s gathers no weights; use fsdp2, or drop reshard",
                       engine);
    if (!shards && r->replicate > 1)
        return fm_fail(err, FM_ERR_CONFLICT, "replicate %lld: engine %s does not shard; replicate is for fsdp2",
                       (long long)r->replicate, engine);
    if (!shards && r->offload)
        return fm_fail(err, FM_ERR_CONFLICT, "offload: engine %s keeps everything on its GPU; use fsdp2", engine);
    if (r->offload == FM_OFFLOAD_OPTIMIZER)
        return fm_fail(err, FM_ERR_CONFLICT,
                       "offload optimizer: engine %s moves parameters and optimizer together; write params+optimizer",
                       engine);
    if (!shards && r->prefetch != FM_OWN)
        return fm_fail(err, FM_ERR_CONFLICT, "prefetch %lld: engine %s gathers nothing to fetch; use fsdp2, or own",
                       (long long)r->prefetch, engine);
    int64_t own_stage = shards ? (r->reshard == FM_RESHARD_NO ? 2 : 3) : 0;
    if (r->stage != own_stage)
        return fm_fail(err, FM_ERR_CONFLICT, "stage %lld: engine %s shards as stage %lld; stage is chosen under native",
                       (long long)r->stage, engine, (long long)own_stage);
    return FM_OK;
}

static fm_status conflict_precision(const fm_recipe *r, fm_err *err)
{
    const char *engine = fm_word_text(FM_FIELD_ENGINE, r->engine), *param = fm_word_text(FM_FIELD_PARAM, r->param),
               *compute = fm_word_text(FM_FIELD_COMPUTE, r->compute);
    bool fsdp = fm_engine_is_fsdp(r->engine);
    if (r->how == FM_HOW_POLICY && !fsdp)
        return fm_fail(err, FM_ERR_CONFLICT, "how policy is FSDP's mixed precision; engine %s uses autocast or none",
                       engine);
    if (r->how == FM_HOW_NONE && r->param != r->compute)
        return fm_fail(
            err, FM_ERR_CONFLICT,
            "param %s and compute %s differ, and how none converts nothing: use --how %s, or make them equal", param,
            compute, fsdp ? "policy" : "autocast");
    if (r->how == FM_HOW_AUTOCAST && r->compute == FM_PRECISION_FP32)
        return fm_fail(err, FM_ERR_CONFLICT, "how autocast computes in bf16 or fp16, not in fp32: use --how none");
    if (r->how == FM_HOW_AUTOCAST && r->param != FM_PRECISION_FP32 && r->param != r->compute)
        return fm_fail(err, FM_ERR_CONFLICT, "autocast from %s parameters to %s: use one 16-bit type", param, compute);
    if (r->how == FM_HOW_MASTER && r->master == FM_MASTER_NONE)
        return fm_fail(err, FM_ERR_CONFLICT, "how master needs master weights: --master fp32");
    if (r->master == FM_MASTER_FP32 && r->param == FM_PRECISION_FP32)
        return fm_fail(err, FM_ERR_CONFLICT,
                       "master fp32 beside fp32 parameters would be the same weights twice: --master none");
    if (r->master == FM_MASTER_FP32 && r->how != FM_HOW_MASTER)
        return fm_fail(err, FM_ERR_CONFLICT, "master fp32 goes with how master, not with how %s",
                       fm_word_text(FM_FIELD_HOW, r->how));
    if (r->how == FM_HOW_MASTER && r->param != r->compute)
        return fm_fail(err, FM_ERR_CONFLICT, "how master computes in the type of param (%s), not in %s", param,
                       compute);
    if (r->master == FM_MASTER_FP32 && r->state != FM_STATE_FP32 && r->state != FM_STATE_NONE)
        return fm_fail(err, FM_ERR_CONFLICT, "state %s: moments beside fp32 master weights are fp32",
                       fm_word_text(FM_FIELD_STATE, r->state));
    if (r->optimizer == FM_OPTIMIZER_SGD && r->state != FM_STATE_NONE)
        return fm_fail(err, FM_ERR_CONFLICT, "state %s: sgd without momentum keeps no moments; use sgd-momentum",
                       fm_word_text(FM_FIELD_STATE, r->state));
    if (r->optimizer != FM_OPTIMIZER_SGD && r->state == FM_STATE_NONE)
        return fm_fail(err, FM_ERR_CONFLICT, "state none: %s keeps moments",
                       fm_word_text(FM_FIELD_OPTIMIZER, r->optimizer));
    return FM_OK;
}

static fm_status conflict_model(const fm_recipe *r, const fm_recipe_site *site, fm_err *err)
{
    if (r->sync == FM_SYNC_LAST_KEEP && r->engine != FM_ENGINE_FSDP2)
        return fm_fail(err, FM_ERR_CONFLICT, "sync last-keep keeps fsdp2's gathered weights; engine %s: use last",
                       fm_word_text(FM_FIELD_ENGINE, r->engine));
    if (r->attention == FM_ATTENTION_FLASH && r->compute == FM_PRECISION_FP32)
        return fm_fail(err, FM_ERR_CONFLICT,
                       "attention flash has no fp32 kernels: compute in bf16 or fp16, or use sdpa");
    if (r->attention == FM_ATTENTION_FLASH && site->capability && site->capability < 80)
        return fm_fail(err, FM_ERR_CONFLICT, "attention flash needs compute capability 8.0, and %s has %u.%u: use sdpa",
                       site->gpu, site->capability / 10, site->capability % 10);
    if (r->lora_on[0] || r->lora_dropout > 0)
        return fm_fail(err, FM_ERR_CONFLICT, "lora_on and lora_dropout need lora_rank above 0");
    return FM_OK;
}

fm_status fm_recipe_refuse_conflicts(const fm_recipe *r, const fm_recipe_site *site, fm_err *err)
{
    fm_status status = conflict_engine(r, site, err);
    if (!status)
        status = conflict_precision(r, err);
    return status ? status : conflict_model(r, site, err);
}

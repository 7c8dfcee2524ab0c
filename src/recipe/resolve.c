// From what a person wrote to a recipe without an empty field, each value with its origin.
//
// Sources of the defaults (looked up in torch 2.13.0, transformers 5.24.0, accelerate 1.15.0):
//   attention   transformers picks sdpa where a class supports it (modeling_utils, attn_implementation None)
//   step        torch.optim: foreach=None, fused=None choose foreach for tensors on a GPU (_default_to_fused_or_foreach)
//   reshard     fully_shard(reshard_after_forward=None): yes for every module but the root
//   reduce      MixedPrecisionPolicy.reduce_dtype=None: the type of compute (param_dtype)
//   state       torch.optim makes moments with zeros_like(parameter)
//   sync        torch reduces after each backward unless told otherwise (set_requires_gradient_sync, no_sync)
//   adapter     peft makes adapters in fp32 (autocast_adapter_dtype=True)
//   param, compute, how, reduce: accelerate's mixed_precision="bf16": fp32 parameters; autocast without FSDP, with FSDP a
//   policy; its reduce_dtype would be bf16 under FSDP2: fp32 is torchtitan's and litgpt's choice, and the safer default.
#include <stdio.h>
#include <string.h>
#include "base/checked.h"
#include "recipe/fields.h"

#define FILL(FIELD, member_, value, from)                   \
    do {                                                    \
        if (!fm_recipe_has(r, FM_FIELD_##FIELD)) {          \
            r->member_ = (value);                           \
            r->origin[FM_FIELD_##FIELD] = FM_ORIGIN_##from; \
        }                                                   \
    } while (0)

static void fill_text(fm_recipe *r, fm_field field, char *member, size_t size, const char *text)
{
    if (fm_recipe_has(r, field))
        return;
    memset(member, 0, size);
    snprintf(member, size, "%s", text);
    r->origin[field] = FM_ORIGIN_DEFAULT;
}

static bool keeps_master(const fm_recipe *r)
{
    return r->engine >= FM_ENGINE_ZERO1;
}

static void fill_engine(fm_recipe *r, const fm_recipe_site *site)
{
    FILL(STACK, stack, FM_STACK_HF, DEFAULT);
    FILL(ENGINE, engine, site->world == 1 ? FM_ENGINE_SINGLE : FM_ENGINE_FSDP2, DEFAULT);
    FILL(REPLICATE, replicate, 1, DEFAULT);
    FILL(TP, tp, 1, DEFAULT);
    FILL(SP, sp, FM_YESNO_NO, DEFAULT);
    FILL(PP, pp, 1, DEFAULT);
    FILL(CP, cp, 1, DEFAULT);
    FILL(EP, ep, 1, DEFAULT);
}

// What the engine shards, by its own nature.
static int64_t stage_of(const fm_recipe *r)
{
    switch (r->engine) {
    case FM_ENGINE_FSDP1:
    case FM_ENGINE_FSDP2:
        return r->reshard == FM_RESHARD_NO ? 2 : 3;
    case FM_ENGINE_ZERO1:
        return 1;
    case FM_ENGINE_ZERO2:
        return 2;
    case FM_ENGINE_ZERO3:
        return 3;
    case FM_ENGINE_EMPTY:
    case FM_ENGINE_SINGLE:
    case FM_ENGINE_DDP:
    case FM_ENGINE_MEGATRON:
    case FM_ENGINE_NANOTRON:
    case FM_ENGINE_NATIVE:
        break;
    }
    return 0;
}

static void fill_sharding(fm_recipe *r)
{
    FILL(WRAP, wrap, fm_engine_is_fsdp(r->engine) ? FM_WRAP_BLOCK : FM_WRAP_NONE, ENGINE);
    FILL(RESHARD, reshard, fm_engine_is_fsdp(r->engine) ? FM_RESHARD_DEFAULT : FM_RESHARD_NO, ENGINE);
    if (r->reshard == FM_RESHARD_DEFAULT) { // hf leaves it to torch, whose rule is yes
        r->reshard = fm_engine_is_fsdp(r->engine) ? FM_RESHARD_YES : FM_RESHARD_NO;
        r->origin[FM_FIELD_RESHARD] = FM_ORIGIN_STACK;
    }
    FILL(STAGE, stage, stage_of(r), ENGINE);
    FILL(PREFETCH, prefetch, FM_OWN, ENGINE);
    if (!r->prefetch)
        r->prefetch = FM_OWN;
    FILL(SYNC, sync, FM_SYNC_EACH, ENGINE);
}

static bool is_16_bit(fm_precision_kind p)
{
    return p == FM_PRECISION_BF16 || p == FM_PRECISION_FP16;
}

static fm_precision_kind default_param(const fm_recipe *r)
{
    bool same = fm_recipe_has(r, FM_FIELD_HOW) && r->how == FM_HOW_NONE;
    if (fm_recipe_has(r, FM_FIELD_COMPUTE) && (same || r->compute == FM_PRECISION_FP32))
        return r->compute;
    bool master = fm_recipe_has(r, FM_FIELD_MASTER) && r->master == FM_MASTER_FP32;
    return keeps_master(r) || master ? FM_PRECISION_BF16 : FM_PRECISION_FP32;
}

static fm_precision_kind default_compute(const fm_recipe *r)
{
    bool same = fm_recipe_has(r, FM_FIELD_HOW) && r->how == FM_HOW_NONE;
    return same || is_16_bit(r->param) ? r->param : FM_PRECISION_BF16;
}

static fm_how_kind default_how(const fm_recipe *r)
{
    if (keeps_master(r))
        return r->param == FM_PRECISION_FP32 ? FM_HOW_NONE : FM_HOW_MASTER;
    if (fm_recipe_has(r, FM_FIELD_MASTER) && r->master == FM_MASTER_FP32)
        return FM_HOW_MASTER;
    if (r->param == r->compute)
        return FM_HOW_NONE;
    return fm_engine_is_fsdp(r->engine) ? FM_HOW_POLICY : FM_HOW_AUTOCAST;
}

static fm_state_kind state_like(fm_precision_kind p)
{
    return p == FM_PRECISION_FP32 ? FM_STATE_FP32 : p == FM_PRECISION_BF16 ? FM_STATE_BF16 : FM_STATE_FP16;
}

static fm_state_kind stock_state(const fm_recipe *r)
{
    return r->master == FM_MASTER_FP32 ? FM_STATE_FP32 : state_like(r->param);
}

static void fill_precision(fm_recipe *r)
{
    if (r->precision[0])
        fm_preset_apply(r->precision, r);
    bool chosen =
        fm_recipe_has(r, FM_FIELD_PARAM) || fm_recipe_has(r, FM_FIELD_COMPUTE) || fm_recipe_has(r, FM_FIELD_HOW);
    FILL(PARAM, param, default_param(r), ENGINE);
    FILL(COMPUTE, compute, default_compute(r), ENGINE);
    FILL(HOW, how, default_how(r), ENGINE);
    FILL(GRAD, grad, r->param, ENGINE);
    FILL(REDUCE, reduce, r->how != FM_HOW_POLICY ? r->grad : chosen ? r->compute : FM_PRECISION_FP32, ENGINE);
    FILL(MASTER, master, r->how == FM_HOW_MASTER ? FM_MASTER_FP32 : FM_MASTER_NONE, ENGINE);
    FILL(STATE, state, r->optimizer == FM_OPTIMIZER_SGD ? FM_STATE_NONE : stock_state(r), STACK);
}

static void fill_step(fm_recipe *r)
{
    FILL(OPTIMIZER, optimizer, FM_OPTIMIZER_ADAMW, DEFAULT);
    FILL(STEP, step, FM_STEP_FOREACH, STACK);
    FILL(CLIP, clip, -1.0, DEFAULT);
    FILL(BATCH, batch, 1, DEFAULT);
    FILL(ACCUMULATE, accumulate, 1, DEFAULT);
    FILL(CHECKPOINT, checkpoint, FM_CHECKPOINT_NONE, DEFAULT);
    FILL(ATTENTION, attention, FM_ATTENTION_SDPA, STACK);
    FILL(MASK, mask, FM_MASK_NONE, DEFAULT);
    FILL(KERNELS, kernels, FM_KERNELS_PLAIN, STACK);
    FILL(LOSS, loss, FM_LOSS_FULL, STACK);
    FILL(KEEP_LOGITS, keep_logits, FM_YESNO_NO, DEFAULT);
    FILL(TRAINER, trainer, FM_TRAINER_PLAIN, DEFAULT);
    FILL(OFFLOAD, offload, 0, DEFAULT);
    FILL(METRIC, metric, FM_METRIC_ALLOCATED, DEFAULT);
    FILL(PHASE, phase, FM_AT_RUN, DEFAULT);
    if (r->engine == FM_ENGINE_FSDP2 && r->offload == FM_OFFLOAD_PARAMS) // CPUOffloadPolicy moves all three
        r->offload |= FM_OFFLOAD_OPTIMIZER;
}

static void fill_rest(fm_recipe *r, const fm_recipe_site *site)
{
    int64_t positions = site->max_positions;
    if (positions > 0 && positions < 2048)
        FILL(SEQ, seq, positions, MODEL);
    FILL(SEQ, seq, 2048, DEFAULT);
    FILL(LAYERS, layers, FM_OWN, MODEL);
    FILL(LORA_RANK, lora_rank, 0, DEFAULT);
    FILL(LORA_DROPOUT, lora_dropout, 0, DEFAULT);
    FILL(ADAPTER, adapter, FM_PRECISION_FP32, STACK);
    FILL(BASE, base, FM_BASE_NONE, DEFAULT);
    FILL(BASE_UPCAST, base_upcast, FM_BASE_UPCAST_NO, DEFAULT);
    fill_text(r, FM_FIELD_LORA_ON, r->lora_on, sizeof r->lora_on, "");
    fill_text(r, FM_FIELD_ENGINE_OPTIONS, r->engine_options, sizeof r->engine_options, "");
    fill_text(r, FM_FIELD_VERSION, r->version, sizeof r->version, "torch 2.13.0, transformers 5.24.0");
    fill_text(r, FM_FIELD_MODEL, r->model, sizeof r->model, "");
}

// world = dp x tp x pp x cp, and dp is divided among `replicate` copies of the sharding group.
static fm_status fill_degrees(fm_recipe *r, const fm_recipe_site *site, fm_err *err)
{
    uint64_t model_ranks = 0, ranks = 0;
    if (!fm_mul_u64((uint64_t)r->tp, (uint64_t)r->pp, &model_ranks) ||
        !fm_mul_u64(model_ranks, (uint64_t)r->cp, &model_ranks) ||
        !fm_mul_u64(model_ranks, (uint64_t)r->replicate, &ranks) || ranks > (uint64_t)site->world)
        return fm_fail(err, FM_ERR_CONFLICT,
                       "tp %lld x pp %lld x cp %lld x replicate %lld needs more ranks than the %lld of %s",
                       (long long)r->tp, (long long)r->pp, (long long)r->cp, (long long)r->replicate,
                       (long long)site->world, site->machine);
    if ((uint64_t)site->world % ranks)
        return fm_fail(err, FM_ERR_CONFLICT,
                       "world size %lld (%s) is not divisible by tp %lld x pp %lld x cp %lld x replicate %lld = %llu",
                       (long long)site->world, site->machine, (long long)r->tp, (long long)r->pp, (long long)r->cp,
                       (long long)r->replicate, (unsigned long long)ranks);
    if (site->n_heads > 0 && site->n_heads % r->tp)
        return fm_fail(err, FM_ERR_CONFLICT, "%lld attention heads are not divisible by tp %lld",
                       (long long)site->n_heads, (long long)r->tp);
    if (site->n_kv_heads > 0 && site->n_kv_heads % r->tp)
        return fm_fail(err, FM_ERR_CONFLICT, "%lld key-value heads are not divisible by tp %lld",
                       (long long)site->n_kv_heads, (long long)r->tp);
    if (site->n_layers > 0 && site->n_layers < r->pp)
        return fm_fail(err, FM_ERR_CONFLICT, "pp %lld: the model has only %lld blocks", (long long)r->pp,
                       (long long)site->n_layers);
    r->world = site->world;
    r->dp = site->world / (int64_t)model_ranks;
    r->shard = r->engine == FM_ENGINE_SINGLE || r->engine == FM_ENGINE_DDP ? 1 : r->dp / r->replicate;
    return FM_OK;
}

static void warn(fm_recipe *r, const fm_recipe_site *site)
{
    if (r->state != FM_STATE_NONE && r->state != stock_state(r)) {
        r->state_arithmetic = true;
        fm_recipe_warn(
            r,
            "no stock optimizer keeps %s moments for %s parameters: the states' arithmetic is exact, the step's "
            "temporaries are taken as the stock ones",
            fm_word_text(FM_FIELD_STATE, r->state), fm_word_text(FM_FIELD_PARAM, r->param));
    }
    if (r->master == FM_MASTER_FP32 && !keeps_master(r)) {
        r->state_arithmetic = true;
        fm_recipe_warn(
            r,
            "engine %s keeps no master weights itself: the states' arithmetic is exact, the step that would copy "
            "them is not planned",
            fm_word_text(FM_FIELD_ENGINE, r->engine));
    }
    if (r->how == FM_HOW_AUTOCAST && is_16_bit(r->param))
        fm_recipe_warn(r,
                       "autocast over %s parameters saves no cast of weights; it only raises norms and losses to fp32",
                       fm_word_text(FM_FIELD_PARAM, r->param));
    if (r->how != FM_HOW_NONE && r->compute == FM_PRECISION_FP16 && r->param == FM_PRECISION_FP32)
        fm_recipe_warn(r, "fp16 usually trains with a loss scaler; its few scalars are not counted");
    if (site->capability && site->capability < 80 && (r->compute == FM_PRECISION_BF16 || r->param == FM_PRECISION_BF16))
        fm_recipe_warn(r, "%s has no bf16 units: torch emulates it, slowly; fp16 is the usual choice", site->gpu);
}

fm_status fm_recipe_resolve(const fm_recipe *in, const fm_recipe_site *site, fm_recipe *out, fm_err *err)
{
    fm_recipe resolved = *in, *r = &resolved;
    r->n_warnings = 0;
    r->state_arithmetic = false;
    fill_engine(r, site);
    fill_step(r);
    fill_sharding(r);
    fill_precision(r);
    fill_rest(r, site);
    fill_text(r, FM_FIELD_ON, r->on, sizeof r->on, site->machine);
    fm_status status = fill_degrees(r, site, err);
    if (!status)
        status = fm_recipe_refuse_later(r, err);
    if (!status)
        status = fm_recipe_refuse_conflicts(r, site, err);
    if (status)
        return status;
    warn(r, site);
    *out = resolved;
    return FM_OK;
}

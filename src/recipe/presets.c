// What --precision NAME stands for under each engine.
#include <string.h>
#include "floodmark/tree.h"
#include "recipe/fields.h"

// Engines of one family take a preset the same way.
typedef enum { PLAIN, SHARDED, MASTERED } family;

static family family_of(fm_engine_kind engine)
{
    switch (engine) {
    case FM_ENGINE_FSDP1:
    case FM_ENGINE_FSDP2:
        return SHARDED;
    case FM_ENGINE_ZERO1:
    case FM_ENGINE_ZERO2:
    case FM_ENGINE_ZERO3:
    case FM_ENGINE_MEGATRON:
    case FM_ENGINE_NANOTRON:
    case FM_ENGINE_NATIVE:
        return MASTERED;
    case FM_ENGINE_EMPTY:
    case FM_ENGINE_SINGLE:
    case FM_ENGINE_DDP:
        break;
    }
    return PLAIN;
}

#define P(name, family, param, compute, how, reduce, grad, master, state) \
    {name,                                                                \
     family,                                                              \
     FM_PRECISION_##param,                                                \
     FM_PRECISION_##compute,                                              \
     FM_HOW_##how,                                                        \
     FM_PRECISION_##reduce,                                               \
     FM_PRECISION_##grad,                                                 \
     FM_MASTER_##master,                                                  \
     FM_STATE_##state},

static const struct preset {
    const char *name;
    family family;
    fm_precision_kind param, compute;
    fm_how_kind how;
    fm_precision_kind reduce, grad;
    fm_master_kind master;
    fm_state_kind state;
} presets[] = {
    // clang-format off
    P("fp32", PLAIN, FP32, FP32, NONE, FP32, FP32, NONE, FP32)
    P("fp32", SHARDED, FP32, FP32, NONE, FP32, FP32, NONE, FP32)
    P("fp32", MASTERED, FP32, FP32, NONE, FP32, FP32, NONE, FP32)
    P("bf16", PLAIN, BF16, BF16, NONE, BF16, BF16, NONE, BF16)
    P("bf16", SHARDED, BF16, BF16, NONE, BF16, BF16, NONE, BF16)
    P("bf16", MASTERED, BF16, BF16, MASTER, BF16, BF16, FP32, FP32)
    P("fp16", PLAIN, FP16, FP16, NONE, FP16, FP16, NONE, FP16)
    P("fp16", SHARDED, FP16, FP16, NONE, FP16, FP16, NONE, FP16)
    P("fp16", MASTERED, FP16, FP16, MASTER, FP16, FP16, FP32, FP32)
    P("bf16-mixed", PLAIN, FP32, BF16, AUTOCAST, FP32, FP32, NONE, FP32)
    P("bf16-mixed", SHARDED, FP32, BF16, POLICY, FP32, FP32, NONE, FP32)
    P("bf16-mixed", MASTERED, BF16, BF16, MASTER, BF16, BF16, FP32, FP32)
    P("policy", PLAIN, FP32, BF16, AUTOCAST, FP32, FP32, NONE, FP32)
    P("policy", SHARDED, FP32, BF16, POLICY, FP32, FP32, NONE, FP32)
    P("policy", MASTERED, BF16, BF16, MASTER, BF16, BF16, FP32, FP32)
    P("fp16-mixed", PLAIN, FP32, FP16, AUTOCAST, FP32, FP32, NONE, FP32)
    P("fp16-mixed", SHARDED, FP32, FP16, POLICY, FP32, FP32, NONE, FP32)
    P("fp16-mixed", MASTERED, FP16, FP16, MASTER, FP16, FP16, FP32, FP32)
    P("amp", PLAIN, FP32, BF16, AUTOCAST, FP32, FP32, NONE, FP32)
    P("amp", SHARDED, FP32, BF16, AUTOCAST, FP32, FP32, NONE, FP32)
    P("amp", MASTERED, BF16, BF16, MASTER, BF16, BF16, FP32, FP32)
    // clang-format on
};
enum { N_PRESETS = sizeof presets / sizeof presets[0] };

bool fm_preset_known(const char *name)
{
    for (size_t i = 0; i < N_PRESETS; i++)
        if (!strcmp(presets[i].name, name))
            return true;
    return false;
}

fm_status fm_preset_fail(const char *name, fm_err *err)
{
    const char *names[N_PRESETS];
    for (size_t i = 0; i < N_PRESETS; i++)
        names[i] = presets[i].name;
    const char *near = fm_nearest(name, names, N_PRESETS);
    return fm_fail(
        err, FM_ERR_VALUE,
        "precision: unknown preset \"%.60s\"%s%s%s (presets: fp32, bf16, fp16, bf16-mixed, policy, fp16-mixed, amp)",
        name, near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
}

void fm_preset_apply(const char *name, fm_recipe *recipe)
{
    const struct preset *p = presets;
    while (p < presets + N_PRESETS && (strcmp(p->name, name) != 0 || p->family != family_of(recipe->engine)))
        p++;
    if (p == presets + N_PRESETS)
        return;
#define FILL(FIELD, member)                                  \
    if (!fm_recipe_has(recipe, FM_FIELD_##FIELD)) {          \
        recipe->member = p->member;                          \
        recipe->origin[FM_FIELD_##FIELD] = FM_ORIGIN_PRESET; \
    }
    FILL(PARAM, param)
    FILL(COMPUTE, compute)
    FILL(HOW, how)
    FILL(REDUCE, reduce)
    FILL(GRAD, grad)
    FILL(MASTER, master)
    if (recipe->optimizer != FM_OPTIMIZER_SGD)
        FILL(STATE, state)
#undef FILL
}

const char *fm_recipe_presets_help(void)
{
    return "  --precision NAME sets param, compute, how, reduce, grad, master and state where you do not:\n"
           "    fp32        everything fp32\n"
           "    bf16, fp16  everything in it, how=none; zero*, megatron, nanotron, native: fp32 master and moments\n"
           "    bf16-mixed  single, ddp: fp32 parameters, gradients and moments, autocast in bf16\n"
           "                fsdp1, fsdp2: the same stored, an FSDP policy computes in bf16 and reduces in fp32\n"
           "                zero*, megatron, nanotron, native: bf16 parameters and gradients, fp32 master and moments\n"
           "    policy      another name of bf16-mixed\n"
           "    fp16-mixed  as bf16-mixed, in fp16 (a loss scaler's scalars are not counted)\n"
           "    amp         as bf16-mixed, but torch.autocast also under fsdp1 and fsdp2\n"
           "  Without it the values are bf16-mixed's; a 16-bit --param alone means compute in it, how=none.\n";
}

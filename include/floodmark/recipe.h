// A recipe: how a model is trained. One field per column of the cases' vocabulary (docs/recipes.md), typed.
//
// One table, FM_RECIPE_FIELDS, drives the struct's readers and writers: command line flags (`--seq 4096`), recipe files
// (YAML or JSON), `--help` and the cells of case files. A field nobody has set is *empty*: its origin is
// FM_ORIGIN_EMPTY. fm_recipe_resolve fills every empty field from the stack's and the engine's defaults, refuses
// contradictions (FM_ERR_CONFLICT) and what is not built yet (FM_ERR_LATER); builders only ever see a resolved recipe.
//
// Ownership: a recipe holds no pointers; copy it by value. Threads: pure functions of their arguments.
#ifndef FLOODMARK_RECIPE_H
#define FLOODMARK_RECIPE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Word lists: X(value, "spelling", status, "help"). `status` is FM_WORD_NOW (planned), FM_WORD_LATER (known, refused with
// "comes later") or FM_WORD_OUT (written by resolve where the field has no meaning; accepted so that files read back).
// Every enum starts with ..._EMPTY = 0.
#define FM_STACK_LIST(X)                                           \
    X(FM_STACK_HF, "hf", NOW, "Hugging Face transformers modules") \
    X(FM_STACK_TORCHTITAN, "torchtitan", LATER, "torchtitan")      \
    X(FM_STACK_LITGPT, "litgpt", LATER, "LitGPT")                  \
    X(FM_STACK_TORCHTUNE, "torchtune", LATER, "torchtune")         \
    X(FM_STACK_NANOTRON, "nanotron", LATER, "nanotron")            \
    X(FM_STACK_NATIVE, "native", LATER, "Floodmark's own kernels")

#define FM_ENGINE_LIST(X)                                              \
    X(FM_ENGINE_SINGLE, "single", NOW, "one process, nothing sharded") \
    X(FM_ENGINE_DDP, "ddp", NOW, "torch DistributedDataParallel")      \
    X(FM_ENGINE_FSDP1, "fsdp1", NOW, "torch FullyShardedDataParallel") \
    X(FM_ENGINE_FSDP2, "fsdp2", NOW, "torch fully_shard")              \
    X(FM_ENGINE_ZERO1, "zero1", LATER, "DeepSpeed ZeRO stage 1")       \
    X(FM_ENGINE_ZERO2, "zero2", LATER, "DeepSpeed ZeRO stage 2")       \
    X(FM_ENGINE_ZERO3, "zero3", LATER, "DeepSpeed ZeRO stage 3")       \
    X(FM_ENGINE_MEGATRON, "megatron", LATER, "Megatron-LM")            \
    X(FM_ENGINE_NANOTRON, "nanotron", LATER, "nanotron")               \
    X(FM_ENGINE_NATIVE, "native", LATER, "Floodmark's own trainer")

#define FM_WRAP_LIST(X)                                                                                     \
    X(FM_WRAP_BLOCK, "block", NOW, "each decoder layer, then the root with embedding, final norm and head") \
    X(FM_WRAP_ACCELERATE, "accelerate", NOW, "layers; embedding; [final norm, head] never resharded")       \
    X(FM_WRAP_SEPARATE, "separate", NOW, "layers; embedding; head; both resharded")                         \
    X(FM_WRAP_ROOT, "root", NOW, "the whole model at once")                                                 \
    X(FM_WRAP_NONE, "none", OUT, "the engine wraps nothing")

#define FM_RESHARD_LIST(X)                                                                   \
    X(FM_RESHARD_YES, "yes", NOW, "free gathered weights after forward (fsdp1: FULL_SHARD)") \
    X(FM_RESHARD_NO, "no", NOW, "keep them until backward (fsdp1: SHARD_GRAD_OP)")           \
    X(FM_RESHARD_DEFAULT, "default", NOW, "the stack's own rule (hf: yes)")

#define FM_YESNO_LIST(X)          \
    X(FM_YESNO_NO, "no", NOW, "") \
    X(FM_YESNO_YES, "yes", NOW, "")

#define FM_PRECISION_LIST(X)              \
    X(FM_PRECISION_FP32, "fp32", NOW, "") \
    X(FM_PRECISION_BF16, "bf16", NOW, "") \
    X(FM_PRECISION_FP16, "fp16", NOW, "")

#define FM_HOW_LIST(X)                                                  \
    X(FM_HOW_NONE, "none", NOW, "products run in the parameters' type") \
    X(FM_HOW_AUTOCAST, "autocast", NOW, "torch.autocast")               \
    X(FM_HOW_POLICY, "policy", NOW, "an FSDP mixed-precision policy")   \
    X(FM_HOW_MASTER, "master", NOW, "an engine that keeps master weights")

#define FM_MASTER_LIST(X)              \
    X(FM_MASTER_NONE, "none", NOW, "") \
    X(FM_MASTER_FP32, "fp32", NOW, "")

#define FM_STATE_LIST(X)                                                    \
    X(FM_STATE_FP32, "fp32", NOW, "")                                       \
    X(FM_STATE_BF16, "bf16", NOW, "")                                       \
    X(FM_STATE_FP16, "fp16", NOW, "what torch keeps for fp16 parameters")   \
    X(FM_STATE_INT8, "int8", LATER, "")                                     \
    X(FM_STATE_INT4, "int4", LATER, "")                                     \
    X(FM_STATE_FP8, "fp8", LATER, "")                                       \
    X(FM_STATE_FACTORED, "factored", LATER, "rows and columns (adafactor)") \
    X(FM_STATE_NONE, "none", OUT, "the optimizer keeps no moments")

#define FM_OPTIMIZER_LIST(X)                                                            \
    X(FM_OPTIMIZER_ADAMW, "adamw", NOW, "torch AdamW: two moments and a step counter")  \
    X(FM_OPTIMIZER_SGD, "sgd", NOW, "torch SGD, no momentum")                           \
    X(FM_OPTIMIZER_SGD_MOMENTUM, "sgd-momentum", NOW, "torch SGD with momentum")        \
    X(FM_OPTIMIZER_ADAMW_PAGED, "adamw-paged", LATER, "")                               \
    X(FM_OPTIMIZER_ADAFACTOR, "adafactor", LATER, "")                                   \
    X(FM_OPTIMIZER_LION, "lion", LATER, "")                                             \
    X(FM_OPTIMIZER_MUON, "muon", LATER, "")                                             \
    X(FM_OPTIMIZER_NONE, "none", LATER, "no step at all")                               \
    X(FM_OPTIMIZER_HF_ADAFACTOR, "hf-adafactor", LATER, "")                             \
    X(FM_OPTIMIZER_TORCH_ADAFACTOR_FOREACH, "torch-adafactor-foreach", LATER, "")       \
    X(FM_OPTIMIZER_TORCH_ADAFACTOR_FORLOOP, "torch-adafactor-forloop", LATER, "")       \
    X(FM_OPTIMIZER_AO_ADAMW8BIT, "ao-adamw8bit", LATER, "torchao")                      \
    X(FM_OPTIMIZER_AO_ADAMW4BIT, "ao-adamw4bit", LATER, "torchao")                      \
    X(FM_OPTIMIZER_BNB_ADAMW8BIT, "bnb-adamw8bit", LATER, "bitsandbytes")               \
    X(FM_OPTIMIZER_BNB_PAGED_ADAMW8BIT, "bnb-paged-adamw8bit", LATER, "bitsandbytes")   \
    X(FM_OPTIMIZER_BNB_PAGED_ADAMW32BIT, "bnb-paged-adamw32bit", LATER, "bitsandbytes") \
    X(FM_OPTIMIZER_BNB_ADEMAMIX8BIT, "bnb-ademamix8bit", LATER, "bitsandbytes")         \
    X(FM_OPTIMIZER_BNB_LION8BIT, "bnb-lion8bit", LATER, "bitsandbytes")                 \
    X(FM_OPTIMIZER_BNB_LION32BIT, "bnb-lion32bit", LATER, "bitsandbytes")

#define FM_STEP_LIST(X)                                                                         \
    X(FM_STEP_FOREACH, "foreach", NOW, "lists of tensors at a time (torch's default on a GPU)") \
    X(FM_STEP_FUSED, "fused", NOW, "one kernel")                                                \
    X(FM_STEP_LOOP, "loop", NOW, "one tensor at a time")

#define FM_SYNC_LIST(X)                                                      \
    X(FM_SYNC_EACH, "each", NOW, "reduce gradients after every microbatch")  \
    X(FM_SYNC_LAST, "last", NOW, "reduce after the last one only (no_sync)") \
    X(FM_SYNC_LAST_KEEP, "last-keep", NOW, "the same, and gathered weights are kept in between")

// selective:N is FM_CHECKPOINT_SELECTIVE_N with N in checkpoint_n.
#define FM_CHECKPOINT_LIST(X)                                                                        \
    X(FM_CHECKPOINT_NONE, "none", NOW, "every saved tensor is kept")                                 \
    X(FM_CHECKPOINT_FULL, "full", NOW, "each block is run again in backward")                        \
    X(FM_CHECKPOINT_SELECTIVE_OP, "selective:op", LATER, "torchtitan's per-operation policy")        \
    X(FM_CHECKPOINT_SELECTIVE_ATTENTION, "selective:attention", LATER, "all but the attention core") \
    X(FM_CHECKPOINT_SELECTIVE_N, "selective:N", LATER, "every Nth block")

#define FM_ATTENTION_LIST(X)                                                                  \
    X(FM_ATTENTION_EAGER, "eager", NOW, "products, mask and softmax one by one")              \
    X(FM_ATTENTION_SDPA, "sdpa", NOW, "the kernel torch picks for type, shape, mask and GPU") \
    X(FM_ATTENTION_FLASH, "flash", NOW, "FlashAttention 2")                                   \
    X(FM_ATTENTION_FLEX, "flex", LATER, "")

#define FM_MASK_LIST(X)                            \
    X(FM_MASK_NONE, "none", NOW, "full sequences") \
    X(FM_MASK_PADDING, "padding", LATER, "")       \
    X(FM_MASK_PACKED, "packed", LATER, "")

#define FM_KERNELS_LIST(X)                                                          \
    X(FM_KERNELS_PLAIN, "plain", NOW, "the stack's own modules")                    \
    X(FM_KERNELS_FUSED, "fused", LATER, "fused norms, rotary, activation and loss") \
    X(FM_KERNELS_COMPILED, "compiled", LATER, "torch.compile")

// chunked:N and split:N carry N in loss_n.
#define FM_LOSS_LIST(X)                                                                                      \
    X(FM_LOSS_FULL, "full", NOW, "all logits, cross-entropy in fp32")                                        \
    X(FM_LOSS_CHUNKED, "chunked:N", NOW, "head and loss over N parts of the tokens, recomputed in backward") \
    X(FM_LOSS_SPLIT, "split:N", LATER, "logits made and kept in pieces of N tokens")                         \
    X(FM_LOSS_FUSED, "fused", LATER, "linear and loss in one kernel")                                        \
    X(FM_LOSS_NONE, "none", NOW, "mean of the logits")

#define FM_BASE_LIST(X)                               \
    X(FM_BASE_NONE, "none", NOW, "no quantized base") \
    X(FM_BASE_NF4, "nf4", LATER, "")                  \
    X(FM_BASE_NF4_DQ, "nf4-dq", LATER, "")            \
    X(FM_BASE_GPTQ_INT4, "gptq-int4", LATER, "")      \
    X(FM_BASE_GPTQ_INT8, "gptq-int8", LATER, "")      \
    X(FM_BASE_INT8, "int8", LATER, "")                \
    X(FM_BASE_FP8, "fp8", LATER, "")

#define FM_BASE_UPCAST_LIST(X)                                               \
    X(FM_BASE_UPCAST_NO, "no", NOW, "")                                      \
    X(FM_BASE_UPCAST_YES, "yes", LATER, "norms, embedding and head in fp32") \
    X(FM_BASE_UPCAST_NORMS, "norms", LATER, "norms in fp32")

#define FM_TRAINER_LIST(X)                                                                      \
    X(FM_TRAINER_PLAIN, "plain", NOW, "a plain loop: forward, backward, clip, step, zero_grad") \
    X(FM_TRAINER_HF, "hf", LATER, "what the HF Trainer with bf16=True does besides")

#define FM_METRIC_LIST(X)                                                       \
    X(FM_METRIC_ALLOCATED, "allocated", NOW, "torch.cuda.max_memory_allocated") \
    X(FM_METRIC_RESERVED, "reserved", LATER, "torch.cuda.max_memory_reserved")  \
    X(FM_METRIC_DEVICE, "device", LATER, "what the driver reports")

#define FM_AT_LIST(X)                                                \
    X(FM_AT_INIT, "init", NOW, "")                                   \
    X(FM_AT_FORWARD, "forward", NOW, "")                             \
    X(FM_AT_LOSS, "loss", NOW, "")                                   \
    X(FM_AT_BACKWARD, "backward", NOW, "")                           \
    X(FM_AT_CLIP, "clip", NOW, "")                                   \
    X(FM_AT_OPTIMIZER, "optimizer", NOW, "")                         \
    X(FM_AT_FORWARD2, "forward2", NOW, "")                           \
    X(FM_AT_LOSS2, "loss2", NOW, "")                                 \
    X(FM_AT_BACKWARD2, "backward2", NOW, "")                         \
    X(FM_AT_CLIP2, "clip2", NOW, "")                                 \
    X(FM_AT_OPTIMIZER2, "optimizer2", NOW, "")                       \
    X(FM_AT_STEADY, "steady", NOW, "the highest of the second step") \
    X(FM_AT_RUN, "run", NOW, "the highest of the run")               \
    X(FM_AT_HOST, "host", NOW, "the highest level of the host")

#define FM_WORD_ENUM(value, spelling, status, help) value,
typedef enum { FM_STACK_EMPTY, FM_STACK_LIST(FM_WORD_ENUM) } fm_stack_kind;
typedef enum { FM_ENGINE_EMPTY, FM_ENGINE_LIST(FM_WORD_ENUM) } fm_engine_kind;
static inline bool fm_engine_is_fsdp(fm_engine_kind engine)
{
    return engine == FM_ENGINE_FSDP1 || engine == FM_ENGINE_FSDP2;
}
typedef enum { FM_WRAP_EMPTY, FM_WRAP_LIST(FM_WORD_ENUM) } fm_wrap_kind;
typedef enum { FM_RESHARD_EMPTY, FM_RESHARD_LIST(FM_WORD_ENUM) } fm_reshard_kind;
typedef enum { FM_YESNO_EMPTY, FM_YESNO_LIST(FM_WORD_ENUM) } fm_yesno_kind;
typedef enum { FM_PRECISION_EMPTY, FM_PRECISION_LIST(FM_WORD_ENUM) } fm_precision_kind;
typedef enum { FM_HOW_EMPTY, FM_HOW_LIST(FM_WORD_ENUM) } fm_how_kind;
typedef enum { FM_MASTER_EMPTY, FM_MASTER_LIST(FM_WORD_ENUM) } fm_master_kind;
typedef enum { FM_STATE_EMPTY, FM_STATE_LIST(FM_WORD_ENUM) } fm_state_kind;
typedef enum { FM_OPTIMIZER_EMPTY, FM_OPTIMIZER_LIST(FM_WORD_ENUM) } fm_optimizer_kind;
typedef enum { FM_STEP_EMPTY, FM_STEP_LIST(FM_WORD_ENUM) } fm_step_kind;
typedef enum { FM_SYNC_EMPTY, FM_SYNC_LIST(FM_WORD_ENUM) } fm_sync_kind;
typedef enum { FM_CHECKPOINT_EMPTY, FM_CHECKPOINT_LIST(FM_WORD_ENUM) } fm_checkpoint_kind;
typedef enum { FM_ATTENTION_EMPTY, FM_ATTENTION_LIST(FM_WORD_ENUM) } fm_attention_kind;
typedef enum { FM_MASK_EMPTY, FM_MASK_LIST(FM_WORD_ENUM) } fm_mask_kind;
typedef enum { FM_KERNELS_EMPTY, FM_KERNELS_LIST(FM_WORD_ENUM) } fm_kernels_kind;
typedef enum { FM_LOSS_EMPTY, FM_LOSS_LIST(FM_WORD_ENUM) } fm_loss_kind;
typedef enum { FM_BASE_EMPTY, FM_BASE_LIST(FM_WORD_ENUM) } fm_base_kind;
typedef enum { FM_BASE_UPCAST_EMPTY, FM_BASE_UPCAST_LIST(FM_WORD_ENUM) } fm_base_upcast_kind;
typedef enum { FM_TRAINER_EMPTY, FM_TRAINER_LIST(FM_WORD_ENUM) } fm_trainer_kind;
typedef enum { FM_METRIC_EMPTY, FM_METRIC_LIST(FM_WORD_ENUM) } fm_metric_kind;
typedef enum { FM_AT_EMPTY, FM_AT_LIST(FM_WORD_ENUM) } fm_at_kind;
#undef FM_WORD_ENUM

// Bits of `offload`.
enum { FM_OFFLOAD_OPTIMIZER = 1, FM_OFFLOAD_PARAMS = 2, FM_OFFLOAD_ACTIVATIONS = 4 };

// The table: X(FIELD, member, kind, words, "help", "default"). The flag is the member's name with '-' for '_'.
// Kinds: WORD (one of a list), WORDN (a list some of whose words carry ":N"), COUNT (integer >= 1), NUMBER (integer
// >= 0, or "own" = -1), CLIP (no, yes or a number), REAL (number in [0, 1)), BITS (words joined by +), TEXT.
#define FM_RECIPE_FIELDS(X)                                                                                       \
    X(MODEL, model, TEXT, none, "a catalogue name, a path, or a size such as 70B", "none: must be named")         \
    X(LAYERS, layers, NUMBER, none, "replaces the model's number of blocks", "the model's own")                   \
    X(ON, on, TEXT, none, "the machine, NODESxGPUSxNAME or a JSON file", "none: must be named")                   \
    X(STACK, stack, WORD, FM_STACK, "whose modules and defaults run", "hf")                                       \
    X(ENGINE, engine, WORD, FM_ENGINE, "who owns sharding and the step", "single on one GPU, else fsdp2")         \
    X(STAGE, stage, NUMBER, none, "native, nanotron: what is sharded, 0 to 3", "what the engine shards")          \
    X(WRAP, wrap, WORD, FM_WRAP, "what one gathered unit is", "block under fsdp1 and fsdp2")                      \
    X(REPLICATE, replicate, COUNT, none, "HSDP: copies of the sharding group", "1")                               \
    X(RESHARD, reshard, WORD, FM_RESHARD, "free gathered weights after forward", "the stack's rule (hf: yes)")    \
    X(TP, tp, COUNT, none, "tensor-parallel degree", "1")                                                         \
    X(SP, sp, WORD, FM_YESNO, "sequence parallelism in the tensor-parallel group", "no")                          \
    X(PP, pp, COUNT, none, "pipeline stages", "1")                                                                \
    X(CP, cp, COUNT, none, "context-parallel degree", "1")                                                        \
    X(EP, ep, COUNT, none, "expert-parallel degree", "1")                                                         \
    X(PARAM, param, WORD, FM_PRECISION, "trained parameters at rest", "fp32; the type of compute with how=none")  \
    X(COMPUTE, compute, WORD, FM_PRECISION, "what matrix products run in", "bf16; the type of 16-bit parameters") \
    X(HOW, how, WORD, FM_HOW, "how compute differs from param",                                                   \
      "none where they are equal; policy under fsdp1 and fsdp2, else autocast")                                   \
    X(REDUCE, reduce, WORD, FM_PRECISION, "gradient reduction",                                                   \
      "the gradient's type; under a policy fp32 (compute's type if you chose param, compute or how yourself)")    \
    X(GRAD, grad, WORD, FM_PRECISION, "gradients at rest", "the type of param")                                   \
    X(MASTER, master, WORD, FM_MASTER, "separate master weights", "none; fp32 with how=master")                   \
    X(STATE, state, WORD, FM_STATE, "optimizer moments at rest", "the type of master weights, else of param")     \
    X(OPTIMIZER, optimizer, WORD, FM_OPTIMIZER, "", "adamw")                                                      \
    X(STEP, step, WORD, FM_STEP, "implementation of the optimizer step", "foreach (torch's on a GPU)")            \
    X(CLIP, clip, CLIP, none, "gradient-norm clipping: no, a number; yes = 1.0", "no")                            \
    X(SEQ, seq, COUNT, none, "tokens per sample", "2048, or what the model's positions allow if less")            \
    X(BATCH, batch, COUNT, none, "samples per microbatch and rank", "1")                                          \
    X(ACCUMULATE, accumulate, COUNT, none, "microbatches per step", "1")                                          \
    X(SYNC, sync, WORD, FM_SYNC, "when gradients are reduced while accumulating", "each")                         \
    X(CHECKPOINT, checkpoint, WORDN, FM_CHECKPOINT, "activation checkpointing per block", "none")                 \
    X(ATTENTION, attention, WORD, FM_ATTENTION, "attention implementation", "sdpa (transformers')")               \
    X(MASK, mask, WORD, FM_MASK, "what the batch brings", "none")                                                 \
    X(KERNELS, kernels, WORD, FM_KERNELS, "", "plain")                                                            \
    X(LOSS, loss, WORDN, FM_LOSS, "how logits and cross-entropy are held", "full")                                \
    X(KEEP_LOGITS, keep_logits, WORD, FM_YESNO, "the output stays referenced during backward", "no")              \
    X(PREFETCH, prefetch, NUMBER, none, "explicit prefetch depth, or own", "own: the engine's")                   \
    X(LORA_RANK, lora_rank, NUMBER, none, "rank of trained adapters on a frozen base; 0 = none", "0")             \
    X(LORA_ON, lora_on, TEXT, none, "module names joined by commas; all = every linear but the head", "")         \
    X(LORA_DROPOUT, lora_dropout, REAL, none, "dropout before the adapter", "0")                                  \
    X(ADAPTER, adapter, WORD, FM_PRECISION, "type of the adapter's parameters", "as peft makes them: fp32")       \
    X(BASE, base, WORD, FM_BASE, "how a frozen base is stored", "none")                                           \
    X(BASE_UPCAST, base_upcast, WORD, FM_BASE_UPCAST, "what of a quantized base was upcast to fp32", "no")        \
    X(TRAINER, trainer, WORD, FM_TRAINER, "", "plain")                                                            \
    X(OFFLOAD, offload, BITS, FM_OFFLOAD, "to host memory: none, or optimizer, params, activations joined by +",  \
      "none")                                                                                                     \
    X(ENGINE_OPTIONS, engine_options, TEXT, none, "key=value;... that one engine alone knows", "")                \
    X(METRIC, metric, WORD, FM_METRIC, "which figure", "allocated")                                               \
    X(PHASE, phase, WORD, FM_AT, "where the figure is taken", "run")                                              \
    X(VERSION, version, TEXT, none, "of the stack or framework", "torch 2.13.0, transformers 5.24.0")

#define FM_FIELD_ENUM(field, member, kind, words, help, rule) FM_FIELD_##field,
typedef enum { FM_RECIPE_FIELDS(FM_FIELD_ENUM) FM_N_FIELDS } fm_field;
#undef FM_FIELD_ENUM

// Where a value came from. FM_ORIGIN_EMPTY: nobody has set it (never in a resolved recipe).
#define FM_ORIGIN_LIST(X)         \
    X(FM_ORIGIN_EMPTY, "empty")   \
    X(FM_ORIGIN_USER, "user")     \
    X(FM_ORIGIN_FILE, "file")     \
    X(FM_ORIGIN_PRESET, "preset") \
    X(FM_ORIGIN_STACK, "stack")   \
    X(FM_ORIGIN_ENGINE, "engine") \
    X(FM_ORIGIN_MODEL, "model")   \
    X(FM_ORIGIN_DEFAULT, "default")
#define FM_ORIGIN_ENUM(value, spelling) value,
typedef enum { FM_ORIGIN_LIST(FM_ORIGIN_ENUM) } fm_origin;
#undef FM_ORIGIN_ENUM

enum { FM_RECIPE_NAME_BYTES = 1024, FM_RECIPE_TEXT_BYTES = 256, FM_RECIPE_OPTIONS_BYTES = 512, FM_MAX_WARNINGS = 8 };

// Numbers that are "the engine's or the model's own".
#define FM_OWN (-1)

typedef struct fm_recipe {
    char model[FM_RECIPE_NAME_BYTES];
    int64_t layers; // blocks; FM_OWN = the model's own
    char on[FM_RECIPE_NAME_BYTES];
    fm_stack_kind stack;
    fm_engine_kind engine;
    int64_t stage; // resolved: 0..3 (single, ddp 0; fsdp 3, or 2 when gathered weights are kept)
    fm_wrap_kind wrap;
    int64_t replicate;
    fm_reshard_kind reshard; // resolved: yes or no
    int64_t tp;
    fm_yesno_kind sp;
    int64_t pp, cp, ep;
    fm_precision_kind param, compute;
    fm_how_kind how;
    fm_precision_kind reduce, grad;
    fm_master_kind master;
    fm_state_kind state;
    fm_optimizer_kind optimizer;
    fm_step_kind step;
    double clip; // largest norm; < 0: no clipping
    int64_t seq, batch, accumulate;
    fm_sync_kind sync;
    fm_checkpoint_kind checkpoint;
    int64_t checkpoint_n; // N of selective:N
    fm_attention_kind attention;
    fm_mask_kind mask;
    fm_kernels_kind kernels;
    fm_loss_kind loss;
    int64_t loss_n; // N of chunked:N and split:N
    fm_yesno_kind keep_logits;
    int64_t prefetch;  // units; FM_OWN = the engine's own rule
    int64_t lora_rank; // 0: full training
    char lora_on[FM_RECIPE_TEXT_BYTES];
    double lora_dropout;
    fm_precision_kind adapter;
    fm_base_kind base;
    fm_base_upcast_kind base_upcast;
    fm_trainer_kind trainer;
    int64_t offload; // FM_OFFLOAD_* bits
    char engine_options[FM_RECIPE_OPTIONS_BYTES];
    fm_metric_kind metric;
    fm_at_kind phase;
    char version[FM_RECIPE_TEXT_BYTES];

    uint8_t origin[FM_N_FIELDS]; // fm_origin of each field
    char precision[32];          // the preset named by --precision; "" = none

    // Filled by fm_recipe_resolve, 0 before.
    int64_t world; // ranks = nodes x GPUs
    int64_t dp;    // world / (tp * pp * cp)
    int64_t shard; // ranks a parameter is sharded over: dp / replicate (1 under single and ddp)
    // True when states are of types that no stock optimizer of this engine keeps (fp32 moments for fp16 parameters,
    // master weights without an engine that has them): the states' arithmetic is exact, the step that updates them is
    // taken as the stock one on those types. A warning says so.
    bool state_arithmetic;
    uint32_t n_warnings;
    char warning[FM_MAX_WARNINGS][FM_RECIPE_TEXT_BYTES];
} fm_recipe;

// An all-empty recipe.
void fm_recipe_init(fm_recipe *recipe);

// The field's name as in cases, files and JSON ("lora_rank"); its help and the rule of its default in words; its
// values in words ("hf, torchtitan (later), ..."), written to out of `size` bytes. NULL for no such field.
const char *fm_field_name(fm_field field);
const char *fm_field_help(fm_field field);
const char *fm_field_default(fm_field field);
void fm_field_values(fm_field field, char *out, size_t size);

// Finds a field by name; '-' and '_' are equal. Fails with FM_ERR_NOT_FOUND and the nearest name.
fm_status fm_field_find(const char *name, fm_field *field, fm_err *err) FM_MUST_USE;

// Sets a field from its text. "" makes it empty again. Fails with FM_ERR_VALUE, naming the field, the value and the
// nearest valid one; the recipe is untouched then. LATER words are accepted here; resolve refuses them.
fm_status fm_recipe_set(fm_recipe *recipe, fm_field field, const char *text, fm_origin origin, fm_err *err) FM_MUST_USE;

// The same by name, with what flags and files know besides fields: `precision` (a preset), `ranks` (N = 1xNxcpu) and,
// as `on`'s spelling in files, `machine`.
fm_status fm_recipe_set_named(fm_recipe *recipe, const char *name, const char *text, fm_origin origin,
                              fm_err *err) FM_MUST_USE;

// A field's value as text, as fm_recipe_set reads it ("" when empty). Returns out.
const char *fm_recipe_text(const fm_recipe *recipe, fm_field field, char *out, size_t size);

// The spelling of an enum's value by field ("fsdp2" for FM_FIELD_ENGINE, FM_ENGINE_FSDP2); "" when empty or unknown.
const char *fm_word_text(fm_field field, int value);

// Bytes of an element. 0 for EMPTY (and for int4, factored, none: no whole number of bytes per element).
uint64_t fm_precision_bytes(fm_precision_kind precision);
uint64_t fm_state_bytes(fm_state_kind state);

// Copies every field of `over` that is not empty on top of `recipe` (a file's values, then the flags').
void fm_recipe_overlay(fm_recipe *recipe, const fm_recipe *over);

// Reads a recipe file, YAML or JSON by content: a mapping of field names to scalars (lora_on may be a list), or what
// fm_recipe_write wrote. Fails with the file's name and the line of the fault.
fm_status fm_recipe_read(const char *path, fm_recipe *recipe, fm_err *err) FM_MUST_USE;

// Writes every field that is not empty, with its origin: JSON if the path ends in .json, else YAML with the origin as
// a comment. Reads back to the same recipe. Atomic: beside, then renamed.
fm_status fm_recipe_write(const char *path, const fm_recipe *recipe, fm_err *err) FM_MUST_USE;

// What resolve knows of the machine and of the model. Strings are borrowed.
typedef struct {
    const char *machine;   // its spelling: "2x8xH100-80GB"
    const char *gpu;       // the name of its GPU
    int64_t world;         // ranks: nodes x GPUs, at least 1
    uint32_t capability;   // CUDA compute capability x 10; 0: none
    int64_t max_positions; // of the model, 0 = not known: seq is at most this by default
    int64_t n_heads;       // must divide by tp; 0 = not known
    int64_t n_kv_heads;    // as n_heads
    int64_t n_layers;      // must be at least pp; 0 = not known
} fm_recipe_site;

// Fills every empty field, in *out. Fails with FM_ERR_CONFLICT (contradiction: the message names both values and a
// remedy), FM_ERR_LATER ("engine zero3 comes later"). `in` and `out` may be the same recipe.
fm_status fm_recipe_resolve(const fm_recipe *in, const fm_recipe_site *site, fm_recipe *out, fm_err *err) FM_MUST_USE;

// The presets of --precision, one a line with their expansion per engine, for --help. Static storage.
const char *fm_recipe_presets_help(void);

#ifdef __cplusplus
}
#endif
#endif

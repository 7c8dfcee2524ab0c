// The attention that Qwen3 and Qwen3-MoE share: RMSNorm of each head of q and k before it is transposed.
#ifndef FM_MODEL_FAMILIES_QWEN3_COMMON_H
#define FM_MODEL_FAMILIES_QWEN3_COMMON_H
#include "model/families/common.h"
fm_attention_fn fm_qwen3_attention;
#endif

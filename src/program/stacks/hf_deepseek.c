// DeepSeek-V3: its router and its latent attention.
#include "program/stacks/hf.h"
#include "program/ops_private.h"

void fm_hf_deepseek_router(fm_hf *hf, fm_tensor *rows, const fm_router *how, fm_tensor **logits, fm_tensor **weights, fm_tensor **indices)
{
    (void)hf; (void)rows; (void)how; (void)logits; (void)weights; (void)indices;
}

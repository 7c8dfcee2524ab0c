// A bare size as a model: "70B" is a Llama whose parameters are exactly that many.
#ifndef FM_MODEL_SIZED_H
#define FM_MODEL_SIZED_H
#include "floodmark/status.h"
#include "model/arch.h"

// Shapes a Llama-like model (grouped queries, untied head, bf16, 8,192 positions) of exactly n_params parameters: width and
// depth near those of published models of that size, heads of 128 (64, or 32 for small ones), the MLP's width a
// multiple of 64 that leaves the vocabulary nearest 128,256 (less for small ones), the vocabulary whatever fits; what
// is then left, less than one row of embedding and head, becomes one vector that is a unit of its own ("model.remainder").
// `layers` > 0 fixes the depth. `text` is its name. FM_ERR_VALUE below 10,000 or above 10^15 parameters, or when so many
// layers do not fit.
fm_status fm_arch_sized(const char *text, uint64_t n_params, uint32_t layers, fm_arch *out, fm_err *err) FM_MUST_USE;
#endif

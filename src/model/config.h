// From a configuration to an architecture: which family, its reading, and what must hold across keys.
#ifndef FM_MODEL_CONFIG_H
#define FM_MODEL_CONFIG_H
#include "floodmark/tree.h"
#include "model/arch.h"

// Reads the root object of a Hugging Face config.json. `layers` > 0 replaces the number of blocks. `name` is used when the
// configuration gives none. On success *out holds arrays that fm_arch_reset frees. Errors: FM_ERR_UNSUPPORTED for a
// model_type without a description; FM_ERR_NOT_FOUND for a missing key; FM_ERR_VALUE, FM_ERR_OVERFLOW, FM_ERR_CONFLICT.
// Messages name the file, the line, the key and a remedy.
fm_status fm_arch_read(const fm_node *config, const char *name, uint32_t layers, fm_arch *out, fm_err *err) FM_MUST_USE;
void fm_arch_reset(fm_arch *arch);
#endif

// The interpreter of words that computes nothing: it notes which parameters and buffers a forward pass touches.
#ifndef FM_MODEL_DECLARE_H
#define FM_MODEL_DECLARE_H
#include "floodmark/model.h"
#include "model/arch.h"

// What a model is made of; also filled from weight files. Zeroed is empty. Strings are owned.
typedef struct {
    fm_model_unit *units;
    fm_model_param *params;
    fm_model_buffer *buffers;
    size_t n_units, n_params, n_buffers;
    size_t units_capacity, params_capacity, buffers_capacity;
    uint64_t n_elems, bytes; // of all units: tied parameters once
    uint64_t n_counted;      // elements of counted buffers
} fm_parts;

// Runs arch->family->forward. Units and parameters come in the order of registration, buffers in the order of use.
// Errors: FM_ERR_OVERFLOW (a size, or the sum, past 2^58 elements), FM_ERR_NO_MEMORY; FM_ERR_INTERNAL when the family
// contradicts itself (a width that does not fit, a module missing from its order). *out is untouched on failure.
fm_status fm_declare(const fm_arch *arch, fm_parts *out, fm_err *err) FM_MUST_USE;

void fm_parts_reset(fm_parts *parts);

// Bytes of one element of a torch type ("bfloat16" 2, "float32" 4, "bool" 1); 0 when unknown.
uint32_t fm_dtype_bytes(const char *torch_dtype);
#endif

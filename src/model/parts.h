// Building the list of what a model is made of; used by the declaring listener and by readers of weight files.
#ifndef FM_MODEL_PARTS_H
#define FM_MODEL_PARTS_H
#include "model/declare.h"

// Opens a new unit, to which parameters taken from now on belong. name[0..length) is copied.
fm_status fm_parts_unit(fm_parts *parts, const char *name, size_t length, fm_unit_kind kind, uint32_t block,
                        fm_err *err) FM_MUST_USE;

// Appends *param to the last unit and adds up; on success its name belongs to the parts and param->name is NULL.
// dtype must be a string that outlives the parts (fm_dtype_word, or a table's).
fm_status fm_parts_take(fm_parts *parts, fm_model_param *param, fm_err *err) FM_MUST_USE;

// The same word from static storage; "float32" for a word that is no torch type.
const char *fm_dtype_word(const char *torch_dtype);
#endif

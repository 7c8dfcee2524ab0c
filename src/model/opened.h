// What stands behind an fm_model, for the rooms of Floodmark.
#ifndef FM_MODEL_OPENED_H
#define FM_MODEL_OPENED_H
#include "floodmark/model.h"
#include "floodmark/weights.h"
#include "base/buf.h"
#include "model/config.h"
#include "model/declare.h"

enum { FM_MODEL_NOTES = 8 };

struct fm_model {
    fm_model_source source;
    char *name, *path; // owned
    bool has_arch;
    fm_arch arch;
    fm_parts parts;  // what is trained; of a weight file without an architecture: what is stored
    fm_parts stored; // the tensors of a weight file with an architecture, under the file's names; else empty
    char *notes[FM_MODEL_NOTES];
    size_t n_notes;
};

// Adds a note; false when memory is out. Notes past FM_MODEL_NOTES are dropped.
bool fm_model_add_note(fm_model *model, const char *format, ...) FM_PRINTF(2, 3);

// Takes over *arch and declares its parts. On failure *arch is still the caller's.
fm_status fm_model_take_arch(fm_model *model, fm_arch *arch, fm_err *err) FM_MUST_USE;

// The tensors of a weight file as parts: units are blocks (the first number in a name) and modules, in natural order.
fm_status fm_parts_of_weights(const fm_weights *weights, fm_parts *out, fm_err *err) FM_MUST_USE;

// The readers behind fm_model_open. Each fills a zeroed model and leaves what it took to fm_model_destroy.
fm_status fm_model_from_config(fm_model *model, const char *path, const fm_model_options *options,
                               fm_err *err) FM_MUST_USE;
fm_status fm_model_from_weights(fm_model *model, const char *path, const fm_model_options *options,
                                fm_err *err) FM_MUST_USE;
fm_status fm_model_from_name(fm_model *model, const char *name, const fm_model_options *options,
                             fm_err *err) FM_MUST_USE;
fm_status fm_model_from_size(fm_model *model, const char *text, uint64_t n_params, const fm_model_options *options,
                             fm_err *err) FM_MUST_USE;

// Is this text a size, such as "70B", "1.5b" or "7e9"? Names of files are asked about before.
bool fm_is_size(const char *text, uint64_t *n_params);

// A configuration in Hugging Face's words made from a GGUF file's keys, as JSON. FM_ERR_NOT_FOUND, FM_ERR_UNSUPPORTED when the
// keys do not tell.
fm_status fm_gguf_config(const fm_gguf *gguf, fm_buf *out, fm_err *err) FM_MUST_USE;
#endif

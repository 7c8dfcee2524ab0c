// One view over "a file with tensors": a safetensors file, index or folder, or a GGUF file (split ones too).
//
// What was opened holds the list and open files, never data: reads are pread into the caller's buffer, so that the
// memory of a job that streams by tiles does not grow with the model (mapped pages would count as resident).
#ifndef FLOODMARK_WEIGHTS_H
#define FLOODMARK_WEIGHTS_H
#include "floodmark/gguf.h"
#include "floodmark/safetensors.h"
#include "floodmark/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fm_weights fm_weights;

typedef enum { FM_WEIGHTS_SAFETENSORS, FM_WEIGHTS_GGUF } fm_weights_kind;

// Opens by content: a folder or an index is safetensors, a file that starts with "GGUF" is GGUF (the first of
// NAME-00001-of-0000N.gguf brings the others), anything else must be safetensors. Errors as the two readers'.
fm_status fm_weights_open(const char *path, fm_weights **out, fm_err *err) FM_MUST_USE;
void fm_weights_destroy(fm_weights *w); // NULL is fine

fm_weights_kind fm_weights_kind_of(const fm_weights *w);

size_t fm_weights_n_tensors(const fm_weights *w);
const fm_tensor_info *fm_weights_tensor(const fm_weights *w, size_t i);
const fm_tensor_info *fm_weights_find(const fm_weights *w, const char *name); // NULL when there is none
uint64_t fm_weights_total_bytes(const fm_weights *w);                         // of all tensors

size_t fm_weights_n_files(const fm_weights *w);
const char *fm_weights_file(const fm_weights *w, size_t i);

// What stands behind: NULL when of the other kind. GGUF: the first file, whose keys are the model's.
const fm_safetensors *fm_weights_safetensors(const fm_weights *w);
const fm_gguf *fm_weights_gguf(const fm_weights *w);

// Reads bytes [offset, offset + n) of tensor i into `buffer`. FM_ERR_USAGE outside the tensor; FM_ERR_IO names file,
// tensor and place (a file that has shrunk since it was opened included). Any threads.
fm_status fm_weights_read(const fm_weights *w, size_t i, uint64_t offset, void *buffer, size_t n,
                          fm_err *err) FM_MUST_USE;

// A hint that these bytes are wanted next (starts the disk), or are done with (lets the kernel's cache go). Never
// fails.
void fm_weights_will_need(const fm_weights *w, size_t i, uint64_t offset, uint64_t n);
void fm_weights_done_with(const fm_weights *w, size_t i, uint64_t offset, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif

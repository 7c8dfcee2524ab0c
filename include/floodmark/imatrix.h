// Importance matrices: for each weight matrix the mean square of the activations that met each of its columns, as
// llama-imatrix measures them, in its GGUF form and its older binary form.
//
// GGUF form: general.type = "imatrix"; for each matrix NAME the tensors NAME.in_sum2 [n_mats, row] (sums of squares,
// F32) and NAME.counts [n_mats, 1] (F32); imatrix.datasets, imatrix.chunk_count, imatrix.chunk_size.
// Binary form, little endian: i32 entries; each i32 length, name, i32 calls, i32 values, f32 values[]; then, perhaps,
// i32 chunks, i32 length, dataset name. Its values are sums of means over `calls` chunks.
// Source: llama.cpp, tools/imatrix and tools/quantize.
#ifndef FLOODMARK_IMATRIX_H
#define FLOODMARK_IMATRIX_H
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fm_imatrix fm_imatrix;

typedef struct {
    const char *name;    // of the weight: "blk.0.ffn_down.weight"
    uint64_t row_elems;  // columns of the weight
    uint64_t n_mats;     // matrices in the tensor (experts), usually 1; the binary form does not say: all in one row
    const float *values; // [n_mats, row_elems], mean squares, finite and >= 0; of no use (no token, all 0): all ones
} fm_imatrix_entry;

// Reads either form (told apart by "GGUF"). Errors: FM_ERR_NOT_FOUND, FM_ERR_IO, FM_ERR_SYNTAX, FM_ERR_VALUE (NaN,
// infinite or negative sums, counts without sums), FM_ERR_CONFLICT (an entry twice), FM_ERR_NO_MEMORY.
fm_status fm_imatrix_read(const char *path, fm_imatrix **out, fm_err *err) FM_MUST_USE;
fm_status fm_imatrix_parse(const void *bytes, size_t n, const char *name, fm_imatrix **out, fm_err *err) FM_MUST_USE;
void fm_imatrix_destroy(fm_imatrix *im); // NULL is fine

size_t fm_imatrix_n_entries(const fm_imatrix *im);
const fm_imatrix_entry *fm_imatrix_entry_at(const fm_imatrix *im, size_t i);
const fm_imatrix_entry *fm_imatrix_find(const fm_imatrix *im, const char *weight); // NULL when there is none
uint64_t fm_imatrix_n_chunks(const fm_imatrix *im);                                // 0: not said
const char *fm_imatrix_dataset(const fm_imatrix *im);                              // "" when not said

#ifdef __cplusplus
}
#endif
#endif

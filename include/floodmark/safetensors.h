// safetensors files: the header read and checked, files written. Weights of one model may be split over several files
// with an index ("model.safetensors.index.json").
//
// Layout of a file: u64 little-endian N; N bytes of JSON (starts with '{', may end in white space); data. The JSON maps
// each name to {"dtype", "shape", "data_offsets": [begin, end)} and "__metadata__" to an object of strings. The ranges
// must tile the data exactly: no hole, no overlap, nothing left over.
// Source: the format section of safetensors' README, and its own reader where the text is silent.
//
// Where the specification leaves a choice, this reader: accepts white space after the object, unknown fields of a
// tensor, "__metadata__": null, empty names, any number of dimensions, BOOL bytes other than 0 and 1 (data is not
// read); refuses a key that occurs twice (in the metadata too), names with a zero byte, an empty tensor that is placed
// inside another, white space before the object, an entry that is not an object. In an index: accepts a missing or
// wrong metadata.total_size, tensors that a shard has but the map does not list (they are listed), an empty map (no
// tensors); refuses shard names that are not plain file names.
#ifndef FLOODMARK_SAFETENSORS_H
#define FLOODMARK_SAFETENSORS_H
#include "floodmark/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FM_SAFETENSORS_MAX_HEADER_BYTES = 100000000 }; // the reference reader's limit

typedef struct fm_safetensors fm_safetensors;

// Reads the header(s) of a file, of the shards of an index (PATH.index.json), or of the folder that holds
// model.safetensors.index.json, model.safetensors or exactly one *.safetensors. Data is not read, but every range is
// checked against the size of its file.
// Errors: FM_ERR_NOT_FOUND, FM_ERR_IO, FM_ERR_SYNTAX, FM_ERR_VALUE, FM_ERR_OVERFLOW, FM_ERR_CONFLICT, FM_ERR_NO_MEMORY;
// messages start with the file's name. *out is untouched on failure. An opened set is read-only: any threads.
fm_status fm_safetensors_open(const char *path, fm_safetensors **out, fm_err *err) FM_MUST_USE;

// Checks a header held in memory: `head` is the beginning of a file of `file_bytes` bytes, n of them (all of the length
// field and the header, or the whole file when that is shorter).
fm_status fm_safetensors_parse(const void *head, size_t n, uint64_t file_bytes, const char *name, fm_safetensors **out,
                               fm_err *err) FM_MUST_USE;

void fm_safetensors_destroy(fm_safetensors *st); // NULL is fine

size_t fm_safetensors_n_tensors(const fm_safetensors *st);
// Tensor i, in the order of the headers, shards in the order in which the index first names them. Borrowed.
const fm_tensor_info *fm_safetensors_tensor(const fm_safetensors *st, size_t i);
// NULL when there is none. O(log n).
const fm_tensor_info *fm_safetensors_find(const fm_safetensors *st, const char *name);

size_t fm_safetensors_n_files(const fm_safetensors *st);
const char *fm_safetensors_file(const fm_safetensors *st, size_t i);           // path
uint64_t fm_safetensors_file_bytes(const fm_safetensors *st, size_t i);        // size of the file
uint64_t fm_safetensors_file_header_bytes(const fm_safetensors *st, size_t i); // 8 + N: where the data starts

// "__metadata__", in the order written (of the first shard that has each key). Borrowed; value NULL when absent.
size_t fm_safetensors_n_metadata(const fm_safetensors *st);
const char *fm_safetensors_metadata_key(const fm_safetensors *st, size_t i);
const char *fm_safetensors_metadata_value(const fm_safetensors *st, size_t i);
const char *fm_safetensors_metadata(const fm_safetensors *st, const char *key);

// ---- writing ----
//
// create; any metadata; add every tensor; begin (writes the headers); write the data in any order by pieces; finish
// (checks that every byte was given, syncs, renames). Until finish succeeds nothing stands under the final name;
// destroy before it removes what was written. Data is laid out by falling size of value, so that every tensor is
// aligned to its type; the header keeps the order of adding.

typedef struct fm_safetensors_writer fm_safetensors_writer;

// `path` ends in .safetensors. shard_bytes > 0: cut into files of at most that much data (a larger tensor has its own)
// called NAME-00001-of-0000N.safetensors, with NAME.safetensors.index.json; one file under `path` when all fits in one.
// Files in the way: FM_ERR_EXISTS, unless `force`.
fm_status fm_safetensors_writer_create(const char *path, uint64_t shard_bytes, bool force, fm_safetensors_writer **out,
                                       fm_err *err) FM_MUST_USE;
// Strings are copied. A key or name given twice: FM_ERR_CONFLICT. "__metadata__" is no name: FM_ERR_VALUE.
fm_status fm_safetensors_writer_metadata(fm_safetensors_writer *w, const char *key, const char *value,
                                         fm_err *err) FM_MUST_USE;
// *index (may be NULL) is what write wants: 0, 1, 2, ... in the order of adding. A type without a safetensors name:
// FM_ERR_UNSUPPORTED.
fm_status fm_safetensors_writer_add(fm_safetensors_writer *w, const char *name, fm_tensor_type type, uint32_t n_dims,
                                    const uint64_t *dims, size_t *index, fm_err *err) FM_MUST_USE;
fm_status fm_safetensors_writer_begin(fm_safetensors_writer *w, fm_err *err) FM_MUST_USE;
// Bytes [offset, offset + n) of tensor `index`. Any threads, ranges apart.
fm_status fm_safetensors_writer_write(fm_safetensors_writer *w, size_t index, uint64_t offset, const void *bytes,
                                      size_t n, fm_err *err) FM_MUST_USE;
// sync_seconds (may be NULL): how long the disk took. The index of a sharded set comes last.
fm_status fm_safetensors_writer_finish(fm_safetensors_writer *w, double *sync_seconds, fm_err *err) FM_MUST_USE;
// Bytes of all files, known after begin.
uint64_t fm_safetensors_writer_file_bytes(const fm_safetensors_writer *w);
void fm_safetensors_writer_destroy(fm_safetensors_writer *w); // NULL is fine

#ifdef __cplusplus
}
#endif
#endif

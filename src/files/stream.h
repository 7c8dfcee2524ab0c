// Tensors on their way into files that appear only when all of them are complete: what both writers end in.
#ifndef FM_FILES_STREAM_H
#define FM_FILES_STREAM_H
#include "base/atomic_file.h"
#include "files/tensor_list.h"

typedef struct {
    fm_atomic_file *file; // NULL once committed
    char *path;
    uint64_t bytes; // that it will have
} fm_stream_file;

// A zeroed stream is an empty one.
typedef struct {
    fm_stream_file *files;
    size_t n_files;
    uint64_t *written; // [n_tensors], atomically added to
} fm_stream;

// Begins n files. Errors as fm_atomic_file_create; the paths are copied.
fm_status fm_stream_open(fm_stream *s, size_t n_files, char *const *paths, size_t n_tensors, bool force,
                         fm_err *err) FM_MUST_USE;

// Bytes [offset, offset + n) of tensor t, which is number `index`. Any threads, ranges apart.
fm_status fm_stream_write(fm_stream *s, const fm_tensor_info *t, size_t index, uint64_t offset, const void *bytes,
                          size_t n, fm_err *err) FM_MUST_USE;

// Checks that every tensor got all its bytes, then syncs and renames file after file. When one fails, those already in
// place are removed again.
fm_status fm_stream_finish(fm_stream *s, const fm_tensor_list *tensors, double *sync_seconds, fm_err *err) FM_MUST_USE;

// Removes what is not committed.
void fm_stream_reset(fm_stream *s);
#endif

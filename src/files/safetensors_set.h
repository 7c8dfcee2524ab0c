// The inside of an opened set of safetensors files.
#ifndef FM_FILES_SAFETENSORS_SET_H
#define FM_FILES_SAFETENSORS_SET_H
#include "files/arena.h"
#include "files/tensor_list.h"
#include "floodmark/safetensors.h"
#include "floodmark/tree.h"

typedef struct {
    char *path;
    uint64_t bytes, header_bytes; // of the file; 8 + N
} fm_st_file;

typedef struct {
    const char *key, *value;
} fm_st_pair;

struct fm_safetensors {
    fm_arena arena;
    fm_tensor_list tensors;
    fm_st_file *files;
    size_t n_files, file_capacity;
    fm_st_pair *metadata;
    size_t n_metadata, metadata_capacity;
};

// Adds one file's header to the set: `head` is the length field and the header. Tensors are checked against file_bytes.
fm_status fm_st_add_header(fm_safetensors *st, const uint8_t *head, size_t n, uint64_t file_bytes, const char *name,
                           fm_err *err) FM_MUST_USE;

// Reads and adds the header of a file.
fm_status fm_st_add_file(fm_safetensors *st, const char *path, fm_err *err) FM_MUST_USE;

// Adds every shard that an index names and checks the map.
fm_status fm_st_add_index(fm_safetensors *st, const char *path, fm_err *err) FM_MUST_USE;
#endif

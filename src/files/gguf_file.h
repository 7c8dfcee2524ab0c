// The inside of an opened GGUF file.
#ifndef FM_FILES_GGUF_FILE_H
#define FM_FILES_GGUF_FILE_H
#include "base/buf.h"
#include "files/arena.h"
#include "files/names.h"
#include "files/tensor_list.h"
#include "floodmark/gguf.h"

struct fm_gguf {
    fm_arena arena;
    char *path;
    fm_buf head; // the file up to the end of the tensor infos; values point into it
    uint64_t file_bytes, data_offset;
    uint32_t version, alignment;
    fm_gguf_value *keys;
    size_t n_keys;
    size_t *sorted_keys; // [n_keys] indices by key
    fm_tensor_list tensors;
};

// For names.h: the key of keys[i], an array of fm_gguf_value.
const char *fm_gguf_key_of(const void *keys, size_t i);

// Bytes of one value of a type; 0 when it varies or the type is unknown.
unsigned fm_gguf_type_bytes(uint32_t type);

// A cursor over the beginning of a file, which it loads as it goes.
typedef struct {
    const char *path;
    int fd; // -1: all of it is in `head`
    fm_buf *head;
    uint64_t file_bytes, at;
} fm_gguf_cursor;

// Makes the next n bytes readable, without moving. FM_ERR_SYNTAX when the file ends before; `what` says inside what.
fm_status fm_gguf_need(fm_gguf_cursor *c, uint64_t n, const char *what, fm_err *err) FM_MUST_USE;

// Address of the next byte; good until the next fm_gguf_need.
const uint8_t *fm_gguf_here(const fm_gguf_cursor *c);

// Reads a value of `type` and moves past it. Fills everything but the key; data and raw are left as offsets (see
// fm_gguf_value_place), because what they point to may still move.
typedef struct {
    fm_gguf_value value;
    uint64_t data_at, raw_at;
} fm_gguf_placed;

fm_status fm_gguf_read_value(fm_gguf_cursor *c, uint32_t type, const char *key, fm_gguf_placed *out,
                             fm_err *err) FM_MUST_USE;

// Fails at the cursor: "PATH: byte N: ".
fm_status fm_gguf_fail(const fm_gguf_cursor *c, fm_err *err, fm_status code, const char *format, ...) FM_PRINTF(4, 5);
#ifdef __clang_analyzer__ // see fm_fail in status.h
#define fm_gguf_fail(c, err, code, ...) ((void)(fm_gguf_fail)(c, err, code, __VA_ARGS__), (code))
#endif

// Whether the format allows this key; else why not, in words.
const char *fm_gguf_wrong_key(const char *key, size_t n);

// Whether `alignment` is allowed.
bool fm_gguf_good_alignment(uint64_t alignment);
#endif

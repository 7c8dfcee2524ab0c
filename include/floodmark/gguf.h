// GGUF files: versions 2 and 3 read, version 3 written; little endian.
//
// Layout: "GGUF", u32 version, u64 number of tensors, u64 number of keys; keys (string key, u32 type, value); tensor
// infos (string name, u32 n, u64 dims[n] contiguous first, u32 type, u64 offset in the data); padding to
// general.alignment (u32, default 32); data. Strings are u64 length and bytes; arrays u32 type, u64 count, values.
// Source: docs/gguf.md of ggml.
//
// Where the specification leaves a choice, this reader: accepts version 2, missing padding after the last tensor, bytes
// after the data, holes between tensors and any order of them, strings with a zero byte, NaN in a key's value, nested
// arrays (up to FM_GGUF_MAX_DEPTH), empty tensor names, names of 64 bytes (the writer stays at ggml's 63), tensors
// without dimensions; refuses big-endian files (named as such), empty keys, keys or names with a zero byte, keys over
// 65,535 bytes, names over 64, alignments that are not a multiple of 8, a dimension of 0, booleans other than 0 and 1.
// NaN or infinite weights are data, which is not read here.
#ifndef FLOODMARK_GGUF_H
#define FLOODMARK_GGUF_H
#include "floodmark/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// X(name, number is the position, bytes of one value, 0 = varies)
#define FM_GGUF_TYPE_LIST(X) \
    X(U8, "uint8", 1)        \
    X(I8, "int8", 1)         \
    X(U16, "uint16", 2)      \
    X(I16, "int16", 2)       \
    X(U32, "uint32", 4)      \
    X(I32, "int32", 4)       \
    X(F32, "float32", 4)     \
    X(BOOL, "bool", 1)       \
    X(STRING, "string", 0)   \
    X(ARRAY, "array", 0)     \
    X(U64, "uint64", 8)      \
    X(I64, "int64", 8)       \
    X(F64, "float64", 8)

#define FM_GGUF_TYPE_ENUM(name, words, bytes) FM_GGUF_##name,
typedef enum { FM_GGUF_TYPE_LIST(FM_GGUF_TYPE_ENUM) FM_GGUF_TYPE_N } fm_gguf_type;
#undef FM_GGUF_TYPE_ENUM

enum {
    FM_GGUF_MAX_DEPTH = 127, // arrays inside one another
    FM_GGUF_MAX_DIMS = 4,
    FM_GGUF_DEFAULT_ALIGNMENT = 32,
};

typedef struct fm_gguf fm_gguf;

// A value, still in the bytes of the file. Borrowed from the fm_gguf.
typedef struct {
    const char *key;     // zero-ended
    fm_gguf_type type;   // of the value
    fm_gguf_type elem;   // of an array's elements (else = type)
    uint64_t count;      // elements of an array, bytes of a string, else 1
    const uint8_t *data; // first element, first byte of a string, the value itself: little endian, not aligned
    uint64_t bytes;      // of all elements from `data`
    const uint8_t *raw;  // the value as it stands in the file after its type number (array header, string length)
    uint64_t raw_bytes;
} fm_gguf_value;

const char *fm_gguf_type_name(fm_gguf_type type); // "uint32"; "unknown" outside the enum

// Reads and checks keys and tensor infos, each tensor's range against the size of the file. Data is not read.
// Errors as fm_safetensors_open; FM_ERR_UNSUPPORTED for big-endian files and other versions. Read-only: any threads.
fm_status fm_gguf_open(const char *path, fm_gguf **out, fm_err *err) FM_MUST_USE;

// The same for a file held in memory (copied).
fm_status fm_gguf_parse(const void *bytes, size_t n, const char *name, fm_gguf **out, fm_err *err) FM_MUST_USE;

void fm_gguf_destroy(fm_gguf *g); // NULL is fine

const char *fm_gguf_path(const fm_gguf *g);
uint32_t fm_gguf_version(const fm_gguf *g);
uint32_t fm_gguf_alignment(const fm_gguf *g);
uint64_t fm_gguf_data_offset(const fm_gguf *g); // where the data starts in the file
uint64_t fm_gguf_file_bytes(const fm_gguf *g);

size_t fm_gguf_n_tensors(const fm_gguf *g);
const fm_tensor_info *fm_gguf_tensor(const fm_gguf *g, size_t i); // dims outermost first, offset in the file
const fm_tensor_info *fm_gguf_find_tensor(const fm_gguf *g, const char *name); // NULL when there is none

size_t fm_gguf_n_keys(const fm_gguf *g);
const fm_gguf_value *fm_gguf_key(const fm_gguf *g, size_t i);
const fm_gguf_value *fm_gguf_find(const fm_gguf *g, const char *key); // NULL when there is none

// Readings of a value. Integers of any width and sign are one kind, floats another (whole numbers accepted for double).
// FM_ERR_NOT_FOUND when absent, FM_ERR_VALUE when of another kind; messages name file, key and type found.
fm_status fm_gguf_u64(const fm_gguf *g, const char *key, uint64_t *out, fm_err *err) FM_MUST_USE;
fm_status fm_gguf_double(const fm_gguf *g, const char *key, double *out, fm_err *err) FM_MUST_USE;
fm_status fm_gguf_bool(const fm_gguf *g, const char *key, bool *out, fm_err *err) FM_MUST_USE;
// Bytes, not zero-ended.
fm_status fm_gguf_string(const fm_gguf *g, const char *key, const char **out, size_t *n, fm_err *err) FM_MUST_USE;

// *out is left as it was when the key is absent.
fm_status fm_gguf_opt_u64(const fm_gguf *g, const char *key, uint64_t *out, fm_err *err) FM_MUST_USE;
fm_status fm_gguf_opt_double(const fm_gguf *g, const char *key, double *out, fm_err *err) FM_MUST_USE;
fm_status fm_gguf_opt_bool(const fm_gguf *g, const char *key, bool *out, fm_err *err) FM_MUST_USE;

// True when the (string) value of `key` is `text`.
bool fm_gguf_string_is(const fm_gguf *g, const char *key, const char *text);

// Element i of an array, or (i = 0) the value itself, when it is a number or a boolean. False: out of range, other
// kind.
bool fm_gguf_value_u64(const fm_gguf_value *v, uint64_t i, uint64_t *out); // negative numbers: false
bool fm_gguf_value_i64(const fm_gguf_value *v, uint64_t i, int64_t *out);
bool fm_gguf_value_double(const fm_gguf_value *v, uint64_t i, double *out);

// Walks an array of strings: `*cursor` starts as v->data and moves on. False at the end. Bytes are not zero-ended.
bool fm_gguf_value_next_string(const fm_gguf_value *v, const uint8_t **cursor, const char **out, size_t *n);

// ---- writing: as in safetensors.h; keys before tensors before begin ----

typedef struct fm_gguf_writer fm_gguf_writer;

// A file in the way: FM_ERR_EXISTS, unless `force`.
fm_status fm_gguf_writer_create(const char *path, bool force, fm_gguf_writer **out, fm_err *err) FM_MUST_USE;

// Sets a key; a key already there keeps its place and gets the new value. Strings are copied. FM_ERR_VALUE: a key that
// the format does not allow. general.alignment must be u32, a power of two, 8 or more.
fm_status fm_gguf_writer_u32(fm_gguf_writer *w, const char *key, uint32_t v, fm_err *err) FM_MUST_USE;
fm_status fm_gguf_writer_u64(fm_gguf_writer *w, const char *key, uint64_t v, fm_err *err) FM_MUST_USE;
fm_status fm_gguf_writer_f32(fm_gguf_writer *w, const char *key, float v, fm_err *err) FM_MUST_USE;
fm_status fm_gguf_writer_bool(fm_gguf_writer *w, const char *key, bool v, fm_err *err) FM_MUST_USE;
fm_status fm_gguf_writer_string(fm_gguf_writer *w, const char *key, const char *text, size_t n,
                                fm_err *err) FM_MUST_USE;
// Any value, byte for byte as it stood in the file it was read from; key = v->key.
fm_status fm_gguf_writer_value(fm_gguf_writer *w, const fm_gguf_value *v, fm_err *err) FM_MUST_USE;
// All keys of g, in order.
fm_status fm_gguf_writer_copy_keys(fm_gguf_writer *w, const fm_gguf *g, fm_err *err) FM_MUST_USE;
// `type` and the raw bytes that follow it in the file (for arrays: u32 element type, u64 count, elements). Checked.
fm_status fm_gguf_writer_raw(fm_gguf_writer *w, const char *key, fm_gguf_type type, const void *raw, size_t n,
                             fm_err *err) FM_MUST_USE;
// True when there was such a key to remove.
bool fm_gguf_writer_remove(fm_gguf_writer *w, const char *key);

// dims outermost first. FM_ERR_VALUE: a name over 63 bytes, more than 4 dimensions, a dimension of 0, a row that is not
// a multiple of the block; FM_ERR_UNSUPPORTED: a type GGUF lacks; FM_ERR_CONFLICT: a name twice.
fm_status fm_gguf_writer_add(fm_gguf_writer *w, const char *name, fm_tensor_type type, uint32_t n_dims,
                             const uint64_t *dims, size_t *index, fm_err *err) FM_MUST_USE;
fm_status fm_gguf_writer_begin(fm_gguf_writer *w, fm_err *err) FM_MUST_USE;
fm_status fm_gguf_writer_write(fm_gguf_writer *w, size_t index, uint64_t offset, const void *bytes, size_t n,
                               fm_err *err) FM_MUST_USE;
fm_status fm_gguf_writer_finish(fm_gguf_writer *w, double *sync_seconds, fm_err *err) FM_MUST_USE;
uint64_t fm_gguf_writer_file_bytes(const fm_gguf_writer *w); // known after begin
void fm_gguf_writer_destroy(fm_gguf_writer *w);              // NULL is fine

#ifdef __cplusplus
}
#endif
#endif

// A tensor as a weight file describes it, and the one table of types that files store.
//
// The table joins the two containers: what safetensors calls "F32" and GGUF calls type 0 is one row. A type is a block
// of `block_elems` values in `block_bits` bits; plain types have blocks of one value. What the bits of a number mean is
// number/'s and quantize/'s business, not this table's.
//
// Sources: safetensors 0.8's list of dtypes; ggml.h (enum ggml_type) and ggml-common.h (block layouts) of ggml,
// 2026-08.
#ifndef FLOODMARK_TENSOR_H
#define FLOODMARK_TENSOR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// X(name, safetensors name or NULL, ggml type number or -1, values a block, bits a block)
#define FM_TENSOR_TYPE_LIST(X)              \
    X(F64, "F64", 28, 1, 64)                \
    X(F32, "F32", 0, 1, 32)                 \
    X(F16, "F16", 1, 1, 16)                 \
    X(BF16, "BF16", 30, 1, 16)              \
    X(I64, "I64", 27, 1, 64)                \
    X(I32, "I32", 26, 1, 32)                \
    X(I16, "I16", 25, 1, 16)                \
    X(I8, "I8", 24, 1, 8)                   \
    X(U64, "U64", -1, 1, 64)                \
    X(U32, "U32", -1, 1, 32)                \
    X(U16, "U16", -1, 1, 16)                \
    X(U8, "U8", -1, 1, 8)                   \
    X(BOOL, "BOOL", -1, 1, 8)               \
    X(C64, "C64", -1, 1, 64)                \
    X(F8_E4M3, "F8_E4M3", -1, 1, 8)         \
    X(F8_E5M2, "F8_E5M2", -1, 1, 8)         \
    X(F8_E8M0, "F8_E8M0", -1, 1, 8)         \
    X(F8_E4M3FNUZ, "F8_E4M3FNUZ", -1, 1, 8) \
    X(F8_E5M2FNUZ, "F8_E5M2FNUZ", -1, 1, 8) \
    X(F6_E2M3, "F6_E2M3", -1, 1, 6)         \
    X(F6_E3M2, "F6_E3M2", -1, 1, 6)         \
    X(F4, "F4", -1, 1, 4)                   \
    X(Q1_0, NULL, 41, 128, 144)             \
    X(Q2_0, NULL, 42, 64, 144)              \
    X(Q4_0, NULL, 2, 32, 144)               \
    X(Q4_1, NULL, 3, 32, 160)               \
    X(Q5_0, NULL, 6, 32, 176)               \
    X(Q5_1, NULL, 7, 32, 192)               \
    X(Q8_0, NULL, 8, 32, 272)               \
    X(Q8_1, NULL, 9, 32, 288)               \
    X(Q2_K, NULL, 10, 256, 672)             \
    X(Q3_K, NULL, 11, 256, 880)             \
    X(Q4_K, NULL, 12, 256, 1152)            \
    X(Q5_K, NULL, 13, 256, 1408)            \
    X(Q6_K, NULL, 14, 256, 1680)            \
    X(Q8_K, NULL, 15, 256, 2336)            \
    X(IQ1_S, NULL, 19, 256, 400)            \
    X(IQ1_M, NULL, 29, 256, 448)            \
    X(IQ2_XXS, NULL, 16, 256, 528)          \
    X(IQ2_XS, NULL, 17, 256, 592)           \
    X(IQ2_S, NULL, 22, 256, 656)            \
    X(IQ3_XXS, NULL, 18, 256, 784)          \
    X(IQ3_S, NULL, 21, 256, 880)            \
    X(IQ4_NL, NULL, 20, 32, 144)            \
    X(IQ4_XS, NULL, 23, 256, 1088)          \
    X(TQ1_0, NULL, 34, 256, 432)            \
    X(TQ2_0, NULL, 35, 256, 528)            \
    X(MXFP4, NULL, 39, 32, 136)             \
    X(NVFP4, NULL, 40, 64, 288)

#define FM_TENSOR_TYPE_ENUM(name, st, ggml, elems, bits) FM_TENSOR_##name,
typedef enum { FM_TENSOR_TYPE_LIST(FM_TENSOR_TYPE_ENUM) FM_TENSOR_TYPE_N } fm_tensor_type;
#undef FM_TENSOR_TYPE_ENUM

typedef struct {
    fm_tensor_type type;     // its index in the table
    const char *name;        // "F32", "Q4_K"
    const char *safetensors; // the same, or NULL when safetensors has no such dtype
    int32_t ggml;            // GGUF's type number, -1 when GGUF has none
    uint32_t block_elems, block_bits;
} fm_tensor_type_info;

// The row of a type; NULL outside the enum. Static storage.
const fm_tensor_type_info *fm_tensor_type_of(fm_tensor_type type);

// The row of a name, case ignored ("q4_k"), of a safetensors dtype (exact), of a GGUF number; NULL when unknown.
const fm_tensor_type_info *fm_tensor_type_by_name(const char *name);
const fm_tensor_type_info *fm_tensor_type_by_safetensors(const char *dtype);
const fm_tensor_type_info *fm_tensor_type_by_ggml(uint32_t number);

// One tensor of a file. `dims` are outermost first, as PyTorch prints a shape: dims[n_dims - 1] is contiguous. (GGUF
// writes them the other way round; its reader turns them.) No dimensions: one value.
typedef struct {
    const char *name; // zero-ended, no zero byte inside, UTF-8
    fm_tensor_type type;
    uint32_t n_dims;
    const uint64_t *dims;
    uint64_t n_elems; // product of dims
    uint64_t bytes;
    uint64_t offset; // of its first byte in its file
    uint32_t file;   // which file of a set, from 0
} fm_tensor_info;

// Values and bytes of a shape. FM_ERR_OVERFLOW when either passes 64 bits (or bytes INT64_MAX); FM_ERR_VALUE when the
// last dimension is not a multiple of the type's block, or the bits do not fill whole bytes.
fm_status fm_tensor_size(fm_tensor_type type, uint32_t n_dims, const uint64_t *dims, uint64_t *n_elems, uint64_t *bytes,
                         fm_err *err) FM_MUST_USE;

// "[4096, 128]"; cut with "..." when longer than n. Returns buffer.
const char *fm_tensor_shape_text(uint32_t n_dims, const uint64_t *dims, char *buffer, size_t n);

#ifdef __cplusplus
}
#endif
#endif

// A quantization scheme: which codes (grid), which values share a scale (granularity), how the scale is stored and how it
// is found (calibration). One table says which combinations exist in which layout of which container; everything else is
// refused by name.
//
// Matrices are [rows, cols], row-major. A tensor of more dimensions is a matrix whose columns are its last dimension.
// Thread-safety: all functions here are pure.
#ifndef FLOODMARK_SCHEME_H
#define FLOODMARK_SCHEME_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// The codes and the values they stand for (before the scale). name, kind, bits of a code.
//   integer  two's complement -2^(b-1) .. 2^(b-1)-1, or with a zero point 0 .. 2^b-1
//   float    the number format of the same name in number.h (fp8, fp6: OCP; e2m1)
//   table    nf4, fp4, dynamic8: the tables of bitsandbytes; largest magnitude 1
#define FM_GRID_LIST(X)           \
    X(INT2, "int2", INTEGER, 2)   \
    X(INT3, "int3", INTEGER, 3)   \
    X(INT4, "int4", INTEGER, 4)   \
    X(INT5, "int5", INTEGER, 5)   \
    X(INT6, "int6", INTEGER, 6)   \
    X(INT7, "int7", INTEGER, 7)   \
    X(INT8, "int8", INTEGER, 8)   \
    X(E4M3, "fp8_e4m3", FLOAT, 8) \
    X(E5M2, "fp8_e5m2", FLOAT, 8) \
    X(E2M3, "fp6_e2m3", FLOAT, 6) \
    X(E3M2, "fp6_e3m2", FLOAT, 6) \
    X(E2M1, "fp4_e2m1", FLOAT, 4) \
    X(NF4, "nf4", TABLE, 4)       \
    X(FP4, "fp4", TABLE, 4)       \
    X(DYNAMIC8, "dynamic8", TABLE, 8)

#define FM_GRID_ENUM(NAME, name, kind, bits) FM_GRID_##NAME,
typedef enum { FM_GRID_LIST(FM_GRID_ENUM) FM_N_GRIDS } fm_grid;
#undef FM_GRID_ENUM
typedef enum { FM_GRID_KIND_INTEGER, FM_GRID_KIND_FLOAT, FM_GRID_KIND_TABLE } fm_grid_kind;

// Which values share a scale. Groups are numbered row by row, then by column within a row of groups.
//   tensor  all of them
//   row     one row; column: one column
//   block   1 x block_cols within a row; a row's last block may be shorter and the next row starts anew
//   tile    block_rows x block_cols; tiles at the right and lower edge may be smaller
//   flat    block_cols consecutive values of the tensor in storage order, across rows (bitsandbytes)
#define FM_GRANULARITY_LIST(X) \
    X(TENSOR, "tensor")        \
    X(ROW, "row")              \
    X(COLUMN, "column")        \
    X(BLOCK, "block")          \
    X(TILE, "tile")            \
    X(FLAT, "flat")
#define FM_GRANULARITY_ENUM(NAME, name) FM_GRANULARITY_##NAME,
typedef enum { FM_GRANULARITY_LIST(FM_GRANULARITY_ENUM) FM_N_GRANULARITIES } fm_granularity;
#undef FM_GRANULARITY_ENUM

// How a scale is stored. The value that is stored, not the one that was found, is what values are divided by.
//   fp32, fp16, bf16  nearest even. A positive scale that would become zero becomes the smallest positive number; one
//                     that would overflow becomes the largest finite one: both are counted.
//   e8m0              a power of two, see fm_e8m0_mode
//   e4m3              times a scale of the whole tensor (NVFP4), see fm_nvfp4_convention
//   double            fp32 scales minus their mean, coded by the dynamic8 table in blocks of 256 (QLoRA, bitsandbytes)
#define FM_SCALE_LIST(X) \
    X(FP32, "fp32")      \
    X(FP16, "fp16")      \
    X(BF16, "bf16")      \
    X(E8M0, "e8m0")      \
    X(E4M3, "e4m3")      \
    X(DOUBLE, "double")  \
    X(NONE, "none")
#define FM_SCALE_ENUM(NAME, name) FM_SCALE_##NAME,
typedef enum { FM_SCALE_LIST(FM_SCALE_ENUM) FM_N_SCALES } fm_scale;
#undef FM_SCALE_ENUM

// From the largest magnitude A of a group to a power of two. E is the exponent of the grid's largest value M (fp4: 2).
//   floor  2^(floor(log2 A) - E): OCP Microscaling 1.0, 6.3. Values between M*2^s and A saturate.
//   even   the same for A rounded to the grid's fraction bits (half up): torchao's and compressed-tensors' rule
//   ceil   2^(ceil(log2 A) - E): nothing saturates
//   rceil  2^ceil(log2(A / M)): the smallest power that saturates nothing (NVIDIA's conversion rounding up)
//   mse    of rceil's power and the three below it the one with the smallest squared error; the largest of equals
#define FM_E8M0_MODE_LIST(X) \
    X(FLOOR, "floor")        \
    X(EVEN, "even")          \
    X(CEIL, "ceil")          \
    X(RCEIL, "rceil")        \
    X(MSE, "mse")
#define FM_E8M0_MODE_ENUM(NAME, name) FM_E8M0_MODE_##NAME,
typedef enum { FM_E8M0_MODE_LIST(FM_E8M0_MODE_ENUM) FM_N_E8M0_MODES } fm_e8m0_mode;
#undef FM_E8M0_MODE_ENUM

// NVFP4's scale of the whole tensor, A its largest magnitude, 2688 = 448 * 6:
//   divide    global = 2688 / A; a block's scale is e4m3(amax/6 * global); x = code * (scale / global). compressed-tensors.
//   multiply  global = A / 2688; a block's scale is e4m3(amax/6 / global); x = code * (scale * global). TensorRT, ModelOpt.
typedef enum { FM_NVFP4_DIVIDE, FM_NVFP4_MULTIPLY } fm_nvfp4_convention;

// How the range of a group is found. The rules are in calibrate.h.
#define FM_CALIBRATION_LIST(X)  \
    X(ABSMAX, "absmax")         \
    X(PERCENTILE, "percentile") \
    X(MSE, "mse")               \
    X(KL, "kl")                 \
    X(WEIGHTED, "weighted")
#define FM_CALIBRATION_ENUM(NAME, name) FM_CALIBRATION_##NAME,
typedef enum { FM_CALIBRATION_LIST(FM_CALIBRATION_ENUM) FM_N_CALIBRATIONS } fm_calibration;
#undef FM_CALIBRATION_ENUM

typedef struct {
    fm_grid grid;
    bool asymmetric; // integer grids only: codes 0 .. 2^b-1 and a zero point in that range
    bool full_range; // symmetric integers: -2^(b-1) .. 2^(b-1)-1 and scale = A / (2^b - 1) * 2 (compressed-tensors);
                     // otherwise restricted: -(2^(b-1)-1) .. 2^(b-1)-1 and scale = A / (2^(b-1) - 1)
    fm_granularity granularity;
    uint32_t block_rows, block_cols; // block, tile, flat; else 0
    fm_scale scale;
    fm_e8m0_mode e8m0_mode;
    fm_nvfp4_convention nvfp4;
    fm_calibration calibration;
    double percentile; // calibration percentile: 50 < p <= 100
} fm_scheme;

// Where a scheme's codes and scales are written. How each looks is in docs/quantize.md.
#define FM_LAYOUT_LIST(X)                       \
    X(PLAIN, "plain")                           \
    X(COMPRESSED_TENSORS, "compressed-tensors") \
    X(BITSANDBYTES, "bitsandbytes")             \
    X(OWN, "floodmark")
#define FM_LAYOUT_ENUM(NAME, name) FM_LAYOUT_##NAME,
typedef enum { FM_LAYOUT_LIST(FM_LAYOUT_ENUM) FM_N_LAYOUTS } fm_layout;
#undef FM_LAYOUT_ENUM

// The words of the lists above; static storage.
const char *fm_grid_name(fm_grid grid);
fm_grid_kind fm_grid_kind_of(fm_grid grid);
unsigned fm_grid_bits(fm_grid grid);
const char *fm_granularity_name(fm_granularity granularity);
const char *fm_scale_name(fm_scale scale);
const char *fm_e8m0_mode_name(fm_e8m0_mode mode);
const char *fm_calibration_name(fm_calibration calibration);
const char *fm_layout_name(fm_layout layout);

// The scheme that a format's name stands for before anything else is said: int2 .. int8, fp8_e4m3, fp8_e5m2, mxfp8 (E4M3),
// mxfp8_e5m2, mxfp6 (E2M3), mxfp6_e3m2, mxfp4, nvfp4, nf4, fp4, dynamic8. FM_ERR_NOT_FOUND lists the names.
fm_status fm_scheme_of_format(const char *name, fm_scheme *out, fm_err *err) FM_MUST_USE;

// The names fm_scheme_of_format knows, i from 0; NULL past the last.
const char *fm_scheme_format(size_t i);

// Changes a scheme by words as the command line writes them. FM_ERR_USAGE, naming what is allowed.
//   granularity  tensor, row, column, block, block:N, tile:RxC, flat:N   ("channel", "group:N" are row and block:N)
//   symmetry     sym, sym:full, asym
//   scale        fp32, fp16, bf16, e8m0, e8m0:MODE, e4m3, e4m3:divide, e4m3:multiply, double, none
//   calibration  absmax, percentile, percentile:P, mse, kl, weighted
fm_status fm_scheme_set_granularity(fm_scheme *s, const char *word, fm_err *err) FM_MUST_USE;
fm_status fm_scheme_set_symmetry(fm_scheme *s, const char *word, fm_err *err) FM_MUST_USE;
fm_status fm_scheme_set_scale(fm_scheme *s, const char *word, fm_err *err) FM_MUST_USE;
fm_status fm_scheme_set_calibration(fm_scheme *s, const char *word, fm_err *err) FM_MUST_USE;

enum { FM_SCHEME_TEXT_BYTES = 128 };
// "int4 asym block:128 scale fp16 mse". Returns out.
char *fm_scheme_text(const fm_scheme *s, char out[FM_SCHEME_TEXT_BYTES]);

// FM_OK when the library quantizes by this scheme. FM_ERR_UNSUPPORTED names what does not go with what.
fm_status fm_scheme_check(const fm_scheme *s, fm_err *err) FM_MUST_USE;

// The layout in which a .safetensors file holds a matrix of `cols` columns quantized by a scheme that passed
// fm_scheme_check: the reference library's where it has one that says exactly this, else our own.
fm_layout fm_scheme_layout(const fm_scheme *s, uint64_t rows, uint64_t cols);

// Shape of the array of scales. flat: 1 x n.
void fm_scheme_groups(const fm_scheme *s, uint64_t rows, uint64_t cols, uint64_t *group_rows, uint64_t *group_cols);

// Bits that one weight costs in this scheme, scales and zero points included, names and headers left out.
double fm_scheme_bits_per_weight(const fm_scheme *s, uint64_t rows, uint64_t cols);

#ifdef __cplusplus
}
#endif
#endif

// A model: its units, their parameters and buffers, from any of the places a user may name.
//
// A model is opened from one text, the MODEL of every command:
//   a Hugging Face config.json, or a folder that holds one;
//   a weight file (safetensors, its index, a folder of them; GGUF);
//   a name of the catalogue: "meta-llama/Llama-3.1-8B", "Llama-3.1-8B", "llama-3.1-8b" (data/models);
//   a bare size: "70B", "1.5B", "135M": a Llama-like shape with the state of exactly that many parameters.
//
// Parameters are in the order in which the reference modules register them: PyTorch's named_parameters(), which is the
// order in which sharding engines lay them out, not the order of use.
//
// Ownership: everything an accessor returns belongs to the model and lives until fm_model_destroy. An opened model is
// read-only: any threads.
#ifndef FLOODMARK_MODEL_H
#define FLOODMARK_MODEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fm_model fm_model;
struct fm_arch; // private to the rooms of Floodmark (model/arch.h)

typedef struct {
    uint32_t layers; // replaces the number of blocks; 0: as the model says
} fm_model_options;

typedef enum {
    FM_MODEL_CONFIG,
    FM_MODEL_CATALOGUE,
    FM_MODEL_SIZE,
    FM_MODEL_SAFETENSORS,
    FM_MODEL_GGUF
} fm_model_source;

// A unit is what an engine may gather at once: a block, or one module outside the blocks.
typedef enum {
    FM_UNIT_EMBEDDING, // of tokens
    FM_UNIT_POSITIONS, // learned positions
    FM_UNIT_BLOCK,
    FM_UNIT_NORM, // the final one
    FM_UNIT_HEAD,
    FM_UNIT_OTHER, // any other module
} fm_unit_kind;

typedef struct {
    const char *name; // "model.layers.3", "model.embed_tokens"
    fm_unit_kind kind;
    uint32_t block;                 // of a block its number, else 0
    uint32_t first_param, n_params; // params[first_param ..), tied ones among them
    uint64_t n_elems;               // tied parameters not counted
    uint64_t bytes;                 // the same, in the declared types
} fm_model_unit;

enum { FM_PARAM_MAX_DIMS = 8 };

typedef struct {
    const char *name;  // "model.layers.3.self_attn.q_proj.weight"
    const char *dtype; // as torch spells it ("bfloat16"), or a weight file's type ("Q4_K")
    uint64_t dims[FM_PARAM_MAX_DIMS];
    uint32_t n_dims;
    uint32_t unit; // index
    uint64_t n_elems;
    uint64_t bytes;  // in the declared type
    uint32_t call;   // its module's place in the order of use: 0 runs first (weight files: 0)
    int64_t tied_to; // index of the parameter whose storage this name shares, or -1
    bool trainable;
    bool fp32_always; // kept in fp32 whatever type the model is loaded in
} fm_model_param;

// A tensor that is registered and not trained, on the device from the start.
typedef struct {
    const char *name; // "model.rotary_emb.inv_freq"
    const char *dtype;
    uint64_t n_elems, bytes;
    bool counted; // learned by other means than gradients: published counts include it (deepseek's router correction)
} fm_model_buffer;

// Opens a model. `options` may be NULL. Messages name the file (or the text), the key or tensor, and a remedy.
// Errors: FM_ERR_NOT_FOUND (no such file nor name: the nearest name is given), FM_ERR_SYNTAX, FM_ERR_VALUE,
// FM_ERR_CONFLICT, FM_ERR_OVERFLOW, FM_ERR_UNSUPPORTED (a family without a description), FM_ERR_IO, FM_ERR_NO_MEMORY.
// *out is untouched on failure.
fm_status fm_model_open(const char *spec, const fm_model_options *options, fm_model **out, fm_err *err) FM_MUST_USE;
void fm_model_destroy(fm_model *model); // NULL is fine

const char *fm_model_name(const fm_model *model);
fm_model_source fm_model_source_of(const fm_model *model);
const char *fm_model_path(const fm_model *model); // of the file it came from; "" for a size

// How the operations run: NULL for a weight file that does not say (then only parameters are known).
const struct fm_arch *fm_model_arch(const fm_model *model);
const char *fm_model_family(const fm_model *model); // "Llama"; "" when unknown

// Elements of all parameters, tied ones once; n_params has counted buffers besides, as published counts do; bytes are those of
// the parameters in the declared types.
uint64_t fm_model_n_params(const fm_model *model);
uint64_t fm_model_n_trained(const fm_model *model);
uint64_t fm_model_bytes(const fm_model *model);

size_t fm_model_n_units(const fm_model *model);
const fm_model_unit *fm_model_unit_at(const fm_model *model, size_t i);
size_t fm_model_n_tensors(const fm_model *model); // parameters, tied ones too
const fm_model_param *fm_model_param_at(const fm_model *model, size_t i);
size_t fm_model_n_buffers(const fm_model *model);
const fm_model_buffer *fm_model_buffer_at(const fm_model *model, size_t i);

// What a user should know besides: one sentence each (how a bare size was shaped, what a file lacks).
size_t fm_model_n_notes(const fm_model *model);
const char *fm_model_note(const fm_model *model, size_t i);

// The names of the catalogue, sorted, ended by NULL; one block to be freed with free().
fm_status fm_catalogue_names(char ***out, fm_err *err) FM_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif

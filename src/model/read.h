// Reading one configuration object (a Hugging Face config.json) with old and new spellings and a class's defaults.
//
// Every function takes keys joined by '|', the spelling preferred in messages first; JSON null counts as absent unless said.
// Two spellings with different values are a contradiction. The first failure sticks: later calls return their fallback, and
// fm_reader_status says what happened, so that a family's reader is a plain list.
#ifndef FM_MODEL_READ_H
#define FM_MODEL_READ_H
#include "floodmark/tree.h"
#include "model/family.h"

struct fm_reader {
    const fm_node *config; // an object
    uint32_t layers;       // asked for instead of the configuration's number of blocks; 0: not asked
    fm_status status;
    fm_err err;
};

enum { FM_NEEDED = 0 }; // as a fallback: the key must be there

// A whole number of at least 1 (of at least 0: fm_read_natural). Bounded by 2^40.
uint64_t fm_read_size(fm_reader *r, const char *keys, uint64_t fallback);
uint64_t fm_read_natural(fm_reader *r, const char *keys, uint64_t fallback);
// A size that may be left out; 0 when it is. One that is written must be at least 1, as for fm_read_size.
uint64_t fm_read_optional_size(fm_reader *r, const char *keys);
uint32_t fm_read_size32(fm_reader *r, const char *keys, uint64_t fallback); // at most 2^20: layers, heads, experts

// Null is a value here and means 0 ("none"); only an absent key takes the fallback.
uint64_t fm_read_nullable_size(fm_reader *r, const char *keys, uint64_t fallback);
double fm_read_nullable_number(fm_reader *r, const char *keys, double fallback);

double fm_read_number(fm_reader *r, const char *keys, double fallback);      // finite
double fm_read_positive(fm_reader *r, const char *keys, double fallback);    // > 0
double fm_read_probability(fm_reader *r, const char *keys, double fallback); // 0 <= p < 1
bool fm_read_flag(fm_reader *r, const char *keys, bool fallback);
fm_activation fm_read_activation(fm_reader *r, const char *keys, const char *fallback);

// The node of the first spelling that is there and not null; NULL when none is.
const fm_node *fm_read_node(fm_reader *r, const char *keys);

// Notes a failure at a key (or at the object when it is absent). Later ones are not noted.
void fm_read_fail(fm_reader *r, const char *keys, fm_status code, const char *format, ...) FM_PRINTF(4, 5);

// ---- groups of keys ----

// hidden_size, num_hidden_layers, num_attention_heads, vocab_size (with the spellings of older classes), max positions,
// dtype, tie_word_embeddings. Checks nothing across keys.
void fm_read_common(fm_reader *r, fm_arch *arch, uint64_t max_positions, bool tied);

// num_key_value_heads (fallback 0: as many as heads) and head_dim (fallback 0: hidden / heads, which must divide).
void fm_read_heads(fm_reader *r, fm_arch *arch, uint64_t kv_fallback, uint64_t head_dim_fallback);

// rope_parameters / rope_scaling / rope_theta / rotary_emb_base, partial_rotary_factor / rotary_pct. Rotates head_dim *
// partial dimensions of arch->head_dim (or of `head_dim` when that is not 0), truncated.
void fm_read_rope(fm_reader *r, fm_arch *arch, double theta, double partial, uint32_t head_dim);

// All that Llama's class has: sizes, heads, rope, rms_norm_eps, act, biases, attention_dropout.
void fm_read_llama_like(fm_reader *r, fm_arch *arch, uint64_t max_positions, double eps, bool tied);

// layer_types (its kinds repeat when more blocks were asked for), else rule(i) for every block; arch->window must be set.
void fm_read_layer_types(fm_reader *r, fm_arch *arch, bool (*rule)(const fm_arch *arch, uint32_t layer, uint64_t extra),
                         uint64_t extra);

// A list of block numbers that have a plain MLP instead of experts.
void fm_read_dense_layers(fm_reader *r, fm_arch *arch, const char *keys);
#endif

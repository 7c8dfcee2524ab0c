// A parsed tree of values: what a JSON or YAML file says, behind one node.
//
// Every node knows where it stood (line, byte), so that whoever finds a value wrong can name the place; integers of 64
// bits are exact; a key that occurs twice, a value nested deeper than FM_TREE_MAX_DEPTH containers, text that is not
// UTF-8 and NaN or Infinity in JSON are refused when the file is read, with both the place and the remedy.
//
// Ownership: a tree owns all its nodes and strings; they live until fm_tree_destroy. Nothing changes after parsing:
// any number of threads may read one tree.
//
// Sources: JSON is RFC 8259 (read by Jansson). YAML is read by libyaml; which plain scalar is what follows YAML 1.2's
// core schema, plus what PyYAML (YAML 1.1) writes or reads for settings files, see fm_tree_parse_yaml.
#ifndef FLOODMARK_TREE_H
#define FLOODMARK_TREE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FM_TREE_MAX_DEPTH = 127,          // containers inside one another
    FM_TREE_MAX_BYTES = 64 << 20,     // of a JSON or YAML file read by fm_tree_read
    FM_TREE_MAX_ALIAS_NODES = 100000, // nodes that YAML aliases may add to what was written out
};

typedef struct fm_tree fm_tree;
typedef struct fm_node fm_node;

// FM_NODE_INT fits int64_t; FM_NODE_UINT is a whole number above INT64_MAX that fits uint64_t; whole numbers past that
// are FM_NODE_DOUBLE, as is everything written with a point or an exponent ("1e3" is not an integer, as in JSON
// Schema's strict readers).
typedef enum {
    FM_NODE_NULL,
    FM_NODE_BOOL,
    FM_NODE_INT,
    FM_NODE_UINT,
    FM_NODE_DOUBLE,
    FM_NODE_STRING,
    FM_NODE_ARRAY,
    FM_NODE_OBJECT,
} fm_node_type;

// ---- reading ----

// Parses `n` bytes of JSON, one value with white space around it. `name` (copied; NULL for none) is what messages call
// the text: "config.json: line 3: ...". A UTF-8 byte order mark is skipped.
// Errors: FM_ERR_SYNTAX (with line and offset), FM_ERR_CONFLICT (a key twice), FM_ERR_VALUE (too deep, NaN, a number
// past a double), FM_ERR_NO_MEMORY. *out is untouched on failure.
fm_status fm_tree_parse_json(const char *text, size_t n, const char *name, fm_tree **out, fm_err *err) FM_MUST_USE;

// Parses one YAML document. Plain (unquoted) scalars:
//   null  ~ null Null NULL and nothing at all          bool  true false yes no on off (also Title and UPPER case)
//   int   12 -3 +3 1_000 0x1F 0o17 0b101               double  1.5 1e-4 .5 1_000.5 .inf -.inf .nan
//   refused  017 (octal in YAML 1.1, decimal in 1.2): write 0o17, 17 or "017"
// Everything else is a string; so is 1:30 (60-based in YAML 1.1) and everything quoted. Keys are strings as written:
// `on:` is the key "on". Tags !!str !!int !!float !!bool !!null !!seq !!map are obeyed, others refused. Anchors,
// aliases and merge keys (<<) are followed; aliases that would add more than FM_TREE_MAX_ALIAS_NODES are refused.
fm_status fm_tree_parse_yaml(const char *text, size_t n, const char *name, fm_tree **out, fm_err *err) FM_MUST_USE;

// Reads and parses a file: YAML when its name ends in .yaml or .yml, JSON otherwise. Errors as above, and
// FM_ERR_NOT_FOUND, FM_ERR_IO, FM_ERR_VALUE (larger than FM_TREE_MAX_BYTES). Messages start with the path.
fm_status fm_tree_read(const char *path, fm_tree **out, fm_err *err) FM_MUST_USE;

// NULL is fine.
void fm_tree_destroy(fm_tree *tree);

// The topmost value; never NULL. The name given when it was parsed ("" for none).
const fm_node *fm_tree_root(const fm_tree *tree);
const char *fm_tree_name(const fm_tree *tree);

// ---- a node. Every function takes NULL for "absent" where it says so. ----

fm_node_type fm_node_type_of(const fm_node *node);

// "null", "a boolean", "a whole number", "a number", "a string", "a list", "an object"; NULL: "nothing". Static
// storage.
const char *fm_node_type_words(const fm_node *node);

uint32_t fm_node_line(const fm_node *node);   // from 1; of the value
uint64_t fm_node_offset(const fm_node *node); // byte in the text, from 0

// Elements of an array, members of an object, bytes of a string, else 0. NULL: 0.
size_t fm_node_count(const fm_node *node);

// Element i of an array or value i of an object, in the order of the file; NULL when out of range or neither.
const fm_node *fm_node_at(const fm_node *node, size_t i);

// Key of member i of an object, zero-ended; NULL when out of range or not an object. Its line.
const char *fm_node_key(const fm_node *node, size_t i);
uint32_t fm_node_key_line(const fm_node *node, size_t i);

// The value of `key`; NULL when absent, when node is not an object, or when it is NULL. O(log members).
const fm_node *fm_node_get(const fm_node *node, const char *key);

// The same, but JSON null counts as absent (Hugging Face writes null for "not set").
const fm_node *fm_node_get_set(const fm_node *node, const char *key);

// Where a node stands in its tree, as `rope_scaling.factor` or `layers[3].name`; "" for the root. Writes at most n
// bytes with the ending zero, cut when longer; returns buffer.
const char *fm_node_path(const fm_node *node, char *buffer, size_t n);

// ---- values. Each fails with FM_ERR_VALUE and a message such as
//      config.json: line 4: "hidden_size" must be a whole number of at least 0, not a string ("4k")      ----

fm_status fm_node_u64(const fm_node *node, uint64_t *out, fm_err *err) FM_MUST_USE;
fm_status fm_node_i64(const fm_node *node, int64_t *out, fm_err *err) FM_MUST_USE;
// Any number; NaN and infinity (YAML) are refused.
fm_status fm_node_double(const fm_node *node, double *out, fm_err *err) FM_MUST_USE;
fm_status fm_node_bool(const fm_node *node, bool *out, fm_err *err) FM_MUST_USE;
// Zero-ended and without a zero byte inside. Borrowed.
fm_status fm_node_string(const fm_node *node, const char **out, fm_err *err) FM_MUST_USE;

// The bytes of a string node and their number, zero bytes included; NULL when it is not a string.
const char *fm_node_bytes(const fm_node *node, size_t *n);

// The characters of a scalar as they were written (quotes taken off): "1e-4", "yes", "0x10". NULL for containers.
// What a table of settings wants when it does its own reading of values.
const char *fm_node_text(const fm_node *node);

// ---- members of an object, in one call ----

// *out is left as it was (the caller's default) when `key` is absent or null. Errors as the readers above.
fm_status fm_node_opt_u64(const fm_node *object, const char *key, uint64_t *out, fm_err *err) FM_MUST_USE;
fm_status fm_node_opt_i64(const fm_node *object, const char *key, int64_t *out, fm_err *err) FM_MUST_USE;
fm_status fm_node_opt_double(const fm_node *object, const char *key, double *out, fm_err *err) FM_MUST_USE;
fm_status fm_node_opt_bool(const fm_node *object, const char *key, bool *out, fm_err *err) FM_MUST_USE;
fm_status fm_node_opt_string(const fm_node *object, const char *key, const char **out, fm_err *err) FM_MUST_USE;

// The value of `key`, which must be there and not null. FM_ERR_NOT_FOUND names the object, the key and the nearest key
// that it has; FM_ERR_VALUE when `object` is not an object.
fm_status fm_node_need(const fm_node *object, const char *key, const fm_node **out, fm_err *err) FM_MUST_USE;

// ---- messages ----

// Fails at a node: "NAME: line L: " and your words; err gets line and offset.
fm_status fm_node_fail(const fm_node *node, fm_err *err, fm_status code, const char *format, ...) FM_PRINTF(4, 5);
#ifdef __clang_analyzer__ // see fm_fail in status.h
#define fm_node_fail(node, err, code, ...) ((void)(fm_node_fail)(node, err, code, __VA_ARGS__), (code))
#endif

// The word of list[0..n) nearest to `word` by edits (insert, delete, replace, swap neighbours; case and - against _
// cost nothing); NULL when none is near enough to be what was meant (more than a third of the letters differ). First
// wins.
const char *fm_nearest(const char *word, const char *const *list, size_t n);

#ifdef __cplusplus
}
#endif
#endif

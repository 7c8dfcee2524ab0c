// The inside of a tree, for the parsers that fill it.
#ifndef FM_FILES_TREE_NODE_H
#define FM_FILES_TREE_NODE_H
#include "files/arena.h"
#include "floodmark/tree.h"

struct fm_node {
    const fm_node *parent; // NULL at the root
    const char *key;       // of a member, zero-ended; else NULL
    const char *text;      // of a scalar, as written and zero-ended; of a string, its bytes
    fm_node **items;       // [count] children in the order of the file
    size_t *sorted;        // [count] of an object with many members: indices into items by key
    size_t count;          // children, or bytes of a string
    uint64_t offset;
    uint32_t line, column; // from 1
    uint32_t key_line;
    uint8_t type; // fm_node_type
    union {
        bool flag;
        int64_t i;
        uint64_t u;
        double d;
    } value;
};

// The root comes first, so that a node finds its tree by going up.
struct fm_tree {
    fm_node root;
    fm_arena arena;
    const char *name;
};

// A tree with nothing in it; NULL when memory is out.
fm_tree *fm_tree_create(const char *name);

// The tree that a node belongs to.
const fm_tree *fm_node_tree(const fm_node *node);

// Finishes an object whose `items` are set: refuses a key that occurs twice, prepares lookup.
fm_status fm_node_seal(fm_tree *tree, fm_node *object, fm_err *err) FM_MUST_USE;

// Sets type and value from the digits of a whole number in base 8, 10 or 16 (2 also), `negative` apart. False when it
// passes 64 bits: then the type is FM_NODE_DOUBLE and the value the nearest double.
bool fm_node_set_integer(fm_node *node, const char *digits, size_t n, unsigned base, bool negative);

// strtod with a '.' whatever the locale; `text` is a decimal number and nothing else.
double fm_parse_double(const char *text);

// Fails at a place of the text that is not (yet) a node. `name` may be "".
fm_status fm_tree_fail_at(const char *name, fm_err *err, fm_status code, uint64_t offset, uint32_t line,
                          uint32_t column, const char *format, ...) FM_PRINTF(7, 8);
#ifdef __clang_analyzer__ // see fm_fail in status.h
#define fm_tree_fail_at(name, err, code, offset, line, column, ...) \
    ((void)(fm_tree_fail_at)(name, err, code, offset, line, column, __VA_ARGS__), (code))
#endif
#endif

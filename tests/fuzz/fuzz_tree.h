// What must hold of every tree that a parser made: looked at by the fuzzers of JSON and YAML.
#ifndef FM_FUZZ_TREE_H
#define FM_FUZZ_TREE_H
#include <stdlib.h>
#include <string.h>
#include "floodmark/tree.h"

static void fuzz_demand(bool holds)
{
    if (!holds)
        abort();
}

// Every reader either succeeds or says why not, with the node's place.
static void fuzz_read_scalar(const fm_node *node)
{
    uint64_t u;
    int64_t i;
    double d;
    bool b;
    const char *s;
    fm_err err = {0};
    unsigned succeeded = 0;
    succeeded += !fm_node_u64(node, &u, &err);
    succeeded += !fm_node_i64(node, &i, &err);
    succeeded += !fm_node_double(node, &d, &err);
    succeeded += !fm_node_bool(node, &b, &err);
    succeeded += !fm_node_string(node, &s, &err);
    fuzz_demand(succeeded == 5 || err.message[0]);
    fuzz_demand(succeeded <= 3);
}

static void fuzz_walk(const fm_node *node, size_t n_bytes, unsigned depth)
{
    char path[64];
    fuzz_demand(depth <= FM_TREE_MAX_DEPTH + 1);
    fuzz_demand(fm_node_offset(node) <= n_bytes && fm_node_line(node) >= 1);
    fuzz_demand(strlen(fm_node_path(node, path, sizeof path)) < sizeof path);
    fuzz_read_scalar(node);
    if (fm_node_text(node))
        return;
    for (size_t i = 0; i < fm_node_count(node); i++) {
        const fm_node *child = fm_node_at(node, i);
        const char *key = fm_node_key(node, i);
        // What is found by its key is the member itself: no key is there twice.
        fuzz_demand(!key || fm_node_get(node, key) == child);
        fuzz_walk(child, n_bytes, depth + 1);
    }
}

static int fuzz_tree(fm_status (*parse)(const char *, size_t, const char *, fm_tree **, fm_err *), const uint8_t *data,
                     size_t size)
{
    fm_tree *tree = NULL;
    fm_err err = {0};
    fm_status status = parse((const char *)data, size, "fuzz", &tree, &err);
    fuzz_demand(!status == !!tree);
    fuzz_demand(!status || (err.code == status && err.message[0]));
    if (tree)
        fuzz_walk(fm_tree_root(tree), size, 0);
    fm_tree_destroy(tree);
    return 0;
}
#endif

#include "floodmark/tree.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "files/names.h"
#include "files/tree_node.h"

// Up to here looking through all members is as fast as searching, and the index would cost more than it saves.
enum { FEW_MEMBERS = 8 };

fm_tree *fm_tree_create(const char *name)
{
    fm_tree *tree = fm_calloc(1, sizeof *tree);
    if (!tree)
        return NULL;
    if (!name)
        name = "";
    tree->name = fm_arena_text(&tree->arena, name, strlen(name));
    if (!tree->name) {
        fm_tree_destroy(tree);
        return NULL;
    }
    return tree;
}

void fm_tree_destroy(fm_tree *tree)
{
    if (!tree)
        return;
    fm_arena_reset(&tree->arena);
    fm_free(tree);
}

const fm_node *fm_tree_root(const fm_tree *tree)
{
    return &tree->root;
}

const char *fm_tree_name(const fm_tree *tree)
{
    return tree->name;
}

const fm_tree *fm_node_tree(const fm_node *node)
{
    while (node->parent)
        node = node->parent;
    return (const fm_tree *)node;
}

// ---- what a node is ----

fm_node_type fm_node_type_of(const fm_node *node)
{
    return (fm_node_type)node->type;
}

const char *fm_node_type_words(const fm_node *node)
{
    static const char *const words[] = {
        [FM_NODE_NULL] = "null",           [FM_NODE_BOOL] = "a boolean",   [FM_NODE_INT] = "a whole number",
        [FM_NODE_UINT] = "a whole number", [FM_NODE_DOUBLE] = "a number",  [FM_NODE_STRING] = "a string",
        [FM_NODE_ARRAY] = "a list",        [FM_NODE_OBJECT] = "an object",
    };
    return node ? words[node->type] : "nothing";
}

uint32_t fm_node_line(const fm_node *node)
{
    return node->line;
}

uint64_t fm_node_offset(const fm_node *node)
{
    return node->offset;
}

static bool is_container(const fm_node *node)
{
    return node->type == FM_NODE_ARRAY || node->type == FM_NODE_OBJECT;
}

size_t fm_node_count(const fm_node *node)
{
    return node ? node->count : 0;
}

const fm_node *fm_node_at(const fm_node *node, size_t i)
{
    return node && is_container(node) && i < node->count ? node->items[i] : NULL;
}

const char *fm_node_key(const fm_node *node, size_t i)
{
    return node && node->type == FM_NODE_OBJECT && i < node->count ? node->items[i]->key : NULL;
}

uint32_t fm_node_key_line(const fm_node *node, size_t i)
{
    return node && node->type == FM_NODE_OBJECT && i < node->count ? node->items[i]->key_line : 0;
}

const char *fm_node_bytes(const fm_node *node, size_t *n)
{
    if (!node || node->type != FM_NODE_STRING)
        return NULL;
    *n = node->count;
    return node->text;
}

const char *fm_node_text(const fm_node *node)
{
    return node && !is_container(node) ? node->text : NULL;
}

// ---- members by key ----

static const char *key_of(const void *items, size_t i)
{
    return ((fm_node *const *)items)[i]->key;
}

static fm_status fail_twice(const fm_tree *tree, const fm_node *a, const fm_node *b, fm_err *err)
{
    const fm_node *first = a->offset < b->offset ? a : b, *second = first == a ? b : a;
    return fm_tree_fail_at(tree->name, err, FM_ERR_CONFLICT, second->offset, second->key_line, 0,
                           "key \"%s\" occurs twice in one object (first on line %u); remove one", second->key,
                           first->key_line);
}

fm_status fm_node_seal(fm_tree *tree, fm_node *object, fm_err *err)
{
    fm_node **items = object->items;
    size_t n = object->count;
    if (n <= FEW_MEMBERS) {
        for (size_t i = 1; i < n; i++)
            for (size_t j = 0; j < i; j++)
                if (!strcmp(items[i]->key, items[j]->key))
                    return fail_twice(tree, items[j], items[i], err);
        return FM_OK;
    }
    size_t *sorted = fm_arena_array(&tree->arena, n, sizeof *sorted);
    if (!sorted)
        return fm_fail_memory(err, "the keys of an object");
    size_t twice = fm_names_sort(sorted, n, items, key_of);
    if (twice != FM_NO_NAME)
        for (size_t i = 0; i < n; i++)
            if (i != twice && !strcmp(items[i]->key, items[twice]->key))
                return fail_twice(tree, items[i], items[twice], err);
    object->sorted = sorted;
    return FM_OK;
}

const fm_node *fm_node_get(const fm_node *node, const char *key)
{
    if (!node || node->type != FM_NODE_OBJECT)
        return NULL;
    if (!node->sorted) {
        for (size_t i = 0; i < node->count; i++)
            if (!strcmp(node->items[i]->key, key))
                return node->items[i];
        return NULL;
    }
    size_t i = fm_names_find(node->sorted, node->count, node->items, key_of, key);
    return i != FM_NO_NAME ? node->items[i] : NULL;
}

const fm_node *fm_node_get_set(const fm_node *node, const char *key)
{
    const fm_node *value = fm_node_get(node, key);
    return value && value->type != FM_NODE_NULL ? value : NULL;
}

// ---- where it stands ----

static size_t index_in_parent(const fm_node *node)
{
    size_t i = 0;
    while (i < node->parent->count && node->parent->items[i] != node)
        i++;
    return i;
}

const char *fm_node_path(const fm_node *node, char *buffer, size_t n)
{
    const fm_node *chain[FM_TREE_MAX_DEPTH + 2];
    size_t depth = 0, used = 0;
    for (; node && node->parent && depth < FM_TREE_MAX_DEPTH + 2; node = node->parent)
        chain[depth++] = node;
    if (!n)
        return buffer;
    buffer[0] = 0;
    while (depth-- && used + 1 < n) {
        const fm_node *at = chain[depth];
        int wrote = at->key ? snprintf(buffer + used, n - used, "%s%s", used ? "." : "", at->key)
                            : snprintf(buffer + used, n - used, "[%zu]", index_in_parent(at));
        if (wrote < 0)
            break;
        used += (size_t)wrote < n - used ? (size_t)wrote : n - used - 1;
    }
    return buffer;
}

static fm_status vfail_at(const char *name, fm_err *err, fm_status code, uint64_t offset, uint32_t line,
                          uint32_t column, const char *format, va_list args)
{
    char words[FM_ERR_MESSAGE_BYTES], place[48] = "";
    if (!err)
        return code;
    vsnprintf(words, sizeof words, format, args);
    if (line && column)
        snprintf(place, sizeof place, "line %u, column %u: ", line, column);
    else if (line)
        snprintf(place, sizeof place, "line %u: ", line);
    return fm_fail_at(err, code, offset, line, "%s%s%s%s", name, *name ? ": " : "", place, words);
}

fm_status(fm_tree_fail_at)(const char *name, fm_err *err, fm_status code, uint64_t offset, uint32_t line,
                           uint32_t column, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fm_status status = vfail_at(name, err, code, offset, line, column, format, args);
    va_end(args);
    return status;
}

fm_status(fm_node_fail)(const fm_node *node, fm_err *err, fm_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fm_status status =
        vfail_at(fm_node_tree(node)->name, err, code, node->offset, node->line, node->column, format, args);
    va_end(args);
    return status;
}

// YAML by way of libyaml's events. A stack of open containers collects children; a container that closes moves them
// into the arena. What an alias stands for is copied, so that every node has one parent and one path.
#include <string.h>
#include <yaml.h>
#include "base/alloc.h"
#include "files/tree_node.h"
#include "files/yaml_scalar.h"

enum {
    MAX_NODES = 10000000,
    MAX_ANCHORS = 10000,
    MAX_MERGED = 10000, // members of a mapping with <<: each is compared with each
};

typedef struct {
    fm_node *node;
    fm_node **children;
    size_t n, capacity;
    const char *key; // of a mapping: read, its value still to come
    uint32_t key_line;
    bool key_is_merge;
    fm_node **merges; // values of "<<"
    size_t n_merges, merge_capacity;
    const char *anchor;
} frame;

typedef struct {
    const char *name;
    const fm_node *node;
} anchor;

typedef struct {
    fm_tree *tree;
    const char *text; // after the byte order mark
    size_t n, shift;  // bytes of the mark
    // libyaml counts characters; this runs along to know bytes.
    size_t at_char, at_byte;
    frame open[FM_TREE_MAX_DEPTH + 1];
    size_t depth;
    anchor *anchors;
    size_t n_anchors, anchor_capacity;
    size_t n_nodes, n_alias_nodes;
    bool done; // the root is complete
} builder;

static uint64_t byte_of(builder *b, yaml_mark_t mark)
{
    for (; b->at_char < mark.index && b->at_byte < b->n; b->at_char++)
        do
            b->at_byte++;
        while (b->at_byte < b->n && ((unsigned char)b->text[b->at_byte] & 0xc0) == 0x80);
    return b->at_byte + b->shift;
}

static fm_status fail_mark(builder *b, fm_err *err, fm_status code, yaml_mark_t mark, const char *words)
{
    return fm_tree_fail_at(b->tree->name, err, code, byte_of(b, mark), (uint32_t)mark.line + 1,
                           (uint32_t)mark.column + 1, "%s", words);
}

static fm_status no_memory(fm_err *err)
{
    return fm_fail_memory(err, "reading YAML");
}

static char *keep(builder *b, const void *text, size_t n)
{
    return fm_arena_text(&b->tree->arena, text, n);
}

static fm_status push(fm_node ***list, size_t *n, size_t *capacity, fm_node *node, fm_err *err)
{
    fm_node **grown = fm_grow(*list, capacity, *n, sizeof(fm_node *));
    if (!grown)
        return no_memory(err);
    *list = grown;
    grown[(*n)++] = node;
    return FM_OK;
}

static frame *top(builder *b)
{
    return b->depth ? &b->open[b->depth - 1] : NULL;
}

// The node that a value's event fills: the root, or a new child of the innermost container.
static fm_status take_slot(builder *b, yaml_mark_t mark, fm_node **out, fm_err *err)
{
    frame *f = top(b);
    fm_node *node = f ? fm_arena_take(&b->tree->arena, sizeof *node) : &b->tree->root;
    if (!node)
        return no_memory(err);
    if (++b->n_nodes > MAX_NODES)
        return fail_mark(b, err, FM_ERR_VALUE, mark, "more than 10,000,000 values; is this the right file?");
    node->offset = byte_of(b, mark);
    node->line = (uint32_t)mark.line + 1;
    node->column = (uint32_t)mark.column + 1;
    *out = node;
    if (!f)
        return FM_OK;
    node->parent = f->node;
    bool is_merge = f->key && f->key_is_merge;
    if (f->node->type == FM_NODE_OBJECT) {
        node->key = f->key;
        node->key_line = f->key_line;
        f->key = NULL;
    }
    return is_merge ? push(&f->merges, &f->n_merges, &f->merge_capacity, node, err)
                    : push(&f->children, &f->n, &f->capacity, node, err);
}

// ---- anchors, aliases, merges ----

static fm_status add_anchor(builder *b, const char *name, const fm_node *node, fm_err *err)
{
    if (!name)
        return FM_OK;
    if (b->n_anchors >= MAX_ANCHORS)
        return fm_node_fail(node, err, FM_ERR_VALUE, "more than 10,000 anchors; write the values out");
    anchor *grown = fm_grow(b->anchors, &b->anchor_capacity, b->n_anchors, sizeof *grown);
    if (!grown)
        return no_memory(err);
    b->anchors = grown;
    grown[b->n_anchors++] = (anchor){name, node};
    return FM_OK;
}

// Copies what `from` holds into `to`, whose key, parent and place are its own; inner places are those of the original.
static fm_status copy_value(builder *b, const fm_node *from, fm_node *to, size_t depth, fm_err *err)
{
    if (++b->n_alias_nodes > FM_TREE_MAX_ALIAS_NODES)
        return fm_node_fail(from, err, FM_ERR_VALUE, "aliases of this add more than 100,000 values; write them out");
    if (from->items && depth >= FM_TREE_MAX_DEPTH)
        return fm_node_fail(from, err, FM_ERR_VALUE, "an alias nests deeper than 127 levels; flatten it");
    to->type = from->type;
    to->text = from->text;
    to->value = from->value;
    to->count = from->count;
    if (!from->items)
        return FM_OK;
    to->items = fm_arena_array(&b->tree->arena, from->count, sizeof(fm_node *));
    if (!to->items)
        return no_memory(err);
    to->sorted = from->sorted;
    for (size_t i = 0; i < from->count; i++) {
        fm_node *child = fm_arena_take(&b->tree->arena, sizeof *child);
        if (!child)
            return no_memory(err);
        *child = *from->items[i];
        child->parent = to;
        child->items = NULL;
        to->items[i] = child;
        fm_status status = copy_value(b, from->items[i], child, depth + 1, err);
        if (status)
            return status;
    }
    return FM_OK;
}

static fm_status on_alias(builder *b, const yaml_event_t *e, fm_err *err)
{
    const char *name = (const char *)e->data.alias.anchor;
    frame *f = top(b);
    if (f && f->node->type == FM_NODE_OBJECT && !f->key)
        return fail_mark(b, err, FM_ERR_SYNTAX, e->start_mark, "an alias cannot be a key; write the key out");
    for (size_t i = b->n_anchors; i-- > 0;)
        if (!strcmp(b->anchors[i].name, name)) {
            fm_node *node = NULL;
            fm_status status = take_slot(b, e->start_mark, &node, err);
            return status ? status : copy_value(b, b->anchors[i].node, node, b->depth, err);
        }
    return fm_tree_fail_at(b->tree->name, err, FM_ERR_SYNTAX, byte_of(b, e->start_mark),
                           (uint32_t)e->start_mark.line + 1, (uint32_t)e->start_mark.column + 1,
                           "alias *%s has no finished anchor &%s before it", name, name);
}

static fm_status add_missing(builder *b, frame *f, const fm_node *source, fm_err *err)
{
    if (source->count + f->n > MAX_MERGED)
        return fm_node_fail(source, err, FM_ERR_VALUE, "<< into more than 10,000 members; write them out");
    for (size_t i = 0; i < source->count; i++) {
        const fm_node *member = source->items[i];
        bool there = false;
        for (size_t j = 0; j < f->n && !there; j++)
            there = !strcmp(f->children[j]->key, member->key);
        if (there)
            continue;
        fm_node *copy = fm_arena_take(&b->tree->arena, sizeof *copy);
        if (!copy)
            return no_memory(err);
        *copy = *member;
        copy->parent = f->node;
        copy->items = NULL;
        fm_status status = copy_value(b, member, copy, b->depth, err);
        status = status ? status : push(&f->children, &f->n, &f->capacity, copy, err);
        if (status)
            return status;
    }
    return FM_OK;
}

static fm_status merge(builder *b, frame *f, const fm_node *source, fm_err *err)
{
    bool is_list = source->type == FM_NODE_ARRAY;
    for (size_t i = 0; is_list && i < source->count; i++)
        if (source->items[i]->type != FM_NODE_OBJECT)
            return fm_node_fail(source->items[i], err, FM_ERR_VALUE, "<< takes mappings, not %s",
                                fm_node_type_words(source->items[i]));
    if (!is_list && source->type != FM_NODE_OBJECT)
        return fm_node_fail(source, err, FM_ERR_VALUE, "<< takes a mapping, not %s", fm_node_type_words(source));
    fm_status status = is_list ? FM_OK : add_missing(b, f, source, err);
    for (size_t i = 0; !status && is_list && i < source->count; i++)
        status = add_missing(b, f, source->items[i], err);
    return status;
}

// ---- events ----

static fm_status on_key(builder *b, frame *f, const yaml_event_t *e, fm_err *err)
{
    const char *text = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    if (strlen(text) != n)
        return fail_mark(b, err, FM_ERR_VALUE, e->start_mark, "a key holds a zero byte");
    if (!(f->key = keep(b, text, n)))
        return no_memory(err);
    f->key_line = (uint32_t)e->start_mark.line + 1;
    f->key_is_merge = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !strcmp(text, "<<");
    if (e->data.scalar.anchor)
        return fail_mark(b, err, FM_ERR_UNSUPPORTED, e->start_mark, "an anchor on a key; put it on a value");
    return FM_OK;
}

static fm_status on_scalar(builder *b, const yaml_event_t *e, fm_err *err)
{
    frame *f = top(b);
    if (f && f->node->type == FM_NODE_OBJECT && !f->key)
        return on_key(b, f, e, err);
    fm_node *node = NULL;
    fm_status status = take_slot(b, e->start_mark, &node, err);
    if (status)
        return status;
    node->count = e->data.scalar.length;
    node->text = keep(b, e->data.scalar.value, node->count);
    const char *anchor_name = (const char *)e->data.scalar.anchor;
    if (!node->text || (anchor_name && !(anchor_name = keep(b, anchor_name, strlen(anchor_name)))))
        return no_memory(err);
    const char *tag = (const char *)e->data.scalar.tag;
    if (!tag && !e->data.scalar.plain_implicit)
        tag = "!";
    const char *wrong = fm_yaml_resolve(node, tag);
    if (wrong)
        return fm_node_fail(node, err, FM_ERR_VALUE, "%.60s: %s", node->text, wrong);
    return add_anchor(b, anchor_name, node, err);
}

static fm_status on_open(builder *b, const yaml_event_t *e, bool mapping, fm_err *err)
{
    const char *name = (const char *)(mapping ? e->data.mapping_start.anchor : e->data.sequence_start.anchor);
    const char *tag = (const char *)(mapping ? e->data.mapping_start.tag : e->data.sequence_start.tag);
    if (tag && strcmp(tag, mapping ? "tag:yaml.org,2002:map" : "tag:yaml.org,2002:seq") != 0 && strcmp(tag, "!") != 0)
        return fail_mark(b, err, FM_ERR_VALUE, e->start_mark, "a tag that is not plain data; remove it");
    frame *f = top(b);
    if (f && f->node->type == FM_NODE_OBJECT && !f->key)
        return fail_mark(b, err, FM_ERR_UNSUPPORTED, e->start_mark, "a list or mapping as a key; use a string");
    if (b->depth >= FM_TREE_MAX_DEPTH)
        return fail_mark(b, err, FM_ERR_VALUE, e->start_mark, "nested deeper than 127 levels; flatten it");
    fm_node *node = NULL;
    fm_status status = take_slot(b, e->start_mark, &node, err);
    if (status)
        return status;
    node->type = mapping ? FM_NODE_OBJECT : FM_NODE_ARRAY;
    frame *opened = &b->open[b->depth++];
    *opened = (frame){.node = node};
    if (name && !(opened->anchor = keep(b, name, strlen(name))))
        return no_memory(err);
    return FM_OK;
}

static void close_frame(builder *b)
{
    frame *f = &b->open[--b->depth];
    fm_free(f->children);
    fm_free(f->merges);
}

static fm_status on_close(builder *b, fm_err *err)
{
    frame *f = top(b);
    fm_status status = FM_OK;
    for (size_t i = 0; !status && i < f->n_merges; i++)
        status = merge(b, f, f->merges[i], err);
    if (status)
        return status;
    fm_node *node = f->node;
    node->items = fm_arena_array(&b->tree->arena, f->n, sizeof(fm_node *));
    if (!node->items)
        return no_memory(err);
    if (f->n)
        memcpy(node->items, f->children, f->n * sizeof(fm_node *));
    node->count = f->n;
    if (node->type == FM_NODE_OBJECT)
        status = fm_node_seal(b->tree, node, err);
    status = status ? status : add_anchor(b, f->anchor, node, err);
    close_frame(b);
    return status;
}

static fm_status on_event(builder *b, const yaml_event_t *e, fm_err *err)
{
    fm_status status = FM_OK;
    if (b->done && e->type == YAML_DOCUMENT_START_EVENT)
        return fail_mark(b, err, FM_ERR_UNSUPPORTED, e->start_mark, "a second document; keep one to a file");
    switch (e->type) {
    case YAML_ALIAS_EVENT:
        status = on_alias(b, e, err);
        break;
    case YAML_SCALAR_EVENT:
        status = on_scalar(b, e, err);
        break;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        status = on_open(b, e, e->type == YAML_MAPPING_START_EVENT, err);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        status = on_close(b, err);
        break;
    case YAML_DOCUMENT_END_EVENT:
        b->done = true;
        break;
    default:
        break;
    }
    return status;
}

// Whether white space with a tab in it leads up to this place.
static bool is_tab(const builder *b, yaml_mark_t mark)
{
    size_t line = 0, at = 0;
    for (; at < b->n && line < mark.line; at++)
        line += b->text[at] == '\n';
    size_t n = 0;
    bool tab = false;
    for (; at + n < b->n && (b->text[at + n] == ' ' || b->text[at + n] == '\t'); n++)
        tab = tab || b->text[at + n] == '\t';
    return tab && mark.column <= n;
}

static fm_status fail_parser(builder *b, const yaml_parser_t *p, fm_err *err)
{
    if (p->error == YAML_MEMORY_ERROR)
        return no_memory(err);
    const char *problem = p->problem ? p->problem : "unreadable";
    if (p->error == YAML_READER_ERROR)
        return fm_tree_fail_at(b->tree->name, err, FM_ERR_SYNTAX, p->problem_offset + b->shift, 0, 0,
                               "byte %zu: not UTF-8 text: %s", p->problem_offset + b->shift, problem);
    if (is_tab(b, p->problem_mark))
        problem = "YAML does not indent with tabs; use spaces:";
    return fm_tree_fail_at(b->tree->name, err, FM_ERR_SYNTAX, FM_NO_OFFSET, (uint32_t)p->problem_mark.line + 1,
                           (uint32_t)p->problem_mark.column + 1, "not YAML: %s%s%s", problem, p->context ? " " : "",
                           p->context ? p->context : "");
}

static fm_status run_parser(builder *b, yaml_parser_t *p, fm_err *err)
{
    for (bool more = true; more;) {
        yaml_event_t e;
        if (!yaml_parser_parse(p, &e))
            return fail_parser(b, p, err);
        fm_status status = on_event(b, &e, err);
        more = e.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&e);
        if (status)
            return status;
    }
    return FM_OK;
}

fm_status fm_tree_parse_yaml(const char *text, size_t n, const char *name, fm_tree **out, fm_err *err)
{
    yaml_parser_t parser;
    builder *b = fm_calloc(1, sizeof *b);
    if (!b || !(b->tree = fm_tree_create(name)) || !yaml_parser_initialize(&parser)) {
        if (b)
            fm_tree_destroy(b->tree);
        fm_free(b);
        return no_memory(err);
    }
    b->shift = n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
    b->text = text + b->shift;
    b->n = n - b->shift;
    // An empty text is one empty value: null, on line 1.
    b->tree->root.line = b->tree->root.column = 1;
    b->tree->root.text = "";
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)b->text, b->n);
    fm_status status = run_parser(b, &parser, err);
    yaml_parser_delete(&parser);
    while (b->depth)
        close_frame(b);
    fm_free(b->anchors);
    if (status)
        fm_tree_destroy(b->tree);
    else
        *out = b->tree;
    fm_free(b);
    return status;
}

// JSON by way of Jansson, which knows the grammar but keeps no places, stops integers at 2^63 and names only one of two
// equal keys. So a text is looked at three times: a scan for depth and amount, before anything is built; Jansson; and a
// walk over Jansson's values with a cursor in the text, which Jansson has by then found to be well formed. Strings and
// numbers are taken from the text on that walk: when memory runs out, Jansson drops letters of a token in silence.
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/utf8.h"
#include "files/tree_node.h"

enum { MAX_VALUES = 10000000 }; // what one text may hold: bounds memory, at about 100 bytes a value

typedef struct {
    const char *text;
    size_t n, at;
    size_t line_start;
    uint32_t line;
    const char *name;
    fm_tree *tree;
} cursor;

static uint32_t column_of(const cursor *c)
{
    return (uint32_t)(c->at - c->line_start + 1);
}

static fm_status fail_here(const cursor *c, fm_err *err, fm_status code, const char *words)
{
    return fm_tree_fail_at(c->name, err, code, c->at, c->line, column_of(c), "%s", words);
}

static void skip_space(cursor *c)
{
    for (; c->at < c->n; c->at++) {
        char ch = c->text[c->at];
        if (ch == '\n') {
            c->line++;
            c->line_start = c->at + 1;
        } else if (ch != ' ' && ch != '\t' && ch != '\r') {
            return;
        }
    }
}

// From an opening quote to past the closing one, or to the end of a text that lacks it.
static void skip_string(cursor *c)
{
    for (c->at++; c->at < c->n && c->text[c->at] != '"'; c->at++)
        if (c->text[c->at] == '\\' && c->at + 1 < c->n)
            c->at++;
    if (c->at < c->n)
        c->at++;
}

static void step(cursor *c)
{
    skip_space(c);
    if (c->at < c->n && c->text[c->at] == '"')
        skip_string(c);
    else if (c->at < c->n)
        c->at++;
}

static fm_status check_bounds(cursor c, fm_err *err)
{
    size_t depth = 0, values = 1;
    for (skip_space(&c); c.at < c.n; step(&c), skip_space(&c)) {
        char ch = c.text[c.at];
        if ((ch == '{' || ch == '[') && ++depth > FM_TREE_MAX_DEPTH)
            return fail_here(&c, err, FM_ERR_VALUE, "nested deeper than 127 levels; flatten it");
        if ((ch == '}' || ch == ']') && depth)
            depth--;
        if (ch == ',' && ++values > MAX_VALUES)
            return fail_here(&c, err, FM_ERR_VALUE, "more than 10,000,000 values; is this the right file?");
    }
    return FM_OK;
}

// ---- when Jansson says no ----

// Sets the cursor to byte `to`, counting lines on the way.
static void move_to(cursor *c, size_t to)
{
    for (; c->at < to && c->at < c->n; c->at++)
        if (c->text[c->at] == '\n') {
            c->line++;
            c->line_start = c->at + 1;
        }
}

// Whether two quoted strings of the text mean the same, however they are escaped.
static bool same_string(const char *a, size_t n, const char *b, size_t m)
{
    if (n == m && !memcmp(a, b, n))
        return true;
    if (!memchr(a, '\\', n) && !memchr(b, '\\', m))
        return false;
    json_t *x = json_loadb(a, n, JSON_DECODE_ANY, NULL), *y = json_loadb(b, m, JSON_DECODE_ANY, NULL);
    bool same = x && y && json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return same;
}

// The key that ends just before `end`, and the equal one before it in the same object.
static fm_status fail_duplicate(cursor c, size_t end, fm_err *err)
{
    struct {
        size_t at;
        bool wants_key;
    } open[FM_TREE_MAX_DEPTH + 1];
    cursor start = c;
    size_t depth = 0, key = c.n, key_end = c.n;
    for (skip_space(&c); c.at < end; skip_space(&c)) {
        char ch = c.text[c.at];
        if ((ch == '{' || ch == '[') && depth < FM_TREE_MAX_DEPTH) {
            open[++depth].at = c.at;
            open[depth].wants_key = ch == '{';
        } else if ((ch == '}' || ch == ']') && depth) {
            depth--;
        } else if (ch == ',' && depth) {
            open[depth].wants_key = c.text[open[depth].at] == '{';
        }
        size_t at = c.at;
        bool is_key = ch == '"' && depth && open[depth].wants_key;
        step(&c);
        if (is_key) {
            open[depth].wants_key = false;
            key = at;
            key_end = c.at;
        }
    }
    if (key == c.n || !depth)
        return fail_here(&c, err, FM_ERR_CONFLICT, "a key occurs twice in one object; remove one");
    cursor first = start;
    move_to(&first, open[depth].at + 1);
    for (size_t inner = 0; first.at < key;) {
        skip_space(&first);
        char ch = first.text[first.at];
        size_t at = first.at;
        inner += ch == '{' || ch == '[';
        inner -= ch == '}' || ch == ']';
        step(&first);
        if (ch == '"' && !inner && same_string(c.text + at, first.at - at, c.text + key, key_end - key))
            break;
    }
    move_to(&start, key);
    return fm_tree_fail_at(c.name, err, FM_ERR_CONFLICT, key, start.line, column_of(&start),
                           "key %.*s occurs twice in one object (first on line %u); remove one",
                           (int)(key_end - key < 200 ? key_end - key : 200), c.text + key, first.line);
}

static bool starts_with(const cursor *c, const char *word)
{
    size_t n = strlen(word);
    return c->n - c->at >= n && !memcmp(c->text + c->at, word, n);
}

static fm_status fail_syntax(cursor c, const json_error_t *e, fm_err *err)
{
    enum json_error_code code = json_error_code(e);
    // Where its memory is out Jansson mostly gives up without a word.
    if (code == json_error_out_of_memory || !e->text[0])
        return fm_fail_memory(err, "reading JSON");
    size_t position = e->position > 0 ? (size_t)e->position : 0;
    if (code == json_error_duplicate_key)
        return fail_duplicate(c, c.at + position < c.n ? c.at + position : c.n, err);
    // Jansson's position is past the token; its words quote the token.
    size_t place = c.at + position < c.n ? c.at + position : c.n;
    cursor token = c;
    for (size_t back = 0; back <= 9 && back <= place - c.at; back++) {
        token.at = place - back;
        if (starts_with(&token, "NaN") || starts_with(&token, "Infinity") || starts_with(&token, "-Infinity")) {
            cursor there = c;
            move_to(&there, token.at);
            return fail_here(&there, err, FM_ERR_VALUE, "NaN and Infinity are not JSON; write a number or null");
        }
    }
    move_to(&c, place);
    if (code == json_error_numeric_overflow)
        return fail_here(&c, err, FM_ERR_VALUE, "a number passes the range of a double");
    if (code == json_error_null_byte_in_key)
        return fail_here(&c, err, FM_ERR_VALUE, "a key holds a zero byte (\\u0000)");
    if (code == json_error_invalid_utf8)
        return fail_here(&c, err, FM_ERR_SYNTAX, "bytes that are not UTF-8 text");
    if (code == json_error_premature_end_of_input)
        return fail_here(&c, err, FM_ERR_SYNTAX, "the text ends in the middle of a value (cut off?)");
    char words[JSON_ERROR_TEXT_LENGTH + 16];
    snprintf(words, sizeof words, "not JSON: %s", e->text);
    return fail_here(&c, err, FM_ERR_SYNTAX, words);
}

// ---- the walk ----

static fm_status fill(cursor *c, json_t *json, fm_node *node, fm_err *err);

static fm_node *new_node(cursor *c, const fm_node *parent)
{
    fm_node *node = fm_arena_take(&c->tree->arena, sizeof *node);
    if (node)
        node->parent = parent;
    return node;
}

static unsigned hex4(const char *p)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++)
        v = v << 4 | (unsigned)(p[i] <= '9' ? p[i] - '0' : (p[i] | 0x20) - 'a' + 10);
    return v;
}

// Decodes the escape at p (a backslash) into out; moves p past it.
static size_t decode_escape(const char **p, char out[4])
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char kind = (*p)[1];
    *p += 2;
    if (kind != 'u') {
        out[0] = values[strchr(names, kind) - names];
        return 1;
    }
    uint32_t code = hex4(*p);
    *p += 4;
    if (code >= 0xd800 && code < 0xdc00) { // Jansson has seen to it that the other half follows
        code = 0x10000 + ((code - 0xd800) << 10) + (hex4(*p + 2) - 0xdc00);
        *p += 6;
    }
    return fm_utf8_encode(code, out);
}

// The string at the cursor, decoded into the arena; moves past it.
static char *take_string(cursor *c, size_t *n)
{
    const char *p = c->text + c->at + 1;
    skip_string(c);
    const char *end = c->text + c->at - 1;
    // No escape is shorter than what it stands for.
    char *out = fm_arena_text(&c->tree->arena, p, (size_t)(end - p));
    size_t used = 0;
    if (!out)
        return NULL;
    while (p < end)
        if (*p == '\\')
            used += decode_escape(&p, out + used);
        else
            out[used++] = *p++;
    out[used] = 0;
    *n = used;
    return out;
}

static fm_status fill_array(cursor *c, json_t *json, fm_node *node, fm_err *err)
{
    node->type = FM_NODE_ARRAY;
    node->count = json_array_size(json);
    node->items = fm_arena_array(&c->tree->arena, node->count, sizeof(fm_node *));
    if (!node->items)
        return fm_fail_memory(err, "a list of JSON");
    for (size_t i = 0; i < node->count; i++) {
        step(c); // '[' or ','
        if (!(node->items[i] = new_node(c, node)))
            return fm_fail_memory(err, "a list of JSON");
        fm_status status = fill(c, json_array_get(json, i), node->items[i], err);
        if (status)
            return status;
    }
    if (!node->count)
        step(c); // '['
    step(c);     // ']'
    return FM_OK;
}

static fm_status fill_object(cursor *c, json_t *json, fm_node *node, fm_err *err)
{
    node->type = FM_NODE_OBJECT;
    node->items = fm_arena_array(&c->tree->arena, json_object_size(json), sizeof(fm_node *));
    if (!node->items)
        return fm_fail_memory(err, "an object of JSON");
    // Jansson iterates in the order of insertion, which without duplicates is the order of the text.
    for (void *i = json_object_iter(json); i; i = json_object_iter_next(json, i)) {
        size_t n;
        fm_node *member = new_node(c, node);
        step(c); // '{' or ','
        skip_space(c);
        if (!member || !(member->key = take_string(c, &n)))
            return fm_fail_memory(err, "an object of JSON");
        member->key_line = c->line;
        step(c); // ':'
        node->items[node->count++] = member;
        fm_status status = fill(c, json_object_iter_value(i), member, err);
        if (status)
            return status;
    }
    if (!node->count)
        step(c); // '{'
    step(c);     // '}'
    return fm_node_seal(c->tree, node, err);
}

static fm_status fill_number(cursor *c, fm_node *node, fm_err *err)
{
    size_t start = c->at;
    while (c->at < c->n && c->text[c->at] && strchr("+-.0123456789eE", c->text[c->at]))
        c->at++;
    size_t n = c->at - start;
    char *text = fm_arena_text(&c->tree->arena, c->text + start, n);
    if (!text)
        return fm_fail_memory(err, "a number of JSON");
    node->text = text;
    if (strpbrk(text, ".eE")) {
        node->type = FM_NODE_DOUBLE;
        node->value.d = fm_parse_double(text);
    } else {
        bool negative = *text == '-';
        fm_node_set_integer(node, text + negative, n - negative, 10, negative);
    }
    return FM_OK;
}

static fm_status fill(cursor *c, json_t *json, fm_node *node, fm_err *err)
{
    skip_space(c);
    node->offset = c->at;
    node->line = c->line;
    node->column = column_of(c);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return fill_object(c, json, node, err);
    case JSON_ARRAY:
        return fill_array(c, json, node, err);
    case JSON_STRING:
        node->type = FM_NODE_STRING;
        node->text = take_string(c, &node->count);
        return node->text ? FM_OK : fm_fail_memory(err, "a string of JSON");
    case JSON_INTEGER:
    case JSON_REAL:
        return fill_number(c, node, err);
    case JSON_TRUE:
    case JSON_FALSE:
        node->type = FM_NODE_BOOL;
        node->value.flag = json_is_true(json);
        node->text = node->value.flag ? "true" : "false";
        break;
    case JSON_NULL:
        node->type = FM_NODE_NULL;
        node->text = "null";
        break;
    }
    c->at += strlen(node->text);
    return FM_OK;
}

fm_status fm_tree_parse_json(const char *text, size_t n, const char *name, fm_tree **out, fm_err *err)
{
    cursor c = {.text = text, .n = n, .line = 1, .name = name ? name : ""};
    if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
        c.at = c.line_start = 3;
    fm_status status = check_bounds(c, err);
    if (status)
        return status;
    // Whole numbers as reals: Jansson would stop at 2^63; their digits are read from the text.
    json_error_t e = {0};
    json_t *json = json_loadb(text + c.at, n - c.at,
                              JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &e);
    if (!json)
        return fail_syntax(c, &e, err);
    c.tree = fm_tree_create(name);
    status = c.tree ? fill(&c, json, &c.tree->root, err) : fm_fail_memory(err, "reading JSON");
    json_decref(json);
    if (status)
        fm_tree_destroy(c.tree);
    else
        *out = c.tree;
    return status;
}

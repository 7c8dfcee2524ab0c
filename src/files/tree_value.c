#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "files/tree_node.h"

static int digit_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : 99;
}

double fm_parse_double(const char *text)
{
    char copy[512];
    const char *point = localeconv()->decimal_point, *dot = strchr(text, '.');
    size_t n = strlen(text), m = strlen(point);
    if (!dot || !strcmp(point, ".") || n + m > sizeof copy)
        return strtod(text, NULL);
    size_t before = (size_t)(dot - text);
    memcpy(copy, text, before);
    memcpy(copy + before, point, m);
    memcpy(copy + before + m, dot + 1, n - before - 1);
    copy[n + m - 1] = 0;
    return strtod(copy, NULL);
}

bool fm_node_set_integer(fm_node *node, const char *digits, size_t n, unsigned base, bool negative)
{
    uint64_t v = 0;
    double approximate = 0;
    bool fits = true;
    for (size_t i = 0; i < n; i++) {
        unsigned digit = (unsigned)digit_value(digits[i]);
        fits =
            fits && !__builtin_mul_overflow(v, (uint64_t)base, &v) && !__builtin_add_overflow(v, (uint64_t)digit, &v);
        approximate = approximate * base + digit;
    }
    if (fits && negative && v <= (uint64_t)INT64_MAX + 1) {
        node->type = FM_NODE_INT;
        node->value.i = (int64_t)(0 - v);
        return true;
    }
    if (fits && !negative) {
        node->type = v <= INT64_MAX ? FM_NODE_INT : FM_NODE_UINT;
        node->value.u = v;
        return true;
    }
    node->type = FM_NODE_DOUBLE;
    // strtod rounds once; summing digits does not.
    if (base == 10)
        approximate = fm_parse_double(digits);
    node->value.d = negative ? -approximate : approximate;
    return false;
}

// "hidden_size" must be WANTED, not a string ("4k")
static fm_status fail_type(const fm_node *node, const char *wanted, fm_err *err)
{
    char path[160], found[96];
    fm_node_path(node, path, sizeof path);
    const char *words = fm_node_type_words(node), *text = fm_node_text(node);
    if (node->type == FM_NODE_STRING)
        snprintf(found, sizeof found, "%s (\"%.40s\")", words, text);
    else
        snprintf(found, sizeof found, "%.40s", text ? text : words);
    const char *quote = *path ? "\"" : "";
    return fm_node_fail(node, err, FM_ERR_VALUE, "%s%s%s must be %s, not %s", quote, *path ? path : "this value", quote,
                        wanted, found);
}

fm_status fm_node_u64(const fm_node *node, uint64_t *out, fm_err *err)
{
    if (node->type != FM_NODE_UINT && (node->type != FM_NODE_INT || node->value.i < 0))
        return fail_type(node, "a whole number of at least 0", err);
    *out = node->value.u;
    return FM_OK;
}

fm_status fm_node_i64(const fm_node *node, int64_t *out, fm_err *err)
{
    if (node->type != FM_NODE_INT)
        return fail_type(node, "a whole number below 2^63", err);
    *out = node->value.i;
    return FM_OK;
}

fm_status fm_node_double(const fm_node *node, double *out, fm_err *err)
{
    double v = node->type == FM_NODE_INT      ? (double)node->value.i
               : node->type == FM_NODE_UINT   ? (double)node->value.u
               : node->type == FM_NODE_DOUBLE ? node->value.d
                                              : (double)NAN;
    if (!isfinite(v))
        return fail_type(node, node->type == FM_NODE_DOUBLE ? "a finite number" : "a number", err);
    *out = v;
    return FM_OK;
}

fm_status fm_node_bool(const fm_node *node, bool *out, fm_err *err)
{
    if (node->type != FM_NODE_BOOL)
        return fail_type(node, "true or false", err);
    *out = node->value.flag;
    return FM_OK;
}

fm_status fm_node_string(const fm_node *node, const char **out, fm_err *err)
{
    if (node->type != FM_NODE_STRING)
        return fail_type(node, "a string", err);
    if (strlen(node->text) != node->count)
        return fail_type(node, "a string without a zero byte", err);
    *out = node->text;
    return FM_OK;
}

#define OPTIONAL(kind, c_type)                                                                     \
    fm_status fm_node_opt_##kind(const fm_node *object, const char *key, c_type *out, fm_err *err) \
    {                                                                                              \
        const fm_node *value = fm_node_get_set(object, key);                                       \
        return value ? fm_node_##kind(value, out, err) : FM_OK;                                    \
    }
OPTIONAL(u64, uint64_t)
OPTIONAL(i64, int64_t)
OPTIONAL(double, double)
OPTIONAL(bool, bool)
OPTIONAL(string, const char *)
#undef OPTIONAL

// The member whose key is nearest; NULL when none is.
static const char *nearest_member(const fm_node *object, const char *key)
{
    enum { MANY = 256 }; // of more keys the nearest is no help
    const char *keys[MANY];
    size_t n = object->count < MANY ? object->count : MANY;
    for (size_t i = 0; i < n; i++)
        keys[i] = object->items[i]->key;
    return fm_nearest(key, keys, n);
}

fm_status fm_node_need(const fm_node *object, const char *key, const fm_node **out, fm_err *err)
{
    if (object->type != FM_NODE_OBJECT)
        return fail_type(object, "an object", err);
    const fm_node *value = fm_node_get(object, key);
    if (value && value->type != FM_NODE_NULL) {
        *out = value;
        return FM_OK;
    }
    char path[160];
    fm_node_path(object, path, sizeof path);
    const char *dot = *path ? "." : "", *near = value ? NULL : nearest_member(object, key);
    if (value)
        return fm_node_fail(value, err, FM_ERR_NOT_FOUND, "\"%s%s%s\" is null but must have a value", path, dot, key);
    if (near)
        return fm_node_fail(object, err, FM_ERR_NOT_FOUND, "\"%s%s%s\" is missing; \"%s\" is there: a slip?", path, dot,
                            key, near);
    return fm_node_fail(object, err, FM_ERR_NOT_FOUND, "\"%s%s%s\" is missing", path, dot, key);
}

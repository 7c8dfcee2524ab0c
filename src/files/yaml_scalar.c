#include "files/yaml_scalar.h"
#include <math.h>
#include <string.h>

enum { LONGEST_NUMBER = 128 };

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strcmp(text, *words))
            return true;
    return false;
}

// word, Word and WORD, as the YAML specifications list them.
static bool is_word(const char *text, const char *lower)
{
    bool all_lower = true, title = true, upper = true;
    size_t i = 0;
    for (; lower[i]; i++) {
        char small = lower[i], large = small >= 'a' && small <= 'z' ? (char)(small - 'a' + 'A') : small;
        all_lower = all_lower && text[i] == small;
        upper = upper && text[i] == large;
        title = title && text[i] == (i ? small : large);
        if (!all_lower && !title && !upper)
            return false;
    }
    return !text[i];
}

static bool resolve_bool(fm_node *node)
{
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    for (size_t i = 0; i < 3; i++) {
        bool is_yes = is_word(node->text, yes[i]);
        if (is_yes || is_word(node->text, no[i])) {
            node->type = FM_NODE_BOOL;
            node->value.flag = is_yes;
            return true;
        }
    }
    return false;
}

// The text without '_' (allowed between digits); 0 when it is too long or has one elsewhere.
static size_t without_underscores(const char *text, char *out)
{
    size_t n = 0;
    for (size_t i = 0; text[i]; i++) {
        if (text[i] == '_' && n && out[n - 1] != '.' && text[i + 1] && text[i + 1] != '.')
            continue;
        if (text[i] == '_' || n + 1 >= LONGEST_NUMBER)
            return 0;
        out[n++] = text[i];
    }
    out[n] = 0;
    return n;
}

static bool all_in(const char *text, const char *set)
{
    return *text && text[strspn(text, set)] == 0;
}

// 1 when it is an integer (set), 0 when not, -1 when it has a leading zero.
static int resolve_integer(fm_node *node, const char *number)
{
    bool negative = *number == '-';
    const char *digits = number + (*number == '-' || *number == '+');
    static const struct {
        const char *prefix, *set;
        unsigned base;
    } bases[] = {{"0x", "0123456789abcdefABCDEF", 16}, {"0o", "01234567", 8}, {"0b", "01", 2}};
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
        if (!strncmp(digits, bases[i].prefix, 2) && all_in(digits + 2, bases[i].set)) {
            fm_node_set_integer(node, digits + 2, strlen(digits + 2), bases[i].base, negative);
            return 1;
        }
    if (!all_in(digits, "0123456789"))
        return 0;
    if (digits[0] == '0' && digits[1])
        return -1;
    fm_node_set_integer(node, digits, strlen(digits), 10, negative);
    return 1;
}

static bool resolve_double(fm_node *node, const char *number)
{
    static const char *const infinities[] = {".inf", ".Inf", ".INF", NULL}, *const nans[] = {".nan", ".NaN", ".NAN",
                                                                                             NULL};
    bool sign = *number == '-' || *number == '+';
    const char *p = number + sign;
    if (is_one_of(p, infinities)) {
        node->value.d = *number == '-' ? -(double)INFINITY : (double)INFINITY;
    } else if (is_one_of(number, nans)) {
        node->value.d = (double)NAN;
    } else {
        size_t whole = strspn(p, "0123456789");
        const char *end = p + whole;
        size_t fraction = 0;
        if (*end == '.') {
            fraction = strspn(end + 1, "0123456789");
            end += 1 + fraction;
        }
        if (!whole && !fraction)
            return false;
        if (*end == 'e' || *end == 'E') {
            end += 1 + (end[1] == '+' || end[1] == '-');
            size_t exponent = strspn(end, "0123456789");
            if (!exponent)
                return false;
            end += exponent;
        }
        if (*end)
            return false;
        node->value.d = fm_parse_double(number);
    }
    node->type = FM_NODE_DOUBLE;
    return true;
}

static const char *resolve_plain(fm_node *node)
{
    char number[LONGEST_NUMBER] = "";
    node->type = FM_NODE_STRING;
    if (!*node->text || !strcmp(node->text, "~") || is_word(node->text, "null")) {
        node->type = FM_NODE_NULL;
        node->count = 0;
        return NULL;
    }
    bool numeric = strchr("+-.0123456789", *node->text) && without_underscores(node->text, number);
    if (numeric) {
        int integer = resolve_integer(node, number);
        if (integer < 0)
            return "a number with a leading zero is octal to some readers and decimal to others; drop the zero, write "
                   "0o for octal, or quote it";
        numeric = integer || resolve_double(node, number);
    }
    if (numeric || resolve_bool(node))
        node->count = 0;
    return NULL;
}

const char *fm_yaml_resolve(fm_node *node, const char *tag)
{
    static const char core[] = "tag:yaml.org,2002:";
    node->type = FM_NODE_STRING;
    if (tag && !strcmp(tag, "!"))
        return NULL;
    if (tag && strncmp(tag, core, sizeof core - 1) != 0)
        return "a tag that is not plain data; remove it";
    const char *kind = tag ? tag + sizeof core - 1 : NULL;
    if (kind && !strcmp(kind, "str"))
        return NULL;
    const char *wrong = resolve_plain(node);
    if (wrong || !kind)
        return wrong;
    if (!strcmp(kind, "float") && (node->type == FM_NODE_INT || node->type == FM_NODE_UINT)) {
        node->value.d = node->type == FM_NODE_INT ? (double)node->value.i : (double)node->value.u;
        node->type = FM_NODE_DOUBLE;
    }
    static const struct {
        const char *kind;
        fm_node_type a, b;
    } kinds[] = {
        {"int", FM_NODE_INT, FM_NODE_UINT},
        {"float", FM_NODE_DOUBLE, FM_NODE_DOUBLE},
        {"bool", FM_NODE_BOOL, FM_NODE_BOOL},
        {"null", FM_NODE_NULL, FM_NODE_NULL},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kind, kinds[i].kind))
            return node->type == kinds[i].a || node->type == kinds[i].b ? NULL : "a value that does not fit its tag";
    return "a tag that is not plain data; remove it";
}

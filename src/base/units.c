#include "base/units.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef unsigned __int128 u128;

typedef struct {
    const char *name;
    uint64_t factor;
} unit;

static const unit decimal[] = {{"B", 1},
                               {"kB", 1000},
                               {"MB", 1000000},
                               {"GB", 1000000000},
                               {"TB", 1000000000000},
                               {"PB", 1000000000000000},
                               {"EB", 1000000000000000000}};
static const unit binary[] = {{"B", 1},
                              {"KiB", UINT64_C(1) << 10},
                              {"MiB", UINT64_C(1) << 20},
                              {"GiB", UINT64_C(1) << 30},
                              {"TiB", UINT64_C(1) << 40},
                              {"PiB", UINT64_C(1) << 50},
                              {"EiB", UINT64_C(1) << 60}};
static const unit counts[] = {{"", 1},           {"K", 1000},       {"M", 1000000},
                              {"B", 1000000000}, {"G", 1000000000}, {"T", 1000000000000}};

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

fm_status fm_parse_units(const char *text, fm_units *out, fm_err *err)
{
    if (strcasecmp(text, "GB") == 0)
        *out = FM_UNITS_GB;
    else if (strcasecmp(text, "GiB") == 0)
        *out = FM_UNITS_GIB;
    else
        return fm_fail(err, FM_ERR_USAGE, "\"%s\" is not a unit; write GB (10^9 bytes) or GiB (2^30 bytes)", text);
    return FM_OK;
}

char *fm_format_count(char out[FM_UNITS_TEXT_BYTES], uint64_t count)
{
    char digits[24];
    size_t n = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)count), to = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            out[to++] = ',';
        out[to++] = digits[i];
    }
    out[to] = 0;
    return out;
}

// value / factor, rounded half up to `decimals`, and the unit's name.
static char *in_unit(char *out, uint64_t value, unit u, int decimals, const char *space)
{
    uint64_t scale = 1;
    for (int i = 0; i < decimals; i++)
        scale *= 10;
    u128 scaled = ((u128)value * scale * 2 + u.factor) / ((u128)u.factor * 2);
    fm_format_count(out, (uint64_t)(scaled / scale));
    size_t n = strlen(out);
    if (decimals)
        n += (size_t)snprintf(out + n, FM_UNITS_TEXT_BYTES - n, ".%0*llu", decimals,
                              (unsigned long long)(scaled % scale));
    snprintf(out + n, FM_UNITS_TEXT_BYTES - n, "%s%s", space, u.name);
    return out;
}

char *fm_format_bytes(char out[FM_UNITS_TEXT_BYTES], uint64_t bytes, fm_units units, int decimals)
{
    const unit *family = units == FM_UNITS_GB ? decimal : binary;
    size_t i = LENGTH(decimal) - 1;
    while (i && bytes < family[i].factor)
        i--;
    return in_unit(out, bytes, family[i], i ? decimals : 0, " ");
}

char *fm_format_giga(char out[FM_UNITS_TEXT_BYTES], uint64_t bytes, fm_units units, int decimals)
{
    return in_unit(out, bytes, units == FM_UNITS_GB ? decimal[3] : binary[3], decimals, " ");
}

char *fm_format_count_short(char out[FM_UNITS_TEXT_BYTES], uint64_t count)
{
    static const unit steps[] = {{"T", 1000000000000}, {"B", 1000000000}, {"M", 1000000}, {"K", 1000}, {"", 1}};
    size_t i = 0;
    while (i + 1 < LENGTH(steps) && count < steps[i].factor)
        i++;
    uint64_t whole = count / steps[i].factor;
    return in_unit(out, count, steps[i], steps[i].factor == 1 || whole >= 100 ? 0 : whole >= 10 ? 1 : 2, "");
}

char *fm_format_seconds(char out[FM_UNITS_TEXT_BYTES], double seconds)
{
    if (!(seconds >= 0) || seconds > 1e9)
        snprintf(out, FM_UNITS_TEXT_BYTES, "?");
    else if (seconds < 9.95)
        snprintf(out, FM_UNITS_TEXT_BYTES, "%.1f s", seconds);
    else if (seconds < 59.5)
        snprintf(out, FM_UNITS_TEXT_BYTES, "%.0f s", seconds);
    else {
        unsigned long s = (unsigned long)(seconds + 0.5);
        if (s < 3600)
            snprintf(out, FM_UNITS_TEXT_BYTES, "%lu min %02lu s", s / 60, s % 60);
        else
            snprintf(out, FM_UNITS_TEXT_BYTES, "%lu h %02lu min", s / 3600, s % 3600 / 60);
    }
    return out;
}

// A decimal number as digits / 10^places, then the rest of the text.
typedef struct {
    uint64_t digits;
    int places;
    const char *rest;
} number;

typedef enum { READ, NOT_A_NUMBER, TOO_LONG } reading;

static reading read_number(const char *s, number *out)
{
    number v = {0, 0, s};
    bool any = false, fraction = false;
    for (;; v.rest++) {
        char c = *v.rest;
        if (c == '.' && !fraction && any) {
            fraction = true;
            continue;
        }
        if (c < '0' || c > '9')
            break;
        any = true;
        if (fraction && strspn(v.rest, "0") == strspn(v.rest, "0123456789"))
            continue; // zeros that end a fraction say nothing, however many
        if (__builtin_mul_overflow(v.digits, (uint64_t)10, &v.digits) ||
            __builtin_add_overflow(v.digits, (uint64_t)(c - '0'), &v.digits))
            return TOO_LONG;
        v.places += fraction;
    }
    if (!any || v.rest[-1] == '.')
        return NOT_A_NUMBER;
    *out = v;
    return READ;
}

static fm_status scale_number(const char *text, number v, uint64_t factor, const char *what, uint64_t *out, fm_err *err)
{
    u128 value = (u128)v.digits * factor;
    for (int i = 0; i < v.places; i++) {
        if (value % 10)
            return fm_fail(err, FM_ERR_VALUE, "\"%s\" is not a whole number of %s", text, what);
        value /= 10;
    }
    if (value > UINT64_MAX)
        return fm_fail(err, FM_ERR_OVERFLOW, "\"%s\" is too large (the limit is 2^64 - 1 %s)", text, what);
    *out = (uint64_t)value;
    return FM_OK;
}

fm_status fm_parse_bytes(const char *text, uint64_t *out, fm_err *err)
{
    number v;
    switch (read_number(text, &v)) {
    case TOO_LONG:
        return fm_fail(err, FM_ERR_OVERFLOW, "\"%s\" has too many digits for a size", text);
    case NOT_A_NUMBER:
        return fm_fail(err, FM_ERR_VALUE, "\"%s\" is not a size; write it as 80GB, 600MiB or 1073741824", text);
    case READ:
        break;
    }
    const char *u = v.rest + (*v.rest == ' ');
    if (!*v.rest)
        return scale_number(text, v, 1, "bytes", out, err);
    for (size_t i = 0; i < LENGTH(decimal); i++) {
        if (strcasecmp(u, decimal[i].name) == 0)
            return scale_number(text, v, decimal[i].factor, "bytes", out, err);
        if (strcasecmp(u, binary[i].name) == 0)
            return scale_number(text, v, binary[i].factor, "bytes", out, err);
    }
    return fm_fail(
        err, FM_ERR_VALUE,
        "\"%s\": unknown unit \"%s\"; use B, kB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (of 1024)", text, u);
}

fm_status fm_parse_count(const char *text, uint64_t *out, fm_err *err)
{
    number v;
    switch (read_number(text, &v)) {
    case TOO_LONG:
        return fm_fail(err, FM_ERR_OVERFLOW, "\"%s\" has too many digits for a count", text);
    case NOT_A_NUMBER:
        return fm_fail(err, FM_ERR_VALUE, "\"%s\" is not a count; write it as 70B, 1.5B, 135M or 70000000000", text);
    case READ:
        break;
    }
    for (size_t i = 0; i < LENGTH(counts); i++)
        if (strcasecmp(v.rest, counts[i].name) == 0)
            return scale_number(text, v, counts[i].factor, "units", out, err);
    return fm_fail(err, FM_ERR_VALUE, "\"%s\": unknown suffix \"%s\"; use K, M, B (10^9) or T", text, v.rest);
}

fm_status fm_parse_u64(const char *text, uint64_t low, uint64_t high, uint64_t *out, fm_err *err)
{
    uint64_t v = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return fm_fail(err, FM_ERR_OVERFLOW, "\"%s\" is too large (at most %llu)", text, (unsigned long long)high);
    if (p == text || *p)
        return fm_fail(err, FM_ERR_VALUE, "\"%s\" is not a whole number", text);
    if (v < low || v > high)
        return fm_fail(err, FM_ERR_VALUE, "%s is out of range (%llu to %llu)", text, (unsigned long long)low,
                       (unsigned long long)high);
    *out = v;
    return FM_OK;
}

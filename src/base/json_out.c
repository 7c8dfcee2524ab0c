#include "base/json_out.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/utf8.h"

void fm_json_quote(fm_buf *out, const char *text, size_t n)
{
    fm_buf_add_char(out, '"');
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t length = fm_utf8_decode(text + i, n - i, &c);
        if (length == 0) {
            fm_buf_add_text(out, "\xef\xbf\xbd"); // U+FFFD
            i++;
            continue;
        }
        static const char short_forms[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\";
        const char *at = c && c < 0x80 ? strchr(short_forms, (int)c) : NULL;
        if (at)
            fm_buf_printf(out, "\\%c", letters[at - short_forms]);
        else if (c < 0x20 || c == 0x7f)
            fm_buf_printf(out, "\\u%04x", (unsigned)c);
        else
            fm_buf_add(out, text + i, length);
        i += length;
    }
    fm_buf_add_char(out, '"');
}

void fm_buf_add_f64(fm_buf *out, double v)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    char *comma = strchr(text, ',');
    if (comma)
        *comma = '.';
    // 1e+02 is how %g writes 100 with one digit: whole numbers of a common size read better in full.
    if (strchr(text, 'e') && v == trunc(v) && fabs(v) < 1e15)
        snprintf(text, sizeof text, "%.0f", v);
    fm_buf_add_text(out, text);
}

void fm_json_init(fm_json *j, fm_buf *out, bool pretty)
{
    *j = (fm_json){.out = out, .pretty = pretty};
}

static void new_line(fm_json *j)
{
    if (j->pretty) {
        fm_buf_add_char(j->out, '\n');
        fm_buf_fill(j->out, ' ', 2 * (size_t)j->depth);
    }
}

// What stands before an element (or a key): a comma, a new line. False when no value may come here.
static bool before(fm_json *j, bool key)
{
    bool in_object = j->depth && j->object[j->depth - 1];
    if (j->failed || j->done || (in_object ? key == j->after_key : key)) {
        j->failed = true;
        return false;
    }
    if (j->after_key) {
        j->after_key = false;
        return true;
    }
    if (j->depth) {
        if (j->filled[j->depth - 1])
            fm_buf_add_char(j->out, ',');
        j->filled[j->depth - 1] = true;
        new_line(j);
    }
    return true;
}

static void after(fm_json *j)
{
    j->done = j->depth == 0;
}

static void begin(fm_json *j, bool object)
{
    if (!before(j, false))
        return;
    if (j->depth == FM_JSON_DEPTH) {
        j->failed = true;
        return;
    }
    fm_buf_add_char(j->out, object ? '{' : '[');
    j->object[j->depth] = object;
    j->filled[j->depth] = false;
    j->depth++;
}

static void end(fm_json *j, bool object)
{
    if (j->failed || j->depth == 0 || j->object[j->depth - 1] != object || j->after_key) {
        j->failed = true;
        return;
    }
    j->depth--;
    if (j->filled[j->depth])
        new_line(j);
    fm_buf_add_char(j->out, object ? '}' : ']');
    after(j);
}

void fm_json_begin_object(fm_json *j)
{
    begin(j, true);
}

void fm_json_end_object(fm_json *j)
{
    end(j, true);
}

void fm_json_begin_array(fm_json *j)
{
    begin(j, false);
}

void fm_json_end_array(fm_json *j)
{
    end(j, false);
}

void fm_json_key(fm_json *j, const char *key)
{
    if (!before(j, true))
        return;
    fm_json_quote(j->out, key, strlen(key));
    fm_buf_add_text(j->out, j->pretty ? ": " : ":");
    j->after_key = true;
}

void fm_json_text_n(fm_json *j, const char *text, size_t n)
{
    if (!before(j, false))
        return;
    fm_json_quote(j->out, text, n);
    after(j);
}

void fm_json_text(fm_json *j, const char *text)
{
    fm_json_text_n(j, text, strlen(text));
}

static void literal(fm_json *j, const char *text)
{
    if (!before(j, false))
        return;
    fm_buf_add_text(j->out, text);
    after(j);
}

void fm_json_u64(fm_json *j, uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    literal(j, text);
}

void fm_json_i64(fm_json *j, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)v);
    literal(j, text);
}

void fm_json_f64(fm_json *j, double v)
{
    if (!isfinite(v))
        j->failed = true;
    if (!before(j, false))
        return;
    fm_buf_add_f64(j->out, v);
    after(j);
}

void fm_json_bool(fm_json *j, bool v)
{
    literal(j, v ? "true" : "false");
}

void fm_json_null(fm_json *j)
{
    literal(j, "null");
}

void fm_json_put_text(fm_json *j, const char *key, const char *text)
{
    fm_json_key(j, key);
    if (text)
        fm_json_text(j, text);
    else
        fm_json_null(j);
}

void fm_json_put_u64(fm_json *j, const char *key, uint64_t v)
{
    fm_json_key(j, key);
    fm_json_u64(j, v);
}

void fm_json_put_i64(fm_json *j, const char *key, int64_t v)
{
    fm_json_key(j, key);
    fm_json_i64(j, v);
}

void fm_json_put_f64(fm_json *j, const char *key, double v)
{
    fm_json_key(j, key);
    fm_json_f64(j, v);
}

void fm_json_put_bool(fm_json *j, const char *key, bool v)
{
    fm_json_key(j, key);
    fm_json_bool(j, v);
}

fm_status fm_json_finish(fm_json *j, fm_err *err)
{
    if (j->out->failed)
        return fm_buf_check(j->out, err);
    if (j->failed || !j->done)
        return fm_fail(err, FM_ERR_INTERNAL, "JSON output was %s (a defect of this program)",
                       j->failed ? "put together wrongly, or holds a number that is not finite" : "not finished");
    fm_buf_add_char(j->out, '\n');
    return fm_buf_check(j->out, err);
}

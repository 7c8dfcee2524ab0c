#include "floodmark/status.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/utf8.h"

// A message goes to a terminal or a log as one line of UTF-8: control characters could break it, a cut must not split a
// letter, and what was quoted from a file or a flag need not be text.
static void tidy(char *s, size_t capacity)
{
    size_t n = strlen(s), start = n;
    uint32_t letter;
    while (n == capacity - 1 && start > 0 && start + 4 > n && ((unsigned char)s[--start] & 0xc0) == 0x80)
        continue;
    if (start < n && fm_utf8_decode(s + start, n - start, &letter) != n - start)
        s[start] = 0;
    n = strlen(s);
    for (size_t at = 0, taken; at < n; at += taken) {
        taken = fm_utf8_decode(s + at, n - at, &letter);
        if (!taken || letter < 0x20 || (letter >= 0x7f && letter < 0xa0)) {
            taken = taken ? taken : 1;
            memset(s + at, '?', taken);
        }
    }
}

static fm_status vfail(fm_err *err, fm_status code, uint64_t offset, uint32_t line, const char *format, va_list args)
{
    if (!err)
        return code;
    // Built apart: an argument may point into err->message itself.
    char message[FM_ERR_MESSAGE_BYTES];
    vsnprintf(message, sizeof message, format, args);
    tidy(message, sizeof message);
    memcpy(err->message, message, sizeof message);
    err->code = code;
    err->offset = offset;
    err->line = line;
    return code;
}

fm_status(fm_fail)(fm_err *err, fm_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfail(err, code, FM_NO_OFFSET, 0, format, args);
    va_end(args);
    return code;
}

fm_status(fm_fail_at)(fm_err *err, fm_status code, uint64_t offset, uint32_t line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfail(err, code, offset, line, format, args);
    va_end(args);
    return code;
}

fm_status(fm_err_prefix)(fm_err *err, const char *format, ...)
{
    if (!err)
        return FM_ERR_INTERNAL;
    char prefix[FM_ERR_MESSAGE_BYTES], message[2 * FM_ERR_MESSAGE_BYTES + 2];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    int n = snprintf(message, sizeof message, "%s: %s", prefix, err->message);
    if (n >= FM_ERR_MESSAGE_BYTES)
        message[FM_ERR_MESSAGE_BYTES - 1] = 0;
    tidy(message, FM_ERR_MESSAGE_BYTES);
    memcpy(err->message, message, FM_ERR_MESSAGE_BYTES);
    return err->code;
}

const char *fm_status_words(fm_status code)
{
    switch (code) {
#define FM_STATUS_WORDS(name, words) \
    case name:                       \
        return words;
        FM_STATUS_LIST(FM_STATUS_WORDS)
#undef FM_STATUS_WORDS
    }
    return "unknown status";
}

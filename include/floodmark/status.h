// Status codes and the error record that every fallible function fills.
//
// A function that can fail returns fm_status, which the compiler insists on being looked at, and takes an `fm_err *`
// owned by the caller (usually on its stack; NULL is allowed when only the code matters). On failure the function's
// outputs are untouched and the record says what went wrong; on success the record is not written.
#ifndef FLOODMARK_STATUS_H
#define FLOODMARK_STATUS_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One list: code, what it means in words. Codes are stable; new ones are added at the end.
#define FM_STATUS_LIST(X)                                \
    X(FM_OK, "ok")                                       \
    X(FM_ERR_NO_MEMORY, "out of memory")                 \
    X(FM_ERR_IO, "input/output error")                   \
    X(FM_ERR_NOT_FOUND, "not found")                     \
    X(FM_ERR_SYNTAX, "malformed input")                  \
    X(FM_ERR_VALUE, "value out of range or not allowed") \
    X(FM_ERR_OVERFLOW, "size does not fit")              \
    X(FM_ERR_CONFLICT, "values contradict one another")  \
    X(FM_ERR_UNSUPPORTED, "not supported")               \
    X(FM_ERR_LATER, "comes later")                       \
    X(FM_ERR_EXISTS, "already exists")                   \
    X(FM_ERR_USAGE, "wrong usage")                       \
    X(FM_ERR_INTERNAL, "internal error")

#define FM_STATUS_ENUM(code, words) code,
typedef enum { FM_STATUS_LIST(FM_STATUS_ENUM) } fm_status_code;
#undef FM_STATUS_ENUM

#if defined(__GNUC__)
#define FM_MUST_USE __attribute__((warn_unused_result))
#define FM_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define FM_MUST_USE
#define FM_PRINTF(fmt, first)
#endif

typedef fm_status_code fm_status;

enum { FM_ERR_MESSAGE_BYTES = 512 };

// What went wrong. `offset` is a byte position in the input (FM_NO_OFFSET when there is none), `line` counts from 1
// (0 when there is none). `message` is one line without a newline: the thing, what was wrong, what to do.
typedef struct {
    fm_status code;
    uint32_t line;
    uint64_t offset;
    char message[FM_ERR_MESSAGE_BYTES];
} fm_err;

#define FM_NO_OFFSET UINT64_MAX

// Fills *err (may be NULL) and returns code, so that `return fm_fail(err, FM_ERR_VALUE, "...", ...)` reads as one
// thought. The message is cut at FM_ERR_MESSAGE_BYTES - 1 on a UTF-8 boundary; control characters are shown as '?'.
fm_status fm_fail(fm_err *err, fm_status code, const char *format, ...) FM_PRINTF(3, 4);

// The same with a position in the input.
fm_status fm_fail_at(fm_err *err, fm_status code, uint64_t offset, uint32_t line, const char *format, ...)
    FM_PRINTF(5, 6);

// Puts "prefix: " before the message of a failed call, for a caller that knows the file's name. Returns err->code.
fm_status fm_err_prefix(fm_err *err, const char *format, ...) FM_PRINTF(2, 3);

// A compiler or analyser that sees one file at a time cannot know that these return `code`, and would follow paths (and
// warn of variables) on which a failure "succeeds". So the value is given here too; `code` is evaluated once.
#if defined(__GNUC__)
#define fm_fail(err, code, ...)                      \
    __extension__({                                  \
        fm_status fm_code_ = (code);                 \
        (void)(fm_fail)(err, fm_code_, __VA_ARGS__); \
        fm_code_;                                    \
    })
#define fm_fail_at(err, code, ...)                      \
    __extension__({                                     \
        fm_status fm_code_ = (code);                    \
        (void)(fm_fail_at)(err, fm_code_, __VA_ARGS__); \
        fm_code_;                                       \
    })
#endif
#ifdef __clang_analyzer__
#define fm_err_prefix(err, ...) ((void)(fm_err_prefix)(err, __VA_ARGS__), FM_ERR_INTERNAL)
#endif

// The words of the list above; "unknown status" for anything else. Static storage.
const char *fm_status_words(fm_status code);

#ifdef __cplusplus
}
#endif
#endif

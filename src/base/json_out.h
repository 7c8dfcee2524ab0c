// Writes JSON into a buffer, piece by piece. (Reading is the files room's.) Failure sticks and is asked for at the end:
// wrong nesting and numbers that JSON cannot say are FM_ERR_INTERNAL, never bad output in silence.
// Threads: one at a time. Source of the format: RFC 8259.
#ifndef FM_BASE_JSON_OUT_H
#define FM_BASE_JSON_OUT_H
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"

enum { FM_JSON_DEPTH = 64 };

// Private fields; start with fm_json_init.
typedef struct {
    fm_buf *out;
    bool pretty, failed;
    bool after_key;             // a key was written and its value not yet
    unsigned depth;             // of open objects and arrays
    bool object[FM_JSON_DEPTH]; // what is open at each depth
    bool filled[FM_JSON_DEPTH]; // whether it has an element
    bool done;                  // the one value at the top is complete
} fm_json;

// Writes to the end of `out`, which the caller owns. `pretty`: one element a line, two spaces a level.
void fm_json_init(fm_json *j, fm_buf *out, bool pretty);

void fm_json_begin_object(fm_json *j);
void fm_json_end_object(fm_json *j);
void fm_json_begin_array(fm_json *j);
void fm_json_end_array(fm_json *j);

// The key of the next value, inside an object.
void fm_json_key(fm_json *j, const char *key);

// Values. A text that is not UTF-8 has U+FFFD for each wrong byte. An f64 is written with the fewest digits that read
// back the same; NaN and infinities are a failure.
void fm_json_text(fm_json *j, const char *text);
void fm_json_text_n(fm_json *j, const char *text, size_t n);
void fm_json_u64(fm_json *j, uint64_t v);
void fm_json_i64(fm_json *j, int64_t v);
void fm_json_f64(fm_json *j, double v);
void fm_json_bool(fm_json *j, bool v);
void fm_json_null(fm_json *j);

// Key and value in one.
void fm_json_put_text(fm_json *j, const char *key, const char *text); // NULL text: null
void fm_json_put_u64(fm_json *j, const char *key, uint64_t v);
void fm_json_put_i64(fm_json *j, const char *key, int64_t v);
void fm_json_put_f64(fm_json *j, const char *key, double v);
void fm_json_put_bool(fm_json *j, const char *key, bool v);

// Ends the document with a newline. FM_OK when it is one complete value and everything was written.
fm_status fm_json_finish(fm_json *j, fm_err *err) FM_MUST_USE;

// Appends text as a JSON string with its quotes, for other writers.
void fm_json_quote(fm_buf *out, const char *text, size_t n);

// Appends the shortest decimal that reads back as v (finite), with a '.' whatever the locale.
void fm_buf_add_f64(fm_buf *out, double v);
#endif

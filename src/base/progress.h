// A line on stderr that says how far a long job is, how fast, and how long it will take. Silent unless stderr is a
// terminal, so that logs and tests stay clean.
#ifndef FM_BASE_PROGRESS_H
#define FM_BASE_PROGRESS_H
#include <pthread.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdint.h>
#include "base/buf.h"

// Private fields; start with fm_progress_begin.
typedef struct {
    const char *label;
    uint64_t total_bytes;
    atomic_uint_fast64_t done_bytes;
    atomic_uint_fast64_t next_us; // when to draw again, microseconds since begin
    uint64_t begin_us;
    pthread_mutex_t drawing;
    bool shown;
} fm_progress;

// `label` is borrowed until the end. total_bytes 0: not known, only what was done is shown.
void fm_progress_begin(fm_progress *p, const char *label, uint64_t total_bytes);

// Adds bytes that are done; draws at most ten times a second. Threads: any.
void fm_progress_add(fm_progress *p, uint64_t bytes);

// Wipes the line. Once, before the result is printed.
void fm_progress_end(fm_progress *p);

// The line itself, at most `width` columns, without a line end: for begin/add, and for tests.
void fm_progress_line(fm_buf *out, const char *label, uint64_t done_bytes, uint64_t total_bytes, double seconds,
                      unsigned width);
#endif

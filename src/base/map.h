// A whole file mapped into memory, read-only. Pages are read when touched; nothing is copied.
//
// A file that another process cuts while it is mapped kills the reader with SIGBUS, as with every mapping: inputs must
// not be changed while they are read.
#ifndef FM_BASE_MAP_H
#define FM_BASE_MAP_H
#include <stdint.h>
#include "floodmark/status.h"

// Read the fields, write none. A zeroed fm_map is closed.
typedef struct {
    const uint8_t *data; // [size]; never NULL when open, also for an empty file
    uint64_t size;       // bytes
} fm_map;

typedef enum {
    FM_MAP_SEQUENTIAL, // will be read once, in order: read ahead far
    FM_MAP_RANDOM,     // will be read here and there: do not read ahead
    FM_MAP_SOON,       // will be needed soon: start reading
    FM_MAP_DROP,       // is done with: give its memory back (touching it again reads it again)
} fm_map_advice;

// Opens path for reading. Errors name the path and the remedy: FM_ERR_NOT_FOUND, FM_ERR_IO (unreadable, a directory, not
// a regular file), FM_ERR_NO_MEMORY. On failure *out is untouched.
fm_status fm_map_open(const char *path, fm_map *out, fm_err *err) FM_MUST_USE;

// Unmaps and zeroes *map. A closed one is fine.
void fm_map_close(fm_map *map);

// Advice on bytes [offset, offset + size), cut to the file. DROP gives up only pages that lie wholly inside the range,
// the others rounded outward. Only a hint: cannot fail. Threads: any, while none closes it.
void fm_map_advise(const fm_map *map, uint64_t offset, uint64_t size, fm_map_advice advice);
#endif

// A whole small file in memory.
#ifndef FM_FILES_SLURP_H
#define FM_FILES_SLURP_H
#include "base/buf.h"

// Appends the file's bytes to *out. FM_ERR_VALUE when it holds more than max_bytes; messages start with the path.
fm_status fm_slurp(const char *path, uint64_t max_bytes, fm_buf *out, fm_err *err) FM_MUST_USE;
#endif

// Finding a GPU by the name a person wrote.
#ifndef FM_MACHINE_LOOKUP_H
#define FM_MACHINE_LOOKUP_H
#include "floodmark/machine.h"

// Copies the row of that name, of the only row that begins with `name` and '-', or `cpu` (the share of one of `ranks`
// ranks of this host). FM_ERR_NOT_FOUND names the nearest ones.
fm_status fm_gpu_lookup(const char *name, int64_t ranks, fm_gpu *gpu, fm_err *err) FM_MUST_USE;
#endif

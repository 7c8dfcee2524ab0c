// Parameters as they were said, brought into the order in which the reference modules register them.
#ifndef FM_MODEL_REGISTRATION_H
#define FM_MODEL_REGISTRATION_H
#include "model/declare.h"

#define FM_MAX_ELEMS ((uint64_t)1 << 58) // so that 16 bytes an element and a sum still fit 63 bits

// One noted parameter, before it is sorted into the order of registration.
typedef struct {
    fm_model_param param;
    fm_unit_kind kind;
    uint32_t rank, block, entry, said; // sort keys: entry of the order (blocks share their first), number, entry, time
    const char *tied_to;               // borrowed from the family
} fm_noted;

// Finds the entry of a family's order that the parameter belongs to and fills rank and entry. False: none fits.
bool fm_noted_place(fm_noted *note, const char *const *order);

// Sorts the notes and moves them (their names with them) to parts, opening a unit for each block and each module outside.
fm_status fm_noted_gather(fm_noted *notes, size_t n, const fm_arch *arch, fm_parts *parts, fm_err *err) FM_MUST_USE;
#endif

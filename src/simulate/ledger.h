// The ledger: walks a recorded program and keeps, for each tier, the level now and the highest level of every phase, and by role what
// was alive then. Sizes are rounded up to 512 bytes each, as torch's allocator counts them.
#ifndef FM_SIMULATE_LEDGER_H
#define FM_SIMULATE_LEDGER_H
#include "program/program.h"

enum { FM_LEDGER_STEPS = 3 }; // 0: init; 1, 2: the steps

typedef struct {
    bool seen;
    uint64_t peak, end;            // device level, bytes
    size_t at;                     // event that set the peak
    uint64_t role_at_peak[FM_N_ROLES];
} fm_phase_level;

typedef struct {
    fm_phase_level phase[FM_LEDGER_STEPS][FM_N_PHASES];
    uint64_t host_peak;            // highest level of the host, init to the end of the second step
    uint64_t host_at_peak[FM_N_ROLES];
    uint64_t final_device;
} fm_ledger;

// Walks the program. `layers`: the model's number of blocks; more than the program recorded means that its steady rounds stand for
// the missing ones (fold.h decides whether they may). Cannot fail on a program that fm_record made; FM_ERR_INTERNAL when a level would go negative.
fm_status fm_ledger_walk(const fm_program *program, fm_ledger *out, fm_err *err);
#endif

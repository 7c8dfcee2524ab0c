// The ledger: walks a recorded program and keeps, for each tier, the level now and the highest level of every phase, and by role what
// was alive then. Sizes are rounded up to 512 bytes each, as torch's allocator counts them.
//
// Folding. A program that recorded fewer blocks than the model has stands for the whole one when the rounds of some block m repeat those of its
// neighbours. Every further copy of that round would change the level by what the recorded one changed, so within `copies` more rounds
// the level is linear in the round: the highest is in the first or in the last, and everything after is shifted by copies x the change.
#ifndef FM_SIMULATE_LEDGER_H
#define FM_SIMULATE_LEDGER_H
#include <stdbool.h>
#include "program/program.h"

enum { FM_LEDGER_STEPS = 3 }; // 0: init; 1, 2: the steps

typedef struct {
    uint32_t first, period; // blocks [first, first + period) are the round that is repeated
    uint32_t copies;        // how many more of it the model has
} fm_fold;

typedef struct {
    bool seen;
    uint64_t peak, end;                // device level, bytes
    size_t at;                         // event that set the peak
    uint64_t role_at_peak[FM_N_ROLES]; // bytes; they add up to peak
} fm_phase_level;

typedef struct {
    fm_phase_level phase[FM_LEDGER_STEPS][FM_N_PHASES];
    uint64_t role_after_init[FM_N_ROLES]; // device bytes; they add up to the end of init
    uint64_t host_peak;                   // highest level of the host, init to the end of the second step
    uint64_t host_at_peak[FM_N_ROLES];
    uint64_t final_device, final_host; // what is alive at the end: states, buffers
} fm_ledger;

// Does the round repeat its neighbours, in every loop of the program: the same events and the same change of every role's level?
bool fm_ledger_folds(const fm_program *program, const fm_fold *fold);

// Walks the program; `fold` may be NULL. FM_ERR_INTERNAL when a level would go negative: the program is not one that fm_record made.
fm_status fm_ledger_walk(const fm_program *program, const fm_fold *fold, fm_ledger *out, fm_err *err) FM_MUST_USE;
#endif

// Compares two ledgers of one plan and says where they differ.
#ifndef FM_TESTS_SAME_LEDGER_H
#define FM_TESTS_SAME_LEDGER_H
#include "testing.h"
#include "simulate/ledger.h"

// Everything of a ledger but the numbers of events, which differ because a folded program has fewer.
static inline bool same_ledger(const char *name, const fm_ledger *folded, const fm_ledger *full)
{
    for (unsigned step = 0; step < FM_LEDGER_STEPS; step++)
        for (unsigned phase = 0; phase < FM_N_PHASES; phase++) {
            const fm_phase_level *a = &folded->phase[step][phase], *b = &full->phase[step][phase];
            if (a->seen == b->seen && a->peak == b->peak && a->end == b->end &&
                !memcmp(a->role_at_peak, b->role_at_peak, sizeof a->role_at_peak))
                continue;
            print_error("%s: %s of step %u: folded %llu, ends at %llu; full %llu, ends at %llu\n", name,
                        fm_phase_name(phase), step, (unsigned long long)a->peak, (unsigned long long)a->end,
                        (unsigned long long)b->peak, (unsigned long long)b->end);
            for (unsigned r = 0; r < FM_N_ROLES; r++)
                if (a->role_at_peak[r] != b->role_at_peak[r])
                    print_error("    %s: folded %llu, full %llu\n", fm_role_name(r),
                                (unsigned long long)a->role_at_peak[r], (unsigned long long)b->role_at_peak[r]);
            return false;
        }
    bool host = folded->host_peak == full->host_peak && folded->final_device == full->final_device &&
                folded->final_host == full->final_host &&
                !memcmp(folded->host_at_peak, full->host_at_peak, sizeof full->host_at_peak);
    if (!host)
        print_error("%s: host peak folded %llu, full %llu; at the end %llu, %llu\n", name,
                    (unsigned long long)folded->host_peak, (unsigned long long)full->host_peak,
                    (unsigned long long)folded->final_host, (unsigned long long)full->final_host);
    return host;
}
#endif

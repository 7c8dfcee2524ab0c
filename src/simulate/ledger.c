#include "simulate/ledger.h"
#include <stdbool.h>
#include <string.h>

static uint64_t rounded(uint64_t bytes) { return (bytes + 511) & ~(uint64_t)511; }

typedef struct {
    uint64_t level[FM_N_TIERS];
    uint64_t role[FM_N_TIERS][FM_N_ROLES];
} levels;

static void peak(fm_phase_level *p, const levels *now, size_t at)
{
    p->peak = now->level[FM_TIER_DEVICE];
    p->at = at;
    memcpy(p->role_at_peak, now->role[FM_TIER_DEVICE], sizeof p->role_at_peak);
}

fm_status fm_ledger_walk(const fm_program *program, fm_ledger *out, fm_err *err)
{
    levels now;
    memset(&now, 0, sizeof now);
    memset(out, 0, sizeof *out);
    fm_phase_level *phase = &out->phase[0][FM_PHASE_INIT];
    for (size_t i = 0; i < program->n_events; i++) {
        const fm_event *e = &program->events[i];
        if (e->kind == FM_EVENT_PHASE) {
            phase->end = now.level[FM_TIER_DEVICE];
            if (e->step >= FM_LEDGER_STEPS)
                break;
            phase = &out->phase[e->step][e->subject];
            if (!phase->seen || now.level[FM_TIER_DEVICE] > phase->peak)
                peak(phase, &now, i);
            phase->seen = true;
            continue;
        }
        if (e->kind > FM_EVENT_SCRATCH)
            continue;
        const fm_life *life = &program->lives[e->subject];
        uint64_t bytes = rounded(life->bytes);
        if (e->kind == FM_EVENT_FREE) {
            if (bytes > now.level[life->tier] || bytes > now.role[life->tier][life->role])
                return fm_fail(err, FM_ERR_INTERNAL, "ledger: event %zu frees more than is alive", i);
            now.level[life->tier] -= bytes;
            now.role[life->tier][life->role] -= bytes;
            continue;
        }
        now.level[life->tier] += bytes;
        now.role[life->tier][life->role] += bytes;
        if (life->tier == FM_TIER_DEVICE && now.level[FM_TIER_DEVICE] > phase->peak)
            peak(phase, &now, i);
        if (life->tier == FM_TIER_HOST && now.level[FM_TIER_HOST] > out->host_peak) {
            out->host_peak = now.level[FM_TIER_HOST];
            memcpy(out->host_at_peak, now.role[FM_TIER_HOST], sizeof out->host_at_peak);
        }
        if (e->kind == FM_EVENT_SCRATCH) {
            now.level[life->tier] -= bytes;
            now.role[life->tier][life->role] -= bytes;
        }
    }
    out->final_device = now.level[FM_TIER_DEVICE];
    return FM_OK;
}

#include "simulate/ledger.h"
#include <string.h>

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + 511) & ~(uint64_t)511;
}

// Levels as signed numbers: inside a repeated round they are differences.
typedef struct {
    int64_t level[FM_N_TIERS];
    int64_t role[FM_N_TIERS][FM_N_ROLES];
} levels;

static void add_scaled(levels *to, const levels *what, int64_t times)
{
    for (unsigned t = 0; t < FM_N_TIERS; t++) {
        to->level[t] += what->level[t] * times;
        for (unsigned r = 0; r < FM_N_ROLES; r++)
            to->role[t][r] += what->role[t][r] * times;
    }
}

// Is event e the start of the repeated round, or a place where it is over?
static bool inside(const fm_fold *fold, uint32_t layer)
{
    return fold && layer >= fold->first && layer < fold->first + fold->period;
}

// --- does it fold

typedef struct {
    size_t begin, end; // events of one round of `period` blocks
} window;

static bool same_event(const fm_program *p, const fm_event *a, const fm_event *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == FM_EVENT_ROUND)
        return true; // the layers differ, their order is given by where they stand
    if (a->kind == FM_EVENT_PHASE)
        return a->subject == b->subject && a->step == b->step;
    const fm_life *x = &p->lives[a->subject], *y = &p->lives[b->subject];
    return x->bytes == y->bytes && x->role == y->role && x->tier == y->tier && x->stream == y->stream && x->op == y->op;
}

static bool same_window(const fm_program *p, window a, window b)
{
    if (a.end - a.begin != b.end - b.begin)
        return false;
    for (size_t i = 0; i < a.end - a.begin; i++)
        if (!same_event(p, &p->events[a.begin + i], &p->events[b.begin + i]))
            return false;
    return true;
}

// The end of a run of rounds: the next round outside [first, first + period), or the next phase.
static size_t run_end(const fm_program *p, size_t from, uint32_t first, uint32_t period)
{
    size_t i = from;
    for (; i < p->n_events; i++) {
        const fm_event *e = &p->events[i];
        if (e->kind == FM_EVENT_PHASE)
            break;
        if (e->kind == FM_EVENT_ROUND && !(e->subject >= first && e->subject < first + period))
            break;
    }
    return i;
}

bool fm_ledger_folds(const fm_program *p, const fm_fold *fold)
{
    // Windows of the round before, the round itself and the one after, in whichever order the loop runs; three in a row must be alike.
    window before = {0}, round = {0};
    unsigned have = 0;
    for (size_t i = 0; i < p->n_events;) {
        const fm_event *e = &p->events[i];
        if (e->kind != FM_EVENT_ROUND || e->subject == FM_NO_ROUND || e->subject + fold->period < fold->first ||
            e->subject >= fold->first + 2 * fold->period) {
            have = e->kind == FM_EVENT_ROUND || e->kind == FM_EVENT_PHASE ? 0 : have;
            i++;
            continue;
        }
        uint32_t start = e->subject < fold->first                  ? fold->first - fold->period
                         : e->subject < fold->first + fold->period ? fold->first
                                                                   : fold->first + fold->period;
        window w = {i, run_end(p, i, start, fold->period)};
        if (have == 1)
            round = w;
        if (have == 1 && !same_window(p, before, w))
            return false;
        if (have == 2 && !same_window(p, round, w))
            return false;
        if (have == 0)
            before = w;
        have++;
        i = w.end;
    }
    return true;
}

// --- walking

typedef struct {
    levels now, at_start; // level; level when the repeated round began
    const fm_fold *fold;
    bool in_round;
    fm_phase_level *phase;
    // Highest point inside the repeated round, held back until its change is known.
    bool has_top, has_host_top;
    levels top, host_top;
    size_t top_at;
    fm_ledger *out;
} walk;

static void raise_phase(walk *w, const levels *l, size_t at)
{
    if (w->phase->seen && l->level[FM_TIER_DEVICE] <= (int64_t)w->phase->peak)
        return;
    w->phase->seen = true;
    w->phase->peak = (uint64_t)l->level[FM_TIER_DEVICE];
    w->phase->at = at;
    for (unsigned r = 0; r < FM_N_ROLES; r++)
        w->phase->role_at_peak[r] = (uint64_t)l->role[FM_TIER_DEVICE][r];
}

static void raise_host(walk *w, const levels *l)
{
    if (l->level[FM_TIER_HOST] <= (int64_t)w->out->host_peak)
        return;
    w->out->host_peak = (uint64_t)l->level[FM_TIER_HOST];
    for (unsigned r = 0; r < FM_N_ROLES; r++)
        w->out->host_at_peak[r] = (uint64_t)l->role[FM_TIER_HOST][r];
}

static void note_level(walk *w, fm_tier tier, size_t at)
{
    if (tier == FM_TIER_DEVICE) {
        if (w->in_round && (!w->has_top || w->now.level[tier] > w->top.level[tier])) {
            w->top = w->now;
            w->top_at = at;
            w->has_top = true;
        }
        raise_phase(w, &w->now, at);
    } else {
        if (w->in_round && (!w->has_host_top || w->now.level[tier] > w->host_top.level[tier])) {
            w->host_top = w->now;
            w->has_host_top = true;
        }
        raise_host(w, &w->now);
    }
}

static void leave_round(walk *w)
{
    levels change = w->now;
    add_scaled(&change, &w->at_start, -1);
    w->in_round = false;
    if (w->has_top) {
        add_scaled(&w->top, &change, w->fold->copies);
        raise_phase(w, &w->top, w->top_at);
    }
    if (w->has_host_top) {
        add_scaled(&w->host_top, &change, w->fold->copies);
        raise_host(w, &w->host_top);
    }
    add_scaled(&w->now, &change, w->fold->copies);
}

static void begin_phase(walk *w, const fm_event *e, size_t at)
{
    w->phase->end = (uint64_t)w->now.level[FM_TIER_DEVICE];
    if (w->phase == &w->out->phase[0][FM_PHASE_INIT])
        for (unsigned r = 0; r < FM_N_ROLES; r++)
            w->out->role_after_init[r] = (uint64_t)w->now.role[FM_TIER_DEVICE][r];
    w->phase = &w->out->phase[e->step][e->subject];
    raise_phase(w, &w->now, at);
}

static void round_marker(walk *w, const fm_event *e)
{
    bool in = inside(w->fold, e->subject);
    if (w->in_round && !in)
        leave_round(w);
    if (in && !w->in_round) {
        w->in_round = true;
        w->has_top = w->has_host_top = false;
        w->at_start = w->now;
    }
}

fm_status fm_ledger_walk(const fm_program *program, const fm_fold *fold, fm_ledger *out, fm_err *err)
{
    walk w;
    memset(&w, 0, sizeof w);
    memset(out, 0, sizeof *out);
    w.fold = fold;
    w.out = out;
    w.phase = &out->phase[0][FM_PHASE_INIT];
    for (size_t i = 0; i < program->n_events; i++) {
        const fm_event *e = &program->events[i];
        if (e->kind == FM_EVENT_PHASE) {
            if (w.in_round)
                leave_round(&w);
            if (e->step >= FM_LEDGER_STEPS)
                break;
            begin_phase(&w, e, i);
            continue;
        }
        if (e->kind == FM_EVENT_ROUND) {
            round_marker(&w, e);
            continue;
        }
        const fm_life *life = &program->lives[e->subject];
        int64_t bytes = (int64_t)rounded(life->bytes), sign = e->kind == FM_EVENT_FREE ? -1 : 1;
        w.now.level[life->tier] += sign * bytes;
        w.now.role[life->tier][life->role] += sign * bytes;
        if (sign > 0)
            note_level(&w, life->tier, i);
        else if (w.now.level[life->tier] < 0 || w.now.role[life->tier][life->role] < 0)
            return fm_fail(err, FM_ERR_INTERNAL, "ledger: event %zu frees more %s than is alive", i,
                           fm_role_name(life->role));
        if (e->kind == FM_EVENT_SCRATCH) {
            w.now.level[life->tier] -= bytes;
            w.now.role[life->tier][life->role] -= bytes;
        }
    }
    w.phase->end = (uint64_t)w.now.level[FM_TIER_DEVICE];
    out->final_device = (uint64_t)w.now.level[FM_TIER_DEVICE];
    out->final_host = (uint64_t)w.now.level[FM_TIER_HOST];
    return FM_OK;
}

#include "program/program.h"
#include "base/alloc.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FM_ROLE_NAME(code, name, words) name,
#define FM_ROLE_WORDS(code, name, words) words,
#define FM_NAME(code, name) name,
static const char *const role_names[] = {FM_ROLE_LIST(FM_ROLE_NAME)};
static const char *const role_words[] = {FM_ROLE_LIST(FM_ROLE_WORDS)};
static const char *const stream_names[] = {FM_STREAM_LIST(FM_NAME)};
static const char *const phase_names[] = {FM_PHASE_LIST(FM_NAME)};

const char *fm_role_name(fm_role role)
{
    return role < FM_N_ROLES ? role_names[role] : "?";
}
const char *fm_role_words(fm_role role)
{
    return role < FM_N_ROLES ? role_words[role] : "?";
}
const char *fm_stream_name(fm_stream stream)
{
    return stream < FM_N_STREAMS ? stream_names[stream] : "?";
}
const char *fm_phase_name(fm_phase phase)
{
    return phase < FM_N_PHASES ? phase_names[phase] : "?";
}

void fm_program_destroy(fm_program *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_modules; i++)
        fm_free(p->modules[i]);
    fm_free(p->modules);
    fm_free(p->events);
    fm_free(p->lives);
    memset(p, 0, sizeof *p);
}

static void print_event(FILE *out, const fm_program *p, const fm_event *e)
{
    const fm_life *life = &p->lives[e->subject < p->n_lives ? e->subject : 0];
    switch ((fm_event_kind)e->kind) {
    case FM_EVENT_ALLOC:
    case FM_EVENT_SCRATCH:
        fprintf(out, "%c %" PRIu32 " %" PRIu64 " %s %s %s %s %s\n", e->kind == FM_EVENT_ALLOC ? '+' : '!', e->subject,
                life->bytes, life->tier == FM_TIER_HOST ? "host" : "device", fm_role_name(life->role),
                p->modules[life->module][0] ? p->modules[life->module] : "-", life->op, fm_stream_name(life->stream));
        break;
    case FM_EVENT_FREE:
        fprintf(out, "- %" PRIu32 " %" PRIu64 "\n", e->subject, life->bytes);
        break;
    case FM_EVENT_PHASE:
        fprintf(out, "@ %s %u\n", fm_phase_name(e->subject), e->step);
        break;
    case FM_EVENT_ROUND:
        if (e->subject == FM_NO_ROUND)
            fprintf(out, "# loop over\n");
        else
            fprintf(out, "# layer %" PRIu32 "\n", e->subject);
        break;
    }
}

fm_status fm_program_print(const fm_program *p, char **text, size_t *n_text, fm_err *err)
{
    char *buffer = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&buffer, &n);
    if (!out)
        return fm_fail(err, FM_ERR_NO_MEMORY, "program: no memory to print it");
    for (size_t i = 0; i < p->n_events; i++)
        print_event(out, p, &p->events[i]);
    if (fclose(out) != 0) {
        free(buffer);
        return fm_fail(err, FM_ERR_NO_MEMORY, "program: no memory to print it");
    }
    *text = buffer;
    *n_text = n;
    return FM_OK;
}

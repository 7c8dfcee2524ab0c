#include "model/registration.h"
#include <stdlib.h>
#include <string.h>
#include "model/family.h"
#include "model/parts.h"

// How many leading characters of `name` the entry of an order matches, whole components only; "*" is any number.
static size_t match(const char *entry, const char *name)
{
    const char *e = entry, *p = name;
    while (*e) {
        if (*e == '*') {
            if (*p < '0' || *p > '9')
                return 0;
            while (*p >= '0' && *p <= '9')
                p++;
            e++;
        } else if (*e++ != *p++) {
            return 0;
        }
    }
    return *p == '.' || !*p ? (size_t)(p - name) : 0;
}

bool fm_noted_place(fm_noted *note, const char *const *order)
{
    size_t best = 0, first_starred = 0;
    bool seen_star = false;
    for (uint32_t i = 0; order[i]; i++) {
        bool starred = strchr(order[i], '*') != NULL;
        if (starred && !seen_star) {
            first_starred = i;
            seen_star = true;
        }
        size_t n = match(order[i], note->param.name);
        if (n > best) {
            best = n;
            note->entry = i;
            note->rank = starred ? (uint32_t)first_starred : i;
        }
    }
    return best > 0;
}

static int by_registration(const void *pa, const void *pb)
{
    const fm_noted *a = pa, *b = pb;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->block != b->block)
        return a->block < b->block ? -1 : 1;
    if (a->entry != b->entry)
        return a->entry < b->entry ? -1 : 1;
    return a->said < b->said ? -1 : a->said > b->said;
}

// The unit's name: a block is "LIST.N"; elsewhere the module, which is the parameter's name without its last part.
static size_t unit_name_length(const fm_noted *n)
{
    const char *name = n->param.name;
    if (n->kind != FM_UNIT_BLOCK)
        return (size_t)(strrchr(name, '.') - name);
    size_t at = 0; // of the first component that is a number; a block's name has one
    while (name[at] && !(name[at] == '.' && name[at + 1] >= '0' && name[at + 1] <= '9'))
        at++;
    return at + (name[at] ? 1 + strspn(name + at + 1, "0123456789") : 0);
}

// The parameter that a tied one shares its storage with comes before it in every family's order.
static int64_t tied_index(const fm_parts *parts, const char *name)
{
    for (size_t i = 0; i < parts->n_params; i++)
        if (!strcmp(parts->params[i].name, name))
            return (int64_t)i;
    return -1;
}

static bool same_unit(const fm_parts *parts, const char *name, size_t length)
{
    const char *last = parts->n_units ? parts->units[parts->n_units - 1].name : "";
    return parts->n_units && strlen(last) == length && !strncmp(last, name, length);
}

fm_status fm_noted_gather(fm_noted *notes, size_t n, const fm_arch *arch, fm_parts *parts, fm_err *err)
{
    const char *dtype = fm_dtype_word(arch->dtype);
    fm_status status = FM_OK;
    qsort(notes, n, sizeof *notes, by_registration);
    for (size_t i = 0; i < n && status == FM_OK; i++) {
        fm_noted *note = &notes[i];
        size_t length = unit_name_length(note);
        note->param.call = note->said;
        note->param.dtype = note->param.fp32_always ? "float32" : dtype;
        note->param.bytes = note->param.n_elems * fm_dtype_bytes(note->param.dtype);
        note->param.tied_to = note->tied_to ? tied_index(parts, note->tied_to) : -1;
        if (note->tied_to && note->param.tied_to < 0)
            return fm_fail(err, FM_ERR_INTERNAL, "family %s ties %s to %s, which it does not have", arch->family->id,
                           note->param.name, note->tied_to);
        if (!same_unit(parts, note->param.name, length))
            status = fm_parts_unit(parts, note->param.name, length, note->kind, note->block, err);
        if (status == FM_OK)
            status = fm_parts_take(parts, &note->param, err); // takes the name
    }
    if (status == FM_OK && parts->n_elems > FM_MAX_ELEMS)
        return fm_fail(err, FM_ERR_OVERFLOW,
                       "the model would have more parameters than can be counted; check its sizes");
    return status;
}

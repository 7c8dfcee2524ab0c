// Setting a field from its text, and back.
#include "floodmark/recipe.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "floodmark/tree.h"
#include "recipe/fields.h"

enum { MAX_WORDS = 32, MAX_INTEGER = 1000000000 };

void fm_recipe_init(fm_recipe *recipe)
{
    *recipe = (fm_recipe){.clip = -1, .prefetch = FM_OWN, .layers = FM_OWN};
}

void fm_recipe_warn(fm_recipe *recipe, const char *format, ...)
{
    if (recipe->n_warnings == FM_MAX_WARNINGS)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(recipe->warning[recipe->n_warnings++], FM_RECIPE_TEXT_BYTES, format, args);
    va_end(args);
}

static fm_status fail_word(const fm_field_row *row, fm_field field, const char *text, fm_err *err)
{
    const char *list[MAX_WORDS];
    size_t n = 0;
    char values[360];
    for (; n < row->n_words && n < MAX_WORDS - 1; n++)
        list[n] = row->words[n].spelling;
    if (row->kind == FM_KIND_BITS)
        list[n++] = "none";
    fm_field_values(field, values, sizeof values);
    const char *near = fm_nearest(text, list, n);
    return fm_fail(err, FM_ERR_VALUE, "%s: unknown value \"%.60s\"%s%s%s (values: %s)", row->name, text,
                   near ? ", did you mean " : "", near ? near : "", near ? "?" : "", values);
}

// Digits only, optionally signed, within [low, high].
static fm_status parse_integer(const char *name, const char *text, int64_t low, int64_t high, int64_t *out, fm_err *err)
{
    const char *digits = text + (*text == '-' || *text == '+');
    bool well_formed = *digits;
    for (const char *s = digits; *s; s++)
        well_formed = well_formed && isdigit((unsigned char)*s);
    if (!well_formed)
        return fm_fail(err, FM_ERR_VALUE, "%s: \"%.60s\" is not an integer", name, text);
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno || value > high)
        return fm_fail(err, errno || high == MAX_INTEGER ? FM_ERR_OVERFLOW : FM_ERR_VALUE,
                       "%s: %.60s is too large; at most %" PRId64, name, text, high);
    if (value < low)
        return fm_fail(err, FM_ERR_VALUE, "%s: %.60s is too small; at least %" PRId64, name, text, low);
    *out = value;
    return FM_OK;
}

static fm_status parse_real(const char *name, const char *text, double *out, fm_err *err)
{
    char *end = NULL;
    double value = isdigit((unsigned char)*text) || *text == '.' || *text == '-' ? strtod(text, &end) : NAN;
    if (strpbrk(text, "xX")) // strtod reads hexadecimal, which no other number of a recipe may be
        value = NAN;
    if (!end || *end || end == text || !isfinite(value))
        return fm_fail(err, FM_ERR_VALUE, "%s: \"%.60s\" is not a finite number", name, text);
    *out = value;
    return FM_OK;
}

// A word, or a word with its number: "selective:2" is the spelling "selective:N" and 2.
static fm_status parse_word(const fm_field_row *row, fm_field field, const char *text, int *value, int64_t *number,
                            fm_err *err)
{
    for (size_t i = 0; i < row->n_words; i++) {
        const fm_word *word = &row->words[i];
        size_t n = strlen(word->spelling);
        bool counts = row->kind == FM_KIND_WORDN && n > 2 && !strcmp(word->spelling + n - 2, ":N");
        if (!counts && !strcmp(text, word->spelling)) {
            *value = word->value;
            return FM_OK;
        }
        if (counts && !strncmp(text, word->spelling, n - 1) && isdigit((unsigned char)text[n - 1])) {
            fm_status status = parse_integer(row->name, text + n - 1, 1, MAX_INTEGER, number, err);
            if (!status)
                *value = word->value;
            return status;
        }
        if (counts && !strncmp(text, word->spelling, n - 2) && (!text[n - 2] || !strcmp(text + n - 2, ":")))
            return fm_fail(err, FM_ERR_VALUE, "%s: \"%.60s\" needs a number: %.*s8", row->name, text, (int)n - 1,
                           word->spelling);
    }
    return fail_word(row, field, text, err);
}

static fm_status parse_bits(const fm_field_row *row, fm_field field, const char *text, int64_t *bits, fm_err *err)
{
    int64_t found = 0;
    if (strcmp(text, "none") != 0)
        for (const char *s = text; s;) {
            const char *plus = strchr(s, '+');
            size_t n = plus ? (size_t)(plus - s) : strlen(s), i = 0;
            while (i < row->n_words &&
                   (strlen(row->words[i].spelling) != n || memcmp(row->words[i].spelling, s, n) != 0))
                i++;
            if (i == row->n_words)
                return fail_word(row, field, s, err);
            found |= row->words[i].value;
            s = plus ? plus + 1 : NULL;
        }
    *bits = found;
    return FM_OK;
}

static fm_status parse_clip(const char *text, double *clip, fm_err *err)
{
    double value = -1;
    if (!strcmp(text, "yes"))
        value = 1.0;
    else if (strcmp(text, "no") != 0) {
        fm_status status = parse_real("clip", text, &value, err);
        if (status)
            return status;
        if (value <= 0)
            return fm_fail(err, FM_ERR_VALUE, "clip: %.60s is not above 0; write no for no clipping", text);
    }
    *clip = value;
    return FM_OK;
}

static fm_status parse_number(const fm_field_row *row, fm_field field, const char *text, int64_t *out, fm_err *err)
{
    bool may_be_own = field == FM_FIELD_PREFETCH || field == FM_FIELD_LAYERS;
    if (may_be_own && !strcmp(text, "own")) {
        *out = FM_OWN;
        return FM_OK;
    }
    if (field == FM_FIELD_LORA_RANK && !strcmp(text, "none")) {
        *out = 0;
        return FM_OK;
    }
    int64_t low = row->kind == FM_KIND_COUNT || field == FM_FIELD_LAYERS ? 1 : 0;
    return parse_integer(row->name, text, low, field == FM_FIELD_STAGE ? 3 : MAX_INTEGER, out, err);
}

static int64_t *number_beside(fm_recipe *recipe, fm_field field)
{
    return field == FM_FIELD_LOSS ? &recipe->loss_n : &recipe->checkpoint_n;
}

static fm_status parse_field(fm_recipe *r, const fm_field_row *row, fm_field field, const char *text, fm_err *err)
{
    void *member = (char *)r + row->offset;
    int word = 0;
    int64_t number = 0;
    double real = 0;
    fm_status status = FM_OK;
    switch (row->kind) {
    case FM_KIND_WORD:
    case FM_KIND_WORDN:
        if (!(status = parse_word(row, field, text, &word, &number, err)))
            memcpy(member, &word, sizeof word);
        if (!status && row->kind == FM_KIND_WORDN)
            *number_beside(r, field) = number;
        return status;
    case FM_KIND_BITS:
        return parse_bits(row, field, text, member, err);
    case FM_KIND_COUNT:
    case FM_KIND_NUMBER:
        return parse_number(row, field, text, member, err);
    case FM_KIND_CLIP:
        return parse_clip(text, member, err);
    case FM_KIND_REAL:
        if ((status = parse_real(row->name, text, &real, err)))
            return status;
        if (real < 0 || real >= 1)
            return fm_fail(err, FM_ERR_VALUE, "%s: %.60s is not from 0 to below 1", row->name, text);
        memcpy(member, &real, sizeof real);
        return FM_OK;
    case FM_KIND_TEXT:
        if (strlen(text) >= row->size)
            return fm_fail(err, FM_ERR_VALUE, "%s: longer than %zu bytes", row->name, row->size - 1);
        memset(member, 0, row->size);
        memcpy(member, text, strlen(text));
        return FM_OK;
    }
    return fm_fail(err, FM_ERR_INTERNAL, "%s: a kind without a reader", row->name);
}

fm_status fm_recipe_set(fm_recipe *recipe, fm_field field, const char *text, fm_origin origin, fm_err *err)
{
    const fm_field_row *row = fm_field_row_of(field);
    if (!row)
        return fm_fail(err, FM_ERR_INTERNAL, "no field of number %d", (int)field);
    if (!*text) {
        recipe->origin[field] = FM_ORIGIN_EMPTY;
        return FM_OK;
    }
    fm_status status = parse_field(recipe, row, field, text, err);
    if (!status)
        recipe->origin[field] = (uint8_t)origin;
    return status;
}

static fm_status set_ranks(fm_recipe *recipe, const char *text, fm_origin origin, fm_err *err)
{
    int64_t ranks = 0;
    char on[48];
    fm_status status = parse_integer("ranks", text, 1, 1000000, &ranks, err);
    if (status)
        return status;
    snprintf(on, sizeof on, "1x%" PRId64 "xcpu", ranks);
    return fm_recipe_set(recipe, FM_FIELD_ON, on, origin, err);
}

fm_status fm_recipe_set_named(fm_recipe *recipe, const char *name, const char *text, fm_origin origin, fm_err *err)
{
    if (!strcmp(name, "ranks"))
        return set_ranks(recipe, text, origin, err);
    if (!strcmp(name, "machine"))
        return fm_recipe_set(recipe, FM_FIELD_ON, text, origin, err);
    if (!strcmp(name, "precision")) {
        if (*text && !fm_preset_known(text))
            return fm_preset_fail(text, err);
        snprintf(recipe->precision, sizeof recipe->precision, "%s", text);
        return FM_OK;
    }
    fm_field field;
    fm_status status = fm_field_find(name, &field, err);
    return status ? status : fm_recipe_set(recipe, field, text, origin, err);
}

// The fewest digits that read back the same.
static void print_real(char *out, size_t size, double value)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            return;
    }
}

static void print_bits(const fm_field_row *row, int64_t bits, char *out, size_t size)
{
    size_t used = 0;
    snprintf(out, size, "none");
    for (size_t i = 0; i < row->n_words; i++)
        if ((bits & row->words[i].value) && used < size)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "+" : "", row->words[i].spelling);
}

const char *fm_recipe_text(const fm_recipe *recipe, fm_field field, char *out, size_t size)
{
    const fm_field_row *row = fm_field_row_of(field);
    if (size)
        *out = 0;
    if (!row || !size || !fm_recipe_has(recipe, field))
        return out;
    const void *member = (const char *)recipe + row->offset;
    int64_t number = 0;
    double real = 0;
    const char *word;
    switch (row->kind) {
    case FM_KIND_WORD:
        snprintf(out, size, "%s", fm_word_text(field, fm_recipe_word(recipe, field)));
        break;
    case FM_KIND_WORDN:
        word = fm_word_text(field, fm_recipe_word(recipe, field));
        number = field == FM_FIELD_LOSS ? recipe->loss_n : recipe->checkpoint_n;
        if (strlen(word) > 2 && !strcmp(word + strlen(word) - 2, ":N"))
            snprintf(out, size, "%.*s%" PRId64, (int)strlen(word) - 1, word, number);
        else
            snprintf(out, size, "%s", word);
        break;
    case FM_KIND_COUNT:
    case FM_KIND_NUMBER:
        memcpy(&number, member, sizeof number);
        if (number == FM_OWN)
            snprintf(out, size, "own");
        else
            snprintf(out, size, "%" PRId64, number);
        break;
    case FM_KIND_CLIP:
    case FM_KIND_REAL:
        memcpy(&real, member, sizeof real);
        if (row->kind == FM_KIND_CLIP && real < 0)
            snprintf(out, size, "no");
        else
            print_real(out, size, real);
        break;
    case FM_KIND_BITS:
        memcpy(&number, member, sizeof number);
        print_bits(row, number, out, size);
        break;
    case FM_KIND_TEXT:
        snprintf(out, size, "%s", (const char *)member);
        break;
    }
    return out;
}

void fm_recipe_overlay(fm_recipe *recipe, const fm_recipe *over)
{
    static const fm_field by_preset[] = {FM_FIELD_PARAM, FM_FIELD_COMPUTE, FM_FIELD_HOW,  FM_FIELD_REDUCE,
                                         FM_FIELD_GRAD,  FM_FIELD_MASTER,  FM_FIELD_STATE};
    if (over->precision[0]) { // a preset named on top replaces what was said below it, field by field
        memcpy(recipe->precision, over->precision, sizeof recipe->precision);
        for (size_t i = 0; i < sizeof by_preset / sizeof by_preset[0]; i++)
            recipe->origin[by_preset[i]] = FM_ORIGIN_EMPTY;
    }
    for (int f = 0; f < FM_N_FIELDS; f++) {
        const fm_field_row *row = fm_field_row_of((fm_field)f);
        if (!fm_recipe_has(over, (fm_field)f))
            continue;
        memcpy((char *)recipe + row->offset, (const char *)over + row->offset, row->size);
        recipe->origin[f] = over->origin[f];
        if (row->kind == FM_KIND_WORDN)
            *number_beside(recipe, (fm_field)f) = f == FM_FIELD_LOSS ? over->loss_n : over->checkpoint_n;
    }
}

// The one table of fields, and what is found in it by name.
#include "recipe/fields.h"
#include <stdio.h>
#include <string.h>
#include "floodmark/tree.h"

#define WORD(value, spelling, status, help) {spelling, value, FM_WORD_##status, help},

static const fm_word FM_STACK_words[] = {FM_STACK_LIST(WORD)};
static const fm_word FM_ENGINE_words[] = {FM_ENGINE_LIST(WORD)};
static const fm_word FM_WRAP_words[] = {FM_WRAP_LIST(WORD)};
static const fm_word FM_RESHARD_words[] = {FM_RESHARD_LIST(WORD)};
static const fm_word FM_YESNO_words[] = {FM_YESNO_LIST(WORD)};
static const fm_word FM_PRECISION_words[] = {FM_PRECISION_LIST(WORD)};
static const fm_word FM_HOW_words[] = {FM_HOW_LIST(WORD)};
static const fm_word FM_MASTER_words[] = {FM_MASTER_LIST(WORD)};
static const fm_word FM_STATE_words[] = {FM_STATE_LIST(WORD)};
static const fm_word FM_OPTIMIZER_words[] = {FM_OPTIMIZER_LIST(WORD)};
static const fm_word FM_STEP_words[] = {FM_STEP_LIST(WORD)};
static const fm_word FM_SYNC_words[] = {FM_SYNC_LIST(WORD)};
static const fm_word FM_CHECKPOINT_words[] = {FM_CHECKPOINT_LIST(WORD)};
static const fm_word FM_ATTENTION_words[] = {FM_ATTENTION_LIST(WORD)};
static const fm_word FM_MASK_words[] = {FM_MASK_LIST(WORD)};
static const fm_word FM_KERNELS_words[] = {FM_KERNELS_LIST(WORD)};
static const fm_word FM_LOSS_words[] = {FM_LOSS_LIST(WORD)};
static const fm_word FM_BASE_words[] = {FM_BASE_LIST(WORD)};
static const fm_word FM_BASE_UPCAST_words[] = {FM_BASE_UPCAST_LIST(WORD)};
static const fm_word FM_TRAINER_words[] = {FM_TRAINER_LIST(WORD)};
static const fm_word FM_METRIC_words[] = {FM_METRIC_LIST(WORD)};
static const fm_word FM_AT_words[] = {FM_AT_LIST(WORD)};
static const fm_word FM_OFFLOAD_words[] = {
    {"optimizer", FM_OFFLOAD_OPTIMIZER, FM_WORD_NOW, "its states"},
    {"params", FM_OFFLOAD_PARAMS, FM_WORD_NOW, "sharded parameters, gradients and the optimizer"},
    {"activations", FM_OFFLOAD_ACTIVATIONS, FM_WORD_LATER, ""},
};
static const fm_word none_words[] = {{0}};

#define ROW(field, member, kind, words, help, rule)  \
    {#member,                                        \
     FM_KIND_##kind,                                 \
     offsetof(fm_recipe, member),                    \
     sizeof(((fm_recipe *)0)->member),               \
     words##_words,                                  \
     sizeof words##_words / sizeof words##_words[0], \
     help,                                           \
     rule},

static const fm_field_row rows[FM_N_FIELDS] = {FM_RECIPE_FIELDS(ROW)};

const fm_field_row *fm_field_row_of(fm_field field)
{
    return (unsigned)field < FM_N_FIELDS ? &rows[field] : NULL;
}

const char *fm_field_name(fm_field field)
{
    return (unsigned)field < FM_N_FIELDS ? rows[field].name : NULL;
}

const char *fm_field_help(fm_field field)
{
    return (unsigned)field < FM_N_FIELDS ? rows[field].help : NULL;
}

const char *fm_field_default(fm_field field)
{
    return (unsigned)field < FM_N_FIELDS ? rows[field].rule : NULL;
}

const fm_word *fm_word_of(fm_field field, int value)
{
    const fm_field_row *row = fm_field_row_of(field);
    if (!row || (row->kind != FM_KIND_WORD && row->kind != FM_KIND_WORDN))
        return NULL;
    for (size_t i = 0; i < row->n_words; i++)
        if (row->words[i].value == value)
            return &row->words[i];
    return NULL;
}

const char *fm_word_text(fm_field field, int value)
{
    const fm_word *word = fm_word_of(field, value);
    return word ? word->spelling : "";
}

int fm_recipe_word(const fm_recipe *recipe, fm_field field)
{
    int value = 0;
    memcpy(&value, (const char *)recipe + rows[field].offset, sizeof value);
    return value;
}

static void append(char *out, size_t size, size_t *used, const char *a, const char *b)
{
    if (*used < size) {
        int n = snprintf(out + *used, size - *used, "%s%s", a, b);
        *used += n > 0 ? (size_t)n : 0;
    }
}

// Words of one status, joined; true when there was one.
static bool list_words(const fm_field_row *row, fm_word_status status, const char *before, char *out, size_t size,
                       size_t *used)
{
    bool any = false;
    for (size_t i = 0; i < row->n_words; i++)
        if (row->words[i].status == status) {
            append(out, size, used, any ? ", " : before, row->words[i].spelling);
            any = true;
        }
    return any;
}

void fm_field_values(fm_field field, char *out, size_t size)
{
    const fm_field_row *row = fm_field_row_of(field);
    size_t used = 0;
    if (size)
        *out = 0;
    if (!row)
        return;
    switch (row->kind) {
    case FM_KIND_WORD:
    case FM_KIND_WORDN:
        list_words(row, FM_WORD_NOW, "", out, size, &used);
        list_words(row, FM_WORD_LATER, "; later: ", out, size, &used);
        break;
    case FM_KIND_BITS:
        append(out, size, &used, "none", "");
        list_words(row, FM_WORD_NOW, ", ", out, size, &used);
        list_words(row, FM_WORD_LATER, "; later: ", out, size, &used);
        break;
    case FM_KIND_COUNT:
        append(out, size, &used, "an integer of at least 1", "");
        break;
    case FM_KIND_NUMBER:
        append(out, size, &used, field == FM_FIELD_STAGE ? "0 to 3" : "an integer", "");
        break;
    case FM_KIND_CLIP:
        append(out, size, &used, "no, yes or a number", "");
        break;
    case FM_KIND_REAL:
        append(out, size, &used, "a number from 0 to below 1", "");
        break;
    case FM_KIND_TEXT:
        append(out, size, &used, "text", "");
        break;
    }
}

fm_status fm_field_find(const char *name, fm_field *field, fm_err *err)
{
    const char *names[FM_N_FIELDS];
    char plain[64];
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof plain; n++)
        plain[n] = name[n] == '-' ? '_' : name[n];
    plain[n] = 0;
    for (int i = 0; i < FM_N_FIELDS; i++) {
        names[i] = rows[i].name;
        if (!name[n] && !strcmp(plain, rows[i].name)) {
            *field = (fm_field)i;
            return FM_OK;
        }
    }
    const char *near = fm_nearest(name, names, FM_N_FIELDS);
    return fm_fail(err, FM_ERR_NOT_FOUND, "unknown field \"%.60s\"%s%s%s", name, near ? ": did you mean " : "",
                   near ? near : " (plan --help lists them)", near ? "?" : "");
}

uint64_t fm_precision_bytes(fm_precision_kind precision)
{
    return precision == FM_PRECISION_FP32 ? 4 : precision == FM_PRECISION_EMPTY ? 0 : 2;
}

uint64_t fm_state_bytes(fm_state_kind state)
{
    switch (state) {
    case FM_STATE_FP32:
        return 4;
    case FM_STATE_BF16:
    case FM_STATE_FP16:
        return 2;
    case FM_STATE_INT8:
    case FM_STATE_FP8:
        return 1;
    case FM_STATE_EMPTY:
    case FM_STATE_INT4:
    case FM_STATE_FACTORED:
    case FM_STATE_NONE:
        break;
    }
    return 0;
}

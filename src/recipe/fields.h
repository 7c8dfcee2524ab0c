// The table of fields behind recipe.h, as its readers and writers see it.
#ifndef FM_RECIPE_FIELDS_H
#define FM_RECIPE_FIELDS_H
#include "floodmark/recipe.h"

typedef enum {
    FM_KIND_WORD,
    FM_KIND_WORDN,
    FM_KIND_COUNT,
    FM_KIND_NUMBER,
    FM_KIND_CLIP,
    FM_KIND_REAL,
    FM_KIND_BITS,
    FM_KIND_TEXT
} fm_field_kind;

typedef enum { FM_WORD_NOW, FM_WORD_LATER, FM_WORD_OUT } fm_word_status;

// A word of a list. One that carries a number is spelled "chunked:N".
typedef struct {
    const char *spelling;
    int value;
    fm_word_status status;
    const char *help;
} fm_word;

typedef struct {
    const char *name;
    fm_field_kind kind;
    size_t offset, size; // of the member in fm_recipe
    const fm_word *words;
    size_t n_words;
    const char *help, *rule;
} fm_field_row;

// The row of a field; NULL for no such field.
const fm_field_row *fm_field_row_of(fm_field field);

// The row of the field's list that has this value, or NULL.
const fm_word *fm_word_of(fm_field field, int value);

// An enum member of a recipe by field (WORD and WORDN only).
int fm_recipe_word(const fm_recipe *recipe, fm_field field);

static inline bool fm_recipe_has(const fm_recipe *recipe, fm_field field)
{
    return recipe->origin[field] != FM_ORIGIN_EMPTY;
}

// Presets of --precision. True when there is one of that name.
bool fm_preset_known(const char *name);

// Fails with FM_ERR_VALUE and the nearest preset.
fm_status fm_preset_fail(const char *name, fm_err *err);

// Fills the empty fields among param, compute, how, reduce, grad, master and state of `recipe`, whose engine is set,
// with the preset's values for that engine.
void fm_preset_apply(const char *name, fm_recipe *recipe);

// Refuses what is known and not built yet, and contradictions. `recipe` has every field filled.
fm_status fm_recipe_refuse_later(const fm_recipe *recipe, fm_err *err) FM_MUST_USE;
fm_status fm_recipe_refuse_conflicts(const fm_recipe *recipe, const fm_recipe_site *site, fm_err *err) FM_MUST_USE;

// Adds a line to the recipe's warnings; further ones than there is room for are dropped.
void fm_recipe_warn(fm_recipe *recipe, const char *format, ...) FM_PRINTF(2, 3);
#endif

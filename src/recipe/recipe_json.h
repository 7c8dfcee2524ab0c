// A recipe as JSON, for reports: {"engine": {"value": "fsdp2", "origin": "user"}, ...}, fields that are not empty.
#ifndef FM_RECIPE_JSON_H
#define FM_RECIPE_JSON_H
#include "base/json_out.h"
#include "floodmark/recipe.h"

// Writes one object as the next value.
void fm_recipe_json(const fm_recipe *recipe, fm_json *j);

// "user", "file", "preset", "stack", "engine", "model", "default", "empty". Static storage.
const char *fm_origin_text(fm_origin origin);
#endif

// Recipe files: read from YAML or JSON, written with every value's origin.
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/atomic_file.h"
#include "base/buf.h"
#include "base/json_out.h"
#include "floodmark/tree.h"
#include "recipe/fields.h"
#include "recipe/recipe_json.h"

#define ORIGIN_TEXT(value, spelling) spelling,
static const char *const origin_text[] = {FM_ORIGIN_LIST(ORIGIN_TEXT)};

const char *fm_origin_text(fm_origin origin)
{
    return (unsigned)origin < sizeof origin_text / sizeof origin_text[0] ? origin_text[origin] : "";
}

// The text of a scalar, or of the scalars of a list joined by commas, into out.
static fm_status value_text(const fm_node *node, const char *key, char *out, size_t size, fm_err *err)
{
    const char *text = fm_node_text(node);
    size_t n = fm_node_type_of(node) == FM_NODE_ARRAY ? fm_node_count(node) : 0, used = 0;
    *out = 0;
    if (fm_node_type_of(node) == FM_NODE_NULL)
        return FM_OK;
    if (text && strlen(text) < size) {
        memcpy(out, text, strlen(text) + 1);
        return FM_OK;
    }
    if (text || (!n && fm_node_type_of(node) != FM_NODE_ARRAY))
        return fm_node_fail(node, err, FM_ERR_VALUE,
                            text ? "%s: longer than %zu bytes" : "%s: must be one value, not an object", key, size - 1);
    for (size_t i = 0; i < n; i++) {
        const char *item = fm_node_text(fm_node_at(node, i));
        if (!item || used + strlen(item) + 2 > size)
            return fm_node_fail(fm_node_at(node, i), err, FM_ERR_VALUE,
                                item ? "%s: longer than %zu bytes" : "%s: its items must be plain values", key,
                                size - 1);
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? "," : "", item);
    }
    return FM_OK;
}

static fm_status read_member(const fm_node *root, size_t i, fm_recipe *recipe, fm_err *err)
{
    const fm_node *node = fm_node_at(root, i);
    const char *key = fm_node_key(root, i);
    if (fm_node_type_of(node) == FM_NODE_OBJECT && fm_node_get(node, "value"))
        node = fm_node_get(node, "value");
    char text[FM_RECIPE_NAME_BYTES + 1];
    fm_status status = value_text(node, key, text, sizeof text, err);
    fm_err why = {0};
    if (!status && (status = fm_recipe_set_named(recipe, key, text, FM_ORIGIN_FILE, &why)))
        return fm_node_fail(node, err, status, "%s", why.message);
    return status;
}

fm_status fm_recipe_read(const char *path, fm_recipe *recipe, fm_err *err)
{
    fm_tree *tree = NULL;
    fm_recipe read;
    fm_recipe_init(&read);
    fm_status status = fm_tree_read(path, &tree, err);
    const fm_node *root = status ? NULL : fm_tree_root(tree);
    if (!status && fm_node_type_of(root) != FM_NODE_OBJECT)
        status =
            fm_node_fail(root, err, FM_ERR_VALUE, "a recipe file must be a mapping such as \"engine: fsdp2\", not %s",
                         fm_node_type_words(root));
    for (size_t i = 0; !status && i < fm_node_count(root); i++)
        status = read_member(root, i, &read, err);
    fm_tree_destroy(tree);
    if (!status)
        *recipe = read;
    return status;
}

void fm_recipe_json(const fm_recipe *recipe, fm_json *j)
{
    char text[FM_RECIPE_NAME_BYTES];
    fm_json_begin_object(j);
    if (recipe->precision[0] && !recipe->world) // what it stands for is not known before the engine is
        fm_json_put_text(j, "precision", recipe->precision);
    for (int f = 0; f < FM_N_FIELDS; f++) {
        const fm_field_row *row = fm_field_row_of((fm_field)f);
        if (!fm_recipe_has(recipe, (fm_field)f))
            continue;
        fm_json_key(j, row->name);
        fm_json_begin_object(j);
        fm_json_key(j, "value");
        int64_t number = 0;
        double real = 0;
        fm_recipe_text(recipe, (fm_field)f, text, sizeof text);
        if ((row->kind == FM_KIND_COUNT || row->kind == FM_KIND_NUMBER) && strcmp(text, "own") != 0) {
            memcpy(&number, (const char *)recipe + row->offset, sizeof number);
            fm_json_i64(j, number);
        } else if (row->kind == FM_KIND_REAL || (row->kind == FM_KIND_CLIP && strcmp(text, "no") != 0)) {
            memcpy(&real, (const char *)recipe + row->offset, sizeof real);
            fm_json_f64(j, real);
        } else {
            fm_json_text(j, text);
        }
        fm_json_put_text(j, "origin", fm_origin_text((fm_origin)recipe->origin[f]));
        fm_json_end_object(j);
    }
    fm_json_end_object(j);
}

static void write_yaml(const fm_recipe *recipe, fm_buf *out)
{
    char text[FM_RECIPE_NAME_BYTES];
    fm_buf_add_text(out, "# A Floodmark recipe; behind each value, where it came from.\n");
    if (recipe->precision[0] && !recipe->world)
        fm_buf_printf(out, "precision: %s\n", recipe->precision);
    for (int f = 0; f < FM_N_FIELDS; f++) {
        const fm_field_row *row = fm_field_row_of((fm_field)f);
        if (!fm_recipe_has(recipe, (fm_field)f))
            continue;
        fm_recipe_text(recipe, (fm_field)f, text, sizeof text);
        fm_buf_printf(out, "%s: ", row->name);
        if (row->kind == FM_KIND_TEXT)
            fm_json_quote(out, text, strlen(text)); // a JSON string is a YAML string
        else
            fm_buf_add_text(out, text);
        fm_buf_printf(out, " # %s\n", fm_origin_text((fm_origin)recipe->origin[f]));
    }
}

fm_status fm_recipe_write(const char *path, const fm_recipe *recipe, fm_err *err)
{
    fm_buf out = {0};
    fm_json j;
    size_t n = strlen(path);
    fm_status status = FM_OK;
    if (n > 5 && !strcasecmp(path + n - 5, ".json")) {
        fm_json_init(&j, &out, true);
        fm_recipe_json(recipe, &j);
        status = fm_json_finish(&j, err);
    } else {
        write_yaml(recipe, &out);
    }
    if (!status)
        status = fm_buf_check(&out, err);
    if (!status)
        status = fm_atomic_file_write(path, out.data, out.size, true, err);
    fm_buf_reset(&out);
    return status;
}

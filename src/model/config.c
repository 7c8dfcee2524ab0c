#include "model/config.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "model/read.h"

void fm_arch_reset(fm_arch *arch)
{
    fm_free((bool *)arch->windowed);
    fm_free((bool *)arch->dense);
    *arch = (fm_arch){0};
}

// "LlamaForCausalLM" says llama, "GPT2LMHeadModel" gpt2: the letters and digits before ForCausalLM or LMHead.
static const fm_family *family_of_class(const char *class_name)
{
    char key[64];
    size_t n = 0;
    const char *end = strstr(class_name, "ForCausalLM");
    end = end ? end : strstr(class_name, "LMHead");
    for (const char *p = class_name; end && p < end && n + 1 < sizeof key; p++)
        key[n++] = (char)tolower((unsigned char)*p);
    key[n] = '\0';
    for (const fm_family *const *f = fm_families; n && *f; f++) {
        char id[64];
        size_t m = 0;
        for (const char *p = (*f)->id; *p && m + 1 < sizeof id; p++)
            if (*p != '_')
                id[m++] = *p;
        id[m] = '\0';
        if (!strcmp(id, key))
            return *f;
    }
    return NULL;
}

static fm_status unknown_family(const fm_node *node, const char *type, fm_err *err)
{
    fm_buf known = {0};
    const char *names[64];
    size_t n = 0;
    for (const fm_family *const *f = fm_families; *f; f++) {
        fm_buf_printf(&known, "%s%s", n ? ", " : "", (*f)->id);
        names[n++] = (*f)->id;
    }
    const char *near = fm_nearest(type, names, n);
    fm_status status =
        fm_node_fail(node, err, FM_ERR_UNSUPPORTED,
                     "the model type \"%s\" has no description, so its operations are unknown%s%s%s; described: %s. A "
                     "bare size (such as 7B) still gives the memory of its state",
                     type, near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "", fm_buf_text(&known));
    fm_buf_reset(&known);
    return status;
}

static fm_status find_family(const fm_node *config, const fm_family **out, fm_err *err)
{
    const fm_node *node = fm_node_get_set(config, "model_type"), *classes = fm_node_get_set(config, "architectures");
    const char *type;
    if (node) {
        fm_status status = fm_node_string(node, &type, err);
        if (status != FM_OK)
            return status;
        *out = fm_family_find(type);
        return *out ? FM_OK : unknown_family(node, type, err);
    }
    const fm_node *first = fm_node_at(classes, 0);
    const char *class_name = first ? fm_node_text(first) : NULL;
    *out = class_name ? family_of_class(class_name) : NULL;
    if (*out)
        return FM_OK;
    if (class_name)
        return unknown_family(first, class_name, err);
    return fm_node_fail(
        config, err, FM_ERR_NOT_FOUND,
        "neither \"model_type\" nor \"architectures\" says which model this is; is it a Hugging Face config.json?");
}

static void check(fm_reader *r, const fm_arch *a)
{
    if (r->status == FM_OK && a->n_experts && a->top_k > a->n_experts)
        fm_read_fail(r, "num_experts_per_tok", FM_ERR_CONFLICT, "%u experts a token of only %u experts", a->top_k,
                     a->n_experts);
    if (r->status == FM_OK && a->window > UINT32_MAX)
        fm_read_fail(r, "sliding_window", FM_ERR_OVERFLOW, "a window of %llu positions is past the %u that are allowed",
                     (unsigned long long)a->window, UINT32_MAX);
    if (r->status == FM_OK && a->intermediate == 0)
        fm_read_fail(r, "intermediate_size", FM_ERR_VALUE, "the width of the MLP comes to 0");
}

static void take_name(const fm_node *config, const char *name, fm_arch *a)
{
    const fm_node *node = fm_node_get_set(config, "_name_or_path");
    const char *given = node && fm_node_type_of(node) == FM_NODE_STRING ? fm_node_text(node) : NULL;
    snprintf(a->name, sizeof a->name, "%s", given && *given && *given != '/' && *given != '.' ? given : name);
}

fm_status fm_arch_read(const fm_node *config, const char *name, uint32_t layers, fm_arch *out, fm_err *err)
{
    fm_arch a = {0};
    fm_reader r = {.config = config, .layers = layers};
    if (fm_node_type_of(config) != FM_NODE_OBJECT)
        return fm_node_fail(config, err, FM_ERR_VALUE, "a model's configuration is a JSON object, not %s",
                            fm_node_type_words(config));
    const fm_family *family;
    fm_status status = find_family(config, &family, err);
    if (status != FM_OK)
        return status;
    a.family = family;
    take_name(config, name, &a);
    family->read(&r, &a);
    check(&r, &a);
    if (r.status != FM_OK) {
        fm_arch_reset(&a);
        if (err)
            *err = r.err;
        return r.status;
    }
    *out = a;
    return FM_OK;
}

// Models from configurations: a file, or a name of the catalogue.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/alloc.h"
#include "base/data.h"
#include "model/family.h"
#include "model/opened.h"

// "dir/config.json" is called by its folder ("./config.json" too), "dir/NAME.json" by NAME.
static char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    if (strcmp(base, "config.json") != 0)
        return fm_strndup(base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
    char *full = realpath(path, NULL), *end = full ? strrchr(full, '/') : NULL;
    if (end)
        *end = '\0';
    const char *start = end ? strrchr(full, '/') : NULL;
    char *name = fm_strdup(start && start[1] ? start + 1 : "model");
    free(full);
    return name;
}

fm_status fm_model_from_config(fm_model *m, const char *path, const fm_model_options *options, fm_err *err)
{
    fm_tree *tree = NULL;
    fm_arch arch = {0};
    fm_status status = fm_tree_read(path, &tree, err);
    if (status != FM_OK)
        return status;
    m->source = FM_MODEL_CONFIG;
    m->path = fm_strdup(path);
    char *name = name_of(path);
    if (!m->path || !name) {
        status = fm_fail_memory(err, "a model");
        goto done;
    }
    status = fm_arch_read(fm_tree_root(tree), name, options->layers, &arch, err);
    if (status != FM_OK)
        goto done;
    m->name = fm_strdup(arch.name);
    status = m->name ? fm_model_take_arch(m, &arch, err) : fm_fail_memory(err, "a model");
    if (status != FM_OK && m->name)
        fm_err_prefix(err, "%s", path);
    if (status == FM_OK && fm_node_get_set(fm_tree_root(tree), "quantization_config") &&
        !fm_model_add_note(m, "the file names a quantization; parameters are shown as declared (%s), not as stored",
                           m->arch.dtype))
        status = fm_fail_memory(err, "a model");
done:
    fm_arch_reset(&arch);
    fm_free(name);
    fm_tree_destroy(tree);
    return status;
}

// ---- the catalogue ----

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Stems of the files in a folder, sorted: one block, pointers first.
static fm_status stems(const char *folder, char ***out, size_t *n_out, fm_err *err)
{
    fm_buf text = {0};
    size_t n = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return fm_fail(err, FM_ERR_IO, "%s: the catalogue of models cannot be opened", folder);
    for (struct dirent *e; (e = readdir(dir));) {
        size_t length = strlen(e->d_name);
        if (length > 5 && !strcmp(e->d_name + length - 5, ".json")) {
            fm_buf_add(&text, e->d_name, length - 5);
            fm_buf_add_char(&text, '\0');
            n++;
        }
    }
    closedir(dir);
    char **names = text.failed ? NULL : fm_alloc((n + 1) * sizeof *names + text.size);
    if (!names) {
        fm_buf_reset(&text);
        return fm_fail_memory(err, "the catalogue");
    }
    char *p = (char *)(names + n + 1);
    if (text.size)
        memcpy(p, text.data, text.size);
    for (size_t i = 0; i < n; i++, p += strlen(p) + 1)
        names[i] = p;
    names[n] = NULL;
    qsort(names, n, sizeof *names, by_name);
    fm_buf_reset(&text);
    *out = names;
    *n_out = n;
    return FM_OK;
}

// "meta-llama--Llama-3.1-8B" is shown as "meta-llama/Llama-3.1-8B". In place: the name becomes one byte shorter.
static void show(char *stem)
{
    char *dashes = strstr(stem, "--");
    if (dashes) {
        dashes[0] = '/';
        memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    }
}

fm_status fm_catalogue_names(char ***out, fm_err *err)
{
    char *folder;
    size_t n;
    fm_status status = fm_data_path("models", &folder, err);
    if (status != FM_OK)
        return status;
    status = stems(folder, out, &n, err);
    fm_free(folder);
    for (size_t i = 0; status == FM_OK && i < n; i++)
        show((*out)[i]);
    return status;
}

static const char *short_name(const char *stem)
{
    const char *dashes = strstr(stem, "--");
    return dashes ? dashes + 2 : stem;
}

// Does `asked` name this stem: ORG--NAME, ORG/NAME or NAME, any case, ".json" allowed?
static bool names(const char *asked, const char *stem)
{
    const char *s = short_name(stem);
    size_t org = (size_t)(s - stem), n = strlen(asked);
    if (n > 5 && !strcasecmp(asked + n - 5, ".json"))
        n -= 5;
    if (n == strlen(stem) && !strncasecmp(asked, stem, n))
        return true;
    if (n == strlen(s) && !strncasecmp(asked, s, n))
        return true;
    return org > 2 && n == strlen(stem) - 1 && !strncasecmp(asked, stem, org - 2) && asked[org - 2] == '/' &&
           !strncasecmp(asked + org - 1, s, strlen(s));
}

static fm_status no_such(const char *asked, char **list, size_t n, fm_err *err)
{
    const char **words = fm_alloc_array(2 * n + 1, sizeof *words);
    if (!words)
        return fm_fail_memory(err, "the catalogue");
    for (size_t i = 0; i < n; i++) {
        words[2 * i] = short_name(list[i]);
        words[2 * i + 1] = list[i];
    }
    const char *near = fm_nearest(asked, words, 2 * n);
    fm_status status = near ? fm_fail(err, FM_ERR_NOT_FOUND,
                                      "%s: no such file, and no model of that name in the catalogue; did you mean "
                                      "\"%s\"? (a size such as 7B works too)",
                                      asked, near)
                            : fm_fail(err, FM_ERR_NOT_FOUND,
                                      "%s: no such file, and no model of that name in the catalogue; give a "
                                      "config.json, a weight file, or a size such as 7B",
                                      asked);
    fm_free(words);
    return status;
}

fm_status fm_model_from_name(fm_model *m, const char *asked, const fm_model_options *options, fm_err *err)
{
    char *folder = NULL, **list = NULL;
    size_t n = 0, found = 0;
    fm_buf path = {0};
    fm_status status = fm_data_path("models", &folder, err);
    if (status == FM_OK)
        status = stems(folder, &list, &n, err);
    if (status != FM_OK)
        goto done;
    const char *stem = NULL;
    for (size_t i = 0; i < n; i++)
        if (names(asked, list[i])) {
            stem = list[i];
            found++;
        }
    if (found != 1) {
        status = found ? fm_fail(err, FM_ERR_CONFLICT,
                                 "%s: several models have that name; write it with its owner, as in %s", asked, stem)
                       : no_such(asked, list, n, err);
        goto done;
    }
    fm_buf_printf(&path, "%s/%s.json", folder, stem);
    status = fm_buf_check(&path, err);
    if (status == FM_OK)
        status = fm_model_from_config(m, fm_buf_text(&path), options, err);
    m->source = FM_MODEL_CATALOGUE;
done:
    fm_buf_reset(&path);
    fm_free(list);
    fm_free(folder);
    return status;
}

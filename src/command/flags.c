#include "command/flags.h"
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include "floodmark/machine.h"
#include "floodmark/tree.h"

enum { HELP_COLUMNS = 100, MAX_OWN = 32 };

fm_flag_kind fm_flags_next(fm_flags *flags, char buffer[64], const char **name, const char **value)
{
    if (flags->at >= flags->argc)
        return FM_FLAG_END;
    const char *argument = flags->argv[flags->at++];
    *value = NULL;
    if (!flags->words_only && !strcmp(argument, "--")) {
        flags->words_only = true;
        return fm_flags_next(flags, buffer, name, value);
    }
    if (flags->words_only || argument[0] != '-' || !argument[1] || isdigit((unsigned char)argument[1])) {
        *name = argument;
        return FM_FLAG_WORD;
    }
    const char *start = argument + (argument[1] == '-' ? 2 : 1), *equals = strchr(start, '=');
    size_t n = equals ? (size_t)(equals - start) : strlen(start);
    snprintf(buffer, 64, "%.*s", n < 63 ? (int)n : 63, start);
    *name = buffer;
    *value = equals ? equals + 1 : NULL;
    return FM_FLAG_OPTION;
}

fm_status fm_flags_value(fm_flags *flags, const char *name, const char *behind, const char **value, fm_err *err)
{
    if (behind) {
        *value = behind;
        return FM_OK;
    }
    if (flags->at >= flags->argc || !strncmp(flags->argv[flags->at], "--", 2))
        return fm_fail(err, FM_ERR_USAGE, "--%s needs a value", name);
    *value = flags->argv[flags->at++];
    return FM_OK;
}

fm_status fm_flags_no_value(const char *name, const char *behind, fm_err *err)
{
    return behind ? fm_fail(err, FM_ERR_USAGE, "--%s takes no value", name) : FM_OK;
}

fm_status fm_flags_unknown(const char *name, const char *const *own, bool recipe, const char *command, fm_err *err)
{
    char dashed[FM_N_FIELDS][32];
    const char *names[FM_N_FIELDS + MAX_OWN];
    size_t n = 0;
    for (; n < MAX_OWN && own[n]; n++)
        names[n] = own[n];
    for (int f = 0; recipe && f < FM_N_FIELDS; f++) {
        snprintf(dashed[f], sizeof dashed[f], "%s", fm_field_name((fm_field)f));
        for (char *c = dashed[f]; *c; c++)
            *c = *c == '_' ? '-' : *c;
        names[n++] = dashed[f];
    }
    const char *near = fm_nearest(name, names, n);
    if (near)
        return fm_fail(err, FM_ERR_USAGE, "unknown flag --%s: did you mean --%s?", name, near);
    return fm_fail(err, FM_ERR_USAGE, "unknown flag --%s; see floodmark %s --help", name, command);
}

// Words of text, wrapped, each line but the first indented.
static void wrap(fm_buf *out, const char *text, size_t column, size_t indent)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (column + n > HELP_COLUMNS && column > indent) {
            fm_buf_add_char(out, '\n');
            fm_buf_fill(out, ' ', indent);
            column = indent;
        }
        fm_buf_add(out, text, n);
        column += n;
        text += n;
        if (*text == ' ') {
            text++;
            if (column + 1 + strcspn(text, " ") <= HELP_COLUMNS) {
                fm_buf_add_char(out, ' ');
                column++;
            } else {
                fm_buf_add_char(out, '\n');
                fm_buf_fill(out, ' ', indent);
                column = indent;
            }
        }
    }
    fm_buf_add_char(out, '\n');
}

static void field_help(fm_buf *out, fm_field field)
{
    char flag[40], values[400], line[1000];
    snprintf(flag, sizeof flag, "--%s", fm_field_name(field));
    for (char *c = flag + 2; *c; c++)
        *c = *c == '_' ? '-' : *c;
    fm_field_values(field, values, sizeof values);
    const char *help = fm_field_help(field), *rule = fm_field_default(field);
    bool words = strcmp(values, "text") != 0;
    snprintf(line, sizeof line, "%s%s%s%s%s%s", help, *help && words ? ": " : "", words ? values : "",
             *rule ? " [" : "", rule, *rule ? "]" : "");
    fm_buf_printf(out, "  %-17s ", flag);
    wrap(out, line, 20, 20);
}

void fm_flags_recipe_help(fm_buf *out)
{
    fm_buf_add_text(
        out, "Recipe flags, each also a key of recipe files and a column of case files; in brackets the default:\n");
    for (int f = 0; f < FM_N_FIELDS; f++)
        field_help(out, (fm_field)f);
    fm_buf_add_text(out, "  --ranks N         short for --on 1xNxcpu\n");
    fm_buf_add_text(out, fm_recipe_presets_help());
    fm_buf_add_text(
        out, "\nMachines: NODESxGPUSxNAME, GPUSxNAME or NAME, or a JSON file {\"nodes\": 2, \"gpus_per_node\": 8, "
             "\"gpu\": NAME or\n{\"name\", \"memory_bytes\", \"like\": NAME ...}, \"host_bytes\", "
             "\"intra_bytes_per_s\", \"inter_bytes_per_s\"}. GPUs:\n  ");
    fm_buf names = {0};
    for (size_t i = 0; i < fm_gpu_count(); i++)
        fm_buf_printf(&names, "%s%s", i ? ", " : "", fm_gpu_at(i)->name);
    fm_buf_add_text(&names, ", cpu");
    wrap(out, fm_buf_text(&names), 2, 2);
    fm_buf_reset(&names);
}

fm_status fm_flags_refused(const char *command, int option, const char *argument, const struct option *longs,
                           fm_err *err)
{
    enum { MOST = 32 };
    const char *names[MOST];
    size_t n = 0;
    bool is_long = !strncmp(argument, "--", 2);
    int length = (int)strcspn(argument, "=");
    char name[64];
    snprintf(name, sizeof name, "%.*s", length, argument);
    if (!is_long)
        snprintf(name, sizeof name, "-%c", optopt);
    if (option == ':')
        return fm_fail(err, FM_ERR_USAGE, "%s needs a value", name);
    if (is_long && optopt)
        return fm_fail(err, FM_ERR_USAGE, "%s takes no value", name);
    for (; longs->name && n < MOST; longs++)
        names[n++] = longs->name;
    const char *near = is_long ? fm_nearest(name + 2, names, n) : NULL;
    return near ? fm_fail(err, FM_ERR_USAGE, "unknown flag %s: did you mean --%s?", name, near)
                : fm_fail(err, FM_ERR_USAGE, "unknown flag %s; see floodmark %s --help", name, command);
}

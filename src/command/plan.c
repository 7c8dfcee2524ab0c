// floodmark plan: how high memory rises when a model is trained by a recipe on a machine.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/atomic_file.h"
#include "command/command.h"
#include "command/flags.h"
#include "command/plan_gather.h"
#include "command/plan_why.h"
#include "simulate/request.h"

static const char usage[] =
    "Usage: floodmark plan MODEL --on MACHINE [FLAG...]\n"
    "How high memory rises on one rank in two training steps, when, made of what, and whether it fits.\n\n"
    "MODEL is a name of the catalogue, a config.json or its folder, a weight file, or a size such as 70B.\n\n"
    "  --recipe FILE     take the recipe's values from a YAML or JSON file; flags win over it\n"
    "  --recipe-out FILE write the recipe with every field filled and where each value came from (.json: JSON)\n"
    "  --precision NAME  number types at once, see below\n"
    "  --units GB|GiB    units of sizes [GiB]\n"
    "  --json            print JSON: verdict, peak_bytes, peak_phase, phases, at_peak, states, recipe, machine\n"
    "  --svg FILE        also draw the timeline as a picture\n"
    "  --why ROLE        list the buffers behind a role's number at the peak, and the source of the rule\n"
    "  --emit WHAT       program: the recorded step, an instruction a line; timeline: the level after each\n"
    "  --full            record every block (the result is the same; without it equal blocks are folded)\n"
    "  -h, --help        print this help\n\n"
    "Exit status: 0 it fits (or is tight), 1 failed, 2 wrong usage, 3 it does not fit.\n\n";

typedef enum { EMIT_NOTHING, EMIT_PROGRAM, EMIT_TIMELINE } emit;

typedef struct {
    bool help, json, full, has_role;
    fm_units units;
    emit emit;
    fm_role role;
    const char *recipe_in, *recipe_out, *svg;
    fm_recipe recipe; // from flags
} options;

static const char *const own_flags[] = {"recipe", "recipe-out", "precision", "ranks", "units", "json",
                                        "svg",    "why",        "emit",      "full",  "help",  NULL};

static fm_status set_emit(const char *text, options *o, fm_err *err)
{
    if (!strcmp(text, "program"))
        o->emit = EMIT_PROGRAM;
    else if (!strcmp(text, "timeline"))
        o->emit = EMIT_TIMELINE;
    else
        return fm_fail(err, FM_ERR_USAGE, "--emit \"%.60s\": write program or timeline", text);
    return FM_OK;
}

// A flag with a value that is not the recipe's. *taken: it was one.
static fm_status take_own(const char *name, const char *text, options *o, bool *taken, fm_err *err)
{
    *taken = true;
    if (!strcmp(name, "recipe"))
        o->recipe_in = text;
    else if (!strcmp(name, "recipe-out"))
        o->recipe_out = text;
    else if (!strcmp(name, "svg"))
        o->svg = text;
    else if (!strcmp(name, "units"))
        return fm_parse_units(text, &o->units, err);
    else if (!strcmp(name, "emit"))
        return set_emit(text, o, err);
    else if (!strcmp(name, "why")) {
        o->has_role = true;
        return fm_why_role(text, &o->role, err);
    } else
        *taken = false;
    return FM_OK;
}

static bool is_own_with_value(const char *name)
{
    static const char *const with_value[] = {"recipe", "recipe-out", "svg", "units", "emit", "why"};
    for (size_t i = 0; i < sizeof with_value / sizeof with_value[0]; i++)
        if (!strcmp(name, with_value[i]))
            return true;
    return false;
}

static fm_status take_option(fm_flags *flags, const char *name, const char *behind, options *o, fm_err *err)
{
    bool *const switches[] = {&o->json, &o->full, &o->help, &o->help};
    static const char *const switch_names[] = {"json", "full", "help", "h"};
    for (size_t i = 0; i < 4; i++)
        if (!strcmp(name, switch_names[i])) {
            *switches[i] = true;
            return fm_flags_no_value(name, behind, err);
        }
    fm_field field;
    fm_err ignored;
    bool recipe = !strcmp(name, "precision") || !strcmp(name, "ranks") || !fm_field_find(name, &field, &ignored);
    if (!recipe && !is_own_with_value(name))
        return fm_flags_unknown(name, own_flags, true, "plan", err);
    const char *text = NULL;
    bool taken = false;
    fm_status status = fm_flags_value(flags, name, behind, &text, err);
    if (!status)
        status = take_own(name, text, o, &taken, err);
    if (!status && !taken) {
        if (!*text)
            return fm_fail(err, FM_ERR_USAGE, "--%s needs a value", name);
        status = fm_recipe_set_named(&o->recipe, name, text, FM_ORIGIN_USER, err);
    }
    return status;
}

static fm_status parse(int argc, char **argv, options *o, fm_err *err)
{
    fm_flags flags = {.argc = argc, .at = 1, .argv = argv};
    char buffer[64];
    const char *name, *behind;
    fm_flag_kind kind;
    bool has_word = false;
    while ((kind = fm_flags_next(&flags, buffer, &name, &behind)) != FM_FLAG_END) {
        fm_status status;
        if (kind == FM_FLAG_OPTION)
            status = take_option(&flags, name, behind, o, err);
        else if (has_word)
            status = fm_fail(err, FM_ERR_USAGE, "one model at a time: \"%.60s\" is a second one", name);
        else if (!*name)
            status = fm_fail(err, FM_ERR_USAGE, "the model's name is empty");
        else {
            status = fm_recipe_set(&o->recipe, FM_FIELD_MODEL, name, FM_ORIGIN_USER, err);
            has_word = true;
        }
        if (status)
            return status;
    }
    return FM_OK;
}

static unsigned terminal_width(void)
{
    struct winsize size;
    if (isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col >= 40)
        return size.ws_col;
    return 100;
}

static fm_status write_svg(const char *path, const fm_plan_view *view, fm_units units, fm_err *err)
{
    fm_buf picture = {0};
    fm_status status = fm_view_svg(view, units, &picture, err);
    if (!status)
        status = fm_atomic_file_write(path, picture.data, picture.size, true, err);
    fm_buf_reset(&picture);
    return status;
}

static fm_status emit_program(const fm_plan *plan, fm_buf *out, fm_err *err)
{
    char *text = NULL;
    size_t n = 0;
    fm_status status = fm_program_print(&plan->program, &text, &n, err);
    if (!status)
        fm_buf_add(out, text, n);
    free(text);
    return status;
}

// Prints what was asked for; *code is 3 when the plan does not fit.
static fm_status report(const options *o, bool blocks, const fm_request *request, const fm_plan *plan, int *code,
                        fm_err *err)
{
    fm_buf out = {0};
    uint64_t *series = NULL;
    size_t n_series = 0;
    fm_plan_view view;
    bool timeline =
        blocks && (o->svg || o->emit == EMIT_TIMELINE || (!o->json && !o->has_role && o->emit == EMIT_NOTHING));
    fm_status status = timeline ? fm_view_series(plan, &series, &n_series, err) : FM_OK;
    if (!status) {
        fm_view_gather(request, plan, series, n_series, &view);
        *code = fm_view_judge(&view).verdict == FM_VERDICT_DOES_NOT_FIT ? 3 : 0;
    }
    if (!status && o->has_role)
        status = fm_why_print(request, plan, o->role, o->units, o->json, &out, err);
    else if (!status && o->emit == EMIT_PROGRAM)
        status = emit_program(plan, &out, err);
    else if (!status && o->emit == EMIT_TIMELINE)
        status = fm_view_emit_timeline(&view, &out, err);
    else if (!status)
        status = o->json ? fm_view_json(&view, &out, err) : fm_view_text(&view, o->units, terminal_width(), &out, err);
    if (!status && o->recipe_out)
        status = fm_recipe_write(o->recipe_out, &request->recipe, err);
    if (!status && o->svg)
        status = write_svg(o->svg, &view, o->units, err);
    if (!status)
        status = fm_command_print(&out, err);
    fm_buf_reset(&out);
    fm_free(series);
    return status;
}

static fm_status print_help(fm_err *err)
{
    fm_buf out = {0};
    fm_buf_add_text(&out, usage);
    fm_flags_recipe_help(&out);
    fm_buf_add_text(&out, "\nRoles of --why: ");
    for (int r = 0; r < FM_N_ROLES; r++)
        fm_buf_printf(&out, "%s%s%s", r ? "," : "", !r ? "" : r % 6 ? " " : "\n  ", fm_role_name((fm_role)r));
    fm_buf_add_text(&out, "\n");
    fm_status status = fm_command_print(&out, err);
    fm_buf_reset(&out);
    return status;
}

int fm_command_plan(int argc, char **argv)
{
    options o = {.units = FM_UNITS_GIB};
    fm_err err = {0};
    fm_request request = {0};
    fm_plan plan = {0};
    bool typed = true, blocks = false;
    int code = 0;
    fm_recipe_init(&o.recipe);
    fm_status status = parse(argc, argv, &o, &err);
    if (!status && o.help)
        return print_help(&err) ? fm_command_fail("plan", &err, false) : 0;
    fm_recipe recipe;
    fm_recipe_init(&recipe);
    if (!status && o.recipe_in && (status = fm_recipe_read(o.recipe_in, &recipe, &err)))
        typed = false;
    if (!status) {
        fm_recipe_overlay(&recipe, &o.recipe);
        status = fm_request_make(&recipe, &request, &typed, &err);
    }
    if (!status) {
        typed = false;
        // A folded program has no buffers of the blocks it stands for: what lists or draws them needs them all.
        bool needed = o.has_role || o.svg || o.emit != EMIT_NOTHING;
        blocks = needed || (!o.json && (o.full || fm_request_draws(&request)));
        status = blocks && !o.full ? fm_request_plan_blocks(&request, &plan, &err)
                                   : fm_request_plan(&request, false, o.full, &plan, &err);
    }
    if (!status)
        status = report(&o, blocks, &request, &plan, &code, &err);
    fm_plan_reset(&plan);
    fm_request_reset(&request);
    return status ? fm_command_fail("plan", &err, typed) : code;
}

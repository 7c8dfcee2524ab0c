// Walking a command's arguments: `--name value`, `--name=value`, `-h`, plain words, and `--` before words only.
#ifndef FM_COMMAND_FLAGS_H
#define FM_COMMAND_FLAGS_H
#include "base/buf.h"
#include "floodmark/recipe.h"

typedef struct {
    int argc, at;
    char **argv;
    bool words_only;
} fm_flags;

typedef enum { FM_FLAG_END, FM_FLAG_WORD, FM_FLAG_OPTION } fm_flag_kind;

// The next argument. A word is in *name. An option's name ("seq", "h") is copied to *name in `buffer`; *value is what
// stood behind '=', or NULL.
fm_flag_kind fm_flags_next(fm_flags *flags, char buffer[64], const char **name, const char **value);

// The option's value: what stood behind '=', else the next argument, which may not begin with "--". FM_ERR_USAGE.
fm_status fm_flags_value(fm_flags *flags, const char *name, const char *behind, const char **value,
                         fm_err *err) FM_MUST_USE;

// An option without a value had one behind '='. FM_ERR_USAGE.
fm_status fm_flags_no_value(const char *name, const char *behind, fm_err *err) FM_MUST_USE;

// A flag nobody knows: names the nearest of the command's own (`own`, ended by NULL) and, if `recipe`, the recipe's.
fm_status fm_flags_unknown(const char *name, const char *const *own, bool recipe, const char *command, fm_err *err);

// What getopt_long returned ':' or '?' for (opterr 0, ':' first in its short options): `argument` is the word at fault,
// argv[optind - 1]. FM_ERR_USAGE: a value that is missing or too much, or the nearest of `longs`.
struct option;
fm_status fm_flags_refused(const char *command, int option, const char *argument, const struct option *longs,
                           fm_err *err);

// Appends the recipe's flags, their values and defaults, for --help.
void fm_flags_recipe_help(fm_buf *out);
#endif

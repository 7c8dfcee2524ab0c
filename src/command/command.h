// What the commands share: each is a function of its arguments that returns the process's exit status, 0 done,
// 1 failed, 2 wrong usage, 3 done and the answer is "does not fit".
#ifndef FM_COMMAND_H
#define FM_COMMAND_H
#include <stdbool.h>
#include "base/buf.h"

// The table of commands: name, what `floodmark --help` says of it. src/command/NAME.c defines
// int fm_command_NAME(int argc, char **argv); argv[0] is the command's name.
#define FM_COMMAND_LIST(X)                                                                       \
    X(plan, "how high memory rises in a training step, when, made of what, and whether it fits") \
    X(validate, "predictions against measured or simulated truth, row by row")                   \
    X(inspect, "the units, parameters and bytes of a model or a weight file")                    \
    X(quantize, "weights in fewer bits, with a report of what it cost")                          \
    X(compare, "one tensor under several schemes, side by side")                                 \
    X(numbers, "the number types, or what becomes of a value in each of them")

#define FM_COMMAND_DECLARE(name, help) int fm_command_##name(int argc, char **argv);
FM_COMMAND_LIST(FM_COMMAND_DECLARE)
#undef FM_COMMAND_DECLARE

// Prints "floodmark COMMAND: message" on stderr and returns the exit status: 2 for what a person typed wrong
// (FM_ERR_USAGE, also a flag's value: `typed`), else 1. An empty message is not printed.
int fm_command_fail(const char *command, const fm_err *err, bool typed);

// Writes all of text to stdout and flushes it. Fails with FM_ERR_IO; without a message where the reader went away
// (`floodmark ... | head` wants no complaint).
fm_status fm_command_print(const fm_buf *text, fm_err *err) FM_MUST_USE;

// Prints a command's help; returns the exit status.
int fm_command_help(const char *command, const char *text);
#endif

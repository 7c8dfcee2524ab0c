// What the commands share: each is a function of its arguments that returns the process's exit status, 0 done,
// 1 failed, 2 wrong usage, 3 done and the answer is "does not fit".
#ifndef FM_COMMAND_H
#define FM_COMMAND_H
#include <stdbool.h>
#include "base/buf.h"

// argv[0] is the command's name ("plan").
int fm_command_numbers(int argc, char **argv);
int fm_command_inspect(int argc, char **argv);
int fm_command_quantize(int argc, char **argv);
int fm_command_compare(int argc, char **argv);
int fm_command_plan(int argc, char **argv);
int fm_command_validate(int argc, char **argv);

// Prints "floodmark COMMAND: message" on stderr and returns the exit status: 2 for what a person typed wrong
// (FM_ERR_USAGE, also a flag's value: `typed`), else 1. An empty message is not printed.
int fm_command_fail(const char *command, const fm_err *err, bool typed);

// Writes all of text to stdout and flushes it. Fails with FM_ERR_IO; without a message where the reader went away
// (`floodmark ... | head` wants no complaint).
fm_status fm_command_print(const fm_buf *text, fm_err *err) FM_MUST_USE;
#endif

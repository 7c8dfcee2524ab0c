#include "command/command.h"
#include <errno.h>
#include <stdio.h>
#include "base/io.h"

int fm_command_fail(const char *command, const fm_err *err, bool typed)
{
    if (err->message[0])
        fprintf(stderr, "floodmark %s: %s\n", command, err->message);
    return typed || err->code == FM_ERR_USAGE ? 2 : 1;
}

fm_status fm_command_print(const fm_buf *text, fm_err *err)
{
    fm_status status = fm_buf_check(text, err);
    if (!status && ((text->size && fwrite(text->data, 1, text->size, stdout) != text->size) || fflush(stdout)))
        status = errno == EPIPE ? fm_fail(err, FM_ERR_IO, "%s", "")
                                : fm_fail(err, FM_ERR_IO, "standard output: %s", fm_io_words(errno));
    return status;
}

int fm_command_help(const char *command, const char *text)
{
    fm_err err = {0};
    fm_buf out = {0};
    fm_buf_add_text(&out, text);
    fm_status status = fm_command_print(&out, &err);
    fm_buf_reset(&out);
    return status ? fm_command_fail(command, &err, false) : 0;
}

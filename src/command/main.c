// floodmark: a table of commands.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/fault.h"
#include "base/io.h"
#include "command/command.h"
#include "floodmark/tree.h"

static const struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
#define ROW(name, help) {#name, help, fm_command_##name},
    FM_COMMAND_LIST(ROW)
#undef ROW
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *to)
{
    fputs("Usage: floodmark COMMAND [ARGUMENT...]\n"
          "How high GPU memory rises while a language model trains, and a model's numbers made smaller.\n\n",
          to);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
    fputs("\nfloodmark COMMAND --help tells the rest. floodmark --version prints the version.\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage, 3 done and the answer is \"does not fit\".\n",
          to);
}

static int fail_unknown(const char *name)
{
    const char *names[N_COMMANDS];
    for (size_t i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = fm_nearest(name, names, N_COMMANDS);
    fm_err err = {0};
    if (fm_fail(&err, FM_ERR_USAGE, "unknown command \"%.60s\"%s%s%s", name,
                near ? ": did you mean " : "; see floodmark --help", near ? near : "", near ? "?" : ""))
        fprintf(stderr, "floodmark: %s\n", err.message);
    return 2;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        if (argc > 2 && name[0] == 'h') { // floodmark help plan
            char help[] = "--help";
            char *args[] = {argv[2], help, NULL};
            for (size_t i = 0; i < N_COMMANDS; i++)
                if (!strcmp(argv[2], commands[i].name))
                    return commands[i].run(2, args);
            return fail_unknown(argv[2]);
        }
        print_help(stdout);
        return 0;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        puts("floodmark " FM_VERSION);
        return 0;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    return fail_unknown(name);
}

// A closed descriptor would be given to the next file that is opened, and output would go into it. Stdin and stderr are
// replaced by /dev/null; without stdout there is nobody to answer.
static int check_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        if (open("/dev/null", fd ? O_WRONLY : O_RDONLY) != fd || fd == 1) {
            fputs("floodmark: standard output is closed; redirect it to a file or /dev/null\n", stderr);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    fm_err err = {0};
    if (check_descriptors())
        return 1;
    signal(SIGPIPE, SIG_IGN); // a reader that went away is an error of writing, told below by its own name
    signal(SIGXFSZ, SIG_IGN); // so is a file past the user's limit; killed, it would stay half written
    if (fm_fault_arm_from_env(&err)) {
        fprintf(stderr, "floodmark: %s\n", err.message);
        return 2;
    }
    int code = run(argc, argv);
    errno = 0;
    bool failed = ferror(stdout);
    if ((fflush(stdout) || failed) && (code == 0 || code == 3)) {
        if (errno != EPIPE) // `floodmark ... | head` wants no complaint
            fprintf(stderr, "floodmark: standard output: %s\n", errno ? fm_io_words(errno) : "could not be written");
        code = 1;
    }
    return code;
}

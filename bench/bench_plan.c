// How long a plan takes: Llama-3.1-405B on 64x8xH100-80GB under FSDP2 from parsed inputs, folded and recorded in full; folded plans a
// second on one core, over models and recipes; the whole program, start to finish.
//   bench_plan [PATH OF floodmark; else $FLOODMARK; else ../floodmark beside this program's folder]
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "floodmark/machine.h"
#include "floodmark/model.h"
#include "floodmark/recipe.h"
#include "simulate/plan.h"

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void give_up(const char *what, const fm_err *err)
{
    fprintf(stderr, "bench_plan: %s: %s\n", what, err->message);
    exit(1);
}

typedef struct {
    const char *model, *machine;
    const char *const *settings; // name, value, ..., NULL
} subject;

typedef struct {
    fm_model *model;
    fm_recipe recipe;
} parsed;

static parsed parse(const subject *s)
{
    parsed p = {0};
    fm_err err = {0};
    fm_machine machine;
    fm_recipe recipe;
    fm_recipe_site site;
    memset(&site, 0, sizeof site);
    fm_recipe_init(&recipe);
    if (fm_machine_parse(s->machine, &machine, &err) || fm_model_open(s->model, &(fm_model_options){0}, &p.model, &err))
        give_up(s->model, &err);
    for (const char *const *word = s->settings; *word; word += 2)
        if (fm_recipe_set_named(&recipe, word[0], word[1], FM_ORIGIN_USER, &err))
            give_up(word[0], &err);
    site.machine = machine.text;
    site.gpu = machine.gpu.name;
    site.world = machine.world;
    site.capability = machine.gpu.capability;
    if (fm_recipe_resolve(&recipe, &site, &p.recipe, &err))
        give_up(s->model, &err);
    return p;
}

static void plan(const parsed *p, bool full, fm_plan *out)
{
    fm_err err = {0};
    if (fm_plan_make(p->model, &p->recipe, &(fm_plan_options){.full = full, .capability = 90}, out, &err))
        give_up("plan", &err);
}

// Milliseconds of wall clock and of processor time, the median of n plans.
static void measure_one(const char *what, const subject *s, bool full, unsigned n)
{
    parsed p = parse(s);
    double *wall = calloc(2 * n, sizeof *wall), *cpu = wall + n;
    size_t events = 0;
    uint64_t peak = 0;
    if (!wall)
        exit(1);
    for (unsigned i = 0; i < n; i++) {
        fm_plan made;
        double begin = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
        plan(&p, full, &made);
        cpu[i] = 1e3 * (now(CLOCK_PROCESS_CPUTIME_ID) - used);
        wall[i] = 1e3 * (now(CLOCK_MONOTONIC) - begin);
        events = made.program.n_events;
        peak = made.peak_bytes;
        fm_plan_reset(&made);
    }
    qsort(wall, n, sizeof *wall, by_value);
    qsort(cpu, n, sizeof *cpu, by_value);
    printf("{\"bench\":\"plan\",\"what\":\"%s\",\"model\":\"%s\",\"on\":\"%s\",\"n\":%u,\"wall_ms_min\":%.3f,\"wall_ms_"
           "median\":%.3f,\"cpu_ms_median\":%.3f,"
           "\"events\":%zu,\"peak_bytes\":%llu}\n",
           what, s->model, s->machine, n, wall[0], wall[n / 2], cpu[n / 2], events, (unsigned long long)peak);
    fflush(stdout);
    free(wall);
    fm_model_destroy(p.model);
}

static void measure_rate(const subject *s, double seconds)
{
    parsed p = parse(s);
    unsigned n = 0;
    double begin = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID), spent, cpu;
    do {
        fm_plan made;
        plan(&p, false, &made);
        fm_plan_reset(&made);
        n++;
        spent = now(CLOCK_MONOTONIC) - begin;
        cpu = now(CLOCK_PROCESS_CPUTIME_ID) - used;
    } while (spent < seconds);
    printf("{\"bench\":\"plan\",\"what\":\"folded plans a second, one "
           "thread\",\"model\":\"%s\",\"on\":\"%s\",\"plans\":%u,\"per_second\":%.0f,\"per_cpu_second\":%.0f}\n",
           s->model, s->machine, n, n / spent, n / cpu);
    fflush(stdout);
    fm_model_destroy(p.model);
}

static double run_once(const char *program, const char *const *arguments)
{
    double begin = now(CLOCK_MONOTONIC);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        execv(program, (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status) ||
        (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3))
        return -1;
    return 1e3 * (now(CLOCK_MONOTONIC) - begin);
}

static void measure_process(const char *what, const char *program, const char *const *arguments, unsigned n)
{
    double *wall = calloc(n, sizeof *wall);
    if (!wall)
        exit(1);
    for (unsigned i = 0; i < n; i++)
        if ((wall[i] = run_once(program, arguments)) < 0) {
            printf("{\"bench\":\"plan\",\"what\":\"%s\",\"failed\":true,\"program\":\"%s\"}\n", what, program);
            free(wall);
            return;
        }
    qsort(wall, n, sizeof *wall, by_value);
    printf("{\"bench\":\"plan\",\"what\":\"%s\",\"n\":%u,\"wall_ms_min\":%.2f,\"wall_ms_median\":%.2f}\n", what, n,
           wall[0], wall[n / 2]);
    free(wall);
}

int main(int argc, char **argv)
{
    char program[4096];
    const char *given = argc > 1 ? argv[1] : getenv("FLOODMARK");
    if (given) {
        snprintf(program, sizeof program, "%s", given);
    } else {
        char here[4000];
        snprintf(here, sizeof here, "%s", argv[0]);
        snprintf(program, sizeof program, "%s/../floodmark", dirname(here));
    }
#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})
    const subject large = {"Llama-3.1-405B", "64x8xH100-80GB",
                           SETTINGS("engine", "fsdp2", "seq", "8192", "checkpoint", "full")};
    const subject others[] = {
        {"Llama-3.1-405B", "64x8xH100-80GB", SETTINGS("engine", "fsdp2", "seq", "8192")},
        {"Llama-3.1-8B", "1x8xH100-80GB", SETTINGS("engine", "fsdp1", "seq", "4096", "clip", "yes")},
        {"Llama-3.1-70B", "8x8xH100-80GB",
         SETTINGS("engine", "fsdp2", "seq", "4096", "accumulate", "4", "checkpoint", "full")},
        {"Mixtral-8x22B-v0.1", "8x8xH100-80GB", SETTINGS("engine", "fsdp2", "seq", "4096", "checkpoint", "full")},
        {"gpt2-xl", "1x8xA100-80GB", SETTINGS("engine", "ddp", "seq", "1024")},
        {"gemma-2-9b", "1x8xA100-80GB", SETTINGS("engine", "fsdp2", "seq", "4096")},
    };
    measure_one("folded, parsed inputs", &large, false, 101);
    measure_one("recorded in full, parsed inputs", &large, true, 31);
    measure_rate(&large, 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        measure_rate(&others[i], 0.5);
    measure_process(
        "whole process: plan Llama-3.1-405B --on 64x8xH100-80GB", program,
        SETTINGS(program, "plan", "Llama-3.1-405B", "--on", "64x8xH100-80GB", "--seq", "8192", "--checkpoint", "full"),
        31);
    measure_process("whole process: plan Llama-3.1-405B --json", program,
                    SETTINGS(program, "plan", "Llama-3.1-405B", "--on", "64x8xH100-80GB", "--seq", "8192",
                             "--checkpoint", "full", "--json"),
                    31);
    return 0;
}

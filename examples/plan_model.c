// The library from C: a training run planned. Public headers alone.
//
//   cc plan_model.c $(pkg-config --cflags --libs floodmark) -o plan_model
//   plan_model MODEL MACHINE [FIELD=VALUE...]      plan_model llama-3.1-8b 8xA100-80GB seq=8192 checkpoint=full
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "floodmark/plan.h"

static fm_status set(fm_recipe *recipe, const char *word, fm_err *err)
{
    char name[64];
    const char *equals = strchr(word, '=');
    if (!equals || (size_t)(equals - word) >= sizeof name)
        return fm_fail(err, FM_ERR_USAGE, "%s: write FIELD=VALUE", word);
    snprintf(name, sizeof name, "%.*s", (int)(equals - word), word);
    return fm_recipe_set_named(recipe, name, equals + 1, FM_ORIGIN_USER, err);
}

int main(int argc, char **argv)
{
    fm_err err;
    fm_recipe recipe;
    static fm_plan_outcome plan;
    if (argc < 3) {
        fputs("Usage: plan_model MODEL MACHINE [FIELD=VALUE...]\n", stderr);
        return 2;
    }
    fm_recipe_init(&recipe);
    fm_status status = fm_recipe_set_named(&recipe, "model", argv[1], FM_ORIGIN_USER, &err);
    if (!status)
        status = fm_recipe_set_named(&recipe, "on", argv[2], FM_ORIGIN_USER, &err);
    for (int i = 3; i < argc && !status; i++)
        status = set(&recipe, argv[i], &err);
    if (status || fm_plan_recipe(&recipe, &plan, &err)) {
        fprintf(stderr, "plan_model: %s\n", err.message);
        return 1;
    }
    printf("%" PRIu64 " of %" PRIu64 " bytes, in %s\n", plan.figures[FM_AT_RUN], plan.machine.gpu.memory_bytes,
           fm_word_text(FM_FIELD_PHASE, (int)plan.peak_phase));
    for (size_t role = 0; role < fm_plan_n_roles(); role++)
        if (plan.at_peak[role])
            printf("%16" PRIu64 "  %s\n", plan.at_peak[role], fm_plan_role_words(role));
    return 0;
}

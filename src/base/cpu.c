#include "base/cpu.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static fm_cpu features;
static fm_cpu_level chosen;
static pthread_once_t features_once = PTHREAD_ONCE_INIT, chosen_once = PTHREAD_ONCE_INIT;

static void detect(void)
{
#if defined(__x86_64__)
    // The builtin also asks the operating system whether it saves the wide registers.
    __builtin_cpu_init();
    features.avx2 = __builtin_cpu_supports("avx2");
    features.fma = __builtin_cpu_supports("fma");
    unsigned a, b, c, d; // clang before 16 does not know "f16c" by name
    features.f16c = features.avx2 && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    features.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    features.avx512_vbmi = features.avx512 && __builtin_cpu_supports("avx512vbmi");
    features.avx512_vbmi2 = features.avx512 && __builtin_cpu_supports("avx512vbmi2");
    features.avx512_vnni = features.avx512 && __builtin_cpu_supports("avx512vnni");
    features.avx512_bf16 = features.avx512 && __builtin_cpu_supports("avx512bf16");
#endif
    bool avx2 = features.avx2 && features.fma && features.f16c;
    features.best = avx2 && features.avx512 ? FM_CPU_AVX512 : avx2 ? FM_CPU_AVX2 : FM_CPU_SCALAR;
}

const fm_cpu *fm_cpu_features(void)
{
    pthread_once(&features_once, detect);
    return &features;
}

const char *fm_cpu_level_name(fm_cpu_level level)
{
    switch (level) {
    case FM_CPU_SCALAR:
        return "scalar";
    case FM_CPU_AVX2:
        return "avx2";
    case FM_CPU_AVX512:
        return "avx512";
    }
    return "unknown";
}

fm_cpu_level fm_cpu_level_for(const char *asked, fm_cpu_level best, const char **problem)
{
    *problem = NULL;
    if (!asked || !*asked)
        return best;
    for (fm_cpu_level level = FM_CPU_SCALAR; level <= FM_CPU_AVX512; level++)
        if (strcmp(asked, fm_cpu_level_name(level)) == 0) {
            if (level <= best)
                return level;
            *problem = "cannot run on this processor";
            return best;
        }
    *problem = "is not a set of kernels (scalar, avx2 or avx512)";
    return best;
}

static void choose(void)
{
    const char *asked = getenv("FLOODMARK_CPU"), *problem;
    chosen = fm_cpu_level_for(asked, fm_cpu_features()->best, &problem);
    if (problem)
        fprintf(stderr, "floodmark: FLOODMARK_CPU=%s %s; using %s\n", asked, problem, fm_cpu_level_name(chosen));
}

fm_cpu_level fm_cpu_level_chosen(void)
{
    pthread_once(&chosen_once, choose);
    return chosen;
}

// What this processor can run, asked once, and the set of kernels to use.
#ifndef FM_BASE_CPU_H
#define FM_BASE_CPU_H
#include <stdbool.h>

// Sets of kernels, each containing the ones before it.
typedef enum {
    FM_CPU_SCALAR, // plain C
    FM_CPU_AVX2,   // AVX2, FMA and F16C
    FM_CPU_AVX512, // the above and AVX-512 F, BW, DQ, VL
} fm_cpu_level;

typedef struct {
    bool avx2, fma, f16c;
    bool avx512; // F, BW, DQ and VL together
    bool avx512_vbmi, avx512_vbmi2, avx512_vnni, avx512_bf16;
    fm_cpu_level best; // the highest set that runs here
} fm_cpu;

// The features, of the processor and the operating system together. Threads: any. Static storage.
const fm_cpu *fm_cpu_features(void);

// The set to use: the best, or a lower one named by FLOODMARK_CPU=scalar|avx2|avx512. A name that is unknown or that this
// machine cannot run is said on stderr, once, and the best is used. Read once. Threads: any.
fm_cpu_level fm_cpu_level_chosen(void);

// The choice itself, without environment or output: `asked` may be NULL. *problem is what to say (static text that
// follows "FLOODMARK_CPU=NAME "), or NULL.
fm_cpu_level fm_cpu_level_for(const char *asked, fm_cpu_level best, const char **problem);

// "scalar", "avx2", "avx512". Static storage.
const char *fm_cpu_level_name(fm_cpu_level level);
#endif

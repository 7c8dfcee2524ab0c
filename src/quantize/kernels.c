#include "quantize/kernels.h"
#include "base/cpu.h"
#include "floodmark/quantize.h"

const fm_quantize_kernels *fm_quantize_kernels_chosen(void)
{
#if defined(__x86_64__)
    fm_cpu_level level = fm_cpu_level_chosen();
    if (level >= FM_CPU_AVX512)
        return &fm_quantize_kernels_avx512;
    if (level >= FM_CPU_AVX2)
        return &fm_quantize_kernels_avx2;
#endif
    return &fm_quantize_kernels_scalar;
}

const char *fm_quantize_kernel(void)
{
    return fm_quantize_kernels_chosen()->name;
}

#include "number/kernels.h"

#include <string.h>

#include "number/inline.h"

const fm_number_kernels *fm_number_kernels_at(fm_cpu_level level)
{
    if (level > fm_cpu_features()->best)
        return NULL;
#if defined(__x86_64__)
    if (level == FM_CPU_AVX512)
        return &fm_number_kernels_avx512;
    if (level == FM_CPU_AVX2)
        return &fm_number_kernels_avx2;
#endif
    return &fm_number_kernels_scalar;
}

const fm_number_kernels *fm_number_kernels_chosen(void)
{
    static const fm_number_kernels *chosen; // idempotent: two threads would store the same row
    const fm_number_kernels *k = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    if (!k) {
        k = fm_number_kernels_at(fm_cpu_level_chosen());
        __atomic_store_n(&chosen, k, __ATOMIC_RELAXED);
    }
    return k;
}

const char *fm_number_kernel(void)
{
    return fm_number_kernels_chosen()->name;
}

void fm_small_init(fm_small *s, const fm_number_format *f, bool saturate)
{
    bool stays = saturate || f->overflow == FM_OVERFLOW_SATURATE;
    uint32_t max_bits = fm_bits_of_f32((float)f->max_finite);
    unsigned dropped = 23u - f->fraction_bits;
    *s = (fm_small){
        .fraction_bits = f->fraction_bits,
        .min_exponent = (uint32_t)(128 - f->bias),
        .clamp = stays ? max_bits : max_bits + (UINT32_C(1) << dropped),
        .sign_code = UINT32_C(1) << (f->bits - 1),
        .sign_shift = 32u - f->bits,
        .no_neg_zero = f->has_neg_zero ? 0 : UINT32_MAX,
        .special = f->has_infinity || f->nan == FM_NAN_SIGNED ? f->max_code + 1 : 0x100,
        .nan_above = f->nan == FM_NAN_SIGNED ? (f->has_infinity ? f->inf_code : f->max_code) : 0x100,
        .lone_nan = f->nan == FM_NAN_SINGLE ? f->nan_code : 0x100,
        .subnormal_step = (float)f->min_subnormal,
    };
    s->nan_code = f->nan == FM_NAN_NEG_ZERO ? s->sign_code : f->nan_code;
}

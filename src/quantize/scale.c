#include "quantize/scale.h"
#include <float.h>
#include <math.h>
#include <string.h>
#include "floodmark/number.h"
#include "floodmark/quantize.h"

enum { E8M0_CANDIDATES = 4 };

static float magnitude(float lo, float hi)
{
    float a = lo < 0 ? -lo : lo, b = hi < 0 ? -hi : hi;
    return a > b ? a : b;
}

// 2^e, e within what E8M0 holds.
static float power_of_two(int e)
{
    e = e < -127 ? -127 : e > 127 ? 127 : e;
    uint32_t u = e == -127 ? 0x00400000u : (uint32_t)(e + 127) << 23;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static int e8m0_exponent(fm_e8m0_mode mode, const fm_grid_desc *g, float a)
{
    uint32_t u;
    memcpy(&u, &a, 4); // a subnormal counts as 2^-127: the scale is at its lowest long before
    int e = (int)(u >> 23) - 127 - g->max_exponent;
    switch (mode) {
    case FM_E8M0_MODE_FLOOR:
        return e;
    case FM_E8M0_MODE_EVEN:
        return (int)((u + (1u << (22 - g->fraction_bits))) >> 23) - 127 - g->max_exponent;
    case FM_E8M0_MODE_CEIL:
        return e + ((u & 0x7fffff) != 0);
    default: // rceil, and where the search of mse begins
        return e + ((double)g->max * power_of_two(e) < (double)a && e >= -127);
    }
}

static void store_e8m0(fm_group_scale *r, int e)
{
    r->saturated = e > 127;
    r->scale = power_of_two(e);
    r->code = (uint8_t)(e < -127 ? 0 : e > 127 ? 254 : e + 127);
}

// fp16 and bf16, and e4m3 of an NVFP4 block: nearest, but neither zero nor infinite.
static uint32_t store_number(fm_number type, float raw, fm_group_scale *r)
{
    const fm_number_format *info = fm_number_info(type);
    const fm_encoding saturate = {.saturate = true};
    uint32_t code = fm_number_encode(type, raw, &saturate);
    if (code == 0)
        code = 1; // the smallest positive number of every format used here
    r->saturated = raw > (float)info->max_finite && code == info->max_code;
    r->scale = fm_number_decode(type, code);
    return code;
}

static void store_nvfp4(const fm_scheme *s, float a, float global, fm_group_scale *r)
{
    float amount = s->nvfp4 == FM_NVFP4_DIVIDE ? r->raw_scale * global : r->raw_scale / global;
    r->code = (uint8_t)store_number(FM_FP8_E4M3, a == 0 ? 1 : amount, r);
    r->scale = s->nvfp4 == FM_NVFP4_DIVIDE ? r->scale / global : r->scale * global;
}

static void store(const fm_scheme *s, const fm_grid_desc *g, float a, float global, fm_group_scale *r)
{
    switch (s->scale) {
    case FM_SCALE_FP16:
        store_number(FM_FP16, r->raw_scale, r);
        break;
    case FM_SCALE_BF16:
        store_number(FM_BF16, r->raw_scale, r);
        break;
    case FM_SCALE_E8M0:
        if (a == 0)
            store_e8m0(r, 0);
        else
            store_e8m0(r, e8m0_exponent(s->e8m0_mode, g, a));
        break;
    case FM_SCALE_E4M3:
        store_nvfp4(s, a, global, r);
        break;
    default:
        r->scale = r->raw_scale;
    }
}

fm_group_scale fm_scale_of_range(const fm_scheme *s, const fm_grid_desc *g, float lo, float hi, float global)
{
    fm_group_scale r = {0};
    float a = magnitude(lo, hi);
    if (s->scale == FM_SCALE_NONE)
        return (fm_group_scale){.scale = 1, .raw_scale = 1};
    if (s->asymmetric) {
        lo = lo < 0 ? lo : 0;
        hi = hi > 0 ? hi : 0;
        float width = hi - lo;
        r.saturated = width > FLT_MAX;
        r.raw_scale = (r.saturated ? FLT_MAX : width) / (float)g->high;
        a = width;
    } else {
        r.raw_scale = a / g->range;
    }
    // A group of zeros: any scale decodes it; 1 divides safely. Tables and double scales keep the true 0.
    if (r.raw_scale == 0 && g->kind != FM_GRID_KIND_TABLE && s->scale != FM_SCALE_DOUBLE)
        r.raw_scale = 1;
    bool wide = r.saturated;
    store(s, g, a, global, &r);
    r.saturated |= wide;
    if (s->asymmetric && r.scale != 0) {
        float z = -lo / r.scale;
        r.zero = z < (float)g->high ? (int32_t)((z + 12582912.0f) - 12582912.0f) : g->high;
    }
    return r;
}

int fm_scale_candidates(const fm_scheme *s)
{
    if (s->scale == FM_SCALE_E8M0 && s->e8m0_mode == FM_E8M0_MODE_MSE)
        return E8M0_CANDIDATES;
    return s->calibration == FM_CALIBRATION_MSE || s->calibration == FM_CALIBRATION_WEIGHTED ? FM_CALIBRATION_CANDIDATES
                                                                                             : 1;
}

fm_group_scale fm_scale_candidate(const fm_scheme *s, const fm_grid_desc *g, float lo, float hi, float global, int i)
{
    if (s->scale == FM_SCALE_E8M0 && s->e8m0_mode == FM_E8M0_MODE_MSE) {
        fm_group_scale r = fm_scale_of_range(s, g, lo, hi, global);
        if (magnitude(lo, hi) > 0)
            store_e8m0(&r, (int)r.code - 127 - i);
        r.grid_index = (uint8_t)i;
        return r;
    }
    float shrink = (float)(1 - i / 100.0);
    fm_group_scale r = fm_scale_of_range(s, g, lo * shrink, hi * shrink, global);
    r.grid_index = (uint8_t)i;
    return r;
}

float fm_nvfp4_global(const fm_scheme *s, float absmax)
{
    if (!(absmax > 0))
        return 1;
    float global = s->nvfp4 == FM_NVFP4_DIVIDE ? 2688.0f / absmax : absmax / 2688.0f;
    return global > FLT_MAX ? FLT_MAX : global < FLT_MIN ? FLT_MIN : global;
}

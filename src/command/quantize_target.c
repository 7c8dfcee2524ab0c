// From the words on the command line to what becomes of the values.
#include <stdio.h>
#include <string.h>
#include "command/quantize_job.h"

static bool find_cast(const char *name, fm_number *out)
{
    static const struct {
        const char *name;
        fm_number number;
    } casts[] = {{"f32", FM_FP32}, {"fp32", FM_FP32}, {"f16", FM_FP16}, {"fp16", FM_FP16}, {"bf16", FM_BF16}};
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++)
        if (strcmp(name, casts[i].name) == 0) {
            *out = casts[i].number;
            return true;
        }
    return false;
}

// Words about scales that a format without a choice of them was given.
static fm_status refuse_words(const char *format, const char *why, const fm_quantize_options *w, bool none_is_fine,
                              bool weighted_is_fine, fm_err *err)
{
    if (!w)
        return FM_OK;
    if (w->granularity)
        return fm_fail(err, FM_ERR_UNSUPPORTED, "--granularity %s: %s %s", w->granularity, format, why);
    if (w->symmetry)
        return fm_fail(err, FM_ERR_UNSUPPORTED, "--scheme %s: %s %s", w->symmetry, format, why);
    if (w->scale && !(none_is_fine && strcmp(w->scale, "none") == 0))
        return fm_fail(err, FM_ERR_UNSUPPORTED, "--scale %s: %s %s", w->scale, format, why);
    if (w->calibration && !(weighted_is_fine && strcmp(w->calibration, "weighted") == 0))
        return fm_fail(err, FM_ERR_UNSUPPORTED, "--calibrate %s: %s %s", w->calibration, format, why);
    return FM_OK;
}

static fm_status parse_scheme(const char *format, const fm_quantize_options *w, fm_target *t, fm_err *err)
{
    fm_status status = fm_scheme_of_format(format, &t->scheme, err);
    if (status || !w)
        return status;
    // mxfp8 names a format of blocks: without its scales it would be another format under its name.
    if (w->scale && strcmp(w->scale, "none") == 0 && strncmp(format, "fp8_", 4) != 0)
        return fm_fail(err, FM_ERR_UNSUPPORTED,
                       "--scale none: %s needs scales; fp32, fp16, bf16, fp8_e4m3 and fp8_e5m2 can do without", format);
    if (w->scale && (status = fm_scheme_set_scale(&t->scheme, w->scale, err)))
        return status;
    if (w->granularity && (status = fm_scheme_set_granularity(&t->scheme, w->granularity, err)))
        return status;
    if (w->symmetry && (status = fm_scheme_set_symmetry(&t->scheme, w->symmetry, err)))
        return status;
    const char *calibration = w->calibration;
    if (!calibration && (w->imatrix || w->activations))
        calibration = "weighted";
    if (calibration && (status = fm_scheme_set_calibration(&t->scheme, calibration, err)))
        return status;
    if (t->scheme.calibration == FM_CALIBRATION_WEIGHTED && !w->imatrix && !w->activations)
        return fm_fail(err, FM_ERR_USAGE, "--calibrate weighted: give the weights with --imatrix or --activations");
    if (t->scheme.calibration == FM_CALIBRATION_WEIGHTED && t->scheme.scale == FM_SCALE_E8M0)
        t->scheme.e8m0_mode = FM_E8M0_MODE_MSE;
    return fm_scheme_check(&t->scheme, err);
}

static bool is_scheme(const char *format)
{
    for (size_t i = 0; fm_scheme_format(i); i++)
        if (strcmp(fm_scheme_format(i), format) == 0)
            return true;
    return false;
}

static fm_status unknown(const char *format, bool to_gguf, fm_err *err)
{
    char names[384];
    int n = snprintf(names, sizeof names, "fp32, fp16, bf16");
    if (to_gguf)
        for (int i = 0; i < FM_BLOCK_N; i++) {
            const fm_block_format *f = fm_block_format_of((fm_block_type)i);
            if (f->block_elems > 1)
                n += snprintf(names + n, sizeof names - (size_t)n, ", %s", f->name);
        }
    else
        for (size_t i = 0; fm_scheme_format(i); i++)
            n += snprintf(names + n, sizeof names - (size_t)n, ", %s", fm_scheme_format(i));
    return fm_fail(err, FM_ERR_USAGE, "no format \"%s\" in %s files; there are %s%s", format,
                   to_gguf ? "GGUF" : "safetensors", names, to_gguf ? ", q3_k_m, q4_k_s, q4_k_m, q5_k_m" : "");
}

fm_status fm_target_parse(const char *format, bool to_gguf, const fm_quantize_options *words, fm_target *out,
                          fm_mix *mix, fm_err *err)
{
    *out = (fm_target){.name = format};
    uint32_t file_type;
    const fm_block_format *blocks = fm_block_format_by_name(format);
    bool is_mix = mix && fm_mix_find(format, mix, &out->blocks, &file_type);
    if (find_cast(format, &out->number)) {
        out->kind = FM_JOB_CAST;
        return refuse_words(format, "has no scales to choose", words, true, false, err);
    }
    if (to_gguf && (blocks || is_mix)) {
        out->kind = FM_JOB_BLOCKS;
        if (!is_mix)
            out->blocks = blocks;
        return refuse_words(format, "is a block format with scales of its own", words, false,
                            words && (words->imatrix || words->activations), err);
    }
    if (to_gguf && is_scheme(format))
        return fm_fail(err, FM_ERR_UNSUPPORTED, "GGUF has no %s: write to a .safetensors file, or choose q8_0 or q4_0",
                       format);
    if (!is_scheme(format) && (blocks || is_mix))
        return fm_fail(err, FM_ERR_UNSUPPORTED,
                       "safetensors has no %s: it is a block format of GGUF, write to a .gguf file", format);
    if (!is_scheme(format))
        return unknown(format, to_gguf, err);
    out->kind = FM_JOB_SCHEME;
    fm_status status = parse_scheme(format, words, out, err);
    if (status == FM_OK && out->scheme.scale == FM_SCALE_NONE) {
        out->kind = FM_JOB_CAST;
        out->number = out->scheme.grid == FM_GRID_E4M3 ? FM_FP8_E4M3 : FM_FP8_E5M2;
    }
    return status;
}

char *fm_target_text(const fm_target *t, char out[FM_SCHEME_TEXT_BYTES])
{
    switch (t->kind) {
    case FM_JOB_CAST:
        snprintf(out, FM_SCHEME_TEXT_BYTES, "%s", fm_number_info(t->number)->name);
        break;
    case FM_JOB_BLOCKS:
        snprintf(out, FM_SCHEME_TEXT_BYTES, "%s", t->blocks->name);
        break;
    case FM_JOB_SCHEME:
        fm_scheme_text(&t->scheme, out);
        break;
    default:
        snprintf(out, FM_SCHEME_TEXT_BYTES, "as it is");
    }
    return out;
}

// The fixtures of golden/quant made by numpy, torch and bitsandbytes: codes, scales, zero points and chosen candidates to
// the bit.
#include "golden.h"
#include "floodmark/fake_quantize.h"

static fm_scheme scheme_of(char *name) // student/int8/sym/g32/p99.9/codes
{
    char *part[8], *save = NULL;
    int n = 0;
    for (char *p = strtok_r(name, "/", &save); p && n < 8; p = strtok_r(NULL, "/", &save))
        part[n++] = p;
    fm_err err;
    fm_scheme s;
    FM_ASSERT_OK(fm_scheme_of_format(part[1], &s, &err));
    FM_ASSERT_OK(fm_scheme_set_symmetry(&s, part[2], &err));
    char word[32];
    if (part[3][0] == 'g')
        snprintf(word, sizeof word, "block:%s", part[3] + 1);
    else
        snprintf(word, sizeof word, "%s", part[3]);
    FM_ASSERT_OK(fm_scheme_set_granularity(&s, word, &err));
    snprintf(word, sizeof word, "%s%s", part[4][0] == 'p' ? "percentile:" : "",
             part[4][0] == 'p' ? part[4] + 1 : part[4]);
    FM_ASSERT_OK(fm_scheme_set_calibration(&s, word, &err));
    return s;
}

static void one_affine(const golden_file *g, const char *key)
{
    char name[256], base[256];
    snprintf(name, sizeof name, "%s", key);
    snprintf(base, sizeof base, "%.*s", (int)(strlen(key) - strlen("/codes")), key);
    fm_scheme s = scheme_of(name);
    fm_err err;
    golden_tensor x = golden_get(g, "%.*s/x", (int)strcspn(key, "/"), key), codes = golden_get(g, "%s", key);
    golden_tensor scale = golden_get(g, "%s/scale", base), zero = {0}, index = {0};
    float *values = golden_copy(x, 4);
    uint64_t gr, gc;
    fm_scheme_groups(&s, x.rows, x.cols, &gr, &gc);
    assert_int_equal(gr * gc, scale.n);
    uint8_t *got = malloc(x.n);
    fm_group_scale *scales = calloc(scale.n, sizeof *scales);
    fm_tensor_scale t = {0};
    FM_ASSERT_OK(fm_quantize_matrix(&s, x.rows, x.cols, values, NULL, got, scales, &t, &err));
    char part[300];
    snprintf(part, sizeof part, "%s/zero", base);
    bool has_zero = golden_find(g, part, &zero);
    snprintf(part, sizeof part, "%s/grid_index", base);
    bool has_index = golden_find(g, part, &index);
    for (size_t i = 0; i < scale.n; i++) {
        float want;
        memcpy(&want, (const char *)scale.data + 4 * i, 4);
        if (want != scales[i].scale)
            fail_msg("%s: scale %zu is %a, want %a", key, i, (double)scales[i].scale, (double)want);
        int32_t z = 0;
        if (has_zero)
            memcpy(&z, (const char *)zero.data + 4 * i, 4);
        if (z != scales[i].zero)
            fail_msg("%s: zero %zu is %d, want %d", key, i, scales[i].zero, z);
        if (has_index)
            assert_int_equal(((const uint8_t *)index.data)[i], scales[i].grid_index);
    }
    assert_memory_equal(got, codes.data, x.n);
    free(values);
    free(got);
    free(scales);
}

static void affine_matches_to_the_code(void **state)
{
    (void)state;
    golden_file g = golden_open("affine.safetensors");
    const char *key;
    json_t *value;
    int n = 0;
    json_object_foreach(g.header, key, value)
    {
        size_t length = strlen(key);
        if (length > 6 && strcmp(key + length - 6, "/codes") == 0) {
            one_affine(&g, key);
            n++;
        }
    }
    assert_int_equal(n, 244);
    golden_close(&g);
}

static void fake_quantize_matches_torch(void **state)
{
    (void)state;
    golden_file g = golden_open("fake_quant.safetensors");
    golden_tensor x = golden_get(&g, "x"), upstream = golden_get(&g, "upstream");
    float *values = golden_copy(x, 4), *up = golden_copy(upstream, 4), *out = malloc(4 * x.n);
    static const char *const bits[] = {"int8", "int4"}, *const symmetry[] = {"sym", "asym"},
                             *const granularity[] = {"tensor", "row", "column"};
    char path[4096];
    snprintf(path, sizeof path, "%s/golden/quant/index.json", getenv("FLOODMARK_SHARED"));
    json_t *file = json_load_file(path, 0, NULL), *index = json_object_get(file, "fake_quant");
    assert_non_null(index);
    for (int c = 0; c < 12; c++) {
        char name[64];
        snprintf(name, sizeof name, "%s/%s/%s", bits[c / 6], symmetry[c / 3 % 2], granularity[c % 3]);
        fm_err err;
        fm_scheme s;
        FM_ASSERT_OK(fm_scheme_of_format(bits[c / 6], &s, &err));
        FM_ASSERT_OK(fm_scheme_set_symmetry(&s, symmetry[c / 3 % 2], &err));
        FM_ASSERT_OK(fm_scheme_set_granularity(&s, granularity[c % 3], &err));
        golden_tensor scale = golden_get(&g, "%s/scale", name), zero = golden_get(&g, "%s/zero", name);
        fm_group_scale *scales = calloc(scale.n, sizeof *scales);
        for (size_t i = 0; i < scale.n; i++) {
            memcpy(&scales[i].scale, (const char *)scale.data + 4 * i, 4);
            memcpy(&scales[i].zero, (const char *)zero.data + 4 * i, 4);
        }
        fm_fake_quantize(&s, x.rows, x.cols, values, scales, out);
        golden_tensor forward = golden_get(&g, "%s/forward", name), grad = golden_get(&g, "%s/grad_x", name);
        float *want = golden_copy(forward, 4);
        for (size_t i = 0; i < x.n; i++)
            assert_true(out[i] == want[i]);
        free(want);
        fm_fake_quantize_grad(&s, x.rows, x.cols, values, up, scales, out);
        assert_memory_equal(out, grad.data, 4 * x.n);
        if (c / 3 % 2 == 0) {
            golden_tensor gs = golden_get(&g, "%s/learned/grad_scale", name);
            float *learned = golden_copy(gs, 4), *got = malloc(4 * gs.n);
            double factor = json_real_value(json_object_get(json_object_get(index, name), "learned_grad_factor"));
            FM_ASSERT_OK(fm_fake_quantize_grad_scale(&s, x.rows, x.cols, values, up, scales, factor, got, &err));
            for (size_t i = 0; i < gs.n; i++) // torch sums in fp32
                if (!(fabsf(got[i] - learned[i]) <= 2e-6f * fabsf(learned[i]) + 2e-5f * (float)factor))
                    fail_msg("%s: grad_scale %zu is %a, want %a", name, i, (double)got[i], (double)learned[i]);
            golden_tensor gx = golden_get(&g, "%s/learned/grad_x", name);
            assert_memory_equal(out, gx.data, 4 * x.n);
            free(learned);
            free(got);
        }
        free(scales);
    }
    json_decref(file);
    free(values);
    free(up);
    free(out);
    golden_close(&g);
}

static uint8_t nibble(const uint8_t *packed, size_t i)
{
    return i % 2 ? packed[i / 2] & 15 : packed[i / 2] >> 4;
}

// codes and absmax to the bit; with double quantization the mean may be an ulp off torch's fp32 sum, and where
// bitsandbytes' lookup of the 8-bit code differs from the nearest value, ours must be the nearer one.
static void one_bitsandbytes(const golden_file *g, const golden_file *inputs, const char *tensor, const char *format,
                             unsigned block)
{
    fm_err err;
    fm_scheme s;
    char word[32];
    golden_tensor x = golden_get(inputs, "%s", tensor);
    golden_tensor packed = golden_get(g, "%s/%s/b%u/packed", tensor, format, block);
    golden_tensor absmax = golden_get(g, "%s/%s/b%u/absmax", tensor, format, block);
    float *values = golden_copy(x, 4), *want = golden_copy(absmax, 4);
    uint8_t *codes = malloc(x.n);
    fm_group_scale *scales = calloc(absmax.n, sizeof *scales);
    float scale2[64];
    fm_tensor_scale t = {.scale2 = scale2};
    FM_ASSERT_OK(fm_scheme_of_format(format, &s, &err));
    snprintf(word, sizeof word, "flat:%u", block);
    FM_ASSERT_OK(fm_scheme_set_granularity(&s, word, &err));
    for (int twice = 0; twice < 2; twice++) {
        FM_ASSERT_OK(fm_scheme_set_scale(&s, twice ? "double" : "fp32", &err));
        FM_ASSERT_OK(fm_quantize_matrix(&s, x.rows, x.cols, values, NULL, codes, scales, &t, &err));
        for (size_t i = 0; i < x.n; i++)
            assert_int_equal(codes[i], nibble(packed.data, i));
        for (size_t i = 0; i < absmax.n; i++)
            assert_true(scales[i].raw_scale == want[i]);
    }
    golden_tensor offset = golden_get(g, "%s/%s/b%u/double/offset", tensor, format, block);
    golden_tensor coded = golden_get(g, "%s/%s/b%u/double/absmax", tensor, format, block);
    golden_tensor outer = golden_get(g, "%s/%s/b%u/double/absmax2", tensor, format, block);
    float mean, table[256], second;
    memcpy(&mean, offset.data, 4);
    assert_true(fabsf(mean - t.offset) <= 0x1p-22f * fabsf(mean));
    FM_ASSERT_OK(fm_grid_values(FM_GRID_DYNAMIC8, table, &err));
    for (size_t i = 0; i < absmax.n; i++) {
        uint8_t theirs = ((const uint8_t *)coded.data)[i];
        memcpy(&second, (const char *)outer.data + i / 256 * 4, 4);
        assert_true(fabsf(second - scale2[i / 256]) <= 0x1p-21f * fabsf(mean));
        float exact = want[i] - mean, ours = fabsf(table[scales[i].code] * second - exact);
        if (scales[i].code != theirs)
            assert_true(ours <= fabsf(table[theirs] * second - exact) + 0x1p-21f * fabsf(mean));
    }
    golden_tensor decoded;
    char name[128];
    snprintf(name, sizeof name, "%s/%s/b%u/dequant", tensor, format, block);
    if (golden_find(g, name, &decoded)) {
        float *out = malloc(4 * x.n), *back = golden_copy(decoded, 4);
        FM_ASSERT_OK(fm_scheme_set_scale(&s, "fp32", &err));
        FM_ASSERT_OK(fm_quantize_matrix(&s, x.rows, x.cols, values, NULL, codes, scales, &t, &err));
        fm_quantize_decode(&s, 1, x.n, codes, scales, out);
        for (size_t i = 0; i < x.n; i++)
            assert_true(out[i] == back[i]);
        free(out);
        free(back);
    }
    free(values);
    free(want);
    free(codes);
    free(scales);
}

static void bitsandbytes_matches(void **state)
{
    (void)state;
    golden_file g = golden_open("bitsandbytes.safetensors"), inputs = golden_open("inputs.safetensors");
    static const char *const tensors[] = {"normal", "student", "outlier_cols", "row100", "zeros", "const"};
    for (int i = 0; i < 6; i++)
        for (int f = 0; f < 2; f++)
            for (unsigned block = 64; block <= 128; block *= 2)
                one_bitsandbytes(&g, &inputs, tensors[i], f ? "fp4" : "nf4", block);
    float table[256];
    fm_err err;
    static const fm_grid grids[] = {FM_GRID_NF4, FM_GRID_FP4, FM_GRID_DYNAMIC8};
    for (int i = 0; i < 3; i++) {
        FM_ASSERT_OK(fm_grid_values(grids[i], table, &err));
        golden_tensor want = golden_get(&g, "table/%s", fm_grid_name(grids[i]));
        float *w = golden_copy(want, 4);
        for (size_t j = 0; j < want.n; j++)
            assert_true(table[j] == w[j]);
        free(w);
    }
    golden_close(&g);
    golden_close(&inputs);
}

// bitsandbytes' int8 by the dynamic table goes through a lookup that is not always the nearest; ours is never farther.
static void dynamic8_is_never_farther(void **state)
{
    (void)state;
    golden_file g = golden_open("bitsandbytes.safetensors"), inputs = golden_open("inputs.safetensors");
    static const char *const tensors[] = {"normal", "student", "outlier_cols", "row100", "const"};
    float table[256];
    fm_err err;
    FM_ASSERT_OK(fm_grid_values(FM_GRID_DYNAMIC8, table, &err));
    size_t differing = 0, total = 0;
    for (int i = 0; i < 5; i++) {
        golden_tensor x = golden_get(&inputs, "%s", tensors[i]);
        golden_tensor theirs = golden_get(&g, "%s/int8_dynamic/b64/codes", tensors[i]);
        float *values = golden_copy(x, 4);
        uint8_t *codes = malloc(x.n);
        fm_group_scale *scales = calloc(x.n / 64 + 1, sizeof *scales);
        fm_tensor_scale t = {0};
        fm_scheme s;
        FM_ASSERT_OK(fm_scheme_of_format("dynamic8", &s, &err));
        FM_ASSERT_OK(fm_scheme_set_granularity(&s, "flat:64", &err));
        FM_ASSERT_OK(fm_quantize_matrix(&s, x.rows, x.cols, values, NULL, codes, scales, &t, &err));
        for (size_t j = 0; j < x.n; j++) {
            uint8_t their = ((const uint8_t *)theirs.data)[j];
            float scale = scales[j / 64].scale;
            differing += codes[j] != their;
            assert_true(fabsf(table[codes[j]] * scale - values[j]) <=
                        fabsf(table[their] * scale - values[j]) * 1.0001f);
        }
        total += x.n;
        free(values);
        free(codes);
        free(scales);
    }
    assert_true(differing * 200 < total);
    golden_close(&g);
    golden_close(&inputs);
}

int main(void)
{
    if (!fm_test_shared())
        return FM_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(affine_matches_to_the_code), cmocka_unit_test(fake_quantize_matches_torch),
        cmocka_unit_test(bitsandbytes_matches), cmocka_unit_test(dynamic8_is_never_farther)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

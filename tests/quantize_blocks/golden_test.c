// ggml's blocks: decoded bit for bit; encoded byte for byte where the format is exact; and where it is a matter of
// quality, the squared error on every tensor singly within 0.5 % of ggml's. Every instruction set that runs here.
// FLOODMARK_BLOCK_REPORT=1 prints the ratio of every tensor.
#include <math.h>
#include "golden.h"
#include "floodmark/block_format.h"
#include "quantize/blocks/kernels.h"

static golden_file inputs, bytes, decoded;

static int set_up(void **state)
{
    (void)state;
    inputs = golden_open("inputs.safetensors");
    bytes = golden_open("bytes.safetensors");
    decoded = golden_open("decoded.safetensors");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    golden_close(&inputs);
    golden_close(&bytes);
    golden_close(&decoded);
    return 0;
}

static const fm_block_format *format_of(const char *upper)
{
    char name[16];
    size_t i = 0;
    for (; upper[i] && upper[i] != '/' && i < 15; i++)
        name[i] = (char)(upper[i] >= 'A' && upper[i] <= 'Z' ? upper[i] + 32 : upper[i]);
    name[i] = 0;
    return fm_block_format_by_name(name);
}

static bool same_floats(size_t n, const float *a, const float *b)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, 4) && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

// Every tensor of decoded.safetensors.
static void decodes_bit_for_bit(void **state)
{
    (void)state;
    unsigned n_checked = 0;
    for (const char *at = decoded.header; (at = strstr(at, "\":{\"dtype\"")); at++) {
        const char *begin = at;
        while (begin[-1] != '"')
            begin--;
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)(at - begin), begin);
        const fm_block_format *f = format_of(strncmp(name, "random/", 7) ? name : name + 7);
        assert_non_null(f);
        golden_tensor want, in;
        assert_true(golden_find(&decoded, name, &want) && golden_find(&bytes, name, &in));
        size_t n = want.rows * want.cols;
        float *expected = malloc(n * 4), *got = malloc(n * 4);
        memcpy(expected, want.bytes, n * 4);
        for (int level = 0; level <= FM_CPU_AVX512; level++) {
            fm_block_kernels k;
            if (!fm_block_kernels_at((fm_cpu_level)level, f->type, &k))
                continue;
            memset(got, 0xcc, n * 4);
            k.decode(n / f->block_elems, in.bytes, got);
            if (!same_floats(n, expected, got))
                fail_msg("%s at %s: decoded values differ", name, fm_cpu_level_name((fm_cpu_level)level));
            n_checked++;
        }
        free(expected);
        free(got);
    }
    assert_true(n_checked >= 58);
}

// sqrt(sum w e^2 / sum w), w over columns or 1.
static double weighted_rmse(const golden_tensor *x, const float *v, const float *y, const float *w)
{
    double sum = 0, weights = 0;
    for (size_t i = 0; i < x->rows * x->cols; i++) {
        double e = (double)y[i] - v[i], wi = w ? w[i % x->cols] : 1;
        sum += wi * e * e;
        weights += wi;
    }
    return sqrt(sum / weights);
}

static void check_line(const char *type, const char *tensor, bool exact, const char *quality, bool report)
{
    const fm_block_format *f = format_of(type);
    char name[128], base[64], weights_name[80];
    golden_tensor x, want, w = {0};
    assert_non_null(f);
    snprintf(base, sizeof base, "%.*s", (int)strcspn(tensor, "/"), tensor);
    snprintf(name, sizeof name, "%s/%s", type, tensor);
    snprintf(weights_name, sizeof weights_name, "imatrix/%s", base);
    assert_true(golden_find(&inputs, base, &x) && golden_find(&bytes, name, &want));
    if (strchr(tensor, '/'))
        assert_true(golden_find(&bytes, weights_name, &w));
    size_t n = x.rows * x.cols, n_bytes = want.rows * want.cols;
    float *v = malloc(n * 4), *y = malloc(n * 4), *wv = w.bytes ? malloc(x.cols * 4) : NULL;
    uint8_t *out = malloc(n_bytes);
    memcpy(v, x.bytes, n * 4);
    if (wv)
        memcpy(wv, w.bytes, x.cols * 4);
    for (int level = 0; level <= FM_CPU_AVX512; level++) {
        fm_block_kernels k;
        if (!fm_block_kernels_at((fm_cpu_level)level, f->type, &k))
            continue;
        memset(out, 0xcc, n_bytes);
        for (size_t r = 0; r < x.rows; r++)
            (wv ? k.encode_weighted : k.encode)(x.cols / f->block_elems, v + r * x.cols, wv, out + r * want.cols);
        if (exact && memcmp(out, want.bytes, n_bytes)) {
            size_t i = 0;
            while (out[i] == ((const uint8_t *)want.bytes)[i])
                i++;
            fail_msg("%s at %s: byte %zu is %02x, not %02x", name, fm_cpu_level_name((fm_cpu_level)level), i, out[i],
                     ((const uint8_t *)want.bytes)[i]);
        }
        k.decode(n / f->block_elems, out, y);
        if (*quality != '-') {
            double limit = strtod(quality, NULL), rmse = weighted_rmse(&x, v, y, wv);
            if (report && level == 0)
                printf("%-24s ggml %-12.6g ours %-12.6g ratio %.4f\n", name, limit, rmse, limit > 0 ? rmse / limit : 1);
            if (!(rmse <= 1.005 * limit) && !report)
                fail_msg("%s at %s: rmse %.6g, ggml's %.6g", name, fm_cpu_level_name((fm_cpu_level)level), rmse, limit);
        }
    }
    free(v);
    free(y);
    free(wv);
    free(out);
}

static void encodes_as_well_as_ggml(void **state)
{
    (void)state;
    char path[4096], line[256], type[16], tensor[64], worth[16], quality[64];
    FILE *f = fopen(golden_path("quality.txt", path), "r");
    assert_non_null(f);
    unsigned n_lines = 0;
    const char *report = getenv("FLOODMARK_BLOCK_REPORT");
    while (fgets(line, sizeof line, f)) {
        assert_int_equal(sscanf(line, "%15s %63s %15s %63s", type, tensor, worth, quality), 4);
        check_line(type, tensor, !strcmp(worth, "exact"), quality, report != NULL);
        n_lines++;
    }
    fclose(f);
    assert_int_equal(n_lines, 223);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decodes_bit_for_bit),
                                       cmocka_unit_test(encodes_as_well_as_ggml)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

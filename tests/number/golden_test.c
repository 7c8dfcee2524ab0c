// Every code decoded and 19,464 fp32 patterns encoded as ml_dtypes, numpy and PyTorch do it: ../shared/golden/numbers,
// or the subset of it in tests/golden/numbers (see the README there). NaN is compared as NaN, the zeros by sign.
#include "testing.h"
#include "floodmark/convert.h"
#include "number/inline.h"

static char folder[4096];
static bool has_all; // the whole fixture, not the subset
static unsigned n_files;

typedef struct {
    size_t n_bytes;
    unsigned char *bytes;
} blob;

// The file; nothing when it is `optional` or the subset lacks it.
static blob load(const char *name, bool optional)
{
    char path[4352];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f) {
        if (has_all && !optional)
            fail_msg("%s: cannot be read", path);
        return (blob){0};
    }
    blob b = {0, malloc(1 << 20)};
    assert_non_null(b.bytes);
    b.n_bytes = fread(b.bytes, 1, 1 << 20, f);
    fclose(f);
    n_files++;
    return b;
}

static uint32_t element(const blob *b, size_t bytes, size_t i)
{
    uint32_t u = 0;
    memcpy(&u, b->bytes + i * bytes, bytes); // little endian, as the fixtures are
    return u;
}

static bool same_value(float a, float b)
{
    return a != a ? b != b : fm_bits_of_f32(a) == fm_bits_of_f32(b);
}

// A code names the same thing: the same code, or both NaN.
static bool same_code(fm_number type, uint32_t a, uint32_t b)
{
    return a == b ||
           (fm_number_info(type)->has_nan && same_value(fm_number_decode(type, a), fm_number_decode(type, b)) &&
            fm_number_decode(type, a) != fm_number_decode(type, a));
}

static const struct {
    fm_number type;
    const char *file;
} formats[] = {{FM_FP16, "fp16"},
               {FM_BF16, "bf16"},
               {FM_FP8_E4M3, "e4m3fn"},
               {FM_FP8_E5M2, "e5m2"},
               {FM_FP8_E4M3FNUZ, "e4m3fnuz"},
               {FM_FP8_E5M2FNUZ, "e5m2fnuz"},
               {FM_FP6_E2M3, "e2m3fn"},
               {FM_FP6_E3M2, "e3m2fn"},
               {FM_FP4_E2M1, "e2m1fn"},
               {FM_E8M0, "e8m0fnu"}};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static void decode_all(fm_number type, const char *name, bool optional)
{
    blob want = load(name, optional);
    if (!want.bytes)
        return;
    size_t n = (size_t)1 << fm_number_info(type)->bits;
    assert_int_equal(want.n_bytes, 4 * n);
    uint16_t *codes = malloc(2 * n); // or bytes, in the same room
    float *got = malloc(4 * n);
    assert_true(codes && got);
    for (size_t c = 0; c < n; c++) {
        if (fm_number_info(type)->storage_bytes == 2)
            codes[c] = (uint16_t)c;
        else
            ((uint8_t *)codes)[c] = (uint8_t)c;
    }
    fm_decode_f32(type, n, codes, got);
    for (size_t c = 0; c < n; c++) {
        float w = fm_f32_of_bits(element(&want, 4, c));
        if (!same_value(w, got[c]) || !same_value(w, fm_number_decode(type, (uint32_t)c)))
            fail_msg("%s: code 0x%zx decodes to %08x, not %08x", name, c, fm_bits_of_f32(got[c]), fm_bits_of_f32(w));
    }
    free(codes);
    free(got);
    free(want.bytes);
}

static void decodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORMATS; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.decode.u32.bin", formats[i].file);
        decode_all(formats[i].type, name, false);
        snprintf(name, sizeof name, "%s.decode_torch.u32.bin", formats[i].file); // where torch differs
        decode_all(formats[i].type, name, true);
    }
}

static void encode_all(fm_number type, const char *name, const fm_encoding *how)
{
    blob inputs = load("encode_inputs.u32.bin", false), want = load(name, false);
    if (!want.bytes) {
        free(inputs.bytes);
        return;
    }
    size_t n = inputs.n_bytes / 4, bytes = fm_number_info(type)->storage_bytes;
    assert_int_equal(n, 19464);
    assert_int_equal(want.n_bytes, n * bytes);
    blob got = {n * bytes, malloc(n * bytes)};
    assert_non_null(got.bytes);
    fm_encode_f32(type, how, n, (const float *)(const void *)inputs.bytes, got.bytes, NULL);
    for (size_t i = 0; i < n; i++) {
        uint32_t w = element(&want, bytes, i), g = element(&got, bytes, i);
        uint32_t single = fm_number_encode(type, fm_f32_of_bits(element(&inputs, 4, i)), how);
        if (!same_code(type, w, g) || single != g)
            fail_msg("%s: %08x encodes to 0x%x (singly 0x%x), not 0x%x", name, element(&inputs, 4, i), g, single, w);
    }
    free(inputs.bytes);
    free(want.bytes);
    free(got.bytes);
}

static void encodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORMATS; i++) {
        fm_number type = formats[i].type;
        char name[64];
        unsigned bits = 8u * fm_number_info(type)->storage_bytes;
        snprintf(name, sizeof name, "%s.encode.u%u.bin", formats[i].file, bits);
        encode_all(type, name, &(fm_encoding){0});
        if (fm_number_info(type)->overflow == FM_OVERFLOW_SATURATE)
            continue; // the index: the same as encode
        snprintf(name, sizeof name, "%s.encode_saturating.u%u.bin", formats[i].file, bits);
        encode_all(type, name, &(fm_encoding){.saturate = true});
    }
}

// torch's casts differ from ml_dtypes' in NaN patterns alone, but for E4M3, which saturates. (E8M0's drops signs: not
// offered.)
static void encodes_as_torch(void **state)
{
    (void)state;
    encode_all(FM_FP16, "fp16.encode_torch.u16.bin", &(fm_encoding){0});
    encode_all(FM_BF16, "bf16.encode_torch.u16.bin", &(fm_encoding){0});
    encode_all(FM_FP8_E5M2, "e5m2.encode_torch.u8.bin", &(fm_encoding){0});
    encode_all(FM_FP8_E4M3, "e4m3fn.encode_torch.u8.bin", &(fm_encoding){.saturate = true});
}

static void encodes_e8m0_and_tf32_by_name(void **state)
{
    (void)state;
    fm_err err;
    static const struct {
        fm_number type;
        const char *rounding, *file;
    } rows[] = {{FM_E8M0, "nearest", "e8m0fnu.encode.u8.bin"},   {FM_E8M0, "floor", "e8m0fnu.encode_floor.u8.bin"},
                {FM_E8M0, "ceil", "e8m0fnu.encode_ceil.u8.bin"}, {FM_TF32, "rne", "tf32.encode_rne.u32.bin"},
                {FM_TF32, "rna", "tf32.encode_rna.u32.bin"},     {FM_TF32, "rz", "tf32.encode_rz.u32.bin"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fm_encoding how = {0};
        FM_ASSERT_OK(fm_rounding_find(rows[i].rounding, &how.rounding, &err));
        encode_all(rows[i].type, rows[i].file, &how);
    }
}

int main(void)
{
    const char *shared = fm_test_shared(), *source = getenv("FLOODMARK_SOURCE");
    if (shared) {
        snprintf(folder, sizeof folder, "%s/golden/numbers", shared);
        has_all = true;
    } else {
        printf("using the subset in tests/golden/numbers instead\n");
        snprintf(folder, sizeof folder, "%s/tests/golden/numbers", source ? source : ".");
        has_all = false;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes),
        cmocka_unit_test(encodes),
        cmocka_unit_test(encodes_as_torch),
        cmocka_unit_test(encodes_e8m0_and_tf32_by_name),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    printf("%u files of %s\n", n_files, folder);
    return failed ? 1 : n_files ? 0 : FM_TEST_SKIPPED;
}

// Machines: the spelling, the catalogue, files, and what is refused.

#include "testing.h"

#include <unistd.h>
#include "floodmark/machine.h"

static void test_spelling(void **state)
{
    (void)state;
    fm_machine m;
    fm_err err;
    assert_int_equal(fm_machine_parse("2x8xH100-80GB", &m, &err), FM_OK);
    assert_int_equal(m.nodes, 2);
    assert_int_equal(m.gpus_per_node, 8);
    assert_int_equal(m.world, 16);
    assert_string_equal(m.text, "2x8xH100-80GB");
    assert_string_equal(m.gpu.name, "H100-80GB");
    assert_true(m.intra_bytes_per_s > m.inter_bytes_per_s);
    assert_true(m.host_bytes > m.gpu.memory_bytes * 8);
    assert_false(m.host_stated);

    assert_int_equal(fm_machine_parse("8xa100-80gb", &m, &err), FM_OK);
    assert_string_equal(m.text, "1x8xA100-80GB");
    assert_int_equal(fm_machine_parse("H200", &m, &err), FM_OK);
    assert_string_equal(m.text, "1x1xH200-141GB");
    assert_int_equal(fm_machine_parse("1x4xcpu", &m, &err), FM_OK);
    assert_int_equal(m.world, 4);
    assert_true(m.gpu.memory_bytes > 0);
    assert_true(m.gpu.memory_bytes * 4 <= m.host_bytes + 4);
    assert_int_equal(fm_machine_parse("RTX3090-24GB", &m, &err), FM_OK);
    assert_int_equal(m.gpu.capability, 86);
}

// Each refused with a message that holds the given words; the machine is untouched.
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
        fm_status status;
    } cases[] = {
        {"", "NODESxGPUSxNAME", FM_ERR_VALUE},
        {"8", "NODESxGPUSxNAME", FM_ERR_VALUE},
        {"8x", "NODESxGPUSxNAME", FM_ERR_VALUE},
        {"0x8xH100-80GB", "0 nodes", FM_ERR_VALUE},
        {"2x0xH100-80GB", "0 GPUs", FM_ERR_VALUE},
        {"-1x8xH100-80GB", "NODESxGPUSxNAME", FM_ERR_VALUE},
        {"1x2x3xH100-80GB", "NODESxGPUSxNAME", FM_ERR_VALUE},
        {"99999999999999999999x8xH100-80GB", "more than", FM_ERR_OVERFLOW},
        {"1000000x1000000xH100-80GB", "more than", FM_ERR_OVERFLOW},
        {"8xH100-80G", "did you mean H100-80GB", FM_ERR_NOT_FOUND},
        {"8xA100", "A100-40GB or A100-80GB", FM_ERR_NOT_FOUND},
        {"8xnothing-like-it", "unknown GPU", FM_ERR_NOT_FOUND},
        {"no/such/file.json", "no/such/file.json", FM_ERR_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fm_machine m = {.world = 77};
        fm_err err = {0};
        fm_status status = fm_machine_parse(cases[i].text, &m, &err);
        if (status != cases[i].status || !strstr(err.message, cases[i].words))
            fail_msg("\"%s\": status %d, %s", cases[i].text, status, err.message);
        assert_int_equal(m.world, 77);
    }
}

static void test_catalogue(void **state)
{
    (void)state;
    for (size_t i = 0; i < fm_gpu_count(); i++) {
        const fm_gpu *gpu = fm_gpu_at(i);
        unsigned nominal = 0;
        const char *dash = strrchr(gpu->name, '-');
        assert_non_null(dash);
        assert_int_equal(sscanf(dash, "-%uGB", &nominal), 1);
        // What the framework sees lies a little below the name's GiB, never above it, never less than nine tenths of
        // its GB.
        if (gpu->memory_bytes > (uint64_t)nominal << 30 || gpu->memory_bytes * 10 < (uint64_t)nominal * 9000000000)
            fail_msg("%s: %llu bytes", gpu->name, (unsigned long long)gpu->memory_bytes);
        assert_true(gpu->memory_bytes_per_s > 1e11);
        assert_true(gpu->flops[FM_RATE_FP32] > 1e12 && gpu->flops[FM_RATE_FP16] > 1e12);
        assert_true(gpu->network_bytes_per_s > 1e9 && gpu->host_link_bytes_per_s > 1e10);
        assert_true(strlen(gpu->source) > 20);
        assert_ptr_equal(fm_gpu_find(gpu->name), gpu);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(fm_gpu_at(k)->name, gpu->name);
    }
    static const char *const named[] = {"A100-80GB",  "A100-40GB",    "A10G-24GB",    "H100-80GB",
                                        "H100-96GB",  "RTX3090-24GB", "RTX4090-24GB", "MI300X-192GB",
                                        "B200-180GB", "V100-16GB",    "V100-32GB"};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        assert_non_null(fm_gpu_find(named[i]));
    assert_null(fm_gpu_at(fm_gpu_count()));
}

static fm_status parse_file(const char *text, fm_machine *m, fm_err *err)
{
    char path[] = "/tmp/fm-machine-XXXXXX.json";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    fm_status status = fm_machine_parse(path, m, err);
    unlink(path);
    return status;
}

static void test_files(void **state)
{
    (void)state;
    fm_machine m;
    fm_err err;
    assert_int_equal(
        parse_file("{\"nodes\": 4, \"gpus_per_node\": 2, \"gpu\": \"A100-40GB\", \"host_bytes\": \"256GiB\","
                   " \"inter_bytes_per_s\": 1.25e9}",
                   &m, &err),
        FM_OK);
    assert_int_equal(m.world, 8);
    assert_true(m.host_stated);
    assert_true(m.host_bytes == (uint64_t)256 << 30);
    assert_true(m.inter_bytes_per_s > 1.2e9 && m.inter_bytes_per_s < 1.3e9);
    assert_int_equal(parse_file("{\"gpu\": {\"name\": \"X1\", \"like\": \"H100-80GB\", \"memory_bytes\": 1000000000,"
                                " \"flops\": {\"bf16\": 1e15}}}",
                                &m, &err),
                     FM_OK);
    assert_string_equal(m.text, "1x1xX1");
    assert_int_equal(m.gpu.memory_bytes, 1000000000);
    assert_int_equal(m.gpu.capability, 90);
    assert_true(m.gpu.flops[FM_RATE_BF16] > 0.99e15);

    static const char *const bad[][2] = {
        {"[]", "must be an object"},
        {"{}", "gpu"},
        {"{\"gpu\": \"A100-40G\"}", "did you mean"},
        {"{\"gpu\": \"itself.json\"}", "unknown GPU"},
        {"{\"gpu\": {\"like\": \"/tmp/x.json\"}}", "unknown GPU"},
        {"{\"gpu\": {}}", "memory_bytes"},
        {"{\"gpu\": {\"memory_bytes\": -1}}", "memory_bytes"},
        {"{\"gpu\": {\"memory_bytes\": \"80 parsecs\"}}", "memory_bytes"},
        {"{\"gpu\": {\"memory_byte\": 1}}", "did you mean memory_bytes"},
        {"{\"gpu\": {\"memory_bytes\": 1, \"flops\": {\"bf17\": 1}}}", "did you mean bf16"},
        {"{\"gpu\": {\"memory_bytes\": 1, \"flops\": 3}}", "flops"},
        {"{\"gpu\": {\"memory_bytes\": 1, \"memory_bytes_per_s\": -3}}", "0 or more"},
        {"{\"gpu\": {\"memory_bytes\": 18446744073709551615}, \"gpus_per_node\": 8}", "64 bits"},
        {"{\"gpu\": \"A100-40GB\", \"nodes\": 0}", "at least 1"},
        {"{\"gpu\": \"A100-40GB\", \"nodes\": 9223372036854775807, \"gpus_per_node\": 9223372036854775807}",
         "not planned"},
        {"{\"gpu\": \"A100-40GB\", \"node\": 1}", "did you mean nodes"},
        {"{\"gpu\": \"A100-40GB\"", "line"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        m = (fm_machine){.world = 77};
        memset(&err, 0, sizeof err);
        fm_status status = parse_file(bad[i][0], &m, &err);
        if (status == FM_OK || !strstr(err.message, bad[i][1]) || !strstr(err.message, "fm-machine-"))
            fail_msg("%s: status %d, %s", bad[i][0], status, err.message);
        assert_int_equal(m.world, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spelling),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_catalogue),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

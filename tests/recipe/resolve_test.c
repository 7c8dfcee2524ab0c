// Resolve: defaults with their origins, presets per engine, contradictions, what comes later, files there and back.
#include "testing.h"
#include <unistd.h>
#include "floodmark/machine.h"
#include "floodmark/recipe.h"

static fm_recipe_site site_of(const fm_machine *m)
{
    return (fm_recipe_site){.machine = m->text, .gpu = m->gpu.name, .world = m->world, .capability = m->gpu.capability};
}

// Sets "name=value" words and resolves on a machine.
static fm_status resolve(const char *on, const char *settings, fm_recipe *out, fm_err *err)
{
    fm_machine machine;
    fm_recipe r;
    char copy[512];
    fm_recipe_init(&r);
    assert_int_equal(fm_machine_parse(on, &machine, err), FM_OK);
    snprintf(copy, sizeof copy, "%s", settings);
    for (char *rest = copy, *word; (word = strtok_r(rest, " ", &rest));) {
        char *equals = strchr(word, '=');
        assert_non_null(equals);
        *equals = 0;
        fm_status status = fm_recipe_set_named(&r, word, equals + 1, FM_ORIGIN_USER, err);
        if (status)
            return status;
    }
    fm_recipe_site site = site_of(&machine);
    return fm_recipe_resolve(&r, &site, out, err);
}

static void test_defaults(void **state)
{
    (void)state;
    fm_recipe r;
    fm_err err_record = {0}, *err = &err_record;
    assert_int_equal(resolve("H100-80GB", "", &r, err), FM_OK);
    assert_int_equal(r.engine, FM_ENGINE_SINGLE);
    assert_int_equal(r.how, FM_HOW_AUTOCAST);
    assert_int_equal(r.wrap, FM_WRAP_NONE);
    assert_int_equal(r.world, 1);
    assert_int_equal(resolve("2x8xH100-80GB", "replicate=2", &r, err), FM_OK);
    assert_int_equal(r.engine, FM_ENGINE_FSDP2);
    assert_int_equal(r.param, FM_PRECISION_FP32);
    assert_int_equal(r.compute, FM_PRECISION_BF16);
    assert_int_equal(r.how, FM_HOW_POLICY);
    assert_int_equal(r.reduce, FM_PRECISION_FP32);
    assert_int_equal(r.reshard, FM_RESHARD_YES);
    assert_int_equal(r.wrap, FM_WRAP_BLOCK);
    assert_int_equal(r.dp, 16);
    assert_int_equal(r.shard, 8);
    assert_int_equal(r.prefetch, FM_OWN);
    assert_true(r.clip < 0);
    assert_int_equal(r.n_warnings, 0);
    for (int f = 0; f < FM_N_FIELDS; f++)
        if (r.origin[f] == FM_ORIGIN_EMPTY)
            fail_msg("%s is empty", fm_field_name((fm_field)f));
    assert_int_equal(r.origin[FM_FIELD_REPLICATE], FM_ORIGIN_USER);
    assert_int_equal(r.origin[FM_FIELD_ATTENTION], FM_ORIGIN_STACK);
    assert_int_equal(r.origin[FM_FIELD_HOW], FM_ORIGIN_ENGINE);
}

static void check_types(const char *on, const char *settings, const char *types)
{
    fm_recipe r;
    fm_err err = {0};
    FM_ASSERT_OK(resolve(on, settings, &r, &err));
    static const fm_field shown[] = {FM_FIELD_PARAM, FM_FIELD_COMPUTE, FM_FIELD_HOW,  FM_FIELD_REDUCE,
                                     FM_FIELD_GRAD,  FM_FIELD_MASTER,  FM_FIELD_STATE};
    char line[256] = "", text[64];
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        strcat(line, i ? " " : "");
        strcat(line, fm_recipe_text(&r, shown[i], text, sizeof text));
    }
    assert_string_equal(line, types);
}

static void test_precision(void **state)
{
    (void)state;
    const char *one = "A100-80GB", *eight = "8xA100-80GB";
    //                                                 param compute how reduce grad master state
    check_types(one, "precision=bf16", "bf16 bf16 none bf16 bf16 none bf16");
    check_types(one, "precision=fp32", "fp32 fp32 none fp32 fp32 none fp32");
    check_types(one, "precision=bf16-mixed", "fp32 bf16 autocast fp32 fp32 none fp32");
    check_types(eight, "precision=bf16-mixed", "fp32 bf16 policy fp32 fp32 none fp32");
    check_types(eight, "precision=bf16-mixed reduce=bf16", "fp32 bf16 policy bf16 fp32 none fp32");
    check_types(eight, "engine=ddp precision=amp", "fp32 bf16 autocast fp32 fp32 none fp32");
    check_types(eight, "precision=amp", "fp32 bf16 autocast fp32 fp32 none fp32");
    check_types(one, "param=bf16", "bf16 bf16 none bf16 bf16 none bf16");
    check_types(one, "compute=fp32", "fp32 fp32 none fp32 fp32 none fp32");
    check_types(one, "how=none compute=fp16", "fp16 fp16 none fp16 fp16 none fp16");
    check_types(eight, "param=fp32 compute=bf16 how=policy", "fp32 bf16 policy bf16 fp32 none fp32");
    check_types(eight, "optimizer=sgd", "fp32 bf16 policy fp32 fp32 none none");
    // State arithmetic: fp32 moments for fp16 parameters; fp16 weights with fp32 master weights.
    check_types(eight, "param=fp16 state=fp32", "fp16 fp16 none fp16 fp16 none fp32");
    check_types(one, "precision=fp16 state=fp32", "fp16 fp16 none fp16 fp16 none fp32");
    check_types(one, "param=fp16 master=fp32", "fp16 fp16 master fp16 fp16 fp32 fp32");
    fm_recipe r;
    fm_err err = {0};
    FM_ASSERT_OK(resolve(one, "param=fp16 state=fp32", &r, &err));
    assert_true(r.state_arithmetic);
    assert_int_equal(r.n_warnings, 1);
    assert_non_null(strstr(r.warning[0], "no stock optimizer"));
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *on, *settings, *words;
        fm_status status;
    } cases[] = {
        {"8xA100-80GB", "tp=3", "not divisible by tp 3", FM_ERR_CONFLICT},
        {"8xA100-80GB", "tp=2 pp=2 cp=2 replicate=2", "more ranks than", FM_ERR_CONFLICT},
        {"8xA100-80GB", "tp=1000000000 pp=1000000000 cp=1000000000", "more ranks than", FM_ERR_CONFLICT},
        {"8xA100-80GB", "replicate=3", "not divisible", FM_ERR_CONFLICT},
        {"8xA100-80GB", "tp=2", "tp 2 comes later", FM_ERR_LATER},
        {"8xA100-80GB", "engine=zero3", "engine zero3 comes later; planned now: single, ddp, fsdp1, fsdp2",
         FM_ERR_LATER},
        {"8xA100-80GB", "stack=torchtitan", "stack torchtitan comes later", FM_ERR_LATER},
        {"8xA100-80GB", "lora_rank=16", "lora_rank", FM_ERR_LATER},
        {"8xA100-80GB", "base=nf4", "base nf4 comes later", FM_ERR_LATER},
        {"8xA100-80GB", "checkpoint=selective:2", "selective:2 comes later", FM_ERR_LATER},
        {"8xA100-80GB", "attention=flex", "attention flex comes later", FM_ERR_LATER},
        {"8xA100-80GB", "mask=padding", "mask padding comes later", FM_ERR_LATER},
        {"8xA100-80GB", "loss=fused", "loss fused comes later", FM_ERR_LATER},
        {"8xA100-80GB", "optimizer=lion", "optimizer lion comes later", FM_ERR_LATER},
        {"8xA100-80GB", "metric=reserved", "metric reserved comes later", FM_ERR_LATER},
        {"8xA100-80GB", "state=bf16 param=fp32", "state bf16", FM_ERR_LATER},
        {"8xA100-80GB", "state=int8", "state int8 comes later", FM_ERR_LATER},
        {"8xA100-80GB", "grad=bf16", "grad bf16", FM_ERR_LATER},
        {"8xA100-80GB", "offload=activations", "comes later", FM_ERR_LATER},
        {"8xA100-80GB", "engine=fsdp1 wrap=accelerate", "comes later", FM_ERR_LATER},
        {"8xA100-80GB", "engine_options=a=1", "comes later", FM_ERR_LATER},
        {"8xA100-80GB", "engine=single", "runs on one GPU", FM_ERR_CONFLICT},
        {"A100-80GB", "offload=params", "engine single", FM_ERR_CONFLICT},
        {"A100-80GB", "how=policy", "FSDP's", FM_ERR_CONFLICT},
        {"8xA100-80GB", "engine=ddp how=policy", "FSDP's", FM_ERR_CONFLICT},
        {"8xA100-80GB", "engine=ddp wrap=block", "gathers no units", FM_ERR_CONFLICT},
        {"A100-80GB", "param=fp32 compute=bf16 how=none", "converts nothing", FM_ERR_CONFLICT},
        {"A100-80GB", "how=autocast compute=fp32", "not in fp32", FM_ERR_CONFLICT},
        {"A100-80GB", "master=fp32 param=fp32", "same weights twice", FM_ERR_CONFLICT},
        {"A100-80GB", "sync=last-keep", "fsdp2", FM_ERR_CONFLICT},
        {"A100-80GB", "prefetch=2", "gathers nothing", FM_ERR_CONFLICT},
        {"8xA100-80GB", "stage=1", "shards as stage 3", FM_ERR_CONFLICT},
        {"A100-80GB", "attention=flash precision=fp32", "no fp32 kernels", FM_ERR_CONFLICT},
        {"V100-32GB", "attention=flash precision=fp16", "compute capability", FM_ERR_CONFLICT},
        {"8xA100-80GB", "offload=optimizer", "params+optimizer", FM_ERR_CONFLICT},
        {"8xA100-80GB", "sp=yes", "needs tp", FM_ERR_CONFLICT},
        {"8xA100-80GB", "lora_on=q,v", "need lora_rank", FM_ERR_CONFLICT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fm_recipe r = {.world = 77};
        fm_err err = {0};
        fm_status status = resolve(cases[i].on, cases[i].settings, &r, &err);
        if (status != cases[i].status || !strstr(err.message, cases[i].words))
            fail_msg("%s: status %d, %s", cases[i].settings, status, err.message);
        assert_int_equal(r.world, 77);
    }
}

static void test_model_limits(void **state)
{
    (void)state;
    fm_machine machine;
    fm_recipe r, out;
    fm_err err = {0};
    FM_ASSERT_OK(fm_machine_parse("8xA100-80GB", &machine, &err));
    fm_recipe_init(&r);
    fm_recipe_site site = site_of(&machine);
    site.max_positions = 1024;
    site.n_heads = 12;
    FM_ASSERT_OK(fm_recipe_resolve(&r, &site, &out, &err));
    assert_int_equal(out.seq, 1024);
    assert_int_equal(out.origin[FM_FIELD_SEQ], FM_ORIGIN_MODEL);
    FM_ASSERT_OK(fm_recipe_set_named(&r, "tp", "8", FM_ORIGIN_USER, &err));
    FM_ASSERT_FAILS(fm_recipe_resolve(&r, &site, &out, &err), FM_ERR_CONFLICT);
    assert_non_null(strstr(err.message, "12 attention heads are not divisible by tp 8"));
}

static void compare(const fm_recipe *a, const fm_recipe *b)
{
    char x[FM_RECIPE_NAME_BYTES], y[FM_RECIPE_NAME_BYTES];
    for (int f = 0; f < FM_N_FIELDS; f++)
        assert_string_equal(fm_recipe_text(a, (fm_field)f, x, sizeof x), fm_recipe_text(b, (fm_field)f, y, sizeof y));
}

static void test_files_there_and_back(void **state)
{
    (void)state;
    static const char *const names[] = {"/tmp/fm-recipe-%d.yaml", "/tmp/fm-recipe-%d.json"};
    static const char *const settings[] = {"",
                                           "engine=ddp clip=0.3 loss=chunked:8 sync=last accumulate=4 precision=bf16",
                                           "offload=params optimizer=sgd on=8xA100-80GB model=a\"b:#c"};
    for (size_t s = 0; s < 3; s++)
        for (size_t i = 0; i < 2; i++) {
            fm_recipe r, read, again;
            fm_err err = {0};
            fm_machine machine;
            char path[64];
            snprintf(path, sizeof path, names[i], (int)getpid());
            FM_ASSERT_OK(fm_machine_parse("8xA100-80GB", &machine, &err));
            FM_ASSERT_OK(resolve("8xA100-80GB", settings[s], &r, &err));
            FM_ASSERT_OK(fm_recipe_write(path, &r, &err));
            FM_ASSERT_OK(fm_recipe_read(path, &read, &err));
            compare(&r, &read);
            fm_recipe_site site = site_of(&machine);
            FM_ASSERT_OK(fm_recipe_resolve(&read, &site, &again, &err));
            compare(&r, &again);
            assert_int_equal(again.origin[FM_FIELD_SEQ], FM_ORIGIN_FILE);
            unlink(path);
        }
}

static fm_status read_text(const char *suffix, const char *text, fm_recipe *r, fm_err *err)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/fm-recipe-in-%d.%s", (int)getpid(), suffix);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    fm_status status = fm_recipe_read(path, r, err);
    unlink(path);
    return status;
}

static void test_files(void **state)
{
    (void)state;
    fm_recipe r;
    fm_err err = {0};
    FM_ASSERT_OK(read_text("yaml",
                           "# mine\nengine: fsdp2\nclip: yes\nseq: 4096\nlora_on: [q, v]\non: 8xH100-80GB\n"
                           "stage: ~\nprecision: bf16\nkeep-logits: no\n",
                           &r, &err));
    assert_int_equal(r.engine, FM_ENGINE_FSDP2);
    assert_true(r.clip == 1.0);
    assert_int_equal(r.seq, 4096);
    assert_string_equal(r.lora_on, "q,v");
    assert_string_equal(r.on, "8xH100-80GB");
    assert_string_equal(r.precision, "bf16");
    assert_int_equal(r.keep_logits, FM_YESNO_NO);
    assert_int_equal(r.origin[FM_FIELD_STAGE], FM_ORIGIN_EMPTY);
    FM_ASSERT_OK(read_text("json", "{\"seq\": 8, \"clip\": 0.5, \"keep_logits\": \"yes\"}", &r, &err));
    assert_int_equal(r.seq, 8);
    static const char *const bad[][3] = {
        {"yaml", "seq: 1\nengien: fsdp2\n", "line 2, column 9: unknown field \"engien\": did you mean engine"},
        {"yaml", "seq: 1\n\nengine: fdsp2\n", "line 3, column 9: engine: unknown value \"fdsp2\", did you mean fsdp2"},
        {"yaml", "- seq\n", "must be a mapping"},
        {"yaml", "seq: {a: 1}\n", "must be one value"},
        {"yaml", "lora_on: [{a: 1}]\n", "plain values"},
        {"yaml", "seq: [1, 2]\n", "not an integer"},
        {"json", "{\"seq\": 1.5}", "not an integer"},
        {"json", "{\"seq\": true}", "not an integer"},
        {"json", "{\"seq\": 1", "line"},
        {"json", "", "fm-recipe-in"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memset(&err, 0, sizeof err);
        memset(&r, 7, sizeof r);
        fm_status status = read_text(bad[i][0], bad[i][1], &r, &err);
        if (status == FM_OK || !strstr(err.message, bad[i][2]) || !strstr(err.message, "fm-recipe-in"))
            fail_msg("%s: status %d, %s", bad[i][1], status, err.message);
        assert_int_equal(r.seq, 0x0707070707070707);
    }
}

static void test_overlay(void **state)
{
    (void)state;
    fm_recipe file, flags;
    fm_err err = {0};
    fm_recipe_init(&file);
    fm_recipe_init(&flags);
    FM_ASSERT_OK(fm_recipe_set_named(&file, "param", "bf16", FM_ORIGIN_FILE, &err));
    FM_ASSERT_OK(fm_recipe_set_named(&file, "loss", "chunked:4", FM_ORIGIN_FILE, &err));
    FM_ASSERT_OK(fm_recipe_set_named(&file, "seq", "17", FM_ORIGIN_FILE, &err));
    FM_ASSERT_OK(fm_recipe_set_named(&flags, "loss", "chunked:8", FM_ORIGIN_USER, &err));
    FM_ASSERT_OK(fm_recipe_set_named(&flags, "precision", "fp32", FM_ORIGIN_USER, &err));
    fm_recipe_overlay(&file, &flags);
    assert_int_equal(file.seq, 17);
    assert_int_equal(file.loss_n, 8);
    assert_int_equal(file.origin[FM_FIELD_LOSS], FM_ORIGIN_USER);
    assert_int_equal(file.origin[FM_FIELD_PARAM], FM_ORIGIN_EMPTY); // the preset on top speaks for it
    assert_string_equal(file.precision, "fp32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_precision),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_model_limits),
        cmocka_unit_test(test_files),    cmocka_unit_test(test_files_there_and_back),
        cmocka_unit_test(test_overlay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

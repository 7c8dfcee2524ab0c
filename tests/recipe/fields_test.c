// The table of fields: every field and every word of it goes in as text and comes out the same; nearest names.
#include "testing.h"
#include "floodmark/recipe.h"
#include "recipe/fields.h"

static void set_and_compare(fm_field field, const char *text)
{
    fm_recipe r;
    fm_err err = {0};
    char out[FM_RECIPE_NAME_BYTES];
    fm_recipe_init(&r);
    assert_string_equal(fm_recipe_text(&r, field, out, sizeof out), "");
    FM_ASSERT_OK(fm_recipe_set(&r, field, text, FM_ORIGIN_USER, &err));
    assert_int_equal(r.origin[field], FM_ORIGIN_USER);
    assert_string_equal(fm_recipe_text(&r, field, out, sizeof out), text);
    FM_ASSERT_OK(fm_recipe_set(&r, field, "", FM_ORIGIN_USER, &err));
    assert_int_equal(r.origin[field], FM_ORIGIN_EMPTY);
}

static void test_every_word(void **state)
{
    (void)state;
    for (int f = 0; f < FM_N_FIELDS; f++) {
        const fm_field_row *row = fm_field_row_of((fm_field)f);
        fm_field found;
        fm_err err = {0};
        FM_ASSERT_OK(fm_field_find(row->name, &found, &err));
        assert_int_equal(found, f);
        assert_non_null(row->rule);
        if (row->kind != FM_KIND_WORD && row->kind != FM_KIND_WORDN)
            continue;
        for (size_t i = 0; i < row->n_words; i++) {
            char text[64];
            snprintf(text, sizeof text, "%s", row->words[i].spelling);
            size_t n = strlen(text);
            if (n > 2 && !strcmp(text + n - 2, ":N"))
                snprintf(text + n - 1, sizeof text - n + 1, "17");
            assert_int_equal(row->words[i].value, (int)i + 1); // 0 is empty, and the enum follows the list
            set_and_compare((fm_field)f, text);
        }
    }
}

static void test_numbers(void **state)
{
    (void)state;
    set_and_compare(FM_FIELD_SEQ, "4096");
    set_and_compare(FM_FIELD_STAGE, "3");
    set_and_compare(FM_FIELD_PREFETCH, "own");
    set_and_compare(FM_FIELD_PREFETCH, "2");
    set_and_compare(FM_FIELD_CLIP, "no");
    set_and_compare(FM_FIELD_CLIP, "0.3");
    set_and_compare(FM_FIELD_LORA_DROPOUT, "0.05");
    set_and_compare(FM_FIELD_OFFLOAD, "none");
    set_and_compare(FM_FIELD_OFFLOAD, "optimizer+params");
    set_and_compare(FM_FIELD_LORA_ON, "q,k,v,o");
    fm_recipe r;
    fm_err err = {0};
    fm_recipe_init(&r);
    FM_ASSERT_OK(fm_recipe_set_named(&r, "clip", "yes", FM_ORIGIN_USER, &err));
    assert_true(r.clip == 1.0);
    FM_ASSERT_OK(fm_recipe_set_named(&r, "offload", "params+optimizer", FM_ORIGIN_USER, &err));
    assert_int_equal(r.offload, FM_OFFLOAD_PARAMS | FM_OFFLOAD_OPTIMIZER);
    FM_ASSERT_OK(fm_recipe_set_named(&r, "lora-rank", "16", FM_ORIGIN_USER, &err));
    assert_int_equal(r.lora_rank, 16);
    FM_ASSERT_OK(fm_recipe_set_named(&r, "ranks", "4", FM_ORIGIN_USER, &err));
    assert_string_equal(r.on, "1x4xcpu");
    FM_ASSERT_OK(fm_recipe_set_named(&r, "checkpoint", "selective:3", FM_ORIGIN_USER, &err));
    assert_int_equal(r.checkpoint, FM_CHECKPOINT_SELECTIVE_N);
    assert_int_equal(r.checkpoint_n, 3);
    FM_ASSERT_OK(fm_recipe_set_named(&r, "checkpoint", "full", FM_ORIGIN_USER, &err));
    assert_int_equal(r.checkpoint_n, 0);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        {"engine", "fsdp3", "did you mean fsdp"},
        {"engien", "fsdp2", "did you mean engine"},
        {"enginefromhell", "x", "unknown field"},
        {"checkpoint", "ful", "did you mean full"},
        {"checkpoint", "selective:", "needs a number"},
        {"checkpoint", "selective:0", "too small"},
        {"checkpoint", "selective:nothing", "unknown value"},
        {"loss", "chunked", "needs a number: chunked:8"},
        {"loss", "chunked:99999999999999999999", "too large"},
        {"seq", "0", "too small"},
        {"seq", "-4", "too small"},
        {"seq", "4k", "not an integer"},
        {"seq", "nan", "not an integer"},
        {"seq", "99999999999999999999", "too large"},
        {"seq", "1000000001", "too large"},
        {"stage", "4", "too large"},
        {"clip", "0", "not above 0"},
        {"clip", "-1", "not above 0"},
        {"clip", "nan", "not a finite number"},
        {"clip", "1e999", "not a finite number"},
        {"lora_dropout", "1", "below 1"},
        {"lora_dropout", "-0.1", "below 1"},
        {"offload", "params+optimzer", "did you mean optimizer"},
        {"offload", "params+", "unknown value"},
        {"precision", "bf17", "did you mean bf16"},
        {"ranks", "0", "too small"},
        {"ranks", "four", "not an integer"},
        {"param", "int8", "unknown value"},
        {"layers", "0", "too small"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fm_recipe r, before;
        fm_err err = {0};
        memset(&r, 0, sizeof r);
        fm_recipe_init(&r);
        before = r;
        fm_status status = fm_recipe_set_named(&r, bad[i][0], bad[i][1], FM_ORIGIN_USER, &err);
        if (status == FM_OK || !strstr(err.message, bad[i][2]))
            fail_msg("%s %s: status %d, %s", bad[i][0], bad[i][1], status, err.message);
        assert_memory_equal(&r, &before, sizeof r);
    }
    fm_recipe r;
    fm_err err = {0};
    char large[2000];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = 0;
    fm_recipe_init(&r);
    FM_ASSERT_FAILS(fm_recipe_set_named(&r, "model", large, FM_ORIGIN_USER, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_recipe_set_named(&r, large, "x", FM_ORIGIN_USER, &err), FM_ERR_NOT_FOUND);
}

static void test_bytes_of_types(void **state)
{
    (void)state;
    assert_int_equal(fm_precision_bytes(FM_PRECISION_FP32), 4);
    assert_int_equal(fm_precision_bytes(FM_PRECISION_BF16), 2);
    assert_int_equal(fm_precision_bytes(FM_PRECISION_FP16), 2);
    assert_int_equal(fm_precision_bytes(FM_PRECISION_EMPTY), 0);
    assert_int_equal(fm_state_bytes(FM_STATE_FP16), 2);
    assert_int_equal(fm_state_bytes(FM_STATE_INT8), 1);
    assert_int_equal(fm_state_bytes(FM_STATE_NONE), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_word),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bytes_of_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

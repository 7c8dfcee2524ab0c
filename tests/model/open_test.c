// Where models come from: spellings, defaults, what is refused and how it is said, sizes, names, weight files; and that no failed
// allocation or read leaks or crashes.
#include "testing.h"
#include <unistd.h>
#include "base/buf.h"
#include "base/fault.h"
#include "floodmark/gguf.h"
#include "floodmark/model.h"
#include "floodmark/safetensors.h"
#include "model/family.h"
#include "model/opened.h"

static char folder[] = "/tmp/floodmark-model-XXXXXX";

static const char *put(const char *name, const char *text)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

#define LLAMA                                                                                                          \
    "\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":96," \
    "\"intermediate_size\":80"

static fm_model *opened(const char *text, uint32_t layers)
{
    fm_err err;
    fm_model *m = NULL;
    fm_model_options options = {.layers = layers};
    FM_ASSERT_OK(fm_model_open(put("config.json", text), &options, &m, &err));
    return m;
}

// ---- what a configuration may say ----

static void old_and_new_spellings(void **state)
{
    (void)state;
    fm_model *old = opened(
        "{" LLAMA ",\"rope_theta\":5e5,\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1,"
        "\"high_freq_factor\":4,\"original_max_position_embeddings\":8192},\"torch_dtype\":\"bfloat16\"}",
        0);
    fm_model *new = opened(
        "{" LLAMA
        ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":500000.0,\"factor\":8.0,\"low_freq_factor\":1,"
        "\"high_freq_factor\":4,\"original_max_position_embeddings\":8192},\"dtype\":\"torch.bfloat16\"}",
        0);
    const fm_arch *a = fm_model_arch(old), *b = fm_model_arch(new);
    assert_int_equal(a->rope.kind, FM_ROPE_LLAMA3);
    assert_memory_equal(&a->rope, &b->rope, sizeof a->rope);
    assert_true(a->rope.theta == 500000 && a->rope.factor == 8 && a->rope.original_positions == 8192 &&
                a->rope.dims == 16);
    assert_string_equal(a->dtype, "bfloat16");
    assert_string_equal(b->dtype, "bfloat16");
    fm_model_destroy(old);
    fm_model_destroy(new);

    fm_model *gpt2 = opened("{\"model_type\":\"gpt2\",\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_"
                            "heads\":4,\"vocab_size\":9}",
                            0);
    fm_model *same = opened(
        "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":1,\"n_head\":4,\"vocab_size\":9,\"n_positions\":1024}", 0);
    assert_int_equal(fm_model_n_params(gpt2), fm_model_n_params(same));
    fm_model_destroy(gpt2);
    fm_model_destroy(same);
}

static void defaults_are_the_classes_own(void **state)
{
    (void)state;
    fm_model *m = opened("{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":1,\"n_head\":4,\"vocab_size\":9}", 0);
    const fm_arch *a = fm_model_arch(m);
    assert_true(a->dropout_embed == 0.1 && a->dropout_residual == 0.1 && a->dropout_attention == 0.1);
    assert_int_equal(a->act, FM_ACT_GELU_NEW);
    assert_int_equal(a->intermediate, 256);
    assert_true(a->tie_embeddings);
    assert_string_equal(a->dtype, "float32");
    fm_model_destroy(m);

    m = opened("{" LLAMA ",\"num_key_value_heads\":null,\"head_dim\":null}", 0);
    a = fm_model_arch(m);
    assert_true(a->n_kv_heads == 4 && a->head_dim == 16 && a->dropout_attention == 0 && !a->tie_embeddings);
    fm_model_destroy(m);
}

// A window that is absent takes the class's default; null means none.
static void absent_is_not_null(void **state)
{
    (void)state;
    static const char mistral[] =
        "{\"model_type\":\"mistral\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":2,\"vocab_size\":96,\"intermediate_size\":80%s}";
    static const struct {
        const char *more;
        uint64_t window;
    } rows[] = {{"", 4096}, {",\"sliding_window\":null", 0}, {",\"sliding_window\":7", 7}};
    for (size_t i = 0; i < 3; i++) {
        char text[512];
        snprintf(text, sizeof text, mistral, rows[i].more);
        fm_model *m = opened(text, 0);
        assert_int_equal(fm_model_arch(m)->window, rows[i].window);
        assert_true(fm_arch_windowed(fm_model_arch(m), 1) == (rows[i].window > 0));
        fm_model_destroy(m);
    }
}

static void kinds_of_blocks(void **state)
{
    (void)state;
    fm_model *m = opened("{\"model_type\":\"gemma2\",\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_"
                         "heads\":4,\"num_key_value_heads\":2,"
                         "\"head_dim\":16,\"vocab_size\":96,\"intermediate_size\":80,\"final_logit_softcapping\":null}",
                         5);
    const fm_arch *a = fm_model_arch(m);
    for (uint32_t i = 0; i < 5; i++)
        assert_true(fm_arch_windowed(a, i) == (i % 2 == 0));
    assert_true(a->softcap_logits == 0 && a->softcap_attention == 50);
    fm_model_destroy(m);

    m = opened("{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"
               "\"num_key_value_heads\":2,\"vocab_size\":96,"
               "\"intermediate_size\":80,\"num_experts\":4,\"num_experts_per_tok\":2,\"decoder_sparse_step\":2,\"mlp_"
               "only_layers\":[1]}",
               0);
    a = fm_model_arch(m);
    assert_true(!fm_arch_sparse(a, 0) && !fm_arch_sparse(a, 1) && !fm_arch_sparse(a, 2) && fm_arch_sparse(a, 3));
    fm_model_destroy(m);
}

static void layers_replace_the_number_of_blocks(void **state)
{
    (void)state;
    fm_err err;
    fm_model *two = opened("{" LLAMA "}", 0), *five = opened("{" LLAMA "}", 5), *sized;
    const fm_model_unit *block = fm_model_unit_at(two, 1);
    assert_int_equal(block->kind, FM_UNIT_BLOCK);
    assert_int_equal(fm_model_n_params(five), fm_model_n_params(two) + 3 * block->n_elems);
    fm_model_destroy(two);
    fm_model_destroy(five);
    FM_ASSERT_OK(fm_model_open("1B", &(fm_model_options){.layers = 3}, &sized, &err));
    assert_int_equal(fm_model_n_params(sized), 1000000000); // a size stays that size
    assert_int_equal(fm_model_arch(sized)->n_layers, 3);
    fm_model_destroy(sized);
}

// ---- what is refused, and how it is said ----

static void refusals_name_the_key_and_a_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fm_status code;
        const char *says;
    } rows[] = {
        {"{\"model_type\":\"llama\"}", FM_ERR_NOT_FOUND, "\"hidden_size\": missing"},
        {"{\"hidden_size\":64}", FM_ERR_NOT_FOUND, "model_type"},
        {"[]", FM_ERR_VALUE, "is a JSON object, not a list"},
        {"{\"model_type\":\"t5\"}", FM_ERR_UNSUPPORTED, "A bare size (such as 7B)"},
        {"{\"model_type\":\"qwen4\"}", FM_ERR_UNSUPPORTED, "did you mean \"qwen"},
        {"{\"architectures\":[\"MambaForCausalLM\"]}", FM_ERR_UNSUPPORTED, "MambaForCausalLM"},
        {"{" LLAMA ",\"num_key_value_heads\":3}", FM_ERR_CONFLICT, "4 query heads do not split over 3"},
        {"{" LLAMA ",\"n_embd\":65}", FM_ERR_CONFLICT, "two spellings of one thing"},
        {"{" LLAMA ",\"hidden_act\":\"silo\"}", FM_ERR_UNSUPPORTED, "did you mean \"silu\"?"},
        {"{" LLAMA ",\"torch_dtype\":\"bfloat\"}", FM_ERR_VALUE, "did you mean \"bfloat16\"?"},
        {"{" LLAMA ",\"attention_dropout\":1.5}", FM_ERR_VALUE, "below 1"},
        {"{" LLAMA ",\"rms_norm_eps\":0}", FM_ERR_VALUE, "above 0"},
        {"{" LLAMA ",\"rms_norm_eps\":NaN}", FM_ERR_VALUE, "NaN"},
        {"{" LLAMA ",\"head_dim\":15}", FM_ERR_CONFLICT, "even number"},
        {"{" LLAMA ",\"head_dim\":99999999999}", FM_ERR_OVERFLOW, "head_dim"},
        {"{" LLAMA ",\"head_dim\":0}", FM_ERR_VALUE, "head_dim\": 0; it must be from 1"},
        {"{" LLAMA ",\"tie_word_embeddings\":\"yes\"}", FM_ERR_VALUE, "tie_word_embeddings"},
        {"{" LLAMA ",\"rope_scaling\":7}", FM_ERR_VALUE, "must be an object"},
        {"{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarm\"}}", FM_ERR_UNSUPPORTED, "did you mean \"yarn\"?"},
        {"{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":-1}}", FM_ERR_VALUE, "above 0"},
        {"{" LLAMA ",\"rope_theta\":\"x\"}", FM_ERR_VALUE, "rope_theta"},
        {"{\"model_type\":\"llama\",\"hidden_size\":0}", FM_ERR_VALUE, "hidden_size"},
        {"{\"model_type\":\"llama\",\"hidden_size\":-4096}", FM_ERR_VALUE, "hidden_size"},
        {"{\"model_type\":\"llama\",\"hidden_size\":4096.5}", FM_ERR_VALUE, "hidden_size"},
        {"{\"model_type\":\"llama\",\"hidden_size\":18446744073709551615}", FM_ERR_OVERFLOW, "hidden_size"},
        {"{\"model_type\":\"llama\",\"hidden_size\":1e400}", FM_ERR_VALUE, ""},
        {"{\"model_type\":\"llama\",\"hidden_size\":1099511627776,\"num_hidden_layers\":1,\"num_attention_heads\":"
         "1048576,\"vocab_size\":1099511627776,"
         "\"intermediate_size\":1099511627776}",
         FM_ERR_OVERFLOW, "more elements than can be counted"},
        {"{\"model_type\":\"llama\",\"hidden_size\":65,\"num_hidden_layers\":1,\"num_attention_heads\":4,\"vocab_"
         "size\":9,\"intermediate_size\":8}",
         FM_ERR_CONFLICT, "does not split into 4 heads"},
        {"{\"model_type\":\"mixtral\",\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":4,\"vocab_"
         "size\":9,\"intermediate_size\":8,"
         "\"num_key_value_heads\":4,\"num_local_experts\":2,\"num_experts_per_tok\":3}",
         FM_ERR_CONFLICT, "3 experts a token of only 2"},
        {"{\"model_type\":\"qwen2\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_"
         "size\":9,\"intermediate_size\":8,"
         "\"layer_types\":[\"full_attention\"]}",
         FM_ERR_CONFLICT, "a list of 2 words"},
        {"{\"model_type\":\"qwen2\",\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":4,\"vocab_"
         "size\":9,\"intermediate_size\":8,"
         "\"layer_types\":[\"linear_attention\"]}",
         FM_ERR_UNSUPPORTED, "linear_attention"},
        {"{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":1,\"n_head\":4,\"vocab_size\":9,\"add_cross_attention\":"
         "true}",
         FM_ERR_UNSUPPORTED, "cross attention"},
        {"{\"model_type\":\"gpt_bigcode\",\"n_embd\":64,\"n_layer\":1,\"n_head\":4,\"vocab_size\":9,\"n_positions\":"
         "9999999}",
         FM_ERR_OVERFLOW, "1048576"},
        {"{" LLAMA, FM_ERR_SYNTAX, "config.json"},
        {"", FM_ERR_SYNTAX, "config.json"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fm_err err = {0};
        fm_model *m = NULL;
        fm_status got = fm_model_open(put("config.json", rows[i].text), NULL, &m, &err);
        assert_null(m);
        if (got != rows[i].code || !strstr(err.message, rows[i].says) || !strstr(err.message, "config.json"))
            fail_msg("%s: %s, expected %s with \"%s\": %s", rows[i].text, fm_status_words(got),
                     fm_status_words(rows[i].code), rows[i].says, err.message);
    }
}

static void names_and_sizes(void **state)
{
    (void)state;
    static const char *const good[] = {"meta-llama/Llama-3.1-8B",
                                       "meta-llama--Llama-3.1-8B",
                                       "meta-llama--Llama-3.1-8B.json",
                                       "Llama-3.1-8B",
                                       "LLAMA-3.1-8b",
                                       "META-LLAMA/llama-3.1-8B"};
    fm_err err;
    fm_model *m;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        FM_ASSERT_OK(fm_model_open(good[i], NULL, &m, &err));
        assert_int_equal(fm_model_n_params(m), 8030261248);
        assert_string_equal(fm_model_name(m), "meta-llama/Llama-3.1-8B");
        assert_int_equal(fm_model_source_of(m), FM_MODEL_CATALOGUE);
        fm_model_destroy(m);
    }
    FM_ASSERT_FAILS(fm_model_open("Llama-3.1-9B", NULL, &m, &err), FM_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "did you mean \"Llama-3.1-8B\""));
    FM_ASSERT_FAILS(fm_model_open("zzzzzzzzzzzzzzzzz", NULL, &m, &err), FM_ERR_NOT_FOUND);
    FM_ASSERT_FAILS(fm_model_open("", NULL, &m, &err), FM_ERR_USAGE);
    FM_ASSERT_FAILS(fm_model_open("/nonexistent/config.json", NULL, &m, &err), FM_ERR_NOT_FOUND);
    FM_ASSERT_FAILS(fm_model_open("0B", NULL, &m, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_model_open("9999999T", NULL, &m, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_model_open("gpt2", &(fm_model_options){.layers = UINT32_MAX}, &m, &err), FM_ERR_VALUE);
    char **names;
    FM_ASSERT_OK(fm_catalogue_names(&names, &err));
    size_t n = 0;
    for (; names[n]; n++)
        assert_true(!n || strcmp(names[n - 1], names[n]) != 0);
    assert_true(n >= 53);
    free(names);
}

static void a_size_is_exactly_that_many_parameters(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (size_t i = 0; i < 400; i++) {
        fm_err err;
        fm_model *m;
        char text[32];
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t n =
            10000 + (seed >> 20) % (uint64_t[]){100000, 10000000, 3000000000, 500000000000, 900000000000000}[i % 5];
        snprintf(text, sizeof text, "%llu", (unsigned long long)n);
        FM_ASSERT_OK(fm_model_open(text, NULL, &m, &err));
        assert_int_equal(fm_model_n_params(m), n);
        assert_int_equal(fm_model_n_trained(m), n);
        assert_int_equal(fm_model_bytes(m), 2 * n);
        assert_true(fm_model_arch(m)->remainder < 2 * fm_model_arch(m)->hidden);
        fm_model_destroy(m);
    }
    uint64_t n;
    assert_true(fm_is_size("7e9", &n) && n == 7000000000);
    assert_true(fm_is_size("1.5b", &n) && n == 1500000000);
    assert_false(fm_is_size("7x", &n));
    assert_false(fm_is_size("B7", &n));
    assert_false(fm_is_size("1e-3", &n));
    assert_false(fm_is_size("7e", &n));
}

// ---- weight files ----

// A Llama of 2 blocks as llama.cpp's converter would write it; `without` leaves one tensor out.
static void write_gguf(const char *path, const char *without, bool keys)
{
    static const struct {
        const char *name;
        uint64_t rows, columns; // columns 0: a vector
    } tensors[] = {
        {"token_embd.weight", 96, 64},        {"output_norm.weight", 64, 0},     {"output.weight", 96, 64},
        {"blk.0.attn_q.weight", 64, 64},      {"blk.0.attn_k.weight", 32, 64},   {"blk.0.attn_v.weight", 32, 64},
        {"blk.0.attn_output.weight", 64, 64}, {"blk.0.ffn_gate.weight", 80, 64}, {"blk.0.ffn_up.weight", 80, 64},
        {"blk.0.ffn_down.weight", 64, 80},    {"blk.0.attn_norm.weight", 64, 0}, {"blk.0.ffn_norm.weight", 64, 0},
        {"rope_freqs.weight", 8, 0}};
    fm_err err;
    fm_gguf_writer *w;
    FM_ASSERT_OK(fm_gguf_writer_create(path, true, &w, &err));
    FM_ASSERT_OK(fm_gguf_writer_string(w, "general.architecture", "llama", 5, &err));
    if (keys) {
        FM_ASSERT_OK(fm_gguf_writer_u32(w, "llama.embedding_length", 64, &err));
        FM_ASSERT_OK(fm_gguf_writer_u32(w, "llama.block_count", 1, &err));
        FM_ASSERT_OK(fm_gguf_writer_u32(w, "llama.attention.head_count", 4, &err));
        FM_ASSERT_OK(fm_gguf_writer_u32(w, "llama.attention.head_count_kv", 2, &err));
        FM_ASSERT_OK(fm_gguf_writer_u32(w, "llama.feed_forward_length", 80, &err));
        FM_ASSERT_OK(fm_gguf_writer_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f, &err));
        FM_ASSERT_OK(fm_gguf_writer_f32(w, "llama.rope.freq_base", 5e5f, &err));
    }
    static const float zeros[96 * 64];
    for (int pass = 0; pass < 2; pass++) {
        size_t index = 0;
        for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
            uint64_t rows = tensors[i].rows, columns = tensors[i].columns;
            if (without && !strcmp(without, tensors[i].name))
                continue;
            if (!pass)
                FM_ASSERT_OK(fm_gguf_writer_add(w, tensors[i].name, FM_TENSOR_F32, columns ? 2 : 1,
                                                (uint64_t[]){rows, columns}, NULL, &err));
            else
                FM_ASSERT_OK(fm_gguf_writer_write(w, index++, 0, zeros, rows * (columns ? columns : 1) * 4, &err));
        }
        if (!pass)
            FM_ASSERT_OK(fm_gguf_writer_begin(w, &err));
    }
    FM_ASSERT_OK(fm_gguf_writer_finish(w, NULL, &err));
    fm_gguf_writer_destroy(w);
}

static void gguf_keys_make_an_architecture(void **state)
{
    (void)state;
    fm_err err;
    fm_model *m;
    char path[128];
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    write_gguf(path, NULL, true);
    FM_ASSERT_OK(fm_model_open(path, NULL, &m, &err));
    assert_non_null(fm_model_arch(m));
    assert_int_equal(fm_model_n_notes(m), 0);
    assert_int_equal(fm_model_n_params(m), 2 * 96 * 64 + 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 80 * 64 + 2 * 64);
    assert_true(fm_model_arch(m)->rope.theta == 500000 && !fm_model_arch(m)->tie_embeddings);
    fm_model_destroy(m);

    write_gguf(path, "output.weight", true); // then the head is the embedding
    FM_ASSERT_OK(fm_model_open(path, NULL, &m, &err));
    assert_non_null(fm_model_arch(m));
    assert_true(fm_model_arch(m)->tie_embeddings);
    fm_model_destroy(m);
}

static void a_weight_file_always_lists(void **state)
{
    (void)state;
    fm_err err;
    fm_model *m;
    char path[128];
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    write_gguf(path, "blk.0.ffn_up.weight", true); // lacks a tensor
    FM_ASSERT_OK(fm_model_open(path, NULL, &m, &err));
    assert_null(fm_model_arch(m));
    assert_int_equal(fm_model_n_notes(m), 1);
    assert_non_null(strstr(fm_model_note(m, 0), "tensors are missing"));
    assert_int_equal(fm_model_n_params(m), 2 * 96 * 64 + 64 + 2 * 64 * 64 + 2 * 32 * 64 + 2 * 80 * 64 + 2 * 64 + 8);
    fm_model_destroy(m);
    write_gguf(path, NULL, false); // lacks keys
    FM_ASSERT_OK(fm_model_open(path, NULL, &m, &err));
    assert_null(fm_model_arch(m));
    assert_non_null(strstr(fm_model_note(m, 0), "llama.embedding_length is missing"));
    fm_model_destroy(m);
}

static void units_of_tensors_are_in_natural_order(void **state)
{
    (void)state;
    static const char *const names[] = {
        "model.layers.10.a", "model.layers.2.b", "model.norm.weight", "model.layers.2.a", "lone", "h.01.x", "h.1.x"};
    static const char *const units[] = {"h.1", "h.01", "lone", "model.layers.2", "model.layers.10", "model.norm"};
    fm_err err;
    fm_model *m;
    fm_safetensors_writer *w;
    char path[128];
    snprintf(path, sizeof path, "%s/t.safetensors", folder);
    FM_ASSERT_OK(fm_safetensors_writer_create(path, 0, true, &w, &err));
    for (size_t i = 0; i < 7; i++)
        FM_ASSERT_OK(fm_safetensors_writer_add(w, names[i], FM_TENSOR_U8, 1, (uint64_t[]){i + 1}, NULL, &err));
    FM_ASSERT_OK(fm_safetensors_writer_begin(w, &err));
    for (size_t i = 0; i < 7; i++)
        FM_ASSERT_OK(fm_safetensors_writer_write(w, i, 0, "01234567", i + 1, &err));
    FM_ASSERT_OK(fm_safetensors_writer_finish(w, NULL, &err));
    fm_safetensors_writer_destroy(w);
    unlink(put("config.json", ""));
    FM_ASSERT_OK(fm_model_open(path, NULL, &m, &err));
    assert_int_equal(fm_model_n_units(m), 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(fm_model_unit_at(m, i)->name, units[i]);
    assert_int_equal(fm_model_unit_at(m, 3)->n_params, 2);
    assert_string_equal(fm_model_param_at(m, fm_model_unit_at(m, 3)->first_param)->name, "model.layers.2.b");
    assert_int_equal(fm_model_n_params(m), 28);
    fm_model_destroy(m);
}

// ---- every allocation and every read fails once ----

static void sweep(const char *spec, fm_fault_kind kind)
{
    bool done = false;
    for (uint64_t nth = 1; !done && nth < 20000; nth++) {
        fm_err err = {0};
        fm_model *m = NULL;
        fm_fault_arm(kind, nth, false);
        fm_status status = fm_model_open(spec, NULL, &m, &err);
        done = fm_fault_calls(kind) < nth;
        fm_fault_disarm();
        if (status != FM_OK) {
            assert_null(m);
            assert_true(err.message[0] != '\0');
            assert_int_equal(err.code, status);
        }
        fm_model_destroy(m);
    }
    assert_true(done);
}

static void every_failure_is_clean(void **state)
{
    (void)state;
    char path[128];
    sweep(put("config.json", "{" LLAMA ",\"tie_word_embeddings\":true}"), FM_FAULT_ALLOC);
    sweep(put("config.json", "{\"model_type\":\"qwen2\",\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_"
                             "heads\":4,\"vocab_size\":9,\"intermediate_size\":8,"
                             "\"layer_types\":[\"full_attention\"]}"),
          FM_FAULT_ALLOC);
    sweep(put("config.json", "{" LLAMA "}"), FM_FAULT_OPEN);
    sweep(put("config.json", "{" LLAMA "}"), FM_FAULT_READ);
    sweep("gpt2", FM_FAULT_OPEN);
    sweep("1M", FM_FAULT_ALLOC);
    sweep("no such model", FM_FAULT_ALLOC);
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    write_gguf(path, NULL, true);
    sweep(path, FM_FAULT_ALLOC);
    sweep(path, FM_FAULT_READ);
    write_gguf(path, "output_norm.weight", true);
    sweep(path, FM_FAULT_ALLOC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_and_new_spellings),
        cmocka_unit_test(defaults_are_the_classes_own),
        cmocka_unit_test(absent_is_not_null),
        cmocka_unit_test(kinds_of_blocks),
        cmocka_unit_test(layers_replace_the_number_of_blocks),
        cmocka_unit_test(refusals_name_the_key_and_a_remedy),
        cmocka_unit_test(names_and_sizes),
        cmocka_unit_test(a_size_is_exactly_that_many_parameters),
        cmocka_unit_test(gguf_keys_make_an_architecture),
        cmocka_unit_test(a_weight_file_always_lists),
        cmocka_unit_test(units_of_tensors_are_in_natural_order),
        cmocka_unit_test(every_failure_is_clean),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

// floodmark quantize: a weight file in fewer bits, with a report of what it cost.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/atomic_file.h"
#include "base/units.h"
#include "command/command.h"
#include "command/flags.h"
#include "command/quantize_job.h"

static const char usage[] =
    "Usage: floodmark quantize [OPTION...] IN OUT --format=F\n"
    "Writes the weights of IN in fewer bits to OUT, and reports what that cost.\n"
    "\n"
    "IN is a .safetensors file, its index or folder, or a GGUF file. The suffix of OUT (.safetensors, .gguf) picks "
    "the\n"
    "container. Norms, biases and small tensors stay as they are.\n"
    "\n"
    "  -f, --format=F          fp32, fp16, bf16;\n"
    "                          to .safetensors: int2 ... int8, fp8_e4m3, fp8_e5m2, mxfp8, mxfp6, mxfp4, nvfp4, nf4, "
    "fp4;\n"
    "                          to .gguf: q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 nvfp4, "
    "and\n"
    "                          from GGUF models the mixes q3_k_m q4_k_s q4_k_m q5_k_m\n"
    "  -g, --granularity=G     which values share a scale: tensor, row, column, block:N, tile:RxC, flat:N\n"
    "      --scheme=S          sym, sym:full, asym (integers)\n"
    "      --scale=S           how scales are stored: fp32, fp16, bf16, e8m0[:floor|even|ceil|rceil|mse],\n"
    "                          e4m3[:divide|multiply], double; none: a plain cast\n"
    "  -c, --calibrate=C       absmax, percentile[:P], mse, kl, weighted\n"
    "      --imatrix=FILE      importance of columns, from llama-imatrix\n"
    "      --activations=FILE  importance of columns, from activation statistics\n"
    "  -k, --keep=PATTERN=F    tensors whose names match get format F; may be repeated, the first match counts\n"
    "  -a, --all               quantize every tensor\n"
    "      --non-finite=W      NaN and infinity: stop (default), keep, zero\n"
    "      --rescue            clamp blocks too large for their scale instead of stopping\n"
    "      --force             replace OUT\n"
    "      --shard-size=SIZE   cut a .safetensors OUT into files of at most SIZE (5GB)\n"
    "  -t, --threads=N         default: as many as there are processors\n"
    "  -n, --dry-run           say what would become of each tensor; write nothing\n"
    "      --json              print JSON\n"
    "      --report=FILE       also write the report as .csv, .json or .svg; may be repeated\n"
    "  -h, --help              print this help\n";

enum {
    OPT_SCHEME = 256,
    OPT_SCALE,
    OPT_IMATRIX,
    OPT_ACTIVATIONS,
    OPT_NON_FINITE,
    OPT_RESCUE,
    OPT_FORCE,
    OPT_SHARD,
    OPT_JSON,
    OPT_REPORT
};

static const struct option flags[] = {{"format", required_argument, NULL, 'f'},
                                      {"granularity", required_argument, NULL, 'g'},
                                      {"scheme", required_argument, NULL, OPT_SCHEME},
                                      {"scale", required_argument, NULL, OPT_SCALE},
                                      {"calibrate", required_argument, NULL, 'c'},
                                      {"imatrix", required_argument, NULL, OPT_IMATRIX},
                                      {"activations", required_argument, NULL, OPT_ACTIVATIONS},
                                      {"keep", required_argument, NULL, 'k'},
                                      {"all", no_argument, NULL, 'a'},
                                      {"non-finite", required_argument, NULL, OPT_NON_FINITE},
                                      {"rescue", no_argument, NULL, OPT_RESCUE},
                                      {"force", no_argument, NULL, OPT_FORCE},
                                      {"shard-size", required_argument, NULL, OPT_SHARD},
                                      {"threads", required_argument, NULL, 't'},
                                      {"dry-run", no_argument, NULL, 'n'},
                                      {"json", no_argument, NULL, OPT_JSON},
                                      {"report", required_argument, NULL, OPT_REPORT},
                                      {"help", no_argument, NULL, 'h'},
                                      {0}};

static fm_status set_non_finite(fm_quantize_options *o, const char *word, fm_err *err)
{
    static const char *const words[] = {"stop", "keep", "zero"};
    for (int i = 0; i < 3; i++)
        if (strcmp(word, words[i]) == 0) {
            o->non_finite = (fm_non_finite)i;
            return FM_OK;
        }
    return fm_fail(err, FM_ERR_USAGE, "--non-finite=%s: give stop, keep or zero", word);
}

static fm_status add_keep(fm_quantize_options *o, const char *word, fm_err *err)
{
    const char *equals = strrchr(word, '=');
    if (!equals || equals == word || !equals[1])
        return fm_fail(err, FM_ERR_USAGE, "--keep=%s: give PATTERN=F, such as '*embed*=bf16'", word);
    if (o->n_keeps == sizeof o->keep_words / sizeof *o->keep_words)
        return fm_fail(err, FM_ERR_USAGE, "--keep: at most %zu", o->n_keeps);
    o->keep_words[o->n_keeps++] = word;
    return FM_OK;
}

static fm_status set_flag(fm_quantize_options *o, int flag, const char *value, fm_err *err)
{
    uint64_t n;
    switch (flag) {
    case 'f':
        o->format = value;
        break;
    case 'g':
        o->granularity = value;
        break;
    case OPT_SCHEME:
        o->symmetry = value;
        break;
    case OPT_SCALE:
        o->scale = value;
        break;
    case 'c':
        o->calibration = value;
        break;
    case OPT_IMATRIX:
        o->imatrix = value;
        break;
    case OPT_ACTIVATIONS:
        o->activations = value;
        break;
    case 'k':
        return add_keep(o, value, err);
    case 'a':
        o->all = true;
        break;
    case OPT_NON_FINITE:
        return set_non_finite(o, value, err);
    case OPT_RESCUE:
        o->rescue = true;
        break;
    case OPT_FORCE:
        o->force = true;
        break;
    case OPT_SHARD:
        if (fm_parse_bytes(value, &o->shard_bytes, err))
            return fm_err_prefix(err, "--shard-size");
        return o->shard_bytes ? FM_OK : fm_fail(err, FM_ERR_USAGE, "--shard-size: give a size such as 5GB");
    case 't':
        if (fm_parse_u64(value, 1, 1024, &n, err))
            return fm_err_prefix(err, "--threads");
        o->threads = (unsigned)n;
        break;
    case 'n':
        o->dry_run = true;
        break;
    case OPT_JSON:
        o->json = true;
        break;
    default:
        if (o->n_reports == FM_QUANTIZE_REPORTS)
            return fm_fail(err, FM_ERR_USAGE, "--report: at most %d", FM_QUANTIZE_REPORTS);
        o->reports[o->n_reports++] = value;
    }
    return FM_OK;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

// What follows from the words: container, target, keeps. Everything wrong here is wrong usage.
static fm_status resolve(fm_quantize_options *o, fm_err *err)
{
    if (!o->format)
        return fm_fail(err, FM_ERR_USAGE, "--format is missing; try q4_k (GGUF), int4 or fp8_e4m3 (safetensors)");
    o->to_gguf = ends_with(o->out, ".gguf");
    if (!o->to_gguf && !ends_with(o->out, ".safetensors"))
        return fm_fail(err, FM_ERR_USAGE, "%s: the name must end in .safetensors or .gguf, which picks the container",
                       o->out);
    if (o->imatrix && o->activations)
        return fm_fail(err, FM_ERR_USAGE, "--imatrix and --activations both say what a column is worth: give one");
    if (o->to_gguf && o->shard_bytes)
        return fm_fail(err, FM_ERR_USAGE, "--shard-size is for safetensors files");
    for (size_t i = 0; i < o->n_reports; i++)
        if (!ends_with(o->reports[i], ".csv") && !ends_with(o->reports[i], ".svg") &&
            !ends_with(o->reports[i], ".json"))
            return fm_fail(err, FM_ERR_USAGE, "--report=%s: the name must end in .csv, .json or .svg", o->reports[i]);
    for (size_t i = 0; i < o->n_reports; i++)
        if (ends_with(o->reports[i], ".index.json"))
            return fm_fail(err, FM_ERR_USAGE, "--report=%s: that is the name of a model's index", o->reports[i]);
    if (fm_same_file(o->in, o->out))
        return fm_fail(err, FM_ERR_USAGE, "%s: IN and OUT are the same file", o->out);
    fm_status status = fm_target_parse(o->format, o->to_gguf, o, &o->target, &o->mix, err);
    bool uses_importance = o->target.kind == FM_JOB_BLOCKS ||
                           (o->target.kind == FM_JOB_SCHEME && o->target.scheme.calibration == FM_CALIBRATION_WEIGHTED);
    if (!status && (o->imatrix || o->activations) && !uses_importance)
        return fm_fail(err, FM_ERR_UNSUPPORTED, "%s%s takes no importance of columns", o->format,
                       o->calibration ? " with this calibration" : "");
    for (size_t i = 0; i < o->n_keeps && !status; i++) {
        const char *equals = strrchr(o->keep_words[i], '=');
        o->keeps[i].pattern = fm_strndup(o->keep_words[i], (size_t)(equals - o->keep_words[i]));
        if (!o->keeps[i].pattern)
            return fm_fail_memory(err, "--keep");
        status = fm_target_parse(equals + 1, o->to_gguf, NULL, &o->keeps[i].target, NULL, err);
    }
    return status;
}

// ---- what must not be overwritten, what must not be read as plain weights ----

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Whether `file` is called as a shard of `out`: STEM-00001-of-00004.safetensors for STEM.safetensors.
static bool named_as_shard(const char *file, const char *out)
{
    static const char pattern[] = "-00000-of-00000.safetensors";
    const char *name = last_part(file), *stem = last_part(out);
    size_t n = strlen(stem) - strlen(".safetensors");
    if (strncmp(name, stem, n) != 0 || strlen(name + n) != sizeof pattern - 1)
        return false;
    for (size_t i = 0; pattern[i]; i++)
        if (pattern[i] == '0' ? name[n + i] < '0' || name[n + i] > '9' : name[n + i] != pattern[i])
            return false;
    return true;
}

static fm_status folder_of(const char *path, char **out, fm_err *err)
{
    size_t n = (size_t)(last_part(path) - path);
    *out = n ? fm_strndup(path, n) : fm_strdup(".");
    return *out ? FM_OK : fm_fail_memory(err, path);
}

// OUT in pieces next to an input in pieces of the same name: which of them would meet is known late, so none may.
static fm_status check_shards(const fm_quantize_options *o, const fm_weights *in, fm_err *err)
{
    char *here = NULL, *there = NULL;
    fm_status status = folder_of(o->out, &here, err);
    for (size_t i = 0; i < fm_weights_n_files(in) && !status; i++) {
        const char *file = fm_weights_file(in, i);
        if (!named_as_shard(file, o->out) || (status = folder_of(file, &there, err)))
            continue;
        if (fm_same_file(here, there))
            status = fm_fail(err, FM_ERR_USAGE, "%s: its pieces would be named as those of IN (%s); write elsewhere",
                             o->out, last_part(file));
        fm_free(there);
        there = NULL;
    }
    fm_free(here);
    return status;
}

// With --force a file of the input would be replaced; a link or another spelling of its name does not change that.
static fm_status check_outputs(const fm_quantize_options *o, const fm_weights *in, fm_err *err)
{
    for (size_t i = 0; i < fm_weights_n_files(in); i++)
        if (fm_same_file(fm_weights_file(in, i), o->out))
            return fm_fail(err, FM_ERR_USAGE, "%s: is a file of IN; write elsewhere", o->out);
    if ((o->imatrix && fm_same_file(o->imatrix, o->out)) || (o->activations && fm_same_file(o->activations, o->out)))
        return fm_fail(err, FM_ERR_USAGE, "%s: is read for the importance of columns; write elsewhere", o->out);
    return o->to_gguf ? FM_OK : check_shards(o, in, err);
}

static const fm_tensor_info *sibling(const fm_weights *in, fm_buf *name, const char *stem, size_t n, const char *end)
{
    fm_buf_clear(name);
    fm_buf_add(name, stem, n);
    fm_buf_add_text(name, end);
    return name->failed ? NULL : fm_weights_find(in, fm_buf_text(name));
}

// A tensor whose values are codes that need the scales of a second tensor. The names are those of docs/quantize.md and of
// the libraries that write such files (compressed-tensors, bitsandbytes, DeepSeek's fp8, GPTQ and AWQ).
static bool is_code(const fm_weights *in, const fm_tensor_info *t, fm_buf *name)
{
    static const char *const scales[] = {"_scale", "_scale_inv", ".SCB", ".absmax"};
    size_t n = strlen(t->name);
    if (ends_with(t->name, ".fm_codes"))
        return sibling(in, name, t->name, n - strlen(".fm_codes"), ".fm_scheme");
    if (ends_with(t->name, "_packed"))
        return sibling(in, name, t->name, n - strlen("_packed"), "_scale");
    if (ends_with(t->name, ".qweight"))
        return sibling(in, name, t->name, n - strlen(".qweight"), ".scales");
    bool small = fm_tensor_type_of(t->type)->block_bits <= 8 && fm_tensor_type_of(t->type)->block_elems == 1;
    for (size_t i = 0; small && i < sizeof scales / sizeof *scales; i++)
        if (sibling(in, name, t->name, n, scales[i]))
            return true;
    return false;
}

static fm_status check_plain(const fm_quantize_options *o, const fm_weights *in, fm_err *err)
{
    fm_buf name = {0};
    fm_status status = FM_OK;
    for (size_t i = 0; fm_weights_safetensors(in) && i < fm_weights_n_tensors(in) && !status; i++) {
        const fm_tensor_info *t = fm_weights_tensor(in, i);
        if (is_code(in, t, &name))
            status = fm_fail(err, FM_ERR_UNSUPPORTED,
                             "%s: is quantized already: tensor \"%.100s\" holds codes with scales in \"%.100s\"; start "
                             "from the model it was made of",
                             o->in, t->name, fm_buf_text(&name));
    }
    if (!status)
        status = fm_buf_check(&name, err);
    fm_buf_reset(&name);
    return status;
}

// The report is made before the output gets its name: when memory is out for it, nothing has changed on disk.
static fm_status write_output(fm_quantize_options *o, const fm_weights *in, fm_job_list *list, fm_buf *report,
                              fm_err *err)
{
    fm_sink sink = {0};
    if (!o->shard_bytes && fm_weights_n_files(in) > 1 && !o->to_gguf)
        o->shard_bytes = 5000000000;
    fm_status status = fm_sink_open(o, in, list, &sink, err);
    if (!status)
        status = fm_quantize_run(o, in, list, &sink, err);
    if (!status)
        status = fm_quantize_render(o, list, report, err);
    if (!status)
        status = fm_sink_finish(&sink, &list->sync_seconds, err);
    fm_sink_reset(&sink);
    return status ? status : fm_quantize_write_reports(o, list, err);
}

static fm_status quantize(fm_quantize_options *o, fm_err *err)
{
    fm_weights *in = NULL;
    fm_job_list list = {0};
    fm_buf report = {0};
    fm_status status = fm_weights_open(o->in, &in, err);
    if (!status)
        status = check_outputs(o, in, err);
    if (!status)
        status = check_plain(o, in, err);
    if (!status)
        status = fm_quantize_plan(o, in, &list, err);
    if (!status)
        status = o->dry_run ? fm_quantize_render(o, &list, &report, err) : write_output(o, in, &list, &report, err);
    if (!status) {
        fm_quantize_warn(o, &list);
        status = fm_command_print(&report, err);
    }
    fm_buf_reset(&report);
    fm_job_list_reset(&list);
    fm_weights_destroy(in);
    return status;
}

static int finish(fm_quantize_options *o, const fm_err *err, fm_status status, bool typed)
{
    for (size_t i = 0; i < o->n_keeps; i++)
        fm_free(o->keeps[i].pattern);
    bool usage_error = (typed && status != FM_ERR_NO_MEMORY) || status == FM_ERR_UNSUPPORTED;
    return status ? fm_command_fail("quantize", err, usage_error) : 0;
}

int fm_command_quantize(int argc, char **argv)
{
    fm_quantize_options o = {0};
    fm_err err = {0};
    fm_status status = FM_OK;
    optind = opterr = 0;
    for (int flag; !status && (flag = getopt_long(argc, argv, ":f:g:c:k:at:nh", flags, NULL)) != -1;) {
        if (flag == 'h')
            return fm_command_help("quantize", usage);
        status = flag == '?' || flag == ':' ? fm_flags_refused("quantize", flag, argv[optind - 1], flags, &err)
                                            : set_flag(&o, flag, optarg, &err);
    }
    if (!status && argc - optind != 2)
        status = fm_fail(&err, FM_ERR_USAGE, "give IN and OUT: floodmark quantize IN OUT --format=F");
    if (status)
        return finish(&o, &err, status, true);
    o.in = argv[optind];
    o.out = argv[optind + 1];
    if ((status = resolve(&o, &err)))
        return finish(&o, &err, status, true);
    status = quantize(&o, &err);
    return finish(&o, &err, status, false);
}

// A machine of one's own, described in a JSON (or YAML) file.
#include "floodmark/machine.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/units.h"
#include "floodmark/tree.h"
#include "machine/lookup.h"

static const char *const machine_keys[] = {
    "nodes", "gpus_per_node", "gpu", "intra_bytes_per_s", "inter_bytes_per_s", "host_bytes"};
static const char *const gpu_keys[] = {"name",
                                       "like",
                                       "vendor",
                                       "memory_bytes",
                                       "capability",
                                       "n_sms",
                                       "memory_bytes_per_s",
                                       "flops",
                                       "link_bytes_per_s",
                                       "host_link_bytes_per_s",
                                       "network_bytes_per_s",
                                       "source"};
enum {
    N_MACHINE_KEYS = sizeof machine_keys / sizeof machine_keys[0],
    N_GPU_KEYS = sizeof gpu_keys / sizeof gpu_keys[0]
};

// Every key of `object` must be in the list.
static fm_status check_keys(const fm_node *object, const char *const *keys, size_t n_keys, fm_err *err)
{
    for (size_t i = 0; i < fm_node_count(object); i++) {
        const char *key = fm_node_key(object, i);
        size_t k = 0;
        while (k < n_keys && strcmp(key, keys[k]) != 0)
            k++;
        if (k < n_keys)
            continue;
        const char *near = fm_nearest(key, keys, n_keys);
        return fm_node_fail(fm_node_at(object, i), err, FM_ERR_NOT_FOUND, "unknown key \"%.60s\"%s%s%s", key,
                            near ? ": did you mean " : "; see plan --help", near ? near : "", near ? "?" : "");
    }
    return FM_OK;
}

// Bytes: a whole number, or text such as "80GB".
static fm_status opt_bytes(const fm_node *object, const char *key, uint64_t *out, fm_err *err)
{
    const fm_node *node = fm_node_get_set(object, key);
    if (!node)
        return FM_OK;
    if (fm_node_type_of(node) != FM_NODE_STRING)
        return fm_node_u64(node, out, err);
    const char *text = NULL;
    fm_status status = fm_node_string(node, &text, err);
    fm_err why;
    if (!status && (status = fm_parse_bytes(text, out, &why)))
        return fm_node_fail(node, err, status, "\"%s\": %s", key, why.message);
    return status;
}

static fm_status opt_rate(const fm_node *object, const char *key, double *out, fm_err *err)
{
    double value = *out;
    fm_status status = fm_node_opt_double(object, key, &value, err);
    if (status)
        return status;
    if (!(value >= 0) || isinf(value))
        return fm_node_fail(fm_node_get(object, key), err, FM_ERR_VALUE, "\"%s\" must be 0 or more", key);
    *out = value;
    return FM_OK;
}

static fm_status read_flops(const fm_node *object, fm_gpu *gpu, fm_err *err)
{
    const fm_node *flops = fm_node_get_set(object, "flops");
    if (!flops)
        return FM_OK;
    if (fm_node_type_of(flops) != FM_NODE_OBJECT)
        return fm_node_fail(flops, err, FM_ERR_VALUE, "\"flops\" must be an object such as {\"bf16\": 989.4e12}");
    const char *names[FM_N_RATES];
    for (int i = 0; i < FM_N_RATES; i++)
        names[i] = fm_rate_text((fm_rate)i);
    fm_status status = check_keys(flops, names, FM_N_RATES, err);
    for (int i = 0; !status && i < FM_N_RATES; i++)
        status = opt_rate(flops, names[i], &gpu->flops[i], err);
    return status;
}

static fm_status read_name(const fm_node *object, fm_gpu *gpu, fm_err *err)
{
    const char *name = NULL, *source = NULL, *vendor = NULL;
    fm_status status = fm_node_opt_string(object, "name", &name, err);
    if (!status)
        status = fm_node_opt_string(object, "source", &source, err);
    if (!status)
        status = fm_node_opt_string(object, "vendor", &vendor, err);
    if (status)
        return status;
    if (name && (!*name || strlen(name) >= FM_GPU_NAME_BYTES))
        return fm_node_fail(fm_node_get(object, "name"), err, FM_ERR_VALUE, "\"name\" must have 1 to %d bytes",
                            FM_GPU_NAME_BYTES - 1);
    for (const char *c = name; c && *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return fm_node_fail(fm_node_get(object, "name"), err, FM_ERR_VALUE,
                                "\"name\" must not have control characters");
    if (name)
        snprintf(gpu->name, sizeof gpu->name, "%s", name);
    if (source)
        snprintf(gpu->source, sizeof gpu->source, "%s", source);
    if (vendor) {
        int v = 0;
        while (v <= FM_VENDOR_OTHER && strcasecmp(vendor, fm_vendor_text((fm_vendor)v)) != 0)
            v++;
        if (v > FM_VENDOR_OTHER)
            return fm_node_fail(fm_node_get(object, "vendor"), err, FM_ERR_VALUE,
                                "unknown vendor \"%.40s\": nvidia, amd, cpu or other", vendor);
        gpu->vendor = (fm_vendor)v;
    }
    return FM_OK;
}

static fm_status read_gpu_object(const fm_node *object, fm_gpu *out, fm_err *err)
{
    fm_gpu gpu = {.name = "custom", .vendor = FM_VENDOR_OTHER, .source = "the user's file"};
    fm_status status = check_keys(object, gpu_keys, N_GPU_KEYS, err);
    const char *like = NULL;
    if (!status)
        status = fm_node_opt_string(object, "like", &like, err);
    fm_err why = {0};
    if (!status && like && (status = fm_gpu_lookup(like, 1, &gpu, &why)))
        return fm_node_fail(fm_node_get(object, "like"), err, status, "\"like\": %s", why.message);
    if (!status)
        status = read_name(object, &gpu, err);
    if (!status)
        status = opt_bytes(object, "memory_bytes", &gpu.memory_bytes, err);
    uint64_t capability = gpu.capability, n_sms = gpu.n_sms;
    if (!status)
        status = fm_node_opt_u64(object, "capability", &capability, err);
    if (!status)
        status = fm_node_opt_u64(object, "n_sms", &n_sms, err);
    struct {
        const char *key;
        double *value;
    } rates[] = {{"memory_bytes_per_s", &gpu.memory_bytes_per_s},
                 {"link_bytes_per_s", &gpu.link_bytes_per_s},
                 {"host_link_bytes_per_s", &gpu.host_link_bytes_per_s},
                 {"network_bytes_per_s", &gpu.network_bytes_per_s}};
    for (size_t i = 0; !status && i < sizeof rates / sizeof rates[0]; i++)
        status = opt_rate(object, rates[i].key, rates[i].value, err);
    if (!status)
        status = read_flops(object, &gpu, err);
    if (status)
        return status;
    if (!gpu.memory_bytes)
        return fm_node_fail(object, err, FM_ERR_VALUE,
                            "a GPU needs \"memory_bytes\" of at least 1 (or \"like\": a GPU of the catalogue)");
    if (capability > 1000 || n_sms > 1000000)
        return fm_node_fail(object, err, FM_ERR_VALUE, "\"capability\" is 10 x major + minor (90), \"n_sms\" a count");
    gpu.capability = (uint32_t)capability;
    gpu.n_sms = (uint32_t)n_sms;
    gpu.memory_measured = false;
    *out = gpu;
    return FM_OK;
}

static fm_status read_gpu(const fm_node *root, int64_t per_node, fm_gpu *gpu, fm_err *err)
{
    const fm_node *node = NULL;
    fm_status status = fm_node_need(root, "gpu", &node, err);
    if (status)
        return status;
    if (fm_node_type_of(node) == FM_NODE_OBJECT)
        return read_gpu_object(node, gpu, err);
    const char *name = NULL;
    if ((status = fm_node_string(node, &name, err)))
        return status;
    fm_err why = {0};
    if ((status = fm_gpu_lookup(name, per_node, gpu, &why)))
        return fm_node_fail(node, err, status, "\"gpu\": %s", why.message);
    return FM_OK;
}

static fm_status read_machine(const fm_node *root, fm_machine *machine, fm_err *err)
{
    if (fm_node_type_of(root) != FM_NODE_OBJECT)
        return fm_node_fail(root, err, FM_ERR_VALUE, "a machine file must be an object, not %s",
                            fm_node_type_words(root));
    fm_gpu gpu = {0};
    int64_t nodes = 1, per_node = 1;
    fm_status status = check_keys(root, machine_keys, N_MACHINE_KEYS, err);
    if (!status)
        status = fm_node_opt_i64(root, "nodes", &nodes, err);
    if (!status)
        status = fm_node_opt_i64(root, "gpus_per_node", &per_node, err);
    if (!status)
        status = read_gpu(root, per_node > 0 ? per_node : 1, &gpu, err);
    fm_machine m = {0};
    fm_err why = {0};
    if (!status && (status = fm_machine_make(nodes, per_node, &gpu, &m, &why)))
        return fm_node_fail(root, err, status, "%s", why.message);
    if (!status)
        status = opt_rate(root, "intra_bytes_per_s", &m.intra_bytes_per_s, err);
    if (!status)
        status = opt_rate(root, "inter_bytes_per_s", &m.inter_bytes_per_s, err);
    if (!status)
        status = opt_bytes(root, "host_bytes", &m.host_bytes, err);
    if (status)
        return status;
    m.host_stated = m.host_stated || fm_node_get_set(root, "host_bytes");
    *machine = m;
    return FM_OK;
}

fm_status fm_machine_read(const char *path, fm_machine *machine, fm_err *err)
{
    fm_tree *tree = NULL;
    fm_status status = fm_tree_read(path, &tree, err);
    if (!status)
        status = read_machine(fm_tree_root(tree), machine, err);
    fm_tree_destroy(tree);
    return status;
}

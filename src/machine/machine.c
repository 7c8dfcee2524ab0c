// The spelling NODESxGPUSxNAME and the machine made from it.
#include "floodmark/machine.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/checked.h"
#include "floodmark/tree.h"
#include "machine/lookup.h"

enum { MAX_COUNT = 1000000, MAX_NAMES = 128 };

// Nodes of real clusters carry about twice their GPUs' memory; a small one is no smaller than a workstation.
static const uint64_t least_host_bytes = (uint64_t)64 << 30;

// A link that nobody states: PCIe 3.0 x16, and 100 Gb/s Ethernet.
static const double default_host_link = 16e9, default_network = 12.5e9;

static fm_gpu host_as_gpu(int64_t ranks)
{
    fm_gpu gpu = {.name = "cpu", .vendor = FM_VENDOR_CPU, .memory_measured = true, .source = "this host (sysconf)"};
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t bytes = 0;
    if (pages > 0 && page_bytes > 0 && fm_mul_u64((uint64_t)pages, (uint64_t)page_bytes, &bytes))
        gpu.memory_bytes = bytes / (uint64_t)ranks; // ranks share one memory
    return gpu;
}

fm_status fm_machine_make(int64_t nodes, int64_t gpus_per_node, const fm_gpu *gpu, fm_machine *machine, fm_err *err)
{
    if (nodes < 1 || gpus_per_node < 1)
        return fm_fail(err, FM_ERR_VALUE, "a machine of %" PRId64 " nodes x %" PRId64 " GPUs: both must be at least 1",
                       nodes, gpus_per_node);
    if (nodes > MAX_COUNT || gpus_per_node > MAX_COUNT || nodes * gpus_per_node > MAX_COUNT)
        return fm_fail(err, FM_ERR_OVERFLOW,
                       "a machine of %" PRId64 " nodes x %" PRId64 " GPUs: more than %d GPUs in all are not planned",
                       nodes, gpus_per_node, MAX_COUNT);
    fm_machine m = {.nodes = nodes, .gpus_per_node = gpus_per_node, .world = nodes * gpus_per_node, .gpu = *gpu};
    snprintf(m.text, sizeof m.text, "%" PRId64 "x%" PRId64 "x%.*s", nodes, gpus_per_node, FM_GPU_NAME_BYTES, gpu->name);
    double host_link = gpu->host_link_bytes_per_s > 0 ? gpu->host_link_bytes_per_s : default_host_link;
    m.intra_bytes_per_s = gpu->link_bytes_per_s > 0 ? gpu->link_bytes_per_s : host_link;
    m.inter_bytes_per_s = gpu->network_bytes_per_s > 0 ? gpu->network_bytes_per_s : default_network;
    uint64_t node_bytes = 0;
    if (!fm_mul_u64(gpu->memory_bytes, (uint64_t)gpus_per_node, &node_bytes))
        return fm_fail(err, FM_ERR_OVERFLOW, "GPU %s: the memory of %" PRId64 " of them does not fit 64 bits",
                       gpu->name, gpus_per_node);
    if (gpu->vendor == FM_VENDOR_CPU) {
        m.host_bytes = node_bytes;
        m.host_stated = true;
    } else if (!fm_mul_u64(node_bytes, 2, &m.host_bytes)) {
        m.host_bytes = UINT64_MAX;
    } else if (m.host_bytes < least_host_bytes) {
        m.host_bytes = least_host_bytes;
    }
    *machine = m;
    return FM_OK;
}

// "H200" is H200-141GB: a name without its size, when it belongs to one row only.
static const fm_gpu *find_shortened(const char *name, size_t *n_found)
{
    const fm_gpu *found = NULL;
    size_t n = strlen(name);
    *n_found = 0;
    for (size_t i = 0; n && i < fm_gpu_count(); i++) {
        const fm_gpu *gpu = fm_gpu_at(i);
        if (!strncasecmp(gpu->name, name, n) && gpu->name[n] == '-') {
            found = gpu;
            ++*n_found;
        }
    }
    return *n_found == 1 ? found : NULL;
}

static fm_status fail_unknown_gpu(const char *name, size_t n_shortened, fm_err *err)
{
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (; n < fm_gpu_count() && n < MAX_NAMES - 1; n++)
        names[n] = fm_gpu_at(n)->name;
    names[n++] = "cpu";
    if (n_shortened > 1) {
        char list[160] = "";
        size_t used = 0, length = strlen(name);
        for (size_t i = 0; i + 1 < n; i++)
            if (!strncasecmp(names[i], name, length) && names[i][length] == '-' && used + 48 < sizeof list)
                used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? " or " : "", names[i]);
        return fm_fail(err, FM_ERR_NOT_FOUND, "GPU \"%.60s\" comes in several sizes: say %s", name, list);
    }
    const char *near = fm_nearest(name, names, n);
    if (near)
        return fm_fail(
            err, FM_ERR_NOT_FOUND,
            "unknown GPU \"%.60s\": did you mean %s? (others can be described in a JSON file, see plan --help)", name,
            near);
    return fm_fail(err, FM_ERR_NOT_FOUND,
                   "unknown GPU \"%.60s\": the catalogue has %s, %s, %s ... (plan --help lists it; others can be "
                   "described in a JSON file)",
                   name, names[6], names[20], names[26]);
}

fm_status fm_gpu_lookup(const char *name, int64_t ranks, fm_gpu *gpu, fm_err *err)
{
    if (!strcasecmp(name, "cpu")) {
        *gpu = host_as_gpu(ranks);
        return FM_OK;
    }
    size_t n_shortened = 0;
    const fm_gpu *found = fm_gpu_find(name);
    if (!found)
        found = find_shortened(name, &n_shortened);
    if (!found)
        return fail_unknown_gpu(name, n_shortened, err);
    *gpu = *found;
    return FM_OK;
}

// One of the leading counts: digits up to an 'x'. False when the text does not begin with one.
static bool take_count(const char **text, uint64_t *count, bool *overflow)
{
    const char *s = *text;
    uint64_t value = 0;
    if (!isdigit((unsigned char)*s))
        return false;
    for (; isdigit((unsigned char)*s); s++)
        if (!fm_mul_u64(value, 10, &value) || !fm_add_u64(value, (uint64_t)(*s - '0'), &value) || value > MAX_COUNT) {
            value = MAX_COUNT + 1u;
            *overflow = true;
        }
    if (*s != 'x' && *s != 'X')
        return false;
    *text = s + 1;
    *count = value;
    return true;
}

static fm_status parse_spelling(const char *text, fm_machine *machine, fm_err *err)
{
    const char *name = text;
    uint64_t counts[3];
    int n = 0;
    bool overflow = false;
    while (n < 3 && take_count(&name, &counts[n], &overflow))
        n++;
    if (n > 2)
        return fm_fail(err, FM_ERR_VALUE, "machine \"%.100s\": write NODESxGPUSxNAME, such as 2x8xH100-80GB", text);
    if (overflow)
        return fm_fail(err, FM_ERR_OVERFLOW, "machine \"%.100s\": more than %d GPUs are not planned", text, MAX_COUNT);
    for (int i = 0; i < n; i++)
        if (!counts[i])
            return fm_fail(err, FM_ERR_VALUE, "machine \"%.100s\": 0 %s; write at least 1", text,
                           i == 0 && n == 2 ? "nodes" : "GPUs");
    if (!*name || *name == '-' || isdigit((unsigned char)*name))
        return fm_fail(err, FM_ERR_VALUE,
                       "machine \"%.100s\": write NODESxGPUSxNAME, such as 2x8xH100-80GB, or a GPU's name", text);
    int64_t nodes = n == 2 ? (int64_t)counts[0] : 1, per_node = n ? (int64_t)counts[n - 1] : 1;
    fm_gpu gpu;
    fm_status status = fm_gpu_lookup(name, per_node, &gpu, err);
    return status ? status : fm_machine_make(nodes, per_node, &gpu, machine, err);
}

fm_status fm_machine_parse(const char *text, fm_machine *machine, fm_err *err)
{
    size_t n = strlen(text);
    struct stat about;
    bool is_file = (n > 5 && !strcasecmp(text + n - 5, ".json")) || (n > 5 && !strcasecmp(text + n - 5, ".yaml")) ||
                   strchr(text, '/') || (!stat(text, &about) && S_ISREG(about.st_mode));
    return is_file ? fm_machine_read(text, machine, err) : parse_spelling(text, machine, err);
}

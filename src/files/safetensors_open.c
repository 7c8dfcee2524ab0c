// Which files make up a model: a file, an index, a folder.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "files/endian.h"
#include "files/safetensors_set.h"

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

// Reads the length field and as much of what it announces as may be a header.
static fm_status read_head(int fd, const char *path, uint64_t file_bytes, fm_buf *head, fm_err *err)
{
    uint8_t length[8] = {0};
    ssize_t got = fm_io_pread(fd, length, sizeof length, 0);
    if (got < 0)
        return fm_fail_path(err, path, "read", errno);
    fm_buf_add(head, length, (size_t)got);
    uint64_t n = fm_load_u64(length);
    if (got == sizeof length && n <= FM_SAFETENSORS_MAX_HEADER_BYTES && n <= file_bytes - 8) {
        char *at = fm_buf_extend(head, n);
        if (!at)
            return fm_fail_memory(err, path);
        got = fm_io_pread(fd, at, n, 8);
        if (got < 0)
            return fm_fail_path(err, path, "read", errno);
        if ((uint64_t)got < n)
            return fm_fail(err, FM_ERR_IO, "%s: the file shrank while it was read", path);
    }
    return fm_buf_check(head, err);
}

fm_status fm_st_add_file(fm_safetensors *st, const char *path, fm_err *err)
{
    struct stat about;
    fm_buf head = {0};
    int fd = fm_io_open(path, O_RDONLY, 0);
    if (fd < 0)
        return fm_fail_path(err, path, "open", errno);
    fm_status status = FM_OK;
    if (fstat(fd, &about))
        status = fm_fail_path(err, path, "read", errno);
    else if (!S_ISREG(about.st_mode))
        status = fm_fail(err, FM_ERR_IO, "%s: not a regular file", path);
    status = status ? status : read_head(fd, path, (uint64_t)about.st_size, &head, err);
    if (!status)
        status =
            fm_st_add_header(st, (const uint8_t *)fm_buf_text(&head), head.size, (uint64_t)about.st_size, path, err);
    fm_buf_reset(&head);
    close(fd);
    return status;
}

// ---- an index ----

static bool is_plain_name(const char *name)
{
    return *name && !strchr(name, '/') && !strchr(name, '\\') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

// "DIR/NAME" with the folder of `beside`; to be freed.
static char *sibling(const char *beside, const char *name)
{
    const char *slash = strrchr(beside, '/');
    size_t n = slash ? (size_t)(slash - beside + 1) : 0, m = strlen(name);
    char *path = fm_alloc(n + m + 1);
    if (path) {
        memcpy(path, beside, n);
        memcpy(path + n, name, m + 1);
    }
    return path;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Adds the shard if no earlier entry of the map named it.
static fm_status add_shard(fm_safetensors *st, const fm_node *entry, const char *shard, const char *index, fm_err *err)
{
    for (size_t i = st->n_files; i-- > 0;)
        if (!strcmp(last_part(st->files[i].path), shard))
            return FM_OK;
    if (!is_plain_name(shard))
        return fm_node_fail(entry, err, FM_ERR_VALUE,
                            "shard \"%.200s\" must be the name of a file in the folder of the index", shard);
    char *path = sibling(index, shard);
    if (!path)
        return fm_fail_memory(err, shard);
    fm_status status = fm_st_add_file(st, path, err);
    fm_free(path);
    if (status == FM_ERR_NOT_FOUND)
        status = fm_node_fail(entry, err, FM_ERR_NOT_FOUND,
                              "shard \"%.200s\" is not there; download it beside the index", shard);
    return status;
}

static fm_status check_entry(const fm_safetensors *st, const fm_node *entry, const char *tensor, const char *shard,
                             fm_err *err)
{
    const fm_tensor_info *t = fm_safetensors_find(st, tensor);
    if (!t)
        return fm_node_fail(entry, err, FM_ERR_CONFLICT, "tensor \"%.150s\" is in the index but in no shard", tensor);
    const char *where = last_part(st->files[t->file].path);
    if (strcmp(where, shard) != 0)
        return fm_node_fail(entry, err, FM_ERR_CONFLICT,
                            "tensor \"%.150s\" is in %.100s, not in %.100s as the index says", tensor, where, shard);
    return FM_OK;
}

static fm_status read_map(fm_safetensors *st, const fm_node *map, const char *path, fm_err *err)
{
    fm_status status = FM_OK;
    const char *shard = NULL;
    if (fm_node_type_of(map) != FM_NODE_OBJECT)
        return fm_node_fail(map, err, FM_ERR_VALUE, "weight_map must be an object of file names, not %s",
                            fm_node_type_words(map));
    for (size_t i = 0; !status && i < fm_node_count(map); i++) {
        const fm_node *entry = fm_node_at(map, i);
        status = fm_node_string(entry, &shard, err);
        status = status ? status : add_shard(st, entry, shard, path, err);
    }
    if (!status && (status = fm_tensor_list_seal(&st->tensors, err)))
        fm_err_prefix(err, "%s", path);
    for (size_t i = 0; !status && i < fm_node_count(map); i++) {
        const fm_node *entry = fm_node_at(map, i);
        status = fm_node_string(entry, &shard, err);
        status = status ? status : check_entry(st, entry, fm_node_key(map, i), shard, err);
    }
    return status;
}

fm_status fm_st_add_index(fm_safetensors *st, const char *path, fm_err *err)
{
    fm_tree *tree = NULL;
    const fm_node *map;
    fm_status status = fm_tree_read(path, &tree, err);
    if (status)
        return status;
    status = fm_node_need(fm_tree_root(tree), "weight_map", &map, err);
    status = status ? status : read_map(st, map, path, err);
    fm_tree_destroy(tree);
    return status;
}

// ---- a folder ----

// The one file of the folder whose name ends so; FM_ERR_CONFLICT when there are several. *out NULL when there is none.
static fm_status only_file(const char *folder, const char *end, char **out, fm_err *err)
{
    DIR *dir = opendir(folder);
    fm_status status = FM_OK;
    char *found = NULL;
    if (!dir)
        return fm_fail_path(err, folder, "open", errno);
    for (struct dirent *entry; !status && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' || !ends_with(entry->d_name, end))
            continue;
        if (found)
            status = fm_fail(err, FM_ERR_CONFLICT, "%s: holds several *%s (%.100s, %.100s); name the one you mean",
                             folder, end, found, entry->d_name);
        else if (!(found = fm_strdup(entry->d_name)))
            status = fm_fail_memory(err, folder);
    }
    closedir(dir);
    if (status) {
        fm_free(found);
        return status;
    }
    *out = found;
    return FM_OK;
}

static bool is_there(const char *path)
{
    return !access(path, F_OK);
}

static fm_status join(const char *folder, const char *name, char **out, fm_err *err)
{
    fm_buf path = {0};
    size_t n = strlen(folder);
    fm_buf_add_text(&path, folder);
    if (n && folder[n - 1] != '/')
        fm_buf_add_char(&path, '/');
    fm_buf_add_text(&path, name);
    fm_status status = fm_buf_check(&path, err);
    if (status)
        fm_buf_reset(&path);
    else
        *out = fm_buf_take(&path, &n);
    return status;
}

static fm_status open_folder(fm_safetensors *st, const char *folder, fm_err *err)
{
    static const char *const usual[] = {"model.safetensors.index.json", "model.safetensors"};
    static const char *const ends[] = {".safetensors.index.json", ".safetensors"};
    for (size_t i = 0; i < 4; i++) {
        char *name = NULL, *path = NULL;
        fm_status status = i < 2 ? FM_OK : only_file(folder, ends[i - 2], &name, err);
        if (!status && i >= 2 && !name)
            continue;
        status = status ? status : join(folder, name ? name : usual[i], &path, err);
        bool use = !status && (name || is_there(path));
        if (use)
            status = ends_with(path, ".json") ? fm_st_add_index(st, path, err) : fm_st_add_file(st, path, err);
        fm_free(name);
        fm_free(path);
        if (use || status)
            return status;
    }
    char *config = NULL;
    fm_status status = join(folder, "config.json", &config, err);
    if (status)
        return status;
    bool described = is_there(config);
    fm_free(config);
    return fm_fail(err, FM_ERR_NOT_FOUND,
                   described ? "%s: holds config.json but no *.safetensors, and the weights are needed"
                             : "%s: holds neither config.json nor *.safetensors (is it a model's folder?)",
                   folder);
}

fm_status fm_safetensors_open(const char *path, fm_safetensors **out, fm_err *err)
{
    struct stat about;
    fm_safetensors *st = fm_calloc(1, sizeof *st);
    if (!st)
        return fm_fail_memory(err, path);
    fm_status status;
    if (!stat(path, &about) && S_ISDIR(about.st_mode))
        status = open_folder(st, path, err);
    else if (ends_with(path, ".json"))
        status = fm_st_add_index(st, path, err);
    else
        status = fm_st_add_file(st, path, err);
    if (!status && !st->tensors.sorted)
        status = fm_tensor_list_seal(&st->tensors, err);
    if (status)
        fm_safetensors_destroy(st);
    else
        *out = st;
    return status;
}

fm_status fm_safetensors_parse(const void *head, size_t n, uint64_t file_bytes, const char *name, fm_safetensors **out,
                               fm_err *err)
{
    fm_safetensors *st = fm_calloc(1, sizeof *st);
    if (!st)
        return fm_fail_memory(err, name);
    fm_status status = fm_st_add_header(st, head, n, file_bytes, name, err);
    status = status ? status : fm_tensor_list_seal(&st->tensors, err);
    if (status)
        fm_safetensors_destroy(st);
    else
        *out = st;
    return status;
}

#include "floodmark/weights.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/io.h"
#include "files/tensor_list.h"

typedef struct {
    const char *path; // of the reader that knows it
    int fd;
} open_file;

struct fm_weights {
    fm_weights_kind kind;
    fm_safetensors *st;
    fm_gguf **ggufs; // [n_files]
    open_file *files;
    size_t n_files;
    fm_tensor_list tensors;
    uint64_t total_bytes;
};

static fm_status has_magic(const char *path, const char *magic, bool *out, fm_err *err)
{
    char head[4] = {0};
    int fd = fm_io_open(path, O_RDONLY, 0);
    if (fd < 0)
        return fm_fail_path(err, path, "open", errno);
    ssize_t got = fm_io_pread(fd, head, sizeof head, 0);
    int number = errno;
    close(fd);
    if (got < 0)
        return fm_fail_path(err, path, "read", number);
    *out = !memcmp(head, magic, sizeof head);
    return FM_OK;
}

// ---- split GGUF ----

// NAME-00001-of-00003.gguf: sets *of. The digits of the first number start at *at.
static bool is_split_name(const char *path, size_t *at, unsigned *of)
{
    static const char pattern[] = "-00000-of-00000.gguf";
    size_t n = strlen(path), m = sizeof pattern - 1;
    if (n < m)
        return false;
    const char *tail = path + n - m;
    for (size_t i = 0; i < m; i++)
        if (pattern[i] == '0' ? tail[i] < '0' || tail[i] > '9' : tail[i] != pattern[i])
            return false;
    *at = n - m + 1;
    *of = 0;
    for (size_t i = 10; i < 15; i++)
        *of = *of * 10 + (unsigned)(tail[i] - '0');
    return true;
}

static fm_status open_ggufs(fm_weights *w, const char *path, fm_err *err)
{
    size_t at = 0;
    unsigned of = 1;
    uint64_t split_count = 1;
    fm_gguf *first = NULL;
    fm_status status = fm_gguf_open(path, &first, err);
    if (status)
        return status;
    status = fm_gguf_opt_u64(first, "split.count", &split_count, err);
    bool is_split = split_count > 1 && is_split_name(path, &at, &of);
    if (!status && is_split && of != split_count)
        status =
            fm_fail(err, FM_ERR_CONFLICT, "%s: the name says %u parts, split.count %" PRIu64, path, of, split_count);
    if (!status && is_split && strncmp(path + at, "00001", 5) != 0)
        status = fm_fail(err, FM_ERR_USAGE, "%s: name the first part (-00001-of-), it brings the others", path);
    size_t n = is_split ? of : 1;
    if (!status && !(w->ggufs = fm_calloc(n, sizeof(fm_gguf *))))
        status = fm_fail_memory(err, path);
    if (status) {
        fm_gguf_destroy(first);
        return status;
    }
    w->ggufs[w->n_files++] = first;
    char *name = n > 1 ? fm_strdup(path) : NULL;
    if (n > 1 && !name)
        return fm_fail_memory(err, path);
    for (unsigned i = 2; !status && i <= n; i++) {
        char digits[16];
        snprintf(digits, sizeof digits, "%05u", i);
        memcpy(name + at, digits, 5);
        status = fm_gguf_open(name, &w->ggufs[w->n_files], err);
        w->n_files += !status;
    }
    fm_free(name);
    return status;
}

// ---- opening ----

static fm_status open_files(fm_weights *w, fm_err *err)
{
    size_t n = w->st ? fm_safetensors_n_files(w->st) : w->n_files;
    w->n_files = n;
    if (!(w->files = fm_alloc_array(n, sizeof *w->files)))
        return fm_fail_memory(err, "the list of files");
    for (size_t i = 0; i < n; i++)
        w->files[i] = (open_file){w->st ? fm_safetensors_file(w->st, i) : fm_gguf_path(w->ggufs[i]), -1};
    for (size_t i = 0; i < n; i++)
        if ((w->files[i].fd = fm_io_open(w->files[i].path, O_RDONLY, 0)) < 0)
            return fm_fail_path(err, w->files[i].path, "open", errno);
    return FM_OK;
}

static fm_status list_tensors(fm_weights *w, const char *path, fm_err *err)
{
    fm_status status = FM_OK;
    for (size_t f = 0; f < (w->st ? 1 : w->n_files); f++) {
        size_t n = w->st ? fm_safetensors_n_tensors(w->st) : fm_gguf_n_tensors(w->ggufs[f]);
        for (size_t i = 0; !status && i < n; i++) {
            fm_tensor_info t = w->st ? *fm_safetensors_tensor(w->st, i) : *fm_gguf_tensor(w->ggufs[f], i);
            if (!w->st)
                t.file = (uint32_t)f;
            w->total_bytes += t.bytes;
            status = fm_tensor_list_add(&w->tensors, &t, err);
        }
    }
    if (!status && (status = fm_tensor_list_seal(&w->tensors, err)))
        fm_err_prefix(err, "%s", path);
    return status;
}

fm_status fm_weights_open(const char *path, fm_weights **out, fm_err *err)
{
    struct stat about;
    bool is_gguf = false;
    bool is_there = !stat(path, &about), is_folder = is_there && S_ISDIR(about.st_mode);
    if (is_there && !is_folder &&
        !S_ISREG(about.st_mode)) // opening a pipe would wait, and tensors are not read in order
        return fm_fail(err, FM_ERR_IO, "%s: not a regular file (save it to one first)", path);
    fm_status status = is_folder ? FM_OK : has_magic(path, "GGUF", &is_gguf, err);
    if (status)
        return status;
    fm_weights *w = fm_calloc(1, sizeof *w);
    if (!w)
        return fm_fail_memory(err, path);
    // By its name too, so that a spoilt GGUF is judged as one.
    size_t n = strlen(path);
    is_gguf = is_gguf || (!is_folder && n >= 5 && !strcmp(path + n - 5, ".gguf"));
    w->kind = is_gguf ? FM_WEIGHTS_GGUF : FM_WEIGHTS_SAFETENSORS;
    status = is_gguf ? open_ggufs(w, path, err) : fm_safetensors_open(path, &w->st, err);
    status = status ? status : open_files(w, err);
    status = status ? status : list_tensors(w, path, err);
    if (status)
        fm_weights_destroy(w);
    else
        *out = w;
    return status;
}

void fm_weights_destroy(fm_weights *w)
{
    if (!w)
        return;
    for (size_t i = 0; w->files && i < w->n_files; i++)
        if (w->files[i].fd >= 0)
            close(w->files[i].fd);
    for (size_t i = 0; w->ggufs && i < w->n_files; i++)
        fm_gguf_destroy(w->ggufs[i]);
    fm_safetensors_destroy(w->st);
    fm_tensor_list_reset(&w->tensors);
    fm_free(w->ggufs);
    fm_free(w->files);
    fm_free(w);
}

// ---- asking ----

fm_weights_kind fm_weights_kind_of(const fm_weights *w)
{
    return w->kind;
}

size_t fm_weights_n_tensors(const fm_weights *w)
{
    return w->tensors.n;
}

const fm_tensor_info *fm_weights_tensor(const fm_weights *w, size_t i)
{
    return i < w->tensors.n ? &w->tensors.items[i] : NULL;
}

const fm_tensor_info *fm_weights_find(const fm_weights *w, const char *name)
{
    return fm_tensor_list_find(&w->tensors, name);
}

uint64_t fm_weights_total_bytes(const fm_weights *w)
{
    return w->total_bytes;
}

size_t fm_weights_n_files(const fm_weights *w)
{
    return w->n_files;
}

const char *fm_weights_file(const fm_weights *w, size_t i)
{
    return i < w->n_files ? w->files[i].path : NULL;
}

const fm_safetensors *fm_weights_safetensors(const fm_weights *w)
{
    return w->st;
}

const fm_gguf *fm_weights_gguf(const fm_weights *w)
{
    return w->ggufs ? w->ggufs[0] : NULL;
}

// ---- data ----

fm_status fm_weights_read(const fm_weights *w, size_t i, uint64_t offset, void *buffer, size_t n, fm_err *err)
{
    const fm_tensor_info *t = fm_weights_tensor(w, i);
    if (!t || offset > t->bytes || n > t->bytes - offset)
        return fm_fail(err, FM_ERR_USAGE, "tensor %zu: no %zu bytes at %" PRIu64, i, n, offset);
    const open_file *file = &w->files[t->file];
    ssize_t got = fm_io_pread(file->fd, buffer, n, t->offset + offset);
    if (got < 0) {
        fm_fail_path(err, file->path, "read", errno);
        return fm_err_prefix(err, "tensor \"%.100s\"", t->name);
    }
    if ((size_t)got < n)
        return fm_fail_at(err, FM_ERR_IO, t->offset + offset + (uint64_t)got, 0,
                          "%s: tensor \"%.100s\": the file ends at byte %" PRIu64 "; it shrank while it was read",
                          file->path, t->name, t->offset + offset + (uint64_t)got);
    return FM_OK;
}

static void advise(const fm_weights *w, size_t i, uint64_t offset, uint64_t n, int advice)
{
    const fm_tensor_info *t = fm_weights_tensor(w, i);
    if (t && offset <= t->bytes)
        posix_fadvise(w->files[t->file].fd, (off_t)(t->offset + offset),
                      (off_t)(n < t->bytes - offset ? n : t->bytes - offset), advice);
}

void fm_weights_will_need(const fm_weights *w, size_t i, uint64_t offset, uint64_t n)
{
    advise(w, i, offset, n, POSIX_FADV_WILLNEED);
}

void fm_weights_done_with(const fm_weights *w, size_t i, uint64_t offset, uint64_t n)
{
    advise(w, i, offset, n, POSIX_FADV_DONTNEED);
}

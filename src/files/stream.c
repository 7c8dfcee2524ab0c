#include "files/stream.h"
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/units.h"

fm_status fm_stream_open(fm_stream *s, size_t n_files, char *const *paths, size_t n_tensors, bool force, fm_err *err)
{
    s->files = fm_calloc(n_files, sizeof *s->files);
    s->written = fm_calloc(n_tensors ? n_tensors : 1, sizeof *s->written);
    if (!s->files || !s->written)
        return fm_fail_memory(err, "the files to write");
    s->n_files = n_files;
    for (size_t i = 0; i < n_files; i++) {
        if (!(s->files[i].path = fm_strdup(paths[i])))
            return fm_fail_memory(err, "the files to write");
        fm_status status = fm_atomic_file_create(paths[i], force, &s->files[i].file, err);
        if (status)
            return status;
    }
    return FM_OK;
}

fm_status fm_stream_write(fm_stream *s, const fm_tensor_info *t, size_t index, uint64_t offset, const void *bytes,
                          size_t n, fm_err *err)
{
    if (offset > t->bytes || n > t->bytes - offset)
        return fm_fail(err, FM_ERR_USAGE, "tensor \"%.100s\" has no %zu bytes at %" PRIu64, t->name, n, offset);
    if (!n)
        return FM_OK;
    fm_status status = fm_atomic_file_pwrite(s->files[t->file].file, bytes, n, t->offset + offset, err);
    if (!status)
        __atomic_fetch_add(&s->written[index], n, __ATOMIC_RELAXED);
    return status;
}

static fm_status check_complete(const fm_stream *s, const fm_tensor_list *tensors, fm_err *err)
{
    char a[FM_UNITS_TEXT_BYTES], b[FM_UNITS_TEXT_BYTES];
    for (size_t i = 0; i < tensors->n; i++)
        if (s->written[i] != tensors->items[i].bytes)
            return fm_fail(err, FM_ERR_USAGE, "tensor \"%.100s\" was given %s of its %s bytes", tensors->items[i].name,
                           fm_format_count(a, s->written[i]), fm_format_count(b, tensors->items[i].bytes));
    return FM_OK;
}

// One after another gets its name, and an interrupt in between would leave a part of them: it has to wait, which is not
// long, all being on disk.
static fm_status commit_all(fm_stream *s, double *total, fm_err *err)
{
    static const int late[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t set, before;
    size_t done = 0;
    fm_status status = FM_OK;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof late / sizeof *late; i++)
        sigaddset(&set, late[i]);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    for (; !status && done < s->n_files; done += !status) {
        double seconds = 0;
        status = fm_atomic_file_commit(&s->files[done].file, &seconds, err);
        *total += seconds;
    }
    for (size_t i = 0; status && i < done; i++)
        unlink(s->files[i].path);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

fm_status fm_stream_finish(fm_stream *s, const fm_tensor_list *tensors, double *sync_seconds, fm_err *err)
{
    double total = 0;
    fm_status status = check_complete(s, tensors, err);
    for (size_t i = 0; !status && s->n_files > 1 && i < s->n_files; i++) {
        double seconds = 0;
        status = fm_atomic_file_sync(s->files[i].file, &seconds, err);
        total += seconds;
    }
    if (!status)
        status = commit_all(s, &total, err);
    if (!status && sync_seconds)
        *sync_seconds = total;
    return status;
}

void fm_stream_reset(fm_stream *s)
{
    for (size_t i = 0; i < s->n_files; i++) {
        fm_atomic_file_abort(&s->files[i].file);
        fm_free(s->files[i].path);
    }
    fm_free(s->files);
    fm_free(s->written);
    *s = (fm_stream){0};
}

#include "base/atomic_file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/units.h"

struct fm_atomic_file {
    char *path, *temporary, *directory;
    int fd, slot;
    bool force;
    uint64_t size, reserved;
};

// --- Removal on a signal -------------------------------------------------------------------------------------------
// The handler may only touch what is lock-free: it unlinks the names in these slots and lets the signal take its usual
// course. A slot's name is written before it is published and freed after it is withdrawn.

enum { SLOTS = 1024 }; // files open at once: the shards of the largest models are hundreds
static _Atomic(char *) slots[SLOTS];
static const int fatal_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};
static pthread_once_t handlers_once = PTHREAD_ONCE_INIT;

static void remove_all(int number)
{
    for (int i = 0; i < SLOTS; i++) {
        const char *name = atomic_load(&slots[i]);
        if (name)
            unlink(name);
    }
    raise(number); // SA_RESETHAND put the default action back; delivered when the handler returns
}

static void install_handlers(void)
{
    for (size_t i = 0; i < sizeof fatal_signals / sizeof *fatal_signals; i++) {
        struct sigaction old, new = {.sa_handler = remove_all, .sa_flags = (int)SA_RESETHAND};
        sigemptyset(&new.sa_mask);
        // A signal that is ignored (nohup) or handled by the program stays so.
        if (sigaction(fatal_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(fatal_signals[i], &new, NULL);
    }
}

static int publish(char *name)
{
    pthread_once(&handlers_once, install_handlers);
    for (int i = 0; i < SLOTS; i++) {
        char *empty = NULL;
        if (atomic_compare_exchange_strong(&slots[i], &empty, name))
            return i;
    }
    return -1; // more open files than slots: those are not removed on a signal
}

static void withdraw(int slot)
{
    if (slot >= 0)
        atomic_store(&slots[slot], NULL);
}

// --- Names ---------------------------------------------------------------------------------------------------------

// Where the target really is: the end of a chain of links, or path itself when there is nothing.
static char *resolve(const char *path)
{
    char *real = realpath(path, NULL);
    if (!real)
        return fm_strdup(path);
    char *copy = fm_strdup(real); // through the allocator that tests can make fail
    free(real);
    return copy;
}

static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return !slash ? fm_strdup(".") : slash == path ? fm_strdup("/") : fm_strndup(path, (size_t)(slash - path));
}

// Creates a file with a fresh name. Not mkstemp: that forces mode 0600 where the umask should decide.
static int open_fresh(fm_atomic_file *f)
{
    static atomic_uint counter;
    size_t n = strlen(f->directory) + 64;
    f->temporary = fm_alloc(n);
    if (!f->temporary) {
        errno = ENOMEM;
        return -1;
    }
    for (int tries = 0; tries < 100; tries++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(f->temporary, n, "%s/.floodmark-%lx-%lx-%x.tmp", f->directory, (unsigned long)getpid(),
                 (unsigned long)now.tv_nsec, atomic_fetch_add(&counter, 1));
        f->slot = publish(f->temporary); // before it exists: a signal in between removes nothing or all
        f->fd = fm_io_open(f->temporary, O_RDWR | O_CREAT | O_EXCL, 0666);
        if (f->fd >= 0)
            return 0;
        int number = errno;
        withdraw(f->slot);
        errno = number;
        if (number != EEXIST)
            return -1;
    }
    return -1;
}

static void destroy(fm_atomic_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    fm_free(f->path);
    fm_free(f->temporary);
    fm_free(f->directory);
    fm_free(f);
}

void fm_atomic_file_abort(fm_atomic_file **file)
{
    fm_atomic_file *f = *file;
    if (!f)
        return;
    if (f->fd >= 0) {
        unlink(f->temporary);
        withdraw(f->slot);
    }
    destroy(f);
    *file = NULL;
}

static fm_status check_target(const char *path, bool force, struct stat *st, bool *exists, fm_err *err)
{
    *exists = stat(path, st) == 0;
    if (!*exists) {
        if (errno == ENOENT || errno == ENOTDIR)
            return FM_OK; // the directory is judged when the temporary file is opened
        return fm_fail_path(err, path, "look at it", errno);
    }
    if (S_ISDIR(st->st_mode))
        return fm_fail_path(err, path, "write", EISDIR);
    if (!S_ISREG(st->st_mode))
        return fm_fail(err, FM_ERR_IO, "%s: cannot write: not a regular file (name a file)", path);
    if (!force)
        return fm_fail(err, FM_ERR_EXISTS, "%s: already exists (--force replaces it)", path);
    return FM_OK;
}

fm_status fm_atomic_file_create(const char *path, bool force, fm_atomic_file **out, fm_err *err)
{
    struct stat st;
    bool exists;
    fm_status status = check_target(path, force, &st, &exists, err);
    if (status != FM_OK)
        return status;
    fm_atomic_file *f = fm_calloc(1, sizeof *f);
    if (!f)
        return fm_fail_memory(err, "an output file");
    f->fd = f->slot = -1;
    f->force = force;
    f->path = resolve(path);
    f->directory = f->path ? directory_of(f->path) : NULL;
    if (!f->directory)
        status = fm_fail_memory(err, "an output file");
    else if (!*path)
        status = fm_fail(err, FM_ERR_USAGE, "the output's name is empty (name a file)");
    else if (open_fresh(f) != 0)
        status = fm_fail_path(err, path, "create it in its directory", errno);
    else if (exists && fchmod(f->fd, st.st_mode & 07777) != 0)
        status = fm_fail_path(err, path, "keep its mode", errno);
    if (status != FM_OK)
        fm_atomic_file_abort(&f);
    else
        *out = f;
    return status;
}

// --- Writing -------------------------------------------------------------------------------------------------------

// The whole story of a write that failed: for a full disk, how much was wanted and how much there is.
static fm_status fail_write(const fm_atomic_file *f, uint64_t needed, int number, fm_err *err)
{
    char wanted[FM_UNITS_TEXT_BYTES], there[FM_UNITS_TEXT_BYTES];
    struct statvfs fs;
    if (number != ENOSPC && number != EDQUOT)
        return fm_fail_path(err, f->path, "write", number);
    if (number == EDQUOT || statvfs(f->directory, &fs) != 0)
        return fm_fail(err, FM_ERR_IO, "%s: disk full: needs %s bytes (free space, or write elsewhere)", f->path,
                       fm_format_count(wanted, needed));
    return fm_fail(err, FM_ERR_IO, "%s: disk full: needs %s bytes, %s are free in %s (free space, or write elsewhere)",
                   f->path, fm_format_count(wanted, needed),
                   fm_format_count(there, (uint64_t)fs.f_bavail * fs.f_frsize), f->directory);
}

fm_status fm_atomic_file_reserve(fm_atomic_file *file, uint64_t bytes, fm_err *err)
{
    struct statvfs fs;
    if (bytes > INT64_MAX)
        return fm_fail(err, FM_ERR_OVERFLOW, "%s: a file of %llu bytes cannot exist", file->path,
                       (unsigned long long)bytes);
    if (bytes == 0)
        return FM_OK;
    file->reserved = bytes;
    // Asked before trying: a file system without preallocation says nothing, and one with it would first fill the disk.
    if (statvfs(file->directory, &fs) == 0 && fs.f_blocks && bytes > (uint64_t)fs.f_bavail * fs.f_frsize)
        return fail_write(file, bytes, ENOSPC, err);
    if (fallocate(file->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) != 0) {
        if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
            return fail_write(file, bytes, errno, err);
    }
    return FM_OK;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

fm_status fm_atomic_file_append(fm_atomic_file *file, const void *bytes, size_t n, fm_err *err)
{
    fm_status status = fm_atomic_file_pwrite(file, bytes, n, file->size, err);
    if (status == FM_OK)
        file->size += n;
    return status;
}

fm_status fm_atomic_file_pwrite(fm_atomic_file *file, const void *bytes, size_t n, uint64_t offset, fm_err *err)
{
    if (offset > INT64_MAX || n > INT64_MAX - offset)
        return fm_fail(err, FM_ERR_OVERFLOW, "%s: a file of more than 2^63 bytes cannot exist", file->path);
    if (fm_io_pwrite(file->fd, bytes, n, offset) == 0)
        return FM_OK;
    return fail_write(file, larger(file->reserved, offset + n), errno, err);
}

uint64_t fm_atomic_file_size(const fm_atomic_file *file)
{
    return file->size;
}

void fm_atomic_file_flush_behind(fm_atomic_file *file, uint64_t offset, uint64_t n)
{
    if (offset > INT64_MAX || n > INT64_MAX || n == 0)
        return;
    sync_file_range(file->fd, (off_t)offset, (off_t)n, SYNC_FILE_RANGE_WRITE);
    posix_fadvise(file->fd, (off_t)offset, (off_t)n, POSIX_FADV_DONTNEED);
}

// --- The end -------------------------------------------------------------------------------------------------------

// Renames without ever replacing what should not be: the kernel decides where it can, else a look just before.
static int rename_new(const char *from, const char *to)
{
    if (fm_fault(FM_FAULT_RENAME))
        return -1;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (access(to, F_OK) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

static int sync_directory(const char *path)
{
    int fd = fm_io_open(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return -1;
    int r = fm_io_fsync(fd), number = errno;
    close(fd);
    errno = number;
    return r != 0 && number == EINVAL ? 0 : r; // a file system that cannot sync a directory has nothing to lose
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// A write that the disk refused may be told only here.
static fm_status sync_data(const fm_atomic_file *f, fm_err *err)
{
    if (fm_io_fsync(f->fd) == 0)
        return FM_OK;
    return errno == ENOSPC || errno == EDQUOT ? fail_write(f, larger(f->reserved, f->size), errno, err)
                                              : fm_fail_path(err, f->path, "sync", errno);
}

fm_status fm_atomic_file_sync(const fm_atomic_file *file, double *sync_seconds, fm_err *err)
{
    double begin = seconds_now();
    fm_status status = sync_data(file, err);
    *sync_seconds = seconds_now() - begin;
    return status;
}

fm_status fm_atomic_file_commit(fm_atomic_file **file, double *sync_seconds, fm_err *err)
{
    fm_atomic_file *f = *file;
    double begin = seconds_now();
    fm_status status = sync_data(f, err);
    if (status == FM_OK && (f->force ? fm_io_rename(f->temporary, f->path) : rename_new(f->temporary, f->path)) != 0)
        status = errno == EEXIST ? fm_fail(err, FM_ERR_EXISTS,
                                           "%s: appeared while it was being made (--force replaces it)", f->path)
                                 : fm_fail_path(err, f->path, "put the finished file in place", errno);
    if (status != FM_OK) {
        fm_atomic_file_abort(file);
        return status;
    }
    withdraw(f->slot);
    if (sync_directory(f->directory) != 0)
        status = fm_fail(err, FM_ERR_IO,
                         "%s: written and in place, but its directory could not be synced (%s): a power cut could undo "
                         "it (check the disk)",
                         f->path, fm_io_words(errno));
    if (sync_seconds)
        *sync_seconds = seconds_now() - begin;
    destroy(f);
    *file = NULL;
    return status;
}

fm_status fm_atomic_file_write(const char *path, const void *bytes, size_t n, bool force, fm_err *err)
{
    fm_atomic_file *f = NULL;
    fm_status status = fm_atomic_file_create(path, force, &f, err);
    if (status == FM_OK)
        status = fm_atomic_file_append(f, bytes, n, err);
    if (status == FM_OK)
        status = fm_atomic_file_commit(&f, NULL, err);
    fm_atomic_file_abort(&f);
    return status;
}

bool fm_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

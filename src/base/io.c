#include "base/io.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/fault.h"

int fm_io_open(const char *path, int flags, mode_t mode)
{
    if (fm_fault(FM_FAULT_OPEN))
        return -1;
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

ssize_t fm_io_read(int fd, void *to, size_t n)
{
    if (fm_fault(FM_FAULT_READ))
        return -1;
    size_t done = 0;
    while (done < n) {
        ssize_t got = read(fd, (char *)to + done, n - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

ssize_t fm_io_pread(int fd, void *to, size_t n, uint64_t offset)
{
    if (fm_fault(FM_FAULT_READ))
        return -1;
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, (char *)to + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int fm_io_write(int fd, const void *from, size_t n)
{
    if (fm_fault(FM_FAULT_WRITE))
        return -1;
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *)from + done, n - done);
        if (put < 0 && errno != EINTR)
            return -1;
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

int fm_io_pwrite(int fd, const void *from, size_t n, uint64_t offset)
{
    if (fm_fault(FM_FAULT_WRITE))
        return -1;
    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(fd, (const char *)from + done, n - done, (off_t)(offset + done));
        if (put < 0 && errno != EINTR)
            return -1;
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

int fm_io_fsync(int fd)
{
    if (fm_fault(FM_FAULT_SYNC))
        return -1;
    int r;
    do
        r = fsync(fd);
    while (r < 0 && errno == EINTR);
    return r;
}

int fm_io_rename(const char *from, const char *to)
{
    return fm_fault(FM_FAULT_RENAME) ? -1 : rename(from, to);
}

const char *fm_io_words(int number)
{
    const char *words = strerrordesc_np(number); // unlike strerror: no locale, no shared buffer
    return words ? words : "unknown error";
}

fm_status(fm_fail_path)(fm_err *err, const char *path, const char *doing, int number)
{
    switch (number) {
    case ENOENT:
        return fm_fail(err, FM_ERR_NOT_FOUND, "%s: cannot %s: no such file or directory (check the path)", path, doing);
    case EACCES:
    case EPERM:
        return fm_fail(err, FM_ERR_IO, "%s: cannot %s: permission denied (check its owner and mode)", path, doing);
    case EISDIR:
        return fm_fail(err, FM_ERR_IO, "%s: cannot %s: it is a directory (name a file in it)", path, doing);
    case ENOSPC:
    case EDQUOT:
        return fm_fail(err, FM_ERR_IO, "%s: cannot %s: disk full (free space or write elsewhere)", path, doing);
    case EROFS:
        return fm_fail(err, FM_ERR_IO, "%s: cannot %s: the file system is read-only (write elsewhere)", path, doing);
    case EMFILE:
    case ENFILE:
        return fm_fail(err, FM_ERR_IO, "%s: cannot %s: too many open files (raise ulimit -n)", path, doing);
    case ENOMEM:
        return fm_fail(err, FM_ERR_NO_MEMORY, "%s: cannot %s: out of memory", path, doing);
    case EIO:
        return fm_fail(err, FM_ERR_IO, "%s: cannot %s: input/output error (check the disk)", path, doing);
    default:
        return fm_fail(err, FM_ERR_IO, "%s: cannot %s: %s", path, doing, fm_io_words(number));
    }
}

#include "files/slurp.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/io.h"

static fm_status read_all(int fd, const char *path, uint64_t max_bytes, fm_buf *out, fm_err *err)
{
    enum { PIECE = 256 << 10 };
    uint64_t total = 0;
    for (;;) {
        // Not trusting the size that stat says, a pipe can be read as well.
        char *at = fm_buf_extend(out, PIECE);
        if (!at)
            return fm_fail_memory(err, path);
        ssize_t got = fm_io_read(fd, at, PIECE);
        out->size -= got < 0 ? PIECE : (size_t)(PIECE - got);
        out->data[out->size] = 0;
        if (got < 0)
            return fm_fail_path(err, path, "read", errno);
        total += (uint64_t)got;
        if (total > max_bytes)
            return fm_fail(err, FM_ERR_VALUE, "%s: larger than %llu bytes; is this the right file?", path,
                           (unsigned long long)max_bytes);
        if (got < PIECE)
            return FM_OK;
    }
}

fm_status fm_slurp(const char *path, uint64_t max_bytes, fm_buf *out, fm_err *err)
{
    int fd = fm_io_open(path, O_RDONLY, 0);
    if (fd < 0)
        return fm_fail_path(err, path, "open", errno);
    fm_status status = read_all(fd, path, max_bytes, out, err);
    close(fd);
    return status;
}

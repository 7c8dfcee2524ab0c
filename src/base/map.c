#include "base/map.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fault.h"
#include "base/io.h"

static const uint8_t nothing[1]; // what an empty file's data points to: mmap refuses length 0

fm_status fm_map_open(const char *path, fm_map *out, fm_err *err)
{
    // Non-blocking: opening a FIFO that nobody writes to would wait forever before it could be refused.
    int fd = fm_io_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return fm_fail_path(err, path, "open", errno);
    fm_status status = FM_OK;
    struct stat st;
    void *at = MAP_FAILED;
    if (fstat(fd, &st) != 0)
        status = fm_fail_path(err, path, "look at it", errno);
    else if (S_ISDIR(st.st_mode))
        status = fm_fail_path(err, path, "read", EISDIR);
    else if (!S_ISREG(st.st_mode))
        status = fm_fail(err, FM_ERR_IO, "%s: cannot read: not a regular file (copy it to a file first)", path);
    else if (st.st_size == 0)
        *out = (fm_map){.data = nothing, .size = 0};
    else if (fm_fault(FM_FAULT_MAP) ||
             (at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        status = fm_fail_path(err, path, "map", errno);
    else
        *out = (fm_map){.data = at, .size = (uint64_t)st.st_size};
    close(fd);
    return status;
}

void fm_map_close(fm_map *map)
{
    if (map->size)
        munmap((void *)(uintptr_t)map->data, (size_t)map->size);
    *map = (fm_map){0};
}

void fm_map_advise(const fm_map *map, uint64_t offset, uint64_t size, fm_map_advice advice)
{
    static const int words[] = {[FM_MAP_SEQUENTIAL] = MADV_SEQUENTIAL,
                                [FM_MAP_RANDOM] = MADV_RANDOM,
                                [FM_MAP_SOON] = MADV_WILLNEED,
                                [FM_MAP_DROP] = MADV_DONTNEED};
    if (offset >= map->size)
        return;
    if (size > map->size - offset)
        size = map->size - offset;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = offset, to = offset + size;
    if (advice == FM_MAP_DROP) {
        from = (from + page - 1) / page * page;
        to = to == map->size ? (to + page - 1) / page * page : to / page * page;
    } else
        from = from / page * page;
    if (from < to)
        madvise((void *)(uintptr_t)(map->data + from), (size_t)(to - from), words[advice]);
}

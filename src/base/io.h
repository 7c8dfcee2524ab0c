// The system calls that move data, with an injected failure where a test asks for one (fault.h), interrupted calls
// repeated and short transfers completed. Like the calls they wrap they return -1 with errno set.
#ifndef FM_BASE_IO_H
#define FM_BASE_IO_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "floodmark/status.h"

// open(2) with O_CLOEXEC. mode is used when flags has O_CREAT.
int fm_io_open(const char *path, int flags, mode_t mode);

// Read until n bytes or the end of the file; the number read.
ssize_t fm_io_read(int fd, void *to, size_t n);
ssize_t fm_io_pread(int fd, void *to, size_t n, uint64_t offset);

// Write all n bytes: 0, or -1 (an unknown part was written).
int fm_io_write(int fd, const void *from, size_t n);
int fm_io_pwrite(int fd, const void *from, size_t n, uint64_t offset);

int fm_io_fsync(int fd);
int fm_io_rename(const char *from, const char *to);

// What errno `number` means, in words; thread-safe, static or thread-local storage.
const char *fm_io_words(int number);

// Fails for path with the reason in errno `number` and a remedy: FM_ERR_NOT_FOUND for ENOENT, else FM_ERR_IO (also
// FM_ERR_NO_MEMORY). `doing` is an infinitive: "open", "read".  -> "PATH: cannot open: no such file (check the path)".
fm_status fm_fail_path(fm_err *err, const char *path, const char *doing, int number);
#ifdef __clang_analyzer__ // see fm_fail in status.h
#define fm_fail_path(err, path, doing, number) ((void)(fm_fail_path)(err, path, doing, number), FM_ERR_IO)
#endif
#endif

// A file that appears whole or not at all. Bytes go to a temporary file in the target's own directory; commit syncs it,
// renames it over the target and syncs the directory; abort, or SIGINT, SIGTERM, SIGHUP or SIGQUIT,
// removes it. Until commit an old file under that name is untouched.
#ifndef FM_BASE_ATOMIC_FILE_H
#define FM_BASE_ATOMIC_FILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

typedef struct fm_atomic_file fm_atomic_file;

// Begins the file that will be `path`. An existing path is refused (FM_ERR_EXISTS) unless `force`; so is, always,
// what is not a regular file. A symbolic link is followed: the file it names is replaced. A new file gets the mode that the umask leaves,
// a replaced one keeps its own.
fm_status fm_atomic_file_create(const char *path, bool force, fm_atomic_file **out, fm_err *err) FM_MUST_USE;

// Says how large the file will be (bytes) and takes the room on disk now, so that a full disk is found before hours of
// work: "disk full: needs 1,234 bytes, 567 are free". Where the file system cannot, the free room is compared only.
fm_status fm_atomic_file_reserve(fm_atomic_file *file, uint64_t bytes, fm_err *err) FM_MUST_USE;

// Appends n bytes at the current end (append: one thread), or writes them at an offset (pwrite: any thread, distinct
// ranges). After a failure the file can only be aborted.
fm_status fm_atomic_file_append(fm_atomic_file *file, const void *bytes, size_t n, fm_err *err) FM_MUST_USE;
fm_status fm_atomic_file_pwrite(fm_atomic_file *file, const void *bytes, size_t n, uint64_t offset,
                                fm_err *err) FM_MUST_USE;

// Bytes appended so far.
uint64_t fm_atomic_file_size(const fm_atomic_file *file);

// Starts writing bytes [offset, offset + n) to disk and, where they have been written, drops them from the page cache:
// a long job then has little left to sync at the end. A hint; cannot fail.
void fm_atomic_file_flush_behind(fm_atomic_file *file, uint64_t offset, uint64_t n);

// Syncs what was written so far, so that commit has little left to do and little that can fail: several files that belong
// together are all synced before the first gets its name. sync_seconds: how long it took.
fm_status fm_atomic_file_sync(const fm_atomic_file *file, double *sync_seconds, fm_err *err) FM_MUST_USE;

// Syncs and renames; *file is destroyed and set to NULL in every case. On failure nothing is left behind and the old file is
// untouched, except when only the directory's sync failed: then the new file is in place, whole, and the message says
// so. Without force, a target that appeared meanwhile is refused.
// sync_seconds (may be NULL): how long the syncs took.
fm_status fm_atomic_file_commit(fm_atomic_file **file, double *sync_seconds, fm_err *err) FM_MUST_USE;

// Removes what was written; *file is destroyed and set to NULL. NULL in *file is fine: call it on every failure path.
void fm_atomic_file_abort(fm_atomic_file **file);

// The whole of `bytes` as the file `path`.
fm_status fm_atomic_file_write(const char *path, const void *bytes, size_t n, bool force, fm_err *err) FM_MUST_USE;

// True when both paths name the same existing file (links followed).
bool fm_same_file(const char *a, const char *b);
#endif

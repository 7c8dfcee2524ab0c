#include "base/data.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/buf.h"

enum { LEVELS = 4 };

// True when folder/relative is there; the path is then in *path.
static bool has(fm_buf *path, const char *folder, const char *below, const char *relative)
{
    fm_buf_clear(path);
    fm_buf_printf(path, "%s%s/%s", folder, below, relative);
    return !path->failed && access(path->data, R_OK) == 0;
}

// The folder that the running program lies in, without a slash at its end.
static bool program_folder(char folder[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (n <= 0)
        return false;
    folder[n] = 0;
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
    return slash != NULL;
}

static bool find(fm_buf *path, const char *relative)
{
    const char *asked = getenv("FLOODMARK_DATA");
    char folder[PATH_MAX];
    if (asked && *asked)
        return has(path, asked, "", relative); // asked for by name: nothing else will do
    if (program_folder(folder)) {
        if (has(path, folder, "/../share/floodmark", relative))
            return true;
        for (int level = 0; level < LEVELS; level++) {
            char *slash = strrchr(folder, '/');
            if (!slash)
                break;
            *slash = 0;
            if (has(path, folder, "/data", relative))
                return true;
        }
    }
    return has(path, FM_SOURCE_DATA_DIR, "", relative) || has(path, FM_INSTALLED_DATA_DIR, "", relative);
}

fm_status fm_data_path(const char *relative, char **out, fm_err *err)
{
    fm_buf path = {0};
    bool found = find(&path, relative);
    fm_status status = fm_buf_check(&path, err);
    if (status == FM_OK && !found)
        status =
            fm_fail(err, FM_ERR_NOT_FOUND,
                    "%s: not among the files shipped with the tool (looked in $FLOODMARK_DATA, beside the program, "
                    "%s and %s; set FLOODMARK_DATA to the data folder)",
                    relative, FM_SOURCE_DATA_DIR, FM_INSTALLED_DATA_DIR);
    char *text = status == FM_OK ? fm_buf_take(&path, NULL) : NULL;
    fm_buf_reset(&path);
    if (status == FM_OK && !text)
        status = fm_fail_memory(err, "a path");
    if (status == FM_OK)
        *out = text;
    return status;
}

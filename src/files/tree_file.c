#include <string.h>
#include "files/slurp.h"
#include "floodmark/tree.h"

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

fm_status fm_tree_read(const char *path, fm_tree **out, fm_err *err)
{
    fm_buf text = {0};
    bool is_yaml = ends_with(path, ".yaml") || ends_with(path, ".yml");
    fm_status status = fm_slurp(path, FM_TREE_MAX_BYTES, &text, err);
    if (!status)
        status = (is_yaml ? fm_tree_parse_yaml : fm_tree_parse_json)(fm_buf_text(&text), text.size, path, out, err);
    fm_buf_reset(&text);
    return status;
}

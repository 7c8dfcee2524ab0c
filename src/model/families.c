#include <string.h>
#include "model/family.h"

const fm_family *const fm_families[] = {
#define FM_FAMILY_ROW(c) &fm_family_##c,
    FM_FAMILY_LIST(FM_FAMILY_ROW)
#undef FM_FAMILY_ROW
        NULL,
};

// Is `word` one of the words of a list joined by '|'?
static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; n && p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (!strncmp(p, word, n) && (p[n] == '|' || p[n] == '\0'))
            return true;
    return false;
}

const fm_family *fm_family_find(const char *model_type)
{
    for (const fm_family *const *f = fm_families; *f; f++)
        if (listed((*f)->model_types, model_type))
            return *f;
    return NULL;
}

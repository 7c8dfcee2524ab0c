#include "base/fault.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

atomic_bool fm_fault_armed_;

static struct {
    atomic_bool armed;
    atomic_uint_fast64_t calls;
    uint64_t nth;
    bool stays;
} kinds[FM_FAULT_KINDS];

static const struct {
    const char *word;
    int number;
} names[FM_FAULT_KINDS] = {
#define FM_FAULT_NAME(kind, word, number) {word, number},
    FM_FAULT_LIST(FM_FAULT_NAME)
#undef FM_FAULT_NAME
};

void fm_fault_arm(fm_fault_kind kind, uint64_t nth, bool stays)
{
    kinds[kind].nth = nth;
    kinds[kind].stays = stays;
    atomic_store(&kinds[kind].calls, 0);
    atomic_store(&kinds[kind].armed, true);
    atomic_store(&fm_fault_armed_, true);
}

void fm_fault_disarm(void)
{
    atomic_store(&fm_fault_armed_, false);
    for (int k = 0; k < FM_FAULT_KINDS; k++) {
        atomic_store(&kinds[k].armed, false);
        atomic_store(&kinds[k].calls, 0);
    }
}

uint64_t fm_fault_calls(fm_fault_kind kind)
{
    return atomic_load(&kinds[kind].armed) ? atomic_load(&kinds[kind].calls) : 0;
}

bool fm_fault_strike(fm_fault_kind kind)
{
    if (!atomic_load(&kinds[kind].armed))
        return false;
    uint64_t call = atomic_fetch_add(&kinds[kind].calls, 1) + 1;
    uint64_t nth = kinds[kind].nth;
    if (nth == 0 || call < nth || (call > nth && !kinds[kind].stays))
        return false;
    errno = names[kind].number;
    return true;
}

// One "word:N" or "word:N+" of n bytes.
static bool arm_one(const char *s, size_t n)
{
    for (int k = 0; k < FM_FAULT_KINDS; k++) {
        size_t word = strlen(names[k].word);
        if (n < word + 2 || memcmp(s, names[k].word, word) != 0 || s[word] != ':')
            continue;
        char *end;
        errno = 0;
        unsigned long long nth = strtoull(s + word + 1, &end, 10);
        bool stays = end < s + n && *end == '+';
        if (errno || s[word + 1] < '0' || s[word + 1] > '9' || end + stays != s + n)
            return false;
        fm_fault_arm((fm_fault_kind)k, nth, stays);
        return true;
    }
    return false;
}

fm_status fm_fault_arm_from_env(fm_err *err)
{
    const char *s = getenv("FLOODMARK_FAULT");
    while (s && *s) {
        size_t n = strcspn(s, ",");
        if (!arm_one(s, n))
            return fm_fail(err, FM_ERR_USAGE,
                           "FLOODMARK_FAULT: \"%.*s\" is not KIND:N or KIND:N+ (kinds: alloc, open, read, write, sync, "
                           "rename, map, thread); unset it",
                           (int)n, s);
        s += n;
        s += *s == ',';
    }
    return FM_OK;
}

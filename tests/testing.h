// What every unit test includes: cmocka and the headers that it wants before itself.
#ifndef FM_TESTING_H
#define FM_TESTING_H
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "floodmark/status.h"

// The call must succeed; its message is shown when it does not. `err` is a variable in scope.
#define FM_ASSERT_OK(call)                          \
    do {                                            \
        if ((call) != FM_OK)                        \
            fail_msg("%s: %s", #call, err.message); \
    } while (0)

// The call must fail with this code.
#define FM_ASSERT_FAILS(call, wanted)                                                                                 \
    do {                                                                                                              \
        fm_status got_ = (call);                                                                                      \
        if (got_ != (wanted))                                                                                         \
            fail_msg("%s: %s, expected %s (%s)", #call, fm_status_words(got_), fm_status_words(wanted), err.message); \
    } while (0)

enum { FM_TEST_SKIPPED = 77 }; // the exit status by which Meson knows a skipped test

// The folder of fixtures made by other software, or NULL after saying why not (then return FM_TEST_SKIPPED from main).
static inline const char *fm_test_shared(void)
{
    const char *path = getenv("FLOODMARK_SHARED");
    FILE *readme = NULL;
    if (path) {
        char name[4096];
        snprintf(name, sizeof name, "%s/DESIGN.md", path);
        readme = fopen(name, "r");
    }
    if (!readme) {
        printf("skipped: the shared fixtures are not there (FLOODMARK_SHARED=%s)\n", path ? path : "");
        return NULL;
    }
    fclose(readme);
    return path;
}
#endif

// Injected failures for tests: "the Nth allocation fails", "every write from the Nth on fails". The allocator (alloc.h)
// and the input/output calls (io.h) ask here before they do their work. When nothing is armed the cost is one relaxed
// atomic load. The state is process-wide because what it imitates (memory, a disk) is; it is the one exception to
// "no globals" and nothing but tests arms it.
#ifndef FM_BASE_FAULT_H
#define FM_BASE_FAULT_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "floodmark/status.h"

// Kind, its word in FLOODMARK_FAULT, and the errno an injected failure reports.
#define FM_FAULT_LIST(X)               \
    X(FM_FAULT_ALLOC, "alloc", ENOMEM) \
    X(FM_FAULT_OPEN, "open", EMFILE)   \
    X(FM_FAULT_READ, "read", EIO)      \
    X(FM_FAULT_WRITE, "write", ENOSPC) \
    X(FM_FAULT_SYNC, "sync", EIO)      \
    X(FM_FAULT_RENAME, "rename", EIO)  \
    X(FM_FAULT_MAP, "map", ENOMEM)     \
    X(FM_FAULT_THREAD, "thread", EAGAIN)

#define FM_FAULT_ENUM(kind, word, number) kind,
typedef enum { FM_FAULT_LIST(FM_FAULT_ENUM) FM_FAULT_KINDS } fm_fault_kind;
#undef FM_FAULT_ENUM

extern atomic_bool fm_fault_armed_; // private to the inline test below

// Arms: the nth call of that kind from now on (nth counts from 1) fails, once; or, with `stays`, it and all after it.
// Counting starts anew. nth 0: only count. Arming one kind disarms no other. Threads: arm while no other thread works.
void fm_fault_arm(fm_fault_kind kind, uint64_t nth, bool stays);

// Disarms every kind and stops counting.
void fm_fault_disarm(void);

// How many calls of that kind were made since it was armed (failed ones included). 0 when it is not armed.
uint64_t fm_fault_calls(fm_fault_kind kind);

// Arms from the environment: FLOODMARK_FAULT="write:3", or "write:3+" for the third and all after it, or several joined
// by commas. Unset: does nothing. For main() only. Fails with FM_ERR_USAGE on anything else.
fm_status fm_fault_arm_from_env(fm_err *err) FM_MUST_USE;

// Counts a call; true when it must fail, with errno set. Called by the wrappers.
bool fm_fault_strike(fm_fault_kind kind);

static inline bool fm_fault(fm_fault_kind kind)
{
    return atomic_load_explicit(&fm_fault_armed_, memory_order_relaxed) && fm_fault_strike(kind);
}
#endif

// The definition, with what happened to the value. Private to this room; callers use floodmark/number.h.
#ifndef FM_NUMBER_ENCODE_H
#define FM_NUMBER_ENCODE_H
#include "floodmark/number.h"

typedef enum {
    FM_EVENT_NONE,
    FM_EVENT_NAN,
    FM_EVENT_INFINITE,
    FM_EVENT_OVERFLOWED,
    FM_EVENT_SATURATED,
    FM_EVENT_ZEROED
} fm_event;

// Encodes x with the random word r (stochastic rounding only) and names the one event of fm_convert_counts.
uint32_t fm_number_encode_event(const fm_number_format *f, double x, fm_rounding rounding, bool saturate, uint32_t r,
                                fm_event *event);
#endif

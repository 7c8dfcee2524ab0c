// What `plan` shows: the figures of one plan, gathered, and the ways of showing them.
#ifndef FM_COMMAND_PLAN_VIEW_H
#define FM_COMMAND_PLAN_VIEW_H
#include "base/buf.h"
#include "base/units.h"
#include "floodmark/machine.h"
#include "floodmark/recipe.h"

enum { FM_VIEW_PHASES = 32, FM_VIEW_PARTS = 40 };

typedef struct {
    const char *name;               // "backward2"
    uint64_t peak_bytes, end_bytes; // level of the device
    size_t first;                   // its first point in `series`
} fm_view_phase;

typedef struct {
    const char *name, *words; // of the role
    uint64_t bytes;
} fm_view_part;

// Everything is borrowed.
typedef struct {
    const char *model;
    uint64_t n_params;
    const fm_recipe *recipe; // resolved
    const fm_machine *machine;
    fm_view_phase phases[FM_VIEW_PHASES]; // in the order of time
    size_t n_phases, peak_phase;
    fm_view_phase steady;                // the second step as a whole
    fm_view_part at_peak[FM_VIEW_PARTS]; // those that are not 0
    size_t n_at_peak;
    uint64_t peak_bytes;
    struct {
        uint64_t parameters, gradients, optimizer, master; // per rank, by arithmetic, after backward
    } states;
    uint64_t host_peak_bytes; // of one rank
    const uint64_t *series;   // [n_series] device level after each instruction; NULL: no timeline
    size_t n_series;
    const char *notes[16];
    size_t n_notes;
} fm_plan_view;

typedef enum { FM_VERDICT_FITS, FM_VERDICT_TIGHT, FM_VERDICT_DOES_NOT_FIT } fm_verdict;

typedef struct {
    fm_verdict verdict;
    uint64_t memory_bytes;    // what the framework sees
    uint64_t reserve_bytes;   // of that, kept for what no program shows: the driver's context, libraries' workspaces
    int64_t spare_bytes;      // memory - reserve - peak
    bool host;                // the host's memory is what does not suffice
    uint64_t host_node_bytes; // needed by the ranks of one node
} fm_view_verdict;

// fits: at least a tenth of the memory is left for what the allocator cannot use (fragmentation). tight: less.
// does not fit: the peak is above what is left beside the reserve, or the ranks of a node need more than its host has.
fm_view_verdict fm_view_judge(const fm_plan_view *view);
const char *fm_verdict_text(fm_verdict verdict); // "fits", "tight", "does not fit"

// The report for a terminal: verdict, roles at the peak, phases, timeline, states, warnings. `width` columns.
fm_status fm_view_text(const fm_plan_view *view, fm_units units, unsigned width, fm_buf *out, fm_err *err) FM_MUST_USE;

// One JSON object with a line end.
fm_status fm_view_json(const fm_plan_view *view, fm_buf *out, fm_err *err) FM_MUST_USE;

// A picture of the timeline, with the phases and the memory's limit.
fm_status fm_view_svg(const fm_plan_view *view, fm_units units, fm_buf *out, fm_err *err) FM_MUST_USE;

// The timeline drawn in letters: `rows` high, `width` columns in all.
void fm_view_timeline(const fm_plan_view *view, fm_units units, unsigned width, unsigned rows, fm_buf *out);

// The highest level within column `column` of `columns` equal parts of the series; never less than any point in it.
uint64_t fm_view_column(const fm_plan_view *view, size_t column, size_t columns);

// The timeline as text for other programs: "instruction<TAB>phase<TAB>bytes", a line each change.
fm_status fm_view_emit_timeline(const fm_plan_view *view, fm_buf *out, fm_err *err) FM_MUST_USE;
#endif

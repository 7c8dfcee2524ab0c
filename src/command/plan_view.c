// The judgement on a plan, and its series looked at in columns.
#include "command/plan_view.h"
#include <inttypes.h>
#include "base/checked.h"

// The CUDA context, cuBLAS's and NCCL's workspaces and the loaded kernels take 0.4 to 1 GiB of a data-centre GPU; half a GiB is
// what a run with few kernels shows (nvidia-smi less torch's reserved memory).
static const uint64_t gpu_reserve_bytes = (uint64_t)512 << 20;

const char *fm_verdict_text(fm_verdict verdict)
{
    static const char *const text[] = {"fits", "tight", "does not fit"};
    return (unsigned)verdict < 3 ? text[verdict] : "";
}

fm_view_verdict fm_view_judge(const fm_plan_view *view)
{
    const fm_machine *m = view->machine;
    fm_view_verdict v = {.memory_bytes = m->gpu.memory_bytes};
    v.reserve_bytes = m->gpu.vendor == FM_VENDOR_CPU ? 0 : gpu_reserve_bytes;
    uint64_t usable = v.memory_bytes > v.reserve_bytes ? v.memory_bytes - v.reserve_bytes : 0;
    uint64_t apart = usable >= view->peak_bytes ? usable - view->peak_bytes : view->peak_bytes - usable;
    v.spare_bytes = (int64_t)(apart < INT64_MAX ? apart : INT64_MAX);
    v.spare_bytes = usable >= view->peak_bytes ? v.spare_bytes : -v.spare_bytes;
    if (!fm_mul_u64(view->host_peak_bytes, (uint64_t)m->gpus_per_node, &v.host_node_bytes))
        v.host_node_bytes = UINT64_MAX;
    v.host = m->gpu.vendor != FM_VENDOR_CPU && v.host_node_bytes > m->host_bytes;
    if (v.spare_bytes < 0 || v.host)
        v.verdict = FM_VERDICT_DOES_NOT_FIT;
    else if ((uint64_t)v.spare_bytes < usable / 10)
        v.verdict = FM_VERDICT_TIGHT;
    v.host = v.host && v.spare_bytes >= 0; // named only where it is the reason
    return v;
}

uint64_t fm_view_column(const fm_plan_view *view, size_t column, size_t columns)
{
    size_t first = (size_t)((unsigned __int128)view->n_series * column / columns);
    size_t end = (size_t)((unsigned __int128)view->n_series * (column + 1) / columns);
    uint64_t highest = 0;
    if (end == first)
        end = first + 1;
    for (size_t i = first; i < end && i < view->n_series; i++)
        if (view->series[i] > highest)
            highest = view->series[i];
    return highest;
}

fm_status fm_view_emit_timeline(const fm_plan_view *view, fm_buf *out, fm_err *err)
{
    size_t phase = 0;
    fm_buf_add_text(out, "# instruction\tphase\tbytes\n");
    for (size_t i = 0; i < view->n_series; i++) {
        while (phase + 1 < view->n_phases && view->phases[phase + 1].first <= i)
            phase++;
        if (i && view->series[i] == view->series[i - 1] && view->phases[phase].first != i)
            continue;
        fm_buf_printf(out, "%zu\t%s\t%" PRIu64 "\n", i, view->phases[phase].name, view->series[i]);
    }
    return fm_buf_check(out, err);
}

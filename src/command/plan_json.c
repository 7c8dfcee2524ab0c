// A plan as JSON: the keys of the design, all sizes whole bytes of one rank.
#include "command/plan_view.h"
#include "recipe/recipe_json.h"

static void put_machine(fm_json *j, const fm_machine *m)
{
    fm_json_key(j, "machine");
    fm_json_begin_object(j);
    fm_json_put_text(j, "name", m->text);
    fm_json_put_i64(j, "nodes", m->nodes);
    fm_json_put_i64(j, "gpus_per_node", m->gpus_per_node);
    fm_json_put_i64(j, "world", m->world);
    fm_json_put_f64(j, "intra_bytes_per_s", m->intra_bytes_per_s);
    fm_json_put_f64(j, "inter_bytes_per_s", m->inter_bytes_per_s);
    fm_json_put_u64(j, "host_bytes", m->host_bytes);
    fm_json_put_bool(j, "host_stated", m->host_stated);
    fm_json_key(j, "gpu");
    fm_json_begin_object(j);
    fm_json_put_text(j, "name", m->gpu.name);
    fm_json_put_text(j, "vendor", fm_vendor_text(m->gpu.vendor));
    fm_json_put_u64(j, "memory_bytes", m->gpu.memory_bytes);
    fm_json_put_bool(j, "memory_measured", m->gpu.memory_measured);
    fm_json_put_u64(j, "capability", m->gpu.capability);
    fm_json_put_u64(j, "n_sms", m->gpu.n_sms);
    fm_json_put_f64(j, "memory_bytes_per_s", m->gpu.memory_bytes_per_s);
    fm_json_key(j, "flops");
    fm_json_begin_object(j);
    for (int r = 0; r < FM_N_RATES; r++)
        if (m->gpu.flops[r] > 0)
            fm_json_put_f64(j, fm_rate_text((fm_rate)r), m->gpu.flops[r]);
    fm_json_end_object(j);
    fm_json_put_text(j, "source", m->gpu.source);
    fm_json_end_object(j);
    fm_json_end_object(j);
}

static void put_phase(fm_json *j, const fm_view_phase *phase)
{
    fm_json_begin_object(j);
    fm_json_put_text(j, "name", phase->name);
    fm_json_put_u64(j, "peak_bytes", phase->peak_bytes);
    fm_json_put_u64(j, "end_bytes", phase->end_bytes);
    fm_json_end_object(j);
}

static void put_phases(fm_json *j, const fm_plan_view *view)
{
    fm_json_key(j, "phases");
    fm_json_begin_array(j);
    for (size_t i = 0; i < view->n_phases; i++)
        put_phase(j, &view->phases[i]);
    put_phase(j, &view->steady);
    fm_json_end_array(j);
}

static void put_states(fm_json *j, const fm_plan_view *view)
{
    fm_json_key(j, "at_peak");
    fm_json_begin_object(j);
    for (size_t i = 0; i < view->n_at_peak; i++)
        fm_json_put_u64(j, view->at_peak[i].name, view->at_peak[i].bytes);
    fm_json_end_object(j);
    fm_json_key(j, "states");
    fm_json_begin_object(j);
    fm_json_put_u64(j, "parameters", view->states.parameters);
    fm_json_put_u64(j, "gradients", view->states.gradients);
    fm_json_put_u64(j, "optimizer", view->states.optimizer);
    fm_json_put_u64(j, "master", view->states.master);
    fm_json_put_u64(j, "total",
                    view->states.parameters + view->states.gradients + view->states.optimizer + view->states.master);
    fm_json_end_object(j);
}

fm_status fm_view_json(const fm_plan_view *view, fm_buf *out, fm_err *err)
{
    fm_json json, *j = &json;
    fm_view_verdict v = fm_view_judge(view);
    fm_json_init(j, out, true);
    fm_json_begin_object(j);
    fm_json_put_text(j, "verdict", fm_verdict_text(v.verdict));
    fm_json_put_u64(j, "peak_bytes", view->peak_bytes);
    fm_json_put_text(j, "peak_phase", view->n_phases ? view->phases[view->peak_phase].name : "");
    fm_json_put_u64(j, "memory_bytes", v.memory_bytes);
    fm_json_put_u64(j, "reserve_bytes", v.reserve_bytes);
    fm_json_put_i64(j, "spare_bytes", v.spare_bytes);
    fm_json_put_u64(j, "host_peak_bytes", view->host_peak_bytes);
    fm_json_put_text(j, "model", view->model);
    fm_json_put_u64(j, "n_params", view->n_params);
    put_phases(j, view);
    put_states(j, view);
    fm_json_key(j, "recipe");
    fm_recipe_json(view->recipe, j);
    put_machine(j, view->machine);
    fm_json_key(j, "warnings");
    fm_json_begin_array(j);
    for (uint32_t i = 0; i < view->recipe->n_warnings; i++)
        fm_json_text(j, view->recipe->warning[i]);
    fm_json_end_array(j);
    fm_json_key(j, "notes");
    fm_json_begin_array(j);
    for (size_t i = 0; i < view->n_notes; i++)
        fm_json_text(j, view->notes[i]);
    fm_json_end_array(j);
    fm_json_end_object(j);
    return fm_json_finish(j, err);
}

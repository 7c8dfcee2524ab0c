// Engine `ddp`: torch.nn.parallel.DistributedDataParallel. Whole parameters on every rank; one more copy of all gradients in buckets, from
// construction on, which the all-reduce works in (gradient_as_bucket_view is off by default, so gradients exist beside it).
// Source: torch 2.13, torch/nn/parallel/distributed.py; torch/csrc/distributed/c10d/{reducer,comm}.cpp. In the first step there is one
// bucket for each type, afterwards 25 MB ones: the total stays, and the exact cases keep the one.
#include "program/step.h"
#include <string.h>

typedef struct {
    uint64_t buffer_bytes; // of the buffers that are broadcast together, when there are two or more
    bool sync_buffers;     // this forward broadcasts buffers: the last backward reduced
} ddp;

static uint64_t in_the_recipes_type(const fm_run *run, const fm_parameter *p)
{
    return p->elem == (uint8_t)fm_elem_of(run->recipe->param) ? p->n_elems : 0;
}

static uint64_t always_in_fp32(const fm_run *run, const fm_parameter *p)
{
    return p->n_elems - in_the_recipes_type(run, p);
}

static void init(fm_run *run)
{
    fm_tape *t = &run->tape;
    fm_make_whole_parameters(run);
    uint64_t elems[8] = {0}; // by type
    for (uint32_t i = 0; i < run->n_parameters; i++)
        if (run->parameters[i].original)
            elems[run->parameters[i].elem & 7] += run->parameters[i].n_elems;
    elems[fm_elem_of(run->recipe->param) & 7] += fm_run_missing(run, in_the_recipes_type, NULL);
    elems[FM_ELEM_F32] += fm_run_missing(run, always_in_fp32, NULL);
    for (unsigned e = 0; e < 8; e++)
        if (elems[e])
            fm_tensor_on(t, FM_TIER_DEVICE, FM_ROLE_BUCKET, elems[e], (fm_elem)e, "bucket");
    ddp *d = fm_tape_alloc(t, sizeof *d);
    run->engine_state = d;
    d->sync_buffers = true;
    uint32_t n = 0;
    for (size_t i = 0; i < fm_model_n_buffers(run->model); i++) {
        const fm_model_buffer *b = fm_model_buffer_at(run->model, i);
        if (!strcmp(b->dtype, "float32")) {
            d->buffer_bytes += b->bytes;
            n++;
        }
    }
    if (n < 2)
        d->buffer_bytes = 0;
}

// Buffers are broadcast from rank 0 before a forward, flattened into one tensor.
static void before_microbatch(fm_run *run)
{
    ddp *d = run->engine_state;
    if (d->sync_buffers && d->buffer_bytes)
        fm_tensor_release(&run->tape,
                          fm_tensor_on(&run->tape, FM_TIER_DEVICE, FM_ROLE_BUCKET, d->buffer_bytes, FM_ELEM_U8, "cat"));
    d->sync_buffers = run->recipe->sync == FM_SYNC_EACH || run->last_microbatch;
}

const fm_engine fm_engine_ddp = {.name = "ddp", .init = init, .before_microbatch = before_microbatch};

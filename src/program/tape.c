#include "program/tape.h"
#include "base/alloc.h"
#include "program/tape_private.h"
#include <string.h>

// Objects come from slabs with free lists: a plan of a big model makes a hundred thousand of them, and all end together.
enum { SLAB_BYTES = 1 << 18 };

struct slab {
    struct slab *next;
    size_t used;
    unsigned char bytes[];
};

void *fm_pool_take(fm_pool *pool, fm_pool_kind kind, size_t bytes)
{
    void *object = pool->free_list[kind];
    if (object) {
        memcpy(&pool->free_list[kind], object, sizeof(void *));
    } else {
        if (!pool->slabs || pool->slabs->used + bytes > SLAB_BYTES) {
            struct slab *s = fm_alloc(sizeof *s + SLAB_BYTES);
            if (!s)
                return NULL;
            s->next = pool->slabs;
            s->used = 0;
            pool->slabs = s;
        }
        object = pool->slabs->bytes + pool->slabs->used;
        pool->slabs->used += (bytes + 15) & ~(size_t)15;
    }
    memset(object, 0, bytes);
    return object;
}

void fm_pool_give(fm_pool *pool, fm_pool_kind kind, void *object)
{
    memcpy(object, &pool->free_list[kind], sizeof(void *));
    pool->free_list[kind] = object;
}

// Memory is gone: leave the recording altogether. Everything a recording makes lives in the slabs or in the program, so a jump leaks nothing.
static _Noreturn void give_up(fm_tape *t)
{
    t->status = fm_fail(&t->err, FM_ERR_NO_MEMORY, "plan: out of memory while recording the step");
    longjmp(t->escape, 1);
}

static void *take(fm_tape *t, fm_pool_kind kind, size_t bytes)
{
    void *object = fm_pool_take(t->pool, kind, bytes);
    if (!object)
        give_up(t);
    return object;
}

void *fm_tape_alloc(fm_tape *t, size_t bytes)
{
    if (bytes <= SLAB_BYTES / 4) {
        void *object = fm_pool_take(t->pool, FM_POOL_OTHER, bytes);
        if (!object)
            give_up(t);
        return object;
    }
    struct slab *s = fm_calloc(1, sizeof *s + bytes); // a slab of its own, behind the current one
    if (!s)
        give_up(t);
    s->used = bytes;
    if (t->pool->slabs) {
        s->next = t->pool->slabs->next;
        t->pool->slabs->next = s;
    } else {
        s->used = SLAB_BYTES;
        t->pool->slabs = s;
    }
    return s->bytes;
}

fm_status fm_tape_init(fm_tape *t, fm_program *program, fm_err *err)
{
    memset(t, 0, sizeof *t);
    t->pool = fm_calloc(1, sizeof *t->pool);
    t->cast_cache = fm_calloc(1, sizeof *t->cast_cache);
    if (!t->pool || !t->cast_cache) {
        fm_free(t->pool);
        fm_free(t->cast_cache);
        t->pool = NULL;
        t->cast_cache = NULL;
        return fm_fail(err, FM_ERR_NO_MEMORY, "plan: out of memory");
    }
    t->program = program;
    t->grad_enabled = true;
    t->round = FM_NO_ROUND;
    if (setjmp(t->escape))
        return fm_tape_status(t, err);
    fm_tape_path(t, "");
    return FM_OK;
}

void fm_tape_finish(fm_tape *t)
{
    if (t->pool)
        for (struct slab *s = t->pool->slabs, *next; s; s = next) {
            next = s->next;
            fm_free(s);
        }
    fm_free(t->pool);
    fm_free(t->cast_cache);
    t->pool = NULL;
    t->cast_cache = NULL;
}

fm_status fm_tape_status(const fm_tape *t, fm_err *err)
{
    if (t->status != FM_OK && err)
        *err = t->err;
    return t->status;
}

static void grow(fm_tape *t, void **array, size_t *capacity, size_t count, size_t item)
{
    if (count < *capacity)
        return;
    size_t wanted = *capacity ? 2 * *capacity : 1024;
    void *bigger = fm_realloc_array(*array, wanted, item);
    if (!bigger)
        give_up(t);
    *array = bigger;
    *capacity = wanted;
}

static void record(fm_tape *t, fm_event_kind kind, uint32_t subject)
{
    fm_program *p = t->program;
    grow(t, (void **)&p->events, &p->cap_events, p->n_events, sizeof *p->events);
    p->events[p->n_events++] = (fm_event){.subject = subject, .kind = (uint8_t)kind, .step = t->step};
}

void fm_tape_phase(fm_tape *t, fm_phase phase, uint8_t step)
{
    t->phase = (uint8_t)phase;
    t->step = step;
    t->round = FM_NO_ROUND;
    record(t, FM_EVENT_PHASE, phase);
}

void fm_tape_round(fm_tape *t, uint32_t index)
{
    t->round = index;
    if (!t->mute)
        record(t, FM_EVENT_ROUND, index);
}

static uint64_t hash_text(const char *s)
{
    uint64_t h = 1469598103934665603u; // FNV-1a
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

static void index_path(fm_pool *pool, char *const *modules, uint32_t module)
{
    size_t mask = pool->n_slots - 1, i = hash_text(modules[module]) & mask;
    while (pool->slots[i])
        i = (i + 1) & mask;
    pool->slots[i] = module + 1;
}

uint32_t fm_tape_path(fm_tape *t, const char *full)
{
    fm_program *p = t->program;
    fm_pool *pool = t->pool;
    if (2 * (p->n_modules + 1) > pool->n_slots) {
        pool->n_slots = pool->n_slots ? 2 * pool->n_slots : 1024;
        pool->slots = fm_tape_alloc(t, pool->n_slots * sizeof *pool->slots);
        for (uint32_t i = 0; i < p->n_modules; i++)
            index_path(pool, p->modules, i);
    }
    size_t mask = pool->n_slots - 1;
    for (size_t i = hash_text(full) & mask; pool->slots[i]; i = (i + 1) & mask)
        if (!strcmp(p->modules[pool->slots[i] - 1], full))
            return pool->slots[i] - 1;
    grow(t, (void **)&p->modules, &p->cap_modules, p->n_modules, sizeof *p->modules);
    char *copy = fm_strdup(full);
    if (!copy)
        give_up(t);
    p->modules[p->n_modules] = copy;
    index_path(pool, p->modules, (uint32_t)p->n_modules);
    return (uint32_t)p->n_modules++;
}

uint32_t fm_tape_enter(fm_tape *t, const char *module)
{
    uint32_t previous = t->module;
    const char *base = t->program->n_modules ? t->program->modules[previous] : "";
    char full[256];
    size_t n_base = strlen(base), n_name = strlen(module);
    if (n_base + n_name + 2 <= sizeof full) {
        memcpy(full, base, n_base + 1);
        if (n_base)
            full[n_base++] = '.';
        memcpy(full + n_base, module, n_name + 1);
        t->module = fm_tape_path(t, full);
    }
    return previous;
}

void fm_tape_leave(fm_tape *t, uint32_t previous)
{
    t->module = previous;
}

uint64_t fm_elem_bytes(fm_elem e)
{
    static const uint8_t bytes[] = {[FM_ELEM_F32] = 4, [FM_ELEM_BF16] = 2, [FM_ELEM_F16] = 2,  [FM_ELEM_F64] = 8,
                                    [FM_ELEM_I64] = 8, [FM_ELEM_I32] = 4,  [FM_ELEM_BOOL] = 1, [FM_ELEM_U8] = 1};
    return bytes[e];
}

// What memory born now is for, unless an engine says otherwise.
static fm_role role_of_phase(const fm_tape *t)
{
    if (t->role_forced)
        return t->role;
    switch ((fm_phase)t->phase) {
    case FM_PHASE_FORWARD:
        return FM_ROLE_ACTIVATION;
    case FM_PHASE_LOSS:
        return FM_ROLE_LOSS;
    case FM_PHASE_BACKWARD:
        return t->recomputing ? FM_ROLE_RECOMPUTED : FM_ROLE_BACKWARD;
    case FM_PHASE_CLIP:
        return FM_ROLE_CLIP;
    case FM_PHASE_OPTIMIZER:
        return FM_ROLE_STEP;
    default:
        return FM_ROLE_OTHER;
    }
}

static uint32_t life_begin(fm_tape *t, const fm_storage *s, const char *op, fm_event_kind kind)
{
    fm_program *p = t->program;
    grow(t, (void **)&p->lives, &p->cap_lives, p->n_lives, sizeof *p->lives);
    p->lives[p->n_lives] = (fm_life){.bytes = s->bytes,
                                     .op = op,
                                     .module = t->module,
                                     .role = s->role,
                                     .tier = s->tier,
                                     .stream = s->stream,
                                     .phase = t->phase,
                                     .step = t->step};
    uint32_t life = (uint32_t)p->n_lives++;
    record(t, kind, life);
    return life;
}

void fm_tape_scratch(fm_tape *t, uint64_t bytes, const char *op)
{
    if (t->mute || !t->record_scratch || !bytes)
        return;
    fm_storage s = {.bytes = bytes, .role = FM_ROLE_SCRATCH, .tier = FM_TIER_DEVICE, .stream = t->stream};
    life_begin(t, &s, op, FM_EVENT_SCRATCH);
}

static fm_storage *storage_new(fm_tape *t, uint64_t bytes, const char *op, fm_tier tier, fm_role role)
{
    fm_storage *s = take(t, FM_POOL_STORAGE, sizeof *s);
    s->refs = 1;
    s->bytes = bytes;
    s->role = (uint8_t)role;
    s->tier = (uint8_t)tier;
    s->stream = t->stream;
    s->counted = !t->mute;
    if (s->counted && bytes)
        s->life = life_begin(t, s, op, FM_EVENT_ALLOC);
    return s;
}

static void storage_release(fm_tape *t, fm_storage *s)
{
    if (--s->refs)
        return;
    if (s->counted && s->bytes)
        record(t, FM_EVENT_FREE, s->life);
    fm_pool_give(t->pool, FM_POOL_STORAGE, s);
}

void fm_storage_resize(fm_tape *t, fm_storage *s, uint64_t bytes, const char *op)
{
    if (s->bytes == bytes)
        return;
    if (s->bytes)
        record(t, FM_EVENT_FREE, s->life);
    s->bytes = bytes;
    if (bytes)
        s->life = life_begin(t, s, op, FM_EVENT_ALLOC);
}

void fm_storage_role(fm_tape *t, fm_storage *s, fm_role role)
{
    s->role = (uint8_t)role;
    if (s->counted && s->bytes && s->life < t->program->n_lives)
        t->program->lives[s->life].role = (uint8_t)role;
}

static fm_tensor *tensor_object(fm_tape *t, unsigned n_dims, const int64_t *shape, fm_elem elem)
{
    fm_tensor *x = take(t, FM_POOL_TENSOR, sizeof *x);
    x->refs = 1;
    x->n_dims = (uint8_t)n_dims;
    x->elem = (uint8_t)elem;
    x->is_leaf = true;
    if (n_dims)
        memcpy(x->shape, shape, n_dims * sizeof *shape);
    return x;
}

static void contiguous_strides(unsigned n_dims, const int64_t *shape, int64_t *stride)
{
    int64_t step = 1;
    for (unsigned i = n_dims; i-- > 0;) {
        stride[i] = step;
        step *= shape[i] > 0 ? shape[i] : 1;
    }
}

fm_tensor *fm_tensor_new(fm_tape *t, unsigned n_dims, const int64_t *shape, fm_elem elem, const char *op)
{
    int64_t stride[FM_MAX_DIMS];
    contiguous_strides(n_dims, shape, stride);
    return fm_tensor_new_strided(t, n_dims, shape, stride, elem, op);
}

fm_tensor *fm_tensor_new_strided(fm_tape *t, unsigned n_dims, const int64_t *shape, const int64_t *stride, fm_elem elem,
                                 const char *op)
{
    fm_tensor *x = tensor_object(t, n_dims, shape, elem);
    memcpy(x->stride, stride, n_dims * sizeof *stride);
    uint64_t bytes = (uint64_t)fm_tensor_numel(x) * fm_elem_bytes(elem);
    x->storage = storage_new(t, bytes, op, FM_TIER_DEVICE, role_of_phase(t));
    return x;
}

fm_tensor *fm_tensor_on(fm_tape *t, fm_tier tier, fm_role role, uint64_t n_elems, fm_elem elem, const char *op)
{
    int64_t shape = (int64_t)n_elems;
    fm_tensor *x = tensor_object(t, 1, &shape, elem);
    x->stride[0] = 1;
    x->storage = storage_new(t, n_elems * fm_elem_bytes(elem), op, tier, role);
    return x;
}

fm_tensor *fm_tensor_alias(fm_tape *t, const fm_tensor *x)
{
    fm_tensor *a = tensor_object(t, x->n_dims, x->shape, x->elem);
    memcpy(a->stride, x->stride, sizeof a->stride);
    a->storage = x->storage;
    a->storage->refs++;
    return a;
}

void fm_tensor_retain(fm_tensor *x)
{
    x->refs++;
    x->floating = false;
}

void fm_tensor_release(fm_tape *t, fm_tensor *x)
{
    if (!x || --x->refs)
        return;
    fm_tensor *grad = x->grad;
    fm_grad_node *fn = x->grad_fn, *accumulate = x->accumulate;
    if (accumulate)
        accumulate->leaf = NULL;
    storage_release(t, x->storage);
    fm_pool_give(t->pool, FM_POOL_TENSOR, x);
    fm_tensor_release(t, grad);
    fm_grad_node_release(t, accumulate);
    fm_grad_node_release(t, fn);
}

void fm_tensor_take(fm_tape *t, fm_tensor *x)
{
    if (x && x->floating) {
        x->floating = false;
        fm_tensor_release(t, x);
    }
}

int64_t fm_tensor_numel(const fm_tensor *x)
{
    int64_t n = 1;
    for (unsigned i = 0; i < x->n_dims; i++)
        n *= x->shape[i];
    return n;
}

uint64_t fm_tensor_bytes(const fm_tensor *x)
{
    return (uint64_t)fm_tensor_numel(x) * fm_elem_bytes(x->elem);
}

bool fm_tensor_is_contiguous(const fm_tensor *x)
{
    int64_t step = 1;
    for (unsigned i = x->n_dims; i-- > 0;) {
        if (x->shape[i] == 1)
            continue;
        if (x->stride[i] != step)
            return false;
        step *= x->shape[i];
    }
    return true;
}

void fm_tape_free_node_object(fm_tape *t, fm_grad_node *n)
{
    fm_pool_give(t->pool, FM_POOL_NODE, n);
}
fm_grad_node *fm_tape_new_node_object(fm_tape *t)
{
    return take(t, FM_POOL_NODE, sizeof(fm_grad_node));
}

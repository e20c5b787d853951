/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: made, kept by key, run. One lock guards the table and the lists in it; primitives are made
 * and executed outside of it.
 *
 * The memory objects of oneDNN carry the pointer they stand for, so two threads cannot share them:
 * a run checks out a set of them from its plan, and the plan has as many as ever ran at once. */
#include "ops/cpu/dnnl_plan.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>

#define N_BUCKETS 256
#define MAX_PLANS 1024 /* sizes may differ at every call: the longest unused plan makes room */
#define ALIGN 64u

/* The memory objects of one run. */
typedef struct slot {
    struct slot *next;
    dnnl_stream_t stream;
    dnnl_memory_t plain[TTI_DNNL_ARGS];
    dnnl_memory_t inner[TTI_DNNL_ARGS]; /* NULL: the primitive takes the plain one */
    dnnl_memory_t reorder_scratch[TTI_DNNL_ARGS];
    dnnl_memory_t scratch;
} slot;

typedef struct arg {
    tti_dnnl_arg of;
    dnnl_memory_desc_t inner;
    dnnl_primitive_t reorder; /* NULL: no conversion */
    dnnl_memory_desc_t scratch;
    size_t offset; /* of the converted data in the buffer of a run */
} arg;

typedef struct plan {
    struct plan *next; /* in the bucket */
    tti_dnnl_key key;
    dnnl_primitive_t prim; /* NULL: refused, or too slow */
    arg args[TTI_DNNL_ARGS];
    int n_args;
    dnnl_memory_desc_t scratch;
    size_t scratch_offset, bytes; /* of the buffer of a run */
    slot *slots;                  /* idle; mu */
    int n_running;                /* mu */
    uint64_t last_use;            /* mu */
} plan;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static dnnl_engine_t the_engine; /* mu while it is made */
static plan *table[N_BUCKETS];   /* mu */
static int n_plans;              /* mu */
static uint64_t n_uses;          /* mu */

static tt_status failed(dnnl_status_t st)
{
    if (st == dnnl_out_of_memory)
        return TT_FAIL(TT_ERR_NOMEM, "out of memory in oneDNN");
    return TT_FAIL(TT_ERR_DEVICE, "oneDNN failed with status %d", (int)st);
}

static inline tt_status checked(dnnl_status_t st)
{
    return tt_likely(st == dnnl_success) ? TT_OK : failed(st);
}

/* ---- making ----------------------------------------------------------------------------------- */

static void slot_free(slot *s)
{
    for (int i = 0; i < TTI_DNNL_ARGS; i++) {
        tti_dnnl.memory_destroy(s->plain[i]);
        tti_dnnl.memory_destroy(s->inner[i]);
        tti_dnnl.memory_destroy(s->reorder_scratch[i]);
    }
    tti_dnnl.memory_destroy(s->scratch);
    tti_dnnl.stream_destroy(s->stream);
    tti_mfree(s);
}

static tt_status memory_new(dnnl_memory_t *m_p, const dnnl_memory_desc_t *md)
{
    return checked(tti_dnnl.memory_create(m_p, md, the_engine, DNNL_MEMORY_NONE));
}

static tt_status slot_fill(slot *s, const plan *p)
{
    TT_TRY(checked(tti_dnnl.stream_create(&s->stream, the_engine, dnnl_stream_default_flags)));
    TT_TRY(memory_new(&s->scratch, &p->scratch));
    for (int i = 0; i < p->n_args; i++) {
        const arg *a = &p->args[i];

        TT_TRY(memory_new(&s->plain[i], &a->of.plain));
        if (a->reorder == NULL)
            continue;
        TT_TRY(memory_new(&s->inner[i], &a->inner));
        TT_TRY(memory_new(&s->reorder_scratch[i], &a->scratch));
    }
    return TT_OK;
}

static slot *slot_new(const plan *p)
{
    slot *s = tti_calloc(1, sizeof *s);

    if (s != NULL && slot_fill(s, p) != TT_OK) {
        slot_free(s);
        return NULL;
    }
    return s;
}

static void plan_free(plan *p)
{
    while (p->slots != NULL) {
        slot *s = p->slots;

        p->slots = s->next;
        slot_free(s);
    }
    for (int i = 0; i < p->n_args; i++)
        if (p->args[i].reorder != NULL)
            tti_dnnl.primitive_destroy(p->args[i].reorder);
    if (p->prim != NULL)
        tti_dnnl.primitive_destroy(p->prim);
    tti_mfree(p);
}

static size_t reserve(size_t *bytes, const dnnl_memory_desc_t *md)
{
    size_t offset = *bytes;

    *bytes += (tti_dnnl.memory_desc_get_size(md) + ALIGN - 1) / ALIGN * ALIGN;
    return offset;
}

static dnnl_memory_desc_t scratch_of(const_dnnl_primitive_desc_t pd)
{
    return *tti_dnnl.primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
}

static dnnl_status_t plan_reorder(arg *a, const_dnnl_primitive_attr_t attr)
{
    const dnnl_memory_desc_t *from = a->of.is_result ? &a->inner : &a->of.plain;
    const dnnl_memory_desc_t *to = a->of.is_result ? &a->of.plain : &a->inner;
    dnnl_primitive_desc_t pd;
    dnnl_status_t st;

    st = tti_dnnl.reorder_primitive_desc_create(&pd, from, the_engine, to, the_engine, attr);
    if (st != dnnl_success)
        return st;
    a->scratch = scratch_of(pd);
    st = tti_dnnl.primitive_create(&a->reorder, pd);
    tti_dnnl.primitive_desc_destroy(pd);
    return st;
}

/* Reference implementations are there for completeness, and hundreds of times slower. */
static bool is_fast(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;

    return tti_dnnl.primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           name != NULL && strncmp(name, "ref", 3) != 0;
}

static dnnl_status_t plan_fill(plan *p, const tti_dnnl_spec *spec, const_dnnl_primitive_attr_t attr)
{
    size_t scratch = 0;
    dnnl_status_t st;

    p->n_args = spec->n_args;
    for (int i = 0; i < spec->n_args; i++) {
        arg *a = &p->args[i];

        a->of = spec->args[i];
        a->inner = *tti_dnnl.primitive_desc_query_md(spec->pd, a->of.md, a->of.md_index);
        if (tti_dnnl.memory_desc_equal(&a->inner, &a->of.plain))
            continue;
        st = plan_reorder(a, attr);
        if (st != dnnl_success)
            return st;
        a->offset = reserve(&p->bytes, &a->inner);
        if (tti_dnnl.memory_desc_get_size(&a->scratch) > scratch)
            scratch = tti_dnnl.memory_desc_get_size(&a->scratch);
    }
    p->scratch = scratch_of(spec->pd);
    p->scratch_offset = p->bytes; /* conversions use the same place, one after the other */
    if (tti_dnnl.memory_desc_get_size(&p->scratch) > scratch)
        scratch = tti_dnnl.memory_desc_get_size(&p->scratch);
    p->bytes += scratch;
    return tti_dnnl.primitive_create(&p->prim, spec->pd);
}

static dnnl_status_t plan_make(plan *p, tti_dnnl_make_fn make, const void *ctx)
{
    tti_dnnl_spec spec = { 0 };
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t st = tti_dnnl.primitive_attr_create(&attr);

    if (st != dnnl_success)
        return st;
    st = tti_dnnl.primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success)
        st = make(ctx, the_engine, attr, &spec);
    if (st == dnnl_success && is_fast(spec.pd))
        st = plan_fill(p, &spec, attr);
    if (spec.pd != NULL)
        tti_dnnl.primitive_desc_destroy(spec.pd);
    tti_dnnl.primitive_attr_destroy(attr);
    return st;
}

/* A plan for the key; without a primitive when oneDNN refuses. */
static plan *plan_new(const tti_dnnl_key *key, tti_dnnl_make_fn make, const void *ctx)
{
    plan *p = tti_calloc(1, sizeof *p);
    dnnl_status_t st;

    if (p == NULL)
        return NULL;
    p->key = *key;
    st = plan_make(p, make, ctx);
    if (st == dnnl_success || st == dnnl_unimplemented || st == dnnl_invalid_arguments)
        return p;
    plan_free(p);
    failed(st);
    return NULL;
}

/* ---- the table -------------------------------------------------------------------------------- */

static unsigned bucket_of(const tti_dnnl_key *key)
{
    const unsigned char *b = (const unsigned char *)key;
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < sizeof *key; i += 4) {
        uint32_t word;

        memcpy(&word, b + i, 4);
        h = (h ^ word) * 0x100000001b3u;
    }
    return (unsigned)(h >> 32) % N_BUCKETS;
}

static plan *find(const tti_dnnl_key *key, unsigned bucket)
{
    plan *p = table[bucket];

    while (p != NULL && memcmp(&p->key, key, sizeof *key) != 0)
        p = p->next;
    return p;
}

/* Takes the longest unused idle plan out of the table. */
static plan *take_oldest(void)
{
    plan **oldest = NULL, *p;

    for (int b = 0; b < N_BUCKETS; b++)
        for (plan **at = &table[b]; *at != NULL; at = &(*at)->next)
            if ((*at)->n_running == 0 && (oldest == NULL || (*at)->last_use < (*oldest)->last_use))
                oldest = at;
    if (oldest == NULL)
        return NULL;
    p = *oldest;
    *oldest = p->next;
    n_plans--;
    return p;
}

/* Marks a plan as running and gives an idle slot of it, or NULL. */
static slot *begin_use(plan *p)
{
    slot *s = p->slots;

    p->n_running++;
    p->last_use = ++n_uses;
    if (s != NULL)
        p->slots = s->next;
    return s;
}

static void end_use(plan *p, slot *s)
{
    pthread_mutex_lock(&mu);
    p->n_running--;
    if (s != NULL) {
        s->next = p->slots;
        p->slots = s;
    }
    pthread_mutex_unlock(&mu);
}

static tt_status need_engine(void)
{
    dnnl_status_t st = dnnl_success;

    pthread_mutex_lock(&mu);
    if (the_engine == NULL)
        st = tti_dnnl.engine_create(&the_engine, dnnl_cpu, 0);
    pthread_mutex_unlock(&mu);
    return checked(st);
}

/* Enters a new plan, unless another thread was faster, and begins to use it. */
static plan *enter(plan *made, unsigned bucket, slot **slot_p)
{
    plan *p, *old = NULL;

    pthread_mutex_lock(&mu);
    p = find(&made->key, bucket);
    if (p == NULL) {
        if (n_plans >= MAX_PLANS)
            old = take_oldest();
        p = made;
        p->next = table[bucket];
        table[bucket] = p;
        n_plans++;
    } else {
        old = made;
    }
    *slot_p = begin_use(p);
    pthread_mutex_unlock(&mu);
    if (old != NULL)
        plan_free(old);
    return p;
}

static plan *plan_for(const tti_dnnl_key *key, tti_dnnl_make_fn make, const void *ctx,
                      slot **slot_p)
{
    unsigned bucket = bucket_of(key);
    plan *p;

    pthread_mutex_lock(&mu);
    p = find(key, bucket);
    if (p != NULL)
        *slot_p = begin_use(p);
    pthread_mutex_unlock(&mu);
    if (p != NULL)
        return p;
    if (need_engine() != TT_OK)
        return NULL;
    p = plan_new(key, make, ctx);
    return p != NULL ? enter(p, bucket, slot_p) : NULL;
}

/* ---- running ---------------------------------------------------------------------------------- */

static tt_status point(slot *s, dnnl_memory_t m, void *p)
{
    return checked(tti_dnnl.memory_set_data_handle_v2(m, p, s->stream));
}

static tt_status convert(const plan *p, slot *s, int i)
{
    bool out = p->args[i].of.is_result;
    dnnl_exec_arg_t args[] = {
        { DNNL_ARG_FROM, out ? s->inner[i] : s->plain[i] },
        { DNNL_ARG_TO, out ? s->plain[i] : s->inner[i] },
        { DNNL_ARG_SCRATCHPAD, s->reorder_scratch[i] },
    };

    return checked(tti_dnnl.primitive_execute(p->args[i].reorder, s->stream, 3, args));
}

static tt_status point_all(const plan *p, slot *s, void *const *data, char *buffer)
{
    TT_TRY(point(s, s->scratch, buffer + p->scratch_offset));
    for (int i = 0; i < p->n_args; i++) {
        TT_TRY(point(s, s->plain[i], data[i]));
        if (s->inner[i] == NULL)
            continue;
        TT_TRY(point(s, s->inner[i], buffer + p->args[i].offset));
        TT_TRY(point(s, s->reorder_scratch[i], buffer + p->scratch_offset));
    }
    return TT_OK;
}

static tt_status execute(const plan *p, slot *s, void *const *data, char *buffer)
{
    dnnl_exec_arg_t args[TTI_DNNL_ARGS + 1];

    TT_TRY(point_all(p, s, data, buffer));
    for (int i = 0; i < p->n_args; i++) {
        args[i].arg = p->args[i].of.id;
        args[i].memory = s->inner[i] != NULL ? s->inner[i] : s->plain[i];
        if (s->inner[i] != NULL && !p->args[i].of.is_result)
            TT_TRY(convert(p, s, i));
    }
    args[p->n_args] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, s->scratch };
    TT_TRY(checked(tti_dnnl.primitive_execute(p->prim, s->stream, p->n_args + 1, args)));
    for (int i = 0; i < p->n_args; i++)
        if (s->inner[i] != NULL && p->args[i].of.is_result)
            TT_TRY(convert(p, s, i));
    return TT_OK;
}

/* With so many threads as the plan was made for, which may differ from the caller's setting. */
static tt_status execute_threaded(const plan *p, slot *s, void *const *data, char *buffer)
{
    int before = omp_get_max_threads();
    tt_status st;

    if (before != p->key.threads)
        omp_set_num_threads(p->key.threads);
    st = execute(p, s, data, buffer);
    if (before != p->key.threads)
        omp_set_num_threads(before);
    return st;
}

static tt_status run(const plan *p, slot **slot_p, void *const *data)
{
    size_t bytes = p->bytes != 0 ? p->bytes : 1;
    char *buffer;
    tt_status st;

    if (*slot_p == NULL)
        *slot_p = slot_new(p);
    if (*slot_p == NULL)
        return tt_last_status();
    buffer = tti_driver_cpu.alloc(0, bytes);
    if (buffer == NULL)
        return TT_ERR_NOMEM;
    st = execute_threaded(p, *slot_p, data, buffer);
    tti_driver_cpu.free(0, buffer, bytes);
    return st;
}

tt_status tti_dnnl_run(const tti_dnnl_key *key, tti_dnnl_make_fn make, const void *ctx,
                       void *const *data, bool *done_p)
{
    slot *s = NULL;
    plan *p;
    tt_status st = TT_OK;

    TT_TRY(tti_dnnl_open());
    p = plan_for(key, make, ctx, &s);
    if (p == NULL)
        return tt_last_status();
    *done_p = p->prim != NULL;
    if (p->prim != NULL)
        st = run(p, &s, data);
    end_use(p, s);
    return st;
}

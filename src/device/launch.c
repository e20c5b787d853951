/* SPDX-License-Identifier: Apache-2.0 */
/* Launches on current streams, their sizes, and the trouble that kernels report. */
#include "device/launch.h"

#include <pthread.h>
#include <string.h>

#define GROUPS_PER_UNIT 16      /* of a GPU: enough to hide waiting for memory */
#define CPU_GROUPS_PER_UNIT 2   /* chunks of a CPU, so that the last one is not alone for long */
#define CPU_LEAST_ELEMENTS 2048 /* below this a chunk is not worth a thread */

static const tti_accel *accel_at(tt_device d)
{
    return tti_driver_of(d)->accel;
}

static tt_device_properties facts[TTI_N_KINDS][TTI_MAX_DEVICES];
static _Atomic bool known[TTI_N_KINDS][TTI_MAX_DEVICES]; /* set last, under asking */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

static void ask(tt_device d)
{
    pthread_mutex_lock(&asking);
    if (!atomic_load_explicit(&known[d.kind][d.index], memory_order_relaxed)) {
        accel_at(d)->properties(d.index, &facts[d.kind][d.index]);
        atomic_store_explicit(&known[d.kind][d.index], true, memory_order_release);
    }
    pthread_mutex_unlock(&asking);
}

static const tt_device_properties *facts_of(tt_device d)
{
    if (tt_unlikely(!atomic_load_explicit(&known[d.kind][d.index], memory_order_acquire)))
        ask(d);
    return &facts[d.kind][d.index];
}

bool tti_device_is_cpu(tt_device d)
{
    return d.kind == TT_DEVICE_CPU || facts_of(d)->is_cpu;
}

bool tti_device_has_fp64(tt_device d)
{
    return d.kind == TT_DEVICE_CPU || facts_of(d)->has_fp64;
}

int tti_group_size(tt_device d)
{
    return facts_of(d)->group;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

tti_grid tti_grid_elements(tt_device d, uint64_t n)
{
    const tt_device_properties *p = facts_of(d);
    uint64_t units = (uint64_t)(p->units > 0 ? p->units : 1), per, most;

    if (p->is_cpu) {
        per = CPU_LEAST_ELEMENTS;
        most = units * CPU_GROUPS_PER_UNIT;
    } else {
        per = (uint64_t)p->group;
        most = units * GROUPS_PER_UNIT;
    }
    return (tti_grid){ (size_t)least((n + per - 1) / per, most) };
}

tti_grid tti_grid_rows(tt_device d, uint64_t rows, uint64_t width)
{
    const tt_device_properties *p = facts_of(d);
    uint64_t units = (uint64_t)(p->units > 0 ? p->units : 1), n = rows * (width > 0 ? width : 1);

    if (!p->is_cpu)
        return (tti_grid){ (size_t)least(rows, units * GROUPS_PER_UNIT * 4) };
    n = (n + CPU_LEAST_ELEMENTS - 1) / CPU_LEAST_ELEMENTS;
    return (tti_grid){ (size_t)least(least(rows, n), units * CPU_GROUPS_PER_UNIT) };
}

tti_kernel *tti_kernel_build(tt_device d, const tti_program *p, const char *options,
                             const char *name)
{
    tti_kernel *k = accel_at(d)->kernel(p, options, name);

    if (k != NULL)
        tti_kernel_text_write(p, options);
    return k;
}

tt_status tti_launch(tt_device d, tti_kernel *k, tti_grid grid, const tti_arg *args, int n_args)
{
    tt_stream *s = tti_stream_of(d);

    if (tt_unlikely(s == NULL || k == NULL))
        return tt_last_status();
    if (grid.groups == 0)
        return TT_OK;
    return s->accel->launch(s->queue, k, grid.groups, (size_t)facts_of(d)->group, args, n_args);
}

tt_status tti_stream_run(tt_device d, void (*fn)(void *arg), const void *arg, size_t bytes)
{
    tt_stream *s = tti_stream_of(d);

    return s != NULL ? s->accel->call(s->queue, fn, arg, bytes) : tt_last_status();
}

/* ---- trouble ------------------------------------------------------------------------------------- */

static const char *const trouble_names[] = { "",
#define X(name, text) text,
                                             TTI_TROUBLE_MAP(X)
#undef X
};
#define N_TROUBLES ((int64_t)(sizeof trouble_names / sizeof trouble_names[0]))

tti_arg tti_trouble_arg(tt_device d)
{
    return TTI_MEM(accel_at(d)->trouble(d.index));
}

static tt_status report(tt_device d, const tti_trouble *t)
{
    char name[16];

    if (t->op == TTI_TROUBLE_HOST) /* value: the status with which it ended */
        return TT_FAIL((tt_status)t->value, "%s failed on %s (noticed when it was waited for)",
                       trouble_names[t->op], tt_device_name(d, name, sizeof name));
    return TT_FAIL(TT_ERR_INVALID,
                   "%s: index %lld at position %lld is out of range for size %lld (on %s, noticed "
                   "when it was waited for)",
                   t->op > 0 && t->op < N_TROUBLES ? trouble_names[t->op] : "a kernel",
                   (long long)t->value, (long long)t->position, (long long)t->size,
                   tt_device_name(d, name, sizeof name));
}

/* On a device that computes in the host's memory. Of several threads that wait, one gets the error. */
static tt_status check_here(tt_device d, void *at)
{
    _Atomic int64_t *op = at;
    int64_t found = atomic_load_explicit(op, memory_order_acquire);
    tti_trouble t;

    if (tt_likely(found == 0))
        return TT_OK;
    memcpy(&t, at, sizeof t);
    t.op = found;
    if (!atomic_compare_exchange_strong(op, &found, 0))
        return TT_OK;
    return report(d, &t);
}

tt_status tti_trouble_check(tt_device d)
{
    const tti_accel *a = accel_at(d);
    void *at = a->trouble(d.index);
    tti_trouble t, zero = { 0 };
    tt_stream *s;

    if (facts_of(d)->is_cpu)
        return check_here(d, at);
    s = tti_stream_of(d);
    TT_TRY(a->copy_out(s->queue, &t, at, sizeof t, false));
    if (tt_likely(t.op == 0))
        return TT_OK;
    TT_TRY(a->copy_in(s->queue, at, &zero, sizeof zero, false));
    return report(d, &t);
}

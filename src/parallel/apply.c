/* SPDX-License-Identifier: Apache-2.0 */
/* One module per device at the same time, each on a thread of its own that lives as long as the call. A thread takes over
 * what its caller has set: grad mode, autocast, current streams, and the place in the graph's order. What it makes
 * lives on in its result and in the graph; its error comes back with the device's name. */
#include <pthread.h>
#include <string.h>

#include "device/accel.h"
#include "parallel/comm.h"

/* What is the thread's own and must be the caller's. */
typedef struct modes {
    tt_grad_mode grad;
    tti_autocast_modes autocast;
    uint64_t seq;
    tt_stream *streams[TTI_MAX_DEVICES]; /* current on each device of the kind */
    int n_streams;
} modes;

typedef struct worker {
    tti_job *job;
    const modes *modes;
    pthread_t thread;
    bool started; /* only its caller asks */
    tt_status status;
    tti_error_copy error;
    uint64_t seq; /* where it ended */
} worker;

static void modes_take(modes *m, tt_device_kind kind)
{
    m->grad = tti_grad_mode;
    m->autocast = tti_autocast_get();
    m->seq = tti_next_seq;
    m->n_streams = tt_device_count(kind);
    if (m->n_streams > TTI_MAX_DEVICES)
        m->n_streams = TTI_MAX_DEVICES;
    for (int i = 0; i < m->n_streams; i++)
        m->streams[i] = tti_stream_of((tt_device){ .kind = (int16_t)kind, .index = (int16_t)i });
}

static tt_status modes_give(const modes *m)
{
    tti_grad_mode = m->grad;
    tti_next_seq = m->seq;
    tti_autocast_set(&m->autocast);
    for (int i = 0; i < m->n_streams; i++)
        TT_TRY(tt_stream_use(m->streams[i]));
    return TT_OK;
}

static tt_status run(tti_job *j)
{
    TT_DEVICE_SCOPE(j->device)
    TT_SCOPE {
        j->out = tt_module_call(j->module, j->in);
    }
    return j->out != NULL ? TT_OK : tt_last_status();
}

static void *work(void *arg)
{
    worker *w = arg;

    w->status = modes_give(w->modes);
    if (w->status == TT_OK)
        w->status = run(w->job);
    if (w->status != TT_OK)
        tti_error_save(&w->error);
    w->seq = tti_next_seq;
    tti_autocast_set(&(tti_autocast_modes){ 0 }); /* forgets converted weights */
    return NULL;
}

/* Once it has started, the worker's fields are the thread's. */
static void start(worker *w)
{
    int error = pthread_create(&w->thread, NULL, work, w);

    w->started = error == 0;
    if (w->started)
        return;
    w->status = TT_FAIL(TT_ERR_IO, "cannot start a thread: %s", strerror(error));
    tti_error_save(&w->error);
}

static void run_here(worker *w)
{
    w->status = run(w->job);
    if (w->status != TT_OK)
        tti_error_save(&w->error);
}

static tt_status report(const char *name, const worker *workers, int n)
{
    char dev[32];

    for (int i = 0; i < n; i++)
        if (workers[i].status != TT_OK)
            return TT_FAIL(workers[i].status, "%s: on %s: %s", name,
                           tt_device_name(workers[i].job->device, dev, sizeof dev),
                           workers[i].error.text);
    return TT_OK;
}

tt_status tti_run_jobs(const char *name, tti_job *jobs, int n)
{
    worker *workers = tti_calloc((size_t)n, sizeof *workers);
    modes m = { 0 };
    tt_status st;

    if (workers == NULL)
        return TT_ERR_NOMEM;
    modes_take(&m, (tt_device_kind)jobs[0].device.kind);
    for (int i = n - 1; i >= 0; i--) {
        worker *w = &workers[i];

        w->job = &jobs[i];
        w->modes = &m;
        if (i > 0)
            start(w);
        else
            run_here(w);
    }
    for (int i = 1; i < n; i++) {
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
        if (workers[i].seq > tti_next_seq)
            tti_next_seq = workers[i].seq;
    }
    st = report(name, workers, n);
    for (int i = 0; st != TT_OK && i < n; i++) {
        tt_value_free(jobs[i].out);
        jobs[i].out = NULL;
    }
    tti_mfree(workers);
    return st;
}

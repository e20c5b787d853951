/* SPDX-License-Identifier: Apache-2.0 */
/* Launchers of several nodes. They meet in a control store, which the launcher of node 0 serves at the
 * endpoint; each round has a fresh job store besides. A round has one verdict, "ok" or "fail RANK CODE
 * WORDS", which whoever comes first sets and a thread of every launcher waits for. Launchers also count up a
 * number of theirs while they live; node 0 looks at these. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/clock.h"
#include "launch/job.h"
#include "launch/jobstore.h"
#include "store/tcp.h"

#define DEFAULT_PORT 29400
#define SLICE_MS 200   /* how long one call waits before signals are looked at */
#define GONE_MS 10000  /* a launcher that is silent so long is gone */
#define BROKEN_MS 2000 /* the same once a connection to node 0 broke */
#define LEAVE_MS 10000

typedef struct tti_nodes {
    tt_store *control;
    char host[80];
    int port;
    int n, me;
    int event_fd;
    pthread_t thread;
    bool has_thread;
    bool decided; /* the caller has read the verdict of this round */
    _Atomic bool stop;
    /* Of the thread until event_fd is written, then of the caller. */
    char verdict[320];
    char prefix[96];
    int64_t *beats, *beat_ns; /* of node 0: what it last saw, and when it changed */
    uint64_t n_lost;          /* of node 0: how many connections to it broke, as it last saw */
    int64_t broken_ns;        /* when it saw the last one break; 0: none */
} tti_nodes;

/* ---- keys ----------------------------------------------------------------------------------- */

static const char *key(const tti_nodes *d, char *text, size_t size, const char *name, int number)
{
    if (number >= 0)
        snprintf(text, size, "%s/%s/%d", d->prefix, name, number);
    else
        snprintf(text, size, "%s/%s", d->prefix, name);
    return text;
}

#define KEY(d, name, number) key(d, (char[160]){ 0 }, 160, name, number)

/* Whether a signal told us to give up meanwhile. */
static bool interrupted(tti_job *job)
{
    struct signalfd_siginfo info;

    while (job->signal_fd >= 0 && read(job->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGUSR1 && info.ssi_signo != SIGUSR2 && info.ssi_signo != SIGTSTP &&
            info.ssi_signo != SIGCHLD)
            job->signal = (int)info.ssi_signo;
    return job->signal != 0;
}

static tt_status wait_key(tti_job *job, const char *name, int64_t deadline, const char *what)
{
    for (;;) {
        tt_status st = tt_store_wait(job->nodes->control, &name, 1, SLICE_MS);

        if (st != TT_ERR_TIMEOUT)
            return st;
        if (interrupted(job))
            return TT_FAIL(TT_ERR_ABORTED, "%s while waiting for %s", tti_signal_name(job->signal),
                           what);
        if (tti_ms_left(deadline) == 0)
            return TT_FAIL(TT_ERR_TIMEOUT, "waited %d s in vain for %s",
                           job->opt.join_timeout_ms / 1000, what);
    }
}

/* ---- meeting -------------------------------------------------------------------------------- */

/* host:port, [v6]:port or host. */
static tt_status parse_endpoint(const tt_launch_options *o, tti_nodes *d)
{
    const char *given = o->endpoint != NULL ? o->endpoint : o->master_addr, *text = given;
    const char *colon, *end;
    char *rest;
    long port;

    if (text == NULL)
        return TT_FAIL(TT_ERR_INVALID, "several nodes need --rdzv HOST:PORT of node 0");
    d->port = o->endpoint == NULL && o->master_port > 0 ? o->master_port : DEFAULT_PORT;
    end = text + strlen(text);
    colon = strrchr(text, ':');
    if (text[0] == '[') {
        end = strchr(++text, ']');
        colon = end != NULL && end[1] == ':' ? end + 1 : NULL;
    } else if (colon != NULL && strchr(text, ':') == colon) {
        end = colon;
    } else {
        colon = NULL; /* no port, or an IPv6 address without brackets */
    }
    if (end == NULL || end == text || end - text >= (ptrdiff_t)sizeof d->host)
        return TT_FAIL(TT_ERR_INVALID, "--rdzv: expected HOST:PORT, got \"%s\"", given);
    snprintf(d->host, sizeof d->host, "%.*s", (int)(end - text), text);
    if (colon == NULL)
        return TT_OK;
    port = strtol(colon + 1, &rest, 10);
    if (rest == colon + 1 || *rest != '\0' || port < 1 || port > 65535)
        return TT_FAIL(TT_ERR_INVALID, "--rdzv: expected a port from 1 to 65535, got \"%s\"",
                       colon + 1);
    d->port = (int)port;
    return TT_OK;
}

static tt_status reach(tti_job *job, tti_nodes *d, int64_t deadline)
{
    tt_store_tcp_options o = {
        .serve = d->me == 0, .secret = job->secret, .connect_timeout_ms = 1000, .timeout_ms = 10000
    };

    for (;;) {
        tt_status st;

        d->control = tt_store_tcp_open(d->host, d->port, &o);
        if (d->control != NULL)
            return TT_OK;
        st = tt_last_status();
        if (o.serve || (st != TT_ERR_TIMEOUT && st != TT_ERR_IO) || tti_ms_left(deadline) == 0)
            return st;
        if (interrupted(job))
            return TT_FAIL(TT_ERR_ABORTED, "%s while trying to reach %s:%d",
                           tti_signal_name(job->signal), d->host, d->port);
        poll(NULL, 0, 50);
    }
}

/* The launchers disagree. Node 0 has the store, so it stays until the others have seen that, a second at most. */
static void let_others_see(tti_nodes *d)
{
    int64_t n = 0, deadline = tti_deadline(1000);
    tt_status st = tt_store_add(d->control, KEY(d, "told", -1), 1, &n);

    while (st == TT_OK && d->me == 0 && n < d->n && tti_ms_left(deadline) > 0) {
        poll(NULL, 0, 5);
        st = tt_store_add(d->control, KEY(d, "told", -1), 0, &n);
    }
}

/* Everybody says how many ranks it starts; all have to agree. */
static tt_status agree(tti_job *job, tti_nodes *d, int64_t deadline)
{
    char text[96], what[32];
    int64_t claims;

    TT_TRY(tt_store_add(d->control, KEY(d, "claims", d->me), 1, &claims));
    if (claims != 1)
        return TT_FAIL(TT_ERR_INVALID,
                       "another launcher is node %d already; give each its own --node-rank", d->me);
    snprintf(text, sizeof text, "%d %d %s", d->n, job->n, job->host);
    TT_TRY(tt_store_set(d->control, KEY(d, "node", d->me), text, strlen(text)));
    for (int i = 0; i < d->n; i++) {
        int nodes = 0, ranks = 0;
        char host[65] = "?";
        tt_blob b;

        snprintf(what, sizeof what, "node %d", i);
        TT_TRY(wait_key(job, KEY(d, "node", i), deadline, what));
        TT_TRY(tt_store_get(d->control, KEY(d, "node", i), &b));
        (void)!sscanf(b.data, "%d %d %64s", &nodes, &ranks, host);
        tt_blob_free(&b);
        if (nodes != d->n || ranks != job->n) {
            let_others_see(d);
            return TT_FAIL(TT_ERR_INVALID,
                           "node %d (%s) has %d nodes of %d ranks, node %d (%s) has %d of %d", i,
                           host, nodes, ranks, d->me, job->host, d->n, job->n);
        }
    }
    return TT_OK;
}

tt_status tti_nodes_join(tti_job *job)
{
    int64_t deadline = tti_deadline(job->opt.join_timeout_ms);
    tti_nodes *d = tti_calloc(1, sizeof *d);

    if (d == NULL)
        return TT_ERR_NOMEM;
    job->nodes = d;
    d->n = job->opt.n_nodes;
    d->me = job->opt.node_rank;
    snprintf(d->prefix, sizeof d->prefix, "tutti/launch/%s", job->run_id);
    d->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    d->beats = tti_calloc((size_t)d->n, sizeof *d->beats);
    d->beat_ns = tti_calloc((size_t)d->n, sizeof *d->beat_ns);
    if (d->beats == NULL || d->beat_ns == NULL)
        return TT_ERR_NOMEM;
    if (d->event_fd < 0)
        return TT_FAIL(TT_ERR_IO, "launch: no eventfd: %s", strerror(errno));
    TT_TRY(parse_endpoint(&job->opt, d));
    TT_TRY(reach(job, d, deadline));
    return agree(job, d, deadline);
}

/* ---- the thread of a round ------------------------------------------------------------------ */

static void decide(tti_nodes *d, const char *words)
{
    uint64_t one = 1;

    snprintf(d->verdict, sizeof d->verdict, "%s", words);
    (void)!write(d->event_fd, &one, sizeof one);
}

/* Whether a launcher whose number last changed at `beat_ns` is gone. Numbers change five times a second; a connection that
 * breaks is a hint to look closer, no proof: clients that gave up waiting break one off as well. */
static bool is_gone(const tti_nodes *d, int64_t beat_ns, int64_t now)
{
    bool suspected = d->broken_ns != 0 && beat_ns < d->broken_ns;

    return now - beat_ns > (int64_t)GONE_MS * 1000000 ||
           (suspected && now - d->broken_ns > (int64_t)BROKEN_MS * 1000000);
}

/* Node 0: looks whether connections broke, and which numbers changed. */
static void look_at_beats(tti_nodes *d)
{
    uint64_t n_lost;

    for (int i = 1; i < d->n; i++) {
        int64_t beat, now = tti_now_ns();

        if (tt_store_add(d->control, KEY(d, "beat", i), 0, &beat) != TT_OK)
            continue;
        if (beat != d->beats[i] || d->beat_ns[i] == 0) {
            d->beats[i] = beat;
            d->beat_ns[i] = now;
        }
    }
    /* After the numbers: the last one of a launcher whose connection broke must not seem to be later than that. */
    n_lost = tti_store_tcp_lost(d->control);
    if (n_lost != d->n_lost)
        d->broken_ns = tti_now_ns();
    d->n_lost = n_lost;
}

/* Node 0: the first launcher whose number has not changed for long; -1. */
static int silent_node(tti_nodes *d)
{
    look_at_beats(d);
    for (int i = 1; i < d->n; i++)
        if (is_gone(d, d->beat_ns[i], tti_now_ns()))
            return i;
    return -1;
}

/* Node 0: whether every other launcher has left the round or is gone. */
static bool all_left(tti_nodes *d)
{
    look_at_beats(d);
    for (int i = 1; i < d->n; i++) {
        int64_t left = 0;

        if (tt_store_add(d->control, KEY(d, "left", i), 0, &left) == TT_OK && left == 0 &&
            !is_gone(d, d->beat_ns[i], tti_now_ns()))
            return false;
    }
    return true;
}

static tt_status set_verdict(tti_nodes *d, const char *text, char *got, size_t size)
{
    tt_blob b = { 0 };

    TT_TRY(
        tt_store_compare_set(d->control, KEY(d, "verdict", -1), NULL, 0, text, strlen(text), &b));
    if (got != NULL)
        snprintf(got, size, "%s", (const char *)b.data);
    tt_blob_free(&b);
    return TT_OK;
}

static void *listen_for_verdict(void *arg)
{
    tti_nodes *d = arg;
    char text[320];

    pthread_setname_np(pthread_self(), "tt-nodes");
    while (!atomic_load_explicit(&d->stop, memory_order_acquire)) {
        tt_blob b = { 0 };
        int64_t beat;
        tt_status st =
            tt_store_wait_change(d->control, KEY(d, "verdict", -1), NULL, 0, SLICE_MS, &b);

        if (st == TT_OK) {
            snprintf(text, sizeof text, "%s", (const char *)b.data);
            tt_blob_free(&b);
            decide(d, text);
            break;
        }
        if (st == TT_ERR_TIMEOUT)
            st = tt_store_add(d->control, KEY(d, "beat", d->me), 1, &beat);
        if (st != TT_OK) {
            snprintf(text, sizeof text, "fail -1 1 the launcher of node 0 is gone: %.200s",
                     tti_last_error());
            decide(d, text);
            break;
        }
        int gone = d->me == 0 ? silent_node(d) : -1;
        if (gone >= 0) {
            snprintf(text, sizeof text, "fail -1 1 the launcher of node %d is gone", gone);
            (void)set_verdict(d, text, NULL, 0);
        }
    }
    return NULL;
}

static void thread_stop(tti_nodes *d)
{
    uint64_t n;

    if (!d->has_thread)
        return;
    atomic_store_explicit(&d->stop, true, memory_order_release);
    pthread_join(d->thread, NULL);
    d->has_thread = false;
    (void)!read(d->event_fd, &n, sizeof n);
}

/* ---- a round -------------------------------------------------------------------------------- */

static tt_status host_round(tti_job *job, tti_nodes *d)
{
    char text[256];

    job->master_port = job->opt.master_port;
    if (job->master_port == 0 || job->opt.endpoint == NULL)
        TT_TRY(tti_port_reserve(d->host, &job->master_port, &job->reserved_fd));
    TT_TRY(tti_jobstore_open(job, d->host));
    snprintf(text, sizeof text, "%s %d", job->store_addr, job->master_port);
    return tt_store_set(d->control, KEY(d, "store", -1), text, strlen(text));
}

static tt_status guest_round(tti_job *job, tti_nodes *d)
{
    tt_store_tcp_options o = { .secret = job->secret,
                               .connect_timeout_ms = 10000,
                               .timeout_ms = 5000 };
    const char *colon;
    tt_blob b;

    TT_TRY(wait_key(job, KEY(d, "store", -1), tti_deadline(job->opt.join_timeout_ms), "node 0"));
    TT_TRY(tt_store_get(d->control, KEY(d, "store", -1), &b));
    int n = sscanf(b.data, "%127s %d", job->store_addr, &job->master_port);
    tt_blob_free(&b);
    colon = strrchr(job->store_addr, ':');
    if (n != 2 || colon == NULL)
        return TT_FAIL(TT_ERR_FORMAT, "launch: node 0 names no store");
    job->store = tt_store_tcp_open(d->host, atoi(colon + 1), &o);
    return job->store != NULL ? TT_OK : tt_last_status();
}

tt_status tti_nodes_round(tti_job *job)
{
    tti_nodes *d = job->nodes;

    snprintf(d->prefix, sizeof d->prefix, "tutti/launch/%s/%d", job->run_id, job->restart);
    snprintf(job->master_addr, sizeof job->master_addr, "%s",
             job->opt.master_addr != NULL ? job->opt.master_addr : d->host);
    TT_TRY(d->me == 0 ? host_round(job, d) : guest_round(job, d));
    d->decided = false;
    d->broken_ns = 0;
    memset(d->beat_ns, 0, (size_t)d->n * sizeof *d->beat_ns);
    atomic_store_explicit(&d->stop, false, memory_order_release);
    if (pthread_create(&d->thread, NULL, listen_for_verdict, d) != 0)
        return TT_FAIL(TT_ERR_IO, "launch: no thread");
    d->has_thread = true;
    return TT_OK;
}

int tti_nodes_fd(const tti_job *job)
{
    return job->nodes != NULL ? job->nodes->event_fd : -1;
}

/* Takes over a failure that came first elsewhere. */
static void take_verdict(tti_job *job, const char *text)
{
    int rank, code, at = 0;

    if (sscanf(text, "fail %d %d %n", &rank, &code, &at) != 2 || at == 0)
        return;
    if (rank >= job->opt.node_rank * job->n && rank < (job->opt.node_rank + 1) * job->n)
        return; /* ours */
    if (rank < 0 && job->signal != 0)
        return;
    job->remote_failed = true;
    job->remote_rank = rank;
    job->remote_code = code;
    job->first = -1;
    snprintf(job->remote, sizeof job->remote, "%s", text + at);
}

void tti_nodes_heard(tti_job *job)
{
    uint64_t n;

    if (job->nodes == NULL || read(job->nodes->event_fd, &n, sizeof n) != (ssize_t)sizeof n)
        return;
    job->nodes->decided = true;
    take_verdict(job, job->nodes->verdict);
    if (job->remote_failed)
        tti_job_end(job);
}

void tti_nodes_failed(tti_job *job, const tti_rank *r)
{
    char text[320], words[128], got[320] = "";

    if (job->nodes == NULL)
        return;
    tti_status_words(r->status, words, sizeof words);
    snprintf(text, sizeof text, "fail %d %d rank %d (pid %d on %s) %s", r->rank,
             tti_status_code(r->status), r->rank, (int)r->shown_pid, job->host, words);
    if (set_verdict(job->nodes, text, got, sizeof got) == TT_OK && strcmp(got, text) != 0)
        take_verdict(job, got);
}

/* Waits until the job is decided on all nodes. */
static void await_verdict(tti_job *job)
{
    tti_nodes *d = job->nodes;
    char text[320];

    while (!d->decided) {
        struct pollfd p[2] = { { d->event_fd, POLLIN, 0 }, { job->signal_fd, POLLIN, 0 } };

        if (poll(p, 2, -1) < 0)
            continue;
        if (p[0].revents != 0)
            tti_nodes_heard(job);
        if (p[1].revents != 0 && interrupted(job)) {
            snprintf(text, sizeof text, "fail -1 %d node %d got %s", 128 + job->signal, d->me,
                     tti_signal_name(job->signal));
            if (set_verdict(d, text, NULL, 0) != TT_OK)
                return;
        }
    }
}

tt_status tti_nodes_finish(tti_job *job)
{
    tti_nodes *d = job->nodes;
    int64_t n = 0, deadline = tti_deadline(LEAVE_MS);
    char text[320];

    if (job->signal != 0) {
        snprintf(text, sizeof text, "fail -1 %d node %d got %s", 128 + job->signal, d->me,
                 tti_signal_name(job->signal));
        (void)set_verdict(d, text, NULL, 0);
    } else if (job->first < 0 && !job->remote_failed) {
        TT_TRY(tt_store_add(d->control, KEY(d, "done", -1), 1, &n));
        if (n == d->n)
            TT_TRY(set_verdict(d, "ok", NULL, 0));
    }
    if (!job->remote_failed)
        await_verdict(job);
    thread_stop(d);
    /* The stores stay until everyone knows. */
    if (tt_store_add(d->control, KEY(d, "left", d->me), 1, &n) != TT_OK)
        return TT_OK;
    while (d->me == 0 && !all_left(d) && tti_ms_left(deadline) > 0)
        poll(NULL, 0, 5);
    return TT_OK;
}

void tti_nodes_free(tti_job *job)
{
    tti_nodes *d = job->nodes;

    if (d == NULL)
        return;
    thread_stop(d);
    if (d->control != NULL)
        tt_store_free(d->control);
    if (d->event_fd > 0)
        close(d->event_fd);
    tti_mfree(d->beats);
    tti_mfree(d->beat_ns);
    tti_mfree(d);
    job->nodes = NULL;
}

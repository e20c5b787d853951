/* SPDX-License-Identifier: Apache-2.0 */
/* A group of any size without peers, for planning and for tests of what stands on groups. Every operation ends
 * at once: this rank receives what it would receive from itself, and nothing from others; reductions give
 * its own input. */
#include <string.h>

#include "base/mem.h"
#include "pg/backend.h"

typedef struct fake {
    int rank, size;
} fake;

static tt_status fake_open(const tti_team_args *args, tti_backend **backend_p)
{
    fake *f = tti_malloc(sizeof *f);
    if (f == NULL)
        return TT_ERR_NOMEM;
    *f = (fake){ args->rank, args->size };
    *backend_p = (tti_backend *)f;
    return TT_OK;
}

static void fake_close(tti_backend *b)
{
    tti_mfree(b);
}

static void fake_abort(tti_backend *b, const char *reason)
{
    (void)b;
    (void)reason;
}

static int fake_dead(tti_backend *b, int *ranks)
{
    (void)b;
    (void)ranks;
    return 0;
}

static void copy(tti_span to, tti_span from)
{
    if (to.data != from.data && to.bytes == from.bytes && to.bytes > 0)
        memmove(to.data, from.data, to.bytes);
}

static tt_status fake_run(tti_backend *b, const tti_coll *c)
{
    const fake *f = (const fake *)b;

    switch (c->kind) {
    case TTI_COLL_ALL_REDUCE:
    case TTI_COLL_REDUCE:
        copy(c->out, c->in);
        break;
    case TTI_COLL_GATHER:
    case TTI_COLL_ALL_GATHER:
        if (c->outs != NULL)
            copy(c->outs[f->rank], c->in);
        break;
    case TTI_COLL_SCATTER:
    case TTI_COLL_REDUCE_SCATTER:
        if (c->ins != NULL)
            copy(c->out, c->ins[f->rank]);
        break;
    case TTI_COLL_ALL_TO_ALL:
        copy(c->outs[f->rank], c->ins[f->rank]);
        break;
    default:
        break;
    }
    return TT_OK;
}

static tt_status fake_monitored(tti_backend *b, tti_monitored_by by, uint64_t seq,
                                int64_t deadline_ns, bool report_all)
{
    (void)b;
    (void)by;
    (void)seq;
    (void)deadline_ns;
    (void)report_all;
    return TT_OK;
}

const tti_backend_ops tti_backend_fake = {
    .name = "fake",
    .open = fake_open,
    .close = fake_close,
    .abort = fake_abort,
    .dead = fake_dead,
    .run = fake_run,
    .monitored_barrier = fake_monitored,
};

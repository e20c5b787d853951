/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers around forward: rank 0's go to all, or a hook does what it likes with them. */
#include "base/error.h"
#include "ddp/ddp.h"

tt_status tt_ddp_set_buffer_hook(tt_ddp *d, tt_ddp_when when, tt_ddp_buffer_fn fn, void *ctx)
{
    if (d == NULL)
        return tti_null_given("ddp", "a tt_ddp");
    d->buffer_fn = fn;
    d->buffer_when = when;
    d->buffer_ctx = ctx;
    return TT_OK;
}

/* The buffers that are not ignored. */
static tt_state_dict *own_buffers(const tt_ddp *d)
{
    tt_state_dict *all = tt_module_buffers(d->module, NULL);

    for (int i = all != NULL ? tt_state_dict_count(all) : 0; i-- > 0;)
        if (tti_ddp_ignores(d, tt_state_dict_name(all, i)))
            tt_state_dict_remove(all, tt_state_dict_name(all, i));
    return all;
}

static tt_status run_hook(tt_ddp *d)
{
    tt_state_dict *buffers = own_buffers(d);
    tt_status st = buffers != NULL ? TT_OK : tt_last_status();

    TT_SCOPE
        TT_NO_GRAD if (st == TT_OK)
        {
            st = d->buffer_fn(d->buffer_ctx, d, buffers, &d->buffer_future);
        }
    tt_state_dict_free(buffers);
    return st;
}

tt_status tti_ddp_wait_buffers(tt_ddp *d)
{
    tt_future *f = d->buffer_future;
    tt_status st = f != NULL ? tt_future_wait(f, 0) : TT_OK;

    d->buffer_future = NULL;
    tt_future_free(f);
    return st;
}

bool tti_ddp_sends_buffers(const tt_ddp *d, tt_ddp_when now)
{
    if (d->buffer_fn != NULL)
        return d->buffer_when == now;
    return d->buffer_sync && now == TT_DDP_BEFORE_FORWARD;
}

tt_status tti_ddp_sync_buffers(tt_ddp *d, tt_ddp_when now)
{
    if (d->buffer_fn == NULL)
        return tti_ddp_send_states(d, tti_ddp_root(d), TTI_DDP_BUFFERS);
    TT_TRY(run_hook(d));
    /* Forward may read and write them. */
    return now == TT_DDP_BEFORE_FORWARD ? tti_ddp_wait_buffers(d) : TT_OK;
}

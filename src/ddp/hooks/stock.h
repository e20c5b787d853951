/* SPDX-License-Identifier: Apache-2.0 */
/* What the stock hooks share. */
#ifndef TTI_DDP_HOOKS_STOCK_H
#define TTI_DDP_HOOKS_STOCK_H

#include "base/mem.h"
#include "base/status.h"
#include "tensor/tensor.h"
#include "tutti/ddp_hooks.h"

/* The tensor in what a future gave: itself, or the first of a list; NULL: none. */
tt_tensor *tti_hook_tensor(const tt_value *v);

/* The future of a work, which is taken over; NULL with an error, after its end. */
tt_future *tti_hook_future(tt_work *w);
/* The future of the mean of `t` over `pg`, in place. */
tt_future *tti_hook_mean(tt_pg *pg, tt_tensor *t);
/* A future that has `t` already. */
tt_future *tti_hook_ready(tt_tensor *t);

/* tt_future_then that takes `f` over (NULL passes the failure on). `fn` gets `ctx` in every case: at once with
 * f NULL, after f's end, when the chain cannot be made. */
tt_future *tti_hook_then(tt_future *f, tt_future_fn fn, void *ctx);

/* For hooks around others: a copy of the inner one, with a name; zeroes *hook_p, which may be the inner one.
 * INVALID when there is none. */
tt_status tti_hook_take_inner(const char *what, const tt_ddp_hook *inner, tt_ddp_hook *hook_p,
                              tt_ddp_hook *copy);

#endif

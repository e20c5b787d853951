/* SPDX-License-Identifier: Apache-2.0 */
/* How the reducer and the hooks meet. Without a hook none of this is called. */
#ifndef TTI_DDP_HOOKS_HOOKS_H
#define TTI_DDP_HOOKS_HOOKS_H

#include "tutti/ddp_hooks.h"

typedef struct tti_ddp_bucket tti_ddp_bucket;

/* What a bucket shows to hooks; made when it is first needed. */
typedef struct tti_ddp_shown tti_ddp_shown;

/* Calls the hook for a bucket that is full. */
tt_status tti_ddp_hook_start(tt_ddp *d, tti_ddp_bucket *b);
/* Waits for its future, if there is one; the flat tensor is then what it gave. */
tt_status tti_ddp_hook_wait(tt_ddp *d, tti_ddp_bucket *b);
/* After the gradients are in place. */
tt_status tti_ddp_hook_done(tt_ddp *d, tti_ddp_bucket *b);
/* The end of a bucket: waits for a future that a failed backward has left, for the group's time-out at most. */
void tti_ddp_hook_forget(tti_ddp_bucket *b);
void tti_ddp_hook_free(tt_ddp *d);

/* Whether an optimizer updates this parameter inside of backward; it does so now. */
bool tti_ddp_updates(const tt_tensor *leaf);
tt_status tti_ddp_update(tt_tensor *leaf);

#endif

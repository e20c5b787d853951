/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that are not there yet. */
#include "coll/p2p.h"

size_t tti_p2p_region_bytes(int size)
{
    (void)size;
    return 0;
}
tt_status tti_p2p_box_open(const tti_p2p_env *env, tti_p2p_box **box_p)
{
    (void)env;
    *box_p = NULL;
    return TT_OK;
}
void tti_p2p_box_close(tti_p2p_box *box)
{
    (void)box;
}
tt_status tti_p2p_box_start(tti_p2p_box *box, const tti_p2p_args *args, tti_p2p **op_p)
{
    (void)box;
    (void)args;
    (void)op_p;
    return TT_FAIL(TT_ERR_UNSUPPORTED, "messages between ranks: not in this build");
}
void tti_p2p_box_progress(tti_p2p_box *box)
{
    (void)box;
}
void tti_p2p_box_idle(tti_p2p_box *box, int64_t deadline_ns)
{
    (void)box;
    (void)deadline_ns;
}
void tti_p2p_box_wake(tti_p2p_box *box)
{
    (void)box;
}
void tti_p2p_box_alarm(tti_p2p_box *box, int rank)
{
    (void)box;
    (void)rank;
}
bool tti_p2p_box_busy(const tti_p2p_box *box)
{
    (void)box;
    return false;
}

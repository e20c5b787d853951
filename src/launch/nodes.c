/* SPDX-License-Identifier: Apache-2.0 */
/* Launchers of several nodes. */
#include "launch/job.h"

tt_status tti_nodes_join(tti_job *job)
{
    (void)job;
    return TT_FAIL(TT_ERR_UNSUPPORTED, "several nodes are not supported yet");
}

tt_status tti_nodes_round(tti_job *job)
{
    (void)job;
    return TT_OK;
}

int tti_nodes_fd(const tti_job *job)
{
    (void)job;
    return -1;
}

void tti_nodes_heard(tti_job *job)
{
    (void)job;
}

void tti_nodes_failed(tti_job *job, const tti_rank *r)
{
    (void)job;
    (void)r;
}

tt_status tti_nodes_finish(tti_job *job)
{
    (void)job;
    return TT_OK;
}

void tti_nodes_free(tti_job *job)
{
    (void)job;
}

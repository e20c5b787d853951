/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a job, which the launcher serves, and what it needs from the system besides. */
#ifndef TTI_LAUNCH_JOBSTORE_H
#define TTI_LAUNCH_JOBSTORE_H

#include "launch/job.h"

/* Serves a fresh store at a free port of `host` and sets job->store_addr. */
tt_status tti_jobstore_open(tti_job *job, const char *host);
void tti_jobstore_close(tti_job *job);
/* Tells the ranks still running how this one ended. */
void tti_jobstore_exit(tti_job *job, const tti_rank *r);

/* A port of `addr` that nobody else gets while *fd_p is open, but that a server of the job can use. */
tt_status tti_port_reserve(const char *addr, int *port_p, int *fd_p);
/* n random bytes as hexadecimal text. */
tt_status tti_random_hex(char *text, int n);
/* The children of this process; how many there are, at most cap. */
int tti_children(pid_t *pids, int cap);

#endif

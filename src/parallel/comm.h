/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share: checked arguments, results that outlive a scope, and the parts of
 * data-parallel modules. */
#ifndef TTI_PARALLEL_COMM_H
#define TTI_PARALLEL_COMM_H

#include "ops/op.h"
#include "tutti/parallel.h"

#define TTI_MAX_TARGETS 64
#define TTI_BUFFER_BYTES ((size_t)10 << 20)

/* ---- arguments --------------------------------------------------------------------------------- */

/* Targets that were checked: exactly one list, not empty, nothing on the host. */
typedef struct tti_places {
    int n;
    tt_device devices[TTI_MAX_TARGETS]; /* resolved; those of the outputs, if there are any */
    tt_tensor *const *outputs;          /* NULL: none */
} tti_places;

tt_status tti_places_get(const char *name, const tt_targets *to, tti_places *p);
/* Devices, at least one, resolved; accelerators only. */
tt_status tti_devices_get(const char *name, const tt_device *devices, int n, tt_device *resolved);
/* "name: expected WHAT i on an accelerator, got one on cpu" */
tt_status tti_check_accelerator(const char *name, const char *what, int i, tt_device d);
/* ts[0 .. n), at least one, none of them NULL. */
tt_status tti_check_tensors(const char *name, tt_tensor *const *ts, int n);
/* Into given outputs nothing is recorded: refuse what would have to be. */
tt_status tti_check_unrecorded(const char *name, const tt_tensor *t, tt_tensor *const *outputs,
                               int n);
/* A copy into a given output. */
tt_status tti_comm_put(tt_tensor *output, const tt_tensor *t);

/* Close the scope but hand the results, or NULL if `st` is a failure, to the one around it. */
tt_status tti_close_keep(tt_scope *s, tt_status st, tt_tensor **results, int n);

/* ---- coalesced, without checks ------------------------------------------------------------------- */

/* As tt_comm_reduce_add_coalesced. */
tt_status tti_reduce_coalesced(tt_tensor *const *ts, int n, int n_devices, tt_device to,
                               size_t buffer_bytes, tt_tensor **results);

/* ---- modules ----------------------------------------------------------------------------------- */

/* replicas[d] gets a copy of m with its tensors on devices[d], connected to m's in the graph; that of the first
 * device is m itself. All are references of the caller. */
tt_status tti_replicate(tt_module *m, const tt_device *devices, int n_devices, size_t buffer_bytes,
                        tt_module **replicas);

/* One call of a module on its device. */
typedef struct tti_job {
    tt_device device;
    tt_module *module;
    tt_value *in;
    tt_value *out; /* the result: a reference of the caller; NULL after a failure */
} tti_job;

/* Call all at once: the first on this thread, the others on one each, with this thread's modes and streams. The
 * first failure in the order of jobs is recorded with its device. */
tt_status tti_run_jobs(const char *name, tti_job *jobs, int n);

#endif

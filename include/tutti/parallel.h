/* SPDX-License-Identifier: Apache-2.0 */
/* Several accelerators in one process: tensors to many devices and back, and a module that runs on all of
 * them at once.
 *
 *     tt_module *net = build();
 *     TT_TRY(tt_module_to_device(net, tt_cl(0)));
 *     tt_module *dp = tt_data_parallel(net, TT_DEVICES(tt_cl(0), tt_cl(1)), NULL);
 *     tt_tensor *y = tt_module_forward(dp, x);             // a half of the batch on each device
 *     TT_TRY(tt_backward(tt_cross_entropy(y, labels)));    // gradients arrive on cl:0
 *
 * Everything is ordered on the current streams of the devices concerned, and nothing waits for the devices
 * unless a result is on the host. All of it is differentiable, except into given outputs. */
#ifndef TUTTI_PARALLEL_H
#define TUTTI_PARALLEL_H

#include "tutti/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where results go: to accelerators, or into tensors that are there already. Exactly one of the lists is
 * given, that is, not NULL. A device may be listed twice. */
typedef struct tt_targets {
    const tt_device *devices;
    int n_devices;
    tt_tensor *const *outputs;
    int n_outputs;
} tt_targets;

/* TT_DEVICES(tt_cl(0), tt_cl(1)), TT_OUTPUTS(a, b): arguments of the functions below. */
#define TT_DEVICES(...)                                \
    (&(const tt_targets){                              \
        .devices = (const tt_device[]){ __VA_ARGS__ }, \
        .n_devices = (int)(sizeof((const tt_device[]){ __VA_ARGS__ }) / sizeof(tt_device)) })
#define TT_OUTPUTS(...)                                 \
    (&(const tt_targets){                               \
        .outputs = (tt_tensor *const[]){ __VA_ARGS__ }, \
        .n_outputs = (int)(sizeof((tt_tensor *const[]){ __VA_ARGS__ }) / sizeof(tt_tensor *)) })

/* ---- one tensor ---------------------------------------------------------------------------- */

/* t, from anywhere, on every target: results[i] is t itself where it already is on device i, or is
 * outputs[i]. Outputs have t's shape and are on accelerators. Sparse tensors go to devices only. */
TT_API tt_status tt_comm_broadcast(tt_tensor *t, const tt_targets *to, tt_tensor **results);

typedef struct tt_scatter_options {
    int dim;
    const int64_t *sizes; /* of the pieces along dim, one per device; NULL: as tt_chunk cuts it */
    int n_sizes;
} tt_scatter_options;

/* Consecutive pieces of t, piece i on device i: a view of t where t is on that device. Without sizes there can
 * be fewer pieces than devices: *n_p (may be NULL) gets their number, the other results are NULL.
 * Outputs say themselves how much they take; together it is all of dim. */
TT_API tt_status tt_comm_scatter(tt_tensor *t, const tt_targets *to, const tt_scatter_options *opt,
                                 tt_tensor **results, int *n_p);

typedef struct tt_gather_options {
    int dim;
    const tt_device *device; /* NULL: the current device; may be the host */
    tt_tensor *output;       /* instead of a device */
} tt_gather_options;

/* Tensors on accelerators joined along dim. Channels-last if all of them are. */
TT_API tt_tensor *tt_comm_gather(tt_tensor *const *ts, int n, const tt_gather_options *opt);

/* The sum of tensors of one shape and type, all dense or all sparse, on accelerators; added in order. A new
 * tensor on *device (NULL: that of the first). */
TT_API tt_tensor *tt_comm_reduce_add(tt_tensor *const *ts, int n, const tt_device *device);

/* ---- many tensors, through few copies ---------------------------------------------------------- */

typedef struct tt_coalesce_options {
    size_t buffer_bytes; /* small dense tensors of one type share buffers of this size; 0: 10 MiB */
} tt_coalesce_options;

/* ts[0 .. n), all on devices[0], to every device: results[d * n + i] is tensor i on device d, and the tensor
 * itself for d = 0. Results that share a buffer have versions of their own. */
TT_API tt_status tt_comm_broadcast_coalesced(tt_tensor *const *ts, int n, const tt_device *devices,
                                             int n_devices, const tt_coalesce_options *opt,
                                             tt_tensor **results);

/* The reverse: results[i], always new, is the sum over d of ts[d * n + i], on *device (NULL: that of ts[0]).
 * Not differentiable. */
TT_API tt_status tt_comm_reduce_add_coalesced(tt_tensor *const *ts, int n, int n_devices,
                                              const tt_device *device,
                                              const tt_coalesce_options *opt, tt_tensor **results);

/* ---- nested values ------------------------------------------------------------------------------ */

/* Every tensor inside of v is scattered along dim; results[d] is the same value with the pieces of device d.
 * Tensors without dimensions and all other leaves go to every device. All tensors must give the same number of
 * pieces, which *n_p gets. You free results[0 .. *n_p). */
TT_API tt_status tt_comm_scatter_value(const tt_value *v, const tt_device *devices, int n_devices,
                                       int dim, tt_value **results, int *n_p);
/* The reverse. Values have the same kinds, names and leaves that are no tensors. Tensors without dimensions become
 * a vector, with a warning. You free the result. opt->output is not possible. */
TT_API tt_value *tt_comm_gather_values(tt_value *const *vs, int n, const tt_gather_options *opt);

/* ---- modules --------------------------------------------------------------------------------- */

typedef struct tt_data_parallel_options {
    int dim;                        /* of the samples */
    const tt_device *output_device; /* NULL: the first */
    size_t buffer_bytes;            /* for copying parameters; 0: 10 MiB */
} tt_data_parallel_options;

/* A module around m (its child "module"; a reference is kept) that runs on several devices. m's parameters and
 * buffers are on the first of them and stay there. Each forward cuts the input along dim, copies m to the
 * other devices, runs all on a thread per device (m itself on the first), and joins the outputs. Backward
 * adds up the gradients in m's parameters. Replicas have no hooks, and what they do to buffers is lost.
 * With one device, or samples for one only, m is called plainly. Frees as any module. */
TT_API tt_module *tt_data_parallel(tt_module *m, const tt_targets *devices,
                                   const tt_data_parallel_options *opt);

#ifdef __cplusplus
}
#endif

#endif

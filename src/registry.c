/* SPDX-License-Identifier: Apache-2.0 */
/* The rows: which devices, kernels and backends this build has. Order is preference. */
#include "device/driver.h"
#include "graph/graph.h"
#include "ops/kernels.h"
#include "pg/backend.h"

const tti_driver *const tti_drivers[] = {
    &tti_driver_cpu,
    &tti_driver_cl,
    NULL,
};

const tti_kernels *tti_kernel_rows[] = {
    [TT_DEVICE_CPU] = &tti_kernels_cpu,
    [TT_DEVICE_CL] = &tti_kernels_accel,
};
const int tti_n_kernel_rows = (int)(sizeof tti_kernel_rows / sizeof tti_kernel_rows[0]);

void (*const tti_drop_graph)(tt_tensor *t) = tti_graph_drop;

const tti_backend_ops *const tti_backends[] = {
    &tti_backend_shm,
    &tti_backend_threads,
    &tti_backend_fake,
    NULL,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* A module that runs its child on several devices: scatter, replicate, apply, gather, anew for every forward. */
#include "base/error.h"
#include "parallel/comm.h"

typedef struct data_parallel {
    tt_device devices[TTI_MAX_TARGETS];
    int n_devices;
    tt_device output;
    int dim;
    size_t buffer_bytes;
} data_parallel;

static tt_value *call(tt_module *m, const tt_value *in);
static int describe(const tt_module *m, char *text, size_t size);

static const tt_module_class data_parallel_class = {
    .name = "DataParallel", .data_size = sizeof(data_parallel), .call = call, .describe = describe
};

static int describe(const tt_module *m, char *text, size_t size)
{
    const data_parallel *p = tt_module_data(m, &data_parallel_class);
    size_t at = 0;
    char dev[32];

    for (int i = 0; i < p->n_devices && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i > 0 ? ", " : "",
                               tt_device_name(p->devices[i], dev, sizeof dev));
    return (int)at;
}

/* ---- calling --------------------------------------------------------------------------------- */

static tt_tensor *move(void *ctx, tt_tensor *t)
{
    return tt_to_device(t, *(const tt_device *)ctx);
}

/* All of it on the first device. */
static tt_value *call_plainly(tt_module *child, const data_parallel *p, const tt_value *in)
{
    tt_device first = p->devices[0], output = p->output;
    tt_value *there = tt_value_map_tensors(in, move, &first);
    tt_value *y = NULL, *out = NULL;

    if (there == NULL)
        return NULL;
    TT_DEVICE_SCOPE(first)
    y = tt_module_call(child, there);
    if (y != NULL)
        out = tt_value_map_tensors(y, move, &output);
    tt_value_free(there);
    tt_value_free(y);
    return out;
}

static tt_value *run_and_gather(tti_job *jobs, int n, const data_parallel *p)
{
    tt_value *outs[TTI_MAX_TARGETS], *out;
    tt_gather_options o = { .dim = p->dim, .device = &p->output };

    if (tti_run_jobs("data_parallel", jobs, n) != TT_OK)
        return NULL;
    for (int d = 0; d < n; d++)
        outs[d] = jobs[d].out;
    out = tt_comm_gather_values(outs, n, &o);
    for (int d = 0; d < n; d++)
        tt_value_free(outs[d]);
    return out;
}

static tt_value *call_on_all(tt_module *child, const data_parallel *p, tt_value *const *ins, int n)
{
    tt_module *replicas[TTI_MAX_TARGETS];
    tti_job jobs[TTI_MAX_TARGETS];
    tt_value *out;

    if (tti_replicate(child, p->devices, n, p->buffer_bytes, replicas) != TT_OK)
        return NULL;
    for (int d = 0; d < n; d++)
        jobs[d] = (tti_job){ .device = p->devices[d], .module = replicas[d], .in = ins[d] };
    out = run_and_gather(jobs, n, p);
    for (int d = 0; d < n; d++)
        tt_module_free(replicas[d]);
    return out;
}

static tt_value *call(tt_module *m, const tt_value *in)
{
    const data_parallel *p = tt_module_data(m, &data_parallel_class);
    tt_module *child = tt_module_child_at(m, 0);
    tt_value *ins[TTI_MAX_TARGETS], *out;
    int n = 1;

    if (p->n_devices == 1 || tt_value_n_tensors(in) == 0)
        return call_plainly(child, p, in);
    if (tt_comm_scatter_value(in, p->devices, p->n_devices, p->dim, ins, &n) != TT_OK)
        return NULL;
    out = n > 1 ? call_on_all(child, p, ins, n) : call_plainly(child, p, in);
    for (int d = 0; d < n; d++)
        tt_value_free(ins[d]);
    return out;
}

/* ---- making ---------------------------------------------------------------------------------- */

static tt_status fill(data_parallel *p, const tt_targets *devices,
                      const tt_data_parallel_options *opt)
{
    tt_data_parallel_options o = opt != NULL ? *opt : (tt_data_parallel_options){ 0 };

    if (devices == NULL || devices->outputs != NULL)
        return TT_FAIL(TT_ERR_INVALID, "data_parallel: expected a list of devices");
    TT_TRY(tti_devices_get("data_parallel", devices->devices, devices->n_devices, p->devices));
    for (int i = 1; i < devices->n_devices; i++)
        if (p->devices[i].kind != p->devices[0].kind)
            return TT_FAIL(TT_ERR_INVALID, "data_parallel: expected devices of one kind");
    p->n_devices = devices->n_devices;
    p->dim = o.dim;
    p->buffer_bytes = o.buffer_bytes;
    p->output = p->devices[0];
    return o.output_device != NULL ? tt_device_resolve(*o.output_device, &p->output) : TT_OK;
}

tt_module *tt_data_parallel(tt_module *m, const tt_targets *devices,
                            const tt_data_parallel_options *opt)
{
    tt_module *dp;

    if (m == NULL)
        return TT_NULL_GIVEN("data_parallel", "a module");
    dp = tt_module_new(&data_parallel_class);
    if (dp == NULL)
        return NULL;
    if (fill(tt_module_data(dp, &data_parallel_class), devices, opt) != TT_OK ||
        tt_module_add_child(dp, "module", m) != TT_OK) {
        tt_module_free(dp);
        return NULL;
    }
    return dp;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a module on other devices for one forward: trees of their own over tensors that a coalesced broadcast made,
 * so that gradients come back to the module's parameters. */
#include "nn/module.h"
#include "parallel/comm.h"

static tt_status check_place(const tt_state_dict *list, const char *what, tt_device first)
{
    char is[32], want[32];

    for (int i = 0; i < tt_state_dict_count(list); i++) {
        tt_device d = tt_tensor_device(tt_state_dict_tensor(list, i));

        if (!tt_device_equal(d, first))
            return TT_FAIL(TT_ERR_INVALID,
                           "data_parallel: expected %s \"%s\" on the first device, %s, got it on "
                           "%s: use tt_module_to_device",
                           what, tt_state_dict_name(list, i),
                           tt_device_name(first, want, sizeof want),
                           tt_device_name(d, is, sizeof is));
    }
    return TT_OK;
}

/* The module's tensors, parameters first. */
typedef struct contents {
    tt_state_dict *params, *buffers;
    tt_tensor **ts;     /* [n] */
    tt_tensor **spread; /* [devices * n] */
    int n;
} contents;

static tt_status contents_get(contents *c, tt_module *m, int n_devices)
{
    int n_params;

    c->params = tt_module_params(m, NULL);
    c->buffers = c->params != NULL ? tt_module_buffers(m, NULL) : NULL;
    if (c->buffers == NULL)
        return tt_last_status();
    n_params = tt_state_dict_count(c->params);
    c->n = n_params + tt_state_dict_count(c->buffers);
    c->ts = tti_calloc((size_t)c->n * (size_t)(n_devices + 1) + 1, sizeof(tt_tensor *));
    if (c->ts == NULL)
        return TT_ERR_NOMEM;
    c->spread = c->ts + c->n;
    for (int i = 0; i < c->n; i++)
        c->ts[i] = i < n_params ? tt_state_dict_tensor(c->params, i)
                                : tt_state_dict_tensor(c->buffers, i - n_params);
    return TT_OK;
}

static void contents_free(contents *c)
{
    tt_state_dict_free(c->params);
    tt_state_dict_free(c->buffers);
    tti_mfree(c->ts);
}

static tt_module *replica(const tt_module *m, const contents *c, int d)
{
    tti_ptr_map map = { 0 };
    tt_module *copy = NULL;
    tt_status st = TT_OK;
    bool found;

    for (int i = 0; st == TT_OK && i < c->n; i++)
        st = tti_ptr_map_add(&map, c->ts[i], c->spread[(size_t)d * (size_t)c->n + (size_t)i],
                             &found);
    if (st == TT_OK)
        copy = tti_module_copy_with(m, &map);
    tti_ptr_map_fini(&map);
    return copy;
}

/* A device that is given twice gets the module's own tensors. Its threads may share what they read, the parameters;
 * buffers are what layers write, so those of a replica are copies. */
static tt_status part_buffers(const contents *c, int n_devices)
{
    int n_params = tt_state_dict_count(c->params);

    for (int d = 1; d < n_devices; d++)
        for (int i = n_params; i < c->n; i++) {
            tt_tensor **t = &c->spread[(size_t)d * (size_t)c->n + (size_t)i];

            if (*t == c->ts[i])
                TT_TRY(tti_give(t, tt_clone(*t)));
        }
    return TT_OK;
}

static tt_status spread(const contents *c, const tt_device *devices, int n_devices,
                        size_t buffer_bytes)
{
    tt_coalesce_options o = { .buffer_bytes = buffer_bytes };

    TT_TRY(check_place(c->params, "parameter", devices[0]));
    TT_TRY(check_place(c->buffers, "buffer", devices[0]));
    if (c->n == 0)
        return TT_OK;
    TT_TRY(tt_comm_broadcast_coalesced(c->ts, c->n, devices, n_devices, &o, c->spread));
    return part_buffers(c, n_devices);
}

tt_status tti_replicate(tt_module *m, const tt_device *devices, int n_devices, size_t buffer_bytes,
                        tt_module **replicas)
{
    contents c = { 0 };
    tt_status st = contents_get(&c, m, n_devices);

    for (int d = 0; d < n_devices; d++)
        replicas[d] = NULL;
    if (st == TT_OK)
        st = spread(&c, devices, n_devices, buffer_bytes);
    for (int d = 0; st == TT_OK && d < n_devices; d++) {
        replicas[d] = d == 0 ? tt_module_retain(m) : replica(m, &c, d);
        st = replicas[d] != NULL ? TT_OK : tt_last_status();
    }
    for (int d = 0; st != TT_OK && d < n_devices; d++) {
        tt_module_free(replicas[d]);
        replicas[d] = NULL;
    }
    contents_free(&c);
    return st;
}

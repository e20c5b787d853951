/* SPDX-License-Identifier: Apache-2.0 */
/* Modules that record, logged errors, what backends can do, sparse inputs, addresses. */
#include "harness/ddp_tools.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <tutti/layers.h>
#include <tutti/ops.h>
#include <tutti/sparse.h>

/* ---- modules that record ---- */

typedef struct recording {
    tt_value *inputs; /* of the test */
    char key[16];
    bool cast;
} recording;

static tt_tensor *record_forward(tt_module *m, tt_tensor *x);
static tt_tensor *model_forward(tt_module *m, tt_tensor *x);

static const tt_module_class recording_class = { .name = "SaveForwardInputsModule",
                                                 .data_size = sizeof(recording),
                                                 .forward = record_forward };
static const tt_module_class model_class = { .name = "SaveForwardInputsModel",
                                             .data_size = sizeof(recording),
                                             .forward = model_forward };

static tt_status record_input(const recording *r, tt_tensor *x)
{
    return tt_value_map_give(r->inputs, r->key, tt_value_tensor_new(x));
}

static tt_tensor *record_forward(tt_module *m, tt_tensor *x)
{
    const recording *r = tt_module_data(m, &recording_class);
    tt_module *linear = tt_module_child(m, "l");

    if (record_input(r, x) != TT_OK)
        return NULL;
    if (r->cast)
        x = tt_to_dtype(x, tt_tensor_dtype(tt_module_param(linear, "weight")));
    return tt_module_forward(linear, x);
}

static tt_tensor *model_forward(tt_module *m, tt_tensor *x)
{
    if (record_input(tt_module_data(m, &model_class), x) != TT_OK)
        return NULL;
    x = tt_module_forward(tt_module_child(m, "c1"), x);
    return tt_module_forward(tt_module_child(m, "c2"), x);
}

static tt_module *make(const tt_module_class *cls, tt_value *inputs, const char *key, bool cast)
{
    tt_module *m = tt_module_new(cls);
    recording *r = m != NULL ? tt_module_data(m, cls) : NULL;

    if (r != NULL) {
        r->inputs = inputs;
        r->cast = cast;
        snprintf(r->key, sizeof r->key, "%s", key);
    }
    return m;
}

tt_module *recording_module_new(tt_value *inputs, const char *key, bool cast)
{
    tt_module *m = make(&recording_class, inputs, key, cast);

    if (m != NULL && tt_module_give_child(m, "l", tt_linear_new(100, 100, NULL)) != TT_OK) {
        tt_module_free(m);
        m = NULL;
    }
    return m;
}

tt_module *recording_model_new(tt_value *inputs, bool cast)
{
    tt_module *m = make(&model_class, inputs, "model", cast);

    if (m != NULL &&
        (tt_module_give_child(m, "c1", recording_module_new(inputs, "c1", cast)) != TT_OK ||
         tt_module_give_child(m, "c2", recording_module_new(inputs, "c2", cast)) != TT_OK)) {
        tt_module_free(m);
        m = NULL;
    }
    return m;
}

/* ---- errors in logs ---- */

bool check_error_logged(const tt_value *record, const char *words)
{
    static const char *const names[] = { "iteration", "has_error", "error" };
    const char *error, *stack = strstr(words, "\nstack of ");
    char expected[1024];
    bool held = true;

    for (int i = 0; i < 3; i++) {
        if (tt_value_map_has(record, names[i]))
            continue;
        TT_FAIL_TEST("the record has no %s", names[i]);
        held = false;
    }
    if (!held)
        return false;
    error = tt_value_as_text(tt_value_map_get(record, "error"));
    snprintf(expected, sizeof expected, "%.*s",
             (int)(stack != NULL ? (size_t)(stack - words) : strlen(words)), words);
    held = TT_CHECK(tt_value_as_bool(tt_value_map_get(record, "has_error")));
    return TT_CHECK_CONTAINS(error, expected) && held;
}

/* ---- what backends and devices can do ---- */

bool backend_can(const char *backend, const char *feature)
{
    static const struct {
        const char *feature, *missing; /* backends that lack it, each followed by a space */
    } lacks[] = {
        { "all_gather_coalesced", "nccl mpi ucc " },
        { "recv_any_source", "nccl fake " },
        { "cpu_barrier", "nccl ucc " },
        { "device", "mpi " },
        { "ddp", "fake " },
        { "subgroup", "" },
        { "plugin", "shm threads fake nccl mpi ucc " },
    };
    char word[32];

    snprintf(word, sizeof word, "%s ", backend);
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        if (strcmp(lacks[i].feature, feature) == 0)
            return strstr(lacks[i].missing, word) == NULL;
    }
    return false;
}

bool device_is_rank(const char *device)
{
    return strcmp(device, "cuda") == 0 || strcmp(device, "xpu") == 0 || strcmp(device, "cl") == 0;
}

/* ---- sparse inputs ---- */

static tt_shape case_shape(int which, int size, int *n_sparse_p)
{
    tt_shape shape = { 0 };
    int n_sparse = which < 3 ? which + 1 : 1;
    int n_dense = which < 3 ? 0 : which - 2;

    shape.n_dims = n_sparse + n_dense;
    for (int i = 0; i < shape.n_dims; i++)
        shape.dims[i] = i < n_sparse ? size : 2;
    *n_sparse_p = n_sparse;
    return shape;
}

/* Ones at indices 0 to rank of the first dimension, 0 in the others. */
tt_tensor *sparse_case_input(int which, int rank, int size)
{
    int n_sparse;
    tt_shape shape = case_shape(which, size, &n_sparse), values = { 0 };
    tt_tensor *first = tt_reshape(tt_arange(0, rank + 1, 1, TT_I64, TT_CPU), TT_SHAPE(1, rank + 1));
    tt_tensor *rest = tt_zeros(TT_SHAPE(n_sparse - 1, rank + 1), TT_I64, TT_CPU);
    tt_tensor *indices = n_sparse == 1 ? first : tt_cat((tt_tensor *[]){ first, rest }, 2, 0);

    values.n_dims = 1 + shape.n_dims - n_sparse;
    values.dims[0] = rank + 1;
    for (int i = 1; i < values.n_dims; i++)
        values.dims[i] = 2;
    return tt_sparse_coo(indices, tt_ones(values, TT_F32, TT_CPU), shape);
}

tt_tensor *sparse_case_sum(int which, int size)
{
    tt_tensor *sum = tt_to_dense(sparse_case_input(which, 0, size));

    for (int r = 1; r < size; r++)
        sum = tt_add(sum, tt_to_dense(sparse_case_input(which, r, size)));
    return sum;
}

/* ---- network ---- */

bool interface_address(const char *name, char *text, size_t size)
{
    struct ifaddrs *all, *at;
    bool found = false;

    if (getifaddrs(&all) != 0)
        return false;
    for (at = all; at != NULL && !found; at = at->ifa_next) {
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET)
            continue;
        if (name != NULL ? strcmp(at->ifa_name, name) != 0 : (at->ifa_flags & IFF_LOOPBACK) == 0)
            continue;
        found =
            inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)at->ifa_addr)->sin_addr,
                      text, (socklen_t)size) != NULL;
    }
    freeifaddrs(all);
    return found;
}

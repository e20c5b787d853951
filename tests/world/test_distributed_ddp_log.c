/* SPDX-License-Identifier: Apache-2.0 */
/* The record of data parallel training: what it says, and that errors are in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/ddp_hooks.h"
#include "tutti/sparse.h"
#include "tutti/testing_tools.h"
#include "world/ddp_models.h"

static const tt_linear_options no_bias = { .no_bias = true };

/* ---- reading a record ------------------------------------------------------------------------------- */

static int64_t number(const tt_value *log, const char *name)
{
    if (!tt_value_map_has(log, name))
        TT_FAIL_TEST("the record has no %s", name);
    return tt_value_as_int(tt_value_map_get(log, name));
}

static const char *words(const tt_value *log, const char *name)
{
    if (!tt_value_map_has(log, name))
        TT_FAIL_TEST("the record has no %s", name);
    return tt_value_as_text(tt_value_map_get(log, name));
}

static tt_value *record_of(const tt_ddp *d)
{
    tt_value *log = tt_ddp_log_value(d);

    TT_REQUIRE_NOT_NULL(log);
    return log;
}

static void check_logged(const tt_ddp *d, const char *error)
{
    tt_value *log = record_of(d);

    TT_CHECK_EQ(number(log, "has_error"), 1);
    TT_CHECK_CONTAINS(words(log, "error"), error);
    TT_CHECK_GE(number(log, "iteration"), 0);
    tt_value_free(log);
}

/* ---- twenty iterations ------------------------------------------------------------------------------- */

static void check_times(const tt_value *log)
{
    int64_t backward = number(log, "backward_compute_time"),
            comm = number(log, "backward_comm_time");

    TT_CHECK_GE(number(log, "forward_compute_time"), 1);
    TT_CHECK_GE(backward, 1);
    TT_CHECK_GE(comm, 1);
    TT_CHECK_LE(number(log, "backward_compute_comm_overlap_time"), backward);
    TT_CHECK_LE(number(log, "backward_compute_comm_overlap_time"), comm);
}

static void check_sample(const tt_ddp *d, int i)
{
    tt_value *log = record_of(d);

    if (i > 0 && (i < 10 || i % 2 == 0)) {
        TT_CHECK_EQ(number(log, "iteration"), i);
        check_times(log);
    } else if (i > 0) {
        TT_CHECK_NE(number(log, "iteration"), i);
    }
    tt_value_free(log);
}

static void train(const dist_group *g, tt_ddp *d, int64_t width, int n)
{
    for (int i = 0; i < n; i++)
        TT_SCOPE {
            ddp_step(d, ddp_random(TT_SHAPE(3, width), tt_test_seed() + (uint64_t)g->me));
            tt_module_zero_grad(tt_ddp_module(d));
            check_sample(d, i);
        }
}

static void check_environment(const tt_value *log)
{
    static const char *const variables[][2] = {
        { "master_addr", "MASTER_ADDR" },
        { "master_port", "MASTER_PORT" },
        { "cuda_visible_devices", "CUDA_VISIBLE_DEVICES" },
        { "gloo_socket_ifname", "GLOO_SOCKET_IFNAME" },
        { "gloo_device_transport", "GLOO_DEVICE_TRANSPORT" },
    };

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i][1]);

        TT_CHECK_STR(words(log, variables[i][0]), value != NULL && *value != '\0' ? value : "N/A");
    }
    TT_CHECK_STR(words(log, "torch_distributed_debug"), "INFO");
    TT_CHECK_EQ(number(log, "gloo_num_threads"), 2);
    TT_CHECK(!tt_value_map_has(log, "nccl_socket_ifname"));
    TT_CHECK(!tt_value_map_has(log, "nccl_nthreads"));
}

static void check_set_up(const dist_group *g, const tt_value *log)
{
    char rank[16];

    TT_CHECK_EQ(number(log, "world_size"), g->n);
    TT_CHECK_EQ(number(log, "rank"), g->me);
    TT_CHECK_STR(words(log, "module_name"), "Net");
    if (dist_device().kind == TT_DEVICE_CPU) {
        TT_CHECK_STR(words(log, "device_ids"), "");
        TT_CHECK_EQ(number(log, "output_device"), -1);
    } else {
        snprintf(rank, sizeof rank, "%d", dist_device().index);
        TT_CHECK_STR(words(log, "device_ids"), rank);
        TT_CHECK_EQ(number(log, "output_device"), dist_device().index);
    }
    TT_CHECK_EQ(number(log, "broadcast_buffers"), 1);
    TT_CHECK_EQ(number(log, "bucket_cap_bytes"), 25 * 1024 * 1024);
    TT_CHECK_EQ(number(log, "find_unused_parameters"), 0);
    TT_CHECK_EQ(number(log, "gradient_as_bucket_view"), 0);
    TT_CHECK_STR(words(log, "backend_name"), tt_pg_backend(g->pg));
    TT_CHECK_EQ(number(log, "iteration"), 18);
    TT_CHECK_STR(words(log, "dtypes"), "float");
    TT_CHECK_EQ(number(log, "has_sync_bn"), 0);
    TT_CHECK_EQ(number(log, "join_uneven_inputs"), 0);
    TT_CHECK_EQ(number(log, "has_error"), 0);
    TT_CHECK_STR(words(log, "error"), "");
}

static void check_buckets(const tt_value *log)
{
    char bytes[32];

    /* 2 x 10, 10 x 50 and 50 x 4 */
    snprintf(bytes, sizeof bytes, "%d", (20 + 500 + 200) * 4);
    TT_CHECK_EQ(number(log, "total_parameter_size_bytes"), (20 + 500 + 200) * 4);
    TT_CHECK_EQ(number(log, "num_parameter_tensors"), 3);
    TT_CHECK_STR(words(log, "bucket_sizes"), bytes);
    TT_CHECK_EQ(number(log, "unused_parameter_size"), 0);
    TT_CHECK_EQ(number(log, "has_rebuilt_buckets"), 1);
    TT_CHECK_EQ(number(log, "num_buckets_reduced"), 1);
    TT_CHECK_STR(words(log, "rebuilt_bucket_sizes"), bytes);
    TT_CHECK_STR(words(log, "prev_iteration_grad_ready_order_indices"), "2, 1, 0");
    TT_CHECK_STR(words(log, "rebuilt_per_bucket_param_indices"), "2 1 0");
}

static void check_moments(const tt_value *log)
{
    int64_t forward = number(log, "forward_compute_time_start");
    int64_t backward = number(log, "backward_compute_time_start");
    int64_t comm = number(log, "backward_comm_time_start");

    TT_CHECK_GE(number(log, "avg_forward_compute_time"), 1);
    TT_CHECK_GE(number(log, "avg_backward_compute_time"), 1);
    TT_CHECK_GE(number(log, "avg_backward_comm_time"), 1);
    TT_CHECK_GE(number(log, "avg_backward_compute_comm_overlap_time"), 0);
    TT_CHECK_LE(forward, backward);
    TT_CHECK_LE(backward, comm);
    TT_CHECK_LE(comm, number(log, "backward_comm_time_end"));
    TT_CHECK_LE(backward, number(log, "backward_compute_time_end"));
}

/* Two types, and a small cap. */
static void check_large(const dist_group *g)
{
    tt_module *m = ddp_module(tt_sequential_new());
    tt_value *log;
    tt_ddp *d;

    TT_REQUIRE_OK(tt_module_give_child(m, "fc1", tt_linear_new(1000, 2000, &no_bias)));
    TT_REQUIRE_OK(tt_module_give_child(m, "fc2", tt_linear_new(2000, 500, &no_bias)));
    TT_REQUIRE_OK(tt_module_to_dtype(tt_module_child(m, "fc1"), TT_F64));
    d = ddp_new(m, g->pg, &(tt_ddp_options){ .bucket_cap_mb = 1.5 });
    log = record_of(d);
    TT_CHECK_EQ(number(log, "bucket_cap_bytes"), 1572864);
    TT_CHECK_STR(words(log, "bucket_sizes"), "4000000, 16000000");
    TT_CHECK_STR(words(log, "dtypes"), "double, float");
    tt_value_free(log);
    tt_ddp_free(d);
    tt_module_free(m);
}

static void logging_data(const dist_group *g, const void *arg)
{
    tt_debug_level before = tt_get_debug_level();
    tt_module *m = ddp_net_new();
    tt_value *log;
    char *table;
    tt_ddp *d;

    (void)arg;
    tt_set_debug_level(TT_DEBUG_INFO);
    d = ddp_new(m, g->pg, &(tt_ddp_options){ .log_sample_rate = 2, .copy_gradients = true });
    train(g, d, 2, 20);
    log = record_of(d);
    check_set_up(g, log);
    check_environment(log);
    check_buckets(log);
    check_moments(log);
    tt_value_free(log);
    table = tt_ddp_log(d);
    TT_CHECK_CONTAINS(table, "rebuilt_per_bucket_param_indices         2 1 0\n");
    tt_text_free(table);
    tt_ddp_free(d);
    tt_module_free(m);
    check_large(g);
    dist_meet();
    tt_set_debug_level(before);
}

/* ---- errors ------------------------------------------------------------------------------------------- */

static void sparse_assignment(const dist_group *g, const void *arg)
{
    tt_ddp_limits limits = { .bytes = { 400 }, .n = 1 };
    tt_module *m = ddp_module(tt_linear_new(10, 10, NULL));
    tt_ddp *d = ddp_new(m, g->pg, NULL);
    tt_tensor *ts[6];
    int bucket_of[6], n;

    (void)arg;
    for (int i = 0; i < 6; i++) {
        tt_dtype dtype = i % 2 == 0 ? TT_F32 : TT_F64;

        ts[i] = tt_sparse_coo(tt_zeros(TT_SHAPE(1, 1), TT_I64, TT_CPU),
                              tt_ones(TT_SHAPE(1), dtype, TT_CPU), TT_SHAPE(i % 2 == 0 ? 50 : 25));
        TT_REQUIRE_NOT_NULL(ts[i]);
    }
    TT_CHECK_ERR_SAYS(tt_ddp_assign_logged(d, ts, 6, &limits, bucket_of, &n), TT_ERR_UNSUPPORTED,
                      "sparse tensors are not supported");
    check_logged(d, "sparse tensors are not supported");
    tt_ddp_free(d);
    tt_module_free(m);
}

static void hook_without_function(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_linear_new(10, 10, NULL));
    tt_ddp *d = ddp_new(m, g->pg, NULL);

    (void)arg;
    TT_CHECK_ERR_SAYS(tt_ddp_register_hook(d, &(tt_ddp_hook){ .name = "none" }), TT_ERR_INVALID,
                      "a hook with a function");
    check_logged(d, "a hook with a function");
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- names --------------------------------------------------------------------------------------------- */

static tt_module *two_layers(void)
{
    tt_module *m = ddp_module(tt_sequential_new());

    TT_REQUIRE_OK(tt_module_give_child(m, "a", tt_linear_new(10, 10, &no_bias)));
    TT_REQUIRE_OK(tt_module_give_child(m, "b", tt_linear_new(10, 1, &no_bias)));
    return m;
}

static void name_mapping(const dist_group *g, const void *arg)
{
    const char *const ignored[] = { "a.weight" };
    tt_module *m = two_layers();
    tt_tensor *other = tt_zeros(TT_SHAPE(1), TT_F32, TT_CPU);
    tt_tensor *ts[] = { tt_module_param(m, "a.weight"), tt_module_param(m, "b.weight"), other,
                        other };
    const char *names[4] = { NULL };
    tt_ddp *d = ddp_new(m, g->pg, NULL);

    (void)arg;
    TT_REQUIRE_OK(tt_ddp_name_params(d, ts, 2, names));
    TT_CHECK_STR(names[0], "a.weight");
    TT_CHECK_STR(names[1], "b.weight");
    TT_CHECK_STR(tt_ddp_param_name(d, 0), "a.weight");
    TT_CHECK_STR(tt_ddp_param_name(d, 1), "b.weight");
    TT_CHECK_ERR_SAYS(tt_ddp_name_params(d, ts, 4, names), TT_ERR_INVALID,
                      "expected the 2 parameters that are reduced, got 4");
    TT_CHECK_ERR_SAYS(tt_ddp_name_params(d, ts, 1, names), TT_ERR_INVALID,
                      "\"b.weight\" (1) is missing");
    tt_ddp_free(d);
    d = ddp_new(m, g->pg, &(tt_ddp_options){ .ignored = ignored, .n_ignored = 1 });
    TT_REQUIRE_OK(tt_ddp_name_params(d, ts + 1, 1, names));
    TT_CHECK_STR(names[0], "b.weight");
    TT_CHECK_EQ(tt_ddp_n_params(d), 1);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- the environment ------------------------------------------------------------------------------------- */

static void check_line(const char *text, const char *name)
{
    const char *value = getenv(name);
    char line[512];

    snprintf(line, sizeof line, "env:%s=%s\n", name,
             value != NULL && *value != '\0' ? value : "N/A");
    TT_CHECK_CONTAINS(text, line);
}

static void dump_env(const dist_group *g, const void *arg)
{
    static const char *const names[] = { "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE",
                                         "NCCL_TOPO_DUMP_FILE", "TORCH_NCCL_ASYNC_ERROR_HANDLING" };
    static const char *const unrelated[] = { "xxx", "yyy", "zzz" };
    char *text = tt_ddp_env_text();
    tt_test_captured printed;
    char name[32];

    (void)g, (void)arg;
    TT_REQUIRE_NOT_NULL(text);
    TT_REQUIRE_OK(tt_test_capture_begin());
    fputs(text, stdout);
    printed = tt_test_capture_end();
    for (int i = 0; i < 5; i++)
        check_line(printed.out, names[i]);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "env:%s=", unrelated[i]);
        TT_CHECK_NULL(strstr(printed.out, name));
    }
    tt_text_free(text);
}

static const dist_row rows[] = {
    { "test_ddp_logging_data_cpu", logging_data, DIST_WORLD, NULL, 0 },
    { "test_compute_bucket_assignment_by_size_sparse_error_with_logger", sparse_assignment,
      DIST_WORLD, NULL, 0 },
    { "test_ddp_python_error_logged", hook_without_function, DIST_WORLD, NULL, 0 },
    { "test_ddp_build_debug_param_to_name_mapping", name_mapping, DIST_WORLD, NULL, 0 },
};

/* What a process prints cannot be captured by several threads. */
static const dist_row process_rows[] = {
    { "test_dump_DDP_relevant_env_vars", dump_env, DIST_WORLD, NULL, 0 },
};

static const dist_row on_devices[] = {
    { "test_ddp_logging_data_gpu", logging_data, DIST_WORLD, NULL, 3 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
    DIST_ADD_ROWS(process_rows);
    DIST_ADD_ROWS_ON_DEVICES(on_devices);
}

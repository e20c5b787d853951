/* SPDX-License-Identifier: Apache-2.0 */
/* The behaviours of the harness by name: reasons to skip, limits, scopes, directories, sub-tests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <tutti/sparse.h>
#include <tutti/testing_tools.h>
#include <unistd.h>

#include "harness/again.h"
#include "harness/check_tensor.h"
#include "harness/ddp_tools.h"
#include "testing/testing.h"

TT_TEST_NAMED(test_skips, "harness", "TEST_SKIPS")
{
    static const int devices[] = { 75, 77, 80, 81, 82, 83, 84, 85 };
    const again_outcome *o = RUN("meta_codes");

    TT_CHECK_EQ(TT_TEST_SKIP_BACKEND, 72);
    TT_CHECK_EQ(TT_TEST_SKIP_SMALL_WORLD, 73);
    TT_CHECK_EQ(TT_TEST_SKIP_NO_CUDA, 74);
    TT_CHECK_EQ(TT_TEST_SKIP_NO_NCCL, 76);
    TT_CHECK_EQ(TT_TEST_SKIP_ROCM, 78);
    TT_CHECK_EQ(TT_TEST_SKIP_NO_PEER_ACCESS, 79);
    TT_CHECK_EQ(TT_TEST_SKIP_GENERIC, 86);
    TT_CHECK_EQ(TT_TEST_SKIP_ODD_WORLD, 87);
    TT_CHECK_EQ(TT_TEST_SKIP_MISSING_IMPORT, 88);
    TT_CHECK_EQ(TT_TEST_SKIP_NO_ACCELERATOR, 89);
    for (int n = 1; n <= 8; n++)
        TT_CHECK_EQ(tt_test_devices_code(n), devices[n - 1]);
    TT_CHECK_EQ(o->code, 0);
    TT_CHECK_STR(again_last_line(o->text), "0 passed, 0 failed, 18 skipped\n");
    for (int code = 72; code <= 89; code++) {
        const char *at = o->report;
        char start[32], end[128];

        snprintf(start, sizeof start, "meta_codes\t%d\tskip\t", code);
        snprintf(end, sizeof end, "\t%s\n", tt_test_skip_reason(code));
        at = strstr(at, start);
        TT_REQUIRE_NOT_NULL(at);
        TT_CHECK_EQ(strncmp(strstr(at, "skip\t") + 10, end, strlen(end)), 0);
    }
}

TT_TEST_NAMED(test_skip, "harness", "TestSkip")
{
    for (int code = 72; code <= 89; code++) {
        const char *reason = tt_test_skip_reason(code);

        TT_REQUIRE_NOT_NULL(reason);
        TT_CHECK(*reason != '\0');
        for (int other = 72; other < code; other++)
            TT_CHECK_NE(strcmp(reason, tt_test_skip_reason(other)), 0);
    }
    TT_CHECK_NULL(tt_test_skip_reason(71));
    TT_CHECK_NULL(tt_test_skip_reason(90));
    TT_CHECK_NULL(tt_test_skip_reason(0));
}

TT_TEST_NAMED(timeout_default, "harness", "TIMEOUT_DEFAULT")
{
    const tt_test ranks = { .suite = "s", .name = "n", .kind = TT_TEST_KIND_RANKS, .ranks = 2 };
    const tti_test_options none = { 0 };
    double expected = tti_test_sanitized() ? 500 : 300;

    TT_TEST_WITH_ENV("TUTTI_TEST_LIMIT", NULL)
    {
        TT_CHECK_NEAR(tt_test_limit_for("anything"), expected, 0);
        TT_CHECK_NEAR(tti_test_limit(&ranks, &none), expected, 0);
    }
    TT_TEST_WITH_ENV("TUTTI_TEST_LIMIT", "77")
    TT_CHECK_NEAR(tti_test_limit(&ranks, &none), tti_test_sanitized() ? 500 : 77, 0);
}

TT_TEST_NAMED(timeout_override, "harness", "TIMEOUT_OVERRIDE")
{
    const tti_test_options none = { 0 };
    const tt_test uneven = { .suite = "distributed",
                             .name = "test_ddp_uneven_inputs",
                             .kind = TT_TEST_KIND_RANKS };
    const tt_test own = { .suite = "s", .name = "n", .kind = TT_TEST_KIND_RANKS, .limit = 5 };

    TT_CHECK_NEAR(tti_test_limit(&uneven, &none), 400, 0);
    TT_CHECK_NEAR(tt_test_limit_for("test_DistributedDataParallel"), 500, 0);
    TT_CHECK_NEAR(tti_test_limit(&own, &none), tti_test_sanitized() ? 20 : 5, 0);
}

TT_TEST(harness, limits_stretch_with_the_load)
{
    const tti_test_options none = { 0 }, given = { .limit = 3 };
    const tt_test plain = { .suite = "s", .name = "n", .kind = TT_TEST_KIND_PLAIN, .limit = 5 };

    TT_CHECK_NEAR(tti_test_stretch_at(0.1, 2), 1, 0);
    TT_CHECK_NEAR(tti_test_stretch_at(2, 2), 1, 0);
    TT_CHECK_NEAR(tti_test_stretch_at(20, 2), 10, 1e-9);
    TT_CHECK_NEAR(tti_test_stretch_at(1e6, 2), 30, 0);
    TT_CHECK_NEAR(tti_test_stretch_at(3, 0), 3, 0);
    TT_CHECK(tti_test_limit_now(&plain, &none) >= tti_test_limit(&plain, &none));
    TT_CHECK_NEAR(tti_test_limit_now(&plain, &given), 3, 0);
}

TT_TEST_NAMED(get_timeout, "harness", "get_timeout")
{
    tt_test_set_limit("a name of this test", 12.5);
    TT_CHECK_NEAR(tt_test_limit_for("module.class.a name of this test"), 12.5, 0);
    TT_CHECK_NEAR(tt_test_limit_for("a name of this test"), 12.5, 0);
    TT_CHECK_NEAR(tt_test_limit_for("a.b.test_ddp_uneven_inputs"), 400, 0);
    TT_CHECK_NEAR(tt_test_limit_for("a name of this test.more"), tt_test_limit_for("other"), 0);
}

TT_TEST_NAMED(default_world_size, "harness", "DEFAULT_WORLD_SIZE")
{
    TT_TEST_WITH_ENV("TUTTI_TEST_RANKS", NULL)
    TT_CHECK_CONTAINS(RUN("meta_world", "-v")->text, "world of 4, WORLD_SIZE 4\n");
    TT_TEST_WITH_ENV("TUTTI_TEST_RANKS", "3")
    TT_CHECK_CONTAINS(RUN("meta_world", "-v")->text, "world of 3, WORLD_SIZE 3\n");
}

TT_TEST_NAMED(dist_test_cases, "harness", "DistTestCases")
{
    static const char *const ours[] = { "shm", "threads" };

    for (int i = 0; i < 2; i++) {
        TT_CHECK(backend_can(ours[i], "all_gather_coalesced"));
        TT_CHECK(backend_can(ours[i], "recv_any_source"));
        TT_CHECK(backend_can(ours[i], "cpu_barrier"));
        TT_CHECK(backend_can(ours[i], "device"));
        TT_CHECK(backend_can(ours[i], "ddp"));
        TT_CHECK(backend_can(ours[i], "subgroup"));
        TT_CHECK(!backend_can(ours[i], "plugin"));
    }
    TT_CHECK(!backend_can("nccl", "recv_any_source"));
    TT_CHECK(!backend_can("mpi", "all_gather_coalesced"));
    TT_CHECK(!backend_can("nccl", "cpu_barrier"));
    TT_CHECK(!backend_can("shm", "a feature that does not exist"));
}

TT_TEST_NAMED(requires_ddp_rank, "harness", "requires_ddp_rank")
{
    TT_CHECK(device_is_rank("cuda"));
    TT_CHECK(device_is_rank("xpu"));
    TT_CHECK(device_is_rank("cl"));
    TT_CHECK(!device_is_rank("cpu"));
}

/* ---- skipping ---- */

static void check_skips(const char *test, const char *reason)
{
    const again_outcome *o = RUN(test);

    TT_CHECK_STR(again_last_line(o->text), "0 passed, 0 failed, 1 skipped\n");
    TT_CHECK_CONTAINS(o->report, reason);
}

static void check_runs(const char *test)
{
    TT_CHECK_STR(again_last_line(RUN(test)->text), "1 passed, 0 failed, 0 skipped\n");
}

TT_TEST_NAMED(skip_if_no_gpu, "harness", "skip_if_no_gpu")
{
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "0")
    check_skips("meta_require.device_per_rank", "\tno accelerator\n");
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "1")
    check_skips("meta_require.device_per_rank", "\tneeds 2 devices\n");
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "2")
    check_runs("meta_require.device_per_rank");
}

TT_TEST_NAMED(skip_if_small_worldsize, "harness", "skip_if_small_worldsize")
{
    check_skips("meta_require.eight_ranks_of_2", "\tneeds a world of 8 ranks, has 2\n");
    check_runs("meta_require.eight_ranks_of_8");
    TT_TEST_WITH_ENV("BACKEND", "mpi")
    check_runs("meta_require.eight_ranks_of_2");
}

TT_TEST_NAMED(skip_if_odd_worldsize, "harness", "skip_if_odd_worldsize")
{
    check_skips("meta_require.even_world_of_3", "\tneeds a world of even size\n");
    check_runs("meta_require.even_world_of_2");
    TT_TEST_WITH_ENV("BACKEND", "mpi")
    check_runs("meta_require.even_world_of_3");
}

TT_TEST_NAMED(at_least_x_gpu, "harness", "at_least_x_gpu")
{
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "3")
    {
        TT_CHECK(tt_test_has_devices(1));
        TT_CHECK(tt_test_has_devices(3));
        TT_CHECK(!tt_test_has_devices(4));
    }
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "0")
    TT_CHECK(!tt_test_has_devices(0));
}

TT_TEST_NAMED(skip_if_lt_x_gpu, "harness", "skip_if_lt_x_gpu")
{
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "4")
    {
        check_skips("meta_require.five_devices", "\tneeds 5 devices\n");
        check_skips("meta_require.five_devices_or_none", "\tneeds 5 devices\n");
    }
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "5")
    check_runs("meta_require.five_devices");
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "0")
    {
        check_skips("meta_require.five_devices", "\tneeds 5 devices\n");
        check_runs("meta_require.five_devices_or_none");
    }
}

TT_TEST_NAMED(requires_world_size, "harness", "requires_world_size")
{
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "3")
    TT_CHECK_CONTAINS(RUN("meta_require.three_ranks_and_devices", "-v")->text,
                      "runs with 3 ranks\n");
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "2")
    check_skips("meta_require.three_ranks_and_devices", "\tneeds 3 devices\n");
}

TT_TEST_NAMED(get_required_world_size, "harness", "get_required_world_size")
{
    TT_CHECK_EQ(tt_test_required_ranks("meta_require.three_ranks_and_devices", 4), 3);
    TT_CHECK_EQ(tt_test_required_ranks("meta_require.eight_ranks_of_8", 4), 8);
    TT_CHECK_EQ(tt_test_required_ranks("meta_world.says_its_size", 4), 4);
    TT_CHECK_EQ(tt_test_required_ranks("meta_require.no_such_test", 6), 6);
    TT_CHECK_EQ(tt_test_required_ranks("no dot", 7), 7);
}

TT_TEST_NAMED(requires_gloo, "harness", "requires_gloo")
{
    const again_outcome *o = RUN("meta_require.backend_shm");

    if (strstr(o->report, "\tskip\t") != NULL)
        TT_CHECK_CONTAINS(o->report, "\tthe backend shm is not available\n");
    else
        TT_CHECK_STR(again_last_line(o->text), "1 passed, 0 failed, 0 skipped\n");
}

TT_TEST_NAMED(requires_accelerator_dist_backend, "harness", "requires_accelerator_dist_backend")
{
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "0")
    check_skips("meta_require.accelerator_backend", "there is no accelerator\n");
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "1")
    {
        check_runs("meta_require.accelerator_backend");
        check_runs("meta_require.accelerator_backend_xccl_or_shm");
        check_skips("meta_require.accelerator_backend_nccl_or_xccl",
                    "none of the named backends for accelerators is available\n");
    }
}

TT_TEST_NAMED(accelerator_dist_backends, "harness",
              "ACCELERATOR_DIST_BACKENDS / DDP_RANK_DEVICES / HAS_ACCELERATOR")
{
    const char *const *backends = tt_test_accelerator_backends();
    const char *const *types = tt_test_rank_device_types();

    TT_CHECK_STR(backends[0], "shm");
    TT_CHECK_STR(backends[1], "threads");
    TT_CHECK_STR(backends[2], "nccl");
    TT_CHECK_NULL(backends[3]);
    TT_CHECK_STR(types[0], "cl");
    TT_CHECK_STR(types[1], "cuda");
    TT_CHECK_NULL(types[2]);
    for (int i = 0; i < 2; i++) { /* the backend of each type is among them */
        int found = 0;

        for (int j = 0; backends[j] != NULL; j++)
            found += strcmp(tt_test_backend_for(types[i]), backends[j]) == 0;
        TT_CHECK_EQ(found, 1);
    }
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "0")
    TT_CHECK(!tt_test_has_devices(1));
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "2")
    TT_CHECK(tt_test_has_devices(1));
}

/* The soft limit is 0 inside and the old one afterwards. */
TT_TEST_NAMED(core_dumps_disabled, "harness", "core_dumps_disabled")
{
    struct rlimit old, inside, after;

    TT_REQUIRE_EQ(getrlimit(RLIMIT_CORE, &old), 0);
    old.rlim_cur = old.rlim_max < 4096 ? old.rlim_max : 4096;
    TT_REQUIRE_EQ(setrlimit(RLIMIT_CORE, &old), 0);
    TT_TEST_WITHOUT_CORE_DUMPS
    {
        TT_CHECK_EQ(getrlimit(RLIMIT_CORE, &inside), 0);
        TT_CHECK_EQ(inside.rlim_cur, 0);
        TT_CHECK_EQ(inside.rlim_max, old.rlim_max);
    }
    TT_CHECK_EQ(getrlimit(RLIMIT_CORE, &after), 0);
    TT_CHECK_EQ(after.rlim_cur, old.rlim_cur);
    TT_CHECK_EQ(after.rlim_max, old.rlim_max);
}

TT_TEST_NAMED(requires_mpi, "harness", "requires_mpi")
{
    check_skips("meta_require.backend_mpi", "\tthe backend mpi is not available\n");
}

TT_TEST_NAMED(skip_if_win32, "harness", "skip_if_win32")
{
    check_runs("meta_require.not_on_win32");
    check_skips("meta_require.not_on_linux", "\tnot for linux\n");
}

/* ---- logged errors, modules that record ---- */

TT_TEST_NAMED(verify_ddp_error_logged, "harness", "verify_ddp_error_logged")
{
    tt_value *r = tt_value_map_new();

    tt_value_map_give(r, "iteration", tt_value_int_new(3));
    tt_value_map_give(r, "has_error", tt_value_bool_new(true));
    tt_value_map_give(r, "error", tt_value_text_new("rank 1: the sizes differ\nframe 7"));
    TT_CHECK(check_error_logged(r, "the sizes differ"));
    TT_CHECK(check_error_logged(r, "the sizes differ\nstack of thread main: elsewhere"));
    TT_CHECK_EQ(tt_test_failures(), 0);
    tt_value_free(r);
    TT_CHECK_STR(again_last_line(RUN("meta_error_logged")->text),
                 "0 passed, 3 failed, 0 skipped\n");
}

static void check_wrong_record(void *ctx)
{
    const char *without = ctx;
    tt_value *r = tt_value_map_new();

    if (strcmp(without, "iteration") != 0)
        tt_value_map_give(r, "iteration", tt_value_int_new(3));
    tt_value_map_give(r, "has_error", tt_value_bool_new(strcmp(without, "has_error") != 0));
    tt_value_map_give(r, "error", tt_value_text_new(strcmp(without, "error") ? "words" : "other"));
    check_error_logged(r, "words");
    tt_value_free(r);
}

TT_TEST_TABLE(meta_error_logged)
{
    static char names[3][16] = { "iteration", "has_error", "error" };

    for (int i = 0; i < 3; i++) {
        tt_test *t = tt_test_add("meta_error_logged", names[i], check_wrong_record, names[i]);

        if (t != NULL)
            t->hidden = true;
    }
}

TT_TEST_NAMED(save_forward_inputs_module, "harness", "SaveForwardInputsModule")
{
    tt_value *inputs = tt_value_map_new();
    tt_module *m = recording_module_new(inputs, "it", false);
    tt_module *casting = recording_module_new(inputs, "cast", true);

    TT_REQUIRE_NOT_NULL(m);
    TT_REQUIRE_NOT_NULL(casting);
    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(2, 100), TT_F32, TT_CPU);
        tt_tensor *wide = tt_ones(TT_SHAPE(2, 100), TT_F64, TT_CPU);
        tt_tensor *y = tt_module_forward(m, x);

        TT_CHECK_SHAPE(y, 2, 100);
        TT_CHECK_TENSOR(tt_value_as_tensor(tt_value_map_get(inputs, "it")), x, 0);
        TT_CHECK_NULL(tt_module_forward(m, wide));
        y = tt_module_forward(casting, wide);
        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK_EQ(tt_tensor_dtype(y), TT_F32);
        TT_CHECK_TENSOR(tt_value_as_tensor(tt_value_map_get(inputs, "cast")), wide, 0);
    }
    tt_module_free(m);
    tt_module_free(casting);
    tt_value_free(inputs);
}

TT_TEST_NAMED(save_forward_inputs_model, "harness", "SaveForwardInputsModel")
{
    tt_value *inputs = tt_value_map_new();
    tt_module *m = recording_model_new(inputs, false);

    TT_REQUIRE_NOT_NULL(m);
    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(3, 100), TT_F32, TT_CPU);
        tt_tensor *y = tt_module_forward(m, x);

        TT_CHECK_SHAPE(y, 3, 100);
        TT_CHECK_EQ(tt_value_count(inputs), 3);
        TT_CHECK_TENSOR(tt_value_as_tensor(tt_value_map_get(inputs, "model")), x, 0);
        TT_CHECK_TENSOR(tt_value_as_tensor(tt_value_map_get(inputs, "c1")), x, 0);
        TT_CHECK_TENSOR(tt_value_as_tensor(tt_value_map_get(inputs, "c2")),
                        tt_module_forward(tt_module_child(tt_module_child(m, "c1"), "l"), x), 0);
    }
    tt_module_free(m);
    tt_value_free(inputs);
}

/* ---- scopes ---- */

TT_TEST_NAMED(with_nccl_blocking_wait, "harness", "with_nccl_blocking_wait")
{
    static const char *const async = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
    static const char *const blocking = "TORCH_NCCL_BLOCKING_WAIT";

    setenv(async, "3", 1);
    unsetenv(blocking);
    TT_TEST_WITH_ENV(async, NULL)
    TT_TEST_WITH_ENV(blocking, "1")
    {
        TT_CHECK_NULL(getenv(async));
        TT_CHECK_STR(getenv(blocking), "1");
    }
    TT_CHECK_STR(getenv(async), "3");
    TT_CHECK_NULL(getenv(blocking));
}

static void note_level(void *ctx)
{
    char *seen = ctx;
    const char *level = getenv("TUTTI_DISTRIBUTED_DEBUG");
    tt_debug_level expected = TT_DEBUG_OFF;

    TT_REQUIRE_NOT_NULL(level);
    strcat(strcat(seen, level), " ");
    TT_CHECK_OK(tt_debug_level_parse(level, &expected));
    TT_CHECK_EQ(tt_get_debug_level(), expected);
}

TT_TEST_RANKS_NAMED(2, with_dist_debug_levels, "harness", "with_dist_debug_levels")
{
    static const char *const two[] = { "INFO", "OFF" };
    char seen[64] = "";

    setenv("TUTTI_DISTRIBUTED_DEBUG", "INFO", 1);
    tt_test_each_debug_level(NULL, 0, note_level, seen);
    TT_CHECK_STR(seen, "OFF INFO DETAIL ");
    seen[0] = '\0';
    tt_test_each_debug_level(two, 2, note_level, seen);
    TT_CHECK_STR(seen, "INFO OFF ");
    TT_CHECK_STR(getenv("TUTTI_DISTRIBUTED_DEBUG"), "INFO");
    TT_CHECK_EQ(tt_get_debug_level(), TT_DEBUG_INFO);
}

TT_TEST_NAMED(captured_output, "harness", "captured_output")
{
    tt_test_captured c;

    TT_REQUIRE_OK(tt_test_capture_begin());
    printf("to stdout");
    fprintf(stderr, "to stderr");
    TT_CHECK_ERR(tt_test_capture_begin(), TT_ERR_INVALID);
    c = tt_test_capture_end();
    printf("after\n");
    TT_CHECK_STR(c.out, "to stdout");
    TT_CHECK_STR(c.err, "to stderr");
    TT_REQUIRE_OK(tt_test_capture_begin());
    c = tt_test_capture_end();
    TT_CHECK_STR(c.out, "");
}

/* ---- stores, devices, directories ---- */

TT_TEST_NAMED(create_tcp_store, "harness", "create_tcp_store")
{
    tt_store *s;

    s = tt_store_tcp_open("127.0.0.1", 0, &(tt_store_tcp_options){ .serve = true });
    TT_REQUIRE_NOT_NULL(s);
    TT_CHECK_GT(tt_store_tcp_port(s), 0);
    TT_CHECK_EQ(tt_store_timeout(s), 300000);
    TT_CHECK_OK(tt_store_set(s, "key", "value", 5));
    tt_store_free(s);
}

TT_TEST_NAMED(create_device, "harness", "create_device")
{
    char address[64], loopback[64];
    tt_store *s;

    TT_REQUIRE(interface_address("lo", address, sizeof address));
    TT_REQUIRE(interface_address(NULL, loopback, sizeof loopback));
    TT_CHECK_STR(address, "127.0.0.1");
    TT_CHECK_STR(loopback, "127.0.0.1");
    TT_CHECK(!interface_address("no such interface", address, sizeof address));
    s = tt_store_tcp_open(loopback, 0, &(tt_store_tcp_options){ .serve = true });
    TT_REQUIRE_NOT_NULL(s);
    TT_CHECK_GT(tt_store_tcp_port(s), 0);
    tt_store_free(s);
}

TT_TEST_NAMED(simple_sparse_reduce_tests, "harness", "simple_sparse_reduce_tests")
{
    static const int n_dims[] = { 1, 2, 3, 2, 3, 4 };
    static const int n_sparse[] = { 1, 2, 3, 1, 1, 1 };

    for (int which = 0; which < N_SPARSE_CASES; which++) {
        TT_SCOPE {
            tt_tensor *input = sparse_case_input(which, 2, 4), *sum = sparse_case_sum(which, 4);
            int64_t n_dense = which < 3 ? 1 : (int64_t)1 << (which - 2);
            double total = 0;

            TT_REQUIRE_NOT_NULL(input);
            TT_REQUIRE_NOT_NULL(sum);
            TT_CHECK_EQ(tt_sparse_nnz(input), 3);
            TT_CHECK_EQ(tt_sparse_dims(input), n_sparse[which]);
            TT_CHECK_EQ(tt_tensor_shape(sum).n_dims, n_dims[which]);
            for (int64_t i = 0; i < tt_tensor_numel(sum); i++)
                total += ((const float *)tt_tensor_data(sum))[i];
            TT_CHECK_NEAR(total, (double)((1 + 2 + 3 + 4) * n_dense), 0); /* entries of all ranks */
        }
    }
    TT_SCOPE {
        TT_CHECK_VALUES(sparse_case_sum(0, 4), 4, 3, 2, 1);
        TT_CHECK_VALUES(sparse_case_sum(1, 2), 2, 0, 1, 0);
        TT_CHECK_VALUES(sparse_case_sum(3, 2), 2, 2, 1, 1);
    }
}

TT_TEST_NAMED(init_multigpu_helper, "harness", "init_multigpu_helper")
{
    int first = -1;

    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "8")
    {
        TT_CHECK_EQ(tt_test_rank_devices(3, 4, &first), 2);
        TT_CHECK_EQ(first, 6);
    }
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "2")
    {
        for (int r = 0; r < 4; r++) {
            TT_CHECK_EQ(tt_test_rank_devices(r, 4, &first), 1);
            TT_CHECK_EQ(first, r % 2);
        }
    }
}

static bool exists_below(const char *dir, const char *name)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

TT_TEST_NAMED(initialize_temp_directories, "harness", "initialize_temp_directories")
{
    const char *dir;

    TT_REQUIRE_OK(tt_test_make_dirs(NULL));
    dir = getenv("TEMP_DIR");
    TT_REQUIRE_NOT_NULL(dir);
    TT_CHECK(exists_below(dir, "barrier"));
    TT_CHECK(exists_below(dir, "test_dir"));
    TT_CHECK(exists_below(dir, "init_dir"));
    TT_CHECK_EQ(strncmp(getenv("INIT_METHOD"), "file:///", 8), 0);
    TT_CHECK_CONTAINS(getenv("INIT_METHOD"), dir);
    TT_REQUIRE_OK(tt_test_make_dirs("tcp://127.0.0.1:1"));
    TT_CHECK_STR(getenv("INIT_METHOD"), "tcp://127.0.0.1:1");
}

TT_TEST_NAMED(cleanup_temp_dir, "harness", "cleanup_temp_dir")
{
    unsetenv("TEMP_DIR");
    tt_test_remove_dirs();
    TT_REQUIRE_OK(tt_test_make_dirs(NULL));
    TT_CHECK_EQ(access(getenv("TEMP_DIR"), F_OK), 0);
    tt_test_remove_dirs();
    TT_CHECK_EQ(access(getenv("TEMP_DIR"), F_OK), -1);
    tt_test_remove_dirs();
}

/* ---- sub-tests ---- */

static void note_choice(void *ctx, const char *const *chosen)
{
    char *seen = ctx;

    strcat(strcat(strcat(seen, chosen[0]), chosen[1]), " ");
}

TT_TEST_RANKS_NAMED(2, run_subtests, "harness", "run_subtests")
{
    static const char *const sizes[] = { "1", "2" };
    static const char *const ops[] = { "sum", "max", "min" };
    const tt_test_param params[] = { { "n", sizes, 2 }, { "op", ops, 3 } };
    char seen[128] = "";

    TT_CHECK_EQ(tt_test_subtests(params, 2, note_choice, seen), 6);
    TT_CHECK_STR(seen, "1sum 1max 1min 2sum 2max 2min ");
    tt_test_barrier();
    if (tt_test_rank() != 0)
        return;
    TT_CHECK_CONTAINS(RUN("meta_subtests")->report, "n=2, word=x: expected atoi(chosen[0]) != 2");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training of modules with nested inputs and outputs, one inside another, called with other
 * tensors, on one rank alone. */
#include <string.h>

#include "tutti/observe.h"
#include "tutti/syncbn.h"
#include "world/ddp_models.h"

static const tt_linear_options no_bias = { .no_bias = true };

/* ---- inputs ------------------------------------------------------------------------------------------ */

typedef struct input_data {
    tt_value_kind kind; /* expected */
    int n_seen;
} input_data;

static tt_value *input_call(tt_module *m, const tt_value *in);

static const tt_module_class input_class = { .name = "Input",
                                             .data_size = sizeof(input_data),
                                             .call = input_call };

static const tt_opaque_class wrapper_class = { .type_name = "wrapper" };

/* The two tensors of whatever came. */
static void take_tensors(const tt_value *in, tt_tensor **a_p, tt_tensor **b_p)
{
    if (tt_value_kind_of(in) == TT_VALUE_OPAQUE) {
        *a_p = *b_p = tt_value_as_opaque(in, &wrapper_class);
        return;
    }
    TT_REQUIRE_EQ(tt_value_count(in), 2);
    if (tt_value_kind_of(in) == TT_VALUE_MAP || tt_value_kind_of(in) == TT_VALUE_RECORD) {
        TT_CHECK_STR(tt_value_name_at(in, 0), "a");
        TT_CHECK_STR(tt_value_name_at(in, 1), "b");
    }
    *a_p = tt_value_as_tensor(tt_value_at(in, 0));
    *b_p = tt_value_as_tensor(tt_value_at(in, 1));
}

static tt_value *input_call(tt_module *m, const tt_value *in)
{
    input_data *data = tt_module_data(m, &input_class);
    tt_tensor *a, *b;

    data->n_seen++;
    TT_CHECK_EQ(tt_value_kind_of(in), data->kind);
    if (data->kind == TT_VALUE_RECORD)
        TT_CHECK_STR(tt_value_type_name(in), "Pair");
    take_tensors(in, &a, &b);
    /* What is inside of a value of somebody else's kind is not moved. */
    TT_CHECK(tt_device_equal(tt_tensor_device(a),
                             data->kind == TT_VALUE_OPAQUE ? TT_CPU : dist_device()));
    return tt_value_tensor_new(tt_module_run(m, "lin", tt_to_device(tt_add(a, b), dist_device())));
}

static tt_value *input_new(tt_value_kind kind, tt_tensor *a, tt_tensor *b)
{
    tt_value *v = kind == TT_VALUE_TUPLE    ? tt_value_tuple_new()
                  : kind == TT_VALUE_LIST   ? tt_value_list_new()
                  : kind == TT_VALUE_RECORD ? tt_value_record_new("Pair")
                                            : tt_value_map_new();

    if (kind == TT_VALUE_OPAQUE) {
        tt_value_free(v);
        return tt_value_opaque_new(&wrapper_class, a);
    }
    if (kind == TT_VALUE_TUPLE || kind == TT_VALUE_LIST) {
        TT_REQUIRE_OK(tt_value_list_give(v, tt_value_tensor_new(a)));
        TT_REQUIRE_OK(tt_value_list_give(v, tt_value_tensor_new(b)));
    } else {
        TT_REQUIRE_OK(tt_value_map_give(v, "a", tt_value_tensor_new(a)));
        TT_REQUIRE_OK(tt_value_map_give(v, "b", tt_value_tensor_new(b)));
    }
    return v;
}

static void run_input(const dist_group *g, tt_value_kind kind, int64_t rows)
{
    tt_module *m = ddp_module(tt_module_new(&input_class));
    input_data *data = tt_module_data(m, &input_class);
    tt_ddp *d;

    data->kind = kind;
    TT_REQUIRE_OK(tt_module_give_child(m, "lin", tt_linear_new(10, 10, NULL)));
    d = ddp_new(m, g->pg, NULL);
    for (int i = 0; i < 4; i++)
        TT_SCOPE {
            tt_tensor *x = tt_to_device(
                ddp_random(TT_SHAPE(rows, 10), tt_test_seed() + (uint64_t)g->me), TT_CPU);
            tt_value *in = input_new(kind, x, x), *out = tt_ddp_call(d, in);

            TT_REQUIRE_NOT_NULL(out);
            TT_REQUIRE_OK(tt_backward(tt_sum(tt_value_as_tensor(out))));
            ddp_check_same(g->pg, tt_grad_of(tt_module_param(m, "lin.weight")));
            tt_value_free(in);
            tt_value_free(out);
        }
    TT_CHECK_EQ(data->n_seen, 4);
    tt_ddp_free(d);
    tt_module_free(m);
}

static void containers(const dist_group *g, const void *arg)
{
    static const tt_value_kind kinds[] = { TT_VALUE_TUPLE, TT_VALUE_LIST, TT_VALUE_RECORD,
                                           TT_VALUE_MAP, TT_VALUE_OPAQUE };

    (void)arg;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        run_input(g, kinds[i], i % 2 == 0 ? 10 : 5);
}

static void named_tuple(const dist_group *g, const void *arg)
{
    (void)arg;
    run_input(g, TT_VALUE_RECORD, 5);
}

/* ---- outputs, and one tt_ddp around another ----------------------------------------------------------- */

/* {x, (x, x)} and the like: two outputs in a container of this kind, one of them nested. */
static tt_value *nested_call(tt_module *m, const tt_value *in);

static const tt_module_class nested_class = { .name = "Nested",
                                              .data_size = sizeof(tt_value_kind),
                                              .call = nested_call };

static tt_value *container(tt_value_kind kind)
{
    return kind == TT_VALUE_TUPLE  ? tt_value_tuple_new()
           : kind == TT_VALUE_LIST ? tt_value_list_new()
                                   : tt_value_map_new();
}

static void put(tt_value *v, const char *name, tt_value *entry)
{
    TT_REQUIRE_OK(tt_value_kind_of(v) == TT_VALUE_MAP ? tt_value_map_give(v, name, entry)
                                                      : tt_value_list_give(v, entry));
}

static tt_value *nested_call(tt_module *m, const tt_value *in)
{
    tt_value_kind kind = *(tt_value_kind *)tt_module_data(m, &nested_class);
    tt_value *out = container(kind), *inner = container(kind);
    tt_tensor *x = tt_value_as_tensor(in);

    put(inner, "y", tt_value_tensor_new(tt_module_run(m, "b", x)));
    put(out, "x", tt_value_tensor_new(tt_module_run(m, "a", x)));
    put(out, "inner", inner);
    return out;
}

static tt_module *nested_new(tt_value_kind kind)
{
    tt_module *m = ddp_module(tt_module_new(&nested_class));

    *(tt_value_kind *)tt_module_data(m, &nested_class) = kind;
    TT_REQUIRE_OK(tt_module_give_child(m, "a", tt_linear_new(100, 1, NULL)));
    TT_REQUIRE_OK(tt_module_give_child(m, "b", tt_linear_new(100, 1, NULL)));
    return m;
}

static void nested_step(tt_module *called, tt_value_kind kind, tt_tensor *x)
{
    tt_value *in = tt_value_tensor_new(x), *out = tt_module_call(called, in);
    tt_tensor *sum;

    if (out == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_NOT_NULL(out);
    TT_CHECK_EQ(tt_value_kind_of(out), kind);
    TT_CHECK_EQ(tt_value_kind_of(tt_value_at(out, 1)), kind);
    sum = tt_add(tt_sum(tt_value_as_tensor(tt_value_at(out, 0))),
                 tt_sum(tt_value_as_tensor(tt_value_at(tt_value_at(out, 1), 0))));
    TT_REQUIRE_OK(tt_backward(sum));
    tt_value_free(in);
    tt_value_free(out);
}

/* What every rank alone would compute, averaged. */
static void check_mean_of(const dist_group *g, tt_module *local, const tt_module *m,
                          tt_value_kind kind, tt_tensor *x)
{
    tt_state_dict *ps = tt_module_params(local, NULL);

    tt_module_zero_grad(local);
    nested_step(local, kind, x);
    for (int i = 0; i < tt_state_dict_count(ps); i++) {
        tt_tensor *grad = tt_grad_of(tt_state_dict_tensor(ps, i));

        TT_REQUIRE_OK(
            tt_pg_all_reduce(g->pg, grad, &(tt_coll_options){ .op = TT_REDUCE_AVG }, NULL));
        TT_CHECK(
            tt_allclose(grad, tt_grad_of(tt_module_param(m, tt_state_dict_name(ps, i))), NULL));
    }
    tt_state_dict_free(ps);
}

/* The outer one, of a fixed graph, is made over the inner one as a module. */
static void nested_kind(const dist_group *g, tt_value_kind kind)
{
    tt_module *m = nested_new(kind), *local;
    tt_ddp *inner = ddp_new(m, g->pg, NULL), *outer;

    outer = ddp_new(tt_ddp_as_module(inner), g->pg, &(tt_ddp_options){ .static_graph = true });
    TT_CHECK_STR(tt_ddp_param_name(outer, 0), "module.a.weight");
    local = ddp_module(tt_module_copy(m));
    for (int i = 0; i < 6; i++)
        TT_SCOPE {
            tt_tensor *x =
                ddp_random(TT_SHAPE(10, 100), tt_test_seed() + (uint64_t)(g->n * i + g->me));
            tt_ddp *used = i % 2 == 0 ? outer : inner;

            tt_module_zero_grad(m);
            nested_step(tt_ddp_as_module(used), kind, x);
            check_mean_of(g, local, m, kind, x);
        }
    for (int i = 0; i < tt_ddp_n_params(inner); i++)
        ddp_check_same(g->pg, tt_ddp_param(inner, i));
    tt_ddp_free(outer);
    tt_ddp_free(inner);
    tt_module_free(local);
    tt_module_free(m);
}

static void nested_types(const dist_group *g, const void *arg)
{
    (void)arg;
    nested_kind(g, TT_VALUE_TUPLE);
    nested_kind(g, TT_VALUE_LIST);
    nested_kind(g, TT_VALUE_MAP);
}

/* ---- hidden outputs ------------------------------------------------------------------------------------ */

/* Rank 0 hides what fc2 gives. */
static tt_value *hiding_call(tt_module *m, const tt_value *in)
{
    tt_value *out = tt_value_tuple_new();
    tt_tensor *x = tt_value_as_tensor(in), *y = tt_module_run(m, "fc2", x);

    TT_REQUIRE_OK(tt_value_list_give(out, tt_value_tensor_new(tt_module_run(m, "fc1", x))));
    TT_REQUIRE_OK(tt_value_list_give(out, tt_test_rank() == 0
                                              ? tt_value_opaque_new(&wrapper_class, y)
                                              : tt_value_tensor_new(y)));
    return out;
}

static const tt_module_class hiding_class = { .name = "Hiding", .call = hiding_call };

static void has_finalized(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_module_new(&hiding_class));
    tt_tensor *x = ddp_random(TT_SHAPE(10, 64), tt_test_seed()), *loss;
    tt_value *in = tt_value_tensor_new(x), *out;
    tt_ddp *d;

    (void)arg;
    TT_REQUIRE_OK(tt_module_give_child(m, "fc1", tt_linear_new(64, 64, NULL)));
    TT_REQUIRE_OK(tt_module_give_child(m, "fc2", tt_linear_new(64, 128, NULL)));
    d = ddp_new(m, g->pg, &(tt_ddp_options){ .find_unused = true, .bucket_cap_mb = 1e-6 });
    TT_CHECK_EQ(tt_ddp_n_buckets(d), 4);
    out = tt_ddp_call(d, in);
    loss = tt_sum(tt_value_as_tensor(tt_value_at(out, 0)));
    if (g->me != 0)
        loss = tt_add(loss, tt_sum(tt_value_as_tensor(tt_value_at(out, 1))));
    TT_REQUIRE_OK(tt_backward(loss));
    tt_value_free(out);
    if (g->me == 0) {
        TT_CHECK_ERR_SAYS(tt_ddp_check_finished(d), TT_ERR_INVALID,
                          "the reduction of the previous iteration had finished");
        TT_CHECK_CONTAINS(tt_last_error(), "on rank 0: 2 3");
    } else {
        TT_CHECK_OK(tt_ddp_check_finished(d));
    }
    out = tt_ddp_call(d, in);
    TT_CHECK_EQ(out == NULL, g->me == 0);
    if (out == NULL)
        TT_CHECK_CONTAINS(tt_last_error(), "opaque value");
    tt_value_free(out);
    tt_value_free(in);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- other tensors --------------------------------------------------------------------------------------- */

static tt_tensor *shifted_forward(tt_module *m, tt_tensor *x)
{
    return tt_add(tt_module_run(m, "l1", x), tt_module_buffer_at(m, 0));
}

static const tt_module_class shifted_class = { .name = "Shifted", .forward = shifted_forward };

static void stateless(const dist_group *g, const void *arg)
{
    static const char *const names[] = { "module.l1.weight", "module.l1.bias", "module.buffer" };
    tt_module *m = ddp_module(tt_module_new(&shifted_class));
    tt_tensor *ts[] = { tt_require_grad(tt_ones(TT_SHAPE(1, 1), TT_F32, dist_device())),
                        tt_require_grad(tt_zeros(TT_SHAPE(1), TT_F32, dist_device())),
                        tt_zeros(TT_SHAPE(1), TT_F32, dist_device()) };
    tt_tensor *x = ddp_random(TT_SHAPE(1, 1), tt_test_seed()), *y, *weight, *buffer;
    tt_ddp *d;

    (void)arg;
    TT_REQUIRE_OK(tt_module_give_child(m, "l1", tt_linear_new(1, 1, NULL)));
    TT_REQUIRE_OK(tt_module_add_buffer(m, "buffer", tt_ones(TT_SHAPE(1), TT_F32, dist_device())));
    d = ddp_new(m, g->pg, NULL);
    weight = tt_clone(tt_detach(tt_module_param(m, "l1.weight")));
    buffer = tt_clone(tt_module_buffer(m, "buffer"));
    y = tt_module_functional_call(tt_ddp_as_module(d), names, ts, 3, x);
    TT_REQUIRE_NOT_NULL(y);
    TT_CHECK(tt_equal(tt_detach(y), x));
    TT_REQUIRE_OK(tt_backward(tt_sum(y)));
    TT_CHECK(tt_equal(weight, tt_detach(tt_module_param(m, "l1.weight"))));
    TT_CHECK(tt_equal(buffer, tt_module_buffer(m, "buffer")));
    TT_CHECK_NOT_NULL(tt_grad_of(ts[0]));
    TT_CHECK_NOT_NULL(tt_grad_of(ts[1]));
    TT_CHECK_NULL(tt_grad_of(ts[2]));
    TT_CHECK_NULL(tt_grad_of(tt_module_param(m, "l1.weight")));
    TT_CHECK_NULL(tt_grad_of(tt_module_param(m, "l1.bias")));
    ddp_step(d, x); /* and as before with its own */
    TT_CHECK_NOT_NULL(tt_grad_of(tt_module_param(m, "l1.weight")));
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- one rank alone ---------------------------------------------------------------------------------------- */

static void check_alone(const dist_group *g, tt_module *m, tt_shape shape)
{
    tt_module *local;
    tt_ddp *d = ddp_new(m, g->pg, NULL);

    local = ddp_module(tt_module_copy(m));
    tt_module_eval(m);
    tt_module_eval(local);
    for (int i = 0; g->me == 0 && i < 6; i++)
        TT_SCOPE {
            tt_tensor *x = ddp_random(shape, tt_test_seed() + (uint64_t)i);
            tt_tensor *y = tt_ddp_forward(d, x);

            TT_REQUIRE_NOT_NULL(y);
            TT_CHECK(tt_allclose(tt_detach(y), tt_detach(tt_module_forward(local, x)), NULL));
        }
    dist_meet();
    tt_ddp_free(d);
    tt_module_free(local);
    tt_module_free(m);
}

static void inference(const dist_group *g, const void *arg)
{
    tt_module *norm =
        tt_sync_batch_norm_new(2, g->pg, &(tt_norm_options){ .no_running_stats = true });

    (void)arg;
    check_alone(g, ddp_net_new(), TT_SHAPE(10, 2));
    check_alone(g, ddp_module(norm), TT_SHAPE(10, 2, 4, 4));
}

/* ---- operators that should not run ------------------------------------------------------------------------ */

static tt_status refuse(void *ctx, const tt_op_event *e)
{
    (void)ctx;
    return e->after ? TT_OK : tt_fail(TT_ERR_INVALID, "%s: not wanted here", e->name);
}

static void no_clone(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_linear_new(10, 10, NULL));
    tt_ddp *d = ddp_new(m, g->pg, &(tt_ddp_options){ .find_unused = true });
    tt_tensor *x = ddp_random(TT_SHAPE(10, 10), tt_test_seed());
    tt_observer *o = tt_observer_new("clone", true, refuse, NULL);

    (void)arg;
    TT_REQUIRE_NOT_NULL(o);
    TT_CHECK_NULL(tt_clone(x));
    ddp_step(d, x);
    tt_observer_free(o);
    TT_CHECK_NOT_NULL(tt_grad_of(tt_module_param(m, "weight")));
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- a thousand iterations ---------------------------------------------------------------------------------- */

static void thousand(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(tt_linear_new(1, 1, &no_bias));
    tt_ddp *d = ddp_new(m, g->pg, NULL);
    tt_tensor *x = tt_full(TT_SHAPE(1, 1), g->me, TT_F32, dist_device());
    double mean = (g->n - 1) / 2.0;

    (void)arg;
    for (int i = 0; i < 1000; i++)
        TT_SCOPE {
            tt_tensor *grad = tt_grad_of(tt_ddp_param(d, 0)), *sum;

            if (grad != NULL)
                TT_REQUIRE_NOT_NULL(tt_zero_(grad));
            ddp_step(d, x);
            sum = tt_clone(tt_grad_of(tt_ddp_param(d, 0)));
            TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, sum, NULL, NULL));
            TT_REQUIRE_NEAR(tt_item(sum) / g->n, mean, 0);
        }
    tt_ddp_free(d);
    tt_module_free(m);
}

static const dist_row rows[] = {
    { "test_ddp_namedtuple", named_tuple, DIST_WORLD, NULL, 0 },
    { "test_ddp_static_graph_nested_types", nested_types, DIST_WORLD, NULL, 0 },
    { "test_ddp_has_finalized", has_finalized, DIST_WORLD, NULL, 0 },
    { "test_stateless_api_with_ddp", stateless, DIST_WORLD, NULL, 0 },
    { "test_ddp_inference", inference, DIST_WORLD, NULL, 0 },
    { "test_ddp_sink_noclone", no_clone, DIST_WORLD, NULL, 0 },
    { "test_DistributedDataParallel_non_default_stream", thousand, DIST_WORLD, NULL, 0 },
};

static const dist_row on_devices[] = {
    { "test_ddp_device", containers, DIST_WORLD, NULL, 3 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
    DIST_ADD_ROWS_ON_DEVICES(on_devices);
}

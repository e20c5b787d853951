/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient scaler over several devices and optimizers. */
#include <math.h>

#include <tutti/testing.h>
#include <tutti/testing_tools.h>
#include <tutti/tutti.h>

/* ---- devices as keys ------------------------------------------------------------------------------ */

#define BUCKETS 8

typedef struct entry {
    tt_device key;
    int value;
    bool used;
} entry;

/* A map from devices to numbers, by their hash and equality alone. */
typedef struct device_table {
    entry entries[BUCKETS];
    int n;
} device_table;

static void put(device_table *m, tt_device key, int value)
{
    size_t at = (size_t)(tt_device_hash(key) % BUCKETS);

    while (m->entries[at].used && !tt_device_equal(m->entries[at].key, key))
        at = (at + 1) % BUCKETS;
    m->n += !m->entries[at].used;
    m->entries[at] = (entry){ key, value, true };
}

static int get(const device_table *m, tt_device key)
{
    size_t at = (size_t)(tt_device_hash(key) % BUCKETS);

    while (m->entries[at].used && !tt_device_equal(m->entries[at].key, key))
        at = (at + 1) % BUCKETS;
    return m->entries[at].used ? m->entries[at].value : -1;
}

TT_TEST(multigpu, test_grad_scaling_device_as_key)
{
    device_table m = { 0 };
    tt_device parsed;

    tt_test_require_devices(2, false);
    TT_SCOPE {
        TT_REQUIRE_OK(tt_device_parse("cl:0", &parsed));
        put(&m, tt_cl(0), 10);
        put(&m, parsed, 11);
        put(&m, tt_tensor_device(tt_empty(TT_SHAPE(1), TT_F32, tt_cl(0))), 12);
        TT_CHECK_EQ(m.n, 1);
        TT_CHECK_EQ(get(&m, tt_cl(0)), 12);
        TT_REQUIRE_OK(tt_device_parse("cl:1", &parsed));
        put(&m, tt_cl(1), 20);
        put(&m, parsed, 21);
        TT_CHECK_EQ(m.n, 2);
        TT_CHECK_EQ(get(&m, tt_cl(1)), 21);
        TT_CHECK_EQ(get(&m, tt_cl(0)), 12);
    }
}

/* ---- nested values -------------------------------------------------------------------------------- */

static tt_value *leaf(int device)
{
    return tt_value_tensor_new(tt_full(TT_SHAPE(1), 4, TT_F32, tt_cl(device)));
}

static tt_value *with(tt_value *box, tt_value *v)
{
    TT_REQUIRE_OK(tt_value_list_give(box, v));
    return box;
}

/* (1, (0, 1), [0, (1, 0)]) */
static tt_value *nested(void)
{
    tt_value *pair = with(with(tt_value_tuple_new(), leaf(0)), leaf(1));
    tt_value *last = with(with(tt_value_tuple_new(), leaf(1)), leaf(0));
    tt_value *list = with(with(tt_value_list_new(), leaf(0)), last);

    return with(with(with(tt_value_tuple_new(), leaf(1)), pair), list);
}

static void check_leaf(const tt_value *v, int device)
{
    TT_REQUIRE_EQ(tt_value_kind_of(v), TT_VALUE_TENSOR);
    TT_CHECK_EQ(tt_tensor_device(tt_value_as_tensor(v)).index, device);
    TT_CHECK_EQ(tt_tensor_device(tt_value_as_tensor(v)).kind, TT_DEVICE_CL);
    TT_CHECK_NEAR(tt_item(tt_value_as_tensor(v)), 8, 0);
}

TT_TEST(multigpu, test_grad_scaling_scale)
{
    tt_device device;

    tt_test_require_devices(2, false);
    TT_SCOPE {
        tt_grad_scaler *s = tt_grad_scaler_new(&(tt_grad_scaler_options){ .scale = 2 });
        tt_value *v = nested(), *out;

        TT_CHECK(!tt_grad_scaler_device(s, &device));
        out = tt_grad_scaler_scale_value(s, v);
        TT_REQUIRE_NOT_NULL(out);
        TT_CHECK_EQ(tt_value_kind_of(out), TT_VALUE_TUPLE);
        TT_REQUIRE_EQ(tt_value_count(out), 3);
        check_leaf(tt_value_at(out, 0), 1);
        TT_CHECK_EQ(tt_value_kind_of(tt_value_at(out, 1)), TT_VALUE_TUPLE);
        check_leaf(tt_value_at(tt_value_at(out, 1), 0), 0);
        check_leaf(tt_value_at(tt_value_at(out, 1), 1), 1);
        TT_CHECK_EQ(tt_value_kind_of(tt_value_at(out, 2)), TT_VALUE_LIST);
        check_leaf(tt_value_at(tt_value_at(out, 2), 0), 0);
        tt_value *last = tt_value_at(tt_value_at(out, 2), 1);

        TT_CHECK_EQ(tt_value_kind_of(last), TT_VALUE_TUPLE);
        check_leaf(tt_value_at(last, 0), 1);
        check_leaf(tt_value_at(last, 1), 0);
        TT_REQUIRE(tt_grad_scaler_device(s, &device));
        TT_CHECK(tt_device_equal(device, tt_cl(1)));
        tt_value_free(out);
        tt_value_free(v);
        tt_grad_scaler_free(s);
    }
}

/* ---- two models, two optimizers -------------------------------------------------------------------- */

enum { BATCHES = 4, SKIP = 2 };

typedef struct side {
    tt_module *model[2]; /* on devices 0 and 1 */
    tt_optim *optim[2];
} side;

static side side_of(tt_module *first, tt_module *second)
{
    side s = { { first, second }, { NULL, NULL } };

    for (int i = 0; i < 2; i++) {
        TT_REQUIRE_OK(tt_module_to_device(s.model[i], tt_cl(i)));
        s.optim[i] = tt_sgd_for(s.model[i], &(tt_sgd_options){ .lr = 1 });
        TT_REQUIRE_NOT_NULL(s.optim[i]);
    }
    return s;
}

static void side_free(side *s)
{
    for (int i = 0; i < 2; i++) {
        tt_optim_free(s->optim[i]);
        tt_module_free(s->model[i]);
    }
}

static void losses(side *s, tt_tensor *x, tt_tensor *target, tt_tensor **loss)
{
    tt_tensor *out0 = tt_module_forward(s->model[0], x);
    tt_tensor *out1 = tt_module_forward(s->model[1], tt_to_device(x, tt_cl(1)));

    loss[0] = tt_mse_loss(
        tt_add(tt_mul_scalar(out0, 0.3), tt_mul_scalar(tt_to_device(out1, tt_cl(0)), 0.7)), target);
    loss[1] = tt_mse_loss(
        tt_sub(tt_mul_scalar(tt_to_device(out0, tt_cl(1)), 0.6), tt_mul_scalar(out1, 0.4)),
        tt_to_device(target, tt_cl(1)));
    TT_REQUIRE(loss[0] != NULL && loss[1] != NULL);
}

static void backward(tt_tensor *const *loss)
{
    TT_REQUIRE_OK(tt_backward_with(loss[0], &(tt_backward_options){ .retain_graph = true }));
    TT_REQUIRE_OK(tt_backward(loss[1]));
}

static void check_found(tt_grad_scaler *scaler, side *s, int i)
{
    for (int k = 0; k < 2; k++) {
        tt_device d;

        TT_REQUIRE_EQ(tt_grad_scaler_n_found(scaler, s->optim[k]), 1);
        TT_CHECK_NEAR(tt_grad_scaler_found(scaler, s->optim[k], 0, &d), k == 1 && i == SKIP ? 1 : 0,
                      0);
        TT_CHECK(tt_device_equal(d, tt_cl(k)));
    }
}

static void scaled_step(tt_grad_scaler *scaler, side *s, tt_tensor *const *loss, int i)
{
    bool on = tt_grad_scaler_is_enabled(scaler), skipped[2];
    tt_tensor *scaled[2] = { tt_grad_scaler_scale(scaler, loss[0]),
                             tt_grad_scaler_scale(scaler, loss[1]) };

    backward(scaled);
    if (i == SKIP && on)
        TT_NO_GRAD
        {
            TT_CHECK_NOT_NULL(
                tt_fill_(tt_grad_of(tt_module_param(s->model[1], "1.weight")), INFINITY));
        }
    TT_REQUIRE_OK(tt_grad_scaler_unscale(scaler, s->optim[0]));
    for (int k = 0; k < 2; k++)
        TT_REQUIRE_OK(tt_grad_scaler_step(scaler, s->optim[k], &skipped[k]));
    TT_CHECK(!skipped[0]);
    TT_CHECK_EQ(skipped[1], on && i == SKIP);
    if (on)
        check_found(scaler, s, i);
    TT_REQUIRE_OK(tt_grad_scaler_update(scaler));
}

static void run(tt_grad_scaler *scaler, side *s, tt_tensor *const *xs, tt_tensor *const *ys,
                bool scaled)
{
    for (int i = 0; i < BATCHES; i++)
        TT_SCOPE {
            tt_tensor *loss[2];

            for (int k = 0; k < 2; k++)
                TT_REQUIRE_OK(tt_optim_zero_grad(s->optim[k], false));
            losses(s, xs[i], ys[i], loss);
            if (scaled) {
                scaled_step(scaler, s, loss, i);
                continue;
            }
            backward(loss);
            TT_REQUIRE_OK(tt_optim_step(s->optim[0]));
            if (i != SKIP || !tt_grad_scaler_is_enabled(scaler))
                TT_REQUIRE_OK(tt_optim_step(s->optim[1]));
        }
}

static void check_equal_params(side *a, side *b)
{
    static const char *const names[] = { "0.weight", "0.bias", "1.weight", "1.bias" };
    tt_close_options opt = { .rtol = 1e-5, .atol = 1e-7 };

    for (int k = 0; k < 2; k++)
        for (int p = 0; p < 4; p++) {
            tt_close_report report;

            if (!tt_compare(tt_module_param(a->model[k], names[p]),
                            tt_module_param(b->model[k], names[p]), &opt, &report))
                TT_FAIL_TEST("%s of model %d: %s", names[p], k, report.text);
        }
}

static tt_module *two_layers(void)
{
    return TT_SEQUENTIAL(tt_linear_new(8, 8, NULL), tt_linear_new(8, 8, NULL));
}

static void check_scaling(bool on)
{
    TT_SCOPE {
        tt_grad_scaler_options opt = {
            .scale = 128, .growth_factor = 2, .growth_interval = 1, .disabled = !on
        };
        tt_grad_scaler *scaler = tt_grad_scaler_new(&opt);
        tt_module *models[2] = { two_layers(), two_layers() };
        side control = side_of(tt_module_copy(models[0]), tt_module_copy(models[1]));
        side scaled = side_of(models[0], models[1]);
        tt_tensor *xs[BATCHES], *ys[BATCHES];

        for (int i = 0; i < BATCHES; i++) {
            xs[i] = tt_to_device(tt_randn(TT_SHAPE(8, 8), TT_F32, TT_CPU), tt_cl(0));
            ys[i] = tt_to_device(tt_randn(TT_SHAPE(8, 8), TT_F32, TT_CPU), tt_cl(0));
        }
        run(scaler, &control, xs, ys, false);
        run(scaler, &scaled, xs, ys, true);
        TT_CHECK_NEAR(tt_grad_scaler_get_scale(scaler), on ? 512 : 1, 0);
        check_equal_params(&control, &scaled);
        side_free(&control);
        side_free(&scaled);
        tt_grad_scaler_free(scaler);
    }
}

TT_TEST(multigpu, test_grad_scaling_multigpu)
{
    tt_test_require_devices(2, false);
    tt_seed(tt_test_seed());
    check_scaling(true);
    check_scaling(false);
}

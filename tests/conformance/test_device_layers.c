/* SPDX-License-Identifier: Apache-2.0 */
/* Every layer of the table on the first OpenCL device: what it gives, the gradients of its parameters and its
 * buffers are those of the CPU, in training and in evaluation. */
#include <stdio.h>

#include "conformance/layer_table.h"
#include "tutti/autograd.h"
#include "tutti/random.h"
#include "tutti/sparse.h"

#define TOL 2e-5

static void check_close(const char *what, tt_tensor *got, tt_tensor *want)
{
    tt_close_report report;
    tt_close_options opt = { .rtol = TOL, .atol = TOL };

    if ((got == NULL) != (want == NULL))
        TT_FAIL_TEST("%s: only one of them is there: %s", what, tt_last_error());
    else if (got != NULL && !tt_compare(tt_to_device(got, TT_CPU), want, &opt, &report))
        TT_FAIL_TEST("%s: %s", what, report.text);
}

static tt_tensor *input(const layer_row *row, tt_shape shape, double salt, tt_device device)
{
    tt_tensor *t = nn_tensor(shape, salt);
    double steps = (double)row->n_index / 2;

    if (row->n_index > 0) /* whole numbers below n_index */
        t = tt_to_dtype(tt_add_scalar(tt_mul_scalar(t, 0.9 * steps), steps), TT_I64);
    return tt_to_device(t, device);
}

/* Forward, and backward from its sum with weights; the input's own gradient is in *grad_p. */
static tt_tensor *run(const layer_row *row, tt_module *m, tt_device device, tt_tensor **grad_p)
{
    tt_tensor *x[2] = { input(row, row->in, 1, device), NULL }, *y, *weights;
    bool floating = row->n_index == 0;

    tt_seed(3); /* what is drawn is the same on every device */
    if (floating)
        tt_require_grad(x[0]);
    if (row->in2.n_dims > 0) {
        tt_value *in = tt_value_list_new(), *out;

        x[1] = input(row, row->in2, 2, device);
        TT_REQUIRE_OK(tt_value_list_give(in, tt_value_tensor_new(x[0])));
        TT_REQUIRE_OK(tt_value_list_give(in, tt_value_tensor_new(x[1])));
        out = tt_module_call(m, in);
        TT_REQUIRE_NOT_NULL(out);
        y = tt_mul_scalar(tt_value_as_tensor(out), 1);
        tt_value_free(in);
        tt_value_free(out);
    } else {
        y = tt_module_forward(m, x[0]);
    }
    TT_REQUIRE_NOT_NULL(y);
    TT_CHECK(tt_device_equal(tt_tensor_device(y), device));
    weights = tt_to_device(nn_tensor(tt_tensor_shape(y), 5), device);
    if (tt_requires_grad(y))
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(y, weights))));
    *grad_p = floating ? tt_grad_of(x[0]) : NULL;
    return y;
}

static void compare(const layer_row *row, bool training)
{
    tt_module *here = row->make(), *there;
    tt_state_dict *mine, *other;

    TT_REQUIRE_NOT_NULL(here);
    nn_fill_params(here);
    tt_module_train(here, training);
    there = tt_module_copy(here);
    TT_REQUIRE_OK(tt_module_to_device(there, tt_cl(0)));
    TT_SCOPE {
        tt_tensor *dx, *dx_there, *y = run(row, here, TT_CPU, &dx);
        tt_tensor *y_there = run(row, there, tt_cl(0), &dx_there);

        check_close("result", y_there, tt_detach(y));
        check_close("gradient of the input", dx_there, dx);
        mine = tt_module_state_dict(here);
        other = tt_module_state_dict(there);
        for (int i = 0; i < tt_state_dict_count(mine); i++) {
            const char *name = tt_state_dict_name(mine, i);
            tt_tensor *p = tt_module_param(here, name), *q = tt_module_param(there, name);

            check_close(name, tt_state_dict_tensor(other, i), tt_state_dict_tensor(mine, i));
            if (p != NULL && tt_grad_of(p) != NULL)
                check_close(name, tt_to_dense(tt_grad_of(q)), tt_to_dense(tt_grad_of(p)));
        }
        TT_CHECK_OK(tt_device_sync(tt_cl(0)));
        tt_state_dict_free(mine);
        tt_state_dict_free(other);
    }
    tt_module_free(here);
    tt_module_free(there);
}

static void as_on_the_cpu(void *ctx)
{
    if (tt_device_count(TT_DEVICE_CL) == 0)
        tt_test_skip(TT_TEST_SKIP_NO_ACCELERATOR, "%s", tt_device_missing(TT_DEVICE_CL));
    compare(ctx, false);
    compare(ctx, true);
}

static void add(const layer_row *row)
{
    char name[128];

    snprintf(name, sizeof name, "%s.as_on_the_cpu@cl:0", row->name);
    tt_test_add("device_layers", name, as_on_the_cpu, (void *)row);
}

TT_TEST_TABLE(device_layers)
{
    for (int i = 0; i < layer_n_rows; i++)
        add(&layer_rows[i]);
    for (int i = 0; i < sequence_n_rows; i++)
        add(&sequence_rows[i]);
}

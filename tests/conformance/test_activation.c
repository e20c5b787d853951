/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance rows: activations. */
#include "conformance/conformance.h"

#include <tutti/testing.h>

/* The same elements every time. */
static tt_tensor *dropout(tt_tensor *x)
{
    tt_seed(7);
    return tt_dropout(x, 0.5, true, NULL);
}

static tt_tensor *relu_row(tt_tensor *const *in)
{
    return tt_relu(in[0]);
}

static tt_tensor *gelu_row(tt_tensor *const *in)
{
    return tt_gelu(in[0]);
}

static tt_tensor *gelu_tanh_row(tt_tensor *const *in)
{
    return tt_gelu_tanh(in[0]);
}

static tt_tensor *silu_row(tt_tensor *const *in)
{
    return tt_silu(in[0]);
}

static tt_tensor *relu__row(tt_tensor *const *in)
{
    return tt_relu_(in[0]);
}

static tt_tensor *elu_row(tt_tensor *const *in)
{
    return tt_elu(in[0], 1.3);
}

static tt_tensor *celu_row(tt_tensor *const *in)
{
    return tt_celu(in[0], 1.3);
}

static tt_tensor *leaky_relu_row(tt_tensor *const *in)
{
    return tt_leaky_relu(in[0], 0.1);
}

static tt_tensor *softplus_row(tt_tensor *const *in)
{
    return tt_softplus(in[0], 1.5, 20);
}

static tt_tensor *hardtanh_row(tt_tensor *const *in)
{
    return tt_hardtanh(in[0], -0.5, 0.5);
}

static tt_tensor *softmax_row(tt_tensor *const *in)
{
    return tt_softmax(in[0], 1);
}

static tt_tensor *softmax_first_row(tt_tensor *const *in)
{
    return tt_softmax(in[0], 0);
}

static tt_tensor *log_softmax_row(tt_tensor *const *in)
{
    return tt_log_softmax(in[0], -1);
}

static tt_tensor *dropout_row(tt_tensor *const *in)
{
    return dropout(in[0]);
}

static const conform_row rows[] = {
    { "relu", relu_row, "fNx4", 0, 0 },
    { "gelu", gelu_row, "fNx4", 0, 0 },
    { "gelu_tanh", gelu_tanh_row, "fNx4", 0, 0 },
    { "silu", silu_row, "fNx4", 0, 0 },
    { "silu.complex", silu_row, "cNx4", 0, 0 },
    { "relu_", relu__row, "fNx4", CONFORM_INPLACE, 0 },
    { "elu", elu_row, "fNx4", 0, 0 },
    { "celu", celu_row, "fNx4", 0, 0 },
    { "leaky_relu", leaky_relu_row, "fNx4", 0, 0 },
    { "softplus", softplus_row, "fNx4", 0, 0 },
    { "hardtanh", hardtanh_row, "fNx4", 0, 0 },
    { "softmax", softmax_row, "fNx4", 0, 0 },
    { "softmax.first", softmax_first_row, "fNx4", 0, 0 },
    { "log_softmax", log_softmax_row, "fNx4", 0, 0 },
    { "dropout", dropout_row, "fNx4", 0, 0 },
    { "dropout.complex", dropout_row, "cNx4", 0, 0 },
};

TT_TEST_TABLE(conformance_activation)
{
    conform_add("activation", rows, (int)(sizeof(rows) / sizeof(rows[0])));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Activations and Dropout as modules. */
#include <stdio.h>
#include <string.h>

#include "nn/layers/layer.h"

typedef struct numbers {
    double a, b;
    int dim;
} numbers;

static const numbers *data(const tt_module *m)
{
    return m->data;
}

static tt_tensor *relu_forward(tt_module *m, tt_tensor *x)
{
    (void)m;
    return tt_relu(x);
}

static tt_tensor *gelu_forward(tt_module *m, tt_tensor *x)
{
    (void)m;
    return tt_gelu(x);
}

static tt_tensor *gelu_tanh_forward(tt_module *m, tt_tensor *x)
{
    (void)m;
    return tt_gelu_tanh(x);
}

static tt_tensor *silu_forward(tt_module *m, tt_tensor *x)
{
    (void)m;
    return tt_silu(x);
}

static tt_tensor *tanh_forward(tt_module *m, tt_tensor *x)
{
    (void)m;
    return tt_tanh(x);
}

static tt_tensor *sigmoid_forward(tt_module *m, tt_tensor *x)
{
    (void)m;
    return tt_sigmoid(x);
}

static tt_tensor *elu_forward(tt_module *m, tt_tensor *x)
{
    return tt_elu(x, data(m)->a);
}

static tt_tensor *celu_forward(tt_module *m, tt_tensor *x)
{
    return tt_celu(x, data(m)->a);
}

static tt_tensor *leaky_forward(tt_module *m, tt_tensor *x)
{
    return tt_leaky_relu(x, data(m)->a);
}

static tt_tensor *softplus_forward(tt_module *m, tt_tensor *x)
{
    return tt_softplus(x, data(m)->a, data(m)->b);
}

static tt_tensor *softmax_forward(tt_module *m, tt_tensor *x)
{
    return tt_softmax(x, data(m)->dim);
}

static tt_tensor *log_softmax_forward(tt_module *m, tt_tensor *x)
{
    return tt_log_softmax(x, data(m)->dim);
}

static tt_tensor *dropout_forward(tt_module *m, tt_tensor *x)
{
    return tt_dropout(x, data(m)->a, m->training, NULL);
}

static int describe_none(const tt_module *m, char *text, size_t size)
{
    (void)m;
    return snprintf(text, size, "approximate='none'");
}

static int describe_tanh(const tt_module *m, char *text, size_t size)
{
    (void)m;
    return snprintf(text, size, "approximate='tanh'");
}

/* A number that shows that it is not an integer: 1.0, 0.5, 1e-05. */
static int add_number(char *text, size_t size, const char *name, double v)
{
    char digits[32];

    snprintf(digits, sizeof digits, "%g", v);
    return snprintf(text, size, "%s=%s%s", name, digits,
                    strpbrk(digits, ".en") == NULL ? ".0" : "");
}

static int describe_alpha(const tt_module *m, char *text, size_t size)
{
    return add_number(text, size, "alpha", data(m)->a);
}

static int describe_slope(const tt_module *m, char *text, size_t size)
{
    return add_number(text, size, "negative_slope", data(m)->a);
}

static int describe_softplus(const tt_module *m, char *text, size_t size)
{
    int n = add_number(text, size, "beta", data(m)->a);

    return n + add_number(text + n, size - (size_t)n, ", threshold", data(m)->b);
}

static int describe_dim(const tt_module *m, char *text, size_t size)
{
    return snprintf(text, size, "dim=%d", data(m)->dim);
}

static int describe_p(const tt_module *m, char *text, size_t size)
{
    return snprintf(text, size, "p=%g, inplace=False", data(m)->a);
}

enum {
    RELU,
    GELU,
    GELU_TANH,
    SILU,
    TANH,
    SIGMOID,
    ELU,
    CELU,
    LEAKY,
    SOFTPLUS,
    SOFTMAX,
    LOG_SOFTMAX,
    DROPOUT
};

#define ROW(words, fn, describe_fn)                                                         \
    {                                                                                       \
        .name = words, .data_size = sizeof(numbers), .forward = fn, .describe = describe_fn \
    }

static const tt_module_class classes[] = {
    [RELU] = ROW("ReLU", relu_forward, NULL),
    [GELU] = ROW("GELU", gelu_forward, describe_none),
    [GELU_TANH] = ROW("GELU", gelu_tanh_forward, describe_tanh),
    [SILU] = ROW("SiLU", silu_forward, NULL),
    [TANH] = ROW("Tanh", tanh_forward, NULL),
    [SIGMOID] = ROW("Sigmoid", sigmoid_forward, NULL),
    [ELU] = ROW("ELU", elu_forward, describe_alpha),
    [CELU] = ROW("CELU", celu_forward, describe_alpha),
    [LEAKY] = ROW("LeakyReLU", leaky_forward, describe_slope),
    [SOFTPLUS] = ROW("Softplus", softplus_forward, describe_softplus),
    [SOFTMAX] = ROW("Softmax", softmax_forward, describe_dim),
    [LOG_SOFTMAX] = ROW("LogSoftmax", log_softmax_forward, describe_dim),
    [DROPOUT] = ROW("Dropout", dropout_forward, describe_p),
};

static tt_module *make(int which, numbers n)
{
    tt_module *m = tt_module_new(&classes[which]);

    if (m != NULL)
        *(numbers *)m->data = n;
    return m;
}

tt_module *tt_relu_new(void)
{
    return make(RELU, (numbers){ 0 });
}

tt_module *tt_gelu_new(void)
{
    return make(GELU, (numbers){ 0 });
}

tt_module *tt_gelu_tanh_new(void)
{
    return make(GELU_TANH, (numbers){ 0 });
}

tt_module *tt_silu_new(void)
{
    return make(SILU, (numbers){ 0 });
}

tt_module *tt_tanh_new(void)
{
    return make(TANH, (numbers){ 0 });
}

tt_module *tt_sigmoid_new(void)
{
    return make(SIGMOID, (numbers){ 0 });
}

tt_module *tt_elu_new(double alpha)
{
    return make(ELU, (numbers){ .a = alpha });
}

tt_module *tt_celu_new(double alpha)
{
    return make(CELU, (numbers){ .a = alpha });
}

tt_module *tt_leaky_relu_new(double slope)
{
    return make(LEAKY, (numbers){ .a = slope });
}

tt_module *tt_softplus_new(double beta, double threshold)
{
    return make(SOFTPLUS, (numbers){ .a = beta, .b = threshold });
}

tt_module *tt_softmax_new(int dim)
{
    return make(SOFTMAX, (numbers){ .dim = dim });
}

tt_module *tt_log_softmax_new(int dim)
{
    return make(LOG_SOFTMAX, (numbers){ .dim = dim });
}

tt_module *tt_dropout_new(double p)
{
    if (!(p >= 0 && p <= 1))
        return TT_FAIL_NULL(TT_ERR_INVALID, "Dropout: expected a probability, got %g", p);
    return make(DROPOUT, (numbers){ .a = p });
}

tt_module *tt_activation_new(tt_activation a)
{
    static const int rows[] = { RELU, GELU, GELU_TANH, SILU, TANH, SIGMOID };

    if (a == TT_ACT_NONE)
        return tt_identity_new();
    if ((size_t)a >= sizeof rows / sizeof rows[0])
        return TT_FAIL_NULL(TT_ERR_INVALID, "activation: %d is none", (int)a);
    return make(rows[a], (numbers){ 0 });
}

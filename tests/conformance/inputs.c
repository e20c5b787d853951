/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the spelling of inputs, makes them, and adds the tests of a table. */
#include "conformance/conformance.h"

#include <stdio.h>
#include <stdlib.h>

#include <tutti/testing.h>

static int64_t number(const char **s, int64_t n)
{
    char *end = NULL;
    int64_t value = n;

    if (**s == 'N') {
        (*s)++;
    } else {
        value = strtoll(*s, &end, 10);
        *s = end;
    }
    return value;
}

int conform_parse(const conform_row *row, int64_t n, conform_input *in)
{
    int count = 0;

    for (const char *s = row->inputs; *s != '\0' && count < CONFORM_MAX_IN; count++) {
        conform_input *x = &in[count];

        *x = (conform_input){ .kind = *s++ };
        if (x->kind == 'i' || x->kind == 'o') {
            x->limit = number(&s, n);
            s += *s == ':';
        }
        while (*s != '\0' && *s != ' ' && *s != '?') {
            x->shape.dims[x->shape.n_dims++] = number(&s, n);
            s += *s == 'x';
        }
        x->optional = *s == '?';
        s += x->optional;
        s += *s == ' ';
    }
    return count;
}

bool conform_is_float(const conform_input *in)
{
    return in->kind == 'f' || in->kind == 'p' || in->kind == 'u' || in->kind == 'c';
}

/* Element i of input `which`. Those of small inputs are all different, in no order, and at least
 * 0.002 away from every multiple of 0.025, so that no step of any operator is near. */
static double element(const conform_input *in, int64_t i, int which)
{
    int64_t prime = tt_shape_numel(in->shape) < 101 ? 101 : 10007;
    int64_t k = (i * 37 + which * 11) % prime;
    double v = (double)k * 2.525 / (double)prime - 1.2371 + which * 0.0173;

    switch (in->kind) {
    case 'p':
        return 0.35 + (v + 1.2371) / 2;
    case 'u':
        return 0.05 + (v + 1.2371) / 2.9;
    case 'n':
        return (double)(k % 11 - 5);
    case 'b':
        return k % 3 != 1;
    case 'i':
        return (double)(in->limit > 0 ? k % in->limit : 0);
    case 'o':
        return (double)(i * in->limit);
    default:
        return v;
    }
}

static tt_dtype type_of(const conform_input *in, tt_dtype dtype)
{
    if (in->kind == 'c')
        return dtype == TT_F64 ? TT_C128 : TT_C64;
    if (in->kind == 'b')
        return TT_BOOL;
    return conform_is_float(in) ? dtype : TT_I64;
}

static tt_tensor *make(const conform_input *in, int which, tt_dtype dtype, tt_device device)
{
    tt_shape shape = in->shape;
    bool complex = in->kind == 'c';

    if (complex)
        shape.dims[shape.n_dims++] = 2;
    tt_tensor *t = tt_empty(shape, TT_F64, TT_CPU);
    double *p = t != NULL ? tt_tensor_data(t) : NULL;
    int64_t n = tt_shape_numel(shape);

    for (int64_t i = 0; p != NULL && i < n; i++)
        p[i] = (float)element(in, i, which);
    if (complex)
        t = tt_view_as_complex(t);
    return tt_to_device(tt_to_dtype(t, type_of(in, dtype)), device);
}

int conform_make(const conform_case *c, int64_t n, tt_dtype dtype, tt_tensor **in)
{
    conform_input inputs[CONFORM_MAX_IN];
    int count = conform_parse(c->row, n, inputs);

    for (int i = 0; i < count; i++) {
        in[i] = make(&inputs[i], i, dtype, c->device);
        if (in[i] == NULL)
            TT_FAIL_TEST("input %d of %s: %s", i, c->row->name, tt_last_error());
        TT_REQUIRE_NOT_NULL(in[i]);
    }
    return count;
}

tt_tensor *conform_call(const conform_row *row, tt_tensor *const *in)
{
    tt_tensor *copy[CONFORM_MAX_IN];

    for (int i = 0; i < CONFORM_MAX_IN; i++)
        copy[i] = in[i];
    if ((row->flags & CONFORM_INPLACE) != 0)
        copy[0] = tt_clone(in[0]);
    return row->fn(copy);
}

static const struct {
    const char *name;
    tt_test_fn fn;
    unsigned unless; /* flags that take the property away */
} properties[] = {
    { "gradient_is_that_of_finite_differences", conform_gradient, CONFORM_NO_GRAD },
    { "float32_gives_what_float64_gives", conform_float32, 0 },
    { "float16_gives_float32_rounded", conform_float16, 0 },
    { "bfloat16_gives_float32_rounded", conform_bfloat16, 0 },
    { "strides_do_not_matter", conform_strides, CONFORM_STRIDED },
    { "empty_input_works_or_is_refused", conform_empty, CONFORM_NO_EMPTY },
    { "null_input_keeps_the_first_error", conform_null, 0 },
    { "same_bits_again_and_with_two_threads", conform_threads, 0 },
    { "inputs_are_left_alone", conform_unmodified, 0 },
    { "requires_grad_follows_the_mode", conform_grad_mode, 0 },
};

static void add_row(const char *suite, conform_case *c)
{
    for (size_t p = 0; p < sizeof(properties) / sizeof(properties[0]); p++) {
        char name[160];

        if ((c->row->flags & properties[p].unless) != 0)
            continue;
        snprintf(name, sizeof(name), "%s.%s", c->row->name, properties[p].name);
        tt_test_add(suite, name, properties[p].fn, c)->together = true;
    }
}

/* One test for all properties: a process that uses OpenCL takes a while to start. Whether there is a
 * device is found out by the test, because nobody may fork who has used one. */
static void add_device(const char *suite, conform_case *c)
{
    char name[160];

#ifdef __SANITIZE_THREAD__ /* it does not see kernels, which run in the driver */
    return;
#endif
    if ((c->row->flags & CONFORM_CPU_ONLY) != 0)
        return;
    c->device = tt_cl(0);
    snprintf(name, sizeof(name), "%s.as_on_the_cpu@cl:0", c->row->name);
    tt_test_add(suite, name, conform_device, c);
}

void conform_add(const char *family, const conform_row *rows, int n)
{
    conform_case *cases = calloc((size_t)n * 2, sizeof(*cases));
    char suite[64];

    for (int i = 0; cases != NULL && i < n; i++) {
        cases[i] = cases[n + i] = (conform_case){ &rows[i], TT_CPU };
        snprintf(suite, sizeof(suite), "conformance_%s", family);
        add_row(suite, &cases[i]);
        snprintf(suite, sizeof(suite), "device_%s", family);
        add_device(suite, &cases[n + i]);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What every operator has to hold: one function per property, run on a row of a table. */
#include "conformance/conformance.h"

#include <string.h>

#include <tutti/testing.h>

typedef struct segment {
    const conform_row *row;
    tt_tensor
        *in[CONFORM_MAX_IN]; /* those that have no gradient; NULL where one comes from outside */
} segment;

static tt_status run_segment(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    const segment *s = ctx;
    tt_tensor *all[CONFORM_MAX_IN];
    int k = 0;

    (void)n_out;
    for (int i = 0; i < CONFORM_MAX_IN; i++)
        all[i] = s->in[i] == NULL && k < n_in ? in[k++] : s->in[i];
    out[0] = conform_call(s->row, all);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

void conform_gradient(void *ctx)
{
    const conform_case *c = ctx;
    segment s = { .row = c->row };
    conform_input inputs[CONFORM_MAX_IN];
    tt_tensor *in[CONFORM_MAX_IN];
    int n = conform_parse(c->row, 3, inputs), k = 0;
    tt_gradcheck_options opt = { .second_order = (c->row->flags & CONFORM_FIRST_ORDER) == 0 };

    TT_SCOPE {
        conform_make(c, 3, TT_F64, s.in);
        for (int i = 0; i < n; i++) {
            if (!conform_is_float(&inputs[i]))
                continue;
            in[k++] = tt_require_grad(s.in[i]);
            s.in[i] = NULL;
        }
        TT_CHECK_OK(tt_gradcheck(run_segment, &s, in, k, 1, &opt));
    }
}

static void check_close(const char *what, tt_tensor *got, tt_tensor *want, double tol)
{
    tt_close_report report;
    tt_close_options opt = { .rtol = tol, .atol = tol, .exact = tol == 0 };

    if (got == NULL || want == NULL)
        TT_FAIL_TEST("%s: %s is NULL: %s", what, got == NULL ? "result" : "expected result",
                     tt_last_error());
    else if (!tt_compare(got, want, &opt, &report))
        TT_FAIL_TEST("%s: %s", what, report.text);
}

tt_tensor *conform_weights(tt_tensor *t)
{
    tt_tensor *w = tt_arange(0, (double)tt_tensor_numel(t), 1, TT_F32, TT_CPU);

    w = tt_sin(tt_add_scalar(tt_reshape(w, tt_tensor_shape(t)), 0.3));
    return tt_to_device(tt_to_dtype(tt_to_dtype(w, TT_BF16), tt_tensor_dtype(t)),
                        tt_tensor_device(t));
}

conform_outcome conform_run(const conform_case *c, tt_tensor *const *in)
{
    conform_input inputs[CONFORM_MAX_IN];
    tt_tensor *leaf[CONFORM_MAX_IN] = { NULL }, *wanted[CONFORM_MAX_IN], *grads[CONFORM_MAX_IN];
    int n = conform_parse(c->row, 3, inputs), k = 0;
    bool differentiable = (c->row->flags & CONFORM_NO_GRAD) == 0;
    conform_outcome o = { NULL, { NULL } };

    for (int i = 0; i < n; i++) {
        leaf[i] = tt_detach(in[i]);
        if (differentiable && conform_is_float(&inputs[i]))
            wanted[k++] = tt_require_grad(leaf[i]);
    }
    o.result = conform_call(c->row, leaf);
    TT_REQUIRE_NOT_NULL(o.result);
    if (k > 0 && tt_requires_grad(o.result)) {
        tt_tensor *weights = conform_weights(o.result);
        tt_grad_options opt = { .grad_outputs = &weights, .allow_unused = true };

        TT_REQUIRE_OK(tt_grad(&o.result, 1, wanted, k, &opt, grads));
        memcpy(o.grads, grads, (size_t)k * sizeof(grads[0]));
    }
    return o;
}

void conform_check_same(const char *what, const conform_outcome *got, const conform_outcome *want,
                        double tol)
{
    check_close(what, got->result, want->result, tol);
    for (int i = 0; i < CONFORM_MAX_IN; i++) {
        TT_CHECK_EQ(got->grads[i] != NULL, want->grads[i] != NULL);
        if (got->grads[i] != NULL && want->grads[i] != NULL)
            check_close(what, got->grads[i], want->grads[i], tol);
    }
}

/* The conform_outcome in the types that `like` has. */
static conform_outcome converted(const conform_outcome *o, const conform_outcome *like)
{
    conform_outcome to = { tt_to_dtype(o->result, tt_tensor_dtype(like->result)), { NULL } };

    for (int i = 0; i < CONFORM_MAX_IN; i++)
        if (o->grads[i] != NULL && like->grads[i] != NULL)
            to.grads[i] = tt_to_dtype(o->grads[i], tt_tensor_dtype(like->grads[i]));
    return to;
}

void conform_float32(void *ctx)
{
    const conform_case *c = ctx;
    tt_tensor *wide[CONFORM_MAX_IN] = { NULL }, *narrow[CONFORM_MAX_IN] = { NULL };

    TT_SCOPE {
        conform_make(c, 3, TT_F64, wide);
        conform_make(c, 3, TT_F32, narrow);
        conform_outcome got = conform_run(c, narrow), exact = conform_run(c, wide),
                        want = converted(&exact, &got);

        conform_check_same("float32", &got, &want, 1e-5);
    }
}

static void check_half(const conform_case *c, tt_dtype dtype, double tol)
{
    conform_input inputs[CONFORM_MAX_IN];
    tt_tensor *half[CONFORM_MAX_IN] = { NULL }, *whole[CONFORM_MAX_IN] = { NULL };
    int n = conform_parse(c->row, 3, inputs);

    TT_SCOPE {
        conform_make(c, 3, dtype, half);
        if ((c->row->flags & CONFORM_NO_HALF) != 0) {
            TT_CHECK_NULL(conform_call(c->row, half));
            TT_CHECK_GT(strlen(tt_last_error()), 10);
            return;
        }
        for (int i = 0; i < n; i++)
            whole[i] = conform_is_float(&inputs[i]) && inputs[i].kind != 'c'
                           ? tt_to_dtype(half[i], TT_F32)
                           : half[i];
        conform_outcome got = conform_run(c, half), exact = conform_run(c, whole),
                        want = converted(&exact, &got);

        conform_check_same(tt_dtype_name(dtype), &got, &want, tol);
    }
}

void conform_float16(void *ctx)
{
    check_half(ctx, TT_F16, 2e-3);
}

void conform_bfloat16(void *ctx)
{
    check_half(ctx, TT_BF16, 1.6e-2);
}

/* The same values, laid out in memory in the reverse order of dimensions. */
static tt_tensor *transposed(tt_tensor *t)
{
    int dims[TT_MAX_DIMS], n = tt_tensor_dims(t);

    for (int i = 0; i < n; i++)
        dims[i] = n - 1 - i;
    return tt_permute(tt_clone(tt_contiguous(tt_permute(t, dims, n))), dims, n);
}

/* The same values, every second element of a larger tensor. */
static tt_tensor *stepped(tt_tensor *t)
{
    int n = tt_tensor_dims(t);
    tt_tensor *pair[2] = { t, t };

    if (n == 0)
        return t;
    tt_tensor *twice = tt_reshape(tt_stack(pair, 2, n), TT_SHAPE(-1));
    tt_shape shape = tt_tensor_shape(t);

    shape.dims[n - 1] *= 2;
    return tt_slice(tt_reshape(twice, shape), n - 1, 0, INT64_MAX, 2);
}

/* Its first slice again and again, without memory for them. */
static tt_tensor *expanded(tt_tensor *t)
{
    if (tt_tensor_dims(t) == 0)
        return t;
    return tt_expand(tt_narrow(t, 0, 0, 1), tt_tensor_shape(t));
}

static tt_tensor *channels_last(tt_tensor *t)
{
    return tt_tensor_dims(t) == 4 ? tt_to_format(t, TT_FORMAT_CHANNELS_LAST) : t;
}

const conform_layout conform_layouts[CONFORM_LAYOUTS] = { { "transposed", transposed },
                                                          { "stepped", stepped },
                                                          { "expanded", expanded },
                                                          { "channels_last", channels_last } };

void conform_strides(void *ctx)
{
    const conform_layout *layouts = conform_layouts;
    const conform_case *c = ctx;

    for (size_t k = 0; k < CONFORM_LAYOUTS; k++)
        TT_SCOPE {
            tt_tensor *plain[CONFORM_MAX_IN] = { NULL }, *odd[CONFORM_MAX_IN] = { NULL };
            int n = conform_make(c, 3, conform_wide(c), plain);

            for (int i = 0; i < n; i++) {
                odd[i] = layouts[k].fn(plain[i]);
                TT_REQUIRE_NOT_NULL(odd[i]);
                plain[i] =
                    tt_reshape(tt_stack((tt_tensor *[]){ odd[i] }, 1, 0), tt_tensor_shape(odd[i]));
            }
            conform_outcome got = conform_run(c, odd), want = conform_run(c, plain);

            conform_check_same(layouts[k].name, &got, &want,
                               conform_wide(c) == TT_F64 ? 1e-12 : 1e-5);
        }
}

/* Every size of a result is a + b * N: two values of N give that of the third. */
static tt_shape shape_at_zero(tt_tensor *at_3, tt_tensor *at_5)
{
    tt_shape shape = tt_tensor_shape(at_3);

    for (int i = 0; i < shape.n_dims; i++)
        shape.dims[i] -= 3 * (tt_tensor_size(at_5, i) - shape.dims[i]) / 2;
    return shape;
}

void conform_empty(void *ctx)
{
    const conform_case *c = ctx;
    tt_tensor *in[3][CONFORM_MAX_IN] = { { NULL } };

    TT_SCOPE {
        conform_make(c, 0, TT_F32, in[0]);
        conform_make(c, 3, TT_F32, in[1]);
        conform_make(c, 5, TT_F32, in[2]);
        tt_clear_error();
        tt_tensor *got = conform_call(c->row, in[0]);

        if ((c->row->flags & CONFORM_EMPTY_FAILS) != 0) {
            TT_CHECK_NULL(got);
            TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
            TT_CHECK_GT(strlen(tt_last_error()), 10);
        } else {
            if (got == NULL)
                TT_FAIL_TEST("%s", tt_last_error());
            TT_REQUIRE_NOT_NULL(got);
            tt_tensor *at_3 = conform_call(c->row, in[1]), *at_5 = conform_call(c->row, in[2]);

            TT_REQUIRE(at_3 != NULL && at_5 != NULL);
            TT_CHECK_EQ(tt_tensor_dtype(got), tt_tensor_dtype(at_3));
            if ((c->row->flags & CONFORM_BY_VALUE) == 0)
                TT_CHECK(tt_shape_equal(tt_tensor_shape(got), shape_at_zero(at_3, at_5)));
        }
    }
}

void conform_null(void *ctx)
{
    const conform_case *c = ctx;
    conform_input inputs[CONFORM_MAX_IN];
    int n = conform_parse(c->row, 3, inputs);

    for (int i = 0; i < n; i++)
        TT_SCOPE {
            tt_tensor *in[CONFORM_MAX_IN] = { NULL };

            conform_make(c, 3, TT_F32, in);
            in[i] = NULL;
            tt_fail(TT_ERR_IO, "the first error");
            tt_tensor *got = conform_call(c->row, in);

            if (inputs[i].optional) {
                TT_CHECK_NOT_NULL(got);
            } else {
                TT_CHECK_NULL(got);
                TT_CHECK_STR(tt_last_error(), "the first error");
                TT_CHECK_EQ(tt_last_status(), TT_ERR_IO);
            }
        }
}

static void check_bits(const char *what, const conform_outcome *got, const conform_outcome *want)
{
    if (!tt_equal(got->result, want->result))
        TT_FAIL_TEST("%s: the result has other bits", what);
    for (int i = 0; i < CONFORM_MAX_IN; i++)
        if (want->grads[i] != NULL && !tt_equal(got->grads[i], want->grads[i]))
            TT_FAIL_TEST("%s: gradient %d has other bits", what, i);
}

void conform_threads(void *ctx)
{
    const conform_case *c = ctx;
    tt_tensor *in[CONFORM_MAX_IN] = { NULL };

    TT_SCOPE {
        conform_make(c, c->row->big != 0 ? c->row->big : 20011, TT_F32, in);
        TT_REQUIRE_OK(tt_set_num_threads(1));
        conform_outcome first = conform_run(c, in), again = conform_run(c, in);

        check_bits("a second run", &again, &first);
        TT_REQUIRE_OK(tt_set_num_threads(2));
        conform_outcome two = conform_run(c, in), two_again = conform_run(c, in);

        check_bits("a second run with two threads", &two_again, &two);
        if ((c->row->flags & CONFORM_THREADS_DIFFER) == 0)
            check_bits("two threads", &two, &first);
    }
}

void conform_unmodified(void *ctx)
{
    const conform_case *c = ctx;
    bool inplace = (c->row->flags & CONFORM_INPLACE) != 0;
    tt_tensor *in[CONFORM_MAX_IN] = { NULL }, *before[CONFORM_MAX_IN] = { NULL };
    uint64_t version[CONFORM_MAX_IN] = { 0 };

    TT_SCOPE {
        int n = conform_make(c, 3, TT_F32, in);

        for (int i = 0; i < n; i++) {
            before[i] = tt_clone(in[i]);
            version[i] = tt_tensor_version(in[i]);
        }
        tt_tensor *got = c->row->fn(in);

        TT_REQUIRE_NOT_NULL(got);
        if (inplace) {
            TT_CHECK_PTR(got, in[0]);
            TT_CHECK_GT(tt_tensor_version(in[0]), version[0]);
            TT_CHECK(tt_equal(got, conform_call(c->row, before)));
        }
        for (int i = inplace ? 1 : 0; i < n; i++) {
            TT_CHECK_EQ(tt_tensor_version(in[i]), version[i]);
            TT_CHECK(tt_equal(in[i], before[i]));
        }
    }
}

void conform_grad_mode(void *ctx)
{
    const conform_case *c = ctx;
    bool differentiable = (c->row->flags & CONFORM_NO_GRAD) == 0;
    conform_input inputs[CONFORM_MAX_IN];
    tt_tensor *in[CONFORM_MAX_IN] = { NULL };
    int n = conform_parse(c->row, 3, inputs);

    TT_SCOPE {
        conform_make(c, 3, TT_F32, in);
        for (int i = 0; i < n; i++)
            if (conform_is_float(&inputs[i]))
                tt_require_grad(in[i]);
        tt_tensor *with = conform_call(c->row, in), *without = NULL;

        TT_NO_GRAD
        {
            without = conform_call(c->row, in);
        }
        TT_REQUIRE(with != NULL && without != NULL);
        TT_CHECK_EQ(tt_requires_grad(with), differentiable);
        if (without != in[0])
            TT_CHECK(!tt_requires_grad(without));
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What every operator has to hold on an accelerator: results, gradients and gradients of gradients are
 * those of the CPU, in every floating type, for any strides and for many elements, and the same bits
 * every time. */
#include "conformance/conformance.h"

#include <string.h>

#include <tutti/testing.h>

#define MANY 4099

tt_dtype conform_wide(const conform_case *c)
{
    tt_device_properties p = { .has_fp64 = true };

    if (!tt_device_equal(c->device, TT_CPU))
        TT_CHECK_OK(tt_device_properties_get(c->device, &p));
    return p.has_fp64 ? TT_F64 : TT_F32;
}

/* The outcome in host memory; what kernels have reported fails the test here. */
static conform_outcome on_host(const conform_case *c, const conform_outcome *o)
{
    conform_outcome to = { tt_to_device(o->result, TT_CPU), { NULL } };

    TT_CHECK(tt_device_equal(tt_tensor_device(o->result), c->device));
    for (int i = 0; i < CONFORM_MAX_IN; i++)
        if (o->grads[i] != NULL)
            to.grads[i] = tt_to_device(o->grads[i], TT_CPU);
    TT_CHECK_OK(tt_device_sync(c->device));
    return to;
}

static void agree(const conform_case *c, int64_t n, tt_dtype dtype, double tol)
{
    conform_case host = { c->row, TT_CPU };
    tt_tensor *there[CONFORM_MAX_IN] = { NULL }, *here[CONFORM_MAX_IN] = { NULL };

    TT_SCOPE {
        conform_make(&host, n, dtype, here);
        conform_make(c, n, dtype, there);
        conform_outcome got = conform_run(c, there), want = conform_run(&host, here);

        got = on_host(c, &got);
        conform_check_same(tt_dtype_name(dtype), &got, &want, tol);
    }
}

static void half_types(const conform_case *c)
{
    if ((c->row->flags & CONFORM_NO_HALF) != 0)
        return;
    agree(c, 3, TT_F16, 2e-3);
    agree(c, 3, TT_BF16, 1.6e-2);
}

/* The gradients, weighted and added up, differentiated once more. */
static conform_outcome run_twice(const conform_case *c, tt_tensor *const *in)
{
    conform_input inputs[CONFORM_MAX_IN];
    tt_tensor *leaf[CONFORM_MAX_IN] = { NULL }, *wanted[CONFORM_MAX_IN], *grads[CONFORM_MAX_IN];
    int n = conform_parse(c->row, 3, inputs), k = 0;
    conform_outcome o = { NULL, { NULL } };

    for (int i = 0; i < n; i++) {
        leaf[i] = tt_detach(in[i]);
        if (conform_is_float(&inputs[i]))
            wanted[k++] = tt_require_grad(leaf[i]);
    }
    o.result = conform_call(c->row, leaf);
    TT_REQUIRE_NOT_NULL(o.result);

    tt_tensor *weights = conform_weights(o.result), *total = NULL;
    tt_grad_options first = { .grad_outputs = &weights,
                              .allow_unused = true,
                              .create_graph = true };

    TT_REQUIRE_OK(tt_grad(&o.result, 1, wanted, k, &first, grads));
    for (int i = 0; i < k; i++) {
        if (grads[i] == NULL || !tt_requires_grad(grads[i]))
            continue;
        tt_tensor *sum = tt_sum(tt_mul(grads[i], conform_weights(grads[i])));

        if (tt_dtype_is_complex(tt_tensor_dtype(sum)))
            sum = tt_real(sum);
        total = total != NULL ? tt_add(total, sum) : sum;
    }
    if (total != NULL) {
        TT_REQUIRE_OK(
            tt_grad(&total, 1, wanted, k, &(tt_grad_options){ .allow_unused = true }, grads));
        memcpy(o.grads, grads, (size_t)k * sizeof(grads[0]));
    }
    return o;
}

static void second_order(const conform_case *c, tt_dtype dtype, double tol)
{
    conform_case host = { c->row, TT_CPU };
    tt_tensor *there[CONFORM_MAX_IN] = { NULL }, *here[CONFORM_MAX_IN] = { NULL };

    if ((c->row->flags & (CONFORM_FIRST_ORDER | CONFORM_NO_GRAD)) != 0)
        return;
    TT_SCOPE {
        conform_make(&host, 3, dtype, here);
        conform_make(c, 3, dtype, there);
        conform_outcome got = run_twice(c, there), want = run_twice(&host, here);

        got.result = tt_detach(got.result);
        want.result = tt_detach(want.result);
        got = on_host(c, &got);
        conform_check_same("second order", &got, &want, tol);
    }
}

/* Indices are looked at by kernels, so a bad one may be told at the next wait. */
static void empty(conform_case *c)
{
    tt_tensor *in[CONFORM_MAX_IN] = { NULL };
    tt_status st = TT_OK;

    if ((c->row->flags & CONFORM_NO_EMPTY) != 0)
        return;
    if ((c->row->flags & CONFORM_EMPTY_FAILS) == 0) {
        conform_empty(c);
        return;
    }
    TT_SCOPE {
        conform_make(c, 0, TT_F32, in);
        tt_clear_error();
        st = conform_call(c->row, in) != NULL ? tt_device_sync(c->device) : tt_last_status();
        TT_CHECK_EQ(st, TT_ERR_INVALID);
        TT_CHECK_GT(strlen(tt_last_error()), 10);
    }
    tt_clear_error();
}

static void same_bits(const conform_case *c)
{
    tt_tensor *in[CONFORM_MAX_IN] = { NULL };
    int64_t n = c->row->big != 0 && c->row->big < MANY ? c->row->big : MANY;

    TT_SCOPE {
        conform_make(c, n, TT_F32, in);
        conform_outcome first = conform_run(c, in), again = conform_run(c, in);

        if (!tt_equal(first.result, again.result))
            TT_FAIL_TEST("a second run gives other bits");
        for (int i = 0; i < CONFORM_MAX_IN; i++)
            if (first.grads[i] != NULL && !tt_equal(first.grads[i], again.grads[i]))
                TT_FAIL_TEST("a second run gives other bits in gradient %d", i);
    }
    /* Among thousands of groups of six numbers some are nearly equal: rounding shows in what is left of them. */
    agree(c, n, TT_F32, strcmp(c->row->name, "group_norm") == 0 ? 1e-3 : 1e-4);
}

static void check_strides(const char *layout, const char *what, tt_tensor *got, tt_tensor *want)
{
    if ((got == NULL) != (want == NULL)) {
        TT_FAIL_TEST("%s: %s is there only on one device", layout, what);
        return;
    }
    for (int d = 0; got != NULL && d < tt_tensor_dims(got); d++)
        if (tt_tensor_size(got, d) > 1 && tt_tensor_strides(got)[d] != tt_tensor_strides(want)[d])
            TT_FAIL_TEST("%s: %s has stride %lld in dimension %d, on the CPU %lld", layout, what,
                         (long long)tt_tensor_strides(got)[d], d,
                         (long long)tt_tensor_strides(want)[d]);
}

/* Results and gradients lie in memory as they do on the CPU, whatever the layout of the inputs. */
static void same_strides(const conform_case *c)
{
    conform_case host = { c->row, TT_CPU };

    for (int k = -1; k < ((c->row->flags & CONFORM_STRIDED) == 0 ? CONFORM_LAYOUTS : 0); k++)
        TT_SCOPE {
            tt_tensor *there[CONFORM_MAX_IN] = { NULL }, *here[CONFORM_MAX_IN] = { NULL };
            int n = conform_make(&host, 3, TT_F32, here);

            conform_make(c, 3, TT_F32, there);
            for (int i = 0; k >= 0 && i < n; i++) {
                here[i] = conform_layouts[k].fn(here[i]);
                there[i] = conform_layouts[k].fn(there[i]);
            }
            conform_outcome got = conform_run(c, there), want = conform_run(&host, here);
            const char *name = k < 0 ? "contiguous" : conform_layouts[k].name;

            check_strides(name, "the result", got.result, want.result);
            for (int i = 0; i < CONFORM_MAX_IN; i++)
                check_strides(name, "a gradient", got.grads[i], want.grads[i]);
        }
}

void conform_device(void *ctx)
{
    conform_case *c = ctx;
    tt_dtype wide;

    if (tt_device_count(TT_DEVICE_CL) == 0)
        tt_test_skip(TT_TEST_SKIP_NO_ACCELERATOR, "%s", tt_device_missing(TT_DEVICE_CL));
    wide = conform_wide(c);
    agree(c, 3, TT_F32, 1e-5);
    agree(c, 3, wide, wide == TT_F64 ? 1e-10 : 1e-5);
    half_types(c);
    second_order(c, wide, wide == TT_F64 ? 1e-9 : 1e-4);
    if ((c->row->flags & CONFORM_STRIDED) == 0)
        conform_strides(c);
    empty(c);
    conform_null(c);
    conform_unmodified(c);
    conform_grad_mode(c);
    same_strides(c);
    same_bits(c);
    TT_CHECK_OK(tt_device_sync(c->device));
}

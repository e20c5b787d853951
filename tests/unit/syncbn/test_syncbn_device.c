/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm over ranks whose tensors are on devices. */
#include "tutti/collective.h"
#include "tutti/ops.h"
#include "tutti/syncbn.h"
#include "tutti/testing_tools.h"
#include "tutti/tutti.h"

typedef struct outcome {
    tt_tensor *y, *dx, *dw, *mean;
} outcome;

static tt_tensor *numbers(tt_shape shape, uint64_t seed)
{
    tt_generator *gen = tt_generator_new(seed);
    tt_tensor *t = tt_normal_(tt_empty(shape, TT_F32, TT_CPU), 0.3, 1.5, gen);

    tt_generator_free(gen);
    return t;
}

/* This rank's rows: 3 of rank 0, 5 of rank 1. */
static outcome run(tt_device device)
{
    int64_t n = tt_test_rank() == 0 ? 3 : 5, at = tt_test_rank() == 0 ? 0 : 3;
    tt_tensor *all = numbers(TT_SHAPE(8, 3, 4), 1);
    tt_tensor *x = tt_require_grad(tt_to_device(tt_clone(tt_narrow(all, 0, at, n)), device));
    tt_tensor *w = tt_require_grad(tt_to_device(numbers(TT_SHAPE(3), 2), device));
    tt_tensor *b = tt_require_grad(tt_to_device(numbers(TT_SHAPE(3), 3), device));
    tt_batch_norm_options opt = { .running_mean = tt_zeros(TT_SHAPE(3), TT_F32, device),
                                  .running_var = tt_ones(TT_SHAPE(3), TT_F32, device) };
    tt_tensor *y = tt_sync_batch_norm(x, w, b, tt_test_pg(), &opt);
    tt_tensor *g = tt_to_device(numbers(TT_SHAPE(n, 3, 4), 4), device);

    TT_REQUIRE_NOT_NULL(y);
    TT_CHECK(tt_device_equal(tt_tensor_device(y), device));
    TT_REQUIRE_OK(tt_backward_with(y, &(tt_backward_options){ .gradient = g }));
    return (outcome){ tt_detach(y), tt_grad_of(x), tt_grad_of(w), opt.running_mean };
}

static void check(const char *what, tt_tensor *got, tt_tensor *want)
{
    tt_close_report r = { 0 };

    TT_REQUIRE_NOT_NULL(got);
    if (!tt_compare(tt_to_device(got, TT_CPU), want,
                    &(tt_close_options){ .rtol = 1e-5, .atol = 1e-5 }, &r))
        TT_FAIL_TEST("%s: %s", what, r.text);
}

TT_TEST_THREADS(2, syncbn, devices_give_what_the_cpu_gives)
{
    tt_test_require_devices(2, false);
    TT_SCOPE {
        outcome here = run(TT_CPU), there = run(tt_cl(tt_test_rank()));

        check("result", there.y, here.y);
        check("gradient of the input", there.dx, here.dx);
        check("gradient of the weight", there.dw, here.dw);
        check("running mean", there.mean, here.mean);
    }
}

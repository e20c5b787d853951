/* SPDX-License-Identifier: Apache-2.0 */
/* Backward over several streams and devices. */
#include "devices.h"
#include "harness/check_tensor.h"

/* The gradients' sums, which are dropped. */
static void check_grad(tt_tensor *t, double sum)
{
    TT_SCOPE {
        TT_CHECK_NEAR(tt_item(tt_sum(tt_grad_of(t))), sum, 0);
    }
    TT_REQUIRE_OK(tt_set_grad(t, NULL));
}

/* PoCL says something else from run to run, depending on what is free on the machine. */
static void need_memory(tt_device d, uint64_t bytes)
{
    uint64_t free_bytes, total;

    TT_REQUIRE_OK(tt_memory_info(d, &free_bytes, &total));
    if (free_bytes < bytes)
        TT_SKIP("needs %llu MiB of a device, which has %llu free",
                (unsigned long long)(bytes >> 20), (unsigned long long)(free_bytes >> 20));
}

/* Blocks of half a gigabyte, seven at a time at most: scopes end as early as they can. */
TT_TEST_LIMIT(multigpu, test_streaming_backwards_device_transfer, 280)
{
    const int64_t size = INT64_C(1) << 26;
    tt_tensor *a, *b;

    need_devices(2);
    need_memory(tt_cl(0), 7 * sizeof(double) * (uint64_t)size);
    need_memory(tt_cl(1), 7 * sizeof(double) * (uint64_t)size);
    TT_SCOPE {
        a = tt_require_grad(tt_tensor_retain(tt_ones(TT_SHAPE(size), TT_F64, tt_cl(1))));
        b = tt_require_grad(tt_tensor_retain(tt_ones(TT_SHAPE(size), TT_F64, tt_cl(1))));
    }
    TT_REQUIRE_NOT_NULL(a);
    TT_REQUIRE_NOT_NULL(b);
    TT_SCOPE {
        tt_tensor *s = tt_sum(tt_to_device(tt_mul(a, b), tt_cl(0)));

        TT_REQUIRE_OK(tt_device_sync(tt_cl(0)));
        TT_REQUIRE_OK(tt_device_sync(tt_cl(1)));
        TT_REQUIRE_OK(tt_backward(s));
        TT_REQUIRE_OK(tt_device_sync(tt_cl(0)));
        TT_REQUIRE_OK(tt_device_sync(tt_cl(1)));
    }
    check_grad(a, (double)size);
    check_grad(b, (double)size);
    TT_SCOPE {
        tt_tensor *s[2];

        TT_SCOPE {
            tt_tensor *product = tt_mul(a, b);

            for (int i = 0; i < 2; i++) {
                tt_scope inner = tt_scope_open();

                s[i] = tt_sum(tt_to_device(product, tt_cl(0)));
                s[i] = tt_tensor_retain(tt_mul_scalar(s[i], 2.0));
                tt_scope_close(&inner);
            }
        }
        TT_REQUIRE_OK(tt_backward_with(s[0], &(tt_backward_options){ .retain_graph = true }));
        TT_REQUIRE_OK(tt_backward(s[1]));
        TT_REQUIRE_OK(tt_device_sync(tt_cl(0)));
        TT_REQUIRE_OK(tt_device_sync(tt_cl(1)));
        tt_tensor_free(s[0]);
        tt_tensor_free(s[1]);
    }
    check_grad(a, 4.0 * (double)size);
    check_grad(b, 4.0 * (double)size);
    tt_tensor_free(a);
    tt_tensor_free(b);
}

/* ---- streams of one device ------------------------------------------------------------------------- */

static const uint64_t pause = 50 * 1000 * 1000;

typedef struct watch {
    tt_stream *stream; /* current when the gradient came */
    tt_device device;
    tt_hook *hook;
} watch;

/* Makes what comes after it late, so that whoever does not wait reads too early. */
static tt_status note_and_pause(void *ctx, tt_tensor **grad_p)
{
    watch *w = ctx;

    w->device = tt_device_current(TT_DEVICE_CL);
    w->stream = tt_stream_current(tt_tensor_device(*grad_p));
    return tt_stream_sleep(w->stream, pause);
}

static void watch_over(tt_tensor *t, watch *w)
{
    w->hook = tt_tensor_add_hook(t, note_and_pause, w);
    TT_REQUIRE_NOT_NULL(w->hook);
}

TT_TEST(streams_backward, nodes_run_on_the_streams_of_forward)
{
    need_devices(1);
    TT_SCOPE {
        tt_stream *side = tt_stream_new(tt_cl(0), NULL), *usual = tt_stream_current(tt_cl(0));
        tt_tensor *x = tt_require_grad(on(TT_FLOATS(1, 2, 3), 0)), *y = NULL, *z;
        watch on_side = { 0 }, at_leaf = { 0 };

        TT_REQUIRE_OK(tt_stream_wait_stream(side, usual));
        TT_STREAM_SCOPE(side)
        {
            TT_REQUIRE_OK(tt_stream_sleep(side, pause));
            y = tt_mul(x, x);
        }
        TT_REQUIRE_OK(tt_stream_wait_stream(usual, side));
        z = tt_mul_scalar(y, 3);
        watch_over(y, &on_side);
        watch_over(x, &at_leaf);
        TT_REQUIRE_OK(tt_backward(tt_sum(z)));
        TT_CHECK_PTR(on_side.stream, side);
        TT_CHECK_PTR(at_leaf.stream, usual);
        TT_CHECK_PTR(tt_stream_current(tt_cl(0)), usual);
        TT_CHECK_VALUES(host(tt_grad_of(x)), 6, 12, 18);
        tt_hook_remove(on_side.hook);
        tt_hook_remove(at_leaf.hook);
        tt_stream_free(side);
    }
}

/* Two streams make gradients of one leaf, late; they are added in order. */
TT_TEST(streams_backward, gradients_of_several_streams_add_up)
{
    need_devices(2);
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(on(TT_FLOATS(1, 2, 3), 0)), *s = NULL;
        tt_stream *usual = tt_stream_current(tt_cl(0)), *side[3];
        watch w[3];

        for (int i = 0; i < 3; i++) {
            tt_tensor *y = NULL;

            side[i] = tt_stream_new(tt_cl(i == 2 ? 1 : 0), NULL);
            TT_REQUIRE_OK(tt_stream_wait_stream(side[i], usual));
            TT_STREAM_SCOPE(side[i]) y = tt_mul_scalar(on(x, i == 2 ? 1 : 0), i + 1);
            watch_over(y, &w[i]);
            TT_STREAM_SCOPE(side[i]) y = on(tt_sum(tt_mul(y, y)), 0);
            TT_REQUIRE_OK(tt_stream_wait_stream(usual, side[i]));
            s = s != NULL ? tt_add(s, y) : y;
        }
        TT_REQUIRE_OK(tt_backward(s));
        for (int i = 0; i < 3; i++) {
            TT_CHECK_PTR(w[i].stream, side[i]);
            TT_CHECK_EQ(w[i].device.index, i == 2 ? 1 : 0);
            tt_hook_remove(w[i].hook);
        }
        TT_CHECK_VALUES(host(tt_grad_of(x)), 28, 56, 84);
        TT_CHECK_EQ(tt_device_current(TT_DEVICE_CL).index, 0);
        for (int i = 0; i < 3; i++)
            tt_stream_free(side[i]);
    }
}

/* A gradient that is asked for, and was made on another stream, can be read on the caller's. */
TT_TEST(streams_backward, asked_gradients_are_ordered)
{
    need_devices(1);
    TT_SCOPE {
        tt_stream *side = tt_stream_new(tt_cl(0), NULL), *usual = tt_stream_current(tt_cl(0));
        tt_tensor *x = tt_require_grad(on(TT_FLOATS(1, 2), 0)), *y = NULL, *z = NULL, *g = NULL;
        watch w;

        TT_REQUIRE_OK(tt_stream_wait_stream(side, usual));
        TT_STREAM_SCOPE(side)
        {
            y = tt_mul_scalar(x, 5);
            z = tt_mul(y, y);
        }
        watch_over(z, &w);
        TT_REQUIRE_OK(tt_stream_wait_stream(usual, side));
        TT_REQUIRE_OK(tt_grad((tt_tensor *[]){ tt_sum(z) }, 1, &y, 1, NULL, &g));
        TT_CHECK_PTR(w.stream, side);
        TT_CHECK_VALUES(host(tt_mul_scalar(g, 1)), 10, 20);
        tt_hook_remove(w.hook);
        tt_stream_free(side);
    }
}

/* Backward may be called with another stream current than the one of forward. */
TT_TEST(streams_backward, caller_may_be_on_another_stream)
{
    need_devices(1);
    TT_SCOPE {
        tt_stream *side = tt_stream_new(tt_cl(0), NULL), *usual = tt_stream_current(tt_cl(0));
        tt_tensor *x = tt_require_grad(on(TT_FLOATS(1, 2), 0));
        tt_tensor *s = tt_sum(tt_mul(x, x));

        TT_REQUIRE_OK(tt_stream_wait_stream(side, usual));
        TT_STREAM_SCOPE(side)
        {
            TT_REQUIRE_OK(tt_stream_sleep(side, pause)); /* the root's gradient is late */
            TT_REQUIRE_OK(tt_backward(s));
            TT_CHECK_VALUES(host(tt_grad_of(x)), 2, 4);
        }
        tt_stream_free(side);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of data parallel training: gradients that are views of buckets are nowhere else, and a thousand
 * steps need no more than ten. */
#include <malloc.h>

#include "tutti/ddp.h"
#include "tutti/layers.h"
#include "tutti/models.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/testing_tools.h"

enum { WIDTH = 256, LAYERS = 4 };

static tt_module *wide_new(void)
{
    static const tt_linear_options no_bias = { .no_bias = true };
    tt_module *m = tt_sequential_new();
    char name[2] = "0";

    for (int i = 0; i < LAYERS; i++, name[0]++)
        TT_REQUIRE_OK(tt_module_give_child(m, name, tt_linear_new(WIDTH, WIDTH, &no_bias)));
    return m;
}

static int64_t in_use(void)
{
    return (int64_t)tt_memory_stats_get(TT_CPU).current;
}

static void step(tt_module *m, tt_ddp *d)
{
    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(2, WIDTH), TT_F32, TT_CPU);
        tt_tensor *y = d != NULL ? tt_ddp_forward(d, x) : tt_module_forward(m, x);

        TT_REQUIRE_NOT_NULL(y);
        TT_REQUIRE_OK(tt_backward(tt_sum(y)));
    }
}

/* Bytes outside of the group's memory that gradients take after training; *peak_p: the most of a step in
 * the end, gradients being kept and cleared in place. */
static int64_t bytes_of_gradients(bool ddp, bool copies, int64_t *peak_p)
{
    tt_module *m = wide_new();
    int64_t before = in_use(), after;
    tt_ddp *d = NULL;

    if (ddp)
        d = tt_ddp_new(m, tt_test_pg(), &(tt_ddp_options){ .copy_gradients = copies });
    for (int i = 0; i < 5; i++) {
        TT_REQUIRE_OK(tt_module_zero_grad_keep(m));
        tt_memory_reset_peak(TT_CPU);
        step(m, d);
    }
    *peak_p = (int64_t)tt_memory_stats_get(TT_CPU).peak - before;
    after = in_use();
    tt_ddp_free(d);
    tt_module_free(m);
    return after - before;
}

TT_TEST_RANKS(2, ddp_memory, views_are_no_second_copy)
{
    const int64_t params = (int64_t)LAYERS * WIDTH * WIDTH * 4, small = WIDTH * 64;
    int64_t alone_peak, views_peak, copies_peak;
    int64_t alone = bytes_of_gradients(false, false, &alone_peak);
    int64_t views = bytes_of_gradients(true, false, &views_peak);
    int64_t copies = bytes_of_gradients(true, true, &copies_peak);

    TT_NOTE("gradients outside of buckets: alone %lld, views %lld, copies %lld; peaks %lld, %lld, "
            "%lld",
            (long long)alone, (long long)views, (long long)copies, (long long)alone_peak,
            (long long)views_peak, (long long)copies_peak);
    TT_CHECK_GE(alone, params);
    TT_CHECK_LE(alone, params + small);
    TT_CHECK_LE(views, small);
    TT_CHECK_GE(copies, params);
    TT_CHECK_LE(copies, params + small);
    /* What lies in the buckets is missing here, and nothing is added while backward runs. */
    TT_CHECK_LE(views_peak, alone_peak - params + small);
    TT_CHECK_LE(copies_peak, alone_peak + small);
}

/* ---- no growth ------------------------------------------------------------------------------------------- */

typedef struct snapshot {
    int64_t tensors, reserved, heap;
} snapshot;

static snapshot look(void)
{
    tt_memory_stats st = tt_memory_stats_get(TT_CPU);

    return (snapshot){ .tensors = (int64_t)st.current,
                       .reserved = (int64_t)st.reserved,
                       .heap = (int64_t)mallinfo2().uordblks }; /* 0 under sanitizers */
}

/* What one thread allocates and another frees fills the cache of the other one, some 256 blocks, which may take thousands of
 * steps. Sanitizers have no such caches, and their heap is not counted. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { GROWTH_STEPS = 1000 };
#else
enum { GROWTH_STEPS = 6000 };
#endif

static void no_growth(const tt_ddp_options *opt)
{
    tt_module *m = TT_SEQUENTIAL(tt_linear_new(8, 16, NULL), tt_batch_norm1d_new(16, NULL),
                                 tt_relu_new(), tt_linear_new(16, 4, NULL));
    tt_ddp *d = tt_ddp_new(m, tt_test_pg(), opt);
    tt_optim *o = tt_sgd_for(m, &(tt_sgd_options){ .lr = 1e-4, .momentum = 0.9 });
    snapshot first = { 0 }, last = { 0 };
    int flat = 0;

    TT_REQUIRE_NOT_NULL(d);
    for (int i = 0; i < GROWTH_STEPS; i++) {
        TT_SCOPE {
            tt_tensor *x = tt_full(TT_SHAPE(4, 8), tt_test_rank(), TT_F32, TT_CPU);

            TT_REQUIRE_OK(tt_optim_zero_grad(o, i % 2 == 0));
            TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
            TT_REQUIRE_OK(tt_optim_step(o));
        }
        if (i == 99)
            first = last = look();
        if (i > 99 && i % 100 == 99) {
            snapshot now = look();

            flat += now.heap - last.heap < 16 * 100 && now.reserved <= last.reserved;
            last = now;
        }
    }
    TT_CHECK_EQ(last.tensors, first.tensors);
    TT_CHECK_GT(flat, 0); /* caches fill now and then; what leaks, leaks in every stretch */
    tt_optim_free(o);
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST_RANKS(2, ddp_memory, no_growth_over_1000_steps)
{
    no_growth(NULL);
}

TT_TEST_RANKS(2, ddp_memory, no_growth_with_a_search)
{
    no_growth(&(tt_ddp_options){ .find_unused = true, .skip_unused_buckets = true });
}

TT_TEST_RANKS(2, ddp_memory, no_growth_with_copies_in_small_buckets)
{
    no_growth(&(tt_ddp_options){ .copy_gradients = true, .bucket_cap_mb = 1e-5 });
}

TT_TEST_RANKS(2, ddp_memory, no_growth_in_other_types)
{
    no_growth(&(tt_ddp_options){ .static_graph = true,
                                 .precision = { .params = TT_BF16, .reduce = TT_BF16 } });
}

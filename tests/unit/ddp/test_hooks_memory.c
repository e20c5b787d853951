/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of hooks: hundreds of steps need no more than dozens, and gradients that are used inside of backward are
 * not all alive at once. */
#include <malloc.h>
#include <string.h>

#include "tutti/ddp_hooks.h"
#include "tutti/layers.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

static const tt_ddp_options small_buckets = { .bucket_cap_mb = 0.002 };

typedef struct usage {
    int64_t tensors, heap;
} usage;

static usage look(void)
{
    return (usage){ .tensors = (int64_t)tt_memory_stats_get(TT_CPU).current,
                    .heap = (int64_t)mallinfo2().uordblks }; /* 0 under sanitizers */
}

enum { STRETCH = 150, MOST = 24 };

static usage look_after(tt_ddp *d, uint64_t seed, int steps)
{
    for (int i = 0; i < steps; i++)
        hook_step(d, seed);
    TT_REQUIRE_OK(
        tt_pg_barrier(tt_test_pg(), NULL, NULL)); /* what the engine holds is given back */
    return look();
}

static void check_no_growth(const char *name)
{
    uint64_t seed = tt_test_seed();
    tt_powersgd *s = tt_powersgd_new(NULL, &(tt_powersgd_options){ .start_iter = 2 });
    tt_module *m = tool_mlp(seed);
    tt_ddp *d = tool_wrap(m, &small_buckets);
    usage first, last;
    int flat = 0;

    TT_REQUIRE_OK(tt_ddp_register_named(d, name, strstr(name, "powerSGD") != NULL ? s : NULL));
    last = look_after(d, seed, 300); /* the ring of records is full by then */
    first = last;
    /* Caches of threads fill, some of them for two thousand steps; what leaks, leaks in every stretch. All ranks take
     * as many. */
    for (int i = 0; i < MOST; i++) {
        usage now = look_after(d, seed, STRETCH);

        flat += now.heap - last.heap < 16 * STRETCH;
        last = now;
    }
    if (last.tensors != first.tensors || flat == 0)
        TT_FAIL_TEST("%s: tensors %lld to %lld bytes, heap %lld to %lld", name,
                     (long long)first.tensors, (long long)last.tensors, (long long)first.heap,
                     (long long)last.heap);
    tt_ddp_free(d);
    tt_powersgd_free(s);
    tt_module_free(m);
}

TT_TEST_RANKS(2, ddp_hooks, no_growth_over_thousands_of_steps)
{
    check_no_growth("allreduce_hook");
    check_no_growth("fp16_compress_hook");
    check_no_growth("quantization_perchannel_hook");
    check_no_growth("powerSGD_hook");
    check_no_growth("batched_powerSGD_hook");
    check_no_growth("bf16_compress_wrapper(powerSGD_hook)");
}

/* After backward, what is left of gradients outside of the buckets: nothing. */
TT_TEST_RANKS(2, ddp_hooks, updates_in_backward_leave_no_gradients)
{
    uint64_t seed = tt_test_seed();
    tt_module *m = tool_mlp(seed);
    tt_optim *o = tt_sgd_for(m, &(tt_sgd_options){ .lr = 0.01 });
    tt_ddp *d = tool_wrap(m, &(tt_ddp_options){ .bucket_cap_mb = 0.002, .copy_gradients = true });
    int64_t before = look().tensors;
    tt_in_backward *in = tt_in_backward_new(o, NULL);

    for (int i = 0; i < 5; i++)
        hook_step(d, seed);
    TT_CHECK_EQ(look().tensors, before);
    tt_in_backward_free(in);
    hook_step(d, seed);
    TT_CHECK_GT(look().tensors, before);
    tt_ddp_free(d);
    tt_optim_free(o);
    tt_module_free(m);
}

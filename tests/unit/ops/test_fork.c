/* SPDX-License-Identifier: Apache-2.0 */
/* A child process computes after its parent had started threads: they do not exist in the child, and nothing there waits
 * for them. All values are small integers, so that sums are exact in any order. */
#include <omp.h>
#include <stdlib.h>
#include <sys/single_threaded.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tutti/functional.h"
#include "tutti/ops.h"
#include "tutti/testing.h"

enum { SIDE = 320, PLENTY = 1 << 20 };

/* Every element of a product of ones is SIDE: once with oneDNN, once with OpenBLAS, once as a batch. */
static void check_product(tt_dtype dtype, int64_t batch)
{
    TT_SCOPE {
        tt_tensor *a = tt_ones(TT_SHAPE(batch, SIDE, SIDE), dtype, TT_CPU);
        tt_tensor *c = tt_matmul(batch == 1 ? tt_reshape(a, TT_SHAPE(SIDE, SIDE)) : a,
                                 tt_ones(TT_SHAPE(SIDE, SIDE), dtype, TT_CPU));

        TT_REQUIRE_NOT_NULL(c);
        TT_CHECK_NEAR(tt_item(tt_min(c)), SIDE, 0);
        TT_CHECK_NEAR(tt_item(tt_max(c)), SIDE, 0);
    }
}

/* A loop of ours, a sum, products and a convolution, each large enough for several threads. */
static void compute(void)
{
    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(PLENTY), TT_F32, TT_CPU);
        tt_tensor *y = tt_conv2d(tt_ones(TT_SHAPE(4, 8, 64, 64), TT_F32, TT_CPU),
                                 tt_ones(TT_SHAPE(8, 8, 3, 3), TT_F32, TT_CPU), NULL, NULL);

        TT_CHECK_NEAR(tt_item(tt_sum(tt_add(x, x))), 2.0 * PLENTY, 0);
        TT_CHECK_NEAR(tt_item(tt_min(y)), 72, 0);
        TT_CHECK_NEAR(tt_item(tt_max(y)), 72, 0);
    }
    check_product(TT_F32, 1);
    check_product(TT_F64, 1);
    check_product(TT_F32, 6);
}

static bool had_threads; /* the parent, when it forked */

/* In a child, which ends with 0 if it came to the end of fn. */
static void in_child(void (*fn)(void))
{
    int status = -1;
    pid_t pid;

    had_threads = !__libc_single_threaded;
    pid = fork();
    TT_REQUIRE_GE(pid, 0);
    if (pid == 0) {
        fn();
        _exit(0);
    }
    TT_REQUIRE_EQ(waitpid(pid, &status, 0), pid);
    TT_CHECK_EQ(status, 0);
}

static void compute_in_child(void)
{
    TT_CHECK_EQ(tt_get_num_threads(), had_threads ? 1 : 3);
    compute();
    if (had_threads)
        TT_CHECK_ERR_SAYS(tt_set_num_threads(2), TT_ERR_UNSUPPORTED, "expected 1, got 2");
    TT_CHECK_OK(tt_set_num_threads(1));
    compute();
}

static void compute_on_one_thread(void)
{
    TT_CHECK_EQ(tt_get_num_threads(), 1);
    compute();
}

static void fork_again(void)
{
    compute_in_child();
    in_child(compute_on_one_thread);
}

TT_TEST(fork, child_computes_after_its_parent_has)
{
    TT_REQUIRE_OK(tt_set_num_threads(3));
    compute();
    in_child(compute_in_child);
    TT_CHECK(had_threads || omp_get_thread_limit() == 1);
    in_child(fork_again);
    TT_CHECK_EQ(tt_get_num_threads(), 3); /* the parent is as it was */
    compute();
}

/* The first operator of the process is a product, which none of our loops comes before. */
TT_TEST(fork, child_computes_after_a_product_alone)
{
    float *ones = calloc(SIDE * SIDE, sizeof *ones);

    TT_REQUIRE_NOT_NULL(ones);
    for (int i = 0; i < SIDE * SIDE; i++)
        ones[i] = 1;
    TT_SCOPE {
        tt_tensor *a = tt_from_data(ones, TT_SHAPE(SIDE, SIDE), TT_F32);

        TT_REQUIRE_NOT_NULL(tt_matmul(a, a));
    }
    free(ones);
    in_child(compute);
}

TT_TEST(fork, child_of_a_process_without_threads_may_have_them)
{
    TT_REQUIRE_OK(tt_set_num_threads(3));
    in_child(compute_in_child);
#ifndef __SANITIZE_THREAD__ /* which has a thread of its own */
    TT_CHECK(!had_threads);
#endif
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Hidden tests that the files beside run again, to look at what becomes of them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/testing_tools.h>
#include <unistd.h>

static void end_with_code(void *ctx)
{
    _exit(*(const int *)ctx);
}

TT_TEST_TABLE(meta_codes)
{
    static int codes[18];
    char name[16];

    for (int i = 0; i < 18; i++) {
        tt_test *t;

        codes[i] = TT_TEST_SKIP_BACKEND + i;
        snprintf(name, sizeof name, "%d", codes[i]);
        t = tt_test_add("meta_codes", name, end_with_code, &codes[i]);
        if (t == NULL)
            return;
        t->kind = TT_TEST_KIND_RANKS;
        t->ranks = 1;
        t->hidden = true;
    }
}

TT_TEST_RANKS_HIDDEN(0, meta_world, says_its_size, 0)
{
    if (tt_test_rank() == 0)
        printf("world of %d, WORLD_SIZE %d\n", tt_test_size(), tt_test_world_size());
}

TT_TEST_RANKS_HIDDEN(2, meta_require, device_per_rank, 0)
{
    tt_test_require_device_per_rank();
}

TT_TEST_RANKS_HIDDEN(2, meta_require, eight_ranks_of_2, 0)
{
    tt_test_require_world(8);
}

TT_TEST_RANKS_HIDDEN(8, meta_require, eight_ranks_of_8, 0)
{
    tt_test_require_world(8);
}

TT_TEST_RANKS_HIDDEN(3, meta_require, even_world_of_3, 0)
{
    tt_test_require_even_world();
}

TT_TEST_RANKS_HIDDEN(2, meta_require, even_world_of_2, 0)
{
    tt_test_require_even_world();
}

TT_TEST_RANKS_HIDDEN(2, meta_require, five_devices, 0)
{
    tt_test_require_devices(5, false);
}

TT_TEST_RANKS_HIDDEN(2, meta_require, five_devices_or_none, 0)
{
    tt_test_require_devices(5, true);
}

TT_TEST_RANKS_HIDDEN(3, meta_require, three_ranks_and_devices, 0)
{
    tt_test_require_devices(3, false);
    if (tt_test_rank() == 0)
        printf("runs with %d ranks\n", tt_test_size());
}

TT_TEST_RANKS_HIDDEN(1, meta_require, backend_shm, 0)
{
    tt_test_require_backend("shm");
}

TT_TEST_RANKS_HIDDEN(1, meta_require, backend_mpi, 0)
{
    tt_test_require_backend("mpi");
}

TT_TEST_RANKS_HIDDEN(1, meta_require, accelerator_backend, 0)
{
    tt_test_require_accelerator_backend(NULL);
}

TT_TEST_RANKS_HIDDEN(1, meta_require, accelerator_backend_nccl_or_xccl, 0)
{
    tt_test_require_accelerator_backend((const char *const[]){ "nccl", "xccl", NULL });
}

TT_TEST_RANKS_HIDDEN(1, meta_require, accelerator_backend_xccl_or_shm, 0)
{
    tt_test_require_accelerator_backend((const char *const[]){ "xccl", "shm", NULL });
}

TT_TEST_RANKS_HIDDEN(1, meta_require, not_on_win32, 0)
{
    tt_test_require_other_platform("win32", TT_TEST_SKIP_GENERIC);
}

TT_TEST_RANKS_HIDDEN(1, meta_require, not_on_linux, 0)
{
    tt_test_require_other_platform("linux", TT_TEST_SKIP_GENERIC);
}

static void fail_for_two(void *ctx, const char *const *chosen)
{
    (void)ctx;
    TT_CHECK_NE(atoi(chosen[0]), 2);
}

TT_TEST_RANKS_HIDDEN(2, meta_subtests, one_fails, 0)
{
    static const char *const numbers[] = { "1", "2" };
    static const char *const words[] = { "x" };
    const tt_test_param params[] = { { "n", numbers, 2 }, { "word", words, 1 } };

    tt_test_subtests(params, 2, fail_for_two, NULL);
}

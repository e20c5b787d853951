/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator keeps what is freed; the table of environment variables. */
#include <stdlib.h>
#include <string.h>

#include "tutti/device.h"
#include "tutti/tensor.h"
#include "tutti/testing.h"

#if defined(__SANITIZE_ADDRESS__)
#define CACHES false /* the address sanitizer sees every free */
#else
#define CACHES true
#endif

#define EIGHT_MB TT_SHAPE(2 << 20)

static uint64_t reserved_after_one_tensor(void)
{
    TT_SCOPE {
        TT_REQUIRE_NOT_NULL(tt_zeros(EIGHT_MB, TT_F32, TT_CPU));
        TT_CHECK_GE(tt_memory_stats_get(TT_CPU).reserved, 8u << 20);
    }
    return tt_memory_stats_get(TT_CPU).reserved;
}

TT_TEST(host_cache, keeps_freed_blocks_for_the_next_tensor)
{
    uint64_t asked;

    if (!CACHES)
        TT_SKIP("no cache under the address sanitizer");
    setenv("TUTTI_DEBUG_TENSORS", "0", 1); /* which keeps freed memory away from the cache */
    TT_CHECK_GE(reserved_after_one_tensor(), 8u << 20);
    asked = tt_memory_stats_get(TT_CPU).n_system;
    TT_CHECK_GE(reserved_after_one_tensor(), 8u << 20);
    TT_CHECK_EQ(tt_memory_stats_get(TT_CPU).n_system, asked);
    tt_memory_empty_cache(TT_CPU);
    TT_CHECK_LT(tt_memory_stats_get(TT_CPU).reserved, 8u << 20);
}

TT_TEST(environment, rows_name_help_default_and_value)
{
    const char *name = NULL, *help = NULL, *value = NULL;
    int n = 0;

    TT_REQUIRE_EQ(setenv("TUTTI_SEED", "77", 1), 0);
    while (tt_env_row(n, &name, &help, &value)) {
        TT_CHECK_CONTAINS(name, "TUTTI_");
        TT_CHECK_CONTAINS(help, " (default: ");
        if (strcmp(name, "TUTTI_SEED") == 0)
            TT_CHECK_STR(value, "77");
        n++;
    }
    TT_CHECK_GE(n, 5);
    TT_CHECK(!tt_env_row(-1, NULL, NULL, NULL));
}

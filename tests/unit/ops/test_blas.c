/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS is opened at the first product that needs it, and not where it would not come back. */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "testing/testing.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

static bool openblas_is_loaded(void)
{
    void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);

    if (lib != NULL)
        dlclose(lib);
    return lib != NULL;
}

static tt_tensor *product_of_ones(tt_dtype dtype)
{
    tt_tensor *a = tt_ones(TT_SHAPE(3, 40), dtype, TT_CPU);

    return tt_matmul(a, tt_transpose(a, 0, 1));
}

TT_TEST(blas, opened_at_the_first_product_that_needs_it)
{
    TT_SCOPE {
        TT_CHECK(!openblas_is_loaded());
        tt_tensor *single = product_of_ones(TT_F32);
        TT_CHECK_NEAR(tt_item(tt_select(tt_select(single, 0, 2), 0, 1)), 40.0, 0.0);
        TT_CHECK(!openblas_is_loaded());
        tt_tensor *twice = product_of_ones(TT_F64);
        TT_CHECK_NEAR(tt_item(tt_select(tt_select(twice, 0, 2), 0, 1)), 40.0, 0.0);
        TT_CHECK(openblas_is_loaded());
    }
}

/* The soft limit of the address space: what is used now, and some more. */
static void limit_address_space(rlim_t more)
{
    struct rlimit limit;
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    TT_REQUIRE(f != NULL && fscanf(f, "%ld", &pages) == 1);
    fclose(f);
    TT_REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = more == RLIM_INFINITY ? limit.rlim_max
                                           : (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    TT_REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
}

TT_TEST(blas, little_address_space_is_an_error)
{
    if (tti_test_sanitized())
        TT_SKIP("sanitizers need the address space themselves");
    TT_SCOPE {
        limit_address_space((rlim_t)100 << 20);
        TT_CHECK(product_of_ones(TT_F64) == NULL);
        TT_CHECK_EQ((int)tt_last_status(), (int)TT_ERR_NOMEM);
        TT_CHECK_CONTAINS(tt_last_error(), "OpenBLAS needs");
        TT_CHECK_CONTAINS(tt_last_error(), "of address space");

        limit_address_space(RLIM_INFINITY);
        tt_tensor *product = product_of_ones(TT_F64);
        TT_CHECK_NEAR(tt_item(tt_select(tt_select(product, 0, 0), 0, 0)), 40.0, 0.0);
    }
}

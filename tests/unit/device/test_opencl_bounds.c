/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels with mistakes, hidden: scripts/oclgrind looks whether its checker finds them. */
#include "cl_fixture.h"

enum { N = 64 };

TT_TEST_HIDDEN(cl_mistakes, one_element_too_many, 60)
{
    int32_t *x;

    need_devices(1);
    x = fixture_alloc(tt_cl(0), N);
    TT_CHECK_OK(
        fixture_fill(tt_cl(0), x, 1, 512 + 1)); /* memory comes in pieces of 512 bytes at least */
    TT_CHECK_OK(tt_device_sync(tt_cl(0)));
    fixture_free(tt_cl(0), x, N);
}

static const tti_program racing = {
    "racing", { "KERNEL void race(MEM(i32, y))\n{\n    OPEN(i32, y);\n    y[0] = (i32)GID;\n}\n" }
};

TT_TEST_HIDDEN(cl_mistakes, all_items_write_one_place, 60)
{
    tti_kernel *k;
    int32_t *x;

    need_devices(1);
    x = fixture_alloc(tt_cl(0), N);
    k = tti_kernel_build(tt_cl(0), &racing, "", "race");
    TT_REQUIRE_NOT_NULL(k);
    TT_CHECK_OK(tti_launch(tt_cl(0), k, (tti_grid){ 2 }, (tti_arg[]){ TTI_MEM(x) }, 1));
    TT_CHECK_OK(tt_device_sync(tt_cl(0)));
    fixture_free(tt_cl(0), x, N);
}

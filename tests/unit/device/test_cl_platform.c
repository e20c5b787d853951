/* SPDX-License-Identifier: Apache-2.0 */
/* What depends on the OpenCL platform: PoCL's needs before it starts, and while it compiles. */
#include "cl_fixture.h"

/* PoCL would end the process. */
TT_TEST(cl_platform, without_sysfs_pocl_has_no_devices_and_says_why)
{
    tti_cl_debug_sys(tt_test_tmpdir()); /* an empty directory */
    if (tt_device_count(TT_DEVICE_CL) > 0)
        TT_SKIP("another platform than PoCL has devices");
    if (strstr(tt_device_missing(TT_DEVICE_CL), "libOpenCL") != NULL ||
        strstr(tt_device_missing(TT_DEVICE_CL), "finds no driver") != NULL)
        TT_SKIP("%s", tt_device_missing(TT_DEVICE_CL));
    TT_CHECK_CONTAINS(tt_device_missing(TT_DEVICE_CL), "mount sysfs on /sys");
    TT_CHECK_NULL(tt_zeros(TT_SHAPE(1), TT_F32, tt_cl(0)));
    TT_CHECK_CONTAINS(tt_last_error(), "mount sysfs on /sys");
}

/* Only PoCL compiles behind our back: other drivers are not waited for. */
TT_TEST_LIMIT(cl_platform, only_pocl_is_built_for_while_devices_rest, 300)
{
    static const tti_program again = { "fixture", { fixture_more, fixture_text } };
    bool pocl;

    setenv("TUTTI_CL_CACHE", "off", 1);
    need_devices(1);
    pocl = tti_cl_all.is_pocl;
    TT_CHECK(fixture_runs(tt_cl(0), &fixture_program, 3));
    TT_CHECK_EQ(tti_cl_build_counts.after_rest, pocl ? 1 : 0);
    tti_cl_all.is_pocl = false;
    TT_CHECK(fixture_runs(tt_cl(0), &again, 3));
    TT_CHECK_EQ(tti_cl_build_counts.from_source, 2);
    TT_CHECK_EQ(tti_cl_build_counts.after_rest, pocl ? 1 : 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of several ranks that may take longer than others, by name. */
#include <tutti/testing.h>

__attribute__((constructor)) static void set_limits(void)
{
    tt_test_set_limit("test_ddp_uneven_inputs", 400);
    tt_test_set_limit("test_DistributedDataParallel", 500);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the log of a file store: an error or records, never a crash. */
#include "store/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tti_table t = { 0 };
    size_t used = 0, need = 0;

    if (tti_log_apply(data, size, &t, &used, &need) == TT_OK && used > size)
        __builtin_trap();
    tti_table_fini(&t);
    return 0;
}

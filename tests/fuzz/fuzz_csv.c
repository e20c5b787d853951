/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as numbers separated by commas: an error or a tensor that can be read, never a crash. */
#include <tutti/data.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned sum = 0;

    TT_SCOPE {
        tt_tensor *t = tt_csv_parse((const char *)data, size, NULL);

        for (size_t b = 0; t != NULL && b < tt_tensor_bytes(t); b++)
            sum += ((const uint8_t *)tt_tensor_data(t))[b];
    }
    return (int)(sum & 0);
}

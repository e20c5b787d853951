/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a safetensors file: an error or tensors that can be read, never a crash. */
#include <string.h>
#include <tutti/io.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_safetensors *st = tt_safetensors_parse(data, size);
    unsigned sum = 0;

    for (int i = 0; i < tt_safetensors_count(st); i++) {
        tt_safetensors_info info;

        TT_SCOPE {
            tt_tensor *t;

            if (tt_safetensors_at(st, i, &info) != TT_OK)
                __builtin_trap();
            t = tt_safetensors_get(st, info.name);
            if ((t != NULL) != info.loadable && tt_last_status() != TT_ERR_INVALID)
                __builtin_trap();
            for (size_t b = 0; t != NULL && b < tt_tensor_bytes(t); b++)
                sum += ((const uint8_t *)tt_tensor_data(t))[b];
        }
    }
    tt_safetensors_free(st);
    return (int)(sum & 0);
}

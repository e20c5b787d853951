/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a value: an error or a value that, encoded and decoded again, gives the same bytes. */
#include <stdlib.h>
#include <string.h>

#include <tutti/value.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All devices are the host here, whatever the bytes name. */
static bool to_host(void *ctx, tt_device from, tt_device *to_p)
{
    (void)ctx;
    (void)from;
    *to_p = TT_CPU;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_device_map map = { .fn = to_host };
    tt_value *v = tt_value_decode(data, size), *again;
    void *first = NULL, *second = NULL;
    size_t n_first = 0, n_second = 0;

    if (v == NULL && tt_last_status() != TT_ERR_FORMAT && tt_last_status() != TT_ERR_NOMEM)
        abort();
    if (v == NULL)
        return 0;
    tt_value_free(tt_value_decode_to(data, size, &map));
    if (tt_value_encode(v, &first, &n_first) != TT_OK)
        abort();
    again = tt_value_decode(first, n_first);
    if (again == NULL || tt_value_encode(again, &second, &n_second) != TT_OK ||
        n_first != n_second || memcmp(first, second, n_first) != 0)
        abort();
    tt_bytes_free(first);
    tt_bytes_free(second);
    tt_value_free(v);
    tt_value_free(again);
    return 0;
}

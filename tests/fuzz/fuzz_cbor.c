/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a value: an error or a value that, encoded and decoded again, gives the same bytes. */
#include <stdlib.h>
#include <string.h>

#include <tutti/value.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_value *v = tt_value_decode(data, size), *again;
    void *first = NULL, *second = NULL;
    size_t n_first = 0, n_second = 0;

    if (v == NULL && tt_last_status() != TT_ERR_FORMAT && tt_last_status() != TT_ERR_NOMEM)
        abort();
    if (v == NULL)
        return 0;
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

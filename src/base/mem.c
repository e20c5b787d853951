/* SPDX-License-Identifier: Apache-2.0 */
/* malloc with a cause when it fails, and a countdown that makes the n-th call of a thread fail. */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc_fault.h"

TTI_HOT_TLS uint64_t tti_alloc_countdown;
TTI_HOT_TLS uint64_t tti_alloc_counted;

uint64_t tt_debug_fail_alloc(uint64_t n)
{
    uint64_t was = tti_alloc_counted;

    tti_alloc_countdown = n;
    tti_alloc_counted = 0;
    return was;
}

bool tti_alloc_should_fail(void)
{
    return tti_alloc_fault();
}

static void *no_memory(size_t bytes)
{
    return TT_FAIL_NULL(TT_ERR_NOMEM, "out of memory: %zu bytes wanted", bytes);
}

void *tti_malloc(size_t bytes)
{
    void *p = tti_alloc_should_fail() ? NULL : malloc(bytes != 0 ? bytes : 1);

    return tt_likely(p != NULL) ? p : no_memory(bytes);
}

void *tti_calloc(size_t n, size_t size)
{
    size_t bytes;
    void *p;

    if (__builtin_mul_overflow(n, size, &bytes))
        return no_memory(SIZE_MAX);
    p = tti_alloc_should_fail() ? NULL : calloc(1, bytes != 0 ? bytes : 1);
    return tt_likely(p != NULL) ? p : no_memory(bytes);
}

void *tti_realloc(void *old, size_t bytes)
{
    void *p = tti_alloc_should_fail() ? NULL : realloc(old, bytes != 0 ? bytes : 1);

    return tt_likely(p != NULL) ? p : no_memory(bytes);
}

char *tti_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = tti_malloc(n);

    return p != NULL ? memcpy(p, s, n) : NULL;
}

void tti_mfree(void *p)
{
    free(p);
}

tt_status tti_vec_reserve(void **items_p, size_t *cap, size_t n, size_t size)
{
    size_t wanted = *cap != 0 ? *cap : 8;
    size_t bytes;
    void *items;

    if (n <= *cap)
        return TT_OK;
    while (wanted < n && wanted <= SIZE_MAX / 2)
        wanted *= 2;
    if (wanted < n || __builtin_mul_overflow(wanted, size, &bytes))
        return TT_FAIL(TT_ERR_NOMEM, "out of memory: %zu items of %zu bytes wanted", n, size);
    items = tti_realloc(*items_p, bytes);
    if (items == NULL)
        return TT_ERR_NOMEM;
    *items_p = items;
    *cap = wanted;
    return TT_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How much the caching allocator may hold, and what it says when that is not enough. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "base/text.h"
#include "device/cache_parts.h"

/* ---- limits ---------------------------------------------------------------------------------------- */

/* "500M", "2G", "1073741824", "50%". */
static bool parse_limit(const char *text, uint64_t total, uint64_t *bytes_p)
{
    static const char units[] = "KMGT";
    char *end;
    double n = strtod(text, &end), most = 18446744073709549568.0;
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;

    if (end == text || !(n >= 0))
        return false;
    if (unit != NULL) {
        n *= (double)((uint64_t)1 << 10 * (unit - units + 1));
        end++;
    } else if (*end == '%' && n <= 100) {
        n *= (double)total / 100;
        end++;
    }
    *bytes_p = n < most ? (uint64_t)n : UINT64_MAX;
    return *end == '\0';
}

uint64_t tti_cache_default_limit(tt_device d, const tti_accel *accel)
{
    const char *text = tti_env_get(TTI_ENV_CL_MEMORY_LIMIT);
    uint64_t free_bytes, total = 0, limit;

    if (accel->memory_info(d.index, &free_bytes, &total) != TT_OK || total == 0)
        total = UINT64_MAX;
    if (text == NULL)
        return total;
    if (parse_limit(text, total, &limit))
        return limit;
    tti_log(TT_LOG_WARN,
            "device: TUTTI_CL_MEMORY_LIMIT: expected bytes such as 500M or 50%%, got \"%s\"", text);
    return total;
}

tt_status tti_cache_limit(tt_device d, const tti_accel *accel, uint64_t bytes)
{
    tti_cache *c = tti_cache_get(d, accel);
    bool biased;

    if (c == NULL)
        return tt_last_status();
    pthread_mutex_lock(&c->grow); /* who grows the cache reads it without the lock */
    biased = tti_cache_enter(c);
    c->limit = bytes;
    tti_cache_leave(c, biased);
    pthread_mutex_unlock(&c->grow);
    return TT_OK;
}

/* ---- out of memory -------------------------------------------------------------------------------- */

#define N_LARGEST 4

/* With lock held: sizes of the largest used blocks, and how much lies free in the cache. */
static void largest_blocks(const tti_cache *c, size_t *sizes, size_t *hole_p)
{
    memset(sizes, 0, N_LARGEST * sizeof *sizes);
    *hole_p = 0;
    for (const tti_segment *g = c->segments; g != NULL; g = g->next)
        for (const tti_block *b = g->first; b != NULL; b = b->after) {
            size_t size = b->size;

            if (b->state != TTI_BLOCK_USED) {
                if (b->state != TTI_BLOCK_PENDING && size > *hole_p)
                    *hole_p = size;
                continue;
            }
            for (int i = 0; i < N_LARGEST; i++)
                if (sizes[i] < size) {
                    size_t smaller = sizes[i];

                    sizes[i] = size;
                    size = smaller;
                }
        }
}

static const char *in_units(uint64_t bytes, char text[32])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double n = (double)bytes;
    int i = 0;

    for (; n >= 1024 && i < 4; i++)
        n /= 1024;
    snprintf(text, 32, i == 0 ? "%.0f %s" : "%.2f %s", n, units[i]);
    return text;
}

static void line(tti_text *t, const char *what, uint64_t bytes)
{
    char text[32];

    tti_text_addf(t, "\n  %-28s %12s  (%llu bytes)", what, in_units(bytes, text),
                  (unsigned long long)bytes);
}

static void describe(tti_text *t, const tt_memory_report *r, size_t hole, const size_t *largest)
{
    char text[32];

    line(t, "limit of the cache", r->limit);
    line(t, "held from the device", (uint64_t)r->reserved_bytes.all.current);
    line(t, "  in tensors", (uint64_t)r->allocated_bytes.all.current);
    line(t, "  pending on streams",
         (uint64_t)(r->active_bytes.all.current - r->allocated_bytes.all.current));
    line(t, "  free between tensors", (uint64_t)r->inactive_split_bytes.all.current);
    line(t, "  largest free piece", hole);
    tti_text_addf(t, "\n  largest of %lld tensors' blocks:", (long long)r->allocations.all.current);
    for (int i = 0; i < N_LARGEST && largest[i] != 0; i++)
        tti_text_addf(t, "%s %s", i > 0 ? "," : "", in_units(largest[i], text));
}

void tti_cache_oom(tti_cache *c, size_t bytes)
{
    tti_text t = { 0 };
    tt_memory_report r;
    uint64_t free_bytes = 0, total = 0;
    size_t largest[N_LARGEST], hole;
    char name[32], asked[32];
    bool biased = tti_cache_enter(c);

    tti_cache_report_locked(c, &r);
    largest_blocks(c, largest, &hole);
    tti_cache_leave(c, biased);
    if (c->accel->memory_info(c->device.index, &free_bytes, &total) == TT_OK) {
        line(&t, "memory of the device", total);
        line(&t, "free on the device", free_bytes);
    }
    describe(&t, &r, hole, largest);
    (void)TT_FAIL(
        TT_ERR_NOMEM,
        "%s: out of memory: %s (%zu bytes) wanted%s\n  to do: free tensors, use smaller batches, "
        "close scopes earlier, or raise the limit (tt_memory_limit_bytes, "
        "TUTTI_CL_MEMORY_LIMIT); tt_memory_snapshot_save shows who holds what",
        tt_device_name(c->device, name, sizeof name), in_units(bytes, asked), bytes,
        tti_text_str(&t));
    tti_text_fini(&t);
}

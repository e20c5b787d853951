/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator for host memory, and the CPU's driver around it.
 *
 * Sizes are rounded up to classes (four per doubling). A freed block goes onto the list of its
 * class: small classes have a list per thread, which needs no lock; what overflows there, and all
 * large blocks, go onto shared lists. Blocks of a training step are thus found again by the next
 * one, without page faults. Any thread may free any block. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/debug.h"
#include "base/mem.h"
#include "base/tls.h"
#include "device/cpu/quarantine.h"
#include "device/driver.h"

#if defined(__SANITIZE_ADDRESS__)
#define BYPASS true /* let the sanitizer see every free */
#else
#define BYPASS false
#endif

#define ALIGN 64u
#define MIN_SHIFT 6 /* the smallest class is 64 bytes */
#define N_CLASSES (4 * 42)
#define N_SMALL (4 * 11) /* classes up to 128 KiB are kept per thread */
#define SMALL_KEEP_BYTES ((size_t)256 << 10)
#define HUGE_FROM ((size_t)4 << 20)

typedef struct block {
    struct block *next;
} block;

typedef struct thread_cache {
    block *lists[N_SMALL];
    uint32_t counts[N_SMALL];
    /* Written by the owner only, read by whoever asks for statistics. */
    atomic_uint_fast64_t n_allocs, n_frees;
    struct thread_cache *next; /* mu_lists */
} thread_cache;

static TTI_HOT_TLS thread_cache *mine;

static pthread_mutex_t mu_lists = PTHREAD_MUTEX_INITIALIZER;
static block *lists[N_CLASSES]; /* mu_lists */

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static thread_cache *caches;             /* mu_lists: of all threads */
static uint64_t dead_allocs, dead_frees; /* mu_lists: counts of threads that ended */
static atomic_uint_fast64_t current, peak, reserved, n_system;

/* The class of a size, and the bytes of a class: 64, 80, 96, 112, 128, 160, ... */
static int class_of(size_t bytes)
{
    size_t n = (bytes + 15) / 16;
    int shift;
    int quarter;

    if (n <= 4)
        return 0;
    shift = 63 - __builtin_clzll((unsigned long long)(n - 1));
    quarter = (int)((n - 1) >> (shift - 2)) & 3;
    return (shift - 2) * 4 + quarter + 1;
}

static size_t class_bytes(int c)
{
    size_t base = (size_t)1 << (c / 4 + MIN_SHIFT);

    return base + (base >> 2) * (size_t)(c % 4);
}

static void to_shared(int c, block *b)
{
    pthread_mutex_lock(&mu_lists);
    b->next = lists[c];
    lists[c] = b;
    pthread_mutex_unlock(&mu_lists);
}

static block *from_shared(int c)
{
    block *b;

    pthread_mutex_lock(&mu_lists);
    b = lists[c];
    if (b != NULL) {
        lists[c] = b->next;
    }
    pthread_mutex_unlock(&mu_lists);
    return b;
}

static void flush(thread_cache *t)
{
    for (int c = 0; c < N_SMALL; c++) {
        while (t->lists[c] != NULL) {
            block *b = t->lists[c];

            t->lists[c] = b->next;
            to_shared(c, b);
        }
        t->counts[c] = 0;
    }
}

static void thread_exit(void *ctx)
{
    thread_cache *t = ctx;

    mine = NULL;
    flush(t);
    pthread_mutex_lock(&mu_lists);
    for (thread_cache **at = &caches; *at != NULL; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    dead_allocs += atomic_load(&t->n_allocs);
    dead_frees += atomic_load(&t->n_frees);
    pthread_mutex_unlock(&mu_lists);
    free(t);
}

static void make_exit_key(void)
{
    pthread_key_create(&exit_key, thread_exit);
}

/* The cache of this thread, made on first use; handed over when the thread ends. NULL: no memory for
 * one, so blocks go to and come from the shared lists. */
static thread_cache *my_cache(void)
{
    if (tt_likely(mine != NULL))
        return mine;
    pthread_once(&exit_once, make_exit_key);
    mine = calloc(1, sizeof *mine);
    if (mine == NULL)
        return NULL;
    pthread_setspecific(exit_key, mine);
    pthread_mutex_lock(&mu_lists);
    mine->next = caches;
    caches = mine;
    pthread_mutex_unlock(&mu_lists);
    return mine;
}

static void count_one(atomic_uint_fast64_t *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static void system_free(block *b, int c)
{
    atomic_fetch_sub_explicit(&reserved, class_bytes(c), memory_order_relaxed);
    free(b);
}

static void *system_alloc(int c)
{
    size_t bytes = class_bytes(c);
    size_t align = bytes >= HUGE_FROM ? (size_t)2 << 20 : ALIGN;
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);

    if (p == NULL)
        return NULL;
    if (bytes >= HUGE_FROM)
        madvise(p, bytes, MADV_HUGEPAGE); /* a hint; failing it costs only speed */
    atomic_fetch_add_explicit(&reserved, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&n_system, 1, memory_order_relaxed);
    return p;
}

static void unkeep(void *p, size_t bytes)
{
    to_shared(class_of(bytes), p);
}

static void cpu_empty_cache(int index)
{
    (void)index;
    tti_quarantine_empty(unkeep);
    if (mine != NULL)
        flush(mine);
    for (int c = 0; c < N_CLASSES; c++)
        for (block *b; (b = from_shared(c)) != NULL;)
            system_free(b, c);
}

static void count_alloc(size_t bytes)
{
    uint64_t now = atomic_fetch_add_explicit(&current, bytes, memory_order_relaxed) + bytes;
    uint64_t top = atomic_load_explicit(&peak, memory_order_relaxed);

    while (now > top && !atomic_compare_exchange_weak_explicit(
                            &peak, &top, now, memory_order_relaxed, memory_order_relaxed)) {}
}

static void *no_memory(size_t bytes)
{
    return TT_FAIL_NULL(TT_ERR_NOMEM,
                        "out of memory: %zu bytes for a tensor on cpu, %zu already in use", bytes,
                        (size_t)atomic_load(&current));
}

/* From the shared list, from the system, or from the system after giving it back what is cached. */
static block *alloc_slow(int c)
{
    block *b = from_shared(c);

    if (b == NULL)
        b = system_alloc(c);
    if (b == NULL) {
        cpu_empty_cache(0);
        b = system_alloc(c);
    }
    return b;
}

static void *cpu_alloc(int index, size_t bytes)
{
    int c = class_of(bytes);
    thread_cache *t = my_cache();
    block *b;

    (void)index;
    if (tti_alloc_should_fail() || c >= N_CLASSES)
        return no_memory(bytes);
    if (c < N_SMALL && t != NULL && t->lists[c] != NULL) {
        b = t->lists[c];
        t->lists[c] = b->next;
        t->counts[c]--;
    } else {
        b = alloc_slow(c);
    }
    if (b == NULL)
        return no_memory(bytes);
    count_alloc(bytes);
    if (t != NULL)
        count_one(&t->n_allocs);
    return b;
}

static void cpu_free(int index, void *p, size_t bytes)
{
    int c = class_of(bytes);
    thread_cache *t = my_cache();
    block *b = p;

    (void)index;
    atomic_fetch_sub_explicit(&current, bytes, memory_order_relaxed);
    if (t != NULL)
        count_one(&t->n_frees);
    if (BYPASS) {
        system_free(b, c);
        return;
    }
    if (tt_unlikely(tti_debug_tensors())) {
        tti_quarantine_keep(p, bytes, unkeep);
        return;
    }
    if (c < N_SMALL && t != NULL &&
        ((size_t)t->counts[c] + 1) * class_bytes(c) <= SMALL_KEEP_BYTES) {
        b->next = t->lists[c];
        t->lists[c] = b;
        t->counts[c]++;
        return;
    }
    to_shared(c, b);
}

static int cpu_count(void)
{
    return 1;
}

static tt_status cpu_copy(int index, void *dst, const void *src, size_t bytes)
{
    (void)index;
    memcpy(dst, src, bytes);
    return TT_OK;
}

static tt_status cpu_sync(int index)
{
    (void)index;
    return TT_OK;
}

static tt_memory_stats cpu_stats(int index)
{
    tt_memory_stats st = { .current = atomic_load(&current),
                           .peak = atomic_load(&peak),
                           .reserved = atomic_load(&reserved),
                           .n_system = atomic_load(&n_system) };

    (void)index;
    pthread_mutex_lock(&mu_lists);
    st.n_allocations = dead_allocs;
    st.n_frees = dead_frees;
    for (thread_cache *t = caches; t != NULL; t = t->next) {
        st.n_allocations += atomic_load(&t->n_allocs);
        st.n_frees += atomic_load(&t->n_frees);
    }
    pthread_mutex_unlock(&mu_lists);
    return st;
}

static void cpu_reset_peak(int index)
{
    (void)index;
    atomic_store(&peak, atomic_load(&current));
}

const tti_driver tti_driver_cpu = {
    .kind = TT_DEVICE_CPU,
    .name = "cpu",
    .count = cpu_count,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .copy = cpu_copy,
    .sync = cpu_sync,
    .stats = cpu_stats,
    .reset_peak = cpu_reset_peak,
    .empty_cache = cpu_empty_cache,
};

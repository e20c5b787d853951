/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: buffers of the driver, each with an address. Where the device computes in the host's memory the
 * buffer is a mapping of ours, backed by pages as they are touched, so that running out of memory is an error and not
 * an abort in the driver; elsewhere the address is a reserved range that nobody can touch. A table by address
 * leads from any place in a segment to its buffer. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "device/opencl/cl.h"

#define GRAIN ((size_t)2 << 20)
#define GRAINS_PER_LEAF 512 /* a leaf stands for one GiB */
#define N_LEAVES (1u << 17) /* of 47 bits of addresses */

typedef struct leaf {
    _Atomic(tti_cl_segment *) of[GRAINS_PER_LEAF];
} leaf;

/* Written under the lock, read without: a segment is entered before its address is given to anybody. */
static _Atomic(leaf *) leaves[N_LEAVES];
static pthread_mutex_t mu_leaves = PTHREAD_MUTEX_INITIALIZER;

_Atomic uint32_t tti_cl_n_closed;

tti_cl_segment *tti_cl_find(const void *address)
{
    uint64_t grain = (uintptr_t)address / GRAIN;
    leaf *l;

    if (grain / GRAINS_PER_LEAF >= N_LEAVES)
        return NULL;
    l = atomic_load_explicit(&leaves[grain / GRAINS_PER_LEAF], memory_order_acquire);
    if (l == NULL)
        return NULL;
    return atomic_load_explicit(&l->of[grain % GRAINS_PER_LEAF], memory_order_acquire);
}

tti_cl_segment *tti_cl_at(const void *address, uint64_t *offset_p)
{
    tti_cl_segment *s = tti_cl_find(address);

    if (tt_unlikely(s == NULL))
        return TT_FAIL_NULL(TT_ERR_INVALID, "cl: address %p is not memory of an OpenCL device",
                            address);
    *offset_p = (uint64_t)((const char *)address - s->base);
    return s;
}

static leaf *leaf_at(uint64_t number)
{
    leaf *l = atomic_load_explicit(&leaves[number], memory_order_relaxed);

    if (l == NULL) {
        l = tti_calloc(1, sizeof *l);
        atomic_store_explicit(&leaves[number], l, memory_order_release);
    }
    return l;
}

/* Enter s for all of its grains, or (s NULL) leave them. */
static tt_status enter(char *base, size_t bytes, tti_cl_segment *s)
{
    uint64_t first = (uintptr_t)base / GRAIN, n = (bytes + GRAIN - 1) / GRAIN;
    tt_status st = TT_OK;

    pthread_mutex_lock(&mu_leaves);
    for (uint64_t g = first; g < first + n && st == TT_OK; g++) {
        leaf *l = g / GRAINS_PER_LEAF < N_LEAVES ? leaf_at(g / GRAINS_PER_LEAF) : NULL;

        if (l == NULL)
            st = TT_ERR_NOMEM;
        else
            atomic_store_explicit(&l->of[g % GRAINS_PER_LEAF], s, memory_order_release);
    }
    pthread_mutex_unlock(&mu_leaves);
    return st;
}

/* A mapping aligned to a grain. */
static char *map_aligned(size_t bytes, int prot)
{
    size_t all = (bytes + GRAIN - 1) / GRAIN * GRAIN + GRAIN, head;
    char *p = mmap(NULL, all, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    head = (GRAIN - (uintptr_t)p % GRAIN) % GRAIN;
    if (head > 0)
        munmap(p, head);
    if (head < GRAIN)
        munmap(p + all - GRAIN + head, GRAIN - head);
    return p + head;
}

static void unmap(char *base, size_t bytes)
{
    munmap(base, (bytes + GRAIN - 1) / GRAIN * GRAIN);
}

tti_cl_segment *tti_cl_segment_open(int index, size_t bytes)
{
    bool host = tti_cl_all.is_cpu;
    tti_cl_segment *s = tti_calloc(1, sizeof *s);
    cl_int code = CL_SUCCESS;

    if (s == NULL)
        return NULL;
    *s = (tti_cl_segment){ .bytes = bytes, .index = index };
    s->base = map_aligned(bytes, host ? PROT_READ | PROT_WRITE : PROT_NONE);
    if (s->base == NULL) {
        tti_mfree(s);
        return TT_FAIL_NULL(TT_ERR_NOMEM, "cl: cannot map %zu bytes for cl:%d: %s", bytes, index,
                            strerror(errno));
    }
    s->mem = tti_cl.CreateBuffer(tti_cl_all.context,
                                 CL_MEM_READ_WRITE | (host ? CL_MEM_USE_HOST_PTR : 0), bytes,
                                 host ? s->base : NULL, &code);
    if (s->mem == NULL || enter(s->base, bytes, s) != TT_OK) {
        if (s->mem != NULL)
            tti_cl_segment_close(s);
        else {
            unmap(s->base, bytes);
            tti_mfree(s);
        }
        return TT_FAIL_NULL(TT_ERR_NOMEM, "cl: cl:%d cannot make a buffer of %zu bytes: %s", index,
                            bytes, TTI_CL_ERROR(code));
    }
    return s;
}

void tti_cl_segment_close(tti_cl_segment *s)
{
    enter(s->base, s->bytes, NULL);
    tti_cl.ReleaseMemObject(s->mem);
    atomic_fetch_add_explicit(&tti_cl_n_closed, 1, memory_order_release);
    unmap(s->base, s->bytes);
    tti_mfree(s);
}

void *tti_cl_segment_new(int index, size_t bytes)
{
    tti_cl_device *d = &tti_cl_all.devices[index];
    uint64_t held = atomic_fetch_add(&d->held, bytes) + bytes;
    tti_cl_segment *s = NULL;

    if (tti_cl_usable(index) != TT_OK)
        ;
    else if (tti_alloc_should_fail() || held > d->properties.memory ||
             bytes > d->properties.max_allocation)
        TT_FAIL(TT_ERR_NOMEM,
                "cl: cl:%d has %llu bytes, at most %llu at once; %llu are held, %zu more were "
                "asked for",
                index, (unsigned long long)d->properties.memory,
                (unsigned long long)d->properties.max_allocation,
                (unsigned long long)(held - bytes), bytes);
    else
        s = tti_cl_segment_open(index, bytes);
    if (s == NULL) {
        atomic_fetch_sub(&d->held, bytes);
        return NULL;
    }
    return s->base;
}

void tti_cl_segment_free(int index, void *address, size_t bytes)
{
    tti_cl_segment *s = tti_cl_find(address);

    if (s == NULL || tti_cl_forked())
        return;
    tti_cl_segment_close(s);
    atomic_fetch_sub(&tti_cl_all.devices[index].held, bytes);
}

tt_status tti_cl_memory_info(int index, uint64_t *free_p, uint64_t *total_p)
{
    tti_cl_device *d = &tti_cl_all.devices[index];
    uint64_t held = atomic_load(&d->held);

    *total_p = d->properties.memory;
    *free_p = held < *total_p ? *total_p - held : 0;
    return TT_OK;
}

void *tti_cl_host_new(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return TT_FAIL_NULL(TT_ERR_NOMEM, "cl: cannot map %zu bytes of host memory: %s", bytes,
                            strerror(errno));
    (void)mlock(p, bytes); /* where the limits allow it */
    return p;
}

void tti_cl_host_free(void *p, size_t bytes)
{
    munmap(p, bytes);
}

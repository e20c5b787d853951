/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: found by program, options and name; launched with arguments that are set only when they changed. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "device/opencl/cl.h"

#define MAX_VALUE 384 /* bytes of one argument that are remembered */

typedef struct built {
    struct built *next;
    const tti_program *program;
    char *options;
    cl_program native; /* NULL: being built */
} built;

struct tti_kernel {
    tti_kernel *next;
    built *of;
    char *name;
    cl_kernel native;
    pthread_mutex_t lock; /* arguments belong to the kernel until it is enqueued */
    struct {
        uint32_t bytes;
        char value[MAX_VALUE];
    } last[2 * TTI_MAX_ARGS];
    uint32_t n_closed; /* segments, when the arguments were set */
};

/* Everything built lives as long as the process. Programs are built without the lock, different ones at the
 * same time and each one once. */
static pthread_mutex_t mu_built = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER; /* a build */
static built *programs;                                 /* mu_built */
static tti_kernel *kernels;                             /* mu_built */

static built *find_program(const tti_program *p, const char *options)
{
    for (built *b = programs; b != NULL; b = b->next)
        if (b->program == p && strcmp(b->options, options) == 0)
            return b;
    return NULL;
}

/* An entry that says that a program is being built. */
static built *announce(const tti_program *p, const char *options)
{
    built *b = tti_calloc(1, sizeof *b);

    if (b == NULL)
        return NULL;
    b->program = p;
    b->options = tti_strdup(options);
    if (b->options == NULL) {
        tti_mfree(b);
        return NULL;
    }
    b->next = programs;
    programs = b;
    return b;
}

static void withdraw(built *b)
{
    built **at = &programs;

    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    tti_mfree(b->options);
    tti_mfree(b);
}

/* Under the lock, which is given up meanwhile. When a build fails, those who waited for it try themselves. */
static built *program_of(const tti_program *p, const char *options)
{
    cl_program native;
    built *b;

    while ((b = find_program(p, options)) != NULL) {
        if (b->native != NULL)
            return b;
        pthread_cond_wait(&ended, &mu_built);
    }
    b = announce(p, options);
    if (b == NULL)
        return NULL;
    pthread_mutex_unlock(&mu_built);
    native = tti_cl_program_build(p, options);
    pthread_mutex_lock(&mu_built);
    b->native = native;
    if (native == NULL) {
        withdraw(b);
        b = NULL;
    }
    pthread_cond_broadcast(&ended);
    return b;
}

static tti_kernel *kernel_new(built *b, const char *name)
{
    tti_kernel *k = tti_calloc(1, sizeof *k);
    cl_int code = CL_SUCCESS;

    if (k == NULL)
        return NULL;
    k->of = b;
    k->name = tti_strdup(name);
    k->native = k->name != NULL ? tti_cl.CreateKernel(b->native, name, &code) : NULL;
    if (k->native == NULL) {
        tti_mfree(k->name);
        tti_mfree(k);
        if (code != CL_SUCCESS)
            TT_FAIL(TT_ERR_NOT_FOUND, "cl: program %s has no kernel %s: %s", b->program->name, name,
                    TTI_CL_ERROR(code));
        return NULL;
    }
    pthread_mutex_init(&k->lock, NULL);
    k->next = kernels;
    kernels = k;
    return k;
}

tti_kernel *tti_cl_kernel(const tti_program *p, const char *options, const char *name)
{
    tti_kernel *k;
    built *b;

    if (tti_cl_start() != TT_OK)
        return NULL;
    pthread_mutex_lock(&mu_built);
    b = program_of(p, options);
    for (k = b != NULL ? kernels : NULL; k != NULL; k = k->next)
        if (k->of == b && strcmp(k->name, name) == 0)
            break;
    if (k == NULL && b != NULL)
        k = kernel_new(b, name);
    pthread_mutex_unlock(&mu_built);
    return k;
}

static cl_int set(tti_kernel *k, int i, const void *value, uint32_t bytes)
{
    cl_int code;

    if (k->last[i].bytes == bytes && memcmp(k->last[i].value, value, bytes) == 0)
        return CL_SUCCESS;
    code = tti_cl.SetKernelArg(k->native, (cl_uint)i, bytes, value);
    if (code == CL_SUCCESS && bytes <= MAX_VALUE) {
        memcpy(k->last[i].value, value, bytes);
        k->last[i].bytes = bytes;
    } else
        k->last[i].bytes = 0;
    return code;
}

/* An address where the device computes in our memory; else a buffer and the place in it, no buffer for NULL.
 * *i_p: the next argument. */
static tt_status set_memory(tti_kernel *k, int *i_p, const void *address)
{
    uint64_t at = 0, real = (uint64_t)(uintptr_t)address;
    cl_mem mem = NULL;
    cl_int code;

    if (address != NULL) {
        tti_cl_segment *s = tti_cl_at(address, &at);

        if (s == NULL)
            return tt_last_status();
        mem = s->mem;
    }
    if (tti_cl_all.is_cpu) {
        code = set(k, (*i_p)++, &real, sizeof real);
    } else {
        code = set(k, (*i_p)++, &mem, sizeof mem);
        if (code == CL_SUCCESS)
            code = set(k, (*i_p)++, &at, sizeof at);
    }
    return code == CL_SUCCESS ? TT_OK : tti_cl_fail("set an argument of a kernel", code);
}

static tt_status set_all(tti_kernel *k, const tti_arg *args, int n_args)
{
    uint32_t closed = atomic_load_explicit(&tti_cl_n_closed, memory_order_acquire);
    int at = 0;

    if (tt_unlikely(n_args > TTI_MAX_ARGS))
        return TT_FAIL(TT_ERR_INVALID, "cl: kernel %s.%s: expected at most %d arguments, got %d",
                       k->of->program->name, k->name, TTI_MAX_ARGS, n_args);
    if (tt_unlikely(k->n_closed !=
                    closed)) { /* another buffer may have the handle of one that is gone */
        for (int i = 0; i < 2 * TTI_MAX_ARGS; i++)
            k->last[i].bytes = 0;
        k->n_closed = closed;
    }
    for (int i = 0; i < n_args; i++) {
        cl_int code;

        if (args[i].bytes == 0) {
            TT_TRY(set_memory(k, &at, args[i].p));
            continue;
        }
        code = set(k, at++, args[i].p, args[i].bytes);
        if (code != CL_SUCCESS)
            return TT_FAIL(TT_ERR_INVALID, "cl: argument %d of kernel %s.%s: %s", i,
                           k->of->program->name, k->name, TTI_CL_ERROR(code));
    }
    return TT_OK;
}

tt_status tti_cl_launch(tti_queue *q, tti_kernel *k, size_t groups, size_t group_size,
                        const tti_arg *args, int n_args)
{
    size_t local = group_size, global = groups * group_size;
    cl_event e = NULL;
    cl_int code;
    tt_status st;

    pthread_mutex_lock(&k->lock);
    st = set_all(k, args, n_args);
    if (tt_likely(st == TT_OK))
        st = tti_cl_begin(q);
    if (tt_likely(st == TT_OK)) {
        code = tti_cl.EnqueueNDRangeKernel(q->q, k->native, 1, NULL, &global, &local, 0, NULL, &e);
        st = tti_cl_end(q, "launch a kernel", code, e, NULL);
    }
    pthread_mutex_unlock(&k->lock);
    return st;
}

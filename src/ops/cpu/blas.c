/* SPDX-License-Identifier: Apache-2.0 */
/* Opening OpenBLAS. The file is the one of the build, its OpenMP flavour, which shares our pool of threads; on a machine
 * that keeps it elsewhere, the one that the plain name leads to. */
#include "ops/cpu/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/env.h"

#define MIB ((size_t)1 << 20)

static pthread_mutex_t mu_open = PTHREAD_MUTEX_INITIALIZER; /* guards `blas` until `opened` */
static tti_blas blas;
static atomic_bool opened;

/* OpenBLAS maps a buffer of 128 MiB for each of its threads and one for the caller. */
static size_t blas_room(void)
{
    const char *text = tti_foreign_get(TTI_FOREIGN_OMP_NUM_THREADS);
    long threads = sysconf(_SC_NPROCESSORS_CONF), asked = text != NULL ? atol(text) : 0;

    if (asked > 0 && asked < threads)
        threads = asked;
    return ((size_t)(threads > 0 ? threads : 1) + 1) * 128 * MIB + 48 * MIB;
}

/* Where its buffers cannot be mapped OpenBLAS tries again for ever, so we ask first. */
static tt_status blas_has_room(void)
{
    struct rlimit limit;
    size_t room = blas_room();
    void *p;

    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return TT_OK;
    p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return TT_FAIL(
            TT_ERR_NOMEM,
            "matmul: OpenBLAS needs %zu MiB of address space, which is limited to %zu MiB "
            "(ulimit -v) and partly used; fewer threads (OMP_NUM_THREADS) need less",
            room / MIB, (size_t)limit.rlim_cur / MIB);
    munmap(p, room);
    return TT_OK;
}

static tt_status blas_load(void)
{
    void *lib;

    TT_TRY(blas_has_room());
    lib = dlopen(TTI_OPENBLAS_FILE, RTLD_NOW | RTLD_LOCAL); /* stays */
    if (lib == NULL)
        lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "matmul: products of float64 and complex numbers need OpenBLAS: %s",
                       dlerror());
    *(void **)&blas.dgemm = dlsym(lib, "cblas_dgemm");
    *(void **)&blas.cgemm = dlsym(lib, "cblas_cgemm");
    *(void **)&blas.zgemm = dlsym(lib, "cblas_zgemm");
    if (blas.dgemm == NULL || blas.cgemm == NULL || blas.zgemm == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "matmul: libopenblas.so.0 lacks cblas_dgemm, cblas_cgemm or cblas_zgemm");
    return TT_OK;
}

const tti_blas *tti_blas_open(void)
{
    tt_status st = TT_OK;

    if (atomic_load_explicit(&opened, memory_order_acquire))
        return &blas;
    pthread_mutex_lock(&mu_open);
    if (!atomic_load_explicit(&opened, memory_order_relaxed)) {
        st = blas_load();
        atomic_store_explicit(&opened, st == TT_OK, memory_order_release);
    }
    pthread_mutex_unlock(&mu_open);
    return st == TT_OK ? &blas : NULL;
}

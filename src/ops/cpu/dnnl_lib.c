/* SPDX-License-Identifier: Apache-2.0 */
/* Opening oneDNN: by the name that the loader knows, or in the folder where the build found it. */
#include "ops/cpu/dnnl_lib.h"

#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define FILE_NAME "libdnnl.so." TEXT(DNNL_VERSION_MAJOR)

tti_dnnl_functions tti_dnnl;

static pthread_mutex_t mu_open = PTHREAD_MUTEX_INITIALIZER; /* guards tti_dnnl until `opened` */
static atomic_bool opened;

/* oneDNN calls its own functions by name, too, and must look into itself first: another copy may be visible to all.
 * It then looks for those of OpenMP in libgomp first, so not where a program has put another implementation in its
 * place, which oneDNN has to share with our kernels. The sanitizers end a process that asks for such a binding. */
static int binding(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#else
    void *gomp = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *ours = (void *)(uintptr_t)omp_get_max_threads;
    bool same = gomp != NULL && dlsym(gomp, "omp_get_max_threads") == ours;

    if (gomp != NULL)
        dlclose(gomp);
    return same ? RTLD_DEEPBIND : 0;
#endif
}

static tt_status load(void)
{
    int mode = RTLD_NOW | RTLD_LOCAL | binding();
    void *lib = dlopen(FILE_NAME, mode); /* stays */

    if (lib == NULL)
        lib = dlopen(TTI_DNNL_FOLDER "/" FILE_NAME, mode);
    if (lib == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "products and convolutions of float32 numbers need oneDNN: %s", dlerror());
#define X(name)                                           \
    *(void **)&tti_dnnl.name = dlsym(lib, "dnnl_" #name); \
    if (tti_dnnl.name == NULL)                            \
        return TT_FAIL(TT_ERR_UNSUPPORTED, FILE_NAME " lacks dnnl_" #name);
    TTI_DNNL_FUNCTIONS(X)
#undef X
    return TT_OK;
}

tt_status tti_dnnl_open(void)
{
    tt_status st = TT_OK;

    if (atomic_load_explicit(&opened, memory_order_acquire))
        return TT_OK;
    pthread_mutex_lock(&mu_open);
    if (!atomic_load_explicit(&opened, memory_order_relaxed)) {
        st = load();
        atomic_store_explicit(&opened, st == TT_OK, memory_order_release);
    }
    pthread_mutex_unlock(&mu_open);
    return st;
}

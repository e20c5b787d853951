/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons to skip, and which device or backend a rank uses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "testing/group.h"
#include "testing/testing.h"
#include "testing/world.h"
#include "tutti/device.h"
#include "tutti/testing_tools.h"

int tt_test_world_size(void)
{
    const char *text = getenv("WORLD_SIZE");
    int n = text != NULL ? atoi(text) : 0;

    return n > 0 ? n : tt_test_size();
}

/* MPI decides about its world itself. */
static bool under_mpi(void)
{
    const char *backend = getenv("BACKEND");

    return backend != NULL && strcmp(backend, "mpi") == 0;
}

void tt_test_require_world(int at_least)
{
    if (!under_mpi() && tt_test_world_size() < at_least)
        tt_test_skip(TT_TEST_SKIP_SMALL_WORLD, "needs a world of %d ranks, has %d", at_least,
                     tt_test_world_size());
}

void tt_test_require_even_world(void)
{
    if (!under_mpi() && tt_test_world_size() % 2 != 0)
        tt_test_skip(TT_TEST_SKIP_ODD_WORLD, NULL);
}

void tt_test_require_backend(const char *name)
{
    if (!tti_group_has_backend(name))
        tt_test_skip(TT_TEST_SKIP_BACKEND, "the backend %s is not available", name);
}

const char *const *tt_test_accelerator_backends(void)
{
    static const char *const names[] = { "shm", "threads", "nccl", NULL };

    return names;
}

const char *const *tt_test_rank_device_types(void)
{
    static const char *const names[] = { "cl", "cuda", NULL };

    return names;
}

void tt_test_require_accelerator_backend(const char *const *names)
{
    if (!tt_test_has_devices(1))
        tt_test_skip(TT_TEST_SKIP_BACKEND, "no backend for accelerators: there is no accelerator");
    if (names == NULL)
        names = tt_test_accelerator_backends();
    for (int i = 0; names[i] != NULL; i++) {
        if (tti_group_has_backend(names[i]))
            return;
    }
    tt_test_skip(TT_TEST_SKIP_BACKEND, "none of the named backends for accelerators is available");
}

void tt_test_require_other_platform(const char *name, int code)
{
    if (strcmp(name, "linux") == 0)
        tt_test_skip(code, "not for %s", name);
}

/* ---- devices ---- */

int tt_test_device_count(void)
{
    int found = tt_device_count(TT_DEVICE_CL) + tt_device_count(TT_DEVICE_CUDA);

    return (int)tti_env_int(TTI_ENV_TEST_DEVICES, 0, 1024, found);
}

bool tt_test_has_devices(int at_least)
{
    return tt_test_device_count() > 0 && tt_test_device_count() >= at_least;
}

int tt_test_devices_code(int n)
{
    static const int codes[] = { TT_TEST_SKIP_1_DEVICE,  TT_TEST_SKIP_2_DEVICES,
                                 TT_TEST_SKIP_3_DEVICES, TT_TEST_SKIP_4_DEVICES,
                                 TT_TEST_SKIP_5_DEVICES, TT_TEST_SKIP_6_DEVICES,
                                 TT_TEST_SKIP_7_DEVICES, TT_TEST_SKIP_8_DEVICES };

    return n >= 1 && n <= 8 ? codes[n - 1] : TT_TEST_SKIP_GENERIC;
}

void tt_test_require_devices(int n, bool host_will_do)
{
    if (tt_test_has_devices(n) || (host_will_do && tt_test_device_count() == 0))
        return;
    tt_test_skip(tt_test_devices_code(n), "needs %d device%s", n, n == 1 ? "" : "s");
}

void tt_test_require_device_per_rank(void)
{
    if (tt_test_device_count() == 0)
        tt_test_skip(TT_TEST_SKIP_NO_ACCELERATOR, NULL);
    tt_test_require_devices(tt_test_world_size(), false);
}

int tt_test_rank_device(int rank)
{
    int n = tt_test_device_count();

    return n > 0 ? rank % n : 0;
}

int tt_test_rank_devices(int rank, int size, int *first_p)
{
    int n = tt_test_device_count();
    int each = size > 0 && n > size ? n / size : 1;

    *first_p = n > 0 ? rank * each % n : 0;
    return each;
}

const char *tt_test_backend_for(const char *device)
{
    return strncmp(device, "cuda", 4) == 0 ? "nccl" : "shm";
}

int tt_test_required_ranks(const char *id, int fallback)
{
    const char *dot = strchr(id, '.');
    char suite[256];
    const tt_test *t;

    if (dot == NULL || (size_t)(dot - id) >= sizeof suite)
        return fallback;
    memcpy(suite, id, (size_t)(dot - id));
    suite[dot - id] = '\0';
    t = tti_test_find(suite, dot + 1);
    return t != NULL && t->ranks > 0 ? t->ranks : fallback;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Generators: a seed and a position, guarded by a lock. The numbers themselves are a pure function of
 * both (base/philox.h). Default generators are seeded by TUTTI_SEED, or 0. */
#include "ops/generator.h"

#include <pthread.h>

#include "base/env.h"

#define N_KINDS (TT_DEVICE_CUDA + 1)
#define MAX_INDEX 16

struct tt_generator {
    tt_generator_state state; /* mu */
    pthread_mutex_t mu;
};

static tt_generator defaults[N_KINDS][MAX_INDEX];
static pthread_once_t defaults_once = PTHREAD_ONCE_INIT;

static void make_defaults(void)
{
    uint64_t seed = (uint64_t)tti_env_int(TTI_ENV_SEED, 0, INT64_MAX, 0);

    for (int k = 0; k < N_KINDS; k++)
        for (int i = 0; i < MAX_INDEX; i++) {
            pthread_mutex_init(&defaults[k][i].mu, NULL);
            defaults[k][i].state = (tt_generator_state){ .seed = seed };
        }
}

tt_generator *tt_default_generator(tt_device device)
{
    if (device.kind != TT_DEVICE_CPU && tt_device_resolve(device, &device) != TT_OK)
        return NULL;
    if ((unsigned)device.kind >= N_KINDS || (unsigned)device.index >= MAX_INDEX)
        return TT_FAIL_NULL(TT_ERR_INVALID, "default_generator: no such device");
    pthread_once(&defaults_once, make_defaults);
    return &defaults[device.kind][device.index];
}

tt_generator *tt_generator_new(uint64_t seed)
{
    tt_generator *g = tti_calloc(1, sizeof *g);

    if (g == NULL)
        return NULL;
    pthread_mutex_init(&g->mu, NULL);
    g->state.seed = seed;
    return g;
}

static bool is_default(const tt_generator *g)
{
    return g >= &defaults[0][0] && g <= &defaults[N_KINDS - 1][MAX_INDEX - 1];
}

void tt_generator_free(tt_generator *g)
{
    if (g == NULL || is_default(g))
        return;
    pthread_mutex_destroy(&g->mu);
    tti_mfree(g);
}

void tt_generator_set(tt_generator *g, tt_generator_state state)
{
    if (g == NULL)
        return;
    pthread_mutex_lock(&g->mu);
    g->state = state;
    pthread_mutex_unlock(&g->mu);
}

void tt_generator_seed(tt_generator *g, uint64_t seed)
{
    tt_generator_set(g, (tt_generator_state){ .seed = seed });
}

tt_generator_state tt_generator_get(tt_generator *g)
{
    tt_generator_state state = { 0 };

    if (g == NULL)
        return state;
    pthread_mutex_lock(&g->mu);
    state = g->state;
    pthread_mutex_unlock(&g->mu);
    return state;
}

void tt_generator_set_offset(tt_generator *g, uint64_t offset)
{
    if (g == NULL)
        return;
    pthread_mutex_lock(&g->mu);
    g->state.offset = offset;
    pthread_mutex_unlock(&g->mu);
}

/* How many default generators a kind has that can be used. */
static int n_defaults(tt_device_kind kind)
{
    int n = (unsigned)kind < N_KINDS ? tt_device_count(kind) : 0;

    return n < MAX_INDEX ? n : MAX_INDEX;
}

int tt_generator_get_all(tt_device_kind kind, tt_generator_state *states, int n)
{
    int all = n_defaults(kind);

    pthread_once(&defaults_once, make_defaults);
    for (int i = 0; states != NULL && i < all && i < n; i++)
        states[i] = tt_generator_get(&defaults[kind][i]);
    return all;
}

tt_status tt_generator_set_all(tt_device_kind kind, const tt_generator_state *states, int n)
{
    int all = n_defaults(kind);

    if (n < 0 || n > all || (states == NULL && n > 0))
        return TT_FAIL(TT_ERR_INVALID,
                       "generator_set_all: expected states of up to %d devices, got %d", all,
                       states != NULL ? n : 0);
    pthread_once(&defaults_once, make_defaults);
    for (int i = 0; i < n; i++)
        tt_generator_set(&defaults[kind][i], states[i]);
    return TT_OK;
}

void tt_seed(uint64_t seed)
{
    pthread_once(&defaults_once, make_defaults);
    for (int k = 0; k < N_KINDS; k++)
        for (int i = 0; i < MAX_INDEX; i++)
            tt_generator_seed(&defaults[k][i], seed);
}

tt_generator_state tti_generator_take(tt_generator *g, tt_device device, uint64_t blocks)
{
    tt_generator_state state = { 0 };

    g = g != NULL ? g : tt_default_generator(device);
    if (g == NULL)
        return state;
    pthread_mutex_lock(&g->mu);
    state = g->state;
    g->state.offset += blocks;
    pthread_mutex_unlock(&g->mu);
    return state;
}

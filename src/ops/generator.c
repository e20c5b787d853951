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

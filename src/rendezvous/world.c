/* SPDX-License-Identifier: Apache-2.0 */
/* tt_world_detect: each launcher is a row of names; of those that are there, the innermost wins. */
#include "rendezvous/world.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NONE TTI_FOREIGN_COUNT
#define MAX_RANKS (1 << 24)

typedef struct launcher {
    const char *name;
    tti_foreign rank;
    tti_foreign sizes[3]; /* the first that is set counts */
    tti_foreign local_ranks[2], local_sizes[2];
    tti_foreign nodes[1], n_nodes[2];
    tti_foreign needs; /* another variable that has to be there */
    bool own;          /* TUTTI_RUN_ID has to be there */
} launcher;

#define F(name) TTI_FOREIGN_##name

/* In the order that decides between variables set at the same place. */
static const launcher launchers[] = {
    { "tutti",
      F(RANK),
      { F(WORLD_SIZE), NONE, NONE },
      { F(LOCAL_RANK), NONE },
      { F(LOCAL_WORLD_SIZE), NONE },
      { F(GROUP_RANK) },
      { F(GROUP_WORLD_SIZE), NONE },
      NONE,
      true },
    { "torchrun",
      F(RANK),
      { F(WORLD_SIZE), NONE, NONE },
      { F(LOCAL_RANK), NONE },
      { F(LOCAL_WORLD_SIZE), NONE },
      { F(GROUP_RANK) },
      { F(GROUP_WORLD_SIZE), NONE },
      NONE,
      false },
    { "openmpi",
      F(OMPI_COMM_WORLD_RANK),
      { F(OMPI_COMM_WORLD_SIZE), NONE, NONE },
      { F(OMPI_COMM_WORLD_LOCAL_RANK), NONE },
      { F(OMPI_COMM_WORLD_LOCAL_SIZE), NONE },
      { NONE },
      { NONE, NONE },
      NONE,
      false },
    { "pmix",
      F(PMIX_RANK),
      { F(PMI_SIZE), F(SLURM_STEP_NUM_TASKS), F(SLURM_NTASKS) },
      { F(SLURM_LOCALID), NONE },
      { NONE, NONE },
      { F(SLURM_NODEID) },
      { F(SLURM_STEP_NUM_NODES), F(SLURM_NNODES) },
      NONE,
      false },
    { "pmi",
      F(PMI_RANK),
      { F(PMI_SIZE), NONE, NONE },
      { F(MPI_LOCALRANKID), F(PALS_LOCAL_RANKID) },
      { F(MPI_LOCALNRANKS), F(PALS_LOCAL_SIZE) },
      { F(PALS_NODEID) },
      { NONE, NONE },
      NONE,
      false },
    { "slurm",
      F(SLURM_PROCID),
      { F(SLURM_STEP_NUM_TASKS), F(SLURM_NTASKS), NONE },
      { F(SLURM_LOCALID), NONE },
      { NONE, NONE },
      { F(SLURM_NODEID) },
      { F(SLURM_STEP_NUM_NODES), F(SLURM_NNODES) },
      F(SLURM_STEP_ID),
      false },
};
#define N_LAUNCHERS (int)(sizeof launchers / sizeof launchers[0])

static tti_foreign first_set(const tti_foreign *vars, int n)
{
    for (int i = 0; i < n; i++)
        if (vars[i] != NONE && tti_foreign_get(vars[i]) != NULL)
            return vars[i];
    return NONE;
}

tt_status tti_foreign_int(tti_foreign var, int lo, int hi, int *value_p)
{
    const char *text = tti_foreign_get(var);
    char *end = NULL;
    long value = 0;

    errno = 0;
    if (text != NULL)
        value = strtol(text, &end, 10);
    if (text == NULL || errno != 0 || end == text || *end != '\0' || value < lo || value > hi)
        return TT_FAIL(TT_ERR_INVALID,
                       "rendezvous: %s: expected a whole number from %d to %d, got %s%.40s%s",
                       tti_foreign_name(var), lo, hi, text != NULL ? "\"" : "",
                       text != NULL ? text : "nothing", text != NULL ? "\"" : "");
    *value_p = (int)value;
    return TT_OK;
}

tt_status tti_foreign_maybe(tti_foreign var, int hi, int *value_p)
{
    *value_p = -1;
    return var == NONE ? TT_OK : tti_foreign_int(var, 0, hi, value_p);
}

static bool has_rank(const launcher *l)
{
    return tti_foreign_get(l->rank) != NULL &&
           (l->needs == NONE || tti_foreign_get(l->needs) != NULL) &&
           (!l->own || tti_env_get(TTI_ENV_RUN_ID) != NULL);
}

/* Where this launcher's own variables were set: the nearer of its rank and, for ours, its mark. */
static int depth_of(const launcher *l)
{
    if (l->own)
        return tti_env_depth("TUTTI_RUN_ID", tti_env_get(TTI_ENV_RUN_ID));
    return tti_env_depth(tti_foreign_name(l->rank), tti_foreign_get(l->rank));
}

/* The innermost of the launchers that have left a rank and a size; NULL if there is none. */
static const launcher *choose(void)
{
    const launcher *found[N_LAUNCHERS], *best;
    int n = 0, best_depth;

    for (int i = 0; i < N_LAUNCHERS; i++)
        if (has_rank(&launchers[i]) && first_set(launchers[i].sizes, 3) != NONE)
            found[n++] = &launchers[i];
    if (n <= 1)
        return n == 0 ? NULL : found[0];
    best = found[0];
    best_depth = depth_of(best);
    for (int i = 1; i < n; i++) {
        int depth = depth_of(found[i]);

        if (depth < best_depth) {
            best = found[i];
            best_depth = depth;
        }
    }
    return best;
}

/* Half of what a launcher sets is a mistake, which would otherwise end in as many worlds as processes. */
static tt_status check_halves(void)
{
    const char *have = NULL, *lack = NULL;

    if (tti_foreign_get(F(RANK)) != NULL) {
        have = "RANK";
        lack = "WORLD_SIZE";
    } else if (tti_foreign_get(F(WORLD_SIZE)) != NULL) {
        have = "WORLD_SIZE";
        lack = "RANK";
    } else if (tti_foreign_get(F(OMPI_COMM_WORLD_RANK)) != NULL) {
        have = "OMPI_COMM_WORLD_RANK";
        lack = "OMPI_COMM_WORLD_SIZE";
    } else if (tti_foreign_get(F(PMI_RANK)) != NULL) {
        have = "PMI_RANK";
        lack = "PMI_SIZE";
    } else if (tti_foreign_get(F(PMIX_RANK)) != NULL) {
        have = "PMIX_RANK";
        lack = "the number of ranks (WORLD_SIZE, PMI_SIZE)";
    }
    if (have != NULL)
        return TT_FAIL(TT_ERR_INVALID, "rendezvous: %s is set, %s is not", have, lack);
    return TT_OK;
}

static tt_status read_launcher(const launcher *l, tt_world *w)
{
    tti_foreign size = first_set(l->sizes, 3);

    TT_TRY(tti_foreign_int(size, 1, MAX_RANKS, &w->size));
    TT_TRY(tti_foreign_int(l->rank, 0, MAX_RANKS, &w->rank));
    if (w->rank >= w->size)
        return TT_FAIL(TT_ERR_INVALID,
                       "rendezvous: %s is %d, but %s is %d: expected a smaller rank",
                       tti_foreign_name(l->rank), w->rank, tti_foreign_name(size), w->size);
    TT_TRY(tti_foreign_maybe(first_set(l->local_ranks, 2), w->size - 1, &w->local_rank));
    TT_TRY(tti_foreign_maybe(first_set(l->local_sizes, 2), w->size, &w->local_size));
    TT_TRY(tti_foreign_maybe(first_set(l->nodes, 1), w->size - 1, &w->node));
    TT_TRY(tti_foreign_maybe(first_set(l->n_nodes, 2), w->size, &w->n_nodes));
    if (w->local_size >= 0 && w->local_rank >= w->local_size)
        return TT_FAIL(TT_ERR_INVALID,
                       "rendezvous: %s is %d, but %s is %d: expected a smaller local rank",
                       tti_foreign_name(first_set(l->local_ranks, 2)), w->local_rank,
                       tti_foreign_name(first_set(l->local_sizes, 2)), w->local_size);
    w->launcher = l->name;
    return TT_OK;
}

tt_status tt_world_detect(tt_world *world_p)
{
    tt_world w = { .launcher = "none", .size = 1, .local_size = 1, .n_nodes = 1 };
    const launcher *l;

    if (world_p == NULL)
        return TT_FAIL(TT_ERR_INVALID, "rendezvous: the place for the world is NULL");
    l = choose();
    if (l != NULL)
        TT_TRY(read_launcher(l, &w));
    else
        TT_TRY(check_halves());
    *world_p = w;
    return TT_OK;
}

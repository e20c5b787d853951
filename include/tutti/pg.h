/* SPDX-License-Identifier: Apache-2.0 */
/* Process groups: ranks that communicate. The operations are in tutti/collective.h.
 *
 *     tt_pg *world = tt_pg_new(NULL, NULL);          // from `tutti run -n 4 ./program`
 *     tt_pg_all_reduce(world, t, NULL, NULL);
 *     tt_pg_free(world);
 *
 * A group has its own numbering of ranks, 0 to size - 1, and its members also have global ranks: those
 * of the group that all others were made from. Groups are handles; there is a default one for programs
 * that want it. Different groups may be used by different threads at the same time. */
#ifndef TUTTI_PG_H
#define TUTTI_PG_H

#include "tutti/rendezvous.h"
#include "tutti/work.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_pg tt_pg;

/* How much the groups check and say. */
typedef enum tt_debug_level {
    TT_DEBUG_DEFAULT, /* TUTTI_DISTRIBUTED_DEBUG, else TORCH_DISTRIBUTED_DEBUG, else off */
    TT_DEBUG_OFF,
    TT_DEBUG_INFO,
    TT_DEBUG_DETAIL, /* every collective first compares a fingerprint of itself over all ranks */
} tt_debug_level;

TT_API void tt_set_debug_level(tt_debug_level level); /* DEFAULT: read the environment again */
TT_API tt_debug_level tt_get_debug_level(void);       /* never DEFAULT */
TT_API tt_status tt_debug_level_parse(const char *text, tt_debug_level *level_p); /* any case */

typedef struct tt_pg_options {
    const char *backend;  /* "shm", "threads", "fake", in any case; NULL: TUTTI_BACKEND, else shm */
    int timeout_ms;       /* of every operation; 0: 1,800,000 (half an hour) */
    const char *name;     /* NULL: made up; shown in messages and traces */
    const char *desc;     /* NULL: none; what the group is for, shown in traces */
    tt_debug_level debug; /* of this group */
    bool no_cma; /* do not copy straight between processes even where the system allows it */
    size_t staging_bytes; /* of shared memory per rank; 0: chosen */
    /* tt_pg_new_store only: what messages call each rank, if that is not its number; copied. For members of a
     * larger job that meet at a store of their own. */
    const int *global_ranks;
} tt_pg_options;

/* ---- life time ------------------------------------------------------------------------- */

/* A group of all ranks that meet at `url` (see tt_rendezvous_open; NULL: env://). Collective. */
TT_API tt_pg *tt_pg_new(const char *url, const tt_pg_options *opt);
/* The same when store, rank and size are known. Keeps the store. A store can serve several groups,
 * one after the other or at once, as long as all ranks make them in the same order. */
TT_API tt_pg *tt_pg_new_store(tt_store *store, int rank, int size, const tt_pg_options *opt);

/* The default group: made by tt_pg_init, which fails if there is one; ended by tt_pg_shutdown.
 * Ranks that are threads (backend "threads") have one each. */
TT_API tt_status tt_pg_init(const char *url, const tt_pg_options *opt);
TT_API tt_status tt_pg_init_store(tt_store *store, int rank, int size, const tt_pg_options *opt);
TT_API tt_pg *tt_pg_default(void); /* borrowed; NULL with an error when there is none */
TT_API bool tt_pg_is_initialized(void);
TT_API tt_status tt_pg_shutdown(void); /* INVALID when there is none */

TT_API tt_pg *tt_pg_retain(tt_pg *pg);
/* Drops a reference; the last one waits for the operations under way, then leaves. Accepts NULL. */
TT_API void tt_pg_free(tt_pg *pg);
/* Ends all operations with TT_ERR_ABORTED here, at once, and on the peers collectives and messages with this
 * rank with TT_ERR_PEER and the words of `reason` (NULL: none). Takes no new ones. From any thread, any number of times. */
TT_API void tt_pg_abort(tt_pg *pg, const char *reason);

/* ---- groups of some of the ranks ------------------------------------------------------- */

/* The group of parent's ranks[0 .. n-1] (NULL: all), in that order. Only members take part, each calling it
 * with the same ranks; a process that is no member gets a group at once whose rank is -1 and on which
 * operations do nothing and succeed. Options left zero come from the parent. */
TT_API tt_pg *tt_pg_subgroup(tt_pg *parent, const int *ranks, int n, const tt_pg_options *opt);

/* Ranks with the same colour form a group, ordered by key, then by rank; negative: no member. Collective
 * over the parent. */
TT_API tt_pg *tt_pg_split(tt_pg *parent, int color, int key, const tt_pg_options *opt);

typedef struct tt_pg_list {
    tt_pg
        *mine; /* the one of `groups` that this process is in, else the first; borrowed from them */
    tt_pg **groups; /* in the order asked for; those of others are sentinels */
    int n;
} tt_pg_list;

/* Groups of `group_size` consecutive ranks. INVALID when the parent's size cannot be divided so. */
TT_API tt_status tt_pg_subgroups(tt_pg *parent, int group_size, const tt_pg_options *opt,
                                 tt_pg_list *list_p);
/* Groups as listed: group g has counts[g] ranks, which follow each other in `ranks`. A rank in two
 * groups, out of range or negative is INVALID. A rank in none gets only sentinels. */
TT_API tt_status tt_pg_subgroups_listed(tt_pg *parent, const int *ranks, const int *counts,
                                        int n_groups, const tt_pg_options *opt, tt_pg_list *list_p);
TT_API void tt_pg_list_free(
    tt_pg_list *list); /* all of its groups; accepts NULL and zeroed lists */

/* ---- asking ---------------------------------------------------------------------------- */

TT_API int tt_pg_rank(const tt_pg *pg); /* -1 for a group that this process is not in */
TT_API int tt_pg_size(const tt_pg *pg); /* -1 likewise */
TT_API bool tt_pg_is_member(const tt_pg *pg);
TT_API const char *tt_pg_name(const tt_pg *pg);
TT_API const char *tt_pg_desc(const tt_pg *pg);
TT_API const char *tt_pg_backend(const tt_pg *pg); /* NULL with INVALID for non-members */
TT_API int tt_pg_timeout(const tt_pg *pg);         /* milliseconds */
TT_API tt_status tt_pg_set_timeout(tt_pg *pg, int timeout_ms);
TT_API tt_debug_level tt_pg_debug_level(const tt_pg *pg);
TT_API int tt_pg_global_rank(const tt_pg *pg, int rank); /* -1 with an error if there is none */
TT_API int tt_pg_group_rank(const tt_pg *pg, int global_rank); /* -1 if it is no member */
TT_API uint64_t tt_pg_seq(const tt_pg *pg);                    /* collectives issued so far */
TT_API tt_store *tt_pg_store(const tt_pg *pg);                 /* borrowed: the group's own view */
/* Ranks of the group known to be dead: written to `ranks` (room for size), ascending. */
TT_API int tt_pg_dead_ranks(tt_pg *pg, int *ranks);
TT_API int tt_pg_count(void); /* groups alive in this process, sentinels not counted */
/* "shm", in lower case, of a backend given in any case; INVALID for an unknown one, with a list. */
TT_API tt_status tt_backend_parse(const char *text, const char **name_p);
TT_API const char *tt_backend_name(int index); /* those of this build; NULL past the end */

/* ---- memory that the group shares ------------------------------------------------------- */

/* A tensor in memory that the peers can reach, so that collectives on it need no staging. Not
 * collective. Of the scope, like every expression; its memory may outlive the group. */
TT_API tt_tensor *tt_pg_alloc(tt_pg *pg, tt_shape shape, tt_dtype dtype);
/* The same as bare memory, 64-byte aligned. */
TT_API void *tt_pg_alloc_bytes(tt_pg *pg, size_t bytes);
TT_API void tt_pg_free_bytes(tt_pg *pg, void *p);

/* ---- meshes ---------------------------------------------------------------------------- */

typedef struct tt_mesh tt_mesh;

/* The group's ranks as a grid, last dimension fastest, n_dims 1 or 2. `names` may be NULL. Collective.
 * INVALID when the sizes do not multiply to the group's. */
TT_API tt_mesh *tt_mesh_new(tt_pg *pg, const int *dims, int n_dims, const char *const *names);
TT_API int tt_mesh_dims(const tt_mesh *m);
TT_API int tt_mesh_size(const tt_mesh *m, int dim);
TT_API int tt_mesh_coord(const tt_mesh *m, int dim);        /* of this process */
TT_API int tt_mesh_dim(const tt_mesh *m, const char *name); /* -1 with an error */
TT_API tt_pg *tt_mesh_group(const tt_mesh *m, int dim); /* borrowed: the line through this rank */
TT_API tt_mesh *tt_mesh_retain(tt_mesh *m);
TT_API void tt_mesh_free(tt_mesh *m);

#ifdef __cplusplus
}
#endif

#endif

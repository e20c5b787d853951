/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about groups, debug levels, shared memory. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/env.h"
#include "pg/pg.h"
#include "tensor/tensor.h"

int tt_pg_rank(const tt_pg *pg)
{
    return pg != NULL ? pg->rank : -1;
}

int tt_pg_size(const tt_pg *pg)
{
    return pg != NULL ? pg->size : -1;
}

bool tt_pg_is_member(const tt_pg *pg)
{
    return pg != NULL && pg->rank >= 0;
}

const char *tt_pg_name(const tt_pg *pg)
{
    return pg != NULL ? pg->name : "";
}

const char *tt_pg_desc(const tt_pg *pg)
{
    return pg != NULL ? pg->desc : "";
}

const char *tt_pg_backend(const tt_pg *pg)
{
    if (pg == NULL)
        return TT_NULL_GIVEN("backend", "a group");
    if (pg->ops == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "backend: this process is not in the group %s",
                            tt_pg_name(pg));
    return pg->ops->name;
}

int tt_pg_timeout(const tt_pg *pg)
{
    return pg != NULL ? atomic_load_explicit(&pg->timeout_ms, memory_order_relaxed) : 0;
}

tt_status tt_pg_set_timeout(tt_pg *pg, int timeout_ms)
{
    if (pg == NULL)
        return tti_null_given("set_timeout", "a group");
    if (timeout_ms < 1)
        return TT_FAIL(TT_ERR_INVALID, "set_timeout: expected a group and 1 ms or more, got %d",
                       timeout_ms);
    atomic_store_explicit(&pg->timeout_ms, timeout_ms, memory_order_relaxed);
    if (pg->recorder != NULL)
        tti_recorder_set_timeout(pg->recorder, timeout_ms);
    return TT_OK;
}

int tt_pg_global_rank(const tt_pg *pg, int rank)
{
    if (pg == NULL || rank < 0 || rank >= pg->n_ranks) {
        TT_FAIL(TT_ERR_INVALID, "global_rank: group %s has no rank %d", tt_pg_name(pg), rank);
        return -1;
    }
    return pg->global_ranks[rank];
}

int tt_pg_group_rank(const tt_pg *pg, int global_rank)
{
    for (int i = 0; pg != NULL && i < pg->n_ranks; i++)
        if (pg->global_ranks[i] == global_rank)
            return i;
    return -1;
}

uint64_t tt_pg_seq(const tt_pg *pg)
{
    return pg != NULL ? atomic_load_explicit(&pg->seq, memory_order_relaxed) : 0;
}

tt_store *tt_pg_store(const tt_pg *pg)
{
    return pg != NULL ? pg->store : NULL;
}

int tt_pg_dead_ranks(tt_pg *pg, int *ranks)
{
    return pg != NULL && pg->backend != NULL && ranks != NULL ? pg->ops->dead(pg->backend, ranks)
                                                              : 0;
}

tt_status tt_backend_parse(const char *text, const char **name_p)
{
    const tti_backend_ops *ops = tti_backend_find(text != NULL ? text : "");

    if (ops == NULL)
        return tt_last_status();
    *name_p = ops->name;
    return TT_OK;
}

const char *tt_backend_name(int index)
{
    for (int i = 0; tti_backends[i] != NULL; i++)
        if (i == index)
            return tti_backends[i]->name;
    return NULL;
}

/* ---- checks --------------------------------------------------------------------------------------- */

tt_status tti_pg_check(const tt_pg *pg, const char *op)
{
    if (__builtin_expect(pg == NULL, 0))
        return tti_null_given(op, "a group");
    if (__builtin_expect(pg->fork_id != atomic_load_explicit(&tti_fork_id, memory_order_relaxed),
                         0))
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: group %s was made before this process was forked; only the parent can "
                       "use it",
                       op, pg->name);
    return TT_OK;
}

int tti_pg_root(const tt_pg *pg, int root, const tt_coll_options *opt, const char *op,
                const char *what)
{
    int rank = opt != NULL && opt->global_ranks ? tt_pg_group_rank(pg, root) : root;

    if (rank < 0 || rank >= pg->size) {
        TT_FAIL(TT_ERR_INVALID, "%s: the %s, %srank %d, is not in group %s of %d ranks", op, what,
                opt != NULL && opt->global_ranks ? "global " : "", root, pg->name, pg->size);
        return -1;
    }
    return rank;
}

/* ---- debug levels ----------------------------------------------------------------------------------- */

static atomic_int debug_level = TT_DEBUG_DEFAULT;

tt_status tt_debug_level_parse(const char *text, tt_debug_level *level_p)
{
    static const char *const names[] = { "OFF", "INFO", "DETAIL" };

    for (int i = 0; text != NULL && i < 3; i++)
        if (strcasecmp(text, names[i]) == 0) {
            *level_p = (tt_debug_level)(TT_DEBUG_OFF + i);
            return TT_OK;
        }
    return TT_FAIL(TT_ERR_INVALID, "debug level: expected off, info or detail; got \"%s\"",
                   text != NULL ? text : "(null)");
}

static tt_debug_level from_environment(void)
{
    const char *text = tti_env_get(TTI_ENV_DISTRIBUTED_DEBUG);
    tt_debug_level level = TT_DEBUG_OFF;

    if (text == NULL)
        text = tti_foreign_get(TTI_FOREIGN_TORCH_DISTRIBUTED_DEBUG);
    if (text != NULL && *text != '\0' && tt_debug_level_parse(text, &level) != TT_OK)
        tt_warn("environment", "%s; the level stays off", tti_last_error());
    return level;
}

void tt_set_debug_level(tt_debug_level level)
{
    if ((unsigned)level > TT_DEBUG_DETAIL)
        return;
    if (level == TT_DEBUG_DEFAULT)
        level = from_environment();
    atomic_store_explicit(&debug_level, (int)level, memory_order_relaxed);
}

tt_debug_level tt_get_debug_level(void)
{
    int level = atomic_load_explicit(&debug_level, memory_order_relaxed);

    if (level == TT_DEBUG_DEFAULT) {
        tt_set_debug_level(TT_DEBUG_DEFAULT);
        level = atomic_load_explicit(&debug_level, memory_order_relaxed);
    }
    return (tt_debug_level)level;
}

tt_debug_level tti_pg_debug(const tt_pg *pg)
{
    return pg->debug != TT_DEBUG_DEFAULT ? pg->debug : tt_get_debug_level();
}

tt_debug_level tt_pg_debug_level(const tt_pg *pg)
{
    return pg != NULL ? tti_pg_debug(pg) : tt_get_debug_level();
}

/* ---- shared memory ------------------------------------------------------------------------------------ */

void *tt_pg_alloc_bytes(tt_pg *pg, size_t bytes)
{
    if (tti_pg_check(pg, "alloc") != TT_OK)
        return NULL;
    if (pg->ops != NULL && pg->ops->alloc != NULL)
        return pg->ops->alloc(pg->backend, bytes);
    void *p = tti_alloc_should_fail() ? NULL : aligned_alloc(64, (bytes + 64) / 64 * 64);
    return p != NULL ? p : TT_FAIL_NULL(TT_ERR_NOMEM, "alloc: no memory for %zu bytes", bytes);
}

void tt_pg_free_bytes(tt_pg *pg, void *p)
{
    if (p == NULL || pg == NULL)
        return;
    if (pg->ops != NULL && pg->ops->alloc != NULL)
        pg->ops->free_bytes(pg->backend, p);
    else
        free(p);
}

/* The group may have ended: only its backend's row is needed. */
static void release(void *ctx, void *data)
{
    const tti_backend_ops *ops = ctx;

    if (ops != NULL && ops->alloc != NULL)
        ops->free_bytes(NULL, data);
    else
        free(data);
}

tt_tensor *tt_pg_alloc(tt_pg *pg, tt_shape shape, tt_dtype dtype)
{
    int64_t numel = tt_shape_numel(shape);

    if (tti_pg_check(pg, "alloc") != TT_OK)
        return NULL;
    if (numel < 0 || (unsigned)dtype >= TT_N_DTYPES ||
        numel > INT64_MAX / (int64_t)tt_dtype_size(dtype))
        return TT_FAIL_NULL(TT_ERR_INVALID, "alloc: not a shape and type of a tensor");
    void *p = tt_pg_alloc_bytes(pg, (size_t)numel * tt_dtype_size(dtype));
    if (p == NULL)
        return NULL;
    tt_tensor *t = tt_wrap(p, shape, NULL, dtype, release, (void *)pg->ops);
    if (t == NULL)
        release((void *)pg->ops, p);
    return t;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* PowerSGD: its state, its two hooks, and what it remembers of buckets. */
#include "base/error.h"
#include "ddp/hooks/powersgd.h"

#include "base/refcount.h"

/* ---- life ------------------------------------------------------------------------------------ */

tt_status tti_powersgd_options(const tt_powersgd_options *in, tt_powersgd_options *out)
{
    *out = in != NULL ? *in : (tt_powersgd_options){ 0 };
    out->rank = out->rank == 0 ? 1 : out->rank;
    out->min_compression_rate = out->min_compression_rate == 0 ? 2 : out->min_compression_rate;
    out->start_iter = out->start_iter == 0 ? 1000 : out->start_iter;
    if (out->start_iter == TT_POWERSGD_AT_ONCE)
        out->start_iter = 0;
    if (out->rank < 1 || out->start_iter < 0)
        return TT_FAIL(TT_ERR_INVALID,
                       "powersgd: expected a rank above 0 and an iteration to start at, got %d and "
                       "%lld",
                       out->rank, (long long)out->start_iter);
    if (!(out->min_compression_rate > 0) || !(out->orthogonalization_epsilon >= 0))
        return TT_FAIL(TT_ERR_INVALID,
                       "powersgd: expected a compression rate above 0 and an epsilon of 0 or more, "
                       "got %g and %g",
                       out->min_compression_rate, out->orthogonalization_epsilon);
    if (out->start_iter < 2 && (!out->no_error_feedback || !out->no_warm_start))
        return TT_FAIL(TT_ERR_INVALID,
                       "powersgd: expected start_iter > 1 with error feedback or warm start, got "
                       "%lld: buckets change after the first iteration",
                       (long long)out->start_iter);
    return TT_OK;
}

tt_powersgd *tt_powersgd_new(tt_pg *pg, const tt_powersgd_options *opt)
{
    tt_powersgd_options options;
    tt_powersgd *s;

    if (tti_powersgd_options(opt, &options) != TT_OK)
        return NULL;
    s = tti_calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    atomic_init(&s->refs, 1);
    s->options = options;
    s->pg = tt_pg_retain(pg);
    s->gen = tt_generator_new(options.seed);
    if (s->gen != NULL)
        return s;
    tt_powersgd_free(s);
    return NULL;
}

tt_powersgd *tt_powersgd_retain(tt_powersgd *s)
{
    if (s != NULL)
        tti_ref(&s->refs);
    return s;
}

void tti_powersgd_forget(tti_powersgd_memory *m)
{
    tt_tensor_free(m->error);
    tt_tensor_free(m->p);
    tt_tensor_free(m->q);
    *m = (tti_powersgd_memory){ 0 };
}

void tt_powersgd_free(tt_powersgd *s)
{
    if (s == NULL || !tti_unref(&s->refs))
        return;
    for (size_t i = 0; i < s->n_memories; i++)
        tti_powersgd_forget(&s->memories[i]);
    tti_mfree(s->memories);
    tt_generator_free(s->gen);
    tt_pg_free(s->pg);
    tti_mfree(s);
}

tt_powersgd_info tt_powersgd_ask(const tt_powersgd *s)
{
    tt_generator_state gen;

    if (s == NULL) {
        tti_null_given("powersgd", "a state");
        return (tt_powersgd_info){ 0 };
    }
    gen = tt_generator_get(s->gen);
    return (tt_powersgd_info){ .options = s->options,
                               .pg = s->pg,
                               .iter = s->iter,
                               .numel_before = s->numel_before,
                               .numel_after = s->numel_after,
                               .generator_seed = gen.seed,
                               .generator_offset = gen.offset };
}

tti_powersgd_memory *tti_powersgd_memory_at(tt_powersgd *s, int index)
{
    size_t n = (size_t)index + 1;

    if (tti_vec_reserve((void **)&s->memories, &s->cap_memories, n, sizeof *s->memories) != TT_OK)
        return NULL;
    while (s->n_memories < n)
        s->memories[s->n_memories++] = (tti_powersgd_memory){ 0 };
    return &s->memories[index];
}

/* ---- hooks ------------------------------------------------------------------------------------- */

static tt_future *reduce(tt_powersgd *s, const tt_ddp_bucket *b, bool batched)
{
    bool starts;
    tt_pg *pg;

    if (s == NULL)
        return TT_NULL_GIVEN("powersgd", "a state");
    pg = s->pg != NULL ? s->pg : b->pg;
    starts = s->iter >= s->options.start_iter;
    s->iter += b->is_last;
    if (!starts || !tt_pg_is_member(pg) || !tt_dtype_is_floating(tt_tensor_dtype(b->flat)))
        return tti_hook_mean(pg, b->flat);
    return tti_powersgd_run(s, pg, b, batched);
}

tt_future *tt_ddp_powersgd_hook(void *state, const tt_ddp_bucket *b)
{
    return reduce(state, b, false);
}

tt_future *tt_ddp_batched_powersgd_hook(void *state, const tt_ddp_bucket *b)
{
    return reduce(state, b, true);
}

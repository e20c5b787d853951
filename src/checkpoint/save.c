/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a checkpoint: each rank its files, rank 0 then the manifest that makes it count. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

typedef struct job {
    const char *dir;
    tt_pg *pg;
    const tt_training *t;
    int rank, n_parts;
    char *name, *path; /* owned: of the new directory */
    tt_value *mine;    /* owned: facts of this rank's files */
    tt_value *all;     /* owned: everybody's, by rank */
} job;

/* ---- tensors ------------------------------------------------------------------------------- */

static tt_status add_all(tt_state_dict *to, const tt_state_dict *from, const char *prefix)
{
    for (int i = 0; i < tt_state_dict_count(from); i++) {
        tti_text name = { 0 };
        tt_status st;

        tti_text_addf(&name, "%s%s", prefix, tt_state_dict_name(from, i));
        st = name.status != TT_OK
                 ? name.status
                 : tt_state_dict_set(to, tti_text_str(&name), tt_state_dict_tensor(from, i));
        tti_text_fini(&name);
        TT_TRY(st);
    }
    return TT_OK;
}

static tt_status collect(const tt_training *t, tt_state_dict *all)
{
    if (t->module != NULL) {
        tt_state_dict *sd = tt_module_state_dict(t->module);
        tt_status st = sd != NULL ? add_all(all, sd, "model.") : tt_last_status();

        tt_state_dict_free(sd);
        TT_TRY(st);
    }
    if (t->optim != NULL)
        TT_TRY(tt_optim_save(t->optim, all, "optim."));
    if (t->schedule != NULL)
        TT_TRY(tt_schedule_save(t->schedule, all, "schedule."));
    return t->tensors != NULL ? add_all(all, t->tensors, "extra.") : TT_OK;
}

/* Of all tensors those that part `mine` of n holds: each goes to the part with the fewest bytes so far. */
static tt_status take_share(const tt_state_dict *all, int mine, int n, tt_state_dict *share)
{
    size_t *bytes = tti_calloc((size_t)n, sizeof *bytes);
    tt_status st = bytes != NULL ? TT_OK : TT_ERR_NOMEM;

    for (int i = 0; st == TT_OK && i < tt_state_dict_count(all); i++) {
        tt_tensor *t = tt_state_dict_tensor(all, i);
        int least = 0;

        for (int k = 1; k < n; k++)
            least = bytes[k] < bytes[least] ? k : least;
        bytes[least] += tt_tensor_bytes(t) + 64;
        if (least == mine)
            st = tt_state_dict_set(share, tt_state_dict_name(all, i), t);
    }
    tti_mfree(bytes);
    return st;
}

static tt_status write_tensors(job *j, const char *path)
{
    tt_state_dict *all = tt_state_dict_new(), *share = tt_state_dict_new();
    tt_status st = all != NULL && share != NULL ? collect(j->t, all) : TT_ERR_NOMEM;

    if (st == TT_OK)
        st = take_share(all, j->rank, j->n_parts, share);
    if (st == TT_OK)
        st = tt_state_dict_save(share, path);
    /* How many there are in all: parts only fit together if ranks had the same. */
    if (st == TT_OK)
        st = tt_value_map_give(j->mine, "tensors", tt_value_int_new(tt_state_dict_count(all)));
    tt_state_dict_free(all);
    tt_state_dict_free(share);
    return st;
}

/* ---- what each rank has of its own ----------------------------------------------------------- */

static tt_status add_generator(tt_value *list, tt_generator *g)
{
    tt_generator_state s = tt_generator_get(g);

    TT_TRY(tt_value_list_give(list, tt_value_int_new((int64_t)s.seed)));
    return tt_value_list_give(list, tt_value_int_new((int64_t)s.offset));
}

static tt_status describe_rank(const tt_training *t, tt_value *v)
{
    tt_value *list = tt_value_list_new();

    TT_TRY(tt_value_map_give(v, "generators", list));
    TT_TRY(add_generator(list, tt_default_generator(TT_CPU)));
    for (int i = 0; i < t->n_generators; i++)
        TT_TRY(add_generator(list, t->generators[i]));
    return t->own != NULL ? tt_value_map_set(v, "own", t->own) : TT_OK;
}

static tt_status write_rank(job *j, const char *path)
{
    tt_value *v = tt_value_map_new();
    tt_status st = v != NULL ? describe_rank(j->t, v) : TT_ERR_NOMEM;

    if (st == TT_OK)
        st = tti_value_write(path, v);
    tt_value_free(v);
    return st;
}

typedef tt_status (*write_fn)(job *j, const char *path);

/* One file of this rank, and its facts. */
static tt_status write_file(job *j, const char *format, write_fn fn)
{
    char name[64];
    char *path;
    tt_status st;

    snprintf(name, sizeof name, format, j->rank);
    path = tti_path_join(j->path, name);
    st = path != NULL ? fn(j, path) : TT_ERR_NOMEM;
    tti_mfree(path);
    TT_TRY(st);
    return tt_value_list_give(tt_value_map_get(j->mine, "files"), tti_file_facts(j->path, name));
}

static tt_status write_files(job *j)
{
    j->path = tti_path_join(j->dir, j->name);
    j->mine = tt_value_map_new();
    if (j->path == NULL || j->mine == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_value_map_give(j->mine, "files", tt_value_list_new()));
    if (j->rank < j->n_parts)
        TT_TRY(write_file(j, "tensors-%d.safetensors", write_tensors));
    return write_file(j, "rank-%d.cbor", write_rank);
}

/* ---- the manifest ---------------------------------------------------------------------------- */

static tt_status add_files(job *j, tt_value *list)
{
    const tt_value *first = tt_value_map_get(tt_value_at(j->all, 0), "tensors");

    for (int r = 0; r < tti_checkpoint_ranks(j->pg); r++) {
        const tt_value *one = tt_value_at(j->all, (size_t)r);
        const tt_value *files = tt_value_map_get(one, "files");

        if (r < j->n_parts && !tt_value_equal(tt_value_map_get(one, "tensors"), first))
            return TT_FAIL(TT_ERR_INVALID,
                           "checkpoint: rank 0 has %lld tensors to save, but rank %d has %lld",
                           (long long)tt_value_as_int(first), r,
                           (long long)tt_value_as_int(tt_value_map_get(one, "tensors")));
        for (size_t i = 0; i < tt_value_count(files); i++)
            TT_TRY(tt_value_list_add(list, tt_value_at(files, i)));
    }
    return TT_OK;
}

static tt_status describe(job *j, tt_value *v)
{
    tt_value *list = tt_value_list_new();
    int64_t serial;

    TT_TRY(tt_value_map_give(v, "files", list));
    TT_TRY(add_files(j, list));
    TT_TRY(tti_checkpoint_next_serial(j->dir, &serial));
    TT_TRY(tt_value_map_give(v, "serial", tt_value_int_new(serial)));
    TT_TRY(tt_value_map_give(v, "format", tt_value_text_new("tutti checkpoint")));
    TT_TRY(tt_value_map_give(v, "version", tt_value_int_new(1)));
    TT_TRY(tt_value_map_give(v, "ranks", tt_value_int_new(tti_checkpoint_ranks(j->pg))));
    TT_TRY(tt_value_map_give(v, "step", tt_value_int_new(j->t->step)));
    TT_TRY(tt_value_map_give(v, "epoch", tt_value_int_new((int64_t)j->t->epoch)));
    TT_TRY(tt_value_map_give(v, "samples", tt_value_int_new(j->t->samples)));
    return j->t->value != NULL ? tt_value_map_set(v, "value", j->t->value) : TT_OK;
}

static tt_status complete(job *j, int keep)
{
    tt_value *v = tt_value_map_new();
    char *path = tti_path_join(j->path, TTI_MANIFEST);
    tt_status st = v != NULL && path != NULL ? describe(j, v) : TT_ERR_NOMEM;

    if (st == TT_OK)
        st = tti_value_write(path, v);
    tti_mfree(path);
    tt_value_free(v);
    if (st == TT_OK)
        st = tti_checkpoint_set_latest(j->dir, j->name);
    if (st == TT_OK)
        tti_checkpoint_prune(j->dir, j->name, keep);
    return st;
}

/* ---- all of it -------------------------------------------------------------------------------- */

/* What a failed save wrote goes, so that it does not fill the disk; on rank 0, which made the directory. */
static tt_status give_up(job *j, tt_status st)
{
    if (j->rank == 0 && j->name != NULL)
        tti_checkpoint_remove(j->dir, j->name);
    return st;
}

/* A rank that fails to hear of the others after rank 0 completed the checkpoint leaves it: it is good. */
static tt_status save(job *j, int keep)
{
    tt_status st = TT_OK;

    if (j->rank == 0) {
        j->name = tti_checkpoint_make_dir(j->dir, j->t->step);
        st = j->name != NULL ? TT_OK : tt_last_status();
    }
    st = tti_agree_text(j->pg, st, &j->name);
    if (st != TT_OK)
        return give_up(j, st);
    TT_SCOPE {
        st = write_files(j);
    }
    st = tti_agree(j->pg, st, j->mine, &j->all);
    if (st != TT_OK)
        return give_up(j, st);
    if (j->rank == 0) {
        st = complete(j, keep);
        if (st != TT_OK)
            give_up(j, st);
    }
    return tti_agree(j->pg, st, NULL, NULL);
}

tt_status tt_training_save(const char *dir, tt_pg *pg, const tt_training *t,
                           const tt_training_save_options *opt)
{
    const tt_training_save_options defaults = { 0 };
    job j = { .dir = dir, .pg = pg, .t = t };
    tt_status st;

    opt = opt != NULL ? opt : &defaults;
    if (dir == NULL || t == NULL)
        return tti_null_given("checkpoint", "a directory and a training");
    if (dir[0] == '\0')
        return TT_FAIL(TT_ERR_INVALID, "checkpoint: expected a directory, got an empty name");
    if (t->step < 0 || opt->keep < 0)
        return TT_FAIL(TT_ERR_INVALID, "checkpoint: step %lld or keep %d is negative",
                       (long long)t->step, opt->keep);
    if (pg != NULL && !tt_pg_is_member(pg))
        return TT_OK;
    j.rank = tti_group_rank(pg);
    j.n_parts = opt->sharded ? tti_checkpoint_ranks(pg) : 1;
    st = save(&j, opt->keep > 0 ? opt->keep : 2);
    tt_value_free(j.mine);
    tt_value_free(j.all);
    tti_mfree(j.path);
    tti_mfree(j.name);
    return st;
}

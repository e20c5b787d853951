/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a checkpoint: everything is verified on all ranks before anything of the training changes. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

typedef struct found {
    char *path;
    tt_value *manifest;
    tt_value *rank;         /* this rank's file, or that of rank 0 */
    tt_state_dict *tensors; /* of all parts */
    bool was_there;         /* this rank, when the checkpoint was written */
    bool same_size;
} found;

static void found_fini(found *f)
{
    tti_mfree(f->path);
    tt_value_free(f->manifest);
    tt_value_free(f->rank);
    tt_state_dict_free(f->tensors);
}

/* ---- reading ------------------------------------------------------------------------------- */

/* For a training its tensors go to devices; t NULL: they stay on the host. */
static tt_value *read_value(const char *dir, const char *name, const tt_training *t)
{
    char *path = tti_path_join(dir, name);
    tt_value *v = NULL;

    if (path != NULL)
        v = t != NULL ? tt_value_load(path, t->devices) : tti_value_read(path);

    tti_mfree(path);
    return v;
}

static bool has_int(const tt_value *v, const char *name, int64_t least)
{
    return tt_value_map_has(v, name) &&
           tt_value_kind_of(tt_value_map_get(v, name)) == TT_VALUE_INT &&
           tt_value_as_int(tt_value_map_get(v, name)) >= least;
}

/* The manifest, which is what it should be. */
static tt_value *read_manifest(const char *dir, const tt_training *t)
{
    tt_value *v = read_value(dir, TTI_MANIFEST, t);

    if (v == NULL)
        return NULL;
    if (tt_value_kind_of(v) == TT_VALUE_MAP && has_int(v, "version", 1) && has_int(v, "ranks", 1) &&
        has_int(v, "step", 0) && has_int(v, "epoch", INT64_MIN) &&
        has_int(v, "samples", INT64_MIN) && tt_value_map_has(v, "files") &&
        tt_value_as_int(tt_value_map_get(v, "version")) == 1)
        return v;
    tt_value_free(v);
    return TT_FAIL_NULL(TT_ERR_FORMAT, "checkpoint: \"%s/%s\" is not a manifest of version 1", dir,
                        TTI_MANIFEST);
}

tt_status tt_training_check(const char *path)
{
    tt_value *manifest;
    tt_status st;

    if (path == NULL)
        return TT_FAIL(TT_ERR_INVALID, "checkpoint: expected a path, got NULL");
    manifest = read_manifest(path, NULL);
    st = manifest != NULL ? tti_check_files(path, manifest) : tt_last_status();
    tt_value_free(manifest);
    return st;
}

static tt_status add_part(found *f, const char *name)
{
    char *path = tti_path_join(f->path, name);
    tt_state_dict *part = path != NULL ? tt_state_dict_load(path) : NULL;
    tt_status st = part != NULL ? TT_OK : tt_last_status();

    for (int i = 0; st == TT_OK && i < tt_state_dict_count(part); i++)
        st = tt_state_dict_set(f->tensors, tt_state_dict_name(part, i),
                               tt_state_dict_tensor(part, i));
    tt_state_dict_free(part);
    tti_mfree(path);
    return st;
}

static tt_status read_tensors(found *f)
{
    const tt_value *files = tt_value_map_get(f->manifest, "files");

    f->tensors = tt_state_dict_new();
    if (f->tensors == NULL)
        return TT_ERR_NOMEM;
    for (size_t i = 0; i < tt_value_count(files); i++) {
        const char *name = tt_value_as_text(tt_value_map_get(tt_value_at(files, i), "file"));

        if (strncmp(name, "tensors-", 8) == 0)
            TT_TRY(add_part(f, name));
    }
    return TT_OK;
}

static tt_status read_all(found *f, const tt_training *t, int rank, int size)
{
    char name[64];
    int64_t ranks;

    f->manifest = read_manifest(f->path, t);
    if (f->manifest == NULL)
        return tt_last_status();
    TT_TRY(tti_check_files(f->path, f->manifest));
    TT_TRY(read_tensors(f));
    ranks = tt_value_as_int(tt_value_map_get(f->manifest, "ranks"));
    f->was_there = rank < ranks;
    f->same_size = size == ranks;
    snprintf(name, sizeof name, "rank-%d.cbor", f->was_there ? rank : 0);
    f->rank = read_value(f->path, name, t);
    return f->rank != NULL ? TT_OK : tt_last_status();
}

/* ---- into the training ------------------------------------------------------------------------ */

static int64_t int_at(const tt_value *list, size_t i)
{
    return tt_value_as_int(tt_value_at(list, i));
}

static tt_status set_generators(const found *f, const tt_training *t, int rank)
{
    const tt_value *list = tt_value_map_get(f->rank, "generators");
    size_t n = tt_value_count(list) / 2;

    if (n != (size_t)t->n_generators + 1)
        return TT_FAIL(TT_ERR_INVALID,
                       "checkpoint: it has %zu generators besides the default one, expected %d",
                       n > 0 ? n - 1 : 0, t->n_generators);
    for (size_t i = 0; i < n; i++) {
        tt_generator *g = i == 0 ? tt_default_generator(TT_CPU) : t->generators[i - 1];
        tt_generator_state s = { (uint64_t)int_at(list, 2 * i), (uint64_t)int_at(list, 2 * i + 1) };

        if (!f->was_there) /* rank 0's would give the numbers of rank 0 */
            s.seed += 0x9e3779b97f4a7c15u * (uint64_t)rank;
        tt_generator_set(g, s);
    }
    return TT_OK;
}

static void replace(tt_value **slot, const tt_value *map, const char *name, bool take)
{
    tt_value *now = take && tt_value_map_has(map, name) ? tt_value_map_get(map, name) : NULL;

    tt_value_free(*slot);
    *slot = now != NULL ? tt_value_retain(now) : NULL;
}

static tt_status set_extra(const found *f, tt_state_dict *to)
{
    for (int i = 0; i < tt_state_dict_count(f->tensors); i++) {
        const char *name = tt_state_dict_name(f->tensors, i);

        if (strncmp(name, "extra.", 6) == 0)
            TT_TRY(tt_state_dict_set(to, name + 6, tt_state_dict_tensor(f->tensors, i)));
    }
    return TT_OK;
}

static tt_status apply(const found *f, tt_training *t, int rank)
{
    const tt_load_options of_model = { .prefix = "model." };

    TT_TRY(set_generators(f, t, rank));
    if (t->module != NULL)
        TT_TRY(tt_module_load_state_dict(t->module, f->tensors, &of_model, NULL));
    if (t->optim != NULL)
        TT_TRY(tt_optim_load(t->optim, f->tensors, "optim."));
    if (t->schedule != NULL)
        TT_TRY(tt_schedule_load(t->schedule, f->tensors, "schedule."));
    if (t->tensors != NULL)
        TT_TRY(set_extra(f, t->tensors));
    replace(&t->value, f->manifest, "value", true);
    replace(&t->own, f->rank, "own", f->same_size);
    t->step = tt_value_as_int(tt_value_map_get(f->manifest, "step"));
    t->epoch = (uint64_t)tt_value_as_int(tt_value_map_get(f->manifest, "epoch"));
    t->samples = tt_value_as_int(tt_value_map_get(f->manifest, "samples"));
    return TT_OK;
}

/* `dir`, if it is a checkpoint, or the latest in it. */
static char *choose(const char *dir)
{
    char *manifest = tti_path_join(dir, TTI_MANIFEST);
    bool is_one = manifest != NULL && access(manifest, F_OK) == 0;

    tti_mfree(manifest);
    return is_one ? tti_strdup(dir) : tt_training_latest(dir);
}

static tt_status load(found *f, const char *dir, tt_pg *pg, tt_training *t)
{
    int rank = tti_group_rank(pg);
    tt_status st = TT_OK;

    if (rank == 0) {
        f->path = choose(dir);
        st = f->path != NULL ? TT_OK : tt_last_status();
    }
    TT_TRY(tti_agree_text(pg, st, &f->path));
    TT_TRY(tti_agree(pg, read_all(f, t, rank, tti_checkpoint_ranks(pg)), NULL, NULL));
    return tti_agree(pg, apply(f, t, rank), NULL, NULL);
}

tt_status tt_training_load(const char *dir, tt_pg *pg, tt_training *t)
{
    found f = { 0 };
    tt_status st = TT_OK;

    if (dir == NULL || t == NULL)
        return tti_null_given("checkpoint", "a directory and a training");
    if (pg != NULL && !tt_pg_is_member(pg))
        return TT_OK;
    TT_SCOPE {
        st = load(&f, dir, pg, t);
        found_fini(&f);
    }
    return st;
}

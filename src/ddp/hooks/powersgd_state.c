/* SPDX-License-Identifier: Apache-2.0 */
/* PowerSGD's state as a record, and in files. Names of fields are PyTorch's. */
#include <string.h>

#include "base/error.h"
#include "ddp/hooks/powersgd.h"
#include "io/file.h"
#include "tutti/ops.h"

#define TYPE "PowerSGDState"

/* ---- writing ------------------------------------------------------------------------------------ */

static tt_status put_tensor(tt_value *map, const char *name, tt_tensor *t)
{
    tt_status st = TT_OK;

    TT_SCOPE
        TT_NO_GRAD
        {
            st = tt_value_map_give(
                map, name, t != NULL ? tt_value_tensor_new(tt_clone(t)) : tt_value_null_new());
        }
    return st;
}

static tt_status put_memories(tt_value *v, const tt_powersgd *s)
{
    tt_value *list = tt_value_list_new();
    tt_status st = list != NULL ? TT_OK : TT_ERR_NOMEM;

    for (size_t i = 0; st == TT_OK && i < s->n_memories; i++) {
        tt_value *m = tt_value_map_new();

        if (m == NULL)
            st = TT_ERR_NOMEM;
        if (st == TT_OK)
            st = put_tensor(m, "error", s->memories[i].error);
        if (st == TT_OK)
            st = put_tensor(m, "p", s->memories[i].p);
        if (st == TT_OK)
            st = put_tensor(m, "q", s->memories[i].q);
        if (st == TT_OK)
            st = tt_value_list_add(list, m);
        tt_value_free(m);
    }
    if (st == TT_OK)
        return tt_value_map_give(v, "buckets", list);
    tt_value_free(list);
    return st;
}

static tt_status put_int(tt_value *v, const char *name, int64_t i)
{
    return tt_value_map_give(v, name, tt_value_int_new(i));
}

static tt_status put_float(tt_value *v, const char *name, double f)
{
    return tt_value_map_give(v, name, tt_value_float_new(f));
}

static tt_status put_all(tt_value *v, const tt_powersgd *s)
{
    const tt_powersgd_options *o = &s->options;
    tt_generator_state gen = tt_generator_get(s->gen);

    TT_TRY(put_int(v, "matrix_approximation_rank", o->rank));
    TT_TRY(put_int(v, "start_powerSGD_iter", o->start_iter));
    TT_TRY(put_float(v, "min_compression_rate", o->min_compression_rate));
    TT_TRY(put_float(v, "orthogonalization_epsilon", o->orthogonalization_epsilon));
    TT_TRY(put_int(v, "use_error_feedback", !o->no_error_feedback));
    TT_TRY(put_int(v, "warm_start", !o->no_warm_start));
    TT_TRY(put_int(v, "random_seed", (int64_t)o->seed));
    TT_TRY(put_int(v, "rng_seed", (int64_t)gen.seed));
    TT_TRY(put_int(v, "rng_offset", (int64_t)gen.offset));
    TT_TRY(put_int(v, "iter", s->iter));
    TT_TRY(put_int(v, "total_numel_before_compression", s->numel_before));
    TT_TRY(put_int(v, "total_numel_after_compression", s->numel_after));
    return put_memories(v, s);
}

tt_value *tt_powersgd_save(const tt_powersgd *s)
{
    tt_value *v;

    if (s == NULL)
        return TT_NULL_GIVEN("powersgd save", "a state");
    v = tt_value_record_new(TYPE);
    if (v != NULL && put_all(v, s) == TT_OK) {
        tt_warn("powersgd", "the process group is not part of a saved PowerSGD state");
        return v;
    }
    tt_value_free(v);
    return NULL;
}

/* ---- reading -------------------------------------------------------------------------------------- */

static tt_value *field(const tt_value *v, const char *name, tt_value_kind kind)
{
    tt_value *f = tt_value_map_has(v, name) ? tt_value_map_get(v, name) : NULL;

    if (tt_value_kind_of(f) == kind)
        return f;
    return TT_FAIL_NULL(TT_ERR_FORMAT, "powersgd load: expected field \"%s\" of kind %s, got %s",
                        name, tt_value_kind_name(kind),
                        f != NULL ? tt_value_kind_name(tt_value_kind_of(f)) : "none");
}

static tt_status get_int(const tt_value *v, const char *name, int64_t *i_p)
{
    tt_value *f = field(v, name, TT_VALUE_INT);

    *i_p = f != NULL ? tt_value_as_int(f) : 0;
    return f != NULL ? TT_OK : tt_last_status();
}

static tt_status get_float(const tt_value *v, const char *name, double *f_p)
{
    tt_value *f = field(v, name, TT_VALUE_FLOAT);

    *f_p = f != NULL ? tt_value_as_float(f) : 0;
    return f != NULL ? TT_OK : tt_last_status();
}

static tt_status get_options(const tt_value *v, tt_powersgd_options *o)
{
    int64_t rank, feedback, warm, seed;

    *o = (tt_powersgd_options){ 0 };
    TT_TRY(get_int(v, "matrix_approximation_rank", &rank));
    TT_TRY(get_int(v, "start_powerSGD_iter", &o->start_iter));
    TT_TRY(get_float(v, "min_compression_rate", &o->min_compression_rate));
    TT_TRY(get_float(v, "orthogonalization_epsilon", &o->orthogonalization_epsilon));
    TT_TRY(get_int(v, "use_error_feedback", &feedback));
    TT_TRY(get_int(v, "warm_start", &warm));
    TT_TRY(get_int(v, "random_seed", &seed));
    if (rank < 1 || rank > INT32_MAX)
        return TT_FAIL(TT_ERR_FORMAT, "powersgd load: expected a rank above 0, got %lld",
                       (long long)rank);
    o->rank = (int)rank;
    o->start_iter = o->start_iter == 0 ? TT_POWERSGD_AT_ONCE : o->start_iter;
    o->no_error_feedback = feedback == 0;
    o->no_warm_start = warm == 0;
    o->seed = (uint64_t)seed;
    return TT_OK;
}

static tt_status get_course(const tt_value *v, tt_powersgd *s)
{
    int64_t seed, offset;

    TT_TRY(get_int(v, "rng_seed", &seed));
    TT_TRY(get_int(v, "rng_offset", &offset));
    TT_TRY(get_int(v, "iter", &s->iter));
    TT_TRY(get_int(v, "total_numel_before_compression", &s->numel_before));
    TT_TRY(get_int(v, "total_numel_after_compression", &s->numel_after));
    tt_generator_set(s->gen,
                     (tt_generator_state){ .seed = (uint64_t)seed, .offset = (uint64_t)offset });
    return TT_OK;
}

static tt_status get_tensor(const tt_value *map, const char *name, tt_tensor **t_p)
{
    tt_value *f = tt_value_map_has(map, name) ? tt_value_map_get(map, name) : NULL;
    tt_status st = TT_OK;

    *t_p = NULL;
    if (tt_value_kind_of(f) == TT_VALUE_NULL)
        return TT_OK;
    f = field(map, name, TT_VALUE_TENSOR);
    if (f == NULL)
        return tt_last_status();
    if (tt_tensor_dims(tt_value_as_tensor(f)) != 1 || tt_tensor_is_sparse(tt_value_as_tensor(f)))
        return TT_FAIL(TT_ERR_FORMAT, "powersgd load: expected \"%s\" with one dimension", name);
    TT_SCOPE
        TT_NO_GRAD
        {
            *t_p = tt_tensor_retain(tt_clone(tt_value_as_tensor(f)));
            st = *t_p != NULL ? TT_OK : tt_last_status();
        }
    return st;
}

static tt_status get_memories(const tt_value *v, tt_powersgd *s)
{
    tt_value *list = field(v, "buckets", TT_VALUE_LIST);

    if (list == NULL)
        return tt_last_status();
    for (size_t i = 0; i < tt_value_count(list); i++) {
        const tt_value *map = tt_value_at(list, i);
        tti_powersgd_memory *m = tti_powersgd_memory_at(s, (int)i);

        if (m == NULL)
            return TT_ERR_NOMEM;
        if (tt_value_kind_of(map) != TT_VALUE_MAP)
            return TT_FAIL(TT_ERR_FORMAT, "powersgd load: expected bucket %zu as a map, got %s", i,
                           tt_value_kind_name(tt_value_kind_of(map)));
        TT_TRY(get_tensor(map, "error", &m->error));
        TT_TRY(get_tensor(map, "p", &m->p));
        TT_TRY(get_tensor(map, "q", &m->q));
    }
    return TT_OK;
}

tt_powersgd *tt_powersgd_load(const tt_value *v)
{
    tt_powersgd_options options;
    tt_powersgd *s;

    if (v == NULL)
        return TT_NULL_GIVEN("powersgd load", "a value");
    if (tt_value_kind_of(v) != TT_VALUE_RECORD || strcmp(tt_value_type_name(v), TYPE) != 0)
        return TT_FAIL_NULL(TT_ERR_FORMAT, "powersgd load: expected a record of type %s", TYPE);
    if (get_options(v, &options) != TT_OK)
        return NULL;
    s = tt_powersgd_new(tt_pg_is_initialized() ? tt_pg_default() : NULL, &options);
    if (s == NULL)
        return NULL;
    if (get_course(v, s) == TT_OK && get_memories(v, s) == TT_OK) {
        tt_warn("powersgd", "a loaded PowerSGD state uses the %s process group",
                s->pg != NULL ? "default" : "tt_ddp's");
        return s;
    }
    tt_powersgd_free(s);
    return NULL;
}

/* ---- files ---------------------------------------------------------------------------------------- */

tt_status tt_powersgd_save_file(const tt_powersgd *s, const char *path)
{
    tt_value *v = tt_powersgd_save(s);
    void *data = NULL;
    size_t size = 0;
    tt_status st = v != NULL ? tt_value_encode(v, &data, &size) : tt_last_status();
    tti_writer w;

    tt_value_free(v);
    TT_TRY(st);
    tti_writer_open(&w, "powersgd save", path, TTI_WRITER_DURABLE);
    tti_writer_put(&w, data, size);
    st = tti_writer_finish(&w);
    tt_bytes_free(data);
    return st;
}

tt_powersgd *tt_powersgd_load_file(const char *path)
{
    tti_bytes *bytes = tti_bytes_map("powersgd load", path);
    tt_powersgd *s = NULL;
    tt_value *v;

    if (bytes == NULL)
        return NULL;
    v = tt_value_decode(bytes->data, bytes->size);
    if (v != NULL)
        s = tt_powersgd_load(v);
    tt_value_free(v);
    tti_bytes_free(bytes);
    return s;
}

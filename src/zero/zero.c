/* SPDX-License-Identifier: Apache-2.0 */
/* tt_zero: its life, groups, steps, and what it tells of itself. */
#include "base/error.h"
#include "zero/zero.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "optim/optim.h"
#include "tutti/autograd.h"
#include "tutti/collective.h"

/* ---- the same on all ranks -------------------------------------------------------------------- */

static tt_status check_params(tt_tensor *const *params, int n)
{
    if (n < 0 || (n > 0 && params == NULL))
        return TT_FAIL(TT_ERR_INVALID, "zero: expected an array of parameters, got %d of them", n);
    for (int i = 0; i < n; i++) {
        if (params[i] == NULL)
            return TTI_NULL("zero: parameter %d is NULL", i);
        if (params[i]->storage == NULL || params[i]->grad_fn != NULL)
            return TT_FAIL(TT_ERR_INVALID, "zero: expected dense leaves, parameter %d is none", i);
        if (!tt_device_equal(params[i]->device, params[0]->device))
            return TT_FAIL(TT_ERR_UNSUPPORTED,
                           "zero: parameters 0 and %d are on different devices: %s and %s", i,
                           tt_device_name(params[0]->device, (char[16]){ 0 }, 16),
                           tt_device_name(params[i]->device, (char[16]){ 0 }, 16));
    }
    return TT_OK;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (tt_tensor *const *)a, y = (uintptr_t) * (tt_tensor *const *)b;

    return (x > y) - (x < y);
}

/* No parameter may be there twice: two ranks would update it, which their optimizers cannot see. */
static tt_status check_distinct(const tt_zero *z, tt_tensor *const *params, int n)
{
    size_t total = (size_t)n, at = 0;
    tt_tensor **all;
    tt_status st = TT_OK;

    for (size_t g = 0; g < z->n_groups; g++)
        total += (size_t)z->groups[g].n;
    all = tti_malloc(total * sizeof *all);
    if (all == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        all[at++] = params[i];
    for (size_t g = 0; g < z->n_groups; g++)
        for (int i = 0; i < z->groups[g].n; i++)
            all[at++] = z->groups[g].params[i].t;
    qsort(all, total, sizeof *all, by_address);
    for (size_t i = 1; i < total && st == TT_OK; i++)
        if (all[i] == all[i - 1])
            st = TT_FAIL(TT_ERR_INVALID, "zero: a parameter is there more than once");
    tti_mfree(all);
    return st;
}

/* "float32 [3, 4]" for each. */
static tt_value *describe(tt_tensor *const *params, int n)
{
    tt_value *list = tt_value_list_new();
    tt_status st = list != NULL ? TT_OK : TT_ERR_NOMEM;

    for (int i = 0; st == TT_OK && i < n; i++) {
        tti_text text = { 0 };

        tti_text_addf(&text, "%s [", tt_dtype_name((tt_dtype)params[i]->dtype));
        for (int k = 0; k < params[i]->n_dims; k++)
            tti_text_addf(&text, k > 0 ? ", %lld" : "%lld", (long long)params[i]->dims[k]);
        tti_text_add(&text, "]");
        st = text.status;
        if (st == TT_OK)
            st = tt_value_list_give(list, tt_value_text_new(tti_text_str(&text)));
        tti_text_fini(&text);
    }
    if (st == TT_OK)
        return list;
    tt_value_free(list);
    return NULL;
}

static tt_status differ(const tt_value *a, const tt_value *b, int rank)
{
    size_t n = tt_value_count(a), m = tt_value_count(b);

    if (n != m)
        return TT_FAIL(TT_ERR_INVALID, "zero: rank 0 has %zu parameters, but rank %d has %zu", n,
                       rank, m);
    for (size_t i = 0; i < n; i++) {
        const char *x = tt_value_as_text(tt_value_at(a, i));
        const char *y = tt_value_as_text(tt_value_at(b, i));

        if (x == NULL || y == NULL || strcmp(x, y) != 0)
            return TT_FAIL(TT_ERR_INVALID, "zero: parameter %zu is %s on rank 0, but %s on rank %d",
                           i, x, y, rank);
    }
    return TT_OK;
}

static tt_status verify(const tt_zero *z, tt_tensor *const *params, int n)
{
    tt_value *mine = describe(params, n);
    tt_value **all = tti_calloc((size_t)z->size, sizeof *all);
    tt_status st = mine != NULL && all != NULL ? TT_OK : TT_ERR_NOMEM;

    if (st == TT_OK)
        st = tt_pg_all_gather_object(z->pg, mine, all, NULL);
    for (int r = 1; st == TT_OK && r < z->size; r++)
        st = differ(all[0], all[r], r);
    for (int r = 0; all != NULL && r < z->size; r++)
        tt_value_free(all[r]);
    tti_mfree(all);
    tt_value_free(mine);
    return st;
}

/* ---- making --------------------------------------------------------------------------------- */

typedef struct maker {
    tt_zero_make_fn make; /* NULL: add a group to the optimizer that is there */
    const void *ctx;
    const tt_group_options *opt;
} maker;

static tt_status make_local(tt_zero *z, const tti_zero_group *g, const maker *how)
{
    int n;
    tt_tensor **own = tti_zero_own(z, g, &n);
    tt_status st = own != NULL ? TT_OK : TT_ERR_NOMEM;

    if (st == TT_OK && how->make == NULL) {
        st = tt_optim_add_group(z->optim, own, n, how->opt);
    } else if (st == TT_OK) {
        z->optim = how->make(own, n, how->ctx);
        st = z->optim != NULL ? TT_OK : tt_last_status();
    }
    tti_mfree(own);
    return st;
}

static tt_status fill_group(tt_zero *z, tti_zero_group *g, const maker *how, tt_tensor *const *ps,
                            int n)
{
    TT_TRY(tti_zero_partition(z, g, ps, n));
    TT_TRY(tti_zero_buckets(z, g));
    return make_local(z, g, how);
}

static tt_status add_group(tt_zero *z, const maker *how, tt_tensor *const *params, int n)
{
    tti_zero_group g = { 0 };
    tt_status st;

    TT_TRY(check_params(params, n));
    TT_TRY(check_distinct(z, params, n));
    TT_TRY(verify(z, params, n));
    TT_TRY(tti_vec_reserve((void **)&z->groups, &z->cap_groups, z->n_groups + 1, sizeof g));
    st = fill_group(z, &g, how, params, n);
    if (st == TT_OK) {
        tti_zero_move_in(z, &g);
        z->groups[z->n_groups++] = g;
        return TT_OK;
    }
    for (int i = 0; i < g.n; i++)
        z->loads[g.params[i].owner] -= g.params[i].t->numel;
    tti_zero_group_fini(&g, z->size);
    return st;
}

static tt_status set_up(tt_zero *z, tt_pg *pg)
{
    z->pg = tt_pg_retain(pg);
    z->rank = tt_pg_rank(pg);
    z->size = tt_pg_size(pg);
    z->loads = tti_calloc((size_t)z->size, sizeof *z->loads);
    return z->loads != NULL ? TT_OK : TT_ERR_NOMEM;
}

tt_zero *tt_zero_new(tt_pg *pg, tt_tensor *const *params, int n, tt_zero_make_fn make,
                     const void *ctx, const tt_zero_options *opt)
{
    const maker how = { .make = make, .ctx = ctx };
    tti_error_copy error;
    tt_zero *z;

    if (pg == NULL)
        return TT_NULL_GIVEN("zero", "a group");
    if (make == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "zero: expected a group and a function that makes optimizers, got "
                            "NULL");
    if (!tt_pg_is_member(pg))
        return TT_FAIL_NULL(TT_ERR_INVALID, "zero: this process is no member of group %s",
                            tt_pg_name(pg));
    z = tti_calloc(1, sizeof *z);
    if (z == NULL)
        return NULL;
    z->copy_params = opt != NULL && opt->copy_params;
    if (set_up(z, pg) == TT_OK && add_group(z, &how, params, n) == TT_OK)
        return z;
    tti_error_save(&error);
    tt_zero_free(z);
    tti_error_restore(&error);
    return NULL;
}

static tt_optim *make_sgd(tt_tensor *const *params, int n, const void *ctx)
{
    return tt_sgd_new(params, n, ctx);
}

static tt_optim *make_adam(tt_tensor *const *params, int n, const void *ctx)
{
    return tt_adam_new(params, n, ctx);
}

static tt_optim *make_adamw(tt_tensor *const *params, int n, const void *ctx)
{
    return tt_adamw_new(params, n, ctx);
}

tt_zero *tt_zero_sgd_new(tt_pg *pg, tt_tensor *const *params, int n, const tt_sgd_options *optim,
                         const tt_zero_options *opt)
{
    return tt_zero_new(pg, params, n, make_sgd, optim, opt);
}

tt_zero *tt_zero_adam_new(tt_pg *pg, tt_tensor *const *params, int n, const tt_adam_options *optim,
                          const tt_zero_options *opt)
{
    return tt_zero_new(pg, params, n, make_adam, optim, opt);
}

tt_zero *tt_zero_adamw_new(tt_pg *pg, tt_tensor *const *params, int n, const tt_adam_options *optim,
                           const tt_zero_options *opt)
{
    return tt_zero_new(pg, params, n, make_adamw, optim, opt);
}

void tt_zero_free(tt_zero *z)
{
    if (z == NULL)
        return;
    tt_optim_free(z->optim);
    for (size_t i = 0; i < z->n_groups; i++)
        tti_zero_group_fini(&z->groups[i], z->size);
    tti_mfree(z->groups);
    tti_mfree(z->loads);
    tt_pg_free(z->pg);
    tti_mfree(z);
}

tt_status tt_zero_add_group(tt_zero *z, tt_tensor *const *params, int n,
                            const tt_group_options *opt)
{
    if (z == NULL)
        return tti_null_given("zero", "a tt_zero");
    return add_group(z, &(maker){ .opt = opt }, params, n);
}

/* ---- training ------------------------------------------------------------------------------- */

/* A rank that fails still takes part, so that the others need not wait for it. */
tt_status tti_zero_step(tt_zero *z)
{
    tt_status st = tt_optim_step(z->optim);
    tti_error_copy error;

    if (st == TT_OK)
        return tti_zero_exchange(z);
    tti_error_save(&error);
    (void)tti_zero_exchange(z);
    tti_error_restore(&error);
    return st;
}

tt_status tt_zero_step(tt_zero *z)
{
    if (z == NULL)
        return tti_null_given("zero_step", "a tt_zero");
    TT_TRY(tti_zero_tell_step(z));
    return tti_zero_step(z);
}

tt_status tt_zero_zero_grad(tt_zero *z, bool to_zero)
{
    if (z == NULL)
        return tti_null_given("zero_zero_grad", "a tt_zero");
    for (size_t g = 0; g < z->n_groups; g++)
        for (int i = 0; i < z->groups[g].n; i++)
            TT_TRY(tti_optim_zero_grad(z->groups[g].params[i].t, to_zero));
    return TT_OK;
}

/* ---- asking --------------------------------------------------------------------------------- */

tt_optim *tt_zero_optim(const tt_zero *z)
{
    return z != NULL ? z->optim : NULL;
}

int tt_zero_n_params(const tt_zero *z, int group)
{
    return z != NULL && group >= 0 && (size_t)group < z->n_groups ? z->groups[group].n : -1;
}

int tt_zero_owner(const tt_zero *z, int group, int i)
{
    return i >= 0 && i < tt_zero_n_params(z, group) ? z->groups[group].params[i].owner : -1;
}

size_t tt_zero_state_bytes(const tt_zero *z)
{
    size_t bytes = 0;

    for (size_t g = 0; z != NULL && g < z->optim->n_groups; g++)
        for (int i = 0; i < z->optim->groups[g].n_slots; i++)
            for (int s = 0; s < z->optim->n_states; s++) {
                const tt_tensor *t = z->optim->groups[g].slots[i].state[s];

                bytes += t != NULL ? (size_t)t->numel * tti_esize(t) : 0;
            }
    return bytes;
}

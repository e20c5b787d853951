/* SPDX-License-Identifier: Apache-2.0 */
/* The conversion of operators' inputs, and the memory of converted weights: a weight that several
 * operators use is converted once, and its gradients meet in the half type. */
#include "ops/autocast.h"

#include "ops/op.h"

typedef struct kept_cast {
    tt_tensor *from, *to; /* both retained */
    uint64_t version;     /* of `from` when it was converted */
} kept_cast;

static _Thread_local tti_autocast_modes modes;
static _Thread_local kept_cast *kept;
static _Thread_local size_t n_kept, cap_kept;
TTI_HOT_TLS bool tti_autocasting;

static void forget(void)
{
    for (size_t i = 0; i < n_kept; i++) {
        tt_tensor_free(kept[i].from);
        tt_tensor_free(kept[i].to);
    }
    tti_mfree(kept);
    kept = NULL;
    n_kept = cap_kept = 0;
}

tti_autocast_modes tti_autocast_get(void)
{
    return modes;
}

void tti_autocast_set(const tti_autocast_modes *m)
{
    bool any = false;

    modes = *m;
    for (int k = 0; k < TTI_N_DEVICE_KINDS; k++)
        any = any || m->on[k];
    tti_autocasting = any;
    if (!any && kept != NULL)
        forget();
}

/* Weights only, and only while recording outside of checkpoints: a result of anything else is used once,
 * one that is not recorded would lose gradients later. */
static bool worth_keeping(const tt_tensor *t)
{
    return t->grad_fn == NULL && tti_wants_grad(t) && tti_grad_mode == TT_GRAD_ON &&
           tti_save_frame == NULL;
}

/* NULL without an error: not there. One that was made before a change is dropped. */
static tt_tensor *find(const tt_tensor *t, tt_dtype dtype)
{
    for (size_t i = 0; i < n_kept; i++) {
        if (kept[i].from != t || kept[i].to->dtype != dtype)
            continue;
        if (kept[i].version == tti_version(t))
            return kept[i].to;
        tt_tensor_free(kept[i].from);
        tt_tensor_free(kept[i].to);
        kept[i] = kept[--n_kept];
        return NULL;
    }
    return NULL;
}

static tt_tensor *cast_weight(tt_tensor *t, tt_dtype dtype)
{
    tt_tensor *to = find(t, dtype);

    if (to != NULL)
        return tti_scope_add(tt_tensor_retain(to));
    to = tt_to_dtype(t, dtype);
    if (to == NULL || tti_vec_reserve((void **)&kept, &cap_kept, n_kept + 1, sizeof *kept) != TT_OK)
        return NULL;
    kept[n_kept++] = (kept_cast){ .from = tt_tensor_retain(t),
                                  .to = tt_tensor_retain(to),
                                  .version = tti_version(t) };
    return to;
}

static bool eligible(const tt_tensor *t, tt_dtype to)
{
    return (t->dtype == TT_F32 || t->dtype == TT_F16 || t->dtype == TT_BF16) && t->dtype != to &&
           t->storage != NULL && (t->flags & TTI_NUMBER) == 0;
}

void tti_autocast(tti_cast_to to, tt_tensor **const *ts, int n)
{
    for (int i = 0; i < n; i++) {
        tt_tensor *t = *ts[i];
        int kind = t != NULL ? t->device.kind : 0;
        tt_dtype dtype = to == TTI_WIDE ? TT_F32 : (tt_dtype)modes.dtype[kind];

        if (t == NULL || !modes.on[kind] || !eligible(t, dtype))
            continue;
        *ts[i] = to == TTI_LOW && worth_keeping(t) ? cast_weight(t, dtype) : tt_to_dtype(t, dtype);
    }
}

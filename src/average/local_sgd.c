/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer whose parameters an averager looks after. */
#include <stdio.h>

#include "base/error.h"
#include "graph/graph.h"
#include "tutti/average.h"
#include "tutti/nn.h"

struct tt_post_local_sgd {
    tt_optim *optim;
    tt_averager *averager;
};

tt_post_local_sgd *tt_post_local_sgd_new(tt_optim *o, tt_averager *a)
{
    tt_post_local_sgd *p = NULL;

    if (o != NULL && a != NULL)
        p = tti_malloc(sizeof *p);
    else
        tti_null_given("post_local_sgd", "an optimizer and an averager");
    if (p == NULL) {
        tt_optim_free(o);
        tt_averager_free(a);
        return NULL;
    }
    *p = (tt_post_local_sgd){ .optim = o, .averager = a };
    return p;
}

void tt_post_local_sgd_free(tt_post_local_sgd *p)
{
    if (p == NULL)
        return;
    tt_optim_free(p->optim);
    tt_averager_free(p->averager);
    tti_mfree(p);
}

static tt_status null_given(const char *what)
{
    return tti_null_given(what, "an optimizer");
}

tt_status tt_post_local_sgd_step(tt_post_local_sgd *p)
{
    if (p == NULL)
        return null_given("post_local_sgd_step");
    TT_TRY(tt_optim_step(p->optim));
    return tt_averager_average_optim(p->averager, p->optim);
}

tt_status tt_post_local_sgd_zero_grad(tt_post_local_sgd *p, bool to_zero)
{
    return p != NULL ? tt_optim_zero_grad(p->optim, to_zero)
                     : null_given("post_local_sgd_zero_grad");
}

tt_optim *tt_post_local_sgd_optim(const tt_post_local_sgd *p)
{
    return p != NULL ? p->optim : NULL;
}

tt_averager *tt_post_local_sgd_averager(const tt_post_local_sgd *p)
{
    return p != NULL ? p->averager : NULL;
}

/* ---- saving and loading ---------------------------------------------------------------------- */

/* The optimizer has checked that the prefix is short. */
static const char *step_name(const char *prefix, char text[256])
{
    snprintf(text, 256, "%sstep", prefix != NULL ? prefix : "");
    return text;
}

tt_status tt_post_local_sgd_save(const tt_post_local_sgd *p, tt_state_dict *sd, const char *prefix)
{
    char name[256];

    if (p == NULL)
        return null_given("post_local_sgd_save");
    TT_TRY(tt_optim_save(p->optim, sd, prefix));
    TT_SCOPE {
        int64_t step = tt_averager_step(p->averager);
        tt_tensor *t = tt_from_data(&step, TT_SHAPE_SCALAR, TT_I64);

        return t != NULL ? tt_state_dict_set(sd, step_name(prefix, name), t) : tt_last_status();
    }
    return TT_OK;
}

tt_status tt_post_local_sgd_load(tt_post_local_sgd *p, const tt_state_dict *sd, const char *prefix)
{
    tt_tensor *t;
    char name[256];
    int64_t step;

    if (p == NULL)
        return null_given("post_local_sgd_load");
    t = sd != NULL ? tt_state_dict_get(sd, step_name(prefix, name)) : NULL;
    if (t != NULL && (t->dtype != TT_I64 || t->numel != 1 || tt_item_int(t) < 0))
        return TT_FAIL(TT_ERR_FORMAT, "post_local_sgd_load: expected \"%s\" to be one int64 >= 0",
                       name);
    step = t != NULL ? tt_item_int(t) : 0;
    TT_TRY(tt_optim_load(p->optim, sd, prefix));
    if (t == NULL)
        tt_warn("average",
                "post_local_sgd_load: the state has no \"%s\": the averager counts from 0", name);
    return tt_averager_set_step(p->averager, step);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers for all parameters of a module. */
#include "base/error.h"
#include "optim/optim.h"
#include "tutti/nn.h"

typedef struct all_params {
    tt_state_dict *list;
    tt_tensor **params;
    int n;
} all_params;

static tt_status params_init(all_params *a, const tt_module *m)
{
    *a = (all_params){ 0 };
    if (m == NULL)
        return tti_null_given("optim", "a module");
    a->list = tt_module_params(m, NULL);
    if (a->list == NULL)
        return tt_last_status();
    a->n = tt_state_dict_count(a->list);
    a->params = tti_malloc((size_t)a->n * sizeof *a->params);
    if (a->params == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < a->n; i++)
        a->params[i] = tt_state_dict_tensor(a->list, i);
    return TT_OK;
}

static void params_fini(all_params *a)
{
    tti_mfree(a->params);
    tt_state_dict_free(a->list);
}

tt_optim *tt_sgd_for(const tt_module *m, const tt_sgd_options *opt)
{
    all_params a;
    tt_optim *o = params_init(&a, m) == TT_OK ? tt_sgd_new(a.params, a.n, opt) : NULL;

    params_fini(&a);
    return o;
}

tt_optim *tt_adam_for(const tt_module *m, const tt_adam_options *opt)
{
    all_params a;
    tt_optim *o = params_init(&a, m) == TT_OK ? tt_adam_new(a.params, a.n, opt) : NULL;

    params_fini(&a);
    return o;
}

tt_optim *tt_adamw_for(const tt_module *m, const tt_adam_options *opt)
{
    all_params a;
    tt_optim *o = params_init(&a, m) == TT_OK ? tt_adamw_new(a.params, a.n, opt) : NULL;

    params_fini(&a);
    return o;
}

tt_optim *tt_adagrad_for(const tt_module *m, const tt_adagrad_options *opt)
{
    all_params a;
    tt_optim *o = params_init(&a, m) == TT_OK ? tt_adagrad_new(a.params, a.n, opt) : NULL;

    params_fini(&a);
    return o;
}

tt_optim *tt_rmsprop_for(const tt_module *m, const tt_rmsprop_options *opt)
{
    all_params a;
    tt_optim *o = params_init(&a, m) == TT_OK ? tt_rmsprop_new(a.params, a.n, opt) : NULL;

    params_fini(&a);
    return o;
}

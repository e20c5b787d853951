/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the divided optimizer share. */
#include "unit/zero/zero_tools.h"

tt_tensor *zt_random(tt_shape shape, tt_dtype dtype, uint64_t seed)
{
    tt_generator *gen = tt_generator_new(seed);
    tt_tensor *t = tt_normal_(tt_empty(shape, dtype, TT_CPU), 0, 1, gen);

    tt_generator_free(gen);
    TT_REQUIRE_NOT_NULL(t);
    return t;
}

/* Sizes that do not divide evenly, two types, one that is not contiguous and one without elements. */
static tt_tensor *make_param(int i)
{
    static const int64_t rows[ZT_PARAMS] = { 7, 1, 33, 5, 16, 3, 100, 0, 12 };
    tt_dtype dtype = i == 3 || i == 5 ? TT_F64 : TT_F32;
    uint64_t seed = tt_test_seed() + (uint64_t)i;
    tt_tensor *t = NULL;

    TT_SCOPE {
        t = zt_random(TT_SHAPE(rows[i], 5), dtype, seed);
        t = tt_tensor_retain(i == 4 ? tt_t(t) : t);
    }
    TT_REQUIRE_NOT_NULL(t);
    TT_REQUIRE_OK(tt_set_requires_grad(t, true));
    return t;
}

tt_optim *zt_optim(zt_kind kind, tt_tensor *const *params, int n)
{
    tt_adam_options adam = { .lr = 0.01, .weight_decay = 0.02 };
    tt_optim *o = kind == ZT_SGD
                      ? tt_sgd_new(params, n, &(tt_sgd_options){ .lr = 0.1, .momentum = 0.9 })
                  : kind == ZT_ADAM ? tt_adam_new(params, n, &adam)
                                    : tt_adamw_new(params, n, &adam);

    TT_REQUIRE_NOT_NULL(o);
    return o;
}

tt_zero *zt_zero(tt_pg *pg, zt_kind kind, tt_tensor *const *params, int n,
                 const tt_zero_options *opt)
{
    tt_adam_options adam = { .lr = 0.01, .weight_decay = 0.02 };
    tt_sgd_options sgd = { .lr = 0.1, .momentum = 0.9 };
    tt_zero *z = kind == ZT_SGD    ? tt_zero_sgd_new(pg, params, n, &sgd, opt)
                 : kind == ZT_ADAM ? tt_zero_adam_new(pg, params, n, &adam, opt)
                                   : tt_zero_adamw_new(pg, params, n, &adam, opt);

    if (z == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_NOT_NULL(z);
    return z;
}

void zt_open(zt_pair *p, tt_pg *pg, zt_kind kind, int n, const tt_zero_options *opt)
{
    for (int i = 0; i < ZT_PARAMS; i++) {
        p->divided[i] = make_param(i);
        p->whole[i] = make_param(i);
    }
    p->zero = zt_zero(pg, kind, p->divided, n, opt);
    p->optim = zt_optim(kind, p->whole, n);
}

void zt_close(zt_pair *p)
{
    tt_zero_free(p->zero);
    tt_optim_free(p->optim);
    for (int i = 0; i < ZT_PARAMS; i++) {
        tt_tensor_free(p->divided[i]);
        tt_tensor_free(p->whole[i]);
    }
}

void zt_give_grads(zt_pair *p, int n, int step)
{
    for (int i = 0; i < n; i++)
        TT_SCOPE {
            tt_tensor *t = p->whole[i];
            uint64_t seed = tt_test_seed() + 1000 + (uint64_t)(step * ZT_PARAMS + i);
            tt_tensor *g = zt_random(tt_tensor_shape(t), tt_tensor_dtype(t), seed);

            if ((step + i) % 7 == 3)
                g = NULL; /* not used in this step */
            TT_REQUIRE_OK(tt_set_grad(p->divided[i], g != NULL ? tt_clone(g) : NULL));
            TT_REQUIRE_OK(tt_set_grad(p->whole[i], g));
        }
}

void zt_train(zt_pair *p, int n, int from, int to)
{
    for (int step = from; step < to; step++) {
        zt_give_grads(p, n, step);
        TT_REQUIRE_OK(tt_zero_step(p->zero));
        TT_REQUIRE_OK(tt_optim_step(p->optim));
    }
}

void zt_check_same(const zt_pair *p, int n)
{
    for (int i = 0; i < n; i++)
        TT_SCOPE {
            tt_close_report r = { 0 };

            if (!tt_compare(tt_detach(p->divided[i]), tt_detach(p->whole[i]),
                            &(tt_close_options){ .exact = true }, &r))
                TT_FAIL_TEST("parameter %d: %s", i, r.text);
        }
}

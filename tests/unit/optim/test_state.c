/* SPDX-License-Identifier: Apache-2.0 */
/* Saving and loading: a training that is interrupted goes on with the same bits. */
#include <string.h>

#include "tutti/nn.h"
#include "tutti/schedule.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

#define N 21

typedef tt_optim *(*make_fn)(tt_tensor *const *params, int n);

static tt_optim *make_sgd(tt_tensor *const *p, int n)
{
    return tt_sgd_new(p, n, &(tt_sgd_options){ .lr = 0.1, .momentum = 0.9, .nesterov = true });
}

static tt_optim *make_adam(tt_tensor *const *p, int n)
{
    return tt_adam_new(p, n, &(tt_adam_options){ .lr = 0.1, .amsgrad = true });
}

static tt_optim *make_adagrad(tt_tensor *const *p, int n)
{
    return tt_adagrad_new(p, n, &(tt_adagrad_options){ .lr_decay = 0.1 });
}

static tt_optim *make_rmsprop(tt_tensor *const *p, int n)
{
    return tt_rmsprop_new(p, n, &(tt_rmsprop_options){ .momentum = 0.5, .centered = true });
}

static const make_fn makers[] = { make_sgd, make_adam, make_adagrad, make_rmsprop };

/* Two parameters; the second has a gradient only in every other step. */
static void step(tt_optim *o, tt_tensor **p, int number)
{
    TT_SCOPE {
        for (int k = 0; k < 2; k++) {
            tt_tensor *g = tt_empty_like(p[k]);

            for (int i = 0; i < N; i++)
                ((float *)tt_tensor_data(g))[i] = (float)((i * 37 + number * 11 + k) % 19 - 9);
            TT_REQUIRE_OK(tt_set_grad(p[k], k == 0 || number % 2 == 0 ? g : NULL));
        }
    }
    TT_REQUIRE_OK(tt_optim_step(o));
}

static void new_params(tt_tensor **p)
{
    for (int k = 0; k < 2; k++) {
        p[k] = tt_empty(TT_SHAPE(3, 7), TT_F32, TT_CPU);
        for (int i = 0; i < N; i++)
            ((float *)tt_tensor_data(p[k]))[i] = (float)(i - 4 * k) * 0.25f;
    }
}

/* The dictionary to a file and back. */
static tt_state_dict *through_file(tt_state_dict *sd, const char *path)
{
    tt_named_tensor entries[64];
    int n = tt_state_dict_count(sd);
    tt_safetensors *file;

    TT_REQUIRE_LE(n, 64);
    for (int i = 0; i < n; i++)
        entries[i] = (tt_named_tensor){ tt_state_dict_name(sd, i), tt_state_dict_tensor(sd, i) };
    TT_REQUIRE_OK(tt_safetensors_save(path, entries, n, NULL, 0));
    tt_state_dict_free(sd);
    sd = tt_state_dict_new();
    file = tt_safetensors_open(path);
    TT_REQUIRE_NOT_NULL(file);
    TT_CHECK_EQ(tt_safetensors_count(file), n);
    for (int i = 0; i < n; i++) {
        tt_safetensors_info info;

        TT_REQUIRE_OK(tt_safetensors_at(file, i, &info));
        TT_REQUIRE_OK(tt_state_dict_set(sd, info.name, tt_safetensors_get(file, info.name)));
    }
    tt_safetensors_free(file);
    return sd;
}

/* Five steps, saved (to a file, if there is a path), loaded into another optimizer, five more. */
static void interrupt(make_fn make, const char *path)
{
    TT_SCOPE {
        tt_tensor *p[2], *q[2];
        tt_state_dict *sd = tt_state_dict_new();
        tt_optim *a, *b;
        tt_schedule *sa, *sb;

        new_params(p);
        new_params(q);
        a = make(p, 2);
        sa = tt_cosine_lr_new(a, 8, 0);
        for (int i = 0; i < 5; i++) {
            step(a, p, i);
            TT_REQUIRE_OK(tt_schedule_step(sa));
        }
        TT_REQUIRE_OK(tt_optim_save(a, sd, "optim."));
        TT_REQUIRE_OK(tt_schedule_save(sa, sd, "schedule."));
        if (path != NULL)
            sd = through_file(sd, path);
        for (int k = 0; k < 2; k++)
            memcpy(tt_tensor_data(q[k]), tt_tensor_data(p[k]), tt_tensor_bytes(p[k]));
        b = make(q, 2);
        sb = tt_cosine_lr_new(b, 8, 0);
        TT_REQUIRE_OK(tt_optim_load(b, sd, "optim."));
        TT_REQUIRE_OK(tt_schedule_load(sb, sd, "schedule."));
        TT_CHECK_EQ(tt_optim_param_steps(b, 0, 1), 3);
        for (int i = 5; i < 10; i++) {
            step(a, p, i);
            step(b, q, i);
            TT_REQUIRE_OK(tt_schedule_step(sa));
            TT_REQUIRE_OK(tt_schedule_step(sb));
        }
        for (int k = 0; k < 2; k++)
            TT_CHECK_MEM(tt_tensor_data(p[k]), tt_tensor_data(q[k]), N * sizeof(float));
        TT_CHECK_NEAR(tt_optim_get_lr(a, 0), tt_optim_get_lr(b, 0), 0);
        tt_schedule_free(sa);
        tt_schedule_free(sb);
        tt_optim_free(a);
        tt_optim_free(b);
        tt_state_dict_free(sd);
    }
}

TT_TEST(optim, a_loaded_state_goes_on_with_the_same_bits)
{
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++)
        interrupt(makers[i], NULL);
}

TT_TEST(optim, so_does_one_from_a_file)
{
    char path[512];

    snprintf(path, sizeof path, "%s/state.safetensors", tt_test_tmpdir());
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++)
        interrupt(makers[i], path);
}

TT_TEST(optim, a_state_of_something_else_is_refused_and_changes_nothing)
{
    TT_SCOPE {
        tt_tensor *p[2], *other = TT_FLOATS(1, 2), *third = TT_FLOATS(1);
        tt_state_dict *sd = tt_state_dict_new();
        tt_optim *a, *b;

        new_params(p);
        a = make_adam(p, 2);
        step(a, p, 0);
        TT_REQUIRE_OK(tt_optim_save(a, sd, NULL));

        b = make_sgd(p, 2);
        TT_CHECK_ERR_SAYS(tt_optim_load(b, sd, NULL), TT_ERR_INVALID,
                          "expected the state of sgd, got that of adam");
        tt_optim_free(b);
        b = make_adam(p, 1);
        TT_CHECK_ERR_SAYS(tt_optim_load(b, sd, NULL), TT_ERR_INVALID,
                          "expected 1 parameters in group 0, the state has 2");
        TT_REQUIRE_OK(tt_optim_add_group(b, &p[1], 1, NULL));
        TT_CHECK_ERR_SAYS(tt_optim_load(b, sd, NULL), TT_ERR_INVALID,
                          "expected 2 groups, the state has 1");
        tt_optim_free(b);
        b = make_adam((tt_tensor *[]){ other, third }, 2);
        TT_CHECK_ERR_SAYS(tt_optim_load(b, sd, NULL), TT_ERR_INVALID,
                          "\"param.0.shape\" to be [2]");
        TT_CHECK_EQ(tt_optim_param_steps(b, 0, 0), 0);
        tt_optim_free(b);
        TT_CHECK_ERR_SAYS(tt_optim_load(a, sd, "x."), TT_ERR_NOT_FOUND, "\"x.kind\"");
        TT_CHECK(tt_state_dict_remove(sd, "group.0.beta1"));
        TT_CHECK_ERR_SAYS(tt_optim_load(a, sd, NULL), TT_ERR_NOT_FOUND, "\"group.0.beta1\"");
        TT_CHECK_EQ(tt_optim_param_steps(a, 0, 0), 1);
        tt_optim_free(a);
        tt_state_dict_free(sd);
    }
}

static tt_status save_and_load(void *ctx)
{
    tt_status st = TT_ERR_NOMEM;
    tt_optim *o = ctx;
    tt_state_dict *sd = tt_state_dict_new();

    if (sd != NULL)
        st = tt_optim_save(o, sd, NULL);
    if (st == TT_OK)
        st = tt_optim_load(o, sd, NULL);
    tt_state_dict_free(sd);
    return st;
}

TT_TEST(optim, saving_and_loading_survive_failing_allocations)
{
    TT_SCOPE {
        tt_tensor *p[2];
        tt_optim *o;

        new_params(p);
        o = make_adam(p, 2);
        step(o, p, 0);
        TT_CHECK_GT(tt_test_fail_allocs(save_and_load, o), 20);
        TT_CHECK_EQ(tt_optim_param_steps(o, 0, 0), 1);
        tt_optim_free(o);
    }
}

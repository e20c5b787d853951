/* SPDX-License-Identifier: Apache-2.0 */
/* Whole trainings while memory is short: every allocation of a step fails once. A step then says so
 * or does without, loses nothing, and the next one works. */
#include <math.h>
#include <stdio.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

typedef struct recipe {
    tt_module *(*build)(void);
    tt_optim *(*optim)(const tt_module *m);
    tt_tensor *(*loss)(tt_module *m);
    bool clip; /* the norm of the gradients, before each update */
} recipe;

typedef struct training {
    const recipe *r;
    tt_module *m;
    tt_optim *o;
    double loss; /* of the last step that succeeded */
} training;

/* ---- five trainings ------------------------------------------------------------------------- */

/* Numbers between -1 and 1 without a random generator. */
static tt_tensor *numbers(tt_shape shape)
{
    tt_tensor *t = tt_empty(shape, TT_F32, TT_CPU);

    for (int64_t i = 0; t != NULL && i < tt_tensor_numel(t); i++)
        ((float *)tt_tensor_data(t))[i] = sinf(1.7f * (float)i + 0.3f);
    return t;
}

static tt_module *mlp(void)
{
    return TT_MLP(TT_ACT_GELU, 4, 8, 3);
}

static tt_optim *adam(const tt_module *m)
{
    return tt_adam_for(m, &(tt_adam_options){ .lr = 0.01, .amsgrad = true });
}

static tt_tensor *mlp_loss(tt_module *m)
{
    tt_tensor *y = tt_module_forward(m, numbers(TT_SHAPE(6, 4)));

    return y != NULL ? tt_cross_entropy(y, TT_INTS(0, 1, 2, 0, 1, 2)) : NULL;
}

static tt_module *cnn(void)
{
    tt_conv_layer_options conv = { .padding = 1 };

    return TT_SEQUENTIAL(tt_conv2d_new(1, 4, 3, &conv), tt_batch_norm2d_new(4, NULL), tt_relu_new(),
                         tt_max_pool2d_new(2, NULL), tt_flatten_new(), tt_dropout_new(0.1),
                         tt_linear_new(4 * 3 * 3, 3, NULL));
}

static tt_optim *sgd(const tt_module *m)
{
    return tt_sgd_for(m, &(tt_sgd_options){
                             .lr = 0.02, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true });
}

static tt_tensor *cnn_loss(tt_module *m)
{
    tt_tensor *y = tt_module_forward(m, numbers(TT_SHAPE(3, 1, 6, 6)));

    return y != NULL ? tt_cross_entropy(y, TT_INTS(2, 0, 1)) : NULL;
}

static tt_module *gpt(void)
{
    return tt_gpt2(
        &(tt_gpt2_options){ .layers = 1, .heads = 2, .width = 8, .context = 6, .vocab = 11 });
}

static tt_optim *adamw(const tt_module *m)
{
    return tt_adamw_for(m, &(tt_adam_options){ .lr = 0.01 });
}

static tt_tensor *gpt_loss(tt_module *m)
{
    tt_tensor *tokens = tt_view(TT_INTS(3, 1, 4, 1, 5, 9, 2, 6, 5, 3), TT_SHAPE(2, 5));
    tt_tensor *y = tt_reshape(tt_module_forward(m, tokens), TT_SHAPE(10, 11));

    return y != NULL ? tt_cross_entropy(y, TT_INTS(1, 4, 1, 5, 9, 2, 6, 5, 3, 5)) : NULL;
}

static tt_module *bag(void)
{
    return tt_embedding_bag_new(10, 4,
                                &(tt_bag_options){ .mode = TT_BAG_SUM, .sparse_grad = true });
}

static tt_optim *adagrad(const tt_module *m)
{
    return tt_adagrad_for(m, &(tt_adagrad_options){ .lr = 0.05 });
}

static tt_tensor *bag_loss(tt_module *m)
{
    tt_tensor *index = TT_INTS(1, 2, 4, 5, 4, 3, 2, 9), *offsets = TT_INTS(0, 3, 4);

    return index != NULL && offsets != NULL
               ? tt_mean(tt_square(tt_embedding_bag_forward(m, index, offsets, NULL)))
               : NULL;
}

static tt_module *lstm(void)
{
    return tt_lstm_new(3, 4, &(tt_rnn_options){ .layers = 2, .bidirectional = true });
}

static tt_optim *rmsprop(const tt_module *m)
{
    return tt_rmsprop_for(m,
                          &(tt_rmsprop_options){ .lr = 0.002, .momentum = 0.5, .centered = true });
}

static tt_tensor *lstm_loss(tt_module *m)
{
    tt_tensor *h = NULL, *c = NULL, *y;

    y = tt_lstm_forward(m, numbers(TT_SHAPE(4, 2, 3)), NULL, NULL, &h, &c);
    return y != NULL ? tt_mean(tt_add(tt_mean(tt_square(y)), tt_mean(tt_square(c)))) : NULL;
}

static const recipe mlp_adam = { mlp, adam, mlp_loss, false };
static const recipe cnn_sgd = { cnn, sgd, cnn_loss, false };
static const recipe gpt_adamw = { gpt, adamw, gpt_loss, true };
static const recipe bag_adagrad = { bag, adagrad, bag_loss, false };
static const recipe lstm_rmsprop = { lstm, rmsprop, lstm_loss, true };

/* ---- what is tried with each -------------------------------------------------------------------- */

static tt_status step(void *ctx)
{
    training *t = ctx;
    double total;

    TT_TRY(tt_optim_zero_grad(t->o, false));
    TT_SCOPE {
        tt_tensor *loss = t->r->loss(t->m);

        if (loss == NULL)
            return tt_last_status();
        TT_TRY(tt_backward(loss));
        if (t->r->clip)
            TT_TRY(tt_optim_clip_grad_norm(t->o, 1.0, NULL, &total));
        TT_TRY(tt_optim_step(t->o));
        t->loss = tt_item(loss);
    }
    return TT_OK;
}

static tt_status begin(training *t)
{
    t->m = t->r->build();
    if (t->m == NULL)
        return tt_last_status();
    t->o = t->r->optim(t->m);
    return t->o != NULL ? TT_OK : tt_last_status();
}

static void end(training *t)
{
    tt_optim_free(t->o);
    tt_module_free(t->m);
}

/* From nothing to two steps, and all given back. */
static tt_status from_the_start(void *ctx)
{
    training t = { .r = ctx };
    tt_status st = begin(&t);

    for (int i = 0; i < 2 && st == TT_OK; i++)
        st = step(&t);
    end(&t);
    return st;
}

static uint64_t in_use(void)
{
    return tt_memory_stats_get(TT_CPU).current;
}

static void check_recipe(const recipe *r)
{
    training t = { .r = r };
    uint64_t before, n_start, n_step;
    size_t scoped = tt_scope_count();
    double first;

    TT_REQUIRE_OK(from_the_start((void *)(uintptr_t)r)); /* fills caches */
    before = in_use();
    n_start = tt_test_fail_allocs(from_the_start, (void *)(uintptr_t)r);
    TT_CHECK_EQ(in_use(), before);
    TT_CHECK_EQ(tt_scope_count(), scoped);

    TT_REQUIRE_OK(begin(&t));
    TT_REQUIRE_OK(step(&t));
    first = t.loss;
    n_step = tt_test_fail_allocs(step, &t);
    TT_CHECK_GT(n_step, 10);
    TT_CHECK_GT(n_start, n_step);
    TT_CHECK_EQ(tt_scope_count(), scoped);
    for (int i = 0; i < 40; i++)
        TT_REQUIRE_OK(step(&t));
    TT_CHECK(isfinite(t.loss) && t.loss < first);
    end(&t);
    TT_CHECK_EQ(in_use(), before);
    TT_NOTE("%d allocations in all, %d in a step", (int)n_start, (int)n_step);
}

TT_TEST_LIMIT(fail_allocs, mlp_with_adam, 120)
{
    check_recipe(&mlp_adam);
}

TT_TEST_LIMIT(fail_allocs, cnn_with_sgd, 120)
{
    check_recipe(&cnn_sgd);
}

TT_TEST_LIMIT(fail_allocs, gpt_with_adamw, 120)
{
    check_recipe(&gpt_adamw);
}

TT_TEST_LIMIT(fail_allocs, sparse_bags_with_adagrad, 120)
{
    check_recipe(&bag_adagrad);
}

TT_TEST_LIMIT(fail_allocs, lstm_with_rmsprop, 120)
{
    check_recipe(&lstm_rmsprop);
}

/* ---- a checkpoint ---------------------------------------------------------------------------- */

static tt_status save_and_resume(void *ctx)
{
    training *t = ctx;
    char path[512];
    tt_state_dict *saved = tt_module_state_dict(t->m), *read = NULL;
    tt_status st = saved != NULL ? tt_optim_save(t->o, saved, "optim.") : tt_last_status();

    snprintf(path, sizeof path, "%s/state.safetensors", tt_test_tmpdir());
    if (st == TT_OK)
        st = tt_state_dict_save(saved, path);
    if (st == TT_OK) {
        read = tt_state_dict_load(path);
        st = read != NULL ? tt_optim_load(t->o, read, "optim.") : tt_last_status();
    }
    if (st == TT_OK)
        st = tt_module_load_state_dict(t->m, read, &(tt_load_options){ .allow_unexpected = true },
                                       NULL);
    tt_state_dict_free(read);
    tt_state_dict_free(saved);
    return st;
}

TT_TEST_LIMIT(fail_allocs, a_checkpoint_is_written_and_read, 120)
{
    training t = { .r = &mlp_adam };
    double first;

    TT_REQUIRE_NOT_NULL(tt_test_tmpdir());
    TT_REQUIRE_OK(begin(&t));
    TT_REQUIRE_OK(step(&t));
    first = t.loss;
    TT_CHECK_GT(tt_test_fail_allocs(save_and_resume, &t), 30);
    TT_CHECK_EQ(tt_optim_param_steps(t.o, 0, 0), 1);
    for (int i = 0; i < 10; i++)
        TT_REQUIRE_OK(step(&t));
    TT_CHECK(t.loss < first);
    end(&t);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* N ranks with batches of B/N follow one process with batches of B, for 50 steps, whatever exact way
 * the gradients take; and two runs give the same bits, on every rank. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden/hashdata.h"
#include "tutti/ddp_hooks.h"
#include "tutti/layers.h"
#include "tutti/models.h"
#include "tutti/ops.h"
#include "tutti/random.h"
#include "tutti/syncbn.h"
#include "tutti/testing_tools.h"
#include "world/distributed.h"

enum { STEPS = 50, BATCHES = 8, BATCH = 16, CLASSES = 5, WORDS = 60, TOKENS = 24, LENGTH = 9 };
static const double tolerance = 1e-5;

/* Where the model is; in tests on devices each rank has one of its own. */
static tt_device place = { TT_DEVICE_CPU, 0 };

/* ---- the models ------------------------------------------------------------------------------- */

static tt_tensor *floats(const char *name, int step, tt_shape shape)
{
    char key[64];
    tt_tensor *t = tt_empty(shape, TT_F32, TT_CPU);

    snprintf(key, sizeof key, "same/%s/%d", name, step % BATCHES);
    golden_fill_uniform(key, tt_tensor_data(t), tt_tensor_numel(t), 1, 0);
    return t;
}

static tt_tensor *numbers(const char *name, int step, tt_shape shape, int64_t modulo)
{
    char key[64];
    tt_tensor *t = tt_empty(shape, TT_I64, TT_CPU);

    snprintf(key, sizeof key, "same/%s/%d", name, step % BATCHES);
    golden_fill_integers(key, tt_tensor_data(t), tt_tensor_numel(t), modulo);
    return t;
}

static tt_module *mlp(void)
{
    return TT_MLP(TT_ACT_TANH, 20, 32, 16, CLASSES);
}

static tt_tensor *vectors(int step)
{
    return floats("vectors", step, TT_SHAPE(BATCH, 20));
}

static tt_module *cnn(void)
{
    const tt_conv_layer_options same = { .padding = 1 };

    return TT_SEQUENTIAL(tt_conv2d_new(3, 8, 3, &same), tt_batch_norm2d_new(8, NULL), tt_relu_new(),
                         tt_conv2d_new(8, 8, 3, &same), tt_batch_norm2d_new(8, NULL), tt_relu_new(),
                         tt_flatten_new(), tt_linear_new(8 * 6 * 6, CLASSES, NULL));
}

static tt_tensor *images(int step)
{
    return floats("images", step, TT_SHAPE(BATCH, 3, 6, 6));
}

static tt_module *gpt(void)
{
    return tt_gpt2(&(tt_gpt2_options){
        .layers = 2, .heads = 2, .width = 16, .context = LENGTH, .vocab = TOKENS });
}

static tt_tensor *tokens(int step)
{
    return numbers("tokens", step, TT_SHAPE(BATCH, LENGTH), TOKENS);
}

static tt_module *bag(void)
{
    return TT_SEQUENTIAL(tt_embedding_bag_new(WORDS, 12, NULL), tt_tanh_new(),
                         tt_linear_new(12, CLASSES, NULL));
}

static tt_tensor *words(int step)
{
    return numbers("words", step, TT_SHAPE(BATCH, 7), WORDS);
}

typedef struct model {
    const char *name;
    tt_module *(*make)(void);
    tt_tensor *(*input)(int step);
    int64_t classes;
} model;

static const model models[] = { { "mlp", mlp, vectors, CLASSES },
                                { "cnn", cnn, images, CLASSES },
                                { "gpt", gpt, tokens, TOKENS },
                                { "embedding_bag", bag, words, CLASSES } };

/* Rows [first, first + n) of the step's batch. */
static tt_tensor *loss_of(const model *m, tt_module *net, int step, int64_t first, int64_t n)
{
    tt_tensor *x = tt_narrow(m->input(step), 0, first, n);
    tt_tensor *scores = tt_module_forward(net, n == BATCH ? tt_to_device(x, place) : x);
    tt_tensor *y = numbers(m->name, step, TT_SHAPE(BATCH), m->classes);

    if (tt_tensor_dims(scores) == 3) { /* a word for each place */
        y = numbers("next", step, TT_SHAPE(BATCH, LENGTH), TOKENS);
        scores = tt_flatten(scores, 0, 1);
    }
    y = tt_flatten(tt_narrow(y, 0, first, n), 0, -1);
    return tt_cross_entropy(scores, tt_to_device(y, place));
}

static tt_module *net_of(const model *m)
{
    tt_module *net;

    tt_seed(7);
    net = m->make();
    TT_REQUIRE_OK(tt_module_to_device(net, place));
    return net;
}

static tt_optim *optim_of(tt_module *net)
{
    return tt_sgd_for(net, &(tt_sgd_options){ .lr = 0.02, .momentum = 0.9 });
}

static void train_alone(const model *m, double *losses)
{
    tt_module *net = net_of(m);
    tt_optim *opt = optim_of(net);

    for (int step = 0; step < STEPS; step++)
        TT_SCOPE {
            tt_tensor *loss = loss_of(m, net, step, 0, BATCH);

            TT_REQUIRE_OK(tt_optim_zero_grad(opt, true));
            TT_REQUIRE_OK(tt_backward(loss));
            TT_REQUIRE_OK(tt_optim_step(opt));
            losses[step] = tt_item(loss);
        }
    tt_optim_free(opt);
    tt_module_free(net);
}

/* ---- the ways of gradients ---------------------------------------------------------------------- */

typedef struct way {
    const char *name;
    const char *hook;   /* NULL: none */
    bool fused, inside; /* the optimizer in the hook, or in backward */
    bool copies, find_unused, is_static;
} way;

static const way ways[] = {
    { .name = "plain" },
    { .name = "copies", .copies = true },
    { .name = "find_unused", .find_unused = true },
    { .name = "static_graph", .is_static = true },
    { .name = "allreduce_hook", .hook = "allreduce_hook" },
    { .name = "powersgd_before_it_starts", .hook = "powerSGD_hook" },
    { .name = "post_local_sgd_before_it_starts", .hook = "post_localSGD_hook" },
    { .name = "hook_with_optimizer", .hook = "allreduce_hook", .fused = true },
    { .name = "optimizer_in_backward", .inside = true },
};

static void add_hook(tt_ddp *ddp, const way *w, tt_optim *opt)
{
    tt_local_sgd_state *local =
        tt_local_sgd_state_new(&(tt_local_sgd_state_options){ .start_iter = 1000 });
    bool is_local = w->hook != NULL && strcmp(w->hook, "post_localSGD_hook") == 0;
    tt_ddp_hook inner, fused;

    if (w->hook != NULL) {
        TT_REQUIRE_OK(tt_ddp_hook_named(w->hook, is_local ? local : NULL, &inner));
        if (w->fused)
            TT_REQUIRE_OK(tt_ddp_hook_with_optimizer(&inner, opt, &fused));
        TT_REQUIRE_OK(tt_ddp_register_hook(ddp, w->fused ? &fused : &inner));
    }
    tt_local_sgd_state_free(local);
}

/* The losses are the means over the ranks; `final` gets the parameters one after the other. */
static void train_together(const model *m, const way *w, tt_pg *pg, double *losses, float *final)
{
    int n = tt_pg_size(pg), rank = tt_pg_rank(pg), rows = BATCH / n;
    tt_module *net = tt_sync_batch_norm_convert(net_of(m), pg);
    tt_optim *opt = optim_of(net);
    tt_ddp *ddp = tt_ddp_new(net, pg,
                             &(tt_ddp_options){ .copy_gradients = w->copies,
                                                .find_unused = w->find_unused,
                                                .static_graph = w->is_static,
                                                .bucket_cap_mb = 0.004 });
    tt_in_backward *inside = w->inside ? tt_in_backward_new(opt, NULL) : NULL;

    TT_REQUIRE_NOT_NULL(ddp);
    add_hook(ddp, w, opt);
    for (int step = 0; step < STEPS; step++)
        TT_SCOPE {
            tt_tensor *loss = loss_of(m, tt_ddp_as_module(ddp), step, rank * rows, rows);
            tt_tensor *mean = tt_to_dtype(tt_detach(loss), TT_F64);

            TT_REQUIRE_OK(tt_optim_zero_grad(opt, !w->inside));
            TT_REQUIRE_OK(tt_backward(loss));
            if (!w->fused && !w->inside)
                TT_REQUIRE_OK(tt_optim_step(opt));
            TT_REQUIRE_OK(
                tt_pg_all_reduce(pg, mean, &(tt_coll_options){ .op = TT_REDUCE_AVG }, NULL));
            losses[step] = tt_item(mean);
        }
    for (int i = 0; i < tt_ddp_n_params(ddp); i++) {
        tt_tensor *p = tt_ddp_param(ddp, i);

        TT_SCOPE {
            memcpy(final, tt_tensor_data(tt_to_device(p, TT_CPU)), tt_tensor_bytes(p));
        }
        final += tt_tensor_numel(p);
    }
    tt_in_backward_free(inside);
    tt_ddp_free(ddp);
    tt_optim_free(opt);
    tt_module_free(net);
}

/* ---- the tests ------------------------------------------------------------------------------------ */

enum { MAX_NUMBERS = 1 << 15 };

static void check_same_everywhere(tt_pg *pg, const float *final)
{
    TT_SCOPE {
        tt_tensor *mine = tt_from_data(final, TT_SHAPE(MAX_NUMBERS), TT_F32);
        tt_tensor *first = tt_clone(mine);

        TT_REQUIRE_OK(tt_pg_broadcast(pg, first, 0, NULL, NULL));
        TT_CHECK_MEM(tt_tensor_data(mine), tt_tensor_data(first), sizeof(float) * MAX_NUMBERS);
    }
}

static void follow_one_process(const model *m)
{
    tt_pg *pg = tt_test_pg();
    double alone[STEPS], together[STEPS], again[STEPS], worst = 0;
    float *final = calloc(MAX_NUMBERS, sizeof *final), *twice = calloc(MAX_NUMBERS, sizeof *twice);

    train_alone(m, alone);
    TT_CHECK(alone[STEPS - 1] < alone[0]);
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        train_together(m, &ways[k], pg, together, final);
        for (int step = 0; step < STEPS; step++) {
            double gap = fabs(together[step] - alone[step]) / fabs(alone[step]);

            if (!(gap <= tolerance))
                TT_FAIL_TEST("%s, %s, step %d: loss %.9g, alone %.9g", m->name, ways[k].name, step,
                             together[step], alone[step]);
            worst = gap > worst ? gap : worst;
        }
        check_same_everywhere(pg, final);
    }
    train_together(m, &ways[0], pg, together, final);
    train_together(m, &ways[0], pg, again, twice);
    TT_CHECK(memcmp(again, together, sizeof again) == 0);
    TT_CHECK(memcmp(twice, final, sizeof(float) * MAX_NUMBERS) == 0);
    tt_test_note("losses within %.1e", worst);
    free(final);
    free(twice);
}

#define FOLLOW(n, index, word)                        \
    TT_TEST_RANKS(n, ddp_same, word##_on_##n##_ranks) \
    {                                                 \
        follow_one_process(&models[index]);           \
    }

#define FOLLOW_ON_DEVICES(index, word)              \
    TT_TEST_RANKS(2, ddp_same, word##_on_2_devices) \
    {                                               \
        dist_use_device();                          \
        place = dist_device();                      \
        follow_one_process(&models[index]);         \
    }

FOLLOW_ON_DEVICES(0, mlp)
FOLLOW_ON_DEVICES(1, cnn_with_sync_batch_norm)
FOLLOW_ON_DEVICES(2, gpt)
FOLLOW_ON_DEVICES(3, embedding_bag)
FOLLOW(2, 0, mlp)
FOLLOW(4, 0, mlp)
FOLLOW(2, 1, cnn_with_sync_batch_norm)
FOLLOW(4, 1, cnn_with_sync_batch_norm)
FOLLOW(2, 2, gpt)
FOLLOW(4, 2, gpt)
FOLLOW(2, 3, embedding_bag)
FOLLOW(4, 3, embedding_bag)

/* SPDX-License-Identifier: Apache-2.0 */
/* Whole training steps, timed one by one. The same networks as peers/torch_train.py, behind the same
 * little protocol: "ready" after the first step; for every line "N" on standard input N steps and their
 * times in milliseconds on one line; at the end "rss KB".
 *
 * usage: train tiny|mlp|resnet18|gpt|embedding_bag THREADS [RANK SIZE FILE [VARIANT]]
 *
 * With a rank it is one of SIZE that meet at FILE and train data-parallel. VARIANT switches something off:
 * `comm` (nothing is reduced), `overlap` (one bucket, which leaves at the end), `buckets` (one for each
 * parameter), `views` (gradients are copies), `shared` (buckets are staged); `engine` and `fill` are the other ways
 * to reduce. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "tutti/ddp_hooks.h"
#include "tutti/layers.h"
#include "tutti/models.h"
#include "tutti/optim.h"
#include "tutti/tutti.h"

typedef struct task {
    tt_module *net;
    tt_optim *opt;
    tt_tensor *x[8], *y; /* retained; the inputs take turns */
    int n_x, turn;
    tt_tensor *(*loss)(struct task *t);
} task;

static tt_tensor *keep(tt_tensor *t)
{
    return tt_tensor_retain(t);
}

static tt_status ready(const task *t)
{
    return t->opt != NULL ? TT_OK : tt_last_status();
}

/* ---- multi-layer perceptrons ------------------------------------------------------------------ */

static tt_tensor *regression(task *t)
{
    return tt_mse_loss(tt_module_forward(t->net, t->x[0]), t->y);
}

static tt_tensor *classification(task *t)
{
    return tt_cross_entropy(tt_module_forward(t->net, t->x[0]), t->y);
}

static tt_status tiny(task *t)
{
    t->net = TT_MLP(TT_ACT_RELU, 32, 32, 32, 1);
    t->x[0] = keep(tt_randn(TT_SHAPE(8, 32), TT_F32, TT_CPU));
    t->y = keep(tt_randn(TT_SHAPE(8, 1), TT_F32, TT_CPU));
    t->loss = regression;
    t->opt = tt_sgd_for(t->net, NULL);
    return ready(t);
}

static tt_status mlp(task *t)
{
    t->net = TT_MLP(TT_ACT_RELU, 784, 512, 512, 10);
    t->x[0] = keep(tt_randn(TT_SHAPE(64, 784), TT_F32, TT_CPU));
    t->y = keep(tt_randint(0, 10, TT_SHAPE(64), TT_CPU));
    t->loss = classification;
    t->opt = tt_adam_for(t->net, NULL);
    return ready(t);
}

/* ---- ResNet-18 ------------------------------------------------------------------------------- */

static tt_status resnet18(task *t)
{
    t->net = tt_resnet(18, &(tt_resnet_options){ .classes = 10 });
    t->x[0] = keep(tt_randn(TT_SHAPE(32, 3, 32, 32), TT_F32, TT_CPU));
    t->y = keep(tt_randint(0, 10, TT_SHAPE(32), TT_CPU));
    t->loss = classification;
    t->opt = tt_sgd_for(t->net, &(tt_sgd_options){ .lr = 1e-2, .momentum = 0.9 });
    return ready(t);
}

/* ---- GPT ------------------------------------------------------------------------------------- */

enum { LAYERS = 6, WIDTH = 384, HEADS = 6, CONTEXT = 256, BATCH = 4, VOCAB = 256 };

static tt_tensor *attend(tt_module *m, tt_tensor *x)
{
    tt_tensor *qkv[3];
    tt_shape heads = TT_SHAPE(BATCH, CONTEXT, HEADS, WIDTH / HEADS);
    tt_tensor *y;

    if (tt_split_sizes(tt_module_run(m, "qkv", x), (const int64_t[]){ WIDTH, WIDTH, WIDTH }, 3, 2,
                       qkv) != TT_OK)
        return NULL;
    for (int i = 0; i < 3; i++)
        qkv[i] = tt_transpose(tt_view(qkv[i], heads), 1, 2);
    y = tt_attention(qkv[0], qkv[1], qkv[2], &(tt_attention_options){ .causal = true });
    y = tt_reshape(tt_transpose(y, 1, 2), TT_SHAPE(BATCH, CONTEXT, WIDTH));
    return tt_module_run(m, "proj", y);
}

static tt_tensor *block_forward(tt_module *m, tt_tensor *x)
{
    x = tt_add(x, attend(m, tt_module_run(m, "ln1", x)));
    return tt_add(
        x, tt_module_run(m, "fc2", tt_gelu(tt_module_run(m, "fc1", tt_module_run(m, "ln2", x)))));
}

static tt_tensor *gpt_forward(tt_module *m, tt_tensor *index)
{
    tt_tensor *at = tt_arange(0, CONTEXT, 1, TT_I64, TT_CPU);
    tt_tensor *x = tt_add(tt_module_run(m, "tok", index), tt_module_run(m, "pos", at));

    return tt_module_run(m, "head", tt_module_run(m, "ln", tt_module_run(m, "layers", x)));
}

static const tt_module_class block_class = { .name = "Block", .forward = block_forward };
static const tt_module_class gpt_class = { .name = "Gpt", .forward = gpt_forward };

static tt_module *block_new(void)
{
    tt_module *m = tt_module_new(&block_class);

    tt_module_give_child(m, "ln1", tt_layer_norm_new(TT_SHAPE(WIDTH), NULL));
    tt_module_give_child(m, "qkv", tt_linear_new(WIDTH, 3 * WIDTH, NULL));
    tt_module_give_child(m, "proj", tt_linear_new(WIDTH, WIDTH, NULL));
    tt_module_give_child(m, "ln2", tt_layer_norm_new(TT_SHAPE(WIDTH), NULL));
    tt_module_give_child(m, "fc1", tt_linear_new(WIDTH, 4 * WIDTH, NULL));
    tt_module_give_child(m, "fc2", tt_linear_new(4 * WIDTH, WIDTH, NULL));
    return m;
}

static tt_tensor *language(task *t)
{
    tt_tensor *scores = tt_module_forward(t->net, t->x[0]);

    return tt_cross_entropy(tt_view(scores, TT_SHAPE(-1, VOCAB)), t->y);
}

static tt_status gpt(task *t)
{
    tt_module *layers = tt_sequential_new();

    for (int i = 0; i < LAYERS; i++)
        tt_module_append(layers, block_new());
    t->net = tt_module_new(&gpt_class);
    tt_module_give_child(t->net, "tok", tt_embedding_new(VOCAB, WIDTH, NULL));
    tt_module_give_child(t->net, "pos", tt_embedding_new(CONTEXT, WIDTH, NULL));
    tt_module_give_child(t->net, "layers", layers);
    tt_module_give_child(t->net, "ln", tt_layer_norm_new(TT_SHAPE(WIDTH), NULL));
    tt_module_give_child(t->net, "head",
                         tt_linear_new(WIDTH, VOCAB, &(tt_linear_options){ .no_bias = true }));
    t->x[0] = keep(tt_randint(0, VOCAB, TT_SHAPE(BATCH, CONTEXT), TT_CPU));
    t->y = keep(tt_randint(0, VOCAB, TT_SHAPE(BATCH * CONTEXT), TT_CPU));
    t->loss = language;
    t->opt = tt_adamw_for(t->net, &(tt_adam_options){ .lr = 3e-4 });
    return ready(t);
}

/* ---- EmbeddingBag ------------------------------------------------------------------------------ */

static tt_tensor *clicks(task *t)
{
    return tt_bce_with_logits(tt_module_forward(t->net, t->x[t->turn++ % t->n_x]), t->y, NULL);
}

static tt_status embedding_bag(task *t)
{
    tt_bag_options sum = { .mode = TT_BAG_SUM, .sparse_grad = true };

    t->net = tt_sequential_of((tt_module *[]){ tt_embedding_bag_new(100000, 64, &sum),
                                               tt_linear_new(64, 64, NULL), tt_relu_new(),
                                               tt_linear_new(64, 1, NULL) },
                              4);
    t->n_x = 8;
    for (int i = 0; i < t->n_x; i++)
        t->x[i] = keep(tt_randint(0, 100000, TT_SHAPE(512, 20), TT_CPU));
    t->y = keep(tt_to_dtype(tt_randint(0, 2, TT_SHAPE(512, 1), TT_CPU), TT_F32));
    t->loss = clicks;
    t->opt = tt_adagrad_for(t->net, NULL);
    return ready(t);
}

static const struct {
    const char *name;
    tt_status (*make)(task *t);
} cases[] = {
    { "tiny", tiny },
    { "mlp", mlp },
    { "resnet18", resnet18 },
    { "gpt", gpt },
    { "embedding_bag", embedding_bag },
};

/* ---- data parallel ---------------------------------------------------------------------------- */

/* A bucket that is not in shared memory: copied there and back. */
static tt_future *staged(void *pg, const tt_ddp_bucket *b)
{
    const tt_coll_options mean = { .op = TT_REDUCE_AVG };
    tt_work *w;

    if (tt_pg_all_reduce(pg, tt_clone(b->flat), &mean, &w) != TT_OK)
        return NULL;
    tt_future *f = tt_work_future(w);
    tt_work_free(w);
    return f;
}

static tt_status make_parallel(task *t, int argc, char **argv)
{
    static const double all = 1e6, each = 1e-6;
    tt_ddp_options opt = { 0 };
    const char *off = argc > 3 ? argv[3] : "";
    char url[512];

    snprintf(url, sizeof url, "file://%s?rank=%s&size=%s", argv[2], argv[0], argv[1]);
    tt_pg *pg = tt_pg_new(url, &(tt_pg_options){ .timeout_ms = 600000 });
    if (strcmp(off, "overlap") == 0 || strcmp(off, "buckets") == 0) {
        opt.bucket_cap_mb_list = off[0] == 'o' ? &all : &each;
        opt.n_bucket_caps = 1;
    }
    if (strcmp(off, "engine") == 0 || strcmp(off, "fill") == 0)
        setenv("TUTTI_OVERLAP", off, 1);
    opt.copy_gradients = strcmp(off, "views") == 0;
    tt_ddp *ddp = tt_ddp_new(t->net, pg, &opt);
    if (ddp == NULL)
        return tt_last_status();
    if (strcmp(off, "comm") == 0)
        TT_TRY(tt_ddp_register_named(ddp, "noop_hook", NULL));
    if (strcmp(off, "shared") == 0)
        TT_TRY(
            tt_ddp_register_hook(ddp, &(tt_ddp_hook){ .fn = staged, .ctx = pg, .name = "staged" }));
    t->net = tt_ddp_as_module(ddp);
    return TT_OK;
}

/* ---- running ---------------------------------------------------------------------------------- */

static tt_status step(task *t)
{
    tt_status st = TT_OK;

    TT_SCOPE {
        TT_TRY(tt_optim_zero_grad(t->opt, false));
        TT_TRY(tt_backward(t->loss(t)));
        TT_TRY(tt_optim_step(t->opt));
    }
    return st;
}

static double now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

static tt_status run_steps(task *t, long n)
{
    double *times = calloc((size_t)n, sizeof *times);

    for (long i = 0; i < n; i++) {
        double start = now_ms();

        TT_TRY(step(t));
        times[i] = now_ms() - start;
    }
    for (long i = 0; i < n; i++)
        printf("%s%.6f", i > 0 ? " " : "", times[i]);
    printf("\n");
    fflush(stdout);
    free(times);
    return TT_OK;
}

static tt_status run(const char *name, int threads, int argc, char **argv)
{
    task t = { 0 };
    char line[64];
    struct rusage usage;

    TT_TRY(tt_set_num_threads(threads));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, name) == 0)
            TT_SCOPE
                TT_TRY(cases[i].make(&t));
    if (t.loss == NULL)
        return tt_fail(TT_ERR_NOT_FOUND, "no case \"%s\"", name);
    if (argc > 0)
        TT_TRY(make_parallel(&t, argc, argv));
    TT_TRY(step(&t));
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL)
        TT_TRY(run_steps(&t, strtol(line, NULL, 10)));
    getrusage(RUSAGE_SELF, &usage);
    printf("rss %ld\n", usage.ru_maxrss);
    return TT_OK;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 6 && argc != 7) {
        fprintf(stderr, "usage: train tiny|mlp|resnet18|gpt|embedding_bag THREADS "
                        "[RANK SIZE FILE [comm|overlap|buckets|views|shared|engine|fill]]\n");
        return 2;
    }
    if (run(argv[1], atoi(argv[2]), argc - 3, argv + 3) != TT_OK) {
        fprintf(stderr, "train: %s\n", tt_last_error());
        return 1;
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The network of 02_train_digits.c, data parallel: every rank trains on its share of the digits.
 *
 *     tutti run -n 4 build/dev/examples/09_ddp_digits
 *
 * usage: 09_ddp_digits [DIR [bar]]     DIR: for measurements that `tutti report DIR` draws; bar: always draw it */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "digits.h"
#include "tutti/layers.h"
#include "tutti/tutti.h"

enum { DIGITS = 1797, EPOCHS = 8, BATCH = 32, TRAIN = 1440, STEPS = EPOCHS * TRAIN / BATCH };
enum { TRACED = 6 }; /* the last steps are profiled */

/* Of a step, from the record of tt_ddp. */
enum { FORWARD, BACKWARD, COMMUNICATION, OVERLAP, N_PARTS };

static const char *const fields[N_PARTS] = { "forward_compute_time", "backward_compute_time",
                                             "backward_comm_time",
                                             "backward_compute_comm_overlap_time" };
static const char *const parts[N_PARTS] = { "forward_us", "backward_us", "communication_us",
                                            "overlap_us" };

typedef struct run {
    tt_pg *pg;
    tt_tensor *images, *labels;
    tt_module *net;
    tt_ddp *ddp;
    tt_optim *opt;
    tt_loader *loader;
    tt_progress *bar;
    tt_prof *prof;
    double losses[STEPS], step_us[STEPS], parts_us[N_PARTS][STEPS];
} run;

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* All ranks shuffle with the same seed, so that they hold out the same digits. */
static tt_status load(run *r)
{
    TT_SCOPE {
        tt_tensor *file = digits_read();
        tt_tensor *order = tt_randperm(DIGITS, TT_CPU, NULL);
        tt_tensor *rows = tt_index_select(file, 0, order);
        tt_tensor *pixels = tt_div_scalar(tt_narrow(rows, 1, 0, 64), 16.0);

        r->images = tt_tensor_retain(tt_reshape(pixels, TT_SHAPE(-1, 1, 8, 8)));
        r->labels = tt_tensor_retain(tt_to_dtype(tt_select(rows, 1, 64), TT_I64));
    }
    return r->images != NULL && r->labels != NULL ? TT_OK : tt_last_status();
}

static tt_status build_network(run *r)
{
    tt_conv_layer_options same = { .padding = 1 };
    tt_module *layers[] = { tt_conv2d_new(1, 32, 3, &same),
                            tt_batch_norm2d_new(32, NULL),
                            tt_relu_new(),
                            tt_conv2d_new(32, 64, 3, &same),
                            tt_batch_norm2d_new(64, NULL),
                            tt_relu_new(),
                            tt_max_pool2d_new(2, NULL),
                            tt_flatten_new(),
                            tt_dropout_new(0.25),
                            tt_linear_new(64 * 16, 10, NULL) };
    /* The network is small; small buckets let gradients travel while others are still computed. */
    tt_ddp_options options = { .bucket_cap_mb = 0.03, .log_sample_rate = 1 };

    r->net = tt_sequential_of(layers, (int)(sizeof layers / sizeof layers[0]));
    r->ddp = tt_ddp_new(r->net, r->pg, &options);
    r->opt = tt_adam_for(r->net, &(tt_adam_options){ .lr = 2e-3 });
    return r->ddp != NULL && r->opt != NULL ? TT_OK : tt_last_status();
}

/* Every rank takes each size-th sample of the epoch's order. */
static tt_status build_loader(run *r)
{
    int rank = tt_pg_rank(r->pg), size = tt_pg_size(r->pg);
    tt_sampler *share = tt_distributed_sampler_new(TRAIN, rank, size, NULL);
    tt_loader_options batches = { .batch_size = BATCH / size, .sampler = share };

    TT_SCOPE {
        tt_tensor *x = tt_narrow(r->images, 0, 0, TRAIN), *y = tt_narrow(r->labels, 0, 0, TRAIN);
        tt_dataset *digits = tt_tensor_dataset_new((tt_tensor *[]){ x, y }, 2);

        r->loader = tt_loader_new(digits, &batches);
        tt_dataset_free(digits);
    }
    tt_sampler_free(share);
    return r->loader != NULL ? TT_OK : tt_last_status();
}

static tt_status train_step(run *r, double *loss_p)
{
    tt_batch b = tt_loader_next(r->loader);
    tt_tensor *loss;
    tt_status st;

    tt_prof_begin("forward");
    loss = tt_cross_entropy(tt_ddp_forward(r->ddp, b.x), b.y);
    tt_prof_end();
    tt_prof_begin("backward");
    st = tt_backward(loss); /* reduces the gradients as they come */
    tt_prof_end();
    TT_TRY(st);
    tt_prof_begin("optimizer");
    st = tt_optim_step(r->opt);
    tt_prof_end();
    TT_TRY(st);
    TT_TRY(tt_optim_zero_grad(r->opt, false));
    *loss_p = tt_item(loss);
    return TT_OK;
}

static void note(run *r, int step, double start)
{
    tt_value *log = tt_ddp_log_value(r->ddp);

    r->step_us[step] = now_us() - start;
    for (int k = 0; k < N_PARTS; k++) { /* the record is that of the step before */
        r->parts_us[k][step] = (double)tt_value_as_int(tt_value_map_get(log, fields[k])) * 1e-3;
        r->parts_us[k][step > 0 ? step - 1 : 0] = r->parts_us[k][step];
    }
    tt_value_free(log);
    tt_progress_set(r->bar, "loss", r->losses[step]);
    tt_progress_update(r->bar, 1);
}

static tt_status train(run *r)
{
    for (int step = 0; step < STEPS; step++)
        TT_SCOPE {
            double start = now_us();

            if (step == STEPS - TRACED)
                r->prof = tt_prof_start(&(tt_prof_options){ .no_ops = true });
            TT_TRY(train_step(r, &r->losses[step]));
            note(r, step, start);
        }
    return tt_prof_stop(r->prof);
}

static double accuracy(run *r)
{
    double right = 0.0;

    tt_module_eval(r->net);
    TT_SCOPE
        TT_NO_GRAD
        {
            int64_t n = tt_tensor_size(r->images, 0) - TRAIN;
            tt_tensor *scores = tt_module_forward(r->net, tt_narrow(r->images, 0, TRAIN, n));
            tt_tensor *hits =
                tt_eq(tt_argmax_dim(scores, 1, false), tt_narrow(r->labels, 0, TRAIN, n));

            right = tt_item(tt_mean(tt_to_dtype(hits, TT_F32)));
        }
    return right;
}

/* ---- what was measured, for `tutti report` ------------------------------------------------------ */

static void put_list(FILE *f, const char *name, const double *values)
{
    fprintf(f, " \"%s\": [", name);
    for (int i = 0; i < STEPS; i++)
        fprintf(f, "%s%.6g", i > 0 ? "," : "", values[i]);
    fprintf(f, "],\n");
}

static tt_status report(run *r, const char *dir, double share)
{
    tt_value *log;
    char path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/trace-%d.json", dir, tt_pg_rank(r->pg));
    TT_TRY(tt_prof_export(r->prof, path));
    snprintf(path, sizeof path, "%s/rank-%d.json", dir, tt_pg_rank(r->pg));
    f = fopen(path, "w");
    if (f == NULL)
        return tt_fail(TT_ERR_IO, "cannot write %s", path);
    log = tt_ddp_log_value(r->ddp);
    fprintf(f, "{\"title\": \"Digits, data parallel\", \"rank\": %d, \"accuracy\": %.4f,\n",
            tt_pg_rank(r->pg), share);
    put_list(f, "losses", r->losses);
    put_list(f, "step_us", r->step_us);
    for (int k = 0; k < N_PARTS; k++)
        put_list(f, parts[k], r->parts_us[k]);
    fprintf(f, " \"buckets\": %lld, \"parameter_bytes\": %lld,\n",
            (long long)tt_value_as_int(tt_value_map_get(log, "num_buckets_reduced")),
            (long long)tt_value_as_int(tt_value_map_get(log, "total_parameter_size_bytes")));
    fprintf(f, " \"cores\": %ld, \"backend\": \"%s\"}\n", sysconf(_SC_NPROCESSORS_ONLN),
            tt_pg_backend(r->pg));
    tt_value_free(log);
    return fclose(f) == 0 ? TT_OK : tt_fail(TT_ERR_IO, "cannot write %s", path);
}

static void run_free(run *r)
{
    tt_progress_free(r->bar);
    tt_prof_free(r->prof);
    tt_loader_free(r->loader);
    tt_optim_free(r->opt);
    tt_ddp_free(r->ddp);
    tt_module_free(r->net);
    tt_tensor_free(r->images);
    tt_tensor_free(r->labels);
    tt_pg_free(r->pg);
}

int main(int argc, char **argv)
{
    static run r;
    tt_progress_options look = { .label = "train", .always = argc > 2 };
    tt_status st;
    double share = 0.0;

    tt_seed(1);
    r.pg = tt_pg_new(NULL, NULL);
    st = r.pg != NULL ? load(&r) : tt_last_status();
    if (st == TT_OK && (st = build_network(&r)) == TT_OK && (st = build_loader(&r)) == TT_OK) {
        if (tt_pg_rank(r.pg) == 0)
            r.bar = tt_progress_new(STEPS, &look);
        st = train(&r);
        tt_progress_free(r.bar);
        r.bar = NULL;
    }
    if (st == TT_OK)
        share = accuracy(&r);
    if (st == TT_OK && argc > 1)
        st = report(&r, argv[1], share);
    if (st != TT_OK)
        fprintf(stderr, "failed: %s\n", tt_last_error());
    else if (tt_pg_rank(r.pg) == 0)
        printf("%d ranks, %d steps, accuracy on held-out digits %.1f %%\n", tt_pg_size(r.pg), STEPS,
               100.0 * share);
    run_free(&r);
    return st == TT_OK && share >= 0.96 ? 0 : 1;
}

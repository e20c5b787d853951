/* SPDX-License-Identifier: Apache-2.0 */
/* tutti bench: starts the ranks, as processes of this same command or as threads, and lets them measure. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "tutti/launch.h"

static const char help[] =
    "Measures the operations of a group: a table as nccl-tests prints it, a line per size. Starts\n"
    "the ranks itself, or is one of them inside `tutti run`, torchrun, mpirun or srun. OP is\n\n";

static const char options_help[] =
    "\nWithout OP: all_reduce. Sizes are those of the greater of a rank's input and output.\n\n"
    "  -n N             ranks to start; 2\n"
    "  -b SIZE          the first size; 8\n"
    "  -e SIZE          the last; 64M\n"
    "  -f FACTOR        from one to the next; 4\n"
    "  --sizes A,B,...  these sizes instead\n"
    "  --dtype TYPE     element type; float32\n"
    "  --op REDUCTION   sum, avg, product, min, max, band, bor, bxor; sum\n"
    "  --backend NAME   shm, threads (ranks are threads of this process), fake; shm\n"
    "  --in-place       the result replaces the input, where the operation can\n"
    "  --shared         tensors are allocated from the group, so that nothing is staged\n"
    "  --iters N        repetitions; as many as fit into the budget, at least 3\n"
    "  --budget MS      time to spend in the operation at each size; 200\n"
    "  --batch N        calls per repetition, on different tensors; as many as fit into 256K, at\n"
    "                   most 64\n"
    "  --warmup N       repetitions that do not count; 5, fewer when they take long\n"
    "  --no-check       do not check results (--check: also those of the backend fake)\n"
    "  --csv FILE       write all figures\n"
    "  --plot FILE      draw time over size, as SVG\n"
    "  --tsv, --json    print all figures in this form\n\n"
    "Before a repetition all inputs are written anew and all ranks wait for each other; its time "
    "is\n"
    "that of the slowest rank. `time` is the median over the repetitions, algbw is size over time, "
    "busbw\n"
    "what a bus between ranks would see: 2(n-1)/n or (n-1)/n of it. #wrong counts wrong elements "
    "of\n"
    "all ranks and repetitions; if there are any, the exit code is 1.\n";

static int print_help(void)
{
    const tti_bench_op *op;

    printf("usage: tutti bench %s\n\n%s", tti_command_bench.arguments, help);
    for (int i = 0; (op = tti_bench_op_at(i)) != NULL; i++)
        printf("  %-16s %s\n", op->name, op->summary);
    fputs(options_help, stdout);
    return TTI_EXIT_OK;
}

static int failed(void)
{
    fprintf(stderr, "tutti bench: %s\n", tt_last_error());
    return TTI_EXIT_FAILED;
}

/* ---- what a rank does ---------------------------------------------------------------------------- */

static tt_status measure_all(const tti_bench_options *opt, tt_pg *pg, tti_bench_row *rows, int *n_p)
{
    bool shows = tt_pg_rank(pg) == 0;

    if (shows)
        tti_bench_print_start(opt, pg);
    for (int k = 0; k < opt->n_ops; k++)
        for (int i = 0; i < opt->n_sizes; i++) {
            TT_TRY(tti_bench_measure(opt, opt->ops[k], pg, opt->sizes[i], &rows[*n_p]));
            if (shows)
                tti_bench_print_row(opt, &rows[*n_p]);
            ++*n_p;
            if (opt->ops[k]->no_data)
                break;
        }
    return TT_OK;
}

static int be_rank(const tti_bench_options *opt, tt_store *store, int rank, int size)
{
    tti_bench_options own = *opt;
    tti_bench_row *rows = calloc((size_t)(opt->n_ops * opt->n_sizes), sizeof *rows);
    tt_pg *pg;
    int n = 0, code = TTI_EXIT_OK;

    if (rows == NULL) {
        tt_fail(TT_ERR_NOMEM, "no memory for %d rows", opt->n_ops * opt->n_sizes);
        return failed();
    }
    pg = tt_pg_new_store(store, rank, size, &(tt_pg_options){ .backend = opt->backend });
    if (pg != NULL && strcmp(tt_pg_backend(pg), "fake") == 0)
        own.no_check = !opt->check; /* there are no others: everything is wrong */
    if (pg == NULL || measure_all(&own, pg, rows, &n) != TT_OK) {
        code = failed();
        if (pg != NULL)
            tt_pg_abort(pg, "tutti bench failed");
    } else if (rank == 0)
        code = tti_bench_finish(&own, rows, n);
    tt_pg_free(pg);
    free(rows);
    return code;
}

/* ---- ranks as threads ---------------------------------------------------------------------------- */

typedef struct thread_rank {
    const tti_bench_options *opt;
    tt_store *store;
    int rank, size, code;
    pthread_t thread;
} thread_rank;

static void *thread_main(void *arg)
{
    thread_rank *r = arg;

    r->code = be_rank(r->opt, r->store, r->rank, r->size);
    return NULL;
}

static int be_threads(const tti_bench_options *opt, int size)
{
    thread_rank *ranks = calloc((size_t)size, sizeof *ranks);
    tt_store *store = tt_store_memory_new();
    int code = TTI_EXIT_OK, started = 0;

    if (ranks == NULL || store == NULL)
        code = failed();
    for (int i = 0; code == TTI_EXIT_OK && i < size; i++, started++) {
        ranks[i] = (thread_rank){ .opt = opt, .store = store, .rank = i, .size = size };
        if (pthread_create(&ranks[i].thread, NULL, thread_main, &ranks[i]) != 0) {
            fprintf(stderr, "tutti bench: cannot start thread %d of %d\n", i, size);
            exit(TTI_EXIT_FAILED); /* those that run would wait for it */
        }
    }
    for (int i = 0; i < started; i++) {
        pthread_join(ranks[i].thread, NULL);
        code = ranks[i].code > code ? ranks[i].code : code;
    }
    tt_store_free(store);
    free(ranks);
    return code;
}

/* ---- ranks as processes -------------------------------------------------------------------------- */

static int be_process(const tti_bench_options *opt)
{
    tt_rendezvous r;
    int code;

    if (tt_rendezvous_open(NULL, NULL, &r) != TT_OK)
        return failed();
    code = be_rank(opt, r.store, r.rank, r.size);
    tt_rendezvous_close(&r);
    return code;
}

static int start_processes(int argc, char **argv, int size)
{
    tt_launch_options how = {
        .n_ranks = size, .ranks_shown = "0", .no_prefix = true, .quiet = true
    };
    tt_launch_result result = { .exit_code = TTI_EXIT_FAILED };
    const char **command = calloc((size_t)argc + 3, sizeof *command);
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (command == NULL || n < 0) {
        perror("tutti bench: cannot find this program");
        free(command);
        return TTI_EXIT_FAILED;
    }
    self[n] = '\0';
    command[0] = self;
    command[1] = "bench";
    memcpy(command + 2, argv, (size_t)argc * sizeof *argv);
    how.own_process = true;
    if (tt_launch(command, &how, &result) != TT_OK) {
        free(command);
        return failed();
    }
    free(command);
    return result.exit_code;
}

static bool is_backend(const tti_bench_options *opt, const char *name)
{
    const char *got = NULL;

    return opt->backend != NULL && tt_backend_parse(opt->backend, &got) == TT_OK &&
           strcmp(got, name) == 0;
}

static int run_words(int argc, char **argv)
{
    tti_bench_options opt;
    tt_world world;
    int size;

    if (tti_bench_parse(argc, argv, &opt) != TT_OK) {
        fprintf(stderr,
                "tutti bench: %s\nusage: tutti bench %s\n`tutti bench --help` lists the options\n",
                tt_last_error(), tti_command_bench.arguments);
        return TTI_EXIT_USAGE;
    }
    if (opt.help)
        return print_help();
    if (tt_world_detect(&world) != TT_OK)
        return failed();
    if (strcmp(world.launcher, "none") != 0) {
        if (opt.n_ranks != 0 && opt.n_ranks != world.size) {
            fprintf(stderr, "tutti bench: -n %d, but %s started %d ranks\n", opt.n_ranks,
                    world.launcher, world.size);
            return TTI_EXIT_USAGE;
        }
        return be_process(&opt);
    }
    size = opt.n_ranks != 0 ? opt.n_ranks : 2;
    if (is_backend(&opt, "threads"))
        return be_threads(&opt, size);
    if (is_backend(&opt, "fake")) {
        tt_store *store = tt_store_memory_new();
        int code = store != NULL ? be_rank(&opt, store, 0, size) : failed();

        tt_store_free(store);
        return code;
    }
    return start_processes(argc, argv, size);
}

const tti_command tti_command_bench = {
    .name = "bench",
    .arguments = "[-n N] [OPTIONS] [OP...]",
    .summary = "measure collectives and messages between ranks",
    .help = help,
    .run_words = run_words,
    .print_help = print_help,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Trainings on the disk: all of it comes back, on any number of ranks, whatever happened in between. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tutti/models.h"
#include "tutti/testing.h"
#include "tutti/testing_tools.h"
#include "tutti/tutti.h"

/* A training with something of everything. */
typedef struct world {
    tt_module *net;
    tt_optim *opt;
    tt_schedule *schedule;
    tt_generator *gen;
    tt_training t;
} world;

static world world_new(uint64_t seed)
{
    world w = { 0 };

    tt_seed(seed);
    w.net = TT_MLP(TT_ACT_TANH, 5, 16, 2);
    w.opt = tt_adam_for(w.net, NULL);
    w.schedule = tt_step_lr_new(w.opt, 3, 0.5);
    w.gen = tt_generator_new(seed + 1);
    TT_REQUIRE(w.net != NULL && w.opt != NULL && w.schedule != NULL && w.gen != NULL);
    w.t =
        (tt_training){ .module = w.net, .optim = w.opt, .schedule = w.schedule, .n_generators = 1 };
    return w;
}

static void world_free(world *w)
{
    tt_value_free(w->t.value);
    tt_value_free(w->t.own);
    tt_generator_free(w->gen);
    tt_schedule_free(w->schedule);
    tt_optim_free(w->opt);
    tt_module_free(w->net);
}

/* Steps on inputs from the training's generators; the last loss. */
static double train(world *w, int n)
{
    double last = 0;

    for (int i = 0; i < n; i++)
        TT_SCOPE {
            tt_tensor *x = tt_normal_(tt_empty(TT_SHAPE(8, 5), TT_F32, TT_CPU), 0, 1, w->gen);
            tt_tensor *y = tt_rand(TT_SHAPE(8, 2), TT_F32, TT_CPU);
            tt_tensor *loss = tt_mse_loss(tt_module_forward(w->net, x), y);

            TT_REQUIRE_OK(tt_backward(loss));
            TT_REQUIRE_OK(tt_optim_step(w->opt));
            TT_REQUIRE_OK(tt_schedule_step(w->schedule));
            TT_REQUIRE_OK(tt_optim_zero_grad(w->opt, false));
            last = tt_item(loss);
            w->t.step++;
            w->t.samples += 8;
        }
    return last;
}

static tt_status save(world *w, const char *dir, tt_pg *pg, const tt_training_save_options *opt)
{
    w->t.generators = &w->gen;
    return tt_training_save(dir, pg, &w->t, opt);
}

static tt_status load(world *w, const char *dir, tt_pg *pg)
{
    w->t.generators = &w->gen;
    return tt_training_load(dir, pg, &w->t);
}

static const char *place(const char *name)
{
    static char path[8][512];
    static int at;
    char *p = path[at = (at + 1) % 8];

    snprintf(p, sizeof path[0], "%s/%s", tt_test_tmpdir(), name);
    return p;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- what comes back ------------------------------------------------------------------------- */

TT_TEST(checkpoint, a_resumed_training_repeats_the_uninterrupted_one)
{
    world a = world_new(1), b = world_new(2);
    double expected;

    train(&a, 7);
    a.t.epoch = 3;
    a.t.value = tt_value_text_new("all of it");
    a.t.own = tt_value_int_new(42);
    TT_REQUIRE_OK(save(&a, place("deep/er"), NULL, NULL));
    expected = train(&a, 5);
    TT_REQUIRE_OK(load(&b, place("deep/er"), NULL));
    TT_CHECK_EQ(b.t.step, 7);
    TT_CHECK_EQ(b.t.epoch, 3);
    TT_CHECK_EQ(b.t.samples, 56);
    TT_CHECK_STR(tt_value_as_text(b.t.value), "all of it");
    TT_CHECK_EQ(tt_value_as_int(b.t.own), 42);
    TT_CHECK(train(&b, 5) == expected); /* to the bit */
    world_free(&a);
    world_free(&b);
}

TT_TEST(checkpoint, carries_tensors_beside_the_model)
{
    tt_state_dict *out = tt_state_dict_new(), *in = tt_state_dict_new();
    tt_training t = { .tensors = out, .step = 5 };

    TT_SCOPE {
        TT_REQUIRE_OK(tt_state_dict_set(out, "ema", TT_FLOATS(1, 2, 3)));
        TT_REQUIRE_OK(tt_training_save(place("d"), NULL, &t, NULL));
        t = (tt_training){ .tensors = in };
        TT_REQUIRE_OK(tt_training_load(place("d"), NULL, &t));
        TT_CHECK_EQ(t.step, 5);
        TT_CHECK_EQ(tt_state_dict_count(in), 1);
        TT_CHECK(tt_equal(tt_state_dict_get(in, "ema"), TT_FLOATS(1, 2, 3)));
    }
    tt_state_dict_free(out);
    tt_state_dict_free(in);
}

TT_TEST(checkpoint, carries_the_state_of_a_hook)
{
    tt_powersgd *hook = tt_powersgd_new(NULL, &(tt_powersgd_options){ .rank = 3 });
    tt_powersgd *again;
    tt_training t = { .step = 1 };

    TT_REQUIRE_NOT_NULL(hook);
    t.value = tt_value_map_new();
    TT_SCOPE {
        TT_REQUIRE_OK(tt_value_map_give(t.value, "best", tt_value_tensor_new(TT_FLOATS(4, 5))));
    }
    t.own = tt_powersgd_save(hook);
    TT_REQUIRE_NOT_NULL(t.own);
    TT_REQUIRE_OK(tt_training_save(place("d"), NULL, &t, NULL));
    tt_value_free(t.value);
    tt_value_free(t.own);
    t = (tt_training){ 0 };
    TT_REQUIRE_OK(tt_training_load(place("d"), NULL, &t));
    TT_SCOPE {
        TT_CHECK(tt_equal(tt_value_as_tensor(tt_value_map_get(t.value, "best")), TT_FLOATS(4, 5)));
    }
    again = tt_powersgd_load(t.own);
    TT_CHECK_NOT_NULL(again);
    tt_powersgd_free(hook);
    tt_powersgd_free(again);
    tt_value_free(t.value);
    tt_value_free(t.own);
}

/* Marks what `size` ranks see of an epoch of n from `start` on, in `batches` batches of 2 (0: to its end). */
static void see(int *seen, int64_t n, int size, int64_t start, int batches)
{
    for (int rank = 0; rank < size; rank++) {
        tt_distributed_sampler_options opt = { .seed = 9, .start = start };
        tt_sampler *s = tt_distributed_sampler_new(n, rank, size, &opt);
        int64_t length = tt_sampler_length(s);
        int64_t *order = malloc((size_t)length * sizeof *order);

        TT_REQUIRE_OK(tt_sampler_order(s, 3, order));
        for (int64_t i = 0; i < (batches > 0 ? 2 * batches : length); i++)
            seen[order[i]]++;
        free(order);
        tt_sampler_free(s);
    }
}

TT_TEST(checkpoint, an_epoch_begun_on_four_ranks_ends_on_three)
{
    enum { SAMPLES = 76 };
    int seen[SAMPLES] = { 0 };
    tt_training t = { .step = 5, .epoch = 3, .samples = 5 * 2 * 4 };

    see(seen, SAMPLES, 4, 0, 5);
    TT_REQUIRE_OK(tt_training_save(place("d"), NULL, &t, NULL));
    t = (tt_training){ 0 };
    TT_REQUIRE_OK(tt_training_load(place("d"), NULL, &t));
    TT_CHECK_EQ(t.epoch, 3);
    see(seen, SAMPLES, 3, t.samples, 0);
    for (int i = 0; i < SAMPLES; i++)
        TT_CHECK_EQ(seen[i], 1);
}

TT_TEST(checkpoint, says_that_there_is_none)
{
    world w = world_new(1);

    TT_CHECK_ERR_SAYS(load(&w, place("nothing"), NULL), TT_ERR_NOT_FOUND, "no complete one in");
    TT_CHECK_NULL(tt_training_latest(place("nothing")));
    TT_REQUIRE(mkdir(place("empty"), 0777) == 0);
    TT_CHECK_ERR(load(&w, place("empty"), NULL), TT_ERR_NOT_FOUND);
    tt_clear_error();
    TT_CHECK_ERR(tt_training_load(NULL, NULL, &w.t), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_training_save("", NULL, &w.t, NULL), TT_ERR_INVALID);
    w.t.step = -1;
    TT_CHECK_ERR_SAYS(save(&w, place("d"), NULL, NULL), TT_ERR_INVALID, "negative");
    world_free(&w);
}

/* ---- which ones are there ---------------------------------------------------------------------- */

TT_TEST(checkpoint, keeps_the_last_ones_and_removes_what_is_incomplete)
{
    world w = world_new(1);
    char *latest;

    TT_REQUIRE_OK(save(&w, place("d"), NULL, NULL));
    TT_REQUIRE(mkdir(place("d/step-0000000007-0"), 0777) == 0); /* a kill left it */
    TT_REQUIRE(mkdir(place("d/mine"), 0777) == 0);
    for (w.t.step = 1; w.t.step < 5; w.t.step++) {
        latest = NULL;
        TT_REQUIRE_OK(save(&w, place("d"), NULL, &(tt_training_save_options){ .keep = 3 }));
        latest = tt_training_latest(place("d"));
        TT_REQUIRE_NOT_NULL(latest);
        TT_CHECK_OK(tt_training_check(latest));
        tt_text_free(latest);
    }
    TT_CHECK(!exists(place("d/step-0000000001-0")));
    TT_CHECK(exists(place("d/step-0000000002-0")));
    TT_CHECK(exists(place("d/step-0000000003-0")));
    TT_CHECK(exists(place("d/step-0000000004-0")));
    TT_CHECK(!exists(place("d/step-0000000007-0")));
    TT_CHECK(exists(place("d/mine"))); /* not ours */
    w.t.step = 4;
    TT_REQUIRE_OK(save(&w, place("d"), NULL, NULL)); /* again: never over a complete one */
    TT_CHECK(exists(place("d/step-0000000004-1")));
    latest = tt_training_latest(place("d"));
    TT_CHECK_CONTAINS(latest, "step-0000000004-1");
    tt_text_free(latest);
    world_free(&w);
}

TT_TEST(checkpoint, finds_the_newest_when_latest_is_lost)
{
    world w = world_new(1), other = world_new(2);
    int fd;

    for (w.t.step = 1; w.t.step < 3; w.t.step++)
        TT_REQUIRE_OK(save(&w, place("d"), NULL, NULL));
    TT_REQUIRE(unlink(place("d/latest")) == 0);
    TT_REQUIRE_OK(load(&other, place("d"), NULL));
    TT_CHECK_EQ(other.t.step, 2);
    fd = open(place("d/latest"), O_WRONLY | O_CREAT, 0666);
    TT_REQUIRE(fd >= 0 && write(fd, "../../etc\n", 10) == 10 && close(fd) == 0);
    TT_REQUIRE_OK(load(&other, place("d"), NULL));
    TT_CHECK_EQ(other.t.step, 2);
    TT_REQUIRE_OK(load(&other, place("d/step-0000000001-0"), NULL)); /* by its own name */
    TT_CHECK_EQ(other.t.step, 1);
    TT_REQUIRE(unlink(place("d/step-0000000002-0/manifest.cbor")) == 0);
    TT_REQUIRE_OK(load(&other, place("d"), NULL));
    TT_CHECK_EQ(other.t.step, 1);
    world_free(&w);
    world_free(&other);
}

/* ---- damage ------------------------------------------------------------------------------------ */

static off_t size_of(const char *path)
{
    struct stat s;

    TT_REQUIRE(stat(path, &s) == 0);
    return s.st_size;
}

static void flip(const char *path, off_t at)
{
    int fd = open(path, O_RDWR);
    unsigned char c = 0;

    TT_REQUIRE(fd >= 0 && pread(fd, &c, 1, at) == 1);
    c ^= 0x10;
    TT_REQUIRE(pwrite(fd, &c, 1, at) == 1);
    close(fd);
}

static double sum_of_first(const tt_module *m)
{
    tt_state_dict *params = tt_module_params(m, NULL);
    double sum = 0;

    TT_SCOPE {
        sum = tt_item(tt_sum(tt_state_dict_tensor(params, 0)));
    }
    tt_state_dict_free(params);
    return sum;
}

TT_TEST(checkpoint, notices_every_kind_of_damage_and_changes_nothing)
{
    static const char *const files[] = { "tensors-0.safetensors", "rank-0.cbor", "manifest.cbor" };
    world a = world_new(1), b = world_new(2);
    uint64_t seed = tt_test_seed();
    double before;

    train(&a, 3);
    TT_REQUIRE_OK(save(&a, place("d"), NULL, NULL));
    before = sum_of_first(b.net);
    for (int k = 0; k < 90; k++) {
        char name[128];
        const char *path;
        off_t n, at;

        snprintf(name, sizeof name, "d/step-0000000003-0/%s", files[k % 3]);
        path = place(name);
        n = size_of(path);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        at = k < 6 ? (k < 3 ? 0 : n - 1) : (off_t)((seed >> 20) % (uint64_t)n);
        flip(path, at);
        if (!TT_CHECK_ERR(load(&b, place("d"), NULL), TT_ERR_FORMAT))
            TT_FAIL_TEST("byte %lld of %s", (long long)at, files[k % 3]);
        TT_CHECK_CONTAINS(tt_last_error(), files[k % 3]);
        flip(path, at);
    }
    TT_CHECK_EQ(b.t.step, 0);
    TT_CHECK(before == sum_of_first(b.net));
    TT_CHECK_OK(load(&b, place("d"), NULL));
    for (int k = 0; k < 6; k++) { /* cut off by one byte, or empty */
        char name[128];

        TT_REQUIRE_OK(save(&a, place("d"), NULL, NULL));
        snprintf(name, sizeof name, "d/step-0000000003-%d/%s", k + 1, files[k % 3]);
        TT_REQUIRE(truncate(place(name), k < 3 ? size_of(place(name)) - 1 : 0) == 0);
        TT_CHECK_ERR_SAYS(load(&b, place("d"), NULL), TT_ERR_FORMAT, files[k % 3]);
    }
    TT_REQUIRE_OK(save(&a, place("d"), NULL, NULL));
    TT_REQUIRE(unlink(place("d/step-0000000003-7/tensors-0.safetensors")) == 0);
    TT_CHECK_ERR_SAYS(load(&b, place("d"), NULL), TT_ERR_FORMAT, "is missing");
    world_free(&a);
    world_free(&b);
}

TT_TEST(checkpoint, refuses_a_training_that_is_another_one)
{
    world w = world_new(1);
    tt_module *other = TT_MLP(TT_ACT_TANH, 5, 17, 2);
    tt_training t = { .module = other, .generators = &w.gen, .n_generators = 1 };

    TT_REQUIRE_OK(save(&w, place("d"), NULL, NULL));
    TT_CHECK(tt_training_load(place("d"), NULL, &t) != TT_OK);
    t.n_generators = 0;
    TT_CHECK_ERR_SAYS(tt_training_load(place("d"), NULL, &t), TT_ERR_INVALID,
                      "1 generators besides the default one, expected 0");
    tt_module_free(other);
    world_free(&w);
}

/* ---- ranks --------------------------------------------------------------------------------------- */

/* Saved by four ranks, loaded by four, two and one. */
static void other_ranks(bool sharded)
{
    tt_pg *pg = tt_test_pg(), *half;
    int me = tt_test_rank();
    world a = world_new(1), b = world_new(2);
    tt_training_save_options opt = { .sharded = sharded };
    double expected;

    train(&a, 4);
    tt_generator_seed(a.gen, 100 + (uint64_t)me);
    a.t.own = tt_value_int_new(me);
    a.t.value = tt_value_int_new(7 + me); /* rank 0's counts */
    TT_REQUIRE_OK(save(&a, place("d"), pg, &opt));
    TT_CHECK_EQ(exists(place("d/step-0000000004-0/tensors-3.safetensors")), sharded);
    TT_REQUIRE_OK(load(&b, place("d"), pg));
    TT_CHECK_EQ(tt_generator_get(b.gen).seed, 100 + me);
    TT_CHECK_EQ(tt_value_as_int(b.t.own), me);
    TT_CHECK_EQ(tt_value_as_int(b.t.value), 7);
    expected = train(&b, 1);
    TT_REQUIRE_OK(load(&a, place("d"), pg)); /* the default generator is one for both */
    TT_CHECK(train(&a, 1) == expected);
    half = tt_pg_split(pg, me / 2, me, NULL);
    TT_REQUIRE_OK(load(&b, place("d"), half));
    TT_CHECK_EQ(b.t.step, 4);
    TT_CHECK_NULL(b.t.own);
    TT_CHECK_EQ(tt_generator_get(b.gen).seed, 100 + me % 2);
    TT_REQUIRE_OK(load(&b, place("d"), NULL));
    TT_CHECK_EQ(b.t.step, 4);
    tt_pg_free(half);
    tt_test_barrier();
    TT_REQUIRE_OK(me == 0 ? save(&b, place("one"), NULL, NULL) : TT_OK);
    TT_REQUIRE_OK(load(&b, place("one"), pg)); /* waits for rank 0, which says which */
    TT_CHECK((tt_generator_get(b.gen).seed == 100) == (me == 0));
    world_free(&a);
    world_free(&b);
}

TT_TEST_RANKS(4, checkpoint, written_by_rank_0_loads_on_other_numbers_of_ranks)
{
    other_ranks(false);
}

TT_TEST_RANKS(4, checkpoint, written_by_all_ranks_loads_on_other_numbers_of_ranks)
{
    other_ranks(true);
}

TT_TEST_RANKS(3, checkpoint, fails_on_all_ranks_when_one_cannot_write)
{
    tt_pg *pg = tt_test_pg();
    world w = world_new(1);
    static const tt_opaque_class unwritable = { .type_name = "thing" };

    TT_REQUIRE_OK(save(&w, place("d"), pg, NULL));
    w.t.step = 1;
    if (tt_test_rank() == 1)
        w.t.own = tt_value_opaque_new(&unwritable, &w);
    TT_CHECK_ERR_SAYS(save(&w, place("d"), pg, NULL), TT_ERR_FORMAT, "(rank 1)");
    TT_REQUIRE_OK(load(&w, place("d"), pg));
    TT_CHECK_EQ(w.t.step, 0);
    world_free(&w);
}

static tt_status save_and_load(void *ctx)
{
    tt_training *t = ctx;
    tt_training back = { .tensors = t->tensors };
    tt_status st = tt_training_save(place("d"), NULL, t, NULL);

    if (st == TT_OK)
        st = tt_training_load(place("d"), NULL, &back);
    tt_value_free(back.value);
    tt_value_free(back.own);
    return st;
}

TT_TEST(checkpoint, survives_a_lack_of_memory)
{
    tt_state_dict *sd = tt_state_dict_new();
    tt_training t = { .tensors = sd, .value = tt_value_int_new(1), .own = tt_value_int_new(2) };

    TT_SCOPE {
        TT_REQUIRE_OK(tt_state_dict_set(sd, "x", TT_FLOATS(1, 2, 3)));
        TT_CHECK_GT(tt_test_fail_allocs(save_and_load, &t), 50);
    }
    tt_value_free(t.value);
    tt_value_free(t.own);
    tt_state_dict_free(sd);
}

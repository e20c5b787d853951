/* SPDX-License-Identifier: Apache-2.0 */
/* What every store does, whatever it is made of: the same tests on each kind.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <tutti/store.h>
#include <tutti/testing.h>

/* A kind of store: a second handle on the same keys, for threads and processes
 * that share them. */
typedef struct kind {
    const char *name;
    tt_store *(*open)(void);
    tt_store *(*again)(tt_store *first); /* another handle in the same process */
    bool across_processes;
} kind;

static tt_store *same(tt_store *first)
{
    return tt_store_retain(first);
}

static tt_store *open_file(void)
{
    char path[500];

    snprintf(path, sizeof path, "%s/store", tt_test_tmpdir());
    return tt_store_file_open(path);
}

static tt_store *again_file(tt_store *first)
{
    (void)first;
    return open_file();
}

static tt_store *open_tcp(void)
{
    return tt_store_tcp_open("127.0.0.1", 0,
                             &(tt_store_tcp_options){ .serve = true, .secret = "s" });
}

static tt_store *again_tcp(tt_store *first)
{
    return tt_store_tcp_open("127.0.0.1", tt_store_tcp_port(first),
                             &(tt_store_tcp_options){ .secret = "s" });
}

static tt_store *open_prefix(void)
{
    tt_store *base = tt_store_memory_new();
    tt_store *outer = tt_store_prefix_new("outer", base);
    tt_store *s = tt_store_prefix_new("inner", outer);

    tt_store_free(outer);
    tt_store_free(base);
    return s;
}

/* ---- a store of the user's own: a memory store with the required functions
 * only -------------- */

static tt_status user_set(void *ctx, const char *key, const void *data, size_t size)
{
    return tt_store_set(ctx, key, data, size);
}

static tt_status user_wait(void *ctx, const char *const *keys, int n, int timeout_ms)
{
    return tt_store_wait(ctx, keys, n, timeout_ms > 0 ? timeout_ms : 1);
}

static tt_status user_get(void *ctx, const char *key, int timeout_ms, tt_blob *blob_p)
{
    tt_status st = user_wait(ctx, &key, 1, timeout_ms);

    return st == TT_OK ? tt_store_get(ctx, key, blob_p) : st;
}

static tt_status user_add(void *ctx, const char *key, int64_t delta, int64_t *value_p)
{
    return tt_store_add(ctx, key, delta, value_p);
}

static tt_status user_check(void *ctx, const char *const *keys, int n, bool *present_p)
{
    return tt_store_check(ctx, keys, n, present_p);
}

static void user_free(void *ctx)
{
    tt_store_free(ctx);
}

static tt_store *open_user(void)
{
    static const tt_store_ops ops = { .abi = TT_STORE_ABI,
                                      .name = "mine",
                                      .set = user_set,
                                      .get = user_get,
                                      .add = user_add,
                                      .wait = user_wait,
                                      .check = user_check,
                                      .free = user_free };

    return tt_store_user_new(&ops, tt_store_memory_new());
}

static const kind kinds[] = {
    { "memory", tt_store_memory_new, same, false }, { "file", open_file, again_file, true },
    { "prefix", open_prefix, same, false },         { "mine", open_user, same, false },
    { "tcp", open_tcp, again_tcp, true },
};

/* ---- the tests
 * ------------------------------------------------------------------------------
 */

static void check_value(tt_store *s, const char *key, const char *expected)
{
    tt_blob b = { NULL, 0 };

    TT_REQUIRE_OK(tt_store_get(s, key, &b));
    TT_CHECK_EQ(b.size, strlen(expected));
    TT_CHECK_STR((const char *)b.data, expected);
    tt_blob_free(&b);
}

static void sets_and_gets(const kind *k, tt_store *s)
{
    char binary[3] = { 0, 1, 0 };
    tt_blob b;

    TT_CHECK_STR(tt_store_kind(s), k->name);
    TT_REQUIRE_OK(tt_store_set(s, "a", "one", 3));
    check_value(s, "a", "one");
    TT_REQUIRE_OK(tt_store_set(s, "a", "three", 5));
    check_value(s, "a", "three");
    TT_REQUIRE_OK(tt_store_set(s, "empty", NULL, 0));
    check_value(s, "empty", "");
    TT_REQUIRE_OK(tt_store_set(s, "binary", binary, 3));
    TT_REQUIRE_OK(tt_store_get(s, "binary", &b));
    TT_CHECK_EQ(b.size, 3);
    TT_CHECK_MEM(b.data, binary, 3);
    tt_blob_free(&b);
}

static void holds_large_values(const kind *k, tt_store *s)
{
    size_t n = (size_t)5 << 20;
    char *big = calloc(n, 1);
    tt_blob b;

    (void)k;
    TT_REQUIRE_NOT_NULL(big);
    for (size_t i = 0; i < n; i++)
        big[i] = (char)(i * 31 >> 3);
    TT_REQUIRE_OK(tt_store_set(s, "big", big, n));
    TT_REQUIRE_OK(tt_store_get(s, "big", &b));
    TT_CHECK_EQ(b.size, n);
    TT_CHECK_MEM(b.data, big, n);
    tt_blob_free(&b);
    TT_CHECK_ERR_SAYS(tt_store_set(s, "k", "", TT_STORE_MAX_VALUE + 1), TT_ERR_INVALID, "at most");
    free(big);
}

static void adds(const kind *k, tt_store *s)
{
    int64_t v = 99;

    (void)k;
    TT_REQUIRE_OK(tt_store_add(s, "n", 0, &v));
    TT_CHECK_EQ(v, 0);
    TT_REQUIRE_OK(tt_store_add(s, "n", 5, &v));
    TT_CHECK_EQ(v, 5);
    TT_REQUIRE_OK(tt_store_add(s, "n", -7, &v));
    TT_CHECK_EQ(v, -2);
    check_value(s, "n", "-2");
    TT_REQUIRE_OK(tt_store_set(s, "n", "40", 2));
    TT_REQUIRE_OK(tt_store_add(s, "n", 2, NULL));
    check_value(s, "n", "42");
    TT_REQUIRE_OK(tt_store_set(s, "text", "many", 4));
    TT_CHECK_ERR_SAYS(tt_store_add(s, "text", 1, &v), TT_ERR_INVALID, "expected a number");
    TT_REQUIRE_OK(tt_store_set(s, "most", "9223372036854775807", 19));
    TT_CHECK_ERR_SAYS(tt_store_add(s, "most", 1, &v), TT_ERR_INVALID, "overflow");
}

static void checks_and_deletes(const kind *k, tt_store *s)
{
    const char *keys[] = { "x", "y" };
    bool flag = true;
    int64_t n;

    TT_REQUIRE_OK(tt_store_check(s, keys, 2, &flag));
    TT_CHECK(!flag);
    TT_REQUIRE_OK(tt_store_set(s, "x", "1", 1));
    TT_REQUIRE_OK(tt_store_check(s, keys, 2, &flag));
    TT_CHECK(!flag);
    TT_REQUIRE_OK(tt_store_set(s, "y", "2", 1));
    TT_REQUIRE_OK(tt_store_check(s, keys, 2, &flag));
    TT_CHECK(flag);
    if (strcmp(k->name, "mine") == 0) {
        TT_CHECK_ERR_SAYS(tt_store_delete(s, "x", &flag), TT_ERR_UNSUPPORTED, "mine");
        TT_CHECK_ERR_SAYS(tt_store_count(s, &n), TT_ERR_UNSUPPORTED, "mine");
        return;
    }
    TT_REQUIRE_OK(tt_store_count(s, &n));
    TT_CHECK_EQ(n, 2);
    TT_REQUIRE_OK(tt_store_delete(s, "x", &flag));
    TT_CHECK(flag);
    TT_REQUIRE_OK(tt_store_delete(s, "x", &flag));
    TT_CHECK(!flag);
    TT_REQUIRE_OK(tt_store_check(s, keys, 1, &flag));
    TT_CHECK(!flag);
    TT_REQUIRE_OK(tt_store_count(s, &n));
    TT_CHECK_EQ(n, 1);
}

static void appends_and_compares(const kind *k, tt_store *s)
{
    tt_blob b;

    if (strcmp(k->name, "mine") == 0) {
        TT_CHECK_ERR_SAYS(tt_store_append(s, "l", "a", 1), TT_ERR_UNSUPPORTED, "append");
        TT_CHECK_ERR_SAYS(tt_store_compare_set(s, "c", "", 0, "v", 1, &b), TT_ERR_UNSUPPORTED,
                          "compare_set");
        return;
    }
    TT_REQUIRE_OK(tt_store_append(s, "l", "ab", 2));
    TT_REQUIRE_OK(tt_store_append(s, "l", "", 0));
    TT_REQUIRE_OK(tt_store_append(s, "l", "c", 1));
    check_value(s, "l", "abc");
    TT_REQUIRE_OK(tt_store_compare_set(s, "c", "wrong", 5, "v", 1, &b));
    TT_CHECK_STR((const char *)b.data, "");
    tt_blob_free(&b);
    TT_REQUIRE_OK(tt_store_compare_set(s, "c", "", 0, "first", 5, &b));
    TT_CHECK_STR((const char *)b.data, "first");
    tt_blob_free(&b);
    TT_REQUIRE_OK(tt_store_compare_set(s, "c", "", 0, "second", 6, &b));
    TT_CHECK_STR((const char *)b.data, "first");
    tt_blob_free(&b);
    TT_REQUIRE_OK(tt_store_compare_set(s, "c", "first", 5, "second", 6, NULL));
    check_value(s, "c", "second");
}

static void time_outs_name_the_keys(const kind *k, tt_store *s)
{
    const char *keys[] = { "there", "missing-1", "missing-2" };
    tt_blob b[3] = { { NULL, 0 } };

    (void)k;
    TT_REQUIRE_OK(tt_store_set(s, "there", "1", 1));
    TT_REQUIRE_OK(tt_store_set_timeout(s, 30));
    TT_CHECK_EQ(tt_store_timeout(s), 30);
    TT_CHECK_ERR_SAYS(tt_store_get(s, "missing-1", b), TT_ERR_TIMEOUT,
                      "missing-1\" was not set within 30 ms");
    TT_CHECK_ERR_SAYS(tt_store_wait(s, keys, 3, 20), TT_ERR_TIMEOUT, "2 of 3 keys");
    TT_CHECK_CONTAINS(tt_last_error(), "missing-1");
    TT_CHECK_CONTAINS(tt_last_error(), "missing-2");
    TT_CHECK(strstr(tt_last_error(), "there\"") == NULL);
    TT_CHECK_ERR_SAYS(tt_store_multi_get(s, keys, 3, b), TT_ERR_TIMEOUT, "missing-2");
    TT_CHECK_NULL(b[0].data);
    TT_CHECK_ERR(tt_store_wait_change(s, "there", "1", 1, 20, b), TT_ERR_TIMEOUT);
    TT_CHECK_ERR(tt_store_set_timeout(s, 0), TT_ERR_INVALID);
    check_value(s, "there", "1"); /* all goes on */
}

static void sets_and_gets_many(const kind *k, tt_store *s)
{
    enum { N = 300 };
    char names[N][16], texts[N][16];
    const char *keys[N];
    const void *data[N];
    size_t sizes[N];
    tt_blob blobs[N];

    (void)k;
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "key/%d", i);
        snprintf(texts[i], sizeof texts[i], "value %d", i * i);
        keys[i] = names[i];
        data[i] = texts[i];
        sizes[i] = strlen(texts[i]);
    }
    TT_REQUIRE_OK(tt_store_multi_set(s, keys, data, sizes, N));
    TT_REQUIRE_OK(tt_store_wait(s, keys, N, 0));
    TT_REQUIRE_OK(tt_store_multi_get(s, keys, N, blobs));
    for (int i = 0; i < N; i++) {
        TT_CHECK_STR((const char *)blobs[i].data, texts[i]);
        tt_blob_free(&blobs[i]);
    }
}

static void refuses_bad_arguments(const kind *k, tt_store *s)
{
    char long_key[TT_STORE_MAX_KEY + 2];
    const char *keys[] = { "a", NULL };
    tt_blob b;

    (void)k;
    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = '\0';
    TT_CHECK_ERR_SAYS(tt_store_set(s, "", "v", 1), TT_ERR_INVALID, "empty");
    TT_CHECK_ERR_SAYS(tt_store_set(s, NULL, "v", 1), TT_ERR_INVALID, "NULL");
    TT_CHECK_ERR_SAYS(tt_store_set(s, long_key, "v", 1), TT_ERR_INVALID, "4096");
    TT_CHECK_ERR(tt_store_set(s, "k", NULL, 1), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_store_set(NULL, "k", "v", 1), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_store_get(s, "k", NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_store_wait(s, keys, 2, 10), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_store_wait(s, keys, 0, 10), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_store_wait(s, keys, 1, -1), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_store_wait_change(s, "k", NULL, 0, -1, &b), TT_ERR_INVALID);
    if (strcmp(k->name, "prefix") != 0) {
        long_key[TT_STORE_MAX_KEY] = '\0';
        TT_REQUIRE_OK(tt_store_set(s, long_key, "v", 1));
        check_value(s, long_key, "v");
    }
}

/* ---- several threads
 * ------------------------------------------------------------------------- */

typedef struct worker {
    const kind *kind;
    tt_store *store;
    int index;
    pthread_t thread;
} worker;

#define N_WORKERS 4
#define N_ROUNDS 40

static void *work(void *arg)
{
    worker *w = arg;

    for (int i = 0; i < N_ROUNDS; i++) {
        char key[40];
        tt_blob b;

        TT_CHECK_OK(tt_store_add(w->store, "sum", w->index + 1, NULL));
        if (strcmp(w->kind->name, "mine") != 0)
            TT_CHECK_OK(tt_store_append(w->store, "list", "x", 1));
        snprintf(key, sizeof key, "round/%d/%d", i, w->index);
        TT_CHECK_OK(tt_store_set(w->store, key, &w->index, sizeof w->index));
        snprintf(key, sizeof key, "round/%d/%d", i, (w->index + 1) % N_WORKERS);
        if (!TT_CHECK_OK(tt_store_get(w->store, key, &b)))
            break;
        TT_CHECK_EQ(*(int *)b.data, (w->index + 1) % N_WORKERS);
        tt_blob_free(&b);
    }
    return NULL;
}

static void serves_several_threads(const kind *k, tt_store *s)
{
    worker workers[N_WORKERS];
    tt_blob b;

    for (int i = 0; i < N_WORKERS; i++) {
        workers[i] = (worker){ k, i % 2 == 0 ? tt_store_retain(s) : k->again(s), i, 0 };
        TT_REQUIRE_NOT_NULL(workers[i].store);
        TT_REQUIRE_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < N_WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        tt_store_free(workers[i].store);
    }
    check_value(s, "sum", "400");
    if (strcmp(k->name, "mine") != 0) {
        TT_REQUIRE_OK(tt_store_get(s, "list", &b));
        TT_CHECK_EQ(b.size, N_WORKERS * N_ROUNDS);
        tt_blob_free(&b);
    }
}

static void *wait_for_key(void *arg)
{
    worker *w = arg;

    check_value(w->store, "late", "now");
    return NULL;
}

/* A call that waits on a store must not keep others from using the same handle.
 */
static void waits_without_blocking_others(const kind *k, tt_store *s)
{
    worker w = { k, s, 0, 0 };

    TT_REQUIRE_EQ(pthread_create(&w.thread, NULL, wait_for_key, &w), 0);
    for (int i = 0; i < 50; i++)
        TT_CHECK_OK(tt_store_add(s, "meanwhile", 1, NULL));
    TT_CHECK_OK(tt_store_set(s, "late", "now", 3));
    pthread_join(w.thread, NULL);
    check_value(s, "meanwhile", "50");
}

/* ---- changes
 * ----------------------------------------------------------------------------------
 */

static void waits_for_changes(const kind *k, tt_store *s)
{
    tt_blob b;

    (void)k;
    TT_REQUIRE_OK(tt_store_set(s, "v", "1", 1));
    TT_REQUIRE_OK(tt_store_wait_change(s, "v", NULL, 0, 0, &b));
    TT_CHECK_STR((const char *)b.data, "1");
    tt_blob_free(&b);
    TT_REQUIRE_OK(tt_store_wait_change(s, "v", "0", 1, 0, &b));
    TT_CHECK_STR((const char *)b.data, "1");
    tt_blob_free(&b);
    TT_REQUIRE_OK(tt_store_wait_change(s, "v", "", 0, 0, &b));
    tt_blob_free(&b);
    TT_CHECK_ERR_SAYS(tt_store_wait_change(s, "v", "1", 1, 10, &b), TT_ERR_TIMEOUT,
                      "did not change");
}

typedef struct seen {
    pthread_mutex_t mu;
    pthread_cond_t cv;
    int last;
    bool backwards;
} seen;

static void on_change(void *ctx, const char *key, const void *data, size_t size)
{
    seen *w = ctx;
    int v = atoi(data);

    TT_CHECK_STR(key, "watched");
    TT_CHECK_GE(size, 1);
    pthread_mutex_lock(&w->mu);
    w->backwards |= v <= w->last;
    w->last = v;
    pthread_cond_signal(&w->cv);
    pthread_mutex_unlock(&w->mu);
}

static void watches_a_key(const kind *k, tt_store *s)
{
    seen w = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false };
    tt_store_watch *watch = tt_store_watch_new(s, "watched", on_change, &w);

    (void)k;
    TT_REQUIRE_NOT_NULL(watch);
    for (int i = 1; i <= 20; i++) {
        char text[12];

        snprintf(text, sizeof text, "%d", i);
        TT_CHECK_OK(tt_store_set(s, "watched", text, strlen(text)));
    }
    pthread_mutex_lock(&w.mu);
    while (w.last != 20)
        pthread_cond_wait(&w.cv, &w.mu);
    TT_CHECK(!w.backwards);
    pthread_mutex_unlock(&w.mu);
    tt_store_watch_free(watch);
    tt_store_watch_free(NULL);
    TT_CHECK_NULL(tt_store_watch_new(s, "watched", NULL, NULL));
}

/* ---- several processes
 * ------------------------------------------------------------------------ */

static int child(const kind *k, tt_store *s, int index)
{
    tt_store *mine = k->again(s);
    int bad = mine == NULL;

    for (int i = 0; i < N_ROUNDS && !bad; i++) {
        bad |= tt_store_add(mine, "sum", index + 1, NULL) != TT_OK;
        bad |= tt_store_append(s, "list", "x", 1) != TT_OK; /* the inherited handle */
    }
    tt_store_free(mine);
    return bad;
}

static void serves_several_processes(const kind *k, tt_store *s)
{
    pid_t pids[N_WORKERS];
    tt_blob b;
    int status;

    if (!k->across_processes)
        TT_SKIP("%s stores are for one process", k->name);
    for (int i = 0; i < N_WORKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(child(k, s, i));
        TT_CHECK_GT(pids[i], 0);
    }
    for (int i = 0; i < N_WORKERS; i++) {
        TT_CHECK_EQ(waitpid(pids[i], &status, 0), pids[i]);
        TT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    check_value(s, "sum", "400");
    TT_REQUIRE_OK(tt_store_get(s, "list", &b));
    TT_CHECK_EQ(b.size, N_WORKERS * N_ROUNDS);
    tt_blob_free(&b);
}

/* ---- one test per row and kind
 * ------------------------------------------------------------------ */

typedef struct row {
    const char *name;
    void (*fn)(const kind *k, tt_store *s);
} row;

#define ROW(name)   \
    {               \
#name, name \
    }
static const row rows[] = { ROW(sets_and_gets),
                            ROW(holds_large_values),
                            ROW(adds),
                            ROW(checks_and_deletes),
                            ROW(appends_and_compares),
                            ROW(time_outs_name_the_keys),
                            ROW(sets_and_gets_many),
                            ROW(refuses_bad_arguments),
                            ROW(serves_several_threads),
                            ROW(waits_without_blocking_others),
                            ROW(waits_for_changes),
                            ROW(watches_a_key),
                            ROW(serves_several_processes) };
enum { N_ROWS = sizeof rows / sizeof rows[0], N_KINDS = sizeof kinds / sizeof kinds[0] };

static struct cell {
    const row *row;
    const kind *kind;
} cells[N_ROWS * N_KINDS];

static void run(void *ctx)
{
    const struct cell *c = ctx;
    tt_store *s = c->kind->open();

    TT_REQUIRE_NOT_NULL(s);
    c->row->fn(c->kind, s);
    tt_store_free(s);
}

/* libuv keeps two descriptors for the rest of the process, for signals. */
static void end_libuv(void *ctx)
{
    (void)ctx;
    uv_library_shutdown();
}

TT_TEST_TABLE(store)
{
    char name[80];

    tt_test_at_leak_check(end_libuv, NULL);
    for (int i = 0; i < N_ROWS; i++) {
        for (int j = 0; j < N_KINDS; j++) {
            struct cell *c = &cells[i * N_KINDS + j];

            *c = (struct cell){ &rows[i], &kinds[j] };
            snprintf(name, sizeof name, "%s_%s", kinds[j].name, rows[i].name);
            tt_test_add("store", name, run, c);
        }
    }
}

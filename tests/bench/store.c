/* SPDX-License-Identifier: Apache-2.0 */
/* What the TCP store's server bears: many connections, many keys, and the start of many ranks, each a
 * client of its own that exchanges 168 bytes with all others as groups do when they are made.
 *
 *     store [connections] [keys]          prints metric and value, separated by a tab */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <tutti/rendezvous.h>

#define IDENT 168

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(tt_status st)
{
    if (st == TT_OK)
        return;
    fprintf(stderr, "store: %s\n", tt_last_error());
    exit(1);
}

static tt_store *need(tt_store *s)
{
    if (s == NULL)
        must(tt_last_status());
    return s;
}

static tt_store *join(tt_store *server)
{
    return need(tt_store_tcp_open("127.0.0.1", tt_store_tcp_port(server),
                                  &(tt_store_tcp_options){ .secret = "bench" }));
}

static long resident_kb(void)
{
    long pages = 0, ignored;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f == NULL || fscanf(f, "%ld %ld", &ignored, &pages) != 2)
        pages = 0;
    if (f != NULL)
        fclose(f);
    return pages * 4;
}

static void bench_connections(tt_store *server, int n)
{
    tt_store **clients = calloc((size_t)n, sizeof *clients);
    long before = resident_kb();
    double begin = now();

    if (clients == NULL)
        return;
    for (int i = 0; i < n; i++)
        clients[i] = join(server);
    printf("connections\t%d\nus per connection\t%.1f\n", n, (now() - begin) / n * 1e6);
    printf("KiB per connection, both sides\t%.1f\n", (double)(resident_kb() - before) / n);
    begin = now();
    for (int i = 0; i < n; i++)
        must(tt_store_add(clients[i], "visits", 1, NULL));
    printf("us per request, each on another connection\t%.1f\n", (now() - begin) / n * 1e6);
    for (int i = 0; i < n; i++)
        tt_store_free(clients[i]);
    free(clients);
}

static void bench_keys(tt_store *server, int n)
{
    tt_store *c = join(server);
    long before = resident_kb();
    double begin = now();
    char key[40];
    int64_t count;
    tt_blob b;

    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof key, "key/%d", i);
        must(tt_store_set(c, key, key, strlen(key)));
    }
    printf("keys\t%d\nsets per second, one client\t%.0f\n", n, n / (now() - begin));
    printf("bytes per key\t%.0f\n", (double)(resident_kb() - before) * 1024 / n);
    begin = now();
    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof key, "key/%d", i);
        must(tt_store_get(c, key, &b));
        tt_blob_free(&b);
    }
    printf("gets per second, one client\t%.0f\n", n / (now() - begin));
    must(tt_store_count(c, &count));
    printf("keys counted\t%lld\n", (long long)count);
    tt_store_free(c);
}

/* ---- the start of many ranks --------------------------------------------------------------------- */

typedef struct member {
    tt_store *server;
    int rank, size;
    pthread_t thread;
} member;

/* The requests of an exchange: set, add, wait for the last one, get all. */
static void exchange(tt_store *view, const member *m)
{
    char(*names)[24] = malloc((size_t)m->size * sizeof *names), key[24];
    const char **keys = malloc((size_t)m->size * sizeof *keys), *done = "done";
    tt_blob *blobs = malloc((size_t)m->size * sizeof *blobs);
    char ident[IDENT] = "rank";
    int64_t n;

    if (names == NULL || keys == NULL || blobs == NULL)
        exit(1);
    snprintf(key, sizeof key, "%d", m->rank);
    must(tt_store_set(view, key, ident, sizeof ident));
    must(tt_store_add(view, "count", 1, &n));
    if (n == m->size)
        must(tt_store_set(view, done, "1", 1));
    must(tt_store_wait(view, &done, 1, 0));
    for (int i = 0; i < m->size; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        keys[i] = names[i];
    }
    must(tt_store_multi_get(view, keys, m->size, blobs));
    for (int i = 0; i < m->size; i++)
        tt_blob_free(&blobs[i]);
    free(names);
    free(keys);
    free(blobs);
}

static void *start(void *arg)
{
    const member *m = arg;
    tt_store *c = join(m->server), *view;
    char name[24];

    snprintf(name, sizeof name, "start/%d", m->size);
    view = need(tt_store_prefix_new(name, c));
    exchange(view, m);
    tt_store_free(view);
    tt_store_free(c);
    return NULL;
}

static void bench_start(tt_store *server, int size)
{
    member *members = calloc((size_t)size, sizeof *members);
    pthread_attr_t attr;
    double begin = now(), took;

    if (members == NULL)
        return;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    for (int i = 0; i < size; i++) {
        members[i] = (member){ server, i, size, 0 };
        if (pthread_create(&members[i].thread, &attr, start, &members[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < size; i++)
        pthread_join(members[i].thread, NULL);
    took = now() - begin;
    printf("start of %d ranks, ms\t%.2f\nstart of %d ranks, us per rank\t%.1f\n", size, took * 1e3,
           size, took / size * 1e6);
    pthread_attr_destroy(&attr);
    free(members);
}

int main(int argc, char **argv)
{
    int connections = argc > 1 ? atoi(argv[1]) : 5000, keys = argc > 2 ? atoi(argv[2]) : 100000;
    struct rlimit files;
    tt_store *server;

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    server = need(tt_store_tcp_open("127.0.0.1", 0,
                                    &(tt_store_tcp_options){ .serve = true, .secret = "bench" }));
    bench_start(server, 10);
    bench_start(server, 100);
    bench_start(server, 1000);
    bench_keys(server, keys);
    bench_connections(server, connections);
    tt_store_free(server);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of whole worlds share. Every rank is a process, and the default group is made through a
 * file in the directory of the test; or a thread, with the group of the harness. */
#ifndef TT_TESTS_WORLD_DISTRIBUTED_H
#define TT_TESTS_WORLD_DISTRIBUTED_H

#include "tutti/collective.h"
#include "tutti/ops.h"
#include "tutti/prof.h"
#include "tutti/testing.h"

#define DIST_MAX 8 /* ranks */

typedef enum dist_kind {
    DIST_WORLD, /* the default group */
    DIST_SUB,   /* ranks 1 and 2 of 8 */
    DIST_FULL,  /* a second group of all ranks */
} dist_kind;

/* A group under test. */
typedef struct dist_group {
    tt_pg *pg;
    dist_kind kind;
    int n, me;           /* members; the global rank of this one */
    int ranks[DIST_MAX]; /* their global ranks */
    bool member;
} dist_group;

typedef void (*dist_fn)(const dist_group *g, const void *arg);

/* One test: fn runs on the members of the group while the others wait. */
typedef struct dist_row {
    const char *name;
    dist_fn fn;
    dist_kind kind;
    const void *arg;
    int ranks; /* 0: 8 for DIST_SUB, else 4 */
} dist_row;

/* Where the tensors of this test are: the CPU, or in rows on devices the one of this rank. */
tt_device dist_device(void);
/* Makes the device of this rank that one; the test is skipped if there is none. */
void dist_use_device(void);

/* Adds tests to suite "distributed"; call it from TT_TEST_TABLE. `rows` must stay. */
void dist_add_rows(const dist_row *rows, int n);
#define DIST_ADD_ROWS(rows) dist_add_rows(rows, (int)(sizeof(rows) / sizeof((rows)[0])))
/* And the same with ranks that are threads, in suite "distributed_threads": such rows keep what they change
 * to the thread. */
void dist_add_rows_twice(const dist_row *rows, int n);
#define DIST_ADD_ROWS_TWICE(rows) dist_add_rows_twice(rows, (int)(sizeof(rows) / sizeof((rows)[0])))
/* On processes, with tensors on the device of each rank. */
void dist_add_rows_on_devices(const dist_row *rows, int n);
#define DIST_ADD_ROWS_ON_DEVICES(rows) \
    dist_add_rows_on_devices(rows, (int)(sizeof(rows) / sizeof((rows)[0])))
bool dist_on_threads(void);

/* The default group, made on first use; ends the test when it cannot be made. */
tt_pg *dist_world(void);
void dist_world_end(void);
dist_group dist_group_open(dist_kind kind, const tt_pg_options *opt);
/* Waits for all ranks first, so that nobody sees a peer leave. */
void dist_group_close(dist_group *g);
/* fn at debug levels off, info and detail, on all ranks. */
void dist_each_debug_level(tt_test_fn fn, void *ctx);
/* All ranks of the test, whatever state the groups are in. */
void dist_meet(void);

extern const tt_coll_options dist_global; /* roots and peers are global ranks */

/* ---- tensors -------------------------------------------------------------------------------- */

/* Of the scope. `im` counts for complex types only; -1 becomes 255 in uint8. */
tt_tensor *dist_full(tt_shape shape, tt_dtype dtype, double re, double im);
tt_shape dist_cube(int64_t edge);
/* Type, shape and every bit of every element. */
bool dist_check_full(const char *file, int line, tt_tensor *t, tt_shape shape, double re,
                     double im);
#define DIST_CHECK_FULL(t, shape, re, im) dist_check_full(TT_TEST_HERE, t, shape, re, im)

/* ---- profiles ------------------------------------------------------------------------------- */

tt_prof *dist_prof_start(void);
/* Stops and frees it, after checking that it has exactly n events "<backend>:op", all asynchronous and of
 * count 1, each with these input shapes (NULL: any). */
void dist_prof_end(tt_prof *p, const dist_group *g, const char *op, int n, const tt_shape *shapes,
                   int n_shapes);
/* The shape as profiles show it: complex tensors as pairs. */
tt_shape dist_real(tt_shape shape, tt_dtype dtype);

#endif

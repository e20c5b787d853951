/* SPDX-License-Identifier: Apache-2.0 */
/* A group of any backend for tests: processes meet through a file, threads in memory, fakes not at all. */
#ifndef TESTS_CONFORMANCE_PG_GROUP_H
#define TESTS_CONFORMANCE_PG_GROUP_H

#include <tutti/testing.h>
#include <tutti/tutti.h>

typedef struct pg_case {
    const char *name;
    void (*fn)(tt_pg *pg);
    int ranks; /* 0: 3 */
} pg_case;

/* Adds each case as suite pg_shm, pg_threads and pg_fake. The cases must stay valid. */
void add_pg_cases(const pg_case *cases, int n);

/* Whether rank r sends anything to this rank: in a fake group only this rank itself does. */
bool hears(tt_pg *pg, int r);

/* Elements converted to double, compared one by one with want(ctx, i). */
bool check_elements(tt_tensor *t, double (*want)(void *ctx, int64_t i), void *ctx, double tol);
bool check_filled(tt_tensor *t, double value);

tt_tensor *filled(int64_t n, double value, tt_dtype dtype);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: whole JSON with what tools look for. */
#include <cJSON.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prof/emit.h"
#include "prof/json.h"
#include "tutti/ops.h"
#include "tutti/testing.h"

static const int odd_ranks[] = { 1, 3, 5 };

static tt_prof_event sub_event(const char *name, uint64_t seq)
{
    return (tt_prof_event){ .name = name,
                            .rank = 1,
                            .seq = seq,
                            .group = "sub",
                            .group_desc = "odd \"ranks\"",
                            .group_size = 3,
                            .dtype = TT_F32,
                            .in_numel = 100,
                            .out_numel = 300,
                            .peer = -1,
                            .is_collective = true,
                            .ranks = odd_ranks,
                            .n_ranks = 3,
                            .world_size = 8 };
}

static void path_of(const char *name, char path[600])
{
    snprintf(path, 600, "%s/%s", tt_test_tmpdir(), name);
}

static cJSON *export_and_load(const tt_prof *p)
{
    static char text[4 << 20];
    char path[600];
    FILE *f;
    size_t n;

    path_of("trace.json", path);
    TT_REQUIRE_OK(tt_prof_export(p, path));
    f = fopen(path, "r");
    TT_REQUIRE_NOT_NULL(f);
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    return cJSON_ParseWithOpts(text, NULL, true);
}

static const cJSON *get(const cJSON *j, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(j, key);
}

static const char *text_of(const cJSON *j, const char *key)
{
    const char *s = cJSON_GetStringValue(get(j, key));

    return s != NULL ? s : "absent";
}

static int int_of(const cJSON *j, const char *key)
{
    return cJSON_IsNumber(get(j, key)) ? get(j, key)->valueint : -12345;
}

/* The n-th event with this name and phase. */
static const cJSON *find(const cJSON *j, const char *name, const char *ph, int n)
{
    const cJSON *e;

    cJSON_ArrayForEach(e, get(j, "traceEvents"))
    {
        if (strcmp(text_of(e, "name"), name) == 0 && strcmp(text_of(e, "ph"), ph) == 0 && n-- == 0)
            return e;
    }
    return NULL;
}

TT_TEST(prof_export, collectives_have_the_arguments_that_tools_read)
{
    tt_prof *p = tt_prof_start(&(tt_prof_options){ .shapes = true });
    tt_prof_event e = sub_event("shm:all_reduce", 7);
    int64_t splits[] = { 10, 20, 70 };
    tt_shape shape = TT_SHAPE(10, 10);
    const cJSON *x, *a, *info;
    cJSON *j;

    e.in_splits = splits;
    e.n_in_splits = 3;
    e.shapes = &shape;
    e.n_shapes = 1;
    tti_prof_op_end(tti_prof_op_begin(&e), false);
    TT_CHECK_OK(tt_prof_stop(p));
    j = export_and_load(p);
    TT_REQUIRE_NOT_NULL(j);
    x = find(j, "shm:all_reduce", "X", 0);
    TT_REQUIRE_NOT_NULL(x);
    TT_CHECK_EQ(int_of(x, "pid"), 3);
    TT_CHECK(cJSON_IsNumber(get(x, "ts")) && cJSON_IsNumber(get(x, "dur")));
    a = get(x, "args");
    TT_CHECK_STR(text_of(a, "Collective name"), "allreduce");
    TT_CHECK_STR(text_of(a, "dtype"), "Float");
    TT_CHECK_EQ(int_of(a, "In msg nelems"), 100);
    TT_CHECK_EQ(int_of(a, "Out msg nelems"), 300);
    TT_CHECK_EQ(int_of(a, "Group size"), 3);
    TT_CHECK_STR(text_of(a, "Process Group Name"), "sub");
    TT_CHECK_STR(text_of(a, "Process Group Description"), "odd \"ranks\"");
    TT_CHECK_STR(text_of(a, "Process Group Ranks"), "[1, 3, 5]");
    TT_CHECK_EQ(int_of(a, "Global rank start"), 1);
    TT_CHECK_EQ(int_of(a, "Global rank stride"), 2);
    TT_CHECK_EQ(int_of(a, "Seq"), 7);
    TT_CHECK_STR(text_of(a, "In split size"), "[10, 20, 70]");
    TT_CHECK_STR(text_of(a, "Out split size"), "[]");
    TT_CHECK_EQ(cJSON_GetArrayItem(cJSON_GetArrayItem(get(a, "Input Dims"), 0), 1)->valueint, 10);
    info = get(j, "distributedInfo");
    TT_CHECK_EQ(int_of(info, "rank"), 3);
    TT_CHECK_EQ(int_of(info, "world_size"), 8);
    TT_CHECK_STR(text_of(info, "backend"), "shm");
    TT_CHECK_EQ(int_of(info, "pg_count"), 1);
    a = cJSON_GetArrayItem(get(info, "pg_config"), 0);
    TT_CHECK_STR(text_of(a, "pg_name"), "sub");
    TT_CHECK_EQ(cJSON_GetArraySize(get(a, "ranks")), 3);
    TT_CHECK(cJSON_IsNumber(get(j, "baseTimeNanoseconds")));
    TT_CHECK(strtoll(text_of(get(j, "tutti"), "base_monotonic_ns"), NULL, 10) > 0);
    cJSON_Delete(j);
    tt_prof_free(p);
}

TT_TEST(prof_export, overlapping_operations_become_pairs)
{
    tt_prof *p = tt_prof_start(&(tt_prof_options){ .no_ops = true });
    tt_prof_event e = sub_event("shm:all_reduce", 1);
    tti_prof_mark *a, *b;
    cJSON *j;

    e.async = true;
    a = tti_prof_op_begin(&e); /* overlaps b */
    b = tti_prof_op_begin(&e);
    tti_prof_op_end(a, false);
    tti_prof_op_end(b, false);
    tti_prof_op_end(tti_prof_op_begin(&e), false); /* alone */
    tt_prof_begin("outer");
    tt_prof_begin("inner");
    tt_prof_end();
    tt_prof_end();
    TT_CHECK_OK(tt_prof_stop(p));
    j = export_and_load(p);
    TT_REQUIRE_NOT_NULL(j);
    TT_CHECK_NOT_NULL(find(j, "shm:all_reduce", "b", 0));
    TT_CHECK_NOT_NULL(find(j, "shm:all_reduce", "e", 0));
    TT_CHECK_NULL(find(j, "shm:all_reduce", "b", 1));
    TT_CHECK_EQ(int_of(find(j, "shm:all_reduce", "b", 0), "id"),
                int_of(find(j, "shm:all_reduce", "e", 0), "id"));
    TT_CHECK_NOT_NULL(find(j, "shm:all_reduce", "X", 1));
    TT_CHECK_NOT_NULL(find(j, "outer", "X", 0));
    TT_CHECK_NOT_NULL(find(j, "inner", "X", 0));
    cJSON_Delete(j);
    tt_prof_free(p);
}

static void *named(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "reader");
    tt_prof_begin("read");
    tt_prof_end();
    return NULL;
}

TT_TEST(prof_export, threads_have_names_and_the_process_its_rank)
{
    tt_prof *p = tt_prof_start(NULL);
    const cJSON *e;
    pthread_t t;
    bool found = false;
    cJSON *j;

    tti_prof_set_world(2, 4, "shm");
    TT_REQUIRE_EQ(pthread_create(&t, NULL, named, NULL), 0);
    pthread_join(t, NULL);
    TT_CHECK_OK(tt_prof_stop(p));
    j = export_and_load(p);
    TT_REQUIRE_NOT_NULL(j);
    TT_CHECK_EQ(int_of(get(j, "distributedInfo"), "rank"), 2);
    TT_CHECK_EQ(int_of(get(j, "distributedInfo"), "world_size"), 4);
    TT_CHECK_EQ(int_of(find(j, "read", "X", 0), "pid"), 2);
    cJSON_ArrayForEach(e, get(j, "traceEvents"))
    {
        if (strcmp(text_of(e, "name"), "thread_name") == 0)
            found |= strncmp(text_of(get(e, "args"), "name"), "reader ", 7) == 0;
    }
    TT_CHECK(found);
    cJSON_Delete(j);
    tt_prof_free(p);
}

TT_TEST(prof_export, strange_names_stay_json)
{
    tt_prof *p = tt_prof_start(NULL);
    cJSON *j;

    tt_prof_begin("quote \" slash \\ line \n bell \a bad \xff\xc3 good \xc3\xa9");
    tt_prof_end();
    TT_CHECK_OK(tt_prof_stop(p));
    j = export_and_load(p);
    TT_REQUIRE_NOT_NULL(j);
    TT_CHECK_NOT_NULL(find(j,
                           "quote \" slash \\ line \n bell \a bad "
                           "\xef\xbf\xbd\xef\xbf\xbd good \xc3\xa9",
                           "X", 0));
    cJSON_Delete(j);
    tt_prof_free(p);
}

TT_TEST(prof_export, says_why_it_cannot)
{
    tt_prof *p = tt_prof_start(NULL);
    char path[600];

    path_of("x.json", path);
    TT_CHECK_ERR_SAYS(tt_prof_export(p, path), TT_ERR_INVALID, "one that runs");
    TT_CHECK_OK(tt_prof_stop(p));
    TT_CHECK_ERR(tt_prof_export(NULL, path), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_prof_export(p, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR_SAYS(tt_prof_export(p, "/no/such/place/x"), TT_ERR_NOT_FOUND, "/no/such/place/x");
    TT_CHECK_NE(access(path, F_OK), 0);
    tt_prof_free(p);
}

static tt_status export_to(void *p)
{
    char path[600];

    path_of("alloc.json", path);
    return tt_prof_export(p, path);
}

TT_TEST(prof_export, survives_every_failed_allocation)
{
    tt_prof *p = tt_prof_start(NULL);
    tt_prof_event e = sub_event("shm:all_reduce", 1);

    tti_prof_op_end(tti_prof_op_begin(&e), true);
    TT_CHECK_OK(tt_prof_stop(p));
    TT_CHECK_GE(tt_test_fail_allocs(export_to, p), 5);
    tt_prof_free(p);
}

TT_TEST(prof_export, many_events)
{
    tt_prof *p = tt_prof_start(&(tt_prof_options){ .no_ops = true });
    const cJSON *e;
    int n = 0;
    cJSON *j;

    for (int i = 0; i < 20000; i++) {
        tt_prof_begin("step");
        tt_prof_end();
    }
    TT_CHECK_OK(tt_prof_stop(p));
    j = export_and_load(p);
    TT_REQUIRE_NOT_NULL(j);
    cJSON_ArrayForEach(e, get(j, "traceEvents")) n += strcmp(text_of(e, "ph"), "X") == 0;
    TT_CHECK_EQ(n, 20000);
    cJSON_Delete(j);
    tt_prof_free(p);
}

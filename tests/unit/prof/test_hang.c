/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps whom waiting, from dumps made up for the purpose. */
#include "prof/hang.h"

#include <cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tutti/prof.h"
#include "tutti/testing.h"

/* One dump being written: begin_dump, any number of entries, end_dump. */
static FILE *out;
static int n_entries;

static void begin_group(const char *group, int rank, int size, const char *ranks, int global,
                        const char *cause)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s.%d.json", tt_test_tmpdir(), group, global);
    out = fopen(path, "w");
    TT_REQUIRE_NOT_NULL(out);
    n_entries = 0;
    fprintf(out,
            "{\"format\":\"tutti flight recorder 1\",\"host\":\"a\",\"pid\":1,\"now_ns\":"
            "100000000000,\"cause\":\"%s\",\"words\":\"\",\"group\":{\"name\":\"%s\",\"rank\":%d,"
            "\"size\":%d,\"global_rank\":%d,\"global_ranks\":%s,\"timeout_ms\":1000},"
            "\"last_issued\":0,\"entries\":[",
            cause, group, rank, size, global, ranks);
}

static void begin_dump(int rank, int size)
{
    static const char *const ranks[] = { "[]", "[0]", "[0,1]", "[0,1,2]", "[0,1,2,3]" };

    begin_group("world", rank, size, ranks[size], rank, "time-out");
}

/* Started and ended in seconds; end 0: under way, end < 0: failed then. */
static void entry(const char *op, int seq, int bytes, double start, double end, int peer)
{
    bool p2p = strstr(op, "send") != NULL || strstr(op, "recv") != NULL;

    fprintf(out,
            "%s\n{\"op\":\"%s\",\"seq\":%d,\"state\":\"%s\",%s\"p2p\":%s,\"async\":false,"
            "\"peer\":%d,\"dtype\":\"float32\",\"in_bytes\":%d,\"out_bytes\":%d,\"dims\":[],"
            "\"issued_ns\":%.0f,\"started_ns\":%.0f",
            n_entries++ != 0 ? "," : "", op, seq,
            end == 0  ? "started"
            : end < 0 ? "failed"
                      : "completed",
            end < 0 ? "\"status\":\"TT_ERR_TIMEOUT\"," : "", p2p ? "true" : "false", peer, bytes,
            bytes, start * 1e9, start * 1e9);
    if (end != 0)
        fprintf(out, ",\"ended_ns\":%.0f", (end < 0 ? -end : end) * 1e9);
    fprintf(out, "}");
}

static void end_dump(void)
{
    fprintf(out, "]}\n");
    TT_REQUIRE_EQ(fclose(out), 0);
}

/* What is said, and how many findings there are. */
static void expect(int n, const char *words)
{
    int found = -1;
    char *text = tt_flight_explain(tt_test_tmpdir(), false, &found);

    TT_REQUIRE_OK(text != NULL ? TT_OK : tt_last_status());
    TT_CHECK_STR(text, words);
    TT_CHECK_EQ(found, n);
    tt_text_free(text);
}

/* A rank that finished collectives 1 to n. */
static void healthy_until(int n)
{
    for (int i = 1; i <= n; i++)
        entry("all_reduce", i, 8, i, i + 0.5, -1);
}

TT_TEST(hang, a_rank_is_missing)
{
    for (int r = 0; r < 4; r++) {
        begin_dump(r, 4);
        healthy_until(15);
        entry("broadcast", 16, 8, 50, 87.7, 0);
        if (r != 2)
            entry("all_reduce", 17, 4096, 88, 0, -1);
        end_dump();
    }
    expect(1, "group world: ranks 0, 1, 3 wait in all_reduce #17 (float32, 4096 bytes); rank 2 is "
              "not there: its last operation was broadcast #16, finished 12.3 s before");
}

TT_TEST(hang, time_outs_are_waits_too)
{
    for (int r = 0; r < 2; r++) {
        begin_dump(r, 2);
        if (r == 0)
            entry("barrier", 1, 0, 50, -60, -1);
        end_dump();
    }
    expect(1, "group world: rank 0 waits in barrier #1; rank 1 is not there: it has called no "
              "collective");
}

TT_TEST(hang, a_rank_called_something_else)
{
    for (int r = 0; r < 4; r++) {
        begin_dump(r, 4);
        healthy_until(16);
        entry(r == 2 ? "broadcast" : "all_reduce", 17, 4096, 88, 0, -1);
        end_dump();
    }
    expect(1, "group world: ranks 0, 1, 3 called all_reduce #17 (float32, 4096 bytes); rank 2 "
              "called broadcast #17 (float32, 4096 bytes) instead");
}

TT_TEST(hang, a_rank_has_another_size)
{
    for (int r = 0; r < 3; r++) {
        begin_dump(r, 3);
        entry("all_reduce", 1, r == 1 ? 8 : 16, 88, 0, -1);
        end_dump();
    }
    expect(1, "group world: ranks 0, 2 called all_reduce #1 (float32, 16 bytes); rank 1 called it "
              "with float32, 8 bytes instead");
}

TT_TEST(hang, sizes_may_differ_where_they_may)
{
    for (int r = 0; r < 3; r++) {
        begin_dump(r, 3);
        entry("all_to_all", 1, 8 * r, 10, 11, -1);
        end_dump();
    }
    expect(0, "");
}

TT_TEST(hang, a_rank_left_no_dump)
{
    for (int r = 0; r < 3; r++) {
        if (r == 1)
            continue;
        begin_dump(r, 3);
        entry("all_reduce", 5, 4, 88, -90, -1);
        end_dump();
    }
    expect(1, "group world: ranks 0, 2 wait in all_reduce #5 (float32, 4 bytes); rank 1 left no "
              "dump: is it dead?");
}

TT_TEST(hang, several_ranks_left_no_dump)
{
    begin_dump(1, 4);
    entry("all_reduce", 5, 4, 88, -90, -1);
    end_dump();
    expect(1, "group world: rank 1 waits in all_reduce #5 (float32, 4 bytes); ranks 0, 2, 3 left "
              "no dump: are they dead?");
}

TT_TEST(hang, all_is_well)
{
    for (int r = 0; r < 3; r++) {
        begin_dump(r, 3);
        healthy_until(20);
        end_dump();
    }
    expect(0, "");
}

TT_TEST(hang, a_signal_in_the_middle_is_no_hang)
{
    for (int r = 0; r < 2; r++) {
        begin_group("world", r, 2, "[0,1]", r, "signal");
        healthy_until(3);
        if (r == 0)
            entry("all_reduce", 4, 4, 99.9, 0, -1);
        end_dump();
    }
    expect(0, "");
    begin_group("world", 0, 2, "[0,1]", 0, "signal");
    healthy_until(3);
    entry("all_reduce", 4, 4, 90, 0, -1); /* ten seconds are */
    end_dump();
    expect(1, "group world: rank 0 waits in all_reduce #4 (float32, 4 bytes); rank 1 is not there: "
              "its last operation was all_reduce #3, finished 96.5 s before");
}

TT_TEST(hang, nobody_is_missing)
{
    for (int r = 0; r < 2; r++) {
        begin_dump(r, 2);
        entry("all_reduce", 1, 4, 80, -90, -1);
        end_dump();
    }
    expect(1, "group world: ranks 0, 1 failed in all_reduce #1 (float32, 4 bytes) with "
              "TT_ERR_TIMEOUT; nobody is missing");
}

TT_TEST(hang, one_is_left_behind)
{
    for (int r = 0; r < 3; r++) {
        begin_dump(r, 3);
        entry("broadcast", 1, 4, 80, r == 2 ? 0 : 81, 0);
        end_dump();
    }
    expect(1, "group world: rank 2 is still in broadcast #1 (float32, 4 bytes), which ranks 0, 1 "
              "have finished");
}

TT_TEST(hang, rings_that_forgot_are_compared_where_they_overlap)
{
    begin_dump(0, 2);
    for (int s = 100; s <= 300; s++)
        entry("all_reduce", s, 4, 50, 51, -1);
    entry("barrier", 301, 0, 60, 0, -1);
    end_dump();
    begin_dump(1, 2);
    for (int s = 1; s <= 300; s++)
        entry(s < 100 ? "broadcast" : "all_reduce", s, 4, 50, 90, -1);
    end_dump();
    expect(1, "group world: rank 0 waits in barrier #301; rank 1 is not there: its last operation "
              "was all_reduce #300, finished 10.0 s before");
}

TT_TEST(hang, the_missing_rank_waits_in_another_group)
{
    begin_group("world", 0, 2, "[0,1]", 0, "time-out");
    entry("all_reduce", 1, 4, 80, 0, -1);
    end_dump();
    begin_group("world", 1, 2, "[0,1]", 1, "time-out");
    end_dump();
    begin_group("pair", 0, 2, "[1,0]", 1, "time-out");
    entry("barrier", 1, 0, 80, 0, -1);
    end_dump();
    begin_group("pair", 1, 2, "[1,0]", 0, "time-out");
    end_dump();
    expect(2, "group pair: rank 1 waits in barrier #1; rank 0 is not there: it has called no "
              "collective; it waits in all_reduce #1 (float32, 4 bytes) of group world\n"
              "group world: rank 0 waits in all_reduce #1 (float32, 4 bytes); rank 1 is not there: "
              "it has called no collective; it waits in barrier #1 of group pair");
}

TT_TEST(hang, global_ranks_are_named)
{
    begin_group("sub", 0, 2, "[4,7]", 4, "time-out");
    entry("barrier", 1, 0, 80, 0, -1);
    end_dump();
    begin_group("sub", 1, 2, "[4,7]", 7, "time-out");
    end_dump();
    expect(1, "group sub: rank 4 waits in barrier #1; rank 7 is not there: it has called no "
              "collective");
}

/* ---- messages -------------------------------------------------------------------------------- */

TT_TEST(hang, messages_in_a_circle)
{
    for (int r = 0; r < 3; r++) {
        begin_dump(r, 3);
        entry("recv", r + 1, 4, 80, 0, (r + 1) % 3);
        end_dump();
    }
    expect(1, "group world: ranks wait for each other: 0 waits for 1 in recv #1, 1 waits for 2 in "
              "recv #2, 2 waits for 0 in recv #3");
}

TT_TEST(hang, a_message_that_is_not_sent)
{
    begin_dump(0, 2);
    entry("recv", 3, 4, 80, 0, 1);
    end_dump();
    begin_dump(1, 2);
    entry("send", 2, 4, 70, 71, 0);
    end_dump();
    expect(1, "group world: rank 0 waits in recv #3 (float32, 4 bytes) for rank 1, which does not "
              "send: its last message was send #2");
}

TT_TEST(hang, a_message_from_the_dead)
{
    begin_dump(0, 2);
    entry("send", 3, 4, 80, -90, 1);
    end_dump();
    expect(1, "group world: rank 0 waits in send #3 (float32, 4 bytes) for rank 1, which left no "
              "dump: is it dead?");
}

TT_TEST(hang, messages_on_their_way_are_well)
{
    begin_dump(0, 2);
    entry("send", 3, 4, 80, 0, 1);
    end_dump();
    begin_dump(1, 2);
    entry("recv", 3, 4, 80, 0, 0);
    end_dump();
    expect(0, "");
    begin_dump(1, 2);
    entry("recvAnySource", 3, 4, 80, 0, -1);
    end_dump();
    expect(0, "");
}

/* ---- other forms, bad files ------------------------------------------------------------------- */

TT_TEST(hang, as_json)
{
    char *text;
    cJSON *j, *f;
    int n;

    begin_group("a\\\"b", 0, 2, "[0,1]", 0, "time-out");
    entry("all_reduce", 1, 4, 80, 0, -1);
    end_dump();
    text = tt_flight_explain(tt_test_tmpdir(), true, &n);
    TT_REQUIRE_NOT_NULL(text);
    j = cJSON_Parse(text);
    TT_REQUIRE_EQ(cJSON_GetArraySize(j), 1);
    TT_CHECK_EQ(n, 1);
    f = cJSON_GetArrayItem(j, 0);
    TT_CHECK_STR(cJSON_GetStringValue(cJSON_GetObjectItem(f, "group")), "a\"b");
    TT_CHECK_STR(cJSON_GetStringValue(cJSON_GetObjectItem(f, "kind")), "missing");
    TT_CHECK_EQ(cJSON_GetArrayItem(cJSON_GetObjectItem(f, "waiting"), 0)->valueint, 0);
    TT_CHECK_EQ(cJSON_GetArrayItem(cJSON_GetObjectItem(f, "blamed"), 0)->valueint, 1);
    cJSON_Delete(j);
    tt_text_free(text);
}

/* Only a job that still runs leaves the question open whether a rank is dead. */
TT_TEST(hang, asks_nothing_when_the_job_is_over)
{
    char text[400], *running;

    begin_dump(0, 2);
    entry("all_reduce", 1, 4, 80, 0, -1);
    end_dump();
    running = tt_flight_explain(tt_test_tmpdir(), false, NULL);
    TT_CHECK_CONTAINS(running, "rank 1 left no dump: is it dead?");
    tt_text_free(running);
    TT_CHECK_OK(tti_hang_explain(tt_test_tmpdir(), text, sizeof text));
    TT_CHECK_CONTAINS(text, "rank 1 left no dump before the end");
    TT_CHECK_NULL(strstr(text, "dead?"));
}

/* Whatever a dump holds, what is written of it is JSON. */
TT_TEST(hang, text_that_is_not_utf8_is_made_harmless)
{
    char *text;
    int n;

    begin_dump(0, 2);
    entry("all\xffreduce", 1, 4, 80, 0, -1);
    end_dump();
    text = tt_flight_explain(tt_test_tmpdir(), true, &n);
    TT_REQUIRE_NOT_NULL(text);
    TT_CHECK_CONTAINS(text, "all\\ufffdreduce");
    TT_CHECK_NULL(strchr(text, '\xff'));
    tt_text_free(text);
}

TT_TEST(hang, fits_the_room_there_is)
{
    char text[20];

    begin_dump(0, 2);
    entry("all_reduce", 1, 4, 80, 0, -1);
    end_dump();
    TT_CHECK_OK(tti_hang_explain(tt_test_tmpdir(), text, sizeof text));
    TT_CHECK_STR(text, "group world: rank 0");
}

static void spoil(const char *name, const char *text)
{
    char path[600];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", tt_test_tmpdir(), name);
    f = fopen(path, "w");
    TT_REQUIRE_NOT_NULL(f);
    fputs(text, f);
    fclose(f);
    TT_CHECK_NULL(tt_flight_explain(tt_test_tmpdir(), false, NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_FORMAT);
    TT_CHECK_CONTAINS(tt_last_error(), name);
    unlink(path);
}

TT_TEST(hang, damaged_files_are_named)
{
    char path[600], whole[4096], part[4096];
    size_t n;
    FILE *f;

    TT_CHECK_NULL(tt_flight_explain(NULL, false, NULL));
    TT_CHECK_NULL(tt_flight_explain("/no/such/place", false, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "/no/such/place");
    TT_CHECK_NULL(tt_flight_explain(tt_test_tmpdir(), false, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "no dumps");
    spoil("a.json", "");
    spoil("b.json", "{}");
    spoil("c.json", "[1,2]");
    spoil("d.json", "null");
    begin_dump(0, 2);
    entry("all_reduce", 1, 4, 80, 0, -1);
    end_dump();
    snprintf(path, sizeof path, "%s/world.0.json", tt_test_tmpdir());
    f = fopen(path, "r");
    TT_REQUIRE_NOT_NULL(f);
    n = fread(whole, 1, sizeof whole - 1, f);
    fclose(f);
    for (size_t i = 1; i + 2 < n; i += 7) { /* cut anywhere */
        memcpy(part, whole, i);
        part[i] = '\0';
        spoil("cut.json", part);
    }
    for (size_t i = 0; i + 1 < n; i++) /* changed anywhere: an answer or an error, no crash */
        for (const char *c = "\"0-9}]"; *c != '\0'; c++) {
            memcpy(part, whole, n);
            part[i] = *c;
            f = fopen(path, "w");
            fwrite(part, 1, n, f);
            fclose(f);
            tt_text_free(tt_flight_explain(tt_test_tmpdir(), false, NULL));
        }
}

static tt_status explain(void *unused)
{
    char *text = tt_flight_explain(tt_test_tmpdir(), true, NULL);
    tt_status st = text != NULL ? TT_OK : TT_ERR_NOMEM;

    (void)unused;
    tt_text_free(text);
    return st;
}

TT_TEST(hang, survives_every_failed_allocation)
{
    begin_dump(0, 2);
    entry("all_reduce", 1, 4, 80, 0, -1);
    entry("recv", 1, 4, 80, 0, 1);
    end_dump();
    TT_CHECK_GE(tt_test_fail_allocs(explain, NULL), 8);
}

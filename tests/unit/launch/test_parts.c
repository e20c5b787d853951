/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the launcher by themselves: environment, CPUs, programs, lines, words. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tutti/testing.h>
#include <unistd.h>

#include "launch/job.h"
#include "launch/jobstore.h"

/* ---- environment ---------------------------------------------------------------------------------- */

static const char *value(char **env, const char *name)
{
    const char *found = NULL;
    int times = 0;

    for (char **e = env; *e != NULL; e++)
        if (strncmp(*e, name, strlen(name)) == 0 && (*e)[strlen(name)] == '=') {
            found = *e + strlen(name) + 1;
            times++;
        }
    TT_CHECK_LE(times, 1);
    return found;
}

static tti_job sample_job(void)
{
    static char dir[] = "/d", flight_dir[] = "/f";
    tti_job job = { .n = 4, .world = 8, .restart = 2, .master_port = 1234 };

    job.opt = (tt_launch_options){ .n_nodes = 2, .node_rank = 1, .max_restarts = 3 };
    job.dir = dir;
    job.flight_dir = flight_dir;
    job.cpus.threads = 5;
    strcpy(job.secret, "s3cret");
    strcpy(job.run_id, "r1");
    strcpy(job.master_addr, "h");
    strcpy(job.store_addr, "h:99");
    return job;
}

TT_TEST(launch_env, has_the_names_of_torchrun)
{
    static const char *const want[][2] = {
        { "RANK", "6" },
        { "LOCAL_RANK", "2" },
        { "WORLD_SIZE", "8" },
        { "LOCAL_WORLD_SIZE", "4" },
        { "GROUP_RANK", "1" },
        { "GROUP_WORLD_SIZE", "2" },
        { "ROLE_RANK", "6" },
        { "ROLE_WORLD_SIZE", "8" },
        { "ROLE_NAME", "default" },
        { "MASTER_ADDR", "h" },
        { "MASTER_PORT", "1234" },
        { "TORCHELASTIC_RUN_ID", "r1" },
        { "TORCHELASTIC_RESTART_COUNT", "2" },
        { "TORCHELASTIC_MAX_RESTARTS", "3" },
        { "TORCHELASTIC_ERROR_FILE", "/d/error_6.json" },
        { "TUTTI_RUN_ID", "r1" },
        { "TUTTI_JOB_SECRET", "s3cret" },
        { "TUTTI_STORE", "h:99" },
        { "TUTTI_FLIGHT_DIR", "/f" },
        { "OMP_NUM_THREADS", "5" },
        { "KEPT", "as it was=\nyes" },
    };
    tti_rank r = { .rank = 6, .local_rank = 2 };
    tti_job job = sample_job();
    char **env;

    unsetenv("OMP_NUM_THREADS");
    setenv("RANK", "99", 1);
    setenv("RANKS", "kept too", 1);
    setenv("KEPT", "as it was=\nyes", 1);
    TT_REQUIRE_OK(tti_launch_env(&job, &r, &env));
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        TT_CHECK_STR(value(env, want[i][0]), want[i][1]);
    TT_CHECK_STR(value(env, "RANKS"), "kept too");
    tti_mfree(env);
}

TT_TEST(launch_env, keeps_the_users_threads)
{
    tti_rank r = { .rank = 0 };
    tti_job job = sample_job();
    char **env;

    setenv("OMP_NUM_THREADS", "3", 1);
    TT_REQUIRE_OK(tti_launch_env(&job, &r, &env));
    TT_CHECK_STR(value(env, "OMP_NUM_THREADS"), "3");
    tti_mfree(env);
}

/* What a rank finds as OMP_WAIT_POLICY when the job of four ranks has so many CPUs; NULL: nothing. */
static void check_policy(int n_cpus, const char *want)
{
    tti_rank r = { .rank = 0 };
    tti_job job = sample_job();
    char **env;

    job.n = 4;
    job.cpus.n_cpus = n_cpus;
    job.cpus.threads = n_cpus >= 4 ? n_cpus / 4 : 1;
    TT_REQUIRE_OK(tti_launch_env(&job, &r, &env));
    if (want == NULL)
        TT_CHECK_NULL(value(env, "OMP_WAIT_POLICY"));
    else
        TT_CHECK_STR(value(env, "OMP_WAIT_POLICY"), want);
    tti_mfree(env);
}

TT_TEST(launch_env, threads_sleep_while_they_wait_when_cpus_are_short)
{
    unsetenv("OMP_NUM_THREADS");
    unsetenv("OMP_WAIT_POLICY");
    unsetenv("GOMP_SPINCOUNT");
    unsetenv("TUTTI_NUM_THREADS");
    check_policy(8, NULL); /* two threads each */
    check_policy(2, NULL); /* one each: they wait for nobody */
    setenv("OMP_NUM_THREADS", "2", 1);
    check_policy(8, NULL);
    check_policy(7, "passive");
    setenv("TUTTI_NUM_THREADS", "1", 1); /* counts more */
    check_policy(7, NULL);
    setenv("TUTTI_NUM_THREADS", "3", 1);
    check_policy(8, "passive");
    setenv("OMP_WAIT_POLICY", "active", 1); /* the user's own choice stays */
    check_policy(8, "active");
    unsetenv("OMP_WAIT_POLICY");
    setenv("GOMP_SPINCOUNT", "100", 1);
    check_policy(8, NULL);
}

TT_TEST(launch_env, values_may_have_any_characters_and_length)
{
    tti_rank r = { .rank = 0 };
    tti_job job = sample_job();
    char **env, dir[6000];

    memset(dir, 'd', sizeof dir);
    dir[sizeof dir - 1] = '\0';
    dir[3000] = '\n';
    job.flight_dir = dir;
    strcpy(job.run_id, "x\nLD_PRELOAD=/evil.so");
    unsetenv("OMP_NUM_THREADS");
    TT_REQUIRE_OK(tti_launch_env(&job, &r, &env));
    TT_CHECK_NULL(value(env, "LD_PRELOAD"));
    TT_CHECK_STR(value(env, "TUTTI_RUN_ID"), job.run_id);
    TT_CHECK_STR(value(env, "TUTTI_FLIGHT_DIR"), dir);
    TT_CHECK_STR(value(env, "OMP_NUM_THREADS"), "5");
    tti_mfree(env);
}

static tt_status make_env(void *ctx)
{
    tti_rank r = { .rank = 0 };
    tti_job job = sample_job();
    char **env;

    (void)ctx;
    TT_TRY(tti_launch_env(&job, &r, &env));
    tti_mfree(env);
    return TT_OK;
}

TT_TEST(launch_env, survives_a_lack_of_memory)
{
    TT_CHECK_GE(tt_test_fail_allocs(make_env, NULL), 2);
}

/* ---- CPUs ----------------------------------------------------------------------------------------- */

TT_TEST(launch_cpus, shares_are_disjoint_and_within_what_is_allowed)
{
    cpu_set_t allowed;

    TT_REQUIRE_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int n = 2; n <= CPU_COUNT(&allowed) && n <= 16; n++) {
        cpu_set_t seen, both;
        tti_cpu_plan p;

        CPU_ZERO(&seen);
        TT_REQUIRE_OK(tti_cpu_plan_make(n, false, &p));
        TT_REQUIRE_NOT_NULL(p.sets);
        for (int i = 0; i < n; i++) {
            CPU_AND(&both, &seen, &p.sets[i]);
            TT_CHECK_EQ(CPU_COUNT(&both), 0);
            TT_CHECK_GE(CPU_COUNT(&p.sets[i]), 1);
            CPU_OR(&seen, &seen, &p.sets[i]);
        }
        CPU_AND(&both, &seen, &allowed);
        TT_CHECK(CPU_EQUAL(&both, &seen));
        TT_CHECK_GE(p.threads, 1);
        tti_cpu_plan_fini(&p);
    }
}

TT_TEST(launch_cpus, too_many_ranks_are_not_bound)
{
    tti_cpu_plan p;

    TT_REQUIRE_OK(tti_cpu_plan_make(5000, false, &p));
    TT_CHECK_NULL(p.sets);
    TT_CHECK_EQ(p.threads, 1);
    TT_CHECK_GE(p.n_cpus, 1);
    tti_cpu_plan_fini(&p);
}

TT_TEST(launch_cpus, neither_one_rank_nor_no_bind_is_bound)
{
    tti_cpu_plan p;

    TT_REQUIRE_OK(tti_cpu_plan_make(1, false, &p));
    TT_CHECK_NULL(p.sets);
    TT_CHECK_LE(p.threads, p.n_cpus);
    TT_REQUIRE_OK(tti_cpu_plan_make(1, true, &p));
    TT_CHECK_NULL(p.sets);
}

/* ---- programs ------------------------------------------------------------------------------------- */

TT_TEST(launch_program, is_looked_up_as_a_shell_does)
{
    char path[4200], value[4300], *found = NULL;
    int code = 0;

    snprintf(path, sizeof path, "%s/thing", tt_test_tmpdir());
    snprintf(value, sizeof value, "/nowhere::%s", tt_test_tmpdir());
    setenv("PATH", value, 1);
    TT_CHECK_ERR_SAYS(tti_program_find("thing", &found, &code), TT_ERR_NOT_FOUND, "not in PATH");
    TT_CHECK_EQ(code, 127);
    close(open(path, O_CREAT | O_WRONLY, 0644));
    TT_CHECK_ERR_SAYS(tti_program_find("thing", &found, &code), TT_ERR_INVALID, "not executable");
    TT_CHECK_EQ(code, 126);
    chmod(path, 0755);
    TT_REQUIRE_OK(tti_program_find("thing", &found, &code));
    TT_CHECK_STR(found, path);
    TT_CHECK_EQ(code, 0);
    tti_mfree(found);
    TT_CHECK_ERR(tti_program_find("/nowhere/thing", &found, &code), TT_ERR_NOT_FOUND);
    TT_CHECK_ERR_SAYS(tti_program_find(tt_test_tmpdir(), &found, &code), TT_ERR_INVALID,
                      "directory");
}

TT_TEST(launch_program, hints_at_a_script_and_the_current_directory)
{
    char *found = NULL;
    int code;

    TT_REQUIRE_EQ(chdir(tt_test_tmpdir()), 0);
    close(open("a.py", O_CREAT | O_WRONLY, 0644));
    TT_CHECK_ERR_SAYS(tti_program_find("./a.py", &found, &code), TT_ERR_INVALID, "python3");
    setenv("PATH", "/nowhere", 1);
    TT_CHECK_ERR_SAYS(tti_program_find("a.py", &found, &code), TT_ERR_NOT_FOUND, "./a.py");
}

/* ---- words ---------------------------------------------------------------------------------------- */

TT_TEST(launch_words, say_how_a_process_ended)
{
    char text[128];

    tti_status_words(3 << 8, text, sizeof text);
    TT_CHECK_STR(text, "exited with code 3");
    TT_CHECK_EQ(tti_status_code(3 << 8), 3);
    tti_status_words(9, text, sizeof text);
    TT_CHECK_STR(text, "was killed by signal 9 (SIGKILL)");
    TT_CHECK_EQ(tti_status_code(9), 137);
    tti_status_words(11 | 0x80, text, sizeof text);
    TT_CHECK_STR(text, "was killed by signal 11 (SIGSEGV), core dumped");
    TT_CHECK_STR(tti_signal_name(1000), "another signal");
}

TT_TEST(launch_words, random_texts_differ)
{
    char a[65], b[65];

    TT_REQUIRE_OK(tti_random_hex(a, 32));
    TT_REQUIRE_OK(tti_random_hex(b, 32));
    TT_CHECK_EQ(strlen(a), 64);
    TT_CHECK_EQ(strspn(a, "0123456789abcdef"), 64);
    TT_CHECK(strcmp(a, b) != 0);
}

TT_TEST(launch_words, reserved_ports_differ)
{
    int port[8], fd[8];

    for (int i = 0; i < 8; i++) {
        TT_REQUIRE_OK(tti_port_reserve("127.0.0.1", &port[i], &fd[i]));
        TT_CHECK_GT(port[i], 0);
        for (int k = 0; k < i; k++)
            TT_CHECK_NE(port[i], port[k]);
    }
    for (int i = 0; i < 8; i++)
        close(fd[i]);
    TT_CHECK_ERR(tti_port_reserve("no such host.invalid", &port[0], &fd[0]), TT_ERR_INVALID);
}

/* ---- streams and sinks ---------------------------------------------------------------------------- */

/* A stream that reads a pipe and shows its lines in a sink that never takes any. */
typedef struct fixture {
    tti_sink sink;
    tti_stream *s;
    int write_fd;
} fixture;

static fixture stream_new(bool raw)
{
    fixture f = { .sink = { .fd = -1 } };
    int p[2];

    TT_REQUIRE_EQ(pipe2(p, O_NONBLOCK), 0);
    f.s = tti_calloc(1, sizeof *f.s);
    TT_REQUIRE_NOT_NULL(f.s);
    *f.s = (tti_stream){ .fd = p[0], .log_fd = -1, .shown = true, .raw = raw };
    strcpy(f.s->prefix, "> ");
    f.s->n_prefix = 2;
    f.write_fd = p[1];
    return f;
}

/* Writes `text` in pieces of n bytes, each read at once; then checks what the sink holds. */
static void feed(fixture *f, const char *text, size_t n)
{
    f->s->sink = &f->sink;
    for (size_t at = 0, size = strlen(text); at < size; at += n) {
        size_t k = size - at < n ? size - at : n;

        TT_REQUIRE_EQ(write(f->write_fd, text + at, k), k);
        TT_CHECK(tti_stream_read(f->s));
    }
}

static void shows(fixture *f, const char *want)
{
    TT_CHECK_EQ(f->sink.n, strlen(want));
    if (f->sink.n == strlen(want))
        TT_CHECK_MEM(f->sink.data + f->sink.start, want, f->sink.n);
}

static void stream_done(fixture *f)
{
    if (f->write_fd >= 0)
        close(f->write_fd);
    tti_stream_close(f->s);
    tti_mfree(f->s);
    tti_mfree(f->sink.data);
}

TT_TEST(launch_output, lines_come_out_whole_however_they_arrive)
{
    for (size_t n = 1; n < 12; n++) {
        fixture f = stream_new(false);

        feed(&f, "one\n\ntwo and\nthr", n);
        shows(&f, "> one\n> \n> two and\n");
        close(f.write_fd);
        f.write_fd = -1;
        TT_CHECK(!tti_stream_read(f.s));
        shows(&f, "> one\n> \n> two and\n> thr\n");
        TT_CHECK_EQ(f.s->fd, -1);
        stream_done(&f);
    }
}

TT_TEST(launch_output, raw_bytes_come_out_at_once)
{
    fixture f = stream_new(true);

    feed(&f, "one\ntw", 3);
    shows(&f, "one\ntw");
    stream_done(&f);
}

TT_TEST(launch_output, hidden_streams_keep_their_end_for_the_summary)
{
    fixture f = stream_new(false);
    char text[64];

    f.s->shown = false;
    feed(&f, "a\nb\nc\n", 64);
    shows(&f, "");
    tti_stream_tail(f.s, 2, text, sizeof text);
    TT_CHECK_STR(text, "b\nc");
    tti_stream_tail(f.s, 10, text, sizeof text);
    TT_CHECK_STR(text, "a\nb\nc");
    tti_stream_tail(f.s, 10, text, 3);
    TT_CHECK_LE(strlen(text), 2);
    stream_done(&f);
}

TT_TEST(launch_output, the_end_of_much_is_the_end)
{
    fixture f = stream_new(false);
    char line[64], text[256];

    f.s->shown = false;
    for (int i = 0; i < 3000; i++) {
        snprintf(line, sizeof line, "line %d\n", i);
        feed(&f, line, 64);
    }
    tti_stream_tail(f.s, 3, text, sizeof text);
    TT_CHECK_STR(text, "line 2997\nline 2998\nline 2999");
    stream_done(&f);
}

TT_TEST(launch_output, a_line_without_end_is_passed_on_in_pieces)
{
    fixture f = stream_new(false);
    char piece[4097];
    size_t n_x = 0;

    memset(piece, 'x', 4096);
    piece[4096] = '\0';
    for (int i = 0; i < 600; i++) /* 2.3 MiB */
        feed(&f, piece, 4096);
    close(f.write_fd);
    f.write_fd = -1;
    TT_CHECK(!tti_stream_read(f.s));
    for (size_t i = 0; i < f.sink.n; i++)
        n_x += f.sink.data[f.sink.start + i] == 'x';
    TT_CHECK_EQ(n_x, 600 * 4096);
    TT_CHECK_LE(f.s->cap_line, 2 * TTI_LINE_MAX);
    stream_done(&f);
}

TT_TEST(launch_output, a_sink_writes_what_a_pipe_takes_and_keeps_the_rest)
{
    static char data[300000], back[300000];
    tti_sink s;
    size_t got = 0;
    int p[2];

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7 + i / 251);
    TT_REQUIRE_EQ(pipe(p), 0);
    tti_sink_open(&s, p[1]);
    TT_CHECK(s.own);
    TT_REQUIRE_OK(tti_sink_put(&s, data, 200000));
    tti_sink_flush(&s);
    TT_CHECK_GT(s.n, 0);
    TT_REQUIRE_OK(tti_sink_put(&s, data + 200000, 100000));
    while (got < sizeof back) {
        ssize_t n = read(p[0], back + got, sizeof back - got);

        TT_REQUIRE_GT(n, 0);
        got += (size_t)n;
        tti_sink_flush(&s);
    }
    TT_CHECK_MEM(back, data, sizeof data);
    TT_CHECK_EQ(s.n, 0);
    TT_CHECK_EQ(fcntl(p[1], F_GETFL) & O_NONBLOCK, 0); /* unchanged for others */
    tti_sink_close(&s);
    close(p[0]);
    close(p[1]);
}

TT_TEST(launch_output, a_sink_that_nobody_reads_drops)
{
    tti_sink s;
    int p[2];

    signal(SIGPIPE, SIG_IGN);
    TT_REQUIRE_EQ(pipe(p), 0);
    tti_sink_open(&s, p[1]);
    close(p[0]);
    TT_REQUIRE_OK(tti_sink_put(&s, "x", 1));
    tti_sink_flush(&s);
    TT_CHECK(s.broken);
    TT_REQUIRE_OK(tti_sink_put(&s, "x", 1));
    TT_CHECK_EQ(s.n, 0);
    tti_sink_close(&s);
    close(p[1]);
}

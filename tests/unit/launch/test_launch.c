/* SPDX-License-Identifier: Apache-2.0 */
/* tt_launch from a program: what it returns, and that it leaves nothing behind. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tutti/launch.h>
#include <tutti/testing.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/job.h"

static char out_path[4200], text[65536];

/* Runs a shell command on ranks; output, both kinds, ends up in `text`. */
static tt_status sh(const char *command, tt_launch_options o, tt_launch_result *r)
{
    const char *argv[] = { "/bin/sh", "-c", command, NULL };
    tt_status st;
    ssize_t n;
    int fd;

    snprintf(out_path, sizeof out_path, "%s/out", tt_test_tmpdir());
    setenv("TMPDIR", tt_test_tmpdir(), 1);
    fd = open(out_path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    TT_REQUIRE_GE(fd, 0);
    o.out_fd = o.err_fd = fd;
    st = tt_launch(argv, &o, r);
    n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    return st;
}

static int count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        closedir(d);
    return n;
}

TT_TEST(launch_run, a_job_that_succeeds)
{
    tt_launch_result r;

    TT_REQUIRE_OK(sh("echo hello $RANK", (tt_launch_options){ .n_ranks = 2, .quiet = true }, &r));
    TT_CHECK_EQ(r.exit_code, 0);
    TT_CHECK_EQ(r.failed_rank, -1);
    TT_CHECK_EQ(r.n_restarts, 0);
    TT_CHECK_STR(r.cause, "");
    TT_CHECK_CONTAINS(text, "[0] hello 0\n");
    TT_CHECK_CONTAINS(text, "[1] hello 1\n");
    TT_CHECK_EQ(strlen(text), 24);
}

TT_TEST(launch_run, the_first_failure_is_told)
{
    tt_launch_result r;

    TT_REQUIRE_OK(
        sh("[ $RANK = 1 ] && exit 5; exec sleep 60", (tt_launch_options){ .n_ranks = 3 }, &r));
    TT_CHECK_EQ(r.exit_code, 5);
    TT_CHECK_EQ(r.failed_rank, 1);
    TT_CHECK_GT(r.failed_pid, 0);
    TT_CHECK_CONTAINS(r.cause, "rank 1 (pid ");
    TT_CHECK_CONTAINS(r.cause, "exited with code 5");
    TT_CHECK_CONTAINS(text, "2 others were ended because of it");
}

TT_TEST(launch_run, a_killed_rank_gives_128_and_its_signal)
{
    tt_launch_result r;

    TT_REQUIRE_OK(
        sh("[ $RANK = 0 ] && kill -9 $$; exec sleep 60", (tt_launch_options){ .n_ranks = 2 }, &r));
    TT_CHECK_EQ(r.exit_code, 137);
    TT_CHECK_EQ(r.failed_rank, 0);
    TT_CHECK_CONTAINS(r.cause, "SIGKILL");
}

TT_TEST(launch_run, restarts_are_counted)
{
    tt_launch_result r;

    TT_REQUIRE_OK(sh("[ $TORCHELASTIC_RESTART_COUNT = 2 ]",
                     (tt_launch_options){ .n_ranks = 2, .max_restarts = 4 }, &r));
    TT_CHECK_EQ(r.exit_code, 0);
    TT_CHECK_EQ(r.n_restarts, 2);
    TT_CHECK_EQ(r.failed_rank, -1);
}

TT_TEST(launch_run, mistakes_start_nothing)
{
    const char *argv[] = { "/bin/true", NULL }, *none[] = { NULL };
    tt_launch_result r;
    int before = count_fds();

    TT_CHECK_ERR(tt_launch(NULL, NULL, &r), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_launch(none, NULL, &r), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_launch(argv, NULL, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR_SAYS(tt_launch(argv, &(tt_launch_options){ .n_ranks = -1 }, &r), TT_ERR_INVALID,
                      "got -1");
    TT_CHECK_ERR_SAYS(tt_launch(argv, &(tt_launch_options){ .n_ranks = 1 << 30 }, &r),
                      TT_ERR_INVALID, "65536");
    TT_CHECK_ERR_SAYS(tt_launch(argv, &(tt_launch_options){ .node_rank = 1 }, &r), TT_ERR_INVALID,
                      "--node-rank");
    TT_REQUIRE_EQ(setenv("TUTTI_JOB_SECRET", "0123456789abcdef0123456789abcdef", 1), 0);
    TT_CHECK_ERR_SAYS(
        tt_launch(argv, &(tt_launch_options){ .n_nodes = 2, .master_addr = ":1" }, &r),
        TT_ERR_INVALID, "got \":1\"");
    unsetenv("TUTTI_JOB_SECRET");
    TT_CHECK_ERR_SAYS(tt_launch(argv, &(tt_launch_options){ .tee = "1" }, &r), TT_ERR_INVALID,
                      "--log-dir");
    TT_CHECK_ERR_SAYS(tt_launch(argv, &(tt_launch_options){ .master_port = 70000 }, &r),
                      TT_ERR_INVALID, "65535");
    TT_CHECK_ERR_SAYS(tt_launch(argv, &(tt_launch_options){ .max_restarts = -2 }, &r),
                      TT_ERR_INVALID, "--max-restarts");
    TT_CHECK_ERR(tt_launch(argv, &(tt_launch_options){ .log_dir = "/proc/no/such" }, &r),
                 TT_ERR_IO);
    TT_CHECK_ERR_SAYS(tt_launch(argv, &(tt_launch_options){ .secret_file = "/nowhere" }, &r),
                      TT_ERR_IO, "/nowhere");
    argv[0] = "/no/such/program";
    TT_CHECK_ERR(tt_launch(argv, NULL, &r), TT_ERR_NOT_FOUND);
    TT_CHECK_EQ(r.exit_code, 127);
    TT_CHECK_EQ(count_fds(), before);
}

TT_TEST(launch_run, a_secret_that_others_can_read_is_refused)
{
    const char *argv[] = { "/bin/true", NULL };
    tt_launch_result r;
    char path[4200];
    int fd;

    snprintf(path, sizeof path, "%s/secret", tt_test_tmpdir());
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    TT_REQUIRE_EQ(write(fd, "short\n", 6), 6);
    TT_CHECK_ERR_SAYS(tt_launch(argv, &(tt_launch_options){ .secret_file = path }, &r),
                      TT_ERR_INVALID, "16");
    TT_REQUIRE_EQ(write(fd, "0123456789abcdef\n", 17), 17);
    fchmod(fd, 0644);
    close(fd);
    TT_CHECK_ERR_SAYS(tt_launch(argv, &(tt_launch_options){ .secret_file = path }, &r),
                      TT_ERR_INVALID, "chmod 600");
}

TT_TEST(launch_run, leaves_no_descriptor_child_directory_or_signal_mask)
{
    sigset_t before, after;
    tt_launch_result r;
    int n;

    TT_REQUIRE_OK(sh("true", (tt_launch_options){ .n_ranks = 2 }, &r));
    n = count_fds();
    sigprocmask(SIG_BLOCK, NULL, &before);
    for (int i = 0; i < 5; i++) {
        TT_REQUIRE_OK(
            sh("echo x > $TUTTI_FLIGHT_DIR/y; exit $RANK",
               (tt_launch_options){ .n_ranks = 3, .max_restarts = 1, .own_process = i == 4 }, &r));
        TT_CHECK_NE(r.exit_code, 0);
    }
    TT_CHECK_EQ(count_fds(), n);
    TT_CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
    sigprocmask(SIG_BLOCK, NULL, &after);
    for (int sig = 1; sig < 65; sig++)
        TT_CHECK_EQ(sigismember(&before, sig), sigismember(&after, sig));
    DIR *d = opendir(tt_test_tmpdir());
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        TT_CHECK(strncmp(e->d_name, "tutti-", 6) != 0);
    closedir(d);
}

/* With any number of free descriptors, also when only the pidfd of a rank that runs already is missing. */
TT_TEST_LIMIT(launch_run, no_free_descriptor_is_an_error_not_a_hang, 120)
{
    const char *argv[] = { "/bin/sleep", "600", NULL };
    tt_launch_result r;
    struct rlimit limit = { 64, 64 };

    setenv("TMPDIR", tt_test_tmpdir(), 1);
    TT_REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int spare = 0; spare < 36 && tt_test_failures() == 0; spare++) {
        int fds[64], n = 0;

        while (n < 64 && (fds[n] = dup(2)) >= 0)
            n++;
        for (int i = 0; i < spare && n > 0; i++)
            close(fds[--n]);
        TT_CHECK_ERR(tt_launch(argv, &(tt_launch_options){ .n_ranks = 16, .quiet = true }, &r),
                     TT_ERR_IO);
        while (n > 0)
            close(fds[--n]);
        TT_CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
    }
}

/* ---- what ranks leave behind --------------------------------------------------------------------- */

/* A launcher in a process of its own, as `tutti run` is one; what the ranks print comes out of *fd_p. */
static pid_t fork_launcher(const char *command, int n_ranks, int *fd_p)
{
    const char *argv[] = { "/bin/sh", "-c", command, NULL };
    tt_launch_result r;
    int p[2];
    pid_t pid;

    setenv("TMPDIR", tt_test_tmpdir(), 1);
    TT_REQUIRE_EQ(pipe2(p, O_CLOEXEC), 0);
    pid = fork();
    TT_REQUIRE_GE(pid, 0);
    if (pid == 0) {
        tt_launch_options o = { .n_ranks = n_ranks,
                                .quiet = true,
                                .no_prefix = true,
                                .own_process = true,
                                .out_fd = p[1] };

        prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)tt_launch(argv, &o, &r);
        _exit(r.exit_code);
    }
    close(p[1]);
    *fd_p = p[0];
    return pid;
}

/* `n` numbers, one a line. */
static void read_pids(int fd, pid_t *pids, int n)
{
    size_t used = 0;
    int lines = 0;

    while (lines < n && used < sizeof text - 1) {
        ssize_t got = read(fd, text + used, 1);

        TT_REQUIRE_EQ(got, 1);
        if (text[used++] == '\n')
            lines++;
    }
    text[used] = '\0';
    char *p = text;
    for (int i = 0; i < n; i++)
        pids[i] = (pid_t)strtol(p, &p, 10);
}

TT_TEST_LIMIT(launch_run, a_killed_launcher_leaves_nothing_that_ranks_started, 120)
{
    pid_t pids[4];
    int fd, pidfds[4], status;
    pid_t launcher;

    if (access("/usr/bin/setsid", X_OK) != 0)
        TT_SKIP("there is no setsid");
    /* One in the rank's process group, one in a session of its own; of two ranks. */
    launcher = fork_launcher("setsid sleep 600 & echo $!; sleep 600 & echo $!; wait", 2, &fd);
    read_pids(fd, pids, 4);
    for (int i = 0; i < 4; i++) {
        pidfds[i] = (int)syscall(SYS_pidfd_open, pids[i], 0);
        TT_REQUIRE_GE(pidfds[i], 0);
    }
    kill(launcher, SIGKILL);
    TT_REQUIRE_EQ(waitpid(launcher, &status, 0), launcher);
    for (int i = 0; i < 4; i++) {
        struct pollfd p = { pidfds[i], POLLIN, 0 };

        TT_CHECK_EQ(poll(&p, 1, 60000), 1); /* it has ended */
        close(pidfds[i]);
    }
    close(fd);
}

TT_TEST_LIMIT(launch_run, orphans_are_reaped_while_the_job_runs, 120)
{
    pid_t pids[5], launcher;
    int fd, status;

    launcher =
        fork_launcher("for i in 1 2 3 4 5; do (sh -c 'echo $$' &); done; exec sleep 600", 1, &fd);
    read_pids(fd, pids, 5);
    for (int i = 0; i < 5; i++) { /* a zombie still takes signals */
        int64_t end = tti_deadline(60000);

        while (kill(pids[i], 0) == 0 && tti_ms_left(end) > 0)
            poll(NULL, 0, 5);
        TT_CHECK(kill(pids[i], 0) != 0);
    }
    TT_CHECK_EQ(waitpid(launcher, &status, WNOHANG), 0);
    kill(launcher, SIGTERM);
    TT_REQUIRE_EQ(waitpid(launcher, &status, 0), launcher);
    TT_CHECK_EQ(WEXITSTATUS(status), 143);
    close(fd);
}

static pid_t fork_sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    TT_REQUIRE_GT(pid, 0);
    TT_REQUIRE_EQ(setpgid(pid, pid), 0);
    return pid;
}

/* The number of a rank that was reaped may be another process by the time the launcher is killed. */
TT_TEST(launch_run, the_guard_forgets_ranks_that_were_reaped)
{
    tti_job job = { .n = 1, .guard_fd = -1 };
    pid_t forgotten = fork_sleeper(), kept = fork_sleeper();
    int status;

    TT_REQUIRE_OK(tti_guard_start(&job));
    tti_guard_tell(&job, forgotten);
    tti_guard_tell(&job, kept);
    tti_guard_forget(&job, forgotten);
    close(job.guard_fd); /* as if the launcher was killed */
    TT_REQUIRE_EQ(waitpid(job.guard, &status, 0), job.guard);
    TT_REQUIRE_EQ(waitpid(kept, &status, 0), kept);
    TT_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    TT_CHECK_EQ(waitpid(forgotten, &status, WNOHANG), 0);
    kill(forgotten, SIGKILL);
    TT_CHECK_EQ(waitpid(forgotten, &status, 0), forgotten);
}

/* ---- directories and secrets --------------------------------------------------------------------- */

static int mode_of(const char *dir, const char *name)
{
    char path[4400];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return stat(path, &st) == 0 ? (int)(st.st_mode & 0777) : -1;
}

TT_TEST(launch_run, logs_are_private)
{
    tt_launch_result r;
    char dir[4200];

    umask(0);
    snprintf(dir, sizeof dir, "%s/a/logs", tt_test_tmpdir());
    TT_REQUIRE_OK(sh("echo hello", (tt_launch_options){ .n_ranks = 1, .log_dir = dir }, &r));
    TT_CHECK_EQ(mode_of(dir, ".."), 0700);
    TT_CHECK_EQ(mode_of(dir, "."), 0700);
    TT_CHECK_EQ(mode_of(dir, "rank_0"), 0700);
    TT_CHECK_EQ(mode_of(dir, "rank_0/stdout.log"), 0600);
    TT_CHECK_EQ(mode_of(dir, "rank_0/stderr.log"), 0600);
}

TT_TEST(launch_run, records_go_where_the_user_wants_them)
{
    tt_launch_result r;
    char dir[4200], logs[4200], want[4300];

    snprintf(dir, sizeof dir, "%s/records", tt_test_tmpdir());
    snprintf(logs, sizeof logs, "%s/logs", tt_test_tmpdir());
    snprintf(want, sizeof want, "%s\n", dir);
    setenv("TUTTI_FLIGHT_DIR", dir, 1);
    for (int with_logs = 0; with_logs < 2; with_logs++) {
        TT_REQUIRE_OK(sh("[ -d $TUTTI_FLIGHT_DIR ] && echo $TUTTI_FLIGHT_DIR",
                         (tt_launch_options){ .quiet = true, .log_dir = with_logs ? logs : NULL },
                         &r));
        TT_CHECK_STR(text, want);
        TT_CHECK_EQ(r.exit_code, 0);
    }
    TT_CHECK_EQ(mode_of(logs, "rank_0/stdout.log"), 0600);
}

static tt_status with_secret(const char *words)
{
    const char *argv[] = { "/bin/true", NULL };
    tt_launch_result r;
    char path[4200];
    FILE *f;

    snprintf(path, sizeof path, "%s/secret", tt_test_tmpdir());
    f = fopen(path, "we");
    TT_REQUIRE_NOT_NULL(f);
    fputs(words, f);
    fclose(f);
    TT_REQUIRE_EQ(chmod(path, 0600), 0);
    return tt_launch(argv, &(tt_launch_options){ .secret_file = path, .quiet = true }, &r);
}

TT_TEST(launch_run, secrets_have_16_to_64_characters)
{
    const char *argv[] = { "/bin/true", NULL };
    tt_launch_options two = { .n_nodes = 2, .endpoint = "127.0.0.1:1", .quiet = true };
    tt_launch_result r;
    char line[202];

    setenv("TMPDIR", tt_test_tmpdir(), 1);
    setenv("TUTTI_JOB_SECRET", "x", 1);
    TT_CHECK_ERR_SAYS(tt_launch(argv, &two, &r), TT_ERR_INVALID, "at least 16");
    memset(line, 's', 200);
    strcpy(line + 200, "\n");
    TT_CHECK_ERR_SAYS(with_secret(line), TT_ERR_INVALID, "at most 64");
    strcpy(line + 65, "\n");
    TT_CHECK_ERR_SAYS(with_secret(line), TT_ERR_INVALID, "at most 64");
    strcpy(line + 64, "\r\n");
    TT_CHECK_OK(with_secret(line));
    TT_CHECK_OK(with_secret("0123456789abcdef"));
    TT_CHECK_ERR_SAYS(with_secret("0123456789abcde"), TT_ERR_INVALID, "at least 16");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tt_launch from a program: what it returns, and that it leaves nothing behind. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tutti/launch.h>
#include <tutti/testing.h>
#include <unistd.h>

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

TT_TEST(launch_run, no_free_descriptor_is_an_error_not_a_hang)
{
    const char *argv[] = { "/bin/sleep", "60", NULL };
    tt_launch_result r;
    struct rlimit limit = { 64, 64 };
    int fds[64], n = 0, spare = 14;

    setenv("TMPDIR", tt_test_tmpdir(), 1);
    TT_REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (n < 64 && (fds[n] = dup(2)) >= 0)
        n++;
    for (int i = 0; i < spare && n > 0; i++)
        close(fds[--n]);
    TT_CHECK_ERR(tt_launch(argv, &(tt_launch_options){ .n_ranks = 8, .quiet = true }, &r),
                 TT_ERR_IO);
    while (n > 0)
        close(fds[--n]);
    TT_CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
}

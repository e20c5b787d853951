/* SPDX-License-Identifier: Apache-2.0 */
/* Trainings killed at random moments while they save: the next one finds the last complete checkpoint. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

enum { N = 3000 };

/* The training: every element of its tensor is its step. Reports each step that is known to be safe; ends
 * with a code when what it finds is wrong. */
static void child(const char *dir, int fd)
{
    tt_state_dict *sd = tt_state_dict_new();
    tt_training t = { .tensors = sd };
    tt_status st = tt_training_load(dir, NULL, &t);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (st != TT_OK && st != TT_ERR_NOT_FOUND) {
        fprintf(stderr, "%s\n", tt_last_error());
        _exit(2);
    }
    if (st == TT_OK) {
        const float *x = tt_tensor_data(tt_state_dict_get(sd, "x"));

        for (int i = 0; i < N; i++)
            if (x[i] != (float)t.step)
                _exit(3);
        if (tt_value_as_int(t.value) != t.step)
            _exit(4);
    }
    for (;;) {
        if (write(fd, &t.step, sizeof t.step) != (ssize_t)sizeof t.step)
            _exit(5);
        t.step++;
        TT_SCOPE {
            tt_value_free(t.value);
            t.value = tt_value_int_new(t.step);
            if (tt_state_dict_set(sd, "x", tt_full(TT_SHAPE(N), (double)t.step, TT_F32, TT_CPU)) !=
                    TT_OK ||
                tt_training_save(dir, NULL, &t, NULL) != TT_OK)
                _exit(6);
        }
    }
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool pids_recycled = true;

/* Starts the training in a namespace of its own, where its pid is always 1, as in a container. Somebody has to wait for
 * it: the keeper, which ends with 0 if it was killed, else with its code. Gives its pid as it is seen here. */
static pid_t start_training(const char *dir, const int fds[2], pid_t *keeper_p)
{
    int link[2], status;
    struct {
        pid_t pid;
        bool recycled;
    } told = { -1, false };

    TT_REQUIRE(pipe(link) == 0);
    *keeper_p = fork();
    TT_REQUIRE(*keeper_p >= 0);
    if (*keeper_p == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[0]);
        told.recycled = unshare(CLONE_NEWPID) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0;
        told.pid = fork();
        if (told.pid == 0)
            child(dir, fds[1]);
        close(fds[1]);
        if (write(link[1], &told, sizeof told) != (ssize_t)sizeof told ||
            waitpid(told.pid, &status, 0) != told.pid)
            _exit(99);
        _exit(WIFSIGNALED(status) ? 0 : WEXITSTATUS(status));
    }
    close(link[1]);
    TT_REQUIRE(read(link[0], &told, sizeof told) == (ssize_t)sizeof told);
    close(link[0]);
    TT_REQUIRE(told.pid > 0);
    pids_recycled = pids_recycled && told.recycled;
    return told.pid;
}

/* Temporaries of killed writers, in `dir` and one level below. */
static int count_temporaries(const char *dir, int depth)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    char path[1024];
    int n = 0;

    while (d != NULL && (entry = readdir(d)) != NULL) {
        n += strstr(entry->d_name, ".tmp") != NULL;
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (depth > 0 && entry->d_type == DT_DIR && entry->d_name[0] != '.')
            n += count_temporaries(path, depth - 1);
    }
    if (d != NULL)
        closedir(d);
    return n;
}

/* Runs it until `delay_s` after its first report, or (negative) until its fourth; *last_p is the last step it
 * reported. Gives how long it ran after the first report. */
static double run_and_kill(const char *dir, double delay_s, int64_t *first_p, int64_t *last_p)
{
    int fds[2], code;
    struct timespec pause = { (time_t)delay_s, (long)((delay_s - (double)(time_t)delay_s) * 1e9) };
    double start = 0;
    int64_t step;
    pid_t pid, keeper;

    TT_REQUIRE(pipe(fds) == 0);
    pid = start_training(dir, fds, &keeper);
    close(fds[1]);
    *first_p = -1;
    if (read(fds[0], first_p, sizeof *first_p) == (ssize_t)sizeof *first_p)
        start = now_s();
    *last_p = *first_p;
    if (delay_s >= 0)
        nanosleep(&pause, NULL); /* the moment, not a wait for something */
    for (int k = 0; delay_s < 0 && k < 3; k++)
        TT_CHECK(read(fds[0], last_p, sizeof *last_p) == (ssize_t)sizeof *last_p);
    start = now_s() - start;
    kill(pid, SIGKILL);
    while (read(fds[0], &step, sizeof step) == (ssize_t)sizeof step)
        *last_p = step;
    close(fds[0]);
    TT_REQUIRE(waitpid(keeper, &code, 0) == keeper);
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 0)
        TT_FAIL_TEST("the training ended with code %d", WEXITSTATUS(code));
    return start;
}

TT_TEST_LIMIT(checkpoint, a_kill_at_any_moment_leaves_the_last_complete_one, 900)
{
    int kills = (int)tti_env_int(TTI_ENV_TEST_KILLS, 1, 100000, 60);
    const char *dir = tt_test_tmpdir();
    uint64_t state = tt_test_seed() * 2654435761u + 1;
    int64_t first, last = 0, safe;
    double save_s = run_and_kill(dir, -1, &first, &safe) / 3;

    TT_CHECK_EQ(first, 0);
    for (int k = 0; k < kills && tt_test_failures() == 0; k++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        run_and_kill(dir, save_s * 3 * (double)(state >> 40) / (1 << 24), &first, &last);
        if (first < safe)
            TT_FAIL_TEST("kill %d: step %lld was safe, but %lld was found", k, (long long)safe,
                         (long long)first);
        /* One step more than was reported may have been complete. */
        TT_CHECK_LE(first, safe + 1);
        safe = last;
    }
    /* The last save that completes removes what the killed ones left. */
    run_and_kill(dir, -1, &first, &last);
    TT_CHECK_LE(count_temporaries(dir, 1), 1);
    TT_NOTE("%d kills, %lld steps, pids %s", kills, (long long)safe,
            pids_recycled ? "recycled" : "not recycled: namespaces are not allowed here");
    TT_CHECK_GT(safe, 5);
}

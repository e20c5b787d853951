/* SPDX-License-Identifier: Apache-2.0 */
/* Trainings killed at random moments while they save: the next one finds the last complete checkpoint. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tutti/testing.h"
#include "tutti/tutti.h"

enum { KILLS = 60, N = 3000 };

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

/* Runs it until `delay_s` after its first report, or (negative) until its fourth; *last_p is the last step it
 * reported. Gives how long it ran after the first report. */
static double run_and_kill(const char *dir, double delay_s, int64_t *first_p, int64_t *last_p)
{
    int fds[2], status;
    struct timespec pause = { (time_t)delay_s, (long)((delay_s - (double)(time_t)delay_s) * 1e9) };
    double start = 0;
    int64_t step;
    pid_t pid;

    TT_REQUIRE(pipe(fds) == 0);
    pid = fork();
    TT_REQUIRE(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        child(dir, fds[1]);
    }
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
    TT_REQUIRE(waitpid(pid, &status, 0) == pid);
    if (!WIFSIGNALED(status))
        TT_FAIL_TEST("the training ended with code %d", WEXITSTATUS(status));
    return start;
}

TT_TEST_LIMIT(checkpoint, a_kill_at_any_moment_leaves_the_last_complete_one, 240)
{
    const char *dir = tt_test_tmpdir();
    uint64_t state = tt_test_seed() * 2654435761u + 1;
    int64_t first, last = 0, safe;
    double save_s = run_and_kill(dir, -1, &first, &safe) / 3;

    TT_CHECK_EQ(first, 0);
    for (int k = 0; k < KILLS && tt_test_failures() == 0; k++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        run_and_kill(dir, save_s * 3 * (double)(state >> 40) / (1 << 24), &first, &last);
        if (first < safe)
            TT_FAIL_TEST("kill %d: step %lld was safe, but %lld was found", k, (long long)safe,
                         (long long)first);
        /* One step more than was reported may have been complete. */
        TT_CHECK_LE(first, safe + 1);
        safe = last;
    }
    TT_NOTE("%d kills, %lld steps", KILLS, (long long)safe);
    TT_CHECK_GT(safe, 5);
}

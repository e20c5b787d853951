/* SPDX-License-Identifier: Apache-2.0 */
/* Starts this program again and collects what it leaves. */
#include "harness/again.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/testing.h"
#include "tutti/testing.h"

enum { MAX_ARGS = 16 };

extern char **environ;

void again_read(const char *name, char *text)
{
    char path[512];
    FILE *f;
    size_t n = 0;

    snprintf(path, sizeof path, "%s/%s", tt_test_tmpdir(), name);
    f = fopen(path, "r");
    if (f != NULL) {
        n = fread(text, 1, AGAIN_TEXT - 1, f);
        fclose(f);
    }
    text[n] = '\0';
}

static double started;

pid_t again_start(const char *const *args)
{
    const char *argv[MAX_ARGS + 6] = { "tutti-tests", "--hidden", "--report",
                                       "report",      "--junit",  "junit" };
    posix_spawn_file_actions_t actions;
    int n = 6, error;
    pid_t pid = -1;

    while (n < MAX_ARGS + 5 && *args != NULL)
        argv[n++] = *args++;
    started = tti_test_now();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, tt_test_tmpdir());
    posix_spawn_file_actions_addopen(&actions, 1, "text", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    error = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, (char **)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    TT_REQUIRE_EQ(error, 0);
    return pid;
}

const again_outcome *again_finish(pid_t pid)
{
    static again_outcome o;
    int status;

    while (waitpid(pid, &status, 0) < 0)
        TT_REQUIRE_EQ(errno, EINTR);
    o.seconds = tti_test_now() - started;
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    again_read("text", o.text);
    again_read("report", o.report);
    again_read("junit", o.junit);
    printf("exit code %d\n%s%s", o.code, o.text, o.report);
    return &o;
}

const char *again_last_line(const char *text)
{
    const char *end = text + strlen(text);

    while (end > text && end[-1] == '\n')
        end--;
    while (end > text && end[-1] != '\n')
        end--;
    return end;
}

/* A process that was killed may stay in the table until init collects it. */
bool again_is_running(long pid)
{
    char path[64], state = 'X';
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    f = fopen(path, "r");
    if (f == NULL)
        return false;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    fclose(f);
    return state != 'Z' && state != 'X';
}

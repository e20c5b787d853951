/* SPDX-License-Identifier: Apache-2.0 */
/* What a test changes for a while and gets back: variables, output, debug level; and sub-tests. All of
 * it is of the process, except the name of the sub-test. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "testing/group.h"
#include "testing/testing.h"
#include "tutti/testing_tools.h"

enum { MAX_DEPTH = 16, MAX_PARAMS = 8, MAX_CAPTURED = 1 << 20 };

/* ---- environment ---- */

static struct saved {
    char *name;
    char *value; /* NULL: it was not set */
} saved[MAX_DEPTH];
static int depth;

bool tt_test_env_push(const char *name, const char *value)
{
    const char *old = getenv(name);

    if (depth == MAX_DEPTH) {
        tt_test_fail(__FILE__, __LINE__, "more than %d changed variables", MAX_DEPTH);
        tt_test_stop();
    }
    saved[depth].name = strdup(name);
    saved[depth].value = old != NULL ? strdup(old) : NULL;
    depth++;
    if (value != NULL)
        setenv(name, value, 1);
    else
        unsetenv(name);
    return true;
}

bool tt_test_env_pop(void)
{
    struct saved *s = &saved[--depth];

    if (s->value != NULL)
        setenv(s->name, s->value, 1);
    else
        unsetenv(s->name);
    free(s->name);
    free(s->value);
    return false;
}

/* ---- directories ---- */

static bool make_below(const char *dir, const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

tt_status tt_test_make_dirs(const char *init_method)
{
    const char *base = tt_test_tmpdir();
    char dir[300], url[400];

    if (base == NULL)
        return TT_FAIL(TT_ERR_IO, "test directories: no temporary directory");
    snprintf(dir, sizeof dir, "%s/world", base);
    if ((mkdir(dir, 0700) != 0 && errno != EEXIST) || !make_below(dir, "barrier") ||
        !make_below(dir, "test_dir") || !make_below(dir, "init_dir"))
        return TT_FAIL(TT_ERR_IO, "test directories: %s: %s", dir, strerror(errno));
    setenv("TEMP_DIR", dir, 1);
    snprintf(url, sizeof url, "file://%s/init_dir/shared_init_file", dir);
    setenv("INIT_METHOD", init_method != NULL ? init_method : url, 1);
    return TT_OK;
}

void tt_test_remove_dirs(void)
{
    const char *dir = getenv("TEMP_DIR");

    if (dir != NULL && access(dir, F_OK) == 0)
        tti_test_remove_tree(dir);
}

/* ---- output ---- */

static struct {
    bool on;
    int old[2], now[2]; /* of stdout and stderr */
    char *text[2];
} capture;

static void restore_output(void)
{
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(capture.old[i], i + 1);
        close(capture.old[i]);
    }
    capture.on = false;
}

tt_status tt_test_capture_begin(void)
{
    if (capture.on)
        return TT_FAIL(TT_ERR_INVALID, "capture: expected none under way, got one");
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        free(capture.text[i]);
        capture.text[i] = NULL;
        capture.old[i] = dup(i + 1);
        capture.now[i] = memfd_create("captured", MFD_CLOEXEC);
        if (capture.old[i] < 0 || capture.now[i] < 0)
            return TT_FAIL(TT_ERR_IO, "capture: %s", strerror(errno));
    }
    for (int i = 0; i < 2; i++)
        dup2(capture.now[i], i + 1);
    capture.on = true;
    return TT_OK;
}

static char *take_text(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    size_t n = size < 0 ? 0 : size > MAX_CAPTURED ? MAX_CAPTURED : (size_t)size;
    char *text = calloc(n + 1, 1);
    ssize_t got = text != NULL ? pread(fd, text, n, 0) : 0;

    (void)got;
    close(fd);
    return text;
}

tt_test_captured tt_test_capture_end(void)
{
    if (capture.on) {
        restore_output();
        for (int i = 0; i < 2; i++)
            capture.text[i] = take_text(capture.now[i]);
    }
    return (tt_test_captured){ capture.text[0] != NULL ? capture.text[0] : "",
                               capture.text[1] != NULL ? capture.text[1] : "" };
}

void tt_test_no_core_dump(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_CORE, &limit) == 0) {
        limit.rlim_cur = 0;
        setrlimit(RLIMIT_CORE, &limit);
    }
}

static struct {
    bool off;
    rlim_t old;
} core_dumps;

bool tt_test_core_push(void)
{
    struct rlimit limit;

    if (!core_dumps.off && getrlimit(RLIMIT_CORE, &limit) == 0) {
        core_dumps.off = true;
        core_dumps.old = limit.rlim_cur;
        tt_test_no_core_dump();
    }
    return true;
}

bool tt_test_core_pop(void)
{
    struct rlimit limit;

    if (core_dumps.off && getrlimit(RLIMIT_CORE, &limit) == 0) {
        limit.rlim_cur = core_dumps.old;
        setrlimit(RLIMIT_CORE, &limit);
    }
    core_dumps.off = false;
    return false;
}

void tti_test_scopes_end(void)
{
    tt_test_core_pop();
    if (capture.on) {
        restore_output();
        close(capture.now[0]);
        close(capture.now[1]);
    }
    while (depth > 0)
        tt_test_env_pop();
}

/* ---- several times ---- */

void tt_test_each_debug_level(const char *const *levels, int n, tt_test_fn fn, void *ctx)
{
    static const char *const all[] = { "OFF", "INFO", "DETAIL" };

    if (levels == NULL) {
        levels = all;
        n = 3;
    }
    for (int i = 0; i < n; i++) {
        TT_TEST_WITH_ENV("TUTTI_DISTRIBUTED_DEBUG", levels[i])
        {
            tti_group_read_debug_level();
            fn(ctx);
            tt_test_barrier();
        }
        tti_group_read_debug_level();
    }
}

static _Thread_local char subtest[256];

const char *tti_test_subtest(void)
{
    return subtest;
}

static void name_subtest(const tt_test_param *params, int n, const char *const *chosen)
{
    size_t used = 0;

    for (int i = 0; i < n && used < sizeof subtest; i++)
        used += (size_t)snprintf(subtest + used, sizeof subtest - used, "%s=%s%s", params[i].name,
                                 chosen[i], i + 1 < n ? ", " : ": ");
}

int tt_test_subtests(const tt_test_param *params, int n_params, tt_test_subtest_fn fn, void *ctx)
{
    const char *chosen[MAX_PARAMS] = { NULL };
    int n = 1;

    if (n_params < 0 || n_params > MAX_PARAMS) {
        tt_test_fail(__FILE__, __LINE__, "subtests: expected at most %d parameters, got %d",
                     MAX_PARAMS, n_params);
        return 0;
    }
    for (int i = 0; i < n_params; i++)
        n *= params[i].n_values;
    for (int k = 0; k < n; k++) {
        for (int i = n_params - 1, rest = k; i >= 0; rest /= params[i--].n_values)
            chosen[i] = params[i].values[rest % params[i].n_values];
        name_subtest(params, n_params, chosen);
        fn(ctx, chosen);
        subtest[0] = '\0';
        tt_test_barrier();
    }
    return n;
}

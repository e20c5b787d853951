/* SPDX-License-Identifier: Apache-2.0 */
/* Built programs on disk: kept at the second build, read by the third, and never believed blindly. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

#include "base/mem.h"
#include "base/sha256.h"
#include "cl_fixture.h"
#include "device/opencl/cache_file.h"

/* What a child did, as an exit code: 0 and from where the program came, or 1. */
enum { WRONG = 1, FROM_SOURCE = 10, KEPT = 11, FROM_DISK = 12, NO_DEVICES = 86 };

static int build_and_run(void *arg)
{
    const tti_program *p = arg;

    if (tt_device_count(TT_DEVICE_CL) == 0)
        return NO_DEVICES;
    if (!fixture_runs(tt_cl(0), p, 3))
        return WRONG;
    if (tti_cl_build_counts.from_disk == 1)
        return FROM_DISK;
    return tti_cl_build_counts.kept == 1 ? KEPT : FROM_SOURCE;
}

/* Both the library's files and the driver's own are in directories of this test. */
static const char *own_directories(void)
{
    static char dir[512];
    char pocl[600];

    snprintf(dir, sizeof dir, "%s/cl", tt_test_tmpdir());
    snprintf(pocl, sizeof pocl, "%s/pocl", tt_test_tmpdir());
    mkdir(pocl, 0700);
    setenv("TUTTI_CL_CACHE", dir, 1);
    setenv("POCL_CACHE_DIR", pocl, 1);
    return dir;
}

static int run_or_skip(const tti_program *p)
{
    int code = in_child(build_and_run, (void *)p);

    if (code == NO_DEVICES)
        tt_test_skip(TT_TEST_SKIP_NO_ACCELERATOR, NULL);
    return code;
}

/* The path of the only file whose name ends so; false: there is not exactly one. */
static bool only_file(const char *dir, const char *ending, char *path, size_t size)
{
    DIR *d = opendir(dir);
    int n = 0;

    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        size_t len = strlen(e->d_name), tail = strlen(ending);

        if (len > tail && strcmp(e->d_name + len - tail, ending) == 0) {
            snprintf(path, size, "%s/%s", dir, e->d_name);
            n++;
        }
    }
    if (d != NULL)
        closedir(d);
    return n == 1;
}

TT_TEST_LIMIT(cl_cache, keeps_at_the_second_build, 120)
{
    const char *dir = own_directories();
    char path[1024];

    TT_CHECK_EQ(run_or_skip(&fixture_program), FROM_SOURCE);
    TT_CHECK(only_file(dir, ".seen", path, sizeof path));
    TT_CHECK(!only_file(dir, ".bin", path, sizeof path));
    TT_CHECK_EQ(run_or_skip(&fixture_program), KEPT);
    TT_CHECK(!only_file(dir, ".seen", path, sizeof path));
    TT_CHECK(only_file(dir, ".bin", path, sizeof path));
    TT_CHECK_EQ(run_or_skip(&fixture_program), FROM_DISK);
    TT_CHECK_EQ(run_or_skip(&fixture_program), FROM_DISK);
}

TT_TEST_LIMIT(cl_cache, keeps_a_single_kernel_at_once, 120)
{
    own_directories();
    TT_CHECK_EQ(run_or_skip(&fixture_single), KEPT);
    TT_CHECK_EQ(run_or_skip(&fixture_single), FROM_DISK);
}

typedef void damage(const char *path, const struct stat *st);

static void truncate_it(const char *path, const struct stat *st)
{
    TT_CHECK_EQ(truncate(path, st->st_size / 2), 0);
}

static void empty_it(const char *path, const struct stat *st)
{
    (void)st;
    TT_CHECK_EQ(truncate(path, 0), 0);
}

static void cut_head(const char *path, const struct stat *st)
{
    (void)st;
    TT_CHECK_EQ(truncate(path, 20), 0);
}

static void lengthen_it(const char *path, const struct stat *st)
{
    TT_CHECK_EQ(truncate(path, st->st_size + 1), 0);
}

static void put_byte(const char *path, off_t at)
{
    int fd = open(path, O_RDWR);
    char byte = 0;

    TT_REQUIRE(fd >= 0);
    TT_CHECK_EQ(pread(fd, &byte, 1, at), 1);
    byte = (char)~byte;
    TT_CHECK_EQ(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void flip_last(const char *path, const struct stat *st)
{
    put_byte(path, st->st_size - 1);
}

static void flip_magic(const char *path, const struct stat *st)
{
    (void)st;
    put_byte(path, 0);
}

static void flip_length(const char *path, const struct stat *st)
{
    (void)st;
    put_byte(path, 15);
}

/* Good checksum, but not a program of this driver. */
static void make_foreign(const char *path, const struct stat *st)
{
    static const unsigned char text[] = "\x7f"
                                        "ELF of some other driver";
    uint8_t head[48] = "tutticl2";
    uint64_t bytes = sizeof text;
    char name[256];
    tti_sha256 h;
    int fd = open(path, O_RDWR | O_TRUNC);

    (void)st;
    TT_REQUIRE(fd >= 0);
    memcpy(head + 8, &bytes, 8);
    snprintf(name, sizeof name, "%s", strrchr(path, '/') + 1);
    *strrchr(name, '.') = '\0';
    tti_sha256_begin(&h);
    tti_sha256_add(&h, name, strlen(name) + 1);
    tti_sha256_add(&h, text, sizeof text);
    tti_sha256_end(&h, head + 16);
    TT_CHECK_EQ(write(fd, head, sizeof head), sizeof head);
    TT_CHECK_EQ(write(fd, text, sizeof text), sizeof text);
    close(fd);
}

/* Whether a file that was kept under a name is read under it. */
static bool is_read(const char *name)
{
    size_t n = 0;
    unsigned char *data = tti_cl_cache_read(name, &n);
    bool found = data != NULL && n == 5 && memcmp(data, "bytes", 5) == 0;

    tti_mfree(data);
    return found;
}

static void keep(const char *name)
{
    int claim = tti_cl_cache_claim(name, true);

    TT_REQUIRE_GE(claim, 0);
    tti_cl_cache_write(name, claim, (const unsigned char *)"bytes", 5);
}

TT_TEST(cl_cache, files_of_others_or_of_another_name_are_not_used)
{
    const char *dir = own_directories();
    char a[1024], b[1024];

    keep("a");
    TT_CHECK(is_read("a"));
    snprintf(a, sizeof a, "%s/a.bin", dir);
    snprintf(b, sizeof b, "%s/b.bin", dir);
    TT_REQUIRE_EQ(rename(a, b), 0);
    TT_CHECK(!is_read("b")); /* a valid file, but of another program */
    TT_CHECK(access(b, F_OK) != 0);
    keep("a");
    TT_REQUIRE_EQ(chmod(a, 0666), 0);
    TT_CHECK(!is_read("a"));
    keep("a"); /* it was removed, so that it can be made again */
    TT_CHECK(is_read("a"));
    if (geteuid() == 0) {
        TT_REQUIRE_EQ(chown(a, 65534, 65534), 0);
        TT_CHECK(!is_read("a"));
        keep("a");
    }
    TT_REQUIRE_EQ(chmod(dir, 0777), 0);
    TT_CHECK(!is_read("a"));
    TT_CHECK_LT(tti_cl_cache_claim("c", true), 0);
    TT_REQUIRE_EQ(chmod(dir, 0700), 0);
    TT_CHECK(is_read("a"));
}

TT_TEST_LIMIT(cl_cache, damaged_files_are_made_again, 240)
{
    static damage *const damages[] = { truncate_it, empty_it,   cut_head,    lengthen_it,
                                       flip_last,   flip_magic, flip_length, make_foreign };
    const char *dir = own_directories();
    char path[1024];
    struct stat st;

    TT_CHECK_EQ(run_or_skip(&fixture_single), KEPT);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        TT_REQUIRE(only_file(dir, ".bin", path, sizeof path));
        TT_REQUIRE_EQ(stat(path, &st), 0);
        damages[i](path, &st);
        if (!TT_CHECK_EQ(run_or_skip(&fixture_single), KEPT))
            TT_FAIL_TEST("damage %zu", i);
        TT_CHECK_EQ(run_or_skip(&fixture_single), FROM_DISK);
    }
}

TT_TEST_LIMIT(cl_cache, works_without_a_place_to_write, 120)
{
    own_directories();
    setenv("TUTTI_CL_CACHE", "/dev/null/cl", 1);
    TT_CHECK_EQ(run_or_skip(&fixture_single), FROM_SOURCE);
    TT_CHECK_EQ(run_or_skip(&fixture_single), FROM_SOURCE);
    setenv("TUTTI_CL_CACHE", "off", 1);
    TT_CHECK_EQ(run_or_skip(&fixture_single), FROM_SOURCE);
    unsetenv("TUTTI_CL_CACHE");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "not-absolute", 1);
    TT_CHECK_EQ(run_or_skip(&fixture_single), FROM_SOURCE);
}

TT_TEST_LIMIT(cl_cache, follows_the_usual_variables, 120)
{
    char path[1024], dir[600];

    own_directories();
    unsetenv("TUTTI_CL_CACHE");
    setenv("XDG_CACHE_HOME", tt_test_tmpdir(), 1);
    TT_CHECK_EQ(run_or_skip(&fixture_single), KEPT);
    snprintf(dir, sizeof dir, "%s/tutti/cl", tt_test_tmpdir());
    TT_CHECK(only_file(dir, ".bin", path, sizeof path));
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", tt_test_tmpdir(), 1);
    TT_CHECK_EQ(run_or_skip(&fixture_single), KEPT);
    snprintf(dir, sizeof dir, "%s/.cache/tutti/cl", tt_test_tmpdir());
    TT_CHECK(only_file(dir, ".bin", path, sizeof path));
}

TT_TEST_LIMIT(cl_cache, six_processes_start_cold, 240)
{
    enum { N = 6 };
    pid_t pids[N];
    const char *dir = own_directories();
    char path[1024];

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++)
            pids[i] = child_start(build_and_run, (void *)&fixture_program);
        for (int i = 0; i < N; i++) {
            int code = child_end(pids[i]);

            TT_CHECK(code == FROM_SOURCE || code == KEPT || code == FROM_DISK ||
                     code == NO_DEVICES);
        }
    }
    if (run_or_skip(&fixture_program) != FROM_SOURCE)
        TT_CHECK(only_file(dir, ".bin", path, sizeof path));
}

/* ---- builds in one process ------------------------------------------------------------------------ */

typedef struct builder {
    pthread_t thread;
    int factor;
    bool good;
} builder;

static void *run_builder(void *arg)
{
    builder *b = arg;

    b->good = fixture_runs(tt_cl(0), &fixture_single, b->factor);
    return NULL;
}

TT_TEST_LIMIT(cl_cache, threads_build_each_program_once, 240)
{
    enum { N = 9, DIFFERENT = 3 };
    builder all[N];

    own_directories();
    need_devices(1);
    for (int i = 0; i < N; i++) {
        all[i] = (builder){ .factor = 2 + i % DIFFERENT };
        TT_REQUIRE_EQ(pthread_create(&all[i].thread, NULL, run_builder, &all[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(all[i].thread, NULL);
        TT_CHECK(all[i].good);
    }
    TT_CHECK_EQ(tti_cl_build_counts.from_source + tti_cl_build_counts.from_disk, DIFFERENT);
}

static const tti_program bad_program = { "bad",
                                         { "KERNEL void broken(u64 n) { no_such_name = n; }" } };

TT_TEST(cl_cache, a_text_that_does_not_build_says_why)
{
    need_devices(1);
    for (int i = 0; i < 2; i++) {
        TT_CHECK_NULL(tti_kernel_build(tt_cl(0), &bad_program, "", "broken"));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
        TT_CHECK_CONTAINS(tt_last_error(), "program bad");
        TT_CHECK_CONTAINS(tt_last_error(), "no_such_name");
    }
    TT_CHECK_NULL(tti_kernel_build(tt_cl(0), &fixture_single, "-DSCALE=3", "absent"));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOT_FOUND);
    TT_CHECK_CONTAINS(tt_last_error(), "absent");
    TT_CHECK(fixture_runs(tt_cl(0), &fixture_single, 3));
}

/* ---- the size of the directory -------------------------------------------------------------------- */

/* A file whose name is 64 times `digit` and the ending, last used `age` seconds ago. */
static void put_file(const char *dir, char digit, const char *ending, int bytes, int age)
{
    struct timespec times[2] = { { time(NULL) - age, 0 }, { time(NULL) - age, 0 } };
    char name[65], path[1024];
    int fd;

    memset(name, digit, 64);
    name[64] = '\0';
    snprintf(path, sizeof path, "%s/%s%s", dir, name, ending);
    fd = open(path, O_CREAT | O_RDWR, 0600);
    TT_REQUIRE(fd >= 0);
    TT_CHECK_EQ(ftruncate(fd, bytes), 0);
    TT_CHECK_EQ(futimens(fd, times), 0);
    close(fd);
}

static bool is_there(const char *dir, char digit, const char *ending)
{
    char name[65], path[1024];

    memset(name, digit, 64);
    name[64] = '\0';
    snprintf(path, sizeof path, "%s/%s%s", dir, name, ending);
    return access(path, F_OK) == 0;
}

TT_TEST(cl_cache, the_least_used_files_go_first)
{
    const char *dir = own_directories();
    char other[600];

    mkdir(dir, 0700);
    put_file(dir, '1', ".bin", 1000, 500);
    put_file(dir, '2', ".bin", 1000, 900);
    put_file(dir, '3', ".bin", 1000, 100);
    put_file(dir, '4', ".bin", 1000, 700);
    put_file(dir, '5', ".seen", 0, 100);
    put_file(dir, '6', ".seen", 0, 3 * 24 * 3600);
    put_file(dir, '7', ".aB3dEf", 10, 3 * 24 * 3600);
    snprintf(other, sizeof other, "%s/important.bin", dir);
    close(open(other, O_CREAT | O_RDWR, 0600));
    tti_cl_cache_trim(4000);
    for (char c = '1'; c <= '4'; c++)
        TT_CHECK(is_there(dir, c, ".bin"));
    TT_CHECK(is_there(dir, '5', ".seen"));
    TT_CHECK(!is_there(dir, '6', ".seen"));
    TT_CHECK(!is_there(dir, '7', ".aB3dEf"));
    tti_cl_cache_trim(3000); /* leaves 2250 */
    TT_CHECK(is_there(dir, '1', ".bin"));
    TT_CHECK(is_there(dir, '3', ".bin"));
    TT_CHECK(!is_there(dir, '2', ".bin"));
    TT_CHECK(!is_there(dir, '4', ".bin"));
    TT_CHECK_EQ(access(other, F_OK), 0);
    tti_cl_cache_trim(0);
    TT_CHECK(!is_there(dir, '3', ".bin"));
    TT_CHECK_EQ(access(other, F_OK), 0);
}

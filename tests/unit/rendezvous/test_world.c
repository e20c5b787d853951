/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank a process is, from the variables of its launchers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "rendezvous/url.h"
#include <tutti/rendezvous.h>
#include <tutti/testing.h>

static void clean(void)
{
    for (int i = 0; i < TTI_FOREIGN_COUNT; i++)
        unsetenv(tti_foreign_name((tti_foreign)i));
    unsetenv("TUTTI_RUN_ID");
    unsetenv("TUTTI_JOB_SECRET");
}

/* Sets "A=1 B=2", after clearing everything else. */
static void only(const char *settings)
{
    char copy[600], *save = NULL;

    clean();
    snprintf(copy, sizeof copy, "%s", settings);
    for (char *p = strtok_r(copy, " ", &save); p != NULL; p = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(p, '=');

        *eq = '\0';
        setenv(p, eq + 1, 1);
    }
}

static void expect(const char *settings, const char *launcher, int rank, int size)
{
    tt_world w = { 0 };

    only(settings);
    TT_REQUIRE_OK(tt_world_detect(&w));
    TT_CHECK_STR(w.launcher, launcher);
    TT_CHECK_EQ(w.rank, rank);
    TT_CHECK_EQ(w.size, size);
}

TT_TEST(world, is_found_for_every_launcher)
{
    expect("", "none", 0, 1);
    expect("TUTTI_RUN_ID=abc RANK=3 WORLD_SIZE=4", "tutti", 3, 4);
    expect("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", "torchrun", 1, 2);
    expect("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 PMIX_RANK=5", "openmpi", 5, 8);
    expect("PMIX_RANK=2 SLURM_NTASKS=3 SLURM_PROCID=2 SLURM_STEP_ID=0", "pmix", 2, 3);
    expect("PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2", "pmi", 0, 2);
    expect("SLURM_PROCID=7 SLURM_NTASKS=9 SLURM_STEP_ID=1", "slurm", 7, 9);
    expect("SLURM_PROCID=0 SLURM_NTASKS=9", "none", 0, 1); /* a batch script is no step */
    expect("SLURM_PROCID=0 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=4294967290", "slurm",
           0, 1);
}

TT_TEST(world, knows_the_place_on_the_host)
{
    tt_world w;

    only("RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 GROUP_WORLD_SIZE=2");
    TT_REQUIRE_OK(tt_world_detect(&w));
    TT_CHECK_EQ(w.local_rank, 1);
    TT_CHECK_EQ(w.local_size, 4);
    TT_CHECK_EQ(w.node, 1);
    TT_CHECK_EQ(w.n_nodes, 2);
    only("PMI_RANK=1 PMI_SIZE=2");
    TT_REQUIRE_OK(tt_world_detect(&w));
    TT_CHECK_EQ(w.local_rank, -1);
    TT_CHECK_EQ(w.n_nodes, -1);
}

static void refuse(const char *settings, const char *words)
{
    tt_world w = { .rank = 77 };

    only(settings);
    TT_CHECK_ERR_SAYS(tt_world_detect(&w), TT_ERR_INVALID, words);
    TT_CHECK_EQ(w.rank, 77);
}

TT_TEST(world, refuses_contradictions_by_name)
{
    refuse("RANK=2 WORLD_SIZE=2", "RANK is 2, but WORLD_SIZE is 2");
    refuse("RANK=one WORLD_SIZE=2", "RANK: expected a whole number");
    refuse("RANK=-1 WORLD_SIZE=2", "RANK: expected a whole number");
    refuse("RANK=0 WORLD_SIZE=0", "WORLD_SIZE");
    refuse("RANK=0", "RANK is set, WORLD_SIZE is not");
    refuse("WORLD_SIZE=2", "WORLD_SIZE is set, RANK is not");
    refuse("PMIX_RANK=1", "PMIX_RANK is set");
    refuse("RANK=0 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2", "LOCAL_RANK is 2");
    TT_CHECK_ERR(tt_world_detect(NULL), TT_ERR_INVALID);
}

/* A shell that was started with the first settings starts one that gets the second ones, which runs this
 * test's program with a hidden test that prints what it finds. */
static void nested(const char *outer, const char *inner, const char *expected)
{
    char command[2000], self[500], line[200] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    FILE *f;

    TT_REQUIRE_GT(n, 0);
    self[n] = '\0';
    clean();
    snprintf(command, sizeof command,
             "env %s sh -c \"env %s '%s' --hidden world_probe 2>&1 | cat; true\" | grep -o 'probe: "
             ".*' | head -n 1",
             outer, inner, self);
    f = popen(command, "r");
    TT_REQUIRE_NOT_NULL(f);
    if (fgets(line, sizeof line, f) == NULL)
        line[0] = '\0';
    pclose(f);
    line[strcspn(line, "\n")] = '\0';
    TT_CHECK_STR(line, expected);
}

TT_TEST_HIDDEN(world_probe, prints_what_it_finds, 20)
{
    tt_world w;

    TT_REQUIRE_OK(tt_world_detect(&w));
    TT_FAIL_TEST("probe: %s %d %d", w.launcher, w.rank, w.size);
}

TT_TEST(world, follows_the_innermost_launcher)
{
    nested("TUTTI_RUN_ID=x RANK=0 WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2",
           "probe: openmpi 1 2");
    nested("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", "TUTTI_RUN_ID=x RANK=0 WORLD_SIZE=3",
           "probe: tutti 0 3");
    nested("SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0", "RANK=1 WORLD_SIZE=2",
           "probe: torchrun 1 2");
    nested("RANK=1 WORLD_SIZE=2", "PMI_RANK=2 PMI_SIZE=4", "probe: pmi 2 4");
    nested("A=1", "PMI_RANK=2 PMI_SIZE=4 SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_STEP_ID=0",
           "probe: pmi 2 4");
}

/* ---- URLs ------------------------------------------------------------------------------------ */

TT_TEST(rendezvous_url, is_taken_apart)
{
    tti_url u;

    TT_REQUIRE_OK(tti_url_parse("tcp://node-1:29500?rank=3&size=4", &u));
    TT_CHECK_STR(u.host, "node-1");
    TT_CHECK_EQ(u.port, 29500);
    TT_CHECK_EQ(u.rank, 3);
    TT_CHECK_EQ(u.size, 4);
    TT_REQUIRE_OK(tti_url_parse("tcp://[fe80::1%eth0]:80/", &u));
    TT_CHECK_STR(u.host, "fe80::1%eth0");
    TT_CHECK_EQ(u.port, 80);
    TT_CHECK_EQ(u.rank, -1);
    TT_REQUIRE_OK(tti_url_parse("file:///a%20b/c%25?world_size=2&rank=0", &u));
    TT_CHECK_STR(u.path, "/a b/c%");
    TT_CHECK_EQ(u.size, 2);
    TT_REQUIRE_OK(tti_url_parse("env://?rank=1&size=2", &u));
    TT_CHECK_STR(u.scheme, "env");
}

TT_TEST(rendezvous_url, mistakes_are_told)
{
    static const char *const wrong[][2] = {
        { "nowhere", "expected env://" },
        { "udp://x:1", "expected env://" },
        { "env://host", "expected env://" },
        { "tcp://host", "expected tcp://host:port" },
        { "tcp://:80", "expected tcp://host:port" },
        { "tcp://::1:80", "in brackets" },
        { "tcp://[::1]", "expected tcp://host:port" },
        { "tcp://host:70000", "port: expected a number" },
        { "tcp://host:8o", "port: expected a number" },
        { "file://path", "three slashes" },
        { "file:///a%2", "hexadecimal" },
        { "file:///a%00b", "hexadecimal" },
        { "tcp://h:1?rank=x", "rank: expected a number" },
        { "tcp://h:1?rank=-1", "rank: expected a number" },
        { "tcp://h:1?ranks=1", "expected rank=R" },
        { "tcp://h:1?rank", "expected rank=R" },
    };
    tti_url u;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        TT_CHECK_ERR_SAYS(tti_url_parse(wrong[i][0], &u), TT_ERR_INVALID, wrong[i][1]);
}

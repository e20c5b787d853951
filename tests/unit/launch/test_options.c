/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `tutti run`, and the small languages in it. */
#include <string.h>
#include <tutti/testing.h>

#include "launch/job.h"

#define N_WORDS(w) ((int)(sizeof(w) / sizeof(w)[0]))
/* Parses the words into `o`; n is how many were options. */
#define PARSE(o, n, ...)                                                                         \
    tt_launch_parse(N_WORDS(((const char *[]){ __VA_ARGS__ })), (const char *[]){ __VA_ARGS__ }, \
                    &(o), &(n))

TT_TEST(launch_options, reads_words_up_to_the_program)
{
    tt_launch_options o;
    int n = -1;

    TT_REQUIRE_OK(PARSE(o, n, "-n", "4", "--no-bind", "prog", "-n", "9", "--quiet"));
    TT_CHECK_EQ(n, 3);
    TT_CHECK_EQ(o.n_ranks, 4);
    TT_CHECK(o.no_bind);
    TT_CHECK(!o.quiet);
}

TT_TEST(launch_options, defaults_are_zero)
{
    tt_launch_options o, zero = { 0 };
    int n;

    memset(&o, 1, sizeof o);
    TT_REQUIRE_OK(PARSE(o, n, "prog"));
    TT_CHECK_EQ(n, 0);
    TT_CHECK_EQ(o.n_ranks, zero.n_ranks);
    TT_CHECK_NULL(o.log_dir);
    TT_CHECK_EQ(o.grace_ms, 0);
}

TT_TEST(launch_options, knows_the_names_of_torchrun_with_either_dash)
{
    tt_launch_options o;
    int n;

    TT_REQUIRE_OK(PARSE(o, n, "--nproc_per_node=3", "--nnodes", "2", "--node_rank=1",
                        "--rdzv-endpoint=h:5", "--rdzv_id", "x", "--master_addr=a", "--master-port",
                        "77", "--max_restarts=6", "--log-dir=/l", "--tee=0:1", "-r", "3",
                        "--local_ranks_filter=0,1", "--log-line-prefix-template=p", "--standalone",
                        "--no-python", "--monitor_interval=5", "--rdzv-backend", "c10d",
                        "--rdzv-conf=a=b", "--start-method=spawn", "prog"));
    TT_CHECK_EQ(n, 24);
    TT_CHECK_EQ(o.n_ranks, 3);
    TT_CHECK_EQ(o.n_nodes, 2);
    TT_CHECK_EQ(o.node_rank, 1);
    TT_CHECK_STR(o.endpoint, "h:5");
    TT_CHECK_STR(o.run_id, "x");
    TT_CHECK_STR(o.master_addr, "a");
    TT_CHECK_EQ(o.master_port, 77);
    TT_CHECK_EQ(o.max_restarts, 6);
    TT_CHECK_STR(o.log_dir, "/l");
    TT_CHECK_STR(o.tee, "0:1");
    TT_CHECK_STR(o.redirects, "3");
    TT_CHECK_STR(o.ranks_shown, "0,1");
    TT_CHECK_STR(o.line_prefix, "p");
}

TT_TEST(launch_options, takes_a_number_glued_to_n)
{
    tt_launch_options o;
    int n;

    TT_REQUIRE_OK(PARSE(o, n, "-n12", "prog"));
    TT_CHECK_EQ(o.n_ranks, 12);
    TT_REQUIRE_OK(PARSE(o, n, "-n=5", "prog"));
    TT_CHECK_EQ(o.n_ranks, 5);
}

TT_TEST(launch_options, auto_is_the_number_of_cpus)
{
    tt_launch_options o;
    cpu_set_t set;
    int n;

    TT_REQUIRE_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    TT_REQUIRE_OK(PARSE(o, n, "--nproc-per-node", "auto", "prog"));
    TT_CHECK_EQ(o.n_ranks, CPU_COUNT(&set));
}

TT_TEST(launch_options, two_hyphens_end_them)
{
    tt_launch_options o;
    int n;

    TT_REQUIRE_OK(PARSE(o, n, "-n", "2", "--", "-n", "3"));
    TT_CHECK_EQ(n, 3);
    TT_CHECK_EQ(o.n_ranks, 2);
}

TT_TEST(launch_options, seconds_may_have_a_fraction_and_zero_is_at_once)
{
    tt_launch_options o;
    int n;

    TT_REQUIRE_OK(PARSE(o, n, "--grace", "0.25", "prog"));
    TT_CHECK_EQ(o.grace_ms, 250);
    TT_REQUIRE_OK(PARSE(o, n, "--grace", "0", "prog"));
    TT_CHECK_EQ(o.grace_ms, -1);
    TT_CHECK_ERR_SAYS(PARSE(o, n, "--grace", "-1", "prog"), TT_ERR_INVALID, "--grace");
    TT_CHECK_ERR_SAYS(PARSE(o, n, "--grace", "nan", "prog"), TT_ERR_INVALID, "seconds");
    TT_CHECK_ERR_SAYS(PARSE(o, n, "--grace", "1s", "prog"), TT_ERR_INVALID, "1s");
}

TT_TEST(launch_options, mistakes_name_the_word)
{
    tt_launch_options o = { .n_ranks = 77 };
    int n = 55;

    TT_CHECK_ERR_SAYS(PARSE(o, n, "--fast", "prog"), TT_ERR_INVALID, "--fast");
    TT_CHECK_ERR_SAYS(PARSE(o, n, "-n"), TT_ERR_INVALID, "expected a value");
    TT_CHECK_ERR_SAYS(PARSE(o, n, "-n", "0", "p"), TT_ERR_INVALID, "from 1");
    TT_CHECK_ERR_SAYS(PARSE(o, n, "-n", "3x", "p"), TT_ERR_INVALID, "3x");
    TT_CHECK_ERR_SAYS(PARSE(o, n, "-n", "99999999999", "p"), TT_ERR_INVALID, "99999999999");
    TT_CHECK_ERR_SAYS(PARSE(o, n, "-n", "", "p"), TT_ERR_INVALID, "whole number");
    TT_CHECK_ERR_SAYS(PARSE(o, n, "--no-bind=1", "p"), TT_ERR_INVALID, "no value");
    TT_CHECK_ERR_SAYS(PARSE(o, n, "--nnodes=1:4", "p"), TT_ERR_UNSUPPORTED, "1:4");
    TT_CHECK_EQ(o.n_ranks, 77);
    TT_CHECK_EQ(n, 55);
}

TT_TEST(launch_options, a_range_of_equal_ends_is_a_number)
{
    tt_launch_options o;
    int n;

    TT_REQUIRE_OK(PARSE(o, n, "--nnodes=3:3", "p"));
    TT_CHECK_EQ(o.n_nodes, 3);
}

TT_TEST(launch_options, the_help_names_every_option)
{
    static const char *const names[] = { "-n N",       "--nnodes", "--node-rank",    "--rdzv ",
                                         "--rdzv-id",  "--grace",  "--max-restarts", "--tee",
                                         "--no-bind",  "--quiet",  "--secret-file",  "--summary",
                                         "--redirects" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        TT_CHECK_CONTAINS(tt_launch_help(), names[i]);
}

/* ---- maps --------------------------------------------------------------------------------------- */

static int flags_of(const char *text, int local)
{
    int flags = -1;

    return tti_std_map(text, local, &flags) == TT_OK ? flags : -1;
}

TT_TEST(launch_maps, a_number_is_for_all_ranks)
{
    TT_CHECK_EQ(flags_of(NULL, 0), 0);
    for (int i = 0; i < 4; i++)
        TT_CHECK_EQ(flags_of((const char *[]){ "0", "1", "2", "3" }[i], 17), i);
}

TT_TEST(launch_maps, ranks_that_are_not_listed_get_nothing)
{
    TT_CHECK_EQ(flags_of("0:1,1:3", 0), 1);
    TT_CHECK_EQ(flags_of("0:1,1:3", 1), 3);
    TT_CHECK_EQ(flags_of("0:1,1:3", 2), 0);
    TT_CHECK_EQ(flags_of("12:2", 12), 2);
}

TT_TEST(launch_maps, nonsense_is_refused)
{
    static const char *const bad[] = { "",     "4",    "x",    "0:4", "0:",    ":1",
                                       "0:1,", "0:1;", "-1:1", "0 1", "0:1,2", "99999999999:1" };
    int flags = 42;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        TT_CHECK_ERR_SAYS(tti_std_map(bad[i], 0, &flags), TT_ERR_INVALID, "expected 0 to 3");
    TT_CHECK_EQ(flags, 42);
}

TT_TEST(launch_maps, lists_of_ranks)
{
    bool listed = false;

    TT_REQUIRE_OK(tti_launch_listed(NULL, 5, &listed));
    TT_CHECK(listed);
    TT_REQUIRE_OK(tti_launch_listed("0,12", 12, &listed));
    TT_CHECK(listed);
    TT_REQUIRE_OK(tti_launch_listed("0,12", 1, &listed));
    TT_CHECK(!listed);
    TT_CHECK_ERR_SAYS(tti_launch_listed("a", 1, &listed), TT_ERR_INVALID, "\"a\"");
    TT_CHECK_ERR_SAYS(tti_launch_listed("1;2", 1, &listed), TT_ERR_INVALID, "local ranks");
}

TT_TEST(launch_maps, prefixes_are_filled_in)
{
    char text[32];

    TT_REQUIRE_OK(tti_prefix_make("<${rank}.${local_rank} ${role_name}$>", 12, 3, text, 32));
    TT_CHECK_STR(text, "<12.3 default$>");
    TT_REQUIRE_OK(tti_prefix_make("", 1, 1, text, 32));
    TT_CHECK_STR(text, "");
    TT_CHECK_ERR_SAYS(tti_prefix_make("a${b}", 1, 1, text, 32), TT_ERR_INVALID, "${b}");
    TT_CHECK_ERR_SAYS(tti_prefix_make("0123456789012345678901234567890123456789", 1, 1, text, 32),
                      TT_ERR_INVALID, "fewer");
    TT_CHECK_ERR_SAYS(
        tti_prefix_make("${rank}${rank}${rank}${rank}${rank}", 2000000000, 1, text, 32),
        TT_ERR_INVALID, "fewer");
}

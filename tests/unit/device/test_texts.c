/* SPDX-License-Identifier: Apache-2.0 */
/* TUTTI_KERNEL_TEXTS: the texts of programs that are built. */
#include "cl_fixture.h"

extern const char tti_source_prelude[];

/* Builds a program with these options, and gives what is in the directory under that name; "" is nothing. */
static const char *text_of(const tti_program *p, const char *options, const char *name, bool builds)
{
    static char text[65536];
    char path[1024];
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", tt_test_tmpdir(), name);
    setenv("TUTTI_KERNEL_TEXTS", tt_test_tmpdir(), 1);
    need_devices(1);
    TT_CHECK_EQ(tti_kernel_build(tt_cl(0), p, options, "scale") != NULL, builds);
    f = fopen(path, "r");
    if (f != NULL) {
        n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
    }
    text[n] = '\0';
    return text;
}

TT_TEST(kernel_texts, are_options_prelude_and_parts)
{
    static char want[65536];

    snprintf(want, sizeof want, "/* -DSCALE=3 -DMORE */\n%s%s%s", tti_source_prelude, fixture_text,
             fixture_more);
    TT_CHECK_STR(text_of(&fixture_program, "-DSCALE=3 -DMORE", "fixture-DSCALE=3-DMORE.cl", true),
                 want);
}

TT_TEST(kernel_texts, are_one_file_per_set_of_options)
{
    const char *text;

    text_of(&fixture_single, "-DSCALE=4", "single-DSCALE=4.cl", true);
    text = text_of(&fixture_single, "-DSCALE=5", "single-DSCALE=5.cl", true);
    TT_CHECK(strncmp(text, "/* -DSCALE=5 */\n", 16) == 0);
    text = text_of(&fixture_single, "-DSCALE=4", "single-DSCALE=4.cl", true);
    TT_CHECK(strncmp(text, "/* -DSCALE=4 */\n", 16) == 0);
}

TT_TEST(kernel_texts, that_do_not_build_are_not_kept)
{
    TT_CHECK_STR(text_of(&fixture_single, "-DNOTHING", "single-DNOTHING.cl", false), "");
}

/* Kernels work without them. */
TT_TEST(kernel_texts, have_no_place_in_a_missing_directory)
{
    need_devices(1);
    setenv("TUTTI_KERNEL_TEXTS", "/dev/null/texts", 1);
    TT_CHECK_NOT_NULL(tti_kernel_build(tt_cl(0), &fixture_single, "-DSCALE=6", "scale"));
    unsetenv("TUTTI_KERNEL_TEXTS");
    TT_CHECK_NOT_NULL(tti_kernel_build(tt_cl(0), &fixture_single, "-DSCALE=7", "scale"));
}

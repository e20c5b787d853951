/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files: round trips, tensors over the mapping, every rule of the header, damaged files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>
#include <unistd.h>

static const char *path_of(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", tt_test_tmpdir(), name);
    return path;
}

/* A file in memory: 8 bytes of length, the header, `n` bytes of elements. */
static tt_safetensors *parse(const char *header, size_t n)
{
    size_t length = strlen(header);
    unsigned char *bytes = calloc(1, 8 + length + n);
    tt_safetensors *st;

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(length >> (8 * i));
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < n; i++)
        bytes[8 + length + i] = (unsigned char)i;
    st = tt_safetensors_parse(bytes, 8 + length + n);
    free(bytes);
    return st;
}

static void refused(const char *header, size_t n, const char *words)
{
    tt_safetensors *st;

    tt_clear_error();
    st = parse(header, n);
    TT_CHECK_NULL(st);
    TT_CHECK_EQ(tt_last_status(), TT_ERR_FORMAT);
    TT_CHECK_CONTAINS(tt_last_error(), words);
    tt_safetensors_free(st);
}

TT_TEST(safetensors, what_is_saved_comes_back)
{
    const char *path = path_of("a.safetensors");

    TT_SCOPE {
        tt_tensor *x = tt_view(TT_FLOATS(1, 2, 3, 4, 5, 6), TT_SHAPE(2, 3));
        tt_named_tensor all[] = {
            { "bytes", tt_to_dtype(TT_INTS(1, 2, 3), TT_U8) },
            { "weight", tt_t(x) },
            { "half \"quoted\"\n", tt_to_dtype(x, TT_BF16) },
            { "long", TT_INTS(-1, 5) },
            { "scalar", tt_full(TT_SHAPE_SCALAR, 2.5, TT_F64, TT_CPU) },
            { "none", tt_empty(TT_SHAPE(0, 4), TT_F32, TT_CPU) },
            { "complex", tt_view_as_complex(tt_view(TT_FLOATS(1, 2), TT_SHAPE(1, 2))) },
            { "truth", tt_ne_scalar(TT_INTS(0, 1), 0) },
        };
        int n = (int)(sizeof all / sizeof all[0]);
        tt_text_pair words[] = { { "format", "pt" }, { "step", "12" } };
        tt_safetensors *st;
        tt_safetensors_info info;
        const char *key, *value;

        TT_REQUIRE_OK(tt_safetensors_save(path, all, n, words, 2));
        st = tt_safetensors_open(path);
        TT_REQUIRE_NOT_NULL(st);
        TT_CHECK_EQ(tt_safetensors_count(st), n);
        for (int i = 0; i < n; i++)
            TT_CHECK(tt_equal(tt_safetensors_get(st, all[i].name), all[i].tensor));
        TT_CHECK_STR(tt_safetensors_metadata(st, "step"), "12");
        TT_CHECK_NULL(tt_safetensors_metadata(st, "steps"));
        TT_CHECK(tt_safetensors_metadata_at(st, 0, &key, &value));
        TT_CHECK_STR(key, "format");
        TT_CHECK(!tt_safetensors_metadata_at(st, 2, &key, &value));
        TT_REQUIRE_OK(tt_safetensors_at(st, 0, &info)); /* the widest comes first */
        TT_CHECK_STR(info.name, "complex");
        TT_CHECK_STR(info.dtype_name, "C64");
        TT_REQUIRE_OK(tt_safetensors_find(st, "weight", &info));
        TT_CHECK(info.loadable && info.dtype == TT_F32);
        TT_CHECK(tt_shape_equal(info.shape, TT_SHAPE(3, 2)));
        TT_CHECK_EQ(info.bytes, 24);
        TT_CHECK_ERR_SAYS(tt_safetensors_find(st, "weigh", &info), TT_ERR_NOT_FOUND, "\"weigh\"");
        TT_CHECK_ERR(tt_safetensors_at(st, n, &info), TT_ERR_INVALID);
        tt_safetensors_free(st);
    }
}

/* The header is padded so that elements start at a multiple of 8, and nothing else is left behind. */
TT_TEST(safetensors, files_are_aligned_and_replaced_whole)
{
    const char *path = path_of("a.safetensors");
    unsigned char head[8];
    struct stat s;
    char command[600];
    FILE *f;

    TT_SCOPE {
        tt_named_tensor one = { "x", TT_FLOATS(1, 2) };

        TT_REQUIRE_OK(tt_safetensors_save(path, &one, 1, NULL, 0));
        one.tensor = TT_FLOATS(3);
        TT_REQUIRE_OK(tt_safetensors_save(path, &one, 1, NULL, 0));
    }
    f = fopen(path, "rb");
    TT_REQUIRE_NOT_NULL(f);
    TT_CHECK_EQ(fread(head, 1, 8, f), 8);
    fclose(f);
    TT_CHECK_EQ(head[0] % 8, 0);
    TT_REQUIRE_EQ(stat(path, &s), 0);
    TT_CHECK_EQ(s.st_size, 8 + head[0] + 4);
    snprintf(command, sizeof command, "test $(ls '%s' | wc -l) -eq 1", tt_test_tmpdir());
    TT_CHECK_EQ(system(command), 0);
    TT_SCOPE {
        tt_named_tensor one = { "x", TT_FLOATS(1) };

        TT_CHECK_ERR_SAYS(tt_safetensors_save(path_of("none/a"), &one, 1, NULL, 0),
                          TT_ERR_NOT_FOUND, "cannot create");
    }
}

TT_TEST(safetensors, tensors_outlive_the_file_and_never_write_to_it)
{
    const char *path = path_of("a.safetensors");

    TT_SCOPE {
        tt_named_tensor one = { "x", TT_FLOATS(1, 2) };
        tt_safetensors *st;
        tt_tensor *x, *again;

        TT_REQUIRE_OK(tt_safetensors_save(path, &one, 1, NULL, 0));
        st = tt_safetensors_open(path);
        x = tt_safetensors_get(st, "x");
        again = tt_safetensors_get(st, "x");
        tt_safetensors_free(st);
        TT_CHECK_EQ(unlink(path), 0);
        TT_REQUIRE_NOT_NULL(tt_mul_scalar_(x, 10));
        TT_CHECK(tt_equal(x, TT_FLOATS(10, 20)));
        TT_CHECK(tt_equal(again, x)); /* both look at the same pages */
        TT_REQUIRE_OK(tt_safetensors_save(path, &one, 1, NULL, 0));
        st = tt_safetensors_open(path);
        TT_REQUIRE_NOT_NULL(tt_zero_(tt_safetensors_get(st, "x")));
        tt_safetensors_free(st);
        st = tt_safetensors_open(path);
        TT_CHECK(tt_equal(tt_safetensors_get(st, "x"), TT_FLOATS(1, 2)));
        tt_safetensors_free(st);
    }
}

#define ONE "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"

TT_TEST(safetensors, broken_headers_are_refused)
{
    unsigned char far[16] = { 255, 255, 255, 255, 255, 255, 255, 127 };
    char deep[64];

    refused("{\"a\":{" ONE "}}", 7, "tensors take 8 bytes, but 7 follow");
    refused("{\"a\":{" ONE "}}", 9, "but 9 follow");
    refused("{\"a\":{" ONE "},\"a\":{" ONE "}}", 8, "\"a\" comes twice");
    refused("{\"a\":{" ONE ",\"dtype\":\"F32\"}}", 8, "\"dtype\" comes twice");
    refused("{\"a\":{" ONE "},\"b\":{" ONE "}}", 8, "an overlap");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, "a gap");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
            "3 elements of F32 do not take 8 bytes");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8,
            "before it begins");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}}", 8,
            "whole number");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "whole number");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2e0],\"data_offsets\":[0,8]}}", 8,
            "expected a whole number in the header at byte 29, got \"2e0\"");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8,
            "whole number");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[02],\"data_offsets\":[0,8]}}", 8, "not JSON");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8E0]}}", 8,
            "whole number");
    refused("{\"a\xff\":{" ONE "}}", 8, "not UTF-8");
    refused("{\"__metadata__\":{\"a\":\"\xc3\x28\"}}", 0, "not UTF-8");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[9007199254740993],\"data_offsets\":[0,8]}}", 8,
            "whole number");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[9007199254740991,9007199254740991],"
            "\"data_offsets\":[0,8]}}",
            8, "too large");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, "has no shape");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "pair of offsets");
    refused("{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "has no dtype");
    refused("{\"a\":7}", 0, "not described by an object");
    refused("{\"__metadata__\":{\"a\":1}}", 0, "is not a string");
    refused("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "comes twice");
    refused("[]", 0, "begin with a brace");
    refused(" {}", 0, "begin with a brace");
    refused("{\"a\":{" ONE "}} x", 8, "follows the header");
    refused("{\"a\":{" ONE "}", 8, "not JSON");
    refused("", 0, "begin with a brace");
    memset(deep, '[', sizeof deep - 1);
    deep[0] = '{';
    deep[sizeof deep - 1] = '\0';
    refused(deep, 0, "nested too deeply");
    TT_CHECK_NULL(tt_safetensors_parse(far, sizeof far));
    TT_CHECK_CONTAINS(tt_last_error(), "longer than the allowed");
    far[7] = far[6] = far[5] = far[4] = far[3] = far[2] = 0;
    TT_CHECK_NULL(tt_safetensors_parse(far, sizeof far));
    TT_CHECK_CONTAINS(tt_last_error(), "does not fit a file of 16");
    TT_CHECK_NULL(tt_safetensors_parse(far, 7));
    TT_CHECK_NULL(tt_safetensors_open(path_of("missing")));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOT_FOUND);
}

TT_TEST(safetensors, unknown_types_fail_only_when_fetched)
{
    tt_safetensors *st =
        parse("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]},"
              "\"b\":{\"dtype\":\"Q3\",\"shape\":[9],\"data_offsets\":[4,8]},"
              "\"c\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1],"
              "\"data_offsets\":[8,9]},"
              "\"d\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[9,13]}}   ",
              13);
    tt_safetensors_info info;

    TT_REQUIRE_NOT_NULL(st);
    TT_SCOPE {
        TT_REQUIRE_OK(tt_safetensors_find(st, "a", &info));
        TT_CHECK(!info.loadable);
        TT_CHECK_NULL(tt_safetensors_get(st, "a"));
        TT_CHECK_CONTAINS(tt_last_error(), "type F8_E4M3, which is not supported");
        TT_CHECK_NULL(tt_safetensors_get(st, "b"));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_UNSUPPORTED);
        TT_REQUIRE_OK(tt_safetensors_find(st, "c", &info));
        TT_CHECK_EQ(info.shape.n_dims, -1);
        TT_CHECK_NULL(tt_safetensors_get(st, "c"));
        TT_CHECK_CONTAINS(tt_last_error(), "more than 8 dimensions");
        TT_CHECK_NOT_NULL(tt_safetensors_get(st, "d")); /* not aligned: a copy */
    }
    tt_safetensors_free(st);
}

TT_TEST(safetensors, what_cannot_be_saved_is_refused)
{
    const char *path = path_of("a.safetensors");

    TT_SCOPE {
        tt_tensor *x = TT_FLOATS(1);
        tt_named_tensor two[] = { { "x", x }, { "x", x } };
        tt_text_pair twice[] = { { "k", "1" }, { "k", "2" } };

        TT_CHECK_ERR_SAYS(tt_safetensors_save(path, two, 2, NULL, 0), TT_ERR_INVALID,
                          "two tensors are named \"x\"");
        TT_CHECK_ERR_SAYS(tt_safetensors_save(path, two, 1, twice, 2), TT_ERR_INVALID,
                          "two metadata pairs are named \"k\"");
        twice[1] = (tt_text_pair){ "other", "caf\xe9" };
        TT_CHECK_ERR_SAYS(tt_safetensors_save(path, two, 1, twice, 2), TT_ERR_INVALID,
                          "expected UTF-8, but the value of metadata pair 1 is not");
        two[0].name = "caf\xe9";
        TT_CHECK_ERR_SAYS(tt_safetensors_save(path, two, 1, NULL, 0), TT_ERR_INVALID,
                          "expected UTF-8, but the name of tensor 0 is not");
        two[0].name = "__metadata__";
        TT_CHECK_ERR(tt_safetensors_save(path, two, 1, NULL, 0), TT_ERR_INVALID);
        two[0].name = "c";
        two[0].tensor = tt_to_dtype(x, TT_C128);
        TT_CHECK_ERR_SAYS(tt_safetensors_save(path, two, 1, NULL, 0), TT_ERR_UNSUPPORTED,
                          "no type for complex128");
        two[0].tensor = NULL;
        tt_clear_error();
        TT_CHECK_ERR(tt_safetensors_save(path, two, 1, NULL, 0), TT_ERR_INVALID);
        TT_CHECK_NE(access(path, F_OK), 0);
    }
}

TT_TEST(safetensors, reads_what_others_wrote)
{
    tt_safetensors *st = tt_safetensors_open(TT_TESTS_DIR "/golden/ops/shape.safetensors");

    TT_REQUIRE_NOT_NULL(st);
    TT_CHECK_GT(tt_safetensors_count(st), 10);
    for (int i = 0; i < tt_safetensors_count(st); i++)
        TT_SCOPE {
            tt_safetensors_info info;

            TT_REQUIRE_OK(tt_safetensors_at(st, i, &info));
            TT_CHECK_EQ(tt_tensor_bytes(tt_safetensors_get(st, info.name)), info.bytes);
        }
    tt_safetensors_free(st);
}

static tt_status save_and_open(void *ctx)
{
    tt_status st = TT_OK;

    TT_SCOPE {
        tt_tensor *x = tt_from_data((float[]){ 1, 2, 3, 4 }, TT_SHAPE(2, 2), TT_F32);
        tt_named_tensor one = { "x", x != NULL ? tt_t(x) : NULL };
        tt_text_pair pair = { "k", "v" };
        tt_safetensors *file = NULL;

        if (one.tensor == NULL)
            return tt_last_status();
        st = tt_safetensors_save(ctx, &one, 1, &pair, 1);
        if (st == TT_OK && (file = tt_safetensors_open(ctx)) == NULL)
            st = tt_last_status();
        if (st == TT_OK && tt_safetensors_get(file, "x") == NULL)
            st = tt_last_status();
        tt_safetensors_free(file);
    }
    return st;
}

TT_TEST(safetensors, survives_every_failed_allocation)
{
    TT_CHECK_GT(tt_test_fail_allocs(save_and_open, (void *)path_of("f.safetensors")), 10);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* .npy files: round trips, both orders, all versions, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

static const char *path_of(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", tt_test_tmpdir(), name);
    return path;
}

/* A file of the version with this header and n bytes 0, 1, 2, ... after it. */
static tt_tensor *parse(int version, const char *header, size_t n)
{
    unsigned char bytes[512] = "\x93NUMPY";
    size_t length = strlen(header), at = 8;

    bytes[6] = (unsigned char)version;
    for (int i = 0; i < (version == 1 ? 2 : 4); i++)
        bytes[at++] = (unsigned char)(length >> (8 * i));
    memcpy(bytes + at, header, length);
    for (size_t i = 0; i < n; i++)
        bytes[at + length + i] = (unsigned char)i;
    return tt_npy_parse(bytes, at + length + n);
}

static void refused(tt_status status, const char *header, size_t n, const char *words)
{
    tt_clear_error();
    TT_SCOPE {
        TT_CHECK_NULL(parse(1, header, n));
    }
    TT_CHECK_EQ(tt_last_status(), status);
    TT_CHECK_CONTAINS(tt_last_error(), words);
}

TT_TEST(npy, what_is_saved_comes_back)
{
    static const tt_dtype types[] = { TT_F32, TT_F64, TT_F16,  TT_I8,  TT_U8,  TT_I16,
                                      TT_I32, TT_I64, TT_BOOL, TT_C64, TT_C128 };
    static const tt_shape shapes[] = {
        { 0, { 0 } }, { 1, { 6 } }, { 2, { 2, 3 } }, { 3, { 1, 0, 2 } }
    };
    const char *path = path_of("a.npy");

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (size_t j = 0; j < sizeof shapes / sizeof shapes[0]; j++)
            TT_SCOPE {
                int64_t n = tt_shape_numel(shapes[j]);
                tt_tensor *x = tt_reshape(tt_arange(0, (double)n, 1, TT_F32, TT_CPU), shapes[j]);
                tt_tensor *y;

                x = tt_to_dtype(x, types[i]);
                TT_REQUIRE_OK(tt_npy_save(path, x));
                y = tt_npy_load(path);
                TT_CHECK(tt_equal(x, y));
            }
    TT_SCOPE {
        tt_tensor *x = tt_view(TT_FLOATS(1, 2, 3, 4), TT_SHAPE(2, 2));

        TT_REQUIRE_OK(tt_npy_save(path, tt_t(x)));
        TT_CHECK(tt_equal(tt_npy_load(path), tt_contiguous(tt_t(x))));
        TT_CHECK_ERR_SAYS(tt_npy_save(path, tt_to_dtype(x, TT_BF16)), TT_ERR_UNSUPPORTED,
                          "no bfloat16");
        TT_REQUIRE_NOT_NULL(tt_zero_(tt_npy_load(path)));
        TT_CHECK_NEAR(tt_at(tt_npy_load(path), (int64_t[]){ 1, 1 }), 4, 0);
    }
}

TT_TEST(npy, versions_and_orders)
{
    TT_SCOPE {
        tt_tensor *t =
            parse(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }  \n", 6);

        TT_REQUIRE_NOT_NULL(t);
        TT_CHECK(tt_shape_equal(tt_tensor_shape(t), TT_SHAPE(2, 3)));
        TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 0, 2 }), 4, 0);
        TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 1, 0 }), 1, 0);
        TT_CHECK_NOT_NULL(parse(2, "{'shape':(),\"descr\":'<u1','fortran_order':False}", 1));
        TT_CHECK_NOT_NULL(parse(3, "{'descr': '<i2', 'fortran_order': False, 'shape': (3L,)}", 6));
        t = parse(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}", 8);
        TT_CHECK_EQ(tt_item_int(tt_select(t, 0, 1)), 0x07060504);
        tt_clear_error();
        TT_CHECK_NULL(parse(4, "{}", 0));
        TT_CHECK_CONTAINS(tt_last_error(), "version 4.0 is not supported");
    }
}

TT_TEST(npy, what_is_wrong_is_said)
{
    refused(TT_ERR_UNSUPPORTED, "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4,
            "big-endian type \">f4\"");
    refused(TT_ERR_UNSUPPORTED, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            4, "records");
    refused(TT_ERR_UNSUPPORTED, "{'descr': '<U7', 'fortran_order': False, 'shape': (1,)}", 28,
            "\"<U7\" is not supported");
    refused(TT_ERR_UNSUPPORTED, "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 28,
            "\"|O\"");
    refused(TT_ERR_FORMAT, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7,
            "needs more than the 7 bytes");
    refused(TT_ERR_FORMAT,
            "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4)}", 7,
            "needs more");
    refused(TT_ERR_FORMAT,
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 7,
            "too large");
    refused(TT_ERR_FORMAT, "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", 4,
            "True or False");
    refused(TT_ERR_FORMAT, "{'descr': '<f4', 'shape': (1,)}", 4, "must have descr");
    refused(TT_ERR_FORMAT, "{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", 4, "comes twice");
    refused(TT_ERR_FORMAT, "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4,
            "expected a size");
    refused(TT_ERR_FORMAT, "{'descr': '<f4", 4, "does not end");
    refused(TT_ERR_FORMAT, "{'other': 1}", 4, "unknown key \"other\"");
    refused(TT_ERR_FORMAT, "", 4, "begin with a brace");
    TT_CHECK_NULL(tt_npy_parse("PK\x03\x04 and more", 12));
    TT_CHECK_CONTAINS(tt_last_error(), "does not begin like a .npy file");
    TT_CHECK_NULL(tt_npy_load(path_of("missing.npy")));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOT_FOUND);
    TT_CHECK_NULL(tt_npy_load(tt_test_tmpdir()));
    TT_CHECK_CONTAINS(tt_last_error(), "not a regular file");
}

TT_TEST(npy, saving_what_failed_keeps_the_first_error)
{
    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(2, 3), TT_F32, TT_CPU);
        tt_named_tensor named = { "y", tt_add(x, TT_FLOATS(1, 2)) };

        TT_CHECK_ERR_SAYS(tt_npy_save(path_of("y.npy"), named.tensor), TT_ERR_INVALID,
                          "add: shapes");
        TT_CHECK_ERR_SAYS(tt_safetensors_save(path_of("y.safetensors"), &named, 1, NULL, 0),
                          TT_ERR_INVALID, "add: shapes");
        tt_clear_error();
        TT_CHECK_ERR_SAYS(tt_npy_save(path_of("y.npy"), NULL), TT_ERR_INVALID, "expected a tensor");
    }
}

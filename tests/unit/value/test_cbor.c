/* SPDX-License-Identifier: Apache-2.0 */
/* Values to CBOR and back: the bytes of the standard, every kind and type, what cannot be sent, bytes that
 * are no value, and running out of memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/autograd.h"
#include "tutti/ops.h"
#include "tutti/sparse.h"
#include "tutti/testing.h"
#include "tutti/value.h"

/* Encodes, decodes, encodes again; checks that value and bytes are the same. Takes over v. */
static tt_value *there_and_back(tt_value *v)
{
    void *data, *again;
    size_t n, n_again;
    tt_value *w;

    TT_REQUIRE_NOT_NULL(v);
    TT_REQUIRE_OK(tt_value_encode(v, &data, &n));
    w = tt_value_decode(data, n);
    if (w == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_NOT_NULL(w);
    TT_CHECK(tt_value_equal(v, w));
    TT_REQUIRE_OK(tt_value_encode(w, &again, &n_again));
    TT_REQUIRE_EQ(n, n_again);
    TT_CHECK_MEM(data, again, n);
    tt_bytes_free(data);
    tt_bytes_free(again);
    tt_value_free(v);
    return w;
}

static void check_bytes(tt_value *v, const char *bytes, size_t n)
{
    void *data;
    size_t size;

    TT_REQUIRE_OK(tt_value_encode(v, &data, &size));
    TT_CHECK_EQ(size, n);
    if (size == n)
        TT_CHECK_MEM(data, bytes, n);
    tt_bytes_free(data);
    tt_value_free(there_and_back(v));
}

#define CHECK_BYTES(v, bytes) check_bytes(v, bytes, sizeof(bytes) - 1)

static void check_refused(const char *bytes, size_t n, const char *words)
{
    tt_value *v;

    tt_clear_error();
    v = tt_value_decode(bytes, n);
    TT_CHECK_NULL(v);
    TT_CHECK_EQ(tt_last_status(), TT_ERR_FORMAT);
    TT_CHECK_CONTAINS(tt_last_error(), words);
    tt_value_free(v);
}

#define CHECK_REFUSED(bytes, words) check_refused(bytes, sizeof(bytes) - 1, words)

/* The examples of RFC 8949, appendix A, that have a value here. */
TT_TEST(cbor, writes_the_bytes_of_the_standard)
{
    CHECK_BYTES(tt_value_int_new(0), "\x00");
    CHECK_BYTES(tt_value_int_new(23), "\x17");
    CHECK_BYTES(tt_value_int_new(24), "\x18\x18");
    CHECK_BYTES(tt_value_int_new(255), "\x18\xff");
    CHECK_BYTES(tt_value_int_new(256), "\x19\x01\x00");
    CHECK_BYTES(tt_value_int_new(1000000), "\x1a\x00\x0f\x42\x40");
    CHECK_BYTES(tt_value_int_new(1000000000000), "\x1b\x00\x00\x00\xe8\xd4\xa5\x10\x00");
    CHECK_BYTES(tt_value_int_new(INT64_MAX), "\x1b\x7f\xff\xff\xff\xff\xff\xff\xff");
    CHECK_BYTES(tt_value_int_new(-1), "\x20");
    CHECK_BYTES(tt_value_int_new(-1000), "\x39\x03\xe7");
    CHECK_BYTES(tt_value_int_new(INT64_MIN), "\x3b\x7f\xff\xff\xff\xff\xff\xff\xff");
    CHECK_BYTES(tt_value_float_new(1.1), "\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a");
    CHECK_BYTES(tt_value_bool_new(false), "\xf4");
    CHECK_BYTES(tt_value_bool_new(true), "\xf5");
    CHECK_BYTES(tt_value_null_new(), "\xf6");
    CHECK_BYTES(tt_value_text_new(""), "\x60");
    CHECK_BYTES(tt_value_text_new("\xc3\xbc"), "\x62\xc3\xbc");
    CHECK_BYTES(tt_value_text_new("\xf0\x90\x85\x91"), "\x64\xf0\x90\x85\x91");
    CHECK_BYTES(tt_value_bytes_new("\x01\x02\x03\x04", 4), "\x44\x01\x02\x03\x04");
    CHECK_BYTES(tt_value_bytes_new(NULL, 0), "\x40");
    CHECK_BYTES(tt_value_list_new(), "\x80");
    CHECK_BYTES(tt_value_map_new(), "\xa0");
}

TT_TEST(cbor, reads_shorter_floats)
{
    static const struct {
        const char *bytes;
        size_t n;
        double f;
    } rows[] = {
        { "\xf9\x00\x00", 3, 0.0 },
        { "\xf9\x3c\x00", 3, 1.0 },
        { "\xf9\x3e\x00", 3, 1.5 },
        { "\xf9\x7b\xff", 3, 65504.0 },
        { "\xf9\x00\x01", 3, 5.960464477539063e-8 },
        { "\xf9\x04\x00", 3, 0.00006103515625 },
        { "\xf9\xc4\x00", 3, -4.0 },
        { "\xf9\x7c\x00", 3, INFINITY },
        { "\xf9\xfc\x00", 3, -INFINITY },
        { "\xfa\x47\xc3\x50\x00", 5, 100000.0 },
        { "\xfa\x7f\x7f\xff\xff", 5, 3.4028234663852886e+38 },
    };
    tt_value *v;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        v = tt_value_decode(rows[i].bytes, rows[i].n);
        TT_CHECK_EQ(tt_value_kind_of(v), TT_VALUE_FLOAT);
        TT_CHECK_NEAR(tt_value_as_float(v), rows[i].f, 0);
        tt_value_free(v);
    }
    v = tt_value_decode("\xf9\x7e\x00", 3);
    TT_CHECK(isnan(tt_value_as_float(v)));
    tt_value_free(v);
    v = tt_value_decode("\xf9\x80\x00", 3);
    TT_CHECK(signbit(tt_value_as_float(v)));
    tt_value_free(v);
}

TT_TEST(cbor, keeps_every_bit_of_a_float)
{
    static const uint64_t bits[] = {
        0x0000000000000000, 0x8000000000000000, 0x7ff0000000000000, 0xfff0000000000000,
        0x7ff8000000000000, 0xfff8000000000123, 0x7ff0000000000001, 0x0000000000000001,
        0x7fefffffffffffff, 0x3ff0000000000001,
    };

    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        double f;
        tt_value *v;

        memcpy(&f, &bits[i], sizeof f);
        v = there_and_back(tt_value_float_new(f));
        f = tt_value_as_float(v);
        TT_CHECK_MEM(&f, &bits[i], sizeof f);
        tt_value_free(v);
    }
}

/* {"z": [1, (2.5, null)], "a": Point(x=bytes, y=text)} */
static tt_value *sample(void)
{
    tt_value *v = tt_value_map_new(), *list = tt_value_list_new(), *tuple = tt_value_tuple_new(),
             *point = tt_value_record_new("Point");

    (void)tt_value_list_give(list, tt_value_int_new(1));
    (void)tt_value_list_give(tuple, tt_value_float_new(2.5));
    (void)tt_value_list_give(tuple, tt_value_null_new());
    (void)tt_value_list_give(list, tuple);
    (void)tt_value_map_give(point, "x", tt_value_bytes_new("a\0b", 3));
    (void)tt_value_map_give(point, "y", tt_value_text_new("tutti"));
    (void)tt_value_map_give(v, "z", list);
    (void)tt_value_map_give(v, "a", point);
    return v;
}

TT_TEST(cbor, keeps_kinds_names_and_order)
{
    tt_value *v = there_and_back(sample());
    char *text = tt_value_text(v);

    TT_CHECK_STR(text, "{\"z\": [1, (2.5, null)], \"a\": Point(x=bytes[3], y=\"tutti\")}");
    TT_CHECK_STR(tt_value_name_at(v, 0), "z");
    tt_text_free(text);
    tt_value_free(v);
}

TT_TEST(cbor, carries_tensors_of_every_type_and_shape)
{
    static const tt_shape shapes[] = {
        { 0, { 0 } },    { 1, { 0 } },       { 1, { 7 } },
        { 2, { 3, 5 } }, { 3, { 2, 0, 9 } }, { 8, { 1, 2, 1, 2, 1, 2, 1, 2 } },
    };

    for (int d = 0; d < TT_N_DTYPES; d++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            TT_SCOPE {
                int64_t n = tt_shape_numel(shapes[s]);
                tt_tensor *t =
                    tt_reshape(tt_to_dtype(tt_arange(0, (double)n, 1, TT_F64, TT_CPU), (tt_dtype)d),
                               shapes[s]);
                tt_value *v = there_and_back(tt_value_tensor_new(t));

                TT_CHECK(tt_equal(tt_value_as_tensor(v), t));
                tt_value_free(v);
            }
}

TT_TEST(cbor, packs_tensors_that_are_not_contiguous)
{
    TT_SCOPE {
        tt_tensor *t = tt_reshape(tt_arange(0, 12, 1, TT_F32, TT_CPU), TT_SHAPE(3, 4));
        tt_tensor *views[] = { tt_transpose(t, 0, 1), tt_select(t, 1, 2),
                               tt_expand(tt_select(t, 0, 1), TT_SHAPE(2, 4)) };

        for (int i = 0; i < 3; i++) {
            tt_value *v = there_and_back(tt_value_tensor_new(views[i]));

            TT_CHECK(tt_tensor_is_contiguous(tt_value_as_tensor(v), TT_FORMAT_CONTIGUOUS));
            tt_value_free(v);
        }
    }
}

TT_TEST(cbor, leaves_the_graph_behind)
{
    TT_SCOPE {
        tt_tensor *t = tt_ones(TT_SHAPE(2, 2), TT_F32, TT_CPU);
        tt_value *v;

        TT_CHECK_OK(tt_set_requires_grad(t, true));
        v = there_and_back(tt_value_tensor_new(tt_transpose(tt_mul_scalar(t, 2), 0, 1)));
        TT_CHECK(!tt_requires_grad(tt_value_as_tensor(v)));
        tt_value_free(v);
    }
}

static tt_tensor *sparse_sample(bool coalesced)
{
    const int64_t at[] = { 0, 2, 2, 1, 0, 3 }, sorted[] = { 0, 0, 2, 1, 2, 0 };
    tt_tensor *indices = tt_from_data(coalesced ? sorted : at, TT_SHAPE(2, 3), TT_I64);
    tt_tensor *values = tt_reshape(TT_FLOATS(1, 2, 3, 4, 5, 6), TT_SHAPE(3, 2));

    return tt_sparse_coo_unchecked(indices, values, TT_SHAPE(3, 4, 2), coalesced);
}

TT_TEST(cbor, carries_sparse_tensors)
{
    for (int c = 0; c < 2; c++)
        TT_SCOPE {
            tt_tensor *t = sparse_sample(c != 0), *got;
            tt_value *v = tt_value_tensor_new(t);
            void *data;
            size_t n;

            TT_REQUIRE_OK(tt_value_encode(v, &data, &n));
            tt_value_free(v);
            v = tt_value_decode(data, n);
            tt_bytes_free(data);
            TT_REQUIRE_NOT_NULL(v);
            got = tt_value_as_tensor(v);
            TT_CHECK_EQ(tt_sparse_is_coalesced(got), c != 0);
            TT_CHECK(tt_equal(tt_sparse_indices(got), tt_sparse_indices(t)));
            TT_CHECK(tt_equal(tt_sparse_values(got), tt_sparse_values(t)));
            TT_CHECK(tt_equal(tt_to_dense(got), tt_to_dense(t)));
            tt_value_free(v);
        }
}

/* ---- what cannot be sent ------------------------------------------------------------------------ */

static const tt_opaque_class ticket = { .type_name = "Ticket" };

TT_TEST(cbor, says_where_the_opaque_value_is)
{
    tt_value *list = tt_value_list_new(), *map = tt_value_map_new(), *lone;
    void *data = &data;
    size_t n = 1;

    (void)tt_value_list_give(list, tt_value_int_new(1));
    (void)tt_value_list_give(list, tt_value_int_new(2));
    (void)tt_value_map_give(map, "field", tt_value_opaque_new(&ticket, &n));
    (void)tt_value_list_give(list, map);
    TT_CHECK_ERR_SAYS(tt_value_encode(list, &data, &n), TT_ERR_FORMAT, "list[2].field");
    TT_CHECK_CONTAINS(tt_last_error(), "Ticket");
    TT_CHECK_NULL(data);
    TT_CHECK_EQ(n, 0);
    tt_value_free(list);
    lone = tt_value_opaque_new(&ticket, &n);
    TT_CHECK_ERR_SAYS(tt_value_encode(lone, &data, &n), TT_ERR_FORMAT, "the value");
    tt_value_free(lone);
}

TT_TEST(cbor, refuses_texts_that_are_not_utf8)
{
    static const char *const texts[] = { "\xff",         "\xc0\x80",         "a\xe4",
                                         "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x28\xa1" };
    tt_value *v;
    void *data;
    size_t n;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        v = tt_value_text_new(texts[i]);
        TT_CHECK_ERR_SAYS(tt_value_encode(v, &data, &n), TT_ERR_FORMAT, "UTF-8");
        tt_value_free(v);
        v = tt_value_map_new();
        (void)tt_value_map_give(v, texts[i], tt_value_null_new());
        TT_CHECK_ERR_SAYS(tt_value_encode(v, &data, &n), TT_ERR_FORMAT, "UTF-8");
        tt_value_free(v);
        v = tt_value_record_new(texts[i]);
        TT_CHECK_ERR_SAYS(tt_value_encode(v, &data, &n), TT_ERR_FORMAT, "UTF-8");
        tt_value_free(v);
    }
}

static tt_value *nested(int depth)
{
    tt_value *v = tt_value_list_new();

    for (int i = 1; i < depth; i++) {
        tt_value *outer = tt_value_list_new();

        (void)tt_value_list_give(outer, v);
        v = outer;
    }
    return v;
}

TT_TEST(cbor, goes_512_deep_and_no_further)
{
    tt_value *v = nested(513);
    char bytes[514];
    void *data;
    size_t n;

    tt_value_free(there_and_back(nested(512)));
    TT_CHECK_ERR_SAYS(tt_value_encode(v, &data, &n), TT_ERR_FORMAT, "512 deep");
    tt_value_free(v);
    memset(bytes, 0x81, sizeof bytes);
    bytes[512] = (char)0x80;
    check_refused(bytes, 513, "512 deep");
}

/* ---- bytes that are no value --------------------------------------------------------------------- */

TT_TEST(cbor, refuses_bytes_that_are_no_value)
{
    CHECK_REFUSED("", "at byte 0 of 0: expected an item");
    CHECK_REFUSED("\x18", "cut off");
    CHECK_REFUSED("\x82\x01", "at byte 0 of 2: a container has more entries");
    CHECK_REFUSED("\x82\x01\x19", "at byte 2 of 3: the item is cut off");
    CHECK_REFUSED("\x1c", "reserved");
    CHECK_REFUSED("\x9f\x01\xff", "indefinite");
    CHECK_REFUSED("\x01\x02", "at byte 1 of 2: bytes follow");
    CHECK_REFUSED("\x1b\x80\x00\x00\x00\x00\x00\x00\x00", "64 bits");
    CHECK_REFUSED("\x3b\x80\x00\x00\x00\x00\x00\x00\x00", "64 bits");
    CHECK_REFUSED("\x61\xff", "UTF-8");
    CHECK_REFUSED("\x61\x00", "NUL");
    CHECK_REFUSED("\x65"
                  "abc",
                  "longer than what is left");
    CHECK_REFUSED("\x5b\xff\xff\xff\xff\xff\xff\xff\xff", "longer than what is left");
    CHECK_REFUSED("\x9b\xff\xff\xff\xff\xff\xff\xff\xff\x01", "more entries");
    CHECK_REFUSED("\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x61\x61\x01", "more entries");
    CHECK_REFUSED("\xa1\x01\x02", "expected a name");
    CHECK_REFUSED("\xa2\x61\x61\x01\x61\x61\x02",
                  "at byte 0 of 7: a map with a name that occurs twice");
    CHECK_REFUSED("\xf7", "simple value");
    CHECK_REFUSED("\xc1\x01", "tag that is not known");
    CHECK_REFUSED("\xda\x54\x54\x00\x01\x01", "expected a tuple's array");
    CHECK_REFUSED("\xda\x54\x54\x00\x02\x82\x61\x50\x80", "expected a record's map");
    CHECK_REFUSED("\xda\x54\x54\x00\x02\x81\x61\x50", "another length");
}

#define TENSOR "\xda\x54\x54\x00\x03\x84"
#define SPARSE "\xda\x54\x54\x00\x04\x85"
#define F32 \
    "\x67"  \
    "float32"
#define I64 \
    "\x65"  \
    "int64"
#define CPU \
    "\x63"  \
    "cpu"

TT_TEST(cbor, refuses_tensors_that_do_not_fit_their_bytes)
{
    CHECK_REFUSED(TENSOR "\x67"
                         "float33" CPU "\x80\x44"
                         "abcd",
                  "unknown element type");
    CHECK_REFUSED(TENSOR F32 "\x01\x80\x44"
                             "abcd",
                  "expected a device");
    CHECK_REFUSED(TENSOR F32 CPU "\x80\x43"
                                 "abc",
                  "not what its shape needs");
    CHECK_REFUSED(TENSOR F32 CPU "\x81\x20\x40", "expected a dimension");
    CHECK_REFUSED(TENSOR F32 CPU "\x89\x01\x01\x01\x01\x01\x01\x01\x01\x01\x44"
                                 "abcd",
                  "more than 8 dimensions");
    CHECK_REFUSED(TENSOR F32 CPU "\x82\x1b\x40\x00\x00\x00\x00\x00\x00\x00\x02\x40", "too large");
    CHECK_REFUSED(TENSOR F32 CPU "\x82\x00\x1b\xff\xff\xff\xff\xff\xff\xff\xff\x40", "too large");
    CHECK_REFUSED(TENSOR F32 CPU "\x81\x1b\x40\x00\x00\x00\x00\x00\x00\x00\x40",
                  "not what its shape needs");
    CHECK_REFUSED(TENSOR "\x64"
                         "bool" CPU "\x81\x01\x41\x02",
                  "neither 0 nor 1");
}

/* One index `a` (two: and `b`) of a vector of 4. */
static void check_sparse(char flag, char a, char b, const char *words)
{
    char bytes[] = SPARSE CPU "\x81\x04?" TENSOR I64 CPU "\x82\x01\x02\x50"
                              "a\0\0\0\0\0\0\0b\0\0\0\0\0\0\0" TENSOR F32 CPU "\x81\x02\x48"
                              "\0\0\x80\x3f\0\0\x80\x3f";
    size_t n = sizeof bytes - 1;
    tt_value *v;

    for (size_t i = 0; i + 1 < n; i++) {
        if (bytes[i] == '?')
            bytes[i] = flag;
        if ((bytes[i] == 'a' || bytes[i] == 'b') && bytes[i + 1] == '\0')
            bytes[i] = bytes[i] == 'a' ? a : b;
    }
    if (words != NULL) {
        check_refused(bytes, n, words);
        return;
    }
    v = tt_value_decode(bytes, n);
    TT_CHECK_NOT_NULL(v);
    tt_value_free(v);
}

TT_TEST(cbor, refuses_sparse_tensors_that_lie)
{
    check_sparse('\xf4', 1, 3, NULL);
    check_sparse('\xf5', 1, 3, NULL);
    check_sparse('\xf4', 3, 1, NULL);
    check_sparse('\xf4', 1, 1, NULL);
    check_sparse('\xf5', 3, 1, "says it is sorted");
    check_sparse('\xf5', 1, 1, "says it is sorted");
    check_sparse('\xf4', 1, 4, "do not fit");
    check_sparse('\xf4', 1, '\x80', "do not fit");
    check_sparse('\xf6', 1, 3, "true or false");
}

/* Every cut and many changed bytes of a good encoding: an error or a value, never more. */
TT_TEST(cbor, survives_cuts_and_flips)
{
    uint64_t seed = tt_test_seed();
    tt_value *v = sample(), *w;
    unsigned char *copy;
    void *data;
    size_t n;

    TT_SCOPE {
        (void)tt_value_map_give(v, "t",
                                tt_value_tensor_new(tt_ones(TT_SHAPE(2, 3), TT_F16, TT_CPU)));
        (void)tt_value_map_give(v, "s", tt_value_tensor_new(sparse_sample(true)));
    }
    TT_REQUIRE_OK(tt_value_encode(v, &data, &n));
    tt_value_free(v);
    for (size_t cut = 0; cut < n; cut++)
        check_refused(data, cut, "value decode: at byte");
    copy = data;
    for (int round = 0; round < 20000; round++) {
        size_t at = (size_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % n;
        unsigned char old = copy[at];

        copy[at] = (unsigned char)(seed >> 20);
        w = tt_value_decode(copy, n);
        if (w == NULL)
            TT_REQUIRE_EQ(tt_last_status(), TT_ERR_FORMAT);
        tt_value_free(w);
        copy[at] = old;
    }
    tt_bytes_free(data);
}

/* A map with many names takes no quadratic time. */
TT_TEST_LIMIT(cbor, reads_large_maps_quickly, 20)
{
    enum { N = 200000 };
    unsigned char *bytes = malloc(5 + 6 * (size_t)N), *p = bytes;
    tt_value *v;

    *p++ = 0xba;
    for (int shift = 24; shift >= 0; shift -= 8)
        *p++ = (unsigned char)(N >> shift);
    for (unsigned i = 0; i < N; i++) {
        *p++ = 0x64;
        for (int d = 0; d < 4; d++)
            *p++ = (unsigned char)('0' + (i >> (5 * d)) % 32);
        *p++ = 0xf6;
    }
    v = tt_value_decode(bytes, (size_t)(p - bytes));
    TT_CHECK_EQ(tt_value_count(v), N);
    tt_value_free(v);
    free(bytes);
}

/* ---- out of memory --------------------------------------------------------------------------------- */

static tt_status round_trip(void *ctx)
{
    void *data;
    size_t n;
    tt_value *w;

    TT_TRY(tt_value_encode(ctx, &data, &n));
    w = tt_value_decode(data, n);
    tt_bytes_free(data);
    if (w == NULL)
        return tt_last_status();
    tt_value_free(w);
    return TT_OK;
}

TT_TEST(cbor, survives_every_failed_allocation)
{
    tt_value *v = sample();

    TT_SCOPE {
        tt_tensor *t = tt_ones(TT_SHAPE(2, 3), TT_F64, TT_CPU);

        (void)tt_value_map_give(v, "t", tt_value_tensor_new(tt_transpose(t, 0, 1)));
        (void)tt_value_map_give(v, "s", tt_value_tensor_new(sparse_sample(true)));
    }
    TT_CHECK_GT(tt_test_fail_allocs(round_trip, v), 20);
    tt_value_free(v);
}

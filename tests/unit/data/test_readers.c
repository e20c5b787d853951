/* SPDX-License-Identifier: Apache-2.0 */
/* CSV, IDX and token files: values, messages, and files that are damaged on purpose. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "data/number.h"
#include "tutti/checkpoint.h"
#include "tutti/data.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

static const char *file_with(const char *name, const void *data, size_t size, bool zip)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", tt_test_tmpdir(), name);
    if (zip) {
        gzFile f = gzopen(path, "wb");

        TT_REQUIRE_EQ(gzwrite(f, data, (unsigned)size), size);
        gzclose(f);
    } else {
        FILE *f = fopen(path, "wb");

        TT_REQUIRE_EQ(fwrite(data, 1, size, f), size);
        fclose(f);
    }
    return path;
}

static tt_tensor *csv(const char *text, const tt_csv_options *o)
{
    return tt_csv_parse(text, strlen(text), o);
}

static float f32_at(tt_tensor *t, int i)
{
    return ((float *)tt_tensor_data(t))[i];
}

/* ---- numbers --------------------------------------------------------------------------------------- */

static void parses_as_strtod(const char *text)
{
    double d = -1, want = strtod(text, NULL);
    float f = -1, want_f = strtof(text, NULL);
    const char *end = text + strlen(text);

    TT_CHECK(tti_parse_f64(text, end, &d));
    TT_CHECK(tti_parse_f32(text, end, &f));
    if (memcmp(&d, &want, sizeof d) != 0 || memcmp(&f, &want_f, sizeof f) != 0)
        TT_FAIL_TEST("\"%s\": %.17g (%.9g) instead of %.17g (%.9g)", text, d, (double)f, want,
                     (double)want_f);
}

TT_TEST(data, numbers_are_rounded_correctly)
{
    static const char *const hard[] = {
        "0",
        "-0",
        "1",
        "+1.5",
        ".5",
        "5.",
        "1e5",
        "1E-5",
        "123456789012345678901234567890",
        "9007199254740993",
        "1.7976931348623157e308",
        "1e309",
        "-1e400",
        "4.9e-324",
        "1e-400",
        "2.2250738585072011e-308",
        "16777217",
        "16777219",
        "1.00000017881393432617187499",
        "1.00000017881393432617187500",
        "1.1754943e-38",
        "1e-45",
        "7e-46",
        "3.4028236e38",
        "0.1",
        "0.3",
        "1e23",
        "8.5e22",
        "33554435.0",
        "33554433",
        "0.00000000000000000000000001",
        "179769313486231580793728971405301",
        "100000000000000000000000000000000000000000e-41",
    };
    unsigned seed = (unsigned)tt_test_seed();
    char text[64];

    for (size_t i = 0; i < sizeof hard / sizeof hard[0]; i++)
        parses_as_strtod(hard[i]);
    for (int i = 0; i < 200000 && tt_test_failures() == 0; i++) {
        int digits = 1 + rand_r(&seed) % 19, n = 0;

        for (int k = 0; k < digits; k++) {
            text[n++] = (char)('0' + rand_r(&seed) % 10);
            if (k == digits / 2)
                text[n++] = '.';
        }
        snprintf(text + n, sizeof text - (size_t)n, "e%d", rand_r(&seed) % 90 - 50);
        parses_as_strtod(text);
    }
    /* Next to the middle of two floats, so near that the double is the middle. */
    for (int i = 0; i < 20000 && tt_test_failures() == 0; i++) {
        float low = 0.5f + 0.4f * (float)rand_r(&seed) / (float)RAND_MAX;

        snprintf(text, sizeof text, "%.16f", ((double)low + (double)nextafterf(low, 1)) / 2);
        parses_as_strtod(text);
    }
}

TT_TEST(data, what_is_no_number_is_refused)
{
    static const char *const wrong[] = { "",    "-",       ".",    "e5",     "1e",
                                         "1e+", "1x",      "0x10", "1.2.3",  "--1",
                                         "na",  "infinit", "1 2",  "nan(1)", "1e5.0" };
    double d;
    float f;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        TT_CHECK(!tti_parse_f64(wrong[i], wrong[i] + strlen(wrong[i]), &d));
        TT_CHECK(!tti_parse_f32(wrong[i], wrong[i] + strlen(wrong[i]), &f));
    }
    TT_CHECK(tti_parse_f64("-inf", &"-inf"[4], &d) && d == -INFINITY);
    TT_CHECK(tti_parse_f32("NaN", &"NaN"[3], &f) && isnan(f));
}

/* ---- csv ------------------------------------------------------------------------------------------- */

TT_TEST(data, csv_gives_rows_and_columns)
{
    TT_SCOPE {
        tt_tensor *t =
            csv("a,b,c\n1,2.5, -3 \r\n\n4e2,\"5\",6", &(tt_csv_options){ .header = true });
        tt_tensor *d = csv("1;2;3\n4;5;6\n7;8;9\n", &(tt_csv_options){ .delimiter = ';',
                                                                       .dtype = TT_F64,
                                                                       .columns = (int[]){ 2, 0 },
                                                                       .n_columns = 2,
                                                                       .max_rows = 2 });

        TT_REQUIRE_NOT_NULL(t);
        TT_CHECK_EQ(tt_tensor_size(t, 0), 2);
        TT_CHECK_EQ(tt_tensor_size(t, 1), 3);
        TT_CHECK_NEAR(f32_at(t, 1), 2.5, 0);
        TT_CHECK_NEAR(f32_at(t, 2), -3, 0);
        TT_CHECK_NEAR(f32_at(t, 3), 400, 0);
        TT_CHECK_NEAR(f32_at(t, 4), 5, 0);
        TT_REQUIRE_NOT_NULL(d);
        TT_CHECK_EQ(tt_tensor_numel(d), 4);
        TT_CHECK_NEAR(((double *)tt_tensor_data(d))[0], 3, 0);
        TT_CHECK_NEAR(((double *)tt_tensor_data(d))[3], 4, 0);
    }
}

TT_TEST(data, csv_names_the_cell_that_is_wrong)
{
    TT_SCOPE {
        TT_CHECK_NULL(csv("1,2\n\n3,x4\n", NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "line 3, column 2: expected a number, got \"x4\"");
        TT_CHECK_EQ(tt_last_status(), TT_ERR_FORMAT);
        TT_CHECK_NULL(csv("1,2\n3\n", NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "line 2: expected 2 columns, got 1");
        TT_CHECK_NULL(csv("1,2\n3,4,5\n", NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "line 2: expected 2 columns, got 3");
        TT_CHECK_NULL(csv("1,,3\n", NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "column 2");
        TT_CHECK_NULL(csv("  \n \n", NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "at least one line");
        TT_CHECK_NULL(csv("1,2\n", &(tt_csv_options){ .columns = (int[]){ 2 }, .n_columns = 1 }));
        TT_CHECK_CONTAINS(tt_last_error(), "columns below 2, got 2");
        TT_CHECK_NULL(csv("1", &(tt_csv_options){ .dtype = TT_I64 }));
        TT_CHECK_NULL(tt_csv_read("no/such/file.csv", NULL));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_NOT_FOUND);
        /* columns that are not asked for may hold anything, delimiters in quotes too */
        TT_CHECK_NOT_NULL(csv("\"a, \"\"b\"\"\",2\n\"c\",4\n",
                              &(tt_csv_options){ .columns = (int[]){ 1 }, .n_columns = 1 }));
    }
}

TT_TEST(data, csv_reads_compressed_files_and_notices_cut_ones)
{
    const char *text = "1,2\n3,4\n";

    TT_SCOPE {
        tt_tensor *t = tt_csv_read(file_with("a.csv", text, strlen(text), false), NULL);
        tt_tensor *z = tt_csv_read(file_with("a.csv.gz", text, strlen(text), true), NULL);
        char bytes[200];
        FILE *f = fopen(file_with("b.csv.gz", text, strlen(text), true), "rb");
        size_t n = fread(bytes, 1, sizeof bytes, f);

        fclose(f);
        TT_REQUIRE_NOT_NULL(t);
        TT_REQUIRE_NOT_NULL(z);
        TT_CHECK_NEAR(f32_at(z, 3), 4, 0);
        TT_CHECK_NEAR(f32_at(t, 2), 3, 0);
        TT_CHECK_NULL(tt_csv_read(file_with("cut.csv.gz", bytes, n - 6, false), NULL));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_FORMAT);
        bytes[n / 2] ^= 0x55;
        TT_CHECK_NULL(tt_csv_read(file_with("bad.csv.gz", bytes, n, false), NULL));
    }
}

TT_TEST(data, csv_reads_the_digits_of_the_examples)
{
    TT_SCOPE {
        tt_tensor *t = tt_csv_read(TT_TESTS_DIR "/../examples/data/digits.csv.gz", NULL);
        double sum = 0;

        TT_REQUIRE_NOT_NULL(t);
        TT_CHECK_EQ(tt_tensor_size(t, 0), 1797);
        TT_CHECK_EQ(tt_tensor_size(t, 1), 65);
        for (int i = 0; i < 1797; i++)
            sum += f32_at(t, i * 65 + 64);
        TT_CHECK_NEAR(
            sum,
            182 + 2 * 177 + 3 * 183 + 4 * 181 + 5 * 182 + 6 * 181 + 7 * 179 + 8 * 174 + 9 * 180, 0);
    }
}

/* ---- idx ------------------------------------------------------------------------------------------- */

static const unsigned char bytes_2x3[] = { 0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255 };
static const unsigned char ints_2[] = { 0, 0, 0x0C, 1, 0, 0, 0, 2, 0, 0, 1, 2, 255, 255, 255, 254 };
static const unsigned char floats_1[] = { 0, 0, 0x0D, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0 };

TT_TEST(data, idx_files_say_what_they_hold)
{
    TT_SCOPE {
        tt_tensor *a = tt_idx_parse(bytes_2x3, sizeof bytes_2x3);
        tt_tensor *b = tt_idx_parse(ints_2, sizeof ints_2);
        tt_tensor *c = tt_idx_parse(floats_1, sizeof floats_1);
        tt_tensor *z = tt_idx_read(file_with("a.idx.gz", bytes_2x3, sizeof bytes_2x3, true));

        TT_REQUIRE_NOT_NULL(a);
        TT_CHECK_EQ(tt_tensor_dtype(a), TT_U8);
        TT_CHECK_EQ(tt_tensor_size(a, 1), 3);
        TT_CHECK_EQ(((uint8_t *)tt_tensor_data(a))[5], 255);
        TT_REQUIRE_NOT_NULL(b);
        TT_CHECK_EQ(((int32_t *)tt_tensor_data(b))[0], 258);
        TT_CHECK_EQ(((int32_t *)tt_tensor_data(b))[1], -2);
        TT_REQUIRE_NOT_NULL(c);
        TT_CHECK_NEAR(f32_at(c, 0), 1.5, 0);
        TT_REQUIRE_NOT_NULL(z);
        TT_CHECK_MEM(tt_tensor_data(z), tt_tensor_data(a), 6);
        TT_CHECK_NULL(tt_idx_parse(bytes_2x3, sizeof bytes_2x3 - 1));
        TT_CHECK_CONTAINS(tt_last_error(), "[2, 3] of uint8, got 5 bytes");
        TT_CHECK_NULL(tt_idx_parse("\0\0\x07\x01", 4));
        TT_CHECK_CONTAINS(tt_last_error(), "type 0x07");
    }
}

/* ---- damage ---------------------------------------------------------------------------------------- */

/* Some bytes changed, cut or repeated; the copy is exactly as long as it says, for the sanitizers. */
static unsigned char *damaged(const unsigned char *data, size_t n, unsigned *seed, size_t *n_p)
{
    size_t m = rand_r(seed) % 4 == 0 ? (size_t)rand_r(seed) % (n + 1) : n;
    unsigned char *copy = malloc(m != 0 ? m : 1);

    memcpy(copy, data, m);
    for (int k = rand_r(seed) % 4; k > 0 && m > 0; k--)
        copy[(size_t)rand_r(seed) % m] = (unsigned char)rand_r(seed);
    if (rand_r(seed) % 3 == 0 && m > 12) /* aim at the header */
        copy[2 + rand_r(seed) % 10] = (unsigned char)rand_r(seed);
    *n_p = m;
    return copy;
}

/* A small file may unpack to gigabytes: reading stops where the header says that it should end. */
TT_TEST(data, idx_files_are_read_no_further_than_they_claim)
{
    static unsigned char big[3 << 20] = { 0, 0, 8, 1, 0, 0, 0, 4 };

    TT_SCOPE {
        TT_CHECK_NULL(tt_idx_read(file_with("big.idx.gz", big, sizeof big, true)));
        TT_CHECK_CONTAINS(tt_last_error(), "more than the 40 bytes that its header claims");
        big[5] = 0x2f; /* 0x2ffff8 elements: all of it */
        big[6] = 0xff;
        big[7] = 0xf8;
        TT_CHECK_NOT_NULL(tt_idx_read(file_with("whole.idx.gz", big, sizeof big, true)));
    }
}

TT_TEST(data, files_that_are_not_regular_are_refused_at_once)
{
    char path[512];

    snprintf(path, sizeof path, "%s/fifo", tt_test_tmpdir());
    TT_REQUIRE_EQ(mkfifo(path, 0600), 0);
    TT_CHECK_NULL(tt_csv_read(path, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "not a regular file");
    TT_CHECK_NULL(tt_idx_read(path));
    TT_CHECK_NULL(tt_npy_load(path));
    TT_CHECK_CONTAINS(tt_last_error(), "not a regular file");
    TT_CHECK_NULL(tt_value_load(path, NULL));
    TT_CHECK_NULL(tt_token_dataset_open(path, 4, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "not a regular file");
    TT_CHECK_NULL(tt_csv_read(tt_test_tmpdir(), NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_IO);
}

TT_TEST(data, damaged_files_are_errors_not_crashes)
{
    static const char table[] = "1,2.5,-3e4\n4,\"5\",6\n7,8,nan\n0.1,1e-400,12345678901234567890\n";
    unsigned seed = (unsigned)tt_test_seed();
    int refused = 0;

    for (int i = 0; i < 20000; i++) {
        const unsigned char *sources[] = { bytes_2x3, ints_2, floats_1, (const void *)table };
        const size_t sizes[] = { sizeof bytes_2x3, sizeof ints_2, sizeof floats_1,
                                 sizeof table - 1 };
        size_t n;
        unsigned char *copy = damaged(sources[i % 4], sizes[i % 4], &seed, &n);

        TT_SCOPE {
            tt_tensor *t;

            tt_clear_error();
            t = i % 4 == 3 ? tt_csv_parse((char *)copy, n, NULL) : tt_idx_parse(copy, n);
            if (t == NULL) {
                TT_CHECK_NE(tt_last_status(), TT_OK);
                refused++;
            } else {
                TT_CHECK_LE(tt_tensor_numel(t), 100);
            }
        }
        free(copy);
    }
    TT_CHECK_GT(refused, 1000);
}

/* ---- tokens ---------------------------------------------------------------------------------------- */

TT_TEST(data, token_windows_predict_the_next_token)
{
    uint16_t tokens[12];
    const char *path;
    tt_dataset *ds;
    tt_loader *l;

    for (int i = 0; i < 12; i++)
        tokens[i] = (uint16_t)(60000 + i);
    path = file_with("t.bin", tokens, sizeof tokens, false);
    ds = tt_token_dataset_open(path, 4, &(tt_token_options){ .skip_bytes = 4 });
    TT_REQUIRE_NOT_NULL(ds);
    TT_CHECK_EQ(tt_dataset_length(ds), 2); /* 2..5 and 6..9; 10, 11 are too few */
    l = tt_loader_new(ds, &(tt_loader_options){ .batch_size = 2 });
    TT_SCOPE {
        tt_batch b = tt_loader_next(l);
        tt_tensor *one[2];

        TT_REQUIRE_NOT_NULL(b.x);
        TT_CHECK_EQ(((int64_t *)tt_tensor_data(b.x))[0], 60002);
        TT_CHECK_EQ(((int64_t *)tt_tensor_data(b.x))[7], 60009);
        TT_CHECK_EQ(((int64_t *)tt_tensor_data(b.y))[7], 60010);
        TT_REQUIRE_OK(tt_dataset_get(ds, (tt_sample_at){ .index = 1 }, one));
        TT_CHECK_EQ(((int64_t *)tt_tensor_data(one[1]))[0], 60007);
    }
    tt_loader_free(l);
    tt_dataset_free(ds);

    ds = tt_token_dataset_open(path, 4, &(tt_token_options){ .stride = 1 });
    TT_CHECK_EQ(tt_dataset_length(ds), 8);
    tt_dataset_free(ds);
    ds = tt_token_dataset_open(path, 3, &(tt_token_options){ .bits = 32, .n_windows = 50 });
    l = tt_loader_new(ds, &(tt_loader_options){ .batch_size = 50 });
    TT_SCOPE {
        tt_batch b = tt_loader_next(l);
        int64_t first = ((int64_t *)tt_tensor_data(b.x))[0];
        int others = 0;

        for (int i = 0; i < 50; i++) {
            int64_t x = ((int64_t *)tt_tensor_data(b.x))[3 * i];

            TT_CHECK_EQ(x % 65536 % 2, 60000 % 2);
            others += x != first;
        }
        TT_CHECK_GT(others, 5);
    }
    tt_loader_free(l);
    tt_dataset_free(ds);
}

TT_TEST(data, token_files_that_do_not_fit_are_refused)
{
    const char *path = file_with("odd.bin", "abcde", 5, false);

    TT_CHECK_NULL(tt_token_dataset_open(path, 1, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "5 bytes are no whole number of 16-bit tokens");
    TT_CHECK_NULL(tt_token_dataset_open(path, 2, &(tt_token_options){ .skip_bytes = 1 }));
    TT_CHECK_CONTAINS(tt_last_error(), "more than 2 tokens for one window, got 2");
    TT_CHECK_NULL(tt_token_dataset_open(path, 2, &(tt_token_options){ .skip_bytes = 5 }));
    TT_CHECK_NULL(tt_token_dataset_open(path, 2, &(tt_token_options){ .bits = 8 }));
    TT_CHECK_NULL(tt_token_dataset_open("no/such/file", 2, NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOT_FOUND);
    TT_CHECK_NULL(tt_token_dataset_open(tt_test_tmpdir(), 2, NULL));
    TT_CHECK_NULL(tt_token_dataset_open(file_with("none.bin", "", 0, false), 2, NULL));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 against the examples of its standard, fed in pieces of all sizes. */
#include <string.h>

#include "base/sha256.h"
#include "tutti/testing.h"

static void hash(const void *data, size_t bytes, size_t piece, char text[65])
{
    uint8_t sum[TTI_SHA256_BYTES];
    tti_sha256 h;

    tti_sha256_begin(&h);
    for (size_t at = 0; at < bytes; at += piece)
        tti_sha256_add(&h, (const char *)data + at, bytes - at < piece ? bytes - at : piece);
    tti_sha256_end(&h, sum);
    tti_sha256_text(sum, text);
}

TT_TEST(sha256, agrees_with_the_standard)
{
    static const struct {
        const char *data, *sum;
    } rows[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    char text[65];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t piece = 1; piece < 70; piece++) {
            hash(rows[i].data, strlen(rows[i].data), piece, text);
            TT_CHECK_STR(text, rows[i].sum);
        }
}

TT_TEST(sha256, a_million_times_a)
{
    static char data[1000000];
    char text[65];

    memset(data, 'a', sizeof data);
    hash(data, sizeof data, 1000, text);
    TT_CHECK_STR(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TT_TEST(sha256, every_length_is_its_own)
{
    char data[130] = { 0 }, all[130][65];

    for (size_t n = 0; n < sizeof data; n++) {
        char other[65];

        hash(data, n, 64, all[n]);
        hash(data, n, 7, other);
        TT_CHECK_STR(all[n], other);
        for (size_t m = 0; m < n; m++)
            TT_CHECK(strcmp(all[n], all[m]) != 0);
    }
}

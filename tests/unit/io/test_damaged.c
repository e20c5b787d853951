/* SPDX-License-Identifier: Apache-2.0 */
/* Good files with random damage: whatever happens to the bytes, reading gives an error or tensors whose
 * every element can be read. */
#include <stdlib.h>
#include <string.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

enum { ROUNDS = 4000, ROOM = 4096 };

typedef struct bytes {
    unsigned char data[ROOM];
    size_t n;
} bytes;

static uint64_t state;

static uint64_t random_number(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

static void load_file(const char *path, bytes *b)
{
    FILE *f = fopen(path, "rb");

    TT_REQUIRE_NOT_NULL(f);
    b->n = fread(b->data, 1, ROOM, f);
    fclose(f);
}

/* Change, remove, repeat or swap something. */
static void damage(bytes *b)
{
    static const char marks[] = "{}[]\",:0123456789-+eE.\\ '()<>|\0\xff";
    size_t at = (size_t)random_number(b->n), n;

    switch (random_number(6)) {
    case 0:
        b->data[at] = (unsigned char)random_number(256);
        break;
    case 1:
        b->data[at] = (unsigned char)marks[random_number(sizeof marks - 1)];
        break;
    case 2:
        b->n = at + 1;
        break;
    case 3:
        n = 1 + (size_t)random_number(8);
        n = n < b->n - at ? n : b->n - at - 1;
        memmove(b->data + at, b->data + at + n, b->n - at - n);
        b->n -= n;
        break;
    case 4:
        n = 1 + (size_t)random_number(16);
        if (b->n + n > ROOM || at + n > b->n)
            break;
        memmove(b->data + at + n, b->data + at, b->n - at);
        b->n += n;
        break;
    default:
        b->data[at] ^= (unsigned char)(1u << random_number(8));
        break;
    }
    b->n = b->n > 0 ? b->n : 1;
}

/* Reading from exactly as much memory as there is lets the sanitizers see a step too far. */
static unsigned char *exact_copy(const bytes *b)
{
    unsigned char *copy = malloc(b->n);

    TT_REQUIRE_NOT_NULL(copy);
    memcpy(copy, b->data, b->n);
    return copy;
}

static unsigned read_all(const tt_tensor *t)
{
    const unsigned char *p = t != NULL ? tt_tensor_data(t) : NULL;
    unsigned sum = 0;

    for (size_t i = 0; p != NULL && i < tt_tensor_bytes(t); i++)
        sum += p[i];
    return sum;
}

static bool try_safetensors(const unsigned char *data, size_t n)
{
    tt_safetensors *st = tt_safetensors_parse(data, n);
    volatile unsigned sum = 0;

    for (int i = 0; i < tt_safetensors_count(st); i++)
        TT_SCOPE {
            tt_safetensors_info info;

            TT_REQUIRE_OK(tt_safetensors_at(st, i, &info));
            sum += read_all(tt_safetensors_get(st, info.name));
        }
    tt_safetensors_free(st);
    return st != NULL;
}

static bool try_npy(const unsigned char *data, size_t n)
{
    bool good = false;
    volatile unsigned sum = 0;

    TT_SCOPE {
        tt_tensor *t = tt_npy_parse(data, n);

        good = t != NULL;
        sum += read_all(t);
    }
    return good;
}

static void run(const char *path, bool (*reads)(const unsigned char *data, size_t n))
{
    bytes whole, b;
    int good = 0;

    state = tt_test_seed();
    load_file(path, &whole);
    TT_REQUIRE(reads(whole.data, whole.n));
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char *copy;

        b = whole;
        for (uint64_t k = 1 + random_number(4); k > 0; k--)
            damage(&b);
        tt_clear_error();
        copy = exact_copy(&b);
        if (reads(copy, b.n))
            good++;
        else
            TT_REQUIRE_NE(tt_last_status(), TT_OK);
        free(copy);
    }
    TT_NOTE("seed %llu: %d of %d damaged files could still be read",
            (unsigned long long)tt_test_seed(), good, ROUNDS);
    TT_CHECK_LT(good, ROUNDS);
}

TT_TEST(damaged, safetensors_give_an_error_or_tensors)
{
    char path[512];

    snprintf(path, sizeof path, "%s/a.safetensors", tt_test_tmpdir());
    TT_SCOPE {
        tt_tensor *x = tt_arange(0, 24, 1, TT_F32, TT_CPU);
        tt_named_tensor all[] = { { "first", tt_reshape(x, TT_SHAPE(2, 3, 4)) },
                                  { "second", tt_to_dtype(x, TT_BF16) },
                                  { "third", tt_to_dtype(x, TT_I64) } };
        tt_text_pair words[] = { { "format", "pt" } };

        TT_REQUIRE_OK(tt_safetensors_save(path, all, 3, words, 1));
    }
    run(path, try_safetensors);
}

TT_TEST(damaged, npy_gives_an_error_or_a_tensor)
{
    char path[512];

    snprintf(path, sizeof path, "%s/a.npy", tt_test_tmpdir());
    TT_SCOPE {
        TT_REQUIRE_OK(
            tt_npy_save(path, tt_reshape(tt_arange(0, 24, 1, TT_F32, TT_CPU), TT_SHAPE(2, 12))));
    }
    run(path, try_npy);
}

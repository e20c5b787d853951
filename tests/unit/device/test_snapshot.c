/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of device memory as JSON and as the pickle of PyTorch's memory viewer, which is read back here by a
 * small reader of the opcodes that may occur. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "books.h"
#include "device/cache.h"
#include "fake_accel.h"
#include "tutti/nn.h"
#include "tutti/testing.h"

#define D fake_device(1)
#define S(nr) fake_stream(1, nr)

/* Small and large segments, two streams, used, pending and free blocks. */
static tt_memory_snapshot *example(void **blocks)
{
    fake_reset();
    blocks[0] = tti_cache_alloc(D, S(0), 1000);
    blocks[1] = tti_cache_alloc(D, S(0), 600);
    blocks[2] = tti_cache_alloc(D, S(1), 3 << 20);
    blocks[3] = tti_cache_alloc(D, S(0), 100);
    TT_REQUIRE_OK(tti_cache_record_stream(D, blocks[1], S(1)));
    fake_work(S(1));
    tti_cache_free(D, blocks[1], 600);
    return tti_cache_snapshot(D);
}

static void put_back(void **blocks)
{
    tti_cache_free(D, blocks[0], 1000);
    tti_cache_free(D, blocks[2], 3 << 20);
    tti_cache_free(D, blocks[3], 100);
    fake_pass(S(1));
}

TT_TEST(snapshot, has_segments_with_blocks)
{
    void *blocks[4];
    tt_memory_snapshot *s = example(blocks);
    const tt_memory_segment *g;

    TT_REQUIRE_NOT_NULL(s);
    books_check(s);
    TT_REQUIRE_EQ(s->n_segments, 2);
    g = &s->segments[0];
    TT_CHECK(!g->is_large && s->segments[1].is_large);
    TT_CHECK_EQ(g->stream, 0);
    TT_CHECK_NE(s->segments[1].stream, 0);
    TT_REQUIRE_EQ(g->n_blocks, 4);
    TT_CHECK_EQ(g->blocks[0].state, TT_BLOCK_ACTIVE);
    TT_CHECK_EQ(g->blocks[0].size, 1024);
    TT_CHECK_EQ(g->blocks[0].requested, 1000);
    TT_CHECK_EQ(g->blocks[1].state, TT_BLOCK_PENDING);
    TT_CHECK_EQ(g->blocks[3].state, TT_BLOCK_FREE);
    TT_CHECK_EQ(g->allocated_size, 1024 + 512);
    TT_CHECK_EQ(g->active_size, 1024 + 1024 + 512);
    TT_CHECK_EQ(g->requested_size, 1700);
    TT_CHECK_EQ(g->total_size, 2 << 20);
    tt_memory_snapshot_free(s);
    tt_memory_snapshot_free(NULL);
    put_back(blocks);
}

static double field(const cJSON *table, const char *name)
{
    const cJSON *f = cJSON_GetObjectItemCaseSensitive(table, name);

    TT_REQUIRE(cJSON_IsNumber(f));
    return f->valuedouble;
}

static const char *words(const cJSON *table, const char *name)
{
    const cJSON *f = cJSON_GetObjectItemCaseSensitive(table, name);

    TT_REQUIRE(cJSON_IsString(f));
    return f->valuestring;
}

static void check_segment(const cJSON *item, const tt_memory_segment *g)
{
    const cJSON *blocks = cJSON_GetObjectItemCaseSensitive(item, "blocks");
    static const char *const states[] = { "active_allocated", "active_pending_free", "inactive" };

    TT_CHECK_EQ((uint64_t)field(item, "device"), 1);
    TT_CHECK_EQ((uint64_t)field(item, "address"), g->address);
    TT_CHECK_EQ((uint64_t)field(item, "total_size"), g->total_size);
    TT_CHECK_EQ((uint64_t)field(item, "allocated_size"), g->allocated_size);
    TT_CHECK_EQ((uint64_t)field(item, "active_size"), g->active_size);
    TT_CHECK_EQ((uint64_t)field(item, "requested_size"), g->requested_size);
    TT_CHECK_EQ((uint64_t)field(item, "stream"), g->stream);
    TT_CHECK_STR(words(item, "segment_type"), g->is_large ? "large" : "small");
    TT_CHECK(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(item, "is_expandable")));
    TT_REQUIRE_EQ(cJSON_GetArraySize(blocks), g->n_blocks);
    for (size_t i = 0; i < g->n_blocks; i++) {
        const cJSON *b = cJSON_GetArrayItem(blocks, (int)i);

        TT_CHECK_EQ((uint64_t)field(b, "address"), g->blocks[i].address);
        TT_CHECK_EQ((uint64_t)field(b, "size"), g->blocks[i].size);
        TT_CHECK_EQ((uint64_t)field(b, "requested_size"), g->blocks[i].requested);
        TT_CHECK_STR(words(b, "state"), states[g->blocks[i].state]);
        TT_CHECK_EQ(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(b, "frames")), 0);
    }
}

static void check_whole(cJSON *root, const tt_memory_snapshot *s)
{
    const cJSON *segments = cJSON_GetObjectItemCaseSensitive(root, "segments");

    TT_REQUIRE_NOT_NULL(root);
    TT_REQUIRE_EQ(cJSON_GetArraySize(segments), s->n_segments);
    for (size_t i = 0; i < s->n_segments; i++)
        check_segment(cJSON_GetArrayItem(segments, (int)i), &s->segments[i]);
    TT_CHECK_EQ(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(root, "device_traces")), 2);
    cJSON_Delete(root);
}

TT_TEST(snapshot, is_written_as_json)
{
    void *blocks[4];
    tt_memory_snapshot *s = example(blocks);
    char *text = tt_memory_snapshot_json(s);

    TT_REQUIRE_NOT_NULL(text);
    check_whole(cJSON_Parse(text), s);
    tt_text_free(text);
    tt_memory_snapshot_free(s);
    put_back(blocks);
    TT_CHECK_NULL(tt_memory_snapshot_json(NULL));
}

/* ---- a reader of pickles, into cJSON -------------------------------------------------------------- */

typedef struct reader {
    const unsigned char *at, *end;
    cJSON *stack[256];
    int n, marks[64], n_marks;
} reader;

static uint64_t little(reader *r, int n)
{
    uint64_t v = 0;

    TT_REQUIRE_LE(n, r->end - r->at);
    for (int i = 0; i < n && i < 8; i++)
        v |= (uint64_t)r->at[i] << 8 * i;
    TT_REQUIRE(n <= 8 || r->at[8] == 0);
    r->at += n;
    return v;
}

static void push(reader *r, cJSON *v)
{
    TT_REQUIRE_LT(r->n, 256);
    r->stack[r->n++] = v;
}

static void push_string(reader *r)
{
    size_t n = little(r, 4);
    char *text = calloc(n + 1, 1);

    TT_REQUIRE_LE((ptrdiff_t)n, r->end - r->at);
    memcpy(text, r->at, n);
    r->at += n;
    push(r, cJSON_CreateString(text));
    free(text);
}

/* What lies above the last mark goes into the list or table below it. */
static void collect(reader *r, bool table)
{
    int from;
    cJSON *to;

    TT_REQUIRE_GT(r->n_marks, 0);
    from = r->marks[--r->n_marks];
    TT_REQUIRE_GT(from, 0);
    to = r->stack[from - 1];
    TT_REQUIRE(table ? cJSON_IsObject(to) : cJSON_IsArray(to));
    for (int i = from; i < r->n; i += table ? 2 : 1) {
        if (!table) {
            cJSON_AddItemToArray(to, r->stack[i]);
            continue;
        }
        cJSON_AddItemToObject(to, r->stack[i]->valuestring, r->stack[i + 1]);
        cJSON_Delete(r->stack[i]);
    }
    r->n = from;
}

static void pair(reader *r)
{
    cJSON *t = cJSON_CreateArray();

    TT_REQUIRE_GE(r->n, 2);
    cJSON_AddItemToArray(t, r->stack[r->n - 2]);
    cJSON_AddItemToArray(t, r->stack[r->n - 1]);
    r->n -= 2;
    push(r, t);
}

static cJSON *unpickle(const unsigned char *data, size_t n)
{
    reader r = { .at = data, .end = data + n };

    TT_REQUIRE(n > 2 && data[0] == 0x80 && data[1] == 2);
    for (r.at += 2; r.at < r.end;) {
        unsigned char op = *r.at++;

        switch (op) {
        case 'X':
            push_string(&r);
            break;
        case 'J':
            push(&r, cJSON_CreateNumber((double)little(&r, 4)));
            break;
        case 0x8a:
            push(&r, cJSON_CreateNumber((double)little(&r, (int)little(&r, 1))));
            break;
        case 0x88:
            push(&r, cJSON_CreateTrue());
            break;
        case 0x89:
            push(&r, cJSON_CreateFalse());
            break;
        case ']':
            push(&r, cJSON_CreateArray());
            break;
        case '}':
            push(&r, cJSON_CreateObject());
            break;
        case '(':
            TT_REQUIRE_LT(r.n_marks, 64);
            r.marks[r.n_marks++] = r.n;
            break;
        case 'e':
            collect(&r, false);
            break;
        case 'u':
            collect(&r, true);
            break;
        case 0x86:
            pair(&r);
            break;
        case '.':
            TT_REQUIRE(r.at == r.end && r.n == 1 && r.n_marks == 0);
            return r.stack[0];
        default:
            TT_FAIL_TEST("opcode 0x%x", op);
            return NULL;
        }
    }
    return NULL;
}

static unsigned char *read_file(const char *path, size_t *n_p)
{
    FILE *f = fopen(path, "rb");
    unsigned char *data = malloc(1 << 20);

    TT_REQUIRE_NOT_NULL(f);
    *n_p = fread(data, 1, 1 << 20, f);
    fclose(f);
    return data;
}

TT_TEST(snapshot, is_written_as_a_pickle)
{
    void *blocks[4];
    tt_memory_snapshot *s = example(blocks);
    unsigned char *data;
    char path[512];
    size_t n;

    snprintf(path, sizeof path, "%s/memory.pickle", tt_test_tmpdir());
    TT_REQUIRE_OK(tt_memory_snapshot_save(s, path));
    data = read_file(path, &n);
    check_whole(unpickle(data, n), s);
    free(data);
    snprintf(path, sizeof path, "%s/memory.json", tt_test_tmpdir());
    TT_REQUIRE_OK(tt_memory_snapshot_save(s, path));
    data = read_file(path, &n);
    data[n] = '\0';
    check_whole(cJSON_Parse((const char *)data), s);
    free(data);
    TT_CHECK_ERR_SAYS(tt_memory_snapshot_save(s, "/nowhere/at/all"), TT_ERR_NOT_FOUND,
                      "/nowhere/at/all");
    TT_CHECK_EQ(tt_memory_snapshot_save(NULL, path), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_memory_snapshot_save(s, NULL), TT_ERR_INVALID);
    tt_memory_snapshot_free(s);
    put_back(blocks);
}

/* Every allocation that taking and writing one needs may fail. */
TT_TEST(snapshot, fails_cleanly_without_memory)
{
    void *blocks[4];
    tt_memory_snapshot *s = example(blocks);
    int failed = 0;

    tt_memory_snapshot_free(s);
    for (uint64_t n = 1;; n++) {
        char *text = NULL;

        tt_debug_fail_alloc(n);
        s = tti_cache_snapshot(D);
        if (s != NULL)
            text = tt_memory_snapshot_json(s);
        tt_debug_fail_alloc(0);
        tt_memory_snapshot_free(s);
        failed += text == NULL;
        if (text != NULL) {
            tt_text_free(text);
            break;
        }
        TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
        TT_REQUIRE_LT(n, 100);
    }
    TT_CHECK_GE(failed, 2);
    put_back(blocks);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots as files: JSON, and the pickle that PyTorch's memory viewer reads. Both have the same
 * fields, the viewer's. The pickle is written with a handful of opcodes of protocol 2, which its reader knows. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "base/writer.h"
#include "device/cache.h"

static const char *const states[] = {
    [TT_BLOCK_ACTIVE] = "active_allocated",
    [TT_BLOCK_PENDING] = "active_pending_free",
    [TT_BLOCK_FREE] = "inactive",
};

/* A file format: how lists, tables and values are written. The text may have any bytes. */
typedef struct writer {
    char *data;
    size_t n, cap;
    tt_status status;
    bool pickle, first; /* first: no comma before the next item */
} writer;

static void put(writer *w, const void *bytes, size_t n)
{
    if (w->status == TT_OK)
        w->status = tti_vec_reserve((void **)&w->data, &w->cap, w->n + n, 1);
    if (w->status != TT_OK)
        return;
    memcpy(w->data + w->n, bytes, n);
    w->n += n;
}

static void put_text(writer *w, const char *text)
{
    put(w, text, strlen(text));
}

static void put_little(writer *w, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        put(w, &(unsigned char){ (unsigned char)(value >> 8 * i) }, 1);
}

/* ---- values ------------------------------------------------------------------------------------------ */

static void string(writer *w, const char *text)
{
    if (w->pickle) {
        put_text(w, "X"); /* BINUNICODE */
        put_little(w, strlen(text), 4);
        put_text(w, text);
        return;
    }
    put_text(w, "\"");
    put_text(w, text); /* our own words: nothing to escape */
    put_text(w, "\"");
}

static void number(writer *w, uint64_t n)
{
    char text[32];

    if (!w->pickle) {
        put(w, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)n));
    } else if (n <= INT32_MAX) {
        put_text(w, "J"); /* BININT */
        put_little(w, n, 4);
    } else { /* LONG1 of 8 bytes; with 9 the viewer would make it another type, which it cannot add */
        int size = n <= INT64_MAX ? 8 : 9;

        put_text(w, "\x8a");
        put_little(w, (uint64_t)size, 1);
        put_little(w, n, 8);
        put_little(w, 0, size - 8);
    }
}

static void boolean(writer *w, bool yes)
{
    if (w->pickle)
        put_text(w, yes ? "\x88" : "\x89");
    else
        put_text(w, yes ? "true" : "false");
}

static void item(writer *w)
{
    if (!w->pickle && !w->first)
        put_text(w, ",\n");
    w->first = false;
}

static void key(writer *w, const char *name)
{
    item(w);
    string(w, name);
    if (!w->pickle)
        put_text(w, ": ");
}

static void open_list(writer *w)
{
    put_text(w, w->pickle ? "](" : "["); /* EMPTY_LIST MARK */
    w->first = true;
}

static void close_list(writer *w)
{
    put_text(w, w->pickle ? "e" : "]"); /* APPENDS */
    w->first = false;
}

static void open_table(writer *w)
{
    put_text(w, w->pickle ? "}(" : "{"); /* EMPTY_DICT MARK */
    w->first = true;
}

static void close_table(writer *w)
{
    put_text(w, w->pickle ? "u" : "}"); /* SETITEMS */
    w->first = false;
}

static void key_number(writer *w, const char *name, uint64_t n)
{
    key(w, name);
    number(w, n);
}

static void key_string(writer *w, const char *name, const char *text)
{
    key(w, name);
    string(w, text);
}

static void key_empty_list(writer *w, const char *name)
{
    key(w, name);
    open_list(w);
    close_list(w);
}

/* ---- the snapshot ---------------------------------------------------------------------------------- */

static void block(writer *w, const tt_memory_block *b)
{
    item(w);
    open_table(w);
    key_number(w, "address", b->address);
    key_number(w, "size", b->size);
    key_number(w, "requested_size", b->requested);
    key_string(w, "state", states[b->state]);
    key_empty_list(w, "frames");
    close_table(w);
}

static void segment(writer *w, const tt_memory_segment *g)
{
    item(w);
    open_table(w);
    key_number(w, "device", (uint64_t)g->device.index);
    key_number(w, "address", g->address);
    key_number(w, "total_size", g->total_size);
    key_number(w, "allocated_size", g->allocated_size);
    key_number(w, "active_size", g->active_size);
    key_number(w, "requested_size", g->requested_size);
    key_number(w, "stream", g->stream);
    key_string(w, "segment_type", g->is_large ? "large" : "small");
    key(w, "segment_pool_id");
    if (w->pickle) {
        number(w, 0);
        number(w, 0);
        put_text(w, "\x86"); /* TUPLE2 */
    } else {
        put_text(w, "[0, 0]");
    }
    key(w, "is_expandable");
    boolean(w, g->is_expandable);
    key_empty_list(w, "frames");
    key(w, "blocks");
    open_list(w);
    for (size_t i = 0; i < g->n_blocks; i++)
        block(w, &g->blocks[i]);
    close_list(w);
    close_table(w);
}

static void whole(writer *w, const tt_memory_snapshot *s)
{
    int n_devices = 1;

    if (w->pickle)
        put_text(w, "\x80\x02"); /* PROTO 2 */
    open_table(w);
    key(w, "segments");
    open_list(w);
    for (size_t i = 0; i < s->n_segments; i++) {
        segment(w, &s->segments[i]);
        if (s->segments[i].device.index >= n_devices)
            n_devices = s->segments[i].device.index + 1;
    }
    close_list(w);
    key(w, "device_traces");
    open_list(w);
    for (int i = 0; i < n_devices; i++) {
        item(w);
        open_list(w);
        close_list(w);
    }
    close_list(w);
    close_table(w);
    put_text(w, w->pickle ? "." : "\n"); /* STOP */
}

char *tt_memory_snapshot_json(const tt_memory_snapshot *s)
{
    writer w = { 0 };

    if (s == NULL)
        return TT_NULL_GIVEN("memory_snapshot_json", "a snapshot");
    whole(&w, s);
    put(&w, "", 1);
    if (w.status == TT_OK)
        return w.data;
    tti_mfree(w.data);
    return NULL;
}

tt_status tt_memory_snapshot_save(const tt_memory_snapshot *s, const char *path)
{
    writer w = { 0 };
    tti_writer file;
    size_t n = path != NULL ? strlen(path) : 0;
    tt_status st;

    if (s == NULL || n == 0)
        return TT_FAIL(TT_ERR_INVALID,
                       "memory_snapshot_save: expected a snapshot and a path, got %s",
                       s == NULL ? "no snapshot" : "no path");
    w.pickle = n < 5 || strcmp(path + n - 5, ".json") != 0;
    whole(&w, s);
    tti_writer_open(&file, "memory_snapshot_save", path, 0);
    tti_writer_check(&file, w.status);
    tti_writer_put(&file, w.data, w.n);
    st = tti_writer_finish(&file);
    tti_mfree(w.data);
    return st;
}

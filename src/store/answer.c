/* SPDX-License-Identifier: Apache-2.0 */
/* One request: taken apart, carried out, answered. */
#include "base/error.h"
#include "store/answer.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "store/store.h"

static void die(tti_session *s, const char *complaint)
{
    s->state = TTI_SESSION_DEAD;
    s->complaint = complaint;
}

static void answer(tti_session *s, tti_buffer *b)
{
    if (tti_frame_end(b) != TT_OK) {
        tti_mfree(b->data);
        tti_frame_begin(b, (uint8_t)-TT_ERR_NOMEM);
        tti_put_sized(b, "store: the answer is too large", 30);
        if (tti_frame_end(b) != TT_OK) {
            tti_mfree(b->data);
            die(s, "no memory for an answer");
            return;
        }
    }
    s->send(s, b->data, b->n);
}

/* The status and, if it is a failure, the words of the last error. */
static void answer_status(tti_session *s, tt_status st)
{
    tti_buffer b;

    tti_frame_begin(&b, (uint8_t)-st);
    if (st != TT_OK)
        tti_put_sized(&b, tti_last_error(), strlen(tti_last_error()));
    answer(s, &b);
}

static void answer_number(tti_session *s, int64_t v)
{
    tti_buffer b;

    tti_frame_begin(&b, 0);
    tti_put64(&b, (uint64_t)v);
    answer(s, &b);
}

static void answer_values(tti_session *s, const char *const *keys, int n)
{
    tti_buffer b;

    tti_frame_begin(&b, 0);
    for (int i = 0; i < n; i++) {
        const tti_entry *e = tti_table_find(&s->hub->table, keys[i]);

        tti_put_sized(&b, e != NULL ? e->data : NULL, e != NULL ? e->size : 0);
    }
    answer(s, &b);
}

/* ---- taking apart ------------------------------------------------------------------------ */

/* A key as a text; `room` has TT_STORE_MAX_KEY + 1 bytes. */
static void read_key(tti_reader *in, char *room)
{
    uint32_t n = tti_read32(in);
    const uint8_t *p = n >= 1 && n <= TT_STORE_MAX_KEY ? tti_read_bytes(in, n) : NULL;

    room[0] = '\0';
    if (p == NULL || memchr(p, 0, n) != NULL) {
        in->bad = true;
        return;
    }
    memcpy(room, p, n);
    room[n] = '\0';
}

static const uint8_t *read_value(tti_reader *in, size_t *n_p)
{
    *n_p = tti_read32(in);
    if (*n_p > TT_STORE_MAX_VALUE)
        in->bad = true;
    return tti_read_bytes(in, *n_p);
}

/* n keys into one block of texts. The frame that holds them bounds their size. */
static bool read_keys(tti_reader *in, tti_request *r, int n)
{
    size_t used = 0;

    if (n < 1 || n > TTI_STORE_MAX_KEYS || (size_t)n * 5 > in->left) {
        in->bad = true;
        return true;
    }
    r->n = n;
    r->keys = tti_calloc((size_t)n, sizeof *r->keys);
    r->texts = tti_malloc(in->left + 1);
    if (r->keys == NULL || r->texts == NULL)
        return false;
    for (int i = 0; i < n; i++) {
        uint32_t size = tti_read32(in);
        const uint8_t *p = size >= 1 && size <= TT_STORE_MAX_KEY ? tti_read_bytes(in, size) : NULL;

        if (p == NULL || memchr(p, 0, size) != NULL) {
            in->bad = true;
            return true;
        }
        memcpy(r->texts + used, p, size);
        r->keys[i] = r->texts + used;
        used += size;
        r->texts[used++] = '\0'; /* takes the place of a byte of the length */
    }
    return true;
}

/* ---- requests that may wait ----------------------------------------------------------------- */

bool tti_answer_waiting(tti_hub *h, tti_request *r, bool over)
{
    tti_session *s = r->session;
    bool there;

    if (r->op == TTI_REQ_WAIT_CHANGE)
        there = tti_table_differs(&h->table, r->keys[0], r->seen, r->seen_size);
    else
        there = tti_table_has(&h->table, r->keys, r->n);
    if (there && r->op == TTI_REQ_WAIT)
        answer_status(s, TT_OK);
    else if (there)
        answer_values(s, r->keys, r->n);
    else if (over && r->op == TTI_REQ_WAIT_CHANGE)
        answer_status(s,
                      TT_FAIL(TT_ERR_TIMEOUT, "store: key \"%.200s\" did not change within %d ms",
                              r->keys[0], r->timeout_ms));
    else if (over)
        answer_status(s, tti_table_timeout(&h->table, r->keys, r->n, r->timeout_ms));
    else if (!tti_hub_park(h, r))
        answer_status(s, TT_ERR_NOMEM);
    else
        return false;
    return true;
}

static bool read_seen(tti_reader *in, tti_request *r)
{
    const uint8_t *has = tti_read_bytes(in, 1), *p = read_value(in, &r->seen_size);

    if (in->bad || *has == 0)
        return true;
    r->seen = tti_malloc(r->seen_size + 1);
    if (r->seen != NULL)
        memcpy(r->seen, p, r->seen_size);
    return r->seen != NULL;
}

static void handle_waiting(tti_session *s, tti_request_op op, tti_reader *in)
{
    tti_request *r = tti_calloc(1, sizeof *r);
    uint32_t limit = tti_read32(in);
    int n = op == TTI_REQ_WAIT_CHANGE ? 1 : (int)(tti_read32(in) & 0x7fffffff);
    bool memory = r != NULL && read_keys(in, r, n);

    if (memory && op == TTI_REQ_WAIT_CHANGE)
        memory = read_seen(in, r);
    if (!memory) {
        answer_status(s, TT_ERR_NOMEM);
    } else if (in->bad || in->left > 0 || limit > INT32_MAX) {
        die(s, "a request is not in the expected format");
    } else {
        r->session = s;
        r->op = op;
        r->timeout_ms = (int)limit;
        r->deadline = tti_deadline(limit);
        if (!tti_answer_waiting(s->hub, r, limit == 0))
            return;
    }
    if (r != NULL)
        tti_hub_forget(r);
}

static void handle_check(tti_session *s, tti_reader *in)
{
    tti_request *r = tti_calloc(1, sizeof *r);
    int n = (int)(tti_read32(in) & 0x7fffffff);

    if (r == NULL || !read_keys(in, r, n))
        answer_status(s, TT_ERR_NOMEM);
    else if (in->bad || in->left > 0)
        die(s, "a request is not in the expected format");
    else
        answer_number(s, tti_table_has(&s->hub->table, r->keys, r->n));
    if (r != NULL)
        tti_hub_forget(r);
}

/* ---- the others ------------------------------------------------------------------------------ */

static void handle_add(tti_session *s, const char *key, tti_reader *in)
{
    int64_t delta = (int64_t)tti_read64(in), sum = 0;
    char text[24];
    tt_status st;

    if (in->bad)
        return;
    st = tti_table_sum(&s->hub->table, key, delta, &sum);
    if (st == TT_OK) {
        int n = snprintf(text, sizeof text, "%lld", (long long)sum);

        st = tti_table_set(&s->hub->table, key, text, (size_t)n);
    }
    if (st != TT_OK) {
        answer_status(s, st);
        return;
    }
    answer_number(s, sum);
    tti_hub_changed(s->hub, key);
}

static void handle_compare_set(tti_session *s, const char *key, tti_reader *in)
{
    size_t expected_size, desired_size;
    const uint8_t *expected = read_value(in, &expected_size);
    const uint8_t *desired = read_value(in, &desired_size);
    tt_status st = TT_OK;
    bool set;

    if (in->bad)
        return;
    set = tti_table_matches(&s->hub->table, key, expected, expected_size);
    if (set)
        st = tti_table_set(&s->hub->table, key, desired, desired_size);
    if (st != TT_OK)
        answer_status(s, st);
    else
        answer_values(s, &key, 1);
    if (set && st == TT_OK)
        tti_hub_changed(s->hub, key);
}

static void handle_put(tti_session *s, const char *key, tti_reader *in, bool append)
{
    size_t n;
    const uint8_t *p = read_value(in, &n);
    tt_status st;

    if (in->bad)
        return;
    st = append ? tti_table_append(&s->hub->table, key, p, n)
                : tti_table_set(&s->hub->table, key, p, n);
    answer_status(s, st);
    if (st == TT_OK)
        tti_hub_changed(s->hub, key);
}

/* The whole is read twice: nothing is set unless all of it is right. */
static void handle_multi_set(tti_session *s, tti_reader *in)
{
    tti_reader from = *in;
    char key[TT_STORE_MAX_KEY + 1];
    tt_status st = TT_OK;
    uint32_t n = 0;

    for (int pass = 0; pass < 2 && !in->bad && st == TT_OK; pass++) {
        *in = from;
        n = tti_read32(in);
        in->bad |= n < 1 || n > TTI_STORE_MAX_KEYS;
        for (uint32_t i = 0; i < n && !in->bad && st == TT_OK; i++) {
            const uint8_t *p;
            size_t size;

            read_key(in, key);
            p = read_value(in, &size);
            if (pass == 0 || in->bad)
                continue;
            st = tti_table_set(&s->hub->table, key, p, size);
            if (st == TT_OK)
                tti_hub_changed(s->hub, key);
        }
        in->bad |= in->left > 0;
    }
    if (!in->bad)
        answer_status(s, st);
}

static void handle_count(tti_session *s, tti_reader *in)
{
    char prefix[TT_STORE_MAX_KEY + 1] = "";

    if (in->left == 4 && tti_load32(in->p) == 0)
        tti_read32(in);
    else
        read_key(in, prefix);
    if (!in->bad)
        answer_number(s, tti_table_count(&s->hub->table, prefix));
}

/* Requests on one key, which comes first. */
static void handle_key(tti_session *s, tti_request_op op, tti_reader *in)
{
    char key[TT_STORE_MAX_KEY + 1];

    read_key(in, key);
    if (in->bad)
        return;
    if (op == TTI_REQ_SET || op == TTI_REQ_APPEND)
        handle_put(s, key, in, op == TTI_REQ_APPEND);
    else if (op == TTI_REQ_ADD)
        handle_add(s, key, in);
    else if (op == TTI_REQ_COMPARE_SET)
        handle_compare_set(s, key, in);
    else
        answer_number(s, tti_table_remove(&s->hub->table, key));
}

void tti_hub_handle(tti_session *s, const uint8_t *frame, size_t n)
{
    tti_reader in = { frame + 1, n - 1, false };
    tti_request_op op = (tti_request_op)frame[0];

    switch (op) {
    case TTI_REQ_WAIT:
    case TTI_REQ_MULTI_GET:
    case TTI_REQ_WAIT_CHANGE:
        handle_waiting(s, op, &in);
        return;
    case TTI_REQ_CHECK:
        handle_check(s, &in);
        return;
    case TTI_REQ_SET:
    case TTI_REQ_ADD:
    case TTI_REQ_COMPARE_SET:
    case TTI_REQ_APPEND:
    case TTI_REQ_REMOVE:
        handle_key(s, op, &in);
        break;
    case TTI_REQ_MULTI_SET:
        handle_multi_set(s, &in);
        break;
    case TTI_REQ_COUNT:
        handle_count(s, &in);
        break;
    case TTI_REQ_BYE:
        s->bye = true;
        s->state = TTI_SESSION_DEAD;
        return;
    default:
        die(s, "an unknown request");
        return;
    }
    if (in.bad)
        die(s, "a request is not in the expected format");
}

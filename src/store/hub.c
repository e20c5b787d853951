/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait for keys: each is listed under every key that is missing. When the last one has come
 * the request is looked at again, since a key may have been deleted meanwhile. */
#include "store/hub.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "store/answer.h"

tt_status tti_hub_init(tti_hub *h, const char *secret)
{
    memset(h, 0, sizeof *h);
    h->secret = tti_strdup(secret != NULL ? secret : "");
    return h->secret != NULL ? TT_OK : TT_ERR_NOMEM;
}

void tti_hub_fini(tti_hub *h)
{
    tti_table_fini(&h->table);
    tti_mfree(h->secret);
    h->secret = NULL;
}

static void unlink_waiter(tti_waiter *w)
{
    if (w->slot == NULL)
        return;
    *w->slot = w->next;
    if (w->next != NULL)
        w->next->slot = w->slot;
    w->slot = NULL;
}

void tti_hub_forget(tti_request *r)
{
    for (int i = 0; i < r->n && r->waiters != NULL; i++)
        unlink_waiter(&r->waiters[i]);
    if (r->slot != NULL) {
        *r->slot = r->next;
        if (r->next != NULL)
            r->next->slot = r->slot;
    }
    for (tti_request **p = r->session != NULL ? &r->session->hub->ready : NULL;
         p != NULL && *p != NULL; p = &(*p)->next_ready) {
        if (*p == r) {
            *p = r->next_ready;
            break;
        }
    }
    if (r->session != NULL && r->session->parked == r)
        r->session->parked = NULL;
    tti_mfree(r->waiters);
    tti_mfree(r->keys);
    tti_mfree(r->texts);
    tti_mfree(r->seen);
    tti_mfree(r);
}

/* Lists the request under the keys it still lacks (for wait_change: under its key, in any case). */
static void list_waiters(tti_hub *h, tti_request *r)
{
    r->n_missing = 0;
    for (int i = 0; i < r->n; i++) {
        tti_waiter *w = &r->waiters[i], **slot;

        if (r->op != TTI_REQ_WAIT_CHANGE && tti_table_find(&h->table, r->keys[i]) != NULL)
            continue;
        w->request = r;
        w->key = r->keys[i];
        w->hash = tti_key_hash(w->key);
        slot = &h->buckets[w->hash & (TTI_HUB_BUCKETS - 1)];
        w->next = *slot;
        w->slot = slot;
        if (*slot != NULL)
            (*slot)->slot = &w->next;
        *slot = w;
        r->n_missing++;
    }
}

bool tti_hub_park(tti_hub *h, tti_request *r)
{
    if (r->waiters == NULL) {
        r->waiters = tti_calloc((size_t)r->n, sizeof *r->waiters);
        if (r->waiters == NULL)
            return false;
        r->next = h->waiting;
        r->slot = &h->waiting;
        if (h->waiting != NULL)
            h->waiting->slot = &r->next;
        h->waiting = r;
        r->session->parked = r;
    }
    list_waiters(h, r);
    return true;
}

void tti_hub_changed(tti_hub *h, const char *key)
{
    uint64_t hash = tti_key_hash(key);

    for (tti_waiter *w = h->buckets[hash & (TTI_HUB_BUCKETS - 1)], *next; w != NULL; w = next) {
        next = w->next;
        if (w->hash != hash || strcmp(w->key, key) != 0)
            continue;
        unlink_waiter(w);
        if (--w->request->n_missing == 0) {
            w->request->next_ready = h->ready;
            h->ready = w->request;
        }
    }
}

void tti_hub_run_ready(tti_hub *h)
{
    while (h->ready != NULL) {
        tti_request *r = h->ready;
        tti_session *s = r->session;

        h->ready = r->next_ready;
        r->next_ready = NULL;
        if (!tti_answer_waiting(h, r, false))
            continue;
        tti_hub_forget(r);
        tti_session_go_on(s);
    }
}

int64_t tti_hub_expire(tti_hub *h, int64_t now)
{
    int64_t first = TTI_NEVER;

    for (tti_request *r = h->waiting, *next; r != NULL; r = next) {
        tti_session *s = r->session;

        next = r->next; /* stays: going on only ever adds requests, at the head */
        if (r->deadline > now)
            continue;
        tti_answer_waiting(h, r, true);
        tti_hub_forget(r);
        tti_session_go_on(s);
    }
    tti_hub_run_ready(h);
    for (const tti_request *r = h->waiting; r != NULL; r = r->next)
        first = r->deadline < first ? r->deadline : first;
    return first;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Observers: a list under a lock. An event is told to a snapshot of the list, so that no callback runs
 * under the lock and an observer may be freed while another thread tells it something. */
#include "ops/observe.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

#define FEW 32 /* observers that are told of an event without an allocation */

struct tt_observer {
    atomic_int refs;
    atomic_bool dead;
    tt_observer_fn fn;
    void *ctx;
    bool one_thread;
    pthread_t thread;
    char *name;        /* NULL: all */
    tt_observer *next; /* mu_list */
};

atomic_int tti_n_observers;

static pthread_mutex_t mu_list = PTHREAD_MUTEX_INITIALIZER;
static tt_observer *list;         /* mu_list */
static _Thread_local bool inside; /* operators used by an observer are not observed */

static void unref(tt_observer *o)
{
    if (atomic_fetch_sub(&o->refs, 1) != 1)
        return;
    tti_mfree(o->name);
    tti_mfree(o);
}

tt_observer *tt_observer_new(const char *name, bool this_thread_only, tt_observer_fn fn, void *ctx)
{
    tt_observer *o;

    if (fn == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "observer: expected a function, got NULL");
    o = tti_calloc(1, sizeof *o);
    if (o == NULL)
        return NULL;
    if (name != NULL && (o->name = tti_strdup(name)) == NULL) {
        tti_mfree(o);
        return NULL;
    }
    atomic_init(&o->refs, 1);
    o->fn = fn;
    o->ctx = ctx;
    o->one_thread = this_thread_only;
    o->thread = pthread_self();
    pthread_mutex_lock(&mu_list);
    o->next = list;
    list = o;
    pthread_mutex_unlock(&mu_list);
    atomic_fetch_add(&tti_n_observers, 1);
    return o;
}

void tt_observer_free(tt_observer *o)
{
    if (o == NULL)
        return;
    pthread_mutex_lock(&mu_list);
    for (tt_observer **at = &list; *at != NULL; at = &(*at)->next)
        if (*at == o) {
            *at = o->next;
            break;
        }
    pthread_mutex_unlock(&mu_list);
    atomic_store(&o->dead, true);
    atomic_fetch_sub(&tti_n_observers, 1);
    unref(o);
}

static bool wants(const tt_observer *o, const tt_op_event *e)
{
    if (o->name != NULL && strcmp(o->name, e->name) != 0)
        return false;
    return !o->one_thread || pthread_equal(o->thread, pthread_self());
}

/* References to all observers that want the event; `few` has room for FEW. NULL: no memory. */
static tt_observer **snapshot(const tt_op_event *e, tt_observer **few, int *n_p)
{
    tt_observer **told = few;
    int n = 0;

    pthread_mutex_lock(&mu_list);
    for (tt_observer *o = list; o != NULL; o = o->next)
        n += wants(o, e);
    if (n > FEW)
        told = tti_malloc((size_t)n * sizeof(tt_observer *));
    n = 0;
    for (tt_observer *o = list; told != NULL && o != NULL; o = o->next)
        if (wants(o, e)) {
            atomic_fetch_add(&o->refs, 1);
            told[n++] = o;
        }
    pthread_mutex_unlock(&mu_list);
    *n_p = n;
    return told;
}

static tt_status tell(const tt_op_event *e)
{
    tt_observer *few[FEW];
    tt_observer **told;
    tt_status st = TT_OK;
    int n;

    if (inside)
        return TT_OK;
    told = snapshot(e, few, &n);
    if (told == NULL)
        return TT_ERR_NOMEM;
    inside = true;
    for (int i = 0; i < n; i++) {
        if (st == TT_OK && !atomic_load(&told[i]->dead))
            st = told[i]->fn(told[i]->ctx, e);
        if (e->after)
            st = TT_OK;
        unref(told[i]);
    }
    inside = false;
    if (told != few)
        tti_mfree(told);
    return st;
}

tt_status tti_observe_before(const tt_op_event *e)
{
    tti_error_copy before, after;

    tti_error_save(&before);
    tt_clear_error();
    if (tell(e) == TT_OK) {
        tti_error_restore(&before);
        return TT_OK;
    }
    tti_error_save(&after);
    return TT_FAIL(TT_ERR_VETOED, "%s: refused by an observer%s%s", e->name,
                   after.text[0] != '\0' ? ": " : "", after.text);
}

void tti_observe_after(const tt_op_event *e)
{
    tti_error_copy before;

    tti_error_save(&before);
    tell(e);
    tti_error_restore(&before);
}

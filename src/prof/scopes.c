/* SPDX-License-Identifier: Apache-2.0 */
/* What nests on a thread: the program's own scopes, and tensor operators, which an observer tells us of. */
#include <string.h>

#include "base/mem.h"
#include "prof/emit.h"
#include "prof/prof.h"
#include "tutti/observe.h"

#define DEEP 64 /* levels that are recorded; deeper ones are counted */

typedef struct level {
    const char *name;       /* operators: static or the program's, alive while it runs */
    const tt_tensor *first; /* operators: the first input */
    tti_prof_mark *mark;
} level;

typedef struct stack {
    level levels[DEEP];
    int n;
    uint64_t epoch; /* operators: of the observer that began them */
} stack;

/* Of one thread; from the heap, because thread-local room is scarce. */
typedef struct nesting {
    stack scopes, ops;
} nesting;

static _Thread_local nesting *mine; /* the end of the thread closes what is open */

static pthread_mutex_t mu_watch = PTHREAD_MUTEX_INITIALIZER;
static tt_observer *observer; /* mu_watch */
static int n_watching;        /* mu_watch */
static atomic_ullong epoch;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* Levels whose end nobody told: their operators were refused, or the observer was gone. */
static void drop_down_to(stack *ops, int n)
{
    while (ops->n > n)
        tti_prof_drop(ops->levels[--ops->n].mark);
}

static void thread_ends(void *nest)
{
    mine = nest;
    drop_down_to(&mine->ops, 0);
    while (mine->scopes.n > 0)
        tt_prof_end();
    mine = NULL;
    tti_mfree(nest);
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, thread_ends) == 0;
}

/* NULL without memory: nothing is recorded then. */
static nesting *nest_of_thread(void)
{
    if (mine != NULL)
        return mine;
    pthread_once(&once, make_key);
    nesting *fresh = has_key ? tti_calloc(1, sizeof *fresh) : NULL;
    if (fresh == NULL || pthread_setspecific(key, fresh) != 0) {
        tti_mfree(fresh);
        return NULL;
    }
    return mine = fresh;
}

static tt_prof_event plain_event(const char *name)
{
    return (tt_prof_event){ .name = name, .rank = -1, .group = "", .group_desc = "", .peer = -1 };
}

/* ---- scopes of the program -------------------------------------------------------------- */

void tt_prof_begin(const char *name)
{
    tti_prof_mark *mark = NULL;
    nesting *nest = nest_of_thread();

    if (nest == NULL)
        return;
    if (tti_prof_on()) {
        tt_prof_event e = plain_event(name != NULL ? name : "");

        mark = tti_prof_begin_event(&e, false);
    }
    if (nest->scopes.n < DEEP)
        nest->scopes.levels[nest->scopes.n].mark = mark;
    else
        tti_prof_op_end(mark, false); /* too deep to remember: an event without length */
    nest->scopes.n++;
}

void tt_prof_end(void)
{
    if (mine == NULL || mine->scopes.n == 0)
        return;
    stack *scopes = &mine->scopes;
    scopes->n--;
    if (scopes->n < DEEP) {
        tti_prof_op_end(scopes->levels[scopes->n].mark, false);
        scopes->levels[scopes->n].mark = NULL;
    }
}

/* ---- operators ------------------------------------------------------------------------- */

static void op_begins(stack *ops, const tt_op_event *e)
{
    tt_shape shapes[8];
    tt_prof_event event = plain_event(e->name);

    for (int i = 0; i < e->n_in && i < 8; i++)
        if (e->in[i] != NULL)
            shapes[event.n_shapes++] = tti_prof_shape(e->in[i]);
    event.shapes = shapes;
    if (e->n_in > 0 && e->in[0] != NULL)
        event.dtype = tt_tensor_dtype(e->in[0]);
    if (ops->n >= DEEP) /* operators do not nest that deep */
        drop_down_to(ops, 0);
    ops->levels[ops->n++] =
        (level){ e->name, e->n_in > 0 ? e->in[0] : NULL, tti_prof_begin_event(&event, true) };
}

/* Levels above the one that ends belong to operators that another observer refused: no end is told. */
static void op_ends(stack *ops, const tt_op_event *e)
{
    const tt_tensor *first = e->n_in > 0 ? e->in[0] : NULL;

    for (int i = ops->n - 1; i >= 0; i--)
        if (ops->levels[i].first == first && strcmp(ops->levels[i].name, e->name) == 0) {
            drop_down_to(ops, i + 1);
            ops->n = i;
            tti_prof_op_end(ops->levels[i].mark, e->status != TT_OK);
            return;
        }
}

static tt_status observe(void *unused, const tt_op_event *e)
{
    uint64_t now = atomic_load_explicit(&epoch, memory_order_relaxed);

    nesting *nest = nest_of_thread();

    (void)unused;
    if (nest == NULL)
        return TT_OK;
    if (nest->ops.epoch != now) { /* ends of an earlier watch may have been missed */
        drop_down_to(&nest->ops, 0);
        nest->ops.epoch = now;
    }
    if (e->after)
        op_ends(&nest->ops, e);
    else
        op_begins(&nest->ops, e);
    return TT_OK;
}

tt_status tti_prof_ops_watch(void)
{
    tt_status st = TT_OK;

    pthread_mutex_lock(&mu_watch);
    if (n_watching == 0) {
        atomic_fetch_add_explicit(&epoch, 1, memory_order_relaxed);
        observer = tt_observer_new(NULL, false, observe, NULL);
    }
    if (observer == NULL)
        st = TT_ERR_NOMEM;
    else
        n_watching++;
    pthread_mutex_unlock(&mu_watch);
    return st;
}

void tti_prof_ops_unwatch(void)
{
    tt_observer *o = NULL;

    pthread_mutex_lock(&mu_watch);
    if (--n_watching == 0) {
        o = observer;
        observer = NULL;
    }
    pthread_mutex_unlock(&mu_watch);
    tt_observer_free(o);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes: each thread has one growing list of the tensors it owns; a scope is a mark in it. Closing
 * a scope frees down to its mark. Tensors made outside of any scope stay until the thread ends or
 * tt_scope_close of a scope with mark 0; many of them are worth a warning. */
#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/tls.h"
#include "tensor/debug.h"
#include "tensor/tensor.h"

#define WARN_AT 100000

typedef struct scope_stack {
    tt_tensor **items;
    size_t n, cap;
    int depth;
    bool warned, registered;
} scope_stack;

static TTI_HOT_TLS scope_stack mine;

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void free_down_to(size_t mark)
{
    bool debug = tti_debug_tensors();

    while (mine.n > mark) {
        tt_tensor *t = mine.items[--mine.n];

        if (tt_unlikely(debug))
            tti_debug_scope_gives_up(t);
        tt_tensor_free(t);
    }
}

static void thread_exit(void *unused)
{
    (void)unused;
    tti_debug_scope_closing(0, NULL);
    free_down_to(0);
    tti_mfree(mine.items);
    mine = (scope_stack){ 0 };
}

static void make_exit_key(void)
{
    pthread_key_create(&exit_key, thread_exit);
}

static bool grow(void)
{
    if (!mine.registered) {
        pthread_once(&exit_once, make_exit_key);
        pthread_setspecific(exit_key, &mine);
        mine.registered = true;
    }
    return tti_vec_reserve((void **)&mine.items, &mine.cap, mine.n + 1, sizeof *mine.items) ==
           TT_OK;
}

tt_tensor *tti_scope_add(tt_tensor *t)
{
    if (t == NULL)
        return NULL;
    if (tt_unlikely(mine.n == mine.cap) && !grow()) {
        tt_tensor_free(t);
        return NULL;
    }
    mine.items[mine.n++] = t;
    if (tt_unlikely(tti_debug_tensors()))
        tti_debug_scope_owns(t);
    if (tt_unlikely(mine.depth == 0 && mine.n >= WARN_AT && !mine.warned)) {
        mine.warned = true;
        tt_warn("scope",
                "%zu tensors were made outside of any scope and are kept until the thread "
                "ends; put TT_SCOPE { } around the loop that makes them",
                mine.n);
    }
    return t;
}

tt_scope tt_scope_open(void)
{
    mine.depth++;
    if (tt_unlikely(tti_debug_tensors()))
        tti_debug_scope_opened(mine.depth, __builtin_return_address(0));
    return (tt_scope){ .mark = mine.n, .open = true };
}

/* The code at `site` closes it. */
static void scope_close(tt_scope *s, const void *site)
{
    bool debug = tti_debug_tensors();
    tti_debug_ending before = { 0 };

    if (!s->open)
        return;
    s->open = false;
    if (tt_unlikely(debug))
        before = tti_debug_scope_closing(mine.depth, site);
    mine.depth--;
    free_down_to(s->mark);
    if (tt_unlikely(debug))
        tti_debug_scope_closed(before);
}

void tt_scope_close(tt_scope *s)
{
    if (s != NULL)
        scope_close(s, __builtin_return_address(0));
}

tt_tensor *tt_scope_close_keep(tt_scope *s, tt_tensor *t)
{
    if (s == NULL)
        return TT_NULL_GIVEN("scope_close_keep", "a scope");
    if (!s->open)
        return t;
    t = tt_tensor_retain(t);
    scope_close(s, __builtin_return_address(0));
    return t != NULL ? tti_scope_add(t) : TT_NULL_GIVEN("scope_close_keep", "a tensor");
}

size_t tt_scope_count(void)
{
    return mine.n;
}

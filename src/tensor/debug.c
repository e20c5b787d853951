/* SPDX-License-Identifier: Apache-2.0 */
/* Who made a tensor and where it ended, and the quarantine of dead ones. A tensor of this mode has a tag in
 * front of it. */
#include "tensor/debug.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/error.h"
#include "base/small.h"
#include "tensor/shape.h"

#define N_PLACES 8192u /* a power of two; what is beyond is "not known" */
#define MOST_DEAD 65536
#define MOST_DEPTH 64

/* Counts and numbers of places. */
typedef struct debug_tag {
    atomic_ushort made;   /* by whom, in which scope */
    atomic_ushort scopes; /* how many own it */
    uint16_t ended;       /* of a dead one: where */
    bool dead;
    char pad[9]; /* the tensor behind it is aligned */
} debug_tag;

typedef struct tagged_tensor {
    debug_tag tag;
    tt_tensor t;
} tagged_tensor;

static debug_tag *tag_of(const tt_tensor *t)
{
    return &((tagged_tensor *)(uintptr_t)((const char *)t - offsetof(tagged_tensor, t)))->tag;
}

/* ---- places ------------------------------------------------------------------------------------- */

typedef enum place_kind {
    PLACE_OUTSIDE, /* of any scope; as an end: freed by its last owner */
    PLACE_SCOPE,   /* in a scope; as an end: of that scope */
    PLACE_THREAD,  /* as an end: of its thread */
} place_kind;

/* Who did something, and in which scope. A program has few of them. */
typedef struct debug_place {
    char maker[40];
    place_kind kind;
    const void *opened, *closed; /* the code that opened and closed the scope; NULL: not known */
} debug_place;

static pthread_mutex_t mu_places = PTHREAD_MUTEX_INITIALIZER;
static debug_place *places[N_PLACES]; /* mu_places: a hash table; 0 is never used */

static _Thread_local const void *opened[MOST_DEPTH]; /* the sites of open scopes */
static _Thread_local int depth_now;
static _Thread_local tti_debug_ending ending = { .depth = -1 };

static uint32_t hash_place(const debug_place *p)
{
    uint64_t h = 1469598103934665603u ^ (uint64_t)p->kind;

    h = (h ^ (uintptr_t)p->opened) * 1099511628211u;
    h = (h ^ (uintptr_t)p->closed) * 1099511628211u;
    for (const char *s = p->maker; *s != '\0'; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return (uint32_t)(h ^ h >> 32);
}

static bool same_place(const debug_place *a, const debug_place *b)
{
    return a->kind == b->kind && a->opened == b->opened && a->closed == b->closed &&
           strcmp(a->maker, b->maker) == 0;
}

/* The number of a place, 0 when there is no room. Memory comes past tti_malloc: a test that lets the n-th
 * allocation fail counts the same ones in every mode. */
static uint16_t place_number(const debug_place *want)
{
    uint32_t at = hash_place(want);
    uint16_t found = 0;

    pthread_mutex_lock(&mu_places);
    for (uint32_t i = 0; i < N_PLACES && found == 0; i++) {
        uint32_t slot = (at + i) & (N_PLACES - 1);

        if (slot == 0)
            continue;
        if (places[slot] == NULL) {
            places[slot] = malloc(sizeof *want);
            if (places[slot] == NULL)
                break;
            *places[slot] = *want;
        }
        if (same_place(places[slot], want))
            found = (uint16_t)slot;
    }
    pthread_mutex_unlock(&mu_places);
    return found;
}

static const debug_place *place_of(uint16_t number)
{
    const debug_place *p;

    pthread_mutex_lock(&mu_places);
    p = places[number];
    pthread_mutex_unlock(&mu_places);
    return p;
}

static const void *opened_at(int depth)
{
    return depth >= 1 && depth <= MOST_DEPTH ? opened[depth - 1] : NULL;
}

void tti_debug_scope_opened(int depth, const void *site)
{
    depth_now = depth;
    if (depth <= MOST_DEPTH)
        opened[depth - 1] = site;
}

tti_debug_ending tti_debug_scope_closing(int depth, const void *site)
{
    tti_debug_ending before = ending;

    ending = (tti_debug_ending){ depth, site };
    depth_now = depth > 0 ? depth - 1 : 0;
    return before;
}

void tti_debug_scope_closed(tti_debug_ending before)
{
    ending = before;
}

/* ---- a tensor's life ------------------------------------------------------------------------------ */

tt_tensor *tti_debug_alloc(void)
{
    tagged_tensor *x = tti_small_alloc(sizeof *x);

    if (x == NULL)
        return NULL;
    memset(&x->tag, 0, sizeof x->tag);
    tti_debug_made(&x->t, "");
    return &x->t;
}

void tti_debug_made(tt_tensor *t, const char *maker)
{
    debug_place p = { .kind = depth_now > 0 ? PLACE_SCOPE : PLACE_OUTSIDE,
                      .opened = opened_at(depth_now) };

    snprintf(p.maker, sizeof p.maker, "%s", maker);
    atomic_store_explicit(&tag_of(t)->made, place_number(&p), memory_order_relaxed);
}

void tti_debug_scope_owns(tt_tensor *t)
{
    atomic_fetch_add(&tag_of(t)->scopes, 1);
}

void tti_debug_scope_gives_up(tt_tensor *t)
{
    atomic_fetch_sub(&tag_of(t)->scopes, 1);
}

/* ---- the quarantine ------------------------------------------------------------------------------- */

static pthread_mutex_t mu_dead = PTHREAD_MUTEX_INITIALIZER;
static tt_tensor *dead[MOST_DEAD];  /* mu_dead: a ring */
static unsigned first_dead, n_dead; /* mu_dead */
static unsigned most_dead;          /* mu_dead; 0: not read yet */

/* Under mu_dead. The tensor that has to leave, or NULL. */
static tt_tensor *put_dead(tt_tensor *t)
{
    tt_tensor *out = NULL;

    if (most_dead == 0)
        most_dead = (unsigned)tti_env_int(TTI_ENV_DEBUG_TENSORS_KEEP, 1, MOST_DEAD, 16384);
    if (n_dead == most_dead) {
        out = dead[first_dead];
        first_dead = (first_dead + 1) % MOST_DEAD;
        n_dead--;
    }
    dead[(first_dead + n_dead++) % MOST_DEAD] = t;
    return out;
}

static uint16_t where_it_ends(void)
{
    debug_place p = { .kind = PLACE_OUTSIDE };

    if (ending.depth == 0)
        p.kind = PLACE_THREAD;
    else if (ending.depth > 0)
        p = (debug_place){ .kind = PLACE_SCOPE,
                           .opened = opened_at(ending.depth),
                           .closed = ending.site };
    return place_number(&p);
}

void tti_debug_bury(tt_tensor *t)
{
    tt_tensor *out;

    tag_of(t)->ended = where_it_ends();
    tag_of(t)->dead = true;
    t->storage = NULL;
    t->sparse = NULL;
    t->base = NULL;
    pthread_mutex_lock(&mu_dead);
    out = put_dead(t);
    pthread_mutex_unlock(&mu_dead);
    if (out != NULL)
        tti_small_free((char *)out - offsetof(tagged_tensor, t), sizeof(tagged_tensor));
}

/* ---- words ---------------------------------------------------------------------------------------- */

/* "train+0x11f9", for addr2line; "train+0x11f9 in step" where the function has a name. */
static const char *site_words(const void *site, char *out, size_t n)
{
    Dl_info at;
    const char *file;

    if (site == NULL || dladdr(site, &at) == 0 || at.dli_fname == NULL) {
        snprintf(out, n, "%p", site);
        return out;
    }
    file = strrchr(at.dli_fname, '/') != NULL ? strrchr(at.dli_fname, '/') + 1 : at.dli_fname;
    snprintf(out, n, "%s+0x%zx%s%s", file,
             (size_t)((const char *)site - (const char *)at.dli_fbase),
             at.dli_sname != NULL ? " in " : "", at.dli_sname != NULL ? at.dli_sname : "");
    return out;
}

/* "float32 [3], made by mul in the scope opened at train+0x11f9" */
static void made_words(const tt_tensor *t, char *out, size_t n)
{
    const debug_place *p = place_of(atomic_load_explicit(&tag_of(t)->made, memory_order_relaxed));
    char where[160] = "", site[120];

    if (p != NULL && p->kind == PLACE_SCOPE)
        snprintf(where, sizeof where, " in the scope opened at %s",
                 site_words(p->opened, site, sizeof site));
    else if (p != NULL)
        snprintf(where, sizeof where, " outside of any scope");
    snprintf(out, n, "%s %s, made%s%s%s", tt_dtype_name((tt_dtype)t->dtype), TTI_SHAPE_OF(t),
             p != NULL && p->maker[0] != '\0' ? " by " : "", p != NULL ? p->maker : "", where);
}

static void ended_words(const tt_tensor *t, char *out, size_t n)
{
    const debug_place *p = place_of(tag_of(t)->ended);
    char from[120], to[120];

    if (p == NULL || p->kind == PLACE_OUTSIDE)
        snprintf(out, n, "it was freed when its last owner called tt_tensor_free");
    else if (p->kind == PLACE_THREAD)
        snprintf(out, n, "it was freed when its thread ended");
    else
        snprintf(out, n, "it was freed when the scope opened at %s ended at %s",
                 site_words(p->opened, from, sizeof from), site_words(p->closed, to, sizeof to));
}

tt_status tti_check_dead(const tt_tensor *t, const char *who)
{
    char made[320], ended[320];

    if (!tti_debug_tensors() || !tag_of(t)->dead)
        return TT_OK;
    made_words(t, made, sizeof made);
    ended_words(t, ended, sizeof ended);
    return TT_FAIL(TT_ERR_INVALID,
                   "%s: this tensor is dead (%s): %s; tt_tensor_retain keeps a tensor longer", who,
                   made, ended);
}

/* A free says nothing to its caller, so that the error is a warning too. */
static bool refuse_free(void)
{
    tt_warn("tensor", "%s", tti_last_error());
    return false;
}

/* Whether the caller can own one of the references. A scope counts itself after it has its reference and
 * before it gives it up, so that two equal counts of scopes around the count of references fit that. */
static bool owned_by_caller(tt_tensor *t)
{
    unsigned short scopes;
    int refs;

    do {
        scopes = atomic_load(&tag_of(t)->scopes);
        refs = atomic_load(&t->refs);
    } while (scopes != atomic_load(&tag_of(t)->scopes));
    return refs > scopes;
}

bool tti_debug_may_free(tt_tensor *t)
{
    char made[320];

    if (tti_check_alive(t, "tensor_free") != TT_OK)
        return refuse_free();
    if (owned_by_caller(t))
        return true;
    made_words(t, made, sizeof made);
    TT_FAIL(TT_ERR_INVALID,
            "tensor_free: this tensor (%s) belongs to a scope that is open, which frees it: free "
            "only what tt_tensor_retain kept",
            made);
    return refuse_free();
}

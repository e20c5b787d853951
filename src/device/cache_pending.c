/* SPDX-License-Identifier: Apache-2.0 */
/* Freed blocks of the caching allocator that streams besides their own have still to pass. */
#include "base/mem.h"
#include "device/cache_parts.h"

static int64_t active(const tti_cache *c, int half, int which)
{
    return c->stats[half][TTI_STAT_BLOCKS + which].now +
           c->stats[half][TTI_STAT_PENDING + which].now;
}

void tti_note_active(tti_cache *c)
{
    for (int which = 0; which < 2; which++) {
        int64_t now[3] = { active(c, 0, which), active(c, 1, which) };

        now[2] = now[0] + now[1];
        for (int i = 0; i < 3; i++)
            if (c->active_peak[i][which] < now[i])
                c->active_peak[i][which] = now[i];
    }
}

void tti_block_pend(tti_cache *c, tti_block *b)
{
    if (!c->has_active_peak) {
        for (int which = 0; which < 2; which++) {
            for (int half = 0; half < 2; half++)
                c->active_peak[half][which] = c->stats[half][TTI_STAT_BLOCKS + which].peak;
            c->active_peak[2][which] = c->all_peak[TTI_STAT_BLOCKS + which];
        }
        c->has_active_peak = true;
    }
    b->state = TTI_BLOCK_PENDING;
    tti_stat_down(c, b->half, TTI_STAT_BLOCKS, 1);
    tti_stat_down(c, b->half, TTI_STAT_BYTES, b->size);
    tti_stat_up(c, b->half, TTI_STAT_PENDING, 1);
    tti_stat_up(c, b->half, TTI_STAT_PENDING_BYTES, b->size);
}

void tti_block_unpend(tti_cache *c, tti_block *b)
{
    tti_uses_free(c, b);
    tti_stat_down(c, b->half, TTI_STAT_PENDING, 1);
    tti_stat_down(c, b->half, TTI_STAT_PENDING_BYTES, b->size);
    tti_stat_down(c, b->half, TTI_STAT_REQUESTED, b->requested);
    tti_block_settle(b);
}

void tti_uses_free(tti_cache *c, tti_block *b)
{
    while (b->uses != NULL) {
        tti_use *u = b->uses;

        b->uses = u->next;
        if (u->mark != NULL)
            c->accel->mark_free(u->mark);
        tti_mfree(u);
    }
}

/* Drops the marks that have been passed; true when none is left. A mark that cannot be asked any more (its
 * device is lost) counts as passed: nothing will use the memory. */
static bool passed(tti_cache *c, tti_block *b)
{
    tti_use **at = &b->uses;

    while (*at != NULL) {
        tti_use *u = *at;
        bool done = true;

        if (u->mark != NULL && c->accel->mark_query(u->mark, &done) == TT_OK && !done) {
            at = &u->next;
            continue;
        }
        *at = u->next;
        if (u->mark != NULL)
            c->accel->mark_free(u->mark);
        tti_mfree(u);
    }
    return b->uses == NULL;
}

void tti_pending_poll(tti_cache *c)
{
    tti_block **at = &c->pending;

    while (*at != NULL) {
        tti_block *b = *at;

        if (!passed(c, b)) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        tti_block_unpend(c, b);
    }
    c->pending_tail = at;
}

/* The list is taken away first: with the lock given up, a poll by somebody else could free the marks. */
void tti_pending_wait(tti_cache *c)
{
    bool biased = tti_cache_enter(c);
    tti_block *list = c->pending;

    c->pending = NULL;
    c->pending_tail = &c->pending;
    tti_cache_leave(c, biased);
    for (tti_block *b = list; b != NULL; b = b->next)
        for (tti_use *u = b->uses; u != NULL; u = u->next)
            if (u->mark != NULL)
                c->accel->mark_sync(u->mark);
    biased = tti_cache_enter(c);
    while (list != NULL) {
        tti_block *b = list;

        list = b->next;
        tti_block_unpend(c, b);
    }
    tti_cache_leave(c, biased);
}

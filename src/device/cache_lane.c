/* SPDX-License-Identifier: Apache-2.0 */
/* The lane of quick operations on small blocks, put into the books and taken out again. With the lock held. */
#include "device/cache_parts.h"

static tti_tally *small(tti_cache *c, tti_stat k)
{
    return &c->stats[TTI_SMALL][k];
}

static int64_t blocks_of(uint64_t word)
{
    return (int64_t)(word >> 32);
}

static int64_t bytes_of(uint64_t word)
{
    return (int64_t)((word & TTI_LANE_MOST) * TTI_UNIT);
}

/* `in` came since the lane was opened, `now` is there. */
static void enter(tti_cache *c, tti_stat k, int64_t now, int64_t in)
{
    tti_tally *t = small(c, k);
    int64_t all = now + c->stats[TTI_LARGE][k].now;

    t->now = now;
    t->in += in;
    if (t->peak < now)
        t->peak = now;
    if (c->all_peak[k] < all)
        c->all_peak[k] = all;
}

/* A quick free turns what was used into a hole: what went out of one account came into the other. */
void tti_lane_close(tti_cache *c)
{
    tti_lane *l = &c->lane;
    int64_t blocks = blocks_of(l->used), bytes = bytes_of(l->used);
    int64_t more_blocks = blocks - blocks_of(l->at_open), more_bytes = bytes - bytes_of(l->at_open);

    if (!c->caching)
        return;
    if (l->in == 0 && l->used == l->at_open)
        return;
    enter(c, TTI_STAT_BLOCKS, blocks, blocks_of(l->in));
    enter(c, TTI_STAT_BYTES, bytes, bytes_of(l->in));
    enter(c, TTI_STAT_REQUESTED, l->requested, l->requested_in);
    enter(c, TTI_STAT_HOLES, small(c, TTI_STAT_HOLES)->now - more_blocks,
          blocks_of(l->in) - more_blocks);
    enter(c, TTI_STAT_HOLE_BYTES, small(c, TTI_STAT_HOLE_BYTES)->now - more_bytes,
          bytes_of(l->in) - more_bytes);
    if (c->has_active_peak)
        tti_note_active(c);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How high the small blocks' k may go without raising a peak. */
static int64_t room(tti_cache *c, tti_stat k)
{
    return least(small(c, k)->peak, c->all_peak[k] - c->stats[TTI_LARGE][k].now);
}

static int64_t active_room(const tti_cache *c, int which)
{
    int64_t pending[2] = { c->stats[0][TTI_STAT_PENDING + which].now,
                           c->stats[1][TTI_STAT_PENDING + which].now };

    return least(c->active_peak[TTI_SMALL][which] - pending[0],
                 c->active_peak[2][which] - pending[0] - pending[1] -
                     c->stats[TTI_LARGE][TTI_STAT_BLOCKS + which].now);
}

static uint64_t pack(int64_t blocks, int64_t bytes)
{
    int64_t most = (int64_t)TTI_LANE_MOST, units = bytes / (int64_t)TTI_UNIT;

    blocks = least(blocks > 0 ? blocks : 0, most);
    units = least(units > 0 ? units : 0, most);
    return (uint64_t)blocks << 32 | (uint64_t)units;
}

void tti_lane_open(tti_cache *c)
{
    tti_lane *l = &c->lane;
    int64_t blocks = room(c, TTI_STAT_BLOCKS), bytes = room(c, TTI_STAT_BYTES);
    int64_t now = small(c, TTI_STAT_BLOCKS)->now, now_bytes = small(c, TTI_STAT_BYTES)->now;

    if (!c->caching)
        return;
    if (c->has_active_peak) {
        blocks = least(blocks, active_room(c, 0));
        bytes = least(bytes, active_room(c, 1));
    }
    *l = (tti_lane){ .used = pack(now, now_bytes),
                     .top = pack(blocks, bytes),
                     .requested = small(c, TTI_STAT_REQUESTED)->now,
                     .requested_top = room(c, TTI_STAT_REQUESTED) };
    l->at_open = l->used;
    l->floor = pack(now + small(c, TTI_STAT_HOLES)->now - room(c, TTI_STAT_HOLES),
                    now_bytes + small(c, TTI_STAT_HOLE_BYTES)->now - room(c, TTI_STAT_HOLE_BYTES));
}

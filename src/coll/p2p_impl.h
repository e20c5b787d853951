/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of point to point: what one rank keeps about its messages, and what each two ranks share.
 *
 * Short messages go through a ring per ordered pair (p2p_ring.h). Long ones are offered: the sender fills
 * a slot and says in the ring where they lie; the receiver claims the slot and copies, through the kernel
 * or, between threads, directly. Where the kernel does not allow that, long messages are cut into pieces
 * that follow each other through the ring. Whether it does is found out with the first long message.
 *
 * A ring is read only while a receive is posted that could match: what nobody asks for stays in the
 * ring and holds its sender up. What is read and does not match is kept until it is asked for.
 *
 * The lock of the box guards everything in it. A finished operation is in no list and is not touched
 * again except by its owner. Mostly one thread uses a box, so the lock prefers one (device/cache_lock.h): that thread takes
 * it without a locked instruction, each of which would wait until what was sent before has left the core. */
#ifndef TTI_COLL_P2P_IMPL_H
#define TTI_COLL_P2P_IMPL_H

#include "base/mem.h"
#include "coll/p2p.h"
#include "coll/p2p_ring.h"
#include "coll/p2p_slot.h"
#include "coll/wait.h"
#include "device/cache_lock.h"

/* ---- lists -------------------------------------------------------------------------------- */

/* Rings of links inside other structs; the list itself is a link, too. */
typedef struct tti_link {
    struct tti_link *next, *prev;
} tti_link;

static inline void tti_list_init(tti_link *list)
{
    list->next = list->prev = list;
}

static inline bool tti_list_empty(const tti_link *list)
{
    return list->next == list;
}

static inline void tti_list_add(tti_link *list, tti_link *l)
{
    l->next = list;
    l->prev = list->prev;
    list->prev->next = l;
    list->prev = l;
}

static inline void tti_list_remove(tti_link *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    l->next = l->prev = l;
}

/* The struct whose first member is the link. */
#define TTI_LIST_AT(l, type) ((type *)(void *)(l))
/* The first of a list, NULL when it is empty. */
#define TTI_LIST_FIRST(list, type) (tti_list_empty(list) ? NULL : TTI_LIST_AT((list)->next, type))

/* ---- shared by two ranks ------------------------------------------------------------------ */

#define TTI_P2P_SLOTS 4 /* for messages that are offered at the same time */

/* For messages from one rank to another. */
typedef struct tti_pair {
    tti_ring_words words;
    _Alignas(64) _Atomic uint32_t
        dead_stream;        /* number of the last stream given up by its sender */
    _Atomic uint32_t reach; /* said by the receiver: TTI_REACH_... */
    tti_p2p_slot slots[TTI_P2P_SLOTS];
    _Alignas(64) unsigned char ring[];
} tti_pair;

enum { TTI_REACH_UNKNOWN, TTI_REACH_YES, TTI_REACH_NO };

/* ---- of one rank --------------------------------------------------------------------------- */

typedef enum tti_p2p_state {
    TTI_P2P_QUEUED,    /* send: in `queue` */
    TTI_P2P_STREAMING, /* send: first in `queue`, begun; receive: of `stream` */
    TTI_P2P_OFFERED,   /* send: in `offers`, or kept for this rank itself */
    TTI_P2P_POSTED,    /* receive: in `posted` */
    TTI_P2P_COPYING,   /* receive: in `copying` */
    TTI_P2P_ENDED,
} tti_p2p_state;

typedef enum tti_p2p_end {
    TTI_END_OK,
    TTI_END_SIZE,    /* a message of `got` bytes came */
    TTI_END_PEER,    /* the peer died, left or aborted */
    TTI_END_ALL,     /* everybody else did */
    TTI_END_AWAITED, /* the peer waits for this rank in a group of survivors */
    TTI_END_DROPPED, /* the sender gave up */
    TTI_END_ABORTED, /* this rank did, or closed its team */
    TTI_END_NOMEM,
    TTI_END_COPY,    /* the kernel refused; `got` is errno */
    TTI_END_UNSOUND, /* the peer wrote nonsense */
} tti_p2p_end;

struct tti_p2p {
    tti_link link;
    tti_p2p_box *box;
    unsigned char *data;
    size_t bytes, moved;
    uint64_t seq, order; /* order: of posting */
    uint64_t got;
    uint64_t addr; /* in the process of the sender */
    int peer, tag, source;
    uint32_t slot;
    uint8_t state, end;
    bool send;
    struct tti_p2p_message *kept; /* a send to this rank itself that nobody received yet */
    atomic_bool done;
};

/* Arrived, and nobody asked for it yet. */
typedef struct tti_p2p_message {
    tti_link link;
    enum { TTI_KEPT_WHOLE, TTI_KEPT_STREAM, TTI_KEPT_OFFER, TTI_KEPT_SELF } kind;
    int tag;
    uint64_t total, addr;
    uint32_t slot;
    tti_p2p *self; /* the send */
    unsigned char data[];
} tti_p2p_message;

/* The long message that is coming through the ring. */
typedef struct tti_stream {
    bool on;
    uint32_t number; /* of streams so far */
    uint64_t total, moved;
    tti_p2p *op;          /* either: the receive */
    tti_p2p_message *msg; /* or what keeps it; neither: thrown away */
} tti_stream;

typedef struct tti_p2p_peer {
    tti_pair *out, *in;
    tti_ring_writer writer;
    tti_ring_reader reader;
    tti_link queue;
    tti_p2p *offers[TTI_P2P_SLOTS];
    int n_offers;
    uint32_t n_streams; /* sent */
    tti_link posted;
    int n_posted;
    tti_link copying;
    tti_link kept;
    int n_held; /* offers in `kept` */
    tti_stream stream;
    bool gone;
    uint8_t why; /* tti_p2p_end of what needs it once it is gone */
} tti_p2p_peer;

struct tti_p2p_box {
    tti_bias_lock lock;
    bool biased;     /* how the lock was taken */
    tti_p2p_env env; /* group and members: copies */
    int rank, size;
    int n_gone;
    int failed; /* the first peer that died, aborted or wrote nonsense; -1: none */
    bool aborted;
    bool closed;      /* env is of no use any more */
    int refs;         /* the team, and operations not freed */
    int64_t asked_ns; /* when the kernel was last asked who lives */
    tti_bell *bells;  /* one per rank: where its waits for messages sleep */
    tti_patience patience;
    uint32_t at_once; /* longer messages are offered, or cut into pieces */
    tti_link posted_any;
    int n_any;
    int turn; /* whom to ask first, so that a receive from anyone is fair */
    uint64_t n_posts;
    atomic_int n_active; /* operations under way */
    atomic_bool woken;
    int n_ended; /* since the lock was last given up */
    tti_p2p_peer peers[];
};

/* ---- the pieces; all with the lock held ---------------------------------------------------- */

/* p2p_match.c */
/* The receive that gets a message: the one posted first of those that match. Stays in its list. */
tti_p2p *tti_p2p_match(tti_p2p_box *box, int source, int tag);
void tti_p2p_post(tti_p2p_box *box, tti_p2p *op);
void tti_p2p_unpost(tti_p2p_box *box, tti_p2p *op);
/* Ends the operation, which must be in no list. It may be gone afterwards. */
void tti_p2p_finish(tti_p2p *op, tti_p2p_end end, uint64_t got);
/* Gives the receive `op` its message if it is kept; takes it out of its list first. */
bool tti_p2p_take_kept(tti_p2p_box *box, tti_p2p *op);
tti_p2p_message *tti_p2p_keep(tti_p2p_peer *p, int kind, int tag, uint64_t total, size_t room);
void tti_p2p_drop_kept(tti_p2p_peer *p, tti_p2p_message *m);

/* p2p_send.c */
bool tti_p2p_push(tti_p2p_box *box, int peer);
/* Ends the sends whose messages the peer has fetched. */
bool tti_p2p_collect_offers(tti_p2p_peer *p);
void tti_p2p_send_self(tti_p2p_box *box, tti_p2p *op);
/* Takes an unfinished send back; its memory is not touched any more. */
void tti_p2p_retract(tti_p2p_box *box, tti_p2p *op);

/* p2p_receive.c */
bool tti_p2p_pull(tti_p2p_box *box, int peer);
/* Takes an unfinished receive back; its memory is not touched any more. */
void tti_p2p_unreceive(tti_p2p_box *box, tti_p2p *op);
/* Ends the stream that comes from `peer`. */
void tti_p2p_end_stream(tti_p2p_box *box, int peer, tti_p2p_end end);

/* `op` gets the message of a slot it has claimed. */
void tti_p2p_begin_copy(tti_p2p_box *box, tti_p2p *op, uint32_t slot, uint64_t addr,
                        uint64_t total);

/* p2p_box.c */
/* Ends what needs a peer that is gone, after what it had sent was taken. `failed`: it did not leave in peace, so that
 * receives from anyone end, too. */
void tti_p2p_lose(tti_p2p_box *box, int peer, tti_p2p_end why, bool failed);
/* Ends every operation: this rank aborted or leaves. */
void tti_p2p_end_all(tti_p2p_box *box);
/* Looks after peers that are not here any more. `ask`: the kernel, too, unless somebody has asked it in the last 10 ms. */
void tti_p2p_check_peers(tti_p2p_box *box, bool ask);

/* Operations under way: changed with the lock held, read without. */
static inline void tti_p2p_count(tti_p2p_box *box, int more)
{
    int n = atomic_load_explicit(&box->n_active, memory_order_relaxed);

    atomic_store_explicit(&box->n_active, n + more, memory_order_relaxed);
}

static inline void tti_p2p_lock(tti_p2p_box *box)
{
    bool biased = tti_bias_lock_take(&box->lock);

    box->biased = biased;
}

static inline void tti_p2p_unlock(tti_p2p_box *box)
{
    tti_bias_unlock(&box->lock, box->biased);
}

static inline bool tti_p2p_here(tti_p2p_box *box, int rank)
{
    return box->env.state(box->env.ctx, rank, false) == TTI_RANK_HERE;
}

/* Wakes the peer if it sleeps; after something was published for it. One fence stands for both of its bells, or none where
 * sleepers see to it (wait.h). */
static inline void tti_p2p_notify(tti_p2p_box *box, int peer)
{
    tti_bell_ring_fenced(&box->bells[peer], box->patience.heavy);
    if (box->env.wake != NULL)
        box->env.wake(box->env.ctx, peer);
}

/* p2p_words.c */
/* Records that the wait for `op` took too long, and for what it waited. */
tt_status tti_p2p_say_timeout(tti_p2p *op);
/* Records how it ended. */
tt_status tti_p2p_say_end(tti_p2p *op);

/* p2p_wait.c */
/* Lets the lock go, and tells other threads of this rank when more than `own` operations ended. */
void tti_p2p_leave(tti_p2p_box *box, int own);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The slot of a long message (src/coll/p2p_slot.h): two slots, three messages. The sender offers each in a free slot,
 * announces it in the ring, and then either waits until it was fetched or takes it back; afterwards it uses the memory for
 * something else. The receiver claims what the ring announces, copies it in two pieces and releases it, or releases it
 * before that (a receive that is given up, or one of another size).
 *
 * Checked: the receiver never delivers a message whose memory was used again meanwhile; with threads (no -DKERNEL) it never
 * even reads such memory; no slot is lost: at the end all are free, and nobody waits for ever.
 * -DKERNEL: the kernel copies, so that a message may be taken back in the middle of a piece.
 * Mistakes that it finds: -DSTORE_BEGIN, -DSTORE_RELEASE, -DSTORE_RETRACT: a step that stores instead of comparing and
 * swapping; -DSTORE_END with -DKERNEL; -DNO_WAIT: threads that take a message back in the middle of a piece. */
#define SLOTS 2
#define MESSAGES 3
#define PIECES 2

mtype = { FREE, OFFERED, CLAIMED, COPYING, DONE, RETRACTED };
mtype state[SLOTS] = FREE;
bool reused[MESSAGES]; /* the memory of the message holds something else */
byte ended;

chan ring = [MESSAGES] of { byte, byte }; /* slot, message */
bit held[SLOTS];                          /* by the sender: an offer that it has not ended */
byte holds[SLOTS];

inline swap(s, from, to, ok)
{
    atomic {
        if
        :: state[s] == from -> state[s] = to; ok = true
        :: else -> ok = false
        fi
    }
}

/* The sender's end of the offer in slot s: fetched, or taken back. */
inline end_offer(s)
{
    do
    :: state[s] == DONE -> state[s] = FREE; break
    :: state[s] != DONE -> /* give up */
        was = state[s];
        if
#if !defined(KERNEL) && !defined(NO_WAIT)
        :: was == COPYING -> (state[s] != COPYING)
        :: else ->
#else
        :: true ->
#endif
            if
            :: was == DONE -> skip
            :: else ->
#ifdef STORE_RETRACT
                state[s] = RETRACTED; break
#else
                swap(s, was, RETRACTED, ok);
                if
                :: ok -> break
                :: else -> skip
                fi
#endif
            fi
        fi
    od;
    reused[holds[s]] = true;
    held[s] = 0
}

proctype sender()
{
    byte m = 0, i;
    mtype was;
    bool ok;

    do
    :: m < MESSAGES ->
        if
        :: !held[0] && state[0] == FREE -> i = 0
        :: !held[1] && state[1] == FREE -> i = 1
        :: held[0] -> i = SLOTS; end_offer(0)
        :: held[1] -> i = SLOTS; end_offer(1)
        fi;
        if
        :: i < SLOTS ->
            swap(i, FREE, OFFERED, ok);
            assert(ok);
            holds[i] = m;
            held[i] = 1;
            ring!i, m;
            m++
        :: else -> skip
        fi
    :: m == MESSAGES -> break
    od;
    for (i : 0 .. SLOTS - 1) {
        if
        :: held[i] -> end_offer(i)
        :: else -> skip
        fi
    }
    ended++
}

inline give_up(s)
{
    if
    :: state[s] == RETRACTED -> state[s] = FREE
    :: else -> skip
    fi
}

/* One piece; `ok` is false when the message was taken back. */
inline copy_piece(s, message)
{
#ifdef STORE_BEGIN
    state[s] = COPYING; ok = true;
#else
    swap(s, CLAIMED, COPYING, ok);
#endif
    if
    :: !ok -> give_up(s)
    :: else ->
        dirty = dirty || reused[message];
#ifndef KERNEL
        assert(!reused[message]);
#endif
        dirty = dirty || reused[message]; /* the copy takes its time */
#ifndef KERNEL
        assert(!reused[message]);
#endif
#ifdef STORE_END
        state[s] = CLAIMED; ok = true
#else
        swap(s, COPYING, CLAIMED, ok);
        if
        :: !ok -> give_up(s)
        :: else -> skip
        fi
#endif
    fi
}

proctype receiver()
{
    byte n, s, message, piece;
    bool ok, dirty;

    for (n : 1 .. MESSAGES) {
        ring?s, message;
        dirty = false;
        swap(s, OFFERED, CLAIMED, ok);
        if
        :: !ok -> give_up(s)
        :: else ->
            piece = 0;
            do
            :: piece < PIECES && ok ->
                copy_piece(s, message);
                piece++
            :: piece < PIECES && ok -> break /* given up */
            :: piece == PIECES || !ok -> break
            od;
            if
            :: ok ->
                assert(piece < PIECES || !dirty); /* what is delivered is good */
#ifdef STORE_RELEASE
                state[s] = DONE
#else
                swap(s, CLAIMED, DONE, ok);
                if
                :: !ok -> give_up(s)
                :: else -> skip
                fi
#endif
            :: else -> skip
            fi
        fi
    }
    ended++
}

init
{
    byte i;

    atomic {
        run sender();
        run receiver()
    }
    (ended == 2);
    for (i : 0 .. SLOTS - 1) {
        assert(state[i] == FREE)
    }
}

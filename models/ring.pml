/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of src/coll/p2p_ring.h with the bells of src/coll/wait.h, on a machine that delays stores.
 *
 * Units are frames; the ring has N of them, the writer keeps one free. Checked: frames arrive in order, a
 * stale mark is never taken for a frame, nothing is overwritten before it was read, and nobody sleeps for
 * ever while the other side could go on. Run: spin -run ring.pml; with -DNO_FENCE or -DNO_CLEAR it fails.
 * -DHEAVY: who publishes does not fence; who goes to sleep makes both sides do it (membarrier). */
#define N 4
#define FRAMES 7
#define QUIET 1 /* the reader is silent about fewer than QUIET + 1 frames */

byte mark[N];  /* 0: none, else the number of the frame */
byte head;     /* as told by the reader */
byte taken;    /* really read; for the assertions only */

/* One delayed store each for the words that the other side sleeps for. */
bool w_pending; byte w_at, w_value;
bool r_pending; byte r_value;

byte reader_sleeps, writer_sleeps;
bool reader_rung, writer_rung;
bool done;

/* Stores of a side become visible in order, at any time, at the latest at its fence. */
#define FLUSH_W d_step { if :: w_pending -> mark[w_at] = w_value; w_pending = false :: else fi }
#define FLUSH_R d_step { if :: r_pending -> head = r_value; r_pending = false :: else fi }

#ifdef NO_FENCE
#define FENCE_W skip
#define FENCE_R skip
#else
#define FENCE_W FLUSH_W
#define FENCE_R FLUSH_R
#endif

/* After something was published, and before a sleep. */
#ifdef HEAVY
#define PUBLISHED_W skip
#define PUBLISHED_R skip
#define SLEEP_W FENCE_W; FENCE_R
#define SLEEP_R FENCE_R; FENCE_W
#else
#define PUBLISHED_W FENCE_W
#define PUBLISHED_R FENCE_R
#define SLEEP_W FENCE_W
#define SLEEP_R FENCE_R
#endif

active proctype store_buffers()
{
end:
    do
    :: w_pending -> FLUSH_W
    :: r_pending -> FLUSH_R
    :: done && !w_pending && !r_pending -> break
    od
}

active proctype writer()
{
    byte tail = 0;

    do
    :: tail < FRAMES ->
        if
        :: tail + 2 - head <= N -> skip
        :: else -> /* full: sleep until there is room */
            writer_sleeps = 1;
            SLEEP_W;
            if
            :: tail + 2 - head <= N -> skip
            :: else -> writer_rung; writer_rung = false
            fi;
            writer_sleeps = 0;
            goto again
        fi;
        FLUSH_W; /* stores stay in order */
        assert(tail + 2 - taken <= N);
#ifndef NO_CLEAR
        mark[(tail + 1) % N] = 0;
#endif
        d_step { w_pending = true; w_at = tail % N; w_value = tail + 1 };
        tail++;
        PUBLISHED_W;
        if
        :: reader_sleeps -> reader_rung = true
        :: else -> skip
        fi;
again:  skip
    :: tail == FRAMES -> break
    od
}

active proctype reader()
{
    byte at = 0, told = 0;

    do
    :: at < FRAMES ->
        if
        :: mark[at % N] != 0 ->
            assert(mark[at % N] == at + 1);
            at++;
            taken = at;
            if
            :: at - told > QUIET ->
                FLUSH_R;
                d_step { r_pending = true; r_value = at };
                told = at;
                PUBLISHED_R;
                if
                :: writer_sleeps -> writer_rung = true
                :: else -> skip
                fi
            :: else -> skip
            fi
        :: else -> /* empty: sleep until there is something */
            reader_sleeps = 1;
            SLEEP_R;
            if
            :: mark[at % N] != 0 -> skip
            :: else -> reader_rung; reader_rung = false
            fi;
            reader_sleeps = 0
        fi
    :: at == FRAMES -> break
    od;
    done = true
}

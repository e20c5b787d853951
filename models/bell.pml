/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping and waking (src/coll/wait.h), with store buffers: a store becomes visible to the other rank only when it is
 * flushed, at any later moment, and a fence flushes what its own rank stored. So stores may be seen late, as on real
 * CPUs. Checked: nobody sleeps for ever (no invalid end state), and a waiter that goes on sees the message.
 * Compile with -DNO_FENCE to see the wake-up that is lost without the fences, and with -DHEAVY for a ringer without one,
 * when the waiter makes the ringer's core pass a fence. */

bit word, message;               /* memory */
bit word_pending, sleepers_pending; /* in the store buffers of the ringer and of the waiter */
byte sleepers;                   /* memory */
byte sleepers_value;             /* what the waiter's buffer holds */
byte rings;
bit asleep, went_on;

/* The hardware: flushes when it likes. */
active proctype buffers()
{
end:
    do
    :: atomic { word_pending -> word = 1; word_pending = 0 }
    :: atomic { sleepers_pending -> sleepers = sleepers_value; sleepers_pending = 0 }
    od
}

inline waiter_fence()
{
#ifndef NO_FENCE
    !sleepers_pending;
#ifdef HEAVY
    !word_pending /* the kernel: what the ringer has stored is there; what it loads later is new */
#else
    skip
#endif
#else
    skip
#endif
}

inline ringer_fence()
{
#if !defined(NO_FENCE) && !defined(HEAVY)
    !word_pending
#else
    skip
#endif
}

active proctype waiter()
{
    byte seen;

    do
    :: word == 1 -> break
    :: else ->
        atomic { sleepers_value = 1; sleepers_pending = 1 }
        waiter_fence();
        seen = rings;
        if
        :: word == 1 -> skip
        :: else ->
            /* The futex: sleeps only if nobody rang since. The kernel looks and queues in one step. */
            atomic {
                if
                :: rings == seen -> asleep = 1
                :: else -> skip
                fi
            }
            !asleep
        fi;
        atomic { !sleepers_pending -> sleepers_value = 0; sleepers_pending = 1 }
    od;
    assert(message == 1);
    went_on = 1
}

active proctype ringer()
{
    message = 1; /* before the word: a release store */
    word_pending = 1;
    ringer_fence();
    if
    :: sleepers != 0 -> atomic { rings++; asleep = 0 }
    :: else -> skip
    fi
}

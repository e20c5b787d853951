/* SPDX-License-Identifier: Apache-2.0 */
/* Leaving an operation early (src/coll/leave.c): the owner of a buffer announces it; a peer writes its part into it in
 * place, in pieces, and reads what the owner gave. The owner may leave at any moment, and uses its buffer for something
 * else from then on. The peer may be stopped at any point for as long as it likes (any interleaving), may die, give up or
 * be aborted. Checked: nothing arrives in the owner's memory after it left, and a peer that completes has read what the
 * owner gave for that operation.
 *
 * By default ranks are processes. Compile with -DTHREADS for threads, with store buffers as in bell.pml. Mistakes:
 *   -DSTAY         processes: the pages stay shared.
 *   -DTRUST_ABORT  processes: a peer that was aborted is taken for one that has returned.
 *   -DNO_CURRENT   processes: who opens the owner's file does not look afterwards whether the owner is still there.
 *   -DNO_CHECK     processes: who has read does not look afterwards.
 * With -DREPLACE (processes) another thread of the peer may make a group of survivors in place of this one, and say that the
 * peer failed, while the peer is still in the operation. Mistakes:
 *   -DTRUST_FAILED    a peer that failed is taken for one that has returned, replaced or not.
 *   -DREPLACED_LATER  the peer says that it replaces the group after it said that it failed.
 * Mistakes of threads:
 *   -DNO_FENCE     threads: without the fences.
 *   -DNO_WAIT      threads: who leaves does not wait for who is in its memory. */
#define PIECES 2

#define GIVEN 1  /* what the owner gave for the operation */
#define RESULT 2 /* what the peer writes */
#define REUSED 3 /* what the owner has there afterwards */

mtype = { HERE, FAILED, ABORTED };

byte file[PIECES];  /* the pages that the peer reaches; of threads, the memory itself */
byte apart[PIECES]; /* private pages of the owner */
bit is_private;     /* where the owner's addresses lead */
byte input;         /* another buffer of the owner, which the peer only reads, and which stays shared */

mtype owner = HERE, peer = HERE;
bit announced, left, completed;
bit written; /* the phase of the peer */
bit dead;
bit replaced; /* the peer goes on in another group */
bit reused_number; /* the owner closed the file, and its descriptor now is that of another one: new memory */
byte other;        /* the first bytes of that one */

/* Threads: store buffers. */
bit touching, touching_pending, touching_value;
bit owner_pending;

inline look()
{
    d_step {
        if
        :: left && !is_private -> assert(file[0] == REUSED && file[1] == REUSED)
        :: left && is_private -> assert(apart[0] == REUSED && apart[1] == REUSED)
        :: else -> skip
        fi;
        assert(!reused_number || other == REUSED)
    }
}

#ifdef THREADS
active proctype buffers()
{
end:
    do
    :: atomic { touching_pending -> touching = touching_value; touching_pending = 0 }
    :: atomic { owner_pending -> owner = FAILED; owner_pending = 0 }
    od
}

inline leave()
{
    owner_pending = 1;
#ifndef NO_FENCE
    !owner_pending;
#endif
#ifndef NO_WAIT
    touching == 0;
#endif
    skip
}
#else
inline leave()
{
    bit may_write = 1;

    owner = FAILED;
    if
    :: written || dead -> may_write = 0
#ifdef TRUST_FAILED
    :: peer == FAILED -> may_write = 0
#else
    :: peer == FAILED -> may_write = replaced /* looks how the peer stands first */
#endif
#ifdef TRUST_ABORT
    :: peer == ABORTED -> may_write = 0
#endif
    :: else -> skip
    fi;
    if
    :: may_write ->
#ifndef STAY
        /* Page by page: until it is copied, a page is that of the file. */
        apart[0] = file[0];
        apart[1] = file[1];
        is_private = 1
#else
        skip
#endif
    :: else -> skip
    fi
}
#endif

inline use_again()
{
    d_step {
        input = REUSED;
        if
        :: is_private -> apart[0] = REUSED; apart[1] = REUSED
        :: else -> file[0] = REUSED; file[1] = REUSED
        fi;
        left = 1
    }
    look();
    /* Later it may give the memory back, and put something else where the file was. */
    if
    :: d_step { other = REUSED; reused_number = 1 }
    :: skip
    fi
}

active proctype owner_rank()
{
    d_step { file[0] = GIVEN; file[1] = GIVEN; input = GIVEN }
    announced = 1;
    if
    :: written -> completed = 1 /* and the operation is over */
    :: leave(); use_again()
    fi
}

/* The peer's other thread, or whoever ends it. */
active proctype fate()
{
end:
    if
    :: atomic { peer == HERE -> peer = ABORTED }
    :: dead = 1
#ifdef REPLACE
#ifndef REPLACED_LATER
    :: replaced = 1; atomic { if :: peer == HERE -> peer = FAILED :: else -> skip fi }
#else
    :: atomic { peer == HERE -> peer = FAILED }; replaced = 1
#endif
#endif
    fi
}

active proctype peer_rank()
{
    byte i = 0, seen;
    bit wrong_file;

    announced;
#ifdef THREADS
    do
    :: i == PIECES -> break
    :: i < PIECES ->
        atomic { !touching_pending -> touching_value = 1; touching_pending = 1 }
#ifndef NO_FENCE
        !touching_pending;
#endif
        if
        :: owner != HERE -> break
        :: else -> skip
        fi;
        seen = input;
        assert(seen == GIVEN);
        file[i] = RESULT;
        look();
        atomic { !touching_pending -> touching_value = 0; touching_pending = 1 }
        i++
    od;
    if
    :: i == PIECES -> written = 1
    :: else -> atomic { !touching_pending -> touching_value = 0; touching_pending = 1 }; peer = FAILED
    fi
#else
    wrong_file = reused_number; /* opens what the descriptor is now */
#ifndef NO_CURRENT
    if
    :: owner != HERE -> goto give_up
    :: else -> skip
    fi;
#endif
    do
    :: i == PIECES -> break
    :: dead -> goto gone
    :: i < PIECES && !dead ->
        seen = input;
        atomic {
            if
            :: dead -> skip
            :: !dead && wrong_file -> other = RESULT
            :: else -> file[i] = RESULT
            fi
        }
        look();
#ifndef NO_CHECK
        if
        :: owner != HERE -> goto give_up
        :: else -> skip
        fi;
#endif
        assert(seen == GIVEN);
        i++
    :: goto give_up /* its own time is over, or another failure */
    od;
    written = 1;
    goto gone;
give_up:
    if
    :: atomic { peer == HERE -> peer = FAILED }
    :: peer != HERE
    fi;
gone:
    skip
#endif
}

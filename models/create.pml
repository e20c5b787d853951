/* SPDX-License-Identifier: Apache-2.0 */
/* Making a group (src/rendezvous/exchange.c, src/coll/team.c): ranks meet several times through a store. At each meeting a
 * rank sets its value and adds one to a count; who brings the count to the size says that it is done. Who waits goes on when
 * it is done or all values are there, and fails when somebody gave up or has ended. Between meetings a rank may fail by
 * itself (no memory, no descriptors); one rank may be killed at any point. Who fails says why, if nobody has, before its
 * process may end.
 *
 * Checked: nobody waits for ever, and the rank that is blamed was killed or failed by itself: never one that only
 * gave up because of another. Mistakes:
 *   -DSILENT       who fails between meetings says nothing, and lives on.
 *   -DNO_LOOK      who sees that a rank has ended does not look whether somebody gave up.
 *   -DLEAVE_FIRST  who fails ends before it has said why. */
#define N 3
#define MEETINGS 2

bit value[N * MEETINGS];
byte count[MEETINGS];
bit done[MEETINGS];
byte blamed; /* in the store, by the first that gave up: a rank + 1 */

bit killed[N];  /* at some point of its way */
bit failed[N];  /* by itself */
bit ended[N];   /* its process is gone */
bit spent;      /* one rank fails by itself, at most */

#define ALL_ARRIVED(m) (value[(m) * N] && value[(m) * N + 1] && value[(m) * N + 2])
#define GONE(r) (killed[r] || ended[r])

inline check_blame(who)
{
    assert(killed[who] || failed[who])
}

/* The first words stay. */
inline give_up(because_of)
{
#ifdef LEAVE_FIRST
    ended[me] = 1;
#endif
    d_step {
        if
        :: blamed == 0 -> blamed = because_of + 1
        :: else -> skip
        fi
    };
    ended[me] = 1
}

inline fail_as_told()
{
    check_blame(blamed - 1);
    ended[me] = 1
}

/* A rank is seen to have ended. */
inline notice(who)
{
#ifndef NO_LOOK
    if
    :: blamed != 0 -> fail_as_told(); goto out
    :: else -> skip
    fi;
#endif
    check_blame(who);
    give_up(who);
    goto out
}

proctype rank(byte me)
{
    byte m = 0;

    {
        do
        :: m < MEETINGS ->
            value[m * N + me] = 1;
            count[m]++;
            if
            :: count[m] == N -> done[m] = 1
            :: else -> skip
            fi;
            do
            :: done[m] || ALL_ARRIVED(m) -> break
            :: blamed != 0 -> fail_as_told(); goto out
            :: me != 0 && GONE(0) -> notice(0)
            :: me != 1 && GONE(1) -> notice(1)
            :: me != 2 && GONE(2) -> notice(2)
            od;
            m++;
            if
            :: atomic { m < MEETINGS && !spent -> spent = 1; failed[me] = 1 };
#ifndef SILENT
                give_up(me);
#endif
                goto out
            :: skip
            fi
        :: else -> break
        od
    } unless { killed[me] };
out:
    skip
}

init {
    atomic {
        run rank(0);
        run rank(1);
        run rank(2)
    };
    if
    :: killed[0] = 1
    :: killed[1] = 1
    :: skip
    fi
}

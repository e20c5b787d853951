/* SPDX-License-Identifier: Apache-2.0 */
/* Two slots used in turn (src/coll/run.c): operation n uses slot n % 2 of every rank, and nobody begins n before everybody
 * has begun n - 1. Some operations are rooted: then only the others read, and only the root's slot. Checked: a reader always
 * finds in a slot what was put there for its own operation, and everybody comes to the end.
 * Compile with -DNO_RULE to see a slot overwritten before it was read. */
#define RANKS 3
#define OPS 5

byte flag[6];    /* of rank r, slot s: flag[2 * r + s] holds the number of the operation */
byte payload[6]; /* what stands beside it */
byte ended;
bit rooted[6];   /* operation n is a broadcast of rank 0 */

proctype rank(byte me)
{
    byte n = 1, r;

    do
    :: n > OPS -> break
    :: else ->
#ifndef NO_RULE
        /* everybody has begun n - 1 */
        if
        :: n > 1 ->
            for (r : 0 .. RANKS - 1) {
                (r == me || flag[2 * r + (n - 1) % 2] >= n - 1)
            }
        :: else -> skip
        fi;
#endif
        payload[2 * me + n % 2] = n;
        flag[2 * me + n % 2] = n; /* release */
        if
        :: rooted[n] && me == 0 -> skip
        :: rooted[n] && me != 0 ->
            (flag[n % 2] >= n);
            assert(payload[n % 2] == n)
        :: else ->
            for (r : 0 .. RANKS - 1) {
                (r == me || flag[2 * r + n % 2] >= n);
                assert(payload[2 * r + n % 2] == n)
            }
        fi;
        n++
    od;
    ended++
}

init
{
    byte i;

    /* every mixture of kinds */
    for (i : 1 .. OPS) {
        if
        :: rooted[i] = 0
        :: rooted[i] = 1
        fi
    }
    atomic {
        for (i : 0 .. RANKS - 1) {
            run rank(i)
        }
    }
    (ended == RANKS)
}

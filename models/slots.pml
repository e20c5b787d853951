/* SPDX-License-Identifier: Apache-2.0 */
/* Slots used in turn (src/coll/run.c): operation n uses slot n % S of every rank, and nobody begins n before everybody
 * has begun n - S + 1; who has to wait for that waits for n - S / 2 at once. Some operations are rooted: then only the others read, and only the root's slot. Checked: a reader always
 * finds in a slot what was put there for its own operation, and everybody comes to the end.
 * Compile with -DNO_RULE to see a slot overwritten before it was read. */
#define RANKS 3
#define OPS 6
#ifndef S
#define S 4
#endif

byte flag[12];    /* of rank r, slot s: flag[S * r + s] holds the number of the operation */
byte payload[12]; /* what stands beside it */
byte ended;
bit rooted[7];   /* operation n is a broadcast of rank 0 */

proctype rank(byte me)
{
    byte n = 1, known = 0, r;

    do
    :: n > OPS -> break
    :: else ->
#ifndef NO_RULE
        if
        :: known + S <= n ->
            for (r : 0 .. RANKS - 1) {
                (r == me || flag[S * r + (n - S / 2) % S] >= n - S / 2)
            }
            known = n - S / 2
        :: else -> skip
        fi;
#endif
        payload[S * me + n % S] = n;
        flag[S * me + n % S] = n; /* release */
        if
        :: rooted[n] && me == 0 -> skip
        :: rooted[n] && me != 0 ->
            (flag[n % S] >= n);
            assert(payload[n % S] == n)
        :: else ->
            for (r : 0 .. RANKS - 1) {
                (r == me || flag[S * r + n % S] >= n);
                assert(payload[S * r + n % S] == n)
            }
            known = n
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Four buffers of a window used in turn (src/coll/staged.c): a rank puts piece k, says phase k + 1, and takes piece k - 1;
 * it puts piece k only when everybody's phase is at least k - 1. Checked: what is taken is what was put for that piece,
 * and everybody ends. Compile with -DBUFFERS=2 to see a buffer overwritten before it was read. */
#define RANKS 2
#define PIECES 8
#ifndef BUFFERS
#define BUFFERS 4
#endif

byte phase[RANKS];
byte buffer[8]; /* of rank r, buffer b: buffer[4 * r + b] holds piece + 1 */
byte ended;

proctype rank(byte me)
{
    byte k = 0, r;

    do
    :: k > PIECES -> break
    :: else ->
        if
        :: k < PIECES ->
            for (r : 0 .. RANKS - 1) {
                (r == me || k < 2 || phase[r] + 1 >= k)
            }
            buffer[4 * me + k % BUFFERS] = k + 1;
            phase[me] = k + 1
        :: else -> skip
        fi;
        if
        :: k > 0 ->
            for (r : 0 .. RANKS - 1) {
                (r == me || phase[r] >= k);
                assert(r == me || buffer[4 * r + (k - 1) % BUFFERS] == k)
            }
        :: else -> skip
        fi;
        k++
    od;
    phase[me] = PIECES + 1;
    ended++
}

init
{
    atomic {
        run rank(0);
        run rank(1)
    }
    (ended == RANKS)
}

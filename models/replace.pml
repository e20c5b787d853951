/* SPDX-License-Identifier: Apache-2.0 */
/* Survivors who make a group without a dead rank (src/coll/replace.c). Two survivors: rank 1 is in a group with the one that
 * dies, rank 0 is not. Both have a group T of their own, then an operation of all three (or none, and the group of survivors is
 * made anyway), then make the group Y, then use another group U of their own. Who fails goes to Y at once. Who makes Y
 * and knows of the death says until it is made that it waits there; whoever waits for it elsewhere, and has not come to Y,
 * fails. Checked: both arrive at the end, however late anybody is; and nobody fails in Y or U, which can be made and used.
 * Mistakes:
 *   -DNO_LOOK  a wait in T does not look whether the other one waits in Y.
 *   -DNO_ID    who waits in Y takes the other one, who waits there too, for one that waits elsewhere.
 *   -DFORGET   who has made Y does not remember it, while the other one may not have left it. */
bit dead;
bit lost[2];   /* the rank waits in Y, without a rank that it knows to be dead */
bit joined[2]; /* it has come to Y */
bit in_t[2], in_y[2], in_u[2];

#define AWAITED (lost[1 - me] && !joined[me])

active proctype victim()
{
    dead = 1 /* at any time */
}

proctype survivor(bit me; bit all)
{
    if
    :: me == 1 && dead -> goto recover /* told in its group with the victim */
    :: skip                            /* which came there before it died, or is none of this rank's business */
    fi;
    in_t[me] = 1;
    if
    :: in_t[1 - me]
#ifndef NO_LOOK
    :: AWAITED -> goto recover
#endif
    fi;
    if
    :: all -> dead /* nothing else ends an operation that the victim is in */
    :: else
    fi;
recover:
    joined[me] = 1;
    if
    :: dead -> lost[me] = 1
    :: !dead
    fi;
    in_y[me] = 1;
    if
    :: in_y[1 - me]
#ifdef NO_ID
    :: lost[1 - me] -> assert(false)
#endif
    fi;
    lost[me] = 0;
#ifdef FORGET
    joined[me] = 0;
#endif
    in_u[me] = 1;
    if
    :: in_u[1 - me]
    :: AWAITED -> assert(false)
    fi
}

init
{
    bit all;

    if
    :: all = 0
    :: all = 1
    fi;
    atomic { run survivor(0, all); run survivor(1, all) }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting on a bell when what is waited for and a failure come at once. */
#include "base/clock.h"
#include "base/error.h"
#include "coll/wait.h"
#include "tutti/testing.h"

typedef struct peer {
    bool arrives; /* before it leaves */
    bool here;
} peer;

static bool is_here(void *ctx)
{
    return ((peer *)ctx)->here;
}

/* The peer does its part, if it does, and leaves, all before it is looked after. */
static tt_status leaves(void *ctx)
{
    peer *p = ctx;

    p->here = p->arrives;
    return TT_FAIL(TT_ERR_PEER, "the peer left");
}

static tt_status wait_for(peer *p)
{
    static tti_bell bell;
    tti_patience patience = { .spins = 1, .yields = 1 };
    tti_wait w = {
        .ready = is_here, .check = leaves, .ctx = p, .deadline_ns = tti_deadline(60000)
    };

    return tti_bell_wait(&bell, &patience, &w);
}

TT_TEST(coll_wait, a_peer_that_left_after_its_part_is_no_failure)
{
    tt_clear_error();
    TT_CHECK_OK(wait_for(&(peer){ .arrives = true }));
    TT_CHECK_EQ(tti_error_state, TTI_ERROR_HANDLED);
    TT_CHECK_EQ(tt_last_status(), TT_OK);

    TT_FAIL(TT_ERR_FORMAT, "something before");
    TT_CHECK_OK(wait_for(&(peer){ .arrives = true }));
    TT_CHECK_EQ(tti_error_state, TTI_ERROR_PENDING);
    TT_CHECK_STR(tt_last_error(), "something before");
}

TT_TEST(coll_wait, a_peer_that_left_before_its_part_is_one)
{
    TT_CHECK_EQ(wait_for(&(peer){ .arrives = false }), TT_ERR_PEER);
    TT_CHECK_STR(tt_last_error(), "the peer left");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Runs an action once per allocation it makes, with that allocation failing. */
#include <inttypes.h>

#include "testing/testing.h"

enum { MAX_ALLOCS = 100000 }; /* an action that makes more every time would never end */

uint64_t tt_test_fail_allocs(tt_status (*fn)(void *ctx), void *ctx)
{
    for (uint64_t n = 1; n <= MAX_ALLOCS; n++) {
        uint64_t n_made;
        bool reached;
        tt_status st;

        tt_clear_error();
        tt_debug_fail_alloc(n);
        st = fn(ctx);
        n_made = tt_debug_fail_alloc(0);
        reached = n_made >= n;
        if (st != TT_OK && !(reached && st == TT_ERR_NOMEM)) {
            tt_test_fail(__FILE__, __LINE__, "allocation %" PRIu64 " of %" PRIu64 "%s: got %s: %s",
                         n, n_made, reached ? " failed" : " (none failed)", tt_status_name(st),
                         tt_last_error());
            return 0;
        }
        if (!reached)
            return n_made;
    }
    tt_test_fail(__FILE__, __LINE__, "more than %d allocations", MAX_ALLOCS);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: making them, viewing them, computing with them, and who owns them. */
#include <stdio.h>

#include "tutti/tutti.h"

/* Expressions return NULL when something is wrong, and so does everything that uses a NULL: check
 * once, at the end. */
static int show(const char *what, tt_tensor *t)
{
    if (t == NULL) {
        printf("%s failed: %s\n", what, tt_last_error());
        return 1;
    }
    printf("%s =\n", what);
    tt_print(t);
    return 0;
}

int main(void)
{
    tt_tensor *kept = NULL;
    float mine[] = { 1, 2, 3, 4, 5, 6 };
    int failed = 0;

    TT_SCOPE /* every tensor made in here ends here */
    {
        tt_tensor *a = tt_reshape(tt_arange(0, 6, 1, TT_F32, TT_CPU), TT_SHAPE(2, 3));
        tt_tensor *b = tt_wrap(mine, TT_SHAPE(2, 3), NULL, TT_F32, NULL, NULL); /* no copy */

        failed |= show("a", a);
        failed |= show("a * b + 1", tt_add_scalar(tt_mul(a, b), 1));
        failed |= show("a @ b^T", tt_matmul(a, tt_t(b)));
        failed |= show("column means of b", tt_mean_dim(b, 0, false));

        /* A view shares memory: what is written through it is seen by all. */
        tt_fill_(tt_select(b, 1, 0), 100);
        printf("mine[0] is now %g, mine[3] is %g\n", mine[0], mine[3]);

        /* The 3 columns broadcast against 2 rows. */
        failed |= show("b > row", tt_gt(b, TT_FLOATS(50, 2, 4)));

        kept = tt_tensor_retain(tt_sum(a)); /* outlives the scope */

        if (tt_matmul(a, b) == NULL)
            printf("as it should be, an error: %s\n", tt_last_error());
    }
    printf("the kept sum is %g\n", tt_item(kept));
    tt_tensor_free(kept);
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of tensors that only fit by broadcasting warn: [N, 1] against [N] is an old trap. */
#include <stdio.h>
#include <string.h>

#include "tutti/testing.h"
#include "tutti/tutti.h"

typedef struct heard {
    int n;
    char category[32], text[256];
} heard;

static void hear(void *ctx, const char *category, const char *message)
{
    heard *h = ctx;

    h->n++;
    snprintf(h->category, sizeof h->category, "%s", category);
    snprintf(h->text, sizeof h->text, "%s", message);
}

TT_TEST(ops_loss, warns_when_input_and_target_only_broadcast)
{
    heard h = { 0 };

    TT_REQUIRE_OK(tt_warnings_push(hear, &h));
    TT_SCOPE {
        tt_tensor *column = tt_ones(TT_SHAPE(3, 1), TT_F32, TT_CPU);
        tt_tensor *row = tt_zeros(TT_SHAPE(3), TT_F32, TT_CPU);

        TT_CHECK_NEAR(tt_item(tt_mse_loss(column, column)), 0.0, 0.0);
        TT_CHECK_EQ(h.n, 0);
        TT_CHECK_NEAR(tt_item(tt_mse_loss(column, row)), 1.0, 0.0);
        TT_CHECK_EQ(h.n, 1);
        TT_CHECK_STR(h.category, "broadcast");
        TT_CHECK_STR(h.text,
                     "mse_loss: the input has shape [3, 1] and the target [3]: is that meant?");
    }
    tt_warnings_pop();
}

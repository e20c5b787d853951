/* SPDX-License-Identifier: Apache-2.0 */
/* A process that adds two tensors on cl:0, waits for the sum, and says when it had it (seconds of the monotonic
 * clock): what starting costs. */
#include <stdio.h>
#include <time.h>

#include "tutti/tutti.h"

int main(void)
{
    struct timespec now;

    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(1024), TT_F32, tt_cl(0));

        if (tt_add(x, x) == NULL || tt_device_sync(tt_cl(0)) != TT_OK) {
            fprintf(stderr, "device_first: %s\n", tt_last_error());
            return 1;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%.6f\n", (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    return 0;
}

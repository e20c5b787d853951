/* SPDX-License-Identifier: Apache-2.0 */
/* A user's program: sees only what was installed. It makes a tensor, and compares the version of
 * the header with that of the library. */
#include <stdio.h>
#include <string.h>

#include <tutti/base.h>
#include <tutti/tensor.h>

int main(void)
{
    char version[32];
    float x[3];

    snprintf(version, sizeof version, "%d.%d.%d", TT_VERSION_MAJOR, TT_VERSION_MINOR,
             TT_VERSION_PATCH);
    if (strcmp(version, tt_version()) != 0) {
        printf("header %s, library %s\n", version, tt_version());
        return 1;
    }
    TT_SCOPE {
        tt_tensor *t = TT_FLOATS(1, 2, 3);

        if (t == NULL) {
            printf("%s\n", tt_last_error());
            return 1;
        }
        memcpy(x, tt_tensor_data(t), sizeof x);
    }
    printf("%g %g %g\n", (double)x[0], (double)x[1], (double)x[2]);
    return x[0] == 1 && x[1] == 2 && x[2] == 3 ? 0 : 1;
}

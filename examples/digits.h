/* SPDX-License-Identifier: Apache-2.0 */
/* Where the handwritten digits are, for the examples: these can be started in any directory. */
#ifndef EXAMPLES_DIGITS_H
#define EXAMPLES_DIGITS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tutti/tutti.h"

#define DIGITS_FILE "digits.csv.gz"

/* DIR/examples/data/digits.csv.gz for the nearest directory DIR above the program that has it. */
static inline int digits_above_program(char *path, size_t room)
{
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash;

    if (n < 0)
        return 0;
    program[n] = '\0';
    while ((slash = strrchr(program, '/')) != NULL) {
        *slash = '\0';
        if (snprintf(path, room, "%s/examples/data/" DIGITS_FILE, program) < (int)room &&
            access(path, R_OK) == 0)
            return 1;
    }
    return 0;
}

/* All digits, [1797, 65] float32: from the directory EXAMPLES_DATA if that is set in the environment, from examples/data here,
 * or from the source tree that the program is in. NULL, with a line on standard error, if there are none. */
static inline tt_tensor *digits_read(void)
{
    const char *dir = getenv("EXAMPLES_DATA");
    char path[4200] = "examples/data/" DIGITS_FILE;
    tt_tensor *digits;

    if (dir != NULL)
        snprintf(path, sizeof path, "%s/" DIGITS_FILE, dir);
    else if (access(path, R_OK) != 0 && !digits_above_program(path, sizeof path))
        snprintf(path, sizeof path, "examples/data/" DIGITS_FILE);
    digits = tt_csv_read(path, NULL);
    if (digits == NULL)
        fprintf(stderr,
                "%s was not read. Set EXAMPLES_DATA to the directory of " DIGITS_FILE
                ", which is examples/data of the source tree.\n",
                path);
    return digits;
}

#endif

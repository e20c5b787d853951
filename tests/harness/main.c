/* SPDX-License-Identifier: Apache-2.0 */
/* The program that runs all tests linked into it. */
#include <stdlib.h>

#include "tutti/testing.h"

int main(int argc, char **argv)
{
    setenv("TUTTI_CL_SPLIT", "3", 0); /* tests want several devices: one CPU serves as three */
    return tt_test_main(argc, argv);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The program that runs all tests linked into it. */
#include "tutti/testing.h"

int main(int argc, char **argv)
{
    return tt_test_main(argc, argv);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a snapshot adds up to the statistics of the same moment. */
#ifndef TESTS_DEVICE_BOOKS_H
#define TESTS_DEVICE_BOOKS_H

#include "tutti/memory.h"

/* All of it; the first difference ends the test. */
void books_check(const tt_memory_snapshot *s);
/* Takes a snapshot of the cache of d, checks it, and gives the statistics. */
tt_memory_report books_of(tt_device d);

#endif

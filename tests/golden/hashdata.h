/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers from a hash: what hashdata.py specifies, bit for bit. */
#ifndef GOLDEN_HASHDATA_H
#define GOLDEN_HASHDATA_H

#include <stdint.h>

uint64_t golden_fnv1a64(const char *name);
/* The hash of element i of a name with this base. */
uint64_t golden_hash(uint64_t base, uint64_t i);
void golden_fill_uniform(const char *name, float *out, int64_t n, float scale, float shift);
void golden_fill_integers(const char *name, int64_t *out, int64_t n, int64_t modulo);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers from counter-based generators (Philox): the same seed and offset give the same
 * numbers on every device and with any number of threads.
 *
 *     tt_seed(1234);
 *     tt_tensor *x = tt_randn(TT_SHAPE(3, 4), TT_F32, TT_CPU);
 */
#ifndef TUTTI_RANDOM_H
#define TUTTI_RANDOM_H

#include "tutti/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_generator tt_generator;

/* All there is to a generator's state. `offset` counts blocks of four 32-bit words drawn. */
typedef struct tt_generator_state {
    uint64_t seed;
    uint64_t offset;
} tt_generator_state;

/* gen NULL in any function means the default generator of the device, which starts with the seed
 * TUTTI_SEED, else 0. A generator may be used by several threads. */
TT_API tt_generator *tt_generator_new(uint64_t seed);
TT_API void tt_generator_free(tt_generator *g);
TT_API tt_generator *tt_default_generator(tt_device device);   /* borrowed; NULL: no such device */
TT_API void tt_generator_seed(tt_generator *g, uint64_t seed); /* offset becomes 0 */
TT_API tt_generator_state tt_generator_get(tt_generator *g);
TT_API void tt_generator_set(tt_generator *g, tt_generator_state state);
TT_API void tt_generator_set_offset(tt_generator *g, uint64_t offset); /* the seed stays */

/* The states of the default generators of all devices of a kind, at most n of them; returns how many devices
 * there are. */
TT_API int tt_generator_get_all(tt_device_kind kind, tt_generator_state *states, int n);
/* Set those of the first n devices. */
TT_API tt_status tt_generator_set_all(tt_device_kind kind, const tt_generator_state *states, int n);

/* Seed the default generators of all devices. */
TT_API void tt_seed(uint64_t seed);

/* Fill in place. gen NULL: the default generator of the tensor's device. */
TT_API tt_tensor *tt_uniform_(tt_tensor *x, double lo, double hi, tt_generator *gen);
TT_API tt_tensor *tt_normal_(tt_tensor *x, double mean, double std, tt_generator *gen);
TT_API tt_tensor *tt_bernoulli_(tt_tensor *x, double p, tt_generator *gen);
TT_API tt_tensor *tt_randint_(tt_tensor *x, int64_t lo, int64_t hi, tt_generator *gen);

/* New tensors: uniform in [0, 1); normal; int64 in [lo, hi); a permutation of 0 .. n - 1. */
TT_API tt_tensor *tt_rand(tt_shape shape, tt_dtype dtype, tt_device device);
TT_API tt_tensor *tt_randn(tt_shape shape, tt_dtype dtype, tt_device device);
TT_API tt_tensor *tt_randint(int64_t lo, int64_t hi, tt_shape shape, tt_device device);
TT_API tt_tensor *tt_randperm(int64_t n, tt_device device, tt_generator *gen);
/* Indices drawn with probability proportional to the last dimension of `weights`. */
TT_API tt_tensor *tt_multinomial(tt_tensor *weights, int64_t n, bool replacement,
                                 tt_generator *gen);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a whole training, so that it can go on after any interruption as if there had been none.
 *
 *     tt_training t = { .module = net, .optim = opt };
 *
 *     if (tt_training_load("checkpoints", pg, &t) == TT_ERR_NOT_FOUND)
 *         ...                                               // there is none yet: this is the first start
 *     while (t.step < 10000) {
 *         ... a step ...
 *         t.step++;
 *         if (t.step % 100 == 0)
 *             TT_TRY(tt_training_save("checkpoints", pg, &t, NULL));
 *     }
 *
 * A checkpoint is a directory with the tensors as safetensors files, the rest as CBOR, and a manifest with
 * sizes and checksums that is written last: without one it does not count. Killed at any moment, a training
 * finds the last complete checkpoint. All ranks see the same file system. The number of ranks may change from
 * one run to the next. */
#ifndef TUTTI_CHECKPOINT_H
#define TUTTI_CHECKPOINT_H

#include "tutti/nn.h"
#include "tutti/optim.h"
#include "tutti/pg.h"
#include "tutti/random.h"
#include "tutti/schedule.h"
#include "tutti/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A value in a file, with a checksum. Its tensors are loaded to where they were, or where the map puts them
 * (tt_value_decode_to). */
TT_API tt_status tt_value_save(const char *path, const tt_value *v);
TT_API tt_value *tt_value_load(const char *path, const tt_device_map *map);

/* What a training consists of; leave out what it does not have. */
typedef struct tt_training {
    tt_module *module;
    tt_optim *optim;
    tt_schedule *schedule;
    /* More tensors, the same on all ranks, as of tt_zero_save. Loading adds those of the checkpoint. */
    tt_state_dict *tensors;
    /* Of this rank, besides the default one of the CPU, which is always part of it; those of devices it
     * draws on are tt_default_generator(d). */
    tt_generator *const *generators;
    int n_generators;
    /* Anything of the training: rank 0's is kept. Loading frees and replaces it. */
    tt_value *value;
    /* Anything of this rank, as a hook's error feedback. Loading frees and replaces it; it becomes NULL if
     * the checkpoint was written by another number of ranks. */
    tt_value *own;
    /* Loading: where tensors of `value` and `own` go; NULL: where they were. */
    const tt_device_map *devices;

    int64_t step;
    /* The sampler's place: the epoch, and how many of its samples all ranks together have had (`start` of
     * tt_distributed_sampler_options). */
    uint64_t epoch;
    int64_t samples;
} tt_training;

typedef struct tt_training_save_options {
    bool sharded; /* every rank writes its share of the tensors; otherwise rank 0 writes them all */
    int keep;     /* so many complete ones stay; 0: 2 */
} tt_training_save_options;

/* Writes a checkpoint below `dir`, which is made if need be. When it returns TT_OK, the checkpoint is on the
 * disk and "latest" in `dir` names it. Collective (pg NULL: this process alone); fails on all ranks if it does
 * on one, and the checkpoints before stay. A failed save removes what it wrote, and every save first removes
 * what killed ones left, so that one on a full disk succeeds once there is room. */
TT_API tt_status tt_training_save(const char *dir, tt_pg *pg, const tt_training *t,
                                  const tt_training_save_options *opt);

/* Loads the latest complete checkpoint below `dir`, or the one that `dir` itself is. NOT_FOUND when there is
 * none; FORMAT, naming the file, when one is damaged: nothing has been changed then. Collective, like saving.
 * With another number of ranks, generators of ranks that were not there get seeds of their own. */
TT_API tt_status tt_training_load(const char *dir, tt_pg *pg, tt_training *t);

/* The path of the latest complete one; NULL, with NOT_FOUND, when there is none. Free with tt_text_free. Latest is
 * what was saved last, whatever its step: one that "latest" names, or one completed since. */
TT_API char *tt_training_latest(const char *dir);
/* Whether every file of a checkpoint (as of tt_training_latest) is there and whole. */
TT_API tt_status tt_training_check(const char *path);

#ifdef __cplusplus
}
#endif

#endif

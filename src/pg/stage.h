/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor as one piece of host memory, which is what travels. Dense tensors of the host are that already; strided
 * ones are packed; those on a device that computes in the host's memory are used in place once its stream is there,
 * and those on other devices are copied. */
#ifndef TTI_PG_STAGE_H
#define TTI_PG_STAGE_H

#include "device/accel.h"
#include "tensor/tensor.h"

typedef struct tti_stage {
    void *data;             /* what travels; not to be touched before tti_stage_wait */
    void *packed;           /* owned: of a strided tensor */
    tt_tensor *copy;        /* owned: on the host, of a tensor on a device */
    const tti_accel *accel; /* of the mark */
    tti_mark *mark;         /* owned: what the device has to do first; NULL: nothing */
} tti_stage;

/* Stages t; its elements are wanted if `in`. The caller keeps t. `apart`: in memory of its own even if t is dense, because
 * another tensor of the same call shares t's memory. */
tt_status tti_stage_open(tti_stage *s, tt_tensor *t, bool in, bool apart);
/* Until the data may be read and written; on any thread. */
tt_status tti_stage_wait(tti_stage *s);
/* The data are t's new elements. */
tt_status tti_stage_back(tti_stage *s, tt_tensor *t);
void tti_stage_close(tti_stage *s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of datasets and samplers: a table, its context and a count of references. */
#ifndef TTI_DATA_DATA_H
#define TTI_DATA_DATA_H

#include "tensor/tensor.h"
#include "tutti/data.h"

struct tt_dataset {
    atomic_int refs;
    const tt_dataset_ops *ops;
    void *ctx;
    int n_fields;
};

struct tt_sampler {
    atomic_int refs;
    const tt_sampler_ops *ops;
    void *ctx;
    int64_t length;
};

tt_dataset *tti_dataset_retain(tt_dataset *ds);
tt_sampler *tti_sampler_retain(tt_sampler *s);

/* Samples stacked along a new first dimension; see tt_collate_fn. */
tt_status tti_stack_samples(tt_tensor *const *samples, int64_t n, int n_fields, tt_tensor **out);

/* How many bytes a file may have whose first n are these. */
typedef size_t (*tti_limit_fn)(const char *data, size_t n);

/* A whole file, unpacked if it is compressed, with a NUL after its end. Free with tti_mfree. NULL
 * with the cause recorded, which begins with `what`. It is no longer than `limit`, which may be NULL, says: a small compressed
 * file may unpack to very much. */
char *tti_file_read(const char *what, const char *path, tti_limit_fn limit, size_t *size_p);

#endif

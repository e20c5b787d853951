/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets, samplers and loaders: from files or memory to batches.
 *
 *     tt_dataset *ds = tt_tensor_dataset_new((tt_tensor *[]){ images, labels }, 2);
 *     tt_loader *loader = tt_loader_new(ds, &(tt_loader_options){ .batch_size = 64, .shuffle = true });
 *     for (int epoch = 0; epoch < 10; epoch++)
 *         while (tt_loader_more(loader))
 *             TT_SCOPE {
 *                 tt_batch b = tt_loader_next(loader);     // b.x images, b.y labels
 *                 ...
 *             }
 *
 * Datasets, samplers and loaders are reference counted only inside: free yours when you like. */
#ifndef TUTTI_DATA_H
#define TUTTI_DATA_H

#include "tutti/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TT_MAX_FIELDS 8

/* ---- datasets: numbered samples of a few tensors each ------------------------------------------ */

typedef struct tt_dataset tt_dataset;

/* Which sample, and a random number that depends on nothing but the loader's seed, the epoch and the
 * index: use it for augmentation, and threads do not change the result. */
typedef struct tt_sample_at {
    int64_t index;
    uint64_t epoch;
    uint64_t random;
} tt_sample_at;

/* A dataset of your own. The functions may be called from several threads at once. */
typedef struct tt_dataset_ops {
    const char *name;
    int64_t (*length)(void *ctx);
    /* Fill fields[0 .. n_fields) with tensors of the innermost scope (or borrowed ones). */
    tt_status (*get)(void *ctx, tt_sample_at at, tt_tensor **fields);
    /* Optional: n samples at once, each field with a first dimension of n. */
    tt_status (*get_batch)(void *ctx, const tt_sample_at *at, int64_t n, tt_tensor **fields);
    void (*free)(void *ctx); /* may be NULL; not called when tt_dataset_new fails */
} tt_dataset_ops;

TT_API tt_dataset *tt_dataset_new(const tt_dataset_ops *ops, void *ctx, int n_fields);
TT_API void tt_dataset_free(tt_dataset *ds);
TT_API int64_t tt_dataset_length(const tt_dataset *ds); /* -1 with an error for NULL */
TT_API int tt_dataset_n_fields(const tt_dataset *ds);
/* One sample, in this thread's scope. */
TT_API tt_status tt_dataset_get(tt_dataset *ds, tt_sample_at at, tt_tensor **fields);

/* Rows of tensors that agree in their first dimension. Keeps references; what is not contiguous is
 * copied. Batches are gathered at once. */
TT_API tt_dataset *tt_tensor_dataset_new(tt_tensor *const *fields, int n);
/* The samples of `ds` with these indices, as for a split into training and validation. */
TT_API tt_dataset *tt_subset_dataset_new(tt_dataset *ds, const int64_t *indices, int64_t n);

/* ---- samplers: the order of an epoch ------------------------------------------------------------ */

typedef struct tt_sampler tt_sampler;

typedef struct tt_sampler_ops {
    const char *name;
    int64_t (*length)(void *ctx); /* indices per epoch, always the same */
    /* Write that many indices. Called by one thread at a time. */
    tt_status (*order)(void *ctx, uint64_t epoch, int64_t *indices);
    void (*free)(void *ctx); /* may be NULL; not called when tt_sampler_new fails */
} tt_sampler_ops;

TT_API tt_sampler *tt_sampler_new(const tt_sampler_ops *ops, void *ctx);
TT_API void tt_sampler_free(tt_sampler *s);
TT_API int64_t tt_sampler_length(const tt_sampler *s);
/* The indices of an epoch, tt_sampler_length of them. The same epoch gives the same order. */
TT_API tt_status tt_sampler_order(tt_sampler *s, uint64_t epoch, int64_t *indices);

TT_API tt_sampler *tt_sequential_sampler_new(int64_t n);

typedef struct tt_random_sampler_options {
    uint64_t seed;
    bool replacement;  /* draw independently */
    int64_t n_samples; /* per epoch; 0: n; more than n only with replacement */
} tt_random_sampler_options;

/* A permutation of 0 .. n - 1, another one for every epoch. */
TT_API tt_sampler *tt_random_sampler_new(int64_t n, const tt_random_sampler_options *opt);

typedef struct tt_distributed_sampler_options {
    uint64_t seed; /* the same on all ranks */
    bool in_order; /* do not shuffle */
    bool drop_last;
    /* Leave out so many from the beginning of the order: what other ranks, as many as they were, have
     * had of an epoch that is now to be finished. */
    int64_t start;
} tt_distributed_sampler_options;

/* Every size-th index of the epoch's order, beginning with `rank`. All ranks get the same number: the
 * order is repeated from where it began to fill up, or with drop_last cut at the end. The order depends on
 * seed and epoch, not on the number of ranks. tt_loader_seek resumes within an epoch. */
TT_API tt_sampler *tt_distributed_sampler_new(int64_t n, int rank, int size,
                                              const tt_distributed_sampler_options *opt);

/* Groups of batch_size indices; the last may be smaller, unless it is dropped. */
typedef struct tt_batch_sampler tt_batch_sampler;

TT_API tt_batch_sampler *tt_batch_sampler_new(tt_sampler *s, int64_t batch_size, bool drop_last);
TT_API void tt_batch_sampler_free(tt_batch_sampler *b);
TT_API int64_t tt_batch_sampler_length(const tt_batch_sampler *b); /* batches per epoch */
/* Batch i of an epoch: *n_p indices at *indices_p, borrowed until the next call. */
TT_API tt_status tt_batch_sampler_get(tt_batch_sampler *b, uint64_t epoch, int64_t i,
                                      const int64_t **indices_p, int64_t *n_p);

/* ---- loaders ------------------------------------------------------------------------------------ */

typedef struct tt_loader tt_loader;

/* Make a batch of n samples: samples[i * n_fields + f] is field f of sample i. Fill out[0 ..
 * n_fields) with tensors of the innermost scope. */
typedef tt_status (*tt_collate_fn)(void *ctx, tt_tensor *const *samples, int64_t n, int n_fields,
                                   tt_tensor **out);

typedef struct tt_loader_options {
    int64_t batch_size; /* 0: 1 */
    bool shuffle;       /* a random sampler with `seed` */
    bool drop_last;     /* leave out a smaller last batch */
    uint64_t seed;
    tt_sampler *sampler;   /* NULL: sequential, or as `shuffle` says */
    int n_threads;         /* 0: load in the thread that calls tt_loader_next */
    int n_ahead;           /* batches that threads load in advance; 0: two per thread */
    tt_collate_fn collate; /* NULL: stack the fields along a new first dimension */
    void *collate_ctx;
    tt_device device; /* an accelerator: batches are moved there when they are taken */
} tt_loader_options;

typedef struct tt_batch {
    tt_tensor *x; /* the first two fields; x is NULL after a failure */
    tt_tensor *y;
    tt_tensor *fields[TT_MAX_FIELDS];
    int n_fields;
    tt_status status; /* TT_OK, or why x is NULL; tt_last_error() has the words */
    int64_t size;     /* samples in it */
    int64_t number;   /* its place in the epoch */
    uint64_t epoch;
} tt_batch;

TT_API tt_loader *tt_loader_new(tt_dataset *ds, const tt_loader_options *opt);
/* At any time; waits for what the threads are loading at that moment. */
TT_API void tt_loader_free(tt_loader *l);

/* The next batch, in the order of the sampler whatever the number of threads. Its tensors belong to
 * this thread's scope. After the last batch of an epoch comes the first of the next. A batch that
 * could not be loaded has x NULL, so that expressions on it fail with its error; the next call goes
 * on with the batch after it. */
TT_API tt_batch tt_loader_next(tt_loader *l);
/* False once at the end of each epoch: when all its batches have been taken and none of the next. */
TT_API bool tt_loader_more(tt_loader *l);

TT_API int64_t tt_loader_batches(const tt_loader *l); /* per epoch */
TT_API uint64_t tt_loader_epoch(const tt_loader *l);  /* of the batch that comes next */
/* Go on with this batch of this epoch, as when a training is resumed. */
TT_API tt_status tt_loader_seek(tt_loader *l, uint64_t epoch, int64_t batch);

/* ---- readers -------------------------------------------------------------------------------------- */

typedef struct tt_csv_options {
    char delimiter;     /* 0: a comma */
    bool header;        /* the first line holds names */
    tt_dtype dtype;     /* TT_F32 or TT_F64 */
    const int *columns; /* which, in this order; NULL: all */
    int n_columns;
    int64_t max_rows; /* 0: all */
} tt_csv_options;

/* Numbers separated by commas, a row per line, all rows of one length: a tensor [rows, columns].
 * Files compressed with gzip are recognised. Empty lines are skipped; spaces around numbers and
 * quotes are allowed; "nan" and "inf" are numbers. A bad cell fails, naming line and column. */
TT_API tt_tensor *tt_csv_read(const char *path, const tt_csv_options *opt);
TT_API tt_tensor *tt_csv_parse(const char *text, size_t size, const tt_csv_options *opt);

/* IDX files, as MNIST's: a tensor of the type and shape the file says. May be compressed. */
TT_API tt_tensor *tt_idx_read(const char *path);
TT_API tt_tensor *tt_idx_parse(const void *data, size_t size);

typedef struct tt_token_options {
    int bits;          /* of a token: 16 or 32; 0: 16 */
    size_t skip_bytes; /* a header in front */
    int64_t stride;    /* from window to window; 0: context, so that they do not overlap */
    int64_t n_windows; /* > 0: so many windows at random places */
} tt_token_options;

/* Windows of a file of little-endian unsigned tokens, which is mapped into memory. A sample is x =
 * tokens [t, t + context) and y = tokens [t + 1, t + context + 1), int64. */
TT_API tt_dataset *tt_token_dataset_open(const char *path, int64_t context,
                                         const tt_token_options *opt);

#ifdef __cplusplus
}
#endif

#endif

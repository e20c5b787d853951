/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's kernels of neural networks by name, and what their parts per instruction set offer. */
#ifndef TTI_OPS_CPU_NN_KERNELS_H
#define TTI_OPS_CPU_NN_KERNELS_H

#include "ops/cpu/cpu.h"

/* ---- slots of tti_nn_cpu ------------------------------------------------------------------- */

tt_status tti_max_pool_cpu(tt_tensor *y, tt_tensor *indices, const tt_tensor *x, const tti_pool *p);
tt_status tti_avg_pool_cpu(tt_tensor *y, const tt_tensor *x, const tti_pool *p);
tt_status tti_avg_pool_grad_cpu(tt_tensor *dx, const tt_tensor *dy, const tti_pool *p);
tt_status tti_adaptive_pool_cpu(tt_tensor *y, tt_tensor *indices, const tt_tensor *x,
                                const tti_pool *p);
tt_status tti_adaptive_avg_pool_grad_cpu(tt_tensor *dx, const tt_tensor *dy, const tti_pool *p);
tt_status tti_max_pool_grad_cpu(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *indices);

tt_status tti_embedding_cpu(tt_tensor *out, const tt_tensor *weight, const tt_tensor *index);
tt_status tti_embedding_grad_cpu(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *index,
                                 int64_t skip);
tt_status tti_embedding_bag_cpu(tt_tensor *out, tt_tensor *counts, tt_tensor *argmax,
                                const tt_tensor *weight, const tti_bags *b);
tt_status tti_embedding_bag_grad_cpu(tt_tensor *dw, const tt_tensor *dy, const tt_tensor *counts,
                                     const tt_tensor *argmax, const tti_bags *b);
tt_status tti_embedding_bag_rows_cpu(tt_tensor *rows, const tt_tensor *dy, const tt_tensor *counts,
                                     const tti_bags *b);
tt_status tti_embedding_bag_sums_cpu(tt_tensor *rows_places[2], const tt_tensor *dy,
                                     const tt_tensor *counts, const tt_tensor *order,
                                     const tti_bags *b);
tt_status tti_embedding_bag_weights_grad_cpu(tt_tensor *dsample, const tt_tensor *dy,
                                             const tt_tensor *weight, const tti_bags *b);

tt_status tti_dropout_cpu(tt_tensor *y, const tt_tensor *x, double p, uint64_t seed,
                          uint64_t offset);

tt_status tti_attention_cpu(tt_tensor *out, tt_tensor *lse, const tt_tensor *qkv[3],
                            const tti_attention *a);
tt_status tti_attention_grad_cpu(tt_tensor *dqkv[3], const tt_tensor *dout, const tt_tensor *qkv[3],
                                 const tt_tensor *out_lse[2], const tti_attention *a);

/* ---- pooling, one plane at a time: nn_pool.isa.c ---------------------------------------------- */

typedef struct tti_plane {
    void *out;        /* written: the result, or the gradient of the input */
    int64_t *indices; /* NULL: not wanted */
    const void *in;
    void *scratch; /* tti_plane_scratch() bytes */
} tti_plane;

typedef void (*tti_plane_fn)(const tti_plane *io, const tti_pool *p);

static inline size_t tti_plane_scratch(const tti_pool *p)
{
    return ((size_t)(p->w + 2 * p->ow + 3 * p->kernel[1]) * sizeof(double) + 63) / 64 * 64;
}

typedef struct tti_pool_table {
    tti_plane_fn max[3], avg[3]; /* float32, float64, int64 */
    tti_plane_fn avg_grad[2], adaptive_max[2], adaptive_avg[2], adaptive_avg_grad[2];
} tti_pool_table;

TTI_ISA_DECLARE(const tti_pool_table, tti_pool_table);

/* ---- embedding: nn_embedding.isa.c -------------------------------------------------------------- */

/* Bags over a table of rows. `offsets` NULL: bag i is index[i] alone. */
typedef struct tti_bag_job {
    void *out;       /* forward: [bags, dim]; gradients: what is written */
    bool mean;       /* divide by counts */
    int64_t *counts; /* members that are not padding, per bag; NULL: mean is off */
    int64_t *argmax; /* likewise, for max; else NULL */
    const void *weight;
    const void *dy;
    const void *sample; /* NULL: ones */
    const int64_t *index, *offsets;
    int64_t n, bags, dim, padding;
    /* sums: members in the order of their rows, where each row's begin, and whose they are (-1:
     * nobody's) */
    const int64_t *order, *starts, *owner;
} tti_bag_job;

/* Over a range: of bags; for `sums` of groups; for `grad` and `max_grad`, which add to dw in order,
 * of columns. */
typedef void (*tti_bag_fn)(const tti_bag_job *job, int64_t begin, int64_t end);

typedef struct tti_bag_table {
    tti_bag_fn sum[4], max[4]; /* by tt_dtype, from float32 to bfloat16 */
    tti_bag_fn grad[2], max_grad[2], rows[2], sums[2], sample_grad[2]; /* float32, float64 */
} tti_bag_table;

TTI_ISA_DECLARE(const tti_bag_table, tti_bag_table);

/* ---- dropout: nn_dropout.isa.c ----------------------------------------------------------------- */

/* Elements [begin, begin + n) of a tensor, begin a multiple of 4. */
typedef struct tti_dropout_job {
    void *y;
    const void *x;
    int64_t begin, n;
    uint32_t below; /* words below this are dropped */
    double scale;
    uint64_t seed, offset;
} tti_dropout_job;

typedef void (*tti_dropout_fn)(const tti_dropout_job *job);

typedef struct tti_dropout_table {
    tti_dropout_fn f32, f64, f16, bf16;
} tti_dropout_table;

TTI_ISA_DECLARE(const tti_dropout_table, tti_dropout_table);

/* ---- attention: nn_attention.isa.c --------------------------------------------------------------- */

enum { TTI_ATTENTION_ROWS = 64 }; /* rows of queries in a block */

/* A matrix per batch and head, with unit stride inside rows. */
typedef struct tti_heads {
    void *data;
    int64_t batch, head, row; /* strides in elements */
} tti_heads;

typedef struct tti_attention_job {
    const tti_attention *a;
    tti_heads q, k, v, out;
    void *lse;                  /* [batch, heads, len_q] */
    const void *mask;           /* NULL: none */
    int64_t mask_strides[4];    /* batch, head, query, key */
    tti_heads dout, dq, dk, dv; /* backward */
} tti_attention_job;

/* The parts of the two kernels, for streams of devices that compute in the host's memory too: jobs are addresses
 * only, and the scratch memory (64-byte aligned) is the caller's. */
tti_heads tti_attention_heads(const tt_tensor *t);
tti_attention_job tti_attention_job_of(const tt_tensor *qkv[3], const tti_attention *a);
tti_attention_job tti_attention_grad_job(tt_tensor *dqkv[3], const tt_tensor *dout,
                                         const tt_tensor *qkv[3], const tt_tensor *out_lse[2],
                                         const tti_attention *a);
size_t tti_attention_scratch(const tti_attention *a, bool f64, bool backward, int *threads_p);
void tti_attention_forward(const tti_attention_job *j, bool f64, int threads, char *scratch);
void tti_attention_backward(const tti_attention_job *j, bool f64, int threads, char *scratch);

typedef struct tti_attention_table {
    size_t (*forward_scratch)(const tti_attention *a);
    /* Blocks of queries [begin, end) of one head (of batch * heads). */
    void (*forward)(const tti_attention_job *j, int64_t head, int64_t begin, int64_t end,
                    void *scratch);
    size_t (*backward_scratch)(const tti_attention *a);
    void (*backward)(const tti_attention_job *j, int64_t head, void *scratch);
} tti_attention_table;

/* [0] float32, [1] float64 */
typedef struct tti_attention_tables {
    tti_attention_table of[2];
} tti_attention_tables;

TTI_ISA_DECLARE(const tti_attention_tables, tti_attention_tables);

#endif

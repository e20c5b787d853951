/* SPDX-License-Identifier: Apache-2.0 */
/* Float32 products whose result is a vector: blocks of the matrix shared out to threads. */
#include "ops/cpu/gemv.h"

#include "base/mem.h"
#include "ops/cpu/parallel.h"

#define GRAIN 32768 /* elements of the matrix that are worth a thread */
#define DOTS 16     /* rows of a block whose rows are stored one after the other */
#define SUMS 1024   /* and of one whose columns are */

/* The product seen as that of a matrix [rows, terms] and a vector. */
typedef struct gemv_job {
    const tti_gemv_table *loops;
    const float *m, *x;
    float *y; /* a row for each part of the sums */
    int64_t rows, terms, ld;
    int64_t step; /* of x */
    int64_t block;
    bool dots;
} gemv_job;

static gemv_job job_of(const tti_mat *p, const float *a, const float *b)
{
    bool column = p->n == 1;
    gemv_job j = { .loops = TTI_ISA_PICK(tti_gemv_loops),
                   .m = column ? a : b,
                   .x = column ? b : a,
                   .rows = column ? p->m : p->n,
                   .terms = p->k,
                   .ld = column ? p->lda : p->ldb,
                   .dots = column ? !p->ta : p->tb };

    j.step = column ? (p->tb ? 1 : p->ldb) : (p->ta ? p->lda : 1);
    j.block = j.dots ? DOTS : SUMS;
    return j;
}

/* Block `turn` of the matrix: blocks of rows one after the other, for each part of the sums. */
static void run_turn(const gemv_job *j, int64_t turn)
{
    int64_t blocks = (j->rows + j->block - 1) / j->block, part = turn / blocks;
    int64_t row = turn % blocks * j->block, term = part * TTI_GEMV_PART;
    float packed[TTI_GEMV_PART];
    tti_gemv_block b = {
        .m = j->m + (j->dots ? row * j->ld + term : term * j->ld + row),
        .x = j->x + term * j->step,
        .y = j->y + part * j->rows + row,
        .rows = j->rows - row < j->block ? j->rows - row : j->block,
        .terms = j->terms - term < TTI_GEMV_PART ? j->terms - term : TTI_GEMV_PART,
        .ld = j->ld,
    };

    if (j->step != 1) {
        for (int64_t l = 0; l < b.terms; l++)
            packed[l] = b.x[l * j->step];
        b.x = packed;
    }
    if (j->dots)
        j->loops->dots(&b);
    else
        j->loops->sums(&b);
}

/* The parts of every sum in their order, scaled, into c. */
static void add_parts(const tti_mat *p, const gemv_job *j, int64_t parts, float *c)
{
    int64_t step = p->n == 1 ? p->ldc : 1;

    for (int64_t i = 0; i < j->rows; i++) {
        double sum = 0.0;

        for (int64_t part = 0; part < parts; part++)
            sum += (double)j->y[part * j->rows + i];
        sum *= p->alpha;
        c[i * step] = (float)(p->beta != 0.0 ? sum + p->beta * (double)c[i * step] : sum);
    }
}

tt_status tti_gemv(const tti_mat *p, const float *a, const float *b, float *c)
{
    gemv_job j = job_of(p, a, b);
    int64_t parts = (j.terms + TTI_GEMV_PART - 1) / TTI_GEMV_PART;
    int64_t turns = parts * ((j.rows + j.block - 1) / j.block);

    j.y = tti_malloc((size_t)(parts * j.rows) * sizeof *j.y);
    if (j.y == NULL)
        return TT_ERR_NOMEM;
    TTI_PARALLEL_FOR(tti_threads_for(j.rows * j.terms, GRAIN), turn, turns, 1, run_turn(&j, turn));
    add_parts(p, &j, parts, c);
    tti_mfree(j.y);
    return TT_OK;
}

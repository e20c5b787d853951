/* SPDX-License-Identifier: Apache-2.0 */
/* Float32 products cut at fixed places: see gemm_split.h. */
#include "ops/cpu/gemm_split.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "base/status.h"
#include "ops/cpu/parallel.h"

#define GRAIN 65536 /* multiply-adds that are worth a thread */

typedef struct split_job {
    const tti_mat *p;
    const float *a, *b;
    float *c;
    float *sums; /* [pieces, m, n] when the sums are cut, else NULL */
    tt_status (*one)(const tti_mat *p, const float *a, const float *b, float *c);
    int64_t piece;
    enum { CUT_ROWS, CUT_COLUMNS, CUT_SUMS } cut;
} split_job;

/* Element (row, column) of op(x). */
static const float *element(const float *x, bool trans, int64_t ld, int64_t row, int64_t column)
{
    return trans ? x + column * ld + row : x + row * ld + column;
}

static tt_status run_piece(const split_job *j, int64_t i)
{
    const tti_mat *p = j->p;
    int64_t at = i * j->piece;
    tti_mat part = *p;

    switch (j->cut) {
    case CUT_ROWS:
        part.m = p->m - at < j->piece ? p->m - at : j->piece;
        return j->one(&part, element(j->a, p->ta, p->lda, at, 0), j->b, j->c + at * p->ldc);
    case CUT_COLUMNS:
        part.n = p->n - at < j->piece ? p->n - at : j->piece;
        return j->one(&part, j->a, element(j->b, p->tb, p->ldb, 0, at), j->c + at);
    default:
        part.k = p->k - at < j->piece ? p->k - at : j->piece;
        part.beta = 0.0;
        part.ldc = p->n;
        return j->one(&part, element(j->a, p->ta, p->lda, 0, at),
                      element(j->b, p->tb, p->ldb, at, 0), j->sums + i * p->m * p->n);
    }
}

static void add_sums(const split_job *j, int64_t pieces)
{
    const tti_mat *p = j->p;

    for (int64_t i = 0; i < p->m * p->n; i++) {
        float *to = j->c + i / p->n * p->ldc + i % p->n;
        double sum = p->beta != 0.0 ? p->beta * (double)*to : 0.0;

        for (int64_t s = 0; s < pieces; s++)
            sum += (double)j->sums[s * p->m * p->n + i];
        *to = (float)sum;
    }
}

static tt_status run_pieces(const split_job *j, int64_t pieces)
{
    const tti_mat *p = j->p;
    atomic_int failed = TT_OK;

    TTI_PARALLEL_FOR(tti_threads_for(p->m * p->n * p->k, GRAIN), i, pieces, 1, {
        tt_status st = run_piece(j, i);

        if (st != TT_OK)
            atomic_store(&failed, (int)st);
    });
    if (atomic_load(&failed) == TT_OK)
        return TT_OK;
    return TT_FAIL((tt_status)atomic_load(&failed), "matmul: a piece of the product failed");
}

tt_status tti_gemm_split(const tti_mat *p, const float *a, const float *b, float *c,
                         tt_status (*one)(const tti_mat *p, const float *a, const float *b,
                                          float *c))
{
    split_job j = { .p = p, .a = a, .b = b, .c = c, .one = one, .piece = TTI_SPLIT_ROWS };
    int64_t length = p->m, pieces;
    tt_status st;

    if (p->k > TTI_SPLIT_TERMS && p->m * p->n <= TTI_SPLIT_PANEL) {
        j.cut = CUT_SUMS;
        j.piece = TTI_SPLIT_TERMS;
        length = p->k;
    } else if (p->m <= TTI_SPLIT_ROWS || p->n * p->k > TTI_SPLIT_PANEL) {
        j.cut = CUT_COLUMNS;
        length = p->n;
    }
    pieces = (length + j.piece - 1) / j.piece;
    if (j.cut == CUT_SUMS) {
        j.sums = tti_malloc((size_t)(pieces * p->m * p->n) * sizeof *j.sums);
        if (j.sums == NULL)
            return TT_ERR_NOMEM;
    }
    st = run_pieces(&j, pieces);
    if (st == TT_OK && j.cut == CUT_SUMS)
        add_sums(&j, pieces);
    tti_mfree(j.sums);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Orthonormal columns by Gram and Schmidt's way, each column twice: once is not enough when it is close to the
 * others. In float64 whatever the type is; the columns are few. */
#include <math.h>

#include "ddp/hooks/powersgd.h"
#include "tutti/ops.h"

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void take_out(double *x, const double *unit, int64_t n)
{
    double part = dot(x, unit, n);

    for (int64_t i = 0; i < n; i++)
        x[i] -= part * unit[i];
}

/* Takes the first k columns out of column k; its length is then returned. */
static double remove_others(double *columns, int64_t n, int64_t k)
{
    double *x = columns + k * n;

    for (int again = 0; again < 2; again++)
        for (int64_t j = 0; j < k; j++)
            take_out(x, columns + j * n, n);
    return sqrt(dot(x, x, n));
}

static void divide(double *x, int64_t n, double by)
{
    for (int64_t i = 0; i < n; i++)
        x[i] /= by;
}

/* A column that the others explain: the first axis that they do not. */
static void replace(double *columns, int64_t n, int64_t k)
{
    double *x = columns + k * n;

    for (int64_t axis = 0; axis < n; axis++) {
        double length;

        for (int64_t i = 0; i < n; i++)
            x[i] = i == axis;
        length = remove_others(columns, n, k);
        if (length > 0.5 / sqrt((double)n)) {
            divide(x, n, length);
            return;
        }
    }
}

static void make_orthonormal(double *columns, int64_t n, int64_t r, double epsilon)
{
    for (int64_t k = 0; k < r; k++) {
        double *x = columns + k * n;
        double before = sqrt(dot(x, x, n));
        double length = remove_others(columns, n, k);

        if (length > 1e-7 * before && length > 1e-30)
            divide(x, n, length + epsilon);
        else
            replace(columns, n, k);
    }
}

tt_status tti_orthogonalize(tt_tensor *t, double epsilon, bool *finite_p)
{
    int64_t n = tt_tensor_size(t, 0), r = tt_tensor_size(t, 1);
    tt_status st = TT_OK;

    *finite_p = true;
    TT_SCOPE {
        tt_tensor *columns = tt_copy_(tt_empty(TT_SHAPE(r, n), TT_F64, TT_CPU), tt_t(t));
        double *x;

        if (columns == NULL)
            return tt_last_status();
        x = tt_tensor_data(columns);
        for (int64_t i = 0; i < n * r; i++)
            *finite_p = *finite_p && isfinite(x[i]);
        if (*finite_p) {
            make_orthonormal(x, n, r, epsilon);
            st = tt_copy_(t, tt_t(columns)) != NULL ? TT_OK : tt_last_status();
        }
    }
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Checks on tensors, for tests. Elements are read in row-major order and compared as double; NaN
 * equals NaN here.
 *
 *     TT_CHECK_VALUES(tt_add(a, b), 1, 2, 3);          // exactly these, and as many
 *     TT_CHECK_CLOSE(tt_exp(a), 1e-6, 1, 2.718282);    // |got - want| <= tol * max(1, |want|)
 *     TT_CHECK_SHAPE(t, 2, 3);
 *     TT_CHECK_TENSOR(a, b, 1e-6);                     // two tensors: shape, type, elements
 */
#ifndef TESTS_HARNESS_CHECK_TENSOR_H
#define TESTS_HARNESS_CHECK_TENSOR_H

#include <tutti/tensor.h>
#include <tutti/testing.h>

bool tti_test_close(const char *file, int line, const tt_tensor *t, const double *expected,
                    size_t n, double tol);
bool tti_test_shape(const char *file, int line, const tt_tensor *t, tt_shape shape);
bool tti_test_same(const char *file, int line, const tt_tensor *a, const tt_tensor *b, double tol);

#define TT_CHECK_CLOSE(t, tol, ...)                                        \
    tti_test_close(__FILE__, __LINE__, t, (const double[]){ __VA_ARGS__ }, \
                   sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double), tol)
#define TT_CHECK_VALUES(t, ...) TT_CHECK_CLOSE(t, 0.0, __VA_ARGS__)
#define TT_CHECK_SHAPE(t, ...) tti_test_shape(__FILE__, __LINE__, t, TT_SHAPE(__VA_ARGS__))
#define TT_CHECK_TENSOR(a, b, tol) tti_test_same(__FILE__, __LINE__, a, b, tol)

/* Compare the gradients of sum(f(inputs) * fixed weights) with central differences, in float64:
 * `in` are n leaves that require gradients. Checks, and says which element differs. With `twice`
 * the gradients' own gradients are checked too. */
typedef tt_tensor *(*tti_test_fn)(tt_tensor *const *in);
bool tti_test_gradients(const char *file, int line, tti_test_fn fn, tt_tensor *const *in, int n,
                        bool twice);
#define TT_CHECK_GRADIENTS(fn, in, n, twice) \
    tti_test_gradients(__FILE__, __LINE__, fn, in, n, twice)

#endif

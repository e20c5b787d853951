/* SPDX-License-Identifier: Apache-2.0 */
/* Interim: a call of an operator that is not written yet ends its test as skipped. */
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "golden/golden.h"
#include "golden/weak.h"
#include "tutti/testing.h"

static void on_fault(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_addr == NULL)
        TT_SKIP("an operator is not written yet");
    signal(sig, SIG_DFL);
}

void skip_unwritten(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

    sigaction(SIGSEGV, &action, NULL);
}

static float half_value(uint16_t h, bool brain)
{
    union {
        uint32_t u;
        float f;
    } bits = { .u = (uint32_t)h << 16 };
    __extension__ _Float16 f16;

    if (brain)
        return bits.f;
    memcpy(&f16, &h, sizeof(h));
    return (float)f16;
}

static void element(const tt_tensor *t, const int64_t *index, double v[2])
{
    const int64_t *s = tt_tensor_strides(t);
    const char *p = tt_tensor_data(t);
    tt_dtype d = tt_tensor_dtype(t);

    for (int i = 0; i < tt_tensor_dims(t); i++)
        p += index[i] * s[i] * (int64_t)tt_dtype_size(d);
    v[1] = 0;
    switch (d) {
    case TT_F32: v[0] = *(const float *)p; break;
    case TT_F64: v[0] = *(const double *)p; break;
    case TT_F16: v[0] = half_value(*(const uint16_t *)p, false); break;
    case TT_BF16: v[0] = half_value(*(const uint16_t *)p, true); break;
    case TT_I8: v[0] = *(const int8_t *)p; break;
    case TT_U8: v[0] = *(const uint8_t *)p; break;
    case TT_I16: v[0] = *(const int16_t *)p; break;
    case TT_I32: v[0] = *(const int32_t *)p; break;
    case TT_I64: v[0] = (double)*(const int64_t *)p; break;
    case TT_BOOL: v[0] = *(const bool *)p; break;
    case TT_C64: v[0] = ((const float *)p)[0], v[1] = ((const float *)p)[1]; break;
    case TT_C128: v[0] = ((const double *)p)[0], v[1] = ((const double *)p)[1]; break;
    }
}

static bool part_equal(double a, double b)
{
    return (isnan(a) && isnan(b)) || !(a < b || a > b || isnan(a) || isnan(b));
}

static bool near(const double a[2], const double b[2], const tt_close_options *opt)
{
    if (part_equal(a[0], b[0]) && part_equal(a[1], b[1]))
        return true;
    if (!isfinite(b[0]) || !isfinite(b[1]))
        return false;
    return hypot(a[0] - b[0], a[1] - b[1]) <= opt->atol + opt->rtol * hypot(b[0], b[1]);
}

__attribute__((weak)) bool tt_compare(const tt_tensor *a, const tt_tensor *b,
                                      const tt_close_options *opt, tt_close_report *r)
{
    tt_shape s = tt_tensor_shape(b);
    int64_t index[TT_MAX_DIMS] = { 0 };

    memset(r, 0, sizeof(*r));
    if (tt_tensor_dtype(a) != tt_tensor_dtype(b)) {
        snprintf(r->text, sizeof(r->text), "type %s, wanted %s",
                 tt_dtype_name(tt_tensor_dtype(a)), tt_dtype_name(tt_tensor_dtype(b)));
        return false;
    }
    if (!tt_shape_equal(tt_tensor_shape(a), s)) {
        snprintf(r->text, sizeof(r->text), "shapes differ");
        return false;
    }
    for (int64_t n = tt_shape_numel(s), i = 0; i < n; i++) {
        double va[2], vb[2];
        int64_t rest = i;

        for (int k = s.n_dims - 1; k >= 0; k--) {
            index[k] = rest % s.dims[k];
            rest /= s.dims[k];
        }
        element(a, index, va);
        element(b, index, vb);
        if (!near(va, vb, opt)) {
            snprintf(r->text, sizeof(r->text), "element %lld: %.9g%+.9gi, wanted %.9g%+.9gi",
                     (long long)i, va[0], va[1], vb[0], vb[1]);
            return false;
        }
    }
    return true;
}

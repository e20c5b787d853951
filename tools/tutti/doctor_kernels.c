/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the kernels of a device build and compute what the CPU computes: one operator of every family. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "doctor.h"
#include "tutti/functional.h"
#include "tutti/ops.h"
#include "tutti/random.h"

enum { SIDE = 16 };

/* x is a square matrix. NULL: this type is not for it. */
typedef tt_tensor *family_fn(tt_tensor *x);

static tt_tensor *elements(tt_tensor *x)
{
    return tt_add(tt_mul(x, x), x);
}

static tt_tensor *functions(tt_tensor *x)
{
    return tt_tanh(tt_exp(x));
}

static tt_tensor *conversions(tt_tensor *x)
{
    return tt_to_dtype(x, TT_I32);
}

static tt_tensor *copies(tt_tensor *x)
{
    return tt_contiguous(tt_t(x));
}

static tt_tensor *sums(tt_tensor *x)
{
    return tt_sum_dim(x, 0, false);
}

static tt_tensor *scans(tt_tensor *x)
{
    return tt_cumsum(x, 1);
}

static tt_tensor *sorts(tt_tensor *x)
{
    return tt_sort(x, 1, true, NULL);
}

static tt_tensor *indices(tt_tensor *x)
{
    return tt_index_select(x, 0, tt_to_device(TT_INTS(3, 1, 2, 3), tt_tensor_device(x)));
}

static tt_tensor *products(tt_tensor *x)
{
    return tt_mm(x, x);
}

static tt_tensor *convolutions(tt_tensor *x)
{
    return tt_conv2d(tt_view(x, TT_SHAPE(1, 1, SIDE, SIDE)),
                     tt_view(tt_narrow(tt_narrow(x, 0, 0, 1), 1, 0, 9), TT_SHAPE(1, 1, 3, 3)), NULL,
                     NULL);
}

static tt_tensor *pools(tt_tensor *x)
{
    return tt_max_pool2d(tt_view(x, TT_SHAPE(1, 1, SIDE, SIDE)),
                         &(tt_pool_options){ .kernel = { 2, 2 } }, NULL);
}

static tt_tensor *softmaxes(tt_tensor *x)
{
    return tt_softmax(x, 1);
}

static tt_tensor *norms(tt_tensor *x)
{
    return tt_layer_norm(x, 1, NULL, NULL, 1e-5);
}

static tt_tensor *randoms(tt_tensor *x)
{
    tt_tensor *y = tt_empty_like(x);
    tt_generator *g = tt_generator_new(7);
    tt_tensor *r;

    if (y == NULL || g == NULL)
        return NULL;
    r = tt_uniform_(y, 0, 1, g);
    tt_generator_free(g);
    return r;
}

static const struct {
    const char *name;
    family_fn *fn;
} families[] = { { "elements", elements },
                 { "functions", functions },
                 { "conversions", conversions },
                 { "copies", copies },
                 { "sums", sums },
                 { "scans", scans },
                 { "sorting", sorts },
                 { "indexing", indices },
                 { "products", products },
                 { "convolutions", convolutions },
                 { "pooling", pools },
                 { "softmax", softmaxes },
                 { "norms", norms },
                 { "random", randoms } };

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Numbers from 0 to about 2, all different where the type has them. */
static tt_tensor *numbers(tt_dtype dtype)
{
    float values[SIDE * SIDE];

    for (int i = 0; i < SIDE * SIDE; i++)
        values[i] = tt_dtype_is_integral(dtype) ? (float)(i * 7 % 11) : (float)(i * 37 % 257) / 128;
    return tt_to_dtype(tt_from_data(values, TT_SHAPE(SIDE, SIDE), TT_F32), dtype);
}

static const char *first_line(char *text, size_t size)
{
    snprintf(text, size, "%s", tt_last_error());
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static void try_family(tti_doctor *d, tt_device device, int f, tt_dtype dtype)
{
    tt_tensor *here = numbers(dtype), *there, *want = here != NULL ? families[f].fn(here) : NULL;
    tt_tensor *got;
    char what[64], name[16], words[256];
    double start;

    if (want == NULL)
        return; /* the CPU cannot do it either */
    snprintf(what, sizeof what, "%s %s %s", tt_device_name(device, name, sizeof name),
             families[f].name, tt_dtype_name(dtype));
    there = tt_to_device(here, device);
    start = now_ms();
    got = there != NULL ? families[f].fn(there) : NULL;
    got = got != NULL ? tt_to_device(got, TT_CPU) : NULL;
    if (got == NULL)
        tti_doctor_say(d, what, TTI_STATE_BROKEN,
                       "report this with the output of `tutti doctor --kernels --json`", "%s",
                       first_line(words, sizeof words));
    else if (!tt_allclose(got, want, NULL))
        tti_doctor_say(d, what, TTI_STATE_BROKEN,
                       "update the OpenCL driver; if that does not help, report it",
                       "computes other numbers than the CPU");
    else
        tti_doctor_say(d, what, TTI_STATE_OK, NULL, "built and ran in %.0f ms", now_ms() - start);
}

void tti_doctor_kernels(tti_doctor *d, tt_device device, bool all)
{
    tt_device_properties p;

    if (tt_device_properties_get(device, &p) != TT_OK)
        return;
    for (int dtype = 0; dtype < (all ? TT_N_DTYPES : 1); dtype++)
        for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
            bool wide = dtype == TT_F64 || dtype == TT_C128;

            if (wide && !p.has_fp64)
                continue;
            TT_SCOPE
                try_family(d, device, (int)f, (tt_dtype)dtype);
        }
}

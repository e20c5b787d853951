/* SPDX-License-Identifier: Apache-2.0 */
/* 8 bits per element: every rank sends its gradients as bytes with the scales to read them by; all ranks read all
 * of them and take the mean, in the order of ranks.
 *
 *     message of a rank: scales (float32, one per channel), zeros (float32, likewise), bytes
 */
#include <float.h>
#include <math.h>

#include "ddp/hooks/stock.h"
#include "tutti/ops.h"

#define CHANNEL 512 /* elements with one scale, if there are several scales */

typedef struct exchange {
    tt_tensor *flat; /* retained */
    tt_tensor *mine; /* retained: the message */
    tt_tensor *all;  /* retained: everybody's */
    int size;        /* of the group */
    int64_t n;       /* elements */
    int64_t width;   /* of a channel */
    int64_t channels;
} exchange;

static void exchange_free(exchange *x)
{
    tt_tensor_free(x->flat);
    tt_tensor_free(x->mine);
    tt_tensor_free(x->all);
    tti_mfree(x);
}

/* How the value of a byte is found: (byte - zero) * scale. 0 is always among the values. */
typedef struct reading {
    float scale, zero;
} reading;

enum { LANES = 16 }; /* so that compilers find vectors */

/* The least and the greatest of x and 0; *odd_p is 0 if all are finite, else NaN. */
static void range(const float *x, int64_t n, float *lo_p, float *hi_p, float *odd_p)
{
    float lo[LANES] = { 0 }, hi[LANES] = { 0 }, odd[LANES] = { 0 };
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float v = x[i + k];

            lo[k] = v < lo[k] ? v : lo[k];
            hi[k] = v > hi[k] ? v : hi[k];
            odd[k] += v - v;
        }
    for (; i < n; i++) {
        lo[0] = x[i] < lo[0] ? x[i] : lo[0];
        hi[0] = x[i] > hi[0] ? x[i] : hi[0];
        odd[0] += x[i] - x[i];
    }
    for (int k = 1; k < LANES; k++) {
        lo[0] = lo[k] < lo[0] ? lo[k] : lo[0];
        hi[0] = hi[k] > hi[0] ? hi[k] : hi[0];
        odd[0] += odd[k];
    }
    *lo_p = lo[0];
    *hi_p = hi[0];
    *odd_p = odd[0];
}

static reading choose(const float *x, int64_t n)
{
    float lo, hi, odd, scale;

    range(x, n, &lo, &hi, &odd);
    if (odd != 0)
        return (reading){ NAN, 0 };
    scale = hi / 255 - lo / 255; /* hi - lo may be more than there is */
    if (scale < FLT_MIN)         /* 1 / scale may be, too */
        return (reading){ 1, 0 };
    return (reading){ scale, rintf(fminf(-lo / scale, 255)) };
}

static void write_channel(const float *x, int64_t n, reading r, uint8_t *out)
{
    float by = isnan(r.scale) ? 0 : 1 / r.scale,
          zero = r.zero + 0.5F; /* rounds, as q is positive */

    for (int64_t i = 0; i < n; i++) {
        float q = x[i] * by + zero;

        q = q > 0 ? q : 0; /* NaN: 0 */
        q = q < 255 ? q : 255;
        out[i] = (uint8_t)(int32_t)q;
    }
}

static int64_t length_of(const exchange *x, int64_t channel)
{
    int64_t left = x->n - channel * x->width;

    return left < x->width ? left : x->width;
}

static void write_message(const exchange *x, const float *values)
{
    float *scales = tt_tensor_data(x->mine);
    float *zeros = scales + x->channels;
    uint8_t *bytes = (uint8_t *)(zeros + x->channels);

    for (int64_t c = 0; c < x->channels; c++) {
        int64_t at = c * x->width;
        reading r = choose(values + at, length_of(x, c));

        scales[c] = r.scale;
        zeros[c] = r.zero;
        write_channel(values + at, length_of(x, c), r, bytes + at);
    }
}

/* Adds one rank's part of the mean. */
static void read_message(const exchange *x, int rank, float *mean)
{
    const float *scales = (const float *)((const char *)tt_tensor_data(x->all) +
                                          (size_t)rank * tt_tensor_bytes(x->mine));
    const float *zeros = scales + x->channels;
    const uint8_t *bytes = (const uint8_t *)(zeros + x->channels);

    for (int64_t c = 0; c < x->channels; c++) {
        int64_t at = c * x->width, n = length_of(x, c);
        float scale = scales[c] / (float)x->size, zero = zeros[c];

        for (int64_t i = at; i < at + n; i++)
            mean[i] += ((float)bytes[i] - zero) * scale;
    }
}

static tt_value *mean_of_all(void *ctx, tt_future *f)
{
    exchange *x = ctx;
    tt_value *v = NULL;

    if (f != NULL && tt_future_value(f) != NULL)
        TT_SCOPE
            TT_NO_GRAD
            {
                tt_tensor *mean = tt_zeros(TT_SHAPE(x->n), TT_F32, TT_CPU);

                for (int r = 0; mean != NULL && r < x->size; r++)
                    read_message(x, r, tt_tensor_data(mean));
                if (tt_copy_(x->flat, mean) != NULL)
                    v = tt_value_tensor_new(x->flat);
            }
    exchange_free(x);
    return v;
}

static exchange *exchange_new(tt_pg *pg, tt_tensor *flat, int64_t width)
{
    exchange *x = tti_calloc(1, sizeof *x);
    int64_t bytes;

    if (x == NULL)
        return NULL;
    x->size = tt_pg_size(pg);
    x->n = tt_tensor_numel(flat);
    x->width = width > 0 ? width : x->n;
    x->channels = (x->n + x->width - 1) / x->width;
    /* Whole floats, so that the next rank's scales are aligned. */
    bytes = (2 * x->channels + (x->n + 3) / 4) * (int64_t)sizeof(float);
    x->flat = tt_tensor_retain(flat);
    x->mine = tt_tensor_retain(tt_zero_(tt_pg_alloc(pg, TT_SHAPE(bytes), TT_U8)));
    x->all = tt_tensor_retain(tt_pg_alloc(pg, TT_SHAPE(bytes * x->size), TT_U8));
    if (x->mine != NULL && x->all != NULL)
        return x;
    exchange_free(x);
    return NULL;
}

static tt_future *quantize(tt_pg *pg, const tt_ddp_bucket *b, int64_t width)
{
    tt_tensor *values = tt_to_device(tt_to_dtype(b->flat, TT_F32), TT_CPU);
    tt_work *w = NULL;
    exchange *x;

    if (!tt_dtype_is_floating(tt_tensor_dtype(b->flat)))
        return TT_FAIL_NULL(TT_ERR_UNSUPPORTED, "quantization: expected real gradients, got %s",
                            tt_dtype_name(tt_tensor_dtype(b->flat)));
    if (!tt_pg_is_member(pg))
        return tti_hook_ready(b->flat);
    x = values != NULL ? exchange_new(pg, b->flat, width) : NULL;
    if (x == NULL)
        return NULL;
    write_message(x, tt_tensor_data(values));
    if (tt_pg_all_gather_into(pg, x->mine, x->all, NULL, &w) != TT_OK) {
        exchange_free(x);
        return NULL;
    }
    return tti_hook_then(tti_hook_future(w), mean_of_all, x);
}

tt_future *tt_ddp_quantize_per_tensor_hook(void *pg, const tt_ddp_bucket *b)
{
    return quantize(pg != NULL ? pg : b->pg, b, 0);
}

tt_future *tt_ddp_quantize_per_channel_hook(void *pg, const tt_ddp_bucket *b)
{
    return quantize(pg != NULL ? pg : b->pg, b, CHANNEL);
}

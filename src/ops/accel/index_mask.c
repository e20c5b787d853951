/* SPDX-License-Identifier: Apache-2.0 */
/* nonzero, masked_select and its reverse on accelerators: see index_mask.cl. */
#include "ops/accel/index.h"

#define CHUNK 1024  /* elements at least, */
#define CHUNKS 8192 /* and chunks at most */

enum { COUNT, BEFORE, NONZERO, SELECT, SCATTER, N_KERNELS };

extern const char tti_source_index_mask[];
static const tti_program program = {
    "index_mask", { tti_source_loops, tti_source_index_element, tti_source_index_mask }
};

/* The elements of a tensor in chunks, with what is before each, and the sum after the last. */
typedef struct chunks {
    tt_device device;
    uint64_t n, chunk, chunks;
    uint64_t *counts; /* on the device, chunks + 1 of them */
} chunks;

static tt_status run(tt_device d, int which, size_t e, tti_grid grid, const tti_arg *args,
                     int n_args)
{
    static tti_kernel_slot slots[TTI_ELEMENT_SIZES][N_KERNELS];
    static const char *const names[] = { "mask_count", "mask_before", "mask_nonzero", "mask_select",
                                         "mask_scatter" };
    tti_kernel *k = tti_kernel_get(&slots[tti_accel_size_number(e)][which], d, &program,
                                   tti_accel_size_option(e), names[which]);

    return k != NULL ? tti_launch(d, k, grid, args, n_args) : tt_last_status();
}

/* The bits of an element of which one must be set: all but signs of floating-point numbers. */
static uint64_t bits_of(tt_dtype d)
{
    switch (d) {
    case TT_F16:
    case TT_BF16:
        return 0x7fff;
    case TT_F32:
        return 0x7fffffff;
    case TT_C64:
        return 0x7fffffff7fffffff;
    case TT_F64:
    case TT_C128:
        return INT64_MAX;
    default:
        return UINT64_MAX;
    }
}

static tti_grid grid_of(const chunks *c)
{
    return tti_accel_grid_tasks(c->device, (int64_t)c->chunks, (int64_t)c->chunk);
}

static size_t count_bytes(const chunks *c)
{
    return (size_t)(c->chunks + 1) * sizeof *c->counts;
}

static void chunks_close(chunks *c)
{
    tti_accel_scratch_free(c->device, c->counts, count_bytes(c));
}

static tt_status find_counts(chunks *c, const tt_tensor *x)
{
    uint64_t bits = bits_of((tt_dtype)x->dtype);
    tti_arg count[] = { TTI_MEM(c->counts), TTI_MEM(tti_data(x)), TTI_VAL(c->n), TTI_VAL(c->chunk),
                        TTI_VAL(bits) };
    tti_arg before[] = { TTI_MEM(c->counts), TTI_VAL(c->chunks) };

    TT_TRY(run(c->device, COUNT, tti_esize(x), grid_of(c), count, 5));
    return run(c->device, BEFORE, tti_esize(x), (tti_grid){ 1 }, before, 2);
}

/* x is not empty. */
static tt_status chunks_open(chunks *c, const tt_tensor *x)
{
    tt_status st;

    *c = (chunks){ .device = x->device, .n = (uint64_t)x->numel };
    c->chunk = (c->n + CHUNKS - 1) / CHUNKS;
    c->chunk = c->chunk < CHUNK ? CHUNK : c->chunk;
    c->chunks = (c->n + c->chunk - 1) / c->chunk;
    c->counts = tti_accel_scratch(c->device, count_bytes(c));
    if (c->counts == NULL)
        return tt_last_status();
    st = find_counts(c, x);
    if (st != TT_OK)
        chunks_close(c);
    return st;
}

tt_status tti_accel_count_nonzero(const tt_tensor *x, int64_t *n_p)
{
    chunks c;
    tt_status st;

    *n_p = 0;
    if (x->numel == 0)
        return TT_OK;
    TT_TRY(chunks_open(&c, x));
    st = tti_driver_of(x->device)->copy_out(x->device.index, n_p, c.counts + c.chunks, sizeof *n_p);
    chunks_close(&c);
    return st;
}

tt_status tti_accel_nonzero(tt_tensor *out, const tt_tensor *x)
{
    uint64_t bits = bits_of((tt_dtype)x->dtype);
    tti_accel_loop dims = { .n = x->n_dims, .total = x->numel };
    chunks c;
    tt_status st;

    if (out->numel == 0)
        return TT_OK;
    for (int i = 0; i < x->n_dims; i++)
        dims.dims[i] = x->dims[i];
    TT_TRY(chunks_open(&c, x));
    {
        tti_arg args[] = { TTI_MEM(tti_data(out)), TTI_MEM(c.counts), TTI_MEM(tti_data(x)),
                           TTI_VAL(c.n),           TTI_VAL(c.chunk),  TTI_VAL(bits),
                           TTI_VAL(dims) };

        st = run(x->device, NONZERO, tti_esize(x), grid_of(&c), args, 7);
    }
    chunks_close(&c);
    return st;
}

tt_status tti_accel_masked_select(tt_tensor *out, const tt_tensor *x, const tt_tensor *mask)
{
    chunks c;
    tt_status st;

    if (out->numel == 0)
        return TT_OK;
    TT_TRY(chunks_open(&c, mask));
    {
        tti_arg args[] = { TTI_MEM(tti_data(out)), TTI_MEM(tti_data(x)), TTI_MEM(tti_data(mask)),
                           TTI_MEM(c.counts),      TTI_VAL(c.n),         TTI_VAL(c.chunk) };

        st = run(x->device, SELECT, tti_esize(x), grid_of(&c), args, 6);
    }
    chunks_close(&c);
    return st;
}

tt_status tti_accel_masked_scatter(tt_tensor *out, const tt_tensor *mask, const tt_tensor *src)
{
    uint64_t size = (uint64_t)src->numel;
    int32_t op = TTI_TROUBLE_MASKED;
    chunks c;
    tt_status st;

    if (out->numel == 0)
        return TT_OK;
    TT_TRY(chunks_open(&c, mask));
    {
        tti_arg args[] = { TTI_MEM(tti_data(out)),
                           TTI_MEM(tti_data(src)),
                           TTI_MEM(tti_data(mask)),
                           TTI_MEM(c.counts),
                           tti_trouble_arg(out->device),
                           TTI_VAL(c.n),
                           TTI_VAL(c.chunk),
                           TTI_VAL(size),
                           TTI_VAL(op) };

        st = run(out->device, SCATTER, tti_esize(out), grid_of(&c), args, 9);
    }
    chunks_close(&c);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting and the k best on accelerators: see sort.cl. Lines are done in batches, so that keys and places need
 * a limited room. */
#include <string.h>

#include "ops/accel/index.h"
#include "ops/accel/loops.h"
#include "ops/accel/reduce.h"

#define BATCH (4 << 20)  /* elements sorted at a time, if lines are not longer */
#define BLOCK_CORE 65536 /* elements that a core sorts, */
#define PART_CORE 4096   /* and of a merge that it makes */
#define BLOCK_ITEM 16    /* the same for the small work-items of other devices */
#define PART_ITEM 16
#define BEST_BLOCK 16384
#define MOST 64 /* of the k best that are kept in order while scanning */
#define PIECES 256

enum { BLOCKS, MERGE, WRITE, GROUPS, TOPK_BLOCKS, TOPK_WRITE, N_KERNELS };

/* sort_t of sort.cl */
typedef struct sort_plan {
    tti_accel_loop lines;
    int64_t first_line, n_lines;
    int64_t n, x_stride, out_stride, k;
    int64_t block, blocks;
    uint32_t descending, with_values;
} sort_plan;

/* Two rooms of keys and places, between which passes go back and forth. */
typedef struct room {
    tt_device device;
    size_t key_bytes, place_bytes; /* of each */
    char *memory;
} room;

typedef struct job {
    tt_device device;
    tt_dtype dtype;
    void *values;
    int64_t *indices;
    const void *x;
    sort_plan q;
    room r;
    int at; /* which room has the result */
} job;

extern const char tti_source_sort[];
static const tti_program program = { "sort", { tti_source_loops, tti_source_sort } };

static tti_kernel *kernel_of(const job *j, int which)
{
    static tti_kernel_slot slots[TT_N_DTYPES][N_KERNELS];
    static const char *const names[] = { "sort_blocks", "sort_merge",  "sort_write",
                                         "sort_groups", "topk_blocks", "topk_write" };

    return tti_kernel_get(&slots[j->dtype][which], j->device, &program, tti_accel_type(j->dtype),
                          names[which]);
}

static tt_status run(const job *j, int which, tti_grid grid, const tti_arg *args, int n)
{
    tti_kernel *k = kernel_of(j, which);

    return k != NULL ? tti_launch(j->device, k, grid, args, n) : tt_last_status();
}

/* ---- rooms ------------------------------------------------------------------------------------ */

static tt_status room_open(job *j, int64_t elements)
{
    size_t key = j->dtype == TT_F64 || j->dtype == TT_I64 ? 8 : 4;

    j->r.key_bytes = ((size_t)elements * key + 63) & ~(size_t)63;
    j->r.place_bytes = ((size_t)elements * 4 + 63) & ~(size_t)63;
    j->r.memory = tti_accel_scratch(j->device, 2 * (j->r.key_bytes + j->r.place_bytes));
    return j->r.memory != NULL ? TT_OK : tt_last_status();
}

static void room_close(job *j)
{
    tti_accel_scratch_free(j->device, j->r.memory, 2 * (j->r.key_bytes + j->r.place_bytes));
}

static void *keys_in(const job *j, int which)
{
    return j->r.memory + (which != 0 ? j->r.key_bytes : 0);
}

static void *places_in(const job *j, int which)
{
    return j->r.memory + 2 * j->r.key_bytes + (which != 0 ? j->r.place_bytes : 0);
}

/* ---- sorting -------------------------------------------------------------------------------------- */

/* Lines first_line .. + n_lines: the sorted keys and places are in room `at` afterwards. */
static tt_status sort_batch(job *j)
{
    bool core = tti_group_size(j->device) == 1;
    int64_t part = core ? PART_CORE : PART_ITEM, parts = (j->q.n + part - 1) / part;
    tti_arg args[] = { TTI_MEM(j->x),          TTI_MEM(keys_in(j, 0)),   TTI_MEM(places_in(j, 0)),
                       TTI_MEM(keys_in(j, 1)), TTI_MEM(places_in(j, 1)), TTI_VAL(j->q) };

    j->q.block = core ? BLOCK_CORE : BLOCK_ITEM;
    j->q.blocks = (j->q.n + j->q.block - 1) / j->q.block;
    j->at = 0;
    TT_TRY(run(j, BLOCKS, tti_accel_grid_tasks(j->device, j->q.n_lines * j->q.blocks, j->q.block),
               args, 6));
    for (int64_t r = j->q.block; r < j->q.n; r *= 2) {
        int from = j->at, to = 1 - from;
        tti_arg merge[] = { TTI_MEM(keys_in(j, to)),
                            TTI_MEM(places_in(j, to)),
                            TTI_MEM(keys_in(j, from)),
                            TTI_MEM(places_in(j, from)),
                            TTI_VAL(j->q),
                            TTI_VAL(r),
                            TTI_VAL(part) };

        TT_TRY(
            run(j, MERGE, tti_accel_grid_tasks(j->device, j->q.n_lines * parts, part), merge, 7));
        j->at = to;
    }
    return TT_OK;
}

static tt_status write_batch(job *j)
{
    tti_arg args[] = { TTI_MEM(j->values), TTI_MEM(j->indices), TTI_MEM(j->x),
                       TTI_MEM(places_in(j, j->at)), TTI_VAL(j->q) };

    return run(j, WRITE, tti_grid_elements(j->device, (uint64_t)(j->q.n_lines * j->q.k)), args, 5);
}

static tt_status best_batch(job *j)
{
    tti_arg find[] = { TTI_MEM(j->x), TTI_MEM(keys_in(j, 0)), TTI_MEM(places_in(j, 0)),
                       TTI_VAL(j->q) };
    tti_arg put[] = { TTI_MEM(j->values),     TTI_MEM(j->indices),      TTI_MEM(j->x),
                      TTI_MEM(keys_in(j, 0)), TTI_MEM(places_in(j, 0)), TTI_VAL(j->q) };

    TT_TRY(run(j, TOPK_BLOCKS,
               tti_accel_grid_tasks(j->device, j->q.n_lines * j->q.blocks, j->q.block), find, 4));
    return run(j, TOPK_WRITE, tti_accel_grid_tasks(j->device, j->q.n_lines, j->q.k), put, 6);
}

static tt_status sort_lines(job *j)
{
    bool best = j->q.k < j->q.n && j->q.k <= MOST;
    int64_t lines = j->q.lines.total, batch;
    tt_status st;

    j->q.block = BEST_BLOCK;
    j->q.blocks = (j->q.n + BEST_BLOCK - 1) / BEST_BLOCK;
    batch = BATCH / (best ? j->q.blocks * j->q.k : j->q.n);
    batch = batch < 1 ? 1 : batch > lines ? lines : batch;
    TT_TRY(room_open(j, batch * (best ? j->q.blocks * j->q.k : j->q.n)));
    st = TT_OK;
    for (int64_t i = 0; st == TT_OK && i < lines; i += batch) {
        j->q.first_line = i;
        j->q.n_lines = lines - i < batch ? lines - i : batch;
        st = best ? best_batch(j) : sort_batch(j);
        if (st == TT_OK && !best)
            st = write_batch(j);
    }
    room_close(j);
    return st;
}

static tt_status sort_tensor(tt_tensor *values, tt_tensor *indices, const tt_tensor *x, int dim,
                             sort_plan q)
{
    bool scalar = x->n_dims == 0;
    job j = { .device = x->device,
              .dtype = (tt_dtype)x->dtype,
              .values = tti_data(values),
              .indices = tti_data(indices),
              .x = tti_data(x),
              .q = q };

    if (tt_dtype_is_complex((tt_dtype)x->dtype))
        return tti_no_kernel("sort", x);
    TT_TRY(tti_accel_check_type("sort", x));
    if (x->numel == 0 || q.k == 0)
        return TT_OK;
    j.q.with_values = 1;
    j.q.lines = tti_accel_lines(x, values, scalar ? -1 : dim);
    j.q.n = scalar ? 1 : x->dims[dim];
    j.q.x_stride = scalar ? 1 : x->strides[dim];
    j.q.out_stride = scalar ? 1 : values->strides[dim];
    if (j.q.n > UINT32_MAX)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "sort: expected at most %u elements on %s, got %lld",
                       UINT32_MAX, "an accelerator", (long long)j.q.n);
    return sort_lines(&j);
}

tt_status tti_accel_sort(tt_tensor *values, tt_tensor *indices, const tt_tensor *x, int dim,
                         bool descending)
{
    sort_plan q = { .descending = descending, .k = x->n_dims == 0 ? 1 : x->dims[dim] };

    return sort_tensor(values, indices, x, dim, q);
}

tt_status tti_accel_topk(tt_tensor *values, tt_tensor *indices, const tt_tensor *x, int dim,
                         int64_t k, bool largest)
{
    sort_plan q = { .descending = largest, .k = k };

    return sort_tensor(values, indices, x, dim, q);
}

/* ---- keys ------------------------------------------------------------------------------------------ */

static void keys_job(job *j, tt_device d, int64_t *order, const int64_t *keys, int64_t n)
{
    *j = (job){ .device = d, .dtype = TT_I64, .indices = order, .x = keys };
    j->q.lines.total = j->q.n_lines = 1;
    j->q.n = j->q.k = n;
    j->q.x_stride = j->q.out_stride = 1;
}

tt_status tti_accel_sort_order(tt_device d, int64_t *order, const int64_t *keys, int64_t n)
{
    job j;
    tt_status st;

    keys_job(&j, d, order, keys, n);
    TT_TRY(room_open(&j, n));
    st = sort_batch(&j);
    if (st == TT_OK)
        st = write_batch(&j);
    room_close(&j);
    return st;
}

/* The sorted keys are in the room that the last pass wrote; the other's place holds the counts. */
static tt_status count_groups(job *j, int64_t *groups_p)
{
    uint64_t n = (uint64_t)j->q.n, piece = (n + PIECES - 1) / PIECES, counts[PIECES];
    size_t pieces = (size_t)((n + piece - 1) / piece);
    void *to = tti_accel_scratch(j->device, sizeof counts);
    tti_arg args[] = { TTI_MEM(to), TTI_MEM(keys_in(j, j->at)), TTI_VAL(n), TTI_VAL(piece) };
    tt_status st;

    if (to == NULL)
        return tt_last_status();
    st = run(j, GROUPS, tti_accel_grid_tasks(j->device, (int64_t)pieces, (int64_t)piece), args, 4);
    if (st == TT_OK)
        st = tti_driver_of(j->device)->copy_out(j->device.index, counts, to,
                                                pieces * sizeof *counts);
    tti_accel_scratch_free(j->device, to, sizeof counts);
    *groups_p = 0;
    for (size_t i = 0; st == TT_OK && i < pieces; i++)
        *groups_p += (int64_t)counts[i];
    return st;
}

tt_status tti_accel_sort_keys(tt_tensor *order, const tt_tensor *keys, int64_t *groups_p)
{
    job j;
    tt_status st;

    *groups_p = 0;
    if (keys->numel == 0)
        return TT_OK;
    keys_job(&j, keys->device, tti_data(order), tti_data(keys), keys->numel);
    TT_TRY(room_open(&j, keys->numel));
    st = sort_batch(&j);
    if (st == TT_OK)
        st = write_batch(&j);
    if (st == TT_OK)
        st = count_groups(&j, groups_p);
    room_close(&j);
    return st;
}

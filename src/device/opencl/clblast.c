/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices by CLBlast, which is opened at its first use and may be absent. Its tuned kernels are for
 * GPUs: on CPUs they are many times slower than BLAS. */
#include <dlfcn.h>

#include "device/opencl/cl.h"

/* Of its C interface: layouts, transposes and status codes are ints there. */
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };

#define OPERANDS cl_mem, size_t, size_t /* buffer, offset, row */
#define BATCHED cl_mem, size_t, size_t, size_t
#define GEMM_FN(S)                                                                     \
    int (*)(int, int, int, size_t, size_t, size_t, S, OPERANDS, OPERANDS, S, OPERANDS, \
            cl_command_queue *, cl_event *)
#define GEMM_BATCH_FN(S)                                                                    \
    int (*)(int, int, int, size_t, size_t, size_t, S, BATCHED, BATCHED, S, BATCHED, size_t, \
            cl_command_queue *, cl_event *)

static struct {
    __typeof__(GEMM_FN(cl_float)) s;
    __typeof__(GEMM_FN(cl_double)) d;
    __typeof__(GEMM_FN(cl_float2)) c;
    __typeof__(GEMM_FN(cl_double2)) z;
    __typeof__(GEMM_BATCH_FN(cl_float)) s_batch;
    __typeof__(GEMM_BATCH_FN(cl_double)) d_batch;
    __typeof__(GEMM_BATCH_FN(cl_float2)) c_batch;
    __typeof__(GEMM_BATCH_FN(cl_double2)) z_batch;
} blast;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found;

static void open_library(void)
{
    void *lib = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL); /* stays */

    if (lib == NULL)
        return;
    *(void **)&blast.s = dlsym(lib, "CLBlastSgemm");
    *(void **)&blast.d = dlsym(lib, "CLBlastDgemm");
    *(void **)&blast.c = dlsym(lib, "CLBlastCgemm");
    *(void **)&blast.z = dlsym(lib, "CLBlastZgemm");
    *(void **)&blast.s_batch = dlsym(lib, "CLBlastSgemmStridedBatched");
    *(void **)&blast.d_batch = dlsym(lib, "CLBlastDgemmStridedBatched");
    *(void **)&blast.c_batch = dlsym(lib, "CLBlastCgemmStridedBatched");
    *(void **)&blast.z_batch = dlsym(lib, "CLBlastZgemmStridedBatched");
    found = blast.s != NULL && blast.d != NULL && blast.c != NULL && blast.z != NULL &&
            blast.s_batch != NULL && blast.d_batch != NULL && blast.c_batch != NULL &&
            blast.z_batch != NULL;
}

bool tti_cl_has_gemm(void)
{
    pthread_once(&once, open_library);
    return found;
}

/* An operand: its buffer and the place in it, in elements. */
typedef struct operand {
    cl_mem mem;
    size_t at;
} operand;

static tt_status find(const void *address, size_t esize, operand *o)
{
    uint64_t at;
    tti_cl_segment *s = tti_cl_at(address, &at);

    if (s == NULL)
        return tt_last_status();
    *o = (operand){ s->mem, (size_t)at / esize };
    return TT_OK;
}

#define SIZES                                                                              \
    ROW_MAJOR, g->ta ? TRANSPOSED : AS_IT_IS, g->tb ? TRANSPOSED : AS_IT_IS, (size_t)g->m, \
        (size_t)g->n, (size_t)g->k
#define ROW(x) (size_t)(x)

#define MULTIPLY(fn, batch_fn, alpha, beta)                                                        \
    (g->batch == 1 ? fn(SIZES, alpha, a.mem, a.at, ROW(g->lda), b.mem, b.at, ROW(g->ldb), beta,    \
                        c.mem, c.at, ROW(g->n), &q->q, &e)                                         \
                   : batch_fn(SIZES, alpha, a.mem, a.at, ROW(g->lda), ROW(g->a_step), b.mem, b.at, \
                              ROW(g->ldb), ROW(g->b_step), beta, c.mem, c.at, ROW(g->n),           \
                              ROW(g->m * g->n), ROW(g->batch), &q->q, &e))

tt_status tti_cl_gemm(tti_queue *q, const tti_accel_gemm *g)
{
    static const size_t sizes[TT_N_DTYPES] = {
        [TT_F32] = 4, [TT_F64] = 8, [TT_C64] = 8, [TT_C128] = 16
    };
    cl_float2 alpha_c = { { (float)g->alpha, 0 } }, beta_c = { { (float)g->beta, 0 } };
    cl_double2 alpha_z = { { g->alpha, 0 } }, beta_z = { { g->beta, 0 } };
    operand a = { 0 }, b = { 0 }, c = { 0 };
    cl_event e = NULL;
    int code;

    TT_TRY(find(g->a, sizes[g->dtype], &a));
    TT_TRY(find(g->b, sizes[g->dtype], &b));
    TT_TRY(find(g->c, sizes[g->dtype], &c));
    TT_TRY(tti_cl_begin(q));
    switch (g->dtype) {
    case TT_F32:
        code = MULTIPLY(blast.s, blast.s_batch, (float)g->alpha, (float)g->beta);
        break;
    case TT_F64:
        code = MULTIPLY(blast.d, blast.d_batch, g->alpha, g->beta);
        break;
    case TT_C64:
        code = MULTIPLY(blast.c, blast.c_batch, alpha_c, beta_c);
        break;
    default:
        code = MULTIPLY(blast.z, blast.z_batch, alpha_z, beta_z);
    }
    return tti_cl_end(q, "multiply matrices with CLBlast", (cl_int)code, e, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling and running kernels on accelerators. Kernels are written in one dialect that OpenCL C and CUDA C both
 * compile through a prelude (src/device/prelude.cl, which says what may be written). A kernel's text is
 * built at its first use for a set of options and kept on disk:
 *
 *     extern const char tti_source_softmax[];                       // softmax.cl, embedded by the build
 *     static const tti_program program = { "softmax", { tti_source_softmax } };
 *     static tti_kernel_slot slots[TT_N_DTYPES];                    // one per set of options and kernel
 *
 *     tti_kernel *k = tti_kernel_get(&slots[dtype], d, &program, "-DT=f32 ...", "softmax");
 *     tti_arg args[] = { TTI_MEM(tti_data(y)), TTI_MEM(tti_data(x)), TTI_VAL(n) };
 *
 *     if (k == NULL) return tt_last_status();
 *     return tti_launch(d, k, tti_grid_rows(d, rows), args, 3);
 */
#ifndef TTI_DEVICE_LAUNCH_H
#define TTI_DEVICE_LAUNCH_H

#include <stdatomic.h>

#include "base/status.h"
#include "device/accel.h"

#define TTI_MAX_PARTS 4

/* Texts are joined in order, after the prelude. */
struct tti_program {
    const char *name;
    const char *parts[TTI_MAX_PARTS];
};

/* A memory argument becomes MEM(T, name) in the kernel: an address of device memory, or NULL. A value
 * is copied: fixed-width integers, float, double, or a struct of those without padding. */
struct tti_arg {
    const void *p;
    uint32_t bytes; /* 0: memory */
};

#define TTI_MEM(address) ((tti_arg){ (address), 0 })
#define TTI_VAL(lvalue) ((tti_arg){ &(lvalue), (uint32_t)sizeof(lvalue) })
#define TTI_MAX_ARGS 24

/* Where a built kernel is remembered. Zero at first. */
typedef struct tti_kernel_slot {
    _Atomic(tti_kernel *) of[TTI_N_KINDS]; /* by tt_device_kind */
} tti_kernel_slot;

/* The kernel `name` of the program, built with `options` (-D...) for the kind of d. The options always also
 * have WG (work-items of a group: tti_group_size) and, on devices that are CPUs where WG is 1, CPU_DEVICE. NULL: the
 * text does not build; the message has the compiler's first lines. */
tti_kernel *tti_kernel_build(tt_device d, const tti_program *p, const char *options,
                             const char *name);

static inline tti_kernel *tti_kernel_get(tti_kernel_slot *slot, tt_device d, const tti_program *p,
                                         const char *options, const char *name)
{
    tti_kernel *k = atomic_load_explicit(&slot->of[d.kind], memory_order_acquire);

    if (tt_likely(k != NULL))
        return k;
    k = tti_kernel_build(d, p, options,
                         name); /* the same one whoever asks: remembering twice is fine */
    atomic_store_explicit(&slot->of[d.kind], k, memory_order_release);
    return k;
}

/* Where TUTTI_KERNEL_TEXTS names a directory: the whole text of a program that was built, after a line of its options. */
void tti_kernel_text_write(const tti_program *p, const char *options);

/* Work-items per group that kernels are built for: WG. 1 on devices that are CPUs, where a group is a loop. */
int tti_group_size(tt_device d);

typedef struct tti_grid {
    size_t groups;
} tti_grid;

/* For FOR_EACH kernels over n elements: as many groups as keep the device busy. */
tti_grid tti_grid_elements(tt_device d, uint64_t n);
/* For FOR_ROWS kernels, where a group does whole rows of about `width` elements. */
tti_grid tti_grid_rows(tt_device d, uint64_t rows, uint64_t width);

/* On the current stream of d. Zero groups is nothing to do. */
tt_status tti_launch(tt_device d, tti_kernel *k, tti_grid grid, const tti_arg *args, int n_args);

/* fn(arg) in the current stream of d, with a copy of *arg; for BLAS on devices that are CPUs. */
tt_status tti_stream_run(tt_device d, void (*fn)(void *arg), const void *arg, size_t bytes);
bool tti_device_is_cpu(tt_device d);
bool tti_device_has_fp64(tt_device d);

/* ---- errors that only the device can see --------------------------------------------------------- */

/* What a kernel does with an index it cannot use: TROUBLE(trouble, TTI_TROUBLE_x, value, size, position) in
 * the kernel records the first one, the kernel goes on without touching memory, and whoever next
 * waits for the device (sync, copy to the host) gets the error. */
#define TTI_TROUBLE_MAP(X)            \
    X(INDEX_SELECT, "index_select")   \
    X(INDEX_ADD, "index_add")         \
    X(INDEX_COPY, "index_copy")       \
    X(GATHER, "gather")               \
    X(SCATTER, "scatter")             \
    X(SCATTER_ADD, "scatter_add")     \
    X(ONE_HOT, "one_hot")             \
    X(EMBEDDING, "embedding")         \
    X(EMBEDDING_BAG, "embedding_bag") \
    X(CROSS_ENTROPY, "cross_entropy") \
    X(NLL_LOSS, "nll_loss")           \
    X(MASKED, "masked_scatter")       \
    X(HOST, "a product of matrices or a convolution")

typedef enum tti_trouble_op {
    TTI_TROUBLE_NONE,
#define X(name, text) TTI_TROUBLE_##name,
    TTI_TROUBLE_MAP(X)
#undef X
} tti_trouble_op;

/* As kernels see it: i64 record[4]. */
typedef struct tti_trouble {
    int64_t op, value, size, position;
} tti_trouble;

/* The argument MEM(i64, trouble) of a kernel. */
tti_arg tti_trouble_arg(tt_device d);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* tutti info: what runs here, for bug reports. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "table.h"
#include "tutti/base.h"
#include "tutti/device.h"
#include "tutti/ops.h"
#include "tutti/tensor.h"

/* The start of oneDNN's version record, which never changed. */
typedef struct dnnl_version_start {
    int major, minor, patch;
} dnnl_version_start;

/* libtutti opens oneDNN and OpenBLAS at the first product that needs them: the name of the file and the type say which. */
static void *function_of(const char *file, tt_dtype dtype, const char *name)
{
    void *lib;

    TT_SCOPE {
        tt_tensor *ones = tt_ones(TT_SHAPE(64, 64), dtype, TT_CPU);

        tt_matmul(ones, ones);
    }
    lib = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
    return lib != NULL ? dlsym(lib, name) : NULL;
}

static void add_dnnl(tti_table *t)
{
    const dnnl_version_start *(*version)(void);
    void *p = function_of("libdnnl.so.2", TT_F32, "dnnl_version");
    char text[48];

    tti_table_add(t, "onednn");
    if (p == NULL) {
        tti_table_add(t, NULL);
        return;
    }
    memcpy(&version, &p, sizeof p);
    snprintf(text, sizeof text, "%d.%d.%d", version()->major, version()->minor, version()->patch);
    tti_table_add(t, text);
}

static void add_openblas(tti_table *t)
{
    char *(*config)(void);
    void *p = function_of("libopenblas.so.0", TT_F64, "openblas_get_config");

    tti_table_add(t, "openblas");
    if (p == NULL) {
        tti_table_add(t, NULL);
        return;
    }
    memcpy(&config, &p, sizeof p);
    tti_table_add(t, config());
}

static int run(const tti_args *args)
{
    static const char *const columns[] = { "what", "value" };
    tti_table t = { .columns = columns, .n_columns = 2, .pairs = true };

    tti_table_add(&t, "version");
    tti_table_add(&t, tt_version());
    tti_table_add(&t, "kernels");
    tti_table_add(&t, tt_cpu_kernels());
    tti_table_add(&t, "threads");
    tti_table_add_int(&t, tt_get_num_threads());
    add_dnnl(&t);
    add_openblas(&t);
    return tti_table_finish(&t, args->format);
}

const tti_command tti_command_info = {
    .name = "info",
    .arguments = "[--tsv | --json]",
    .summary = "say what runs here: versions, instruction set, threads",
    .help =
        "Prints the version of the library, the instruction set of its kernels on this CPU (base,\n"
        "avx2 or avx512), the threads operators use, and the versions of oneDNN and OpenBLAS.\n",
    .run = run,
};

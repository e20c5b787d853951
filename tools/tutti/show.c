/* SPDX-License-Identifier: Apache-2.0 */
/* tutti show: the tensors in a file, without loading them. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "files.h"
#include "table.h"
#include "tutti/io.h"

static const char *const columns[] = { "name", "dtype", "shape", "bytes" };

static int failed(const char *file)
{
    fprintf(stderr, "tutti show: %s: %s\n", file, tt_last_error());
    return TTI_EXIT_FAILED;
}

static void add_row(tti_table *t, const char *name, const char *dtype, tt_shape s, uint64_t bytes)
{
    char text[TT_MAX_DIMS * 24] = "[";
    size_t n = 1;

    for (int i = 0; i < s.n_dims; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", i != 0 ? ", " : "",
                              (long long)s.dims[i]);
    snprintf(text + n, sizeof text - n, "]");
    tti_table_add(t, name);
    tti_table_add(t, dtype);
    tti_table_add_raw(t, s.n_dims >= 0 ? text : NULL);
    tti_table_add_int(t, (long long)bytes);
}

static int show_npy(const tti_args *args)
{
    tti_table t = { .columns = columns, .n_columns = 4 };

    TT_SCOPE {
        const char *slash = strrchr(args->file, '/');
        tt_tensor *x = tt_npy_load(args->file);

        if (x == NULL)
            return failed(args->file);
        add_row(&t, slash != NULL ? slash + 1 : args->file, tt_dtype_name(tt_tensor_dtype(x)),
                tt_tensor_shape(x), tt_tensor_bytes(x));
    }
    return tti_table_finish(&t, args->format);
}

static int show_metadata(const tti_args *args, const tt_safetensors *st)
{
    tti_table t = { .columns = columns, .n_columns = 2, .pairs = true };
    const char *key, *value;

    for (int i = 0; tt_safetensors_metadata_at(st, i, &key, &value); i++) {
        tti_table_add(&t, key);
        tti_table_add(&t, value);
    }
    return tti_table_finish(&t, args->format);
}

static int show_tensors(const tti_args *args, const tt_safetensors *st)
{
    tti_table t = { .columns = columns, .n_columns = 4 };
    tt_safetensors_info info;

    for (int i = 0; i < tt_safetensors_count(st); i++) {
        if (tt_safetensors_at(st, i, &info) != TT_OK)
            break;
        add_row(&t, info.name, info.loadable ? tt_dtype_name(info.dtype) : info.dtype_name,
                info.shape, info.bytes);
    }
    return tti_table_finish(&t, args->format);
}

static bool is_npy(const char *file)
{
    char start[6] = { 0 };
    FILE *f = tti_open_input(file);
    bool is = f != NULL && fread(start, 1, sizeof start, f) == sizeof start &&
              memcmp(start, "\x93NUMPY", sizeof start) == 0;

    if (f != NULL)
        fclose(f);
    return is;
}

static int run(const tti_args *args)
{
    tt_safetensors *st;
    int status;

    if (is_npy(args->file) && !args->metadata)
        return show_npy(args);
    st = tt_safetensors_open(args->file);
    if (st == NULL)
        return failed(args->file);
    status = args->metadata ? show_metadata(args, st) : show_tensors(args, st);
    tt_safetensors_free(st);
    return status;
}

const tti_command tti_command_show = {
    .name = "show",
    .arguments = "FILE [--metadata] [--tsv | --json]",
    .summary = "list the tensors in a safetensors or .npy file",
    .help =
        "Lists name, type, shape and bytes of every tensor in the file, in order of their place.\n"
        "Types that the library cannot load are shown as the file spells them, in upper case. A\n"
        "shape of more than 8 dimensions is shown as \"-\". A damaged file is an error.\n\n"
        "  --metadata  list the words in a safetensors file instead\n",
    .takes_file = true,
    .takes_metadata = true,
    .run = run,
};

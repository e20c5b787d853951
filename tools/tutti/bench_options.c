/* SPDX-License-Identifier: Apache-2.0 */
/* The words after `tutti bench`. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { MAX_BATCH = 64 };
static const size_t max_size = (size_t)64 << 30;

typedef struct words {
    int argc, at;
    char **argv;
    tti_bench_options *opt;
    size_t begin, end;
    double factor;
    bool sized; /* --sizes was given */
} words;

static tt_status parse_size(const char *text, size_t *size_p)
{
    char *end;
    unsigned long long n;
    int shift = 0;

    errno = 0;
    n = strtoull(text, &end, 10);
    if (end != text && *end != '\0') {
        const char *units = "KMG", *unit = strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end);

        shift = unit != NULL && *unit != '\0' ? 10 * (int)(unit - units + 1) : -1;
        end += shift > 0;
        end += shift > 0 && (*end == 'B' || *end == 'b');
    }
    if (end == text || *end != '\0' || text[0] == '-' || errno != 0 || n > max_size >> shift)
        return tt_fail(TT_ERR_INVALID, "expected a size such as 8, 64K or 256M, got \"%s\"", text);
    *size_p = (size_t)n << shift;
    return TT_OK;
}

static tt_status parse_int(const char *name, const char *text, int least, int most, int *value_p)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || n < least || n > most)
        return tt_fail(TT_ERR_INVALID, "%s: expected %d to %d, got \"%s\"", name, least, most,
                       text);
    *value_p = (int)n;
    return TT_OK;
}

static tt_status parse_factor(const char *text, double *value_p)
{
    char *end;

    *value_p = strtod(text, &end);
    if (end == text || *end != '\0' || !(*value_p > 1) || *value_p > 1e9)
        return tt_fail(TT_ERR_INVALID, "-f: expected a number above 1, got \"%s\"", text);
    return TT_OK;
}

static tt_status add_size(tti_bench_options *o, size_t size)
{
    if (o->n_sizes == TTI_BENCH_MAX_SIZES)
        return tt_fail(TT_ERR_INVALID, "expected at most %d sizes", TTI_BENCH_MAX_SIZES);
    o->sizes[o->n_sizes++] = size;
    return TT_OK;
}

static tt_status parse_sizes(tti_bench_options *o, const char *text)
{
    char copy[1024];
    char *rest = copy, *word;

    if (strlen(text) >= sizeof copy)
        return tt_fail(TT_ERR_INVALID, "--sizes: the list is too long");
    strcpy(copy, text);
    o->n_sizes = 0;
    while ((word = strsep(&rest, ",")) != NULL) {
        size_t size;

        TT_TRY(parse_size(word, &size));
        TT_TRY(add_size(o, size));
    }
    return TT_OK;
}

static tt_status parse_dtype(const char *text, tt_dtype *dtype_p)
{
    static const char *const short_names[TT_N_DTYPES] = {
        "f32", "f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "bool", "c64", "c128"
    };

    for (int i = 0; i < TT_N_DTYPES; i++)
        if (strcmp(text, tt_dtype_name((tt_dtype)i)) == 0 || strcmp(text, short_names[i]) == 0) {
            *dtype_p = (tt_dtype)i;
            return TT_OK;
        }
    return tt_fail(TT_ERR_INVALID, "--dtype: expected float32, f16, i64 or the like, got \"%s\"",
                   text);
}

static tt_status parse_redop(const char *text, tt_reduce_op *op_p)
{
    for (int i = 0; i < TT_REDUCE_PREMUL_SUM; i++)
        if (strcmp(text, tt_reduce_op_name((tt_reduce_op)i)) == 0) {
            *op_p = (tt_reduce_op)i;
            return TT_OK;
        }
    return tt_fail(TT_ERR_INVALID,
                   "--op: expected sum, avg, product, min, max, band, bor or bxor, got \"%s\"",
                   text);
}

static tt_status add_op(tti_bench_options *o, const char *name)
{
    const tti_bench_op *op;

    for (int i = 0; (op = tti_bench_op_at(i)) != NULL; i++)
        if (strcmp(op->name, name) == 0) {
            if (o->n_ops == TTI_BENCH_MAX_OPS)
                return tt_fail(TT_ERR_INVALID, "expected at most %d operations", TTI_BENCH_MAX_OPS);
            o->ops[o->n_ops++] = op;
            return TT_OK;
        }
    return tt_fail(TT_ERR_INVALID, "no operation \"%s\"", name);
}

/* ---- options ------------------------------------------------------------------------------------- */

/* Those without a value. */
static bool parse_flag(words *w, const char *word)
{
    tti_bench_options *o = w->opt;
    const struct {
        const char *name;
        bool *flag;
        bool value;
    } flags[] = {
        { "--help", &o->help, true },         { "-h", &o->help, true },
        { "--in-place", &o->in_place, true }, { "--shared", &o->shared, true },
        { "--check", &o->check, true },       { "--no-check", &o->no_check, true },
    };

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strcmp(word, flags[i].name) == 0) {
            *flags[i].flag = flags[i].value;
            return true;
        }
    if (strcmp(word, "--tsv") == 0)
        o->format = TTI_FORMAT_TSV;
    else if (strcmp(word, "--json") == 0)
        o->format = TTI_FORMAT_JSON;
    else
        return false;
    return true;
}

/* A text as it is. */
static bool parse_text(words *w, const char *word, const char *value)
{
    tti_bench_options *o = w->opt;
    const char **text_p = strcmp(word, "--csv") == 0       ? &o->csv
                          : strcmp(word, "--plot") == 0    ? &o->plot
                          : strcmp(word, "--backend") == 0 ? &o->backend
                                                           : NULL;

    if (text_p != NULL)
        *text_p = value;
    return text_p != NULL;
}

static tt_status parse_value(words *w, const char *word, const char *value)
{
    tti_bench_options *o = w->opt;
    const struct {
        const char *name, *other;
        int *value_p, least, most;
    } numbers[] = {
        { "-n", "--ranks", &o->n_ranks, 1, 65536 },
        { "--iters", "-i", &o->iters, 1, 1000000 },
        { "--warmup", "-w", &o->warmup, 0, 1000000 },
        { "--batch", "--batch", &o->batch, 1, MAX_BATCH },
        { "--budget", "--budget", &o->budget_ms, 1, 3600000 },
    };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(word, numbers[i].name) == 0 || strcmp(word, numbers[i].other) == 0)
            return parse_int(word, value, numbers[i].least, numbers[i].most, numbers[i].value_p);
    if (parse_text(w, word, value))
        return TT_OK;
    if (strcmp(word, "-b") == 0)
        return parse_size(value, &w->begin);
    if (strcmp(word, "-e") == 0)
        return parse_size(value, &w->end);
    if (strcmp(word, "-f") == 0)
        return parse_factor(value, &w->factor);
    if (strcmp(word, "--sizes") == 0) {
        w->sized = true;
        return parse_sizes(o, value);
    }
    if (strcmp(word, "--dtype") == 0)
        return parse_dtype(value, &o->dtype);
    return parse_redop(value, &o->redop);
}

static bool takes_value(const char *word)
{
    static const char *const names[] = { "-n",        "--ranks", "--iters",  "-i",    "--warmup",
                                         "-w",        "--batch", "--budget", "--csv", "--plot",
                                         "--backend", "-b",      "-e",       "-f",    "--sizes",
                                         "--dtype",   "--op" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(word, names[i]) == 0)
            return true;
    return false;
}

static tt_status parse_word(words *w)
{
    const char *word = w->argv[w->at++];

    if (parse_flag(w, word))
        return TT_OK;
    if (takes_value(word)) {
        if (w->at == w->argc)
            return tt_fail(TT_ERR_INVALID, "%s: expected a value", word);
        return parse_value(w, word, w->argv[w->at++]);
    }
    if (word[0] == '-')
        return tt_fail(TT_ERR_INVALID, "no option \"%s\"", word);
    return add_op(w->opt, word);
}

static tt_status check(const tti_bench_options *o)
{
    bool bits = o->redop >= TT_REDUCE_BAND;

    if (o->check && o->no_check)
        return tt_fail(TT_ERR_INVALID, "--check and --no-check contradict each other");
    if (bits && !tt_dtype_is_integral(o->dtype) && o->dtype != TT_BOOL)
        return tt_fail(TT_ERR_INVALID, "--op %s needs integers, got %s",
                       tt_reduce_op_name(o->redop), tt_dtype_name(o->dtype));
    if (tt_dtype_is_complex(o->dtype) && o->redop > TT_REDUCE_AVG)
        return tt_fail(TT_ERR_INVALID, "--dtype %s can be summed and averaged only",
                       tt_dtype_name(o->dtype));
    if (o->backend != NULL)
        return tt_backend_parse(o->backend, &(const char *){ NULL });
    return TT_OK;
}

static tt_status fill_in(words *w)
{
    tti_bench_options *o = w->opt;

    if (o->n_ops == 0)
        TT_TRY(add_op(o, "all_reduce"));
    if (w->sized)
        return TT_OK;
    if (w->begin > w->end)
        return tt_fail(TT_ERR_INVALID, "-b %zu is above -e %zu", w->begin, w->end);
    for (double size = (double)w->begin; size <= (double)w->end; size *= w->factor) {
        TT_TRY(add_size(o, (size_t)size));
        if (w->begin == 0)
            break;
    }
    return TT_OK;
}

tt_status tti_bench_parse(int argc, char **argv, tti_bench_options *opt_p)
{
    words w = { .argc = argc, .argv = argv, .opt = opt_p };

    *opt_p = (tti_bench_options){ .warmup = 5, .budget_ms = 200 };
    w.begin = 8;
    w.end = (size_t)64 << 20;
    w.factor = 4;
    while (w.at < argc)
        TT_TRY(parse_word(&w));
    TT_TRY(check(opt_p));
    return fill_in(&w);
}

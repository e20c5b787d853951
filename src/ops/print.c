/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors as text, laid out the way PyTorch's users know: all numbers of a tensor equally wide, whole
 * numbers with a point, exponents when sizes differ much, large tensors by their edges. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "ops/element.h"
#include "ops/sparse.h"
#include "tensor/debug.h"

#define ROOM 96 /* for one number */

/* ---- text that grows --------------------------------------------------------------------- */

typedef struct text {
    char *p;
    size_t n, cap;
    tt_status status;
} text;

static void put(text *t, const char *s)
{
    size_t n = strlen(s);

    if (t->status == TT_OK)
        t->status = tti_vec_reserve((void **)&t->p, &t->cap, t->n + n + 1, 1);
    if (t->status != TT_OK)
        return;
    memcpy(t->p + t->n, s, n + 1);
    t->n += n;
}

static void put_spaces(text *t, int n)
{
    for (int i = 0; i < n; i++)
        put(t, " ");
}

/* ---- one number -------------------------------------------------------------------------- */

typedef struct format {
    bool floating, truth; /* truth: bool */
    bool whole, exponent;
    int width, precision;
} format;

static void write_plain(const format *f, double v, int64_t whole, char *out)
{
    if (!f->floating && f->truth)
        snprintf(out, ROOM, "%s", whole != 0 ? "True" : "False");
    else if (!f->floating)
        snprintf(out, ROOM, "%lld", (long long)whole);
    else if (isnan(v))
        snprintf(out, ROOM, "nan");
    else if (f->exponent)
        snprintf(out, ROOM, "%.*e", f->precision, v);
    else if (f->whole)
        snprintf(out, ROOM, isinf(v) ? "%.0f" : "%.0f.", v);
    else
        snprintf(out, ROOM, "%.*f", f->precision, v);
}

static void write_number(const format *f, double v, int64_t whole, char *out)
{
    char plain[ROOM];

    write_plain(f, v, whole, plain);
    snprintf(out, ROOM, "%*s", f->width, plain);
}

/* ---- which elements are shown --------------------------------------------------------------- */

typedef struct printer {
    const tt_tensor *t; /* contiguous, in host memory */
    tt_print_options o;
    bool summary;
    tti_element *shown; /* in the order of printing */
    size_t n_shown, next;
    format re, im;
    bool complex;
} printer;

/* Of a dimension of `size` the first and last few are shown, when there are more. */
static bool cut(const printer *p, int64_t size)
{
    return p->summary && size > 2 * (int64_t)p->o.edge_items;
}

static size_t count_shown(const printer *p)
{
    size_t n = 1;

    for (int i = 0; i < p->t->n_dims; i++)
        n *= (size_t)(cut(p, p->t->dims[i]) ? 2 * p->o.edge_items : p->t->dims[i]);
    return n;
}

static void collect(printer *p, int dim, int64_t at)
{
    int64_t size;

    if (dim == p->t->n_dims) {
        p->shown[p->n_shown++] = tti_element_at(p->t, at);
        return;
    }
    size = p->t->dims[dim];
    for (int64_t i = 0; i < size; i++) {
        if (cut(p, size) && i == p->o.edge_items)
            i = size - p->o.edge_items;
        collect(p, dim + 1, at * size + i);
    }
}

/* ---- the format of all of them --------------------------------------------------------------- */

static double part_of(const printer *p, size_t i, bool imaginary)
{
    return imaginary ? p->shown[i].im : p->shown[i].re;
}

static void choose_style(const printer *p, bool imaginary, format *f)
{
    double least = INFINITY, most = 0;

    f->whole = true;
    for (size_t i = 0; i < p->n_shown; i++) {
        double v = part_of(p, i, imaginary);

        if (!isfinite(v) || v == 0)
            continue;
        least = fmin(least, fabs(v));
        most = fmax(most, fabs(v));
        f->whole = f->whole && v == ceil(v);
    }
    f->exponent = most > 0 && (most / least > 1000.0 || most > 1.0e8 || least < 1.0e-4);
}

static void choose_format(const printer *p, bool imaginary, format *f)
{
    tt_dtype d = (tt_dtype)p->t->dtype;
    char out[ROOM];

    *f = (format){ .floating = tt_dtype_is_floating(d) || tt_dtype_is_complex(d),
                   .truth = d == TT_BOOL,
                   .width = 1,
                   .precision = p->o.precision };
    if (f->floating)
        choose_style(p, imaginary, f);
    for (size_t i = 0; i < p->n_shown; i++) {
        double v = part_of(p, i, imaginary);
        int width;

        if (f->floating && (!isfinite(v) || v == 0))
            continue;
        write_plain(f, v, p->shown[i].whole, out);
        width = (int)strlen(out);
        f->width = width > f->width ? width : f->width;
    }
}

/* ---- layout ------------------------------------------------------------------------------ */

static void put_element(text *out, printer *p)
{
    tti_element e = p->shown[p->next++];
    char re[ROOM], im[ROOM];
    const char *from = im;

    write_number(&p->re, e.re, e.whole, re);
    put(out, re);
    if (!p->complex)
        return;
    write_number(&p->im, e.im, 0, im);
    while (*from == ' ')
        from++;
    if (*from != '-')
        put(out, "+");
    put(out, from);
    put(out, "j");
}

static void put_vector(text *out, printer *p, int64_t size, int indent)
{
    int length = p->re.width + 2 + (p->complex ? p->im.width + 1 : 0);
    int per_line = (p->o.line_width - indent) / length;
    int64_t n = cut(p, size) ? 2 * (int64_t)p->o.edge_items + 1 : size;

    per_line = per_line < 1 ? 1 : per_line;
    put(out, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && i % per_line == 0) {
            put(out, ",\n");
            put_spaces(out, indent + 1);
        } else if (i > 0) {
            put(out, ", ");
        }
        if (cut(p, size) && i == p->o.edge_items)
            put(out, " ...");
        else
            put_element(out, p);
    }
    put(out, "]");
}

static void put_block(text *out, printer *p, int dim, int indent)
{
    int left = p->t->n_dims - dim;
    int64_t size;

    if (left == 0) {
        put_element(out, p);
        return;
    }
    size = p->t->dims[dim];
    if (left == 1) {
        put_vector(out, p, size, indent);
        return;
    }
    put(out, "[");
    for (int64_t i = 0; i < size; i++) {
        if (i > 0) {
            put(out, ",");
            for (int k = 0; k < left - 1; k++)
                put(out, "\n");
            put_spaces(out, indent + 1);
        }
        if (cut(p, size) && i == p->o.edge_items) {
            put(out, "...");
            i = size - p->o.edge_items - 1;
            continue;
        }
        put_block(out, p, dim + 1, indent + 1);
    }
    put(out, "]");
}

/* The brackets and numbers of a dense tensor. */
static void put_elements(text *out, const tt_tensor *t, const tt_print_options *o, int indent)
{
    printer p = { .o = *o, .complex = tt_dtype_is_complex((tt_dtype)t->dtype) };
    tt_scope scope = tt_scope_open();

    p.t = tti_host_copy(t);
    if (p.t == NULL) {
        out->status = tt_last_status();
        tt_scope_close(&scope);
        return;
    }
    if (t->numel == 0) {
        put(out, "[]");
        tt_scope_close(&scope);
        return;
    }
    p.summary = t->numel > o->threshold;
    p.shown = tti_malloc(count_shown(&p) * sizeof *p.shown);
    if (p.shown == NULL) {
        out->status = TT_ERR_NOMEM;
    } else {
        collect(&p, 0, 0);
        choose_format(&p, false, &p.re);
        choose_format(&p, true, &p.im);
        put_block(out, &p, 0, indent);
    }
    tti_mfree(p.shown);
    tt_scope_close(&scope);
}

/* ---- what follows the numbers ---------------------------------------------------------------- */

typedef struct suffixes {
    char text[8][128];
    int n;
} suffixes;

static char *next_suffix(suffixes *s)
{
    return s->text[s->n++];
}

/* "size=(2, 0)"; "(3,)" for a single one. */
static void write_size(const tt_tensor *t, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "size=(");

    for (int i = 0; i < t->n_dims && n < room; i++)
        n +=
            (size_t)snprintf(out + n, room - n, "%s%lld", i > 0 ? ", " : "", (long long)t->dims[i]);
    if (n < room)
        snprintf(out + n, room - n, t->n_dims == 1 ? ",)" : ")");
}

static bool usual_type(const tt_tensor *t)
{
    return t->dtype == TT_F32 || t->dtype == TT_C64 || t->dtype == TT_I64 || t->dtype == TT_BOOL;
}

static void describe(const tt_tensor *t, suffixes *s)
{
    bool sparse = t->sparse != NULL;
    char name[32];

    if (t->device.kind != TT_DEVICE_CPU)
        snprintf(next_suffix(s), 128, "device='%s'", tt_device_name(t->device, name, sizeof name));
    if (sparse || (t->numel == 0 && t->n_dims != 1))
        write_size(t, next_suffix(s), 128);
    if (sparse)
        snprintf(next_suffix(s), 128, "nnz=%lld", (long long)tt_sparse_nnz(t));
    if (sparse || t->numel != 0 ? !usual_type(t) : t->dtype != TT_F32)
        snprintf(next_suffix(s), 128, "dtype=%s", tt_dtype_name((tt_dtype)t->dtype));
    if (sparse)
        snprintf(next_suffix(s), 128, "layout=sparse_coo");
    if (t->grad_fn != NULL)
        snprintf(next_suffix(s), 128, "grad_fn=<%s>", t->grad_fn->op->name);
    else if (tti_wants_grad(t))
        snprintf(next_suffix(s), 128, "requires_grad=True");
}

static void put_suffixes(text *out, const suffixes *s, int indent, int line_width, bool new_line)
{
    const char *line = out->p != NULL ? strrchr(out->p, '\n') : NULL;
    /* As if the text were two longer, which decides where lines break. */
    int length = out->status != TT_OK ? 0
                 : line != NULL       ? (int)(out->p + out->n - line) + 1
                                      : (int)out->n + 2;

    for (int i = 0; i < s->n; i++) {
        int n = (int)strlen(s->text[i]);

        if (new_line || length + n + 2 > line_width) {
            put(out, ",\n");
            put_spaces(out, indent);
            length = indent + n;
            new_line = false;
        } else {
            put(out, ", ");
            length += n + 2;
        }
        put(out, s->text[i]);
    }
}

static void put_part(text *out, const char *name, const tt_tensor *t, const tt_print_options *o,
                     int indent)
{
    char size[128];

    put(out, name);
    put_elements(out, t, o, indent + (int)strlen(name));
    if (t->numel == 0) {
        write_size(t, size, sizeof size);
        put(out, ", ");
        put(out, size);
    }
    put(out, ")");
}

static void put_tensor(text *out, const tt_tensor *t, const tt_print_options *o)
{
    static const char prefix[] = "tensor(";
    int indent = (int)sizeof prefix - 1;
    suffixes s = { 0 };

    put(out, prefix);
    if (t->sparse != NULL) {
        put_part(out, "indices=tensor(", t->sparse->indices, o, indent);
        put(out, ",\n");
        put_spaces(out, indent);
        put_part(out, "values=tensor(", t->sparse->values, o, indent);
    } else {
        put_elements(out, t, o, indent);
    }
    describe(t, &s);
    put_suffixes(out, &s, indent, o->line_width, t->sparse != NULL);
    put(out, ")");
}

/* ---- the public calls ---------------------------------------------------------------------- */

static int or_default(int value, int standard, int most)
{
    return value <= 0 ? standard : value < most ? value : most;
}

char *tt_tensor_text(const tt_tensor *t, const tt_print_options *opt)
{
    tt_print_options o = opt != NULL ? *opt : (tt_print_options){ 0 };
    text out = { 0 };

    if (tti_check_alive(t, "print") != TT_OK)
        return NULL;
    if (t == NULL)
        return TT_NULL_GIVEN("print", "a tensor");
    o.precision = or_default(o.precision, 4, 40);
    o.threshold = or_default(o.threshold, 1000, INT32_MAX);
    o.edge_items = or_default(o.edge_items, 3, 1000);
    o.line_width = or_default(o.line_width, 80, INT32_MAX);
    put_tensor(&out, t, &o);
    if (out.status != TT_OK) {
        tti_mfree(out.p);
        return NULL;
    }
    return out.p;
}

void tt_text_free(char *text_p)
{
    tti_mfree(text_p);
}

tt_status tt_fprint(FILE *f, const tt_tensor *t)
{
    char *s = tt_tensor_text(t, NULL);
    tt_status st = TT_OK;

    if (s == NULL)
        return tt_last_status();
    if (fprintf(f, "%s\n", s) < 0)
        st = TT_FAIL(TT_ERR_IO, "print: cannot write");
    tt_text_free(s);
    return st;
}

tt_status tt_print(const tt_tensor *t)
{
    return tt_fprint(stdout, t);
}

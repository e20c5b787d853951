/* SPDX-License-Identifier: Apache-2.0 */
/* One table over the constructors of layers.h, and what holds for every layer: the names, shapes and
 * initial values of its state, its printed form, gradients in float64, copies, files, calls with
 * other parameters, other types, and words for an input of the wrong shape. */
#include <stdio.h>
#include <stdlib.h>

#include "conformance/layer_table.h"

#define AT_ONCE 13 /* parameters in one check of gradients */
#define DRAWS 60   /* layers made to see how far initial values reach */

/* ---- making and running ------------------------------------------------------------------------ */

static tt_tensor *input(const layer_row *row, tt_shape shape, tt_dtype dtype, double salt)
{
    tt_tensor *t = nn_tensor(shape, salt);

    if (row->n_index == 0)
        return tt_to_dtype(t, dtype);
    t = tt_to_dtype(t, TT_I64);
    for (int64_t i = 0; t != NULL && i < tt_tensor_numel(t); i++)
        ((int64_t *)tt_tensor_data(t))[i] = (5 * i + (int64_t)salt) % row->n_index;
    return t;
}

/* Call m, with the n tensors of these names instead of its own if there are any. */
static tt_tensor *run_with(tt_module *m, const char *const *names, tt_tensor *const *tensors, int n,
                           tt_tensor *const *x)
{
    tt_value *in, *out;
    tt_tensor *y;

    if (x[1] == NULL)
        return tt_module_functional_call(m, names, tensors, n, x[0]);
    in = tt_value_list_new();
    TT_CHECK_OK(tt_value_list_give(in, tt_value_tensor_new(x[0])));
    TT_CHECK_OK(tt_value_list_give(in, tt_value_tensor_new(x[1])));
    out = tt_module_functional_call_value(m, names, tensors, n, in);
    /* A clone, because the value owns the tensor. */
    y = out != NULL ? tt_clone(tt_value_as_tensor(out)) : NULL;
    tt_value_free(in);
    tt_value_free(out);
    return y;
}

static tt_tensor *run(const layer_row *row, tt_module *m, tt_dtype dtype, double salt)
{
    tt_tensor *x[2] = { input(row, row->in, dtype, salt), NULL };

    if (row->in2.n_dims > 0)
        x[1] = input(row, row->in2, dtype, salt + 1);
    return run_with(m, NULL, NULL, 0, x);
}

static tt_module *make_filled(const layer_row *row)
{
    tt_module *m = row->make();

    TT_REQUIRE_NOT_NULL(m);
    nn_fill_params(m);
    tt_module_eval(m);
    return m;
}

/* ---- the state --------------------------------------------------------------------------------- */

static void names_and_shapes(void *ctx)
{
    const layer_row *row = ctx;
    tt_module *m = row->make();
    tt_state_dict *sd;
    int64_t count = 0;
    int n = 0;

    TT_REQUIRE_NOT_NULL(m);
    sd = tt_module_state_dict(m);
    for (; n < MAX_ENTRIES && row->state[n].name != NULL; n++) {
        const layer_entry *e = &row->state[n];
        tt_tensor *t = tt_state_dict_tensor(sd, n);

        TT_REQUIRE_STR(tt_state_dict_name(sd, n), e->name);
        TT_CHECK(tt_shape_equal(tt_tensor_shape(t), e->shape));
        TT_CHECK_EQ(tt_tensor_dtype(t), e->init == COUNTER ? TT_I64 : TT_F32);
        if (!e->buffer) {
            count += tt_shape_numel(e->shape);
            TT_CHECK(tt_requires_grad(tt_module_param(m, e->name)));
        }
    }
    TT_CHECK_EQ(tt_state_dict_count(sd), n);
    TT_CHECK_EQ(tt_module_count_params(m), count);
    tt_state_dict_free(sd);
    tt_module_free(m);
}

typedef struct span {
    double lo, hi, sum_squares;
    int64_t n;
} span;

static void add_values(span *s, tt_tensor *t)
{
    double *p = calloc((size_t)tt_tensor_numel(t), sizeof *p);

    TT_REQUIRE(p != NULL);
    TT_CHECK_OK(tt_copy_out_f64(t, p, (size_t)tt_tensor_numel(t)));
    for (int64_t i = 0; i < tt_tensor_numel(t); i++, s->n++) {
        s->lo = s->n == 0 ? p[i] : fmin(s->lo, p[i]);
        s->hi = s->n == 0 ? p[i] : fmax(s->hi, p[i]);
        s->sum_squares += p[i] * p[i];
    }
    free(p);
}

static void check_span(const layer_entry *e, span s)
{
    double b = e->bound;

    switch (e->init) {
    case UNIFORM:
        TT_CHECK(s.lo >= -b * (1 + 1e-6) && s.lo < -0.9 * b);
        TT_CHECK(s.hi <= b * (1 + 1e-6) && s.hi > 0.9 * b);
        TT_CHECK_NEAR(s.sum_squares / (double)s.n, b * b / 3, b * b / 8);
        break;
    case NORMAL:
        TT_CHECK(s.lo < -2 && s.hi > 2);
        TT_CHECK_NEAR(s.sum_squares / (double)s.n, 1, 0.15);
        break;
    case ONES:
        TT_CHECK(s.lo == 1 && s.hi == 1);
        break;
    default:
        TT_CHECK(s.lo == 0 && s.hi == 0);
    }
}

static void initial_values(void *ctx)
{
    const layer_row *row = ctx;
    span spans[MAX_ENTRIES] = { 0 };

    tt_seed(4711);
    for (int draw = 0; draw < DRAWS; draw++) {
        tt_module *m = row->make();
        tt_state_dict *sd = tt_module_state_dict(m);

        for (int i = 0; i < tt_state_dict_count(sd) && i < MAX_ENTRIES; i++)
            add_values(&spans[i], tt_state_dict_tensor(sd, i));
        tt_state_dict_free(sd);
        tt_module_free(m);
    }
    for (int i = 0; i < MAX_ENTRIES && row->state[i].name != NULL; i++) {
        int before = tt_test_failures();

        check_span(&row->state[i], spans[i]);
        if (tt_test_failures() != before)
            TT_FAIL_TEST("%s: from %g to %g", row->state[i].name, spans[i].lo, spans[i].hi);
    }
}

static void printed_form(void *ctx)
{
    const layer_row *row = ctx;
    tt_module *m = row->make();
    char *text = tt_module_text(m);

    TT_CHECK_CONTAINS(text, row->text);
    tt_text_free(text);
    tt_module_free(m);
}

/* ---- results ----------------------------------------------------------------------------------- */

static void modes_and_shapes(void *ctx)
{
    const layer_row *row = ctx;
    tt_module *m = make_filled(row);

    TT_SCOPE {
        tt_tensor *y = run(row, m, TT_F32, 1), *z = run(row, m, TT_F32, 1), *trained;

        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(tt_shape_equal(tt_tensor_shape(y), row->out));
        TT_CHECK(tt_equal(y, z));
        tt_module_train(m, true);
        trained = run(row, m, TT_F32, 1);
        TT_REQUIRE_NOT_NULL(trained);
        TT_CHECK_EQ(tt_equal(y, trained), row->modes == SAME);
    }
    tt_module_free(m);
}

typedef struct call {
    tt_module *m;
    const char *names[AT_ONCE];
    int n_x, n_params;
    tt_tensor *index; /* in place of x when it has no gradient */
} call;

static tt_status call_it(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    call *c = ctx;
    tt_tensor *x[2] = { c->index, NULL };

    (void)n_in;
    (void)n_out;
    for (int i = 0; i < c->n_x; i++)
        x[i] = in[i];
    out[0] = run_with(c->m, c->names, in + c->n_x, c->n_params, x);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

/* With respect to the input and AT_ONCE parameters; the others stay the module's own. */
static void check_some(const layer_row *row, call *c, const tt_state_dict *all, int first)
{
    TT_SCOPE {
        tt_tensor *in[2 + AT_ONCE];
        int n = 0;

        if (row->n_index > 0)
            c->index = input(row, row->in, TT_F64, 1);
        else
            in[n++] = tt_require_grad(input(row, row->in, TT_F64, 1));
        if (row->in2.n_dims > 0)
            in[n++] = tt_require_grad(input(row, row->in2, TT_F64, 2));
        c->n_x = n;
        for (int i = first; i < tt_state_dict_count(all) && i < first + AT_ONCE; i++) {
            c->names[i - first] = tt_state_dict_name(all, i);
            in[n++] = tt_require_grad(tt_clone(tt_detach(tt_state_dict_tensor(all, i))));
        }
        c->n_params = n - c->n_x;
        for (int train = 0; train <= (row->modes != RANDOM); train++) {
            tt_module_train(c->m, train);
            TT_CHECK_OK(tt_gradcheck(call_it, c, in, n, 1, NULL));
        }
    }
}

static void gradients(void *ctx)
{
    const layer_row *row = ctx;
    tt_module *m = make_filled(row);
    tt_state_dict *all;
    call c = { .m = m };

    TT_CHECK_OK(tt_module_to_dtype(m, TT_F64));
    all = tt_module_params(m, NULL);
    for (int first = 0; first == 0 || first < tt_state_dict_count(all); first += AT_ONCE)
        check_some(row, &c, all, first);
    tt_state_dict_free(all);
    tt_module_free(m);
}

static void copies(void *ctx)
{
    const layer_row *row = ctx;
    tt_module *m = make_filled(row), *twin = tt_module_copy(m);
    tt_state_dict *a = tt_module_state_dict(m), *b = tt_module_state_dict(twin);

    TT_REQUIRE_NOT_NULL(twin);
    TT_REQUIRE_EQ(tt_state_dict_count(a), tt_state_dict_count(b));
    TT_CHECK(!tt_module_is_training(twin));
    TT_SCOPE {
        tt_tensor *y = run(row, m, TT_F32, 1);

        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(tt_equal(y, run(row, twin, TT_F32, 1)));
        for (int i = 0; i < tt_state_dict_count(b); i++) {
            TT_CHECK(
                !tt_tensor_shares_storage(tt_state_dict_tensor(a, i), tt_state_dict_tensor(b, i)));
            TT_CHECK_NOT_NULL(tt_fill_(tt_state_dict_tensor(b, i), 3));
        }
        TT_CHECK(tt_equal(y, run(row, m, TT_F32, 1)));
        if (tt_state_dict_count(b) > 0)
            TT_CHECK(!tt_equal(y, run(row, twin, TT_F32, 1)));
    }
    tt_state_dict_free(a);
    tt_state_dict_free(b);
    tt_module_free(m);
    tt_module_free(twin);
}

static void files(void *ctx)
{
    const layer_row *row = ctx;
    tt_module *m = make_filled(row), *other = row->make();
    char path[4096];

    snprintf(path, sizeof path, "%s/layer.safetensors", tt_test_tmpdir());
    TT_SCOPE {
        tt_tensor *y;

        /* Let running statistics move away from where they began. */
        tt_module_train(m, true);
        TT_CHECK_NOT_NULL(run(row, m, TT_F32, 2));
        tt_module_eval(m);
        tt_module_eval(other);
        y = run(row, m, TT_F32, 1);
        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK_OK(tt_module_save(m, path));
        TT_CHECK_OK(tt_module_load(other, path, NULL));
        TT_CHECK(tt_equal(y, run(row, other, TT_F32, 1)));
    }
    tt_module_free(m);
    tt_module_free(other);
}

static void functional_calls(void *ctx)
{
    const layer_row *row = ctx;
    tt_module *m = make_filled(row), *other = row->make();
    tt_state_dict *sd = tt_module_state_dict(m), *before = tt_module_params(other, NULL);
    const char *names[MAX_ENTRIES];
    tt_tensor *tensors[MAX_ENTRIES];
    int n = tt_state_dict_count(sd);

    tt_module_eval(other);
    for (int i = 0; i < n; i++) {
        names[i] = tt_state_dict_name(sd, i);
        tensors[i] = tt_state_dict_tensor(sd, i);
    }
    TT_SCOPE {
        tt_tensor *x[2] = { input(row, row->in, TT_F32, 1), NULL }, *y = run(row, m, TT_F32, 1);

        if (row->in2.n_dims > 0)
            x[1] = input(row, row->in2, TT_F32, 2);
        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(tt_equal(y, run_with(other, names, tensors, n, x)));
        for (int i = 0; i < tt_state_dict_count(before); i++)
            TT_CHECK_PTR(tt_module_param(other, tt_state_dict_name(before, i)),
                         tt_state_dict_tensor(before, i));
        TT_CHECK_OK(tt_module_load_state_dict(other, sd, NULL, NULL));
        TT_CHECK(tt_equal(y, run(row, other, TT_F32, 1)));
    }
    tt_state_dict_free(sd);
    tt_state_dict_free(before);
    tt_module_free(m);
    tt_module_free(other);
}

static void other_types(void *ctx)
{
    const layer_row *row = ctx;
    tt_module *m = make_filled(row);

    TT_SCOPE {
        tt_tensor *y = run(row, m, TT_F32, 1), *d, *h;

        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK_OK(tt_module_to_dtype(m, TT_F64));
        d = run(row, m, TT_F64, 1);
        TT_REQUIRE_NOT_NULL(d);
        TT_CHECK_EQ(tt_tensor_dtype(d), TT_F64);
        TT_CHECK(tt_allclose(tt_to_dtype(d, TT_F32), y,
                             &(tt_close_options){ .rtol = 1e-5, .atol = 2e-6 }));
        TT_CHECK_OK(tt_module_to_dtype(m, TT_BF16));
        h = run(row, m, TT_BF16, 1);
        TT_REQUIRE_NOT_NULL(h);
        TT_CHECK_EQ(tt_tensor_dtype(h), TT_BF16);
        TT_CHECK(tt_allclose(tt_to_dtype(h, TT_F32), y,
                             &(tt_close_options){ .rtol = 0.05, .atol = 0.05 }));
    }
    tt_module_free(m);
}

static void wrong_input(void *ctx)
{
    const layer_row *row = ctx;
    tt_module *m = make_filled(row);

    TT_SCOPE {
        tt_tensor *x[2] = { input(row, row->bad, TT_F32, 1), NULL };

        if (row->in2.n_dims > 0)
            x[1] = input(row, row->in2, TT_F32, 2);
        TT_CHECK_NULL(run_with(m, NULL, NULL, 0, x));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
        TT_CHECK_CONTAINS(tt_last_error(), row->error);
        /* And works as before. */
        TT_CHECK_NOT_NULL(run(row, m, TT_F32, 1));
    }
    tt_module_free(m);
}

/* ---- one test per row and property ---------------------------------------------------------------- */

static void add(const layer_row *row, const char *what, tt_test_fn fn)
{
    char name[128];

    snprintf(name, sizeof name, "%s_%s", row->name, what);
    tt_test_add("layer_table", name, fn, (void *)row)->together = true;
}

static void add_row(const layer_row *row)
{
    add(row, "state", names_and_shapes);
    if (row->state[0].name != NULL)
        add(row, "initial_values", initial_values);
    add(row, "text", printed_form);
    add(row, "modes", modes_and_shapes);
    add(row, "gradients", gradients);
    add(row, "copy", copies);
    add(row, "file", files);
    add(row, "functional_call", functional_calls);
    add(row, "types", other_types);
    if (row->error != NULL)
        add(row, "wrong_input", wrong_input);
}

TT_TEST_TABLE(layer_table)
{
    for (int i = 0; i < layer_n_rows; i++)
        add_row(&layer_rows[i]);
    for (int i = 0; i < sequence_n_rows; i++)
        add_row(&sequence_rows[i]);
}

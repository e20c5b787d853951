/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one golden case: inputs with their views, the operator, its outputs, backward, gradients. */
#include <string.h>

#include "golden/golden.h"
#include "tutti/testing.h"

typedef struct replay {
    const golden_file *file;
    const cJSON *entry;
    const char *keys[GOLDEN_MAX]; /* of the inputs */
    tt_tensor *bases[GOLDEN_MAX]; /* as stored, before views */
    golden_call call;
} replay;

static const cJSON *field(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

const golden_op *golden_find_op(const char *name)
{
    static const golden_op *const tables[] = {
        golden_ops_pointwise, golden_ops_reduce, golden_ops_shape, golden_ops_index,
        golden_ops_product,   golden_ops_nn,     golden_ops_loss,
    };

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        for (const golden_op *op = tables[i]; op->name != NULL; op++) {
            if (strcmp(op->name, name) == 0)
                return op;
        }
    }
    return NULL;
}

void golden_apply(const golden_op *op, golden_call *c)
{
    tt_tensor *x = c->in[0];

    if (op->run != NULL)
        op->run(c);
    else if (op->unary != NULL)
        c->out[0] = op->unary(x);
    else if (op->scalar != NULL && golden_is_plain(c, "scalar", x))
        c->out[0] = op->scalar(x, golden_real(c, "scalar", 0));
    else if (op->number_right)
        c->out[0] = op->binary(x, golden_number(c, "scalar"));
    else if (op->number_left)
        c->out[0] = op->binary(golden_number(c, "scalar"), x);
    else
        c->out[0] = op->binary(x, c->in[1]);
}

/* ---- inputs ----------------------------------------------------------------------------- */

static tt_tensor *apply_view(tt_tensor *x, const cJSON *step)
{
    const char *how = cJSON_GetStringValue(field(step, "how"));
    golden_call args = { .attrs = step };
    int64_t n[TT_MAX_DIMS];
    int dims[TT_MAX_DIMS], n_dims = golden_dims(&args, "args", dims);

    golden_ints(&args, "args", n);
    if (strcmp(how, "permute") == 0)
        return tt_permute(x, dims, n_dims);
    if (strcmp(how, "slice") == 0)
        return tt_slice(x, dims[0], n[1], n[2], n[3]);
    if (strcmp(how, "select") == 0)
        return tt_select(x, dims[0], n[1]);
    if (strcmp(how, "expand") == 0)
        return tt_expand(x, golden_shape(&args, "args"));
    tt_fail(TT_ERR_FORMAT, "golden: unknown view %s", how);
    return NULL;
}

static const char *grad_key(const cJSON *entry, int input)
{
    return cJSON_GetStringValue(cJSON_GetArrayItem(field(entry, "grads"), input));
}

/* The tensor of an input: made once for inputs that share a key. */
static tt_tensor *base_of(replay *r, int i)
{
    for (int k = 0; k < i; k++) {
        if (r->keys[k] != NULL && strcmp(r->keys[k], r->keys[i]) == 0)
            return r->bases[k];
    }
    tt_tensor *base = golden_file_tensor(r->file, r->keys[i]);
    return grad_key(r->entry, i) != NULL ? tt_require_grad(base) : base;
}

static void make_inputs(replay *r)
{
    const cJSON *input = NULL, *step = NULL;
    int i = 0;

    cJSON_ArrayForEach(input, field(r->entry, "inputs"))
    {
        TT_REQUIRE_LT(i, GOLDEN_MAX);
        r->keys[i] = cJSON_GetStringValue(field(input, "key"));
        if (r->keys[i] != NULL) {
            tt_tensor *x = r->bases[i] = base_of(r, i);
            cJSON_ArrayForEach(step, field(input, "view")) x = apply_view(x, step);
            if (x == NULL)
                TT_FAIL_TEST("input %d: %s", i, tt_last_error());
            TT_REQUIRE_NOT_NULL(x);
            r->call.in[i] = x;
        }
        i++;
    }
    r->call.n_in = i;
}

/* ---- comparing -------------------------------------------------------------------------- */

static double number_or(const cJSON *object, const char *name, double absent)
{
    const cJSON *item = field(object, name);

    return cJSON_IsNumber(item) ? item->valuedouble : absent;
}

static tt_close_options tolerance(const replay *r, tt_dtype dtype)
{
    const cJSON *pair = field(field(r->file->document, "tolerances"), tt_dtype_name(dtype));
    tt_close_options opt = { .exact = true };

    if (pair == NULL)
        return opt;
    opt.rtol = number_or(r->entry, "rtol", cJSON_GetArrayItem(pair, 0)->valuedouble);
    opt.atol = number_or(r->entry, "atol", cJSON_GetArrayItem(pair, 1)->valuedouble);
    opt.rtol *= number_or(r->entry, "rtol_scale", 1);
    opt.atol *= number_or(r->entry, "atol_scale", 1);
    opt.exact = opt.rtol <= 0 && opt.atol <= 0;
    return opt;
}

static void check_equal(const replay *r, const char *what, const tt_tensor *got, const char *key)
{
    tt_tensor *want = golden_file_tensor(r->file, key);
    tt_close_report report;

    if (want == NULL || got == NULL) {
        TT_FAIL_TEST("%s (%s) is missing: %s", what, key, tt_last_error());
        return;
    }
    tt_close_options opt = tolerance(r, tt_tensor_dtype(want));
    if (!tt_compare(got, want, &opt, &report))
        TT_FAIL_TEST("%s (%s): %s", what, key, report.text);
}

/* ---- outputs and gradients ------------------------------------------------------------------ */

static void check_outputs(const replay *r)
{
    const cJSON *key = NULL;
    int i = 0;

    TT_CHECK_EQ(r->call.n_out, cJSON_GetArraySize(field(r->entry, "outputs")));
    cJSON_ArrayForEach(key, field(r->entry, "outputs"))
    {
        check_equal(r, "output", r->call.out[i++], key->valuestring);
    }
}

static void run_backward(const replay *r)
{
    tt_tensor *results[GOLDEN_MAX], *gradients[GOLDEN_MAX];
    const cJSON *key = NULL;
    int i = 0, n = 0;

    cJSON_ArrayForEach(key, field(r->entry, "grad_outputs"))
    {
        if (cJSON_IsString(key)) {
            results[n] = r->call.out[i];
            gradients[n++] = golden_file_tensor(r->file, key->valuestring);
        }
        i++;
    }
    TT_REQUIRE_OK(tt_backward_many(results, gradients, n, NULL));
}

/* A gradient that was left out altogether counts as zeros. */
static void check_gradients(const replay *r)
{
    for (int i = 0; i < r->call.n_in; i++) {
        const char *key = grad_key(r->entry, i);

        if (key == NULL)
            continue;
        tt_tensor *grad = tt_grad_of(r->bases[i]);
        check_equal(r, "gradient", grad != NULL ? grad : tt_zeros_like(r->bases[i]), key);
    }
}

static void check_updated(const replay *r)
{
    const cJSON *update = NULL;

    cJSON_ArrayForEach(update, field(r->entry, "updated"))
    {
        int input = (int)number_or(update, "input", 0);

        check_equal(r, "updated input", r->bases[input],
                    cJSON_GetStringValue(field(update, "key")));
    }
}

void golden_check_case(const golden_file *file, const cJSON *entry)
{
    const char *name = cJSON_GetStringValue(field(entry, "op"));
    replay r = { .file = file, .entry = entry, .call = { .attrs = field(entry, "attrs") } };
    const golden_op *op = golden_find_op(name);

    if (op == NULL)
        TT_FAIL_TEST("no operator %s in the tables", name);
    TT_REQUIRE_NOT_NULL(op);
    make_inputs(&r);
    r.call.n_out = cJSON_GetArraySize(field(entry, "outputs"));
    golden_apply(op, &r.call);
    if (r.call.out[0] == NULL)
        TT_FAIL_TEST("%s failed: %s (%s)", name, tt_last_error(), tt_last_error_where());
    TT_REQUIRE_NOT_NULL(r.call.out[0]);
    check_outputs(&r);
    if (field(entry, "grad_outputs") != NULL) {
        run_backward(&r);
        check_gradients(&r);
    }
    check_updated(&r);
}

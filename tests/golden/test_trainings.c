/* SPDX-License-Identifier: Apache-2.0 */
/* Whole trainings of 20 steps against PyTorch's: one test per file of trainings. Weights and data
 * come from hashes; losses, final parameters and buffers are compared as README.md says. Files whose names end in
 * "@N.json" are of N ranks that train data-parallel, each with its own data. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/hashdata.h"
#include "golden/training.h"
#include "tutti/ddp.h"
#include "tutti/testing_tools.h"

/* The file allows 1e-4 everywhere; losses have to be closer. */
static const double loss_tolerance = 1e-5;
static const double limit = 240; /* seconds, for ResNet-18 on a busy machine */
enum { MAX_PARAMS = 128 };

typedef struct training {
    cJSON *doc;
    const char *name;
    const golden_model *model;
    tt_module *module;
    tt_tensor *params[MAX_PARAMS];
    int n_params;
    tt_optim *optim;
    bool parallel;
    tt_ddp *ddp;
    tt_module *entry; /* the module, or its tt_ddp */
} training;

static const cJSON *field(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static const char *word(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(field(object, name));

    return text != NULL ? text : "";
}

static double number(const cJSON *object, const char *name, double absent)
{
    const cJSON *item = field(object, name);

    if (cJSON_IsBool(item))
        return cJSON_IsTrue(item) ? 1 : 0;
    return cJSON_IsNumber(item) ? item->valuedouble : absent;
}

static tt_shape shape_of(const cJSON *entry)
{
    tt_shape shape = { .n_dims = 0 };
    const cJSON *dim = NULL;

    cJSON_ArrayForEach(dim, field(entry, "shape"))
    {
        shape.dims[shape.n_dims++] = (int64_t)dim->valuedouble;
    }
    return shape;
}

static cJSON *read_json(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0;
    cJSON *doc = NULL;

    if (f == NULL)
        return NULL;
    if (getdelim(&text, &size, '\0', f) > 0)
        doc = cJSON_Parse(text);
    free(text);
    fclose(f);
    return doc;
}

/* ---- filling ------------------------------------------------------------------------------- */

/* The module has exactly the parameters of the file, in its order. */
static void fill_parameters(training *t)
{
    tt_state_dict *list = tt_module_params(t->module, NULL);
    const cJSON *entry = NULL;
    char name[512];
    int i = 0;

    TT_REQUIRE_NOT_NULL(list);
    TT_REQUIRE_EQ(tt_state_dict_count(list), cJSON_GetArraySize(field(t->doc, "parameters")));
    cJSON_ArrayForEach(entry, field(t->doc, "parameters"))
    {
        tt_tensor *p = tt_state_dict_tensor(list, i);

        TT_REQUIRE_STR(tt_state_dict_name(list, i), word(entry, "name"));
        TT_REQUIRE(tt_shape_equal(tt_tensor_shape(p), shape_of(entry)));
        TT_REQUIRE(tt_tensor_is_contiguous(p, TT_FORMAT_CONTIGUOUS));
        TT_REQUIRE_LT(i, MAX_PARAMS);
        snprintf(name, sizeof(name), "%s/%s", t->name, word(entry, "name"));
        golden_fill_uniform(name, tt_tensor_data(p), tt_tensor_numel(p),
                            (float)number(entry, "scale", 1), (float)number(entry, "shift", 0));
        t->params[i++] = p;
    }
    t->n_params = i;
    tt_state_dict_free(list);
}

static tt_tensor *make_input(const training *t, const cJSON *entry, int batch)
{
    bool integers = field(entry, "modulo") != NULL;
    tt_tensor *x = tt_empty(shape_of(entry), integers ? TT_I64 : TT_F32, TT_CPU);
    char name[512];

    TT_REQUIRE_NOT_NULL(x);
    snprintf(name, sizeof(name), "%s/%s/%d", t->name, word(entry, "name"), batch);
    if (t->parallel)
        snprintf(name + strlen(name), sizeof(name) - strlen(name), "/rank%d", tt_test_rank());
    if (integers)
        golden_fill_integers(name, tt_tensor_data(x), tt_tensor_numel(x),
                             (int64_t)number(entry, "modulo", 1));
    else
        golden_fill_uniform(name, tt_tensor_data(x), tt_tensor_numel(x),
                            (float)number(entry, "scale", 1), 0.0f);
    return x;
}

/* ---- the optimizer ------------------------------------------------------------------------------ */

/* Zero in the options means the default, unless it is spelled otherwise. */
static double given(const cJSON *o, const char *name, double absent)
{
    double value = number(o, name, absent);

    return value > 0 || value < 0 ? value : TT_OPTIM_ZERO;
}

static tt_optim *make_adam(const training *t, const cJSON *o, bool decoupled)
{
    const cJSON *betas = field(o, "betas");
    tt_adam_options opt = {
        .lr = number(o, "lr", 1e-3),
        .beta1 = betas != NULL ? cJSON_GetArrayItem(betas, 0)->valuedouble : 0.9,
        .beta2 = betas != NULL ? cJSON_GetArrayItem(betas, 1)->valuedouble : 0.999,
        .eps = number(o, "eps", 1e-8),
        .weight_decay = given(o, "weight_decay", decoupled ? 0.01 : 0),
        .amsgrad = number(o, "amsgrad", 0) > 0,
    };

    return decoupled ? tt_adamw_new(t->params, t->n_params, &opt)
                     : tt_adam_new(t->params, t->n_params, &opt);
}

static tt_optim *make_sgd(const training *t, const cJSON *o)
{
    tt_sgd_options opt = {
        .lr = number(o, "lr", 1e-3),
        .momentum = number(o, "momentum", 0),
        .dampening = number(o, "dampening", 0),
        .weight_decay = number(o, "weight_decay", 0),
        .nesterov = number(o, "nesterov", 0) > 0,
    };

    return tt_sgd_new(t->params, t->n_params, &opt);
}

static tt_optim *make_optim(const training *t)
{
    const cJSON *o = field(t->doc, "optimizer");
    const char *kind = word(o, "kind");

    if (strcmp(kind, "sgd") == 0)
        return make_sgd(t, o);
    if (strcmp(kind, "adam") == 0)
        return make_adam(t, o, false);
    if (strcmp(kind, "adamw") == 0)
        return make_adam(t, o, true);
    if (strcmp(kind, "rmsprop") == 0) {
        tt_rmsprop_options opt = { .lr = number(o, "lr", 1e-2),
                                   .alpha = number(o, "alpha", 0.99),
                                   .eps = number(o, "eps", 1e-8) };

        return tt_rmsprop_new(t->params, t->n_params, &opt);
    }
    tt_adagrad_options opt = { .lr = number(o, "lr", 1e-2), .eps = number(o, "eps", 1e-10) };
    return tt_adagrad_new(t->params, t->n_params, &opt);
}

/* ---- the steps ------------------------------------------------------------------------------------ */

static double run_step(training *t, int step)
{
    tt_tensor *batch[GOLDEN_INPUTS] = { NULL };
    const cJSON *entry = NULL, *clip = field(t->doc, "clip_grad_norm");
    int batches = (int)number(t->doc, "batches", 1), i = 0;
    double value = 0;

    TT_SCOPE {
        cJSON_ArrayForEach(entry, field(t->doc, "inputs"))
        {
            TT_REQUIRE_LT(i, GOLDEN_INPUTS);
            batch[i++] = make_input(t, entry, step % batches);
        }
        TT_REQUIRE_OK(tt_optim_zero_grad(t->optim, false));
        tt_tensor *loss = t->model->loss(t->entry, batch);
        if (loss == NULL)
            TT_FAIL_TEST("step %d: %s (%s)", step, tt_last_error(), tt_last_error_where());
        TT_REQUIRE_NOT_NULL(loss);
        TT_REQUIRE_OK(tt_backward(loss));
        if (cJSON_IsNumber(clip))
            TT_REQUIRE_OK(tt_clip_grad_norm(t->params, t->n_params, clip->valuedouble, NULL, NULL));
        TT_REQUIRE_OK(tt_optim_step(t->optim));
        value = tt_item(loss);
    }
    return value;
}

static void run_steps(training *t)
{
    const cJSON *rates = field(t->doc, "learning_rates"), *losses = field(t->doc, "losses");
    double worst = 0;

    if (t->parallel)
        losses = cJSON_GetArrayItem(field(t->doc, "rank_losses"), tt_test_rank());

    for (int step = 0; step < (int)number(t->doc, "steps", 0); step++) {
        double want = cJSON_GetArrayItem(losses, step)->valuedouble;

        TT_REQUIRE_OK(tt_optim_set_lr(t->optim, 0, cJSON_GetArrayItem(rates, step)->valuedouble));
        double got = run_step(t, step), gap = fabs(got - want) / fabs(want);
        if (!(gap <= loss_tolerance))
            TT_FAIL_TEST("step %d: loss %.9g, wanted %.9g, relative gap %.2e", step, got, want,
                         gap);
        if (!(gap <= worst))
            worst = gap;
    }
    TT_NOTE("losses within %.1e", worst);
}

/* ---- the end ------------------------------------------------------------------------------------- */

static void check_summary(const tt_tensor *x, const cJSON *entry, double tolerance)
{
    size_t n = (size_t)tt_tensor_numel(x);
    double *values = malloc(n * sizeof(*values));
    double sum = 0, squares = 0, norm = number(entry, "norm", 0);
    double rms = n > 0 ? norm / sqrt((double)n) : 0;
    const cJSON *positions = field(entry, "positions"), *wanted = field(entry, "values");
    const char *name = word(entry, "name");

    TT_REQUIRE_NOT_NULL(values);
    TT_REQUIRE_OK(tt_copy_out_f64(x, values, n));
    for (size_t i = 0; i < n; i++) {
        sum += values[i];
        squares += values[i] * values[i];
    }
    if (!(fabs(sqrt(squares) - norm) <= tolerance * norm))
        TT_FAIL_TEST("%s: norm %.9g, wanted %.9g", name, sqrt(squares), norm);
    if (!(fabs(sum - number(entry, "sum", 0)) <= tolerance * (double)n * rms))
        TT_FAIL_TEST("%s: sum %.9g, wanted %.9g", name, sum, number(entry, "sum", 0));
    for (int i = 0; i < cJSON_GetArraySize(positions); i++) {
        size_t at = (size_t)cJSON_GetArrayItem(positions, i)->valuedouble;
        double want = cJSON_GetArrayItem(wanted, i)->valuedouble;

        if (!(at < n && fabs(values[at] - want) <= tolerance * fmax(fabs(want), rms)))
            TT_FAIL_TEST("%s[%zu]: %.9g, wanted %.9g", name, at, at < n ? values[at] : NAN, want);
    }
    free(values);
}

/* Parameters first, then buffers, both by the names of the file. */
static void check_final(const training *t)
{
    const cJSON *entry = NULL;
    int i = 0;

    cJSON_ArrayForEach(entry, field(t->doc, "final"))
    {
        const char *name = word(entry, "name");
        tt_tensor *x =
            i < t->n_params ? tt_module_param(t->module, name) : tt_module_buffer(t->module, name);

        i++;
        if (x == NULL)
            TT_FAIL_TEST("%s is missing: %s", name, tt_last_error());
        TT_REQUIRE_NOT_NULL(x);
        TT_CHECK_STR(tt_dtype_name(tt_tensor_dtype(x)), word(entry, "dtype"));
        TT_CHECK(tt_shape_equal(tt_tensor_shape(x), shape_of(entry)));
        check_summary(x, entry, number(t->doc, "tolerance", 1e-4));
    }
}

static void make_parallel(training *t)
{
    t->entry = t->module;
    if (!t->parallel)
        return;
    t->ddp = tt_ddp_new(t->module, tt_test_pg(), NULL);
    if (t->ddp == NULL)
        TT_FAIL_TEST("ddp: %s", tt_last_error());
    TT_REQUIRE_NOT_NULL(t->ddp);
    t->entry = tt_ddp_as_module(t->ddp);
}

static void run(void *ctx)
{
    training t = { .doc = read_json(ctx), .parallel = strchr(ctx, '@') != NULL };

    TT_REQUIRE_NOT_NULL(t.doc);
    t.name = word(t.doc, "name");
    t.model = golden_find_model(t.name);
    TT_REQUIRE_NOT_NULL(t.model);
    TT_SCOPE {
        t.module = t.model->build(field(t.doc, "config"));
        if (t.module == NULL)
            TT_FAIL_TEST("%s cannot be built: %s", t.name, tt_last_error());
        TT_REQUIRE_NOT_NULL(t.module);
        fill_parameters(&t);
        t.optim = make_optim(&t);
        TT_REQUIRE_NOT_NULL(t.optim);
        make_parallel(&t);
        run_steps(&t);
        if (!t.parallel || tt_test_rank() == 0) /* whose buffers count */
            check_final(&t);
    }
    tt_ddp_free(t.ddp);
    tt_optim_free(t.optim);
    tt_module_free(t.module);
    cJSON_Delete(t.doc);
}

static int is_training_file(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);

    return n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

TT_TEST_TABLE(golden_training)
{
    const char *elsewhere = getenv("TUTTI_TEST_CASES");
    const char *folder = elsewhere != NULL ? elsewhere : TT_TESTS_DIR "/golden/trainings";
    struct dirent **names = NULL;
    int n = scandir(folder, &names, is_training_file, alphasort);

    for (int i = 0; i < n; i++) {
        char *path = NULL, name[256];

        snprintf(name, sizeof(name), "%.*s", (int)strlen(names[i]->d_name) - 5, names[i]->d_name);
        if (asprintf(&path, "%s/%s", folder, names[i]->d_name) > 0) { /* stays with the test */
            tt_test *test = tt_test_add(elsewhere != NULL ? "parity_training" : "golden_training",
                                        name, run, path);

            if (test != NULL)
                test->limit = limit;
            if (test != NULL && strchr(names[i]->d_name, '@') != NULL) {
                test->kind = TT_TEST_KIND_RANKS;
                test->ranks = atoi(strchr(names[i]->d_name, '@') + 1);
            }
        }
        free(names[i]);
    }
    free(names);
}

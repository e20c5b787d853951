/* SPDX-License-Identifier: Apache-2.0 */
/* Forward in another type: copies of the parameters stand in for them, by an operator of the graph, so that
 * backward brings gradients of the parameters' own type. */
#include <string.h>

#include "ddp/ddp.h"
#include "nn/module.h"
#include "tutti/ops.h"

/* ---- twins --------------------------------------------------------------------------------------- */

static bool changes(tt_dtype from, tt_dtype to)
{
    return to != TT_F32 && from != to && tt_dtype_is_floating(from);
}

static tt_status add_twin(tt_ddp *d, const char *name, tt_tensor *t)
{
    tti_ddp_twin *w = &d->twins[d->n_twins];

    w->name = tti_strdup(name);
    if (w->name == NULL)
        return TT_ERR_NOMEM;
    d->n_twins++;
    TT_SCOPE {
        w->low = tt_tensor_retain(tt_to_dtype(tt_detach(t), d->precision.params));
    }
    return w->low != NULL ? TT_OK : tt_last_status();
}

static tt_status add_twins(tt_ddp *d, const tt_state_dict *params)
{
    d->twins = tti_calloc((size_t)tt_state_dict_count(params) + 1, sizeof *d->twins);
    if (d->twins == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < tt_state_dict_count(params); i++) {
        const char *name = tt_state_dict_name(params, i);
        tt_tensor *t = tt_state_dict_tensor(params, i);

        if (!tti_ddp_ignores(d, name) && changes((tt_dtype)t->dtype, d->precision.params))
            TT_TRY(add_twin(d, name, t));
    }
    return TT_OK;
}

static tt_status convert_buffers(const tt_ddp *d)
{
    tt_state_dict *bs = tt_module_buffers(d->module, NULL);
    tt_status st = bs != NULL ? TT_OK : tt_last_status();

    for (int i = 0; st == TT_OK && i < tt_state_dict_count(bs); i++) {
        tt_tensor *t = tt_state_dict_tensor(bs, i);

        if (!tti_ddp_ignores(d, tt_state_dict_name(bs, i)) &&
            changes((tt_dtype)t->dtype, d->precision.buffers))
            st = tti_convert_dtype(t, d->precision.buffers);
    }
    tt_state_dict_free(bs);
    return st;
}

static tt_status check_types(const tt_ddp_precision *p)
{
    if (!tt_dtype_is_floating(p->params) || !tt_dtype_is_floating(p->reduce) ||
        !tt_dtype_is_floating(p->buffers))
        return TT_FAIL(TT_ERR_INVALID, "ddp precision: expected floating types, got %s, %s and %s",
                       tt_dtype_name(p->params), tt_dtype_name(p->reduce),
                       tt_dtype_name(p->buffers));
    return TT_OK;
}

tt_status tti_ddp_make_twins(tt_ddp *d)
{
    tt_state_dict *params;
    tt_status st;

    TT_TRY(check_types(&d->precision));
    if (d->precision.buffers != TT_F32)
        TT_TRY(convert_buffers(d));
    if (d->precision.params == TT_F32)
        return TT_OK;
    params = tt_module_params(d->module, NULL);
    st = params != NULL ? add_twins(d, params) : tt_last_status();
    tt_state_dict_free(params);
    return st;
}

void tti_ddp_free_twins(tt_ddp *d)
{
    for (int i = 0; i < d->n_twins; i++) {
        tti_mfree(d->twins[i].name);
        tt_tensor_free(d->twins[i].low);
    }
    tti_mfree(d->twins);
    d->twins = NULL;
    d->n_twins = 0;
}

static const tti_ddp_twin *find_twin(const tt_ddp *d, const char *name)
{
    for (int i = 0; d != NULL && name != NULL && i < d->n_twins; i++)
        if (strcmp(d->twins[i].name, name) == 0)
            return &d->twins[i];
    return NULL;
}

tt_tensor *tt_ddp_low_precision(const tt_ddp *d, const char *name)
{
    const tti_ddp_twin *w = find_twin(d, name);

    return w != NULL ? w->low : NULL;
}

tt_tensor *tt_ddp_full_precision(const tt_ddp *d, const char *name)
{
    return find_twin(d, name) != NULL ? tt_module_param(d->module, name) : NULL;
}

/* ---- running ------------------------------------------------------------------------------------- */

/* What stands in for the parameters, of the scope. */
typedef struct stand_ins {
    const char **names;
    tt_tensor **ts;
    int n;
} stand_ins;

static tt_status fill(tt_ddp *d, stand_ins *s)
{
    for (int i = 0; i < d->n_twins; i++) {
        tt_tensor *t = tt_module_param(d->module, d->twins[i].name);

        if (t == NULL)
            return tt_last_status();
        s->names[i] = d->twins[i].name;
        s->ts[i] = tt_to_dtype(t, d->precision.params);
        if (s->ts[i] == NULL)
            return tt_last_status();
        tt_tensor_free(d->twins[i].low);
        d->twins[i].low = tt_tensor_retain(tt_detach(s->ts[i]));
    }
    s->n = d->n_twins;
    return TT_OK;
}

static tt_status open_stand_ins(tt_ddp *d, stand_ins *s)
{
    size_t n = (size_t)d->n_twins + 1;

    *s =
        (stand_ins){ .names = tti_calloc(n, sizeof *s->names), .ts = tti_calloc(n, sizeof *s->ts) };
    return s->names != NULL && s->ts != NULL ? fill(d, s) : TT_ERR_NOMEM;
}

static void close_stand_ins(stand_ins *s)
{
    tti_mfree(s->names);
    tti_mfree(s->ts);
}

static tt_tensor *convert_input(void *ctx, tt_tensor *t)
{
    const tt_ddp *d = ctx;

    if (d->precision.keep_inputs || !changes((tt_dtype)t->dtype, d->precision.params))
        return t;
    return tt_to_dtype(t, d->precision.params);
}

tt_tensor *tti_ddp_run(tt_ddp *d, tt_tensor *x)
{
    tt_scope scope;
    tt_tensor *y = NULL;
    stand_ins s;

    if (d->precision.params == TT_F32 || x == NULL)
        return tt_module_forward(d->module, x);
    scope = tt_scope_open();
    if (open_stand_ins(d, &s) == TT_OK)
        y = tt_module_functional_call(d->module, s.names, s.ts, s.n, convert_input(d, x));
    close_stand_ins(&s);
    return tt_scope_close_keep(&scope, y);
}

tt_value *tti_ddp_run_value(tt_ddp *d, tt_value *in)
{
    tt_value *out = NULL, *converted;
    stand_ins s;

    if (d->precision.params == TT_F32 || in == NULL)
        return tt_module_call(d->module, in);
    TT_SCOPE {
        converted = tt_value_map_tensors(in, convert_input, d);
        if (open_stand_ins(d, &s) == TT_OK && converted != NULL)
            out = tt_module_functional_call_value(d->module, s.names, s.ts, s.n, converted);
        close_stand_ins(&s);
        tt_value_free(converted);
    }
    return out;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Running a module: hooks before, the class's function in its own scope, hooks after. An error of what it calls gets
 * the name of the module. */
#include <stdio.h>
#include <string.h>

#include "nn/module.h"
#include "tensor/debug.h"

static tt_status returned_nothing(const tt_module *m)
{
    return TTI_NULL("module %s: its function returned NULL without an error", m->cls->name);
}

/* ---- where an error came from --------------------------------------------------------------- */

/* The modules that this thread is running, from the innermost outwards. */
typedef struct frame {
    const tt_module *m;
    const struct frame *outer;
} frame;

static TTI_HOT_TLS const frame *innermost;

#define IN_MODULE "; in module "

/* Appends to `path` the names that lead from one module down to another; false, with nothing appended, if none do. */
static bool add_path(const tt_module *from, const tt_module *to, char *path, size_t room)
{
    const tti_slots *children = &from->slots[TTI_CHILD];
    size_t n = strlen(path);

    if (from == to)
        return true;
    for (size_t i = 0; i < children->n; i++) {
        const tti_slot *child = &children->items[i];

        if (child->m == NULL)
            continue;
        snprintf(path + n, room - n, "%s%s", n > 0 ? "." : "", child->name);
        if (add_path(child->m, to, path, room))
            return true;
        path[n] = '\0';
    }
    return false;
}

/* The path of the frame's module from the outermost module that contains it: "features.3.conv". */
static void path_of(const frame *f, char *path, size_t room)
{
    path[0] = '\0';
    if (f->outer == NULL)
        return;
    path_of(f->outer, path, room);
    if (!add_path(f->outer->m, f->m, path, room))
        path[0] = '\0'; /* a module that is not one of its caller's: names begin with it */
}

/* Adds the module to an error of the library that names none yet: the innermost one is the first to see it. No memory is
 * allocated, since the error may be the lack of it. */
static void name_module(const frame *f)
{
    char path[200];

    if (tti_error_is_users() || strstr(tti_last_error(), IN_MODULE) != NULL)
        return;
    path_of(f, path, sizeof path);
    if (path[0] != '\0')
        tti_error_add(IN_MODULE "\"%s\" (%s)", path, f->m->cls->name);
    else
        tti_error_add(IN_MODULE "%s", f->m->cls->name);
}

static void enter(frame *f, const tt_module *m)
{
    *f = (frame){ .m = m, .outer = innermost };
    innermost = f;
}

static void leave(const frame *f, bool failed)
{
    if (tt_unlikely(failed))
        name_module(f);
    innermost = f->outer;
}

/* ---- between tensors and values ------------------------------------------------------------ */

static tt_tensor *only_tensor(const tt_module *m, const tt_value *v, const char *what)
{
    tt_value_kind kind = tt_value_kind_of(v);

    if ((kind == TT_VALUE_LIST || kind == TT_VALUE_TUPLE) && tt_value_count(v) == 1)
        v = tt_value_at(v, 0);
    if (tt_value_kind_of(v) == TT_VALUE_TENSOR)
        return tt_value_as_tensor(v);
    return TT_FAIL_NULL(TT_ERR_INVALID, "module %s: expected one tensor as %s, got %s",
                        m->cls->name, what, tt_value_kind_name(tt_value_kind_of(v)));
}

static tt_value *class_call(tt_module *m, tt_value *in)
{
    tt_tensor *x, *y;

    if (m->cls->call != NULL)
        return m->cls->call(m, in);
    if (m->cls->forward == NULL)
        return TT_FAIL_NULL(TT_ERR_UNSUPPORTED, "module %s: it has no forward function",
                            m->cls->name);
    x = only_tensor(m, in, "input");
    if (x == NULL)
        return NULL;
    y = m->cls->forward(m, x);
    return y != NULL ? tt_value_tensor_new(y) : NULL;
}

/* The class's function in its own scope. */
static tt_value *scoped_call(tt_module *m, tt_value *in)
{
    tt_value *out = NULL;

    TT_SCOPE {
        out = class_call(m, in);
    }
    if (out == NULL)
        returned_nothing(m);
    return out;
}

/* ---- hooks ------------------------------------------------------------------------------- */

static tt_status replaced(const tt_module *m, tt_value **cur_p, tt_value *next, tt_status st)
{
    if (next != *cur_p) {
        tt_value_free(*cur_p);
        *cur_p = next;
    }
    if (st == TT_OK && next == NULL)
        return returned_nothing(m);
    return st;
}

static tt_status run_pre_hooks(tt_module *m, tt_value **in_p)
{
    for (tt_hook *h = m->pre_hooks; h != NULL; h = h->next) {
        tt_value *next = *in_p;
        tt_status st;

        if (atomic_load(&h->dead))
            continue;
        st = ((tt_forward_pre_hook_fn)h->fn.other)(h->ctx, m, &next);
        TT_TRY(replaced(m, in_p, next, st));
    }
    return TT_OK;
}

static tt_status run_hooks(tt_module *m, tt_value *in, tt_value **out_p)
{
    for (tt_hook *h = m->hooks; h != NULL; h = h->next) {
        tt_value *next = *out_p;
        tt_status st;

        if (atomic_load(&h->dead))
            continue;
        st = ((tt_forward_hook_fn)h->fn.other)(h->ctx, m, in, &next);
        TT_TRY(replaced(m, out_p, next, st));
    }
    return TT_OK;
}

bool tti_has_hooks(const tt_module *m)
{
    return m->pre_hooks != NULL || m->hooks != NULL || m->back_hooks != NULL ||
           m->back_pre_hooks != NULL;
}

/* Everything with hooks; `*in_p` and `*out_p` are owned and stay so on failure. */
static tt_status call_steps(tt_module *m, tti_back_record *r, tt_value **in_p, tt_value **out_p)
{
    TT_TRY(run_pre_hooks(m, in_p));
    if (r != NULL)
        TT_TRY(tti_back_wrap_input(r, in_p));
    *out_p = scoped_call(m, *in_p);
    if (*out_p == NULL)
        return tt_last_status();
    TT_TRY(run_hooks(m, *in_p, out_p));
    return r != NULL ? tti_back_wrap_output(r, out_p) : TT_OK;
}

static tt_value *call_with_hooks(tt_module *m, tt_value *in)
{
    bool back = tti_grad_mode == TT_GRAD_ON &&
                (tti_any_hook(m->back_hooks) || tti_any_hook(m->back_pre_hooks));
    tti_back_record *r = back ? tti_back_record_new(m) : NULL;
    tt_value *cur = tt_value_retain(in), *out = NULL;
    tt_status st = back && r == NULL ? TT_ERR_NOMEM : TT_OK;

    tt_module_retain(m);
    m->running++;
    if (st == TT_OK) {
        TT_SCOPE {
            st = call_steps(m, r, &cur, &out);
        }
    }
    m->running--;
    if (st != TT_OK) {
        tt_value_free(out);
        out = NULL;
    }
    tt_value_free(cur);
    tti_back_record_free(r);
    tt_module_free(m);
    return out;
}

/* ---- public ------------------------------------------------------------------------------ */

tt_value *tt_module_call(tt_module *m, tt_value *in)
{
    tt_value *out;
    frame f;

    if (m == NULL || in == NULL) {
        tti_null_given("module call", "a module and an input");
        return NULL;
    }
    enter(&f, m);
    out = tti_has_hooks(m) ? call_with_hooks(m, in) : scoped_call(m, in);
    leave(&f, out == NULL);
    return out;
}

static tt_tensor *forward_by_value(tt_module *m, tt_tensor *x)
{
    tt_value *in = tt_value_tensor_new(x);
    tt_value *out = in != NULL ? tt_module_call(m, in) : NULL;
    tt_tensor *y = out != NULL ? tti_scope_keep(only_tensor(m, out, "output")) : NULL;

    tt_value_free(in);
    tt_value_free(out);
    return y;
}

static tt_tensor *plain_forward(tt_module *m, tt_tensor *x)
{
    tt_scope s = tt_scope_open();
    tt_tensor *y = m->cls->forward(m, x);

    if (y == NULL)
        returned_nothing(m);
    return tt_scope_close_keep(&s, y);
}

tt_tensor *tt_module_forward(tt_module *m, tt_tensor *x)
{
    tt_tensor *y;
    frame f;

    if (tti_check_alive(x, "module forward") != TT_OK)
        return NULL;
    if (m == NULL || x == NULL) {
        tti_null_given("module forward", "a module and a tensor");
        return NULL;
    }
    enter(&f, m);
    y = m->cls->forward == NULL || tti_has_hooks(m) ? forward_by_value(m, x) : plain_forward(m, x);
    leave(&f, y == NULL);
    return y;
}

tt_tensor *tt_module_run(tt_module *m, const char *child, tt_tensor *x)
{
    tt_module *c = tt_module_child(m, child);

    return c != NULL ? tt_module_forward(c, x) : NULL;
}

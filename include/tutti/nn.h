/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: trees of layers with named parameters, buffers and children.
 *
 *     tt_module *net = TT_MLP(TT_ACT_RELU, 20, 32, 5);                // models.h
 *     tt_tensor *y   = tt_module_forward(net, x);
 *     TT_TRY(tt_module_save(net, "net.safetensors"));
 *     tt_module_free(net);
 *
 * A module of your own is a class record and whatever it registers; see tt_module_class. Modules are
 * reference counted. A tree of modules is used by one thread at a time. */
#ifndef TUTTI_NN_H
#define TUTTI_NN_H

#include "tutti/autograd.h"
#include "tutti/random.h"
#include "tutti/tensor.h"
#include "tutti/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_module tt_module;
typedef struct tt_state_dict tt_state_dict;

/* ---- modules of your own ---------------------------------------------------------------- */

/* What all modules of a kind share; a static const record. `forward` maps a tensor to a tensor,
 * `call` a value to a value; at least one is there. Both run in a scope of their own that ends with
 * them. Do not keep tensors or children in `data`: they can be replaced and copied, so get them
 * with tt_module_param_at, tt_module_child_at and the like each time. */
typedef struct tt_module_class {
    const char *name; /* as printed: "Linear" */
    size_t data_size; /* bytes of tt_module_data, zeroed at first */
    tt_tensor *(*forward)(tt_module *m, tt_tensor *x);
    tt_value *(*call)(tt_module *m, const tt_value *in); /* returns a reference of the caller's */
    /* Called by tt_module_copy after dst's data were copied byte by byte: replace what must not be
     * shared. On failure leave dst's data such that `free` works. Needed if there is `free`. */
    tt_status (*copy)(tt_module *dst, const tt_module *src);
    void (*free)(tt_module *m);
    /* Write what stands in the parentheses of the printed module, as snprintf would. */
    int (*describe)(const tt_module *m, char *text, size_t size);
    /* For state dictionaries loaded into this module: the name to use for `name` (it may be written
     * to `buffer`), or NULL to ignore the entry. */
    const char *(*rename)(const tt_module *m, const char *name, char *buffer, size_t size);
    void *reserved[4]; /* must be zero */
} tt_module_class;

TT_API tt_module *tt_module_new(const tt_module_class *cls);
TT_API tt_module *tt_module_retain(tt_module *m);
TT_API void tt_module_free(tt_module *m);
TT_API const tt_module_class *tt_module_class_of(const tt_module *m);
/* `data_size` bytes of the module's own; NULL unless m is of this class. */
TT_API void *tt_module_data(const tt_module *m, const tt_module_class *cls);

/* ---- registering: names have no dots; a name is used once in a module -------------------------- */

/* Parameters are leaves; tt_module_add_param asks for their gradient if they are floating. Passing a
 * tensor (or child) of NULL is the failure of the expression that made it, and is passed on. */
TT_API tt_status tt_module_add_param(tt_module *m, const char *name, tt_tensor *t);
TT_API tt_status tt_module_add_buffer(tt_module *m, const char *name, tt_tensor *t);
/* Not saved in state dictionaries. */
TT_API tt_status tt_module_add_temp_buffer(tt_module *m, const char *name, tt_tensor *t);
TT_API tt_status tt_module_add_child(tt_module *m, const char *name, tt_module *child);
/* The same, taking over your reference to the child, also on failure. */
TT_API tt_status tt_module_give_child(tt_module *m, const char *name, tt_module *child);
/* A name that stands for no tensor, as the bias of a layer without one. */
TT_API tt_status tt_module_add_no_param(tt_module *m, const char *name);
TT_API tt_status tt_module_add_no_buffer(tt_module *m, const char *name);

/* ---- look-up and replacing: names may be dotted, as in "layer1.0.conv1.weight" ------------------- */

/* Borrowed; NULL with an error if there is none (no error for a name that stands for no tensor). */
TT_API tt_tensor *tt_module_param(const tt_module *m, const char *name);
TT_API tt_tensor *tt_module_buffer(const tt_module *m, const char *name);
TT_API tt_module *tt_module_child(const tt_module *m, const char *name); /* "" is m itself */
TT_API bool tt_module_has(const tt_module *m, const char *name);

/* Replace what is there. A new parameter keeps its requires_grad; NULL leaves no tensor. */
TT_API tt_status tt_module_set_param(tt_module *m, const char *name, tt_tensor *t);
TT_API tt_status tt_module_set_buffer(tt_module *m, const char *name, tt_tensor *t);
TT_API tt_status tt_module_set_child(tt_module *m, const char *name, tt_module *child);
TT_API tt_status tt_module_remove(tt_module *m, const char *name); /* of any of the three */

/* What m itself holds, in the order it was registered. NULL past the end. */
TT_API int tt_module_n_own_params(const tt_module *m);
TT_API int tt_module_n_own_buffers(const tt_module *m);
TT_API int tt_module_n_children(const tt_module *m);
TT_API tt_tensor *tt_module_param_at(const tt_module *m, int i);
TT_API tt_tensor *tt_module_buffer_at(const tt_module *m, int i);
TT_API tt_module *tt_module_child_at(const tt_module *m, int i);
TT_API const char *tt_module_child_name_at(const tt_module *m, int i);

/* ---- iterating ------------------------------------------------------------------------------ */

typedef struct tt_named_options {
    bool duplicates;    /* list a shared tensor or module under all of its names */
    bool own;           /* of m only, not of its children */
    const char *prefix; /* NULL: none; "net" gives "net.weight" */
} tt_named_options;

/* All parameters (buffers), m's own first, then those of its children in order, as PyTorch's
 * named_parameters. Free the list with tt_state_dict_free. */
TT_API tt_state_dict *tt_module_params(const tt_module *m, const tt_named_options *opt);
TT_API tt_state_dict *tt_module_buffers(const tt_module *m, const tt_named_options *opt);

/* Call fn for m ("") and all modules below it, parents first, each once; a failure ends it. */
typedef tt_status (*tt_module_each_fn)(void *ctx, const char *name, tt_module *m);
TT_API tt_status tt_module_each(tt_module *m, tt_module_each_fn fn, void *ctx);
/* Call fn for all modules, children first, as PyTorch's apply. */
typedef tt_status (*tt_module_apply_fn)(void *ctx, tt_module *m);
TT_API tt_status tt_module_apply(tt_module *m, tt_module_apply_fn fn, void *ctx);

/* Number of elements in all parameters, shared ones counted once. */
TT_API int64_t tt_module_count_params(const tt_module *m);

/* ---- state --------------------------------------------------------------------------------- */

TT_API void tt_module_train(tt_module *m, bool on); /* this module and all below; new ones train */
TT_API void tt_module_eval(tt_module *m);
TT_API bool tt_module_is_training(const tt_module *m);
TT_API tt_status tt_module_set_requires_grad(tt_module *m, bool on); /* of all parameters */
/* Drop the gradients of all parameters; or keep them and fill with zeros. */
TT_API void tt_module_zero_grad(tt_module *m);
TT_API tt_status tt_module_zero_grad_keep(tt_module *m);
/* Convert parameters, buffers and gradients where they are: the tensors stay the same objects, so
 * optimizers and sharing survive. Types: floating ones only, integer buffers stay. */
TT_API tt_status tt_module_to_dtype(tt_module *m, tt_dtype dtype);
TT_API tt_status tt_module_to_device(tt_module *m, tt_device device);
/* A copy with tensors of its own: values, requires_grad and mode, but no gradients and no hooks.
 * What was shared inside m is shared inside the copy. */
TT_API tt_module *tt_module_copy(const tt_module *m);
/* The tree as text, as PyTorch prints it. Free with tt_text_free. */
TT_API char *tt_module_text(const tt_module *m);

/* ---- running ------------------------------------------------------------------------------- */

/* Hooks, then the class's function in a scope of its own: only the result goes to your scope. */
TT_API tt_tensor *tt_module_forward(tt_module *m, tt_tensor *x);
/* The same from value to value; you free the result. A module with only `forward` takes a tensor, or
 * a list or tuple of one. */
TT_API tt_value *tt_module_call(tt_module *m, tt_value *in);
/* Forward through the child of this (dotted) name. */
TT_API tt_tensor *tt_module_run(tt_module *m, const char *child, tt_tensor *x);

/* Run with other tensors in place of the named parameters and buffers (shared ones under all their
 * names). The module is as before when it returns, whatever happened. */
TT_API tt_tensor *tt_module_functional_call(tt_module *m, const char *const *names,
                                            tt_tensor *const *tensors, int n, tt_tensor *x);
TT_API tt_value *tt_module_functional_call_value(tt_module *m, const char *const *names,
                                                 tt_tensor *const *tensors, int n, tt_value *in);

/* ---- hooks: run in the order added; remove with tt_hook_remove ---------------------------------- */

/* To change the input (output) store another value in the pointer; it is freed for you, as is the
 * old one. A failure ends the forward with it. */
typedef tt_status (*tt_forward_pre_hook_fn)(void *ctx, tt_module *m, tt_value **in_p);
typedef tt_status (*tt_forward_hook_fn)(void *ctx, tt_module *m, tt_value *in, tt_value **out_p);
TT_API tt_hook *tt_module_add_forward_pre_hook(tt_module *m, tt_forward_pre_hook_fn fn, void *ctx);
TT_API tt_hook *tt_module_add_forward_hook(tt_module *m, tt_forward_hook_fn fn, void *ctx);

/* In backward, when the gradients of the module's inputs are known. Entries are for the tensors in
 * the input and output values, in order; NULL where there is none. To change a gradient of an input
 * store another tensor there. The pre-hook runs first and may change the gradients of the outputs. */
typedef tt_status (*tt_backward_hook_fn)(void *ctx, tt_module *m, tt_tensor **grad_in, int n_in,
                                         tt_tensor *const *grad_out, int n_out);
typedef tt_status (*tt_backward_pre_hook_fn)(void *ctx, tt_module *m, tt_tensor **grad_out,
                                             int n_out);
TT_API tt_hook *tt_module_add_backward_hook(tt_module *m, tt_backward_hook_fn fn, void *ctx);
TT_API tt_hook *tt_module_add_backward_pre_hook(tt_module *m, tt_backward_pre_hook_fn fn,
                                                void *ctx);

/* ---- state dictionaries: tensors by name, in order ------------------------------------------- */

TT_API tt_state_dict *tt_state_dict_new(void);
TT_API void tt_state_dict_free(tt_state_dict *sd);
TT_API int tt_state_dict_count(const tt_state_dict *sd);
TT_API const char *tt_state_dict_name(const tt_state_dict *sd, int i); /* NULL past the end */
TT_API tt_tensor *tt_state_dict_tensor(const tt_state_dict *sd, int i);
TT_API tt_tensor *tt_state_dict_get(const tt_state_dict *sd, const char *name); /* NULL: none */
/* Set or replace; keeps a reference. */
TT_API tt_status tt_state_dict_set(tt_state_dict *sd, const char *name, tt_tensor *t);
TT_API bool tt_state_dict_remove(tt_state_dict *sd, const char *name);
TT_API tt_status tt_state_dict_save(const tt_state_dict *sd, const char *path);
TT_API tt_state_dict *tt_state_dict_load(const char *path);

/* Parameters and persistent buffers under all their names. The tensors share the module's memory and
 * are outside of the graph. */
TT_API tt_state_dict *tt_module_state_dict(const tt_module *m);

typedef struct tt_load_options {
    bool allow_missing;    /* names of the module that are not in the dictionary keep their value */
    bool allow_unexpected; /* entries that the module does not have are ignored */
    bool allow_mismatch;   /* so are entries of another shape */
    const char *prefix;    /* only entries that begin with it, which is cut off; NULL: "" */
} tt_load_options;

/* Names, as NULL-terminated arrays. */
typedef struct tt_load_report {
    char **missing, **unexpected, **mismatched;
    int n_missing, n_unexpected, n_mismatched;
} tt_load_report;
TT_API void tt_load_report_free(tt_load_report *r); /* what it points to, not r itself */

/* Copy the dictionary's tensors into the module's, converting types. All or nothing: what is wrong
 * is listed in the error. report_p may be NULL; it is filled also when the call fails with INVALID. */
TT_API tt_status tt_module_load_state_dict(tt_module *m, const tt_state_dict *sd,
                                           const tt_load_options *opt, tt_load_report *report_p);
/* To and from a safetensors file; what tt_module_state_dict lists, loaded all or nothing. */
TT_API tt_status tt_module_save(const tt_module *m, const char *path);
TT_API tt_status tt_module_load(tt_module *m, const char *path, const tt_load_options *opt);

/* ---- initial values: in place, outside of any graph; return t -------------------------------- */

TT_API tt_tensor *tt_init_constant(tt_tensor *t, double value);
TT_API tt_tensor *tt_init_uniform(tt_tensor *t, double lo, double hi, tt_generator *gen);
TT_API tt_tensor *tt_init_normal(tt_tensor *t, double mean, double std, tt_generator *gen);
/* Normal, drawn again while outside of [lo, hi]. */
TT_API tt_tensor *tt_init_trunc_normal(tt_tensor *t, double mean, double std, double lo, double hi,
                                       tt_generator *gen);

typedef struct tt_init_options {
    double slope; /* of the leaky ReLU that follows; kaiming */
    double gain;  /* 0: sqrt(2 / (1 + slope^2)) for kaiming, 1 for all else */
    bool fan_out; /* kaiming: keep the variance of gradients instead of activations */
    tt_generator *generator;
} tt_init_options;

/* Of weights [out, in, kernel...]; fail for less than two dimensions. */
TT_API tt_tensor *tt_init_kaiming_uniform(tt_tensor *t, const tt_init_options *opt);
TT_API tt_tensor *tt_init_kaiming_normal(tt_tensor *t, const tt_init_options *opt);
TT_API tt_tensor *tt_init_xavier_uniform(tt_tensor *t, const tt_init_options *opt);
TT_API tt_tensor *tt_init_xavier_normal(tt_tensor *t, const tt_init_options *opt);
/* Rows (or columns, whichever are fewer) are orthonormal times the gain. */
TT_API tt_tensor *tt_init_orthogonal(tt_tensor *t, const tt_init_options *opt);

#ifdef __cplusplus
}
#endif

#endif

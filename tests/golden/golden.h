/* SPDX-License-Identifier: Apache-2.0 */
/* Golden operator cases in C: files of cases, calls of operators with JSON attributes, and the
 * tables that name them. README.md describes the files. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <cjson/cJSON.h>

#include "tutti/tutti.h"

enum { GOLDEN_MAX = 16 }; /* inputs or outputs of one case */

/* ---- files ------------------------------------------------------------------------------ */

/* ops/<family>.safetensors, mapped; lives as long as the program. */
typedef struct golden_file {
    const char *path;
    const unsigned char *data; /* the bytes behind the header */
    size_t size;
    cJSON *header;   /* tensors by name */
    cJSON *document; /* the text of __metadata__.cases */
} golden_file;

/* NULL when it cannot be read; *why_p then says why. */
golden_file *golden_file_open(const char *path, const char **why_p);
/* A copy of a stored tensor, or NULL with the last error set. */
tt_tensor *golden_file_tensor(const golden_file *file, const char *key);

/* ---- one call of an operator ------------------------------------------------------------- */

typedef struct golden_call {
    const cJSON *attrs;
    tt_tensor *in[GOLDEN_MAX]; /* NULL: absent */
    int n_in;
    tt_tensor *out[GOLDEN_MAX]; /* NULL: the operator failed, or gives no such output */
    int n_out;                  /* how many the operator gives; set to what is expected */
} golden_call;

/* How to call an operator: by a function of ours, or one of the common signatures directly. */
typedef struct golden_op {
    const char *name;
    void (*run)(golden_call *c);
    tt_tensor *(*unary)(tt_tensor *x);
    tt_tensor *(*binary)(tt_tensor *x, tt_tensor *y);
    /* With the attribute "scalar": `scalar` where a double can say it, else `binary` with a number
     * on the right, or on the left. */
    tt_tensor *(*scalar)(tt_tensor *x, double s);
    bool number_right, number_left;
} golden_op;

/* Each table ends with a row without a name. */
extern const golden_op golden_ops_pointwise[];
extern const golden_op golden_ops_reduce[];
extern const golden_op golden_ops_shape[];
extern const golden_op golden_ops_index[];
extern const golden_op golden_ops_product[];
extern const golden_op golden_ops_nn[];
extern const golden_op golden_ops_loss[];

const golden_op *golden_find_op(const char *name);
void golden_apply(const golden_op *op, golden_call *c);

/* Run one case and check all that it stores. */
void golden_check_case(const golden_file *file, const cJSON *entry);

/* Check a table of result types, op "result_type". */
void golden_check_promotion(const golden_file *file, const cJSON *entry);

/* ---- attributes --------------------------------------------------------------------------- */

bool golden_has(const golden_call *c, const char *name); /* there, and not null */
double golden_real(const golden_call *c, const char *name, double absent);
int64_t golden_int(const golden_call *c, const char *name, int64_t absent);
bool golden_flag(const golden_call *c, const char *name, bool absent);
const char *golden_word(const golden_call *c, const char *name, const char *absent);
/* A list of numbers, or one number: how many, 0 when absent. At most TT_MAX_DIMS. */
int golden_ints(const golden_call *c, const char *name, int64_t *out);
int golden_dims(const golden_call *c, const char *name, int *out);
tt_shape golden_shape(const golden_call *c, const char *name);
tt_dtype golden_dtype(const char *name);
/* The number of an attribute as a tensor that promotes like a bare number of its kind. */
tt_tensor *golden_number(const golden_call *c, const char *name);
/* Whether a plain double says the same as the attribute beside this tensor. */
bool golden_is_plain(const golden_call *c, const char *name, const tt_tensor *beside);

#endif

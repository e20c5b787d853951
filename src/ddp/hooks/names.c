/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks by their names. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "ddp/hooks/stock.h"

typedef enum state_kind { GROUP, POWERSGD, POST_LOCAL } state_kind;

static const struct row {
    const char *name;
    tt_ddp_hook_fn fn;
    state_kind state;
} rows[] = {
    { "allreduce_hook", tt_ddp_allreduce_hook, GROUP },
    { "fp16_compress_hook", tt_ddp_fp16_compress_hook, GROUP },
    { "bf16_compress_hook", tt_ddp_bf16_compress_hook, GROUP },
    { "powerSGD_hook", tt_ddp_powersgd_hook, POWERSGD },
    { "batched_powerSGD_hook", tt_ddp_batched_powersgd_hook, POWERSGD },
    { "quantization_pertensor_hook", tt_ddp_quantize_per_tensor_hook, GROUP },
    { "quantization_perchannel_hook", tt_ddp_quantize_per_channel_hook, GROUP },
    { "post_localSGD_hook", tt_ddp_post_local_sgd_hook, POST_LOCAL },
    { "noop_hook", tt_ddp_noop_hook, GROUP },
    { "ALLREDUCE", tt_ddp_allreduce_hook, GROUP },
    { "FP16_COMPRESS", tt_ddp_fp16_compress_hook, GROUP },
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };

static const struct {
    const char *name;
    tt_status (*wrap)(const tt_ddp_hook *inner, tt_ddp_hook *hook_p);
} wrappers[] = {
    { "fp16_compress_wrapper", tt_ddp_fp16_compress_wrapper },
    { "bf16_compress_wrapper", tt_ddp_bf16_compress_wrapper },
};

const char *tt_ddp_hook_list(int index)
{
    return index >= 0 && index < N_ROWS ? rows[index].name : NULL;
}

/* ---- states ------------------------------------------------------------------------------------- */

static void group_free(void *ctx)
{
    tt_pg_free(ctx);
}

static void powersgd_free(void *ctx)
{
    tt_powersgd_free(ctx);
}

static void post_local_free(void *ctx)
{
    tt_local_sgd_state_free(ctx);
}

static tt_status keep_state(const struct row *row, void *state, tt_ddp_hook *hook)
{
    switch (row->state) {
    case GROUP:
        hook->ctx = tt_pg_retain(state);
        hook->free_ctx = group_free;
        return TT_OK;
    case POWERSGD:
        hook->ctx = state != NULL ? tt_powersgd_retain(state) : tt_powersgd_new(NULL, NULL);
        hook->free_ctx = powersgd_free;
        return hook->ctx != NULL ? TT_OK : tt_last_status();
    case POST_LOCAL:
        hook->ctx = tt_local_sgd_state_retain(state);
        hook->free_ctx = post_local_free;
        return hook->ctx != NULL
                   ? TT_OK
                   : TT_FAIL(TT_ERR_INVALID, "ddp: %s needs a tt_local_sgd_state as state",
                             row->name);
    }
    return TT_ERR_INVALID;
}

/* ---- finding ------------------------------------------------------------------------------------ */

static tt_status unknown(const char *name, size_t n)
{
    tti_text list = { 0 };
    tt_status st;

    for (int i = 0; i < N_ROWS; i++)
        tti_text_addf(&list, "%s%s", i > 0 ? ", " : "", rows[i].name);
    st = TT_FAIL(TT_ERR_NOT_FOUND, "ddp: there is no hook \"%.*s\"; there are %s", (int)n, name,
                 tti_text_str(&list));
    tti_text_fini(&list);
    return st;
}

static tt_status find(const char *name, size_t n, void *state, tt_ddp_hook *hook_p)
{
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++) {
        size_t k = strlen(wrappers[i].name);
        tt_ddp_hook inner;

        if (n < k + 2 || strncmp(name, wrappers[i].name, k) != 0 || name[k] != '(' ||
            name[n - 1] != ')')
            continue;
        TT_TRY(find(name + k + 1, n - k - 2, state, &inner));
        return wrappers[i].wrap(&inner, hook_p);
    }
    for (int i = 0; i < N_ROWS; i++) {
        if (strlen(rows[i].name) != n || strncmp(rows[i].name, name, n) != 0)
            continue;
        *hook_p = (tt_ddp_hook){ .name = rows[i].name, .fn = rows[i].fn };
        return keep_state(&rows[i], state, hook_p);
    }
    return unknown(name, n);
}

tt_status tt_ddp_hook_named(const char *name, void *state, tt_ddp_hook *hook_p)
{
    tt_status st;

    if (hook_p == NULL || name == NULL)
        return TT_FAIL(TT_ERR_INVALID, "ddp: expected the name of a hook, got NULL");
    st = find(name, strlen(name), state, hook_p);
    if (st != TT_OK)
        *hook_p = (tt_ddp_hook){ 0 };
    return st;
}

tt_status tt_ddp_register_named(tt_ddp *d, const char *name, void *state)
{
    tt_ddp_hook hook;

    if (d == NULL)
        return tti_null_given("ddp", "a tt_ddp");
    TT_TRY(tt_ddp_hook_named(name, state, &hook));
    return tt_ddp_register_hook(d, &hook);
}

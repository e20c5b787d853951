/* SPDX-License-Identifier: Apache-2.0 */
/* Every public constructor that takes an object, given NULL: it keeps the failure of the constructor before, and without
 * one it says itself what it expected. checks/check_chains compares the list with the headers. */
#include <string.h>

#include "tutti/testing.h"
#include "tutti/tutti.h"

static void nothing(void)
{
}

/* A function of any type, which is never called. */
#define FN(type) ((type)nothing)

static tt_tensor *no_tensors[1];
static const int ones[1] = { 1 };
static const int64_t zeros[1];
static const tt_averager_level levels[1] = { { .period = 1, .group_size = 1 } };

static void check_kept(const char *call, const void *made)
{
    if (made != NULL || strstr(tt_last_error(), "-3") == NULL)
        TT_FAIL_TEST("%s lost the first failure: %s", call, tt_last_error());
}

static void check_own(const char *call, const void *made)
{
    if (made != NULL || tt_last_status() != TT_ERR_INVALID || tt_last_error()[0] == '\0')
        TT_FAIL_TEST("%s did not say what it expected: %s", call, tt_last_error());
}

#define CHAIN(call)                                \
    do {                                           \
        TT_CHECK_NULL(tt_linear_new(-3, 2, NULL)); \
        check_kept(#call, call);                   \
        tt_clear_error();                          \
        check_own(#call, call);                    \
        tt_clear_error();                          \
    } while (0)

TT_TEST(chains, layers_and_modules)
{
    CHAIN(tt_sequential_of((tt_module *[]){ NULL }, 1));
    CHAIN(tt_embedding_from(NULL, NULL));
    CHAIN(tt_embedding_bag_from(NULL, NULL));
    CHAIN(tt_transformer_encoder_new(NULL, 1, NULL));
    CHAIN(tt_transformer_decoder_new(NULL, 1, NULL));
    CHAIN(tt_module_copy(NULL));
    CHAIN(tt_module_params(NULL, NULL));
    CHAIN(tt_module_buffers(NULL, NULL));
    CHAIN(tt_module_state_dict(NULL));
    CHAIN(tt_module_call(NULL, NULL));
    CHAIN(tt_module_functional_call_value(NULL, NULL, NULL, 0, NULL));
    CHAIN(tt_module_add_forward_pre_hook(NULL, FN(tt_forward_pre_hook_fn), NULL));
    CHAIN(tt_module_add_forward_hook(NULL, FN(tt_forward_hook_fn), NULL));
    CHAIN(tt_module_add_backward_hook(NULL, FN(tt_backward_hook_fn), NULL));
    CHAIN(tt_module_add_backward_pre_hook(NULL, FN(tt_backward_pre_hook_fn), NULL));
    CHAIN(tt_tensor_add_hook(NULL, FN(tt_tensor_hook_fn), NULL));
    CHAIN(tt_leaf_add_pre_hook(NULL, FN(tt_tensor_hook_fn), NULL));
    CHAIN(tt_leaf_add_post_hook(NULL, FN(tt_leaf_hook_fn), NULL));
    CHAIN(tt_data_parallel(NULL, NULL, NULL));
    CHAIN(tt_embedding_bag_forward(NULL, NULL, NULL, NULL));
    CHAIN(tt_gpt2_hidden(NULL, NULL));
    CHAIN(tt_init_kaiming_uniform(NULL, NULL));
    CHAIN(tt_init_trunc_normal(NULL, 0, 1, -2, 2, NULL));
    CHAIN(tt_sync_batch_norm_convert(NULL, NULL));
}

TT_TEST(chains, optimizers_and_schedules)
{
    CHAIN(tt_sgd_new(no_tensors, 1, NULL));
    CHAIN(tt_adam_new(no_tensors, 1, NULL));
    CHAIN(tt_adamw_new(no_tensors, 1, NULL));
    CHAIN(tt_sparse_adam_new(no_tensors, 1, NULL));
    CHAIN(tt_adagrad_new(no_tensors, 1, NULL));
    CHAIN(tt_rmsprop_new(no_tensors, 1, NULL));
    CHAIN(tt_sgd_for(NULL, NULL));
    CHAIN(tt_adam_for(NULL, NULL));
    CHAIN(tt_adamw_for(NULL, NULL));
    CHAIN(tt_adagrad_for(NULL, NULL));
    CHAIN(tt_rmsprop_for(NULL, NULL));
    CHAIN(tt_step_lr_new(NULL, 0, 0.5));
    CHAIN(tt_multi_step_lr_new(NULL, NULL, 1, 0.5));
    CHAIN(tt_exponential_lr_new(NULL, 0.5));
    CHAIN(tt_cosine_lr_new(NULL, 0, 0));
    CHAIN(tt_constant_lr_new(NULL, 2, 1));
    CHAIN(tt_linear_lr_new(NULL, NULL));
    CHAIN(tt_warmup_cosine_lr_new(NULL, 1, 1, NULL));
    CHAIN(tt_one_cycle_lr_new(NULL, 1, 0, NULL));
    CHAIN(tt_lambda_lr_new(NULL, FN(tt_lr_fn), NULL));
    CHAIN(tt_chained_lr_new((tt_schedule *[]){ NULL }, 1));
    CHAIN(tt_in_backward_new(NULL, NULL));
    CHAIN(tt_post_local_sgd_new(NULL, NULL));
    CHAIN(tt_grad_scaler_scale_value(NULL, NULL));
}

TT_TEST(chains, data_and_values)
{
    CHAIN(tt_tensor_dataset_new(no_tensors, 1));
    CHAIN(tt_subset_dataset_new(NULL, zeros, 1));
    CHAIN(tt_batch_sampler_new(NULL, 1, false));
    CHAIN(tt_loader_new(NULL, NULL));
    CHAIN(tt_value_tensor_new(NULL));
    CHAIN(tt_value_copy(NULL));
    CHAIN(tt_value_map_tensors(NULL, FN(tt_value_tensor_fn), NULL));
    CHAIN(tt_comm_gather_values((tt_value *[]){ NULL }, 1, NULL));
    CHAIN(tt_powersgd_load(NULL));
    CHAIN(tt_powersgd_save(NULL));
    CHAIN(tt_pin(NULL));
    CHAIN(tt_to_device_async(NULL, TT_CPU));
    CHAIN(tt_to_dlpack(NULL));
    CHAIN(tt_to_dlpack_unversioned(NULL));
}

TT_TEST(chains, groups_and_what_needs_one)
{
    CHAIN(tt_store_prefix_new("a", NULL));
    CHAIN(tt_store_watch_new(NULL, "a", FN(tt_store_watch_fn), NULL));
    CHAIN(tt_pg_new_store(NULL, 0, 1, NULL));
    CHAIN(tt_pg_subgroup(NULL, ones, 1, NULL));
    CHAIN(tt_pg_split(NULL, 1, 1, NULL));
    CHAIN(tt_mesh_new(NULL, ones, 1, NULL));
    CHAIN(tt_work_future(NULL));
    CHAIN(tt_future_then(NULL, FN(tt_future_fn), NULL));
    CHAIN(tt_future_all((tt_future *[]){ NULL }, 1));
    CHAIN(tt_reducer_new(NULL, &(tt_reducer_grad){ .n = 1 }, 1, NULL));
    CHAIN(tt_ddp_new(NULL, NULL, NULL));
    CHAIN(tt_ddp_as_module(NULL));
    CHAIN(tt_ddp_call(NULL, NULL));
    CHAIN(tt_ddp_log_value(NULL));
    CHAIN(tt_ddp_run_steps(NULL, FN(tt_ddp_steps_fn), NULL, NULL));
    CHAIN(tt_zero_new(NULL, no_tensors, 1, FN(tt_zero_make_fn), NULL, NULL));
    CHAIN(tt_zero_sgd_new(NULL, no_tensors, 1, NULL, NULL));
    CHAIN(tt_zero_adam_new(NULL, no_tensors, 1, NULL, NULL));
    CHAIN(tt_zero_adamw_new(NULL, no_tensors, 1, NULL, NULL));
    CHAIN(tt_periodic_averager_new(NULL, 1, 0));
    CHAIN(tt_hierarchical_averager_new(NULL, levels, 1, 0));
}

/* Actions that need an object check it before their other arguments. */
TT_TEST(chains, actions)
{
    tt_p2p_op batch[1] = { { .kind = TT_P2P_SEND } };
    tt_work *works[1];
    const int64_t *indices;
    int64_t n;

#define ACTION(call)                               \
    do {                                           \
        TT_CHECK_NULL(tt_linear_new(-3, 2, NULL)); \
        TT_CHECK_EQ((call), TT_ERR_INVALID);       \
        check_kept(#call, NULL);                   \
    } while (0)
    ACTION(tt_grad(no_tensors, 1, no_tensors, 1, NULL, (tt_tensor *[1]){ NULL }));
    ACTION(tt_module_load(NULL, "/no/such/file", NULL));
    ACTION(tt_ddp_register_named(NULL, "no such hook", NULL));
    ACTION(tt_p2p_batch(batch, 1, NULL, works));
    ACTION(tt_batch_sampler_get(NULL, 0, 0, &indices, &n));
    ACTION(tt_safetensors_find(NULL, "a", &(tt_safetensors_info){ 0 }));
    ACTION(tt_optim_set_lr(NULL, 0, 0.1));
    ACTION(tt_clip_grad_norm(NULL, 1, 1, NULL, NULL));
    ACTION(tt_clip_grad_value(NULL, 1, 1));
    ACTION(tt_average_tensors(no_tensors, 1, NULL));
}

/* A store that cannot be opened, a group over it, a module that averages over the group: backward has the first words. */
TT_TEST(chains, a_store_that_failed_is_named_by_backward)
{
    tt_store *store = tt_store_file_open("/no/such/directory/store");
    tt_store *view = tt_store_prefix_new("job", store);
    tt_pg *pg = tt_pg_new_store(view, 0, 2, NULL);
    tt_module *m = tt_linear_new(2, 2, NULL);
    tt_ddp *ddp = tt_ddp_new(m, pg, NULL);

    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(1, 2), TT_F32, TT_CPU);

        TT_CHECK(tt_backward(tt_sum(tt_ddp_forward(ddp, x))) != TT_OK);
        TT_CHECK_CONTAINS(tt_last_error(), "/no/such/directory");
    }
    tt_module_free(m);
}

/* The group itself fails after it gave up towards the others, which are requests that succeed. */
TT_TEST(chains, a_group_that_gave_up_is_named_by_backward)
{
    tt_store *store = tt_store_memory_new();
    tt_pg *pg = tt_pg_new_store(store, 0, 2, &(tt_pg_options){ .timeout_ms = 50 });
    tt_module *m = tt_linear_new(2, 2, NULL);
    tt_ddp *ddp = tt_ddp_new(m, pg, NULL);
    tt_error_info info;

    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(1, 2), TT_F32, TT_CPU);

        TT_CHECK_ERR(tt_backward(tt_sum(tt_ddp_forward(ddp, x))), TT_ERR_TIMEOUT);
        TT_CHECK(strncmp(tt_last_error(), "group ", 6) == 0);
        TT_CHECK_CONTAINS(tt_last_error(), "waited 50 ms for 1 of 2 ranks: 1");
        TT_REQUIRE(tt_last_error_info(&info));
        TT_CHECK_EQ(info.kind, TT_ERROR_MISSING);
        TT_CHECK_EQ(info.n_ranks, 1);
        TT_CHECK_EQ(info.ranks[0], 1);
    }
    tt_module_free(m);
    tt_store_free(store);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack: memory is shared, its owner told once, and what we cannot take is refused politely. */
#include <stdlib.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

typedef struct foreign {
    tt_dl_managed_versioned m;
    float data[6];
    int64_t shape[2], strides[2];
    int deleted;
} foreign;

static void count_delete(tt_dl_managed_versioned *self)
{
    ((foreign *)self->ctx)->deleted++;
}

static void setup(foreign *f)
{
    *f = (foreign){ .data = { 1, 2, 3, 4, 5, 6 }, .shape = { 2, 3 }, .strides = { 3, 1 } };
    f->m = (tt_dl_managed_versioned){ .major = 1,
                                      .minor = 1,
                                      .ctx = f,
                                      .deleter = count_delete,
                                      .tensor = { .data = f->data,
                                                  .device = { TT_DL_CPU, 0 },
                                                  .n_dims = 2,
                                                  .type = { TT_DL_FLOAT, 32, 1 },
                                                  .shape = f->shape,
                                                  .strides = f->strides } };
}

TT_TEST(dlpack, foreign_memory_is_used_in_place)
{
    foreign f;

    setup(&f);
    f.m.tensor.strides = NULL; /* row-major */
    TT_SCOPE {
        tt_tensor *t = tt_from_dlpack(&f.m), *part;

        TT_REQUIRE_NOT_NULL(t);
        TT_CHECK_PTR(tt_tensor_data(t), f.data);
        TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 1, 0 }), 4, 0);
        part = tt_tensor_retain(tt_select(t, 0, 1));
        TT_REQUIRE_NOT_NULL(tt_fill_(part, 9));
        TT_CHECK_NEAR(f.data[5], 9, 0);
        TT_CHECK_EQ(f.deleted, 0);
        tt_tensor_free(part);
    }
    TT_CHECK_EQ(f.deleted, 1);
}

TT_TEST(dlpack, strides_offsets_and_the_old_form)
{
    foreign f;
    tt_dl_managed old;

    setup(&f);
    f.shape[0] = 2;
    f.shape[1] = 2;
    f.strides[0] = 1;
    f.strides[1] = 2;
    f.m.tensor.byte_offset = 4;
    old = (tt_dl_managed){ .tensor = f.m.tensor };
    TT_SCOPE {
        tt_tensor *t = tt_from_dlpack_unversioned(&old);

        TT_REQUIRE_NOT_NULL(t);
        TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 1, 1 }), 5, 0);
        TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 0, 0 }), 2, 0);
    }
}

TT_TEST(dlpack, read_only_memory_is_copied)
{
    foreign f;

    setup(&f);
    f.m.flags = TT_DL_READ_ONLY;
    TT_SCOPE {
        tt_tensor *t = tt_from_dlpack(&f.m);

        TT_REQUIRE_NOT_NULL(t);
        TT_CHECK_EQ(f.deleted, 1);
        TT_REQUIRE_NOT_NULL(tt_zero_(t));
        TT_CHECK_NEAR(f.data[0], 1, 0);
    }
    TT_CHECK_EQ(f.deleted, 1);
}

static void refused(foreign *f, tt_status status, const char *words)
{
    TT_SCOPE {
        tt_clear_error();
        TT_CHECK_NULL(tt_from_dlpack(&f->m));
        TT_CHECK_EQ(tt_last_status(), status);
        TT_CHECK_CONTAINS(tt_last_error(), words);
        TT_CHECK_EQ(f->deleted, 1);
    }
    setup(f);
}

TT_TEST(dlpack, what_we_do_not_know_is_given_back)
{
    foreign f;

    setup(&f);
    f.m.major = 2;
    f.m.tensor.shape = (int64_t *)8; /* must not be looked at */
    refused(&f, TT_ERR_UNSUPPORTED, "expected version 1, got 2.1");
    f.m.tensor.device.type = TT_DL_CUDA;
    refused(&f, TT_ERR_UNSUPPORTED, "device type 2");
    f.m.tensor.type.code = TT_DL_UINT;
    refused(&f, TT_ERR_UNSUPPORTED, "code 1, 32 bits and 1 lanes");
    f.m.tensor.type.lanes = 4;
    refused(&f, TT_ERR_UNSUPPORTED, "4 lanes");
    f.m.tensor.n_dims = 9;
    refused(&f, TT_ERR_UNSUPPORTED, "0 to 8 dimensions, got 9");
    f.m.tensor.byte_offset = 2;
    refused(&f, TT_ERR_UNSUPPORTED, "not aligned for float32");
    f.strides[0] = -3;
    refused(&f, TT_ERR_INVALID, "negative");
    TT_CHECK_NULL(tt_from_dlpack(NULL));
}

TT_TEST(dlpack, our_memory_lives_until_it_is_given_back)
{
    tt_dl_managed_versioned *m = NULL;
    tt_dl_managed *old = NULL;

    TT_SCOPE {
        tt_tensor *x = tt_t(tt_view(TT_FLOATS(1, 2, 3, 4, 5, 6), TT_SHAPE(2, 3)));

        m = tt_to_dlpack(x);
        old = tt_to_dlpack_unversioned(tt_ne_scalar(x, 0));
    }
    TT_REQUIRE_NOT_NULL(m);
    TT_REQUIRE_NOT_NULL(old);
    TT_CHECK_EQ(m->major, 1);
    TT_CHECK_EQ(m->flags, 0);
    TT_CHECK_EQ(m->tensor.n_dims, 2);
    TT_CHECK_EQ(m->tensor.shape[0], 3);
    TT_CHECK_EQ(m->tensor.strides[1], 3);
    TT_CHECK_NEAR(((float *)m->tensor.data)[5], 6, 0);
    TT_CHECK_EQ(old->tensor.type.code, TT_DL_BOOL);
    TT_CHECK_EQ(old->tensor.type.bits, 8);
    TT_SCOPE {
        tt_tensor *again = tt_from_dlpack(m); /* ours, by way of anybody */

        TT_CHECK_NEAR(tt_at(again, (int64_t[]){ 2, 1 }), 6, 0);
    }
    old->deleter(old);
    TT_SCOPE {
        TT_CHECK_NULL(tt_to_dlpack(tt_require_grad(TT_FLOATS(1))));
        TT_CHECK_CONTAINS(tt_last_error(), "use tt_detach first");
        TT_CHECK_NULL(tt_to_dlpack(tt_to_sparse(TT_FLOATS(1), 1)));
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Values with tensors of devices, to and from bytes and files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/testing.h>
#include <tutti/testing_tools.h>
#include <tutti/tutti.h>

/* Where the tag of device 0 is in the bytes. */
static char *find_tag(void *data, size_t n)
{
    for (char *p = data; p + 4 <= (char *)data + n; p++)
        if (memcmp(p, "cl:0", 4) == 0)
            return p;
    return NULL;
}

TT_TEST(multigpu, test_load_nonexistent_device)
{
    tt_value *v, *back;
    void *data;
    size_t n;
    char *tag;

    tt_test_require_devices(1, false);
    TT_REQUIRE_LT(tt_device_count(TT_DEVICE_CL), 10);
    TT_SCOPE {
        v = tt_value_tensor_new(tt_to_device(TT_FLOATS(1, 2), tt_cl(0)));
        TT_REQUIRE_OK(tt_value_encode(v, &data, &n));
        tag = find_tag(data, n);
        TT_REQUIRE_NOT_NULL(tag);
        back = tt_value_decode_to(data, n, NULL);
        TT_REQUIRE_NOT_NULL(back);
        TT_CHECK(tt_device_equal(tt_tensor_device(tt_value_as_tensor(back)), tt_cl(0)));
        tt_value_free(back);
        tag[3] = '9';
        TT_CHECK_NULL(tt_value_decode_to(data, n, NULL));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
        TT_CHECK_CONTAINS(tt_last_error(), "cl:9");
        tag[3] = 'x';
        TT_CHECK_NULL(tt_value_decode_to(data, n, NULL));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_FORMAT);
        back = tt_value_decode(data, n); /* the host takes everything */
        TT_CHECK(back != NULL && tt_equal(tt_value_as_tensor(back), TT_FLOATS(1, 2)));
        tt_value_free(back);
        tt_bytes_free(data);
        tt_value_free(v);
    }
}

static bool one_to_zero(void *ctx, tt_device from, tt_device *to_p)
{
    (*(int *)ctx)++;
    if (!tt_device_equal(from, tt_cl(1)))
        return false;
    *to_p = tt_cl(0);
    return true;
}

/* Two tensors, on devices 0 and 1, saved and loaded with the map, which has to bring both to device 0. */
static void check_remap(const tt_device_map *map)
{
    tt_value *list = tt_value_list_new(), *back;
    tt_tensor *xs[2];
    char path[512];

    snprintf(path, sizeof path, "%s/list", tt_test_tmpdir());
    tt_seed(tt_test_seed());
    TT_SCOPE {
        for (int i = 0; i < 2; i++) {
            xs[i] = tt_randn(TT_SHAPE(4, 4), TT_F32, tt_cl(i));
            TT_REQUIRE_OK(tt_value_list_give(list, tt_value_tensor_new(xs[i])));
        }
        TT_REQUIRE_OK(tt_value_save(path, list));
        back = tt_value_load(path, map);
        TT_REQUIRE_NOT_NULL(back);
        TT_REQUIRE_EQ(tt_value_count(back), 2);
        for (int i = 0; i < 2; i++) {
            tt_tensor *t = tt_value_as_tensor(tt_value_at(back, (size_t)i));

            TT_CHECK(tt_device_equal(tt_tensor_device(t), tt_cl(0)));
            TT_CHECK_EQ(tt_tensor_dtype(t), TT_F32);
            TT_CHECK(tt_equal(t, tt_to_device(xs[i], tt_cl(0))));
        }
        tt_value_free(back);
    }
    tt_value_free(list);
}

TT_TEST(multigpu, test_multigpu_serialization_remap)
{
    int asked = 0;

    tt_test_require_devices(2, false);
    check_remap(&(tt_device_map){ .fn = one_to_zero, .ctx = &asked });
    TT_CHECK_EQ(asked, 2);
}

TT_TEST(multigpu, test_multigpu_serialization_remap_dict)
{
    tt_device_move table[] = { { tt_cl(1), tt_cl(0) } };

    tt_test_require_devices(2, false);
    check_remap(&(tt_device_map){ .moves = table, .n_moves = 1 });
}

/* Sparse tensors and those of the host go the same way. */
TT_TEST(device_values, sparse_tensors_and_the_host)
{
    tt_device_move table[] = { { TT_CPU, tt_cl(0) }, { tt_cl(0), TT_CPU } };
    tt_device_map map = { .moves = table, .n_moves = 2 };

    tt_test_require_devices(1, false);
    TT_SCOPE {
        tt_tensor *dense = tt_reshape(TT_FLOATS(0, 1, 0, 0, 2, 3), TT_SHAPE(2, 3));
        tt_value *v = tt_value_list_new(), *back;
        void *data;
        size_t n;

        TT_REQUIRE_OK(tt_value_list_give(
            v, tt_value_tensor_new(tt_to_device(tt_to_sparse(dense, 2), tt_cl(0)))));
        TT_REQUIRE_OK(tt_value_list_give(v, tt_value_tensor_new(dense)));
        TT_REQUIRE_OK(tt_value_encode(v, &data, &n));
        back = tt_value_decode_to(data, n, &map);
        TT_REQUIRE_NOT_NULL(back);
        TT_CHECK(tt_equal(tt_to_dense(tt_value_as_tensor(tt_value_at(back, 0))), dense));
        TT_CHECK(
            tt_device_equal(tt_tensor_device(tt_value_as_tensor(tt_value_at(back, 1))), tt_cl(0)));
        tt_value_free(back);
        back = tt_value_decode_to(data, n, NULL);
        TT_REQUIRE_NOT_NULL(back);
        tt_tensor *t = tt_value_as_tensor(tt_value_at(back, 0));

        TT_CHECK(tt_tensor_is_sparse(t) && tt_device_equal(tt_tensor_device(t), tt_cl(0)));
        TT_CHECK(tt_equal(tt_to_device(tt_to_dense(t), TT_CPU), dense));
        tt_value_free(back);
        tt_bytes_free(data);
        tt_value_free(v);
    }
}

/* A training's own values come back to their device, or to where the map says. */
TT_TEST(device_values, a_training_keeps_devices)
{
    tt_device_move table[] = { { tt_cl(0), TT_CPU } };
    tt_device_map map = { .moves = table, .n_moves = 1 };

    tt_test_require_devices(1, false);
    TT_SCOPE {
        tt_module *m = tt_linear_new(2, 2, NULL);
        tt_training t = { .module = m }, u = { .module = m }, w = { .module = m, .devices = &map };

        t.value = tt_value_tensor_new(tt_to_device(TT_FLOATS(1, 2, 3), tt_cl(0)));
        TT_REQUIRE_OK(tt_module_to_device(m, tt_cl(0)));
        TT_REQUIRE_OK(tt_training_save(tt_test_tmpdir(), NULL, &t, NULL));
        TT_REQUIRE_OK(tt_training_load(tt_test_tmpdir(), NULL, &u));
        TT_CHECK_EQ(tt_tensor_device(tt_value_as_tensor(u.value)).kind, TT_DEVICE_CL);
        TT_REQUIRE_OK(tt_training_load(tt_test_tmpdir(), NULL, &w));
        TT_CHECK(tt_equal(tt_value_as_tensor(w.value), TT_FLOATS(1, 2, 3)));
        TT_CHECK_EQ(tt_tensor_device(tt_module_param(m, "weight")).kind, TT_DEVICE_CL);
        tt_value_free(t.value);
        tt_value_free(u.value);
        tt_value_free(w.value);
        tt_module_free(m);
    }
}

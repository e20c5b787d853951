/* SPDX-License-Identifier: Apache-2.0 */
/* Default generators of devices: saved, restored, and moved to a place. */
#include <tutti/testing.h>
#include <tutti/testing_tools.h>
#include <tutti/tutti.h>

TT_TEST(multigpu, test_get_set_rng_state_all)
{
    tt_generator_state states[16];
    int n;

    tt_test_require_devices(2, false);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_tensor *first[2], *again[2];

        n = tt_generator_get_all(TT_DEVICE_CL, states, 16);
        TT_CHECK_EQ(n, tt_device_count(TT_DEVICE_CL));
        for (int d = 0; d < 2; d++)
            first[d] = tt_randn(TT_SHAPE(100), TT_F32, tt_cl(d));
        TT_REQUIRE_OK(tt_generator_set_all(TT_DEVICE_CL, states, n));
        for (int d = 0; d < 2; d++)
            again[d] = tt_randn(TT_SHAPE(100), TT_F32, tt_cl(d));
        for (int d = 0; d < 2; d++) {
            TT_REQUIRE(first[d] != NULL && again[d] != NULL);
            TT_CHECK(tt_equal(first[d], again[d]));
            TT_CHECK(!tt_equal(first[d], tt_randn(TT_SHAPE(100), TT_F32, tt_cl(d))));
        }
        TT_CHECK_ERR(tt_generator_set_all(TT_DEVICE_CL, states, 17), TT_ERR_INVALID);
    }
}

TT_TEST(multigpu, test_rng_state_offset)
{
    tt_generator *g;
    tt_generator_state before;

    tt_test_require_devices(1, false);
    g = tt_default_generator(TT_CL);
    TT_REQUIRE_NOT_NULL(g);
    tt_generator_seed(g, 7);
    before = tt_generator_get(g);
    tt_generator_set_offset(g, 100);
    TT_CHECK_EQ(tt_generator_get(g).offset, 100);
    TT_CHECK_EQ(tt_generator_get(g).seed, 7);
    tt_generator_set(g, before);
    TT_CHECK_EQ(tt_generator_get(g).offset, before.offset);
}

/* The same seed and place give the same numbers on every device as on the CPU. */
TT_TEST(device_random, numbers_are_those_of_the_cpu)
{
    tt_test_require_devices(1, false);
    TT_SCOPE {
        tt_generator *gen = tt_generator_new(tt_test_seed());
        tt_generator_state at = tt_generator_get(gen);
        tt_tensor *here = tt_uniform_(tt_empty(TT_SHAPE(1001), TT_F32, TT_CPU), 0, 1, gen), *there;
        tt_tensor *p_here = tt_randperm(57, TT_CPU, gen), *p_there, *m_here, *m_there;
        tt_tensor *w = tt_rand(TT_SHAPE(3, 9), TT_F32, TT_CPU);

        m_here = tt_multinomial(w, 4, false, gen);
        tt_generator_set(gen, at);
        there = tt_uniform_(tt_empty(TT_SHAPE(1001), TT_F32, TT_CL), 0, 1, gen);
        p_there = tt_randperm(57, TT_CL, gen);
        m_there = tt_multinomial(tt_to_device(w, TT_CL), 4, false, gen);
        TT_CHECK_EQ(tt_tensor_device(m_there).kind, TT_DEVICE_CL);
        TT_CHECK(tt_equal(here, tt_to_device(there, TT_CPU)));
        TT_CHECK(tt_equal(p_here, tt_to_device(p_there, TT_CPU)));
        TT_CHECK(tt_equal(m_here, tt_to_device(m_there, TT_CPU)));
        tt_generator_free(gen);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The check values that README.md gives for numbers from a hash. */
#include <string.h>

#include "golden/hashdata.h"
#include "tutti/testing.h"

TT_TEST(golden_hashdata, a_name_has_the_hashes_of_the_specification)
{
    uint64_t base = golden_fnv1a64("abc");

    TT_CHECK_EQ(base, 0xe71fa2190541574bu);
    TT_CHECK_EQ(golden_hash(base, 0), 0x29e32c04ec3f9c30u);
    TT_CHECK_EQ(golden_hash(base, 1), 0x4977c9b011719f2du);
    TT_CHECK_EQ(golden_hash(base, 2), 0x025033e36b223318u);
}

TT_TEST(golden_hashdata, floats_have_the_bits_of_the_specification)
{
    const uint32_t want[3] = { 1059709740u, 1061779401u, 1057116211u };
    float got[3];

    golden_fill_uniform("abc", got, 3, 0.5f, 1.0f);
    TT_CHECK_MEM(got, want, sizeof(want));
}

TT_TEST(golden_hashdata, integers_are_the_hash_modulo_a_number)
{
    const int64_t want[3] = { 4, 3, 6 };
    int64_t got[3];

    golden_fill_integers("abc", got, 3, 10);
    TT_CHECK_MEM(got, want, sizeof(want));
}

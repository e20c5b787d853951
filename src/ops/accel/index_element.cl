/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that are only moved: E, of ESIZE bytes. */

#if ESIZE == 1
typedef u8 E;
#elif ESIZE == 2
typedef u16 E;
#elif ESIZE == 4
typedef u32 E;
#elif ESIZE == 8
typedef u64 E;
#else
typedef struct wide_e {
    u64 a, b;
} E;
#endif

#if ESIZE == 16
#define IS_SET(v, bits) (((v).a & (bits)) != 0 || ((v).b & (bits)) != 0)
#else
#define IS_SET(v, bits) (((v) & (E)(bits)) != 0)
#endif

FN E no_element(void)
{
#if ESIZE == 16
    E e;

    e.a = 0;
    e.b = 0;
    return e;
#else
    return 0;
#endif
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the encoder and the decoder of values agree on; docs/objects.md describes it. */
#ifndef TTI_VALUE_CBOR_H
#define TTI_VALUE_CBOR_H

#include "value/value.h"

#define TTI_CBOR_DEPTH 512 /* containers inside each other */

/* Major types: the upper three bits of an item's first byte. */
enum {
    TTI_CBOR_UINT = 0,
    TTI_CBOR_NINT = 1,
    TTI_CBOR_BYTES = 2,
    TTI_CBOR_TEXT = 3,
    TTI_CBOR_ARRAY = 4,
    TTI_CBOR_MAP = 5,
    TTI_CBOR_TAG = 6,
    TTI_CBOR_SIMPLE = 7,
};

/* The lower five bits of a simple item. */
enum {
    TTI_CBOR_FALSE = 20,
    TTI_CBOR_TRUE = 21,
    TTI_CBOR_NULL = 22,
    TTI_CBOR_F16 = 25,
    TTI_CBOR_F32 = 26,
    TTI_CBOR_F64 = 27,
};

/* "TT" and a number, in a range of tags that is free for all. */
enum {
    TTI_TAG_TUPLE = 0x54540001,  /* array */
    TTI_TAG_RECORD = 0x54540002, /* [type name, map] */
    TTI_TAG_TENSOR = 0x54540003, /* [dtype, device ("cl:1"), shape, bytes] */
    TTI_TAG_SPARSE = 0x54540004, /* [device, shape, coalesced, indices, values] */
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are sent as they are in memory");

#endif

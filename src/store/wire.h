/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as bytes, low byte first, and a reader that cannot run past its end. */
#ifndef TTI_STORE_WIRE_H
#define TTI_STORE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline void tti_store32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static inline uint32_t tti_load32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void tti_store64(uint8_t *p, uint64_t v)
{
    tti_store32(p, (uint32_t)v);
    tti_store32(p + 4, (uint32_t)(v >> 32));
}

static inline uint64_t tti_load64(const uint8_t *p)
{
    return (uint64_t)tti_load32(p) | (uint64_t)tti_load32(p + 4) << 32;
}

/* What is left of a message. After the first read that did not fit, `bad` stays set and reads give zero. */
typedef struct tti_reader {
    const uint8_t *p;
    size_t left;
    bool bad;
} tti_reader;

static inline const uint8_t *tti_read_bytes(tti_reader *r, size_t n)
{
    const uint8_t *p = r->p;

    if (r->bad || n > r->left) {
        r->bad = true;
        return NULL;
    }
    r->p += n;
    r->left -= n;
    return p;
}

static inline uint32_t tti_read32(tti_reader *r)
{
    const uint8_t *p = tti_read_bytes(r, 4);

    return p == NULL ? 0 : tti_load32(p);
}

static inline uint64_t tti_read64(tti_reader *r)
{
    const uint8_t *p = tti_read_bytes(r, 8);

    return p == NULL ? 0 : tti_load64(p);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 in portable C: a few hundred MB/s, enough for program texts. */
#include "base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static uint32_t turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t word_at(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void take_block(tti_sha256 *h, const uint8_t *p)
{
    uint32_t w[64], s[8];

    for (int i = 0; i < 16; i++)
        w[i] = word_at(p + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];

        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(s, h->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = s[4], a = s[0];
        uint32_t x = s[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & s[5]) ^ (~e & s[6])) +
                     round_constants[i] + w[i];
        uint32_t y =
            (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));

        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += x;
        s[0] = x + y;
    }
    for (int i = 0; i < 8; i++)
        h->state[i] += s[i];
}

void tti_sha256_begin(tti_sha256 *h)
{
    static const uint32_t first[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

    memcpy(h->state, first, sizeof first);
    h->bytes = 0;
}

void tti_sha256_add(tti_sha256 *h, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    size_t held = (size_t)(h->bytes % 64);

    h->bytes += bytes;
    while (bytes > 0) {
        size_t n = 64 - held < bytes ? 64 - held : bytes;

        memcpy(h->block + held, p, n);
        p += n;
        bytes -= n;
        held += n;
        if (held == 64) {
            take_block(h, h->block);
            held = 0;
        }
    }
}

void tti_sha256_end(tti_sha256 *h, uint8_t sum[TTI_SHA256_BYTES])
{
    uint64_t bits = h->bytes * 8;
    uint8_t tail[72] = { 0x80 }, length[8];
    size_t held = (size_t)(h->bytes % 64);

    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    tti_sha256_add(h, tail, held < 56 ? 56 - held : 120 - held);
    tti_sha256_add(h, length, sizeof length);
    for (int i = 0; i < TTI_SHA256_BYTES; i++)
        sum[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void tti_sha256_text(const uint8_t sum[TTI_SHA256_BYTES], char text[2 * TTI_SHA256_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < TTI_SHA256_BYTES; i++) {
        text[2 * i] = digits[sum[i] >> 4];
        text[2 * i + 1] = digits[sum[i] & 15];
    }
    text[2 * TTI_SHA256_BYTES] = '\0';
}

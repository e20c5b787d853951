/* SPDX-License-Identifier: Apache-2.0 */
/* Frames, and the proofs of the job secret. */
#include "store/proto.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

void tti_put(tti_buffer *b, const void *data, size_t n)
{
    if (b->bad || n == 0)
        return;
    if (n > TTI_MAX_REPLY - b->n) {
        b->bad = true;
        return;
    }
    if (b->n + n > b->cap) {
        size_t cap = b->cap * 2 > b->n + n ? b->cap * 2 : b->n + n + 64;
        uint8_t *p = tti_realloc(b->data, cap);

        if (p == NULL) {
            b->bad = true;
            return;
        }
        b->data = p;
        b->cap = cap;
    }
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

void tti_put8(tti_buffer *b, uint8_t v)
{
    tti_put(b, &v, 1);
}

void tti_put32(tti_buffer *b, uint32_t v)
{
    uint8_t p[4];

    tti_store32(p, v);
    tti_put(b, p, 4);
}

void tti_put64(tti_buffer *b, uint64_t v)
{
    uint8_t p[8];

    tti_store64(p, v);
    tti_put(b, p, 8);
}

void tti_put_sized(tti_buffer *b, const void *data, size_t n)
{
    tti_put32(b, (uint32_t)n);
    tti_put(b, data, n);
}

void tti_frame_begin(tti_buffer *b, uint8_t head)
{
    *b = (tti_buffer){ 0 };
    tti_put32(b, 0);
    tti_put8(b, head);
}

tt_status tti_frame_end(tti_buffer *b)
{
    if (b->bad)
        return TT_FAIL(TT_ERR_NOMEM, "store: a message of more than %zu bytes, or no memory for it",
                       b->n);
    tti_store32(b->data, (uint32_t)(b->n - 4));
    return TT_OK;
}

tt_status tti_prove(const char *secret, const char *who, const uint8_t *client_hello,
                    const uint8_t *server_hello, uint8_t *proof)
{
    uint8_t text[16 + 2 * TTI_HELLO_SIZE] = { 0 };
    unsigned n = 0;

    snprintf((char *)text, 16, "tutti %s", who);
    memcpy(text + 16, client_hello, TTI_HELLO_SIZE);
    memcpy(text + 16 + TTI_HELLO_SIZE, server_hello, TTI_HELLO_SIZE);
    if (HMAC(EVP_sha256(), secret, (int)strlen(secret), text, sizeof text, proof, &n) == NULL ||
        n != TTI_PROOF_SIZE)
        return TT_FAIL(TT_ERR_IO, "store: the proof of the secret could not be computed");
    return TT_OK;
}

bool tti_proof_equal(const uint8_t *a, const uint8_t *b)
{
    return CRYPTO_memcmp(a, b, TTI_PROOF_SIZE) == 0;
}

tt_status tti_nonce(uint8_t *nonce)
{
    size_t n = 0;

    while (n < TTI_NONCE_SIZE) {
        ssize_t r = getrandom(nonce + n, TTI_NONCE_SIZE - n, 0);

        if (r < 0 && errno != EINTR)
            return TT_FAIL(TT_ERR_IO, "store: getrandom: %s", strerror(errno));
        n += r > 0 ? (size_t)r : 0;
    }
    return TT_OK;
}

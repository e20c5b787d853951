/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol between clients and the server of a TCP store; docs/store-protocol.md says it in words. */
#ifndef TTI_STORE_PROTO_H
#define TTI_STORE_PROTO_H

#include "base/mem.h"
#include "store/wire.h"
#include "tutti/store.h"

#define TTI_PROTO_VERSION 1
#define TTI_PROTO_MAGIC "TUTTI-ST"
#define TTI_NONCE_SIZE 32
#define TTI_PROOF_SIZE 32
#define TTI_HELLO_SIZE 48   /* both ways: magic 8, version 4, rank or status 4, nonce 32 */
#define TTI_VERDICT_SIZE 36 /* status 4, the server's proof 32 */

#define TTI_MAX_FRAME ((size_t)129 << 20) /* a compare_set of two of the largest values */
#define TTI_MAX_REPLY ((size_t)256 << 20)

enum { TTI_VERDICT_OK = 0, TTI_VERDICT_VERSION = 1, TTI_VERDICT_SECRET = 2 };

typedef enum tti_request_op {
    TTI_REQ_SET = 1,
    TTI_REQ_ADD = 2,
    TTI_REQ_WAIT = 3,
    TTI_REQ_CHECK = 4,
    TTI_REQ_COMPARE_SET = 5,
    TTI_REQ_APPEND = 6,
    TTI_REQ_REMOVE = 7,
    TTI_REQ_COUNT = 8,
    TTI_REQ_MULTI_GET = 9,
    TTI_REQ_MULTI_SET = 10,
    TTI_REQ_WAIT_CHANGE = 11,
    TTI_REQ_BYE = 12
} tti_request_op;

/* Bytes that grow. A failure is remembered until the end. */
typedef struct tti_buffer {
    uint8_t *data;
    size_t n, cap;
    bool bad;
} tti_buffer;

void tti_put(tti_buffer *b, const void *data, size_t n);
void tti_put8(tti_buffer *b, uint8_t v);
void tti_put32(tti_buffer *b, uint32_t v);
void tti_put64(tti_buffer *b, uint64_t v);
void tti_put_sized(tti_buffer *b, const void *data, size_t n); /* u32 length, then the bytes */

/* A frame begins with its length, which tti_frame_end fills in, and one byte: operation or status. */
void tti_frame_begin(tti_buffer *b, uint8_t head);
tt_status tti_frame_end(tti_buffer *b);

/* The proof of a secret: HMAC-SHA256 over who proves, the client's hello and the server's. */
tt_status tti_prove(const char *secret, const char *who, const uint8_t *client_hello,
                    const uint8_t *server_hello, uint8_t *proof);
bool tti_proof_equal(const uint8_t *a, const uint8_t *b); /* in constant time */
tt_status tti_nonce(uint8_t *nonce);

#endif

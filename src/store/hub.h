/* SPDX-License-Identifier: Apache-2.0 */
/* What the server knows: the table, the requests that wait, and its connections as state machines that get
 * bytes and give bytes. No sockets here, so that tests and fuzzers need none. One thread. */
#ifndef TTI_STORE_HUB_H
#define TTI_STORE_HUB_H

#include "store/proto.h"
#include "store/table.h"

#define TTI_HUB_BUCKETS 4096
#define TTI_MAX_AHEAD ((size_t)1 << 20) /* bytes a client may send while its request waits */

typedef struct tti_hub tti_hub;
typedef struct tti_session tti_session;
typedef struct tti_request tti_request;

/* A key that a request waits for, in the bucket of its hash. */
typedef struct tti_waiter {
    struct tti_waiter *next, **slot;
    tti_request *request;
    const char *key;
    uint64_t hash;
} tti_waiter;

/* A request on several keys, or one that may have to wait. */
struct tti_request {
    tti_request *next, **slot; /* among those of the hub that wait */
    tti_request *next_ready;
    tti_session *session;
    tti_request_op op;
    int n, n_missing, timeout_ms;
    int64_t deadline;
    const char **keys;
    tti_waiter *waiters;
    char *texts;
    uint8_t *seen; /* of wait_change; NULL: until it exists */
    size_t seen_size;
};

struct tti_hub {
    tti_table table;
    char *secret;
    tti_request *waiting;
    tti_request *ready; /* their last key has come */
    tti_waiter *buckets[TTI_HUB_BUCKETS];
};

/* Takes the bytes, which it frees with tti_mfree, to the client. */
typedef void (*tti_send_fn)(tti_session *s, uint8_t *data, size_t n);

typedef enum tti_session_state {
    TTI_SESSION_HELLO,
    TTI_SESSION_PROOF,
    TTI_SESSION_OPEN,
    TTI_SESSION_DEAD /* to be closed */
} tti_session_state;

struct tti_session {
    tti_hub *hub;
    tti_send_fn send;
    tti_session_state state;
    int rank; /* -1: not said */
    bool bye;
    tti_request *parked; /* no other request is looked at until it is answered */
    uint8_t client_hello[TTI_HELLO_SIZE], server_hello[TTI_HELLO_SIZE];
    tti_buffer in;
    size_t in_start;
    const char *complaint; /* why it is dead, if it is the client's mistake */
};

tt_status tti_hub_init(tti_hub *h, const char *secret);
void tti_hub_fini(tti_hub *h);
/* Answers the requests whose time is over; gives the next deadline or TTI_NEVER. */
int64_t tti_hub_expire(tti_hub *h, int64_t now);

void tti_session_init(tti_session *s, tti_hub *h, tti_send_fn send);
void tti_session_fini(tti_session *s);
void tti_session_feed(tti_session *s, const uint8_t *data, size_t n);
/* Goes on with what was fed while a request waited. */
void tti_session_go_on(tti_session *s);

/* One whole request; used by session.c. */
void tti_hub_handle(tti_session *s, const uint8_t *frame, size_t n);
void tti_hub_run_ready(tti_hub *h);
void tti_hub_forget(tti_request *r);

#endif

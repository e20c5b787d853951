/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the server of a TCP store, used by one thread at a time. */
#ifndef TTI_STORE_CLIENT_H
#define TTI_STORE_CLIENT_H

#include "store/proto.h"

/* Where the server is and what it is told. */
typedef struct tti_peer {
    char *host;
    int port;
    char *secret;
    int rank; /* -1: not said */
    bool met; /* it was there before: one that refuses us now has ended */
} tti_peer;

/* Connects and proves the secret; goes on trying, with growing random pauses, until the deadline. A wrong
 * secret or version ends it at once, and so does the end of a server that was there before. */
tt_status tti_client_open(const tti_peer *peer, int64_t deadline, int *fd_p);
/* Says goodbye. */
void tti_client_close(int fd);
/* Sends a frame and waits for the answer: its bytes behind the status, to be freed. A failure that the
 * server tells is recorded here. *broken_p: the connection is of no use any more. */
tt_status tti_client_call(const tti_peer *peer, int fd, const tti_buffer *frame, int64_t deadline,
                          tti_buffer *answer_p, bool *broken_p);

#endif

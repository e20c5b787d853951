/* SPDX-License-Identifier: Apache-2.0 */
/* The server of a TCP store: one thread, one libuv loop. */
#ifndef TTI_STORE_SERVER_H
#define TTI_STORE_SERVER_H

#include <stdatomic.h>

#include "base/status.h"

typedef struct tti_server tti_server;

/* How long a connection may take to prove the secret; shorter in tests. */
extern atomic_int tti_server_stranger_ms;

/* Listens on exactly host:port (0: any), or on `listen_fd`, if it is not -1, which it takes. When the address is
 * taken or not of this host, *taken_p (if not NULL) is set and NULL returned. */
tti_server *tti_server_new(const char *host, int port, const char *secret, int listen_fd,
                           bool *taken_p);
/* How many connections that had proved the secret have ended without a goodbye. */
uint64_t tti_server_lost(tti_server *s);
int tti_server_port(const tti_server *s);
void tti_server_free(tti_server *s);

#endif

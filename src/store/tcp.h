/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP store beyond its public face. */
#ifndef TTI_STORE_TCP_H
#define TTI_STORE_TCP_H

#include "base/status.h"
#include "tutti/store.h"

/* How many clients of the server of this store broke off without a goodbye; 0 if it serves none. */
uint64_t tti_store_tcp_lost(const tt_store *s);

/* Serves at host:port; when that address is taken or not of this host, is a client of whoever serves there. */
tt_store *tti_store_tcp_serve_or_join(const char *host, int port, const tt_store_tcp_options *opt);

#endif

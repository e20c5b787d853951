/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP store beyond its public face. */
#ifndef TTI_STORE_TCP_H
#define TTI_STORE_TCP_H

#include "base/status.h"
#include "tutti/store.h"

/* Serves at host:port; when that address is taken or not of this host, is a client of whoever serves there. */
tt_store *tti_store_tcp_serve_or_join(const char *host, int port, const tt_store_tcp_options *opt);

#endif

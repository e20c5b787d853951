/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks meet, as a text: scheme://host:port/path?rank=R&size=N. */
#ifndef TTI_RENDEZVOUS_URL_H
#define TTI_RENDEZVOUS_URL_H

#include "base/status.h"

typedef struct tti_url {
    char scheme[8];  /* env, tcp or file */
    char host[256];  /* tcp; IPv6 addresses without their brackets */
    int port;        /* tcp */
    char path[4096]; /* file, decoded */
    int rank, size;  /* -1: not said */
} tti_url;

tt_status tti_url_parse(const char *text, tti_url *url_p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* tt_rendezvous_open: rank and size from the options, the URL or the environment, in this order; then the
 * store. */
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "rendezvous/generation.h"
#include "rendezvous/url.h"
#include "rendezvous/world.h"
#include "store/store.h"
#include "store/tcp.h"

typedef struct place {
    tti_url url;
    tt_rendezvous_options opt;
    tt_world world;
    int rank, size;
    bool served; /* the launcher runs the store's server */
} place;

static tt_status find_ranks(place *p)
{
    p->world = (tt_world){
        .launcher = "none", .local_rank = -1, .local_size = -1, .node = -1, .n_nodes = -1
    };
    if (p->opt.has_rank) {
        p->rank = p->opt.rank;
        p->size = p->opt.size;
    } else if (p->url.rank >= 0 && p->url.size >= 0) {
        p->rank = p->url.rank;
        p->size = p->url.size;
    } else {
        TT_TRY(tt_world_detect(&p->world));
        p->rank = p->url.rank >= 0 ? p->url.rank : p->world.rank;
        p->size = p->url.size >= 0 ? p->url.size : p->world.size;
    }
    if (p->size < 1 || p->rank < 0 || p->rank >= p->size)
        return TT_FAIL(TT_ERR_INVALID,
                       "rendezvous: expected a rank from 0 to size - 1, got rank %d of %d", p->rank,
                       p->size);
    if (p->world.size == 0) { /* given: what the environment says of the host is still of use */
        tti_error_copy kept;
        tt_world w;

        tti_error_save(&kept);
        if (tt_world_detect(&w) == TT_OK && w.rank == p->rank && w.size == p->size)
            p->world = w;
        tti_error_restore(&kept);
    }
    p->world.rank = p->rank;
    p->world.size = p->size;
    return TT_OK;
}

/* `tutti run` serves the store itself and says where. */
static tt_status launcher_address(place *p, const char *at)
{
    char text[300];
    tti_url url;

    snprintf(text, sizeof text, "tcp://%s", at);
    if (tti_url_parse(text, &url) != TT_OK)
        return TT_FAIL(TT_ERR_INVALID, "rendezvous: TUTTI_STORE: expected host:port, got \"%s\"",
                       at);
    memcpy(p->url.host, url.host, sizeof p->url.host);
    p->url.port = url.port;
    p->served = true;
    return TT_OK;
}

static tt_status env_address(place *p)
{
    const char *at = tti_env_get(TTI_ENV_STORE);
    if (at != NULL && strcmp(p->world.launcher, "tutti") == 0)
        return launcher_address(p, at);
    const char *host = tti_foreign_get(TTI_FOREIGN_MASTER_ADDR);
    const char *agent = tti_foreign_get(TTI_FOREIGN_TORCHELASTIC_USE_AGENT_STORE);

    if (host == NULL || tti_foreign_get(TTI_FOREIGN_MASTER_PORT) == NULL)
        return TT_FAIL(TT_ERR_INVALID,
                       "rendezvous: env://: rank %d of %d needs %s to find the others", p->rank,
                       p->size, host == NULL ? "MASTER_ADDR" : "MASTER_PORT");
    if (strlen(host) >= sizeof p->url.host)
        return TT_FAIL(TT_ERR_INVALID, "rendezvous: env://: MASTER_ADDR is too long");
    strcpy(p->url.host, host);
    TT_TRY(tti_foreign_int(TTI_FOREIGN_MASTER_PORT, 1, 65535, &p->url.port));
    /* torchrun's own store, which speaks another language, is at MASTER_PORT then. */
    if (agent != NULL && strcmp(agent, "True") == 0 && strcmp(p->world.launcher, "torchrun") == 0)
        p->url.port = p->url.port < 65535 ? p->url.port + 1 : 65534;
    return TT_OK;
}

/* Rank 0 serves; when the address is taken or not of this host, a server is expected to be there. */
static tt_store *open_tcp(const place *p)
{
    tt_store_tcp_options o = { .secret = p->opt.secret,
                               .connect_timeout_ms = p->opt.timeout_ms,
                               .timeout_ms = p->opt.timeout_ms,
                               .rank = p->rank,
                               .has_rank = true,
                               .serve = p->rank == 0 && !p->served };
    tt_store *s;

    if (!o.serve)
        return tt_store_tcp_open(p->url.host, p->url.port, &o);
    s = tti_store_tcp_serve_or_join(p->url.host, p->url.port, &o);
    return s;
}

static tt_status open_store(place *p, tt_store **store_p)
{
    tt_store *s, *view;
    tt_status st;

    if (p->size == 1 && strcmp(p->url.scheme, "env") == 0) {
        s = tt_store_memory_new();
    } else if (strcmp(p->url.scheme, "file") == 0) {
        s = tt_store_file_open(p->url.path);
        if (s == NULL)
            return tt_last_status();
        st = tti_generation_join(s, p->rank, p->size, &view);
        tt_store_free(s);
        TT_TRY(st);
        s = view;
    } else {
        if (strcmp(p->url.scheme, "env") == 0)
            TT_TRY(env_address(p));
        s = open_tcp(p);
    }
    if (s == NULL)
        return tt_last_status();
    if (p->opt.timeout_ms > 0)
        tt_store_set_timeout(s, p->opt.timeout_ms);
    *store_p = s;
    return TT_OK;
}

tt_status tt_rendezvous_open(const char *url, const tt_rendezvous_options *opt, tt_rendezvous *r_p)
{
    place p = { .opt = opt != NULL ? *opt : (tt_rendezvous_options){ 0 } };
    tt_store *s = NULL;

    if (r_p == NULL || p.opt.timeout_ms < 0)
        return TT_FAIL(TT_ERR_INVALID, "rendezvous: %s",
                       r_p == NULL ? "the place for the result is NULL"
                                   : "the time-out is negative");
    TT_TRY(tti_url_parse(url != NULL ? url : "env://", &p.url));
    TT_TRY(find_ranks(&p));
    TT_TRY(open_store(&p, &s));
    tti_log(TT_LOG_INFO, "rendezvous: rank %d of %d (launcher %s), %s store", p.rank, p.size,
            p.world.launcher, tt_store_kind(s));
    *r_p = (tt_rendezvous){ .store = s, .rank = p.rank, .size = p.size, .world = p.world };
    return TT_OK;
}

void tt_rendezvous_close(tt_rendezvous *r)
{
    if (r == NULL)
        return;
    tt_store_free(r->store);
    *r = (tt_rendezvous){ 0 };
}

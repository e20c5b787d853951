/* SPDX-License-Identifier: Apache-2.0 */
/* Takes rendezvous URLs apart; every mistake is told with the whole URL. */
#include "rendezvous/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* %41 becomes A, and so on; no zero bytes. */
static tt_status decode(const char *text, const char *p, size_t n, char *out, size_t room)
{
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        int c = (uint8_t)p[i];

        if (c == '%') {
            int hi = i + 2 < n ? hex(p[i + 1]) : -1, lo = i + 2 < n ? hex(p[i + 2]) : -1;

            if (hi < 0 || lo < 0 || hi * 16 + lo == 0)
                return TT_FAIL(
                    TT_ERR_INVALID,
                    "rendezvous: \"%.200s\": %% has to be followed by two hexadecimal digits",
                    text);
            c = hi * 16 + lo;
            i += 2;
        }
        if (used + 1 >= room)
            return TT_FAIL(TT_ERR_INVALID, "rendezvous: \"%.200s\": the path is too long", text);
        out[used++] = (char)c;
    }
    out[used] = '\0';
    return TT_OK;
}

static tt_status number(const char *text, const char *what, const char *p, size_t n, long hi,
                        int *value_p)
{
    char digits[12], *end;
    long value;

    if (n > 0 && n < sizeof digits && p[0] >= '0' && p[0] <= '9') {
        memcpy(digits, p, n);
        digits[n] = '\0';
        value = strtol(digits, &end, 10);
        if (*end == '\0' && value <= hi) {
            *value_p = (int)value;
            return TT_OK;
        }
    }
    return TT_FAIL(TT_ERR_INVALID,
                   "rendezvous: \"%.200s\": %s: expected a number from 0 to %ld, got \"%.*s\"",
                   text, what, hi, (int)(n > 40 ? 40 : n), p);
}

/* rank=R&size=N, in any order; world_size means size. */
static tt_status parse_query(const char *text, const char *p, tti_url *u)
{
    while (*p != '\0') {
        size_t n = strcspn(p, "&"), name = strcspn(p, "=&");
        int *where = NULL;

        if (name == 4 && strncmp(p, "rank", 4) == 0)
            where = &u->rank;
        else if ((name == 4 && strncmp(p, "size", 4) == 0) ||
                 (name == 10 && strncmp(p, "world_size", 10) == 0))
            where = &u->size;
        if (where == NULL || p[name] != '=')
            return TT_FAIL(TT_ERR_INVALID,
                           "rendezvous: \"%.200s\": expected rank=R or size=N, got \"%.*s\"", text,
                           (int)(n > 60 ? 60 : n), p);
        TT_TRY(number(text, where == &u->rank ? "rank" : "size", p + name + 1, n - name - 1,
                      1 << 24, where));
        p += n + (p[n] == '&');
    }
    return TT_OK;
}

static tt_status parse_address(const char *text, const char *p, size_t n, tti_url *u)
{
    const char *host = p, *port = NULL;
    size_t host_size = 0;

    while (n > 0 && p[n - 1] == '/')
        n--;
    if (n > 0 && p[0] == '[') {
        const char *end = memchr(p, ']', n);

        if (end != NULL && end + 1 < p + n && end[1] == ':') {
            host = p + 1;
            host_size = (size_t)(end - host);
            port = end + 2;
        }
    } else {
        const char *colon = memchr(p, ':', n);

        if (colon != NULL && memchr(colon + 1, ':', (size_t)(p + n - colon - 1)) == NULL) {
            host_size = (size_t)(colon - p);
            port = colon + 1;
        }
    }
    if (port == NULL || host_size == 0 || host_size >= sizeof u->host)
        return TT_FAIL(
            TT_ERR_INVALID,
            "rendezvous: \"%.200s\": expected tcp://host:port, with IPv6 addresses in brackets",
            text);
    memcpy(u->host, host, host_size);
    u->host[host_size] = '\0';
    return number(text, "port", port, (size_t)(p + n - port), 65535, &u->port);
}

tt_status tti_url_parse(const char *text, tti_url *url_p)
{
    const char *rest = strstr(text, "://"), *query;
    tti_url u = { .rank = -1, .size = -1 };
    size_t n;

    if (rest == NULL || (size_t)(rest - text) >= sizeof u.scheme)
        return TT_FAIL(
            TT_ERR_INVALID,
            "rendezvous: expected env://, tcp://host:port or file:///path, got \"%.200s\"", text);
    memcpy(u.scheme, text, (size_t)(rest - text));
    rest += 3;
    query = strchr(rest, '?');
    n = query != NULL ? (size_t)(query - rest) : strlen(rest);
    if (query != NULL)
        TT_TRY(parse_query(text, query + 1, &u));
    if (strcmp(u.scheme, "tcp") == 0) {
        TT_TRY(parse_address(text, rest, n, &u));
    } else if (strcmp(u.scheme, "file") == 0) {
        if (n == 0 || rest[0] != '/')
            return TT_FAIL(TT_ERR_INVALID,
                           "rendezvous: \"%.200s\": expected file:///path, with three slashes",
                           text);
        TT_TRY(decode(text, rest, n, u.path, sizeof u.path));
    } else if (strcmp(u.scheme, "env") != 0 || n > 0) {
        return TT_FAIL(
            TT_ERR_INVALID,
            "rendezvous: expected env://, tcp://host:port or file:///path, got \"%.200s\"", text);
    }
    *url_p = u;
    return TT_OK;
}

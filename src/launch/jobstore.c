/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a job, free ports, random secrets, children: what the launcher asks the system for. */
#include "launch/jobstore.h"

#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/exchange.h"

tt_status tti_jobstore_open(tti_job *job, const char *host)
{
    tt_store_tcp_options o = { .serve = true, .secret = job->secret, .timeout_ms = 5000 };
    bool v6 = strchr(host, ':') != NULL;

    job->store = tt_store_tcp_open(host, 0, &o);
    if (job->store == NULL)
        return tt_last_status();
    snprintf(job->store_addr, sizeof job->store_addr, v6 ? "[%s]:%d" : "%s:%d", host,
             tt_store_tcp_port(job->store));
    return tti_exit_announce(job->store);
}

void tti_jobstore_close(tti_job *job)
{
    if (job->store != NULL)
        tt_store_free(job->store);
    job->store = NULL;
}

void tti_jobstore_exit(tti_job *job, const tti_rank *r)
{
    char words[128];

    if (job->store == NULL)
        return;
    tti_status_words(r->status, words, sizeof words);
    (void)tti_exit_record(job->store, r->rank, words);
}

tt_status tti_port_reserve(const char *addr, int *port_p, int *fd_p)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found;
    struct sockaddr_storage got;
    socklen_t size = sizeof got;
    int yes = 1, fd;

    if (getaddrinfo(addr, "0", &hints, &found) != 0)
        return TT_FAIL(TT_ERR_INVALID, "launch: no address for the host \"%s\"", addr);
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(fd, found->ai_addr, found->ai_addrlen) == 0 &&
        getsockname(fd, (struct sockaddr *)&got, &size) == 0) {
        *port_p = ntohs(got.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
                                                  : ((struct sockaddr_in *)&got)->sin_port);
        *fd_p = fd;
        freeaddrinfo(found);
        return TT_OK;
    }
    freeaddrinfo(found);
    if (fd >= 0)
        close(fd);
    return TT_FAIL(TT_ERR_IO, "launch: no free port at %s: %s", addr, strerror(errno));
}

tt_status tti_random_hex(char *text, int n)
{
    unsigned char bytes[64];

    if (n > (int)sizeof bytes || getrandom(bytes, (size_t)n, 0) != n)
        return TT_FAIL(TT_ERR_IO, "launch: no random numbers: %s", strerror(errno));
    for (int i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return TT_OK;
}

int tti_children(pid_t *pids, int cap)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    int n = 0;

    while (d != NULL && n < cap && (e = readdir(d)) != NULL) {
        char path[300], line[256];
        const char *end;
        int parent = 0;
        FILE *f;

        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        f = fopen(path, "re");
        if (f == NULL)
            continue;
        /* pid (name) state parent: the name may have anything in it. */
        if (fgets(line, sizeof line, f) != NULL && (end = strrchr(line, ')')) != NULL &&
            sscanf(end, ") %*c %d", &parent) == 1 && parent == getpid())
            pids[n++] = atoi(e->d_name);
        fclose(f);
    }
    if (d != NULL)
        closedir(d);
    return n;
}

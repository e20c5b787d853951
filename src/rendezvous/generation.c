/* SPDX-License-Identifier: Apache-2.0 */
/* A file outlives the processes that met in it, and may serve for another meeting, of the same or of
 * other processes. Meetings are numbered; the members of each are listed under its number, one line
 * each, in the order in which they came:
 *
 *     rank size pid start-time pid-namespace boot-id attempt */
#include "rendezvous/generation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/exchange.h"

#define NUMBER "tutti/meeting"

/* Whether this rank may be part of the meeting that has these members. */
static bool is_current(const char *members, const tti_ident *self, const char *line)
{
    size_t length = strlen(line);
    int before = 0;

    for (const char *p = members; *p != '\0'; p += strcspn(p, "\n") + 1) {
        tti_ident other = { .pid = -1 };

        if (strncmp(p, line, length) == 0) /* everybody before is fine */
            return true;
        if (sscanf(p, "%d %d %d %" SCNu64 " %" SCNu64 " %39s", &other.global_rank,
                   &other.world_size, &other.pid, &other.start_time, &other.pid_namespace,
                   other.boot_id) != 6)
            return false;
        if (other.global_rank == self->global_rank || ++before >= other.world_size)
            return false; /* the rank is taken, or nobody is missing */
        if (strcmp(other.boot_id, self->boot_id) == 0 &&
            other.pid_namespace == self->pid_namespace && !tti_ident_alive(&other))
            return false;
        if (p[strcspn(p, "\n")] == '\0')
            break;
    }
    return false;
}

/* One attempt: adds itself to the current meeting and looks at the members. */
static tt_status try_join(tt_store *store, const tti_ident *self, int64_t number, bool *joined_p)
{
    char key[60], line[160], mark[60];
    static _Atomic unsigned attempts;
    tt_blob members;

    /* A line is unique, so that one that joins twice does not take its first line for the second. */
    snprintf(mark, sizeof mark, "%.39s", self->boot_id[0] != '\0' ? self->boot_id : "-");
    snprintf(line, sizeof line, "%d %d %d %" PRIu64 " %" PRIu64 " %s %u\n", self->global_rank,
             self->world_size, self->pid, self->start_time, self->pid_namespace, mark, attempts++);
    snprintf(key, sizeof key, NUMBER "/%lld", (long long)number);
    TT_TRY(tt_store_append(store, key, line, strlen(line)));
    TT_TRY(tt_store_get(store, key, &members));
    *joined_p = is_current(members.data, self, line);
    tt_blob_free(&members);
    return TT_OK;
}

static tt_status open_next(tt_store *store, int64_t number)
{
    char now[24], next[24];

    snprintf(now, sizeof now, "%lld", (long long)number);
    snprintf(next, sizeof next, "%lld", (long long)number + 1);
    /* If somebody else was quicker, theirs is the next one. */
    return tt_store_compare_set(store, NUMBER, now, strlen(now), next, strlen(next), NULL);
}

tt_status tti_generation_join(tt_store *store, int rank, int size, tt_store **view_p)
{
    bool joined = false;
    int64_t number = 0;
    tti_ident self;
    char name[40];

    TT_TRY(tti_ident_self(rank, size, &self));
    for (int attempt = 0; attempt < 1000; attempt++) {
        TT_TRY(tt_store_add(store, NUMBER, 0, &number));
        TT_TRY(try_join(store, &self, number, &joined));
        if (joined)
            break;
        TT_TRY(open_next(store, number));
    }
    if (!joined)
        return TT_FAIL(TT_ERR_PEER, "rendezvous: file: other processes keep opening new meetings");
    snprintf(name, sizeof name, "m%lld", (long long)number);
    *view_p = tt_store_prefix_new(name, store);
    return *view_p != NULL ? TT_OK : TT_ERR_NOMEM;
}

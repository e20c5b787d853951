/* SPDX-License-Identifier: Apache-2.0 */
/* Making and finding the shared memory of a team.
 *
 * Between processes it is an anonymous file of group rank 0, which the others open through /proc: it has no
 * name, so nothing stays behind however the processes end. Where that is not possible (a hidden /proc)
 * rank 0 sends its descriptor to sockets of the others, whose names are in no directory and
 * end with them. A random token tells whether what was mapped is the right memory. Threads of one process find
 * theirs in a list. */
#include "base/error.h"
#include "coll/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"

#define MAGIC 0x7475747469736d31u
#define VERSION 2u

static size_t up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

void tti_layout_make(int size, size_t window_bytes, size_t message_bytes, tti_layout *layout_p)
{
    size_t n = (size_t)size;
    tti_layout l = { 0 };

    l.blocks = up(sizeof(tti_head), TTI_LINE);
    l.n_slots = size <= 4    ? TTI_SLOTS
                : size <= 16 ? 8
                             : 2;              /* large groups would take much memory */
    l.slot_stride = TTI_SLOT_BYTES + TTI_LINE; /* not all in the same set of the cache */
    l.slots = up(l.blocks + n * sizeof(tti_block), TTI_LINE);
    l.window_bytes = up(window_bytes, 4096);
    l.windows = up(l.slots + l.n_slots * n * l.slot_stride, 4096);
    l.messages = l.windows + n * l.window_bytes;
    l.bytes = up(l.messages + message_bytes, 4096);
    *layout_p = l;
}

/* What the ranks tell each other: rank 0 where the memory is, the others where they can be sent it. */
typedef struct offer {
    int32_t pid, fd;
    int32_t status; /* not 0: rank 0 could not make it */
    int32_t box_bytes;
    unsigned char token[16];
    char box[32]; /* the name of a socket, box_bytes long; it begins with a zero byte */
    char text[160];
} offer;

static void fill_head(char *base, size_t bytes, int size, const unsigned char *token)
{
    tti_head *head = (tti_head *)(void *)base;

    head->bytes = bytes;
    head->version = VERSION;
    head->size = (uint32_t)size;
    memcpy(head->token, token, sizeof head->token);
    head->magic = MAGIC;
}

static bool right_head(const char *base, size_t bytes, const unsigned char *token)
{
    const tti_head *head = (const tti_head *)(const void *)base;

    return head->magic == MAGIC && head->bytes == bytes &&
           memcmp(head->token, token, sizeof head->token) == 0;
}

static tt_status make_token(unsigned char *token)
{
    if (getrandom(token, 16, 0) != 16)
        return TT_FAIL(TT_ERR_IO, "team: no random bytes: %s", strerror(errno));
    return TT_OK;
}

/* ---- threads of one process ---------------------------------------------------------- */

typedef struct local {
    struct local *next;
    char *base;
    size_t bytes;
    unsigned char token[16];
    int users;
} local;

static pthread_mutex_t mu_locals = PTHREAD_MUTEX_INITIALIZER;
static local *locals; /* mu_locals */

static tt_status local_make(size_t bytes, int size, const unsigned char *token)
{
    local *l = tti_calloc(1, sizeof *l);

    if (l == NULL)
        return TT_ERR_NOMEM;
    l->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (l->base == MAP_FAILED) {
        tti_mfree(l);
        return TT_FAIL(TT_ERR_NOMEM, "team: no memory for %zu shared bytes", bytes);
    }
    l->bytes = bytes;
    l->users = 1;
    memcpy(l->token, token, sizeof l->token);
    fill_head(l->base, bytes, size, token);
    pthread_mutex_lock(&mu_locals);
    l->next = locals;
    locals = l;
    pthread_mutex_unlock(&mu_locals);
    return TT_OK;
}

static char *local_attach(const unsigned char *token)
{
    char *base = NULL;

    pthread_mutex_lock(&mu_locals);
    for (local *l = locals; l != NULL; l = l->next)
        if (memcmp(l->token, token, sizeof l->token) == 0) {
            l->users++;
            base = l->base;
        }
    pthread_mutex_unlock(&mu_locals);
    return base;
}

static void local_drop(const unsigned char *token)
{
    local *last = NULL;

    pthread_mutex_lock(&mu_locals);
    for (local **l = &locals; *l != NULL; l = &(*l)->next)
        if (memcmp((*l)->token, token, sizeof(*l)->token) == 0) {
            if (--(*l)->users == 0) {
                last = *l;
                *l = last->next;
            }
            break;
        }
    pthread_mutex_unlock(&mu_locals);
    if (last != NULL) {
        munmap(last->base, last->bytes);
        tti_mfree(last);
    }
}

/* ---- processes ------------------------------------------------------------------------ */

/* The kernel would look for pages of an impossible size until it kills somebody. */
static bool is_possible(size_t bytes)
{
    struct sysinfo info;

    return sysinfo(&info) != 0 ||
           bytes / info.mem_unit <= (size_t)info.totalram + (size_t)info.totalswap;
}

static tt_status reserve(int fd, size_t bytes)
{
    int err;

    if (!is_possible(bytes))
        return TT_FAIL(TT_ERR_NOMEM,
                       "team: %zu bytes of shared memory are more than the machine has", bytes);
    do {
        err = posix_fallocate(fd, 0, (off_t)bytes);
    } while (err == EINTR);
    if (err != 0)
        return TT_FAIL(TT_ERR_NOMEM, "team: no room for %zu bytes of shared memory: %s", bytes,
                       strerror(err));
    return TT_OK;
}

int tti_memfd(const char *name, size_t bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC);

    if (fd < 0) {
        TT_FAIL(TT_ERR_IO, "team: shared memory: %s", strerror(errno));
        return -1;
    }
    if (reserve(fd, bytes) != TT_OK) {
        close(fd);
        return -1;
    }
    return fd;
}

static void *map_fd(int fd, size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return p == MAP_FAILED ? NULL : p;
}

void *tti_map_peer_fd(int pid, int fd, size_t bytes)
{
    char path[64];
    void *p;
    int mine;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    mine = open(path, O_RDWR | O_CLOEXEC);
    if (mine < 0)
        return NULL;
    p = lseek(mine, 0, SEEK_END) >= (off_t)bytes ? map_fd(mine, bytes) : NULL;
    close(mine);
    return p;
}

/* ---- descriptors through sockets ------------------------------------------------------ */

/* A socket that can be sent a descriptor, with an abstract name that the kernel chooses; -1 if there is none. */
static int box_open(offer *o)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    socklen_t n = sizeof name;
    int on = 1, box = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (box < 0)
        return -1;
    if (setsockopt(box, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
        bind(box, (struct sockaddr *)&name, sizeof name.sun_family) != 0 ||
        getsockname(box, (struct sockaddr *)&name, &n) != 0 ||
        n - offsetof(struct sockaddr_un, sun_path) > sizeof o->box) {
        close(box);
        return -1;
    }
    o->box_bytes = (int32_t)(n - offsetof(struct sockaddr_un, sun_path));
    memcpy(o->box, name.sun_path, (size_t)o->box_bytes);
    return box;
}

/* Room for what travels with a message: a descriptor, and who sent it. */
typedef union box_room {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
} box_room;

/* Puts `fd` into the socket of a rank, where it stays until it is taken. Does not block. */
static bool box_send(int from, const offer *to, int fd)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    box_room room = { 0 };
    char byte = 0;
    struct iovec data = { &byte, 1 };
    struct msghdr m = { .msg_name = &name,
                        .msg_iov = &data,
                        .msg_iovlen = 1,
                        .msg_control = room.bytes,
                        .msg_controllen = CMSG_SPACE(sizeof fd) };
    struct cmsghdr *head = CMSG_FIRSTHDR(&m);

    if (to->box_bytes <= 0 || (size_t)to->box_bytes > sizeof to->box)
        return false;
    memcpy(name.sun_path, to->box, (size_t)to->box_bytes);
    m.msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)to->box_bytes);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    return sendmsg(from, &m, MSG_NOSIGNAL) == 1;
}

/* The next message: its descriptor, or -1 if it has none or is of another user. False: there is no message. */
static bool box_take(int box, int *fd_p)
{
    box_room room;
    char byte;
    struct iovec data = { &byte, 1 };
    struct msghdr m = { .msg_iov = &data,
                        .msg_iovlen = 1,
                        .msg_control = room.bytes,
                        .msg_controllen = sizeof room.bytes };
    struct ucred who = { .uid = (uid_t)-1 };

    *fd_p = -1;
    if (recvmsg(box, &m, MSG_CMSG_CLOEXEC) < 0)
        return false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c != NULL; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof *fd_p))
            memcpy(fd_p, CMSG_DATA(c), sizeof *fd_p);
        if (c->cmsg_type == SCM_CREDENTIALS)
            memcpy(&who, CMSG_DATA(c), sizeof who);
    }
    if (who.uid != geteuid() && *fd_p >= 0) {
        close(*fd_p);
        *fd_p = -1;
    }
    return true;
}

static void offer_failed(offer *o, tt_status st)
{
    o->status = st;
    snprintf(o->text, sizeof o->text, "%s", tti_last_error());
}

/* Rank 0's part of one attempt: makes the memory and maps it. */
static void offer_make(offer *o, size_t bytes, int size, tti_segment *seg)
{
    o->fd = tti_memfd("tutti-team", bytes);
    if (o->fd < 0) {
        offer_failed(o, tt_last_status());
        return;
    }
    seg->base = map_fd(o->fd, bytes);
    if (seg->base == NULL) {
        TT_FAIL(TT_ERR_NOMEM, "team: cannot map %zu bytes: %s", bytes, strerror(errno));
        offer_failed(o, TT_ERR_NOMEM);
        return;
    }
    fill_head(seg->base, bytes, size, o->token);
}

/* Keeps what was mapped if it is the right memory. */
static void offer_check(const offer *o, size_t bytes, tti_segment *seg)
{
    if (seg->base != NULL && !right_head(seg->base, bytes, o->token)) {
        munmap(seg->base, bytes);
        seg->base = NULL;
    }
}

/* The others' part: through /proc, or what came to the socket. */
static void offer_take(const offer *o, int box, size_t bytes, tti_segment *seg)
{
    int fd;

    if (box < 0) {
        seg->base = tti_map_peer_fd(o->pid, o->fd, bytes);
        offer_check(o, bytes, seg);
    }
    while (box >= 0 && seg->base == NULL && box_take(box, &fd)) {
        if (fd < 0)
            continue;
        seg->base = lseek(fd, 0, SEEK_END) >= (off_t)bytes ? map_fd(fd, bytes) : NULL;
        offer_check(o, bytes, seg);
        close(fd);
    }
}

/* Agrees on whether everybody has it. */
static tt_status agree(const tti_team_args *args, const char *step, bool mine, bool *all_p)
{
    unsigned char flag = mine;
    unsigned char *flags = tti_calloc((size_t)args->size, 1);
    tt_status st = flags != NULL ? args->exchange(args->ctx, step, &flag, 1, flags) : TT_ERR_NOMEM;

    *all_p = true;
    for (int r = 0; st == TT_OK && r < args->size; r++)
        *all_p &= flags[r] != 0;
    tti_mfree(flags);
    return st;
}

/* Rank 0 sends its descriptor to everybody; nobody looks before all were sent it. */
static tt_status send_to_all(const tti_team_args *args, const offer *all, int box, int fd)
{
    bool sent = true;

    for (int r = 1; args->rank == 0 && r < args->size; r++)
        sent = box >= 0 && box_send(box, &all[r], fd) && sent;
    return agree(args, "segment sent", sent, &sent);
}

/* Attempt 0: through /proc. Attempt 1: through sockets. */
static tt_status try_share(const tti_team_args *args, int attempt, size_t bytes, tti_segment *seg,
                           bool *all_p)
{
    static const char *const steps[2][2] = { { "segment", "segment mapped" },
                                             { "segment socket", "segment socket mapped" } };
    offer *all = tti_calloc((size_t)args->size, sizeof *all);
    offer o = { .pid = getpid(), .fd = -1 };
    int box = attempt == 1 ? box_open(&o) : -1;
    tt_status st = all != NULL ? make_token(o.token) : TT_ERR_NOMEM;

    if (st == TT_OK && args->rank == 0)
        offer_make(&o, bytes, args->size, seg);
    if (all != NULL && st == TT_OK)
        st = args->exchange(args->ctx, steps[attempt][0], &o, sizeof o, all);
    if (st == TT_OK && all[0].status != TT_OK)
        st = TT_FAIL((tt_status)all[0].status, "%s", all[0].text);
    if (st == TT_OK && attempt == 1)
        st = send_to_all(args, all, box, o.fd);
    if (st == TT_OK && args->rank != 0 && (attempt == 0 || box >= 0))
        offer_take(&all[0], box, bytes, seg);
    if (st == TT_OK)
        st = agree(args, steps[attempt][1], seg->base != NULL, all_p);
    if (box >= 0)
        close(box);
    if (o.fd >= 0)
        close(o.fd);
    if (seg->base != NULL && (st != TT_OK || !*all_p)) {
        munmap(seg->base, bytes);
        seg->base = NULL;
    }
    tti_mfree(all);
    return st;
}

static tt_status open_between_threads(const tti_team_args *args, size_t bytes, tti_segment *seg)
{
    unsigned char *all = tti_calloc((size_t)args->size, 16);
    unsigned char token[16] = { 0 };
    bool everybody = false;
    tt_status st = all != NULL ? TT_OK : TT_ERR_NOMEM;

    if (st == TT_OK && args->rank == 0 && (st = make_token(token)) == TT_OK &&
        (st = local_make(bytes, args->size, token)) == TT_OK) {
        memcpy(seg->token, token, sizeof token);
        seg->base = local_attach(token);
        local_drop(token);
    }
    if (all != NULL && st == TT_OK)
        st = args->exchange(args->ctx, "segment", token, sizeof token, all);
    if (st == TT_OK && args->rank != 0) {
        memcpy(seg->token, all, sizeof token);
        seg->base = local_attach(all);
    }
    if (st == TT_OK)
        st = agree(args, "segment mapped", seg->base != NULL, &everybody);
    if (st == TT_OK && !everybody)
        st = TT_FAIL(TT_ERR_IO, "group %s: its ranks are not threads of one process", args->group);
    tti_mfree(all);
    return st;
}

tt_status tti_segment_open(const tti_team_args *args, size_t bytes, tti_segment *segment_p)
{
    tti_segment seg = { .bytes = bytes, .in_process = args->same_process };
    bool all = false;
    tt_status st;

    if (args->same_process) {
        st = open_between_threads(args, bytes, &seg);
    } else {
        st = try_share(args, 0, bytes, &seg, &all);
        if (st == TT_OK && !all)
            st = try_share(args, 1, bytes, &seg, &all);
        if (st == TT_OK && !all)
            st =
                TT_FAIL(TT_ERR_IO, "group %s: its ranks cannot reach a common memory", args->group);
    }
    if (st != TT_OK)
        tti_segment_close(&seg);
    else
        *segment_p = seg;
    return st;
}

void tti_segment_close(tti_segment *segment)
{
    if (segment->base == NULL)
        return;
    if (segment->in_process)
        local_drop(segment->token);
    else
        munmap(segment->base, segment->bytes);
    segment->base = NULL;
}

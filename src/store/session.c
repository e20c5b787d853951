/* SPDX-License-Identifier: Apache-2.0 */
/* A connection from the server's side: hello, proof, then requests, one after the other. */
#include <string.h>

#include "store/hub.h"

#define MAX_STRANGER 4096 /* bytes of a client that has not proved anything */

void tti_session_init(tti_session *s, tti_hub *h, tti_send_fn send)
{
    memset(s, 0, sizeof *s);
    s->hub = h;
    s->send = send;
    s->rank = -1;
}

void tti_session_fini(tti_session *s)
{
    if (s->parked != NULL)
        tti_hub_forget(s->parked);
    tti_mfree(s->in.data);
    s->in = (tti_buffer){ 0 };
}

static void die(tti_session *s, const char *complaint)
{
    s->state = TTI_SESSION_DEAD;
    s->complaint = complaint;
}

static void send_copy(tti_session *s, const uint8_t *data, size_t n)
{
    uint8_t *copy = tti_malloc(n);

    if (copy == NULL) {
        die(s, "no memory");
        return;
    }
    memcpy(copy, data, n);
    s->send(s, copy, n);
}

static void on_hello(tti_session *s, const uint8_t *p)
{
    uint32_t version = tti_load32(p + 8);
    uint8_t *hello = s->server_hello;

    if (memcmp(p, TTI_PROTO_MAGIC, 8) != 0) {
        die(s, "it speaks another protocol");
        return;
    }
    memcpy(s->client_hello, p, TTI_HELLO_SIZE);
    memcpy(hello, TTI_PROTO_MAGIC, 8);
    tti_store32(hello + 8, TTI_PROTO_VERSION);
    tti_store32(hello + 12, version == TTI_PROTO_VERSION ? TTI_VERDICT_OK : TTI_VERDICT_VERSION);
    if (tti_nonce(hello + 16) != TT_OK) {
        die(s, "no random numbers");
        return;
    }
    send_copy(s, hello, TTI_HELLO_SIZE);
    if (version != TTI_PROTO_VERSION)
        die(s, "it speaks another version of the protocol");
    else if (s->state != TTI_SESSION_DEAD)
        s->state = TTI_SESSION_PROOF;
}

static void on_proof(tti_session *s, const uint8_t *p)
{
    uint8_t expected[TTI_PROOF_SIZE], verdict[TTI_VERDICT_SIZE] = { 0 };
    const char *secret = s->hub->secret;
    bool right =
        tti_prove(secret, "client", s->client_hello, s->server_hello, expected) == TT_OK &&
        tti_proof_equal(expected, p) &&
        tti_prove(secret, "server", s->client_hello, s->server_hello, verdict + 4) == TT_OK;

    tti_store32(verdict, right ? TTI_VERDICT_OK : TTI_VERDICT_SECRET);
    send_copy(s, verdict, sizeof verdict);
    if (!right) {
        die(s, "its secret is wrong");
        return;
    }
    s->rank = (int)(int32_t)tti_load32(s->client_hello + 12);
    if (s->state != TTI_SESSION_DEAD)
        s->state = TTI_SESSION_OPEN;
}

/* One step, if all bytes for it are there. */
static bool step(tti_session *s)
{
    const uint8_t *p = s->in.data + s->in_start;
    size_t left = s->in.n - s->in_start, need;

    switch (s->state) {
    case TTI_SESSION_HELLO:
        need = TTI_HELLO_SIZE;
        break;
    case TTI_SESSION_PROOF:
        need = TTI_PROOF_SIZE;
        break;
    default:
        if (left < 4)
            return false;
        need = tti_load32(p);
        if (need < 1 || need > TTI_MAX_FRAME) {
            die(s, "a request is too large or empty");
            return false;
        }
        need += 4;
    }
    if (left < need)
        return false;
    s->in_start += need;
    if (s->state == TTI_SESSION_HELLO)
        on_hello(s, p);
    else if (s->state == TTI_SESSION_PROOF)
        on_proof(s, p);
    else
        tti_hub_handle(s, p + 4, need - 4);
    return true;
}

void tti_session_go_on(tti_session *s)
{
    while (s->state != TTI_SESSION_DEAD && s->parked == NULL && s->in_start < s->in.n)
        if (!step(s))
            break;
    if (s->in_start == 0)
        return;
    s->in.n -= s->in_start;
    memmove(s->in.data, s->in.data + s->in_start, s->in.n);
    s->in_start = 0;
    if (s->in.n == 0 && s->in.cap > MAX_STRANGER * 16) {
        tti_mfree(s->in.data);
        s->in = (tti_buffer){ 0 };
    }
}

void tti_session_feed(tti_session *s, const uint8_t *data, size_t n)
{
    if (s->state == TTI_SESSION_DEAD)
        return;
    if (s->state < TTI_SESSION_OPEN && n > MAX_STRANGER - s->in.n) {
        die(s, "it sends before it has proved its secret");
        return;
    }
    if (s->parked != NULL && s->in.n + n > TTI_MAX_AHEAD) {
        die(s, "it sends too much while a request waits");
        return;
    }
    tti_put(&s->in, data, n);
    if (s->in.bad) {
        die(s, "no memory for its request");
        return;
    }
    tti_session_go_on(s);
    tti_hub_run_ready(s->hub);
}

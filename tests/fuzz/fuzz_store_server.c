/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes to the server of a TCP store, in pieces, over two connections that share its table: before
 * and after the proof of the secret. The first byte says which, and how long the pieces are. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/hub.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void swallow(tti_session *s, uint8_t *data, size_t n)
{
    if (s->state < TTI_SESSION_OPEN && n != TTI_HELLO_SIZE && n != TTI_VERDICT_SIZE)
        __builtin_trap(); /* a stranger gets nothing else */
    tti_mfree(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tti_hub hub;
    tti_session sessions[2];
    size_t piece;

    if (size < 1 || tti_hub_init(&hub, "secret") != TT_OK)
        return 0;
    for (int i = 0; i < 2; i++) {
        tti_session_init(&sessions[i], &hub, swallow);
        if (data[0] & 1)
            sessions[i].state = TTI_SESSION_OPEN;
    }
    piece = (size_t)(data[0] >> 1) + 1;
    for (size_t at = 1, turn = 0; at < size; at += piece, turn++) {
        size_t n = size - at < piece ? size - at : piece;

        tti_session_feed(&sessions[data[0] & 2 ? turn % 2 : 0], data + at, n);
        if (turn % 8 == 7)
            tti_hub_expire(&hub, tti_now_ns());
    }
    if (!(data[0] & 1) && hub.table.n != 0)
        __builtin_trap(); /* nobody proved anything */
    tti_hub_expire(&hub, TTI_NEVER - 1);
    tti_session_fini(&sessions[0]);
    tti_session_fini(&sessions[1]);
    tti_hub_fini(&hub);
    return 0;
}

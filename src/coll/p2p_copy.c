/* SPDX-License-Identifier: Apache-2.0 */
/* Long messages: read from the memory of their sender. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "coll/p2p_impl.h"

#define PIECE ((size_t)1 << 20) /* copied without looking at anything else */

bool tti_p2p_can_offer(const tti_p2p_box *box, int peer)
{
    if (box->env.same_process)
        return true;
    return atomic_load_explicit(&box->peers[peer].out->reach, memory_order_relaxed) ==
           TTI_REACH_YES;
}

static int read_process(int pid, uint64_t addr, unsigned char *dst, size_t bytes)
{
    while (bytes > 0) {
        struct iovec to = { dst, bytes };
        struct iovec from = { (void *)(uintptr_t)addr, bytes };
        ssize_t n = process_vm_readv(pid, &to, 1, &from, 1, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? EFAULT : errno;
        dst += n;
        addr += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

int tti_p2p_fetch(const tti_p2p_box *box, int peer, uint64_t addr, void *dst, size_t bytes)
{
    if (!box->env.same_process)
        return read_process(box->env.members[peer].pid, addr, dst, bytes);
    memcpy(dst, (const void *)(uintptr_t)addr, bytes);
    return 0;
}

void tti_p2p_probe(const tti_p2p_box *box, int peer, uint64_t addr, const void *data, size_t n)
{
    _Atomic uint32_t *reach = &box->peers[peer].in->reach;
    unsigned char seen[64];
    bool yes;

    if (box->env.same_process ||
        atomic_load_explicit(reach, memory_order_relaxed) != TTI_REACH_UNKNOWN)
        return;
    n = n < sizeof seen ? n : sizeof seen;
    yes = !box->env.no_cma && n > 0 &&
          read_process(box->env.members[peer].pid, addr, seen, n) == 0 &&
          memcmp(seen, data, n) == 0;
    atomic_store_explicit(reach, yes ? TTI_REACH_YES : TTI_REACH_NO, memory_order_relaxed);
}

bool tti_p2p_claim(tti_p2p_slot *slot)
{
    uint32_t was = TTI_P2P_SLOT_OFFERED;

    if (atomic_compare_exchange_strong_explicit(&slot->state, &was, TTI_P2P_SLOT_CLAIMED,
                                                memory_order_acq_rel, memory_order_acquire))
        return true;
    atomic_store_explicit(&slot->state, TTI_P2P_SLOT_FREE, memory_order_release);
    return false;
}

void tti_p2p_release(tti_p2p_box *box, int peer, uint32_t slot)
{
    _Atomic uint32_t *state = &box->peers[peer].in->slots[slot].state;
    uint32_t was = atomic_load_explicit(state, memory_order_acquire);

    while (was != TTI_P2P_SLOT_RETRACTED) /* else the sender waits for nothing */
        if (atomic_compare_exchange_weak_explicit(state, &was, TTI_P2P_SLOT_DONE,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            tti_p2p_notify(box, peer);
            return;
        }
    atomic_store_explicit(state, TTI_P2P_SLOT_FREE, memory_order_release);
}

void tti_p2p_begin_copy(tti_p2p_box *box, tti_p2p *op, uint32_t slot, uint64_t addr, uint64_t total)
{
    if (op->bytes != total) {
        tti_p2p_release(box, op->source, slot);
        tti_p2p_finish(op, TTI_END_SIZE, total);
        return;
    }
    op->state = TTI_P2P_COPYING;
    op->slot = slot;
    op->addr = addr;
    op->moved = 0;
    tti_list_add(&box->peers[op->source].copying, &op->link);
    tti_p2p_copy_some(box, op);
}

bool tti_p2p_copy_some(tti_p2p_box *box, tti_p2p *op)
{
    _Atomic uint32_t *state = &box->peers[op->source].in->slots[op->slot].state;
    size_t n = op->bytes - op->moved < PIECE ? op->bytes - op->moved : PIECE;
    uint32_t was = TTI_P2P_SLOT_CLAIMED;
    int err;

    if (!atomic_compare_exchange_strong_explicit(state, &was, TTI_P2P_SLOT_COPYING,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        tti_list_remove(&op->link);
        tti_p2p_release(box, op->source, op->slot);
        tti_p2p_finish(op, TTI_END_DROPPED, op->moved);
        return true;
    }
    err = tti_p2p_fetch(box, op->source, op->addr + op->moved, op->data + op->moved, n);
    atomic_store_explicit(state, TTI_P2P_SLOT_CLAIMED, memory_order_release);
    if (err == ESRCH)
        return false; /* it died: whoever looks after peers will say so */
    op->moved += err == 0 ? n : 0;
    if (err == 0 && op->moved < op->bytes)
        return true;
    tti_list_remove(&op->link);
    tti_p2p_release(box, op->source, op->slot);
    tti_p2p_finish(op, err == 0 ? TTI_END_OK : TTI_END_COPY, (uint64_t)err);
    return true;
}

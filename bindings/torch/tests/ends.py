# SPDX-License-Identifier: Apache-2.0
"""A program that ends without destroying its groups, in one of several ways, as two ranks: for test_ends.py, which
reads "rank status" lines. The ranks leave as the interpreter does, with everything still alive."""

import os
import signal
import sys
import threading

import torch
import torch.distributed as dist

import tutti_torch

SIZE = 2


def nothing(rank, t):
    pass


def group_kept(rank, t):
    group = dist.new_group([0, 1])
    dist.barrier(group=group)
    return group


def works_kept(rank, t):
    works = [dist.all_reduce(t, async_op=True) for _ in range(50)]
    for work in works:
        work.wait()
    return works


def works_dropped(rank, t):
    for _ in range(50):
        dist.all_reduce(torch.ones(100), async_op=True)
    dist.barrier()


def futures(rank, t):
    kept = [dist.all_reduce(torch.ones(10), async_op=True).get_future().then(lambda f: f.value())
            for _ in range(50)]
    dist.barrier()
    return kept


def receive(rank, t):
    return dist.irecv(t, src=1 - rank)


def thread(rank, t):
    threading.Thread(target=lambda: [dist.barrier() for _ in range(50)]).start()


def exit_function(rank, t):
    dist.barrier()
    sys.exit(0)


def shared_memory(rank, t):
    kept = tutti_torch.empty(1000)
    kept.fill_(1)
    dist.all_reduce(kept)
    dist.destroy_process_group()
    kept += 1
    return kept


ENDINGS = (nothing, group_kept, works_kept, works_dropped, futures, receive, thread, exit_function, shared_memory)
kept = None


def main(place, how):
    """In the ranks it returns, so that the interpreter ends them."""
    global kept
    children = []
    for rank in range(SIZE):
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            dist.init_process_group("tutti", store=dist.FileStore(place, SIZE), rank=rank, world_size=SIZE)
            t = torch.ones(1000)
            dist.all_reduce(t, async_op=True).get_future().wait()
            kept = how(rank, t)
            return True
        children.append(pid)
    for rank, pid in enumerate(children):
        print(how.__name__, rank, os.waitpid(pid, 0)[1], flush=True)
    return False


if __name__ == "__main__":
    torch.set_num_threads(1)
    for ending in ENDINGS:
        if main(os.path.join(sys.argv[1], ending.__name__), ending):
            break

# SPDX-License-Identifier: Apache-2.0
"""Threads, futures, callbacks and the interpreter's lock; and that nothing grows."""

import gc
import socket
import threading
import time
import unittest

import torch
import torch.distributed as dist

from ranks import descriptors, expect, join, raises, resident, run, same, seconds, threads

MB = 1 << 20
SPAN = 40.0  # seconds: fewer operations on a machine that is too busy


def two_groups(rank, size):
    groups = [dist.new_group(), dist.new_group()]
    failures = []

    def work(k):
        try:
            for i in range(300):
                t = torch.full((100,), float(i + k))
                if i % 2:
                    dist.all_reduce(t, group=groups[k])
                else:
                    dist.all_reduce(t, group=groups[k], async_op=True).wait()
                expect(t[0].item() == size * (i + k), t[0], i, k)
        except BaseException as e:
            failures.append(repr(e))

    both = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for t in both:
        t.start()
    for t in both:
        t.join()
    expect(not failures, failures)


def out_of_order(rank, size):
    ts = [torch.full((50 + i,), float(i)) for i in range(100)]
    works = [dist.all_reduce(t, async_op=True) for t in ts]
    for i in reversed(range(100)):
        works[i].wait()
        expect(ts[i][0].item() == size * i)
    works = [dist.all_reduce(torch.ones(8), async_op=True) for _ in range(100)]
    del works  # nobody waits for them
    t = torch.ones(1)
    dist.all_reduce(t)
    expect(t.item() == size)


def callbacks(rank, size):
    """A callback that issues other collectives and waits for them, as PowerSGD does."""
    def second(f):
        t = f.value()[0] / size
        dist.all_reduce(t)
        return dist.all_reduce(t.clone(), async_op=True).get_future().wait()[0]

    for _ in range(20):
        f = dist.all_reduce(torch.ones(10), async_op=True).get_future().then(second)
        same(f.wait(), torch.full((10,), float(size * size)))
    work = dist.all_reduce(torch.ones(4), async_op=True)
    f = work.get_future()
    work.wait()
    expect(f.done())
    same(f.value()[0], torch.full((4,), float(size)))
    f = work.get_future()
    expect(f.done())
    bad = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(lambda f: 1 // 0)
    with raises(Exception, "division"):
        bad.wait()
    nested = dist.all_reduce(torch.ones(4), async_op=True)
    f = nested.get_future().then(lambda f: nested.wait() and nested.is_completed())
    expect(f.wait() is True)
    f = dist.barrier(async_op=True).get_future()
    f.wait()


def lock_is_free(rank, size):
    """While this thread waits, another one computes."""
    for wait in (lambda: dist.all_reduce(torch.ones(4)), lambda: dist.barrier(async_op=True).wait(),
                 lambda: dist.recv(torch.ones(4), src=1) if rank == 0 else dist.send(torch.ones(4), dst=0)):
        dist.barrier()
        if rank == 1:
            time.sleep(0.3)
            wait()
            continue
        ticks, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                ticks[0] += 1

        other = threading.Thread(target=count)
        other.start()
        before = ticks[0]
        wait()
        counted = ticks[0] - before
        stop.set()
        other.join()
        expect(counted > 1000, counted)


def from_other_threads(rank, size):
    """Works are waited for, asked and dropped by threads that did not start them."""
    works = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(20)]
    seen = []

    def use(work):
        while not work.is_completed():
            pass
        work.wait()
        seen.append(work.is_success())

    all_threads = [threading.Thread(target=use, args=(w,)) for w in works]
    del works
    for t in all_threads:
        t.start()
    for t in all_threads:
        t.join()
    expect(seen == [True] * 20)


def go_on(until):
    """Whether all ranks have time left."""
    t = torch.tensor([1.0 if time.monotonic() < until else 0.0])
    dist.all_reduce(t, op=dist.ReduceOp.MIN)
    return t.item() > 0


def measure(some, n_first, n_then, step):
    """Calls some(step) for n_first operations, then for n_then or as many as there is time for.
    [before the latter, after each quarter of the time or of them], and how many there were."""
    def now():
        gc.collect()
        return resident()[0], threads(), descriptors()

    for _ in range(0, n_first, step):
        some(step)
    samples, n = [now()], 0
    for part in range(1, 5):
        until = time.monotonic() + SPAN / 4
        while n < n_then * part // 4 and go_on(until):
            some(step)
            n += step
        samples.append(now())
    return samples, n_first + n


def flat(samples, n, first, then):
    """At most `first` bytes in the first half, when pools still fill, and `then` in the second."""
    half = len(samples) // 2
    expect(samples[half][0] - samples[0][0] < first, "first half", samples, n)
    # What grows for ever grows in both quarters of the second half; works that pile up on a busy machine in one.
    grown = [b[0] - a[0] for a, b in zip(samples[half:], samples[half + 1:])]
    expect(min(grown) * len(grown) < then, "second half", samples, n)
    # The pool of callbacks has a thread for each that is held up at once, more of them on a busy machine.
    expect(samples[half][1] <= samples[0][1] + 8 and samples[-1][1] <= samples[half][1] + 2, "threads", samples, n)
    expect(samples[-1][2] <= samples[0][2], "descriptors", samples, n)
    return samples, n


def many_operations(rank, size):
    t = torch.ones(16)

    def some(n):
        t.fill_(1)
        for i in range(n):
            kind = i % 10
            if kind == 0:
                dist.all_reduce(t, async_op=True).wait()
            elif kind == 1:
                dist.all_reduce(t, async_op=True).get_future().then(lambda f: f.value()).wait()
            elif kind == 5:
                dist.all_reduce(t, async_op=True).get_future()  # nobody waits for it
            elif kind == 2:
                dist.broadcast(t, src=0)
            elif kind == 3:
                dist.send(t, dst=1) if rank == 0 else dist.recv(t, src=0)
            elif kind == 4:
                dist.barrier()
            else:
                dist.all_reduce(t)

    return flat(*measure(some, 5000, 95000, 100), 6 * MB, 3 * MB // 2)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def many_groups(rank, size, port):
    """1,000 groups made, used and destroyed."""
    store = dist.TCPStore("127.0.0.1", port, size, is_master=rank == 0, timeout=seconds(30))
    join("", rank, size, store=store)

    def some(n):
        for i in range(n):
            group = dist.new_group()
            t = torch.ones(4)
            if i % 2:
                dist.all_reduce(t, group=group)
            else:
                dist.all_reduce(t, group=group, async_op=True).wait()
            expect(t[0].item() == size)
            dist.destroy_process_group(group)

    samples, n = measure(some, 20, 980, 10)  # PyTorch keeps 3 to 6 KB for each, over Gloo too
    return flat(samples, n, 2 * MB + n * 4096, n * 4096)


class Threads(unittest.TestCase):
    def test_two_groups(self): run(2, two_groups)
    def test_out_of_order(self): run(2, out_of_order)
    def test_callbacks(self): run(2, callbacks)
    def test_lock_is_free(self): run(2, lock_is_free)
    def test_from_other_threads(self): run(2, from_other_threads)


class Flat(unittest.TestCase):
    def test_many_operations(self):
        samples, n = run(2, many_operations, limit=150)[0]
        print(f"{n} operations: (bytes, threads, descriptors)", *samples)

    def test_many_groups(self):
        samples, n = run(2, many_groups, free_port(), limit=150, group=False)[0]
        print(f"{n} groups: (bytes, threads, descriptors)", *samples)


if __name__ == "__main__":
    unittest.main()

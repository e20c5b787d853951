# SPDX-License-Identifier: Apache-2.0
"""A rank is killed in the middle of an operation: the others say who, at once, and go on without it. One that is stopped
changes nothing in the tensors of those who went on."""

import os
import random
import signal
import time
import unittest

import torch
import torch.distributed as dist

import tutti_torch
from ranks import Died, expect, raises, run, scratch, seconds, store_at

N = 4096
SOON = 1.0  # seconds from the death to the exception
ATTEMPTS = 3  # the best of them counts: the machine may be busy with other things


def rows(size):
    return [torch.ones(N) for _ in range(size)]


# name: (what the message calls it, the operation of all ranks but the victim)
OPERATIONS = {
    "all_reduce": ("all_reduce", lambda r, n, v: dist.all_reduce(torch.ones(N))),
    "all_reduce_async": ("all_reduce", lambda r, n, v: dist.all_reduce(torch.ones(N), async_op=True).wait()),
    "coalesced": ("all_reduce", lambda r, n, v: dist.all_reduce_coalesced([torch.ones(N), torch.ones(3)])),
    "sparse": ("all_reduce", lambda r, n, v: dist.all_reduce(torch.eye(8).to_sparse())),
    "broadcast": ("broadcast", lambda r, n, v: dist.broadcast(torch.ones(N), src=v)),
    "reduce": ("reduce", lambda r, n, v: dist.reduce(torch.ones(N), dst=r)),
    "all_gather": ("all_gather", lambda r, n, v: dist.all_gather(rows(n), torch.ones(N))),
    "all_gather_single": ("all_gather", lambda r, n, v: dist.all_gather_into_tensor(torch.ones(n * N), torch.ones(N))),
    "gather": ("gather", lambda r, n, v: dist.gather(torch.ones(N), rows(n), dst=r)),
    "scatter": ("scatter", lambda r, n, v: dist.scatter(torch.ones(N), None, src=v)),
    "reduce_scatter": ("reduce_scatter", lambda r, n, v: dist.reduce_scatter(torch.ones(N), rows(n))),
    "all_to_all": ("all_to_all", lambda r, n, v: dist.all_to_all(rows(n), rows(n))),
    "all_to_all_single": ("all_to_all", lambda r, n, v: dist.all_to_all_single(torch.ones(n * N), torch.ones(n * N))),
    "barrier": ("barrier", lambda r, n, v: dist.barrier()),
    "monitored_barrier": ("barrier", lambda r, n, v: dist.monitored_barrier()),
    "recv": ("recv", lambda r, n, v: dist.recv(torch.ones(N), src=v)),
    "send": ("send", lambda r, n, v: dist.send(torch.ones(1 << 22), dst=v)),
    "recv_any": ("recv", lambda r, n, v: dist.recv(torch.ones(N))),
    "large": ("all_reduce", lambda r, n, v: dist.all_reduce(torch.ones(1 << 22))),
}


def killed(rank, size, name, place):
    """Rank 1 dies while rank 0 is in the operation; gives the seconds until its exception."""
    victim = size - 1
    word, operation = OPERATIONS[name]
    dist.barrier()
    if rank == victim:
        if name == "large":  # in the middle: it takes part until it dies
            pid = os.fork()
            if pid == 0:
                time.sleep(0.05)
                os.kill(os.getppid(), signal.SIGKILL)
                os._exit(0)
            while True:
                operation(rank, size, victim)
        time.sleep(0.1)
        with open(place, "w") as f:
            f.write(str(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL)
    who = f"rank {victim}"
    with raises(dist.DistBackendError, who, "group 0", word) as e:
        while True:
            operation(rank, size, victim)
    noticed = time.monotonic()
    dist.destroy_process_group()
    expect(not dist.is_initialized())
    left = size - 1
    if left > 1:  # go on without it
        dist.init_process_group("tutti", store=store_at(place + ".next", left), rank=rank, world_size=left,
                                timeout=seconds(20))
        t = torch.full((3,), rank + 1.0)
        dist.all_reduce(t)
        expect(t[0].item() == sum(range(1, left + 1)), t)
    if name == "large":
        return 0.0, e.words
    with open(place) as f:
        return noticed - float(f.read()), e.words


def futures(rank, size):
    """Errors reach those who asked for futures, and then-callbacks."""
    dist.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(torch.ones(N), async_op=True)
    future = work.get_future()
    seen = []
    chained = future.then(lambda f: seen.append("called") or f.value())
    for f in (future, chained):
        with raises(Exception, f"rank {size - 1}"):
            f.wait()
    expect(seen == ["called"], seen)
    with raises(dist.DistBackendError, f"rank {size - 1}"):
        work.wait()
    expect(work.is_completed() and not work.is_success())
    expect(f"rank {size - 1}" in str(work.exception()), work.exception())


def asked(rank, size):
    """The group knows it has an error, and later operations fail at once."""
    backend = tutti_torch.backend_of()
    dist.barrier()
    expect(backend.get_error() == torch._C._distributed_c10d.ErrorType.SUCCESS, backend.get_error())
    dist.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    until = time.monotonic() + 5
    while backend.get_error() == torch._C._distributed_c10d.ErrorType.SUCCESS and time.monotonic() < until:
        pass
    expect(backend.get_error() == torch._C._distributed_c10d.ErrorType.REMOTE_ERROR, backend.get_error())
    for _ in range(3):
        with raises(dist.DistBackendError, f"rank {size - 1}"):
            dist.all_reduce(torch.ones(2))


def in_subgroup(rank, size):
    """A message names the global rank, not the one in the group; groups without the dead rank work on."""
    pair = dist.new_group([1, 3])
    others = dist.new_group([0, 1, 2])
    dist.barrier()
    if rank == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1:
        with raises(dist.DistBackendError, "rank 3"):
            dist.all_reduce(torch.ones(N), group=pair)
    for _ in range(20):
        t = torch.ones(N)
        dist.all_reduce(t, group=others)
        expect(t[0].item() == 3, t)


def exits(rank, size, how):
    """A rank that leaves without a word is noticed as well, whatever it leaves behind."""
    dist.barrier()
    if rank == size - 1:
        if how == "pending":
            keep = dist.all_reduce(torch.ones(N), async_op=True), dist.irecv(torch.ones(3), src=0)
            del keep
        if how == "callback":
            dist.all_reduce(torch.ones(N), async_op=True).get_future().then(lambda f: time.sleep(60))
        os._exit(0)
    with raises(dist.DistBackendError, f"rank {size - 1}"):
        while True:
            dist.all_reduce(torch.ones(N))


def stop_while_reducing(pid, inside):
    """A child of the first rank stops the victim at some moment after it has begun to reduce."""
    moment = random.random() * 0.05
    if os.fork() == 0:
        while not os.path.exists(inside):
            time.sleep(0.001)
        time.sleep(moment)
        os.kill(pid, signal.SIGSTOP)
        os._exit(0)


def stopped(rank, size, folder, shared):
    """The last rank is stopped inside an operation for longer than the time-out of the others, who then have something
    else in their tensors. It goes on where it was: what it writes must not arrive there. Gives the wrong elements."""
    victim = size - 1
    group = dist.distributed_c10d._get_default_group()
    store = dist.distributed_c10d._get_default_store()
    n = 1 << 20
    t = tutti_torch.empty(n) if shared else torch.empty(n)
    opts = dist.AllreduceOptions()
    opts.timeout = seconds(60 if rank == victim else 0.5)
    if rank == victim:
        store.set("pid", str(os.getpid()))
    inside = os.path.join(folder, "inside")
    if rank == 0:
        stop_while_reducing(int(store.get("pid")), inside)
    dist.barrier()
    if rank == victim:
        open(inside, "w").close()
    with raises(dist.DistBackendError):
        while True:
            t.fill_(1)
            group.allreduce([t], opts).wait()
            expect(bool((t == size).all()), "a sum that was told to be right is wrong")
    t.fill_(77)
    store.set(f"left{rank}", "1")
    if rank == 0:
        store.wait([f"left{r}" for r in range(size - 1)])
        os.wait()  # it has been stopped
        os.kill(int(store.get("pid")), signal.SIGCONT)
    store.wait([f"left{victim}"])  # the last rank has come and gone
    wrong = int((t != 77).sum())
    store.set(f"seen{rank}", "1")
    store.wait([f"seen{r}" for r in range(size)])
    return wrong


class Stopped(unittest.TestCase):
    def test_its_late_writes_do_not_arrive(self):
        random.seed(os.environ.get("TUTTI_TEST_SEED", "5"))
        for shared in (True,) * 6 + (False,):
            with self.subTest(shared=shared), scratch() as folder:
                self.assertEqual(run(3, stopped, folder, shared), [0, 0, 0])


class Killed(unittest.TestCase):
    def one(self, name):
        best, words = [], ""
        for attempt in range(ATTEMPTS):
            with scratch() as folder:
                size = 2 if name in ("reduce", "gather", "recv_any") else 3
                results = run(size, killed, name, os.path.join(folder, "time"), may_die=(size - 1,))
            self.assertIsInstance(results[-1], Died)
            self.assertEqual(results[-1].signal, signal.SIGKILL)
            best.append(max(spent for spent, _ in results[:-1]))
            words = results[0][1]
            if best[-1] < SOON:
                break
        self.assertLess(min(best), SOON, f"{name}: {best} s, {words}")

    def test_futures(self):
        run(3, futures, may_die=(2,))

    def test_asked(self):
        run(3, asked, may_die=(2,))

    def test_in_subgroup(self):
        run(4, in_subgroup, may_die=(3,))

    def test_exits(self):
        for how in ("_exit", "pending", "callback"):
            with self.subTest(how=how):
                run(2, exits, how, may_die=(1,))


for _name in OPERATIONS:
    setattr(Killed, f"test_{_name}", lambda self, name=_name: self.one(name))


if __name__ == "__main__":
    unittest.main()

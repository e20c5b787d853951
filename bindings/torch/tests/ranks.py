# SPDX-License-Identifier: Apache-2.0
"""Runs a function on several ranks, which are forked from this process, and never hangs.

    def body(rank, size):
        t = torch.ones(3)
        dist.all_reduce(t)
        return t.sum().item()

    run(2, body)        # [6.0, 6.0]

A rank that raises makes run() raise RankFailed with the rank's traceback. Ranks have a time limit: they print
where each thread is just before it passes, and are killed when it does.
"""

import ctypes
import datetime
import faulthandler
import os
import pickle
import select
import signal
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed as dist

import tutti_torch

LIMIT = float(os.environ.get("TUTTI_TEST_LIMIT", "60"))  # seconds for one run()
PR_SET_PDEATHSIG = 1

torch.set_num_threads(1)  # the ranks are forked: OpenMP must not have threads here


class RankFailed(AssertionError):
    pass


class Died:
    """What run() gives for a rank that ended without a result."""

    def __init__(self, status):
        self.signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        self.code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1

    def __repr__(self):
        return f"Died(signal={self.signal}, code={self.code})"


def seconds(s):
    return datetime.timedelta(seconds=s)


def store_at(place, size):
    """A store in a file: it needs no thread of the process that forks, and outlives every rank."""
    return dist.FileStore(place, size)


def join(place, rank, size, backend="tutti", timeout=20.0, store=None, **more):
    store = store or store_at(place, size)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=seconds(timeout), **more)


def _child(fd, fn, rank, size, place, limit, group, args):
    faulthandler.dump_traceback_later(max(limit - 2, 1), exit=False)
    try:
        if group is not None:
            join(place, rank, size, **group)
        result = ("ok", fn(rank, size, *args))
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException:
        result = ("failed", traceback.format_exc())
    with os.fdopen(fd, "wb") as pipe:
        pickle.dump(result, pipe)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _fork(fn, rank, size, place, limit, group, args):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        _child(w, fn, rank, size, place, limit, group, args)
    os.close(w)
    return pid, r


def _collect(children, limit):
    """{rank: bytes} of what they wrote; those missing ran out of time."""
    said = {r: b"" for _, r in children}
    open_fds = set(said)
    until = time.monotonic() + limit
    while open_fds and time.monotonic() < until:
        ready, _, _ = select.select(list(open_fds), [], [], max(until - time.monotonic(), 0))
        for fd in ready:
            part = os.read(fd, 1 << 16)
            said[fd] += part
            if not part:
                open_fds.discard(fd)
    return {rank: said[fd] for rank, (_, fd) in enumerate(children) if fd not in open_fds}


def run(size, fn, *args, limit=None, group=None, may_die=()):
    """[fn(rank, size, *args) of each rank]. `group`: arguments of join(), False: no group is made.
    may_die: ranks that may end without a result; they give a Died."""
    limit = limit or LIMIT
    group = None if group is False else dict(group or {})
    sys.stdout.flush()
    sys.stderr.flush()
    with scratch() as folder:
        place = os.path.join(folder, "store")
        children = [_fork(fn, rank, size, place, limit, group, args) for rank in range(size)]
        said = _collect(children, limit)
        return _results(children, said, limit, may_die)


def _results(children, said, limit, may_die):
    results, failures = [], []
    for rank, (pid, fd) in enumerate(children):
        os.close(fd)
        if rank not in said:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if rank not in said:
            failures.append(f"rank {rank} was not done after {limit:g} s")
        elif not said[rank]:
            results.append(Died(status))
            if rank not in may_die:
                failures.append(f"rank {rank} ended without a result: {results[-1]}")
        else:
            kind, value = pickle.loads(said[rank])
            results.append(value)
            if kind != "ok":
                failures.append(f"rank {rank}:\n{value}")
    if failures:
        raise RankFailed("\n".join(failures))
    return results


def threads():
    return len(os.listdir("/proc/self/task"))


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def resident():
    """Bytes of memory of this process alone and of what it shares: (private, all)."""
    values = {}
    with open("/proc/self/smaps_rollup") as f:
        for line in f:
            words = line.split()
            if len(words) == 3 and words[2] == "kB":
                values[words[0].rstrip(":")] = int(words[1]) * 1024
    return values["Private_Clean"] + values["Private_Dirty"], values["Rss"]


def expect(condition, *words):
    """assert, for ranks: says what was found."""
    if not condition:
        raise AssertionError(" ".join(str(w) for w in words) or "expectation failed")


def same(got, want, *words):
    expect(torch.equal(got, want), *words, "got", got, "want", want)


def close(got, want, *words):
    expect(torch.allclose(got, want), *words, "got", got, "want", want)


class raises:
    """with raises(DistBackendError, "rank 2") as e: ...; e.words afterwards."""

    def __init__(self, kind, *parts):
        self.kind, self.parts, self.words = kind, parts, ""

    def __enter__(self):
        self.begin = time.monotonic()
        return self

    def __exit__(self, kind, value, _):
        self.seconds = time.monotonic() - self.begin
        if kind is None:
            raise AssertionError(f"expected {self.kind.__name__}, nothing was raised")
        if not issubclass(kind, self.kind):
            return False
        self.words = str(value)
        for part in self.parts:
            expect(part in self.words, f"expected {part!r} in the words of {kind.__name__}: {self.words}")
        return True


def scratch():
    return tempfile.TemporaryDirectory(prefix="tutti-torch-")


def version():
    return tutti_torch.__version__

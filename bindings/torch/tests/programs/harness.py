# SPDX-License-Identifier: Apache-2.0
"""Runs a program of this folder on ranks that are forked from here, or on the ranks of torchrun.

A program is a module with a function `program(rank)`; see README.md.
"""

import argparse
import multiprocessing
import multiprocessing.connection
import os
import shutil
import socket
import sys
import tempfile
import time
import traceback

import torch
import torch._dynamo  # what DDP imports at its first use: once here, not in every rank
import torch.distributed as dist

import tutti_torch  # noqa: F401

LIMIT = 120  # seconds for one run


class Rank:
    """What a program is given."""

    def __init__(self, rank, size, backend, folder, seed=17):
        self.rank, self.size, self.backend, self.folder = rank, size, backend, folder
        self.seed = seed
        self.lines = []

    def say(self, text):
        """A line of the program's output; those of rank 0 are compared."""
        self.lines.append(text)

    def say_losses(self, losses):
        """The mean over ranks of each, which all ranks must call."""
        mean = torch.tensor([float(l) for l in losses], dtype=torch.float64)
        dist.all_reduce(mean)
        self.say("losses " + " ".join(f"{l:.6f}" for l in mean / self.size))

    def data(self, *names):
        """A generator of random numbers that is the same for the same names on all ranks."""
        return torch.Generator().manual_seed(self.seed * 1000003 + sum((i + 1) * n for i, n in enumerate(names)))


def runs_of(module):
    """Tuples of sizes: the runs of a tuple follow each other and share a folder."""
    return getattr(module, "RUNS", ((2,), (4,)))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def execute(module, rank):
    torch.set_num_threads(1)
    torch.manual_seed(rank.seed)
    try:
        module.program(rank)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    return rank.lines


def forked(module, rank, store, port, pipe):
    os.environ.update(RANK=str(rank.rank), LOCAL_RANK=str(rank.rank), WORLD_SIZE=str(rank.size),
                      LOCAL_WORLD_SIZE=str(rank.size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    try:
        if not getattr(module, "OWN_INIT", False):
            dist.init_process_group(rank.backend, store=dist.FileStore(store, rank.size), rank=rank.rank,
                                    world_size=rank.size)
        pipe.send((True, execute(module, rank)))
    except BaseException:
        pipe.send((False, traceback.format_exc()))
    pipe.close()
    sys.stdout.flush()
    os._exit(0)  # nothing of the parent's is to be torn down here


def collect(pipes, end):
    """Lines of all ranks; the first failure ends it."""
    results = {}
    while len(results) < len(pipes):
        left = [p for r, p in enumerate(pipes) if r not in results]
        for ready in multiprocessing.connection.wait(left, max(0, end - time.monotonic())) or [None]:
            if ready is None:
                missing = [r for r in range(len(pipes)) if r not in results]
                raise RuntimeError(f"no result of ranks {missing} within {LIMIT} s")
            rank = pipes.index(ready)
            try:
                ok, value = ready.recv()
            except EOFError:
                ok, value = False, "ended without a result"
            if not ok:
                raise RuntimeError(f"rank {rank}: {value}")
            results[rank] = value
    return [results[r] for r in range(len(pipes))]


def run(module, backend, sizes):
    """The lines of rank 0 of the runs of `sizes`, one after the other."""
    fork = multiprocessing.get_context("fork")
    folder = tempfile.mkdtemp(prefix="tutti-programs-")
    lines = []
    try:
        for number, size in enumerate(sizes):
            store, port, ends, ranks = os.path.join(folder, f"store{number}"), free_port(), [], []
            os.makedirs(os.path.join(folder, "files"), exist_ok=True)
            for r in range(size):
                receive, send = fork.Pipe(duplex=False)
                rank = Rank(r, size, backend, os.path.join(folder, "files"))
                ranks.append(fork.Process(target=forked, args=(module, rank, store, port, send)))
                ranks[-1].start()
                send.close()
                ends.append(receive)
            try:
                lines += collect(ends, time.monotonic() + LIMIT)[0]
            finally:
                for p in ranks:
                    p.join(5)
                    if p.is_alive():
                        p.kill()
                        p.join()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return lines


def main(module):
    """`python PROGRAM --backend tutti --ranks 4`, or the same under torchrun without --ranks."""
    parser = argparse.ArgumentParser(description=module.__doc__)
    parser.add_argument("--backend", default="tutti", choices=("tutti", "gloo"))
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    if "RANK" not in os.environ:
        print("\n".join(run(module, args.backend, (args.ranks,))))
        return
    if not getattr(module, "OWN_INIT", False):
        dist.init_process_group(args.backend)
    size, mine = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    folder = os.path.join(tempfile.gettempdir(), f"tutti-programs-{os.environ['MASTER_PORT']}")
    os.makedirs(folder, exist_ok=True)
    lines = execute(module, Rank(mine, size, args.backend, folder))
    if mine == 0:
        print("\n".join(lines))

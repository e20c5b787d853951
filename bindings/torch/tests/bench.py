#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures PyTorch's collectives and DDP over Tutti against Gloo, in the same program and in turns.

usage: bench.py OUT_DIR

Every rank has a group of each backend. A turn is some calls of one operation at one size over one backend; all
have their turn before the next round, so that whatever else the machine does hits all. Figures are medians
over rounds; a turn's time is that of its slowest rank. `shared` is Tutti with tensors of tutti_torch.empty,
for DDP with buckets in shared memory (which is what users get). The environment chooses less: BENCH_ROUNDS,
BENCH_MAX (greatest size), BENCH_OPS, BENCH_RANKS, BENCH_BUDGET (milliseconds per turn), BENCH_STEPS (0: no DDP),
TUTTI (the command: it gives the time of the C library alone). Writes torch.tsv and torch.svg.
"""

import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "programs"), os.path.join(HERE, "..", "..", "..", "tests", "bench")]

import coll_compare  # noqa: E402
import harness  # noqa: E402
import models  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import tutti_torch  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

SIZES = "8 512 4K 16K 64K 256K 1M 4M 16M 64M".split()
OPS = ("all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single",
       "broadcast", "barrier")
COLOURS = {"tutti": "#cc0000", "shared": "#f57900", "gloo": "#75507b"}
SMALL, LARGE = 64 << 10, 1 << 20
get = os.environ.get
ROUNDS = int(get("BENCH_ROUNDS", "9"))
BUDGET = int(get("BENCH_BUDGET", "15")) / 1000
STEPS = int(get("BENCH_STEPS", "30"))


def sizes():
    most = coll_compare.bytes_of(get("BENCH_MAX", "64M"))
    return [s for s in map(coll_compare.bytes_of, SIZES) if s <= most]


# ---- operations ---------------------------------------------------------------------------------------


def make(op, nbytes, group, empty):
    """A function that does it once, and one that says whether the result is right. The size is that of
    the whole: what each rank has of it in the end, or had at first."""
    n, rank = dist.get_world_size(), dist.get_rank()
    count = max(nbytes // 4, n) // n * n
    if op == "barrier":
        return (lambda: dist.barrier(group)), lambda: True
    whole, part = empty(count), empty(count // n)
    total = n * (n + 1) / 2
    if op == "all_reduce":
        return (lambda: dist.all_reduce(whole, group=group)), refilled(whole, rank + 1.0, lambda: whole, total, group)
    if op == "broadcast":
        return (lambda: dist.broadcast(whole, 0, group=group)), refilled(whole, rank + 1.0, lambda: whole, 1.0, group)
    part.fill_(rank + 1.0)
    whole.fill_(rank + 1.0)
    if op == "all_gather":
        parts = [empty(count // n) for _ in range(n)]
        return (lambda: dist.all_gather(parts, part, group=group)), lambda: steps_up(torch.stack(parts), n)
    if op == "all_gather_into_tensor":
        return (lambda: dist.all_gather_into_tensor(whole, part, group=group)), lambda: steps_up(whole.view(n, -1), n)
    if op == "reduce_scatter_tensor":
        return (lambda: dist.reduce_scatter_tensor(part, whole, group=group)), lambda: bool((part == total).all())
    other = empty(count)
    return (lambda: dist.all_to_all_single(other, whole, group=group)), lambda: steps_up(other.view(n, -1), n)


def refilled(tensor, value, result, wanted, group):
    """Sums grow without end while they are timed: the check fills anew and calls once more."""
    def check():
        tensor.fill_(value)
        (dist.broadcast(tensor, 0, group=group) if wanted == 1.0 else dist.all_reduce(tensor, group=group))
        right = bool((result() == wanted).all())
        tensor.zero_()
        return right
    return check


def steps_up(rows, n):
    return all(bool((rows[i] == i + 1.0).all()) for i in range(n))


# ---- timing -------------------------------------------------------------------------------------------


def turn(call, count, quick):
    """Seconds per call, of the slowest rank."""
    dist.barrier(quick)
    start = time.perf_counter()
    for _ in range(count):
        call()
    took = torch.tensor([(time.perf_counter() - start) / count], dtype=torch.float64)
    dist.all_reduce(took, dist.ReduceOp.MAX, group=quick)
    return took.item()


def measure_case(op, nbytes, groups):
    """name -> [seconds of each round]; an operation that a backend has not is left out."""
    calls, quick = {}, groups["tutti"]
    for name, group in groups.items():
        empty = (lambda n: tutti_torch.empty(n, group=quick)) if name == "shared" else torch.empty
        if name == "shared" and (op == "barrier" or nbytes < SMALL):
            continue
        try:
            call, check = make(op, nbytes, group, empty)
            call()
        except (RuntimeError, NotImplementedError, ValueError) as error:
            if name != "gloo":
                raise
            return None, str(error).splitlines()[0]
        if not check():
            raise RuntimeError(f"{op} of {nbytes} bytes over {name}: wrong result")
        took = min(turn(call, 1, quick) for _ in range(3))
        calls[name] = call, max(1, min(2000, int(BUDGET / took)))
    found = {name: [] for name in calls}
    for number in range(ROUNDS):
        names = list(calls)
        for name in names[number % len(names):] + names[:number % len(names)]:
            found[name].append(turn(*calls[name], quick))
    return found, None


def measure_shim(rank):
    """One rank: nothing is to be sent, so this is what wrapping costs, PyTorch's part included."""
    group = [dist.new_group([r], backend="tutti") for r in range(rank.size)][rank.rank]
    t, backend, options = torch.ones(2), tutti_torch.backend_of(group), dist.AllreduceOptions()
    options.asyncOp = False
    ways = {"backend.allreduce": lambda: backend.allreduce([t], options).wait(),
            "dist.all_reduce": lambda: dist.all_reduce(t, group=group)}
    for name, call in ways.items():
        times = []
        for _ in range(ROUNDS * 3):
            start = time.perf_counter()
            for _ in range(500):
                call()
            times.append((time.perf_counter() - start) / 500)
        if rank.rank == 0:
            rank.say(f"shim\t{name}\t{statistics.median(times) * 1e6}")
        dist.barrier()


# ---- training -----------------------------------------------------------------------------------------


def gpt(rank):
    model = models.GPT(layers=4, width=256, heads=8, words=512, context=64)
    batch = models.text(2, rank.data(rank.rank), context=64, words=512)
    return model, lambda m: m(*batch)


def mlp(rank):
    x = torch.randn(16, 784, generator=rank.data(rank.rank))
    return models.mlp(784, 1024, 1024, 1024, 10), lambda m: m(x).square().mean()


def step(model, loss_of):
    model.zero_grad()
    loss_of(model).backward()


def measure_training(rank, name, build, groups):
    """A step is forward, backward and the reduction: the optimizer does not depend on the backend."""
    ways = {}
    for way, group in groups.items():
        torch.manual_seed(rank.seed)
        model, loss_of = build(rank)
        os.environ["DDP_DISABLE_COMM_MEM"] = "0" if way == "shared" else "1"
        model = DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)
        for _ in range(3):  # the buckets are made anew after the first
            step(model, loss_of)
        ways[way] = lambda model=model, loss_of=loss_of: step(model, loss_of)
    alone, loss_of = build(rank)
    ways["alone"] = lambda: step(alone, loss_of)
    found = {way: [] for way in ways}
    for number in range(STEPS):
        names = list(ways)
        for way in names[number % len(names):] + names[:number % len(names)]:
            found[way].append(turn(ways[way], 1, groups["tutti"]))
    if rank.rank == 0:
        nbytes = sum(p.numel() * 4 for p in alone.parameters())
        for way, times in found.items():
            rank.say(f"train\t{name} ({nbytes / 1e6:.0f} MB)\t{way}\t{statistics.median(times) * 1e6}")


def program(rank):
    """The ranks' part; rank 0 says what was found."""
    tutti = dist.new_group(backend="tutti")
    groups = {"gloo": dist.group.WORLD, "tutti": tutti, "shared": tutti}
    for op in get("BENCH_OPS", ",".join(OPS)).split(","):
        for nbytes in [0] if op == "barrier" else sizes():
            found, lacks = measure_case(op, nbytes, groups)
            if lacks is not None:
                rank.say(f"lacks\t{op}\t{lacks}")
                break
            for name, times in found.items():
                rank.say(f"coll\t{op}\t{nbytes}\t{name}\t{statistics.median(times) * 1e6}")
            if rank.rank == 0:
                print(f"{op:<24}{rank.size} ranks {coll_compare.words_of(nbytes):>8}  " + "  ".join(
                    f"{name} {statistics.median(times) * 1e6:.1f}" for name, times in found.items()), flush=True)
    measure_shim(rank)
    if STEPS > 0:
        for name, build in (("GPT", gpt), ("MLP", mlp)):
            measure_training(rank, name, build, groups)


# ---- what came out ------------------------------------------------------------------------------------


def c_library():
    """Microseconds of the C library's all_reduce of one rank; None without the command."""
    try:
        text = subprocess.run([os.environ["TUTTI"], "bench", "all_reduce", "-n", "1", "--sizes", "8", "--tsv",
                               "--in-place"], capture_output=True, text=True, check=True).stdout
    except (KeyError, OSError, subprocess.CalledProcessError):
        return None
    head, row = (line.split("\t") for line in text.splitlines()[:2])
    return float(row[head.index("time_us")])


def rows_of(n, lines, plots):
    """(case, metric, tutti's value, peer, its value, ratio) as in the other tables."""
    rows, colls, trains, alone = [], {}, {}, c_library()
    for kind, *words in (line.split("\t") for line in lines):
        if kind == "coll":
            op, nbytes, name, us = words
            colls.setdefault((op, int(nbytes)), {})[name] = float(us)
            plots.setdefault((op, n), {})[name, int(nbytes)] = [(float(us), 0, 0)]
        elif kind == "train":
            trains.setdefault(words[0], {})[words[1]] = float(words[2])
        elif kind == "shim" and alone is not None:
            rows.append((f"{words[0]}, 1 rank, with {n}", "us", float(words[1]), "the C library", alone,
                         alone / float(words[1])))
        else:
            print(f"{n} ranks: {' '.join(words)}")
    for (op, nbytes), us in colls.items():
        case = f"{op}, {n} ranks" + (f", {coll_compare.words_of(nbytes)}" if nbytes else "")
        rows.append((case, "us", us["tutti"], "gloo", us["gloo"], us["gloo"] / us["tutti"]))
        if "shared" in us:
            rows.append((case, "us, shared memory", us["shared"], "gloo", us["gloo"], us["gloo"] / us["shared"]))
    for name, us in trains.items():
        for metric, ours in (("DDP step us", "shared"), ("DDP step us, private buckets", "tutti")):
            for peer in ("gloo", "alone"):
                rows.append((f"{name}, {n} ranks", metric, us[ours], peer, us[peer], us[peer] / us[ours]))
    return rows


def judge(rows):
    plain = [r for r in rows if r[1] == "us" and r[3] == "gloo"]
    coll_compare.judge_floor("Gloo up to 64 KB", [r for r in plain if coll_compare.size_in(r[0]) <= SMALL], 20)
    coll_compare.judge_floor("Gloo from 1 MB", [r for r in plain if coll_compare.size_in(r[0]) >= LARGE], 2.5)
    for r in rows:
        if r[3] == "the C library":
            above = r[2] - r[4]
            limit = "" if r[0].startswith("dist.") else "ok     " if above < 8 else "MISSED "
            print(f"{limit or '       '}{r[0]}: {r[2]:.2f} us, {above:.2f} above the C library")
        elif r[1].startswith("DDP"):
            print(f"       {r[0]}, {r[1]}: {r[2]:.0f}, {r[3]} {r[4]:.0f}, ratio {r[5]:.2f}")


def main():
    out = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/bench")
    os.makedirs(out, exist_ok=True)
    harness.LIMIT, coll_compare.COLOURS = 3600, COLOURS
    rows, plots = [], {}
    for n in map(int, get("BENCH_RANKS", "2,4").split(",")):
        rows += rows_of(n, harness.run(sys.modules[__name__], "gloo", (n,)), plots)
        coll_compare.write_table(os.path.join(out, "torch.tsv"), rows)
    coll_compare.write_plot(os.path.join(out, "torch.svg"), plots)
    judge(rows)


if __name__ == "__main__":
    main()

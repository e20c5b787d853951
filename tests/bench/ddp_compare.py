#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures data-parallel training steps against PyTorch's DDP over Gloo, interleaved, and writes a table.

usage: ddp_compare.py TRAIN_PROGRAM TORCH_PYTHON OUT_DIR [--cases a,b] [--rounds N] [--ranks N] [--no-variants]

Every rank has one core and one thread. Sides take turns, a few steps each; only the side whose turn it is
computes. A step's time is the slowest rank's; figures are medians over all steps. "alone" is one
process with the same batch: its time over the ranks' time is the parallel efficiency. Cores that share
caches, memory or, as hyperthreads, themselves keep ranks from it that send nothing, too; the share of what
those reach is what communication costs.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

# Steps per turn and the efficiency that the project promises with 2 ranks.
CASES = {"mlp": (40, 0.85), "resnet18": (4, 0.95), "gpt": (2, 0.95)}
VARIANTS = ("comm", "overlap", "buckets", "views", "shared")
GAIN = 1.3  # of the ratio to PyTorch over that of one process


class Side:
    """The processes of one measurement: one, or a rank on each core."""

    def __init__(self, command, ranks, folder, variant=None):
        env = dict(os.environ, OMP_NUM_THREADS="1")
        path = tempfile.mktemp(dir=folder)
        self.times, self.ranks = [], []
        for r in range(ranks):
            extra = [str(r), str(ranks), path] + ([variant] if variant else []) if ranks > 1 else []
            self.ranks.append(subprocess.Popen(
                ["taskset", "-c", str(r % os.cpu_count())] + command + extra, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True, env=env))
        for p in self.ranks:
            line = p.stdout.readline()
            if line.strip() != "ready":
                sys.exit(f"{command[0]}: expected \"ready\", got {line!r}")

    def turn(self, steps, count=True):
        for p in self.ranks:
            p.stdin.write(f"{steps}\n")
            p.stdin.flush()
        times = [[float(t) for t in p.stdout.readline().split()] for p in self.ranks]
        if count:
            self.times += [max(step) for step in zip(*times)]

    def close(self):
        for p in self.ranks:
            p.stdin.close()
        for p in self.ranks:
            p.stdout.read()
            if p.wait() != 0:
                sys.exit("a rank ended with an error")
        self.median = statistics.median(self.times)


def measure(case, args, folder):
    steps, _ = CASES[case]
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "torch_train.py")
    ours, peer = [args.program, case, "1"], [args.python, script, case, "1"]
    sides = {
        "alone": Side(ours, 1, folder), "torch alone": Side(peer, 1, folder),
        "ddp": Side(ours, args.ranks, folder), "torch ddp": Side(peer, args.ranks, folder),
    }
    for variant in () if args.no_variants else VARIANTS:
        sides["without " + variant] = Side(ours, args.ranks, folder, variant)
    for side in sides.values():
        side.turn(max(3, steps // 4), count=False)
    for _ in range(args.rounds):
        for side in sides.values():
            side.turn(steps)
    for side in sides.values():
        side.close()
    return {name: side.median for name, side in sides.items()}


def rows_of(case, ms):
    ratio, single = ms["torch ddp"] / ms["ddp"], ms["torch alone"] / ms["alone"]
    rows = [("step ms", ms["ddp"]), ("step ms, PyTorch", ms["torch ddp"]), ("alone ms", ms["alone"]),
            ("alone ms, PyTorch", ms["torch alone"]), ("ratio", ratio), ("ratio alone", single),
            ("ratio gained", ratio / single), ("efficiency", ms["alone"] / ms["ddp"]),
            ("efficiency, PyTorch", ms["torch alone"] / ms["torch ddp"])]
    if "without comm" in ms:
        rows.append(("exposed communication ms", ms["ddp"] - ms["without comm"]))
        # What the machine allows: ranks that do not communicate at all hold each other up too.
        rows.append(("efficiency without communication", ms["alone"] / ms["without comm"]))
        rows.append(("share of that", ms["without comm"] / ms["ddp"]))
        rows += [(f"without {v}", ms["without " + v] / ms["ddp"]) for v in VARIANTS[1:]]
    return [(case, name, value) for name, value in rows]


def missed(case, rows):
    value = {name: v for _, name, v in rows}
    if value["ratio gained"] < GAIN:
        yield f"{case}: ratio {value['ratio gained']:.2f} times that of one process, wanted {GAIN}"
    if value["efficiency"] < CASES[case][1]:
        yield f"{case}: efficiency {value['efficiency']:.3f}, wanted {CASES[case][1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("python")
    parser.add_argument("out")
    parser.add_argument("--cases", default=os.environ.get("BENCH_CASES", ",".join(CASES)))
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("BENCH_ROUNDS", "7")))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--no-variants", action="store_true")
    args = parser.parse_args()
    rows, below = [], []
    with tempfile.TemporaryDirectory() as folder:
        for case in args.cases.split(","):
            new = rows_of(case, measure(case, args, folder))
            for r in new:
                print(f"{r[0]:<12}{r[1]:<28}{r[2]:>10.4f}", flush=True)
            below += missed(case, new)
            rows += new
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "ddp.tsv"), "w") as f:
        f.write("case\tmetric\tvalue\n")
        for r in rows:
            f.write(f"{r[0]}\t{r[1]}\t{r[2]:.6g}\n")
    for line in below:
        print("below its floor:", line)


if __name__ == "__main__":
    main()

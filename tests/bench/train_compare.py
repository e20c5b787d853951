#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the training steps of train.c against PyTorch eager, interleaved, and writes a table.

usage: train_compare.py TRAIN_PROGRAM TORCH_PYTHON OUT_DIR [--cases a,b] [--threads 1,2] [--rounds N]

Both sides run as processes that take turns: a few steps here, a few steps there, so that whatever else
the machine does hits both. Only the side whose turn it is computes. Figures are medians over all steps.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

# Steps per turn: enough for a stable median, short enough to alternate often. The floors are what the
# project promises (PyTorch's time over ours).
CASES = {
    "tiny": (2000, 25.0),
    "mlp": (40, 1.6),
    "resnet18": (4, 1.0),
    "gpt": (2, 1.1),
    "embedding_bag": (25, 1.5),
}
GPT_PARAMS = 6 * (12 * 384 * 384) + 256 * 384
GPT_TOKENS = 4 * 256


class Side:
    """One of the two processes."""

    def __init__(self, command, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads))
        start = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        line = self.process.stdout.readline()
        if line.strip() != "ready":
            sys.exit(f"{command[0]}: expected \"ready\", got {line!r}")
        self.first = time.perf_counter() - start
        self.times = []

    def turn(self, steps, count=True):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        times = [float(t) for t in self.process.stdout.readline().split()]
        if count:
            self.times += times

    def close(self):
        out, _ = self.process.communicate()
        self.rss = int(out.split()[-1]) / 1024
        self.median = statistics.median(self.times)


def measure(case, threads, rounds, args):
    steps, _ = CASES[case]
    ours = Side([args.program, case, str(threads)], threads)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "torch_train.py")
    peer = Side([args.python, script, case, str(threads)], threads)
    for side in (ours, peer):
        side.turn(max(2, steps // 4), count=False)
    for _ in range(rounds):
        ours.turn(steps)
        peer.turn(steps)
    ours.close()
    peer.close()
    return ours, peer


def rows_of(case, threads, ours, peer):
    name = f"{case}, {threads} thread{'s' if threads > 1 else ''}"
    rows = [
        (name, "step ms", ours.median, peer.median, peer.median / ours.median),
        (name, "peak resident MB", ours.rss, peer.rss, peer.rss / ours.rss),
    ]
    if case == "tiny" and threads == 1:
        rows.append((name, "first step s", ours.first, peer.first, peer.first / ours.first))
    if case == "gpt":
        # 6 flops per parameter and token, and attention: 12 * layers * width * context per token, halved
        # by causality.
        flops = 6 * GPT_PARAMS * GPT_TOKENS + GPT_TOKENS * 6 * 6 * 384 * 256
        rows.append((name, "GFLOP/s", flops / ours.median / 1e6, flops / peer.median / 1e6,
                     peer.median / ours.median))
    return rows


def write_plot(path, rows):
    """Bars of the step-time ratios on a logarithmic scale, with the line at 1."""
    import math

    bars = [(r[0], r[4]) for r in rows if r[1] == "step ms"]
    width, left, line = 760, 200, 34
    scale = (width - left - 90) / max(math.log10(max(b[1] for b in bars)), 0.1)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{line * len(bars) + 60}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="22" font-weight="bold">PyTorch eager time / Tutti time per step</text>',
    ]
    for i, (name, ratio) in enumerate(bars):
        y = 36 + i * line
        length = max(math.log10(max(ratio, 1.0)) * scale, 1)
        out.append(f'<text x="{left - 8}" y="{y + 17}" text-anchor="end">{name}</text>')
        out.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="24" fill="#3465a4"/>')
        out.append(f'<text x="{left + length + 6:.1f}" y="{y + 17}">{ratio:.2f}</text>')
    out.append("</svg>")
    with open(path, "w") as f:
        f.write("\n".join(out))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("python")
    parser.add_argument("out")
    parser.add_argument("--cases", default=os.environ.get("BENCH_CASES", ",".join(CASES)))
    parser.add_argument("--threads", default=os.environ.get("BENCH_THREADS", "1,2"))
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("BENCH_ROUNDS", "7")))
    args = parser.parse_args()
    rows, missed = [], []
    for case in args.cases.split(","):
        for threads in (int(t) for t in args.threads.split(",")):
            ours, peer = measure(case, threads, args.rounds, args)
            new = rows_of(case, threads, ours, peer)
            for r in new:
                print(f"{r[0]:<28}{r[1]:<18}{r[2]:>12.4f}{r[3]:>12.4f}{r[4]:>9.2f}", flush=True)
            if new[0][4] < CASES[case][1]:
                missed.append(f"{new[0][0]}: {new[0][4]:.2f}, wanted {CASES[case][1]}")
            rows += new
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "train.tsv"), "w") as f:
        f.write("case\tmetric\ttutti\tpeer\tpeer_value\tratio\n")
        for r in rows:
            f.write(f"{r[0]}\t{r[1]}\t{r[2]:.6g}\tpytorch\t{r[3]:.6g}\t{r[4]:.4g}\n")
    write_plot(os.path.join(args.out, "train.svg"), rows)
    for m in missed:
        print("below its floor:", m)


if __name__ == "__main__":
    main()

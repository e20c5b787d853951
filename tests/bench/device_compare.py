#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what OpenCL devices cost against plain OpenCL, BLAS libraries and the CPU, and writes a table.

usage: device_compare.py PROGRAM_DIR OUT_DIR [--rounds N]

Sides take turns; figures are medians. Calls are compared within one process (device.c). First operators are
processes of their own, timed from their start to the end of the operator, after one that warms the disk cache.
Training steps are those of the examples' networks, one process on cl:0 and one on the CPU.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

# What the project promises: the ratio of ours to the other side, and whether it has to be at most or at least
# that. Where figures are per second, more is better.
BARS = {
    ("enqueue", "bare kernel"): ("<=", 1.5),
    ("memory", "buffer, used once"): ("<=", 1 / 20),
    ("copy", "raw copy"): (">=", 0.8),
    ("gemm", "OpenBLAS"): (">=", 0.8),
    ("gemm", "CLBlast"): (">=", 1.0),
    ("first operator", "150 ms"): ("<=", 1.0),
    ("cnn step", "cpu"): ("<=", 2.5),
}
STEPS = {"cnn": 20, "gpt": 5}


class Side:
    def __init__(self, program, case, device):
        self.times = []
        self.process = subprocess.Popen([program, case, device], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        line = self.process.stdout.readline()
        if line.strip() != "ready":
            sys.exit(f"device_train {case} {device}: expected \"ready\", got {line!r}")

    def turn(self, steps, count=True):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        times = [float(t) for t in self.process.stdout.readline().split()]
        if count:
            self.times += times

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit("device_train ended with an error")
        return statistics.median(self.times)


def calls(folder, rounds):
    out = subprocess.run([os.path.join(folder, "device"), str(rounds)], check=True, stdout=subprocess.PIPE,
                         text=True).stdout
    for line in out.splitlines():
        case, metric, ours, peer, theirs = line.split("\t")
        yield case, metric, float(ours), peer, float(theirs)


def first_operator(folder, rounds):
    times = []
    for _ in range(rounds + 1):
        start = time.monotonic()
        out = subprocess.run([os.path.join(folder, "device_first")], check=True, stdout=subprocess.PIPE, text=True)
        times.append((float(out.stdout) - start) * 1e3)
    return "first operator", "ms", statistics.median(times[1:]), "150 ms", 150.0


def training(folder, case, rounds):
    program = os.path.join(folder, "device_train")
    ours, cpu = Side(program, case, "cl:0"), Side(program, case, "cpu")
    for side in (ours, cpu):
        side.turn(STEPS[case], count=False)
    for _ in range(rounds):
        for side in (ours, cpu):
            side.turn(STEPS[case])
    return f"{case} step", "ms", ours.close(), "cpu", cpu.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs")
    parser.add_argument("out")
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("BENCH_ROUNDS", "15")))
    args = parser.parse_args()
    rows = list(calls(args.programs, 2 * args.rounds + 1))
    rows.append(first_operator(args.programs, args.rounds))
    rows += [training(args.programs, case, args.rounds) for case in STEPS]
    below = []
    with open(os.path.join(args.out, "device.tsv"), "w") as f:
        f.write("case\tmetric\ttutti\tpeer\tpeer_value\tratio\n")
        for case, metric, ours, peer, theirs in rows:
            ratio = ours / theirs
            f.write(f"{case}\t{metric}\t{ours:.6g}\t{peer}\t{theirs:.6g}\t{ratio:.4g}\n")
            print(f"{case:<16}{metric:<14}{ours:>11.4g}  {peer:<20}{theirs:>11.4g}{ratio:>9.3f}", flush=True)
            how, bar = BARS.get((case, peer), ("<=", float("inf")))
            if not (ratio <= bar if how == "<=" else ratio >= bar):
                below.append(f"{case} against {peer}: ratio {ratio:.3f}, wanted {how} {bar:.3g}")
    for line in below:
        print("missed:", line)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())

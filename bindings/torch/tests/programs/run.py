#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every program of this folder over Gloo and over Tutti and compares what they print.

usage: run.py [PROGRAM...]

Two ranks must print the same to the last digit: there is one order in which to add two numbers. With more
ranks, numbers may differ by 1e-6 of their size. A line per program; the exit code is the number of failures.
"""

import importlib
import os
import re
import sys
import time
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402

PROGRAMS = ("gpt_ddp", "resnet_ddp", "fsdp2", "zero", "checkpoint", "tensor_parallel", "objects", "pipeline",
            "accelerate_gpt", "shared_buckets")
NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


def difference(ours, theirs):
    """The greatest relative difference between numbers; None when it is more than numbers that differs."""
    if len(ours) != len(theirs):
        return None
    most = 0.0
    for a, b in zip(ours, theirs):
        if a == b:
            continue
        if NUMBER.sub("#", a) != NUMBER.sub("#", b):
            return None
        for x, y in zip(map(float, NUMBER.findall(a)), map(float, NUMBER.findall(b))):
            most = max(most, abs(x - y) / max(abs(y), 1e-30))
    return most


def compare(module, sizes):
    """What differs, in words; "" when all is well."""
    theirs = harness.run(module, "gloo", sizes)
    ours = harness.run(module, "tutti", sizes)
    if not ours:
        return f"{sizes}: printed nothing"
    apart = difference(ours, theirs)
    allowed = 0.0 if max(sizes) == 2 else 1e-6
    if apart is not None and apart <= allowed:
        return ""
    words = "other lines" if apart is None else f"{apart:.1e} apart, allowed {allowed:g}"
    return f"{sizes}: {words}\n" + "".join(f"  gloo  {a}\n  tutti {b}\n" for a, b in zip(theirs, ours) if a != b)


def run_program(name):
    """Whether it is well."""
    module = importlib.import_module(name)
    begun, problems = time.monotonic(), []
    runs = harness.runs_of(module)
    for sizes in runs:
        try:
            problem = compare(module, sizes)
        except RuntimeError as error:
            problem = f"{sizes}: {error}"
        if problem:
            problems.append(problem)
    ranks = ", ".join("+".join(map(str, sizes)) for sizes in runs)
    print(f"{'FAILED' if problems else 'ok'}\t{name}\tranks {ranks}\t{time.monotonic() - begun:.1f} s", flush=True)
    for problem in problems:
        print("  " + problem.replace("\n", "\n  ").rstrip(), flush=True)
    return not problems


def main():
    names = sys.argv[1:] or PROGRAMS
    warnings.simplefilter("ignore")  # of PyTorch and Accelerate, once per rank; the ranks inherit it
    failed = [name for name in names if not run_program(name)]
    print(f"programs: {len(names) - len(failed)} of {len(names)} print over Tutti what they print over Gloo")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())

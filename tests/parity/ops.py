#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random operator cases, computed by PyTorch now and compared by our test program.

    tests/parity/ops.py build/release

PARITY_CASES: how many in all (default 2000); PARITY_SEED: which (default: the clock).
"""

import collections
import os
import pathlib
import shutil
import subprocess
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden"))

import torch  # noqa: E402

import cases_random  # noqa: E402


def write_cases(folder, seed, total):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    share = max(1, total // len(cases_random.FAMILIES))
    for family in cases_random.FAMILIES:
        cases_random.book(family, seed, share).write(folder / f"{family}.safetensors")


def run_tests(build, folder):
    """The report of our test program on these cases: a list of (suite, name, outcome)."""
    report = folder / "report.tsv"
    program = build / "tests" / "tutti-tests"
    done = subprocess.run(
        [program, "parity_*", "--report", report],
        env={**os.environ, "TUTTI_TEST_CASES": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if not report.exists():
        sys.exit(f"{program} wrote no report:\n{done.stdout}")
    rows = [line.split("\t") for line in report.read_text().splitlines()]
    return [row[:3] for row in rows if len(row) >= 3 and row[0].startswith("parity_")], done.stdout


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/release").resolve()
    seed = int(os.environ.get("PARITY_SEED") or time.time())
    total = int(os.environ.get("PARITY_CASES") or 2000)
    print(f"PARITY_SEED={seed} PARITY_CASES={total} (torch {torch.__version__})")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = ROOT / "build" / "parity" / "ops"
    write_cases(folder, seed, total)
    rows, output = run_tests(build, folder)
    table = collections.defaultdict(collections.Counter)
    for suite, _, outcome in rows:
        table[suite.removeprefix("parity_")][outcome] += 1
    print(f"{'family':<14}{'agree':>8}{'differ':>8}{'skipped':>9}")
    for family, counts in table.items():
        print(f"{family:<14}{counts['pass']:>8}{counts['fail']:>8}{counts['skip']:>9}")
    agree = sum(counts["pass"] for counts in table.values())
    print(f"{'all':<14}{agree:>8}{len(rows) - agree:>8}")
    if agree < len(rows) or not rows:
        print(output)
        sys.exit(1)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Runs our test program on a folder of cases and prints what came of it."""

import collections
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def settings(default_cases):
    """The folder of the build, the seed and the number of cases; they are printed."""
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/release").resolve()
    seed = int(os.environ.get("PARITY_SEED") or time.time())
    cases = int(os.environ.get("PARITY_CASES") or default_cases)
    print(f"PARITY_SEED={seed} PARITY_CASES={cases}")
    return build, seed, cases


def empty_folder(name):
    folder = ROOT / "build" / "parity" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def compare(build, folder):
    """Run the cases of the folder, print a table; ends the program when something differs."""
    report = folder / "report.tsv"
    program = build / "tests" / "tutti-tests"
    done = subprocess.run(
        [program, "parity_*", "--report", report],
        env={**os.environ, "TUTTI_TEST_CASES": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if not report.exists():
        sys.exit(f"{program} wrote no report:\n{done.stdout}")
    rows = [line.split("\t") for line in report.read_text().splitlines()]
    rows = [row for row in rows if len(row) >= 3 and row[0].startswith("parity_")]
    table = collections.defaultdict(collections.Counter)
    for suite, _, outcome, *_ in rows:
        table[suite.removeprefix("parity_")][outcome] += 1
    print(f"{'family':<14}{'agree':>8}{'differ':>8}{'skipped':>9}")
    for family, counts in table.items():
        print(f"{family:<14}{counts['pass']:>8}{counts['fail']:>8}{counts['skip']:>9}")
    agree = sum(counts["pass"] for counts in table.values())
    print(f"{'all':<14}{agree:>8}{len(rows) - agree:>8}")
    if agree < len(rows) or not rows:
        print(done.stdout)
        sys.exit(1)

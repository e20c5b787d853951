#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own suite of distributed tests over Gloo or over Tutti.

    pytorch_suite.py --backend tutti --sizes 2 3 4 --table pytorch_suite.tsv            compare
    pytorch_suite.py --backend gloo --sizes 2 3 4 --table pytorch_suite.tsv --write     record

Over Tutti the tests use the name "gloo", as tutti_torch.install_as_gloo() serves it, so that the suite
decides as it does for Gloo; `--name tutti` runs them under our own name (column "named"). No test is
edited, left out or treated by its name: a test that the suite skips is tried again with its conditions
lifted in the ways of WAYS, over both backends.
"""

import argparse
import collections
import gc
import json
import os
import re
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "100")  # the suite's limit, in seconds
os.environ.setdefault("PYTORCH_PRINT_REPRO_ON_FAILURE", "0")

import suite_session
import suite_table

# Each way in turn gets the tests that all ways before it skipped.
WAYS = {
    "own": {"rules": "gloo"},
    "mpi": {"rules": "mpi", "any_size": True},
    "cpu": {"rules": "gloo", "any_size": True, "devices": True},
    "nccl": {"rules": "nccl", "any_size": True, "devices": True},
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--backend", choices=("gloo", "tutti"), required=True)
    parser.add_argument("--name", choices=("gloo", "tutti"), default="gloo", help="in the tests")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--only", default="", help="only tests whose name matches this expression")
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time")
    parser.add_argument("--limit", type=float, default=130.0, help="seconds for one test")
    parser.add_argument("--table", help="the table to compare with")
    parser.add_argument("--write", action="store_true", help="record the results in the table")
    parser.add_argument("--logs", default="build/torch-suite", help="folder for the ranks' output")
    args = parser.parse_args()
    args.column = "named" if args.name == "tutti" else args.backend
    return args


def session(args, size, way, wanted, channel):
    """A forked process: runs the tests in `wanted` (all, if None) and writes a line for each."""
    suite_session.die_with_parent()
    tests = suite_session.load(suite_session.Session(backend=args.name, size=size, **WAYS[way]))
    if wanted is not None:
        tests = {name: case for name, case in tests.items() if name in wanted}
    tests = {name: case for name, case in tests.items() if re.search(args.only, name)}

    gc.freeze()  # collections in the ranks would copy the pages that they share with us

    def report(*result):
        line = json.dumps(result).encode() + b"\n"
        while line:
            line = line[os.write(channel, line) :]

    logs = os.path.join(args.logs, f"{args.backend}-{args.name}-{size}-{way}")
    suite_session.run(tests, args.jobs, args.limit, logs, report)


def in_session(args, size, way, wanted, show):
    """Forks a session; returns {test: (result, detail, seconds)}."""
    near, far = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(near)
            session(args, size, way, wanted, far)
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    os.close(far)
    results = {}
    with os.fdopen(near) as lines:
        for line in lines:
            name, result, detail, seconds = json.loads(line)
            results[name] = (result, detail, seconds)
            if result != "skip":
                show(way, name, result, seconds)
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit(f"pytorch_suite: the session of {size} ranks, way {way}, failed")
    return results


def run_size(args, size, ways, wanted, show):
    """Runs the ways one after another; returns {test: (result, way, detail)}."""
    final = {}
    for way in ways:
        results = in_session(args, size, way, wanted, show)
        for name, (result, detail, _) in results.items():
            if result != "skip" or name not in final:
                final[name] = (result, way, detail)
        wanted = {name for name, (result, _, _) in final.items() if result == "skip"}
        if not wanted:
            break
    return final


def last_error(detail):
    """The line of a failure that says what happened, and the next ones: the last exception of the
    first rank that raised one, else of the driver."""
    text = detail.split("--- log")[0]
    ranks = re.split(r"Process \d+ exited with error code.*\n", text)
    lines = [line for line in ranks[min(1, len(ranks) - 1)].splitlines() if line.strip()]
    errors = [i for i, line in enumerate(lines) if re.match(r"[\w.]+(Error|Exception|Exit)\b", line)]
    last = errors[-1] if errors else len(lines) - 1
    end = lines[-1:] if last < len(lines) - 1 and len(ranks) == 1 else []  # exit status of a rank
    return [line[:300] for line in lines[last : last + 1] + end]


def again(args, size, final, names, show):
    """Gives up to three tests a second chance, alone: the machine may have been too busy."""
    if not names or len(names) > 3:
        return
    print(f"  a second attempt at {', '.join(names)}")
    jobs, args.jobs = args.jobs, 1
    results = run_size(args, size, args.ways, set(names), show)
    args.jobs = jobs
    final.update({name: result for name, result in results.items() if result[0] == "pass"})


def check_served(args):
    """Fails unless a group of the name under test is served by the backend under test."""
    import torch
    import torch.distributed as dist

    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            dist.init_process_group(args.name, store=dist.HashStore(), rank=0, world_size=1)
            backend = dist.group.WORLD._get_backend(torch.device("cpu"))
            status = int((type(backend).__module__ == "tutti_torch._C") != (args.backend == "tutti"))
        finally:
            os._exit(status)
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit(f"pytorch_suite: groups called {args.name} are not served by {args.backend}")


def main():
    args = arguments()
    import torch
    import torch.testing._internal.common_distributed

    if args.backend == "tutti":
        import tutti_torch

        tutti_torch.install_as_gloo()  # some tests ask for groups of this name
    check_served(args)
    rows = suite_table.read(args.table) if args.table else {}
    bad = 0
    for size in args.sizes:
        started = time.monotonic()
        done = collections.Counter()

        def show(way, name, result, seconds):
            done[way] += 1
            print(f"  {size} ranks {way:4} {done[way]:3} {result} {seconds:5.1f} s  {name}", flush=True)

        final = run_size(args, size, args.ways, None, show)
        rows_here = {name: row for name, row in rows.items() if re.search(args.only, name)}

        def cells():
            return {name: suite_table.cell(*value) for name, value in final.items()}

        missing = suite_table.missing(rows_here, args.column, size, cells())
        if not args.write:
            again(args, size, final, missing, show)
            missing = suite_table.missing(rows_here, args.column, size, cells())
        failed = [name for name, value in sorted(final.items()) if value[0] == "fail"]
        for name in sorted(set(failed) | set(missing)):
            result, way, detail = final.get(name, ("absent", "", ""))
            note = "MISSING " if name in missing else "failed  "
            print(f"{note} {args.column}-{size} {name}: {result} ({way})")
            for line in last_error(detail):
                print(f"    {line}")
        count = collections.Counter(cell.split(":")[0] for cell in cells().values())
        text = ", ".join(f"{number} {what}" for what, number in sorted(count.items()))
        seconds = time.monotonic() - started
        print(f"{args.backend} as {args.name}, {size} ranks: {text} of {len(final)} in {seconds:.0f} s")
        bad += len(missing)
        if args.write:
            suite_table.merge(rows, args.column, size, cells(), args.only)
            suite_table.write(args.table, rows, torch.__version__.split("+")[0])
    if bad and not args.write:
        sys.exit(f"pytorch_suite: {bad} tests do not pass that should")


if __name__ == "__main__":
    main()

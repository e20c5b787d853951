#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_command.py TUTTI: asks `tutti bench` for everything it promises: every operation, type and reduction
gives right results, wrong ones are counted, and the figures come in every form."""
import csv
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

from cases import run_cases, test

LIMIT = 60
OPS = ("all_reduce all_gather reduce_scatter all_to_all broadcast reduce barrier sendrecv exchange copy").split()
tutti = os.path.abspath(sys.argv[1])


def run(*words, code=0, prefix=()):
    p = subprocess.run([*prefix, tutti, "bench", *words], capture_output=True, timeout=LIMIT, text=True)
    assert p.returncode == code, f"{words}: exit code {p.returncode} instead of {code}\n{p.stdout}{p.stderr}"
    return p.stdout, p.stderr


def rows(*words, **more):
    return json.loads(run(*words, "--json", "--iters", "2", "--warmup", "1", **more)[0])


def expect(got, wanted):
    assert got == wanted, f"expected {wanted!r}, got {got!r}"


@test
def every_operation_is_right_between_processes():
    for more in ((), ("--in-place",), ("--shared",), ("--shared", "--in-place")):
        got = rows(*OPS, "--sizes", "8,100,70000", *more)
        expect(sorted({r["op"] for r in got}), sorted(OPS))
        for r in got:
            expect((r["op"], r["wrong"]), (r["op"], -1 if r["op"] == "barrier" else 0))
            assert 0 < r["min_us"] <= r["time_us"] <= r["p99_us"], r
            expect((r["ranks"], r["reps"]), (2, 2))


@test
def every_operation_is_right_between_threads():
    for n in ("1", "3", "4"):
        ops = [o for o in OPS if n != "1" or o not in ("sendrecv", "exchange")]
        for r in rows("-n", n, "--backend", "threads", *ops, "--sizes", "4,5000"):
            expect((n, r["op"], max(r["wrong"], 0)), (n, r["op"], 0))


@test
def every_type_and_reduction_is_right():
    for dtype in "f32 f64 f16 bf16 i8 u8 i16 i32 i64 bool c64 c128".split():
        ops = ["sum", "avg", "product", "min", "max", "band", "bor", "bxor"]
        if dtype in ("f32", "f64", "f16", "bf16"):
            ops = ops[:5]
        elif dtype.startswith("c"):
            ops = ops[:2]
        elif dtype == "bool":
            ops.remove("avg")
        for op in ops:
            for r in rows("--backend", "threads", "-n", "3", "all_reduce", "reduce_scatter", "--dtype", dtype,
                          "--op", op, "--sizes", "16,9000"):
                expect((dtype, op, r["op"], r["wrong"]), (dtype, op, r["op"], 0))


@test
def wrong_results_are_counted():
    """Ranks of the backend fake have no others to reduce with."""
    out, err = run("--backend", "fake", "--check", "--json", "--iters", "3", "--sizes", "4000", code=1)
    got = json.loads(out)[0]
    # Sums of two numbers from 1 to 3 never equal one of them.
    expect(got["wrong"], 3 * got["batch"] * 1000)
    assert "elements are wrong" in err, err
    expect(json.loads(run("--backend", "fake", "--json", "--iters", "1", "--sizes", "8")[0])[0]["wrong"], -1)


@test
def sizes_and_counts():
    got = rows("--backend", "threads", "-n", "4", "all_reduce", "all_gather", "-b", "8", "-e", "2K", "-f", "16")
    expect([(r["op"], r["bytes"], r["count"]) for r in got],
           [("all_reduce", 8, 2), ("all_reduce", 128, 32), ("all_reduce", 2048, 512),
            ("all_gather", 16, 4), ("all_gather", 128, 32), ("all_gather", 2048, 512)])
    for r in got:
        bus = {"all_reduce": 1.5, "all_gather": 0.75}[r["op"]]
        assert abs(r["algbw"] - r["bytes"] / r["time_us"] / 1e3) < 2e-4, r
        assert abs(r["busbw"] - bus * r["algbw"]) < 2e-4, r


@test
def files_and_forms_agree():
    with tempfile.TemporaryDirectory() as folder:
        table, plot = os.path.join(folder, "a.csv"), os.path.join(folder, "a.svg")
        out, _ = run("all_reduce", "broadcast", "--sizes", "8,4K", "--iters", "2", "--tsv", "--csv", table,
                     "--plot", plot)
        with open(table) as f:
            expect(list(csv.reader(f)), [line.split("\t") for line in out.splitlines()])
        root = xml.parse(plot).getroot()
        expect(root.tag, "{http://www.w3.org/2000/svg}svg")
        expect(len(root.findall("{http://www.w3.org/2000/svg}polyline")), 2)
        for line in root.findall("{http://www.w3.org/2000/svg}polyline"):
            expect(len(line.get("points").split()), 2)
        _, err = run("--sizes", "8", "--iters", "1", "--csv", folder, code=1)
        assert f"cannot write {folder}" in err, err


@test
def a_table_for_people():
    lines = run("all_reduce", "--sizes", "8,1M", "--iters", "2")[0].splitlines()
    assert lines[0].startswith("# tutti ") and "2 ranks, backend shm" in lines[0], lines[0]
    expect(lines[1].split()[1:], "operation size count type redop time p99 algbw busbw #wrong".split())
    expect([line.split()[:5] for line in lines[3:]],
           [["all_reduce", "8", "2", "float32", "sum"], ["all_reduce", "1048576", "262144", "float32", "sum"]])


@test
def inside_a_job_it_is_a_rank():
    prefix = (tutti, "run", "-n", "3", "--quiet")
    out, _ = run("all_gather", "--sizes", "12", "--iters", "1", "--tsv", prefix=prefix)
    expect([line.split("\t")[1] for line in out.splitlines() if "all_gather" in line], ["3"])
    _, err = run("-n", "2", prefix=prefix, code=2)
    assert "-n 2, but tutti started 3 ranks" in err, err


@test
def mistakes_are_explained():
    for words, said in (
        (["fly"], 'no operation "fly"'),
        (["--fast"], 'no option "--fast"'),
        (["-n"], "-n: expected a value"),
        (["-n", "0"], "-n: expected 1 to"),
        (["-b", "12Q"], 'expected a size such as 8, 64K or 256M, got "12Q"'),
        (["-b", "-8"], "expected a size"),
        (["-b", "99999999999G"], "expected a size"),
        (["-b", "1M", "-e", "1K"], "is above -e"),
        (["-f", "1"], "expected a number above 1"),
        (["--sizes", "8,,9"], 'got ""'),
        (["--dtype", "float31"], 'got "float31"'),
        (["--op", "median"], 'got "median"'),
        (["--op", "band"], "needs integers, got float32"),
        (["--dtype", "c64", "--op", "max"], "summed and averaged only"),
        (["--backend", "pigeon"], "pigeon"),
        (["--check", "--no-check"], "contradict"),
        (["--iters", "many"], '--iters: expected 1 to 1000000, got "many"'),
    ):
        _, err = run(*words, code=2)
        assert said in err and "usage: tutti bench" in err, f"{words}: {err}"
    _, err = run("sendrecv", "--backend", "threads", "-n", "1", code=1)
    assert "sendrecv needs 2 ranks, got 1" in err, err


@test
def help_lists_all_operations():
    out, _ = run("--help")
    for op in OPS:
        assert f"\n  {op} " in out, op


run_cases("bench", "the command measures and says what it should")

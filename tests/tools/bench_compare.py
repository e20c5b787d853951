#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_compare.py BUILD_DIR: the comparison of collectives on a small scale and without other libraries: what
goes into its table, and whether it notices what misses a floor."""
import contextlib
import csv
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

build = os.path.abspath(sys.argv[1])
script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench", "coll_compare.py")
spec = importlib.util.spec_from_file_location("coll_compare", script)
compare = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare)


def expect(got, wanted):
    assert got == wanted, f"expected {wanted!r}, got {got!r}"


def the_table_has_what_was_measured():
    with tempfile.TemporaryDirectory() as out:
        env = {k: v for k, v in os.environ.items() if not k.startswith("BENCH_")}
        env.update(BENCH_PEERS="none", BENCH_ROUNDS="2", BENCH_SIZES="8,4M", BENCH_BUDGET="2",
                   BENCH_OPS="all_reduce,barrier", BENCH_RANKS="2")
        p = subprocess.run([sys.executable, script, build, out], capture_output=True, text=True, env=env, timeout=120)
        assert p.returncode == 0, p.stdout + p.stderr
        assert "WRONG" not in p.stdout and "exit code" not in p.stdout, p.stdout
        with open(os.path.join(out, "collectives.tsv")) as f:
            rows = list(csv.DictReader(f, delimiter="\t"))
        expect([(r["case"], r["metric"], r["peer"]) for r in rows],
               [("all_reduce, 2 ranks, 4 MB", "us, bound by copying", "bound"),
                ("all_reduce, 2 ranks, 4 MB", "us, memory of the group, bound by copying", "bound"),
                ("all_reduce, 2 ranks, 4 MB", "us, memory of the group", "tutti staged")])
        for r in rows:
            assert abs(float(r["ratio"]) - float(r["peer_value"]) / float(r["tutti"])) < 2e-3 * float(r["ratio"]), r
        expect(rows[0]["tutti"], rows[2]["peer_value"])
        plot = xml.parse(os.path.join(out, "collectives.svg")).getroot()
        expect(len(plot.findall("{http://www.w3.org/2000/svg}polyline")), 3)


def judged(*rows):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        compare.judge(list(rows))
    return out.getvalue()


def row(case, ratio, peer, metric="us"):
    return case, metric, 1.0, peer, ratio, ratio


def floors_are_noticed():
    good = judged(row("all_reduce, 2 ranks, 8 B", 1.4, "ompi4"), row("all_reduce, 2 ranks, 64 KB", 51.0, "gloo"),
                  row("all_reduce, 2 ranks, 1 MB", 3.1, "gloo"), row("all_reduce, 4 ranks, 8 B", 1.0, "mpich5"))
    assert "MISSED" not in good and good.count("ok ") == 5, good
    for bad in (row("all_reduce, 2 ranks, 8 B", 0.99, "ompi5"), row("all_reduce, 4 ranks, 8 B", 0.99, "ompi5"),
                row("barrier, 2 ranks", 49.0, "gloo"), row("all_reduce, 2 ranks, 256 MB", 2.9, "gloo"),
                row("reduce, 2 ranks, 4 MB", 0.69, "bound", "us, bound by copying"),
                row("reduce, 2 ranks, 1 MB", 1.4, "tutti staged", "us, memory of the group"),
                row("start, 4 ranks", 49.0, "torchrun, gloo", "s to the first all_reduce")):
        said = judged(bad)
        assert "MISSED" in said and bad[0] in said, said
    # Between the floors, and below the sizes that a bound counts from.
    expect(judged(row("reduce, 2 ranks, 1 MB", 0.1, "bound", "us, bound by copying")), "")
    expect(judged(row("all_reduce, 2 ranks, 256 KB", 1.0, "gloo")), "")
    # No single size is bad, but the middle one is not good enough.
    assert "all_reduce ompi4 1.20" in judged(row("all_reduce, 2 ranks, 8 B", 1.2, "ompi4"))


def bounds_count_bytes():
    """Two ranks: a half reduced (two reads, a write of half the size), the other half copied."""
    expect(compare.TRAFFIC["all_reduce"](2), 2.5)
    expect(compare.TRAFFIC["reduce_scatter"](4), 1.25)
    found = {("tutti", 4 << 20): [(100.0, 120.0, 0)], ("copy", 4 << 20): [(40.0, 50.0, 0)]}
    expect(compare.rows_of("all_reduce", 2, found), [("all_reduce, 2 ranks, 4 MB", "us, bound by copying", 100.0,
                                                      "bound", 50.0, 0.5)])


def lines_of_peers_are_read():
    expect(compare.parse("noise\n8\t1.5\t2.5\t1\t0\t30\n64\t2\t3\t1\t7\t3\n"), {8: (1.5, 2.5, 0), 64: (2.0, 3.0, 7)})
    expect([compare.bytes_of(s) for s in ("8", "4K", "256M")], [8, 4096, 256 << 20])
    expect([compare.size_in(f"x, 2 ranks, {compare.words_of(n)}") for n in (8, 4096, 256 << 20)], [8, 4096, 256 << 20])


for test in (the_table_has_what_was_measured, floors_are_noticed, bounds_count_bytes, lines_of_peers_are_read):
    try:
        test()
    except (AssertionError, subprocess.TimeoutExpired, OSError) as e:
        sys.exit(f"{test.__name__}: {e}")
print("bench: the comparison says what it measured")

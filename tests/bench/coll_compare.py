#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the collectives of Tutti against other libraries, in turns, and writes a table and a plot.

usage: coll_compare.py BUILD_DIR OUT_DIR

A turn is one operation at all sizes in one library; all libraries have their turn before the next round, so
that whatever else the machine does hits all. Every library is measured by the same method (mpi_coll.c,
gloo_coll.py, `tutti bench`). Figures are medians over the rounds of each turn's medians. The environment
chooses less: BENCH_ROUNDS, BENCH_MAX (greatest size), BENCH_PEERS, BENCH_OPS, BENCH_RANKS, BENCH_BUDGET
(milliseconds per size and turn). BENCH_STAT=least takes the least time of a turn instead of the median: for
tuning on a busy machine, never for claims. BENCH_TORCH is the Python that has PyTorch; BENCH_OMPI5 and BENCH_MPICH5
are folders with the newer MPIs in bin/. What is missing is left out, and said.
"""
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
SIZES = "8 64 512 4K 16K 64K 256K 1M 4M 16M 64M 256M".split()
OPS = "all_reduce all_gather reduce_scatter all_to_all broadcast reduce barrier sendrecv exchange".split()
MPIS = ("ompi4", "mpich4", "ompi5", "mpich5")
# Bytes that each of n ranks must at least read or write, over the size; copying moves 2 for 1. Input and
# output are the user's own memory: a rank reduces its n-th (one read of everybody's, one write) and copies
# the other parts from those who have them.
TRAFFIC = {
    "all_reduce": lambda n: (1 + 1 / n) + 2 * (n - 1) / n,
    "reduce_scatter": lambda n: 1 + 1 / n,
    "reduce": lambda n: 1 + 1 / n,
    "all_gather": lambda n: 2,
    "all_to_all": lambda n: 2,
    "broadcast": lambda n: 2,
    "sendrecv": lambda n: 2,
    "exchange": lambda n: 2,
}
SHARED_OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
LARGE = 64 << 20
LEAST = os.environ.get("BENCH_STAT") == "least"
TURN_LIMIT = 8  # seconds; a library that takes longer skips the sizes that are left, and later rounds


def bytes_of(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def words_of(nbytes):
    for unit, size in (("MB", 1 << 20), ("KB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes // size} {unit}"
    return f"{nbytes} B"


def form_of(op):
    """all_reduce as training uses it; the rest from one buffer to another, where there is a choice."""
    return "in" if op == "all_reduce" else "out"


def parse(text):
    """size -> (time, p99, wrong) from the lines that all peers print."""
    rows = {}
    for line in text.splitlines():
        words = line.split("\t")
        if len(words) == 6:
            rows[int(words[0])] = (float(words[3 if LEAST else 1]), float(words[2]), int(words[4]))
    return rows


def run(command, env=None, limit=300):
    """Standard output; a failure is said and gives what there is."""
    p = subprocess.Popen(command, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = p.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        # Launchers end their ranks when they are asked to.
        p.terminate()
        try:
            out, err = p.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out, err = p.communicate()
        print(f"  stopped after {limit} s: {' '.join(command[:6])} ...")
        return out
    if p.returncode != 0:
        print(f"  exit code {p.returncode}: {' '.join(command)}\n  {err.strip()[-600:]}")
    return out


# ---- the libraries ------------------------------------------------------------------------------------


class Tutti:
    """Also `shared`, with memory from the group, and `copy`, which only copies memory."""

    def __init__(self, tutti, name="tutti", options=(), op=None):
        self.tutti, self.name, self.options, self.op = tutti, name, options, op

    def start(self, n):
        self.n = n

    def turn(self, op, sizes, budget):
        words = [self.tutti, "bench", self.op or op, "-n", str(self.n), "--tsv", "--budget", str(budget),
                 "--sizes", ",".join(str(s) for s in sizes), *self.options]
        if form_of(op) == "in":
            words.append("--in-place")
        lines = [line.split("\t") for line in run(words).splitlines()]
        if not lines:
            return {}
        at = {name: i for i, name in enumerate(lines[0])}
        time_at, p99_at, wrong_at = at["min_us" if LEAST else "time_us"], at["p99_us"], at["wrong"]
        return {size: (float(row[time_at]), float(row[p99_at]), max(0, int(row[wrong_at])))
                for size, row in zip(sizes, lines[1:])}

    def stop(self):
        pass


class Mpi:
    def __init__(self, name, mpicc, mpirun, out):
        self.name, self.mpirun = name, mpirun
        self.program = os.path.join(out, f"mpi_coll_{name}")
        subprocess.run([mpicc, "-O2", "-o", self.program, os.path.join(HERE, "peers", "mpi_coll.c")], check=True,
                       capture_output=True)

    def start(self, n):
        crowded = n > len(os.sched_getaffinity(0))
        self.env = {}
        words = [self.mpirun]
        if self.name.startswith("ompi"):
            self.env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            if crowded:
                many = ["--oversubscribe"] if self.name == "ompi4" else ["--map-by", ":OVERSUBSCRIBE"]
                words += [*many, "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
            else:
                words += ["--bind-to", "core"]
        elif crowded:
            # The newer one knows these, the older one cannot give its core away.
            self.env = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
                        "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "10"}
        else:
            words += ["-bind-to", "core"]
        self.command = words + ["-n", str(n), self.program]

    def turn(self, op, sizes, budget):
        return parse(run([*self.command, op, form_of(op), str(budget), str(TURN_LIMIT), *map(str, sizes)],
                         self.env, 10 * TURN_LIMIT))

    def stop(self):
        pass


class Gloo:
    """Its ranks take seconds to start, so they stay; between turns they wait without using a core."""

    name = "gloo"

    def __init__(self, python):
        self.python = python
        self.ranks = []

    def start(self, n):
        self.folder = tempfile.TemporaryDirectory()
        store = os.path.join(self.folder.name, "store")
        env = dict(os.environ, OMP_NUM_THREADS="1")
        self.ranks = [subprocess.Popen([self.python, os.path.join(HERE, "peers", "gloo_coll.py"), str(r), str(n),
                                        store], stdin=subprocess.PIPE, text=True, env=env,
                                       stdout=subprocess.PIPE if r == 0 else subprocess.DEVNULL)
                      for r in range(n)]
        self.read("ready")

    def read(self, last):
        """Lines up to the one that says `last`."""
        guard = threading.Timer(300, self.kill)
        guard.start()
        lines = []
        for line in self.ranks[0].stdout:
            if line.strip() == last:
                break
            lines.append(line)
        else:
            print("  gloo ended early")
        guard.cancel()
        return "".join(lines)

    def turn(self, op, sizes, budget):
        try:
            for p in self.ranks:
                p.stdin.write(f"{op} {form_of(op)} {budget} {TURN_LIMIT} {' '.join(map(str, sizes))}\n")
                p.stdin.flush()
        except OSError:
            return {}
        return parse(self.read("done"))

    def kill(self):
        for p in self.ranks:
            p.kill()

    def stop(self):
        for p in self.ranks:
            try:
                p.stdin.close()
            except OSError:
                pass
        for p in self.ranks:
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.ranks = []
        self.folder.cleanup()


def find_mpi(name, out):
    where = {"ompi4": ("mpicc.openmpi", "mpirun.openmpi"), "mpich4": ("mpicc.mpich", "mpirun.mpich")}.get(name)
    if where is None:
        folder = os.environ.get(f"BENCH_{name.upper()}", "")
        where = (os.path.join(folder, "bin", "mpicc"), os.path.join(folder, "bin", "mpirun"))
    if not all(shutil.which(w) for w in where):
        print(f"coll_compare: {name} is missing ({where[0]}), left out")
        return None
    return Mpi(name, *where, out)


def find_libraries(tutti, wanted, out):
    libraries = [Tutti(tutti), Tutti(tutti, "shared", ["--shared"]), Tutti(tutti, "copy", op="copy")]
    for name in MPIS:
        if name in wanted:
            libraries.append(find_mpi(name, out))
    python = os.environ.get("BENCH_TORCH")
    if "gloo" in wanted and python:
        libraries.append(Gloo(python))
    elif "gloo" in wanted:
        print("coll_compare: BENCH_TORCH is not set, gloo is left out")
    return [library for library in libraries if library]


# ---- measuring ----------------------------------------------------------------------------------------


def sizes_for(library, op, n, sizes):
    """None: no turn."""
    if op == "barrier":
        return None if library.name in ("shared", "copy") else [0]
    if library.name == "shared" and (n != 2 or op not in SHARED_OPS):
        return None
    if library.name in ("shared", "copy"):
        return [s for s in sizes if s >= 1 << 20] if n == 2 else None
    return sizes


SPENT = {}  # seconds, of all turns of a library


def measure_op(libraries, op, n, args):
    """(library, size) -> [(median, p99, wrong) of each round]."""
    found, skipped, slow = {}, set(), set()
    for number in range(args["rounds"]):
        turn = number % len(libraries)
        for library in libraries[turn:] + libraries[:turn]:
            sizes = sizes_for(library, op, n, args["sizes"])
            # Large sizes vary little and take long: every other round.
            sizes = [s for s in sizes or [] if (library.name, s) not in skipped and (s < LARGE or number % 2 == 0)]
            if not sizes or library.name in slow:
                continue
            start = time.monotonic()
            rows = library.turn(op, sizes, args["budget"])
            took = time.monotonic() - start
            SPENT[library.name] = SPENT.get(library.name, 0) + took
            if took > 1.5 * TURN_LIMIT:
                slow.add(library.name)
            for size in sizes:
                if size in rows:
                    found.setdefault((library.name, size), []).append(rows[size])
                else:
                    skipped.add((library.name, size))
    for name in sorted({name for name, _ in skipped}):
        print(f"  {name}: too slow or failed at {', '.join(words_of(s) for l, s in sorted(skipped) if l == name)}")
    return found


def rows_of(op, n, found):
    """Rows of the table: case, metric, tutti, peer, peer value, ratio."""
    rows = []
    median = {key: statistics.median(r[0] for r in values) for key, values in found.items()}
    p99 = {key: statistics.median(r[1] for r in values) for key, values in found.items()}
    for name, size in sorted(median, key=lambda key: (key[1], key[0])):
        if ("tutti", size) not in median:
            continue
        case = f"{op}, {n} ranks" + (f", {words_of(size)}" if size else "")
        ours = median["tutti", size]
        if name == "shared":
            rows.append((case, "us, memory of the group", median[name, size], "tutti staged", ours,
                         ours / median[name, size]))
        elif name == "copy" and op in TRAFFIC:
            bound = median[name, size] * TRAFFIC[op](n) / 2
            rows.append((case, "us, bound by copying", ours, "bound", bound, bound / ours))
            if ("shared", size) in median:
                shared = median["shared", size]
                rows.append((case, "us, memory of the group, bound by copying", shared, "bound", bound,
                             bound / shared))
        elif name not in ("tutti", "copy"):
            rows.append((case, "us", ours, name, median[name, size], median[name, size] / ours))
            rows.append((case, "p99 us", p99["tutti", size], name, p99[name, size],
                         p99[name, size] / p99["tutti", size]))
    return rows


def print_op(op, n, found):
    names = [name for name in ("tutti", "shared", "copy", *MPIS, "gloo") if any(k[0] == name for k in found)]
    print(f"{op}, {n} ranks, us" + "".join(f"{name:>11}" for name in names))
    for size in sorted({size for _, size in found}):
        cells = []
        for name in names:
            values = found.get((name, size))
            cells.append(f"{statistics.median(v[0] for v in values):>11.2f}" if values else f"{'-':>11}")
        print(f"{words_of(size):>{len(op) + 13}}" + "".join(cells), flush=True)
    for (name, size), values in found.items():
        if sum(v[2] for v in values):
            print(f"  WRONG RESULTS: {name} at {words_of(size)}")


# ---- starting -----------------------------------------------------------------------------------------


def start_once(command, env=None):
    """Seconds from here to the end of the slowest rank's first all_reduce, and the memory it took."""
    start = time.monotonic()
    lines = [line.split() for line in run(command, env, 120).splitlines()]
    done = [words[words.index("done"):] for words in lines if "done" in words]
    if not done:
        return None
    return max(float(w[1]) for w in done) - start, max(float(w[2]) for w in done) / 1024


def measure_start(tutti, start_program, rounds):
    n, python, ours, theirs = 4, os.environ.get("BENCH_TORCH"), [], []
    for _ in range(rounds):
        ours += [start_once([tutti, "run", "--quiet", "-n", str(n), start_program]) for _ in range(3)]
        if python:
            theirs.append(start_once([python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                                      str(n), os.path.join(HERE, "peers", "gloo_start.py")],
                                     {"OMP_NUM_THREADS": "1"}))
    ours, theirs = [o for o in ours if o], [t for t in theirs if t]
    if not ours or not theirs:
        return []
    rows = []
    for i, metric in enumerate(("s to the first all_reduce", "resident MB of a rank")):
        a, b = statistics.median(o[i] for o in ours), statistics.median(t[i] for t in theirs)
        rows.append((f"start, {n} ranks", metric, a, "torchrun, gloo", b, b / a))
        print(f"start, {n} ranks, {metric}: tutti {a:.4g}, torchrun with gloo {b:.4g}, ratio {b / a:.1f}")
    return rows


# ---- judging ------------------------------------------------------------------------------------------


def size_in(case):
    words = case.split(", ")[-1].split()
    scale = {"B": 1, "KB": 1 << 10, "MB": 1 << 20}
    return int(words[0]) * scale[words[1]] if len(words) == 2 and words[1] in scale else 0


def judge_floor(title, rows, floor):
    """One line, and the cases that miss it."""
    if not rows:
        return
    missed = [r for r in rows if r[5] < floor]
    print(f"{'ok    ' if not missed else 'MISSED'} {title}: at least {floor:g}, {len(rows) - len(missed)} of {len(rows)}; "
          f"median {statistics.median(r[5] for r in rows):.2f}, least {min(r[5] for r in rows):.2f}")
    for r in sorted(missed, key=lambda r: r[5])[:12]:
        print(f"         {r[5]:6.2f}  {r[0]}, {r[3]}: {r[2]:.4g} against {r[4]:.4g}")


def judge_medians(rows):
    missed = []
    for op in OPS:
        for peer in MPIS:
            ratios = [r[5] for r in rows if r[0].startswith(op + ",") and r[3] == peer]
            if ratios and statistics.median(ratios) < 1.3:
                missed.append(f"{op} {peer} {statistics.median(ratios):.2f}")
    print(f"{'MISSED' if missed else 'ok    '} 2 ranks, median over the sizes of each operation and MPI: at least 1.3"
          + (": " + "; ".join(missed) if missed else ""))


def judge(rows):
    times = [r for r in rows if r[1] == "us"]
    for n in (2, 4):
        here = [r for r in times if f", {n} ranks" in r[0]]
        mpi = [r for r in here if r[3] in MPIS]
        gloo = [r for r in here if r[3] == "gloo"]
        judge_floor(f"{n} ranks, every MPI at every size", mpi, 1.0)
        if n == 2 and mpi:
            judge_medians(mpi)
        judge_floor(f"{n} ranks, Gloo up to 64 KB", [r for r in gloo if size_in(r[0]) <= 64 << 10], 50)
        if n == 2:
            judge_floor("2 ranks, Gloo from 1 MB", [r for r in gloo if size_in(r[0]) >= 1 << 20], 3)
    bound = [r for r in rows if r[1] == "us, bound by copying" and size_in(r[0]) >= 4 << 20]
    judge_floor("2 ranks from 4 MB, share of the copy bound", bound, 0.7)
    judge_floor("2 ranks from 1 MB, memory of the group over staged",
                [r for r in rows if r[3] == "tutti staged"], 1.5)
    judge_floor("start, torchrun over tutti run", [r for r in rows if r[1].startswith("s to")], 50)
    for r in rows:
        if r[1].startswith("resident"):
            print(f"{'ok    ' if r[2] < 20 else 'MISSED'} resident memory of a rank: below 20 MB, {r[2]:.1f}")


# ---- files --------------------------------------------------------------------------------------------

COLOURS = {"tutti": "#cc0000", "shared": "#f57900", "copy": "#babdb6", "ompi4": "#3465a4", "mpich4": "#4e9a06",
           "ompi5": "#729fcf", "mpich5": "#8ae234", "gloo": "#75507b"}


def panel(out, x0, y0, width, height, title, found):
    """Time over size, both logarithmic."""
    points = {}
    for (name, size), values in found.items():
        if size:
            points.setdefault(name, []).append((math.log2(size), math.log10(statistics.median(v[0] for v in values))))
    flat = [p for line in points.values() for p in line]
    if not flat:
        return
    left, right = min(p[0] for p in flat), max(p[0] for p in flat) + 1e-9
    low, high = math.floor(min(p[1] for p in flat)), math.ceil(max(p[1] for p in flat) + 1e-9)
    across = lambda x: x0 + (x - left) / (right - left) * width
    up = lambda y: y0 + height - (y - low) / (high - low) * height
    out.append(f'<text x="{x0}" y="{y0 - 8}" font-weight="bold">{title}</text>')
    for y in range(low, high + 1):
        out.append(f'<path d="M{x0} {up(y):.1f}h{width}" stroke="#ddd"/>'
                   f'<text x="{x0 - 4}" y="{up(y) + 4:.1f}" text-anchor="end">{10.0 ** y:g}</text>')
    for x in (10, 20):
        if left < x < right:
            out.append(f'<path d="M{across(x):.1f} {y0}v{height}" stroke="#ddd"/>'
                       f'<text x="{across(x):.1f}" y="{y0 + height + 14}" text-anchor="middle">1 {"KM"[x // 10 - 1]}B</text>')
    for name, line in points.items():
        text = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in sorted(line))
        out.append(f'<polyline fill="none" stroke="{COLOURS[name]}" stroke-width="1.8" points="{text}"/>')


def write_plot(path, measured):
    panels = [(key, found) for key, found in measured.items() if any(size for _, size in found)]
    columns, width, height = 4, 250, 170
    lines = (len(panels) + columns - 1) // columns
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * (width + 70) + 20}" '
           f'height="{lines * (height + 60) + 50}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           '<text x="50" y="20">microseconds over bytes:</text>']
    for i, (name, colour) in enumerate(COLOURS.items()):
        out.append(f'<text x="{230 + 90 * i}" y="20" fill="{colour}" font-weight="bold">{name}</text>')
    for i, ((op, n), found) in enumerate(panels):
        panel(out, 60 + i % columns * (width + 70), 60 + i // columns * (height + 60), width, height,
              f"{op}, {n} ranks", found)
    out.append("</svg>")
    with open(path, "w") as f:
        f.write("\n".join(out))


def write_table(path, rows):
    with open(path, "w") as f:
        f.write("case\tmetric\ttutti\tpeer\tpeer_value\tratio\n")
        for r in rows:
            f.write(f"{r[0]}\t{r[1]}\t{r[2]:.6g}\t{r[3]}\t{r[4]:.6g}\t{r[5]:.4g}\n")


def arguments():
    get = os.environ.get
    most = bytes_of(get("BENCH_MAX", "256M"))
    return {
        "rounds": int(get("BENCH_ROUNDS", "3")),
        "sizes": [bytes_of(s) for s in get("BENCH_SIZES", ",".join(SIZES)).split(",") if bytes_of(s) <= most],
        "peers": get("BENCH_PEERS", ",".join((*MPIS, "gloo"))).split(","),
        "ops": get("BENCH_OPS", ",".join(OPS)).split(","),
        "ranks": [int(n) for n in get("BENCH_RANKS", "2,4").split(",")],
        "budget": int(get("BENCH_BUDGET", "30")),
        "start": get("BENCH_START", "1") != "0",
    }


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: coll_compare.py BUILD_DIR OUT_DIR")
    build, out, args = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), arguments()
    os.makedirs(out, exist_ok=True)
    tutti = os.path.join(build, "bin", "tutti")
    begun, rows, measured = time.monotonic(), [], {}
    libraries = find_libraries(tutti, args["peers"], out)
    for n in args["ranks"]:
        for library in libraries:
            library.start(n)
        try:
            for op in args["ops"]:
                found = measured[op, n] = measure_op(libraries, op, n, args)
                print_op(op, n, found)
                rows += rows_of(op, n, found)
                write_table(os.path.join(out, "collectives.tsv"), rows)
        finally:
            for library in libraries:
                library.stop()
    if args["start"]:
        rows += measure_start(tutti, os.path.join(build, "bench", "start"), args["rounds"])
    write_table(os.path.join(out, "collectives.tsv"), rows)
    write_plot(os.path.join(out, "collectives.svg"), measured)
    spent = ", ".join(f"{name} {seconds:.0f}" for name, seconds in SPENT.items())
    if LEAST:
        print("these are least times, not medians: BENCH_STAT=least")
    print(f"measured in {time.monotonic() - begun:.0f} s: {spent}")
    judge(rows)


if __name__ == "__main__":
    main()

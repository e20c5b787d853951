# SPDX-License-Identifier: Apache-2.0
"""The table of results of PyTorch's suite: one row for each test, one column for each pair of
backend (gloo; tutti, under the name gloo; named, Tutti under its own name) and world size. A cell is
`pass`, `fail` or `skip: why`; a test that runs only under lifted conditions has the name of the way
behind it (`pass/mpi`), see pytorch_suite.WAYS."""

import re

HEADER = """\
# PyTorch {torch}, torch.testing._internal.distributed.distributed_test; `make test-torch-full` writes this.
# pass and fail: as the suite itself runs the test over Gloo on a machine without GPU. Behind a slash, what
# had to be lifted for it to run at all: mpi (the suite thinks that only MPI has the operation, or wants 8
# ranks), cpu (it wants GPUs: "cuda" means the CPU here), nccl (as cpu, and it thinks that only NCCL has it).
# Columns: Gloo and Tutti under the name "gloo", Tutti under the name "tutti" (named); and the number of ranks.
"""
COLUMNS = ("gloo", "tutti", "named")


def normal(why):
    """The reason of a skip without what changes from run to run."""
    if re.match(r"https?://|Test is failing, see http", why):
        return "disabled upstream"
    match = re.match(r"Test requires backend \S+ to be one of \{'(\w+)'\}", why)
    if match:
        return f"{match.group(1)} only"
    return re.sub(r"\s+", " ", why).rstrip(".")


def cell(result, way, why):
    if result == "skip":
        return "skip: " + normal(why)
    return result if way == "own" else f"{result}/{way}"


def passed(text):
    return text.split("/")[0] == "pass"


def read(path):
    """{test: {column: cell}} of a table; empty when there is none."""
    try:
        with open(path) as file:
            lines = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    except FileNotFoundError:
        return {}
    head = lines[0][1:]
    return {line[0]: dict(zip(head, line[1:])) for line in lines[1:]}


def write(path, rows, torch_version):
    known = {column for row in rows.values() for column in row}
    sizes = sorted({int(column.split("-")[1]) for column in known})
    head = [f"{name}-{size}" for size in sizes for name in COLUMNS if f"{name}-{size}" in known]
    with open(path, "w") as file:
        file.write(HEADER.format(torch=torch_version))
        file.write("\t".join(["test", *head]) + "\n")
        for test in sorted(rows):
            file.write("\t".join([test, *(rows[test].get(column, "") for column in head)]) + "\n")


def merge(rows, column, size, cells, only=""):
    """Replaces one column, or its cells of the tests that `only` matches; tests that no longer exist
    lose their cell, and their row with the last."""
    column = f"{column}-{size}"
    for test, row in rows.items():
        if re.search(only, test):
            row.pop(column, None)
    for test, text in cells.items():
        rows.setdefault(test, {})[column] = text
    for test in [test for test, row in rows.items() if not any(row.values())]:
        del rows[test]


def missing(rows, column, size, cells):
    """The tests that pass in this column of the table, or over Gloo, and did not pass now. Gloo is no
    measure for "named": where PyTorch says what a backend is called, all others are "custom"."""
    wanted = [column] if column == "named" else [column, "gloo"]
    found = []
    for test, row in sorted(rows.items()):
        if any(passed(row.get(f"{name}-{size}", "")) for name in wanted):
            if not passed(cells.get(test, "")):
                found.append(test)
    return found

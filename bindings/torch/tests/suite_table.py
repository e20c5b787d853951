# SPDX-License-Identifier: Apache-2.0
"""The table of results of PyTorch's suite: one row for each test, one column for each pair of
backend and world size. A cell is `pass`, `fail` or `skip: why`; a test that runs only under lifted
conditions has the name of the way behind it (`pass/mpi`), see pytorch_suite.WAYS."""

import re

HEADER = """\
# PyTorch {torch}, torch.testing._internal.distributed.distributed_test; `make test-torch-full` writes this.
# pass and fail: as the suite itself runs the test over Gloo on a machine without GPU. Behind a slash, what
# had to be lifted for it to run at all: mpi (the suite thinks that only MPI has the operation, or wants 8
# ranks), cpu (it wants GPUs: "cuda" means the CPU here), nccl (as cpu, and it thinks that only NCCL has it).
"""
BACKENDS = ("gloo", "tutti")


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
    sizes = sorted({column.split("-")[1] for row in rows.values() for column in row})
    head = [f"{backend}-{size}" for size in sizes for backend in BACKENDS]
    with open(path, "w") as file:
        file.write(HEADER.format(torch=torch_version))
        file.write("\t".join(["test", *head]) + "\n")
        for test in sorted(rows):
            file.write("\t".join([test, *(rows[test].get(column, "") for column in head)]) + "\n")


def merge(rows, backend, size, cells):
    """Replaces one column; tests that no longer exist lose their cell, and their row with the last."""
    column = f"{backend}-{size}"
    for test in list(rows):
        rows[test].pop(column, None)
    for test, text in cells.items():
        rows.setdefault(test, {})[column] = text
    for test in [test for test, row in rows.items() if not any(row.values())]:
        del rows[test]


def missing(rows, backend, size, cells):
    """The tests that pass in the table, over Gloo or over this backend, and did not pass now."""
    found = []
    for test, row in sorted(rows.items()):
        wanted = any(passed(row.get(f"{name}-{size}", "")) for name in ("gloo", backend))
        if wanted and not passed(cells.get(test, "")):
            found.append(test)
    return found

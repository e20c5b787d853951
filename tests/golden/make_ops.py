#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/ops/*.safetensors: operators, their results and gradients, by PyTorch.

The cases are in cases_*.py, what an operator's name and attributes mean in torch_ops.py,
the file format in README.md. Name families to write only those.

    scripts/torch-venv >/dev/null && build/torch-venv/bin/python tests/golden/make_ops.py
"""

import pathlib
import sys
import warnings

import torch

import cases_elementwise
import cases_nn
import cases_reduce
import cases_shape
import cases_types

MODULES = [cases_elementwise, cases_reduce, cases_shape, cases_nn, cases_types]


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    warnings.simplefilter("ignore")
    folder = pathlib.Path(__file__).resolve().parent / "ops"
    folder.mkdir(exist_ok=True)
    total = count = 0
    for make in (family for module in MODULES for family in module.FAMILIES):
        if sys.argv[1:] and make.__name__ not in sys.argv[1:]:
            continue
        book = make()
        path = folder / f"{book.family}.safetensors"
        book.write(path)
        size = path.stat().st_size
        print(f"{book.family}: {len(book.cases)} cases, {size} bytes")
        total, count = total + size, count + len(book.cases)
    print(f"{count} cases, {total} bytes")


if __name__ == "__main__":
    main()

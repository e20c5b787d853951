#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random operator cases, computed by PyTorch now and compared by our test program.

    tests/parity/ops.py build/release

PARITY_CASES: how many in all (default 3000); PARITY_SEED: which (default: the clock).
"""

import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))

import torch  # noqa: E402

import cases_random  # noqa: E402
import ours  # noqa: E402


def main():
    build, seed, cases = ours.settings(3000)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = ours.empty_folder("ops")
    share = max(1, cases // len(cases_random.FAMILIES))
    for family in cases_random.FAMILIES:
        cases_random.book(family, seed, share).write(folder / f"{family}.safetensors")
    ours.compare(build, folder)


if __name__ == "__main__":
    main()

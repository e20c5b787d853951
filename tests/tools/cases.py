# SPDX-License-Identifier: Apache-2.0
"""Cases of the scripts beside this one: functions marked with @test, which fail by raising."""
import sys

tests = []


def test(fn):
    tests.append(fn)
    return fn


def run_cases(label, all_well):
    """Runs those whose names contain an argument behind the first (all, without any). Ends the program."""
    wanted = sys.argv[2:]
    bad = 0
    for fn in tests:
        if wanted and not any(w in fn.__name__ for w in wanted):
            continue
        try:
            fn()
        except Exception as e:
            bad += 1
            print(f"{label}: {fn.__name__}: {type(e).__name__}: {e}")
    if bad == 0:
        print(f"{label}: {all_well}")
    sys.exit(1 if bad else 0)

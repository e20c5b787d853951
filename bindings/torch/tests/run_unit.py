# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of this folder: python run_unit.py [-v] [name ...]; a name is a module (test_faults) or a test
(test_faults.Killed.test_broadcast). The last line counts them; the exit status is 0 only if all passed."""

import os
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def modules():
    """All but those that take minutes, which have a script of their own."""
    names = sorted(name[:-3] for name in os.listdir(HERE) if name.startswith("test_") and name.endswith(".py"))
    return [name for name in names if name not in ("test_programs",)]


class Result(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        self.times = getattr(self, "times", [])
        self.times.append((time.monotonic() - self.began, test.id()))


def main(argv):
    verbose = "-v" in argv
    names = [a for a in argv if a != "-v"]
    sys.path.insert(0, HERE)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(names or modules())
    begin = time.monotonic()
    result = unittest.TextTestRunner(verbosity=2 if verbose else 1, resultclass=Result).run(suite)
    bad = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    if verbose:
        for spent, name in sorted(getattr(result, "times", []), reverse=True)[:10]:
            print(f"{spent:7.2f} s  {name}")
    print(f"{result.testsRun} tests, {bad} failed, {len(result.skipped)} skipped, "
          f"{time.monotonic() - begin:.1f} s")
    return 1 if bad or result.testsRun == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

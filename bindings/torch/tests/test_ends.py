# SPDX-License-Identifier: Apache-2.0
"""Programs that end without destroying their groups end well, and soon: see ends.py."""

import os
import subprocess
import sys
import unittest

from ranks import scratch

HERE = os.path.dirname(os.path.abspath(__file__))


class Ends(unittest.TestCase):
    def test_all(self):
        with scratch() as folder:
            done = subprocess.run([sys.executable, os.path.join(HERE, "ends.py"), folder], timeout=280,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        ends = [line.split() for line in done.stdout.splitlines() if len(line.split()) == 3]
        statuses = {(how, rank): status for how, rank, status in ends if status.isdigit()}
        self.assertEqual(len(statuses), 18, done.stdout)
        self.assertEqual({k: s for k, s in statuses.items() if s != "0"}, {}, done.stdout)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs print over Tutti what they print over Gloo: programs/run.py."""

import os
import runpy

runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "run.py"), run_name="__main__")

# SPDX-License-Identifier: Apache-2.0
"""One session of PyTorch's distributed suite: a world size, a backend and a set of rules.

The suite decides while it is imported which tests suit os.environ["BACKEND"], so every session is a
process of its own, forked from one that has imported PyTorch already. It forks once more for each
test (the driver, which is what unittest would call the main process) and the driver forks the ranks:
nothing is imported twice, and whatever a test leaves behind ends with its driver.
"""

import contextlib
import ctypes
import importlib
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import unittest

import suite_devices

SUITE = "torch.testing._internal.distributed.distributed_test"


def die_with_parent():
    """Asks Linux to kill this process when its parent ends, however it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class AsGloo(str):
    """The name of a backend that the suite's conditions take for Gloo: as good as "gloo" where it is
    compared, itself where it is used."""

    def __eq__(self, other):
        return other == "gloo" or str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash("gloo")


class Session:
    """What to run: `rules` is the backend whose answers the suite's conditions get while it is
    imported, `backend` the name that its tests then use, `any_size` lets tests run that ask for more
    ranks than they need, `devices` those that ask for accelerators (see suite_devices)."""

    def __init__(self, rules, backend, size, any_size=False, devices=False):
        self.rules = rules
        self.backend = backend
        self.size = size
        self.any_size = any_size
        self.devices = devices


def load(session):
    """Imports the suite under the session's rules; returns {test name: unittest class}."""
    os.environ["WORLD_SIZE"] = str(session.size)
    os.environ["BACKEND"] = session.rules
    os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())
    if session.devices:
        suite_devices.install(session.size, session.backend)
    suite = importlib.import_module(SUITE)
    suite.BACKEND = AsGloo(session.backend)
    for events in ("PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS"):
        getattr(suite, events).append(session.backend)
    # skip_if_small_worldsize asks while a test runs: it wants 8 ranks of all but "mpi", although its
    # tests talk among ranks 1 and 2.
    os.environ["BACKEND"] = "mpi" if session.any_size and session.size >= 3 else session.backend
    return collect(suite, session.devices)


def collect(suite, devices):
    """The tests of the suite: those of TestDistBackend, and those of other classes that it has."""
    import torch.multiprocessing as mp

    class OnForkedRanks(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        """The suite's tests, on ranks that are forked where upstream spawns interpreters."""

        def setUp(self):
            super().setUp()
            self._start_processes(mp.get_context("fork").Process)

        @classmethod
        def _run(cls, *args, **kwargs):
            die_with_parent()
            with suite_devices.OnCpu() if devices else contextlib.nullcontext():
                super()._run(*args, **kwargs)

    classes = [OnForkedRanks]
    for value in vars(suite).values():
        if isinstance(value, type) and issubclass(value, unittest.TestCase):
            if value.__module__ == suite.__name__ and value is not suite.TestDistBackend:
                classes.append(value)
    tests = {}
    for cls in classes:
        for name in unittest.TestLoader().getTestCaseNames(cls):
            tests[name if cls is OnForkedRanks else f"{cls.__name__}.{name}"] = (cls, name)
    return tests


def outcome(result):
    """(result, detail) of a unittest.TestResult that has seen one test."""
    for kind in (result.errors, result.failures):
        if kind:
            return "fail", kind[0][1]
    if result.unexpectedSuccesses:
        return "fail", "a test that is expected to fail passed"
    if result.skipped:
        return "skip", result.skipped[0][1]
    return "pass", ""


def drive(cls, name, log, channel):
    """The driver: runs one test and writes its outcome. Never returns."""
    die_with_parent()
    os.setsid()  # the ranks can be killed with us
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(out, 1)
    os.dup2(out, 2)
    temp = tempfile.mkdtemp(prefix="suite-")
    tempfile.tempdir = os.environ["TMPDIR"] = temp
    result = unittest.TestResult()
    try:
        unittest.TestSuite([cls(name)]).run(result)  # a suite, for it calls setUpClass
        answer = outcome(result)
    except BaseException as error:  # SystemExit of a suite that gives up is a failure too
        answer = "fail", f"{type(error).__name__}: {error}"
    os.write(channel, json.dumps([*answer, temp]).encode()[:60000])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class Driver:
    """A test under way, seen from the session."""

    def __init__(self, name, case, log, limit):
        self.name = name
        self.log = log
        self.started = time.monotonic()
        self.ends = self.started + limit
        self.text = b""
        self.channel, far = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.channel)
            drive(*case, log, far)
        os.close(far)
        os.set_blocking(self.channel, False)

    def read(self):
        """Takes what the driver has written; true at its end."""
        try:
            part = os.read(self.channel, 65536)
        except BlockingIOError:
            return False
        self.text += part
        # The ranks inherit the pipe, so the answer counts, not the end of file.
        return not part or self.text.endswith(b"]")

    def finish(self, late):
        """Ends the driver and all its ranks; returns (name, result, detail, seconds)."""
        seconds = time.monotonic() - self.started
        if not late:
            wait_until(self.pid, time.monotonic() + 5)
        for kill in (os.killpg, os.kill):
            try:
                kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass
        os.close(self.channel)
        try:
            result, detail, temp = json.loads(self.text)
            shutil.rmtree(temp, ignore_errors=True)
        except ValueError:
            result = "fail"
            detail = f"no result after {seconds:.0f} s" if late else "the driver died"
        if result == "fail":
            detail += "\n--- log\n" + tail(self.log)
        return self.name, result, detail, seconds


def wait_until(pid, ends):
    """Waits for the end of a driver that has answered, without reaping it."""
    while time.monotonic() < ends:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.01)


def tail(path, lines=40):
    try:
        with open(path, errors="replace") as file:
            return "".join(file.readlines()[-lines:])
    except OSError:
        return ""


def run(tests, jobs, limit, logs, report):
    """Runs the tests, `jobs` at a time, and calls report(name, result, detail, seconds) for each. A
    test has `limit` seconds, or more if the suite itself gives it more; those come first."""
    from torch.testing._internal.common_distributed import get_timeout

    limits = {name: max(limit, get_timeout(name) + 20.0) for name in tests}
    waiting = sorted(tests, key=lambda name: (-limits[name], name))[::-1]
    active = {}
    os.makedirs(logs, exist_ok=True)
    try:
        while waiting or active:
            while waiting and len(active) < jobs:
                name = waiting.pop()
                cls, method = tests[name]
                case = getattr(cls, method)
                if getattr(case, "__unittest_skip__", False):
                    report(name, "skip", case.__unittest_skip_why__, 0.0)
                    continue
                driver = Driver(name, tests[name], os.path.join(logs, name + ".log"), limits[name])
                active[driver.channel] = driver
            if not active:
                break
            next_end = min(d.ends for d in active.values())
            ready = select.select(list(active), [], [], max(0.0, next_end - time.monotonic()))[0]
            now = time.monotonic()
            for channel, driver in list(active.items()):
                done = channel in ready and driver.read()
                if done or now >= driver.ends:
                    del active[channel]
                    report(*driver.finish(late=not done))
    finally:
        for driver in active.values():
            driver.finish(late=True)

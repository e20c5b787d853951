#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_nodes.py BUILD_DIR [NAME...]: jobs of several launchers, which meet on this machine as if it were several:
success, a failure on either side, restarts, secrets; and groups where /dev/shm has no room. Nothing here waits longer
than LIMIT."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from cases import run_cases, test

LIMIT = 120
build = os.path.abspath(sys.argv[1])
tutti = os.path.join(build, "bin/tutti")
fit_a_line = os.path.join(build, "examples/06_process_group")
digits = os.path.join(build, "examples/09_ddp_digits")


def free_port():
    """Somebody else may take it before we do, but the kernel hands out ports in turn."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def clean_env(more):
    return {**{k: v for k, v in os.environ.items() if not k.startswith("TUTTI_")}, **more}


def node(k, n_nodes, port, words, program, env):
    return subprocess.Popen([tutti, "run", "--nnodes", str(n_nodes), "--node-rank", str(k), "--rdzv",
                             f"127.0.0.1:{port}", *[str(w) for w in words], *program],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_env(env))


def job(words, program, n_nodes=2, env=None, order=None):
    """Runs a launcher per node; gives (exit code, standard output, standard error) of each."""
    port = free_port()
    env = {"TUTTI_JOB_SECRET": "correct horse battery staple", **(env or {})}
    nodes = [None] * n_nodes
    try:
        for k in order or range(n_nodes):
            nodes[k] = node(k, n_nodes, port, words, program, env)
        ends = [p.communicate(timeout=LIMIT) for p in nodes]
        return [(p.returncode, *end) for p, end in zip(nodes, ends)]
    finally:
        for p in nodes:
            if p is not None and p.poll() is None:
                p.kill()
                p.communicate()


def lines(text):
    return sorted(text.splitlines())


# ---- several nodes --------------------------------------------------------------------------------------

@test
def ranks_are_numbered_node_by_node():
    program = ["sh", "-c", "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK"]
    for order in [0, 1], [1, 0]:
        ends = job(["-n", 2], program, order=order)
        assert [e[0] for e in ends] == [0, 0], ends
        assert lines(ends[0][1]) == ["[0] 0/4 0/2 0", "[1] 1/4 1/2 0"], ends
        assert lines(ends[1][1]) == ["[2] 2/4 0/2 1", "[3] 3/4 1/2 1"], ends


@test
def a_group_spans_the_launchers():
    ends = job(["-n", 2], [fit_a_line])
    assert [e[0] for e in ends] == [0, 0], ends
    alone = subprocess.run([tutti, "run", "-n", "4", fit_a_line], capture_output=True, text=True, timeout=LIMIT,
                           env=clean_env({}))
    assert alone.returncode == 0, alone.stderr
    # The same line, whoever launched its ranks.
    assert lines(ends[0][1] + ends[1][1]) == lines(alone.stdout), (ends, alone.stdout)


@test
def three_nodes_of_one_rank_each():
    ends = job([], ["sh", "-c", "echo $RANK of $WORLD_SIZE"], n_nodes=3)
    assert [(e[0], e[1]) for e in ends] == [(0, f"[{k}] {k} of 3\n") for k in range(3)], ends


@test
def a_failing_rank_ends_every_node_with_its_code():
    for bad in 0, 3:
        ends = job(["-n", 2, "--grace", 1], ["sh", "-c", f"[ $RANK = {bad} ] && exit 7; exec sleep 60"])
        assert [e[0] for e in ends] == [7, 7], ends
        there, elsewhere = ends[bad // 2][2], ends[1 - bad // 2][2]
        assert re.search(rf"^ +{bad} .*code 7  <- first$", there, re.M), there
        assert f"rank {bad} " in elsewhere and "code 7" in elsewhere, elsewhere


@test
def a_killed_rank_is_named_on_both_nodes():
    ends = job(["-n", 2, "--grace", 1], ["sh", "-c", "[ $RANK = 2 ] && kill -KILL $$; exec sleep 60"])
    assert [e[0] for e in ends] == [137, 137], ends
    assert all("SIGKILL" in e[2] for e in ends), ends
    assert "rank 2 " in ends[0][2], ends[0][2]


@test
def a_group_whose_rank_dies_elsewhere_says_so():
    """The survivors of the group fail; the first failure is still the one that is told."""
    with tempfile.TemporaryDirectory() as d:
        program = f"[ $RANK = 1 ] && [ -e {d}/go ] && kill -KILL $$; exec {fit_a_line}"
        open(os.path.join(d, "go"), "w").close()
        ends = job(["--grace", 2], ["sh", "-c", program])
    assert [e[0] for e in ends] == [137, 137], ends
    assert "SIGKILL" in ends[0][2] and "SIGKILL" in ends[1][2], ends


@test
def restarts_are_of_all_nodes_together():
    program = ["sh", "-c", "echo try $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; "
               "[ $RANK = 3 ] && exit 5; exec sleep 60"]
    ends = job(["-n", 2, "--max-restarts", 1, "--grace", 1], program)
    assert [e[0] for e in ends] == [0, 0], ends
    assert all(f"[{r}] try 1" in ends[r // 2][1] for r in range(4)), ends
    ends = job(["-n", 1, "--max-restarts", 1, "--grace", 1], ["sh", "-c", "exit 5"])
    assert [e[0] for e in ends] == [5, 5], ends


@test
def a_signal_to_one_launcher_ends_the_others():
    port, env = free_port(), {"TUTTI_JOB_SECRET": "s" * 20}
    with tempfile.TemporaryDirectory() as d:
        program = ["sh", "-c", "echo $$ > $0/pid$RANK; exec sleep 60", d]
        nodes = [node(k, 2, port, ["--grace", 1], program, env) for k in range(2)]
        try:
            end = time.monotonic() + LIMIT
            while len(os.listdir(d)) < 2:
                assert time.monotonic() < end, "the ranks did not start"
                time.sleep(0.002)
            nodes[1].send_signal(signal.SIGTERM)
            ends = [p.communicate(timeout=LIMIT) for p in nodes]
            assert [p.returncode for p in nodes] == [143, 143], (nodes, ends)
        finally:
            for p in nodes:
                if p.poll() is None:
                    p.kill()
                    p.communicate()


def seconds_after_deaths(n_nodes):
    """Kills all launchers but that of node 0; gives the seconds until that one has ended."""
    port, env = free_port(), {"TUTTI_JOB_SECRET": "s" * 20}
    with tempfile.TemporaryDirectory() as d:
        program = ["sh", "-c", "echo $$ > $0/pid$RANK; exec sleep 60", d]
        nodes = [node(k, n_nodes, port, ["--grace", 1], program, env) for k in range(n_nodes)]
        try:
            end = time.monotonic() + LIMIT
            while len(os.listdir(d)) < n_nodes:
                assert time.monotonic() < end, "the ranks did not start"
                time.sleep(0.002)
            begin = time.monotonic()
            for p in nodes[1:]:
                p.kill()
            _, err = nodes[0].communicate(timeout=LIMIT)
            assert nodes[0].returncode == 1, (nodes[0].returncode, err)
            assert re.search(r"the launcher of node [12] is gone", err), err
            return time.monotonic() - begin
        finally:
            for p in nodes:
                if p.poll() is None:
                    p.kill()
                p.communicate()


def ends_soon(n_nodes):
    """A broken connection takes 2 s to be sure of; silence takes 10, and so does waiting for a farewell. The best of some
    attempts counts, because the machine may be busy."""
    times = []
    while len(times) < 4 and min(times, default=LIMIT) > 8:
        times.append(seconds_after_deaths(n_nodes))
    assert min(times) <= 8, times


@test
def a_killed_launcher_is_noticed_by_its_broken_connection():
    ends_soon(2)


@test
def nobody_waits_for_the_farewell_of_two_killed_launchers():
    ends_soon(3)


def handles(pid, sig):
    with open(f"/proc/{pid}/status") as f:
        caught, = [line.split()[1] for line in f if line.startswith("SigCgt")]
    return int(caught, 16) >> (sig - 1) & 1


def operations_of(pid, folder, rank):
    """How many collectives the rank has begun, as its own dump says."""
    path = os.path.join(folder, f"world.{rank}.json")
    if not handles(pid, signal.SIGUSR2):
        return 0
    os.kill(pid, signal.SIGUSR2)
    if not os.path.exists(path):
        return 0
    with open(path) as f:
        return json.load(f)["last_issued"]


@test
def nobody_asks_whether_a_rank_is_dead_that_was_killed():
    """The table of ends says how the rank ended, and the sentence about what ranks were doing does not ask."""
    with tempfile.TemporaryDirectory() as d:
        p = subprocess.Popen([tutti, "run", "-n", "3", "sh", "-c", f"echo $$ > {d}/pid$RANK; exec {digits}"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=clean_env({"TUTTI_FLIGHT_DIR": d + "/dumps"}))
        try:
            end, pids = time.monotonic() + LIMIT, []
            while len(pids) < 2 or operations_of(pids[0], d + "/dumps", 0) == 0:
                assert time.monotonic() < end, "the ranks did not begin to train"
                assert p.poll() is None, p.communicate()
                time.sleep(0.01)
                texts = [open(f"{d}/pid{r}").read() for r in (0, 1) if os.path.exists(f"{d}/pid{r}")]
                pids = [int(x) for x in texts if x.endswith("\n")]
            os.kill(pids[1], signal.SIGKILL)
            _, err = p.communicate(timeout=LIMIT)
        finally:
            if p.poll() is None:
                p.kill()
                p.communicate()
    assert p.returncode == 137 and re.search(r"^ +1 .*SIGKILL\)  <- first$", err, re.M), err
    assert "rank 1 left no dump before the end" in err and "dead?" not in err, err


# ---- secrets --------------------------------------------------------------------------------------------

@test
def the_secret_comes_from_a_file_or_the_environment():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "secret")
        with open(path, "w") as f:
            f.write("0123456789abcdef0123456789abcdef\n")
        os.chmod(path, 0o600)
        for env in {"TUTTI_JOB_SECRET": ""}, {"TUTTI_JOB_SECRET": "another one that does not count"}:
            ends = job(["--secret-file", path], [fit_a_line], env=env)
            assert [e[0] for e in ends] == [0, 0], ends


@test
def a_secret_in_the_environment_does_not_break_a_job_of_one_node():
    p = subprocess.run([tutti, "run", "-n", "2", fit_a_line], capture_output=True, text=True, timeout=LIMIT,
                       env=clean_env({"TUTTI_JOB_SECRET": "left over from another job"}))
    assert p.returncode == 0, p.stderr


@test
def another_secret_is_refused_and_told():
    port = free_port()
    nodes = [node(k, 2, port, [], ["true"], {"TUTTI_JOB_SECRET": f"the secret of node {k}"}) for k in range(2)]
    try:
        _, err = nodes[1].communicate(timeout=LIMIT)
        assert nodes[1].returncode not in (0, None) and "wrong secret" in err, err
        assert nodes[0].poll() is None # a stranger does not end the job
        nodes[0].terminate()
        _, err = nodes[0].communicate(timeout=LIMIT)
        assert nodes[0].returncode == 143 and "waiting for node 1" in err, (nodes[0].returncode, err)
    finally:
        for p in nodes:
            if p.poll() is None:
                p.kill()
                p.communicate()


@test
def launchers_that_disagree_are_both_told():
    port, env = free_port(), {"TUTTI_JOB_SECRET": "s" * 20}
    nodes = [node(k, 2, port, ["-n", 2 + k], ["true"], env) for k in range(2)]
    try:
        ends = [p.communicate(timeout=LIMIT) for p in nodes]
    finally:
        for p in nodes:
            if p.poll() is None:
                p.kill()
                p.communicate()
    assert [p.returncode for p in nodes] == [2, 2], ends
    assert re.search(r"node 1 .* has 2 nodes of 3 ranks, node 0 .* has 2 of 2", ends[0][1]), ends
    assert re.search(r"node 0 .* has 2 nodes of 2 ranks, node 1 .* has 2 of 3", ends[1][1]), ends


# ---- containers -----------------------------------------------------------------------------------------

@test
def ranks_in_different_pid_namespaces_are_told_so():
    apart = ["unshare", "--pid", "--fork", "--mount-proc"]
    may = shutil.which("unshare") is not None and subprocess.run([*apart, "true"], capture_output=True).returncode == 0
    if not may:
        print("nodes: pid namespaces: not tested, it takes unshare and the right to make them")
        return
    for both in False, True: # the second one in a namespace of its own, then each of them
        env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        ranks = [subprocess.Popen([*(apart if r == 1 or both else []), fit_a_line], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=clean_env({**env, "RANK": str(r)}))
                 for r in range(2)]
        try:
            ends = [p.communicate(timeout=LIMIT) for p in ranks]
        finally:
            for p in ranks:
                if p.poll() is None:
                    p.kill()
                    p.communicate()
        assert all(p.returncode != 0 for p in ranks), ends
        # Rank 0 serves the store: the other one may find it gone already, or hears it from rank 0.
        told = [re.search(r"rank \d and rank \d are on one host \(.*\) but in different pid namespaces", e[1])
                for e in ends]
        assert any(told), ends
        assert "start them in one pid namespace" in ends[0][1] + ends[1][1], ends


# ---- no room in /dev/shm --------------------------------------------------------------------------------

def in_tiny_shm(*words):
    """Runs the words where /dev/shm has 64 KB; None where mounting is not allowed."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return None
    mount = "mount -t tmpfs -o size=64k none /dev/shm || exit 99; exec \"$@\""
    p = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh", *words],
                       capture_output=True, text=True, timeout=LIMIT, env=clean_env({}))
    return None if p.returncode == 99 or "unshare failed" in p.stderr else p


@test
def a_tiny_dev_shm_is_enough():
    p = in_tiny_shm(tutti, "run", "-n", "2", fit_a_line)
    if p is None:
        print("nodes: a tiny /dev/shm: not tested, it takes the right to mount")
        return
    assert p.returncode == 0, p.stderr
    alone = subprocess.run([tutti, "run", "-n", "2", fit_a_line], capture_output=True, text=True, timeout=LIMIT,
                           env=clean_env({}))
    assert lines(p.stdout) == lines(alone.stdout), p.stdout


@test
def nothing_is_left_in_dev_shm():
    before = {x for x in os.listdir("/dev/shm") if x.startswith("tutti-")}
    subprocess.run([tutti, "run", "-n", "3", fit_a_line], capture_output=True, timeout=LIMIT, env=clean_env({}))
    p = subprocess.run([tutti, "run", "-n", "3", "sh", "-c", f"[ $RANK = 1 ] && kill -KILL $$; exec {fit_a_line}"],
                       capture_output=True, timeout=LIMIT, env=clean_env({}))
    assert p.returncode == 137, p.returncode
    assert {x for x in os.listdir("/dev/shm") if x.startswith("tutti-")} <= before


run_cases("nodes", "launchers of several nodes agree, fail and start again together")

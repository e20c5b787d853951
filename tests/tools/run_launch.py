#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_launch.py TUTTI [NAME...]: asks `tutti run` for everything it promises: exit codes, output, signals,
restarts, and that nothing is left behind however a job ends. Nothing here waits longer than LIMIT."""
import ctypes
import json
import os
import pty
import re
import resource
import select
import signal
import stat
import subprocess
import sys
import tempfile
import time

from cases import run_cases, test

LIMIT = 50  # below the minute that ranks sleep which nobody ends
tutti = os.path.abspath(sys.argv[1])


def command(*words):
    return [tutti, "run", *[str(w) for w in words]]


def run(*words, code=0, stdin=None, env=None):
    """Runs to the end; gives standard output and error as text."""
    p = subprocess.run(command(*words), capture_output=True, timeout=LIMIT, input=stdin, text=True,
                       errors="replace", env={**os.environ, **(env or {})})
    assert p.returncode == code, f"exit code {p.returncode} instead of {code}\n{p.stdout}{p.stderr}"
    return p.stdout, p.stderr


def start(*words, **more):
    return subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def until(what, condition):
    """Waits for the condition; fails after LIMIT seconds."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.002)
    raise AssertionError(f"waited in vain for {what}")


def lines(text):
    return sorted(text.splitlines())


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def pids_in(folder, n):
    """The numbers of the n processes that each wrote a file there."""
    def read():
        names = [x for x in os.listdir(folder) if x.startswith("pid")]
        texts = [open(os.path.join(folder, x)).read() for x in names]
        return [int(x) for x in texts] if len(names) == n and all(x.endswith("\n") for x in texts) else None
    return until(f"{n} ranks to start", read)


def gone(pids):
    until("the ranks to be gone", lambda: not any(is_alive(p) for p in pids))


# ---- what ranks are told ------------------------------------------------------------------------------

@test
def ranks_learn_who_they_are():
    out, _ = run("-n", 3, "sh", "-c", "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK "
                 "$ROLE_RANK $ROLE_WORLD_SIZE $TORCHELASTIC_RESTART_COUNT")
    assert lines(out) == [f"[{i}] {i} {i} 3 3 0 {i} 3 0" for i in range(3)], out


@test
def a_secret_and_a_run_id_are_made_and_never_shown():
    out, _ = run("-n", 2, "sh", "-c", "echo $TUTTI_JOB_SECRET $TUTTI_RUN_ID $TUTTI_FLIGHT_DIR")
    found = {line.split(" ", 1)[1] for line in out.splitlines()}
    assert len(found) == 1 and re.fullmatch(r"[0-9a-f]{64} [0-9a-f]{16} /.*/tutti-\w{6}", found.pop()), out
    again, _ = run("-n", 1, "sh", "-c", "echo $TUTTI_JOB_SECRET; tr '\\0' ' ' < /proc/$PPID/cmdline")
    secret = again.split()[0]
    assert secret not in out and again.count(secret) == 1


@test
def a_secret_of_the_environment_is_not_handed_on_to_a_job_on_one_node():
    out, _ = run("sh", "-c", "echo $TUTTI_JOB_SECRET", env={"TUTTI_JOB_SECRET": "old"})
    assert re.fullmatch(r"[0-9a-f]{64}\n", out), out


@test
def threads_are_divided_unless_set():
    _, err = run("-n", 2, "sh", "-c", "test $OMP_NUM_THREADS -ge 1")
    assert err.count("OMP_NUM_THREADS=") == 1, err
    out, _ = run("-n", 2, "sh", "-c", "echo $OMP_NUM_THREADS", env={"OMP_NUM_THREADS": "7"})
    assert lines(out) == ["[0] 7", "[1] 7"]


@test
def ranks_are_bound_to_different_cpus():
    show = ["python3", "-c", "import os; print(*sorted(os.sched_getaffinity(0)))"]
    mine = os.sched_getaffinity(0)
    if len(mine) < 2:
        return
    out, err = run("-n", 2, *show)
    a, b = [set(map(int, line.split()[1:])) for line in lines(out)]
    assert a and b and not a & b and a | b <= mine, out
    assert "each bound to" in err, err
    out, err = run("-n", 2, "--no-bind", *show)
    assert all(set(map(int, line.split()[1:])) == mine for line in lines(out)), out
    out, err = run("-n", len(mine) + 1, *show)
    assert all(set(map(int, line.split()[1:])) == mine for line in lines(out)), out
    assert "more than the" in err, err


@test
def the_port_for_other_stores_can_be_served_by_a_rank():
    program = ("import os, socket; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1);"
               "s.bind((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))); s.listen(); print('ok')")
    out, _ = run("-n", 1, "python3", "-c", program)
    assert out == "ok\n"


# ---- exit codes ---------------------------------------------------------------------------------------

@test
def mistakes_in_the_arguments_end_with_2():
    for words, says in [((), "expected a program"), (("-n", 2), "expected a program"), (("--fly", "x"), "--fly"),
                        (("-n", "x", "true"), "whole number"), (("-n", 0, "true"), "whole number"),
                        (("-n", 999999, "true"), "expected 1 to"), (("--tee", 3, "true"), "--log-dir"),
                        (("--log-dir", "/tmp/x", "--tee", "9", "true"), "0 to 3"),
                        (("--node-rank", 1, "true"), "--node-rank"), (("-n",), "expected a value"),
                        (("--nnodes", 2, "true"), "secret"),
                        (("--log-line-prefix-template", "${x}", "true"), "${x}")]:
        _, err = run(*words, code=2)
        assert says in err, (words, err)


@test
def programs_that_cannot_run_end_with_126_and_127():
    with tempfile.TemporaryDirectory() as d:
        plain, text, lost = (os.path.join(d, x) for x in ("plain", "text", "lost"))
        for path, content in (plain, "x"), (text, "x\n"), (lost, "#!/no/such/thing\n"):
            with open(path, "w") as f:
                f.write(content)
        os.chmod(text, 0o755)
        os.chmod(lost, 0o755)
        assert "not executable" in run(plain, code=126)[1]
        assert "directory" in run(d, code=126)[1]
        assert "#!" in run("-n", 2, text, code=126)[1]
        assert "interpreter" in run("-n", 2, lost, code=126)[1]
    assert "not in PATH" in run("no-such-program", code=127)[1]
    assert "No such file" in run("./no-such-program", code=127)[1]


@test
def the_exit_code_is_that_of_the_first_failed_rank():
    _, err = run("-n", 3, "sh", "-c", "[ $RANK != 1 ] && sleep 60; echo it failed >&2; exit 7", code=7)
    assert re.search(r"^ +1 .* exited with code 7  <- first$", err, re.M), err
    assert "2 others were ended because of it" in err, err
    assert "last error of rank 1: it failed" in err and "    | it failed" in err, err


@test
def a_killed_rank_is_named_with_its_signal():
    began = time.monotonic()
    _, err = run("-n", 3, "sh", "-c", "[ $RANK = 2 ] && kill -KILL $$; exec sleep 60", code=137)
    assert re.search(r"^ +2 .* was killed by signal 9 \(SIGKILL\)  <- first$", err, re.M), err
    assert time.monotonic() - began < LIMIT
    _, err = run("-n", 2, "sh", "-c", "ulimit -c 0; kill -SEGV $$", code=139)
    assert "SIGSEGV" in err


@test
def a_rank_that_exits_in_peace_is_not_waited_for():
    began = time.monotonic()
    bench = f"[ $RANK = 1 ] || exec '{tutti}' bench --sizes 8 --iters 3"
    _, err = run("-n", 2, "sh", "-c", bench, code=1)
    assert "rank 1 has ended: exited with code 0" in err, err
    assert time.monotonic() - began < LIMIT


@test
def the_error_file_of_a_rank_is_read():
    write = 'echo "{\\"message\\": {\\"message\\": \\"the loss is NaN\\"}}" > $TORCHELASTIC_ERROR_FILE; exit 1'
    _, err = run("-n", 2, "sh", "-c", write, code=1)
    assert "the loss is NaN" in err, err


@test
def only_the_last_ten_lines_are_repeated():
    _, err = run("sh", "-c", "seq 1 50 >&2; exit 1", code=1)
    assert re.findall(r"^    \| (\d+)$", err, re.M) == [str(i) for i in range(41, 51)], err


@test
def a_rank_that_ignores_sigterm_is_killed_after_the_grace_time():
    began = time.monotonic()
    run("-n", 2, "--grace", "0.3", "sh", "-c",
        "[ $RANK = 0 ] && exit 3; trap '' TERM; while :; do sleep 60; done", code=3)
    assert time.monotonic() - began < LIMIT


@test
def survivors_with_a_handler_get_sigusr2_before_sigterm():
    program = ("import os, signal, sys, time\n"
               "d = os.environ['TUTTI_FLIGHT_DIR']\n"
               "if os.environ['RANK'] == '0':\n"
               "    while not os.path.exists(d + '/ready'): time.sleep(0.001)\n"
               "    sys.exit(5)\n"
               "signal.signal(signal.SIGUSR2, lambda *a: print('usr2', flush=True))\n"
               "signal.signal(signal.SIGTERM, lambda *a: (print('term', flush=True), os._exit(0)))\n"
               "open(d + '/ready', 'w').close()\n"
               "while True: signal.pause()\n")
    out, _ = run("-n", 2, "python3", "-c", program, code=5)
    assert out == "[1] usr2\n[1] term\n", out


@test
def the_summary_is_written_as_json():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "s.json")
        run("-n", 2, "--summary", path, "sh", "-c", "[ $RANK = 1 ] && exit 9; sleep 60", code=9)
        s = json.load(open(path))
        assert s["exit_code"] == 9 and s["failed_rank"] == 1 and len(s["ranks"]) == 2, s
        assert s["ranks"][0]["ended_by_launcher"] and not s["ranks"][1]["ended_by_launcher"], s


# ---- output -------------------------------------------------------------------------------------------

@test
def lines_are_tagged_whole_and_in_order():
    out, err = run("-n", 4, "sh", "-c", "for i in $(seq 200); do printf 'a %s' $i; printf ' b\\n'; done; echo e >&2")
    for r in range(4):
        assert [x[4:] for x in out.splitlines() if x.startswith(f"[{r}] ")] == [f"a {i} b" for i in range(1, 201)]
    assert len(out.splitlines()) == 800 and "\033" not in out
    assert all(f"[{r}] e" in err for r in range(4))


@test
def a_last_line_without_newline_is_shown():
    out, _ = run("-n", 2, "printf", "end")
    assert lines(out) == ["[0] end", "[1] end"]


@test
def one_rank_or_no_prefix_passes_bytes_as_they_are():
    data = bytes(range(256)) * 1000
    for words in ([], ["-n", "2", "--no-prefix"]):
        p = subprocess.run(command(*words, "sh", "-c", "[ $RANK != 0 ] || cat"), input=data, capture_output=True,
                           timeout=LIMIT)
        assert p.returncode == 0 and p.stdout == data, (words, len(p.stdout))


@test
def long_lines_and_binary_bytes_are_not_lost():
    p = subprocess.run(command("-n", 2, "python3", "-c", "import os\nos.write(1, b'\\0\\xff' * 250000 + b'\\n')\n"),
                       capture_output=True, timeout=LIMIT)
    want = b"\0\xff" * 250000
    assert sorted(p.stdout.split(b"\n")) == [b"", b"[0] " + want, b"[1] " + want]
    p = subprocess.run(command("-n", 2, "sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x"), capture_output=True,
                       timeout=LIMIT)
    assert p.stdout.count(b"x") == 10000000
    assert all(re.match(rb"\[[01]\] x+$", line) for line in p.stdout.splitlines())


@test
def a_flood_is_held_back_in_bounded_memory_and_arrives_whole():
    p = subprocess.Popen(command("-n", 2, "sh", "-c", "yes 0123456789abcdef | head -c 68000000"),
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    peak = n = 0
    while True:
        piece = os.read(p.stdout.fileno(), 1 << 20)
        if not piece:
            break
        n += len(piece)
        if n % 7 == 0:
            status = open(f"/proc/{p.pid}/status").read()
            peak = max([peak] + [int(x) for x in re.findall(r"RssAnon:\s+(\d+)", status)])
    assert p.wait(LIMIT) == 0 and n == 2 * 4000000 * 21, n
    assert peak < 40000, f"{peak} kB"


@test
def a_reader_who_sleeps_does_not_keep_the_job_from_being_stopped():
    with tempfile.TemporaryDirectory() as d:
        p = start("-n", 2, "--grace", 1, "sh", "-c", "echo $$ > $0/pid$RANK; exec yes", d)
        pids = pids_in(d, 2)
        p.send_signal(signal.SIGTERM)
        gone(pids)
        p.send_signal(signal.SIGTERM)
        assert p.wait(LIMIT) == 143
        p.communicate()


@test
def a_reader_who_leaves_ends_the_job():
    p = start("-n", 2, "yes")
    p.stdout.readline()
    p.stdout.close()
    assert p.wait(LIMIT) == 128 + signal.SIGPIPE
    p.stderr.close()


@test
def logs_follow_tee_redirects_and_filter():
    def logs(*words):
        with tempfile.TemporaryDirectory() as d:
            out, err = run("-n", 2, "-q", "--log-dir", d + "/a/b", *words, "sh", "-c", "echo o$RANK; echo e$RANK >&2")
            found = {}
            for folder, _, names in os.walk(d):
                for name in names:
                    path = os.path.join(folder, name)
                    found[os.path.relpath(path, d + "/a/b")] = open(path).read()
            return lines(out), lines(err), found
    everything = {f"rank_{r}/{n}.log": f"{n[3]}{r}\n" for r in (0, 1) for n in ("stdout", "stderr")}
    everything = {k: ("o" if "out" in k else "e") + k[5] + "\n" for k in everything}
    assert logs() == (["[0] o0", "[1] o1"], ["[0] e0", "[1] e1"], everything)
    assert logs("--redirects", 3) == ([], [], everything)
    out, err, found = logs("-r", "1:1", "-t", "0:2")
    assert out == ["[0] o0"] and err == ["[0] e0", "[1] e1"]
    assert found == {"rank_0/stderr.log": "e0\n", "rank_1/stdout.log": "o1\n"}
    assert logs("--local-ranks-filter", "1")[0] == ["[1] o1"]


@test
def the_prefix_has_a_template():
    out, _ = run("-n", 2, "--log-line-prefix-template", "<${local_rank}/${role_name}>", "echo", "x")
    assert lines(out) == ["<0/default>x", "<1/default>x"]


@test
def only_rank_0_reads_the_input():
    out, _ = run("-n", 2, "cat", stdin="hello\n")
    assert out == "[0] hello\n"


@test
def a_child_that_keeps_the_pipe_open_does_not_keep_the_job():
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as d:
        out, _ = run("-n", 2, "sh", "-c", "setsid sh -c 'echo $$ > $0/pid$RANK; exec sleep 60' $0 & "
                     "while ! [ -s $0/pid$RANK ]; do :; done; echo x", d)
        assert lines(out) == ["[0] x", "[1] x"]
        gone(pids_in(d, 2))
    assert time.monotonic() - began < LIMIT


# ---- ends ---------------------------------------------------------------------------------------------

def job_dirs(folder):
    return [x for x in os.listdir(folder) if x.startswith("tutti-")]


@test
def signals_reach_every_rank_once():
    for sig in signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT:
        program = ("import os, signal, sys, time\nn = 0\n"
                   "def got(s, f):\n    global n\n    n += 1\n    print('got', s, n, flush=True)\n"
                   f"signal.signal({int(sig)}, got)\n"
                   "open(sys.argv[1] + '/pid' + os.environ['RANK'], 'w').write(f'{os.getpid()}\\n')\n"
                   "while n == 0: signal.pause()\n"
                   "end = time.monotonic() + 0.1\n"
                   "while time.monotonic() < end: time.sleep(0.01)\n")
        with tempfile.TemporaryDirectory() as d:
            p = start("-n", 2, "python3", "-c", program, d)
            pids_in(d, 2)
            p.send_signal(sig)
            out, _ = p.communicate(timeout=LIMIT)
            assert p.returncode == 128 + sig, p.returncode
            assert lines(out) == [f"[0] got {int(sig)} 1", f"[1] got {int(sig)} 1"], out


@test
def a_second_signal_kills_at_once():
    with tempfile.TemporaryDirectory() as d:
        p = start("-n", 2, "--grace", 50, "sh", "-c",
                  "trap 'echo got > $0/got$RANK' INT; echo $$ > $0/pid$RANK; while :; do sleep 0.01; done", d)
        pids = pids_in(d, 2)
        p.send_signal(signal.SIGINT)
        until("the first signal", lambda: len([x for x in os.listdir(d) if x.startswith("got")]) == 2)
        assert all(is_alive(x) for x in pids)
        p.send_signal(signal.SIGINT)
        assert p.wait(LIMIT) == 130
        gone(pids)
        p.communicate()


@test
def ctrl_c_on_a_terminal_ends_everything_and_tags_are_coloured():
    with tempfile.TemporaryDirectory() as d:
        pid, fd = pty.fork()
        if pid == 0:
            os.environ.pop("NO_COLOR", None)
            os.environ["TERM"] = "xterm"
            os.execv(tutti, command("-n", 2, "sh", "-c", "echo hello; echo $$ > $0/pid$RANK; exec sleep 60", d))
        pids = pids_in(d, 2)
        text = b""
        while text.count(b"hello") < 2:
            assert select.select([fd], [], [], LIMIT)[0]
            text += os.read(fd, 4096)
        os.write(fd, b"\x03")
        _, status = os.waitpid(pid, 0)
        os.close(fd)
        assert os.waitstatus_to_exitcode(status) == 130
        assert b"\033[36m[0] \033[0mhello" in text, text
        gone(pids)


@test
def a_killed_launcher_takes_everything_with_it():
    with tempfile.TemporaryDirectory() as d, tempfile.TemporaryDirectory() as tmp:
        p = start("-n", 2, "sh", "-c", "sleep 60 & echo $! > $0/pidx$RANK; echo $$ > $0/pid$RANK; wait", d,
                  env={**os.environ, "TMPDIR": tmp})
        pids = pids_in(d, 4)
        assert len(job_dirs(tmp)) == 1
        p.kill()
        assert p.wait(LIMIT) == -signal.SIGKILL
        gone(pids)
        until("the directory to be removed", lambda: not job_dirs(tmp))
        p.communicate()


@test
def no_file_is_left_and_the_directory_is_private():
    with tempfile.TemporaryDirectory() as tmp:
        out, _ = run("-n", 2, "sh", "-c", "mkdir -p $TUTTI_FLIGHT_DIR/a$RANK/b; touch $TUTTI_FLIGHT_DIR/a$RANK/b/c;"
                     "stat -c %a $TUTTI_FLIGHT_DIR", env={"TMPDIR": tmp})
        assert lines(out) == ["[0] 700", "[1] 700"]
        run("-n", 2, "false", code=1, env={"TMPDIR": tmp})
        run("no-such-program", code=127, env={"TMPDIR": tmp})
        assert os.listdir(tmp) == []


@test
def children_of_ranks_are_ended_too():
    with tempfile.TemporaryDirectory() as d:
        program = "sleep 60 & echo $! > $0/pid$RANK; [ $RANK = 1 ] && wait; " \
                  "until [ -s $0/pid1 ]; do sleep 0.01; done; exit 4"
        run("-n", 2, "sh", "-c", program, d, code=4)
        names = [int(open(os.path.join(d, x)).read()) for x in os.listdir(d)]
        gone(names)


@test
def a_process_that_cannot_be_ended_does_not_keep_the_launcher():
    """A traced process stays after SIGKILL until its tracer has collected it: to its parent it looks like one that
    waits in the kernel for ever."""
    seize, libc = 0x4206, ctypes.CDLL(None, use_errno=True)
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(d + "/go")
        p = start("-n", 1, "--grace", "0.1", "sh", "-c",
                  "setsid sh -c 'echo $$ > $0/pid; exec sleep 60' $0 & read x < $0/go", d)
        pid, = pids_in(d, 1)
        if libc.ptrace(seize, pid, None, None) != 0:
            print(f"run: not tested: ptrace: {os.strerror(ctypes.get_errno())}")
            p.kill()
            p.communicate()
            return
        with open(d + "/go", "w") as f:
            f.write("go\n")
        _, err = p.communicate(timeout=LIMIT)
        os.waitpid(pid, 0x40000000)  # __WALL: of any kind
        assert p.returncode == 0, (p.returncode, err)
        assert f"1 process that ranks left behind did not end within 10 s of SIGKILL (process {pid})" in err, err


@test
def a_stopped_rank_is_ended():
    run("-n", 2, "sh", "-c", "if [ $RANK = 0 ]; then sleep 0.05; exit 6; fi; kill -STOP $$", code=6)


@test
def ctrl_z_stops_the_ranks_and_going_on_wakes_them():
    def state(pid):
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
    with tempfile.TemporaryDirectory() as d:
        p = start("-n", 2, "sh", "-c", "echo $$ > $0/pid$RANK; exec sleep 60", d)
        pids = pids_in(d, 2)
        p.send_signal(signal.SIGTSTP)
        until("all to stop", lambda: all(state(x) == "T" for x in pids + [p.pid]))
        p.send_signal(signal.SIGCONT)
        until("all to go on", lambda: all(state(x) == "S" for x in pids + [p.pid]))
        p.terminate()
        assert p.wait(LIMIT) == 143
        p.communicate()


# ---- restarts, many ranks, two jobs -------------------------------------------------------------------

@test
def restarts_count_and_end():
    out, err = run("-n", 2, "--max-restarts", 2, "sh", "-c",
                   "echo $TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS; [ $TORCHELASTIC_RESTART_COUNT = 2 ]"
                   " || sleep 60 & [ $TORCHELASTIC_RESTART_COUNT = 2 ] || [ $RANK = 0 ] || exit 3; wait")
    assert {"[1] 0/2", "[1] 1/2", "[0] 2/2", "[1] 2/2"} <= set(lines(out)), out
    assert "starting all ranks again (1 of 2)" in err and "(2 of 2)" in err, err
    _, err = run("-n", 2, "--max-restarts", 1, "sh", "-c", "exit 3", code=3)
    assert err.count("the job failed") == 2, err


@test
def a_signal_is_no_reason_to_start_again():
    with tempfile.TemporaryDirectory() as d:
        p = start("-n", 2, "--max-restarts", 5, "sh", "-c", "echo $$ > $0/pid$RANK; exec sleep 60", d)
        pids_in(d, 2)
        p.terminate()
        _, err = p.communicate(timeout=LIMIT)
        assert p.returncode == 143 and "again" not in err, err


@test
def sixty_four_ranks_run():
    out, _ = run("-n", 64, "sh", "-c", "echo $RANK of $WORLD_SIZE")
    assert lines(out) == sorted(f"[{i}] {i} of 64" for i in range(64))
    _, err = run("-n", 64, "sh", "-c", "[ $RANK = 40 ] && exit 9; exec sleep 60", code=9)
    assert re.search(r"^ +40 .*code 9  <- first$", err, re.M), err


@test
def ranks_inherit_no_descriptors():
    out, _ = run("-n", 3, "--log-dir", tempfile.mkdtemp(), "sh", "-c", "ls /proc/self/fd | tr '\\n' ' '")
    assert all(line.split("] ")[1] == "0 1 2 3 " for line in lines(out)), out


@test
def two_jobs_at_once_do_not_meet():
    jobs = [start("-n", 2, "sh", "-c", "echo $MASTER_PORT $TUTTI_RUN_ID $TUTTI_STORE; sleep 0.2") for _ in range(6)]
    seen = set()
    for p in jobs:
        out, _ = p.communicate(timeout=LIMIT)
        assert p.returncode == 0
        ids = {line.split(" ", 1)[1] for line in out.splitlines()}
        assert len(ids) == 1
        seen |= ids
    assert len(seen) == 6 and len({x.split()[0] for x in seen}) == 6, seen


@test
def starting_four_ranks_takes_no_time():
    """Time that is computed for: a busy machine does not count."""
    def spent():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime
    best = LIMIT
    for _ in range(5):
        began = spent()
        run("-n", 4, "true")
        best = min(best, spent() - began)
    assert best < 1, best


@test
def help_has_every_option_and_examples():
    out, _ = run("--help")
    for word in "--nproc-per-node --rdzv-id --master-port --tee --redirects --grace Examples: TUTTI_STORE".split():
        assert word in out, word
    again = subprocess.run([tutti, "help", "run"], capture_output=True, text=True).stdout
    assert again == out


run_cases("run", "ranks are started, watched over and ended as they should")

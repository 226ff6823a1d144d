#!/usr/bin/env python3
"""Runs leader-run as its users do, kills and stops every one of its processes, and looks for a moment with two commands at work.

    tests/leader-run/test_leader_run.py [PROGRAM] [--only TEXT]         the last line is "N passed, N failed"

The command in most tests is this file itself ("worker"): it writes its token and the time into a journal, again and again, as do the daemons that
it leaves behind if told to. Two terms whose lines overlap are what must not be. Times are generous: nothing here depends on speed.
"""
import contextlib
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
from processes import TOP, LIMIT, Failed, Place, check, children, descendants, free_port, get, has_store, run_tests, stat_of, wait_for, with_k8s, with_redis


# ---- the worker ------------------------------------------------------------------------------------------------------------------------

def worker(journal, *how):
    """Acts until it is ended: a line every few milliseconds. how: stubborn (ignores SIGTERM), daemon (leaves a stubborn one behind), child (has one)"""
    if "stubborn" in how:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "daemon" in how and os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if os.fork():
            os._exit(0)
    if "child" in how:
        os.fork()
    log = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    while True:
        os.write(log, b"%s %d %d\n" % (os.environ["LEADER_TOKEN"].encode(), time.clock_gettime_ns(time.CLOCK_BOOTTIME), os.getpid()))
        time.sleep(0.003)


# ---- where it works --------------------------------------------------------------------------------------------------------------------

class Workplace(Place):
    def __init__(self, program):
        super().__init__(program)
        self.journal = os.path.join(self.dir, "journal")

    def work(self, name, *how, options=("--lease", "5s"), **more):
        return self.start("--id", name, *options, "--", sys.executable, os.path.abspath(__file__), "worker", self.journal, *how, **more)

    @contextlib.contextmanager
    def again(self):
        """The same store's kind, another election: for a test that does one thing several times."""
        q = Workplace(self.program)
        if self.store[0] == "--redis":
            q.store = [*self.store[:3], os.path.basename(q.dir)]
        try:
            yield q
        except Exception as e:
            raise Failed(f"{e}; {q.said()}") from e
        finally:
            q.close()

    def terms(self):
        """token -> (first, last, how many, processes), in the order of the journal"""
        found = {}
        try:
            lines = open(self.journal).read().split("\n")[:-1]
        except FileNotFoundError:
            return found
        for line in lines:
            token, at, pid = map(int, line.split())
            first, last, count, pids = found.get(token, (at, at, 0, set()))
            found[token] = (min(first, at), max(last, at), count + 1, pids | {pid})
        return found

    def at_work(self, number, processes=1):
        """Waits until the term of that number (1, 2, ...) has written a while with so many processes."""
        def now():
            terms = list(self.terms().values())
            return len(terms) >= number and terms[number - 1][2] >= 20 and len(terms[number - 1][3]) >= processes
        wait_for(now, f"term {number} at work with {processes} processes; journal: {self.terms()}; {self.said()}")

    def never_two(self):
        """Every term ends before the next one begins, and tokens rise."""
        terms = list(self.terms().items())
        for (a, (_, a_last, _, _)), (b, (b_first, _, _, _)) in zip(terms, terms[1:]):
            check(a < b, f"token {b} came after {a}")
            check(a_last < b_first, f"two at work: token {a} for {(a_last - b_first) / 1e6:.1f} ms after token {b} began")

    def close(self):
        workers = {pid for term in self.terms().values() for pid in term[3]}
        for pid in workers:                     # one that outlived everything is a failed test, but is not left behind
            if is_worker(pid, self.journal):
                os.kill(pid, signal.SIGKILL)
        super().close()


def is_worker(pid, journal):
    try:
        return journal.encode() in open(f"/proc/{pid}/cmdline", "rb").read() and stat_of(pid)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError, TypeError):
        return False


def helper(process, name):
    """The watchdog ("leader-watchdog") or the guard ("leader-guard") below leader-run."""
    def now():
        return [pid for pid in descendants(process.pid) if name_of(pid) == name]
    return wait_for(now, f"a {name}")[0]


def name_of(pid):
    try:
        return open(f"/proc/{pid}/comm").read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


def guard_of(process):
    return helper(process, "leader-guard")


def watchdog_of(process):
    return helper(process, "leader-watchdog"[:15])


# ---- use -------------------------------------------------------------------------------------------------------------------------------

def test_usage_mistakes(p):
    file = ["--file", "x.lease"]
    for args, says in [
        ([], "which store?"),
        (["--bogus"], "--bogus: no such option"),
        (["--file"], "--file: a value is missing"),
        ([*file], "what to run?"),
        ([*file, "--k8s", "b", "true"], "exclude each other"),
        (["--redis", "redis://127.0.0.1", "true"], "--redis needs --name"),
        ([*file, "--name", "n", "true"], "--name goes with --redis"),
        ([*file, "--lease", "15", "true"], "--lease: not a duration"),
        ([*file, "--lease", "-3s", "true"], "--lease: not a duration"),
        ([*file, "--lease=0s", "true"], "--lease=0s: not a duration"),
        ([*file, "--lease", "9999999999s", "true"], "--lease: not a duration"),
        ([*file, "--deadline", "15s", "true"], "--deadline: must be less than --lease"),
        ([*file, "--grace", "10s", "true"], "--grace: leaves no time"),
        ([*file, "--lease", "1ms", "true"], "lease_ms (1) is too short"),
        ([*file, "--id", "", "true"], "identity is missing"),
        ([*file, "--id", "a" * 256, "true"], "identity is longer than 255 bytes"),
        (["--file", "", "true"], "path is missing"),
        (["--file", "some/", "true"], "names a directory"),
        ([*file, "--json", "true"], "--json: goes with --status"),
        ([*file, "--status", "true"], "--status runs no command"),
        ([*file, "--http", "8080", "true"], "8080: the address is ADDRESS:PORT"),
        ([*file, "--http", "nowhere.example:80", "true"], "the address is ADDRESS:PORT"),
    ]:
        done = p.run(*args, store=[])
        check(done.returncode == 2, f"{args}: status {done.returncode}, {done.stderr}")
        check(done.stderr.startswith("leader-run: ") and done.stderr.count("\n") == 1, f"{args}: not one line: {done.stderr!r}")
        check(says in done.stderr, f"{args}: {done.stderr!r} does not say {says!r}")
        check(done.stdout == "", f"{args}: wrote to standard output")
    check(not [n for n in os.listdir(p.dir) if n.startswith("x.lease")], "a usage mistake left files behind")


def test_help_and_version(p):
    done = p.run("--help", store=[])
    check(done.returncode == 0 and done.stderr == "" and done.stdout.startswith("usage: leader-run"), "--help")
    page = open(os.path.join(TOP, "examples", "leader-run", "leader-run.1")).read()
    for option in sorted(set(re.findall(r"--[a-z0-9-]+[a-z0-9]", done.stdout))):
        check(option.replace("-", "\\-") in page, f"the man page does not mention {option}")
    header = open(os.path.join(TOP, "leader.h")).read()
    version = re.search(r'LEADER_VERSION +"(.*)"', header)[1]
    check(p.run("--version", store=[]).stdout == f"leader-run {version}\n", "--version")
    check(f"leader-run {version}" in page, "the man page names another version")


def test_exit_status_is_passed_on(p):
    for command, status in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("kill -SEGV $$", 139)]:
        done = p.run("sh", "-c", command)
        check(done.returncode == status, f"{command}: {done.returncode}, {done.stderr}")
    done = p.run("--", "/nonexistent/command")
    check(done.returncode == 127 and "cannot run /nonexistent/command: No such file" in done.stderr, f"not found: {done.returncode} {done.stderr}")
    done = p.run("--", "/")
    check(done.returncode == 126 and "cannot run /: Permission denied" in done.stderr, f"not to be run: {done.returncode} {done.stderr}")
    done = p.run("--http", "192.0.2.1:1", "true")
    check(done.returncode == 125, f"an address that is not ours: {done.returncode}")


def test_environment(p):
    done = [p.run("--id", "node a", "sh", "-c", 'echo "$LEADER_TOKEN|$LEADER_IDENTITY|$LEADER_NAME|$OTHER"', env={**os.environ, "OTHER": "kept", "LEADER_TOKEN": "stale"}) for _ in range(2)]
    tokens = []
    for d in done:
        token, identity, name, other = d.stdout.strip().split("|")
        check((identity, name, other) == ("node a", p.store[1], "kept"), d.stdout)
        tokens.append(int(token))
    check(0 < tokens[0] < tokens[1], f"tokens do not rise: {tokens}")


def test_input_output_and_descriptors(p):
    read, write = os.pipe()
    process = p.start("bash", "-c", f"cat; echo given >&{write}; trap", stdin=subprocess.PIPE, pass_fds=[write])
    process.stdin.write("through\n")
    process.stdin.close()
    check(process.stdout.read() == "through\n", "standard input and output, and no ignored signal, reach the command")
    check(process.wait(LIMIT) == 0, "status")
    os.close(write)
    check(os.read(read, 100) == b"given\n", "a descriptor given from outside reaches the command")
    os.close(read)
    done = p.run("sh", "-c", "ls -l /proc/$$/fd", close_fds=True)
    strange = [line for line in done.stdout.splitlines() if re.search(r"\b([3-9]|\d\d+) ->", line) and "lock." not in line]
    check(len([line for line in strange if "pipe:" in line]) == 1, f"the pipe that ties the command to the guard: {strange}")
    strange = [line for line in strange if "pipe:" not in line]
    check(not strange, f"descriptors of leader-run's in the command: {strange}")


def test_one_at_a_time(p):
    a = p.start("--id", "a", "--", "sh", "-c", "echo begin; read x; echo end", stdin=subprocess.PIPE)
    check(a.stdout.readline() == "begin\n", "the first one runs")
    done = p.run("--id", "b", "--wait", "1s", "echo", "no")
    check(done.returncode == 75 and done.stdout == "" and "not leader within --wait" in done.stderr, f"a second one must not run: {done}")
    b = p.start("--id", "b", "--", "echo", "mine")
    a.stdin.close()
    check(a.wait(LIMIT) == 0 and b.wait(LIMIT) == 0 and b.stdout.read() == "mine\n", "the second one runs when the first has ended")


def test_status(p):
    done = p.run("--status")
    check((done.returncode, done.stdout) == (1, f"nobody leads {p.store[1]}\n"), f"nobody: {done}")
    check(os.listdir(p.dir) == [], "asking for the status made files")
    a = p.start("--id", 'say "a"', "--", "sh", "-c", "echo $LEADER_TOKEN; read x", stdin=subprocess.PIPE)
    token = a.stdout.readline().strip()
    wait_for(lambda: os.path.exists(p.store[1]), "the copy for people, which is written a tick later")
    since = json.load(open(p.store[1]))["acquireTime"]
    done = p.run("--status")
    check((done.returncode, done.stdout) == (0, f'leader  say "a"\ntoken   {token}\nsince   {since}\n'), f"text: {done}")
    done = p.run("--status", "--json")
    check(done.returncode == 0 and json.loads(done.stdout) == {"election": p.store[1], "leader": 'say "a"', "token": int(token), "since": since}, f"JSON: {done}")
    a.stdin.close()
    a.wait(LIMIT)
    done = p.run("--status", "--json")
    check(done.returncode == 1 and json.loads(done.stdout)["leader"] is None, f"nobody any more: {done}")
    port = free_port()
    b = p.start("--id", "b", "--value", 'here "b"', "--http", f"127.0.0.1:{port}", "--", "sh", "-c", "echo; read x", stdin=subprocess.PIPE)
    b.stdout.readline()
    check(json.loads(p.run("--status", "--json").stdout)["value"] == 'here "b"', "the leader's value")
    check(json.loads(get(f"http://127.0.0.1:{port}/readyz")[1])["value"] == 'here "b"', "and in /readyz")
    b.stdin.close()
    b.wait(LIMIT)
    open(os.path.join(p.dir, "bad.lease.d"), "w").close()
    done = p.run("--status", store=["--file", "bad.lease"])
    check(done.returncode == 69 and "is in the way" in done.stderr, f"a store that cannot be asked: {done}")


def test_http(p):
    port = free_port()
    a = p.start("--id", "a", "--http", f"127.0.0.1:{port}", "--", "sh", "-c", "read x", stdin=subprocess.PIPE)
    wait_for(lambda: '"role":"leader"' in get(f"http://127.0.0.1:{port}/readyz")[1], "leads")
    check(get(f"http://127.0.0.1:{port}/healthz") == (200, "ok\n"), "/healthz")
    check("leader_is_leader{" in get(f"http://127.0.0.1:{port}/metrics")[1], "/metrics")
    check(p.run("--http", f"127.0.0.1:{port}", "true").returncode == 125, "a port that is taken")
    guard = guard_of(a)
    a.send_signal(signal.SIGKILL)
    a.wait()
    b = p.start("--id", "b", "--http", f"127.0.0.1:{port}", "--", "sh", "-c", "read x", stdin=subprocess.PIPE)
    wait_for(lambda: get(f"http://127.0.0.1:{port}/readyz")[0] == 200, "the port can be used again, whatever the guard still has to do")
    b.send_signal(signal.SIGTERM)
    check(b.wait(LIMIT) == 143, "SIGTERM")
    wait_for(lambda: stat_of(guard) is None or stat_of(guard)[0] == "Z", "the guard ends as well")


# ---- signals ---------------------------------------------------------------------------------------------------------------------------

def test_signals_are_forwarded(p):
    script = 'for s in HUP USR1 USR2 WINCH INT TERM; do trap "echo $s" $s; done; echo ready; while :; do sleep 0.05; done'
    a = p.start("--", "bash", "-c", script)
    check(a.stdout.readline() == "ready\n", "ready")
    for name in ["HUP", "USR1", "USR2", "WINCH", "INT", "TERM"]:
        a.send_signal(getattr(signal, "SIG" + name))
        check(a.stdout.readline() == name + "\n", f"SIG{name} did not arrive")
    check(a.poll() is None, "it ended although the command goes on")


def test_in_a_terminal(p):
    """The command does not read from the terminal, where it would be stopped, and ^C reaches it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(p.dir)
        os.execv(p.program, [p.program, *p.store, "--", "bash", "-c", 'cat; trap "echo interrupted; exit 6" INT; echo ready; while :; do sleep 0.05; done'])
    text = b""
    try:
        while b"ready" not in text:
            text += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        while b"interrupted" not in text:
            text += os.read(terminal, 1000)
        check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 6, f"{text}")
    except OSError as e:
        raise Failed(f"the terminal was closed: {text}") from e
    finally:
        os.close(terminal)


def test_end_on_request(p):
    a = p.start("--id", "a", "--", "bash", "-c", f'trap "sleep 1; date +%s.%N >>{p.dir}/ended; exit 5" TERM; echo ready; while :; do sleep 0.05; done')
    check(a.stdout.readline() == "ready\n", "ready")
    b = p.start("--id", "b", "--", "sh", "-c", f"cp {p.dir}/ended {p.dir}/found")
    a.send_signal(signal.SIGTERM)
    check(a.wait(LIMIT) == 5, "the status of a command that was told to end")
    check(b.wait(LIMIT) == 0, "the next one starts only when the first command has cleaned up")


def test_signal_while_standing_by(p):
    a = p.start("--id", "a", "--", "sh", "-c", "echo ready; read x", stdin=subprocess.PIPE)
    check(a.stdout.readline() == "ready\n", "ready")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        b = p.start("--id", "b", "--http", f"127.0.0.1:{(port := free_port())}", "--", "echo", "no")
        wait_for(lambda: get(f"http://127.0.0.1:{port}/readyz")[0] == 200, "stands by")
        b.send_signal(signal.SIGUSR1)           # nobody to forward it to: no reason to end
        b.send_signal(number)
        check(b.wait(LIMIT) == 128 + number and b.stdout.read() == "", f"{number}: {b.returncode}")
    check(a.poll() is None, "the leader is not touched")


def test_stubborn_command_keeps_the_lease(p):
    a = p.work("a", "stubborn")
    p.at_work(1)
    b = p.work("b")
    a.send_signal(signal.SIGTERM)
    lines = p.terms().popitem()[1][2]
    wait_for(lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) - list(p.terms().values())[0][0] > 7e9, "more than a lease")
    check(len(p.terms()) == 1 and p.terms().popitem()[1][2] > lines and a.poll() is None, "the command goes on, and so does its lease")
    os.kill(p.terms().popitem()[1][3].pop(), signal.SIGKILL)
    check(a.wait(LIMIT) == 137, "its status in the end")
    p.at_work(2)
    p.never_two()
    check(b.poll() is None, "the next one is at work")


def test_sigterm_for_a_stopped_command(p):
    """It hears of it all the same; if it stops itself again, SIGKILL follows."""
    for script, status in [("kill -STOP $$; exit 3", 143), ("trap 'kill -STOP $$' TERM; echo; kill -STOP $$; while :; do sleep 0.05; done", 137)]:
        a = p.start("--id", "a", "--", "bash", "-c", script)
        guard = guard_of(a)
        wait_for(lambda: [c for c in children(guard) if stat_of(c) and stat_of(c)[0] == "T"], "the command is stopped")
        a.send_signal(signal.SIGTERM)
        check(a.wait(LIMIT) == status, f"{script}: {a.returncode}")


def test_grace_ends_a_stubborn_command(p):
    a = p.work("a", "stubborn", options=("--lease", "5s", "--grace", "300ms"))
    p.at_work(1)
    a.send_signal(signal.SIGTERM)
    check(a.wait(LIMIT) == 137, f"SIGKILL follows SIGTERM after --grace: {a.returncode}")


def test_ignored_signals_stay_ignored(p):
    """nohup, and SIGINT for programs that a shell runs in the background."""
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    a = p.start("--id", "a", "--", "bash", "-c", "trap; kill -HUP $$; kill -INT $$; echo alive; read x; exit 0", stdin=subprocess.PIPE, preexec_fn=ignore)
    said = a.stdout.readline() + a.stdout.readline() + a.stdout.readline()
    check("SIGHUP" in said and "SIGINT" in said and said.endswith("alive\n"), f"the command ignores them: {said!r}")
    port = free_port()
    b = p.start("--id", "b", "--http", f"127.0.0.1:{port}", "--", "echo", "mine", preexec_fn=ignore)
    wait_for(lambda: get(f"http://127.0.0.1:{port}/readyz")[0] == 200, "stands by")
    b.send_signal(signal.SIGHUP)
    b.send_signal(signal.SIGINT)
    a.send_signal(signal.SIGHUP)
    a.send_signal(signal.SIGINT)
    a.stdin.close()
    check(a.wait(LIMIT) == 0 and b.wait(LIMIT) == 0 and b.stdout.read() == "mine\n", "both went on")


def test_nobody_reads_standard_error(p):
    """A pipe that is full, then a socket: neither keeps leader-run from its work; what was dropped is counted."""
    for make in (os.pipe, lambda: tuple(s.detach() for s in reversed(socket.socketpair()))):
        read, write = make()
        os.set_blocking(write, False)
        try:
            while True:
                os.write(write, b"x" * 512)
        except BlockingIOError:
            os.set_blocking(write, True)
        a = subprocess.Popen([p.program, *p.store, "--verbose", "sh", "-c", "echo ready; read x; exit 0"], cwd=p.dir, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=write, text=True)
        os.close(write)
        try:
            check(a.stdout.readline() == "ready\n", "the command was started")
            os.set_blocking(read, False)
            rest = b"x"
            while rest.strip(b"x") == b"":
                try:
                    rest = os.read(read, 65536)
                except BlockingIOError:
                    break
            a.stdin.close()
            check(a.wait(LIMIT) == 0, f"status {a.returncode}")
            os.set_blocking(read, True)
            while more := os.read(read, 65536):
                rest += more
            check(b"lines were dropped: nobody reads standard error" in rest, f"said: {rest[-200:]}")
        finally:
            a.kill()
            a.wait()
            a.stdout.close()
            os.close(read)


# ---- death and loss --------------------------------------------------------------------------------------------------------------------

def test_leader_run_is_killed(p):
    a = p.work("a", "stubborn", "daemon", options=("--lease", "30s", "--grace", "500ms"))
    p.at_work(1, 2)
    p.work("b", options=("--lease", "30s"))
    began = time.monotonic()
    a.send_signal(signal.SIGKILL)
    p.at_work(2)
    took = time.monotonic() - began
    p.never_two()
    check(took < 15, f"take-over after {took:.1f} s: the lock should be free when the last process is gone, not at the end of the lease")


def processes_of(process):
    """leader-run's three: itself, the watchdog, the guard."""
    return {"run": process.pid, "watchdog": watchdog_of(process), "guard": guard_of(process)}


def send_all(pids, number):
    """To all in one moment: none of them sees the end of another before it gets its own."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    if number == signal.SIGSTOP:
        return
    for pid in pids:
        os.kill(pid, number)


def pair_fails(p, number, pair, how):
    """Two of the three are killed or stopped together: the third ends the command before anyone else leads."""
    a = p.work("a", "stubborn", *how, options=("--lease", "3s"))
    p.at_work(1, 2)
    p.work("b", options=("--lease", "3s"))
    three = processes_of(a)
    send_all([three[name] for name in pair], number)
    if number == signal.SIGSTOP and "run" not in pair:
        shutil.rmtree(p.store[1] + ".d")        # it goes on renewing, until the store says: not yours
    p.at_work(2)
    p.never_two()
    check(not alive(p, 1), "processes of the first term are left")


def alive(p, number):
    """The processes of that term (1, 2, ...) that are alive."""
    return [pid for pid in list(p.terms().values())[number - 1][3] if is_worker(pid, p.journal)]


PAIRS = [("run", "guard"), ("run", "watchdog"), ("watchdog", "guard")]


def test_two_of_three_are_killed(p):
    for pair in PAIRS:
        with p.again() as q:
            pair_fails(q, signal.SIGKILL, pair, ["daemon"])


def test_two_of_three_are_stopped(p):
    for pair in PAIRS:
        with p.again() as q:
            pair_fails(q, signal.SIGSTOP, pair, ["daemon"])


def redis_two_of_three_are_killed(p):
    with_redis(p)
    for pair in PAIRS:
        with p.again() as q:
            pair_fails(q, signal.SIGKILL, pair, ["child"])


def redis_two_of_three_are_stopped(p):
    with_redis(p)
    for pair in PAIRS[:2]:
        with p.again() as q:
            pair_fails(q, signal.SIGSTOP, pair, ["child"])


def test_leader_run_is_killed_and_its_guard_stopped(p):
    a = p.work("a", "stubborn", "daemon", options=("--lease", "3s"))
    p.at_work(1, 2)
    p.work("b", options=("--lease", "3s"))
    os.kill(guard_of(a), signal.SIGSTOP)
    a.send_signal(signal.SIGKILL)
    p.at_work(2)
    p.never_two()


def redis_all_three_are_killed(p):
    """Nobody of ours is left: the kernel ends the command's process group."""
    with_redis(p)
    a = p.work("a", "stubborn", "child", options=("--lease", "3s"))
    p.at_work(1, 2)
    p.work("b", options=("--lease", "3s"))
    send_all(processes_of(a).values(), signal.SIGKILL)
    wait_for(lambda: not alive(p, 1), "the command and its child are dead")
    p.at_work(2)
    p.never_two()


def test_all_three_are_killed_and_a_daemon_is_left(p):
    """What remains: a daemon in a group of its own. While it has the lock, nobody takes over before the lease is over."""
    a = p.work("a", "stubborn", "daemon", options=("--lease", "30s"))
    p.at_work(1, 2)
    p.work("b", options=("--lease", "30s"))
    guard = guard_of(a)
    left = [pid for pid in descendants(guard) if stat_of(pid)[0] != "Z" and stat_of(pid)[3] != stat_of(guard)[3]]
    check(len(left) == 1, f"one daemon in a session of its own, not {left}")
    send_all(processes_of(a).values(), signal.SIGKILL)
    lines = p.terms().popitem()[1][2]
    wait_for(lambda: p.terms().popitem()[1][2] > lines + 200, "the daemon goes on")
    check(len(p.terms()) == 1, "nobody leads beside a daemon that still has the lock")
    os.kill(left[0], signal.SIGKILL)
    p.at_work(2)
    p.never_two()


def may_unshare():
    return subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], stderr=subprocess.DEVNULL).returncode == 0


def redis_all_three_are_killed_with_a_pid_namespace(p):
    """Then not even a daemon remains."""
    if not may_unshare():
        done = p.run("--pid-namespace", "true", store=["--file", "x.lease"])
        check(done.returncode == 125 and "--pid-namespace: not permitted here" in done.stderr, f"{done}")
        return
    with_redis(p)
    a = p.work("a", "stubborn", "daemon", options=("--lease", "3s", "--pid-namespace"))
    wait_for(lambda: p.terms() and list(p.terms().values())[0][2] > 50, "at work")
    guard = guard_of(a)
    below = wait_for(lambda: len(d := descendants(guard)) >= 3 and d, "first process, command, daemon")
    p.work("b", options=("--lease", "3s"))
    send_all(processes_of(a).values(), signal.SIGKILL)
    wait_for(lambda: all(stat_of(pid) is None for pid in below), f"all of the namespace are dead: {below}")
    p.at_work(2)
    p.never_two()


def test_pid_namespace(p):
    """The command's status, signals, descriptors and /proc are as without."""
    if not may_unshare():
        return
    for command, status in [("exit 7", 7), ("kill -9 $$", 137), ("test -d /proc/self && test $(cut -d' ' -f1 /proc/self/stat) -lt 100", 0)]:
        done = p.run("--pid-namespace", "sh", "-c", command)
        check(done.returncode == status, f"{command}: {done.returncode}, {done.stderr}")
    check(p.run("--pid-namespace", "/nonexistent").returncode == 127, "not found")
    a = p.start("--pid-namespace", "--", "bash", "-c", 'trap "echo heard; exit 6" TERM; echo ready; while :; do sleep 0.05; done')
    check(a.stdout.readline() == "ready\n", "ready")
    a.send_signal(signal.SIGTERM)
    check(a.stdout.readline() == "heard\n" and a.wait(LIMIT) == 6, "SIGTERM")


def test_proc_is_missing_or_of_another_namespace(p):
    if not may_unshare():
        return
    base = [p.program, *p.store, "--", "echo", "ran"]
    for wrap, says in [(["unshare", "--mount", "sh", "-c", 'umount -l /proc && exec "$@"', "sh"], "/proc is not mounted"),
                       (["unshare", "--pid", "--fork"], "/proc belongs to another PID namespace")]:
        done = subprocess.run([*wrap, *base], cwd=p.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT,
                              env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
        without_proc = "LeakSanitizer has encountered a fatal error" in done.stderr       # it needs /proc, and then has a status of its own
        check((done.returncode == 125 or without_proc) and says in done.stderr and done.stdout == "", f"{wrap}: {done}")


def test_as_process_1(p):
    """As in a container: orphans of others are buried, signals arrive, the status is passed on."""
    if not may_unshare():
        return
    script = '(sleep 0.1 & exec true) & trap "echo heard; exit 6" TERM; echo ready; while :; do sleep 0.05; done'
    command = ["unshare", "--pid", "--fork", "--mount-proc", p.program, *p.store, "--", "bash", "-c", script]
    outer = subprocess.Popen(command, cwd=p.dir, stdout=subprocess.PIPE, text=True)
    try:
        check(outer.stdout.readline() == "ready\n", "ready")
        os.kill(children(outer.pid)[0], signal.SIGTERM)
        check(outer.stdout.readline() == "heard\n" and outer.wait(LIMIT) == 6, f"SIGTERM: {outer.returncode}")
    finally:
        for pid in descendants(outer.pid):
            os.kill(pid, signal.SIGKILL)
        outer.wait()
        outer.stdout.close()


def test_leader_run_is_stopped(p):
    a = p.work("a", "stubborn", "daemon")
    p.at_work(1, 2)
    b = p.work("b")
    a.send_signal(signal.SIGSTOP)
    p.at_work(2)
    p.never_two()
    a.send_signal(signal.SIGCONT)
    b.send_signal(signal.SIGTERM)
    b.wait(LIMIT)
    p.at_work(3, 2)
    p.never_two()
    check(a.poll() is None and "competing again" in p.said(), "it competes again")


def test_leader_run_is_stopped_once(p):
    a = p.work("a", "stubborn", options=("--lease", "5s", "--once"))
    p.at_work(1)
    p.work("b")
    a.send_signal(signal.SIGSTOP)
    p.at_work(2)
    a.send_signal(signal.SIGCONT)
    check(a.wait(LIMIT) == 75, f"--once: {a.returncode}")
    p.never_two()


def test_polite_command_hears_sigterm_first(p):
    """leader-run is stopped for less than a lease: the guard sends SIGTERM ahead of the deadline, all by itself."""
    script = f'trap "echo TERM >{p.dir}/heard; exit 0" TERM; echo ready; while :; do sleep 0.02; done'
    a = p.start("--lease", "6s", "--grace", "1500ms", "--once", "--", "bash", "-c", script)
    check(a.stdout.readline() == "ready\n", "ready")
    a.send_signal(signal.SIGSTOP)
    wait_for(lambda: os.path.exists(f"{p.dir}/heard"), "SIGTERM")
    a.send_signal(signal.SIGCONT)
    check(a.wait(LIMIT) == 75, f"{a.returncode}")


def test_guard_is_killed(p):
    a = p.work("a", "stubborn", "daemon")
    p.at_work(1, 2)
    p.work("b")
    os.kill(guard_of(a), signal.SIGKILL)
    check(a.wait(LIMIT) == 137, f"status {a.returncode}")
    p.at_work(2)
    p.never_two()


def test_guard_is_stopped_and_leadership_lost(p):
    a = p.work("a", "stubborn", "daemon")
    p.at_work(1, 2)
    guard = guard_of(a)
    os.kill(guard, signal.SIGSTOP)
    shutil.rmtree(p.store[1] + ".d")            # the store says: not yours
    wait_for(lambda: stat_of(guard) is None, "the guard is not waited for")
    wait_for(lambda: not [pid for pid in p.terms().popitem()[1][3] if is_worker(pid, p.journal)], "nothing is left")
    check(a.poll() is None, "it competes again")
    p.at_work(2)
    p.never_two()


def test_lost_to_somebody_else(p):
    a = p.work("a", "stubborn", "daemon")
    p.at_work(1, 2)
    first = p.terms()
    shutil.rmtree(p.store[1] + ".d")
    wait_for(lambda: "competing again" in p.said(), "leadership lost")
    pids = p.terms()[list(first)[0]][3]
    check(not [pid for pid in pids if is_worker(pid, p.journal)], "all are dead when it says so")
    p.at_work(2)
    p.never_two()


def test_stopped_command_is_killed_as_well(p):
    a = p.work("a", "daemon")
    p.at_work(1, 2)
    for pid in p.terms().popitem()[1][3]:
        os.kill(pid, signal.SIGSTOP)
    p.work("b")
    a.send_signal(signal.SIGKILL)
    p.at_work(2)
    p.never_two()
    check(not [pid for pid in list(p.terms().values())[0][3] if is_worker(pid, p.journal)], "stopped processes are left")


def test_daemons_left_behind(p):
    """The command ends by itself and leaves a daemon: that is gone before the status is passed on."""
    script = f'setsid {sys.executable} {os.path.abspath(__file__)} worker {p.journal} stubborn & until [ -s {p.journal} ]; do sleep 0.02; done; exit 9'
    a = p.start("--id", "a", "--grace", "300ms", "--", "bash", "-c", script)
    check(a.wait(LIMIT) == 9, f"status {a.returncode}")
    check(not [pid for pid in p.terms().popitem()[1][3] if is_worker(pid, p.journal)], "a daemon is left")
    p.work("b")
    p.at_work(2)
    p.never_two()


STALL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
int isatty(int fd) {                            /* called between fork and exec */
    if (fd == 0 && unlink(getenv("STALL_ONCE")) == 0) usleep(2500000);
    return ((int (*)(int))dlsym(RTLD_NEXT, "isatty"))(fd);
}
"""


def test_stall_before_the_command_is_run(p):
    """The time that the command was given is over when its turn comes, though the lease has been renewed: it is started again."""
    with open(f"{p.dir}/stall.c", "w") as f:
        f.write(STALL)
    subprocess.run(["cc", "-shared", "-fPIC", f"{p.dir}/stall.c", "-o", f"{p.dir}/stall.so", "-ldl"], check=True)
    open(f"{p.dir}/once", "w").close()
    done = p.run("--lease", "3s", "--once", "echo", "ran", env={**os.environ, "LD_PRELOAD": f"{p.dir}/stall.so", "STALL_ONCE": f"{p.dir}/once",
                                                      "ASAN_OPTIONS": "verify_asan_link_order=0"})
    check(done.returncode == 0 and done.stdout == "ran\n" and "trying again" in done.stderr, f"{done}")


def test_its_whole_group_is_killed(p):
    a = p.work("a", "stubborn", "daemon", start_new_session=True)
    p.at_work(1, 2)
    p.work("b")
    os.killpg(a.pid, signal.SIGKILL)
    p.at_work(2)
    p.never_two()


def test_many_candidates_killed_in_turn(p):
    everyone = [p.work(f"n{i}", "stubborn", "daemon", options=("--lease", "5s", "--grace", "100ms")) for i in range(4)]
    for term in range(1, 4):
        p.at_work(term, 2)
        leader = json.loads(p.run("--status", "--json").stdout)["leader"]
        everyone[int(leader[1:])].send_signal(signal.SIGKILL)
    p.at_work(4)
    p.never_two()


# ---- other stores ----------------------------------------------------------------------------------------------------------------------

def redis_status_and_environment(p):
    with_redis(p)
    done = p.run("--status")
    check((done.returncode, done.stdout) == (1, "nobody leads job\n"), f"nobody: {done}")
    a = p.start("--id", "a", "--", "sh", "-c", "echo $LEADER_TOKEN $LEADER_NAME; cat", stdin=subprocess.PIPE)
    token, name = a.stdout.readline().split()
    done = p.run("--status", "--json")
    found = json.loads(done.stdout)
    check(done.returncode == 0 and (found["leader"], found["token"], found["election"], name) == ("a", int(token), "job", "job"), f"{done}")
    a.stdin.close()
    check(a.wait(LIMIT) == 0, "status")
    done = p.run("--status", store=["--redis", "env", "--name", "job"], env={**os.environ, "REDIS_URL": p.store[1]})
    check(done.returncode == 1, f"the URL from the environment: {done}")


def redis_stops_answering(p):
    server = with_redis(p)
    a = p.work("a", "stubborn", "daemon")
    p.at_work(1, 2)
    p.work("b")
    server.send_signal(signal.SIGSTOP)
    wait_for(lambda: not [pid for pid in list(p.terms().values())[0][3] if is_worker(pid, p.journal)], "the command is dead")
    last = list(p.terms().values())[0][1]
    ended = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    server.send_signal(signal.SIGCONT)
    p.at_work(2)
    p.never_two()
    check(last < ended, "clock")


def redis_leader_run_is_killed_or_stopped(p):
    with_redis(p)
    a = p.work("a", "stubborn", "daemon")
    p.at_work(1, 2)
    b = p.work("b", "stubborn", "daemon")
    a.send_signal(signal.SIGKILL)
    p.at_work(2, 2)
    p.never_two()
    p.work("c")
    b.send_signal(signal.SIGSTOP)
    p.at_work(3)
    p.never_two()


def redis_is_not_there(p):
    done = p.run("--status", store=["--redis", f"redis://127.0.0.1:{free_port()}", "--name", "job"])
    check(done.returncode == 69 and done.stderr.startswith("leader-run: job: "), f"{done}")


def k8s_status_and_environment(p):
    server = with_k8s(p)
    done = p.run("--status", env=p.env)
    check((done.returncode, done.stdout) == (1, "nobody leads job\n"), f"nobody: {done}")
    a = p.start("--", "sh", "-c", "echo $LEADER_TOKEN $LEADER_NAME $LEADER_IDENTITY; cat", stdin=subprocess.PIPE, env=p.env)
    token, name, identity = a.stdout.readline().split()
    check((name, identity) == ("job", "pod-a"), f"{name} {identity}")
    lease = server.control("GET", "/leases/default/job")
    done = p.run("--status", "--json", env=p.env, store=["--k8s", "default/job"])
    found = json.loads(done.stdout)
    check(found.pop("since") in (None, lease["spec"]["acquireTime"]), f"{done} {lease}")
    check(found == {"election": "default/job", "leader": "pod-a", "token": int(token)}, f"{done} {lease}")
    a.stdin.close()
    check(a.wait(LIMIT) == 0, "status")
    check(p.run("--status", env=p.env).returncode == 1, "released")
    done = p.run("--status", env=p.env, store=["--k8s", "kube-system/job"])
    check(done.returncode == 77 and done.stderr.count("\n") == 1, f"another namespace, without rights: {done}")


def kubeconfig(p, server, user):
    path = os.path.join(p.dir, "kubeconfig")
    with open(path, "w") as f:
        f.write(f"""apiVersion: v1
kind: Config
current-context: nowhere
clusters:
- name: test
  cluster:
    server: https://127.0.0.1:{server.port}
    certificate-authority: {server.ready["ca"]}
- name: nowhere
  cluster:
    server: https://127.0.0.1:{free_port()}
contexts:
- name: test
  context:
    cluster: test
    user: me
    namespace: default
- name: nowhere
  context:
    cluster: nowhere
    user: me
users:
- name: me
  user:
{user}""")
    return path


def k8s_outside_a_pod(p):
    """A kubeconfig and its contexts; a client certificate, a token, a program for a token; what is recorded as Events."""
    server = with_k8s(p)
    certificate = f"    client-certificate: {server.ready['client_cert']}\n    client-key: {server.ready['client_key']}\n"
    token = "    token: admintoken\n"
    bare = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")}
    for user in (certificate, token):
        path = kubeconfig(p, server, user)
        for how, env in ((["--kubeconfig", path], bare), ([], {**bare, "KUBECONFIG": path})):
            done = p.run(*how, "--context", "test", "--events", "-n", "echo", "ran", store=["--k8s", "outside"], env=env)
            check((done.returncode, done.stdout) == (0, "ran\n"), f"{user} {how}: {done}")
            done = p.run(*how, "-n", "true", store=["--k8s", "default/outside"], env=env)
            check(done.returncode == 69, f"the current context is another server: {done}")
    said = [event["reason"] + " " + event["message"] for event in server.control("GET", "/events")["events"]]
    check(any("became leader" in text for text in said) and any("stopped leading" in text for text in said), f"Events: {said}")
    for user, says in (("    exec:\n      command: login\n", "kubectl create token"), ("    username: x\n    password: y\n", "passwords are not supported")):
        done = p.run("--kubeconfig", kubeconfig(p, server, user), "--context", "test", "true", store=["--k8s", "default/outside"], env=bare)
        check(done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, f"{user}: {done}")
    done = p.run("--kubeconfig", kubeconfig(p, server, "    token: wrong\n"), "--context", "test", "-n", "true", store=["--k8s", "default/outside"], env=bare)
    check(done.returncode == 77, f"a token that is refused: {done}")
    done = p.run("--label-pod", "true", store=["--quorum", "k8s://a,k8s://b,k8s://c"], env=bare)
    check(done.returncode == 2 and "of a majority, a Lease is one vote" in done.stderr, f"a label by one vote: {done}")
    done = p.run("true", store=["--k8s", "x"], env={k: v for k, v in bare.items() if k != "HOME"})
    check(done.returncode == 2 and "neither in a pod" in done.stderr, f"nowhere: {done}")


def k8s_leader_run_is_killed_and_the_server_stops_answering(p):
    server = with_k8s(p)
    options = ("--lease", "5s", "--deadline", "3s")
    a = p.work("a", "stubborn", "daemon", options=options, env=p.env)
    p.at_work(1, 2)
    p.work("b", "stubborn", "daemon", options=options, env=p.env)
    a.send_signal(signal.SIGKILL)
    p.at_work(2, 2)
    p.never_two()
    server.control("POST", "/listen", {"mode": "blackhole", "drop": True})
    wait_for(lambda: not [pid for pid in list(p.terms().values())[1][3] if is_worker(pid, p.journal)], "the command is dead")
    server.control("POST", "/listen", {"mode": "open"})
    p.at_work(3)
    p.never_two()


# ---- all of them -----------------------------------------------------------------------------------------------------------------------

def main():
    args = [a for a in sys.argv[1:] if a != "--only"]
    only = args.pop() if "--only" in sys.argv else ""
    program = os.path.abspath(args[0] if args else os.path.join(TOP, "build", "leader-run"))
    kinds = ("test_", *(["redis_"] if has_store(program, "--redis", "x", "--name", "n") else []), *(["k8s_"] if has_store(program, "--k8s", "x") else []))
    return run_tests([f for name, f in globals().items() if name.startswith(kinds)], program, Workplace, only)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
    sys.exit(main())

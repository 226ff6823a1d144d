"""What the tests of programs share: a place for each test, its processes, conditions with a limit, and servers."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 60                                      # seconds for any condition


class Failed(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Failed(what)


def wait_for(condition, what, limit=LIMIT):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise Failed(f"not within {limit} s: {what}")


class Place:
    """A directory of its own for one test, and every process that it started."""

    def __init__(self, program):
        self.program = program
        self.dir = tempfile.mkdtemp(prefix="leader-run-")
        self.processes = []
        self.store = ["--file", os.path.join(self.dir, "job.lease")]
        self.ends = []

    def run(self, *args, store=None, limit=LIMIT, **more):
        command = [self.program, *(self.store if store is None else store), *args]
        return subprocess.run(command, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit, **more)

    def start(self, *args, store=None, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        errors = open(os.path.join(self.dir, f"stderr-{len(self.processes)}"), "w+")
        process = subprocess.Popen([self.program, *(self.store if store is None else store), *args], cwd=self.dir, stdout=subprocess.PIPE, stderr=errors, text=True, **more)
        process.errors = errors
        self.processes.append(process)
        return process

    def said(self):
        texts = []
        for process in self.processes:
            process.errors.seek(0)
            texts.append(process.errors.read().strip())
        return " | ".join(t for t in texts if t)

    def close(self):
        for process in self.processes:
            below = [process.pid, *descendants(process.pid)] if process.poll() is None else []
            for pid in below:
                for number in (signal.SIGKILL, signal.SIGCONT):
                    try:
                        os.kill(pid, number)
                    except ProcessLookupError:
                        pass
            process.wait()
            process.stdout.close()
            process.errors.close()
        for end in self.ends:
            end()
        shutil.rmtree(self.dir, ignore_errors=True)


def stat_of(pid):
    try:
        text = open(f"/proc/{pid}/stat").read()
        return text[text.rindex(")") + 2:].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = stat_of(name)
            if stat and int(stat[1]) == pid:
                found.append(int(name))
    return found


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=LIMIT) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    except OSError:
        return None, ""


def with_redis(p):
    """A redis-server of the test's own, as the place's store. -> its process"""
    port = free_port()
    server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", p.dir], stdout=subprocess.DEVNULL)
    def end():
        server.send_signal(signal.SIGCONT)
        server.kill()
        server.wait()
    p.ends.append(end)
    wait_for(lambda: not socket.socket().connect_ex(("127.0.0.1", port)), "redis-server")
    p.store = ["--redis", f"redis://127.0.0.1:{port}", "--name", "job"]
    return server


def has_store(program, *choice):
    return "built without" not in subprocess.run([program, *choice], stderr=subprocess.PIPE, text=True, timeout=LIMIT).stderr


def run_tests(tests, program, place=Place, only=""):
    """Runs the functions, each with a place of its own; prints the count that tests/run reads. -> the exit status"""
    passed = failed = 0
    for test in tests:
        if only not in test.__name__:
            continue
        p, began = place(program), time.monotonic()
        try:
            test(p)
            passed += 1
            print(f"ok    {test.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as e:                  # whatever it is, the other tests go on
            failed += 1
            print(f"FAIL  {test.__name__}: {type(e).__name__}: {e}\n      {p.said()}", flush=True)
        finally:
            p.close()
    print(f"{passed} passed, {failed} failed")
    return failed != 0

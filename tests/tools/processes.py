"""What the tests of programs share: a place for each test, its processes, conditions with a limit, and servers."""
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 60                                      # seconds for any condition


class Failed(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Failed(what)


def slowness():
    """How many times longer things take now than on a quiet machine, at least 1: see tests/tools/patience.h."""
    try:
        with open("/proc/loadavg") as f:
            running = int(f.read().split()[3].split("/")[0])
    except OSError:
        running = 1
    began, mix = time.monotonic(), 1
    for _ in range(2000):
        mix = mix * 1664525 + 1013904223 & 0xffffffff
    return max(1.0, (time.monotonic() - began) / 0.002) * max(1.0, running / (os.cpu_count() or 1))


def wait_for(condition, what, limit=LIMIT):
    """What the condition answers as soon as that is true. The limit is in seconds of a quiet machine: a slow one has more."""
    left, seen, slow, measured = float(limit), time.monotonic(), 1.0, 0.0
    while left > 0:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
        now = time.monotonic()
        if now - measured > 0.1:
            fresh = slowness()
            slow, measured = max(fresh, (slow * 7 + fresh) / 8), now
        left, seen = left - (now - seen) / slow, now
    raise Failed(f"not within {limit} s (of a quiet machine): {what}")


class Place:
    """A directory of its own for one test, and every process that it started."""

    def __init__(self, program):
        self.program = program
        self.dir = tempfile.mkdtemp(prefix="leader-run-")
        self.processes = []
        self.store = ["--file", os.path.join(self.dir, "job.lease")]
        self.env = None                         # that of the test itself
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
            if process.stdout:
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
    """The processes that it started, as the kernel lists them, or by a look at every process where it does not."""
    found, listed = [], False
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path) as f:
                found += [int(word) for word in f.read().split()]
            listed = True
        except OSError:
            pass
    if listed:
        return found
    stats = ((name, stat_of(name)) for name in os.listdir("/proc") if name.isdigit())
    return [int(name) for name, stat in stats if stat and int(stat[1]) == pid]


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


def with_etcd(p):
    """An etcd of the test's own, as the place's store. -> its process"""
    port, peer = free_port(), free_port()
    url, log = f"http://127.0.0.1:{port}", open(os.path.join(p.dir, "etcd.log"), "w")
    server = subprocess.Popen(["etcd", "--data-dir", os.path.join(p.dir, "etcd"), "--listen-client-urls", url, "--advertise-client-urls", url,
                               "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                               "--initial-cluster", f"default=http://127.0.0.1:{peer}", "--unsafe-no-fsync"], stdout=log, stderr=log)
    def end():
        server.kill()
        server.wait()
        log.close()
    p.ends.append(end)
    wait_for(lambda: "true" in get(f"{url}/health")[1], "etcd")
    p.store = ["--etcd", url, "--name", "job"]
    return server


def with_pg(p):
    """A PostgreSQL cluster of the test's own, as the place's store. -> the server of store_pg.py"""
    sys.path.insert(0, os.path.join(TOP, "tests", "chaos"))
    from store_pg import Server
    os.chmod(p.dir, 0o711)
    server = Server(p.dir).make()
    p.ends.append(server.kill)
    wait_for(lambda: server.ask("SELECT 1") == "1", "PostgreSQL")
    p.store = ["--pg", f"postgres://postgres@127.0.0.1:{server.port}/postgres", "--name", "job"]
    return server


def with_k8s(p):
    """The test API server as the place's store, and what a pod finds around it: its account's files, and the server's address."""
    sys.path.insert(0, os.path.join(TOP, "tests", "k8s"))
    from k8s_client import Server
    server = Server().__enter__()
    p.ends.append(server.stop)
    p.env = {**os.environ, "LEADER_K8S_SERVICE_ACCOUNT": server.ready["service_account"], "KUBERNETES_SERVICE_HOST": "127.0.0.1",
             "KUBERNETES_SERVICE_PORT": str(server.port), "POD_NAMESPACE": "default", "POD_NAME": "pod-a"}
    p.store = ["--k8s", "job"]
    return server


def has_store(program, *choice):
    return "built without" not in subprocess.run([program, *choice], stderr=subprocess.PIPE, text=True, timeout=LIMIT).stderr


WORKERS = int(os.environ.get("TEST_WORKERS", "4"))        # tests that run at a time: most of them wait


def run_one(test, program, place):
    p, began = place(program), time.monotonic()
    try:
        test(p)
        print(f"ok    {test.__name__} ({time.monotonic() - began:.1f} s)\n", end="", flush=True)
        return True
    except Exception as e:                      # whatever it is, the other tests go on
        print(f"FAIL  {test.__name__}: {type(e).__name__}: {e}\n      {p.said()}\n", end="", flush=True)
        return False
    finally:
        p.close()


def work(tests, program, place, todo, done):
    """A worker: takes the number of the next test from one pipe, writes its outcome to the other."""
    while True:
        number = os.read(todo, 1)
        if not number:
            return
        passed = run_one(tests[number[0]], program, place)
        os.write(done, b"p" if passed else b"f")


def run_tests(tests, program, place=Place, only=""):
    """Runs the functions, each with a place of its own; prints the count that tests/tools/run reads. -> the exit status"""
    chosen = [test for test in tests if only in test.__name__]
    for number in (signal.SIGHUP, signal.SIGQUIT):          # a shell's background job, or nohup, would have programs start with these ignored
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    todo, give = os.pipe()
    results, done = os.pipe()
    os.write(give, bytes(range(len(chosen))))
    os.close(give)
    sys.stdout.flush()
    workers = []
    for _ in range(min(WORKERS, len(chosen))):
        worker = os.fork()
        if worker == 0:
            status = 1
            try:
                os.close(results)
                work(chosen, program, place, todo, done)
                status = 0
            finally:
                os._exit(status)
        workers.append(worker)
    os.close(todo)
    os.close(done)
    outcome = b""
    while True:
        block = os.read(results, 256)
        if not block:
            break
        outcome += block
    for worker in workers:
        os.waitpid(worker, 0)
    passed = outcome.count(b"p")
    failed = len(chosen) - passed               # one whose worker died has failed
    print(f"{passed} passed, {failed} failed")
    return failed != 0

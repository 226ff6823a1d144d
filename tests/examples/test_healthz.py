#!/usr/bin/env python3
"""Asks examples/healthz.c what a probe asks, and what nobody should: slow, silent, endless and malformed clients.

    tests/examples/test_healthz.py [PROGRAM]              the last line is "N passed, N failed"
"""
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
from processes import TOP, LIMIT, Failed, check, free_port, get, has_store, run_tests, wait_for, with_redis


class Service:
    def __init__(self, p, name, *options):
        self.port = free_port()
        self.process = p.start("--id", name, "--http", f"127.0.0.1:{self.port}", *options)

    def get(self, path):
        return get(f"http://127.0.0.1:{self.port}{path}")

    def ready(self):
        status, body = self.get("/readyz")
        return json.loads(body) if status == 200 else {}

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT)

    def say(self, data, half_close=False):
        """The whole answer to these bytes; what the service does not take any more does not matter."""
        with self.connect() as s:
            try:
                s.sendall(data)
                if half_close:
                    s.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            got = b""
            try:
                while chunk := s.recv(65536):
                    got += chunk
            except ConnectionResetError:
                pass
            return got


def test_usage_mistakes(p):
    for args, says in [
        ([], "which store?"),
        (["--file", "x.lease", "--bogus"], "--bogus: unknown option"),
        (["--file", "x.lease", "--http"], "--http: a value is missing"),
        (["--file", "x.lease", "--http", "x"], "ADDRESS:PORT"),
        (["--file", "x.lease", "--http", "127.0.0.1:99999"], "ADDRESS:PORT"),
        (["--file", "x.lease", "--lease", "5"], "not a duration"),
        (["--file", "x.lease", "--id", "\udcff"], "identity is not UTF-8 at byte 0"),
    ]:
        done = p.run(*args, store=[])
        check(done.returncode == 2 and done.stderr.count("\n") == 1 and says in done.stderr, f"{args}: {done}")


def leader_and_standby(p):
    a = Service(p, 'node "a"\n', "--lease", "3s")
    wait_for(lambda: a.ready().get("role") == "leader", "a leads")
    b = Service(p, "b", "--lease", "3s")
    seen = wait_for(lambda: b.ready(), "b is ready")
    mine = a.ready()
    check(seen["role"] == "standby" and seen["leader"] == 'node "a"\n' and seen["identity"] == "b", f"standby: {seen}")
    check(seen["token"] == mine["token"] > 0 and 0 <= seen["age_ms"] < 60000, f"token and age: {seen} {mine}")
    check(a.get("/healthz") == (200, "ok\n") and b.get("/healthz") == (200, "ok\n"), "both are healthy")
    for service, role in ((a, "leader"), (b, "standby")):
        asked = urllib.request.Request(f"http://127.0.0.1:{service.port}/healthz", headers={"Accept": "application/json"})
        with urllib.request.urlopen(asked, timeout=LIMIT) as reply:
            said = json.load(reply)
            check(reply.headers["Content-Type"] == "application/json", f"{reply.headers}")
        check(said["status"] == "ok" and said["role"] == role and said["leader"] == 'node "a"\n', f"{said}")
    a.process.send_signal(signal.SIGTERM)
    check(a.process.wait(LIMIT) == 0, "SIGTERM ends it with 0")
    wait_for(lambda: b.ready().get("role") == "leader", "b takes over")
    check(b.ready()["token"] > mine["token"], "with a greater token")
    return a, b


def test_leader_and_standby(p):
    leader_and_standby(p)


def metrics(text):
    """Reads the text format, strictly: every sample has its HELP and TYPE just before it."""
    values, known = {}, {}
    for line in text.split("\n")[:-1]:
        if m := re.fullmatch(r"# HELP (leader_[a-z_]+) (\S.*)", line):
            helped = m[1]
        elif m := re.fullmatch(r"# TYPE (leader_[a-z_]+) (counter|gauge)", line):
            check(m[1] == helped and m[1] not in known, f"TYPE without HELP, or twice: {line}")
            known[m[1]] = m[2]
            check(m[1].endswith("_total") == (m[2] == "counter"), f"name and type: {line}")
        else:
            m = re.fullmatch(r'(leader_[a-z_]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+\})? (\d+(?:\.\d{3})?)', line)
            check(m and m[1] in known, f"not a sample: {line!r}")
            check(m[2] and m[2].startswith('{election="'), f"without its election: {line!r}")
            labels = re.sub(r'^\{election="(?:[^"\\]|\\.)*",?', "{", m[2])
            key = m[1] + ("" if labels == "{}" else labels)
            check(key not in values, f"twice: {line}")
            values[key] = float(m[3])
    return values


def test_metrics(p):
    a = Service(p, 'node "a"', "--lease", "1500ms")
    wait_for(lambda: a.ready().get("role") == "leader", "a leads")
    status, text = a.get("/metrics")
    first = metrics(text)
    check(status == 200 and first["leader_is_leader"] == 1 and first["leader_terms_total"] == 1, f"leading: {text}")
    check(first["leader_token"] == a.ready()["token"], "token")
    info = f'leader_info{{election="{p.store[1]}",identity="node \\"a\\"",leader="node \\"a\\"",version="'
    check(info in text, f"info: {text}")
    check(all(first[f'leader_failures_total{{kind="{k}"}}'] == 0 for k in ("io", "timeout", "auth", "corrupt", "duplicate", "other")), "no failures")
    later = wait_for(lambda: (m := metrics(a.get("/metrics")[1])) and m["leader_renewals_total"] >= 2 and m, "renewals are counted")
    check(0 < later["leader_margin_min_seconds"] <= 1.5, f"margin: {later}")


def test_requests(p):
    a = Service(p, "a")
    wait_for(lambda: a.ready(), "ready")
    for request, status in [
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK"),
        (b"GET /healthz HTTP/1.0\n\n", b"200 OK"),
        (b"GET /healthz?verbose=1 HTTP/1.1\r\n\r\n", b"200 OK"),
        (b"GET /healthz/ HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"GET / HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"405 Method Not Allowed"),
        (b"get /healthz HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET /healthz\r\n\r\n", b"400 Bad Request"),
        (b"GET /healthz SPDY/3\r\n\r\n", b"400 Bad Request"),
        (b"\r\n\r\n", b"400 Bad Request"),
        (b"\x00\x01\x02\xff\n\n", b"400 Bad Request"),
        (b"GET /" + b"a" * 300 + b" HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 5000 + b"\r\n\r\n", b"431 Request Header Fields Too Large"),
        (b"a" * 100000, b"431 Request Header Fields Too Large"),
    ]:
        reply = a.say(request)
        check(reply.startswith(b"HTTP/1.1 " + status + b"\r\n"), f"{request[:60]!r}: {reply[:60]!r}")
        head, _, body = reply.partition(b"\r\n\r\n")
        check(b"Content-Length: %d\r\n" % len(body) in head and b"Connection: close" in head, f"{request[:60]!r}: {head!r}")
    head, _, body = a.say(b"HEAD /readyz HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")
    check(head.startswith(b"HTTP/1.1 200") and body == b"", "HEAD has no body")
    with a.connect() as s:                      # a byte at a time
        for byte in b"GET /healthz HTTP/1.1\r\n\r\n":
            s.sendall(bytes([byte]))
            time.sleep(0.005)
        check(s.recv(100).startswith(b"HTTP/1.1 200"), "slowly, but in time")


def test_names_that_need_escapes(p):
    """JSON has its escapes, Prometheus three others; neither shows a byte that is not UTF-8."""
    p.store = ["--file", os.path.join(p.dir, "caf\udce9.lease")]
    a = Service(p, 'a\t"b"\\\nc')
    now = wait_for(lambda: a.ready().get("role") == "leader" and a.ready(), "leads")
    check(now["identity"] == 'a\t"b"\\\nc' and now["election"].endswith("/caf\ufffd.lease"), f"{now}")
    text = a.get("/metrics")[1]
    check('identity="a\t\\"b\\"\\\\\\nc",' in text and "/caf\ufffd.lease" in text, f"{text[:400]!r}")


def test_burst_of_clients(p):
    """A hundred clients connect and ask while the service has no turn: then all are answered."""
    a = Service(p, "a")
    wait_for(lambda: a.ready(), "ready")
    a.process.send_signal(signal.SIGSTOP)
    clients = []
    try:
        for _ in range(100):
            clients.append(socket.create_connection(("127.0.0.1", a.port), timeout=5))
            clients[-1].sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            clients[-1].settimeout(LIMIT)
        a.process.send_signal(signal.SIGCONT)
        for number, client in enumerate(clients):
            check(client.recv(1000).startswith(b"HTTP/1.1 200"), f"client {number} of 100")
    finally:
        a.process.send_signal(signal.SIGCONT)
        for client in clients:
            client.close()


def test_silent_clients(p):
    """They hold every place, and more keep coming: probes are answered, and the lease is renewed through several times its length."""
    a = Service(p, "a", "--lease", "4s", "--tolerance", "60s")
    token = wait_for(lambda: a.ready(), "ready")["token"]
    silent = []
    try:
        for turn in range(40):
            for i in range(10):
                s = a.connect()
                s.sendall(b"GET /healthz HTTP/1.1\r\nX: " if i % 2 else b"")
                silent.append(s)
            check(a.get("/healthz")[0] == 200, f"a probe beside {len(silent)} clients that say nothing")
            time.sleep(0.2)
        check(len(os.listdir(f"/proc/{a.process.pid}/fd")) < 90, "connections are bounded")
        now = a.ready()
        check(now["token"] == token and now["role"] == "leader", f"the term went on: {now}")
    finally:
        for s in silent:
            s.close()


def test_client_that_never_ends_is_cut_off(p):
    a = Service(p, "a")
    wait_for(lambda: a.ready(), "ready")
    with a.connect() as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\n")
        began = time.monotonic()
        check(s.recv(100) == b"", "cut off")
        check(2 < time.monotonic() - began < LIMIT / 2, "after its time")
    with a.connect() as s:                      # answered, and then it goes on sending
        s.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        try:
            for _ in range(10000):
                s.sendall(b"x" * 1000)
                time.sleep(0.001)
            raise Failed("a client that sends for ever is served for ever")
        except OSError:
            pass


def late_answers(a):
    """Takes the descriptors away some time after a renewal, asks on connections made before, gives them back. -> the answers"""
    pid = a.process.pid
    wait_for(lambda: a.ready().get("role") == "leader" and a.ready()["remaining_ms"] < 5200, "some time after a renewal")
    before = [a.connect() for _ in range(12)]
    check(a.get("/healthz")[0] == 200, "all are accepted")
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    found = []
    for s in before:
        if not found or b"HTTP/1.1 503" not in found[-1]:
            s.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            found.append(s.recv(1000))
            time.sleep(0.35)
        s.close()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    return found


def test_late_renewals(p):
    """No descriptor to be had, so no renewal: 503 past the tolerance; 200 when it stands by again. On a busy machine the connections may be too
    old by then: a few attempts."""
    a = Service(p, "a", "--lease", "12s", "--tolerance", "200ms")
    for _ in range(4):
        found = late_answers(a)
        if b"HTTP/1.1 503" in found[-1]:
            break
    check(found[0].startswith(b"HTTP/1.1 200") and b"HTTP/1.1 503" in found[-1] and b"tolerance of 200 ms" in found[-1], f"{found}")
    wait_for(lambda: a.get("/healthz")[0] == 200 and a.ready().get("role") == "leader", "well again")


def test_many_requests(p):
    a = Service(p, "a")
    wait_for(lambda: a.ready(), "ready")
    for _ in range(500):
        check(a.get("/readyz")[0] == 200, "an answer")
    check(len(os.listdir(f"/proc/{a.process.pid}/fd")) < 90, "no descriptor leaks")


def redis_leader_and_standby(p):
    with_redis(p)
    leader_and_standby(p)


def redis_stops_answering(p):
    server = with_redis(p)
    a = Service(p, "a", "--lease", "12s", "--tolerance", "300ms")
    wait_for(lambda: a.ready().get("role") == "leader", "a leads")
    server.send_signal(signal.SIGSTOP)
    wait_for(lambda: a.get("/healthz")[0] == 503, "late renewals show")
    wait_for(lambda: a.get("/healthz")[0] == 200, "not leader any more: nothing is late")
    server.send_signal(signal.SIGCONT)
    wait_for(lambda: a.ready().get("role") == "leader", "leads again")


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(TOP, "build", "examples", "healthz"))
    kinds = ("test_", "redis_") if has_store(program, "--redis", "x", "--name", "n") else ("test_",)
    return run_tests([f for name, f in globals().items() if name.startswith(kinds)], program)


if __name__ == "__main__":
    sys.exit(main())

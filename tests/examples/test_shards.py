#!/usr/bin/env python3
"""Shards over processes that join, leave and crash, on every store: balanced after each, and quiet from then on.

    tests/examples/test_shards.py PROGRAM [NAME]                     tests whose names contain NAME; the last line is "N passed, N failed"
    tests/examples/test_shards.py PROGRAM --measure [PICTURE.svg]    times on Redis with leases of 1.5 s and a quiet minute, and a picture of it
"""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
from processes import TOP, Place, check, run_tests, wait_for, with_etcd, with_k8s, with_pg, with_redis

CALM_S = 4
COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]


class Process:
    """One process of the example, and the lines that it printed."""

    def __init__(self, p, name, *options):
        self.name, self.path, self.killed_ms = name, os.path.join(p.dir, f"{name}.out"), 0
        with open(self.path, "w") as out:
            self.process = p.start_to(out, "--id", name, *options)

    def lines(self):
        with open(self.path) as f:
            whole = f.read().rpartition("\n")[0]
        return [[int(word) if word.isdigit() else word for word in line.split()] for line in whole.splitlines()]

    def last(self):
        return (self.lines() or [[0, self.name, 0, 0, 0, 0]])[-1]

    def led(self):
        return self.last()[2]


class Shards(Place):
    def start_to(self, out, *args):
        errors = open(os.path.join(self.dir, f"stderr-{len(self.processes)}"), "w+")
        process = subprocess.Popen([self.program, *self.store, *args], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=self.env)
        process.errors, process.stdout = errors, open(os.devnull)
        self.processes.append(process)
        return process


def is_balanced(processes, shards):
    """Everything is led, and nobody is further than a tenth (or one shard) from the fair share."""
    led, fair = [process.led() for process in processes], shards / len(processes)
    return sum(led) == shards and all(abs(n - fair) <= max(1, fair / 10) for n in led)


def story(p, shards, lease, calm_s, told=lambda *_: None):
    """Three start, a fourth joins, one leaves, one crashes. -> all processes"""
    options = ("--shards", str(shards), "--lease", lease)

    def balanced(what, processes):
        began = time.monotonic()
        wait_for(lambda: is_balanced(processes, shards), f"{what}: {[process.last() for process in processes]}")
        told(what, time.monotonic() - began, [process.led() for process in processes])

    a, b, c = (Process(p, name, *options) for name in "abc")
    balanced("three start", [a, b, c])
    d = Process(p, "d", *options)
    balanced("one joins", [a, b, c, d])
    a.process.send_signal(signal.SIGTERM)
    balanced("one leaves", [b, c, d])
    check(a.process.wait(60) == 0 and a.led() == 0, f"ends with 0: {a.last()}")
    b.killed_ms = time.monotonic_ns() // 1000000
    b.process.kill()
    balanced("one crashes", [c, d])
    given = [process.last()[5] for process in (c, d)]
    time.sleep(calm_s)
    check([process.last()[5] for process in (c, d)] == given, f"given away without need: {given}, then {c.last()} {d.last()}")
    told(f"{calm_s} s later", calm_s, [c.led(), d.led()])
    return [a, b, c, d]


# ---- stores ---------------------------------------------------------------------------------------------------------------------------

def shards_on_files(p):
    p.store = ["--file", os.path.join(p.dir, "shard")]
    story(p, 64, "6s", CALM_S)


def shards_on_redis(p):
    with_redis(p)
    story(p, 256, "6s", CALM_S)


def shards_on_a_majority(p):
    urls = []
    for _ in range(3):
        with_redis(p)
        urls.append(p.store[1])
    p.store = ["--quorum", ",".join(urls), "--name", "job"]
    story(p, 32, "6s", CALM_S)


def shards_on_etcd(p):
    with_etcd(p)
    story(p, 32, "6s", CALM_S)


def shards_on_postgresql(p):
    with_pg(p)
    story(p, 32, "6s", CALM_S)


def may_watch(server):
    server.control("POST", "/users", {"user": "elector", "verbs": ["get", "create", "update", "watch"], "namespaces": ["default"]})


def shards_on_kubernetes(p):
    may_watch(with_k8s(p))
    story(p, 16, "6s", CALM_S)


def shards_on_redis_postgresql_and_a_lease(p):
    """A majority of three kinds of store, of which one is killed in the end"""
    with_redis(p)
    redis = p.store[1]
    server = with_pg(p)
    pg = p.store[1]
    may_watch(with_k8s(p))
    p.store = ["--quorum", f"{redis},{pg},k8s://job", "--name", "job"]
    left = story(p, 8, "6s", CALM_S)[2:]
    server.kill()
    left.append(Process(p, "e", "--shards", "8", "--lease", "6s"))
    wait_for(lambda: is_balanced(left, 8), f"one joins while PostgreSQL is down: {[process.last() for process in left]}")


TESTS = [shards_on_files, shards_on_redis, shards_on_a_majority, shards_on_etcd, shards_on_postgresql, shards_on_kubernetes,
         shards_on_redis_postgresql_and_a_lease]


# ---- figures --------------------------------------------------------------------------------------------------------------------------

def picture(processes, path):
    """How many shards each process led, over time, as steps."""
    lines = {process.name: process.lines() for process in processes}
    start = min(line[0] for each in lines.values() for line in each)
    end = max(line[0] for each in lines.values() for line in each) + 1000
    width, height, left, top = 900, 300, 50, 20
    most = max(line[2] for each in lines.values() for line in each)

    def x(ms):
        return left + (ms - start) * (width - left - 20) / (end - start)

    def y(n):
        return top + (most - n) * (height - top - 40) / most
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for n in range(0, most + 1, 32):
        parts.append(f'<path d="M{left} {y(n):.1f}H{width - 20}" stroke="#ddd"/><text x="{left - 6}" y="{y(n) + 4:.1f}" text-anchor="end">{n}</text>')
    for ms in range(start, end, 1000):
        parts.append(f'<text x="{x(ms):.1f}" y="{height - 20}" text-anchor="middle">{(ms - start) // 1000} s</text>')
    for number, (name, each) in enumerate(lines.items()):
        killed_ms = next(process.killed_ms for process in processes if process.name == name)
        path_of = f"M{x(each[0][0]):.1f} {y(0):.1f}"
        for at, _, led, *_ in each:
            path_of += f"H{x(at):.1f}V{y(led):.1f}"
        path_of += f"H{x(killed_ms):.1f}V{y(0):.1f}" if killed_ms else f"H{x(end):.1f}"
        parts.append(f'<path d="{path_of}" fill="none" stroke="{COLOURS[number]}" stroke-width="2"/>')
        parts.append(f'<text x="{left + 10 + 60 * number}" y="{height - 4}" fill="{COLOURS[number]}">process {name}</text>')
    with open(path, "w") as f:
        f.write("\n".join([*parts, "</svg>\n"]))


def measure(program, path):
    p = Shards(program)
    try:
        with_redis(p)
        processes = story(p, 256, "1500ms", 60, lambda what, took, led: print(f"{what:14} {took:6.2f} s   {'/'.join(map(str, led))}", flush=True))
        if path:
            picture(processes, path)
    finally:
        p.close()


if __name__ == "__main__":
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(TOP, "build", "examples", "shards"))
    if sys.argv[2:3] == ["--measure"]:
        measure(program, "".join(sys.argv[3:4]))
        sys.exit(0)
    sys.exit(run_tests(TESTS, program, Shards, *sys.argv[2:3]))

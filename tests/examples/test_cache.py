#!/usr/bin/env python3
"""Three copies of examples/cache.c: who reads the data source, who waits, and what a promotion in the middle of the start does.

    tests/examples/test_cache.py [PROGRAM]                the last line is "N passed, N failed"
"""
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
from processes import TOP, LIMIT, check, free_port, get, run_tests, wait_for


class Copy:
    """One process; its lines are collected as they come."""

    def __init__(self, p, name, refresh=600000, slow=0, *options):
        self.lines = []
        self.process = p.start(name, ".", str(refresh), str(slow), *options, store=[], stdin=subprocess.PIPE)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def says(self, text, times=1):
        wait_for(lambda: sum(text in line for line in self.lines) >= times, f"{text!r}, {times} times; it said {self.lines}")

    def said(self, text):
        return any(text in line for line in self.lines)


def source(p, *entries):
    with open(os.path.join(p.dir, "new"), "w") as f:
        f.write("".join(f"{e}\n" for e in entries))
    os.rename(os.path.join(p.dir, "new"), os.path.join(p.dir, "source"))


def test_leader_and_followers_start(p):
    source(p, "colour red", "size 7")
    a = Copy(p, "a")
    a.says("saved a snapshot")
    check(a.lines[:2] == ["reading the data source: leader without a snapshot", "ready: 2 entries from the data source"], f"{a.lines}")
    b, c = Copy(p, "b"), Copy(p, "c")
    for copy in (b, c):
        copy.says("ready: 2 entries from the snapshot")
        copy.tell("get colour")
        copy.says("colour = red")
        check(not copy.said("reading"), f"followers leave the data source alone: {copy.lines}")
    for copy in (a, b, c):
        copy.tell("quit")
        check(copy.process.wait(LIMIT) == 0, "ends with 0")
    d = Copy(p, "d")
    d.says("ready: 2 entries from the snapshot")
    check(not d.said("reading"), "a leader that finds a snapshot takes it")


def test_promotion_in_the_middle_of_the_start(p):
    source(p, *[f"k{i} v{i}" for i in range(20)])
    a = Copy(p, "a", slow=100)                  # two seconds for the source, at least
    a.says("reading the data source: leader without a snapshot")
    b, c = Copy(p, "b", slow=20), Copy(p, "c", slow=20)
    for copy in (b, c):
        copy.says("waiting for a to save a snapshot (1 of 10)")
    a.process.send_signal(signal.SIGKILL)
    a.process.wait()
    wait_for(lambda: b.said("promoted while waiting") or c.said("promoted while waiting"), f"a promotion; {a.lines} {b.lines} {c.lines}")
    new, other = (b, c) if b.said("promoted while waiting") else (c, b)
    new.says("ready: 20 entries from the data source")
    new.says("saved a snapshot")
    other.says("ready: 20 entries from the snapshot")
    check(not a.said("ready") and not other.said("reading"), f"{a.lines} {other.lines}")


def test_schedule_and_demand(p):
    source(p, "colour red")
    a = Copy(p, "a", refresh=200)
    a.says("saved a snapshot")
    b = Copy(p, "b", refresh=200)
    b.says("ready: 1 entries from the snapshot")
    a.says("reading the data source: schedule", 3)
    check(not b.said("reading"), f"silently skipped on a follower: {b.lines}")
    source(p, "colour blue")
    wait_for(lambda: "colour blue" in open(os.path.join(p.dir, "snapshot")).read(), "the leader's refresh is in the snapshot")
    b.says("1 entries from the snapshot", 2)
    b.tell("get colour")
    b.says("colour = blue")
    check(not b.said("saved"), "a follower saves no snapshot")
    a.tell("quit")
    a.process.wait(LIMIT)
    b.says("reading the data source: schedule", 2)
    b.says("saved a snapshot")


def test_a_refresh_from_any_copy_reaches_all(p):
    source(p, "colour red")
    port = free_port()
    a = Copy(p, "a")
    a.says("saved a snapshot")
    b, c = Copy(p, "b"), Copy(p, "c", 600000, 0, "--http", f"127.0.0.1:{port}")
    for copy in (b, c):
        copy.says("ready: 1 entries from the snapshot")
    source(p, "colour blue")
    b.tell("refresh")
    b.says("the leader is asked to refresh")
    a.says("reading the data source: demand")
    wait_for(lambda: get(f"http://127.0.0.1:{port}/get/colour") == (200, "blue\n"), "over HTTP from another follower")
    source(p, "colour green")
    check(get(f"http://127.0.0.1:{port}/refresh") == (200, "the leader is asked to refresh\n"), "asked over HTTP")
    a.says("reading the data source: demand", 2)
    wait_for(lambda: get(f"http://127.0.0.1:{port}/get/colour") == (200, "green\n"), "which comes back to it")
    check(get(f"http://127.0.0.1:{port}/get/size")[0] == 404, "nothing of that name")
    check(not b.said("reading") and not c.said("reading"), f"{b.lines} {c.lines}")


def test_a_snapshot_is_served_while_the_lease_store_is_down(p):
    source(p, "colour red")
    a = Copy(p, "a")
    a.says("saved a snapshot")
    a.tell("quit")
    a.process.wait(LIMIT)
    os.rename(os.path.join(p.dir, "lease.d"), os.path.join(p.dir, "lease.away"))
    open(os.path.join(p.dir, "lease.d"), "w").close()
    b = Copy(p, "b")
    b.says("the lease store has not answered")
    b.says("ready: 1 entries from the snapshot")
    b.tell("get colour")
    b.says("colour = red")


def test_ten_tries_and_no_more(p):
    source(p, *[f"k{i} v{i}" for i in range(1000)])
    a = Copy(p, "a", slow=1000)
    a.says("reading the data source")
    b = Copy(p, "b")
    b.says("no snapshot came: giving up")
    check(sum("waiting for a" in line for line in b.lines) == 10, f"{b.lines}")
    check(b.process.wait(LIMIT) == 1, "ends with 1")
    check(a.process.poll() is None and not a.said("not leader"), f"a slow source does not cost the term: {a.lines}")


def test_stopped_leader_does_not_overwrite(p):
    """It wakes up in the middle of its work, long after somebody else has led and saved."""
    source(p, "colour red")
    a = Copy(p, "a", slow=500)
    a.says("reading the data source")
    a.process.send_signal(signal.SIGSTOP)
    source(p, "colour blue")
    b = Copy(p, "b")
    b.says("saved a snapshot")
    a.process.send_signal(signal.SIGCONT)
    a.says("no snapshot saved: not leader any more")
    check("colour blue" in open(os.path.join(p.dir, "snapshot")).read(), "the later leader's snapshot stays")


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(TOP, "build", "examples", "cache"))
    return run_tests([f for name, f in globals().items() if name.startswith("test_")], program)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The examples of event loops on a majority of five Redis servers: all connections are watched, ten of a standby; two dead servers cost nothing;
a crash and a hand-over are noticed.

    tests/examples/test_loops.py DIRECTORY OF THE PROGRAMS [NAME]    the loops whose names contain NAME; the last line is "N passed, N failed"
"""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
from processes import TOP, Place, check, run_tests, wait_for, with_redis

LOOPS = ("poll", "epoll", "libuv", "libev", "libevent", "glib", "sd-event", "asio")
SERVERS = 5


class Candidate:
    """One process of an example, and what it said."""

    def __init__(self, p, loop, name, store):
        self.name, self.path, self.loop = name, os.path.join(p.dir, name), loop
        errors = open(os.path.join(p.dir, f"stderr-{len(p.processes)}"), "w+")
        with open(self.path, "w") as out:
            self.process = subprocess.Popen([os.path.join(p.program, loop), name, store], cwd=p.dir, stdin=subprocess.PIPE, stdout=out, stderr=errors)
        self.process.errors = errors
        p.processes.append(self.process)
        p.ends.append(self.process.stdin.close)

    def said(self):
        with open(self.path) as f:
            return f.read().splitlines()

    def leads(self):
        """By the last that it said: one example tells of its own terms alone."""
        last = (self.said() or [""])[-1]
        return last == f"leader: {self.name}" or last.startswith("leading with token")

    def sockets(self):
        """Its TCP connections, as numbers of descriptors."""
        found, place = set(), f"/proc/{self.process.pid}/fd"
        with open(f"/proc/{self.process.pid}/net/tcp") as f:
            established = {line.split()[9] for line in f.readlines()[1:] if line.split()[3] == "01"}
        for number in os.listdir(place):
            try:
                link = os.readlink(os.path.join(place, number))
            except FileNotFoundError:
                continue
            if link.startswith("socket:[") and link[8:-1] in established:
                found.add(int(number))
        return found

    def in_epoll(self):
        """What it watches, by the kernel's own list; None: it has no epoll instance."""
        watched, place = None, f"/proc/{self.process.pid}/fd"
        for number in os.listdir(place):
            try:
                link = os.readlink(os.path.join(place, number))
                with open(f"/proc/{self.process.pid}/fdinfo/{number}") as f:
                    text = f.read()
            except FileNotFoundError:
                continue
            if link == "anon_inode:[eventpoll]":
                watched = (watched or set()) | {int(fd) for fd in re.findall(r"tfd: +(\d+)", text)}
        return watched

    def in_poll(self):
        """How many descriptors it waits for right now: the second argument of poll. 0: it does not wait."""
        with open(f"/proc/{self.process.pid}/syscall") as f:
            words = f.read().split()
        return int(words[2], 16) if len(words) > 3 else 0

    def watches_all(self, *counts):
        """So many connections stand, and each is watched."""
        sockets, watched = self.sockets(), self.in_epoll()
        if watched is None:
            return len(sockets) in counts and 0 < self.in_poll() - len(sockets) <= 2        # and one or two of the loop's own
        return len(sockets) in counts and sockets <= watched

    def ask_to_end(self):
        if self.loop == "poll":
            self.process.stdin.write(b"quit\n")
            self.process.stdin.flush()
        else:
            self.process.send_signal(signal.SIGTERM)


def with_majority(p):
    """-> the servers, and the argument that names them"""
    servers, urls = [], []
    for _ in range(SERVERS):
        servers.append(with_redis(p))
        urls.append(p.store[1] + "#job")
    return servers, ",".join(urls)


def roles(candidates):
    """The one that leads, and another that stands by. A machine that stalls for a third of a lease changes who that is, never how many."""
    leading = wait_for(lambda: [each for each in candidates if each.leads()], f"one leads: {[each.said() for each in candidates]}")
    check(len(leading) == 1, f"two lead: {[each.said() for each in candidates]}")
    return leading[0], next(each for each in candidates if each is not leading[0])


def stand_by(candidates, servers):
    """Waits until all connections are watched: a standby has two to each server, to ask and to listen; a leader needs one."""
    def watched():
        time.sleep(0.2)             # a look costs more than a wait
        leader, standby = roles(candidates)
        return leader.watches_all(servers, 2 * servers) and standby.watches_all(2 * servers) and (leader, standby)
    return wait_for(watched, f"{servers} and {2 * servers} watched connections: {[(each.sockets(), each.in_epoll(), each.in_poll()) for each in candidates]}")


def story(p, loop):
    servers, store = with_majority(p)
    a = Candidate(p, loop, "node-a", store)
    wait_for(a.leads, "the first one leads")
    b = Candidate(p, loop, "node-b", store)
    stand_by((a, b), SERVERS)
    for server in servers[:2]:
        server.kill()
    leader, standby = stand_by((a, b), SERVERS - 2)
    leader.process.kill()
    wait_for(standby.leads, "the standby takes over from a dead leader, on three servers of five")
    c = Candidate(p, loop, "node-c", store)
    leader, standby = stand_by((standby, c), SERVERS - 2)
    leader.ask_to_end()
    wait_for(standby.leads, "the next one leads after a hand-over")
    check(leader.process.wait(60) == 0, f"ends with 0: {leader.process.returncode}")
    standby.ask_to_end()
    check(standby.process.wait(60) == 0, f"ends with 0: {standby.process.returncode}")


def of_loop(loop):
    def test(p):
        story(p, loop)
    test.__name__ = loop
    return test


if __name__ == "__main__":
    programs = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(TOP, "build", "examples"))
    sys.exit(run_tests([of_loop(loop) for loop in LOOPS], programs, Place, *sys.argv[2:3]))

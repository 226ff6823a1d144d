#!/usr/bin/env python3
"""A store goes away and comes back: when does somebody lead again? At default settings (a lease of 15 s), on real servers.

    tests/bench/outages.py [--quick] [--only STORE] [--strict]

For each store and each length several elections, each a leader and a standby, processes of their own. The server is killed and
started again with its data on its port (refused), or stopped and continued (silent). What counts is the time from its return, the
moment at which it is started or continued, until somebody leads. Beside it, in the same run: a bare loop that connects and asks
every 500 ms. All outages run side by side, since they mostly wait; --quick has only those of 5 s.

Five seconds is what the defaults leave between a renewal and the deadline: there the server is started again a little earlier, so
that it answers within them, and "kept" says how many terms went on without interruption.

A crowd of 200 candidates for one election counts what the returning Redis has to do: scripts executed in the first second, from
its first answer after a start, from the moment at which it is continued after a stop. What it was sent while it was stopped counts
as well: a kernel keeps that, whoever gave up."""
import argparse
import collections
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "..", "..")
for room in ("chaos", "k8s", "tools"):
    sys.path.insert(0, os.path.join(HERE, "..", room))
from processes import wait_for
import k8s_client
import store_etcd
import store_pg
import store_redis

CANDIDATE = os.path.join(TOP, "build", "outage_candidate")
BARE_S = 0.5                        # between two tries of the bare loop: a quarter of retry_ms, our own shortest
SLACK_S = 5                         # renew_deadline_ms - renew_ms: an outage that is shorter costs no term
EARLY_S = 0.1                       # within which a server has started
KEPT_S = 11                         # after which a leader that did not renew would have stepped down
GOAL_S = 2.0
HERD = 200


class Redis:
    name, ways = "Redis", ("refused", "silent")

    def __init__(self, directory):
        self.server = store_redis.Server(directory, store_redis.redis_command).run()

    def options(self, election):
        return ["--redis", f"redis://127.0.0.1:{self.server.port}", "--name", election]

    def answers(self):
        return "PONG" in self.server.ask("PING")

    def refuse(self):
        self.server.kill()
        return self.server.run

    def silence(self):
        self.server.signal(signal.SIGSTOP)
        return lambda: self.server.signal(signal.SIGCONT)

    def stop(self):
        self.server.stop()

    def calls(self):
        """Commands executed, by name"""
        lines = [line for line in self.server.ask("INFO commandstats").split() if line.startswith("cmdstat_")]
        return {line[8:line.index(":")]: int(line[line.index("calls=") + 6:line.index(",")]) for line in lines}


class Quorum:
    name, ways = "majority of three Redis", ("refused", "silent")

    def __init__(self, directory):
        self.votes = [Redis(directory) for _ in range(3)]

    def options(self, election):
        return ["--quorum", ",".join(f"redis://127.0.0.1:{vote.server.port}" for vote in self.votes), "--name", election]

    def answers(self):
        return sum(vote.answers() for vote in self.votes) >= 2

    def all(self, away):
        backs = [away(vote) for vote in self.votes]
        return lambda: [back() for back in backs]

    def refuse(self):
        return self.all(Redis.refuse)

    def silence(self):
        return self.all(Redis.silence)

    def stop(self):
        for vote in self.votes:
            vote.stop()


class Lease:
    """The test API server keeps its data in memory: it closes its port and every connection instead of ending."""
    name, ways = "Lease", ("refused", "silent")

    def __init__(self, directory):
        self.server = k8s_client.Server(directory=directory).__enter__()

    def options(self, election):
        return ["--k8s", f"default/{election}", "--kubeconfig", self.server.ready["kubeconfig"]]

    def answers(self):
        connection = self.server.connect(5)
        try:
            return self.server.api("GET", self.server.lease_path(), connection=connection)[0] == 200
        except OSError:
            return False
        finally:
            connection.close()

    def refuse(self):
        self.server.control("POST", "/listen", {"mode": "refuse", "drop": True})
        return lambda: self.server.control("POST", "/listen", {"mode": "open"})

    def silence(self):
        self.server.process.send_signal(signal.SIGSTOP)
        return lambda: self.server.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.server.process.send_signal(signal.SIGCONT)
        self.server.stop()


class Etcd:
    name, ways = "etcd", ("refused", "silent")

    def __init__(self, directory):
        self.member = store_etcd.Member(directory, 0)
        self.run()

    def run(self):
        url = f"http://127.0.0.1:{self.member.peer_port}"
        self.member.run(f"m0={url}", "outage", url)

    def options(self, election):
        return ["--etcd", f"http://127.0.0.1:{self.member.port}", "--name", election]

    def answers(self):
        return bool(self.member.ask("/v3/kv/range", {"key": store_etcd.KEY}))

    def refuse(self):
        self.member.kill()
        return self.run

    def silence(self):
        self.member.signal(signal.SIGSTOP)
        return lambda: self.member.signal(signal.SIGCONT)

    def stop(self):
        self.member.stop()


class Postgres:
    name, ways = "PostgreSQL", ("refused", "silent")

    def __init__(self, directory):
        self.server = store_pg.Server(directory).make()

    def options(self, election):
        info = f"host=127.0.0.1 port={self.server.port} user=postgres dbname=postgres sslmode=disable"
        return ["--pg", info, "--name", election]

    def answers(self):
        return self.server.ask("SELECT 1") == "1"

    def refuse(self):
        self.server.kill()
        return self.server.run

    def silence(self):
        self.server.signal_all(signal.SIGSTOP)
        return lambda: self.server.signal_all(signal.SIGCONT)

    def stop(self):
        self.server.stop()


class Files:
    """Their directory is away, as one that is mounted can be. A silent file system would stop the candidates themselves."""
    name, ways = "file", ("refused",)

    def __init__(self, directory):
        self.disk = os.path.join(directory, "disk")
        os.makedirs(self.disk, 0o700)

    def options(self, election):
        return ["--file", os.path.join(self.disk, f"{election}.lease")]

    def answers(self):
        return os.path.exists(self.disk)

    def refuse(self):
        os.rename(self.disk, f"{self.disk}.away")
        return lambda: os.rename(f"{self.disk}.away", self.disk)

    def stop(self):
        pass


class Crowd:
    """Candidates of several elections on one server, and what they say"""

    def __init__(self):
        reading, self.mouth = os.pipe()
        self.reading = os.fdopen(reading, encoding="ascii")
        self.processes, self.said = [], collections.defaultdict(list)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.reading:
            election, who, what, at_us = line.split()
            self.said[election].append((int(at_us) / 1e6, what, who))

    def add(self, election, options):
        self.processes.append(subprocess.Popen([CANDIDATE, election, *options], stdin=subprocess.DEVNULL, stdout=self.mouth))

    def led_since(self, election):
        """When the present term began, None: nobody leads"""
        leading = {}
        for at, what, who in sorted(self.said[election]):
            if what == "lead":
                leading[who] = at
            else:
                leading.pop(who, None)
        return min(leading.values(), default=None)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        os.close(self.mouth)
        self.reader.join()
        self.reading.close()


class Bare(threading.Thread):
    """Connects and asks every BARE_S, however long it takes to be answered. first: its first answer since it was set to None"""

    def __init__(self, answers):
        super().__init__(daemon=True)
        self.answers, self.first, self.ending = answers, None, False
        self.start()

    def run(self):
        while not self.ending:
            began = time.monotonic()
            if self.answers() and self.first is None:
                self.first = time.monotonic()
            time.sleep(max(0.0, began + BARE_S - time.monotonic()))


class Outage:
    """One server, away once."""

    def __init__(self, kind, way, seconds, elections, directory, candidates=2):
        self.kind, self.way, self.seconds, self.candidates = kind, way, seconds, candidates
        self.names = [f"e{i}" for i in range(elections)]
        self.directory = tempfile.mkdtemp(dir=directory)
        self.late, self.kept, self.bare, self.calls, self.trouble = [], 0, None, None, None

    def run(self):
        store = crowd = None
        try:
            store, crowd = self.kind(self.directory), Crowd()
            wait_for(store.answers, f"{self.kind.name} answers")
            self.gather(store, crowd)
            self.take_away(store, crowd)
        except Exception as trouble:            # told in the table: the other outages go on
            self.trouble = f"{type(trouble).__name__}: {trouble}"
        finally:
            if crowd:
                crowd.stop()
            if store:
                store.stop()

    def gather(self, store, crowd):
        """Elections begin one after another, so that the outage finds them at every phase of a renewal."""
        for name in self.names:
            for _ in range(self.candidates):
                crowd.add(name, store.options(name))
            time.sleep(SLACK_S / len(self.names))
        wait_for(lambda: all(crowd.led_since(name) for name in self.names), "all are led")
        time.sleep(SLACK_S)                     # everybody has renewed, or looked twice

    def take_away(self, store, crowd):
        bare = Bare(store.answers)
        before = store.calls() if self.candidates > 2 else {}
        gone = time.monotonic()
        back = store.refuse() if self.way == "refused" else store.silence()
        early = EARLY_S if self.seconds == SLACK_S else 0
        time.sleep(gone + self.seconds - early - time.monotonic())
        bare.first = None
        returned = time.monotonic()
        back()
        if self.candidates > 2:
            self.count(store, before if self.way == "silent" else {})
        wait_for(lambda: bare.first and all(crowd.led_since(name) for name in self.names), "somebody leads again")
        if self.seconds == SLACK_S:
            time.sleep(KEPT_S)                  # a term that only seems to go on is over by then
        bare.ending = True
        self.bare = bare.first - returned
        for name in self.names:
            lost = [at for at, what, _ in crowd.said[name] if what == "lost" and at > gone]
            led = [at for at, what, _ in crowd.said[name] if what == "lead" and at > gone]
            self.kept += not lost
            if lost:
                self.late.append(max(0.0, min(led) - returned))

    def count(self, store, before):
        if self.way == "refused":
            wait_for(store.answers, "answers again")
        time.sleep(1)                           # a server that was stopped answers at once
        self.calls = {name: calls - before.get(name, 0) for name, calls in store.calls().items()}

    def row(self):
        who = f"{self.kind.name}, {self.candidates} candidates" if self.candidates > 2 else self.kind.name
        cells = [who, self.way, f"{self.seconds} s"]
        if self.trouble:
            return [*cells, self.trouble, "", "", "", "not measured"]
        late = sorted(self.late)
        median = f"{late[len(late) // 2]:.2f} s" if late else "-"
        worst = f"{late[-1]:.2f} s" if late else "-"
        return [*cells, f"{self.bare:.2f} s", median, worst, f"{self.kept} of {len(self.names)}", self.verdict()]

    def verdict(self):
        if self.trouble:
            return "not measured"
        if self.calls and self.scripts() > HERD:
            return "not met"
        goal, worst = GOAL_S, max(self.late, default=0)
        answered = self.seconds - EARLY_S + self.bare
        short = self.seconds == SLACK_S and answered <= SLACK_S
        if worst <= goal and (not short or self.kept == len(self.names)):
            return "met"
        return "too noisy" if self.bare > goal / 2 else "not met"

    def scripts(self):
        return self.calls.get("evalsha", 0) + self.calls.get("eval", 0)

    def crowd_line(self):
        """What the returning Redis had to do in its first second"""
        scripts = self.scripts()
        all_calls = ", ".join(f"{name} {calls}" for name, calls in sorted(self.calls.items()) if calls)
        goal = f"goal: at most {HERD}, {'met' if scripts <= HERD else 'not met'}"
        return f"{HERD} candidates, {self.way}: {scripts} scripts in the first second ({goal}). All commands, also those of scripts: {all_calls}"


def plan(quick, only, directory):
    lengths = [5] if quick else [5, 9, 30, 90]
    outages = []
    for kind in (Redis, Lease, Etcd, Postgres, Files, Quorum):
        for way in kind.ways:
            for seconds in lengths:
                many = kind in (Redis, Lease) and seconds == SLACK_S
                outages.append(Outage(kind, way, seconds, 20 if many else 5, directory))
    if not quick:
        outages += [Outage(Redis, way, 30, 1, directory, HERD) for way in Redis.ways]
    return [outage for outage in outages if only in outage.kind.name]


def show(outages):
    head = ["store", "away", "for", "bare loop answered", "led again, median", "worst", "terms kept", "goal"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for outage in outages:
        print("| " + " | ".join(outage.row()) + " |")
    for outage in outages:
        if outage.calls:
            print(f"\n{outage.crowd_line()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="outages of five seconds only")
    parser.add_argument("--only", default="", help="the stores whose name has this in it")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a goal is missed")
    options, _ = parser.parse_known_args()
    directory = tempfile.mkdtemp(prefix="outages-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    os.chmod(directory, 0o711)
    outages = plan(options.quick, options.only, directory)
    threads = [threading.Thread(target=outage.run) for outage in outages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    show(outages)
    shutil.rmtree(directory, ignore_errors=True)
    return options.strict and any(outage.verdict() != "met" for outage in outages)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Real candidates, real faults, from a seed: never two leaders? The driver; check.py judges what the candidates wrote down.

    chaos.py --candidate PROGRAM [--store file] [--nodes 5] [--seconds 60] [--lease MS] [--seed s] [--out DIR]
             [--faults name,name] [--excused] [--wrong deadline] [--timeline] [--keep] [--plan]

The seed alone decides which faults happen, when and for how long. A fault that is for the leader meets the one that leads at that moment. --plan
prints the schedule and does nothing. The run lives in namespaces of its own where that is possible: whatever way it ends, the kernel
removes its processes and its files. What stays is in DIR: summary.txt, a picture of each violation, and the logs if there was one (or --keep).
"""
import argparse
import collections
import glob
import heapq
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import check
import stores

INSIDE = "CHAOS_INSIDE"
HERE = os.path.dirname(os.path.abspath(__file__))
SLICE_S = 0.02                      # the driver looks up that often; being late by much more is the machine's fault, and noted
LATE_S = 0.1
CLOSE_S = 15                        # within which every candidate that was asked to has to end

Planned = collections.namedtuple("Planned", "at_ms fault node at_leader for_ms fresh dice")


def now_us():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


# ---- the schedule ------------------------------------------------------------------------------------------------------------------

NODE_FAULTS = {"kill": 4, "stop": 5, "stutter": 2, "resign": 3, "close": 2, "wall clock": 2, "kill all": 0.5, "stop all": 0.5}
AT_ONCE = ("resign", "wall clock")  # there is nothing to heal


def make_plan(seed, seconds, nodes, lease_ms, bound_ms, weights):
    """Bursts of faults that overlap, then some calm: often too short to recover, at times long enough to measure how long that takes."""
    rng = random.Random(f"plan {seed}")
    names, shares = list(weights), list(weights.values())
    plan, t = [], lease_ms * 1.5
    while t < seconds * 1000:
        end = t
        for _ in range(rng.choice([2, 3, 4, 5, 6, 7])):
            at, fault = t + rng.uniform(0, lease_ms), rng.choices(names, shares)[0]
            span = 0 if fault in AT_ONCE else lease_ms * rng.uniform(*rng.choice([(0.02, 0.6), (0.02, 0.6), (0.6, 1.2), (1.2, 2.2)]))
            plan.append(Planned(int(at), fault, rng.randrange(nodes), rng.random() < 0.7, int(span), rng.random() < 0.5, rng.getrandbits(32)))
            end = max(end, at + span)
        t = end + rng.uniform(0, rng.choices([lease_ms / 2, 2 * lease_ms, bound_ms], [16, 8, 1])[0])
    return sorted(p for p in plan if p.at_ms < seconds * 1000)


def print_plan(plan):
    for p in plan:
        node = f"{'the leader or ' if p.at_leader else ''}node {p.node}{', next life under a new name' if p.fresh else ''}"
        print(f"{p.at_ms / 1000:8.3f} s  {p.fault:30} for {p.for_ms:5} ms  {node if p.fault in NODE_FAULTS else 'the store'} ({p.dice:08x})")


# ---- a run -------------------------------------------------------------------------------------------------------------------------

class Node:
    def __init__(self, number):
        self.number, self.lives, self.name, self.process = number, 0, f"node-{number}", None

    def up(self):
        return self.process is not None and self.process.poll() is None


class Run:
    def __init__(self, args, world, store, faults):
        self.args, self.store, self.faults = args, store, {f.name: f for f in faults}
        self.logs = os.path.join(world, "logs")
        os.makedirs(self.logs)
        self.guard = os.path.join(self.logs, "guard.log")
        self.driver_log = open(os.path.join(self.logs, "driver.log"), "w", buffering=1)
        self.nodes = [Node(i) for i in range(args.nodes)]
        self.queue, self.order = [], itertools.count()
        self.preload, self.healing = faketime(), False

    def note(self, what, node=None, detail=""):
        self.driver_log.write(f"{now_us()} {what} {'-' if node is None else node.number} {detail}\n")
        if self.args.verbose:
            print(f"{now_us() / 1e6:.3f} {what} {'' if node is None else node.number} {detail}", flush=True)

    # -- nodes --

    def start(self, node, fresh=False):
        self.end(node)
        node.lives += 1
        if fresh:
            node.name = f"node-{node.number}.{node.lives}"
        life = f"{node.number}.{node.lives}"
        log = os.path.join(self.logs, f"node-{life}.log")
        command = [self.args.candidate, "--life", life, "--id", node.name, "--log", log, "--guard", self.guard,
                   "--lease", f"{self.store.lease_ms}ms", "--deadline", f"{self.store.deadline_ms}ms", *self.store.candidate_args(node.number)]
        if self.args.wrong:
            command += ["--wrong", self.args.wrong]
        environment = {**os.environ, **self.store.candidate_env(node.number), **self.wall_environment(node)}
        # Signals wait until the candidate can take them, so that none kills it before.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
        with open(os.path.join(self.logs, f"node-{life}.err"), "w") as errors:
            node.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1, signal.SIGTERM})
        node.process.may_end_with = None
        self.note("start", node, life)

    def end(self, node):
        """The process is gone when this returns."""
        self.look_for_deaths()
        if node.process is not None:
            node.process.kill()
            node.process.may_end_with = node.process.wait()

    def tell(self, node, number, what, detail=""):
        if node.up():
            node.process.send_signal(number)
            self.note(what, node, detail)

    def close(self, node):
        if node.up():
            node.process.may_end_with = 0
            self.tell(node, signal.SIGTERM, "close")
        return node.process

    def look_for_deaths(self):
        for node in self.nodes:
            process = node.process
            if process is not None and process.poll() != process.may_end_with and process.returncode is not None:
                process.may_end_with = process.returncode
                self.note("died", node, f"{node.number}.{node.lives} with status {process.returncode}")

    def leader(self):
        """Who got a write past the guard last, or None."""
        lines = check.read_guard(self.guard, last=64)
        accepted = [line.life for line in lines if line.accepted]
        return self.nodes[int(accepted[-1].split(".")[0])] if accepted else None

    def somebody_leads_since(self, at_us):
        """Two writes of one process: one alone can be a late one, that was stopped after its question."""
        writers = [line.life for line in check.read_guard(self.guard, last=64) if line.accepted and line.at_us > at_us]
        return any(writers.count(life) > 1 for life in writers)

    def wall_environment(self, node):
        if not self.preload:
            return {}
        path = os.path.join(self.logs, "..", f"wall-{node.number}")
        if not os.path.exists(path):
            self.move_wall(node, 0)
        return {"LD_PRELOAD": self.preload, "FAKETIME_TIMESTAMP_FILE": os.path.abspath(path), "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}

    def move_wall(self, node, seconds):
        path = os.path.join(self.logs, "..", f"wall-{node.number}")
        with open(path + ".new", "w") as f:
            f.write(f"{seconds:+d}\n")
        os.replace(path + ".new", path)

    # -- faults --

    def at(self, when_us, action):
        heapq.heappush(self.queue, (when_us, next(self.order), action))

    def begin(self, p):
        """One planned fault; what heals it is put into the queue."""
        if self.healing:
            return
        node = (self.leader() if p.at_leader else None) or self.nodes[p.node]
        rng = random.Random(p.dice)
        end_us = now_us() + p.for_ms * 1000
        if p.fault in ("kill", "kill all"):
            for victim in self.nodes if p.fault == "kill all" else [node]:
                if victim.up():
                    self.end(victim)
                    self.note("kill", victim)
                    self.at(end_us, lambda victim=victim: victim.up() or self.start(victim, p.fresh))
        elif p.fault in ("stop", "stop all"):
            for victim in self.nodes if p.fault == "stop all" else [node]:
                self.tell(victim, signal.SIGSTOP, "stop")
                self.at(end_us, lambda victim=victim: self.tell(victim, signal.SIGCONT, "cont"))
        elif p.fault == "stutter" and node.up():
            self.note("stutter", node)
            self.stutter(node, node.process, rng, end_us)
        elif p.fault == "resign":
            self.tell(node, signal.SIGUSR1, "resign")
        elif p.fault == "close":
            closing = self.close(node)
            self.at(end_us, lambda: node.process is closing and self.start(node, p.fresh))
        elif p.fault == "wall clock":
            seconds = rng.choice([-1, 1]) * rng.choice([2, 60, 3600, 86400 * 30])
            self.move_wall(node, seconds)
            self.note("wall", node, f"{seconds:+d}")
        elif p.fault in self.faults:
            self.note("begin", None, p.fault)
            self.store.node = node.number
            try:
                heal = self.faults[p.fault].begin(rng)
            except stores.NotHere:
                heal = None
                self.note("not-here", None, p.fault)
            if heal is None:
                self.note("end", None, p.fault)
            else:
                self.at(end_us, lambda: self.heal(p.fault, heal))

    def heal(self, name, undo):
        undo()
        self.note("end", None, name)

    def stutter(self, node, process, rng, end_us):
        """Stopped most of the time, running for a moment now and then: sooner or later it is stopped in the middle of everything."""
        if self.healing or node.process is not process or now_us() >= end_us:
            return
        self.tell(node, signal.SIGSTOP, "stop", "stutter")

        def go_on():
            if node.process is process:
                self.tell(node, signal.SIGCONT, "cont", "stutter")
                self.at(now_us() + rng.randrange(500, 8000), lambda: self.stutter(node, process, rng, end_us))
        self.at(now_us() + rng.randrange(5000, 60000), go_on)

    # -- from start to end --

    def work_until(self, end_us, done=lambda: False):
        while now_us() < end_us and not done():
            while self.queue and self.queue[0][0] <= now_us():
                heapq.heappop(self.queue)[2]()
            self.look_for_deaths()
            next_us = min([end_us] + [entry[0] for entry in self.queue[:1]])
            wait_s = min(SLICE_S, max(0, (next_us - now_us()) / 1e6))
            before = now_us()
            time.sleep(wait_s)
            late_us = now_us() - before - wait_s * 1e6
            if late_us > LATE_S * 1e6:
                self.note("late", None, f"{int(late_us)}")

    def heal_all(self):
        self.healing = True
        while self.queue:
            heapq.heappop(self.queue)[2]()
        for node in self.nodes:
            self.tell(node, signal.SIGCONT, "cont")
            if not node.up():
                self.start(node)

    def run(self, plan):
        self.note("run", None, f"{self.store.name} {self.store.lease_ms} {self.store.deadline_ms} {self.store.bound_ms}")
        self.store.start()
        for node in self.nodes:
            self.start(node)
        begin = now_us()
        for p in plan:
            self.at(begin + p.at_ms * 1000, lambda p=p: self.begin(p))
        self.work_until(begin + int(self.args.seconds * 1e6))
        self.heal_all()
        healed = now_us()
        self.note("healed")
        self.work_until(healed + 3 * self.store.bound_ms * 1000, done=lambda: self.somebody_leads_since(healed))
        self.note("over")
        for node in self.nodes:
            self.close(node)
        self.work_until(now_us() + CLOSE_S * 1000000, done=lambda: not any(node.up() for node in self.nodes))
        for node in self.nodes:
            if node.up():
                self.note("hung", node, f"{node.number}.{node.lives}")
        self.driver_log.flush()

    def stop(self):
        for node in self.nodes:
            self.end(node)
        self.store.stop()


# ---- where it happens --------------------------------------------------------------------------------------------------------------

def faketime():
    """Moves the wall clock of a process, and no other clock."""
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1") + glob.glob("/usr/lib*/faketime/libfaketimeMT.so.1")
    return found[0] if found else None


def enter_namespaces():
    """Starts this program again where it can mount, and where the kernel ends everything with it. Goes on here if there is no such place."""
    if INSIDE in os.environ:
        return os.environ[INSIDE] != "no"
    common = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for way in ([], ["--user", "--map-root-user"]):
        if subprocess.run(["unshare", *way, *common, "true"], stderr=subprocess.DEVNULL).returncode == 0:
            os.environ[INSIDE] = "yes"
            os.execvp("unshare", ["unshare", *way, *common, sys.executable, *sys.argv])
    return False


def in_world(out, private, body):
    """Calls body with a directory in memory that is gone afterwards."""
    world = os.path.join(out, "world")
    if not private:
        with tempfile.TemporaryDirectory(prefix="chaos-") as world:
            return body(world)
    os.makedirs(world, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g,mode=755", "chaos", world], check=True)
    try:
        return body(world)
    finally:
        subprocess.run(["umount", "--lazy", world])
        os.rmdir(world)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--candidate", default="build/chaos-candidate")
    parser.add_argument("--store", default="file")
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--lease", type=int, default=0, help="in milliseconds, instead of the store's; the deadline is two thirds of it")
    parser.add_argument("--seed", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--faults", default="", help="only these, separated by commas")
    parser.add_argument("--wrong", default="", help="what the candidates do wrong on purpose")
    for flag in ("excused", "timeline", "keep", "plan", "verbose"):
        parser.add_argument(f"--{flag}", action="store_true")
    args = parser.parse_args()
    if not 1 <= args.nodes <= 99 or args.seconds <= 0:
        parser.error("1 to 99 nodes, for more than no time")
    if not args.seed:                   # decided once: the program starts itself again
        args.seed = str(random.SystemRandom().randrange(10 ** 6))
        sys.argv += ["--seed", args.seed]
    args.out = os.path.abspath(args.out or f"build/chaos/{args.store}-{args.seed}")
    args.candidate = os.path.abspath(args.candidate)
    return args


def choose_weights(args, store, faults):
    weights = {name: weight for name, weight in NODE_FAULTS.items() if store.moves_wall_clock or name != "wall clock"}
    weights.update({f.name: f.weight for f in faults if args.excused or not f.excused})
    only = [name.strip() for name in args.faults.split(",") if name.strip()]
    unknown = set(only) - set(weights)
    if unknown:
        sys.exit(f"chaos: with this seed there is no {', '.join(sorted(unknown))}, but: {', '.join(weights)}")
    if only:
        weights = {name: weights[name] for name in only}
    return weights


def act(args, world, private):
    store_class = stores.load(args.store)
    place = os.path.join(world, "store")
    os.makedirs(place)
    if args.lease:
        store_class.lease_ms, store_class.deadline_ms = args.lease, args.lease * 2 // 3
    store = store_class(place, args.nodes, random.Random(f"store {args.seed}"))
    faults = store.faults()
    weights = choose_weights(args, store, faults)
    plan = make_plan(args.seed, args.seconds, args.nodes, store.lease_ms, store.bound_ms, weights)
    if args.plan:
        print_plan(plan)
        return 0
    command = f"make chaos STORE={args.store} NODES={args.nodes} SECONDS={args.seconds:g} SEED={args.seed}"
    command += f" LEASE={args.lease}" * bool(args.lease) + " EXCUSED=1" * args.excused + f" FAULTS='{args.faults}'" * bool(args.faults)
    print(command, flush=True)
    run = Run(args, world, store, faults)
    try:
        run.run(plan)
    finally:
        run.stop()
    notes = [*store.notes]
    if not private:
        notes.append("no namespaces here (needs root or user namespaces): a run that is killed may leave files behind")
    if not run.preload and "wall clock" in weights:
        notes.append("the wall clock was never moved: libfaketime is not installed")
    return check.conclude(run.logs, args.out, command, notes, excused=args.excused, whole_timeline=args.timeline, keep=args.keep)


def main():
    args = parse()
    private = not args.plan and enter_namespaces()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))      # through every finally
    shutil.rmtree(args.out, ignore_errors=True) if not args.plan else None
    return in_world(args.out, private, lambda world: act(args, world, private))


if __name__ == "__main__":
    sys.exit(main())

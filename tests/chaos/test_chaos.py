#!/usr/bin/env python3
"""Can the checker of the chaos runs fail? Logs made by hand with one thing wrong in each, and real runs: of candidates that are wrong on purpose, of
a moved wall clock, of a full disk, of a run that is killed. The program is build/chaos-candidate, or the one in CHAOS_CANDIDATE."""
import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.dom.minidom

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
from processes import check as expect, descendants, run_tests, wait_for

import chaos                    # noqa: E402
import check                    # noqa: E402
import store_file               # noqa: E402

CANDIDATE = os.path.abspath(os.environ.get("CHAOS_CANDIDATE", "build/chaos-candidate"))
MS = 1000
BEGIN = 50_000_000              # of a run made by hand, on the boot clock


def yes(begin_ms, end_ms, token, step_ms=10):
    """What a candidate writes that leads from begin to end: each question takes 10 microseconds, the edges are exact."""
    begin, end = BEGIN + int(begin_ms * MS), BEGIN + int(end_ms * MS)
    between = [f"yes {t} {t + 10} {token}" for t in range(begin + step_ms * MS, end, step_ms * MS)]
    return [f"yes {begin - 10} {begin} {token}", *between, f"yes {end} {end + 10} {token}"]


def term(begin_ms, end_ms, token):
    b, e = BEGIN + int(begin_ms * MS), BEGIN + int(end_ms * MS)
    return [f"started {b - 20} {token}", *yes(begin_ms, end_ms, token), f"no {e + 20} {e + 30}", f"stopped {e + 40} {token} ok"]


def guarded(*lines):
    texts = [f"{verdict} {token:20d} {highest:20d} {BEGIN + at_ms * MS:16d} {life}" for verdict, token, highest, at_ms, life in lines]
    return "".join(text.ljust(check.GUARD_LINE - 1) + "\n" for text in texts)


def found(p, nodes, driver=(), guard="", over_ms=20000, healed_ms=5000):
    """The kinds of violation in a run made by hand: nodes is {life: lines}; driver has (ms, text)."""
    logs = os.path.join(p.dir, "made")
    shutil.rmtree(logs, ignore_errors=True)
    os.makedirs(logs)
    for life, lines in nodes.items():
        with open(os.path.join(logs, f"node-{life}.log"), "w") as f:
            f.write("".join(line + "\n" for line in lines))
    events = [(0, "run - file 1500 1000 5500"), (0.5, "start 0 0.1"), (0.5, "start 1 1.1"), *driver, (healed_ms, "healed -"), (over_ms, "over -")]
    with open(os.path.join(logs, "driver.log"), "w") as f:
        f.write("".join(f"{BEGIN + int(ms * MS)} {text} \n" for ms, text in sorted(events, key=lambda e: e[0])))
    with open(os.path.join(logs, "guard.log"), "w") as f:
        f.write(guard)
    p.run = check.Run(logs)
    p.found = check.find_all(p.run)
    return {kind: len(violations) for kind, violations in p.found.items() if violations}


def same(got, wanted):
    expect(got == wanted, f"found {got}, not {wanted}")


LEADER = term(1000, 20100, 7)   # somebody who leads through all of a run


class Place:
    """A directory of its own, and the runs that were started."""

    def __init__(self, candidate):
        self.candidate, self.dir, self.runs = candidate, tempfile.mkdtemp(prefix="chaos-test-"), []

    def start(self, out, *options):
        driver = [sys.executable, chaos.__file__, "--candidate", self.candidate]
        command = [*driver, "--out", os.path.join(self.dir, out), *options]
        self.runs.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return self.runs[-1]

    def said(self):
        return ""

    def close(self):
        for run in self.runs:
            run.kill()
            run.wait()
            run.stdout.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def pictures_of(directory):
    names = sorted(name for name in os.listdir(directory) if name.endswith(".svg"))
    for name in names:
        xml.dom.minidom.parse(os.path.join(directory, name))
    return names


# ---- logs made by hand --------------------------------------------------------------------------------------------------------------

def nothing_wrong(p):
    guard = guarded(("accept", 7, 7, 1500, "0.1"), ("accept", 8, 8, 3500, "1.1"), ("reject", 7, 8, 3600, "0.1"))
    same(found(p, {"0.1": term(1000, 3000, 7), "1.1": term(3001, 20100, 8)}, guard=guard), {})
    same(found(p, {"0.1": term(1000, 3000, 7), "1.1": term(3000, 20100, 8)}), {})


def overlap_of_a_millisecond(p):
    same(found(p, {"0.1": term(1000, 3000, 7), "1.1": term(2999, 20100, 8)}), {"overlap": 1})
    violation = p.found["overlap"][0]
    expect(violation.end - violation.begin == MS and "1.000 ms" in violation.text, violation.text)
    out = os.path.join(p.dir, "out")
    with contextlib.redirect_stdout(io.StringIO()):
        expect(check.conclude(p.run.directory, out, "test", whole_timeline=True) == 1, "the run was called good")
        expect(pictures_of(out) == ["overlap-1.svg", "timeline.svg"], f"pictures: {os.listdir(out)}")
        expect(check.conclude(p.run.directory, out, "test", excused=True) == 0, "an excused run has its overlap named, not counted")
    expect("excused  never two leaders" in open(os.path.join(out, "summary.txt")).read(), "the excuse is not in the summary")


def overlap_of_a_moment(p):
    """A single yes, with its token or without: one that led from before the question to after the answer was not alone."""
    at = BEGIN + 5000 * MS
    for token in (8, 0):
        lines = [f"yes {at} {at + 900} {token}", f"no {at + 950} {at + 960}"]
        callbacks = [f"started {at - 5} 8", f"stopped {at + 970} 8 ok"] if token else []
        same(found(p, {"0.1": LEADER, "1.1": callbacks[:1] + lines + callbacks[1:]}), {"overlap": 1})
        same(found(p, {"0.1": term(5000.1, 20100, 7), "1.1": lines}).get("overlap"), None)


def overlap_with_every_other(p):
    same(found(p, {"0.1": term(1000, 9000, 7), "1.1": term(2000, 3000, 8), "2.1": term(4000, 20100, 9)}), {"overlap": 2})


def stop_around_a_question_is_no_overlap(p):
    """Stopped between a stamp and the question on either side: the stamps are seconds apart, and the other has led meanwhile."""
    other = term(5000, 6000, 8)
    us = lambda ms: BEGIN + ms * MS
    last = [f"yes {us(4001)} {us(7000)} 7", f"no {us(7001)} {us(7002)}", f"stopped {us(7003)} 7 no answer in time"]
    same(found(p, {"0.1": [f"started {us(1000)} 7", *yes(1000, 4000, 7), *last], "1.1": other + term(8000, 20100, 9)}), {})
    same(found(p, {"0.1": [f"started {us(6999)} 9", f"yes {us(4001)} {us(7000)} 9", *yes(7001, 20100, 9)[1:]], "1.1": other}), {})


def tokens_that_go_back(p):
    same(found(p, {"0.1": term(1000, 3000, 8), "1.1": term(3001, 20100, 7)}), {"tokens": 1})
    same(found(p, {"0.1": term(1000, 3000, 8) + term(3001, 20100, 7)}), {"tokens": 1})


def token_of_two(p):
    same(found(p, {"0.1": term(1000, 3000, 7), "1.1": term(3001, 20100, 7)}), {"tokens": 2})


def guard_that_took_an_old_token(p):
    nodes = {"0.1": term(1000, 3000, 7), "1.1": term(3001, 20100, 8)}
    same(found(p, nodes, guard=guarded(("accept", 7, 7, 1500, "0.1"), ("accept", 8, 8, 3500, "1.1"), ("accept", 7, 8, 3600, "0.1"))), {"guard": 1})
    same(found(p, nodes, guard=guarded(("accept", 7, 7, 1500, "0.1"), ("reject", 8, 8, 3500, "1.1"))), {"guard": 1})
    same(found(p, nodes, guard=guarded(("accept", 7, 7, 1500, "0.1"), ("accept", 7, 7, 3500, "1.1"))), {"guard": 1})


def callbacks_without_their_pair(p):
    def without(what):
        lines = [line for line in term(1000, 3000, 7) if not line.startswith(what)]
        return {"0.1": [*lines, f"closed {BEGIN + 4000 * MS} ok"], "1.1": term(3001, 20100, 8)}
    same(found(p, without("nothing")), {})
    same(found(p, without("stopped")), {"callbacks": 1})
    same(found(p, without("started")), {"callbacks": 2})             # stopped out of nowhere, and never told that it led
    same(found(p, {"0.1": [f"started {BEGIN} 6", *LEADER]}), {"callbacks": 1})
    other = [line.replace("stopped 53000040 7", "stopped 53000040 6") for line in term(1000, 3000, 7)]
    same(found(p, {"0.1": other, "1.1": term(3001, 20100, 8)}), {"callbacks": 1})


def term_that_comes_back_to_life(p):
    same(found(p, {"0.1": [*LEADER[:100], f"no {BEGIN + 1980 * MS + 20} {BEGIN + 1980 * MS + 30}", *LEADER[100:]]}), {"revival": 1})


def candidate_that_dies(p):
    same(found(p, {"0.1": LEADER}, [(4000, "died 1 1.1 with status -6")]), {"deaths": 1})
    same(found(p, {"0.1": LEADER}, [(20050, "hung 1 1.1")]), {"deaths": 1})


def clock_of_somewhere_else(p):
    same(found(p, {"0.1": LEADER, "1.1": [f"start {BEGIN - 3600_000_000} node-1 5"]}), {"clock": 1})


def failover_past_the_bound(p):
    late = {"0.1": term(1000, 3000, 7), "1.1": term(8600, 20100, 8)}
    same(found(p, late, healed_ms=2000), {"failover": 1})
    same(found(p, {**late, "1.1": term(8400, 20100, 8)}, healed_ms=2000), {})
    same(found(p, late, [(6000, "late - 200000")], healed_ms=2000), {})                                # the machine was away itself
    same(found(p, late, [(4000, "begin - disk full"), (5000, "end - disk full")], healed_ms=2000), {})   # counted from the healing
    same(found(p, late, [(3500, "stop 0"), (3600, "kill 1"), (8000, "start 1 1.2")], healed_ms=2000), {})  # nobody was there
    same(found(p, late, [(3500, "stop 0"), (5900, "cont 0")], healed_ms=2000), {})


def no_recovery(p):
    same(found(p, {"0.1": term(1000, 4000, 7)}), {"failover": 1, "recovery": 1})
    same(found(p, {"0.1": term(1000, 4000, 7)}, over_ms=6000), {"recovery": 1})


def line_that_was_cut(p):
    """A process is killed, and the system call with it."""
    same(found(p, {"0.1": term(1000, 3000, 7), "1.1": term(3001, 20100, 8)}), {})
    with open(os.path.join(p.run.directory, "node-0.1.log"), "a") as f:
        f.write("yes 5300")
    expect(not any(check.find_all(check.Run(p.run.directory)).values()), "half a line was read as one")


# ---- the schedule -------------------------------------------------------------------------------------------------------------------

def same_seed_same_schedule(p):
    plan = lambda seed: chaos.make_plan(seed, 600, 5, 1500, 5500, chaos.NODE_FAULTS)
    expect(plan("a") == plan("a"), "one seed, two schedules")
    expect(plan("a") != plan("b"), "two seeds, one schedule")
    expect({event.fault for event in plan("a")} == set(chaos.NODE_FAULTS), "ten minutes, and some fault never happens")
    printed = [p.start("plan", "--plan", "--seed", "7").communicate()[0] for _ in range(2)]
    expect(printed[0] == printed[1] and printed[0].count("\n") > 20, f"printed: {printed[0][:200]}")


# ---- real runs ----------------------------------------------------------------------------------------------------------------------

def seed_of_a_long_stop():
    """Of 8 seconds in which the leader is stopped for longer than its lease, and goes on in time to be seen."""
    lease_ms, bound_ms = store_file.Store.lease_ms, store_file.Store.bound_ms
    for seed in map(str, range(1000)):
        plan = chaos.make_plan(seed, 8, 3, lease_ms, bound_ms, {"stop": chaos.NODE_FAULTS["stop"]})
        if any(e.at_leader and e.for_ms > 1.5 * lease_ms and e.at_ms + e.for_ms < 6000 for e in plan):
            return seed
    raise AssertionError("no such seed")


def wrong_candidate_is_caught_and_right_ones_are_not(p):
    """The wrong one believes in its lease for longer than it may: after a stop there are two leaders, and the checker says so, in words and as a
    picture. The right ones live through the same stops, and through faults that must be seen to have had an effect."""
    start = lambda out, faults, seed, *more: p.start(out, "--faults", faults, "--seed", seed, "--seconds", "8", "--nodes", "3", *more)
    stop = seed_of_a_long_stop()
    runs = {"wrong": start("wrong", "stop", stop, "--wrong", "deadline"), "stops": start("stops", "stop", stop),
            "walls": start("walls", "wall clock", "2"), "disks": start("disks", "disk full,no inodes", "3", "--keep")}
    texts = {name: run.communicate()[0] for name, run in runs.items()}
    expect(runs["wrong"].returncode == 1 and "FAIL  never two leaders" in texts["wrong"] and "two leaders for" in texts["wrong"], texts["wrong"])
    expect("overlap-1.svg" in pictures_of(os.path.join(p.dir, "wrong")), "no picture of the overlap")
    expect(os.path.exists(os.path.join(p.dir, "wrong", "logs", "driver.log")), "the logs are gone")
    for name in ("stops", "walls", "disks"):
        expect(runs[name].returncode == 0, texts[name])
    expect("never moved" in texts["walls"] or int(re.search(r"moved (\d+) times", texts["walls"])[1]) > 0, texts["walls"])
    logs = os.path.join(p.dir, "disks", "logs")
    said = "".join(open(os.path.join(logs, name)).read() for name in os.listdir(logs) if name.startswith("node-"))
    expect("nothing can be mounted" in texts["disks"] or "No space left on device" in said, "a disk that was full, and nobody noticed")


def nothing_is_left_of_a_run_that_is_killed(p):
    run = p.start("killed", "--seconds", "60", "--nodes", "3")
    everything = wait_for(lambda: (pids := descendants(run.pid)) and len(pids) >= 1 + 3 and pids, "the driver and three candidates")
    run.send_signal(signal.SIGKILL)
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in everything), "the end of all processes")
    left = [os.path.join(at, name) for at, _, files in os.walk(os.path.join(p.dir, "killed")) for name in files]
    expect(not left, f"left behind: {left}")


TESTS = [nothing_wrong, overlap_of_a_millisecond, overlap_of_a_moment, overlap_with_every_other, stop_around_a_question_is_no_overlap, tokens_that_go_back, token_of_two,
         guard_that_took_an_old_token, callbacks_without_their_pair, term_that_comes_back_to_life, candidate_that_dies, clock_of_somewhere_else,
         failover_past_the_bound, no_recovery, line_that_was_cut, same_seed_same_schedule, wrong_candidate_is_caught_and_right_ones_are_not, nothing_is_left_of_a_run_that_is_killed]

if __name__ == "__main__":
    sys.exit(run_tests(TESTS, CANDIDATE, Place, sys.argv[1] if len(sys.argv) > 1 else ""))

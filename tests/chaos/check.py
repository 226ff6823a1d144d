#!/usr/bin/env python3
"""Judges a chaos run by what the candidates, the guarded resource and the driver wrote down.

    check.py DIR        the logs of a run; says what it finds, and draws the violations into DIR

What a candidate's line proves, and why a term is claimed from the second stamp of its first yes to the first stamp of its last, stands in
candidate.c. All times are microseconds of the machine's boot clock.
"""
import bisect
import collections
import glob
import os
import re
import shutil
import sys
import textwrap

import timeline

Term = collections.namedtuple("Term", "life token first_before begin end")     # led for certain from begin to end, if begin < end
Guarded = collections.namedtuple("Guarded", "accepted token highest at_us life")
Event = collections.namedtuple("Event", "at_us what node detail")
Violation = collections.namedtuple("Violation", "kind text begin end lives")

GUARD_LINE = 96
SAFETY = ("overlap", "tokens", "guard")     # what a store may break where the README says so
KINDS = {"overlap": "never two leaders", "tokens": "every token above all earlier ones", "guard": "the guarded resource took no old token",
         "revival": "a term that was over stayed over", "callbacks": "each started has its stopped", "deaths": "no candidate died or hung by itself",
         "clock": "all stamps are within the run", "failover": "every failover within the bound", "recovery": "a leader once everything was healed"}


# ---- reading -----------------------------------------------------------------------------------------------------------------------

class Life:
    """What one process wrote, from its start to its end."""

    def __init__(self, name, lines):
        self.name, self.node = name, int(name.split(".")[0])
        self.terms, self.callbacks, self.walls, self.said, self.revived = [], [], [], [], []
        self.closed, self.stamps = False, []
        terms, over = {}, set()                     # by token; those without one (their term ended between two questions) only while they last
        for line in lines:
            what, *words = line.split(" ")
            if what == "yes":
                before, after, token = map(int, words)
                key = token or f"after {len(terms)}"
                if key in over:
                    over.discard(key)
                    self.revived.append((before, token))
                terms[key] = terms.get(key, Term(name, token, before, after, before))._replace(end=before)
            elif what == "no":
                over.update(terms)
            elif what in ("started", "stopped"):
                self.callbacks.append((int(words[0]), what, int(words[1])))
            elif what == "wall":
                self.walls.append((int(words[0]), int(words[1])))
            elif what == "say":
                self.said.append((int(words[0]), " ".join(words[1:])))
            elif what == "closed":
                self.closed = True
            self.stamps.append(int(words[0]))
        self.terms = [t for t in terms.values() if t.token or t.begin < t.end]
        self.moments = [t for t in terms.values() if t.end <= t.begin]  # one yes: led for a moment that lies between end and begin


def read_lines(path):
    """Whole lines: the last one may be cut where the process was killed."""
    with open(path) as f:
        return f.read().split("\n")[:-1]


def read_guard(path, last=0):
    """The guard's lines, or only some of the last."""
    try:
        with open(path, "rb") as f:
            if last:
                f.seek(max(0, os.fstat(f.fileno()).st_size // GUARD_LINE - last) * GUARD_LINE)
            text = f.read().decode()
    except FileNotFoundError:
        return []
    lines = [line.split() for line in text.split("\n")[:-1]]
    return [Guarded(w[0] == "accept", int(w[1]), int(w[2]), int(w[3]), w[4]) for w in lines]


class Run:
    def __init__(self, directory):
        self.directory = directory
        self.lives = {}
        for path in glob.glob(os.path.join(glob.escape(directory), "node-*.log")):
            name = os.path.basename(path)[len("node-"):-len(".log")]
            self.lives[name] = Life(name, read_lines(path))
        self.guard = read_guard(os.path.join(directory, "guard.log"))
        self.events = []
        for line in read_lines(os.path.join(directory, "driver.log")):
            at_us, what, node, *detail = line.split(" ", 3)
            self.events.append(Event(int(at_us), what, None if node == "-" else int(node), " ".join(detail).strip()))
        self.store, lease, deadline, bound = self.events[0].detail.split(" ")
        self.lease_us, self.deadline_us, self.bound_us = (int(ms) * 1000 for ms in (lease, deadline, bound))
        self.begin = self.events[0].at_us
        self.over = next((e.at_us for e in self.events if e.what == "over"), self.events[-1].at_us)
        self.nodes = 1 + max((e.node for e in self.events if e.node is not None), default=0)
        self.terms = sorted((t for life in self.lives.values() for t in life.terms), key=lambda t: t.begin)

    def error_text(self, life):
        try:
            return " ".join(read_lines(os.path.join(self.directory, f"node-{life}.err")))[:500]
        except FileNotFoundError:
            return ""


# ---- safety ------------------------------------------------------------------------------------------------------------------------

def who(led):
    return f"node {led.life} with token {led.token}"


def find_overlaps(run):
    """Each term against whichever earlier ones were not over: two that both read true."""
    current = []
    for term in (t for t in run.terms if t.begin < t.end):
        current = [t for t in current if t.end > term.begin]
        for other in (t for t in current if t.life != term.life):
            end = min(term.end, other.end)
            text = f"two leaders for {(end - term.begin) / 1000:.3f} ms: {who(other)} and {who(term)}"
            yield Violation("overlap", text, term.begin, end, [other.life, term.life])
        current.append(term)
    long = [t for t in run.terms if t.begin < t.end]
    for moment in (m for life in run.lives.values() for m in life.moments):
        for other in (t for t in long if t.life != moment.life and t.begin <= moment.end and moment.begin <= t.end):
            text = f"two leaders for a moment: {who(other)} and {who(moment)}"
            yield Violation("overlap", text, moment.end, moment.begin, [other.life, moment.life])


def find_token_faults(run):
    """A term that certainly began later has a greater token, and no two processes share one."""
    begun = sorted(run.terms, key=lambda t: t.begin)
    begins, highest = [t.begin for t in begun], []
    for term in begun:
        highest.append(max(highest[-1], term, key=lambda t: t.token) if highest else term)
    for term in run.terms:
        earlier = bisect.bisect_right(begins, term.first_before)
        if earlier and highest[earlier - 1].token >= term.token and highest[earlier - 1] != term:
            top = highest[earlier - 1]
            text = f"a token that is not above an earlier one: {who(term)} after {who(top)}"
            yield Violation("tokens", text, top.begin, term.begin, [top.life, term.life])
    users = collections.defaultdict(set)
    for life in run.lives.values():
        for token in [t.token for t in life.terms] + [c[2] for c in life.callbacks]:
            users[token].add(life.name)
    for token, names in users.items():
        if len(names) > 1:
            at = min((t.begin for t in run.terms if t.token == token), default=run.begin)
            yield Violation("tokens", f"token {token} was that of {' and '.join(sorted(names))}", at, at, sorted(names))


def find_guard_faults(run):
    """The resource is checked too: it must have rejected what is old, and nothing else."""
    highest = None
    for line in run.guard:
        old = highest is not None and line.token < highest.token
        wrong = None
        if line.accepted == old:
            wrong = f"took the old token of {who(line)} after {who(highest)}" if old else f"refused {who(line)}, the newest"
        elif line.accepted and highest is not None and line.token == highest.token and line.life != highest.life:
            wrong = f"took {who(line)} after {who(highest)}"
        if wrong:
            yield Violation("guard", f"the resource {wrong}", line.at_us, line.at_us, [line.life])
        if line.accepted and not old:
            highest = line


# ---- what a process may expect ------------------------------------------------------------------------------------------------------

def find_callback_faults(run):
    for life in run.lives.values():
        def wrong(text, at_us):
            return Violation("callbacks", f"node {life.name} {text}", at_us, at_us, [life.name])
        leading = None
        for at_us, what, token in life.callbacks:
            if what == "started" and leading is not None or what == "stopped" and leading != token:
                yield wrong(f"{what} {token} while {'nothing' if leading is None else leading} was started", at_us)
            leading = token if what == "started" else None
        if life.closed and leading is not None:
            yield wrong(f"closed, and started {leading} has no stopped", life.stamps[-1])
        started = {token for _, what, token in life.callbacks if what == "started"}
        for term in life.terms if life.closed else life.terms[:-1]:     # a killed one may have died before the callback
            if term.token not in started:
                yield wrong(f"led with token {term.token} and was never told that it started", term.begin)


def find_revivals(run):
    for life in run.lives.values():
        for at_us, token in life.revived:
            yield Violation("revival", f"node {life.name} read false and then true again in the term of token {token}", at_us, at_us, [life.name])


def find_deaths(run):
    for event in run.events:
        if event.what in ("died", "hung"):
            life, _, how = event.detail.partition(" ")
            how = "did not end when asked to" if event.what == "hung" else f"ended by itself, {how}"
            yield Violation("deaths", f"node {life} {how} {run.error_text(life)}".strip(), event.at_us, event.at_us, [life])


def find_clock_faults(run):
    """Whatever else was moved, the boot clock was not, nor was it somebody else's."""
    end = run.events[-1].at_us
    for life in run.lives.values():
        if life.stamps and (min(life.stamps) < run.begin or max(life.stamps) > end + 1000000):
            yield Violation("clock", f"node {life.name} has stamps from outside the run", run.begin, run.begin, [life.name])


# ---- availability ------------------------------------------------------------------------------------------------------------------

def led_spans(run):
    """When there was a leader, as spans that do not touch."""
    spans = []
    for term in run.terms:
        if term.begin < term.end:
            if spans and term.begin <= spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], term.end)
            else:
                spans.append([term.begin, term.end])
    return spans


def calm_spans(run):
    """Between two events of the driver: nothing happens, no fault of the store is going on, and somebody is up. -> begin, end, microseconds of
    these in which the driver itself got no CPU"""
    up, broken, spans, since = set(), 0, [], None
    for event in run.events:
        if event.what == "late":
            if spans and since is not None:
                spans[-1][2] += int(event.detail)
            continue
        if since is not None:
            spans[-1][1] = event.at_us
        if event.what in ("start", "cont"):
            up.add(event.node)
        elif event.what in ("kill", "stop", "close", "died"):
            up.discard(event.node)
        broken += (event.what == "begin") - (event.what == "end")
        since = event.at_us if up and not broken and event.what != "over" else None
        if since is not None:
            spans.append([since, since, 0])
        if event.what == "over":
            break
    return [tuple(span) for span in spans if span[0] < span[1]]


def failovers(run):
    """How long it took, while nothing hindered it, until somebody led: begin, end, microseconds, whether it came to an end."""
    led = led_spans(run)
    ends = [end for _, end in led]
    for begin, end, lost in calm_spans(run):
        i = bisect.bisect_left(ends, begin)         # the first span of leadership that is not over before
        t = begin
        while t < end:
            if i < len(led) and led[i][0] <= t:
                t = led[i][1]
                i += 1
                continue
            until = min(end, led[i][0] if i < len(led) else end)
            yield t, until, max(0, until - t - lost), i < len(led) and until == led[i][0]
            t = until


def find_late_failovers(run):
    for begin, end, took, _ in failovers(run):
        if took > run.bound_us:
            text = f"nobody led for {took / 1000:.0f} ms although nothing was wrong; the bound is {run.bound_us / 1000:.0f} ms"
            yield Violation("failover", text, begin, end, [])


def find_no_recovery(run):
    healed = [e.at_us for e in run.events if e.what == "healed"]
    if not healed:
        yield Violation("recovery", "the run broke off", run.over, run.over, [])
    elif not any(t.end > healed[0] for t in run.terms):
        text = f"no leader within {(run.over - healed[0]) / 1000:.0f} ms after everything was healed"
        yield Violation("recovery", text, healed[0], run.over, [])


FINDERS = {"overlap": find_overlaps, "tokens": find_token_faults, "guard": find_guard_faults, "revival": find_revivals,
           "callbacks": find_callback_faults, "deaths": find_deaths, "clock": find_clock_faults, "failover": find_late_failovers,
           "recovery": find_no_recovery}


def find_all(run):
    """-> every violation, by kind in the order of KINDS"""
    return {kind: list(FINDERS[kind](run)) for kind in KINDS}


# ---- telling ------------------------------------------------------------------------------------------------------------------------

def count_faults(run):
    """What was really done, by name. The stops that make up a stutter are not counted one by one."""
    names = {"kill": "kill", "stop": "stop", "stutter": "stutter", "resign": "resign", "close": "close", "wall": "wall clock"}
    done = [e for e in run.events if e.at_us < run.over and e.detail != "stutter" and (e.what in names or e.what == "begin")]
    counts = collections.Counter(e.detail if e.what == "begin" else names[e.what] for e in done)
    return counts - collections.Counter(e.detail for e in run.events if e.what == "not-here")


def figures(run, found):
    led = led_spans(run)
    first = led[0][0] if led else run.over
    covered = sum(max(0, min(end, run.over) - begin) for begin, end in led)
    span = max(1, run.over - first)
    done = [took for _, _, took, complete in failovers(run) if complete]
    overlap_us = sum(v.end - v.begin for v in found["overlap"])
    accepted = sum(line.accepted for line in run.guard)
    moved = sum(max(0, len(life.walls) - 1) for life in run.lives.values())
    faults = count_faults(run)
    tokens = sorted({t.token for t in run.terms})
    return [
        ("candidates", f"{run.nodes} nodes, {len(run.lives)} processes, lease {run.lease_us // 1000} ms, deadline {run.deadline_us // 1000} ms"),
        ("time", f"{(run.over - run.begin) / 1e6:.1f} s"),
        ("faults", f"{sum(faults.values())}: " + ", ".join(f"{name} {n}" for name, n in sorted(faults.items()))),
        ("wall clock", f"moved {moved} times under a running candidate"),
        ("terms", f"{len(run.terms)}, tokens " + (f"{tokens[0]} to {tokens[-1]}" if tokens else "none")),
        ("overlap", f"{overlap_us / 1000:.3f} ms"),
        ("availability", f"{100 * covered / span:.1f} % of the time since the first leader"),
        ("worst failover", (f"{max(done) / 1000:.0f} ms" if done else "none to measure") +
         f" of {run.bound_us // 1000} ms allowed, in {len(done)} that nothing else hindered"),
        ("guard", f"{accepted} writes accepted, {len(run.guard) - accepted} of old leaders rejected"),
        ("answers", f"{sum(len(life.stamps) for life in run.lives.values())} lines"),
    ]


def conclude(logs, out, command, notes=(), excused=False, whole_timeline=False, keep=False):
    """Judges, prints, draws. -> the exit status"""
    run = Run(logs)
    found = find_all(run)
    os.makedirs(out, exist_ok=True)
    lines = [f"chaos, store {run.store}" + (": EXCUSED, with faults under which the README makes no promise" if excused else "")]
    for name, text in [*figures(run, found), *(("note", text) for text in notes)]:
        lines += textwrap.wrap(text, 130, initial_indent=f"  {name:15} ", subsequent_indent=" " * 18)
    failed = 0
    for kind, meaning in KINDS.items():
        forgiven = excused and kind in SAFETY
        failed += bool(found[kind]) and not forgiven
        lines.append(f"{'ok  ' if not found[kind] else 'excused' if forgiven else 'FAIL'}  {meaning}")
        for number, violation in enumerate(found[kind]):
            at = (violation.begin - run.begin) / 1e6
            picture = os.path.join(out, f"{kind}-{number + 1}.svg")
            lines.append(f"      {at:.3f} s: {violation.text}" + (f"; {os.path.relpath(picture)}" if number < 20 else ""))
            if number < 20:
                timeline.draw(run, picture, violation.text, violation.begin - 2 * run.lease_us, violation.end + run.lease_us, violation)
    if whole_timeline:
        picture = os.path.join(out, "timeline.svg")
        timeline.draw(run, picture, f"{run.store}: {command}", run.begin, run.over)
        lines.append(f"the whole run: {os.path.relpath(picture)}")
    if failed or any(found.values()) or keep:
        kept = os.path.join(out, "logs")
        if os.path.abspath(kept) != os.path.abspath(logs):
            shutil.copytree(logs, kept, dirs_exist_ok=True)
        lines.append(f"the logs: {os.path.relpath(kept)}; the same schedule again: {command}")
    lines.append(f"{len(KINDS) - failed} passed, {failed} failed")
    text = "\n".join(lines)
    print(text, flush=True)
    with open(os.path.join(out, "summary.txt"), "w") as f:
        f.write(text + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(re.sub(r"\n.*", "", __doc__.split("\n\n")[1], flags=re.S).strip())
    sys.exit(conclude(sys.argv[1], sys.argv[1], f"check.py {sys.argv[1]}"))

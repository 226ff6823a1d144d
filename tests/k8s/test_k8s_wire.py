#!/usr/bin/env python3
"""Replays the exchanges under k8s-wire/, recorded from a real kube-apiserver v1.26, against k8s_server.py and compares every answer.

Status, the names of all headers, the values of those that say something, and the body field by field in the same order must be what the
real server said. Only what necessarily differs may differ, and then consistently: uids one to one, resourceVersions in the same order,
times that the server itself took in the same order. At the end the comparison is turned on answers altered on purpose: each must be caught.
"""
import copy
import glob
import json
import os
import re
import sys

from k8s_client import HERE, Server

SAME_HEADERS = ("Cache-Control", "Content-Type", "Transfer-Encoding", "X-Content-Type-Options", "Content-Length")
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
SERVER_TIMES = ("creationTimestamp", "time")


class Exchange:
    """One recording: lines of the request after '>', of the answer after '<'; a watch's events are one line each."""

    def __init__(self, path):
        self.name = os.path.basename(path)[:-len(".http")]
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        request = [line[2:] for line in lines if line.startswith(">")]
        reply = [line[2:] for line in lines if line.startswith("<")]
        self.method, self.target, _ = request[0].split(" ")
        self.request_headers, body = self.split(request[1:])
        self.request_body = "\n".join(body) or None
        self.status = int(reply[0].split(" ")[1])
        self.headers, self.lines = self.split(reply[1:])

    @staticmethod
    def split(lines):
        end = lines.index("")
        return [tuple(line.split(": ", 1)) for line in lines[:end]], lines[end + 1:]

    def objects(self):
        return [json.loads(line) for line in self.lines]


class Mapping:
    """What stands for what: recorded value -> value of this run. Once said, it holds for all that follows."""

    def __init__(self):
        self.uids, self.versions, self.times = {}, {}, {}

    def learn(self, table, recorded, seen):
        if table.setdefault(recorded, seen) != seen:
            return f"{recorded} was {table[recorded]} before, now {seen}"
        if list(table.values()).count(seen) > 1 and table is not self.times:
            return f"{seen} stands for two recorded values"
        return None

    def learn_version(self, recorded, seen):
        return self.learn(self.versions, int(recorded), int(seen)) or self.check_order(self.versions, "versions")

    def learn_time(self, recorded, seen):
        """Whole seconds: this run may begin or end in another one than the recording, but never runs backwards."""
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", seen):
            return f"{seen} is not a time in whole seconds"
        self.times.setdefault(recorded, seen)
        return self.check_order(self.times, "times") if seen >= self.times[recorded] else f"{seen} is before {self.times[recorded]}"

    @staticmethod
    def check_order(table, what):
        seen = [table[key] for key in sorted(table)]
        return None if seen == sorted(seen) else f"order of {what} differs from the recording"

    def translate(self, text):
        """A recorded request in terms of this run"""
        for recorded, seen in self.uids.items():
            text = text.replace(recorded, seen)
        for recorded, seen in self.times.items():
            text = re.sub(rf'("(?:{"|".join(SERVER_TIMES)})":"){recorded}"', rf'\g<1>{seen}"', text)
        version = lambda match: match[1] + str(self.versions.get(int(match[2]), match[2])) + match[3]
        return re.sub(r"(resourceVersion=)(\d+)()", version, re.sub(r'("resourceVersion":")(\d+)(")', version, text))


def compare(recorded, seen, mapping, path=""):
    """-> list of differences"""
    if type(recorded) is not type(seen):
        return [f"{path}: {json.dumps(seen)} instead of {json.dumps(recorded)}"]
    if isinstance(recorded, dict):
        if list(recorded) != list(seen):
            return [f"{path}: fields {list(seen)} instead of {list(recorded)}"]
        return [d for (key, value), other in zip(recorded.items(), seen.values()) for d in compare(value, other, mapping, f"{path}.{key}")]
    if isinstance(recorded, list):
        if len(recorded) != len(seen):
            return [f"{path}: {len(seen)} elements instead of {len(recorded)}"]
        return [d for i, (value, other) in enumerate(zip(recorded, seen)) for d in compare(value, other, mapping, f"{path}[{i}]")]
    return [f"{path}: {fault}" for fault in [compare_value(path, recorded, seen, mapping)] if fault]


def compare_value(path, recorded, seen, mapping):
    field = path.rpartition(".")[2]
    if field == "uid" and ".ownerReferences" not in path:
        return mapping.learn(mapping.uids, recorded, seen) if re.fullmatch(UUID, seen) else f"{seen} is not a uid"
    if field == "resourceVersion":
        return mapping.learn_version(recorded, seen) if seen.isdigit() else f"{seen} is not a version"
    if field in SERVER_TIMES:
        return mapping.learn_time(recorded, seen)
    if field == "message":
        recorded = mapping.translate(recorded)
    return None if recorded == seen else f"{json.dumps(seen)} instead of {json.dumps(recorded)}"


def compare_headers(exchange, headers, mapping):
    names = [name for name, _ in exchange.headers]
    if [name for name, _ in headers] != names:
        return [f"headers {[name for name, _ in headers]} instead of {names}"]
    recorded, seen = dict(exchange.headers), dict(headers)
    faults = [f"{name}: {seen[name]} instead of {recorded[name]}" for name in SAME_HEADERS if recorded.get(name) != seen.get(name)]
    for name in names:
        if name == "Audit-Id" or name.startswith("X-Kubernetes-Pf"):
            fault = mapping.learn(mapping.uids, recorded[name], seen[name]) if re.fullmatch(UUID, seen[name]) else f"{seen[name]} is not a uid"
            faults += [f"{name}: {fault}"] if fault else []
    return faults


def compare_exchange(exchange, status, headers, body, mapping):
    if status != exchange.status:
        return [f"status {status} instead of {exchange.status}: {body[:300]!r}"]
    try:
        seen = [json.loads(line) for line in body.decode().splitlines()]
    except ValueError as error:
        return [f"body is no JSON: {error}"]
    return compare_headers(exchange, headers, mapping) + compare(exchange.objects(), seen, mapping)


def send(connection, method, target, headers, body):
    """Exactly the recorded headers: no User-Agent, whose absence decides the name under metadata.managedFields."""
    connection.putrequest(method, target, skip_accept_encoding=True)
    for name, value in headers:
        connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    reply = connection.getresponse()
    return reply.status, reply.getheaders(), reply.read()


def play_the_past(server, connection, exchanges, mapping):
    """The last watch shows what had happened before the recording began: a Lease created, renewed, and deleted. Make it so."""
    json_headers = [("Authorization", "Bearer admintoken"), ("Content-Type", "application/json")]
    watched = next(exchange for exchange in exchanges if exchange.name.endswith("watch-too-old")).objects()
    first = next(exchange for exchange in exchanges if exchange.name.endswith("-create"))
    past = [event for event in watched if int(event["object"]["metadata"]["resourceVersion"]) < int(first.objects()[0]["metadata"]["resourceVersion"])]
    last = int(past[0]["object"]["metadata"]["resourceVersion"]) - 1
    for event in past:
        lease = copy.deepcopy(event["object"])
        version = int(lease["metadata"]["resourceVersion"])
        if version > last + 1:                  # something else was written in between
            server.control("POST", "/versions", {"bump": version - last - 1})
        last = version
        body = mapping.translate(json.dumps({**lease, "metadata": {"name": lease["metadata"]["name"]}}))
        if event["type"] == "ADDED":
            send(connection, "POST", server.lease_path(), json_headers, body.encode())
        elif event["type"] == "MODIFIED":
            live = server.control("GET", "/leases/default/demo")
            body = json.dumps({**lease, "metadata": live["metadata"]})
            send(connection, "PUT", server.lease_path("demo"), json_headers, body.encode())
        else:
            send(connection, "DELETE", server.lease_path("demo"), json_headers, None)


def check_that_it_can_fail(answers):
    """Each way of being wrong, applied to true answers, must be found by the same comparison."""
    def altered(name, change):
        mapping = Mapping()
        faults = []
        for exchange, status, headers, body in answers:
            if exchange.name.endswith(name):
                status, headers, body = change(status, list(headers), body)
            faults += compare_exchange(exchange, status, headers, body, mapping)
        return faults

    replace = lambda old, new: lambda status, headers, body: (status, headers, body.replace(old, new))
    again = lambda status, headers, body: (status, headers, re.sub(rb'"resourceVersion":"\d+"', b'"resourceVersion":"201"', body))
    uid = lambda status, headers, body: (status, headers, re.sub(rb'"uid":"[^"]*"', b'"uid":"00000000-0000-0000-0000-000000000000"', body))
    return [(what, bool(altered(name, change))) for what, name, change in (
        ("nothing altered (must be clean)", "04-get", lambda *answer: answer),
        ("another status", "06-update-conflict", lambda status, headers, body: (200, headers, body)),
        ("another word in a message", "16-put-invalid-duration-zero", replace(b"greater than 0", b"at least 1")),
        ("a number as a string", "04-get", replace(b'"leaseDurationSeconds":15', b'"leaseDurationSeconds":"15"')),
        ("a field left out", "04-get", replace(b'"leaseTransitions":0', b'"leaseTransitionz":0')),
        ("a field more", "13-get-released", replace(b'"leaseTransitions":0', b'"leaseTransitions":0,"more":1')),
        ("fields in another order", "38-delete", replace(b'"kind":"Status","apiVersion":"v1"', b'"apiVersion":"v1","kind":"Status"')),
        ("a version that went back", "05-update-renew", again),
        ("another uid for the same Lease", "09-get-2", uid),
        ("an event lost", "36-watch-too-old", lambda status, headers, body: (status, headers, b"\n".join(body.splitlines()[1:]))),
        ("a header lost", "29-get-forbidden", lambda status, headers, body: (status, [h for h in headers if h[0] != "X-Content-Type-Options"], body)),
        ("another content type", "01-get-missing", lambda status, headers, body: (status, [(k, "text/html" if k == "Content-Type" else v) for k, v in headers], body)),
        ("half a body", "04-get", lambda status, headers, body: (status, headers, body[:100])))]


def main():
    exchanges = [Exchange(path) for path in sorted(glob.glob(os.path.join(HERE, "wire", "*.http")))]
    mapping, answers, passed, failed = Mapping(), [], 0, 0
    with Server("--first-version", "200") as server:
        connection = server.connect()
        play_the_past(server, connection, exchanges, mapping)
        for exchange in exchanges:
            if exchange.name.endswith("list-one"):  # by then the real server had written something elsewhere
                server.control("POST", "/versions", {"bump": 1})
            body = exchange.request_body
            answer = send(connection, exchange.method, mapping.translate(exchange.target), exchange.request_headers, None if body is None else mapping.translate(body).encode())
            answers.append((exchange, *answer))
            faults = compare_exchange(exchange, *answer, mapping)
            print(f"{'FAIL' if faults else 'ok  '} {exchange.name}")
            for fault in faults:
                print(f"     {fault}")
            passed, failed = passed + (not faults), failed + bool(faults)
        connection.close()
    if len(exchanges) != 39:
        print(f"FAIL {len(exchanges)} recordings instead of 39")
        failed += 1
    for number, (what, caught) in enumerate(check_that_it_can_fail(answers)):
        good = caught == (number > 0)
        print(f"{'ok  ' if good else 'FAIL'} altered answer: {what}")
        passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

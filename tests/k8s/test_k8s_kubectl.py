#!/usr/bin/env python3
"""kubectl, a client nobody here wrote, works with Leases on k8s_server.py: get, list, watch, label, annotate, create, replace, delete.

Uses the kubectl on the PATH (or $KUBECTL), with a kubeconfig and HOME of its own.
"""
import json
import os
import queue
import shutil
import subprocess
import sys
import threading

from k8s_client import Server

LIMIT_S = 60
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "demo", "namespace": "default", "annotations": {"note": "keep <me> \u00e9"}},
         "spec": {"holderIdentity": "node-a", "leaseDurationSeconds": 15, "acquireTime": "2026-11-16T01:28:19.182774Z", "renewTime": "2026-11-16T01:28:19.182794Z",
                  "leaseTransitions": 3}}


class Failed(Exception):
    pass


def expect(what, seen, wanted):
    if seen != wanted:
        raise Failed(f"{what}: {seen!r} instead of {wanted!r}")


class Kubectl:
    def __init__(self, server):
        self.command = os.environ.get("KUBECTL") or shutil.which("kubectl")
        self.server = server
        self.environment = {"PATH": os.environ["PATH"], "HOME": server.directory, "KUBECONFIG": server.ready["kubeconfig"]}

    def start(self, *arguments):
        return subprocess.Popen([self.command, *arguments], env=self.environment, cwd=self.server.directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def __call__(self, *arguments, stdin="", fails=False):
        process = self.start(*arguments)
        try:
            out, err = process.communicate(stdin, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failed(f"kubectl {' '.join(arguments)}: no end after {LIMIT_S} s") from None
        if (process.returncode != 0) != fails:
            raise Failed(f"kubectl {' '.join(arguments)}: exit {process.returncode}: {err.strip()}")
        return err if fails else out

    def json(self, *arguments):
        return json.loads(self(*arguments, "-o", "json"))


class Stream:
    """Lines of a kubectl that goes on, read one by one with a limit"""

    def __init__(self, process):
        self.process, self.lines = process, queue.Queue()
        threading.Thread(target=lambda: [self.lines.put(line.rstrip("\n")) for line in process.stdout], daemon=True).start()

    def next(self):
        try:
            return self.lines.get(timeout=LIMIT_S)
        except queue.Empty:
            raise Failed(f"no further line from kubectl after {LIMIT_S} s") from None

    def stop(self):
        self.process.terminate()
        self.process.wait()


def test_get_missing(kubectl):
    expect("error", kubectl("get", "lease", "demo", fails=True).strip(), 'Error from server (NotFound): leases.coordination.k8s.io "demo" not found')


def test_create(kubectl):
    out = kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(LEASE))
    expect("output", out.strip(), "lease.coordination.k8s.io/demo created")
    expect("stored spec", kubectl.server.control("GET", "/leases/default/demo")["spec"], LEASE["spec"])


def test_get(kubectl):
    header, row = kubectl("get", "leases").splitlines()
    expect("columns", header.split(), ["NAME", "HOLDER", "AGE"])
    expect("row", row.split()[:2], ["demo", "node-a"])
    found = kubectl.json("get", "lease", "demo")
    expect("spec", found["spec"], LEASE["spec"])
    expect("annotation", found["metadata"]["annotations"]["note"], "keep <me> \u00e9")
    expect("names", kubectl("get", "leases.v1.coordination.k8s.io", "-A", "-o", "name").split(), ["lease.coordination.k8s.io/demo"])
    expect("field", kubectl("get", "lease", "demo", "-o", "jsonpath={.spec.leaseTransitions}"), "3")


def test_describe(kubectl):
    if "node-a" not in kubectl("describe", "lease", "demo"):
        raise Failed("describe does not name the holder")


def test_label(kubectl):
    expect("output", kubectl("label", "lease", "demo", "team=payments").splitlines()[0].split()[-1], "labeled")
    lease = kubectl.server.control("GET", "/leases/default/demo")
    expect("labels", lease["metadata"]["labels"], {"team": "payments"})
    expect("spec", lease["spec"], LEASE["spec"])
    expect("selected", kubectl("get", "leases", "-l", "team=payments", "-o", "name").split(), ["lease.coordination.k8s.io/demo"])
    expect("not selected", kubectl("get", "leases", "-l", "team!=payments", "-o", "name").split(), [])
    if "already has a value" not in kubectl("label", "lease", "demo", "team=other", fails=True):
        raise Failed("label did not refuse to overwrite")
    kubectl("label", "lease", "demo", "team-")
    expect("labels", "labels" in kubectl.server.control("GET", "/leases/default/demo")["metadata"], False)
    kubectl("annotate", "lease", "demo", "why=because")
    expect("annotation", kubectl.server.control("GET", "/leases/default/demo")["metadata"]["annotations"]["why"], "because")


def test_invalid(kubectl):
    text = kubectl("patch", "lease", "demo", "--type=merge", "-p", '{"spec":{"leaseDurationSeconds":0}}', fails=True)
    if "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0" not in text:
        raise Failed(f"patch with a bad duration: {text}")


def test_replace(kubectl):
    lease = kubectl.json("get", "lease", "demo")
    lease["spec"]["holderIdentity"] = "node-b"
    kubectl("replace", "--validate=false", "-f", "-", stdin=json.dumps(lease))
    expect("holder", kubectl.server.control("GET", "/leases/default/demo")["spec"]["holderIdentity"], "node-b")
    lease["spec"]["holderIdentity"] = "node-c"   # the resourceVersion is stale by now
    if "Conflict" not in kubectl("replace", "--validate=false", "-f", "-", stdin=json.dumps(lease), fails=True):
        raise Failed("a stale replace was no conflict")


def test_watch_table(kubectl):
    stream = Stream(kubectl.start("get", "lease", "demo", "-w"))
    try:
        expect("columns", stream.next().split(), ["NAME", "HOLDER", "AGE"])
        expect("now", stream.next().split()[:2], ["demo", "node-b"])
        wait_for_watch(kubectl.server)
        kubectl("patch", "lease", "demo", "--type=merge", "-p", '{"spec":{"holderIdentity":"node-d"}}')
        expect("then", stream.next().split()[:2], ["demo", "node-d"])
    finally:
        stream.stop()


def test_watch_events(kubectl):
    stream = Stream(kubectl.start("get", "leases", "-w", "--output-watch-events"))
    try:
        expect("columns", stream.next().split(), ["EVENT", "NAME", "HOLDER", "AGE"])
        expect("present", stream.next().split()[:2], ["ADDED", "demo"])
        wait_for_watch(kubectl.server)
        kubectl("label", "lease", "demo", "seen=yes")
        expect("labelled", stream.next().split()[0], "MODIFIED")
        kubectl("delete", "lease", "demo")
        expect("deleted", stream.next().split()[0], "DELETED")
    finally:
        stream.stop()


def wait_for_watch(server):
    """kubectl prints the list before it opens the watch; history makes the order immaterial, but the watch itself is what is tested here."""
    for _ in range(LIMIT_S * 20):
        if server.control("GET", "/watches")["watches"]:
            return
        threading.Event().wait(0.05)
    raise Failed("kubectl opened no watch")


def test_delete(kubectl):
    kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(LEASE))
    if '"demo" deleted' not in kubectl("delete", "lease", "demo"):
        raise Failed("delete said nothing of it")
    expect("gone", kubectl.server.api("GET", kubectl.server.lease_path("demo"))[0], 404)
    if "NotFound" not in kubectl("delete", "lease", "demo", fails=True):
        raise Failed("a second delete found something")


def test_users(kubectl):
    elector = f"--token={kubectl.server.tokens['elector']}"
    server = ["--kubeconfig=/dev/null", f"--server={kubectl.server.ready['url']}", f"--certificate-authority={kubectl.server.ready['ca']}"]
    text = kubectl(*server, elector, "get", "leases", fails=True)
    if 'User "elector" cannot list resource "leases"' not in text:
        raise Failed(f"a user without list: {text}")
    text = kubectl(*server, "--token=wrong", "get", "leases", fails=True)
    if "logged in" not in text and "Unauthorized" not in text:
        raise Failed(f"an unknown token: {text}")


TESTS = [test_get_missing, test_create, test_get, test_describe, test_label, test_invalid, test_replace, test_watch_table, test_watch_events, test_delete, test_users]


def main():
    passed, failed = 0, 0
    with Server() as server:
        kubectl = Kubectl(server)
        if not kubectl.command:
            print("FAIL no kubectl on the PATH (Debian: kubernetes-client)\n0 passed, 1 failed")
            return 1
        for test in TESTS:
            try:
                test(kubectl)
                passed += 1
                print(f"ok   {test.__name__}")
            except Failed as fault:
                failed += 1
                print(f"FAIL {test.__name__}: {fault}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

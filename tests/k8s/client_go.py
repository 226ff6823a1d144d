#!/usr/bin/env python3
"""A candidate that does what client-go's elector (v1.26) does: the other party in the tests of a shared Lease.

    KUBE_TOKEN=... client_go.py URL CA NAMESPACE LEASE IDENTITY LEASE_S RENEW_DEADLINE_S RETRY_S

Prints L when it starts to lead and S when it stops. SIGTERM: stops, releases and ends, as with ReleaseOnCancel.

What it takes over from client-go, because it matters to those that share a Lease with it:
  - every try is a GET, and then a PUT of the whole object with the spec replaced and the metadata kept;
  - records are compared as the JSON of LeaderElectionRecord, whose times are whole seconds;
  - a record counts from when it was last seen to change, for the candidate's own LeaseDuration;
  - a holder of its own identity is itself; a release is an empty holder, one second, both times now, transitions kept.
"""
import http.client
import json
import os
import random
import signal
import ssl
import sys
import time
import urllib.parse
from datetime import datetime, timezone

JITTER = 1.2


def stamp():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Conflict(Exception):
    pass


class Elector:
    def __init__(self, url, ca, namespace, lease, identity, lease_s, deadline_s, retry_s):
        self.server = urllib.parse.urlparse(url)
        self.trust = ssl.create_default_context(cafile=ca or None)
        self.base = f"{self.server.path}/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.lease, self.namespace, self.identity = lease, namespace, identity
        self.lease_s, self.deadline_s, self.retry_s = lease_s, deadline_s, retry_s
        self.connection = None
        self.object = None                      # as last read or written
        self.observed = None                    # the record, as compared
        self.observed_at = 0.0
        self.leading = self.stopping = False

    def call(self, method, path, body=None):
        """-> status, object; any trouble of the connection is an OSError"""
        try:
            if not self.connection:
                self.connection = http.client.HTTPSConnection(self.server.hostname, self.server.port or 443, timeout=self.deadline_s, context=self.trust)
            headers = {"Authorization": "Bearer " + os.environ["KUBE_TOKEN"], "Content-Type": "application/json", "User-Agent": "client-go"}
            self.connection.request(method, path, None if body is None else json.dumps(body), headers)
            reply = self.connection.getresponse()
            return reply.status, json.loads(reply.read())
        except (OSError, ValueError, http.client.HTTPException) as trouble:
            self.connection = None
            raise OSError(str(trouble))

    @staticmethod
    def record(spec):
        """LeaderElectionRecord, as JSON: whole seconds"""
        return json.dumps({"holderIdentity": spec.get("holderIdentity") or "", "leaseDurationSeconds": spec.get("leaseDurationSeconds") or 0,
                           "acquireTime": (spec.get("acquireTime") or "")[:19], "renewTime": (spec.get("renewTime") or "")[:19],
                           "leaderTransitions": spec.get("leaseTransitions") or 0})

    def holder(self):
        return json.loads(self.observed)["holderIdentity"] if self.observed else ""

    def observe(self, found):
        self.object = found
        record = self.record(found.get("spec") or {})
        if record != self.observed:
            self.observed, self.observed_at = record, time.monotonic()

    def write(self, spec):
        self.object["spec"] = spec
        status, answer = self.call("PUT", f"{self.base}/{self.lease}", self.object)
        if status != 200:
            self.object = None
            raise Conflict(answer.get("message"))
        self.observed = None                    # setObservedRecord: observed now, whatever it was
        self.observe(answer)

    def try_acquire_or_renew(self):
        now = stamp()
        spec = {"holderIdentity": self.identity, "leaseDurationSeconds": int(self.lease_s), "renewTime": now, "acquireTime": now, "leaseTransitions": 0}
        status, found = self.call("GET", f"{self.base}/{self.lease}")
        if status == 404:
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self.lease, "namespace": self.namespace}, "spec": spec}
            status, made = self.call("POST", self.base, lease)
            if status == 201:
                self.observe(made)
            return status == 201
        if status != 200:
            return False
        self.observe(found)
        if self.holder() and self.holder() != self.identity and self.observed_at + self.lease_s > time.monotonic():
            return False
        old = found.get("spec") or {}
        if self.holder() == self.identity:
            spec["acquireTime"], spec["leaseTransitions"] = old.get("acquireTime"), old.get("leaseTransitions") or 0
        else:
            spec["leaseTransitions"] = (old.get("leaseTransitions") or 0) + 1
        self.write(spec)
        return True

    def attempt(self):
        try:
            return self.try_acquire_or_renew()
        except (OSError, Conflict):
            return False

    def say(self, leading):
        if leading != self.leading:
            self.leading = leading
            try:
                os.write(1, b"L" if leading else b"S")
            except BrokenPipeError:
                self.stopping = True            # nobody listens any more

    def run(self):
        while not self.stopping:
            while not self.stopping and not self.attempt():
                time.sleep(self.retry_s * (1 + JITTER * random.random()))
            if self.stopping:
                break
            self.say(True)
            renewed = time.monotonic()
            while not self.stopping and time.monotonic() - renewed < self.deadline_s:
                time.sleep(self.retry_s)
                if self.attempt():
                    renewed = time.monotonic()
                elif self.holder() != self.identity:
                    break                       # somebody else's: client-go finds out the same way and runs into its deadline
            self.say(False)
        self.release()

    def release(self):
        if self.holder() != self.identity or not self.object:
            return
        now = stamp()
        try:
            self.write({"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now,
                        "leaseTransitions": (self.object.get("spec") or {}).get("leaseTransitions") or 0})
        except (OSError, Conflict):
            pass


def main():
    url, ca, namespace, lease, identity = sys.argv[1:6]
    elector = Elector(url, ca, namespace, lease, identity, *map(float, sys.argv[6:9]))

    def stop(*_):
        elector.stopping = True
    signal.signal(signal.SIGTERM, stop)
    elector.run()


if __name__ == "__main__":
    main()

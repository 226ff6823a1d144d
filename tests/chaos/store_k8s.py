"""Candidates on a Lease of the test API server, over TLS, each through a network of its own.

As with Redis, a seed chooses whether the Lease is deleted now and then; then candidates start cautiously, as the README tells those to do whose
store can be wiped. It also chooses whether they leave room for candidates of client-go, whose standbys may be a second early, or know of none.
"""
import os
import queue
import shutil
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "k8s"))
import k8s_client

import proxy
import stores

RIGHTS = ["get", "create", "update", "list", "watch"]
LATE_MS = 4000                      # the longest that the server carries a request about before it executes it


class Store(stores.Store):
    name = "k8s"

    def __init__(self, directory, nodes, rng):
        super().__init__(directory, nodes, rng)
        self.forgets, self.alone = rng.random() < 0.5, rng.random() < 0.5
        self.lease_ms, self.deadline_ms = (2000, 1300) if self.alone else (3000, 1800)
        # What is late has to arrive; a client asks again after a lease at most; the record found may last for a lease, and one more passes in
        # doubt.
        self.bound_ms = LATE_MS + 3 * self.lease_ms + 1500
        self.server, self.network = None, proxy.Network()
        self.orders = queue.Queue()             # a server that is stopped would stop the driver: another thread tells it what to do, in order
        self.refused = []

    def start(self):
        self.server = k8s_client.Server(directory=self.directory)
        self.server.__enter__()
        for _ in range(self.nodes):
            self.network.link(self.server.port)
        self.server.control("POST", "/users", {"user": "elector", "verbs": RIGHTS, "namespaces": ["default"]})
        threading.Thread(target=self.steer, daemon=True).start()

    def steer(self):
        while order := self.orders.get():
            try:
                order()
            except (OSError, ValueError) as trouble:
                self.refused.append(trouble)    # no such Lease at the moment: then this fault has no effect

    def stop(self):
        self.network.close()
        if self.server:
            self.orders.put(None)
            self.server.process.send_signal(signal.SIGCONT)
            self.server.stop()
            shutil.rmtree(self.server.directory, ignore_errors=True)

    def candidate_args(self, node):
        return ["--k8s", "default/chaos", "--server", f"https://127.0.0.1:{self.network.links[node].port}", "--ca", self.server.ready["ca"],
                "--token-file", os.path.join(self.server.ready["service_account"], "token"),
                *(["--cautious"] if self.forgets else []), *(["--leader-h-only"] if self.alone else [])]

    # -- faults

    def faults(self):
        update, anything = {"verb": "update"}, {}
        back = ("/listen", {"mode": "open"})
        status = lambda codes, **more: lambda rng: {"do": "status", "code": rng.choice(codes), **more}
        return [
            *proxy.network_faults(self),
            stores.Fault("server stopped", 2, self.pause_server),
            self.told("server restarts", 2, lambda rng: ("/listen", {"mode": "refuse", "drop": True}), back),
            self.told("server does not speak", 1, lambda rng: ("/listen", {"mode": "blackhole", "drop": rng.random() < 0.5}), back),
            self.answered("server errors", 3, status([429, 500, 502, 503, 504])),
            self.answered("writes fail", 1, status([429, 500, 502, 503, 504], match=update)),
            self.answered("told to come later", 1, status([429, 503], retry_after=1)),
            self.answered("told to come much later", 1, status([429, 503], retry_after=3600)),
            self.answered("errors after writing", 3, status([409, 500, 504], execute=True, match=update)),
            self.answered("conflicts", 2, status([409], match=update)),
            self.answered("forbidden", 1, status([401, 403, 404], match=update)),
            self.answered("late writes", 3, lambda rng: {"do": "late", "ms": rng.randrange(100, LATE_MS), "match": update}),
            self.answered("answers withheld", 2, lambda rng: {"do": rng.choice(["withhold", "hang"]), "match": rng.choice([update, anything])}),
            self.answered("answers cut", 2, lambda rng: {"do": "cut", "bytes": rng.randrange(400), "of": "reply", "reset": rng.random() < 0.5}),
            self.answered("garbage", 1, lambda rng: {"do": "garbage"}),
            self.told("watches end", 2, lambda rng: ("/watches", {"do": rng.choice(["freeze", "close", "cut", "reset", "error"])})),
            self.told("history compacted", 1, lambda rng: ("/compact", {})),
            self.told("versions jump", 1, lambda rng: ("/versions", {"bump": rng.randrange(1, 10 ** 6)})),
            self.told("token expires", 2, lambda rng: ("/rotate", {"user": "elector", "file": False}), ("/rotate", {"user": "elector", "file": True})),
            self.told("watching forbidden", 1, lambda rng: ("/users", {"user": "elector", "verbs": RIGHTS[:3], "namespaces": ["default"]}),
                      ("/users", {"user": "elector", "verbs": RIGHTS, "namespaces": ["default"]})),
            stores.Fault("labels changed", 2, self.change_labels),
            stores.Fault("lease deleted", 3, self.delete_lease, excused=not self.forgets),
            self.told("restored from a backup", 1, lambda rng: ("/snapshot", {}), ("/restore", {}), excused=True),
        ]

    def told(self, name, weight, what, undo=None, excused=False):
        """Something that the control port does, and what it does afterwards."""
        def begin(rng):
            path, body = what(rng)
            self.orders.put(lambda: self.server.control("POST", path, body))
            return (lambda: self.orders.put(lambda: self.server.control("POST", *undo))) if undo else None
        return stores.Fault(name, weight, begin, excused)

    def answered(self, name, weight, rule):
        """A rule of the server's, for as long as the fault lasts."""
        def begin(rng):
            made, chosen = [], {"times": 0, **rule(rng)}
            chosen["match"] = {**chosen.get("match", {}), "user": "elector"}
            self.orders.put(lambda: made.append(self.server.control("POST", "/faults", chosen)["id"]))
            return lambda: self.orders.put(lambda: made and self.server.control("DELETE", f"/faults/{made[0]}"))
        return stores.Fault(name, weight, begin)

    def pause_server(self, rng):
        self.server.process.send_signal(signal.SIGSTOP)
        return lambda: self.server.process.send_signal(signal.SIGCONT)

    def change_labels(self, rng):
        patch = {"metadata": {"labels": {"chaos": str(rng.randrange(1000))}, "annotations": {"note": "x" * rng.randrange(300)}}}
        headers = {"Content-Type": "application/merge-patch+json"}
        self.orders.put(lambda: self.server.api("PATCH", self.server.lease_path("chaos"), patch, headers=headers))

    def delete_lease(self, rng):
        self.orders.put(lambda: self.server.control("DELETE", "/leases/default/chaos"))

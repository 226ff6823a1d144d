"""Candidates on three real etcd members, each through a network of its own to every member.

A seed chooses one of two lives for the cluster: in the one it forgets (the key deleted, the cluster rebuilt), and candidates start cautiously;
in the other it remembers, and they start as they do by default. The members talk to one another through a proxy, so that each can be cut off.
"""
import base64
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import types
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from processes import wait_for

import proxy
import stores

MEMBERS = 3
KEY = base64.b64encode(b"/leader/chaos").decode()
ELECTION_MS = 500                   # after which members take their leader for dead


class Member:
    """One etcd, that can be killed and started again in its place."""

    def __init__(self, directory, number):
        self.name = f"m{number}"
        self.places = [proxy.bound_socket(0) for _ in range(2)]         # keep the ports while the member is down
        self.port, self.peer_port = (place.getsockname()[1] for place in self.places)
        self.dir = os.path.join(directory, f"etcd-{self.port}")
        self.process = None

    def run(self, cluster, token, advertised):
        if self.process is not None:
            return
        listen = f"http://127.0.0.1:{self.port}"
        options = {"name": self.name, "data-dir": self.dir, "listen-client-urls": listen, "advertise-client-urls": listen,
                   "listen-peer-urls": f"http://127.0.0.1:{self.peer_port}", "initial-advertise-peer-urls": advertised,
                   "initial-cluster": cluster, "initial-cluster-token": token, "heartbeat-interval": 50, "election-timeout": ELECTION_MS}
        with open(f"{self.dir}.log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "etcd", *(f"--{name}={value}" for name, value in options.items())],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def signal(self, number):
        if self.process is not None:
            self.process.send_signal(number)

    def forget(self):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def ask(self, path, body, limit_s=5):
        """The answer, or {} if there is none"""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=limit_s) as reply:
                return json.load(reply)
        except (OSError, ValueError):
            return {}

    def leads(self, limit_s=5):
        status = self.ask("/v3/maintenance/status", {}, limit_s)
        return "leader" in status and status["leader"] == status["header"]["member_id"]

    def stop(self):
        self.forget()
        for place in self.places:
            place.close()


class Ways:
    """The links of one node to all members, as one"""

    def __init__(self, links):
        self.links = links

    def impose(self, rule):
        heals = [link.impose(rule) for link in self.links]

        def heal():
            for each in heals:
                each()
        return heal

    def reset(self):
        for link in self.links:
            link.reset()


class Store(stores.Store):
    name = "etcd"
    lease_ms = 1500
    deadline_ms = 1000
    # Members start, and elect a leader of their own; then the record found may last for a lease, and one more passes in doubt.
    bound_ms = 3000 + 4 * ELECTION_MS + 2 * 1500 + 1500

    def __init__(self, directory, nodes, rng):
        super().__init__(directory, nodes, rng)
        self.forgets = rng.random() < 0.5
        self.members, self.peers, self.token = [], [], 0
        self.wires, self.network = proxy.Network(), types.SimpleNamespace(links=[])
        self.orders = queue.Queue()             # a cluster without a quorum would stop the driver: another thread gives the orders

    def start(self):
        self.members = [Member(self.directory, number) for number in range(MEMBERS)]
        self.peers = [self.wires.link(member.peer_port) for member in self.members]
        self.network.links = [Ways([self.wires.link(member.port) for member in self.members]) for _ in range(self.nodes)]
        self.run_all()
        for member in self.members:
            wait_for(lambda: member.ask("/v3/kv/range", {"key": KEY}), "etcd answers")
        threading.Thread(target=self.steer, daemon=True).start()

    def run(self, member):
        url = lambda number: f"http://127.0.0.1:{self.peers[number].port}"
        cluster = ",".join(f"m{number}={url(number)}" for number in range(MEMBERS))
        member.run(cluster, f"chaos-{self.token}", url(self.members.index(member)))

    def run_all(self):
        for member in self.members:
            self.run(member)

    def steer(self):
        while order := self.orders.get():
            order()

    def stop(self):
        self.orders.put(None)
        for member in self.members:
            member.stop()
        self.wires.close()

    def candidate_args(self, node):
        ports = [link.port for link in self.network.links[node].links]
        first = node % MEMBERS                  # each asks them in an order of its own
        return ["--etcd", ",".join(f"http://127.0.0.1:{port}" for port in ports[first:] + ports[:first]), "--name", "chaos",
                *(["--cautious"] if self.forgets else [])]

    # -- faults

    def faults(self):
        return [*proxy.network_faults(self),
                stores.Fault("endpoint silent", 3, self.hold_endpoint),
                stores.Fault("member killed", 3, lambda rng: self.kill([rng.choice(self.members)])),
                stores.Fault("leading member killed", 3, lambda rng: self.kill([self.leading(rng)])),
                stores.Fault("leading member stopped", 3, lambda rng: self.pause([self.leading(rng)])),
                stores.Fault("member stopped", 2, lambda rng: self.pause([rng.choice(self.members)])),
                stores.Fault("quorum stopped", 2, lambda rng: self.pause(rng.sample(self.members, 2))),
                stores.Fault("quorum killed", 1, lambda rng: self.kill(rng.sample(self.members, 2))),
                stores.Fault("member cut off", 3, lambda rng: self.cut_off(self.leading(rng))),
                self.told("lead moved", 2, lambda rng: self.move_lead(rng.choice(self.members))),
                self.told("history compacted", 2, lambda rng: self.compact()),
                stores.Fault("writes refused", 1, self.refuse_writes),
                self.told("key deleted", 3, lambda rng: self.say("/v3/kv/deleterange", {"key": KEY}), excused=not self.forgets),
                stores.Fault("cluster rebuilt", 1, self.rebuild, excused=not self.forgets)]

    def told(self, name, weight, order, excused=False):
        return stores.Fault(name, weight, lambda rng: self.orders.put(lambda: order(rng)), excused)

    def say(self, path, body):
        """To whichever member takes it"""
        return next((reply for member in self.members if (reply := member.ask(path, body, 1))), {})

    def leading(self, rng):
        running = [member for member in self.members if member.process is not None]
        return next((member for member in running if member.leads(0.1)), rng.choice(self.members))

    def hold_endpoint(self, rng):
        return rng.choice(self.network.links[self.node].links).impose(proxy.Rule(hold="both"))

    def kill(self, members):
        for member in members:
            member.kill()
        return self.run_all

    @staticmethod
    def pause(members):
        paused = [member.process for member in members if member.process is not None]
        for process in paused:
            process.send_signal(signal.SIGSTOP)

        def go_on():
            for process in paused:
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)
        return go_on

    def cut_off(self, member):
        """What it says to the others does not arrive, nor do they reach it; clients do."""
        return self.peers[self.members.index(member)].impose(proxy.Rule(hold="both"))

    def move_lead(self, to):
        target = to.ask("/v3/maintenance/status", {}, 1).get("header", {}).get("member_id")
        if target:
            self.say("/v3/maintenance/transfer-leadership", {"targetID": target})

    def compact(self):
        revision = self.say("/v3/kv/range", {"key": KEY}).get("header", {}).get("revision")
        if revision:
            self.say("/v3/kv/compaction", {"revision": revision, "physical": True})

    def refuse_writes(self, rng):
        alarm = lambda action: self.orders.put(lambda: self.say("/v3/maintenance/alarm", {"action": action, "memberID": 0, "alarm": "NOSPACE"}))
        alarm("ACTIVATE")
        return lambda: alarm("DEACTIVATE")

    def rebuild(self, rng):
        for member in self.members:
            member.forget()
        self.token += 1
        return self.run_all

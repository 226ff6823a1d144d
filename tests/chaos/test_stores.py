#!/usr/bin/env python3
"""Do the faults of the stores on servers happen, and end? One that does nothing would let every candidate pass."""
import itertools
import os
import random
import signal
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from processes import check, run_tests, stat_of, wait_for

import proxy
import store_etcd
import store_k8s
import store_redis
import store_redis_quorum
import store_redis_sentinel
from store_redis import KEYS


class Place:
    """A directory, and the store that a test starts in it."""

    def __init__(self, _):
        self.temporary = tempfile.TemporaryDirectory(prefix="chaos-")
        self.store = None

    def start(self, kind):
        self.store = kind.Store(self.temporary.name, 2, random.Random(1))
        self.faults = {fault.name: fault for fault in self.store.faults() if fault.weight or fault.excused}
        self.store.start()
        return self.store

    def begin(self, name, dice=1):
        return self.faults[name].begin(random.Random(dice))

    def said(self):
        return ""

    def close(self):
        if self.store:
            self.store.stop()
        self.temporary.cleanup()


def is_stopped(process):
    return stat_of(process.pid)[0] == "T"


# ---- Redis -------------------------------------------------------------------------------------------------------------------------

def fresh(server):
    """As after the start, with something in it"""
    wait_for(lambda: "OK" in server.ask("SET", KEYS["lease"], "x"), "the server takes writes")
    server.ask("HSET", KEYS["witness"], "t", "1")
    server.ask("CONFIG", "RESETSTAT")


def ahead_ms(server):
    _, _, seconds, _, micros, _ = server.ask("TIME").split("\r\n")
    return int(seconds) * 1000 + int(micros) / 1000 - time.time() * 1000


def carried_out(server, command):
    """Waits until the server has done this one command, and did not refuse it."""
    def line():
        return [text for text in server.ask("INFO", "commandstats").splitlines() if text.lower().startswith(f"cmdstat_{command}:")]
    wait_for(line, f"the server has had {command}")
    if command != "eval":                       # what others are told meanwhile (-BUSY) counts as its failure
        check("rejected_calls=0,failed_calls=0" in line()[0], line()[0])


COMMANDS = {"lease deleted": "del", "witness deleted": "del", "all flushed": "flushall", "scripts flushed": "script|flush", "server sleeps": "debug",
            "server busy": "eval", "clients killed": "client|kill", "clients paused": "client|pause", "memory full": "config|set",
            "writes refused": "config|set"}
OTHERS = ["server killed", "server restarts empty", "server restarts from a backup", "server stopped", "server clock ahead", "server clock far ahead",
          "server clock set back"]


def redis_commands(p):
    server = p.start(store_redis).server
    gone = {"lease deleted": ["witness"], "witness deleted": ["lease"], "all flushed": []}
    for name, command in COMMANDS.items():
        fresh(server)
        undo = p.begin(name)
        carried_out(server, command)
        if undo:
            check("-OOM" in server.ask("SET", "a", "b") or "-NOREPLICAS" in server.ask("SET", "a", "b"), f"{name}: writes are refused")
            undo()
        wait_for(lambda: "OK" in server.ask("SET", "a", "b"), f"{name} is over")
        left = [key for key in KEYS if ":1" in server.ask("EXISTS", KEYS[key])]
        check(left == gone.get(name, ["lease", "witness"]), f"{name}: left are {left}")


def redis_pauses(p):
    server = p.start(store_redis).server
    for name in ("clients paused", "server sleeps", "server busy"):
        fresh(server)
        began = time.monotonic()
        p.begin(name, dice=7)
        wait_for(lambda: "OK" in server.ask("SET", "a", "b"), "over")
        check(time.monotonic() - began > 0.1, f"{name}: writes had to wait")


def redis_restarts(p):
    server = p.start(store_redis).server
    for name, left in (("server killed", ":2"), ("server restarts empty", ":0"), ("server restarts from a backup", ":2")):
        server.ask("FLUSHALL")
        fresh(server)
        first, undo = server.process.pid, p.begin(name)
        if name == "server restarts from a backup":
            server.ask("SET", "later", "x")
        else:
            check(server.ask("PING") == "", f"{name}: down")
        undo()
        wait_for(lambda: "PONG" in server.ask("PING"), "up again")
        check(server.process.pid != first and left in server.ask("DBSIZE"), f"{name}: {server.ask('DBSIZE')} keys")
    undo = p.begin("server stopped")
    wait_for(lambda: is_stopped(server.process), "stopped")
    undo()
    wait_for(lambda: not is_stopped(server.process), "goes on")


def redis_clock(p):
    store = p.start(store_redis)
    margin_ms = store.lease_ms - store.deadline_ms
    check(abs(ahead_ms(store.server)) < 1000, "right at first")       # a slow machine is late in looking, never early
    before, undo = ahead_ms(store.server), p.begin("server clock far ahead")
    check(ahead_ms(store.server) > margin_ms - 100, "far ahead")
    undo()
    check(ahead_ms(store.server) < before + 100, "back again")
    for _ in range(9):
        undo = p.begin("server clock ahead", dice=random.random())
        check(0 < 1000 * max(store.clock.leaps) < 1000 * margin_ms, "within the margin")
        undo()
    for dice in range(9):
        p.begin("server clock set back", dice)
    check(ahead_ms(store.server) < -2000, "set back, and again")


def redis_knows_no_other_faults(p):
    p.start(store_redis)
    network = [fault.name for fault in proxy.network_faults(p.store)]
    untested = set(p.faults) - {*COMMANDS, *OTHERS, *network}
    check(not untested, f"no test for {untested}")


def network_faults_meet_the_links(p):
    """What the rules do is said in test_proxy.py; here, that they reach some link and leave it."""
    store = p.start(store_redis)
    ping = lambda link: socket.create_connection(("127.0.0.1", link.port), timeout=30)
    for fault in proxy.network_faults(store):
        held = [ping(link) for link in store.network.links]
        for one in held:
            one.sendall(b"PING\r\n")
            check(one.recv(7) == b"+PONG\r\n", "through the proxy")
        undo = fault.begin(random.Random(2))
        if undo:
            check(any(link.rules for link in store.network.links), f"{fault.name}: imposed")
            undo()
        else:
            wait_for(lambda: any(link.connections == [] for link in store.network.links), f"{fault.name}: connections end")
        check(not any(link.rules for link in store.network.links), f"{fault.name}: healed")
        for one in held:
            one.close()


# ---- sentinels -----------------------------------------------------------------------------------------------------------------------

def sentinels_fail_over(p):
    store = p.start(store_redis_sentinel)
    named = lambda: store.sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
    master = lambda: next((server for server in store.servers if str(server.port) in named()), None)
    in_step = lambda: any("master_link_status:up" in server.ask("INFO", "replication") for server in store.servers)
    first = master()
    p.begin("fail-over ordered")
    wait_for(lambda: master() not in (None, first), "another master")
    wait_for(in_step, "the old one follows it")
    for dice in range(4):                       # a server, whichever it is: both are met
        undo = p.begin("server killed", dice)
        time.sleep(2 * store_redis_sentinel.DOWN_MS / 1000)
        undo()
        wait_for(in_step, "in step again")
    undo = p.begin("sentinel killed")
    check(sum(sentinel.process is None for sentinel in store.sentinels) == 1, "a sentinel is gone")
    undo()
    check(all("PONG" in sentinel.ask("PING") for sentinel in store.sentinels), "and back")


# ---- five servers ----------------------------------------------------------------------------------------------------------------------

def quorum_spares_a_majority(p):
    """Whatever comes together, unless its name says so, at most two servers are in trouble; and each of the five has its turn."""
    store = p.start(store_redis_quorum)
    met, undos = set(), []
    for dice in range(40):
        name = ["server killed", "server stopped", "all flushed", "black hole"][dice % 4]
        undo = p.begin(name, dice)
        if undo:
            undos.append(undo)
        met.update(store.in_trouble())
        down = [i for i, vote in enumerate(store.votes) if vote.server.process is None or is_stopped(vote.server.process)]
        check(len(store.in_trouble()) <= store_redis_quorum.MINORITY, f"{name}: {store.in_trouble()} are in trouble")
        check(set(down) <= set(store.in_trouble()), f"{name}: {down} are down, {store.in_trouble()} in trouble")
        if dice % 8 == 7:
            while undos:
                undos.pop()()
            store.ailing_until = [0.0] * store_redis_quorum.SERVERS
    check(met == set(range(store_redis_quorum.SERVERS)), f"only {met} were met")
    for vote in store.votes:
        wait_for(lambda: "PONG" in vote.server.ask("PING"), "up again")


def quorum_majorities(p):
    store = p.start(store_redis_quorum)
    is_down = lambda vote: vote.server.process is None or is_stopped(vote.server.process)
    for name in ("a majority killed", "a majority stopped", "a majority restarts empty"):
        for vote in store.votes:
            vote.server.ask("SET", "a", "b")
        undo = p.begin(name)
        wait_for(lambda: sum(map(is_down, store.votes)) >= 3, f"{name}: at least three are down")
        undo()
        for vote in store.votes:
            wait_for(lambda: "PONG" in vote.server.ask("PING"), f"{name}: up again")
        kept = sum("b" in vote.server.ask("GET", "a") for vote in store.votes)
        check(kept < 3 if name == "a majority restarts empty" else kept == 5, f"{name}: {kept} remember")
    for name, few in (("a minority cut off", True), ("a majority cut off", False)):
        undo = p.begin(name)
        cut = sum(bool(vote.network.links[store.node].rules) for vote in store.votes)
        others = sum(bool(link.rules) for vote in store.votes for node, link in enumerate(vote.network.links) if node != store.node)
        check(0 < cut <= 2 if few else cut >= 3, f"{name}: from {cut} servers")
        check(others == 0, f"{name}: one candidate alone")
        undo()
        check(not any(link.rules for vote in store.votes for link in vote.network.links), f"{name}: healed")


# ---- Kubernetes ------------------------------------------------------------------------------------------------------------------------

def k8s_orders(p):
    """The server takes every order, and obeys it."""
    store = p.start(store_k8s)
    server = store.server
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "chaos", "namespace": "default"}, "spec": {}}
    token = lambda: open(os.path.join(server.ready["service_account"], "token")).read()
    network = [fault.name for fault in proxy.network_faults(store)]

    def settled():
        done = []
        store.orders.put(lambda: done.append(1))
        wait_for(lambda: done, "orders are carried out")
        check(not store.refused, f"refused: {store.refused}")

    for name in [name for name in p.faults if name not in network and name != "server stopped"]:
        server.api("POST", server.lease_path(), lease)
        before = server.api("GET", server.lease_path("chaos"))[1]
        undo = p.begin(name)
        settled()
        rules = server.control("GET", "/faults")["faults"]
        if undo and not rules and name not in ("watching forbidden", "restored from a backup"):
            try:
                served = server.api("GET", server.lease_path("chaos"), token=token(), connection=server.connect(timeout_s=0.5))[0]
            except OSError:
                served = None
            check(served in (None, 401), f"{name}: served")
        if name == "labels changed":
            check(server.api("GET", server.lease_path("chaos"))[1]["metadata"]["labels"] != before["metadata"].get("labels"), name)
        if name == "lease deleted":
            check(server.api("GET", server.lease_path("chaos"))[0] == 404, name)
        if undo:
            undo()
        settled()
        check(not server.control("GET", "/faults")["faults"], f"{name}: healed")
        check(server.api("GET", server.lease_path(), token=token())[0] == 200, f"{name}: served again")
    undo = p.begin("server stopped")
    wait_for(lambda: is_stopped(server.process), "stopped")
    undo()
    wait_for(lambda: not is_stopped(server.process), "goes on")


# ---- etcd ------------------------------------------------------------------------------------------------------------------------------

def etcd_faults(p):
    """Each is seen to happen, at the members themselves, and to be over."""
    store = p.start(store_etcd)
    members = store.members
    read = lambda: store.say("/v3/kv/range", {"key": store_etcd.KEY})
    write = lambda: store.say("/v3/kv/put", {"key": store_etcd.KEY, "value": "eA=="})
    served = lambda: wait_for(lambda: all(member.ask("/v3/kv/range", {"key": store_etcd.KEY}) for member in members), "all members answer")
    in_writing = lambda: wait_for(write, "writes are taken")
    for name, left in (("member killed", 2), ("leading member killed", 2), ("quorum killed", 1), ("cluster rebuilt", 0)):
        in_writing()
        undo = p.begin(name)
        check(sum(member.process is not None for member in members) == left, f"{name}: {left} left")
        check(left > 1 or not write(), f"{name}: no writes without a quorum")
        undo()
        served()
        check(bool(read().get("kvs")) is (name != "cluster rebuilt"), f"{name}: {read()}")
    for name, stopped in (("member stopped", 1), ("leading member stopped", 1), ("quorum stopped", 2)):
        undo = p.begin(name)
        wait_for(lambda: sum(is_stopped(member.process) for member in members) == stopped, name)
        undo()
        served()
    etcd_orders(p, store, read, in_writing)


def etcd_orders(p, store, read, in_writing):
    in_writing()
    leading = lambda: [member.name for member in store.members if member.leads()]
    before = wait_for(leading, "a member leads")
    dice = itertools.count()

    def moved():
        p.begin("lead moved", next(dice))       # to whichever member: sooner or later another one
        return leading() not in ([], before)
    wait_for(moved, "another member leads")
    undo = p.begin("member cut off")
    check(any(peer.rules for peer in store.peers), "cut off")
    undo()
    undo = p.begin("endpoint silent")
    check(sum(bool(link.rules) for link in store.network.links[0].links) == 1, "one endpoint of one node")
    undo()
    undo = p.begin("writes refused")
    wait_for(lambda: not store.say("/v3/kv/put", {"key": store_etcd.KEY, "value": "eA=="}), "writes are refused")
    undo()
    in_writing()
    p.begin("history compacted")
    old = {"key": store_etcd.KEY, "revision": 1}
    wait_for(lambda: read() and not store.say("/v3/kv/range", old), "what was is forgotten")
    p.begin("key deleted")
    wait_for(lambda: (reply := read()) and not reply.get("kvs"), "no key")


TESTS = [redis_commands, redis_pauses, redis_restarts, redis_clock, redis_knows_no_other_faults, network_faults_meet_the_links, sentinels_fail_over,
         quorum_spares_a_majority, quorum_majorities, k8s_orders, etcd_faults]

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))      # through every finally
    sys.exit(run_tests(TESTS, None, Place, *sys.argv[1:2]))

"""Candidates on a Redis master with one replica, which three sentinels fail over.

Most seeds have candidates wait for the replica (settings.wait_replicas = 1): what is acknowledged is then known to whichever server is promoted, and
an old master that comes back finds no replica to confirm anything. The other seeds do not wait: there a fail-over may break the promise, as the README
says, and happens only in runs that excuse it.
"""
import os
import signal

import store_redis
import stores
from store_redis import BLOCK_MS, Server, wait_for

PERIOD_MS = 300                     # between two looks; by default it took sentinels 11 s to make a replica of an old master that came back
DOWN_MS = 600                       # after which sentinels take a server for dead
RETRY_MS = 3000                     # the fail-over timeout: after twice that they try again


def data_command(master):
    def command(server):
        """A file that sentinels can have rewritten: a server that comes back is what it was last told to be."""
        path = os.path.join(server.dir, "redis.conf")
        if not os.path.exists(path):
            options = store_redis.redis_options(server)
            with open(path, "w") as file:
                file.write("".join(f"{name} {value}\n" for name, value in options.items()))
                file.write(f"replicaof 127.0.0.1 {master.port}\n" if master else "")
        return ["redis-server", path]
    return command


def sentinel_command(master):
    def command(server):
        path = os.path.join(server.dir, "sentinel.conf")
        if not os.path.exists(path):
            with open(path, "w") as file:
                file.write(f"port {server.port}\nbind 127.0.0.1\ndir {server.dir}\nsentinel monitor main 127.0.0.1 {master.port} 2\n"
                           f"sentinel down-after-milliseconds main {DOWN_MS}\nsentinel failover-timeout main {RETRY_MS}\n")
        return ["redis-sentinel", path]
    return command


def run_sentinel(sentinel):
    """How often it looks cannot be set in its file."""
    sentinel.run()
    wait_for(lambda: "OK" in sentinel.ask("SENTINEL", "DEBUG", "info-period", str(PERIOD_MS), "publish-period", str(PERIOD_MS)),
             "the sentinel answers")


class Store(stores.Store):
    name = "redis-sentinel"
    lease_ms = 1500
    deadline_ms = 1000
    # A fail-over that came to nothing is tried again; then as with one server.
    bound_ms = 2 * RETRY_MS + DOWN_MS + store_redis.Store.bound_ms

    def __init__(self, directory, nodes, rng):
        super().__init__(directory, nodes, rng)
        self.waits = rng.random() < 0.8
        self.servers, self.sentinels = [], []

    def start(self):
        master = Server(self.directory, data_command(None))
        self.servers += [master, Server(self.directory, data_command(master))]
        for server in self.servers:
            server.run()
        wait_for(lambda: "master_link_status:up" in self.servers[1].ask("INFO", "replication"), "the replica is in step")
        for _ in range(3):
            self.sentinels.append(Server(self.directory, sentinel_command(master)))
            run_sentinel(self.sentinels[-1])
        for sentinel in self.sentinels:
            wait_for(lambda: all(line in sentinel.ask("SENTINEL", "MASTER", "main").replace("\r\n", " ") for line in
                                 ("num-other-sentinels $1 2", "num-slaves $1 1")), "the sentinels know each other and the replica")

    def stop(self):
        for server in self.sentinels + self.servers:
            server.stop()

    def candidate_args(self, node):
        # Each asks them in an order of its own.
        turned = self.sentinels[node % 3:] + self.sentinels[:node % 3]
        return ["--redis", "main", "--name", "chaos", "--sentinels", ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in turned),
                *(["--wait-replica"] if self.waits else [])]

    # -- faults

    def faults(self):
        lossy, servers, sentinels = not self.waits, lambda: self.servers, lambda: self.sentinels
        types = ["normal", "replica", "master", "pubsub"]
        return [self.on("server killed", 4, servers, lambda rng, server: self.kill(server, Server.run), excused=lossy),
                self.on("server stopped", 4, servers, self.pause, excused=lossy),
                self.on("server sleeps", 2, servers, lambda rng, server: server.say("DEBUG", "SLEEP", str(rng.uniform(0.05, BLOCK_MS / 1000))), excused=lossy),
                self.on("clients killed", 2, servers, lambda rng, server: server.say("CLIENT", "KILL", "TYPE", rng.choice(types))),
                self.on("lease deleted", 1, servers, lambda rng, server: server.say("DEL", store_redis.KEYS["lease"])),
                self.on("fail-over ordered", 4, sentinels, lambda rng, sentinel: sentinel.say("SENTINEL", "FAILOVER", "main"), excused=lossy),
                self.on("sentinel killed", 1, sentinels, lambda rng, sentinel: self.kill(sentinel, run_sentinel)),
                self.on("sentinel stopped", 1, sentinels, self.pause)]

    @staticmethod
    def on(name, weight, which, do, excused=False):
        return stores.Fault(name, weight, lambda rng: do(rng, rng.choice(which())), excused)

    @staticmethod
    def kill(server, run):
        server.kill()
        return lambda: run(server) and None

    @staticmethod
    def pause(rng, server):
        server.signal(signal.SIGSTOP)
        return lambda: server.signal(signal.SIGCONT)

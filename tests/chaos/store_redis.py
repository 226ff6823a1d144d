"""Candidates on a real redis-server, each through a network of its own.

A seed chooses one of two lives for the server. In the one it forgets (FLUSHALL, a restart without its data), and candidates start cautiously, as
the README tells those to do whose store can be wiped. In the other it remembers, but its clock leaps, by less than the safety margin or
backwards, and candidates start as they do by default. The two do not mix: after a loss of memory, it is the server's clock that makes tokens rise.
"""
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from processes import wait_for

import proxy
import stores

KEYS = {"lease": "leader:chaos", "witness": "{leader:chaos}:witness"}
BLOCK_MS = 2000                     # the longest that the server is made to stand still by a command
CLOCK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clock.c")


class Clock:
    """The wall clock of a server: it leaps ahead and comes back, and is set back for good."""

    def __init__(self, directory):
        self.path, self.library = os.path.join(directory, "clock"), os.path.join(directory, "clock.so")
        self.behind_ms, self.leaps = 0, []
        self.settle()
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", CLOCK, "-o", self.library], check=True)
        self.env = {**os.environ, "LD_PRELOAD": self.library, "CHAOS_CLOCK": self.path}

    def settle(self):
        with open(self.path, "r+b" if os.path.exists(self.path) else "wb", buffering=0) as file:
            file.write(struct.pack("q", 1000 * (max(self.leaps, default=0) - self.behind_ms)))

    def set_back(self, ms):
        self.behind_ms += ms
        self.settle()

    def leap(self, ms):
        self.leaps.append(ms)
        self.settle()

        def undo():
            self.leaps.remove(ms)
            self.settle()
        return undo


class Server:
    """A redis-server (or sentinel) that can be killed and started again in its place; commands are sent without waiting for an answer,
    because one that is stopped would stop the driver. It gets them in order, if it lives."""

    def __init__(self, directory, command, env=None):
        self.place = proxy.bound_socket(0)      # keeps the port while the server is down
        self.port = self.place.getsockname()[1]
        self.dir = os.path.join(directory, str(self.port))
        os.makedirs(self.dir)
        self.command, self.env, self.process, self.mouth = command, env, None, None

    def run(self):
        if self.process is None:
            log = open(os.path.join(self.dir, "log"), "a")
            with log:
                self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *self.command(self)], cwd=self.dir, env=self.env,
                                                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        if self.mouth:
            self.mouth.close()
            self.mouth = None

    def signal(self, number):
        if self.process is not None:
            self.process.send_signal(number)

    def say(self, *words):
        text = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in map(str.encode, words))
        try:
            if not self.mouth:
                self.mouth = socket.create_connection(("127.0.0.1", self.port), timeout=1)
            self.mouth.sendall(text)
        except OSError:                         # it is down: then this fault has no effect
            self.mouth = None

    def ask(self, *words):
        """One command on a connection of its own: the start of its answer, "" if there is none"""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as one:
                one.sendall((" ".join(words) + "\r\n").encode())
                return one.recv(65536).decode("utf-8", "replace")
        except OSError:
            return ""

    def stop(self):
        self.kill()
        self.place.close()


def redis_options(server):
    """Every write is on disk before it is answered: a crash loses nothing."""
    return {"port": server.port, "bind": "127.0.0.1", "dir": server.dir, "save": '""', "appendonly": "yes", "appendfsync": "always",
            "enable-debug-command": "yes", "busy-reply-threshold": 100, "repl-diskless-sync-delay": 0}


def redis_command(server):
    return ["redis-server", *(word for name, value in redis_options(server).items() for word in (f"--{name}", str(value)))]


def forget(server):
    shutil.rmtree(os.path.join(server.dir, "appendonlydir"), ignore_errors=True)


class Store(stores.Store):
    name = "redis"
    lease_ms = 1500
    deadline_ms = 1000
    # A command that blocks the server runs out; a client tries again after 2 s at most; the record found may last for a lease, and one more passes
    # in doubt.
    bound_ms = BLOCK_MS + 2000 + 2 * 1500 + 1500

    def __init__(self, directory, nodes, rng):
        super().__init__(directory, nodes, rng)
        self.forgets = rng.random() < 0.5
        self.server, self.clock, self.network = None, None, proxy.Network()

    def start(self):
        self.clock = Clock(self.directory)
        self.server = Server(self.directory, redis_command, self.clock.env).run()
        for _ in range(self.nodes):
            self.network.link(self.server.port)
        wait_for(lambda: "PONG" in self.server.ask("PING"), "redis-server answers")

    def stop(self):
        self.network.close()
        if self.server:
            self.server.stop()

    def candidate_args(self, node):
        return ["--redis", f"redis://127.0.0.1:{self.network.links[node].port}", "--name", "chaos", *(["--cautious"] if self.forgets else [])]

    # -- faults

    def faults(self):
        margin_ms = self.lease_ms - self.deadline_ms
        return [*proxy.network_faults(self), *self.server_faults(),
                self.said("lease deleted", 2, lambda rng: ["DEL", KEYS["lease"]]),
                self.said("witness deleted", 1, lambda rng: ["DEL", KEYS["witness"]], excused=not self.forgets),
                self.said("all flushed", 2, lambda rng: ["FLUSHALL"], excused=not self.forgets),
                stores.Fault("server restarts empty", 2, self.restart_empty, excused=not self.forgets),
                stores.Fault("server restarts from a backup", 1, self.restart_old, excused=True),
                stores.Fault("server clock ahead", 2, lambda rng: self.clock.leap(rng.randrange(1, int(0.8 * margin_ms))), excused=self.forgets),
                stores.Fault("server clock set back", 1, lambda rng: self.clock.set_back(rng.randrange(1, 2 * self.lease_ms)), excused=self.forgets),
                stores.Fault("server clock far ahead", 1, lambda rng: self.clock.leap(rng.randrange(margin_ms, 10 * self.lease_ms)), excused=True)]

    def server_faults(self):
        return [stores.Fault("server stopped", 2, self.pause_server),
                stores.Fault("server killed", 2, self.restart),
                self.said("clients killed", 1, lambda rng: ["CLIENT", "KILL", "TYPE", rng.choice(["normal", "pubsub"])]),
                # A pause ends by the wall clock: where that is set back, nothing can be said about how long it lasts.
                self.said("clients paused", int(self.forgets),
                          lambda rng: ["CLIENT", "PAUSE", str(rng.randrange(50, BLOCK_MS)), rng.choice(["ALL", "WRITE"])]),
                self.said("scripts flushed", 1, lambda rng: ["SCRIPT", "FLUSH"]),
                self.said("server sleeps", 1, lambda rng: ["DEBUG", "SLEEP", str(rng.uniform(0.05, BLOCK_MS / 1000))]),
                self.said("server busy", 1, lambda rng: ["EVAL", f"for i = 1, {rng.randrange(10 ** 7, 2 * 10 ** 8)} do end", "0"]),
                self.said("memory full", 1, lambda rng: ["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"]),
                self.said("writes refused", 1, lambda rng: ["CONFIG", "SET", "min-replicas-to-write", "9"],
                          ["CONFIG", "SET", "min-replicas-to-write", "0"])]

    def said(self, name, weight, words, undo=None, excused=False):
        def begin(rng):
            self.server.say(*words(rng))
            return (lambda: self.server.say(*undo)) if undo else None
        return stores.Fault(name, weight, begin, excused)

    def pause_server(self, rng):
        self.server.signal(signal.SIGSTOP)
        return lambda: self.server.signal(signal.SIGCONT)

    def restart(self, rng):
        self.server.kill()
        return lambda: self.server.run() and None

    def restart_empty(self, rng):
        self.server.kill()

        def undo():
            self.server.kill()                  # another fault may have started it meanwhile
            forget(self.server)
            self.server.run()
        return undo

    def restart_old(self, rng):
        data, backup = (os.path.join(self.server.dir, name) for name in ("appendonlydir", f"backup-{rng.random()}"))
        shutil.copytree(data, backup, ignore=lambda *_: [])

        def undo():
            self.server.kill()
            forget(self.server)
            shutil.move(backup, data)
            self.server.run()
        return undo

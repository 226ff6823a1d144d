#!/usr/bin/env python3
"""leader.h's quorum and npm's redlock on the same five redis-servers: one server down, one that does not answer, one that was emptied.

    tests/bench/redlock.py PROGRAM           PROGRAM: build/examples/slots. Needs node, npm, and a registry for npm.

Nothing here passes or fails: it prints what happened. A lease lasts 1.5 s with both. redlock
asks every 100 ms for what another one holds. redlock's clients do not queue for a server that is down.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
from processes import free_port, wait_for

LIMIT_S = 15
HOLDER = """
const [, , id, ...ports] = process.argv, Redis = require("ioredis"), Redlock = require("redlock");
const clients = ports.map(port => { const c = new Redis(+port, "127.0.0.1", { enableOfflineQueue: false, maxRetriesPerRequest: 0 }); c.on("error", () => {}); return c; });
const redlock = new Redlock(clients, { retryCount: 0 });
redlock.on("clientError", () => {});
const nap = ms => new Promise(done => setTimeout(done, ms));
(async () => {
    for (;; await nap(100)) {
        let lock;
        try { lock = await redlock.lock("job", 1500); } catch (error) { continue; }
        console.log(`${id} has it`);
        try { for (;;) { await nap(500); lock = await lock.extend(1500); } } catch (error) { console.log(`${id} lost it`); }
    }
})();
"""


class Place:
    def __init__(self, program):
        self.dir = tempfile.mkdtemp(prefix="redlock-")
        self.program, self.servers, self.holders = program, {}, []
        self.ports = [free_port() for _ in range(5)]

    def run_server(self, port):
        self.servers[port] = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", self.dir],
                                              stdout=subprocess.DEVNULL)

    def answers(self, port):
        done = subprocess.run(["redis-cli", "-p", str(port), "ping"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return "PONG" in done.stdout

    def hold(self, kind, name):
        """-> a holder of that kind, and where its lines go"""
        path = os.path.join(self.dir, f"{kind}-{name}")
        urls = ",".join(f"redis://127.0.0.1:{port}" for port in self.ports)
        commands = {"redlock": ["node", "holder.js", name, *map(str, self.ports)],
                    "leader.h": [self.program, "--id", name, "--slots", "1", "--lease", "1500ms", "--quorum", urls, "--name", "job"]}
        with open(path, "w") as out:
            process = subprocess.Popen(commands[kind], cwd=self.dir, stdout=out, stderr=subprocess.DEVNULL)
        self.holders.append(process)
        return process, path

    def has(self, path):
        with open(path) as f:
            last = (f.read().splitlines() or [""])[-1]
        return "has it" in last or "has slot" in last

    def fresh(self):
        """Five empty servers, and a first holder that came and went, so that nothing is new to anybody."""
        for port in self.ports:
            if port not in self.servers:
                self.run_server(port)
            wait_for(lambda: self.answers(port), "redis-server")

    def end_holders(self):
        for process in self.holders:
            process.kill()
            process.wait()
        self.holders = []

    def close(self):
        self.end_holders()
        for server in self.servers.values():
            server.send_signal(signal.SIGCONT)
            server.kill()
            server.wait()


def time_to_hold(place, kind):
    began = time.monotonic()
    _, path = place.hold(kind, "first")
    while not place.has(path) and time.monotonic() < began + LIMIT_S:
        time.sleep(0.01)
    return time.monotonic() - began


def with_one_silent(place, kind, number):
    place.servers[place.ports[0]].send_signal(number)
    if number == signal.SIGKILL:
        place.servers.pop(place.ports[0]).wait()
    took = time_to_hold(place, kind)
    place.end_holders()
    if number == signal.SIGSTOP:
        place.servers[place.ports[0]].send_signal(signal.SIGCONT)
    place.fresh()
    time.sleep(2)
    return f"held after {1000 * took:5.0f} ms" if took < LIMIT_S else f"not held within {LIMIT_S} s"


def with_one_emptied(place, kind):
    """Taken while two are away, which then come back; one of the three that granted it is emptied."""
    away = [place.servers[port] for port in place.ports[3:]]
    for server in away:
        server.send_signal(signal.SIGSTOP)
    first, first_path = place.hold(kind, "first")
    wait_for(lambda: place.has(first_path), f"{kind} holds on three of five")
    first.send_signal(signal.SIGSTOP)           # it believes so for another second; nothing is extended meanwhile
    for server in away:
        server.send_signal(signal.SIGCONT)
    subprocess.run(["redis-cli", "-p", str(place.ports[0]), "flushall"], stdout=subprocess.DEVNULL)
    began = time.monotonic()
    _, second_path = place.hold(kind, "second")
    wait_for(lambda: place.has(second_path), f"{kind}: the next one holds")
    took = time.monotonic() - began
    place.end_holders()
    time.sleep(2)
    return f"the next one holds after {1000 * took:5.0f} ms{', within the first lease: TWO HOLDERS' if took < 1.0 else ''}"


def main():
    place = Place(os.path.abspath(sys.argv[1]))
    try:
        with open(os.path.join(place.dir, "holder.js"), "w") as f:
            f.write(HOLDER)
        if subprocess.run(["npm", "install", "--silent", "redlock@4", "ioredis@5"], cwd=place.dir, stdout=subprocess.DEVNULL).returncode != 0:
            sys.exit("redlock: npm could not install it")
        place.fresh()
        for kind in ("leader.h", "redlock"):
            time_to_hold(place, kind)           # the first start on empty stores takes a lease
            place.end_holders()
            time.sleep(2)
            print(f"{kind:10} all servers there      held after {1000 * time_to_hold(place, kind):5.0f} ms", flush=True)
            place.end_holders()
            time.sleep(2)
            print(f"{kind:10} one server down        {with_one_silent(place, kind, signal.SIGKILL)}", flush=True)
            print(f"{kind:10} one that is silent     {with_one_silent(place, kind, signal.SIGSTOP)}", flush=True)
            print(f"{kind:10} one emptied            {with_one_emptied(place, kind)}", flush=True)
    finally:
        place.close()


if __name__ == "__main__":
    main()

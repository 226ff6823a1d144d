"""A network that misbehaves on command: a TCP proxy on the loopback, with one port for each node, so that one can be cut off and not the others.

    network = Network()
    link = network.link(port_of_the_server)     # the node connects to link.port
    heal = link.impose(Rule(hold="up"))         # requests no longer arrive ...
    heal()                                      # ... until now

What has reached the proxy is never forgotten, as in a network that only delays: a request that was held back is delivered when the rule ends, even if
its sender has given up and closed the connection long since, and the youngest connection's first. Only reset, refuse and cut lose anything.
"""
import asyncio
import collections
import contextlib
import socket
import struct
import threading

from stores import Fault

# hold:     "up" (requests), "down" (replies: they were carried out, and nobody hears of it) or "both": nothing is forwarded
# frozen:   the same, for the connections that are open when the rule begins: later ones overtake them
# delay_ms: everything arrives so much later, in order
# cut:      a connection is reset after so many bytes of replies
# refuse:   the open connections are reset, new ones refused
class Rule:
    def __init__(self, hold="", frozen="", delay_ms=0, cut=None, refuse=False):
        self.hold, self.frozen, self.delay_ms, self.cut, self.refuse = hold, frozen, delay_ms, cut, refuse
        self.old = set()                        # the connections that are frozen
        self.replied = collections.Counter()    # bytes so far, by connection

    def holds(self, connection, direction):
        return self.hold in (direction, "both") or (self.frozen in (direction, "both") and connection in self.old)


END = None                                      # in a queue: the sender has closed its side
LINGER_S = 10                                   # for an answer, after the sender has closed its side


class Side(asyncio.Protocol):
    """One end of a connection: what it says goes into a queue, from which the other end is served."""

    def __init__(self, connection, direction):
        self.connection, self.direction = connection, direction
        self.heard, self.transport = asyncio.Queue(), None

    def connection_made(self, transport):
        self.transport = transport
        if self.direction == "up":
            self.connection.begin()

    def data_received(self, data):
        self.heard.put_nowait((self.connection.now(), data))

    def eof_received(self):
        self.heard.put_nowait((self.connection.now(), END))
        return True                             # replies may still go back

    def connection_lost(self, why):
        self.heard.put_nowait((self.connection.now(), END))

    def say(self, data):
        if not self.transport.is_closing():
            self.transport.write(data) if data is not END else self.transport.can_write_eof() and self.transport.write_eof()

    def reset(self):
        if self.transport:
            raw = self.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()


class Connection:
    """A node's connection, and the one to the server that belongs to it."""

    def __init__(self, link):
        self.link, self.now = link, link.network.loop.time
        self.node, self.server = Side(self, "up"), Side(self, "down")
        self.changed = asyncio.Event()

    def begin(self):
        self.link.connections.append(self)
        self.task = asyncio.ensure_future(self.run())

    async def run(self):
        try:
            await self.carry_up()
        except OSError:                         # the server is not there, or has gone
            self.reset()
        finally:
            self.link.connections.remove(self)
            for side in (self.node, self.server):
                if side.transport:
                    side.transport.close()

    async def carry_up(self):
        """The server is called when the first request may go there, so that a link that holds back does not show whether there is one."""
        down = None
        try:
            while True:
                data = await self.next_from(self.node)
                if down is None:
                    if data is END:
                        return
                    await asyncio.get_running_loop().create_connection(lambda: self.server, "127.0.0.1", self.link.target)
                    down = asyncio.ensure_future(self.carry_down())
                self.server.say(data)
                if data is END:
                    await asyncio.wait({down}, timeout=LINGER_S)
                    return
        finally:
            if down:
                down.cancel()

    async def carry_down(self):
        while True:
            data = await self.next_from(self.server)
            for rule in [rule for rule in self.link.rules if rule.cut is not None and data is not END]:
                left = max(0, rule.cut - rule.replied[self])
                rule.replied[self] += len(data)
                if len(data) >= left:
                    self.node.say(data[:left])
                    self.reset()
                    return
            self.node.say(data)
            if data is END:                     # the node may take its time to hang up, and what it says then has nowhere to go
                self.node.heard.put_nowait((self.now(), END))
                return

    async def next_from(self, side):
        at, data = await side.heard.get()
        while True:
            self.changed.clear()
            held = any(rule.holds(self, side.direction) for rule in self.link.rules)
            wait_s = at + 1e-3 * max((rule.delay_ms for rule in self.link.rules), default=0) - self.now()
            if not held and wait_s <= 0:
                return data
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.changed.wait(), None if held else wait_s)

    def reset(self):
        for side in (self.node, self.server):
            side.reset()


class Link:
    """One node's way to its server."""

    def __init__(self, network, target):
        self.network, self.target = network, target
        self.rules, self.connections = [], []
        self.place = bound_socket(0)            # bound and not listening: keeps the port while connections are refused
        self.port = self.place.getsockname()[1]
        self.listener = None

    async def settle(self):
        """After a change of the rules. The youngest connections go first: that is the order in which late requests hurt most."""
        refused = any(rule.refuse for rule in self.rules)
        if refused and self.listener:
            self.listener.close()
            self.listener = None
            for connection in self.connections:
                connection.reset()
        if not refused and not self.listener:
            loop = asyncio.get_running_loop()
            self.listener = await loop.create_server(lambda: Connection(self).node, sock=bound_socket(self.port), backlog=128)
        for connection in reversed(self.connections):
            connection.changed.set()

    # -- for other threads

    def impose(self, rule):
        """-> the function that ends it. Rules add up."""
        async def begin():
            rule.old.update(self.connections)
            self.rules.append(rule)
            await self.settle()

        async def end():
            if rule in self.rules:
                self.rules.remove(rule)
                await self.settle()
        self.network.call(begin())
        return lambda: self.network.call(end())

    def reset(self):
        """Ends every open connection, at once and without a word."""
        async def now():
            for connection in list(self.connections):
                connection.reset()
        self.network.call(now())


def bound_socket(port):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


class Network:
    """All links, in a thread of their own."""

    def __init__(self):
        self.loop, self.links = asyncio.new_event_loop(), []
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def link(self, target):
        link = Link(self, target)
        self.links.append(link)
        self.call(link.settle())
        return link

    def close(self):
        async def end():
            for link in self.links:
                link.place.close()
                if link.listener:
                    link.listener.close()
                for connection in list(link.connections):
                    connection.reset()
                    connection.task.cancel()
            await asyncio.gather(*(c.task for link in self.links for c in link.connections), return_exceptions=True)
        self.call(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


# ---- faults ----------------------------------------------------------------------------------------------------------------------------

def network_faults(store):
    """What the links between nodes and store can suffer: that of the node which the fault is for, alone or with some of the others or all."""
    def some(rng):
        others = [link for node, link in enumerate(store.network.links) if node != store.node]
        return [store.network.links[store.node], *rng.sample(others, rng.choice([0, 0, 0, len(others) // 2, len(others)]))]

    def fault(name, weight, rule):
        def begin(rng):
            heals = [link.impose(rule(rng)) for link in some(rng)]

            def heal_all():
                for heal in heals:
                    heal()
            return heal_all
        return Fault(name, weight, begin)

    def reset(rng):
        for link in some(rng):
            link.reset()
    return [
        fault("requests held back", 4, lambda rng: Rule(hold="up")),
        fault("replies held back", 4, lambda rng: Rule(hold="down")),
        fault("black hole", 2, lambda rng: Rule(hold="both")),
        fault("overtaken requests", 5, lambda rng: Rule(frozen="up")),
        fault("half-open connections", 2, lambda rng: Rule(frozen="both")),
        fault("slow network", 2, lambda rng: Rule(delay_ms=rng.randrange(5, store.lease_ms // 2))),
        fault("replies cut", 2, lambda rng: Rule(cut=rng.choice([0, 1, rng.randrange(2, 60), rng.randrange(60, 2000)]))),
        fault("connections refused", 3, lambda rng: Rule(refuse=True)),
        Fault("connections reset", 2, reset),
    ]

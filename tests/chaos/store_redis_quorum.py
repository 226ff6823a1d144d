"""Candidates on a majority of five redis-servers, each candidate through a network of its own to each server.

A fault hits one server, or the way to it, and at most two servers are in trouble at any time. Those that hit a majority say so in their names; what
is promised then is one leader at most, and none while the majority is away. A server that lost its memory is in trouble until every lease that it
forgot is over; a majority that forgets at once is excused.

A seed chooses one of two lives. In the one servers forget: then tokens rise by the candidates' wall clocks, which are left alone. In the other all
servers remember: wall clocks are moved, of candidates by the driver and of servers by less than the safety margin."""
import os
import random
import time

import store_redis
import stores
from proxy import Rule

SERVERS = 5
MINORITY = 2
FORGETS = ("lease deleted", "witness deleted", "all flushed", "server restarts empty")


class Store(stores.Store):
    name = "redis-quorum"
    lease_ms = 1500
    deadline_ms = 1000
    bound_ms = store_redis.Store.bound_ms       # as with one server: all five are asked at once

    def __init__(self, directory, nodes, rng):
        super().__init__(directory, nodes, rng)
        self.forgets = rng.random() < 0.5
        self.moves_wall_clock = not self.forgets
        self.votes = []
        for number in range(SERVERS):
            place = os.path.join(directory, str(number))
            os.makedirs(place)
            vote = store_redis.Store(place, nodes, rng)
            vote.forgets = self.forgets
            vote.lease_ms, vote.deadline_ms = self.lease_ms, self.deadline_ms
            self.votes.append(vote)
        self.ailing = [0] * SERVERS             # faults of each server that are not healed yet
        self.ailing_until = [0.0] * SERVERS     # after those that nobody heals

    def start(self):
        for vote in self.votes:
            vote.start()

    def stop(self):
        for vote in self.votes:
            vote.stop()

    def candidate_args(self, node):
        urls = [f"redis://127.0.0.1:{vote.network.links[node].port}" for vote in self.votes]
        random.Random(node).shuffle(urls)       # their order does not matter
        return ["--quorum", ",".join(urls), "--name", "chaos"]

    # -- faults

    def faults(self):
        kinds = [{fault.name: fault for fault in vote.faults()} for vote in self.votes]
        one = [stores.Fault(f.name, f.weight, lambda rng, name=f.name: self.hit_one(rng, kinds, name), f.excused) for f in kinds[0].values()]
        killed = [kind["server killed"] for kind in kinds]
        stopped = [kind["server stopped"] for kind in kinds]
        emptied = [kind["server restarts empty"] for kind in kinds]
        return [*one,
                stores.Fault("a minority cut off", 4, lambda rng: self.cut_off(rng, rng.choice([1, MINORITY]))),
                stores.Fault("a majority cut off", 2, lambda rng: self.cut_off(rng, rng.randrange(MINORITY + 1, SERVERS + 1))),
                stores.Fault("a majority killed", 1, lambda rng: self.hit_majority(rng, killed)),
                stores.Fault("a majority stopped", 1, lambda rng: self.hit_majority(rng, stopped)),
                stores.Fault("a majority restarts empty", 1, lambda rng: self.hit_majority(rng, emptied), excused=True)]

    def in_trouble(self):
        now = time.monotonic()
        return [i for i in range(SERVERS) if self.ailing[i] > 0 or self.ailing_until[i] > now]

    def choose(self, rng):
        """A server; while a minority is in trouble, one of that minority."""
        before = self.in_trouble()
        return rng.choice(before if len(before) >= MINORITY else range(SERVERS))

    def ail(self, number, name):
        """The server is in trouble from now on. -> what to call when it is well again."""
        lasts_ms = 2 * self.lease_ms if name in FORGETS else store_redis.BLOCK_MS
        self.ailing[number] += 1

        def well():
            self.ailing[number] -= 1
            self.ailing_until[number] = max(self.ailing_until[number], time.monotonic() + lasts_ms / 1000)
        return well

    def hit_one(self, rng, kinds, name):
        number = self.choose(rng)
        self.votes[number].node = self.node
        well = self.ail(number, name)
        heal = kinds[number][name].begin(rng)
        if heal is None:
            well()
            return None

        def undo():
            heal()
            well()
        return undo

    def hit_majority(self, rng, faults):
        heals = [fault.begin(rng) for fault in rng.sample(faults, rng.randrange(MINORITY + 1, SERVERS + 1))]

        def undo():
            for heal in heals:
                heal()
        return undo

    def cut_off(self, rng, servers):
        """One candidate from some servers."""
        heals = [vote.network.links[self.node].impose(Rule(hold=rng.choice(["up", "down", "both"]))) for vote in rng.sample(self.votes, servers)]

        def undo():
            for heal in heals:
                heal()
        return undo

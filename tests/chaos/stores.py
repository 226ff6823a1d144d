"""What the driver wants of a store, and how it finds one: store_NAME.py has a class Store(stores.Store)."""
import collections
import importlib

# begin(rng) starts the fault and answers a function that heals it, or None when it is over already. The driver chooses when and for how long.
# Everything that chance decides comes from rng, so that a seed means one schedule. excused: under this fault the README does not keep its promise;
# such a fault happens only in a run that asked for it (EXCUSED=1) and is labelled.
Fault = collections.namedtuple("Fault", "name weight begin excused", defaults=[False])


class NotHere(Exception):
    """Raised by begin(): this machine does not allow it. The notes say why."""


class Store:
    name = ""
    lease_ms = 1500
    deadline_ms = 1000
    bound_ms = 5000                 # the longest that a failover may take once every fault is healed
    moves_wall_clock = True         # may the driver move the candidates' wall clocks?
    node = 0                        # the target of the fault that begins, where it can choose: mostly the leader
    notes = ()                      # what is not possible on this machine, one sentence each, for the summary

    def __init__(self, directory, nodes, rng):
        """directory: a place of its own in memory, which vanishes after the run."""
        self.directory, self.nodes, self.rng = directory, nodes, rng

    def start(self):
        """Returns when candidates can be started."""

    def stop(self):
        """Leaves nothing behind; also after a start() that failed half-way, and with faults that nobody healed."""

    def candidate_args(self, node):
        """The options of candidate.c that choose the store, for the node of that number (from 0)."""
        raise NotImplementedError

    def candidate_env(self, node):
        """What its environment has in addition."""
        return {}

    def faults(self):
        """Asked once, after __init__ and before start(): begin() is called only after start()."""
        return []


def load(name):
    return importlib.import_module(f"store_{name.replace('-', '_')}").Store

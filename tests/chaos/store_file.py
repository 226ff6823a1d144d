"""Candidates that share a directory, on a file system that is so small that it can be filled.

A seed chooses one of two lives. In the one the records are wiped now and then, and candidates start cautiously, as the README tells those to do
whose store can be wiped; their wall clocks are left alone, and leases take a second at least, because tokens start again with the second of the day
where nobody remembers the last. In the other the records stay, wall clocks are moved, and candidates start as they do by default.
"""
import os
import shutil
import subprocess

import stores

SIZE = 256 * 1024
OFFSET_S = 3600


class Store(stores.Store):
    name = "file"
    lease_ms = 1500
    deadline_ms = 1000
    # A full disk makes standbys ask less often, up to once in a lease; wiped records make the finder wait for one; a lease that was
    # held runs out.
    bound_ms = 3 * 1500 + 1000

    def __init__(self, directory, nodes, rng):
        super().__init__(directory, nodes, rng)
        self.disk = os.path.join(directory, "disk")
        self.path = os.path.join(self.disk, "job.lease")
        self.records = self.path + ".d"
        self.mounted = False
        self.notes = []
        self.wiped = rng.random() < 0.5 and self.lease_ms >= 1000
        self.moves_wall_clock = not self.wiped
        self.own_clocks = subprocess.run(["unshare", "--time", "true"], stderr=subprocess.DEVNULL).returncode == 0
        if not self.own_clocks:
            self.notes.append("no time namespaces here: all candidates share one boot clock")
        os.makedirs(self.disk)

    def start(self):
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},nr_inodes=200", "chaos", self.disk], stderr=subprocess.PIPE, text=True)
        self.mounted = mount.returncode == 0
        if not self.mounted:
            self.notes.append(f"the disk was never full, as nothing can be mounted here: {mount.stderr.splitlines()[0]}")

    def stop(self):
        if self.mounted:
            subprocess.run(["umount", "--lazy", self.disk], check=True)
            self.mounted = False

    def candidate_args(self, node):
        # The last one lives in a container, as it were: its boot clock is another, so that it has to observe what the others can compare.
        other_clock = ["--boot-offset", str(OFFSET_S)] if self.own_clocks and node == self.nodes - 1 else []
        return ["--file", self.path, *(["--cautious"] if self.wiped else []), *other_clock]

    def faults(self):
        return [
            stores.Fault("disk full", 3, self.fill_blocks),
            stores.Fault("no inodes", 1, self.fill_inodes),
            stores.Fault("records wiped", 2, self.wipe, excused=not self.wiped),
            stores.Fault("copy spoilt", 1, self.spoil_copy),
            stores.Fault("old records restored", 1, self.restore, excused=True),
        ]

    def fill_blocks(self, rng):
        ballast = os.path.join(self.disk, "ballast")
        return self.fill(ballast, lambda: open(ballast, "ab", buffering=0).write(bytes(4096)))

    def fill_inodes(self, rng):
        ballast = os.path.join(self.disk, "ballast.d")

        def one_more():
            os.makedirs(ballast, exist_ok=True)
            open(os.path.join(ballast, str(len(os.listdir(ballast)))), "x").close()
        return self.fill(ballast, one_more)

    def fill(self, ballast, more):
        if not self.mounted:
            raise stores.NotHere
        try:
            for _ in range(10000):
                more()
        except OSError:
            pass
        return lambda: subprocess.run(["rm", "-rf", ballast], check=True)

    def wipe(self, rng):
        shutil.rmtree(self.records, ignore_errors=True)     # candidates write into it meanwhile: what they make again stays
        if rng.random() < 0.5:
            remove(self.path)

    def spoil_copy(self, rng):
        if rng.random() < 0.5:
            return remove(self.path)
        try:
            with open(self.path, "w") as f:
                f.write("this is no lease\n")
        except OSError:                         # the disk is full just now: an empty file is no lease either
            pass

    def restore(self, rng):
        backup = os.path.join(self.directory, f"backup-{rng.random()}")
        copy(self.records, backup)

        def undo():
            shutil.rmtree(self.records, ignore_errors=True)
            copy(backup, self.records)
        return undo


def copy(source, target):
    """As much of it as there is while candidates write, and as there is room for."""
    subprocess.run(["cp", "-aT", source, target], stderr=subprocess.DEVNULL)


def remove(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass

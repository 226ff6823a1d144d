#!/usr/bin/env python3
"""Cuts the power of real file systems: a candidate leads, renews and resigns on a file system in an image; at some moment the image is
copied as it stands, with all that was never written still missing, and the copy is mounted in its place. The last token that was
told before must be there, in one record with its text, and the next term must be above it. Needs root.

    tests/file/test_power.py [--cuts N] [ext4 xfs btrfs]"""
import argparse, json, os, random, shutil, signal, subprocess, sys, tempfile, time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BYTES = {"ext4": 16 << 20, "xfs": 320 << 20, "btrfs": 128 << 20}


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Disk:
    def __init__(self, where, kind):
        self.kind, self.image, self.copy = kind, os.path.join(where, kind + ".image"), os.path.join(where, kind + ".copy")
        self.at = os.path.join(where, kind)
        self.lease = os.path.join(self.at, "job.lease")
        os.makedirs(self.at, exist_ok=True)

    def make(self):
        for name in (self.image, self.copy):
            if os.path.exists(name):
                os.unlink(name)
        with open(self.image, "wb") as f:
            f.truncate(BYTES[self.kind])
        run("mkfs." + self.kind, "-q", self.image)
        self.mount(self.image)

    def mount(self, image):
        run("mount", "-o", "loop", image, self.at)

    def unmount(self):
        run("umount", self.at)

    def cut(self):
        run("cp", "--sparse=always", self.image, self.copy)

    def record(self):
        names = os.listdir(self.lease + ".d/record")
        if len(names) != 1:
            raise AssertionError("%d records: %s" % (len(names), " ".join(names)))
        return names[0]


def start(program, disk, terms):
    return subprocess.Popen([program, disk.lease, str(terms)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def lead_until_cut(program, disk, chance):
    """Lets it lead for a random number of terms and a bit of the next one; the tokens that it told by then."""
    candidate = start(program, disk, 1000)
    tokens = [int(candidate.stdout.readline()) for _ in range(chance.randint(1, 4))]
    time.sleep(chance.random() * 0.1)
    candidate.send_signal(signal.SIGSTOP)
    os.waitpid(candidate.pid, os.WUNTRACED)
    disk.cut()
    candidate.kill()
    tokens += [int(line) for line in candidate.stdout.read().split()]
    candidate.wait()
    disk.unmount()
    return tokens


def check_text(disk, name):
    nonce, draft = name.split(".")[1].split("-")
    with open("%s.d/term.%s.%s" % (disk.lease, nonce, draft)) as f:
        json.load(f)


def one_cut(program, disk, chance):
    disk.make()
    last = lead_until_cut(program, disk, chance)[-1]
    disk.mount(disk.copy)
    try:
        name = disk.record()
        token = int(name.split(".")[0])
        if token < last:
            raise AssertionError("token %d was told, the disk knows %d" % (last, token))
        if token == last:
            check_text(disk, name)
        heir = start(program, disk, 1)
        first = int(heir.stdout.readline() or 0)
        heir.communicate()
        if first <= max(last, token):
            raise AssertionError("the next term has token %d after %d" % (first, max(last, token)))
    finally:
        disk.unmount()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--cuts", type=int, default=5)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("kinds", nargs="*", default=list(BYTES))
    given = arguments.parse_args()
    chance, passed, failed = random.Random(given.seed), 0, 0
    where = tempfile.mkdtemp(prefix="leader-power-")
    program = os.path.join(where, "candidate")
    run(os.environ.get("CC", "cc"), "-O1", "-I" + TOP, os.path.join(TOP, "tests/file/power_candidate.c"), "-o", program, "-pthread")
    for kind in given.kinds:
        good = 0
        for number in range(given.cuts):
            try:
                one_cut(program, Disk(where, kind), chance)
                good += 1
            except (AssertionError, OSError, ValueError, IndexError, subprocess.CalledProcessError) as wrong:
                print("%s, cut %d: %s %s" % (kind, number, wrong, (getattr(wrong, "stderr", b"") or b"").decode().strip()))
        print("%-6s %d of %d cuts found the last token in a whole record" % (kind, good, given.cuts), flush=True)
        passed, failed = passed + good, failed + given.cuts - good
    shutil.rmtree(where, ignore_errors=True)
    print("%d passed, %d failed" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        print("SKIPPED: only root can mount file systems, on a system with loop devices")
        print("0 passed, 0 failed")
        sys.exit(0)
    if os.environ.get("LEADER_POWER_MOUNTS") is None:         # mounts of our own, which end with us
        os.environ["LEADER_POWER_MOUNTS"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable] + sys.argv)
    sys.exit(main())

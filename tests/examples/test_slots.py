#!/usr/bin/env python3
"""At most three of five processes have a slot of examples/slots.c, and a slot that becomes free finds its next holder.

    tests/examples/test_slots.py PROGRAM              the last line is "N passed, N failed"
"""
import os
import re
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
from processes import check, run_tests, wait_for, with_etcd, with_redis


class Worker:
    def __init__(self, p, name):
        self.name, self.lines, self.gone = name, [], False
        self.process = p.start("--id", name, "--slots", "3", "--lease", "3s")
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for line in self.process.stdout:
                self.lines.append(line.strip())
        except ValueError:                      # closed: the test is over
            pass

    def slot(self):
        """-> (slot, token), or None"""
        found = re.fullmatch(rf"{self.name} has slot (\d+), token (\d+)", self.lines[-1]) if self.lines else None
        return (int(found[1]), int(found[2])) if found and not self.gone else None


def held(workers):
    return [worker.slot()[0] for worker in workers if worker.slot()]


def three_of_five(p):
    workers = [Worker(p, name) for name in "abcde"]
    wait_for(lambda: sorted(held(workers)) == [0, 1, 2], f"three have a slot each: {[w.lines for w in workers]}")
    for end in (signal.SIGKILL, signal.SIGTERM):
        leaver = next(worker for worker in workers if worker.slot())
        slot, token = leaver.slot()
        waiting = [worker for worker in workers if not worker.slot() and not worker.gone]
        leaver.gone = True
        leaver.process.send_signal(end)
        heir = wait_for(lambda: next((w for w in waiting if w.slot()), None), "one that waited has the slot")
        check(heir.slot()[0] == slot and heir.slot()[1] > token, f"the same slot, a higher token: {heir.lines} after {slot} {token}")
    wait_for(lambda: sorted(held(workers)) == [0, 1, 2], f"three of three: {[w.lines for w in workers]}")


def slots_on_files(p):
    three_of_five(p)


def slots_on_redis(p):
    with_redis(p)
    three_of_five(p)


def slots_on_a_majority_of_a_file_redis_and_etcd(p):
    with_etcd(p)
    etcd = p.store[1].replace("http:", "etcd:")
    with_redis(p)
    p.store = ["--quorum", f"file://{p.dir}/job.lease,{p.store[1]},{etcd}", "--name", "job"]
    three_of_five(p)


def one_each(p):
    """Two processes, three slots: nobody takes two."""
    workers = [Worker(p, name) for name in "ab"]
    wait_for(lambda: len(held(workers)) == 2, "each has one")
    check(len(set(held(workers))) == 2, f"another one each: {held(workers)}")
    records = [name for name in os.listdir(p.dir) if re.fullmatch(r"job\.lease-\d", name)]
    holders = subprocess.run(["grep", "-l", '"holder": *"[ab]"', *records], cwd=p.dir, stdout=subprocess.PIPE, text=True).stdout.split()
    check(len(holders) == 2, f"two slots are taken, one is free: {holders} of {records}")


TESTS = [slots_on_files, slots_on_redis, slots_on_a_majority_of_a_file_redis_and_etcd, one_each]

if __name__ == "__main__":
    sys.exit(run_tests(TESTS, os.path.abspath(sys.argv[1])))

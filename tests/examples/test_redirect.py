#!/usr/bin/env python3
"""Clients of examples/redirect.c find the leader whomever they ask, and the next one after a crash. The client is curl.

    tests/examples/test_redirect.py PROGRAM              the last line is "N passed, N failed"
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
from processes import LIMIT, check, free_port, run_tests, wait_for, with_redis


class Service:
    def __init__(self, p, name):
        self.name, self.port = name, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = p.start("--id", name, "--http", f"127.0.0.1:{self.port}", "--url", self.url, "--lease", "3s")

    def curl(self, *options, path="/job"):
        done = subprocess.run(["curl", "--silent", "--max-time", str(LIMIT), *options, self.url + path], stdout=subprocess.PIPE, text=True)
        return done.stdout

    def status(self):
        return self.curl("--output", os.devnull, "--write-out", "%{http_code} %{redirect_url}")


def through_a_crash(p):
    a = Service(p, "a")
    wait_for(lambda: a.curl().startswith("a answers"), "a leads")
    others = [Service(p, name) for name in "bc"]
    for other in others:
        wait_for(lambda: other.status() == f"307 {a.url}/job", "sends clients to the leader")
        check(other.curl("--location") == a.curl(), "and curl follows")
        check(other.curl("--location", path="/x?y").startswith("a answers"), "whatever the path")
    token = int(a.curl().split()[-1])
    a.process.kill()

    def answered():
        """By the next leader, whichever of the two is asked."""
        texts = {other.curl("--location") for other in others}
        return texts.pop() if len(texts) == 1 else ""
    text = wait_for(lambda: answered().split(" ")[0] in ("b", "c") and answered(), "both lead to the next one")
    check(int(text.split()[-1]) > token, f"with a higher token: {text}")


def redirect_on_files(p):
    through_a_crash(p)


def redirect_on_redis(p):
    with_redis(p)
    through_a_crash(p)


def nobody_leads(p):
    server = with_redis(p)
    server.terminate()
    server.wait()
    a = Service(p, "a")
    wait_for(lambda: a.status() == "503 ", "503 without a leader")
    check(a.curl() == "nobody leads\n", a.curl())


def mistakes(p):
    for args, says in [(["--bogus"], "--bogus"), (["--lease", "5"], "--lease"), (["--url"], "--url"), (["--http", "x"], "ADDRESS:PORT")]:
        done = p.run(*args)
        check(done.returncode == 2 and says in done.stderr, f"{args}: {done}")


TESTS = [redirect_on_files, redirect_on_redis, nobody_leads, mistakes]

if __name__ == "__main__":
    sys.exit(run_tests(TESTS, os.path.abspath(sys.argv[1])))

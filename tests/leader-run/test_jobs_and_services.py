#!/usr/bin/env python3
"""leader-run as cron, a service manager, an operator and a container use it.

    tests/leader-run/test_jobs_and_services.py [PROGRAM] [--only TEXT]         the last line is "N passed, N failed"
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
from processes import TOP, LIMIT, Place, check, children, descendants, free_port, get, has_store, run_tests, stat_of, wait_for, with_etcd, with_pg, with_redis

HOME = os.path.join(TOP, "examples", "leader-run")
NOW = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def options_of(p):
    text = p.run("--help", store=[]).stdout
    return sorted(set(re.findall(r"--[a-z0-9][a-z0-9-]*[a-z0-9]", text)))


# ---- jobs that end ---------------------------------------------------------------------------------------------------------------------

def test_three_machines_run_a_job_once(p):
    """cron starts it everywhere at about the same time; without --hold it would run three times, one after another."""
    report = f"echo ran >>{p.dir}/ran; sleep 0.2"
    three = [p.start("--id", f"n{i}", "-n", "--hold", "3s", "--", "sh", "-c", report) for i in range(3)]
    codes = sorted(process.wait(LIMIT) for process in three)
    check(codes == [0, 75, 75], f"one ran, two did not: {codes}")
    check(open(f"{p.dir}/ran").read() == "ran\n", "it ran once")
    check(p.said() == "", f"not a word, so that cron sends no mail: {p.said()!r}")


def test_hold_keeps_the_lease_after_the_command(p):
    a = p.start("--id", "a", "--hold", "2s", "--", "sh", "-c", "echo ran; exit 3")
    check(a.stdout.readline() == "ran\n", "ran")
    wait_for(lambda: not descendants(a.pid), "nothing of the command is left")
    check(a.poll() is None and p.run("-n", "true").returncode == 75, "held although the command has ended")
    check(a.wait(LIMIT) == 3, "the command's status in the end")
    check(p.run("-n", "true").returncode == 0, "free")


def test_hold_ends_on_request(p):
    a = p.start("--id", "a", "--hold", "1d", "--", "echo", "ran")
    check(a.stdout.readline() == "ran\n", "ran")
    wait_for(lambda: not descendants(a.pid), "nothing of the command is left")
    a.send_signal(signal.SIGTERM)
    check(a.wait(LIMIT) == 0, f"the command's status: {a.returncode}")
    check(p.run("-n", "true").returncode == 0, "free at once")


def test_once_per(p):
    a = p.start("--id", "a", "--once-per", "2s", "--", "echo", "ran")
    check(a.stdout.readline() == "ran\n", "ran")
    b = p.run("-n", "echo", "no")
    check((b.returncode, b.stdout) == (75, ""), "the others skip this round")
    check(a.wait(LIMIT) == 0, "status")
    began = time.monotonic()
    failed = p.run("--once-per", "1h", "false")
    check(failed.returncode == 1 and time.monotonic() - began < LIMIT, "a command that failed: another one may try at once")
    check(p.run("-n", "true").returncode == 0, "free")


def test_once_per_without_no_wait(p):
    """Those who stand by leave before the round is over, without a word; they take over from one that died, or whose command failed."""
    a = p.start("--id", "a", "--once-per", "1h", "--", "echo", "ran")
    check(a.stdout.readline() == "ran\n", "ran")
    began = time.monotonic()
    b = p.run("--once-per", "1s", "echo", "no")
    check((b.returncode, b.stdout, b.stderr) == (75, "", ""), f"{b}")
    check(time.monotonic() - began > 0.85, "it stood by meanwhile")
    c = p.start("--id", "c", "--once-per", "1h", "--", "echo", "instead")
    a.kill()
    check(c.stdout.readline() == "instead\n", "takes over")
    c.send_signal(signal.SIGTERM)
    c.wait(LIMIT)
    two = [p.start("--id", name, "--once-per", "1h", "--", "sh", "-c", f"echo $LEADER_IDENTITY >>{p.dir}/tried; exec mkdir {p.dir}/once/x") for name in "de"]
    wait_for(lambda: os.path.exists(f"{p.dir}/tried") and sorted(open(f"{p.dir}/tried").read().split()) == ["d", "e"], "both tried, as it failed")
    check([process.wait(LIMIT) for process in two] == [1, 1], "and failed")


def test_complaints_are_not_repeated(p):
    a = p.start("--id", "a", "--lease", "600ms", "--retry", "100ms", "true", store=["--file", f"{p.dir}/nowhere/job.lease"])
    wait_for(lambda: "cannot make" in p.said(), "a complaint")
    time.sleep(1)
    check(p.said().count("cannot make") == 1, f"{p.said()}")
    os.mkdir(f"{p.dir}/nowhere")
    check(a.wait(LIMIT) == 0, "it went on trying")


def test_no_wait(p):
    a = p.start("--id", "a", "--", "sh", "-c", "echo ready; read x", stdin=subprocess.PIPE)
    check(a.stdout.readline() == "ready\n", "ready")
    for how in (["-n"], ["--no-wait"], ["--wait", "0"], ["--wait=0s"]):
        done = p.run(*how, "echo", "no")
        check((done.returncode, done.stdout, done.stderr) == (75, "", ""), f"{how}: {done}")
    done = p.run("--wait", "300ms", "echo", "no")
    check(done.returncode == 75 and done.stderr == "leader-run: not leader within --wait\n", f"{done}")
    a.stdin.close()
    a.wait(LIMIT)
    done = p.run("-n", "echo", "mine")
    check((done.returncode, done.stdout) == (0, "mine\n"), f"free: {done}")


def redis_unreachable_and_refused(p):
    nowhere = ["--redis", f"redis://127.0.0.1:{free_port()}", "--name", "job"]
    for how in (["-n"], ["--wait", "300ms"]):
        done = p.run(*how, "true", store=nowhere)
        check(done.returncode == 69 and "Connection refused" in done.stderr, f"{how}: {done}")
    check(p.run("--status", store=nowhere).returncode == 69, "--status")
    check(p.run("-n", "true", store=nowhere).stderr.count("\n") == 1, "one line says why")
    with_redis(p)
    url = p.store[1]
    port = url.rsplit(":", 1)[1]
    subprocess.run(["redis-cli", "-p", port, "config", "set", "requirepass", "s:e@c/r%t"], check=True, stdout=subprocess.DEVNULL)
    for how in (["-n", "true"], ["--wait", "500ms", "true"], ["--status"]):
        done = p.run(*how)
        check(done.returncode == 77, f"without the password, {how}: {done}")
    with open(f"{p.dir}/secret", "w") as f:
        f.write("s:e@c/r%t\n")
    done = p.run("-n", "--password-file", "secret", "echo", "ran")
    check((done.returncode, done.stdout) == (0, "ran\n"), f"with the password: {done}")
    done = p.run("-n", "--password-file", "secret", "echo", "ran", store=["--store", url.replace("//", "//default@") + "#job"])
    check((done.returncode, done.stdout) == (0, "ran\n"), f"with a user and the password: {done}")
    for store, says in [(["--redis", url.replace("//", "//:x@"), "--name", "n"], "password and password_file are both set"), (["--redis", "env", "--name", "n"], "the environment alone")]:
        done = p.run("--password-file", "secret", "true", store=store)
        check(done.returncode == 2 and says in done.stderr, f"{done}")
    done = p.run("--password-file", "nowhere", "-n", "true")
    check(done.returncode in (2, 69, 77) and "nowhere" in done.stderr, f"{done}")


# ---- services --------------------------------------------------------------------------------------------------------------------------

def listener(p, name):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(name)
    s.settimeout(LIMIT)
    p.ends.append(s.close)
    return s


def heard(s, until):
    texts = []
    while not any(until in t for t in texts):
        texts.append(s.recv(4096).decode())
    return texts


def test_service_manager_is_told(p):
    """A socket with a path, and one in the abstract name space."""
    for number, name in enumerate([f"{p.dir}/notify", f"\0leader-run-test-{os.getpid()}"]):
        s = listener(p, name)
        env = {**os.environ, "NOTIFY_SOCKET": name.replace("\0", "@"), "WATCHDOG_USEC": "200000"}
        a = p.start("--id", "a", "--", "sh", "-c", "echo ${NOTIFY_SOCKET-unset} ${WATCHDOG_USEC-unset}; read x", stdin=subprocess.PIPE, env=env)
        check(a.stdout.readline() == "unset unset\n", "they are not for the command")
        check("READY=1" in heard(s, "READY=1"), "ready")
        heard(s, "STATUS=leading with token ")
        for _ in range(3):
            heard(s, "WATCHDOG=1")
        b = p.start("--id", "b", "--", "echo", "mine", env={**os.environ, "NOTIFY_SOCKET": name.replace("\0", "@")})
        heard(s, "STATUS=standing by: a leads with token ")
        a.stdin.close()
        heard(s, "STOPPING=1")
        check(a.wait(LIMIT) in (0, 1) and b.wait(LIMIT) == 0, "both end")
    a = p.start("--", "echo", "ran", env={**os.environ, "NOTIFY_SOCKET": f"{p.dir}/nobody", "WATCHDOG_USEC": "1000"})
    check(a.wait(LIMIT) == 0, "nobody listens")


def test_unit_files(p):
    """The ones to copy are right, as far as systemd-analyze can tell; each names leader-run as installed."""
    units = os.path.join(HOME, "systemd")
    names = sorted(os.listdir(units))
    check(names == ["mailer.service", "nightly-report.service", "nightly-report.timer"], f"{names}")
    for name in names:
        text = open(os.path.join(units, name)).read()
        check(name.endswith(".timer") or "/usr/local/bin/leader-run " in text, f"{name} runs leader-run")
        with open(os.path.join(p.dir, name), "w") as f:       # what is not installed here must not be reported
            f.write(text.replace("/usr/local/bin/leader-run", p.program).replace("User=", "#User="))
    if not shutil.which("systemd-analyze"):
        return
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *[os.path.join(p.dir, n) for n in names]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    about = [line for line in done.stdout.splitlines() if any(n in line for n in names) and "is marked world" not in line]
    check(not about, "\n".join(about))


def test_role_commands(p):
    log = f"{p.dir}/roles"
    script = f'echo "$LEADER_ROLE $LEADER_LEADER $LEADER_IDENTITY" $( [ "$LEADER_TOKEN" -gt 0 ] && echo token) >>{log}'
    hooks = ("--on-leader", script, "--on-follower", script)
    def lines():
        return open(log).read().splitlines() if os.path.exists(log) else []
    a = p.start("--id", "a", *hooks, "--", "sh", "-c", "echo ready; read x", stdin=subprocess.PIPE)
    check(a.stdout.readline() == "ready\n", "ready")
    wait_for(lambda: lines() == ["leader a a token"], f"a leads: {lines()}")
    b = p.start("--id", "b", *hooks)
    wait_for(lambda: "follower a b token" in lines(), "b stands by, and needs no command")
    a.stdin.close()
    a.wait(LIMIT)
    wait_for(lambda: "leader b b token" in lines(), f"b leads: {lines()}")
    check(lines().index("follower  a token") < lines().index("leader b b token"), f"a has tidied up before b leads: {lines()}")
    b.send_signal(signal.SIGTERM)
    check(b.wait(LIMIT) == 143, f"b ends: {b.returncode}")
    check(lines()[-1] == "follower  b token", f"and says so: {lines()}")


def test_role_command_that_hangs(p):
    """A later role ends the command for the earlier one."""
    log = f"{p.dir}/roles"
    a = p.start("--id", "a", "--lease", "3s", "--on-leader", "trap '' TERM; while :; do sleep 0.05; done", "--on-follower", f"echo follower >>{log}")
    wait_for(lambda: json.loads(p.run("--status", "--json").stdout or "{}").get("leader") == "a", "a leads")
    a.send_signal(signal.SIGTERM)
    check(a.wait(LIMIT) == 143 and open(log).read() == "follower\n", "the hand-over was told all the same")


def test_resign(p):
    a = p.start("--id", "a", "--", "sh", "-c", "echo a; exec sleep 1000")
    check(a.stdout.readline() == "a\n", "a leads")
    b = p.start("--id", "b", "--", "sh", "-c", "echo b; exec sleep 1000")
    time.sleep(0.2)
    done = p.run("--resign", str(a.pid), store=[])
    check((done.returncode, done.stderr) == (0, ""), f"{done}")
    check(b.stdout.readline() == "b\n", "b leads")
    check(a.poll() is None and "handed over on request" in p.said(), f"a competes again: {p.said()}")
    p.run("--resign", str(b.pid), store=[])
    check(a.stdout.readline() == "a\n", "a leads again")
    for wrong in ("1", "0", "x", "-1", "", str(os.getpid())):
        done = p.run(f"--resign={wrong}", store=[])
        check(done.returncode == 2 and "not the process number of a leader-run" in done.stderr, f"{wrong}: {done}")


def test_status_watch(p):
    w = p.start("--status", "--watch")
    j = p.start("--status", "--watch", "--json")
    check(re.fullmatch(rf"{NOW} nobody leads {re.escape(p.store[1])}\n", w.stdout.readline()), "nobody")
    check(json.loads(j.stdout.readline())["leader"] is None, "nobody, as JSON")
    for name in ("a", "b"):
        process = p.start("--id", name, "--", "sh", "-c", "echo $LEADER_TOKEN; read x", stdin=subprocess.PIPE)
        token = process.stdout.readline().strip()
        check(re.fullmatch(rf"{NOW} {name} leads {re.escape(p.store[1])} with token {token}\n", w.stdout.readline()), f"{name} leads")
        line = json.loads(j.stdout.readline())
        check((line["leader"], line["token"]) == (name, int(token)), f"{line}")
        process.stdin.close()
        process.wait(LIMIT)
        check("nobody leads" in w.stdout.readline() and json.loads(j.stdout.readline())["leader"] is None, "nobody again")
    for process in (w, j):
        process.send_signal(signal.SIGINT)
        process.wait(LIMIT)


def test_status_of_strange_things(p):
    """Control characters do not reach the terminal, bytes that are not UTF-8 make no broken JSON, a FIFO is not waited for."""
    store = ["--file", os.path.join(p.dir, "caf\udce9.lease")]
    a = p.start("--id", "a\x1b[2J\tb", "--", "sh", "-c", "echo ready; read x", stdin=subprocess.PIPE, store=store)
    check(a.stdout.readline() == "ready\n", "ready")
    done = p.run("--status", store=store)
    check("leader  a\\x1b[2J\\x09b\n" in done.stdout and "\x1b" not in done.stdout, f"{done.stdout!r}")
    out = subprocess.run([p.program, *store, "--status", "--json"], stdout=subprocess.PIPE).stdout.decode("utf-8")
    found = json.loads(out)
    check(found["leader"] == "a\x1b[2J\tb" and found["election"].endswith("caf\ufffd.lease"), f"{found}")
    a.stdin.close()
    a.wait(LIMIT)
    a = p.start("--id", "a", "--", "sh", "-c", "echo ready; read x", stdin=subprocess.PIPE)
    check(a.stdout.readline() == "ready\n", "ready")
    wait_for(lambda: os.path.exists(p.store[1]), "the copy for people, which is written a tick later")
    os.unlink(p.store[1])
    os.mkfifo(p.store[1])
    done = p.run("--status", limit=LIMIT)
    check(done.returncode in (0, 69), f"a FIFO in the place of the copy: {done}")


def test_verbose(p):
    a = p.start("--id", "a", "--verbose", "--", "sh", "-c", "echo ready; read x", stdin=subprocess.PIPE)
    check(a.stdout.readline() == "ready\n", "ready")
    p.start("--id", "b", "--verbose", "--", "true")
    wait_for(lambda: re.search(rf"{NOW} leader-run: standing by: a leads with token \d+", p.said()), "a standby says who leads")
    check(re.search(rf"{NOW} leader-run: .*leading, token \d+", p.said()), f"{p.said()}")


def test_silence(p):
    """/readyz fails when the store has been silent for longer than asked."""
    port = free_port()
    a = p.start("--id", "a", "--lease", "30s", "--silence", "700ms", "--http", f"127.0.0.1:{port}", "--", "sh", "-c", "read x", stdin=subprocess.PIPE)
    wait_for(lambda: get(f"http://127.0.0.1:{port}/readyz")[0] == 200, "ready")
    wait_for(lambda: get(f"http://127.0.0.1:{port}/readyz")[0] == 503, "no answer for 700 ms, since renewals are 10 s apart")
    a.stdin.close()


# ---- the rest --------------------------------------------------------------------------------------------------------------------------

def test_store_urls(p):
    path = os.path.join(p.dir, "by-url.lease")
    done = p.run("sh", "-c", "echo $LEADER_NAME", store=["--store", f"file://{path}"])
    check((done.returncode, done.stdout) == (0, f"{path}\n"), f"{done}")
    for url, says in [("http://x", "must start with file:///"), ("file:x", "must start with file:///"), ("k8s:///x", "1 to 63 characters"),
                      ("redis://127.0.0.1", "needs --name"), ("redis://127.0.0.1#", "needs --name"), ("redis://" + "x" * 3000, "too long")]:
        done = p.run("true", store=["--store", url])
        check(done.returncode == 2 and (says in done.stderr or "built without" in done.stderr), f"{url[:40]}: {done}")
    done = p.run("true", store=["--store", f"file://{path}", "--file", path])
    check(done.returncode == 2 and "exclude each other" in done.stderr, f"{done}")


def redis_store_url(p):
    with_redis(p)
    done = p.run("sh", "-c", "echo $LEADER_NAME", store=["--store", p.store[1] + "#nightly"])
    check((done.returncode, done.stdout) == (0, "nightly\n"), f"{done}")
    done = p.run("true", store=["--sentinels", "127.0.0.1", "--name", "n"])
    check(done.returncode == 2 and "--sentinel-name" in done.stderr, f"{done}")
    by_key = p.store[:2] + ["--redis-key", "stargate:leader"]
    look = f"echo $LEADER_NAME; redis-cli -u {p.store[1]} exists stargate:leader"
    done = p.run("sh", "-c", look, store=by_key)
    check((done.returncode, done.stdout) == (0, "stargate:leader\n1\n"), f"{done}")
    done = p.run("true", store=by_key + ["--name", "n"])
    check(done.returncode == 2 and "instead of --name" in done.stderr, f"{done}")


def redis_sentinels(p):
    with_redis(p)
    master = p.store[1].rsplit(":", 1)[1]
    port = free_port()
    with open(f"{p.dir}/sentinel.conf", "w") as f:
        f.write(f"port {port}\nbind 127.0.0.1\nsentinel monitor jobs 127.0.0.1 {master} 1\n")
    server = subprocess.Popen(["redis-server", f"{p.dir}/sentinel.conf", "--sentinel", "--dir", p.dir], stdout=subprocess.DEVNULL)
    def end():
        server.kill()
        server.wait()
    p.ends.append(end)
    wait_for(lambda: not socket.socket().connect_ex(("127.0.0.1", port)), "the sentinel")
    done = p.run("--wait", "30s", "echo", "ran", store=["--sentinels", f"127.0.0.1:{port}", "--sentinel-name", "jobs", "--name", "job"])
    check((done.returncode, done.stdout) == (0, "ran\n"), f"{done}")


def post(url, what):
    request = urllib.request.Request(url, json.dumps(what).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT) as reply:
        return json.load(reply)


def etcd_store(p):
    with_etcd(p)
    url = p.store[1]
    hosts = url.replace("http://", "")
    a = p.start("--id", "a", "--", "sh", "-c", "echo $LEADER_NAME; read x", stdin=subprocess.PIPE)
    check(a.stdout.readline() == "job\n", f"leads: {p.said()}")
    for store in (["--etcd", url, "--name", "job"], ["--store", f"etcd://{hosts}#job"], ["--store", f"etcd://{hosts},127.0.0.1:{free_port()}", "--name", "job"]):
        done = p.run("-n", "true", store=store)
        check((done.returncode, done.stderr) == (75, ""), f"{store}: {done}")
        check(json.loads(p.run("--status", "--json", store=store).stdout)["leader"] == "a", f"{store}")
    done = p.run("-n", "echo", "ran", "--", store=["--etcd", "env", "--name", "other"], env={**os.environ, "ETCDCTL_ENDPOINTS": hosts})
    check((done.returncode, done.stdout) == (0, "ran --\n"), f"from the environment: {done}")
    done = p.run("-n", "echo", "ran", store=[*p.store, "--prefix", "/mine/"])
    check((done.returncode, done.stdout) == (0, "ran\n"), f"another key: {done}")
    b = p.start("--id", "b", "--", "echo", "b")
    a.stdin.close()
    check(a.wait(LIMIT) == 1 and b.stdout.readline() == "b\n", "hands over")
    users_of_etcd(p, url, hosts)


def users_of_etcd(p, url, hosts):
    for path, what in [("user/add", {"name": "root", "password": "r"}), ("role/add", {"name": "root"}), ("user/grant", {"user": "root", "role": "root"}),
                       ("user/add", {"name": "app", "password": "se:c@ret"}), ("user/grant", {"user": "app", "role": "root"}), ("enable", {})]:
        post(f"{url}/v3/auth/{path}", what)
    with open(f"{p.dir}/secret", "w") as f:
        f.write("se:c@ret\n")
    for store in (["--etcd", url, "--name", "job", "--user", "app:se:c@ret"], ["--etcd", url, "--name", "job", "--user", "app", "--password-file", "secret"],
                  ["--store", f"etcd://app:se:c@ret@{hosts}#job"], ["--store", f"etcd://app@{hosts}#job", "--password-file", "secret"]):
        done = p.run("-n", "echo", "ran", store=store)
        check((done.returncode, done.stdout) == (0, "ran\n"), f"{store}: {done}")
    check(p.run("-n", "true").returncode == 77, "without a user")


def etcd_mistakes(p):
    nowhere = f"http://127.0.0.1:{free_port()}"
    for args, code, says in [
        (["--etcd", nowhere, "--name", "n", "-n"], 69, "connect"),
        (["--etcd", nowhere], 2, "--etcd needs --name"),
        (["--store", "etcd://10.1.2.3#n"], 2, "http:// is for this machine only"),
        (["--etcd", nowhere, "--name", "n", "--password-file", "nowhere"], 2, "--password-file: the file cannot be read"),
        (["--etcd", nowhere, "--name", "n", "--tls"], 2, "go with --redis"),
        (["--file", "x", "--user", "u"], 2, "--user and --plain-http go with --etcd"),
        (["--store", "etcd://" + "a," * 400 + "#n"], 2, "too long"),
    ]:
        done = p.run(*args, "true", store=[])
        check(done.returncode == code and says in done.stderr, f"{args}: {done}")


def pg_store(p):
    """With --only pg: to make a cluster takes longer than the other tests."""
    server = with_pg(p)
    url = p.store[1]
    info = f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres"
    a = p.start("--id", "a", "--", "sh", "-c", "echo $LEADER_NAME; read x", stdin=subprocess.PIPE, store=["--pg", info, "--name", "job"])
    check(a.stdout.readline() == "job\n", f"leads: {p.said()}")
    bare = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    for store, env in ((["--store", f"{url}#job"], bare), (["--pg", url, "--name", "job"], bare), (["--pg", "env", "--name", "job"], {**bare, "DATABASE_URL": url})):
        done = p.run("-n", "true", store=store, env=env)
        check((done.returncode, done.stderr) == (75, ""), f"{store}: {done}")
        check(json.loads(p.run("--status", "--json", store=store, env=env).stdout)["leader"] == "a", f"{store}")
    done = p.run("-n", "--table", "others", "echo", "ran", store=["--pg", info, "--name", "job"])
    check((done.returncode, done.stdout) == (0, "ran\n"), f"another table: {done}")
    a.stdin.close()
    check(a.wait(LIMIT) == 1 and p.run("-n", "true", store=["--pg", info, "--name", "job"]).returncode == 0, "hands over")
    check(p.run("-n", "true", store=["--pg", info.replace("user=postgres", "user=nobody-there"), "--name", "job"]).returncode == 77, "refused")
    server.kill()
    check(p.run("-n", "true", store=["--pg", info, "--name", "job"]).returncode == 69, "unreachable")
    done = p.run("-n", "true", store=["--pg", info])
    check(done.returncode == 2 and "--pg needs --name" in done.stderr, f"{done}")


def is_guard(pid):
    """A process may end while we look at it."""
    try:
        return open(f"/proc/{pid}/comm").read() == "leader-guard\n"
    except OSError:
        return False


def quorum_of_files(p):
    """Three directories: a majority is enough, and the locks in all of them stand for the command as well."""
    votes = [f"{p.dir}/{name}" for name in "abc"]
    for vote in votes:
        os.mkdir(vote)
    p.store = [word for vote in votes for word in ("--store", f"file://{vote}/job.lease")]
    options = ("--lease", "2s")
    a = p.start("--id", "a", *options, "--", "sh", "-c", "trap '' TERM; while echo a; do sleep 0.05; done")
    check(a.stdout.readline() == "a\n", f"leads: {p.said()}")
    check(json.loads(p.run("--status", "--json").stdout)["leader"] == "a", "everybody sees it")
    listed = ["--quorum", ",".join(p.store[1::2])]
    check(json.loads(p.run("--status", "--json", store=listed).stdout)["leader"] == "a", "the same stores in one list")
    guard = [pid for pid in descendants(a.pid) if is_guard(pid)]
    check(len(guard) == 1, f"a guard: {guard}")
    held = [os.readlink(f"/proc/{guard[0]}/fd/{fd}") for fd in os.listdir(f"/proc/{guard[0]}/fd")]
    check(all(any(vote in path for path in held) for vote in votes), f"the guard holds the locks of all three: {held}")
    check(p.run("-n", *options, "true").returncode == 75, "held")
    shutil.rmtree(votes[1])
    os.mkdir(votes[1])
    check(p.run("-n", *options, "true").returncode == 75, "held, though one of the three has forgotten")
    command = children(guard[0])
    a.kill()
    done = p.run("--wait", "30s", *options, "sh", "-c", f"! kill -0 {command[0]} 2>/dev/null")
    check(done.returncode == 0, f"the next one leads when the command is gone: {done}")
    for wrong in (p.store[:4], p.store[:2] * 4, p.store * 3, ["--quorum", p.store[1]], ["--quorum", ""], ["--quorum", "x" * 3000]):
        done = p.run("true", store=wrong)
        check(done.returncode == 2 and "three, five or seven" in done.stderr, f"{wrong}: {done}")
    done = p.run("true", store=[*p.store, "--file", "x"])
    check(done.returncode == 2 and "exclude each other" in done.stderr, f"{done}")
    done = p.run("true", store=[*p.store[:4], "--store", "ftp://x"])
    check(done.returncode == 2 and "must start with file:///" in done.stderr, f"{done}")


def test_mode(p):
    done = p.run("--mode", "0660", "true", umask=0o022)
    check(done.returncode == 0, f"{done}")
    check(os.stat(p.store[1]).st_mode & 0o777 == 0o660, f"{oct(os.stat(p.store[1]).st_mode)}")
    for wrong in ("0666", "x", "", "0400", "77777", "9"):
        done = p.run(f"--mode={wrong}", "true")
        check(done.returncode == 2 and "--mode: an octal mode" in done.stderr, f"{wrong}: {done}")


def test_explain(p):
    done = p.run("--explain", "--lease", "3s", store=[])
    check(done.returncode == 0 and done.stderr == "", f"{done}")
    for says in ("lease            3 s", "deadline         2 s", "stop         1.750 s", "grace         250 ms", "leader 60.0 a minute", "redis       crash                        2 s to 3 s", "majority    crash"):
        check(says in done.stdout, f"{says!r} is not in {done.stdout}")
    done = p.run("--explain", "--lease", "3s", "--deadline", "3s", store=[])
    check(done.returncode == 2 and "--deadline: must be less" in done.stderr, f"{done}")


def test_renew_retries(p):
    for good in ("1", "3", "none"):
        done = p.run(f"--renew-retries={good}", "true")
        check(done.returncode == 0, f"{good}: {done}")
    for wrong in ("0", "1001", "-1", "x", "3x", ""):
        done = p.run(f"--renew-retries={wrong}", "true")
        check(done.returncode == 2 and "--renew-retries: give a number from 1 to 1000, or none" in done.stderr, f"{wrong}: {done}")


def test_completions_know_every_option(p):
    for name in ("leader-run.bash", "_leader-run"):
        text = open(os.path.join(HOME, "completions", name)).read()
        for option in options_of(p):
            check(option in text, f"{name} does not know {option}")
    script = f"""
        . {HOME}/completions/leader-run.bash
        COMP_WORDS=(leader-run --on-); COMP_CWORD=1; _leader_run; echo "${{COMPREPLY[*]}}"
        COMP_WORDS=(leader-run --file x --); COMP_CWORD=3; _leader_run; echo "${{#COMPREPLY[@]}}"
        complete -p leader-run"""
    done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = done.stdout.splitlines()
    check(lines[0] == "--on-leader --on-follower" and int(lines[1]) > 20 and "_leader_run leader-run" in lines[2], f"{done.stdout}")
    if shutil.which("zsh"):
        completions_of_zsh(p)


def completions_of_zsh(p):
    """In a terminal of its own: what two tabs show."""
    script = f"""
        zmodload zsh/zpty
        zpty z zsh -f -i
        zpty -w z 'PS1=; fpath=({HOME}/completions $fpath); autoload -U compinit; compinit -u -D; LISTMAX=0; setopt noautomenu; echo RE""ADY'
        while zpty -r z line; do [[ $line == *READY* ]] && break; done
        zpty -w -n z $'leader-run --on-\t\t'
        zpty -r z shown '*--on-follower*--on-leader*'
        print -r -- $shown
        zpty -d z"""
    done = subprocess.run(["zsh", "-f", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT, cwd=p.dir)
    check("--on-follower" in done.stdout and "--on-leader" in done.stdout, f"{done.stdout!r}")


def test_readme_knows_every_option(p):
    text = open(os.path.join(HOME, "README.md")).read()
    for option in options_of(p):
        check(option in text or option in ("--help", "--version"), f"the README does not mention {option}")


def main():
    args = [a for a in sys.argv[1:] if a != "--only"]
    only = args.pop() if "--only" in sys.argv else ""
    program = os.path.abspath(args[0] if args else os.path.join(TOP, "build", "leader-run"))
    choices = {"redis_": ["--redis", "x", "--name", "n"], "etcd_": ["--etcd", "x", "--name", "n"], "quorum_": ["--store", "file:///x"] * 3}
    if "pg" in only:
        choices["pg_"] = ["--pg", "x", "--name", "n"]
    kinds = ("test_", *(kind for kind, choice in choices.items() if has_store(program, *choice)))
    return run_tests([f for name, f in globals().items() if name.startswith(kinds)], program, Place, only)


if __name__ == "__main__":
    sys.exit(main())

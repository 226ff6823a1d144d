"""Candidates on a real PostgreSQL, each through a network of its own.

A seed chooses one of two lives for the server: in the one it forgets (rows deleted, the table truncated or dropped), and
candidates start cautiously; in the other it remembers, and they start as they do by default.
"""
import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from processes import wait_for

import proxy
import stores

TABLE = "leader_election"


def programs():
    """Where initdb and postgres are"""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
    return os.environ.get("PG_BIN") or (found[-1] if found else "/usr/bin")


def unprivileged():
    """PostgreSQL refuses to run as root."""
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.getuid() == 0 else []


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


class Server:
    """A cluster that can be killed and started again in its place. Statements are sent without waiting for an answer, because a
    server that is stopped would stop the driver."""

    def __init__(self, directory):
        self.place = proxy.bound_socket(0)      # keeps the port while the server is down
        self.port = self.place.getsockname()[1]
        self.dir = os.path.join(directory, f"pg-{self.port}")
        self.process, self.sessions = None, []

    def make(self):
        os.makedirs(self.dir)
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.dir, nobody.pw_uid, nobody.pw_gid)
            os.chmod(os.path.dirname(self.dir), 0o711)
        subprocess.run([*unprivileged(), f"{programs()}/initdb", "-D", f"{self.dir}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8",
                        "--locale=C.UTF-8", "--no-sync"], check=True, cwd="/", stdout=subprocess.DEVNULL)
        return self.run()

    def run(self):
        if self.process is None:
            options = {"fsync": "off", "shared_buffers": "16MB", "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
                       "restart_after_crash": "on"}
            with open(f"{self.dir}.log", "a", encoding="utf-8") as log:
                self.process = subprocess.Popen(
                    [*unprivileged(), "setpriv", "--pdeathsig", "QUIT", f"{programs()}/postgres", "-D", f"{self.dir}/data", "-p", str(self.port),
                     *(word for name, value in options.items() for word in ("-c", f"{name}={value}"))],
                    cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def kill(self):
        if self.process is not None:
            self.signal_all(signal.SIGCONT)
            self.process.send_signal(signal.SIGQUIT)     # at once, as in a crash: what was committed is in the files
            self.process.wait()
            self.process = None

    def signal_all(self, number):
        if self.process is None:
            return
        for pid in [*children_of(self.process.pid), self.process.pid]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def signal_some(self, rng, number):
        """A process of a client, or the server's own: a backend that is killed takes all others with it, and the server recovers."""
        if self.process is not None and children_of(self.process.pid):
            try:
                os.kill(rng.choice(children_of(self.process.pid)), number)
            except ProcessLookupError:
                pass

    def psql(self, *words):
        info = f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres connect_timeout=5"
        return ["timeout", "60", f"{programs()}/psql", "-X", "-q", "-d", info, *words]

    def say(self, *statements):
        self.sessions = [session for session in self.sessions if session.poll() is None]
        words = [word for statement in statements for word in ("-c", statement)]
        self.sessions.append(subprocess.Popen(self.psql(*words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                              env={**os.environ, "PGOPTIONS": "-c default_transaction_read_only=off"}))

    def ask(self, statement):
        done = subprocess.run(self.psql("-A", "-t", "-c", statement), capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    def hold(self, statement):
        """A transaction that stays open until the function that this answers is called"""
        session = subprocess.Popen(self.psql(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
        self.sessions.append(session)
        session.stdin.write(f"BEGIN;\n{statement};\n")
        session.stdin.flush()

        def end():
            try:
                session.stdin.write("ROLLBACK;\n")
                session.stdin.close()
            except OSError:                     # the server went first
                pass
        return end

    def stop(self):
        self.kill()
        for session in self.sessions:
            session.kill()
            session.wait()
            if session.stdin:
                try:
                    session.stdin.close()
                except OSError:
                    pass
        self.place.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Store(stores.Store):
    name = "pg"
    lease_ms = 1500
    deadline_ms = 1000
    # A server that was killed recovers; a client tries again after 3.2 s at most; the record found may last for a lease, and one more passes in doubt.
    bound_ms = 2000 + 3200 + 2 * 1500 + 1500

    def __init__(self, directory, nodes, rng):
        super().__init__(directory, nodes, rng)
        self.forgets = rng.random() < 0.5
        self.server, self.network = None, proxy.Network()

    def start(self):
        self.server = Server(self.directory).make()
        for _ in range(self.nodes):
            self.network.link(self.server.port)
        wait_for(lambda: self.server.ask("SELECT 1") == "1", "PostgreSQL answers")

    def stop(self):
        self.network.close()
        if self.server:
            self.server.stop()

    def candidate_args(self, node):
        info = f"host=127.0.0.1 port={self.network.links[node].port} user=postgres dbname=postgres sslmode=disable"
        return ["--pg", info, "--name", "chaos", *(["--cautious"] if self.forgets else [])]

    # -- faults

    def faults(self):
        return [*proxy.network_faults(self),
                stores.Fault("server stopped", 2, self.pause_server),
                stores.Fault("server killed", 2, self.restart),
                stores.Fault("server process killed", 1, lambda rng: self.server.signal_some(rng, signal.SIGKILL)),
                stores.Fault("server process stopped", 2, self.pause_some),
                self.said("sessions terminated", 2, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leader.h'"),
                self.said("statements cancelled", 1, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'leader.h'"),
                stores.Fault("row locked", 2, lambda rng: self.server.hold(f"SELECT * FROM {TABLE} FOR UPDATE")),
                stores.Fault("table locked", 2, lambda rng: self.server.hold(f"LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE")),
                self.said("table vacuumed", 1, f"VACUUM FULL {TABLE}"),
                stores.Fault("writes refused", 1, self.refuse_writes),
                self.said("row deleted", 3, f"DELETE FROM {TABLE}", excused=not self.forgets),
                self.said("table truncated", 2, f"TRUNCATE {TABLE}", excused=not self.forgets),
                self.said("table dropped", 1, f"DROP TABLE {TABLE}", excused=not self.forgets)]

    def said(self, name, weight, statement, excused=False):
        return stores.Fault(name, weight, lambda rng: self.server.say(statement), excused)

    def refuse_writes(self, rng):
        """In sessions that are open as well as in later ones"""
        def set_to(value):
            self.server.say(f"ALTER SYSTEM SET default_transaction_read_only = {value}", "SELECT pg_reload_conf()")
        set_to("on")
        return lambda: set_to("off")

    def pause_server(self, rng):
        self.server.signal_all(signal.SIGSTOP)
        return lambda: self.server.signal_all(signal.SIGCONT)

    def pause_some(self, rng):
        self.server.signal_some(rng, signal.SIGSTOP)
        return lambda: self.server.signal_all(signal.SIGCONT)

    def restart(self, rng):
        self.server.kill()
        return lambda: self.server.run() and None

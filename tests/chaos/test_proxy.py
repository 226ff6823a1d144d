#!/usr/bin/env python3
"""The proxy's modes, one by one: a network that does not do what it is told would let every candidate pass."""
import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from processes import check, run_tests, wait_for

from proxy import Network, Rule

MOMENT_S = 0.3                                  # in which nothing must happen


class Place:
    """A server that answers each line with the same line, remembers all of them, and a link to it."""

    def __init__(self, _):
        self.lines, self.dir = [], ""
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.listen, daemon=True).start()
        self.network = Network()
        self.link = self.network.link(self.listener.getsockname()[1])
        self.sockets = []

    def listen(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(peer,), daemon=True).start()

    def answer(self, peer):
        try:
            with peer, peer.makefile("rb") as said:
                for line in said:
                    self.lines.append(line.decode().strip())
                    peer.sendall(line)
        except OSError:
            pass

    def dial(self):
        client = socket.create_connection(("127.0.0.1", self.link.port), timeout=30)
        self.sockets.append(client)
        return client

    def said(self):
        return f"the server heard {self.lines}"

    def close(self):
        for client in self.sockets:
            client.close()
        self.network.close()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def heard(client, size):
    """What arrives, up to so many bytes; "" at the end; None after a reset"""
    try:
        data = b""
        while len(data) < size and (more := client.recv(size - len(data))):
            data += more
        return data.decode()
    except ConnectionResetError:
        return None


def silent(client):
    client.settimeout(MOMENT_S)
    try:
        return client.recv(1) is None
    except socket.timeout:
        return True
    finally:
        client.settimeout(30)


def echoes(client, line):
    client.sendall(f"{line}\n".encode())
    return heard(client, len(line) + 1) == f"{line}\n"


def refused(link):
    try:
        socket.create_connection(("127.0.0.1", link.port), timeout=30).close()
        return False
    except ConnectionRefusedError:
        return True


def passes(p):
    a, b = p.dial(), p.dial()
    check(echoes(a, "one") and echoes(b, "two") and echoes(a, "three"), "lines come back")
    a.shutdown(socket.SHUT_WR)
    check(heard(a, 1) == "", "an end is passed on, both ways")


def refuses(p):
    a = p.dial()
    check(echoes(a, "one"), "open")
    heal = p.link.impose(Rule(refuse=True))
    check(heard(a, 1) is None, "what was open is reset")
    check(refused(p.link), "refused")
    heal()
    check(echoes(p.dial(), "two"), "open again, on the same port")


def holds_requests(p):
    heal = p.link.impose(Rule(hold="up"))
    a = p.dial()
    a.sendall(b"one\n")
    check(silent(a) and not p.lines, "nothing arrives")
    heal()
    check(heard(a, 4) == "one\n", "and then it does")


def holds_replies_of_what_is_carried_out(p):
    heal = p.link.impose(Rule(hold="down"))
    a = p.dial()
    a.sendall(b"one\n")
    wait_for(lambda: p.lines == ["one"], "carried out")
    check(silent(a), "no reply")
    heal()
    check(heard(a, 4) == "one\n", "the reply comes late")


def delivers_after_the_sender_gave_up(p):
    for end in ("close", "reset"):
        heal = p.link.impose(Rule(hold="up"))
        a = p.dial()
        a.sendall(f"{end}\n".encode())
        if end == "reset":
            a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        time.sleep(MOMENT_S)                    # a reset takes away what nobody has read yet
        a.close()
        time.sleep(MOMENT_S)
        check(end not in p.lines, "held back")
        heal()
        wait_for(lambda: end in p.lines, "delivered all the same")


def a_later_connection_overtakes(p):
    a = p.dial()
    check(echoes(a, "first"), "open")
    heal = p.link.impose(Rule(frozen="up"))
    a.sendall(b"early\n")
    a.close()
    check(echoes(p.dial(), "later"), "a new connection is served")
    heal()
    wait_for(lambda: p.lines == ["first", "later", "early"], "the old one's request comes after it")


def the_youngest_of_the_late_comes_first(p):
    clients, young = [p.dial() for _ in range(3)], 0
    check(all(echoes(client, "open") for client in clients), "open")
    for _ in range(9):                          # the server's threads have an order of their own, now and then
        heal = p.link.impose(Rule(hold="up"))
        p.lines.clear()
        for number, client in enumerate(clients):
            client.sendall(f"{number}\n".encode())
        time.sleep(0.1)
        heal()
        check(all(heard(client, 2) for client in clients), "all arrive")
        young += p.lines[0] == "2"
    check(young > 4, f"the youngest first: {young} of 9 times")


def delays(p):
    heal = p.link.impose(Rule(delay_ms=200))
    a, began = p.dial(), time.monotonic()
    check(echoes(a, "one") and time.monotonic() - began >= 0.4, "200 ms for each way")
    heal()
    heal = p.link.impose(Rule(delay_ms=10 ** 6))
    a.sendall(b"two\n")
    check(silent(a), "later, much later")
    heal()
    check(heard(a, 4) == "two\n", "and no longer")


def cuts_in_the_middle_of_a_reply(p):
    a = p.dial()
    check(echoes(a, "before"), "open")
    heal = p.link.impose(Rule(cut=9))
    check(echoes(a, "fives"), "six bytes may pass")
    a.sendall(b"fives\n")
    check(heard(a, 3) == "fiv" and heard(a, 1) is None, "three more, then a reset")
    check(p.lines == ["before", "fives", "fives"], "carried out")
    heal()
    check(echoes(p.dial(), "a line of more than nine bytes"), "healed")


def resets(p):
    a = p.dial()
    check(echoes(a, "one"), "open")
    p.link.reset()
    check(heard(a, 1) is None, "reset")
    check(echoes(p.dial(), "two"), "a new one is served")


def rules_add_up(p):
    end_hold, end_delay = p.link.impose(Rule(hold="up")), p.link.impose(Rule(delay_ms=1))
    a = p.dial()
    a.sendall(b"one\n")
    end_delay()
    check(silent(a), "the other rule still holds")
    end_hold()
    end_hold()
    check(heard(a, 4) == "one\n", "ended")


def a_server_that_is_not_there(p):
    p.listener.shutdown(socket.SHUT_RDWR)
    p.listener.close()
    heal = p.link.impose(Rule(hold="up"))
    a = p.dial()
    a.sendall(b"one\n")
    check(silent(a), "a black hole does not show it")
    heal()
    check(heard(a, 1) is None, "reset")
    p.listener = socket.create_server(("127.0.0.1", p.link.target))
    threading.Thread(target=p.listen, daemon=True).start()
    check(echoes(p.dial(), "two"), "there again")


def links_are_independent(p):
    other = p.network.link(p.link.target)
    p.link.impose(Rule(refuse=True))
    with socket.create_connection(("127.0.0.1", other.port), timeout=30) as a:
        check(refused(p.link) and echoes(a, "one"), "one node is cut off, the other is not")


TESTS = [passes, refuses, holds_requests, holds_replies_of_what_is_carried_out, delivers_after_the_sender_gave_up, a_later_connection_overtakes,
         the_youngest_of_the_late_comes_first, delays, cuts_in_the_middle_of_a_reply, resets, rules_add_up, a_server_that_is_not_there,
         links_are_independent]

if __name__ == "__main__":
    sys.exit(run_tests(TESTS, None, Place))

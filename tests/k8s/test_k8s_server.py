#!/usr/bin/env python3
"""k8s_server.py itself: the rules of the store that no recording shows, watches, users, TLS, and that each fault really does what it says.

A fault that quietly does nothing would make every test that relies on it a check that cannot fail.
"""
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time

from k8s_client import HERE, Server

LIMIT_S = 60
SHORT_S = 0.3                                   # how long "nothing comes" is watched for


class Failed(Exception):
    pass


def expect(what, seen, wanted):
    if seen != wanted:
        raise Failed(f"{what}: {seen!r} instead of {wanted!r}")


def expect_in(what, text, wanted):
    if wanted not in str(text):
        raise Failed(f"{what}: {text!r} does not hold {wanted!r}")


def raises(kinds, function):
    try:
        function()
    except kinds as error:
        return error
    raise Failed(f"{function} should have failed")


def wait_until(what, condition):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not after {LIMIT_S} s")
        time.sleep(0.01)


def spec(holder="node-a", **more):
    return {"holderIdentity": holder, "leaseDurationSeconds": 15, **more}


def make(server, name="demo", **more):
    code, lease = server.api("POST", server.lease_path(), {"metadata": {"name": name}, "spec": spec(**more)})
    expect("create", code, 201)
    return lease


def put(server, lease, **more):
    return server.api("PUT", server.lease_path(lease["metadata"]["name"]), lease, **more)


def stored(server, name="demo"):
    return server.control("GET", f"/leases/default/{name}")


def fault(server, do, **rule):
    return server.control("POST", "/faults", {"do": do, **rule})["id"]


def raw_connection(server):
    return server.trust.wrap_socket(socket.create_connection(("127.0.0.1", server.port), LIMIT_S), server_hostname="127.0.0.1")


class WatchStream:
    """A watch, read event by event"""

    def __init__(self, server, query="", timeout_s=LIMIT_S):
        self.connection = server.connect(timeout_s)
        self.connection.request("GET", server.lease_path() + "?watch=1" + query, headers={"Authorization": "Bearer admintoken"})
        self.reply = self.connection.getresponse()
        self.connection.sock = self.connection.sock or self.reply.fp.raw._sock

    def next(self):
        line = self.reply.readline()
        return json.loads(line) if line else None

    def wait_for_silence(self):
        self.connection.sock.settimeout(SHORT_S)
        raises((socket.timeout, TimeoutError), self.reply.readline)

    def close(self):
        self.reply.close()
        self.connection.close()


# ---- the store -------------------------------------------------------------------------------------------------------------------

def test_put_of_nothing_new_is_no_write(server):
    lease = make(server)
    code, again = put(server, lease)
    expect("answer", (code, again), (200, lease))


def test_put_without_uid_creates_again(server):
    lease = make(server)
    server.api("DELETE", server.lease_path("demo"))
    expect("with uid", put(server, lease)[0], 409)
    uid = lease["metadata"].pop("uid")
    code, again = put(server, lease)
    expect("without uid", code, 201)
    if again["metadata"]["uid"] == uid or int(again["metadata"]["resourceVersion"]) <= int(lease["metadata"]["resourceVersion"]):
        raise Failed("re-created with an old uid or version")
    lease["metadata"]["uid"] = uid
    code, status = put(server, lease)
    expect("old uid", code, 409)
    expect_in("message", status["message"], f"UID in precondition: {uid}, UID in object meta: {again['metadata']['uid']}")


def test_put_into_a_missing_namespace(server):
    code, status = server.api("PUT", server.lease_path("demo", "nosuch"), {"metadata": {"name": "demo"}, "spec": spec()})
    expect("status", (code, status["details"]), (404, {"name": "nosuch", "kind": "namespaces"}))
    server.control("POST", "/namespaces", {"name": "nosuch"})
    expect("made", server.api("PUT", server.lease_path("demo", "nosuch"), {"metadata": {"name": "demo"}, "spec": spec()})[0], 201)


def test_server_fields_are_the_servers(server):
    lease = make(server)
    changed = json.loads(json.dumps(lease))
    changed["metadata"].update(creationTimestamp="2001-01-01T00:00:00Z", generation=7, selfLink="/x")
    changed["spec"]["holderIdentity"] = "node-b"
    code, after = put(server, changed)
    expect("creationTimestamp", (code, after["metadata"]["creationTimestamp"]), (200, lease["metadata"]["creationTimestamp"]))
    expect("others", [key for key in ("generation", "selfLink") if key in after["metadata"]], [])


def test_owners_of_fields(server):
    lease = server.api("POST", server.lease_path(), {"metadata": {"name": "demo"}, "spec": spec()}, headers={"User-Agent": "one/1.0"})[1]
    lease["metadata"]["annotations"] = {"a": "1"}
    lease["spec"]["holderIdentity"] = "node-b"
    lease = put(server, lease, headers={"User-Agent": "two/1.0"})[1]
    owners = {entry["manager"]: entry["fieldsV1"] for entry in lease["metadata"]["managedFields"]}
    expect("owners", owners, {"one": {"f:spec": {"f:leaseDurationSeconds": {}}},
                              "two": {"f:metadata": {"f:annotations": {".": {}, "f:a": {}}}, "f:spec": {"f:holderIdentity": {}}}})
    lease["metadata"]["managedFields"] = [{}]
    expect("wiped", "managedFields" in put(server, lease)[1]["metadata"], False)


def test_refused_bodies(server):
    lease = make(server)
    path = server.lease_path("demo")
    head = '{"metadata":{"name":"demo","resourceVersion":"%s"},"spec":' % lease["metadata"]["resourceVersion"]
    cases = [
        (head + '{"leaseDurationSeconds":15.0}}', 400, "cannot unmarshal number 15.0 into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32"),
        (head + '{"leaseDurationSeconds":2147483648}}', 400, "cannot unmarshal number 2147483648 into"),
        (head + '{"leaseDurationSeconds":"15"}}', 400, "cannot unmarshal string into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32"),
        (head + '{"holderIdentity":7}}', 400, "cannot unmarshal number into Go struct field LeaseSpec.spec.holderIdentity of type string"),
        (head + '[]}', 400, "cannot unmarshal array into Go struct field Lease.spec of type v1.LeaseSpec"),
        (head + '{"renewTime":1}}', 400, "cannot unmarshal number into Go value of type string"),
        (head + '{"renewTime":"2026-13-02T03:04:05.000000Z"}}', 400, 'parsing time "2026-13-02T03:04:05.000000Z": month out of range'),
        (head + '{"renewTime":"2026-02-30T03:04:05.000000Z"}}', 400, "day out of range"),
        (head + '{"renewTime":"2026-01-02T03:04:05.000000Zx"}}', 400, 'extra text: "x"'),
        (head + '{"renewTime":"2026-01-02T03:04:05.12345Z"}}', 400, 'cannot parse ".12345Z" as ".000000"'),
        (head + '{"leaseDurationSeconds":0,"leaseTransitions":-1}}', 422, "is invalid: [spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0, spec.leaseTransitions"),
        (head + '{}} x', 400, "invalid character 'x' after top-level value"),
        ('{"a" 1}', 400, "invalid character '1' after object key ({"),
        ('{"a":[1 2]}', 400, "invalid character '2' after array element"),
        ('{"a":NaN}', 400, "invalid character 'N' looking for beginning of value"),
        ('{"a":"\n"}', 400, "in string literal"),
        ('[1]', 400, "cannot unmarshal array into Go value"),
        ('', 400, "unexpected end of JSON input (<empty>)"),
        ('{"kind":"Pod","apiVersion":"v1"}', 400, 'no kind "Pod" is registered for version "v1"'),
        ('{"metadata":{"resourceVersion":"1"}}', 400, "the name of the object (demo based on URL) was undeterminable: name must be provided"),
        ('{"metadata":{"name":"demo","namespace":"other"}}', 400, "the namespace of the object (other) does not match the namespace on the request (default)"),
        ('{"metadata":{"name":"demo","resourceVersion":"x"}}', 500, 'strconv.ParseUint: parsing "x": invalid syntax'),
        (head + '{},"metadata":{"name":"demo","resourceVersion":"%s","labels":{"a b":"c"}}}' % lease["metadata"]["resourceVersion"], 422, "metadata.labels: Invalid value: \"a b\""),
    ]
    for body, code, text in cases:
        seen, status = server.api("PUT", path, body)
        expect(f"status of {body!r} ({status})", seen, code)
        expect_in(f"message for {body!r}", status["message"], text)
    expect("unchanged", stored(server), lease)
    expect("other media type", server.api("PUT", path, "{}", headers={"Content-Type": "text/plain"})[0], 415)


def test_unknown_fields(server):
    lease = make(server, more=1, strategy="OldestEmulationVersion")
    expect("pruned", lease["spec"], {**spec(), "strategy": "OldestEmulationVersion"})
    server.control("POST", "/settings", {"keep_unknown": True})
    expect("kept", make(server, "other", more={"x": [1, 2.5, None]})["spec"], spec(more={"x": [1, 2.5, None]}))


def test_text_of_answers(server):
    """HTML characters and control characters come back in the real server's own escapes."""
    server.control("PUT", "/leases/default/demo", {"spec": spec("<a>&\u2028\b\f\n\x01\\b\u00e9\"")})
    data = server.exchange("GET", server.lease_path("demo"))[2]
    expect_in("text", data.decode(), r'"holderIdentity":"\u003ca\u003e\u0026\u2028\u0008\u000c\n\u0001\\b' + '\u00e9' + r'\""')
    expect_in("indented for people", server.exchange("GET", server.lease_path("demo"), headers={"User-Agent": "curl/7.88"})[2].decode(), '\n  "metadata": {\n')


def test_finalizers_and_preconditions(server):
    lease = make(server)
    lease["metadata"]["finalizers"] = ["example.com/wait"]
    lease = put(server, lease)[1]
    expect("wrong uid", server.api("DELETE", server.lease_path("demo"), {"preconditions": {"uid": "x"}})[0], 409)
    code, dying = server.api("DELETE", server.lease_path("demo"))
    expect("marked only", (code, "deletionTimestamp" in dying["metadata"], stored(server) == dying), (200, True, True))
    del dying["metadata"]["finalizers"]
    expect("last finalizer gone", put(server, dying)[0], 200)
    expect("now deleted", server.api("GET", server.lease_path("demo"))[0], 404)


def test_snapshot_and_restore(server):
    make(server)
    before = stored(server)
    version = server.control("POST", "/snapshot")["version"]
    put(server, {**before, "spec": spec("node-b")})
    expect("restored", server.control("POST", "/restore")["version"], version)
    expect("as it was", stored(server), before)


# ---- watches -----------------------------------------------------------------------------------------------------------------------

def test_watch_follows(server):
    first = make(server)
    make(server, "other")
    watch = WatchStream(server, "&fieldSelector=metadata.name%3Ddemo&resourceVersion=" + first["metadata"]["resourceVersion"])
    code, second = put(server, {**first, "spec": spec("node-b")})
    expect("change", watch.next(), {"type": "MODIFIED", "object": second})
    server.api("DELETE", server.lease_path("demo"))
    gone = watch.next()
    expect("deletion", (gone["type"], gone["object"]["spec"]["holderIdentity"]), ("DELETED", "node-b"))
    third = make(server)
    expect("creation", watch.next(), {"type": "ADDED", "object": third})
    watch.close()
    wait_until("watch noticed the end", lambda: not server.control("GET", "/watches")["watches"])


def test_watch_replays_history_and_ends(server):
    first = make(server)
    second = put(server, {**first, "spec": spec("node-b")})[1]
    watch = WatchStream(server, f"&timeoutSeconds=1&resourceVersion={int(first['metadata']['resourceVersion']) - 1}")
    expect("events", [watch.next(), watch.next(), watch.next()], [{"type": "ADDED", "object": first}, {"type": "MODIFIED", "object": second}, None])
    watch.close()


def test_watch_by_label(server):
    lease = make(server)
    watch = WatchStream(server, "&labelSelector=team%3Dx&resourceVersion=" + lease["metadata"]["resourceVersion"])
    for labels, kind in (({"team": "x"}, "ADDED"), ({"team": "x", "more": "y"}, "MODIFIED"), ({"team": "z"}, "DELETED")):
        lease["metadata"]["labels"] = labels
        lease = put(server, lease)[1]
        expect(str(labels), watch.next()["type"], kind)
    watch.close()


def test_watch_expired(server):
    lease = make(server)
    server.control("POST", "/compact")
    watch = WatchStream(server, "&resourceVersion=1")
    event = watch.next()
    expect("event", (event["type"], event["object"]["code"], event["object"]["reason"], watch.next()), ("ERROR", 410, "Expired", None))
    watch.close()
    watch = WatchStream(server, "&timeoutSeconds=1&resourceVersion=" + lease["metadata"]["resourceVersion"])
    expect("from now on", watch.next(), None)
    watch.close()


def test_watch_bookmarks(server):
    server.control("POST", "/settings", {"bookmark_s": 0.1})
    version = int(make(server)["metadata"]["resourceVersion"]) - 1
    watch = WatchStream(server, f"&allowWatchBookmarks=true&resourceVersion={version}")
    kinds = [watch.next() for _ in range(3)]
    expect("kinds", [event["type"] for event in kinds], ["ADDED", "BOOKMARK", "BOOKMARK"])
    expect("version", kinds[1]["object"]["metadata"]["resourceVersion"], kinds[0]["object"]["metadata"]["resourceVersion"])
    watch.close()


def test_control_of_watches(server):
    lease = make(server)
    version = "&resourceVersion=" + lease["metadata"]["resourceVersion"]

    def watched(do, **more):
        watch = WatchStream(server, version)
        wait_until("watch open", lambda: len(server.control("GET", "/watches")["watches"]) == 1)
        expect("touched", server.control("POST", "/watches", {"do": do, **more}), {"watches": 1})
        return watch

    def over(watch):
        watch.close()
        wait_until("watch gone", lambda: not server.control("GET", "/watches")["watches"])

    watch = watched("close")
    expect("orderly end", watch.next(), None)
    over(watch)
    watch = watched("error", code=500)
    expect("error event", watch.next()["object"]["code"], 500)
    over(watch)
    watch = watched("send", text='{"type":"MODI')
    expect("raw text", watch.reply.read1(100), b'{"type":"MODI')
    over(watch)
    for do in ("cut", "reset"):
        watch = watched(do)
        raises((http.client.HTTPException, OSError), watch.reply.read)
        over(watch)
    watch = watched("freeze")
    put(server, {**lease, "spec": spec("node-b")})
    watch.wait_for_silence()
    over(watch)


# ---- faults ------------------------------------------------------------------------------------------------------------------------------

def impatient(server, function):
    """A request whose client gives up: it has a connection, so that the request leaves, but waits only shortly for the answer."""
    connection = server.connect(LIMIT_S)
    connection.connect()
    connection.sock.settimeout(SHORT_S)
    raises((socket.timeout, TimeoutError), lambda: function(connection))
    connection.close()


def test_rules_match_and_count(server):
    make(server)
    fault(server, "status", code=503, match={"verb": "get", "name": "demo", "user": "elector", "client": "c1", "namespace": "default"}, skip=1, times=2)
    ask = lambda client, token="elector-token": server.api("GET", server.lease_path("demo"), token=token, headers={"User-Agent": client})[0]
    expect("others", [ask("c2"), ask("c1", "admintoken")], [200, 200])
    expect("skip, then twice", [ask("c1") for _ in range(4)], [200, 503, 503, 200])
    expect("hits", server.control("GET", "/faults")["faults"][0]["hits"], 2)
    fault(server, "status", code=500, times=0, match={"verb": "create", "name": "x"})
    expect("for ever", [server.api("POST", server.lease_path(), {"metadata": {"name": "x"}})[0] for _ in range(3)], [500] * 3)
    expect("deleted", (server.control("DELETE", "/faults"), ask("c1")), ({"deleted": 2}, 200))


def test_rules_are_checked(server):
    for rule, text in (({"do": "nothing"}, "do: one of"), ({"do": "delay"}, "ms: delay needs it"), ({"do": "hang", "mach": {}}, "mach: unknown field"),
                       ({"do": "hang", "match": {"verbs": "get"}}, "match.verbs: unknown field"), ({"do": "cut", "bytes": -1}, "bytes: a whole number")):
        expect_in(str(rule), raises(ValueError, lambda: server.control("POST", "/faults", rule)), text)
    expect("none added", server.control("GET", "/faults")["faults"], [])


def test_fault_delay(server):
    fault(server, "delay", ms=200, match={"verb": "create"})
    began = time.monotonic()
    make(server)
    if time.monotonic() - began < 0.2:
        raise Failed("answered at once")


def test_fault_hang_and_withhold(server):
    lease = make(server)
    for do, holder in (("hang", "node-a"), ("withhold", "node-b")):
        fault(server, do, match={"verb": "update"})
        impatient(server, lambda connection: put(server, {**lease, "spec": spec("node-b")}, connection=connection))
        wait_until(f"{do} came", lambda: server.control("GET", "/faults")["faults"][-1]["hits"] == 1)
        expect(do, stored(server)["spec"]["holderIdentity"], holder)
    counts = {(c["verb"], c["code"]): c["count"] for c in server.control("GET", "/requests")["counts"]}
    expect("never answered", counts["update", 0], 2)


def test_fault_late(server):
    lease = make(server)
    fault(server, "late", match={"verb": "update"})
    impatient(server, lambda connection: put(server, {**lease, "spec": spec("node-b")}, connection=connection))
    wait_until("parked", lambda: server.control("GET", "/faults")["parked"] == 1)
    expect("not yet", stored(server)["spec"]["holderIdentity"], "node-a")
    expect("released", server.control("POST", "/release"), {"released": 1})
    wait_until("executed after its client left", lambda: stored(server)["spec"]["holderIdentity"] == "node-b")
    fault(server, "late", ms=100, match={"verb": "update"})
    code, after = put(server, {**stored(server), "spec": spec("node-c")})
    expect("answered all the same", (code, after["spec"]["holderIdentity"]), (200, "node-c"))


def test_fault_cut(server):
    make(server)
    full = server.exchange("GET", server.lease_path("demo"))[2]
    fault(server, "cut", bytes=100, match={"verb": "get"})
    error = raises(http.client.IncompleteRead, lambda: server.api("GET", server.lease_path("demo")))
    expect("first 100 bytes", error.partial, full[:100])
    fault(server, "cut", bytes=20, of="reply", match={"verb": "get"})
    with raw_connection(server) as tls:
        tls.sendall(f"GET {server.lease_path('demo')} HTTP/1.1\r\nAuthorization: Bearer admintoken\r\n\r\n".encode())
        expect("first 20 bytes, then the end", [tls.recv(1000), tls.recv(1000)], [b"HTTP/1.1 200 OK\r\nAud", b""])
    fault(server, "cut", bytes=0, of="reply", reset=True, match={"verb": "get"})
    raises(ConnectionResetError, lambda: server.api("GET", server.lease_path("demo")))
    fault(server, "cut", bytes=30, match={"verb": "watch"})
    watch = WatchStream(server)
    expect("watch's first 30 bytes", watch.reply.read1(1000), b'{"type":"ADDED","object":{"kin')
    raises((http.client.HTTPException, OSError), watch.reply.read)
    watch.close()


def test_fault_status(server):
    lease = make(server)
    for code in (401, 403, 409, 410, 429, 500, 503, 504):
        fault(server, "status", code=code, retry_after=2)
        seen, headers, body = server.exchange("GET", server.lease_path("demo"))
        expect(str(code), (seen, dict(headers)["Retry-After"], json.loads(body)["code"], json.loads(body)["details"]["retryAfterSeconds"]), (code, "2", code, 2))
    fault(server, "status", code=503, execute=True)
    expect("executed and denied", put(server, {**lease, "spec": spec("node-b")})[0], 503)
    expect("stored", stored(server)["spec"]["holderIdentity"], "node-b")
    fault(server, "status", code=429, plain=True, message="slow down")
    expect("plain", server.api("GET", server.lease_path("demo")), (429, b"slow down\n"))


def test_fault_bodies(server):
    lease = make(server)
    fault(server, "garbage")
    code, body = server.api("GET", server.lease_path("demo"))
    expect("garbage", (code, type(body)), (200, bytes))
    fault(server, "body", body="[]")
    expect("body", server.api("GET", server.lease_path("demo")), (200, []))
    fault(server, "huge", bytes=3 << 20)
    code, _, body = server.exchange("GET", server.lease_path("demo"))
    expect("huge", (code, len(body) > 3 << 20, json.loads(body)), (200, True, lease))
    fault(server, "huge", endless=True)
    connection = server.connect()
    connection.request("GET", server.lease_path("demo"), headers={"Authorization": "Bearer admintoken"})
    expect("endless", len(connection.getresponse().read(2 << 20)), 2 << 20)
    connection.close()
    fault(server, "trickle", ms=1, bytes=50)
    expect("trickle", server.api("GET", server.lease_path("demo")), (200, lease))


def test_fault_redirect(server):
    fault(server, "redirect", location="https://127.0.0.1:1/")
    code, headers, _ = server.exchange("GET", server.lease_path("demo"))
    expect("redirect", (code, dict(headers)["Location"]), (307, "https://127.0.0.1:1/"))


def test_fault_reset_and_close(server):
    lease = make(server)
    fault(server, "reset")
    raises(ConnectionResetError, lambda: server.api("GET", server.lease_path("demo")))
    fault(server, "close", execute=True)
    raises(http.client.RemoteDisconnected, lambda: put(server, {**lease, "spec": spec("node-b")}))
    expect("executed before the end", stored(server)["spec"]["holderIdentity"], "node-b")


def test_fault_watches(server):
    lease = make(server)
    fault(server, "silent")
    expect("not for a get", server.api("GET", server.lease_path("demo"))[0], 200)
    watch = WatchStream(server, "&timeoutSeconds=1")
    put(server, {**lease, "spec": spec("node-b")})
    expect("headers came", watch.reply.status, 200)
    time.sleep(1)                               # past timeoutSeconds: still silent
    watch.wait_for_silence()
    watch.close()
    fault(server, "watch_error", code=410)
    watch = WatchStream(server)
    expect("error event", watch.next()["object"]["code"], 410)
    watch.close()
    fault(server, "status", code=410, match={"verb": "watch"})
    watch = WatchStream(server)
    expect("error status", watch.reply.status, 410)
    watch.close()


def test_listen_modes(server):
    held = server.connect()
    make(server)
    expect("before", server.api("GET", server.lease_path("demo"), connection=held)[0], 200)
    server.control("POST", "/listen", {"mode": "refuse"})
    raises(ConnectionRefusedError, lambda: server.api("GET", server.lease_path("demo")))
    expect("open connections go on", server.api("GET", server.lease_path("demo"), connection=held)[0], 200)
    server.control("POST", "/listen", {"mode": "blackhole", "drop": True})
    raises((OSError, http.client.HTTPException), lambda: server.api("GET", server.lease_path("demo"), connection=held))
    raises((socket.timeout, TimeoutError), server.connect(SHORT_S).connect)
    server.control("POST", "/listen", {"mode": "open"})
    expect("after", server.api("GET", server.lease_path("demo"))[0], 200)


# ---- users, TLS, counting, life ---------------------------------------------------------------------------------------------------------

def test_users_and_rotation(server):
    make(server)
    ask = lambda token: server.api("GET", server.lease_path("demo"), token=token)[0]
    token = server.control("POST", "/rotate", {"user": "elector"})["token"]
    expect("old and new", (ask("elector-token"), ask(token)), (401, 200))
    with open(os.path.join(server.ready["service_account"], "token"), encoding="ascii") as file:
        expect("file", file.read(), token)
    server.control("POST", "/users", {"user": "me", "verbs": ["get"], "namespaces": ["default"]})
    server.control("POST", "/tokens", {"token": "mine", "user": "me"})
    expect("added", (ask("mine"), server.api("DELETE", server.lease_path("demo"), token="mine")[0]), (200, 403))
    server.control("DELETE", "/tokens/mine")
    expect("revoked", ask("mine"), 401)
    expect("without a name", server.api("POST", server.lease_path(), "{}", token="noaccess-token")[1]["message"],
           'leases.coordination.k8s.io is forbidden: User "nobody" cannot create resource "leases" in API group "coordination.k8s.io" in the namespace "default"')


def test_client_certificate(server):
    make(server)
    server.trust = ssl.create_default_context(cafile=server.ready["ca"])
    server.trust.load_cert_chain(server.ready["client_cert"], server.ready["client_key"])
    expect("as elector", (server.api("GET", server.lease_path("demo"), token=None)[0], server.api("GET", server.lease_path(), token=None)[0]), (200, 403))


def test_tls(server):
    stranger = ssl.create_default_context(cafile=server.ready["other_ca"])
    connect = lambda trust, port=server.port, host="127.0.0.1": http.client.HTTPSConnection(host, port, context=trust, timeout=LIMIT_S).connect()
    raises(ssl.SSLCertVerificationError, lambda: connect(stranger))
    if server.ready["url6"]:
        connect(server.trust, host="::1")
    for options, text in ((["--cert-names", "DNS:elsewhere.example"], "IP address mismatch"), (["--expired"], "certificate has expired"), (["--tls-max", "1.1"], "")):
        with Server(*options) as odd:
            expect_in(str(options), raises(ssl.SSLError, lambda: connect(odd.trust, odd.port)), text)


def test_counting(server):
    make(server)
    connection = server.connect()
    for _ in range(3):
        server.api("GET", server.lease_path("demo"), token="elector-token", headers={"User-Agent": "c1"}, connection=connection)
    connection.close()
    server.api("GET", server.lease_path("none"), token="elector-token", headers={"User-Agent": "c2"})
    seen = server.control("GET", "/requests")
    expect("counts", [c for c in seen["counts"] if c["user"] == "elector"], [{"user": "elector", "client": "c1", "verb": "get", "code": 200, "count": 3},
                                                                               {"user": "elector", "client": "c2", "verb": "get", "code": 404, "count": 1}])
    log = server.control("GET", "/log")["log"]
    expect("one connection for three", len({entry["connection"] for entry in log if entry["client"] == "c1"}), 1)
    server.control("DELETE", "/requests")
    expect("zero", server.control("GET", "/requests")["total"], 0)


def test_not_http(server):
    for raw, code in ((b"nonsense\r\n\r\n", b"400"), (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"400"), (b"PUT /x HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", b"413"),
                      (b"PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400")):
        with raw_connection(server) as tls:
            tls.sendall(raw)
            expect(str(raw), tls.recv(100).split(b" ")[1], code)


def test_life_ends(server):
    """End of standard input, SIGTERM, and the parent's death each end the server; --rm takes its directory along."""
    for how in ("stdin", "SIGTERM"):
        with Server() as short:
            if how == "SIGTERM":
                short.process.send_signal(signal.SIGTERM)
                expect("exit", short.process.wait(LIMIT_S), 0)
        expect(f"directory after {how}", os.path.exists(short.directory), False)
    script = f"import subprocess,sys; p = subprocess.Popen([sys.executable, {os.path.join(HERE, 'k8s_server.py')!r}], stdout=subprocess.PIPE); print(p.stdout.readline().decode())"
    out = subprocess.run([sys.executable, "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, timeout=LIMIT_S).stdout
    facts = json.loads(out)
    wait_until("orphan ended", lambda: not os.path.exists(facts["ca"]))


TESTS = [function for name, function in list(globals().items()) if name.startswith("test_")]


def main():
    passed, failed = 0, 0
    with Server() as server:
        trust = server.trust
        for test in TESTS:
            server.control("POST", "/reset")
            server.trust = trust
            try:
                test(server)
                passed += 1
                print(f"ok   {test.__name__}")
            except (Failed, OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as fault_seen:
                failed += 1
                print(f"FAIL {test.__name__}: {type(fault_seen).__name__}: {fault_seen}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

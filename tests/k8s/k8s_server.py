#!/usr/bin/env python3
"""A small Kubernetes API server for tests: Leases over real TLS, with users, watches, and every fault we could think of.

    k8s_server.py --dir TMPDIR [--port 0] [--control-port 0] [--rm]

It writes TMPDIR/ready (JSON: addresses, files, tokens) once it listens, prints the same as one line, and ends on SIGTERM, when its
standard input is a pipe that closes, or when its parent is gone: a killed test leaves nothing behind. What a Lease is stands in
k8s_lease.py; how to inject faults and read the counts stands in K8S-SERVER.md beside this file. Standard library only.
"""
import argparse
import asyncio
import collections
import errno
import http.client
import json
import os
import re
import secrets
import shutil
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
import uuid
import warnings

import k8s_discovery
from k8s_lease import (API_VERSION, GROUP, MODIFIED, Refusal, Store, bad_request, decode_lease, decode_tree, lease_details,
                       second_time, to_json, utc_now)

HEADERS_MAX = 64 * 1024
BODY_MAX = 3 * 1024 * 1024
LOG_MAX = 10000
WATCH_DEFAULT_S = 1800
PATHS = re.compile(rf"/apis/{re.escape(GROUP)}/v1(?:/namespaces/(?P<namespace>[^/]+))?/leases(?:/(?P<name>[^/]+))?")
REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 422: "Invalid",
           429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}
MESSAGES = {401: "Unauthorized", 409: MODIFIED, 410: "too old resource version: 1 (2)", 429: "Too many requests, please try again later.",
            500: "Internal error occurred: injected", 503: "the server is currently unable to handle the request",
            504: "request did not complete within the allowed duration"}
FLOW_UIDS = {admin: (str(uuid.uuid4()), str(uuid.uuid4())) for admin in (False, True)}   # in headers: one pair for admins, one for the rest


def head(code, headers):
    lines = [f"HTTP/1.1 {code} {http.client.responses.get(code, 'Injected')}"] + [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines + ["", ""]).encode()


class Reply:
    def __init__(self, code, body, headers=()):
        self.code, self.body, self.headers = code, body, list(headers)

    def bytes(self):
        return head(self.code, self.headers + [("Content-Length", len(self.body))]) + self.body


class Request:
    """One parsed request. What it asks for (verb, namespace, name) is known even where it is then refused."""

    def __init__(self, method, target, headers, body):
        self.method, self.headers, self.body = method, headers, body
        path, _, query = target.partition("?")
        self.path = urllib.parse.unquote(path)
        self.query = {k: v[0] for k, v in urllib.parse.parse_qs(query, keep_blank_values=True).items()}
        self.client = headers.get("user-agent", "")
        self.user, self.selectors, self.selected_name = None, {}, None
        found = PATHS.fullmatch(self.path)
        self.namespace, self.name = (found["namespace"], found["name"]) if found else (None, None)
        self.is_lease = bool(found)
        self.verb = self.find_verb() if found else method.lower()

    def find_verb(self):
        if self.method == "GET" and not self.name:
            parts = self.query.get("fieldSelector", "").replace("==", "=").split(",")
            self.selectors = dict(part.split("=", 1) for part in parts if "=" in part)
            self.selected_name = self.selectors.get("metadata.name")
            return "watch" if self.query.get("watch", "false") not in ("false", "0") else "list"
        verbs = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete" if self.name else "deletecollection"}
        return verbs.get(self.method, self.method.lower())

    @property
    def any_name(self):
        """The name in the path or in the field selector: authorization sees both alike."""
        return self.name or self.selected_name

    @property
    def object_name(self):
        """As any_name, and for a create the name in the body: what fault rules and the log go by"""
        if self.any_name or self.method != "POST":
            return self.any_name
        found = re.search(rb'"name"\s*:\s*"([^"]*)"', self.body)
        return found[1].decode("utf-8", "replace") if found else None

    @property
    def manager(self):
        return (self.query.get("fieldManager") or self.client.split("/")[0] or "unknown")[:128]

    @property
    def dry_run(self):
        return self.query.get("dryRun") == "All"


async def read_request(reader, writer):
    """The next request of a connection, or None at its end. Raises Refusal for what is not HTTP."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
        return None
    except asyncio.LimitOverrunError:
        raise Refusal(431, None, "request header too long") from None
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise Refusal(400, "BadRequest", "malformed HTTP request line")
    headers = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon:
            raise Refusal(400, "BadRequest", "malformed HTTP header")
        headers[name.strip().lower()] = value.strip()
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        body = await read_body(reader, headers)
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
        return None
    return Request(parts[0], parts[1], headers, body)


async def read_body(reader, headers):
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while size := chunk_size(await reader.readuntil(b"\r\n")):
            body += (await reader.readexactly(size + 2))[:-2]
            if len(body) > BODY_MAX:
                raise Refusal(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
        await reader.readuntil(b"\r\n")
        return body
    size = headers.get("content-length", "0")
    if not size.isdigit():
        raise Refusal(400, "BadRequest", "malformed Content-Length")
    if int(size) > BODY_MAX:
        raise Refusal(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
    return await reader.readexactly(int(size))


def chunk_size(line):
    digits = line.split(b";")[0].strip()
    if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", digits):
        raise Refusal(400, "BadRequest", "malformed chunk")
    return int(digits, 16)


class Connection:
    def __init__(self, number, reader, writer):
        self.number, self.reader, self.writer = number, reader, writer

    async def send(self, data):
        """False: the client has gone."""
        try:
            self.writer.write(data)
            await self.writer.drain()
            return True
        except (ConnectionError, ssl.SSLError):
            return False

    async def gone(self):
        """Waits for the client to leave; whatever it still says is dropped."""
        try:
            while await self.reader.read(65536):
                pass
        except (ConnectionError, ssl.SSLError):
            pass

    def reset(self):
        """RST instead of an orderly end"""
        raw = self.writer.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


# ---- watching -----------------------------------------------------------------------------------------------------------------

class Watch:
    """One watch stream: events that match the request's selectors, as chunks, until its time is over."""

    def __init__(self, server, request, connection):
        self.server, self.request, self.connection = server, request, connection
        self.queue = asyncio.Queue()
        self.frozen = False                     # half-open: nothing is sent any more, not even the end
        self.as_table = k8s_discovery.wants_table(request.headers.get("accept", ""))
        self.first_row = True
        self.listener = None
        self.budget = None                      # "cut": bytes of the stream that may still go out
        self.matches = server.selector(request)

    def on_event(self, event):
        """A change may move a Lease into or out of what this watch selects."""
        was = event.before is not None and self.matches(event.before)
        is_now = event.kind != "DELETED" and self.matches(event.lease)
        if is_now or was:
            self.put("DELETED" if not is_now else "MODIFIED" if was else "ADDED", event.lease)

    def put(self, kind, obj):
        if self.as_table and obj["kind"] == "Lease":
            obj = k8s_discovery.table([obj], obj["metadata"], self.request.query.get("includeObject", "Metadata"), self.first_row)
            self.first_row = False
        self.queue.put_nowait(to_json({"type": kind, "object": obj}))

    def bookmark(self):
        meta = {"resourceVersion": str(self.server.store.version), "creationTimestamp": None}
        self.queue.put_nowait(to_json({"type": "BOOKMARK", "object": {"kind": "Lease", "apiVersion": API_VERSION, "metadata": meta, "spec": {}}}))

    def error(self, refusal):
        self.put("ERROR", refusal.status())
        self.queue.put_nowait(None)

    def start(self):
        store, version = self.server.store, self.request.query.get("resourceVersion", "")
        if not re.fullmatch(r"\d*", version):
            raise Refusal(400, "BadRequest", f"Invalid value: \"{version}\": strconv.ParseUint: parsing \"{version}\": invalid syntax")
        if int(version or 0) == 0:
            for lease in filter(self.matches, store.list(self.request.namespace)):
                self.put("ADDED", lease)
        else:
            try:
                for event in store.since(int(version)):
                    self.on_event(event)
            except Refusal as expired:
                self.error(expired)             # an ERROR event in a 200, as the real server answers
                return
        skip = int(version or 0)
        self.listener = lambda event: event.version > skip and self.on_event(event)
        store.listeners.add(self.listener)

    def close(self):
        self.server.store.listeners.discard(self.listener)

    async def send(self, data):
        """One chunk. False: the stream is over."""
        if self.budget is not None and len(data) >= self.budget:
            data, self.budget = data[:self.budget], 0
            await self.connection.send(b"%x\r\n%s" % (len(data) + 1, data))
            return False
        if self.budget is not None:
            self.budget -= len(data)
        return await self.connection.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def stream(self):
        """True: ended in an orderly way, the connection may be used again."""
        timeout_s = self.request.query.get("timeoutSeconds", "")
        ends = time.monotonic() + (int(timeout_s) if timeout_s.isdigit() and int(timeout_s) else WATCH_DEFAULT_S)
        bookmarks = self.request.query.get("allowWatchBookmarks") in ("1", "true")
        next_bookmark = time.monotonic() + self.server.settings["bookmark_s"]
        client_left = asyncio.ensure_future(self.connection.gone())
        item = asyncio.ensure_future(self.queue.get())
        try:
            while True:
                wait = max(0, min(ends, next_bookmark) - time.monotonic())
                done, _ = await asyncio.wait({client_left, item}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                if client_left in done:
                    return False
                if self.frozen:
                    await client_left
                    return False
                if item in done:
                    data = item.result()
                    if data is None:
                        break
                    if not await self.send(data):
                        return False
                    item = asyncio.ensure_future(self.queue.get())
                elif time.monotonic() >= ends:
                    break
                elif time.monotonic() >= next_bookmark:
                    next_bookmark += self.server.settings["bookmark_s"]
                    if bookmarks:
                        self.bookmark()
        finally:
            item.cancel()
            client_left.cancel()                # before the last chunk goes out: the client's next request must find the reader free
            await asyncio.wait({client_left})
            self.close()
        return await self.connection.send(b"0\r\n\r\n")


# ---- faults ----------------------------------------------------------------------------------------------------------------------

class Fault:
    FIELDS = {"do", "match", "skip", "times", "ms", "bytes", "of", "reset", "code", "retry_after", "message", "body", "plain", "execute",
              "location", "endless", "from", "to"}
    NEEDS = {"delay": "ms", "trickle": "ms", "cut": "bytes", "status": "code", "redirect": "location", "body": "body", "edit": "from"}
    MATCH = {"verb", "user", "client", "name", "namespace"}
    WATCH_ONLY = {"silent", "watch_error"}

    def __init__(self, number, rule):
        if not isinstance(rule, dict) or rule.get("do") not in FAULTS:
            raise bad_request(f"do: one of {', '.join(sorted(FAULTS))}")
        for where, unknown in (("", set(rule) - self.FIELDS), ("match.", set(rule.get("match", {})) - self.MATCH)):
            if unknown:
                raise bad_request(f"{where}{sorted(unknown)[0]}: unknown field")
        for field in ("skip", "times", "ms", "bytes", "code"):
            if field in rule and (not isinstance(rule[field], int) or rule[field] < 0):
                raise bad_request(f"{field}: a whole number, 0 or more")
        needed = self.NEEDS.get(rule["do"], "do")
        if needed not in rule:
            raise bad_request(f"{needed}: {rule['do']} needs it")
        self.number, self.rule, self.hits = number, rule, 0
        self.skip, self.left = rule.get("skip", 0), rule.get("times", 1) or float("inf")

    def applies(self, request):
        """Counts the rule down: ask once per request."""
        asked = {"verb": request.verb, "user": request.user, "client": request.client, "name": request.object_name,
                 "namespace": request.namespace}
        if any(asked[key] != value for key, value in self.rule.get("match", {}).items()):
            return False
        if self.rule["do"] in self.WATCH_ONLY and request.verb != "watch":
            return False
        if self.skip > 0 or self.left <= 0:
            self.skip -= self.skip > 0
            return False
        self.left -= 1
        self.hits += 1
        return True


# Each fault serves one request in its own way and says whether the connection may be used again.

async def fault_delay(server, connection, request, rule):
    answer = server.execute(request, connection)
    await asyncio.sleep(rule["ms"] / 1000)
    return await server.answer(connection, request, answer)


async def fault_late(server, connection, request, rule):
    if "ms" in rule:
        await asyncio.sleep(rule["ms"] / 1000)
    else:
        server.parked += 1
        await server.released.wait()
    return await server.answer(connection, request, server.execute(request, connection))


async def fault_hang(server, connection, request, rule):
    await connection.gone()
    return False


async def fault_withhold(server, connection, request, rule):
    server.execute_once(request, connection)
    await connection.gone()
    return False


async def fault_cut(server, connection, request, rule):
    answer = server.execute(request, connection)
    if isinstance(answer, Watch):
        answer.budget = rule["bytes"]
        await server.answer(connection, request, answer)
    else:
        server.note(request, answer.code)
        data = answer.bytes()
        start = 0 if rule.get("of") == "reply" else len(data) - len(answer.body)
        await connection.send(data[:start + rule["bytes"]])
    if rule.get("reset"):
        connection.reset()
    return False


async def fault_status(server, connection, request, rule):
    if rule.get("execute"):
        server.execute_once(request, connection)
    code = rule["code"]
    details = lease_details(request.any_name)
    if "retry_after" in rule and str(rule["retry_after"]).isdigit():
        details["retryAfterSeconds"] = int(rule["retry_after"])
    message = rule.get("message", MESSAGES.get(code, "injected"))
    if rule.get("plain"):
        reply = Reply(code, message.encode() + b"\n", server.headers(request.user, "text/plain; charset=utf-8"))
    else:
        status = to_json(Refusal(code, REASONS.get(code), message, details).status())
        reply = Reply(code, rule["body"].encode() if "body" in rule else status, server.headers(request.user))
    if "retry_after" in rule:
        reply.headers.append(("Retry-After", rule["retry_after"]))
    return await server.answer(connection, request, reply)


async def fault_body(server, connection, request, rule):
    answer = server.execute_once(request, connection)
    answer.body = rule.get("body", '<html>\x00{"kind":"Lease",,, \\u12 not JSON').encode()
    if rule["do"] == "garbage":
        answer.code = 200
    return await server.answer(connection, request, answer)


async def fault_edit(server, connection, request, rule):
    answer = server.execute_once(request, connection)
    answer.body = answer.body.replace(rule["from"].encode(), rule["to"].encode())
    return await server.answer(connection, request, answer)


async def fault_huge(server, connection, request, rule):
    answer = server.execute_once(request, connection)
    if not rule.get("endless"):
        answer.body = b" " * rule.get("bytes", 2 << 20) + answer.body
        return await server.answer(connection, request, answer)
    server.note(request, answer.code)
    await connection.send(server.chunked_head(request))
    piece = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    while await connection.send(piece):
        await asyncio.sleep(0.001)
    return False


async def fault_redirect(server, connection, request, rule):
    reply = Reply(rule.get("code", 307), b"", server.headers(request.user) + [("Location", rule["location"])])
    return await server.answer(connection, request, reply)


async def fault_end(server, connection, request, rule):
    if rule.get("execute"):
        server.execute_once(request, connection)
    if rule["do"] == "reset":
        connection.reset()
    return False


async def fault_trickle(server, connection, request, rule):
    answer = server.execute_once(request, connection)
    server.note(request, answer.code)
    data, size = answer.bytes(), rule.get("bytes", 1)
    for at in range(0, len(data), size):
        if not await connection.send(data[at:at + size]):
            return False
        await asyncio.sleep(rule["ms"] / 1000)
    return True


async def fault_silent(server, connection, request, rule):
    answer = server.execute(request, connection)
    if isinstance(answer, Watch):
        answer.frozen = True
        answer.queue.put_nowait(b"")
    return await server.answer(connection, request, answer)


async def fault_watch_error(server, connection, request, rule):
    answer = server.execute(request, connection)
    if isinstance(answer, Watch):
        answer.queue = asyncio.Queue()
        answer.error(injected(rule.get("code", 410)))
    return await server.answer(connection, request, answer)


def injected(code):
    return Refusal(code, REASONS.get(code), MESSAGES.get(code, "injected"))


FAULTS = {"delay": fault_delay, "late": fault_late, "hang": fault_hang, "withhold": fault_withhold, "cut": fault_cut,
          "status": fault_status, "garbage": fault_body, "body": fault_body, "edit": fault_edit, "huge": fault_huge, "redirect": fault_redirect,
          "reset": fault_end, "close": fault_end, "trickle": fault_trickle, "silent": fault_silent, "watch_error": fault_watch_error}


PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")


def wrong_media(accepted):
    return Refusal(415, "UnsupportedMediaType", f"the body of the request was in an unknown format - accepted media types include: {accepted}")


# ---- the server --------------------------------------------------------------------------------------------------------------------

class Server:
    def __init__(self, directory, first_version):
        self.directory = directory
        self.store = Store(first_version)
        self.connections, self.connections_ever, self.saved = set(), 0, None
        self.defaults()

    def defaults(self):
        """Everything a test may change through the control port, as at the start"""
        elect = {"get", "create", "update"}
        self.users = {"admin": ({"*"}, {"*"}), "elector": (elect, {"default"}), "watcher": (elect | {"list", "watch"}, {"default"}),
                      "nobody": (set(), set())}
        self.tokens = {"admintoken": "admin", "elector-token": "elector", "watcher-token": "watcher", "noaccess-token": "nobody"}
        self.write_token("elector-token")
        self.settings = {"keep_unknown": False, "pretty": False, "bookmark_s": 60}
        self.faults, self.fault_number = [], 0
        self.parked, self.released = 0, asyncio.Event()
        self.watches, self.events, self.pods = set(), [], {}
        self.forget_requests()

    def write_token(self, token):
        """Replaced as a kubelet does it: the file never holds half a token."""
        path = os.path.join(self.directory, "serviceaccount", "token")
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(token)
        os.replace(path + ".new", path)

    def forget_requests(self):
        self.counts, self.log, self.request_number = collections.Counter(), collections.deque(maxlen=LOG_MAX), 0

    # -- one connection

    async def on_connection(self, reader, writer):
        self.connections_ever += 1
        connection = Connection(self.connections_ever, reader, writer)
        self.connections.add(connection)
        try:
            while (request := await read_request(reader, writer)) and await self.serve(connection, request):
                if request.headers.get("connection", "").lower() == "close":
                    break
        except Refusal as refusal:
            await connection.send(Reply(refusal.code, to_json(refusal.status()), [("Connection", "close")]).bytes())
        except (ConnectionError, ssl.SSLError, asyncio.CancelledError):     # cancelled: the server ends
            pass
        finally:
            self.connections.discard(connection)
            writer.close()

    async def serve(self, connection, request):
        request.user = self.authenticate(connection, request)
        self.begin(connection, request)
        fault = next((fault for fault in self.faults if fault.applies(request)), None)
        if fault:
            request.entry["fault"] = fault.rule["do"]
            return await FAULTS[fault.rule["do"]](self, connection, request, fault.rule)
        return await self.answer(connection, request, self.execute(request, connection))

    async def answer(self, connection, request, answer):
        """Sends a Reply, or a Watch's stream. -> may the connection be used again?"""
        self.note(request, answer.code if isinstance(answer, Reply) else 200)
        if isinstance(answer, Reply):
            return await connection.send(answer.bytes())
        if not await connection.send(self.chunked_head(request)):
            return False
        self.watches.add(answer)
        try:
            return await answer.stream()
        finally:
            self.watches.discard(answer)

    # -- counting

    def begin(self, connection, request):
        self.request_number += 1
        request.entry = {"n": self.request_number, "at": round(time.monotonic(), 6), "verb": request.verb, "user": request.user,
                         "client": request.client, "namespace": request.namespace, "name": request.object_name, "path": request.path,
                         "code": 0, "connection": connection.number, "fault": None}
        self.log.append(request.entry)
        self.counts[request.user, request.client, request.verb, 0] += 1

    def note(self, request, code):
        self.counts[request.user, request.client, request.verb, 0] -= 1
        self.counts[request.user, request.client, request.verb, code] += 1
        request.entry["code"] = code

    # -- who may do what

    def authenticate(self, connection, request):
        """A user's name; None: credentials that nobody knows"""
        certificate = connection.writer.get_extra_info("peercert")
        if certificate:
            return next((value for part in certificate["subject"] for key, value in part if key == "commonName"), None)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return self.tokens.get(token.strip()) if scheme.lower() == "bearer" else "system:anonymous"

    def authorize(self, request):
        verbs, namespaces = self.users.get(request.user, (set(), set()))
        if verbs & {"*", request.verb} and namespaces & {"*", request.namespace or "*"}:
            return
        name = request.any_name
        named = f' "{name}"' if name else ""
        scope = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
        raise Refusal(403, "Forbidden", f'leases.{GROUP}{named} is forbidden: User "{request.user}" cannot {request.verb} '
                                        f'resource "leases" in API group "{GROUP}" {scope}', lease_details(name))

    # -- executing

    def headers(self, user, content_type="application/json", forbidden=False):
        flow, level = FLOW_UIDS["*" in self.users.get(user, (set(),))[0]]
        return ([("Audit-Id", str(uuid.uuid4())), ("Cache-Control", "no-cache, private"), ("Content-Type", content_type)]
                + ([("X-Content-Type-Options", "nosniff")] if forbidden else [])
                + ([("X-Kubernetes-Pf-Flowschema-Uid", flow), ("X-Kubernetes-Pf-Prioritylevel-Uid", level)] if user else [])
                + [("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()))])

    def chunked_head(self, request):
        return head(200, self.headers(request.user) + [("Transfer-Encoding", "chunked")])

    def execute(self, request, connection):
        """-> Reply or Watch. No await in here or below: each request takes effect at one moment."""
        try:
            if request.user is None:
                raise Refusal(401, "Unauthorized", "Unauthorized")
            if request.is_lease:
                answer = self.execute_lease(request, connection)
            elif request.method == "POST" and EVENT_PATHS.fullmatch(request.path):
                answer = self.execute_event(request)
            elif request.method == "PATCH" and POD_PATHS.fullmatch(request.path):
                answer = self.execute_pod(request)
            else:
                answer = k8s_discovery.document(request, self.users)
            if isinstance(answer, Watch):
                return answer
            code, obj = answer
        except Refusal as refusal:
            code, obj = refusal.code, refusal.status()
        if isinstance(obj, bytes):
            return Reply(code, obj, self.headers(request.user, "text/plain; charset=utf-8"))
        pretty = (self.settings["pretty"] or request.query.get("pretty") in ("1", "true")
                  or request.client.startswith(("curl", "Wget", "Mozilla/5.0")))
        return Reply(code, to_json(obj, bool(pretty)), self.headers(request.user, forbidden=code == 403))

    def execute_once(self, request, connection):
        """As execute, for faults that know only whole answers: a watch is one without events."""
        answer = self.execute(request, connection)
        if not isinstance(answer, Watch):
            return answer
        answer.close()
        return Reply(200, b"", self.headers(request.user))

    def execute_lease(self, request, connection):
        self.authorize(request)
        if not k8s_discovery.accepts_json(request.headers.get("accept", "*/*")):
            raise Refusal(406, "NotAcceptable", "only the following media types are accepted: application/json")
        if request.verb not in VERBS or (request.verb not in ("list", "watch") and not request.namespace):
            raise Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", lease_details(None))
        return VERBS[request.verb](self, request, connection)

    def execute_event(self, request):
        """Events are kept as they are, for the control port to show; a user needs the verb "events"."""
        namespace = EVENT_PATHS.fullmatch(request.path)["namespace"]
        if not self.users.get(request.user, (set(),))[0] & {"*", "events"}:
            raise Refusal(403, "Forbidden", f'events is forbidden: User "{request.user}" cannot create resource "events" '
                                            f'in API group "" in the namespace "{namespace}"', {"kind": "events"})
        try:
            event = json.loads(request.body)
            places = {event["metadata"]["namespace"], event["involvedObject"]["namespace"], namespace}
            named = event["kind"] == "Event" and (event["metadata"].get("name") or event["metadata"]["generateName"])
        except (ValueError, KeyError, TypeError) as error:
            raise bad_request(f"not an Event: {error!r}") from None
        if len(places) > 1 or not named:
            raise Refusal(422, "Invalid", "involvedObject.namespace: Invalid value: does not match event.namespace", {"kind": "Event"})
        self.events.append(event)
        return 201, event

    def execute_pod(self, request):
        """Of a pod the labels are kept, and only a merge patch of them is understood; a user needs the verb "pods"."""
        namespace, name = POD_PATHS.fullmatch(request.path).groups()
        if not self.users.get(request.user, (set(),))[0] & {"*", "pods"}:
            raise Refusal(403, "Forbidden", f'pods "{name}" is forbidden: User "{request.user}" cannot patch resource "pods" '
                                            f'in API group "" in the namespace "{namespace}"', {"kind": "pods", "name": name})
        if request.headers.get("content-type") != PATCHES[0]:
            raise wrong_media(PATCHES[0])
        labels = self.pods.get(f"{namespace}/{name}")
        if labels is None:
            raise Refusal(404, "NotFound", f'pods "{name}" not found', {"kind": "pods", "name": name})
        try:
            changes = json.loads(request.body)["metadata"]["labels"]
            labels.update(changes)
        except (ValueError, KeyError, TypeError) as error:
            raise bad_request(f"not a patch of labels: {error!r}") from None
        for key in [key for key, value in labels.items() if value is None]:
            del labels[key]
        return 200, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace, "labels": labels}}

    def decoded(self, request):
        content_type = request.headers.get("content-type", "application/json").split(";")[0].strip()
        if content_type != "application/json":
            raise wrong_media("application/json")
        return decode_lease(request.body, self.settings["keep_unknown"], request.query.get("fieldValidation") == "Strict")

    def selector(self, request):
        """-> function of a Lease: does the request select it?"""
        fields = request.selectors
        for field in fields:
            if field not in ("metadata.name", "metadata.namespace"):
                raise bad_request(f'Unable to find "{GROUP}/v1, Resource=leases" that match label selector "", '
                                  f'field selector "{request.query["fieldSelector"]}": field label not supported: {field}')
        labels = [re.fullmatch(r"([^=!]+)(?:(!?)==?(.*))?", part) for part in request.query.get("labelSelector", "").split(",") if part]
        if None in labels:
            raise bad_request("unable to parse requirement: only key, key=value and key!=value are known here")

        def selects(lease):
            meta = lease["metadata"]
            has = meta.get("labels", {})
            for key, negated, value in (label.groups() for label in labels):
                if key not in has if value is None else (has.get(key) == value) == bool(negated):
                    return False
            return request.namespace in (None, meta["namespace"]) and all(meta[field.split(".")[1]] == value for field, value in fields.items())
        return selects

    def do_get(self, request, connection):
        lease = self.store.get(request.namespace, request.name)
        if k8s_discovery.wants_table(request.headers.get("accept", "")):
            return 200, k8s_discovery.table([lease], lease["metadata"], request.query.get("includeObject", "Metadata"))
        return 200, lease

    def do_list(self, request, connection):
        found = list(filter(self.selector(request), self.store.list(request.namespace)))
        meta = {"resourceVersion": str(self.store.version)}
        if k8s_discovery.wants_table(request.headers.get("accept", "")):
            return 200, k8s_discovery.table(found, meta, request.query.get("includeObject", "Metadata"))
        items = [{key: value for key, value in lease.items() if key not in ("kind", "apiVersion")} for lease in found]
        return 200, {"kind": "LeaseList", "apiVersion": API_VERSION, "metadata": meta, "items": items}

    def do_watch(self, request, connection):
        watch = Watch(self, request, connection)
        watch.start()
        return watch

    def do_create(self, request, connection):
        return 201, self.store.post(request.namespace, self.decoded(request), request.manager, request.dry_run)

    def do_update(self, request, connection):
        lease, created = self.store.update(request.namespace, request.name, self.decoded(request), request.manager, request.dry_run)
        return 201 if created else 200, lease

    def do_patch(self, request, connection):
        if request.headers.get("content-type", "").split(";")[0] not in PATCHES:
            raise wrong_media(", ".join(PATCHES))
        decode = lambda tree: decode_tree(tree, self.settings["keep_unknown"], request.query.get("fieldValidation") == "Strict")
        return 200, self.store.patch(request.namespace, request.name, request.body, request.manager, decode, request.dry_run)

    def do_delete(self, request, connection):
        try:
            options = json.loads(request.body or b"{}")
        except ValueError as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
        return 200, self.store.delete(request.namespace, request.name, options if isinstance(options, dict) else {})


POD_PATHS = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)")
EVENT_PATHS = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/events")
VERBS = {"get": Server.do_get, "list": Server.do_list, "watch": Server.do_watch, "create": Server.do_create, "update": Server.do_update,
         "patch": Server.do_patch, "delete": Server.do_delete}


# ---- the control port ----------------------------------------------------------------------------------------------------------------

class Control:
    """Plain HTTP and JSON on the loopback: method and path choose a function below."""

    def __init__(self, server, listener):
        self.server, self.listener = server, listener

    async def on_connection(self, reader, writer):
        try:
            while request := await read_request(reader, writer):
                code, answer = await self.answer(request)
                writer.write(Reply(code, to_json(answer), [("Content-Type", "application/json")]).bytes())
                await writer.drain()
                if request.headers.get("connection", "").lower() == "close":
                    break
        except (Refusal, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def answer(self, request):
        word, *rest = request.path.strip("/").split("/")
        function = getattr(self, f"{request.method.lower()}_{word}", None)
        try:
            if function is None:
                return 404, {"error": f"no such thing: {request.method} {request.path}"}
            body = json.loads(request.body) if request.body else {}
            if not isinstance(body, dict):
                raise bad_request("body: a JSON object")
            answer = function(rest, body)
            return 200, (await answer if asyncio.iscoroutine(answer) else answer)
        except Refusal as refusal:
            return 400, {"error": refusal.message}
        except (ValueError, KeyError, TypeError, IndexError) as error:
            return 400, {"error": f"{type(error).__name__}: {error}"}

    def post_faults(self, rest, body):
        self.server.fault_number += 1
        self.server.faults.append(Fault(self.server.fault_number, body))
        return {"id": self.server.fault_number}

    def get_faults(self, rest, body):
        faults = [{"id": fault.number, "hits": fault.hits, **fault.rule} for fault in self.server.faults]
        return {"faults": faults, "parked": self.server.parked}

    def delete_faults(self, rest, body):
        before = len(self.server.faults)
        self.server.faults = [fault for fault in self.server.faults if rest and fault.number != int(rest[0])]
        return {"deleted": before - len(self.server.faults)}

    def post_release(self, rest, body):
        released, self.server.parked = self.server.parked, 0
        self.server.released.set()
        self.server.released = asyncio.Event()
        return {"released": released}

    def get_watches(self, rest, body):
        return {"watches": [{"user": watch.request.user, "client": watch.request.client, "name": watch.request.any_name,
                             "namespace": watch.request.namespace, "connection": watch.connection.number, "frozen": watch.frozen}
                            for watch in self.server.watches]}

    async def post_watches(self, rest, body):
        touched = list(self.server.watches)
        for watch in touched:
            if body["do"] == "freeze":
                watch.frozen = True
            elif body["do"] == "close":
                watch.queue.put_nowait(None)
            elif body["do"] in ("cut", "reset"):
                watch.connection.reset() if body["do"] == "reset" else watch.connection.writer.close()
            elif body["do"] == "error":
                watch.error(injected(body.get("code", 410)))
            elif body["do"] == "bookmark":
                watch.bookmark()
            elif body["do"] == "send":
                watch.queue.put_nowait(body["text"].encode())
            else:
                raise bad_request("do: one of freeze, close, cut, reset, error, bookmark, send")
        return {"watches": len(touched)}

    async def post_listen(self, rest, body):
        await self.listener.set_mode(body["mode"])
        if body.get("drop"):
            for connection in list(self.server.connections):
                connection.reset()
        return {"mode": body["mode"]}

    def get_requests(self, rest, body):
        counts = [{"user": user, "client": client, "verb": verb, "code": code, "count": count}
                  for (user, client, verb, code), count in sorted(self.server.counts.items(), key=str) if count]
        return {"total": self.server.request_number, "connections": self.server.connections_ever, "open": len(self.server.connections),
                "counts": counts}

    def delete_requests(self, rest, body):
        self.server.forget_requests()
        return {}

    def get_log(self, rest, body):
        return {"now": round(time.monotonic(), 6), "log": list(self.server.log)}

    def get_events(self, rest, body):
        return {"events": self.server.events}

    def get_pods(self, rest, body):
        return {"pods": self.server.pods}

    def put_pods(self, rest, body):
        self.server.pods["/".join(rest)] = body
        return {}

    def post_certificate(self, rest, body):
        """A new certificate, signed by "ca" or "other-ca": for connections from now on"""
        path = os.path.join(self.server.directory, "server-" + secrets.token_hex(4))
        make_certificate(os.path.join(self.server.directory, body["signer"]), path, "/CN=kube-apiserver",
                         ["subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost", "extendedKeyUsage=serverAuth"])
        self.listener.context.load_cert_chain(path + ".crt", path + ".key")
        return {"certificate": path + ".crt"}

    def post_users(self, rest, body):
        self.server.users[body["user"]] = (set(body["verbs"]), set(body["namespaces"]))
        return {}

    def post_tokens(self, rest, body):
        self.server.tokens[body["token"]] = body["user"]
        return {}

    def delete_tokens(self, rest, body):
        return {"user": self.server.tokens.pop(rest[0])}

    def post_rotate(self, rest, body):
        server = self.server
        user = body.get("user", "elector")
        server.tokens = {token: who for token, who in server.tokens.items() if who != user}
        token = f"{user}-{secrets.token_hex(12)}"
        server.tokens[token] = user
        if body.get("file", True):
            server.write_token(token)
        return {"token": token}

    def post_namespaces(self, rest, body):
        self.server.store.namespaces.add(body["name"])
        return {}

    def get_leases(self, rest, body):
        return self.server.store.get(*rest)

    def put_leases(self, rest, body):
        """As it is, unvalidated: what a client must expect of a store that it shares with others"""
        namespace, name = rest
        if not isinstance(body.get("spec", {}), dict) or not isinstance(body.get("metadata", {}), dict):
            raise bad_request("metadata, spec: objects (send anything else with the fault \"body\")")
        live = self.server.store.leases.get((namespace, name))
        meta = {"uid": live["metadata"]["uid"] if live else str(uuid.uuid4()), "creationTimestamp": second_time(utc_now()),
                **body.get("metadata", {}), "name": name, "namespace": namespace}
        return self.server.store.commit("MODIFIED" if live else "ADDED", {**body, "metadata": meta, "spec": body.get("spec", {})}, live)

    def delete_leases(self, rest, body):
        return self.server.store.delete(*rest, {})

    def post_versions(self, rest, body):
        self.server.store.version += int(body["bump"])
        return {"version": self.server.store.version}

    def post_compact(self, rest, body):
        self.server.store.compact()
        return {"version": self.server.store.version}

    def post_snapshot(self, rest, body):
        self.server.saved = (self.server.store.version, dict(self.server.store.leases))
        return {"version": self.server.store.version}

    def post_restore(self, rest, body):
        if self.server.saved is None:
            raise bad_request("no snapshot")
        self.server.store.version, leases = self.server.saved
        self.server.store.leases = dict(leases)
        self.server.store.compact()
        return {"version": self.server.store.version}

    def post_settings(self, rest, body):
        for key, value in body.items():
            if key not in self.server.settings:
                raise bad_request(f"{key}: unknown setting")
            self.server.settings[key] = value
        return self.server.settings

    async def post_reset(self, rest, body):
        self.post_release(rest, body)
        for connection in list(self.server.connections):
            connection.reset()
        await self.listener.set_mode("open")
        self.server.store.leases.clear()
        self.server.store.compact()
        self.server.defaults()
        return {"version": self.server.store.version}


# ---- listening -------------------------------------------------------------------------------------------------------------------------

class Listener:
    """The API's sockets on 127.0.0.1 and, where there is one, ::1 with the same port"""

    def __init__(self, server, context):
        self.server, self.context, self.mode, self.port = server, context, None, 0
        self.running, self.silent, self.ipv6 = [], [], False

    def bind(self, port):
        while True:
            sockets = [bound_socket(socket.AF_INET, "127.0.0.1", port)]
            try:
                sockets.append(bound_socket(socket.AF_INET6, "::1", sockets[0].getsockname()[1]))
                self.ipv6 = True
            except OSError as error:            # anything but a port that is taken: no IPv6 on this machine
                if error.errno == errno.EADDRINUSE and port == 0:
                    sockets[0].close()
                    continue
            return sockets

    async def set_mode(self, mode, port=None):
        if mode not in ("open", "refuse", "blackhole"):
            raise bad_request("mode: one of open, refuse, blackhole")
        if mode == self.mode:
            return
        for old in self.running + self.silent:
            old.close()
        self.running, self.silent = [], []
        self.mode = mode
        if mode == "refuse":
            return
        sockets = self.bind(self.port if port is None else port)
        self.port = sockets[0].getsockname()[1]
        if mode == "blackhole":                 # the kernel completes TCP, nobody ever speaks TLS
            for sock in sockets:
                sock.listen(128)
            self.silent = sockets
        else:
            self.running = [await asyncio.start_server(self.server.on_connection, sock=sock, ssl=self.context, limit=HEADERS_MAX, backlog=512)
                            for sock in sockets]


def bound_socket(family, address, port):
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
    except OSError:
        sock.close()
        raise
    return sock


# ---- certificates ----------------------------------------------------------------------------------------------------------------------

def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
EXPIRING_CA = """[ca]
default_ca = d
[d]
database = {path}.db
new_certs_dir = {directory}
rand_serial = yes
default_md = sha256
policy = p
[p]
commonName = supplied
"""


def make_ca(path, name):
    openssl("req", "-x509", *NEW_KEY, "-days", "2", "-subj", f"/CN={name}", "-keyout", path + ".key", "-out", path + ".crt",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")


def make_certificate(ca, path, subject, extensions, expired=False):
    openssl("req", *NEW_KEY, "-subj", subject, "-keyout", path + ".key", "-out", path + ".csr")
    with open(path + ".ext", "w", encoding="ascii") as file:
        file.write("\n".join(extensions) + "\n")
    if expired:                                 # "x509 -days" cannot go back in time, "ca" can
        with open(path + ".cnf", "w", encoding="ascii") as file:
            file.write(EXPIRING_CA.format(path=path, directory=os.path.dirname(path)))
        open(path + ".db", "w", encoding="ascii").close()
        openssl("ca", "-batch", "-notext", "-config", path + ".cnf", "-cert", ca + ".crt", "-keyfile", ca + ".key",
                "-startdate", "20200101000000Z", "-enddate", "20200102000000Z", "-extfile", path + ".ext",
                "-in", path + ".csr", "-out", path + ".crt")
    else:
        openssl("x509", "-req", "-CA", ca + ".crt", "-CAkey", ca + ".key", "-CAcreateserial", "-days", "2", "-extfile", path + ".ext",
                "-in", path + ".csr", "-out", path + ".crt")


def make_certificates(directory, names, expired):
    at = lambda name: os.path.join(directory, name)
    make_ca(at("ca"), "leader.h test CA")
    make_ca(at("other-ca"), "an unrelated CA")
    make_certificate(at("ca"), at("server"), "/CN=kube-apiserver", [f"subjectAltName={names}", "extendedKeyUsage=serverAuth"], expired)
    make_certificate(at("ca"), at("client"), "/CN=elector", ["extendedKeyUsage=clientAuth"])


def tls_context(directory, tls_max):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(directory, "server.crt"), os.path.join(directory, "server.key"))
    context.load_verify_locations(os.path.join(directory, "ca.crt"))
    context.verify_mode = ssl.CERT_OPTIONAL     # a client certificate names the user, where there is one
    context.set_alpn_protocols(["http/1.1"])
    if tls_max == "1.1":                        # so old that a client must refuse it
        warnings.simplefilter("ignore", DeprecationWarning)
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context


# ---- start and end -----------------------------------------------------------------------------------------------------------------------

def ready_text(directory, listener, control_port):
    at = lambda name: os.path.join(directory, name)
    port = listener.port
    return json.dumps({"pid": os.getpid(), "port": port, "url": f"https://127.0.0.1:{port}",
                       "url6": f"https://[::1]:{port}" if listener.ipv6 else None,
                       "control": f"http://127.0.0.1:{control_port}", "control_port": control_port,
                       "ca": at("ca.crt"), "other_ca": at("other-ca.crt"), "client_cert": at("client.crt"), "client_key": at("client.key"),
                       "service_account": at("serviceaccount"), "kubeconfig": at("kubeconfig"), "namespace": "default",
                       "tokens": {"elector": "elector-token", "watcher": "watcher-token", "admin": "admintoken", "nobody": "noaccess-token"}})


def write_files(directory, ready):
    """The kubeconfig is JSON, which is YAML."""
    facts = json.loads(ready)
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "test",
              "clusters": [{"name": "test", "cluster": {"server": facts["url"], "certificate-authority": facts["ca"]}}],
              "users": [{"name": "admin", "user": {"token": facts["tokens"]["admin"]}}],
              "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin", "namespace": "default"}}]}
    for name, text in (("kubeconfig", json.dumps(config)), ("ready", ready + "\n")):
        path = os.path.join(directory, name)
        with open(path + ".new", "w", encoding="ascii", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
            file.write(text)
        os.replace(path + ".new", path)


def watch_for_end():
    """-> Event: SIGTERM, SIGINT, or the end of a piped standard input"""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    mode = os.fstat(0).st_mode if is_open(0) else 0
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        loop.add_reader(0, lambda: os.read(0, 4096) or over.set())
    return over


async def wait_for_end(over, parent):
    while not over.is_set() and os.getppid() == parent:
        try:
            await asyncio.wait_for(over.wait(), 0.25)
        except asyncio.TimeoutError:
            pass


def is_open(fd):
    try:
        os.fstat(fd)
        return True
    except OSError:
        return False


async def run(options, parent):
    over = watch_for_end()
    os.makedirs(os.path.join(options.dir, "serviceaccount"), exist_ok=True)
    make_certificates(options.dir, options.cert_names, options.expired)
    shutil.copy(os.path.join(options.dir, "ca.crt"), os.path.join(options.dir, "serviceaccount", "ca.crt"))
    with open(os.path.join(options.dir, "serviceaccount", "namespace"), "w", encoding="ascii") as file:
        file.write("default")
    server = Server(options.dir, options.first_version)
    listener = Listener(server, tls_context(options.dir, options.tls_max))
    await listener.set_mode("open", options.port)
    control = await asyncio.start_server(Control(server, listener).on_connection, "127.0.0.1", options.control_port, limit=HEADERS_MAX)
    ready = ready_text(options.dir, listener, control.sockets[0].getsockname()[1])
    write_files(options.dir, ready)
    print(ready, flush=True)
    await wait_for_end(over, parent)


def main():
    parent = os.getppid()
    parser = argparse.ArgumentParser(description="a small Kubernetes API server for tests")
    parser.add_argument("--dir", help="where certificates, tokens and the ready file go (default: a new directory, removed at the end)")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--control-port", type=int, default=0)
    parser.add_argument("--rm", action="store_true", help="remove the directory at the end")
    parser.add_argument("--first-version", type=int, default=200, help="resourceVersion before the first write")
    parser.add_argument("--cert-names", default="IP:127.0.0.1,IP:::1,DNS:localhost", help="subjectAltName of the server's certificate")
    parser.add_argument("--expired", action="store_true", help="a server certificate that has expired")
    parser.add_argument("--tls-max", choices=["1.1", "1.3"], default="1.3")
    options = parser.parse_args()
    remove = options.rm or not options.dir
    options.dir = os.path.abspath(options.dir or tempfile.mkdtemp(prefix="k8s-server-"))
    try:
        asyncio.run(run(options, parent))
    except subprocess.CalledProcessError as error:
        sys.exit(f"k8s_server.py: openssl: {error.stderr.decode('utf-8', 'replace').strip()}")
    except OSError as error:
        sys.exit(f"k8s_server.py: {error}")
    finally:
        if remove:
            shutil.rmtree(options.dir, ignore_errors=True)


if __name__ == "__main__":
    main()

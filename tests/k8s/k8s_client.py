"""The test API server from a Python test: start it, steer it, speak to it.

    with Server() as server:
        server.control("POST", "/faults", {"do": "status", "code": 503})
        code, body = server.api("GET", server.lease_path("demo"), token="elector-token")
"""
import http.client
import json
import os
import ssl
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


class Server:
    """Runs k8s_server.py in a directory of its own; both are gone after stop(), or when this process is killed."""

    def __init__(self, *options, directory=None):
        self.options, self.parent = options, directory

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="k8s-server-", dir=self.parent)
        command = [sys.executable, os.path.join(HERE, "k8s_server.py"), "--dir", self.directory, "--rm", *self.options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise RuntimeError(f"k8s_server.py ended with {self.process.returncode} before it was ready")
        self.ready = json.loads(line)
        self.port, self.tokens = self.ready["port"], self.ready["tokens"]
        self.trust = ssl.create_default_context(cafile=self.ready["ca"])
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.stdin.close()              # the server ends when its standard input does
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def control(self, method, path, body=None):
        """-> the answer's object; a refusal is an exception"""
        connection = http.client.HTTPConnection("127.0.0.1", self.ready["control_port"], timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Connection": "close"})
            reply = connection.getresponse()
            answer = json.loads(reply.read())
        finally:
            connection.close()
        if reply.status != 200:
            raise ValueError(f"{method} {path}: {answer.get('error', answer)}")
        return answer

    def connect(self, timeout_s=30):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.trust, timeout=timeout_s)

    def api(self, method, path, body=None, token="admintoken", headers=None, connection=None):
        """-> (status, object or bytes)"""
        code, _, data = self.exchange(method, path, body, token, headers, connection)
        try:
            return code, json.loads(data)
        except ValueError:
            return code, data

    def exchange(self, method, path, body=None, token="admintoken", headers=None, connection=None):
        """-> (status, [(header, value)], bytes)"""
        own = connection or self.connect()
        sent = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
        try:
            own.request(method, path, body.encode() if isinstance(body, str) else body, sent)
            reply = own.getresponse()
            return reply.status, reply.getheaders(), reply.read()
        finally:
            if connection is None:
                own.close()

    @staticmethod
    def lease_path(name="", namespace="default"):
        return LEASES.format(namespace) + (f"/{name}" if name else "")

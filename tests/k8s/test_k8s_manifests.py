#!/usr/bin/env python3
"""examples/k8s: the manifests say what they should, and the image they describe works as a pod.

kubectl (--dry-run=client, with k8s_server.py for its questions) parses the YAML. The Dockerfile's own build command makes the root file system in a
temporary directory; the program runs in it with chroot, as the Dockerfile's user, with the Deployment's arguments and environment, a pod's
service account files, and no more rights than the Role gives.
"""
import http.client
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from k8s_client import HERE, Server

TOP = os.path.dirname(os.path.dirname(HERE))
EXAMPLE = os.path.join(TOP, "examples", "k8s")
ELECTION_VERBS, WATCH_VERBS = ["get", "create", "update"], ["watch", "list"]
LIMIT_S = 60


class Failed(Exception):
    pass


def expect(what, seen, wanted):
    if seen != wanted:
        raise Failed(f"{what}: {seen!r} instead of {wanted!r}")


def wait_until(what, condition):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not after {LIMIT_S} s")
        time.sleep(0.05)


def parse_manifests(server, name):
    """{kind: object} as kubectl understands the file"""
    command = [os.environ.get("KUBECTL") or "kubectl", "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", os.path.join(EXAMPLE, name)]
    environment = {"PATH": os.environ["PATH"], "HOME": server.directory, "KUBECONFIG": server.ready["kubeconfig"]}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise Failed(f"kubectl: {done.stderr.strip()}")
    found, text = {}, done.stdout.strip()
    while text:                                 # one JSON object after the other, or a List of them
        document, end = json.JSONDecoder().raw_decode(text)
        text = text[end:].strip()
        found.update({item["kind"]: item for item in document.get("items", [document])})
    return found


def parse_dockerfile():
    """[(stage's image, [(instruction, rest)])]"""
    with open(os.path.join(EXAMPLE, "Dockerfile"), encoding="ascii") as file:
        text = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", file.read()))
    stages = []
    for line in filter(str.strip, text.splitlines()):
        word, rest = line.split(None, 1)
        if word == "FROM":
            stages.append((rest, []))
        else:
            stages[-1][1].append((word, rest))
    return stages


class Example:
    def __init__(self, server, directory):
        self.server, self.directory = server, directory
        self.objects = {**parse_manifests(server, "rbac.yaml"), **parse_manifests(server, "deployment.yaml"),
                        **parse_manifests(server, "service.yaml")}
        self.stages = parse_dockerfile()

    @property
    def container(self):
        return self.objects["Deployment"]["spec"]["template"]["spec"]["containers"][0]

    def final(self, word):
        return next(rest for instruction, rest in self.stages[-1][1] if instruction == word)


def test_role(example):
    wanted = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs} for verbs in (ELECTION_VERBS, WATCH_VERBS)]
    expect("rules", example.objects["Role"]["rules"], wanted)


def test_role_is_enough(example):
    """What each rule allows and forbids, tried out by a user who has it"""
    server, path = example.server, example.server.lease_path
    rules = example.objects["Role"]["rules"]
    for verbs, watch_code in ((rules[0]["verbs"], 403), (rules[0]["verbs"] + rules[1]["verbs"], 200)):
        server.control("POST", "/users", {"user": "pod", "verbs": verbs, "namespaces": ["default"]})
        server.control("POST", "/tokens", {"token": "pod-token", "user": "pod"})
        ask = lambda method, where, body=None: server.api(method, where, body, token="pod-token")
        expect("create", ask("POST", path(), {"metadata": {"name": "x"}, "spec": {"holderIdentity": "a"}})[0], 201)
        code, lease = ask("GET", path("x"))
        lease["spec"]["holderIdentity"] = "b"
        expect("get, update", (code, ask("PUT", path("x"), lease)[0]), (200, 200))
        expect("delete", ask("DELETE", path("x"))[0], 403)
        expect("watch", ask("GET", path() + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dx")[0], watch_code)
        server.api("DELETE", path("x"))


def test_binding(example):
    account, binding, role = (example.objects[kind] for kind in ("ServiceAccount", "RoleBinding", "Role"))
    expect("roleRef", binding["roleRef"], {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role["metadata"]["name"]})
    expect("subjects", binding["subjects"], [{"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": account["metadata"]["namespace"]}])
    expect("namespaces", {item["metadata"]["namespace"] for item in example.objects.values()}, {"default"})


def test_deployment(example):
    spec = example.objects["Deployment"]["spec"]
    pod = spec["template"]["spec"]
    expect("more than one pod", spec["replicas"] > 1, True)
    expect("selector", spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"])
    expect("account", pod["serviceAccountName"], example.objects["ServiceAccount"]["metadata"]["name"])
    expect("not root", pod["securityContext"]["runAsNonRoot"], True)
    expect("locked down", {key: example.container["securityContext"][key] for key in ("allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities")},
           {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}})


def test_service(example):
    """The leader alone: the pods' own labels, and the one that a pod gives itself"""
    spec, template = example.objects["Service"]["spec"], example.objects["Deployment"]["spec"]["template"]
    expect("selector", spec["selector"], {**template["metadata"]["labels"], "leader-h/role": "leader"})
    expect("port", spec["ports"][0]["targetPort"], example.container["ports"][0]["name"])


def test_downward_api(example):
    fields = {entry["name"]: entry["valueFrom"]["fieldRef"]["fieldPath"] for entry in example.container["env"]}
    expect("environment", fields, {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"})


def test_probes(example):
    expect("port", [port["containerPort"] for port in example.container["ports"]], [8080])
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        expect(probe, example.container[probe]["httpGet"], {"path": path, "port": 8080})


def test_dockerfile(example):
    expect("last stage", example.stages[-1][0], "scratch")
    uid, gid = example.final("USER").split(":")
    pod = example.objects["Deployment"]["spec"]["template"]["spec"]["securityContext"]
    expect("user", (int(uid), int(gid)), (pod["runAsUser"], pod["runAsGroup"]))
    expect("port", example.final("EXPOSE"), "8080")
    with open(os.path.join(EXAMPLE, "README.md"), encoding="utf-8") as file:
        expect("image named in the README", example.container["image"] in file.read(), True)


def build_root(example):
    """The build stage's COPY and its last RUN, with the image's two directories moved into ours"""
    moved = {"/src": os.path.join(example.directory, "src"), "/rootfs": os.path.join(example.directory, "rootfs")}
    os.makedirs(moved["/src"])
    for word, rest in example.stages[0][1]:
        if word == "COPY":
            *sources, target = rest.split()
            for source in sources:
                path, to = os.path.join(TOP, source), target.replace("/src", moved["/src"])
                if not os.path.exists(path):
                    raise Failed(f"the Dockerfile copies {source}, which is not there")
                shutil.copytree(path, to) if os.path.isdir(path) else shutil.copy(path, to)
    build = [rest for word, rest in example.stages[0][1] if word == "RUN"][-1].replace("/rootfs", shlex.quote(moved["/rootfs"]))
    done = subprocess.run(["sh", "-c", build], cwd=moved["/src"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode != 0:
        raise Failed(f"{build}: {done.stdout.strip()}")
    return moved["/rootfs"]


def start_pod(example, root, name, port):
    secrets = os.path.join(root, "var", "run", "secrets", "kubernetes.io", "serviceaccount")
    shutil.copytree(example.server.ready["service_account"], secrets)
    subprocess.run(["chmod", "-R", "a+rX", example.directory], check=True)
    fields = {"metadata.name": name, "metadata.namespace": "default"}
    environment = {entry["name"]: fields[entry["valueFrom"]["fieldRef"]["fieldPath"]] for entry in example.container["env"]}
    environment.update(KUBERNETES_SERVICE_HOST="127.0.0.1", KUBERNETES_SERVICE_PORT=str(example.server.port))
    arguments = [argument.replace("0.0.0.0:8080", f"127.0.0.1:{port}") for argument in example.container["args"]]
    command = [shutil.which("chroot") or "/usr/sbin/chroot", f"--userspec={example.final('USER')}", root, *json.loads(example.final("ENTRYPOINT")), *arguments]
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def probe(port, path):
    """-> (status, body); status 0: nobody there"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


def test_pod(example):
    """Starts, leads under its pod's name, has the Service's label, answers its probes, and releases the Lease and the label on SIGTERM"""
    root = build_root(example)
    rights = [verb for rule in example.objects["Role"]["rules"] for verb in rule["verbs"]] + ["pods"]
    example.server.control("POST", "/users", {"user": "elector", "verbs": rights, "namespaces": ["default"]})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lease = lambda: example.server.api("GET", example.server.lease_path("leader-demo"))
    example.server.control("PUT", "/pods/default/leader-demo-7d4b9-x2x", {})
    role = lambda: example.server.control("GET", "/pods")["pods"]["default/leader-demo-7d4b9-x2x"].get("leader-h/role")
    example.container["args"].append("--label-pod")
    pod = start_pod(example, root, "leader-demo-7d4b9-x2x", port)
    try:
        wait_until("leads under its pod's name", lambda: lease()[1].get("spec", {}).get("holderIdentity") == "leader-demo-7d4b9-x2x")
        wait_until("has the label", lambda: role() == "leader")
        for name in ("livenessProbe", "readinessProbe"):
            path = example.container[name]["httpGet"]["path"]
            wait_until(f"{path} answers 200", lambda: probe(port, path)[0] == 200)
        expect("readyz names the leader", b"leader-demo-7d4b9-x2x" in probe(port, "/readyz")[1], True)
        pod.send_signal(signal.SIGTERM)
        pod.wait(LIMIT_S)
        expect("released", lease()[1]["spec"].get("holderIdentity", ""), "")
        wait_until("the label is off", lambda: role() == "standby")
    finally:
        if pod.poll() is None:
            pod.kill()
            pod.wait()


TESTS = [test_role, test_role_is_enough, test_binding, test_deployment, test_service, test_downward_api, test_probes, test_dockerfile, test_pod]


def main():
    passed, failed = 0, 0
    with Server() as server, tempfile.TemporaryDirectory(prefix="k8s-manifests-") as directory:
        example = Example(server, directory)
        for test in TESTS:
            try:
                test(example)
                passed += 1
                print(f"ok   {test.__name__}")
            except (Failed, KeyError, IndexError, StopIteration) as fault:
                failed += 1
                print(f"FAIL {test.__name__}: {type(fault).__name__}: {fault}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

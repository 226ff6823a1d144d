"""What kubectl asks before and around a request: discovery documents, version, and Leases as table rows."""
import datetime

from k8s_lease import API_VERSION, Refusal, go_quote, utc_now

LEASE_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def resource(name, singular, kind, verbs=None, short=None):
    entry = {"name": name, "singularName": singular, "namespaced": name != "namespaces", "kind": kind, "verbs": verbs or ["create", "get"]}
    return {**entry, "shortNames": short} if short else entry


# Only Leases are served; the others are listed so that kubectl can map the manifests under examples/k8s to them.
RESOURCES = {
    "v1": [resource("namespaces", "namespace", "Namespace", short=["ns"]), resource("serviceaccounts", "serviceaccount", "ServiceAccount", short=["sa"]),
           resource("services", "service", "Service", short=["svc"])],
    API_VERSION: [resource("leases", "lease", "Lease", LEASE_VERBS)],
    "apps/v1": [resource("deployments", "deployment", "Deployment", short=["deploy"])],
    "rbac.authorization.k8s.io/v1": [resource("roles", "role", "Role"), resource("rolebindings", "rolebinding", "RoleBinding")],
}
PUBLIC = {"/version", "/healthz", "/livez", "/readyz"}


def group_document(version):
    group = version.split("/")[0]
    entry = {"groupVersion": version, "version": version.split("/")[1]}
    return {"name": group, "versions": [entry], "preferredVersion": entry}


def resource_list(version):
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": RESOURCES[version]}


def documents():
    groups = [version for version in RESOURCES if "/" in version]
    found = {"/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
             "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group_document(version) for version in groups]},
             "/version": {"major": "1", "minor": "26", "gitVersion": "v1.26.0", "gitCommit": "b46a3f887ca979b1a5d14fd39cb1af43e7e5d12d", "gitTreeState": "clean",
                          "buildDate": "2022-12-08T19:51:45Z", "goVersion": "go1.19.4", "compiler": "gc", "platform": "linux/amd64"}}
    for version in RESOURCES:
        found[("/apis/" if "/" in version else "/api/") + version] = resource_list(version)
    for version in groups:
        found["/apis/" + version.split("/")[0]] = {"kind": "APIGroup", "apiVersion": "v1", **group_document(version)}
    for path in PUBLIC - {"/version"}:
        found[path] = b"ok"
    return found


DOCUMENTS = documents()


def document(request, users):
    """-> (code, object or bytes)"""
    if request.path not in PUBLIC and request.user not in users:
        verb = request.method.lower()
        raise Refusal(403, "Forbidden", f"forbidden: User {go_quote(request.user)} cannot {verb} path {go_quote(request.path)}", {})
    if request.method == "GET" and request.path in DOCUMENTS:
        return 200, DOCUMENTS[request.path]
    return 404, b"404 page not found\n"


def accepts_json(accept):
    return any(part.split(";")[0].strip() in ("application/json", "application/*", "*/*") for part in accept.split(","))


def wants_table(accept):
    """kubectl lists what it takes in order of preference; tables come first in its list."""
    first = accept.split(",")[0].replace(" ", "")
    return "as=Table" in first and "v=v1;" in first + ";"


COLUMNS = [{"name": "Name", "type": "string", "format": "name", "description": "Name must be unique within a namespace.", "priority": 0},
           {"name": "Holder", "type": "string", "format": "", "description": "contains the identity of the holder of a current lease.", "priority": 0},
           {"name": "Age", "type": "string", "format": "", "description": "time since the Lease was created", "priority": 0}]


def age(created):
    try:
        seconds = int((utc_now() - datetime.datetime.strptime(created, "%Y-%m-%dT%H:%M:%SZ")).total_seconds())
    except (TypeError, ValueError):
        return "<unknown>"
    for limit, unit, name in ((120, 1, "s"), (3 * 3600, 60, "m"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{max(0, seconds) // unit}{name}"
    return f"{seconds // 86400}d"


def table(leases, meta, include, with_columns=True):
    rows = []
    for lease in leases:
        row = {"cells": [lease["metadata"]["name"], lease["spec"].get("holderIdentity", ""), age(lease["metadata"].get("creationTimestamp"))]}
        if include == "Object":
            row["object"] = lease
        elif include == "Metadata":
            row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": lease["metadata"]}
        rows.append(row)
    return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": meta["resourceVersion"]},
            "columnDefinitions": COLUMNS if with_columns else None, "rows": rows}

"""What a kube-apiserver does with coordination.k8s.io/v1 Leases: decoding, validation, field ownership, versions and history.

No network in here: k8s_server.py puts HTTP, TLS, users and faults around it. The texts of refusals are those of a real v1.26
server (tests/k8s/wire holds the recordings), down to the wording of its language's JSON and time parsers, because a client
that quotes "the server's own message" is tested with exactly these.
"""
import bisect
import datetime
import json
import random
import re
import string
import uuid

GROUP = "coordination.k8s.io"
API_VERSION = GROUP + "/v1"
INT32_MAX = 2**31 - 1
ANNOTATIONS_MAX = 256 * 1024
HISTORY_MAX = 10000


class Refusal(Exception):
    """An answer that is not a success: becomes a Status object."""

    def __init__(self, code, reason, message, details=None):
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def status(self):
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message}
        if self.reason:
            body["reason"] = self.reason
        if self.details:
            body["details"] = self.details
        body["code"] = self.code
        return body


def lease_details(name, kind="leases"):
    details = {"name": name, "group": GROUP, "kind": kind}
    if not name:
        del details["name"]
    return details


def bad_request(message):
    return Refusal(400, "BadRequest", message)


def not_found(name):
    return Refusal(404, "NotFound", f'leases.{GROUP} {go_quote(name)} not found', lease_details(name))


def conflict(name, why):
    return Refusal(409, "Conflict", f'Operation cannot be fulfilled on leases.{GROUP} {go_quote(name)}: {why}', lease_details(name))


def invalid(kind, name, causes):
    """causes: [(field, text, reason)], listed in the message as a list only where there are several"""
    texts = [f"{field}: {text}" for field, text, _ in causes]
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = lease_details(name, kind)
    details["causes"] = [{"reason": reason, "message": text, "field": field} for field, text, reason in causes]
    return Refusal(422, "Invalid", f"{kind}.{GROUP} {go_quote(name)} is invalid: {listed}", details)


def failed_precondition(what, wanted, stored):
    return f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {stored}"


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


# ---- JSON, as the server reads and writes it ---------------------------------------------------------------------------------

class Number(str):
    """A number as it was written: 1.5 and 15.0 are refused for an int32 with their own text."""


def go_quote(text):
    out = ['"']
    for c in text:
        if c in '"\\':
            out.append("\\" + c)
        elif c in "\n\r\t":
            out.append({"\n": "\\n", "\r": "\\r", "\t": "\\t"}[c])
        else:
            out.append(c if c.isprintable() else f"\\x{ord(c):02x}" if ord(c) < 128 else f"\\u{ord(c):04x}")
    return "".join(out) + '"'


def go_syntax_error(error):
    """The Go parser's words for what Python's parser found."""
    text, at = error.doc, error.pos
    if error.msg.startswith("Unterminated string") or at >= len(text):
        return "unexpected end of JSON input"
    context = {"Expecting value": "looking for beginning of value",
               "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
               "Expecting ':' delimiter": "after object key",
               "Expecting ',' delimiter": "after array element" if in_array(text, at) else "after object key:value pair",
               "Extra data": "after top-level value",
               "Invalid control character at": "in string literal"}.get(error.msg, "in string escape code")
    return f"invalid character {quote_char(text[at])} {context}"


def quote_char(c):
    return {"'": "'\\''", '"': "'\"'"}.get(c, "'" + go_quote(c)[1:-1] + "'")


def in_array(text, at):
    """Is the innermost bracket that is open at this place a square one?"""
    opened = []
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text[:at]):
        if token.group() in ("[", "{"):
            opened.append(token.group())
        elif token.group() in ("]", "}") and opened:
            opened.pop()
    return bool(opened) and opened[-1] == "["


def refuse_constant(name):
    raise ValueError(f"invalid character {quote_char(name[0])} looking for beginning of value")


def parse_json(body):
    """Raises ValueError with the Go parser's text."""
    text = body.decode("utf-8", "replace")
    try:
        tree = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(go_syntax_error(error)) from None
    except RecursionError:
        raise ValueError("exceeded max depth") from None
    return tree


def summarize(body):
    if not body:
        return "<empty>"
    shown = body[:30]
    text = shown.decode("utf-8", "replace") if body[:1] == b"{" else shown.hex()
    return text + (" ..." if len(body) > 30 else "")


GO_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029",
              "\\b": "\\u0008", "\\f": "\\u000c"}


def to_json(obj, pretty=False):
    """One line with a line feed at its end, the three HTML characters escaped, all else plain UTF-8: the real server's habit."""
    text = json.dumps(obj, ensure_ascii=False, indent=2 if pretty else None, separators=None if pretty else (",", ":"))
    text = re.sub(r'\\.|[<>&\u2028\u2029]', lambda m: GO_ESCAPES.get(m.group(), m.group()), text)
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    return text.encode() + b"\n"


# ---- time ---------------------------------------------------------------------------------------------------------------------

MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
SECOND_LAYOUT = "2006-01-02T15:04:05Z07:00"
PIECES = [("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T"), ("15", r"\d\d?"), (":", ":"),
          ("04", r"\d\d"), (":", ":"), ("05", r"\d\d")]
ZONE = ("Z07:00", r"Z|[+-]\d\d:\d\d")


def parse_time(text, micro):
    """A UTC datetime; raises ValueError with the text of Go's time.Parse. With micro exactly six digits, else any fraction."""
    fraction = (".000000", r"[.,]\d{6}") if micro else ("", r"(?:[.,]\d+)?")
    rest, found = text, []
    for name, pattern in PIECES + [fraction, ZONE]:
        match = re.match(pattern, rest)
        if not match:
            layout = MICRO_LAYOUT if micro else SECOND_LAYOUT
            raise ValueError(f"parsing time {go_quote(text)} as {go_quote(layout)}: cannot parse {go_quote(rest)} as {go_quote(name)}")
        found.append(match.group())
        rest = rest[match.end():]
    if rest:
        raise ValueError(f"parsing time {go_quote(text)}: extra text: {go_quote(rest)}")
    year, month, day, hour, minute, second = (int(found[i]) for i in (0, 2, 4, 6, 8, 10))
    for name, value, low, high in (("month", month, 1, 12), ("hour", hour, 0, 23), ("minute", minute, 0, 59), ("second", second, 0, 59)):
        if not low <= value <= high:
            raise ValueError(f"parsing time {go_quote(text)}: {name} out of range")
    microseconds = int((found[11][1:] + "000000")[:6])
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second, microseconds)
    except ValueError:
        raise ValueError(f"parsing time {go_quote(text)}: day out of range") from None
    if found[12] != "Z":
        offset = datetime.timedelta(hours=int(found[12][1:3]), minutes=int(found[12][4:6]))
        moment -= offset if found[12][0] == "+" else -offset
    return moment


def micro_time(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond:06d}Z"


def second_time(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_now():
    return datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)


# ---- decoding a Lease -----------------------------------------------------------------------------------------------------------
# A type is a word below, ("map", type), ("list", type) or ("struct", Go name, {field: type}). The order of fields is that of the
# answer.

OWNER = ("struct", "v1.OwnerReference", {"apiVersion": "string", "kind": "string", "name": "string", "uid": "string",
                                         "controller": "bool", "blockOwnerDeletion": "bool"})
MANAGED = ("struct", "v1.ManagedFieldsEntry", {"manager": "string", "operation": "string", "apiVersion": "string", "time": "time",
                                               "fieldsType": "string", "fieldsV1": "any", "subresource": "string"})
META = ("struct", "v1.ObjectMeta", {
    "name": "string", "generateName": "string", "namespace": "string", "selfLink": "string", "uid": "string", "resourceVersion": "string",
    "generation": "int64", "creationTimestamp": "time", "deletionTimestamp": "time", "deletionGracePeriodSeconds": "int64",
    "labels": ("map", "string"), "annotations": ("map", "string"), "ownerReferences": ("list", OWNER), "finalizers": ("list", "string"),
    "managedFields": ("list", MANAGED)})
SPEC = ("struct", "v1.LeaseSpec", {
    "holderIdentity": "string", "leaseDurationSeconds": "int32", "acquireTime": "microtime", "renewTime": "microtime",
    "leaseTransitions": "int32", "strategy": "string", "preferredHolder": "string"})
LEASE = ("struct", "v1.Lease", {"kind": "string", "apiVersion": "string", "metadata": META, "spec": SPEC})


def type_text(kind):
    if isinstance(kind, str):
        return {"microtime": "string", "time": "string"}.get(kind, kind)
    if kind[0] == "struct":
        return kind[1]
    return ("map[string]" if kind[0] == "map" else "[]") + type_text(kind[1])


def json_kind(value):
    if isinstance(value, Number):
        return "number"
    return {bool: "bool", str: "string", dict: "object", list: "array"}[type(value)]


class Decoder:
    """Turns a tree of parse_json into the server's own form: known fields only, in the server's order, empty ones left out."""

    def __init__(self, keep_unknown=False):
        self.keep_unknown = keep_unknown
        self.unknown = []

    def mismatch(self, value, kind, owner, path):
        if kind in ("time", "microtime"):
            return ValueError(f"json: cannot unmarshal {json_kind(value)} into Go value of type string")
        shown = json_kind(value) + (" " + value if isinstance(value, Number) and kind in ("int32", "int64") else "")
        place = f"Go struct field {owner}.{'.'.join(path)}" if path else "Go value"
        return ValueError(f"json: cannot unmarshal {shown} into {place} of type {type_text(kind)}")

    def value(self, value, kind, owner="", path=()):
        if kind == "any":
            return plain(value)
        if isinstance(kind, tuple):
            return self.composite(value, kind, owner, path)
        wanted = {"string": str, "bool": bool, "int32": Number, "int64": Number, "time": str, "microtime": str}[kind]
        if not isinstance(value, wanted) or (wanted is str and isinstance(value, Number)):
            raise self.mismatch(value, kind, owner, path)
        if wanted is Number:
            limit = INT32_MAX if kind == "int32" else 2**63 - 1
            if not re.fullmatch(r"-?\d+", value) or not -limit - 1 <= int(value) <= limit:
                raise self.mismatch(value, kind, owner, path)
            return int(value)
        if kind == "microtime":
            return micro_time(parse_time(value, True))
        if kind == "time":
            return second_time(parse_time(value, False))
        return value

    def composite(self, value, kind, owner, path):
        if not isinstance(value, list if kind[0] == "list" else dict):
            raise self.mismatch(value, kind, owner, path)
        if kind[0] == "list":
            return [self.value(v, kind[1], owner, path) for v in value if v is not None]
        if kind[0] == "map":
            return {k: "" if v is None else self.value(v, kind[1], owner, path) for k, v in sorted(value.items())}
        return self.struct(value, kind, path)

    def struct(self, value, kind, path):
        name, fields = kind[1].split(".")[-1], kind[2]
        found = {}
        for key, item in value.items():        # in the order of the text: the first mistake in it is the one reported
            if key not in fields:
                self.unknown.append(".".join(path + (key,)))
                if self.keep_unknown:
                    found[key] = plain(item)
            elif item is not None:
                found[key] = self.value(item, fields[key], name, path + (key,))
        return {key: found[key] for key in [*fields, *(k for k in found if k not in fields)] if key in found}


def plain(value):
    """A tree without Number"""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, Number):
        return int(value) if re.fullmatch(r"-?\d+", value) else float(value)
    return value


def decode_lease(body, keep_unknown=False, strict=False):
    try:
        tree = parse_json(body)
        if not isinstance(tree, dict):
            raise ValueError(f"json: cannot unmarshal {'null' if tree is None else json_kind(tree)} into Go value of type "
                             "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }")
        for key in ("apiVersion", "kind"):
            if tree.get(key) is not None and json_kind(tree[key]) != "string":
                raise ValueError(f"json: cannot unmarshal {json_kind(tree[key])} into Go struct field .{key} of type string")
    except ValueError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type Lease): couldn't get version/kind; "
                          f"json parse error: {error} ({summarize(body)})") from None
    return decode_tree(tree, keep_unknown, strict)


def decode_tree(tree, keep_unknown=False, strict=False):
    kind, version = tree.get("kind") or "Lease", tree.get("apiVersion") or API_VERSION
    short = version.rpartition("/")[2]
    if (kind, version) != ("Lease", API_VERSION):
        raise bad_request(f'{kind} in version "{short}" cannot be handled as a Lease: no kind {go_quote(kind)} is registered for version '
                          f'{go_quote(version)} in scheme "pkg/api/legacyscheme/scheme.go:30"')
    decoder = Decoder(keep_unknown)
    try:
        lease = decoder.value(tree, LEASE)
    except ValueError as error:
        raise bad_request(f'Lease in version "v1" cannot be handled as a Lease: {error}') from None
    if strict and decoder.unknown:
        listed = ", ".join(f'unknown field "{name}"' for name in decoder.unknown)
        raise bad_request(f'Lease in version "v1" cannot be handled as a Lease: strict decoding error: {listed}')
    meta = {k: v for k, v in lease.get("metadata", {}).items() if v or v is False}
    return {"kind": "Lease", "apiVersion": API_VERSION, **{k: v for k, v in lease.items() if k not in ("kind", "apiVersion")},
            "metadata": meta, "spec": lease.get("spec", {})}


def in_order(meta):
    """Metadata in the server's order of fields"""
    known = META[2]
    return {key: meta[key] for key in [*known, *(k for k in meta if k not in known)] if key in meta}


# ---- validation -----------------------------------------------------------------------------------------------------------------

SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
SUBDOMAIN_TEXT = ("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
                  "alphanumeric character (e.g. 'example.com', regex used for validation is '" + SUBDOMAIN + "')")
NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
NAME_PART_TEXT = ("name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
                  "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '" + NAME_PART + "')")
LABEL_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
LABEL_VALUE_TEXT = ("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
                    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '" + LABEL_VALUE + "')")


def subdomain_faults(name):
    faults = [] if len(name) <= 253 else ["must be no more than 253 characters"]
    return faults if re.fullmatch(SUBDOMAIN, name) else faults + [SUBDOMAIN_TEXT]


def key_faults(key):
    prefix, slash, name = key.rpartition("/")
    faults = ["prefix part " + fault for fault in subdomain_faults(prefix)] if slash else []
    if not name:
        faults.append("name part must be non-empty")
    elif len(name) > 63:
        faults.append("name part must be no more than 63 characters")
    return faults if re.fullmatch(NAME_PART, name) else faults + [NAME_PART_TEXT]


def invalid_value(field, value, text):
    shown = go_quote(value) if isinstance(value, str) else value
    return (field, f"Invalid value: {shown}: {text}", "FieldValueInvalid")


def validate(lease):
    meta, spec = lease["metadata"], lease["spec"]
    causes = []
    if not meta.get("name"):
        causes.append(("metadata.name", "Required value: name or generateName is required", "FieldValueRequired"))
    else:
        causes += [invalid_value("metadata.name", meta["name"], fault) for fault in subdomain_faults(meta["name"])]
    for key, value in meta.get("labels", {}).items():
        causes += [invalid_value("metadata.labels", key, fault) for fault in key_faults(key)]
        if len(value) > 63:
            causes.append(invalid_value("metadata.labels", value, "must be no more than 63 characters"))
        if not re.fullmatch(LABEL_VALUE, value):
            causes.append(invalid_value("metadata.labels", value, LABEL_VALUE_TEXT))
    annotations = meta.get("annotations", {})
    for key in annotations:
        causes += [invalid_value("metadata.annotations", key, fault) for fault in key_faults(key.lower())]
    if sum(len(k.encode()) + len(v.encode("utf-8", "replace")) for k, v in annotations.items()) > ANNOTATIONS_MAX:
        causes.append(("metadata.annotations", f"Too long: must have at most {ANNOTATIONS_MAX} bytes", "FieldValueTooLong"))
    for i, owner in enumerate(meta.get("ownerReferences", [])):
        causes += [invalid_value(f"metadata.ownerReferences[{i}].{word}", "", f"{word} must not be empty")
                   for part, word in (("apiVersion", "version"), ("kind", "kind"), ("name", "name"), ("uid", "uid")) if not owner.get(part)]
    for finalizer in meta.get("finalizers", []):
        causes += [invalid_value("metadata.finalizers", finalizer, fault) for fault in key_faults(finalizer)]
    if spec.get("leaseDurationSeconds", 1) <= 0:
        causes.append(invalid_value("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
    if spec.get("leaseTransitions", 0) < 0:
        causes.append(invalid_value("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0"))
    if causes:
        raise invalid("Lease", meta.get("name", ""), causes)


# ---- who set which field: metadata.managedFields -----------------------------------------------------------------------------------

def owned_paths(lease):
    """{path: value} of everything whose owner is recorded; a "." stands for a map or list itself."""
    if lease is None:
        return {}
    meta, paths = lease["metadata"], {}
    for name in ("labels", "annotations"):
        if meta.get(name):
            paths["f:metadata", "f:" + name, "."] = True
            paths.update({("f:metadata", "f:" + name, "f:" + key): value for key, value in meta[name].items()})
    if meta.get("finalizers"):
        paths["f:metadata", "f:finalizers", "."] = True
        paths.update({("f:metadata", "f:finalizers", "v:" + json.dumps(item)): True for item in meta["finalizers"]})
    if meta.get("ownerReferences"):
        paths["f:metadata", "f:ownerReferences", "."] = True
        paths.update({("f:metadata", "f:ownerReferences", "k:" + json.dumps({"uid": ref["uid"]}, separators=(",", ":"))): ref
                      for ref in meta["ownerReferences"]})
    paths.update({("f:spec", "f:" + key): value for key, value in lease["spec"].items()})
    return paths


def fields_to_set(tree, prefix=()):
    found = set()
    for key, below in tree.items():
        found |= fields_to_set(below, prefix + (key,)) if below else {prefix + (key,)}
    return found


def set_to_fields(paths):
    tree = {}
    for path in sorted(paths):
        node = tree
        for key in path:
            node = node.setdefault(key, {})
    return tree


def track_owners(live, lease, manager, now):
    """A writer owns what it changed, loses to nobody what it did not, and nobody owns what is gone."""
    old, new = owned_paths(live), owned_paths(lease)
    changed = {path for path, value in new.items() if path not in old or old[path] != value}
    removed = set(old) - set(new)
    entries = lease["metadata"].pop("managedFields", None)
    if entries == [{}]:                         # the documented way to wipe the bookkeeping
        return
    if not entries:
        entries = (live or {"metadata": {}})["metadata"].get("managedFields", [])
    mine = {"manager": manager, "operation": "Update", "apiVersion": API_VERSION}
    kept, found = [], False
    for entry in entries:
        fields = fields_to_set(entry.get("fieldsV1") or {}) - removed
        is_mine = all(entry.get(key) == value for key, value in mine.items()) and not entry.get("subresource")
        fields = fields | changed if is_mine else fields - changed
        found = found or is_mine
        time = second_time(now) if is_mine and changed else entry.get("time")
        if fields:
            kept.append({**entry, "time": time, "fieldsType": "FieldsV1", "fieldsV1": set_to_fields(fields)})
    if not found and changed:
        kept.append({**mine, "time": second_time(now), "fieldsType": "FieldsV1", "fieldsV1": set_to_fields(changed)})
    kept.sort(key=lambda e: (e.get("operation") != "Apply", e.get("time") or "", e.get("manager") or ""))
    if kept:
        lease["metadata"]["managedFields"] = kept


# ---- the store ------------------------------------------------------------------------------------------------------------------------

SERVERS_OWN = ("namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
               "selfLink")                      # what a client says about these in an update is ignored


class Event:
    def __init__(self, version, kind, lease, before):
        self.version, self.kind, self.lease, self.before = version, kind, lease, before


def merge_patch(target, patch):
    """RFC 7386"""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


class Store:
    """Leases by (namespace, name), a version that every write raises, and the history from which watches start.
    A stored Lease is never changed in place, so that events and answers may share it."""

    def __init__(self, version):
        self.version = version
        self.forgotten = 0                      # history up to this version is gone: a watch from before it gets 410
        self.leases, self.history, self.listeners = {}, [], set()
        self.namespaces = {"default", "kube-system", "kube-public", "kube-node-lease"}

    def get(self, namespace, name):
        try:
            return self.leases[namespace, name]
        except KeyError:
            raise not_found(name) from None

    def list(self, namespace):
        return [lease for (where, _), lease in sorted(self.leases.items()) if namespace in (None, where)]

    def since(self, version):
        """Events after a version, or a Refusal if they are no longer known"""
        if version < self.forgotten:
            raise Refusal(410, "Expired", f"too old resource version: {version} ({self.forgotten})")
        return self.history[bisect.bisect_right(self.history, version, key=lambda event: event.version):]

    def compact(self, keep=0):
        self.forgotten = self.history[-keep - 1].version if keep else self.version
        del self.history[:len(self.history) - keep]

    def commit(self, kind, lease, before):
        self.version += 1
        meta = in_order({**lease["metadata"], "resourceVersion": str(self.version)})
        lease = {"kind": "Lease", "apiVersion": API_VERSION, "metadata": None, **lease}
        lease["metadata"] = meta
        key = meta["namespace"], meta["name"]
        if kind == "DELETED":
            del self.leases[key]
        else:
            self.leases[key] = lease
        event = Event(self.version, kind, lease, before)
        self.history.append(event)
        if len(self.history) > 2 * HISTORY_MAX:
            self.compact(HISTORY_MAX)
        for listener in list(self.listeners):
            listener(event)
        return lease

    def create(self, namespace, lease, manager, dry_run=False):
        meta = lease["metadata"]
        if meta.get("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if namespace not in self.namespaces:
            raise Refusal(404, "NotFound", f"namespaces {go_quote(namespace)} not found", {"name": namespace, "kind": "namespaces"})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + "".join(random.choices(string.digits + string.ascii_lowercase, k=5))
        now = utc_now()
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
            meta.pop(field, None)
        meta.update(namespace=namespace, uid=str(uuid.uuid4()), creationTimestamp=second_time(now))
        validate(lease)
        if (namespace, meta["name"]) in self.leases:
            raise Refusal(409, "AlreadyExists", f'leases.{GROUP} {go_quote(meta["name"])} already exists', lease_details(meta["name"]))
        meta.pop("managedFields", None)
        track_owners(None, lease, manager, now)
        if dry_run:
            return {**lease, "metadata": in_order(meta)}
        return self.commit("ADDED", lease, None)

    def post(self, namespace, lease, manager, dry_run=False):
        version = lease["metadata"].pop("resourceVersion", "")
        if version not in ("", "0"):
            raise Refusal(500, None, "resourceVersion should not be set on objects to be created")
        return self.create(namespace, lease, manager, dry_run)

    def update(self, namespace, name, lease, manager, dry_run=False):
        """-> (stored Lease, created)"""
        meta = lease["metadata"]
        self.check_address(namespace, name, meta)
        live = self.leases.get((namespace, name))
        uid = meta.get("uid")
        if uid and uid != (live["metadata"]["uid"] if live else ""):
            raise conflict(name, f"StorageError: invalid object, Code: 4, Key: /registry/leases/{namespace}/{name}, ResourceVersion: 0, "
                                 f"AdditionalErrorMsg: {failed_precondition('UID', uid, live['metadata']['uid'] if live else '')}")
        version = meta.get("resourceVersion", "")
        if not re.fullmatch(r"\d*", version):
            raise Refusal(500, None, f"strconv.ParseUint: parsing {go_quote(version)}: invalid syntax")
        if live is None:
            meta.pop("resourceVersion", None)   # a PUT without a uid re-creates, whatever version it names
            return self.create(namespace, lease, manager, dry_run), True
        if int(version or 0) == 0:
            unset = ("metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update", "FieldValueInvalid")
            raise invalid("leases", name, [unset])
        if version != live["metadata"]["resourceVersion"]:
            raise conflict(name, MODIFIED)
        return self.replace(live, lease, manager, dry_run), False

    def check_address(self, namespace, name, meta):
        if not meta.get("name"):
            raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
        if meta["name"] != name:
            raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
        if meta.get("namespace", namespace) != namespace:
            raise bad_request(f"the namespace of the object ({meta['namespace']}) does not match the namespace on the request ({namespace})")

    def replace(self, live, lease, manager, dry_run):
        meta, old = lease["metadata"], live["metadata"]
        for field in SERVERS_OWN:
            meta.pop(field, None)
            if field in old:
                meta[field] = old[field]
        validate(lease)
        track_owners(live, lease, manager, utc_now())
        lease["metadata"] = in_order(meta)
        if lease == live or dry_run:            # nothing changed: no write, no version, no event
            return live if lease == live else lease
        if old.get("deletionTimestamp") and not meta.get("finalizers"):
            return self.commit("DELETED", lease, live)
        return self.commit("MODIFIED", lease, live)

    def patch(self, namespace, name, body, manager, decode, dry_run=False):
        live = self.get(namespace, name)
        try:
            patch = parse_json(body)
        except ValueError as error:
            raise bad_request(f"error decoding patch: {error}") from None
        tree = merge_patch(to_numbers(live), patch)
        lease = decode(tree)
        if not dry_run and lease["metadata"].get("uid") != live["metadata"]["uid"]:
            raise conflict(name, failed_precondition("UID", lease["metadata"].get("uid"), live["metadata"]["uid"]))
        lease["metadata"].setdefault("resourceVersion", live["metadata"]["resourceVersion"])
        return self.update(namespace, name, lease, manager, dry_run)[0]

    def delete(self, namespace, name, options):
        live = self.get(namespace, name)
        wanted = options.get("preconditions") or {}
        for field, text in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            if wanted.get(field) and wanted[field] != live["metadata"][field]:
                raise conflict(name, failed_precondition(text, wanted[field], live["metadata"][field]))
        if options.get("dryRun"):
            return live
        if live["metadata"].get("finalizers"):
            if not live["metadata"].get("deletionTimestamp"):
                meta = {**live["metadata"], "deletionTimestamp": second_time(utc_now()), "deletionGracePeriodSeconds": 0}
                return self.commit("MODIFIED", {**live, "metadata": meta}, live)
            return live
        self.commit("DELETED", live, live)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {**lease_details(name), "uid": live["metadata"]["uid"]}}


def to_numbers(value):
    """The opposite of plain(), for a stored Lease that is decoded again after a patch"""
    if isinstance(value, dict):
        return {k: to_numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [to_numbers(v) for v in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Number(value)
    return value

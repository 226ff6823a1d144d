/* leader_k8s.h - a Kubernetes Lease as the store of leader.h - MIT licence, see leader.h

   WHAT IT DOES
     Elects a leader on a coordination.k8s.io/v1 Lease, without blocking a tick, and safely beside
     candidates written in Go: it keeps to what client-go's elector reads and writes. A mapping only:
     leader.h's register engine decides, leader_http.h talks. Needs libcurl 7.87 or later with TLS.

   DO THIS (in a pod, or where kubectl works; link with -lcurl)
         #define LEADER_IMPLEMENTATION
         #define LEADER_WITH_K8S
         #include "leader.h"

         char name[LEADER_IDENTITY_MAX + 1];
         leader_k8s_config where;
         leader_k8s store;
         leader_config cfg = {0};
         leader_t me;
         leader_k8s_config_from_env(&where, "my-job");
         cfg.identity = leader_k8s_identity(name, sizeof name);
         cfg.backend  = leader_k8s_backend(&store, &where);
         if (leader_init(&me, &cfg) != LEADER_OK) return puts(leader_error(&me)), 1;
         while (running) { leader_tick(&me); if (leader_is_leader(&me)) work(); leader_sleep(&me, 1000); }
         leader_close(&me, 1000);

   RIGHTS IT NEEDS (a Role in the Lease's namespace, bound to the pod's service account)
         rules:
         - apiGroups: ["coordination.k8s.io"]
           resources: ["leases"]
           verbs: ["get", "create", "update", "watch"]
     Without "watch" it polls, says so, and asks again now and then: a right granted later is noticed.
     "create" cannot be limited to a name (resourceNames); the other three can. With `events` set:
     create on events (apiGroup ""). With `label_pod` set: patch on pods (apiGroup "").

   THE POD'S LABEL
     With `label_pod` set, the label leader-h/role of this candidate's own pod is "leader" while the Lease
     is its own and not held off, and "standby" otherwise, also after a crash and a restart of the
     container. A Service that selects leader-h/role: leader has the leader alone behind it. The label is
     a signpost, never part of safety: it comes a request after the Lease, and a pod that cannot reach the
     API server keeps the one it had, so whoever is asked still asks leader_is_leader(). It tells of one
     Lease: not for several elections in one pod, nor for a Lease that is one vote of a majority.

   OUTSIDE A POD
     leader_k8s_config_from_env reads, in this order: the file named by KUBECONFIG; the service account
     of the pod (KUBERNETES_SERVICE_HOST and _PORT, files in LEADER_K8S_SERVICE_ACCOUNT or
     /var/run/secrets/kubernetes.io/serviceaccount); $HOME/.kube/config. Of a kubeconfig it takes server
     and CA, token or token file, client certificate and key, namespace, of the current context or of
     `context`. Plug-ins (exec, auth-provider), passwords and proxies are refused: make a token with
     `kubectl create token`, or run `kubectl proxy` and set server to http://127.0.0.1:8001. Plain HTTP
     is for this machine only. POD_NAMESPACE overrides the namespace.

   WHAT IT DOES NOT PROMISE
     - Anything that leader.h itself does not promise; see there.
     - Safety beside other programs that ignore the Lease's fields, or that take over before the
       record's own duration has passed. client-go up to 1.26 waits for *its own* LeaseDuration: give
       every candidate of one Lease the same duration.
     - A Go leader with ReleaseOnCancel: true that is cut off from the API server: it gives up only when
       its release has failed as well, and overlaps its successor (measured at 15/10/2 s: 7 s with
       client-go 1.36, 30 s with 1.26). Without ReleaseOnCancel there is no overlap.
     - A token that still rises after the cluster was rebuilt or restored, when no living candidate has
       seen the old one.
     - A Lease whose spec.strategy or spec.preferredHolder is set belongs to its coordinator: it is
       watched, never taken.

   GOOD TO KNOW
     - client-go's standbys can take over up to a second before the record runs out. So leadership ends
       early enough here: a renew_deadline_ms that leaves less than 1 s plus 5 % of the record's duration
       is refused. With leases under about 3 s, set renew_deadline_ms, or leader_h_only where no other
       kind of candidate contests the Lease.
     - That second is where whole seconds go: client-go compares records with times cut to seconds, and
       measures from the last change it can see. renewTime moves by a full second with every write while
       that keeps it within a second of now. Renewals less than a second apart cannot all differ then;
       but one differs in each second, so the last visible change is less than a second older than the
       last renewal.
     - The record's duration is whole seconds, rounded up. Leadership ends by your exact milliseconds.
     - Annotations that are ours: leader-h/nonce (which process holds it, bound to the renewTime it
       wrote), leader-h/token, leader-h/term (its first request, its hold-off), leader-h/value,
       leader-h/heir. All else in the Lease is sent back as it was received.
     - A missing Lease is first created empty and then taken, so that its uid is known before it is
       anybody's.
     - Elections that are ticked by one thread may share connections: point `client` of each at one
       zeroed leader_http_client that outlives them.
     - Memory: libcurl's own, and per election up to five buffers with malloc, each as large as the
       largest Lease seen (at most 1 MiB). Files are read with plain blocking reads: token,
       certificates, and the kubeconfig in leader_init.

   COMPILE OPTIONS (implementation only)
     LEADER_K8S_SERVICE_ACCOUNT   directory of token, ca.crt and namespace, unless the environment
                                  names one; "/var/run/secrets/kubernetes.io/serviceaccount" */

#ifndef LEADER_H_INCLUDED
#  error "leader_k8s.h: include leader.h first (or define LEADER_WITH_K8S before it)"
#endif

#include "leader_http.h"

#ifndef LEADER_K8S_H_INCLUDED
#define LEADER_K8S_H_INCLUDED

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leader_k8s  leader_k8s;  /* complete below: yours to place; do not read, copy or move it */
typedef leader_http_client leader_k8s_client;

typedef struct leader_k8s_config {  /* C: = {0};  C++: = {};  leader_k8s_backend copies it, strings too */
    const char *server;             // required: "https://host:port"; a path may follow
    const char *lease_name;         // required: DNS-1123 subdomain, at most 253 bytes
    const char *lease_namespace;    // required: DNS-1123 label, at most 63 bytes
    const char *ca_file;            // PEM; 0: the certificate authorities of this machine
    const char *token;              // bearer token, or
    const char *token_file;         // a file that holds it: read again every minute, and after a 401
    const char *cert_file;          // client certificate and
    const char *key_file;           // its key, PEM
    const char *kubeconfig;         // a file that says what the fields above leave open
    const char *context;            // in it; 0: its current-context
    bool        no_watch;           // false: watch the Lease; true: poll only
    bool        leader_h_only;      // true: no client-go candidate: any renew_deadline_ms will do
    bool        events;             // false; true: an Event on the Lease at each change that we make
    bool        label_pod;          // false; true: our pod's label leader-h/role is "leader" or "standby"
    const char *pod_name;           // for label_pod; 0: $POD_NAME, else the host name
    leader_http_client *client;     // connections shared with other elections of this thread; 0: its own
    /* Private: from the environment. Arrays, so that a copy of the struct is as good. */
    char        env_server[96];
    char        env_namespace[64];
    char        env_account[LEADER_HTTP_PATH_MAX_ + 1];
    char        env_kubeconfig[LEADER_HTTP_PATH_MAX_ + 1];
} leader_k8s_config;

LEADER_API leader_backend leader_k8s_backend(leader_k8s *, const leader_k8s_config *);

/* Zeroes it, then fills in what the environment says: see OUTSIDE A POD. LEADER_E_CONFIG: there is
   neither a pod nor a kubeconfig (leader_init will say so too). */
LEADER_API leader_result leader_k8s_config_from_env(leader_k8s_config *, const char *lease_name);
#define leader_k8s_from_env leader_k8s_config_from_env      // its name in 1.0

/* buf: $POD_NAME, else host name, pid and random suffix */
LEADER_API const char *leader_k8s_identity(char *buf, size_t cap);

/* ---- stop here if you only want to use it ----------------------------------------------------- */

enum {
    LEADER_K8S_NAME_MAX_ = 253,
    LEADER_K8S_LABEL_MAX_ = 63,
    LEADER_K8S_TOKEN_MAX_ = 8191
};

typedef struct leader_k8s_aside_ {  /* a request beside the election: its failure costs nothing */
    leader_http_exchange_ x;
    int64_t  sent_ms;
} leader_k8s_aside_;

typedef struct leader_k8s_lease_ {  /* a Lease as read */
    leader_entry entry;             // what the engine sees of it
    char     uid[64];
    char     renew[40];             // renewTime as it stands
    bool     never_held;
    bool     token_bad;             // the annotation is not a token
    uint64_t noted_token;           // the annotation, whether or not it is this holder's
    uint64_t transitions;
    size_t   bad_at;
} leader_k8s_lease_;

struct leader_k8s {
    leader_engine engine;
    leader_host   host;
    leader_http_  http;

    /* settings */
    char server[LEADER_HTTP_SERVER_MAX_ + 1];
    char name[LEADER_K8S_NAME_MAX_ + 1];
    char name_space[LEADER_K8S_LABEL_MAX_ + 1];
    char ca_file[LEADER_HTTP_PATH_MAX_ + 1];
    char cert_file[LEADER_HTTP_PATH_MAX_ + 1];
    char key_file[LEADER_HTTP_PATH_MAX_ + 1];
    char token_file[LEADER_HTTP_PATH_MAX_ + 1];
    char token[LEADER_K8S_TOKEN_MAX_ + 1];
    char kubeconfig[LEADER_HTTP_PATH_MAX_ + 1];
    char context[LEADER_K8S_NAME_MAX_ + 1];
    char pod[LEADER_K8S_NAME_MAX_ + 1];
    char pod_space[LEADER_K8S_LABEL_MAX_ + 1];      // "": the Lease's
    char shown[LEADER_K8S_LABEL_MAX_ + LEADER_K8S_NAME_MAX_ + 2];   // namespace/lease, for logs and metrics
    char problem[320];              // what the maker or open found wrong
    bool no_watch;
    bool leader_h_only;
    bool events;
    bool label_pod;
    leader_http_client *client;
    leader_http_text_ ca_text;      // from a kubeconfig, decoded
    leader_http_text_ cert_text;
    leader_http_text_ key_text;
    int64_t token_read_ms;          // -1: not yet

    /* the request under way */
    leader_http_exchange_ ask;
    int      step;                  // LEADER_K8S_..._
    uint64_t call_id;
    int      tries;
    bool     retried_auth;
    leader_http_text_ body;
    leader_entry sent;
    char     sent_renew[28];

    /* the Lease as last received */
    leader_http_text_ doc;          // one JSON object
    leader_k8s_lease_ lease;        // doc, read; zeroed while it is not known
    bool     told_locked;
    bool     told_label;            // that it was not changed
    uint64_t nonce;                 // of our first write; spreads the watches

    /* the watch */
    leader_http_exchange_ watch;
    leader_http_text_ event_doc;
    bool     watch_open;
    bool     watch_news;            // it has brought an event
    bool     watch_stale;           // no watching from the version we know: read first
    bool     watch_denied;          // said already
    bool     watch_lost;            // the engine must still be told
    int64_t  watch_asked_ms;
    int64_t  watch_after_ms;
    int64_t  watch_pause_ms;
    int64_t  watch_behind_ms;       // answers do not fit the watch, since then; -1: they do
    uint64_t watch_from;            // the version it was opened for
    uint64_t watch_version;         // the last one it told
    uint64_t watch_uid;             // of the Lease that it speaks of, as a hash

    /* Events */
    leader_k8s_aside_ note;
    leader_http_text_ note_body;

    /* the pod's label */
    leader_k8s_aside_ label;
    leader_http_text_ label_body;
    const char *label_sent;         // a role
    const char *label_stands;       // the role that the pod is known to have; NULL: not known
    int64_t  label_after_ms;
    int64_t  label_pause_ms;
};

#ifdef __cplusplus
}
#endif
#endif /* LEADER_K8S_H_INCLUDED */

#if defined(LEADER_IMPLEMENTATION) && defined(LEADER_IMPLEMENTATION_DONE) && \
    !defined(LEADER_K8S_IMPLEMENTATION_DONE)
#define LEADER_K8S_IMPLEMENTATION_DONE

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef LEADER_K8S_SERVICE_ACCOUNT
#  define LEADER_K8S_SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { LEADER_K8S_IDLE_, LEADER_K8S_GET_, LEADER_K8S_CREATE_, LEADER_K8S_PUT_ };

enum {
    LEADER_K8S_TRIES_MAX_ = 4,              // creations that somebody else won, in one read
    LEADER_K8S_EARLY_MS_ = 1000,            // how much too early a client-go standby may come
    LEADER_K8S_TOKEN_AGE_MS_ = 60000,
    LEADER_K8S_RETRY_MAX_MS_ = 60000,       // of Retry-After
    LEADER_K8S_PAUSE_MS_ = 1000,            // before a watch or a label that failed is tried again; doubles
    LEADER_K8S_PAUSE_MAX_MS_ = 60000,
    LEADER_K8S_ASIDE_MS_ = 60000,           // an API server gives up by then as well
    LEADER_K8S_CATCH_UP_MS_ = 2000,         // how long a watch may be behind an answer
    LEADER_K8S_OPENS_MS_ = 10000            // and how long it may take to begin
};

/* ---- reading a Lease -------------------------------------------------------------------------- */

/* A null is as good as absent. A member that is there twice is no value of any kind: readers would
   disagree about which of them counts, and one that took it for absent would take a held Lease for free. */
static leader_json_ leader_k8s_member_(leader_json_ object, const char *name) {
    leader_json_ value = {"", 0};
    leader_json_ none = {"", 0};
    leader_json_ twice = {"?", 1};
    if (!leader_json_member_(object, name, &value)) {
        return value.len > 0 ? twice : none;
    }
    bool null = value.len == 4 && memcmp(value.at, "null", 4) == 0;
    return null ? none : value;
}

/* "" if it is absent; false if it is there, but not a string that fits. */
static bool leader_k8s_text_(leader_json_ object, const char *name, char *buf, size_t cap) {
    leader_json_ value = leader_k8s_member_(object, name);
    buf[0] = 0;
    return value.len == 0 || leader_json_string_(value, buf, cap);
}

static bool leader_k8s_is_text_(leader_json_ object, const char *name, const char *wanted) {
    char text[LEADER_K8S_NAME_MAX_ + 1];
    return leader_k8s_text_(object, name, text, sizeof text) && strcmp(text, wanted) == 0;
}

static bool leader_k8s_digits_(const char *text, uint64_t *out) {
    leader_json_ value;
    value.at = text;
    value.len = strlen(text);
    return leader_json_u64_(value, out) && *out <= LEADER_TOKEN_MAX_;
}

/* What makes two records the same for an observer: the fields as they stand, none of the decoration. */
static uint64_t leader_k8s_form_(leader_json_ spec, leader_json_ annotations) {
    static const char *const names[] = {"holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime",
                                        "leaseTransitions"};
    leader_json_ nonce = leader_k8s_member_(annotations, "leader-h/nonce");
    uint64_t form = leader_hash_(nonce.at, nonce.len);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        leader_json_ value = leader_k8s_member_(spec, names[i]);
        form = leader_mix_(form ^ leader_hash_(value.at, value.len));
    }
    return form;
}

static bool leader_k8s_is_coordinated_(leader_json_ spec) {
    return !leader_k8s_is_text_(spec, "strategy", "") || !leader_k8s_is_text_(spec, "preferredHolder", "");
}

/* What is wrong with it, or NULL. */
static const char *leader_k8s_read_spec_(leader_json_ spec, leader_k8s_lease_ *lease) {
    leader_entry *entry = &lease->entry;
    leader_json_ holder = leader_k8s_member_(spec, "holderIdentity");
    leader_json_ seconds = leader_k8s_member_(spec, "leaseDurationSeconds");
    leader_json_ acquired = leader_k8s_member_(spec, "acquireTime");
    leader_json_ count = leader_k8s_member_(spec, "leaseTransitions");
    uint64_t number = 0;
    if (holder.len > 0 && holder.at[0] != '"') {
        return "spec.holderIdentity is not a string";
    }
    if (!leader_k8s_text_(spec, "holderIdentity", entry->holder, sizeof entry->holder)) {
        snprintf(entry->holder, sizeof entry->holder, "(a name of more than %d bytes)", LEADER_IDENTITY_MAX);
    }
    if (seconds.len > 0 && (!leader_json_u64_(seconds, &number) || number > INT32_MAX)) {
        return "spec.leaseDurationSeconds is not a whole number of seconds";
    }
    entry->lease_ms = (int64_t)number * 1000;
    if (acquired.len > 0 && acquired.at[0] != '"') {
        return "spec.acquireTime is not a time";
    }
    lease->never_held = holder.len <= 2 && acquired.len == 0 && count.len == 0;
    if (!leader_k8s_text_(spec, "renewTime", lease->renew, sizeof lease->renew)) {
        return "spec.renewTime is not a time";
    }
    leader_time_parse_(lease->renew, &entry->renewed_us);
    if (count.len > 0 && !leader_json_u64_(count, &lease->transitions)) {
        return "spec.leaseTransitions is not a count";
    }
    entry->locked = leader_k8s_is_coordinated_(spec);
    return NULL;
}

/* The object is the one asked for. */
static const char *leader_k8s_read_metadata_(const leader_k8s *self, leader_json_ metadata,
                                             leader_k8s_lease_ *lease) {
    leader_entry *entry = &lease->entry;
    char version[64];
    if (!leader_k8s_is_text_(metadata, "name", self->name)) {
        return "metadata.name is not the one asked for";
    }
    if (!leader_k8s_is_text_(metadata, "namespace", self->name_space)) {
        return "metadata.namespace is not the one asked for";
    }
    if (!leader_k8s_text_(metadata, "uid", lease->uid, sizeof lease->uid) || lease->uid[0] == 0) {
        return "has no metadata.uid";
    }
    if (!leader_k8s_text_(metadata, "resourceVersion", version, sizeof version)) {
        return "has no metadata.resourceVersion";
    }
    if (!leader_k8s_digits_(version, &entry->revision) || entry->revision == 0) {
        return "metadata.resourceVersion is not a number";
    }
    snprintf(entry->version, sizeof entry->version, "%s", version);
    entry->origin = leader_hash_(lease->uid, strlen(lease->uid)) | 1;
    return NULL;
}

/* "<nonce> <renewTime>": the nonce is bound to the renewTime written with it, because client-go keeps
   annotations that it does not know: after a renewal by a Go process of our name it would still be
   ours. What the other annotations say counts only with a nonce that is bound. */
static bool leader_k8s_read_nonce_(leader_json_ annotations, leader_k8s_lease_ *lease) {
    char text[64];
    leader_k8s_text_(annotations, "leader-h/nonce", text, sizeof text);
    bool shaped = strlen(text) > 17 && text[16] == ' ' && strcmp(text + 17, lease->renew) == 0;
    if (!shaped || strspn(text, "0123456789abcdef") != 16) {
        return false;
    }
    lease->entry.nonce = (uint64_t)strtoull(text, NULL, 16);
    return lease->entry.nonce != 0;
}

/* "<seq> <hold-off in ms> <renewTime>" */
static void leader_k8s_read_term_(leader_json_ annotations, leader_k8s_lease_ *lease) {
    char text[128];
    leader_k8s_text_(annotations, "leader-h/term", text, sizeof text);
    char *hold_off = strchr(text, ' ');
    char *renew = hold_off ? strchr(hold_off + 1, ' ') : NULL;
    if (!renew || strcmp(renew + 1, lease->renew) != 0) {
        return;
    }
    uint64_t seq = 0;
    uint64_t hold_off_ms = 0;
    *hold_off = 0;
    *renew = 0;
    if (leader_k8s_digits_(text, &seq) && leader_k8s_digits_(hold_off + 1, &hold_off_ms)) {
        lease->entry.seq = seq;
        lease->entry.hold_off_ms = (int64_t)hold_off_ms;
    }
}

static const char *leader_k8s_read_annotations_(leader_json_ annotations, leader_k8s_lease_ *lease) {
    leader_entry *entry = &lease->entry;
    leader_json_ nonce = leader_k8s_member_(annotations, "leader-h/nonce");
    leader_json_ noted = leader_k8s_member_(annotations, "leader-h/token");
    char token[32];
    if (nonce.len > 0 && nonce.at[0] != '"') {
        return "annotation leader-h/nonce is not a string";
    }
    if (noted.len > 0 && noted.at[0] != '"') {
        return "annotation leader-h/token is not a string";
    }
    if (noted.len > 0) {
        bool fits = leader_json_string_(noted, token, sizeof token);
        lease->token_bad = !fits || !leader_k8s_digits_(token, &lease->noted_token) ||
                           lease->noted_token >= LEADER_TOKEN_MAX_;
    }
    if (!leader_k8s_read_nonce_(annotations, lease)) {
        return NULL;
    }
    entry->token = lease->token_bad ? 0 : lease->noted_token;
    leader_k8s_read_term_(annotations, lease);
    if (!leader_k8s_text_(annotations, "leader-h/value", entry->value, sizeof entry->value)) {
        entry->value[0] = 0;
    }
    if (!leader_k8s_text_(annotations, "leader-h/heir", entry->heir, sizeof entry->heir)) {
        entry->heir[0] = 0;
    }
    return NULL;
}

/* What is wrong with it, or NULL. */
static const char *leader_k8s_read_(const leader_k8s *self, const char *text, size_t len,
                                    leader_k8s_lease_ *lease) {
    leader_json_ root;
    memset(lease, 0, sizeof *lease);
    if (!leader_json_parse_(text, len, &root, &lease->bad_at)) {
        return "is not JSON";
    }
    if (!leader_k8s_is_text_(root, "kind", "Lease")) {
        return "is not of kind Lease";
    }
    leader_json_ metadata = leader_k8s_member_(root, "metadata");
    leader_json_ annotations = leader_k8s_member_(metadata, "annotations");
    leader_json_ spec = leader_k8s_member_(root, "spec");
    if (annotations.len > 0 && annotations.at[0] != '{') {
        return "metadata.annotations is not an object";
    }
    if (spec.len > 0 && spec.at[0] != '{') {
        return "spec is not an object";
    }
    const char *problem = leader_k8s_read_metadata_(self, metadata, lease);
    if (!problem) {
        problem = leader_k8s_read_spec_(spec, lease);
    }
    if (!problem) {
        problem = leader_k8s_read_annotations_(annotations, lease);
    }
    lease->entry.renewal = leader_k8s_form_(spec, annotations);
    return problem;
}

/* ---- splicing our fields into a Lease --------------------------------------------------------- */

static bool leader_k8s_is_space_(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* So that the text is the object alone. */
static void leader_k8s_trim_(leader_http_text_ *text) {
    size_t from = 0;
    while (text->len > 0 && leader_k8s_is_space_(text->at[text->len - 1])) {
        text->len--;
    }
    while (from < text->len && leader_k8s_is_space_(text->at[from])) {
        from++;
    }
    if (text->len > 0) {
        leader_http_splice_(text, 0, from, "", 0);      // never larger: cannot fail
    }
}

static bool leader_k8s_insert_(leader_http_text_ *doc, leader_json_ object, const char *name,
                               const char *raw) {
    char piece[2048];
    size_t at = (size_t)(object.at - doc->at) + 1;
    size_t next = at;
    while (leader_k8s_is_space_(doc->at[next])) {
        next++;
    }
    const char *comma = doc->at[next] == '}' ? "" : ",";
    int len = snprintf(piece, sizeof piece, "\"%s\":%s%s", name, raw, comma);
    bool fits = len > 0 && (size_t)len < sizeof piece;
    return fits && leader_http_splice_(doc, at, 0, piece, (size_t)len);
}

static bool leader_k8s_put_(leader_http_text_ *doc, leader_json_ object, const char *name, const char *raw) {
    leader_json_ value;
    if (!leader_json_member_(object, name, &value)) {
        return leader_k8s_insert_(doc, object, name, raw);
    }
    return leader_http_splice_(doc, (size_t)(value.at - doc->at), value.len, raw, strlen(raw));
}

/* Sets doc.path[0]...path[depth - 1] to the JSON text raw, and touches no other byte. Objects on the
   way are made. */
static bool leader_k8s_set_(leader_http_text_ *doc, const char *const *path, int depth, const char *raw) {
    leader_json_ object;
    object.at = doc->at;
    object.len = doc->len;
    for (int i = 0; i < depth - 1; i++) {
        leader_json_ value;
        bool is_object = object.len > 0 && object.at[0] == '{';
        bool found = is_object && leader_json_member_(object, path[i], &value);
        if (!is_object) {
            return false;
        }
        if (!found || value.at[0] == 'n') {     // null, where an object should be
            return leader_k8s_put_(doc, object, path[i], "{}") && leader_k8s_set_(doc, path, depth, raw);
        }
        object = value;
    }
    bool is_object = object.len > 0 && object.at[0] == '{';
    return is_object && leader_k8s_put_(doc, object, path[depth - 1], raw);
}

typedef struct leader_k8s_draft_ {
    leader_http_text_ *doc;
    bool ok;                        // false: no memory, or not spliceable
} leader_k8s_draft_;

static void leader_k8s_set_spec_(leader_k8s_draft_ *draft, const char *name, const char *raw) {
    const char *path[2];
    path[0] = "spec";
    path[1] = name;
    draft->ok = draft->ok && leader_k8s_set_(draft->doc, path, 2, raw);
}

static void leader_k8s_set_count_(leader_k8s_draft_ *draft, const char *name, uint64_t count) {
    char raw[24];
    snprintf(raw, sizeof raw, "%llu", (unsigned long long)(count < INT32_MAX ? count : INT32_MAX));
    leader_k8s_set_spec_(draft, name, raw);
}

static void leader_k8s_set_text_(leader_k8s_draft_ *draft, const char *name, const char *text) {
    char raw[6 * LEADER_IDENTITY_MAX + 3];
    leader_json_quote(raw, sizeof raw, text);
    leader_k8s_set_spec_(draft, name, raw);
}

static void leader_k8s_set_note_(leader_k8s_draft_ *draft, const char *name, const char *text) {
    const char *path[3];
    char raw[6 * LEADER_VALUE_MAX + 3];
    path[0] = "metadata";
    path[1] = "annotations";
    path[2] = name;
    leader_json_quote(raw, sizeof raw, text);
    draft->ok = draft->ok && leader_k8s_set_(draft->doc, path, 3, raw);
}

/* One that most Leases never have: "" is written only where something else stands. */
static void leader_k8s_set_rare_note_(leader_k8s_draft_ *draft, const char *name, const char *text,
                                      const char *before) {
    if (text[0] != 0 || before[0] != 0) {
        leader_k8s_set_note_(draft, name, text);
    }
}

/* The next renewTime: see GOOD TO KNOW. Time stamps decide nothing here. */
static int64_t leader_k8s_next_us_(int64_t now_us, int64_t stored_us) {
    enum { SECOND_US = 1000000 };
    bool far_off = stored_us > now_us + SECOND_US || stored_us + SECOND_US <= now_us;
    if (far_off) {
        return now_us;
    }
    return stored_us <= now_us ? stored_us + SECOND_US : stored_us + 1;
}

static int64_t leader_k8s_seconds_(int64_t lease_ms) {
    return lease_ms <= 1000 ? 1 : (lease_ms + 999) / 1000;
}

static bool leader_k8s_start_draft_(leader_k8s *self, bool create) {
    char empty[LEADER_K8S_NAME_MAX_ + LEADER_K8S_LABEL_MAX_ + 160];
    if (!create) {
        return leader_http_copy_(&self->body, self->doc.at, self->doc.len);
    }
    int len = snprintf(empty, sizeof empty, "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
                       "\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\"},\"spec\":{}}", self->name,
                       self->name_space);
    return leader_http_copy_(&self->body, empty, (size_t)len);
}

static void leader_k8s_draft_notes_(leader_k8s *self, leader_k8s_draft_ *draft) {
    const leader_entry *next = &self->sent;
    const leader_entry *before = &self->lease.entry;
    char text[96];
    unsigned long high = (unsigned long)(next->nonce >> 32);
    unsigned long low = (unsigned long)(next->nonce & 0xffffffffu);
    snprintf(text, sizeof text, "%08lx%08lx %s", high, low, self->sent_renew);
    leader_k8s_set_note_(draft, "leader-h/nonce", text);
    snprintf(text, sizeof text, "%llu %lld %s", (unsigned long long)next->seq, LEADER_LL_(next->hold_off_ms),
             self->sent_renew);
    leader_k8s_set_note_(draft, "leader-h/term", text);
    if (next->token != 0) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)next->token);
        leader_k8s_set_note_(draft, "leader-h/token", text);
    }
    leader_k8s_set_rare_note_(draft, "leader-h/value", next->value, before->value);
    leader_k8s_set_rare_note_(draft, "leader-h/heir", next->heir, before->heir);
}

/* A term's token is above every token ever noted, also one that a Go process has held since. */
static void leader_k8s_raise_token_(leader_k8s *self) {
    if (self->sent.token <= self->lease.noted_token) {
        self->sent.token = self->lease.noted_token + 1;
    }
}

/* Makes body from doc and self->sent. False: no memory, or not spliceable. */
static bool leader_k8s_compose_(leader_k8s *self, bool begins) {
    leader_entry *next = &self->sent;
    const leader_k8s_lease_ *lease = &self->lease;
    bool release = next->holder[0] == 0;
    leader_k8s_draft_ draft;
    draft.doc = &self->body;
    draft.ok = leader_k8s_start_draft_(self, false);
    next->lease_ms = 1000 * (release ? 1 : leader_k8s_seconds_(next->lease_ms));
    next->renewed_us = leader_k8s_next_us_(leader_wall_us_(), lease->entry.renewed_us);
    leader_time_text_(self->sent_renew, next->renewed_us);
    leader_k8s_set_text_(&draft, "holderIdentity", next->holder);
    leader_k8s_set_count_(&draft, "leaseDurationSeconds", (uint64_t)(next->lease_ms / 1000));
    leader_k8s_set_text_(&draft, "renewTime", self->sent_renew);
    if (begins || release) {
        leader_k8s_set_text_(&draft, "acquireTime", self->sent_renew);
    }
    if (begins) {
        bool changes = !lease->never_held && strcmp(lease->entry.holder, next->holder) != 0;
        leader_k8s_raise_token_(self);
        leader_k8s_set_count_(&draft, "leaseTransitions", lease->transitions + (changes ? 1 : 0));
    }
    leader_k8s_draft_notes_(self, &draft);
    return draft.ok;
}

/* An empty Lease. With cautious_start it says that its first holder must hold off: the engine finds a
   record and could not tell that it was missing. */
static bool leader_k8s_compose_empty_(leader_k8s *self) {
    leader_k8s_draft_ draft;
    draft.doc = &self->body;
    draft.ok = leader_k8s_start_draft_(self, true);
    if (!self->host.config->cautious_start) {
        return draft.ok;
    }
    memset(&self->sent, 0, sizeof self->sent);
    memset(&self->lease, 0, sizeof self->lease);
    self->sent.nonce = LEADER_RANDOM64() | 1;
    self->sent.hold_off_ms = self->host.config->lease_ms;
    leader_time_text_(self->sent_renew, leader_wall_us_());
    leader_k8s_set_text_(&draft, "renewTime", self->sent_renew);
    leader_k8s_draft_notes_(self, &draft);
    return draft.ok;
}

/* ---- saying what went wrong ------------------------------------------------------------------- */

static int64_t leader_k8s_now_(const leader_k8s *self) {
    return self->host.now_ms(self->host.core);
}

static void leader_k8s_log_(const leader_k8s *self, leader_level level, const char *format, ...)
    LEADER_PRINTF_(3, 4);
static void leader_k8s_log_(const leader_k8s *self, leader_level level, const char *format, ...) {
    char text[900];
    va_list args;
    int len = snprintf(text, sizeof text, "Lease %s/%s: ", self->name_space, self->name);
    va_start(args, format);
    vsnprintf(text + len, sizeof text - (size_t)len, format, args);
    va_end(args);
    self->host.log(self->host.core, level, text);
}

/* The server's own words, without control characters: the message of a Status, or what is there. */
static void leader_k8s_words_(const leader_http_text_ *reply, char *buf, size_t cap) {
    char whole[2048] = "";
    leader_json_ root;
    size_t bad_at;
    size_t len = 0;
    bool json = reply->len > 0 && leader_json_parse_(reply->at, reply->len, &root, &bad_at);
    if (json) {
        leader_k8s_text_(root, "message", whole, sizeof whole);
    } else if (reply->len > 0) {
        snprintf(whole, sizeof whole, "%s", reply->at);
    }
    while (len < cap - 1 && whole[len] != 0) {
        unsigned char c = (unsigned char)whole[len];
        buf[len] = c < ' ' || c == 0x7f ? ' ' : whole[len];
        len++;
    }
    while (len > 0 && ((unsigned char)whole[len] & 0xc0) == 0x80) {
        len--;                      // not in the middle of a character
    }
    while (len > 0 && buf[len - 1] == ' ') {
        len--;
    }
    buf[len] = 0;
}

static const char *leader_k8s_method_(int step) {
    static const char *const methods[] = {"", "GET", "POST", "PUT"};
    return methods[step];
}

static const char *leader_k8s_right_(int step) {
    static const char *const rights[] = {"watch leases", "get leases", "create leases", "update leases"};
    return rights[step];
}

/* What is refused comes first, so that a text that is cut still names the namespace. */
static void leader_k8s_log_refusal_(const leader_k8s *self, leader_level level, const char *right,
                                    const char *space, const char *then, const leader_http_text_ *reply) {
    char words[400];
    leader_k8s_words_(reply, words, sizeof words);
    const char *why = strstr(words, " is forbidden: ");
    why = why ? why + 15 : words;
    leader_k8s_log_(self, level, "no right to %s in namespace %s (403)%s: %s", right, space, then, why);
}

static void leader_k8s_log_denial_(const leader_k8s *self, const leader_http_exchange_ *x, int step) {
    const char *then = step == LEADER_K8S_IDLE_ ? "; it polls, and asks again later" : "";
    leader_level level = step == LEADER_K8S_IDLE_ ? LEADER_LOG_INFO : LEADER_LOG_ERROR;
    leader_k8s_log_refusal_(self, level, leader_k8s_right_(step), self->name_space, then, &x->reply);
}

static leader_result leader_k8s_corrupt_(const leader_k8s *self, const char *problem, size_t bad_at) {
    const char *method = leader_k8s_method_(self->step);
    leader_k8s_log_(self, LEADER_LOG_ERROR, "answer to %s %s (%lu bytes, byte %lu)", method, problem,
                    (unsigned long)self->ask.reply.len, (unsigned long)bad_at);
    return LEADER_E_CORRUPT;
}

/* ---- credentials ------------------------------------------------------------------------------ */

/* What is wrong with the text as a token, or NULL. A line break would add headers of its own. */
static const char *leader_k8s_token_problem_(const char *text, size_t len) {
    if (len == 0) {
        return "is empty";
    }
    if (len > LEADER_K8S_TOKEN_MAX_) {
        return "is longer than a token may be";
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return "holds something else than one token";
        }
    }
    return NULL;
}

/* False: there is no token. The old one may do a while longer. */
static bool leader_k8s_read_token_(leader_k8s *self) {
    char text[LEADER_K8S_TOKEN_MAX_ + 2];
    size_t len = 0;
    FILE *file = fopen(self->token_file, "rb");
    const char *problem = file ? NULL : strerror(errno);
    if (file) {
        len = fread(text, 1, sizeof text, file);
        problem = ferror(file) ? "cannot be read" : NULL;
        fclose(file);
    }
    while (len > 0 && leader_k8s_is_space_(text[len - 1])) {
        len--;
    }
    if (!problem) {
        problem = leader_k8s_token_problem_(text, len);
    }
    self->token_read_ms = leader_k8s_now_(self);
    if (problem) {
        leader_level level = self->token[0] != 0 ? LEADER_LOG_WARN : LEADER_LOG_ERROR;
        leader_k8s_log_(self, level, "token_file %.200s: %s", self->token_file, problem);
        return self->token[0] != 0;
    }
    memcpy(self->token, text, len);
    self->token[len] = 0;
    return true;
}

static bool leader_k8s_has_token_(leader_k8s *self) {
    bool fresh = self->token_read_ms >= 0 &&
                 leader_k8s_now_(self) - self->token_read_ms < LEADER_K8S_TOKEN_AGE_MS_;
    if (self->token_file[0] == 0 || fresh) {
        return true;
    }
    return leader_k8s_read_token_(self);
}

/* ---- sending ---------------------------------------------------------------------------------- */

static void leader_k8s_path_(const leader_k8s *self, char *buf, size_t cap, bool named) {
    const char *slash = named ? "/" : "";
    const char *name = named ? self->name : "";
    const char *space = self->name_space;
    snprintf(buf, cap, "/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s", space, slash, name);
}

/* False: no credentials (said already), or no memory. */
static bool leader_k8s_launch_(leader_k8s *self, leader_http_exchange_ *x, const char *method,
                               const char *path, const leader_http_text_ *body) {
    char bearer[LEADER_K8S_TOKEN_MAX_ + 16];
    leader_http_request_ request;
    memset(&request, 0, sizeof request);
    if (!leader_k8s_has_token_(self)) {
        return false;
    }
    if (self->token[0] != 0) {
        snprintf(bearer, sizeof bearer, "Bearer %s", self->token);
        request.authorization = bearer;
    }
    request.method = method;
    request.path = path;
    request.streams = x == &self->watch;
    if (body) {
        request.body = body->at;
        request.body_len = body->len;
    }
    if (strcmp(method, "PATCH") == 0) {
        request.content_type = "Content-Type: application/merge-patch+json";
    }
    return leader_http_start_(&self->http, x, &request);
}

static leader_result leader_k8s_send_(leader_k8s *self, int step) {
    char path[512];
    const leader_http_text_ *body = step == LEADER_K8S_GET_ ? NULL : &self->body;
    self->step = step;
    leader_k8s_path_(self, path, sizeof path, step != LEADER_K8S_CREATE_);
    if (leader_k8s_launch_(self, &self->ask, leader_k8s_method_(step), path, body)) {
        return LEADER_PENDING;
    }
    if (self->token_file[0] != 0 && self->token[0] == 0) {
        return LEADER_E_AUTH;
    }
    leader_k8s_log_(self, LEADER_LOG_ERROR, "no memory for a request");
    return LEADER_E_IO;
}

/* ---- the watch -------------------------------------------------------------------------------- */

static void leader_k8s_watch_stop_(leader_k8s *self) {
    leader_http_drop_(&self->watch);
    self->watch_lost = self->watch_lost || self->watch_open;
    self->watch_open = false;
}

static int64_t leader_k8s_longer_(int64_t pause_ms) {
    return leader_min_(leader_max_(pause_ms * 2, LEADER_K8S_PAUSE_MS_), LEADER_K8S_PAUSE_MAX_MS_);
}

static void leader_k8s_watch_back_off_(leader_k8s *self, int64_t least_ms) {
    self->watch_pause_ms = leader_k8s_longer_(self->watch_pause_ms);
    self->watch_after_ms = leader_k8s_now_(self) + leader_max_(self->watch_pause_ms, least_ms);
    leader_k8s_watch_stop_(self);
}

static uint64_t leader_k8s_uid_(const leader_k8s_lease_ *lease) {
    return leader_hash_(lease->uid, strlen(lease->uid));
}

static bool leader_k8s_may_watch_(const leader_k8s *self) {
    bool known = self->lease.entry.revision != 0 && !self->watch_stale;
    bool idle = !self->watch.running && !self->watch.done;
    return !self->no_watch && known && idle && leader_k8s_now_(self) >= self->watch_after_ms;
}

static void leader_k8s_watch_start_(leader_k8s *self) {
    char path[1024];
    if (!leader_k8s_may_watch_(self)) {
        return;
    }
    leader_k8s_path_(self, path, sizeof path, false);
    size_t len = strlen(path);
    int timeout_s = 240 + (int)(self->nonce % 60);
    snprintf(path + len, sizeof path - len, "?watch=1&fieldSelector=metadata.name%%3D%s&allowWatchBookmarks="
             "true&timeoutSeconds=%d&resourceVersion=%s", self->name, timeout_s, self->lease.entry.version);
    self->watch_from = self->lease.entry.revision;
    self->watch_version = self->watch_from;
    self->watch_uid = leader_k8s_uid_(&self->lease);
    self->watch_asked_ms = leader_k8s_now_(self);
    self->watch_news = false;
    self->watch_behind_ms = -1;
    if (!leader_k8s_launch_(self, &self->watch, "GET", path, NULL)) {
        leader_k8s_watch_back_off_(self, 0);
    }
}

/* After an answer: has the watch missed something? It gets two seconds to catch up. A store that went back
   may not tell a watch from before that. */
static void leader_k8s_watch_compare_(leader_k8s *self) {
    int64_t now_ms = leader_k8s_now_(self);
    uint64_t version = self->lease.entry.revision;
    bool covers = version >= self->watch_from && version <= self->watch_version;
    bool fits = covers && leader_k8s_uid_(&self->lease) == self->watch_uid;
    if (!self->watch_open || fits) {
        self->watch_behind_ms = -1;
    } else if (self->watch_behind_ms < 0) {
        self->watch_behind_ms = now_ms;
    } else if (now_ms - self->watch_behind_ms >= LEADER_K8S_CATCH_UP_MS_) {
        leader_k8s_watch_back_off_(self, 0);
    }
}

/* A request into a connection that died in silence is never answered. */
static bool leader_k8s_watch_hangs_(const leader_k8s *self) {
    bool asking = self->watch.running && !self->watch_open;
    return asking && leader_k8s_now_(self) >= self->watch_asked_ms + LEADER_K8S_OPENS_MS_;
}

static leader_news leader_k8s_bookmark_(leader_k8s *self, leader_json_ object) {
    char version[64];
    uint64_t number = 0;
    leader_json_ metadata = leader_k8s_member_(object, "metadata");
    bool told = leader_k8s_text_(metadata, "resourceVersion", version, sizeof version);
    if (told && leader_k8s_digits_(version, &number) && number > self->watch_version) {
        self->watch_version = number;
    }
    return LEADER_NEWS_LISTENING;
}

/* An event that cannot be understood, or the watch's own error: 410 says that our version is too old
   to watch from. */
static leader_news leader_k8s_watch_broken_(leader_k8s *self) {
    self->watch_stale = true;
    leader_k8s_watch_back_off_(self, 0);
    return LEADER_NEWS_NONE;
}

static leader_news leader_k8s_changed_(leader_k8s *self, const leader_k8s_lease_ *lease,
                                       leader_entry *found) {
    leader_http_text_ swap = self->doc;
    self->doc = self->event_doc;
    self->event_doc = swap;
    self->lease = *lease;
    *found = lease->entry;
    return LEADER_NEWS_RECORD;
}

static leader_news leader_k8s_event_(leader_k8s *self, const char *line, size_t len, leader_entry *found) {
    leader_json_ root;
    leader_k8s_lease_ lease;
    leader_http_text_ *copy = &self->event_doc;
    char type[16];
    size_t bad_at;
    bool json = leader_json_parse_(line, len, &root, &bad_at);
    if (!json || !leader_k8s_text_(root, "type", type, sizeof type)) {
        return leader_k8s_watch_broken_(self);
    }
    leader_json_ object = leader_k8s_member_(root, "object");
    if (strcmp(type, "BOOKMARK") == 0) {
        return leader_k8s_bookmark_(self, object);
    }
    bool copied = strcmp(type, "ERROR") != 0 && leader_http_copy_(copy, object.at, object.len);
    if (!copied || leader_k8s_read_(self, copy->at, copy->len, &lease) || lease.token_bad) {
        return leader_k8s_watch_broken_(self);
    }
    uint64_t version = lease.entry.revision;
    self->watch_news = true;
    self->watch_pause_ms = 0;
    self->watch_version = leader_max_u64_(self->watch_version, version);
    self->watch_uid = leader_k8s_uid_(&lease);
    if (version >= self->lease.entry.revision) {
        self->watch_behind_ms = -1;
    }
    if (version <= self->lease.entry.revision) {
        return LEADER_NEWS_LISTENING;           // an answer has told us already
    }
    if (strcmp(type, "DELETED") == 0) {
        self->watch_stale = true;
        return LEADER_NEWS_CHANGED;
    }
    return leader_k8s_changed_(self, &lease, found);
}

static void leader_k8s_watch_ended_(leader_k8s *self) {
    leader_http_exchange_ *x = &self->watch;
    x->done = false;
    if (x->status == 403 && !self->watch_denied) {
        self->watch_denied = true;
        leader_k8s_log_denial_(self, x, LEADER_K8S_IDLE_);
    }
    if (x->status == 401) {
        self->token_read_ms = -1;
    }
    if (x->status == 410) {
        self->watch_stale = true;
    }
    bool served = x->status == 200 && x->result == LEADER_OK && self->watch_news;
    if (!served) {
        leader_k8s_watch_back_off_(self, x->retry_after_ms);
    }
    leader_k8s_watch_stop_(self);
}

static leader_news leader_k8s_watch_read_(leader_k8s *self, leader_entry *found) {
    const char *line;
    size_t len;
    if (self->watch.status != 200) {
        return LEADER_NEWS_NONE;
    }
    if (!self->watch_open) {
        self->watch_open = true;
        self->watch_denied = false;
        return LEADER_NEWS_LISTENING;
    }
    while (leader_http_line_(&self->watch, &line, &len)) {
        leader_news news = leader_k8s_event_(self, line, len, found);
        if (news != LEADER_NEWS_NONE || !self->watch_open) {
            return news;
        }
    }
    return LEADER_NEWS_NONE;
}

/* ---- beside the election: Events and the pod's label, never part of safety --------------------- */

static bool leader_k8s_send_aside_(leader_k8s *self, leader_k8s_aside_ *aside, const char *method,
                                   const char *path, const leader_http_text_ *body) {
    aside->sent_ms = leader_k8s_now_(self);
    if (!leader_k8s_launch_(self, &aside->x, method, path, body)) {
        aside->x.status = 0;
        snprintf(aside->x.error, sizeof aside->x.error, "no credentials, or no memory");
        return false;
    }
    leader_http_drive_(&self->http);        // on its way also if this election is closed next
    return true;
}

/* True: it has just ended, with an answer, with an error, or because nothing came. */
static bool leader_k8s_aside_ended_(const leader_k8s *self, leader_k8s_aside_ *aside) {
    bool late = aside->x.running && leader_k8s_now_(self) - aside->sent_ms >= LEADER_K8S_ASIDE_MS_;
    if (late) {
        leader_http_drop_(&aside->x);
        aside->x.status = 0;
        snprintf(aside->x.error, sizeof aside->x.error, "no answer within a minute");
    }
    bool ended = aside->x.done || late;
    aside->x.done = false;
    return ended;
}

static void leader_k8s_record_event_(leader_k8s *self, const char *what) {
    char path[160];
    char quoted[6 * LEADER_IDENTITY_MAX + 64];
    char words[LEADER_IDENTITY_MAX + 32];
    char body[3072];
    char now[28];
    if (!self->events || self->note.x.running) {
        return;
    }
    snprintf(words, sizeof words, "%s %s", self->host.config->identity, what);
    leader_json_quote(quoted, sizeof quoted, words);
    leader_time_text_(now, leader_wall_us_());
    memcpy(now + 19, "Z", 2);                   // whole seconds, as Events have them
    int len = snprintf(body, sizeof body,
        "{\"apiVersion\":\"v1\",\"kind\":\"Event\","
        "\"metadata\":{\"generateName\":\"leader-h.\",\"namespace\":\"%s\"},"
        "\"involvedObject\":{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
        "\"namespace\":\"%s\",\"name\":\"%s\",\"uid\":\"%s\"},"
        "\"reason\":\"LeaderElection\",\"message\":%s,\"type\":\"Normal\",\"count\":1,"
        "\"firstTimestamp\":\"%s\",\"lastTimestamp\":\"%s\",\"source\":{\"component\":\"leader.h\"}}",
        self->name_space, self->name_space, self->name, self->lease.uid, quoted, now, now);
    snprintf(path, sizeof path, "/api/v1/namespaces/%s/events", self->name_space);
    if (leader_http_copy_(&self->note_body, body, (size_t)len)) {
        leader_k8s_send_aside_(self, &self->note, "POST", path, &self->note_body);
    }
}

static void leader_k8s_check_event_(leader_k8s *self) {
    bool ended = leader_k8s_aside_ended_(self, &self->note);
    if (ended && self->note.x.status != 201) {
        char words[300];
        leader_k8s_words_(&self->note.x.reply, words, sizeof words);
        leader_k8s_log_(self, LEADER_LOG_INFO, "the Event was not recorded (%ld): %s%s", self->note.x.status,
                        self->note.x.error, words);
    }
}

static const char *leader_k8s_pod_space_(const leader_k8s *self) {
    return self->pod_space[0] != 0 ? self->pod_space : self->name_space;
}

/* The role that the Lease, as last received, gives to this pod. */
static const char *leader_k8s_role_(const leader_k8s *self) {
    const leader_entry *entry = &self->lease.entry;
    bool ours = entry->nonce != 0 && entry->nonce == self->nonce;
    bool named = strcmp(entry->holder, self->host.config->identity) == 0;
    return ours && named && entry->hold_off_ms == 0 ? "leader" : "standby";
}

static void leader_k8s_label_failed_(leader_k8s *self) {
    const leader_http_exchange_ *x = &self->label.x;
    const char *space = leader_k8s_pod_space_(self);
    self->label_pause_ms = leader_k8s_longer_(self->label_pause_ms);
    self->label_after_ms = leader_k8s_now_(self) + leader_max_(self->label_pause_ms, x->retry_after_ms);
    if (x->status == 401) {
        self->token_read_ms = -1;
    }
    if (self->told_label) {
        return;
    }
    self->told_label = true;
    if (x->status == 403) {
        leader_k8s_log_refusal_(self, LEADER_LOG_WARN, "patch pods", space, "; its label stays as it is",
                                &x->reply);
        return;
    }
    char words[300];
    leader_k8s_words_(&x->reply, words, sizeof words);
    leader_k8s_log_(self, LEADER_LOG_WARN, "the label of pod %s/%s was not changed (%ld): %s%s", space,
                    self->pod, x->status, x->error, words);
}

static void leader_k8s_check_label_(leader_k8s *self) {
    if (!leader_k8s_aside_ended_(self, &self->label)) {
        return;
    }
    if (self->label.x.status != 200) {
        leader_k8s_label_failed_(self);
        return;
    }
    self->label_stands = self->label_sent;
    self->told_label = false;
    self->label_pause_ms = 0;
}

static bool leader_k8s_may_label_(const leader_k8s *self) {
    bool known = self->lease.entry.revision != 0;
    bool idle = !self->label.x.running && !self->label.x.done;
    return self->label_pod && known && idle && leader_k8s_now_(self) >= self->label_after_ms;
}

/* Sends the label unless the pod is known to have it. */
static void leader_k8s_set_label_(leader_k8s *self) {
    char path[400];
    char body[80];
    if (!leader_k8s_may_label_(self)) {
        return;
    }
    const char *role = leader_k8s_role_(self);
    if (self->label_stands && strcmp(self->label_stands, role) == 0) {
        return;
    }
    int len = snprintf(body, sizeof body, "{\"metadata\":{\"labels\":{\"leader-h/role\":\"%s\"}}}", role);
    snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods/%s", leader_k8s_pod_space_(self), self->pod);
    self->label_sent = role;
    self->label_stands = NULL;      // until the answer: it may or may not have been changed
    if (!leader_http_copy_(&self->label_body, body, (size_t)len)) {
        return;
    }
    if (!leader_k8s_send_aside_(self, &self->label, "PATCH", path, &self->label_body)) {
        leader_k8s_label_failed_(self);
    }
}

/* One piece of news at a time. */
static leader_news leader_k8s_notice_(void *user, leader_entry *found) {
    leader_k8s *self = (leader_k8s *)user;
    leader_http_drive_(&self->http);
    leader_k8s_check_event_(self);
    leader_k8s_check_label_(self);
    leader_k8s_set_label_(self);
    leader_news news = LEADER_NEWS_NONE;
    if (self->watch.running || self->watch.done) {
        news = leader_k8s_watch_read_(self, found);
    }
    if (news != LEADER_NEWS_NONE) {
        return news;
    }
    if (self->watch.done) {
        leader_k8s_watch_ended_(self);
    } else if (leader_k8s_watch_hangs_(self)) {
        leader_k8s_watch_back_off_(self, 0);
    }
    if (self->watch_lost) {
        self->watch_lost = false;
        return LEADER_NEWS_DEAF;
    }
    leader_k8s_watch_start_(self);
    return LEADER_NEWS_NONE;
}

/* ---- reading and writing ---------------------------------------------------------------------- */

/* The reply is the Lease as it now is: swaps it with doc. */
static void leader_k8s_learn_(leader_k8s *self, const leader_k8s_lease_ *lease) {
    leader_http_text_ swap = self->doc;
    self->doc = self->ask.reply;
    self->ask.reply = swap;
    self->lease = *lease;
    self->watch_stale = false;
    if (!lease->entry.locked) {
        self->told_locked = false;
    } else if (!self->told_locked) {
        self->told_locked = true;
        leader_k8s_log_(self, LEADER_LOG_WARN, "spec.strategy or spec.preferredHolder is set: left to its "
                        "coordinator");
    }
    leader_k8s_watch_compare_(self);
    leader_k8s_watch_start_(self);
    leader_http_drive_(&self->http);
}

/* What is wrong with the reply as a Lease, or LEADER_OK. */
static leader_result leader_k8s_parse_(leader_k8s *self, leader_k8s_lease_ *lease) {
    leader_http_text_ *reply = &self->ask.reply;
    leader_k8s_trim_(reply);
    if (reply->len == 0) {
        return leader_k8s_corrupt_(self, "is empty", 0);
    }
    const char *problem = leader_k8s_read_(self, reply->at, reply->len, lease);
    if (problem) {
        return leader_k8s_corrupt_(self, problem, lease->bad_at);
    }
    if (lease->token_bad) {
        leader_k8s_log_(self, LEADER_LOG_ERROR, "annotation leader-h/token is not a number below 2^53: "
                        "repair or remove it");
        return LEADER_E_CORRUPT;
    }
    return LEADER_OK;
}

/* No answer came. */
static leader_result leader_k8s_unanswered_(leader_k8s *self) {
    leader_k8s_log_(self, LEADER_LOG_ERROR, "%s: %s", leader_k8s_method_(self->step), self->ask.error);
    return self->ask.result;
}

/* An answer that is none of the expected ones. */
static leader_result leader_k8s_refused_(leader_k8s *self, leader_entry *told) {
    char words[400];
    char pause[40] = "";
    long status = self->ask.status;
    bool redirect = status >= 300 && status < 400;
    bool busy = status == 408 || status == 409 || status == 429 || status >= 500;
    told->again_ms = busy ? leader_min_(self->ask.retry_after_ms, LEADER_K8S_RETRY_MAX_MS_) : 0;
    if (status == 403) {
        leader_k8s_log_denial_(self, &self->ask, self->step);
        return LEADER_E_AUTH;
    }
    leader_k8s_words_(&self->ask.reply, words, sizeof words);
    if (told->again_ms > 0) {
        snprintf(pause, sizeof pause, " (again in %d s)", (int)(told->again_ms / 1000));
    }
    if (redirect) {
        snprintf(words, sizeof words, "a redirect, which is not followed");
    }
    const char *method = leader_k8s_method_(self->step);
    const char *colon = words[0] != 0 ? ": " : "";
    leader_k8s_log_(self, LEADER_LOG_ERROR, "%s was answered %ld%s%s%s", method, status, pause, colon, words);
    if (busy) {
        return LEADER_E_IO;
    }
    return status == 401 ? LEADER_E_AUTH : LEADER_E_CONFIG;
}

/* Does this 404 say that the Lease is missing, rather than its namespace, or the path on some other
   kind of server? */
static bool leader_k8s_says_absent_(const leader_k8s *self) {
    leader_json_ root;
    size_t bad_at;
    const leader_http_text_ *reply = &self->ask.reply;
    if (self->ask.status != 404 || reply->len == 0) {
        return false;
    }
    if (!leader_json_parse_(reply->at, reply->len, &root, &bad_at)) {
        return false;
    }
    leader_json_ details = leader_k8s_member_(root, "details");
    return leader_k8s_is_text_(details, "kind", "leases") && leader_k8s_is_text_(details, "name", self->name);
}

/* A token that was rotated is read again, once. */
static bool leader_k8s_may_retry_(leader_k8s *self) {
    bool worth = self->ask.status == 401 && self->token_file[0] != 0 && !self->retried_auth;
    if (worth) {
        self->retried_auth = true;
        self->token_read_ms = -1;
    }
    return worth;
}

/* There is no Lease. A candidate creates one, empty: its uid is its origin, so one that knew another Lease
   sees that the store forgot. */
static leader_result leader_k8s_absent_(leader_k8s *self, const leader_call *call) {
    if (!call->competes) {
        memset(&self->lease, 0, sizeof self->lease);
        return LEADER_OK;
    }
    if (!leader_k8s_compose_empty_(self)) {
        leader_k8s_log_(self, LEADER_LOG_ERROR, "no memory for a request");
        return LEADER_E_IO;
    }
    return leader_k8s_send_(self, LEADER_K8S_CREATE_);
}

static leader_result leader_k8s_read_answer_(leader_k8s *self, const leader_call *call, leader_entry *found) {
    leader_k8s_lease_ lease;
    long status = self->ask.status;
    if (self->ask.result != LEADER_OK) {
        return leader_k8s_unanswered_(self);
    }
    if (status == 200 || status == 201) {
        leader_result result = leader_k8s_parse_(self, &lease);
        if (result == LEADER_OK) {
            leader_k8s_learn_(self, &lease);
            *found = lease.entry;
        }
        return result;
    }
    if (self->step == LEADER_K8S_GET_ && leader_k8s_says_absent_(self)) {
        return leader_k8s_absent_(self, call);
    }
    self->tries++;
    if (self->step == LEADER_K8S_CREATE_ && status == 409 && self->tries <= LEADER_K8S_TRIES_MAX_) {
        return leader_k8s_send_(self, LEADER_K8S_GET_);     // somebody else created it
    }
    if (leader_k8s_may_retry_(self)) {
        return leader_k8s_send_(self, self->step);
    }
    return leader_k8s_refused_(self, found);
}

/* The answer to a write must be what we sent, or something else decides here. */
static bool leader_k8s_is_as_sent_(const leader_k8s *self, const leader_k8s_lease_ *lease) {
    const leader_entry *got = &lease->entry;
    const leader_entry *sent = &self->sent;
    bool same_name = strcmp(got->holder, sent->holder) == 0;
    bool same_term = got->nonce == sent->nonce && got->seq == sent->seq && got->token == sent->token;
    bool same_lease = got->lease_ms == sent->lease_ms && got->hold_off_ms == sent->hold_off_ms;
    return same_name && same_term && same_lease && strcmp(lease->renew, self->sent_renew) == 0;
}

static leader_result leader_k8s_written_(leader_k8s *self, const leader_call *call, leader_entry *stored) {
    leader_k8s_lease_ lease;
    leader_result result = leader_k8s_parse_(self, &lease);
    if (result != LEADER_OK) {
        return result;
    }
    if (strcmp(lease.uid, self->lease.uid) != 0) {
        return leader_k8s_corrupt_(self, "is about another object", 0);
    }
    if (!leader_k8s_is_as_sent_(self, &lease)) {
        return leader_k8s_corrupt_(self, "is not what was sent", 0);
    }
    leader_k8s_learn_(self, &lease);
    *stored = lease.entry;
    leader_k8s_set_label_(self);
    if (call->begins && stored->hold_off_ms == 0) {
        leader_k8s_record_event_(self, "became leader");
    }
    if (stored->holder[0] == 0) {
        leader_k8s_record_event_(self, "stopped leading");
    }
    return LEADER_OK;
}

static leader_result leader_k8s_write_answer_(leader_k8s *self, const leader_call *call,
                                              leader_entry *stored) {
    long status = self->ask.status;
    if (self->ask.result != LEADER_OK) {
        return leader_k8s_unanswered_(self);
    }
    if (status == 200) {
        return leader_k8s_written_(self, call, stored);
    }
    if (status == 409 || leader_k8s_says_absent_(self)) {
        return LEADER_LOST;
    }
    if (leader_k8s_may_retry_(self)) {
        return leader_k8s_send_(self, self->step);
    }
    return leader_k8s_refused_(self, stored);
}

static bool leader_k8s_is_new_(leader_k8s *self, const leader_call *call) {
    if (self->call_id == call->id) {
        return false;
    }
    leader_http_drop_(&self->ask);
    self->call_id = call->id;
    self->tries = 0;
    self->retried_auth = false;
    return true;
}

/* True: the request under way has an answer. */
static bool leader_k8s_is_answered_(leader_k8s *self, leader_entry *told) {
    leader_http_drive_(&self->http);
    told->again_ms = leader_http_wait_ms_(&self->http);
    bool answered = self->ask.done;
    self->ask.done = false;
    if (answered) {
        told->again_ms = 0;
    }
    return answered;
}

static leader_result leader_k8s_get_(void *user, const leader_call *call, leader_entry *found) {
    leader_k8s *self = (leader_k8s *)user;
    leader_result result = LEADER_PENDING;
    if (leader_k8s_is_new_(self, call)) {
        result = leader_k8s_send_(self, LEADER_K8S_GET_);
    }
    while (result == LEADER_PENDING && leader_k8s_is_answered_(self, found)) {
        result = leader_k8s_read_answer_(self, call, found);
    }
    return result;
}

/* What is decided about one version is written on top of that version only. */
static leader_result leader_k8s_start_write_(leader_k8s *self, const leader_call *call,
                                             const leader_entry *next) {
    if (strcmp(next->version, self->lease.entry.version) != 0) {
        return LEADER_LOST;
    }
    self->sent = *next;
    self->nonce = next->nonce;
    if (!leader_k8s_compose_(self, call->begins)) {
        leader_k8s_log_(self, LEADER_LOG_ERROR, "no memory for a request");
        return LEADER_E_IO;
    }
    return leader_k8s_send_(self, LEADER_K8S_PUT_);
}

static leader_result leader_k8s_set_lease_(void *user, const leader_call *call, const leader_entry *next,
                                           leader_entry *stored) {
    leader_k8s *self = (leader_k8s *)user;
    leader_result result = LEADER_PENDING;
    if (leader_k8s_is_new_(self, call)) {
        result = leader_k8s_start_write_(self, call, next);
    }
    while (result == LEADER_PENDING && leader_k8s_is_answered_(self, stored)) {
        result = leader_k8s_write_answer_(self, call, stored);
    }
    return result;
}

/* No answer came in time: neither the connection nor the watch is worth trust. */
static void leader_k8s_cancel_(void *user) {
    leader_k8s *self = (leader_k8s *)user;
    if (self->ask.running) {
        leader_http_drop_(&self->ask);
        leader_http_drop_(&self->label.x);
        leader_k8s_watch_stop_(self);
        self->watch_stale = true;   // it begins again after the next answer, on that connection
    }
    self->ask.done = false;
}

/* ---- kubeconfig: JSON, or the part of YAML that such files use -------------------------------- */

/* Block mappings, lists of mappings, plain and quoted scalars, comments. Anchors, tags, block scalars
   and flow collections are refused where a value is wanted, and skipped elsewhere. */

enum { LEADER_K8S_KUBE_MAX_ = 1 << 18, LEADER_K8S_YAML_DEPTH_ = 8, LEADER_K8S_KEY_MAX_ = 63 };
enum leader_k8s_found_ { LEADER_K8S_NONE_, LEADER_K8S_FOUND_, LEADER_K8S_ODD_ };

typedef struct leader_k8s_line_ {   /* one line of YAML */
    size_t      indent;             // of the key, after dashes
    size_t      dash;               // column of the first dash; meaningful with `starts`
    bool        starts;             // a list item
    leader_json_ key;               // len 0: none
    leader_json_ value;             // what follows the colon, trimmed; a comment is cut off
} leader_k8s_line_;

typedef struct leader_k8s_kube_ {
    const char *text;
    size_t      len;
    leader_json_ root;              // at NULL: YAML
} leader_k8s_kube_;

static leader_json_ leader_k8s_span_(const char *from, const char *end) {
    leader_json_ span;
    while (from < end && leader_k8s_is_space_(*from)) {
        from++;
    }
    while (end > from && leader_k8s_is_space_(end[-1])) {
        end--;
    }
    span.at = from;
    span.len = (size_t)(end - from);
    return span;
}

/* The end of the scalar that starts at `from`: quotes are respected, " #" begins a comment. */
static const char *leader_k8s_scalar_end_(const char *from, const char *end) {
    char quote = from < end && (*from == '"' || *from == '\'') ? *from : 0;
    const char *p = from + (quote != 0 ? 1 : 0);
    for (; p < end; p++) {
        if (quote == '"' && *p == '\\') {
            p++;
        } else if (quote != 0 && *p == quote) {
            bool doubled = quote == '\'' && p + 1 < end && p[1] == '\'';
            if (!doubled) {
                return p + 1;
            }
            p++;
        } else if (quote == 0 && *p == '#' && (p == from || leader_k8s_is_space_(p[-1]))) {
            return p;
        }
    }
    return end;
}

/* The colon that ends a plain key: followed by a space or by the end of the line. */
static const char *leader_k8s_colon_(const char *from, const char *end) {
    for (const char *p = from; p < end; p++) {
        if (*p == ':' && (p + 1 == end || leader_k8s_is_space_(p[1]))) {
            return p;
        }
        if (*p == '#' || *p == '"' || *p == '\'') {
            return NULL;
        }
    }
    return NULL;
}

static void leader_k8s_read_line_(const char *from, const char *end, leader_k8s_line_ *line) {
    const char *p = from;
    memset(line, 0, sizeof *line);
    while (p < end && *p == ' ') {
        p++;
    }
    while (p < end && *p == '-' && (p + 1 == end || p[1] == ' ')) {
        if (!line->starts) {
            line->dash = (size_t)(p - from);
        }
        line->starts = true;
        p++;
        while (p < end && *p == ' ') {
            p++;
        }
    }
    line->indent = (size_t)(p - from);
    const char *colon = leader_k8s_colon_(p, end);
    if (!colon) {
        return;
    }
    line->key = leader_k8s_span_(p, colon);
    const char *value = colon + 1;
    while (value < end && leader_k8s_is_space_(*value)) {
        value++;
    }
    line->value = leader_k8s_span_(value, leader_k8s_scalar_end_(value, end));
}

typedef struct leader_k8s_place_ {  /* where in the document a line is */
    leader_json_ section;           // the key at the left margin
    long    item;                   // of the list under it; -1: none yet
    size_t  list;                   // its dashes' column
    int     depth;
    struct { size_t indent; leader_json_ key; } path[LEADER_K8S_YAML_DEPTH_];
} leader_k8s_place_;

static void leader_k8s_step_(leader_k8s_place_ *place, const leader_k8s_line_ *line) {
    if (line->starts && (place->item < 0 || line->dash == place->list)) {
        place->list = line->dash;
        place->item++;
        place->depth = 0;
    }
    if (line->key.len == 0) {
        return;
    }
    if (line->indent == 0) {
        place->section = line->key;
        place->item = -1;
        place->depth = 0;
        return;
    }
    while (place->depth > 0 && place->path[place->depth - 1].indent >= line->indent) {
        place->depth--;
    }
    if (place->depth < LEADER_K8S_YAML_DEPTH_) {
        place->path[place->depth].indent = line->indent;
        place->path[place->depth].key = line->key;
    }
    place->depth++;
}

static bool leader_k8s_is_key_(leader_json_ key, const char *name) {
    return key.len == strlen(name) && memcmp(key.at, name, key.len) == 0;
}

/* outer NULL: a key of the item itself; section NULL: `inner` at the left margin. */
static bool leader_k8s_is_at_(const leader_k8s_place_ *place, const char *section, long item,
                              const char *outer, const char *inner) {
    int depth = outer ? 2 : 1;
    if (!section) {
        return place->depth == 0 && place->item < 0 && leader_k8s_is_key_(place->section, inner);
    }
    if (place->depth != depth || place->item != item || !leader_k8s_is_key_(place->section, section)) {
        return false;
    }
    if (outer && !leader_k8s_is_key_(place->path[0].key, outer)) {
        return false;
    }
    return leader_k8s_is_key_(place->path[depth - 1].key, inner);
}

static int leader_k8s_unquote_(leader_json_ value, char *buf, size_t cap) {
    size_t len = 0;
    buf[0] = 0;
    if (value.len == 0) {
        return LEADER_K8S_NONE_;
    }
    if (value.at[0] == '"') {
        leader_json_ root;
        size_t bad_at;
        bool json = leader_json_parse_(value.at, value.len, &root, &bad_at);
        return json && leader_json_string_(root, buf, cap) ? LEADER_K8S_FOUND_ : LEADER_K8S_ODD_;
    }
    bool single = value.at[0] == '\'';
    bool closed = value.len >= 2 && value.at[value.len - 1] == '\'';
    if (strchr("|>&*!{[%@`", value.at[0]) || (single && !closed)) {
        return LEADER_K8S_ODD_;
    }
    size_t from = single ? 1 : 0;
    size_t end = value.len - from;
    for (size_t i = from; i < end; i++) {
        if (len + 1 >= cap) {
            return LEADER_K8S_ODD_;
        }
        buf[len] = value.at[i];
        len++;
        if (single && value.at[i] == '\'') {
            i++;
        }
    }
    buf[len] = 0;
    bool null = !single && (strcmp(buf, "null") == 0 || strcmp(buf, "~") == 0);
    return null ? LEADER_K8S_NONE_ : LEADER_K8S_FOUND_;
}

/* A key without a value may stand for a mapping below it: *buf is "" then, and the answer FOUND. */
static int leader_k8s_yaml_get_(const leader_k8s_kube_ *kube, const char *section, long item,
                                const char *outer, const char *inner, char *buf, size_t cap) {
    leader_k8s_place_ place;
    memset(&place, 0, sizeof place);
    place.item = -1;
    const char *end = kube->text + kube->len;
    for (const char *from = kube->text; from < end;) {
        const char *stop = (const char *)memchr(from, '\n', (size_t)(end - from));
        leader_k8s_line_ line;
        stop = stop ? stop : end;
        leader_k8s_read_line_(from, stop, &line);
        from = stop + 1;
        leader_k8s_step_(&place, &line);
        if (line.key.len > 0 && leader_k8s_is_at_(&place, section, item, outer, inner)) {
            buf[0] = 0;
            return line.value.len > 0 ? leader_k8s_unquote_(line.value, buf, cap) : LEADER_K8S_FOUND_;
        }
    }
    return LEADER_K8S_NONE_;
}

/* The n-th element of an array that leader_json_parse_ accepted; len 0: there are not so many. */
static leader_json_ leader_k8s_element_(leader_json_ array, long n) {
    leader_json_ none = {"", 0};
    if (array.len == 0 || array.at[0] != '[') {
        return none;
    }
    const char *end = array.at + array.len;
    const char *p = leader_json_space_(array.at + 1, end);
    while (p < end && *p != ']') {
        leader_json_ value;
        value.at = p;
        if (!leader_json_skip_(&p, end, LEADER_JSON_DEPTH_)) {
            return none;
        }
        value.len = (size_t)(p - value.at);
        if (n == 0) {
            return value;
        }
        n--;
        p = leader_json_space_(p, end);
        if (p < end && *p == ',') {
            p = leader_json_space_(p + 1, end);
        }
    }
    return none;
}

static int leader_k8s_json_get_(const leader_k8s_kube_ *kube, const char *section, long item,
                                const char *outer, const char *inner, char *buf, size_t cap) {
    leader_json_ at = kube->root;
    buf[0] = 0;
    if (section) {
        at = leader_k8s_element_(leader_k8s_member_(at, section), item);
    }
    if (outer) {
        at = leader_k8s_member_(at, outer);
    }
    leader_json_ value = leader_k8s_member_(at, inner);
    if (value.len == 0) {
        return LEADER_K8S_NONE_;
    }
    if (value.at[0] == '{' || value.at[0] == 't' || value.at[0] == 'f') {
        snprintf(buf, cap, "%.*s", value.at[0] == '{' ? 0 : (int)value.len, value.at);
        return LEADER_K8S_FOUND_;
    }
    return leader_json_string_(value, buf, cap) ? LEADER_K8S_FOUND_ : LEADER_K8S_ODD_;
}

static int leader_k8s_kube_get_(const leader_k8s_kube_ *kube, const char *section, long item,
                                const char *outer, const char *inner, char *buf, size_t cap) {
    if (kube->root.at) {
        return leader_k8s_json_get_(kube, section, item, outer, inner, buf, cap);
    }
    return leader_k8s_yaml_get_(kube, section, item, outer, inner, buf, cap);
}

/* Which item of the section bears the name; -1: none. */
static long leader_k8s_kube_item_(const leader_k8s_kube_ *kube, const char *section, const char *name) {
    enum { ITEMS_MAX = 1000 };
    char text[LEADER_K8S_NAME_MAX_ + 1];
    for (long item = 0; item < ITEMS_MAX; item++) {
        int found = leader_k8s_kube_get_(kube, section, item, NULL, "name", text, sizeof text);
        if (found == LEADER_K8S_FOUND_ && strcmp(text, name) == 0) {
            return item;
        }
    }
    return -1;
}

/* ---- what a kubeconfig means ------------------------------------------------------------------ */

typedef struct leader_k8s_import_ {
    leader_k8s      *self;
    leader_k8s_kube_ kube;
    const char      *section;       // "clusters" or "users"
    const char      *outer;         // "cluster" or "user"
    long             item;
} leader_k8s_import_;

static bool leader_k8s_kube_fail_(leader_k8s *self, const char *format, ...) LEADER_PRINTF_(2, 3);
static bool leader_k8s_kube_fail_(leader_k8s *self, const char *format, ...) {
    va_list args;
    int len = snprintf(self->problem, sizeof self->problem, "kubeconfig %.120s: ", self->kubeconfig);
    va_start(args, format);
    vsnprintf(self->problem + len, sizeof self->problem - (size_t)len, format, args);
    va_end(args);
    return false;
}

/* Fills `to` unless the settings say already; false: it cannot be understood, or is too long. */
static bool leader_k8s_import_text_(leader_k8s_import_ *import, const char *key, char *to, size_t cap) {
    char text[LEADER_K8S_TOKEN_MAX_ + 1];
    int found = leader_k8s_kube_get_(&import->kube, import->section, import->item, import->outer, key, text,
                                     sizeof text);
    if (found == LEADER_K8S_ODD_ || strlen(text) >= cap) {
        const char *outer = import->outer;
        return leader_k8s_kube_fail_(import->self, "%s.%s: not a plain or quoted text that fits", outer, key);
    }
    if (found == LEADER_K8S_FOUND_ && to[0] == 0) {
        memcpy(to, text, strlen(text) + 1);
    }
    return true;
}

/* Relative to the kubeconfig's own directory, as kubectl reads it. */
static bool leader_k8s_import_path_(leader_k8s_import_ *import, const char *key, char *to, size_t cap) {
    leader_k8s *self = import->self;
    char path[LEADER_HTTP_PATH_MAX_ + 1] = "";
    if (!leader_k8s_import_text_(import, key, path, sizeof path)) {
        return false;
    }
    if (path[0] == 0 || to[0] != 0) {
        return true;
    }
    const char *slash = strrchr(self->kubeconfig, '/');
    int dir = path[0] == '/' || !slash ? 0 : (int)(slash - self->kubeconfig) + 1;
    int len = snprintf(to, cap, "%.*s%s", dir, self->kubeconfig, path);
    if (len < 0 || (size_t)len >= cap) {
        return leader_k8s_kube_fail_(self, "%s.%s: too long", import->outer, key);
    }
    return true;
}

static int leader_k8s_base64_(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != 0 ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* In place; false: not base64 of a text. */
static bool leader_k8s_decode_(leader_http_text_ *text) {
    unsigned bits = 0;
    int held = 0;
    size_t out = 0;
    size_t len = text->len;
    while (len > 0 && text->at[len - 1] == '=') {
        len--;
    }
    for (size_t i = 0; i < len; i++) {
        int digit = leader_k8s_base64_(text->at[i]);
        if (digit < 0) {
            return false;
        }
        bits = (bits << 6 | (unsigned)digit) & 0xffffffu;
        held += 6;
        if (held >= 8) {
            held -= 8;
            text->at[out] = (char)(bits >> held & 0xff);
            if (text->at[out] == 0) {
                return false;
            }
            out++;
        }
    }
    text->len = out;
    text->at[out] = 0;
    return out > 0;
}

static bool leader_k8s_import_data_(leader_k8s_import_ *import, const char *key, leader_http_text_ *to) {
    leader_k8s *self = import->self;
    char *text = (char *)malloc(LEADER_K8S_KUBE_MAX_);
    if (!text) {
        return leader_k8s_kube_fail_(self, "no memory");
    }
    int found = leader_k8s_kube_get_(&import->kube, import->section, import->item, import->outer, key, text,
                                     LEADER_K8S_KUBE_MAX_);
    bool there = found == LEADER_K8S_FOUND_ && text[0] != 0;
    bool copied = there && leader_http_copy_(to, text, strlen(text));
    free(text);
    if (found == LEADER_K8S_ODD_ || (there && (!copied || !leader_k8s_decode_(to)))) {
        return leader_k8s_kube_fail_(self, "%s.%s: not base64 on one line", import->outer, key);
    }
    return true;
}

/* Settings that we cannot or will not follow are never passed over in silence. */
static bool leader_k8s_import_refuses_(leader_k8s_import_ *import) {
    static const struct { const char *key, *why; } refused[] = {
        {"exec", "runs a program for its token, which a tick cannot wait for: make a token with "
                 "`kubectl create token`, or use `kubectl proxy` and http://127.0.0.1:8001"},
        {"auth-provider", "is not supported: make a token with `kubectl create token`"},
        {"username", "passwords are not supported: use a token or a client certificate"},
        {"insecure-skip-tls-verify", "true is not followed: the server is always verified"},
        {"proxy-url", "proxies are not used"},
        {"tls-server-name", "is not supported: use a name that the certificate has"}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char text[LEADER_HTTP_PATH_MAX_ + 1];
        int found = leader_k8s_kube_get_(&import->kube, import->section, import->item, import->outer,
                                         refused[i].key, text, sizeof text);
        if (found != LEADER_K8S_NONE_ && strcmp(text, "false") != 0) {
            leader_k8s_kube_fail_(import->self, "%s.%s %s", import->outer, refused[i].key, refused[i].why);
            return true;
        }
    }
    return false;
}

static bool leader_k8s_import_cluster_(leader_k8s_import_ *import) {
    leader_k8s *self = import->self;
    import->section = "clusters";
    import->outer = "cluster";
    if (leader_k8s_import_refuses_(import)) {
        return false;
    }
    return leader_k8s_import_text_(import, "server", self->server, sizeof self->server) &&
           leader_k8s_import_path_(import, "certificate-authority", self->ca_file, sizeof self->ca_file) &&
           leader_k8s_import_data_(import, "certificate-authority-data", &self->ca_text);
}

static bool leader_k8s_import_user_(leader_k8s_import_ *import) {
    leader_k8s *self = import->self;
    import->section = "users";
    import->outer = "user";
    bool given = self->token[0] != 0 || self->token_file[0] != 0 || self->cert_file[0] != 0;
    if (given) {
        return true;
    }
    if (leader_k8s_import_refuses_(import)) {
        return false;
    }
    if (!leader_k8s_import_path_(import, "tokenFile", self->token_file, sizeof self->token_file)) {
        return false;
    }
    bool wants_token = self->token_file[0] == 0;
    if (wants_token && !leader_k8s_import_text_(import, "token", self->token, sizeof self->token)) {
        return false;
    }
    return leader_k8s_import_path_(import, "client-certificate", self->cert_file, sizeof self->cert_file) &&
           leader_k8s_import_path_(import, "client-key", self->key_file, sizeof self->key_file) &&
           leader_k8s_import_data_(import, "client-certificate-data", &self->cert_text) &&
           leader_k8s_import_data_(import, "client-key-data", &self->key_text);
}

/* The item of `section` that the context names with `key`. */
static bool leader_k8s_import_item_(leader_k8s_import_ *import, long context, const char *key,
                                    const char *section) {
    char name[LEADER_K8S_NAME_MAX_ + 1];
    int found = leader_k8s_kube_get_(&import->kube, "contexts", context, "context", key, name, sizeof name);
    if (found != LEADER_K8S_FOUND_ || name[0] == 0) {
        const char *context_name = import->self->context;
        return leader_k8s_kube_fail_(import->self, "the context \"%s\" names no %s", context_name, key);
    }
    import->item = leader_k8s_kube_item_(&import->kube, section, name);
    if (import->item < 0) {
        return leader_k8s_kube_fail_(import->self, "there is no %s \"%s\"", key, name);
    }
    return true;
}

static bool leader_k8s_import_context_(leader_k8s_import_ *import) {
    leader_k8s *self = import->self;
    char *name = self->context;
    if (name[0] == 0) {
        leader_k8s_kube_get_(&import->kube, NULL, -1, NULL, "current-context", name, sizeof self->context);
    }
    if (name[0] == 0) {
        return leader_k8s_kube_fail_(self, "no current-context: say which context");
    }
    long context = leader_k8s_kube_item_(&import->kube, "contexts", name);
    if (context < 0) {
        return leader_k8s_kube_fail_(self, "there is no context \"%s\"", name);
    }
    bool ok = leader_k8s_import_item_(import, context, "cluster", "clusters");
    ok = ok && leader_k8s_import_cluster_(import);
    ok = ok && leader_k8s_import_item_(import, context, "user", "users");
    ok = ok && leader_k8s_import_user_(import);
    if (!ok) {
        return false;
    }
    import->section = "contexts";
    import->outer = "context";
    import->item = context;
    if (!leader_k8s_import_text_(import, "namespace", self->name_space, sizeof self->name_space)) {
        return false;
    }
    if (self->name_space[0] == 0) {
        memcpy(self->name_space, "default", 8);
    }
    return true;
}

static bool leader_k8s_import_kube_(leader_k8s *self, const char *text, size_t len) {
    leader_k8s_import_ import;
    size_t bad_at;
    memset(&import, 0, sizeof import);
    import.self = self;
    import.kube.text = text;
    import.kube.len = len;
    leader_json_ start = leader_k8s_span_(text, text + len);
    if (start.len > 0 && start.at[0] == '{' && !leader_json_parse_(text, len, &import.kube.root, &bad_at)) {
        return leader_k8s_kube_fail_(self, "not JSON at byte %lu", (unsigned long)bad_at);
    }
    if (memchr(text, 0, len) || memchr(text, '\t', len)) {
        return leader_k8s_kube_fail_(self, "holds a tab or a zero byte");
    }
    return leader_k8s_import_context_(&import);
}

/* Fills in what the settings leave open. False: self->problem says why. */
static bool leader_k8s_read_kubeconfig_(leader_k8s *self) {
    if (strchr(self->kubeconfig, ':')) {
        return leader_k8s_kube_fail_(self, "a list of files is not supported: name one");
    }
    FILE *file = fopen(self->kubeconfig, "rb");
    if (!file) {
        return leader_k8s_kube_fail_(self, "%s", strerror(errno));
    }
    char *text = (char *)malloc(LEADER_K8S_KUBE_MAX_);
    size_t len = text ? fread(text, 1, LEADER_K8S_KUBE_MAX_, file) : 0;
    bool whole = text && !ferror(file) && len < LEADER_K8S_KUBE_MAX_;
    fclose(file);
    bool ok = whole ? leader_k8s_import_kube_(self, text, len)
                    : leader_k8s_kube_fail_(self, "cannot be read, or is larger than 256 KiB");
    free(text);
    return ok;
}

/* ---- settings --------------------------------------------------------------------------------- */

static bool leader_k8s_is_dns_(const char *text, size_t max, bool dots) {
    size_t len = strlen(text);
    if (len == 0 || len > max) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        char before = i > 0 ? text[i - 1] : '.';
        char after = i + 1 < len ? text[i + 1] : '.';
        bool plain = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9');
        bool dash = text[i] == '-' && before != '.' && after != '.';
        bool dot = text[i] == '.' && dots && before != '.' && after != '.';
        if (!plain && !dash && !dot) {
            return false;
        }
    }
    return true;
}

static const char *leader_k8s_check_names_(const leader_k8s *self) {
    if (self->server[0] == 0) {
        return "server: required (neither in a pod, where KUBERNETES_SERVICE_HOST is set, nor a kubeconfig)";
    }
    if (!leader_k8s_is_dns_(self->name, LEADER_K8S_NAME_MAX_, true)) {
        return "lease_name: must be a DNS-1123 subdomain: a-z, 0-9, '-' and '.', at most 253 bytes";
    }
    if (!leader_k8s_is_dns_(self->name_space, LEADER_K8S_LABEL_MAX_, false)) {
        return "lease_namespace: must be a DNS-1123 label: a-z, 0-9 and '-', at most 63 bytes";
    }
    if (self->label_pod && !leader_k8s_is_dns_(self->pod, LEADER_K8S_NAME_MAX_, true)) {
        return "pod_name: must be a DNS-1123 subdomain, the name of this pod (or set POD_NAME)";
    }
    if (self->token[0] != 0 && leader_k8s_token_problem_(self->token, strlen(self->token))) {
        return "token: must be printable ASCII without spaces";
    }
    if (self->token[0] != 0 && self->token_file[0] != 0) {
        return "token, token_file: give one of them";
    }
    bool plain = strncmp(self->server, "http://", 7) == 0;
    if (plain && (self->token[0] != 0 || self->token_file[0] != 0)) {
        return "token: is not sent over http:// (kubectl proxy needs none)";
    }
    return NULL;
}

static const char *leader_k8s_check_times_(leader_k8s *self) {
    const leader_config *config = self->host.config;
    int64_t seconds = leader_k8s_seconds_(config->lease_ms);
    if (seconds > INT32_MAX) {
        return "lease_ms: too long for a Lease";
    }
    int64_t limit_ms = seconds * 1000 - seconds * 50 - LEADER_K8S_EARLY_MS_;
    if (self->leader_h_only || config->renew_deadline_ms <= limit_ms) {
        return NULL;
    }
    snprintf(self->problem, sizeof self->problem, "renew_deadline_ms (%lld) must be at most %lld: client-go "
             "may take a Lease of %lld s over 1 s early (or set leader_h_only)",
             LEADER_LL_(config->renew_deadline_ms), LEADER_LL_(limit_ms), LEADER_LL_(seconds));
    return self->problem;
}

static void leader_k8s_free_texts_(leader_k8s *self) {
    leader_http_text_ *texts[8];
    texts[0] = &self->doc;
    texts[1] = &self->body;
    texts[2] = &self->event_doc;
    texts[3] = &self->note_body;
    texts[4] = &self->ca_text;
    texts[5] = &self->cert_text;
    texts[6] = &self->key_text;
    texts[7] = &self->label_body;
    for (int i = 0; i < 8; i++) {
        leader_http_free_(texts[i]);
    }
}

static void leader_k8s_close_(void *user) {
    leader_k8s *self = (leader_k8s *)user;
    leader_http_close_(&self->http);
    leader_k8s_free_texts_(self);
    memset(&self->lease, 0, sizeof self->lease);
}

static const char *leader_k8s_open_http_(leader_k8s *self) {
    leader_http_settings_ settings;
    memset(&settings, 0, sizeof settings);
    settings.server = self->server;
    settings.ca_file = self->ca_file;
    settings.cert_file = self->cert_file;
    settings.key_file = self->key_file;
    settings.ca_text = self->ca_text.at;
    settings.cert_text = self->cert_text.at;
    settings.key_text = self->key_text.at;
    settings.client = self->client;
    return leader_http_open_(&self->http, &settings, &self->host);
}

static const char *leader_k8s_check_(leader_k8s *self) {
    if (self->problem[0] != 0) {
        return self->problem;
    }
    if (self->kubeconfig[0] != 0 && !leader_k8s_read_kubeconfig_(self)) {
        return self->problem;
    }
    const char *problem = leader_k8s_check_names_(self);
    snprintf(self->shown, sizeof self->shown, "%s/%s", self->name_space, self->name);
    if (!problem) {
        problem = leader_k8s_check_times_(self);
    }
    return problem ? problem : leader_k8s_open_http_(self);
}

/* What an earlier open left behind is forgotten: in a forked child it is the parent's. */
static void leader_k8s_forget_(leader_k8s *self) {
    memset(&self->ask, 0, sizeof self->ask);
    memset(&self->watch, 0, sizeof self->watch);
    memset(&self->note, 0, sizeof self->note);
    memset(&self->label, 0, sizeof self->label);
    memset(&self->lease, 0, sizeof self->lease);
    memset(&self->doc, 0, sizeof self->doc);
    memset(&self->body, 0, sizeof self->body);
    memset(&self->event_doc, 0, sizeof self->event_doc);
    memset(&self->note_body, 0, sizeof self->note_body);
    memset(&self->label_body, 0, sizeof self->label_body);
    self->nonce = 0;
    self->label_stands = NULL;
    self->told_label = false;
    self->label_pause_ms = 0;
    self->call_id = 0;
    self->watch_open = false;
    self->watch_stale = false;
    self->watch_lost = false;
    self->watch_denied = false;
    self->watch_pause_ms = 0;
    self->watch_after_ms = 0;
    self->watch_behind_ms = -1;
    self->token_read_ms = -1;
}

static const char *leader_k8s_open_(void *user, const leader_host *host) {
    leader_k8s *self = (leader_k8s *)user;
    self->host = *host;
    leader_k8s_forget_(self);
    self->watch_after_ms = leader_k8s_now_(self);
    self->label_after_ms = self->watch_after_ms;
    const char *problem = leader_k8s_check_(self);
    if (problem) {
        leader_k8s_free_texts_(self);
    }
    return problem;
}

/* ---- the maker, and what the environment says ------------------------------------------------- */

static const char *leader_k8s_env_(const char *name) {
    const char *value = getenv(name);
    return value && value[0] != 0 ? value : NULL;
}

static void leader_k8s_keep_(leader_k8s *self, char *to, size_t cap, const char *from, const char *field) {
    size_t len = from ? strlen(from) : 0;
    if (len >= cap) {
        snprintf(self->problem, sizeof self->problem, "%s: longer than %d bytes", field, (int)cap - 1);
    } else if (from) {
        memcpy(to, from, len + 1);
    }
}

/* Token and CA of a pod, where the caller has not set others. */
static void leader_k8s_keep_account_(leader_k8s *self, const char *account) {
    char path[LEADER_HTTP_PATH_MAX_ + 16];
    if (account[0] == 0) {
        return;
    }
    if (self->token[0] == 0 && self->token_file[0] == 0) {
        snprintf(path, sizeof path, "%s/token", account);
        leader_k8s_keep_(self, self->token_file, sizeof self->token_file, path, "token_file");
    }
    if (self->ca_file[0] == 0) {
        snprintf(path, sizeof path, "%s/ca.crt", account);
        leader_k8s_keep_(self, self->ca_file, sizeof self->ca_file, path, "ca_file");
    }
}

static void leader_k8s_keep_pod_(leader_k8s *self, const leader_k8s_config *config) {
    char host[LEADER_K8S_NAME_MAX_ + 2] = "";
    const char *pod = config->pod_name ? config->pod_name : leader_k8s_env_("POD_NAME");
    if (!pod) {
        leader_host_name_(host, sizeof host);
        pod = host;
    }
    leader_k8s_keep_(self, self->pod, sizeof self->pod, pod, "pod_name");
    leader_k8s_keep_(self, self->pod_space, sizeof self->pod_space, config->env_namespace, "POD_NAMESPACE");
}

LEADER_API leader_backend leader_k8s_backend(leader_k8s *self, const leader_k8s_config *config) {
    memset(self, 0, sizeof *self);
    const char *server = config->server ? config->server : config->env_server;
    const char *name_space = config->lease_namespace ? config->lease_namespace : config->env_namespace;
    const char *kubeconfig = config->kubeconfig ? config->kubeconfig : config->env_kubeconfig;
    leader_k8s_keep_(self, self->server, sizeof self->server, server, "server");
    leader_k8s_keep_(self, self->name, sizeof self->name, config->lease_name, "lease_name");
    leader_k8s_keep_(self, self->name_space, sizeof self->name_space, name_space, "lease_namespace");
    leader_k8s_keep_(self, self->ca_file, sizeof self->ca_file, config->ca_file, "ca_file");
    leader_k8s_keep_(self, self->token, sizeof self->token, config->token, "token");
    leader_k8s_keep_(self, self->token_file, sizeof self->token_file, config->token_file, "token_file");
    leader_k8s_keep_(self, self->cert_file, sizeof self->cert_file, config->cert_file, "cert_file");
    leader_k8s_keep_(self, self->key_file, sizeof self->key_file, config->key_file, "key_file");
    leader_k8s_keep_(self, self->kubeconfig, sizeof self->kubeconfig, kubeconfig, "kubeconfig");
    leader_k8s_keep_(self, self->context, sizeof self->context, config->context, "context");
    leader_k8s_keep_account_(self, config->env_account);
    self->no_watch = config->no_watch;
    self->leader_h_only = config->leader_h_only;
    self->events = config->events;
    self->label_pod = config->label_pod;
    self->client = config->client;
    if (self->label_pod) {
        leader_k8s_keep_pod_(self, config);
    }
    leader_register lease;
    memset(&lease, 0, sizeof lease);
    lease.self = self;
    lease.read = leader_k8s_get_;
    lease.write = leader_k8s_set_lease_;
    lease.notice = leader_k8s_notice_;
    lease.cancel = leader_k8s_cancel_;
    lease.open = leader_k8s_open_;
    lease.close = leader_k8s_close_;
    lease.name = self->shown;
    return leader_register_backend(&self->engine, &lease);
}

/* True: it fits. */
static bool leader_k8s_env_copy_(char *to, size_t cap, const char *from) {
    int len = snprintf(to, cap, "%s", from);
    return len >= 0 && (size_t)len < cap;
}

/* POD_NAMESPACE, else what the service account's directory says, else "default". No namespace is longer
   than 63 bytes: open will say so. */
static void leader_k8s_env_namespace_(leader_k8s_config *config) {
    char text[LEADER_K8S_LABEL_MAX_ + 3] = "default";
    char path[LEADER_HTTP_PATH_MAX_ + 16];
    const char *said = leader_k8s_env_("POD_NAMESPACE");
    snprintf(path, sizeof path, "%s/namespace", config->env_account);
    FILE *file = said ? NULL : fopen(path, "rb");
    if (said) {
        leader_k8s_env_copy_(text, sizeof text, said);
    }
    if (file) {
        size_t got = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[got] = 0;
        text[strcspn(text, "\r\n")] = 0;
    }
    if (strlen(text) <= LEADER_K8S_LABEL_MAX_) {
        memcpy(config->env_namespace, text, strlen(text) + 1);
    }
}

static leader_result leader_k8s_env_pod_(leader_k8s_config *config, const char *host) {
    const char *port = leader_k8s_env_("KUBERNETES_SERVICE_PORT");
    const char *account = leader_k8s_env_("LEADER_K8S_SERVICE_ACCOUNT");
    bool v6 = strchr(host, ':') != NULL;
    if (!leader_k8s_env_copy_(config->env_account, sizeof config->env_account,
                              account ? account : LEADER_K8S_SERVICE_ACCOUNT)) {
        return LEADER_E_CONFIG;
    }
    leader_k8s_env_namespace_(config);
    char *server = config->env_server;
    size_t cap = sizeof config->env_server;
    port = port ? port : "443";
    int len = v6 ? snprintf(server, cap, "https://[%s]:%s", host, port)
                 : snprintf(server, cap, "https://%s:%s", host, port);
    if (len > 0 && (size_t)len < sizeof config->env_server) {
        return LEADER_OK;
    }
    config->env_server[0] = 0;
    return LEADER_E_CONFIG;
}

static leader_result leader_k8s_env_kubeconfig_(leader_k8s_config *config, const char *path) {
    const char *said = leader_k8s_env_("POD_NAMESPACE");
    if (said && !leader_k8s_env_copy_(config->env_namespace, sizeof config->env_namespace, said)) {
        return LEADER_E_CONFIG;
    }
    bool fits = leader_k8s_env_copy_(config->env_kubeconfig, sizeof config->env_kubeconfig, path);
    return fits ? LEADER_OK : LEADER_E_CONFIG;
}

LEADER_API leader_result leader_k8s_config_from_env(leader_k8s_config *config, const char *lease_name) {
    const char *kubeconfig = leader_k8s_env_("KUBECONFIG");
    const char *host = leader_k8s_env_("KUBERNETES_SERVICE_HOST");
    const char *home = leader_k8s_env_("HOME");
    char path[LEADER_HTTP_PATH_MAX_ + 16] = "";
    memset(config, 0, sizeof *config);
    config->lease_name = lease_name;
    if (kubeconfig) {
        return leader_k8s_env_kubeconfig_(config, kubeconfig);
    }
    if (host) {
        return leader_k8s_env_pod_(config, host);
    }
    if (home) {
        snprintf(path, sizeof path, "%.500s/.kube/config", home);
    }
    FILE *file = path[0] != 0 ? fopen(path, "rb") : NULL;
    if (!file) {
        return LEADER_E_CONFIG;
    }
    fclose(file);
    return leader_k8s_env_kubeconfig_(config, path);
}

LEADER_API const char *leader_k8s_identity(char *buf, size_t cap) {
    const char *pod = leader_k8s_env_("POD_NAME");
    if (!pod) {
        return leader_make_identity(buf, cap, NULL);
    }
    snprintf(buf, cap, "%s", pod);
    return buf;
}

#ifdef __cplusplus
}
#endif
#endif /* LEADER_K8S_IMPLEMENTATION_DONE */

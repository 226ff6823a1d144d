/* leader_k8s.h - a Kubernetes Lease as the store of leader.h, through libcurl - MIT licence, see leader.h

   WHAT IT DOES
     Elects a leader on a coordination.k8s.io/v1 Lease, without blocking a tick, and safely beside candidates written in Go: it
     keeps to what client-go's elector reads and writes. Needs libcurl 7.66 or later with TLS (tried with 7.88).

   DO THIS (in a pod; link with -lcurl)
         #define LEADER_IMPLEMENTATION
         #define LEADER_WITH_K8S
         #include "leader.h"

         char name[LEADER_IDENTITY_MAX + 1];
         leader_k8s_config where;
         leader_k8s store;
         leader_config cfg = {0};
         leader_t me;
         leader_k8s_from_env(&where, "my-job");              // the pod's own API server, namespace and service account
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
     Without "watch" it polls, and says so once. "create" cannot be limited to a name (resourceNames); the other three can.

   WHAT IT DOES NOT PROMISE
     - Anything that leader.h itself does not promise; see there.
     - Safety beside other programs that ignore the Lease's fields, or that take over before the record's own duration has passed.
       client-go up to 1.26 waits for *its own* LeaseDuration: give every candidate of one Lease the same duration.
     - A token that still rises after the cluster was rebuilt or restored, when no living candidate has seen the old one.
     - A Lease whose spec.strategy or spec.preferredHolder is set belongs to its coordinator: it is watched, never taken.

   GOOD TO KNOW
     - client-go's standbys can take over up to a second before the record runs out. So leadership ends early enough here: a
       renew_deadline_ms that leaves less than 1 s plus 5 % of the record's duration is refused. With leases under about 3 s, set
       renew_deadline_ms, or leader_h_only where no other kind of candidate contests the Lease.
     - The record's duration is whole seconds, rounded up. Leadership ends by your exact milliseconds all the same.
     - Two annotations are ours: leader-h/nonce (which process holds it, bound to the renewTime it wrote) and leader-h/token.
       All else in the Lease is sent back as it was received.
     - Elections that are ticked by one thread may share connections: point leader_k8s_config.client of each at one zeroed
       leader_k8s_client that outlives them.
     - Memory: libcurl's own, and per election up to four buffers with malloc, each as large as the largest Lease seen (at most
       1 MiB, the most that is accepted from a server). Files are read with plain blocking reads: token, certificates.
     - HTTPS only, TLS 1.2 or later, always verified. Redirects are not followed and no proxy is used.

   COMPILE OPTIONS (implementation only)
     LEADER_K8S_SERVICE_ACCOUNT   directory of token, ca.crt and namespace; "/var/run/secrets/kubernetes.io/serviceaccount"      */

#ifndef LEADER_H_INCLUDED
#  error "leader_k8s.h: include leader.h first (or define LEADER_WITH_K8S before it)"
#endif

#ifndef LEADER_K8S_H_INCLUDED
#define LEADER_K8S_H_INCLUDED

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leader_k8s        leader_k8s;          /* both complete below: yours to place; do not read, copy or move them  */
typedef struct leader_k8s_client leader_k8s_client;

typedef struct leader_k8s_config {  /* C: = {0};  C++: = {};  leader_k8s_backend copies it, strings too                       */
    const char *server;             /* required: "https://host:port"; a path may follow                                       */
    const char *lease_name;         /* required: DNS-1123 subdomain, at most 253 bytes                                        */
    const char *lease_namespace;    /* required: DNS-1123 label, at most 63 bytes                                             */
    const char *ca_file;            /* PEM; 0: the certificate authorities of this machine                                    */
    const char *token;              /* bearer token, or                                                                       */
    const char *token_file;         /* a file that holds it: read again every minute, and after a 401                         */
    const char *cert_file;          /* client certificate and                                                                 */
    const char *key_file;           /* its key, PEM                                                                           */
    bool        no_watch;           /* false: watch the Lease while somebody else holds it; true: poll only                   */
    bool        leader_h_only;      /* true: no client-go candidate contests this Lease: any renew_deadline_ms will do        */
    leader_k8s_client *client;      /* connections shared with other elections of this thread; 0: its own                     */
    char        pod_server_[96], pod_namespace_[64];  /* from leader_k8s_from_env                                             */
} leader_k8s_config;

LEADER_API leader_backend leader_k8s_backend(leader_k8s *, const leader_k8s_config *);
LEADER_API leader_result  leader_k8s_from_env(leader_k8s_config *, const char *lease_name);  /* zeroes it, then fills in what a
                                       pod's environment says. E_CONFIG: not in a pod (leader_init will say so too)           */
LEADER_API const char    *leader_k8s_identity(char *buf, size_t cap);  /* buf: $POD_NAME, else host name, pid and random suffix */

/* ---- stop here if you only want to use it ----------------------------------------------------------------------------------- */

enum { LEADER_K8S_NAME_MAX_ = 253, LEADER_K8S_LABEL_MAX_ = 63, LEADER_K8S_PATH_MAX_ = 511, LEADER_K8S_TOKEN_MAX_ = 8191 };

typedef struct leader_k8s_buf_ { char *at; size_t len, cap; } leader_k8s_buf_;

enum { LEADER_K8S_FORM_ = 6 };      /* holder, duration, acquireTime, renewTime, transitions, nonce: what makes a record the same */

typedef struct leader_k8s_lease_ {                    /* a Lease as read                                                      */
    struct { const char *at; size_t len; } form[LEADER_K8S_FORM_];     /* in the text it was read from; len 0: absent or null */
    char     uid[64], version_text[64], holder[LEADER_IDENTITY_MAX + 1], renew[40], nonce[64];
    bool     held, named;                             /* named: holder is complete; too long a name is held, but nobody's     */
    bool     bound;                                   /* nonce and token were written together with this renewTime            */
    bool     token_bad, coordinated;
    int64_t  lease_ms;                                /* 0: the record does not say                                           */
    uint64_t version, token, transitions;             /* 0: none, or not a number                                             */
    size_t   bad_at;
} leader_k8s_lease_;

typedef struct leader_k8s_transfer_ {                 /* one HTTP exchange at a time                                          */
    leader_k8s     *owner;
    void           *easy, *headers;                   /* CURL *, struct curl_slist *                                          */
    leader_k8s_buf_ reply;
    int             code;                             /* CURLcode                                                             */
    long            status;
    bool            running, done;                    /* done: ended, and nobody has looked at it yet                         */
    char            error[256];
} leader_k8s_transfer_;

struct leader_k8s_client {
    void       *multi_;                               /* CURLM *                                                              */
    leader_k8s *members_;
};

struct leader_k8s {
    char server_[256], name_[LEADER_K8S_NAME_MAX_ + 1], namespace_[LEADER_K8S_LABEL_MAX_ + 1];
    char ca_file_[LEADER_K8S_PATH_MAX_ + 1], token_file_[LEADER_K8S_PATH_MAX_ + 1];
    char cert_file_[LEADER_K8S_PATH_MAX_ + 1], key_file_[LEADER_K8S_PATH_MAX_ + 1];
    char token_[LEADER_K8S_TOKEN_MAX_ + 1];
    char problem_[200], refusal_[200];                /* what the maker found wrong, what open did                            */
    bool no_watch_, leader_h_only_;
    int64_t token_read_ms_;                           /* -1: not yet                                                          */

    leader_host        host_;
    leader_k8s_client  own_, *client_;
    leader_k8s        *next_;                         /* in client_->members_                                                 */
    leader_fd          sockets_[LEADER_FDS_MAX];      /* events 0: free                                                       */
    bool               stirred_;                      /* something arrived while another member drove the connections         */

    /* the operation under way */
    leader_k8s_transfer_ ask_;
    int      op_, step_, conflicts_;
    uint64_t seq_, nonce_;
    char     identity_[LEADER_IDENTITY_MAX + 1];
    bool     retried_auth_, fresh_, http2_;           /* fresh_: the connection in hand did not answer: do not use it again   */
    int64_t  answered_ms_;
    leader_k8s_buf_ body_;
    char     sent_renew_[28];
    int64_t  sent_seconds_;
    uint64_t sent_token_;

    /* what we know of the Lease */
    leader_k8s_buf_ doc_;                             /* as last received: one JSON object                                    */
    leader_k8s_lease_ lease_;                         /* doc_, read; zeroed while it is not known                             */
    bool     known_, looked_;                         /* doc_ is valid; a first answer has come                               */
    bool     must_read_;                              /* a write of unknown outcome, or a deletion: GET first                 */
    bool     forgot_;                                 /* what we knew was gone, another object, or older: in doubt            */
    bool     duplicate_;                              /* somebody else writes under our identity                              */
    bool     told_coordinated_;
    int64_t  seen_ms_;                                /* when doc_'s lease fields were first seen as they are                 */
    int64_t  longest_ms_, doubt_until_ms_;
    uint64_t version_max_, token_max_, term_token_;

    /* the watch */
    leader_k8s_transfer_ watch_;
    bool     watch_wanted_, watch_denied_, watch_open_, watch_news_;
    int64_t  watch_after_ms_, watch_pause_ms_, watch_heard_ms_, watch_behind_ms_;  /* behind: since when; -1: it is not       */
    uint64_t watch_version_;
};

#ifdef __cplusplus
}
#endif
#endif /* LEADER_K8S_H_INCLUDED */

#if defined(LEADER_IMPLEMENTATION) && defined(LEADER_IMPLEMENTATION_DONE) && !defined(LEADER_K8S_IMPLEMENTATION_DONE)
#define LEADER_K8S_IMPLEMENTATION_DONE

#include <curl/curl.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#  include <poll.h>
#endif

#ifndef LEADER_K8S_SERVICE_ACCOUNT
#  define LEADER_K8S_SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LEADER_K8S_NONCE_KEY_  "leader-h/nonce"
#define LEADER_K8S_TOKEN_KEY_  "leader-h/token"
#define LEADER_K8S_TOKEN_TOP_  ((uint64_t)1 << 63)    /* a token or version at or above is not believed                       */

enum {
    LEADER_K8S_REPLY_MAX_     = 1 << 20,
    LEADER_K8S_CONFLICTS_MAX_ = 8,                    /* 409s in one operation; the core then waits before the next           */
    LEADER_K8S_EARLY_MS_      = 1000,                 /* how much too early a client-go standby may come                      */
    LEADER_K8S_TOKEN_AGE_MS_  = 60000,
    LEADER_K8S_ASK_MS_        = 20000                 /* however well the watch does                                          */
};
enum leader_k8s_op_   { LEADER_K8S_IDLE_, LEADER_K8S_ACQUIRE_, LEADER_K8S_RENEW_, LEADER_K8S_RELEASE_, LEADER_K8S_OBSERVE_ };
enum leader_k8s_step_ { LEADER_K8S_READ_, LEADER_K8S_CREATE_, LEADER_K8S_WRITE_ };

/* ---- buffers ------------------------------------------------------------------------------------------------------------------ */

static bool leader_k8s_reserve_(leader_k8s_buf_ *b, size_t len) {
    size_t cap = b->cap ? b->cap : 1024;
    char *grown;
    if (len < b->cap) return true;
    if (len > (size_t)LEADER_K8S_REPLY_MAX_ * 2) return false;         /* a Lease at the limit, and our own fields            */
    while (cap <= len) cap *= 2;
    grown = (char *)realloc(b->at, cap);
    if (!grown) return false;
    b->at = grown;
    b->cap = cap;
    return true;
}

static bool leader_k8s_replace_(leader_k8s_buf_ *b, size_t at, size_t cut, const char *text, size_t len) {
    if (!leader_k8s_reserve_(b, b->len - cut + len)) return false;
    memmove(b->at + at + len, b->at + at + cut, b->len - at - cut);
    memcpy(b->at + at, text, len);
    b->len = b->len - cut + len;
    b->at[b->len] = 0;
    return true;
}

static bool leader_k8s_copy_(leader_k8s_buf_ *b, const char *text, size_t len) {
    b->len = 0;
    return leader_k8s_replace_(b, 0, 0, text, len);
}

static bool leader_k8s_is_space_(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void leader_k8s_trim_(leader_k8s_buf_ *b) {                      /* so that doc_ is the object alone, for splicing          */
    size_t from = 0;
    while (b->len > 0 && leader_k8s_is_space_(b->at[b->len - 1])) b->len--;
    while (from < b->len && leader_k8s_is_space_(b->at[from])) from++;
    if (b->len > 0) (void)leader_k8s_replace_(b, 0, from, "", 0);      /* never larger: cannot fail                           */
}

static void leader_k8s_free_(leader_k8s_buf_ *b) {
    free(b->at);
    memset(b, 0, sizeof *b);
}

/* ---- reading a Lease ------------------------------------------------------------------------------------------------------------ */

/* A null is as good as absent. A member that is there twice is no value of any kind: readers would disagree about which of them
   counts, and one that took it for absent would take a held Lease for free. */
static leader_json_ leader_k8s_member_(leader_json_ object, const char *name) {
    leader_json_ value = {"", 0}, none = {"", 0}, twice = {"?", 1};
    if (!leader_json_member_(object, name, &value)) return value.len ? twice : none;
    return value.len == 4 && memcmp(value.at, "null", 4) == 0 ? none : value;
}

/* "" if it is absent; false if it is there, but not a string that fits. */
static bool leader_k8s_text_(leader_json_ object, const char *name, char *buf, size_t cap) {
    leader_json_ value = leader_k8s_member_(object, name);
    buf[0] = 0;
    return value.len == 0 || leader_json_string_(value, buf, cap);
}

static bool leader_k8s_digits_(const char *text, uint64_t *out) {
    leader_json_ value;
    value.at = text;
    value.len = strlen(text);
    return leader_json_u64_(value, out) && *out < LEADER_K8S_TOKEN_TOP_;
}

static const char *leader_k8s_read_spec_(leader_json_ spec, leader_k8s_lease_ *lease) {
    static const char *const names[LEADER_K8S_FORM_ - 1] =
        { "holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions" };
    leader_json_ fields[LEADER_K8S_FORM_ - 1];
    char text[64];
    uint64_t seconds = 0;
    int i;
    for (i = 0; i < LEADER_K8S_FORM_ - 1; i++) {
        fields[i] = leader_k8s_member_(spec, names[i]);
        lease->form[i].at = fields[i].at;
        lease->form[i].len = fields[i].len;
    }
    if (fields[0].len && fields[0].at[0] != '"') return "spec.holderIdentity is not a string";
    lease->held  = fields[0].len > 2;
    lease->named = leader_k8s_text_(spec, names[0], lease->holder, sizeof lease->holder);
    if (!lease->named) (void)snprintf(lease->holder, sizeof lease->holder, "(a name of more than %d bytes)", LEADER_IDENTITY_MAX);
    if (fields[1].len && (!leader_json_u64_(fields[1], &seconds) || seconds > INT32_MAX))
        return "spec.leaseDurationSeconds is not a whole number of seconds";
    lease->lease_ms = (int64_t)seconds * 1000;
    if (fields[2].len && fields[2].at[0] != '"') return "spec.acquireTime is not a time";
    if (!leader_k8s_text_(spec, names[3], lease->renew, sizeof lease->renew)) return "spec.renewTime is not a time";
    if (fields[4].len && !leader_json_u64_(fields[4], &lease->transitions)) return "spec.leaseTransitions is not a count";
    lease->coordinated = !leader_k8s_text_(spec, "strategy", text, sizeof text) || text[0] != 0 ||
                         !leader_k8s_text_(spec, "preferredHolder", text, sizeof text) || text[0] != 0;
    return NULL;
}

/* Returns what is wrong with it, or NULL. The spans in lease point into text. */
static const char *leader_k8s_read_(const leader_k8s *self, const char *text, size_t len, leader_k8s_lease_ *lease) {
    leader_json_ root, metadata, annotations, spec, nonce, noted;
    char name[LEADER_K8S_NAME_MAX_ + 1], token[32];
    const char *problem;
    memset(lease, 0, sizeof *lease);
    if (!leader_json_parse_(text, len, &root, &lease->bad_at)) return "is not JSON";
    metadata = leader_k8s_member_(root, "metadata");
    if (!leader_k8s_text_(root, "kind", name, sizeof name) || strcmp(name, "Lease") != 0) return "is not of kind Lease";
    if (!leader_k8s_text_(metadata, "name", name, sizeof name) || strcmp(name, self->name_) != 0)
        return "metadata.name is not the one asked for";
    if (!leader_k8s_text_(metadata, "namespace", name, sizeof name) || strcmp(name, self->namespace_) != 0)
        return "metadata.namespace is not the one asked for";
    if (!leader_k8s_text_(metadata, "uid", lease->uid, sizeof lease->uid) || !lease->uid[0]) return "has no metadata.uid";
    if (!leader_k8s_text_(metadata, "resourceVersion", lease->version_text, sizeof lease->version_text) || !lease->version_text[0])
        return "has no metadata.resourceVersion";
    if (!leader_k8s_digits_(lease->version_text, &lease->version)) lease->version = 0;
    annotations = leader_k8s_member_(metadata, "annotations");
    if (annotations.len && annotations.at[0] != '{') return "metadata.annotations is not an object";
    spec = leader_k8s_member_(root, "spec");
    if (spec.len && spec.at[0] != '{') return "spec is not an object";
    problem = leader_k8s_read_spec_(spec, lease);
    if (problem) return problem;

    nonce = leader_k8s_member_(annotations, LEADER_K8S_NONCE_KEY_);
    if (nonce.len && nonce.at[0] != '"') return "annotation " LEADER_K8S_NONCE_KEY_ " is not a string";
    lease->form[LEADER_K8S_FORM_ - 1].at = nonce.at;
    lease->form[LEADER_K8S_FORM_ - 1].len = nonce.len;
    if (!leader_k8s_text_(annotations, LEADER_K8S_NONCE_KEY_, lease->nonce, sizeof lease->nonce)) lease->nonce[0] = 0;
    lease->bound = strlen(lease->nonce) > 17 && lease->nonce[16] == ' ' && strcmp(lease->nonce + 17, lease->renew) == 0;
    noted = leader_k8s_member_(annotations, LEADER_K8S_TOKEN_KEY_);
    if (noted.len && noted.at[0] != '"') return "annotation " LEADER_K8S_TOKEN_KEY_ " is not a string";
    if (noted.len) {
        lease->token_bad = !leader_k8s_text_(annotations, LEADER_K8S_TOKEN_KEY_, token, sizeof token) ||
                           !leader_k8s_digits_(token, &lease->token);
        if (lease->token_bad) lease->token = 0;
    }
    return NULL;
}

static bool leader_k8s_same_form_(const leader_k8s_lease_ *a, const leader_k8s_lease_ *b) {
    int i;
    for (i = 0; i < LEADER_K8S_FORM_; i++)
        if (a->form[i].len != b->form[i].len || memcmp(a->form[i].at, b->form[i].at, a->form[i].len) != 0) return false;
    return strcmp(a->uid, b->uid) == 0;
}

/* The nonce is bound to the renewTime written with it: client-go keeps annotations that it does not know, so after a renewal by
   a Go process of our name the nonce would still be ours. */
static void leader_k8s_nonce_text_(char buf[64], uint64_t nonce, const char *renew) {
    (void)snprintf(buf, 64, "%08lx%08lx %s", (unsigned long)(nonce >> 32), (unsigned long)(nonce & 0xffffffffu), renew);
}

static bool leader_k8s_is_named_(const leader_k8s *self, const leader_k8s_lease_ *lease) {
    return lease->held && lease->named && strcmp(lease->holder, self->identity_) == 0;
}

static bool leader_k8s_is_mine_(const leader_k8s *self, const leader_k8s_lease_ *lease) {
    char mine[64];
    leader_k8s_nonce_text_(mine, self->nonce_, lease->renew);
    return leader_k8s_is_named_(self, lease) && strcmp(lease->nonce, mine) == 0;
}

/* ---- splicing our fields into a Lease ---------------------------------------------------------------------------------------------- */

static bool leader_k8s_insert_(leader_k8s_buf_ *doc, leader_json_ object, const char *name, const char *raw) {
    char piece[2048];
    size_t at = (size_t)(object.at - doc->at) + 1, next = at;
    int len;
    while (leader_k8s_is_space_(doc->at[next])) next++;
    len = snprintf(piece, sizeof piece, "\"%s\":%s%s", name, raw, doc->at[next] == '}' ? "" : ",");
    return len > 0 && (size_t)len < sizeof piece && leader_k8s_replace_(doc, at, 0, piece, (size_t)len);
}

/* Sets doc.path[0]...path[depth - 1] to the JSON text raw, and touches no other byte. Objects on the way are made. */
static bool leader_k8s_set_(leader_k8s_buf_ *doc, const char *const *path, int depth, const char *raw) {
    leader_json_ object, value;
    int i;
    object.at = doc->at;
    object.len = doc->len;
    for (i = 0; i < depth; i++) {
        bool last = i == depth - 1, found;
        if (object.len == 0 || object.at[0] != '{') return false;
        found = leader_json_member_(object, path[i], &value);
        if (last || !found || value.at[0] == 'n') {                    /* null, where an object should be                     */
            const char *text = last ? raw : "{}";
            bool ok = found ? leader_k8s_replace_(doc, (size_t)(value.at - doc->at), value.len, text, strlen(text))
                            : leader_k8s_insert_(doc, object, path[i], text);
            return ok && (last || leader_k8s_set_(doc, path, depth, raw));
        }
        object = value;
    }
    return false;
}

static bool leader_k8s_set_spec_(leader_k8s_buf_ *doc, const char *name, const char *raw) {
    const char *path[2];
    path[0] = "spec";
    path[1] = name;
    return leader_k8s_set_(doc, path, 2, raw);
}

static bool leader_k8s_set_note_(leader_k8s_buf_ *doc, const char *name, const char *text) {
    const char *path[3];
    char raw[128];
    path[0] = "metadata";
    path[1] = "annotations";
    path[2] = name;
    return leader_json_quote_(raw, sizeof raw, text) < sizeof raw && leader_k8s_set_(doc, path, 3, raw);
}

/* "2026-11-16T01:28:19.182774Z", any number of fraction digits, any offset; false: not a time. */
static bool leader_k8s_time_us_(const char *text, int64_t *us) {
    int year, month, day, hour, minute, second, used = 0, zone_h, zone_m;
    int64_t days, fraction = 0, unit = 100000, zone_s = 0;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute, &second, &used) != 6 || used != 19) return false;
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60) return false;
    if (hour < 0 || minute < 0 || second < 0) return false;
    text += used;
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++, unit /= 10) fraction += (*text - '0') * unit;
    if (*text == '+' || *text == '-') {
        if (sscanf(text + 1, "%2d:%2d%n", &zone_h, &zone_m, &used) != 2 || used != 5 || text[6]) return false;
        zone_s = (zone_h * 60 + zone_m) * (*text == '-' ? -60 : 60);
    } else if (strcmp(text, "Z") != 0) {
        return false;
    }
    if (month <= 2) { month += 12; year--; }                           /* a year that starts in March ends with its leap day  */
    days = (int64_t)year * 365 + year / 4 - year / 100 + year / 400 + (153 * (month - 3) + 2) / 5 + day - 719469;
    *us = (((days * 24 + hour) * 60 + minute) * 60 + second - zone_s) * 1000000 + fraction;
    return true;
}

/* Later than the stored one by at least a second, so that client-go, which looks at whole seconds, cannot miss a renewal. Time
   stamps decide nothing here; one more than a day ahead is not followed (it already differs, and years have four digits). */
static void leader_k8s_stamp_(char buf[28], const char *stored) {
    int64_t now_us = leader_wall_us_(), stored_us;
    if (leader_k8s_time_us_(stored, &stored_us) && stored_us + 1000000 > now_us && stored_us < now_us + 86400 * (int64_t)1000000)
        now_us = stored_us + 1000000;
    leader_time_text_(buf, now_us);
}

static int64_t leader_k8s_seconds_(int64_t lease_ms) { return lease_ms <= 1000 ? 1 : (lease_ms + 999) / 1000; }

/* Makes body_ from doc_ (or from nothing) for the present operation. False: no memory, or not spliceable. */
static bool leader_k8s_compose_(leader_k8s *self, const leader_request *request, uint64_t token) {
    char holder[6 * LEADER_IDENTITY_MAX + 3], stamp[32], number[24], nonce[64];
    const leader_k8s_lease_ *lease = &self->lease_;
    leader_k8s_buf_ *body = &self->body_;
    bool create = !self->known_, begin = self->op_ == LEADER_K8S_ACQUIRE_, release = self->op_ == LEADER_K8S_RELEASE_, ok;
    if (create) {
        char empty[LEADER_K8S_NAME_MAX_ + LEADER_K8S_LABEL_MAX_ + 160];
        int len = snprintf(empty, sizeof empty, "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":"
                           "{\"name\":\"%s\",\"namespace\":\"%s\"},\"spec\":{}}", self->name_, self->namespace_);
        ok = leader_k8s_copy_(body, empty, (size_t)len);
    } else {
        ok = leader_k8s_copy_(body, self->doc_.at, self->doc_.len);
    }
    leader_k8s_stamp_(self->sent_renew_, lease->renew);
    self->sent_seconds_ = release ? 1 : leader_k8s_seconds_(request->lease_ms);
    self->sent_token_ = token;
    (void)leader_json_quote_(holder, sizeof holder, release ? "" : request->identity);
    (void)snprintf(stamp, sizeof stamp, "\"%s\"", self->sent_renew_);
    leader_k8s_nonce_text_(nonce, request->nonce, self->sent_renew_);

    (void)snprintf(number, sizeof number, "%ld", (long)self->sent_seconds_);
    ok = ok && leader_k8s_set_spec_(body, "holderIdentity", holder);
    ok = ok && leader_k8s_set_spec_(body, "leaseDurationSeconds", number);
    ok = ok && leader_k8s_set_spec_(body, "renewTime", stamp);
    if (begin || release) ok = ok && leader_k8s_set_spec_(body, "acquireTime", stamp);
    if (begin) {
        uint64_t count = lease->transitions + (create || leader_k8s_is_named_(self, lease) ? 0 : 1);
        (void)snprintf(number, sizeof number, "%ld", (long)(count > INT32_MAX ? INT32_MAX : count));
        ok = ok && leader_k8s_set_spec_(body, "leaseTransitions", number);
    }
    ok = ok && leader_k8s_set_note_(body, LEADER_K8S_NONCE_KEY_, nonce);
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)token);
    return ok && (create || leader_k8s_set_note_(body, LEADER_K8S_TOKEN_KEY_, number));
}

/* ---- saying what went wrong -------------------------------------------------------------------------------------------------------- */

static int64_t leader_k8s_now_(const leader_k8s *self) { return self->host_.now_ms(self->host_.core); }

static void leader_k8s_log_(const leader_k8s *self, leader_level level, const char *format, ...) LEADER_PRINTF_(3, 4);
static void leader_k8s_log_(const leader_k8s *self, leader_level level, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    self->host_.log(self->host_.core, level, text);
}

/* The server's own words from a Status document; "" where there are none. */
static void leader_k8s_message_(const leader_k8s_buf_ *reply, char *buf, size_t cap) {
    leader_json_ root;
    char whole[4096];
    size_t bad_at, i;
    buf[0] = 0;
    if (!reply->len || !leader_json_parse_(reply->at, reply->len, &root, &bad_at)) return;
    if (!leader_k8s_text_(root, "message", whole, sizeof whole)) return;
    for (i = 0; i < cap - 1 && whole[i]; i++) buf[i] = (unsigned char)whole[i] < ' ' ? ' ' : whole[i];
    while (whole[i] && i > 0 && ((unsigned char)whole[i] & 0xc0) == 0x80) i--;     /* not in the middle of a character        */
    buf[i] = 0;
}

/* ---- libcurl: connections shared by the members of a client -------------------------------------------------------------------------- */

static size_t leader_k8s_on_data_(char *data, size_t size, size_t count, void *user) {
    leader_k8s_transfer_ *t = (leader_k8s_transfer_ *)user;
    size_t len = size * count;
    t->owner->stirred_ = true;
    if (len > (size_t)LEADER_K8S_REPLY_MAX_ - t->reply.len || !leader_k8s_replace_(&t->reply, t->reply.len, 0, data, len)) return 0;
    return len;
}

static leader_fd *leader_k8s_slot_(leader_k8s *self, curl_socket_t fd, bool make) {
    leader_fd *unused = NULL;
    int i;
    for (i = 0; i < LEADER_FDS_MAX; i++) {
        leader_fd *slot = &self->sockets_[i];
        if (slot->events && slot->fd == (intptr_t)fd) return slot;
        if (!slot->events) unused = slot;
    }
    return make ? unused : NULL;
}

static void leader_k8s_watch_fd_(leader_k8s *self, curl_socket_t fd, int events) {
    leader_fd *slot = leader_k8s_slot_(self, fd, events != 0);
    if (!slot) return;                                                 /* more than the core can watch: ticks read it         */
    slot->fd = (intptr_t)fd;
    slot->events = events;
    self->host_.fd(self->host_.core, (intptr_t)fd, events);
}

/* Each socket is watched by the election on whose behalf it was first used; that keeps every election within LEADER_FDS_MAX. */
static int leader_k8s_on_socket_(CURL *easy, curl_socket_t fd, int what, void *user, void *assigned) {
    leader_k8s_client *client = (leader_k8s_client *)user;
    leader_k8s *member = (leader_k8s *)assigned;
    int events = (what & CURL_POLL_IN ? LEADER_READ : 0) | (what & CURL_POLL_OUT ? LEADER_WRITE : 0);
    if (what == CURL_POLL_REMOVE) events = 0;
    if (!member) {
        char *owner = NULL;
        (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &owner);
        if (!owner || !events) return 0;                               /* a connection that libcurl is closing by itself      */
        member = ((leader_k8s_transfer_ *)(void *)owner)->owner;
    }
    (void)curl_multi_assign((CURLM *)client->multi_, fd, events ? member : NULL);
    leader_k8s_watch_fd_(member, fd, events);
    return 0;
}

/* False: libcurl has run out of memory. */
static bool leader_k8s_act_(leader_k8s_client *client, struct pollfd *fds, unsigned count) {
    unsigned i;
    int running;
#ifdef _WIN32
    if (count == 0 || WSAPoll(fds, count, 0) <= 0) return true;
#else
    if (count == 0 || poll(fds, count, 0) <= 0) return true;
#endif
    for (i = 0; i < count; i++) {
        int mask = (fds[i].revents & (POLLIN | POLLHUP) ? CURL_CSELECT_IN : 0) | (fds[i].revents & POLLOUT ? CURL_CSELECT_OUT : 0) |
                   (fds[i].revents & (POLLERR | POLLNVAL) ? CURL_CSELECT_ERR : 0);
        if (mask && curl_multi_socket_action((CURLM *)client->multi_, (curl_socket_t)fds[i].fd, mask, &running) != CURLM_OK) return false;
    }
    return true;
}

static bool leader_k8s_ready_sockets_(leader_k8s_client *client) {
    struct pollfd fds[32];
    unsigned count = 0;
    leader_k8s *m;
    int i;
    for (m = client->members_; m; m = m->next_)
        for (i = 0; i < LEADER_FDS_MAX; i++) {
            if (!m->sockets_[i].events) continue;
            memset(&fds[count], 0, sizeof fds[count]);
            fds[count].fd = (curl_socket_t)m->sockets_[i].fd;
            fds[count].events = (short)((m->sockets_[i].events & LEADER_READ ? POLLIN : 0) |
                                        (m->sockets_[i].events & LEADER_WRITE ? POLLOUT : 0));
            if (++count < sizeof fds / sizeof fds[0]) continue;
            if (!leader_k8s_act_(client, fds, count)) return false;
            count = 0;
        }
    return leader_k8s_act_(client, fds, count);
}

/* A connection can outlive the transfers of the election that watches it: then one that still needs it takes over the watching. */
static void leader_k8s_rehome_(leader_k8s *self) {
    leader_k8s *m = self->client_->members_;
    int i;
    if (self->ask_.running || self->watch_.running) return;
    while (m && (m == self || !(m->ask_.running || m->watch_.running))) m = m->next_;
    for (i = 0; i < LEADER_FDS_MAX; i++) {
        int events = self->sockets_[i].events;
        curl_socket_t fd = (curl_socket_t)self->sockets_[i].fd;
        if (!events || !m) continue;
        leader_k8s_watch_fd_(self, fd, 0);
        (void)curl_multi_assign((CURLM *)self->client_->multi_, fd, m);
        leader_k8s_watch_fd_(m, fd, events);
    }
}

static void leader_k8s_abandon_(leader_k8s_transfer_ *t) {
    t->done = false;
    if (!t->running) return;
    t->running = false;
    (void)curl_easy_setopt((CURL *)t->easy, CURLOPT_FORBID_REUSE, 1L);  /* an HTTP/2 connection would stay, dead or not       */
    (void)curl_multi_remove_handle((CURLM *)t->owner->client_->multi_, (CURL *)t->easy);
}

static bool leader_k8s_make_multi_(leader_k8s_client *client) {
    CURLM *multi = curl_multi_init();
    client->multi_ = multi;
    if (!multi) return false;
    (void)curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, leader_k8s_on_socket_);
    (void)curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, client);
    return true;
}

static void leader_k8s_run_dry_(leader_k8s_transfer_ *t) {
    if (!t->running) return;
    leader_k8s_abandon_(t);
    t->code = (int)CURLE_OUT_OF_MEMORY;
    t->done = t->owner->stirred_ = true;
}

/* libcurl ran out of memory: all that is under way ends, connections too. One that once could not note a socket would divide by zero when it
   next looked at it (7.88, and the same code in other versions). */
static void leader_k8s_start_over_(leader_k8s_client *client) {
    leader_k8s *m;
    int i;
    for (m = client->members_; m; m = m->next_) {
        for (i = 0; i < LEADER_FDS_MAX; i++)
            if (m->sockets_[i].events) leader_k8s_watch_fd_(m, (curl_socket_t)m->sockets_[i].fd, 0);
        leader_k8s_run_dry_(&m->ask_);
        leader_k8s_run_dry_(&m->watch_);
    }
    (void)curl_multi_cleanup((CURLM *)client->multi_);
    client->multi_ = NULL;                                             /* the next request makes it anew                      */
}

/* Moves every transfer of the client as far as it goes without waiting. */
static void leader_k8s_drive_(leader_k8s *driver) {
    leader_k8s_client *client = driver->client_;
    CURLM *multi = (CURLM *)client->multi_;
    leader_k8s *m;
    CURLMsg *message;
    long wait_ms = 0;
    int round, running, left;
    bool ok = true;
    if (!multi) return;
    for (round = 0; round < 8 && ok && wait_ms == 0; round++) {        /* 0: libcurl has more to do at once                   */
        ok = curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running) == CURLM_OK && leader_k8s_ready_sockets_(client) &&
             curl_multi_timeout(multi, &wait_ms) == CURLM_OK;
    }
    while ((message = curl_multi_info_read(multi, &left)) != NULL) {
        char *owner = NULL;
        leader_k8s_transfer_ *t;
        if (message->msg != CURLMSG_DONE) continue;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &owner);
        t = (leader_k8s_transfer_ *)(void *)owner;
        t->code = (int)message->data.result;
        (void)curl_easy_getinfo((CURL *)t->easy, CURLINFO_RESPONSE_CODE, &t->status);
        (void)curl_multi_remove_handle(multi, (CURL *)t->easy);
        t->running = false;
        t->done = t->owner->stirred_ = true;
    }
    if (!ok) leader_k8s_start_over_(client);
    for (m = client->members_; m; m = m->next_) {
        if (m->stirred_ && m != driver) m->host_.due(m->host_.core);
        m->stirred_ = false;
        leader_k8s_rehome_(m);
    }
}

/* What every request has. False: libcurl lacks something that safety depends on. */
static bool leader_k8s_prepare_(leader_k8s *self, leader_k8s_transfer_ *t) {
    CURL *easy = curl_easy_init();
    bool ok = easy != NULL;
    t->owner = self;
    t->easy = easy;
    ok = ok && curl_easy_setopt(easy, CURLOPT_PRIVATE, t) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, leader_k8s_on_data_) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_WRITEDATA, t) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->error) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_USERAGENT, "leader.h") == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK;
    if (self->ca_file_[0]) {                                           /* this authority, and none of the machine's           */
        ok = ok && curl_easy_setopt(easy, CURLOPT_CAINFO, self->ca_file_) == CURLE_OK;
        (void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    if (self->cert_file_[0]) {
        ok = ok && curl_easy_setopt(easy, CURLOPT_SSLCERT, self->cert_file_) == CURLE_OK;
        ok = ok && curl_easy_setopt(easy, CURLOPT_SSLKEY, self->key_file_) == CURLE_OK;
    }
    if (t == &self->watch_) (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, 10L);     /* requests are timed by the core   */
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 10L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
#if LIBCURL_VERSION_NUM >= 0x075700
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);              /* giving up must not wait for a name server           */
#endif
    return ok;
}

/* ---- credentials ----------------------------------------------------------------------------------------------------------------------- */

static bool leader_k8s_read_token_(leader_k8s *self) {
    char text[LEADER_K8S_TOKEN_MAX_ + 2];
    size_t len, i;
    FILE *file = fopen(self->token_file_, "rb");
    const char *problem = file ? NULL : strerror(errno);
    if (file) {
        len = fread(text, 1, sizeof text, file);
        if (ferror(file)) problem = "cannot be read";
        (void)fclose(file);
        while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == ' ')) len--;
        if (!problem && len == 0) problem = "is empty";
        if (!problem && len > LEADER_K8S_TOKEN_MAX_) problem = "is longer than a token may be";
        for (i = 0; !problem && i < len; i++)                          /* a line break would add headers of its own           */
            if (text[i] <= ' ' || text[i] > '~') problem = "holds something else than one token";
        if (!problem) {
            memcpy(self->token_, text, len);
            self->token_[len] = 0;
        }
    }
    self->token_read_ms_ = leader_k8s_now_(self);
    if (problem)
        leader_k8s_log_(self, self->token_[0] ? LEADER_LOG_WARN : LEADER_LOG_ERROR, "token_file %.200s: %s", self->token_file_, problem);
    return self->token_[0] != 0;                                       /* the old one may do a while longer                   */
}

/* False: no credentials (said already), or no memory. */
static bool leader_k8s_headers_(leader_k8s *self, leader_k8s_transfer_ *t, bool body) {
    char line[LEADER_K8S_TOKEN_MAX_ + 32];
    struct curl_slist *list = curl_slist_append(NULL, "Accept: application/json"), *more = list;
    if (self->token_file_[0] && (self->token_read_ms_ < 0 || leader_k8s_now_(self) - self->token_read_ms_ >= LEADER_K8S_TOKEN_AGE_MS_) &&
        !leader_k8s_read_token_(self)) {
        curl_slist_free_all(list);
        return false;
    }
    if (more && body) more = curl_slist_append(list, "Content-Type: application/json");
    if (more && body) more = curl_slist_append(list, "Expect:");       /* no waiting for 100 Continue                         */
    if (more && self->token_[0]) {
        (void)snprintf(line, sizeof line, "Authorization: Bearer %s", self->token_);
        more = curl_slist_append(list, line);
    }
    if (!more) {
        curl_slist_free_all(list);
        return false;
    }
    (void)curl_easy_setopt((CURL *)t->easy, CURLOPT_HTTPHEADER, list);
    curl_slist_free_all((struct curl_slist *)t->headers);
    t->headers = list;
    return true;
}

static bool leader_k8s_launch_(leader_k8s *self, leader_k8s_transfer_ *t, const char *url, const char *method, const leader_k8s_buf_ *body) {
    CURL *easy = (CURL *)t->easy;
    bool ok = leader_k8s_headers_(self, t, body != NULL);
    /* Without HTTP/2 a watch occupies its connection: it gets its own, and the warm one stays free for requests. */
    bool fresh = self->fresh_ || (t == &self->watch_ && !self->http2_);
    t->reply.len = 0;
    t->error[0] = 0;
    t->status = 0;
    ok = ok && curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK;
    if (body) {
        ok = ok && curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body->at) == CURLE_OK;
        ok = ok && curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)body->len) == CURLE_OK;
    }
    ok = ok && curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, body ? method : NULL) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 0L) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, fresh ? 1L : 0L) == CURLE_OK;
    ok = ok && (self->client_->multi_ || leader_k8s_make_multi_(self->client_));
    ok = ok && curl_multi_add_handle((CURLM *)self->client_->multi_, easy) == CURLM_OK;
    t->running = ok;
    return ok;
}

static void leader_k8s_url_(const leader_k8s *self, char *buf, size_t cap, bool named) {
    (void)snprintf(buf, cap, "%s/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s", self->server_, self->namespace_,
                   named ? "/" : "", named ? self->name_ : "");
}

/* ---- learning what the Lease says ----------------------------------------------------------------------------------------------------------- */

/* The Lease that we knew has vanished. Its holder, be it one that we never saw, may be at work until its lease is over: there is a
   doubt for a full lease, the longest seen or our own. Whoever takes the Lease in that time holds off, from its write on. */
static int64_t leader_k8s_full_lease_ms_(const leader_k8s *self) {
    int64_t own_ms = self->host_.config->lease_ms;
    return self->longest_ms_ > own_ms ? self->longest_ms_ : own_ms;
}

static bool leader_k8s_in_doubt_(const leader_k8s *self) {
    return self->forgot_ && leader_k8s_now_(self) <= self->doubt_until_ms_;
}

static void leader_k8s_doubt_(leader_k8s *self) {
    self->forgot_ = true;
    self->doubt_until_ms_ = leader_k8s_now_(self) + leader_k8s_full_lease_ms_(self);
}

/* Takes text, read as lease, for the Lease's present state; swaps it with doc_. */
static void leader_k8s_learn_(leader_k8s *self, leader_k8s_buf_ *text, const leader_k8s_lease_ *lease) {
    const leader_k8s_lease_ *old = &self->lease_;
    leader_k8s_buf_ swap = self->doc_;
    bool lower = (lease->version && lease->version < old->version) || (lease->bound && lease->token && lease->token < self->token_max_);
    if (!leader_k8s_in_doubt_(self)) self->forgot_ = false;
    if (self->known_ && (lower || strcmp(lease->uid, old->uid) != 0)) leader_k8s_doubt_(self);
    if (!self->known_ || !leader_k8s_same_form_(lease, old)) {
        self->seen_ms_ = leader_k8s_now_(self);
        /* The first sight of our name with another nonce may be a dead predecessor; a change cannot be. */
        self->duplicate_ = self->looked_ && leader_k8s_is_named_(self, lease) && !leader_k8s_is_mine_(self, lease);
    }
    self->known_ = self->looked_ = true;
    if (lease->held && lease->lease_ms > self->longest_ms_) self->longest_ms_ = lease->lease_ms;
    if (lease->version > self->version_max_) self->version_max_ = lease->version;
    if (lease->token > self->token_max_) self->token_max_ = lease->token;
    self->doc_ = *text;
    *text = swap;
    self->lease_ = *lease;
}

static void leader_k8s_learn_absent_(leader_k8s *self) {
    if (self->known_ || self->forgot_) leader_k8s_doubt_(self);        /* again: somebody may have come and gone              */
    self->known_ = self->must_read_ = false;
    self->looked_ = true;
    memset(&self->lease_, 0, sizeof self->lease_);
}

/* ---- the watch: a hint, never the only source ------------------------------------------------------------------------------------------------- */

static void leader_k8s_watch_stop_(leader_k8s *self) {
    leader_k8s_abandon_(&self->watch_);
    self->watch_.reply.len = 0;
    self->watch_open_ = false;
}

static void leader_k8s_watch_back_off_(leader_k8s *self, int64_t least_ms) {
    int64_t pause_ms = self->watch_pause_ms_ * 2;
    pause_ms = pause_ms < 1000 ? 1000 : pause_ms > 60000 ? 60000 : pause_ms;
    self->watch_pause_ms_ = pause_ms;
    self->watch_after_ms_ = leader_k8s_now_(self) + (pause_ms > least_ms ? pause_ms : least_ms);
    leader_k8s_watch_stop_(self);
}

static void leader_k8s_watch_start_(leader_k8s *self) {
    char url[1024];
    size_t len;
    int64_t now = leader_k8s_now_(self);
    if (self->no_watch_ || self->watch_denied_ || !self->watch_wanted_ || !self->known_ || self->must_read_) return;
    if (self->watch_.running || self->watch_.done || now < self->watch_after_ms_ || !self->lease_.version) return;
    leader_k8s_url_(self, url, sizeof url, false);
    len = strlen(url);
    (void)snprintf(url + len, sizeof url - len, "?watch=1&fieldSelector=metadata.name%%3D%s&allowWatchBookmarks=true&timeoutSeconds=%d"
                   "&resourceVersion=%s", self->name_, 240 + (int)(self->nonce_ % 60), self->lease_.version_text);
    self->watch_version_ = self->lease_.version;
    self->watch_open_ = self->watch_news_ = false;
    self->watch_behind_ms_ = -1;
    if (!leader_k8s_launch_(self, &self->watch_, url, NULL, NULL)) leader_k8s_watch_back_off_(self, 0);
}

/* May an answer come from what the watch has told, without asking? Only while it keeps talking: a holder that renews makes an
   event every third of its lease. A watch that has fallen silent, or behind what a GET has shown, is not believed; and now and
   then a GET goes out all the same, which also keeps the connection warm for the PUT that matters. */
static bool leader_k8s_watch_trusted_(const leader_k8s *self) {
    int64_t now = leader_k8s_now_(self);
    return self->watch_.running && self->watch_open_ && self->watch_behind_ms_ < 0 &&
           now - self->watch_heard_ms_ < self->lease_.lease_ms / 3 + 1000 && now - self->answered_ms_ < LEADER_K8S_ASK_MS_;
}

/* After a GET: has the watch missed something? It gets two seconds to catch up. */
static void leader_k8s_watch_compare_(leader_k8s *self) {
    int64_t now = leader_k8s_now_(self);
    if (!self->watch_.running) return;
    if (self->lease_.version <= self->watch_version_) self->watch_behind_ms_ = -1;
    else if (self->watch_behind_ms_ < 0) self->watch_behind_ms_ = now;
    else if (now - self->watch_behind_ms_ >= 2000) leader_k8s_watch_back_off_(self, 0);
}

/* One event. True: an attempt to acquire is worth its while now. */
static bool leader_k8s_event_(leader_k8s *self, const char *line, size_t len) {
    leader_json_ root, object;
    leader_k8s_lease_ lease;
    leader_k8s_buf_ *copy = &self->ask_.reply;                         /* free: no request is under way                       */
    char type[16], version[64], before[LEADER_IDENTITY_MAX + 1];
    uint64_t number;
    size_t bad_at;
    if (!leader_json_parse_(line, len, &root, &bad_at) || !leader_k8s_text_(root, "type", type, sizeof type)) {
        leader_k8s_watch_back_off_(self, 0);
        return false;
    }
    object = leader_k8s_member_(root, "object");
    if (strcmp(type, "BOOKMARK") == 0) {
        if (leader_k8s_text_(leader_k8s_member_(object, "metadata"), "resourceVersion", version, sizeof version) &&
            leader_k8s_digits_(version, &number) && number > self->watch_version_) self->watch_version_ = number;
        return false;
    }
    if (strcmp(type, "ERROR") == 0 || !leader_k8s_copy_(copy, object.at, object.len) ||
        leader_k8s_read_(self, copy->at, copy->len, &lease) || !lease.version) {
        self->must_read_ = true;                                       /* 410: our version is too old to watch from           */
        leader_k8s_watch_back_off_(self, 0);
        return false;
    }
    self->watch_news_ = true;
    self->watch_pause_ms_ = 0;
    if (lease.version > self->watch_version_) self->watch_version_ = lease.version;
    if (lease.version >= self->lease_.version) self->watch_behind_ms_ = -1;
    if (lease.version <= self->lease_.version) return false;           /* an answer has told us already                       */
    if (strcmp(type, "DELETED") == 0) {
        self->must_read_ = true;
        return true;
    }
    memcpy(before, self->lease_.holder, sizeof before);
    leader_k8s_learn_(self, copy, &lease);
    return !lease.held || strcmp(lease.holder, before) != 0;           /* a renewal is no news                                */
}

static void leader_k8s_watch_ended_(leader_k8s *self) {
    leader_k8s_transfer_ *t = &self->watch_;
    curl_off_t retry_s = 0;
    char message[200];
    t->done = false;
    self->watch_open_ = false;
    if (t->status == 403) {
        self->watch_denied_ = true;
        leader_k8s_message_(&t->reply, message, sizeof message);
        leader_k8s_log_(self, LEADER_LOG_INFO, "polls only, for want of the verb watch: %s", message);
        return;
    }
    if (t->status == 401) self->token_read_ms_ = -1;
    if (t->status == 410) self->must_read_ = true;
    (void)curl_easy_getinfo((CURL *)t->easy, CURLINFO_RETRY_AFTER, &retry_s);
    if (t->status != 200 || t->code != CURLE_OK || !self->watch_news_)
        leader_k8s_watch_back_off_(self, retry_s > 0 && retry_s < 3600 ? (int64_t)retry_s * 1000 : 0);
    else
        self->watch_after_ms_ = leader_k8s_now_(self);
}

/* Reads what the watch has brought. Only between operations: an answer under way would be compared with newer knowledge. */
static bool leader_k8s_watch_read_(leader_k8s *self) {
    leader_k8s_transfer_ *t = &self->watch_;
    bool worth = false;
    size_t used = 0;
    long status = 0;
    if (!self->watch_wanted_) {                                        /* we lead: closed in a later tick than the one that    */
        leader_k8s_watch_stop_(self);                                  /* took the lease, which has better things to do       */
        return false;
    }
    if (t->running && !self->watch_open_) {
        (void)curl_easy_getinfo((CURL *)t->easy, CURLINFO_RESPONSE_CODE, &status);
        self->watch_open_ = status == 200;
        if (self->watch_open_) self->watch_heard_ms_ = leader_k8s_now_(self);
    }
    if (t->running && !self->watch_open_) return false;
    if (t->status == 0 || t->status == 200)
        while (used < t->reply.len) {
            const char *line = t->reply.at + used, *end = (const char *)memchr(line, '\n', t->reply.len - used);
            if (!end) break;
            self->watch_heard_ms_ = leader_k8s_now_(self);
            used = (size_t)(end - t->reply.at) + 1;
            if (leader_k8s_event_(self, line, (size_t)(end - line))) worth = true;
            if (t->reply.len == 0) used = 0;                           /* the watch was given up                              */
        }
    if (used) (void)leader_k8s_replace_(&t->reply, 0, used, "", 0);
    if (t->done) leader_k8s_watch_ended_(self);
    leader_k8s_watch_start_(self);
    return worth;
}

/* ---- the operations ----------------------------------------------------------------------------------------------------------------------------- */

static const char *leader_k8s_method_(const leader_k8s *self) {
    return self->step_ == LEADER_K8S_READ_ ? "GET" : self->step_ == LEADER_K8S_CREATE_ ? "POST" : "PUT";
}

static leader_result leader_k8s_send_(leader_k8s *self, int step) {
    char url[1024];
    self->step_ = step;
    if (step != LEADER_K8S_READ_) self->must_read_ = true;             /* until an answer says what has become of it          */
    leader_k8s_url_(self, url, sizeof url, step != LEADER_K8S_CREATE_);
    if (leader_k8s_launch_(self, &self->ask_, url, leader_k8s_method_(self), step == LEADER_K8S_READ_ ? NULL : &self->body_))
        return LEADER_PENDING;
    if (self->token_file_[0] && !self->token_[0]) return LEADER_E_AUTH;
    leader_k8s_log_(self, LEADER_LOG_ERROR, "no memory for a request");
    return LEADER_E_IO;
}

static leader_result leader_k8s_write_(leader_k8s *self, const leader_request *request, uint64_t token) {
    if (!leader_k8s_compose_(self, request, token)) {
        leader_k8s_log_(self, LEADER_LOG_ERROR, "no memory for a request");
        return LEADER_E_IO;
    }
    return leader_k8s_send_(self, self->known_ ? LEADER_K8S_WRITE_ : LEADER_K8S_CREATE_);
}

/* Begins a term. Its token is written by the very PUT that begins it, so every reader learns the same one, and it does not matter
   when we die: the PUT succeeds only on top of the version it names, so that version + 1 is above every earlier term's and at
   most the version it gets. A Lease that does not exist has no version: it is created as ours, and then taken by such a PUT. */
static leader_result leader_k8s_take_(leader_k8s *self, const leader_request *request) {
    uint64_t top = self->version_max_ > self->token_max_ ? self->version_max_ : self->token_max_;
    if (request->min_token > 0 && top < request->min_token - 1) top = request->min_token - 1;
    if (self->lease_.token_bad && !leader_k8s_is_mine_(self, &self->lease_)) {
        self->must_read_ = true;                                       /* it may have been mended                             */
        leader_k8s_log_(self, LEADER_LOG_ERROR, "annotation %s is not a number below 2^63; mend or remove it", LEADER_K8S_TOKEN_KEY_);
        return LEADER_E_CORRUPT;
    }
    return leader_k8s_write_(self, request, top + 1);
}

/* How much longer nobody may take it: the record's own duration from when it was first seen as it is, and 1 ms. */
static int64_t leader_k8s_left_ms_(const leader_k8s *self, const leader_request *request) {
    int64_t lease_ms = self->lease_.lease_ms > 0 ? self->lease_.lease_ms : request->lease_ms;
    return self->seen_ms_ + lease_ms + 1 - leader_k8s_now_(self);
}

static bool leader_k8s_is_takeable_(const leader_k8s *self, const leader_request *request) {
    const leader_k8s_lease_ *lease = &self->lease_;
    if (lease->coordinated) return false;
    if (!lease->held || leader_k8s_is_mine_(self, lease)) return true;
    return (request->reclaim && leader_k8s_is_named_(self, lease)) || leader_k8s_left_ms_(self, request) <= 0;
}

static leader_result leader_k8s_duplicate_(leader_k8s *self) {
    self->duplicate_ = false;                                          /* said once for every change                          */
    leader_k8s_log_(self, LEADER_LOG_ERROR, "another process writes under our identity \"%s\"", self->identity_);
    return LEADER_E_DUPLICATE;
}

static leader_result leader_k8s_refuse_(leader_k8s *self, leader_record *record) {
    if (self->lease_.coordinated) {
        record->expires_in_ms = -1;
        if (!self->told_coordinated_)
            leader_k8s_log_(self, LEADER_LOG_WARN, "spec.strategy or spec.preferredHolder is set: left to its coordinator");
        self->told_coordinated_ = true;
    }
    return self->duplicate_ ? leader_k8s_duplicate_(self) : LEADER_HELD;
}

/* What we know is up to date: what now? */
static leader_result leader_k8s_decide_(leader_k8s *self, const leader_request *request, leader_record *record) {
    const leader_k8s_lease_ *lease = &self->lease_;
    bool mine = leader_k8s_is_mine_(self, lease);
    int64_t left_ms = leader_k8s_left_ms_(self, request);
    memcpy(record->holder, lease->holder, sizeof lease->holder);
    record->token = lease->held && lease->bound ? lease->token : 0;
    record->expires_in_ms = left_ms > 0 ? left_ms : 0;
    switch (self->op_) {
    case LEADER_K8S_ACQUIRE_:
        return leader_k8s_is_takeable_(self, request) ? leader_k8s_take_(self, request) : leader_k8s_refuse_(self, record);
    case LEADER_K8S_RENEW_:
        if (!mine && self->duplicate_) return leader_k8s_duplicate_(self);
        if (!mine || lease->coordinated) return LEADER_LOST;
        return leader_k8s_write_(self, request, self->term_token_);
    case LEADER_K8S_RELEASE_:
        if (!mine) return LEADER_LOST;
        if (leader_k8s_in_doubt_(self)) {                              /* a release would let others lead at once             */
            leader_k8s_log_(self, LEADER_LOG_INFO, "left to expire: an earlier holder was forgotten and may still be at work");
            return LEADER_OK;
        }
        return leader_k8s_write_(self, request, lease->token > self->term_token_ ? lease->token : self->term_token_);
    default:
        return lease->held ? LEADER_HELD : LEADER_OK;
    }
}

/* The Lease does not exist. */
static leader_result leader_k8s_absent_(leader_k8s *self, const leader_request *request, leader_record *record) {
    leader_k8s_learn_absent_(self);
    record->expires_in_ms = -1;
    if (self->op_ == LEADER_K8S_OBSERVE_) return LEADER_OK;
    if (self->op_ != LEADER_K8S_ACQUIRE_) return LEADER_LOST;
    return leader_k8s_write_(self, request, 0);
}

static leader_result leader_k8s_corrupt_(leader_k8s *self, const char *problem, size_t bad_at) {
    leader_k8s_log_(self, LEADER_LOG_ERROR, "answer to %s %s (%lu bytes, byte %lu)", leader_k8s_method_(self), problem,
                    (unsigned long)self->ask_.reply.len, (unsigned long)bad_at);
    return LEADER_E_CORRUPT;
}

/* 200 or 201: the reply is the Lease as it now is; after a write it must be what we sent, or something else decides here. */
static leader_result leader_k8s_received_(leader_k8s *self, const leader_request *request, leader_record *record) {
    leader_k8s_lease_ lease;
    leader_k8s_buf_ *reply = &self->ask_.reply;
    const char *problem;
    bool wrote = self->step_ == LEADER_K8S_WRITE_, release = self->op_ == LEADER_K8S_RELEASE_;
    leader_k8s_trim_(reply);
    if (reply->len == 0) return leader_k8s_corrupt_(self, "is empty", 0);
    problem = leader_k8s_read_(self, reply->at, reply->len, &lease);
    if (problem) return leader_k8s_corrupt_(self, problem, lease.bad_at);
    if (self->step_ != LEADER_K8S_READ_) {
        if (wrote && strcmp(lease.uid, self->lease_.uid) != 0) return leader_k8s_corrupt_(self, "is about another object", 0);
        if (strcmp(lease.renew, self->sent_renew_) != 0 || lease.lease_ms != self->sent_seconds_ * 1000 ||
            (wrote && lease.token != self->sent_token_) || (release ? lease.held : !leader_k8s_is_mine_(self, &lease)))
            return leader_k8s_corrupt_(self, "is not what was sent", 0);
    }
    leader_k8s_learn_(self, reply, &lease);
    self->must_read_ = false;
    leader_k8s_watch_compare_(self);
    if (!wrote) return leader_k8s_decide_(self, request, record);

    memcpy(record->holder, lease.holder, sizeof lease.holder);
    record->token = self->term_token_ = self->sent_token_;
    record->expires_in_ms = release ? 0 : lease.lease_ms;
    if (self->op_ == LEADER_K8S_ACQUIRE_ && leader_k8s_in_doubt_(self)) {
        leader_k8s_doubt_(self);
        record->hold_off_ms = leader_k8s_full_lease_ms_(self);
    }
    return LEADER_OK;
}

static leader_result leader_k8s_broken_(leader_k8s *self) {
    int code = self->ask_.code;
    const char *text = self->ask_.error[0] ? self->ask_.error : curl_easy_strerror((CURLcode)code);
    self->fresh_ = true;
    if (code == CURLE_WRITE_ERROR) return leader_k8s_corrupt_(self, "is larger than 1 MiB, or than the memory left", LEADER_K8S_REPLY_MAX_);
    leader_k8s_log_(self, LEADER_LOG_ERROR, "%s: %.300s", leader_k8s_method_(self), text);
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:        return LEADER_E_TIMEOUT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:          return LEADER_E_AUTH;
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:             return LEADER_E_CONFIG;
    default:                              return LEADER_E_IO;
    }
}

/* Does this 404 say that the Lease is missing, rather than its namespace, or the path on some other kind of server? */
static bool leader_k8s_says_absent_(const leader_k8s *self) {
    leader_json_ root, details;
    char kind[32], name[LEADER_K8S_NAME_MAX_ + 1];
    size_t bad_at;
    if (!self->ask_.reply.len || !leader_json_parse_(self->ask_.reply.at, self->ask_.reply.len, &root, &bad_at)) return false;
    details = leader_k8s_member_(root, "details");
    return leader_k8s_text_(details, "kind", kind, sizeof kind) && strcmp(kind, "leases") == 0 &&
           leader_k8s_text_(details, "name", name, sizeof name) && strcmp(name, self->name_) == 0;
}

static leader_result leader_k8s_refused_(leader_k8s *self, leader_record *record) {
    char message[300];
    curl_off_t retry_s = 0;
    long status = self->ask_.status;
    leader_k8s_message_(&self->ask_.reply, message, sizeof message);
    leader_k8s_log_(self, LEADER_LOG_ERROR, "%s was answered %ld%s%s", leader_k8s_method_(self), status,
                    status >= 300 && status < 400 ? ", a redirect, which is not followed" : message[0] ? ": " : "", message);
    if (status == 408 || status == 409 || status == 429 || status >= 500) {    /* perhaps carried out: must_read_ stays       */
        (void)curl_easy_getinfo((CURL *)self->ask_.easy, CURLINFO_RETRY_AFTER, &retry_s);
        record->again_ms = retry_s <= 0 ? 0 : retry_s > 60 ? 60000 : (int64_t)retry_s * 1000;
        return LEADER_E_IO;
    }
    self->must_read_ = self->must_read_ && status != 401 && status != 403 && status != 400 && status != 422;
    return status == 401 || status == 403 ? LEADER_E_AUTH : LEADER_E_CONFIG;
}

static leader_result leader_k8s_answered_(leader_k8s *self, const leader_request *request, leader_record *record) {
    leader_k8s_transfer_ *t = &self->ask_;
    long version = 0;
    t->done = false;
    if (t->code != CURLE_OK) return leader_k8s_broken_(self);
    (void)curl_easy_getinfo((CURL *)t->easy, CURLINFO_HTTP_VERSION, &version);
    self->http2_ = version >= (long)CURL_HTTP_VERSION_2_0;
    self->fresh_ = false;
    self->answered_ms_ = leader_k8s_now_(self);
    if (t->status == 200 || t->status == 201) return leader_k8s_received_(self, request, record);
    if (t->status == 404 && self->step_ == LEADER_K8S_READ_ && leader_k8s_says_absent_(self))
        return leader_k8s_absent_(self, request, record);
    if (t->status == 409 || (t->status == 404 && self->step_ == LEADER_K8S_WRITE_ && leader_k8s_says_absent_(self))) {
        if (++self->conflicts_ <= LEADER_K8S_CONFLICTS_MAX_) return leader_k8s_send_(self, LEADER_K8S_READ_);
    }
    if (t->status == 401 && self->token_file_[0] && !self->retried_auth_) {
        self->retried_auth_ = true;
        self->token_read_ms_ = -1;
        return leader_k8s_send_(self, self->step_);
    }
    return leader_k8s_refused_(self, record);
}

static void leader_k8s_cancel_(void *user) {
    leader_k8s *self = (leader_k8s *)user;
    if (self->op_ == LEADER_K8S_IDLE_) return;
    self->op_ = LEADER_K8S_IDLE_;
    self->fresh_ = true;                                               /* no answer: neither it nor the watch is worth trust  */
    leader_k8s_abandon_(&self->ask_);
    leader_k8s_watch_stop_(self);
}

static leader_result leader_k8s_begin_(leader_k8s *self, int op, const leader_request *request, leader_record *record) {
    leader_k8s_cancel_(self);
    self->op_ = op;
    self->seq_ = request->seq;
    self->nonce_ = request->nonce;
    (void)snprintf(self->identity_, sizeof self->identity_, "%s", request->identity);
    self->conflicts_ = 0;
    self->retried_auth_ = false;
    /* A write needs no GET before it: it succeeds only if the Lease still is as we know it. To say "held" takes fresh news. */
    if (self->known_ && !self->must_read_ &&
        (op == LEADER_K8S_RENEW_ || op == LEADER_K8S_RELEASE_ || leader_k8s_watch_trusted_(self) ||
         (op == LEADER_K8S_ACQUIRE_ && leader_k8s_is_takeable_(self, request)))) return leader_k8s_decide_(self, request, record);
    return leader_k8s_send_(self, LEADER_K8S_READ_);
}

static leader_result leader_k8s_run_(void *user, int op, const leader_request *request, leader_record *record) {
    leader_k8s *self = (leader_k8s *)user;
    leader_result result = LEADER_PENDING;
    long wait_ms = -1;
    if (self->op_ != op || self->seq_ != request->seq) result = leader_k8s_begin_(self, op, request, record);
    while (result == LEADER_PENDING) {
        leader_k8s_drive_(self);
        if (!self->ask_.done) break;
        memset(record, 0, sizeof *record);
        result = leader_k8s_answered_(self, request, record);
    }
    if (result == LEADER_PENDING) {
        (void)curl_multi_timeout((CURLM *)self->client_->multi_, &wait_ms);
        record->again_ms = wait_ms < 0 ? 0 : wait_ms < 1 ? 1 : wait_ms;
        return result;
    }
    self->op_ = LEADER_K8S_IDLE_;
    self->watch_wanted_ = result == LEADER_HELD || op == LEADER_K8S_OBSERVE_ || (self->watch_wanted_ && result < 0);
    if (self->watch_wanted_ && !self->watch_.running) {
        leader_k8s_watch_start_(self);
        leader_k8s_drive_(self);
    }
    return result;
}

static leader_result leader_k8s_acquire_(void *self, const leader_request *request, leader_record *seen) {
    return leader_k8s_run_(self, LEADER_K8S_ACQUIRE_, request, seen);
}

static leader_result leader_k8s_renew_(void *self, const leader_request *request, leader_record *seen) {
    return leader_k8s_run_(self, LEADER_K8S_RENEW_, request, seen);
}

static leader_result leader_k8s_release_(void *self, const leader_request *request, leader_record *seen) {
    return leader_k8s_run_(self, LEADER_K8S_RELEASE_, request, seen);
}

static leader_result leader_k8s_observe_(void *self, const leader_request *request, leader_record *seen) {
    return leader_k8s_run_(self, LEADER_K8S_OBSERVE_, request, seen);
}

static bool leader_k8s_poll_(void *user) {
    leader_k8s *self = (leader_k8s *)user;
    leader_k8s_drive_(self);
    return self->op_ == LEADER_K8S_IDLE_ && leader_k8s_watch_read_(self);
}

/* ---- settings --------------------------------------------------------------------------------------------------------------------------------------- */

static bool leader_k8s_is_dns_(const char *text, size_t max, bool dots) {
    size_t i, len = strlen(text);
    if (len == 0 || len > max) return false;
    for (i = 0; i < len; i++) {
        char c = text[i], before = i ? text[i - 1] : '.', after = i + 1 < len ? text[i + 1] : '.';
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        bool edge = before == '.' || after == '.';
        if (!plain && !(c == '-' && !edge) && !(c == '.' && dots && i > 0 && i + 1 < len && before != '.')) return false;
    }
    return true;
}

/* libcurl would take a third slash for none, and not tell of an empty fragment, behind which the rest of the URL would vanish. */
static const char *leader_k8s_check_server_(leader_k8s *self) {
    CURLU *url = curl_url();
    size_t len = strlen(self->server_);
    bool good;
    if (!url) return "no memory";
    good = strncmp(self->server_, "https://", 8) == 0 && self->server_[8] != '/' && curl_url_set(url, CURLUPART_URL, self->server_, 0) == CURLUE_OK;
    curl_url_cleanup(url);
    if (!good) return "server: must be https://host:port";
    if (strpbrk(self->server_, "@?#")) return "server: must not hold a user, a query or a fragment";
    while (self->server_[len - 1] == '/') self->server_[--len] = 0;
    return NULL;
}

static const char *leader_k8s_check_(leader_k8s *self) {
    const leader_config *config = self->host_.config;
    size_t i;
    int64_t record_ms = leader_k8s_seconds_(config->lease_ms) * 1000;
    if (self->problem_[0]) return self->problem_;
    if (!self->server_[0]) return "server: required (not in a pod: KUBERNETES_SERVICE_HOST is not set)";
    if (!leader_k8s_is_dns_(self->name_, LEADER_K8S_NAME_MAX_, true))
        return "lease_name: must be a DNS-1123 subdomain: a-z, 0-9, '-' and '.', at most 253 bytes";
    if (!leader_k8s_is_dns_(self->namespace_, LEADER_K8S_LABEL_MAX_, false))
        return "lease_namespace: must be a DNS-1123 label: a-z, 0-9 and '-', at most 63 bytes";
    for (i = 0; self->token_[i]; i++)
        if (self->token_[i] <= ' ' || self->token_[i] > '~') return "token: must be printable ASCII without spaces";
    if (self->token_[0] && self->token_file_[0]) return "token, token_file: give one of them";
    if (!self->cert_file_[0] != !self->key_file_[0]) return "cert_file, key_file: give both or none";
    if (leader_k8s_seconds_(config->lease_ms) > INT32_MAX) return "lease_ms: too long for a Lease";
    if (!self->leader_h_only_ && config->renew_deadline_ms + LEADER_K8S_EARLY_MS_ + record_ms / 20 > record_ms) {
        (void)snprintf(self->refusal_, sizeof self->refusal_, "renew_deadline_ms (%lld) must be at most %lld: client-go may take a Lease of "
                       "%lld s over 1 s early (or set leader_h_only)", LEADER_LL_(config->renew_deadline_ms),
                       LEADER_LL_(record_ms - record_ms / 20 - LEADER_K8S_EARLY_MS_), LEADER_LL_(record_ms / 1000));
        return self->refusal_;
    }
    return leader_k8s_check_server_(self);
}

static void leader_k8s_close_(void *user) {
    leader_k8s *self = (leader_k8s *)user, **link = &self->client_->members_;
    leader_k8s_transfer_ *transfers[2];
    int i;
    transfers[0] = &self->ask_;
    transfers[1] = &self->watch_;
    self->op_ = LEADER_K8S_IDLE_;
    for (i = 0; i < 2; i++) {
        leader_k8s_abandon_(transfers[i]);
        if (transfers[i]->easy) curl_easy_cleanup((CURL *)transfers[i]->easy);
        curl_slist_free_all((struct curl_slist *)transfers[i]->headers);
        leader_k8s_free_(&transfers[i]->reply);
        transfers[i]->easy = transfers[i]->headers = NULL;
    }
    leader_k8s_rehome_(self);
    for (i = 0; i < LEADER_FDS_MAX; i++)
        if (self->sockets_[i].events) {
            (void)curl_multi_assign((CURLM *)self->client_->multi_, (curl_socket_t)self->sockets_[i].fd, NULL);
            leader_k8s_watch_fd_(self, (curl_socket_t)self->sockets_[i].fd, 0);
        }
    while (*link && *link != self) link = &(*link)->next_;
    if (*link) *link = self->next_;
    if (!self->client_->members_ && self->client_->multi_) {
        (void)curl_multi_cleanup((CURLM *)self->client_->multi_);
        self->client_->multi_ = NULL;
    }
    leader_k8s_free_(&self->doc_);
    leader_k8s_free_(&self->body_);
    self->known_ = false;
    curl_global_cleanup();
}

static const char *leader_k8s_open_(void *user, const leader_host *host) {
    leader_k8s *self = (leader_k8s *)user;
    leader_k8s_client *client = self->client_;
    const char *problem;
    bool ok;
    self->host_ = *host;
    problem = leader_k8s_check_(self);
    if (problem) return problem;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return "libcurl does not start";
    self->next_ = client->members_;
    client->members_ = self;
    self->token_read_ms_ = self->watch_behind_ms_ = -1;
    ok = (client->multi_ || leader_k8s_make_multi_(client)) && leader_k8s_prepare_(self, &self->ask_);
    ok = ok && leader_k8s_prepare_(self, &self->watch_);
    if (ok) return NULL;
    leader_k8s_close_(self);
    return "libcurl: no memory, or built without TLS 1.2";
}

static void leader_k8s_keep_(leader_k8s *self, char *to, size_t cap, const char *from, const char *field) {
    if (!from) return;
    if (strlen(from) >= cap)
        (void)snprintf(self->problem_, sizeof self->problem_, "%s: longer than %lu bytes", field, (unsigned long)cap - 1);
    else
        memcpy(to, from, strlen(from) + 1);
}

LEADER_API leader_backend leader_k8s_backend(leader_k8s *self, const leader_k8s_config *config) {
    leader_backend backend;
    const char *server = config->server ? config->server : config->pod_server_;
    const char *lease_namespace = config->lease_namespace ? config->lease_namespace : config->pod_namespace_;
    memset(self, 0, sizeof *self);
    leader_k8s_keep_(self, self->server_, sizeof self->server_, server, "server");
    leader_k8s_keep_(self, self->name_, sizeof self->name_, config->lease_name, "lease_name");
    leader_k8s_keep_(self, self->namespace_, sizeof self->namespace_, lease_namespace, "lease_namespace");
    leader_k8s_keep_(self, self->ca_file_, sizeof self->ca_file_, config->ca_file, "ca_file");
    leader_k8s_keep_(self, self->token_, sizeof self->token_, config->token, "token");
    leader_k8s_keep_(self, self->token_file_, sizeof self->token_file_, config->token_file, "token_file");
    leader_k8s_keep_(self, self->cert_file_, sizeof self->cert_file_, config->cert_file, "cert_file");
    leader_k8s_keep_(self, self->key_file_, sizeof self->key_file_, config->key_file, "key_file");
    self->no_watch_ = config->no_watch;
    self->leader_h_only_ = config->leader_h_only;
    self->client_ = config->client ? config->client : &self->own_;
    memset(&backend, 0, sizeof backend);
    backend.self    = self;
    backend.acquire = leader_k8s_acquire_;
    backend.renew   = leader_k8s_renew_;
    backend.release = leader_k8s_release_;
    backend.observe = leader_k8s_observe_;
    backend.poll    = leader_k8s_poll_;
    backend.cancel  = leader_k8s_cancel_;
    backend.open    = leader_k8s_open_;
    backend.close   = leader_k8s_close_;
    return backend;
}

static void leader_k8s_pod_namespace_(char buf[LEADER_K8S_LABEL_MAX_ + 1]) {
    const char *said = getenv("POD_NAMESPACE");
    char text[LEADER_K8S_LABEL_MAX_ + 3] = "";
    size_t len = 0;
    FILE *file = said && said[0] ? NULL : fopen(LEADER_K8S_SERVICE_ACCOUNT "/namespace", "rb");
    if (said && said[0]) {
        (void)snprintf(text, sizeof text, "%s", said);
        len = strlen(text);
    }
    if (file) {
        len = fread(text, 1, sizeof text - 1, file);
        (void)fclose(file);
    }
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) len--;
    if (len > LEADER_K8S_LABEL_MAX_) len = 0;                          /* no namespace is that long: open will say so         */
    else if (len == 0) len = (size_t)snprintf(text, sizeof text, "default");
    memcpy(buf, text, len);
    buf[len] = 0;
}

LEADER_API leader_result leader_k8s_from_env(leader_k8s_config *config, const char *lease_name) {
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    bool v6 = host && strchr(host, ':');
    int len;
    memset(config, 0, sizeof *config);
    config->lease_name = lease_name;
    config->token_file = LEADER_K8S_SERVICE_ACCOUNT "/token";
    config->ca_file    = LEADER_K8S_SERVICE_ACCOUNT "/ca.crt";
    leader_k8s_pod_namespace_(config->pod_namespace_);
    if (!host || !host[0]) return LEADER_E_CONFIG;
    len = snprintf(config->pod_server_, sizeof config->pod_server_, "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "",
                   port && port[0] ? port : "443");
    if (len > 0 && (size_t)len < sizeof config->pod_server_) return LEADER_OK;
    config->pod_server_[0] = 0;
    return LEADER_E_CONFIG;
}

LEADER_API const char *leader_k8s_identity(char *buf, size_t cap) {
    const char *pod = getenv("POD_NAME");
    if (!pod || !pod[0]) return leader_make_identity(buf, cap, NULL);
    (void)snprintf(buf, cap, "%s", pod);
    return buf;
}

#ifdef __cplusplus
}
#endif
#endif /* LEADER_K8S_IMPLEMENTATION_DONE */

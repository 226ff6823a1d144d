/* leader_etcd.h - etcd v3 as the store of leader.h, over its JSON gateway - MIT licence, see leader.h

   WHAT IT DOES
     Elects a leader on one key of an etcd cluster, through libcurl, without blocking a tick. The value is
     JSON that people can read; it changes only by a transaction that compares mod_revision and value.
     etcd 3.4 or later.

   DO THIS (link with -lcurl)
         #define LEADER_IMPLEMENTATION
         #define LEADER_WITH_ETCD
         #include "leader.h"

         leader_etcd store;
         leader_etcd_config where = {0};                     // C++: = {}
         where.endpoints = "https://a:2379,https://b:2379,https://c:2379";
         where.name = "nightly-report";
         leader_config config = {0};
         config.identity = "node-a";
         config.backend = leader_etcd_backend(&store, &where);

   WHAT IT DOES NOT PROMISE
     - Anything that leader.h itself does not promise; see there.
     - A cluster restored from a snapshot while a candidate starts that has seen nothing.

   GOOD TO KNOW
     - No etcd lease is used: etcd counts those in whole seconds and looks for expired ones every 500 ms.
       Here a standby tries at the very moment at which the record can run out.
     - It is not concurrency.Election of the Go client, and not `etcdctl elect`: those make one key per
       candidate, bound to an etcd lease. Use different names: the two do not see each other.
     - Reads are linearizable: a member that has lost its quorum gives no answer, and the next endpoint is
       tried when its share of the request's time is over.
     - The token of a term is above the revision at which it began; that of the first term is the time in
       milliseconds, so that a rebuilt cluster does not begin below the tokens of the old one.
     - Another cluster behind the same address, a lower revision or a deleted key is a store that forgot:
       the next leader waits a full lease. A compacted watch is a reason to read again.
     - Needs read and write permission for the one key:
           etcdctl role grant-permission app readwrite /leader/nightly-report
     - Plain http:// only to this machine, unless plain_http says otherwise.

   ENVIRONMENT (leader_etcd_config_from_env), as etcdctl reads it: ETCDCTL_ENDPOINTS, ETCDCTL_USER
     (name:password), ETCDCTL_PASSWORD, ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY. */

#ifndef LEADER_H_INCLUDED
#  error "leader_etcd.h: include leader.h first (or define LEADER_WITH_ETCD before it)"
#endif
#include "leader_http.h"

#ifndef LEADER_ETCD_H_INCLUDED
#define LEADER_ETCD_H_INCLUDED

#ifdef __cplusplus
extern "C" {
#endif

// complete below: yours to place; do not read, copy or move it
typedef struct leader_etcd leader_etcd;

typedef struct leader_etcd_config { // leader_etcd_backend copies it, strings too
    const char *name;               // required: the election, at most 127 bytes
    const char *prefix;             // "/leader/": the key is prefix and name
    const char *endpoints;          // "http://127.0.0.1:2379"; up to five, with commas
    const char *user;               // none; or "name:password"
    const char *password;           // of that user, where user has none
    const char *ca_file;            // PEM; the certificate authorities of this machine
    const char *cert_file;          // client certificate, PEM, and
    const char *key_file;           // its key
    bool        plain_http;         // false; true: http:// to other machines as well
    bool        no_watch;           // false; true: poll only
    leader_http_client *client;     // connections shared with other elections of this thread; its own
} leader_etcd_config;

LEADER_API leader_result leader_etcd_config_from_env(leader_etcd_config *);     // E_CONFIG: nothing is set
// no I/O, never fails
LEADER_API leader_backend leader_etcd_backend(leader_etcd *, const leader_etcd_config *);

/* ---- stop here if you only want to use it -------------------------------------------------------------- */

enum {
    LEADER_ETCD_ENDPOINTS_MAX_ = 5, LEADER_ETCD_KEY_MAX_ = 255, LEADER_ETCD_TOKEN_MAX_ = 511,
    LEADER_ETCD_TEXT_MAX_ = 8192
};

typedef struct leader_etcd_endpoint_ {
    leader_http_          http;
    leader_http_exchange_ ask;
    leader_http_exchange_ watch;
    char                  url[LEADER_HTTP_SERVER_MAX_ + 1];
    bool                  open;
} leader_etcd_endpoint_;

typedef struct leader_etcd_kv_ {    // the key as a reply shows it
    bool     there;
    uint64_t cluster, revision;     // of the whole store
    uint64_t created, modified;     // of the key
    char     value[LEADER_ETCD_TEXT_MAX_];      // decoded
    size_t   value_len;
} leader_etcd_kv_;

struct leader_etcd {
    leader_engine      engine;
    leader_host        host;
    leader_http_client own;
    leader_http_client *client;
    leader_etcd_endpoint_ endpoints[LEADER_ETCD_ENDPOINTS_MAX_];
    int                endpoint_count;
    int                at;          // the endpoint in use
    char               key[LEADER_ETCD_KEY_MAX_ + 1];
    char               key_text[2 * LEADER_ETCD_KEY_MAX_];      // as base64
    char               user[128], password[256];
    char               ca_file[LEADER_HTTP_PATH_MAX_ + 1];
    char               cert_file[LEADER_HTTP_PATH_MAX_ + 1];
    char               key_file[LEADER_HTTP_PATH_MAX_ + 1];
    char               auth[LEADER_ETCD_TOKEN_MAX_ + 1];        // "": not authenticated
    char               wrong[200];  // with the settings; "": nothing
    bool               plain_http, no_watch;

    /* the request under way */
    uint64_t           call_id;
    int                step;
    int                then;        // the step after authentication
    int                tries;       // endpoints asked
    bool               retried_auth;
    int64_t            asked_ms;
    leader_http_text_  body;
    leader_entry       sent;

    /* the key as last known, for the next write */
    char               version[LEADER_ENTRY_VERSION_MAX + 1];
    uint64_t           cluster, created, modified;
    leader_http_text_  value;       // as base64

    /* the watch */
    int                watch_at;    // endpoint; -1: none
    bool               watch_told;  // that it works
    bool               watch_lost;
    int64_t            watch_after_ms, watch_pause_ms;
    uint64_t           watch_seen;  // the revision that it has told
    int64_t            watch_behind_ms;     // an answer has shown more, since then; -1: it has not
    leader_http_text_  watch_body;
};

#ifdef __cplusplus
}
#endif
#endif /* LEADER_ETCD_H_INCLUDED */

#if defined(LEADER_IMPLEMENTATION) && defined(LEADER_IMPLEMENTATION_DONE)                                    \
    && !defined(LEADER_ETCD_IMPLEMENTATION_DONE)
#  define LEADER_ETCD_IMPLEMENTATION_DONE

#  include <stdlib.h>

#  ifdef __cplusplus
extern "C" {
#endif

enum { LEADER_ETCD_READ_, LEADER_ETCD_WRITE_, LEADER_ETCD_LOGIN_ };
enum { LEADER_ETCD_CATCH_UP_MS_ = 2000 };       // how long a watch may be behind an answer

static int64_t leader_etcd_now_(const leader_etcd *self) {
    return self->host.now_ms(self->host.core);
}

static void leader_etcd_log_(const leader_etcd *self, leader_level level, const char *format, ...)
    LEADER_PRINTF_(3, 4);
static void leader_etcd_log_(const leader_etcd *self, leader_level level, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    self->host.log(self->host.core, level, text);
}

static leader_etcd_endpoint_ *leader_etcd_here_(leader_etcd *self) {
    return &self->endpoints[self->at];
}

/* ---- base64: keys and values travel as such ------------------------------------------------------ */

/* Answers the length, or 0 if it does not fit. */
static size_t leader_etcd_encode_(char *out, size_t cap, const char *from, size_t len) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    if ((len + 2) / 3 * 4 + 1 > cap) {
        return 0;
    }
    for (size_t i = 0; i < len; i += 3) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++) {
            bits = bits << 8 | (i + k < len ? (unsigned char)from[i + k] : 0u);
        }
        for (size_t k = 0; k < 4; k++) {
            bool padding = i + k > len;
            out[n + k] = padding ? '=' : digits[bits >> (18 - 6 * k) & 63];
        }
        n += 4;
    }
    out[n] = 0;
    return n;
}

static int leader_etcd_digit_(char c) {
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (leader_is_digit_(c)) {
        return c - '0' + 52;
    }
    if (c == '+') {
        return 62;
    }
    return c == '/' ? 63 : -1;
}

/* False: not base64, or too long. */
static bool leader_etcd_decode_(const char *text, size_t len, char *out, size_t cap, size_t *out_len) {
    uint32_t bits = 0;
    int have = 0;
    *out_len = 0;
    while (len > 0 && text[len - 1] == '=') {
        len--;
    }
    for (size_t i = 0; i < len; i++) {
        int digit = leader_etcd_digit_(text[i]);
        if (digit < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        if (have < 8) {
            continue;
        }
        have -= 8;
        if (*out_len >= cap) {
            return false;
        }
        out[*out_len] = (char)(bits >> have & 0xff);
        ++*out_len;
    }
    return true;
}

/* ---- reading replies ----------------------------------------------------------------------------- */

/* The gateway writes 64-bit numbers as strings, and leaves zeroes out. False: there, but not a number. */
static bool leader_etcd_number_(leader_json_ object, const char *name, uint64_t *out) {
    leader_json_ value = {NULL, 0};
    *out = 0;
    if (!leader_json_member_(object, name, &value)) {
        return value.at == NULL;
    }
    if (value.len > 2 && value.at[0] == '"') {
        value.at++;
        value.len -= 2;
    }
    return leader_json_u64_(value, out);
}

static leader_json_ leader_etcd_member_(leader_json_ object, const char *name) {
    leader_json_ none = {"", 0};
    leader_json_ value = {"", 0};
    return leader_json_member_(object, name, &value) ? value : none;
}

/* The last element of an array: of the events of a key the youngest counts. len 0: none. */
static leader_json_ leader_etcd_last_(leader_json_ array) {
    leader_json_ last = {"", 0};
    if (array.len < 2 || array.at[0] != '[') {
        return last;
    }
    const char *end = array.at + array.len - 1;
    const char *p = leader_json_space_(array.at + 1, end);
    while (p < end) {
        const char *from = p;
        if (!leader_json_skip_(&p, end, LEADER_JSON_DEPTH_)) {
            break;
        }
        last.at = from;
        last.len = (size_t)(p - from);
        p = leader_json_space_(p, end);
        if (p < end) {              // the comma
            p = leader_json_space_(p + 1, end);
        }
    }
    return last;
}

static bool leader_etcd_read_header_(leader_json_ reply, leader_etcd_kv_ *kv) {
    leader_json_ header = leader_etcd_member_(reply, "header");
    return leader_etcd_number_(header, "cluster_id", &kv->cluster) &&
           leader_etcd_number_(header, "revision", &kv->revision) && kv->revision != 0;
}

static bool leader_etcd_read_kv_(leader_json_ object, leader_etcd_kv_ *kv) {
    leader_json_ value = leader_etcd_member_(object, "value");
    kv->there = true;
    if (!leader_etcd_number_(object, "create_revision", &kv->created) || kv->created == 0) {
        return false;
    }
    if (!leader_etcd_number_(object, "mod_revision", &kv->modified) || kv->modified == 0) {
        return false;
    }
    if (value.len < 2) {
        return value.len == 0;      // an empty value
    }
    return leader_etcd_decode_(value.at + 1, value.len - 2, kv->value, sizeof kv->value, &kv->value_len);
}

static void leader_etcd_version_(const leader_etcd_kv_ *kv, char *buf, size_t cap) {
    snprintf(buf, cap, "%llx %llu %llu", (unsigned long long)kv->cluster, (unsigned long long)kv->created,
             (unsigned long long)kv->modified);
}

/* Another cluster, or a key that was deleted and created again, is another origin. */
static uint64_t leader_etcd_origin_(const leader_etcd_kv_ *kv) {
    return leader_mix_(kv->cluster ^ leader_mix_(kv->created)) | 1;
}

/* What the store now says, for the next write. */
static bool leader_etcd_keep_(leader_etcd *self, const leader_etcd_kv_ *kv) {
    char text[LEADER_ETCD_TEXT_MAX_ * 4 / 3 + 8];
    size_t len = leader_etcd_encode_(text, sizeof text, kv->value, kv->value_len);
    self->version[0] = 0;
    if (!leader_http_copy_(&self->value, text, len)) {
        return false;
    }
    self->cluster = kv->cluster;
    self->created = kv->created;
    self->modified = kv->modified;
    if (kv->there) {
        leader_etcd_version_(kv, self->version, sizeof self->version);
    }
    return true;
}

static leader_result leader_etcd_entry_(leader_etcd *self, const leader_etcd_kv_ *kv, leader_entry *found) {
    char why[120];
    leader_json_ root;
    if (!kv->there) {
        found->revision = kv->revision;
        return LEADER_OK;
    }
    bool good = leader_entry_parse_(kv->value, kv->value_len, found, &root, why, sizeof why);
    if (!good) {
        int64_t lease_ms = found->lease_ms;     // if that much could be read
        memset(found, 0, sizeof *found);
        found->lease_ms = lease_ms;
        found->renewal = kv->modified;
    }
    leader_etcd_version_(kv, found->version, sizeof found->version);
    found->revision = kv->modified;
    found->origin = leader_etcd_origin_(kv);
    if (!good) {
        leader_etcd_log_(self, LEADER_LOG_ERROR, "etcd: the value of %s is no lease record: %s", self->key,
                         why);
        return LEADER_E_CORRUPT;
    }
    return LEADER_OK;
}

/* The server's own words. */
static void leader_etcd_words_(const leader_http_text_ *reply, char *buf, size_t cap) {
    static const char *const names[] = {"message", "error"};
    leader_json_ root;
    size_t bad_at = 0;
    buf[0] = 0;
    if (reply->len == 0 || !leader_json_parse_(reply->at, reply->len, &root, &bad_at)) {
        return;
    }
    char text[300];
    for (size_t i = 0; i < 2; i++) {
        leader_json_ value = leader_etcd_member_(root, names[i]);
        if (leader_json_string_(value, text, sizeof text)) {
            for (char *p = text; *p; p++) {
                if ((unsigned char)*p < ' ') {
                    *p = ' ';
                }
            }
            leader_copy_text_(buf, cap, text);
            return;
        }
    }
}

/* ---- requests ------------------------------------------------------------------------------------ */

static leader_result leader_etcd_post_(leader_etcd *self, int step, const char *path) {
    leader_etcd_endpoint_ *here = leader_etcd_here_(self);
    leader_http_request_ request;
    memset(&request, 0, sizeof request);
    request.method = "POST";
    request.path = path;
    request.authorization = step == LEADER_ETCD_LOGIN_ ? "" : self->auth;
    request.body = self->body.at;
    request.body_len = self->body.len;
    self->step = step;
    self->asked_ms = leader_etcd_now_(self);
    if (!leader_http_start_(&here->http, &here->ask, &request)) {
        leader_etcd_log_(self, LEADER_LOG_ERROR, "etcd: no memory for a request");
        return LEADER_E_IO;
    }
    return LEADER_PENDING;
}

static leader_result leader_etcd_no_memory_(leader_etcd *self) {
    leader_etcd_log_(self, LEADER_LOG_ERROR, "etcd: no memory for a request");
    return LEADER_E_IO;
}

static leader_result leader_etcd_send_read_(leader_etcd *self) {
    char text[3 * LEADER_ETCD_KEY_MAX_];
    int len = snprintf(text, sizeof text, "{\"key\":\"%s\"}", self->key_text);
    if (!leader_http_copy_(&self->body, text, (size_t)len)) {
        return leader_etcd_no_memory_(self);
    }
    return leader_etcd_post_(self, LEADER_ETCD_READ_, "/v3/kv/range");
}

static bool leader_etcd_append_(leader_http_text_ *text, const char *piece) {
    return leader_http_splice_(text, text->len, 0, piece, strlen(piece));
}

/* The transaction compares the value as well: a rebuilt cluster could reach the same numbers. */
static bool leader_etcd_compose_(leader_etcd *self, const leader_entry *next) {
    char record[LEADER_ETCD_TEXT_MAX_];
    char value[LEADER_ETCD_TEXT_MAX_ * 4 / 3 + 8];
    char head[4 * LEADER_ETCD_KEY_MAX_ + 300];
    size_t len = leader_entry_text_(next, "", record, sizeof record);
    if (len >= sizeof record || leader_etcd_encode_(value, sizeof value, record, len) == 0) {
        return false;
    }
    leader_http_text_ *body = &self->body;
    body->len = 0;
    bool good = true;
    if (next->version[0] == 0) {
        snprintf(head, sizeof head,
                 "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"0\"}]",
                 self->key_text);
        good = leader_etcd_append_(body, head);
    } else {
        snprintf(head, sizeof head,
                 "{\"compare\":[{\"key\":\"%s\",\"target\":\"MOD\",\"mod_revision\":\"%llu\"},"
                 "{\"key\":\"%s\",\"target\":\"VALUE\",\"value\":\"",
                 self->key_text, (unsigned long long)self->modified, self->key_text);
        good = leader_etcd_append_(body, head) && leader_etcd_append_(body, self->value.at);
        good = good && leader_etcd_append_(body, "\"}]");
    }
    snprintf(head, sizeof head, ",\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"",
             self->key_text);
    good = good && leader_etcd_append_(body, head) && leader_etcd_append_(body, value);
    return good && leader_etcd_append_(body, "\"}}]}");
}

static leader_result leader_etcd_send_write_(leader_etcd *self) {
    if (strcmp(self->sent.version, self->version) != 0) {
        return LEADER_LOST;         // decided about another version than the one we know
    }
    if (!leader_etcd_compose_(self, &self->sent)) {
        return leader_etcd_no_memory_(self);
    }
    return leader_etcd_post_(self, LEADER_ETCD_WRITE_, "/v3/kv/txn");
}

static leader_result leader_etcd_send_login_(leader_etcd *self) {
    char user[300];
    char password[1600];
    leader_json_quote(user, sizeof user, self->user);
    leader_json_quote(password, sizeof password, self->password);
    self->auth[0] = 0;
    self->body.len = 0;
    bool good = leader_etcd_append_(&self->body, "{\"name\":") && leader_etcd_append_(&self->body, user)
                && leader_etcd_append_(&self->body, ",\"password\":")
                && leader_etcd_append_(&self->body, password) && leader_etcd_append_(&self->body, "}");
    return good ? leader_etcd_post_(self, LEADER_ETCD_LOGIN_, "/v3/auth/authenticate")
                : leader_etcd_no_memory_(self);
}

static leader_result leader_etcd_send_(leader_etcd *self, int step) {
    if (self->user[0] != 0 && self->auth[0] == 0) {
        self->then = step;
        return leader_etcd_send_login_(self);
    }
    return step == LEADER_ETCD_READ_ ? leader_etcd_send_read_(self) : leader_etcd_send_write_(self);
}

static void leader_etcd_turn_(leader_etcd *self) {
    self->at = (self->at + 1) % self->endpoint_count;
}

/* This endpoint did not help. A read goes to the next one; a write may have been carried out. */
static leader_result leader_etcd_try_next_(leader_etcd *self, leader_result result) {
    int step = self->step == LEADER_ETCD_LOGIN_ ? self->then : self->step;
    leader_etcd_turn_(self);
    self->tries++;
    if (step != LEADER_ETCD_READ_ || self->tries >= self->endpoint_count) {
        return result;
    }
    return leader_etcd_send_(self, step);
}

/* ---- answers ------------------------------------------------------------------------------------- */

static leader_result leader_etcd_corrupt_(leader_etcd *self, const char *what) {
    leader_etcd_log_(self, LEADER_LOG_ERROR, "etcd at %s: %s", leader_etcd_here_(self)->http.place, what);
    return LEADER_E_CORRUPT;
}

static leader_result leader_etcd_login_answer_(leader_etcd *self, leader_json_ root) {
    leader_json_ token = leader_etcd_member_(root, "token");
    if (!leader_json_string_(token, self->auth, sizeof self->auth) || self->auth[0] == 0) {
        self->auth[0] = 0;
        return leader_etcd_corrupt_(self, "the answer to authenticate has no token");
    }
    for (const char *p = self->auth; *p; p++) {
        if (*p <= ' ' || *p > '~') {            // a line break would add headers of its own
            self->auth[0] = 0;
            return leader_etcd_corrupt_(self, "the token is not printable");
        }
    }
    return leader_etcd_send_(self, self->then);
}

static void leader_etcd_watch_failed_(leader_etcd *self);

/* After an answer: has the watch missed something? A connection that died in silence never says so, nor does
   a watch for numbers that the store has not reached again since it went back. */
static void leader_etcd_watch_compare_(leader_etcd *self) {
    int64_t now_ms = leader_etcd_now_(self);
    if (self->watch_at < 0 || self->modified == self->watch_seen) {
        self->watch_behind_ms = -1;
    } else if (self->watch_behind_ms < 0) {
        self->watch_behind_ms = now_ms;
    } else if (now_ms - self->watch_behind_ms >= LEADER_ETCD_CATCH_UP_MS_) {
        leader_etcd_watch_failed_(self);
    }
}

static leader_result leader_etcd_read_answer_(leader_etcd *self, leader_json_ root, leader_entry *entry) {
    leader_etcd_kv_ kv;
    memset(&kv, 0, sizeof kv);
    leader_json_ object = leader_etcd_last_(leader_etcd_member_(root, "kvs"));
    bool good = leader_etcd_read_header_(root, &kv);
    if (good && object.len > 0) {
        good = leader_etcd_read_kv_(object, &kv);
    }
    if (!good) {
        return leader_etcd_corrupt_(self, "the answer to range cannot be understood");
    }
    if (!leader_etcd_keep_(self, &kv)) {
        return leader_etcd_no_memory_(self);
    }
    leader_etcd_watch_compare_(self);
    return leader_etcd_entry_(self, &kv, entry);
}

static leader_result leader_etcd_write_answer_(leader_etcd *self, leader_json_ root, leader_entry *stored) {
    leader_etcd_kv_ kv;
    leader_json_ succeeded = leader_etcd_member_(root, "succeeded");
    memset(&kv, 0, sizeof kv);
    if (!leader_etcd_read_header_(root, &kv)) {
        return leader_etcd_corrupt_(self, "the answer to txn cannot be understood");
    }
    bool created = self->sent.version[0] == 0;
    bool done = succeeded.len == 4 && memcmp(succeeded.at, "true", 4) == 0;
    bool same_cluster = created || kv.cluster == self->cluster;
    if (!done || !same_cluster) {
        self->version[0] = 0;
        return done ? leader_etcd_corrupt_(self, "another cluster answered than before") : LEADER_LOST;
    }
    kv.there = true;
    kv.modified = kv.revision;
    kv.created = created ? kv.revision : self->created;
    kv.value_len = leader_entry_text_(&self->sent, "", kv.value, sizeof kv.value);
    if (!leader_etcd_keep_(self, &kv)) {
        return leader_etcd_no_memory_(self);
    }
    *stored = self->sent;
    leader_etcd_version_(&kv, stored->version, sizeof stored->version);
    stored->revision = kv.modified;
    stored->origin = leader_etcd_origin_(&kv);
    return LEADER_OK;
}

static bool leader_etcd_token_expired_(const leader_etcd *self, long status, const char *words) {
    bool says_so = strstr(words, "invalid auth token") || strstr(words, "auth revision") || status == 401;
    return self->auth[0] != 0 && says_so;
}

static leader_result leader_etcd_refused_(leader_etcd *self, leader_entry *entry) {
    leader_http_exchange_ *ask = &leader_etcd_here_(self)->ask;
    char words[200];
    leader_etcd_words_(&ask->reply, words, sizeof words);
    if (leader_etcd_token_expired_(self, ask->status, words) && !self->retried_auth) {
        int step = self->step;
        self->retried_auth = true;
        self->auth[0] = 0;
        return leader_etcd_send_(self, step);
    }
    bool denied = ask->status == 401 || ask->status == 403 || strstr(words, "permission denied") ||
                  strstr(words, "authentication failed") || strstr(words, "user name is empty");
    const char *advice = "";
    if (denied) {
        advice =
            self->user[0] ? ": check user, password and the rights for this key" : ": set user and password";
    }
    leader_etcd_log_(self, LEADER_LOG_ERROR, "etcd at %s answered %ld for key %s: %s%s",
                     leader_etcd_here_(self)->http.place, ask->status, self->key, words, advice);
    entry->again_ms = ask->retry_after_ms;
    if (denied) {
        return LEADER_E_AUTH;
    }
    return leader_etcd_try_next_(self, LEADER_E_STORE);
}

static leader_result leader_etcd_answer_(leader_etcd *self, leader_entry *entry) {
    leader_http_exchange_ *ask = &leader_etcd_here_(self)->ask;
    leader_json_ root;
    size_t bad_at = 0;
    if (ask->result != LEADER_OK) {
        leader_etcd_log_(self, self->tries + 1 < self->endpoint_count ? LEADER_LOG_WARN : LEADER_LOG_ERROR,
                         "etcd at %s", ask->error);
        return leader_etcd_try_next_(self, ask->result);
    }
    if (ask->status != 200) {
        return leader_etcd_refused_(self, entry);
    }
    if (ask->reply.len == 0 || !leader_json_parse_(ask->reply.at, ask->reply.len, &root, &bad_at)) {
        return leader_etcd_corrupt_(self, "the answer is not JSON");
    }
    switch (self->step) {
    case LEADER_ETCD_LOGIN_:
        return leader_etcd_login_answer_(self, root);
    case LEADER_ETCD_WRITE_:
        return leader_etcd_write_answer_(self, root, entry);
    default:
        return leader_etcd_read_answer_(self, root, entry);
    }
}

static void leader_etcd_drive_(leader_etcd *self) {
    leader_http_drive_(&self->endpoints[0].http);       // all endpoints share one client
}

/* A read that gets no answer moves on when this endpoint's share of the time is over. */
static bool leader_etcd_overdue_(const leader_etcd *self, const leader_call *call) {
    int64_t share_ms = leader_max_(1, call->timeout_ms / self->endpoint_count);
    bool reads = self->step == LEADER_ETCD_READ_;
    return reads && self->tries + 1 < self->endpoint_count
           && leader_etcd_now_(self) - self->asked_ms >= share_ms;
}

static bool leader_etcd_is_new_(leader_etcd *self, const leader_call *call) {
    if (self->call_id == call->id) {
        return false;
    }
    leader_http_drop_(&leader_etcd_here_(self)->ask);
    self->call_id = call->id;
    self->tries = 0;
    self->retried_auth = false;
    return true;
}

static leader_result leader_etcd_go_on_(leader_etcd *self, const leader_call *call, leader_entry *entry) {
    leader_result result = LEADER_PENDING;
    while (result == LEADER_PENDING) {
        leader_etcd_drive_(self);
        leader_http_exchange_ *ask = &leader_etcd_here_(self)->ask;
        if (ask->done) {
            ask->done = false;
            result = leader_etcd_answer_(self, entry);
        } else if (leader_etcd_overdue_(self, call)) {
            leader_http_drop_(ask);
            result = leader_etcd_try_next_(self, LEADER_E_TIMEOUT);
        } else {
            break;
        }
    }
    if (result == LEADER_PENDING) {
        int64_t share_ms = leader_max_(1, call->timeout_ms / self->endpoint_count);
        int64_t wait_ms = leader_http_wait_ms_(&self->endpoints[0].http);
        entry->again_ms = wait_ms > 0 ? leader_min_(wait_ms, share_ms) : share_ms;
    }
    return result;
}

static leader_result leader_etcd_get_(void *user, const leader_call *call, leader_entry *found) {
    leader_etcd *self = (leader_etcd *)user;
    if (leader_etcd_is_new_(self, call)) {
        leader_result result = leader_etcd_send_(self, LEADER_ETCD_READ_);
        if (result != LEADER_PENDING) {
            return result;
        }
    }
    return leader_etcd_go_on_(self, call, found);
}

static leader_result leader_etcd_put_(void *user, const leader_call *call, const leader_entry *next,
                                      leader_entry *stored) {
    leader_etcd *self = (leader_etcd *)user;
    if (leader_etcd_is_new_(self, call)) {
        self->sent = *next;
        leader_result result = leader_etcd_send_(self, LEADER_ETCD_WRITE_);
        if (result != LEADER_PENDING) {
            return result;
        }
    }
    return leader_etcd_go_on_(self, call, stored);
}

/* ---- the watch: a hint, never the only source ---------------------------------------------------- */

static void leader_etcd_unwatch_(leader_etcd *self) {
    if (self->watch_at < 0) {
        return;
    }
    leader_http_drop_(&self->endpoints[self->watch_at].watch);
    self->watch_at = -1;
    self->watch_lost = self->watch_told;
    self->watch_told = false;
}

static void leader_etcd_watch_failed_(leader_etcd *self) {
    leader_etcd_unwatch_(self);
    self->watch_pause_ms = leader_max_(1000, leader_min_(60000, self->watch_pause_ms * 2));
    self->watch_after_ms = leader_etcd_now_(self) + self->watch_pause_ms;
}

static void leader_etcd_watch_(leader_etcd *self) {
    bool ready = self->modified != 0 && leader_etcd_now_(self) >= self->watch_after_ms;
    if (self->no_watch || self->watch_at >= 0 || !ready || (self->user[0] != 0 && self->auth[0] == 0)) {
        return;
    }
    char text[3 * LEADER_ETCD_KEY_MAX_ + 100];
    int len = snprintf(text, sizeof text, "{\"create_request\":{\"key\":\"%s\",\"start_revision\":\"%llu\"}}",
                       self->key_text, (unsigned long long)self->modified + 1);
    if (!leader_http_copy_(&self->watch_body, text, (size_t)len)) {
        return;
    }
    leader_etcd_endpoint_ *here = leader_etcd_here_(self);
    leader_http_request_ request;
    memset(&request, 0, sizeof request);
    request.method = "POST";
    request.path = "/v3/watch";
    request.authorization = self->auth;
    request.body = self->watch_body.at;
    request.body_len = self->watch_body.len;
    request.streams = true;
    self->watch_at = self->at;
    self->watch_seen = self->modified;
    self->watch_behind_ms = -1;
    if (!leader_http_start_(&here->http, &here->watch, &request)) {
        leader_etcd_watch_failed_(self);
    }
}

/* One event: the key as it now is. */
static leader_news leader_etcd_event_(leader_etcd *self, leader_json_ result, leader_entry *found) {
    leader_etcd_kv_ kv;
    memset(&kv, 0, sizeof kv);
    leader_json_ event = leader_etcd_last_(leader_etcd_member_(result, "events"));
    leader_json_ type = leader_etcd_member_(event, "type");
    bool deleted = type.len == 8 && memcmp(type.at, "\"DELETE\"", 8) == 0;
    leader_json_ object = leader_etcd_member_(event, "kv");
    if (deleted || !leader_etcd_read_header_(result, &kv) || !leader_etcd_read_kv_(object, &kv)) {
        return LEADER_NEWS_CHANGED;
    }
    self->watch_seen = leader_max_u64_(self->watch_seen, kv.modified);
    if (kv.modified >= self->modified) {
        self->watch_behind_ms = -1;
    }
    if (kv.modified <= self->modified) {
        return LEADER_NEWS_LISTENING;           // an answer has told us already
    }
    if (leader_etcd_entry_(self, &kv, found) != LEADER_OK || !leader_etcd_keep_(self, &kv)) {
        memset(found, 0, sizeof *found);
        return LEADER_NEWS_CHANGED;
    }
    return LEADER_NEWS_RECORD;
}

static leader_news leader_etcd_watch_line_(leader_etcd *self, const char *line, size_t len,
                                           leader_entry *found) {
    leader_json_ root;
    size_t bad_at = 0;
    if (!leader_json_parse_(line, len, &root, &bad_at)) {
        leader_etcd_watch_failed_(self);
        return LEADER_NEWS_CHANGED;
    }
    leader_json_ result = leader_etcd_member_(root, "result");
    leader_json_ canceled = leader_etcd_member_(result, "canceled");
    if (result.len == 0 || canceled.len == 4) { // an error, or compacted: read, then watch from there
        leader_etcd_watch_failed_(self);
        return LEADER_NEWS_CHANGED;
    }
    self->watch_pause_ms = 0;
    self->watch_told = true;
    leader_json_ events = leader_etcd_member_(result, "events");
    return events.len == 0 ? LEADER_NEWS_LISTENING : leader_etcd_event_(self, result, found);
}

static leader_news leader_etcd_notice_(void *user, leader_entry *found) {
    leader_etcd *self = (leader_etcd *)user;
    const char *line = NULL;
    size_t len = 0;
    leader_etcd_drive_(self);
    if (self->watch_at >= 0) {
        leader_http_exchange_ *watch = &self->endpoints[self->watch_at].watch;
        if (watch->status == 200 && leader_http_line_(watch, &line, &len)) {
            return leader_etcd_watch_line_(self, line, len, found);
        }
        if (watch->done) {
            watch->done = false;
            leader_etcd_watch_failed_(self);
        }
    }
    if (self->watch_lost) {
        self->watch_lost = false;
        return LEADER_NEWS_DEAF;
    }
    leader_etcd_watch_(self);
    return LEADER_NEWS_NONE;
}

/* No answer came in time: this endpoint is not worth trust, nor is its watch. */
static void leader_etcd_cancel_(void *user) {
    leader_etcd *self = (leader_etcd *)user;
    leader_http_drop_(&leader_etcd_here_(self)->ask);
    leader_etcd_unwatch_(self);
    leader_etcd_turn_(self);
    self->call_id = 0;
}

/* ---- settings ------------------------------------------------------------------------------------ */

static void leader_etcd_wrong_(leader_etcd *self, const char *format, ...) LEADER_PRINTF_(2, 3);
static void leader_etcd_wrong_(leader_etcd *self, const char *format, ...) {
    if (self->wrong[0] != 0) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(self->wrong, sizeof self->wrong, format, args);
    va_end(args);
}

static void leader_etcd_copy_(leader_etcd *self, char *to, size_t cap, const char *from, const char *field) {
    if (!from) {
        return;
    }
    if (strlen(from) >= cap) {
        leader_etcd_wrong_(self, "%s is longer than %lu bytes", field, (unsigned long)cap - 1);
        return;
    }
    memcpy(to, from, strlen(from) + 1);
}

/* One of the list. Without a scheme it is http://, as etcdctl takes it. */
static void leader_etcd_add_(leader_etcd *self, const char *text, size_t len) {
    if (self->endpoint_count == LEADER_ETCD_ENDPOINTS_MAX_) {
        leader_etcd_wrong_(self, "endpoints has more than %d members", LEADER_ETCD_ENDPOINTS_MAX_);
        return;
    }
    char *url = self->endpoints[self->endpoint_count].url;
    char one[LEADER_HTTP_SERVER_MAX_ - 7];      // room for the scheme
    if (len == 0 || len >= sizeof one) {
        leader_etcd_wrong_(self, "endpoints: an address is empty or too long");
        return;
    }
    memcpy(one, text, len);
    one[len] = 0;
    const char *scheme = strstr(one, "://") ? "" : "http://";
    snprintf(url, LEADER_HTTP_SERVER_MAX_ + 1, "%s%s", scheme, one);
    self->endpoint_count++;
}

static void leader_etcd_split_(leader_etcd *self, const char *list) {
    for (;;) {
        size_t len = strcspn(list, ",");
        leader_etcd_add_(self, list, len);
        if (list[len] == 0) {
            return;
        }
        list += len + 1;
    }
}

static void leader_etcd_set_user_(leader_etcd *self, const leader_etcd_config *config) {
    const char *user = config->user ? config->user : "";
    const char *colon = strchr(user, ':');
    char name[sizeof self->user];
    if (!colon || config->password) {
        leader_etcd_copy_(self, self->user, sizeof self->user, user, "user");
        leader_etcd_copy_(self, self->password, sizeof self->password, config->password, "password");
        return;
    }
    size_t len = (size_t)(colon - user);
    if (len >= sizeof name) {
        leader_etcd_wrong_(self, "user is too long");
        return;
    }
    memcpy(self->user, user, len);
    leader_etcd_copy_(self, self->password, sizeof self->password, colon + 1, "password");
}

static void leader_etcd_set_key_(leader_etcd *self, const leader_etcd_config *config) {
    const char *prefix = config->prefix ? config->prefix : "/leader/";
    if (!config->name || config->name[0] == 0) {
        leader_etcd_wrong_(self, "name (of the election) is missing");
        return;
    }
    size_t prefix_len = strlen(prefix);
    size_t name_len = strlen(config->name);
    if (prefix_len + name_len > LEADER_ETCD_KEY_MAX_) {
        leader_etcd_wrong_(self, "prefix and name are longer than %d bytes", LEADER_ETCD_KEY_MAX_);
        return;
    }
    memcpy(self->key, prefix, prefix_len);
    memcpy(self->key + prefix_len, config->name, name_len + 1);
    leader_etcd_encode_(self->key_text, sizeof self->key_text, self->key, strlen(self->key));
}

static void leader_etcd_close_(void *user) {
    leader_etcd *self = (leader_etcd *)user;
    for (int i = 0; i < self->endpoint_count; i++) {
        if (self->endpoints[i].open) {
            leader_http_close_(&self->endpoints[i].http);
        }
        self->endpoints[i].open = false;
    }
    leader_http_free_(&self->body);
    leader_http_free_(&self->value);
    leader_http_free_(&self->watch_body);
}

static const char *leader_etcd_open_endpoint_(leader_etcd *self, leader_etcd_endpoint_ *endpoint) {
    leader_http_settings_ settings;
    memset(&settings, 0, sizeof settings);
    memset(&endpoint->ask, 0, sizeof endpoint->ask);
    memset(&endpoint->watch, 0, sizeof endpoint->watch);
    settings.server = endpoint->url;
    settings.ca_file = self->ca_file[0] ? self->ca_file : NULL;
    settings.cert_file = self->cert_file[0] ? self->cert_file : NULL;
    settings.key_file = self->key_file[0] ? self->key_file : NULL;
    settings.plain_anywhere = self->plain_http;
    settings.client = self->client;
    const char *wrong = leader_http_open_(&endpoint->http, &settings, &self->host);
    endpoint->open = wrong == NULL;
    return wrong;
}

static const char *leader_etcd_open_(void *user, const leader_host *host) {
    leader_etcd *self = (leader_etcd *)user;
    if (self->wrong[0] != 0) {
        return self->wrong;
    }
    self->host = *host;
    self->at = 0;
    self->watch_at = -1;
    self->call_id = 0;
    self->modified = 0;
    self->version[0] = 0;
    self->auth[0] = 0;
    self->watch_told = false;
    self->watch_lost = false;
    self->watch_after_ms = LEADER_NEVER_;
    self->watch_pause_ms = 0;
    for (int i = 0; i < self->endpoint_count; i++) {
        const char *wrong = leader_etcd_open_endpoint_(self, &self->endpoints[i]);
        if (wrong) {
            leader_etcd_wrong_(self, "%s", wrong);
            leader_etcd_close_(self);
            return self->wrong;
        }
    }
    return NULL;
}

LEADER_API leader_backend leader_etcd_backend(leader_etcd *self, const leader_etcd_config *config) {
    leader_register store;
    memset(&store, 0, sizeof store);
    memset(self, 0, sizeof *self);
    leader_etcd_set_key_(self, config);
    leader_etcd_set_user_(self, config);
    leader_etcd_split_(self, config->endpoints ? config->endpoints : "http://127.0.0.1:2379");
    leader_etcd_copy_(self, self->ca_file, sizeof self->ca_file, config->ca_file, "ca_file");
    leader_etcd_copy_(self, self->cert_file, sizeof self->cert_file, config->cert_file, "cert_file");
    leader_etcd_copy_(self, self->key_file, sizeof self->key_file, config->key_file, "key_file");
    self->plain_http = config->plain_http;
    self->no_watch = config->no_watch;
    self->client = config->client ? config->client : &self->own;
    store.self = self;
    store.read = leader_etcd_get_;
    store.write = leader_etcd_put_;
    store.notice = leader_etcd_notice_;
    store.cancel = leader_etcd_cancel_;
    store.open = leader_etcd_open_;
    store.close = leader_etcd_close_;
    store.name = self->key;
    return leader_register_backend(&self->engine, &store);
}

static const char *leader_etcd_env_(const char *name) {
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

LEADER_API leader_result leader_etcd_config_from_env(leader_etcd_config *config) {
    config->endpoints = leader_etcd_env_("ETCDCTL_ENDPOINTS");
    config->user = leader_etcd_env_("ETCDCTL_USER");
    config->password = leader_etcd_env_("ETCDCTL_PASSWORD");
    config->ca_file = leader_etcd_env_("ETCDCTL_CACERT");
    config->cert_file = leader_etcd_env_("ETCDCTL_CERT");
    config->key_file = leader_etcd_env_("ETCDCTL_KEY");
    return config->endpoints ? LEADER_OK : LEADER_E_CONFIG;
}

#ifdef __cplusplus
}
#endif
#endif /* LEADER_ETCD_IMPLEMENTATION_DONE */

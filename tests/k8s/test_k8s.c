/* The Kubernetes backend: reading and splicing Leases, then elections on an API server. Sets:
     lease     the document alone, no server
     settings  what leader_init refuses, and what a pod's environment says
     live      elections on any API server: KUBE_URL, KUBE_TOKEN, KUBE_CA, KUBE_NAMESPACE name a real one
     threads   elections that other threads ask
     fault     elections on the test server, which misbehaves on demand */

#define LEADER_IMPLEMENTATION
#define LEADER_WITH_K8S
#define LEADER_K8S_SERVICE_ACCOUNT "build/k8s-account"     // a link, set by the tests
#include "leader.h"
#include "tests/tools/utest.h"
#include "tests/k8s/k8s_world.h"
#include "tests/tools/asked_from_threads.h"
#include <sys/stat.h>

UTEST_STATE();

/* ---- lease: the document ----------------------------------------------------------------------- */

static leader_k8s reader(void) {
    leader_k8s self;
    memset(&self, 0, sizeof self);
    snprintf(self.name, sizeof self.name, "demo");
    snprintf(self.name_space, sizeof self.name_space, "default");
    return self;
}

#define META "\"name\":\"demo\",\"namespace\":\"default\",\"uid\":\"u-1\",\"resourceVersion\":\"205\""
#define LEASE(meta, spec) "{\"kind\":\"Lease\",\"metadata\":{" META meta "},\"spec\":{" spec "}}"

static const char *read_text(const char *text, leader_k8s_lease_ *lease) {
    leader_k8s self = reader();
    return leader_k8s_read_(&self, text, strlen(text), lease);
}

#define NOTES(token)                                                                                         \
    ",\"annotations\":{\"leader-h/nonce\":\"0123456789abcdef 2026-11-16T01:28:19.182794Z\","                 \
    "\"leader-h/term\":\"17 2500 "                                                                           \
    "2026-11-16T01:28:19.182794Z\",\"leader-h/value\":\"host:80\",\"leader-h/heir\":\"b\","                  \
    "\"leader-h/token\":\"" token "\"}"

UTEST(lease, reads_the_fields) {
    leader_k8s_lease_ l;
    ASSERT_TRUE(
        read_text(
            LEASE(
                NOTES("204"),
                "\"holderIdentity\":\"a \\\"b\\\" \\u00e9\",\"leaseDurationSeconds\":15,"
                "\"renewTime\":\"2026-11-16T01:28:19.182794Z\",\"leaseTransitions\":3,\"acquireTime\":\"x\""),
            &l)
        == NULL);
    ASSERT_STREQ("a \"b\" \xc3\xa9", l.entry.holder);
    ASSERT_FALSE(l.entry.locked || l.token_bad || l.never_held);
    ASSERT_EQ(205u, l.entry.revision);
    ASSERT_STREQ("205", l.entry.version);
    ASSERT_EQ(204u, l.entry.token);
    ASSERT_TRUE(l.entry.nonce == UINT64_C(0x0123456789abcdef));
    ASSERT_EQ(17u, l.entry.seq);
    ASSERT_EQ(2500, l.entry.hold_off_ms);
    ASSERT_STREQ("host:80", l.entry.value);
    ASSERT_STREQ("b", l.entry.heir);
    ASSERT_EQ(3u, l.transitions);
    ASSERT_EQ(15000, l.entry.lease_ms);
    ASSERT_EQ(INT64_C(1794792499182794), l.entry.renewed_us);
    ASSERT_STREQ("u-1", l.uid);
}

/* A Go process keeps annotations and moves renewTime: nothing of them is its own, except that tokens go on
   rising. */
UTEST(lease, what_another_program_renewed_has_no_nonce) {
    leader_k8s_lease_ l;
    ASSERT_TRUE(
        read_text(LEASE(NOTES("204"),
                        "\"holderIdentity\":\"gopher\",\"renewTime\":\"2026-11-16T01:28:20.000000Z\""),
                  &l)
        == NULL);
    ASSERT_EQ(0u, l.entry.nonce);
    ASSERT_EQ(0u, l.entry.token);
    ASSERT_EQ(0u, l.entry.seq);
    ASSERT_EQ(0, l.entry.hold_off_ms);
    ASSERT_STREQ("", l.entry.value);
    ASSERT_STREQ("", l.entry.heir);
    ASSERT_EQ(204u, l.noted_token);
}

UTEST(lease, the_form_is_what_client_go_compares_and_the_nonce) {
    leader_k8s_lease_ l, other;
    static const char *const same[] = {
        LEASE(",\"labels\":{\"a\":\"b\"}", "\"holderIdentity\":\"x\",\"renewTime\":\"t\""),
        LEASE(",\"annotations\":{\"leader-h/value\":\"v\"}",
              "\"holderIdentity\":\"x\",\"renewTime\":\"t\",\"more\":1")};
    static const char *const differ[] = {
        LEASE("", "\"holderIdentity\":\"y\",\"renewTime\":\"t\""),
        LEASE("", "\"holderIdentity\":\"x\",\"renewTime\":\"u\""),
        LEASE("", "\"holderIdentity\":\"x\",\"renewTime\":\"t\",\"acquireTime\":\"t\""),
        LEASE("", "\"holderIdentity\":\"x\",\"renewTime\":\"t\",\"leaseTransitions\":1"),
        LEASE("", "\"holderIdentity\":\"x\",\"renewTime\":\"t\",\"leaseDurationSeconds\":1"),
        LEASE("", "\"holderIdentity\":\"t\",\"renewTime\":\"x\""),
        LEASE(",\"annotations\":{\"leader-h/nonce\":\"n\"}", "\"holderIdentity\":\"x\",\"renewTime\":\"t\"")};
    ASSERT_TRUE(read_text(LEASE("", "\"holderIdentity\":\"x\",\"renewTime\":\"t\""), &l) == NULL);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        ASSERT_TRUE(read_text(same[i], &other) == NULL);
        EXPECT_TRUE(l.entry.renewal == other.entry.renewal);
    }
    for (size_t i = 0; i < sizeof differ / sizeof differ[0]; i++) {
        ASSERT_TRUE(read_text(differ[i], &other) == NULL);
        EXPECT_TRUE_MSG(l.entry.renewal != other.entry.renewal, differ[i]);
    }
}

UTEST(lease, what_may_be_missing) {
    leader_k8s_lease_ l;
    ASSERT_TRUE(read_text("{\"kind\":\"Lease\",\"metadata\":{" META "}}", &l) == NULL);
    ASSERT_TRUE(l.entry.holder[0] == 0 && l.entry.nonce == 0 && l.entry.lease_ms == 0 && l.never_held);
    ASSERT_TRUE(
        read_text("{\"kind\":\"Lease\",\"metadata\":{" META ",\"annotations\":null},\"spec\":null}", &l)
        == NULL);
    ASSERT_STREQ("", l.entry.holder);
    ASSERT_TRUE(read_text(LEASE("", "\"holderIdentity\":null"), &l) == NULL);
    ASSERT_STREQ("", l.entry.holder);
    ASSERT_TRUE(read_text(LEASE("", "\"holderIdentity\":\"\""), &l) == NULL);
    ASSERT_STREQ("", l.entry.holder);
    ASSERT_TRUE(read_text(LEASE("", "\"holderIdentity\":\"x\",\"strategy\":\"OldestEmulationVersion\""), &l)
                == NULL);
    ASSERT_TRUE(l.entry.locked);
    ASSERT_TRUE(read_text(LEASE("", "\"holderIdentity\":\"x\",\"preferredHolder\":\"y\""), &l) == NULL);
    ASSERT_TRUE(l.entry.locked);
}

UTEST(lease, what_is_refused) {
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "null",
        "{\"kind\":\"Status\"}",
        "{\"kind\":\"Lease\"}",
        "{\"kind\":\"Lease\",\"metadata\":{\"name\":\"other\",\"namespace\":\"default\",\"uid\":\"u\","
        "\"resourceVersion\":\"1\"}}",
        "{\"kind\":\"Lease\",\"metadata\":{\"name\":\"demo\",\"namespace\":\"other\",\"uid\":\"u\","
        "\"resourceVersion\":\"1\"}}",
        "{\"kind\":\"Lease\",\"metadata\":{\"name\":\"demo\",\"namespace\":\"default\",\"resourceVersion\":"
        "\"1\"}}",
        "{\"kind\":\"Lease\",\"metadata\":{\"name\":\"demo\",\"namespace\":\"default\",\"uid\":\"u\"}}",
        "{\"kind\":\"Lease\",\"metadata\":{" META "},\"spec\":[]}",
        "{\"kind\":\"Lease\",\"metadata\":{" META ",\"annotations\":7}}",
        LEASE("", "\"holderIdentity\":7"),
        LEASE("", "\"leaseDurationSeconds\":1.5"),
        LEASE("", "\"leaseDurationSeconds\":-1"),
        LEASE("", "\"leaseDurationSeconds\":99999999999"),
        LEASE("", "\"renewTime\":7"),
        LEASE("", "\"leaseTransitions\":\"1\""),
        LEASE("", "\"holderIdentity\":\"x\",\"holderIdentity\":\"x\""),
        LEASE("", "\"holderIdentity\":\"x\",\"holderIdent\\u0069ty\":\"\""),
        LEASE("", "\"acquireTime\":null,\"acquireTime\":null"),
        LEASE("", "\"leaseTransitions\":1,\"leaseTransitions\":1"),
        LEASE(",\"annotations\":{\"leader-h/nonce\":\"a\",\"leader-h/nonce\":\"b\"}", ""),
        LEASE(",\"annotations\":{\"leader-h/token\":\"5\",\"leader-h/token\":\"6\"}", ""),
        LEASE(",\"annotations\":{},\"annotations\":{}", ""),
        "{\"kind\":\"Lease\",\"metadata\":{" META "},\"spec\":{\"holderIdentity\":\"x\"},\"spec\":{}}",
        "{\"kind\":\"Lease\",\"metadata\":{\"name\":\"demo\",\"namespace\":\"default\",\"uid\":\"u\","
        "\"resourceVersion\":\"opaque\"}}",
        "{\"kind\":\"Lease\",\"metadata\":{\"name\":\"demo\",\"namespace\":\"default\",\"uid\":\"u\","
        "\"resourceVersion\":\"0\"}}",
        LEASE("", "\"a\":1") "x",
        "{\"kind\":\"Lease\",\"metadata\":{" META "},\"spec\":{}",
    };
    leader_k8s_lease_ l;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT_TRUE_MSG(read_text(bad[i], &l) != NULL, bad[i]);
}

UTEST(lease, odd_tokens) {
    static const char *const bad[] = {
        "-1", "9007199254740991", "9007199254740992", "99999999999999999999999", "many", "", " 5"};
    leader_k8s_lease_ l;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "{\"kind\":\"Lease\",\"metadata\":{" META
                 ",\"annotations\":{\"leader-h/token\":\"%s\"}},\"spec\":{}}",
                 bad[i]);
        ASSERT_TRUE(read_text(text, &l) == NULL);
        EXPECT_TRUE_MSG(l.token_bad && l.entry.token == 0, bad[i]);
    }
    ASSERT_TRUE(read_text(LEASE(",\"annotations\":{\"leader-h/token\":\"9007199254740990\"}", ""), &l)
                == NULL);
    ASSERT_FALSE(l.token_bad);
}

UTEST(lease, a_name_too_long_is_held_by_nobody_we_know) {
    leader_k8s_lease_ l;
    char text[1024], name[LEADER_IDENTITY_MAX + 2];
    memset(name, 'n', sizeof name);
    name[LEADER_IDENTITY_MAX + 1] = 0;
    snprintf(text, sizeof text,
             "{\"kind\":\"Lease\",\"metadata\":{" META "},\"spec\":{\"holderIdentity\":\"%s\"}}", name);
    ASSERT_TRUE(read_text(text, &l) == NULL);
    ASSERT_STREQ("(a name of more than 255 bytes)", l.entry.holder);
    ASSERT_EQ(0u, l.entry.nonce);
}

UTEST(lease, times) {
    static const struct { const char *text; int64_t us; } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2000-02-29T12:00:00.5Z", INT64_C(951825600500000)},
        {"2026-11-16T01:28:19.182774Z", INT64_C(1794792499182774)},
        {"2026-01-02T03:04:05.123456+02:00", INT64_C(1767315845123456)},
        {"2026-01-02T03:04:05.123456789Z", INT64_C(1767323045123456)},
        {"2100-03-01T00:00:00Z", INT64_C(4107542400000000)},
        {"9999-12-31T23:59:59Z", INT64_C(253402300799000000)}};
    static const char *const bad[] = {"",
                                      "yesterday",
                                      "2026-11-16",
                                      "2026-13-16T01:28:19Z",
                                      "2026-11-16T24:28:19Z",
                                      "2026-11-16T01:28:19",
                                      "2026-11-16T01:28:19.Zx",
                                      "2026-11-16T01:28:19+2",
                                      "2026-11-16 01:28:19Z",
                                      "1969-11-16T01:28:19Z"};
    int64_t us;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        EXPECT_TRUE(leader_time_parse_(good[i].text, &us));
        EXPECT_EQ(good[i].us, us);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT_FALSE_MSG(leader_time_parse_(bad[i], &us), bad[i]);
}

/* Every write differs for us. For client-go one differs in each second, and none is more than a second
   ahead. */
UTEST(lease, a_stamp_differs_and_stays_within_a_second_of_now) {
    enum { SECOND = 1000000 };
    static const int64_t gaps_us[] = {1, 1000, 200000, 333333, 999999, SECOND, 5 * SECOND};
    for (size_t i = 0; i < sizeof gaps_us / sizeof gaps_us[0]; i++) {
        int64_t start = INT64_C(1794792499182774), stored = start, changed = start;
        for (int n = 1; n < 2000; n++) {
            int64_t now = start + n * gaps_us[i];
            int64_t next = leader_k8s_next_us_(now, stored);
            ASSERT_NE(stored, next);
            ASSERT_GE(next, now);
            ASSERT_LE(next, now + SECOND + 2000);
            if (next / SECOND != stored / SECOND) changed = now;
            ASSERT_LT(now - changed, SECOND + 2000);            // a Go standby counts from there
            if (gaps_us[i] >= SECOND) ASSERT_EQ(now, changed);
            stored = next;
        }
    }
    // somebody else's clock is not followed
    ASSERT_EQ(500, leader_k8s_next_us_(500, 86400 * INT64_C(1000000)));
    ASSERT_EQ(INT64_C(86400000000), leader_k8s_next_us_(INT64_C(86400000000), 5));
}

/* The same document without our fields, written out afresh: what a splice must leave alone. */
static void plain(leader_json_ v, const char *path, char *out, size_t cap, size_t *len) {
    static const char *const ours[] = {"/spec/holderIdentity",
                                       "/spec/leaseDurationSeconds",
                                       "/spec/acquireTime",
                                       "/spec/renewTime",
                                       "/spec/leaseTransitions",
                                       "/metadata/annotations/leader-h/nonce",
                                       "/metadata/annotations/leader-h/token",
                                       "/metadata/annotations/leader-h/term",
                                       "/metadata/annotations/leader-h/value",
                                       "/metadata/annotations/leader-h/heir"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) if (strcmp(path, ours[i]) == 0) return;
    // as good as absent
    if (v.at[0] == 'n' && (strcmp(path, "/spec") == 0 || strcmp(path, "/metadata/annotations") == 0)) return;
    if (v.at[0] == '{') {
        const char *p = leader_json_space_(v.at + 1, v.at + v.len);
        while (*p != '}') {
            leader_json_ key = {p, 0}, value;
            char name[256], deeper[600];
            leader_json_skip_string_(&p, v.at + v.len);
            key.len = (size_t)(p - key.at);
            p = leader_json_space_(leader_json_space_(p, v.at + v.len) + 1, v.at + v.len);
            value.at = p;
            leader_json_skip_(&p, v.at + v.len, LEADER_JSON_DEPTH_);
            value.len = (size_t)(p - value.at);
            if (!leader_json_string_(key, name, sizeof name)) snprintf(name, sizeof name, "?");
            snprintf(deeper, sizeof deeper, "%s/%s", path, name);
            plain(value, deeper, out, cap, len);
            p = leader_json_space_(p, v.at + v.len);
            if (*p == ',') p = leader_json_space_(p + 1, v.at + v.len);
        }
    } else {
        int n = snprintf(out + *len, cap - *len, "%s=%.*s\n", path, (int)v.len, v.at);
        *len += (size_t)n < cap - *len ? (size_t)n : 0;
    }
}

static uint64_t dice_state = 88172645463325252u;
static unsigned dice(unsigned sides) {
    dice_state ^= dice_state << 13; dice_state ^= dice_state >> 7; dice_state ^= dice_state << 17;
    return (unsigned)(leader_mix_(dice_state) % sides);
}

static void random_value(char *out, size_t cap, int depth) {
    static const char *const simple[] = {"7",
                                         "-1.5e3",
                                         "true",
                                         "null",
                                         "\"x\"",
                                         "\"\\\"}]{[,:\\\\\"",
                                         "\"\\u00e9\\n\xc3\xa9\"",
                                         "[]",
                                         "{}",
                                         "[1, {\"a\":[\"}\"]} ]"};
    static const char *const names[] = {
        "a", "spec", "holderIdentity", "f:spec", "leader-h/nonce", "\\u0061b", "annotations", "x y"};
    size_t len = 0;
    if (depth <= 0 || dice(3) == 0) { snprintf(out, cap, "%s", simple[dice(10)]); return; }
    len += (size_t)snprintf(out, cap, dice(2) ? "{" : "{ \n");
    for (unsigned i = 0, n = dice(3) + 1; i < n; i++) {
        char inner[1024];
        random_value(inner, sizeof inner, depth - 1);
        len += (size_t)snprintf(out + len, cap - len, "%s\"%s%u\"%s:%s%s", i ? "," : "", names[dice(8)], i,
                                dice(2) ? " " : "", inner, dice(2) ? " " : "");
    }
    snprintf(out + len, cap - len, "}");
}

UTEST(lease, a_splice_changes_nothing_else) {
    static const char *const identities[] = {
        "node", "a \"quote\"", "back\\slash", "\x01\n\t", "\xc3\xa9\xf0\x9f\x98\x80", "</script>&"};
    for (int round = 0; round < 300; round++) {
        char text[8192], extra[4][1024], before[16384], after[16384];
        size_t n_before = 0, n_after = 0, bad;
        leader_k8s self = reader();
        leader_k8s_lease_ l;
        leader_json_ root;
        static const char *const notes[] = {
            "", ",\"annotations\":null", ",\"annotations\": {}",
            ",\"annotations\":{ \"leader-h/nonce\" : \"old\", \"keep\":\"\\\"me\\\" \\u00e9\" }"};
        static const char *const specs[] = {"", ", \"spec\" :null", ",\"spec\":{ }"};
        const char *gap = dice(2) ? "" : " ";
        char spec[2300];
        for (int i = 0; i < 4; i++) random_value(extra[i], sizeof extra[i], 2);
        snprintf(spec, sizeof spec,
                 ",\"spec\":{%s\"unknown\":%s,\"holderIdentity\" : "
                 "\"old\",\"renewTime\":\"2026-11-16T01:28:19.182794Z\",%s\"more\":%s}",
                 gap, extra[2], gap, extra[3]);
        snprintf(text, sizeof text,
                 "{%s\"extra\":%s,\"kind\":\"Lease\",%s\"metadata\":{\"labels\":%s%s,%s%s}%s%s}", gap,
                 extra[0], gap, extra[1], gap, META, notes[dice(4)], dice(3) ? spec : specs[dice(3)], gap);
        ASSERT_TRUE_MSG(leader_k8s_read_(&self, text, strlen(text), &l) == NULL, text);
        leader_entry *next = &self.sent;
        bool begins = dice(2) == 0, release = !begins && dice(2) == 0;
        snprintf(next->holder, sizeof next->holder, "%s", release ? "" : identities[dice(6)]);
        snprintf(next->value, sizeof next->value, "%s", dice(2) ? "" : "https://host:80/\"\n");
        snprintf(next->heir, sizeof next->heir, "%s", dice(4) ? "" : identities[dice(6)]);
        next->nonce = 0xabcdef;
        next->seq = dice(1000);
        next->hold_off_ms = dice(2) ? 0 : (int64_t)dice(20000);
        next->lease_ms = 1 + (int64_t)dice(20000);
        next->token = 77;
        leader_entry sent = *next;
        leader_http_copy_(&self.doc, text, strlen(text));
        ASSERT_TRUE(leader_json_parse_(text, strlen(text), &root, &bad));
        plain(root, "", before, sizeof before, &n_before);
        self.lease = l;
        ASSERT_TRUE(leader_k8s_compose_(&self, begins));
        ASSERT_TRUE_MSG(leader_json_parse_(self.body.at, self.body.len, &root, &bad), self.body.at);
        plain(root, "", after, sizeof after, &n_after);
        ASSERT_EQ(n_before, n_after);
        ASSERT_EQ(0, memcmp(before, after, n_before));
        ASSERT_TRUE(leader_k8s_read_(&self, self.body.at, self.body.len, &l) == NULL);
        ASSERT_TRUE(leader_k8s_is_as_sent_(&self, &l));
        ASSERT_STREQ(sent.holder, l.entry.holder);
        ASSERT_STREQ(sent.value, l.entry.value);
        ASSERT_STREQ(sent.heir, l.entry.heir);
        ASSERT_EQ(release ? 1000 : (sent.lease_ms + 999) / 1000 * 1000, l.entry.lease_ms);
        ASSERT_TRUE(l.entry.token == 77 && l.entry.nonce == sent.nonce && l.entry.seq == sent.seq
                    && l.entry.hold_off_ms == sent.hold_off_ms);
        leader_http_free_(&self.doc);
        leader_http_free_(&self.body);
    }
}

/* Nothing that a server sends may do more than be refused: bytes changed, cut and repeated; run this under
   the sanitizers. */
UTEST(lease, bytes_of_any_kind) {
    static const char good[] =
        LEASE(NOTES("204"), "\"holderIdentity\":\"a\\\\\\u00e9\",\"leaseDurationSeconds\":15,\"renewTime\":"
                            "\"2026-11-16T01:28:19.182794Z\",\"leaseTransitions\":3,\"x\":[{}]");
    static const char bytes[] = "{}[]\",:\\0123456789eE+-.untfrl/ \n\t\x01\x7f\x80\xc3\xff";
    int read_well = 0;
    for (int round = 0; round < 2000; round++) {      // make fuzz has more of it
        leader_k8s self = reader();
        leader_k8s_lease_ l;
        size_t len = sizeof good - 1;
        char *text = (char *)malloc(len);  // exactly as long as the text: reading past it is seen
        ASSERT_TRUE(text != NULL);
        memcpy(text, good, len);
        for (unsigned i = 0, n = 1 + dice(3); i < n; i++)
            text[dice((unsigned)len)] = dice(4) ? bytes[dice(sizeof bytes - 1)] : (char)dice(256);
        if (dice(4) == 0) len = dice((unsigned)len + 1);
        if (!leader_k8s_read_(&self, text, len, &l)) {
            read_well++;
            snprintf(self.sent.holder, sizeof self.sent.holder, "me");
            self.sent.lease_ms = 15000;
            self.sent.nonce = 1;
            self.lease = l;
            leader_http_copy_(&self.doc, text, len);
            leader_k8s_trim_(&self.doc);
            if (leader_k8s_compose_(&self, true))
                EXPECT_TRUE(leader_k8s_read_(&self, self.body.at, self.body.len, &l) == NULL);
            leader_http_free_(&self.doc);
            leader_http_free_(&self.body);
        }
        free(text);
    }
    ASSERT_GT(read_well, 100);
}

/* ---- settings ---------------------------------------------------------------------------------- */

static const char *refusal(candidate *c) {
    static char text[300];
    text[0] = 0;
    if (candidate_open(c)) candidate_close(c, true);
    else snprintf(text, sizeof text, "%s", leader_error(&c->me));
    return text;
}

#define REFUSED(field, change)                                                                               \
    do {                                                                                                     \
        candidate_make(&c, "demo", "me");                                                                    \
        c.where.server = "https://127.0.0.1:1";                                                              \
        c.where.token = "t";                                                                                 \
        c.where.ca_file = NULL;                                                                              \
        c.where.lease_namespace = "default";                                                                 \
        change;                                                                                              \
        EXPECT_START(field, refusal(&c));                                                                    \
    } while (0)
#define EXPECT_START(start, text)                                                                            \
    do {                                                                                                     \
        const char *said_ = (text);                                                                          \
        EXPECT_TRUE_MSG(strncmp(start, said_, strlen(start)) == 0 && (start[0] || !said_[0]), said_);        \
    } while (0)

static char long_text[9000];

UTEST(settings, each_mistake_is_named) {
    candidate c;
    memset(long_text, 'a', sizeof long_text - 1);
    REFUSED("", (void)0);
    REFUSED("server", c.where.server = NULL);
    REFUSED("token", c.where.server = "http://127.0.0.1:1");
    REFUSED("", (c.where.server = "http://127.0.0.1:8001", c.where.token = NULL));       // kubectl proxy
    REFUSED("", (c.where.server = "http://[::1]:8001/", c.where.token = NULL));
    REFUSED("", (c.where.server = "http://localhost:8001", c.where.token = NULL));
    REFUSED("server", (c.where.server = "http://10.0.0.1:8001", c.where.token = NULL));
    REFUSED("server", (c.where.server = "http://127.0.0.1.example.com", c.where.token = NULL));
    REFUSED("server", (c.where.server = "http://localhost.example.com", c.where.token = NULL));
    REFUSED("server", (c.where.server = "http:///127.0.0.1", c.where.token = NULL));
    REFUSED("server", (c.where.server = "ftp://127.0.0.1", c.where.token = NULL));
    REFUSED("server", c.where.server = "127.0.0.1");
    REFUSED("server", c.where.server = "https://");
    REFUSED("server", c.where.server = "https://user:pw@host");
    REFUSED("server", c.where.server = "https://host/?a=b");
    REFUSED("server", c.where.server = "https://host/#x");
    REFUSED("server", c.where.server = "https://host#");
    REFUSED("server", c.where.server = "https://@host");
    REFUSED("server", c.where.server = "https:///host");
    REFUSED("server", c.where.server = "https://host:99999");
    REFUSED("server", c.where.server = long_text);
    REFUSED("", c.where.server = "https://[::1]:6443/k8s/clusters/c-1/");
    REFUSED("lease_name", c.where.lease_name = NULL);
    REFUSED("lease_name", c.where.lease_name = "Not_Valid");
    REFUSED("lease_name", c.where.lease_name = "-a");
    REFUSED("lease_name", c.where.lease_name = "a-");
    REFUSED("lease_name", c.where.lease_name = "a..b");
    REFUSED("lease_name", c.where.lease_name = "a.-b");
    REFUSED("lease_name", c.where.lease_name = ".a");
    REFUSED("lease_name", c.where.lease_name = "a.");
    REFUSED("lease_name", c.where.lease_name = "a/b");
    REFUSED("lease_name", c.where.lease_name = long_text);
    REFUSED("", c.where.lease_name = "a-1.b.0");
    REFUSED("lease_namespace", c.where.lease_namespace = NULL);
    REFUSED("lease_namespace", c.where.lease_namespace = "a.b");
    REFUSED("lease_namespace", c.where.lease_namespace = "a?b");
    REFUSED("lease_namespace", c.where.lease_namespace = long_text);
    REFUSED("token", c.where.token = "two\r\nlines");
    REFUSED("token", c.where.token = long_text);
    REFUSED("token, token_file", c.where.token_file = "x");
    REFUSED("token_file", (c.where.token = NULL, c.where.token_file = long_text));
    REFUSED("cert_file, key_file", c.where.cert_file = "x");
    REFUSED("ca_file", c.where.ca_file = long_text);
}

UTEST(settings, leadership_ends_before_a_client_go_standby_may_start) {
    candidate c;
    REFUSED("", c.cfg.lease_ms = 15000);
    REFUSED("", (c.cfg.lease_ms = 15000, c.cfg.renew_deadline_ms = 13250));
    REFUSED("renew_deadline_ms (13251) must be at most 13250",
            (c.cfg.lease_ms = 15000, c.cfg.renew_deadline_ms = 13251));
    REFUSED("renew_deadline_ms", c.cfg.lease_ms = 2000);
    REFUSED("", (c.cfg.lease_ms = 2000, c.cfg.renew_deadline_ms = 900));
    REFUSED("renew_deadline_ms", c.cfg.lease_ms = 900);
    REFUSED("", (c.cfg.lease_ms = 900, c.where.leader_h_only = true));
}

UTEST(settings, of_a_pod) {
    leader_k8s_config k;
    char name[300];
    unlink("build/k8s-account");
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("POD_NAMESPACE");
    unsetenv("KUBECONFIG");
    setenv("HOME", "/nonexistent", 1);
    ASSERT_EQ(LEADER_E_CONFIG, leader_k8s_config_from_env(&k, "demo"));
    candidate c;
    candidate_make(&c, "demo", "me");
    c.where = k;
    EXPECT_START("server: required", refusal(&c));

    setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "6443", 1);
    ASSERT_EQ(LEADER_OK, leader_k8s_config_from_env(&k, "demo"));
    ASSERT_STREQ("https://10.96.0.1:6443", k.env_server);
    ASSERT_STREQ("build/k8s-account", k.env_account);
    ASSERT_STREQ("default", k.env_namespace);
    leader_k8s store;
    leader_k8s_backend(&store, &k);
    ASSERT_STREQ("build/k8s-account/token", store.token_file);
    ASSERT_STREQ("build/k8s-account/ca.crt", store.ca_file);
    setenv("LEADER_K8S_SERVICE_ACCOUNT", "/elsewhere/account", 1);
    ASSERT_EQ(LEADER_OK, leader_k8s_config_from_env(&k, "demo"));
    leader_k8s_backend(&store, &k);
    ASSERT_STREQ("/elsewhere/account/token", store.token_file);
    k.token = "mine";                                              // what the caller sets wins
    k.ca_file = "mine.crt";
    leader_k8s_backend(&store, &k);
    ASSERT_STREQ("", store.token_file);
    ASSERT_STREQ("mine.crt", store.ca_file);
    unsetenv("LEADER_K8S_SERVICE_ACCOUNT");
    setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
    unsetenv("KUBERNETES_SERVICE_PORT");
    ASSERT_EQ(LEADER_OK, leader_k8s_config_from_env(&k, "demo"));
    ASSERT_STREQ("https://[fd00::1]:443", k.env_server);
    memset(long_text, 'a', sizeof long_text - 1);
    setenv("KUBERNETES_SERVICE_HOST", long_text, 1);
    ASSERT_EQ(LEADER_E_CONFIG, leader_k8s_config_from_env(&k, "demo"));
    setenv("POD_NAMESPACE", "payments", 1);
    leader_k8s_config_from_env(&k, "demo");
    ASSERT_STREQ("payments", k.env_namespace);
    unsetenv("POD_NAMESPACE");
    unsetenv("KUBERNETES_SERVICE_HOST");

    setenv("POD_NAME", "web-0", 1);
    ASSERT_STREQ("web-0", leader_k8s_identity(name, sizeof name));
    unsetenv("POD_NAME");
    char other[300];
    ASSERT_STRNE(leader_k8s_identity(name, sizeof name), leader_k8s_identity(other, sizeof other));
}

/* ---- elections --------------------------------------------------------------------------------- */

static char lease_name[128];
static int lease_number;

static void tidy(int *utest_result) {
    for (int i = 0; i < CANDIDATES_MAX; i++) if (candidates[i]) candidate_close(candidates[i], true);
    lease_delete(lease_name);
    EXPECT_EQ(0, two_leaders);
    EXPECT_EQ(0u, token_order_bad);
}

static void start_afresh(void) {
    if (!W.live) control("POST", "/reset", "{}");
    snprintf(lease_name, sizeof lease_name, "%s-%d", W.prefix, lease_number++);
    two_leaders = 0;
    token_order_bad = token_top = 0;
    tokens_compared = false;
    skipped_ms = 0;
}

struct live { candidate a, b, c; };
UTEST_F_SETUP(live) {
    start_afresh();
    candidate_make(&utest_fixture->a, lease_name, "node-a");
    candidate_make(&utest_fixture->b, lease_name, "node-b");
    candidate_make(&utest_fixture->c, lease_name, "node-c");
    ASSERT_TRUE(true);
}
UTEST_F_TEARDOWN(live) { tidy(utest_result); (void)utest_fixture; }

#define ABC                                                                                                  \
    candidate *a = &utest_fixture->a, *b = &utest_fixture->b, *c = &utest_fixture->c;                        \
    (void)a;                                                                                                 \
    (void)b;                                                                                                 \
    (void)c
#define OPEN(x) ASSERT_TRUE_MSG(candidate_open(x), leader_error(&(x)->me))
#define WAIT(condition) do { UNTIL(condition); ASSERT_TRUE(condition); } while (0)
#define WAIT_PASSING(condition)                                                                              \
    do {                                                                                                     \
        for (int i_ = 0; i_ < 1000 && !(condition); i_++) {                                                  \
            settle();                                                                                        \
            skip_ms(100);                                                                                    \
            pump_for(2);                                                                                     \
        }                                                                                                    \
        ASSERT_TRUE(condition);                                                                              \
    } while (0)
#define STORED(path, text) EXPECT_STREQ(text, stored(lease_name, path))

#define HELD_BY_X(seconds)                                                                                   \
    "\"holderIdentity\":\"node-x\",\"leaseDurationSeconds\":" #seconds                                       \
    ",\"renewTime\":\"2026-11-16T01:28:19.182794Z\","                                                        \
    "\"acquireTime\":\"2026-11-16T01:28:19.182794Z\",\"leaseTransitions\":0"

/* Its holder believed in it for 40 s: a hold-off by our own 15 s would end too early. */
static bool saw(const candidate *x, const char *holder) {
    char who[300];
    leader_get_leader(&x->me, who, sizeof who);
    return strcmp(who, holder) == 0;
}
static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

UTEST_F(live, acquires_and_writes_what_client_go_reads) {
    ABC;
    int64_t us;
    OPEN(a);
    WAIT(leads(a));
    STORED("spec/holderIdentity", "node-a");
    STORED("spec/leaseDurationSeconds", "15");
    STORED("spec/leaseTransitions", "0");
    EXPECT_EQ(27u, strlen(stored(lease_name, "spec/renewTime")));
    EXPECT_TRUE(leader_time_parse_(stored(lease_name, "spec/renewTime"), &us));
    EXPECT_STREQ(stored(lease_name, "spec/acquireTime"), stored(lease_name, "spec/renewTime"));
    char token[32];
    snprintf(token, sizeof token, "%llu", (unsigned long long)leader_token(&a->me));
    STORED("metadata/annotations/leader-h|token", token);
    EXPECT_GE(strtoull(stored(lease_name, "metadata/resourceVersion"), NULL, 10), leader_token(&a->me));
}

UTEST_F(live, a_held_lease_keeps_others_out_and_renewal_extends_it) {
    ABC;
    char renewed[64];
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(saw(b, "node-a"));
    EXPECT_EQ(leader_token(&a->me), leader_get_view(&b->me).token);
    snprintf(renewed, sizeof renewed, "%s", stored(lease_name, "spec/renewTime"));
    uint64_t token = leader_token(&a->me);
    for (int i = 0; i < 12; i++) {
        pass_ms(2500);                                             // two leases in all
        ASSERT_TRUE(leads(a));
        ASSERT_FALSE(leads(b));
    }
    EXPECT_EQ(token, leader_token(&a->me));
    EXPECT_STRNE(renewed, stored(lease_name, "spec/renewTime"));
    STORED("spec/leaseTransitions", "0");
    EXPECT_EQ(1, a->started);
    EXPECT_EQ(0, b->started);
}

UTEST_F(live, a_dead_holder_is_followed_when_its_record_has_run_out) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(saw(b, "node-a"));
    uint64_t token = a->token;
    candidate_close(a, true);
    settle();
    int64_t seen_ms = b->store.engine.seen_ms;
    pass_ms(14000);
    WAIT_PASSING(leads(b));
    EXPECT_GT(b->started_ms, seen_ms + 15000);
    EXPECT_GT(b->token, token);
    STORED("spec/holderIdentity", "node-b");
    STORED("spec/leaseTransitions", "1");
}

UTEST_F(live, a_release_hands_over) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(saw(b, "node-a"));
    leader_stop(&a->me);
    WAIT(leader_is_stopped(&a->me) && leads(b));
    EXPECT_EQ(LEADER_OK, a->why);
    EXPECT_GT(b->token, a->token);
    STORED("spec/leaseTransitions", "1");
    leader_stop(&b->me);
    WAIT(leader_is_stopped(&b->me));
    STORED("spec/holderIdentity", "");
    STORED("spec/leaseDurationSeconds", "1");
    STORED("spec/leaseTransitions", "1");
    char token[32];
    snprintf(token, sizeof token, "%llu", (unsigned long long)b->token);
    STORED("metadata/annotations/leader-h|token", token);          // for those who come later
    EXPECT_EQ(0, two_leaders);
}

UTEST_F(live, resigning_lets_another_lead) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(saw(b, "node-a"));
    leader_resign(&a->me, 0);
    WAIT(leads(b));
    EXPECT_FALSE(leads(a));
    EXPECT_GT(b->token, a->token);
}

UTEST_F(live, twenty_candidates_create_it_at_once) {
    static candidate crowd[20];
    char name[32];
    int leaders = 0;
    (void)utest_fixture;
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "crowd-%d", i);
        candidate_make(&crowd[i], lease_name, name);
        crowd[i].where.no_watch = true;
        OPEN(&crowd[i]);
    }
    for (int64_t end = real_us() + (int64_t)LIMIT_MS * 1000; real_us() < end;) {
        int asked = 0;
        pump();
        leaders = 0;
        for (int i = 0; i < 20; i++) {
            leaders += leads(&crowd[i]);
            asked += leader_get_view(&crowd[i].me).age_ms >= 0;
        }
        if (leaders == 1 && asked == 20) break;
    }
    EXPECT_EQ(1, leaders);
    settle();
    leaders = 0;
    for (int i = 0; i < 20; i++) leaders += crowd[i].started;
    EXPECT_EQ(1, leaders);
}

UTEST_F(live, keeps_everything_that_is_not_its_own) {
    ABC;
    char uid[64];
    OPEN(a);
    WAIT(leads(a));
    settle();
    ASSERT_TRUE(lease_patch(lease_name, "{\"metadata\":{\"labels\":{\"team\":\"payments\"},\"annotations\":{"
                                        "\"note\":\"keep \\\"me\\\" \\u00e9\\n<&>\"}}}"));
    snprintf(uid, sizeof uid, "%s", stored(lease_name, "metadata/uid"));
    for (int i = 0; i < 3; i++) {
        char renewed[64];
        snprintf(renewed, sizeof renewed, "%s", stored(lease_name, "spec/renewTime"));
        skip_ms(5100);
        WAIT(strcmp(renewed, stored(lease_name, "spec/renewTime")) != 0);
        settle();
    }
    EXPECT_TRUE(leads(a));
    EXPECT_EQ(1, a->started);
    STORED("metadata/labels/team", "payments");
    STORED("metadata/annotations/note", "keep \"me\" \xc3\xa9\n<&>");
    STORED("metadata/uid", uid);
    leader_stop(&a->me);
    WAIT(leader_is_stopped(&a->me));
    STORED("metadata/labels/team", "payments");
}

UTEST_F(live, identities_of_any_kind) {
    static const char *const names[] = {"a \"quoted\" one",      "back\\slash",
                                        "tab\tline\nbell\x07",   "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                                        "<a href='x'>&amp;</a>", "%s%n{}"};
    ABC;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        candidate_make(a, lease_name, names[i]);
        OPEN(a);
        WAIT(leads(a));
        STORED("spec/holderIdentity", names[i]);
        settle();
        skip_ms(5100);
        pump();
        settle();
        EXPECT_TRUE(leads(a));
        EXPECT_EQ(1, a->started);
        leader_stop(&a->me);
        WAIT(leader_is_stopped(&a->me));
        STORED("spec/holderIdentity", "");
        candidate_close(a, false);
    }
}

UTEST_F(live, deleted_under_the_leader_is_not_a_release) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(saw(b, "node-a"));
    settle();
    uint64_t token = a->token;
    a->frozen = true;  // it cannot know: it goes on leading till its deadline
    ASSERT_TRUE(lease_delete(lease_name));
    WAIT(strcmp(stored(lease_name, "spec/holderIdentity"), "node-b") == 0);
    settle();
    ASSERT_TRUE(leads(a));
    EXPECT_FALSE(leads(b));                                        // holds the record, and holds off
    int64_t until_ms = b->store.engine.hold_until_ms;
    EXPECT_GE(until_ms, b->store.engine.seen_ms + 15000);
    WAIT_PASSING(leads(b));
    EXPECT_GT(b->started_ms, until_ms);
    EXPECT_FALSE(leads(a));                                        // by the clock alone
    EXPECT_GT(b->token, token);
    a->frozen = false;
    WAIT(a->stopped == 1);
}

UTEST_F(live, a_forgotten_holder_is_waited_for_by_the_longest_lease_seen) {
    ABC;
    ASSERT_TRUE(lease_create(lease_name, HELD_BY_X(40)));
    OPEN(b);
    WAIT(saw(b, "node-x"));
    settle();
    ASSERT_TRUE(lease_patch(
        lease_name, "{\"spec\":{\"leaseDurationSeconds\":5,\"renewTime\":\"2026-11-16T01:28:20.000000Z\"}}"));
    pass_ms(2100);
    settle();
    ASSERT_TRUE(lease_delete(lease_name));
    skip_ms(2100);
    WAIT(strcmp(stored(lease_name, "spec/holderIdentity"), "node-b") == 0);
    settle();
    int64_t taken_ms = world_clock_ms(NULL);
    WAIT_PASSING(leads(b));
    EXPECT_GT(b->started_ms, taken_ms + 39000);
}

/* The renewal finds nothing, then the attempt after it finds nothing: the second look forgets no more than
   the first. */
UTEST_F(live, absence_seen_twice_is_as_much_of_a_doubt) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    settle();
    uint64_t token = a->token;
    ASSERT_TRUE(lease_delete(lease_name));
    skip_ms(5100);
    WAIT(a->stopped == 1);
    WAIT(strcmp(stored(lease_name, "spec/holderIdentity"), "node-a") == 0);
    settle();
    int64_t taken_ms = world_clock_ms(NULL);
    EXPECT_FALSE(leads(a));
    WAIT_PASSING(leads(a));
    EXPECT_GT(a->started_ms, taken_ms + 14000);
    EXPECT_GT(a->token, token);
}

/* A doubt that is over says nothing about what happened since: between two looks at nothing, somebody came
   and was lost as well. */
static bool is_well;
static bool ask_well(void *user) { (void)user; return is_well; }
static void stop_and_ail(void *user, uint64_t token, leader_result why) {
    is_well = false;
    on_stopped(user, token, why);
}

UTEST_F(live, absence_seen_long_after_absence_is_a_doubt_again) {
    ABC;
    is_well = true;
    a->cfg.is_healthy = ask_well;
    a->cfg.on_stopped_leading = stop_and_ail;
    a->where.no_watch = true;
    OPEN(a);
    WAIT(leads(a));
    settle();
    ASSERT_TRUE(lease_delete(lease_name));
    skip_ms(5100);
    WAIT(a->stopped == 1);  // found nothing, and does not compete for now
    settle();
    a->frozen = true;
    skip_ms(20000);
    OPEN(b);                                                       // has seen nothing: leads at once
    WAIT(leads(b));
    settle();
    b->frozen = true;
    ASSERT_TRUE(lease_delete(lease_name));
    a->frozen = false;
    is_well = true;
    skip_ms(2100);
    WAIT(strcmp(stored(lease_name, "spec/holderIdentity"), "node-a") == 0);
    settle();
    EXPECT_TRUE(leads(b));
    EXPECT_FALSE(leads(a));
    WAIT_PASSING(leads(a));
    EXPECT_FALSE(leads(b));
}

/* The engine sees the Lease that was just created, not that it was missing: the record itself must say so. */
UTEST_F(live, a_cautious_start_holds_off_on_an_empty_store) {
    ABC;
    a->cfg.cautious_start = true;
    OPEN(a);
    WAIT(strcmp(stored(lease_name, "spec/holderIdentity"), "node-a") == 0);
    settle();
    int64_t taken_ms = world_clock_ms(NULL);
    EXPECT_FALSE(leads(a));
    EXPECT_TRUE(has(stored(lease_name, "metadata/annotations/leader-h|term"), " 15000 "));
    OPEN(b);                                                       // a newcomer waits as well
    WAIT_PASSING(leads(a));
    EXPECT_GT(a->started_ms, taken_ms + 14000);
    EXPECT_EQ(0, b->started);
    settle();
    skip_ms(5100);
    WAIT(has(stored(lease_name, "metadata/annotations/leader-h|term"), " 0 "));
}

UTEST_F(live, what_the_leader_says_of_itself_is_shown) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    settle();
    STORED("metadata/annotations/leader-h|value", "(none)");       // nothing to say: nothing written
    EXPECT_TRUE(strtoull(stored(lease_name, "metadata/annotations/leader-h|term"), NULL, 10) > 0);
}

UTEST_F(live, re_created_by_somebody_else_ends_the_term) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    settle();
    ASSERT_TRUE(lease_delete(lease_name));
    ASSERT_TRUE(lease_create(lease_name, HELD_BY_X(5)));
    skip_ms(5100);
    WAIT(a->stopped == 1);
    EXPECT_EQ(LEADER_LOST, a->why);
    WAIT(saw(a, "node-x"));
    uint64_t token = a->token;
    settle();
    skip_ms(5100);  // x has let it run out, but a holder was forgotten a moment ago
    WAIT(strcmp(stored(lease_name, "spec/holderIdentity"), "node-a") == 0);
    settle();
    EXPECT_FALSE(leads(a));
    leader_stop(&a->me);  // nor is it released now: others would lead at once
    WAIT(leader_is_stopped(&a->me));
    STORED("spec/holderIdentity", "node-a");
    candidate_close(a, true);
    OPEN(b);
    WAIT(saw(b, "node-a"));
    settle();
    skip_ms(15100);
    WAIT(leads(b));
    EXPECT_GT(b->token, token);
}

UTEST_F(live, a_doubt_lasts_one_lease_and_no_longer) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    settle();
    ASSERT_TRUE(lease_delete(lease_name));
    ASSERT_TRUE(lease_create(lease_name, HELD_BY_X(600)));
    skip_ms(5100);
    WAIT(saw(a, "node-x"));
    pass_ms(30000);
    EXPECT_EQ(1, a->started);
    ASSERT_TRUE(lease_patch(lease_name, "{\"spec\":{\"holderIdentity\":\"\",\"leaseDurationSeconds\":1}}"));
    skip_ms(2100);
    WAIT(leads(a));                                                // an explicit release, long after: at once
}

UTEST_F(live, a_blanked_lease_ends_the_term) {  // what client-go's release leaves
    ABC;
    OPEN(a);
    WAIT(leads(a));
    settle();
    ASSERT_TRUE(lease_patch(lease_name, "{\"spec\":{\"holderIdentity\":\"\",\"leaseDurationSeconds\":1}}"));
    skip_ms(5100);
    WAIT(a->stopped == 1);
    EXPECT_EQ(LEADER_LOST, a->why);
    WAIT(leads(a));                                                // free: taken again, as a new term
    EXPECT_EQ(2, a->started);
    STORED("spec/leaseTransitions", "1");
}

UTEST_F(live, an_hour_of_clock_skew_changes_nothing) {
    ABC;
    for (int ahead = 0; ahead < 2; ahead++) {
        int64_t us = leader_wall_us_() + (ahead ? 3600 : -3600) * INT64_C(1000000);
        char stamp[28], spec[300];
        leader_time_text_(stamp, us);
        snprintf(spec, sizeof spec,
                 "\"holderIdentity\":\"skewed\",\"leaseDurationSeconds\":15,\"acquireTime\":\"%s\","
                 "\"renewTime\":\"%s\",\"leaseTransitions\":4",
                 stamp, stamp);
        ASSERT_TRUE(lease_create(lease_name, spec));
        candidate_make(b, lease_name, "node-b");
        OPEN(b);
        WAIT(saw(b, "skewed"));
        settle();
        int64_t seen_ms = b->store.engine.seen_ms;
        WAIT_PASSING(leads(b));
        EXPECT_GT(b->started_ms, seen_ms + 15000);
        EXPECT_LT(b->started_ms, seen_ms + 20000);
        STORED("spec/leaseTransitions", "5");
        candidate_close(b, true);
        ASSERT_TRUE(lease_delete(lease_name));
    }
}

UTEST_F(live, the_record_s_own_duration_counts) {
    ABC;
    a->cfg.lease_ms = 40000;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);                                                       // 15 s itself
    WAIT(saw(b, "node-a"));
    candidate_close(a, true);
    settle();
    int64_t seen_ms = b->store.engine.seen_ms;
    WAIT_PASSING(leads(b));
    EXPECT_GT(b->started_ms, seen_ms + 40000);
    STORED("spec/leaseDurationSeconds", "15");
}

UTEST_F(live, parts_of_a_second_are_rounded_up_in_the_record) {
    ABC;
    a->cfg.lease_ms = 2500;
    a->cfg.renew_deadline_ms = 1850;
    OPEN(a);
    WAIT(leads(a));
    STORED("spec/leaseDurationSeconds", "3");
    a->frozen = true;
    skip_ms(1850);
    EXPECT_FALSE(leads(a));                                        // its own word is exact
}

UTEST_F(live, labels_that_change_all_the_time_do_not_keep_standbys_out) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(saw(b, "node-a"));
    candidate_close(a, true);
    settle();
    int64_t seen_ms = b->store.engine.seen_ms;
    for (int i = 0; i < 60 && !leads(b); i++) {                    // every 500 ms a new version of the object
        ASSERT_TRUE(lease_patch(lease_name, "{\"metadata\":{\"labels\":{\"churn\":\"%d\"}}}", i));
        skip_ms(500);
        pump_ms(20);
        settle();
    }
    ASSERT_TRUE(leads(b));
    EXPECT_GT(b->started_ms, seen_ms + 15000);
    EXPECT_TRUE(stored(lease_name, "metadata/labels/churn")[0] != '(');
}

UTEST_F(live, labels_that_change_do_not_end_a_term) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    for (int i = 0; i < 8; i++) {
        settle();
        ASSERT_TRUE(lease_patch(lease_name, "{\"metadata\":{\"labels\":{\"churn\":\"%d\"}}}", i));
        skip_ms(5100);
        pump();
        settle();
        ASSERT_TRUE(leads(a));
    }
    EXPECT_EQ(1, a->started);
    STORED("metadata/labels/churn", "7");
}

UTEST_F(live, a_restarted_pod_does_not_lead_beside_its_predecessor) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    settle();
    a->frozen = true;  // as if cut off: its work goes on till its deadline
    candidate_make(b, lease_name, "node-a");
    OPEN(b);
    WAIT(leader_get_view(&b->me).age_ms >= 0);
    settle();
    EXPECT_TRUE(leads(a));
    EXPECT_FALSE(leads(b));
    EXPECT_FALSE(has(b->log, "another process"));  // one look cannot tell a dead one from a double
    skip_ms(15200);
    WAIT(leads(b));
    EXPECT_FALSE(leads(a));
    a->frozen = false;
    WAIT(a->stopped == 1);
    WAIT(leader_get_stats(&a->me).failures_duplicate > 0);         // and now the first one sees a double
}

UTEST_F(live, a_double_is_reported) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    candidate_make(b, lease_name, "node-a");
    OPEN(b);
    for (int i = 0; i < 40 && leader_get_stats(&b->me).failures_duplicate == 0; i++) pass_ms(1000);
    EXPECT_GT(leader_get_stats(&b->me).failures_duplicate, 0u);
    EXPECT_TRUE(has(b->log, "another process uses our identity"));
    EXPECT_TRUE(leads(a));
    EXPECT_EQ(0, b->started);
}

UTEST_F(live, a_go_process_of_our_name_is_noticed) {  // client-go keeps annotations, so the nonce stays
    ABC;
    OPEN(a);
    WAIT(leads(a));
    settle();
    ASSERT_TRUE(lease_patch(lease_name, "{\"spec\":{\"renewTime\":\"2031-01-02T03:04:05.000000Z\"}}"));
    skip_ms(5100);
    WAIT(a->stopped == 1);
    EXPECT_EQ(LEADER_E_DUPLICATE, a->why);
}

UTEST_F(live, reclaim_identity_takes_it_back_at_once) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    settle();
    candidate_close(a, true);
    candidate_make(b, lease_name, "node-a");
    b->cfg.reclaim_identity = true;
    OPEN(b);
    WAIT(leads(b));
    EXPECT_GT(b->token, a->token);
    STORED("spec/leaseTransitions", "0");
}

UTEST_F(live, an_observer_sees_and_never_competes) {
    ABC;
    b->cfg.observe_only = true;
    OPEN(b);
    WAIT(leader_get_view(&b->me).age_ms >= 0);
    EXPECT_TRUE(saw(b, ""));
    OPEN(a);
    WAIT(leads(a) && saw(b, "node-a"));
    EXPECT_EQ(a->token, leader_get_view(&b->me).token);
    leader_stop(&a->me);
    WAIT(saw(b, ""));
    skip_ms(40000);
    pump_ms(100);
    STORED("spec/holderIdentity", "");
}

UTEST_F(live, a_new_term_after_the_deadline_was_missed) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    uint64_t token = a->token;
    settle();
    skip_ms(11000);                                                // past the deadline, within the record
    EXPECT_FALSE(leads(a));
    WAIT(leads(a));
    EXPECT_GT(a->token, token);
    EXPECT_EQ(2, a->started);
    EXPECT_EQ(1, a->stopped);
}

UTEST_F(live, tokens_rise_over_many_terms) {
    ABC;
    uint64_t last = 0;
    OPEN(a);
    OPEN(b);
    OPEN(c);
    for (int term = 0; term < 12; term++) {
        WAIT(leads(a) || leads(b) || leads(c));
        candidate *now = leads(a) ? a : leads(b) ? b : c;
        ASSERT_GT(now->token, last);
        last = now->token;
        leader_resign(&now->me, 1);
        WAIT(!leads(now) || now->token != last);
    }
}

UTEST_F(live, elections_share_connections) {
    static candidate many[12];
    static leader_k8s_client shared;
    char lease[12][160], name[32];
    (void)utest_fixture;
    memset(&shared, 0, sizeof shared);
    int before = W.live ? 0 : connections_made();
    for (int i = 0; i < 12; i++) {
        snprintf(lease[i], sizeof lease[i], "%s-share-%d", lease_name, i);
        snprintf(name, sizeof name, "member-%d", i);
        candidate_make(&many[i], lease[i], name);
        many[i].where.client = &shared;
        many[i].where.no_watch = true;  // without HTTP/2 each watch has a connection of its own
        OPEN(&many[i]);
        WAIT(leads(&many[i]));
    }
    if (!W.live) EXPECT_LE(connections_made() - before, 2);
    for (int i = 0; i < 12; i += 2) candidate_close(&many[i], false);      // in any order
    for (int round = 0; round < 3; round++) {
        settle();
        skip_ms(5100);
        pump();
        settle();
    }
    for (int i = 1; i < 12; i += 2) {
        EXPECT_TRUE(leads(&many[i]));
        EXPECT_EQ(1, many[i].started);
        candidate_close(&many[i], false);
    }
    EXPECT_TRUE(shared.members == NULL && shared.multi == NULL);
    for (int i = 0; i < 12; i++) lease_delete(lease[i]);
}

/* ---- client-go --------------------------------------------------------------------------------- */

/* tests/k8s/client_go.py does what client-go's elector does, word for word on the wire. It says "leading"
   and "stopped". */
typedef struct gopher { pid_t pid; int out; bool leading; int terms; } gopher;

static bool gopher_start(gopher *g, const char *identity, const char *lease_s, const char *deadline_s,
                         const char *retry_s) {
    int out[2];
    if (pipe(out) != 0) return false;
    memset(g, 0, sizeof *g);
    g->pid = fork();
    if (g->pid == 0) {
        dup2(out[1], 1);
        setenv("KUBE_TOKEN", W.live ? W.admin : W.elector, 1);
        for (int fd = 3; fd < 256; fd++) close(fd);
        execlp("python3", "python3", "tests/k8s/client_go.py", W.url, W.ca, W.space, lease_name, identity,
               lease_s, deadline_s, retry_s, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    g->out = out[0];
    return g->pid > 0;
}

static void gopher_hear(gopher *g) {
    char c;
    while (g->pid > 0 && read(g->out, &c, 1) == 1) {               // one letter each: L and S
        if (c == 'L') { g->leading = true; g->terms++; }
        if (c == 'S') g->leading = false;
    }
}

static void gopher_end(gopher *g, int how) {
    if (g->pid <= 0) return;
    kill(g->pid, how);
    waitpid(g->pid, NULL, 0);
    gopher_hear(g);
    close(g->out);
    g->leading = false;
    g->pid = 0;
}

static int both_lead;
static bool go_pump(candidate *a, candidate *b, gopher *g) {
    pump();
    gopher_hear(g);
    if (g->leading && (leads(a) || leads(b))) both_lead++;
    return true;
}
#define GO_WAIT(condition)                                                                                   \
    do {                                                                                                     \
        int64_t end_ = real_us() + 2 * (int64_t)LIMIT_MS * 1000;                                             \
        while (go_pump(a, b, &g) && !(condition) && real_us() < end_) {                                      \
        }                                                                                                    \
        ASSERT_TRUE(condition);                                                                              \
    } while (0)

static void short_lease(candidate *x) {
    x->cfg.lease_ms = 3000;
    x->cfg.renew_deadline_ms = 1850;
    x->cfg.renew_ms = 600;
}

UTEST_F(live, client_go_and_we_follow_each_other_s_release) {
    ABC;
    gopher g;
    both_lead = 0;
    short_lease(a);
    OPEN(a);
    WAIT(leads(a));
    ASSERT_TRUE(gopher_start(&g, "gopher", "3", "1.85", "0.5"));
    for (int64_t end = real_us() + 5000000; real_us() < end;) go_pump(a, b, &g);
    EXPECT_TRUE(leads(a) && !g.leading);                           // held: it waits, however often it looks
    leader_resign(&a->me, 10000);
    GO_WAIT(g.leading);
    GO_WAIT(saw(a, "gopher"));
    for (int64_t end = real_us() + 5000000; real_us() < end;) go_pump(a, b, &g);
    EXPECT_TRUE(g.leading && !leads(a));
    kill(g.pid, SIGTERM);                                          // it releases
    GO_WAIT(leads(a));
    EXPECT_EQ(0, both_lead);
    EXPECT_GE(atoi(stored(lease_name, "spec/leaseTransitions")), 2);
    gopher_end(&g, SIGKILL);
}

UTEST_F(live, client_go_and_we_follow_each_other_s_crash) {
    ABC;
    gopher g;
    both_lead = 0;
    ASSERT_TRUE(gopher_start(&g, "gopher", "3", "1.85", "0.5"));
    short_lease(a);
    short_lease(b);
    GO_WAIT(g.leading);
    OPEN(a);
    GO_WAIT(saw(a, "gopher"));
    gopher_end(&g, SIGKILL);
    GO_WAIT(leads(a));
    ASSERT_TRUE(gopher_start(&g, "gopher-2", "3", "1.85", "0.5"));
    for (int64_t end = real_us() + 4000000; real_us() < end;) go_pump(a, b, &g);
    EXPECT_TRUE(leads(a) && !g.leading);
    candidate_close(a, true);
    GO_WAIT(g.leading);
    STORED("spec/holderIdentity", "gopher-2");
    EXPECT_EQ(0, both_lead);
    gopher_end(&g, SIGKILL);
}

UTEST_F(live, a_stopped_leader_reads_false_before_client_go_starts) {
    ABC;
    gopher g;
    both_lead = 0;
    short_lease(a);
    OPEN(a);
    WAIT(leads(a));
    ASSERT_TRUE(gopher_start(&g, "gopher", "3", "1.85", "0.2"));
    for (int round = 0; round < 3; round++) {
        GO_WAIT(leads(a));
        a->frozen = true;  // no tick renews, none ends the term: the clock does
        GO_WAIT(g.leading);
        a->frozen = false;
        kill(g.pid, SIGSTOP);  // and the other way round; a stopped Go leader does believe on,
        g.leading = false;                                         // so it is not asked any more
        GO_WAIT(leads(a));
        gopher_end(&g, SIGKILL);
        ASSERT_TRUE(gopher_start(&g, "gopher", "3", "1.85", "0.2"));
    }
    EXPECT_EQ(0, both_lead);
    gopher_end(&g, SIGKILL);
}

/* ---- threads: elections that other threads ask ------------------------------------------------- */

UTEST(threads, ask_while_others_tick_resign_and_stop) {
    static leader_t me[2];
    static candidate c[2];
    for (int i = 0; i < 2; i++) {
        candidate_make(&c[i], "asked-from-threads", i ? "b" : "a");
        c[i].cfg.on_started_leading = NULL;      // those of the candidates count for all of them
        c[i].cfg.on_stopped_leading = NULL;
        c[i].cfg.on_log = NULL;
        c[i].cfg.retry_ms = 50;
        c[i].cfg.backend = leader_k8s_backend(&c[i].store, &c[i].where);
        ASSERT_EQ(LEADER_OK, leader_init(&me[i], &c[i].cfg));
    }
    asked_from_threads(utest_result, me);
    if (W.live) lease_delete("asked-from-threads");
}

/* ---- fault: a server that misbehaves ----------------------------------------------------------- */

struct fault { candidate a, b, c; };
UTEST_F_SETUP(fault) {
    start_afresh();
    candidate_make(&utest_fixture->a, lease_name, "node-a");
    candidate_make(&utest_fixture->b, lease_name, "node-b");
    candidate_make(&utest_fixture->c, lease_name, "node-c");
    ASSERT_TRUE(control("GET", "/faults", "%s", ""));
}
UTEST_F_TEARDOWN(fault) {
    control("DELETE", "/faults", "%s", "");
    control("POST", "/listen", "{\"mode\":\"open\"}");
    tidy(utest_result);
    (void)utest_fixture;
}

static leader_stats stats(const candidate *x) { return leader_get_stats(&x->me); }

UTEST_F(fault, each_status_has_its_result_and_the_server_s_words) {
    static const struct { int code; leader_result result; } cases[] = {
        {400, LEADER_E_CONFIG}, {403, LEADER_E_AUTH},   {422, LEADER_E_CONFIG},
        {429, LEADER_E_IO},     {500, LEADER_E_IO},     {502, LEADER_E_IO},
        {503, LEADER_E_IO},     {504, LEADER_E_IO},     {301, LEADER_E_CONFIG},
        {401, LEADER_E_AUTH},   {404, LEADER_E_CONFIG}, {418, LEADER_E_CONFIG}};
    ABC;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        candidate_make(a, lease_name, "node-a");
        ASSERT_TRUE(FAULT("{\"do\":\"status\",\"code\":%d,\"message\":\"the words of %d\",\"times\":0}",
                          cases[i].code, cases[i].code));
        OPEN(a);
        WAIT(stats(a).failures > 0);
        char words[64];
        snprintf(words, sizeof words, "%d%s: the words of %d", cases[i].code, cases[i].code == 403 ? ")" : "",
                 cases[i].code);
        EXPECT_EQ(cases[i].result, stats(a).last_error);
        if (cases[i].code != 301) EXPECT_TRUE_MSG(has(a->log, words), a->log);
        ASSERT_TRUE(control("DELETE", "/faults", "%s", ""));
        skip_ms(120000);                                           // slowly, but tried again
        WAIT(leads(a));
        candidate_close(a, false);
    }
}

UTEST_F(fault, a_404_that_is_not_about_the_lease_does_not_end_a_term) {
    ABC;
    a->where.no_watch = true;
    OPEN(a);
    WAIT(leads(a));
    settle();
    // so that the renewal needs a GET
    ASSERT_TRUE(lease_patch(lease_name, "{\"metadata\":{\"labels\":{\"x\":\"y\"}}}"));
    ASSERT_TRUE(FAULT("{\"do\":\"status\",\"code\":404,\"plain\":true,\"body\":\"404 page not "
                      "found\",\"match\":{\"verb\":\"get\"},\"times\":1}"));
    skip_ms(5100);
    WAIT(stats(a).failures > 0);
    EXPECT_TRUE(leads(a));
    WAIT(stats(a).renewals > 0);
    EXPECT_EQ(1, a->started);
}

UTEST_F(fault, a_namespace_that_does_not_exist) {
    ABC;
    a->where.token = W.admin;
    a->where.lease_namespace = "nosuch";
    OPEN(a);
    WAIT(stats(a).failures > 0);
    EXPECT_EQ(LEADER_E_CONFIG, stats(a).last_error);
    EXPECT_TRUE(has(a->log, "namespaces \"nosuch\" not found"));
}

UTEST_F(fault, retry_after_is_honoured) {
    ABC;
    a->where.no_watch = true;
    ASSERT_TRUE(FAULT("{\"do\":\"status\",\"code\":429,\"retry_after\":30,\"times\":1}"));
    OPEN(a);
    WAIT(stats(a).failures > 0);
    settle();
    skip_ms(29000);
    pump_ms(100);
    EXPECT_EQ(1, counted("", -1));
    skip_ms(10000);
    WAIT(leads(a));
    /* A leader asked to wait longer than its deadline tries before it. */
    ASSERT_TRUE(FAULT(
        "{\"do\":\"status\",\"code\":503,\"retry_after\":3600,\"match\":{\"verb\":\"update\"},\"times\":1}"));
    settle();
    skip_ms(5100);
    WAIT(stats(a).failures > 1);
    settle();
    pass_ms(4000);
    EXPECT_TRUE(leads(a));
    EXPECT_EQ(1, a->started);
}

UTEST_F(fault, a_rotated_token_is_read_again) {
    ABC;
    char file[600];
    snprintf(file, sizeof file, "%s/token", W.account);
    a->where.token = NULL;
    a->where.token_file = file;
    a->where.no_watch = true;
    OPEN(a);
    WAIT(leads(a));
    ASSERT_TRUE(control("POST", "/rotate", "{\"user\":\"elector\",\"file\":true}"));
    settle();
    skip_ms(5100);
    WAIT(stats(a).renewals > 0);                                   // 401, file, again: all in one renewal
    EXPECT_EQ(0u, stats(a).failures);
    EXPECT_EQ(1, counted("", 401));
    for (int i = 0; i < 14; i++) {
        settle();
        skip_ms(5000);
        pump();
    }
    settle();
    ASSERT_TRUE(leads(a));
    control("DELETE", "/requests", "%s", "");
    ASSERT_TRUE(control("POST", "/rotate", "{\"user\":\"elector\",\"file\":true}"));
    a->store.token_read_ms -= 60000;  // a minute later it is read without being told
    settle();
    skip_ms(5100);
    pump();
    settle();
    EXPECT_EQ(0, counted("", 401));
    EXPECT_TRUE(leads(a));
    EXPECT_FALSE(has(a->log, "token-"));
}

UTEST_F(fault, a_token_file_that_cannot_be_used) {
    static const struct {
        const char *text, *words;
    } cases[] = {{"", "is empty"},
                 {"two words", "something else"},
                 {"a\nb", "something else"},
                 {"caf\xc3\xa9", "something else"}};
    ABC;
    mkdir("build", 0777);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        FILE *f = fopen("build/k8s-token", "w");
        ASSERT_TRUE(f != NULL);
        fputs(cases[i].text, f);
        fclose(f);
        candidate_make(a, lease_name, "node-a");
        a->where.token = NULL;
        a->where.token_file = "build/k8s-token";
        OPEN(a);
        WAIT(stats(a).failures > 0);
        EXPECT_EQ(LEADER_E_AUTH, stats(a).last_error);
        EXPECT_TRUE_MSG(has(a->log, cases[i].words), a->log);
        candidate_close(a, true);
    }
    unlink("build/k8s-token");
    EXPECT_EQ(0, counted("", -1));                                 // nothing was sent without it
}

UTEST_F(fault, redirects_are_not_followed_and_the_token_stays_unsaid) {
    ABC;
    world elsewhere;
    memset(&elsewhere, 0, sizeof elsewhere);
    ASSERT_TRUE(FAULT("{\"do\":\"redirect\",\"location\":\"%s/apis/coordination.k8s.io/v1/namespaces/default/"
                      "leases/elsewhere\",\"times\":0}",
                      W.url));
    OPEN(a);
    WAIT(stats(a).failures > 0);
    EXPECT_EQ(LEADER_E_CONFIG, stats(a).last_error);
    EXPECT_TRUE(has(a->log, "redirect"));
    EXPECT_EQ(1, counted("", -1));
    EXPECT_FALSE(has(a->log, W.watcher));
    EXPECT_FALSE(has(leader_error(&a->me), W.watcher));
}

UTEST_F(fault, only_the_right_certificate_will_do) {
    ABC;
    a->where.ca_file = W.other_ca;
    OPEN(a);
    WAIT(stats(a).failures > 0);
    EXPECT_EQ(LEADER_E_AUTH, stats(a).last_error);
    candidate_close(a, true);
    candidate_make(a, lease_name, "node-a");
    a->where.ca_file = NULL;  // this machine's authorities do not know it
    OPEN(a);
    WAIT(stats(a).failures > 0);
    EXPECT_EQ(LEADER_E_AUTH, stats(a).last_error);
    candidate_close(a, true);
    candidate_make(a, lease_name, "node-a");
    a->where.ca_file = "/nonexistent/ca.crt";
    OPEN(a);
    WAIT(stats(a).failures > 0);
    EXPECT_EQ(LEADER_E_CONFIG, stats(a).last_error);
    EXPECT_EQ(0, counted("", -1));
}

static const char *const other_servers[][2] = {
    {"--cert-names", "DNS:evil.example"}, {"--expired", NULL}, {"--tls-max", "1.1"}};
UTEST_F(fault, another_name_an_old_date_or_an_old_tls_will_not) {
    ABC;
    for (size_t i = 0; i < sizeof other_servers / sizeof other_servers[0]; i++) {
        world odd;
        memset(&odd, 0, sizeof odd);
        ASSERT_TRUE(server_start(&odd, other_servers[i][0], other_servers[i][1]));
        candidate_make(a, lease_name, "node-a");
        a->where.server = odd.url;
        a->where.ca_file = odd.ca;
        OPEN(a);
        WAIT(stats(a).failures > 0);
        EXPECT_EQ(i == 2 ? LEADER_E_IO : LEADER_E_AUTH, stats(a).last_error);
        EXPECT_EQ(0, a->started);
        candidate_close(a, true);
        server_stop(&odd);
    }
}

UTEST_F(fault, a_client_certificate_instead_of_a_token) {
    ABC;
    a->where.token = NULL;
    a->where.cert_file = W.cert;
    a->where.key_file = W.key;
    OPEN(a);
    WAIT(leads(a));
    STORED("spec/holderIdentity", "node-a");
}

UTEST_F(fault, a_pod_finds_its_server_by_itself) {
    ABC;
    char port[16];
    OPEN(c);  // so that a Lease is there, held by another
    WAIT(leads(c));
    unlink("build/k8s-account");
    mkdir("build", 0777);
    ASSERT_EQ(0, symlink(W.account, "build/k8s-account"));
    snprintf(port, sizeof port, "%s", strrchr(W.url, ':') + 1);
    setenv("KUBERNETES_SERVICE_HOST", "::1", 1);
    setenv("KUBERNETES_SERVICE_PORT", port, 1);
    leader_k8s_config k;
    ASSERT_EQ(LEADER_OK, leader_k8s_config_from_env(&k, lease_name));
    ASSERT_STREQ("default", k.env_namespace);
    a->where = k;
    OPEN(a);
    WAIT(saw(a, "node-c"));
    unlink("build/k8s-account");
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
}

/* Rule: an unknown outcome is never success, and the next attempt finds out. */
UTEST_F(fault, an_answer_that_never_comes_is_found_out_about) {
    static const char *const verbs[] = {"create", "update"};
    ABC;
    for (int i = 0; i < 2; i++) {
        candidate_make(a, lease_name, "node-a");
        ASSERT_TRUE(FAULT("{\"do\":\"withhold\",\"match\":{\"verb\":\"%s\"},\"times\":1}", verbs[i]));
        OPEN(a);
        if (i == 0) WAIT(stored(lease_name, "metadata/uid")[0] != '(');  // created, empty, and nobody knows
        else WAIT(strcmp(stored(lease_name, "spec/holderIdentity"), "node-a") == 0);
        EXPECT_FALSE(leads(a));
        skip_ms(3000);                                             // the time-out
        WAIT(stats(a).failures_timeout == 1);
        EXPECT_EQ(0, a->started);
        skip_ms(4000);
        WAIT(leads(a));
        EXPECT_EQ(1, a->started);
        STORED("spec/leaseTransitions", "0");
        candidate_close(a, false);
        lease_delete(lease_name);
    }
}

UTEST_F(fault, a_renewal_whose_answer_is_lost_is_made_again) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    for (int kind = 0; kind < 3; kind++) {
        static const char *const faults[] = {"\"withhold\"", "\"reset\",\"execute\":true",
                                             "\"cut\",\"bytes\":20"};
        uint64_t renewals = stats(a).renewals;
        settle();
        ASSERT_TRUE(FAULT("{\"do\":%s,\"match\":{\"verb\":\"update\"},\"times\":1}", faults[kind]));
        skip_ms(5100);
        pump_ms(50);
        if (kind == 0) skip_ms(2600);  // libcurl itself repeats what a kept connection did not answer
        pump_ms(50);
        skip_ms(600);
        WAIT(stats(a).renewals > renewals);
        ASSERT_TRUE(leads(a));
    }
    EXPECT_EQ(1, a->started);
}

UTEST_F(fault, a_write_carried_out_after_its_sender_gave_up) {
    ABC;
    uint64_t first;
    OPEN(a);
    WAIT(leads(a));
    first = a->token;
    settle();
    // parked until /release
    ASSERT_TRUE(FAULT("{\"do\":\"late\",\"match\":{\"verb\":\"update\"},\"times\":1}"));
    leader_resign(&a->me, 1);                                      // the release is parked, and given up on
    pump_ms(100);
    for (int i = 0; i < 20 && !leads(a); i++) pass_ms(1500);       // it leads again, by a new term
    ASSERT_TRUE(leads(a));
    EXPECT_GT(a->token, first);
    settle();
    ASSERT_TRUE(control("POST", "/release", "{}"));                // only now is the old release carried out
    pump_ms(200);
    STORED("spec/holderIdentity", "node-a");
    skip_ms(5100);
    pump();
    settle();
    EXPECT_TRUE(leads(a));
    EXPECT_EQ(2, a->started);
}

UTEST_F(fault, answers_cut_at_every_place) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    settle();
    for (int bytes = 0; bytes < 900; bytes += bytes < 30 ? 3 : 47) {
        uint64_t renewals = stats(a).renewals;
        ASSERT_TRUE(
            FAULT("{\"do\":\"cut\",\"bytes\":%d,\"of\":\"%s\",\"match\":{\"verb\":\"update\"},\"times\":1}",
                  bytes, bytes & 1 ? "body" : "reply"));
        skip_ms(5100);
        for (int i = 0; i < 60 && stats(a).renewals == renewals; i++) { pump_ms(10); skip_ms(50); }
        ASSERT_GT(stats(a).renewals, renewals);
        ASSERT_TRUE(leads(a));
        settle();
    }
    EXPECT_EQ(1, a->started);
}

UTEST_F(fault, answers_that_are_no_answers) {
    static const char *const faults[] = {"\"garbage\"",
                                         "\"huge\"",
                                         "\"huge\",\"endless\":true",
                                         "\"body\",\"body\":\"\"",
                                         "\"body\",\"body\":\"{}\"",
                                         "\"body\",\"body\":\"[1,2\"",
                                         "\"body\",\"body\":\"{\\\"kind\\\":\\\"Lease\\\"}\"",
                                         "\"close\",\"execute\":true",
                                         "\"close\"",
                                         "\"reset\""};
    ABC;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        candidate_make(a, lease_name, "node-a");
        ASSERT_TRUE(FAULT("{\"do\":%s,\"match\":{\"verb\":\"update\"},\"times\":1}", faults[i]));
        OPEN(a);
        if (i < 7) {
            WAIT(stats(a).failures > 0);
            EXPECT_EQ(0, a->started);
            EXPECT_EQ_MSG(LEADER_E_CORRUPT, stats(a).last_error, a->log);
        }
        for (int k = 0; k < 100 && !leads(a); k++) { pump_ms(20); settle(); skip_ms(500); }
        EXPECT_TRUE(leads(a));
        candidate_close(a, false);
        lease_delete(lease_name);
    }
}

// a webhook that shortens every lease, say
UTEST_F(fault, a_store_that_keeps_something_else_is_not_believed) {
    ABC;
    char body[600];
    OPEN(c);
    WAIT(leads(c));
    leader_stop(&c->me);
    WAIT(leader_is_stopped(&c->me));
    snprintf(body, sizeof body,
             "{\\\"kind\\\":\\\"Lease\\\",\\\"metadata\\\":{\\\"name\\\":\\\"%s\\\",\\\"namespace\\\":"
             "\\\"default\\\",\\\"uid\\\":\\\"%s\\\",\\\"resourceVersion\\\":\\\"9999\\\"},"
             "\\\"spec\\\":{\\\"holderIdentity\\\":\\\"node-a\\\",\\\"leaseDurationSeconds\\\":2}}",
             lease_name, stored(lease_name, "metadata/uid"));
    ASSERT_TRUE(FAULT("{\"do\":\"body\",\"body\":\"%s\",\"match\":{\"verb\":\"update\"},\"times\":1}", body));
    OPEN(a);
    WAIT(stats(a).failures > 0);
    EXPECT_EQ(LEADER_E_CORRUPT, stats(a).last_error);
    EXPECT_TRUE(has(a->log, "is not what was sent"));
    EXPECT_EQ(0, a->started);
}

UTEST_F(fault, an_answer_about_another_object_is_not_believed) {
    ABC;
    OPEN(c);
    WAIT(leads(c));
    candidate_close(c, false);
    ASSERT_TRUE(FAULT("{\"do\":\"edit\",\"from\":\"%s\",\"to\":\"11111111-2222-3333-4444-555555555555\","
                      "\"match\":{\"verb\":\"update\"},\"times\":1}",
                      stored(lease_name, "metadata/uid")));
    OPEN(a);
    WAIT(stats(a).failures > 0);
    EXPECT_EQ(LEADER_E_CORRUPT, stats(a).last_error);
    EXPECT_TRUE(has(a->log, "is about another object"));
    EXPECT_EQ(0, a->started);
}

/* 422 or 403 of a webhook or a proxy, although the write was carried out: the next attempt looks first. */
UTEST_F(fault, a_refused_write_is_looked_into) {
    static const int codes[] = {422, 403, 400};
    ABC;
    a->where.no_watch = true;
    OPEN(a);
    WAIT(leads(a));
    for (int i = 0; i < 3; i++) {
        uint64_t renewals = stats(a).renewals;
        settle();
        control("DELETE", "/requests", "%s", "");
        ASSERT_TRUE(FAULT(
            "{\"do\":\"status\",\"code\":%d,\"execute\":true,\"match\":{\"verb\":\"update\"},\"times\":1}",
            codes[i]));
        skip_ms(5100);
        for (int k = 0; k < 60 && stats(a).renewals == renewals; k++) { pump_ms(5); settle(); skip_ms(100); }
        ASSERT_GT(stats(a).renewals, renewals);
        EXPECT_EQ(1, counted("get", 200));
        EXPECT_EQ(0, counted("update", 409));  // nothing was sent on top of what we knew before
    }
    EXPECT_EQ(1, a->started);
}

UTEST_F(fault, a_403_names_the_namespace_first) {
    ABC;
    a->where.token = W.nobody;
    OPEN(a);
    WAIT(stats(a).failures_auth > 0);
    const char *where = strstr(stats(a).last_error_text, "no right to get leases in namespace default (403)");
    EXPECT_TRUE_MSG(where != NULL, stats(a).last_error_text);
    EXPECT_TRUE_MSG(has(a->log, "User \"nobody\" cannot get resource"), a->log);
}

UTEST_F(fault, a_429_shows_its_reason_whatever_its_form) {
    ABC;
    ASSERT_TRUE(FAULT("{\"do\":\"status\",\"code\":429,\"retry_after\":2,\"plain\":true,\"body\":\"Too many "
                      "requests,\\nplease try again later.\\n\",\"times\":1}"));
    OPEN(a);
    WAIT(stats(a).failures > 0);
    EXPECT_TRUE_MSG(
        has(a->log, "GET was answered 429 (again in 2 s): Too many requests, please try again later."),
        a->log);
}

UTEST_F(fault, slow_answers_are_waited_for_without_blocking) {
    ABC;
    ASSERT_TRUE(FAULT("{\"do\":\"trickle\",\"ms\":2,\"bytes\":7,\"times\":0}"));
    OPEN(a);
    WAIT(leads(a));
    EXPECT_EQ(stats(a).failures_timeout, stats(a).failures);       // a busy machine may be slower still
    EXPECT_LT(a->slowest_tick_us, 500000);                         // an answer takes about a second
}

UTEST_F(fault, a_storm_of_conflicts) {
    ABC;
    ASSERT_TRUE(FAULT("{\"do\":\"status\",\"code\":409,\"match\":{\"verb\":\"update\"},\"times\":4}"));
    OPEN(a);
    WAIT(leads(a));                                                // within one attempt
    EXPECT_EQ(0u, stats(a).failures);
    ASSERT_TRUE(FAULT("{\"do\":\"status\",\"code\":409,\"match\":{\"verb\":\"update\"},\"times\":5}"));
    settle();
    skip_ms(5100);
    WAIT(stats(a).failures == 1);  // too many for one attempt: a pause, and again
    EXPECT_TRUE(leads(a));
    skip_ms(600);
    WAIT(stats(a).renewals == 1);
    EXPECT_EQ(1, a->started);
}

UTEST_F(fault, nobody_answers) {
    static const char *const modes[] = {"refuse", "blackhole"};
    ABC;
    for (int i = 0; i < 2; i++) {
        candidate_make(a, lease_name, "node-a");
        OPEN(a);
        WAIT(leads(a));
        settle();
        ASSERT_TRUE(control("POST", "/listen", "{\"mode\":\"%s\",\"drop\":true}", modes[i]));
        for (int k = 0; k < 60 && leads(a); k++) { pump_ms(20); skip_ms(250); }
        EXPECT_FALSE(leads(a));
        EXPECT_EQ(1, a->started);
        WAIT(a->stopped == 1);
        EXPECT_LT(a->slowest_tick_us, 300000);
        ASSERT_TRUE(control("POST", "/listen", "{\"mode\":\"open\"}"));
        for (int k = 0; k < 400 && !leads(a); k++) { pump_ms(10); skip_ms(250); }
        EXPECT_TRUE(leads(a));
        EXPECT_EQ(2, a->started);
        candidate_close(a, false);
    }
}

UTEST_F(fault, the_leader_is_cut_off_and_never_overlaps_its_successor) {
    ABC;
    candidate *hung = a;
    a->where.token = W.elector;                                    // so that only its requests hang
    a->where.no_watch = true;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(saw(b, "node-a"));
    settle();
    ASSERT_TRUE(FAULT("{\"do\":\"hang\",\"match\":{\"user\":\"elector\"},\"times\":0}"));
    int64_t end = real_us() + (int64_t)LIMIT_MS * 1000;
    while (!leads(b) && real_us() < end) { pump_ms(4); skip_ms(50); }
    EXPECT_TRUE(leads(b));
    EXPECT_FALSE(leads(hung));
    EXPECT_EQ(1, hung->stopped);
}

UTEST_F(fault, a_coordinated_lease_is_left_alone) {
    ABC;
    ASSERT_TRUE(lease_create(lease_name, "\"strategy\":\"OldestEmulationVersion\""));
    OPEN(a);
    WAIT(has(a->log, "left to its coordinator"));
    pass_ms(40000);
    EXPECT_EQ(0, a->started);
    EXPECT_EQ(0, counted("update", -1));
    ASSERT_TRUE(lease_patch(lease_name, "{\"spec\":{\"strategy\":null}}"));
    skip_ms(3000);
    WAIT(leads(a));
    settle();
    ASSERT_TRUE(lease_patch(
        lease_name, "{\"spec\":{\"preferredHolder\":\"node-z\",\"strategy\":\"OldestEmulationVersion\"}}"));
    skip_ms(5100);
    WAIT(a->stopped == 1);
    EXPECT_EQ(LEADER_LOST, a->why);
    STORED("spec/holderIdentity", "node-a");
}

UTEST_F(fault, unknown_fields_are_kept) {
    ABC;
    ASSERT_TRUE(control("POST", "/settings", "{\"keep_unknown\":true}"));
    ASSERT_TRUE(
        lease_create(lease_name, "\"futureField\":{\"a\":[1,2,{\"b\":null}]},\"leaseTransitions\":7"));
    ASSERT_TRUE(lease_patch(
        lease_name, "{\"metadata\":{\"finalizers\":[\"example.com/keep\"],\"futureMeta\":\"x\","
                    "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"x\","
                    "\"uid\":\"11111111-2222-3333-4444-555555555555\"}]},\"status\":{\"f\":1.50}}"));
    OPEN(a);
    WAIT(leads(a));
    STORED("spec/futureField", "{\"a\":[1,2,{\"b\":null}]}");
    STORED("metadata/futureMeta", "x");
    EXPECT_TRUE(has(stored(lease_name, "metadata/ownerReferences"), "11111111-2222-3333-4444-555555555555"));
    STORED("spec/leaseTransitions", "8");
    EXPECT_TRUE(has(stored(lease_name, "metadata/finalizers"), "example.com/keep"));
    ASSERT_TRUE(lease_patch(lease_name, "{\"metadata\":{\"finalizers\":null}}"));
}

UTEST_F(fault, a_lease_stored_with_odd_fields) {
    ABC;
    ASSERT_TRUE(control("PUT", "/leases/default/dummy",
                        "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/"
                        "v1\",\"metadata\":{\"name\":\"dummy\",\"namespace\":\"default\"},\"spec\":{}}"));
    char path[300];
    snprintf(path, sizeof path, "/leases/default/%s", lease_name);
    ASSERT_TRUE(control("PUT", path,
                        "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/"
                        "v1\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\","
                        "\"annotations\":{\"leader-h/token\":\"many\"}},\"spec\":{}}",
                        lease_name));
    OPEN(a);
    WAIT(stats(a).failures > 0);
    EXPECT_EQ(LEADER_E_CORRUPT, stats(a).last_error);
    EXPECT_TRUE(has(a->log, "annotation leader-h/token"));
    ASSERT_TRUE(lease_patch(lease_name, "{\"metadata\":{\"annotations\":{\"leader-h/token\":\"5000000\"}}}"));
    skip_ms(60000);
    WAIT(leads(a));
    EXPECT_GT(a->token, 5000000u);  // above all that was known, not only above the version
}

/* An old record is back: with an old version, or, once somebody has labelled it, with a new version and an
   old token. */
static void restored(int *utest_result, candidate *a, candidate *b, candidate *c, bool labelled) {
    if (labelled) {
        OPEN(a);
        WAIT(leads(a));
        settle();
    } else {
        ASSERT_TRUE(lease_create(lease_name, HELD_BY_X(15)));      // no token of ours in it
    }
    ASSERT_TRUE(control("POST", "/snapshot", "{}"));
    if (labelled) candidate_close(a, false);
    else ASSERT_TRUE(lease_patch(lease_name, "{\"spec\":{\"holderIdentity\":\"\"}}"));
    ASSERT_TRUE(control("POST", "/versions", "{\"bump\":1000}"));
    OPEN(b);
    WAIT(leads(b));
    OPEN(c);
    WAIT(saw(c, "node-b"));
    settle();
    uint64_t token = b->token;
    b->frozen = true;
    ASSERT_TRUE(control("POST", "/restore", "{}"));
    ASSERT_TRUE(control("POST", "/watches", "{\"do\":\"close\"}"));
    if (labelled) {
        ASSERT_TRUE(control("POST", "/versions", "{\"bump\":5000}"));
        ASSERT_TRUE(lease_patch(lease_name, "{\"metadata\":{\"labels\":{\"x\":\"y\"}}}"));
    }
    skip_ms(6500);  // the watch says nothing: it is asked about
    WAIT(saw(c, labelled ? "node-a" : "node-x"));
    settle();
    int64_t until_ms = c->store.engine.doubt_until_ms;  // it had seen a holder that the store forgot
    EXPECT_GE(until_ms, c->store.engine.seen_ms + 15000);
    WAIT_PASSING(leads(c));
    EXPECT_GT(c->started_ms, until_ms);
    EXPECT_GT(c->token, token);
}

UTEST_F(fault, a_restored_store_with_an_old_version) { ABC; restored(utest_result, a, b, c, false); }
UTEST_F(fault, a_restored_store_with_an_old_token)   { ABC; restored(utest_result, a, b, c, true); }

/* ---- the watch --------------------------------------------------------------------------------- */

static bool watching(const candidate *x) { return x->store.watch.running && x->store.watch_open; }

UTEST_F(fault, a_watch_saves_requests_and_wakes_at_once) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(watching(b));
    settle();
    control("DELETE", "/requests", "%s", "");
    for (int i = 0; i < 60; i++) {                                 // a minute, with its renewals and all
        skip_ms(1000);
        pump_ms(8);
        settle();
    }
    EXPECT_TRUE(leads(a));
    EXPECT_LE(counted("update", -1), 13);
    EXPECT_LE(counted("get", -1), 4);
    EXPECT_LE(counted("watch", -1), 1);
    int gets = counted("get", -1);
    leader_stop(&a->me);
    WAIT(leads(b));  // no time is skipped: only the watch can tell
    EXPECT_EQ(gets, counted("get", -1));
    WAIT(watching(b));                                             // a leader goes on watching
}

UTEST_F(fault, without_the_verb_it_polls_and_says_so_once) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    b->where.token = W.elector;
    OPEN(b);
    WAIT(has(b->log, "no right to watch leases in namespace default"));
    settle();
    control("DELETE", "/requests", "%s", "");
    for (int i = 0; i < 60; i++) {
        skip_ms(1000);
        pump_ms(2);
        settle();
    }
    EXPECT_LE(counted("watch", 403), 6);  // now and then: a right granted later is noticed
    EXPECT_LE(counted("get", -1), 31);
    EXPECT_GE(counted("get", -1), 20);
    EXPECT_TRUE(!has(strstr(b->log, "no right to watch") + 1, "no right to watch"));
    leader_stop(&a->me);
    WAIT(leader_is_stopped(&a->me));
    skip_ms(2100);
    WAIT(leads(b));
}

/* An API server answers 403 while its RBAC loads: one restart must not turn the watch off for good. */
UTEST_F(fault, a_right_to_watch_that_comes_later_is_noticed) {
    ABC;
    ASSERT_TRUE(control(
        "POST", "/users",
        "{\"user\":\"watcher\",\"verbs\":[\"get\",\"create\",\"update\"],\"namespaces\":[\"default\"]}"));
    a->where.no_watch = true;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(has(b->log, "no right to watch leases in namespace default"));
    settle();
    EXPECT_FALSE(watching(b));
    ASSERT_TRUE(control("POST", "/users",
                        "{\"user\":\"watcher\",\"verbs\":[\"get\",\"create\",\"update\",\"watch\"],"
                        "\"namespaces\":[\"default\"]}"));
    for (int k = 0; k < 100 && !watching(b); k++) { settle(); skip_ms(500); pump_ms(10); }
    EXPECT_TRUE(watching(b));
}

UTEST_F(fault, an_event_of_an_older_version_is_not_learnt) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(watching(b));
    settle();
    uint64_t version = b->store.lease.entry.revision;
    control("DELETE", "/requests", "%s", "");
    char uid[64];
    snprintf(uid, sizeof uid, "%s", stored(lease_name, "metadata/uid"));
    ASSERT_TRUE(control("POST", "/watches",
                        "{\"do\":\"send\",\"text\":\"{\\\"type\\\":\\\"MODIFIED\\\",\\\"object\\\":{"
                        "\\\"kind\\\":\\\"Lease\\\",\\\"metadata\\\":{\\\"name\\\":\\\"%s\\\","
                        "\\\"namespace\\\":\\\"default\\\",\\\"uid\\\":\\\"%s\\\",\\\"resourceVersion\\\":"
                        "\\\"%llu\\\"},\\\"spec\\\":{\\\"holderIdentity\\\":\\\"\\\"}}}\\n\"}",
                        lease_name, uid, (unsigned long long)version - 1));
    pump_ms(200);
    settle();
    EXPECT_GE(b->store.lease.entry.revision, version);
    EXPECT_EQ(0, b->started);
    EXPECT_TRUE(leads(a) && saw(b, "node-a"));
    EXPECT_EQ(0, counted("update", 200));
    EXPECT_EQ(0, counted("update", 409));
}

UTEST_F(fault, a_watch_that_ends_is_opened_again) {
    static const char *const ends[] = {
        "{\"do\":\"close\"}",
        "{\"do\":\"cut\"}",
        "{\"do\":\"reset\"}",
        "{\"do\":\"error\",\"code\":410}",
        "{\"do\":\"error\",\"code\":500}",
        "{\"do\":\"send\",\"text\":\"no JSON at all\\n\"}",
        "{\"do\":\"send\",\"text\":\"{\\\"type\\\":\\\"MODIFIED\\\",\\\"object\\\":{}}\\n\"}"};
    ABC;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        WAIT(watching(b));
        int watches = counted("watch", -1);
        ASSERT_TRUE(control("POST", "/watches", "%s", ends[i]));
        WAIT(!watching(b));
        for (int k = 0; k < 200 && !watching(b); k++) { settle(); skip_ms(500); pump_ms(20); }
        EXPECT_TRUE(watching(b));
        EXPECT_LE(counted("watch", -1), watches + 7);              // of both, and not in a tight loop
        EXPECT_FALSE(leads(b));
        EXPECT_TRUE(leads(a));
    }
}

UTEST_F(fault, a_watch_that_is_refused_is_tried_again_later) {
    static const int codes[] = {410, 429, 500, 503};
    ABC;
    OPEN(a);
    WAIT(leads(a));
    for (int i = 0; i < 4; i++) {
        candidate_make(b, lease_name, "node-b");
        ASSERT_TRUE(
            FAULT("{\"do\":\"status\",\"code\":%d,\"match\":{\"verb\":\"watch\"},\"times\":2}", codes[i]));
        OPEN(b);
        for (int k = 0; k < 60 && !watching(b); k++) { settle(); skip_ms(250); pump_ms(10); }
        EXPECT_TRUE(watching(b));
        EXPECT_TRUE(leads(a));
        candidate_close(b, true);
    }
}

UTEST_F(fault, a_half_open_watch_delays_nothing) {
    ABC;
    ASSERT_TRUE(FAULT("{\"do\":\"silent\",\"match\":{\"verb\":\"watch\"},\"times\":0}"));
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(watching(b));
    settle();
    for (int i = 0; i < 20; i++) { settle(); skip_ms(1000); pump_ms(5); }
    EXPECT_TRUE(leads(a));
    EXPECT_FALSE(leads(b));
    leader_stop(&a->me);
    WAIT(leader_is_stopped(&a->me));
    settle();
    int64_t stop_ms = world_clock_ms(NULL);
    skip_ms(2100);  // one retry_ms: it has long been asking by itself
    WAIT(leads(b));
    EXPECT_LT(b->started_ms, stop_ms + 8000);
    candidate_close(b, true);

    candidate_make(c, lease_name, "node-c");                       // and a dead holder is followed on time
    OPEN(c);
    WAIT(saw(c, "node-b"));
    settle();
    skip_ms(15100);
    WAIT(leads(c));
}

/* It says nothing, and answers show that there was something to say: another one is opened. */
UTEST_F(fault, a_watch_that_is_behind_is_replaced) {
    ABC;
    a->where.no_watch = true;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(watching(b));
    settle();
    int watches = counted("watch", -1);
    ASSERT_TRUE(control("POST", "/watches", "{\"do\":\"freeze\"}"));
    for (int k = 0; k < 100 && counted("watch", -1) == watches; k++) { settle(); skip_ms(500); pump_ms(5); }
    EXPECT_EQ(watches + 1, counted("watch", -1));
    WAIT(watching(b));
    EXPECT_TRUE(leads(a));
    settle();
    leader_stop(&a->me);
    WAIT(leads(b));                                                // the new one tells at once
}

/* It died in silence, and then the server's versions went back: what it last told is above them all. */
UTEST_F(fault, a_watch_from_before_a_wipe_is_replaced) {
    enum { HIGHER = 1000000 };
    ABC;
    a->where.no_watch = true;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(watching(b));
    settle();
    int watches = counted("watch", -1);
    ASSERT_TRUE(control("POST", "/watches", "{\"do\":\"freeze\"}"));
    b->store.watch_from += HIGHER;
    b->store.watch_version += HIGHER;
    for (int k = 0; k < 100 && counted("watch", -1) == watches; k++) { settle(); skip_ms(500); pump_ms(5); }
    EXPECT_EQ(watches + 1, counted("watch", -1));
    WAIT(watching(b));
    EXPECT_TRUE(leads(a));
}

/* As into a connection that died in silence. */
UTEST_F(fault, a_watch_that_is_never_answered_is_asked_for_again) {
    ABC;
    a->where.no_watch = true;
    OPEN(a);
    WAIT(leads(a));
    ASSERT_TRUE(FAULT("{\"do\":\"hang\",\"match\":{\"verb\":\"watch\"},\"times\":1}"));
    OPEN(b);
    for (int k = 0; k < 100 && !watching(b); k++) { settle(); skip_ms(500); pump_ms(5); }
    EXPECT_TRUE(watching(b));
    EXPECT_EQ(2, counted("watch", -1));
    settle();
    leader_stop(&a->me);
    WAIT(leads(b));
}

/* A leader watches its own Lease: no renewal is waited for. */
UTEST_F(fault, a_holder_emptied_by_hand_ends_the_term_at_once) {
    ABC;
    OPEN(a);
    WAIT(leads(a) && watching(a));
    settle();
    int64_t before_ms = world_clock_ms(NULL);
    ASSERT_TRUE(lease_patch(lease_name, "{\"spec\":{\"holderIdentity\":\"\",\"leaseDurationSeconds\":1}}"));
    WAIT(a->stopped == 1);                                         // no time is skipped
    EXPECT_LT(world_clock_ms(NULL), before_ms + 4000);  // the next renewal is due after five seconds
    EXPECT_EQ(LEADER_LOST, a->why);
}

UTEST_F(fault, a_deletion_seen_by_the_watch_is_looked_into) {
    ABC;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(watching(b));
    settle();
    a->frozen = true;
    ASSERT_TRUE(lease_delete(lease_name));
    WAIT(strcmp(stored(lease_name, "spec/holderIdentity"), "node-b") == 0);    // no time skipped
    EXPECT_FALSE(leads(b));
}

UTEST_F(fault, a_lease_taken_without_knowing_is_released_on_stop) {
    ABC;
    OPEN(c);
    WAIT(leads(c));
    candidate_close(c, false);
    ASSERT_TRUE(FAULT("{\"do\":\"withhold\",\"match\":{\"verb\":\"update\"},\"times\":1}"));
    OPEN(a);
    WAIT(strcmp(stored(lease_name, "spec/holderIdentity"), "node-a") == 0);
    EXPECT_FALSE(leads(a));
    leader_stop(&a->me);
    WAIT(leader_is_stopped(&a->me));
    STORED("spec/holderIdentity", "");
}

// the core never heard of it: the write's answer was lost
UTEST_F(fault, what_was_taken_in_doubt_is_not_released) {
    ABC;
    b->where.no_watch = true;
    OPEN(a);
    WAIT(leads(a));
    OPEN(b);
    WAIT(saw(b, "node-a"));
    settle();
    a->frozen = true;
    ASSERT_TRUE(FAULT("{\"do\":\"withhold\",\"match\":{\"verb\":\"update\"},\"times\":1}"));
    ASSERT_TRUE(lease_delete(lease_name));
    skip_ms(2100);
    WAIT(strcmp(stored(lease_name, "metadata/annotations/leader-h|token"), "(none)") != 0);
    leader_stop(&b->me);
    WAIT(leader_is_stopped(&b->me));
    ASSERT_TRUE(leads(a));
    STORED("spec/holderIdentity", "node-b");  // a newcomer would lead beside node-a at once
}

UTEST_F(fault, connections_of_a_dead_network_are_not_used_again) {
    ABC;
    a->where.no_watch = true;
    OPEN(a);
    WAIT(leads(a));
    settle();
    int before = connections_made();
    ASSERT_TRUE(FAULT("{\"do\":\"hang\",\"match\":{\"verb\":\"update\"},\"times\":1}"));
    skip_ms(5100);
    pump_ms(50);
    skip_ms(2600);
    WAIT(stats(a).failures_timeout == 1);
    skip_ms(600);
    WAIT(stats(a).renewals == 1);
    EXPECT_EQ(before + 1, connections_made());
    EXPECT_EQ(1, a->started);
}

/* Everything at once, from a seed. Nobody may ever lead beside another, tokens only rise, and when it is
   over somebody leads. */
static void random_fault(void) {
    static const char *const faults[] = {"\"delay\",\"ms\":30",
                                         "\"late\",\"ms\":80",
                                         "\"late\",\"ms\":400",
                                         "\"withhold\"",
                                         "\"hang\"",
                                         "\"reset\"",
                                         "\"reset\",\"execute\":true",
                                         "\"close\",\"execute\":true",
                                         "\"status\",\"code\":503,\"execute\":true",
                                         "\"status\",\"code\":500",
                                         "\"status\",\"code\":409",
                                         "\"status\",\"code\":401",
                                         "\"cut\",\"bytes\":300",
                                         "\"garbage\""};
    static const char *const watches[] = {"{\"do\":\"freeze\"}", "{\"do\":\"close\"}", "{\"do\":\"reset\"}",
                                          "{\"do\":\"error\",\"code\":410}"};
    static const char *const verbs[] = {"get", "update", "update", "create"};
    if (dice(6) == 0) control("POST", "/watches", "%s", watches[dice(4)]);
    else FAULT("{\"do\":%s,\"match\":{\"verb\":\"%s\"},\"times\":1}", faults[dice(14)], verbs[dice(4)]);
}

/* deletions: the Lease is deleted now and then. Then nobody is restarted: who has seen nothing cannot know
   that something was lost. */
static void chaos(int *utest_result, candidate *all[3], bool deletions, int steps) {
    int label = 0;
    tokens_compared = true;
    for (int i = 0; i < 3; i++) {
        all[i]->cfg.retry_max_ms = 4000;
        ASSERT_TRUE(candidate_open(all[i]));
    }
    // nobody has seen nothing when the first one is deleted
    for (int i = 0; deletions && i < 3; i++) WAIT(!saw(all[i], ""));
    for (int step = 0; step < steps; step++) {
        candidate *x = all[dice(3)];
        switch (dice(10)) {
        case 0: case 1: case 2: random_fault(); break;
        case 3: x->frozen = !x->frozen; break;
        case 4: skip_ms(dice(6000)); break;
        case 5: if (leads(x)) leader_resign(&x->me, 1); break;
        case 6:
            free(lease_request("PATCH", lease_name, "application/merge-patch+json",
                               ++label & 1 ? "{\"metadata\":{\"labels\":{\"c\":\"1\"}}}"
                                           : "{\"metadata\":{\"labels\":{\"c\":\"2\"}}}")
                     .text);
            break;
        case 7:
            if (deletions && dice(3) == 0) lease_delete(lease_name);
            if (!deletions && dice(2) == 0) {  // killed, and started again: under its own name or another
                char name[32];
                bool again = dice(2) == 0;
                candidate_close(x, true);
                snprintf(name, sizeof name, "node-%u", dice(1000));
                if (again) snprintf(name, sizeof name, "%.30s", x->name);
                candidate_make(x, lease_name, name);
                x->cfg.retry_max_ms = 4000;
                ASSERT_TRUE(candidate_open(x));
            }
            break;
        default: break;
        }
        for (int k = 0; k < 4; k++) {
            tick_all();
            wait_all(3);
            skip_ms(dice(200));
        }
        ASSERT_EQ(0, two_leaders);
        ASSERT_EQ(0u, token_order_bad);
    }
    control("DELETE", "/faults", "%s", "");
    control("POST", "/release", "{}");
    for (int i = 0; i < 3; i++) all[i]->frozen = false;
    for (int i = 0; i < 3000 && !leads(all[0]) && !leads(all[1]) && !leads(all[2]); i++) {
        pump_for(2);
        skip_ms(50);
    }
    ASSERT_TRUE(leads(all[0]) || leads(all[1]) || leads(all[2]));
}

static void chaos_from(int *utest_result, candidate *a, candidate *b, candidate *c, uint64_t seed,
                       bool deletions) {
    candidate *all[3];
    const char *asked = getenv("K8S_SEED"), *steps = getenv("K8S_STEPS");
    all[0] = a;
    all[1] = b;
    all[2] = c;
    dice_state = asked ? strtoull(asked, NULL, 10) : seed;
    chaos(utest_result, all, deletions, steps ? atoi(steps) : 300);
}

UTEST_F(fault, chaos_with_restarts) {
    ABC;
    chaos_from(utest_result, a, b, c, 20261116, false);
    EXPECT_GT(token_top, 0u);
}
UTEST_F(fault, chaos_with_deletions) {
    ABC;
    chaos_from(utest_result, a, b, c, 4, true);
    EXPECT_GT(token_top, 0u);
}

int main(int argc, const char *const argv[]) {
    mkdir("build", 0777);
    if (!world_start()) {
        fprintf(stderr, "no API server: tests/k8s/k8s_server.py did not start\n");
        return 1;
    }
    int failed = utest_main(argc, argv);
    ask(NULL, NULL, NULL, NULL, NULL);
    server_stop(&W);
    return failed;
}

/* A Lease as a server may send it: read, and written back with our fields in it. What is not ours stays byte for byte, what is
   ours reads back as it was written, and what is malformed or ambiguous is refused. */
#ifndef LEADER_WITH_K8S
#  define LEADER_WITH_K8S
#endif
#include "fuzz.h"
#include "json.h"

typedef struct lease_path { const char *names[3]; bool begin_only, not_on_renew; } lease_path;
static const lease_path lease_owned[] = {
    {{"spec", "holderIdentity", NULL}, false, false}, {{"spec", "leaseDurationSeconds", NULL}, false, false}, {{"spec", "renewTime", NULL}, false, false},
    {{"spec", "acquireTime", NULL}, false, true}, {{"spec", "leaseTransitions", NULL}, true, false},
    {{"metadata", "annotations", "leader-h/nonce"}, false, false}, {{"metadata", "annotations", "leader-h/token"}, false, false}};
enum { LEASE_OWNED = sizeof lease_owned / sizeof lease_owned[0] };

/* Goes down the path as far as it is there and no null: how many names that was, and the span of the last one found. Ambiguous: -1. */
static int lease_follow(json_span at, const lease_path *path, int names, json_span *member, json_span *value) {
    int i = 0;
    while (i < names && path->names[i]) {
        int found = json_find(at, path->names[i], member, value);
        if (found > 1) return -1;
        if (found == 0) return i;
        i++;
        at = *value;
        if (json_is_null(at)) return i;
    }
    return i;
}

static bool lease_is_ambiguous(json_span root) {
    json_span member, value;
    for (int i = 0; i < LEASE_OWNED; i++) if (lease_follow(root, &lease_owned[i], 3, &member, &value) < 0) return true;
    return false;
}

/* Cuts out of doc what the operation owns: a value where the original had that member, the member itself where it had not. */
static void lease_strip(char *doc, json_span original, int op) {
    for (int i = 0; i < LEASE_OWNED; i++) {
        const lease_path *path = &lease_owned[i];
        json_span root = {doc, doc + strlen(doc)}, member = root, value = root;
        if ((path->begin_only && op != LEADER_K8S_ACQUIRE_) || (path->not_on_renew && op == LEADER_K8S_RENEW_)) continue;
        int whole = path->names[2] ? 3 : 2, had = lease_follow(original, path, whole, &member, &value), names = had;
        bool there = had > 0 && (had == whole || json_is_null(value));       /* else it is the next name that was put in         */
        if (!there) names = had + 1;
        if (lease_follow(root, path, names, &member, &value) < names) continue;      /* went with what was around it             */
        json_span cut = there ? value : member;
        if (!there && *cut.end == ',') cut.end++;
        memmove((char *)(uintptr_t)cut.at + (there ? 1 : 0), cut.end, strlen(cut.end) + 1);
        if (there) *(char *)(uintptr_t)cut.at = '0';
    }
}

static void lease_write(leader_k8s *self, int op) {
    leader_request q;
    leader_k8s_lease_ back;
    memset(&q, 0, sizeof q);
    q.identity = self->identity_;
    q.nonce = self->nonce_;
    q.lease_ms = 15000;
    self->op_ = op;
    MUST(leader_k8s_compose_(self, &q, 77));
    char *before = fuzz_text(self->doc_.at, self->doc_.len), *original = fuzz_text(self->doc_.at, self->doc_.len);
    char *after = fuzz_text(self->body_.at, self->body_.len);
    json_span was = {original, original + strlen(original)};
    lease_strip(before, was, op);
    lease_strip(after, was, op);
    MUST(strcmp(before, after) == 0);
    free(before);
    free(original);
    free(after);

    MUST(leader_k8s_read_(self, self->body_.at, self->body_.len, &back) == NULL);
    MUST(strcmp(back.uid, self->lease_.uid) == 0 && strcmp(back.version_text, self->lease_.version_text) == 0);
    MUST(op == LEADER_K8S_RELEASE_ ? !back.held : back.held && back.named && strcmp(back.holder, self->identity_) == 0 && leader_k8s_is_mine_(self, &back));
    MUST(strcmp(back.renew, self->sent_renew_) == 0 && strcmp(back.renew, self->lease_.renew) != 0 && back.bound && back.token == 77 && !back.token_bad);
    MUST(back.lease_ms == (op == LEADER_K8S_RELEASE_ ? 1000 : 15000) && back.coordinated == self->lease_.coordinated);
    MUST(op == LEADER_K8S_ACQUIRE_ ? back.transitions >= (self->lease_.transitions < INT32_MAX ? self->lease_.transitions : INT32_MAX) && back.transitions <= INT32_MAX
                                   : back.transitions == self->lease_.transitions);
}

/* What the reader made of it, against what stands there. */
static void lease_compare(const leader_k8s *self, json_span root, const leader_k8s_lease_ *lease) {
    json_span member, spec, holder;
    char name[600];
    MUST(!lease_is_ambiguous(root));
    bool held = json_find(root, "spec", &member, &spec) == 1 && !json_is_null(spec) && json_find(spec, "holderIdentity", &member, &holder) == 1
             && !json_is_null(holder) && holder.end - holder.at > 2;
    MUST(lease->held == held);
    if (held && lease->named && json_decode(holder, name, sizeof name)) MUST(strcmp(lease->holder, name) == 0);
    MUST(fuzz_is_utf8(lease->holder, strlen(lease->holder)) && lease->uid[0] && lease->version_text[0]);
    MUST(lease->lease_ms >= 0 && lease->lease_ms <= (int64_t)INT32_MAX * 1000);
    MUST(!leader_k8s_is_mine_(self, lease) || (lease->held && lease->bound));
}

/* A 404 or a refusal is read from the same bytes. */
static void lease_status(leader_k8s *self, const char *text, size_t size) {
    char message[50];
    MUST(leader_k8s_copy_(&self->ask_.reply, text, size));
    (void)leader_k8s_says_absent_(self);
    leader_k8s_message_(&self->ask_.reply, message, sizeof message);
    MUST(strlen(message) < sizeof message && fuzz_is_utf8(message, strlen(message)));
    for (const char *p = message; *p; p++) MUST((unsigned char)*p >= ' ');
}

static void lease_time(const char *text) {
    int64_t us = 0, again = 0;
    char copy[28];
    if (!leader_k8s_time_us_(text, &us) || us < 0 || us > INT64_C(253402300799999999)) return;
    leader_time_text_(copy, us);
    MUST(leader_k8s_time_us_(copy, &again) && again == us);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static leader_k8s self;
    leader_k8s_lease_ lease;
    leader_json_ parsed;
    json_span root;
    size_t bad_at;
    int depth;
    fuzz_reset();
    memset(&self, 0, sizeof self);
    memcpy(self.name_, "demo", 5);
    memcpy(self.namespace_, "default", 8);
    memcpy(self.identity_, "node-a", 7);
    self.nonce_ = 0x0123456789abcdef;
    self.host_ = fuzz_host();
    char *text = fuzz_text(data, size);
    lease_time(text);
    if (size > 0) lease_status(&self, text, size);

    bool good = json_document(text, size, &root, &depth);
    MUST(leader_json_parse_(text, size, &parsed, &bad_at) == (good && depth <= LEADER_JSON_DEPTH_) && bad_at <= size);
    MUST(leader_k8s_copy_(&self.ask_.reply, text, size));
    leader_k8s_trim_(&self.ask_.reply);
    if (self.ask_.reply.len > 0 && leader_k8s_read_(&self, self.ask_.reply.at, self.ask_.reply.len, &lease) == NULL) {
        MUST(good && self.ask_.reply.len == (size_t)(root.end - root.at) && memcmp(self.ask_.reply.at, root.at, self.ask_.reply.len) == 0);
        lease_compare(&self, root, &lease);
        leader_k8s_learn_(&self, &self.ask_.reply, &lease);
        lease_write(&self, LEADER_K8S_ACQUIRE_);
        lease_write(&self, LEADER_K8S_RENEW_);
        lease_write(&self, LEADER_K8S_RELEASE_);
    }
    leader_k8s_free_(&self.ask_.reply);
    leader_k8s_free_(&self.doc_);
    leader_k8s_free_(&self.body_);
    free(text);
    return 0;
}

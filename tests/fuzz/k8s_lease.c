/* A Lease as a server may send it: read, and written back with our fields in it. What is not ours stays
   byte for byte, what is ours reads back as it was written, and what is malformed or ambiguous is refused.
   */
#ifndef LEADER_WITH_K8S
#  define LEADER_WITH_K8S
#endif
#include "fuzz.h"
#include "json.h"

typedef struct lease_path { const char *names[3]; bool begin_only, not_on_renew; } lease_path;
static const lease_path lease_owned[] = {{{"spec", "holderIdentity", NULL}, false, false},
                                         {{"spec", "leaseDurationSeconds", NULL}, false, false},
                                         {{"spec", "renewTime", NULL}, false, false},
                                         {{"spec", "acquireTime", NULL}, false, true},
                                         {{"spec", "leaseTransitions", NULL}, true, false},
                                         {{"metadata", "annotations", "leader-h/nonce"}, false, false},
                                         {{"metadata", "annotations", "leader-h/token"}, false, false},
                                         {{"metadata", "annotations", "leader-h/term"}, false, false},
                                         {{"metadata", "annotations", "leader-h/value"}, false, false},
                                         {{"metadata", "annotations", "leader-h/heir"}, false, false}};
enum { LEASE_BEGIN = 1, LEASE_RENEW, LEASE_RELEASE };
enum { LEASE_OWNED = sizeof lease_owned / sizeof lease_owned[0] };

/* Goes down the path as far as it is there and no null: how many names that was, and the span of the last
   one found. Ambiguous: -1. */
static int lease_follow(json_span at, const lease_path *path, int names, json_span *member,
                        json_span *value) {
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
    for (int i = 0; i < 7; i++) if (lease_follow(root, &lease_owned[i], 3, &member, &value) < 0) return true;
    return false;
}

/* Cuts out of doc what the operation owns: a value where the original had that member, the member itself
   where it had not. */
static void lease_strip(char *doc, json_span original, int op) {
    for (int i = 0; i < LEASE_OWNED; i++) {
        const lease_path *path = &lease_owned[i];
        json_span root = {doc, doc + strlen(doc)}, member = root, value = root;
        if ((path->begin_only && op != LEASE_BEGIN) || (path->not_on_renew && op == LEASE_RENEW)) continue;
        int whole = path->names[2] ? 3 : 2, had = lease_follow(original, path, whole, &member, &value),
            names = had;
        // else it is the next name that was put in
        bool there = had > 0 && (had == whole || json_is_null(value));
        if (!there) names = had + 1;
        // went with what was around it
        if (lease_follow(root, path, names, &member, &value) < names) continue;
        json_span cut = there ? value : member;
        if (!there && *cut.end == ',') cut.end++;
        memmove((char *)(uintptr_t)cut.at + (there ? 1 : 0), cut.end, strlen(cut.end) + 1);
        if (there) *(char *)(uintptr_t)cut.at = '0';
    }
}

static void lease_write(leader_k8s *self, int op) {
    leader_k8s_lease_ back;
    const leader_entry *got = &back.entry;
    bool release = op == LEASE_RELEASE;
    memset(&self->sent, 0, sizeof self->sent);
    if (!release) memcpy(self->sent.holder, "node-a", 7);
    self->sent.nonce = 0x0123456789abcdef;
    self->sent.seq = 5;
    self->sent.hold_off_ms = op == LEASE_BEGIN ? 2500 : 0;
    self->sent.token = 77;
    self->sent.lease_ms = 15000;
    uint64_t token = op == LEASE_BEGIN && self->lease.noted_token >= 77 ? self->lease.noted_token + 1 : 77;
    MUST(leader_k8s_compose_(self, op == LEASE_BEGIN));
    char *before = fuzz_text(self->doc.at, self->doc.len), *original = fuzz_text(self->doc.at, self->doc.len);
    char *after = fuzz_text(self->body.at, self->body.len);
    json_span was = {original, original + strlen(original)};
    lease_strip(before, was, op);
    lease_strip(after, was, op);
    MUST(strcmp(before, after) == 0);
    free(before);
    free(original);
    free(after);

    MUST(leader_k8s_read_(self, self->body.at, self->body.len, &back) == NULL);
    MUST(strcmp(back.uid, self->lease.uid) == 0 && strcmp(got->version, self->lease.entry.version) == 0
         && got->origin == self->lease.entry.origin);
    MUST(strcmp(got->holder, release ? "" : "node-a") == 0 && got->nonce == self->sent.nonce
         && got->seq == 5);
    MUST(strcmp(back.renew, self->sent_renew) == 0 && strcmp(back.renew, self->lease.renew) != 0
         && got->token == token && !back.token_bad);
    MUST(got->renewal != self->lease.entry.renewal && got->hold_off_ms == self->sent.hold_off_ms
         && !got->value[0] && !got->heir[0]);
    MUST(got->lease_ms == (release ? 1000 : 15000) && got->locked == self->lease.entry.locked);
    MUST(op == LEASE_BEGIN
             ? back.transitions >= (self->lease.transitions < INT32_MAX ? self->lease.transitions : INT32_MAX)
                   && back.transitions <= INT32_MAX
             : back.transitions == self->lease.transitions);
    MUST(leader_k8s_is_as_sent_(self, &back));
}

/* What the reader made of it, against what stands there. */
static void lease_compare(json_span root, const leader_k8s_lease_ *lease) {
    const leader_entry *entry = &lease->entry;
    json_span member, spec, holder;
    char name[600];
    MUST(!lease_is_ambiguous(root));
    bool held = json_find(root, "spec", &member, &spec) == 1 && !json_is_null(spec)
                && json_find(spec, "holderIdentity", &member, &holder) == 1 && !json_is_null(holder)
                && holder.end - holder.at > 2;
    MUST((entry->holder[0] != 0) == held);
    if (held && strncmp(entry->holder, "(a name of", 10) != 0 && json_decode(holder, name, sizeof name))
        MUST(strcmp(entry->holder, name) == 0);
    MUST(fuzz_is_utf8(entry->holder, strlen(entry->holder)) && lease->uid[0] && entry->version[0]
         && entry->revision && entry->origin);
    MUST(fuzz_is_utf8(entry->value, strlen(entry->value)) && fuzz_is_utf8(entry->heir, strlen(entry->heir)));
    MUST(entry->lease_ms >= 0 && entry->lease_ms <= (int64_t)INT32_MAX * 1000 && entry->hold_off_ms >= 0
         && entry->token < UINT64_C(1) << 53);
    MUST(entry->nonce != 0 || (entry->token == 0 && entry->seq == 0 && entry->hold_off_ms == 0));
}

/* A 404 or a refusal is read from the same bytes. */
static void lease_status(leader_k8s *self, const char *text, size_t size) {
    char message[50];
    leader_json_ root;
    size_t bad_at;
    MUST(leader_http_copy_(&self->ask.reply, text, size));
    self->ask.status = 404;
    (void)leader_k8s_says_absent_(self);
    leader_k8s_words_(&self->ask.reply, message, sizeof message);
    MUST(strlen(message) < sizeof message
         && (!leader_json_parse_(text, size, &root, &bad_at) || fuzz_is_utf8(message, strlen(message))));
    for (const char *p = message; *p; p++) MUST((unsigned char)*p >= ' ');
}

static void lease_time(const char *text) {
    int64_t us = 0, again = 0;
    char copy[28];
    if (!leader_time_parse_(text, &us) || us < 0 || us > INT64_C(253402300799999999)) return;
    leader_time_text_(copy, us);
    MUST(leader_time_parse_(copy, &again) && again == us);
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
    memcpy(self.name, "demo", 5);
    memcpy(self.name_space, "default", 8);
    self.host = fuzz_host();
    char *text = fuzz_text(data, size);
    lease_time(text);
    if (size > 0) lease_status(&self, text, size);

    bool good = json_document(text, size, &root, &depth);
    MUST(leader_json_parse_(text, size, &parsed, &bad_at) == (good && depth <= LEADER_JSON_DEPTH_)
         && bad_at <= size);
    MUST(leader_http_copy_(&self.ask.reply, text, size));
    leader_k8s_trim_(&self.ask.reply);
    if (self.ask.reply.len > 0
        && leader_k8s_read_(&self, self.ask.reply.at, self.ask.reply.len, &lease) == NULL) {
        MUST(good && self.ask.reply.len == (size_t)(root.end - root.at)
             && memcmp(self.ask.reply.at, root.at, self.ask.reply.len) == 0);
        lease_compare(root, &lease);
        self.lease = lease;
        MUST(leader_http_copy_(&self.doc, self.ask.reply.at, self.ask.reply.len));
        // others are refused before
        bool writable = !lease.token_bad && lease.noted_token + 1 < LEADER_TOKEN_MAX_;
        for (int op = LEASE_BEGIN; writable && op <= LEASE_RELEASE; op++) lease_write(&self, op);
    }
    leader_http_free_(&self.ask.reply);
    leader_http_free_(&self.doc);
    leader_http_free_(&self.body);
    free(text);
    return 0;
}

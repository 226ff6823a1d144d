/* An API server's answer to a request of the Kubernetes backend. Success is only a 200 or 201 whose Lease is what was sent, field by field,
   in the very object that was meant; everything else ends the operation some other way.

   The input: a line with operation (1 acquire, 2 renew, 3 release, 4 observe), step (0 GET, 1 POST, 2 PUT) and status, such as "12 200", and
   then the body, in which @R stands for the renewTime that was sent. A token file is read from the same body. */
#ifndef LEADER_WITH_K8S
#  define LEADER_WITH_K8S
#endif
#include "fuzz.h"
#include "json.h"
#include <sys/mman.h>

enum { ANSWER_TOKEN = 101 };

static bool answer_says(json_span root, const char *outer, const char *inner, const char *name, const char *want) {
    json_span member, at = root;
    char text[600];
    if (json_find(at, outer, &member, &at) != 1 || (inner && json_find(at, inner, &member, &at) != 1) || json_find(at, name, &member, &at) != 1) return false;
    if (*at.at == '"') return json_decode(at, text, sizeof text) && strcmp(text, want) == 0;
    return (size_t)(at.end - at.at) == strlen(want) && memcmp(at.at, want, strlen(want)) == 0;
}

static bool answer_is_what_was_sent(const leader_k8s *self, const char *body, size_t size, bool release) {
    json_span root;
    int depth;
    char nonce[64], token[8];
    snprintf(nonce, sizeof nonce, "0123456789abcdef %s", self->sent_renew_);
    snprintf(token, sizeof token, "%d", ANSWER_TOKEN);
    return json_document(body, size, &root, &depth) && answer_says(root, "metadata", NULL, "uid", "u") && answer_says(root, "spec", NULL, "renewTime", self->sent_renew_)
        && answer_says(root, "metadata", "annotations", "leader-h/token", token) && answer_says(root, "spec", NULL, "leaseDurationSeconds", release ? "1" : "15")
        && (release || (answer_says(root, "spec", NULL, "holderIdentity", "node-a") && answer_says(root, "metadata", "annotations", "leader-h/nonce", nonce)));
}

static void answer_know(leader_k8s *self) {
    static const char known[] = "{\"kind\":\"Lease\",\"metadata\":{\"name\":\"demo\",\"namespace\":\"default\",\"uid\":\"u\",\"resourceVersion\":\"100\",\"annotations\":{"
        "\"leader-h/nonce\":\"0123456789abcdef 2026-11-16T01:28:19.182774Z\",\"leader-h/token\":\"90\"}},"
        "\"spec\":{\"holderIdentity\":\"node-a\",\"leaseDurationSeconds\":15,\"renewTime\":\"2026-11-16T01:28:19.182774Z\"}}";
    leader_k8s_lease_ lease;
    MUST(leader_k8s_copy_(&self->ask_.reply, known, sizeof known - 1) && leader_k8s_read_(self, self->ask_.reply.at, self->ask_.reply.len, &lease) == NULL);
    leader_k8s_learn_(self, &self->ask_.reply, &lease);
}

/* The body with what stands for the time that was sent. */
static void answer_fill(leader_k8s_buf_ *reply, fuzz_input in, const char *renew) {
    for (reply->len = 0; in.at < in.end; in.at++) {
        bool time = in.end - in.at >= 2 && in.at[0] == '@' && in.at[1] == 'R';
        MUST(time ? leader_k8s_replace_(reply, reply->len, 0, renew, strlen(renew)) : leader_k8s_replace_(reply, reply->len, 0, (const char *)in.at, 1));
        if (time) in.at++;
    }
}

static void answer_token_file(leader_k8s *self, fuzz_input in) {
    static int file = -1;
    if (file < 0) file = (int)syscall(SYS_memfd_create, "fuzz", 0u);
    MUST(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, in.at, (size_t)(in.end - in.at), 0) == in.end - in.at);
    snprintf(self->token_file_, sizeof self->token_file_, "/proc/self/fd/%d", file);
    fuzz_said[0] = self->token_[0] = 0;
    bool read = leader_k8s_read_token_(self);
    MUST(read ? self->token_[0] && !fuzz_said[0] : !self->token_[0] && strstr(fuzz_said, "token_file") != NULL);
    for (const char *p = self->token_; *p; p++) MUST(*p > ' ' && *p <= '~');
    self->token_file_[0] = self->token_[0] = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static leader_k8s self;
    leader_request q;
    leader_record seen;
    fuzz_input in = fuzz_open(data, size);
    fuzz_reset();
    memset(&self, 0, sizeof self);
    memset(&q, 0, sizeof q);
    memset(&seen, 0, sizeof seen);
    memcpy(self.name_, "demo", 5);
    memcpy(self.namespace_, "default", 8);
    memcpy(self.identity_, "node-a", 7);
    memcpy(self.server_, "https://h", 10);
    self.host_ = fuzz_host();
    self.client_ = &self.own_;
    self.ask_.owner = self.watch_.owner = &self;
    q.identity = self.identity_;
    q.nonce = self.nonce_ = 0x0123456789abcdef;
    q.min_token = 91;
    q.lease_ms = 15000;
    char *head = fuzz_line(&in);
    self.op_ = head[0] >= '1' && head[0] <= '4' ? head[0] - '0' : LEADER_K8S_ACQUIRE_;
    int step = head[0] && head[1] >= '0' && head[1] <= '2' ? head[1] - '0' : LEADER_K8S_READ_;
    self.ask_.status = head[0] && head[1] ? strtol(head + 2, NULL, 10) : 200;
    free(head);
    if (step == LEADER_K8S_WRITE_) answer_know(&self);
    if (step != LEADER_K8S_READ_) {
        MUST(leader_k8s_compose_(&self, &q, ANSWER_TOKEN));
        self.must_read_ = true;
    }
    self.step_ = step;
    self.ask_.done = true;
    answer_token_file(&self, in);
    answer_fill(&self.ask_.reply, in, self.sent_renew_);
    char *body = fuzz_text(self.ask_.reply.at, self.ask_.reply.len);
    size_t length = self.ask_.reply.len;
    long status = self.ask_.status;
    int op = self.op_;

    leader_result result = leader_k8s_answered_(&self, &q, &seen);
    MUST(result != LEADER_PENDING);                             /* a request that would follow finds no libcurl, and fails        */
    MUST(result < 0 || result == LEADER_OK || result == LEADER_HELD || result == LEADER_LOST);
    MUST(seen.token < UINT64_C(1) << 63 && memchr(seen.holder, 0, sizeof seen.holder) && fuzz_is_utf8(seen.holder, strlen(seen.holder)));
    if (result == LEADER_OK && op != LEADER_K8S_OBSERVE_) {
        MUST(step == LEADER_K8S_WRITE_ && (status == 200 || status == 201) && answer_is_what_was_sent(&self, body, length, op == LEADER_K8S_RELEASE_));
        MUST(seen.token == ANSWER_TOKEN && !self.must_read_);
    }
    if (step == LEADER_K8S_WRITE_ && result != LEADER_OK && result != LEADER_LOST && result != LEADER_HELD && (status < 400 || status >= 500)) MUST(self.must_read_);
    free(body);
    curl_slist_free_all((struct curl_slist *)self.ask_.headers);
    leader_k8s_free_(&self.ask_.reply);
    leader_k8s_free_(&self.doc_);
    leader_k8s_free_(&self.body_);
    return 0;
}

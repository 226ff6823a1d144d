/* An API server's answer to a request of the Kubernetes backend. Success is only a 200 or 201 whose Lease
   is what was sent, field by field, in the very object that was meant; everything else ends the operation
   some other way.

   The input: a line with operation (1 acquire, 2 renew, 3 release, 4 observe), step (0 GET, 1 POST, 2 PUT)
   and status, such as "12 200", and then the body, in which @R stands for the renewTime that was sent. A
   token file is read from the same body. */
#ifndef LEADER_WITH_K8S
#  define LEADER_WITH_K8S
#endif
#include "fuzz.h"
#include "json.h"
#include <sys/mman.h>

enum { ANSWER_TOKEN = 101 };

static bool answer_says(json_span root, const char *outer, const char *inner, const char *name,
                        const char *want) {
    json_span member, at = root;
    char text[600];
    if (json_find(at, outer, &member, &at) != 1 || (inner && json_find(at, inner, &member, &at) != 1)
        || json_find(at, name, &member, &at) != 1)
        return false;
    if (*at.at == '"') return json_decode(at, text, sizeof text) && strcmp(text, want) == 0;
    return (size_t)(at.end - at.at) == strlen(want) && memcmp(at.at, want, strlen(want)) == 0;
}

static bool answer_is_what_was_sent(const leader_k8s *self, const char *body, size_t size, bool release) {
    json_span root;
    int depth;
    char nonce[64], token[8];
    snprintf(nonce, sizeof nonce, "0123456789abcdef %s", self->sent_renew);
    snprintf(token, sizeof token, "%d", ANSWER_TOKEN);
    return json_document(body, size, &root, &depth) && answer_says(root, "metadata", NULL, "uid", "u")
           && answer_says(root, "spec", NULL, "renewTime", self->sent_renew)
           && answer_says(root, "metadata", "annotations", "leader-h/token", token)
           && answer_says(root, "spec", NULL, "leaseDurationSeconds", release ? "1" : "15")
           && (release
               || (answer_says(root, "spec", NULL, "holderIdentity", "node-a")
                   && answer_says(root, "metadata", "annotations", "leader-h/nonce", nonce)));
}

static void answer_know(leader_k8s *self) {
    static const char known[] =
        "{\"kind\":\"Lease\",\"metadata\":{\"name\":\"demo\",\"namespace\":\"default\",\"uid\":\"u\","
        "\"resourceVersion\":\"100\",\"annotations\":{"
        "\"leader-h/nonce\":\"0123456789abcdef 2026-11-16T01:28:19.182774Z\",\"leader-h/token\":\"90\"}},"
        "\"spec\":{\"holderIdentity\":\"node-a\",\"leaseDurationSeconds\":15,\"renewTime\":\"2026-11-16T01:"
        "28:19.182774Z\"}}";
    MUST(leader_http_copy_(&self->doc, known, sizeof known - 1));
    MUST(leader_k8s_read_(self, self->doc.at, self->doc.len, &self->lease) == NULL);
}

/* The body with what stands for the time that was sent. */
static void answer_fill(leader_http_text_ *reply, fuzz_input in, const char *renew) {
    for (reply->len = 0; in.at < in.end; in.at++) {
        bool time = in.end - in.at >= 2 && in.at[0] == '@' && in.at[1] == 'R';
        MUST(time ? leader_http_splice_(reply, reply->len, 0, renew, strlen(renew))
                  : leader_http_splice_(reply, reply->len, 0, (const char *)in.at, 1));
        if (time) in.at++;
    }
}

static void answer_token_file(leader_k8s *self, fuzz_input in) {
    static int file = -1;
    if (file < 0) file = (int)syscall(SYS_memfd_create, "fuzz", 0u);
    MUST(file >= 0 && ftruncate(file, 0) == 0
         && pwrite(file, in.at, (size_t)(in.end - in.at), 0) == in.end - in.at);
    snprintf(self->token_file, sizeof self->token_file, "/proc/self/fd/%d", file);
    fuzz_said[0] = self->token[0] = 0;
    bool read = leader_k8s_read_token_(self);
    MUST(read ? self->token[0] && !fuzz_said[0] : !self->token[0] && strstr(fuzz_said, "token_file") != NULL);
    for (const char *p = self->token; *p; p++) MUST(*p > ' ' && *p <= '~');
    self->token_file[0] = self->token[0] = 0;
}

static void answer_open(leader_k8s *self) {
    static bool started;
    leader_http_settings_ settings;
    leader_host host = fuzz_host();
    // once, so that closing does not undo it
    if (!started) MUST(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    started = true;
    memset(self, 0, sizeof *self);
    memset(&settings, 0, sizeof settings);
    settings.server = "https://h";
    memcpy(self->name, "demo", 5);
    memcpy(self->name_space, "default", 8);
    self->no_watch = true;
    self->host = host;
    MUST(leader_http_open_(&self->http, &settings, &host) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static leader_k8s self;
    static const int steps[] = {LEADER_K8S_GET_, LEADER_K8S_CREATE_, LEADER_K8S_PUT_};
    leader_call call;
    leader_entry seen;
    fuzz_input in = fuzz_open(data, size);
    fuzz_reset();
    answer_open(&self);
    memset(&call, 0, sizeof call);
    memset(&seen, 0, sizeof seen);
    char *head = fuzz_line(&in);
    int op = head[0] >= '1' && head[0] <= '4' ? head[0] - '0' : 1;
    self.step = steps[head[0] && head[1] >= '0' && head[1] <= '2' ? head[1] - '0' : 0];
    self.ask.status = head[0] && head[1] ? strtol(head + 2, NULL, 10) : 200;
    free(head);
    bool wrote = self.step == LEADER_K8S_PUT_;
    call.begins = wrote && op == 1;
    call.competes = !wrote && op == 1;
    if (wrote) {
        answer_know(&self);
        snprintf(self.sent.holder, sizeof self.sent.holder, "%s", op == 3 ? "" : "node-a");
        self.sent.nonce = 0x0123456789abcdef;
        self.sent.token = ANSWER_TOKEN;
        self.sent.lease_ms = 15000;
        MUST(leader_k8s_compose_(&self, call.begins));
    }
    answer_token_file(&self, in);
    answer_fill(&self.ask.reply, in, self.sent_renew);
    self.ask.owner = &self.http;
    self.http.exchanges = &self.ask;
    char *body = fuzz_text(self.ask.reply.at, self.ask.reply.len);
    size_t length = self.ask.reply.len;
    long status = self.ask.status;
    int step = self.step;

    leader_result result =
        wrote ? leader_k8s_write_answer_(&self, &call, &seen) : leader_k8s_read_answer_(&self, &call, &seen);
    MUST(result < 0 || result == LEADER_OK || result == LEADER_LOST || result == LEADER_PENDING);
    MUST(result != LEADER_PENDING || !wrote);  // a token file would be read again: there is none
    MUST(result != LEADER_PENDING || status == 404 || (status == 409 && step == LEADER_K8S_CREATE_));
    MUST(result != LEADER_LOST || (wrote && (status == 409 || status == 404)));
    MUST(seen.token < UINT64_C(1) << 53 && memchr(seen.holder, 0, sizeof seen.holder)
         && fuzz_is_utf8(seen.holder, strlen(seen.holder)));
    MUST(result < 0 || fuzz_is_utf8(seen.value, strlen(seen.value)));
    if (result == LEADER_OK && wrote)
        MUST(status == 200 && answer_is_what_was_sent(&self, body, length, op == 3)
             && seen.token == ANSWER_TOKEN);
    if (result == LEADER_OK && !wrote)
        MUST(status == 200 || status == 201 || (status == 404 && !call.competes && !seen.version[0]));
    if (result == LEADER_OK && status != 404) MUST(seen.version[0] && seen.revision && seen.origin);
    if (result < 0) MUST(!seen.version[0] || wrote);
    free(body);
    leader_http_close_(&self.http);
    leader_k8s_free_texts_(&self);
    return 0;
}

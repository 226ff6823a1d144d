/* The stream of a watch, in pieces of any size: what is known in the end does not depend on where they were cut, and knowledge
   never goes back. The first bytes of a line may be anything; a line that is no event gives the watch up. */
#ifndef LEADER_WITH_K8S
#  define LEADER_WITH_K8S
#endif
#include "fuzz.h"
#include "json.h"

static void watch_open(leader_k8s *self) {
    static const char start[] = "{\"kind\":\"Lease\",\"metadata\":{\"name\":\"demo\",\"namespace\":\"default\",\"uid\":\"u\",\"resourceVersion\":\"100\"},"
                                "\"spec\":{\"holderIdentity\":\"node-b\",\"leaseDurationSeconds\":15}}";
    leader_k8s_lease_ lease;
    memset(self, 0, sizeof *self);
    memcpy(self->name_, "demo", 5);
    memcpy(self->namespace_, "default", 8);
    memcpy(self->identity_, "node-a", 7);
    self->nonce_ = 0x0123456789abcdef;
    self->host_ = fuzz_host();
    self->client_ = &self->own_;
    MUST(leader_k8s_copy_(&self->ask_.reply, start, sizeof start - 1));
    MUST(leader_k8s_read_(self, self->ask_.reply.at, self->ask_.reply.len, &lease) == NULL);
    leader_k8s_learn_(self, &self->ask_.reply, &lease);
    self->ask_.owner = self->watch_.owner = self;
    self->watch_.running = self->watch_open_ = self->watch_wanted_ = true;
    self->watch_version_ = 100;
    self->watch_behind_ms_ = -1;
}

/* Feeds the bytes in pieces of `piece` bytes (0: of varied size), reading after each. True: an attempt to acquire was worth its while. */
static bool watch_feed(leader_k8s *self, const uint8_t *data, size_t size, size_t piece) {
    bool worth = false;
    for (size_t at = 0; at < size && self->watch_.running;) {
        size_t n = piece ? piece : (size_t)(fuzz_random64() >> 33) % 40;
        uint64_t version = self->lease_.version, watched = self->watch_version_;
        char *copy;
        if (n > size - at) n = size - at;
        copy = fuzz_text(data + at, n);
        MUST(leader_k8s_on_data_(copy, 1, n, &self->watch_) == n);
        free(copy);
        at += n;
        if (leader_k8s_watch_read_(self)) worth = true;
        MUST(self->lease_.version >= version && self->watch_version_ >= watched);
        MUST(memchr(self->watch_.reply.at ? self->watch_.reply.at : "", '\n', self->watch_.reply.len) == NULL || !self->watch_.running);
    }
    return worth;
}

static void watch_close(leader_k8s *self) {
    leader_k8s_free_(&self->ask_.reply);
    leader_k8s_free_(&self->watch_.reply);
    leader_k8s_free_(&self->doc_);
}

static void watch_compare(const leader_k8s *a, const leader_k8s *b) {
    MUST(a->doc_.len == b->doc_.len && memcmp(a->doc_.at, b->doc_.at, a->doc_.len) == 0);
    MUST(a->watch_.running == b->watch_.running && a->watch_version_ == b->watch_version_ && a->watch_news_ == b->watch_news_);
    MUST(a->watch_pause_ms_ == b->watch_pause_ms_ && a->watch_after_ms_ == b->watch_after_ms_ && a->watch_behind_ms_ == b->watch_behind_ms_);
    MUST(a->must_read_ == b->must_read_ && a->forgot_ == b->forgot_ && a->duplicate_ == b->duplicate_ && a->doubt_until_ms_ == b->doubt_until_ms_);
    MUST(a->token_max_ == b->token_max_ && a->version_max_ == b->version_max_ && a->longest_ms_ == b->longest_ms_);
    MUST(a->watch_.reply.len == b->watch_.reply.len);
    MUST(a->watch_.reply.len == 0 || memcmp(a->watch_.reply.at, b->watch_.reply.at, a->watch_.reply.len) == 0);
}

/* Does what is known stand in the stream, as the object of one of its lines, or is it what was known before? */
static void watch_origin(const leader_k8s *self, const uint8_t *data, size_t size) {
    fuzz_input in = fuzz_open(data, size);
    bool found = self->lease_.version == 100, ended = false;
    while (!found && !ended && in.at < in.end) {
        json_span root, member, object;
        int depth;
        const uint8_t *start = in.at;
        free(fuzz_line(&in));
        size_t length = (size_t)(in.at - start) - 1;
        char *line = fuzz_text(start, length);
        if (start + length < in.end && start[length] == '\n' && json_document(line, length, &root, &depth) && json_find(root, "object", &member, &object) == 1)
            found = (size_t)(object.end - object.at) == self->doc_.len && memcmp(object.at, self->doc_.at, self->doc_.len) == 0;
        ended = start + length >= in.end;
        free(line);
    }
    MUST(found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static leader_k8s whole, other;
    static const size_t pieces[] = {1, 0, 61};
    fuzz_reset();
    watch_open(&whole);
    bool worth = watch_feed(&whole, data, size, size ? size : 1);
    watch_origin(&whole, data, size);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        if (pieces[i] == 1 && size > 600) continue;                    /* each byte is a read of all that came before it     */
        watch_open(&other);
        MUST(watch_feed(&other, data, size, pieces[i]) == worth);
        watch_compare(&whole, &other);
        watch_close(&other);
    }
    watch_close(&whole);
    return 0;
}

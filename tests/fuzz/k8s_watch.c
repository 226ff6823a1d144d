/* The stream of a watch, in pieces of any size: what is known in the end does not depend on where they
   were cut, and knowledge never goes back. The first bytes of a line may be anything; a line that is no
   event gives the watch up. */
#ifndef LEADER_WITH_K8S
#  define LEADER_WITH_K8S
#endif
#include "fuzz.h"
#include "json.h"

static void watch_open(leader_k8s *self) {
    static const char start[] = "{\"kind\":\"Lease\",\"metadata\":{\"name\":\"demo\",\"namespace\":"
                                "\"default\",\"uid\":\"u\",\"resourceVersion\":\"100\"},"
                                "\"spec\":{\"holderIdentity\":\"node-b\",\"leaseDurationSeconds\":15}}";
    memset(self, 0, sizeof *self);
    memcpy(self->name, "demo", 5);
    memcpy(self->name_space, "default", 8);
    self->host = fuzz_host();
    self->http.client = &self->http.own;
    MUST(leader_http_copy_(&self->doc, start, sizeof start - 1));
    MUST(leader_k8s_read_(self, self->doc.at, self->doc.len, &self->lease) == NULL);
    self->watch.owner = &self->http;
    self->watch.streams = self->watch.running = self->watch_open = true;
    self->watch.status = 200;
    self->watch_version = 100;
    self->watch_behind_ms = -1;
}

/* All news that there are. How many told of a change. */
static int watch_news(leader_k8s *self) {
    int changes = 0;
    for (;;) {
        leader_entry found;
        memset(&found, 0, sizeof found);
        leader_news news = self->watch.running ? leader_k8s_watch_read_(self, &found) : LEADER_NEWS_NONE;
        if (news == LEADER_NEWS_NONE) return changes;
        MUST(news == LEADER_NEWS_LISTENING || news == LEADER_NEWS_RECORD || news == LEADER_NEWS_CHANGED);
        if (news == LEADER_NEWS_RECORD)
            MUST(found.revision == self->lease.entry.revision && found.version[0]
                 && fuzz_is_utf8(found.holder, strlen(found.holder)));
        changes += news != LEADER_NEWS_LISTENING;
    }
}

/* Feeds the bytes in pieces of `piece` bytes (0: of varied size), reading after each. How many changes
   were told. */
static int watch_feed(leader_k8s *self, const uint8_t *data, size_t size, size_t piece) {
    int changes = 0;
    for (size_t at = 0; at < size && self->watch.running;) {
        size_t n = piece ? piece : (size_t)(fuzz_random64() >> 33) % 40;
        uint64_t version = self->lease.entry.revision, watched = self->watch_version;
        char *copy;
        if (n > size - at) n = size - at;
        copy = fuzz_text(data + at, n);
        MUST(leader_http_on_data_(copy, 1, n, &self->watch) == n);
        free(copy);
        at += n;
        changes += watch_news(self);
        MUST(self->lease.entry.revision >= version && self->watch_version >= watched);
        MUST(memchr(self->watch.reply.at ? self->watch.reply.at : "", '\n', self->watch.reply.len) == NULL
             || !self->watch.running);
    }
    return changes;
}

static void watch_close(leader_k8s *self) {
    leader_http_free_(&self->watch.reply);
    leader_k8s_free_texts_(self);
}

static void watch_compare(const leader_k8s *a, const leader_k8s *b) {
    MUST(a->doc.len == b->doc.len && memcmp(a->doc.at, b->doc.at, a->doc.len) == 0);
    MUST(a->watch.running == b->watch.running && a->watch_version == b->watch_version
         && a->watch_news == b->watch_news);
    MUST(a->watch_pause_ms == b->watch_pause_ms && a->watch_after_ms == b->watch_after_ms
         && a->watch_behind_ms == b->watch_behind_ms);
    MUST(a->watch_stale == b->watch_stale && a->watch_lost == b->watch_lost
         && a->lease.entry.revision == b->lease.entry.revision);
    if (!a->watch.running) return;  // what came after a broken line is not read
    MUST(a->watch.reply.len == b->watch.reply.len);
    MUST(a->watch.reply.len == 0 || memcmp(a->watch.reply.at, b->watch.reply.at, a->watch.reply.len) == 0);
}

/* Does what is known stand in the stream, as the object of one of its lines, or is it what was known
   before? */
static void watch_origin(const leader_k8s *self, const uint8_t *data, size_t size) {
    fuzz_input in = fuzz_open(data, size);
    bool found = self->lease.entry.revision == 100, ended = false;
    while (!found && !ended && in.at < in.end) {
        json_span root, member, object;
        int depth;
        const uint8_t *start = in.at;
        free(fuzz_line(&in));
        size_t length = (size_t)(in.at - start) - 1;
        char *line = fuzz_text(start, length);
        if (start + length < in.end && start[length] == '\n' && json_document(line, length, &root, &depth)
            && json_find(root, "object", &member, &object) == 1)
            found = (size_t)(object.end - object.at) == self->doc.len
                    && memcmp(object.at, self->doc.at, self->doc.len) == 0;
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
    int changes = watch_feed(&whole, data, size, size ? size : 1);
    watch_origin(&whole, data, size);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        if (pieces[i] == 1 && size > 600) continue;  // each byte is a read of all that came before it
        watch_open(&other);
        MUST(watch_feed(&other, data, size, pieces[i]) == changes);
        watch_compare(&whole, &other);
        watch_close(&other);
    }
    watch_close(&whole);
    return 0;
}

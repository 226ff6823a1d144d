/* Replies of any shape, as hiredis hands them over, to everything that reads one: the answer of a script, of WAIT, a greeting, a
   sentinel's word, a notice. Success is only what the script's five elements say in full. */
#ifndef LEADER_WITH_REDIS
#  define LEADER_WITH_REDIS
#endif
#include "fuzz.h"

static const char *const reply_words[] = {"OK", "HELD", "WAIT", "FREE", "LOST", "DUPLICATE", "CORRUPT", "master", "NOSCRIPT x", "MOVED 1 10.0.0.1:7000", "MOVED 1 :7", "NOAUTH x",
                                          "READONLY", "ERR unknown command AUTH sesame", "10.0.0.1", "6379", "node-a", "message", "subscribe", "leader:job", "\xff\xfe", ""};

static redisReply *reply_leaf(fuzz_input *in, int type) {
    redisReply *r = (redisReply *)calloc(1, sizeof *r);
    MUST(r != NULL);
    r->type = type;
    if (type == REDIS_REPLY_INTEGER) r->integer = fuzz_number(in);
    if (type != REDIS_REPLY_STRING && type != REDIS_REPLY_ERROR && type != REDIS_REPLY_STATUS) return r;
    size_t word = fuzz_byte(in);
    if (word < sizeof reply_words / sizeof reply_words[0]) {
        r->len = strlen(reply_words[word]);
        r->str = fuzz_text(reply_words[word], r->len);
    } else {
        size_t length = word < 0xf0 ? word % 32 : word == 0xf0 ? 256 : 255, left = (size_t)(in->end - in->at);
        char *text = (char *)calloc(1, length + 1);
        MUST(text != NULL);
        if (word >= 0xf0) memset(text, 'x', length);
        else memcpy(text, in->at, length < left ? length : left);
        in->at += length < left && word < 0xf0 ? length : 0;
        r->len = length;
        r->str = text;
    }
    return r;
}

/* A tree of at most so many levels. Half of the time it is one that a script could have answered. */
static redisReply *reply_tree(fuzz_input *in, int levels) {
    static const int types[8] = {REDIS_REPLY_ARRAY, REDIS_REPLY_STRING, REDIS_REPLY_INTEGER, REDIS_REPLY_ERROR, REDIS_REPLY_STATUS, REDIS_REPLY_NIL, REDIS_REPLY_ARRAY, REDIS_REPLY_STRING};
    static const int script[5] = {REDIS_REPLY_STRING, REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER, REDIS_REPLY_STRING};
    unsigned kind = fuzz_byte(in);
    bool like_script = kind >= 128 && levels > 1;
    int type = like_script ? REDIS_REPLY_ARRAY : types[kind & 7];
    if (type != REDIS_REPLY_ARRAY || levels == 0) return reply_leaf(in, type == REDIS_REPLY_ARRAY ? REDIS_REPLY_NIL : type);
    redisReply *r = reply_leaf(in, type);
    r->elements = like_script ? 5 : kind >> 3 & 7;
    r->element = (redisReply **)calloc(r->elements + 1, sizeof *r->element);
    MUST(r->element != NULL);
    for (size_t i = 0; i < r->elements; i++) r->element[i] = like_script && !(kind >> i & 1) ? reply_leaf(in, script[i]) : reply_tree(in, levels - 1);
    return r;
}

static void reply_free(redisReply *r) {
    for (size_t i = 0; i < r->elements; i++) reply_free(r->element[i]);
    free(r->element);
    free(r->str);
    free(r);
}

static bool reply_is_number(const redisReply *r) { return r->type == REDIS_REPLY_INTEGER && r->integer >= 0 && r->integer < INT64_C(1) << 53; }
static bool reply_is_text(const redisReply *r) { return r->type == REDIS_REPLY_STRING && strlen(r->str) == r->len; }

/* What the answer of a script to this operation means; LEADER_PENDING: it is none. */
static leader_result reply_meaning(const redisReply *r, int op) {
    static const struct { const char *word; int op; leader_result result; } all[] = {
        {"OK", 0, LEADER_OK}, {"OK", 1, LEADER_OK}, {"OK", 2, LEADER_OK}, {"HELD", 0, LEADER_HELD}, {"HELD", 3, LEADER_HELD}, {"WAIT", 0, LEADER_HELD},
        {"FREE", 3, LEADER_OK}, {"LOST", 1, LEADER_LOST}, {"LOST", 2, LEADER_LOST}, {"DUPLICATE", 0, LEADER_E_DUPLICATE}, {"CORRUPT", 0, LEADER_E_CORRUPT},
        {"CORRUPT", 3, LEADER_E_CORRUPT}};
    if (r->type != REDIS_REPLY_ARRAY || r->elements != 5 || !reply_is_text(r->element[0]) || !reply_is_text(r->element[4]) || r->element[4]->len > 255) return LEADER_PENDING;
    for (int i = 1; i < 4; i++) if (!reply_is_number(r->element[i])) return LEADER_PENDING;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].word, r->element[0]->str) == 0 && all[i].op == op) return fuzz_is_utf8(r->element[4]->str, r->element[4]->len) ? all[i].result : LEADER_E_CORRUPT;
    return LEADER_PENDING;
}

static leader_redis reply_client;
static leader_redis_election reply_job;

static void reply_setup(int op, unsigned flags) {
    leader_redis_settings s;
    leader_host host = fuzz_host();
    memset(&s, 0, sizeof s);
    s.host = "10.0.0.9";
    s.wait_replicas = flags & 1 ? 2 : 0;
    s.password = "sesame";
    leader_redis_init(&reply_client, &s);
    MUST(!reply_client.error[0]);
    (void)leader_redis_backend(&reply_job, &reply_client, "job");
    MUST(leader_redis_open_(&reply_job, &host) == NULL);
    reply_client.caller = &reply_job;
    reply_client.now_ms = fuzz_now_ms;
    reply_client.target = reply_client.fixed;
    reply_client.stage = LEADER_REDIS_READY_;
    reply_job.op = op;
    reply_job.term_token = 7;
    reply_job.phase = LEADER_REDIS_SENT_;
    reply_job.expected = reply_client.unanswered = s.wait_replicas && op <= LEADER_REDIS_RENEW_ ? 2 : 1;
}

/* One operation: its answer, and with wait_replicas what WAIT says. */
static void reply_operation(int op, unsigned flags, redisReply *answer, redisReply *replicas) {
    redisAsyncContext ac;
    leader_record seen;
    leader_redis_election *e = &reply_job;
    memset(&ac, 0, sizeof ac);
    memset(&seen, 0, sizeof seen);
    reply_setup(op, flags);
    bool two = reply_job.expected == 2;
    leader_redis_on_reply_(&ac, answer, e);
    if (two && e->phase == LEADER_REDIS_SENT_) leader_redis_on_reply_(&ac, replicas, e);
    leader_result meant = reply_meaning(answer, op);
    if (e->phase == LEADER_REDIS_WAITING_) {                    /* to be repeated: with the script's text, or elsewhere       */
        MUST(answer->type == REDIS_REPLY_ERROR && (strncmp(answer->str, "NOSCRIPT", 8) == 0 || strncmp(answer->str, "MOVED ", 6) == 0));
        MUST(strncmp(answer->str, "MOVED ", 6) != 0 || (reply_client.moved.host[0] && reply_client.moved.port >= 1 && reply_client.moved.port <= 65535));
        leader_redis_close_(e);
        return;
    }
    MUST(e->phase == LEADER_REDIS_DONE_);
    fuzz_said[0] = 0;
    leader_result got = leader_redis_deliver_(e, &seen);
    MUST(got == LEADER_OK || got == LEADER_HELD || got == LEADER_LOST || (got < 0 && fuzz_said[0]));
    for (const char *p = fuzz_said; *p; p++) MUST(*p >= ' ' && *p <= '~');
    if (op == LEADER_REDIS_RENEW_ && meant == LEADER_OK && answer->element[1]->integer != 7) meant = LEADER_PENDING;
    if (two && meant == LEADER_OK) meant = replicas->type == REDIS_REPLY_INTEGER && replicas->integer >= 2 ? LEADER_OK : LEADER_E_IO;
    if (meant != LEADER_PENDING) MUST(got == meant);
    else MUST(got < 0 && seen.token == 0 && !seen.holder[0]);
    if (got >= 0) MUST(seen.token == (uint64_t)answer->element[1]->integer && seen.expires_in_ms == answer->element[2]->integer && strcmp(seen.holder, answer->element[4]->str) == 0);
    leader_redis_close_(e);
}

static void reply_greeting(redisReply *reply) {
    static const char *const steps[] = {leader_redis_auth_, leader_redis_select_, leader_redis_role_, leader_redis_ask_};
    for (size_t i = 0; i < 4; i++) {
        redisAsyncContext ac;
        memset(&ac, 0, sizeof ac);
        reply_setup(0, 0);
        reply_client.main.greeting = 2;
        ac.data = &reply_client.main;
        leader_redis_on_greeting_(&ac, reply, (void *)(uintptr_t)steps[i]);
        MUST(reply_client.main.greeting == 1 || reply_client.main.doomed);
        MUST(!strstr(reply_client.why, "sesame") || steps[i] != leader_redis_auth_);
        if (reply_client.found) MUST(i == 3 && reply_client.target.host[0] && reply_client.target.port >= 1 && reply_client.target.port <= 65535);
        leader_redis_close_(&reply_job);
    }
}

/* The reader lets through only notices of three elements whose first two are texts. */
static void reply_notice(redisReply *reply) {
    redisAsyncContext ac;
    memset(&ac, 0, sizeof ac);
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 && (reply->element[0]->type != REDIS_REPLY_STRING || reply->element[1]->type != REDIS_REPLY_STRING)) return;
    reply_setup(0, 0);
    ac.data = &reply_client.watch;
    leader_redis_on_notice_(&ac, reply, NULL);
    if (reply_job.noticed) MUST(reply->elements == 3 && reply->element[1]->len == strlen(reply_job.key) && memcmp(reply->element[1]->str, reply_job.key, reply->element[1]->len) == 0);
    leader_redis_close_(&reply_job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = fuzz_open(data, size);
    fuzz_reset();
    unsigned flags = fuzz_byte(&in);
    redisReply *first = reply_tree(&in, 3), *second = reply_tree(&in, 1);
    for (int op = 0; op < LEADER_REDIS_OPS_; op++) reply_operation(op, flags, first, second);
    reply_greeting(first);
    reply_notice(first);
    reply_free(first);
    reply_free(second);
    return 0;
}

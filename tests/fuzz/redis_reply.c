/* Replies of any shape, as hiredis hands them over, to everything that reads one: the answer of a script,
   of WAIT, a greeting, a sentinel's word, a notice. Success is only what the script's nine elements say
   in full. */
#ifndef LEADER_WITH_REDIS
#  define LEADER_WITH_REDIS
#endif
#include "fuzz.h"

static const char *const reply_words[] = {"OK",
                                          "HELD",
                                          "WAIT",
                                          "FREE",
                                          "LOST",
                                          "DUPLICATE",
                                          "CORRUPT",
                                          "SAME",
                                          "FOREIGN",
                                          "master",
                                          "NOSCRIPT x",
                                          "MOVED 1 10.0.0.1:7000",
                                          "MOVED 1 :7",
                                          "NOAUTH x",
                                          "READONLY",
                                          "ERR unknown command AUTH sesame",
                                          "10.0.0.1",
                                          "6379",
                                          "node-a",
                                          "message",
                                          "subscribe",
                                          "leader:job@0",
                                          "\xff\xfe",
                                          "",
                                          "leader:job",
                                          "00000000000000aa",
                                          "00000000000000000009",
                                          "7 00000000000000000009 00000000000000aa 15000 me",
                                          "7 00000000000000000001 00000000000000bb 15000 node-b",
                                          "7 00000000000000000008 00000000000000aa 15000 me"};

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
    static const int types[8] = {REDIS_REPLY_ARRAY, REDIS_REPLY_STRING, REDIS_REPLY_INTEGER,
                                 REDIS_REPLY_ERROR, REDIS_REPLY_STATUS, REDIS_REPLY_NIL,
                                 REDIS_REPLY_ARRAY, REDIS_REPLY_STRING};
    static const int script[9] = {REDIS_REPLY_STRING,  REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER,
                                  REDIS_REPLY_INTEGER, REDIS_REPLY_STRING,  REDIS_REPLY_STRING,
                                  REDIS_REPLY_STRING,  REDIS_REPLY_STRING,  REDIS_REPLY_STRING};
    unsigned kind = fuzz_byte(in);
    bool like_script = kind >= 128 && levels > 1;
    int type = like_script ? REDIS_REPLY_ARRAY : types[kind & 7];
    if (type != REDIS_REPLY_ARRAY || levels == 0)
        return reply_leaf(in, type == REDIS_REPLY_ARRAY ? REDIS_REPLY_NIL : type);
    redisReply *r = reply_leaf(in, type);
    r->elements = like_script ? 9 : kind >> 3 & 15;
    r->element = (redisReply **)calloc(r->elements + 1, sizeof *r->element);
    MUST(r->element != NULL);
    for (size_t i = 0; i < r->elements; i++)
        r->element[i] =
            like_script && !(kind >> i % 5 & 1) ? reply_leaf(in, script[i]) : reply_tree(in, levels - 1);
    return r;
}

static void reply_free(redisReply *r) {
    for (size_t i = 0; i < r->elements; i++) reply_free(r->element[i]);
    free(r->element);
    free(r->str);
    free(r);
}

static bool reply_is_number(const redisReply *r) {
    return r->type == REDIS_REPLY_INTEGER && r->integer >= 0 && r->integer < INT64_C(1) << 53;
}
static bool reply_is_text(const redisReply *r) {
    return r->type == REDIS_REPLY_STRING && strlen(r->str) == r->len;
}

/* What the answer of the script to this operation means; LEADER_PENDING: it is none. */
static leader_result reply_meaning(const redisReply *r, int op) {
    static const struct { const char *word; int op; leader_result result; } all[] = {
        {"OK", 0, LEADER_OK},
        {"OK", 1, LEADER_OK},
        {"OK", 2, LEADER_OK},
        {"HELD", 0, LEADER_HELD},
        {"HELD", 3, LEADER_HELD},
        {"WAIT", 0, LEADER_HELD},
        {"FOREIGN", 0, LEADER_HELD},
        {"FOREIGN", 3, LEADER_HELD},
        {"SAME", 0, LEADER_HELD},
        {"SAME", 3, LEADER_HELD},
        {"FREE", 3, LEADER_OK},
        {"LOST", 1, LEADER_LOST},
        {"LOST", 2, LEADER_LOST},
        {"DUPLICATE", 0, LEADER_E_DUPLICATE},
        {"CORRUPT", 0, LEADER_E_CORRUPT},
        {"CORRUPT", 3, LEADER_E_CORRUPT}};
    if (r->type != REDIS_REPLY_ARRAY || r->elements != 9) return LEADER_PENDING;
    for (int i = 1; i < 4; i++) if (!reply_is_number(r->element[i])) return LEADER_PENDING;
    for (int i = 0; i < 9; i += i == 0 ? 4 : 1) if (!reply_is_text(r->element[i])) return LEADER_PENDING;
    if (r->element[8]->len > LEADER_REDIS_MARK_MAX_) return LEADER_PENDING;
    if (strcmp(r->element[5]->str, "leader:job") || strcmp(r->element[6]->str, "00000000000000aa")
        || strcmp(r->element[7]->str, "00000000000000000009"))
        return LEADER_PENDING;
    bool of_ours = strcmp(r->element[4]->str, "7 00000000000000000009 00000000000000aa 15000 me") == 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].word, r->element[0]->str) != 0 || all[i].op != op) continue;
        if (all[i].result == LEADER_OK && op <= LEADER_REDIS_RENEW_ && !of_ours) return LEADER_PENDING;
        return all[i].result;
    }
    return LEADER_PENDING;
}

static leader_redis_client reply_client;
static leader_redis_election reply_job;

static void reply_setup(int op, unsigned flags) {
    leader_redis_config s;
    leader_host host = fuzz_host();
    static leader_config config;
    config = *host.config;
    config.identity = "me";
    host.config = &config;
    memset(&s, 0, sizeof s);
    s.host = "10.0.0.9";
    s.wait_replicas = flags & 1 ? 2 : 0;
    s.password = "sesame";
    leader_redis_client_init(&reply_client, &s);
    MUST(!reply_client.mistake[0]);
    (void)leader_redis_shared_backend(&reply_job, &reply_client, "job");
    MUST(leader_redis_open_(&reply_job, &host) == NULL);
    reply_client.caller = &reply_job;
    reply_client.now_ms = fuzz_now_ms;
    reply_client.target = reply_client.server;
    reply_client.main.target = reply_client.server;
    reply_client.stage = LEADER_REDIS_ON_;
    reply_job.op = op;
    reply_job.nonce = 0xaa;
    reply_job.seq = reply_job.term_seq = 9;
    reply_job.term_token = 7;
    reply_job.serial = 1;
    reply_job.phase = LEADER_REDIS_SENT_;
    reply_job.record.token = 5;
    reply_job.record.seq = 1;
    memcpy(reply_job.record.holder, "before", 7);
}

/* One operation: its answer, and with wait_replicas what WAIT says. */
static void reply_operation(int op, unsigned flags, redisReply *answer, redisReply *replicas) {
    leader_record seen;
    leader_redis_election *e = &reply_job;
    memset(&seen, 0, sizeof seen);
    reply_setup(op, flags);
    leader_redis_expect_(&reply_client.main, LEADER_REDIS_SCRIPT_, e);
    leader_redis_expect_(&reply_client.main, LEADER_REDIS_REPLICAS_, e);
    leader_redis_take_reply_(&reply_client.main, answer);
    bool two = e->phase == LEADER_REDIS_REPLICATING_;
    leader_redis_take_reply_(&reply_client.main, replicas);
    leader_result meant = reply_meaning(answer, op);
    reply_client.main.doomed = false;
    if (e->phase == LEADER_REDIS_WAITING_) {  // to be repeated: with the script's text, or elsewhere
        MUST(answer->type == REDIS_REPLY_ERROR
             && (strncmp(answer->str, "NOSCRIPT", 8) == 0 || strncmp(answer->str, "MOVED ", 6) == 0
                 || strncmp(answer->str, "ASK ", 4) == 0));
        MUST(strncmp(answer->str, "NOSCRIPT", 8) == 0
             || (reply_client.moved.host[0] && reply_client.moved.port >= 1
                 && reply_client.moved.port <= 65535));
        leader_redis_close_(e);
        return;
    }
    MUST(e->phase == LEADER_REDIS_DONE_);
    MUST(!two || meant == LEADER_OK);
    fuzz_said[0] = 0;
    reply_client.no_notice = true;
    leader_result got = leader_redis_deliver_(e, &seen);
    MUST(got == LEADER_OK || got == LEADER_HELD || got == LEADER_LOST || (got < 0 && fuzz_said[0]));
    for (const char *p = fuzz_said; *p; p++) MUST(*p >= ' ' && *p <= '~');
    MUST(fuzz_is_utf8(seen.holder, strlen(seen.holder)));
    if (two)
        meant = replicas->type == REDIS_REPLY_INTEGER && replicas->integer >= 2 ? LEADER_OK : LEADER_E_IO;
    if (meant != LEADER_PENDING) MUST(got == meant);
    else MUST(got < 0 && seen.token == 0 && !seen.holder[0]);
    if (got == LEADER_OK && op <= LEADER_REDIS_RENEW_)
        MUST(seen.token == 7 && strcmp(seen.holder, "me") == 0);
    leader_redis_close_(e);
}

static void reply_greeting(redisReply *reply) {
    for (int kind = LEADER_REDIS_AUTH_; kind <= LEADER_REDIS_MASTER_; kind++) {
        reply_setup(0, 0);
        reply_client.stage = LEADER_REDIS_GOING_;
        reply_client.main.stage = LEADER_REDIS_GREETING_;
        reply_client.main.greetings = 2;
        leader_redis_expect_(&reply_client.main, kind, NULL);
        leader_redis_take_reply_(&reply_client.main, reply);
        MUST(reply_client.main.greetings == 1);
        MUST(!strstr(reply_client.why, "sesame") || kind != LEADER_REDIS_AUTH_);
        for (const char *p = reply_client.why; *p; p++) MUST(*p >= ' ' && *p <= '~');
        if (reply_client.named.host[0])
            MUST(kind == LEADER_REDIS_MASTER_ && reply_client.named.port >= 1
                 && reply_client.named.port <= 65535);
        leader_redis_close_(&reply_job);
    }
}

static void reply_notice(redisReply *reply) {
    reply_setup(0, 0);
    leader_redis_take_reply_(&reply_client.watch, reply);
    if (reply_job.noticed)
        MUST(reply->elements == 3 && strcmp(reply->element[0]->str, "message") == 0
             && strcmp(reply->element[1]->str, "leader:job@0") == 0);
    leader_redis_close_(&reply_job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = fuzz_open(data, size);
    fuzz_reset();
    unsigned flags = fuzz_byte(&in);
    redisReply *first = reply_tree(&in, 3), *second = reply_tree(&in, 1);
    for (int op = 0; op <= LEADER_REDIS_OBSERVE_; op++) reply_operation(op, flags, first, second);
    reply_greeting(first);
    reply_notice(first);
    reply_free(first);
    reply_free(second);
    return 0;
}

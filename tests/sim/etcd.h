/* An etcd of three members, for the real mapping of backends/leader_etcd.h: its JSON gateway with base64,
   transactions that compare, watch streams that begin in the past and are compacted, tokens that become
   void, members that are lost, rebuilt clusters and backups restored. What a transaction does is
   decided by the comparisons that it has, and by nothing else. */

enum { ETCD_MEMBERS = 3, ETCD_EVENTS = 3 };

typedef struct etcd_state {
    bool exists;
    uint64_t cluster, revision;
    uint64_t created, modified;
    char value[8192]; // base64
} etcd_state;

typedef struct etcd_change {
    bool put;
    uint64_t created, modified;
    char value[8192];
} etcd_change;

static struct {
    etcd_state now, backup;
    bool has_backup;
    etcd_change last[ETCD_EVENTS]; // the youngest last
    int changes;
    uint64_t oldest; // compacted up to here
    bool users; // requests need a token
    uint64_t token;
    int64_t lost_us[ETCD_MEMBERS]; // until then; what it does then:
    int lost_how[ETCD_MEMBERS];
} etcd;

typedef enum etcd_loss { ETCD_SILENT, ETCD_REFUSES, ETCD_NO_QUORUM } etcd_loss;

/* ---- what happens to the key --------------------------------------------------------------------------- */
static void etcd_header(tcp_bytes *out) {
    char text[160];
    snprintf(
        text, sizeof text,
        "\"header\":{\"cluster_id\":\"%llu\",\"member_id\":\"7\",\"revision\":\"%llu\",\"raft_term\":\"2\"}",
        (unsigned long long)etcd.now.cluster, (unsigned long long)etcd.now.revision);
    bytes_add(out, text, strlen(text));
}

static void etcd_words(tcp_bytes *out, const char *text) {
    bytes_add(out, text, strlen(text));
}

static void etcd_kv(tcp_bytes *out, uint64_t created, uint64_t modified, const char *value) {
    char text[200];
    snprintf(text, sizeof text,
             "{\"key\":\"L2xlYWRlci9qb2I=\",\"create_revision\":\"%llu\",\"mod_revision\":\"%llu\","
             "\"version\":\"1\"",
             (unsigned long long)created, (unsigned long long)modified);
    etcd_words(out, text);
    if (value[0]) { // what is empty is left out
        etcd_words(out, ",\"value\":\"");
        etcd_words(out, value);
        etcd_words(out, "\"");
    }
    etcd_words(out, "}");
}

static void etcd_event(tcp_bytes *out, const etcd_change *change) {
    char text[120];
    if (change->put) {
        etcd_words(out, "{\"kv\":");
        etcd_kv(out, change->created, change->modified, change->value);
        etcd_words(out, "}");
        return;
    }
    snprintf(text, sizeof text,
             "{\"type\":\"DELETE\",\"kv\":{\"key\":\"L2xlYWRlci9qb2I=\",\"mod_revision\":\"%llu\"}}",
             (unsigned long long)change->modified);
    etcd_words(out, text);
}

/* The changes from a revision on, in one line. False: there is none. */
static bool etcd_events_line(tcp_bytes *line, uint64_t from) {
    bool any = false;
    etcd_words(line, "{\"result\":{");
    etcd_header(line);
    etcd_words(line, ",\"events\":[");
    for (int i = 0; i < etcd.changes; i++) {
        if (etcd.last[i].modified >= from) {
            etcd_words(line, any ? "," : "");
            etcd_event(line, &etcd.last[i]);
            any = true;
        }
    }
    etcd_words(line, "]}}\n");
    return any;
}

static void etcd_changed(bool put) {
    tcp_bytes line = {NULL, 0, 0};
    if (etcd.changes == ETCD_EVENTS) {
        etcd.changes--;
        memmove(etcd.last, etcd.last + 1, sizeof etcd.last - sizeof etcd.last[0]);
    }
    etcd_change *change = &etcd.last[etcd.changes++];
    change->put = put;
    change->created = etcd.now.created;
    change->modified = etcd.now.revision;
    memcpy(change->value, etcd.now.value, sizeof change->value);
    bool batched = etcd.changes > 1 && rng_percent(&sim.net_rng, 10); // a slow stream gets two at once
    etcd_events_line(&line, batched ? etcd.last[etcd.changes - 2].modified : change->modified);
    watchers_tell(line.at);
    free(line.at);
}

static void etcd_put(const char *value) {
    etcd.now.revision++;
    if (!etcd.now.exists) {
        etcd.now.created = etcd.now.revision;
    }
    etcd.now.exists = true;
    etcd.now.modified = etcd.now.revision;
    snprintf(etcd.now.value, sizeof etcd.now.value, "%s", value);
    if (rng_permille(&sim.net_rng, 50)) {
        etcd.backup = etcd.now;
        etcd.has_backup = true;
    }
    etcd_changed(true);
}

static void etcd_delete(void) {
    if (!etcd.now.exists) {
        return;
    }
    etcd.now.revision++;
    etcd.now.exists = false;
    etcd_changed(false);
}

/* An operator writes the key anew, as it was or as something that is no record. */
static bool etcd_recreate(void) {
    static char value[sizeof etcd.now.value];
    if (!etcd.now.exists) {
        return false;
    }
    snprintf(value, sizeof value, "%s", etcd.now.value);
    etcd_delete();
    etcd_put(value);
    return true;
}

static bool etcd_label(void) { // the same value once more: other numbers
    static char value[sizeof etcd.now.value];
    if (!etcd.now.exists) {
        return false;
    }
    snprintf(value, sizeof value, "%s", etcd.now.value);
    etcd_put(value);
    return true;
}

static void etcd_lose_history(void) {
    http_server_ends();
    etcd.changes = 0;
    etcd.oldest = 0;
    etcd.token++;
}

static void etcd_wipe(void) { // set up anew: another cluster, or the same numbers again
    if (rng_percent(&sim.rng, 50)) {
        etcd.now.cluster++;
    }
    etcd.now.exists = false;
    etcd.now.revision = (uint64_t)rng_log(&sim.rng, 1, 1000);
    etcd.has_backup = false;
    etcd_lose_history();
}

/* Only who has seen what came after the backup can notice that it was lost, which is what the promise
   says. */
static bool etcd_restore(void) {
    if (!etcd.has_backup || etcd.backup.cluster != etcd.now.cluster) {
        return false;
    }
    for (int i = 0; i < sim.count; i++) {
        const candidate *c = &sim.all[i];
        if (c->up && !c->plan.observer && c->etcd.engine.last.revision <= etcd.backup.revision) {
            return false;
        }
    }
    etcd.now = etcd.backup;
    sim.restored_us = sim.now_us;
    if (rng_percent(&sim.rng, 50)) {
        etcd.now.cluster++;
    }
    etcd_lose_history();
    return true;
}

static void etcd_lose_member(int64_t spell_us) {
    int64_t members = rng_range(&sim.rng, 1, 2); // one, or the quorum
    for (int64_t i = 0; i < members; i++) {
        int at = (int)rng_range(&sim.rng, 0, ETCD_MEMBERS - 1);
        etcd.lost_us[at] = sim.now_us + spell_us;
        etcd.lost_how[at] = (int)rng_range(&sim.rng, ETCD_SILENT, ETCD_NO_QUORUM);
    }
}

static void etcd_compact(void) {
    etcd.oldest = etcd.now.revision;
}

static void etcd_reset(void) {
    memset(&etcd, 0, sizeof etcd);
    etcd.now.cluster = 14841639068965178418u;
    etcd.now.revision = 1;
    etcd.token = 1;
}

/* ---- answers ------------------------------------------------------------------------------------------- */
static void etcd_error(http_packet *reply, long status, const char *words) {
    char text[200];
    snprintf(text, sizeof text, "{\"error\":\"%s\",\"message\":\"%s\",\"code\":14}", words, words);
    reply->status = status;
    reply->ends = true;
    reply->body.len = 0;
    etcd_words(&reply->body, text);
}

static leader_json_ etcd_member(leader_json_ object, const char *name) {
    leader_json_ value = {"", 0};
    leader_json_member_(object, name, &value);
    return value;
}

static void etcd_text(leader_json_ object, const char *name, char *out, size_t cap) {
    if (!leader_json_string_(etcd_member(object, name), out, cap)) {
        out[0] = 0;
    }
}

static leader_json_ etcd_parse(const http_packet *request) {
    leader_json_ root = {"", 0};
    size_t bad_at;
    if (!leader_json_parse_(request->body.at, request->body.len, &root, &bad_at)) {
        violation(&run.others, "%s: a body that is not JSON", request->path);
    }
    return root;
}

static void etcd_check_key(leader_json_ object) {
    char key[64];
    etcd_text(object, "key", key, sizeof key);
    if (strcmp(key, "L2xlYWRlci9qb2I=") != 0) {
        violation(&run.others, "a request about another key: %s", key);
    }
}

static bool etcd_compares(leader_json_ one) {
    static char text[sizeof etcd.now.value];
    char target[16];
    etcd_check_key(one);
    etcd_text(one, "target", target, sizeof target);
    if (strcmp(target, "CREATE") == 0) {
        etcd_text(one, "create_revision", text, sizeof text);
        return strtoull(text, NULL, 10) == (etcd.now.exists ? etcd.now.created : 0);
    }
    if (strcmp(target, "MOD") == 0) {
        etcd_text(one, "mod_revision", text, sizeof text);
        return strtoull(text, NULL, 10) == (etcd.now.exists ? etcd.now.modified : 0);
    }
    etcd_text(one, "value", text, sizeof text);
    return etcd.now.exists && strcmp(text, etcd.now.value) == 0;
}

static void etcd_txn(const http_packet *request, http_packet *reply) {
    static char value[sizeof etcd.now.value];
    leader_json_ root = etcd_parse(request);
    leader_json_ list = etcd_member(root, "compare");
    bool good = true;
    const char *p = list.at + 1;
    const char *end = list.at + list.len;
    while (list.len > 2 && p < end && *p == '{') {
        leader_json_ one = {p, 0};
        if (!leader_json_skip_(&p, end, LEADER_JSON_DEPTH_)) {
            break;
        }
        one.len = (size_t)(p - one.at);
        good = etcd_compares(one) && good;
        p += *p == ',';
    }
    leader_json_ put = leader_etcd_last_(etcd_member(root, "success"));
    put = etcd_member(put, "request_put");
    etcd_check_key(put);
    etcd_text(put, "value", value, sizeof value);
    if (good) {
        etcd_put(value);
    }
    reply->status = 200;
    etcd_words(&reply->body, "{");
    etcd_header(&reply->body);
    etcd_words(&reply->body, good ? ",\"succeeded\":true,\"responses\":[{}]}" : "}");
}

static void etcd_range(const http_packet *request, http_packet *reply) {
    etcd_check_key(etcd_parse(request));
    reply->status = 200;
    etcd_words(&reply->body, "{");
    etcd_header(&reply->body);
    if (etcd.now.exists) {
        etcd_words(&reply->body, ",\"kvs\":[");
        etcd_kv(&reply->body, etcd.now.created, etcd.now.modified, etcd.now.value);
        etcd_words(&reply->body, "],\"count\":\"1\"");
    }
    etcd_words(&reply->body, "}");
}

static void etcd_watch(const http_packet *request, http_packet *reply) {
    char from[32];
    leader_json_ create = etcd_member(etcd_parse(request), "create_request");
    etcd_check_key(create);
    etcd_text(create, "start_revision", from, sizeof from);
    uint64_t start = strtoull(from, NULL, 10);
    http_watcher *w = watcher_new(request);
    reply->status = 200;
    reply->ends = false;
    etcd_words(&reply->body, "{\"result\":{");
    etcd_header(&reply->body);
    etcd_words(&reply->body, ",\"created\":true}}\n");
    w->last_us = sim.now_us + net_delay_us(); // what follows comes later
    if (start <= etcd.oldest) {
        watcher_tells(w, "{\"result\":{\"header\":{},\"canceled\":true,\"compact_revision\":\"9\"}}\n", true);
        return;
    }
    tcp_bytes line = {NULL, 0, 0};
    if (etcd_events_line(&line, start)) {
        watcher_tells(w, line.at, false);
    }
    free(line.at);
}

static void etcd_login(const http_packet *request, http_packet *reply) {
    char name[32];
    char password[32];
    char text[80];
    leader_json_ root = etcd_parse(request);
    etcd_text(root, "name", name, sizeof name);
    etcd_text(root, "password", password, sizeof password);
    if (strcmp(name, "app") != 0 || strcmp(password, "se\"cret") != 0) {
        violation(&run.others, "a login as %s with %s", name, password);
    }
    snprintf(text, sizeof text, ",\"token\":\"tok.%llu\"}", (unsigned long long)etcd.token);
    reply->status = 200;
    etcd_words(&reply->body, "{");
    etcd_header(&reply->body);
    etcd_words(&reply->body, text);
}

static void etcd_serve(const http_packet *request, http_packet *reply) {
    char token[40];
    snprintf(token, sizeof token, "tok.%llu", (unsigned long long)etcd.token);
    bool login = strcmp(request->path, "/v3/auth/authenticate") == 0;
    if (login) {
        etcd_login(request, reply);
    } else if (etcd.users && strcmp(request->authorization, token) != 0) {
        etcd_error(reply, 401, "etcdserver: invalid auth token");
    } else if (strcmp(request->path, "/v3/kv/txn") == 0) {
        etcd_txn(request, reply);
    } else if (strcmp(request->path, "/v3/kv/range") == 0) {
        etcd_range(request, reply);
    } else if (strcmp(request->path, "/v3/watch") == 0) {
        etcd_watch(request, reply);
    } else {
        violation(&run.others, "a request for %s", request->path);
    }
}

/* A member that is lost may have handed the request on before. */
static void etcd_lost(const http_packet *request, http_packet *reply, etcd_loss how) {
    if (strcmp(request->path, "/v3/watch") != 0 && rng_percent(&sim.net_rng, 20)) {
        etcd_serve(request, reply);
    }
    reply->body.len = 0;
    reply->ends = true;
    switch (how) {
    case ETCD_SILENT: reply->unheard = true; break;
    case ETCD_REFUSES:
        reply->status = 0;
        reply->result = LEADER_E_IO;
        break;
    case ETCD_NO_QUORUM: etcd_error(reply, 503, "etcdserver: no leader"); break;
    }
}

static void etcd_answers(const http_packet *request, http_packet *reply) {
    static const struct {
        long status;
        const char *text;
    } errors[] = {{503, "etcdserver: request timed out"},
                  {503, "etcdserver: no leader"},
                  {500, "internal"},
                  {429, "etcdserver: too many requests"},
                  {403, "etcdserver: permission denied"},
                  {401, "etcdserver: invalid auth token"},
                  {400, "etcdserver: mvcc: database space exceeded"}};
    int member = (int)strtol(request->server + strlen("https://m"), NULL, 10) % ETCD_MEMBERS;
    if (sim.phase == PHASE_CHAOS && sim.now_us < etcd.lost_us[member]) {
        etcd_lost(request, reply, (etcd_loss)etcd.lost_how[member]);
        return;
    }
    bool error = sim.now_us < sim.errors_us;
    if (!error || rng_percent(&sim.net_rng, 50)) { // some errors come after the deed was done
        etcd_serve(request, reply);
    }
    if (error) {
        int64_t which = rng_range(&sim.net_rng, 0, 6);
        etcd_error(reply, errors[which].status, errors[which].text);
        reply->retry_after_ms = errors[which].status == 429 ? 1000 : 0;
    }
}

static void server_answers(const http_packet *request, http_packet *reply) {
    if (sim.store == STORE_ETCD) {
        etcd_answers(request, reply);
    } else {
        api_answers(request, reply);
    }
}

static leader_backend etcd_backend(candidate *c) {
    static const char *const orders[ETCD_MEMBERS] = {"https://m0:2379,https://m1:2379,https://m2:2379",
                                                     "https://m1:2379,https://m2:2379,https://m0:2379",
                                                     "https://m2:2379,https://m0:2379,https://m1:2379"};
    leader_etcd_config where;
    memset(&where, 0, sizeof where);
    where.endpoints = orders[c->number % ETCD_MEMBERS];
    where.name = "job";
    where.user = etcd.users ? "app:se\"cret" : NULL;
    where.no_watch = c->plan.no_notice;
    return leader_etcd_backend(&c->etcd, &where);
}

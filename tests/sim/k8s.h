/* An API server with one Lease, for the real mapping of backends/leader_k8s.h: real JSON, versions and
   uids, conflicts, watch streams, errors before and after the deed, and operators who delete, re-create
   and label. */

static struct {
    bool      exists;
    tcp_bytes lease;                                            // JSON
    uint64_t  version, uids;
    char      uid[40];
    uint64_t  oldest;                                           // no watching from an older version
    int       labels;
} api;

static const char api_lease_path[] = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

static void bytes_put(tcp_bytes *b, size_t at, size_t cut, const char *text) {
    size_t len = strlen(text);
    bytes_add(b, text, len);                                    // makes room
    b->len -= len;
    memmove(b->at + at + len, b->at + at + cut, b->len - at - cut);
    memcpy(b->at + at, text, len);
    b->len += len - cut;
    b->at[b->len] = 0;
}

/* A member of the metadata; no text: there is none. */
static leader_json_ api_metadata(const tcp_bytes *lease, const char *name) {
    leader_json_ root, metadata = { "", 0 }, value = { "", 0 };
    size_t bad_at;
    if (leader_json_parse_(lease->at, lease->len, &root, &bad_at)
        && leader_json_member_(root, "metadata", &metadata)) {
        leader_json_member_(metadata, name, &value);
    }
    return value;
}

static void api_set_metadata(tcp_bytes *lease, const char *name, const char *raw) {
    leader_json_ value = api_metadata(lease, name);
    char text[256];
    if (value.len > 0) {
        bytes_put(lease, (size_t)(value.at - lease->at), value.len, raw);
        return;
    }
    char *brace = strstr(lease->at, "\"metadata\":{");
    if (!brace) {
        violation(&run.others, "a Lease without metadata was written");
        return;
    }
    snprintf(text, sizeof text, "\"%s\":%s%s", name, raw, brace[12] == '}' ? "" : ",");
    bytes_put(lease, (size_t)(brace - lease->at) + 12, 0, text);
}

static bool api_same(leader_json_ a, leader_json_ b) {
    return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

static void api_event(const char *type) {
    tcp_bytes line = { NULL, 0, 0 };
    char head[64];
    snprintf(head, sizeof head, "{\"type\":\"%s\",\"object\":", type);
    bytes_add(&line, head, strlen(head));
    bytes_add(&line, api.lease.at, api.lease.len);
    bytes_add(&line, "}\n", 2);
    watchers_tell(line.at);
    free(line.at);
}

static void api_number(void) {                                  // every change has a version of its own
    char raw[32];
    api.version++;
    snprintf(raw, sizeof raw, "\"%llu\"", (unsigned long long)api.version);
    api_set_metadata(&api.lease, "resourceVersion", raw);
}

static void api_create(const char *body, size_t len) {
    char raw[48];
    api.lease.len = 0;
    bytes_add(&api.lease, body, len);
    api.uids++;
    snprintf(api.uid, sizeof api.uid, "00000000-0000-4000-8000-%012llu", (unsigned long long)api.uids);
    snprintf(raw, sizeof raw, "\"%s\"", api.uid);
    api_set_metadata(&api.lease, "uid", raw);
    api.exists = true;
    api_number();
    api_event("ADDED");
}

static void api_delete(void) {
    if (!api.exists) {
        return;
    }
    api_number();
    api.exists = false;
    api_event("DELETED");
}

static void api_recreate(void) {
    static const char blank[] =
        "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":\"job\","
        "\"namespace\":\"default\"},\"spec\":{}}";
    api_delete();
    api_create(blank, strlen(blank));
}

static bool api_label(void) {
    char raw[48];
    if (!api.exists) {
        return false;
    }
    snprintf(raw, sizeof raw, "{\"n\":\"%d\"}", ++api.labels);
    api_set_metadata(&api.lease, "labels", raw);
    api_number();
    api_event("MODIFIED");
    return true;
}

static void api_wipe(void) {  // the cluster is built anew: versions begin again
    api.exists = false;
    api.version = (uint64_t)rng_log(&sim.rng, 1, 1000);
    api.oldest = 0;
    http_server_ends();
}

static void api_reset(void) {
    api.exists = false;
    api.version = 100;
    api.uids = 0;
    api.oldest = 0;
    api.labels = 0;
    api.lease.len = 0;
}

/* ---- answers ----------------------------------------------------------------------------------- */
static void api_status(http_packet *reply, long status, const char *reason) {
    char text[400];
    snprintf(text, sizeof text,
             "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":"
             "\"%s\","
             "\"reason\":\"%s\",\"details\":{\"name\":\"job\",\"group\":\"coordination.k8s.io\",\"kind\":"
             "\"leases\"},\"code\":%ld}",
             reason, reason, status);
    reply->status = status;
    reply->body.len = 0;
    bytes_add(&reply->body, text, strlen(text));
}

static void api_show(http_packet *reply, long status) {
    reply->status = status;
    bytes_add(&reply->body, api.lease.at, api.lease.len);
}

static void api_put(const http_packet *request, http_packet *reply) {
    char version[32], uid[48];
    if (!api.exists) {
        api_status(reply, 404, "NotFound");
        return;
    }
    bool told = leader_json_string_(api_metadata(&request->body, "resourceVersion"), version, sizeof version);
    bool named = leader_json_string_(api_metadata(&request->body, "uid"), uid, sizeof uid);
    if (!told || !named) {
        violation(&run.others, "a PUT without resourceVersion or uid");
    }
    if (strtoull(version, NULL, 10) != api.version || strcmp(uid, api.uid) != 0) {
        api_status(reply, 409, "Conflict");
        return;
    }
    if (!api_same(api_metadata(&request->body, "labels"), api_metadata(&api.lease, "labels"))) {
        violation(&run.others, "a PUT drops labels that are not its own");
    }
    api.lease.len = 0;
    bytes_add(&api.lease, request->body.at, request->body.len);
    api_number();
    api_event("MODIFIED");
    api_show(reply, 200);
}

static void api_post(const http_packet *request, http_packet *reply) {
    if (api.exists) {
        api_status(reply, 409, "AlreadyExists");
        return;
    }
    api_create(request->body.at, request->body.len);
    api_show(reply, 201);
}

static void api_watch(const http_packet *request, http_packet *reply) {
    const char *from = strstr(request->path, "resourceVersion=");
    uint64_t version = from ? strtoull(from + 16, NULL, 10) : 0;
    bool compacted = version < api.oldest || (sim.phase == PHASE_CHAOS && rng_permille(&sim.net_rng, 30));
    if (version > api.version || (compacted && rng_percent(&sim.net_rng, 50))) {
        api_status(reply, 410, "Expired");
        return;
    }
    http_watcher *w = watcher_new(request);
    reply->status = 200;
    reply->ends = false;
    if (compacted) {
        watcher_tells(
            w, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n",
            true);
    } else if (version < api.version && api.lease.len > 0) {
        tcp_bytes line = { NULL, 0, 0 };
        const char *head =
            api.exists ? "{\"type\":\"MODIFIED\",\"object\":" : "{\"type\":\"DELETED\",\"object\":";
        bytes_add(&line, head, strlen(head));
        bytes_add(&line, api.lease.at, api.lease.len);
        bytes_add(&line, "}\n", 2);
        watcher_tells(w, line.at, false);
        free(line.at);
    }
}

static void api_serve(const http_packet *request, http_packet *reply) {
    bool get = strcmp(request->method, "GET") == 0;
    if (strncmp(request->path, api_lease_path, sizeof api_lease_path - 1) != 0) {
        violation(&run.others, "a request for %s", request->path);
    } else if (get && strchr(request->path, '?')) {
        api_watch(request, reply);
    } else if (get && api.exists) {
        api_show(reply, 200);
    } else if (get) {
        api_status(reply, 404, "NotFound");
    } else if (strcmp(request->method, "PUT") == 0) {
        api_put(request, reply);
    } else {
        api_post(request, reply);
    }
}

static void api_answers(const http_packet *request, http_packet *reply) {
    static const long statuses[] = { 500, 503, 504, 429, 403, 401, 408 };
    bool error = sim.now_us < sim.errors_us;
    bool done = !error || rng_percent(&sim.net_rng, 50);        // some errors come after the deed was done
    if (done) {
        api_serve(request, reply);
    }
    if (error) {
        api_status(reply, statuses[rng_range(&sim.net_rng, 0, 6)], "Trouble");
        reply->ends = true;
        if (reply->status == 429) {
            reply->retry_after_ms = 1000;
        }
    }
}

static leader_backend k8s_backend(candidate *c) {
    leader_k8s_config where;
    memset(&where, 0, sizeof where);
    where.server = "https://sim:443";
    where.lease_name = "job";
    where.lease_namespace = "default";
    where.token = "secret";
    where.no_watch = c->plan.no_notice;
    where.leader_h_only = true;
    return leader_k8s_backend(&c->k8s, &where);
}

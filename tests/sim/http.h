/* The simulated transport behind the seam of backends/leader_http.h: requests and replies are lost, late,
   repeated and overtaken, as connections come and go; the lines of one stream keep their order, until it
   is cut or goes silent. */

typedef struct http_packet {
    struct http_packet *next;
    int        who;
    uint32_t   incarnation;
    uint64_t   id;                                              // of the exchange
    bool       unheard;                                         // its reply does not find the way back
    bool       ends;                                            // a reply: nothing follows
    leader_result result;
    long       status;
    int64_t    retry_after_ms;
    char       method[8], path[512];
    char       server[64], authorization[64];                   // as the request names them
    tcp_bytes  body;
} http_packet;

enum { HTTP_WAITING = 8, HTTP_WATCHERS = 64 };

typedef struct http_watcher {
    bool open;
    int who;
    uint32_t incarnation;
    uint64_t id;
    int64_t last_us;
} http_watcher;

static struct {
    http_packet **packets;  // by the number that their event bears; NULL: free
    int           room;
    http_packet  *inbox[SIM_CANDIDATES_MAX];                    // arrived, not read yet
    http_watcher  watchers[HTTP_WATCHERS];
} http;

static void server_answers(const http_packet *request, http_packet *reply);

/* ---- packets ----------------------------------------------------------------------------------- */
static http_packet *http_packet_new(int who, uint32_t incarnation, uint64_t id) {
    http_packet *p = (http_packet *)calloc(1, sizeof *p);
    if (!p) {
        abort();
    }
    p->who = who;
    p->incarnation = incarnation;
    p->id = id;
    return p;
}

static void http_packet_free(http_packet *p) {
    free(p->body.at);
    free(p);
}

static void http_plan(http_packet *p, event_kind kind, int64_t at_us) {
    int at = 0;
    while (at < http.room && http.packets[at]) {
        at++;
    }
    if (at == http.room) {
        http.room = http.room ? http.room * 2 : 64;
        http.packets = (http_packet **)realloc(http.packets, (size_t)http.room * sizeof *http.packets);
        if (!http.packets) {
            abort();
        }
        memset(http.packets + at, 0, (size_t)(http.room - at) * sizeof *http.packets);
    }
    http.packets[at] = p;
    plan_event(at_us, kind, p->who, 0, at);
}

static http_packet *http_take(int at) {
    http_packet *p = http.packets[at];
    http.packets[at] = NULL;
    return p;
}

static void http_empty_inbox(int who) {
    while (http.inbox[who]) {
        http_packet *p = http.inbox[who];
        http.inbox[who] = p->next;
        http_packet_free(p);
    }
}

static void http_reset(void) {
    for (int i = 0; i < http.room; i++) {
        if (http.packets[i]) {
            http_packet_free(http.packets[i]);
            http.packets[i] = NULL;
        }
    }
    for (int i = 0; i < SIM_CANDIDATES_MAX; i++) {
        http_empty_inbox(i);
    }
    memset(http.watchers, 0, sizeof http.watchers);
}

/* ---- on the way -------------------------------------------------------------------------------- */
static void http_reply(http_packet *reply, int64_t *last_us) {
    const candidate *c = &sim.all[reply->who];
    if (reply->unheard || net_loses(c->cut_replies_us, FAULT_LOST_REPLY)) {
        http_packet_free(reply);
        return;
    }
    int64_t at_us = sim.now_us + net_delay_us();
    if (last_us) {
        at_us = at_us < *last_us ? *last_us : at_us;
        *last_us = at_us;
    }
    http_plan(reply, EV_HTTP_REPLY, at_us);
}

/* A library that has sent a request on an old connection and got nothing sends it once more: then the
   answer to the first is lost, and that to the second is about what the first has done. */
static void http_send(candidate *c, const leader_http_ *to, const leader_http_request_ *request,
                      uint64_t id) {
    bool twice = net_doubles(FAULT_DUP_REQUEST);
    bool lost = net_loses(c->cut_requests_us, FAULT_LOST_REQUEST);
    for (int copy = 0; copy < (twice ? 2 : 1); copy++) {
        http_packet *p = http_packet_new(c->number, c->incarnation, id);
        snprintf(p->method, sizeof p->method, "%s", request->method);
        snprintf(p->path, sizeof p->path, "%s", request->path);
        snprintf(p->server, sizeof p->server, "%.63s", to->server);
        snprintf(p->authorization, sizeof p->authorization, "%.63s",
                 request->authorization ? request->authorization : "");
        bytes_add(&p->body, request->body ? request->body : "", request->body ? request->body_len : 0);
        p->unheard = twice && copy == 0;
        if (lost) {
            http_packet_free(p);
        } else {
            http_plan(p, EV_HTTP_REQUEST, sim.now_us + net_delay_us());
        }
    }
}

static bool http_is_waited_for(const http_packet *p) {
    const candidate *c = &sim.all[p->who];
    for (int i = 0; i < HTTP_WAITING; i++) {
        if (c->up && c->incarnation == p->incarnation && c->waiting[i] && c->waiting[i]->files == p->id) {
            return true;
        }
    }
    return false;
}

static void http_request_arrives(int at) {
    http_packet *p = http_take(at);
    bool given_up = !http_is_waited_for(p);
    if (given_up) {
        run.faults[FAULT_GIVEN_UP]++;
    }
    if (sim.now_us >= sim.outage_us) {
        http_packet *reply = http_packet_new(p->who, p->incarnation, p->id);
        reply->ends = true;
        reply->unheard = p->unheard;
        server_answers(p, reply);
        note(NULL, "the server answers %s #%llu of %d%s: %ld %.300s", p->method, (unsigned long long)p->id,
             p->who, given_up ? " (given up)" : "", reply->status, reply->body.at ? reply->body.at : "");
        http_reply(reply, NULL);
    }
    http_packet_free(p);
}

static void http_reply_arrives(int at) {
    http_packet *p = http_take(at);
    candidate *c = &sim.all[p->who];
    if (!http_is_waited_for(p)) {
        run.faults[FAULT_LATE_REPLY]++;
        http_packet_free(p);
        return;
    }
    http_packet **last = &http.inbox[p->who];
    while (*last) {
        last = &(*last)->next;
    }
    *last = p;
    candidate_wake(c);
}

/* The server ends every connection: those who wait hear of it, or they do not. */
static void http_server_ends(void) {
    for (int i = 0; i < sim.count; i++) {
        candidate *c = &sim.all[i];
        for (int k = 0; c->up && k < HTTP_WAITING; k++) {
            if (!c->waiting[k] || rng_percent(&sim.net_rng, 30)) {
                continue;
            }
            http_packet *p = http_packet_new(i, c->incarnation, c->waiting[k]->files);
            p->ends = true;
            p->result = LEADER_E_IO;
            http_reply(p, NULL);
        }
    }
    memset(http.watchers, 0, sizeof http.watchers);
}

/* ---- streams ----------------------------------------------------------------------------------- */
static void watcher_tells(http_watcher *w, const char *line, bool ends) {
    http_packet *p = http_packet_new(w->who, w->incarnation, w->id);
    bool lossy = sim.phase == PHASE_CHAOS && rng_permille(&sim.net_rng, sim.lose_permille);
    p->status = 200;
    p->ends = ends || lossy;
    if (lossy) {
        run.faults[FAULT_LOST_NOTICE]++;
        p->result = LEADER_E_IO;
        p->unheard = rng_percent(&sim.net_rng, 50);             // it goes silent instead
    } else {
        bytes_add(&p->body, line, strlen(line));
    }
    if (p->ends) {
        w->open = false;
    }
    http_reply(p, &w->last_us);
}

static void watchers_tell(const char *line) {
    for (int i = 0; i < HTTP_WATCHERS; i++) {
        if (http.watchers[i].open) {
            watcher_tells(&http.watchers[i], line, false);
        }
    }
}

static http_watcher *watcher_new(const http_packet *request) {
    int at = 0;
    for (int i = 0; i < HTTP_WATCHERS; i++) {
        const http_watcher *w = &http.watchers[i];
        const candidate *c = &sim.all[w->who];
        bool gone = !w->open || !c->up || c->incarnation != w->incarnation || w->who == request->who;
        at = gone ? i : at;
    }
    http_watcher *w = &http.watchers[at];
    w->open = true;
    w->who = request->who;
    w->incarnation = request->incarnation;
    w->id = request->id;
    w->last_us = 0;
    return w;
}

/* ---- the functions of the seam ----------------------------------------------------------------- */
static const char *leader_http_open_(leader_http_ *self, const leader_http_settings_ *settings,
                                     const leader_host *host) {
    self->host = *host;
    self->client = settings->client ? settings->client : &self->own;
    self->exchanges = NULL;
    snprintf(self->server, sizeof self->server, "%s", settings->server);
    snprintf(self->place, sizeof self->place, "sim:443");
    memset(sim.running->waiting, 0, sizeof sim.running->waiting);
    return NULL;
}

static void leader_http_close_(leader_http_ *self) {
    memset(sim.running->waiting, 0, sizeof sim.running->waiting);
    http_empty_inbox(sim.running->number);
    for (leader_http_exchange_ *x = self->exchanges; x; x = x->next) {
        mem_free(x->reply.at);
        memset(&x->reply, 0, sizeof x->reply);
        x->owner = NULL;
    }
    self->exchanges = NULL;
}

static void leader_http_drop_(leader_http_exchange_ *x) {
    x->done = false;
    x->running = false;
    for (int i = 0; i < HTTP_WAITING; i++) {
        if (sim.running->waiting[i] == x) {
            sim.running->waiting[i] = NULL;
        }
    }
}

static bool leader_http_start_(leader_http_ *self, leader_http_exchange_ *x,
                               const leader_http_request_ *request) {
    candidate *c = sim.running;
    sim_point(c, POINT_SYSCALL);
    leader_http_drop_(x);
    if (x->owner != self) {
        x->owner = self;
        x->next = self->exchanges;
        self->exchanges = x;
    }
    x->running = true;
    x->result = LEADER_OK;
    x->status = 0;
    x->retry_after_ms = 0;
    x->reply.len = 0;
    x->used = 0;
    x->error[0] = 0;
    x->streams = request->streams;
    x->files = ++sim.message_ids;
    for (int i = 0; i < HTTP_WAITING; i++) {
        if (!c->waiting[i]) {
            c->waiting[i] = x;
            break;
        }
    }
    note(c, "sends %s %s #%llu %.*s", request->method, request->path, (unsigned long long)x->files,
         (int)(request->body ? request->body_len : 0), request->body ? request->body : "");
    http_send(c, self, request, x->files);
    return true;
}

static void exchange_takes(leader_http_exchange_ *x, const http_packet *p) {
    if (p->status) {
        x->status = p->status;
    }
    x->retry_after_ms = p->retry_after_ms;
    if (p->body.len > 0) {
        leader_http_splice_(&x->reply, x->reply.len, 0, p->body.at, p->body.len);
    }
    if (!p->ends) {
        return;
    }
    x->running = false;
    x->done = true;
    x->result = p->result;
    if (p->result != LEADER_OK) {
        snprintf(x->error, sizeof x->error, "sim:443: the connection broke");
    }
}

static void leader_http_drive_(leader_http_ *self) {
    candidate *c = sim.running;
    (void)self;
    sim_point(c, POINT_SYSCALL);
    while (http.inbox[c->number]) {
        http_packet *p = http.inbox[c->number];
        http.inbox[c->number] = p->next;
        for (int i = 0; i < HTTP_WAITING; i++) {
            leader_http_exchange_ *x = c->waiting[i];
            if (x && x->files == p->id) {
                exchange_takes(x, p);
                c->waiting[i] = x->running ? x : NULL;
            }
        }
        http_packet_free(p);
    }
}

static int64_t leader_http_wait_ms_(const leader_http_ *self) {
    (void)self;
    return 0;
}

/* The network between candidates and store: requests and replies are late, lost, doubled and overtaken,
   and a request may well be executed long after its sender gave it up. */

static void shelf_execute(message *m);

static int message_new(const message *m) {
    if (sim.pool_free < 0) {
        int room = sim.pool_room ? sim.pool_room * 2 : 64;
        sim.pool = (message *)realloc(sim.pool, (size_t)room * sizeof *sim.pool);
        if (!sim.pool) abort();
        for (int i = sim.pool_room; i < room; i++) {
            memset(&sim.pool[i], 0, sizeof sim.pool[i]);
            sim.pool[i].next_free = i + 1 < room ? i + 1 : -1;
        }
        sim.pool_free = sim.pool_room;
        sim.pool_room = room;
    }
    int at = sim.pool_free;
    sim.pool_free = sim.pool[at].next_free;
    sim.pool[at] = *m;
    return at;
}

static message message_take(int at) {
    message m = sim.pool[at];
    sim.pool[at].id = 0;  // not under way any more
    sim.pool[at].next_free = sim.pool_free;
    sim.pool_free = at;
    return m;
}

static int64_t net_delay_us(void) {
    sim_rng *r = &sim.net_rng;
    if (sim.phase != PHASE_CHAOS) return rng_range(r, sim.delay_lo_us, sim.calm_us);
    bool tail = sim.now_us < sim.slow_us || rng_permille(r, sim.tail_permille);
    return tail ? rng_log(r, sim.delay_hi_us, sim.tail_us) : rng_range(r, sim.delay_lo_us, sim.delay_hi_us);
}

static bool net_loses(int64_t cut_until_us, fault_kind kind) {
    if (sim.now_us >= cut_until_us
        && !(sim.phase == PHASE_CHAOS && rng_permille(&sim.net_rng, sim.lose_permille)))
        return false;
    run.faults[kind]++;
    return true;
}

static bool net_doubles(fault_kind kind) {
    if (sim.phase != PHASE_CHAOS || !rng_permille(&sim.net_rng, sim.duplicate_permille)) return false;
    run.faults[kind]++;
    return true;
}

/* The connection breaks: the client learns at once that something failed, and nothing about its request. */
static void client_hears(client *cl, leader_news kind, const leader_entry *entry);

static void net_reset(candidate *c) {
    client *cl = &c->client;
    if (cl->listening) {
        client_hears(cl, LEADER_NEWS_DEAF, &cl->reply.entry);
        cl->listening = false;
    }
    if (cl->wait_id == 0 || cl->answered) return;
    memset(&cl->reply, 0, sizeof cl->reply);
    cl->reply.result = LEADER_E_IO;
    cl->answered = true;
    candidate_wake(c);
}

static void client_send(candidate *c, message *m) {
    client *cl = &c->client;
    m->who         = c->number;
    m->incarnation = c->incarnation;
    m->id          = ++sim.message_ids;
    cl->wait_id    = m->id;
    cl->answered   = false;
    if (!c->seen_record && m->op == OP_WRITE) {
        cl->naive   = *m;
        c->naive_us = sim.now_us;
    }
    note(c, "sends %s #%llu", op_names[m->op], (unsigned long long)m->id);
    if (sim.now_us < sim.outage_us && rng_percent(&sim.net_rng, 50)) { net_reset(c); return; }
    if (net_loses(c->cut_requests_us, FAULT_LOST_REQUEST)) { note(c, "  (which is lost)"); return; }
    int copies = net_doubles(FAULT_DUP_REQUEST) ? 2 : 1;
    while (copies-- > 0) plan_event(sim.now_us + net_delay_us(), EV_REQUEST, c->number, 0, message_new(m));
}

/* The nastiest moment for a request that was long given up: the store has just forgotten everything, and
   nobody has asked since. */
static void net_run_naive(candidate *c) {
    if (c->client.naive.id && c->client.naive.incarnation == c->incarnation)
        plan_event(sim.now_us + rng_log(&sim.net_rng, 1, 1000), EV_REQUEST, c->number, 0,
                   message_new(&c->client.naive));
}

static void net_request(int at) {  // a request reaches the store
    message m = message_take(at);
    candidate *c = &sim.all[m.who];
    if (sim.now_us < sim.outage_us) return;
    if (m.id < sim.last_run[m.who]) run.faults[FAULT_REORDERED]++; else sim.last_run[m.who] = m.id;
    bool given_up = m.incarnation != c->incarnation || c->client.wait_id != m.id || c->client.answered;
    if (given_up) run.faults[FAULT_GIVEN_UP]++;
    bool error = sim.now_us < sim.errors_us;
    leader_result failure = rng_percent(&sim.net_rng, 80)   ? LEADER_E_IO
                            : rng_percent(&sim.net_rng, 50) ? LEADER_E_AUTH
                                                            : LEADER_E_CORRUPT;
    if (!error || rng_percent(&sim.net_rng, 50)) {  // some errors come after the deed was done
        shelf_execute(&m);
        note(NULL,
             "the store runs %s #%llu of %d.%u%s: %s, version %s, holder \"%s\", token %llu, hold off %lld",
             op_names[m.op], (unsigned long long)m.id, m.who, (unsigned)m.incarnation,
             given_up ? " (given up)" : "", leader_strerror(m.result), m.entry.version, m.entry.holder,
             (unsigned long long)m.entry.token, (long long)m.entry.hold_off_ms);
    }
    if (error) {
        m.result = failure;
    }
    if (net_loses(c->cut_replies_us, FAULT_LOST_REPLY)) { note(NULL, "  (the reply is lost)"); return; }
    int copies = net_doubles(FAULT_DUP_REPLY) ? 2 : 1;
    while (copies-- > 0) plan_event(sim.now_us + net_delay_us(), EV_REPLY, m.who, 0, message_new(&m));
}

static void net_reply(int at) {  // a reply reaches its candidate
    message m = message_take(at);
    candidate *c = &sim.all[m.who];
    client *cl = &c->client;
    if (!c->up || m.incarnation != c->incarnation) return;
    bool mine = cl->wait_id == m.id && !cl->answered;
    if (!mine) {
        run.faults[FAULT_LATE_REPLY]++;
        note(c, "drops the late reply to #%llu", (unsigned long long)m.id);
        return;
    }
    cl->reply    = m;
    cl->answered = true;
    candidate_wake(c);
}

static void client_hears(client *cl, leader_news kind, const leader_entry *entry) {
    if (cl->news_count == CLIENT_NEWS) {
        return;
    }
    client_news *n = &cl->news[cl->news_count++];
    n->kind  = kind;
    n->entry = *entry;
}

/* The store tells of a change. Some clients hear only that there was one. */
static void net_notice(int at) {
    message m = message_take(at);
    candidate *c = &sim.all[m.who];
    client *cl = &c->client;
    bool cut = sim.now_us < c->cut_replies_us || sim.now_us < sim.outage_us;
    if (!c->up || c->incarnation != m.incarnation || cut) {
        return;
    }
    if (c->plan.vague_notice) {
        client_hears(cl, LEADER_NEWS_CHANGED, &m.entry);
    } else {
        if (!cl->listening) {
            client_hears(cl, LEADER_NEWS_LISTENING, &m.entry);
        }
        cl->listening = true;
        client_hears(cl, LEADER_NEWS_RECORD, &m.entry);
    }
    candidate_wake(c);
}

/* ---- what read and write share ----------------------------------------------------------------- */

static bool client_begins(candidate *c, uint64_t id, int64_t timeout_ms) {
    client *cl = &c->client;
    if (cl->call_id == id) {
        return false;
    }
    cl->call_id  = id;
    cl->wait_id  = 0;
    cl->answered = false;
    cl->block_us = sim.now_us + candidate_span_us(c, timeout_ms);
    return true;
}

/* Is a reply there? A register over a plain blocking library waits for it inside the call. */
static bool client_answered(candidate *c) {
    client *cl = &c->client;
    while (c->plan.blocking && !cl->answered && sim.now_us < cl->block_us) {
        candidate_pause(c, cl->block_us, true);
    }
    if (c->plan.blocking && !cl->answered) {
        cl->wait_id = 0;                                        // gives up
    }
    bool answered = cl->answered;
    cl->answered = false;
    return answered;
}

/* A candidate: one process with the real leader.h inside, ticking on its own stack by its own clock. */

static int64_t candidate_clock(void *user) {
    candidate *c = (candidate *)user;
    sim_point(c, POINT_CLOCK);
    return candidate_ms(c);
}

static uint64_t sim_random(void) { return rng_next(sim.running ? &sim.running->rng : &sim.rng); }

/* ---- the store's backend, with a point for stalls on both sides of every call, and the checker ---- */
typedef leader_result (*backend_call)(void *, const leader_request *, leader_record *);

static leader_result seam_ask(candidate *c, op_kind op, backend_call call, const leader_request *rq,
                              leader_record *seen) {
    sim_point(c, POINT_CALL);
    if (c->request_seq != rq->seq) check_request(c, op, rq);
    leader_result result = call(c->inner.self, rq, seen);
    if (result != LEADER_PENDING) check_answer(c, op, result, seen);
    c->asks = result == LEADER_PENDING && op == OP_ACQUIRE;
    sim_point(c, POINT_ANSWER);
    return result;
}
static leader_result seam_acquire(void *self, const leader_request *rq, leader_record *seen) {
    return seam_ask((candidate *)self, OP_ACQUIRE, ((candidate *)self)->inner.acquire, rq, seen);
}
static leader_result seam_renew(void *self, const leader_request *rq, leader_record *seen) {
    return seam_ask((candidate *)self, OP_RENEW, ((candidate *)self)->inner.renew, rq, seen);
}
static leader_result seam_release(void *self, const leader_request *rq, leader_record *seen) {
    return seam_ask((candidate *)self, OP_RELEASE, ((candidate *)self)->inner.release, rq, seen);
}
static leader_result seam_observe(void *self, const leader_request *rq, leader_record *seen) {
    return seam_ask((candidate *)self, OP_OBSERVE, ((candidate *)self)->inner.observe, rq, seen);
}
static bool seam_poll(void *self) {
    candidate *c = (candidate *)self;
    sim_point(c, POINT_CALL);
    return c->inner.poll(c->inner.self);
}
static void seam_cancel(void *self) {
    candidate *c = (candidate *)self;
    note(c, "gives %s up", op_names[c->request_op]);
    sim_point(c, POINT_CALL);
    c->asks = false;
    c->inner.cancel(c->inner.self);
}
static const char *seam_open(void *self, const leader_host *host) {
    candidate *c = (candidate *)self;
    c->host = *host;
    return c->inner.open ? c->inner.open(c->inner.self, host) : NULL;
}
static void seam_close(void *self) {
    candidate *c = (candidate *)self;
    sim_point(c, POINT_CALL);
    if (c->inner.close) c->inner.close(c->inner.self);
}

static leader_backend store_backend(candidate *c) {
    switch (sim.store) {
    case STORE_REDIS:
        return redis_backend(c);
    case STORE_K8S:
        return k8s_backend(c);
    case STORE_ETCD:
        return etcd_backend(c);
    case STORE_PG:
        return pg_backend(c);
    case STORE_REGISTER:
        return shelf_backend(c);
    default:
        return vfs_backend(c);
    }
}

static leader_backend seam_backend(candidate *c) {
    leader_backend b;
    memset(&b, 0, sizeof b);
    c->inner  = store_backend(c);
    b.self    = c;
    b.acquire = seam_acquire;
    b.renew   = seam_renew;
    b.release = seam_release;
    b.observe = c->inner.observe ? seam_observe : NULL;
    b.poll    = c->inner.poll    ? seam_poll    : NULL;
    b.cancel  = c->inner.cancel  ? seam_cancel  : NULL;
    b.open    = seam_open;
    b.close   = seam_close;
    return b;
}

/* ---- callbacks --------------------------------------------------------------------------------- */

/* Callbacks may stop and resign; ticking or closing in one must change nothing and be told so. */
static void callback_mischief(candidate *c) {
    sim_point(c, POINT_CALLBACK);
    if (sim.phase != PHASE_CHAOS || !rng_permille(&c->rng, 4)) return;
    switch (rng_range(&c->rng, 0, 3)) {
    case 0: note(c, "resigns in a callback"); leader_resign(&c->leader, 0); break;
    case 1: note(c, "stops in a callback");   leader_stop(&c->leader);      break;
    case 2:
        if (leader_tick(&c->leader) != 100)
            violation(&run.others, "%d: a tick in a callback did not answer 100", c->number);
        break;
    default:
        if (leader_close(&c->leader, 0) != LEADER_E_REENTRANT)
            violation(&run.others, "%d: close in a callback was let in", c->number);
        break;
    }
}

/* Something new about itself: a number that never comes again, and characters that stores must quote. */
static void candidate_says(candidate *c) {
    char text[SIM_VALUE_BYTES];
    if (!c->plan.says) {
        return;
    }
    c->value++;
    value_write(c, text);
    note(c, "says %s", text);
    if (leader_set_value(&c->leader, text) != LEADER_OK) {
        violation(&run.others, "%d: leader_set_value: %s", c->number, leader_error(&c->leader));
    }
}

/* Asked before every attempt: no two terms of a process begin with the same value. */
static bool on_is_healthy(void *user) {
    candidate *c = (candidate *)user;
    callback_mischief(c);
    bool news = sim.phase == PHASE_CHAOS && rng_permille(&c->rng, 50);
    if (!c->in_term || news) {
        candidate_says(c);
    }
    c->said_unhealthy = c->unhealthy;
    return !c->unhealthy;
}

static bool on_is_drained(void *user) {
    candidate *c = (candidate *)user;
    callback_mischief(c);
    check_drain_asked(c);
    bool drained = candidate_ms(c) >= c->term_ended_ms + c->plan.drain_ms;
    if (drained) c->drained = true;
    return drained;
}

static void on_started(void *user, uint64_t token) {
    candidate *c = (candidate *)user;
    note(c, "LEADS with token %llu", (unsigned long long)token);
    check_started(c, token);
    check_leaders(c);
    check_shown(c);
    callback_mischief(c);
}

static void on_stopped(void *user, uint64_t token, leader_result why) {
    candidate *c = (candidate *)user;
    note(c, "stops leading: %s", leader_strerror(why));
    check_stopped(c, token);
    callback_mischief(c);
}

static void on_new_leader(void *user, const char *identity) {
    candidate *c = (candidate *)user;
    note(c, "hears of leader \"%s\"", identity);
    check_new_leader(c, identity);
    check_shown(c);
    callback_mischief(c);
}

static void on_log(void *user, leader_level level, const char *text) {
    note((candidate *)user, "log %d: %s", (int)level, text);
}

static void on_fd(void *user, intptr_t fd, int events) {
    (void)user;
    tcp_told(sim.running, (int)fd, events);
}

/* ---- life -------------------------------------------------------------------------------------- */
static leader_config candidate_config(candidate *c) {
    const candidate_plan *p = &c->plan;
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    cfg.identity           = sim_name(c->name);
    cfg.backend            = seam_backend(c);
    cfg.lease_ms           = p->lease_ms;
    cfg.renew_deadline_ms  = p->deadline_ms;
    cfg.renew_ms           = p->renew_ms;
    cfg.retry_ms           = p->retry_ms;
    cfg.retry_max_ms       = p->retry_max_ms;
    cfg.request_timeout_ms = p->timeout_ms;
    cfg.renew_retries      = p->renew_retries;
    cfg.drain_timeout_ms   = p->drain_timeout_ms;
    cfg.defer_ms           = p->defer_ms;
    cfg.keep_lease_on_stop = p->keep_lease;
    cfg.observe_only       = p->observer;
    cfg.cautious_start     = p->cautious;
    cfg.reclaim_identity   = p->reclaim && c->incarnation > 1;
    cfg.is_healthy         = on_is_healthy;
    cfg.is_drained         = p->drain_ms > 0 ? on_is_drained : NULL;
    cfg.on_started_leading = on_started;
    cfg.on_stopped_leading = on_stopped;
    cfg.on_new_leader      = on_new_leader;
    cfg.on_log             = on_log;
    cfg.user               = c;
    cfg.on_fd              = p->plain_sleep ? NULL : on_fd;
    cfg.clock_ms           = candidate_clock;
    cfg.clock_user         = c;
    return cfg;
}

static void candidate_sleep(candidate *c, int wait_ms) {
    if (tcp_is_readable(c)) wait_ms = 1;
    int64_t late_us = sim.phase == PHASE_CHAOS ? rng_range(&c->rng, 0, c->plan.late_ms * 1000) : 0;
    candidate_pause(c, sim.now_us + candidate_span_us(c, wait_ms) + late_us, !c->plan.plain_sleep);
}

static void candidate_defers(candidate *c, int64_t defer_ms) {
    note(c, "defers by %lld ms", (long long)defer_ms);
    c->defer_ms = defer_ms;
    if (leader_set_defer(&c->leader, defer_ms) != LEADER_OK) {
        violation(&run.others, "%d: leader_set_defer: %s", c->number, leader_error(&c->leader));
    }
}

/* What only the thread of the loop may ask for. */
static void candidate_wishes(candidate *c) {
    bool chaos = sim.phase == PHASE_CHAOS;
    if (c->heir) {
        note(c, "resigns to %s", sim_name(c->heir));
        leader_resign_to(&c->leader, sim_name(c->heir), c->heir_pause_ms);
        c->heir = 0;
    }
    bool news = chaos && rng_permille(&c->rng, 2);
    if (c->says_more || (news && !c->asks)) {                   // an attempt says one thing
        c->says_more = false;
        candidate_says(c);
    }
    if (chaos && c->plan.defer_ms > 0 && rng_permille(&c->rng, 2)) {
        candidate_defers(c, rng_percent(&c->rng, 50) ? 0 : rng_log(&c->rng, 1, c->plan.lease_ms * 3));
    }
}

/* One turn of the loop: most tick and sleep by themselves, some leave both to leader_wait. */
static void candidate_turn(candidate *c) {
    c->tick_ms = candidate_ms(c);
    candidate_wishes(c);
    if (c->plan.waits && !leader_is_leader(&c->leader)) {
        int64_t timeout_ms = rng_log(&c->rng, c->plan.lease_ms / 30, c->plan.lease_ms);
        leader_result result = leader_wait(&c->leader, timeout_ms);
        if (result == LEADER_E_TIMEOUT && candidate_ms(c) < c->tick_ms + timeout_ms)
            violation(&run.others, "%d: leader_wait did not wait", c->number);
        if (result != LEADER_OK && result != LEADER_E_TIMEOUT && result != LEADER_E_STATE)
            violation(&run.others, "%d: leader_wait answered %s", c->number, leader_strerror(result));
        if (result == LEADER_E_STATE) {  // an observer, or on its way to the end
            int due_ms = leader_due_ms(&c->leader);
            candidate_sleep(c, due_ms > 0 ? due_ms : 1);
        }
        return;
    }
    int wait_ms = leader_tick(&c->leader);
    check_ticked(c, wait_ms);
    bool woken = c->heir && !c->plan.plain_sleep;      // by a wish that came during a tick that blocks
    candidate_sleep(c, woken ? 1 : wait_ms);
}

static void candidate_main(void) {
    candidate *c = sim.running;
    leader_config cfg = candidate_config(c);
    if (leader_init(&c->leader, &cfg) != LEADER_OK)
        violation(&run.others, "%d: leader_init: %s", c->number, leader_error(&c->leader));
    c->live = !sim.failed;
    while (c->live && !leader_is_stopped(&c->leader) && c->close_ms < 0) candidate_turn(c);
    bool stopped = leader_is_stopped(&c->leader);
    check_statistics(c);
    leader_result result = leader_close(&c->leader, stopped ? 0 : c->close_ms);
    if (result != LEADER_OK && (stopped || result != LEADER_E_TIMEOUT))
        violation(&run.others, "%d: leader_close answered %s", c->number, leader_strerror(result));
    note(c, "ends");
    candidate_die(c, false);
    coroutine_leave(&c->co);
}

/* A cautious start waits out a lease of its own. If somebody's is longer, the operator waits as well
   before he starts it; and so he does after a backup, in which a newcomer cannot see what was lost. */
static bool start_waits(const candidate *c) {
    bool shorter = sim.wiped_us > 0 && c->plan.lease_ms < sim.lease_max_ms;
    int64_t since_us = shorter ? sim.wiped_us : 0;
    if (sim.restored_us > since_us) {
        since_us = sim.restored_us;
    }
    int64_t safe_us = since_us + slowest_us(2 * sim.lease_max_ms);
    bool waits = since_us > 0 && sim.now_us < safe_us;
    if (waits) {
        plan_event(safe_us, EV_START, c->number, c->generation, -1);
    }
    return waits;
}

static void candidate_start(candidate *c) {
    if (c->up || start_waits(c)) return;
    c->incarnation++;
    c->generation++;
    c->up = true;
    c->live = c->sleeping = c->ready = c->stalled = false;
    c->stall_in = c->crash_in = c->error_in = 0;
    c->close_ms = -1;
    c->heir = c->value = 0;
    c->says_more = c->asks = false;
    c->defer_ms = c->plan.defer_ms;
    if (c->plan.reclaim) c->kept_until_ms = INT64_MIN;          // it may take over what it kept, heard or not
    memset(&c->client, 0, sizeof c->client);
    memset(&c->leader, 0, sizeof c->leader);
    memset(&c->engine, 0, sizeof c->engine);
    memset(c->waiting, 0, sizeof c->waiting);
    memset(&c->file, 0, sizeof c->file);
    c->naive_len = 0;
    check_forget(c);
    coroutine_make(&c->co, c->number, candidate_main);
    note(c, "starts%s%s", c->plan.observer ? " as an observer" : "", c->plan.cautious ? ", cautious" : "");
    plan_event(sim.now_us, EV_WAKE, c->number, c->generation, -1);
}

/* The process is gone: descriptors closed, memory lost; its requests may still be on their way. */
static void candidate_die(candidate *c, bool crashed) {
    check_ended(c, crashed);
    c->up = c->live = false;
    c->generation++;
    vfs_process_ends(c);
    tcp_process_ends(c);
    http_empty_inbox(c->number);
    pg_process_ends(c);
    mem_process_ends(c, crashed);
    if (sim.forgets) c->plan.cautious = true;
    if (sim.phase > PHASE_CALM) return;  // the killed leader stays dead until all is measured
    int64_t pause_us = sim.phase == PHASE_CALM ? 0 : rng_log(&sim.rng, 1000, 2000 * sim.lease_max_ms);
    plan_event(sim.now_us + pause_us, EV_START, c->number, c->generation, -1);
}

static void candidate_run(candidate *c, uint32_t generation) {
    if (!c->up || c->generation != generation) return;
    check_leaders(c);  // time has passed for it: has its term lapsed?
    sim.running = c;
    coroutine_resume(&c->co);
    sim.running = NULL;
    check_leaders(c);
}

/* A scenario: who takes part, what may go wrong and how often, then a calm in which the election must find
   a leader within a stated bound, keep it, and replace it within a bound when it is killed and when it
   resigns. */

/* ---- drawing one ------------------------------------------------------------------------------- */
static void draw_plan(candidate *c, int64_t base_ms, bool mixed) {
    sim_rng *r = &sim.rng;
    candidate_plan *p = &c->plan;
    memset(p, 0, sizeof *p);
    p->lease_ms = mixed ? rng_log(r, base_ms, base_ms * 4) : base_ms;
    if (rng_percent(r, 30)) p->deadline_ms = p->lease_ms * rng_range(r, 50, 90) / 100;
    if (rng_percent(r, 30)) p->renew_ms = plan_deadline_ms(p) * rng_range(r, 20, 60) / 100;
    if (plan_renew_ms(p) >= plan_deadline_ms(p) * 3 / 4) p->renew_ms = plan_deadline_ms(p) / 2;
    if (rng_percent(r, p->lease_ms > 20000 ? 85 : 30))
        p->retry_ms = rng_log(r, p->lease_ms / 30, p->lease_ms / 2);
    p->retry_max_ms     = rng_percent(r, 20) ? 0 : rng_log(r, p->lease_ms, p->lease_ms * 6);
    p->renew_retries    = rng_percent(r, 80) ? 0 : rng_percent(r, 50) ? -1 : 1;
    p->drain_ms         = rng_percent(r, 50) ? 0 : rng_log(r, 1, p->lease_ms * 2);
    p->drain_timeout_ms = rng_percent(r, 70) ? 0 : rng_log(r, 1, p->lease_ms * 2);
    p->defer_ms         = rng_percent(r, 75) ? 0 : rng_log(r, 1, p->lease_ms * 3);
    p->says             = rng_percent(r, 80);
    p->late_ms          = rng_percent(r, 50) ? 2 : (int)(p->lease_ms / 20);
    p->keep_lease       = rng_percent(r, 15);
    p->cautious         = rng_percent(r, 15);
    p->reclaim          = rng_percent(r, 20);
    p->plain_sleep      = rng_percent(r, 15);
    p->blocking         = rng_percent(r, 15);
    p->waits            = rng_percent(r, 15);
    p->no_notice        = rng_percent(r, 15);
    p->vague_notice     = rng_percent(r, 30);
    p->observer         = c->number > 0 && rng_percent(r, 8);
    p->host             = c->number;
}

/* Clock rates: any two within what the lease allows, the Redis server (rate 1) included. */
static void draw_rates(void) {
    sim_rng *r = &sim.rng;
    int64_t room = INT64_MAX;
    for (int i = 0; i < sim.count; i++) {
        const candidate_plan *p = &sim.all[i].plan;
        /* A reading is cut to whole milliseconds on both sides: that much is kept clear of the limit. */
        int64_t own = (p->lease_ms - 4) * SIM_RATE_ONE / (plan_deadline_ms(p) + 4);
        if (own < room) room = own;
    }
    int64_t spread = sim.bent == BENT_EDGE ? room
                     : rng_percent(r, 40)  ? SIM_RATE_ONE
                     : rng_percent(r, 50)  ? room
                                           : rng_range(r, SIM_RATE_ONE, room);
    if (asked.breaks.rates_past_limit) spread = room * 5 / 4;
    sim.rate_lo = SIM_RATE_ONE * (int64_t)SIM_RATE_ONE / rng_range(r, SIM_RATE_ONE, spread) + 1;
    sim.rate_hi = sim.rate_lo * spread / SIM_RATE_ONE - 1;
    if (sim.rate_hi < sim.rate_lo) sim.rate_hi = sim.rate_lo;
}

static int64_t draw_rate(void) {
    int64_t pick = rng_range(&sim.rng, 0, sim.bent == BENT_EDGE ? 1 : 3);
    return pick == 0 ? sim.rate_lo : pick == 1 ? sim.rate_hi : rng_range(&sim.rng, sim.rate_lo, sim.rate_hi);
}

static void draw_network(int64_t base_ms) {
    sim_rng *r = &sim.rng;
    sim.delay_lo_us = rng_log(r, 50, 2000);
    sim.calm_us     = sim.delay_lo_us + rng_log(r, 100, base_ms * 20);
    sim.delay_hi_us =
        rng_percent(r, 90) ? sim.calm_us : sim.calm_us + rng_range(r, base_ms * 20, base_ms * 100);
    sim.tail_us     = sim.delay_hi_us + rng_log(r, base_ms * 100, base_ms * 3000);
    sim.tail_permille      = rng_percent(r, 40) ? 0 : (int)rng_log(r, 1, 200);
    if (sim.bent == BENT_EDGE) {  // now and then a request under way for most of its time-out
        sim.delay_hi_us   = sim.calm_us;
        sim.tail_us       = sim.calm_us + base_ms * rng_range(r, 50, 200);
        sim.tail_permille = (int)rng_range(r, 50, 300);
    }
    sim.lose_permille      = rng_percent(r, 40) ? 0 : (int)rng_log(r, 1, 200);
    sim.duplicate_permille = rng_percent(r, 50) ? 0 : (int)rng_log(r, 1, 200);
}

static void draw_often(fault_kind kind) {
    sim.mean_us[kind] = rng_log(&sim.rng, sim.lease_max_ms * 2000, sim.lease_max_ms * 8000);
}

static void draw_faults(void) {
    static const char letters[STORE_KINDS] = { 'r', 'k', 'c', 'f', 'e', 'p' };
    int percent = sim.bent == BENT_NOT ? 30 : 8;
    for (int f = 0; f < FAULT_KINDS; f++) {
        sim.mean_us[f] = 0;
        if (!strchr(fault_info[f].stores, letters[sim.store]) || !rng_percent(&sim.rng, percent)) continue;
        sim.mean_us[f] = rng_log(&sim.rng, sim.lease_max_ms * 1000, sim.lease_max_ms * 40000);
        if (strchr(fault_info[f].stores, '!')) sim.forgets = true;
    }
    if (sim.mean_us[FAULT_EVICT_LEASE] && sim.mean_us[FAULT_EVICT_WITNESS]) sim.forgets = true;
    if (sim.bent != BENT_NOT) draw_often(sim.store == STORE_FILE ? FAULT_STALL : FAULT_PARTITION);
    if (sim.bent != BENT_WIPED) return;
    draw_often(FAULT_WIPE);
    draw_often(FAULT_CRASH);
    draw_often(FAULT_STOP);
    draw_often(FAULT_STALL);
    if (rng_percent(&sim.rng, 50)) {                            // some see the record only when it is free
        draw_often(FAULT_UNHEALTHY);
        draw_often(FAULT_RESIGN);
    }
    sim.forgets = true;
}

/* Files: some candidates share a machine, and with it a clock; or a machine, but not the time namespace. */
static void draw_hosts(void) {
    sim_rng *r = &sim.rng;
    int hosts = rng_percent(r, sim.bent == BENT_WIPED ? 70 : 40) ? 1 : (int)rng_range(r, 1, sim.count);
    bool one_kernel = hosts == 1 || rng_percent(r, 25);
    for (int i = 0; i < sim.count; i++) {
        sim.all[i].plan.host = (int)rng_range(r, 0, hosts - 1);
        vfs.boots[i]      = one_kernel ? 0xb0070000u : 0xb0070000u + (uint32_t)i;
        vfs.namespaces[i] = one_kernel ? (uint32_t)i : 0;
        vfs.skew_ms[i]    = rng_percent(r, 60) ? 0 : rng_range(r, -3600000, 3600000);
    }
    vfs.local   = one_kernel;
    vfs.portion = rng_percent(r, 50) ? 40 : (int)rng_range(r, 1, 3);
    if (one_kernel) {  // one machine has one clock, whatever it is called
        for (int i = 1; i < sim.count; i++) sim.clocks[i].rate = sim.clocks[0].rate;
        sim.mean_us[FAULT_RATE] = 0;
    }
}

static void draw_scenario(uint64_t seed, store_kind store) {
    sim_rng *r = &sim.rng;
    uint64_t spread = seed;
    sim.seed  = seed;
    sim.store = store;
    rng_seed(r, rng_split(&spread));
    rng_seed(&sim.net_rng, rng_split(&spread));
    sim.count = rng_percent(r, 10) ? 1 : (int)rng_range(r, 2, rng_percent(r, 70) ? 4 : SIM_CANDIDATES_MAX);
    int64_t base_ms = rng_percent(r, 40) ? 15000 : rng_log(r, 500, 120000);
    bool mixed = rng_percent(r, 15), twins = sim.count > 2 && rng_percent(r, 8);
    sim.lease_max_ms = 0;
    for (int i = 0; i < sim.count; i++) {
        candidate *c = &sim.all[i];
        c->number = i;
        c->name   = i + 1;
        c->kept_until_ms = INT64_MIN;
        rng_seed(&c->rng, rng_split(&spread));
        draw_plan(c, base_ms, mixed);
        if (c->plan.lease_ms > sim.lease_max_ms) sim.lease_max_ms = c->plan.lease_ms;
    }
    if (twins) {  // two processes by mistake under one name
        sim.all[1].name = sim.all[0].name;
        sim.all[0].plan.reclaim = sim.all[1].plan.reclaim = false;
    }
    sim.bent = rng_percent(r, 20) ? BENT_EDGE : rng_percent(r, 15) ? BENT_WIPED : BENT_NOT;
    draw_network(base_ms);
    draw_faults();
    draw_rates();
    for (int i = 0; i < sim.count; i++) {
        sim_clock k = { rng_log(r, 1, 1000000000) * 1000 + rng_range(r, 0, 999), 0, draw_rate() };
        sim.clocks[i] = k;
    }
    shelf.counts = rng_percent(r, 50);
    shelf.knows_deaths = rng_percent(r, 30);
    etcd.users = store == STORE_ETCD && rng_percent(r, 50);
    sim.yield_permille = store == STORE_FILE && rng_percent(r, 60) ? (int)rng_log(r, 2, 300) : 0;
    memset(vfs.skew_ms, 0, sizeof vfs.skew_ms);
    for (int i = 0; store == STORE_K8S && i < sim.count; i++) {
        vfs.skew_ms[i] = rng_percent(r, 60) ? 0 : rng_range(r, -3600000, 3600000);
    }
    if (store == STORE_FILE) draw_hosts();
}

/* ---- faults ------------------------------------------------------------------------------------ */
typedef bool (*candidate_test)(const candidate *c);

static bool is_live(const candidate *c) { return c->live; }

static bool is_leading(const candidate *c) { return c->live && c->in_term; }

static bool is_holding_off(const candidate *c) { return c->live && candidate_ms(c) < c->hold_until_ms; }

static candidate *pick_one(candidate_test fits) {
    int from = (int)rng_range(&sim.rng, 0, sim.count - 1);
    for (int i = 0; i < sim.count; i++) {
        candidate *c = &sim.all[(from + i) % sim.count];
        if (fits(c)) {
            return c;
        }
    }
    return NULL;
}

/* Faults strike more often where they matter most. */
static candidate *pick_up(void) {
    candidate *c = NULL;
    if (sim.forgets && rng_percent(&sim.rng, 50)) {
        c = pick_one(is_holding_off);
    }
    if (!c && rng_percent(&sim.rng, 50)) {
        c = pick_one(is_leading);
    }
    return c ? c : pick_one(is_live);
}

/* Longer and shorter than a lease, and around the moments that matter. */
static int64_t draw_spell_us(void) {
    int64_t lease_us = sim.lease_max_ms * 1000;
    return rng_percent(&sim.rng, 40) ? rng_range(&sim.rng, lease_us / 4, lease_us * 2)
                                     : rng_log(&sim.rng, 1000, lease_us * 3);
}

/* The longest lease that anybody may count on now: one that leads does, and one that holds off will, and so
   will one whose success is still on its way to it. */
static int64_t longest_held_ms(void) {
    int64_t longest_ms = sim.store == STORE_REDIS ? redis_held_ms() : 0;
    for (int i = 0; i < sim.count; i++) {
        const candidate *c = &sim.all[i];
        bool counts = c->in_term || leader_get_state(&c->leader) == LEADER_STATE_HOLDING_OFF;
        if (c->up && counts && c->plan.lease_ms > longest_ms) {
            longest_ms = c->plan.lease_ms;
        }
    }
    return longest_ms;
}

/* A request from before it had seen anything, still under way, for a shorter lease than others count on.
   (Redis: those who have seen a longer one tell by the witness's mark, and let nobody lead before.) */
static bool may_come_late(const candidate *c, int64_t held_ms) {
    if (sim.store == STORE_REDIS) {
        return false;
    }
    int64_t under_way_us = 2 * sim.tail_us + 6000 * sim.lease_max_ms;
    return c->plan.lease_ms < held_ms && sim.now_us - c->naive_us < under_way_us;
}

/* What the promise leaves out: a candidate that has seen nothing cannot tell a wiped store from a new one,
   nor how long a lease is that it has never seen. Those that start later are told to be cautious. */
static bool may_forget(void) {
    int64_t held_ms = longest_held_ms();
    for (int i = 0; i < sim.count; i++) {
        candidate *c = &sim.all[i];
        if (!c->up) {
            c->plan.cautious = true;
            continue;
        }
        bool told = c->plan.cautious || c->plan.observer || saw_a_record(c);
        bool knows = c->plan.observer || c->plan.lease_ms >= held_ms || c->longest_ms >= held_ms;
        if (!told || !knows || may_come_late(c, held_ms)) {
            return false;
        }
    }
    sim.wiped_us = sim.now_us;
    return true;
}

static bool fault_on_candidate(fault_kind kind) {
    sim_rng *r = &sim.rng;
    candidate *c = pick_up();
    int64_t spell_us = draw_spell_us();
    uint32_t in = (uint32_t)rng_log(r, 1, 120);
    if (!c) return false;
    switch (kind) {
    case FAULT_STALL: c->stall_in = in; c->stall_us = spell_us; return false;  // counted when they strike
    case FAULT_CRASH: c->crash_in = in; return false;
    case FAULT_DISK:  c->error_in = in; c->error_number = (int)rng_range(r, 0, 3); return false;
    case FAULT_RESIGN:
        note(c, "is asked to resign");
        spell_us = rng_percent(r, 50) ? 0 : rng_log(r, 1, c->plan.lease_ms * 2);
        if (rng_percent(r, 40)) {                               // to anybody, itself, or nobody there is
            c->heir = (int)rng_range(r, 1, sim.count < SIM_CANDIDATES_MAX ? sim.count + 1 : sim.count);
            c->heir_pause_ms = spell_us;
        } else {
            leader_resign(&c->leader, spell_us);
        }
        candidate_wake(c);
        return true;
    case FAULT_STOP:
        if (rng_percent(r, 30)) c->close_ms = rng_percent(r, 50) ? 0 : spell_us / 1000;
        note(c, c->close_ms < 0 ? "is asked to stop" : "is asked to close");
        if (c->close_ms < 0) leader_stop(&c->leader);
        candidate_wake(c);
        return true;
    case FAULT_UNHEALTHY:
        c->unhealthy = true;
        plan_event(sim.now_us + spell_us, EV_HEAL, c->number, 0, -1);
        return true;
    case FAULT_PARTITION:
        if (rng_percent(r, 70)) c->cut_requests_us = sim.now_us + spell_us;
        if (rng_percent(r, 70)) c->cut_replies_us  = sim.now_us + spell_us;
        note(c, "is cut off for %lld ms", (long long)(spell_us / 1000));
        return true;
    default: return false;
    }
}

static void restart_store(void) {
    for (int i = 0; i < sim.count; i++) if (sim.all[i].up) net_reset(&sim.all[i]);
    redis_fail_over(asked.breaks.replica_lags);
    http_server_ends();
    pg_server_ends();
    tcp.frozen = false;
    sim.outage_us = sim.now_us + rng_log(&sim.rng, 1000, sim.lease_max_ms * 500);
}

/* The one machine loses its power: every process dies, what was not synced may be gone, and the boot clock
   starts again. A board without a battery knows no better than to set its wall clock back. */
static bool power_fails(void) {
    if (!vfs.local) return false;
    for (int i = 0; i < sim.count; i++) if (sim.all[i].up) candidate_die(&sim.all[i], true);
    vfs_lose_power();
    values_lose_power();
    int64_t back_ms = rng_percent(&sim.rng, 50) ? 0 : sim.now_us / 1000 + 3600000;
    for (int i = 0; i < sim.count; i++) {
        vfs.skew_ms[i] -= back_ms;
        vfs.boots[i] ^= 0x100u + (uint32_t)sim.now_us % 251u;
        sim.clocks[i].offset_us = rng_log(&sim.rng, 1000, 100000000);
        sim.clocks[i].from_us   = sim.now_us;
        sim.all[i].kept_until_ms = INT64_MIN;
    }
    for (int i = 1; i < sim.count; i++) vfs.boots[i] = vfs.boots[0];
    return true;
}

static void run_naive(candidate *c) {
    if (sim.store == STORE_REDIS) {
        redis_run_naive(c);
    }
    if (sim.store == STORE_REGISTER && c->plan.lease_ms >= longest_held_ms()) {
        net_run_naive(c);
    }
}

/* The store forgets a second time, about when those go on who were stopped after the first. */
static void wipe_again(void) {
    sim_rng *r = &sim.rng;
    int64_t lease_us = sim.lease_max_ms * 1000;
    int64_t stop_us = rng_range(r, lease_us * 3 / 4, lease_us * 2);
    for (int i = 0; i < sim.count; i++) {
        candidate *c = &sim.all[i];
        if (c->live && rng_percent(r, 50)) {
            c->stall_in = (uint32_t)rng_log(r, 1, 120);
            c->stall_us = stop_us;
        }
    }
    plan_event(sim.now_us + stop_us + rng_range(r, -lease_us / 8, lease_us / 8), EV_FAULT, FAULT_WIPE, 1, -1);
}

/* The one that takes a wiped record holds off, and has not long to live. */
static void wipe_and_leave(void) {
    static const fault_kind ends[] = { FAULT_STOP, FAULT_CRASH, FAULT_RESIGN, FAULT_UNHEALTHY };
    sim_rng *r = &sim.rng;
    int kind = (int)ends[rng_range(r, 0, 3)];
    plan_event(sim.now_us + rng_range(r, 1, sim.lease_max_ms * 1000), EV_FAULT, kind, 1, -1);
}

static bool fault_on_store(fault_kind kind) {
    int64_t spell_us = draw_spell_us();
    bool    redis_store = sim.store == STORE_REDIS;
    if (strchr(fault_info[kind].stores, '!') && !may_forget()) return false;
    if (sim.forgets && (kind == FAULT_EVICT_LEASE || kind == FAULT_EVICT_WITNESS) && !may_forget())
        return false;
    note(NULL, "FAULT: %s", fault_info[kind].text);
    switch (kind) {
    case FAULT_OUTAGE:
        sim.outage_us = sim.now_us + spell_us;
        tcp.frozen = rng_percent(&sim.rng, 50);
        return true;
    case FAULT_ERRORS:  sim.errors_us = sim.now_us + spell_us; return true;
    case FAULT_SLOW:    sim.slow_us   = sim.now_us + spell_us; return true;
    case FAULT_RESTART: restart_store(); return true;
    case FAULT_WIPE:
        if (sim.bent == BENT_WIPED && rng_percent(&sim.rng, 30)) {
            wipe_again();
        } else if (sim.bent == BENT_WIPED) {
            wipe_and_leave();
        }
        if (sim.store == STORE_FILE) { vfs_wipe(); sim.tokens_reset = true; return true; }
        if (rng_percent(&sim.rng, 50)) restart_store();
        else run_naive(&sim.all[rng_range(&sim.rng, 0, sim.count - 1)]);
        if (redis_store) {
            redis_forget();
        } else {
            api_wipe();
            etcd_wipe();
            pg_wipe();
            shelf_delete(true);
            sim.tokens_reset = true;
        }
        return true;
    case FAULT_POWER:         return power_fails();
    case FAULT_STRIP:         return vfs_strip();
    case FAULT_EVICT_LEASE:   redis_evict(false); return true;
    case FAULT_EVICT_WITNESS: redis_evict(true); return true;
    case FAULT_PERSIST:       return redis_persist();
    case FAULT_SCRIPTS:       redis_forget_scripts(); return true;
    case FAULT_JUMP:          return redis_jump();
    case FAULT_DELETE:
        api_delete();
        etcd_delete();
        pg.row.exists = false;
        shelf_delete(false);
        return true;
    case FAULT_RECREATE:
        if (sim.store == STORE_K8S) {
            api_recreate();
            return true;
        }
        if (sim.store == STORE_ETCD) {
            return etcd_recreate();
        }
        sim.tokens_reset = true;
        return shelf_recreate();
    case FAULT_LABEL:
        if (sim.store == STORE_ETCD) {
            return etcd_label();
        }
        return sim.store == STORE_K8S ? api_label() : shelf_label();
    case FAULT_MEMBER:
        etcd_lose_member(spell_us);
        pg_fails_over();
        return true;
    case FAULT_READ_ONLY: pg.read_only_us = sim.now_us + spell_us; return true;
    case FAULT_VOID:    etcd.token++; return true;
    case FAULT_COMPACT: etcd_compact(); return true;
    case FAULT_RESTORE:
        sim.tokens_reset = true;
        return sim.store == STORE_PG ? pg_restore() : etcd_restore();
    case FAULT_RATE: {
        sim_clock *k = &sim.clocks[rng_range(&sim.rng, 0, sim.count - 1)];
        k->offset_us = clock_us(k);
        k->from_us   = sim.now_us;
        k->rate      = draw_rate();
        return true;
    }
    default: return false;
    }
}

static void fault_strikes(fault_kind kind, bool one_of_a_burst) {
    if (sim.phase != PHASE_CHAOS) return;
    bool on_one = kind <= FAULT_UNHEALTHY || kind == FAULT_PARTITION || kind == FAULT_DISK;
    if (on_one ? fault_on_candidate(kind) : fault_on_store(kind)) run.faults[kind]++;
    if (one_of_a_burst) return;
    sim_rng *r = &sim.rng;
    plan_event(sim.now_us + rng_range(r, 1, 2 * sim.mean_us[kind]), EV_FAULT, (int)kind, 0, -1);
    if (!rng_percent(r, 30)) return;
    // troubles come together: within the same lease
    for (int64_t more = rng_range(r, 1, 4); more > 0; more--) {
        int other = (int)rng_range(r, 0, FAULT_KINDS - 1);
        if (sim.mean_us[other])
            plan_event(sim.now_us + rng_log(r, 1, sim.lease_max_ms * 1000), EV_FAULT, other, 1, -1);
    }
}

/* ---- phases ------------------------------------------------------------------------------------ */
// plain sleepers look every 20 ms
static int64_t round_trips_us(int trips) { return trips * 2 * sim.calm_us + 60000; }

/* A Lease is counted in whole seconds, rounded up. */
static int64_t stored_lease_ms(const candidate_plan *p) {
    return sim.store == STORE_K8S ? (p->lease_ms + 999) / 1000 * 1000 : p->lease_ms;
}

/* Once faults have stopped: the slowest candidate's back-off, a pause that a resignation still asked for,
   work that has still to drain, and how long it lets others go first; then the longest lease anybody may
   hold, and another one if the store forgot it. */
static int64_t longest_defer_ms(const candidate *c) {           // now, or after its next start
    return c->defer_ms > c->plan.defer_ms ? c->defer_ms : c->plan.defer_ms;
}

static int64_t calm_bound_us(void) {
    int64_t alone_ms = 0;
    for (int i = 0; i < sim.count; i++) {
        const candidate_plan *p = &sim.all[i].plan;
        int64_t retry_max_ms = p->retry_max_ms            ? p->retry_max_ms
                               : 60000 > plan_retry_ms(p) ? 60000
                                                          : plan_retry_ms(p);
        int64_t ms = retry_max_ms * 5 / 4 + plan_deadline_ms(p) + stored_lease_ms(p) * 2 + p->drain_ms
                     + 4 * plan_retry_ms(p) + longest_defer_ms(&sim.all[i]);
        if (ms > alone_ms) alone_ms = ms;
    }
    return slowest_us(alone_ms + 3 * (sim.lease_max_ms + 1000)) + round_trips_us(12);
}

static bool competes(const candidate *c) { return c->up && !c->plan.observer && !c->retired; }

/* How long the least patient of those that are left lets others go first. */
static int64_t least_defer_ms(const candidate *leaving) {
    int64_t least_ms = INT64_MAX;
    for (int i = 0; i < sim.count; i++) {
        const candidate *c = &sim.all[i];
        if (c != leaving && competes(c) && c->defer_ms < least_ms) {
            least_ms = c->defer_ms;
        }
    }
    return least_ms;
}

static int64_t longest_retry_ms(void) {
    int64_t retry_ms = 0;
    for (int i = 0; i < sim.count; i++) {
        if (plan_retry_ms(&sim.all[i].plan) > retry_ms) retry_ms = plan_retry_ms(&sim.all[i].plan);
    }
    return retry_ms;
}

/* Redis, emptied when its clock had been set back: the next one may have seen a higher token than that of the
   term that ends. To it the store has forgotten a term, and it waits another lease. */
static bool token_is_behind(const candidate *leaving) {
    bool behind = false;
    for (int i = 0; sim.store == STORE_REDIS && i < sim.count; i++) {
        const candidate *c = &sim.all[i];
        uint64_t highest = c->seen_token > c->term_token ? c->seen_token : c->term_token;
        behind = behind || (c != leaving && competes(c) && highest > leaving->term_token);
    }
    return behind;
}

static int64_t failover_bound_us(const candidate *dead) {
    int64_t retry_ms = longest_retry_ms();
    int64_t defer_ms = least_defer_ms(dead);
    bool twins = false;
    for (int i = 0; i < sim.count; i++) {
        const candidate *c = &sim.all[i];
        if (c != dead && c->name == dead->name) twins = true;  // who reports DUPLICATE asks more slowly
    }
    int64_t ms = stored_lease_ms(&dead->plan) + retry_ms + 10 + defer_ms;
    ms += token_is_behind(dead) ? sim.lease_max_ms : 0;
    return slowest_us(twins ? ms * 3 : ms) + round_trips_us(defer_ms > 0 ? 8 : 6);
}

static int64_t handover_bound_us(const candidate *from) {
    int64_t ms =
        failover_bound_us(from) / 1000 - (from->plan.drain_timeout_ms ? 0 : stored_lease_ms(&from->plan));
    // who sleeps is not woken by a word
    int64_t unaware_ms = from->plan.plain_sleep ? plan_renew_ms(&from->plan) : 0;
    return ms * 1000 + slowest_us(from->plan.drain_ms + 50 + unaware_ms);
}

static int competitors(const candidate *except) {
    int n = 0;
    for (int i = 0; i < sim.count; i++) n += competes(&sim.all[i]) && &sim.all[i] != except;
    return n;
}

/* The others give a named heir retry_ms from when they see the release (Redis: the leaving one's, from the
   release). Who hears of it at once needs less. */
static bool heir_must_lead(const candidate *from, const candidate *heir) {
    const candidate_plan *p = &from->plan;
    int64_t needs_us = round_trips_us(4);
    bool hears = !heir->plan.no_notice && !heir->plan.plain_sleep && heir->defer_ms == 0;
    hears = hears && (sim.store != STORE_REDIS || redis_hears(heir));
    // a watch that failed is tried again within a minute
    hears = hears && (sim.store != STORE_K8S || sim.now_us > sim.calm_since_us + slowest_us(90000));
    bool releases = p->drain_ms == 0 || p->drain_timeout_ms == 0 || p->drain_ms < p->drain_timeout_ms;
    for (int i = 0; i < sim.count; i++) {
        const candidate *c = &sim.all[i];
        bool twin = c != heir && c->name == heir->name;
        int64_t given_us = candidate_span_us(c, plan_retry_ms(&c->plan));
        if (twin || (c != heir && competes(c) && given_us < needs_us)) {
            return false;
        }
    }
    return hears && releases && plan_retry_ms(p) * 1000 > needs_us && !token_is_behind(from);
}

static bool is_heir(const candidate *c) { return c->live && c != sim.leader && competes(c); }

static void enter(phase_kind phase, int64_t bound_us) {
    static const char *const names[] = {
        "chaos", "calm", "steady", "the leader is killed", "the leader resigns", "over"};
    note(NULL, "---- %s; bound %.3f s", names[phase], (double)bound_us / 1e6);
    sim.phase    = phase;
    sim.phase_us = sim.now_us;
    sim.bound_us = bound_us;
    sim.found    = false;
    plan_event(sim.now_us + bound_us, EV_PHASE, (int)phase, ++sim.phase_generation, -1);
}

static void enter_calm(void) {
    sim.outage_us = sim.errors_us = sim.slow_us = pg.read_only_us = 0;
    enter(PHASE_CALM, calm_bound_us());
    sim.calm_since_us = sim.now_us;
    for (int i = 0; i < sim.count; i++) {
        candidate *c = &sim.all[i];
        c->cut_requests_us = c->cut_replies_us = 0;
        c->stall_in = c->crash_in = c->error_in = 0;
        c->unhealthy = false;
        if (c->up && c->stalled) plan_event(sim.now_us, EV_WAKE, i, c->generation, -1);
        if (!c->up) plan_event(sim.now_us, EV_START, i, c->generation, -1);
    }
}

static candidate *current_leader(void) {
    for (int i = 0; i < sim.count; i++)
        if (sim.all[i].live && leader_is_leader(&sim.all[i].leader))
            return &sim.all[i];
    return NULL;
}

/* A leader has stood through its steady time: now it goes, the hard way or the kind one. */
static void unseat(candidate *c) {
    sim.leader = c;
    if (competitors(c) == 0 || sim.round >= 3) { sim.phase = PHASE_OVER; return; }
    bool kind = sim.round++ == 1;
    sim.heir = NULL;
    if (kind) {
        candidate *heir = rng_percent(&sim.rng, 60) ? pick_one(is_heir) : NULL;
        int64_t bound_us = handover_bound_us(c);
        if (heir) {
            c->heir = heir->name;
            c->heir_pause_ms = 1000000000;
            sim.heir = heir_must_lead(c, heir) ? heir : NULL;
            bound_us += slowest_us(longest_retry_ms() + least_defer_ms(c));
        }
        enter(PHASE_RESIGNED, bound_us);
        c->retired = true;
        if (!heir) {
            leader_resign(&c->leader, 1000000000);
        }
        candidate_wake(c);
    } else {
        enter(PHASE_KILLED, failover_bound_us(c));
        note(c, "is KILLED");
        candidate_die(c, true);
    }
}

static void enter_steady(candidate *leader);

static void phase_ends(uint32_t generation) {
    if (generation != sim.phase_generation) return;
    candidate *c = current_leader();
    switch (sim.phase) {
    case PHASE_CHAOS: enter_calm(); break;
    case PHASE_CALM:
    case PHASE_KILLED:
    case PHASE_RESIGNED:
        if (!sim.found || !c)
            violation(&run.others, "no leader within %.3f s %s", (double)sim.bound_us / 1e6,
                      sim.phase == PHASE_CALM     ? "after all faults stopped"
                      : sim.phase == PHASE_KILLED ? "after the leader was killed"
                                                  : "after the leader resigned");
        else enter_steady(c);
        break;
    case PHASE_STEADY:
        if (c) {
            check_known(c);
            unseat(c);
        } else
            violation(&run.others, "nobody leads although nothing went wrong");
        break;
    case PHASE_OVER: break;
    }
}

/* The one before it has left: is it this one's turn? */
static void check_turn(const candidate *c) {
    int64_t since_us = sim.now_us - sim.phase_us;
    if (since_us < candidate_span_us(c, c->defer_ms) - 2000) {
        violation(&run.others, "%d leads after %lld ms, but lets others go first for %lld", c->number,
                  (long long)(since_us / 1000), (long long)c->defer_ms);
    }
    if (sim.phase == PHASE_RESIGNED && sim.heir && c != sim.heir) {
        violation(&run.others, "%d leads, but %d was named as the next", c->number, sim.heir->number);
    }
    run.deferrals += c->defer_ms > 0;
    run.heirs += sim.phase == PHASE_RESIGNED && sim.heir;
}

/* A steady time begins: the leader has something to say that everybody is to know at the end. */
static void enter_steady(candidate *leader) {
    enter(PHASE_STEADY, sim.lease_max_ms * 2000 + rng_range(&sim.rng, 0, sim.lease_max_ms * 1000));
    leader->says_more = true;
}

static void scenario_leads(candidate *c) {
    if (sim.found || (sim.phase != PHASE_CALM && sim.phase != PHASE_KILLED && sim.phase != PHASE_RESIGNED))
        return;
    if (sim.phase != PHASE_CALM && c == sim.leader) return;
    sim.found = true;
    if (sim.phase != PHASE_CALM) {
        check_turn(c);
    }
    double share = (double)(sim.now_us - sim.phase_us) / (double)sim.bound_us;
    double *worst = sim.phase == PHASE_CALM     ? &run.worst_calm
                    : sim.phase == PHASE_KILLED ? &run.worst_failover
                                                : &run.worst_handover;
    if (share > *worst) *worst = share;
    if (sim.phase != PHASE_CALM) enter_steady(c);
}

static void scenario_stops_leading(candidate *c) {
    if (sim.phase == PHASE_STEADY)
        violation(&run.others, "%d stops leading although nothing went wrong", c->number);
}

/* What a replay shows first: who takes part, and what can go wrong. */
static void scenario_tell(void) {
    static const char *const bents[] = { "", ", bent to the edge", ", bent on wipes" };
    note(NULL, "seed %llu, store %s, %d candidates%s%s", (unsigned long long)sim.seed, store_names[sim.store],
         sim.count, bents[sim.bent], sim.forgets ? ", the store may forget" : "");
    for (int i = 0; i < sim.count; i++) {
        const candidate *c = &sim.all[i];
        const candidate_plan *p = &c->plan;
        note(NULL,
             "  %d %s: lease %lld, deadline %lld, renew %lld, retry %lld to %lld, drain %lld of %lld, rate "
             "%.3f, defer %lld%s%s%s%s%s%s%s%s",
             i, sim_name(c->name), (long long)p->lease_ms, (long long)plan_deadline_ms(p),
             (long long)plan_renew_ms(p), (long long)plan_retry_ms(p), (long long)p->retry_max_ms,
             (long long)p->drain_ms, (long long)p->drain_timeout_ms,
             (double)sim.clocks[p->host].rate / SIM_RATE_ONE, (long long)p->defer_ms,
             p->observer ? ", observes" : "", p->cautious ? ", cautious" : "", p->reclaim ? ", reclaims" : "",
             p->keep_lease ? ", keeps" : "", p->plain_sleep ? ", sleeps" : "",
             p->blocking ? ", blocks" : "", p->waits ? ", waits" : "", p->no_notice ? ", hears nothing" : "");
    }
    for (int f = 0; f < FAULT_KINDS; f++)
        if (sim.mean_us[f])
            note(NULL, "  %s, every %lld ms or so", fault_info[f].text, (long long)(sim.mean_us[f] / 1000));
}

/* ---- running one ------------------------------------------------------------------------------- */
static void scenario_begin(void) {
    int64_t lease_us = sim.lease_max_ms * 1000;
    for (int i = 0; i < sim.count; i++)
        plan_event(rng_percent(&sim.rng, 50) ? 0 : rng_log(&sim.rng, 1, lease_us * 2), EV_START, i,
                   sim.all[i].generation, -1);
    for (int f = 0; f < FAULT_KINDS; f++)
        if (sim.mean_us[f]) plan_event(rng_range(&sim.rng, 1, 2 * sim.mean_us[f]), EV_FAULT, f, 0, -1);
    enter(PHASE_CHAOS, rng_range(&sim.rng, 20, 80) * lease_us);
}

static void scenario_step(const event *e) {
    candidate *c = &sim.all[e->who < sim.count ? e->who : 0];
    switch (e->kind) {
    case EV_WAKE:    candidate_run(c, e->generation); break;
    case EV_START:   if (e->generation == c->generation) candidate_start(c); break;
    case EV_REQUEST: net_request(e->message); break;
    case EV_REPLY:   net_reply(e->message); break;
    case EV_NOTICE:  net_notice(e->message); break;
    case EV_PACKET:  tcp_packet_arrives(e->message); break;
    case EV_HTTP_REQUEST: http_request_arrives(e->message); break;
    case EV_HTTP_REPLY:   http_reply_arrives(e->message); break;
    case EV_PG_REQUEST: pg_request_arrives(e->message); break;
    case EV_PG_REPLY:   pg_reply_arrives(e->message); break;
    case EV_FAULT:   fault_strikes((fault_kind)e->who, e->generation != 0); break;
    case EV_HEAL:    c->unhealthy = false; break;
    case EV_PHASE:   phase_ends(e->generation); break;
    }
}

static void keep_worst(double *worst, double one) {
    if (one > *worst) {
        *worst = one;
    }
}

static void tally_add(sim_tally *all, const sim_tally *one) {
    all->scenarios   += one->scenarios;
    all->failed      += one->failed;
    all->terms       += one->terms;
    all->overlaps    += one->overlaps;
    all->regressions += one->regressions;
    all->unpaired    += one->unpaired;
    all->others      += one->others;
    all->events      += one->events;
    all->heirs       += one->heirs;
    all->deferrals   += one->deferrals;
    all->values      += one->values;
    all->hours       += one->hours;
    for (int f = 0; f < FAULT_KINDS; f++) {
        all->faults[f] += one->faults[f];
    }
    keep_worst(&all->worst_calm, one->worst_calm);
    keep_worst(&all->worst_failover, one->worst_failover);
    keep_worst(&all->worst_handover, one->worst_handover);
}

static bool scenario_run(uint64_t seed, store_kind store) {
    memset(&run, 0, sizeof run);
    event_queue queue = sim.queue;
    message    *pool  = sim.pool;
    int         room  = sim.pool_room;
    memset(&sim, 0, sizeof sim);
    sim.queue = queue;
    sim.queue.count = 0;
    sim.queue.planned = 0;
    sim.pool = pool;
    sim.pool_room = room;
    sim.pool_free = room ? 0 : -1;
    for (int i = 0; i < room; i++) { sim.pool[i].id = 0; sim.pool[i].next_free = i + 1 < room ? i + 1 : -1; }
    mem_reset();
    tcp_reset();
    redis_reset();
    shelf_reset();
    http_reset();
    api_reset();
    etcd_reset();
    pg_reset();
    vfs_reset();
    draw_scenario(seed, store);
    scenario_tell();
    scenario_begin();
    event e;
    while (!sim.failed && sim.phase != PHASE_OVER && queue_pop(&sim.queue, &e)) {
        sim.now_us = e.at_us;
        if (++sim.events > 20000000) violation(&run.others, "the scenario does not come to an end");
        scenario_step(&e);
    }
    run.scenarios = 1;
    run.events = sim.events;
    run.hours  = (double)sim.now_us / 3.6e9;
    run.failed = sim.failed;
    tally_add(&tallies[store], &run);
    return !sim.failed;
}

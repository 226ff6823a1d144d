/* What is explored: candidates that are the shipped core and engine, one store that compares and swaps, a
 * network that loses, delays and delivers late, and a clock for each candidate. One world is one state;
 * act() is one step.
 *
 * Time goes in units. A lease is one millisecond short of a whole number of them, its deadline one shorter
 * still: a leader leads at every unit but the last, and that one is the first at which another may take
 * over. One unit too early, or too long, and there are two. */
#ifndef PROVE_WORLD_H
#define PROVE_WORLD_H

enum { NODES_MAX = 3, LIVES_MAX = 4, ORPHANS_MAX = 2 };

typedef struct bounds {             // what one run explores; every number is a limit for the whole history
    const char *name, *about;
    int  nodes;
    int  unit_ms, lease_units, deadline_ms;
    int  crashes, resigns, stops, forgets, stalls, resets;
    int  delays;                    // units that pass while a request or its answer is under way; 0: any
    int  orphans;                   // abandoned writes that may still be carried out, at one time
    int  steps;                     // the longest history; 0: no limit, everything that can ever happen
    bool led;                       // it begins where the first candidate leads and the others have seen it
    bool quick;                     // for make test
    int  retries;                   // config.renew_retries; 0: until the deadline
    int  fast_ms, slow_ms;          // what a unit is on the first clock, and on the others; 0: unit_ms
    bool cautious;                  // cautious_start: an empty store is never trusted at once
    bool witnessed;                 // it forgets only what all have seen; nobody starts upon an empty one
    bool lock;                      // the store knows which holders are dead
    bool stamps;                    // the store knows how old a record is
    bool revisions;                 // the store counts its changes, and the record was made beforehand
    bool drains;                    // work goes on after the end of a term
    bool twins;                     // all candidates have one name
    bool notices;                   // the store tells of changes, late
    const char *must_find;          // past the limit: the violation that has to be found
    size_t states_max;              // more is a failure: the bounds were thought to be smaller
} bounds;

typedef struct record {             // what the store keeps of a leader_entry
    bool     present;
    int      holder;                // 0: released, else a name's number + 1
    uint64_t nonce, seq, token, origin, renewal, revision, version;
    int64_t  lease_ms, hold_off_ms, stamp_ms;
} record;

typedef enum call_state { CALL_NONE, CALL_SENT, CALL_ANSWERED, CALL_LOST } call_state;

typedef struct network_call {       // a candidate has one request under way at most
    call_state    state;
    uint64_t      id;
    bool          is_write;
    leader_result result;
    record        entry;            // of a write: what to store, then what was stored; of a read: found
} network_call;

typedef struct candidate {
    leader_t      core;
    leader_engine engine;
    network_call  call;
    record        news;
    bool          has_news;
    int64_t       clock_ms;
    int           life;
    bool          in_term, working;
} candidate;

typedef struct world {
    candidate  c[NODES_MAX];
    record     store;
    record     orphan[ORPHANS_MAX];
    int        orphans;
    uint64_t   versions, origins, revisions;    // given so far
    uint64_t   top_token;           // of all terms that began
    int        crashes, resigns, stops, forgets, stalls, resets, delays;
} world;

typedef enum action_kind {
    ACT_TIME, ACT_TICK, ACT_EXECUTE, ACT_LOSE, ACT_RESET, ACT_LATE, ACT_CRASH, ACT_RESIGN, ACT_STOP,
    ACT_FORGET, ACT_WORK_ENDS, ACT_TELL, ACT_KINDS
} action_kind;

typedef struct action {
    uint8_t kind, node;
    uint8_t stall;                  // TICK: before the n-th look at the clock, 0: none. LATE: which orphan
} action;

static const char *const names[NODES_MAX] = {"a", "b", "c"};
static bounds B;
static world  w;
static struct { int at, looks; } stall;         // of the tick that runs
static const char *violation;                   // the first rule that was broken

static void violate(const char *what) {
    if (!violation) {
        violation = what;
    }
}

static int64_t lease_ms(void) {
    return B.lease_units * B.unit_ms - 1;
}

/* -- clocks -- */

static void check_leaders(void) {
    int leaders = 0;
    for (int i = 0; i < B.nodes; i++) {
        leaders += leader_is_leader(&w.c[i].core);
    }
    if (leaders > 1) {
        violation = "two leaders at once";      // worse than whatever else this step broke
    }
}

static void pass_time(int units) {
    for (int u = 0; u < units; u++) {
        for (int i = 0; i < B.nodes; i++) {
            int64_t own_ms = i == 0 ? B.fast_ms : B.slow_ms;
            w.c[i].clock_ms += own_ms > 0 ? own_ms : B.unit_ms;
        }
        check_leaders();
    }
}

/* The n-th look at the clock within a tick may find that the process was stopped for longer than a lease. */
static int64_t clock_of(void *self) {
    const candidate *c = (const candidate *)self;
    if (stall.at > 0 && ++stall.looks == stall.at) {
        pass_time(B.lease_units + 1);
    }
    return c->clock_ms;
}

/* Tokens that come from the wall clock are far above all that were counted up: each reading begins an
   epoch. */
enum { EPOCH_BITS = 20 };

static uint64_t top_known_token(void) {
    uint64_t top = leader_max_u64_(w.top_token, w.store.token);
    for (int i = 0; i < w.orphans; i++) {
        top = leader_max_u64_(top, w.orphan[i].token);
    }
    for (int i = 0; i < B.nodes; i++) {
        const candidate *c = &w.c[i];
        top = leader_max_u64_(top, c->core.lease.highest_token);
        top = leader_max_u64_(top, c->engine.highest_token);
        top = leader_max_u64_(top, c->engine.drawn_again);
        top = leader_max_u64_(top, c->call.entry.token);
        top = leader_max_u64_(top, c->news.token);
    }
    return top;
}

static int prove_gettime(clockid_t id, struct timespec *t) {
    (void)id;
    uint64_t wall_ms = ((top_known_token() >> EPOCH_BITS) + 1) << EPOCH_BITS;
    t->tv_sec = (time_t)(wall_ms / 1000);
    t->tv_nsec = (long)(wall_ms % 1000) * 1000000;
    return 0;
}

static uint64_t prove_random64(void) {          // of the engine: an origin
    w.origins++;
    return 2 * w.origins + 1;
}

static uint64_t nonce_of(int node, int life) {
    return (uint64_t)(2 * (life * NODES_MAX + node) + 1);
}

static int node_of_nonce(uint64_t nonce) {
    return (int)(nonce / 2) % NODES_MAX;
}

static int life_of_nonce(uint64_t nonce) {
    return (int)(nonce / 2) / NODES_MAX;
}

static int node_of(const candidate *c) {
    return (int)(c - w.c);
}

static int name_of(int node) {
    return B.twins ? 0 : node;
}

/* -- records and entries -- */

static uint64_t version_read(const char *text) {
    uint64_t version = 0;
    for (; *text; text++) {
        version = version * 10 + (uint64_t)(*text - '0');
    }
    return version;
}

static void version_write(char *text, uint64_t version) {
    char digits[24];
    int count = 0;
    for (; version > 0; version /= 10) {
        digits[count++] = (char)('0' + version % 10);
    }
    while (count > 0) {
        *text++ = digits[--count];
    }
    *text = 0;
}

static record record_of_entry(const leader_entry *e) {
    record r;
    memset(&r, 0, sizeof r);
    r.present = true;
    r.holder = e->holder[0] ? e->holder[0] - 'a' + 1 : 0;
    r.nonce = e->nonce;
    r.seq = e->seq;
    r.token = e->token;
    r.origin = e->origin;
    r.renewal = e->renewal;
    r.revision = e->revision;
    r.version = version_read(e->version);
    r.lease_ms = e->lease_ms;
    r.hold_off_ms = e->hold_off_ms;
    return r;
}

static void record_to_entry(const record *r, leader_entry *e) {
    e->holder[0] = r->holder ? (char)('a' + r->holder - 1) : 0;
    e->holder[1] = 0;
    e->nonce = r->nonce;
    e->seq = r->seq;
    e->token = r->token;
    e->origin = r->origin;
    e->renewal = r->renewal;
    e->revision = r->revision;
    version_write(e->version, r->version);
    e->lease_ms = r->lease_ms;
    e->hold_off_ms = r->hold_off_ms;
    e->renewed_us = 0;              // the store loses no single write, so no renewal number is used twice
    e->acquired_us = 0;
}

/* -- the store and its network: a register whose every call stays under way until the explorer says
   otherwise -- */

static bool store_write(record *next) {
    uint64_t stored = w.store.present ? w.store.version : 0;
    if (next->version != stored) {
        return false;
    }
    w.store = *next;
    w.store.version = ++w.versions;
    if (B.revisions) {
        w.store.revision = ++w.revisions;
    }
    *next = w.store;
    return true;
}

static void found_by(const candidate *c, const record *r, leader_entry *found) {
    if (!r->present) {
        return;
    }
    record_to_entry(r, found);
    if (B.lock && r->holder) {
        bool runs = life_of_nonce(r->nonce) == w.c[node_of_nonce(r->nonce)].life;
        found->dead = !runs;
        found->alive = runs;
    }
    if (B.stamps && r->holder) {
        found->elapsed_ms = leader_max_(0, c->clock_ms - r->stamp_ms);
    }
}

static void abandon(candidate *c) {
    network_call *call = &c->call;
    if (call->state == CALL_SENT && call->is_write && w.orphans < B.orphans) {
        w.orphan[w.orphans++] = call->entry;
    }
    memset(call, 0, sizeof *call);
}

static bool is_new_call(candidate *c, const leader_call *call, bool is_write) {
    if (c->call.state != CALL_NONE && c->call.id == call->id) {
        return false;
    }
    abandon(c);
    c->call.state = CALL_SENT;
    c->call.id = call->id;
    c->call.is_write = is_write;
    return true;
}

static leader_result register_read(void *self, const leader_call *call, leader_entry *found) {
    candidate *c = (candidate *)self;
    if (is_new_call(c, call, false) || c->call.state != CALL_ANSWERED) {
        return LEADER_PENDING;
    }
    leader_result result = c->call.result;
    if (result == LEADER_OK) {
        found_by(c, &c->call.entry, found);
    }
    memset(&c->call, 0, sizeof c->call);
    return result;
}

static leader_result register_write(void *self, const leader_call *call, const leader_entry *next,
                                    leader_entry *stored) {
    candidate *c = (candidate *)self;
    if (is_new_call(c, call, true)) {
        c->call.entry = record_of_entry(next);
        c->call.entry.stamp_ms = call->now_ms;
        if (!next->holder[0] && c->working) {
            violate("a release before the work is over");
        }
        return LEADER_PENDING;
    }
    if (c->call.state != CALL_ANSWERED) {
        return LEADER_PENDING;
    }
    leader_result result = c->call.result;
    if (result == LEADER_OK) {
        record_to_entry(&c->call.entry, stored);
    }
    memset(&c->call, 0, sizeof c->call);
    return result;
}

static void register_cancel(void *self) {
    abandon((candidate *)self);
}

static leader_news register_notice(void *self, leader_entry *found) {
    candidate *c = (candidate *)self;
    if (!c->has_news) {
        return LEADER_NEWS_NONE;
    }
    c->has_news = false;
    found_by(c, &c->news, found);
    memset(&c->news, 0, sizeof c->news);
    return found->version[0] ? LEADER_NEWS_RECORD : LEADER_NEWS_CHANGED;
}

/* -- candidates -- */

static void on_started(void *user, uint64_t token) {
    candidate *c = (candidate *)user;
    if (c->in_term) {
        violate("on_started_leading twice");
    }
    if (token <= w.top_token) {
        violate("a token did not rise");
    }
    c->in_term = true;
    c->working = B.drains;
    w.top_token = token;
}

static void on_stopped(void *user, uint64_t token, leader_result why) {
    candidate *c = (candidate *)user;
    (void)token;
    (void)why;
    if (!c->in_term) {
        violate("on_stopped_leading without a term");
    }
    if (leader_is_leader(&c->core)) {
        violate("still the leader in on_stopped_leading");
    }
    c->in_term = false;
}

static void on_new_leader(void *user, const char *identity) {
    const candidate *c = (const candidate *)user;
    if (c->in_term && strcmp(identity, names[name_of(node_of(c))]) != 0) {
        violate("another leader was announced within a term");
    }
}

static bool is_drained(void *user) {
    return !((const candidate *)user)->working;
}

static void boot(int node) {
    candidate *c = &w.c[node];
    const leader_register store = {
        c, register_read, register_write, B.notices ? register_notice : NULL,
        register_cancel, NULL, NULL, NULL};
    leader_config config;
    memset(&config, 0, sizeof config);
    config.identity = names[name_of(node)];
    config.lease_ms = lease_ms();
    config.renew_deadline_ms = B.deadline_ms;
    config.renew_ms = B.unit_ms;
    config.renew_retry_ms = 1;
    config.renew_retries = B.retries;
    config.retry_ms = B.unit_ms;
    config.retry_max_ms = B.unit_ms;
    config.request_timeout_ms = leader_min_(B.unit_ms, config.renew_deadline_ms - B.unit_ms);
    config.cautious_start = B.cautious;
    config.backend = leader_register_backend(&c->engine, &store);
    config.clock_ms = clock_of;
    config.clock_user = c;
    config.user = c;
    config.on_started_leading = on_started;
    config.on_stopped_leading = on_stopped;
    config.on_new_leader = on_new_leader;
    config.is_drained = B.drains ? is_drained : NULL;
    if (leader_init(&c->core, &config) != LEADER_OK) {
        printf("%s: %s\n", B.name, leader_error(&c->core));
        exit(2);
    }
    c->core.nonce = nonce_of(node, c->life);
    memset(&c->call, 0, sizeof c->call);
    memset(&c->news, 0, sizeof c->news);
    c->has_news = false;
    c->in_term = false;
    c->working = false;
}

static void begin(void) {
    memset(&w, 0, sizeof w);
    violation = NULL;
    for (int i = 0; i < B.nodes; i++) {
        w.c[i].clock_ms = 100000;
        boot(i);
    }
    w.origins = 1;
    w.versions = 1;
    w.revisions = 1;
    if (B.revisions) {              // as made by a manifest: nobody holds it, and it knows no token
        w.store.present = true;
        w.store.origin = 3;
        w.store.version = 1;
        w.store.revision = 1;
    }
}

/* -- steps -- */

/* Jitter is nothing here: a tick may come as late as it likes, which is the same and more. */
static uint64_t no_jitter(void) {
    static uint64_t found;
    for (uint64_t seed = found ? found : 1; !found; seed++) {
        leader_t l;
        l.plan.random = seed;
        found = leader_random_below_(&l, 60) == 0 ? seed : 0;
    }
    return found;
}

static char *shown_leader(candidate *c) {
    return (char *)c->core.shown[c->core.version & 1] + offsetof(leader_shown_, leader);
}

static bool tick(candidate *c, int stall_at) {
    if (stall_at > 0 && w.stalls >= B.stalls) {
        return false;
    }
    c->core.plan.random = no_jitter();
    c->core.fds.polled_ms = LEADER_NEVER_;
    shown_leader(c)[0] = '?';       // so that every leader that is seen is announced
    stall.at = stall_at;
    stall.looks = 0;
    leader_tick(&c->core);
    bool stalled = stall.looks >= stall_at;
    stall.at = 0;
    w.stalls += stall_at > 0;
    return stalled;
}

static bool execute(candidate *c) {
    network_call *call = &c->call;
    if (call->state != CALL_SENT) {
        return false;
    }
    call->state = CALL_ANSWERED;
    call->result = LEADER_OK;
    if (!call->is_write) {
        call->entry = w.store;
    } else if (!store_write(&call->entry)) {
        call->result = LEADER_LOST;
    }
    return true;
}

/* The answer to a write. A request that is lost is one that is never served; so is the answer to a read. */
static bool lose(candidate *c) {
    if (c->call.state != CALL_ANSWERED || !c->call.is_write || c->call.result == LEADER_E_IO) {
        return false;
    }
    c->call.state = CALL_LOST;
    return true;
}

static bool reset(candidate *c) {               // the connection breaks; a write that left may still arrive
    network_call *call = &c->call;
    bool broken = call->state == CALL_ANSWERED && call->result == LEADER_E_IO;
    if (call->state == CALL_NONE || broken || w.resets >= B.resets) {
        return false;
    }
    w.resets++;
    network_call old = *call;
    abandon(c);
    call->state = CALL_ANSWERED;
    call->id = old.id;
    call->is_write = old.is_write;
    call->result = LEADER_E_IO;
    return true;
}

static bool carry_out_late(int which) {
    if (which >= w.orphans) {
        return false;
    }
    record late = w.orphan[which];
    w.orphans--;
    for (int i = which; i < w.orphans; i++) {
        w.orphan[i] = w.orphan[i + 1];
    }
    return store_write(&late);
}

static bool crash(int node) {
    candidate *c = &w.c[node];
    bool may_be_empty = !w.store.present || w.forgets < B.forgets;
    if (w.crashes >= B.crashes || (B.witnessed && w.forgets > 0 && may_be_empty)) {
        return false;
    }
    w.crashes++;
    abandon(c);
    c->life++;
    boot(node);
    return true;
}

static bool resign(candidate *c) {
    bool has_it = c->core.state == LEADER_STATE_LEADER || c->core.state == LEADER_STATE_HOLDING_OFF;
    if (w.resigns >= B.resigns || !has_it || c->core.resign_asked) {
        return false;
    }
    w.resigns++;
    leader_resign(&c->core, B.unit_ms);
    return true;
}

static bool stop(candidate *c) {
    if (w.stops >= B.stops || c->core.stop_asked) {
        return false;
    }
    w.stops++;
    leader_stop(&c->core);
    return true;
}

static bool forget(void) {
    bool seen = true;
    for (int i = 0; i < B.nodes; i++) {
        seen = seen && w.c[i].engine.seen_any;
    }
    if (w.forgets >= B.forgets || !w.store.present || (B.witnessed && !seen)) {
        return false;
    }
    w.forgets++;
    memset(&w.store, 0, sizeof w.store);
    return true;
}

static bool end_work(candidate *c) {
    if (!c->working || c->in_term) {
        return false;
    }
    c->working = false;
    return true;
}

static bool tell(candidate *c) {                // of the record as it is now; it may be read much later
    if (!B.notices || c->has_news) {
        return false;
    }
    c->has_news = true;
    c->news = w.store;
    return true;
}

/* Can this write still be carried out? No version ever returns. */
static bool may_succeed(const record *next) {
    if (next->version == 0) {
        return !w.store.present || w.forgets < B.forgets;
    }
    return w.store.present && next->version == w.store.version;
}

static void drop_dead_orphans(void) {
    int kept = 0;
    for (int i = 0; i < w.orphans; i++) {
        if (may_succeed(&w.orphan[i])) {
            w.orphan[kept++] = w.orphan[i];
        }
    }
    w.orphans = kept;
}

static bool is_quiet(void) {
    bool quiet = true;
    for (int i = 0; i < B.nodes; i++) {
        quiet = quiet && w.c[i].call.state == CALL_NONE;
    }
    return quiet;
}

static bool let_time_pass(void) {
    if (B.delays > 0 && !is_quiet()) {
        if (w.delays >= B.delays) {
            return false;
        }
        w.delays++;
    }
    pass_time(1);
    return true;
}

/* One step; false: it is not possible in this state. */
static bool step(action a) {
    candidate *c = &w.c[a.node];
    switch ((action_kind)a.kind) {
    case ACT_TIME:
        return let_time_pass();
    case ACT_TICK:
        return tick(c, a.stall);
    case ACT_EXECUTE:
        return execute(c);
    case ACT_LOSE:
        return lose(c);
    case ACT_RESET:
        return reset(c);
    case ACT_LATE:
        return carry_out_late(a.stall);
    case ACT_CRASH:
        return crash(a.node);
    case ACT_RESIGN:
        return resign(c);
    case ACT_STOP:
        return stop(c);
    case ACT_FORGET:
        return forget();
    case ACT_WORK_ENDS:
        return end_work(c);
    case ACT_TELL:
        return tell(c);
    case ACT_KINDS:
        break;
    }
    return false;
}

static bool act(action a) {
    bool done = step(a);
    drop_dead_orphans();
    check_leaders();
    return done;
}

#endif

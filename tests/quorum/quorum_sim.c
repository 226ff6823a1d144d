/* A simulation of elections on a majority of stores. The real core, engine and quorum run; simulated are
   the clocks, the network and the stores, all from one seed:

       quorum_sim [--runs N] [--seed S] [--verbose]     N scenarios from S on; a failing one is printed and
       replays

   Stores are of two kinds, mixed at random: registers under the real engine, and servers that decide by
   themselves on a clock of their own, as Redis does. Each of them fails independently: down, slow, cut off
   from one candidate, wiped. Requests are lost, late, repeated, and executed after their sender gave up;
   candidates crash and come back under the same name, stall anywhere, resign, stop; clock rates differ by
   up to 1.44 where 1.5 is the limit. After every step at most one candidate may lead, and each new token
   is above all earlier ones. At the end the faults stop, and a leader must be found within a bound. In
   calm scenarios a minority of stores fails, and the leader must not notice. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t sim_random(void);
static int sim_clock_gettime(int clock, struct timespec *out);
#define LEADER_RANDOM64() sim_random()
#define LEADER_NO_FILE
#define LEADER_WITH_QUORUM
#define LEADER_IMPLEMENTATION
#define clock_gettime(clock, out) sim_clock_gettime((int)(clock), (out))
#include "leader.h"
#undef clock_gettime

enum { CANDIDATES = 4, STORES = 5, MESSAGES = 400 };
enum { L = 300, D = 200, RENEW = 100, RETRY = 40, RETRY_MAX = 80, TIMEOUT = 96 };
enum { RATE_MIN = 1000, RATE_MAX = 1440 };
/* A leader is found within this: leases and hold-offs of two earlier attempts at the slowest clock, and
   some retries. */
enum { FIND_MS = 4 * L + 5 * RETRY_MAX };
enum { READ = 100, WRITE };     // operations of a register; those of a server are LEADER_OP_..._

typedef struct message {
    bool           used, is_reply;
    int64_t        due;
    int            from, store, op;
    int            life;        // of the candidate that sent it
    uint64_t       id;
    leader_entry   entry;       // a register's
    leader_request request;     // a server's
    leader_record  record;
    leader_result  result;
} message;

typedef struct store {
    bool         is_server;
    bool         down;
    bool         cut[CANDIDATES];
    int          slow_ms;
    int          rate;
    leader_entry row;           // a register's record
    unsigned     writes;
    char         holder[16];    // a server's
    uint64_t     nonce, seq, token;
    int64_t      until;         // of the lease
    uint64_t     witness;       // the last token
    int64_t      witness_until;
    bool         released;
} store;

typedef struct line {           // between one candidate and one store
    int           candidate, store;
    uint64_t      id;
    bool          replied;
    leader_result result;
    leader_entry  entry;
    leader_record record;
} line;

typedef struct candidate {
    leader_t      me;
    leader_quorum quorum;
    leader_engine engines[STORES];
    line          lines[STORES];
    char          name[4];
    int           life;
    bool          up, in_term;
    int           rate;
    int64_t       offset, due, back_at, last_term;
} candidate;

static struct {
    int64_t   now;
    int       stores;
    bool      calm, faults, verbose;
    int       wipe_rate, down_rate, late_rate, lost_rate, crash_rate, stall_rate;     // per million
    candidate who[CANDIDATES];
    store     at[STORES];
    message   messages[MESSAGES];
    uint64_t  top;
    uint64_t  terms, ends, wipes, lost, crashes;
    char      failure[200];
} w;

static uint64_t random_state;

static uint64_t sim_random(void) {
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = random_state;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static int64_t below(int64_t bound) {
    return (int64_t)(sim_random() % (uint64_t)bound);
}

static bool chance(int per_million) {
    return below(1000000) < per_million;
}

/* The wall clock, from which stores seed their tokens. */
static int sim_clock_gettime(int clock, struct timespec *out) {
    (void)clock;
    out->tv_sec = 1700000000 + w.now / 1000;
    out->tv_nsec = w.now % 1000 * 1000000;
    return 0;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...) {
    if (!w.verbose) {
        return;
    }
    va_list args;
    va_start(args, format);
    printf("%7lld  ", (long long)w.now);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

static void fail(const char *what) {
    if (w.failure[0] == 0) {
        snprintf(w.failure, sizeof w.failure, "at %lld: %s", (long long)w.now, what);
    }
    say("FAILED: %s", what);
}

static void check_leaders(void) {
    int leaders = 0;
    for (int i = 0; i < CANDIDATES; i++) {
        leaders += w.who[i].up && leader_is_leader(&w.who[i].me);
    }
    if (leaders > 1) {
        fail("two leaders");
    }
}

/* ---- clocks ------------------------------------------------------------------------------------ */

/* A stall in the middle of a tick: the whole world goes on when its clock is read. */
static int64_t candidate_clock(void *user) {
    candidate *c = (candidate *)user;
    if (w.faults && !w.calm && chance(w.stall_rate / 20)) {
        w.now += below(L);
    }
    return c->offset + w.now * c->rate / RATE_MIN;
}

/* What times a server's leases. */
static int64_t store_clock(const store *s) {
    return 1000 + w.now * s->rate / RATE_MIN;
}

/* What its tokens begin with: wall clocks are set, so they agree. */
static uint64_t wall_ms(void) {
    return UINT64_C(1700000000000) + (uint64_t)w.now;
}

/* ---- the stores -------------------------------------------------------------------------------- */

static void wipe(store *s) {
    unsigned writes = s->writes;
    memset(&s->row, 0, sizeof s->row);
    s->writes = writes;
    s->holder[0] = 0;
    s->nonce = s->seq = s->token = s->witness = 0;
    s->until = s->witness_until = 0;
    s->released = false;
}

static void register_execute(store *s, message *m) {
    if (m->op == READ) {
        m->entry = s->row;
        m->result = LEADER_OK;
        return;
    }
    if (strcmp(m->entry.version, s->row.version) != 0) {
        m->result = LEADER_LOST;
        return;
    }
    s->row = m->entry;
    s->writes++;
    snprintf(s->row.version, sizeof s->row.version, "v%u", s->writes);
    m->entry = s->row;
    m->result = LEADER_OK;
}

static bool server_is_held(const store *s) {
    return s->holder[0] != 0 && store_clock(s) < s->until;
}

static void server_tell(const store *s, message *m, leader_result result, int64_t rest) {
    m->result = result;
    memset(&m->record, 0, sizeof m->record);
    snprintf(m->record.holder, sizeof m->record.holder, "%s", server_is_held(s) ? s->holder : "");
    m->record.token = s->token > s->witness ? s->token : s->witness;
    m->record.expires_in_ms = rest;
}

static int64_t server_rest(const store *s) {
    int64_t now = store_clock(s);
    if (server_is_held(s)) {
        return s->until - now + 1;
    }
    return s->witness != 0 && !s->released && s->witness_until > now ? s->witness_until - now : 0;
}

static void server_take(store *s, message *m) {
    int64_t now = store_clock(s);
    uint64_t token = s->witness + 1 > m->request.min_token ? s->witness + 1 : m->request.min_token;
    token = token > wall_ms() ? token : wall_ms();
    snprintf(s->holder, sizeof s->holder, "%s", w.who[m->from].name);
    s->nonce = m->request.nonce;
    s->seq = m->request.seq;
    s->token = s->witness = token;
    s->until = s->witness_until = now + m->request.lease_ms;
    s->released = false;
    server_tell(s, m, LEADER_OK, m->request.lease_ms);
}

static void server_acquire(store *s, message *m) {
    int64_t now = store_clock(s);
    bool mine = server_is_held(s) && s->nonce == m->request.nonce;
    uint64_t seen = m->request.min_token - 1;
    if (mine && s->seq <= m->request.seq) {
        server_take(s, m);
    } else if (server_is_held(s)) {
        server_tell(s, m, LEADER_HELD, server_rest(s));
    } else if (seen > 0 && s->witness < seen) {
        s->witness = seen > wall_ms() ? seen : wall_ms();
        s->witness_until = now + L;
        s->released = false;
        server_tell(s, m, LEADER_HELD, L);
    } else if (server_rest(s) > 0) {
        server_tell(s, m, LEADER_HELD, server_rest(s));
    } else {
        server_take(s, m);
    }
}

static void server_execute(store *s, message *m) {
    bool mine = server_is_held(s) && s->nonce == m->request.nonce && s->seq <= m->request.seq;
    switch (m->op) {
    case LEADER_OP_ACQUIRE_:
        server_acquire(s, m);
        break;
    case LEADER_OP_RENEW_:
        if (mine) {
            s->until = s->witness_until = store_clock(s) + m->request.lease_ms;
        }
        server_tell(s, m, mine ? LEADER_OK : LEADER_LOST, server_rest(s));
        break;
    case LEADER_OP_RELEASE_:
        if (mine) {
            s->holder[0] = 0;
            s->released = true;
        }
        server_tell(s, m, mine ? LEADER_OK : LEADER_LOST, 0);
        break;
    default:
        server_tell(s, m, server_is_held(s) ? LEADER_HELD : LEADER_OK, server_rest(s));
        break;
    }
}

/* ---- the network ------------------------------------------------------------------------------- */

static int64_t travel(const store *s) {
    int64_t ms = 1 + below(3) + s->slow_ms;
    if (!w.faults || w.calm) {
        return ms;
    }
    return chance(w.late_rate) ? ms + below(2 * L) : ms;
}

static message *post(int from, int at) {
    bool lost = w.at[at].down || w.at[at].cut[from] || (w.faults && !w.calm && chance(w.lost_rate));
    for (int i = 0; i < MESSAGES && !lost; i++) {
        message *m = &w.messages[i];
        if (!m->used) {
            memset(m, 0, sizeof *m);
            m->used = true;
            m->from = from;
            m->store = at;
            m->life = w.who[from].life;
            m->due = w.now + travel(&w.at[at]);
            return m;
        }
    }
    w.lost++;
    return NULL;
}

static void deliver_reply(const message *m) {
    candidate *c = &w.who[m->from];
    line *l = &c->lines[m->store];
    if (!c->up || c->life != m->life || l->id != m->id || l->replied) {
        return;
    }
    l->replied = true;
    l->result = m->result;
    l->entry = m->entry;
    l->record = m->record;
    c->due = w.now;
}

static void deliver(message *m) {
    store *s = &w.at[m->store];
    m->used = false;
    if (m->is_reply) {
        deliver_reply(m);
        return;
    }
    if (s->down) {
        return;
    }
    bool twice = s->is_server && m->op == LEADER_OP_RENEW_ && w.faults && !w.calm && chance(10000);
    message copy = *m;
    if (s->is_server) {
        server_execute(s, m);
    } else {
        register_execute(s, m);
    }
    if (twice) {
        message *again = post(m->from, m->store);
        if (again) {
            int64_t due = again->due + below(L);
            *again = copy;
            again->used = true;
            again->due = due;
        }
    }
    bool lost = s->cut[m->from] || (w.faults && !w.calm && chance(w.lost_rate));
    if (!lost) {
        m->used = true;
        m->is_reply = true;
        m->due = w.now + travel(s);
    }
}

static void deliver_due(void) {
    for (int i = 0; i < MESSAGES; i++) {
        if (w.messages[i].used && w.messages[i].due <= w.now) {
            deliver(&w.messages[i]);
        }
    }
}

/* ---- what a candidate holds in its hand: registers and backends -------------------------------- */

static message *begin_call(line *l, uint64_t id, int op) {
    l->id = id;
    l->replied = false;
    message *m = post(l->candidate, l->store);
    if (m) {
        m->op = op;
        m->id = id;
    }
    return m;
}

static leader_result line_read(void *self, const leader_call *call, leader_entry *found) {
    line *l = (line *)self;
    if (l->id != call->id) {
        begin_call(l, call->id, READ);
    }
    if (!l->replied) {
        return LEADER_PENDING;
    }
    *found = l->entry;
    return l->result;
}

static leader_result line_write(void *self, const leader_call *call, const leader_entry *next,
                                leader_entry *stored) {
    line *l = (line *)self;
    if (l->id != call->id) {
        message *m = begin_call(l, call->id, WRITE);
        if (m) {
            m->entry = *next;
        }
    }
    if (!l->replied) {
        return LEADER_PENDING;
    }
    *stored = l->entry;
    return l->result;
}

static leader_result line_ask(void *self, int op, const leader_request *request, leader_record *seen) {
    line *l = (line *)self;
    if (l->id != request->seq) {
        message *m = begin_call(l, request->seq, op);
        if (m) {
            m->request = *request;
        }
    }
    if (!l->replied) {
        return LEADER_PENDING;
    }
    *seen = l->record;
    return l->result;
}

static leader_result line_acquire(void *self, const leader_request *request, leader_record *seen) {
    return line_ask(self, LEADER_OP_ACQUIRE_, request, seen);
}

static leader_result line_renew(void *self, const leader_request *request, leader_record *seen) {
    return line_ask(self, LEADER_OP_RENEW_, request, seen);
}

static leader_result line_release(void *self, const leader_request *request, leader_record *seen) {
    return line_ask(self, LEADER_OP_RELEASE_, request, seen);
}

static leader_result line_observe(void *self, const leader_request *request, leader_record *seen) {
    return line_ask(self, LEADER_OP_OBSERVE_, request, seen);
}

static leader_backend line_backend(candidate *c, int at) {
    leader_backend server;
    memset(&server, 0, sizeof server);
    server.self = &c->lines[at];
    server.acquire = line_acquire;
    server.renew = line_renew;
    server.release = line_release;
    server.observe = line_observe;
    leader_register record;
    memset(&record, 0, sizeof record);
    record.self = &c->lines[at];
    record.read = line_read;
    record.write = line_write;
    return w.at[at].is_server ? server : leader_register_backend(&c->engines[at], &record);
}

/* ---- candidates -------------------------------------------------------------------------------- */

static void on_started(void *user, uint64_t token) {
    candidate *c = (candidate *)user;
    say("%s leads, token %llu", c->name, (unsigned long long)token);
    if (c->in_term) {
        fail("a term started inside another");
    }
    if (token <= w.top) {
        fail("a token did not rise");
    }
    w.top = token;
    w.terms++;
    c->in_term = true;
    c->last_term = w.now;
}

static void on_stopped(void *user, uint64_t token, leader_result why) {
    candidate *c = (candidate *)user;
    say("%s stops, token %llu: %s", c->name, (unsigned long long)token, leader_strerror(why));
    if (!c->in_term) {
        fail("a term stopped that had not started");
    }
    w.ends++;
    c->in_term = false;
}

static void on_log(void *user, leader_level level, const char *text) {
    (void)level;
    say("%s: %s", ((candidate *)user)->name, text);
}

static void start_candidate(int at) {
    candidate *c = &w.who[at];
    leader_backend stores[STORES];
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    memset(c->lines, 0, sizeof c->lines);
    c->name[0] = (char)('a' + at);
    c->life++;
    c->up = true;
    c->in_term = false;
    c->due = w.now;
    c->rate = RATE_MIN + (int)below(RATE_MAX - RATE_MIN + 1);
    c->offset = below(1000000);
    for (int i = 0; i < w.stores; i++) {
        c->lines[i].candidate = at;
        c->lines[i].store = i;
        stores[i] = line_backend(c, i);
    }
    cfg.identity = c->name;
    cfg.backend = leader_quorum_backend(&c->quorum, stores, w.stores);
    cfg.lease_ms = L;
    cfg.renew_deadline_ms = D;
    cfg.renew_ms = RENEW;
    cfg.renew_retries = -1;
    cfg.renew_retry_ms = 10;
    cfg.retry_ms = RETRY;
    cfg.retry_max_ms = RETRY_MAX;
    cfg.request_timeout_ms = TIMEOUT;
    cfg.clock_ms = candidate_clock;
    cfg.clock_user = c;
    cfg.on_started_leading = on_started;
    cfg.on_stopped_leading = on_stopped;
    cfg.on_log = on_log;
    cfg.user = c;
    if (leader_init(&c->me, &cfg) != LEADER_OK) {
        fail(leader_error(&c->me));
    }
}

static void tick(candidate *c) {
    int wait = leader_tick(&c->me);
    int64_t real = (int64_t)wait * RATE_MIN / c->rate + 1;
    c->due = w.now + (real < 20 ? real : 20);
    if (w.faults && !w.calm && chance(w.stall_rate)) {
        c->due += below(2 * L);
        say("%s stalls for %lld ms", c->name, (long long)(c->due - w.now));
    }
    if (leader_is_stopped(&c->me)) {
        c->up = false;
        c->back_at = w.now + below(L);
    }
    check_leaders();
}

static void crash(candidate *c) {
    say("%s crashes", c->name);
    w.crashes++;
    c->up = false;
    c->in_term = false;
    c->back_at = w.now + below(2 * L);
}

/* ---- faults ------------------------------------------------------------------------------------ */

static void disturb_store(int at) {
    store *s = &w.at[at];
    if (chance(s->down ? 8000 : w.down_rate)) {
        s->down = !s->down;
        say("store %d is %s", at + 1, s->down ? "down" : "up");
    }
    if (chance(1000)) {
        s->slow_ms = chance(700000) ? 0 : (int)below(TIMEOUT);
    }
    if (chance(2000)) {
        int c = (int)below(CANDIDATES);
        s->cut[c] = !s->cut[c] && chance(500000);
    }
    if (chance(w.wipe_rate)) {
        say("store %d is wiped", at + 1);
        w.wipes++;
        wipe(s);
    }
}

static void disturb_candidate(candidate *c) {
    if (!c->up) {
        return;
    }
    if (chance(w.crash_rate)) {
        crash(c);
    } else if (chance(300)) {
        say("%s resigns", c->name);
        leader_resign(&c->me, 0);
    } else if (chance(200)) {
        say("%s is asked to stop", c->name);
        leader_stop(&c->me);
    }
}

static void disturb(void) {
    for (int i = 0; i < w.stores; i++) {
        disturb_store(i);
    }
    for (int i = 0; i < CANDIDATES; i++) {
        disturb_candidate(&w.who[i]);
    }
}

/* A minority fails, now this one and now that, each with a lease and a renewal to recover before the next. */
static void disturb_calmly(int64_t start) {
    int64_t phase = (w.now - start) % (4 * L);
    int victim = (int)((w.now - start) / (4 * L)) % w.stores;
    store *s = &w.at[victim];
    int kind = victim % 3;
    if (phase == 0) {
        say("store %d: %s", victim + 1, kind == 0 ? "down" : kind == 1 ? "wiped" : "slow");
        s->down = kind == 0;
        s->slow_ms = kind == 2 ? 10 * L : 0;
        if (kind == 1) {
            w.wipes++;
            wipe(s);
        }
    }
    if (phase == L) {
        s->down = false;
        s->slow_ms = 0;
    }
}

/* ---- one scenario ------------------------------------------------------------------------------ */

static bool has_leader(void) {
    for (int i = 0; i < CANDIDATES; i++) {
        if (w.who[i].up && leader_is_leader(&w.who[i].me)) {
            return true;
        }
    }
    return false;
}

static void step(void) {
    deliver_due();
    for (int i = 0; i < CANDIDATES; i++) {
        candidate *c = &w.who[i];
        if (!c->up && w.now >= c->back_at) {
            start_candidate(i);
        }
        if (c->up && w.now >= c->due) {
            tick(c);
        }
    }
    check_leaders();
    w.now++;
}

static void run_until(int64_t end) {
    while (w.now < end && w.failure[0] == 0) {
        if (w.faults && !w.calm) {
            disturb();
        }
        step();
    }
}

static int64_t find_leader(int64_t limit) {
    int64_t start = w.now;
    while (!has_leader() && w.now - start < limit && w.failure[0] == 0) {
        step();
    }
    if (!has_leader()) {
        fail("no leader was found");
    }
    return w.now - start;
}

static void heal(void) {
    w.faults = false;
    for (int i = 0; i < w.stores; i++) {
        w.at[i].down = false;
        w.at[i].slow_ms = 0;
        memset(w.at[i].cut, 0, sizeof w.at[i].cut);
    }
}

/* Each kind of fault is absent, rare or frequent in a scenario. */
static int draw_rate(int frequent) {
    static const int percent[] = {0, 10, 30, 100};
    return frequent / 100 * percent[below(4)];
}

static void prepare(uint64_t seed, bool verbose) {
    memset(&w, 0, sizeof w);
    random_state = seed;
    w.verbose = verbose;
    w.stores = chance(600000) ? 3 : 5;
    w.calm = chance(150000);
    w.wipe_rate = draw_rate(2000);
    w.down_rate = draw_rate(4000);
    w.late_rate = draw_rate(100000);
    w.lost_rate = draw_rate(50000);
    w.crash_rate = draw_rate(1500);
    w.stall_rate = draw_rate(10000);
    w.now = 1000;
    int mix = (int)below(3);
    for (int i = 0; i < w.stores; i++) {
        w.at[i].is_server = mix == 0 ? false : mix == 1 ? true : chance(500000);
        w.at[i].rate = RATE_MIN + (int)below(RATE_MAX - RATE_MIN + 1);
    }
    for (int i = 0; i < CANDIDATES; i++) {
        w.who[i].back_at = w.now + below(50);
    }
}

static int64_t run_calm(void) {
    int64_t took = find_leader(FIND_MS);
    run_until(w.now + L);
    int64_t start = w.now;
    uint64_t terms = w.terms;
    while (w.now < start + 4 * L * 10 && w.failure[0] == 0) {
        disturb_calmly(start);
        step();
        if (w.terms != terms || !has_leader()) {
            fail("a minority of stores cost the leader its term");
        }
    }
    return took;
}

static int64_t run_wild(void) {
    w.faults = true;
    run_until(w.now + 20 * L + below(20 * L));
    heal();
    return find_leader(FIND_MS);
}

int main(int argc, char **argv) {
    uint64_t runs = 200, seed = 1;
    bool verbose = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
            runs = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--verbose") == 0) {
            verbose = true;
        } else {
            fprintf(stderr, "usage: %s [--runs N] [--seed S] [--verbose]\n", argv[0]);
            return 2;
        }
    }
    uint64_t terms = 0, wipes = 0, crashes = 0, calm = 0, failed = 0;
    int64_t longest = 0;
    for (uint64_t i = 0; i < runs; i++) {
        prepare(seed + i, verbose);
        int64_t took = w.calm ? run_calm() : run_wild();
        longest = took > longest ? took : longest;
        terms += w.terms;
        wipes += w.wipes;
        crashes += w.crashes;
        calm += w.calm;
        if (w.failure[0]) {
            printf("FAILED: seed %llu, %d stores: %s\n", (unsigned long long)(seed + i), w.stores, w.failure);
            failed++;
        }
    }
    printf("%llu scenarios (%llu calm), %llu terms, %llu wipes, %llu crashes; a leader within %lld ms of at "
           "most %d\n",
           (unsigned long long)runs, (unsigned long long)calm, (unsigned long long)terms,
           (unsigned long long)wipes, (unsigned long long)crashes, (long long)longest, FIND_MS);
    printf("%llu passed, %llu failed\n", (unsigned long long)(runs - failed), (unsigned long long)failed);
    return failed != 0;
}

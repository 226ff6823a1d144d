/* The world: candidates, messages under way, what the run has counted, and the timeline. */

enum { SIM_RATE_RING = 18 };  // requests looked back on when their rate is judged
enum { SIM_VALUE_BYTES = 64, SIM_TERMS_KEPT = 256 };

typedef enum store_kind {
    STORE_REDIS,
    STORE_K8S,
    STORE_REGISTER,
    STORE_FILE,
    STORE_ETCD,
    STORE_PG,
    STORE_KINDS
} store_kind;
static const char *const store_names[STORE_KINDS] = { "redis", "k8s", "register", "file", "etcd", "pg" };

/* Deliberate breakages of rules that live in a store or in the scenario rather than in leader.h: see
   tests/sim/mutants. */
#define SIM_BREAKS(X)                                                                                        \
    X(rates_past_limit, "clock rates differ by more than L/D")                                               \
    X(clock_jumps, "the Redis server's clock jumps by more than L - D")                                      \
    X(replica_lags, "Redis fails over to a replica that lags behind")

typedef struct sim_breaks {
#define X(name, text) bool name;
    SIM_BREAKS(X)
#undef X
} sim_breaks;

/* What can go wrong. The letters say which stores it happens to; '!' marks that the store forgets. */
#define SIM_FAULTS(X)                                                                                        \
    X(STALL, "stalls", "rkcfep")                                                                             \
    X(CRASH, "crashes", "rkcfep")                                                                            \
    X(RESIGN, "resignations", "rkcfep")                                                                      \
    X(STOP, "stops", "rkcfep")                                                                               \
    X(UNHEALTHY, "unhealthy spells", "rkcfep")                                                               \
    X(RATE, "clock rate changes", "rkcfep")                                                                  \
    X(PARTITION, "partitions", "rkcep")                                                                      \
    X(OUTAGE, "store outages", "rkcfep")                                                                     \
    X(ERRORS, "spells of store errors", "rkcfep")                                                            \
    X(SLOW, "slow spells", "rkcep")                                                                          \
    X(RESTART, "store restarts", "rkcep")                                                                    \
    X(WIPE, "store wipes", "rkcfep!")                                                                        \
    X(EVICT_LEASE, "lease keys evicted", "r")                                                                \
    X(EVICT_WITNESS, "witnesses evicted", "r")                                                               \
    X(PERSIST, "lease keys made permanent", "r")                                                             \
    X(SCRIPTS, "scripts forgotten", "r")                                                                     \
    X(JUMP, "jumps of the server's clock", "r")                                                              \
    X(DELETE, "records deleted", "kcep!")                                                                    \
    X(RECREATE, "records re-created", "kce!")                                                                \
    X(LABEL, "records labelled", "kce")                                                                      \
    X(MEMBER, "members lost", "ep")                                                                          \
    X(VOID, "auth tokens made void", "e")                                                                    \
    X(COMPACT, "histories compacted", "e")                                                                   \
    X(RESTORE, "backups restored", "ep!")                                                                    \
    X(READ_ONLY, "read-only spells", "p")                                                                    \
    X(DISK, "system call errors", "f")                                                                       \
    X(POWER, "power failures", "f")                                                                          \
    X(STRIP, "locks and texts removed", "f")                                                                 \
    X(LOST_REQUEST, "requests lost", "")                                                                     \
    X(LOST_REPLY, "replies lost", "")                                                                        \
    X(DUP_REQUEST, "requests duplicated", "")                                                                \
    X(DUP_REPLY, "replies duplicated", "")                                                                   \
    X(REORDERED, "requests reordered", "")                                                                   \
    X(GIVEN_UP, "requests run after give-up", "")                                                            \
    X(LATE_REPLY, "replies too late", "")                                                                    \
    X(LOST_NOTICE, "notices lost", "")                                                                       \
    X(YIELD, "system calls interleaved", "")

typedef enum fault_kind {
#define X(name, text, stores) FAULT_##name,
    SIM_FAULTS(X)
#undef X
    FAULT_KINDS
} fault_kind;

static const struct { const char *text, *stores; } fault_info[FAULT_KINDS] = {
#define X(name, text, stores) { text, stores },
    SIM_FAULTS(X)
#undef X
};

typedef enum point_kind { POINT_CLOCK, POINT_CALL, POINT_ANSWER, POINT_CALLBACK, POINT_SYSCALL } point_kind;
static const char *const point_names[] = {"a clock read", "a backend call", "a backend's answer",
                                          "a callback", "a system call"};

typedef enum op_kind { OP_NONE, OP_ACQUIRE, OP_RENEW, OP_RELEASE, OP_OBSERVE, OP_READ, OP_WRITE } op_kind;
static const char *const op_names[] = { "none", "acquire", "renew", "release", "observe", "read", "write" };

typedef struct message {                                        // between the engine's register and its store
    int           who;
    uint32_t      incarnation;
    uint64_t      id, ran_id;                                   // ran_id: it was carried out
    op_kind       op;
    leader_result result;
    leader_entry  entry;
    int           next_free;
} message;

enum { CLIENT_NEWS = 8 };
typedef struct client_news { leader_news kind; leader_entry entry; } client_news;

typedef struct client {  // a candidate's end of its connection to the store
    uint64_t    call_id;                                        // of the call that the engine is asking about
    uint64_t    ran_id;                                         // the last write that the store carried out
    uint64_t    wait_id;                                        // message whose reply is awaited; 0: none
    bool        answered, listening;
    message     reply;
    message     naive;  // its last write from before it saw any record
    int64_t     block_us;
    client_news news[CLIENT_NEWS];
    int         news_count;
} client;

typedef struct candidate_plan {                                 // drawn once; a restarted process keeps it
    int64_t lease_ms, deadline_ms, renew_ms, retry_ms, retry_max_ms, timeout_ms;
    int64_t drain_ms, drain_timeout_ms, defer_ms;
    int     late_ms;                                            // how late its loop may tick
    int     renew_retries;
    bool    keep_lease, observer, cautious, reclaim, plain_sleep, blocking, waits, no_notice, vague_notice;
    bool    says;                                               // while it leads, something about itself
    int     host;  // boot id; candidates of one host share a clock
} candidate_plan;

typedef struct candidate {
    int            number, name;
    candidate_plan plan;
    coroutine      co;
    uint32_t       incarnation, generation;
    bool           up, live;                                    // process exists; leader_t may be asked
    bool           sleeping, ready, stalled, retired;
    int64_t        stalled_until_us;
    sim_rng        rng;
    leader_t       leader;
    leader_engine  engine;
    leader_k8s     k8s;
    leader_etcd    etcd;
    leader_pg      pg;
    leader_http_exchange_ *waiting[8];                          // of its HTTP client, under way
    leader_file    file;
    leader_redis   redis;
    char           naive[8192];  // what it last sent before it had seen any record
    size_t         naive_len;
    int64_t        naive_us;                                    // and when
    leader_backend inner;                                       // the store's backend, under the checking one
    leader_host    host;
    client         client;
    /* faults armed: they strike at the n-th point from now */
    uint32_t       stall_in, crash_in, error_in;
    int64_t        stall_us;
    int            error_number;
    bool           unhealthy;
    int64_t        close_ms;  // asked to close within that time; -1: not asked
    int            heir;      // asked to resign to this name; 0: not asked
    int64_t        heir_pause_ms;
    int64_t        defer_ms;                                    // at present
    int            value, asked_value;                          // the number of its value; in acquire
    bool           says_more;                                   // it has something new to say
    bool           asks;                                        // an attempt to take the lease is under way
    int64_t        cut_requests_us, cut_replies_us;             // partitioned until then
    /* for the checker */
    bool           in_term, lapsed, drained, said_unhealthy;
    uint64_t       term_token, seen_token, terms;
    bool           seen_record;                                 // held or released
    int64_t        longest_ms;                                  // the longest lease of a holder it has seen
    int64_t        term_ended_ms;
    bool           keeps;                                       // what it led, until it releases it
    int64_t        kept_until_ms;  // closed without a release: nobody else leads before; INT64_MIN: none
    uint64_t       shown_token;                                 // the pair last looked at
    char           shown_value[SIM_VALUE_BYTES];
    int            callback_depth;
    uint64_t       request_seq, nonce;
    op_kind        request_op;
    int64_t        tick_ms, request_ms, valid_until_ms, hold_until_ms;
    int64_t        starts_ms[SIM_RATE_RING], renew_starts_ms[SIM_RATE_RING];
    unsigned       start_count, renew_count;
} candidate;

typedef struct term_values {  // the numbers of what was shown as said in a term
    uint64_t token;
    int      who;
    uint32_t incarnation;
    int      first, last;
    int      begun;  // said by its leader when it asked for the term; 0: it never came to lead
} term_values;

typedef struct sim_clock { int64_t offset_us, from_us; int64_t rate; } sim_clock;

/* Some scenarios are bent towards one end of the promise, with little else going wrong: clocks that differ
   as much as they may, answers that take long, and leaders cut off from the store; or stores that forget
   while candidates come and go. */
typedef enum bent_kind { BENT_NOT, BENT_EDGE, BENT_WIPED } bent_kind;

typedef enum phase_kind {
    PHASE_CHAOS,
    PHASE_CALM,
    PHASE_STEADY,
    PHASE_KILLED,
    PHASE_RESIGNED,
    PHASE_OVER
} phase_kind;

typedef struct world {
    uint64_t    seed;
    store_kind  store;
    int64_t     now_us;
    sim_rng     rng, net_rng;
    event_queue queue;
    int         count;
    candidate   all[SIM_CANDIDATES_MAX];
    sim_clock   clocks[SIM_CANDIDATES_MAX];                     // by host
    candidate  *running;                                        // NULL: the simulator itself
    /* scenario */
    bool        forgets;
    bent_kind   bent;
    int64_t     rate_lo, rate_hi;
    int64_t     lease_max_ms;
    int64_t     mean_us[FAULT_KINDS];                           // between two faults of a kind; 0: never
    int64_t     wiped_us;                                       // the store last forgot; 0: never
    int64_t     restored_us;                                    // a backup was last brought back; 0: never
    int         yield_permille;  // how often a system call lets others run in between
    int         lose_permille, duplicate_permille, tail_permille;
    int64_t     delay_lo_us, delay_hi_us, tail_us, calm_us;
    int64_t     outage_us, errors_us, slow_us;                  // until then
    /* phases */
    phase_kind  phase;
    int         round;
    bool        found;
    int64_t     phase_us, bound_us, calm_since_us;
    candidate  *leader;
    candidate  *heir;                                           // who must lead next; NULL: anybody
    uint32_t    phase_generation;
    /* checker */
    bool        failed;
    char        failure[512];
    uint64_t    top_token;
    bool        tokens_reset;  // the store forgot its numbers: judge by what was seen
    term_values terms[SIM_TERMS_KEPT];                          // a ring, by their count
    unsigned    term_count;
    uint64_t    events;
    /* messages */
    message    *pool;
    int         pool_room, pool_free;
    uint64_t    message_ids;
    uint64_t    last_run[SIM_CANDIDATES_MAX];
} world;

static world sim;

typedef struct sim_tally {  // what was counted, of one scenario or of all of a store
    uint64_t scenarios, failed, terms, overlaps, regressions, unpaired, others, events;
    uint64_t heirs, deferrals, values;
    uint64_t faults[FAULT_KINDS];
    double   hours, worst_calm, worst_failover, worst_handover; // worst: of the bound
} sim_tally;

static sim_tally run;                                           // the present scenario
static sim_tally tallies[STORE_KINDS];
static struct { sim_breaks breaks; bool timeline, quiet; } asked;

/* ---- clocks ------------------------------------------------------------------------------------ */
static int64_t clock_us(const sim_clock *k) {
    return k->offset_us + (int64_t)((sim.now_us - k->from_us) * k->rate / SIM_RATE_ONE);
}

static int64_t candidate_ms(const candidate *c) { return clock_us(&sim.clocks[c->plan.host]) / 1000; }

static int64_t slowest_us(int64_t ms) { return ms * 1000 * SIM_RATE_ONE / sim.rate_lo; }

static int64_t plan_deadline_ms(const candidate_plan *p) {
    return p->deadline_ms ? p->deadline_ms : p->lease_ms * 2 / 3;
}

static int64_t plan_renew_ms(const candidate_plan *p) { return p->renew_ms ? p->renew_ms : p->lease_ms / 3; }

static int64_t plan_retry_ms(const candidate_plan *p) {
    int64_t renew_ms = plan_renew_ms(p);
    if (p->retry_ms) {
        return p->retry_ms;
    }
    return renew_ms < 2000 ? renew_ms : 2000;
}

/* How long a candidate's own milliseconds last in global time, rounded up. */
static int64_t candidate_span_us(const candidate *c, int64_t ms) {
    return ms * 1000 * SIM_RATE_ONE / sim.clocks[c->plan.host].rate + 1;
}

/* ---- the timeline: printed only when a seed is replayed ---------------------------------------- */
static const char *sim_name(int name) {
    static const char *const names[] = {"nobody", "ann", "ben", "cid", "dot",
                                        "eve",    "fay", "gus", "hal", "ivy"};
    return names[name];
}

__attribute__((format(printf, 2, 3)))
static void note(const candidate *c, const char *format, ...) {
    if (!asked.timeline) return;
    va_list args;
    va_start(args, format);
    printf("%12.6f  ", (double)sim.now_us / 1e6);
    if (c)
        printf("%d.%u %-3s %10lld  ", c->number, (unsigned)c->incarnation, sim_name(c->name),
               (long long)candidate_ms(c));
    else   printf("%-19s", "");
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

/* ---- a rule was broken ------------------------------------------------------------------------- */
__attribute__((format(printf, 2, 3)))
static void violation(uint64_t *tally, const char *format, ...) {
    (*tally)++;
    va_list args;
    va_start(args, format);
    char text[sizeof sim.failure];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    note(NULL, "VIOLATION: %s", text);
    if (sim.failed) return;
    sim.failed = true;
    memcpy(sim.failure, text, sizeof text);
}

static void sim_broken(const char *invariant) {
    violation(&run.others, "invariant broken: %s", invariant);
}

/* ---- sleeping, stalling, dying ----------------------------------------------------------------- */
static void check_leaders(candidate *c);
static void candidate_die(candidate *c, bool crashed);

static void plan_event(int64_t at_us, event_kind kind, int who, uint32_t generation, int msg) {
    event e = { at_us, 0, kind, who, generation, msg };
    queue_push(&sim.queue, e);
}

/* Leaves the candidate's stack until at_us, or earlier if it sleeps and something comes for it. */
static void candidate_pause(candidate *c, int64_t at_us, bool sleeping) {
    check_leaders(c);
    if (sleeping && c->ready) at_us = sim.now_us;
    c->ready    = false;
    c->sleeping = sleeping;
    plan_event(at_us, EV_WAKE, c->number, ++c->generation, -1);
    coroutine_leave(&c->co);
    c->sleeping = false;
}

static void candidate_wake(candidate *c) {  // a descriptor of its became readable, so to speak
    if (!c->up) return;
    if (!c->sleeping) { c->ready = true; return; }
    c->sleeping = false;
    plan_event(sim.now_us, EV_WAKE, c->number, ++c->generation, -1);
}

/* Others run in between: mostly for a moment, now and then for as long as matters. */
static void sim_yield(candidate *c) {
    bool brief = !rng_permille(&c->rng, 30);
    int64_t pause_us = brief ? rng_log(&c->rng, 1, 2000) : rng_log(&c->rng, 2000, sim.lease_max_ms * 1000);
    run.faults[FAULT_YIELD]++;
    c->stalled = true;
    candidate_pause(c, sim.now_us + pause_us, false);
    c->stalled = false;
}

/* Every place where a process can lose the processor, or its life. */
static void sim_point(candidate *c, point_kind kind) {
    if (sim.running != c) return;  // the checker asks: no time passes
    if (c->crash_in && --c->crash_in == 0) {
        run.faults[FAULT_CRASH]++;
        note(c, "CRASHES in %s", point_names[kind]);
        candidate_die(c, true);
        coroutine_leave(&c->co);                                                     // never comes back
    }
    if (kind == POINT_SYSCALL && sim.phase == PHASE_CHAOS && rng_permille(&c->rng, sim.yield_permille)) {
        sim_yield(c);
    }
    if (c->stall_in && --c->stall_in == 0) {
        run.faults[FAULT_STALL]++;
        note(c, "stalls for %lld ms in %s", (long long)(c->stall_us / 1000), point_names[kind]);
        c->stalled = true;
        candidate_pause(c, sim.now_us + c->stall_us, false);
        c->stalled = false;
        note(c, "goes on");
    }
}

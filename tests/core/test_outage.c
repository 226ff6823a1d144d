/* A store goes away and comes back: when does somebody lead again, and how hard is the returning store
   hit? Default settings, any number of candidates on one register, all on one simulated clock: nothing
   here depends on the machine. */
#define LEADER_IMPLEMENTATION
#define LEADER_NO_STDERR
#include "leader.h"
#include "tests/tools/utest.h"

enum { CANDIDATES_MAX = 200, SEEDS = 10 };

typedef enum absence { PRESENT, REFUSING, SILENT } absence;

typedef struct candidate {
    leader_t      me;
    leader_engine engine;
    char          name[16];
    int64_t       due_ms;
    uint64_t      lost_call;        // sent while the store was silent: it is never answered
} candidate;

static struct {
    candidate    c[CANDIDATES_MAX];
    int          count;
    int64_t      now_ms;
    absence      absence;
    leader_entry record;
    uint64_t     version;
    int          requests;
    int          terms;
} world;

static int64_t world_clock(void *user) {
    (void)user;
    return world.now_ms;
}

static void ignore_fd(void *user, intptr_t fd, int events) {
    (void)user;
    (void)fd;
    (void)events;
}

/* PENDING, an error, or OK: the store is there and the request has come. */
static leader_result reach(candidate *c, uint64_t call_id) {
    if (c->lost_call == call_id) {
        return LEADER_PENDING;
    }
    if (world.absence == SILENT) {
        c->lost_call = call_id;
        return LEADER_PENDING;
    }
    if (world.absence == REFUSING) {
        return LEADER_E_IO;
    }
    world.requests++;
    return LEADER_OK;
}

static leader_result store_read(void *self, const leader_call *call, leader_entry *found) {
    leader_result result = reach((candidate *)self, call->id);
    if (result == LEADER_OK) {
        *found = world.record;
    }
    return result;
}

static leader_result store_write(void *self, const leader_call *call, const leader_entry *next,
                                 leader_entry *stored) {
    leader_result result = reach((candidate *)self, call->id);
    if (result != LEADER_OK) {
        return result;
    }
    if (strcmp(next->version, world.record.version) != 0) {
        return LEADER_LOST;
    }
    world.version++;
    *stored = *next;
    snprintf(stored->version, sizeof stored->version, "%llu", (unsigned long long)world.version);
    world.record = *stored;
    return LEADER_OK;
}

static void count_term(void *user, uint64_t token) {
    (void)user;
    (void)token;
    world.terms++;
}

static void begin(int count, uint64_t seed) {
    memset(&world, 0, sizeof world);
    world.now_ms = 1000000;
    world.count = count;
    for (int i = 0; i < count; i++) {
        candidate *c = &world.c[i];
        leader_register store;
        leader_config cfg;
        memset(&store, 0, sizeof store);
        memset(&cfg, 0, sizeof cfg);
        store.self = c;
        store.read = store_read;
        store.write = store_write;
        snprintf(c->name, sizeof c->name, "c%d", i);
        cfg.identity = c->name;
        cfg.backend = leader_register_backend(&c->engine, &store);
        cfg.clock_ms = world_clock;
        cfg.on_fd = ignore_fd;
        cfg.on_started_leading = count_term;
        leader_init(&c->me, &cfg);
        c->me.plan.random = leader_mix_(seed * 1000 + (uint64_t)i) | 1;
        c->due_ms = world.now_ms + i * 10;
    }
}

static int leaders(void) {
    int leading = 0;
    for (int i = 0; i < world.count; i++) {
        leading += leader_is_leader(&world.c[i].me);
    }
    return leading;
}

/* Ticks everyone when it is due, for so long, or until somebody leads. */
static void run(int64_t ms, bool until_led) {
    int64_t end_ms = world.now_ms + ms;
    while (world.now_ms < end_ms) {
        int64_t next_ms = end_ms;
        for (int i = 0; i < world.count; i++) {
            candidate *c = &world.c[i];
            if (c->due_ms <= world.now_ms) {
                c->due_ms = world.now_ms + leader_tick(&c->me);
            }
            if (c->due_ms < next_ms) {
                next_ms = c->due_ms;
            }
        }
        if (until_led && leaders() > 0) {
            return;
        }
        world.now_ms = next_ms > world.now_ms ? next_ms : world.now_ms;
    }
}

/* Shorter than the slack of a term, longer than that, longer than a lease. */
static const int64_t outages_ms[] = {5000, 7000, 9000, 11000, 14000, 20000, 30000, 90000, 600000};
enum { OUTAGES = sizeof outages_ms / sizeof outages_ms[0] };

typedef struct returns {            // how long after the store's return somebody leads, over all seeds
    int64_t worst_ms;
    int     runs, late;             // after more than two seconds
} returns;

static void measure_returns(int count, absence kind, int64_t outage_ms, returns *r) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(count, seed);
        run(20000 + (int64_t)seed * 251, false);
        world.absence = kind;
        run(outage_ms, false);
        world.absence = PRESENT;
        int64_t back_ms = world.now_ms;
        run(60000, true);
        r->worst_ms = leader_max_(r->worst_ms, world.now_ms - back_ms);
        r->late += world.now_ms - back_ms > 2000;
        r->runs++;
    }
}

static returns all_returns(absence kind) {
    returns r = {0, 0, 0};
    for (int i = 0; i < OUTAGES; i++) {
        for (int count = 1; count <= 5; count += 2) {
            measure_returns(count, kind, outages_ms[i], &r);
        }
    }
    return r;
}

UTEST(outage, led_again_within_two_seconds_after_refusals_of_any_length) {
    returns r = all_returns(REFUSING);
    EXPECT_LE(r.worst_ms, 2000);
}

/* One request in 32 has its full time even in a silence: the store may be slow rather than gone. */
UTEST(outage, led_again_within_two_seconds_after_silence_of_any_length) {
    returns r = all_returns(SILENT);
    EXPECT_LE(r.late * 32, r.runs);
    EXPECT_LE(r.worst_ms, 3100);
}

UTEST(outage, a_leader_keeps_its_term_through_five_seconds_at_any_moment) {
    int kept = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(3, seed);
        run(20000 + (int64_t)seed * 500, false);    // every phase of the renewals, five seconds apart
        int terms = world.terms;
        world.absence = REFUSING;
        run(4980, false);           // the slack is 5,000 ms; the last look is 10 ms before its end
        world.absence = PRESENT;
        run(20000, false);
        kept += world.terms == terms && leaders() == 1;
    }
    EXPECT_EQ(kept, SEEDS);
}

UTEST(outage, two_hundred_candidates_are_no_herd) {
    static const absence kinds[] = {REFUSING, SILENT};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (uint64_t seed = 1; seed <= 2; seed++) {
            begin(CANDIDATES_MAX, seed);
            run(20000, false);
            world.absence = kinds[i];
            run(90000, false);
            world.absence = PRESENT;
            world.requests = 0;
            run(1000, false);
            EXPECT_LE(world.requests, CANDIDATES_MAX);
            EXPECT_GE(world.requests, 1);
        }
    }
}

UTEST_MAIN()

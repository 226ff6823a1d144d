/* A C++ callback must not throw. One that does leaves the election able to tick, to lead again and to
   close. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/utest.h"

UTEST_MAIN()

enum thrower { NOBODY, STARTED, STOPPED, NEW_LEADER, HEALTHY, DRAINED, LOG, BACKEND };

struct world {
    thrower  throws;
    int64_t  now_ms;
    uint64_t token;
};

static world w;

static void maybe_throw(thrower who) {
    if (w.throws == who) {
        w.throws = NOBODY;
        throw who;
    }
}

static leader_result acquire(void *, const leader_request *request, leader_record *seen) {
    maybe_throw(BACKEND);
    seen->token = request->min_token;
    return LEADER_OK;
}

static leader_result renew(void *, const leader_request *, leader_record *) {
    maybe_throw(BACKEND);
    return LEADER_OK;
}

static int64_t read_clock(void *) { return w.now_ms; }
static bool is_healthy(void *) { maybe_throw(HEALTHY); return true; }
static bool is_drained(void *) { maybe_throw(DRAINED); return true; }
static void on_started(void *, uint64_t) { maybe_throw(STARTED); }
static void on_stopped(void *, uint64_t, leader_result) { maybe_throw(STOPPED); }
static void on_new_leader(void *, const char *) { maybe_throw(NEW_LEADER); }
static void on_log(void *, leader_level, const char *) { maybe_throw(LOG); }

static bool ticks_and_throws(leader_t *me) {
    try {
        leader_tick(me);
    } catch (thrower) {
        return true;
    }
    return false;
}

static void survives(int *utest_result, thrower who) {
    leader_config config = {};
    leader_t me;
    w.throws = NOBODY;
    w.now_ms = 1000000;
    config.identity = "a";
    config.backend.acquire = acquire;
    config.backend.renew = renew;
    config.backend.release = renew;
    config.is_healthy = is_healthy;
    config.is_drained = is_drained;
    config.on_started_leading = on_started;
    config.on_stopped_leading = on_stopped;
    config.on_new_leader = on_new_leader;
    config.on_log = on_log;
    config.clock_ms = read_clock;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    bool thrown = false;
    w.throws = who;
    for (int i = 0; i < 20 && !thrown; i++) {
        if (i == 3) {
            leader_resign(&me, 1);
        }
        thrown = ticks_and_throws(&me);
        w.now_ms += 5000;
    }
    ASSERT_TRUE(thrown);
    for (int i = 0; i < 20; i++) {
        ASSERT_FALSE(ticks_and_throws(&me));
        w.now_ms += 100;
    }
    ASSERT_TRUE(leader_is_leader(&me));
    ASSERT_EQ(LEADER_OK, leader_close(&me, 0));
    ASSERT_TRUE(leader_is_stopped(&me));
}

UTEST(exception, in_on_started_leading) { survives(utest_result, STARTED); }
UTEST(exception, in_on_stopped_leading) { survives(utest_result, STOPPED); }
UTEST(exception, in_on_new_leader) { survives(utest_result, NEW_LEADER); }
UTEST(exception, in_is_healthy) { survives(utest_result, HEALTHY); }
UTEST(exception, in_is_drained) { survives(utest_result, DRAINED); }
UTEST(exception, in_on_log) { survives(utest_result, LOG); }
UTEST(exception, in_the_backend) { survives(utest_result, BACKEND); }

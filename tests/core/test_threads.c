/* Questions from any thread while one thread ticks; stop and resign from threads and signal handlers;
   closing under the eyes of others. Built plainly and with the thread sanitizer. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/utest.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>

UTEST_MAIN()

#define LOAD(p)     __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define ADD(p, v)   __atomic_add_fetch((p), (v), __ATOMIC_SEQ_CST)

/* ---- a store whose tokens tell when their term began ----------------------------------------------

   The clock is a number that the loop turns. A term's token is the clock at its acquire, and no renewal
   ever succeeds: a reader that sees token T must also see a deadline of exactly T + D, or it has seen
   halves of two terms. */

enum { DEADLINE_MS = 10000, READERS = 3, TERMS = 2000 };

static int64_t clock_now;
static int mistakes, done, asked;
static char mistake[160];

static int64_t shared_clock(void *user) { (void)user; return LOAD(&clock_now); }
static leader_result grant(void *self, const leader_request *r, leader_record *seen) {
    (void)self;
    seen->token = (uint64_t)r->now_ms;
    return LEADER_OK;
}
static leader_result deny(void *self, const leader_request *r, leader_record *seen) {
    (void)self;
    (void)r;
    (void)seen;
    return LEADER_LOST;
}
static leader_result agree(void *self, const leader_request *r, leader_record *seen) {
    (void)self;
    (void)r;
    (void)seen;
    return LEADER_OK;
}

static leader_config timed_config(void) {
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    cfg.identity = "a";
    cfg.backend.acquire = grant;
    cfg.backend.renew = deny;
    cfg.backend.release = agree;
    cfg.clock_ms = shared_clock;
    return cfg;
}

static void wrong(const char *what) {
    if (ADD(&mistakes, 1) == 1) snprintf(mistake, sizeof mistake, "%s", what);
}

/* All that one moment's answers must agree on; `before` and `after` are the clock around the question. */
static void check_view(const leader_view *v, int64_t before, int64_t after) {
    bool self = strcmp(v->leader, "a") == 0;
    if (v->leading) {
        int64_t now = (int64_t)v->token + v->since_ms;
        if (!self || v->state != LEADER_STATE_LEADER) wrong("leading, but somebody else or in another state");
        if (v->since_ms + v->remaining_ms != DEADLINE_MS)
            wrong("a view with the token of one term and the deadline of another");
        if (now < before || now > after) wrong("a view of a moment that was not now");
        if (v->remaining_ms <= 0 || v->age_ms < 0) wrong("leading without time left");
    } else {
        if (v->state == LEADER_STATE_LEADER) wrong("LEADER without leading");
        if (self || v->token || v->since_ms != -1) wrong("a view of nobody names a leader");
        if (v->remaining_ms && v->state != LEADER_STATE_DRAINING) wrong("time left for nobody");
    }
    if (v->state == LEADER_STATE_NONE) wrong("no state");
}

static void *ask_everything(void *election) {
    const leader_t *l = (const leader_t *)election;
    while (!LOAD(&done)) {
        int64_t before = LOAD(&clock_now);
        leader_view v = leader_get_view(l);
        check_view(&v, before, LOAD(&clock_now));

        before = LOAD(&clock_now);
        int64_t token = (int64_t)leader_token(l);
        if (token && (token > LOAD(&clock_now) || before >= token + DEADLINE_MS))
            wrong("a token outside of its term");

        if (leader_remaining_ms(l) > DEADLINE_MS || leader_remaining_ms(l) < 0)
            wrong("more time left than there can be");
        char leader[LEADER_IDENTITY_MAX + 1];
        int n = leader_get_leader(l, leader, sizeof leader);
        if (n != (leader[0] ? 1 : 0) || (n && leader[0] != 'a')) wrong("half a leader");
        leader_stats s = leader_get_stats(l);
        if (s.renewals || s.terms > s.acquires) wrong("statistics out of nothing");
        int due = leader_due_ms(l);
        if (due < 0 || due > LEADER_WAIT_MAX_MS) wrong("due outside of its bounds");
        if (leader_is_stopped(l)) wrong("stopped");
        (void)leader_is_leader(l);
        (void)leader_is_healthy(l, 1000);
        (void)leader_get_state(l);
        ADD(&asked, 1);
        if (LOAD(&asked) % 8 == 0) sched_yield();
    }
    return NULL;
}

UTEST(threads, every_question_from_any_thread_through_thousands_of_terms) {
    static leader_t me;
    leader_config cfg = timed_config();
    pthread_t reader[READERS];
    done = mistakes = asked = 0;
    clock_now = 1000000;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &cfg));
    for (int i = 0; i < READERS; i++) ASSERT_EQ(0, pthread_create(&reader[i], NULL, ask_everything, &me));
    for (int round = 0; leader_get_stats(&me).terms < TERMS || (LOAD(&asked) < 3000 && round < 100000000);
         round++) {
        leader_tick(&me);
        if (leader_is_leader(&me)) {
            if (round % 3 == 0) leader_resign(&me, 1);          // the three ways to the end of a term
            if (round % 3 == 1) ADD(&clock_now, 5000);          // renew: denied
            if (round % 3 == 2) ADD(&clock_now, DEADLINE_MS);
        }
        ADD(&clock_now, 700);
        if (round % 4 == 0) sched_yield();
    }
    STORE(&done, 1);
    for (int i = 0; i < READERS; i++) pthread_join(reader[i], NULL);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
    EXPECT_STREQ("", mistakes ? mistake : "");
    EXPECT_EQ(0, mistakes);
    EXPECT_GE(asked, 3000);
}

/* ---- stop and resign from elsewhere ------------------------------------------------------------ */

static int started, stopped;
static void count_start(void *user, uint64_t token) { (void)user; (void)token; ADD(&started, 1); }
static void count_stop(void *user, uint64_t token, leader_result why) {
    (void)user; (void)token;
    if (why != LEADER_OK) wrong("a term ended for another reason than being asked");
    ADD(&stopped, 1);
}

static void *resign_often(void *election) {
    leader_t *l = (leader_t *)election;
    while (LOAD(&started) < 100) {
        if (leader_is_leader(l)) leader_resign(l, 1);
        sched_yield();
    }
    return NULL;
}
static void *stop_often(void *election) {
    while (LOAD(&started) < 100) sched_yield();
    for (int i = 0; i < 1000; i++) leader_stop((leader_t *)election);
    return NULL;
}

static leader_config counted_config(void) {
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    cfg.identity = "a";
    cfg.backend = leader_single_backend();
    cfg.lease_ms = 600000;                      // no stall of the machine costs a term
    cfg.retry_ms = 10;                          // no standby asks more than nine times in this
    cfg.on_started_leading = count_start;
    cfg.on_stopped_leading = count_stop;
    started = stopped = mistakes = 0;
    return cfg;
}

UTEST(threads, resign_and_stop_from_several_threads_at_once) {
    static leader_t me;
    leader_config cfg = counted_config();
    pthread_t other[4];
    ASSERT_EQ(LEADER_OK, leader_init(&me, &cfg));
    for (int i = 0; i < 4; i++)
        ASSERT_EQ(0, pthread_create(&other[i], NULL, i < 2 ? resign_often : stop_often, &me));
    while (!leader_is_stopped(&me)) {
        leader_tick(&me);
        leader_sleep(&me, 5);
    }
    for (int i = 0; i < 4; i++) pthread_join(other[i], NULL);
    EXPECT_GE(started, 100);
    EXPECT_EQ(started, stopped);
    EXPECT_EQ(0, mistakes);
    EXPECT_EQ((uint64_t)started, leader_get_stats(&me).terms);
    leader_close(&me, 0);
}

static leader_t signalled;
static int signals;

static void on_signal(int number) {
    (void)number;
    int n = ADD(&signals, 1);
    if (!leader_is_leader(&signalled)) return;  // questions are fine here, too
    if (n < 60) leader_resign(&signalled, 1);
    else leader_stop(&signalled);
}

UTEST(threads, resign_and_stop_from_a_signal_handler) {
    leader_config cfg = counted_config();
    struct sigaction action;
    struct itimerval every;
    memset(&action, 0, sizeof action);
    memset(&every, 0, sizeof every);
    signals = 0;
    ASSERT_EQ(LEADER_OK, leader_init(&signalled, &cfg));
    action.sa_handler = on_signal;
    sigaction(SIGALRM, &action, NULL);
    every.it_interval.tv_usec = every.it_value.tv_usec = 3000;
    setitimer(ITIMER_REAL, &every, NULL);
    while (!leader_is_stopped(&signalled)) {
        leader_tick(&signalled);
        leader_sleep(&signalled, LOAD(&signals) % 2 ? 1 : 20);
    }
    memset(&every, 0, sizeof every);
    setitimer(ITIMER_REAL, &every, NULL);
    EXPECT_GE(signals, 60);
    EXPECT_GT(started, 5);
    EXPECT_EQ(started, stopped);
    EXPECT_EQ(0, mistakes);
    leader_close(&signalled, 0);
}

static void *stop_soon(void *election) {
    struct timespec t = {0, 30000000};
    nanosleep(&t, NULL);
    leader_stop((leader_t *)election);
    return NULL;
}
static leader_result somebody_else(void *self, const leader_request *r, leader_record *seen) {
    (void)self; (void)r;
    memcpy(seen->holder, "b", 2);
    seen->token = 5;
    seen->expires_in_ms = 15000;
    return LEADER_HELD;
}

UTEST(threads, stop_from_another_thread_ends_leader_wait) {
    static leader_t me;
    leader_config cfg = counted_config();
    pthread_t other;
    cfg.retry_ms = 20;  // the loop is not woken: it looks when its next attempt is due
    cfg.backend.acquire = somebody_else;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &cfg));
    ASSERT_EQ(0, pthread_create(&other, NULL, stop_soon, &me));
    EXPECT_EQ(LEADER_E_STATE, leader_wait(&me, -1));
    pthread_join(other, NULL);
    EXPECT_TRUE(leader_is_stopped(&me));
    leader_close(&me, 0);
}

/* ---- closing while others ask ------------------------------------------------------------------ */

enum { ELECTIONS = 300 };
static leader_t many[ELECTIONS];
static int opened;

static void *ask_the_newest_and_an_old_one(void *unused) {
    (void)unused;
    for (unsigned i = 0; !LOAD(&done); i++) {
        int n = LOAD(&opened);
        if (n == 0) continue;
        const leader_t *l = &many[i % 2 ? n - 1 : (int)(i / 2) % n];
        leader_view v = leader_get_view(l);
        if (v.leading && (strcmp(v.leader, "a") != 0 || v.token != 1)) wrong("half a view");
        if (v.state == LEADER_STATE_NONE && (v.leading || v.token || v.leader[0] || v.remaining_ms))
            wrong("a closed election knows something");
        uint64_t token = leader_token(l);
        if (token > 1) wrong("another token");
        (void)leader_is_leader(l);
        (void)leader_remaining_ms(l);
        (void)leader_due_ms(l);
        (void)leader_is_healthy(l, 0);
        (void)leader_get_stats(l);
        (void)leader_is_stopped(l);
        leader_resign((leader_t *)(uintptr_t)l, 60000);
        if (i % 16 == 0) leader_stop((leader_t *)(uintptr_t)l);
        ADD(&asked, 1);
    }
    return NULL;
}

UTEST(threads, closing_while_others_ask_turns_every_answer_to_no) {
    leader_config cfg = counted_config();
    pthread_t reader[2];
    done = asked = opened = 0;
    for (int i = 0; i < 2; i++)
        ASSERT_EQ(0, pthread_create(&reader[i], NULL, ask_the_newest_and_an_old_one, NULL));
    for (int i = 0; i < ELECTIONS; i++) {
        int before = LOAD(&asked);
        ASSERT_EQ(LEADER_OK, leader_init(&many[i], &cfg));
        leader_tick(&many[i]);
        STORE(&opened, i + 1);
        for (int k = 0; LOAD(&asked) < before + 5 && k < 1000000; k++) {
            leader_tick(&many[i]);
            sched_yield();
        }
        ASSERT_EQ(LEADER_OK, leader_close(&many[i], 1000));
        ASSERT_FALSE(leader_is_leader(&many[i]));
        ASSERT_EQ(LEADER_STATE_NONE, leader_get_state(&many[i]));
    }
    STORE(&done, 1);
    for (int i = 0; i < 2; i++) pthread_join(reader[i], NULL);
    EXPECT_EQ(0, mistakes);
    EXPECT_EQ(started, stopped);
}

/* ---- one election per thread, on one file ------------------------------------------------------ */

#ifndef LEADER_NO_FILE
enum { CANDIDATES = 4, HAND_OVERS = 40 };
static char lease_path[64];
static int inside, overlaps, led;
static uint64_t highest;

static void enter(void *user, uint64_t token) {
    (void)user;
    if (ADD(&inside, 1) != 1) ADD(&overlaps, 1);
    if (token <= LOAD(&highest)) wrong("a token did not rise");
    STORE(&highest, token);
    ADD(&led, 1);
}
static void leave(void *user, uint64_t token, leader_result why) {
    (void)user;
    (void)token;
    (void)why;
    ADD(&inside, -1);
}

static void *compete(void *name) {
    static __thread leader_file file;
    static __thread leader_t me;
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    cfg.identity = (const char *)name;
    cfg.backend = leader_file_backend(&file, lease_path);
    cfg.lease_ms = 600000;
    cfg.retry_ms = 100;
    cfg.on_started_leading = enter;
    cfg.on_stopped_leading = leave;
    if (leader_init(&me, &cfg) != LEADER_OK) return NULL;
    for (int64_t end = leader_clock_ms_() + 60000; LOAD(&led) < HAND_OVERS && leader_clock_ms_() < end;) {
        if (leader_wait(&me, 20) == LEADER_OK) leader_resign(&me, 1);
    }
    return leader_close(&me, 5000) == LEADER_OK ? name : NULL;
}

UTEST(threads, with_an_election_each_on_one_file_lead_one_at_a_time) {
    static char names[CANDIDATES][2] = {"a", "b", "c", "d"};
    char dir[] = "/tmp/leader-threads-XXXXXX", command[128];
    pthread_t thread[CANDIDATES];
    ASSERT_TRUE(mkdtemp(dir) != NULL);
    snprintf(lease_path, sizeof lease_path, "%s/job.lease", dir);
    mistakes = 0;
    for (int i = 0; i < CANDIDATES; i++) ASSERT_EQ(0, pthread_create(&thread[i], NULL, compete, names[i]));
    for (int i = 0; i < CANDIDATES; i++) {
        void *closed = NULL;
        pthread_join(thread[i], &closed);
        EXPECT_TRUE(closed != NULL);
    }
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    EXPECT_EQ(0, system(command));
    EXPECT_GE(led, HAND_OVERS);
    EXPECT_EQ(0, overlaps);
    EXPECT_EQ(0, inside);
    EXPECT_STREQ("", mistakes ? mistake : "");
}
#endif

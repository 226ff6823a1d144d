/* The register engine, decision by decision: one record in memory, a clock that the test moves, and
   two candidates that call the backend's functions as the core would. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/utest.h"
#include <stdio.h>
#include <string.h>

UTEST_MAIN()

enum { LEASE_MS = 15000 };

typedef struct memory {
    leader_entry row;
    unsigned     writes;
    leader_result next_read, next_write;    // answered once instead of the truth; OK: none
    bool          write_happens;            // although next_write says an error
    int           reads_pending;
    int64_t       stall_ms;                 // before the next write
    bool          begins;                   // the last write: it gives a term its token
    leader_news   news;
    leader_entry  told;
} memory;

typedef struct candidate {
    leader_engine  engine;
    leader_backend backend;
    leader_config  config;
    leader_request request;
    leader_record  seen;
    char           logged[300];
} candidate;

static int64_t now_ms;
static memory  table;

static leader_result table_read(void *self, const leader_call *call, leader_entry *found) {
    (void)self;
    (void)call;
    if (table.reads_pending > 0) {
        table.reads_pending--;
        return LEADER_PENDING;
    }
    leader_result answer = table.next_read;
    table.next_read = LEADER_OK;
    if (answer == LEADER_OK || answer == LEADER_E_CORRUPT) {
        *found = table.row;
    }
    return answer;
}

static leader_result table_write(void *self, const leader_call *call, const leader_entry *next,
                                 leader_entry *stored) {
    (void)self;
    table.begins = call->begins;
    leader_result answer = table.next_write;
    table.next_write = LEADER_OK;
    now_ms += table.stall_ms;
    table.stall_ms = 0;
    bool matches = strcmp(next->version, table.row.version) == 0;
    if (answer == LEADER_OK && !matches) {
        return LEADER_LOST;
    }
    if (matches && (answer == LEADER_OK || table.write_happens)) {
        table.row = *next;
        table.writes++;
        snprintf(table.row.version, sizeof table.row.version, "v%u", table.writes);
        *stored = table.row;
    }
    return answer;
}

static leader_news table_notice(void *self, leader_entry *found) {
    (void)self;
    leader_news news = table.news;
    table.news = LEADER_NEWS_NONE;
    *found = table.told;
    return news;
}

static int stop_in;                         // a long stop before that reading of the clock; 0: none

static int64_t read_clock(void *core) {
    (void)core;
    if (stop_in > 0 && --stop_in == 0) {
        now_ms += 10 * LEASE_MS;
    }
    return now_ms;
}

static void keep_log(void *core, leader_level level, const char *text) {
    (void)level;
    snprintf(((candidate *)core)->logged, sizeof ((candidate *)core)->logged, "%s", text);
}

static void join(candidate *c, const char *name, uint64_t nonce) {
    leader_register store = {&table, table_read, table_write, table_notice, NULL, NULL, NULL, "test"};
    memset(c, 0, sizeof *c);
    c->config.identity = name;
    c->config.lease_ms = LEASE_MS;
    c->config.retry_ms = 2000;
    c->request.identity = name;
    c->request.nonce = nonce;
    c->request.lease_ms = LEASE_MS;
    c->request.min_token = 1;
    c->request.value = "";
    c->request.heir = "";
    c->backend = leader_register_backend(&c->engine, &store);
    leader_host host = {c, &c->config, NULL, NULL, keep_log, read_clock, NULL};
    if (c->backend.open(c->backend.self, &host) != NULL) {
        abort();
    }
}

typedef leader_result (*operation)(void *self, const leader_request *, leader_record *);

static leader_result ask(candidate *c, operation what) {
    c->request.seq++;
    c->request.now_ms = now_ms;
    memset(&c->seen, 0, sizeof c->seen);
    return what(c->backend.self, &c->request, &c->seen);
}

#define ACQUIRE(c) ask(&(c), (c).backend.acquire)
#define RENEW(c)   ask(&(c), (c).backend.renew)
#define RELEASE(c) ask(&(c), (c).backend.release)
#define OBSERVE(c) ask(&(c), (c).backend.observe)

struct two {
    candidate a, b;
};

UTEST_F_SETUP(two) {
    memset(&table, 0, sizeof table);
    now_ms = 1000000;
    join(&utest_fixture->a, "ann", 0xa);
    join(&utest_fixture->b, "bob", 0xb);
}

UTEST_F_TEARDOWN(two) {
    (void)utest_fixture;
}

#define A (utest_fixture->a)
#define B (utest_fixture->b)

static void wipe(void) {
    memset(&table.row, 0, sizeof table.row);
}

UTEST_F(two, first_takes_an_empty_store_at_once) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(0, A.seen.hold_off_ms);
    ASSERT_STREQ("ann", table.row.holder);
    ASSERT_EQ(LEASE_MS, table.row.lease_ms);
}

UTEST_F(two, second_waits_a_full_lease_from_its_first_sight) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    now_ms += 5000;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS + 1, B.seen.expires_in_ms);
    now_ms += LEASE_MS;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    now_ms += 1;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_GT(B.seen.token, A.seen.token);
}

UTEST_F(two, a_renewal_restarts_the_observation) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    now_ms += LEASE_MS - 1;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    now_ms += 2;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS + 1, B.seen.expires_in_ms);
}

/* A store that lost a write of whose success its holder never heard: the holder renews with the same number
   once more, and the standby, who saw the lost one, must not take the new one for it. */
UTEST_F(two, a_number_that_comes_again_is_another_write) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    leader_entry before = table.row;
    table.next_write = LEADER_E_TIMEOUT;
    table.write_happens = true;
    ASSERT_EQ(LEADER_E_TIMEOUT, RENEW(A));
    uint64_t number = table.row.renewal;
    table.row.renewed_us = 1;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    table.row = before;
    now_ms += LEASE_MS - 1;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(number, table.row.renewal);
    ASSERT_NE(1, table.row.renewed_us);
    now_ms += 2;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS + 1, B.seen.expires_in_ms);
}

UTEST_F(two, the_records_own_duration_counts) {
    A.request.lease_ms = 4 * LEASE_MS;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    now_ms += LEASE_MS + 1;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    now_ms += 3 * LEASE_MS;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
}

UTEST_F(two, decoration_does_not_restart_the_observation) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    snprintf(table.row.version, sizeof table.row.version, "labelled");
    now_ms += LEASE_MS;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    now_ms += 1;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
}

UTEST_F(two, a_release_hands_over_at_once) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(0, B.seen.hold_off_ms);
}

UTEST_F(two, a_release_for_an_heir_keeps_others_out_for_retry_ms) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    A.request.heir = "cid";
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(2001, B.seen.expires_in_ms);
    now_ms += 2001;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
}

UTEST_F(two, a_late_release_frees_no_later_term) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    table.row.seq = A.request.seq + 10;
    table.row.renewal++;
    A.engine.must_read = true;
    ASSERT_EQ(LEADER_LOST, RELEASE(A));
    ASSERT_STREQ("ann", table.row.holder);
}

UTEST_F(two, an_own_record_is_adopted_by_a_write_with_a_new_token) {
    table.next_write = LEADER_E_TIMEOUT;
    table.write_happens = true;
    ASSERT_EQ(LEADER_E_TIMEOUT, ACQUIRE(A));
    uint64_t token = table.row.token;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_GT(A.seen.token, token);
    ASSERT_EQ(2u, table.writes);
}

UTEST_F(two, an_unknown_renewal_is_found_out_by_reading) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    table.next_write = LEADER_E_IO;
    ASSERT_EQ(LEADER_E_IO, RENEW(A));
    ASSERT_EQ(LEADER_OK, RENEW(A));
    table.next_write = LEADER_E_IO;
    table.write_happens = true;
    ASSERT_EQ(LEADER_E_IO, RENEW(A));
    ASSERT_EQ(LEADER_OK, RENEW(A));
}

UTEST_F(two, a_lost_record_ends_the_term) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    now_ms += LEASE_MS + 1;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(LEADER_LOST, RENEW(A));
    ASSERT_STREQ("bob", A.seen.holder);
}

UTEST_F(two, an_earlier_term_of_ours_is_not_renewed) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    table.row.token--;
    A.engine.must_read = true;
    ASSERT_EQ(LEADER_LOST, RENEW(A));
}

UTEST_F(two, a_wiped_store_is_taken_with_a_hold_off) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    wipe();
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS, B.seen.hold_off_ms);
    ASSERT_EQ(LEASE_MS, table.row.hold_off_ms);
    ASSERT_GT(B.seen.token, A.seen.token);
}

UTEST_F(two, a_released_record_once_seen_counts_too) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    ASSERT_EQ(LEADER_OK, OBSERVE(B));
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    wipe();
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS, B.seen.hold_off_ms);
}

UTEST_F(two, an_empty_store_stays_in_doubt_however_late_the_look) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    wipe();
    ASSERT_EQ(LEADER_OK, OBSERVE(B));
    now_ms += 10 * LEASE_MS;            // meanwhile somebody can have come, led, and been wiped again
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS, B.seen.hold_off_ms);
}

UTEST_F(two, a_doubt_is_carried_into_the_write_however_late_it_comes) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    wipe();
    table.stall_ms = 10 * LEASE_MS;     // stopped between the look and the write, until after a second wipe
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS, B.seen.hold_off_ms);
    ASSERT_EQ(LEASE_MS, table.row.hold_off_ms);
}

UTEST_F(two, a_doubt_outlives_a_stop_at_any_reading_of_the_clock) {
    enum { READINGS = 12 };
    for (int n = 1; n <= READINGS; n++) {
        wipe();
        join(&A, "ann", 0xa);
        join(&B, "bob", 0xb);
        ASSERT_EQ(LEADER_OK, ACQUIRE(A));
        ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
        wipe();
        stop_in = n;
        ASSERT_EQ(LEADER_OK, ACQUIRE(B));
        stop_in = 0;
        EXPECT_EQ(LEASE_MS, B.seen.hold_off_ms);
        EXPECT_EQ(LEASE_MS, table.row.hold_off_ms);
    }
}

UTEST_F(two, a_store_that_says_it_forgot_is_in_doubt) {
    table.row.forgot = true;
    table.row.lease_ms = 2 * LEASE_MS;
    table.row.token = 500;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(2 * LEASE_MS, A.seen.hold_off_ms);
    ASSERT_GT(A.seen.token, 500u);
}

UTEST_F(two, a_store_that_said_it_forgot_is_distrusted_when_empty) {
    table.row.forgot = true;
    ASSERT_EQ(LEADER_OK, OBSERVE(B));
    wipe();
    now_ms += 2 * LEASE_MS;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS, B.seen.hold_off_ms);
}

UTEST_F(two, the_rest_of_a_lost_record_is_taken_late_with_a_hold_off) {
    snprintf(table.row.version, sizeof table.row.version, "@1");
    snprintf(table.row.holder, sizeof table.row.holder, "cron");
    table.row.lease_ms = LEASE_MS;
    table.row.forgot = true;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(A));
    now_ms += LEASE_MS + 1;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEASE_MS, A.seen.hold_off_ms);
}

UTEST_F(two, the_hold_off_is_the_longest_lease_seen) {
    A.request.lease_ms = 4 * LEASE_MS;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    wipe();
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(4 * LEASE_MS, B.seen.hold_off_ms);
}

/* The lease of the one that follows is no measure for what was forgotten. */
UTEST_F(two, the_doubt_is_no_longer_than_what_was_seen_before) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    table.row.origin++;
    table.row.lease_ms = 40 * LEASE_MS;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    table.row.holder[0] = 0;
    now_ms += LEASE_MS + 1;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(0, B.seen.hold_off_ms);
}

UTEST_F(two, a_record_of_another_origin_is_in_doubt) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    table.row.origin ^= 1;
    memset(table.row.holder, 0, sizeof table.row.holder);
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS, B.seen.hold_off_ms);
}

UTEST_F(two, a_record_that_went_back_is_in_doubt) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    leader_entry old = table.row;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    table.row = old;
    memset(table.row.holder, 0, sizeof table.row.holder);
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS, B.seen.hold_off_ms);
}

/* A backup that is older than another's whole term comes back. It names the one before, who must neither
   renew, nor release, nor lead on: the other one still does. */
UTEST_F(two, a_term_whose_record_went_back_is_over) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    leader_entry backup = table.row;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    now_ms += LEASE_MS + 1;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    table.row = backup;
    ASSERT_EQ(LEADER_LOST, RENEW(A));
    ASSERT_EQ(LEADER_LOST, RENEW(A));
    ASSERT_EQ(LEADER_LOST, RELEASE(A));
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEASE_MS, A.seen.hold_off_ms);
}

UTEST_F(two, a_lower_revision_is_in_doubt) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    table.row.revision = 100;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    table.row.revision = 99;
    memset(table.row.holder, 0, sizeof table.row.holder);
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS, B.seen.hold_off_ms);
}

UTEST_F(two, the_doubt_about_a_present_record_ends_after_a_lease) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    table.row.origin ^= 1;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    now_ms += LEASE_MS + 1;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(0, B.seen.hold_off_ms);
}

UTEST_F(two, a_record_holding_off_is_never_released) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    wipe();
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    now_ms += LEASE_MS;
    ASSERT_EQ(LEADER_LOST, RELEASE(B));
    ASSERT_STREQ("bob", table.row.holder);
    now_ms += 1;
    ASSERT_EQ(LEADER_OK, RELEASE(B));
}

UTEST_F(two, an_own_record_that_holds_off_is_not_released) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    wipe();
    table.next_write = LEADER_E_TIMEOUT;
    table.write_happens = true;
    ASSERT_EQ(LEADER_E_TIMEOUT, ACQUIRE(B));
    ASSERT_EQ(LEADER_LOST, RELEASE(B));
    ASSERT_STREQ("bob", table.row.holder);
}

UTEST_F(two, a_renewal_says_how_much_of_the_hold_off_is_left) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    wipe();
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    now_ms += 5000;
    ASSERT_EQ(LEADER_OK, RENEW(B));
    ASSERT_EQ(LEASE_MS - 5000, table.row.hold_off_ms);
    now_ms += LEASE_MS;
    ASSERT_EQ(LEADER_OK, RENEW(B));
    ASSERT_EQ(0, table.row.hold_off_ms);
}

/* Tokens of an empty store come from the wall clock, by the millisecond. */
static void outlast_token(uint64_t token) {
    while (leader_wall_token_() <= token) {
    }
}

static leader_result take_wiped(candidate *holder, candidate *next) {
    ask(holder, holder->backend.acquire);
    ask(next, next->backend.acquire);
    wipe();
    outlast_token(holder->seen.token);
    return ask(next, next->backend.acquire);
}

UTEST_F(two, a_first_record_draws_its_token_again) {
    ASSERT_EQ(LEADER_OK, take_wiped(&A, &B));
    uint64_t first = B.seen.token;
    outlast_token(first);
    ASSERT_EQ(LEADER_OK, RENEW(B));
    uint64_t again = B.seen.token;
    ASSERT_GT(again, first);
    ASSERT_EQ(again, table.row.token);
    ASSERT_TRUE(table.begins);
    outlast_token(again);
    ASSERT_EQ(LEADER_OK, RENEW(B));
    ASSERT_EQ(again, B.seen.token);
    now_ms += LEASE_MS;
    ASSERT_EQ(LEADER_OK, RENEW(B));
    ASSERT_EQ(again, B.seen.token);
    ASSERT_FALSE(table.begins);
}

UTEST_F(two, a_token_drawn_again_is_found_out_by_reading) {
    ASSERT_EQ(LEADER_OK, take_wiped(&A, &B));
    outlast_token(B.seen.token);
    table.next_write = LEADER_E_TIMEOUT;
    table.write_happens = true;
    ASSERT_EQ(LEADER_E_TIMEOUT, RENEW(B));
    uint64_t again = table.row.token;
    outlast_token(again);
    ASSERT_EQ(LEADER_OK, RENEW(B));
    ASSERT_EQ(again, B.seen.token);
}

/* The store counts, but what is in it was written for an empty one, who knows when. */
UTEST_F(two, a_first_record_that_came_late_is_taken_with_a_new_token) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    wipe();
    table.next_write = LEADER_E_TIMEOUT;
    table.write_happens = true;
    ASSERT_EQ(LEADER_E_TIMEOUT, ACQUIRE(B));
    table.row.revision = 3;
    outlast_token(table.row.token + 1);
    uint64_t lowest = leader_wall_token_();
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_GE(B.seen.token, lowest);
    ASSERT_EQ(LEASE_MS, B.seen.hold_off_ms);
}

UTEST_F(two, an_heir_of_a_dead_holder_inherits_its_hold_off) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    table.row.hold_off_ms = LEASE_MS;
    table.row.dead = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS, B.seen.hold_off_ms);
}

UTEST_F(two, an_heir_after_the_whole_claim_inherits_nothing) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    table.row.hold_off_ms = 2 * LEASE_MS;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(2 * LEASE_MS + 1, B.seen.expires_in_ms);
    now_ms += 2 * LEASE_MS + 1;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(0, B.seen.hold_off_ms);
}

UTEST_F(two, a_dead_holder_is_replaced_at_once) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    table.row.dead = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(0, B.seen.hold_off_ms);
}

UTEST_F(two, a_store_that_knows_the_age_shortens_the_wait) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    table.row.elapsed_ms = 14000;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS - 14000 + 1, B.seen.expires_in_ms);
    table.row.elapsed_ms = LEASE_MS + 1;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
}

UTEST_F(two, a_locked_record_is_never_taken) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    table.row.locked = true;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(-1, B.seen.expires_in_ms);
}

UTEST_F(two, a_corrupt_record_is_replaced_after_a_full_lease) {
    snprintf(table.row.version, sizeof table.row.version, "x");
    table.next_read = LEADER_E_CORRUPT;
    ASSERT_EQ(LEADER_E_CORRUPT, ACQUIRE(A));
    ASSERT_EQ(LEASE_MS + 1, A.seen.expires_in_ms);
    now_ms += LEASE_MS + 1;
    table.next_read = LEADER_E_CORRUPT;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_STREQ("ann", table.row.holder);
}

UTEST_F(two, a_corrupt_record_that_says_its_lease_keeps_it) {
    snprintf(table.row.version, sizeof table.row.version, "x");
    table.row.lease_ms = 4 * LEASE_MS;
    table.next_read = LEADER_E_CORRUPT;
    ASSERT_EQ(LEADER_E_CORRUPT, ACQUIRE(A));
    ASSERT_EQ(4 * LEASE_MS + 1, A.seen.expires_in_ms);
    now_ms += LEASE_MS + 1;
    table.next_read = LEADER_E_CORRUPT;
    ASSERT_EQ(LEADER_E_CORRUPT, ACQUIRE(A));
    now_ms += 3 * LEASE_MS;
    table.next_read = LEADER_E_CORRUPT;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
}

UTEST_F(two, a_corrupt_record_that_is_gone_is_no_release) {
    snprintf(table.row.version, sizeof table.row.version, "x");
    table.row.lease_ms = 4 * LEASE_MS;
    table.next_read = LEADER_E_CORRUPT;
    ASSERT_EQ(LEADER_E_CORRUPT, ACQUIRE(A));
    memset(&table.row, 0, sizeof table.row);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(4 * LEASE_MS, A.seen.hold_off_ms);
}

UTEST_F(two, another_process_of_our_name_is_reported) {
    candidate twin;
    join(&twin, "ann", 0xc);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(twin));      // may be a predecessor that died
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(LEADER_E_DUPLICATE, ACQUIRE(twin));
    ASSERT_TRUE(strstr(twin.logged, "\"ann\"") != NULL);
}

UTEST_F(two, a_live_process_of_our_name_is_reported_at_once) {
    candidate twin;
    join(&twin, "ann", 0xc);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    table.row.alive = true;
    ASSERT_EQ(LEADER_E_DUPLICATE, ACQUIRE(twin));
}

UTEST_F(two, reclaim_takes_a_record_of_our_name) {
    candidate heir;
    join(&heir, "ann", 0xc);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    heir.request.reclaim = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(heir));
}

UTEST_F(two, cautious_start_does_not_trust_an_empty_store) {
    A.config.cautious_start = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEASE_MS, A.seen.hold_off_ms);
    ASSERT_EQ(LEASE_MS, table.row.hold_off_ms);
}

UTEST_F(two, a_conflict_is_read_and_decided_again) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    ASSERT_EQ(LEADER_OK, OBSERVE(B));
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_STREQ("ann", B.seen.holder);
}

UTEST_F(two, endless_conflicts_leave_the_field_to_others) {
    table.next_write = LEADER_LOST;
    A.engine.conflicts = 0;
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(LEADER_OK, ACQUIRE(A));
        ASSERT_EQ(LEADER_OK, RELEASE(A));
    }
}

UTEST_F(two, a_pending_read_goes_on_with_the_same_request) {
    table.reads_pending = 2;
    ASSERT_EQ(LEADER_PENDING, ACQUIRE(A));
    ASSERT_EQ(LEADER_PENDING, A.backend.acquire(A.backend.self, &A.request, &A.seen));
    ASSERT_EQ(LEADER_OK, A.backend.acquire(A.backend.self, &A.request, &A.seen));
}

UTEST_F(two, tokens_follow_the_stores_own_counter) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    table.row.token = 7;
    table.row.revision = 41;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(42u, B.seen.token);
}

UTEST_F(two, a_token_is_not_below_the_one_asked_for) {
    A.request.min_token = UINT64_C(1) << 52;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(UINT64_C(1) << 52, A.seen.token);
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    B.request.min_token = UINT64_C(1) << 53;
    ASSERT_EQ(LEADER_E_CORRUPT, ACQUIRE(B));
}

static bool news(candidate *c, leader_news kind) {
    table.news = kind;
    table.told = table.row;
    return c->backend.poll(c->backend.self);
}

UTEST_F(two, a_told_renewal_is_no_reason_to_ask) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_FALSE(news(&B, LEADER_NEWS_LISTENING));
    now_ms += 5000;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_FALSE(news(&B, LEADER_NEWS_RECORD));
    table.next_read = LEADER_E_IO;              // not asked: the answer comes from what was told
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(LEASE_MS + 1, B.seen.expires_in_ms);
}

/* Not even the core was told of it before the store was rebuilt. */
UTEST_F(two, a_token_that_was_only_heard_is_never_given_again) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    table.row.token = 9000000000000;
    table.row.revision = 50;
    table.row.renewal++;
    news(&B, LEADER_NEWS_RECORD);
    table.row.holder[0] = 0;
    table.row.origin++;
    table.row.token = 5;
    table.row.revision = 6;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_GT(B.seen.token, 9000000000000u);
}

UTEST_F(two, a_silent_watch_is_not_believed) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_FALSE(news(&B, LEADER_NEWS_LISTENING));
    now_ms += LEASE_MS / 3 + 1000;
    table.next_read = LEADER_E_IO;
    ASSERT_EQ(LEADER_E_IO, ACQUIRE(B));
}

UTEST_F(two, a_told_release_is_worth_an_attempt) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    ASSERT_TRUE(news(&B, LEADER_NEWS_RECORD));
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
}

UTEST_F(two, an_older_record_told_late_is_not_learnt) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    leader_entry old = table.row;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    table.news = LEADER_NEWS_RECORD;
    table.told = old;
    ASSERT_FALSE(B.backend.poll(B.backend.self));
    ASSERT_EQ(table.row.renewal, B.engine.known.renewal);
}

UTEST_F(two, a_leader_hears_that_its_record_is_gone) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_FALSE(news(&A, LEADER_NEWS_RECORD));
    memset(table.row.holder, 0, sizeof table.row.holder);
    table.row.renewal++;
    ASSERT_TRUE(news(&A, LEADER_NEWS_RECORD));
    ASSERT_EQ(LEADER_LOST, RENEW(A));
}

UTEST_F(two, values_travel_with_the_term) {
    A.request.value = "10.0.0.1:80";
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_STREQ("10.0.0.1:80", B.seen.value);
    A.request.value = "10.0.0.1:81";
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_STREQ("10.0.0.1:81", B.seen.value);
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    ASSERT_STREQ("", table.row.value);
}

UTEST(engine, refuses_a_register_without_its_two_functions) {
    leader_engine engine;
    leader_register none;
    leader_t me;
    leader_config config;
    memset(&none, 0, sizeof none);
    memset(&config, 0, sizeof config);
    config.identity = "ann";
    config.backend = leader_register_backend(&engine, &none);
    ASSERT_EQ(LEADER_E_CONFIG, leader_init(&me, &config));
    ASSERT_STREQ("leader_register.read is missing", leader_error(&me));
}

/* ---- the record as JSON --------------------------------------------------------------------------- */

UTEST(entry_text, comes_back_as_it_was_written) {
    leader_entry in;
    leader_entry out;
    leader_json_ root;
    char text[8192];
    char why[120];
    memset(&in, 0, sizeof in);
    snprintf(in.holder, sizeof in.holder, "a \"quoted\" name");
    snprintf(in.value, sizeof in.value, "http://10.0.0.1:80/");
    snprintf(in.heir, sizeof in.heir, "bob");
    in.nonce = UINT64_C(0xfedcba9876543210);
    in.seq = 3;
    in.token = 17;
    in.lease_ms = 1500;
    in.hold_off_ms = 20;
    in.origin = 99;
    in.renewal = 12;
    in.acquired_us = INT64_C(1794857170456789);
    in.renewed_us = INT64_C(1794857171456789);
    size_t len = leader_entry_text_(&in, ",\n  \"more\": 1", text, sizeof text);
    ASSERT_LT(len, sizeof text);
    ASSERT_TRUE(leader_entry_parse_(text, len, &out, &root, why, sizeof why));
    ASSERT_EQ(0, memcmp(&in, &out, sizeof in));
}

UTEST(entry_text, understands_a_record_of_another_program) {
    static const char text[] =
        "{\"holder\":\"go\",\"renewTime\":\"2026-11-16T01:28:19+02:00\",\"leaseDuration\":\"1m30.5s\"}";
    leader_entry out;
    leader_json_ root;
    char why[120];
    ASSERT_TRUE(leader_entry_parse_(text, sizeof text - 1, &out, &root, why, sizeof why));
    ASSERT_EQ(90500, out.lease_ms);
    ASSERT_EQ(0u, out.nonce);
    ASSERT_NE(0u, out.renewal);
}

UTEST(entry_text, says_what_is_wrong) {
    static const struct { const char *text, *why; } cases[] = {
        
        {"", "not JSON at byte 0"},
        {"[]", "not a JSON object"},
        {"{}", "holder is missing, or there twice"},
        {"{\"holder\":\"a\",\"renewTime\":\"yesterday\",\"leaseDuration\":\"1s\"}",
        "renewTime is not a time"},
        {"{\"holder\":\"a\",\"renewTime\":\"2026-11-16T01:28:19Z\",\"leaseDuration\":\"1 day\"}",
        "leaseDuration is not a duration"},
        {"{\"holder\":\"a\",\"renewTime\":\"2026-11-16T01:28:19Z\",\"leaseDuration\":\"1s\",\"token\":-1}",
        "token is not"},
        {"{\"holder\":\"a\",\"renewTime\":\"2026-11-16T01:28:19Z\",\"leaseDuration\":\"1s\",\"seq\":1,"
        "\"seq\":2}",
        "seq is missing, or there twice"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        leader_entry out;
        leader_json_ root;
        char why[120];
        ASSERT_FALSE(leader_entry_parse_(cases[i].text, strlen(cases[i].text), &out, &root, why, sizeof why));
        ASSERT_TRUE(strstr(why, cases[i].why) == why);
    }
}

UTEST(entry_text, durations_are_what_go_prints) {
    static const struct { const char *text; int64_t ms; } cases[] = {
        {"15s", 15000},   {"1500ms", 1500}, {"2m", 120000}, {"1h0m0s", 3600000}, {"1.5s", 1500},
        {"1m30s", 90000}, {"300us", 1},     {"", -1},       {"s", -1},           {"15", -1},
        {"0s", -1},       {"1..5s", -1},    {"-1s", -1},    {"1w", -1},          {"99999999h", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ms = 0;
        bool good = leader_duration_parse_(cases[i].text, &ms);
        ASSERT_EQ(cases[i].ms >= 0, good);
        if (good) {
            ASSERT_EQ(cases[i].ms, ms);
        }
    }
}

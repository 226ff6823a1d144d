/* The quorum, rule by rule: real engines on stores in memory, scripted stores where a store misbehaves,
   and a clock that the test moves. */
#define LEADER_WITH_QUORUM
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/quorum/shelf.h"

UTEST_MAIN()

struct three {
    candidate a, b;
};

UTEST_F_SETUP(three) {
    memset(shelves, 0, sizeof shelves);
    now_ms = 1000000;
    for (int i = 0; i < 3; i++) {
        put_released(i, 4);
    }
    join(&utest_fixture->a, "ann", 0xa, 3);
    join(&utest_fixture->b, "bob", 0xb, 3);
    ASSERT_EQ(3, utest_fixture->a.quorum.count);
}

UTEST_F_TEARDOWN(three) {
    utest_fixture->a.backend.close(utest_fixture->a.backend.self);
    utest_fixture->b.backend.close(utest_fixture->b.backend.self);
    EXPECT_EQ(3, utest_fixture->a.quorum.count);
}

struct five {
    candidate a, b;
};

UTEST_F_SETUP(five) {
    memset(shelves, 0, sizeof shelves);
    now_ms = 1000000;
    for (int i = 0; i < 5; i++) {
        put_released(i, 4);
    }
    join(&utest_fixture->a, "ann", 0xa, 5);
    join(&utest_fixture->b, "bob", 0xb, 5);
    ASSERT_EQ(5, utest_fixture->a.quorum.count);
}

UTEST_F_TEARDOWN(five) {
    EXPECT_EQ(5, utest_fixture->a.quorum.count);
}

#define A (utest_fixture->a)
#define B (utest_fixture->b)

/* ---- taking it ------------------------------------------------------------------------------------ */

UTEST_F(three, released_stores_are_taken_at_once) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(0, A.seen.hold_off_ms);
    ASSERT_EQ(5u, A.seen.token);
    for (int i = 0; i < 3; i++) {
        ASSERT_TRUE(holds(i, "ann"));
    }
}

UTEST_F(three, equal_tokens_take_one_write_for_each_store) {
    unsigned before[3] = {shelves[0].writes, shelves[1].writes, shelves[2].writes};
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(before[i] + 1, shelves[i].writes);
    }
}

UTEST_F(three, token_is_above_the_highest_told_and_on_a_majority) {
    put_released(0, 3);
    put_released(1, 9);
    put_released(2, 5);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(10u, A.seen.token);
    int confirmed = 0;
    for (int i = 0; i < 3; i++) {
        confirmed += shelves[i].row.token >= 10;
    }
    ASSERT_GE(confirmed, 2);
}

UTEST_F(three, a_lower_token_that_cannot_be_raised_is_no_vote) {
    put_released(0, 3);
    put_released(1, 9);
    shelves[2].hangs_on_write = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(10u, shelves[0].row.token);
    ASSERT_EQ(10u, shelves[1].row.token);
}

/* The last term may be known to nobody but the store that is away. */
UTEST_F(three, without_a_word_from_every_store_tokens_begin_at_the_clock) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(5u, A.seen.token);
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    shelves[2].down = true;
    uint64_t clock = (uint64_t)leader_wall_us_() / 1000;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_GE(A.seen.token, clock);
    ASSERT_GE(shelves[0].row.token, A.seen.token);
}

UTEST_F(three, tokens_rise_from_one_majority_to_the_next) {
    uint64_t last = 0;
    for (int term = 0; term < 12; term++) {
        int away = term % 3;
        candidate *c = term % 2 ? &A : &B;
        shelves[away].down = true;
        ASSERT_EQ(LEADER_OK, ask(c, c->backend.acquire));
        ASSERT_GT(c->seen.token, last);
        last = c->seen.token;
        ASSERT_EQ(LEADER_OK, ask(c, c->backend.release));
        shelves[away].down = false;
    }
}

UTEST_F(three, min_token_of_the_core_is_kept) {
    A.request.min_token = 500;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(500u, A.seen.token);
    ASSERT_GE(shelves[0].row.token, 500u);
    ASSERT_GE(shelves[1].row.token, 500u);
}

UTEST_F(three, one_store_down_costs_nothing) {
    shelves[1].down = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(0, A.seen.hold_off_ms);
}

UTEST_F(three, one_store_that_hangs_costs_nothing) {
    shelves[0].hangs = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    now_ms += 100;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    ASSERT_TRUE(holds(1, ""));
    ASSERT_TRUE(holds(2, ""));
}

UTEST_F(three, a_majority_down_is_an_error_that_names_the_stores) {
    shelves[0].down = true;
    shelves[2].down = true;
    ASSERT_EQ(LEADER_E_IO, ACQUIRE(A));
    ASSERT_TRUE(strstr(A.log, "E 0 of 3 stores confirmed, 2 are needed; store 1: ") != NULL);
    ASSERT_TRUE(strstr(A.log, "; store 3: ") != NULL);
    ASSERT_TRUE(holds(1, ""));
}

UTEST_F(three, a_majority_that_hangs_is_given_up_in_time) {
    shelves[0].hangs = true;
    shelves[2].hangs = true;
    ASSERT_EQ(LEADER_PENDING, ACQUIRE(A));
    ASSERT_EQ(TIMEOUT_MS - TIMEOUT_MS / 4, A.seen.again_ms);
    now_ms += TIMEOUT_MS - TIMEOUT_MS / 4 - 1;
    ASSERT_EQ(LEADER_PENDING, look_again(&A, A.backend.acquire));
    now_ms += 1;
    ASSERT_EQ(LEADER_E_TIMEOUT, look_again(&A, A.backend.acquire));
    ASSERT_TRUE(holds(1, ""));
}

UTEST_F(three, votes_without_a_majority_are_given_back) {
    shelves[1].hangs_on_write = true;
    shelves[2].hangs_on_write = true;
    ASSERT_EQ(LEADER_PENDING, ACQUIRE(A));
    ASSERT_TRUE(holds(0, "ann"));
    now_ms += TIMEOUT_MS;
    ASSERT_EQ(LEADER_E_TIMEOUT, look_again(&A, A.backend.acquire));
    ASSERT_TRUE(holds(0, ""));
}

UTEST_F(five, a_split_vote_is_given_back_and_tried_at_random) {
    int64_t waits[8];
    int different = 0;
    for (int i = 0; i < 8; i++) {
        for (int s = 0; s < 5; s++) {
            put_released(s, 10u * (unsigned)i + 4);
            shelves[s].hangs_on_write = s > 1;
        }
        ASSERT_EQ(LEADER_PENDING, ACQUIRE(A));
        put_held(2, "bob", 10u * (unsigned)i + 9);
        put_held(3, "bob", 10u * (unsigned)i + 9);
        put_held(4, "cid", 10u * (unsigned)i + 9);
        for (int s = 0; s < 5; s++) {
            shelves[s].hangs_on_write = false;
        }
        ASSERT_EQ(LEADER_HELD, look_again(&A, A.backend.acquire));
        ASSERT_STREQ("", A.seen.holder);
        ASSERT_TRUE(holds(0, ""));
        ASSERT_TRUE(holds(1, ""));
        ASSERT_GE(A.seen.expires_in_ms, 0);
        ASSERT_LE(A.seen.expires_in_ms, RETRY_MS);
        waits[i] = A.seen.expires_in_ms;
        different += i > 0 && waits[i] != waits[i - 1];
        now_ms += LEASE_MS + 10;
    }
    ASSERT_GE(different, 5);
}

UTEST_F(three, another_holder_is_named_with_token_and_rest) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_STREQ("ann", B.seen.holder);
    ASSERT_EQ(A.seen.token, B.seen.token);
    ASSERT_GE(B.seen.expires_in_ms, LEASE_MS + 1);
    ASSERT_LE(B.seen.expires_in_ms, LEASE_MS + 3);
    now_ms += LEASE_MS;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_GE(B.seen.expires_in_ms, 1);
    ASSERT_LE(B.seen.expires_in_ms, 3);
    now_ms += 1;
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_GT(B.seen.token, A.seen.token);
}

UTEST_F(three, a_standby_leaves_a_free_minority_alone) {
    shelves[2].down = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    shelves[2].down = false;
    unsigned writes = shelves[2].writes;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(writes, shelves[2].writes);
}

UTEST_F(three, the_token_shown_is_that_of_the_term) {
    uint64_t high = UINT64_C(1) << 50;
    put_released(2, high);
    shelves[2].down = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_LT(A.seen.token, high);
    shelves[2].down = false;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(high + 1, shelves[2].row.token);
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(A.seen.token, B.seen.token);
}

/* ---- empty stores --------------------------------------------------------------------------------- */

UTEST_F(three, new_stores_are_trusted_after_a_full_lease) {
    for (int i = 0; i < 3; i++) {
        wipe(i);
    }
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEASE_MS + 1, A.seen.hold_off_ms);
    now_ms += LEASE_MS / 3;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    now_ms += LEASE_MS;
    ASSERT_EQ(LEADER_OK, RENEW(A));
}

UTEST_F(three, one_empty_store_does_not_delay_a_majority) {
    wipe(0);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(0, A.seen.hold_off_ms);
}

UTEST_F(three, an_empty_store_is_no_vote_for_a_majority) {
    wipe(0);
    shelves[1].down = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEASE_MS + 1, A.seen.hold_off_ms);
}

UTEST_F(three, a_vote_that_counts_is_waited_for_rather_than_a_hold_off) {
    wipe(0);
    shelves[2].hangs_on_write = true;
    ASSERT_EQ(LEADER_PENDING, ACQUIRE(A));
    shelves[2].hangs_on_write = false;
    ASSERT_EQ(LEADER_OK, look_again(&A, A.backend.acquire));
    ASSERT_EQ(0, A.seen.hold_off_ms);
}

UTEST_F(three, a_wiped_store_does_not_help_a_leader_at_once) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    wipe(0);
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_TRUE(holds(0, "ann"));
    ASSERT_GE(shelves[0].row.token, A.seen.token);
    shelves[1].down = true;
    ASSERT_EQ(LEADER_E_IO, RENEW(A));
    now_ms += LEASE_MS;
    ASSERT_EQ(LEADER_E_IO, RENEW(A));
    now_ms += 1;
    ASSERT_EQ(LEADER_OK, RENEW(A));
}

UTEST_F(three, a_record_in_an_empty_store_is_not_released) {
    wipe(0);
    shelves[1].hangs_on_write = true;
    shelves[2].hangs_on_write = true;
    ASSERT_EQ(LEADER_PENDING, ACQUIRE(A));
    now_ms += TIMEOUT_MS;
    ASSERT_EQ(LEADER_E_TIMEOUT, look_again(&A, A.backend.acquire));
    ASSERT_TRUE(holds(0, "ann"));
}

UTEST_F(three, a_majority_wiped_ends_the_term) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    wipe(0);
    wipe(1);
    ASSERT_EQ(LEADER_LOST, RENEW(A));
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_GT(A.seen.hold_off_ms, LEASE_MS);
}

UTEST_F(five, held_off_votes_count_only_when_their_time_has_come) {
    for (int i = 0; i < 5; i++) {
        wipe(i);
    }
    shelves[3].down = true;
    shelves[4].down = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));       // 0, 1 and 2, to start a lease from now
    now_ms += 5000;
    shelves[3].down = false;
    ASSERT_EQ(LEADER_OK, RENEW(A));         // repairs 3, which counts 5000 ms later
    ASSERT_TRUE(holds(3, "ann"));
    shelves[0].down = true;
    ASSERT_EQ(LEADER_E_IO, RENEW(A));       // the core would start before 3 counts
    now_ms += LEASE_MS + 1;
    ASSERT_EQ(LEADER_OK, RENEW(A));
}

/* ---- keeping it ----------------------------------------------------------------------------------- */

UTEST_F(three, a_renewal_needs_a_majority_of_its_own_round) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    shelves[0].hangs = true;
    shelves[1].hangs = true;
    now_ms += 5000;
    ASSERT_EQ(LEADER_PENDING, RENEW(A));
    now_ms += TIMEOUT_MS;
    ASSERT_EQ(LEADER_E_TIMEOUT, look_again(&A, A.backend.renew));
    shelves[0].hangs = false;
    ASSERT_EQ(LEADER_OK, RENEW(A));
}

UTEST_F(three, a_store_that_was_away_is_repaired_with_the_token) {
    shelves[2].down = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_TRUE(holds(2, ""));
    shelves[2].down = false;
    now_ms += 5000;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_TRUE(holds(2, "ann"));
    ASSERT_EQ(A.seen.token, shelves[2].row.token);
    shelves[0].down = true;
    ASSERT_EQ(LEADER_OK, RENEW(A));         // and its vote counts: it was not empty
}

UTEST_F(three, a_store_that_was_never_seen_is_looked_at_before_its_repair) {
    wipe(2);
    shelves[2].down = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    shelves[2].down = false;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_TRUE(holds(2, "ann"));
    shelves[0].down = true;
    ASSERT_EQ(LEADER_E_IO, RENEW(A));       // it was empty: a full lease first
}

UTEST_F(three, one_store_taken_by_another_is_no_loss) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    put_held(0, "bob", 90);
    ASSERT_EQ(LEADER_OK, RENEW(A));
}

UTEST_F(three, one_store_taken_while_another_hangs_is_no_loss_yet) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    put_held(0, "bob", 90);
    shelves[1].hangs = true;
    ASSERT_EQ(LEADER_PENDING, RENEW(A));
    shelves[1].hangs = false;
    ASSERT_EQ(LEADER_OK, look_again(&A, A.backend.renew));
}

UTEST_F(three, a_majority_taken_by_another_is_a_loss) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    put_held(0, "bob", 90);
    put_held(2, "bob", 90);
    ASSERT_EQ(LEADER_LOST, RENEW(A));
    ASSERT_STREQ("bob", A.seen.holder);
}

UTEST_F(three, a_slow_store_is_served_after_the_answer) {
    shelves[2].hangs = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    shelves[2].hangs = false;
    A.backend.poll(A.backend.self);
    ASSERT_TRUE(holds(2, "ann"));
}

UTEST_F(three, nothing_is_begun_for_an_old_round) {
    shelves[2].hangs = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    now_ms += TIMEOUT_MS;
    shelves[2].hangs = false;
    A.backend.poll(A.backend.self);
    ASSERT_TRUE(holds(2, ""));
}

/* Another one has led and released in between: what is taken back now belongs to no term of ours. */
UTEST_F(three, a_renewal_after_a_long_stall_takes_nothing_back) {
    for (int i = 0; i < 3; i++) {
        wipe(i);
    }
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_GT(A.seen.hold_off_ms, 0);
    now_ms += 2 * LEASE_MS;
    for (int i = 0; i < 3; i++) {
        put_released(i, A.seen.token + 100);
    }
    ASSERT_EQ(LEADER_LOST, RENEW(A));
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_GT(A.seen.token, A.request.min_token - 2);
    ASSERT_GE(A.seen.token, shelves[0].row.token);
}

/* The last moment at which nobody else can have led is the renew deadline after the last confirmation. */
UTEST_F(three, stores_are_repaired_only_within_the_renew_deadline) {
    shelves[2].down = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    shelves[2].down = false;
    now_ms += DEADLINE_MS;
    ASSERT_EQ(LEADER_OK, RENEW(A));         // the two that have it are enough
    ASSERT_TRUE(holds(2, ""));
    now_ms += DEADLINE_MS - 1;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_TRUE(holds(2, "ann"));
}

/* ---- giving it back ------------------------------------------------------------------------------- */

UTEST_F(three, a_release_frees_all_stores) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    for (int i = 0; i < 3; i++) {
        ASSERT_TRUE(holds(i, ""));
    }
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(0, B.seen.hold_off_ms);
}

UTEST_F(three, a_release_needs_a_majority) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    shelves[0].down = true;
    shelves[1].down = true;
    ASSERT_EQ(LEADER_E_IO, RELEASE(A));
    shelves[0].down = false;
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    ASSERT_TRUE(holds(0, ""));
}

UTEST_F(three, a_release_of_what_is_not_ours_is_lost) {
    ASSERT_EQ(LEADER_LOST, RELEASE(A));
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(LEADER_LOST, RELEASE(A));
    ASSERT_TRUE(holds(0, "bob"));
}

/* ---- watching ------------------------------------------------------------------------------------- */

UTEST_F(three, an_observer_sees_who_has_the_majority) {
    ASSERT_EQ(LEADER_OK, OBSERVE(B));
    ASSERT_STREQ("", B.seen.holder);
    shelves[1].down = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    shelves[1].down = false;
    ASSERT_EQ(LEADER_HELD, OBSERVE(B));
    ASSERT_STREQ("ann", B.seen.holder);
    shelves[0].down = true;
    shelves[1].down = true;
    ASSERT_EQ(LEADER_E_IO, OBSERVE(B));
}

/* ---- messages and settings ------------------------------------------------------------------------ */

UTEST_F(three, a_store_that_fails_is_a_warning_said_once) {
    shelves[1].down = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(LEADER_OK, RENEW(A));
    char expected[200];
    snprintf(expected, sizeof expected, "W store 2 of 3: %s\n", leader_strerror(LEADER_E_IO));
    ASSERT_STREQ(expected, A.log);
    A.log[0] = 0;
    shelves[1].down = false;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_STREQ("I store 2 of 3: answers again\n", A.log);
}

/* A store that answers as the test says. */
typedef struct script {
    leader_result result[5];        // by operation: acquire 1, renew 2, release 3, observe 4
    leader_record record;
    leader_request asked;
    int           last_op;
    int           calls[5];
    int           cancels, opens, closes;
    const char   *wrong;            // said by open
    uint64_t      answers_only;     // > 0: PENDING for any other seq
    bool          restless;         // each grant is a new number, above all of other stores
    bool          stubborn;         // grants the token that it told
} script;

static leader_result play(void *self, int op, const leader_request *request, leader_record *seen) {
    script *s = (script *)self;
    s->asked = *request;
    s->last_op = op;
    s->calls[op]++;
    if (s->answers_only != 0 && s->answers_only != request->seq) {
        return LEADER_PENDING;
    }
    *seen = s->record;
    if (op == 1 && s->result[op] == LEADER_OK && !s->stubborn) {
        s->record.token = s->record.token + 1 > request->min_token ? s->record.token + 1 : request->min_token;
        if (s->restless) {
            static uint64_t last = 1000;
            s->record.token = last++;
        }
        seen->token = s->record.token;
    }
    return s->result[op];
}

static leader_result play_acquire(void *self, const leader_request *request, leader_record *seen) {
    return play(self, 1, request, seen);
}

static leader_result play_renew(void *self, const leader_request *request, leader_record *seen) {
    return play(self, 2, request, seen);
}

static leader_result play_release(void *self, const leader_request *request, leader_record *seen) {
    return play(self, 3, request, seen);
}

static leader_result play_observe(void *self, const leader_request *request, leader_record *seen) {
    return play(self, 4, request, seen);
}

static void play_cancel(void *self) {
    ((script *)self)->cancels++;
}

static const char *play_open(void *self, const leader_host *host) {
    (void)host;
    ((script *)self)->opens++;
    return ((script *)self)->wrong;
}

static void play_close(void *self) {
    ((script *)self)->closes++;
}

struct scripted {
    candidate      a;
    script         stores[3];
    leader_backend backends[3];
};

UTEST_F_SETUP(scripted) {
    now_ms = 1000000;
    memset(utest_fixture->stores, 0, sizeof utest_fixture->stores);
    name_candidate(&utest_fixture->a, "ann", 0xa);
    for (int i = 0; i < 3; i++) {
        leader_backend b = {&utest_fixture->stores[i],
                            play_acquire,
                            play_renew,
                            play_release,
                            play_observe,
                            NULL,
                            play_cancel,
                            play_open,
                            play_close,
                            NULL,
                            "scripted"};
        utest_fixture->backends[i] = b;
        utest_fixture->stores[i].record.token = 7;
    }
    ASSERT_EQ(NULL, open_quorum(&utest_fixture->a, utest_fixture->backends, 3));
}

UTEST_F_TEARDOWN(scripted) {
    utest_fixture->a.backend.close(utest_fixture->a.backend.self);
    EXPECT_EQ(utest_fixture->stores[0].opens, utest_fixture->stores[0].closes);
}

#define STORE(i) (utest_fixture->stores[i])

UTEST_F(scripted, a_late_answer_is_not_credited_to_a_later_round) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    uint64_t last = A.quorum.requests;
    STORE(0).answers_only = last + 1;       // of the next round
    STORE(1).answers_only = last + 2;
    STORE(2).answers_only = last + 3;
    STORE(1).result[2] = STORE(2).result[2] = LEADER_PENDING;
    ASSERT_EQ(LEADER_PENDING, RENEW(A));
    STORE(1).result[2] = STORE(2).result[2] = LEADER_OK;    // answered, but nobody has looked
    ASSERT_EQ(LEADER_PENDING, RENEW(A));    // a new round, in which nobody answers
    ASSERT_EQ(1, STORE(1).cancels);
    ASSERT_EQ(1, STORE(2).cancels);
    now_ms += TIMEOUT_MS;
    ASSERT_EQ(LEADER_E_TIMEOUT, look_again(&A, A.backend.renew));
}

UTEST_F(scripted, numbers_rise_for_each_store) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    uint64_t last = 0;
    for (int i = 0; i < 5; i++) {
        ASSERT_EQ(LEADER_OK, RENEW(A));
        ASSERT_GT(STORE(1).asked.seq, last);
        last = STORE(1).asked.seq;
        ASSERT_EQ(0xau, STORE(1).asked.nonce);
    }
}

UTEST_F(scripted, a_store_gets_back_what_it_told_itself) {
    STORE(0).record.token = 900;
    STORE(1).result[1] = LEADER_HELD;
    STORE(1).result[4] = LEADER_OK;
    ACQUIRE(A);
    ASSERT_EQ(8u, STORE(1).asked.min_token);    // not 901: it would think that it forgot
}

/* Else a majority that was away for longer than a lease is led only a lease after its return. */
UTEST_F(scripted, a_record_of_ours_that_ran_out_is_not_raised) {
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    now_ms += 2 * LEASE_MS;
    STORE(0).record.token = 900;
    STORE(1).result[1] = LEADER_HELD;
    uint64_t told = STORE(1).record.token;
    ACQUIRE(A);
    ASSERT_EQ(told + 1, STORE(1).asked.min_token);
}

UTEST_F(scripted, a_token_below_the_one_asked_for_is_refused) {
    for (int i = 0; i < 3; i++) {
        STORE(i).stubborn = true;
    }
    ASSERT_EQ(LEADER_E_CORRUPT, ACQUIRE(A));
    ASSERT_TRUE(strstr(A.log, "its token makes no sense") != NULL);
}

UTEST_F(scripted, a_token_above_all_numbers_is_refused) {
    for (int i = 0; i < 3; i++) {
        STORE(i).record.token = UINT64_MAX;
    }
    ASSERT_EQ(LEADER_E_CORRUPT, ACQUIRE(A));
}

UTEST_F(scripted, an_answer_that_does_not_fit_is_an_error) {
    for (int i = 0; i < 3; i++) {
        STORE(i).result[4] = LEADER_LOST;
    }
    ASSERT_EQ(LEADER_E_STATE, ACQUIRE(A));
    ASSERT_TRUE(strstr(A.log, "its answer does not fit the request") != NULL);
}

/* Each grant is above the clock, as after a wipe: the stores must not overtake each other for ever. */
UTEST_F(scripted, tokens_that_rise_by_themselves_do_not_chase_each_other) {
    for (int i = 0; i < 3; i++) {
        STORE(i).restless = true;
    }
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    for (int i = 0; i < 3; i++) {
        ASSERT_GE(STORE(i).record.token, A.seen.token);
        ASSERT_LE(STORE(i).calls[1], 3);
    }
    ASSERT_EQ(1002u, A.seen.token);  // the highest of the first grants: somebody may have led until then
}

UTEST_F(scripted, a_duplicate_is_reported) {
    for (int i = 0; i < 3; i++) {
        STORE(i).result[1] = LEADER_E_DUPLICATE;
    }
    ASSERT_EQ(LEADER_E_DUPLICATE, ACQUIRE(A));
}

UTEST_F(scripted, a_store_is_left_alone_for_as_long_as_it_asks) {
    STORE(0).result[4] = LEADER_E_IO;
    STORE(0).record.again_ms = 4000;
    OBSERVE(A);
    int calls = STORE(0).calls[4];
    now_ms += 3999;
    OBSERVE(A);
    ASSERT_EQ(calls, STORE(0).calls[4]);
    now_ms += 1;
    OBSERVE(A);
    ASSERT_EQ(calls + 1, STORE(0).calls[4]);
}

UTEST_F(scripted, a_store_that_waits_is_not_available) {
    for (int i = 0; i < 3; i++) {
        STORE(i).record.expires_in_ms = 300;
    }
    ASSERT_EQ(LEADER_HELD, ACQUIRE(A));
    ASSERT_GE(A.seen.expires_in_ms, 300);
    ASSERT_LE(A.seen.expires_in_ms, 302);
    ASSERT_EQ(0, STORE(0).calls[1]);
}

/* Three that come in the same moment would have one store each. */
UTEST_F(scripted, those_who_wait_come_at_different_moments) {
    int seen[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++) {
        STORE(i).record.expires_in_ms = 300;
    }
    for (int i = 0; i < 40; i++) {
        ASSERT_EQ(LEADER_HELD, ACQUIRE(A));
        seen[A.seen.expires_in_ms - 300]++;
    }
    ASSERT_GT(seen[0], 0);
    ASSERT_GT(seen[1], 0);
    ASSERT_GT(seen[2], 0);
}

UTEST_F(scripted, a_hold_off_of_a_store_is_passed_on) {
    STORE(0).record.hold_off_ms = 40000;
    STORE(1).record.hold_off_ms = 20000;
    STORE(2).record.hold_off_ms = 0;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(20001, A.seen.hold_off_ms);
}

UTEST_F(scripted, without_a_way_to_look_the_first_vote_waits_a_lease) {
    script blind[3];
    leader_backend b[3];
    candidate c;
    memset(blind, 0, sizeof blind);
    name_candidate(&c, "cid", 0xc);
    for (int i = 0; i < 3; i++) {
        b[i] = utest_fixture->backends[i];
        b[i].self = &blind[i];
        b[i].observe = NULL;
    }
    ASSERT_EQ(NULL, open_quorum(&c, b, 3));
    ASSERT_TRUE(c.backend.observe == NULL);
    ASSERT_EQ(LEADER_OK, ACQUIRE(c));
    ASSERT_EQ(LEASE_MS + 1, c.seen.hold_off_ms);
    ASSERT_EQ(LEADER_OK, ACQUIRE(c));
    ASSERT_EQ(LEASE_MS + 1, c.seen.hold_off_ms);
    now_ms += LEASE_MS + 1;
    ASSERT_EQ(LEADER_OK, ACQUIRE(c));
    ASSERT_EQ(0, c.seen.hold_off_ms);
}

UTEST_F(scripted, wrong_settings_are_reported_by_open) {
    candidate c;
    script extra[2];
    leader_backend b[9];
    memset(b, 0, sizeof b);
    memset(extra, 0, sizeof extra);
    name_candidate(&c, "cid", 0xc);
    memcpy(b, utest_fixture->backends, sizeof utest_fixture->backends);
    for (int i = 0; i < 2; i++) {
        b[3 + i] = b[0];
        b[3 + i].self = &extra[i];
    }
    ASSERT_STREQ("leader_quorum_backend: 3, 5 or 7 stores, not 4", open_quorum(&c, b, 4));
    ASSERT_STREQ("leader_quorum_backend: 3, 5 or 7 stores, not 0", open_quorum(&c, b, 0));
    ASSERT_STREQ("leader_quorum_backend: 3, 5 or 7 stores, not 9", open_quorum(&c, b, 9));
    int closes = STORE(0).closes;
    extra[0].wrong = "no such server";
    ASSERT_STREQ("store 4 of 5: no such server", open_quorum(&c, b, 5));
    ASSERT_EQ(closes + 1, STORE(0).closes);
    ASSERT_EQ(0, extra[0].closes);
    ASSERT_EQ(0, extra[1].opens);
    extra[0].wrong = NULL;
    b[4].self = b[0].self;
    ASSERT_STREQ("store 5 of 5: it is the same object as an earlier one", open_quorum(&c, b, 5));
    b[1].renew = NULL;
    ASSERT_STREQ("store 2 of 3: acquire, renew or release is missing", open_quorum(&c, b, 3));
}

/* Stores that know nothing of cautious_start. */
UTEST_F(scripted, an_empty_store_votes_after_a_lease_whatever_it_says) {
    for (int i = 0; i < 3; i++) {
        STORE(i).record.token = 0;
    }
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEASE_MS + 1, A.seen.hold_off_ms);
    ASSERT_EQ(LEADER_LOST, RELEASE(A));
    ASSERT_EQ(0, STORE(0).calls[3]);        // left to expire
}

UTEST_F(scripted, a_vote_of_an_empty_store_is_not_given_back) {
    STORE(0).record.token = 0;
    STORE(1).result[1] = STORE(2).result[1] = LEADER_HELD;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(A));
    ASSERT_EQ(2, STORE(0).calls[1]);
    ASSERT_EQ(0, STORE(0).calls[3]);
    ASSERT_EQ(1, STORE(1).calls[3]);        // its acquire may have been carried out
}

UTEST_F(scripted, a_repaired_store_that_was_empty_votes_after_a_lease) {
    STORE(2).result[4] = LEADER_E_IO;
    STORE(2).record.token = 0;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    STORE(2).result[4] = LEADER_OK;
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(2, STORE(2).calls[1]);        // acquired, and raised to the token
    STORE(0).result[2] = LEADER_E_IO;
    ASSERT_EQ(LEADER_E_IO, RENEW(A));
    now_ms += LEASE_MS + 1;
    ASSERT_EQ(LEADER_OK, RENEW(A));
}

/* ---- under the core ------------------------------------------------------------------------------- */

static int64_t core_clock(void *user) {
    (void)user;
    return now_ms;
}

static void start_core(leader_t *me, candidate *c, const char *name) {
    leader_backend stores[3];
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    for (int i = 0; i < 3; i++) {
        stores[i] = shelf_backend(&c->engines[i], i);
    }
    cfg.identity = name;
    cfg.backend = leader_quorum_backend(&c->quorum, stores, 3);
    cfg.clock_ms = core_clock;
    if (leader_init(me, &cfg) != LEADER_OK) {
        abort();
    }
}

static void run_core(leader_t *me, int64_t ms) {
    for (int64_t end = now_ms + ms; now_ms < end;) {
        int wait = leader_tick(me);
        now_ms += wait < end - now_ms ? wait : end - now_ms;
    }
    leader_tick(me);
}

UTEST_F(three, validity_is_counted_from_before_the_first_look) {
    leader_t me;
    start_core(&me, &A, "ann");
    shelves[0].hangs = shelves[1].hangs = true;
    leader_tick(&me);
    now_ms += 1000;
    shelves[0].hangs = shelves[1].hangs = false;
    shelves[0].hangs_on_write = shelves[1].hangs_on_write = true;
    leader_tick(&me);
    ASSERT_FALSE(leader_is_leader(&me));
    now_ms += 500;
    shelves[0].hangs_on_write = shelves[1].hangs_on_write = false;
    leader_tick(&me);
    ASSERT_TRUE(leader_is_leader(&me));
    ASSERT_EQ(10000 - 1500, leader_remaining_ms(&me));
    ASSERT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST_F(three, a_leader_outlives_any_one_store_and_no_two) {
    leader_t me;
    start_core(&me, &A, "ann");
    leader_tick(&me);
    ASSERT_TRUE(leader_is_leader(&me));
    for (int i = 0; i < 3; i++) {
        shelves[i].down = true;
        run_core(&me, 60000);
        ASSERT_TRUE(leader_is_leader(&me));
        shelves[i].down = false;
        run_core(&me, 10000);
        ASSERT_TRUE(leader_is_leader(&me));
    }
    shelves[0].down = shelves[1].down = true;
    run_core(&me, 15000);
    ASSERT_FALSE(leader_is_leader(&me));
    shelves[0].down = false;
    run_core(&me, 60000);
    ASSERT_TRUE(leader_is_leader(&me));
    ASSERT_EQ(2u, leader_get_stats(&me).terms);
    ASSERT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST_F(three, new_stores_have_a_leader_after_one_lease) {
    leader_t me;
    for (int i = 0; i < 3; i++) {
        wipe(i);
    }
    start_core(&me, &A, "ann");
    run_core(&me, LEASE_MS);
    ASSERT_FALSE(leader_is_leader(&me));
    run_core(&me, 10);
    ASSERT_TRUE(leader_is_leader(&me));
    ASSERT_EQ(LEADER_OK, leader_close(&me, 0));
}

/* One store is wiped, repaired, and after a lease the next. */
UTEST_F(three, stores_wiped_one_after_another_cost_nothing) {
    leader_t me;
    start_core(&me, &A, "ann");
    leader_tick(&me);
    for (int i = 0; i < 9; i++) {
        wipe(i % 3);
        run_core(&me, 5000 + LEASE_MS + 5000);
        ASSERT_TRUE(leader_is_leader(&me));
    }
    ASSERT_EQ(1u, leader_get_stats(&me).terms);
    ASSERT_EQ(LEADER_OK, leader_close(&me, 0));
}

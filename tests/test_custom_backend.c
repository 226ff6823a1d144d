/* The example of a backend of one's own: run as it stands, and its three functions held to what leader_backend asks of them. */
#define main custom_backend_main
#include "../examples/custom_backend.c"
#undef main
#include "utest.h"

UTEST_MAIN()

UTEST(custom_backend, the_example_elects_hands_over_and_takes_over) { ASSERT_EQ(0, custom_backend_main()); }

static leader_request from(const char *identity, uint64_t nonce, uint64_t seq) {
    leader_request r;
    memset(&r, 0, sizeof r);
    r.identity = identity;
    r.nonce = nonce;
    r.seq = seq;
    r.min_token = 1;
    r.lease_ms = 60000;
    return r;
}

struct store { row it; leader_record seen; };
UTEST_F_SETUP(store) { ASSERT_EQ(0, pthread_mutex_init(&utest_fixture->it.lock, NULL)); }
UTEST_F_TEARDOWN(store) { EXPECT_EQ(0, pthread_mutex_destroy(&utest_fixture->it.lock)); }

#define ACQUIRES(result, r) ASSERT_EQ(result, row_acquire(&utest_fixture->it, &(r), &utest_fixture->seen))
#define RENEWS(result, r)   ASSERT_EQ(result, row_renew(&utest_fixture->it, &(r), &utest_fixture->seen))
#define RELEASES(result, r) ASSERT_EQ(result, row_release(&utest_fixture->it, &(r), &utest_fixture->seen))

UTEST_F(store, keeps_others_out_for_lease_ms_and_says_how_long) {
    leader_request a = from("a", 1, 1), b = from("b", 2, 1);
    ACQUIRES(LEADER_OK, a);
    ACQUIRES(LEADER_HELD, b);
    ASSERT_STREQ("a", utest_fixture->seen.holder);
    ASSERT_EQ(1u, utest_fixture->seen.token);
    ASSERT_GT(utest_fixture->seen.expires_in_ms, 0);
    ASSERT_LE(utest_fixture->seen.expires_in_ms, 60000);
    RENEWS(LEADER_LOST, b);
    RELEASES(LEADER_LOST, b);
    RENEWS(LEADER_OK, a);
}

UTEST_F(store, lets_another_in_after_the_lease_and_the_old_one_out) {
    leader_request a = from("a", 1, 1), b = from("b", 2, 1);
    ACQUIRES(LEADER_OK, a);
    utest_fixture->it.expires_ms = store_clock_ms();
    ACQUIRES(LEADER_OK, b);
    ASSERT_EQ(2u, utest_fixture->seen.token);
    RENEWS(LEADER_LOST, a);
    RELEASES(LEADER_LOST, a);
    RENEWS(LEADER_OK, b);
}

UTEST_F(store, gives_every_term_a_token_above_all_earlier_and_not_below_the_one_asked_for) {
    leader_request a = from("a", 1, 1), b = from("b", 2, 1);
    ACQUIRES(LEADER_OK, a);
    RELEASES(LEADER_OK, a);
    ACQUIRES(LEADER_OK, b);
    ASSERT_EQ(2u, utest_fixture->seen.token);
    RELEASES(LEADER_OK, b);
    a.seq = 2;
    a.min_token = 40;
    ACQUIRES(LEADER_OK, a);
    ASSERT_EQ(40u, utest_fixture->seen.token);
}

UTEST_F(store, adopts_its_own_record_by_a_write_with_a_new_token) {
    leader_request a = from("a", 1, 1);
    ACQUIRES(LEADER_OK, a);
    a.seq = 2;
    ACQUIRES(LEADER_OK, a);
    ASSERT_EQ(2u, utest_fixture->seen.token);
}

UTEST_F(store, a_late_request_of_an_earlier_term_touches_nothing_of_a_later_one) {
    leader_request late = from("a", 1, 2), a = from("a", 1, 1);
    ACQUIRES(LEADER_OK, a);
    a.seq = 5;
    ACQUIRES(LEADER_OK, a);
    RELEASES(LEADER_LOST, late);
    RENEWS(LEADER_LOST, late);
    a.seq = 6;
    RENEWS(LEADER_OK, a);
}

UTEST_F(store, a_late_renewal_does_not_bring_a_released_lease_back) {
    leader_request a = from("a", 1, 1), late = from("a", 1, 2), b = from("b", 2, 1);
    ACQUIRES(LEADER_OK, a);
    a.seq = 3;
    RELEASES(LEADER_OK, a);
    RENEWS(LEADER_LOST, late);
    ACQUIRES(LEADER_OK, b);
}

UTEST_F(store, two_processes_of_one_name_never_both_hold_it) {
    leader_request a = from("a", 1, 1), twin = from("a", 2, 1);
    ACQUIRES(LEADER_OK, a);
    ACQUIRES(LEADER_E_DUPLICATE, twin);
    RENEWS(LEADER_LOST, twin);
    twin.reclaim = true;                        /* its caller vouches that the earlier one is dead                */
    ACQUIRES(LEADER_OK, twin);
    RENEWS(LEADER_LOST, a);
}

/* ---- threads, each with its own election, on one row ------------------------------------------------------------------------------ */

enum { CANDIDATES = 4, TERMS = 40 };
static row shared_row;
static int inside, overlaps, terms;

static void enter(void *user, uint64_t token) {
    (void)user; (void)token;
    if (__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST) != 1) __atomic_add_fetch(&overlaps, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&terms, 1, __ATOMIC_SEQ_CST);
}
static void leave(void *user, uint64_t token, leader_result why) {
    (void)user; (void)token; (void)why;
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
}

static void *candidate(void *name) {
    leader_t me;
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    cfg.identity = (const char *)name;
    cfg.backend = row_backend(&shared_row);
    cfg.lease_ms = 600000;                      /* no stall of the machine costs a term                           */
    cfg.retry_ms = 5;
    cfg.on_started_leading = enter;
    cfg.on_stopped_leading = leave;
    if (leader_init(&me, &cfg) != LEADER_OK) return NULL;
    for (int64_t end = store_clock_ms() + 30000; __atomic_load_n(&terms, __ATOMIC_SEQ_CST) < TERMS && store_clock_ms() < end;) {
        if (leader_wait(&me, 10) == LEADER_OK) leader_resign(&me, 1);
    }
    return leader_close(&me, 1000) == LEADER_OK ? name : NULL;
}

UTEST(custom_backend, threads_that_share_it_lead_one_at_a_time) {
    static char names[CANDIDATES][2] = {"a", "b", "c", "d"};
    pthread_t thread[CANDIDATES];
    ASSERT_EQ(0, pthread_mutex_init(&shared_row.lock, NULL));
    for (int i = 0; i < CANDIDATES; i++) ASSERT_EQ(0, pthread_create(&thread[i], NULL, candidate, names[i]));
    for (int i = 0; i < CANDIDATES; i++) {
        void *closed = NULL;
        ASSERT_EQ(0, pthread_join(thread[i], &closed));
        EXPECT_TRUE(closed != NULL);
    }
    EXPECT_GE(terms, TERMS);
    EXPECT_EQ(0, overlaps);
    EXPECT_EQ(0, inside);
}

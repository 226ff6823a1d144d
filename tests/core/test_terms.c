/* A term from its first request to its end: validity, deadline, renewals and their retries, tokens. Rules
   1, 2, 5, 7 and 9. */
#include "tests/core/fake_store.h"

UTEST_MAIN()

FAKE_FIXTURE(validity)
FAKE_FIXTURE(renewal)
FAKE_FIXTURE(lost)
FAKE_FIXTURE(token)
FAKE_FIXTURE(unknown_outcome)
FAKE_FIXTURE(nonsense)
FAKE_FIXTURE(single)

/* ---- rule 1: validity runs from the send ------------------------------------------------------- */

FAKE_TEST(validity, the_first_tick_acquires_and_leads) {
    begin(f);
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(5000, tick(f));
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(LEADER_STATE_LEADER, state(f));
    ASSERT_EQ(1u, leader_token(&f->me));
    ASSERT_STREQ("started 1; leader a; ", f->said);
}

FAKE_TEST(validity, of_a_term_runs_from_the_send_not_from_the_reply) {
    next(f, ACQUIRE, after(says(LEADER_OK), 2000));
    begin(f);
    run_to(f, 1999);
    ASSERT_FALSE(leads(f));
    run_to(f, 2000);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(8000, leader_remaining_ms(&f->me));
    stall_to(f, 9999);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(1, leader_remaining_ms(&f->me));
    stall_to(f, 10000);
    ASSERT_FALSE(leads(f));
}

FAKE_TEST(validity, of_a_renewal_runs_from_its_own_send) {
    next(f, RENEW, after(says(LEADER_OK), 2000));
    begin(f);
    run_to(f, 6999);
    ASSERT_EQ(3001, leader_remaining_ms(&f->me));
    run_to(f, 7000);
    ASSERT_EQ(8000, leader_remaining_ms(&f->me));
    stall_to(f, 14999);
    ASSERT_TRUE(leads(f));
    stall_to(f, 15000);
    ASSERT_FALSE(leads(f));
}

FAKE_TEST(validity, a_renewal_under_way_extends_nothing) {
    always(f, RENEW, never());
    begin(f);
    run_to(f, 5000);
    ASSERT_EQ(1, sends(f, RENEW));
    ASSERT_EQ(5000, leader_remaining_ms(&f->me));
}

FAKE_TEST(validity, an_acquire_answered_in_the_last_ms_leads_for_one_ms) {
    next(f, ACQUIRE, taking(says(LEADER_OK), 9999));
    begin(f);
    leader_tick(&f->me);
    ASSERT_EQ(1, f->started);
    ASSERT_EQ(1, sends(f, RENEW));              // and is renewed at once, being overdue
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(validity, an_acquire_answered_at_the_deadline_starts_no_term) {
    next(f, ACQUIRE, taking(says(LEADER_OK), 10000));
    begin(f);
    tick(f);
    ASSERT_FALSE(leads(f));
    ASSERT_STREQ("", f->said);
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
    ASSERT_EQ(1u, stats(f).failures_timeout);
    ASSERT_TRUE(strstr(leader_error(&f->me), "after the renew deadline") != NULL);
    run(f, 3000);                               // the next attempt adopts what is ours, by a write of its own
    ASSERT_EQ(2, sends(f, ACQUIRE));
    ASSERT_EQ(2u, sent(f, ACQUIRE, 1).min_token);
    ASSERT_STREQ("started 2; leader a; ", f->said);
}

FAKE_TEST(validity, a_renewal_answered_at_the_deadline_extends_nothing) {
    next(f, RENEW, taking(says(LEADER_OK), 5000));
    begin(f);
    run_to(f, 5000);
    ASSERT_FALSE(leads(f));
    ASSERT_STREQ("started 1; leader a; stopped 1 deadline; leader -; ", f->said);
    ASSERT_EQ(0u, stats(f).renewals);
}

FAKE_TEST(validity, a_token_told_after_the_deadline_is_remembered) {
    next(f, RENEW, taking(named(says(LEADER_LOST), "b", 50), 5000));
    begin(f);
    run_to(f, 5000);
    ASSERT_STREQ("started 1; leader a; stopped 1 deadline; leader -; ", f->said);
    run(f, 20000);
    ASSERT_EQ(51u, sent(f, ACQUIRE, -1).min_token);
}

FAKE_TEST(validity, a_renewal_answered_just_before_the_deadline_counts) {
    next(f, RENEW, taking(says(LEADER_OK), 4999));
    begin(f);
    run_to(f, 5000);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(1, f->started);
    ASSERT_EQ(1, stats(f).margin_ms_min);
}

/* ---- rule 2: every question is checked against the clock --------------------------------------- */

FAKE_TEST(validity, after_a_stall_every_question_says_no_without_a_tick) {
    begin(f);
    tick(f);
    stall(f, 9999);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(1u, leader_token(&f->me));
    stall(f, 1);
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(0u, leader_token(&f->me));
    ASSERT_EQ(0, leader_remaining_ms(&f->me));
    ASSERT_FALSE(view(f).leading);
    ASSERT_EQ(0u, view(f).token);
    ASSERT_EQ(0, view(f).remaining_ms);
    ASSERT_EQ(-1, view(f).since_ms);
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    char leader[8];
    ASSERT_EQ(0, leader_get_leader(&f->me, leader, sizeof leader));
    ASSERT_STREQ("", leader);
    ASSERT_EQ(1, f->started - f->stopped);      // the callback comes with the next tick
    tick(f);
    ASSERT_STREQ("started 1; leader a; stopped 1 deadline; leader -; ", f->said);
}

static void stall_ten_seconds(fake *f) { stall(f, 10000); }

static void ask_before_and_after_a_stall(fake *f) {
    if (!leads(f)) complain(f, "not leader in on_started_leading");
    stall(f, 10000);
    if (leads(f) || leader_token(&f->me) || leader_remaining_ms(&f->me))
        complain(f, "leader after a stall in the callback");
}

FAKE_TEST(validity, a_stall_inside_a_callback_is_seen_inside_that_callback) {
    f->in_started = ask_before_and_after_a_stall;
    begin(f);
    tick(f);
    ASSERT_EQ(1, f->stopped);
    ASSERT_TRUE(strstr(f->said, "stopped 1 deadline") != NULL);
}

FAKE_TEST(validity, a_stall_between_the_reading_and_the_reply_costs_the_term) {
    begin(f);
    run_to(f, 4999);
    f->in_call = stall_ten_seconds;             // the process sleeps inside the renew that the store grants
    stall_to(f, 5000);
    leader_tick(&f->me);
    f->in_call = NULL;
    ASSERT_EQ(1, f->stopped);
    ASSERT_TRUE(strstr(f->said, "stopped 1 deadline") != NULL);
}

FAKE_TEST(validity, a_tick_checks_the_deadline_before_a_waiting_reply) {
    next(f, RENEW, after(says(LEADER_OK), 100));
    begin(f);
    run_to(f, 5000);
    ASSERT_EQ(1, sends(f, RENEW));
    int calls = f->calls;
    f->cfg.is_drained = NULL;
    stall_to(f, 10000);
    f->drained = false;
    tick(f);
    ASSERT_EQ(1, f->stopped);
    ASSERT_EQ(1, f->cancels);                   // the reply was dropped unread
    ASSERT_TRUE(strstr(f->said, "stopped 1 deadline") != NULL);
    ASSERT_EQ(calls + 1, f->calls);  // one new request: the renewal that keeps the lease while draining
    ASSERT_EQ(2, sends(f, RENEW));
}

FAKE_TEST(validity, an_expired_term_is_over_for_good) {
    begin(f);
    tick(f);
    stall(f, 10000);
    f->drained = false;
    run(f, 60000);                              // the lease is kept while draining, the term is not
    ASSERT_GE(sends(f, RENEW), 10);
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(0u, leader_token(&f->me));
    ASSERT_EQ(1, f->started);
    f->drained = true;
    run(f, 5000);
    ASSERT_EQ(2, f->started);                   // only a new term, under a new token
    ASSERT_EQ(2u, leader_token(&f->me));
}

FAKE_TEST(validity, never_ticking_again_brings_no_callback) {
    begin(f);
    tick(f);
    stall(f, 100000);
    ASSERT_FALSE(leads(f));
    ASSERT_STREQ("started 1; leader a; ", f->said);
}

FAKE_TEST(validity, a_tick_less_than_deadline_minus_renew_late_costs_nothing) {
    begin(f);
    tick(f);
    stall(f, 9999);
    tick(f);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(10000, leader_remaining_ms(&f->me));
    ASSERT_EQ(1, f->started);
    ASSERT_EQ(0, f->stopped);
    ASSERT_EQ(1, stats(f).margin_ms_min);
    ASSERT_EQ(4999, stats(f).tick_late_ms_max);
}

/* ---- renewals ---------------------------------------------------------------------------------- */

FAKE_TEST(renewal, every_renew_ms_from_send_to_send) {
    next(f, RENEW, after(says(LEADER_OK), 1500));
    begin(f);
    run_to(f, 20000);
    ASSERT_STREQ("acquire 0, renew 5000, renew 10000, renew 15000, renew 20000", story(f));
    ASSERT_EQ(4u, stats(f).renewals);
}

FAKE_TEST(renewal, custom_renew_ms_is_obeyed) {
    f->cfg.renew_ms = 3000;
    begin(f);
    run_to(f, 9000);
    ASSERT_STREQ("acquire 0, renew 3000, renew 6000, renew 9000", story(f));
}

FAKE_TEST(renewal, one_failure_keeps_leadership_and_is_retried_after_500_ms) {
    next(f, RENEW, says(LEADER_E_IO));
    begin(f);
    run_to(f, 10500);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(0, f->stopped);
    ASSERT_STREQ("acquire 0, renew 5000, renew 5500, renew 10500", story(f));
}

FAKE_TEST(renewal, three_retries_after_500_1000_2000_ms_then_steps_down) {
    f->cfg.renew_retries = 3;
    always(f, RENEW, says(LEADER_E_IO));
    f->drained = false;
    begin(f);
    run_to(f, 8499);
    ASSERT_TRUE(leads(f));
    run_to(f, 8500);
    ASSERT_FALSE(leads(f));
    ASSERT_STREQ("started 1; leader a; stopped 1 io; leader -; ", f->said);
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    ASSERT_EQ(5000, sent(f, RENEW, 0).at_ms);
    ASSERT_EQ(5500, sent(f, RENEW, 1).at_ms);
    ASSERT_EQ(6500, sent(f, RENEW, 2).at_ms);
    ASSERT_EQ(8500, sent(f, RENEW, 3).at_ms);
}

FAKE_TEST(renewal, the_why_is_the_error_that_used_the_retries_up) {
    f->cfg.renew_retries = 3;
    next(f, RENEW, says(LEADER_E_IO));
    next(f, RENEW, says(LEADER_E_AUTH));
    next(f, RENEW, says(LEADER_E_TIMEOUT));
    next(f, RENEW, says(LEADER_E_CORRUPT));
    begin(f);
    run_to(f, 8500);
    ASSERT_STREQ("started 1; leader a; stopped 1 corrupt; leader -; ", f->said);
}

FAKE_TEST(renewal, a_success_between_failures_gives_all_retries_back) {
    for (int i = 0; i < 3; i++) next(f, RENEW, says(LEADER_E_IO));
    next(f, RENEW, says(LEADER_OK));
    for (int i = 0; i < 3; i++) next(f, RENEW, says(LEADER_E_IO));
    next(f, RENEW, says(LEADER_OK));
    begin(f);
    run_to(f, 20000);
    ASSERT_STREQ("acquire 0, renew 5000, renew 5500, renew 6500, renew 8500, renew 13500, renew 14000, renew "
                 "15000, renew 17000",
                 story(f));
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(0, f->stopped);
    ASSERT_EQ(6u, stats(f).failures_io);
}

FAKE_TEST(renewal, custom_retries_and_delay_are_obeyed) {
    f->cfg.renew_retries = 1;
    f->cfg.renew_retry_ms = 700;
    always(f, RENEW, says(LEADER_E_IO));
    begin(f);
    run_to(f, 5700);
    ASSERT_STREQ("started 1; leader a; stopped 1 io; leader -; ", f->said);
    ASSERT_EQ(5700, sent(f, RENEW, 1).at_ms);
}

FAKE_TEST(renewal, retries_are_scaled_down_for_short_leases) {
    f->cfg.renew_retries = 3;
    f->cfg.lease_ms = 1500;                     // deadline 1000, renew 500: retries after 50, 100, 200
    always(f, RENEW, says(LEADER_E_IO));
    begin(f);
    run_to(f, 850);
    ASSERT_EQ(550, sent(f, RENEW, 1).at_ms);
    ASSERT_EQ(650, sent(f, RENEW, 2).at_ms);
    ASSERT_EQ(850, sent(f, RENEW, 3).at_ms);
    ASSERT_STREQ("started 1; leader a; stopped 1 io; leader -; ", f->said);
}

FAKE_TEST(renewal, with_retries_minus_1_goes_on_until_the_deadline) {
    f->cfg.lease_ms = 60000;                    // deadline 40000, renew 20000
    f->cfg.renew_retries = -1;
    always(f, RENEW, says(LEADER_E_IO));
    begin(f);
    run_to(f, 39999);
    ASSERT_TRUE(leads(f));
    const int64_t at[] = {20000, 20500, 21500, 23500, 25500, 27500, 29500, 31500, 33500, 35500, 37500, 39500};
    for (int i = 0; i < 11; i++) ASSERT_EQ(at[i], sent(f, RENEW, i).at_ms);
    run_to(f, 40000);
    ASSERT_STREQ("started 1; leader a; stopped 1 deadline; leader -; ", f->said);
}

FAKE_TEST(renewal, without_an_answer_the_deadline_ends_the_term) {
    always(f, RENEW, never());
    begin(f);
    run_to(f, 9999);
    ASSERT_TRUE(leads(f));
    run_to(f, 10000);
    ASSERT_STREQ("started 1; leader a; stopped 1 deadline; leader -; ", f->said);
    ASSERT_EQ(5000, sent(f, RENEW, 0).at_ms);
    ASSERT_EQ(8000, sent(f, RENEW, 1).at_ms);   // timed out at 7500, retried 500 ms later
}

FAKE_TEST(renewal, its_time_limit_is_cut_to_what_is_left_before_the_deadline) {
    always(f, RENEW, never());
    begin(f);
    run_to(f, 8000);
    ASSERT_EQ(2500, sent(f, ACQUIRE, 0).timeout_ms);
    ASSERT_EQ(2500, sent(f, RENEW, 0).timeout_ms);
    ASSERT_EQ(2000, sent(f, RENEW, 1).timeout_ms);
}

FAKE_TEST(renewal, that_times_out_is_cancelled_once_and_counted_as_timeout) {
    next(f, RENEW, never());
    begin(f);
    run_to(f, 7499);
    ASSERT_EQ(0, f->cancels);
    run_to(f, 7500);
    ASSERT_EQ(1, f->cancels);
    ASSERT_EQ(1u, stats(f).failures_timeout);
    ASSERT_TRUE(strstr(leader_error(&f->me), "renew: no answer within 2500 ms") != NULL);
    ASSERT_TRUE(leads(f));
    run_to(f, 8000);
    ASSERT_EQ(10000, leader_remaining_ms(&f->me));
}

FAKE_TEST(renewal, does_not_retry_before_the_store_said_again_ms) {
    next(f, RENEW, again_in(says(LEADER_E_IO), 3000));
    begin(f);
    run_to(f, 8000);
    ASSERT_STREQ("acquire 0, renew 5000, renew 8000", story(f));
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(renewal, an_again_ms_beyond_the_deadline_is_tried_before_it) {
    next(f, RENEW, again_in(says(LEADER_E_IO), INT64_MAX));
    begin(f);
    run_to(f, 9999);
    ASSERT_EQ(2, sends(f, RENEW));
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(1, f->started);
}

FAKE_TEST(renewal, of_a_dead_store_steps_down_drains_and_competes_again) {
    always(f, RENEW, says(LEADER_E_IO));
    always(f, RELEASE, says(LEADER_E_IO));
    always(f, ACQUIRE, says(LEADER_E_IO));
    next(f, ACQUIRE, says(LEADER_OK));
    begin(f);
    run_to(f, 20000);
    ASSERT_EQ(1, f->stopped);
    ASSERT_EQ(1, sends(f, RELEASE));          // then it would rather have the lease back
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
    ASSERT_GE(sends(f, ACQUIRE), 2);
    well_again(f, ACQUIRE);
    well_again(f, RENEW);
    run(f, 60000);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(2, f->started);
}

/* ---- "not yours" ------------------------------------------------------------------------------- */

FAKE_TEST(lost, ends_the_term_at_once_without_draining_or_releasing) {
    next(f, RENEW, named(says(LEADER_LOST), "b", 9));
    always(f, ACQUIRE, held("b", 9, 15000));
    next(f, ACQUIRE, says(LEADER_OK));
    begin(f);
    run_to(f, 5000);
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
    ASSERT_EQ(0, leader_remaining_ms(&f->me));
    ASSERT_STREQ("started 1; leader a; stopped 1 lost; leader b; ", f->said);
    run_to(f, 15000);
    ASSERT_EQ(0, sends(f, RELEASE));
    ASSERT_EQ(10u, sent(f, ACQUIRE, -1).min_token);
    ASSERT_STREQ("started 1; leader a; stopped 1 lost; leader b; ", f->said);
}

FAKE_TEST(lost, without_a_holder_reports_that_nobody_leads) {
    next(f, RENEW, says(LEADER_LOST));
    always(f, ACQUIRE, says(LEADER_E_IO));
    next(f, ACQUIRE, says(LEADER_OK));
    begin(f);
    run_to(f, 5000);
    ASSERT_STREQ("started 1; leader a; stopped 1 lost; leader -; ", f->said);
}

FAKE_TEST(lost, the_work_of_a_lost_term_ends_before_it_competes_again) {
    next(f, RENEW, named(says(LEADER_LOST), "b", 9));
    f->drained = false;
    begin(f);
    run_to(f, 60000);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    ASSERT_GT(sends(f, OBSERVE), 0);            // meanwhile it watches
    f->drained = true;
    run(f, 2001);
    ASSERT_EQ(2, sends(f, ACQUIRE));
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(lost, while_draining_ends_the_keeping_of_the_lease) {
    begin(f);
    tick(f);
    f->drained = false;
    leader_resign(&f->me, 0);
    tick(f);
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    next(f, RENEW, named(says(LEADER_LOST), "b", 9));
    run(f, 10000);
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
    ASSERT_EQ(0, leader_remaining_ms(&f->me));
    ASSERT_EQ(0, sends(f, RELEASE));
    ASSERT_TRUE(strstr(f->said, "stopped 1 asked; leader -; leader b; ") != NULL);
}

FAKE_TEST(lost, a_duplicate_on_renew_ends_the_term_at_once_and_is_reported) {
    next(f, RENEW, named(says(LEADER_E_DUPLICATE), "a", 9));
    always(f, ACQUIRE, named(says(LEADER_E_DUPLICATE), "a", 9));
    next(f, ACQUIRE, says(LEADER_OK));
    begin(f);
    run_to(f, 5000);
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
    ASSERT_TRUE(strstr(f->said, "stopped 1 duplicate; ") != NULL);
    ASSERT_EQ(1u, stats(f).failures_duplicate);
    ASSERT_EQ(LEADER_E_DUPLICATE, stats(f).last_error);
    ASSERT_TRUE(strstr(leader_error(&f->me), "another process uses our identity") != NULL);
    run_to(f, 100000);
    ASSERT_EQ(0, sends(f, RELEASE));            // it is the other's
    ASSERT_GT(sends(f, ACQUIRE), 2);            // reported and retried slowly, never given up
}

FAKE_TEST(lost, a_duplicate_on_acquire_starts_no_term_and_is_retried_slowly) {
    always(f, ACQUIRE, named(says(LEADER_E_DUPLICATE), "a", 9));
    begin(f);
    run_to(f, 7999);
    ASSERT_EQ(1, sends(f, ACQUIRE));            // an ordinary attempt would have come after 2000
    run_to(f, 300000);
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(0, f->started);
    ASSERT_GT(sends(f, ACQUIRE), 4);
    ASSERT_EQ((uint64_t)sends(f, ACQUIRE), stats(f).failures_duplicate);
}

/* ---- rule 5: tokens ---------------------------------------------------------------------------- */

FAKE_TEST(token, of_every_term_is_greater_than_of_the_one_before) {
    begin(f);
    for (int i = 0; i < 20; i++) {
        run(f, 6000);
        ASSERT_TRUE(leads(f));
        leader_resign(&f->me, 1);
        run(f, 3000);
    }
    ASSERT_GE(f->started, 20);                  // and the fixture watches that each is greater
}

FAKE_TEST(token, the_highest_one_seen_is_carried_into_the_next_acquire) {
    next(f, ACQUIRE, held("b", 40, 1));
    next(f, ACQUIRE, held("c", 30, 1));
    begin(f);
    run_to(f, 3000);
    ASSERT_EQ(1u, sent(f, ACQUIRE, 0).min_token);
    ASSERT_EQ(41u, sent(f, ACQUIRE, 1).min_token);
    ASSERT_EQ(41u, sent(f, ACQUIRE, 2).min_token);
    ASSERT_EQ(41u, leader_token(&f->me));
}

FAKE_TEST(token, one_seen_by_observing_counts_too) {
    f->healthy = false;
    fake_answer seen = held("b", 40, 15000);
    next(f, OBSERVE, seen);
    begin(f);
    tick(f);
    ASSERT_EQ(1, sends(f, OBSERVE));
    f->healthy = true;
    run_to(f, 3000);
    ASSERT_EQ(41u, sent(f, ACQUIRE, 0).min_token);
}

FAKE_TEST(token, one_seen_in_a_renewal_that_failed_counts_too) {
    next(f, RENEW, named(says(LEADER_LOST), "b", 77));
    begin(f);
    run_to(f, 8000);
    ASSERT_EQ(78u, sent(f, ACQUIRE, 1).min_token);
}

FAKE_TEST(token, below_the_highest_seen_starts_no_term) {
    next(f, ACQUIRE, held("b", 40, 1));
    next(f, ACQUIRE, granted(40, 0));
    begin(f);
    run_to(f, 1000);
    ASSERT_EQ(2, sends(f, ACQUIRE));
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(0, f->started);
    ASSERT_EQ(1u, stats(f).failures_corrupt);
    ASSERT_TRUE(strstr(leader_error(&f->me), "token 40, but 40 was seen before") != NULL);
    leader_stop(&f->me);                        // the store thinks that it is ours: it is given back
    run(f, 100);
    ASSERT_EQ(1, sends(f, RELEASE));
    ASSERT_TRUE(leader_is_stopped(&f->me));
}

FAKE_TEST(token, zero_starts_no_term) {
    f->cfg.backend.acquire = fake_renew_;       // answers OK and fills nothing in
    begin(f);
    run_to(f, 1000);
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(0, f->started);
    ASSERT_EQ(1u, stats(f).failures_corrupt);
}

FAKE_TEST(token, too_large_starts_no_term_and_poisons_nothing) {
    next(f, ACQUIRE, granted(UINT64_MAX, 0));
    next(f, ACQUIRE, granted((uint64_t)INT64_MAX + 1, 0));
    fake_answer absurd = held("b", UINT64_MAX, 1);
    next(f, ACQUIRE, absurd);
    begin(f);
    run_to(f, 1);
    ASSERT_FALSE(leads(f));
    ASSERT_TRUE(strstr(leader_error(&f->me), "larger than 2^63") != NULL);
    run_to(f, 120000);
    ASSERT_EQ(3u, stats(f).failures_corrupt);
    ASSERT_EQ(1u, sent(f, ACQUIRE, -1).min_token);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(1u, leader_token(&f->me));
    ASSERT_STREQ("started 1; leader a; ", f->said);  // the holder of an absurd record is not believed either
}

FAKE_TEST(token, too_large_is_given_back_on_stop) {
    next(f, ACQUIRE, granted(UINT64_MAX, 0));
    begin(f);
    tick(f);
    leader_stop(&f->me);
    run(f, 100);
    ASSERT_EQ(1, sends(f, RELEASE));
}

FAKE_TEST(token, same_token_same_term_through_all_renewals) {
    next(f, RENEW, named(says(LEADER_OK), "a", 500));   // what a renewal says of the token changes nothing
    begin(f);
    run_to(f, 30000);
    ASSERT_EQ(1u, leader_token(&f->me));
    ASSERT_EQ(1, f->started);
}

/* ---- rule 7: an unknown outcome is never success ----------------------------------------------- */

FAKE_TEST(unknown_outcome, of_an_acquire_is_not_success_and_the_next_one_finds_out) {
    next(f, ACQUIRE, never());
    begin(f);
    run_to(f, 2500);
    ASSERT_EQ(1, f->cancels);
    ASSERT_EQ(0, f->started);
    ASSERT_FALSE(leads(f));
    run_to(f, 6000);
    ASSERT_EQ(2, sends(f, ACQUIRE));
    ASSERT_EQ(1, f->started);
    // from that write's reading
    ASSERT_EQ(10000 - (6000 - sent(f, ACQUIRE, 1).at_ms), leader_remaining_ms(&f->me));
}

FAKE_TEST(unknown_outcome, a_request_is_never_answered_twice_or_by_another) {
    next(f, RENEW, never());
    begin(f);
    run_to(f, 8000);
    ASSERT_EQ(2, sends(f, RENEW));
    ASSERT_NE(sent(f, RENEW, 0).seq, sent(f, RENEW, 1).seq);
    ASSERT_EQ(18000 - 8000, leader_remaining_ms(&f->me));
}

FAKE_TEST(unknown_outcome, of_an_acquire_is_released_on_stop) {
    next(f, ACQUIRE, never());
    always(f, ACQUIRE, says(LEADER_E_IO));
    begin(f);
    run_to(f, 2600);
    leader_stop(&f->me);
    run(f, 100);
    ASSERT_EQ(1, sends(f, RELEASE));
    ASSERT_TRUE(leader_is_stopped(&f->me));
}

FAKE_TEST(unknown_outcome, after_a_definite_held_there_is_nothing_to_release) {
    next(f, ACQUIRE, never());
    next(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    run_to(f, 4000);
    ASSERT_EQ(2, sends(f, ACQUIRE));
    leader_stop(&f->me);
    run(f, 100);
    ASSERT_EQ(0, sends(f, RELEASE));
    ASSERT_TRUE(leader_is_stopped(&f->me));
}

FAKE_TEST(unknown_outcome, without_a_cancel_function_works_the_same) {
    f->cfg.backend.cancel = NULL;
    next(f, ACQUIRE, after(says(LEADER_OK), 2600));
    begin(f);
    run_to(f, 2600);
    ASSERT_FALSE(leads(f));
    run_to(f, 9000);
    ASSERT_GE(sends(f, ACQUIRE), 2);
}

/* ---- a store, or a backend, that says what makes no sense -------------------------------------- */

FAKE_TEST(nonsense, lost_in_answer_to_an_acquire_is_an_error_not_a_term) {
    next(f, ACQUIRE, says(LEADER_LOST));
    begin(f);
    tick(f);
    ASSERT_EQ(0, f->started);
    ASSERT_EQ(1u, stats(f).failures);
    ASSERT_TRUE(strstr(leader_error(&f->me), "does not belong to the request") != NULL);
    run_to(f, 60000);
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(nonsense, held_in_answer_to_a_renewal_is_a_failure_that_is_retried) {
    next(f, RENEW, held("b", 5, 1000));
    begin(f);
    run_to(f, 5500);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(2, sends(f, RENEW));
    ASSERT_EQ(1u, stats(f).failures);
}

FAKE_TEST(nonsense, held_in_answer_to_every_renewal_ends_the_term_by_retries) {
    f->cfg.renew_retries = 3;
    always(f, RENEW, held("b", 5, 1000));
    begin(f);
    run_to(f, 8500);
    ASSERT_TRUE(strstr(f->said, "stopped 1 nonsense; ") != NULL);
}

FAKE_TEST(nonsense, codes_that_exist_but_belong_to_nobody_are_errors) {
    const leader_result codes[] = {LEADER_UNHEALTHY, LEADER_E_CONFIG, LEADER_E_REENTRANT, LEADER_E_STATE};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) next(f, ACQUIRE, says(codes[i]));
    begin(f);
    run_to(f, 400000);
    ASSERT_EQ(4u, stats(f).failures);
    ASSERT_EQ(1, f->started);
}

#ifndef __cplusplus                             // C++ leaves enum values out of range undefined
FAKE_TEST(nonsense, codes_that_do_not_exist_are_errors) {
    next(f, ACQUIRE, says((leader_result)77));
    next(f, ACQUIRE, says((leader_result)-77));
    next(f, RENEW, says((leader_result)77));
    next(f, RELEASE, says((leader_result)77));
    begin(f);
    run_to(f, 200000);
    ASSERT_EQ(3u, stats(f).failures);
    ASSERT_EQ(1, f->started);
    ASSERT_EQ(0, f->stopped);
    leader_stop(&f->me);
    run(f, 5000);
    ASSERT_EQ(2, sends(f, RELEASE));
    ASSERT_TRUE(leader_is_stopped(&f->me));
}
#endif

FAKE_TEST(nonsense, a_holder_without_its_terminating_zero_is_cut_not_overrun) {
    fake_answer a = held("", 5, 1000);
    memset(a.record.holder, 'x', sizeof a.record.holder);
    next(f, ACQUIRE, a);
    begin(f);
    tick(f);
    char leader[300];
    ASSERT_EQ(LEADER_IDENTITY_MAX, leader_get_leader(&f->me, leader, sizeof leader));
    ASSERT_EQ((size_t)LEADER_IDENTITY_MAX, strlen(leader));
    ASSERT_EQ((size_t)LEADER_IDENTITY_MAX, strlen(view(f).leader));
}

FAKE_TEST(nonsense, times_beyond_all_reason_neither_overflow_nor_stop_the_ticks) {
    const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -2, 0, INT64_MAX - 1, INT64_MAX};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        fake_answer a = held("b", 5, times[i]);
        a.record.hold_off_ms = a.record.again_ms = times[i];
        next(f, ACQUIRE, a);
        a.result = LEADER_E_IO;
        next(f, ACQUIRE, a);
    }
    begin(f);
    run_to(f, 1000000);
    ASSERT_EQ(1, f->started);
    ASSERT_EQ(13, sends(f, ACQUIRE));
}

FAKE_TEST(nonsense, a_hold_off_without_end_starts_no_term_and_does_not_overflow) {
    next(f, ACQUIRE, granted(0, INT64_MAX));
    begin(f);
    run_to(f, 10000000);
    ASSERT_EQ(0, f->started);
    ASSERT_EQ(2000, sends(f, RENEW));
}

FAKE_TEST(nonsense, a_negative_hold_off_is_none) {
    next(f, ACQUIRE, granted(0, INT64_MIN));
    begin(f);
    tick(f);
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(nonsense, an_absurd_again_ms_neither_overflows_nor_oversleeps) {
    next(f, ACQUIRE, again_in(never(), INT64_MAX));
    f->cfg.on_fd = NULL;
    begin(f);
    run_to(f, 2500);
    ASSERT_EQ(1, f->cancels);
    next(f, ACQUIRE, again_in(never(), INT64_MIN));
    run_to(f, 10000);
    ASSERT_EQ(2, f->cancels);
}

/* ---- single node ------------------------------------------------------------------------------- */

static void forget_backend(fake *f) { memset(&f->cfg.backend, 0, sizeof f->cfg.backend); }

FAKE_TEST(single, node_is_the_default_and_says_so_once_as_a_warning) {
    forget_backend(f);
    begin(f);
    ASSERT_STREQ("", f->log);                   // init calls no callback
    tick(f);
    ASSERT_TRUE(leads(f));
    ASSERT_TRUE(strstr(f->log, "W single node: config.backend is not set") == f->log);
    size_t n = strlen(f->log);
    run(f, 100000);
    ASSERT_EQ(n, strlen(f->log));
}

FAKE_TEST(single, node_asked_for_by_name_is_silent) {
    f->cfg.backend = leader_single_backend();
    begin(f);
    run(f, 100000);
    ASSERT_TRUE(leads(f));
    ASSERT_TRUE(strchr(f->log, 'W') == NULL);
    ASSERT_TRUE(strchr(f->log, 'E') == NULL);
}

FAKE_TEST(single, node_is_always_leader_with_token_1) {
    f->cfg.backend = leader_single_backend();
    begin(f);
    run(f, 3600000);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(1u, leader_token(&f->me));
    ASSERT_STREQ("started 1; leader a; ", f->said);
    ASSERT_EQ(0u, stats(f).failures);
}

FAKE_TEST(single, node_that_stalled_leads_again_under_a_greater_token) {
    f->cfg.backend = leader_single_backend();
    begin(f);
    tick(f);
    stall(f, 3600000);
    ASSERT_FALSE(leads(f));
    run(f, 5000);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(2u, leader_token(&f->me));
}

FAKE_TEST(single, node_obeys_stop_and_resign) {
    f->cfg.backend = leader_single_backend();
    begin(f);
    tick(f);
    leader_resign(&f->me, 7000);
    run(f, 6999);
    ASSERT_FALSE(leads(f));
    run(f, 2);
    ASSERT_TRUE(leads(f));
    leader_stop(&f->me);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_STREQ(
        "started 1; leader a; stopped 1 asked; leader -; started 2; leader a; stopped 2 asked; leader -; ",
        f->said);
}
